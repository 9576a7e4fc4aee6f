"""How a page reads: words, lengths of sentences, the share of its code that is seen, minutes.

`python -m companion.pages.measure [PAGE …]` prints a table of all pages, or of those named. What is folded on a
page (solutions, dropdowns) is not counted; a number, a formula and a piece of code in a sentence are a word each.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from markdown_it.token import Token

from companion.pages import chapters, markdown, myst, parameters

SPEED = 230  # words a minute
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
NOT_READ = {  # directives whose body is folded, or no sentence
    *markdown.OMITTED, "solution", "dropdown", "math", "literalinclude", "at-a-glance", "code-block", "code",
    "bibliography", "toctree", "contents", "raw", "tableofcontents", "theorem-index",
}  # fmt: skip
NOT_PROSE = {"heading", "table", "fence", "code_block", "math_block", "html_block"}
ONE_WORD = {"code_inline", "math_inline"}
REFERENCE = re.compile(r"cite|numref|eq|ref|prf|doc|glue")
ABBREVIATION = re.compile(
    r"\b(eqs?|Secs?|Figs?|Algs?|App|Tab|Prop|Thm|Ref|no|vs|cf|ca|e\.g|i\.e|et al|resp)\."
)
END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[A-Z0-9“\"(\[])")
BOUNDS = {"longest": 35, "median": 18, "visible": 0.6, "hidden": 15, "minutes": 20}


def unfolded(nb) -> tuple[list[myst.Block], list]:
    """A chapter's blocks and its code cells, without the folded solutions."""
    read = [part for part in myst.parts(nb.cells) if not part.solves]
    blocks = [block for part in read for block in part.blocks]
    return blocks, [part.cell for part in read if part.cell.cell_type == "code"]


def paragraphs(blocks: Iterable[myst.Block]) -> Iterator[str]:
    """The words of each paragraph, list item and caption, also in boxes."""
    for block in blocks:
        if block.kind == "directive":
            yield from () if block.name in NOT_READ else paragraphs(myst.parse(block.body))
        elif block.kind not in NOT_PROSE:
            for token in block.tokens:
                if token.type == "inline":
                    yield " ".join("".join(_words(token.children)).split())


def _words(tokens: list[Token]) -> Iterator[str]:
    """Inline tokens as words; a reference, a number, a formula, a piece of code is one."""
    previous = None
    for token in tokens:
        if token.type in ("text", "text_special"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type in ONE_WORD or (token.type == "link_close" and previous == "link_open"):
            yield "X"
        elif token.type == "myst_role":
            reference = REFERENCE.match(token.meta["name"])
            yield (
                "X"
                if reference
                else markdown.PlainMarkdown({}, {}).role(token.meta["name"], token.content)
            )
        previous = token.type


def sentences(blocks: Iterable[myst.Block]) -> list[str]:
    """The sentences of a text."""
    texts = (ABBREVIATION.sub(r"\1", text) for text in paragraphs(blocks))
    return [sentence for text in texts for sentence in END.split(text) if count(sentence)]


def count(sentence: str) -> int:
    """How many words it has."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def lines(cell) -> int:
    """A cell's lines of code."""
    return sum(bool(line.strip()) for line in cell.source.split("\n"))


def measure(blocks: Iterable[myst.Block], cells=()) -> dict:
    """words, median and longest (words of a sentence), visible (share of code lines, None without code),
    hidden (lines of the longest hidden cell), minutes."""
    lengths = [count(each) for each in sentences(blocks)] or [0]
    unseen = [lines(c) for c in cells if HIDDEN & {*c.metadata.get("tags", [])}]
    code = sum(map(lines, cells))
    return {
        "words": sum(lengths),
        "median": statistics.median(lengths),
        "longest": max(lengths),
        "visible": 1 - sum(unseen) / code if code else None,
        "hidden": max(unseen, default=0),
        "minutes": sum(lengths) / SPEED,
    }


def page(name: str) -> dict:
    """The measures of a chapter (its stem) or of a page (its path below book/, without `.md`)."""
    path = parameters.ROOT / "book" / f"{name}.md"
    if path.is_file():
        return measure(myst.parse(path.read_text(encoding="utf-8")))
    return measure(*unfolded(chapters.notebook(name)))


def names() -> list[str]:
    """All pages: chapters, then the book's own."""
    book = parameters.ROOT / "book"
    written = sorted(path.relative_to(book) for path in book.rglob("*.md"))
    own = [str(path.with_suffix("")) for path in written if path.parts[0] != "chapters"]
    return [*chapters.names(), *own]


def faults(found: dict) -> list[str]:
    """Where a page's measures are out of BOOK.md's bounds, a plain sentence each."""
    said = {
        "longest": "a sentence has {} words, the most is {}",
        "median": "the median sentence has {} words, it must be under {}",
        "visible": "{:.0%} of the code is visible, the least is {:.0%}",
        "hidden": "a hidden cell has {} lines, the most is {}",
        "minutes": "it takes {:.1f} minutes to read, the most is {}",
    }
    wrong = {key: (found[key] or 0) > bound for key, bound in BOUNDS.items()}
    wrong["median"] = found["median"] >= BOUNDS["median"]
    wrong["visible"] = found["visible"] is not None and found["visible"] < BOUNDS["visible"]
    return [said[key].format(found[key], bound) for key, bound in BOUNDS.items() if wrong[key]]


def table(pages: list[str]) -> str:
    """The measures of pages, a line each."""
    rows = [
        f"{'page':28} {'words':>6} {'median':>6} {'longest':>7} {'visible':>7} {'hidden':>6} {'min':>5}"
    ]
    for name in pages:
        m = page(name)
        seen = "" if m["visible"] is None else f"{m['visible']:.0%}"
        rows.append(
            f"{name:28} {m['words']:6} {m['median']:6g} {m['longest']:7} {seen:>7} "
            f"{m['hidden'] or '':>6} {m['minutes']:5.1f}"
        )
    return "\n".join(rows)


def named(word: str) -> str:
    """A page by its name or its file: `05`, `notebooks/05_experiments.py`, `book/teaching/syllabus.md`."""
    if word.endswith(".md"):
        return word.removesuffix(".md").removeprefix("book/")
    return Path(word).stem if word.endswith(".py") else word


if __name__ == "__main__":
    print(table([named(word) for word in sys.argv[1:]] or names()))
