"""One stratification of many clients, in a process of its own: `python -m benchmarks.large CLIENTS`.

CIFAR-100 where FEDSTAS_DATA holds it, else random images of its shape; five examples a client. Prints the seconds of
each part, the peak of memory beyond the data, and the formula's bound.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.workloads import images
from fedstas import stratification
from fedstas.sim import engine, models
from fedstas.sim.server import Server

EXAMPLES, LEVELS, STRATA = 5, 9, 10


def bound(clients: int, d: int) -> int:
    """Bytes of a stratification beyond the data, counted from the code: codes, twice while they are put together;
    then either the restored Z in single and in double precision and three Gram matrices, or, if N d is large, four
    N x N matrices and a block of columns; and what the network itself needs (256 MiB at most)."""
    if clients * d <= stratification.LARGE:
        more = 12 * clients * d + 24 * clients**2
    else:
        more = 32 * clients**2 + 20 * stratification.COLUMNS * clients
    return clients * d + max(clients * d, more) + 2**28


def resident(key: str) -> int:
    """Bytes of this process in memory: now (VmRSS), or at most since `forget_peak` (VmHWM). Linux only."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])


def forget_peak() -> int:
    """The bytes in memory now, from which the peak is counted."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return resident("VmRSS")


def large(clients: int) -> dict:
    """Gradients and squeeze, points, k-means, spread."""
    x, y, source = images("cifar100", clients * EXAMPLES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = models.Convolutional(100)
    offsets = np.arange(0, clients * EXAMPLES + 1, EXAMPLES)
    params = models.flatten(module)
    server = Server(engine.Pool(x, y, offsets), module, 0)
    server.begin(1, params)
    before, clock, taken = forget_peak(), time.perf_counter(), {}

    def lap(name: str) -> None:
        nonlocal clock
        taken[name], clock = time.perf_counter() - clock, time.perf_counter()

    squeezed = server.gradients(LEVELS)
    lap("gradients and squeeze")
    points = stratification.restored_features(squeezed)
    lap("points")
    labels = stratification.stratify(points, STRATA, 0)
    lap("k-means")
    stratification.within_stratum_std(points, labels)
    lap("spread")
    return {
        "N": clients,
        "d": len(params),
        "parts": taken,
        "seconds": sum(taken.values()),
        "measured": max(0, resident("VmHWM") - before),
        "memory": bound(clients, len(params)),
        "workload": f"{source}, CNN, {clients} clients of {EXAMPLES}",
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(large(int(sys.argv[1]))))
