"""Tasks from tables of the user's."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np

from fedstas.arrays import as_names
from fedstas.errors import InputError, check_choice
from fedstas.sim.csv_files import MISSING, NUMBER, read_rows
from fedstas.sim.tasks import TEST_EVERY, Task
from fedstas.sim.user_arrays import every_fifth, from_arrays


def from_csv(
    path,
    label: str,
    test=None,
    *,
    client: str | None = None,
    words: Sequence[str] = (),
    missing: str = "refuse",
    sep: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    network: str = "",
) -> Task:
    """Make a task of a table with a header.

    Columns other than `label`, `client` and `words` are numbers. They are scaled so that the training rows go from -1
    to 1, and only then rounded to float32. A first column without a name that counts the rows, as pandas writes it, is
    left out with a warning.

    Args:
        path: the table.
        label: the column of the classes, words or whole numbers; classes are numbered in their order.
        test: a table with the same columns; without one, see `from_arrays`.
        client: the column that names the client of each row, by words or whole numbers ("01" is a word).
        words: columns of words, each of which becomes one column for each of its words, of 0 and 1.
        missing: what to do with empty cells, NA, NaN, null, None and ?. "refuse": they are an error. "indicate":
            numbers are replaced by the mean of the training rows, and the column gets a further one of 0 and 1 that
            says where; among `words` they are a word of their own.
        sep: what separates the values of a row.
        decimal: "." or ",", before the decimals of a number; thousands have no separator.
        encoding: of the text, such as "latin-1".
        network: as in `tasks.load`.

    Raises:
        InputError: names file and line of what cannot be read.
    """
    check_choice("missing", missing, ("refuse", "indicate"))
    check_choice("decimal", decimal, (".", ","))
    if isinstance(words, str):
        raise InputError(f"words is {words!r}: it must be a list of columns")
    keys = [label, *([client] if client else [])]  # never empty, whatever `missing` says
    required = [*keys, *words]
    places = [path] if test is None else [path, test]
    tables = [
        _Table(
            place,
            required,
            keys,
            missing,
            sep,
            decimal,
            encoding,
        )
        for place in places
    ]
    # Of `tables`, `labels`, `y`, `x` and `values` the first is of the training table, the second of the test table.
    header = [name for name in tables[0].header if name not in (label, client)]
    for table in tables:
        columns = [name for name in table.header if name not in (label, client)]
        if columns != header:
            difference = f"{', '.join(columns)}, not {', '.join(header)}"
            raise InputError(f"{table.path} has the columns {difference}")
    labels = [table.labels(label) for table in tables]
    classes = np.unique(labels[0])
    for table, named in zip(tables, labels, strict=True):
        table.check_known(named, classes, "the class")
    y = [np.searchsorted(classes, named) for named in labels]
    users = [table.names(client) for table in tables if client]
    is_test = every_fifth(y[0], *users) if test is None else np.zeros(len(y[0]), dtype=bool)
    x: list[list[np.ndarray]] = [[] for _ in tables]
    for name in header:
        make = _one_hot if name in words else _scaled
        for of_table, columns in zip(x, make(tables, name, ~is_test), strict=True):
            of_table += columns
    if test is None:
        _, counts = np.unique(labels[0], return_counts=True)
        if counts.min() < TEST_EVERY and len(classes) > len(y[0]) / TEST_EVERY:
            raise InputError(
                f"{path}: column {label} has {len(classes)} different values in {len(y[0])} rows: it must name "
                "classes, and a number that is measured names none"
            )
    if not x[0]:
        raise InputError(f"{path} has no column besides {' and '.join(required)}")
    values = [np.stack(columns, 1) for columns in x]
    rest = (values[1], y[1]) if test is not None else ()
    whose: dict = dict(zip(("users", "test_users"), users, strict=False))
    return from_arrays(values[0], y[0], *rest, **whose, network=network)


class _Table:
    """A table of the user's: `header`, `rows` by column, and the `lines` of the file that they stand in.

    It must have the columns `required`, and those of `filled` must not be empty in any line.
    """

    def __init__(
        self,
        path,
        required: Sequence[str],
        filled: Sequence[str],
        missing: str,
        sep: str,
        decimal: str,
        encoding: str,
    ):
        self.path, self.missing, self.decimal = path, missing, decimal
        numbered = read_rows(path, *filled, sep=sep, encoding=encoding)
        self.lines, self.rows = zip(*numbered, strict=True)
        self.header = list(self.rows[0])
        if absent := [name for name in required if name not in self.header]:
            raise InputError(f"{path} has no column {absent[0]}: it has {', '.join(self.header)}")
        for name in required if missing == "refuse" else ():
            if "" in (words := self.column(name)):
                raise InputError(
                    f"{path} line {self.lines[words.index('')]}: column {name} is empty: fill it in, leave the row out, or "
                    "use missing='indicate'"
                )
        self._leave_out_index()

    def column(self, name: str) -> list[str]:
        """Return the words of a column, without spaces around them."""
        return [(row[name] or "").strip() for row in self.rows]

    def _leave_out_index(self) -> None:
        """Leave out, with a warning, a first column without a name that counts the rows, and empty columns without
        one; refuse others without a name."""
        for place, name in enumerate(self.header):
            if name.strip() and not re.fullmatch(r"Unnamed: \d+", name):
                continue
            cells = self.column(name)
            count = [str(k) for k in range(len(cells))]
            counts = cells in (count, [str(k + 1) for k in range(len(cells))])
            if not any(cells) or (counts and place == 0):
                what = "counts the rows" if counts else "is empty"
                message = f"{self.path}: column {place + 1} has no name and {what}: it is left out"
                warnings.warn(message, stacklevel=5)
            else:
                raise InputError(f"{self.path}: column {place + 1} has no name: give it one")
        named = [n for n in self.header if n.strip() and not re.fullmatch(r"Unnamed: \d+", n)]
        self.header = named

    def names(self, name: str) -> np.ndarray:
        """Return a column of names [n], of clients or classes; `InputError` if one is missing."""
        cells = self.column(name)
        for line, cell in zip(self.lines, cells, strict=True):
            if cell in MISSING:
                raise InputError(
                    f"{self.path} line {line}: column {name} is {cell!r}, a missing value: fill it in, or leave the row out"
                )
        return as_names(f"{self.path}: column {name}", cells)

    def labels(self, label: str) -> np.ndarray:
        """Return the names of the classes [n]; `InputError` if one is missing, or the column holds measured numbers."""
        named = self.names(label)
        for line, cell in zip(self.lines, self.column(label), strict=True):
            if NUMBER.fullmatch(cell) and float(cell) % 1:
                reason = "a number that is measured names no class (write classes as words)"
                raise InputError(f"{self.path} line {line}: column {label} is {cell}: {reason}")
        return named

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of numbers, float64 [n], with NaN for what is missing if that is allowed."""
        cells = self.column(name)
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if cell in MISSING and self.missing == "indicate":
                continue
            number = cell if self.decimal == "." else cell.replace(".", "_").replace(",", ".")
            values[row] = float(number) if NUMBER.fullmatch(number) else np.nan
            if not np.isfinite(values[row]):
                place = f"{self.path} line {self.lines[row]}: column {name} is {cell!r}"
                what = "a missing value: fill it in, leave the row out, or use missing='indicate'"
                other = f"it must be a number (of words: words=[{name!r}])"
                if self.decimal == "." and re.fullmatch(r"[+-]?[0-9.]*,[0-9]+", cell):
                    other = "it must be a number (with a decimal comma: decimal=',')"
                if re.fullmatch(r"[+-]?[0-9]{1,3}([.,][0-9]{3})+([.,][0-9]+)?", cell):
                    sign = "." if self.decimal == "," else ","
                    other += f"; if {sign!r} separates thousands, remove it"
                raise InputError(f"{place}: {what if cell in MISSING else other}")
        return values

    def words(self, name: str) -> np.ndarray:
        """Return a column of words [n], with "" for what is missing if that is allowed."""
        cells = self.column(name)
        absent = [line for line, cell in zip(self.lines, cells, strict=True) if cell in MISSING]
        if absent and self.missing != "indicate":
            reason = "is missing: fill it in, leave the row out, or use missing='indicate'"
            raise InputError(f"{self.path} line {absent[0]}: column {name} {reason}")
        return np.array(["" if cell in MISSING else cell for cell in cells])

    def check_known(self, values: np.ndarray, known: np.ndarray, what: str) -> None:
        """Raise an `InputError` with the line of a value that is not among the known ones."""
        unknown = np.flatnonzero(~np.isin(values, known))
        if len(unknown):
            reason = f"no training row has {what} {values[unknown[0]]}"
            raise InputError(f"{self.path} line {self.lines[unknown[0]]}: {reason}")


def _scaled(tables: list[_Table], name: str, training: np.ndarray) -> list[list[np.ndarray]]:
    """Return for each table the column scaled so that the training rows go from -1 to 1, and a column of 0 and 1 where
    values are missing in any table."""
    values = [table.numbers(name) for table in tables]
    gone = [np.isnan(each) for each in values]
    present = values[0][training & ~gone[0]]
    low, high = present.min(initial=np.inf), present.max(initial=-np.inf)
    if low > high:
        low = high = 0.0
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])  # so that no difference overflows
    low, high = np.ldexp([low, high], -exponent)
    columns = []
    for table, each in zip(tables, values, strict=True):
        with np.errstate(over="ignore"):
            scaled = 2 * ((np.ldexp(each, -exponent) - low) / (high - low or 1.0)) - 1
            too_far = np.isinf(scaled.astype(np.float32))
        if too_far.any():
            row = int(np.flatnonzero(too_far)[0])
            reason = f"column {name} is {each[row]:g}, too far from the training rows"
            raise InputError(f"{table.path} line {table.lines[row]}: {reason}")
        columns.append(scaled)
    if not any(absent.any() for absent in gone):
        return [[scaled] for scaled in columns]
    mean = columns[0][training & ~gone[0]].mean() if len(present) else 0.0
    return [
        [np.where(absent, mean, scaled), absent.astype(float)]
        for scaled, absent in zip(columns, gone, strict=True)
    ]


def _one_hot(tables: list[_Table], name: str, training: np.ndarray) -> list[list[np.ndarray]]:
    """Return for each table one column of 0 and 1 for each word of the first table's column."""
    values = [table.words(name) for table in tables]
    known = np.unique(values[0])
    for table, each in zip(tables, values, strict=True):
        table.check_known(each, known, f"in column {name} the word")
    return [[(each == word).astype(float) for word in known] for each in values]
