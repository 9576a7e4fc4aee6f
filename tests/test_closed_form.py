"""Heads in closed form: federated ones equal pooled ones, and clients pay for what they send."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from tqdm import tqdm

from companion.runs import closed_form_heads, comparison, fine_tuning
from fedstas import closed_form
from fedstas.errors import InputError
from fedstas.sim import models, tasks

CLASSES = 3


def make_examples(n=60, d=5, seed=0):
    """Return features [n, d], whose mean depends on the class, and labels [n] in random order."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    return rng.normal(size=(n, d)) + np.eye(CLASSES, d)[y], y


def sum_statistics(x, y, shards):
    """Return the sum of the clients' statistics."""
    parts = [closed_form.compute_statistics(x[s], y[s], CLASSES) for s in shards]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_the_federated_heads_are_the_pooled_ones_in_every_partition():
    x, y = make_examples()
    x = np.round(64 * x)  # whole numbers: sums are exact in any order
    pooled = closed_form.compute_statistics(x, y, CLASSES)
    by_class = [np.flatnonzero(y == c) for c in range(CLASSES)]
    for shards in (np.array_split(np.arange(60), 7), by_class, np.arange(60)[:, None]):
        total = sum_statistics(x, y, shards)
        np.testing.assert_array_equal(
            closed_form.ridge_head(total, 0.5), closed_form.ridge_head(pooled, 0.5)
        )
        np.testing.assert_array_equal(
            closed_form.class_means_head(total), closed_form.class_means_head(pooled)
        )


def test_the_ridge_head_is_scikit_learns_ridge_regression_of_one_hot_labels():
    x, y = make_examples()
    head = closed_form.ridge_head(closed_form.compute_statistics(x, y, CLASSES), 2.0)
    extended = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    sklearn_head = Ridge(alpha=2.0, fit_intercept=False).fit(extended, np.eye(CLASSES)[y])
    np.testing.assert_allclose(head, sklearn_head.coef_.T, rtol=1e-9, atol=1e-12)


def test_class_means_of_length_one_predict_the_nearest_centroid():
    """Among centroids of one length, the nearest has the largest inner product."""
    x = np.repeat(np.eye(CLASSES, 4), 5, axis=0) + 0.1 * np.random.default_rng(1).normal(
        size=(15, 4)
    )
    y = np.repeat(np.arange(CLASSES), 5)
    x /= np.linalg.norm([x[y == c].mean(0) for c in range(CLASSES)], axis=1)[y, None]
    head = closed_form.class_means_head(closed_form.compute_statistics(x, y, CLASSES))
    np.testing.assert_allclose(np.linalg.norm(head[:-1], axis=0), 1)
    new = np.random.default_rng(2).normal(size=(50, 4))
    nearest = NearestCentroid().fit(x, y).predict(new)
    np.testing.assert_array_equal(closed_form.predict(head, new), nearest)


def test_a_class_that_nobody_has_is_never_predicted():
    x, y = make_examples()
    has_other_class = y != 1
    statistics = closed_form.compute_statistics(x[has_other_class], y[has_other_class], CLASSES)
    head = closed_form.class_means_head(statistics)
    assert 1 not in closed_form.predict(head, x)
    with pytest.raises(InputError, match="a class without examples"):
        closed_form.as_parameters(head)


def test_a_head_as_parameters_is_a_start_of_the_linear_layer():
    task = tasks.load("digits")
    x, y = task.train_x.flatten(1).double().numpy(), task.train_y.numpy()
    head = closed_form.ridge_head(closed_form.compute_statistics(x, y, task.classes), 1.0)
    import torch

    layer = torch.nn.Linear(x.shape[1], task.classes)
    flat = torch.from_numpy(closed_form.as_parameters(head, scale=3.0))
    assert flat.shape == models.flatten(layer).shape
    weight, bias = flat[: layer.weight.numel()].view_as(layer.weight), flat[layer.weight.numel() :]
    logits = torch.from_numpy(x).float() @ weight.T + bias
    np.testing.assert_array_equal(logits.argmax(1).numpy(), closed_form.predict(head, x))
    expected = 3.0 * (x @ head[:-1] + head[-1])
    np.testing.assert_allclose(logits.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("examples", [1, 4, 6, 50])
def test_a_client_pays_for_the_numbers_of_the_triangular_factor(examples):
    x = np.random.default_rng(0).normal(size=(examples, 5))
    extended = np.concatenate([x, np.ones((examples, 1))], axis=1)
    factor = np.linalg.qr(extended, mode="r")
    numbers = np.triu(np.ones_like(factor)).sum()
    gram = closed_form.compute_statistics(x, np.zeros(examples), 1).gram
    np.testing.assert_allclose(factor.T @ factor, gram, atol=1e-12)  # the server loses nothing
    means = closed_form.count_bytes_of_means(examples, 5, 2)
    assert means == 4 * 2 * 6
    assert closed_form.count_bytes_of_ridge(examples, 5, 2) == 4 * numbers + means


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1]}, "3 rows of features and 2 labels"),
        ({"labels": [0, 1, 3]}, "labels are"),
        ({"features": [[1.0], [np.nan], [0.0]]}, "features"),
    ],
)
def test_bad_input_is_named(change, message):
    inputs = {"features": np.ones((3, 1)), "labels": [0, 1, 2], "classes": 3} | change
    with pytest.raises(InputError, match=message):
        closed_form.compute_statistics(**inputs)


def test_features_whose_squares_overflow_are_refused():
    with pytest.raises(InputError, match="squares are no finite numbers: divide all clients'"):
        closed_form.compute_statistics([[1e200, -1e200], [1.0, 2.0]], [0, 1], 2)


def test_statistics_of_other_shapes_do_not_add():
    one, two = (closed_form.compute_statistics(np.ones((2, d)), [0, 1], 2) for d in (1, 2))
    with pytest.raises(InputError, match="cannot be added"):
        one + two


def test_all_clients_statistics_give_the_same_accuracy_in_every_partition(monkeypatch):
    setting = comparison.read()["cifar10-features"]
    object.__setattr__(setting, "task", "digits")
    task = tasks.load("digits")
    flat = task.train_x.flatten(1).double().numpy(), task.test_x.flatten(1).double().numpy()
    monkeypatch.setattr(closed_form_heads, "_load", lambda name: (task, *flat))
    monkeypatch.setattr(closed_form_heads, "choose_penalty", lambda name: (1.0, {}))
    tables = [closed_form_heads.measure(setting, seed) for seed in (0, 1)]
    last = [table.groupby("head")["accuracy"].last() for table in tables]
    np.testing.assert_array_equal(last[0], last[1])
    for table in tables:
        for _, part in table.groupby("head"):
            assert (np.diff(part["megabytes"]) > 0).all()


@pytest.fixture
def small():
    """A setting of the comparison on digits, a few rounds long."""
    small = {"task": "digits", "clients": 12, "clients_per_round": 3, "rounds": 4}
    return replace(comparison.read()["cifar10-features"], **small)


def test_fine_tuning_starts_from_the_head_and_changes_it(small):
    """At a vanishing learning rate the model is the head; the seeds of tuning are tested on the validation split."""
    still, moved = (
        fine_tuning.measure(small, "md", comparison.Candidate(lr, "constant"), 0, "class means")
        for lr in (1e-9, 1.0)
    )
    assert still["average"] == still["raw"] == pytest.approx(still["of_head"])
    assert moved["of_head"] == still["of_head"] > 0.5 and moved["average"] != still["average"]
    assert still["megabytes"] == pytest.approx(4 * 3 * 2 * 4 * 650 / 1e6, rel=0.35)
    tuning = fine_tuning.measure(
        small, "md", comparison.Candidate(1e-9, "constant"), 104, "class means"
    )
    split = tasks.load("digits-validation")
    correct = tuning["of_head"] * len(split.test_y)
    assert correct == pytest.approx(round(correct)) and len(split.test_y) != len(
        tasks.load("digits").test_y
    )


def test_the_scale_has_the_smallest_loss_of_all():
    scale = fine_tuning.choose_scale("digits", "class means")
    assert fine_tuning.SCALES[0] < scale < fine_tuning.SCALES[-1]


def test_fine_tuning_extends_its_grid_and_makes_no_run_twice(monkeypatch, tmp_path):
    calls = []

    def measure(setting, arm, candidate, seed, kind):
        calls.append((candidate.lr, seed))
        return {"arm": arm, "lr": candidate.lr, "seed": seed, "average": -abs(candidate.lr - 3)}

    monkeypatch.setattr(fine_tuning, "measure", measure)
    setting, path = comparison.read()["newsgroups"], tmp_path / "newsgroups.parquet"
    for _ in range(2):
        with tqdm(disable=True) as bar:
            fine_tuning.record_arm(setting, "md", "cosine", path, bar)
        rates = {lr for lr, seed in calls if seed in fine_tuning.TUNING_SEEDS}
        assert rates == {*fine_tuning.RATES, 3.0, 9.0}
        assert [call for call in calls if call[1] in fine_tuning.SEEDS] == [
            (3.0, seed) for seed in fine_tuning.SEEDS
        ]
    assert len(calls) == 7 * 2 + 5


def test_the_outcomes_of_fine_tuning_are_paired_with_the_head_and_with_the_best_design():
    seeds = fine_tuning.SEEDS
    table = pd.DataFrame(
        [
            {"setting": "s", "arm": "md", "seed": seed, "lr": 0.1, "of_head": 0.6}
            | {"average": 0.7 + 0.01 * (seed > 2), "megabytes": 2.0, "megabytes_of_head": 3.0}
            for seed in (*seeds, *fine_tuning.TUNING_SEEDS)
        ]
    )
    rounds = {"md": 65.0, "hics-fl": 69.0, comparison.ALL_CLIENTS: 99.0}
    outcomes = pd.DataFrame(
        [
            {"setting": "s", "model": "average", "arm": arm, "seed": seed, "rounds": value}
            for arm, value in rounds.items()
            for seed in range(10)
        ]
    )
    (row,) = fine_tuning.compute_outcomes(table, outcomes).to_dict("records")
    other_rate = table.assign(lr=0.3, average=table["average"] - 0.1)  # worse in tuning, too
    (same,) = fine_tuning.compute_outcomes(pd.concat([table, other_rate]), outcomes).to_dict(
        "records"
    )
    assert same == row and row["lr"] == 0.1
    assert row["best"] == "hics-fl" and row["seeds"] == 5 and row["megabytes"] == 5.0
    assert row["over_head"] == pytest.approx(10.4) and row["over_best"] == pytest.approx(1.4)
