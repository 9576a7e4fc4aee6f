"""Exact moments by enumeration, in rationals (FedSTaS Sec. 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import perm, prod
from typing import NamedTuple

import numpy as np

from fedstas.errors import InputError, integer, one_of

DESIGNS = ("plain-wr", "plain-successive", "hansen-hurwitz", "horvitz-thompson")
LARGEST = 2_000_000  # outcomes that an enumeration may have


def _fractions(numbers: Sequence) -> list[Fraction]:
    return [
        Fraction(x if isinstance(x, (str, Fraction)) else x.item() if hasattr(x, "item") else x)
        for x in numbers
    ]


def _selection(selection: Sequence) -> list[Fraction]:
    p = _fractions(selection)
    if not p or min(p) < 0 or sum(p) == 0:
        raise InputError("selection probabilities must be >= 0 and not all zero")
    return [x / sum(p) for x in p]


def with_replacement(selection: Sequence, m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every ordered sample of m draws with replacement, and its probability."""
    p = _selection(selection)
    _affordable(len(p) ** integer("m", m, 1))
    for sample in product(range(len(p)), repeat=m):
        yield sample, prod((p[k] for k in sample), start=Fraction(1))


def successive(selection: Sequence, m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every ordered sample of m distinct clients, drawn one after another, and its probability."""
    p = _selection(selection)
    integer("m", m, 1, sum(x > 0 for x in p))
    _affordable(perm(len(p), m))
    for sample in permutations(range(len(p)), m):
        chance, left = Fraction(1), Fraction(1)
        for k in sample:
            chance *= p[k] / left if p[k] else 0
            left -= p[k]
            if not chance:
                break
        yield sample, chance


def _affordable(outcomes: int) -> None:
    if outcomes > LARGEST:
        raise InputError(f"{outcomes} outcomes are too many to enumerate: use at most {LARGEST}")


def moments(outcomes: Iterator[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Mean and variance of (value, probability) pairs."""
    mean = square = Fraction(0)
    for value, chance in outcomes:
        mean += chance * value
        square += chance * value * value
    return mean, square - mean * mean


def inclusion_probabilities(selection: Sequence, m: int) -> list[Fraction]:
    """pi_k of m successive draws (what numpy's choice without replacement does); not m p_k."""
    pi = [Fraction(0)] * len(selection)
    for sample, chance in successive(selection, m):
        for k in sample:
            pi[k] += chance
    return pi


def design_moments(design: str, values: Sequence, selection: Sequence, m: int):
    """Mean and variance, as Fractions, of an estimator of the mean of `values` in a stratum.

    `plain-wr`, `plain-successive`: the paper's (1/m) sum w_k, with and without replacement;
    `hansen-hurwitz`: (1/m) sum w_k / (N p_k), with replacement; `horvitz-thompson`:
    sum w_k / (N pi_k), successive draws with their true inclusion probabilities.
    """
    one_of("design", design, DESIGNS)
    w, p, n = _fractions(values), _selection(selection), len(values)
    if len(p) != n:
        raise InputError("values and selection must have the same length")
    if design == "horvitz-thompson":
        pi = inclusion_probabilities(p, m)
        unit = [x / (n * q) if q else Fraction(0) for x, q in zip(w, pi, strict=True)]
    elif design == "hansen-hurwitz":
        unit = [x / (n * q * m) if q else Fraction(0) for x, q in zip(w, p, strict=True)]
    else:
        unit = [x / m for x in w]
    draw = with_replacement if design in ("plain-wr", "hansen-hurwitz") else successive
    return moments((sum(unit[k] for k in sample), chance) for sample, chance in draw(p, m))


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


def _quadratic(gradients, outer, total) -> np.ndarray:
    """outer sum_i g_i g_i' + total (sum_i g_i)(sum_i g_i)' for gradients [n, p]; exact for objects."""
    g = np.asarray(gradients)
    if g.ndim != 2 or not len(g):
        raise InputError("gradients must be [n, p] with at least one row")
    if g.dtype != object:
        g, outer, total = g.astype(float), float(outer), float(total)
    s = g.sum(axis=0)
    return outer * (g.T @ g) + total * np.outer(s, s)


def srs_covariance(gradients, sample_size: int) -> np.ndarray:
    """Covariance [p, p] of the mean of a simple random sample without replacement (Lemma 3, eq. 6.10)."""
    n = len(gradients)
    size = integer("sample_size", sample_size, 1, n)
    again = Fraction(size - 1, n - 1) if n > 1 else Fraction(1)
    each = Fraction(1, n * size)
    return _quadratic(gradients, each * (1 - again), each * (again - Fraction(size, n)))


def bernoulli_covariance(gradients, rate, norm) -> np.ndarray:
    """Covariance [p, p] of (1 / norm) times the sum over a Bernoulli(rate) sample."""
    rate, norm = Fraction(rate), Fraction(norm)
    if not 0 <= rate <= 1 or norm <= 0:
        raise InputError(f"rate is {rate}, norm {norm}: they must be in [0, 1] and above 0")
    return _quadratic(gradients, rate * (1 - rate) / norm**2, Fraction(0))


def paper_lemma4(gradients, n: int, n_star: int, sample_size: int) -> np.ndarray:
    """Eq. 6.11 as printed [p, p], which is a covariance for few settings only."""
    n, size = integer("n", n, 2), integer("sample_size", sample_size, 1)
    n_star = integer("n_star", n_star, 1)
    each, again = Fraction(n_star, n * size), Fraction(n_star * (size - 1), n - 1)
    return _quadratic(gradients, each * (1 - again), each * (again - Fraction(size * n_star, n)))


def ldp_ratio(size_cap: int, alpha) -> Fraction:
    """The largest likelihood ratio of one report over sizes 1..M-1: 1 + (M-1) alpha / (1 - alpha)."""
    alpha, size_cap = Fraction(alpha), integer("size_cap", size_cap, 3)
    if not 0 <= alpha < 1:
        raise InputError(f"alpha is {alpha}: the ratio is finite for alpha in [0, 1) only")
    reports = [_report_distribution(size, size_cap, alpha) for size in range(1, size_cap)]
    return max(max(column) / min(column) for column in zip(*reports, strict=True))
