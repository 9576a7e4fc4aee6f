"""A sweep packed into two tables: packing loses nothing, also if it is killed, and damage is refused by file name."""

import json
import random
import re
import shutil
from functools import partial
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
RUNS = [
    sweeps.Run("digits", "dirichlet", 0.1, method, seed, overrides, **experiments.SMALL)
    for method, seed, overrides in (
        ("md", 0, {}),
        ("md", 1, {}),
        ("fedstas", 0, {"strata": 2}),
        ("fedstas-dp", 0, {"strata": 2}),
    )
]
BY_CLASS = sweeps.Run(
    "digits", "by_class", 0.1, "md", 0, clients=20, clients_per_round=5, rounds=2, size=10
)


def perform(run, folder):
    """Record a run as part of the sweep."""
    return sweeps.perform(run, "trial", folder, "cpu")


@pytest.fixture(scope="module")
def single_files(tmp_path_factory):
    """Record a sweep in single files: one run keeps its cohorts, one diverges before its first evaluation,
    and one sidecar is of an older format, with fewer keys."""
    folder = tmp_path_factory.mktemp("single")
    assert [perform(run, folder) for run in [*RUNS, BY_CLASS]] == ["done"] * 5
    diverging = sweeps.Run("digits", "dirichlet", 0.1, "md", 0, {"lr": 1e30}, **experiments.SMALL)
    assert "not finite" in perform(diverging, folder)
    sidecar = sorted((folder / "trial").glob("*fedstas-0*.json"))[0]
    metadata = json.loads(sidecar.read_text(encoding="utf-8"))
    for key in ("diverged", "cohorts_chain", "cohorts", "majority", "rows_sha256", "note_sha256"):
        del metadata[key]
    sidecar.write_text(json.dumps(metadata, indent=1), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def packed_folder(single_files, tmp_path_factory):
    """Return a folder with the packed copy of the single files."""
    folder = shutil.copytree(single_files, tmp_path_factory.mktemp("packed") / "results")
    assert records.pack(folder / "trial").endswith(
        "6 runs in rows.parquet and runs.parquet, 6 of them packed now"
    )
    return folder


@pytest.fixture
def single_copy(single_files, tmp_path):
    """Return a copy of the single files, to be changed."""
    return shutil.copytree(single_files, tmp_path / "mine")


@pytest.fixture
def packed_copy(packed_folder, tmp_path):
    """Return a copy of the packed tables, to be changed."""
    return shutil.copytree(packed_folder, tmp_path / "copy")


def list_files(folder):
    """Return the names of the files of a folder."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def without_none(metadata):
    """Drop the entries of metadata that are None."""
    return {key: v for key, v in metadata.items() if v is not None and key != "rows_sha256"}


def without_checksums(metadata):
    """Drop the checksums of the rows and of the sidecar, which older files lack."""
    return {key: v for key, v in metadata.items() if key not in ("rows_sha256", "note_sha256")}


def read_metadata(folder):
    """Return the metadata of all runs."""
    return [without_none(run.metadata) for run in records.read_runs(folder)]


def assert_same_content(folder, other_folder):
    """Assert that every reader returns the same for both folders."""
    pd.testing.assert_frame_equal(
        records.load(folder), records.load(other_folder), check_exact=True
    )
    pd.testing.assert_frame_equal(
        records.details(folder), records.details(other_folder), check_exact=True
    )
    assert read_metadata(folder) == read_metadata(other_folder)


def test_packing_loses_nothing(single_files, packed_folder):
    assert list_files(packed_folder) == ["trial/rows.parquet", "trial/runs.parquet"]
    assert_same_content(packed_folder, single_files)
    assert len(read_metadata(packed_folder)) == 6
    assert sum("diverged" in metadata for metadata in read_metadata(packed_folder)) == 1
    for read in (records.cohorts, records.majority_labels):
        result, expected = read("trial", packed_folder), read("trial", single_files)
        assert len(result) == 1
        assert result.keys() == expected.keys()
        for run, arrays in result.items():
            assert all(map(np.array_equal, arrays, expected[run]))
            assert isinstance(arrays[0], np.ndarray) == isinstance(expected[run][0], np.ndarray)


def test_unpacking_gives_the_single_files_again(single_files, packed_folder, tmp_path):
    records.unpack(packed_folder / "trial", tmp_path)
    assert list_files(tmp_path) == list_files(single_files)
    assert_same_content(tmp_path, single_files)
    with pytest.raises(InputError, match=r"\.json is there already: unpack into another folder"):
        records.unpack(packed_folder / "trial", tmp_path)


def test_packing_again_changes_nothing(packed_copy):
    folder = packed_copy / "trial"
    before = {p: (p.stat().st_ino, p.read_bytes()) for p in folder.iterdir()}
    assert records.pack(folder).endswith("0 of them packed now")
    assert {p: (p.stat().st_ino, p.read_bytes()) for p in folder.iterdir()} == before


def test_pandas_alone_reads_both_tables(packed_folder, single_files):
    runs = pd.read_parquet(packed_folder / "trial" / "runs.parquet")
    rows = pd.read_parquet(packed_folder / "trial" / "rows.parquet")
    assert list(rows.columns) == ["run", *simulation.COLUMNS]
    frame = records.load(single_files)
    merged = rows.merge(runs, on="run", suffixes=("", "_of_run"), validate="m:1")
    columns = frame.columns.drop([*simulation.AVERAGE_COLUMNS])  # of no run here
    pd.testing.assert_frame_equal(
        merged[columns], frame[columns], check_dtype=False, check_exact=True
    )
    assert runs["run"].nunique() == len(runs) == 6


README = (ROOT / "results" / "README.md").read_text(encoding="utf-8")


def test_the_readme_of_the_results_names_every_column():
    first_cells = re.findall(r"^\| (`.*?) \|", README, re.MULTILINE)  # of the rows of its tables
    columns = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert columns == {*records.RUNS_SCHEMA.names, *records.ROWS_SCHEMA.names}


def test_the_code_in_the_readme_of_the_results_reads_and_verifies_runs(monkeypatch, capsys):
    """It averages the final accuracies that `records.load` reads, and the check by hand fails on a changed value."""
    monkeypatch.chdir(ROOT)
    read, verify = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    namespace = {}
    exec(read, namespace)
    printed = capsys.readouterr().out
    frame = records.load("results")
    frame = frame[(frame["sweep"] == "preprint") & (frame["round"] > 89)]
    expected = frame.groupby("run")["test_accuracy"].mean()
    pd.testing.assert_series_equal(namespace["last"], expected, check_names=False)
    assert set(frame["method"]) <= set(printed.split())
    exec(verify, namespace)
    namespace["rows"].loc[7, "train_loss"] += 1e-9
    with pytest.raises(AssertionError):
        exec(verify, namespace)


def test_a_packed_run_is_reproduced_bit_for_bit(packed_folder):
    metadata = next(
        m for m in read_metadata(packed_folder) if m["identity"]["method"]["name"] == "fedstas-dp"
    )
    history = records.rerun(metadata["run"], packed_folder, device="cpu")
    assert records.hash_values(history.frame) == metadata["values_sha256"]


def test_the_runs_of_a_packed_sweep_are_not_trained_again(packed_copy, monkeypatch, capsys):
    monkeypatch.setattr(simulation, "run", None)
    assert [perform(run, packed_copy) for run in [*RUNS, BY_CLASS]] == ["there"] * 5
    options = {"folder": packed_copy, "device": "cpu", "progress": False}
    assert sweeps.make([*RUNS, BY_CLASS], "trial", **options) == []
    assert "5 runs, 5 there already, 0 to make" in capsys.readouterr().out


def test_a_missing_run_is_trained_and_packed_with_the_others(
    single_files, single_copy, monkeypatch
):
    for path in records.run_files(sweeps.find_identity(RUNS[1], "cpu"), "trial", single_copy):
        path.unlink()
    records.pack(single_copy / "trial")
    calls, original = [], simulation.run
    monkeypatch.setattr(simulation, "run", lambda *a, **k: calls.append(1) or original(*a, **k))
    assert sweeps.make(RUNS, "trial", folder=single_copy, device="cpu", progress=False) == []
    assert len(calls) == 1
    assert len(list_files(single_copy)) == 4
    assert records.pack(single_copy / "trial").endswith(
        "6 runs in rows.parquet and runs.parquet, 1 of them packed now"
    )
    assert len(list_files(single_copy)) == 2
    frames = [records.load(f).drop(columns="seconds") for f in (single_copy, single_files)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def assert_refused(folder, message):
    """Assert that every reader refuses the folder with one sentence that names the file, and changes nothing."""
    before = {name: (folder / name).read_bytes() for name in list_files(folder)}
    for read in (records.load, records.details, lambda f: records.pack(f / "trial")):
        with pytest.raises(InputError, match=message) as exc_info:
            read(folder)
        assert "\n" not in str(exc_info.value)
        assert str(folder) in str(exc_info.value)
    assert {name: (folder / name).read_bytes() for name in list_files(folder)} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "runs.parquet"])
def test_a_flipped_bit_is_refused_or_changes_nothing_that_is_read(packed_folder, packed_copy, name):
    path, frame, metadata = (
        packed_copy / "trial" / name,
        records.load(packed_folder),
        read_metadata(packed_folder),
    )
    content, rng, refusals = path.read_bytes(), random.Random(0), 0
    positions = [
        *rng.sample(range(len(content)), 60),
        *range(4),
        *range(len(content) - 8, len(content)),
    ]
    for position in positions:
        flipped = bytearray(content)
        flipped[position] ^= 1 << rng.randrange(8)
        replace_content(path, flipped)
        try:
            result = records.load(packed_copy)
        except InputError as error:
            assert str(path) in str(error) or str(path.with_name("rows.parquet")) in str(error)
            refusals += 1
        else:
            pd.testing.assert_frame_equal(result, frame, check_exact=True)
            assert read_metadata(packed_copy) == metadata
    assert refusals > len(positions) / 3


def replace_content(path, content):
    """Write a new file: tables that are open keep their content."""
    path.unlink()
    path.write_bytes(content)


def rewrite_table(path, change, **about):
    """Change a table, and keep its metadata except for `about`."""
    table = parquet.read_table(path)
    metadata = json.loads(table.schema.metadata[b"fedstas"]) | about
    changed = change(table).replace_schema_metadata({"fedstas": json.dumps(metadata)})
    path.unlink()
    parquet.write_table(changed, path)


def drop_row(index, table):
    """Return a table without one row."""
    return pa.concat_tables([table[:index], table[index + 1 :]])


def drop_run_and_update_checksum(path):
    """Delete the third run from the table of runs, and give the table the checksum of the others."""
    rows = drop_row(2, parquet.read_table(path)).to_pylist()
    rewrite_table(path, partial(drop_row, 2), sha256=records._hash_rows(rows))


def halve_seconds(table):
    """Halve the column seconds of a table."""
    half = [value / 2 for value in table["seconds"].to_pylist()]
    return table.set_column(table.column_names.index("seconds"), "seconds", [half])


def increase_format(path):
    """Write a table with the number of a newer format."""
    rewrite_table(path, lambda table: table, format=records.FORMAT + 1)


NEWER = r"{name} was written by a newer version of fedstas: update it"
CONTRADICTION = r"rows\.parquet and runs\.parquet beside it contradict each other in run"
DAMAGES = {
    "missing": (Path.unlink, r"rows\.parquet"),
    "truncated": (lambda p: replace_content(p, p.read_bytes()[: p.stat().st_size // 2]), "{name}"),
    "empty": (lambda p: replace_content(p, b""), "{name}"),
    "text": (lambda p: replace_content(p, b"PAR1 no PAR1"), "{name}"),
    "written by pandas": (lambda p: pd.read_parquet(p).to_parquet(p, index=False), "{name}"),
    "of a newer format": (increase_format, NEWER),
}
DAMAGED_TABLES = {
    f"{name} {damage}": (name, *values)
    for name in ("rows.parquet", "runs.parquet")
    for damage, values in DAMAGES.items()
} | {
    "a row missing": (
        "rows.parquet",
        lambda p: rewrite_table(p, partial(drop_row, 4)),
        CONTRADICTION,
    ),
    "a run missing": (
        "runs.parquet",
        lambda p: rewrite_table(p, partial(drop_row, 2)),
        r"runs\.parquet contradicts its checksum",
    ),
    "a run missing, checksum updated": (
        "runs.parquet",
        drop_run_and_update_checksum,
        CONTRADICTION,
    ),
    "seconds halved": ("rows.parquet", lambda p: rewrite_table(p, halve_seconds), CONTRADICTION),
}


@pytest.mark.parametrize(
    ("name", "damage", "message"), DAMAGED_TABLES.values(), ids=DAMAGED_TABLES.keys()
)
def test_a_damaged_table_is_refused(packed_copy, name, damage, message):
    damage(packed_copy / "trial" / name)
    assert_refused(packed_copy, message.format(name=re.escape(name)))


def test_older_runs_without_a_checksum_of_values_are_covered_by_that_of_their_rows(
    packed_copy, tmp_path
):
    """409 runs in `results/` are such; unpacked, they have both checksums."""
    rows, runs = (packed_copy / "trial" / name for name in ("rows.parquet", "runs.parquet"))
    older = [row | {"values_sha256": None} for row in parquet.read_table(runs).to_pylist()]
    table = pa.Table.from_pylist(older, records.RUNS_SCHEMA)
    rewrite_table(runs, lambda _: table, sha256=records._hash_rows(older))
    assert len(records.read_runs(packed_copy)) == 6
    (sidecar, *_) = records.unpack(packed_copy / "trial", tmp_path / "single")
    assert {"values_sha256", "rows_sha256", "note_sha256"} <= json.loads(
        sidecar.read_text(encoding="utf-8")
    ).keys()
    pd.testing.assert_frame_equal(records.load(tmp_path / "single"), records.load(packed_copy))
    rewrite_table(
        rows, lambda t: t.set_column(2, "train_loss", pa.array(t["train_loss"].to_numpy() + 1))
    )
    assert_refused(packed_copy, "contradict each other in run")


def add_single_files(folder, single_files, run=RUNS[0]):
    """Copy the two single files of a run beside the tables; return their paths."""
    pairs = [
        records.run_files(sweeps.find_identity(run, "cpu"), "trial", f)
        for f in (single_files, folder)
    ]
    sources, targets = pairs
    for source, target in zip(sources, targets, strict=True):
        shutil.copy(source, target)
    return targets


def test_a_single_file_of_a_packed_run_counts_once_and_is_deleted(
    packed_copy, packed_folder, single_files
):
    add_single_files(packed_copy, single_files)
    assert_same_content(packed_copy, packed_folder)
    assert perform(RUNS[0], packed_copy) == "there"
    records.pack(packed_copy / "trial")
    assert list_files(packed_copy) == list_files(packed_folder)
    assert_same_content(packed_copy, packed_folder)


@pytest.mark.parametrize("change", ["values", "cohorts", "ending"])
def test_a_single_file_that_contradicts_the_table_is_refused(packed_copy, single_files, change):
    data, sidecar = add_single_files(packed_copy, single_files)
    frame, metadata = (
        pd.read_parquet(data),
        without_checksums(json.loads(sidecar.read_text(encoding="utf-8"))),
    )
    if change == "values":
        frame["test_accuracy"] += 0.01
        frame.to_parquet(data, index=False)
        metadata["values_sha256"] = records.hash_values(frame)
    changes = {"cohorts": {"cohorts_sha256": "0" * 64}, "ending": {"diverged": "x"}}
    metadata |= changes.get(change, {})
    sidecar.write_text(json.dumps(metadata), encoding="utf-8")
    assert_refused(
        packed_copy,
        rf"{re.escape(sidecar.name)} contradicts .*runs\.parquet, which holds the same run",
    )
    assert "contradicts" in perform(RUNS[0], packed_copy)


def test_packing_leaves_the_checkpoint_and_the_lock_of_a_run_in_progress(
    single_copy, packed_folder
):
    run = sweeps.Run("digits", "dirichlet", 0.1, "md", 5, **experiments.SMALL)
    data, _ = records.run_files(sweeps.find_identity(run, "cpu"), "trial", single_copy)
    checkpoint = records.checkpoint_file(data)
    checkpoint.write_bytes(b"x")
    with records.run_lock(data):
        records.pack(single_copy / "trial")
        assert checkpoint.read_bytes() == b"x"
        assert checkpoint.with_suffix(".lock").exists()
    assert_same_content(single_copy, packed_folder)


def test_two_processes_do_not_pack_a_sweep_at_once(single_copy):
    refusal = pytest.raises(InputError, match="is being packed by another process")
    with records.run_lock(single_copy / "trial" / records.ROWS), refusal:
        records.pack(single_copy / "trial")
    assert len(list_files(single_copy)) == 12  # two files of each of six runs


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.slow
@pytest.mark.parametrize("some_are_packed", [False, True])
def test_a_pack_that_is_killed_anywhere_loses_nothing(
    single_files, tmp_path, monkeypatch, some_are_packed
):
    """Killed at each write, rename and deletion: readers return the same, and a second call completes."""
    start = shutil.copytree(single_files, tmp_path / "start")
    if some_are_packed:  # three runs are packed already
        later = sorted((start / "trial").iterdir())[:6]
        for path in later:
            path.rename(tmp_path / path.name)
        records.pack(start / "trial")
        for path in later:
            (tmp_path / path.name).rename(path)
    original = {"replace": Path.replace, "unlink": Path.unlink, "write": parquet.write_table}
    frame, metadata = records.load(single_files), read_metadata(single_files)
    steps_left = 0

    def is_intact(folder):
        """Check that all runs can be read from a folder, and return whether their metadata are the same."""
        pd.testing.assert_frame_equal(records.load(folder), frame, check_exact=True)
        return read_metadata(folder) == metadata

    def count_steps(name):
        """Return a function of the file system that counts its calls, and is killed at the chosen one."""

        def step(*arguments, **options):
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0:
                raise Killed
            return original[name](*arguments, **options)

        return step

    for moment in range(1, 60):
        folder = shutil.copytree(start, tmp_path / str(moment))
        steps_left = moment
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", count_steps("replace"))
            patch.setattr(Path, "unlink", count_steps("unlink"))
            patch.setattr(records.parquet, "write_table", count_steps("write"))
            try:
                records.pack(folder / "trial")
                finished = True
            except Killed:
                finished = False
        assert is_intact(folder)
        records.pack(folder / "trial")
        assert [n for n in list_files(folder) if "/." not in n] == [
            "trial/rows.parquet",
            "trial/runs.parquet",
        ]
        assert is_intact(folder)
        if finished:
            break
    assert finished
    assert moment > 10


def test_a_full_disk_is_reported_in_one_sentence_and_nothing_is_lost(
    single_copy, single_files, monkeypatch
):
    def raise_disk_full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.parquet, "write_table", raise_disk_full)
        with pytest.raises(InputError, match=r"runs.parquet could not be written: No space left"):
            records.pack(single_copy / "trial")
    assert list_files(single_copy) == list_files(single_files)


def test_a_sidecar_with_an_entry_that_the_tables_lack_is_not_deleted(single_copy):
    sidecar = records.sidecars(single_copy)[0]
    metadata = without_checksums(json.loads(sidecar.read_text(encoding="utf-8")))
    sidecar.write_text(json.dumps(metadata | {"mood": "fine"}), encoding="utf-8")
    with pytest.raises(InputError, match=rf"{re.escape(sidecar.name)} says more than runs.parquet"):
        records.pack(single_copy / "trial")
    assert len(list_files(single_copy)) == 12  # two files of each of six runs


def test_packing_reads_the_tables_before_it_deletes_single_files(
    single_copy, single_files, monkeypatch
):
    original = parquet.write_table

    def write_zeros(table, path, **options):
        if "train_loss" in table.column_names:
            index = table.column_names.index("train_loss")
            table = table.set_column(index, "train_loss", pa.array(np.zeros(len(table))))
        original(table, path, **options)

    monkeypatch.setattr(records.parquet, "write_table", write_zeros)
    with pytest.raises(InputError, match="contradict"):
        records.pack(single_copy / "trial")
    assert list_files(single_copy) == list_files(single_files)


def test_the_command_packs_and_unpacks(single_copy, single_files, tmp_path, capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as exc_info:
            cli.main([*map(str, arguments)])
        return exc_info.value.code

    assert call("pack", single_copy / "trial") == 0
    assert capsys.readouterr().out == (
        f"{single_copy / 'trial'}: 6 runs in rows.parquet and runs.parquet, 6 of them packed now\n"
    )
    assert call("pack", single_copy / "trial", "--into", tmp_path / "out") == 0
    assert list_files(tmp_path / "out") == list_files(single_files)
    for folder, message in (
        (single_copy, "no recorded runs in"),
        (single_copy / "nothing", "is no folder: name"),
    ):
        assert call("pack", folder) == 2
        assert message in capsys.readouterr().err


def test_the_recorded_sweeps_are_packed():
    """Each recorded sweep is committed as two tables of less than 2 MB."""
    declared = {*clustered_grid.SWEEPS, *fedsampling_grid.SWEEPS} - {"imbalance"}
    declared |= {
        "cifar100-equal",
        "cifar100-equal-0.001",
        "cifar100-equal-rates",
        "clustered-fig-1",
        "clustered-messages",
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
