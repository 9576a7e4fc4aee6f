"""Allocation: how many of the m participants are drawn from each of H strata (FedSTaS, eq. 3.5).

`sizes` [H] are numbers of clients, N_h; `spreads` [H] are within-stratum standard deviations S_h.
"""

import numpy as np

from fedstas.arrays import (
    MAX_COUNT,
    as_float_array,
    as_int_array,
    check_same_shape,
    rescale,
)
from fedstas.errors import InputError, check_int, format_value

MAX_DRAWS = 10**6  # that `by_priority` allocates one by one


def _check_sizes(sizes) -> np.ndarray:
    """Return stratum sizes as int64 [H]; `InputError` where all strata are empty."""
    sizes = as_int_array("stratum sizes", sizes)
    if not sizes.any():
        raise InputError("the strata are empty: there is no client to draw")
    return sizes


def _check_spreads(spreads, sizes) -> np.ndarray:
    """Return spreads as float64 [H], rescaled where their products would leave the range of floats: allocations
    depend on their ratios alone."""
    spreads = as_float_array("spreads", spreads, 0)
    check_same_shape("spreads and stratum sizes", spreads, sizes)
    return rescale(spreads)


def largest_remainder(quotas, m: int) -> np.ndarray:
    """Round quotas [H] that sum to m to whole numbers [H] that sum to m, by the largest-remainder method.

    These are the floors, and one more for the largest fractions, ties to the lowest index; a stratum may get 0.

    Args:
        quotas: numbers >= 0 that sum to m, up to 1e-6.
        m: the number of draws.

    Raises:
        InputError: the quotas are not so.
    """
    quotas, m = as_float_array("quotas", quotas, 0), check_int("m", m, 0, MAX_COUNT)
    if abs(quotas.sum() - m) > 1e-6:
        raise InputError(f"quotas sum to {quotas.sum():.12g}: they must sum to m = {m}")
    # Up to rounding errors: a quota of 3 - 1e-15 is 3, and remainders that differ by less than 1e-9 are ties.
    floors = np.floor(quotas + 1e-9)
    return add_draws(floors.astype(np.int64), (quotas - floors).round(9), m)


def add_draws(draws: np.ndarray, remainders: np.ndarray, m: int) -> np.ndarray:
    """Add one draw each to the strata with the largest remainders [H], ties to the lowest index, until the draws
    [H] sum to m, from which at most H may be missing; changes and returns `draws`."""
    order = np.argsort(-remainders, kind="stable")
    draws[order[: m - draws.sum()]] += 1
    return draws


def proportional(sizes, m: int) -> np.ndarray:
    """Allocate m draws in proportion to N_h by the largest-remainder method, int [H]; ties to the lowest index, no
    bounds."""
    sizes, m = _check_sizes(sizes), check_int("m", m, 0, MAX_COUNT)
    total = int(sizes.sum())
    return add_draws(m * sizes // total, m * sizes % total, m)


def neyman_real(sizes, spreads, m: int) -> np.ndarray:
    """Compute eq. 3.5 as printed, m N_h S_h / sum N_h S_h, float [H]; `InputError` where it is 0/0."""
    sizes, m = _check_sizes(sizes), check_int("m", m, 1, MAX_COUNT)
    products = sizes * _check_spreads(spreads, sizes)
    if not products.any():
        raise InputError("all spreads are zero: eq. 3.5 is 0/0")
    return m * products / products.sum()


def by_priority(totals, m: int, *, lower, upper, quotas=None) -> np.ndarray:
    """Allocate m draws so that sum T_h^2 / m_h is smallest under lower <= m_h <= upper, int [H].

    Wright's greedy algorithm (2012): draws are added one by one where T_h / sqrt(k (k + 1)) is largest, with k the
    draws that stratum h has; exact, since the objective is separable and convex. Where all priorities are zero
    the draw goes to the stratum furthest below its quota.

    Args:
        totals: T_h [H].
        m: the number of draws.
        lower: bounds [H].
        upper: bounds [H].
        quotas: [H], for ties; by default zeros.

    Raises:
        InputError: where the bounds contradict each other or m.
    """
    totals, m = as_float_array("stratum totals", totals, 0), check_int("m", m, 0, MAX_DRAWS)
    draws, upper = as_int_array("lower bounds", lower), as_int_array("upper bounds", upper)
    quotas = np.zeros_like(totals) if quotas is None else as_float_array("quotas", quotas)
    check_same_shape("totals, bounds and quotas", totals, draws, upper, quotas)
    if (draws > upper).any():
        raise InputError(
            f"lower bounds are {format_value(draws)} and upper bounds {format_value(upper)}: no lower one may be above "
            "its upper one"
        )
    if not draws.sum() <= m <= upper.sum():
        raise InputError(
            f"m is {m}: by the bounds {format_value(draws)} and {format_value(upper)} it must be from {draws.sum()} to "
            f"{upper.sum()}"
        )
    if totals.max() < 1:  # so that no priority is lost below the least float
        totals = rescale(totals)
    for _ in range(m - draws.sum()):
        with np.errstate(divide="ignore", invalid="ignore"):
            priority = np.where(totals > 0, totals / np.sqrt(draws * (draws + 1.0)), 0.0)
        priority[draws >= upper] = -1.0
        best = np.flatnonzero(priority == priority.max())
        draws[best[np.argmax((quotas - draws)[best])]] += 1
    return draws


def neyman(sizes, spreads, m: int) -> np.ndarray:
    """Allocate m draws so that sum W_h^2 S_h^2 / m_h is smallest under 1 <= m_h <= N_h, int [H].

    Empty strata get 0. With all spreads zero the allocation is the nearest to proportional within the bounds. This
    corrects eq. 3.5, which is real-valued, unbounded, and optimal only if S_h is the standard deviation.

    Raises:
        InputError: for m below the number of strata that are not empty, or above sum N_h.
    """
    sizes, m = _check_sizes(sizes), check_int("m", m, 0, MAX_DRAWS)
    spreads = _check_spreads(spreads, sizes)
    lower = (sizes > 0).astype(np.int64)
    least, most = lower.sum(), sizes.sum()
    if not least <= m <= most:
        raise InputError(f"m is {m}: with 1 to N_h of a stratum it must be from {least} to {most}")
    return by_priority(sizes * spreads, m, lower=lower, upper=sizes, quotas=m * sizes / most)
