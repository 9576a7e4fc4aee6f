"""The arithmetic: local SGD of a cohort, gradients of all clients, evaluation (FedSTaS eq. 2.2).

The examples of all clients are one tensor (a `Pool`), and a batch is given by row numbers. Models are vectors of all
parameters [P]. Two backends compute the same function, `(params, idx [m, steps, batch], weight [m, steps, batch]) ->
params [m, P]`: `loop` (one client after another) and `batched` (all clients at once; with derivatives by hand for the
perceptron and the linear network, by torch.func for others). Clients with smaller batches or fewer steps are padded with weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstas.errors import check_choice
from fedstas.sim import autograd, perceptron
from fedstas.sim.models import Linear, Perceptron

BACKENDS = ("auto", "loop", "batched")
# Examples whose gradients are computed in one call: more do not fit into the processor's cache.
EXAMPLES_AT_ONCE = 32


def kernels_of(module: nn.Module):
    """Return the module with the arithmetic of a network: `perceptron` (derivatives by hand, also for the linear
    network), or `autograd`."""
    return perceptron if type(module) in (Perceptron, Linear) else autograd


@dataclass(frozen=True)
class Pool:
    """The examples of all clients with data, client after client.

    `x` [n, c, h, w] or tokens [n, length], `y` [n]; client k holds the rows offsets[k]..offsets[k + 1].
    """

    x: Tensor
    y: Tensor
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """The number of examples of each client, int [N]."""
        return np.diff(self.offsets)

    def of(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the examples x and y of client k."""
        rows = slice(self.offsets[k], self.offsets[k + 1])
        return self.x[rows], self.y[rows]


def pool(x: Tensor, y: Tensor, shards) -> Pool:
    """Gather the shards (index arrays) of x and y into one pool."""
    rows = torch.from_numpy(np.concatenate(shards)).to(x.device)
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in shards])])
    return Pool(x.index_select(0, rows), y.index_select(0, rows), offsets)


def local_updates(
    module: nn.Module,
    params: Tensor,
    data: Pool,
    idx: np.ndarray,
    weight: np.ndarray,
    *,
    lr: float,
    prox: float = 0.0,
    momentum: float = 0.0,
    corrections: Tensor | None = None,
    optimizer: str = "sgd",
    keys: np.ndarray | None = None,
    backend: str = "auto",
) -> Tensor:
    """Train a cohort from w_t, by SGD (eq. 2.2) or Adam, and return its models [m, P].

    Args:
        module: the network.
        params: w_t [P].
        data: the examples of all clients.
        idx: rows of the pool that a participant's steps use, int [m, steps, batch].
        weight: of each row's loss, [m, steps, batch]: 1 / batch size, 0 for padding. A participant's steps of zeros
            come first, where they change nothing.
        lr: the learning rate.
        prox: mu of FedProx, which adds mu (w - w_t) to each gradient.
        momentum: beta of v <- beta v + gradient, from v = 0; a step subtracts lr v.
        corrections: [m, P], each added to all gradients of its participant, as in SCAFFOLD; None for none.
        optimizer: "sgd", or "adam" with moments from zero (`autograd.Adam`), which steps by the gradient with all that
            is added to it.
        keys: of a network with dropout, int64 [m, steps, batch] (`simulation.draw_keys`).
        backend: "loop", "batched", or "auto", which takes the faster one.
    """
    check_choice("backend", backend, BACKENDS)
    rows = torch.from_numpy(idx).to(params.device)
    weights = torch.from_numpy(weight).to(params)
    kernels = kernels_of(module)
    # With documents, all clients at once are up to four times as fast as one after another, and never slower.
    batched = (
        kernels.BATCHED_ON_CPU or params.device.type != "cpu" or not data.x.is_floating_point()
    )
    loop = backend == "loop" or (backend == "auto" and not batched)
    train = autograd.train_one_by_one if loop else kernels.train_all_at_once
    dropout_keys = () if keys is None else (torch.from_numpy(keys).to(params.device),)
    how = autograd.Steps(lr, prox, momentum, corrections, optimizer)
    return train(module, params, data, rows, weights, how, *dropout_keys)


def client_gradients(
    module: nn.Module, params: Tensor, data: Pool, row_weight: Tensor | None = None
) -> Iterator[Tensor]:
    """Yield the gradient [P] of each client's loss F_k at w_t = params [P], client after client.

    It is the sum over the client's examples divided by n_k, not a mean of batch means; with `row_weight` [n]
    each example of the pool has that weight instead of 1 / n_k.
    """
    return kernels_of(module).client_gradients(module, params, data, row_weight)


def gradient_spread(module: nn.Module, params: Tensor, x: Tensor, y: Tensor) -> float:
    """Compute the standard deviation of one client's example gradients: the root of the mean squared distance
    to their mean."""
    squares, mean = 0.0, torch.zeros_like(params)
    kernel = kernels_of(module).gradients
    for start in range(0, len(x), EXAMPLES_AT_ONCE):
        rows = slice(start, start + EXAMPLES_AT_ONCE)
        one = torch.ones(len(x[rows]), 1, dtype=params.dtype, device=params.device)
        models = params.expand(len(one), -1)
        gradients = kernel(module, models, x[rows][:, None], y[rows][:, None], one)
        squares += float(gradients.double().square().sum())
        mean += gradients.sum(0)
    mean = mean.double() / len(x)
    variance = squares / len(x) - float(mean.square().sum())
    return 0.0 if variance < 0 else variance**0.5  # NaN stays NaN


@torch.no_grad()
def evaluate_models(
    module: nn.Module, models: Tensor, x: Tensor, y: Tensor
) -> list[tuple[float, Tensor]]:
    """Compute the mean cross-entropy and the predicted labels [n] of each of the models [c, P], in one pass over the
    examples."""
    kernels = kernels_of(module)
    losses = [torch.zeros((), dtype=torch.float64, device=x.device) for _ in models]
    predictions: list[list[Tensor]] = [[] for _ in models]
    for start in range(0, len(x), kernels.ROWS):
        rows = slice(start, start + kernels.ROWS)
        for i, logits in enumerate(kernels.logits(module, models, x[rows])):
            losses[i] += F.cross_entropy(logits, y[rows], reduction="sum")
            predictions[i].append(logits.argmax(dim=1))
    return [
        (float(loss) / len(x), torch.cat(predicted))
        for loss, predicted in zip(losses, predictions, strict=True)
    ]


def evaluate(module: nn.Module, params: Tensor, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """Compute the mean cross-entropy and the predicted labels [n] of the model params [P]."""
    (loss_and_labels,) = evaluate_models(module, params[None], x, y)
    return loss_and_labels
