"""What the processes of the frameworks share: the problem from disk, the check and the clock."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import check
from benchmarks.workloads import LR, Problem, network
from fedstas.sim import engine, models


def load(data: str, folder: str) -> Problem:
    """Read the problem that the parent process wrote."""
    torch.set_num_threads(1)
    x, y, idx, offsets = (
        np.load(Path(folder) / f"{k}.npy", mmap_mode=mode)
        for k, mode in (("x", "c"), ("y", "c"), ("idx", None), ("offsets", None))
    )
    module = network(data)
    pool = engine.Pool(torch.from_numpy(x), torch.from_numpy(y), offsets)
    return Problem(module, models.flatten(module), pool, idx, "")


def one_core() -> None:
    """Keep this process on one core (Linux): for a framework that takes as many threads as there are cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Clock:
    """Seconds of their rounds and of ours, which starts from the same weights and must agree."""

    def __init__(self, problem: Problem):
        self.problem, self.ours, self.theirs = problem, [], []

    def round(self, theirs: float, before: torch.Tensor, after: torch.Tensor) -> None:
        """Record a round of the framework that took `theirs` seconds and led from `before` to `after`."""
        p, began = self.problem, time.perf_counter()
        trained = engine.local_updates(p.module, before, p.data, p.idx, p.weight, lr=LR)
        result = trained.mean(0)
        self.ours.append(time.perf_counter() - began)
        self.theirs.append(theirs)
        check("one round", result, after, 2e-6)

    def write(self, folder: str, version: str) -> None:
        """Write the seconds for the parent process."""
        taken = {"ours": self.ours, "theirs": self.theirs, "version": version}
        (Path(folder) / "seconds.json").write_text(json.dumps(taken), encoding="utf-8")
