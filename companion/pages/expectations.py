"""Assert in code what a chapter's sentence says: `expect("grows with the model", ratio > 2, ratio=ratio)`.

The words are those of the page. Where they do not hold, the cell says so. At the default parameters the build then
stops; with a reader's parameters it lists such sentences on top of the page and marks them in the text.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

TOP = "not-here"  # id of the display at the top of a copy, and CSS class of marked words
heading = ""  # of a copy's top in this kernel: the parameters of the run
FAILED: dict[str, str] = {}  # in this kernel: words that do not hold -> their values


def expect(words: str, holds: Any, **values: Any) -> None:
    """Assert a sentence of the page: where it is false in this run, say so below the cell and on top of a copy.

    At the default parameters the build then stops; at a reader's own the page marks the words.

    Args:
        words: some words of the sentence, as they stand on the page.
        holds: whether the sentence is true in this run.
        values: the numbers that decide it, to be shown where it is false.
    """
    from IPython.display import Markdown, display

    FAILED.pop(words, None)
    if not holds:
        FAILED[words] = ", ".join(f"{name} = {_short(value)}" for name, value in values.items())
        note = {"fedstas": {"words": words, "values": FAILED[words]}}
        display(Markdown(f"**Not in this run:** {_line(words, FAILED[words])}"), metadata=note)
    show_top()


def show_top() -> None:
    """Show what stands on top of a copy: the heading, and the words that do not hold."""
    from IPython.display import Markdown, update_display

    parts = [heading, list_failures(list(FAILED.items()))]
    update_display(Markdown("\n\n".join(filter(None, parts))), display_id=TOP)


def _short(value: Any) -> str:
    """Format a value: three digits of a number, and Python's words for NumPy's values, in lists too."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value))
    try:
        return format(value, ".3g")
    except (TypeError, ValueError):
        return str(value)


def _line(words: str, values: str) -> str:
    """Format an expectation with its values."""
    return f"“{words}”" + (f" ({values})" if values else "")


def list_failures(failed: list[tuple[str, str]]) -> str:
    """Return the words that do not hold as a Markdown list, or "" if all hold."""
    if not failed:
        return ""
    lines = "\n".join(f"- {_line(words, values)}" for words, values in failed)
    return f"The text was written for the default parameters. In this run it is not so that:\n\n{lines}"


def remove_failures(nb) -> list[tuple[str, str]]:
    """Remove the outputs of failed `expect`s from an executed chapter; return their words and values."""
    failures = {}
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if note := output.get("metadata", {}).get("fedstas"):
                failures[note["words"]] = note["values"]
        if "outputs" in cell:
            cell["outputs"] = [o for o in cell["outputs"] if "fedstas" not in o.get("metadata", {})]
    return list(failures.items())


def pattern(words: str) -> re.Pattern:
    """Return a pattern that matches the words in a text, however its lines are broken."""
    return re.compile(r"\s+".join(map(re.escape, words.split())))


def mark(nb, failed: list[tuple[str, str]]) -> None:
    """Mark the words of failed `expect`s in the text, and list them on top of the page."""
    texts = [cell for cell in nb.cells if cell.cell_type == "markdown"]
    for words, _ in failed:
        for cell in texts:
            cell.source = pattern(words).sub(lambda m: f"[{m[0]}]{{.{TOP}}}", cell.source)
    if failed:
        title, _, rest = texts[0].source.partition("\n")
        box = f"```{{admonition}} Not all of this page holds in this run\n:class: warning\n{list_failures(failed)}\n```"
        texts[0].source = f"{title}\n\n{box}\n{rest}"
