"""The networks of the papers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    """One hidden layer of ReLU units on flattened images: 784-50-10 has 39,760 parameters."""

    def __init__(self, inputs: int, classes: int, hidden: int = 50):
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of images [n, c, h, w]."""
        return self.output(F.relu(self.hidden(x.flatten(1))))


class Convolutional(nn.Module):
    """Three 3x3 convolutions (32, 64, 64) with two poolings and 64 hidden units, for 3x32x32.

    The network of the authors' CIFAR code and of Fraboni et al. (after McMahan et al.), 122,570
    parameters for 10 classes, without their dropout, which stayed on in their evaluation.
    """

    def __init__(self, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 64, 3)
        self.hidden = nn.Linear(1024, 64)
        self.output = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of images [n, 3, 32, 32]."""
        # The maximum first: relu commutes with it, and has a quarter of the entries left.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))  # [n, 32, 15, 15]
        x = F.relu(F.max_pool2d(self.conv2(x), 2))  # [n, 64, 6, 6]
        x = F.relu(self.conv3(x)).flatten(1)  # [n, 1024]
        return self.output(F.relu(self.hidden(x)))


def flatten(module: nn.Module) -> Tensor:
    """The parameters of a network as one vector [P]."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def unflatten(module: nn.Module, params: Tensor) -> dict[str, Tensor]:
    """Views into vectors [..., P], by parameter name, each [..., *shape]."""
    sizes = [p.numel() for p in module.parameters()]
    parts = params.split(sizes, dim=-1)
    named = zip(module.named_parameters(), parts, strict=True)
    return {name: v.unflatten(-1, p.shape) for (name, p), v in named}
