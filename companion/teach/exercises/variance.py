"""Exercises of part 4b: which design is less noisy?"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from companion.teach.check import Example, Exercise, Function
from fedstas import theory
from fedstas.theory.allocations import in_proportion, largest_remainder

EXERCISES: dict[str, Exercise] = {}


CASES = (  # sizes N_h, standard deviations S_h, and m of the strata
    ([10, 10], [1, 1], 4),
    ([50, 30, 20], [2, 4, 6], 10),
    ([40, 35, 25], [3, 1, 5], 10),
    ([5, 6], [1, 2], 5),
)


def least_variance(sizes, spreads, m):
    """Return the least variance of the stratified mean over real-valued allocations: (sum W_h S_h)^2 / m."""
    return Fraction(sum(a * b for a, b in zip(sizes, spreads, strict=True)), sum(sizes)) ** 2 / m


def proportional_variance(sizes, spreads, m):
    """Return the variance of the proportional allocation (a mistake)."""
    return theory.allocation_variance(sizes, spreads, in_proportion(sizes, m))


EXERCISES["least-variance"] = Function(
    level=1,
    solution=least_variance,
    inputs=CASES,
    mistakes={
        "That is the variance of proportional allocation: put m_h proportional to N_h S_h into the sum.": proportional_variance,
        "That is m times the least variance: divide by m.": (
            lambda n, s, m: m * least_variance(n, s, m)
        ),
    },
)


WHOLE_CASES = (  # N_h, S_h and m, for the exercise on whole numbers of draws
    ([4, 4], [1, 1], 4),
    ([10, 10], [3, 1], 2),
    ([40, 35, 25], [3, 0, 5], 10),
    ([2, 48, 50], [100, 1, 1], 10),
    ([4, 4, 4, 4], [8, 1, 1, 1], 4),
)


def best_allocation(sizes, spreads, m):
    """Return the integer optimum under 1 <= m_h <= N_h."""
    return allocate_by_priority(sizes, spreads, m, bounds=sizes)


def unbounded_allocation(sizes, spreads, m):
    """Return the integer optimum under 1 <= m_h, without the bound m_h <= N_h (a mistake)."""
    return allocate_by_priority(sizes, spreads, m, bounds=[m] * len(sizes))


def allocate_by_priority(sizes, spreads, m, bounds):
    """Allocate one draw to each stratum, and the others one by one where N_h S_h / sqrt(k (k + 1)) is largest.

    k is the number of draws that the stratum has; at its bound it gets no more (Wright 2012; see `fedstas.allocation.by_priority`).
    """
    draws = [1] * len(sizes)
    for _ in range(m - len(sizes)):
        priorities = [
            n * s / sqrt(k * (k + 1)) if k < bound else -1.0
            for n, s, k, bound in zip(sizes, spreads, draws, bounds, strict=True)
        ]
        draws[priorities.index(max(priorities))] += 1
    return draws


EXERCISES["best-allocation"] = Function(
    level=2,
    solution=best_allocation,
    inputs=WHOLE_CASES,
    mistakes={
        "That is eq. 3.5 by largest remainder: a stratum can get nobody, or more than it has.": (
            lambda n, s, m: largest_remainder(theory.neyman_printed(n, s, m), m)
        ),
        "That is optimal without the upper bound: a stratum of two clients cannot send seven.": unbounded_allocation,
        "That allocation is proportional to the sizes: the spreads must count too.": (
            lambda n, s, m: largest_remainder(in_proportion(n, m), m)
        ),
    },
)


def check_noisier(example) -> str:
    """Return what is wrong with updates for which draws by norm should be unbiased and have the larger variance; "" if nothing is."""
    w = [Fraction(x) for x in example]
    if not 1 <= len(w) <= 4:
        return "use at most four clients."
    if any(not x for x in w):
        return "an update of 0 would have p = 0: use numbers that are not 0."
    draw = theory.per_draw(w, [abs(x) for x in w])
    target = sum(w) / len(w)
    if draw.plain_mean != target:
        return f"the plain mean is biased here ({draw.plain_mean} instead of {target})."
    if draw.plain <= draw.uniform:
        return f"the variance by norm, {draw.plain}, is not above the uniform one, {draw.uniform}."
    return ""


EXERCISES["noisier"] = Example(
    level=3,
    solution=(-2, -1, 1, 2),
    fault=check_noisier,
    mistakes=((1, 1, 2), (-1, 1), (-1, 0, 1), (1, 1, 1, 1)),
)
