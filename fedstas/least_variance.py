"""Strata that minimise the variance of the estimator that draws from them, and the design that uses them.

One client is drawn from each of m strata, with p_k = q_k / Q_h (Q_h the stratum's total of q), and its update has
the weight omega_k / p_k. With updates u_k and a_k = omega_k u_k / q_k the variance of the sum is

    sum over strata of the sum over pairs k < l in the stratum of q_k q_l |a_k - a_l|^2,

so that the strata of least variance are a maximum m-cut (max-k-cut) of the complete graph with these edge weights.
Max-cut is NP-hard: the search here finds a local optimum. The book's page "A better design" (notebook 09) proves the
statements, and says what was known: strata that minimise such a sum over pairs (de Gruijter, Minasny and McBratney
2015, J. Survey Stat. Methodol. 3), one draw from each group (Rao, Hartley and Cochran 1962), local optima of the cut
(Sahni and Gonzalez 1976).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import Cohort, View, client_sizes
from fedstas.compression import Squeezed
from fedstas.config import bool_field, choice_field, config, float_field, int_field
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, renewed
from fedstas.stratification import COLUMNS, round_to_grid

DENSE = 1024  # clients up to which gradients are not sketched and all exchanges are tried
SKETCH = 128  # coordinates of a sketched gradient
LEVELS = 9  # of a squeezed gradient, by default
SKETCH_SIZE = 64  # signed sums that a client sends by default
DELTA = 1e-5  # of Gaussian noise on a sketch, by default
STARTS = 4  # orders in which clients are placed; the best result is taken
BATCH = 32  # clients whose moves are evaluated at once
# Clients in a stratum, on average, above which exchanges gain too little for their time.
CROWD = 100
MIN_FALL = 1e-3  # the share of its cost that a pass of exchanges must save, or it is the last
NEEDS = {  # of `Cohorts.sample`, by features
    "sketch": ("gradients",),
    "gradients": ("gradients",),
    "sketch+updates": ("gradients",),
    "labels": ("labels",),
    "output": ("output_gradients",),
    "updates": (),
}
MIN_GAIN = 8  # units by which a change must lower the cost, or the search could go in circles by rounding errors


def gram_coordinates(features) -> np.ndarray:
    """Return coordinates [N, r] with the inner products of features [N, d], rounded to 2^-20 of the largest.

    r is N; for more than 1,024 clients and fewer features than clients it is d, and the coordinates are the features,
    rounded to 2^-20 of the longest row, so that nothing of the size N^2 exists.

    Raises:
        InputError: the features have another shape, one is not finite, or their squares are not.
    """
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2 or not len(features):
        raise InputError("features must have the shape [N, d], with at least one client")
    if not np.isfinite(features).all():
        raise InputError("features must be finite numbers")
    count, d = features.shape
    if DENSE < count > d:
        with np.errstate(over="ignore"):
            longest = _check_squares(np.linalg.norm(features, axis=1).max(), features)
        grid = 2.0**-20 * max(longest, np.finfo(float).tiny)
        return np.round(features / grid) * grid
    with np.errstate(over="ignore", invalid="ignore"):
        gram = features @ features.T
        largest = _check_squares(gram.diagonal().max(), features)
    grid = 2.0**-20 * max(largest, np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(np.round(gram / grid) * grid)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _check_squares(largest: float, features: np.ndarray) -> float:
    """Return the largest norm or square of features [N, d]; `InputError` if sums over clients would overflow."""
    if not np.isfinite(largest * len(features)):
        raise InputError(
            f"features have numbers up to {np.abs(features).max():.3g}, whose squares are not finite: divide all by one "
            "number, or train with a smaller learning rate"
        )
    return largest


def sketch(squeezed: Squeezed) -> np.ndarray:
    """Return restored gradients [N, d], or sketches of them [N, 128] if there are more than 1,024 clients.

    A sketch is of random signed sums (a Johnson-Lindenstrauss projection): inner products are kept up to about 9 % of
    |z_k| |z_l|, and neither N d nor N^2 floats exist at once.
    """
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
    """A partition of N clients into m strata, and the cost of each move of a client.

    With masses q [N], points a [N, r] and b [N] >= |a|^2 the cost is sum_h Q_h (sum q b)_h - |(sum q a)_h|^2, so
    that three sums of each stratum h over its members are all that a move needs: Q = sum q, sum q b and sum q a.
    `labels` [N] are the clients' strata, -1 for none.
    """

    def __init__(self, q, a, b, m: int):
        self.q, self.a, self.b, self.m = q, a, b, m
        self.self_cost = 2 * q * q * (b - np.square(a).sum(1))  # of the pair of a client and itself
        self.strata = np.arange(m)
        self.clear()
        self.terms = np.column_stack([q, q * b, q[:, None] * a])  # of each client, in `sums`
        mass, second, first = np.split(self.terms.sum(0), [1, 2])
        # Costs are compared in multiples of this unit, so that rounding errors do not break ties. It is 2^-36 of the cost
        # of one stratum of all clients: float64 has 53 bits, so that the last 16 may be wrong.
        # Points that are almost equal cost so little that the rounding errors of the products matter: 2^-49 of these is the
        # least unit.
        product = mass[0] * second[0]
        one_stratum = product - np.square(first).sum()
        self.unit = max(2.0**-36 * one_stratum, 2.0**-49 * product, np.finfo(float).tiny)

    def clear(self) -> None:
        """Take all clients out of their strata."""
        self.labels = np.full(len(self.q), -1)
        # Of each stratum: Q in column 0, sum q b in column 1, sum q a in the columns from 2 on.
        self.sums = np.zeros((self.m, self.a.shape[1] + 2))

    def inner_products(self, k, strata) -> np.ndarray:
        """Return a_k · (sum of q_l a_l over the members l of h) for clients k [n] and strata h [s]: [n, s]."""
        sums_of_q_a = self.sums[strata, 2:]
        return self.a[k] @ sums_of_q_a.T

    def costs(self, k, strata=slice(None)) -> np.ndarray:
        """Return the cost of each of clients k [n] in each of the strata [s] with its other members, in units: [n, s]."""
        mass, second = self.sums[strata, 0], self.sums[strata, 1]
        costs = second + self.b[k, None] * mass
        costs -= 2 * self.inner_products(k, strata)
        costs *= self.q[k, None]
        inside = self.labels[k, None] == self.strata[strata]
        costs -= inside * self.self_cost[k, None]
        costs /= self.unit
        return np.rint(costs, out=costs)

    def assign(self, k: int, h: int) -> None:
        """Move client k to stratum h."""
        if self.labels[k] >= 0:
            self.sums[self.labels[k]] -= self.terms[k]
        self.sums[h] += self.terms[k]
        self.labels[k] = h

    def cost(self) -> float:
        """Return the cost of the partition."""
        mass, second, first = self.sums[:, 0], self.sums[:, 1], self.sums[:, 2:]
        return float((mass * second - np.square(first).sum(1)).sum())

    def next_move(self, order, at: int) -> tuple[int, int] | None:
        """Find the first client that costs less in another stratum, in an order of the clients.

        The search begins at place `at` of the order, and goes on at its beginning after its end. Return the client's place
        in the order and the stratum where it costs least, or None if no client gains enough.
        """
        count = len(order)
        for start in range(at, at + count, BATCH):
            places = np.arange(start, min(start + BATCH, at + count)) % count
            k = order[places]
            costs = self.costs(k)
            improves = costs.min(1) <= costs[np.arange(len(k)), self.labels[k]] - MIN_GAIN
            first = improves.argmax()
            if improves[first]:
                return int(places[first]), int(costs[first].argmin())
        return None

    def swap_with_nearest(self, order) -> None:
        """Exchange each client with the best member of the other stratum where it costs least, if that lowers the cost.

        The change of the cost by an exchange is computed as in `MaxCutTables.renew_changes`.
        """
        for k in order:
            own, (costs,) = self.labels[k], self.costs(k[None])
            costs -= costs[own]  # the change of k's cost in each stratum
            costs[own] = np.inf
            other = costs.argmin()
            members = np.flatnonzero(self.labels == other)
            if not len(members):
                continue
            theirs = self.costs(members, [own, other])
            distances = self.b[k] + self.b[members] - 2 * self.a[members] @ self.a[k]  # squared
            pairs = np.round(2 * self.q[k] * self.q[members] * distances / self.unit)
            changes = costs[other] + theirs[:, 0] - theirs[:, 1] - pairs
            best = changes.argmin()
            if changes[best] <= -MIN_GAIN:
                self.assign(k, int(other))
                self.assign(members[best], own)

    def place_first(self, k) -> None:
        """Assign client k, which is in no stratum, to the stratum where it costs least."""
        self.assign(k, int(self.costs(k[None]).argmin()))

    def place(self, order) -> None:
        """Assign each client to the stratum where it costs least, again and again until no client moves."""
        for k in order[self.labels[order] < 0]:
            self.place_first(k)
        at = 0
        while move := self.next_move(order, at):
            at, stratum = move
            self.assign(order[at], stratum)
            at += 1


def replace_rows(table, minima, rows, values) -> None:
    """Replace rows of a table [H, N] by values, and renew the minima [N] of its columns, both in place."""
    before, after = table[rows].min(0), values.min(0)
    table[rows] = values
    # Only where a replaced row had the minimum, and has a larger number now, must the whole column be searched.
    risen = (before == minima) & (after > before)
    np.minimum(minima, after, out=minima)
    risen = risen.nonzero()[0]
    if len(risen):
        minima[risen] = table.take(risen, axis=1).min(0)


class MaxCutTables(MaxCutPartition):
    """A `MaxCutPartition` of at most some thousand clients that stores the cost of each client in each stratum, and by
    how much each exchange of two clients would change the cost of the partition.

    A move changes two strata. Only their rows of the costs [m, N] are computed anew, and only the rows and columns of
    their members in the changes [N, N]. The exchanges are those that computing all changes anew would find.
    """

    def __init__(self, q, a, b, m: int):
        twice = 2 * a @ a.T
        self.products = q[:, None] / 2 * twice
        self.everyone = np.arange(len(q))
        super().__init__(q, a, b, m)
        distances = b[:, None] + b - twice  # squared
        # What the cost of k in the stratum of l, and that of l in the stratum of k, count of the other, in units: twice
        # the cost of the pair.
        self.pairs = np.rint(2 * np.outer(q, q) * distances / self.unit)

    def clear(self) -> None:
        super().clear()
        count = len(self.q)
        self.inner = np.zeros((self.m, count))  # products of each stratum's sum q a with each point
        # Tables [strata, clients] and [clients, clients], and the minimum of each column; infinite until they are computed.
        self.cost_table, self.least_cost = np.full((self.m, count), np.inf), np.full(count, np.inf)
        self.changes, self.best_change = np.full((count, count), np.inf), np.full(count, np.inf)
        self.stale_costs, self.stale_changes = np.ones((2, self.m), dtype=bool)  # of which strata

    def inner_products(self, k, strata) -> np.ndarray:
        return self.inner[strata].take(k, axis=1).T

    def place_first(self, k: int) -> None:
        # The operations of `costs`, for a client that is in no stratum.
        costs = self.b[k] * self.sums[:, 0]
        costs += self.sums[:, 1]
        costs -= 2 * self.inner[:, k]
        costs *= self.q[k]
        costs /= self.unit
        self.assign(k, int(np.rint(costs, out=costs).argmin()))

    def assign(self, k: int, h: int) -> None:
        old = self.labels[k]
        super().assign(k, h)
        if old >= 0:
            self.inner[old] -= self.products[k]
            self.stale_costs[old] = True
        self.inner[h] += self.products[k]
        self.stale_costs[h] = True

    def renew_costs(self) -> None:
        """Compute the costs of all clients in the strata that have changed."""
        strata = self.stale_costs.nonzero()[0]
        if len(strata):
            # The operations of `costs`, with a row for each stratum.
            costs = self.sums[strata, 0, None] * self.b
            costs += self.sums[strata, 1, None]
            costs -= 2 * self.inner[strata]
            costs *= self.q
            costs -= (self.labels == strata[:, None]) * self.self_cost
            costs /= self.unit
            replace_rows(self.cost_table, self.least_cost, strata, np.rint(costs, out=costs))
            self.stale_changes[strata], self.stale_costs[strata] = True, False

    def next_move(self, order, at: int) -> tuple[int, int] | None:
        self.renew_costs()
        now = self.cost_table.take(self.labels * len(self.labels) + self.everyone)
        improves = (self.least_cost <= now - MIN_GAIN).take(order)
        place = at % len(order) + int(improves[at % len(order) :].argmax())
        if not improves[place]:
            place = int(improves.argmax())  # from the beginning of the order
            if not improves[place]:
                return None
        return place, int(self.cost_table[:, order[place]].argmin())

    def renew_changes(self) -> None:
        """Compute the changes of the cost by exchanges with members of the strata that have changed.

        With C(k, h) the cost of client k in stratum h with its other members, and h_k the stratum of k, an exchange of k
        and l changes the cost of the partition by

            C(k, h_l) - C(k, h_k) + C(l, h_k) - C(l, h_l) - pairs[k, l],

        where the last term takes the pair of k and l, who are apart after the exchange too, out of the first and the
        third. Below zero the exchange lowers the cost; for two clients of one stratum the change is 0.
        """
        self.renew_costs()
        at = self.labels
        now = self.cost_table[at, self.everyone]  # the cost of each client where it is, [N]
        members = self.stale_changes[at].nonzero()[0]
        self.stale_changes[:] = False
        # [members, N]: first what the member costs more in each client's stratum, then what the client costs more in
        # the member's.
        changes = (self.cost_table[:, members].T - now[members, None]).take(at, axis=1)
        changes += self.cost_table[at[members]] - now
        changes -= self.pairs[members]
        changes[at[members, None] == at] = 0
        replace_rows(self.changes, self.best_change, members, changes)
        # The table is symmetric: the columns of the members are their rows.
        self.changes[:, members], self.best_change[members] = changes.T, changes.min(1)

    def swap(self) -> bool:
        """Exchange the two clients whose exchange lowers the cost most; return False if none lowers it enough."""
        self.renew_changes()
        k = int(self.best_change.argmin())
        other = int(self.changes[k].argmin())
        if self.changes[k, other] > -MIN_GAIN:
            return False
        stratum, other_stratum = self.labels[[k, other]]
        self.assign(k, other_stratum)
        self.assign(other, stratum)
        return True


def search_orders(q, starts: int) -> list[np.ndarray]:
    """Return the orders [N] in which the starts of a search place the clients: by falling mass q [N], then at random.

    The random orders depend on the number of clients alone, so that equal features give equal strata.
    """
    rng = np.random.default_rng(0)
    return [np.argsort(-q, kind="stable"), *(rng.permutation(len(q)) for _ in range(starts - 1))]


def split_strata(labels, q, m: int) -> np.ndarray:
    """Split strata, the heaviest first, until there are m or none has two members: labels [N]; masses q [N].

    The two halves have about equal masses. A split never raises the cost of a partition.
    """
    labels = np.unique(labels, return_inverse=True)[1]
    for new in range(labels.max() + 1, m):
        crowded = np.bincount(labels) > 1
        if not crowded.any():
            break
        members = np.flatnonzero(labels == np.where(crowded, np.bincount(labels, q), -1).argmax())
        kept = moved = 0.0  # the masses of the halves
        for k in members[np.argsort(-q[members], kind="stable")]:
            if moved < kept:
                labels[k], moved = new, moved + q[k]
            else:
                kept += q[k]
    return labels


def max_cut_strata(q, a, b, m: int) -> np.ndarray:
    """Search the max-cut partition: labels int [N] in 0..m-1, numbered in order of first appearance.

    For at most 1,024 clients it is the best of a few starts, each a local optimum under moves of a client and exchanges
    of two. For more it is one start, an optimum under moves, after passes of exchanges with the nearest stratum if
    strata have at most 50 members on average. If fewer than m clients differ, strata of equal clients are split, so that
    there are m strata of N >= m clients. Arguments: see `MaxCutPartition`.
    """
    dense = len(q) <= DENSE
    orders = search_orders(q, STARTS if dense else 1)
    cut = MaxCutTables(q, a, b, m) if dense else MaxCutPartition(q, a, b, m)
    best, least = np.zeros(len(q), int), np.inf
    for order in orders:
        cut.clear()
        cut.place(order)
        while isinstance(cut, MaxCutTables) and cut.swap():
            cut.place(order)
        last = np.inf
        while DENSE < len(q) <= CROWD * m and cut.cost() < last * (1 - MIN_FALL):
            last = cut.cost()
            cut.swap_with_nearest(order)
            cut.place(order)
        if cut.cost() < least - cut.unit:
            best, least = cut.labels, cut.cost()
    best = split_strata(best, q, m)
    _, first, labels = np.unique(best, return_index=True, return_inverse=True)
    # The rank of each stratum's first client replaces its label.
    return np.argsort(np.argsort(first))[labels]


def residual_variance(features, updates) -> float:
    """Estimate tau^2, the mean of |u / c - z|^2 over clients, c the least-squares factor of the updates on the features.

    It is the part of the updates u [K, d] that the features z [K, d] do not explain, in units of |z|^2; infinite
    without any client, and if updates and features are uncorrelated.
    """
    z, u = (np.asarray(x, dtype=np.float64) for x in (features, updates))
    inner, length = float((z * u).sum()), float(np.square(z).sum())
    if not len(z) or inner == 0.0:
        return np.inf
    return float(np.square(u * (length / inner) - z).sum() / len(z))


def with_updates(sketches, updates) -> np.ndarray:
    """Average the sketch of a client's gradient and that of its last update, where it has sent one: float [N, size].

    Updates are scaled by one number, so that those who have sent one are as long as their gradients on average, and
    turned round, since a step goes against its gradient.
    """
    z, u = (np.asarray(x, dtype=np.float64) for x in (sketches, updates))
    seen = np.any(u, axis=1)
    length = np.square(u).sum()
    scale = np.sqrt(np.square(z[seen]).sum() / length) if length else 0.0
    return np.where(seen[:, None], (z - scale * u) / 2, z)


@dataclass
class LeastVarianceState:
    """All clients' squeezed gradients, and from them or from updates each client's stratum [N] and the measure
    q [N] that draws follow; what clients answered instead of gradients [N, d]."""

    gradients: Renewed[Squeezed] = renewed()
    partition: Renewed[tuple[np.ndarray, np.ndarray]] = renewed()
    answers: Renewed[np.ndarray] = renewed()


def class_shares(counts) -> np.ndarray:
    """Return the share of each class in label counts [N, classes], noisy ones too; equal shares where none is above 0.

    They differ from the gradient of a network's output bias only by the network's mean probabilities.
    """
    counts = np.maximum(counts, 0.0)
    totals = counts.sum(1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1 / counts.shape[1])


@config
class LeastVariance:
    """Draw one client from each of m max-cut strata, weight omega_k / p_k. Unbiased.

    The expectation is sum_k omega_k (w_k - w_t) for any strata, since these and p are fixed before the draw. With at
    most m clients all take part, with weights omega_k.

    Args:
        draws: "size" (p_k = omega_k / W_h, so that the weights are the strata's shares W_h) or "norm" (p_k
            proportional to omega_k s_k with s_k^2 = |Z_k|^2 + tau^2, and strata of directions; tau^2 is estimated
            from the updates received so far, see `residual_variance`; before there are any, "size").
        features: by which clients are alike: "sketch" (signed sums of their gradients, see `fedstas.sketch`),
            "gradients" (all of them, squeezed), "output" (gradients of the last layer), "labels" (shares of the
            classes), "updates" (each client's last one, which the server has; a client that has sent none is as far
            from the others as two that have are on average) or "sketch+updates" (the mean of the sketches of each
            client's gradient and last update, see `with_updates`; of its gradient until it has sent one).
        levels: of the squeezed gradients.
        restratify_every: rounds; 0: once, for updates in each round.
        noise: tau^2 is added to the pairs of "size", too, so that strata of similar clients do not grow heavy.
        equal_clients: omega_k = 1/N instead of n_k/n; no size is asked for then.
        sketch_size: numbers of a sketch.
        epsilon: of the noise that each client adds to its answer. "labels": Laplace noise on the counts; the unit is one
            example, added or removed. "sketch": Gaussian noise on the sketch, after it is shortened to `clip`; the
            unit is the client, for one answer. Sizes are asked for in the clear unless `equal_clients`.
        delta: of the Gaussian noise.
        clip: the largest length of a sketch with noise, in L2.
    """

    State: ClassVar[type] = LeastVarianceState
    draws: str = choice_field("size", "norm")
    features: str = choice_field(
        "sketch", "gradients", "updates", "sketch+updates", "labels", "output"
    )
    levels: int = int_field(LEVELS, 2, 256)
    restratify_every: int = int_field(0, 0)
    noise: bool = bool_field(False)
    equal_clients: bool = bool_field(False)
    sketch_size: int = int_field(SKETCH_SIZE, later=True)
    epsilon: float | None = float_field(None, 0, optional=True, later=True)
    delta: float = float_field(DELTA, 1e-15, 1, open_low=False, open_high=True, later=True)
    clip: float | None = float_field(None, 0, optional=True, later=True)
    stratifies = property(lambda self: self.features == "gradients")
    hides_sizes = property(lambda self: self.equal_clients)
    needs = property(lambda self: NEEDS[self.features])
    replaces: ClassVar[bool] = True

    def __post_init__(self):
        given = {
            f"levels={self.levels}": (self.levels != LEVELS, ("gradients",)),
            "noise=True": (self.noise, ("sketch", "gradients")),
            "draws='norm'": (self.draws == "norm", ("sketch", "gradients")),
            f"sketch_size={self.sketch_size}": (
                self.sketch_size != SKETCH_SIZE,
                ("sketch", "sketch+updates"),
            ),
            f"epsilon={self.epsilon}": (self.epsilon is not None, ("labels", "sketch")),
            f"clip={self.clip}": (self.clip is not None, ("sketch",)),
            f"delta={self.delta}": (self.delta != DELTA, ("sketch",)),
        }
        for setting, (used, allowed) in given.items():
            if used and self.features not in allowed:
                words = " or ".join(f"features='{name}'" for name in allowed)
                raise InputError(f"{setting} needs {words}: features is {self.features!r}")

        noisy = self.features == "sketch" and self.epsilon is not None
        if noisy != (self.clip is not None):
            present, missing = ("epsilon", "clip") if noisy else ("clip", "epsilon")
            raise InputError(
                f"{present} is given without {missing}: for noise on sketches give both epsilon and clip, or neither"
            )
        if self.delta != DELTA and self.epsilon is None:
            raise InputError(
                f"delta={self.delta} is of no use without noise: give epsilon and clip, too, or leave it out"
            )

    def ask(self, view: View) -> np.ndarray | Squeezed:
        """Ask all clients for their features: squeezed gradients, or float [N, d] of any other kind."""
        if self.features == "gradients":
            return view.gradients(self.levels)
        if self.features == "labels":
            return class_shares(view.label_counts(self.epsilon))
        if self.features == "output":
            return view.output_gradients()
        if self.epsilon is None:
            return view.sketches(self.sketch_size)
        noise = {"clip": self.clip, "epsilon": self.epsilon, "delta": self.delta}
        return view.sketches(self.sketch_size, **noise)

    def estimate_tau2(self, view: View, answers) -> float:
        """Estimate tau^2, the part of an update's squared norm that the client's feature does not explain.

        It is `residual_variance` of the last updates received so far, or of their sketches.

        Args:
            view: the server's, for the last updates.
            answers: the features of all clients, as `ask` returns them: squeezed gradients or sketches. With other
                features tau^2 is not used.
        """
        updates = view.last_updates()
        senders = np.flatnonzero(updates.any(axis=1))
        updates = updates[senders]
        if self.features == "gradients":
            z = Squeezed(answers.levels[senders], answers.codes[senders]).restore()
            return residual_variance(z, updates)
        return residual_variance(answers[senders], view.sketch_vectors(updates, self.sketch_size))

    def points(self, view: View, answers) -> np.ndarray:
        """Return coordinates [N, r] of what clients are alike by; `answers` are as `ask` returns them, and are not used
        with the features "updates"."""
        if self.features == "gradients":
            return gram_coordinates(sketch(answers))
        if self.features == "updates":
            return gram_coordinates(view.last_updates())
        if self.features == "sketch+updates":
            answers = with_updates(
                answers, view.sketch_vectors(view.last_updates(), self.sketch_size)
            )
        few = answers.shape[1] <= len(answers)
        return round_to_grid(answers) if few else gram_coordinates(answers)

    def strata(self, view: View, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each client's stratum [N] in this round, the measure q [N] that draws follow, and omega [N]."""
        sizes = np.ones(view.clients) if self.equal_clients else client_sizes(view)
        omega = sizes / sizes.sum()
        if view.clients <= m:
            return np.arange(view.clients), omega, omega
        state, answers, tau2 = view.state_of(self), None, 0.0
        # `every`: rounds between two partitions; `asked_every`: between two requests for features; None: once.
        every = asked_every = self.restratify_every or None
        if "updates" in self.features:
            # The server has new updates in each round without asking; sketches beside them are asked for once.
            every, asked_every = every or 1, None
        if self.features != "updates":
            store = state.gradients if self.features == "gradients" else state.answers
            answers = store.get(view.round, asked_every, lambda: self.ask(view))
        if self.noise or self.draws == "norm":
            # tau^2 changes with each round's updates, and the partition with it.
            tau2, every = self.estimate_tau2(view, answers), 1
        by_norm = self.draws == "norm" and np.isfinite(tau2)

        def compute() -> tuple[np.ndarray, np.ndarray]:
            """Compute the labels and the measure q that the draws are in proportion to."""
            z = self.points(view, answers)
            length = np.square(z).sum(1)
            noise = np.full(len(z), tau2 if self.noise and np.isfinite(tau2) else 0.0)
            if self.features == "updates":
                # Of a client that has sent none z is 0. With the mean |z|^2 as its noise it counts as far from the others
                # as two clients with uncorrelated updates are from each other on average.
                silent = ~view.last_updates().any(axis=1)
                noise[silent] = length[~silent].mean() if not silent.all() else 1.0
            if not by_norm:
                return max_cut_strata(omega, z, length + noise, m), omega
            # Draws by q = omega s: the points are a = z / s and b = 1, so that a pair costs q_k q_l times
            # |a_k - a_l|^2 plus both rests 1 - |a|^2, the share of tau^2. s is at least 2^-10 of its root mean square, so
            # that every p is above 0.
            variance = length + tau2
            s = np.sqrt(np.maximum(variance, 2.0**-20 * variance.mean()))
            return max_cut_strata(omega * s, z / s[:, None], np.ones(len(z)), m), omega * s

        return *state.partition.get(view.round, every, compute), omega

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        labels, q, omega = self.strata(view, m)
        p = q / np.bincount(labels, q)[labels]
        members = [np.flatnonzero(labels == h) for h in range(labels.max() + 1)]
        chosen = np.array([rng.choice(k, p=p[k]) for k in members])
        return Cohort(chosen, omega[chosen] / p[chosen], labels[chosen])
