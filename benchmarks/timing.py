"""Ratios within one run: both sides in turn, on one thread, on the same input.

Seconds are of the processor (of this process): with one thread the same as on the wall of an idle machine, and
not those that a busy machine gives to others. Rounds of other processes (Flower) are on the wall, and so are
ours beside them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch


def machine() -> str:
    """Return the processor's name and the system's."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line
            for line in info.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{name} ({platform.machine()}), {platform.system()}"


def seconds(call: Callable) -> float:
    """Measure the processor time of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def interleaved(calls: dict[str, Callable], repeats: int) -> dict[str, list[float]]:
    """Measure the seconds of every call, in turn, after one warm-up of each."""
    for call in calls.values():
        call()
    taken = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    return taken


def entry(name: str, against: str, ours: list, other: list, what: str, **more) -> dict:
    """Make one object of the JSON: the ratio of medians, and its range over the repeats."""
    single_ratios = np.array(other) / np.array(ours)
    return {
        "name": name,
        "against": against,
        "ratio": float(np.median(other) / np.median(ours)),
        "low": float(single_ratios.min()),
        "high": float(single_ratios.max()),
        "repeats": len(ours),
        "threads": 1,
        "machine": machine(),
        "seconds": float(np.median(ours)),
        "workload": what,
        "device": "cpu",
        **more,
    }


def ratios(name: str, ours: Callable, others: dict, repeats: int, what: str, **more) -> list[dict]:
    """Time ours against each of the others, all of them interleaved in one run."""
    taken = interleaved({"ours": ours, **others}, repeats)
    return [entry(name, a, taken["ours"], taken[a], what, **more) for a in others]


def check(what: str, result, expected, tolerance: float) -> None:
    """Raise an `AssertionError` unless both sides computed the same, up to the tolerance."""
    result, expected = (torch.as_tensor(np.asarray(v)).double() for v in (result, expected))
    worst = float((result - expected).abs().max())
    if not worst <= tolerance:
        raise AssertionError(f"{what}: the results differ by {worst:g}, more than {tolerance:g}")


def matmul_rate(rows: int = 1024, repeats: int = 5) -> float:
    """Measure the multiply-adds a second of a float32 matrix product on this thread."""
    a, b = torch.randn(rows, rows), torch.randn(rows, rows)
    return rows**3 / float(np.median(interleaved({"": lambda: a @ b}, repeats)[""]))
