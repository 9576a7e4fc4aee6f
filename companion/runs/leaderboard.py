"""The leaderboard: final accuracies of recorded runs, one row per method, one table per setting.

A course's own designs are trained in the arena of the protocol's setting `digits`: small, embedded data that are the
same for everybody. What a design is audited with is `fedstas.sim.audit`, as by `fedstas audit`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.runs import protocol, records, statistics, tables
from fedstas import methods
from fedstas.client_sampling import ClientDesign
from fedstas.errors import InputError, check_choice, check_int
from fedstas.methods import Method
from fedstas.sim import simulation
from fedstas.sim.partition import Federation
from fedstas.sim.tasks import Task

ROUNDS, LEARNING_RATE = 60, 0.1  # of a course's runs, which are not tuned
BASELINES = ("fedavg", "md", "fedstas", "fedstas-unbiased")
SWEEP = "project"
METRICS = ("test_accuracy", "client_accuracy", "macro_f1")
REFERENCE = "md"
# Of local work, what belongs to the setting; the rest, such as FedProx's mu, belongs to the method.
LOCAL_SETTINGS = ("steps", "batch", "lr")
COLUMNS = ["rank", "method", "seeds", "accuracy", "against md", "MB", "examples"]


# The arena of a course


def load_arena(seed: int) -> tuple[Task, Federation]:
    """Load the task and the federation of the protocol's setting `digits`; each seed partitions the data anew."""
    return protocol.read()[protocol.TRIAL].load_federation(seed)


def make_entrant(name: str, clients: ClientDesign) -> Method:
    """Return a design as a method of the arena, with all else as for the baselines; `InputError` if it is no design."""
    if not callable(getattr(clients, "draw", None)):
        raise InputError(f"{type(clients).__name__} has no method draw(view, m, rng)")
    frozen = getattr(clients, "__dataclass_params__", None)
    if frozen is None or not frozen.frozen:
        raise InputError(f"put @dataclass(frozen=True) above class {type(clients).__name__}")
    if name in methods.names():
        raise InputError(f"{name} is the name of a method of the package: choose another")
    return Method(name, clients, local=dataclasses.replace(methods.LocalSGD(), lr=LEARNING_RATE))


def get_baseline(name: str) -> Method:
    """Return a method of the package, with the arena's learning rate."""
    return methods.get(name, lr=LEARNING_RATE)


def record_runs(
    method: Method,
    seeds: Sequence[int] = range(5),
    folder: str | Path = "runs",
    rounds: int = ROUNDS,
    progress: bool = False,
) -> list[Path]:
    """Train a method in the arena and record its runs; return their files.

    A method of the package is trained only where its run is missing. An entrant is trained each time, since its
    identity names its settings and its file, but not what the file imports.

    Raises:
        InputError: the results differ from those of a packed run with the same identity.
    """
    files = []
    for seed in seeds:
        task, federation = load_arena(check_int("seed", seed, 0))
        options = {"rounds": rounds, "eval_every": rounds, "seed": seed}
        options["clients_per_round"] = protocol.read()[protocol.TRIAL].clients_per_round
        identity = records.identity(task, federation, method, **options)
        if method.name in methods.names() and records.is_recorded(identity, SWEEP, folder):
            rows_file, _ = records.run_files(identity, SWEEP, folder)
            files.append(rows_file)
            continue
        history = simulation.run(
            task, federation, method, device="cpu", progress=progress, **options
        )
        _check_same_results(history, identity, method, folder)
        files.append(records.save(history, identity, SWEEP, folder, device="cpu"))
    return files


def _check_same_results(
    history: simulation.History, identity: dict, method: Method, folder: str | Path
) -> None:
    """Raise `InputError` if a packed run of the same identity has other values."""
    packed = records.find_packed(identity, SWEEP, folder)
    if packed and records.hash_values(packed.columns()) != records.hash_values(history.frame):
        raise InputError(
            f"{packed.file.parent} holds a packed run of {method.name}, seed {identity['seed']}, with these settings and other "
            "results: the code has changed since. Give the design another name, or record it in another folder"
        )


# The ranking


def rank_methods(
    folders: Iterable[str | Path] = ("results",),
    metric: str = "test_accuracy",
    task: str | None = None,
) -> pd.DataFrame:
    """Rank the methods of all runs below the folders, within each setting that they share, the best first.

    Args:
        folders: of recorded runs.
        metric: what is averaged over the final rounds.
        task: the only task to be shown, or all.

    Returns:
        One row per setting (column `federation`) and method, with rank and number of seeds; `accuracy`, the mean over
        seeds in per cent, with `interval`, half the width of its 95 % interval; `gain` and `gain_interval`, the same
        of the paired difference to MD sampling; `MB` and `examples`, what a run cost on average. Runs that diverged, which
        have no last round, are in none of these; `diverged` counts them.
    """
    check_choice("metric", metric, METRICS)
    folders = list(folders)
    identities = {k: v for folder in folders for k, v in records.identities(folder).items()}
    runs = pd.concat([records.load(folder) for folder in folders], ignore_index=True)
    evaluated = runs["run"]
    # The sweep last-bit repeats one run with other roundings, which is no comparison of designs.
    runs = runs[runs["sweep"] != "last-bit"].drop_duplicates(["run", "round"])
    final = tables.select_final_rounds(runs).groupby("run")[metric].mean()
    last = runs.sort_values("round", kind="stable").drop_duplicates("run", keep="last").sort_index()
    last = last.drop(columns=metric).join(final, on="run")
    last["ended"] = last["round"] == last["rounds"]
    unevaluated = sorted(identities.keys() - set(evaluated))  # they diverged before an evaluation
    tasks = [identities[run]["task"] for run in unevaluated]
    lost = pd.DataFrame({"run": unevaluated, "task": tasks, "ended": False})
    last = pd.concat([last, lost]) if len(lost) else last
    last["ended"] = last["ended"].astype(bool)
    if task is not None:
        last = last[last["task"] == task]
        if not len(last):
            raise InputError(f"no run of task {task!r} is recorded there")
    identity_of_row = [identities[run] for run in last["run"]]
    last = last.assign(
        setting=[
            json.dumps(shared_setting(identity), sort_keys=True) for identity in identity_of_row
        ],
        settings=[
            json.dumps(_method_settings(identity), sort_keys=True) for identity in identity_of_row
        ],
        seeds=[
            f"{identity['seed']} {identity['partition'].get('seed')}"
            for identity in identity_of_row
        ],
    ).set_index("seeds")
    rows, titles = [], set[str]()
    for setting, group in last.groupby("setting"):
        parts = [part for _, part in group.groupby("settings", sort=False)]
        names = _name_methods([identities[part["run"].iloc[0]] for part in parts])
        title = describe_setting(identities[group["run"].iloc[0]])
        while title in titles:  # the title is the same, but other data or sizes
            title += f" [{_short_hash(setting)}]"
        titles.add(title)
        by_name = dict(zip(names, parts, strict=True))
        diverged = {name: int((~part["ended"]).sum()) for name, part in by_name.items()}
        by_name = {name: part[part["ended"]] for name, part in by_name.items()}
        reference = by_name.get(REFERENCE)
        for name, part in by_name.items():
            accuracy = statistics.mean_interval(100 * part[metric])
            gain = statistics.Interval(np.nan, np.nan, np.nan)
            if reference is not None and part is not reference:
                differences = 100 * part[metric] - 100 * reference[metric]
                gain = statistics.mean_interval(differences.dropna())
            rows.append(
                {
                    "federation": title,
                    "method": name,
                    "seeds": len(part),
                    "diverged": diverged[name],
                    "accuracy": accuracy.mean,
                    "interval": accuracy.high - accuracy.mean,
                    "gain": gain.mean,
                    "gain_interval": gain.high - gain.mean,
                    "MB": (part["bytes_down"] + part["bytes_up"]).mean() / 1e6,
                    "examples": part["examples"].mean(),
                }
            )
    ranked = pd.DataFrame(rows).sort_values(["federation", "accuracy"], ascending=[True, False])
    ranked["rank"] = ranked.groupby("federation").cumcount() + 1
    return ranked.reset_index(drop=True)


def shared_setting(identity: dict) -> dict:
    """Return what two runs must share to be compared: their identity without seeds and method."""
    recipe = {k: v for k, v in identity["partition"].items() if k != "seed"}
    local = {k: identity["method"]["local"][k] for k in LOCAL_SETTINGS}
    keys = ("task", "digest", "clients", "clients_per_round", "rounds", "eval_every")
    keys_where_set = (
        "network",
        "initial_model",
        "files",
        "eval_rounds",
        "average",
        "drop",
        "remedy",
        "message",
    )
    optional = {k: identity[k] for k in keys_where_set if k in identity}
    shape = {k: identity[k] for k in keys}
    return shape | {"partition": recipe, "local": local} | optional


def _method_settings(identity: dict) -> dict:
    """Return what of an identity is neither a seed nor shared: the method's name, version, and settings of its parts."""
    settings: dict = {"name": identity["method"]["name"], "version": identity["algorithms"]}

    def add(part: str, values: dict) -> None:
        """Add the settings of a part, and of what is nested in it."""
        for key, value in values.items():
            if isinstance(value, dict):
                add(part, value)
            elif part != "local" or key not in ("is", *LOCAL_SETTINGS):
                word = part if key == "is" else f"server {key}" if part == "server" else key
                settings[f"{part} {word}" if word in settings else word] = value

    for part in methods.PARTS:
        add(part, identity["method"][part])
    return settings


def _name_methods(identities: list[dict]) -> list[str]:
    """Name the methods of a table: by name, and by the settings that are not the usual ones.

    The usual settings of a design that is not in the package are those that all of its name share.
    """
    all_settings, names = [_method_settings(identity) for identity in identities], []
    for identity, settings in zip(identities, all_settings, strict=True):
        name = settings["name"]
        if name in methods.names():
            method = methods.get(name, **shared_setting(identity)["local"])
            current = {"algorithms": methods.version(method), "method": methods.to_dict(method)}
            usual = _method_settings(current) | methods.parameters(name)
            usual |= {"batch": settings.get("batch")}  # of gradients: that of the setting
        else:
            namesakes = [other for other in all_settings if other["name"] == name]
            usual = {k: v for k, v in settings.items() if all(o.get(k) == v for o in namesakes)}
        words = [_describe(k, v) for k, v in settings.items() if k not in usual or usual[k] != v]
        names.append(name + (f" ({', '.join(words)})" if words else ""))
    repeated = {name for name in names if names.count(name) > 1}
    return [
        f"{name} [{_short_hash(settings)}]" if name in repeated else name
        for name, settings in zip(names, all_settings, strict=True)
    ]


def _short_hash(value: Any) -> str:
    """Return the first six digits of a hash, to distinguish settings that are described alike."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:6]


def _describe(key: str, value: Any) -> str:
    """Describe a setting in words; the kind of a method's part by the kind alone."""
    word = key.replace("_", " ")
    if key == "sha256":  # of the file of a design that is not in the package
        return f"file {value[:6]}"
    if key in methods.PARTS:
        return str(value)
    if value is None or isinstance(value, bool):
        return word if value else f"no {word}"
    return f"{word} {value:g}" if isinstance(value, float) else f"{word} {value}"


def describe_setting(identity: dict) -> str:
    """Describe the setting of a run in words: task, partition, clients, rounds, local work, evaluation."""
    hidden = ("name", "seed", "clients", "sha256")
    recipe = {k: v for k, v in identity["partition"].items() if k not in hidden}
    network = [f"network {identity['network']}"] if "network" in identity else []
    if sizes := recipe.pop("sizes", None):
        low, high = min(sizes), max(sizes)
        recipe["sizes"] = low if low == high else f"{low} to {high}"
    local, rounds = identity["method"]["local"], identity["rounds"]
    interval = identity["eval_every"]
    evaluated = {1: "every round", rounds: "at the end"}.get(interval, f"every {interval} rounds")
    federation = [identity["task"], *network, identity["partition"]["name"]]
    steps = f"{local['steps']} step" + "s" * (local["steps"] != 1)
    return (
        f"{', '.join([*federation, *(_describe(*pair) for pair in recipe.items())])}: {identity['clients']} clients, "
        f"{identity['clients_per_round']} a round, {rounds} rounds of {steps} of {local['batch']} at rate "
        f"{local['lr']:g}, evaluated {evaluated}"
    )


def format_markdown(ranked: pd.DataFrame) -> str:
    """Format what `rank_methods` returns as Markdown, a table for each setting."""

    def format_number(value: float, half: float, sign: str = "") -> str:
        """Format a value with half the width of its interval."""
        if not np.isfinite(value):
            return "–"
        places = 2 if half < 0.1 else 1
        text = f"{value:{sign}.{places}f}".replace("-", "−")
        return f"{text} ± {half:.{places}f}" if np.isfinite(half) else text

    parts = []
    for title, group in ranked.groupby("federation"):
        lines = [
            "| " + " | ".join(COLUMNS) + " |",
            "| ---: | --- |" + " ---: |" * (len(COLUMNS) - 2),
        ]
        for row in group.to_dict("records"):
            diverged = f" (and {row['diverged']} diverged)" if row["diverged"] else ""
            cells = [row["rank"], row["method"], f"{row['seeds']}{diverged}"]
            cells += [format_number(row["accuracy"], row["interval"])]
            cells += [format_number(row["gain"], row["gain_interval"], "+")]
            costs = (("MB", ",.1f"), ("examples", ",.0f"))
            cells += [f"{row[k]:{form}}" if row["seeds"] else "–" for k, form in costs]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        parts.append(f"**{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
