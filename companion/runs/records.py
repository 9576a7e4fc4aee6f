"""The store of recorded runs: written one by one, packed into two tables per sweep, read from both alike.

While a sweep is recorded, each run has two files below FOLDER/SWEEP: `NAME.parquet`, its evaluated rounds, and
`NAME.json`, its metadata (identity, environment, checksums), the sidecar. `pack` moves them into `rows.parquet`,
the evaluated rounds of all runs, and `runs.parquet`, one row per run. A process that is killed leaves every run
complete or absent. Beside the files of a run in progress lie `.NAME.checkpoint`, from which another process
resumes it, and `.NAME.lock`, which the operating system frees when its holder ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from companion.runs import atomic, provenance
from fedstas import config, methods, user_code
from fedstas.errors import InputError, check_int
from fedstas.methods import Method
from fedstas.sim import initial_model as model_files
from fedstas.sim import partition, run_file, simulation, tasks
from fedstas.sim.partition import Federation
from fedstas.sim.simulation import AVERAGE_COLUMNS, COLUMNS, History
from fedstas.sim.tasks import Task
from fedstas.update_messages import UpdateMessage

FORMAT = 1  # of sidecars and tables
# Hex digits of `cohorts_chain` per round: of the hash of all cohorts up to that round.
CHAIN_DIGITS = 4
ROWS, RUNS = "rows.parquet", "runs.parquet"
# The folder of recorded partitions holds the label counts of clients, a file for each partition.
PARTITIONS = "partitions"
# This folder holds the errors of one round of each design, a file for each setting.
ONE_ROUND = "one-round"
# This folder holds the errors of one round by the features that clients are asked for, a file for each setting.
FEATURE_ERRORS = "one-round-features"
# This folder holds the errors of one round with features that are asked once or renewed by updates, a file for each setting.
RENEWAL_ERRORS = "one-round-renewal"
# This folder holds the accuracies of heads in closed form, a file for each setting.
CLOSED_FORM = "closed-form"
# This folder holds the runs that start from a head in closed form, a file for each setting.
FINE_TUNING = "fine-tuning"
# These folders hold one table for each setting, and no sweep.
ERROR_TABLES = (ONE_ROUND, FEATURE_ERRORS, RENEWAL_ERRORS, CLOSED_FORM, FINE_TUNING)

_LATER_COLUMNS = ("worst_decile", "local_accuracy")  # of `runs.parquet`: older tables lack them
_TYPES = {
    pa.int64(): ("clients", "clients_per_round", "seed", "rounds", "threads", "format"),
    pa.float64(): ("concentration", "seconds", *_LATER_COLUMNS),
    pa.list_(pa.int64()): ("majority",),
    pa.list_(pa.list_(pa.int64())): ("cohorts",),
}
_TYPE = {name: kind for kind, names in _TYPES.items() for name in names}
# Columns of `runs.parquet` that repeat what `identity` and `environment` say, and the others: the metadata.
_IDENTITY_COLUMNS = (
    "task",
    "partition",
    "concentration",
    "clients",
    "clients_per_round",
    "method",
    "seed",
    "rounds",
)
_ENVIRONMENT_COLUMNS = ("device", "threads", "commit")
_METADATA = ("run", "sweep", "settings", "seconds", "diverged", "format", "identity", "environment")
_METADATA += (
    "values_sha256",
    "cohorts_sha256",
    "cohorts_chain",
    "cohorts",
    "majority",
    *_LATER_COLUMNS,
)
RUNS_SCHEMA = pa.schema(
    (name, _TYPE.get(name, pa.string()))
    for name in (
        *(
            "run",
            "sweep",
            "settings",
            *_IDENTITY_COLUMNS,
            "seconds",
            "diverged",
            *_ENVIRONMENT_COLUMNS,
        ),
        *("format", "identity", "environment", "values_sha256", "rows_sha256"),
        *("cohorts_sha256", "cohorts_chain", "cohorts", "majority", *_LATER_COLUMNS),
    )
)
_ALL_COLUMNS = COLUMNS | AVERAGE_COLUMNS
ROWS_SCHEMA = pa.schema(  # a table without a run with `average` lacks the columns of averages
    [("run", pa.string()), *((name, pa.type_for_alias(k)) for name, k in _ALL_COLUMNS.items())]
)
# With these encodings `preprint` takes 1.7 MB, by default 2.4 MB.
_ROWS_ENCODING = {
    name: "BYTE_STREAM_SPLIT" if kind == "float64" else "DELTA_BINARY_PACKED"
    for name, kind in _ALL_COLUMNS.items()
    if name not in ("test_accuracy", "test_accuracy_average")
}


# Names and checksums


_OPTIONAL_KEYS = ("eval_rounds", "average", "drop", "remedy")  # in identities where they are set


def identity(
    task: Task,
    federation: Federation,
    method: Method,
    *,
    rounds: int,
    clients_per_round: int,
    seed: int,
    eval_every: int = 1,
    eval_rounds: Sequence[int] = (),
    average: float | str | None = None,
    initial_model: str = "seed",
    drop: float = 0.0,
    remedy: str = simulation.REMEDIES[0],
    message: UpdateMessage | None = None,
) -> dict:
    """Return everything that determines a run, as plain data: equal runs have equal identities.

    `eval_rounds`, `average`, `drop` with its remedy, and `message`, which came after runs were recorded, are in it only
    where they are set.
    `initial_model` is as in `simulation.run`; identities without the key, as all older ones, mean "sent".
    """
    if not federation.recipe:
        raise InputError("a federation without a recipe cannot be recorded: use a named partition")
    further = further_rounds(rounds, eval_every, eval_rounds)
    average = simulation.check_average(average)
    optional = {"eval_rounds": further} if further else {}
    optional |= _merge_files(task.identity_extras, model_files.identity(initial_model))
    optional |= {} if average is None else {"average": average}
    drop, remedy = simulation.check_drop(drop, remedy)
    optional |= {"drop": drop, "remedy": remedy} if drop else {}
    optional |= {} if message is None else {"message": config.to_dict(message)}
    return {
        "algorithms": methods.version(method),
        "task": task.name,
        "digest": task.digest,
        "partition": dict(federation.recipe),
        "clients": len(federation.shards),
        "method": methods.to_dict(method),
        "rounds": check_int("rounds", rounds, 1),
        "clients_per_round": check_int("clients_per_round", clients_per_round, 1),
        "eval_every": check_int("eval_every", eval_every, 1),
        "seed": check_int("seed", seed, 0),
    } | optional


def further_rounds(rounds: int, eval_every: int, eval_rounds: Sequence[int]) -> list[int]:
    """Return the rounds that `eval_rounds` adds to each `eval_every`-th and the last."""
    usual = simulation.evaluated_rounds(rounds, eval_every)
    return sorted({*simulation.evaluated_rounds(rounds, eval_every, eval_rounds)} - {*usual})


def _merge_files(*parts: dict) -> dict:
    """Join parts of an identity, and the SHA-256 of the files that they name."""
    files = {key: sha for part in parts for key, sha in part.get("files", {}).items()}
    joined = {key: value for part in parts for key, value in part.items()}
    return joined | ({"files": files} if files else {})


def _hash_json(data, **options) -> str:
    """Return the SHA-256 of data as JSON; `options` are those of `json.dumps`."""
    return hashlib.sha256(json.dumps(data, **options).encode()).hexdigest()


def run_id(identity: dict) -> str:
    """Return the name of a run, a hash of its identity."""
    return _hash_json(identity, sort_keys=True, separators=(",", ":"))[:16]


def settings_id(identity: dict) -> str:
    """Return a hash of everything but the seeds."""
    recipe = {k: v for k, v in identity["partition"].items() if k != "seed"}
    return run_id({k: v for k, v in identity.items() if k != "seed"} | {"partition": recipe})


def file_stem(identity: dict) -> str:
    """Return the name of a run's files: a readable stem, and eight digits of its hash."""
    recipe = identity["partition"]
    parts = [
        identity["task"],
        recipe["name"],
        recipe.get("concentration"),
        identity["method"]["name"],
    ]
    readable = "-".join(str(p) for p in parts if p is not None)
    return re.sub(r"[^\w.+-]+", "_", readable) + f"-{identity['seed']}-{run_id(identity)[:8]}"


def run_files(identity: dict, sweep: str, folder: str | Path = "results") -> tuple[Path, Path]:
    """Return the parquet file and the sidecar of a run.

    Raises:
        InputError: `sweep` cannot be the name of a folder.
    """
    if not re.fullmatch(r"\w[\w .+-]*", sweep) or sweep == PARTITIONS:
        raise InputError(
            f"sweep {sweep!r} cannot be the name of a folder of runs: begin with a letter or digit, "
            f"use these, spaces and . _ + - only, and not {PARTITIONS!r}"
        )
    stem = Path(folder) / sweep / file_stem(identity)
    return stem.with_name(stem.name + ".parquet"), stem.with_name(stem.name + ".json")


def hash_values(frame, *, seconds: bool = False) -> str:
    """Return the SHA-256 of a run's evaluated rounds (a frame, or columns by name), with `seconds` or without."""
    names = [name for name in COLUMNS if seconds or name != "seconds"]
    names += [name for name in AVERAGE_COLUMNS if name in frame]
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(frame[n]).tobytes() for n in names)
    ).hexdigest()


def evaluated_rounds(identity: dict) -> list[int]:
    """Return the rounds that a run of this identity has in its frame, unless it diverges."""
    further = identity.get("eval_rounds", ())
    return simulation.evaluated_rounds(identity["rounds"], identity["eval_every"], further)


def frame_columns(identity: dict) -> dict[str, str]:
    """Return the columns of the frame of a run of this identity, and their types."""
    return COLUMNS | (AVERAGE_COLUMNS if "average" in identity else {})


def _matches(frame, metadata: dict, rows_sha256: str | None) -> bool:
    """Return whether the evaluated rounds, and their checksums if there are any, are those of the metadata."""
    expected, rounds = evaluated_rounds(metadata["identity"]), frame["round"].tolist()
    expected = expected[: len(rounds)] if metadata.get("diverged") else expected
    return (
        rounds == expected
        and metadata.get("values_sha256") in (None, hash_values(frame))
        and rows_sha256 in (None, hash_values(frame, seconds=True))
    )


# Records


@dataclass(frozen=True)
class Record:
    """A recorded run: its metadata, a reader of its evaluated rounds by column, and the file that holds the
    metadata (its sidecar, or `runs.parquet`)."""

    metadata: dict
    columns: Callable[[], dict[str, np.ndarray]]
    file: Path

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.metadata["run"]

    @property
    def identity(self) -> dict:
        """Everything that determines the run."""
        return self.metadata["identity"]

    def frame(self) -> pd.DataFrame:
        """Return the evaluated rounds, as `History.frame` had them."""
        return pd.DataFrame(self.columns())

    def identity_columns(self) -> dict:
        """Return what tables and frames say of the run besides its hashes."""
        recipe, method = self.identity["partition"], self.identity["method"]
        nested = {
            "partition": recipe["name"],
            "concentration": recipe.get("concentration"),
            "method": method["name"],
        }
        return {
            name: nested[name] if name in nested else self.identity[name]
            for name in _IDENTITY_COLUMNS
        }

    def check_equal(self, other: Record) -> None:
        """Raise `InputError` if another record of the same run has other values, cohorts or another ending."""
        one, two = (
            (r.metadata.get("cohorts_sha256"), r.metadata.get("diverged"), hash_values(r.columns()))
            for r in (self, other)
        )
        if one != two:
            raise InputError(
                f"{self.file} contradicts {other.file}, which holds the same run: move it and "
                f"{self.file.with_suffix('.parquet').name} away, or restore the other"
            )


# A run's own two files


def save(
    history: History,
    identity: dict,
    sweep: str,
    folder: str | Path = "results",
    *,
    device,
    threads: int = 1,
    majority=None,
    diverged: str | None = None,
    worst_decile: float | None = None,
    local_accuracy: float | None = None,
) -> Path:
    """Write a run's own two files, the sidecar last; returns the parquet file.

    Args:
        majority: each client's most frequent label; if given, it and the cohorts are stored, for `cohorts`, and
            else only a hash of the cohorts.
        diverged: how the run ended before its last round; its frame holds the evaluations until then.
        worst_decile: accuracy of the final model on the tenth of the clients that it serves worst.
        local_accuracy: that on test sets of the clients' own (see `local_tests`).
    """
    digest, chain = hashlib.sha256(), ""
    for cohort in history.cohorts:
        digest.update(np.asarray(cohort, dtype=np.int64).tobytes())
        chain += digest.hexdigest()[:CHAIN_DIGITS]
    metadata = {
        "format": FORMAT,
        "run": run_id(identity),
        "settings": settings_id(identity),
        "sweep": sweep,
        "identity": identity,
        "seconds": round(float(history.frame["seconds"].max() if len(history.frame) else 0.0), 1),
        "diverged": diverged,
        "worst_decile": worst_decile,
        "local_accuracy": local_accuracy,
        "cohorts_sha256": digest.hexdigest(),
        "cohorts_chain": chain,
        "cohorts": None if majority is None else [c.tolist() for c in history.cohorts],
        "majority": None if majority is None else np.asarray(majority).tolist(),
        "environment": provenance.environment(device, threads),
    }
    data, sidecar = run_files(identity, sweep, folder)
    _write_run(history.frame, metadata, data, sidecar)
    return data


def _write_run(frame: pd.DataFrame, metadata: dict, data: Path, sidecar: Path) -> None:
    """Write both files, the sidecar last, with checksums of the values and of all that it says itself."""
    hashes = {"values_sha256": hash_values(frame), "rows_sha256": hash_values(frame, seconds=True)}
    metadata = metadata | hashes
    metadata["note_sha256"] = _hash_json(metadata, sort_keys=True)
    # An older sidecar of this run is deleted first: if the process is killed before the end, the run counts as missing.
    with contextlib.suppress(OSError):
        sidecar.unlink(missing_ok=True)
    atomic.write(data, lambda path: frame.to_parquet(path, index=False))
    _write_json(sidecar, metadata)


def _write_json(file: Path, data: dict) -> None:
    """Write data as JSON, so that the file is complete or absent."""
    atomic.write(
        file, lambda path: path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    )


_SIDECAR_NAME = re.compile(r"-\d+-[0-9a-f]{8}\.json$")  # as `file_stem` names them


def sidecars(folder: str | Path, pattern: str = "**/*.json") -> list[Path]:
    """Return the sidecars of all runs with files of their own below a folder; other JSON files are ignored."""
    files = (p for p in Path(folder).glob(pattern) if p.parent.name != PARTITIONS)
    return sorted(p for p in files if _SIDECAR_NAME.search(p.name) or _describes_run(p))


def _describes_run(file: Path) -> bool:
    """Return whether a JSON file is a sidecar under another name."""
    try:
        return {"run", "identity"} <= json.loads(file.read_bytes()).keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def read_sidecar(sidecar: Path) -> Record:
    """Return the run with files of its own; its values are read, and checked, when they are asked for.

    Raises:
        InputError: the sidecar is damaged, of a newer version, or contradicts itself.
    """
    data = sidecar.with_suffix(".parquet").name
    try:
        metadata = json.loads(sidecar.read_text(encoding="utf-8"))
        newer = metadata["format"] > FORMAT
        checksum = metadata.pop("note_sha256", None)
        consistent = metadata["run"] == run_id(metadata["identity"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{sidecar} is not the sidecar of a run ({type(error).__name__})"
        ) from error
    if newer:
        raise InputError(f"{sidecar} was written by a newer version of fedstas: update it")
    if not consistent:
        raise InputError(
            f"{sidecar} contradicts itself: its identity does not hash to {metadata['run']}"
        )
    if checksum not in (None, _hash_json(metadata, sort_keys=True)):  # older ones have none
        raise InputError(f"{sidecar} contradicts its checksum: delete it and {data} and run again")
    if not metadata.get("values_sha256"):
        raise InputError(f"{sidecar} has no checksum of {data}: delete both and run again")
    return Record(metadata, partial(_read_values, sidecar, metadata), sidecar)


def _read_values(sidecar: Path, metadata: dict) -> dict[str, np.ndarray]:
    """Return the columns of a run's parquet file, checked against its sidecar."""
    data = sidecar.with_suffix(".parquet")
    try:
        frame = pd.read_parquet(data)
        columns = frame_columns(metadata["identity"])
        typed = [*frame.dtypes.astype(str).items()] == [*columns.items()]
        consistent = typed and _matches(frame, metadata, metadata.get("rows_sha256"))
    except Exception as error:  # whatever pyarrow raises for a damaged file
        raise InputError(f"{data} is missing or damaged: delete {sidecar} and run again") from error
    if not consistent:
        raise InputError(f"{sidecar} contradicts {data.name}: delete both and run again")
    return {name: frame[name].to_numpy() for name in columns}


# The two tables of a sweep


@dataclass(frozen=True)
class _Tables:
    """By run its record, and the runs of `rows.parquet` that `runs.parquet` lacks, as a killed `pack` leaves them."""

    records: dict[str, Record]
    unlisted: set[str]


def _read_tables(folder: Path) -> _Tables:
    """Return the tables of a sweep's folder, checked against each other; empty where there are none."""
    return _read_tables_cached(folder, atomic.stamp(folder / RUNS), atomic.stamp(folder / ROWS))


@lru_cache(maxsize=32)
def _read_tables_cached(folder: Path, runs_stamp, rows_stamp) -> _Tables:
    """Read the tables; a changed file has another stamp, and is another entry of the cache."""
    if not (runs_stamp or rows_stamp):
        return _Tables({}, set())
    return _join_tables(folder / RUNS if runs_stamp else None, folder / ROWS)


def _join_tables(runs: Path | None, rows: Path) -> _Tables:
    """Read both tables and check them against each other; without `runs`, every run of `rows` is unlisted."""
    frames = _read_rows(rows)
    empty = {name: np.empty(0, kind) for name, kind in _ALL_COLUMNS.items()}
    records = {}
    for row in _read_runs(runs) if runs else []:
        values, metadata = frames.pop(row["run"], empty), _metadata_of(row)
        frame = {name: values[name] for name in frame_columns(metadata["identity"])}
        if not _matches(frame, metadata, row["rows_sha256"]):
            raise _contradiction(rows, row["run"])
        records[row["run"]] = Record(metadata, partial(dict, frame), rows.with_name(RUNS))
    return _Tables(records, {*frames})


def _contradiction(rows: Path, run: str) -> InputError:
    """Return the error of a run in which the two tables disagree."""
    tables = f"{rows} and {RUNS} beside it contradict each other in run {run}"
    return InputError(f"{tables}: {_remedy(rows.parent)}")


def _remedy(folder: Path) -> str:
    """Return what to do about damaged tables, for an error message."""
    return f"restore {ROWS} and {RUNS} in {folder}, or delete both and make the sweep again"


def _row_of(record: Record) -> dict:
    """Return the row of a run in `runs.parquet`; `InputError` if it could not hold all metadata."""
    try:
        values = {name: record.metadata.get(name) for name in _METADATA} | record.identity_columns()
        environment = record.metadata["environment"]
        values |= {name: environment[name] for name in _ENVIRONMENT_COLUMNS}
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{record.file} is not the sidecar of a run ({type(error).__name__})"
        ) from error
    values |= {name: json.dumps(values[name]) for name in ("identity", "environment")}
    values["rows_sha256"] = hash_values(record.columns(), seconds=True)
    row = {name: values[name] for name in RUNS_SCHEMA.names}
    if _packed_metadata(_metadata_of(row)) != _packed_metadata(record.metadata):
        raise InputError(f"{record.file} says more than {RUNS} can hold: it was left as it is")
    return row


def _metadata_of(row: dict) -> dict:
    """Return the metadata of a row, the inverse of `_row_of`; what a sidecar lacked is None."""
    parsed = {name: json.loads(row[name]) for name in ("identity", "environment")}
    return {name: row[name] for name in _METADATA} | parsed


def _packed_metadata(metadata: dict) -> dict:
    """Return the metadata that packing must keep: without `rows_sha256`, None (older sidecars lack it) and NaN (no outcome)."""
    has_value = {k: v for k, v in metadata.items() if v is not None and v == v}
    return {k: v for k, v in has_value.items() if k != "rows_sha256"}


def _hash_rows(rows: list[dict]) -> str:
    """Return the checksum of `runs.parquet`, the same as before later columns where these are empty."""
    rows = [
        {k: v for k, v in row.items() if k not in _LATER_COLUMNS or v is not None} for row in rows
    ]
    return _hash_json([FORMAT, rows])


def _read_table(file: Path, schema: pa.Schema) -> tuple[pa.Table, dict]:
    """Return a table and what its file says of it; `InputError` if it is damaged, newer, or of other columns."""
    try:
        with parquet.ParquetFile(file) as opened:
            about = json.loads(opened.metadata.metadata[b"fedstas"])
            newer = about["format"] > FORMAT
            table = None if newer else opened.read()
    except Exception as error:  # whatever pyarrow raises for a damaged file
        damage = f"{file} is missing or damaged ({type(error).__name__})"
        raise InputError(f"{damage}: {_remedy(file.parent)}") from error
    if newer:
        raise InputError(f"{file} was written by a newer version of fedstas: update it")
    for name in (*_LATER_COLUMNS, *AVERAGE_COLUMNS):
        if name in schema.names and name not in table.schema.names:
            table = table.append_column(schema.field(name), pa.nulls(len(table), pa.float64()))
    if not table.schema.equals(schema):
        raise InputError(f"{file} has other columns than it should: {_remedy(file.parent)}")
    return table, about


def _read_runs(file: Path) -> list[dict]:
    """Return the rows of `runs.parquet`, checked against its checksum and their identities."""
    table, about = _read_table(file, RUNS_SCHEMA)
    try:
        rows = table.to_pylist()
        newer = any(row["format"] > FORMAT for row in rows)
        consistent = about["sha256"] == _hash_rows(rows)
        consistent &= all(row["run"] == run_id(json.loads(row["identity"])) for row in rows)
    except Exception as error:
        raise InputError(f"{file} is damaged: {_remedy(file.parent)}") from error
    if not consistent:
        raise InputError(f"{file} contradicts its checksum: {_remedy(file.parent)}")
    if newer:
        raise InputError(f"{file} holds a run of a newer version of fedstas: update it")
    return rows


def _read_rows(file: Path) -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of each run."""
    table, _ = _read_table(file, ROWS_SCHEMA)
    try:
        names = np.array(table["run"].to_pylist(), dtype=object)
        columns = {name: table[name].to_numpy() for name in _ALL_COLUMNS}
    except Exception as error:
        raise InputError(f"{file} is damaged: {_remedy(file.parent)}") from error
    starts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1)] if len(names) else []
    frames: dict[str, dict[str, np.ndarray]] = {}
    for low, high in zip(starts, [*starts[1:], len(names)], strict=True):
        if names[low] in frames:
            raise InputError(f"{file} holds run {names[low]} twice: {_remedy(file.parent)}")
        frames[names[low]] = {name: values[low:high] for name, values in columns.items()}
    return frames


def pack(folder: str | Path) -> str:
    """Move the runs' own files of a sweep's folder into its two tables; returns a sentence on what was done.

    Both tables are read back and compared, run by run, before anything is replaced or deleted. `rows.parquet` is
    replaced first, then `runs.parquet`, and the runs' own files are deleted last: after a kill at any moment every
    run is still there, and another call finishes. A run in progress is left alone.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name that of a sweep, e.g. results/preprint")
    with run_lock(folder / ROWS) as acquired:
        if not acquired:
            raise InputError(f"{folder} is being packed by another process: wait for it")
        single = sidecars(folder, "*.json")
        records = _read_folder(folder)
        if not records:
            raise InputError(f"there are no recorded runs in {folder}: name the folder of a sweep")
        new = [record for record in records if record.file.name != RUNS]
        if new:
            _write_tables(folder, records)
        stems = [file_stem(record.identity) for record in records]
        _delete_single(single, [folder / f"{stem}.parquet" for stem in stems])
        clean_stale(folder, stems)
    return f"{folder}: {len(records)} runs in {ROWS} and {RUNS}, {len(new)} of them packed now"


def _write_tables(folder: Path, records: list[Record]) -> None:
    """Write both tables to temporary names, read them back, rename `rows.parquet`, then `runs.parquet`."""
    values = [record.columns() for record in records]
    names = np.repeat([record.run for record in records], [len(run["round"]) for run in values])
    columns = _concatenate(values)
    rows_table = pa.table({"run": names} | columns, ROWS_SCHEMA)
    if not any("average" in record.identity for record in records):
        rows_table = rows_table.drop_columns([*AVERAGE_COLUMNS])
    rows = [_row_of(record) for record in records]
    runs_table = pa.Table.from_pylist(rows, RUNS_SCHEMA)

    def write_rows(runs_file: Path, rows_file: Path) -> None:
        """Write `rows.parquet` under a temporary name, and check both temporary files."""
        encoding = {"use_dictionary": ["run", "test_accuracy"], "column_encoding": _ROWS_ENCODING}
        _write_table(rows_file, rows_table, {}, **encoding)
        _check_tables(_join_tables(runs_file, rows_file), records, folder)

    def write_runs(runs_file: Path) -> None:
        """Write `runs.parquet` under a temporary name, then `rows.parquet`."""
        _write_table(runs_file, runs_table, {"runs": len(rows), "sha256": _hash_rows(rows)})
        atomic.write(folder / ROWS, partial(write_rows, runs_file))

    atomic.write(folder / RUNS, write_runs)


def _concatenate(values: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the columns of several runs; those of averages are NaN for a run without them."""
    missing = [np.full(len(run["round"]), np.nan) for run in values]
    return {
        name: np.concatenate([run.get(name, nan) for run, nan in zip(values, missing, strict=True)])
        for name in _ALL_COLUMNS
    }


def _write_table(file: Path, table: pa.Table, about: dict, **encoding) -> None:
    """Write a table with what its file says of it, and wait until it is on the disk."""
    about = {"fedstas": json.dumps({"format": FORMAT} | about)}
    compression = {"compression": "zstd", "compression_level": 19}
    parquet.write_table(table.replace_schema_metadata(about), file, **compression, **encoding)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())  # before the files that it was made from are deleted


def _check_tables(tables: _Tables, records: list[Record], folder: Path) -> None:
    """Raise `InputError` unless the tables, read back, hold exactly these runs."""
    equal = [*tables.records] == [record.run for record in records] and not tables.unlisted
    for record, copy in zip(records, tables.records.values(), strict=True) if equal else ():
        equal &= _packed_metadata(copy.metadata) == _packed_metadata(record.metadata)
        values = copy.columns()
        equal &= all(values[name].tobytes() == v.tobytes() for name, v in record.columns().items())
    if not equal:
        raise InputError(f"{folder} was not packed: what was written reads back as another")


def _delete_single(sidecars: list[Path], values: list[Path]) -> None:
    """Delete the runs' own files, each sidecar first: without it a parquet file counts for nothing."""
    try:
        for path in [*sidecars, *(path.with_suffix(".parquet") for path in sidecars), *values]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} could not be deleted: {error.strerror}") from error


def unpack(folder: str | Path, into: str | Path) -> list[Path]:
    """Write the runs of a sweep's folder as files of their own below `into`; returns the sidecars."""
    records = _read_folder(Path(folder))
    if not records:
        raise InputError(f"there are no recorded runs in {folder}: name the folder of a sweep")
    targets = [run_files(r.identity, r.metadata["sweep"], into) for r in records]
    for _, sidecar in targets:
        if sidecar.exists():
            raise InputError(f"{sidecar} is there already: unpack into another folder")
    for record, (data, sidecar) in zip(records, targets, strict=True):
        _write_run(record.frame(), record.metadata, data, sidecar)
    return [sidecar for _, sidecar in targets]


# Reading


def _read_folder(folder: Path) -> list[Record]:
    """Return the runs of one folder, packed or not, in the order of the names of their own files.

    A run that is there twice counts once; `InputError` if the two contradict each other.
    """
    single = sidecars(folder, "*.json")
    try:
        return _merge(folder, single)
    except InputError:
        now = sidecars(folder, "*.json")
        if now == single:
            raise
        return _merge(folder, now)  # another process was just packing them


def _merge(folder: Path, single: list[Path]) -> list[Record]:
    """Return the runs of a folder's tables and of the sidecars `single`; see `_read_folder`."""
    tables = _read_tables(folder)
    records = dict(tables.records)
    for sidecar in single:
        record = read_sidecar(sidecar)
        packed = records.setdefault(record.run, record)
        if packed is not record:
            record.check_equal(packed)
    for run in tables.unlisted - records.keys():
        raise _contradiction(folder / ROWS, run)

    def sidecar_name(record: Record) -> str:
        """Return the name of the run's sidecar, or the name that it had before it was packed."""
        has_sidecar = record.file.suffix == ".json"
        return record.file.name if has_sidecar else f"{file_stem(record.identity)}.json"

    return sorted(records.values(), key=sidecar_name)


def find(identity: dict, sweep: str, folder: str | Path = "results") -> Record | None:
    """Return the record of a run, its values checked, or None where it is not recorded.

    Raises:
        InputError: what is recorded is damaged, of another run, or contradicts itself.
    """
    data, sidecar = run_files(identity, sweep, folder)
    if sidecar.exists():
        try:
            record = read_sidecar(sidecar)
            if record.run != run_id(identity):
                raise InputError(
                    f"{sidecar} is of another run: delete it and {data.name} and run again"
                )
            if packed := find_packed(identity, sweep, folder):
                record.check_equal(packed)
            else:
                record.columns()
            return record
        except InputError:
            if sidecar.exists():
                raise  # else another process was just packing it
    return find_packed(identity, sweep, folder)


def find_packed(identity: dict, sweep: str, folder: str | Path = "results") -> Record | None:
    """Return the record of a run in the tables of a sweep, or None where they do not hold it."""
    return _read_tables(Path(folder) / sweep).records.get(run_id(identity))


def is_recorded(identity: dict, sweep: str, folder: str | Path = "results") -> bool:
    """Return whether a run is recorded; `InputError` as in `find`."""
    return find(identity, sweep, folder) is not None


def read_runs(folder: str | Path = "results") -> list[Record]:
    """Return all runs below a folder, packed or not."""
    try:
        tables = (path for name in (RUNS, ROWS) for path in Path(folder).rglob(name))
        folders = {path.parent for path in (*tables, *sidecars(folder))}
    except OSError as error:
        failure = f"{folder} cannot be searched: {error.strerror} ({error.filename})"
        raise InputError(f"{failure}: name the folder of the results") from error
    sweeps = (path for path in sorted(folders) if path.name not in (PARTITIONS, *ERROR_TABLES))
    return [record for path in sweeps for record in _read_folder(path)]


def load(folder: str | Path = "results") -> pd.DataFrame:
    """Return all runs below a folder, one row per run and evaluated round.

    Columns: run, sweep, settings, task, partition, concentration, clients, clients_per_round,
    method, seed, rounds, and those of `History.frame`; those of averages are NaN for runs without `average`.
    """
    records = read_runs(folder)
    if not records:
        raise InputError(f"there are no recorded runs below {folder}")
    descriptions = [
        {name: r.metadata[name] for name in ("run", "sweep", "settings")} | r.identity_columns()
        for r in records
    ]
    values = [record.columns() for record in records]
    repeats = np.repeat(np.arange(len(values)), [len(run["round"]) for run in values])
    frame = pd.DataFrame(descriptions).astype({"concentration": float}).take(repeats)
    return frame.reset_index(drop=True).assign(**_concatenate(values))


def identities(folder: str | Path = "results") -> dict[str, dict]:
    """Return the identity of each run, by run: all settings that determine it."""
    return {record.run: record.identity for record in read_runs(folder)}


def details(folder: str | Path = "results") -> pd.DataFrame:
    """Return one row per run: its name and all settings of its method, as `clients.strata`, `data.rate`,
    `local.steps`; to be merged with `load`."""
    by_run = identities(folder)
    frame = pd.json_normalize([identity["method"] for identity in by_run.values()])
    frame = frame.drop(columns="name")
    frame.insert(0, "run", [*by_run])
    return frame


def cohorts(sweep: str, folder: str | Path = "results") -> dict[str, list[np.ndarray]]:
    """Return the client numbers of each round's cohort, by run, for the runs of a sweep that stored them."""
    runs = read_runs(Path(folder) / sweep)
    stored = {r.run: r.metadata["cohorts"] for r in runs if r.metadata.get("cohorts")}
    return {run: [np.array(cohort) for cohort in each] for run, each in stored.items()}


def majority_labels(sweep: str, folder: str | Path = "results") -> dict[str, np.ndarray]:
    """Return each client's most frequent class, int [N], by run, for the runs of a sweep that stored it."""
    runs = read_runs(Path(folder) / sweep)
    return {r.run: np.array(r.metadata["majority"]) for r in runs if r.metadata.get("majority")}


def rerun(run: str, folder: str | Path = "results", *, device="auto", progress=False) -> History:
    """Repeat a recorded run from its identity alone and return its history.

    Raises:
        InputError: it is not recorded, or its algorithms, data or user code are not the same here.
    """
    record = next((r for r in read_runs(folder) if r.run == run), None)
    if record is None:
        raise InputError(f"there is no run {run!r} below {folder}")
    identity = record.identity
    method = methods.from_dict(identity["method"])
    if identity["algorithms"] != methods.version(method):
        raise InputError(
            f"run {run} was made by version {identity['algorithms']} of the algorithms, "
            f"this is {methods.version(method)}"
        )
    names = {key: identity.get(key, "") for key in ("task", "network")}
    files = {k: sha for k, sha in identity.get("files", {}).items() if k in names}
    for key, sha in files.items():
        names[key] = user_code.locate(names[key], sha, f"the {key} in")
    task = tasks.load(names["task"], network=names["network"])
    if task.digest != identity["digest"]:
        raise InputError(f"run {run} was made from other data than the {task.name} found here")
    return simulation.run(
        task,
        partition.from_recipe(
            task.train_y, identity["partition"], task.users, task.kept, task.test_users
        ),
        method,
        **{key: identity[key] for key in ("rounds", "clients_per_round", "seed", "eval_every")},
        **{key: identity[key] for key in _OPTIONAL_KEYS if key in identity},
        message=config.from_dict(identity["message"]) if "message" in identity else None,
        initial_model=model_files.locate(identity),
        device=device,
        threads=record.metadata["environment"]["threads"],
        progress=progress,
    )


# Runs in progress


def checkpoint_file(data: Path) -> Path:
    """Return the checkpoint of a run, beside its parquet file."""
    return atomic.hidden_file(data.with_suffix(""), "checkpoint")


@lru_cache(maxsize=1)
def _environment(device: str) -> dict:
    """Return the environment of this process without its commit, read once per device."""
    return provenance.environment(device, 1, with_commit=False)


def _checkpoint_key(identity: dict, device) -> dict:
    """Return what a run must share with the checkpoint that it resumes from: all that its last bits depend on."""
    return json.loads(json.dumps(identity)) | {"environment": _environment(str(device))}


def write_checkpoint(history: History, identity: dict, data: Path, device) -> None:
    """Replace the checkpoint of a run, where the disk has room for it; without one the run would start over."""
    run_file.save_history(checkpoint_file(data), _checkpoint_key(identity, device), history)


def read_checkpoint(identity: dict, data: Path, device) -> History | None:
    """Return the history to resume from, or None where there is no checkpoint.

    Raises:
        InputError: it is damaged, or of another run, device or version.
    """
    if not (file := checkpoint_file(data)).exists():
        return None
    method = methods.from_dict(identity["method"])
    return run_file.load_history(file, _checkpoint_key(identity, device), method)


def delete_checkpoint(data: Path) -> None:
    """Delete the checkpoint of a run."""
    with contextlib.suppress(OSError):
        checkpoint_file(data).unlink(missing_ok=True)


@contextlib.contextmanager
def run_lock(data: Path) -> Iterator[bool]:
    """Hold the lock of a run; yield False where another process has it, which executes this run."""
    with atomic.lock(data.with_suffix("")) as acquired:
        yield acquired


def clean_stale(folder: Path, stems: Iterable[str]) -> None:
    """Delete what killed processes left in a sweep's folder beside these runs, which are recorded: checkpoints,
    locks, partly written files. What another process holds is left alone."""
    kinds = (".checkpoint", ".lock", ".partial")
    stale = [path for path in folder.glob(".*") if path.suffix in kinds]
    for stem in stems if stale else ():
        files_of_run = [path for path in stale if path.name.startswith(f".{stem}.")]
        if files_of_run:
            with run_lock(folder / f"{stem}.parquet") as acquired, contextlib.suppress(OSError):
                for path in files_of_run if acquired else ():
                    path.unlink(missing_ok=True)


# Recorded partitions


def _hash_counts(counts: np.ndarray) -> str:
    """Return the SHA-256 of label counts [N, C]."""
    return hashlib.sha256(np.ascontiguousarray(counts, dtype=np.int64).tobytes()).hexdigest()


def save_partition(task: Task, federation: Federation, folder: str | Path = "results") -> Path:
    """Write how many examples of each class each client holds: columns client, class, count, and a sidecar."""
    recipe = dict(federation.recipe)
    parts = [task.name, recipe["name"], recipe.get("concentration"), recipe["seed"]]
    stem = "-".join(str(p) for p in parts if p is not None)
    data = Path(folder) / PARTITIONS / f"{stem}.parquet"
    clients, classes = federation.label_counts.shape
    frame = pd.DataFrame(
        {
            "client": np.repeat(np.arange(clients), classes),
            "class": np.tile(np.arange(classes), clients),
            "count": federation.label_counts.ravel(),
        }
    )
    metadata = {
        "format": FORMAT,
        "identity": {"task": task.name, "digest": task.digest, "partition": recipe},
        "environment": provenance.environment("cpu", 1),
        "counts_sha256": _hash_counts(federation.label_counts),
    }
    atomic.write(data, lambda path: frame.to_parquet(path, index=False))
    _write_json(data.with_suffix(".json"), metadata)
    return data


def load_partitions(folder: str | Path = "results") -> dict[str, np.ndarray]:
    """Return recorded label counts [N, C] by the name of the partition.

    Raises:
        InputError: where nothing is recorded, a file is damaged, or two files hold partitions of the same name.
    """
    partitions: dict[str, np.ndarray] = {}
    paths: dict[str, Path] = {}
    for path in sorted((Path(folder) / PARTITIONS).glob("*.json")):
        try:
            metadata = json.loads(path.read_text(encoding="utf-8"))
            frame = pd.read_parquet(path.with_suffix(".parquet"))
            counts = frame.pivot(index="client", columns="class", values="count").to_numpy()
            name = metadata["identity"]["partition"]["name"]
            consistent = metadata.get("counts_sha256") in (
                None,
                _hash_counts(counts),
            )  # older ones have none
        except Exception as error:  # whatever pandas raises for a damaged file
            damage = f"{path} and {path.stem}.parquet are damaged ({type(error).__name__})"
            raise InputError(f"{damage}: restore or delete both") from error
        if not consistent:
            raise InputError(f"{path} contradicts {path.stem}.parquet: restore or delete both")
        if name in paths:
            raise InputError(
                f"{paths[name]} and {path} both hold a partition {name!r}: move one to another folder"
            )
        partitions[name], paths[name] = counts, path
    if not partitions:
        raise InputError(f"there are no recorded partitions below {folder}")
    return partitions
