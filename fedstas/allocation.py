"""How many of the m participants each stratum gives (FedSTaS, eq. 3.5).

`sizes` are numbers of clients per stratum, N_h; `spreads` are standard deviations S_h.
"""

import numpy as np

from fedstas.arrays import (
    MAX_COUNT,
    as_float_array,
    as_int_array,
    check_same_shape,
    rescale_exponent,
)
from fedstas.errors import InputError, check_int, format_value

MOST = 10**6  # seats that are given one by one


def _counts(sizes) -> np.ndarray:
    sizes = as_int_array("stratum sizes", sizes)
    if not sizes.any():
        raise InputError("the strata are empty: there is no client to draw")
    return sizes


def _spreads(spreads, sizes) -> np.ndarray:
    """Their ratios count alone: those whose products would leave the floats are scaled."""
    spreads = as_float_array("spreads", spreads, 0)
    check_same_shape("spreads and stratum sizes", spreads, sizes)
    return rescale_exponent(spreads)[0]


def largest_remainder(quotas, m: int) -> np.ndarray:
    """Whole numbers [H] that sum to m: the floors, then one each to the largest fractions.

    Ties go to the lowest index; no bounds, so a stratum may get 0. `quotas` [H] sum to m.
    """
    quotas, m = as_float_array("quotas", quotas, 0), check_int("m", m, 0, MAX_COUNT)
    if abs(quotas.sum() - m) > 1e-6:
        raise InputError(f"quotas must be finite, >= 0 and sum to m = {m}")
    floors = np.floor(quotas + 1e-9)  # a quota of 3 - 1e-15 is 3
    return topped_up(floors.astype(np.int64), (quotas - floors).round(9), m)


def topped_up(seats: np.ndarray, left: np.ndarray, m: int) -> np.ndarray:
    """One more seat each to where most is left, ties to the lowest index, until there are m [H]."""
    order = np.argsort(-left, kind="stable")
    seats[order[: m - seats.sum()]] += 1
    return seats


def proportional(sizes, m: int) -> np.ndarray:
    """Largest remainder of m N_h / N, in whole numbers; ties to the lowest index, no bounds."""
    sizes, m = _counts(sizes), check_int("m", m, 0, MAX_COUNT)
    total = int(sizes.sum())
    return topped_up(m * sizes // total, m * sizes % total, m)


def neyman_real(sizes, spreads, m: int) -> np.ndarray:
    """Eq. 3.5 as printed: m N_h S_h / sum N_h S_h, float [H]; `InputError` where it is 0/0."""
    sizes, m = _counts(sizes), check_int("m", m, 1, MAX_COUNT)
    products = sizes * _spreads(spreads, sizes)
    if not products.any():
        raise InputError("all spreads are zero: eq. 3.5 is 0/0")
    return m * products / products.sum()


def by_priority(totals, m: int, *, lower, upper, quotas=None) -> np.ndarray:
    """Whole numbers [H] that minimise sum T_h^2 / m_h under lower <= m_h <= upper, sum m.

    Wright's greedy algorithm (2012): seats go one by one to the largest T_h / sqrt(k (k + 1)),
    k the seats that h has; exact, since the objective is separable and convex. Where all
    priorities are zero the seat goes to the stratum furthest below its quota. `InputError` where
    the bounds contradict each other or m.
    """
    totals, m = as_float_array("stratum totals", totals, 0), check_int("m", m, 0, MOST)
    seats, upper = as_int_array("lower bounds", lower), as_int_array("upper bounds", upper)
    quotas = np.zeros_like(totals) if quotas is None else as_float_array("quotas", quotas)
    check_same_shape("totals, bounds and quotas", totals, seats, upper, quotas)
    if (seats > upper).any() or not seats.sum() <= m <= upper.sum():
        raise InputError(
            f"m is {m}: the bounds {format_value(seats)} and {format_value(upper)} do not allow it"
        )
    if totals.max() < 1:  # so that no priority is lost below the least float
        totals = rescale_exponent(totals)[0]
    for _ in range(m - seats.sum()):
        with np.errstate(divide="ignore", invalid="ignore"):
            priority = np.where(totals > 0, totals / np.sqrt(seats * (seats + 1.0)), 0.0)
        priority[seats >= upper] = -1.0
        best = np.flatnonzero(priority == priority.max())
        seats[best[np.argmax((quotas - seats)[best])]] += 1
    return seats


def neyman(sizes, spreads, m: int) -> np.ndarray:
    """The integer optimum of sum W_h^2 S_h^2 / m_h under 1 <= m_h <= N_h, int [H].

    Strata that are empty get 0. With all spreads zero: nearest to proportional under the
    bounds. Corrects eq. 3.5, which is real-valued, unbounded, and optimal only if S_h is the
    standard deviation. `InputError` for m below the number of strata or above sum N_h.
    """
    sizes, m = _counts(sizes), check_int("m", m, 0, MOST)
    spreads = _spreads(spreads, sizes)
    lower = (sizes > 0).astype(np.int64)
    least, most = lower.sum(), sizes.sum()
    if not least <= m <= most:
        raise InputError(f"m is {m}: with 1 to N_h of a stratum it must be from {least} to {most}")
    return by_priority(sizes * spreads, m, lower=lower, upper=sizes, quotas=m * sizes / most)
