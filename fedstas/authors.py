"""The designs of the authors' released code of December 2024, where it differs from the paper.

They are written from a description of that code, with three changes. Probabilities are at most 1 and m_h at most N_h;
otherwise the code would run on the authors' federation only. Gradients are rounded before they are clustered, and the
first of equally good k-means starts is taken: in the authors' code a rounding error decides which start is best, and so
the order of the centres and the strata, so that a run cannot be repeated on another processor. On IID data the authors'
code draws ten of the hundred clients uniformly, with each of its methods, and uses the strata for FedSTaS's weights
alone; these designs know nothing of the partition, and draw from strata there, too. As in their code, a stratum with
m_h = 0 is never drawn.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import Cohort, View, check_participants, client_sizes, draw_from_strata
from fedstas.config import choice_field, config, float_field, int_field
from fedstas.data_sampling import bernoulli, private_total
from fedstas.state import Renewed, renewed
from fedstas.stratification import draw_kmeans_seed, kmeans, round_to_grid, stratify

CAP = 10.0  # largest weight, before it is divided by p


def unsorted_centres(gradient: np.ndarray, levels: int) -> np.ndarray:
    """Return the d' centres [levels] of 1-D k-means of a gradient [d], in scikit-learn's order.

    Of ten starts, each run to a fixed point on values rounded to 2^-16 of the largest, the first within a hundredth of
    the least inertia is taken, so that rounding errors do not decide the order.
    """
    from sklearn.utils import check_random_state

    values, counts = np.unique(round_to_grid(gradient), return_counts=True)
    state = check_random_state(0)  # one generator for all ten starts, as in scikit-learn
    start = kmeans(min(levels, len(values)), n_init=1, tol=0.0, random_state=state)
    fits = []
    for _ in range(10):
        start.fit(values[:, None], sample_weight=counts)
        fits.append((start.inertia_, start.cluster_centers_[:, 0]))
    least = min(inertia for inertia, _ in fits)
    centres = next(centres for inertia, centres in fits if inertia <= 1.01 * least)
    return np.pad(centres, (0, levels - len(centres)), mode="edge")


def raw_centres(gradient: np.ndarray, levels: int, processor: int) -> np.ndarray:
    """Return the centres [levels] of a gradient [d] as the authors' code computes them, with simulated rounding errors.

    Each entry is changed by 2^-24 of the largest one, up or down at random with the seed `processor`, as on another
    processor. This can change which of the ten starts is best, and with it the order of the centres.
    """
    signs = np.random.default_rng(processor).choice([-1, 1], len(gradient))
    perturbed = (gradient + signs * 2.0**-24 * np.abs(gradient).max()).astype(np.float32)
    starts = kmeans(min(levels, len(np.unique(perturbed))), n_init=10, random_state=0)
    centres = starts.fit(perturbed[:, None]).cluster_centers_[:, 0]
    return np.pad(centres, (0, levels - len(centres)), mode="edge")


def pairwise_spread(centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return S_h [H], the mean distance over all N_h^2 ordered pairs of a stratum, each client with itself included."""
    groups = [centres[labels == h] for h in range(labels.max() + 1)]
    return np.array([np.linalg.norm(g[:, None] - g[None], axis=2).mean() for g in groups])


def rounded_allocation(sizes: np.ndarray, spreads: np.ndarray, m: int) -> np.ndarray:
    """Return the allocation m_h [H] of the authors' code.

    Eq. 3.5 is rounded down. Then the strata without a draw, lowest label first, get max(1, round(missing / zeros))
    draws each until the sum is m, where `missing` draws are to be shared among `zeros` strata.
    """
    products = sizes * spreads
    total = products.sum()
    draws = np.floor(m * products / total if total > 0 else np.zeros(len(sizes))).astype(np.int64)
    zeros = np.flatnonzero(draws == 0)
    share = max(1, round((m - draws.sum()) / max(1, len(zeros))))
    for h in zeros:
        draws[h] = min(share, m - draws.sum())
    return np.minimum(draws, sizes)


@dataclass(frozen=True)
class FrozenStrata:
    """The strata's labels [N] and allocation m_h [H], and the norms of the clients' centres [N]."""

    labels: np.ndarray
    allocation: np.ndarray
    norms: np.ndarray


@dataclass
class FrozenState:
    """The strata, computed at w_0 and never again."""

    strata: Renewed[FrozenStrata] = renewed()


@config
class AuthorsStratified:
    """Stratify once, at w_0, by unsorted centres; draw without replacement with p proportional to their norms.

    The selection probabilities of a stratum are uniform where it has fewer centres of positive norm than draws.

    Args:
        weights: "uniform" (FedSTS: one over the number of participants) or "strata" (FedSTaS: N_h / (m m_h), at most
            10, over the probability min(1, n*/n_k) with which client k keeps an example; normalised over the cohort).
        strata: the largest number of strata.
        levels: the number of centres that a client sends.
        batch: examples in a batch; the mean of a client's batch means is taken for its gradient.
        n_star: n*, for the weights "strata".
        processor: 0 rounds gradients before clustering; another number is the seed of rounding errors as in
            `raw_centres`.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = FrozenState
    version: ClassVar[int] = 2  # 2: gradients are rounded before clustering
    weights: str = choice_field("strata", "uniform")
    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    batch: int = int_field(128)
    n_star: int = int_field(2048)
    processor: int = int_field(0, 0)

    def _freeze(self, view: View, m: int, rng: np.random.Generator) -> FrozenStrata:
        """Ask all clients for their centres, cluster the clients, and allocate the draws."""
        raw = partial(raw_centres, processor=self.processor)
        make = partial(raw if self.processor else unsorted_centres, levels=self.levels)
        centres = view.centres(make, self.batch, self.levels)
        count, seed = min(self.strata, len(np.unique(centres, axis=0))), draw_kmeans_seed(rng)
        if self.processor:
            labels = kmeans(count, n_init=10, random_state=seed).fit_predict(centres)
        else:
            labels = stratify(centres, count, seed)
        sizes = np.bincount(labels)
        draws = rounded_allocation(sizes, pairwise_spread(centres, labels), m)
        return FrozenStrata(labels, draws, np.linalg.norm(centres, axis=1))

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        cache = view.state_of(self).strata
        # Computed in the first round, and never again (None).
        frozen = cache.get(view.round, None, lambda: self._freeze(view, m, rng))

        def pick(members, count: int) -> np.ndarray:
            """Draw members of one stratum by the norms of their centres."""
            norms = frozen.norms[members]
            # numpy does not draw a client of probability 0: with too few others the draw is uniform.
            p = norms / norms.sum() if 0 < count <= np.count_nonzero(norms) else None
            return rng.choice(members, count, replace=False, p=p)

        clients, labels = draw_from_strata(frozen.labels, frozen.allocation, pick)
        if self.weights == "uniform":
            return Cohort(clients, np.full(len(clients), 1 / len(clients)), labels)
        sizes = np.bincount(frozen.labels, minlength=len(frozen.allocation))
        weights = np.minimum(sizes[labels] / (m * frozen.allocation[labels]), CAP)
        weights = weights / np.minimum(1.0, self.n_star / client_sizes(view)[clients])
        return Cohort(clients, weights / weights.sum(), labels)


@config
class AuthorsRate:
    """Keep each example with probability min(1, n*/n_k): all of a client of at most n* examples."""

    sample = staticmethod(bernoulli)
    n_star: int = int_field(2048)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        return np.minimum(1.0, self.n_star / view.sizes[cohort.clients])


@config
class AuthorsPrivateRate:
    """Keep each example with probability min(1, n*/n~), n~ from new reports of *all* clients, at least N."""

    hides_sizes: ClassVar[bool] = True
    sample = staticmethod(bernoulli)
    n_star: int = int_field(2048)
    epsilon: float = float_field(3.0, 0)
    size_cap: int = int_field(100, 3)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        total = private_total(view, np.arange(view.clients), self.epsilon, self.size_cap)
        return np.full(len(cohort.clients), min(1.0, self.n_star / max(total, view.clients)))
