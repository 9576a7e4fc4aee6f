"""Covariances of one local step under designs over examples (FedSTaS Lemmas 3 and 4, Theorem 3)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedstas.errors import InputError, integer


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
