"""Strata that minimise the variance of the very estimator that uses them, and the design that does so.

One client is drawn from each of m strata, with p_k = q_k / Q_h, and weighs omega_k / p_k. With updates
u_k and a_k = omega_k u_k / q_k the variance of the sum is that of the pairs left together,

    sum over strata of the sum over pairs k < l in it of q_k q_l |a_k - a_l|^2,

so that the best strata are a maximum m-cut of a graph. No paper of the four has it; chapter 9 proves it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import Cohort, View, client_sizes
from fedstas.compression import Squeezed
from fedstas.config import bool_field, choice_field, config, int_field
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, renewed
from fedstas.stratification import COLUMNS

DENSE = 1024  # clients; of more, the gradients are sketched
SKETCH = 128  # coordinates of a sketch
STARTS = 4  # orders in which the clients are placed; the best of them is kept
AHEAD = 64  # clients that are asked at once whether they would move
GAIN = 8  # units that a change must gain: more than their rounding, or the search goes in circles


def gram_coordinates(features) -> np.ndarray:
    """Coordinates [N, <= N] with the inner products of features [N, d], those rounded to 2^-20."""
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or not len(features):
        raise InputError("features must be [N, d] with at least one client")
    if not np.isfinite(features).all():
        raise InputError("a feature holds a number that is not finite")
    gram = features @ features.T
    grid = 2.0**-20 * max(gram.diagonal().max(), np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(np.round(gram / grid) * grid)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def sketch(squeezed: Squeezed) -> np.ndarray:
    """Restored gradients [N, d], or for many clients their random signed sums [N, 128], with the same
    inner products but for about 9 % of |z_k| |z_l|: neither N d nor N^2 floats exist at once."""
    count, d = squeezed.codes.shape
    if count <= DENSE:
        return squeezed.restore()
    result = np.zeros((count, SKETCH), dtype=np.float32)
    signs = np.random.default_rng(0)
    for start in range(0, d, COLUMNS):
        block = Squeezed(squeezed.levels, squeezed.codes[:, start : start + COLUMNS]).restore()
        draw = signs.integers(0, 2, (block.shape[1], SKETCH), dtype=np.int8)
        result += block @ (2 * draw - 1).astype(np.float32)
    return result / np.float32(np.sqrt(SKETCH))


class MaxCutPartition:
    """m strata of N points, and what moving a client costs, from three sums a stratum: with mass q [N],
    points a [N, r] and b [N] >= |a|^2, the cost is sum_h Q_h (sum q b)_h - |(sum q a)_h|^2."""

    def __init__(self, q, a, b, m: int):
        self.q, self.a, self.b, self.m = q, a, b, m
        self.own = 2 * q * q * (b - np.square(a).sum(1))  # what a client costs beside itself
        self.clear()
        self.terms = np.column_stack([q, q * b, q[:, None] * a])
        whole_sums = self.terms.sum(0)
        # Costs are compared on this grid, so that ties are ties: the first stratum, the first client.
        spread = whole_sums[0] * whole_sums[1] - np.square(whole_sums[2:]).sum()
        self.unit = 2.0**-36 * max(spread, np.finfo(float).tiny)

    def clear(self) -> None:
        """Nobody is in a stratum yet."""
        self.labels = np.full(len(self.q), -1)
        self.sums = np.zeros((self.m, self.a.shape[1] + 2))  # Q, sum q b, sum q a of each stratum

    @cached_property
    def pairs(self) -> np.ndarray:
        """What two clients cost in one stratum [N, N], in units."""
        apart = self.b[:, None] + self.b - 2 * self.a @ self.a.T
        return np.round(2 * np.outer(self.q, self.q) * apart / self.unit)

    def costs(self, k) -> np.ndarray:
        """What clients k [n] cost in each stratum [n, m], beside those that are in it, in units."""
        mass, second, first = self.sums[:, 0], self.sums[:, 1], self.sums[:, 2:]
        q, b, labels = self.q[k, None], self.b[k, None], self.labels[k]
        found = q * (second + b * mass - 2 * self.a[k] @ first.T)
        inside = np.flatnonzero(labels >= 0)
        found[inside, labels[inside]] -= self.own[k][inside]
        return np.round(found / self.unit)

    def put(self, k: int, h: int) -> None:
        if self.labels[k] >= 0:
            self.sums[self.labels[k]] -= self.terms[k]
        self.sums[h] += self.terms[k]
        self.labels[k] = h

    def cost(self) -> float:
        mass, second, first = self.sums[:, 0], self.sums[:, 1], self.sums[:, 2:]
        return float((mass * second - np.square(first).sum(1)).sum())

    def place(self, order) -> None:
        """Each client where it costs least: all of them, one by one, as often as that moves one."""
        moved = True
        while moved:
            moved, at = False, 0
            while at < len(order):
                ahead = 1 if self.labels[order[at]] < 0 else AHEAD  # asked at once, until one moves
                k = order[at : at + ahead]
                found, rows = self.costs(k), np.arange(len(k))
                best, now = found.argmin(1), self.labels[k]
                gains = (now < 0) | (found[rows, best] <= found[rows, now] - GAIN)
                first = int(gains.argmax())
                if gains[first]:
                    self.put(k[first], best[first])
                    moved = True
                at += first + 1 if gains[first] else len(k)

    def swap(self) -> bool:
        """The pair of clients that gains most by changing places; whether there was one."""
        clients = np.arange(len(self.q))
        costs, at = self.costs(clients), self.labels
        kept = costs[clients, at]
        gain = costs[:, at] - kept[:, None]
        gain = gain + gain.T - self.pairs
        gain[at[:, None] == at] = 0
        best = int(gain.argmin())
        k, other = divmod(best, len(clients))
        if gain[k, other] > -GAIN:
            return False
        here, there = at[k], at[other]
        self.put(k, there)
        self.put(other, here)
        return True


def max_cut_strata(q, a, b, m: int) -> np.ndarray:
    """Labels int [N] in 0..m-1: a local optimum of the cut, for single moves and, of at most 1,024
    clients, for swaps; the best of some starts, numbered in order of first appearance."""
    orders = [np.argsort(-q, kind="stable")]
    if len(q) <= DENSE:
        rng = np.random.default_rng(0)
        orders += [rng.permutation(len(q)) for _ in range(STARTS - 1)]
    cut, best, least = MaxCutPartition(q, a, b, m), np.zeros(len(q), int), np.inf
    for order in orders:
        cut.clear()
        cut.place(order)
        while len(q) <= DENSE and cut.swap():
            cut.place(order)
        if cut.cost() < least - cut.unit:
            best, least = cut.labels, cut.cost()
    _, first, labels = np.unique(best, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def residual_variance(features, updates) -> float:
    """tau^2, in units of |z|^2: how far updates u [K, d] are from their features z [K, d] after the best
    common factor, the mean of |u / c - z|^2; infinite where nothing is known or they share nothing."""
    z, u = (np.asarray(x, dtype=np.float64) for x in (features, updates))
    shared, length = float((z * u).sum()), float(np.square(z).sum())
    if not len(z) or shared == 0.0:
        return np.inf
    return float(np.square(u * (length / shared) - z).sum() / len(z))


@dataclass
class LeastVarianceState:
    """All clients' squeezed gradients, and from them or from updates each client's stratum [N] and the measure
    q [N] that draws follow."""

    gradients: Renewed[Squeezed] = renewed()
    partition: Renewed[tuple[np.ndarray, np.ndarray]] = renewed()


@config
class LeastVariance:
    """One client from each of m strata of least variance, weight omega_k / p_k on its update.

    Unbiased for sum_k omega_k (w_k - w_t) whatever the strata, since they and p are fixed before the
    draw. `draws`: "size" (p_k = omega_k / W_h; the weights are the strata's shares W_h) or "norm" (p_k
    proportional to omega_k s_k, s_k^2 = |Z_k|^2 + tau^2, and strata that cut angles; tau^2 from the
    updates seen so far, see `residual_variance`, and "size" until there are any). `features`: "gradients" (all
    clients', squeezed) or "updates" (each client's last one, which the server has; a client never seen
    is as far from all others as two of the seen are on average). `restratify_every` 0: gradients once,
    updates in each round. `noise`: tau^2 enters the pairs of "size", too, so that a stratum does not
    grow heavy where clients look alike. `equal_clients`: omega_k = 1/N, and no size is asked for.
    With no more clients than m all take part, with weights omega_k.
    """

    State: ClassVar[type] = LeastVarianceState
    draws: str = choice_field("size", "norm")
    features: str = choice_field("gradients", "updates")
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(0, 0)
    noise: bool = bool_field(False)
    equal_clients: bool = bool_field(False)
    stratifies = property(lambda self: self.features == "gradients")
    hides_sizes = property(lambda self: self.equal_clients)
    replaces: ClassVar[bool] = True

    def __post_init__(self):
        if self.features == "updates" and (self.noise or self.draws == "norm"):
            wrong = "noise" if self.noise else "draws by norm"
            raise InputError(f"features are updates: {wrong} must be told from gradients, too")

    def strata(self, view: View, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels [N] of this round's strata, the measure q [N] that draws follow, and omega [N]."""
        sizes = np.ones(view.clients) if self.equal_clients else client_sizes(view)
        omega = sizes / sizes.sum()
        if view.clients <= m:
            return np.arange(view.clients), omega, omega
        gradients = self.features == "gradients"
        every = self.restratify_every or (None if gradients else 1)
        state = view.state_of(self)
        if gradients:
            squeezed = state.gradients.get(view.round, every, lambda: view.gradients(self.levels))
        tau = 0.0  # squared
        if self.noise or self.draws == "norm":
            updates = view.last_updates()
            seen = np.flatnonzero(updates.any(axis=1))
            known = Squeezed(squeezed.levels[seen], squeezed.codes[seen]).restore()
            tau, every = residual_variance(known, updates[seen]), 1
        tilted = self.draws == "norm" and np.isfinite(tau)

        def compute() -> tuple[np.ndarray, np.ndarray]:
            features = sketch(squeezed) if gradients else view.last_updates()
            z = gram_coordinates(features)
            length = np.square(z).sum(1)
            own = np.full(len(z), tau if self.noise and np.isfinite(tau) else 0.0)
            if not gradients:
                unseen = ~features.any(axis=1)
                own[unseen] = length[~unseen].mean() if not unseen.all() else 1.0
            if not tilted:
                return max_cut_strata(omega, z, length + own, m), omega
            variance = length + tau
            s = np.sqrt(np.maximum(variance, 2.0**-20 * variance.mean()))  # no client at p = 0
            return max_cut_strata(omega * s, z / s[:, None], np.ones(len(z)), m), omega * s

        return *state.partition.get(view.round, every, compute), omega

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        labels, q, omega = self.strata(view, m)
        p = q / np.bincount(labels, q)[labels]
        members = [np.flatnonzero(labels == h) for h in range(labels.max() + 1)]
        chosen = np.array([rng.choice(k, p=p[k]) for k in members])
        return Cohort(chosen, omega[chosen] / p[chosen], labels[chosen])
