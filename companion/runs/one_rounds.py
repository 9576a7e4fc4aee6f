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
from companion.runs.records import ONE_ROUND
from fedstas import least_variance, methods
from fedstas.errors import InputError, check_choice
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
# By setting, and by design, as a reader is told.
PLACES = {
    "mnist": "MNIST 0.01, disjoint",
    "mnist-equal": "MNIST 0.01, equal sizes",
    "mnist-0.1": "MNIST 0.1, disjoint",
    "fashion-mnist": "Fashion-MNIST 0.01, disjoint",
    "cifar100": "CIFAR-100 0.001, disjoint",
}
NAMES = {
    "md": "MD sampling",
    "fedavg-unbiased": "distinct clients at random",
    "clustered-size": "clustered sampling by size",
    "clustered-similarity": "clustered sampling by similarity",
    "fedstas-unbiased": "k-means strata (corrected)",
    CUT: "the cut (recommended)",
    f"{CUT}, every 10 rounds": "the cut, every ten rounds",
    f"{CUT}, draws by norm": "the cut, draws by norm",
    f"{CUT}, noise": "the cut, noise in the pairs",
    f"{CUT}, from updates": "the cut, from last updates",
    "poisson": "coins by size",
    "optimal-client-sampling": "coins by norm",
    "cube": "cube method",
    "local-pivotal": "local pivotal method",
    "fedsts": "FedSTS (biased)",
    "power-of-choice": "Power-of-Choice (biased)",
    "divfl": "DivFL (biased)",
}


def _exact(state: one_round.State, name: str, settings: dict) -> dict:
    """The exact error of a design with strata of its own, and the part of it that is noise."""
    if name != CUT:
        return {}
    design = methods.get(name, **settings).clients
    labels, q, _ = design.strata(one_round.view_at(state, design), state.setup.m)
    return dict(zip(("exact", "noise"), one_round.stratified_error(state, labels, q), strict=True))


def _oracle(state: one_round.State) -> dict:
    values, vectors = np.linalg.eigh(state.gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    labels = least_variance.max_cut_strata(state.omega, root, np.square(root).sum(1), state.setup.m)
    found, noise = one_round.stratified_error(state, labels, state.omega)
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
        ten = one_round.state_after(
            data, federation, rounds=rounds, method="md", local=work, seed=seed
        )
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


def silent(looked_at: dict, drop: float, *, seed: int = 0, draws: int = 1000) -> pd.DataFrame:
    """`one_round.errors` with clients that do not answer, and the error if `all answer`; by the name
    of a row: state, method and its settings."""
    found = {}
    for label, (state, name, settings) in looked_at.items():
        how = {"method": methods.get(name, **settings), "draws": draws, "seed": seed}
        told = one_round.errors(state, **how, drop=drop)
        found[label] = {"all answer": one_round.errors(state, **how)["error"], **told}
    return pd.DataFrame(found).T


def record(
    settings: list[str] | None = None, *, seeds=SEEDS, folder: str | Path = "results",
    designs: dict | None = None, clients: int = 100,
) -> list[Path]:  # fmt: skip
    """Make what is missing of the table, setting by setting and seed by seed; returns the files."""
    paths = []
    for setting in settings or list(SETTINGS):
        check_choice("setting", setting, SETTINGS)
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


def _value(frame: pd.DataFrame) -> pd.Series:
    """The error of each row: exact where it is known."""
    return frame["exact"].fillna(frame["error"])


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean relative error of each design in each setting at each m, over rounds and partitions, its
    standard error over partitions, and the largest of its cells; exact where it is known."""
    frame = frame.assign(value=_value(frame))
    keys = ["setting", "m", "design"]
    seeds = frame.groupby([*keys, "seed"], sort=False)["value"].mean()
    found = seeds.groupby(keys, sort=False).agg(mean="mean", se="sem")
    found["largest"] = frame.groupby(keys, sort=False)["value"].max()
    return found.reset_index()


def cells(frame: pd.DataFrame, setting: str) -> pd.DataFrame:
    """The table of one setting as text: mean ± standard error at each m, and megabytes of a round with
    ten participants, where the design asks nothing and where it asks all that it does."""
    rows = summary(frame[frame["setting"] == setting])
    rows["cell"] = [
        f"{a:.3g}" + f" ± {b:.1g}" * (not np.isnan(b))
        for a, b in zip(rows["mean"], rows["se"], strict=True)
    ]
    table = rows.pivot(index="design", columns="m", values="cell").loc[rows["design"].unique()]
    ten = frame[(frame["setting"] == setting) & (frame["m"] == 10)].groupby("design")["megabytes"]
    low, high = ten.min().round(1), ten.max().round(1)
    cost = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
    table.columns = [f"m = {m}" for m in table.columns]
    table["MB, m = 10"] = pd.Series(cost, index=low.index).replace("nan to nan", "–")
    return table.rename(index=NAMES).reset_index()


def above_md(frame: pd.DataFrame, design: str) -> tuple[int, int, pd.Series]:
    """How many cells of a design are above MD, of how many with an exact error, and the largest."""
    found = frame[(frame["design"] == design) & frame["exact"].notna()]
    return int((found["exact"] > 1).sum()), len(found), found.loc[found["exact"].idxmax()]


def ahead(frame: pd.DataFrame, setting: str, m: int) -> list[str]:
    """The designs that err less than the cut in every partition of a setting, the best first."""
    rows = frame[(frame["setting"] == setting) & (frame["m"] == m)]
    seeds = rows.assign(value=_value(rows)).groupby(["design", "seed"])["value"].mean().unstack()
    seeds = seeds[(seeds < seeds.loc[CUT]).all(axis=1)]
    return [each for each in seeds.mean(axis=1).sort_values().index if each != ORACLE]


def _listed(words) -> str:
    """5, 10 and 20."""
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def sentence(frame: pd.DataFrame, setting: str) -> str:
    """What the cut leaves of MD's error in a setting, what is below it there, and whether it is above MD."""
    rows, means = frame[frame["setting"] == setting], summary(frame)
    left = means[(means["setting"] == setting) & (means["design"] == CUT)].set_index("m")["mean"]
    at = {m: ahead(frame, setting, m) for m in left.index}
    found = [each for each in DESIGNS if any(each in better for better in at.values())]
    own, others = (
        "; ".join(f"{NAMES[d]}, m = {_listed(m for m in at if d in at[m])}" for d in these)
        for these in ([d for d in found if d.startswith(CUT)], [d for d in found if CUT not in d])
    )
    parts = rows["seed"].nunique()
    above, count, top = above_md(rows, CUT)
    same = (rows[["seed", "m", "round"]] == top[["seed", "m", "round"]]).all(axis=1)
    oracle = rows[same & (rows["design"] == ORACLE)]["exact"].sum()
    return (
        f"**{PLACES[setting]}.** The cut leaves {_listed(f'{x:.2g}' for x in left)} of MD's error with "
        f"{_listed(left.index)} participants. Below it "
        + (f"in each of the {parts} partitions: " if parts > 1 else "in the one partition: ")
        + (f"{others}. " if others else "no other design. ")
        + (f"Of its own kind: {own}. " if own else "")
        + f"{above or 'None'} of its {count} cells are above MD; the largest is {top['exact']:.2f} "
        f"(m = {top['m']}, round {top['round'] + 1})"
        + f", where a cut of the true updates has {oracle:.2f}" * (above > 0)
        + "."
    )
