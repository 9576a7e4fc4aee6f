"""The arithmetic of the perceptron and of the linear network, which is a perceptron without a hidden layer, with
derivatives by hand: all clients at once, in passes that fit the processor's cache.

On a CPU this is several times as fast as torch's automatic derivatives. The functions are those of `autograd`.
"""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedstas.sim.autograd import Adam, Steps
from fedstas.sim.models import unflatten

ROWS = 4096  # rows of one pass through the network when it is evaluated
BATCHED_ON_CPU = True  # all clients at once are faster on every device


def logits(module, models: Tensor, x: Tensor) -> list[Tensor]:
    """Compute the logits [n, classes] of each of the perceptrons [c, P] on x [n, ...]; their first layers are one
    product, which takes less time than one for each."""
    p = unflatten(module, models)
    first = "hidden" if "hidden.weight" in p else "output"
    weight, bias = p[f"{first}.weight"].flatten(0, 1), p[f"{first}.bias"].flatten()
    units = F.linear(x.flatten(1), weight, bias)
    if first == "output":
        return [*units.chunk(len(models), 1)]
    hidden = F.relu(units).chunk(len(models), 1)
    return [*map(F.linear, hidden, p["output.weight"], p["output.bias"])]


def gradients(module, models: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Compute the gradients [m, P] of perceptrons [m, P], with the backward pass by hand."""
    result = torch.empty_like(models, memory_format=torch.contiguous_format)
    write_gradients(unflatten(module, models), x, y, weight, unflatten(module, result))
    return result


def write_gradients(p: dict, x: Tensor, y: Tensor, weight: Tensor, out: dict) -> None:
    """Compute the gradients of c perceptrons, each on its own batch, and write them into `out`.

    Args:
        p: the parameters, by name, each [c, *shape].
        x: the examples of each perceptron [c, b, ...].
        y: their labels [c, b].
        weight: their weights in the loss [c, b].
        out: tensors for the gradients, by name as in p.
    """
    x = hidden = x.flatten(2)  # [c, b, in]
    if "hidden.weight" in p:
        hidden = torch.baddbmm(p["hidden.bias"][:, None], x, p["hidden.weight"].mT).relu_()
    logits = torch.baddbmm(p["output.bias"][:, None], hidden, p["output.weight"].mT)
    dlogits = torch.softmax(logits, dim=2)
    dlogits.scatter_add_(2, y[..., None], dlogits.new_full((), -1.0).expand(*y.shape, 1))
    dlogits *= weight[..., None]
    torch.bmm(dlogits.mT, hidden, out=out["output.weight"])
    torch.sum(dlogits, 1, out=out["output.bias"])
    if "hidden.weight" in p:
        dhidden = torch.bmm(dlogits, p["output.weight"])
        # The derivative of ReLU.
        torch.ops.aten.threshold_backward.grad_input(dhidden, hidden, 0, grad_input=dhidden)
        torch.bmm(dhidden.mT, x, out=out["hidden.weight"])
        torch.sum(dhidden, 1, out=out["hidden.bias"])


@cache
def cache_bytes() -> int:
    """Return how many bytes of the processor's cache one pass may use.

    It is a quarter of the last-level cache, which other processes use too, but at least 8 MiB (also if its size is not
    known) and at most 32 MiB.
    """
    size_file = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # "32768K", on Linux
    try:
        size = int(size_file.read_text(encoding="utf-8").strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        size = 0
    return min(max(size // 4, 2**23), 2**25)


def clients_per_pass(rows: int, params: Tensor, inputs: int) -> int:
    """Return how many clients with `rows` rows of `inputs` numbers each are computed in one pass.

    They are as many as fit into the cache with their rows and three vectors of parameters, and at least two. The number
    is even: matrix products can differ in the last bit with the address of the data modulo 16 bytes, and with an even
    number (of clients, and of a model's parameters) this address does not depend on the number of clients.
    """
    if params.device.type != "cpu":
        return 256  # enough to keep a GPU busy; its memory bounds it, and not a cache
    client_bytes = (rows * inputs + 3 * len(params)) * params.element_size()
    return 2 * max(1, cache_bytes() // (2 * client_bytes))


def allocate(shape: tuple[int, int], like: Tensor) -> Tensor:
    """Allocate an empty tensor of the type of `like`.

    On a CPU numpy allocates it, in large pages. In small pages the first access to every page would take longer, for 100
    models, than one step of 100 small clients.
    """
    if like.device.type != "cpu":
        return like.new_empty(shape)
    size = shape[0] * shape[1] * like.element_size()
    buffer = torch.from_numpy(np.empty(size + 64, dtype=np.uint8))
    # The tensor begins at a multiple of 64 bytes, a line of the cache.
    first = -buffer.data_ptr() % 64
    return buffer[first : first + size].view(like.dtype).view(shape)


def train_all_at_once(module, params: Tensor, data, rows, weights, how: Steps) -> Tensor:
    """Train all clients, a chunk of them at a time in memory that is used again, and return the models
    [m, P].

    `rows` are the examples of each step, and `weights` those of their losses, both [m, steps, batch]: 0 for padding,
    and in all of a client's first steps if it takes fewer than others. Such steps change nothing.
    """
    m, steps, batch = rows.shape
    x_all, start = data.x.flatten(1), unflatten(module, params)
    count = min(m, clients_per_pass(batch, params, x_all.shape[1]))
    x_buffer, y_buffer = (
        x_all.new_empty(count * batch, x_all.shape[1]),
        data.y.new_empty(count * batch),
    )
    buffers, gradients = (
        {k: v.new_empty(count, *v.shape) for k, v in start.items()} for _ in range(2)
    )
    velocities = {k: torch.empty_like(v) for k, v in buffers.items()} if how.momentum else {}
    models = allocate((m, len(params)), params)
    for low in range(0, m, count):
        group = slice(low, min(low + count, m))
        c = group.stop - low  # clients of this group: the last may have fewer than `count`
        result = unflatten(module, models[group])
        gradient = {k: v[:c] for k, v in gradients.items()}
        local = {k: v.expand(c, *v.shape) for k, v in start.items()}
        velocity = {k: v[:c].zero_() for k, v in velocities.items()}
        corrections = {} if how.corrections is None else unflatten(module, how.corrections[group])
        adam = Adam(weights[group]) if how.optimizer == "adam" else None
        for t in range(steps):
            chosen = rows[group, t].flatten()
            x = torch.index_select(x_all, 0, chosen, out=x_buffer[: c * batch])
            y = torch.index_select(data.y, 0, chosen, out=y_buffer[: c * batch])
            x, y = x.view(c, batch, -1), y.view(c, batch)
            write_gradients(local, x, y, weights[group, t], gradient)
            # The last step writes into the result; the others into the buffers, from the second on in place.
            after = result if t == steps - 1 else {k: v[:c] for k, v in buffers.items()}
            for k, g in gradient.items():
                if how.prox:
                    g += how.prox * (local[k] - start[k])
                if corrections:
                    active = weights[group, t].any(1)  # clients whose step is not all padding
                    g += active.view(c, *[1] * (g.ndim - 1)) * corrections[k]
                if velocity:
                    g.copy_(velocity[k].mul_(how.momentum).add_(g))
                if adam is not None:
                    g.copy_(adam.direction(t, g, k))
                torch.sub(local[k], g.mul_(how.lr), out=after[k])
            local = after
    return models


def client_gradients(module, params: Tensor, data, row_weight) -> Iterator[Tensor]:
    """Yield the gradient [P] of each client; consecutive clients of equal, even size are computed in one pass.

    `row_weight` [n] weighs the examples of all clients; by default each of client k has 1 / n_k.
    """
    first, inputs = 0, data.x[0].numel()
    for size, run in itertools.groupby(data.sizes.tolist()):
        remaining = len(list(run))
        while remaining:
            # Clients of odd size are computed alone: see `clients_per_pass` on addresses in memory.
            c = 1 if size % 2 else min(remaining, clients_per_pass(size, params, inputs))
            low = int(data.offsets[first])
            rows = slice(low, low + c * size)
            x, y = data.x[rows].unflatten(0, (c, size)), data.y[rows].view(c, size)
            weight = torch.full(y.shape, 1 / size, dtype=params.dtype, device=params.device)
            if row_weight is not None:
                weight = row_weight[rows].view(c, size).to(weight)
            yield from gradients(module, params.expand(c, -1), x, y, weight)
            first, remaining = first + c, remaining - c
