"""Loops over clients, as others write them: `plain` (what everyone writes) and `lean` (the best
loop on resident tensors)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.workloads import LR, Problem
from fedstas.sim import models


def plain(p: Problem) -> Callable[[], Tensor]:
    """Return a round with a data set and a loader per client, a deep copy of the model, an optimiser object. The data
    sets exist before the round; loaders, whose batches are given, are made in it."""
    spans = list(itertools.pairwise(p.data.offsets.tolist()))
    sets = [TensorDataset(p.data.x[a:b], p.data.y[a:b]) for a, b in spans[: len(p.idx)]]

    def round_() -> Tensor:
        results = []
        for data, rows, (first, _) in zip(sets, p.idx, spans, strict=False):
            local = deepcopy(p.module)
            optimizer = torch.optim.SGD(local.parameters(), lr=LR)
            for x, y in DataLoader(data, batch_sampler=(rows - first).tolist()):
                optimizer.zero_grad()
                F.cross_entropy(local(x), y).backward()
                optimizer.step()
            results.append(models.flatten(local))
        return torch.stack(results)

    return round_


def forward(module, w: list[Tensor], x: Tensor) -> Tensor:
    """Compute logits without calling the module."""
    if isinstance(module, models.Perceptron):
        return F.linear(F.relu(F.linear(x.flatten(1), w[0], w[1])), w[2], w[3])
    x = F.max_pool2d(F.relu(F.conv2d(x, w[0], w[1])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w[2], w[3])), 2)
    x = F.relu(F.conv2d(x, w[4], w[5])).flatten(1)
    return F.linear(F.relu(F.linear(x, w[6], w[7])), w[8], w[9])


def lean(p: Problem) -> Callable[[], Tensor]:
    """Return a round with one scratch model, all rows of a client in one gather, all parameters in one update."""
    idx = torch.from_numpy(p.idx)

    def round_() -> Tensor:
        results = []
        for rows in idx:
            w = [v.detach().clone().requires_grad_() for v in p.module.parameters()]
            x, y = (
                v.index_select(0, rows.flatten()).split(rows.shape[1]) for v in (p.data.x, p.data.y)
            )
            for images, labels in zip(x, y, strict=True):
                loss = F.cross_entropy(forward(p.module, w, images), labels)
                gradient = torch.autograd.grad(loss, w)
                with torch.no_grad():
                    torch._foreach_add_(w, gradient, alpha=-LR)
            results.append(torch.cat([v.detach().flatten() for v in w]))
        return torch.stack(results)

    return round_


def lean_gradients(p: Problem, rows: int = 10**9) -> Iterator[Tensor]:
    """Yield every client's gradient, its examples at once (or so many at a time), by autograd."""
    w = [v.detach().clone().requires_grad_() for v in p.module.parameters()]
    for low, high in itertools.pairwise(p.data.offsets.tolist()):
        total = 0.0
        for a in range(low, high, rows):
            b = min(a + rows, high)
            logits = forward(p.module, w, p.data.x[a:b])
            loss = F.cross_entropy(logits, p.data.y[a:b], reduction="sum") / (high - low)
            total = total + torch.cat([g.flatten() for g in torch.autograd.grad(loss, w)])
        yield total


def plain_gradients(p: Problem) -> Iterator[Tensor]:
    """Yield every client's gradient through a loader, summed by backward."""
    for low, high in itertools.pairwise(p.data.offsets.tolist()):
        local = deepcopy(p.module)
        for x, y in DataLoader(
            TensorDataset(p.data.x[low:high], p.data.y[low:high]), batch_size=128
        ):
            (F.cross_entropy(local(x), y, reduction="sum") / (high - low)).backward()
        yield torch.cat([v.grad.flatten() for v in local.parameters()])
