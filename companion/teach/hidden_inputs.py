"""Draw inputs for the exercises that ask for a function, other than those on which students' own checks compare.

`fedstas grade` compares answers on these, too: a function that returns the right values of the visible inputs alone
is wrong on them. They are drawn anew from the seed that the lecturer gives.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fedstas.sim.rng import stream

HOW_MANY = 5  # inputs for each exercise


def inputs(name: str, seed: int) -> list[tuple]:
    """Return the hidden inputs of an exercise, as tuples of arguments."""
    rng = stream(seed, f"hidden inputs of {name}")
    return [DRAWS[name](rng) for _ in range(HOW_MANY)]


def _ints(rng: np.random.Generator, count: int, low: int, high: int) -> list[int]:
    """Draw whole numbers from low to high, both included."""
    return rng.integers(low, high + 1, count).tolist()


def _shares(rng: np.random.Generator, count: int) -> list[Fraction]:
    """Draw positive fractions that sum to one."""
    parts = _ints(rng, count, 1, 9)
    return [Fraction(part, sum(parts)) for part in parts]


def _rows(rng: np.random.Generator, m: int, clients: int) -> list[list[Fraction]]:
    """Draw a row of selection probabilities for each of m draws."""
    return [_shares(rng, clients) for _ in range(m)]


def _outcomes(rng: np.random.Generator) -> tuple:
    """Draw a design of three clients: cohorts of two, a client perhaps twice, with weights and chances."""
    chances = _shares(rng, 3)
    cohorts = [tuple(_ints(rng, 2, 0, 2)) for _ in chances]
    weights = [tuple(Fraction(w, 6) for w in _ints(rng, 2, 1, 9)) for _ in chances]
    return 3, list(zip(cohorts, weights, chances, strict=True))


def _strata(rng: np.random.Generator) -> tuple:
    """Draw two strata of two and three clients: shares, probabilities within strata, labels, draws."""
    p = [*_shares(rng, 2), *_shares(rng, 3)]
    return _shares(rng, 5), p, [0, 0, 1, 1, 1], _ints(rng, 2, 1, 3)


def _strata_with_cohort(rng: np.random.Generator) -> tuple:
    """Draw two strata, and a cohort of them."""
    omega, p, labels, draws = _strata(rng)
    cohort = [*_ints(rng, draws[0], 0, 1), *_ints(rng, draws[1], 2, 4)]
    return omega, p, labels, draws, cohort


def _allocation(rng: np.random.Generator, strata: int = 3) -> tuple:
    """Draw sizes and standard deviations of strata, and a number of draws that fits; no two strata tie."""
    while True:
        sizes, spreads = _ints(rng, strata, 5, 40), _ints(rng, strata, 1, 9)
        products = {size * spread for size, spread in zip(sizes, spreads, strict=True)}
        if len(products) == strata:
            return sizes, spreads, int(rng.integers(strata, 5 * strata))


def _respondents(rng: np.random.Generator) -> tuple:
    """Draw weights of two strata of three participants, and who answers: at least one in each."""
    answered = [True, *(rng.random(2) < 0.5).tolist(), *(rng.random(2) < 0.5).tolist(), True]
    return [w / 10 for w in _ints(rng, 6, 1, 9)], [0, 0, 0, 1, 1, 1], answered


def _distinct_sample(rng: np.random.Generator) -> tuple:
    """Draw updates and norms of five clients, and a sample of distinct ones in an order."""
    order = rng.permutation(5)[: rng.integers(1, 5)]
    return tuple(order.tolist()), _ints(rng, 5, -5, 9), _ints(rng, 5, 1, 6)


def _alpha(rng: np.random.Generator) -> Fraction:
    """Draw a probability of a true report."""
    return Fraction(int(rng.integers(1, 20)), 20)


DRAWS: dict[str, Callable[[np.random.Generator], tuple]] = {
    "aggregation/expected": _outcomes,
    "aggregation/random-factor": lambda rng: (_shares(rng, 5), int(rng.integers(1, 5))),
    "clustered_sampling/included": lambda rng: (_rows(rng, 3, 4), int(rng.integers(4))),
    "clustered_sampling/own-rows": lambda rng: (_ints(rng, 4, 1, 12), int(rng.integers(2, 6))),
    "clusters/variance": lambda rng: (
        [[float(share) for share in row] for row in _rows(rng, 3, 4)],
        int(rng.integers(4)),
    ),
    "clusters/line": lambda rng: (_ints(rng, 5, 1, 9), int(rng.integers(2, 5))),
    "convergence/noise-floor": lambda rng: (
        tuple(_ints(rng, 5, -4, 6)),
        int(rng.integers(1, 5)),
        float(rng.integers(1, 9)) / 20,
    ),
    "convergence/where-it-leads": lambda rng: (tuple(sorted(_ints(rng, 4, 0, 9))),),
    "corrected/weights": _strata_with_cohort,
    "corrected/variance": lambda rng: (*_strata(rng), _ints(rng, 5, -5, 9)),
    "covariance/contribution": lambda rng: (tuple(_ints(rng, 4, 5, 60)), int(rng.integers(1, 20))),
    "covariance/lemma-3": lambda rng: (
        tuple(map(float, _ints(rng, 6, -5, 9))),
        int(rng.integers(1, 7)),
    ),
    "data_sampling/truth": lambda rng: (
        Fraction(int(rng.integers(3, 60)), 2),
        int(rng.integers(3, 200)),
    ),
    "data_sampling/two-means": lambda rng: (
        [_ints(rng, count, 0, 9) for count in _ints(rng, 3, 1, 5)],
    ),
    "data_sampling/cap": lambda rng: (
        int(rng.integers(5, 500)),
        int(rng.integers(50, 900)),
        float(rng.integers(2, 6)),
    ),
    "experiments/holm": lambda rng: ([p / 200 for p in _ints(rng, 5, 1, 60)],),
    "experiments/seeds": lambda rng: (
        float(rng.integers(2, 8)) / 2,
        float(rng.integers(2, 12)) / 2,
    ),
    "federation/bytes": lambda rng: (
        (clients := int(rng.integers(20, 90))),
        int(rng.integers(2, clients)),
        8 * int(rng.integers(10, 900)),
        int(rng.integers(2, 17)),
    ),
    "federation/stand-for": _respondents,
    "fedsampling/repaired": lambda rng: (
        _ints(rng, 4, 0, 9),
        int(rng.integers(2, 40)),
        int(rng.integers(4, 30)),
    ),
    "fedsampling/needed": lambda rng: (
        int(rng.integers(20, 900)),
        float(rng.integers(2, 8)) / 2,
        float(rng.integers(2, 30)) / 100,
    ),
    "privacy/alpha": lambda rng: (
        Fraction(int(rng.integers(3, 60)), 2),
        int(rng.integers(2, 300)),
    ),
    "privacy/three-reports": lambda rng: (int(rng.integers(3, 40)), _alpha(rng)),
    "sizes/estimate": lambda rng: (
        int(rng.integers(20, 400)),
        int(rng.integers(2, 20)),
        int(rng.integers(5, 90)),
        _alpha(rng),
    ),
    "sizes/mean-with-zero": lambda rng: (
        tuple(_ints(rng, 4, 1, 12)),
        int(rng.integers(4, 10)),
        _alpha(rng),
    ),
    "stratification/neyman": _allocation,
    "stratification/bits": lambda rng: ([float(share) for share in _shares(rng, 5)],),
    "stratification/saved": lambda rng: _allocation(rng)[:2],
    "unbiasedness/plain-bias": lambda rng: (
        _ints(rng, 5, -5, 9),
        _ints(rng, 5, 1, 6),
        int(rng.integers(1, 5)),
    ),
    "unbiasedness/des-raj": _distinct_sample,
    "variance/least-variance": _allocation,
    "variance/best-allocation": _allocation,
    "which_design/verdict": lambda rng: tuple(sorted(x / 4 for x in _ints(rng, 2, -20, 20))),
    "which_design/at-budget": lambda rng: (
        np.cumsum(_ints(rng, 4, 3, 20)).tolist(),
        [x / 20 for x in _ints(rng, 4, 1, 19)],
        int(rng.integers(3, 90)),
    ),
}
