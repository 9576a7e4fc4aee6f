"""Exercises on the size estimator (chapter 4c)."""

from __future__ import annotations

from fractions import Fraction

from companion.teach.check import Example, Exercise, Function
from fedstas import theory

F = Fraction  # short, for exact numbers such as F(1, 3)
EXERCISES: dict[str, Exercise] = {}


def estimate(total, m, size_cap, alpha):
    """Return the estimated total, eq. 5.7, from the sum of m reports."""
    return (total - (1 - alpha) * size_cap * m / 2) / alpha


EXERCISES["estimate"] = Function(
    level=1,
    solution=estimate,
    inputs=((5, 2, 4, F(1, 2)), (4, 2, 4, F(2, 5)), (700, 10, 100, 0.1616), (990, 10, 100, 1.0)),
    mistakes={
        "You take away (M − 1)/2 for each fake; the values 1, …, M − 1 have the mean M/2.": lambda total, m, size_cap, alpha: (
            (total - (1 - alpha) * (size_cap - 1) * m / 2) / alpha
        ),
        "The true reports are only a share α of all: divide by α.": lambda total, m, size_cap, alpha: (
            total - (1 - alpha) * size_cap * m / 2
        ),
    },
)


def mean_with_zero(sizes, size_cap, alpha):
    """Return the mean of eq. 5.7 if fakes are drawn from 0..M-1, with the mean (M-1)/2 instead of M/2."""
    clipped = sum(min(n, size_cap - 1) for n in sizes)
    return clipped - (1 - alpha) * len(sizes) / (2 * alpha)


EXERCISES["mean-with-zero"] = Function(
    level=2,
    solution=mean_with_zero,
    inputs=(
        ((1, 3), 4, F(2, 5)),
        ((1, 5), 4, F(2, 5)),
        ((2,), 4, F(1)),
        ((600,) * 10, 100, F(101, 625)),
    ),
    mistakes={
        "You leave out the clip: a client of M or more examples reports as one of M − 1.": lambda sizes, size_cap, alpha: (
            sum(sizes) - (1 - alpha) * len(sizes) / (2 * alpha)
        ),
        "That is the mean for fakes on 1, …, M − 1; with 0 among them their mean is (M − 1)/2.": lambda sizes, size_cap, alpha: (
            sum(min(n, size_cap - 1) for n in sizes)
        ),
        "The fakes are too small on average, so the estimate is too small: mind the sign.": lambda sizes, size_cap, alpha: (
            sum(min(n, size_cap - 1) for n in sizes) + (1 - alpha) * len(sizes) / (2 * alpha)
        ),
    },
)


def check_zero(example) -> str:
    """Return what is wrong with (alpha, sizes) for which the estimate should be 0 with a positive probability; "" if nothing is.

    The cap M is 4: reports are 1, 2 or 3, with the mean M/2 = 2 if they are random. The estimate is
    (R - (1 - alpha) 2 m) / alpha for the sum R of m reports.
    """
    alpha, sizes = example
    alpha, sizes = Fraction(alpha), list(sizes)
    if not 0 < alpha < 1:
        return f"alpha is {alpha}, and must be between 0 and 1."
    if not 1 <= len(sizes) <= 3 or not set(sizes) <= {1, 2, 3}:
        return f"the sizes are {sizes}: one to three of them, each 1, 2 or 3."
    needed = (1 - alpha) * 2 * len(sizes)
    if needed.denominator != 1:
        return f"the estimate is 0 for R = {needed}, which is no sum of reports."
    if needed < len(sizes):
        return f"the estimate is 0 for R = {needed}, and {len(sizes)} reports sum to at least {len(sizes)}."
    chance = theory.size_estimator_exact(sizes, 4, alpha).get(0, F(0))
    best = max(
        theory.size_estimator_exact([n] * len(sizes), 4, alpha).get(0, F(0)) for n in (1, 2, 3)
    )
    return "" if chance else f"P(estimate = 0) is {chance} (other sizes reach {best})."


EXERCISES["zero"] = Example(
    level=3,
    solution=(F(1, 4), (1, 2)),
    fault=check_zero,
    mistakes=((F(2, 5), (1, 3)), (F(3, 4), (1, 2)), (F(1, 6), (1,)), (F(1), (1, 1))),
)
