"""Clusters of clients by the label entropy that their updates show: HiCS-FL (Chen and Vikalo, NeurIPS 2024,
arXiv:2310.00198)."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedstas.client_sampling import Cohort, View, check_participants
from fedstas.clustered import dissimilarity
from fedstas.config import config, float_field, int_field
from fedstas.state import Renewed, per_client, renewed
from fedstas.stratification import round_to_grid


def softmax_entropy(updates, temperature: float) -> np.ndarray:
    """Return the entropy [N], in nats, of softmax(update / temperature) for updates [N, classes].

    A client's bias of a class grows with the share of that class in its data, so that this grows with the entropy of
    its labels.
    """
    scaled = np.asarray(updates, dtype=float) / temperature
    shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)


@dataclass(frozen=True)
class EntropyClusters:
    """The cluster of each client, int [N] in 0..M-1, and the mean entropy of each cluster [M]."""

    labels: np.ndarray
    entropies: np.ndarray


@dataclass
class LabelEntropyState:
    """The clusters, renewed in each round, whether a client had sent an update before the last round, bool [N], and the
    `cohort` of the last draw, int [m]."""

    clusters: Renewed[EntropyClusters] = renewed()
    has_taken_part: np.ndarray | None = per_client()
    cohort: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))


@config
class LabelEntropy:
    """Draw m distinct clients from clusters, first of high label entropy and later of any; weights 1/m. Biased.

    Clients that have sent no update go first, in a random order; who is drawn and does not answer goes first again, so
    that no clusters are formed while a client never answers. From then on m clusters are formed by the
    output-layer updates that the server has (`View.class_updates`; nothing is asked): by Ward's method, where a client
    is the point of its distances to all clients, and a distance is the angle of two updates plus `entropy_weight` times
    the difference of their entropies (`softmax_entropy`). Each participant is drawn uniformly from a cluster that is
    drawn with probability proportional to exp(gamma_t times its mean entropy) among those that have a client left,
    gamma_t = `gamma` (1 - t / `horizon`), 0 from round `horizon` on.

    The paper's abstract and its authors' code were read. There, too, m is the number of clusters, and the weights 1/m
    are no n_k/n. Their `temperature` equals their learning rate; 0.01 is this package's. They take means of the output
    layer's weights in place of biases for entropies, and angles of all the layer's weights; clients go first in the order
    of their numbers; clustered sampling is used where entropies differ much: left out here.

    Args:
        temperature: in the units of an update; smaller ones tell clients of nearly one class apart.
        entropy_weight: lambda, radians a nat.
        gamma: in round 0, clusters a nat apart differ by the factor e^gamma in probability.
        horizon: rounds of the run.
    """

    needs: ClassVar[tuple[str, ...]] = ("output_bias",)
    State: ClassVar[type] = LabelEntropyState

    temperature: float = float_field(0.01, 0)
    entropy_weight: float = float_field(10.0, 0, open_low=False)
    gamma: float = float_field(4.0, 0, open_low=False)
    horizon: int = int_field(300)

    def clusters(self, view: View, m: int) -> EntropyClusters:
        """Form at most m clusters by the class updates that the server has in this round."""
        from scipy.cluster import hierarchy
        from scipy.spatial.distance import pdist

        updates = round_to_grid(view.class_updates())
        entropies = softmax_entropy(updates, self.temperature)
        differences = np.abs(entropies[:, None] - entropies)
        distances = dissimilarity(updates, "arccos") + self.entropy_weight * differences
        tree = hierarchy.linkage(pdist(distances), "ward")
        labels = hierarchy.fcluster(tree, m, "maxclust") - 1
        return EntropyClusters(labels, np.bincount(labels, entropies) / np.bincount(labels))

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, state = check_participants(m, view.clients), view.state_of(self)
        respondents, everyone = view.last_respondents(), np.arange(view.clients)
        if respondents is None:  # all who were drawn count as having answered
            respondents = np.isin(everyone, state.cohort)
        before = False if state.has_taken_part is None else state.has_taken_part
        state.has_taken_part = before | respondents
        seen = state.has_taken_part | view.class_updates().any(axis=1)
        if seen.all() and view.clients > 1:
            clusters = state.clusters.get(view.round, 1, lambda: self.clusters(view, m))
            chosen = self._draw_from(clusters, view.round, m, rng)
        else:
            order = rng.permutation(view.clients)
            chosen = order[np.argsort(seen[order], kind="stable")][:m]
        state.cohort = chosen
        return Cohort(chosen, np.full(m, 1 / m))

    def _draw_from(self, clusters: EntropyClusters, t: int, m: int, rng) -> np.ndarray:
        """Draw m distinct clients in round t, [m]: first how many come from each cluster, then which."""
        gamma = self.gamma * max(0.0, 1 - t / self.horizon)
        measure = np.exp(gamma * (clusters.entropies - clusters.entropies.max()))
        sizes, counts = np.bincount(clusters.labels), np.zeros(len(measure), dtype=int)
        for _ in range(m):
            is_open = counts < sizes
            p = np.where(is_open, measure, 0.0)
            if not p.any():  # all below the least float: relative to the largest that is left
                logs = gamma * (clusters.entropies - clusters.entropies[is_open].max())
                p = np.exp(np.where(is_open, logs, -np.inf))
            counts[rng.choice(len(p), p=p / p.sum())] += 1
        members = [np.flatnonzero(clusters.labels == c) for c in range(len(counts))]
        pairs = zip(members, counts, strict=True)
        return np.concatenate([rng.choice(k, count, replace=False) for k, count in pairs])
