"""A table of who did how well: recorded runs and a course's own, one row per method and setting.

The arena is the federation of the project sheet: small, embedded data, the same for everybody.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs import records, statistics, tables
from fedstas import methods
from fedstas.client_sampling import ClientDesign
from fedstas.errors import InputError, check_choice, check_int
from fedstas.methods import Method
from fedstas.sim import engine, models, partition, simulation, tasks
from fedstas.sim.partition import Federation
from fedstas.sim.rng import stream
from fedstas.sim.server import Server
from fedstas.sim.tasks import Task

# A federation in which the choice of clients matters and a run takes seconds.
TASK, CLIENTS, CONCENTRATION, PARTICIPANTS, ROUNDS, LR = "digits", 50, 0.1, 10, 60, 0.1
BASELINES = ("fedavg", "md", "fedstas", "fedstas-unbiased")
SWEEP = "project"
METRICS = ("test_accuracy", "client_accuracy", "macro_f1")
WHERE = "federation"
REFERENCE = "md"
LOCAL = (
    "steps",
    "batch",
    "lr",
)  # the work of a client is part of the setting; FedProx's mu is a method's own
COLUMNS = ["rank", "method", "seeds", "accuracy", "against md", "MB", "examples"]


def arena(seed: int) -> tuple[Task, Federation]:
    """The task and the federation of the project; each seed deals the data anew."""
    task = tasks.load(TASK)
    return task, partition.dirichlet(task.train_y, CLIENTS, CONCENTRATION, seed)


def entrant(name: str, clients: ClientDesign) -> Method:
    """A design of one's own as a method of the arena: everything else is as for the baselines."""
    if not callable(getattr(clients, "draw", None)):
        raise InputError(f"{type(clients).__name__} has no method draw(view, m, rng)")
    frozen = getattr(clients, "__dataclass_params__", None)
    if frozen is None or not frozen.frozen:
        raise InputError(f"put @dataclass(frozen=True) above class {type(clients).__name__}")
    if name in methods.names():
        raise InputError(f"{name} is the name of a method of the package: choose another")
    return Method(name, clients, local=dataclasses.replace(methods.LocalSGD(), lr=LR))


def enter(
    method: Method,
    seeds: Sequence[int] = range(5),
    folder: str | Path = "runs",
    rounds: int = ROUNDS,
    progress: bool = False,
) -> list[Path]:
    """Train a method in the arena and record it; a method of the package only where it is missing.

    One's own is trained again each time: its identity names its settings and its file, not what that imports.
    `InputError` where that contradicts a run that is packed already.
    """
    made = []
    for seed in seeds:
        task, federation = arena(check_int("seed", seed, 0))
        what = {"rounds": rounds, "clients_per_round": PARTICIPANTS, "seed": seed}
        what["eval_every"] = rounds
        who = records.identity(task, federation, method, **what)
        if method.name in methods.names() and records.is_recorded(who, SWEEP, folder):
            made.append(records.run_files(who, SWEEP, folder)[0])
            continue
        history = simulation.run(task, federation, method, device="cpu", progress=progress, **what)
        _not_another(history, who, method, folder)
        made.append(records.save(history, who, SWEEP, folder, device="cpu"))
    return made


def _not_another(history, who: dict, method: Method, folder: str | Path) -> None:
    """`InputError` if a packed run of the same identity has other values."""
    before = records.find_packed(who, SWEEP, folder)
    if before and records.hash_values(before.columns()) != records.hash_values(history.frame):
        raise InputError(
            f"{before.file.parent} holds a packed run of {method.name}, seed {who['seed']}, with these settings and other results: "
            "the code has changed since. Give the design another name, or record it in another folder"
        )


def baseline(name: str) -> Method:
    """A method of the package, with the arena's learning rate."""
    return methods.get(name, lr=LR)


def audit(clients: ClientDesign, draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Each client's mean weight over many cohorts of round 1 against n_k / n and 1 / N.

    `errors` is the distance from the nearer target in standard errors: a design that is unbiased for it
    stays below about 4 for all clients.
    """
    task, federation = arena(seed)
    shards = [federation.shards[k] for k in federation.with_data]
    data = engine.pool(task.train_x, task.train_y, shards)
    module = task.model(seed)
    majority = federation.label_counts[federation.with_data].argmax(1)
    server = Server(data, module, seed, majority)
    server.begin(1, models.flatten(module))
    weights = np.zeros((draws, len(shards)))
    for t in range(draws):
        cohort = clients.draw(server, PARTICIPANTS, stream(seed, "audit", t))
        np.add.at(weights[t], cohort.clients, cohort.weights)
    mean, error = weights.mean(0), weights.std(0) / np.sqrt(draws)
    targets = {"n_k/n": data.sizes / data.sizes.sum(), "1/N": np.full(len(shards), 1 / len(shards))}
    target = min(targets, key=lambda name: np.abs(mean - targets[name]).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.abs(mean - targets[target]) / error
    away = np.where(np.abs(mean - targets[target]) < 1e-12, 0.0, away)
    return pd.DataFrame(
        {
            "client": federation.with_data,
            "mean weight": mean,
            target: targets[target],
            "errors": away,
        }
    )


def half_width(values: pd.Series) -> float:
    """Half the width of the 95 % interval (t) of a mean; nan for a single value."""
    mean, _, high = statistics.mean_interval(values)
    return high - mean


def table(
    folders: Iterable[str | Path] = ("results",),
    metric: str = "test_accuracy",
    task: str | None = None,
) -> pd.DataFrame:
    """Final accuracy of all runs below the folders: one row per setting and method, best first.

    Only runs of one `setting` are compared. `accuracy` is the mean over seeds in per cent, `interval` half the width
    of its 95 % interval; `gain` and `gain_interval` are those of the difference to MD sampling on the same seeds, which
    say more, since a seed that deals the data badly does so to both. `MB` and `examples` are what a run cost.
    """
    check_choice("metric", metric, METRICS)
    folders = list(folders)
    known = {run: who for folder in folders for run, who in records.identities(folder).items()}
    runs = pd.concat([records.load(folder) for folder in folders], ignore_index=True)
    # Sweep last-bit is one run twenty times: no design.
    runs = runs[runs["sweep"] != "last-bit"].drop_duplicates(["run", "round"])
    final = tables.select_final_rounds(runs).groupby("run")[metric].mean()
    last = runs[runs["round"] == runs["rounds"]].drop(columns=metric).join(final, on="run")
    if task is not None:
        last = last[last["task"] == task]
        if not len(last):
            raise InputError(f"no run of task {task!r} is recorded there")
    whos = [known[run] for run in last["run"]]
    last = last.assign(
        where=[json.dumps(setting(who), sort_keys=True) for who in whos],
        who=[json.dumps(_own(who), sort_keys=True) for who in whos],
        seeds=[f"{who['seed']} {who['partition'].get('seed')}" for who in whos],
    ).set_index("seeds")
    rows, titles = [], set()
    for where, group in last.groupby("where"):
        own = dict(iter(group.groupby("who", sort=False)))
        names = _names([known[part["run"].iloc[0]] for part in own.values()])
        words = title(known[group["run"].iloc[0]])
        while words in titles:  # data or sizes that words do not tell apart
            words += f" [{_digest(where)}]"
        titles.add(words)
        plain = dict(zip(names, own.values(), strict=True)).get(REFERENCE)
        for name, part in zip(names, own.values(), strict=True):
            values = 100 * part[metric]
            paired = plain is not None and part is not plain
            gains = (values - 100 * plain[metric]).dropna() if paired else values[:0]
            rows.append(
                {WHERE: words, "method": name, "seeds": len(part)}
                | {"accuracy": values.mean(), "interval": half_width(values)}
                | {"gain": gains.mean(), "gain_interval": half_width(gains)}
                | {"MB": (part["bytes_down"] + part["bytes_up"]).mean() / 1e6}
                | {"examples": part["examples"].mean()}
            )
    found = pd.DataFrame(rows).sort_values([WHERE, "accuracy"], ascending=[True, False])
    found["rank"] = found.groupby(WHERE).cumcount() + 1
    return found.reset_index(drop=True)


def setting(who: dict) -> dict:
    """All of a run's identity but its seeds and what its method is: what two runs must share to be compared."""
    recipe = {k: v for k, v in who["partition"].items() if k != "seed"}
    local = {k: who["method"]["local"][k] for k in LOCAL}
    shape = ("task", "digest", "clients", "clients_per_round", "rounds", "eval_every")
    own = {k: who[k] for k in ("network", "files") if k in who}
    return {k: who[k] for k in shape} | {"partition": recipe, "local": local} | own


def _own(who: dict) -> dict:
    """The rest of it, seeds aside: the method's name, version, and the kinds and settings of its parts by name."""
    told: dict = {"name": who["method"]["name"], "version": who["algorithms"]}

    def tell(part: str, data: dict) -> None:
        for key, value in data.items():
            if isinstance(value, dict):
                tell(part, value)
            elif part != "local" or key not in ("is", *LOCAL):
                word = part if key == "is" else f"server {key}" if part == "server" else key
                told[word] = value

    for part in methods.PARTS:
        tell(part, who["method"][part])
    return told


def _names(whos: list[dict]) -> list[str]:
    """A name for each method of a table: with the settings that are not its usual ones, or, of a design of one's own,
    with those in which it differs from its namesakes."""
    owns, names = [_own(who) for who in whos], []
    for who, own in zip(whos, owns, strict=True):
        name = own["name"]
        if name in methods.names():
            method = methods.get(name, **setting(who)["local"])
            now = {"algorithms": methods.version(method), "method": methods.to_dict(method)}
            usual = _own(now) | methods.parameters(name)
            usual |= {"batch": own.get("batch")}  # of gradients: that of the setting
        else:
            others = [other for other in owns if other["name"] == name]
            usual = {k: v for k, v in own.items() if all(o.get(k) == v for o in others)}
        said = [_say(k, v) for k, v in own.items() if k not in usual or usual[k] != v]
        names.append(name + (f" ({', '.join(said)})" if said else ""))
    twice = {name for name in names if names.count(name) > 1}
    return [
        f"{name} [{_digest(own)}]" if name in twice else name
        for name, own in zip(names, owns, strict=True)
    ]


def _digest(value) -> str:
    """Six letters, where words do not tell things apart."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:6]


def _say(key: str, value) -> str:
    """A setting in words; of a part's kind, the kind."""
    word = key.replace("_", " ")
    if key == "sha256":  # of the file of a design of one's own
        return f"file {value[:6]}"
    if key in methods.PARTS:
        return str(value)
    if value is None or isinstance(value, bool):
        return word if value else f"no {word}"
    return f"{word} {value:g}" if isinstance(value, float) else f"{word} {value}"


def title(who: dict) -> str:
    """The setting of a run's identity in words."""
    plain = ("name", "seed", "clients", "sha256")
    recipe = {k: v for k, v in who["partition"].items() if k not in plain}
    network = [f"network {who['network']}"] if "network" in who else []
    if sizes := recipe.pop("sizes", None):
        least, most = min(sizes), max(sizes)
        recipe["sizes"] = least if least == most else f"{least} to {most}"
    local, every, rounds = who["method"]["local"], who["eval_every"], who["rounds"]
    steps = f"{local['steps']} step" + "s" * (local["steps"] != 1)
    evaluated = {1: "every round", rounds: "at the end"}.get(every, f"every {every} rounds")
    return (
        ", ".join(
            [who["task"], *network, who["partition"]["name"], *(_say(*p) for p in recipe.items())]
        )
        + f": {who['clients']} clients, {who['clients_per_round']} a round, {rounds} rounds of "
        f"{steps} of {local['batch']} at rate {local['lr']:g}, evaluated {evaluated}"
    )


def markdown(found: pd.DataFrame) -> str:
    """The table as Markdown, one for each federation."""

    def number(value: float, half: float, sign: str = "") -> str:
        if not np.isfinite(value):
            return "–"
        places = 2 if half < 0.1 else 1
        said = f"{value:{sign}.{places}f}".replace("-", "−")
        return f"{said} ± {half:.{places}f}" if np.isfinite(half) else said

    parts = []
    for where, group in found.groupby(WHERE):
        lines = [
            "| " + " | ".join(COLUMNS) + " |",
            "| ---: | --- |" + " ---: |" * (len(COLUMNS) - 2),
        ]
        for row in group.to_dict("records"):
            cells = [row["rank"], row["method"], row["seeds"]]
            cells += [number(row["accuracy"], row["interval"])]
            cells += [number(row["gain"], row["gain_interval"], "+")]
            cells += [f"{row['MB']:,.1f}", f"{row['examples']:,.0f}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        parts.append(f"**{where}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
