"""Data designs: on which of its examples a participant trains (FedSTaS Sec. 4 and 5.2).

The server sets a rate for each participant (`rates`) and sends nothing else; the participant draws its sample
(`sample`).
"""

from typing import ClassVar, Protocol

import numpy as np

from fedstas import privacy
from fedstas.allocation import largest_remainder
from fedstas.arrays import (
    MAX_COUNT,
    as_float_array,
    as_int_array,
    check_same_shape,
    rescale,
)
from fedstas.client_sampling import Cohort, View
from fedstas.config import bool_field, config, float_field, int_field
from fedstas.errors import InputError, check_float, check_int


class DataDesign(Protocol):
    """A design over examples: it chooses on which examples each participant trains.

    The server computes `rates`; a participant knows its own rate only, and draws its `sample`. An optional attribute
    `hides_sizes` of the class is true where no client's true size is asked for (see `client_sampling.ClientDesign`).
    """

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        """Compute what the server sends to each participant, float [m].

        That is the probability with which it keeps each of its examples or, for the designs of fixed size (`Optimal`,
        `FixedSize`), how many examples it draws.
        """

    def sample(self, size: int, rate: float, rng: np.random.Generator) -> np.ndarray:
        """Draw the positions in 0..size-1 that a client of this size trains on, ascending; there may be none.

        `rate` is what the server sent to it: see `rates`.
        """


def private_total(view: View, clients, epsilon, size_cap, memoised=False) -> float:
    """Estimate the total size of these clients from their randomised responses (eq. 5.7)."""
    alpha = privacy.truth_probability(epsilon, size_cap)
    reports = view.reports(clients, size_cap=size_cap, alpha=alpha, memoised=memoised)
    return privacy.estimate_total(reports, size_cap=size_cap, alpha=alpha)


def bernoulli(size: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a Bernoulli sample of the positions in 0..size-1, each with probability `rate`."""
    rate = check_float("rate", rate, 0, 1, open_low=False)
    return np.flatnonzero(rng.random(check_int("size", size, 0, MAX_COUNT)) < rate)


def fixed_size(size: int, number: float, rng: np.random.Generator) -> np.ndarray:
    """Draw `number` positions in 0..size-1 without replacement, ascending; all if there are fewer."""
    size = check_int("size", size, 0, MAX_COUNT)
    number = check_float("number", number, 0, open_low=False)
    return np.sort(rng.choice(size, min(size, int(number)), replace=False))


@config
class AllData:
    """Train on all examples."""

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        return np.ones(len(cohort.clients))

    def sample(self, size: int, rate: float, rng: np.random.Generator) -> np.ndarray:
        return np.arange(size)


@config
class FixedRate:
    """Keep each example with the same fixed probability `rate`; the server need not know any size."""

    rate: float = float_field(1.0, 0, 1)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        return np.full(len(cohort.clients), self.rate)

    def sample(self, size: int, rate: float, rng: np.random.Generator) -> np.ndarray:
        return np.arange(size) if rate >= 1 else bernoulli(size, rate, rng)


@config
class Requested:
    """Keep each example with probability p = min(1, n* / n), where n is the participants' total size (Sec. 5.2).

    With an `epsilon`, n is estimated from randomised responses (eq. 5.7), and is at least the number of reports. If
    `memoised`, a client repeats its first report, so that all its reports together cost one epsilon.
    """

    sample = staticmethod(bernoulli)
    n_star: int = int_field(2048)
    epsilon: float | None = float_field(None, 0, optional=True)
    size_cap: int = int_field(100, 3)
    memoised: bool = bool_field(False)
    hides_sizes = property(lambda self: self.epsilon is not None)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        m = len(cohort.clients)
        if self.epsilon is None:
            total = view.sizes[cohort.clients].sum()
        else:
            total = private_total(view, cohort.clients, self.epsilon, self.size_cap, self.memoised)
        return np.full(m, min(1.0, self.n_star / max(total, m)))


@config
class FedSampling:
    """Keep each example of every participant with probability K / N~ (FedSampling: Qi et al. 2023, arXiv:2306.14245).

    K is the `share` of all examples. N~ is the private estimate of their number (eq. 5.7) from new reports of *all*
    clients, and at least the number of clients; without an `epsilon` it is the true number. The authors' slides clip
    sizes at M, which is not among the random answers 1..M-1; here they are clipped at M-1.
    """

    sample = staticmethod(bernoulli)
    share: float = float_field(0.1, 0, 1)
    epsilon: float | None = float_field(3.0, 0, optional=True)
    size_cap: int = int_field(100, 3)
    hides_sizes = property(lambda self: self.epsilon is not None)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        total: float = view.total
        if self.epsilon is not None:
            total = private_total(view, np.arange(view.clients), self.epsilon, self.size_cap)
        rate = min(1.0, self.share * view.total / max(total, view.clients))
        return np.full(len(cohort.clients), rate)


def optimal_sizes(weights, spreads, sizes, total: float) -> np.ndarray:
    """Compute real sample sizes n'_k [m] that minimise sum_k a_k^2 s_k^2 / n'_k under sum n'_k = total, n'_k <= n_k.

    They are proportional to a_k s_k (Neyman allocation over participants); a client that would exceed its data
    gives all of it (Karush-Kuhn-Tucker conditions).

    Args:
        weights: aggregation weights a_k [m].
        spreads: standard deviations s_k of a client's example gradients [m].
        sizes: n_k [m].
        total: of the sample.
    """
    weights, spreads = as_float_array("weights", weights), as_float_array("spreads", spreads, 0)
    sizes = as_int_array("client sizes", sizes).astype(float)
    check_same_shape("weights, spreads and sizes", weights, spreads, sizes)
    priority = np.abs(rescale(weights)) * rescale(spreads)
    result, below_cap = np.zeros(len(sizes)), sizes > 0
    total = min(check_float("total", total, 0, open_low=False), float(sizes.sum()))
    while below_cap.any():
        p = rescale(priority[below_cap] if priority[below_cap].any() else sizes[below_cap])
        result[below_cap] = max(0.0, total - sizes[~below_cap].sum()) * p / p.sum()
        full = below_cap & (result >= sizes)
        result[full] = sizes[full]
        if not full.any():
            break
        below_cap &= ~full
    return result


@config
class Optimal:
    """Share n* examples among the participants so that the aggregated gradient has the least variance (`optimal_sizes`).

    The paper names this as future work. Samples are of fixed size, without replacement, at least one example each. Each
    participant passes over all its data at w_t and sends its true size and the standard deviation of its example
    gradients, neither of them privately.
    """

    needs: ClassVar[tuple[str, ...]] = ("spreads",)
    sample = staticmethod(fixed_size)
    n_star: int = int_field(2048)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        sizes, spreads = view.sizes[cohort.clients], view.gradient_spreads(cohort.clients)
        quotas = optimal_sizes(cohort.weights, spreads, sizes, self.n_star)
        rounded = largest_remainder(quotas, round(quotas.sum())) if quotas.sum() >= 1 else quotas
        return np.clip(rounded, 1, sizes).astype(float)


@config
class FixedSize:
    """Draw floor(n*/m) examples of each participant without replacement, or all if it has fewer.

    This is the other reading of Alg. 1. With n* < m nobody would train, which is refused.
    """

    sample = staticmethod(fixed_size)
    n_star: int = int_field(2048)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        m = len(cohort.clients)
        if self.n_star < m:
            raise InputError(
                f"n_star is {self.n_star}, fewer than the {m} participants: raise it to at least {m}"
            )
        return np.full(m, float(self.n_star // max(m, 1)))
