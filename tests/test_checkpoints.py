"""Checkpoints and locks of runs in progress: a run resumes exactly or not at all, a lock ends with its holder."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from companion.runs import records
from fedstas import methods
from fedstas.errors import InputError
from fedstas.sim import run_file, simulation

HOW = {"rounds": 5, "clients_per_round": 4, "seed": 2, "eval_every": 2}
HOLD = """
import sys, time
from pathlib import Path
from companion.runs import records
with records.run_lock(Path({!r})) as acquired:
    print(acquired, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module", params=["clustered-similarity", "fedadam", "fedstas-authors-dec"])
def interrupted(request, digits, federation):
    """The identity of a run of each kind of state, and a function that makes it."""
    method = methods.get(request.param, lr=0.1)
    identity = records.identity(digits, federation, method, **HOW)
    return identity, lambda **how: simulation.run(
        digits, federation, method, device="cpu", **(HOW | how)
    )


def assert_equal_histories(one, two):
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(one.frame.drop(**drop), two.frame.drop(**drop), check_exact=True)
    np.testing.assert_array_equal(one.params, two.params)
    assert [c.tolist() for c in one.cohorts] == [c.tolist() for c in two.cohorts]


def test_every_checkpoint_resumes_to_the_same_run(interrupted, tmp_path):
    identity, run = interrupted
    data, contents = tmp_path / "run.parquet", []

    def keep(history):
        records.write_checkpoint(history, identity, data, "cpu")
        contents.append(records.checkpoint_file(data).read_bytes())

    complete = run(checkpoint=keep)
    assert len(contents) == 2  # rounds 2 and 4; the last is the run's own file
    for content, t in zip(contents, (2, 4), strict=True):
        records.checkpoint_file(data).write_bytes(content)
        resume = records.read_checkpoint(identity, data, "cpu")
        assert resume.state.round == t
        assert_equal_histories(run(resume=resume), complete)


@pytest.fixture
def checkpoint(digits, federation, tmp_path):
    """A checkpoint on disk: the identity of its run, and the run's parquet file."""
    method = methods.get("fedstas-unbiased", strata=3)
    identity, data = records.identity(digits, federation, method, **HOW), tmp_path / "run.parquet"

    def write(history):
        records.write_checkpoint(history, identity, data, "cpu")

    simulation.run(digits, federation, method, device="cpu", checkpoint=write, **HOW)
    return identity, data


def test_no_checkpoint_is_no_history(tmp_path):
    assert records.read_checkpoint({}, tmp_path / "run.parquet", "cpu") is None


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "pickle"])
def test_a_damaged_checkpoint_is_named(checkpoint, damage):
    identity, data = checkpoint
    path = records.checkpoint_file(data)
    content = path.read_bytes()
    half = len(content) // 2
    damaged = {
        "empty": b"",
        "cut": content[:half],
        "flipped": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
        "pickle": b"fedstas checkpoint 2\n" + b"x" * 99,  # as checkpoints once were
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(InputError, match=r"\.run\.checkpoint is damaged"):
        records.read_checkpoint(identity, data, "cpu")


def test_a_checkpoint_of_another_run_or_version_is_named(checkpoint, monkeypatch):
    identity, data = checkpoint
    with pytest.raises(InputError, match=r"\.run\.checkpoint is of a run with other settings"):
        records.read_checkpoint(identity | {"seed": 9}, data, "cpu")
    environment = records._environment("cpu")
    monkeypatch.setattr(records, "_environment", lambda device: environment | {"versions": {}})
    with pytest.raises(InputError, match=r"\.run\.checkpoint is of a run with other settings"):
        records.read_checkpoint(identity, data, "cpu")


def test_a_checkpoint_holds_no_objects_and_names_no_classes_but_those_of_designs(checkpoint):
    identity, data = checkpoint
    path = records.checkpoint_file(data)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    for plain in (
        {"subprocess:Popen": {"dict": []}},
        {"companion.runs.records:Record": {"dict": []}},
    ):
        with pytest.raises(InputError, match="which its method does not declare"):
            run_file.decode(plain, arrays)
    arrays["params"] = np.array([{}], dtype=object)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InputError, match=r"is damaged \(ValueError\)"):
        records.read_checkpoint(identity, data, "cpu")


def test_a_full_disk_leaves_the_checkpoint_before(checkpoint, monkeypatch):
    identity, data = checkpoint
    before = records.checkpoint_file(data).read_bytes()
    history = records.read_checkpoint(identity, data, "cpu")

    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_file.Path, "open", full)
    records.write_checkpoint(history, identity, data, "cpu")
    monkeypatch.undo()
    assert records.checkpoint_file(data).read_bytes() == before
    assert [p.name for p in data.parent.iterdir()] == [".run.checkpoint"]


@pytest.mark.slow
def test_a_lock_ends_with_its_holder_even_if_that_is_killed(tmp_path):
    data = tmp_path / "sub" / "run.parquet"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(str(data))], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline().strip() == b"True"
        with records.run_lock(data) as acquired:
            assert not acquired
        assert [p.name for p in data.parent.iterdir()] == [".run.lock"]
    finally:
        holder.kill()
        holder.communicate()
    with records.run_lock(data) as acquired:
        assert acquired
        with records.run_lock(data) as second:
            assert not second  # a thread of the same process is another holder
    assert list(data.parent.iterdir()) == []


def test_a_lock_file_that_is_removed_meanwhile_locks_nobody_out_and_lets_nobody_in_twice(tmp_path):
    data = tmp_path / "run.parquet"
    for _ in range(3):
        with records.run_lock(data) as acquired:
            assert acquired
            with records.run_lock(data) as second:
                assert not second


def test_an_error_inside_frees_the_lock(tmp_path):
    data = tmp_path / "run.parquet"
    with pytest.raises(OSError, match="inside"), records.run_lock(data):
        raise OSError("inside")
    with records.run_lock(data) as acquired:
        assert acquired
