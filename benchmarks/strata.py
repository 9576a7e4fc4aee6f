"""`strata`: the search for strata of least variance, against one start of k-means; seconds, cost and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.timing import entry, seconds
from fedstas.least_variance import max_cut_strata

COORDINATES = 64  # of a client's point
SETTINGS = ((100, 10), (1000, 10), (1000, 100), (10_000, 100), (10_000, 1000), (100_000, 100))


def clients(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw masses q [N] and points [N, 64]: mixtures of ten directions, and noise as long as a direction."""
    rng = np.random.default_rng(0)
    q = rng.lognormal(0, 0.8, count)
    mixtures = rng.dirichlet(np.full(10, 0.1), count)
    points = mixtures @ rng.normal(size=(10, COORDINATES))
    return q / q.sum(), points + rng.normal(size=points.shape)


def share_of_md(q, a, labels, m: int) -> float:
    """The variance of one draw from each stratum over that of m draws with replacement, p = q in both."""
    first = np.zeros((m, a.shape[1]))
    np.add.at(first, labels, q[:, None] * a)
    square = q * np.square(a).sum(1)
    strata = np.bincount(labels, q, m) @ np.bincount(labels, square, m) - np.square(first).sum()
    return float(strata / ((square.sum() - np.square(q @ a).sum()) / m))


def compare(count: int, m: int) -> dict:
    """Run both sides in turn, three times; with more than 1,000 clients once, cold."""
    q, a = clients(count)
    labels, taken = {}, {"ours": [], "kmeans": []}

    def search() -> None:
        labels["ours"] = max_cut_strata(q, a, np.square(a).sum(1), m)

    def cluster() -> None:
        labels["kmeans"] = KMeans(m, n_init=1, random_state=0).fit(a).labels_

    for _ in range(3 if count <= 1000 else 1):
        taken["ours"].append(seconds(search))
        taken["kmeans"].append(seconds(cluster))
    tracemalloc.start()
    search()
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return entry(
        "strata",
        "kmeans",
        taken["ours"],
        taken["kmeans"],
        f"{count:,} clients of {COORDINATES} coordinates, {m} strata",
        N=count,
        m=m,
        memory=memory,
        share_ours=share_of_md(q, a, labels["ours"], m),
        share_kmeans=share_of_md(q, a, labels["kmeans"], m),
    )


def strata(quick: bool) -> list[dict]:
    """Compare seconds, the variance of the strata, and the most memory that the search holds beyond its arguments."""
    return [compare(count, m) for count, m in SETTINGS[: 2 if quick else None]]
