"""Recorded runs: written one by one, kept in two tables per sweep, read from both alike.

What a run is and its own files are in `single`, the tables of a sweep in `packed`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs import packed
from companion.runs.atomic import write
from companion.runs.packed import Found
from companion.runs.provenance import commit as commit
from companion.runs.provenance import environment
from companion.runs.single import (
    CHAIN,
    FORMAT,
    ONE_ROUND,
    PARTITIONS,
    paths,
    put,
    read_sidecar,
    run_id,
    settings_id,
)
from companion.runs.single import evaluated as evaluated
from companion.runs.single import identity as identity
from companion.runs.single import read_frame as read_frame
from companion.runs.single import sidecars as sidecars
from companion.runs.single import stem as stem
from companion.runs.single import values_hash as values_hash
from fedstas import methods, user_code
from fedstas.errors import InputError
from fedstas.sim import partition, simulation, tasks
from fedstas.sim.partition import Federation
from fedstas.sim.simulation import COLUMNS, History
from fedstas.sim.tasks import Task

NO_RUNS = (PARTITIONS, ONE_ROUND)  # folders that hold something else


def save(
    history: History,
    who: dict,
    sweep: str,
    folder="results",
    *,
    device,
    threads=1,
    majority=None,
    diverged: str | None = None,
    worst_decile: float | None = None,
    local_accuracy: float | None = None,
) -> Path:
    """Write a run's own two files, the sidecar last.

    With each client's `majority` label, both are kept, for `cohorts`; else only a hash. `diverged`
    says how a run ended before its last round; its frame holds the evaluations until then.
    `worst_decile` is the accuracy of the final model on the tenth of the clients that it serves worst,
    `local_accuracy` that on test sets of the clients' own (see `local_tests`).
    """
    data, sidecar = paths(who, sweep, folder)
    digest, chain = hashlib.sha256(), ""
    for cohort in history.cohorts:
        digest.update(np.asarray(cohort, dtype=np.int64).tobytes())
        chain += digest.hexdigest()[:CHAIN]
    note = {
        "format": FORMAT,
        "run": run_id(who),
        "settings": settings_id(who),
        "sweep": sweep,
        "identity": who,
        "seconds": round(float(history.frame["seconds"].max() if len(history.frame) else 0.0), 1),
        "diverged": diverged,
        "worst_decile": worst_decile,
        "local_accuracy": local_accuracy,
        "cohorts_sha256": digest.hexdigest(),
        "cohorts_chain": chain,
        "cohorts": None if majority is None else [c.tolist() for c in history.cohorts],
        "majority": None if majority is None else np.asarray(majority).tolist(),
        "environment": environment(device, threads),
    }
    put(history.frame, note, data, sidecar)
    return data


def find(who: dict, sweep: str, folder: str | Path = "results") -> dict | None:
    """What is noted of a run, or None where it is not recorded.

    `InputError` if what is there is damaged, is not that run, or contradicts itself.
    """
    data, sidecar = paths(who, sweep, folder)
    if sidecar.exists():
        try:
            return _single(who, data, sidecar)
        except InputError:
            if sidecar.exists():
                raise  # else it was just being packed
    row = packed.read(data.parent).rows.get(run_id(who))
    return None if row is None else packed.note_of(row)


def _single(who: dict, data: Path, sidecar: Path) -> dict:
    """What is noted of a run with files of its own, its values read and held against it."""
    note = read_sidecar(sidecar)
    if note["run"] != run_id(who):
        raise InputError(f"{sidecar} is of another run: delete it and {data.name} and run again")
    if packed.read(data.parent).rows.get(note["run"]) is None:
        read_frame(sidecar, note)
    else:
        packed.here(data.parent)  # both are there: they must agree
    return note


def there(who: dict, sweep: str, folder: str | Path = "results") -> bool:
    """Whether a run is recorded; `InputError` as in `find`."""
    return find(who, sweep, folder) is not None


def recorded(folder: str | Path = "results") -> list[Found]:
    """All runs below a folder, packed and single ones alike: their note, `frame()` and place."""
    try:
        tables = (path for kind in (packed.RUNS, packed.ROWS) for path in Path(folder).rglob(kind))
        folders = {path.parent for path in (*tables, *sidecars(folder))}
    except OSError as error:
        said = f"{folder} cannot be searched: {error.strerror} ({error.filename})"
        raise InputError(f"{said}: name the folder of the results") from error
    return [
        run for path in sorted(folders) if path.name not in NO_RUNS for run in packed.here(path)
    ]


def load(folder: str | Path = "results") -> pd.DataFrame:
    """All runs below a folder, one row per run and evaluated round.

    Columns: run, sweep, settings, task, partition, concentration, clients, clients_per_round,
    method, seed, rounds, and those of `History.frame`.
    """
    heads, parts = [], []
    for run in recorded(folder):
        note = run.note
        who, recipe = note["identity"], note["identity"]["partition"]
        heads.append(
            {
                "run": note["run"],
                "sweep": note["sweep"],
                "settings": note["settings"],
                "task": who["task"],
                "partition": recipe["name"],
                "concentration": recipe.get("concentration", np.nan),
                "clients": who["clients"],
                "clients_per_round": who["clients_per_round"],
                "method": who["method"]["name"],
                "seed": who["seed"],
                "rounds": who["rounds"],
            }
        )
        parts.append(run.columns())
    if not parts:
        raise InputError(f"there are no recorded runs below {folder}")
    repeated = np.repeat(np.arange(len(parts)), [len(part["round"]) for part in parts])
    head = pd.DataFrame(heads).take(repeated).reset_index(drop=True)
    return head.assign(**{name: np.concatenate([part[name] for part in parts]) for name in COLUMNS})


def identities(folder: str | Path = "results") -> dict[str, dict]:
    """By run: everything that determines it."""
    return {run.note["run"]: run.note["identity"] for run in recorded(folder)}


def details(folder: str | Path = "results") -> pd.DataFrame:
    """One row per run: its name and all settings of its method, as `clients.strata`, `data.rate`,
    `local.steps`; to be merged with `load`."""
    known = identities(folder)
    frame = pd.json_normalize([who["method"] for who in known.values()]).drop(columns="name")
    frame.insert(0, "run", [*known])
    return frame


def _kept(key: str, sweep: str, folder: str | Path) -> dict[str, list]:
    notes = (run.note for run in recorded(Path(folder) / sweep))
    return {note["run"]: note[key] for note in notes if note.get(key)}


def cohorts(sweep: str, folder: str | Path = "results") -> dict[str, list[np.ndarray]]:
    """By run, where they were kept: the client numbers of each round's cohort."""
    kept = _kept("cohorts", sweep, folder)
    return {run: [np.array(cohort) for cohort in each] for run, each in kept.items()}


def majority_labels(sweep: str, folder: str | Path = "results") -> dict[str, np.ndarray]:
    """By run, where they were kept: each client's most frequent class, int [N]."""
    return {run: np.array(each) for run, each in _kept("majority", sweep, folder).items()}


def rerun(run: str, folder: str | Path = "results", *, device="auto", progress=False) -> History:
    """Make a recorded run again from its identity alone."""
    note = next((r.note for r in recorded(folder) if r.note["run"] == run), None)
    if note is None:
        raise InputError(f"there is no run {run!r} below {folder}")
    who = note["identity"]
    method = methods.from_dict(who["method"])
    if who["algorithms"] != methods.version(method):
        raise InputError(
            f"run {run} was made by version {who['algorithms']} of the algorithms, "
            f"this is {methods.version(method)}"
        )
    said = {key: who.get(key, "") for key in ("task", "network")}
    for key, sha in who.get("files", {}).items():
        said[key] = user_code.locate(said[key], sha, f"the {key} in")
    task = tasks.load(said["task"], network=said["network"])
    if task.digest != who["digest"]:
        raise InputError(f"run {run} was made from other data than the {task.name} found here")
    return simulation.run(
        task,
        partition.from_recipe(task.train_y, who["partition"], task.users),
        method,
        rounds=who["rounds"],
        clients_per_round=who["clients_per_round"],
        seed=who["seed"],
        eval_every=who["eval_every"],
        device=device,
        threads=note["environment"]["threads"],
        progress=progress,
    )


def _sha256(counts: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(counts, dtype=np.int64).tobytes()).hexdigest()


def save_partition(task: Task, federation: Federation, folder: str | Path = "results") -> Path:
    """Write who holds what: label counts with columns client, class, count, and a sidecar."""
    recipe = dict(federation.recipe)
    who = {"task": task.name, "digest": task.digest, "partition": recipe}
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
    note = {"format": FORMAT, "identity": who, "environment": environment("cpu", 1)}
    note["counts_sha256"] = _sha256(federation.label_counts)
    write(data, lambda path: frame.to_parquet(path, index=False))
    write(
        data.with_suffix(".json"), lambda path: path.write_text(json.dumps(note, indent=1) + "\n")
    )
    return data


def load_partitions(folder: str | Path = "results") -> dict[str, np.ndarray]:
    """Recorded label counts [N, C] by the name of the partition."""
    found = {}
    for path in sorted((Path(folder) / PARTITIONS).glob("*.json")):
        try:
            note = json.loads(path.read_text())
            frame = pd.read_parquet(path.with_suffix(".parquet"))
            counts = frame.pivot(index="client", columns="class", values="count").to_numpy()
            name = note["identity"]["partition"]["name"]
            whole = note.get("counts_sha256") in (None, _sha256(counts))  # older ones have none
        except Exception as error:  # whatever damaged files may raise
            said = f"{path} and {path.stem}.parquet are damaged ({type(error).__name__})"
            raise InputError(f"{said}: restore or delete both") from error
        if not whole:
            raise InputError(f"{path} contradicts {path.stem}.parquet: restore or delete both")
        found[name] = counts
    if not found:
        raise InputError(f"there are no recorded partitions below {folder}")
    return found
