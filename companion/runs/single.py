"""One run on disk: a parquet file and a JSON sidecar, named by what determines the run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs.atomic import write
from fedstas import methods
from fedstas.errors import InputError, check_int
from fedstas.methods import Method
from fedstas.sim.partition import Federation
from fedstas.sim.simulation import COLUMNS
from fedstas.sim.tasks import Task

FORMAT = 1
CHAIN = 4  # hex digits of `cohorts_chain` per round: of the hash of all cohorts up to that round
PARTITIONS = "partitions"  # the folder of recorded partitions, beside the sweeps
ONE_ROUND = "one-round"  # that of the table of one-round errors


def identity(
    task: Task,
    federation: Federation,
    method: Method,
    *,
    rounds: int,
    clients_per_round: int,
    seed: int,
    eval_every: int = 1,
) -> dict:
    """Everything that determines a run, as plain data: equal runs, equal identities."""
    if not federation.recipe:
        raise InputError("a federation without a recipe cannot be recorded: use a named partition")
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
    } | task.other


def _hash(data: dict) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_id(who: dict) -> str:
    """The name of a run: a hash of its identity."""
    return _hash(who)


def settings_id(who: dict) -> str:
    """A hash of everything but the seeds."""
    recipe = {k: v for k, v in who["partition"].items() if k != "seed"}
    return _hash({k: v for k, v in who.items() if k != "seed"} | {"partition": recipe})


def stem(who: dict) -> str:
    """The name of a run's files: who it is for a reader, and by its last digits for a program."""
    recipe = who["partition"]
    parts = [who["task"], recipe["name"], recipe.get("concentration"), who["method"]["name"]]
    said = "-".join(str(p) for p in parts if p is not None)
    return re.sub(r"[^\w.+-]+", "_", said) + f"-{who['seed']}-{run_id(who)[:8]}"


def paths(who: dict, sweep: str, folder: str | Path = "results") -> tuple[Path, Path]:
    """The parquet file and the sidecar of a run; `InputError` if `sweep` is no name of a folder."""
    if not re.fullmatch(r"\w[\w .+-]*", sweep) or sweep == PARTITIONS:
        raise InputError(
            f"sweep {sweep!r} cannot be the name of a folder of runs: begin with a letter or digit, "
            f"use these, spaces and . _ + - only, and not {PARTITIONS!r}"
        )
    base = Path(folder) / sweep / stem(who)
    return base.with_name(base.name + ".parquet"), base.with_name(base.name + ".json")


def values_hash(frame, leave: tuple[str, ...] = ("seconds",)) -> str:
    """The SHA-256 of a run's frame, seconds aside: what its sidecar must agree with."""
    columns = [np.ascontiguousarray(frame[c]).tobytes() for c in COLUMNS if c not in leave]
    return hashlib.sha256(b"".join(columns)).hexdigest()


def evaluated(who: dict) -> list[int]:
    """The rounds that a run of this identity has in its frame."""
    every, rounds = who["eval_every"], who["rounds"]
    return sorted({*range(every, rounds + 1, every), rounds})


def fits(frame, note: dict) -> bool:
    """Whether a frame has the rounds and the values that its note says."""
    rounds, found = evaluated(note["identity"]), frame["round"].tolist()
    rounds = rounds[: len(found)] if note.get("diverged") else rounds
    return found == rounds and note.get("values_sha256") in (None, values_hash(frame))


def _seal(note: dict) -> str:
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def put(frame: pd.DataFrame, note: dict, data: Path, sidecar: Path) -> None:
    """Write both files to temporary names, the sidecar renamed last and with its checksums: of the
    values, of them with the seconds, and of all that it says."""
    note = note | {"values_sha256": values_hash(frame), "rows_sha256": values_hash(frame, leave=())}
    note["note_sha256"] = _seal(note)
    with contextlib.suppress(OSError):  # of the same run made before: killed now, it is not there
        sidecar.unlink(missing_ok=True)
    write(data, lambda path: frame.to_parquet(path, index=False))
    write(sidecar, lambda path: path.write_text(json.dumps(note, indent=1) + "\n"))


def sidecars(folder: str | Path, pattern: str = "**/*.json") -> list[Path]:
    """The sidecars of all single runs below a folder; other people's .json files are none."""
    found = (p for p in Path(folder).glob(pattern) if p.parent.name != PARTITIONS)
    return sorted(p for p in found if _SIDECAR.search(p.name) or _speaks_of_a_run(p))


_SIDECAR = re.compile(r"-\d+-[0-9a-f]{8}\.json$")  # as `stem` names them


def _speaks_of_a_run(path: Path) -> bool:
    """A sidecar under another name."""
    try:
        return {"run", "identity"} <= json.loads(path.read_bytes()).keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def read_sidecar(path: Path) -> dict:
    """What a sidecar says; `InputError` if it is damaged, newer, or contradicts itself."""
    data = path.with_suffix(".parquet").name
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        newer = note["format"] > FORMAT
        seal = note.pop("note_sha256", None)
        genuine = note["run"] == run_id(note["identity"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not the sidecar of a run ({type(error).__name__})") from error
    if newer:
        raise InputError(f"{path} was written by a newer version of fedstas: update it")
    if not genuine:
        raise InputError(f"{path} contradicts itself: its identity does not hash to {note['run']}")
    if seal not in (None, _seal(note)):  # older ones have none
        raise InputError(f"{path} contradicts its checksum: delete it and {data} and run again")
    if not note.get("values_sha256"):
        raise InputError(f"{path} has no checksum of {data}: delete both and run again")
    return note


def read_frame(sidecar: Path, note: dict) -> pd.DataFrame:
    """The frame of a run, held against its sidecar."""
    data = sidecar.with_suffix(".parquet")
    try:
        frame = pd.read_parquet(data)
        whole = dict(frame.dtypes.astype(str)) == COLUMNS and fits(frame, note)
        whole &= note.get("rows_sha256") in (None, values_hash(frame, leave=()))
    except Exception as error:  # whatever a damaged file may raise
        remedy = f"delete {sidecar} and run again"
        raise InputError(f"{data} is missing or damaged: {remedy}") from error
    if not whole or list(frame.columns) != list(COLUMNS):
        raise InputError(f"{sidecar} contradicts {data.name}: delete both and run again")
    return frame
