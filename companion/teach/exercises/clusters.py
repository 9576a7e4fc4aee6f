"""Exercises of chapter 4g, clustered sampling.

Equations, algorithms and figures are those of Fraboni et al. (2021, arXiv:2105.05883). `rows` are a sampling scheme
[m, N]: draw k picks client i with probability rows[k][i]. r' are the same rows as integer counts [m, N] that sum to the
number of all examples.
"""

from __future__ import annotations

from fractions import Fraction

from companion.teach.check import Example, Exercise, Function
from fedstas import clustered, theory
from fedstas.theory.clusters import as_rows

EXERCISES: dict[str, Exercise] = {}


def variance(rows, client):
    """Return the variance of the weight omega_i of client i = `client`, 1/m for each draw of it (eq. 16)."""
    return sum(row[client] * (1 - row[client]) for row in rows) / len(rows) ** 2


def variance_without_square(rows, client):
    """Return the variance of eq. 16 with 1/m instead of 1/m^2 (a mistake)."""
    return sum(row[client] * (1 - row[client]) for row in rows) / len(rows)


def md_variance(rows, client):
    """Return the variance of omega_i under MD sampling, whose m rows all equal the mean row p (eq. 14).

    A mistake here: the exercise asks for the variance under the given rows (eq. 16).
    """
    p = sum(row[client] for row in rows) / len(rows)
    return p * (1 - p) / len(rows)


EXERCISES["variance"] = Function(
    level=1,
    solution=variance,
    inputs=(
        ([[1, 0], [0, 1]], 0),
        ([[0.5, 0.5], [0.5, 0.5]], 0),
        ([[1, 0, 0], [0.25, 0.75, 0], [0, 0.5, 0.5]], 1),
        ([[0.2, 0.8], [0.4, 0.6], [0.6, 0.4], [0.8, 0.2]], 1),
    ),
    mistakes={
        "A weight is the mean of m draws: its variance has 1/m^2 in front of the sum, not 1/m.": variance_without_square,
        "That is MD's variance, eq. 14: the rows may differ, and only their mean is p.": md_variance,
    },
)


def cut_line(sizes, m):
    """Return r' of Algorithm 1 as Fig. 3 draws it, for clients in descending order of size."""
    return [list(row) for row in clustered.counts_by_size(sizes, m).tolist()]


def algorithm_1_without_line_13(sizes, m):
    """Return r' of Algorithm 1 with all repairs but that of line 13 (a mistake)."""
    return theory.printed_algorithm_1(sizes, m, ("start", "line 11"))


def algorithm_1_as_printed(sizes, m):
    """Return r' of Algorithm 1 as printed (a mistake)."""
    return theory.printed_algorithm_1(sizes, m)


def md_rows(sizes, m):
    """Return r' of MD sampling: m equal rows (a mistake)."""
    return [list(sizes) for _ in range(m)]


EXERCISES["line"] = Function(
    level=2,
    solution=cut_line,
    inputs=(
        ([1, 1], 1),
        ([1, 1, 1], 1),
        ([2, 1, 1], 2),
        ([5, 3, 2, 1, 1], 3),
        ([7, 1, 1, 1], 2),
    ),
    mistakes={
        "A client that ends in a row begun before gets b_i - b_(i-1) of it: the remainder is cumulative (line 13).": algorithm_1_without_line_13,
        "These are the printed lines: rows must count from 0, and line 11 and line 13 need their repairs.": algorithm_1_as_printed,
        "These are m equal rows, MD sampling: cut the line of clients instead.": md_rows,
    },
)


HALF = Fraction(1, 2)


GRADIENTS = (1, 0, 1, 0)  # scalar gradients of four equal clients


def check_no_gain(rows) -> str:
    """Return what is wrong with two rows for which B_Cl = B_MD, though neither exception of Appendix A.2 applies; "" if nothing is.

    B is the variance of the mean of the two drawn `GRADIENTS`: under MD 1/4 over 2.
    """
    r = as_rows(rows)
    if len(r) != 2 or len(r[0]) != 4:
        return "two rows and four columns are asked for."
    columns = [sum(column) for column in zip(*r, strict=True)]
    if columns != [HALF] * 4:
        shown = ", ".join(map(str, columns))
        return f"eq. 8 asks for column sums m p_i = 1/2; yours are {shown}."
    first, second = r
    if first == second:
        return "both rows are p: this is MD sampling, which the sentence allows."
    b = theory.variance_of_mean(r, GRADIENTS)
    return "" if b == Fraction(1, 8) else f"B_Cl is {b}, and B_MD is 1/8: your rows do gain."


EXERCISES["no-gain"] = Example(
    level=2,
    solution=[["1/2", "1/2", 0, 0], [0, 0, "1/2", "1/2"]],
    fault=check_no_gain,
    mistakes=(
        [["1/4"] * 4, ["1/4"] * 4],  # MD
        [["1/2", 0, "1/2", 0], [0, "1/2", 0, "1/2"]],  # rows of clients that are alike
        [["1/2", "1/2", 0, 0], ["1/2", "1/2", 0, 0]],  # two clients are never drawn
    ),
)


def check_certain(example) -> str:
    """Return what is wrong with (sizes, m) in which Fig. 3 gives a client fewer rows of its own than floor(m p_i); "" if nothing is."""
    sizes, m = example
    counts = clustered.counts_by_size(sizes, m)
    if len(sizes) > 3:
        return "at most three clients are asked for."
    full_rows = (counts == sum(sizes)).sum(0)
    short = [i for i, k in enumerate(sizes) if full_rows[i] < m * k // sum(sizes)]
    if short:
        return ""
    shares = ", ".join(str(Fraction(m * k, sum(sizes))) for k in sizes)
    return f"m p is ({shares}) and the rows of their own are {full_rows.tolist()}: nobody is short of one."


EXERCISES["certain"] = Example(
    level=3,
    solution=([1, 1, 1], 4),
    fault=check_certain,
    mistakes=(([5, 3, 2], 3), ([7, 1, 1], 2), ([1, 1], 2)),
)
