"""Write a chapter's MyST text as plain Markdown, for Jupyter without extensions and for slides.

Directives become headings, quotations and captions; roles become words and numbers.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from companion.pages import citations, myst, parameters

# Directives of which nothing is written.
OMITTED = ("provenance", "solution-end", "ledger-bar", "ledger-core")
AS_WRITTEN = ("fence", "code_block", "math_block", "html_block")
CITATION = ("cite:p", "cite:t")
REFERENCES = ("numref", "prf:ref", "ref", "eq")
QUOTATIONS = ("admonition", "margin", "note", "warning", "tip", "important", "dropdown")


class PlainMarkdown:
    """A visitor that writes blocks as plain Markdown. Subclasses override what they write otherwise.

    Args:
        values: the glued values by name.
        labels: what a reference to a label reads (`myst.reference_texts`).
    """

    def __init__(self, values: dict[str, Any], labels: dict[str, str]):
        self.values, self.labels = values, labels

    def text(self, source: str) -> str:
        """Return a text in plain Markdown."""
        return self.blocks(myst.parse(source))

    def blocks(self, blocks: list[myst.Block]) -> str:
        """Blocks in plain Markdown."""
        written = []
        for block in blocks:
            if block.kind == "directive":
                written.append(f"\n{self.directive(block)}\n\n")
            elif block.kind in AS_WRITTEN:
                written.append(block.source)
            elif block.kind != "myst_target":
                written.append(self.inline(block.source))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).strip("\n")

    def inline(self, text: str) -> str:
        """Return a line, a paragraph or a list with words for its roles."""
        return myst.inline(text, self.role, self.link)

    def role(self, name: str, content: str) -> str:
        """Return the words for a role."""
        if name == "glue:text":
            key, _, form = content.rpartition("::")[2].partition(":")
            return self.value(key, form)
        if name in CITATION:
            return citations.cite(content, in_text=name == "cite:t")
        title, target = re.fullmatch(r"(?:(.*?)\s*<)?/?(.*?)>?", content).groups()
        if name in REFERENCES:
            return title or self.labels.get(target) or self.elsewhere(target)
        if name == "doc":
            return title or f"`{target}`"
        return title if title and name == "term" else content

    def elsewhere(self, label: str) -> str:
        """Return what a reference to a label of another chapter reads, as "Lemma 2 of chapter 4a"."""
        stem, text = labels_of_chapters(parameters.sources()).get(label, ("", ""))
        return f"{text} of {self.link(chapter_name(stem), f'{stem}.ipynb')}" if stem else "the book"

    def value(self, key: str, form: str) -> str:
        """Return a glued value in the format that the text asks for; an ellipsis where there is none."""
        return format_glued(self.values[key], form) if key in self.values else "…"

    def link(self, text: str, target: str) -> str:
        """Return a link; one without a text is that of a chapter or page, and reads as its name."""
        page = re.fullmatch(r"([\w/]+)\.(?:ipynb|md)", target)
        return f"[{page[1]}]({page[1]}.ipynb)" if page and not text else f"[{text}]({target})"

    def directive(self, block: myst.Block) -> str:
        """Return a directive in plain Markdown."""
        title, label = self.inline(block.argument), self.labels.get(block.label)
        theorem = block.name.removeprefix("prf:")
        match block.name:
            case name if name in OMITTED:
                return ""
            case "at-a-glance":
                needs = block.options.get("needs")
                return f"*Needs: {needs}*" if needs else ""
            case "explorer":
                return "*(The demo is interactive: it stands here on this chapter's page in the book.)*"
            case "math":
                number = f"\n\\tag{{{label.strip('()')}}}" if label else ""
                return f"$$\n{block.body}{number}\n$$"
            case "exercise":
                return f"### {label or 'Exercise'}: {title}\n\n{self.text(block.body)}"
            case "solution" | "solution-start":
                return f"{self.solution_heading(title)}\n\n{self.text(block.body)}"
            case "glue:figure":
                caption = " ".join(self.text(block.body).split())
                return self.figure(f"{label or 'Table'}. {caption}")
            case "literalinclude":
                return listing(block.options, block.argument)
            case "prf:proof":
                return quote("Proof", self.text(block.body))
            case name if theorem != name:
                heading = f"{label or theorem.capitalize()}{f' ({title})' if title else ''}"
                return quote(heading, self.text(block.body))
            case name if name == "dropdown" or "dropdown" in block.options.get("class", ""):
                return fold(title, self.text(block.body))
            case name if name in QUOTATIONS:
                return quote(title, self.text(block.body))
        return self.text(block.body)

    def solution_heading(self, exercise: str) -> str:
        """Return the line above the solution of the exercise with this label."""
        return f"**Solution of {self.labels.get(exercise, exercise)}**"

    def figure(self, caption: str) -> str:
        """Return what stands for a figure: its number and caption."""
        return f"*{caption}*"


def chapter_name(stem: str) -> str:
    """Return what a link to a chapter reads: `chapter 4a` of `04a_unbiasedness`."""
    return f"chapter {stem.partition('_')[0].lstrip('0')}"


@lru_cache(maxsize=2)
def labels_of_chapters(sources: Path) -> dict[str, tuple[str, str]]:
    """Return the chapter's stem and the words for a reference, as `Lemma 2`, to each label of all chapters.

    Args:
        sources: the folder of the chapters.
    """
    import jupytext

    labels: dict[str, tuple[str, str]] = {}
    for stem in parameters.names():
        nb = jupytext.read(sources / f"{stem}.py", fmt="py:percent")
        blocks = (block for part in myst.parts(nb.cells) for block in part.blocks)
        labels |= {label: (stem, text) for label, text in myst.reference_texts(blocks).items()}
    return labels


def format_glued(value: Any, form: str) -> str:
    """Return a glued value in the format that the text asks for; as it is where it cannot be formatted so."""
    try:
        return format(value, form)
    except (TypeError, ValueError):
        return str(value)


def fold(title: str, body: str) -> str:
    """Return a folded box: Jupyter, VS Code, Colab and GitHub open it at a click on its title."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def quote(title: str, body: str) -> str:
    """Return a quotation with a title in bold."""
    lines = [f"**{title}**", "", *body.split("\n")] if title else body.split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def listing(options: dict[str, str], path: str) -> str:
    """Return the code that a `literalinclude` shows: a file, or the function or class in it that `pyobject` names."""
    file = (parameters.ROOT / "book" / "chapters" / path).resolve()
    text = file.read_text(encoding="utf-8")
    if name := options.get("pyobject"):
        node: Any = ast.parse(text)
        for part in name.split("."):
            node = next(n for n in node.body if getattr(n, "name", None) == part)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
    return f"```python\n{text.strip()}\n```"
