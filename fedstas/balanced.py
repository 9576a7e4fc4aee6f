"""Balanced and spatially spread samples of given inclusion probabilities: the cube and the local pivotal method.

Exactly m distinct clients are drawn. pi_k is proportional to n_k |Z_k| or to n_k, and at most 1; with weights
omega_k / pi_k the update is unbiased. The draws depend on each other, so that what the book's page
"A better design" proves of independent draws from strata does not apply.
"""

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.arrays import as_float_array, check_same_shape
from fedstas.client_sampling import Cohort, View, check_participants, client_sizes
from fedstas.config import choice_field, config, int_field
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError
from fedstas.least_variance import gram_coordinates, sketch
from fedstas.state import Renewed, renewed
from fedstas.stratification import round_to_grid

TINY = 1e-9  # probabilities and pivots below it are taken as 0


def null_vector(rows) -> np.ndarray | None:
    """Return a vector x [n], not zero, with rows [p, n] @ x = 0, or None if there is none.

    Elimination with pivots chooses among several: a singular vector would depend on rounding errors.
    """
    rows = np.array(rows, dtype=float)
    few, many = rows.shape
    if many == few + 1:  # usually one dimension: solved directly
        with contextlib.suppress(np.linalg.LinAlgError):
            x = np.linalg.solve(rows[:, :-1], -rows[:, -1])
            if np.abs(x).max(initial=0.0) < 1 / TINY:
                return np.append(x, 1.0)
    least = TINY * np.abs(rows).max(initial=0.0)
    for c in range(many):  # c pivots are done: the first c columns are those of the identity
        i = c + int(np.abs(rows[c:, c]).argmax()) if c < few else c
        if c == few or abs(rows[i, c]) <= least:  # a combination of the columns before it
            return np.concatenate([-rows[:c, c], [1.0], np.zeros(many - c - 1)])
        rows[[c, i]] = rows[[i, c]]
        rows[c] /= rows[c, c]
        others = np.arange(few) != c
        rows[others] -= np.outer(rows[others, c], rows[c])
    return None


def find_undecided(pi) -> np.ndarray:
    """Return the clients whose probability is neither 0 nor 1 up to rounding, int [n]."""
    return np.flatnonzero((pi > TINY) & (pi < 1 - TINY))


def check_probabilities(pi) -> np.ndarray:
    """Return a copy of inclusion probabilities pi [N]; `InputError` if one is outside 0..1."""
    pi = as_float_array("inclusion probabilities", pi, 0)
    if pi.max() > 1:
        raise InputError(f"an inclusion probability is {pi.max():g}: it must be at most 1")
    return pi


def cube_sample(balance, pi, rng: np.random.Generator) -> np.ndarray:
    """Draw a balanced sample, bool [N], by the cube method (Deville and Tille 2004, doi:10.1093/biomet/91.4.893).

    Inclusion probabilities are exactly pi [N]. The Horvitz-Thompson totals of the columns of `balance` [N, p] equal
    those of all clients as nearly as whole clients allow.

    Flight phase: while p + 1 clients are undecided, pi moves along a direction that keeps the totals, forwards or
    backwards with the probabilities that keep its mean, until one more client is decided (always among the first
    p + 1: Chauvet and Tille 2006). Landing phase: when there is no such direction, the last column is dropped.
    """
    pi, balance = check_probabilities(pi), as_float_array("balancing variables", balance, ndim=2)
    check_same_shape("balancing variables and inclusion probabilities", balance[:, 0], pi)
    # In rows, what a drawn client adds to each Horvitz-Thompson total, rescaled: any multiple of a total is kept with it.
    rows = (balance / np.where(pi > 0, pi, 1.0)[:, None]).T
    rows = rows / np.maximum(np.abs(rows).max(1, keepdims=True), np.finfo(float).tiny)
    while len(open_clients := find_undecided(pi)):
        some = open_clients[: len(rows) + 1]
        if (direction := null_vector(rows[:, some])) is None:
            rows = rows[:-1]
            continue
        # How far pi can go forwards and backwards until a probability is 0 or 1.
        with np.errstate(divide="ignore"):
            up, down = (
                (np.where(way > 0, 1 - pi[some], pi[some]) / np.abs(way)).min()
                for way in (direction, -direction)
            )
        step = up if rng.random() < down / (up + down) else -down
        pi[some] = np.clip(pi[some] + step * direction, 0.0, 1.0)
    return pi > 0.5  # each is 0 or 1 up to rounding


def local_pivotal_sample(features, pi, rng: np.random.Generator) -> np.ndarray:
    """Draw a spread sample, bool [N], by the local pivotal method (Grafstrom, Lundstrom and Schelin 2012,
    doi:10.1111/j.1541-0420.2011.01699.x, method 2).

    Inclusion probabilities are exactly pi [N]. A random undecided client and its nearest undecided neighbour in
    features [N, d] (the first of equally near ones) compete for the sum of their probabilities, until all are decided.
    """
    pi, features = check_probabilities(pi), as_float_array("features", features, ndim=2)
    check_same_shape("features and inclusion probabilities", features[:, 0], pi)
    while len(open_clients := find_undecided(pi)) > 1:
        k = rng.choice(open_clients)
        others = open_clients[open_clients != k]
        other = others[round_to_grid(np.square(features[others] - features[k]).sum(1)).argmin()]
        total = pi[k] + pi[other]
        if total < 1:
            wins = rng.random() < pi[k] / total
            pi[k], pi[other] = (total, 0.0) if wins else (0.0, total)
        else:
            wins = rng.random() < (1 - pi[other]) / (2 - total)
            pi[k], pi[other] = (1.0, total - 1) if wins else (total - 1, 1.0)
    # One client is left if the sum of pi is no whole number.
    pi[open_clients] = rng.random(len(open_clients)) < pi[open_clients]
    return pi > 0.5  # each is 0 or 1 up to rounding


@dataclass
class BalancedState:
    """Coordinates [N, d] to balance on or to spread over, and the norms of Z_k [N], renewed every
    `restratify_every` rounds."""

    coordinates: Renewed[tuple[np.ndarray, np.ndarray]] = renewed()


@config
class Balanced:
    """Draw m distinct clients, balanced or spread over their gradients, weights omega_k / pi_k. Unbiased.

    `how`: "cube" balances pi and the m - 1 leading principal coordinates of omega_k Z_k; "pivotal" spreads over the
    Z_k. `measure`: pi_k by "size-norm" or "size"; a norm counts at least a thousandth of the mean norm, so that a
    client of gradient zero can be drawn. `features`: Z_k are the "gradients", squeezed to `levels`, or a "sketch" of
    them, `sketch_size` signed sums (`fedstas.sketch`), whose norms stand for the gradients'. They are asked every
    `restratify_every` rounds; 0: once.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = BalancedState
    stratifies = property(lambda self: self.features == "gradients")
    expands: ClassVar[bool] = True
    how: str = choice_field("cube", "pivotal")
    measure: str = choice_field("size-norm", "size")
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(10, 0)
    features: str = choice_field("gradients", "sketch", later=True)
    sketch_size: int = int_field(64, later=True)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        omega = sizes / sizes.sum()

        def compute() -> tuple[np.ndarray, np.ndarray]:
            """Compute the coordinates to balance on or to spread over, and the norms."""
            if self.features == "sketch":
                vectors = view.sketches(self.sketch_size)
                norms = np.linalg.norm(vectors, axis=1)
            else:
                squeezed = view.gradients(self.levels)
                vectors, norms = sketch(squeezed), squeezed.norms()
            z = gram_coordinates(vectors)
            if self.how == "cube":
                left, singular, _ = np.linalg.svd(omega[:, None] * z, full_matrices=False)
                z = round_to_grid((left * singular)[:, : m - 1])
            return z, norms

        coordinates = view.state_of(self).coordinates
        features, norms = coordinates.get(view.round, self.restratify_every or None, compute)
        # At least a thousandth of the mean, so that a client of gradient zero can be drawn.
        norms = np.maximum(norms, 1e-3 * norms.mean()) if norms.any() else np.ones(len(norms))
        pi = proportional_inclusion(omega if self.measure == "size" else omega * norms, m)
        if self.how == "pivotal":
            chosen = np.flatnonzero(local_pivotal_sample(features, pi, rng))
        else:
            order, balance = rng.permutation(len(pi)), np.column_stack([pi, features])
            chosen = np.sort(order[cube_sample(balance[order], pi[order], rng)])
        return Cohort(chosen, omega[chosen] / pi[chosen])
