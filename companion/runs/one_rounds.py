"""The table of one-round errors, which `fedstas one-round` records and the pages read.

The error of a design is measured in one round from states of a run of `md` with ten participants: the initial model
w_0, and the models after 10, 30 and 60 rounds. Each file of `results/one-round` holds one setting; a seed fixes the
partition, the initial model and the start of k-means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from companion.runs.atomic import write
from companion.runs.experiments import MORE_LOCAL_WORK
from companion.runs.least_variance_results import LEAST_VARIANCE_METHOD
from companion.runs.provenance import environment
from companion.runs.records import ONE_ROUND
from fedstas import least_variance, methods
from fedstas.errors import InputError, check_choice
from fedstas.sim import one_round, partition, tasks

SEEDS, ROUNDS, PARTICIPANTS = range(5), (0, 10, 30, 60), (5, 10, 20)
DRAWS = 200  # cohorts drawn per design and state
# The cube method takes a hundred times as long; DivFL has no random draw.
FEWER_DRAWS = {"cube": 60, "divfl": 2}
# By name: task, partition, concentration and settings of local work.
SETTINGS = {
    "mnist": ("mnist", "dirichlet", 0.01, {}),
    "mnist-equal": ("mnist", "dirichlet_fixed_size", 0.01, {}),
    "mnist-0.1": ("mnist", "dirichlet", 0.1, {}),
    "fashion-mnist": ("fashion-mnist", "dirichlet", 0.01, {}),
    # A quarter of the local steps of the recorded runs, which learn at this rate.
    "cifar100": ("cifar100", "dirichlet", 0.001, MORE_LOCAL_WORK | {"steps": 5}),
}
# By the label in the table: method and settings. The last three are biased.
DESIGNS = {
    "md": ("md", {}),
    "fedavg-unbiased": ("fedavg-unbiased", {}),
    "clustered-size": ("clustered-size", {}),
    "clustered-similarity": ("clustered-similarity", {}),
    "fedstas-unbiased": ("fedstas-unbiased", {}),
    LEAST_VARIANCE_METHOD: (LEAST_VARIANCE_METHOD, {"features": "gradients"}),
    f"{LEAST_VARIANCE_METHOD}, every 10 rounds": (
        LEAST_VARIANCE_METHOD,
        {"features": "gradients", "restratify_every": 10},
    ),
    f"{LEAST_VARIANCE_METHOD}, draws by norm": (
        LEAST_VARIANCE_METHOD,
        {"features": "gradients", "restratify_every": 10, "draws": "norm"},
    ),
    f"{LEAST_VARIANCE_METHOD}, noise": (
        LEAST_VARIANCE_METHOD,
        {"features": "gradients", "restratify_every": 10, "noise": True},
    ),
    f"{LEAST_VARIANCE_METHOD}, from updates": (LEAST_VARIANCE_METHOD, {"features": "updates"}),
    "poisson": ("poisson", {}),
    "optimal-client-sampling": ("optimal-client-sampling", {}),
    "cube": ("cube", {}),
    "local-pivotal": ("local-pivotal", {}),
    "fedsts": ("fedsts", {"restratify_every": 10}),
    "power-of-choice": ("power-of-choice", {}),
    "divfl": ("divfl", {}),
}
ORACLE = "cut of the true updates"
# How the pages call each setting and each design.
SETTING_TITLES = {
    "mnist": "MNIST 0.01, disjoint",
    "mnist-equal": "MNIST 0.01, equal sizes",
    "mnist-0.1": "MNIST 0.1, disjoint",
    "fashion-mnist": "Fashion-MNIST 0.01, disjoint",
    "cifar100": "CIFAR-100 0.001, disjoint",
}
DESIGN_NAMES = {
    "md": "MD sampling",
    "fedavg-unbiased": "distinct clients at random",
    "clustered-size": "clustered sampling by size",
    "clustered-similarity": "clustered sampling by similarity",
    "fedstas-unbiased": "k-means strata (corrected)",
    LEAST_VARIANCE_METHOD: "least-variance strata (recommended)",
    f"{LEAST_VARIANCE_METHOD}, every 10 rounds": "least-variance strata, every ten rounds",
    f"{LEAST_VARIANCE_METHOD}, draws by norm": "least-variance strata, draws by norm",
    f"{LEAST_VARIANCE_METHOD}, noise": "least-variance strata, noise in the pairs",
    f"{LEAST_VARIANCE_METHOD}, from updates": "least-variance strata, from last updates",
    "poisson": "Poisson sampling by size",
    "optimal-client-sampling": "optimal client sampling, by norm",
    "cube": "cube method",
    "local-pivotal": "local pivotal method",
    "fedsts": "FedSTS (biased)",
    "power-of-choice": "Power-of-Choice (biased)",
    "divfl": "DivFL (biased)",
}


def _exact_error(state: one_round.State, name: str, settings: dict) -> dict:
    """Return the exact error of strata of least variance and its noise part; nothing for another method."""
    if name != LEAST_VARIANCE_METHOD:
        return {}
    design = methods.get(name, **settings).clients
    labels, q, _ = design.strata(one_round.view_at(state, design), state.setup.m)
    return dict(zip(("exact", "noise"), one_round.stratified_error(state, labels, q), strict=True))


def oracle_row(state: one_round.State) -> dict:
    """Return the row of strata of least variance formed from the clients' true updates, which no server knows."""
    values, vectors = np.linalg.eigh(state.gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    labels = least_variance.max_cut_strata(state.omega, root, np.square(root).sum(1), state.setup.m)
    error, noise = one_round.stratified_error(state, labels, state.omega)
    return {"design": ORACLE, "error": error, "exact": error, "noise": noise, "bias": 0.0}


def _measure_partition(
    data, setting: str, seed: int, designs: dict, clients: int, bar
) -> pd.DataFrame:
    """Measure the errors of all designs at all states of one partition."""
    _, kind, concentration, local = SETTINGS[setting]
    partition_settings = {"clients": clients, "seed": seed, "concentration": concentration}
    federation = partition.make(kind, data.train_y, **partition_settings)
    work = methods.get("md", **local).local
    rows: list[dict] = []
    answers: dict = {}  # all states are of one run: they share what clients answer at w_0
    for rounds in ROUNDS:
        after = one_round.state_after(
            data,
            federation,
            rounds=rounds,
            method="md",
            local=work,
            seed=seed,
            initial_model="sent",  # as it was charged when the table was recorded
        )
        after = replace(after, answers=answers)
        for m in PARTICIPANTS:
            state = after.with_m(m)
            keys = {"seed": seed, "round": rounds, "m": m}
            for label, (name, settings) in designs.items():
                method = methods.get(name, **settings, **local)
                draws = FEWER_DRAWS.get(name, DRAWS)
                errors = one_round.errors(state, method, draws=draws, seed=seed)
                rows.append(
                    {**keys, "design": label, **errors, **_exact_error(state, name, settings)}
                )
                bar.update()
            rows.append(keys | oracle_row(state))
    return pd.DataFrame(rows)


def compare_nonresponse(
    designs: dict, drop: float, *, seed: int = 0, draws: int = 1000
) -> pd.DataFrame:
    """Measure errors where each participant fails to answer with probability `drop`.

    Args:
        designs: by label, a state, a method and the method's settings.

    Returns:
        A row per label: the columns of `one_round.errors`, and the error if `all answer`.
    """
    rows = {}
    for label, (state, name, settings) in designs.items():
        options = {"method": methods.get(name, **settings), "draws": draws, "seed": seed}
        complete = one_round.errors(state, **options)["error"]
        rows[label] = {"all answer": complete, **one_round.errors(state, **options, drop=drop)}
    return pd.DataFrame(rows).T


def record(
    settings: list[str] | None = None,
    *,
    seeds=SEEDS,
    folder: str | Path = "results",
    designs: dict | None = None,
    clients: int = 100,
) -> list[Path]:
    """Record what is missing of the table, setting by setting and seed by seed; return the files."""
    chosen = DESIGNS if designs is None else designs

    load_task = cache(tasks.load)  # once for all partitions of it

    def measure(setting: str, seed: int, bar: tqdm) -> pd.DataFrame:
        """Measure one partition of a setting."""
        data = load_task(SETTINGS[setting][0])
        return _measure_partition(data, setting, seed, chosen, clients, bar)

    each = len(ROUNDS) * len(PARTICIPANTS) * len(chosen)
    return record_partitions(
        Path(folder) / ONE_ROUND, measure, each, SETTINGS, settings=settings, seeds=seeds
    )


def record_partitions(
    folder: Path,
    measure: Callable[[str, int, tqdm], pd.DataFrame],
    each: int,
    known: Iterable[str],
    *,
    settings: list[str] | None,
    seeds: Iterable[int],
) -> list[Path]:
    """Record what is missing of a table of errors: per setting a file of rows, and one with each seed's environment.

    Args:
        folder: of the table.
        measure: returns the rows of a setting and a seed, with a column `seed`; it moves the progress bar.
        each: the steps of the bar for one seed.
        known: the names of all settings.
        settings: those to be recorded; None: all.
        seeds: of the partitions.

    Returns:
        The files of rows.
    """
    paths = []
    for setting in settings or list(known):
        check_choice("setting", setting, known)
        path = folder / f"{setting}.parquet"
        metadata_path = path.with_suffix(".json")
        tables = [pd.read_parquet(path)] if path.exists() else []
        known = metadata_path.exists()  # not where a kill came between the two files
        metadata = json.loads(metadata_path.read_text(encoding="utf-8")) if known else {}
        there = {int(seed) for table in tables for seed in table["seed"]}
        missing = [seed for seed in seeds if seed not in there]
        with tqdm(total=len(missing) * each, desc=setting, unit="design") as bar:
            for seed in missing:
                tables.append(measure(setting, seed, bar))
                table = pd.concat(tables, ignore_index=True)
                metadata[str(seed)] = environment("cpu", 1)
                write(path, lambda p, frame=table: frame.to_parquet(p, index=False))
                text = json.dumps(metadata, indent=1) + "\n"
                write(metadata_path, lambda p, text=text: p.write_text(text, encoding="utf-8"))
        paths.append(path)
    return paths


def load(folder: str | Path = "results") -> pd.DataFrame:
    """Load all recorded rows, with the column `setting`; raise `InputError` where nothing is recorded."""
    return load_partitions(Path(folder) / ONE_ROUND, f"fedstas one-round --folder {folder}")


def load_partitions(folder: Path, command: str) -> pd.DataFrame:
    """Load the rows that `record_partitions` wrote; where there are none an `InputError` names the `command`."""
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise InputError(f"{folder} holds no table: `{command}` makes it")
    return pd.concat([pd.read_parquet(p).assign(setting=p.stem) for p in paths], ignore_index=True)


def load_metadata(folder: str | Path = "results", table: str = ONE_ROUND) -> list[dict]:
    """Load the seed of each recorded partition of a table and the `environment` in which it was measured."""
    paths = sorted((Path(folder) / table).glob("*.json"))
    return [
        {"identity": {"seed": int(seed)}, "environment": recorded}
        for path in paths
        for seed, recorded in json.loads(path.read_text(encoding="utf-8")).items()
    ]


def _error(table: pd.DataFrame) -> pd.Series:
    """Return the error of each row: the exact one where it is known, else the mean over cohorts."""
    return table["exact"].fillna(table["error"])


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the error of each design in each setting for each number of participants m.

    Returns:
        One row per setting, m and design: `mean` over rounds and partitions, its standard error `se` over partitions,
        and the `largest` error of one partition and round; in multiples of MD's.
    """
    table = table.assign(value=_error(table))
    keys = ["setting", "m", "design"]
    seeds = table.groupby([*keys, "seed"], sort=False)["value"].mean()
    summary = seeds.groupby(keys, sort=False).agg(mean="mean", se="sem")
    summary["largest"] = table.groupby(keys, sort=False)["value"].max()
    return summary.reset_index()


def tabulate_errors(table: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Tabulate the errors of one setting as text.

    Returns:
        One row per design: mean ± standard error for each m, and the megabytes of a round with ten participants, from
        the rounds in which the design requests nothing but updates to those in which it requests most.
    """
    rows = summarise(table[table["setting"] == setting])
    rows["cell"] = [
        f"{mean:.3g}" + f" ± {se:.1g}" * (not np.isnan(se))
        for mean, se in zip(rows["mean"], rows["se"], strict=True)
    ]
    text = rows.pivot(index="design", columns="m", values="cell").loc[rows["design"].unique()]
    ten = table[(table["setting"] == setting) & (table["m"] == 10)].groupby("design")["megabytes"]
    low, high = ten.min().round(1), ten.max().round(1)
    cost = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
    text.columns = [f"m = {m}" for m in text.columns]
    text["MB, m = 10"] = pd.Series(cost, index=low.index).replace("nan to nan", "–")
    return text.rename(index=DESIGN_NAMES).reset_index()


def count_above_md(table: pd.DataFrame, design: str) -> tuple[int, int, pd.Series]:
    """Count the exact errors of a design that exceed MD's.

    Returns:
        Their number, the number of exact errors, and the row of the largest.
    """
    exact = table[(table["design"] == design) & table["exact"].notna()]
    return int((exact["exact"] > 1).sum()), len(exact), exact.loc[exact["exact"].idxmax()]


def list_better_designs(table: pd.DataFrame, setting: str, m: int) -> list[str]:
    """List the designs that err less than least variance in every partition of a setting, the best first.

    The oracle, which knows the true updates, is left out.
    """
    rows = table[(table["setting"] == setting) & (table["m"] == m)]
    seeds = rows.assign(value=_error(rows)).groupby(["design", "seed"])["value"].mean().unstack()
    better = seeds[(seeds < seeds.loc[LEAST_VARIANCE_METHOD]).all(axis=1)].mean(axis=1)
    return [design for design in better.sort_values().index if design != ORACLE]
