"""Covariances of one local step under designs over examples (FedSTaS Lemmas 3 and 4, Theorem 3).

A client with example gradients g_1..g_n takes one step of size 1 along sum_i c_i g_i, where the random coefficients c
depend on the sample. If a design treats all examples alike, the covariance of the step has the form
each * sum_i g_i g_i' + total * (sum_i g_i)(sum_i g_i)' with two numbers `each` and `total`: a `Form`.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import NamedTuple, Self

import numpy as np

from fedstas.arrays import as_array, as_float_array
from fedstas.errors import InputError, check_choice, check_int
from fedstas.theory.designs import exact

# What the paper's "sample of n̄ observations with probabilities n*/n" can mean; n is the size of the participants' pool.
READINGS = {
    "fixed": "n̄ examples, none twice (SRS)",
    "bernoulli": "each example with n*/n; sum / n̄",
    "bernoulli-mean": "the same; mean of what came, if any",
    "pooled": "n* of the pool of n; the client's part / n̄",
    "pooled-size": "n̄ of the pool of n; the client's part / n̄",
    "again": "n̄ draws with replacement",
    "again-or-nothing": "n̄ draws; each takes example i with probability n*/n, for each i, else none",
}


class Form(NamedTuple):
    """The covariance each * sum_i g_i g_i' + total * (sum_i g_i)(sum_i g_i)'."""

    each: Fraction
    total: Fraction

    def at(self, gradients) -> np.ndarray:
        """Evaluate the covariance [p, p] for gradients [n, p]; exact for arrays of Fractions."""
        g = as_array("gradients", gradients)
        if g.ndim != 2 or not len(g):
            raise InputError("gradients must be [n, p] with at least one row")
        each: Fraction | float = self.each
        total: Fraction | float = self.total
        if g.dtype != object:
            g, (each, total) = (
                as_float_array("gradients", g, ndim=2),
                as_float_array("factors", [each, total]),
            )
        with np.errstate(over="ignore", invalid="ignore"):
            s = g.sum(axis=0)
            covariance = each * (g.T @ g) + total * np.outer(s, s)
        if g.dtype != object and not np.isfinite(covariance).all():
            raise InputError("the gradients are too large: their covariance is not finite")
        return covariance

    def eigenvalues(self, n: int) -> tuple[Fraction, Fraction]:
        """Return the two eigenvalues of each I + total 11' [n, n], the covariance of the coefficients of n gradients.

        The first belongs to vectors with sum 0 (it has multiplicity n - 1), the second to constant vectors.
        """
        return self.each, self.each + n * self.total

    def is_covariance(self, n: int) -> bool:
        """Return whether this is positive semidefinite, and so a covariance, whatever the values of the n >= 2
        gradients."""
        return min(self.eigenvalues(n)) >= 0

    def is_at_least(self, other: Self, n: int) -> bool:
        """Return whether self - other is positive semidefinite (self >= other in the Loewner order), whatever the values
        of the n >= 2 gradients; so it is if they are equal."""
        return Form(self.each - other.each, self.total - other.total).is_covariance(n)


def srs_form(n_k: int, size: int) -> Form:
    """Return the covariance of the mean of `size` of n_k gradients, without replacement (Lemma 3, eq. 6.10)."""
    n_k = check_int("n_k", n_k, 1)
    size = check_int("sample_size", size, 1, n_k)
    joint = Fraction(size - 1, n_k - 1) if n_k > 1 else Fraction(1)  # P(j sampled | i sampled)
    scale = Fraction(1, n_k * size)
    return Form(scale * (1 - joint), scale * (joint - Fraction(size, n_k)))


def lemma4_form(n: int, n_star: int, size: int) -> Form:
    """Return eq. 6.11 as printed: eq. 6.10 with n*/n in place of 1/n_k and n*(n̄-1)/(n-1) in place of (n̄-1)/(n_k-1)."""
    n, size = check_int("n", n, 2), check_int("sample_size", size, 1)
    n_star = check_int("n_star", n_star, 1)
    scale, joint = Fraction(n_star, n * size), Fraction(n_star * (size - 1), n - 1)
    return Form(scale * (1 - joint), scale * (joint - Fraction(size * n_star, n)))


def srs_covariance(gradients, sample_size: int) -> np.ndarray:
    """Compute the covariance [p, p] of the mean of a simple random sample without replacement (Lemma 3, eq. 6.10)."""
    gradients = as_array("gradients", gradients)
    if gradients.ndim != 2 or not gradients.size:
        raise InputError("sample_size needs gradients [n, p] with at least one row")
    return srs_form(len(gradients), sample_size).at(gradients)


def bernoulli_covariance(gradients, rate, norm) -> np.ndarray:
    """Compute the covariance [p, p] of (1 / norm) times the sum over a Bernoulli(rate) sample."""
    rate, norm = exact([rate, norm])
    if not 0 <= rate <= 1 or norm <= 0:
        raise InputError(f"rate is {rate}, norm {norm}: they must be in [0, 1] and above 0")
    return Form(rate * (1 - rate) / norm**2, Fraction(0)).at(gradients)


def paper_lemma4(gradients, n: int, n_star: int, sample_size: int) -> np.ndarray:
    """Compute eq. 6.11 as printed [p, p], which is a covariance for few settings only."""
    return lemma4_form(n, n_star, sample_size).at(gradients)


def largest_request(n_k: int, n: int, size: int) -> Fraction:
    """Compute the largest n* for which eq. 6.11 is a covariance for all gradients of a client of n_k >= 2."""
    return Fraction(n * (n - 1), n * (size - 1) + n_k * (n - size))


def _sample_size_distribution(
    reading: str, n_k: int, n: int, n_star: int, size: int
) -> list[Fraction] | None:
    """Return the probabilities that a reading's sample has 0, ..., n_k of the client's examples; None for draws with
    replacement."""
    if reading == "fixed":
        return [Fraction(j == size) for j in range(n_k + 1)]
    if reading in ("pooled", "pooled-size"):
        count = n_star if reading == "pooled" else size
        if count > n:
            raise InputError(f"{count} examples of {n} cannot be drawn without replacement")
        chances = (
            comb(n_k, j) * comb(n - n_k, count - j) if j <= count else 0 for j in range(n_k + 1)
        )
        return [Fraction(x, comb(n, count)) for x in chances]
    if reading in ("bernoulli", "bernoulli-mean"):
        q = Fraction(n_star, n)
        chance = [comb(n_k, j) * q**j * (1 - q) ** (n_k - j) for j in range(n_k + 1)]
        if reading == "bernoulli-mean":
            chance = [x / (1 - chance[0]) for x in chance]
            chance[0] = Fraction(0)
        return chance
    return None


def _check_reading(reading: str, n_k: int, n: int, n_star: int, size: int) -> None:
    """Raise an `InputError` unless `reading`, an interpretation of the paper's sampling, is in `READINGS` and these sizes
    are possible under it.

    Args:
        reading: a key of `READINGS`.
        n_k: examples of the client.
        n: examples of all participants together.
        n_star: n*, the requested examples of all participants together.
        size: n̄, the size of the client's sample.
    """
    check_choice("reading", reading, READINGS)
    check_int("n_k", n_k, 1, check_int("n", n, 2))
    check_int("n_star", n_star, 1, n)
    check_int("size", size, 1, n_k)
    # One draw takes one of the n_k examples with probability n_k n*/n in all, which must be at most 1.
    if reading == "again-or-nothing" and n_k * n_star > n:
        raise InputError(f"n_k n* is {n_k * n_star}: it must be at most n = {n} for this reading")


def reading_form(reading: str, n_k: int, n: int, n_star: int, size: int) -> tuple[Fraction, Form]:
    """Compute the expectation and the exact covariance of a client's step under one of the `READINGS`.

    The client has n_k examples, all participants together have n.

    Returns:
        A factor, which times the client's mean gradient is the expectation of the step; and the covariance.
    """
    _check_reading(reading, n_k, n, n_star, size)
    chances = _sample_size_distribution(reading, n_k, n, n_star, size)
    if chances is None:
        p = Fraction(1, n_k) if reading == "again" else Fraction(n_star, n)
        return n_k * p, Form(p / size, -p * p / size)
    mean = square = both = Fraction(0)  # E c_i, E c_i^2, E c_i c_j
    for j, chance in enumerate(chances[1:], 1):
        c = Fraction(1, j if reading == "bernoulli-mean" else size)
        mean += chance * c * Fraction(j, n_k)
        square += chance * c * c * Fraction(j, n_k)
        both += chance * c * c * Fraction(j * (j - 1), n_k * max(1, n_k - 1))
    return n_k * mean, Form(square - both, both - mean * mean)


def outcomes(reading: str, n_k: int, n: int, n_star: int, size: int) -> Iterator[tuple]:
    """Enumerate the coefficients c [n_k] that are possible under one of the `READINGS`, with their probabilities.

    With it `reading_form` is tested.
    """
    _check_reading(reading, n_k, n, n_star, size)
    chances = _sample_size_distribution(reading, n_k, n, n_star, size)
    if chances is None:
        p = Fraction(1, n_k) if reading == "again" else Fraction(n_star, n)
        chances = [p] * n_k + [1 - n_k * p]  # the last: the draw takes no example
        for draws in product(range(n_k + 1), repeat=size):
            chance = Fraction(1)
            for i in draws:
                chance *= chances[i]
            if chance:
                yield [Fraction(draws.count(i), size) for i in range(n_k)], chance
        return
    for j, chance in enumerate(chances):
        c = Fraction(1, max(1, j) if reading == "bernoulli-mean" else size)
        for chosen in combinations(range(n_k), j):
            if chance:
                yield [c * (i in chosen) for i in range(n_k)], chance / comb(n_k, j)


def enumerated(gradients: Sequence, samples) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean [p] and covariance [p, p] of sum c_i g_i over `samples`, pairs (c, probability).

    Exact for arrays of objects such as Fractions.
    """
    g = np.asarray(gradients, dtype=object)
    mean, square = 0 * g.sum(axis=0), 0 * (g.T @ g)
    for c, chance in samples:
        step = np.array(c, dtype=object) @ g
        mean, square = mean + chance * step, square + chance * np.outer(step, step)
    return mean, square - np.outer(mean, mean)


def semidefinite(matrix) -> bool:
    """Return whether a symmetric matrix [p, p] is positive semidefinite; exact for arrays of objects (elimination)."""
    a = np.array(matrix)
    if a.dtype != object:
        return bool(np.linalg.eigvalsh(a).min() >= -1e-12 * max(1.0, np.abs(a).max()))
    while len(a):
        if min(a.diagonal()) < 0:
            return False
        k = int(np.argmax(a.diagonal()))
        if a[k, k] == 0:
            return not a.any()
        rest = np.delete(a - np.outer(a[:, k], a[k]) / Fraction(a[k, k]), k, 0)
        a = np.delete(rest, k, 1)
    return True


def loewner(a, b) -> str:
    """Compare two symmetric matrices in the Loewner order: "=", "≥", "≤", or "neither"."""
    more, less = semidefinite(np.asarray(a) - b), semidefinite(np.asarray(b) - a)
    return {(1, 1): "=", (1, 0): "≥", (0, 1): "≤", (0, 0): "neither"}[more, less]
