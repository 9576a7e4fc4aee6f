"""Linear heads in closed form: each client sends sums over its features once, and nothing is trained.

- Class means: FedNCM (Legate et al. 2023, arXiv:2306.03937).
- Ridge regression of one-hot labels: Fed3R (Fanì et al. 2024, arXiv:2406.01116).

Sums over clients are sums over their pooled examples, so both heads are those of pooled data, however the examples are
dealt to clients. A head is float64 [d + 1, classes], the bias in its last row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstas.arrays import as_float_array, as_int_array
from fedstas.errors import InputError, check_float, check_int

BYTES = 4  # of a number that is sent, as of a model's parameters


@dataclass(frozen=True)
class Statistics:
    """Sums over examples, each with a constant 1 as its last feature; the sums of two groups of examples can be added.

    `gram` [d + 1, d + 1]: of x x^T. `by_class` [d + 1, classes]: of the x of each class, with the class's number of
    examples in the last row.
    """

    gram: np.ndarray
    by_class: np.ndarray

    def __post_init__(self):
        if not np.isfinite(self.gram).all():
            raise InputError(
                "features are so large that their squares are no finite numbers: divide all clients' features by one "
                "number"
            )

    def __add__(self, other: Statistics) -> Statistics:
        """Return the sums over the examples of both."""
        if self.by_class.shape != other.by_class.shape:
            raise InputError(
                f"statistics of shapes {list(self.by_class.shape)} and {list(other.by_class.shape)} cannot be added: "
                "compute both with as many features and classes"
            )
        return Statistics(self.gram + other.gram, self.by_class + other.by_class)


def compute_statistics(features, labels, classes: int) -> Statistics:
    """Compute what clients send, of one client or of many.

    Args:
        features: float [n, d].
        labels: int [n], in 0..classes - 1.
        classes: their number.

    Raises:
        InputError: the lengths differ, a feature is not finite or too large to square, or a label is not a class.
    """
    x, classes = as_float_array("features", features, ndim=2), check_int("classes", classes, 1)
    y = as_int_array("labels", labels, 0, classes - 1)
    if len(x) != len(y):
        raise InputError(f"there are {len(x)} rows of features and {len(y)} labels: give as many")
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # `Statistics` refuses what is not finite
        return Statistics(x.T @ x, x.T @ np.eye(classes)[y])


def class_means_head(statistics: Statistics) -> np.ndarray:
    """Return FedNCM's head: a class's weights are the mean of its features, divided by its length; no bias.

    A class without examples has a bias of minus infinity, so that it is never predicted.
    """
    counts = statistics.by_class[-1]
    means = statistics.by_class[:-1] / np.maximum(counts, 1)
    lengths = np.linalg.norm(means, axis=0)
    head = means / np.where(lengths > 0, lengths, 1.0)
    return np.concatenate([head, np.where(counts > 0, 0.0, -np.inf)[None]])


def ridge_head(statistics: Statistics, penalty: float) -> np.ndarray:
    """Return Fed3R's head: it minimises the sum of squared errors of one-hot labels plus `penalty` times the sum of its
    squares, those of the bias included."""
    penalty = check_float("penalty", penalty, 0)
    return np.linalg.solve(
        statistics.gram + penalty * np.eye(len(statistics.gram)), statistics.by_class
    )


def predict(head: np.ndarray, features) -> np.ndarray:
    """Predict the classes, int [n], of features [n, d]: the largest of the head's values."""
    x = as_float_array("features", features, ndim=2)
    return (x @ head[:-1] + head[-1]).argmax(axis=1)


def as_parameters(head: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Return a head as the parameters float32 [P] of a linear layer, from which softmax regression can start.

    Args:
        head: without infinite numbers.
        scale: of the logits, the inverse of the softmax's temperature, which Fed3R calibrates.
    """
    scale = check_float("scale", scale, 0)
    values = scale * np.concatenate([head[:-1].T.ravel(), head[-1]])
    if not np.isfinite(values).all():
        raise InputError("the head has a class without examples: no training can start from it")
    return values.astype(np.float32)


def count_bytes_of_means(examples: int, features: int, present: int) -> int:
    """Return the bytes that a client sends for class means: a mean and a count of each class that it has.

    Args:
        examples: of the client; none, nothing is sent.
        features: d.
        present: classes of which the client has examples.
    """
    return BYTES * present * (features + 1) if examples else 0


def count_bytes_of_ridge(examples: int, features: int, present: int) -> int:
    """Return the bytes that a client sends for ridge regression, its arguments as in `count_bytes_of_means`.

    Instead of the Gram matrix the client sends its triangular factor, from which the server restores it: with fewer
    examples than features the factor has only as many rows.
    """
    width = features + 1
    rows = min(examples, width)
    factor = rows * width - rows * (rows - 1) // 2
    return BYTES * factor + count_bytes_of_means(examples, features, present)
