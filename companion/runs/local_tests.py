"""Test sets of the clients' own, as Fraboni et al. measure (Section 6): a fifth of the training size each.

Noted of the final model of runs whose clients have unequal sizes, beside the accuracies of `History.frame`.
"""

from __future__ import annotations

import numpy as np
import torch

from fedstas.allocation import largest_remainder
from fedstas.sim import engine
from fedstas.sim.partition import Federation
from fedstas.sim.rng import stream

SHARE = 0.2  # of the training size


def dealt(federation: Federation, labels, seed: int, share: float = SHARE) -> list[np.ndarray]:
    """Indices of test examples for each client: floor(share n_k) of them under its own class shares, drawn with
    replacement within a class, as its training examples are."""
    pools = [np.flatnonzero(labels == c) for c in range(federation.label_counts.shape[1])]
    found = []
    for k, counts in enumerate(federation.label_counts):
        size = int(share * counts.sum() + 1e-9)
        own = largest_remainder(counts * size / max(1, counts.sum()), size)
        rng = stream(seed, "local test", k)
        drawn = [rng.choice(pool, n) for pool, n in zip(pools, own, strict=True) if n]
        found.append(np.sort(np.concatenate(drawn)) if drawn else np.zeros(0, dtype=np.int64))
    return found


def accuracy(task, federation: Federation, params: np.ndarray, seed: int) -> float:
    """The accuracy of a model [P] on the clients' own test sets, each counted by its size: the papers' mean over
    clients with weights n_k."""
    module, flat = task.model(0), torch.from_numpy(params).to(task.device)
    _, said = engine.evaluate(module, flat, task.test_x, task.test_y)
    right = (said == task.test_y).cpu().numpy()
    return float(right[np.concatenate(dealt(federation, task.test_y.cpu().numpy(), seed))].mean())
