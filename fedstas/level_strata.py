"""Strata from the levels of squeezed gradients alone: HCSFed (Song et al., UAI 2023, arXiv:2208.05135).

Its steps are those of FedSTS (`client_sampling.Stratified`): k-means of the clients, Neyman allocation, p_k proportional
to a norm. The clients send the d' levels of their gradients without the codes, 36 bytes instead of some thousand, and
strata, spreads and norms are of these levels, which FedSTaS (Alg. 2) restores to whole gradients first.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import (
    Cohort,
    Strata,
    View,
    check_participants,
    cluster_clients,
    draw_stratified,
)
from fedstas.compression import squeeze
from fedstas.config import config, int_field
from fedstas.state import Renewed, renewed

ALL_EXAMPLES = 2**31  # a batch that holds any client's examples


def ascending_levels(gradient: np.ndarray, levels: int) -> np.ndarray:
    """Return the d' levels [levels] of a squeezed gradient [d], ascending."""
    return squeeze(gradient[None], levels).levels[0]


@dataclass
class LevelStrataState:
    """The strata, renewed every `restratify_every` rounds."""

    strata: Renewed[Strata] = renewed()


@config
class LevelStrata:
    """Stratify by the levels of squeezed gradients; Neyman allocation, distinct clients, weights N_h / (N m_h).

    Within a stratum p_k is proportional to the norm of the client's levels, so that the estimator is biased unless
    norms are equal there. Of the paper the abstract was read, and an independent implementation of it. That lets each
    client choose the order of its levels, squares spreads before it allocates, and says nothing of weights; here the
    levels ascend, S_h is the standard deviation that Neyman's allocation asks for, and the weights are FedSTS's, N_h / (N m_h).
    All clients are asked again every `restratify_every` rounds.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = LevelStrataState
    stratifies: ClassVar[bool] = True
    equal_clients: ClassVar[bool] = True

    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(1)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)

        def compute() -> Strata:
            make = partial(ascending_levels, levels=self.levels)
            levels = view.centres(make, ALL_EXAMPLES, self.levels)
            return cluster_clients(levels, np.linalg.norm(levels, axis=1), min(self.strata, m), rng)

        strata = view.state_of(self).strata.get(view.round, self.restratify_every, compute)
        return draw_stratified(strata, m, rng)
