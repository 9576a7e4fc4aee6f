"""Read what an executed page glued: numbers, words, figures and tables, by name."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any


def glued_values(page: Path) -> dict[str, Any]:
    """Read the numbers and words that an executed page glued, by name; {} if there is no page."""
    values = {}
    for name, record in glued_outputs(page).items():
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
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    records = {}
    for output in outputs:
        if name := output.get("metadata", {}).get("scrapbook", {}).get("name"):
            data = output["data"].items()
            records[name] = {k.removeprefix("application/papermill.record/"): v for k, v in data}
    return records
