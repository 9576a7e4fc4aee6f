"""A training loop of one's own, in torch: a network with batch normalisation and dropout, Adam, a DataLoader for each
client, silent clients, and a checkpoint from which the same command continues.

    python examples/own/my_loaders.py [ROUNDS] [CHECKPOINT.pt]
"""

import copy
import random
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from fedstas import Cohorts, partition


def make_data() -> tuple[list[DataLoader], DataLoader]:
    """Return a loader of each of 30 clients, who have few of the ten digits each, and one of test data."""
    digits = load_digits()
    x, y = torch.tensor(digits.images[:, None] / 16).float(), torch.tensor(digits.target)
    shards = partition.dirichlet(y[360:], 30, 0.3, 0).shards
    clients = [TensorDataset(x[360:][shard], y[360:][shard]) for shard in shards]
    return [DataLoader(c, 32) for c in clients], DataLoader(TensorDataset(x[:360], y[:360]), 360)


def make_network() -> nn.Module:
    """Return a small convolutional network."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)),
    )


def gradient(model: nn.Module, loader: DataLoader) -> list[torch.Tensor]:
    """Return the gradient of a client's mean loss, a tensor for each parameter."""
    model.eval()
    model.zero_grad()
    for x, y in loader:
        (cross_entropy(model(x), y, reduction="sum") / len(loader.dataset)).backward()
    return [p.grad.clone() for p in model.parameters()]


def train(model: nn.Module, loader: DataLoader, seed: int) -> dict[str, torch.Tensor]:
    """Train a copy of the model for two epochs, and return how its state has changed."""
    torch.manual_seed(seed)
    local = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(local.parameters(), lr=0.003)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(local(x), y).backward()
            optimizer.step()
    before, after = model.state_dict(), local.state_dict()
    return {name: after[name] - before[name] for name in after if after[name].is_floating_point()}


def main(rounds: int = 30, checkpoint: str = "") -> float:
    """Train, and return the accuracy on the test data."""
    torch.manual_seed(0)
    loaders, test = make_data()
    model, file = make_network(), Path(checkpoint)
    sizes = [len(loader.dataset) for loader in loaders]
    chooser = Cohorts("fedstas-least-variance", sizes=sizes, m=6, seed=0)
    if checkpoint and file.exists():
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        chooser.load_state_dict(saved["cohorts"])
    while chooser.round < rounds:
        cohort = chooser.sample(gradients=lambda k: gradient(model, loaders[k]))
        updates: list[dict | None] = []
        for place, k in enumerate(cohort.clients):
            silent = random.Random(f"{chooser.round}, {place}").random() < 0.1
            seed = 1000 * chooser.round + place
            updates.append(None if silent else train(model, loaders[k], seed))
        state = model.state_dict()  # its tensors are the model's own
        for weight, update in zip(chooser.report(cohort, updates), updates, strict=True):
            for name, change in (update or {}).items():
                state[name] += float(weight) * change
        if checkpoint:
            torch.save({"model": model.state_dict(), "cohorts": chooser.state_dict()}, file)
    model.eval()
    with torch.no_grad():
        correct = sum(int((model(x).argmax(1) == y).sum()) for x, y in test)
    return correct / len(test.dataset)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    rounds = int(arguments[0]) if arguments else 30
    accuracy = main(rounds, *arguments[1:2])
    print(f"accuracy after {rounds} rounds: {accuracy:.3f}")
