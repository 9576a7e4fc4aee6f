"""Runs on disk: written completely or not at all, read back exactly, reproduced from the sidecar alone."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import atomic, records
from fedstas import methods, partition, simulation
from fedstas.errors import InputError
from fedstas.sim import models

RUN_COLUMNS = [
    "run",
    "sweep",
    "settings",
    "task",
    "partition",
    "concentration",
    "clients",
    "clients_per_round",
    "method",
    "seed",
    "rounds",
]
SETTINGS = {"rounds": 3, "clients_per_round": 4, "seed": 2, "eval_every": 2}


def record(task, federation, method, folder, sweep="trial", **changes):
    """Train and save a run; return its history, its identity and the path of its parquet file."""
    settings = SETTINGS | changes
    identity = records.identity(task, federation, method, **settings)
    history = simulation.run(task, federation, method, device="cpu", **settings)
    return history, identity, records.save(history, identity, sweep, folder, device="cpu")


@pytest.fixture(scope="module")
def recorded_run(digits, federation, tmp_path_factory):
    """Record one run; return its folder, history, identity and parquet file."""
    folder = tmp_path_factory.mktemp("results")
    method = methods.get("fedstas-dp", strata=3, n_star=200, lr=0.1)
    history, identity, path = record(digits, federation, method, folder)
    return folder, history, identity, path


@pytest.fixture
def copy(recorded_run, tmp_path):
    """Copy the recorded run, to damage it; return its folder, parquet file and sidecar."""
    folder, _, _, path = recorded_run
    shutil.copytree(folder, tmp_path / "copy")
    data = tmp_path / "copy" / path.relative_to(folder)
    return tmp_path / "copy", data, data.with_suffix(".json")


def test_load_returns_the_columns_of_the_run_and_of_its_history(recorded_run):
    folder, history, identity, _ = recorded_run
    frame = records.load(folder)
    measured = [*simulation.COLUMNS, *simulation.AVERAGE_COLUMNS]
    assert list(frame.columns) == RUN_COLUMNS + measured
    assert frame["round"].tolist() == [2, 3]
    pd.testing.assert_frame_equal(frame[list(simulation.COLUMNS)], history.frame, check_exact=True)
    row = frame.iloc[0]
    assert (row.task, row.partition, row.concentration) == ("digits", "dirichlet", 0.1)
    assert (row.clients, row.clients_per_round, row.method) == (20, 4, "fedstas-dp")
    assert (row.seed, row.rounds, row.sweep) == (2, 3, "trial")
    assert row.run == records.run_id(identity)
    assert row.settings == records.settings_id(identity)


def test_a_run_is_reproduced_bit_for_bit_from_its_sidecar_alone(recorded_run):
    folder, history, identity, _ = recorded_run
    repeated = records.rerun(records.run_id(identity), folder, device="cpu")
    pd.testing.assert_frame_equal(
        repeated.frame.drop(columns="seconds"),
        history.frame.drop(columns="seconds"),
        check_exact=True,
    )
    np.testing.assert_array_equal(repeated.params, history.params)
    assert [c.tolist() for c in repeated.cohorts] == [c.tolist() for c in history.cohorts]


@pytest.mark.parametrize("name", partition.names()[:-1])  # natural needs users: see test_text
def test_runs_on_every_partition_are_recorded_and_reproduced(digits, tmp_path, name):
    federation = partition.make(name, digits.train_y, clients=20, concentration=1.0)
    history, identity, _ = record(digits, federation, methods.get("md"), tmp_path, rounds=1)
    repeated = records.rerun(records.run_id(identity), tmp_path, device="cpu")
    np.testing.assert_array_equal(repeated.params, history.params)
    frame = records.load(tmp_path)
    assert frame.partition.tolist() == [name]
    assert frame.clients.tolist() == [20]
    concentrated = name in ("dirichlet", "dirichlet_fixed_size")
    assert frame.concentration.isna().tolist() == [not concentrated]


def test_the_sidecar_has_the_identity_and_the_environment_of_the_run(recorded_run):
    _, history, identity, path = recorded_run
    metadata = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert metadata["identity"] == json.loads(json.dumps(identity))
    assert metadata["environment"]["device"].startswith("cpu")
    assert metadata["environment"]["threads"] == 1
    assert {"python", "numpy", "torch", "fedstas"} <= set(metadata["environment"]["versions"])
    assert metadata["environment"]["commit"]
    assert metadata["seconds"] == pytest.approx(history.frame.seconds.iloc[-1], abs=0.1)


def test_identity_changes_with_everything_that_determines_a_run(digits, federation):
    base = records.identity(digits, federation, methods.get("md"), **SETTINGS)
    others = [
        records.identity(digits, federation, methods.get("md", lr=0.02), **SETTINGS),
        records.identity(digits, federation, methods.get("fedavg"), **SETTINGS),
        records.identity(
            digits, partition.dirichlet(digits.train_y, 20, 0.1, 1), methods.get("md"), **SETTINGS
        ),
        *(
            records.identity(digits, federation, methods.get("md"), **SETTINGS | {key: 7})
            for key in SETTINGS
        ),
        base | {"digest": "another"},
        base | {"algorithms": base["algorithms"] + 1},
    ]
    ids = {records.run_id(identity) for identity in [base, *others]}
    assert len(ids) == 1 + len(others)
    assert records.run_id(json.loads(json.dumps(base))) == records.run_id(base)


def test_an_identity_says_how_the_first_model_comes_unless_it_is_sent(
    digits, federation, tmp_path, monkeypatch
):
    """Identities of runs that were recorded before there was a choice have no such key."""

    def make(**options):
        return records.identity(digits, federation, methods.get("md"), **SETTINGS | options)

    sent = make(initial_model="sent")
    assert "initial_model" not in sent and "files" not in sent
    assert make() == make(initial_model="seed") == sent | {"initial_model": "seed"}
    file, parameters = tmp_path / "start.npy", len(models.flatten(digits.model(0)))
    np.save(file, np.zeros(parameters, np.float32))
    sha = hashlib.sha256(file.read_bytes()).hexdigest()
    name_and_hash = {"initial_model": "start.npy", "files": {"initial_model": sha}}
    assert make(initial_model=str(file)) == sent | name_and_hash
    folder = tmp_path / "results"
    options = {"initial_model": str(file), "rounds": 1}
    history, identity, _ = record(digits, federation, methods.get("md"), folder, **options)
    records.pack(folder / "trial")
    with pytest.raises(InputError, match=r"the initial model in start.npy .* is not here"):
        records.rerun(records.run_id(identity), folder, device="cpu")
    monkeypatch.chdir(tmp_path)
    repeated = records.rerun(records.run_id(identity), folder, device="cpu")
    np.testing.assert_array_equal(repeated.params, history.params)
    np.save(file, np.ones(parameters, np.float32))
    with pytest.raises(InputError, match=r"the initial model in start.npy .* has changed since"):
        records.rerun(records.run_id(identity), folder, device="cpu")


@pytest.mark.parametrize("rule", ["seed", "sent"])
def test_a_run_is_made_again_by_its_own_rule(digits, federation, tmp_path, rule):
    method, options = methods.get("md"), {"initial_model": rule, "rounds": 1}
    history, identity, _ = record(digits, federation, method, tmp_path, **options)
    repeated = records.rerun(records.run_id(identity), tmp_path, device="cpu")
    assert repeated.frame.bytes_down.tolist() == history.frame.bytes_down.tolist()


def test_equal_runs_have_equal_identities_for_any_type_of_number(digits, federation):
    numpy_settings = {
        "rounds": np.int32(3),
        "clients_per_round": 4.0,
        "seed": np.int64(2),
        "eval_every": 2,
    }
    first, second = (
        records.identity(digits, federation, methods.get("md"), **settings)
        for settings in (SETTINGS, numpy_settings)
    )
    assert json.dumps(first) == json.dumps(second)
    with pytest.raises(InputError, match="seed is '2'"):
        records.identity(digits, federation, methods.get("md"), **SETTINGS | {"seed": "2"})


def test_the_settings_id_does_not_depend_on_the_seeds_alone(digits):
    def compute_settings_id(seed, concentration=0.1):
        """Return the id of the settings of a run."""
        federation = partition.dirichlet(digits.train_y, 20, concentration, seed)
        identity = records.identity(
            digits, federation, methods.get("md"), **SETTINGS | {"seed": seed}
        )
        return records.settings_id(identity)

    assert compute_settings_id(0) == compute_settings_id(1)
    assert compute_settings_id(0) != compute_settings_id(0, concentration=0.2)


def test_a_run_on_a_federation_without_a_recipe_is_not_recorded(digits):
    federation = partition.federation(digits.train_y, [[0, 1], [2]])
    with pytest.raises(InputError, match="without a recipe"):
        records.identity(digits, federation, methods.get("md"), **SETTINGS)


def test_two_files_are_written_and_nothing_else(recorded_run):
    folder, _, identity, path = recorded_run
    data, sidecar = records.run_files(identity, "trial", folder)
    assert path == data
    assert {p for p in folder.rglob("*") if p.is_file()} == {data, sidecar}
    assert data.stem.startswith("digits-dirichlet-0.1-fedstas-dp-2-")


def test_saving_a_run_again_replaces_its_files(digits, federation, tmp_path):
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
    """Change a sidecar as older versions could have written it: without `note_sha256`, which would show the change."""
    metadata = json.loads(sidecar.read_text(encoding="utf-8"))
    del metadata["note_sha256"]
    sidecar.write_text(json.dumps(metadata | changes), encoding="utf-8")


def test_a_sidecar_whose_identity_contradicts_its_run_is_refused(copy):
    folder, _, sidecar = copy
    metadata = json.loads(sidecar.read_text(encoding="utf-8"))
    edit(sidecar, identity=metadata["identity"] | {"seed": 3})
    with pytest.raises(InputError, match=f"{sidecar.name} contradicts itself"):
        records.load(folder)
    with pytest.raises(InputError, match="contradicts itself"):
        records.rerun(metadata["run"], folder)


def test_edited_values_and_a_sidecar_without_a_checksum_are_refused(copy):
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
    text = sidecar.read_text(encoding="utf-8")
    for old, new in (('"threads": 1', '"threads": 2'), ('"sweep": "trial"', '"sweep": "triel"')):
        assert old in text
        sidecar.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(InputError, match=f"{sidecar.name} contradicts its checksum"):
            records.load(folder)


def test_other_json_files_are_ignored_and_a_renamed_run_is_read(copy):
    folder, _, sidecar = copy
    expected = records.load(folder)
    for name, text in (
        ("a.json", "{"),
        ("b.json", "[1]"),
        ("c.json", '{"run": 1}'),
        ("d.json", "1"),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        (sidecar.parent / name).write_text(text, encoding="utf-8")
    pd.testing.assert_frame_equal(records.load(folder), expected, check_exact=True)
    sidecar.with_suffix(".parquet").rename(sidecar.with_name("mine.parquet"))
    sidecar = sidecar.rename(sidecar.with_name("mine.json"))  # a run under another name is one
    pd.testing.assert_frame_equal(records.load(folder), expected, check_exact=True)
    records.pack(sidecar.parent)
    expected_files = {"a.json", "b.json", "c.json", "d.json", "rows.parquet", "runs.parquet"}
    assert {p.name for p in sidecar.parent.iterdir()} == expected_files


def test_the_name_of_a_method_cannot_lead_out_of_the_folder(digits, federation, tmp_path):
    method = dataclasses.replace(methods.get("md"), name="../../mine")
    _, _, path = record(digits, federation, method, tmp_path, rounds=1)
    assert path.parent == tmp_path / "trial"
    assert records.load(tmp_path).method.tolist() == ["../../mine"]


def test_a_newer_format_is_refused(copy):
    folder, _, sidecar = copy
    edit(sidecar, format=records.FORMAT + 1)
    with pytest.raises(InputError, match=f"{sidecar.name} was written by a newer version"):
        records.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "x"}', '"text"', "null"])
def test_a_file_that_is_not_the_sidecar_of_a_run_is_refused(copy, text):
    folder, _, sidecar = copy
    sidecar.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"{sidecar.name} is not the sidecar of a run"):
        records.load(folder)


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "altered"])
def test_the_error_of_a_damaged_parquet_file_names_it_and_the_remedy(copy, damage):
    folder, data, sidecar = copy
    content = data.read_bytes()
    damaged = {
        "truncated": content[: len(content) // 2],
        "empty": b"",
        "altered": b"PAR2" + content[:-4],
    }
    if damage == "missing":
        data.unlink()
    else:
        data.write_bytes(damaged[damage])
    with pytest.raises(InputError, match=f"{data.name} is missing or damaged: delete .*again") as e:
        records.load(folder)
    assert str(sidecar) in str(e.value)


def test_a_run_of_another_version_of_the_algorithms_is_not_repeated(copy, monkeypatch):
    folder, _, sidecar = copy
    run = json.loads(sidecar.read_text(encoding="utf-8"))["run"]
    monkeypatch.setattr(methods, "version", lambda method: 99)
    with pytest.raises(InputError, match=r"version \d of the algorithms, this is 99"):
        records.rerun(run, folder)


def test_a_run_on_other_data_is_not_repeated(copy):
    folder, _, sidecar = copy
    metadata = json.loads(sidecar.read_text(encoding="utf-8"))
    identity = metadata["identity"] | {"digest": "0" * 64}
    edit(sidecar, identity=identity, run=records.run_id(identity))
    with pytest.raises(InputError, match="other data than the digits"):
        records.rerun(records.run_id(identity), folder)


def test_every_recorded_run_has_the_id_of_its_identity():
    """A change of `methods` or of the format of identities would make recorded runs unreadable."""
    runs = records.read_runs(Path(__file__).resolve().parents[1] / "results")
    assert len(runs) == 10456  # all runs of results/: change it where runs are added
    for run in runs:
        identity = run.identity
        assert records.run_id(identity) == run.run
        assert records.settings_id(identity) == run.metadata["settings"]
        assert methods.to_dict(methods.from_dict(identity["method"])) == identity["method"]


def test_a_write_that_fails_leaves_the_file_unchanged(tmp_path):
    def fill_disk(path):
        path.write_text("half", encoding="utf-8")
        raise OSError(28, "No space left on device")

    target = tmp_path / "file.txt"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(InputError, match=r"file.txt could not be written: No space left"):
        atomic.write(target, fill_disk)
    assert target.read_text(encoding="utf-8") == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_the_error_of_a_folder_that_cannot_be_written_names_it(recorded_run, tmp_path):
    _, history, identity, _ = recorded_run
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(InputError, match="file"):
        records.save(history, identity, "trial", tmp_path / "file", device="cpu")
    with pytest.raises(InputError, match="could not be written"):
        atomic.write(Path("/proc/fedstas.txt"), lambda path: path.write_text("x", encoding="utf-8"))


def test_a_recorded_partition_is_read_back_and_refused_if_damaged(digits, federation, tmp_path):
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


def test_two_recorded_partitions_of_one_name_are_refused(digits, federation, tmp_path):
    data = records.save_partition(digits, federation, tmp_path)
    for path in (data, data.with_suffix(".json")):
        path.with_stem(f"{path.stem}-again").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"-again\.json.* both hold a partition 'dirichlet': move"):
        records.load_partitions(tmp_path)


def test_the_next_write_deletes_the_partial_file_of_a_killed_process(tmp_path):
    file = tmp_path / "page.ipynb"
    for kind in ("partial", "lock"):
        atomic.hidden_file(file, kind).write_text("half", encoding="utf-8")
    other = atomic.hidden_file(tmp_path / "other", "partial")
    other.write_text("half", encoding="utf-8")
    atomic.write(file, lambda path: path.write_text("complete", encoding="utf-8"))
    assert {p.name for p in tmp_path.iterdir()} == {file.name, other.name}
    assert file.read_text(encoding="utf-8") == "complete"


def test_a_file_that_another_process_keeps_writing_is_refused_after_a_wait(tmp_path, monkeypatch):
    file = tmp_path / "page.ipynb"
    monkeypatch.setattr(atomic, "WRITING", 0.01)
    with (
        atomic.lock(file),
        pytest.raises(atomic.Unwritable, match="another process is writing it"),
    ):
        atomic.write(file, lambda path: path.write_text("complete", encoding="utf-8"))
    assert not file.exists()


def test_a_folder_that_cannot_be_searched_is_refused(tmp_path, monkeypatch):
    def raise_os_error(self, pattern):
        raise OSError(22, "Invalid argument", "/proc/1/net")

    monkeypatch.setattr(Path, "rglob", raise_os_error)
    with pytest.raises(InputError, match=r"cannot be searched: Invalid argument \(/proc/1/net\)"):
        records.read_runs(tmp_path)
