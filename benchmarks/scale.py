"""Cost and memory against the number of clients N, of parameters d and of participants m."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import interleaved, machine
from benchmarks.workloads import problem
from fedstas.client_sampling import strata_of
from fedstas.sim.rng import stream
from fedstas.sim.server import Server


def restratified(p) -> None:
    """Strata made anew, by what the designs call: gradient, squeeze, discard; restore; k-means; spread."""
    server = Server(p.data, p.module, 0)
    server.begin(1, p.params)
    strata_of(server, 10, stream(0, "scale"), strata=10, levels=9, every=1)


def memory(clients: int, d: int, m: int) -> int:
    """Bytes of a round beyond the data, counted from the code: N d codes of one byte, the restored Z in single and
    in double precision (4 and 8 N d) and three Gram matrices (8 N^2 each) while the strata are made; or, if more,
    3 m d floats of the cohort; and 64 d floats in work."""
    strata = 12 * clients * d + 24 * clients**2
    return clients * d + max(strata, 12 * m * d) + 256 * d


def measured(axis: str, values, make, call, size, repeats: int) -> list[dict]:
    """Seconds at each value, in turn, and the slope of their logarithms."""
    problems = {v: make(v) for v in values}
    calls = {str(v): lambda p=p: call(p) for v, p in problems.items()}
    taken = {
        v: float(np.median(s))
        for v, s in zip(values, interleaved(calls, repeats).values(), strict=True)
    }
    sizes = [size(p) for p in problems.values()]
    slope = float(np.polyfit(np.log(sizes), np.log(list(taken.values())), 1)[0])
    return [
        {
            "name": f"scale-{axis}", "against": "itself", "ratio": taken[v] / taken[values[0]], "low": None,
            "high": None, "repeats": repeats, "threads": 1, "machine": machine(), "device": "cpu",
            "seconds": taken[v], "exponent": slope, "N": len(p.data.sizes), "d": len(p.params), "m": len(p.idx),
            "memory": memory(len(p.data.sizes), len(p.params), len(p.idx)), "workload": p.what,
        }
        for v, p in problems.items()
    ]  # fmt: skip


def scale(quick: bool) -> list[dict]:
    """N at 6 examples each, gradients, squeeze and strata; d by wider hidden layers, likewise; m, local training."""
    repeats = 1 if quick else 3
    clients = (20, 40) if quick else (100, 316, 1000, 3162)
    hidden = (50, 100) if quick else (50, 157, 500, 1258)
    cohorts = (10, 20) if quick else (10, 32, 100)
    n = measured(
        "N",
        clients,
        lambda n: problem("mnist", clients=n, size=6, m=1),
        restratified,
        lambda p: len(p.data.sizes),
        1,
    )
    d = measured(
        "d",
        hidden,
        lambda h: problem("mnist", clients=10, size=60, m=1, hidden=h),
        restratified,
        lambda p: len(p.params),
        repeats,
    )
    m = measured(
        "m",
        cohorts,
        lambda m: problem("mnist", m=m),
        lambda p: p.ours(),
        lambda p: len(p.idx),
        3 * repeats,
    )
    return n + d + m  # fmt: skip
