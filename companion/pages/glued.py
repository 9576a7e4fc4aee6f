"""Read what an executed page glued: numbers, words, figures and tables, by name."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any


def glued_values(page: Path) -> dict[str, Any]:
    """Read the numbers and words that an executed page glued, by name; {} if there is no page."""
    return _values(glued_outputs(page))


def values_of(cells: list) -> dict[str, Any]:
    """Return the numbers and words that executed cells glued, by name."""
    return _values(outputs_of(cells))


def _values(outputs: dict[str, dict]) -> dict[str, Any]:
    """Return the values in glued outputs."""
    values = {}
    for name, record in outputs.items():
        text = "".join(record.get("text/plain", ""))
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def glued_outputs(page: Path) -> dict[str, dict]:
    """Read what an executed page glued, {name: {mime type: data}}; {} if there is no page."""
    if not page.is_file():
        return {}
    return outputs_of(json.loads(page.read_text(encoding="utf-8"))["cells"])


def outputs_of(cells: list) -> dict[str, dict]:
    """Return what executed cells glued, {name: {mime type: data}}."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    records = {}
    for output in outputs:
        if name := output.get("metadata", {}).get("scrapbook", {}).get("name"):
            data = output["data"].items()
            records[name] = {k.removeprefix("application/papermill.record/"): v for k, v in data}
    return records
