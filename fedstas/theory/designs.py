"""Exact moments of sampling designs by enumeration, in rationals (FedSTaS Lemma 1, Theorem 1).

Only `successive_inclusion` computes in floating point, for federations that are too large to be enumerated.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import perm, prod
from typing import NamedTuple

import numpy as np

from fedstas.arrays import as_float_array, rescale
from fedstas.errors import InputError, check_choice, check_int, format_value

DESIGNS = ("plain-wr", "plain-successive", "hansen-hurwitz", "horvitz-thompson")
ESTIMATORS = (*DESIGNS, "des-raj")  # the names that `design_moments` knows
LARGEST = 2_000_000  # outcomes that an enumeration may have


def exact(numbers: Sequence) -> list[Fraction]:
    """Convert numbers, or strings like "1/3", to Fractions; a float becomes exactly the fraction that it represents."""
    try:
        return [
            Fraction(x if isinstance(x, (str, Fraction)) else x.item() if hasattr(x, "item") else x)
            for x in numbers
        ]
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise InputError(
            f"{format_value(numbers)}: these must be finite numbers ({error})"
        ) from None


def probabilities(selection: Sequence) -> list[Fraction]:
    """Normalise numbers >= 0, of which one at least is positive, to exact probabilities."""
    p = exact(selection)
    if not p or min(p) < 0 or sum(p) == 0:
        raise InputError("selection probabilities must be >= 0 and not all zero")
    return [x / sum(p) for x in p]


def samples_with_replacement(
    selection: Sequence, m: int
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Enumerate the ordered samples of m draws with replacement, with their probabilities.

    Args:
        selection: numbers to which the selection probabilities p are proportional, [N].
        m: the number of draws.

    Yields:
        Each of the N^m samples of clients, a tuple [m], and its probability.
    """
    p = probabilities(selection)
    m = check_int("m", m, 1, LARGEST)
    # The work is that of the N^m samples times their m draws. From 64 draws on, N^m is 1 or far above the limit: the
    # cap spares the computation of a number with millions of digits.
    _check_outcomes(m * len(p) ** min(m, 64))
    for sample in product(range(len(p)), repeat=m):
        yield sample, prod((p[k] for k in sample), start=Fraction(1))


def expected_weights(clients: int, outcomes: Iterable) -> list[Fraction]:
    """Compute each client's expected aggregation weight over outcomes (cohort, its weights, probability).

    The update is unbiased for sum_k omega_k (w_k - w_t) if and only if these are the omega_k.
    """
    total = [Fraction(0)] * clients
    for cohort, weights, chance in outcomes:
        for k, weight in zip(cohort, weights, strict=True):
            total[k] += weight * chance
    return total


def successive_samples(selection: Sequence, m: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Enumerate the ordered samples of m distinct clients, drawn one after another, with their probabilities.

    After each draw the selection probabilities of the remaining clients are normalised again. Arguments as in
    `samples_with_replacement`; samples whose probability is 0 are yielded, too.
    """
    p = probabilities(selection)
    check_int("m", m, 1, sum(x > 0 for x in p))
    _check_outcomes(perm(len(p), m))
    for sample in permutations(range(len(p)), m):
        chance, remaining = Fraction(1), Fraction(1)
        for k in sample:
            chance *= p[k] / remaining if p[k] else 0
            remaining -= p[k]
            if not chance:  # nor can later draws make the sample possible; `remaining` may be 0
                break
        yield sample, chance


def _check_outcomes(outcomes: int) -> None:
    """Raise an `InputError` if there are too many outcomes to enumerate."""
    if outcomes > LARGEST:
        raise InputError(f"{outcomes} outcomes are too many to enumerate: use at most {LARGEST}")


class MeanAndVariance(NamedTuple):
    """Exact moments of an estimator."""

    mean: Fraction
    variance: Fraction


class ExpansionMoments(NamedTuple):
    """Exact moments of the estimator of eq. 2.3.

    Attributes:
        mean, variance: of the estimator.
        weight_sums: all values that the sum of a cohort's weights can have.
    """

    mean: Fraction
    variance: Fraction
    weight_sums: set[Fraction]


def moments(outcomes: Iterator[tuple[Fraction, Fraction]]) -> MeanAndVariance:
    """Compute the mean and the variance over (value, probability) pairs."""
    mean = square = Fraction(0)
    for value, chance in outcomes:
        mean += chance * value
        square += chance * value * value
    return MeanAndVariance(mean, square - mean * mean)


def inclusion_probabilities(selection: Sequence, m: int) -> list[Fraction]:
    """Compute the inclusion probabilities pi_k of m successive draws without replacement, as Fractions.

    Such draws are those of numpy's `choice(replace=False, p=...)`. pi_k is not m p_k in general. Arguments as in
    `samples_with_replacement`.
    """
    selection = probabilities(selection)
    pi = [Fraction(0)] * len(selection)
    for sample, chance in successive_samples(selection, m):
        for k in sample:
            pi[k] += chance
    return pi


def successive_inclusion(selection: Sequence, m: int, step: float = 0.05) -> np.ndarray:
    """Compute pi_k, float [N], of m successive draws from any number of clients, to about 1e-12.

    In an equivalent model, client k arrives after an exponential time of rate p_k and is in the sample if fewer than m
    others arrive before it (Efraimidis and Spirakis 2006). That is one integral for each client, computed by the
    trapezoid rule in the logarithm of time. Clients of probability zero are drawn last, uniformly. The result agrees
    with `inclusion_probabilities`, which enumerates.

    Args:
        selection: numbers to which the selection probabilities p are proportional, [N].
        m: the number of draws.
        step: of the trapezoid rule, in the logarithm of time.

    Raises:
        InputError: a selection is negative or infinite, or m is above N.
    """
    p = rescale(as_float_array("selection probabilities", selection, 0))
    m = check_int("m", m, 0, len(p))
    positive = np.flatnonzero(p > 0)
    if m >= len(positive):
        chance = (m - len(positive)) / max(1, len(p) - len(positive))
        return np.where(p > 0, 1.0, chance)
    pi, p = np.zeros(len(p)), p[positive] / p.sum()
    if m == 0:
        return pi
    # Before e^-45 hardly any client has arrived; after 60 / min p all have, but for a chance of e^-60.
    t = np.exp(np.arange(-45.0, np.log(60 / p.min()), step))
    arrived = -np.expm1(-np.outer(p, t))  # P(k has arrived by t)
    for i, k in enumerate(positive):
        before = np.zeros((m, len(t)))  # P(j others before t), j < m
        before[0] = 1.0
        for q in np.delete(arrived, i, axis=0):  # one more client has arrived or has not
            before[1:] += q * (before[:-1] - before[1:])
            before[0] *= 1 - q
        # k arrives at t with density p exp(-p t), while fewer than m others are there; dt = t d(log t)
        pi[k] = step * np.sum(p[i] * t * np.exp(-p[i] * t) * before.sum(0))
    return pi


def design_moments(design: str, values: Sequence, selection: Sequence, m: int) -> MeanAndVariance:
    """Compute the mean and the variance, as Fractions, of an estimator of the mean of `values` [N] in a stratum.

    Args:
        design: the estimator and how clients are drawn.
            "plain-wr", "plain-successive": the paper's (1/m) sum w_k, with and without replacement (Algorithm 3, last
            line). "hansen-hurwitz": (1/m) sum w_k / (N p_k), with replacement. "horvitz-thompson": sum w_k / (N pi_k)
            for successive draws, with their true inclusion probabilities. "des-raj": the mean of t_1..t_m over
            successive draws k_1..k_m, where N t_r is the sum of w over the r - 1 earlier draws, plus w_{k_r} times
            (1 - the sum of their p) / p_{k_r}.
        values: w [N].
        selection: numbers to which the selection probabilities p are proportional, [N].
        m: the number of draws.
    """
    check_choice("design", design, ESTIMATORS)
    m = check_int("m", m, 1)
    w, p, n = exact(values), probabilities(selection), len(values)
    if len(p) != n:
        raise InputError("values and selection must have the same length")
    if design == "des-raj":
        return moments(
            (_des_raj(sample, w, p), chance) for sample, chance in successive_samples(p, m)
        )
    if design == "horvitz-thompson":
        pi = inclusion_probabilities(p, m)
        unit = [x / (n * q) if q else Fraction(0) for x, q in zip(w, pi, strict=True)]
    elif design == "hansen-hurwitz":
        unit = [x / (n * q * m) if q else Fraction(0) for x, q in zip(w, p, strict=True)]
    else:
        unit = [x / m for x in w]
    draw = (
        samples_with_replacement if design in ("plain-wr", "hansen-hurwitz") else successive_samples
    )
    return moments((_total(unit, sample), chance) for sample, chance in draw(p, m))


def _total(unit: Sequence[Fraction], sample: tuple[int, ...]) -> Fraction:
    """Sum the contributions of the sampled clients; `unit` [N] are those of each client."""
    return sum((unit[k] for k in sample), start=Fraction(0))


def _des_raj(sample: tuple[int, ...], w: list[Fraction], p: list[Fraction]) -> Fraction:
    """Compute Des Raj's estimate of the mean of w from one ordered sample."""
    total = previous = Fraction(0)
    remaining = Fraction(1)
    for k in sample:
        if not p[k]:
            return Fraction(0)  # such a sample has probability zero
        total += previous + w[k] * remaining / p[k]
        previous += w[k]
        remaining -= p[k]
    return total / (len(sample) * len(w))


def stratified_moments(
    design: str, strata: Sequence, selections: Sequence, allocation: Sequence
) -> MeanAndVariance:
    """Compute the mean and the variance, as Fractions, of (1/N) sum_h N_h times `design`'s estimate of stratum h
    (Algorithm 3, last line; preprint eq. 6).

    Args:
        design: as in `design_moments`.
        strata: lists of values [H].
        selections: probabilities within each stratum [H].
        allocation: m_h >= 1 [H].
    """
    if not len(strata) == len(selections) == len(allocation):
        raise InputError("strata, selections and allocation must have the same length")
    total = sum(len(values) for values in strata)
    mean = variance = Fraction(0)
    for values, selection, m in zip(strata, selections, allocation, strict=True):
        share = Fraction(len(values), total)
        a, b = design_moments(design, values, selection, m)
        mean, variance = mean + share * a, variance + share**2 * b
    return MeanAndVariance(mean, variance)


def expansion_moments(
    values: Sequence, omega: Sequence, selection: Sequence, m: int
) -> ExpansionMoments:
    """Compute exact moments of eq. 2.3, (N/m) sum omega_k w_k over m successive draws.

    Args:
        values: w [N].
        omega: the clients' weights in the objective (eq. 2.1), [N].
        selection: numbers to which the selection probabilities are proportional, [N].
        m: the number of draws.
    """
    w, omega, m = exact(values), exact(omega), check_int("m", m, 1)
    unit = [Fraction(len(w), m) * a for a in omega]
    samples = [(s, q) for s, q in successive_samples(selection, m) if q]
    sums = {_total(unit, s) for s, _ in samples}
    terms = [a * b for a, b in zip(unit, w, strict=True)]
    mean, variance = moments((_total(terms, s), q) for s, q in samples)
    return ExpansionMoments(mean, variance, sums)
