"""The arithmetic: local SGD of a cohort, gradients of all clients, evaluation (FedSTaS eq. 2.2).

Examples lie in one resident pool in the order of the clients; a batch is a gather of its rows.
One contract, `(params, idx [m, steps, batch], weight [m, steps, batch]) -> params [m, P]`, and two
backends that must agree: `loop` (one client after another, autograd) and `batched` (all clients
at once: by hand for the perceptron, by torch.func otherwise). Ragged clients are padded with
weight 0. Parameters are flat vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstas.errors import one_of
from fedstas.sim.models import Perceptron, unflatten

BACKENDS = ("auto", "loop", "batched")
ROWS = 256  # rows of one pass through a convolutional network


@dataclass(frozen=True)
class Pool:
    """The examples of all clients with data, client after client.

    `x` [n, c, h, w], `y` [n]; client k holds the rows offsets[k]..offsets[k + 1].
    """

    x: Tensor
    y: Tensor
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)


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
    backend: str = "auto",
) -> Tensor:
    """The models [m, P] of a cohort after SGD from w_t = params [P] (eq. 2.2).

    `idx` int [m, steps, batch] are rows of the pool; `weight` of the same shape multiplies each
    row's loss (1 / batch size, 0 for padding). A step with weights all zero changes nothing.
    `prox` adds mu (w - w_t) to each gradient (FedProx).
    """
    one_of("backend", backend, BACKENDS)
    device = params.device
    rows = torch.from_numpy(idx).to(device)
    weights = torch.from_numpy(weight).to(device=device, dtype=params.dtype)
    if backend == "auto":
        backend = "batched" if isinstance(module, Perceptron) or device.type == "cuda" else "loop"
    if backend == "loop":
        step = _autograd
    else:
        step = _perceptron if isinstance(module, Perceptron) else _vectorised
    groups = [slice(k, k + 1) for k in range(len(idx))] if backend == "loop" else [slice(None)]
    results = []
    for group in groups:
        models = params.expand(len(rows[group]), -1).clone()
        for t in range(rows.shape[1]):
            batch = rows[group, t]
            x = data.x.index_select(0, batch.flatten()).unflatten(0, batch.shape)
            y = data.y.index_select(0, batch.flatten()).unflatten(0, batch.shape)
            gradient = step(module, models, x, y, weights[group, t])
            if prox:
                gradient += prox * (models - params)
            models -= lr * gradient
        results.append(models)
    return torch.cat(results)


def _loss(module: nn.Module, params: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Weighted cross-entropy of one model [P] on one batch."""
    logits = torch.func.functional_call(module, unflatten(module, params), (x,))
    return (F.cross_entropy(logits, y, reduction="none") * weight).sum()


def _autograd(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradient [1, P] of one client."""
    leaf = models[0].detach().requires_grad_()
    loss = _loss(module, leaf, x[0], y[0], weight[0])
    return torch.autograd.grad(loss, leaf)[0][None]


def _vectorised(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradients [m, P] of all clients at once."""

    def loss(p, x, y, w):
        return _loss(module, p, x, y, w)

    return torch.func.vmap(torch.func.grad(loss))(models, x, y, weight)


def _perceptron(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradients [m, P] of a perceptron, backward pass by hand: three batched products."""
    p = unflatten(module, models)
    x = x.flatten(2)  # [m, b, in]
    hidden = torch.relu(torch.baddbmm(p["hidden.bias"][:, None], x, p["hidden.weight"].mT))
    logits = torch.baddbmm(p["output.bias"][:, None], hidden, p["output.weight"].mT)
    dlogits = torch.softmax(logits, dim=2)
    dlogits.scatter_add_(2, y[..., None], -torch.ones_like(dlogits[..., :1]))
    dlogits *= weight[..., None]
    dhidden = (dlogits @ p["output.weight"]) * (hidden > 0)
    parts = {
        "hidden.weight": dhidden.mT @ x,
        "hidden.bias": dhidden.sum(1),
        "output.weight": dlogits.mT @ hidden,
        "output.bias": dlogits.sum(1),
    }
    return torch.cat([parts[name].flatten(1) for name, _ in module.named_parameters()], dim=1)


def client_gradients(
    module: nn.Module, params: Tensor, data: Pool, row_weight: Tensor | None = None
) -> Iterator[Tensor]:
    """The gradient [P] of each client's loss F_k at w_t, client after client.

    The sum over its examples divided by n_k, not a mean of batch means; or with other weights of
    the pool's rows [n].
    """
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        size = int(high - low)
        step = size if isinstance(module, Perceptron) else ROWS
        gradient = torch.zeros_like(params)
        for start in range(low, high, step):
            rows = slice(start, min(start + step, high))
            x, y = data.x[None, rows], data.y[None, rows]
            weight = torch.full(y.shape, 1 / size, dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[None, rows].to(weight)
            kernel = _perceptron if isinstance(module, Perceptron) else _autograd
            gradient += kernel(module, params[None], x, y, weight)[0]
        yield gradient


def gradient_spread(module: nn.Module, params: Tensor, x: Tensor, y: Tensor) -> float:
    """The root of the mean squared distance of example gradients to their mean, for one client."""
    squares, mean = 0.0, torch.zeros_like(params)
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        one = torch.ones(len(x[rows]), 1, dtype=params.dtype, device=params.device)
        kernel = _perceptron if isinstance(module, Perceptron) else _vectorised
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
    step = 4096 if isinstance(module, Perceptron) else ROWS
    loss, predictions = torch.zeros((), dtype=torch.float64, device=x.device), []
    for start in range(0, len(x), step):
        logits = torch.func.functional_call(module, named, (x[start : start + step],))
        loss += F.cross_entropy(logits, y[start : start + step], reduction="sum")
        predictions.append(logits.argmax(dim=1))
    return float(loss) / len(x), torch.cat(predictions)
