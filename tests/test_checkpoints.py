"""A run in work: its checkpoint resumes it exactly or not at all, its lock ends with its holder."""

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fedstas import atomic, checkpoints, methods, records, simulation
from fedstas.errors import InputError

HOW = {"rounds": 5, "clients_per_round": 4, "seed": 2, "eval_every": 2}
HOLD = """
import sys, time
from pathlib import Path
from fedstas import checkpoints
with checkpoints.run_lock(Path({!r})) as free:
    print(free, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module", params=["clustered-similarity", "fedadam", "fedstas-authors-dec"])
def cut(request, digits, federation):
    """A run of each kind of state, whole, and its histories as a checkpoint gets them."""
    method = methods.get(request.param, lr=0.1)
    who = records.identity(digits, federation, method, **HOW)
    return who, lambda **how: simulation.run(
        digits, federation, method, device="cpu", **(HOW | how)
    )


def same(one, two):
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(one.frame.drop(**drop), two.frame.drop(**drop), check_exact=True)
    np.testing.assert_array_equal(one.params, two.params)
    assert [c.tolist() for c in one.cohorts] == [c.tolist() for c in two.cohorts]


def test_every_checkpoint_resumes_to_the_same_run(cut, tmp_path):
    who, run = cut
    data, kept = tmp_path / "run.parquet", []

    def keep(history):
        checkpoints.write(history, who, data, "cpu")
        kept.append(checkpoints.place(data).read_bytes())

    whole = run(checkpoint=keep)
    assert len(kept) == 2  # rounds 2 and 4; the last is the run's own file
    for content, t in zip(kept, (2, 4), strict=True):
        checkpoints.place(data).write_bytes(content)
        resume = checkpoints.read(who, data, "cpu")
        assert resume.state["round"] == t
        same(run(resume=resume), whole)


@pytest.fixture
def kept(digits, federation, tmp_path):
    """A checkpoint on disk."""
    method = methods.get("fedstas-unbiased", strata=3)
    who, data = records.identity(digits, federation, method, **HOW), tmp_path / "run.parquet"
    write = lambda history: checkpoints.write(history, who, data, "cpu")  # noqa: E731
    simulation.run(digits, federation, method, device="cpu", checkpoint=write, **HOW)
    return who, data


def test_no_checkpoint_is_no_history(tmp_path):
    assert checkpoints.read({}, tmp_path / "run.parquet", "cpu") is None


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "other"])
def test_a_damaged_checkpoint_is_named(kept, damage):
    who, data = kept
    path = checkpoints.place(data)
    whole = bytearray(path.read_bytes())
    half = len(whole) // 2
    flipped = whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]
    path.write_bytes(
        {"empty": b"", "cut": whole[:half], "flipped": flipped, "other": b"x" * 99}[damage]
    )
    with pytest.raises(InputError, match=r"\.run\.checkpoint is damaged"):
        checkpoints.read(who, data, "cpu")


def test_a_checkpoint_of_another_run_or_version_is_named(kept, monkeypatch):
    who, data = kept
    with pytest.raises(InputError, match="is of another run"):
        checkpoints.read(who | {"seed": 9}, data, "cpu")
    where = checkpoints._environment("cpu")
    monkeypatch.setattr(checkpoints, "_environment", lambda device: where | {"versions": {}})
    with pytest.raises(InputError, match="is of another versions"):
        checkpoints.read(who, data, "cpu")


def test_a_checkpoint_runs_no_code(kept, tmp_path):
    who, data = kept

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    for bomb in (Bomb(), subprocess.Popen, records.write):
        body = pickle.dumps(({}, bomb))
        check = checkpoints.zlib.crc32(body).to_bytes(4, "big")
        checkpoints.place(data).write_bytes(checkpoints.MAGIC + check + body)
        with pytest.raises(InputError, match=r"damaged \(UnpicklingError\)"):
            checkpoints.read(who, data, "cpu")
    assert not (tmp_path / "exploded").exists()


def test_a_full_disk_leaves_the_checkpoint_before(kept, monkeypatch):
    who, data = kept
    before = checkpoints.place(data).read_bytes()
    history = checkpoints.read(who, data, "cpu")

    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.Path, "open", full)
    with pytest.raises(atomic.Unwritable, match=r"could not be written: No space left"):
        checkpoints.write(history, who, data, "cpu")
    monkeypatch.undo()
    assert checkpoints.place(data).read_bytes() == before
    assert [p.name for p in data.parent.iterdir()] == [".run.checkpoint"]


@pytest.mark.skipif(checkpoints.fcntl is None, reason="needs fcntl, which Windows lacks")
@pytest.mark.slow
def test_a_lock_ends_with_its_holder_even_if_that_is_killed(tmp_path):
    data = tmp_path / "sub" / "run.parquet"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(str(data))], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline().strip() == b"True"
        with checkpoints.run_lock(data) as free:
            assert not free
        assert checkpoints.place(data, "lock").exists()
        litter = data.with_name(f"..run.checkpoint.{atomic.node()}.1.partial")
        litter.write_text("half")
    finally:
        holder.kill()
        holder.communicate()
    with checkpoints.run_lock(data) as free:
        assert free
        assert not litter.exists()
        with checkpoints.run_lock(data) as second:
            assert not second  # a thread of the same process is another holder
    assert list(data.parent.iterdir()) == []


@pytest.mark.skipif(checkpoints.fcntl is None, reason="needs fcntl, which Windows lacks")
def test_a_holder_that_shows_no_sign_for_an_hour_is_given_up(tmp_path):
    data = tmp_path / "run.parquet"
    with checkpoints.run_lock(data) as free:
        assert free
        old = time.time() - checkpoints.PATIENCE - 1
        os.utime(checkpoints.place(data, "lock"), (old, old))
        with checkpoints.run_lock(data) as second:
            assert second


def test_an_error_inside_frees_the_lock(tmp_path):
    data = tmp_path / "run.parquet"
    with pytest.raises(OSError, match="inside"), checkpoints.run_lock(data):
        raise OSError("inside")
    with checkpoints.run_lock(data) as free:
        assert free
