"""Exact distribution of the estimate of the participants' total size from private reports (FedSTaS eq. 5.7, Lemma 2)."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fedstas.arrays import as_int_array
from fedstas.errors import InputError, check_float, check_int
from fedstas.theory.reports import MOST, report_distribution, truth


class SizeEstimator(NamedTuple):
    """Exact moments of the estimate of eq. 5.7: `inverse_mean` is E[1/estimate], None where the estimate can be 0."""

    mean: Fraction
    variance: Fraction
    p_not_positive: Fraction
    inverse_mean: Fraction | None


class EstimatedRate(NamedTuple):
    """The guarded rate p~: its mean, its squared error E[(p~ - p)^2], and the probability that it needed the guard.

    `outside` is P(n*/estimate is not in (0, 1]).
    """

    mean: float
    squared_error: float
    outside: float


def _check_alpha(alpha) -> Fraction:
    """Return alpha in (0, 1] as a Fraction, or raise an `InputError`."""
    alpha = truth(alpha)
    if alpha == 0:
        raise InputError(f"alpha is {alpha}: it must be above 0 and at most 1")
    return alpha


def _report_sum_distribution(
    sizes, alpha: Fraction, support: Sequence[int]
) -> tuple[int, list[int], int]:
    """Return the distribution of the sum R of the reports in whole numbers.

    Returns:
        The least value of R; weights proportional to P(R) for this value and the following ones; the weights' sum.
    """
    low, weights, total = 0, [1], 1
    for size in sizes:
        law = report_distribution(size, alpha, support)
        denominator = math.lcm(*(p.denominator for p in law.values()))
        first, last = min(law), max(law)
        convolved = [0] * (len(weights) + last - first)
        for r, p in law.items():
            numerator = int(p * denominator)
            for i, w in enumerate(weights, start=r - first):
                convolved[i] += numerator * w
        low, weights, total = low + first, convolved, total * denominator
    return low, weights, total


def size_estimator_exact(
    sizes: Sequence[int], size_cap: int, alpha, support: Sequence[int] | None = None
) -> dict[Fraction, Fraction]:
    """Compute the distribution of the estimate of eq. 5.7, {value: probability} ascending, in fractions.

    `sizes` are already clipped; a random answer is uniform on `support`, by default 1..M-1. Whole numbers are
    convolved, so nothing is rounded.
    """
    alpha, size_cap = _check_alpha(alpha), check_int("size_cap", size_cap, 3, MOST)
    sizes = [check_int("a size", size, 0) for size in sizes]
    support = range(1, size_cap) if support is None else support
    low, weights, total = _report_sum_distribution(sizes, alpha, support)
    shift = (1 - alpha) * size_cap * len(sizes) / 2
    return {(r - shift) / alpha: Fraction(w, total) for r, w in enumerate(weights, low) if w}


def size_estimator_moments(
    sizes: Sequence[int],
    size_cap: int,
    alpha,
    support: Sequence[int] | None = None,
    inverse: bool = True,
) -> SizeEstimator:
    """Compute the mean, variance, P(estimate <= 0) and E[1/estimate] of the estimate of eq. 5.7, exactly.

    The estimate is (R - (1 - alpha) M N / 2) / alpha, R the sum of the N clients' reports.

    Args:
        sizes: the true sizes of the clients [N], in 1..M-1 (or in `support`).
        size_cap: M.
        alpha: the probability that a report is the true size, else it is uniform on `support`; a Fraction, a string like
            "101/625", or a number.
        support: the possible random reports, by default 1..M-1.
        inverse: whether to compute E[1/estimate], which takes most of the time; without it that is None.
    """
    alpha, size_cap = _check_alpha(alpha), check_int("size_cap", size_cap, 3, MOST)
    if not isinstance(sizes, Iterable):
        raise InputError(f"sizes are {sizes!r}: they must be whole numbers, one for each client")
    for size in sizes if support is None else ():
        check_int("a size", size, 1, size_cap - 1)
    support = range(1, size_cap) if support is None else support
    low, weights, total = _report_sum_distribution(sizes, alpha, support)
    shift = (1 - alpha) * size_cap * len(sizes) / 2
    law = {r: w for r, w in enumerate(weights, low) if w}
    first = Fraction(sum(r * w for r, w in law.items()), total)
    second = Fraction(sum(r * r * w for r, w in law.items()), total)
    below = Fraction(sum(w for r, w in law.items() if r <= shift), total)
    undefined = not inverse or any(r == shift for r in law)
    mean_inverse = (
        None if undefined else alpha * sum(w / (r - shift) for r, w in law.items()) / total
    )
    return SizeEstimator(
        (first - shift) / alpha, (second - first**2) / alpha**2, below, mean_inverse
    )


def size_estimator_distribution(sizes, size_cap: int, alpha: float):
    """Compute the distribution of the estimate of eq. 5.7 in floats: values [K] ascending and probabilities [K].

    `sizes` are clipped to 1..M-1. The reports of more than 20 clients of equal size are convolved in one step (FFT).
    """
    from scipy.fft import next_fast_len

    size_cap, alpha = check_int("size_cap", size_cap, 3, MOST), float(_check_alpha(alpha))
    sizes = np.clip(as_int_array("client sizes", sizes), 1, size_cap - 1)
    m = len(sizes)

    def report_pmf(size: int) -> np.ndarray:  # of the reports 1..M-1 of a client of this size
        probabilities = np.full(size_cap - 1, (1 - alpha) / (size_cap - 1))
        probabilities[size - 1] += alpha
        return probabilities

    if m > 20 and (sizes == sizes[0]).all():
        width = m * (size_cap - 2) + 1  # the number of values of the sum of the reports
        padded = next_fast_len(width, real=True)
        spectrum = np.fft.rfft(report_pmf(sizes[0]), padded) ** m
        pmf = np.maximum(np.fft.irfft(spectrum, padded)[:width], 0.0)
    else:
        pmf = np.ones(1)
        for size in sizes:
            pmf = np.convolve(pmf, report_pmf(size))
    report_sums = np.arange(m, m + len(pmf))
    return (report_sums - (1 - alpha) * size_cap * m / 2) / alpha, pmf


def estimated_rate(sizes, size_cap: int, alpha, n_star: float, floor: float = 1) -> EstimatedRate:
    """Compute the error of the guarded rate p~ = min(1, n*/max(estimate, floor)) against p = n*/n, n the sum of the true `sizes`."""
    n_star = check_float("n_star", n_star, 0, 1e100, open_low=False)
    floor, sizes = check_float("floor", floor, 0), as_int_array("client sizes", sizes)
    if not sizes.any():
        raise InputError(
            "client sizes are all zero, and n*/n is not defined: at least one client must hold an example"
        )
    values, pmf = size_estimator_distribution(sizes, size_cap, alpha)
    rate = np.minimum(1, n_star / np.maximum(values, floor))
    error = (rate - n_star / float(np.sum(sizes))) ** 2
    outside = pmf[values < n_star * (1 - 1e-12)].sum()  # an estimate of n* up to rounding is inside
    return EstimatedRate(float(rate @ pmf), float(error @ pmf), float(outside))


def raw_rate_error(sizes, size_cap: int, alpha, n_star) -> float:
    """Compute E[(n*/estimate - n*/n)^2] as printed (eq. 6.8, no guard); inf where the estimate can be 0."""
    check_float("n_star", n_star, 0, 1e100, open_low=False)
    alpha = _check_alpha(alpha)
    size_cap = check_int("size_cap", size_cap, 3, MOST)
    sizes = as_int_array("client sizes", sizes, 1)
    clipped = [min(max(int(n), 1), size_cap - 1) for n in sizes]
    law = size_estimator_exact(clipped, size_cap, alpha)
    if 0 in law:
        return math.inf
    p = Fraction(n_star) / sum(int(n) for n in sizes)
    return math.fsum(float(q) * float(n_star / v - p) ** 2 for v, q in law.items())
