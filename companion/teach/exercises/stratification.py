"""Exercises of chapter 2: Neyman by hand, what it saves, rounding, and the bits of a code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from companion.teach.check import Example, Exercise, Function
from fedstas import allocation, theory
from fedstas.errors import InputError
from fedstas.theory.allocations import in_proportion, largest_remainder

F = Fraction  # short, for exact numbers such as F(1, 3)


def neyman(sizes, spreads, m):
    """Return the Neyman allocation, eq. 3.5 as printed."""
    return theory.neyman_printed(sizes, spreads, m)


def round_quotas(example):
    """Return (sizes, spreads, m, quotas, rounded quotas) of an example with two strata."""
    sizes, spreads, m = example
    sizes, spreads = list(sizes), list(spreads)
    if any(x != int(x) for x in (*sizes, *spreads, m)) or len(sizes) != 2 or len(spreads) != 2:
        raise InputError("give two sizes, two spreads and m, all whole numbers")
    sizes, spreads, m = [int(x) for x in sizes], [int(x) for x in spreads], int(m)
    if min(*sizes, *spreads) < 1 or not 2 <= m <= sum(sizes) or sum(sizes) > 1000:
        raise InputError(
            "sizes and spreads are at least 1, m from 2 to the number of clients, which is at most 1,000"
        )
    quotas = neyman(sizes, spreads, m)
    first, second = quotas
    if first % 1 == F(1, 2):
        raise InputError(f"the quotas {first} and {second} tie: which is rounded up proves little")
    return sizes, spreads, m, quotas, largest_remainder(quotas, m)


EXERCISES: dict[str, Exercise] = {}


CASES = (  # sizes N_h, standard deviations S_h, and m of the strata
    ([10, 10], [1, 3], 4),
    ([50, 30, 20], [2, 4, 6], 10),
    ([2, 48, 50], [100, 1, 1], 10),
)


EXERCISES["neyman"] = Function(
    level=1,
    solution=neyman,
    inputs=CASES,
    mistakes={
        "You take N_h S_h² instead of N_h S_h: Neyman's allocation goes with the standard deviation.": lambda n, s, m: (
            in_proportion([a * b * b for a, b in zip(n, s, strict=True)], m)
        ),
        "You leave out N_h: a small stratum with a wide spread gets too many draws.": lambda n, s, m: (
            in_proportion(s, m)
        ),
        "This allocation is proportional to the sizes: the spreads must count too.": lambda n, s, m: (
            in_proportion(n, m)
        ),
    },
)


def bits(shares):
    """Return the entropy of a code with these shares of its levels, in bits per entry."""
    return sum(-q * math.log2(q) for q in shares if q)


def bits_with_zero_shares(shares):
    """Return the entropy with the terms 0 log 0 of unused levels, which are not numbers (a mistake)."""
    q = np.asarray(shares, dtype=float)
    with np.errstate(all="ignore"):
        return float(-(q * np.log2(q)).sum())


EXERCISES["bits"] = Function(
    level=1,
    solution=bits,
    inputs=(
        ([0.5, 0.5],),
        ([0.25, 0.25, 0.5],),
        ([0.9, 0.1],),
        ([0.5, 0.0, 0.5],),
        ([1.0],),
    ),
    mistakes={
        "That is in nats: bits take the logarithm to the base 2.": lambda q: bits(q) * math.log(2),
        "That is a code of fixed length: frequent levels deserve shorter words.": lambda q: (
            math.ceil(math.log2(len(q)))
        ),
        "A level that nobody uses costs nothing: leave out the shares of 0.": bits_with_zero_shares,
    },
)


def saved_share(sizes, spreads):
    """Return the share of the proportional allocation's variance that Neyman's saves."""
    w = [F(n, sum(sizes)) for n in sizes]
    mean = sum(a * s for a, s in zip(w, spreads, strict=True))
    square = sum(a * s**2 for a, s in zip(w, spreads, strict=True))
    return (square - mean**2) / square


def saved_variance(sizes, spreads):
    """Return m times the variance that Neyman's allocation saves, instead of its share (a mistake)."""
    w = [F(n, sum(sizes)) for n in sizes]
    return saved_share(sizes, spreads) * sum(a * s**2 for a, s in zip(w, spreads, strict=True))


def remaining_share(sizes, spreads):
    """Return the share of the variance that Neyman's allocation leaves (a mistake)."""
    return 1 - saved_share(sizes, spreads)


EXERCISES["saved"] = Function(
    level=2,
    solution=saved_share,
    inputs=(
        ([1, 1], [1, 3]),
        ([1, 1], [2, 2]),
        ([50, 30, 20], [2, 4, 6]),
        ([2, 48, 50], [100, 1, 1]),
    ),
    mistakes={
        "That is m times the variance that is saved: divide by the proportional one.": saved_variance,
        "That is the share that is left over: take it from 1.": remaining_share,
        "All strata count the same here: weigh the spreads by N_h/N.": lambda n, s: saved_share(
            [1] * len(n), s
        ),
    },
)


def check_empty(example) -> str:
    """Return what is wrong with (sizes, spreads, m) whose rounded quotas should leave a stratum without a draw; "" if nothing is."""
    *_, quotas, allocated = round_quotas(example)
    if 0 in allocated:
        return ""
    return f"the quotas {quotas[0]} and {quotas[1]} become the allocation {allocated}: no stratum is left out."


EXERCISES["empty"] = Example(
    level=2,
    solution=([9, 9], [1, 9], 4),
    fault=check_empty,
    mistakes=(([10, 10], [1, 1], 4), ([10, 10], [3, 1], 2), ([9, 9], [1, 9], 40)),
)


def check_not_optimal(example) -> str:
    """Return what is wrong with (sizes, spreads, m) whose rounded quotas should keep the bounds and not be optimal; "" if nothing is."""
    sizes, spreads, m, _, rounded = round_quotas(example)
    if 0 in rounded or any(a > n for a, n in zip(rounded, sizes, strict=True)):
        return f"the rounded allocation {rounded} breaks the bounds 1 to {sizes}: this time it must keep them."
    best = [int(a) for a in allocation.neyman(sizes, spreads, m)]
    ours, least = (theory.allocation_variance(sizes, spreads, a) for a in (rounded, best))
    return (
        ""
        if ours > least
        else f"the rounded allocation {rounded} has V = {ours}, which is the least."
    )


EXERCISES["not-optimal"] = Example(
    level=3,
    solution=([4, 5], [3, 1], 5),
    fault=check_not_optimal,
    mistakes=(([9, 9], [1, 9], 4), ([10, 10], [1, 1], 4), ([2, 50], [100, 1], 10)),
)
