"""`python -m benchmarks [NAME ...] [--quick] --json FILE`: seconds of others over seconds of ours.

Each ratio is taken within one run: both sides run in turn, on one thread, on the same input; the
ratio is of medians, its range over the repeats. float32.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from fedstas.compression import squeeze
from fedstas.errors import DataError
from fedstas.sim import engine, models, partition, tasks


def ratio(
    name: str, against: str, ours: Callable, other: Callable, repeats: int, what: str
) -> dict:
    """Both in turn, after one warm-up of each."""
    ours(), other()
    seconds = {ours: [], other: []}
    for _ in range(repeats):
        for call in (ours, other):
            began = time.perf_counter()
            call()
            seconds[call].append(time.perf_counter() - began)
    each = np.array(seconds[other]) / np.array(seconds[ours])
    return {
        "name": name,
        "against": against,
        "ratio": float(np.median(seconds[other]) / np.median(seconds[ours])),
        "low": float(each.min()),
        "high": float(each.max()),
        "repeats": repeats,
        "threads": 1,
        "machine": f"{platform.machine()}, {platform.system()}",
        "workload": what,
    }


def gradients(quick: bool) -> tuple[np.ndarray, str]:
    """Gradients [N, 39760] of MNIST clients at w_0, or of the same size from a heavy tail."""
    try:
        task = tasks.load("mnist")
    except DataError:
        draws = np.random.default_rng(0).standard_t(3, size=(20 if quick else 100, 39_760))
        return draws.astype(np.float32), "Student-t(3) numbers, MNIST is not here"
    federation = partition.dirichlet(task.train_y, 100, 0.1, 0)
    shards = [federation.shards[k] for k in federation.with_data][: 20 if quick else 100]
    module = task.model(0)
    data = engine.pool(task.train_x, task.train_y, shards)
    rows = [g.numpy() for g in engine.client_gradients(module, models.flatten(module), data)]
    return np.stack(rows), "MNIST gradients at w_0, Dirichlet 0.1"


def squeeze_benchmarks(quick: bool) -> list[dict]:
    """`squeeze` to 9 levels against one start of scikit-learn's KMeans, and against sorting."""
    rows, what = gradients(quick)
    what = f"{len(rows)} x {rows.shape[1]} float32, 9 levels; {what}"
    fit = KMeans(9, n_init=1, random_state=0).fit

    def kmeans():
        for row in rows:
            fit(row[:, None])

    def sort():
        for row in rows:
            np.sort(row)

    def ours():
        squeeze(rows, 9)

    repeats = 2 if quick else 5
    return [
        ratio("squeeze", "kmeans", ours, kmeans, repeats, what),
        ratio("squeeze", "sort", ours, sort, repeats, what),
    ]


BENCHMARKS = {"squeeze": squeeze_benchmarks}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller input")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    asked = parser.parse_args()
    for name in asked.names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}: use one of {', '.join(BENCHMARKS)}")
    torch.set_num_threads(1)
    results = []
    with threadpool_limits(1):
        for name in asked.names or BENCHMARKS:
            results += BENCHMARKS[name](asked.quick)
    asked.json.write_text(json.dumps(results, indent=1) + "\n")
    for r in results:
        print(
            f"{r['name']} against {r['against']}: {r['ratio']:.2f} ({r['low']:.2f} to {r['high']:.2f})"
        )


if __name__ == "__main__":
    main()
