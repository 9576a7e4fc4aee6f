"""Designs that are biased by intention: power-of-choice, DivFL, cyclic participation.

Their weights sum to one: the aggregate equals full participation where all clients' updates are equal.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.aggregation import cohort_weights
from fedstas.arrays import as_float_array, rescale
from fedstas.client_sampling import (
    Cohort,
    View,
    check_participants,
    client_sizes,
    successive_sample,
)
from fedstas.config import config, int_field
from fedstas.errors import InputError, check_int
from fedstas.stratification import round_to_grid


@config
class PowerOfChoice:
    """Take the m candidates of largest loss (power-of-choice: Cho, Wang and Joshi 2022, arXiv:2010.01243).

    d candidates are drawn without replacement, by size; the m with the largest loss at w_t take part, ties in the order
    of drawing, with weights 1/m. Biased towards clients that the model fits badly; with d = m towards small
    clients, since a large one is a candidate with probability below m n_k / n. `candidates` is d, m to N; 0
    stands for 2 m, at most N.
    """

    needs: ClassVar[tuple[str, ...]] = ("losses",)
    candidates: int = int_field(0, 0)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        d = check_int("candidates", self.candidates or min(2 * m, view.clients), m, view.clients)
        candidates = successive_sample(sizes, d, rng)
        # Losses are rounded, so that rounding errors, which differ between machines, do not decide who is worst. The sort
        # is stable: of equal losses the one drawn first comes first.
        losses = round_to_grid(view.losses(candidates))
        worst = candidates[np.argsort(-losses, kind="stable")[:m]]
        return Cohort(worst, np.full(m, 1 / m))


def facility_location(distances, m: int) -> np.ndarray:
    """Choose m of N indices [m] greedily, so that the sum of all distances to the nearest chosen one is small.

    Ties go to the first index. The sum is at most N times the largest distance. Of what the best m indices take off this
    bound, the greedy choice takes off at least the share 1 - 1/e, since what a set of indices takes off is monotone and
    submodular (Nemhauser, Wolsey and Fisher 1978, Math. Program. 14).
    """
    distances = as_float_array("distances", distances, 0, ndim=2)
    if distances.shape[0] != distances.shape[1]:
        raise InputError(f"distances have the shape {distances.shape}: it must be [N, N]")
    nearest, chosen = np.full(len(distances), np.inf), np.zeros(0, dtype=int)
    for _ in range(check_int("m", m, 1, len(distances))):
        totals = np.minimum(nearest, distances).sum(axis=1)
        totals[chosen] = np.inf
        chosen = np.append(chosen, totals.argmin())
        nearest = np.minimum(nearest, distances[chosen[-1]])
    return chosen


@config
class DivFL:
    """Take m clients whose gradients represent all others' (DivFL: Balakrishnan et al., ICLR 2022).

    Greedy facility location on the distances of gradients chooses them; a client's weight is the share of all
    examples that is held by the clients nearest to it, the paper's gamma_k (their code averages instead). Nothing
    is random. The bias is at most the sum of distances that the greedy choice makes small.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    levels: int = int_field(9, 2, 256)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        # Distances are compared alone, so that a common factor does not matter.
        gradients = rescale(view.gradients(self.levels).restore().astype(np.float64))
        gram = gradients @ gradients.T
        squared_norms = gram.diagonal()
        squares = np.maximum(squared_norms[:, None] + squared_norms - 2 * gram, 0.0)
        np.fill_diagonal(squares, 0.0)  # the distance to oneself, which rounding may leave above 0
        distances = round_to_grid(np.sqrt(squares))
        chosen = facility_location(distances, m)
        representative = chosen[distances[:, chosen].argmin(axis=1)]
        representative[chosen] = chosen  # also where two chosen clients have the same gradient
        shares = np.bincount(representative, sizes, minlength=len(sizes)) / sizes.sum()
        return Cohort(chosen, shares[chosen])


@dataclass
class Turn:
    """The order of the clients [N], once it is drawn, and the place in it where the next group starts."""

    order: np.ndarray | None = None
    next: int = 0


@config
class Cyclic:
    """Let groups of m clients take turns, in an order that is drawn once; weights n_k over the cohort's total.

    Cyclic participation (Cho et al. 2023, arXiv:2302.03109, who draw within the group whose turn it is). The last group
    may be smaller. Biased in each round, since the other groups cannot be drawn; over a cycle each client takes
    part once.
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
