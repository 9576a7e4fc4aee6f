"""The perceptron's arithmetic by hand: all clients at once, in passes that fit the processor's cache.

For the perceptron on a CPU this is several times as fast as torch's own derivatives (see `autograd`, of
whose functions these are the counterparts).
"""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedstas.sim.autograd import SGD
from fedstas.sim.models import unflatten

ROWS = 4096  # rows of one pass through the network when it is evaluated
BATCHED_ON_CPU = True  # all clients at once are faster on every device


def logits(module, models: Tensor, x: Tensor) -> list[Tensor]:
    """Compute the logits [n, classes] of each of the perceptrons [c, P] on x [n, ...]; their hidden layers are one
    product, which takes less time than one for each."""
    p = unflatten(module, models)
    weight, bias = p["hidden.weight"].flatten(0, 1), p["hidden.bias"].flatten()
    hidden = F.relu(F.linear(x.flatten(1), weight, bias)).chunk(len(models), 1)
    return [*map(F.linear, hidden, p["output.weight"], p["output.bias"])]


def gradients(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Compute the gradients [m, P] of perceptrons [m, P], with the backward pass by hand."""
    result = torch.empty_like(models, memory_format=torch.contiguous_format)
    by_hand(unflatten(module, models), x, y, weight, unflatten(module, result))
    return result


def by_hand(p: dict, x: Tensor, y: Tensor, weight: Tensor, out: dict) -> None:
    """Write the gradients of c perceptrons p into out, both by parameter name [c, *shape].

    Two products are large: of x [c, b, ...] with the hidden layer, and with its derivative.
    """
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
def cache_bytes() -> int:
    """Return the bytes that a pass may fill: a quarter of the processor's last-level cache, which others share,
    between 8 MiB (also where the system does not say its size) and 32 MiB."""
    size_file = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # "32768K", on Linux
    try:
        size = int(size_file.read_text().strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        size = 0
    return min(max(size // 4, 2**23), 2**25)


def chunk(rows: int, params: Tensor, inputs: int) -> int:
    """Return how many clients of that many rows go into one pass: two, or as many as keep their rows and three
    vectors of parameters each in the cache.

    The number is even, so that the address of a client's data modulo 16 bytes, and with it the last bit of its
    matrix products, does not depend on it (if a model has an even number of parameters).
    """
    if params.device.type != "cpu":
        return 256
    client_bytes = (rows * inputs + 3 * len(params)) * params.element_size()
    return 2 * max(1, cache_bytes() // (2 * client_bytes))


def memory(shape: tuple[int, int], like: Tensor) -> Tensor:
    """Allocate an empty tensor of the type of `like`.

    On a CPU numpy allocates it, with large pages: the first touch of each small page of 100 models would take
    longer than one step of 100 tiny clients.
    """
    if like.device.type != "cpu":
        return like.new_empty(shape)
    size = shape[0] * shape[1] * like.element_size()
    buffer = torch.from_numpy(np.empty(size + 64, dtype=np.uint8))
    first = -buffer.data_ptr() % 64
    return buffer[first : first + size].view(like.dtype).view(shape)


def train_all_at_once(module, params: Tensor, data, rows, weights, sgd: SGD) -> Tensor:
    """Train all clients by SGD, a chunk of them at a time in memory that is used again, and return the models
    [m, P]."""
    m, steps, batch = rows.shape
    x_all, start = data.x.flatten(1), unflatten(module, params)
    count = min(m, chunk(batch, params, x_all.shape[1]))
    x_buffer, y_buffer = (
        x_all.new_empty(count * batch, x_all.shape[1]),
        data.y.new_empty(count * batch),
    )
    buffers, gradients = ({k: v.new_empty(count, *v.shape) for k, v in start.items()} for _ in "12")
    velocities = {k: torch.empty_like(v) for k, v in buffers.items()} if sgd.momentum else {}
    models = memory((m, len(params)), params)
    for low in range(0, m, count):
        group = slice(low, min(low + count, m))
        c = group.stop - low
        result = unflatten(module, models[group])
        gradient = {k: v[:c] for k, v in gradients.items()}
        local = {k: v.expand(c, *v.shape) for k, v in start.items()}
        velocity = {k: v[:c].zero_() for k, v in velocities.items()}
        shift = {} if sgd.shift is None else unflatten(module, sgd.shift[group])
        for t in range(steps):
            chosen = rows[group, t].flatten()
            x = torch.index_select(x_all, 0, chosen, out=x_buffer[: c * batch])
            y = torch.index_select(data.y, 0, chosen, out=y_buffer[: c * batch])
            x, y = x.view(c, batch, -1), y.view(c, batch)
            by_hand(local, x, y, weights[group, t], gradient)
            after = result if t == steps - 1 else {k: v[:c] for k, v in buffers.items()}
            for k, g in gradient.items():
                if sgd.prox:
                    g += sgd.prox * (local[k] - start[k])
                if shift:
                    active = weights[group, t].any(1)
                    g += active.view(c, *[1] * (g.ndim - 1)) * shift[k]
                if velocity:
                    g.copy_(velocity[k].mul_(sgd.momentum).add_(g))
                torch.sub(local[k], g.mul_(sgd.lr), out=after[k])
            local = after
    return models


def client_gradients(module, params: Tensor, data, row_weight) -> Iterator[Tensor]:
    """Yield the gradient [P] of each client; consecutive clients of equal, even size are computed in one pass."""
    first, inputs = 0, data.x[0].numel()
    for size, run in itertools.groupby(data.sizes.tolist()):
        remaining = len(list(run))
        while remaining:
            c = 1 if size % 2 else min(remaining, chunk(size, params, inputs))
            low = int(data.offsets[first])
            rows = slice(low, low + c * size)
            x, y = data.x[rows].unflatten(0, (c, size)), data.y[rows].view(c, size)
            weight = torch.full(y.shape, 1 / size, dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[rows].view(c, size).to(weight)
            yield from gradients(module, params.expand(c, -1), x, y, weight)
            first, remaining = first + c, remaining - c
