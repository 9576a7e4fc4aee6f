"""Designs that choose rather than draw: biased on purpose, as their papers say.

Their weights sum to one, so that they are unbiased only where the clients' updates are equal.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.aggregation import cohort_weights
from fedstas.arrays import as_float_array
from fedstas.client_sampling import (
    Cohort,
    View,
    check_participants,
    client_sizes,
    successive_sample,
)
from fedstas.config import config, int_field
from fedstas.errors import InputError, check_int
from fedstas.stratification import rounded


@config
class PowerOfChoice:
    """Cho, Wang and Joshi (2022): of d candidates, drawn by size without replacement, the m with the
    largest loss at w_t, ties in the order drawn; weights 1/m. Biased towards clients that fit badly.
    `candidates` is d, m to N; 0 for 2 m, or N if that is less. With d = m: towards small clients, since
    the chance to be among them is below m n_k / n for the large."""

    candidates: int = int_field(0, 0)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        d = check_int("candidates", self.candidates or min(2 * m, view.clients), m, view.clients)
        asked = successive_sample(sizes, d, rng)
        worst = asked[np.argsort(-rounded(view.losses(asked)), kind="stable")[:m]]
        return Cohort(worst, np.full(m, 1 / m))


def facility_location(distances, m: int) -> np.ndarray:
    """m of N indices [m] that greedily make the sum over all of the distance to the nearest least, ties to
    the first: of what the best m save against the largest distance, at least the share 1 - 1/e."""
    distances = as_float_array("distances", distances, 0, ndim=2)
    if distances.shape[0] != distances.shape[1]:
        raise InputError(f"distances have shape {distances.shape}: they must be [N, N]")
    nearest, chosen = np.full(len(distances), np.inf), np.zeros(0, dtype=int)
    for _ in range(check_int("m", m, 1, len(distances))):
        totals = np.minimum(nearest, distances).sum(axis=1)
        totals[chosen] = np.inf
        chosen = np.append(chosen, totals.argmin())
        nearest = np.minimum(nearest, distances[chosen[-1]])
    return chosen


@config
class DivFL:
    """Balakrishnan et al. (2022): the m clients whose gradients are nearest to everyone's, by greedy
    facility location; each stands for those that are nearest to it, with their share of all examples.

    The shares are the paper's gamma_k (their code averages instead); no chance is left, and the bias is
    what clients differ from those that stand for them, at most the sum that the greedy choice lowers.
    """

    levels: int = int_field(9, 2, 256)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        z = view.gradients(self.levels).restore().astype(np.float64)
        gram = z @ z.T
        square = gram.diagonal()
        apart = np.maximum(square[:, None] + square - 2 * gram, 0.0)
        distances = rounded(np.sqrt(apart - np.diag(apart.diagonal())))
        chosen = facility_location(distances, m)
        stands_for = chosen[distances[:, chosen].argmin(axis=1)]
        stands_for[chosen] = chosen
        shares = np.bincount(stands_for, sizes, minlength=len(sizes)) / sizes.sum()
        return Cohort(chosen, shares[chosen])


@dataclass
class Turn:
    """The order of the clients [N], once it is drawn, and the place in it where the next group starts."""

    order: np.ndarray | None = None
    next: int = 0


@config
class Cyclic:
    """Groups of m clients take turns, in an order that is dealt once (Cho et al. 2023, who draw within
    the group whose turn it is); weights n_k over the cohort. The last group of a turn may be smaller.

    Biased in each round, since all but one group has no chance; over a turn each client counts once.
    """

    State: ClassVar[type] = Turn

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        turn = view.state_of(self)
        if turn.order is None:
            turn.order = rng.permutation(view.clients)
        chosen = turn.order[turn.next : turn.next + m]
        turn.next = turn.next + m if turn.next + m < view.clients else 0
        return Cohort(chosen, cohort_weights(sizes[chosen]))
