"""The private size report and the estimate made from reports, exactly (FedSTaS eq. 5.7, Lemmas 2 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fedstas.errors import InputError, integer
from fedstas.theory.designs import moments


class SizeEstimator(NamedTuple):
    """Exact facts on the estimate of eq. 5.7: `inverse_mean` is None where it can be 0."""

    mean: Fraction
    variance: Fraction
    p_not_positive: Fraction
    inverse_mean: Fraction | None


def _report_distribution(size: int, size_cap: int, alpha):
    """P(r = 1), ..., P(r = M-1) of one report of a client of that (clipped) size."""
    fake = (1 - alpha) / (size_cap - 1)
    return [fake + (alpha if r == size else 0) for r in range(1, size_cap)]


def size_estimator_moments(sizes: Sequence[int], size_cap: int, alpha) -> SizeEstimator:
    """Mean, variance, P(estimate <= 0) and E[1/estimate] of eq. 5.7, exactly.

    `sizes` are already in 1..M-1; alpha a Fraction, a string like "101/625", or a number.
    """
    alpha, size_cap = Fraction(alpha), integer("size_cap", size_cap, 3)
    if not 0 < alpha <= 1:
        raise InputError(f"alpha is {alpha}: it must be above 0 and at most 1")
    total = {0: Fraction(1)}
    for size in sizes:
        report = _report_distribution(integer("a size", size, 1, size_cap - 1), size_cap, alpha)
        after: dict[int, Fraction] = {}
        for r, chance in total.items():
            for extra, p in enumerate(report, start=1):
                after[r + extra] = after.get(r + extra, Fraction(0)) + chance * p
        total = after
    shift = (1 - alpha) * size_cap * len(sizes) / 2
    pairs = [((r - shift) / alpha, chance) for r, chance in total.items() if chance]
    mean, variance = moments(iter(pairs))
    inverse = None if any(v == 0 for v, _ in pairs) else sum(c / v for v, c in pairs)
    return SizeEstimator(mean, variance, sum((c for v, c in pairs if v <= 0), Fraction(0)), inverse)


def size_estimator_distribution(sizes, size_cap: int, alpha: float):
    """The estimate's exact distribution in floats: values [K] ascending and probabilities [K]."""
    pmf, alpha = np.ones(1), float(alpha)
    for size in np.clip(np.asarray(sizes), 1, size_cap - 1):
        pmf = np.convolve(pmf, _report_distribution(int(size), size_cap, alpha))
    m = len(sizes)
    total = np.arange(m, m + len(pmf))
    return (total - (1 - alpha) * size_cap * m / 2) / alpha, pmf


def ldp_ratio(size_cap: int, alpha) -> Fraction:
    """The largest likelihood ratio of one report over sizes 1..M-1: 1 + (M-1) alpha / (1 - alpha)."""
    alpha, size_cap = Fraction(alpha), integer("size_cap", size_cap, 3)
    if not 0 <= alpha < 1:
        raise InputError(f"alpha is {alpha}: the ratio is finite for alpha in [0, 1) only")
    reports = [_report_distribution(size, size_cap, alpha) for size in range(1, size_cap)]
    return max(max(column) / min(column) for column in zip(*reports, strict=True))
