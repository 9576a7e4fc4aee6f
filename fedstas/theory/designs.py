"""Exact moments of sampling designs by enumeration, in rationals (FedSTaS Lemma 1, Theorem 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import perm, prod

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
