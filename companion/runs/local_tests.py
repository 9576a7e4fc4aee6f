"""Test sets of the clients' own (Fraboni et al. 2021, arXiv 2105.05883, Section 6): a fifth of the training size each.

Recorded is the accuracy of the final model, in runs whose clients have unequal sizes.
"""

from __future__ import annotations

import numpy as np
import torch

from fedstas.allocation import largest_remainder
from fedstas.sim import engine
from fedstas.sim.partition import Federation
from fedstas.sim.rng import stream

SHARE = 0.2  # of the training size


def draw_test_sets(
    federation: Federation, labels, seed: int, share: float = SHARE
) -> list[np.ndarray]:
    """Draw indices of test examples for each client: floor(share n_k) of them under its own class shares, with
    replacement within a class, as its training examples are drawn."""
    pools = [np.flatnonzero(labels == c) for c in range(federation.label_counts.shape[1])]
    test_sets = []
    for k, counts in enumerate(federation.label_counts):
        size = int(share * counts.sum() + 1e-9)  # a whole number stays one, up to rounding errors
        by_class = largest_remainder(counts * size / max(1, counts.sum()), size)
        rng = stream(seed, "local test", k)
        chosen = [rng.choice(pool, n) for pool, n in zip(pools, by_class, strict=True) if n]
        test_sets.append(np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *chosen])))
    return test_sets


def accuracy(task, federation: Federation, params: np.ndarray, seed: int) -> float:
    """Return the accuracy of a model [P] on the clients' own test sets, each counted by its size: the papers' mean
    over clients with weights n_k."""
    module, flat = task.model(0), torch.from_numpy(params).to(task.device)
    _, predicted = engine.evaluate(module, flat, task.test_x, task.test_y)
    right = (predicted == task.test_y).cpu().numpy()
    return float(
        right[np.concatenate(draw_test_sets(federation, task.test_y.cpu().numpy(), seed))].mean()
    )
