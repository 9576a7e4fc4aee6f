"""The arithmetic: local SGD of a cohort, gradients of all clients, evaluation (FedSTaS eq. 2.2).

Examples lie in one resident pool in the order of the clients; a batch is a gather of its rows. One contract,
`(params, idx [m, steps, batch], weight [m, steps, batch]) -> params [m, P]`, and two backends that must
agree: `loop` (one client after another) and `batched` (all clients at once: by hand for the perceptron, by
torch.func otherwise). Ragged clients are padded with weight 0. Parameters are flat vectors.
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
from fedstas.sim.models import Perceptron, unflatten

BACKENDS = ("auto", "loop", "batched")
FEW = 32  # gradients of single examples at once: with more they leave the cache, and take three times as long


def arithmetic(module: nn.Module):
    """What computes a network's gradients: `perceptron` (by hand), or `autograd` for any other."""
    return perceptron if type(module) is Perceptron else autograd


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
        return np.diff(self.offsets)

    def of(self, k: int) -> tuple[Tensor, Tensor]:
        """The examples x and y of client k."""
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
    keys: np.ndarray | None = None,
    backend: str = "auto",
) -> Tensor:
    """The models [m, P] of a cohort after SGD from w_t = params [P] (eq. 2.2).

    `idx` int [m, steps, batch] are rows of the pool; `weight` of the same shape multiplies each
    row's loss (1 / batch size, 0 for padding). A step with weights all zero changes nothing.
    `prox` adds mu (w - w_t) to each gradient (FedProx). `keys` int64 of the same shape are those of a
    network with dropout (`simulation.draw_keys`); all else computes without.
    """
    check_choice("backend", backend, BACKENDS)
    rows = torch.from_numpy(idx).to(params.device)
    weights = torch.from_numpy(weight).to(params)
    how = arithmetic(module)
    # Of documents a step is small: all at once takes a quarter to all of the time.
    together = how.TOGETHER or params.device.type != "cpu" or not data.x.is_floating_point()
    loop = backend == "loop" or (backend == "auto" and not together)
    train = autograd.one_by_one if loop else how.all_at_once
    drops = () if keys is None else (torch.from_numpy(keys).to(params.device),)
    return train(module, params, data, rows, weights, lr, prox, *drops)


def client_gradients(
    module: nn.Module, params: Tensor, data: Pool, row_weight: Tensor | None = None
) -> Iterator[Tensor]:
    """The gradient [P] of each client's loss F_k at w_t, client after client.

    The sum over its examples divided by n_k, not a mean of batch means; or with other weights of
    the pool's rows [n].
    """
    return arithmetic(module).client_gradients(module, params, data, row_weight)


def gradient_spread(module: nn.Module, params: Tensor, x: Tensor, y: Tensor) -> float:
    """The root of the mean squared distance of example gradients to their mean, for one client."""
    squares, mean = 0.0, torch.zeros_like(params)
    kernel = arithmetic(module).gradients
    for start in range(0, len(x), FEW):
        rows = slice(start, start + FEW)
        one = torch.ones(len(x[rows]), 1, dtype=params.dtype, device=params.device)
        models = params.expand(len(one), -1)
        gradients = kernel(module, models, x[rows][:, None], y[rows][:, None], one)
        squares += float(gradients.double().square().sum())
        mean += gradients.sum(0)
    mean = mean.double() / len(x)
    return max(0.0, squares / len(x) - float(mean.square().sum())) ** 0.5


@torch.no_grad()
def evaluate(module: nn.Module, params: Tensor, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """Mean cross-entropy and predictions [n] of the model params [P]."""
    named = unflatten(module, params)
    how = arithmetic(module)
    loss, predictions = torch.zeros((), dtype=torch.float64, device=x.device), []
    for start in range(0, len(x), how.ROWS):
        batch = x[start : start + how.ROWS]
        batch = autograd.images(batch) if how is autograd else batch
        logits = torch.func.functional_call(module, named, (batch,))
        loss += F.cross_entropy(logits, y[start : start + how.ROWS], reduction="sum")
        predictions.append(logits.argmax(dim=1))
    return float(loss) / len(x), torch.cat(predictions)
