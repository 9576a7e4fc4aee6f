"""Exact allocation of m draws to H strata: eq. 3.5 as printed, with bounds, and in whole numbers.

`sizes` are numbers of clients N_h, `spreads` within-stratum standard deviations S_h, both [H]; results are
Fractions. The variance is that of the stratified mean with independent draws,
sum_h W_h^2 S_h^2 / m_h with W_h = N_h / N; a finite population correction subtracts a constant from it.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, inf

import numpy as np

from fedstas.allocation import add_draws
from fedstas.errors import InputError, check_int
from fedstas.theory.designs import LARGEST, exact


def _check_strata(sizes: Sequence, spreads: Sequence) -> tuple[list[Fraction], list[Fraction]]:
    """Return the strata's sizes and spreads as Fractions; `InputError` unless they are one size above 0 and one spread of
    at least 0 per stratum."""
    n, s = exact(sizes), exact(spreads)
    if not n or len(n) != len(s) or min(n) <= 0 or min(s) < 0:
        raise InputError("sizes must be > 0 and spreads >= 0, one of each per stratum")
    return n, s


def allocation_variance(sizes: Sequence, spreads: Sequence, draws: Sequence) -> Fraction | float:
    """Compute sum_h W_h^2 S_h^2 / m_h for real `draws` m_h >= 0 [H]; infinite if a stratum with S_h > 0 has no draw."""
    n, s = _check_strata(sizes, spreads)
    draws = exact(draws)
    if len(draws) != len(n) or min(draws) < 0:
        raise InputError("draws must be one number >= 0 per stratum")
    parts = list(zip(n, s, draws, strict=True))
    if any(b and not m for _, b, m in parts):
        return inf
    return sum(((a / sum(n)) ** 2 * b**2 / m for a, b, m in parts if b), start=Fraction(0))


def in_proportion(measure: Sequence, m: int) -> list[Fraction]:
    """Share m draws in proportion to a measure T [H], without rounding: m T_h / sum T_h.

    It is eq. 3.5 for T_h = N_h S_h, and the proportional allocation for T_h = N_h.
    """
    t, (draws,) = exact(measure), exact([m])
    if not t or min(t) < 0 or not sum(t) or draws < 0:
        raise InputError("the allocation is 0/0: measures must be >= 0 and not all zero")
    return [draws * x / sum(t) for x in t]


def neyman_printed(sizes: Sequence, spreads: Sequence, m: int) -> list[Fraction]:
    """Compute the Neyman allocation of eq. 3.5 as printed, m N_h S_h / sum N_h S_h, without rounding or bounds."""
    n, s = _check_strata(sizes, spreads)
    return in_proportion([a * b for a, b in zip(n, s, strict=True)], m)


def neyman_bounded(sizes: Sequence, spreads: Sequence, m: int) -> list[Fraction]:
    """Compute the real-valued optimum under 1 <= m_h <= N_h: clip(lambda N_h S_h, 1, N_h) with sum m.

    By the Karush-Kuhn-Tucker conditions. The sum over h is piecewise linear and increasing in lambda, so that lambda is
    computed exactly.

    Raises:
        InputError: all spreads are zero, so that any allocation is optimal; or m is not in H..N.
    """
    n, s = _check_strata(sizes, spreads)
    t = [a * b for a, b in zip(n, s, strict=True)]
    if not sum(t):
        raise InputError("all spreads are zero: every allocation has variance zero")
    check_int("m", m, len(n), int(sum(n)))

    def clipped(rate):
        """Clip rate * N_h S_h to 1..N_h in each stratum."""
        return [min(max(rate * x, Fraction(1)), a) for x, a in zip(t, n, strict=True)]

    kinks = sorted({x for a, b in zip(n, t, strict=True) if b for x in (1 / b, a / b)})
    for low, high in pairwise([Fraction(0), *kinks]):
        if sum(clipped(high)) >= m:
            a, b = sum(clipped(low)), sum(clipped(high))
            return clipped(low + (high - low) * (m - a) / (b - a) if b > a else high)
    # All strata with S_h > 0 are full: the other draws go to strata with S_h = 0.
    draws = clipped(kinks[-1])
    for h, x in enumerate(t):
        if not x:
            more = min(n[h] - draws[h], m - sum(draws))
            draws[h] += more
    return draws


def integer_allocations(sizes: Sequence, m: int) -> Iterator[tuple[int, ...]]:
    """Enumerate the allocations in whole numbers with 1 <= m_h <= N_h and sum m."""
    sizes, m = exact(sizes), check_int("m", m, 1)
    strata = len(sizes)
    if m > sum(sizes):
        return
    if comb(m - 1, strata - 1) > LARGEST:
        raise InputError("too many allocations to enumerate")
    for cuts in combinations(range(1, m), strata - 1):
        draws = tuple(b - a for a, b in pairwise((0, *cuts, m)))
        if all(k <= a for k, a in zip(draws, sizes, strict=True)):
            yield draws


def integer_optimum(sizes: Sequence, spreads: Sequence, m: int):
    """Return the least variance of all `integer_allocations`, and the list of allocations that attain it."""
    _check_strata(sizes, spreads)
    variances = [(allocation_variance(sizes, spreads, k), k) for k in integer_allocations(sizes, m)]
    if not variances:
        raise InputError(f"m is {m}: no allocation has 1 <= m_h <= N_h")
    least = min(v for v, _ in variances)
    return least, [k for v, k in variances if v == least]


def largest_remainder(quotas: Sequence, m: int) -> list[int]:
    """Round exact quotas [H] that sum to m to whole numbers that sum to m: floors, and one more for the largest
    fractions, ties to the lowest index."""
    q = exact(quotas)
    floors = [int(x) for x in q]
    remainders = np.array([x - floor for x, floor in zip(q, floors, strict=True)], dtype=object)
    return add_draws(np.array(floors), remainders, m).tolist()
