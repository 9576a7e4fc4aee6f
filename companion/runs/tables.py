"""Recorded runs as tables: what of a sweep is there, and the statistics of the last rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.runs import experiments, records, statistics, sweeps
from companion.runs.sweeps import Run
from fedstas import methods, user_code
from fedstas.sim import partition, simulation

SCALES = {"test_accuracy": 100, "client_accuracy": 100, "macro_f1": 100}  # others as they are
NOT_RECORDED = "not recorded yet"
FINAL_ROUNDS = (
    10  # final accuracy, everywhere: the mean of what was evaluated in that many last rounds
)
COLUMNS = ["run", "sweep", "task", "partition", "concentration", "method", "seed", "rounds"]
COLUMNS += [*simulation.COLUMNS, "variant", "megabytes", "thousands"]  # at least


@dataclass(frozen=True, order=True)
class Variant:
    """The settings in which a run departs from the usual ones, as sorted pairs of name and value.

    `Variant.of(strata=5)` is that of runs with five strata and all else as usual, `Variant()` that of runs that
    depart in nothing. Frames have it in a column, so that runs are chosen by equality and by single settings.
    """

    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, **settings) -> Variant:
        """Return the variant with these settings."""
        return cls(tuple(sorted(settings.items())))

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default where it is the usual one."""
        return dict(self.settings).get(name, default)

    def without(self, name: str) -> Variant:
        """Return the variant with that setting as usual."""
        return Variant(tuple(pair for pair in self.settings if pair[0] != name))

    def __contains__(self, name: str) -> bool:
        return name in dict(self.settings)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.settings)


@dataclass(frozen=True)
class RecordedSweep:
    """What is recorded of a sweep's profile `paper`, by the current version of the algorithms.

    `frame` is that of `records.load` with the `variant` and `megabytes`; `facts` has one row per run:
    device, processor, threads, torch, commit, minutes, and how it ended if it diverged.
    """

    sweep: str
    frame: pd.DataFrame
    planned: int
    facts: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def found(self) -> int:
        """How many of the planned runs are there."""
        return len(self.facts)

    @property
    def note(self) -> str:
        """One sentence on what is missing, with the command that makes it; empty if nothing is."""
        if self.found == self.planned:
            return ""
        part = f"{self.found} of {self.planned} runs are recorded" if self.found else NOT_RECORDED
        return f"{part[0].upper()}{part[1:]}: `fedstas sweep {self.sweep} --profile paper --folder results`"

    def where(self, **wanted) -> pd.DataFrame:
        """The rows with these values in these columns."""
        chosen = np.logical_and.reduce([self.frame[k] == v for k, v in wanted.items()])
        return self.frame[chosen]


def variant_of(run: Run) -> Variant:
    """Return the settings in which a declared run departs from the usual ones."""
    known = methods.parameters(run.method)  # ten rounds are the usual age of strata that age at all
    usual_age = ("restratify_every", 10) if known.get("restratify_every") else None
    overrides = {k: v for k, v in run.overrides.items() if (k, v) != usual_age}
    usual = {"clients_per_round": 10, "concentration": 0.01, "network": ""}
    shape = {k: getattr(run, k) for k, v in usual.items() if getattr(run, k) != v}
    return Variant.of(**overrides, **shape)


def _ended(run: Run, diverged: str | None) -> str:
    """Which run it was that diverged, and when; empty for a run that did not."""
    said = (diverged or "").partition(":")[0]
    return (
        said and f"`{run.method}`, {str(variant_of(run)) or 'by default'}, seed {run.seed}: {said}"
    )


def _key(method: dict, algorithms: int, *rest) -> str:
    return json.dumps([method, algorithms, *rest], sort_keys=True)


def run_key(run: Run) -> str:
    """What a declared run has in common with the identity of its record."""
    method = methods.get(run.method, **run.overrides)
    shape = (run.clients, run.clients_per_round, run.rounds, run.eval_every, run.seed)
    told = {key: user_code.sha256(getattr(run, key)) for key in ("task", "partition", "network")}
    told["digest"] = sweeps.load_task(run.task, "cpu").digest if told["task"] else ""
    names = (
        user_code.without_folders(run.task, "task"),
        Path(run.partition).name,
        user_code.without_folders(run.network, "network"),
    )
    return _key(methods.to_dict(method), methods.version(method), *names, *shape, told)


def record_key(who: dict) -> str:
    """The same of an identity."""
    shape = ("clients", "clients_per_round", "rounds", "eval_every", "seed")
    recipe, files = who["partition"], who.get("files", {})
    told = {"task": files.get("task", ""), "partition": recipe.get("sha256", "")}
    told["network"] = files.get("network", "")
    told["digest"] = who["digest"] if told["task"] else ""
    names = (who["task"], recipe["name"], who.get("network", ""))
    return _key(who["method"], who["algorithms"], *names, *(who[k] for k in shape), told)


def load_sweep(sweep: str, folder: str | Path = "results") -> RecordedSweep:
    """The runs of a sweep (profile `paper`) that are recorded below a folder."""
    todo: dict[str, list[Run]] = {}
    for run in experiments.runs(sweep, "paper"):
        todo.setdefault(run_key(run), []).append(run)
    planned = sum(map(len, todo.values()))
    variants, facts = {}, []
    for found in records.read_runs(Path(folder) / sweep):
        note = found.metadata
        recipe = note["identity"]["partition"]
        user_code = {k: recipe[k] for k in ("concentration", "sigma", "size") if k in recipe}
        for run in todo.get(record_key(note["identity"]), []):
            sizes = partition.parse_sizes(run.sizes) if run.sizes else recipe.get("sizes")
            said = user_code | (
                {} if run.size else {"size": None}
            )  # unsaid, the largest that there is
            if sizes == recipe.get("sizes") and said.items() <= vars(run).items():
                made = note["environment"]
                variants[note["run"]] = variant_of(run)
                facts.append(
                    {k: made[k] for k in ("device", "threads", "commit")}
                    | {"torch": made["versions"]["torch"], "minutes": note["seconds"] / 60}
                    | {"processor": made.get("processor", "not recorded")}
                    | {"ended": _ended(run, note.get("diverged"))}
                )
    if not variants:
        return RecordedSweep(sweep, pd.DataFrame(columns=COLUMNS), planned)
    frame = records.load(Path(folder) / sweep)
    frame = frame[frame["run"].isin(variants)]
    frame = frame.assign(
        variant=frame["run"].map(variants).astype(object),
        megabytes=(frame["bytes_down"] + frame["bytes_up"]) / 1e6,
        thousands=frame["examples"] / 1e3,
    )
    return RecordedSweep(sweep, frame, planned, pd.DataFrame(facts))


def select_final_rounds(frame: pd.DataFrame, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """The rows of the last rounds that were asked for; none of a run that ended before them."""
    return frame[frame["round"] > frame["rounds"] - last]


def smooth_curves(frame: pd.DataFrame, metric: str, rounds: int) -> pd.DataFrame:
    """The frame with the mean of a metric over the evaluations of so many rounds up to each one, as the papers
    smooth their curves; without the first rounds, which have fewer (of a shorter run, one mean)."""
    parts = []
    for _, part in frame.groupby("run", sort=False):
        part = part.sort_values("round")
        every = part["round"].diff().median() if len(part) > 1 else 1
        means = part[metric].rolling(min(len(part), max(1, round(rounds / every)))).mean()
        parts.append(part.assign(**{metric: means}).dropna(subset=metric))
    return pd.concat(parts, ignore_index=True) if parts else frame


def final_values(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """The mean of the last rounds of each run: one row per method and seed, in percent or nats."""
    recent = select_final_rounds(frame, last)
    means = recent.groupby(["method", "seed"], sort=False)[metric].mean() * SCALES.get(metric, 1)
    return means.rename("value").reset_index()


def summarise(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Mean, 95 % interval over seeds and number of seeds of each method's last rounds."""
    values = final_values(frame, metric, last).groupby("method", sort=False)["value"]
    rows = {m: (*statistics.mean_interval(v), len(v)) for m, v in values}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "seeds"])


def summarise_variants(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """`summarise` for each variant of a sweep: columns variant, method, mean, low, high, seeds."""
    parts = [
        summarise(part, metric, last).rename_axis("method").reset_index().assign(variant=variant)
        for variant, part in frame.groupby("variant", sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def choose_by_loss(frame: pd.DataFrame) -> dict[str, Variant]:
    """By method the variant with the least training loss, mean of the last rounds; what diverged is none."""
    last = (
        select_final_rounds(frame).groupby(["method", "variant"], sort=False)["train_loss"].mean()
    )
    return dict([*last.groupby("method").idxmin()]) if len(last) else {}


def pivot_seeds(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """The mean of the last rounds, one row per seed and one column per method."""
    values = final_values(frame, metric, last)
    return values.pivot(index="seed", columns="method", values="value")


def paired_differences(
    frame: pd.DataFrame, metric: str, baseline: str, last: int = FINAL_ROUNDS
) -> pd.DataFrame:
    """Differences to a baseline over common seeds: mean, 95 % interval, p of the paired t-test."""
    wide = pivot_seeds(frame, metric, last)
    rows = {}
    for method in wide.columns.drop(baseline):
        rows[method] = statistics.paired_difference(wide[method], wide[baseline])
    columns = ["difference", "low", "high", "p", "seeds"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def compare_methods(
    frames: dict[str, pd.DataFrame], metrics: Sequence[str], baseline: str = "md"
) -> pd.DataFrame:
    """Every method in every place under every metric, and its paired difference to the baseline.

    Columns: place, metric, method, mean, mean_low, mean_high, runs, difference, low, high, p, seeds,
    and holm: p corrected for all comparisons of the table.
    """
    parts = []
    for place, frame in frames.items():
        for metric in metrics if len(frame) else ():
            table = summarise(frame, metric)
            table.columns = ["mean", "mean_low", "mean_high", "runs"]
            if baseline in table.index:
                table = table.join(paired_differences(frame, metric, baseline))
            table = table.rename_axis("method").reset_index()
            parts.append(table.assign(place=place, metric=metric))
    columns = ["place", "metric", "method", "mean", "mean_low", "mean_high", "runs"]
    columns += ["difference", "low", "high", "p", "seeds"]
    table = pd.concat([pd.DataFrame(columns=columns, dtype=float), *parts], ignore_index=True)
    return table.assign(holm=statistics.holm(table["p"]))


def describe_difference(
    frame: pd.DataFrame, a: str, b: str, metric: str = "test_accuracy"
) -> tuple[str, str]:
    """The paired difference of two methods in words, and what it says: above, below, or neither."""
    if not {a, b} <= set(frame["method"]):
        return f"({NOT_RECORDED})", "not yet compared with"
    wide = pivot_seeds(frame, metric)
    difference = statistics.paired_difference(wide[a], wide[b]).interval
    word = statistics.judge_sign(difference.low, difference.high)
    if np.isnan(difference.low):
        return f"{difference.mean:+.1f} points (one seed)", word
    return statistics.format_points(*difference), word


def relative_cost(frame: pd.DataFrame, a: str, b: str) -> tuple[float, float]:
    """What `a` sent and received, and how many examples it processed, in multiples of `b`'s.

    Means over the seeds that both have, at the end of their runs; NaN where one is not there.
    """
    ends = frame[frame["round"] == frame["rounds"]]
    wide = ends.pivot(index="seed", columns="method", values=["megabytes", "thousands"])
    pairs = [(unit, method) for unit in ("megabytes", "thousands") for method in (a, b)]
    spent = wide.reindex(columns=[*dict.fromkeys(pairs)]).dropna().mean()
    sent, processed = (float(spent[u, a] / spent[u, b]) for u in ("megabytes", "thousands"))
    return sent, processed


def describe_cost(frame: pd.DataFrame, a: str, b: str) -> str:
    """The same in words, to stand beside a gain."""
    sent, processed = relative_cost(frame, a, b)
    if np.isnan(sent):
        return f"at a cost {NOT_RECORDED}"
    return f"at {sent:.2f} times the bytes and {processed:.2f} times the examples"


def describe_gain(frame: pd.DataFrame, a: str, b: str, metric: str = "test_accuracy") -> str:
    """`compared` in words, with what it costs beside it: where a gain is stated, so is its price."""
    said = describe_difference(frame, a, b, metric)[0]
    return said if NOT_RECORDED in said else f"{said}, {describe_cost(frame, a, b)}"


def cost_to_reach(frame: pd.DataFrame, metric: str, goal: float, cost: str) -> pd.Series:
    """By method: what has been spent when the mean curve first reaches the goal; NaN if it does not."""
    means = frame.groupby(["method", "round"])[[metric, cost]].mean()
    reached = means[means[metric] >= goal].groupby("method", sort=False)[cost].first()
    return reached.reindex(frame["method"].unique())
