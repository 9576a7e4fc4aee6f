"""The corrected FedSTaS designs, unbiased for the full-participation update, with and without replacement.

Strata and importance sampling are the paper's; the estimator weights each drawn update by its probability (Hansen and
Hurwitz 1943, doi:10.1214/aoms/1177731356; Horvitz and Thompson 1952, doi:10.1080/01621459.1952.10483446).
"""

from typing import ClassVar

import numpy as np

from fedstas import aggregation, allocation
from fedstas.arrays import as_float_array, rescale
from fedstas.client_sampling import (
    Cohort,
    StrataState,
    View,
    check_participants,
    client_sizes,
    draw_from_strata,
    stratify_clients,
)
from fedstas.config import bool_field, choice_field, config, float_field, int_field
from fedstas.errors import InputError, check_int

SELECTIONS = ("size-norm", "size", "norm", "uniform")


def proportional_inclusion(measure, m: int) -> np.ndarray:
    """Return inclusion probabilities pi [N] with sum m, proportional to `measure` [N] but at most 1.

    A client whose pi would exceed 1 gets 1, and the others share the rest in proportion. Clients of measure zero get
    more than 0 only if all others have 1; then they share equally. `InputError` for m outside 0..N.
    """
    measure = as_float_array("measure", measure, 0)
    m = check_int("m", m, 0, len(measure))
    pi = np.zeros(len(measure))
    uncertain = np.ones(len(measure), dtype=bool)
    while uncertain.any():
        remaining = m - (len(measure) - uncertain.sum())
        rest = rescale(measure[uncertain])
        pi[uncertain] = remaining * rest / rest.sum() if rest.any() else remaining / len(rest)
        certain = uncertain & (pi >= 1 - 1e-12)  # 1 up to rounding errors
        # If the certain clients take all of m, the others keep their tiny probabilities, instead of exactly 0.
        if not certain.any() or certain.sum() == remaining < len(rest):
            return np.minimum(pi, 1.0)
        pi[certain], uncertain = 1.0, uncertain & ~certain
    return pi


def systematic_sample(pi, rng: np.random.Generator) -> np.ndarray:
    """Draw a sample of fixed size m with inclusion probabilities exactly pi [N], whose sum m is a whole number.

    Systematic sampling (Madow 1949) in random order: client k is in the sample if one of u, u + 1, ..., u + m - 1
    falls into its interval of the cumulated pi, with one uniform u.
    """
    pi = as_float_array("inclusion probabilities", pi, 0)
    if pi.max() > 1 + 1e-9 or abs(pi.sum() - round(pi.sum())) > 1e-6:  # up to rounding errors
        raise InputError("inclusion probabilities must be at most 1, and their sum a whole number")
    order = rng.permutation(len(pi))
    ends = np.cumsum(pi[order])
    m = round(ends[-1])
    ends[-1] = m
    places = np.searchsorted(ends, rng.random() + np.arange(m), side="right")
    return order[np.minimum(places, len(pi) - 1)]


@config
class StratifiedHansenHurwitz:
    """Draw with replacement within FedSTaS's strata, with Hansen-Hurwitz weights. Unbiased.

    Within a stratum p_k is proportional to `selection`: "size-norm" (n_k times the norm of Z_k, which is raised
    to `floor` times the mean norm where it is below), "size", "norm" or "uniform". The allocation m_h is by
    priorities on the strata's totals of this size measure, with at least one draw in each stratum. The weight
    omega_k / (m_h p_k) of an update makes its expectation, given the updates, exactly
    sum_k omega_k (w_k - w_t). `equal_clients`: omega_k = 1/N instead of n_k/n; with selection "norm" or
    "uniform" no true size is asked for then.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = StrataState
    stratifies: ClassVar[bool] = True
    replaces: ClassVar[bool] = True
    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(10)
    selection: str = choice_field("size-norm", *SELECTIONS)
    equal_clients: bool = bool_field(False)
    floor: float = float_field(0.01, 0, 1)
    hides_sizes = property(lambda s: s.equal_clients and not s.selection.startswith("size"))

    def measure(self, view: View, m: int, rng: np.random.Generator):
        """Return, for each client [N], the stratum, the size measure and omega.

        Within a stratum clients are drawn with probabilities proportional to the size measure.
        """
        s = stratify_clients(self, view, m, rng)
        ones = np.ones(view.clients)
        sizes = ones if self.hides_sizes else client_sizes(view)
        omega = ones / view.clients if self.equal_clients else sizes / sizes.sum()
        size_measure = sizes.astype(float) if self.selection.startswith("size") else ones
        if self.selection.endswith("norm") and s.norms.any():
            size_measure = size_measure * np.maximum(s.norms, self.floor * s.norms.mean())
        return s.labels, size_measure, omega

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        labels, size_measure, omega = self.measure(view, m, rng)
        totals = np.bincount(labels, size_measure)
        ones, p = np.ones(len(totals)), size_measure / totals[labels]
        draws = allocation.by_priority(totals, m, lower=ones, upper=m * ones)
        chosen, strata = draw_from_strata(
            labels, draws, lambda members, count: rng.choice(members, count, p=p[members])
        )
        weights = aggregation.hansen_hurwitz(omega[chosen], p[chosen], draws[strata])
        return Cohort(chosen, weights, strata)


@config
class StratifiedHorvitzThompson:
    """Draw distinct clients within the strata of `corrected`, with Horvitz-Thompson weights. Unbiased.

    Strata, size measure and priorities are those of `corrected`, with m_h at most N_h. Within a stratum the sample is
    systematic, with pi_k proportional to the size measure and weights omega_k / pi_k.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = StrataState
    stratifies: ClassVar[bool] = True
    corrected: StratifiedHansenHurwitz = StratifiedHansenHurwitz()
    hides_sizes = property(lambda self: self.corrected.hides_sizes)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        labels, size_measure, omega = self.corrected.measure(view, m, rng)
        stratum_sizes = np.bincount(labels)
        totals = np.bincount(labels, size_measure)
        draws = allocation.by_priority(totals, m, lower=np.ones(len(totals)), upper=stratum_sizes)
        pi = np.zeros(view.clients)

        def pick(members, count: int) -> np.ndarray:
            pi[members] = proportional_inclusion(size_measure[members], count)
            return members[systematic_sample(pi[members], rng)]

        chosen, strata = draw_from_strata(labels, draws, pick)
        return Cohort(chosen, omega[chosen] / pi[chosen], strata)
