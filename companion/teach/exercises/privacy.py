"""Exercises on the privacy of size reports (chapter 4e)."""

from __future__ import annotations

from fractions import Fraction
from math import e, exp

from companion.teach.check import Example, Exercise, Function
from fedstas import theory

F = Fraction  # short, for exact numbers such as F(1, 3)


def alpha(ratio, values):
    """Return the truth probability at which the worst likelihood ratio is `ratio`, with `values` equally likely fakes."""
    return (ratio - 1) / (ratio + values - 1)


EXERCISES: dict[str, Exercise] = {}


EXERCISES["alpha"] = Function(
    level=1,
    solution=alpha,
    inputs=((F(3), 3), (F(2), 4), (exp(3), 99), (e, 1000)),
    mistakes={
        "That is for one value more: check that M − 1 values give eq. 6.13.": lambda ratio, values: (
            (ratio - 1) / (ratio + values)
        ),
        "You put M − 1 values into eq. 6.13 as if they were M.": lambda ratio, values: (
            (ratio - 1) / (ratio + values - 2)
        ),
    },
)


CAP, ALPHA = 4, F(2, 5)  # size cap M and truth probability of the small case


def check_outlier(example) -> str:
    """Return what is wrong with (size, other size, report): the report should be possible under the first size alone; "" if nothing is."""
    one, other, report = (int(x) for x in example)
    if min(one, other, report) < 1:
        return "sizes and the report must be at least 1."
    laws = [theory.report_distribution(min(n, CAP), ALPHA, range(1, CAP)) for n in (one, other)]
    p, q = (law.get(report, F(0)) for law in laws)
    return (
        ""
        if p > 0 and q == 0
        else f"the report {report} has probability {p} under {one} and {q} under {other}."
    )


EXERCISES["outlier"] = Example(
    level=2,
    solution=(4, 1, 4),
    fault=check_outlier,
    mistakes=((1, 3, 1), (3, 2, 3), (5, 4, 4), (1, 4, 4)),
)


def three_reports(size_cap, alpha):
    """Return the probability that the mode of three fresh reports is the true size, ties broken at random."""
    others = size_cap - 2
    miss = (1 - alpha) / (size_cap - 1)  # the chance of a report to be a given other size
    hit = alpha + miss
    # Three different reports of which one is true: it wins a third of these ties. Otherwise two or three must be true.
    all_different = 3 * hit * others * (others - 1) * miss**2
    return hit**3 + 3 * hit**2 * (1 - hit) + all_different / 3


EXERCISES["three-reports"] = Function(
    level=3,
    solution=three_reports,
    inputs=((4, F(2, 5)), (3, F(1, 2)), (100, F(101, 625)), (10, F(0)), (10, F(1))),
    mistakes={
        "You count majorities only: three different reports are a tie, which the lot decides.": lambda size_cap, alpha: (
            (h := alpha + (1 - alpha) / (size_cap - 1)) ** 3 + 3 * h**2 * (1 - h)
        ),
        "A fake answer can be the true size: use α + (1 − α)/(M − 1).": lambda size_cap, alpha: (
            alpha**3
            + 3 * alpha**2 * (1 - alpha)
            + alpha * (size_cap - 2) * (size_cap - 3) * ((1 - alpha) / (size_cap - 1)) ** 2
        ),
        "If the two other reports agree, they win: leave that case out of the tie.": lambda size_cap, alpha: (
            (h := alpha + (1 - alpha) / (size_cap - 1)) ** 3 + 3 * h**2 * (1 - h) + h * (1 - h) ** 2
        ),
    },
)
