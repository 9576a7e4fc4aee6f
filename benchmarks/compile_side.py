"""Rounds with torch.compile: `python -m benchmarks.compile_side DATA FOLDER ROUNDS`.

One compiled function is a local step: of all clients at once (`torch.func.vmap`) for the perceptron, of one
client for the CNN. Batches are gathered in it.
"""

from __future__ import annotations

import sys
import time

import torch
from torch.nn import functional as F

from benchmarks.loops import forward
from benchmarks.side import Clock, load, one_core
from benchmarks.workloads import LR

DATA, FOLDER, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
problem = load(DATA, FOLDER)
x, y, idx = problem.data.x, problem.data.y, torch.from_numpy(problem.idx)


def loss(w, rows):
    """Mean cross-entropy of a batch."""
    return F.cross_entropy(forward(problem.module, w, x[rows]), y[rows])


def step(w, rows):
    """One step of SGD."""
    return [a - LR * g for a, g in zip(w, torch.func.grad(loss)(w, rows), strict=True)]


every = torch.compile(torch.func.vmap(step))
one = torch.compile(step)


def round_(w):
    """The mean model after the local steps."""
    if DATA == "mnist":
        w = [v.expand(len(idx), *v.shape) for v in w]
        for t in range(idx.shape[1]):
            w = every(w, idx[:, t])
        return [v.mean(0) for v in w]
    total = [torch.zeros_like(v) for v in w]
    for client in idx:
        local = w
        for rows in client:
            local = one(local, rows)
        for held, v in zip(total, local, strict=True):
            held += v
    return [v / len(idx) for v in total]


if __name__ == "__main__":
    one_core()
    clock, before = Clock(problem), problem.params
    w = [v.detach() for v in problem.module.parameters()]
    for _ in range(ROUNDS):
        began = time.perf_counter()
        w = round_(w)
        taken = time.perf_counter() - began
        after = torch.cat([v.flatten() for v in w])
        clock.round(taken, before, after)
        before = after
    clock.write(FOLDER, torch.__version__)
