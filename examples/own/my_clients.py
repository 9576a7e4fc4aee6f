"""Clients of one's own: the client of each training example, in their order, as an array in a file.

    python my_clients.py        # writes my_clients.npy beside this file

Twenty clinics; each sees tumours of like size, and those of small ones see the most.
"""

from pathlib import Path

import numpy as np
from my_data import task

CLINICS = 20


def clients() -> np.ndarray:
    """Whole numbers or words, one for each training example."""
    radius = task().train_x[:, 0].numpy()
    rank = radius.argsort(kind="stable").argsort(kind="stable") / len(radius)
    return np.floor(CLINICS * rank**2).astype(np.uint8)


if __name__ == "__main__":
    np.save(Path(__file__).with_suffix(".npy"), clients())
