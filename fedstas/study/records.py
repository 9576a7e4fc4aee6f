"""Runs on disk: one parquet file and one JSON sidecar each, named by what determines the run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fedstas import methods
from fedstas.errors import InputError
from fedstas.methods import Method
from fedstas.sim import partition, simulation, tasks
from fedstas.sim.partition import Federation
from fedstas.sim.simulation import History
from fedstas.sim.tasks import Task

FORMAT = 1
PARTITIONS = "partitions"  # the folder of recorded partitions, beside the sweeps


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
    """Everything that determines a run, as plain data."""
    if not federation.recipe:
        raise InputError("a federation without a recipe cannot be recorded: use a named partition")
    return {
        "algorithms": methods.version(method),
        "task": task.name,
        "digest": task.digest,
        "partition": dict(federation.recipe),
        "clients": len(federation.shards),
        "method": methods.to_dict(method),
        "rounds": rounds,
        "clients_per_round": clients_per_round,
        "eval_every": eval_every,
        "seed": seed,
    }


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


def paths(who: dict, sweep: str, folder: str | Path = "results") -> tuple[Path, Path]:
    """The parquet file and the sidecar of a run."""
    recipe = who["partition"]
    parts = [who["task"], recipe["name"], recipe.get("concentration"), who["method"]["name"]]
    stem = "-".join(str(p) for p in parts if p is not None) + f"-{who['seed']}-{run_id(who)[:8]}"
    base = Path(folder) / sweep / stem
    return base.with_name(stem + ".parquet"), base.with_name(stem + ".json")


def commit() -> str:
    """The short hash of the checkout this package runs from, or `unknown`."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    try:
        here = Path(__file__).parent
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def environment(device: str | torch.device, threads: int) -> dict:
    """Where a run was made: versions, device, threads."""
    libraries = ("fedstas", "numpy", "scipy", "scikit-learn", "torch", "pandas")
    device = torch.device(device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "versions": {"python": platform.python_version()} | {k: version(k) for k in libraries},
        "device": f"{device.type} ({name})",
        "threads": threads,
        "commit": commit(),
    }


def save(
    history: History,
    who: dict,
    sweep: str,
    folder="results",
    *,
    device,
    threads=1,
    majority=None,
) -> Path:
    """Write a run: both files to temporary names, the sidecar renamed last.

    With each client's `majority` label, both are kept, for `cohorts`; else only a hash.
    """
    data, sidecar = paths(who, sweep, folder)
    digest = hashlib.sha256(
        b"".join(np.asarray(c, dtype=np.int64).tobytes() for c in history.cohorts)
    )
    note = {
        "format": FORMAT,
        "run": run_id(who),
        "settings": settings_id(who),
        "sweep": sweep,
        "identity": who,
        "seconds": round(float(history.frame["seconds"].iloc[-1]), 1),
        "cohorts_sha256": digest.hexdigest(),
        "cohorts": None if majority is None else [c.tolist() for c in history.cohorts],
        "majority": None if majority is None else np.asarray(majority).tolist(),
        "environment": environment(device, threads),
    }
    write(data, lambda path: history.frame.to_parquet(path, index=False))
    write(sidecar, lambda path: path.write_text(json.dumps(note, indent=1) + "\n"))
    return data


def write(path: Path, writer) -> None:
    """`writer(temporary path)`, then a rename: the file is whole or absent."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(partial)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InputError(f"{path} could not be written: {error.strerror}") from error


def _sidecars(folder: str | Path) -> list[Path]:
    """The sidecars of all runs below a folder."""
    return sorted(p for p in Path(folder).rglob("*.json") if p.parent.name != PARTITIONS)


def _sidecar(path: Path) -> dict:
    try:
        note = json.loads(path.read_text())
        newer = note["format"] > FORMAT
        genuine = note["run"] == run_id(note["identity"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the sidecar of a run ({type(error).__name__})") from error
    if newer:
        raise InputError(f"{path} was written by a newer version of fedstas: update it")
    if not genuine:
        raise InputError(f"{path} contradicts itself: its identity does not hash to {note['run']}")
    return note


def load(folder: str | Path = "results") -> pd.DataFrame:
    """All runs below a folder, one row per run and evaluated round.

    Columns: run, sweep, settings, task, partition, concentration, clients, clients_per_round,
    method, seed, rounds, and those of `History.frame`.
    """
    frames = []
    for path in _sidecars(folder):
        note, data = _sidecar(path), path.with_suffix(".parquet")
        try:
            frame = pd.read_parquet(data)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{data} is missing or damaged: delete {path} and run again"
            ) from error
        who, recipe = note["identity"], note["identity"]["partition"]
        head = {
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
        for place, (key, value) in enumerate(head.items()):
            frame.insert(place, key, value)
        frames.append(frame)
    if not frames:
        raise InputError(f"there are no recorded runs below {folder}")
    return pd.concat(frames, ignore_index=True)


def cohorts(sweep: str, folder: str | Path = "results") -> dict[str, list[np.ndarray]]:
    """By run, where they were kept: the client numbers of each round's cohort."""
    notes = (_sidecar(p) for p in _sidecars(Path(folder) / sweep))
    return {n["run"]: [np.array(c) for c in n["cohorts"]] for n in notes if n.get("cohorts")}


def majority_labels(sweep: str, folder: str | Path = "results") -> dict[str, np.ndarray]:
    """By run, where they were kept: each client's most frequent class, int [N]."""
    notes = (_sidecar(p) for p in _sidecars(Path(folder) / sweep))
    return {n["run"]: np.array(n["majority"]) for n in notes if n.get("majority")}


def rerun(run: str, folder: str | Path = "results", *, device="auto", progress=False) -> History:
    """Make a recorded run again from its sidecar alone."""
    notes = (_sidecar(p) for p in _sidecars(folder))
    note = next((n for n in notes if n["run"] == run), None)
    if note is None:
        raise InputError(f"there is no run {run!r} below {folder}")
    who = note["identity"]
    method = methods.from_dict(who["method"])
    if who["algorithms"] != methods.version(method):
        raise InputError(
            f"run {run} was made by version {who['algorithms']} of the algorithms, "
            f"this is {methods.version(method)}"
        )
    task = tasks.load(who["task"])
    if task.digest != who["digest"]:
        raise InputError(f"run {run} was made from other data than the {task.name} found here")
    return simulation.run(
        task,
        partition.from_recipe(task.train_y, who["partition"]),
        method,
        rounds=who["rounds"],
        clients_per_round=who["clients_per_round"],
        seed=who["seed"],
        eval_every=who["eval_every"],
        device=device,
        threads=note["environment"]["threads"],
        progress=progress,
    )


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
    write(data, lambda path: frame.to_parquet(path, index=False))
    write(
        data.with_suffix(".json"), lambda path: path.write_text(json.dumps(note, indent=1) + "\n")
    )
    return data


def load_partitions(folder: str | Path = "results") -> dict[str, np.ndarray]:
    """Recorded label counts [N, C] by the name of the partition."""
    found = {}
    for path in sorted((Path(folder) / PARTITIONS).glob("*.json")):
        name = json.loads(path.read_text())["identity"]["partition"]["name"]
        frame = pd.read_parquet(path.with_suffix(".parquet"))
        found[name] = frame.pivot(index="client", columns="class", values="count").to_numpy()
    if not found:
        raise InputError(f"there are no recorded partitions below {folder}")
    return found
