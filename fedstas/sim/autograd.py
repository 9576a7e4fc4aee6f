"""The arithmetic of any network, by torch's own derivatives: one client after another, or all at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstas.sim.models import unflatten

ROWS = 256  # rows of one pass through the network
TOGETHER = False  # on a CPU one client after another is faster
GROUP = 16  # clients in the same operations on a CPU


def images(x: Tensor) -> Tensor:
    """Images with the channels innermost, where the CPU convolves and pools 1.6 times as fast; tokens as they are."""
    inner = x.device.type == "cpu" and x.ndim == 4
    return x.contiguous(memory_format=torch.channels_last) if inner else x


def loss(
    module: nn.Module, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, *keys: Tensor
) -> Tensor:
    """Weighted cross-entropy of one model [P] on one batch; `keys`, of dropout, where the network has one."""
    logits = torch.func.functional_call(module, unflatten(module, params), (x, *keys))
    return (F.cross_entropy(logits, y, reduction="none") * weight).sum()


def gradient(module, models: Tensor, x: Tensor, *batch: Tensor) -> Tensor:
    """Gradient [1, P] of one client at its model [1, P]; x, y, weight and keys are [1, batch, ...] too."""
    leaf = models[0].detach().requires_grad_()
    one = (images(x[0]), *(each[0] for each in batch))
    return torch.autograd.grad(loss(module, leaf, *one), leaf)[0][None]


def gradients(module, models: Tensor, *batch: Tensor) -> Tensor:
    """Gradients [m, P] of all clients at their models [m, P]; x, y, weight and keys are [m, batch, ...]."""

    def one(p, *batch):
        return loss(module, p, *batch)

    return torch.func.vmap(torch.func.grad(one))(models, *batch)


def one_by_one(
    module, params: Tensor, data, rows, weights, lr: float, prox: float, *keys: Tensor
) -> Tensor:
    """Local SGD of one client after another, [m, P]."""
    how = (module, params, data)
    slots = zip(*(each.split(1) for each in (rows, weights, *keys)), strict=True)
    return torch.cat([_sgd(gradient, *how, r, w, lr, prox, *k) for r, w, *k in slots])


def all_at_once(
    module, params: Tensor, data, rows, weights, lr: float, prox: float, *keys: Tensor
) -> Tensor:
    """Local SGD of all clients [m, P], on a CPU of a few with batches of like size in the same operations."""
    sizes = (weights > 0).sum(2).amax(1)
    models = params.new_empty(len(rows), len(params))
    few = GROUP if params.device.type == "cpu" else max(1, len(rows))
    for some in sizes.argsort(stable=True).split(few):
        used = slice(int(sizes[some].max()))  # of the longest batch among them
        cut, drawn, *kept = (each[some][..., used] for each in (rows, weights, *keys))
        models[some] = _sgd(gradients, module, params, data, cut, drawn, lr, prox, *kept)
    return models


def _sgd(step, module, params: Tensor, data, rows, weights, lr, prox, *keys: Tensor) -> Tensor:
    """Models [m, P] after SGD whose gradients [m, P] are `step(module, models, x, y, weight, *keys)`."""
    models = params.expand(len(rows), -1).clone()
    for t in range(rows.shape[1]):
        batch = rows[:, t]
        x = data.x.index_select(0, batch.flatten()).unflatten(0, batch.shape)
        y = data.y.index_select(0, batch.flatten()).unflatten(0, batch.shape)
        slope = step(module, models, x, y, weights[:, t], *(each[:, t] for each in keys))
        if prox:
            slope += prox * (models - params)
        models -= lr * slope
    return models


def client_gradients(module, params: Tensor, data, row_weight) -> Iterator[Tensor]:
    """The gradient [P] of each client, a chunk of its rows at a time."""
    for low, high in itertools.pairwise(data.offsets.tolist()):
        total = torch.zeros_like(params)
        for start in range(low, high, ROWS):
            rows = slice(start, min(start + ROWS, high))
            x, y = data.x[None, rows], data.y[None, rows]
            weight = torch.full(y.shape, 1 / (high - low), dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[None, rows].to(weight)
            total += gradient(module, params[None], x, y, weight)[0]
        yield total
