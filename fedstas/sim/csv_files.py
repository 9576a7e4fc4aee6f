"""Tables in CSV files of the user's: rows with their line numbers, and columns of numbers or words."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedstas.errors import InputError


def read_rows(path, *required: str) -> list[tuple[int, dict]]:
    """Read a table with a header as (line number, row by column) pairs.

    Raises:
        InputError: where the file is no such table, a `required` column is missing, or a value in it is empty.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            rows = [(table.line_num, row) for row in table]
            header = table.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    if not rows:
        raise InputError(f"{path} has no rows under its header")
    if repeated := [name for k, name in enumerate(header) if name in header[:k]]:
        raise InputError(f"{path} has the column {repeated[0]} twice: give each a name of its own")
    if long := [line for line, row in rows if None in row]:  # where csv puts surplus values
        reason = f"more values than the {len(header)} columns: put one with a comma in quotes"
        raise InputError(f"{path} line {long[0]} has {reason}")
    for name in required:
        if name not in rows[0][1]:
            raise InputError(f"{path} has no column {name}: it has {', '.join(rows[0][1])}")
        for line, row in rows:
            if not (row[name] or "").strip():
                raise InputError(f"{path} line {line}: column {name} is empty")
    return rows


def to_names(words: Sequence[str]) -> np.ndarray:
    """Convert the words of a column to int64 if all of them are whole numbers, so that 9 comes before 10."""
    names = np.array([word.strip() for word in words])
    try:
        return names.astype(np.int64)
    except ValueError:
        return names
