"""`squeeze`: a gradient to 9 levels, against sorting it and against one start of KMeans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


OFF = "NPY_DISABLE_CPU_FEATURES"
WIDE = ("X86_V4", "AVX512_SKX", "AVX512_ICL", "AVX512_SPR")  # numpy's names of AVX-512


def squeezing(quick: bool) -> list[dict]:
    """Check that ours is at least as good as KMeans; then measure the seconds, and those of a numpy without AVX-512, with which it
    sorts about twice as fast as most machines can."""
    rows, source = client_gradients(quick)
    off = os.environ.get(OFF)
    without = "; numpy without AVX-512" if off else ""
    what = f"{len(rows)} x {rows.shape[1]} float32, 9 levels; {source}{without}"
    kmeans = KMeans(9, n_init=1, random_state=0)
    few = rows[:5]
    theirs = np.stack([kmeans.fit(row[:, None]).cluster_centers_[:, 0] for row in few])
    ours = squared_error(few, squeeze(few, 9).levels)
    check("squeeze against kmeans (error)", max(0.0, ours - squared_error(few, theirs)), 0.0, 1e-6)
    others = {"sort": lambda: [np.sort(row) for row in rows]}
    if not off:
        others["kmeans"] = lambda: [kmeans.fit(row[:, None]) for row in rows]
    results = ratios("squeeze", lambda: squeeze(rows, 9), others, 2 if quick else 5, what)
    wide = [f for f in np.show_config("dicts")["SIMD Extensions"]["found"] if f in WIDE]
    return results if off or not wide else results + rerun_without(quick, wide)


def rerun_without(quick: bool, instructions: list[str]) -> list[dict]:
    """Run this benchmark in a process whose numpy does not use these processor instructions."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "squeeze.json"
        subprocess.run(
            [sys.executable, "-m", "benchmarks", "squeeze", "--json", file, *["--quick"] * quick],
            cwd=Path(__file__).resolve().parents[1],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {OFF: " ".join(instructions)},
        )
        return json.loads(file.read_text(encoding="utf-8"))
