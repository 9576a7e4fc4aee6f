"""Files of the user's: tables as rows with their line numbers, and JSON."""

import codecs
import csv
import json
import re
from pathlib import Path

from fedstas.errors import InputError

# Not 1_000, as Python allows.
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MISSING = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?"}


def read_rows(
    path, *required: str, sep: str = ",", encoding: str = "utf-8"
) -> list[tuple[int, dict]]:
    """Read a table with a header as (line number, row by column) pairs.

    Raises:
        InputError: where the file is no such table, a `required` column is missing, or a value in it is empty.
    """
    if not (isinstance(sep, str) and len(sep) == 1):
        raise InputError(f"sep is {sep!r}: it must be one character, such as ',' or ';'")
    try:
        encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    except (LookupError, TypeError):
        raise InputError(f"encoding is {encoding!r}: no text is encoded so") from None
    try:
        with Path(path).open(newline="", encoding=encoding) as file:
            table = csv.DictReader(file, delimiter=sep)
            rows = [(table.line_num, row) for row in table]
            header = table.fieldnames or ()
    except UnicodeError as error:
        advice = "name its encoding, such as latin-1 or utf-16"
        raise InputError(f"{path} is not encoded in {encoding}: {advice} ({error})") from error
    except (OSError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    for line, row in [(1, dict.fromkeys(header)), *rows]:
        if any("\0" in str(cell) for pair in row.items() for cell in pair):
            reason = "a character of code 0: name its encoding, such as utf-16, or mend the line"
            raise InputError(f"{path} line {line} has {reason}")
    if not rows:
        raise InputError(f"{path} has no rows under its header")
    if repeated := [name for k, name in enumerate(header) if name in header[:k]]:
        name = repeated[0] or "without a name"
        raise InputError(f"{path} has the column {name} twice: give each a name of its own")
    if long := [line for line, row in rows if None in row]:  # where csv puts surplus values
        reason = f"more values than the {len(header)} columns: put one with a comma in quotes"
        raise InputError(f"{path} line {long[0]} has {reason}")
    for name in required:
        if name not in header:
            names = ", ".join(header)
            other = next((each for each in ";\t|," if each in names and len(header) == 1), None)
            hint = f" (is sep {other!r}?)" if other else ""
            raise InputError(f"{path} has no column {name}: it has {names}{hint}")
        for line, row in rows:
            if not (row[name] or "").strip():
                raise InputError(
                    f"{path} line {line}: column {name} is empty: fill it in, or leave the row out"
                )
    return rows


def read_json(path):
    """Read a file of JSON; `InputError` if it is none, or an object in it has a name twice, of which JSON keeps the
    last alone."""

    def check_names(pairs: list[tuple]) -> dict:
        """Return the object of these pairs."""
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            raise InputError(f"{path} has the name {twice!r} twice: give each a name of its own")
        return content

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return json.loads(text, object_pairs_hook=check_names)
    except (OSError, UnicodeError, RecursionError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}") from error
