"""The variances of Theorem 1 (FedSTaS eq. 6.9), and the order that can be proved instead.

As the theorem assumes, draws are independent and allocations are real numbers. An estimator of the mean of vectors d_k
[N, P] then has the total variance (trace of the covariance) sum_h W_h^2 v_h / m_h, where v_h is the variance of one draw
from stratum h. With one stratum this is exact for draws with replacement.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fedstas.errors import InputError, check_int
from fedstas.theory.designs import exact, probabilities


class PerDraw(NamedTuple):
    """Exact moments of three estimators of a stratum's mean, from one draw.

    Args:
        plain_mean: the expectation of the drawn value itself under p; unlike the others it is biased.
        plain: its variance.
        uniform: the variance of the drawn value under uniform p.
        hansen_hurwitz: the variance of the drawn value over N p_k, under p.
    """

    plain_mean: Fraction
    plain: Fraction
    uniform: Fraction
    hansen_hurwitz: Fraction


def _sum(terms: Iterable[Fraction]) -> Fraction:
    """Sum Fractions; a Fraction even if there are none."""
    return sum(terms, start=Fraction(0))


def per_draw(values: Sequence, selection: Sequence) -> PerDraw:
    """Compute exact moments of one draw from a stratum of numbers `values` [N], with p proportional to `selection` [N].

    The variances divided by m are those of the means of m draws with replacement. `selection` must be above 0 where the
    value is not 0.
    """
    w, p = exact(values), probabilities(selection)
    if len(w) != len(p) or any(x and not q for x, q in zip(w, p, strict=True)):
        raise InputError("every value that is not 0 needs a selection probability above 0")
    n = len(w)
    pairs = list(zip(w, p, strict=True))
    plain_mean, mean = _sum(q * x for x, q in pairs), _sum(w) / n
    inverse = _sum(x**2 / q for x, q in pairs if x) / n**2
    return PerDraw(
        plain_mean=plain_mean,
        plain=_sum(q * x**2 for x, q in pairs) - plain_mean**2,
        uniform=_sum(x**2 for x in w) / n - mean**2,
        hansen_hurwitz=inverse - mean**2,
    )


class Variances(NamedTuple):
    """Total variances of the four schemes of eq. 6.9 and of the corrected one, and the squared bias of the first."""

    sts: float  # FedSTS: p by `selection`, plain mean, Neyman allocation
    stradiv: float  # uniform within strata, Neyman allocation ("re-allocation")
    strat: float  # uniform within strata, proportional allocation ("plain allocation")
    rand: float  # uniform over all clients
    squared_bias: float  # of sts
    corrected: float  # p by `selection`, Hansen-Hurwitz, allocation by its own standard deviation


def theorem_1(updates, labels, selection, m: int) -> Variances:
    """Compute the variances of eq. 6.9 for m draws in all.

    Allocations are real numbers; S_h is the standard deviation of the updates in stratum h.

    Args:
        updates: the clients' vectors [N, P].
        labels: the stratum of each client [N].
        selection: numbers > 0 [N], to which p is proportional within a stratum.
    """
    d = np.asarray(updates, dtype=float).reshape(len(labels), -1)
    labels, selection = np.asarray(labels), np.asarray(selection, dtype=float)
    if selection.shape != labels.shape or not (selection > 0).all():
        raise InputError("selection must be one number > 0 per client")
    m, n = check_int("m", m, 1), len(d)
    square, overall_mean = (d**2).sum(1), d.mean(0)
    rows, bias = [], np.zeros(d.shape[1])
    for h in np.unique(labels):
        k = labels == h
        p = selection[k] / selection[k].sum()
        mean, plain_mean, size = d[k].mean(0), p @ d[k], int(k.sum())
        uniform_variance = max(square[k].mean() - mean @ mean, 0.0)
        plain_variance = max(p @ square[k] - plain_mean @ plain_mean, 0.0)
        hansen_hurwitz = max((square[k] / p).sum() / size**2 - mean @ mean, 0.0)
        rows.append((size / n, uniform_variance, plain_variance, hansen_hurwitz))
        bias += size / n * (plain_mean - mean)
    share, uniform, plain, weighted = np.array(rows).T
    measure = share * np.sqrt(uniform)  # N_h S_h / N: the Neyman allocation is m times its shares
    spread = measure > 0
    sts = measure.sum() * (share[spread] ** 2 * plain[spread] / measure[spread]).sum()
    return Variances(
        sts=float(sts / m),
        stradiv=float(measure.sum() ** 2 / m),
        strat=float(share @ uniform / m),
        rand=float(max(square.mean() - overall_mean @ overall_mean, 0.0) / m),
        squared_bias=float(bias @ bias),
        corrected=float((share @ np.sqrt(weighted)) ** 2 / m),
    )


def simple_random_variance(values: Sequence, m: int) -> Fraction:
    """Compute the variance of the mean of a simple random sample of m of N numbers, without replacement.

    It is (1 - m/N) S^2 / m with S^2 of divisor N - 1 (Cochran, Sampling Techniques, Theorem 2.2).
    """
    w = exact(values)
    n = len(w)
    m = check_int("m", m, 1, n)
    if m == n:
        return Fraction(0)
    spread = (_sum(x**2 for x in w) - _sum(w) ** 2 / n) / (n - 1)
    return (1 - Fraction(m, n)) * spread / m


def stratified_random_variance(strata: Sequence, allocation: Sequence) -> Fraction:
    """Compute the variance of the stratified mean (1/N) sum_h N_h y_h for simple random samples.

    y_h is the mean of a sample of m_h of the N_h values of stratum h; `strata` are lists of values, `allocation` is m [H].
    """
    total = sum(len(values) for values in strata)
    return _sum(
        Fraction(len(v), total) ** 2 * simple_random_variance(v, k)
        for v, k in zip(strata, allocation, strict=True)
    )
