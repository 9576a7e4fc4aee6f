"""The table of one-round errors: recorded by `fedstas one-round`, read by the pages.

One round from states of a run of `md` with ten participants: w_0, and after 10, 30 and 60 rounds. Each
file of `results/one-round` holds one setting; a seed is a partition, a model and a start of k-means.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from companion.runs.atomic import write
from companion.runs.experiments import LEARNS
from companion.runs.provenance import environment
from companion.runs.single import ONE_ROUND
from fedstas import least_variance, methods
from fedstas.errors import InputError, one_of
from fedstas.sim import one_round, partition, tasks

SEEDS, ROUNDS, PARTICIPANTS = range(5), (0, 10, 30, 60), (5, 10, 20)
DRAWS = 200  # cohorts of a design
FEWER = {"cube": 60, "divfl": 2}  # a cube takes a hundred times as long; DivFL draws nothing
# By name: task, partition, concentration and settings of local work.
SETTINGS = {
    "mnist": ("mnist", "dirichlet", 0.01, {}),
    "mnist-equal": ("mnist", "dirichlet_fixed_size", 0.01, {}),
    "mnist-0.1": ("mnist", "dirichlet", 0.1, {}),
    "fashion-mnist": ("fashion-mnist", "dirichlet", 0.01, {}),
    # A quarter of the local steps of the recorded runs, which learn at this rate.
    "cifar100": ("cifar100", "dirichlet", 0.001, LEARNS | {"steps": 5}),
}
CUT = "fedstas-least-variance"
# By the name in the table: method and settings. The last ones are biased.
DESIGNS = {
    "md": ("md", {}),
    "fedavg-unbiased": ("fedavg-unbiased", {}),
    "clustered-size": ("clustered-size", {}),
    "clustered-similarity": ("clustered-similarity", {}),
    "fedstas-unbiased": ("fedstas-unbiased", {}),
    CUT: (CUT, {}),
    f"{CUT}, every 10 rounds": (CUT, {"restratify_every": 10}),
    f"{CUT}, draws by norm": (CUT, {"restratify_every": 10, "draws": "norm"}),
    f"{CUT}, noise": (CUT, {"restratify_every": 10, "noise": True}),
    f"{CUT}, from updates": (CUT, {"features": "updates"}),
    "poisson": ("poisson", {}),
    "optimal-client-sampling": ("optimal-client-sampling", {}),
    "cube": ("cube", {}),
    "local-pivotal": ("local-pivotal", {}),
    "fedsts": ("fedsts", {"restratify_every": 10}),
    "power-of-choice": ("power-of-choice", {}),
    "divfl": ("divfl", {}),
}
ORACLE = "cut of the true updates"


def _exact(state: one_round.State, name: str, settings: dict) -> dict:
    """The exact error of a design with strata of its own, and the part of it that is noise."""
    if name != CUT:
        return {}
    design = methods.get(name, **settings).clients
    labels, q, _ = design.strata(one_round.view(state, design), state.setup.m)
    return dict(zip(("exact", "noise"), one_round.of_strata(state, labels, q), strict=True))


def _oracle(state: one_round.State) -> dict:
    values, vectors = np.linalg.eigh(state.gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    labels = least_variance.strata(state.omega, root, np.square(root).sum(1), state.setup.m)
    found, noise = one_round.of_strata(state, labels, state.omega)
    return {"design": ORACLE, "error": found, "exact": found, "noise": noise, "bias": 0.0}


def _rows(data, setting: str, seed: int, designs: dict, clients: int, bar) -> pd.DataFrame:
    """All designs at all states of one partition."""
    _, kind, concentration, local = SETTINGS[setting]
    how = {"clients": clients, "seed": seed, "concentration": concentration}
    federation = partition.make(kind, data.train_y, **how)
    work = methods.get("md", **local).local
    found: list[dict] = []
    answers: dict = {}  # all states are of one run: what w_0 was asked, each would ask again
    for rounds in ROUNDS:
        ten = one_round.at(data, federation, rounds=rounds, method="md", local=work, seed=seed)
        ten = replace(ten, answers=answers)
        for m in PARTICIPANTS:
            state = ten.with_m(m)
            for label, (name, settings) in designs.items():
                method = methods.get(name, **settings, **local)
                draws = FEWER.get(name, DRAWS)
                told = one_round.errors(state, method, draws=draws, seed=seed)
                row = {"design": label, **told, **_exact(state, name, settings)}
                found.append({"seed": seed, "round": rounds, "m": m, **row})
                bar.update()
            found.append({"seed": seed, "round": rounds, "m": m, **_oracle(state)})
    return pd.DataFrame(found)


def record(
    settings: list[str] | None = None, *, seeds=SEEDS, folder: str | Path = "results",
    designs: dict | None = None, clients: int = 100,
) -> list[Path]:  # fmt: skip
    """Make what is missing of the table, setting by setting and seed by seed; returns the files."""
    paths = []
    for setting in settings or list(SETTINGS):
        one_of("setting", setting, SETTINGS)
        path = Path(folder) / ONE_ROUND / f"{setting}.parquet"
        note = path.with_suffix(".json")
        there = pd.read_parquet(path) if path.exists() else pd.DataFrame({"seed": []})
        told = json.loads(note.read_text(encoding="utf-8")) if path.exists() else {}
        missing = [seed for seed in seeds if str(seed) not in told]
        chosen = DESIGNS if designs is None else designs
        count = len(missing) * len(ROUNDS) * len(PARTICIPANTS) * len(chosen)
        with tqdm(total=count, desc=setting, unit="design") as bar:
            data = tasks.load(SETTINGS[setting][0]) if missing else None
            for seed in missing:
                rows = _rows(data, setting, seed, chosen, clients, bar)
                there = pd.concat([there, rows], ignore_index=True) if len(there) else rows
                told[str(seed)] = environment("cpu", 1)
                write(path, lambda p, frame=there: frame.to_parquet(p, index=False))
                text = json.dumps(told, indent=1) + "\n"
                write(note, lambda p, text=text: p.write_text(text, encoding="utf-8"))
        paths.append(path)
    return paths


def load(folder: str | Path = "results") -> pd.DataFrame:
    """All recorded rows, with the `setting`; `InputError` where there is none."""
    paths = sorted((Path(folder) / ONE_ROUND).glob("*.parquet"))
    if not paths:
        raise InputError(
            f"{Path(folder) / ONE_ROUND} holds no table: `fedstas one-round --folder {folder}` makes it"
        )
    return pd.concat([pd.read_parquet(p).assign(setting=p.stem) for p in paths], ignore_index=True)


def notes(folder: str | Path = "results") -> list[dict]:
    """Where each partition of each setting was looked at: its `environment` and seed."""
    paths = sorted((Path(folder) / ONE_ROUND).glob("*.json"))
    return [
        {"identity": {"seed": int(seed)}, "environment": each}
        for path in paths
        for seed, each in json.loads(path.read_text(encoding="utf-8")).items()
    ]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean relative error of each design in each setting at each m, over rounds and partitions, its
    standard error over partitions, and the largest of its cells; exact where it is known."""
    frame = frame.assign(value=frame["exact"].fillna(frame["error"]))
    keys = ["setting", "m", "design"]
    seeds = frame.groupby([*keys, "seed"], sort=False)["value"].mean()
    found = seeds.groupby(keys, sort=False).agg(mean="mean", se="sem")
    found["largest"] = frame.groupby(keys, sort=False)["value"].max()
    return found.reset_index()


def cells(frame: pd.DataFrame, setting: str) -> pd.DataFrame:
    """The table of one setting as text: mean ± standard error at each m, and megabytes of a round with
    ten participants, where the design asks nothing and where it asks all that it does."""
    rows = summary(frame[frame["setting"] == setting])
    rows["cell"] = [f"{a:.3g} ± {b:.1g}" for a, b in zip(rows["mean"], rows["se"], strict=True)]
    table = rows.pivot(index="design", columns="m", values="cell").loc[rows["design"].unique()]
    ten = frame[(frame["setting"] == setting) & (frame["m"] == 10)].groupby("design")["megabytes"]
    low, high = ten.min().round(1), ten.max().round(1)
    cost = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
    table.columns = [f"m = {m}" for m in table.columns]
    table["MB, m = 10"] = pd.Series(cost, index=low.index).replace("nan to nan", "–")
    return table.reset_index()
