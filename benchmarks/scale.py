"""Cost and memory against the number of clients N, of parameters d and of participants m; 10,000 clients."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.large import bound
from benchmarks.timing import interleaved, machine, seconds
from benchmarks.workloads import problem
from fedstas.client_sampling import Stratified, stratify_clients
from fedstas.sim.rng import stream
from fedstas.sim.server import Server


def restratify_once(p) -> None:
    """Stratify all clients as the designs do: gradients, squeeze, restore, k-means, standard deviations."""
    server = Server(p.data, p.module, 0)
    server.begin(1, p.params)
    stratify_clients(Stratified(), server, 10, stream(0, "scale"))


def measure_axis(axis: str, values, make, call, size, repeats: int) -> list[dict]:
    """Measure the seconds at each value, in turn (or once, cold, with 0 repeats), and the slope of their logarithms."""
    problems = {v: make(v) for v in values}
    calls = {v: lambda p=p: call(p) for v, p in problems.items()}
    if repeats:
        taken = {v: float(np.median(s)) for v, s in interleaved(calls, repeats).items()}
    else:
        taken = {v: seconds(once) for v, once in calls.items()}
    sizes = [size(p) for p in problems.values()]
    slope = float(np.polyfit(np.log(sizes), np.log(list(taken.values())), 1)[0])
    return [
        {
            "name": f"scale-{axis}",
            "against": "itself",
            "ratio": taken[v] / taken[values[0]],
            "low": None,
            "high": None,
            "repeats": max(1, repeats),
            "threads": 1,
            "machine": machine(),
            "device": "cpu",
            "seconds": taken[v],
            "exponent": slope,
            "N": len(p.data.sizes),
            "d": len(p.params),
            "m": len(p.idx),
            "memory": None if axis == "m" else bound(len(p.data.sizes), len(p.params)),
            "workload": p.what,
        }
        for v, p in problems.items()
    ]


def scale(quick: bool) -> list[dict]:
    """N at 6 examples each, gradients, squeeze and strata; d by wider hidden layers, likewise; m, local training."""
    repeats = 1 if quick else 3
    clients = (20, 40) if quick else (100, 316, 1000, 3162, 10_000)
    hidden = (50, 100) if quick else (50, 157, 500, 1258)
    cohorts = (10, 20) if quick else (10, 32, 100)
    n = measure_axis(
        "N",
        clients,
        lambda n: problem("mnist", clients=n, size=6, m=1),
        restratify_once,
        lambda p: len(p.data.sizes),
        0,
    )
    d = measure_axis(
        "d",
        hidden,
        lambda h: problem("mnist", clients=10, size=60, m=1, hidden=h),
        restratify_once,
        lambda p: len(p.params),
        repeats,
    )
    m = measure_axis(
        "m",
        cohorts,
        lambda m: problem("mnist", m=m),
        lambda p: p.ours(),
        lambda p: len(p.idx),
        3 * repeats,
    )
    return n + d + m + many(200 if quick else 10_000)


def many(clients: int) -> list[dict]:
    """One stratification of that many clients of CIFAR-100's network, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.large", str(clients)],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{clients} clients were not stratified:\n{done.stderr[-3000:]}")
    result = {"name": "large", "against": "itself", "ratio": 1.0, "low": None, "high": None}
    result |= {"repeats": 1, "threads": 1, "machine": machine(), "device": "cpu"}
    return [result | json.loads(done.stdout)]
