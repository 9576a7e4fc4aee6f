"""A sweep in two tables: `rows.parquet`, the evaluated rounds of all its runs, and `runs.parquet`,
one row per run with its identity, environment and checksums.

While a sweep is recorded each run has files of its own (see `single`); `pack` moves them into the
tables. `rows.parquet` is replaced first, then `runs.parquet`, and the single files go last: killed
anywhere in between, every run is still there once and whole, and another `pack` finishes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from companion.runs import atomic, checkpoints, single
from fedstas.errors import InputError
from fedstas.sim.simulation import COLUMNS

FORMAT = 1
ROWS, RUNS = "rows.parquet", "runs.parquet"
_NEW = ("worst_decile", "local_accuracy")  # columns that older tables lack, the last ones
_TEXT = ("run", "sweep", "settings", "task", "partition", "method", "diverged", "device", "commit")
_TEXT += ("values_sha256", "rows_sha256", "cohorts_sha256", "cohorts_chain", "identity")
_TYPES = dict.fromkeys((*_TEXT, "environment"), pa.string())
_TYPES |= dict.fromkeys(("concentration", "seconds", *_NEW), pa.float64())
_TYPES |= {"cohorts": pa.list_(pa.list_(pa.int64())), "majority": pa.list_(pa.int64())}
_ORDER = (
    "run", "sweep", "settings", "task", "partition", "concentration", "clients",
    "clients_per_round", "method", "seed", "rounds", "seconds", "diverged", "device", "threads",
    "commit", "format", "identity", "environment", "values_sha256", "rows_sha256",
    "cohorts_sha256", "cohorts_chain", "cohorts", "majority", *_NEW,
)  # fmt: skip
RUNS_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in _ORDER])
ROWS_SCHEMA = pa.schema(
    [("run", pa.string()), *((k, pa.type_for_alias(v)) for k, v in COLUMNS.items())]
)
# Sizes of `preprint`: 1.7 MB so, 2.4 MB by default.
_ENCODING = {
    name: "BYTE_STREAM_SPLIT" if kind == "float64" else "DELTA_BINARY_PACKED"
    for name, kind in COLUMNS.items()
    if name != "test_accuracy"
}


class Tables(NamedTuple):
    """What the two files hold: by run its row, its frame's columns, and the runs of `rows.parquet`
    that `runs.parquet` lacks, as it is when a `pack` was cut off."""

    rows: dict[str, dict]
    frames: dict[str, dict]
    extra: set[str]


class Found(NamedTuple):
    """A recorded run: what is noted of it, `columns()` of its evaluated rounds by name, and the file
    that holds the note (its sidecar, or the table of runs)."""

    note: dict
    columns: Callable[[], dict[str, np.ndarray]]
    place: Path

    def frame(self) -> pd.DataFrame:
        """The evaluated rounds, as `History.frame` had them."""
        return pd.DataFrame(self.columns())


def single_run(sidecar: Path) -> Found:
    """The run of a sidecar."""
    note = single.read_sidecar(sidecar)
    return Found(note, partial(_columns, sidecar, note), sidecar)


def _columns(sidecar: Path, note: dict) -> dict[str, np.ndarray]:
    return {name: each.to_numpy() for name, each in single.read_frame(sidecar, note).items()}


def row_of(note: dict, rows_sha256: str) -> dict:
    """The row of a run in the table of runs."""
    who, made = note["identity"], note["environment"]
    plain = {key: note.get(key) for key in _ORDER}
    return plain | {
        "task": who["task"],
        "partition": who["partition"]["name"],
        "concentration": who["partition"].get("concentration"),
        "clients": who["clients"],
        "clients_per_round": who["clients_per_round"],
        "method": who["method"]["name"],
        "seed": who["seed"],
        "rounds": who["rounds"],
        "device": made["device"],
        "threads": made["threads"],
        "commit": made["commit"],
        "identity": json.dumps(who),
        "environment": json.dumps(made),
        "rows_sha256": rows_sha256,
    }


def note_of(row: dict) -> dict:
    """What the sidecar of a run said: `row_of`, the other way. What it lacked is None."""
    keys = ("format", "run", "settings", "sweep", "identity", "seconds", "diverged")
    keys += ("values_sha256", "cohorts_sha256", "cohorts_chain", "cohorts", "majority", *_NEW)
    parsed = {key: json.loads(row[key]) for key in ("identity", "environment")}
    return {key: row[key] for key in keys} | parsed


def _digest(rows: list[dict]) -> str:
    rows = [{k: v for k, v in row.items() if k not in _NEW or v is not None} for row in rows]
    return hashlib.sha256(json.dumps([FORMAT, rows]).encode()).hexdigest()


def read(folder: Path) -> Tables:
    """The two tables of a sweep, held against each other; empty where there are none."""
    return _read(folder, atomic.stamp(folder / RUNS), atomic.stamp(folder / ROWS))


@lru_cache(maxsize=32)
def _read(folder: Path, runs, rows) -> Tables:
    if not (runs or rows):
        return Tables({}, {}, set())
    return _held_together(folder / RUNS if runs else None, folder / ROWS)


def _held_together(runs: Path | None, rows: Path) -> Tables:
    listed = {row["run"]: row for row in _read_runs(runs)} if runs else {}
    frames = _read_rows(rows)
    nothing = {name: np.empty(0, kind) for name, kind in COLUMNS.items()}
    for run, row in listed.items():
        frame = frames.setdefault(run, nothing)
        whole = row["rows_sha256"] == single.values_hash(frame, leave=())
        if not (whole and single.fits(frame, note_of(row))):
            raise InputError(_contradiction(rows, run))
    return Tables(listed, frames, frames.keys() - listed)


def _contradiction(rows: Path, run: str) -> str:
    return f"{rows} and {RUNS} beside it contradict each other in run {run}: {_remedy(rows.parent)}"


def _remedy(folder: Path) -> str:
    return f"restore {ROWS} and {RUNS} in {folder}, or delete both and make the sweep again"


def _load(path: Path, schema: pa.Schema) -> tuple[pa.Table, dict]:
    """A table of ours and what it says of itself."""
    try:
        with parquet.ParquetFile(path) as file:
            about = json.loads(file.metadata.metadata[b"fedstas"])
            newer = about["format"] > FORMAT
            table = None if newer else file.read()
    except Exception as error:  # whatever a damaged file may raise
        said = f"{path} is missing or damaged ({type(error).__name__})"
        raise InputError(f"{said}: {_remedy(path.parent)}") from error
    if newer:
        raise InputError(f"{path} was written by a newer version of fedstas: update it")
    for name in _NEW:
        if name in schema.names and name not in table.schema.names:
            table = table.append_column(schema.field(name), pa.nulls(len(table), pa.float64()))
    if not table.schema.equals(schema):
        raise InputError(f"{path} has other columns than it should: {_remedy(path.parent)}")
    return table, about


def _read_runs(path: Path) -> list[dict]:
    table, about = _load(path, RUNS_SCHEMA)
    try:
        rows = table.to_pylist()
        newer = any(row["format"] > single.FORMAT for row in rows)
        whole = about["sha256"] == _digest(rows)
        whole &= all(r["run"] == single.run_id(json.loads(r["identity"])) for r in rows)
    except Exception as error:
        raise InputError(f"{path} is damaged: {_remedy(path.parent)}") from error
    if not whole:
        raise InputError(f"{path} contradicts its checksum: {_remedy(path.parent)}")
    if newer:
        raise InputError(f"{path} holds a run of a newer version of fedstas: update it")
    return rows


def _read_rows(path: Path) -> dict[str, dict]:
    table, _ = _load(path, ROWS_SCHEMA)
    try:
        names = np.array(table["run"].to_pylist(), dtype=object)
        columns = {name: table[name].to_numpy() for name in COLUMNS}
    except Exception as error:
        raise InputError(f"{path} is damaged: {_remedy(path.parent)}") from error
    starts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1)] if len(names) else []
    frames = {}
    for low, high in zip(starts, [*starts[1:], len(names)], strict=True):
        if names[low] in frames:
            raise InputError(f"{path} holds run {names[low]} twice: {_remedy(path.parent)}")
        frames[names[low]] = {key: values[low:high] for key, values in columns.items()}
    return frames


def here(folder: Path) -> list[Found]:
    """The runs of one folder, packed and single ones alike, in the order of their file names.

    A run that is there twice counts once; `InputError` if the two contradict each other.
    """
    sidecars = single.sidecars(folder, "*.json")
    try:
        return _here(folder, sidecars)
    except InputError:
        now = single.sidecars(folder, "*.json")
        if now == sidecars:
            raise
        return _here(folder, now)  # they were just being packed


def _here(folder: Path, sidecars: list[Path]) -> list[Found]:
    tables = read(folder)
    found = {
        run: Found(note_of(row), partial(dict, tables.frames[run]), folder / RUNS)
        for run, row in tables.rows.items()
    }
    for path in sidecars:
        one = single_run(path)
        agree(one, found.setdefault(one.note["run"], one))
    for run in tables.extra - found.keys():
        raise InputError(_contradiction(folder / ROWS, run))
    return sorted(found.values(), key=_name)


def _name(run: Found) -> str:
    own = run.place.suffix == ".json"
    return run.place.name if own else single.stem(run.note["identity"]) + ".json"


def agree(one: Found, other: Found) -> None:
    """`InputError` if a run's single files say something else than another record of it."""
    if one is other:
        return
    said = [(f.note.get("cohorts_sha256"), f.note.get("diverged")) for f in (one, other)]
    values = [single.values_hash(f.columns()) for f in (one, other)]
    if said[0] != said[1] or values[0] != values[1]:
        raise InputError(
            f"{one.place} contradicts {other.place}, which holds the same run: move it and "
            f"{one.place.with_suffix('.parquet').name} away, or restore the other"
        )


def pack(folder: str | Path) -> str:
    """Move the single files of a sweep's folder into its two tables; says what was done.

    Both are read back and compared, run by run, before anything is replaced or deleted. A run in work
    (with a checkpoint or a lock and no sidecar yet) is left alone.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name that of a sweep, e.g. results/preprint")
    with checkpoints.run_lock(folder / ROWS) as free, checkpoints.run_lock(folder / RUNS):
        if not free:
            raise InputError(f"{folder} is being packed by another process: wait for it")
        sidecars = single.sidecars(folder, "*.json")
        found = here(folder)
        if not found:
            raise InputError(f"there are no recorded runs in {folder}: name the folder of a sweep")
        new = [run for run in found if run.place.name != RUNS]
        if new:
            _write(folder, found)
        _clear(folder, found, sidecars)
        checkpoints.clean_stale(folder, [single.stem(run.note["identity"]) for run in found])
    return f"{folder}: {len(found)} runs in {ROWS} and {RUNS}, {len(new)} of them packed now"


def _write(folder: Path, found: list[Found]) -> None:
    """Both tables to temporary names, read back, then `rows.parquet` renamed, then `runs.parquet`."""
    rows, values = [], []
    for run in found:
        values.append(run.columns())
        try:
            row = row_of(run.note, single.values_hash(values[-1], leave=()))
            lossless = _said(note_of(row)) == _said(run.note)
        except (KeyError, TypeError) as error:
            said = f"{run.place} is not the sidecar of a run ({type(error).__name__})"
            raise InputError(said) from error
        if not lossless:
            raise InputError(f"{run.place} says more than {RUNS} can hold: it was left as it is")
        rows.append(row)
    names = [row["run"] for row, own in zip(rows, values, strict=True) for _ in own["round"]]
    columns = {name: np.concatenate([own[name] for own in values]) for name in COLUMNS}
    together = pa.table({"run": names} | columns, ROWS_SCHEMA)
    listed = pa.Table.from_pylist(rows, RUNS_SCHEMA)
    about = {"runs": len(rows), "sha256": _digest(rows)}
    encoding = {"use_dictionary": ["run", "test_accuracy"], "column_encoding": _ENCODING}

    def write_rows(runs: Path, rows: Path):
        _store(rows, together, {}, **encoding)
        _check(runs, rows, found)

    def write_runs(runs: Path):
        _store(runs, listed, about)
        atomic.write(folder / ROWS, partial(write_rows, runs))

    atomic.write(folder / RUNS, write_runs)


def _store(path: Path, table: pa.Table, about: dict, **how) -> None:
    said = {"fedstas": json.dumps({"format": FORMAT} | about)}
    how |= {"compression": "zstd", "compression_level": 19}
    parquet.write_table(table.replace_schema_metadata(said), path, **how)
    with path.open("rb") as file:
        os.fsync(file.fileno())  # before what it was made from is deleted


def _said(note: dict) -> dict:
    """What a note says: the older ones lack some keys, where others have None, and the checksum of
    the rows is a column of its own."""
    return {k: v for k, v in note.items() if v is not None and k != "rows_sha256"}


def _check(runs: Path, rows: Path, found: list[Found]) -> None:
    """`InputError` unless the tables, read back, hold exactly these runs."""
    tables = _held_together(runs, rows)
    same = [*tables.rows] == [run.note["run"] for run in found] and not tables.extra
    for run in found if same else ():
        own, name = run.columns(), run.note["run"]
        same &= _said(note_of(tables.rows[name])) == _said(run.note)
        same &= all(own[k].tobytes() == v.tobytes() for k, v in tables.frames[name].items())
    if not same:
        raise InputError(f"{rows.parent} was not packed: what was written reads back as another")


def _clear(folder: Path, found: list[Found], sidecars: list[Path]) -> None:
    """Delete the single files, each sidecar before its values: alone, those count for nothing."""
    values = [folder / f"{single.stem(run.note['identity'])}.parquet" for run in found]
    try:
        for path in [*sidecars, *(path.with_suffix(".parquet") for path in sidecars), *values]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} could not be deleted: {error.strerror}") from error


def unpack(folder: str | Path, into: str | Path) -> list[Path]:
    """Write the runs of a sweep's folder as single files below `into`; returns the sidecars."""
    todo = []
    for run in here(Path(folder)):
        data, sidecar = single.paths(run.note["identity"], run.note["sweep"], into)
        if sidecar.exists():
            raise InputError(f"{sidecar} is there already: unpack into another folder")
        todo.append((run, data, sidecar))
    if not todo:
        raise InputError(f"there are no recorded runs in {folder}: name the folder of a sweep")
    for run, data, sidecar in todo:
        single.put(run.frame(), run.note, data, sidecar)
    return [sidecar for *_, sidecar in todo]
