"""Least-variance stratification: variances of independent draws, all partitions, and bounds of the search.

A sum of m draws is two matrices [m, N]. Draw j takes client k with probability p_jk and adds
x_jk / p_jk u_k; it is unbiased for sum omega_k u_k if the columns of x sum to omega. MD sampling has
x_jk = omega_k / m, clustered sampling x = r / m, a partition x_jk = omega_k in the stratum of k alone.
Functions of `Fraction`s are exact, the others are in floating point. Chapter 9 has the proofs.
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

MOST = 10  # clients: of more, listing all partitions would take too long


def rows_of_strata(omega, labels, measure=None) -> tuple[list[list], list[list]]:
    """Return x and p [m, N] of one draw from each stratum, p_k = a_k / A_h; a is `measure`, omega by default."""
    omega = exact(omega)
    a = omega if measure is None else exact(measure)
    strata = range(max(labels) + 1)
    total = [sum(b for b, h in zip(a, labels, strict=True) if h == j) for j in strata]
    x = [[o if h == j else Fraction(0) for o, h in zip(omega, labels, strict=True)] for j in strata]
    p = [[b / total[j] * (h == j) for b, h in zip(a, labels, strict=True)] for j in strata]
    return x, p


def enumerated(x, p, updates) -> tuple[list[Fraction], Fraction]:
    """Compute the mean [d] and the variance of sum_j x_jk / p_jk u_k over every cohort, for updates [N, d]; exact."""
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


def pairs(omega, updates, measure=None, noise=None) -> np.ndarray:
    """Compute pair weights [N, N] as Fractions: what each pair of clients adds to the variance in one stratum.

    That is a_k a_l |x_k - x_l|^2 with x_k = omega_k u_k / a_k and a = `measure`, omega by default. `noise` [N], the
    variances of the clients' updates, adds its share.
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


def inside(d, labels):
    """Sum the pair weights d [N, N] over the pairs that share a stratum; in the type of d."""
    together = np.equal.outer(labels, labels)
    return sum(d[k, j] for k, j in combinations(range(len(d)), 2) if together[k, j])


def partitions(clients: int, m: int) -> Iterator[tuple[int, ...]]:
    """Enumerate the labels of every partition of the clients into at most m strata, numbered by first appearance."""

    def extend(labels, used):
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


def best(d, m: int) -> tuple[np.ndarray, float]:
    """Return the labels of the partition into at most m strata with the least sum of d [N, N] inside, and that sum."""
    d = np.asarray(d, dtype=float)
    labels, together = _pairs_in_strata(len(d), m)
    sums = together @ d[np.triu_indices(len(d), 1)]
    return labels[sums.argmin()], float(sums.min())


def variance_of(x, p, gram, noise=0.0) -> float:
    """Compute the variance of m independent draws x, p [m, N], for the inner products of the updates [N, N] and
    their own variances `noise` [N]; every draw trains anew."""
    x, p = np.asarray(x, dtype=float), np.asarray(p, dtype=float)
    weight = np.divide(x**2, p, out=np.zeros_like(x), where=p > 0)
    return float((weight @ (np.diagonal(gram) + noise)).sum() - ((x @ gram) * x).sum())


def least(x, gram) -> float:
    """Compute the least variance over all p for given contributions x [m, N]: p_jk proportional to |x_jk| |u_k|."""
    x, gram = np.asarray(x, dtype=float), np.asarray(gram, dtype=float)
    length = np.abs(x) @ np.sqrt(np.maximum(np.diagonal(gram), 0))
    return float((length**2).sum() - ((x @ gram) * x).sum())


def rounded(x, gram, draws: str = "size") -> np.ndarray:
    """Round contributions x [m, N] to strata, labels [N]: client by client, all of it goes to the draw where this costs
    least while the others stay as they are.
    For `draws` "norm" x [m, N] may be negative in places; for "size" it may not."""
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


def merged(d, m: int) -> list[int]:
    """Stratify by greedy merging, labels [N]: merge the two strata whose union adds least, until m are left."""
    groups = [[k] for k in range(len(d))]
    while len(groups) > m:
        ways = combinations(range(len(groups)), 2)
        add = {(i, j): sum(d[k][o] for k in groups[i] for o in groups[j]) for i, j in ways}
        i, j = min(add, key=lambda way: (add[way], way))
        groups[i] += groups.pop(j)
    return [next(h for h, group in enumerate(groups) if k in group) for k in range(len(d))]


def from_graph(edges: Sequence[tuple[int, int]], vertices: int, m: int) -> list[list[int]]:
    """Make updates of m `vertices` clients of equal weight, in whole numbers, all of one length: the best m
    strata of them are a maximum m-cut of the graph (and m - 1 times as many vertices without an edge)."""
    length, u = max(1, 2 * len(edges)), []  # |u_k|^2
    for k in range(m * vertices):
        touched = [(k == a) - (k == b) for a, b in edges]
        rest = length - sum(map(abs, touched))
        single = [int(j == k and i < rest) for j in range(m * vertices) for i in range(length)]
        u.append([*touched, *single])
    return u


class Gap(NamedTuple):
    """How far the search is from the best of all partitions: share of instances where it finds it, and
    the largest ratio of the two variances, and of the search's to MD's."""

    optimal: float
    worst: float
    of_md: float


def gap(clients: int, m: int, instances: int, rng: np.random.Generator) -> Gap:
    """Measure `fedstas.least_variance.max_cut_strata` on random weights and points of 1 to 3 dimensions."""
    ratios, against = [], []
    for i in range(instances):
        omega, u = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 1 + i % 3))
        square = np.square(u).sum(1)
        d = np.outer(omega, omega) * (square[:, None] + square - 2 * u @ u.T)
        cut = float(inside(d, max_cut_strata(omega, u, square, m)))
        ratios.append(cut / best(d, m)[1])
        against.append(2 * m * cut / d.sum())
    return Gap(float(np.mean(np.array(ratios) < 1 + 1e-9)), max(ratios), max(against))


class Features(NamedTuple):
    """The variance of strata made of features z: rho = V(z) / V_MD(z); eps^2 = V_MD(u - c z) / V_MD(u) at the
    best c; `bound` >= `ratio` = V(u) / V_MD(u), all for draws by omega."""

    rho: float
    eps: float
    bound: float
    ratio: float


def features_bound(omega, labels, zz, zu, uu, m: int) -> Features:
    """Compute the bound for strata `labels` [N] of features z, from inner products [N, N]: zz of the features,
    zu of features and updates, uu of the updates. Chapter 9 measures them at states of runs."""
    omega, labels = np.asarray(omega, dtype=float), np.asarray(labels)
    weights = omega * (labels == np.arange(m)[:, None])
    mass = weights.sum(1)

    def variance(gram, rows):  # of one draw from each row of weights
        return float(
            (rows.sum(1) * (rows @ np.diagonal(gram))).sum() - ((rows @ gram) * rows).sum()
        )

    md = {key: variance(g, omega[None]) / m for key, g in (("zz", zz), ("zu", zu), ("uu", uu))}
    if md["zz"] <= 0 or md["uu"] <= 0:
        raise InputError("features and updates must differ between clients")
    rho, ratio = variance(zz, weights) / md["zz"], variance(uu, weights) / md["uu"]
    eps = float(np.sqrt(max(0.0, 1 - md["zu"] ** 2 / (md["zz"] * md["uu"]))))
    bound = (np.sqrt(max(rho, 0.0) * (1 - eps**2)) + np.sqrt(m * mass.max()) * eps) ** 2
    return Features(rho, eps, float(bound), ratio)


def moments(omega, labels) -> Moments:
    """Return the mean and second moment of the clients' aggregation weights c, for `theory.convergence.errors`.

    One client k is drawn from each stratum with probability omega_k / W_h, and c_k = W_h, the stratum's sum of omega.
    """
    omega, labels = np.asarray(omega, dtype=float), np.asarray(labels)
    stratum_weight = np.bincount(labels, omega)[labels]  # W_h of each client's stratum
    same_stratum = np.equal.outer(labels, labels)
    covariance = np.diag(omega * stratum_weight) - np.outer(omega, omega) * same_stratum
    return Moments(omega, np.outer(omega, omega) + covariance)


class Converging(NamedTuple):
    """Steps [T], E |W_t - W*|^2 <= distance [T + 1], the strata's variance V* at W*, and Lambda."""

    lrs: np.ndarray
    distance: np.ndarray
    variance: float
    smoothness: float


def converging(clients: Quadratics, labels, rounds: int, distance: float) -> Converging:
    """Evaluate chapter 9's Theorem 2' for one draw by omega from each stratum and one exact local step, from |W_0 - W*|^2
    = `distance`: steps 2 / (mu (t + gamma)), gamma = 2 Lambda / mu, Lambda = L (1 + 2 max W_h)."""
    g = clients.gradients(clients.minimiser).reshape(len(clients.omega), -1)
    x, p = rows_of_strata(clients.omega.tolist(), np.asarray(labels).tolist())
    variance, mu = variance_of(x, p, g @ g.T), clients.convexity
    smooth = clients.smoothness * (1 + 2 * float(np.bincount(labels, clients.omega).max()))
    at = np.arange(rounds + 1) + 2 * smooth / mu  # t + gamma
    start = (at[0] - 1) * (at[0] - 2) / ((at - 1) * (at - 2)) * distance
    return Converging(2 / (mu * at[:-1]), 8 * variance / (mu**2 * at) + start, variance, smooth)
