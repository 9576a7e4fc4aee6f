"""Least-variance stratification: variances of independent draws, all partitions, and bounds of the search.

A design of m independent draws is two matrices x and p [m, N]. Draw j selects client k with probability p_jk and adds
x_jk / p_jk u_k, where u_k is the client's update. The sum of the draws is unbiased for sum omega_k u_k if the columns
of x sum to omega. MD sampling has x_jk = omega_k / m, clustered sampling x = r / m; a partition into strata has
x_jk = omega_k if client k is in stratum j, and 0 otherwise.
Functions that return `Fraction`s are exact, the others are in floating point. Chapter 9 has the proofs.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy as np

from fedstas.errors import InputError, check_int
from fedstas.least_variance import max_cut_strata
from fedstas.theory.convergence import Moments, Quadratics
from fedstas.theory.designs import LARGEST, exact

MOST = 10  # clients; the number of partitions grows faster than exponentially


def rows_of_strata(omega, labels, measure=None) -> tuple[list[list], list[list]]:
    """Return x and p [m, N] of the design with one draw from each stratum, as `Fraction`s.

    Within stratum h client k has the selection probability a_k / A_h, where a [N] is `measure` (by default omega) and
    A_h is its sum over the stratum.
    """
    omega = exact(omega)
    a = omega if measure is None else exact(measure)
    strata = range(max(labels) + 1)
    total = [sum(b for b, h in zip(a, labels, strict=True) if h == j) for j in strata]
    x = [[o if h == j else Fraction(0) for o, h in zip(omega, labels, strict=True)] for j in strata]
    p = [[b / total[j] * (h == j) for b, h in zip(a, labels, strict=True)] for j in strata]
    return x, p


def moments_by_enumeration(x, p, updates) -> tuple[list[Fraction], Fraction]:
    """Compute the exact mean [d] and variance of the sum of the draws x, p [m, N], by enumerating all cohorts.

    The variance of a vector is the sum of the variances of its entries; updates are [N, d].
    """
    u = [exact(v) for v in updates]
    support = [[k for k, q in enumerate(row) if q] for row in p]
    if prod(map(len, support)) > LARGEST:
        raise InputError(f"more than {LARGEST} cohorts are too many to enumerate")
    mean, second = [Fraction(0)] * len(u[0]), Fraction(0)
    for cohort in product(*support):
        chance = prod((p[j][k] for j, k in enumerate(cohort)), start=Fraction(1))
        weights = [x[j][k] / p[j][k] for j, k in enumerate(cohort)]
        total = [
            sum(w * u[k][i] for w, k in zip(weights, cohort, strict=True)) for i in range(len(mean))
        ]
        mean = [a + chance * b for a, b in zip(mean, total, strict=True)]
        second += chance * sum(b * b for b in total)
    return mean, second - sum(a * a for a in mean)


def pair_weights(omega, updates, measure=None, noise=None) -> np.ndarray:
    """Compute what each pair of clients adds to the variance if both are in one stratum, [N, N] as `Fraction`s.

    The variance of a partition is `sum_within_strata` of these weights. The weight of clients k and l is
    a_k a_l |z_k - z_l|^2 with z_k = omega_k u_k / a_k.

    Args:
        omega: the clients' weights in the objective, [N].
        updates: u [N, d].
        measure: a [N], to which the selection probabilities within a stratum are proportional; omega by default.
        noise: the variance of each client's update in its local training, [N]; none by default.
    """
    omega, u = exact(omega), [exact(v) for v in updates]
    a = omega if measure is None else exact(measure)
    variances = [Fraction(0)] * len(u) if noise is None else exact(noise)
    weights = np.full((len(u), len(u)), Fraction(0), dtype=object)
    for k, j in combinations(range(len(u)), 2):
        difference = (
            omega[k] * s / a[k] - omega[j] * t / a[j] for s, t in zip(u[k], u[j], strict=True)
        )
        d = a[k] * a[j] * sum(c * c for c in difference)
        d += a[j] / a[k] * omega[k] ** 2 * variances[k] + a[k] / a[j] * omega[j] ** 2 * variances[j]
        weights[k, j] = weights[j, k] = d
    return weights


def sum_within_strata(d, labels):
    """Sum the pair weights d [N, N] over the pairs of clients in the same stratum, in the number type of d."""
    together = np.equal.outer(labels, labels)
    return sum(d[k, j] for k, j in combinations(range(len(d)), 2) if together[k, j])


def partitions(clients: int, m: int) -> Iterator[tuple[int, ...]]:
    """Enumerate the labels of every partition of the clients into at most m strata, numbered by first appearance."""

    def extend(labels, used):
        """Yield all partitions that begin with `labels`, which use the strata 0..used - 1."""
        if len(labels) == clients:
            yield labels
            return
        for h in range(min(used + 1, m)):
            yield from extend((*labels, h), max(used, h + 1))

    check_int("the number of clients", clients, 1, MOST)
    return extend((), 0)


@lru_cache
def _pairs_in_strata(clients: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of all partitions [P, N], and which pairs share a stratum in each [P, N (N - 1) / 2]."""
    labels = np.array(list(partitions(clients, m)))
    k, j = np.triu_indices(clients, 1)
    return labels, (labels[:, k] == labels[:, j]).astype(float)


def best_partition(d, m: int) -> tuple[np.ndarray, float]:
    """Find the partition into at most m strata of least variance, among all partitions.

    Args:
        d: the pair weights [N, N], as `pair_weights` computes them.

    Returns:
        the stratum of each client [N], and the sum of d within the strata, which is the variance.
    """
    d = np.asarray(d, dtype=float)
    labels, together = _pairs_in_strata(len(d), m)
    sums = together @ d[np.triu_indices(len(d), 1)]
    return labels[sums.argmin()], float(sums.min())


def variance_of(x, p, gram, noise=0.0) -> float:
    """Compute the variance of the sum of m independent draws x, p [m, N].

    Args:
        gram: the inner products of the clients' updates, [N, N].
        noise: the variance of each client's update in its local training, [N]. A client that is drawn twice trains
            twice, with independent noise.
    """
    x, p = np.asarray(x, dtype=float), np.asarray(p, dtype=float)
    weight = np.divide(x**2, p, out=np.zeros_like(x), where=p > 0)
    return float((weight @ (np.diagonal(gram) + noise)).sum() - ((x @ gram) * x).sum())


def variance_at_best_probabilities(x, gram) -> float:
    """Compute the variance of m draws with contributions x [m, N] at the best probabilities, p_jk ~ |x_jk| |u_k|.

    `gram` [N, N] are the inner products of the updates. No other p has a smaller variance with the same x.
    """
    x, gram = np.asarray(x, dtype=float), np.asarray(gram, dtype=float)
    length = np.abs(x) @ np.sqrt(np.maximum(np.diagonal(gram), 0))
    return float((length**2).sum() - ((x @ gram) * x).sum())


def round_to_strata(x, gram, draws: str = "size") -> np.ndarray:
    """Turn any design of m independent draws into strata whose variance is not larger, and return their labels [N].

    One client after another, its whole weight omega_k moves to the draw where the variance is least while all
    other clients stay as they are; the draw becomes its stratum.

    Args:
        x: the contributions [m, N]; they may be negative if `draws` is "norm".
        gram: the inner products of the updates, [N, N].
        draws: the selection probabilities, "size" (p_jk ~ x_jk) or "norm" (p_jk ~ |x_jk| |u_k|).
    """
    x, gram = np.array(x, dtype=float), np.asarray(gram, dtype=float)
    squares, omega = np.diagonal(gram), x.sum(0)
    r = np.sqrt(squares)
    for k in range(x.shape[1]):
        x[:, k] = 0
        cost = x @ (squares + squares[k] - 2 * gram[k])
        if draws == "norm":
            cost = 2 * (r[k] * (np.abs(x) @ r) - x @ gram[k])
        x[int(cost.argmin()), k] = omega[k]
    return x.argmax(0)


def merge_strata(d, m: int) -> list[int]:
    """Merge strata greedily, from one client each, until m are left, and return their labels [N].

    Each step merges the two strata between which the pair weights d [N, N] have the smallest sum.
    """
    groups = [[k] for k in range(len(d))]
    while len(groups) > m:
        ways = combinations(range(len(groups)), 2)
        add = {(i, j): sum(d[k][o] for k in groups[i] for o in groups[j]) for i, j in ways}
        i, j = min(add, key=lambda way: (add[way], way))
        groups[i] += groups.pop(j)
    return [next(h for h, group in enumerate(groups) if k in group) for k in range(len(d))]


def updates_from_graph(edges: Sequence[tuple[int, int]], vertices: int, m: int) -> list[list[int]]:
    """Make updates whose m strata of least variance are a maximum m-cut of a graph: finding them is NP-hard.

    The updates belong to m * `vertices` clients of equal weight, have whole entries and equal norms. The clients
    beyond the first `vertices` stand for vertices without an edge.
    """
    length, u = max(1, 2 * len(edges)), []  # |u_k|^2
    for k in range(m * vertices):
        touched = [(k == a) - (k == b) for a, b in edges]
        rest = length - sum(map(abs, touched))
        single = [int(j == k and i < rest) for j in range(m * vertices) for i in range(length)]
        u.append([*touched, *single])
    return u


class SearchQuality(NamedTuple):
    """How close the search `max_cut_strata` comes to the best of all partitions, over random instances.

    Args:
        optimal: the share of the instances in which it finds a best partition.
        worst: its variance as a multiple of the least one, the largest over the instances.
        of_md: its variance as a multiple of MD sampling's, the largest over the instances.
    """

    optimal: float
    worst: float
    of_md: float


def measure_search(clients: int, m: int, instances: int, rng: np.random.Generator) -> SearchQuality:
    """Compare `max_cut_strata` of `fedstas.least_variance` with the best of all partitions, on random instances.

    Weights are uniform on the simplex, updates normal in 1, 2 or 3 dimensions.
    """
    ratios, ratios_to_md = [], []
    for i in range(instances):
        omega, u = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 1 + i % 3))
        square = np.square(u).sum(1)
        d = np.outer(omega, omega) * (square[:, None] + square - 2 * u @ u.T)
        variance = float(sum_within_strata(d, max_cut_strata(omega, u, square, m)))
        _, least = best_partition(d, m)
        ratios.append(variance / least)
        ratios_to_md.append(2 * m * variance / d.sum())  # MD sampling's: half the sum of d, over m
    is_best = np.array(ratios) < 1 + 1e-9  # up to rounding errors
    return SearchQuality(float(is_best.mean()), max(ratios), max(ratios_to_md))


class FeaturesBound(NamedTuple):
    """How much of MD sampling's variance is left with strata made of features z in place of the updates u.

    V is the variance with the strata, V_MD that of MD sampling; clients are drawn in proportion to omega in both.

    Args:
        rho: V(z) / V_MD(z).
        eps: the square root of V_MD(u - c z) / V_MD(u) at the best factor c: how badly z predicts u.
        bound: an upper bound of `ratio`, from rho and eps.
        ratio: V(u) / V_MD(u).
    """

    rho: float
    eps: float
    bound: float
    ratio: float


def features_bound(omega, labels, zz, zu, uu, m: int) -> FeaturesBound:
    """Bound the variance of strata that were made of features z in place of the updates u.

    Args:
        omega: the clients' weights in the objective, [N].
        labels: the stratum of each client, [N].
        zz, zu, uu: the inner products [N, N] of the features, of features with updates, of the updates.
        m: the number of strata, each with one draw.
    """
    omega, labels = np.asarray(omega, dtype=float), np.asarray(labels)
    weights = omega * (labels == np.arange(m)[:, None])
    mass = weights.sum(1)

    def variance(gram, rows):
        """Compute the variance of one draw from each row of weights [rows, N]."""
        return float(
            (rows.sum(1) * (rows @ np.diagonal(gram))).sum() - ((rows @ gram) * rows).sum()
        )

    md = {key: variance(g, omega[None]) / m for key, g in (("zz", zz), ("zu", zu), ("uu", uu))}
    if md["zz"] <= 0 or md["uu"] <= 0:
        raise InputError("features and updates must differ between clients")
    rho, ratio = variance(zz, weights) / md["zz"], variance(uu, weights) / md["uu"]
    eps = float(np.sqrt(max(0.0, 1 - md["zu"] ** 2 / (md["zz"] * md["uu"]))))
    bound = (np.sqrt(max(rho, 0.0) * (1 - eps**2)) + np.sqrt(m * mass.max()) * eps) ** 2
    return FeaturesBound(rho, eps, float(bound), ratio)


def moments(omega, labels) -> Moments:
    """Return the mean and second moment of the clients' aggregation weights c, for `theory.convergence.errors`.

    One client k is drawn from each stratum with probability omega_k / W_h, and c_k = W_h, the stratum's sum of omega.
    """
    omega, labels = np.asarray(omega, dtype=float), np.asarray(labels)
    stratum_weight = np.bincount(labels, omega)[labels]  # W_h of each client's stratum
    same_stratum = np.equal.outer(labels, labels)
    covariance = np.diag(omega * stratum_weight) - np.outer(omega, omega) * same_stratum
    return Moments(omega, np.outer(omega, omega) + covariance)


class ConvergenceBound(NamedTuple):
    """A bound of the error of a design with strata over T rounds.

    Args:
        lrs: the learning rates, [T].
        distance: the bound of E |W_t - W*|^2, [T + 1].
        variance: V*, the variance of the strata's estimate of the gradient at W*.
        smoothness: Lambda, the expected smoothness of that estimate.
    """

    lrs: np.ndarray
    distance: np.ndarray
    variance: float
    smoothness: float


def convergence_bound(
    clients: Quadratics, labels, rounds: int, distance: float
) -> ConvergenceBound:
    """Bound the error of one draw from each stratum over `rounds` rounds (Theorem 2' of the book's page of proofs).

    Within a stratum clients are drawn in proportion to omega, and each takes one step of exact gradient descent. The
    learning rates are 2 / (mu (t + gamma)) with gamma = 2 Lambda / mu and Lambda = L (1 + 2 max_h W_h).

    Args:
        labels: the stratum of each client, [N].
        distance: |W_0 - W*|^2 at the start.
    """
    g = clients.gradients(clients.minimiser).reshape(len(clients.omega), -1)
    x, p = rows_of_strata(clients.omega.tolist(), np.asarray(labels).tolist())
    variance, mu = variance_of(x, p, g @ g.T), clients.convexity
    smooth = clients.smoothness * (1 + 2 * float(np.bincount(labels, clients.omega).max()))
    at = np.arange(rounds + 1) + 2 * smooth / mu  # t + gamma
    start = (at[0] - 1) * (at[0] - 2) / ((at - 1) * (at - 2)) * distance
    return ConvergenceBound(
        2 / (mu * at[:-1]), 8 * variance / (mu**2 * at) + start, variance, smooth
    )
