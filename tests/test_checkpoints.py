"""Checkpoints and locks of runs in progress: a run resumes exactly or not at all, a lock ends with its holder."""

import subprocess
import sys

import numpy as np
import pytest
from test_simulation import assert_same_histories

from companion.runs import records
from fedstas import methods
from fedstas.errors import InputError
from fedstas.sim import run_file, simulation

SETTINGS = {"rounds": 5, "clients_per_round": 4, "seed": 2, "eval_every": 2}
HOLD_LOCK = """
import sys, time
from pathlib import Path
from companion.runs import records
with records.run_lock(Path({!r})) as acquired:
    print(acquired, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module", params=["clustered-similarity", "fedadam", "fedstas-authors-dec"])
def identity_and_run(request, digits, federation):
    """Return the identity of a run, and a function that trains it; one run for each kind of state."""
    method = methods.get(request.param, lr=0.1)
    identity = records.identity(digits, federation, method, **SETTINGS)
    return identity, lambda **changes: simulation.run(
        digits, federation, method, device="cpu", **(SETTINGS | changes)
    )


def test_a_run_resumed_from_any_of_its_checkpoints_equals_the_uninterrupted_run(
    identity_and_run, tmp_path
):
    identity, run = identity_and_run
    data, contents = tmp_path / "run.parquet", []

    def store_checkpoint(history):
        records.write_checkpoint(history, identity, data, "cpu")
        contents.append(records.checkpoint_file(data).read_bytes())

    complete = run(checkpoint=store_checkpoint)
    assert len(contents) == 2  # rounds 2 and 4; the last is the run's own file
    for content, t in zip(contents, (2, 4), strict=True):
        records.checkpoint_file(data).write_bytes(content)
        resume = records.read_checkpoint(identity, data, "cpu")
        assert resume.state.round == t
        assert_same_histories(run(resume=resume), complete)


@pytest.fixture
def checkpoint(digits, federation, tmp_path):
    """Write the checkpoint of a run; return the run's identity and the path of its parquet file."""
    method = methods.get("fedstas-unbiased", strata=3)
    identity, data = (
        records.identity(digits, federation, method, **SETTINGS),
        tmp_path / "run.parquet",
    )

    def write(history):
        records.write_checkpoint(history, identity, data, "cpu")

    simulation.run(digits, federation, method, device="cpu", checkpoint=write, **SETTINGS)
    return identity, data


def test_reading_a_checkpoint_that_does_not_exist_returns_none(tmp_path):
    assert records.read_checkpoint({}, tmp_path / "run.parquet", "cpu") is None


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "pickle"])
def test_the_error_of_a_damaged_checkpoint_names_its_file(checkpoint, damage):
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


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "open", refuse)
    with (
        pytest.raises(InputError, match=r"run.npz cannot be read \(Permission denied\): make it"),
        run_file.open_run_file(tmp_path / "run.npz"),
    ):
        pass


def test_a_checkpoint_of_another_run_or_of_other_package_versions_is_refused(
    checkpoint, monkeypatch
):
    identity, data = checkpoint
    with pytest.raises(InputError, match=r"\.run\.checkpoint is of a run with other settings"):
        records.read_checkpoint(identity | {"seed": 9}, data, "cpu")
    environment = records._environment("cpu")
    monkeypatch.setattr(records, "_environment", lambda device: environment | {"versions": {}})
    with pytest.raises(InputError, match=r"\.run\.checkpoint is of a run with other settings"):
        records.read_checkpoint(identity, data, "cpu")


def test_a_checkpoint_with_an_undeclared_class_or_a_pickled_object_is_refused(checkpoint):
    identity, data = checkpoint
    path = records.checkpoint_file(data)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    for class_name in ("subprocess:Popen", "companion.runs.records:Record"):
        with pytest.raises(InputError, match="which its method does not declare"):
            run_file.decode({class_name: {"dict": []}}, arrays)
    arrays["params"] = np.array([{}], dtype=object)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InputError, match=r"is damaged \(ValueError\)"):
        records.read_checkpoint(identity, data, "cpu")


def test_a_write_that_fails_on_a_full_disk_keeps_the_previous_checkpoint(checkpoint, monkeypatch):
    identity, data = checkpoint
    before = records.checkpoint_file(data).read_bytes()
    history = records.read_checkpoint(identity, data, "cpu")

    def raise_disk_full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_file.Path, "open", raise_disk_full)
    records.write_checkpoint(history, identity, data, "cpu")
    monkeypatch.undo()
    assert records.checkpoint_file(data).read_bytes() == before
    assert [p.name for p in data.parent.iterdir()] == [".run.checkpoint"]


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free_again(tmp_path):
    data = tmp_path / "sub" / "run.parquet"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK.format(str(data))], stdout=subprocess.PIPE
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
        with records.run_lock(data) as acquired_again:
            assert not acquired_again  # not even by the process that holds it
    assert list(data.parent.iterdir()) == []


def test_a_lock_can_be_acquired_again_after_its_release_deleted_the_lock_file(tmp_path):
    data, lock_file = tmp_path / "run.parquet", tmp_path / ".run.lock"
    for _ in range(3):
        with records.run_lock(data) as acquired:
            assert acquired and lock_file.exists()
            with records.run_lock(data) as acquired_again:
                assert not acquired_again
        assert not lock_file.exists()


def test_an_error_while_the_lock_is_held_frees_it(tmp_path):
    data = tmp_path / "run.parquet"
    with pytest.raises(OSError, match="inside"), records.run_lock(data):
        raise OSError("inside")
    with records.run_lock(data) as acquired:
        assert acquired
