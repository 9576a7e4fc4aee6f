"""Clients' local test sets: their sizes, their classes, and the accuracy that is recorded with a run."""

import json

import numpy as np
import torch

from companion.runs import experiments, local_tests, records, sweeps
from fedstas import partition

LABELS, TEST = np.repeat(np.arange(4), 100), np.repeat(np.arange(4), 7)


def test_a_clients_test_set_has_a_fifth_of_its_size_and_its_class_shares():
    federation = partition.federation(LABELS, [range(100), range(75, 125), [], [0, 1, 2, 100]])
    test_sets = local_tests.draw_test_sets(federation, TEST, seed=3)
    assert [len(rows) for rows in test_sets] == [20, 10, 0, 0]
    assert np.bincount(TEST[test_sets[0]]).tolist() == [20]  # more than there are: with replacement
    assert np.bincount(TEST[test_sets[1]]).tolist() == [5, 5]
    assert all((np.diff(rows) >= 0).all() for rows in test_sets)
    same_seed, another_seed = (
        local_tests.draw_test_sets(federation, TEST, seed) for seed in (3, 4)
    )
    assert (
        [a.tolist() for a in same_seed]
        == [a.tolist() for a in test_sets]
        != [a.tolist() for a in another_seed]
    )


def test_local_accuracy_weights_clients_by_their_sizes(digits):
    """A model that always predicts 3 has the accuracy of the share of threes among all local test examples."""
    y = digits.train_y.numpy()
    federation = partition.federation(
        y, [np.flatnonzero(y == 3)[:100], np.flatnonzero(y == 5)[:50]]
    )
    named_parameters = digits.model(0).named_parameters()
    parts = [torch.zeros_like(p) for _, p in named_parameters]
    parts[-1][3] = 1.0
    flat = torch.cat([p.flatten() for p in parts]).detach().numpy()
    assert local_tests.accuracy(digits, federation, flat, seed=0) == 20 / 30


def test_only_runs_of_clients_of_unequal_sizes_record_local_accuracy(digits, tmp_path):
    setting = ("digits", "dirichlet_fixed_size", 0.1, "md", 0)  # concentration, method, seed
    small = experiments.SMALL | {"clients": 6, "rounds": 1}
    runs = [sweeps.Run(*setting, **small, sizes="20x3,60x3"), sweeps.Run(*setting, **small)]
    assert sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False) == []
    metadata = [run.metadata for run in records.read_runs(tmp_path)]
    # By the number of distinct sizes: 2 in the run of 20 and 60 examples, 1 in the other.
    by_sizes = {
        len(set(metadata_of_run["identity"]["partition"]["sizes"])): metadata_of_run
        for metadata_of_run in metadata
    }
    assert by_sizes[1]["local_accuracy"] is None
    repeated = records.rerun(by_sizes[2]["run"], tmp_path, device="cpu")
    federation = partition.from_recipe(digits.train_y, by_sizes[2]["identity"]["partition"])
    accuracy = by_sizes[2]["local_accuracy"]
    assert accuracy == local_tests.accuracy(digits, federation, repeated.params, 0)
    # Of 3 x 4 + 3 x 12 test examples: a client has a fifth as many as it has training examples.
    assert np.isclose(48 * accuracy, round(48 * accuracy))
    records.pack(tmp_path / "trial")
    table = {run.run: run.metadata for run in records.read_runs(tmp_path)}
    assert json.dumps(table[by_sizes[2]["run"]]["local_accuracy"]) == json.dumps(accuracy)
    assert table[by_sizes[1]["run"]]["local_accuracy"] is None
