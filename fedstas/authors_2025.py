"""The designs of the authors' public code of 2025, which is neither that of December 2024 (`authors`) nor the text.

They are written from a description of that code, with these changes: k-means is this package's, on rounded points, with a
seed of the run's, where theirs is scikit-learn's mini-batch or cuML's with a fixed one; clients draw their samples
independently, where theirs share a seed in each round; and clients without data, which their code draws and then skips,
are not in the federation. Their local training is no part of a design: two epochs of batches of 64 with momentum 0.9 can
be set here, but the rate that falls within the two epochs, the smoothed labels, the weight decay and the changed pictures
cannot.
"""

import math
from typing import ClassVar

import numpy as np

from fedstas.allocation import largest_remainder
from fedstas.client_sampling import (
    Cohort,
    Strata,
    StrataState,
    View,
    check_participants,
    client_sizes,
    draw_from_strata,
)
from fedstas.config import config, float_field, int_field
from fedstas.data_sampling import fixed_size, private_total
from fedstas.errors import InputError
from fedstas.state import Renewed
from fedstas.stratification import draw_kmeans_seed, round_to_grid, stratify
from fedstas.streams import stream

BATCH_SHARE, BATCH_CAP = 0.3, 512  # of a client's examples, whose gradient it sends


def standardised_projections(gradients: np.ndarray, size: int) -> np.ndarray:
    """Project gradients [N, d] to `size` numbers each, by one Gaussian matrix for all runs, and standardise each column.

    Shorter gradients are not projected. A column's mean becomes 0 and its standard deviation 1, over the clients.
    """
    points = gradients.astype(np.float64)
    if (d := points.shape[1]) > size:
        points = (
            points @ stream(0, "Gaussian projection").standard_normal((d, size)) / math.sqrt(size)
        )
    # The constant keeps a column in which all clients agree from 0/0.
    return round_to_grid((points - points.mean(axis=0)) / (points.std(axis=0) + 1e-8))


def mean_variance(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return S_h [H] of points [N, d] in strata: the mean over coordinates of their variance among the stratum's clients."""
    return np.array([points[labels == h].var(axis=0).mean() for h in range(labels.max() + 1)])


def remainder_allocation(sizes: np.ndarray, spreads: np.ndarray, m: int) -> np.ndarray:
    """Return the allocation m_h [H]: m N_h S_h / sum, rounded down, and one more for the largest remainders.

    If all spreads are zero, the first m strata get a draw each. A stratum of one client has S_h = 0, so that it gets none
    unless all have. Where m_h exceeds N_h it is cut, and its draws are lost.
    """
    products = sizes * spreads
    if products.any():
        draws = largest_remainder(m * products / products.sum(), m)
    else:
        draws = (np.arange(len(sizes)) < m).astype(np.int64)
    return np.minimum(draws, sizes)


@config
class Authors2025:
    """Stratify by gradients of the last layer on one batch; draw without replacement, p by norm; weights N_h / m_h, normalised.

    Every `restratify_every` rounds each client sends the gradient of the last layer on a batch of 30 % of its examples,
    at most 512. It is projected and standardised (`standardised_projections`), and k-means forms the strata; m_h is
    `remainder_allocation`, and p_k is proportional to the norm of the standardised projection. The weights N_h / m_h are
    normalised over the participants, since strata may be without any. All this is biased, as the book's pages on theory show.

    Args:
        strata: the largest number of strata.
        sketch_size: d', numbers of a projection.
        restratify_every: rounds for which strata are kept.
        min_examples: a client with fewer examples is skipped when it is drawn, and the other participants of its stratum
            count for it. Their code compares the client's sample with it, after data sampling; its default value stops
            their program.
    """

    needs: ClassVar[tuple[str, ...]] = ("output_gradients",)
    State: ClassVar[type] = StrataState

    strata: int = int_field(10)
    sketch_size: int = int_field(50)
    restratify_every: int = int_field(20)
    min_examples: int = int_field(1)

    def _stratify(self, view: View, rng: np.random.Generator) -> Strata:
        """Ask all clients for their gradients of the last layer, and cluster the clients."""
        gradients = view.output_gradients(share=BATCH_SHARE, cap=BATCH_CAP)
        points = standardised_projections(gradients, self.sketch_size)
        labels = stratify(points, min(self.strata, view.clients), draw_kmeans_seed(rng))
        return Strata(labels, np.linalg.norm(points, axis=1), mean_variance(points, labels))

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        cache: Renewed[Strata] = view.state_of(self).strata
        s = cache.get(view.round, self.restratify_every, lambda: self._stratify(view, rng))
        sizes = np.bincount(s.labels)

        def pick(members, count: int) -> np.ndarray:
            norms = s.norms[members]
            # numpy does not draw a client of probability 0: with too few others the draw is uniform.
            p = norms / norms.sum() if 0 < count <= np.count_nonzero(norms) else None
            return rng.choice(members, count, replace=False, p=p)

        draws = remainder_allocation(sizes, s.spreads, m)
        clients, labels = draw_from_strata(s.labels, draws, pick)
        if self.min_examples > 1:
            trains = client_sizes(view)[clients] >= self.min_examples
            if not trains.any():
                raise InputError(
                    f"none of the {len(clients)} clients drawn in round {view.round} has {self.min_examples} examples, as "
                    "min_examples asks: lower min_examples, or make clients larger"
                )
            clients, labels = clients[trains], labels[trains]
        return Cohort(clients, normalised_weights(sizes, labels), labels)


def normalised_weights(sizes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return N_h / m_h over the sum of the participants' N_h / m_h, float [m]: they add up to 1 whatever strata are empty.

    Args:
        sizes: N_h, the clients of each stratum, int [H].
        labels: the stratum of each participant, int [m].
    """
    weights = (sizes / np.maximum(np.bincount(labels, minlength=len(sizes)), 1))[labels]
    return weights / weights.sum()


def whole_share(size: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Draw floor(rate * size) of the positions in 0..size-1 without replacement, and at least one, ascending."""
    return fixed_size(size, max(1, math.floor(rate * size)), rng)


@config
class Authors2025Sample:
    """Train on floor(n_k p) examples, and at least one; p = min(1, n*/n), n the true total size of the participants."""

    sample = staticmethod(whole_share)
    n_star: int = int_field(2500)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        total = view.sizes[cohort.clients].sum()
        return np.full(len(cohort.clients), min(1.0, self.n_star / total))


@config
class Authors2025PrivateSample:
    """As `Authors2025Sample`, with n estimated anew from the participants' randomised responses, and at least 1."""

    hides_sizes: ClassVar[bool] = True
    sample = staticmethod(whole_share)
    n_star: int = int_field(2500)
    epsilon: float = float_field(3.0, 0)
    size_cap: int = int_field(300, 3)

    def rates(self, view: View, cohort: Cohort) -> np.ndarray:
        total = private_total(view, cohort.clients, self.epsilon, self.size_cap)
        return np.full(len(cohort.clients), min(1.0, self.n_star / max(total, 1.0)))
