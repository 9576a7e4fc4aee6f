"""The arithmetic of any network, with torch's automatic derivatives: one client after another, or all at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstas.sim.models import unflatten

ROWS = 256  # rows of one pass through the network
BATCHED_ON_CPU = False  # on a CPU, training one client after another is faster
GROUP = 16  # clients that are trained in the same operations on a CPU


class Steps(NamedTuple):
    """How a local step uses a gradient: see `engine.local_updates`."""

    lr: float
    prox: float = 0.0
    momentum: float = 0.0
    corrections: Tensor | None = None
    optimizer: str = "sgd"

    def of(self, clients) -> Steps:
        """Return the settings of some of the clients, by their places in the cohort."""
        return (
            self
            if self.corrections is None
            else self._replace(corrections=self.corrections[clients])
        )


class Adam:
    """The moments of Adam for clients [c] that are trained together, zero before their first steps.

    Kingma and Ba 2015, arXiv:1412.6980, Algorithm 1, with its constants, which are PyTorch's too. A client's step counts
    if an example has a weight in it, so that padding changes nothing.

    Args:
        weights: of the examples, [c, steps, batch].
    """

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, weights: Tensor):
        counts = weights.any(2).cumsum(1).clamp(min=1).double()
        # The bias corrections 1 - beta^t of both moments [c, steps], with t the client's steps so far. Powers are in double
        # precision: in single precision 1 - 0.999 would have an error of 10^-4.
        self.new1, self.new2 = ((1 - b**counts).to(weights) for b in (self.BETA1, self.BETA2))
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}

    def direction(self, t: int, gradient: Tensor, name: str = "") -> Tensor:
        """Return what step t subtracts, divided by the learning rate [c, ...], and update the moments.

        `name` tells tensors of parameters apart.
        """
        if name not in self.moments:
            self.moments[name] = torch.zeros_like(gradient), torch.zeros_like(gradient)
        first, second = self.moments[name]
        shape = -1, *[1] * (gradient.ndim - 1)
        first.mul_(self.BETA1).add_(gradient, alpha=1 - self.BETA1)
        second.mul_(self.BETA2).addcmul_(gradient, gradient, value=1 - self.BETA2)
        root = (second / self.new2[:, t].view(shape)).sqrt_().add_(self.EPSILON)
        return (first / self.new1[:, t].view(shape)).div_(root)


def channels_last(x: Tensor) -> Tensor:
    """Store images on a CPU with the channels innermost, which makes convolutions 1.6 times as fast.

    Tokens, and images on other devices, are returned as they are.
    """
    on_cpu = x.device.type == "cpu" and x.ndim == 4
    return x.contiguous(memory_format=torch.channels_last) if on_cpu else x


def logits(module: nn.Module, models: Tensor, x: Tensor) -> list[Tensor]:
    """Compute the logits [n, classes] of each of the models [c, P] on x [n, ...]."""
    x = channels_last(x)
    return [torch.func.functional_call(module, unflatten(module, p), (x,)) for p in models]


def loss(
    module: nn.Module, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, *keys: Tensor
) -> Tensor:
    """Compute the weighted cross-entropy of one model [P] on one batch; `keys`: the random keys of a
    network with dropout."""
    logits = torch.func.functional_call(module, unflatten(module, params), (x, *keys))
    return (F.cross_entropy(logits, y, reduction="none") * weight).sum()


def gradient(module, models: Tensor, x: Tensor, *batch: Tensor) -> Tensor:
    """Compute the gradient [1, P] of one client at its model [1, P]; x, y, weight and keys are [1, batch, ...]."""
    leaf = models[0].detach().requires_grad_()
    client_batch = (channels_last(x[0]), *(values[0] for values in batch))
    (result,) = torch.autograd.grad(loss(module, leaf, *client_batch), leaf)
    return result[None]


def gradients(module, models: Tensor, *batch: Tensor) -> Tensor:
    """Compute the gradients [m, P] of all clients at their models [m, P]; x, y, weight and keys are [m, batch, ...]."""

    def client_loss(p, *batch):
        return loss(module, p, *batch)

    return torch.func.vmap(torch.func.grad(client_loss))(models, *batch)


def train_one_by_one(
    module, params: Tensor, data, rows, weights, how: Steps, *keys: Tensor
) -> Tensor:
    """Train one client after another and return the models [m, P].

    Arguments as in `engine.local_updates`, where `rows` and `weights` [m, steps, batch] are called `idx` and `weight`.
    `keys` [m, steps, batch], of a network with dropout, are one argument or none.
    """
    clients = zip(*(values.split(1) for values in (rows, weights, *keys)), strict=True)
    models = [
        _train(gradient, module, params, data, r, w, how.of([i]), *k)
        for i, (r, w, *k) in enumerate(clients)
    ]
    return torch.cat(models)


def train_all_at_once(
    module, params: Tensor, data, rows, weights, how: Steps, *keys: Tensor
) -> Tensor:
    """Train all clients by SGD in the same operations, on a CPU `GROUP` clients with batches of similar size at a
    time, and return the models [m, P]."""
    sizes = (weights > 0).sum(2).amax(1)
    models = params.new_empty(len(rows), len(params))
    group_size = GROUP if params.device.type == "cpu" else max(1, len(rows))
    for group in sizes.argsort(stable=True).split(group_size):
        used = slice(int(sizes[group].max()))  # without padding that the whole group has
        r, w, *k = (values[group][..., used] for values in (rows, weights, *keys))
        models[group] = _train(gradients, module, params, data, r, w, how.of(group), *k)
    return models


def _train(
    gradients_at, module, params: Tensor, data, rows, weights, how: Steps, *keys: Tensor
) -> Tensor:
    """Take local steps with the gradients [m, P] that `gradients_at(module, models, x, y, weight, *keys)` computes, and return
    the models [m, P]."""
    models = params.expand(len(rows), -1).clone()
    velocity = torch.zeros_like(models) if how.momentum else None
    adam = Adam(weights) if how.optimizer == "adam" else None
    for t in range(rows.shape[1]):
        batch = rows[:, t]
        x = data.x.index_select(0, batch.flatten()).unflatten(0, batch.shape)
        y = data.y.index_select(0, batch.flatten()).unflatten(0, batch.shape)
        update = gradients_at(module, models, x, y, weights[:, t], *(k[:, t] for k in keys))
        if how.prox:
            update += how.prox * (models - params)
        if how.corrections is not None:
            update += weights[:, t].any(1, keepdim=True) * how.corrections
        if velocity is not None:
            update = velocity.mul_(how.momentum).add_(update)
        if adam is not None:
            update = adam.direction(t, update)
        models -= how.lr * update
    return models


def client_gradients(module, params: Tensor, data, row_weight) -> Iterator[Tensor]:
    """Yield the gradient [P] of each client, computed on a chunk of its rows at a time."""
    for low, high in itertools.pairwise(data.offsets.tolist()):
        total = torch.zeros_like(params)
        for start in range(low, high, ROWS):
            rows = slice(start, min(start + ROWS, high))
            x, y = data.x[None, rows], data.y[None, rows]
            weight = torch.full(y.shape, 1 / (high - low), dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[None, rows].to(weight)
            (of_rows,) = gradient(module, params[None], x, y, weight)
            total += of_rows
        yield total
