"""Independent draws: each client is asked or not by a coin of its own, so that a cohort may be empty.

Horvitz-Thompson weights omega_k / pi_k make the update unbiased, whatever pi > 0 is. Its variance is
sum_k (1 / pi_k - 1) |omega_k u_k|^2.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedstas.arrays import as_float_array, rescale_exponent
from fedstas.client_sampling import Cohort, View, check_participants, client_sizes
from fedstas.config import config, float_field, int_field
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, renewed


def poisson_sample(pi, omega, rng: np.random.Generator) -> Cohort:
    """The clients whose coins fell, in order, with weights omega_k / pi_k."""
    chosen = np.flatnonzero(rng.random(len(pi)) < pi)
    return Cohort(chosen, omega[chosen] / pi[chosen])


@config
class Poisson:
    """pi_k proportional to n_k, at most 1, sum m: independent sampling in its plain form. Unbiased."""

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        sizes = client_sizes(view)
        return poisson_sample(
            proportional_inclusion(sizes, check_participants(m, view.clients)),
            sizes / sizes.sum(),
            rng,
        )


def approximate_inclusion(measure, m: int, rounds: int) -> np.ndarray:
    """Chen et al., Algorithm 2: pi_k = min(1, m measure_k / total), then `rounds` times what is missing
    to m is shared among those below 1, until nothing is. Sums over clients alone are needed, so that it
    works under secure aggregation. After N rounds at most it is `proportional_inclusion`, where m clients or more have a
    measure; before, its sum is below m.
    """
    measure = rescale_exponent(as_float_array("measure", measure, 0))[0]
    m, rounds = check_int("m", m, 0, len(measure)), check_int("rounds", rounds, 0)
    if not measure.any():
        raise InputError("the measure is zero for every client: pi is proportional to nothing")
    pi = np.minimum(1.0, m * measure / measure.sum())
    for _ in range(rounds):
        below = pi < 1
        total = pi[below].sum()
        missing = m - (len(pi) - below.sum())
        if missing <= total or total == 0:  # 0: the others have measure zero
            break
        pi[below] = np.minimum(1.0, missing / total * pi[below])
    return pi


@config
class OptimalClientSampling:
    """Chen, Horvath and Richtarik (2022): pi_k proportional to omega_k |g_k|, capped at 1, sum m: the
    least variance of all independent coins. Every client computes and reports a norm in every round.

    The norm is that of the client's gradient at w_t, as in their DSGD; their FedAvg has each client
    train first. `approximate`: their Algorithm 2 with so many rounds of sums, 0 for the exact one.
    Unbiased but for clients without gradient: these have nothing to send and are never asked.
    """

    approximate: int = int_field(0, 0)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        omega = sizes / sizes.sum()
        measure = omega * view.norms()
        if np.count_nonzero(measure) <= m:
            chosen = np.flatnonzero(measure)
            return Cohort(chosen, omega[chosen])
        if self.approximate:
            return poisson_sample(approximate_inclusion(measure, m, self.approximate), omega, rng)
        return poisson_sample(proportional_inclusion(measure, m), omega, rng)


@dataclass(frozen=True)
class Scores:
    """What K-Vib has learnt: each client's sum of |omega_k u_k|^2 / pi_k over its rounds [N], gamma (0 before
    the first cohort came back), and the inclusion probabilities pi [N] of the round."""

    sums: np.ndarray
    gamma: float
    pi: np.ndarray


@dataclass
class KVibState:
    """The scores, renewed in each round from the `cohort` of the last draw, int [m]."""

    scores: Renewed[Scores] = renewed()
    cohort: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))


@config
class KVib:
    """Zeng et al. (2023), K-Vib: independent draws that learn from the norms of the updates that came back.
    Unbiased.

    pi is `mix` (their theta; (N / (T m))^(1/3) for T rounds) of m / N, and the rest proportional to the
    root of gamma plus what each client has shown so far, the sum of |omega_k u_k|^2 / pi_k over its
    rounds. gamma is G^2 N / (mix m), G the largest |omega_k u_k| of the first cohort that came back.
    """

    State: ClassVar[type] = KVibState
    mix: float = float_field(0.4, 0, 1)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        omega, state = sizes / sizes.sum(), view.state_of(self)

        def learn() -> Scores:
            last, cohort = state.scores.value, state.cohort
            sums, gamma = (
                (np.zeros(len(omega)), 0.0) if last is None else (last.sums.copy(), last.gamma)
            )
            updates = view.last_updates()[cohort].astype(float)
            squares = np.square(updates).sum(1) * omega[cohort] ** 2
            if not gamma:
                gamma = squares.max(initial=0.0) * len(omega) / (self.mix * m)
            if len(cohort):
                sums[cohort] += squares / last.pi[cohort]
            pi = proportional_inclusion(np.sqrt(sums + gamma), m)
            return Scores(sums, gamma, (1 - self.mix) * pi + self.mix * m / len(omega))

        cohort = poisson_sample(state.scores.get(view.round, 1, learn).pi, omega, rng)
        state.cohort = cohort.clients
        return cohort
