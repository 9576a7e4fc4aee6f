"""The six clients of the book: their numbers, strata and drawing."""

from itertools import combinations, product

import matplotlib
import numpy as np
import pytest
from torch import nn, tensor, zeros

from companion.pages import six_clients as six
from fedstas.theory import least_variance

matplotlib.use("Agg")


def partitions(groups: int):
    """Return all partitions of six clients into so many groups, each once."""
    canonical = {}
    for labels in product(range(groups), repeat=6):
        first = {label: place for place, label in reversed(list(enumerate(labels)))}
        if len(first) == groups:
            order = sorted(first, key=first.get)
            canonical.setdefault(tuple(order.index(label) for label in labels))
    return [np.array(labels) for labels in canonical]


def test_an_update_is_one_step_of_sgd_from_equal_predictions():
    logits = zeros(3, requires_grad=True)
    for counts, update in zip(six.COUNTS, six.UPDATES, strict=True):
        labels = tensor(np.repeat(np.arange(3), counts))
        logits.grad = None
        nn.functional.cross_entropy(logits.expand(len(labels), 3), labels).backward()
        np.testing.assert_allclose(-logits.grad.numpy(), update, atol=1e-6)


def test_the_strata_are_the_best_of_all_partitions():
    def k_means_cost(labels):
        return sum(
            np.square(six.UPDATES[labels == h] - six.UPDATES[labels == h].mean(0)).sum()
            for h in range(3)
        )

    all_partitions = partitions(3)
    assert len(all_partitions) == 90
    assert (min(all_partitions, key=k_means_cost) == six.K_MEANS_STRATA).all()
    squared_distances = np.square(six.UPDATES[:, None] - six.UPDATES).sum(axis=2)
    labels, variance = least_variance.best_partition(
        np.outer(six.OMEGA, six.OMEGA) * squared_distances, 3
    )
    assert variance == pytest.approx(
        0.158 * 107 / 2400, rel=0.01
    )  # 15.8 % of MD's with m = 3, which is 107/2400
    same_stratum = np.equal.outer(labels, labels)
    assert (
        same_stratum == np.equal.outer(six.LEAST_VARIANCE_STRATA, six.LEAST_VARIANCE_STRATA)
    ).all()


def test_a_drawing_has_all_clients_and_the_table_all_examples():
    pairs = {f"{j}{k}": {"cohort": (j, k)} for j, k in combinations(range(3), 2)}
    figure = six.draw(pairs, columns=3)
    assert len(figure.axes) == 3
    for ax in figure.axes:
        assert {*six.NAMES, *six.CLASSES, "all clients"} <= {t.get_text() for t in ax.texts}
    table = six.tabulate()
    assert table["examples"].tolist() == [30, 30, 20, 20, 10, 10, 120]
