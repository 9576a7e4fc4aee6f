"""Measure how pages read: words, lengths of sentences, the share of visible code, minutes.

`python -m companion.pages.measure [PAGE …]` prints a table of all pages, or of some. Text that is
folded (solutions, dropdowns) is not counted; a number, a formula and a piece of code count as a word each.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from markdown_it.token import Token

from companion.pages import chapters, markdown, myst, parameters

WORDS_A_MINUTE = 230
HIDDEN_TAGS = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
NOT_READ = {  # directives whose body is folded, or no sentence
    *markdown.OMITTED,
    "solution",
    "dropdown",
    "math",
    "literalinclude",
    "at-a-glance",
    "code-block",
    "code",
    "bibliography",
    "toctree",
    "contents",
    "raw",
    "tableofcontents",
    "theorem-index",
}
NOT_PROSE = {"heading", "table", "fence", "code_block", "math_block", "html_block"}
ONE_WORD = {"code_inline", "math_inline"}
REFERENCE = re.compile(r"cite|numref|eq|ref|prf|doc|glue")
ABBREVIATION = re.compile(
    r"\b(eqs?|Secs?|Figs?|Algs?|App|Tab|Prop|Thm|Ref|no|vs|cf|ca|e\.g|i\.e|et al|resp)\."
)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[A-Z0-9“\"(\[])")


def unfolded_content(nb) -> tuple[list[myst.Block], list]:
    """Return a chapter's blocks and code cells, without the solutions, which are folded on the page."""
    read = [part for part in myst.parts(nb.cells) if not part.solves]
    blocks = [block for part in read for block in part.blocks]
    return blocks, [part.cell for part in read if part.cell.cell_type == "code"]


def paragraphs(blocks: Iterable[myst.Block]) -> Iterator[str]:
    """Yield the words of each paragraph, list item and caption, those in boxes, too."""
    for block in blocks:
        if block.kind == "directive":
            yield from () if block.name in NOT_READ else paragraphs(myst.parse(block.body))
        elif block.kind not in NOT_PROSE:
            for token in block.tokens:
                if token.type == "inline":
                    yield " ".join("".join(_words(token.children)).split())


def _words(tokens: list[Token]) -> Iterator[str]:
    """Yield inline tokens as text, with `X` for a reference, a number, a formula or a piece of code: each counts as a word."""
    previous = None  # the type of the token before
    for token in tokens:
        if token.type in ("text", "text_special"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
        # A link that closes where it opens has no words of its own: the book fills in those of its target.
        elif token.type in ONE_WORD or (token.type == "link_close" and previous == "link_open"):
            yield "X"
        elif token.type == "myst_role":
            reference = REFERENCE.match(token.meta["name"])
            # No values and no labels ({}, {}): other roles are read as their own words.
            yield (
                "X"
                if reference
                else markdown.PlainMarkdown({}, {}).role(token.meta["name"], token.content)
            )
        previous = token.type


def sentences(blocks: Iterable[myst.Block]) -> list[str]:
    """Split the paragraphs of a text into sentences."""
    texts = (ABBREVIATION.sub(r"\1", text) for text in paragraphs(blocks))
    return [
        sentence for text in texts for sentence in SENTENCE_END.split(text) if count_words(sentence)
    ]


def count_words(sentence: str) -> int:
    """Count the words of a sentence."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def count_lines(cell) -> int:
    """Count a cell's lines of code."""
    return sum(bool(line.strip()) for line in cell.source.split("\n"))


def measure(blocks: Iterable[myst.Block], cells=()) -> dict:
    """Measure a text and its code cells.

    Returns:
        words, median and longest (words of a sentence), visible (share of the lines of code, None without
        code), hidden (lines of the longest hidden cell), minutes.
    """
    lengths = [count_words(sentence) for sentence in sentences(blocks)] or [0]
    hidden = [count_lines(c) for c in cells if HIDDEN_TAGS & {*c.metadata.get("tags", [])}]
    code = sum(map(count_lines, cells))
    return {
        "words": sum(lengths),
        "median": statistics.median(lengths),
        "longest": max(lengths),
        "visible": 1 - sum(hidden) / code if code else None,
        "hidden": max(hidden, default=0),
        "minutes": sum(lengths) / WORDS_A_MINUTE,
    }


def measure_page(name: str) -> dict:
    """Measure a chapter (by its stem) or a page (by its path below book/, without `.md`)."""
    path = parameters.ROOT / "book" / f"{name}.md"
    if path.is_file():
        return measure(myst.parse(path.read_text(encoding="utf-8")))
    return measure(*unfolded_content(chapters.read_notebook(name)))


def names() -> list[str]:
    """List all pages: the chapters, then the others by their path below book/."""
    book = parameters.ROOT / "book"
    paths = sorted(path.relative_to(book) for path in book.rglob("*.md"))
    others = [str(path.with_suffix("")) for path in paths if path.parts[0] != "chapters"]
    return [*chapters.names(), *others]


def format_table(pages: list[str]) -> str:
    """Format the measures of pages, a line each."""
    rows = [
        f"{'page':28} {'words':>6} {'median':>6} {'longest':>7} {'visible':>7} {'hidden':>6} {'min':>5}"
    ]
    for name in pages:
        measures = measure_page(name)
        visible = "" if measures["visible"] is None else f"{measures['visible']:.0%}"
        rows.append(
            f"{name:28} {measures['words']:6} {measures['median']:6g} {measures['longest']:7} {visible:>7} "
            f"{measures['hidden'] or '':>6} {measures['minutes']:5.1f}"
        )
    return "\n".join(rows)


def page_name(word: str) -> str:
    """Return a page's name from it or a file: `05`, `notebooks/05_experiments.py`, `book/teaching/syllabus.md`."""
    if word.endswith(".md"):
        return word.removesuffix(".md").removeprefix("book/")
    return Path(word).stem if word.endswith(".py") else word


if __name__ == "__main__":
    print(format_table([page_name(word) for word in sys.argv[1:]] or names()))
