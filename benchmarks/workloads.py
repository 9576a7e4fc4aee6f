"""What is timed: models, clients and batches, the same for every side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedstas.errors import DataError
from fedstas.sim import engine, models, tasks

LR, STEPS, BATCH = 0.01, 3, 128


@dataclass(frozen=True)
class Problem:
    """A network at w_0, the clients' data, and the rows of a cohort's batches [m, steps, batch]."""

    module: torch.nn.Module
    params: torch.Tensor
    data: engine.Pool
    idx: np.ndarray
    what: str

    @property
    def weight(self) -> np.ndarray:
        """The weights of the rows' losses [m, steps, batch]."""
        return np.full(self.idx.shape, 1 / self.idx.shape[2])

    def ours(self) -> torch.Tensor:
        """Compute the models [m, P] of the cohort after its local steps, by the engine."""
        return engine.local_updates(
            self.module, self.params, self.data, self.idx, self.weight, lr=LR
        )

    def gradients(self) -> list[torch.Tensor]:
        """Compute the gradient [P] of every client by the engine, and keep none of them."""
        return [g[:1] for g in engine.client_gradients(self.module, self.params, self.data)]


def images(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Load images and labels of a data set, and its title, where they can be had without a download, else random ones of its shape."""
    if (tasks.data_folder() / f"{name}.npz").exists():
        try:
            task = tasks.load(name)
        except DataError:
            pass
        else:
            rows = np.random.default_rng(0).permutation(len(task.train_y))[:count]
            title = {"mnist": "MNIST", "cifar100": "CIFAR-100"}.get(name, name)
            return task.train_x[rows], task.train_y[rows], title
    draw = torch.Generator().manual_seed(0)
    shape = (1, 28, 28) if name == "mnist" else (3, 32, 32)
    x = torch.rand(count, *shape, generator=draw)
    return x, torch.randint(10, (count,), generator=draw), f"random {'x'.join(map(str, shape))}"


def network(name: str, hidden: int = 50) -> torch.nn.Module:
    """Make the perceptron or the convolutional network of the papers at w_0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name == "mnist":
            return models.Perceptron(784, 10, hidden)
        return models.Convolutional(10)


def problem(name: str, *, clients=100, size=600, m=10, batch=BATCH, hidden=50) -> Problem:
    """Make a problem of `clients` clients of `size` images (one size or one each), a cohort of the first m."""
    sizes = np.broadcast_to(size, clients)
    distinct = min(int(sizes.sum()), 60_000 if name == "mnist" else 10_000)
    x, y, source = images(name, distinct)
    rows, offsets = np.arange(sizes.sum()) % distinct, np.concatenate([[0], np.cumsum(sizes)])
    data = engine.pool(x, y, np.split(rows, offsets[1:-1]))
    rng = np.random.default_rng(1)
    idx = [
        [
            offsets[k] + rng.choice(int(sizes[k]), min(batch, int(sizes.min())), replace=False)
            for _ in range(STEPS)
        ]
        for k in range(m)
    ]
    module = network(name, hidden)
    model = "perceptron" if name == "mnist" else "CNN"
    many = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else str(sizes[0])
    what = f"{source}, {model}, {clients} clients of {many}"
    return Problem(module, models.flatten(module), data, np.array(idx), what)
