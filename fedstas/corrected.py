"""The corrected designs: unbiased for the full-participation update, with and without replacement.

What the paper sets out to do, with the estimator that does it: draws by importance, each weighted by its
probability (Hansen and Hurwitz; Horvitz and Thompson), on updates.
"""

from typing import ClassVar

import numpy as np

from fedstas import aggregation, allocation
from fedstas.arrays import as_float_array, rescale_exponent
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
    """pi_k proportional to `measure`, at most 1, sum m: clients that would exceed 1 are certain.

    Clients of measure zero come last, all alike. `InputError` for m beyond 0..N.
    """
    measure = as_float_array("measure", measure, 0)
    m = check_int("m", m, 0, len(measure))
    pi = np.zeros(len(measure))
    open_ = np.ones(len(measure), dtype=bool)
    while open_.any():
        left = m - (len(measure) - open_.sum())
        rest = rescale_exponent(measure[open_])[0]
        pi[open_] = left * rest / rest.sum() if rest.any() else left / len(rest)
        certain = open_ & (pi >= 1 - 1e-12)
        if not certain.any() or certain.sum() == left < len(rest):  # the others keep their little
            return np.minimum(pi, 1.0)
        pi[certain], open_ = 1.0, open_ & ~certain
    return pi


def systematic_sample(pi, rng: np.random.Generator) -> np.ndarray:
    """A sample of fixed size with inclusion probabilities exactly pi [n], sum a whole number.

    Madow's systematic sampling in random order: client k is in when u + j falls into its interval
    of the cumulated pi, one uniform u for all.
    """
    pi = as_float_array("inclusion probabilities", pi, 0)
    if pi.max() > 1 + 1e-9 or abs(pi.sum() - round(pi.sum())) > 1e-6:
        raise InputError("inclusion probabilities must be at most 1 and sum to a whole number")
    order = rng.permutation(len(pi))
    ends = np.cumsum(pi[order])
    m = round(ends[-1])
    ends[-1] = m
    places = np.searchsorted(ends, rng.random() + np.arange(m), side="right")
    return order[np.minimum(places, len(pi) - 1)]


@config
class StratifiedHansenHurwitz:
    """The corrected design: the same strata, draws with replacement, Hansen-Hurwitz weights.

    p_k within a stratum proportional to `selection`: "size-norm" (n_k times the norm of Z_k, but
    at least `floor` times the mean norm), "size", "norm" or "uniform". m_h by priorities on
    the stratum totals of the same measure, at least one each. Weight omega_k / (m_h p_k) on
    the update: given the updates, the expectation is exactly sum_k omega_k (w_k - w_t).
    `equal_clients`: omega_k = 1/N instead of n_k/n; with selection "norm" or "uniform" no true
    size is then asked for.
    """

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
        """Strata labels [N], the measure that draws follow [N], and omega [N]."""
        s = stratify_clients(self, view, m, rng)
        ones = np.ones(view.clients)
        sizes = ones if self.hides_sizes else client_sizes(view)
        omega = ones / view.clients if self.equal_clients else sizes / sizes.sum()
        measure = sizes.astype(float) if self.selection.startswith("size") else ones
        if self.selection.endswith("norm") and s.norms.any():
            measure = measure * np.maximum(s.norms, self.floor * s.norms.mean())
        return s.labels, measure, omega

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        labels, measure, omega = self.measure(view, m, rng)
        totals = np.bincount(labels, measure)
        ones, p = np.ones(len(totals)), measure / totals[labels]
        seats = allocation.by_priority(totals, m, lower=ones, upper=m * ones)
        chosen, strata = draw_from_strata(
            labels, seats, lambda k, seat: rng.choice(k, seat, p=p[k])
        )
        weights = aggregation.hansen_hurwitz(omega[chosen], p[chosen], seats[strata])
        return Cohort(chosen, weights, strata)


@config
class StratifiedHorvitzThompson:
    """The corrected design without replacement: distinct clients, true inclusion probabilities.

    Strata, measure and priorities are those of `corrected`, with m_h at most N_h; within a
    stratum a systematic sample with pi_k proportional to the measure, weights omega_k / pi_k.
    """

    State: ClassVar[type] = StrataState
    stratifies: ClassVar[bool] = True
    corrected: StratifiedHansenHurwitz = StratifiedHansenHurwitz()
    hides_sizes = property(lambda self: self.corrected.hides_sizes)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        labels, measure, omega = self.corrected.measure(view, m, rng)
        sizes = np.bincount(labels)
        totals = np.bincount(labels, measure)
        seats = allocation.by_priority(totals, m, lower=np.ones(len(sizes)), upper=sizes)
        pi = np.zeros(view.clients)

        def pick(members, seat: int) -> np.ndarray:
            pi[members] = proportional_inclusion(measure[members], seat)
            return members[systematic_sample(pi[members], rng)]

        chosen, strata = draw_from_strata(labels, seats, pick)
        return Cohort(chosen, omega[chosen] / pi[chosen], strata)
