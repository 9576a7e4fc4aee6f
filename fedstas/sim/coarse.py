"""CIFAR-100 with its superclasses as labels (Krizhevsky 2009), a substitute for CIFAR-10.

`cifar100-coarse` has all twenty superclasses, 50,000 training and 10,000 test images; `cifar100-coarse10` the
first ten by their official numbers, 25,000 and 5,000 images. Each superclass is five classes (fish: aquarium
fish, flatfish, ray, shark, trout), so that both tasks are harder than CIFAR-10.
"""

import numpy as np

# The superclass of each of the 100 classes, in their order (alphabetical: apple, aquarium fish, ...).
_SUPERCLASSES = """
4 1 14 8 0 6 7 7 18 3 3 14 9 18 7 11 3 9 7 11 6 11 5 10 7
6 13 15 3 15 0 11 1 10 12 14 16 9 11 5 5 19 8 8 15 13 14 17 18 10
16 4 17 4 2 0 17 4 18 17 10 3 2 12 12 16 12 1 9 19 2 10 0 1 16
12 9 13 15 13 16 19 2 4 6 19 5 5 8 19 18 1 2 15 6 0 17 8 14 13
"""
COARSE = np.array(_SUPERCLASSES.split(), dtype=np.int64)
CLASSES = {"cifar100-coarse10": 10, "cifar100-coarse": 20}


def regroup(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Turn the arrays of CIFAR-100 (`train_x`, `train_y`, ...) into those of the task `name`, in the same order."""
    result: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        labels = COARSE[arrays[f"{split}_y"]]
        included = labels < CLASSES[name]
        result |= {f"{split}_x": arrays[f"{split}_x"][included], f"{split}_y": labels[included]}
    return result
