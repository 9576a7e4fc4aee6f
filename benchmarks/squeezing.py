"""`squeeze`: a gradient to 9 levels, against sorting it and against one start of KMeans."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.timing import check, ratios
from benchmarks.workloads import images, network
from fedstas.compression import squeeze
from fedstas.sim import engine, models, partition


def client_gradients(quick: bool) -> tuple[np.ndarray, str]:
    """Gradients [N, 39760] at w_0 of clients with few classes each."""
    x, y, source = images("mnist", 60_000)
    federation = partition.dirichlet(y, 100, 0.1, 0)
    shards = [federation.shards[k] for k in federation.with_data][: 20 if quick else 100]
    module = network("mnist")
    rows = engine.client_gradients(module, models.flatten(module), engine.pool(x, y, shards))
    return np.stack([g.numpy() for g in rows]), f"{source} gradients at w_0, Dirichlet 0.1"


def squared_error(rows: np.ndarray, levels: np.ndarray) -> float:
    """The mean over rows of the squared distance to the nearest level, over the row's square."""
    each = []
    for row, v in zip(rows.astype(np.float64), levels.astype(np.float64), strict=True):
        v = np.sort(v)
        codes = np.searchsorted((v[1:] + v[:-1]) / 2, row)
        each.append(np.square(row - v[codes]).sum() / np.square(row).sum())
    return float(np.mean(each))


def squeezing(quick: bool) -> list[dict]:
    """Ours is at least as good as KMeans; then the seconds."""
    rows, source = client_gradients(quick)
    what = f"{len(rows)} x {rows.shape[1]} float32, 9 levels; {source}"
    kmeans = KMeans(9, n_init=1, random_state=0)
    few = rows[:5]
    theirs = np.stack([kmeans.fit(row[:, None]).cluster_centers_[:, 0] for row in few])
    ours = squared_error(few, squeeze(few, 9).levels)
    check("squeeze against kmeans (error)", max(0.0, ours - squared_error(few, theirs)), 0.0, 1e-6)
    others = {
        "sort": lambda: [np.sort(row) for row in rows],
        "kmeans": lambda: [kmeans.fit(row[:, None]) for row in rows],
    }
    return ratios("squeeze", lambda: squeeze(rows, 9), others, 2 if quick else 5, what)
