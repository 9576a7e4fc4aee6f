"""A sweep in two tables: nothing is lost, damage is named, and whoever is killed loses nothing."""

import json
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from companion import experiments, records
from companion.runs import clustered_grid, fedsampling_grid, sweeps
from fedstas import cli, simulation
from fedstas.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
ARMS = (
    ("md", 0, {}),
    ("md", 1, {}),
    ("fedstas", 0, {"strata": 2}),
    ("fedstas-dp", 0, {"strata": 2}),
)
RUNS = [
    sweeps.Run("digits", "dirichlet", 0.1, method, seed, overrides, **experiments.SMALL)
    for method, seed, overrides in ARMS
]
PURE = sweeps.Run(
    "digits", "by_class", 0.1, "md", 0, clients=20, clients_per_round=5, rounds=2, size=10
)


def perform(run, folder):
    return sweeps.perform(run, "trial", folder, "cpu")


@pytest.fixture(scope="module")
def single_files(tmp_path_factory):
    """A sweep in single files: one run keeps its cohorts, one diverged before its first evaluation,
    and one sidecar is of the older kind, with fewer keys."""
    folder = tmp_path_factory.mktemp("single")
    assert [perform(run, folder) for run in [*RUNS, PURE]] == ["done"] * 5
    wild = sweeps.Run("digits", "dirichlet", 0.1, "md", 0, {"lr": 1e30}, **experiments.SMALL)
    assert "not finite" in perform(wild, folder)
    old = sorted((folder / "trial").glob("*fedstas-0*.json"))[0]
    metadata = json.loads(old.read_text())
    for key in ("diverged", "cohorts_chain", "cohorts", "majority", "rows_sha256", "note_sha256"):
        del metadata[key]
    old.write_text(json.dumps(metadata, indent=1))
    return folder


@pytest.fixture(scope="module")
def packed(single_files, tmp_path_factory):
    """The same, packed."""
    folder = shutil.copytree(single_files, tmp_path_factory.mktemp("packed") / "results")
    assert records.pack(folder / "trial").endswith(
        "6 runs in rows.parquet and runs.parquet, 6 of them packed now"
    )
    return folder


@pytest.fixture
def single_copy(single_files, tmp_path):
    return shutil.copytree(single_files, tmp_path / "mine")


@pytest.fixture
def packed_copy(packed, tmp_path):
    return shutil.copytree(packed, tmp_path / "copy")


def file_names(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def without_none(metadata):
    return {key: v for key, v in metadata.items() if v is not None and key != "rows_sha256"}


def without_checksums(metadata):
    """Without the checksums that only files of today have."""
    return {key: v for key, v in metadata.items() if key not in ("rows_sha256", "note_sha256")}


def all_metadata(folder):
    return [without_none(run.metadata) for run in records.read_runs(folder)]


def assert_same_content(one, two):
    """Every reader gives the same of both folders."""
    pd.testing.assert_frame_equal(records.load(one), records.load(two), check_exact=True)
    pd.testing.assert_frame_equal(records.details(one), records.details(two), check_exact=True)
    assert all_metadata(one) == all_metadata(two)


def test_packing_loses_nothing(single_files, packed):
    assert file_names(packed) == ["trial/rows.parquet", "trial/runs.parquet"]
    assert_same_content(packed, single_files)
    assert len(all_metadata(packed)) == 6
    assert sum("diverged" in metadata for metadata in all_metadata(packed)) == 1
    for read in (records.cohorts, records.majority_labels):
        ours, theirs = read("trial", packed), read("trial", single_files)
        assert len(ours) == 1
        assert ours.keys() == theirs.keys()
        for run, arrays in ours.items():
            assert all(map(np.array_equal, arrays, theirs[run]))
            assert isinstance(arrays[0], np.ndarray) == isinstance(theirs[run][0], np.ndarray)


def test_unpacking_gives_the_single_files_again(single_files, packed, tmp_path):
    records.unpack(packed / "trial", tmp_path)
    assert file_names(tmp_path) == file_names(single_files)
    assert_same_content(tmp_path, single_files)
    with pytest.raises(InputError, match=r"\.json is there already: unpack into another folder"):
        records.unpack(packed / "trial", tmp_path)


def test_packing_again_changes_nothing(packed_copy):
    before = {p: (p.stat().st_ino, p.read_bytes()) for p in (packed_copy / "trial").iterdir()}
    assert records.pack(packed_copy / "trial").endswith("0 of them packed now")
    assert {
        p: (p.stat().st_ino, p.read_bytes()) for p in (packed_copy / "trial").iterdir()
    } == before


def test_pandas_alone_reads_both_tables(packed, single_files):
    runs = pd.read_parquet(packed / "trial" / "runs.parquet")
    rows = pd.read_parquet(packed / "trial" / "rows.parquet")
    assert list(rows.columns) == ["run", *simulation.COLUMNS]
    frame = records.load(single_files)
    both = rows.merge(runs, on="run", suffixes=("", "_of_run"), validate="m:1")
    for name in frame.columns:
        assert both[name].tolist() == frame[name].tolist() or frame[name].isna().any(), name
    assert runs["run"].nunique() == len(runs) == 6


def test_the_readme_of_the_results_names_every_column_and_its_code_runs(monkeypatch, capsys):
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.M))))
    assert named == {*records.RUNS_SCHEMA.names, *records.ROWS_SCHEMA.names}
    monkeypatch.chdir(ROOT)
    known = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(code.replace("results/preprint", "results/methods"), known)
    assert "fedstas" in capsys.readouterr().out or len(known["runs"])


def test_a_packed_run_is_made_again_bit_for_bit(packed):
    metadata = next(
        n for n in all_metadata(packed) if n["identity"]["method"]["name"] == "fedstas-dp"
    )
    again = records.rerun(metadata["run"], packed, device="cpu")
    assert records.hash_values(again.frame) == metadata["values_sha256"]


def test_a_packed_sweep_is_not_made_again(packed_copy, monkeypatch, capsys):
    monkeypatch.setattr(simulation, "run", None)
    assert [perform(run, packed_copy) for run in [*RUNS, PURE]] == ["there"] * 5
    how = {"folder": packed_copy, "device": "cpu", "progress": False}
    assert sweeps.make([*RUNS, PURE], "trial", **how) == []
    assert "5 runs, 5 there already, 0 to make" in capsys.readouterr().out


def test_what_is_missing_is_made_and_joins_the_others(single_files, single_copy, monkeypatch):
    lost = records.run_files(sweeps._prepare(RUNS[1], "cpu")[-1], "trial", single_copy)
    for path in lost:
        path.unlink()
    records.pack(single_copy / "trial")
    made, real = [], simulation.run
    monkeypatch.setattr(simulation, "run", lambda *a, **k: made.append(1) or real(*a, **k))
    assert sweeps.make(RUNS, "trial", folder=single_copy, device="cpu", progress=False) == []
    assert len(made) == 1
    assert len(file_names(single_copy)) == 4
    assert records.pack(single_copy / "trial").endswith(
        "6 runs in rows.parquet and runs.parquet, 1 of them packed now"
    )
    assert len(file_names(single_copy)) == 2
    drop = ["seconds"]
    pd.testing.assert_frame_equal(
        records.load(single_copy).drop(columns=drop),
        records.load(single_files).drop(columns=drop),
        check_exact=True,
    )


def assert_refused(folder, named):
    """Every reader refuses the folder with one sentence that names the file, and changes nothing."""
    before = {name: (folder / name).read_bytes() for name in file_names(folder)}
    for read in (records.load, records.details, lambda f: records.pack(f / "trial")):
        with pytest.raises(InputError, match=named) as caught:
            read(folder)
        assert "\n" not in str(caught.value)
        assert str(folder) in str(caught.value)
    assert {name: (folder / name).read_bytes() for name in file_names(folder)} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "runs.parquet"])
def test_a_flipped_bit_is_named_or_changes_nothing_that_is_read(packed, packed_copy, name):
    path, frame, known = packed_copy / "trial" / name, records.load(packed), all_metadata(packed)
    content, chance, named = path.read_bytes(), random.Random(0), 0
    places = [
        *chance.sample(range(len(content)), 60),
        *range(4),
        *range(len(content) - 8, len(content)),
    ]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << chance.randrange(8)
        path.unlink()
        path.write_bytes(flipped)
        try:
            found = records.load(packed_copy)
        except InputError as error:
            assert str(path) in str(error) or str(path.with_name("rows.parquet")) in str(error)
            named += 1
        else:
            pd.testing.assert_frame_equal(found, frame, check_exact=True)
            assert all_metadata(packed_copy) == known
    assert named > len(places) / 3


@pytest.mark.parametrize("name", ["rows.parquet", "runs.parquet"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "text"])
def test_a_damaged_table_is_named(packed_copy, name, damage):
    path = packed_copy / "trial" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        cut = {"truncated": content[: len(content) // 2], "empty": b"", "text": b"PAR1 no PAR1"}
        path.write_bytes(cut[damage])
    assert_refused(packed_copy, r"rows\.parquet" if damage == "missing" else re.escape(name))


def rewrite_table(path, change, **about):
    """The table, changed by somebody who keeps what it says of itself, but for `about`."""
    table = parquet.read_table(path)
    own = json.loads(table.schema.metadata[b"fedstas"]) | about
    changed = change(table).replace_schema_metadata({"fedstas": json.dumps(own)})
    path.unlink()
    parquet.write_table(changed, path)


def without_row(place):
    return lambda table: pa.concat_tables([table[:place], table[place + 1 :]])


def test_a_missing_row_is_named(packed_copy):
    rewrite_table(packed_copy / "trial" / "rows.parquet", without_row(4))
    assert_refused(
        packed_copy, r"rows\.parquet and runs\.parquet beside it contradict each other in run"
    )


def test_a_missing_run_is_named(packed_copy):
    rewrite_table(packed_copy / "trial" / "runs.parquet", without_row(2))
    assert_refused(packed_copy, r"runs\.parquet contradicts its checksum")


def test_a_missing_run_is_named_also_where_the_checksum_was_made_anew(packed_copy):
    path = packed_copy / "trial" / "runs.parquet"
    rows = without_row(2)(parquet.read_table(path)).to_pylist()
    rewrite_table(path, without_row(2), sha256=records._hash_rows(rows))
    assert_refused(
        packed_copy, r"rows\.parquet and runs\.parquet beside it contradict each other in run"
    )


def test_older_runs_without_a_checksum_of_their_own_are_covered_by_that_of_their_rows(
    packed_copy, tmp_path
):
    """As 409 of those in `results/` are; as single files again, they have both."""
    rows, runs = (packed_copy / "trial" / name for name in ("rows.parquet", "runs.parquet"))
    older = [row | {"values_sha256": None} for row in parquet.read_table(runs).to_pylist()]
    table = pa.Table.from_pylist(older, records.RUNS_SCHEMA)
    rewrite_table(runs, lambda _: table, sha256=records._hash_rows(older))
    assert len(records.read_runs(packed_copy)) == 6
    (sidecar, *_) = records.unpack(packed_copy / "trial", tmp_path / "single")
    assert {"values_sha256", "rows_sha256", "note_sha256"} <= json.loads(sidecar.read_text()).keys()
    pd.testing.assert_frame_equal(records.load(tmp_path / "single"), records.load(packed_copy))
    rewrite_table(
        rows, lambda t: t.set_column(2, "train_loss", pa.array(t["train_loss"].to_numpy() + 1))
    )
    assert_refused(packed_copy, "contradict each other in run")


@pytest.mark.parametrize("name", ["rows.parquet", "runs.parquet"])
def test_what_another_program_wrote_is_named(packed_copy, name):
    path = packed_copy / "trial" / name
    pd.read_parquet(path).to_parquet(path, index=False)
    assert_refused(packed_copy, re.escape(name))


def test_seconds_are_guarded_too(packed_copy):
    path = packed_copy / "trial" / "rows.parquet"
    half = [value / 2 for value in parquet.read_table(path)["seconds"].to_pylist()]
    rewrite_table(path, lambda t: t.set_column(t.column_names.index("seconds"), "seconds", [half]))
    assert_refused(packed_copy, r"rows\.parquet and runs\.parquet beside it contradict")


@pytest.mark.parametrize("name", ["rows.parquet", "runs.parquet"])
def test_a_newer_format_is_named(packed_copy, name):
    rewrite_table(packed_copy / "trial" / name, lambda table: table, format=records.FORMAT + 1)
    assert_refused(packed_copy, rf"{name} was written by a newer version of fedstas: update it")


def add_single_files(folder, single_files, run=RUNS[0]):
    """The single files of a run, beside the tables."""
    pairs = [
        records.run_files(sweeps._prepare(run, "cpu")[-1], "trial", f)
        for f in (single_files, folder)
    ]
    for source, target in zip(*pairs, strict=True):
        shutil.copy(source, target)
    return pairs[1]


def test_a_single_file_of_a_packed_run_counts_once_and_is_deleted(
    packed_copy, packed, single_files
):
    add_single_files(packed_copy, single_files)
    assert_same_content(packed_copy, packed)
    assert perform(RUNS[0], packed_copy) == "there"
    records.pack(packed_copy / "trial")
    assert file_names(packed_copy) == file_names(packed)
    assert_same_content(packed_copy, packed)


@pytest.mark.parametrize("what", ["values", "cohorts", "ending"])
def test_a_single_file_that_contradicts_the_table_is_named(packed_copy, single_files, what):
    data, sidecar = add_single_files(packed_copy, single_files)
    frame, metadata = pd.read_parquet(data), without_checksums(json.loads(sidecar.read_text()))
    if what == "values":
        frame["test_accuracy"] += 0.01
        frame.to_parquet(data, index=False)
        metadata["values_sha256"] = records.hash_values(frame)
    metadata |= {"cohorts": {"cohorts_sha256": "0" * 64}, "ending": {"diverged": "x"}}.get(what, {})
    sidecar.write_text(json.dumps(metadata))
    assert_refused(
        packed_copy,
        rf"{re.escape(sidecar.name)} contradicts .*runs\.parquet, which holds the same run",
    )
    assert "contradicts" in perform(RUNS[0], packed_copy)


def test_a_run_in_progress_is_left_alone(single_copy, packed):
    data, _ = records.run_files(sweeps._prepare(sweeps.Run(
        "digits", "dirichlet", 0.1, "md", 5, **experiments.SMALL), "cpu")[-1], "trial", single_copy)  # fmt: skip
    hidden = records.checkpoint_file(data)
    hidden.write_bytes(b"x")
    with records.run_lock(data):
        records.pack(single_copy / "trial")
        assert hidden.read_bytes() == b"x"
        assert hidden.with_suffix(".lock").exists()
    assert_same_content(single_copy, packed)


def test_two_do_not_pack_at_once(single_copy):
    named = pytest.raises(InputError, match="is being packed by another process")
    with records.run_lock(single_copy / "trial" / records.ROWS), named:
        records.pack(single_copy / "trial")
    assert len(file_names(single_copy)) == 12


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.slow
@pytest.mark.parametrize("merging", [False, True])
def test_a_pack_that_is_killed_anywhere_loses_nothing(single_files, tmp_path, monkeypatch, merging):
    """At every writing, renaming and deleting: all is read as before, and a second call finishes."""
    start = shutil.copytree(single_files, tmp_path / "start")
    if merging:  # three runs are packed already
        later = sorted((start / "trial").iterdir())[:6]
        for path in later:
            path.rename(tmp_path / path.name)
        records.pack(start / "trial")
        for path in later:
            (tmp_path / path.name).rename(path)
    real = {"replace": Path.replace, "unlink": Path.unlink, "write": parquet.write_table}
    left, frame, known = [0], records.load(single_files), all_metadata(single_files)

    def intact(folder):
        pd.testing.assert_frame_equal(records.load(folder), frame, check_exact=True)
        return all_metadata(folder) == known

    def counted(name):
        def step(*arguments, **how):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real[name](*arguments, **how)

        return step

    for moment in range(1, 60):
        folder = shutil.copytree(start, tmp_path / str(moment))
        left[0] = moment
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", counted("replace"))
            patch.setattr(Path, "unlink", counted("unlink"))
            patch.setattr(records.parquet, "write_table", counted("write"))
            try:
                records.pack(folder / "trial")
                finished = True
            except Killed:
                finished = False
        assert intact(folder)
        records.pack(folder / "trial")
        assert [n for n in file_names(folder) if "/." not in n] == [
            "trial/rows.parquet",
            "trial/runs.parquet",
        ]
        assert intact(folder)
        if finished:
            break
    assert finished
    assert moment > 10


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(single_copy, single_files, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.parquet, "write_table", full)
        with pytest.raises(InputError, match=r"runs.parquet could not be written: No space left"):
            records.pack(single_copy / "trial")
    assert file_names(single_copy) == file_names(single_files)


def test_a_sidecar_that_says_more_than_the_tables_hold_stays(single_copy):
    sidecar = records.sidecars(single_copy)[0]
    metadata = without_checksums(json.loads(sidecar.read_text()))
    sidecar.write_text(json.dumps(metadata | {"mood": "fine"}))
    with pytest.raises(InputError, match=rf"{re.escape(sidecar.name)} says more than runs.parquet"):
        records.pack(single_copy / "trial")
    assert len(file_names(single_copy)) == 12


def test_what_is_written_is_read_back_before_anything_is_deleted(
    single_copy, single_files, monkeypatch
):
    real = parquet.write_table

    def faulty(table, path, **how):
        if "train_loss" in table.column_names:
            where = table.column_names.index("train_loss")
            table = table.set_column(where, "train_loss", pa.array(np.zeros(len(table))))
        real(table, path, **how)

    monkeypatch.setattr(records.parquet, "write_table", faulty)
    with pytest.raises(InputError, match="contradict"):
        records.pack(single_copy / "trial")
    assert file_names(single_copy) == file_names(single_files)


def test_the_command_packs_and_unpacks(single_copy, single_files, tmp_path, capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as caught:
            cli.main([*map(str, arguments)])
        return caught.value.code

    assert call("pack", single_copy / "trial") == 0
    assert capsys.readouterr().out == (
        f"{single_copy / 'trial'}: 6 runs in rows.parquet and runs.parquet, 6 of them packed now\n"
    )
    assert call("pack", single_copy / "trial", "--into", tmp_path / "out") == 0
    assert file_names(tmp_path / "out") == file_names(single_files)
    for folder, named in (
        (single_copy, "no recorded runs in"),
        (single_copy / "nothing", "is no folder: name"),
    ):
        assert call("pack", folder) == 2
        assert named in capsys.readouterr().err


def test_the_recorded_sweeps_are_packed():
    """What is committed: two tables a sweep, none large."""
    declared = {*clustered_grid.SWEEPS, *fedsampling_grid.SWEEPS} - {"imbalance"}
    declared |= {
        "cifar100-equal",
        "cifar100-equal-rates",
        "clustered-fig-1",
        "optimal-data",
        "batch-size",
        "server-rates",
        "servers",
    }
    for name in experiments.names():
        folder = ROOT / "results" / name
        if name in declared and not folder.exists():
            continue  # not recorded yet
        assert {p.name for p in folder.iterdir() if p.suffix in (".json", ".parquet")} == {
            records.ROWS,
            records.RUNS,
        }
        assert all(p.stat().st_size < 2_000_000 for p in folder.iterdir())
