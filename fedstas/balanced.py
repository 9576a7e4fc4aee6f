"""Balanced and spread samples of fixed inclusion probabilities: the cube and the local pivotal method.

Exactly m distinct clients with pi_k proportional to n_k |Z_k| (capped at 1) or to n_k, and weights
omega_k / pi_k: unbiased. The draws depend on each other, so that the theorem on independent draws
(chapter 9) does not cover them.
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
from fedstas.stratification import rounded

TINY = 1e-9


def null_vector(rows) -> np.ndarray | None:
    """A vector x [n], not zero, with rows [p, n] @ x = 0, or None where there is none: where there are
    several, by elimination, so that it does not follow from last bits as singular vectors would."""
    rows = np.array(rows, dtype=float)
    few, many = rows.shape
    if many == few + 1:  # one equation: the fast way
        with contextlib.suppress(np.linalg.LinAlgError):
            x = np.linalg.solve(rows[:, :-1], -rows[:, -1])
            if np.abs(x).max(initial=0.0) < 1 / TINY:
                return np.append(x, 1.0)
    least = TINY * np.abs(rows).max(initial=0.0)
    for c in range(many):
        i = c + int(np.abs(rows[c:, c]).argmax()) if c < few else c
        if c == few or abs(rows[i, c]) <= least:  # a combination of the columns before it
            return np.concatenate([-rows[:c, c], [1.0], np.zeros(many - c - 1)])
        rows[[c, i]] = rows[[i, c]]
        rows[c] /= rows[c, c]
        others = np.arange(few) != c
        rows[others] -= np.outer(rows[others, c], rows[c])
    return None


def undecided(pi) -> np.ndarray:
    """The clients whose probability is neither 0 nor 1, but for rounding."""
    return np.flatnonzero((pi > TINY) & (pi < 1 - TINY))


def probabilities(pi) -> np.ndarray:
    """A copy of inclusion probabilities pi [N]; `InputError` if one is not in 0..1."""
    pi = as_float_array("inclusion probabilities", pi, 0)
    if pi.max() > 1:
        raise InputError(f"an inclusion probability is {pi.max():g}: it must be at most 1")
    return pi


def cube_sample(balance, pi, rng: np.random.Generator) -> np.ndarray:
    """A sample, bool [N], with inclusion probabilities exactly pi [N] and, as nearly as whole numbers let
    it, the same Horvitz-Thompson totals of the columns of `balance` [N, p] as all clients (Deville and
    Tille 2004).

    The flight: while some p + 1 clients are undecided, pi moves along a direction that keeps the totals,
    one way or the other with the chances that keep its mean, until one more client is decided (the
    first p + 1: Chauvet and Tille 2006). The landing, where no direction is left, drops the last column.
    """
    pi, balance = probabilities(pi), as_float_array("balancing variables", balance, ndim=2)
    check_same_shape("balancing variables and inclusion probabilities", balance[:, 0], pi)
    rows = (balance / np.where(pi > 0, pi, 1.0)[:, None]).T
    rows = rows / np.maximum(np.abs(rows).max(1, keepdims=True), np.finfo(float).tiny)
    while len(left := undecided(pi)):
        some = left[: len(rows) + 1]
        if (direction := null_vector(rows[:, some])) is None:
            rows = rows[:-1]
            continue
        with np.errstate(divide="ignore"):
            up, down = (
                (np.where(way > 0, 1 - pi[some], pi[some]) / np.abs(way)).min()
                for way in (direction, -direction)
            )
        step = up if rng.random() < down / (up + down) else -down
        pi[some] = np.clip(pi[some] + step * direction, 0.0, 1.0)
    return pi > 0.5


def local_pivotal_sample(features, pi, rng: np.random.Generator) -> np.ndarray:
    """A sample, bool [N], with inclusion probabilities exactly pi [N]: a random undecided client and its
    nearest undecided neighbour in features [N, d] fight for their probabilities, until all are decided
    (Grafstrom, Lundstrom and Schelin 2012, method 2; the first of several that are as near)."""
    pi, features = probabilities(pi), as_float_array("features", features, ndim=2)
    check_same_shape("features and inclusion probabilities", features[:, 0], pi)
    while len(left := undecided(pi)) > 1:
        k = rng.choice(left)
        others = left[left != k]
        other = others[rounded(np.square(features[others] - features[k]).sum(1)).argmin()]
        total = pi[k] + pi[other]
        if total < 1:
            wins = rng.random() < pi[k] / total
            pi[k], pi[other] = (total, 0.0) if wins else (0.0, total)
        else:
            wins = rng.random() < (1 - pi[other]) / (2 - total)
            pi[k], pi[other] = (1.0, total - 1) if wins else (total - 1, 1.0)
    pi[left] = rng.random(len(left)) < pi[left]  # where the sum is no whole number
    return pi > 0.5


@dataclass
class BalancedState:
    """Coordinates [N, d] to balance on or to spread over, and the norms of Z_k [N], renewed every
    `restratify_every` rounds."""

    coordinates: Renewed[tuple[np.ndarray, np.ndarray]] = renewed()


@config
class Balanced:
    """`how`: "cube", balanced on pi and the m - 1 leading principal coordinates of omega_k Z_k, or
    "pivotal", spread over the Z_k. `measure`: pi by "size-norm" or "size". Unbiased, with weights
    omega_k / pi_k, that of a client without gradient too: norms count as a thousandth of their mean."""

    State: ClassVar[type] = BalancedState
    stratifies: ClassVar[bool] = True  # it squeezes
    how: str = choice_field("cube", "pivotal")
    measure: str = choice_field("size-norm", "size")
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(10)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        omega = sizes / sizes.sum()

        def compute() -> tuple[np.ndarray, np.ndarray]:
            squeezed = view.gradients(self.levels)
            z = gram_coordinates(sketch(squeezed))
            if self.how == "cube":
                left, size, _ = np.linalg.svd(omega[:, None] * z, full_matrices=False)
                z = rounded((left * size)[:, : m - 1])
            return z, squeezed.norms()

        coordinates = view.state_of(self).coordinates
        features, norms = coordinates.get(view.round, self.restratify_every, compute)
        norms = np.maximum(norms, 1e-3 * norms.mean()) if norms.any() else np.ones(len(norms))
        pi = proportional_inclusion(omega if self.measure == "size" else omega * norms, m)
        if self.how == "pivotal":
            chosen = np.flatnonzero(local_pivotal_sample(features, pi, rng))
        else:
            order, balance = rng.permutation(len(pi)), np.column_stack([pi, features])
            chosen = np.sort(order[cube_sample(balance[order], pi[order], rng)])
        return Cohort(chosen, omega[chosen] / pi[chosen])
