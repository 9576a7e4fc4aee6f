"""What a chapter's sentences assert about its numbers: `expect("grows with the model", ratio > 2, ratio=ratio)`.

The words are those of the page. Where they do not hold, the cell says so; the pipeline stops at the default
parameters, and with a reader's it lists such sentences on top of the page and marks them where they stand.
"""

from __future__ import annotations

import re
from typing import Any

TOP = "not-here"  # the display at the top of a copy, and the class of what is marked
FAILED: dict[str, str] = {}  # of this kernel: the words that do not hold, and their numbers


def expect(words: str, holds: Any, **values: Any) -> None:
    """Assert what the page says in these words; `values` are the numbers that it hangs on."""
    from IPython.display import Markdown, display, update_display

    FAILED.pop(words, None)
    if not holds:
        FAILED[words] = ", ".join(f"{name} = {_short(value)}" for name, value in values.items())
        note = {"fedstas": {"words": words, "values": FAILED[words]}}
        display(Markdown(f"**Not in this run:** {_line(words, FAILED[words])}"), metadata=note)
    update_display(Markdown(listed(list(FAILED.items()))), display_id=TOP)


def _short(value: Any) -> str:
    try:
        return format(value, ".3g")
    except (TypeError, ValueError):
        return str(value)


def _line(words: str, values: str) -> str:
    return f"“{words}”" + (f" ({values})" if values else "")


def listed(failed: list[tuple[str, str]]) -> str:
    """The sentences that do not hold, as Markdown; nothing if all do."""
    if not failed:
        return ""
    lines = "\n".join(f"- {_line(*each)}" for each in failed)
    return f"The text was written for the default parameters. In this run it is not so that:\n\n{lines}"


def taken(nb) -> list[tuple[str, str]]:
    """What did not hold, taken out of the outputs of an executed chapter."""
    found = {}
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if note := output.get("metadata", {}).get("fedstas"):
                found[note["words"]] = note["values"]
        if "outputs" in cell:
            kept = [o for o in cell["outputs"] if "fedstas" not in o.get("metadata", {})]
            cell["outputs"] = kept
    return list(found.items())


def stands(words: str) -> re.Pattern:
    """The words as they stand in a chapter's text, however its lines are broken."""
    return re.compile(r"\s+".join(map(re.escape, words.split())))


def mark(nb, failed: list[tuple[str, str]]) -> None:
    """Mark the words where they stand, and say on top of the page which they are."""
    texts = [cell for cell in nb.cells if cell.cell_type == "markdown"]
    for words, _ in failed:
        for cell in texts:
            cell.source = stands(words).sub(lambda m: f"[{m[0]}]{{.{TOP}}}", cell.source)
    if failed:
        title, _, rest = texts[0].source.partition("\n")
        box = f"```{{admonition}} Not all of this page holds in this run\n:class: warning\n{listed(failed)}\n```"
        texts[0].source = f"{title}\n\n{box}\n{rest}"
