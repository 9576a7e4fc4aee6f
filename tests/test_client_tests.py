"""Test examples that belong to clients: which client has which, and the accuracies that a run reports of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from fedstas import cli, methods, partition, simulation, user_data
from fedstas.errors import InputError
from fedstas.sim import run_file


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def write_pfllib(clients=12, tests=3):
    """Write a folder of PFLlib, whose last client has no test example."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", tests)):
        Path("p", split).mkdir(parents=True)
        for client in range(clients - (split == "test")):
            y = np.arange(client, client + count) % 4
            x = rng.normal(size=(count, 1, 2, 2)) + np.eye(4)[y].reshape(count, 1, 2, 2)
            np.savez_compressed(f"p/{split}/{client}.npz", data={"x": x.astype("f"), "y": y})


def run(task, federation, **options):
    """Run MD sampling on a small federation, for six rounds unless options say otherwise."""
    options = {"rounds": 6, "clients_per_round": 3, "seed": 0, "device": "cpu"} | options
    return simulation.run(task, federation, methods.get("md", lr=0.5), **options)


def test_a_run_reports_each_clients_accuracy_on_its_own_test_examples():
    write_pfllib()
    task = user_data.from_pfllib("p")
    federation = partition.make(
        "natural", task.train_y, users=task.users, test_users=task.test_users
    )
    history = run(task, federation)
    module = task.model(0)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(history.params), module.parameters())
    is_correct = (module(task.test_x).argmax(1) == task.test_y).numpy()
    expected = is_correct.reshape(11, 3).mean(1)  # as the files hold them, three a client
    assert history.client_accuracies[:11].tolist() == expected.tolist()
    assert np.isnan(history.client_accuracies[11])  # of no test example there is no accuracy
    last = history.frame.iloc[-1]
    assert last.own_test_accuracy == expected.mean() > 0.3
    assert last.own_test_worst_decile == expected.min()  # of 11 clients the tenth is one


def test_a_run_of_clients_with_own_tests_is_the_same_run_and_can_be_continued():
    write_pfllib()
    task = user_data.from_pfllib("p")
    users = {"users": task.users, "test_users": task.test_users}
    federation = partition.make("natural", task.train_y, **users)
    plain = run(task, partition.make("natural", task.train_y, users=task.users))
    uninterrupted, first = run(task, federation), run(task, federation, rounds=3)
    assert plain.client_accuracies is None
    assert np.array_equal(plain.params, uninterrupted.params)  # measuring changes nothing
    file = Path("half")
    assert run_file.save_history(file, {}, first) == ""
    first = run_file.load_history(file, {}, methods.get("md", lr=0.5))
    resumed = run(task, federation, resume=first)
    pd.testing.assert_frame_equal(
        resumed.frame.drop(columns="seconds"), uninterrupted.frame.drop(columns="seconds")
    )
    np.testing.assert_array_equal(resumed.client_accuracies, uninterrupted.client_accuracies)
    with pytest.raises(InputError, match="resume: the history is of another task, federation"):
        run(task, partition.make("natural", task.train_y, users=task.users), resume=first)


def test_the_worst_decile_is_the_mean_of_the_lowest_tenth():
    assert simulation.worst_decile(np.arange(20)[::-1]) == 0.5
    assert simulation.worst_decile([0.7, 0.2]) == 0.2  # at least one client


def test_users_of_test_examples_are_matched_by_name():
    x, y = np.random.default_rng(0).random((8, 3)), np.tile([0, 1], 4)
    test = (x[:5] + 1, [0, 1, 0, 1, 0])
    task = user_data.from_arrays(x, y, *test, users=[*"bbccaadd"], test_users=[*"acxab"])
    assert task.users.tolist() == [1, 1, 2, 2, 0, 0, 3, 3]
    assert task.test_users.tolist() == [0, 2, -1, 0, 1]
    # "01" among the training examples makes words of all, so that "1" is not "01".
    task = user_data.from_arrays(x, y, *test, users=["01", "1"] * 4, test_users=[1, 1, 2, 1, 1])
    assert task.test_users.tolist() == [1, 1, -1, 1, 1]
    federation = partition.natural(y, ["u", "v"] * 4, 2, 0, test_users=["v", "w", "u", "v"])
    assert [rows.tolist() for rows in federation.tests] == [[2], [0, 3]]


def test_held_out_examples_have_the_users_that_they_had():
    x, y = np.arange(40, dtype=np.float32)[:, None], np.tile([0, 1], 20)
    task = user_data.from_arrays(x, y, users=np.arange(40) // 10)
    assert (task.test_users == task.test_x[:, 0].numpy() // 10).all() and len(task.test_users) == 8


def test_readers_know_whose_the_test_examples_are():
    rows = [f"{k % 2},{k / 7},{'ab'[k % 4 // 2]}" for k in range(12)]
    for name in ("train.csv", "test.csv"):
        Path(name).write_text("\n".join(["y,x,clinic", *rows]) + "\n", encoding="utf-8")
        rows = rows[::-1][:4]
    task = user_data.from_csv("train.csv", "y", "test.csv", client="clinic")
    assert task.test_users.tolist() == [1, 1, 0, 0]
    leaf = {"users": ["b"], "user_data": {"b": {"x": [[0.0], [1.0]], "y": [0, 1]}}}
    for name, extra in (("train.json", {"a": leaf["user_data"]["b"]}), ("test.json", {})):
        content = {"users": [*extra, "b"], "user_data": leaf["user_data"] | extra}
        Path(name).write_text(json.dumps(content), encoding="utf-8")
    assert user_data.from_leaf("train.json", "test.json").test_users.tolist() == [1, 1]


def test_a_federation_takes_own_tests_by_number_or_by_name():
    labels = np.arange(12) % 2
    assert partition.federation(labels, [[0], [1]]).tests is None
    federation = partition.federation(labels, {"b": [4], "a": [0]}, tests={"a": [7, 8], "b": []})
    assert [rows.tolist() for rows in federation.tests] == [[7, 8], []]
    for tests, message in (
        ([[1]], r"tests are \[\[1\]\]: give them for the same 2 clients as the shards"),
        ({"a": [1], "b": [2]}, "in the same form"),
        ([[1], [-2]], r"the test examples of client 1 are \[-2\]"),
        ([[1], [0.5]], r"the test examples of client 1 "),
    ):
        with pytest.raises(InputError, match=message):
            partition.federation(labels, [[0], [1]], tests=tests)
    with pytest.raises(InputError, match=r"must name the same clients, and '[bc]' is in one"):
        partition.federation(labels, {"a": [0], "b": [1]}, tests={"a": [1], "c": [2]})


def test_own_tests_that_the_task_does_not_have_are_refused(digits):
    federation = partition.federation(digits.train_y, [[0, 1], [2, 3]], tests=[[0], [10**6]])
    with pytest.raises(InputError, match="1000000 is named"):
        run(digits, federation, clients_per_round=1)
    x, y = np.zeros((8, 2)), np.tile([0, 1], 4)
    with pytest.raises(InputError, match="test_users are of use only with users and with test_x"):
        user_data.from_arrays(x, y, users=y, test_users=y)
    with pytest.raises(
        InputError, match=r"test_users has shape \(1,\): it must be one for each of 8"
    ):
        user_data.from_arrays(x, y, x + 1, y, users=y, test_users=[1])


def test_a_test_set_of_other_users_is_tested_on_as_a_whole(digits):
    x, y = np.random.default_rng(0).random((8, 3)), np.tile([0, 1], 4)
    whose = {"users": [*"aabbccdd"], "test_users": [*"xxyy"]}
    task = user_data.from_arrays(x, y, x[:4] + 1, y[:4], **whose)
    users = {"users": task.users, "test_users": task.test_users}
    with pytest.warns(UserWarning, match="the users of the test examples are none of the clients"):
        federation = partition.make("natural", task.train_y, **users)
    assert federation.tests is None
    assert "own_test_accuracy" not in run(task, federation).frame
    federation = partition.federation(digits.train_y, [[0, 1], [2, 3]], tests=[[], []])
    history = run(digits, federation, clients_per_round=1, rounds=1)
    assert history.client_accuracies is None


def test_the_command_prints_and_records_the_clients_accuracies():
    write_pfllib()
    Path("mine.py").write_text(
        "from fedstas import user_data\n\ndef task():\n    return user_data.from_pfllib('p')\n",
        encoding="utf-8",
    )
    options = "--partition natural --method md --clients-per-round 3 --rounds 4 --out o.parquet"
    result = CliRunner().invoke(cli.app, ["run", "--task", "mine.py", *options.split()])
    assert result.exit_code == 0, result.output
    frame = pd.read_parquet("o.parquet")
    accuracies = frame.attrs["fedstas"]["client_accuracies"]
    assert len(accuracies) == 12 and np.isnan(accuracies[11])
    assert np.nanmean(accuracies) == pytest.approx(frame.own_test_accuracy.iloc[-1])
    text = f"which 11 of 12 have: accuracy {np.nanmean(accuracies):.2%} on average, {min(accuracies[:11]):.2%} over"
    assert text in result.output
    options = options.replace("o.parquet", "averaged.parquet --average 0.9")
    result = CliRunner().invoke(cli.app, ["run", "--task", "mine.py", *options.split()])
    assert text.replace("accuracy", "accuracy of the last model") in result.output
