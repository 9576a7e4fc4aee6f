"""Exercises of chapter 6: taking part, one client's equality, own rows, rows that gain nothing.

Equations, algorithms and figures are those of Fraboni et al. (2021, arXiv:2105.05883). `rows` are a sampling scheme
[m, N]: draw k picks client i with probability rows[k][i]. r' are the same rows as integer counts [m, N] that sum to the
number of all examples.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from companion.teach.check import Example, Exercise, Function
from fedstas import clustered
from fedstas.theory.clusters import as_rows

F = Fraction  # short, for exact numbers such as F(1, 3)
EXERCISES: dict[str, Exercise] = {}


HALF = F(1, 2)


def inclusion_probability(rows, client):
    """Return the probability that a client takes part, eq. 22."""
    return 1 - prod(1 - row[client] for row in rows)


def md_inclusion_probability(rows, client):
    """Return the inclusion probability under MD sampling with the mean row p, eq. 19 (a mistake)."""
    p = sum(row[client] for row in rows) / len(rows)
    return 1 - (1 - p) ** len(rows)


EXERCISES["included"] = Function(
    level=1,
    solution=inclusion_probability,
    inputs=(
        ([[1, 0], [0, 1]], 0),
        ([[HALF, HALF], [HALF, HALF]], 0),
        ([[HALF, HALF, 0], [HALF, 0, HALF]], 1),
        ([[F(1, 5), F(4, 5)], [F(2, 5), F(3, 5)], [F(3, 5), F(2, 5)]], 0),
    ),
    mistakes={
        "That is how often the client is drawn on average; it can be drawn twice.": lambda r, i: (
            sum(row[i] for row in r)
        ),
        "That is MD's probability, eq. 19: the m draws have different rows.": md_inclusion_probability,
        "That is the probability of being drawn every time: take the misses of all draws.": lambda r, i: (
            prod(row[i] for row in r)
        ),
    },
)


def check_one_equality(example) -> str:
    """Return what is wrong with (sizes, rows) in which exactly one client should gain nothing; "" if nothing is."""
    sizes, rows = example
    sizes, r = [int(n) for n in sizes], as_rows(rows)
    if len(sizes) != 3 or min(sizes) < 1 or len(r) != 2 or len(r[0]) != 3:
        return "three sizes above 0, two rows and three columns are asked for."
    p = [F(n, sum(sizes)) for n in sizes]
    columns = [sum(column) for column in zip(*r, strict=True)]
    if columns != [2 * x for x in p]:
        sums, needed = (", ".join(map(str, x)) for x in (columns, [2 * x for x in p]))
        return f"the columns sum to {sums}; eq. 8 asks for m p = {needed}."
    first, second = r
    if first == second:
        return "both rows are p: this is MD sampling itself."
    if any(x == y for x, y in zip(first, second, strict=True)):
        return ""
    return "every client has two different shares: all of them gain, and one should not."


EXERCISES["one-equality"] = Example(
    level=2,
    solution=([2, 1, 1], [["1/2", "1/2", 0], ["1/2", 0, "1/2"]]),
    fault=check_one_equality,
    mistakes=(
        ([2, 1, 1], [["1/2", "1/4", "1/4"], ["1/2", "1/4", "1/4"]]),
        ([2, 1, 1], [[1, 0, 0], [0, "1/2", "1/2"]]),
        ([1, 1, 1], [["1/2", "1/2", 0], ["1/2", 0, "1/2"]]),
        ([2, 1, 1], [["1/2", "1/2", 0], ["1/2", "1/2", "1/2"]]),
    ),
)


def fill_own_rows(sizes, m):
    """Return r' of the proof of Theorem 3: each client fills floor(m p_i) rows alone; the remainders follow end to end."""
    total = sum(sizes)
    rows = []
    for i, n in enumerate(sizes):
        own_row = [total if j == i else 0 for j in range(len(sizes))]
        rows += [own_row.copy() for _ in range(m * n // total)]
    room = 0
    for i, n in enumerate(sizes):
        remainder = m * n % total
        while remainder:
            if not room:
                rows.append([0] * len(sizes))
                room = total
            part = min(remainder, room)
            rows[-1][i] += part
            remainder, room = remainder - part, room - part
    return rows


def cut_line(sizes, m):
    """Return r' of Algorithm 1 as Fig. 3 draws it (a mistake)."""
    return clustered.counts_by_size(sizes, m).tolist()


def fill_own_rows_backwards(sizes, m):
    """Return r' with the clients taken from the last to the first (a mistake)."""
    return [row[::-1] for row in fill_own_rows(sizes[::-1], m)]


EXERCISES["own-rows"] = Function(
    level=2,
    solution=fill_own_rows,
    inputs=(
        ([1, 1], 2),
        ([1, 1, 1], 2),
        ([5, 3, 2], 3),
        ([17, 15, 2, 1], 5),
    ),
    mistakes={
        "That is Fig. 3: a client may begin in the middle of a row, and then misses a row of its own.": cut_line,
        "These are m equal rows, MD sampling: nobody has a row of its own.": lambda n, m: (
            [list(n) for _ in range(m)]
        ),
        "The clients are to be taken in the order given, own rows and remainders alike.": fill_own_rows_backwards,
    },
)


def expected_digits(rows):
    """Return the expected number of digits of a cohort; clients 0, 1, 2 hold the first digit, and so on."""
    missed = (prod(F(sum(k // 3 != d for k in row), len(row)) for row in rows) for d in range(3))
    return 3 - sum(missed)


def check_nothing(rows) -> str:
    """Return what is wrong with three rows of clients whose cohorts should see no more digits than MD's; "" if nothing is.

    MD sampling misses each of three digits with probability (2/3)^3, so that a cohort sees 3 - 3 (8/27) = 19/9.
    """
    rows = [[int(k) for k in row] for row in rows]
    if len(rows) != 3 or any(len(row) != 3 for row in rows):
        return "three rows of three clients are asked for."
    if sorted(k for row in rows for k in row) != list(range(9)):
        return (
            "each of the clients 0 to 8 must stand in one row: else one is drawn twice, or never."
        )
    digits = expected_digits(rows)
    return "" if digits == F(19, 9) else f"a cohort sees {digits} digits on average; under MD 19/9."


EXERCISES["nothing"] = Example(
    level=3,
    solution=((0, 3, 6), (1, 4, 7), (2, 5, 8)),
    fault=check_nothing,
    mistakes=(
        ((0, 1, 2), (3, 4, 5), (6, 7, 8)),
        ((0, 3, 6), (0, 3, 6), (0, 3, 6)),
        ((0, 1, 3), (2, 4, 6), (5, 7, 8)),
    ),
)
