"""Poisson sampling: each client takes part independently with probability pi_k, so that a cohort may be empty.

Horvitz-Thompson weights omega_k / pi_k make the update unbiased for every pi > 0. Its variance is
sum_k (1 / pi_k - 1) |omega_k u_k|^2.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedstas.arrays import as_float_array, rescale
from fedstas.client_sampling import Cohort, View, check_participants, client_sizes
from fedstas.config import config, float_field, int_field
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, renewed


def poisson_sample(pi, omega, rng: np.random.Generator) -> Cohort:
    """Select each client independently with probability pi_k; weights omega_k / pi_k."""
    chosen = np.flatnonzero(rng.random(len(pi)) < pi)
    return Cohort(chosen, omega[chosen] / pi[chosen])


@config
class Poisson:
    """Poisson sampling by size: pi_k proportional to n_k, at most 1, sum m. Unbiased."""

    expands: ClassVar[bool] = True

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        sizes = client_sizes(view)
        return poisson_sample(
            proportional_inclusion(sizes, check_participants(m, view.clients)),
            sizes / sizes.sum(),
            rng,
        )


def approximate_inclusion(measure, m: int, rounds: int) -> np.ndarray:
    """Approximate `proportional_inclusion` by sums over clients (Chen et al. 2022, arXiv:2010.13723, Algorithm 2).

    It starts from pi_k = min(1, m measure_k / total), whose sum is below m if some pi_k are 1. Each of `rounds`
    repetitions raises the other pi_k in proportion, to the sum m, and again to at most 1. Only sums over clients are
    needed, so that it works under secure aggregation. After at most N repetitions the result is exact, if at least m
    clients have a measure above 0.
    """
    measure = rescale(as_float_array("measure", measure, 0))
    m, rounds = check_int("m", m, 0, len(measure)), check_int("rounds", rounds, 0)
    if not measure.any():
        raise InputError("the measure is zero for every client: one must be positive")
    pi = np.minimum(1.0, m * measure / measure.sum())
    for _ in range(rounds):
        below = pi < 1
        total = pi[below].sum()
        missing = m - (len(pi) - below.sum())
        if missing <= total or total == 0:  # 0: all others have measure zero
            break
        pi[below] = np.minimum(1.0, missing / total * pi[below])
    return pi


@config
class OptimalClientSampling:
    """Poisson sampling of least variance: pi_k proportional to omega_k |g_k|, at most 1, sum m. Unbiased.

    Chen, Horvath and Richtarik (2022), arXiv:2010.13723. Every client computes and reports a norm in every round: of
    its gradient at w_t, as in their DSGD (in their FedAvg each client trains first). `approximate`: repetitions of
    their Algorithm 2, 0 for exact probabilities. A client whose gradient is zero is never selected.
    """

    needs: ClassVar[tuple[str, ...]] = ("norms",)
    expands: ClassVar[bool] = True
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
    """What K-Vib remembers of earlier rounds.

    Args:
        sums: each client's sum of |omega_k u_k|^2 / pi_k over its participations, [N].
        gamma: as in `KVib`; 0 before the first updates.
        pi: the inclusion probabilities of the round, [N].
    """

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
    """Poisson sampling that learns from the norms of received updates (K-Vib: Zeng et al. 2023, arXiv:2310.02698).
    Unbiased.

    pi_k is a weighted mean of two probabilities: m / N with weight `mix` (their theta, which is (N / (T m))^(1/3) for T
    rounds), and one that is proportional to the root of gamma plus the client's sum of |omega_k u_k|^2 / pi_k over its
    participations. gamma is G^2 N / (mix m), where G is the largest |omega_k u_k| of the first cohort. Who is drawn and
    does not answer adds nothing.
    """

    State: ClassVar[type] = KVibState
    expands: ClassVar[bool] = True
    mix: float = float_field(0.4, 0, 1)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, sizes = check_participants(m, view.clients), client_sizes(view)
        omega, state = sizes / sizes.sum(), view.state_of(self)

        def learn() -> Scores:
            """Add the updates of those of the last cohort who answered to the scores, and compute the new probabilities."""
            last, cohort, respondents = state.scores.value, state.cohort, view.last_respondents()
            if respondents is not None:
                cohort = cohort[respondents[cohort]]
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
