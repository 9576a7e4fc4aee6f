"""The arithmetic: local SGD of a cohort, gradients of all clients, evaluation (FedSTaS eq. 2.2).

Examples lie in one resident pool in the order of the clients; a batch is a gather of its rows.
One contract, `(params, idx [m, steps, batch], weight [m, steps, batch]) -> params [m, P]`, and two
backends that must agree: `loop` (one client after another, autograd) and `batched` (all clients
at once: by hand for the perceptron, by torch.func otherwise). Ragged clients are padded with
weight 0. Parameters are flat vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    if step is _perceptron:
        return _perceptrons(module, params, data, rows, weights, lr, prox)
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


def _interleaved(x: Tensor) -> Tensor:
    """Images with the channels innermost, where the CPU convolves and pools 1.6 times as fast."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x


def _autograd(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradient [1, P] of one client."""
    leaf = models[0].detach().requires_grad_()
    images = x[0] if isinstance(module, Perceptron) else _interleaved(x[0])
    loss = _loss(module, leaf, images, y[0], weight[0])
    return torch.autograd.grad(loss, leaf)[0][None]


def _vectorised(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradients [m, P] of all clients at once."""

    def loss(p, x, y, w):
        return _loss(module, p, x, y, w)

    return torch.func.vmap(torch.func.grad(loss))(models, x, y, weight)


def _perceptron(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Gradients [m, P] of a perceptron, backward pass by hand."""
    gradients = torch.empty_like(models, memory_format=torch.contiguous_format)
    _by_hand(unflatten(module, models), x, y, weight, unflatten(module, gradients))
    return gradients


def _by_hand(p: dict, x: Tensor, y: Tensor, weight: Tensor, out: dict) -> None:
    """Write the gradients of perceptrons p into out, both by parameter name [c, *shape]: two
    large products, of x [c, b, ...] with the hidden layer and with its derivative."""
    x = x.flatten(2)  # [c, b, in]
    hidden = torch.baddbmm(p["hidden.bias"][:, None], x, p["hidden.weight"].mT).relu_()
    logits = torch.baddbmm(p["output.bias"][:, None], hidden, p["output.weight"].mT)
    dlogits = torch.softmax(logits, dim=2)
    dlogits.scatter_add_(2, y[..., None], dlogits.new_full((), -1.0).expand(*y.shape, 1))
    dlogits *= weight[..., None]
    dhidden = torch.bmm(dlogits, p["output.weight"])
    torch.ops.aten.threshold_backward.grad_input(dhidden, hidden, 0, grad_input=dhidden)  # of ReLU
    torch.bmm(dhidden.mT, x, out=out["hidden.weight"])
    torch.sum(dhidden, 1, out=out["hidden.bias"])
    torch.bmm(dlogits.mT, hidden, out=out["output.weight"])
    torch.sum(dlogits, 1, out=out["output.bias"])


@cache
def _cache() -> int:
    """Bytes that a pass may fill: a quarter of the processor's last-level cache, which others share,
    between 8 MiB (also where the system does not say) and 32 MiB."""
    said = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # "32768K", on Linux
    try:
        size = int(said.read_text().strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        size = 0
    return min(max(size // 4, 2**23), 2**25)


def _chunk(rows: int, params: Tensor, inputs: int) -> int:
    """How many clients of that many rows a perceptron's pass takes: two, or as many as keep their
    rows and three vectors of parameters each in the cache.

    An even number, so that a client's place modulo 16 bytes, and with it the last bit of its
    matrix products, does not depend on the chunks (if a model has an even number of parameters).
    """
    if params.device.type != "cpu":
        return 256
    each = (rows * inputs + 3 * len(params)) * params.element_size()
    return 2 * max(1, _cache() // (2 * each))


def _memory(shape: tuple[int, int], like: Tensor) -> Tensor:
    """An empty tensor; on the CPU from numpy, which asks the system for large pages: the first
    touch of every small page of 100 models takes longer than one step of 100 tiny clients."""
    if like.device.type != "cpu":
        return like.new_empty(shape)
    size = shape[0] * shape[1] * like.element_size()
    held = torch.from_numpy(np.empty(size + 64, dtype=np.uint8))
    first = -held.data_ptr() % 64
    return held[first : first + size].view(like.dtype).view(shape)


def _perceptrons(module, params: Tensor, data: Pool, rows, weights, lr: float, prox: float):
    """Local SGD of perceptrons, a chunk of clients at a time in memory that is used again."""
    m, steps, batch = rows.shape
    x_all, start = data.x.flatten(1), unflatten(module, params)
    count = min(m, _chunk(batch, params, x_all.shape[1]))
    x_held, y_held = x_all.new_empty(count * batch, x_all.shape[1]), data.y.new_empty(count * batch)
    held, gradients = ({k: v.new_empty(count, *v.shape) for k, v in start.items()} for _ in "12")
    models = _memory((m, len(params)), params)
    for low in range(0, m, count):
        group = slice(low, min(low + count, m))
        c = group.stop - low
        result = unflatten(module, models[group])
        gradient = {k: v[:c] for k, v in gradients.items()}
        local = {k: v.expand(c, *v.shape) for k, v in start.items()}
        for t in range(steps):
            chosen = rows[group, t].flatten()
            x = torch.index_select(x_all, 0, chosen, out=x_held[: c * batch])
            y = torch.index_select(data.y, 0, chosen, out=y_held[: c * batch])
            x, y = x.view(c, batch, -1), y.view(c, batch)
            _by_hand(local, x, y, weights[group, t], gradient)
            after = result if t == steps - 1 else {k: v[:c] for k, v in held.items()}
            for k, g in gradient.items():
                if prox:
                    g += prox * (local[k] - start[k])
                torch.sub(local[k], g.mul_(lr), out=after[k])
            local = after
    return models


def client_gradients(
    module: nn.Module, params: Tensor, data: Pool, row_weight: Tensor | None = None
) -> Iterator[Tensor]:
    """The gradient [P] of each client's loss F_k at w_t, client after client.

    The sum over its examples divided by n_k, not a mean of batch means; or with other weights of
    the pool's rows [n].
    """
    if isinstance(module, Perceptron):
        yield from _perceptron_gradients(module, params, data, row_weight)
        return
    for low, high in itertools.pairwise(data.offsets.tolist()):
        gradient = torch.zeros_like(params)
        for start in range(low, high, ROWS):
            rows = slice(start, min(start + ROWS, high))
            x, y = data.x[None, rows], data.y[None, rows]
            weight = torch.full(y.shape, 1 / (high - low), dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[None, rows].to(weight)
            gradient += _autograd(module, params[None], x, y, weight)[0]
        yield gradient


def _perceptron_gradients(module, params: Tensor, data: Pool, row_weight) -> Iterator[Tensor]:
    """Neighbours of equal, even size in one pass."""
    first, inputs = 0, data.x[0].numel()
    for size, run in itertools.groupby(data.sizes.tolist()):
        left = len(list(run))
        while left:
            c = 1 if size % 2 else min(left, _chunk(size, params, inputs))
            low = int(data.offsets[first])
            rows = slice(low, low + c * size)
            x, y = data.x[rows].unflatten(0, (c, size)), data.y[rows].view(c, size)
            weight = torch.full(y.shape, 1 / size, dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[rows].view(c, size).to(weight)
            yield from _perceptron(module, params.expand(c, -1), x, y, weight)
            first, left = first + c, left - c


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
        batch = x[start : start + step]
        if not isinstance(module, Perceptron):
            batch = _interleaved(batch)
        logits = torch.func.functional_call(module, named, (batch,))
        loss += F.cross_entropy(logits, y[start : start + step], reduction="sum")
        predictions.append(logits.argmax(dim=1))
    return float(loss) / len(x), torch.cat(predictions)
