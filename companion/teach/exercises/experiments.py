"""Exercises on experiments (chapter 5): how many comparisons, how many seeds, which metric."""

from __future__ import annotations

import numpy as np
from scipy import stats

from companion.runs import statistics
from companion.teach.check import Example, Exercise, Function

EXERCISES: dict[str, Exercise] = {}


def holm(p):
    """Return the p-values corrected by Holm's method, in the order given."""
    return statistics.holm(p)


def holm_without_order(p):
    """Return the p-values corrected by Holm's method without the running maximum (a mistake)."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1, np.sort(p) * np.arange(len(p), 0, -1))
    return adjusted


EXERCISES["holm"] = Function(
    level=1,
    solution=holm,
    inputs=(
        ([0.04],),
        ([0.01, 0.04],),
        ([0.04, 0.01],),
        ([0.03, 0.02, 0.025],),
        ([0.5, 0.2, 0.9],),
    ),
    mistakes={
        "You multiply every p by the number of comparisons: that is Bonferroni's correction, and costs power.": lambda p: (
            np.minimum(1, len(p) * np.asarray(p))
        ),
        "A larger p must not become the smaller one: keep the largest seen so far.": holm_without_order,
        "These are the p-values of single tests: nothing is corrected.": lambda p: np.asarray(p),
    },
)


def power(seeds: int, gap: float, sd: float) -> float:
    """Return the power of the paired t-test at the 5 % level, for a true gap and the sd of a paired difference."""
    critical, shift = stats.t.ppf(0.975, seeds - 1), gap / sd * np.sqrt(seeds)
    tails = stats.nct.sf(critical, seeds - 1, [shift, -shift])  # nct.cdf is NaN far in its tail
    return float(tails.sum())


def seeds_needed(gap: float, sd: float) -> int:
    """Return the smallest number of paired seeds that detects a true gap with 80 % power."""
    return next(k for k in range(2, 100_000) if power(k, gap, sd) >= 0.8)


def seeds_for_half_power(gap, sd):
    """Return the number of seeds at which the interval's half-width equals the gap: a power of about one half (a mistake)."""
    return next(k for k in range(2, 100_000) if stats.t.ppf(0.975, k - 1) * sd / np.sqrt(k) <= gap)


def seeds_needed_unpaired(gap, sd):
    """Return the number of seeds for two independent samples, each with the sd of the paired difference (a mistake)."""
    return seeds_needed(gap, sd * np.sqrt(2))


EXERCISES["seeds"] = Function(
    level=2,
    solution=seeds_needed,
    inputs=((5.0, 5.0), (1.0, 2.0), (1.0, 5.0)),
    mistakes={
        "With that many the interval just excludes zero on average: the power is one half.": seeds_for_half_power,
        "That is for two independent groups: here each seed gives one difference.": seeds_needed_unpaired,
    },
)


# Accuracy (%) of the authors' published final models on MNIST's test images, digit by digit.
FEDSTS = (99, 98, 21, 62, 4, 0, 1, 51, 53, 94)
FEDSTAS = (86, 95, 76, 90, 0, 25, 0, 0, 13, 97)
TOLERANCE = 1e-9  # for rounding errors


def check_shares(example) -> str:
    """Return what is wrong with ten shares of digits under which FedSTaS should lead by two points; "" if nothing is."""
    shares = np.asarray(example, dtype=float)
    if shares.shape != (10,):
        return f"these are {shares.size} numbers: give one share for each of the ten digits."
    if not np.isclose(shares.sum(), 1, atol=TOLERANCE):
        return f"the shares sum to {shares.sum():.3f}, not to 1."
    low, high = 0.09 - TOLERANCE, 0.11 + TOLERANCE  # a tenth, give or take a tenth of it
    outside = [d for d in range(10) if not low <= shares[d] <= high]
    if outside:
        return f"digit {outside[0]} has the share {shares[outside[0]]:.3f}: between 0.09 and 0.11."
    lead = float(shares @ (np.array(FEDSTAS) - np.array(FEDSTS)))
    return "" if lead >= 2 - TOLERANCE else f"FedSTaS leads by {lead:+.2f} points there."


EXERCISES["shares"] = Example(
    level=3,
    solution=(0.09, 0.09, 0.11, 0.11, 0.09, 0.11, 0.11, 0.09, 0.09, 0.11),
    fault=check_shares,
    mistakes=(
        (0.1,) * 10,
        (0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0),
        (0.11, 0.11, 0.09, 0.09, 0.11, 0.09, 0.09, 0.11, 0.11, 0.09),
    ),
)
