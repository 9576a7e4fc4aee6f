"""What the authors' released code of December 2024 does, where it is not what the paper writes.

Written anew from a description of that code, with repairs. Two without which it runs on their own
federation only: probabilities are capped at 1 and m_h at N_h. One without which a run
is of one processor only: what is clustered is rounded, and of starts that end alike the first is taken.
There the last bit of a sum decides which wins, with it the order of the centres, and so the strata. A
stratum left with m_h = 0 is never drawn, as there.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import Cohort, View, check_participants, client_sizes, draw_from_strata
from fedstas.config import choice_field, config, float_field, int_field
from fedstas.data_sampling import bernoulli, private_total
from fedstas.state import Renewed, renewed
from fedstas.stratification import kmeans, rounded, stratify

CAP = 10.0  # of a weight, before it is divided by p


def unsorted_centres(gradient: np.ndarray, levels: int) -> np.ndarray:
    """The d' centres of 1-D k-means in the order in which scikit-learn leaves them; no codes are kept.

    Ten starts, each to a fixed point, on values rounded to 2^-16 of the largest; of those within a
    hundredth of the least inertia the first: so the last bit of a sum does not decide the order.
    """
    from sklearn.utils import check_random_state

    values, counts = np.unique(rounded(gradient), return_counts=True)
    state = check_random_state(0)  # one for all ten, as in scikit-learn
    start = kmeans(min(levels, len(values)), n_init=1, tol=0.0, random_state=state)
    fits = []
    for _ in range(10):
        start.fit(values[:, None], sample_weight=counts)
        fits.append((start.inertia_, start.cluster_centers_[:, 0]))
    least = min(inertia for inertia, _ in fits)
    centres = next(found for inertia, found in fits if inertia <= 1.01 * least)
    return np.pad(centres, (0, levels - len(centres)), mode="edge")


def raw_centres(gradient: np.ndarray, levels: int, processor: int) -> np.ndarray:
    """The authors' own call, where the last bits of the gradient decide which of ten starts wins and so
    the order: each entry is moved by 2^-24 of the largest, up or down, as another processor may."""
    signs = np.random.default_rng(processor).choice([-1, 1], len(gradient))
    moved = (gradient + signs * 2.0**-24 * np.abs(gradient).max()).astype(np.float32)
    starts = kmeans(min(levels, len(np.unique(moved))), n_init=10, random_state=0)
    centres = starts.fit(moved[:, None]).cluster_centers_[:, 0]
    return np.pad(centres, (0, levels - len(centres)), mode="edge")


def pairwise_spread(centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """S_h [H]: the mean distance over all N_h^2 ordered pairs of a stratum, zeros included."""
    groups = [centres[labels == h] for h in range(labels.max() + 1)]
    return np.array([np.linalg.norm(g[:, None] - g[None], axis=2).mean() for g in groups])


def rounded_allocation(sizes: np.ndarray, spreads: np.ndarray, m: int) -> np.ndarray:
    """m_h [H]: eq. 3.5 cut to whole numbers, then max(1, round(missing / zeros)) to each stratum with
    none, lowest label first, until the sum is m; strata that have any are never topped up."""
    products = sizes * spreads
    total = products.sum()
    seats = np.floor(m * products / total if total > 0 else np.zeros(len(sizes))).astype(np.int64)
    zeros = np.flatnonzero(seats == 0)
    share = max(1, round((m - seats.sum()) / max(1, len(zeros))))
    for h in zeros:
        seats[h] = min(share, m - seats.sum())
    return np.minimum(seats, sizes)


@dataclass(frozen=True)
class FrozenStrata:
    """Labels [N] and m_h [H] of the strata, and the norms of the clients' centres [N]."""

    labels: np.ndarray
    seats: np.ndarray
    norms: np.ndarray


@dataclass
class FrozenState:
    """The strata, computed at w_0 and never again."""

    strata: Renewed[FrozenStrata] = renewed()


@config
class AuthorsStratified:
    """Strata once at w_0 on the unsorted centres, draws without replacement with p by their norms.

    `weights`: "uniform" (FedSTS: 1 / cohort) or "strata" (FedSTaS: N_h / (m m_h), at most 10,
    over p = min(1, n*/n_k), normalised over the cohort). `processor`: 0 rounds what is clustered; any
    other number leaves the last bits to decide, as there, and is one way they may fall.
    """

    State: ClassVar[type] = FrozenState
    version: ClassVar[int] = 2  # 2: what is clustered is rounded
    weights: str = choice_field("strata", "uniform")
    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    batch: int = int_field(128)
    n_star: int = int_field(2048)
    processor: int = int_field(0, 0)

    def _freeze(self, view: View, m: int, rng: np.random.Generator) -> FrozenStrata:
        last_bits = partial(raw_centres, processor=self.processor)
        make = partial(last_bits if self.processor else unsorted_centres, levels=self.levels)
        centres = view.centres(make, self.batch, self.levels)
        strata, seed = min(self.strata, len(np.unique(centres, axis=0))), int(rng.integers(2**31))
        if self.processor:
            labels = kmeans(strata, n_init=10, random_state=seed).fit_predict(centres)
        else:
            labels = stratify(centres, strata, seed)
        sizes = np.bincount(labels)
        seats = rounded_allocation(sizes, pairwise_spread(centres, labels), m)
        return FrozenStrata(labels, seats, np.linalg.norm(centres, axis=1))

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        strata = view.state_of(self).strata
        frozen = strata.get(view.round, None, lambda: self._freeze(view, m, rng))

        def pick(members, seat: int) -> np.ndarray:
            p = frozen.norms[members]
            p = p / p.sum() if 0 < seat <= np.count_nonzero(p) else None
            return rng.choice(members, seat, replace=False, p=p)

        clients, strata = draw_from_strata(frozen.labels, frozen.seats, pick)
        if self.weights == "uniform":
            return Cohort(clients, np.full(len(clients), 1 / len(clients)), strata)
        sizes = np.bincount(frozen.labels, minlength=len(frozen.seats))
        raw = np.minimum(sizes[strata] / (m * frozen.seats[strata]), CAP)
        raw = raw / np.minimum(1.0, self.n_star / client_sizes(view)[clients])
        return Cohort(clients, raw / raw.sum(), strata)


@config
class AuthorsRate:
    """p = min(1, n*/n_k) for each participant: 1 for every client of at most n* examples."""

    sample = staticmethod(bernoulli)
    n_star: int = int_field(2048)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        return np.minimum(1.0, self.n_star / view.sizes[cohort.clients])


@config
class AuthorsPrivateRate:
    """p = min(1, n*/n~), n~ from fresh reports of *all* clients, at least their number."""

    hides_sizes: ClassVar[bool] = True
    sample = staticmethod(bernoulli)
    n_star: int = int_field(2048)
    epsilon: float = float_field(3.0, 0)
    size_cap: int = int_field(100, 3)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        total = private_total(view, np.arange(view.clients), self.epsilon, self.size_cap)
        return np.full(len(cohort.clients), min(1.0, self.n_star / max(total, view.clients)))
