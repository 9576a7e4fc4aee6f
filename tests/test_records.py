"""Runs on disk: whole or absent, read back exactly, made again from the sidecar alone."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import atomic, records
from fedstas import methods, partition, simulation
from fedstas.errors import InputError

HEAD = [
    "run", "sweep", "settings", "task", "partition", "concentration", "clients",
    "clients_per_round", "method", "seed", "rounds",
]  # fmt: skip
HOW = {"rounds": 3, "clients_per_round": 4, "seed": 2, "eval_every": 2}


def record(task, federation, method, folder, sweep="trial", **how):
    how = HOW | how
    who = records.identity(task, federation, method, **how)
    history = simulation.run(task, federation, method, device="cpu", **how)
    return history, who, records.save(history, who, sweep, folder, device="cpu")


@pytest.fixture(scope="module")
def recorded_run(digits, federation, tmp_path_factory):
    """One recorded run."""
    folder = tmp_path_factory.mktemp("results")
    method = methods.get("fedstas-dp", strata=3, n_star=200, lr=0.1)
    history, who, path = record(digits, federation, method, folder)
    return folder, history, who, path


@pytest.fixture
def copy(recorded_run, tmp_path):
    """A copy that may be damaged: its folder, parquet file and sidecar."""
    folder, _, _, path = recorded_run
    shutil.copytree(folder, tmp_path / "copy")
    data = tmp_path / "copy" / path.relative_to(folder)
    return tmp_path / "copy", data, data.with_suffix(".json")


def test_load_has_exactly_the_columns_of_the_design_note(recorded_run):
    folder, history, who, _ = recorded_run
    frame = records.load(folder)
    assert list(frame.columns) == HEAD + list(simulation.COLUMNS)
    assert frame["round"].tolist() == [2, 3]
    pd.testing.assert_frame_equal(frame[list(simulation.COLUMNS)], history.frame, check_exact=True)
    row = frame.iloc[0]
    assert (row.task, row.partition, row.concentration) == ("digits", "dirichlet", 0.1)
    assert (row.clients, row.clients_per_round, row.method) == (20, 4, "fedstas-dp")
    assert (row.seed, row.rounds, row.sweep) == (2, 3, "trial")
    assert row.run == records.run_id(who)
    assert row.settings == records.settings_id(who)


def test_a_run_is_made_again_bit_for_bit_from_its_sidecar_alone(recorded_run):
    folder, history, who, _ = recorded_run
    again = records.rerun(records.run_id(who), folder, device="cpu")
    pd.testing.assert_frame_equal(
        again.frame.drop(columns="seconds"),
        history.frame.drop(columns="seconds"),
        check_exact=True,
    )
    np.testing.assert_array_equal(again.params, history.params)
    assert [c.tolist() for c in again.cohorts] == [c.tolist() for c in history.cohorts]


@pytest.mark.parametrize("name", partition.names()[:-1])  # natural needs users: see test_text
def test_runs_on_every_partition_are_recorded_and_made_again(digits, tmp_path, name):
    federation = partition.make(name, digits.train_y, clients=20, concentration=1.0)
    history, who, _ = record(digits, federation, methods.get("md"), tmp_path, rounds=1)
    again = records.rerun(records.run_id(who), tmp_path, device="cpu")
    np.testing.assert_array_equal(again.params, history.params)
    frame = records.load(tmp_path)
    assert frame.partition.tolist() == [name]
    assert frame.clients.tolist() == [20]
    concentrated = name in ("dirichlet", "dirichlet_fixed_size")
    assert frame.concentration.isna().tolist() == [not concentrated]


def test_the_sidecar_says_where_and_how_the_run_was_made(recorded_run):
    _, history, who, path = recorded_run
    metadata = json.loads(path.with_suffix(".json").read_text())
    assert metadata["identity"] == json.loads(json.dumps(who))
    assert metadata["environment"]["device"].startswith("cpu")
    assert metadata["environment"]["threads"] == 1
    assert {"python", "numpy", "torch", "fedstas"} <= set(metadata["environment"]["versions"])
    assert metadata["environment"]["commit"]
    assert metadata["seconds"] == pytest.approx(history.frame.seconds.iloc[-1], abs=0.1)


def test_identity_changes_with_everything_that_determines_a_run(digits, federation):
    base = records.identity(digits, federation, methods.get("md"), **HOW)
    others = [
        records.identity(digits, federation, methods.get("md", lr=0.02), **HOW),
        records.identity(digits, federation, methods.get("fedavg"), **HOW),
        records.identity(
            digits, partition.dirichlet(digits.train_y, 20, 0.1, 1), methods.get("md"), **HOW
        ),
        *(records.identity(digits, federation, methods.get("md"), **HOW | {key: 7}) for key in HOW),
        base | {"digest": "another"},
        base | {"algorithms": base["algorithms"] + 1},
    ]
    names = {records.run_id(who) for who in [base, *others]}
    assert len(names) == 1 + len(others)
    assert records.run_id(json.loads(json.dumps(base))) == records.run_id(base)


def test_equal_runs_have_equal_identities_whatever_numbers_they_were_given_as(digits, federation):
    numpy = {"rounds": np.int32(3), "clients_per_round": 4.0, "seed": np.int64(2), "eval_every": 2}
    one, two = (records.identity(digits, federation, methods.get("md"), **h) for h in (HOW, numpy))
    assert json.dumps(one) == json.dumps(two)
    with pytest.raises(InputError, match="seed is '2'"):
        records.identity(digits, federation, methods.get("md"), **HOW | {"seed": "2"})


def test_settings_are_everything_but_the_seeds(digits):
    def settings(seed, concentration=0.1):
        federation = partition.dirichlet(digits.train_y, 20, concentration, seed)
        who = records.identity(digits, federation, methods.get("md"), **HOW | {"seed": seed})
        return records.settings_id(who)

    assert settings(0) == settings(1)
    assert settings(0) != settings(0, concentration=0.2)


def test_a_federation_of_unknown_origin_is_not_recorded(digits):
    federation = partition.federation(digits.train_y, [[0, 1], [2]])
    with pytest.raises(InputError, match="without a recipe"):
        records.identity(digits, federation, methods.get("md"), **HOW)


def test_two_files_are_written_and_nothing_else(recorded_run):
    folder, _, who, path = recorded_run
    data, sidecar = records.run_files(who, "trial", folder)
    assert path == data
    assert {p for p in folder.rglob("*") if p.is_file()} == {data, sidecar}
    assert data.stem.startswith("digits-dirichlet-0.1-fedstas-dp-2-")


def test_saving_again_replaces_and_keeps_one_row_per_round(digits, federation, tmp_path):
    for _ in range(2):
        record(digits, federation, methods.get("md"), tmp_path, rounds=2, eval_every=1)
    assert len(records.load(tmp_path)) == 2


def test_runs_of_several_sweeps_are_read_together(digits, federation, tmp_path):
    record(digits, federation, methods.get("md"), tmp_path, "one", rounds=1)
    record(digits, federation, methods.get("md"), tmp_path, "two", rounds=2, eval_every=1)
    frame = records.load(tmp_path)
    assert frame.sweep.tolist() == ["one", "two", "two"]
    assert frame.index.tolist() == [0, 1, 2]
    assert frame.run.nunique() == 2


def test_details_are_the_settings_of_every_run(digits, federation, tmp_path):
    record(digits, federation, methods.get("md", steps=2), tmp_path, rounds=1)
    record(digits, federation, methods.get("fedstas", strata=4), tmp_path, rounds=1)
    record(digits, federation, methods.get("fedstas", strata=4), tmp_path, "again", rounds=1)
    frame = records.load(tmp_path).merge(records.details(tmp_path), on="run", validate="m:1")
    frame = frame.set_index("method")
    assert frame.loc["md", "local.steps"] == 2
    assert frame.loc["fedstas", "clients.strata"].tolist() == [4, 4]


def test_an_empty_folder_has_no_runs(tmp_path):
    with pytest.raises(InputError, match="no recorded runs below"):
        records.load(tmp_path)
    with pytest.raises(InputError, match=r"no run 'abc' below"):
        records.rerun("abc", tmp_path)


def edit(sidecar: Path, **changes):
    """Another sidecar: `note_sha256`, which only those of today have, would give it away."""
    metadata = json.loads(sidecar.read_text())
    del metadata["note_sha256"]
    sidecar.write_text(json.dumps(metadata | changes))


def test_a_sidecar_that_contradicts_itself_is_named(copy):
    folder, _, sidecar = copy
    metadata = json.loads(sidecar.read_text())
    edit(sidecar, identity=metadata["identity"] | {"seed": 3})
    with pytest.raises(InputError, match=f"{sidecar.name} contradicts itself"):
        records.load(folder)
    with pytest.raises(InputError, match="contradicts itself"):
        records.rerun(metadata["run"], folder)


def test_values_that_were_edited_are_named_and_a_sidecar_without_checksum_is_refused(copy):
    folder, data, sidecar = copy
    frame = pd.read_parquet(data)
    frame.assign(test_accuracy=1.0).to_parquet(data, index=False)
    with pytest.raises(InputError, match=f"{sidecar.name} contradicts {data.name}: delete both"):
        records.load(folder)
    edit(sidecar, values_sha256=None)
    with pytest.raises(InputError, match=f"{sidecar.name} has no checksum of {data.name}"):
        records.load(folder)


def test_every_value_of_a_sidecar_is_covered_by_its_checksum(copy):
    folder, _, sidecar = copy
    text = sidecar.read_text()
    for old, new in (('"threads": 1', '"threads": 2'), ('"sweep": "trial"', '"sweep": "triel"')):
        assert old in text
        sidecar.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=f"{sidecar.name} contradicts its checksum"):
            records.load(folder)


def test_other_peoples_json_is_no_run(copy):
    folder, _, sidecar = copy
    expected = records.load(folder)
    for name, text in (
        ("a.json", "{"),
        ("b.json", "[1]"),
        ("c.json", '{"run": 1}'),
        ("d.json", "1"),
    ):
        (folder / name).write_text(text)
        (sidecar.parent / name).write_text(text)
    pd.testing.assert_frame_equal(records.load(folder), expected, check_exact=True)
    sidecar.with_suffix(".parquet").rename(sidecar.with_name("mine.parquet"))
    sidecar = sidecar.rename(sidecar.with_name("mine.json"))  # a run under another name is one
    pd.testing.assert_frame_equal(records.load(folder), expected, check_exact=True)
    records.pack(sidecar.parent)
    left = {"a.json", "b.json", "c.json", "d.json", "rows.parquet", "runs.parquet"}
    assert {p.name for p in sidecar.parent.iterdir()} == left


def test_a_name_of_a_method_is_no_path(digits, federation, tmp_path):
    method = dataclasses.replace(methods.get("md"), name="../../mine")
    _, _, path = record(digits, federation, method, tmp_path, rounds=1)
    assert path.parent == tmp_path / "trial"
    assert records.load(tmp_path).method.tolist() == ["../../mine"]


def test_a_newer_format_is_named(copy):
    folder, _, sidecar = copy
    edit(sidecar, format=records.FORMAT + 1)
    with pytest.raises(InputError, match=f"{sidecar.name} was written by a newer version"):
        records.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "x"}', '"text"', "null"])
def test_a_sidecar_that_is_none_is_named(copy, text):
    folder, _, sidecar = copy
    sidecar.write_text(text)
    with pytest.raises(InputError, match=f"{sidecar.name} is not the sidecar of a run"):
        records.load(folder)


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "altered"])
def test_a_damaged_parquet_is_named_with_the_remedy(copy, damage):
    folder, data, sidecar = copy
    content = data.read_bytes()
    if damage == "missing":
        data.unlink()
    else:
        cut = {
            "truncated": content[: len(content) // 2],
            "empty": b"",
            "altered": b"PAR2" + content[:-4],
        }
        data.write_bytes(cut[damage])
    with pytest.raises(InputError, match=f"{data.name} is missing or damaged: delete .*again") as e:
        records.load(folder)
    assert str(sidecar) in str(e.value)


def test_a_run_of_another_version_of_the_algorithms_is_not_made_again(copy, monkeypatch):
    folder, _, sidecar = copy
    run = json.loads(sidecar.read_text())["run"]
    monkeypatch.setattr(methods, "version", lambda method: 99)
    with pytest.raises(InputError, match=r"version \d of the algorithms, this is 99"):
        records.rerun(run, folder)


def test_a_run_of_other_data_is_not_made_again(copy):
    folder, _, sidecar = copy
    metadata = json.loads(sidecar.read_text())
    who = metadata["identity"] | {"digest": "0" * 64}
    edit(sidecar, identity=who, run=records.run_id(who))
    with pytest.raises(InputError, match="other data than the digits"):
        records.rerun(records.run_id(who), folder)


def test_every_recorded_run_is_what_its_name_says():
    """A change of `methods` or of how identities are written would orphan what is recorded."""
    runs = records.read_runs(Path(__file__).resolve().parents[1] / "results")
    assert len(runs) == 4593
    for run in runs:
        who = run.identity
        assert records.run_id(who) == run.run
        assert records.settings_id(who) == run.metadata["settings"]
        assert methods.to_dict(methods.from_dict(who["method"])) == who["method"]


def test_writing_is_all_or_nothing(tmp_path):
    def full(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    target = tmp_path / "file.txt"
    target.write_text("before")
    with pytest.raises(InputError, match=r"file.txt could not be written: No space left"):
        atomic.write(target, full)
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_that_cannot_be_written_is_named(recorded_run, tmp_path):
    _, history, who, _ = recorded_run
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="file"):
        records.save(history, who, "trial", tmp_path / "file", device="cpu")
    with pytest.raises(InputError, match="could not be written"):
        atomic.write(Path("/proc/fedstas.txt"), lambda path: path.write_text("x"))


def test_a_recorded_partition_is_read_back_or_named(digits, federation, tmp_path):
    data = records.save_partition(digits, federation, tmp_path)
    counts = records.load_partitions(tmp_path)["dirichlet"]
    np.testing.assert_array_equal(counts, federation.label_counts)
    frame, content = pd.read_parquet(data), data.read_bytes()
    frame.assign(count=frame["count"] + 1).to_parquet(data, index=False)
    with pytest.raises(InputError, match=rf"\.json contradicts {data.name}: restore or delete"):
        records.load_partitions(tmp_path)
    data.write_bytes(content[:99])
    with pytest.raises(InputError, match=rf"\.json and {data.name} are damaged \(\w+\): restore"):
        records.load_partitions(tmp_path)


def test_what_a_killed_process_had_half_written_goes_with_the_next_writing(tmp_path):
    file = tmp_path / "page.ipynb"
    for kind in ("partial", "lock"):
        atomic.hidden_file(file, kind).write_text("half")
    other = atomic.hidden_file(tmp_path / "other", "partial")
    other.write_text("half")
    atomic.write(file, lambda path: path.write_text("complete"))
    assert {p.name for p in tmp_path.iterdir()} == {file.name, other.name}
    assert file.read_text() == "complete"


def test_a_file_that_another_process_writes_is_waited_for_and_then_named(tmp_path, monkeypatch):
    file = tmp_path / "page.ipynb"
    monkeypatch.setattr(atomic, "WRITING", 0.01)
    with (
        atomic.lock(file),
        pytest.raises(atomic.Unwritable, match="another process is writing it"),
    ):
        atomic.write(file, lambda path: path.write_text("complete"))
    assert not file.exists()


def test_a_folder_that_cannot_be_searched_is_refused(tmp_path, monkeypatch):
    def broken(self, pattern):
        raise OSError(22, "Invalid argument", "/proc/1/net")

    monkeypatch.setattr(Path, "rglob", broken)
    with pytest.raises(InputError, match=r"cannot be searched: Invalid argument \(/proc/1/net\)"):
        records.read_runs(tmp_path)
