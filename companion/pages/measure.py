"""How a page reads: words, lengths of sentences, the share of its code that is seen, minutes.

`python -m companion.pages.measure [PAGE …]` prints a table of all pages, or of those named. What is folded on a
page (solutions, dropdowns) is not counted; a number, a formula and a piece of code in a sentence are a word each.
"""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

from companion.pages import chapters, markdown, parameters

SPEED = 230  # words a minute
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
SILENT = {*markdown.DROPPED, "dropdown", "math", "literalinclude", "at-a-glance", "code-block", "code", "bibliography",
          "toctree", "contents", "raw", "tableofcontents", "theorem-index"}  # fmt: skip
SHORT = r"\b(eqs?|Secs?|Figs?|Algs?|App|Tab|Prop|Thm|Ref|no|vs|cf|ca|e\.g|i\.e|et al|resp)\."
END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[A-Z0-9“\"(\[])")
BOUNDS = {"longest": 35, "median": 18, "visible": 0.6, "hidden": 15, "minutes": 20}


def unfolded(nb) -> tuple[str, list]:
    """A chapter's text and its code cells, without the folded solutions."""
    texts, cells, inside = [], [], False
    for cell in nb.cells:
        if cell.cell_type != "markdown":
            cells += [] if inside else [cell]
            continue
        for part in re.split(r"^`{3,}(?=\{solution-)", cell.source, flags=re.MULTILINE):
            if part.startswith("{solution-"):
                inside = part.startswith("{solution-start}")
                part = part.partition("\n")[2]
            texts += [] if inside else [part]
    return "\n\n".join(texts), cells


def paragraphs(text: str) -> list[str]:
    """What is read as sentences: paragraphs, list items, captions and boxes, as plain words."""
    found = []
    for name, _, _, body in markdown.pieces(text):
        if name in SILENT or name == "solution":
            continue
        if name:
            found += paragraphs(body)
            continue
        body = re.sub(r"^(`{3,})[\w-]*\n.*?^\1\s*$", "", body, flags=re.MULTILINE | re.DOTALL)
        body = re.sub(r"\$\$.*?\$\$|<!--.*?-->", "", body, flags=re.DOTALL)
        body = re.sub(r"^(#|\||`{3,}|:{3,}|---|\([\w-]+\)=|!\[).*$", "", body, flags=re.MULTILINE)
        for block in re.split(r"\n\s*\n|^\s*(?:[-*+]|\d+\.|>|:) ", body, flags=re.MULTILINE):
            words = markdown.GLUE.sub("1", block)
            words = re.sub(r"(\{[\w:-]+\})?(`+).+?\2|\$[^$]+\$", _word, words, flags=re.DOTALL)
            words = re.sub(r"\[([^\]]*)\][({][^)}]*[)}]", lambda m: m[1] or "X", words)
            found.append(" ".join(re.sub(r"[*_]", "", words).split()))
    return [each for each in found if re.search(r"\w", each)]


def _word(match: re.Match) -> str:
    """A role as its words; a formula or a piece of code as one."""
    if not match[1] or re.match(r"\{(cite|numref|eq|ref|prf|doc)", match[1]):
        return "X"
    return markdown.roles(match[0], {}, {})


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    parts = [re.sub(SHORT, r"\1", each) for each in paragraphs(text)]
    return [each for part in parts for each in END.split(part) if count(each)]


def count(sentence: str) -> int:
    """How many words it has."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def lines(cell) -> int:
    """A cell's lines of code."""
    return sum(bool(line.strip()) for line in cell.source.split("\n"))


def measure(text: str, cells=()) -> dict:
    """words, median and longest (words of a sentence), visible (share of code lines, None without code),
    hidden (lines of the longest hidden cell), minutes."""
    lengths = [count(each) for each in sentences(text)] or [0]
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
        return measure(path.read_text(encoding="utf-8"))
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
