"""Recorded runs as tables: which runs of a sweep are recorded, and the statistics of their last rounds."""

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
from fedstas import config, methods, user_code
from fedstas.sim import initial_model, partition, simulation

SCALES = {"test_accuracy": 100, "client_accuracy": 100, "macro_f1": 100}  # to per cent; of others 1
NOT_RECORDED = "not recorded yet"
# Final accuracy is the mean of what was evaluated in this many last rounds, everywhere.
FINAL_ROUNDS = 10
COLUMNS = ["run", "sweep", "task", "partition", "concentration", "method", "seed", "rounds"]
COLUMNS += [*simulation.COLUMNS, "variant", "megabytes", "thousands"]  # of a sweep without runs


@dataclass(frozen=True, order=True)
class Variant:
    """The settings of a run that differ from its sweep's usual ones, as sorted pairs of name and value.

    `Variant.of(strata=5)` is that of runs with five strata and all else as usual; `Variant()` has no such setting. It is a
    column of frames, so that runs are chosen by equality or by single settings.
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
    """The recorded runs of a sweep's profile `paper`, made by the current version of the algorithms.

    `frame` is that of `records.load` with the columns `variant`, `megabytes` (sent and received) and `thousands` (of
    processed examples); `facts` has one row per run: device, processor, threads, torch, commit, minutes, and how it
    ended if it diverged.
    """

    sweep: str
    frame: pd.DataFrame
    planned: int
    facts: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def recorded(self) -> int:
        """The number of planned runs that are recorded."""
        return len(self.facts)

    @property
    def note(self) -> str:
        """A sentence on the runs that are missing, with the command that makes them; empty if none is."""
        if self.recorded == self.planned:
            return ""
        part = (
            f"{self.recorded} of {self.planned} runs are recorded"
            if self.recorded
            else NOT_RECORDED
        )
        return f"{part[0].upper()}{part[1:]}: `fedstas sweep {self.sweep} --profile paper --folder results`"

    def where(self, **values) -> pd.DataFrame:
        """Return the rows of the frame with these values in these columns."""
        return self.frame[np.logical_and.reduce([self.frame[k] == v for k, v in values.items()])]


def variant_of(run: Run) -> Variant:
    """Return the settings in which a declared run departs from the usual ones."""
    defaults = methods.parameters(run.method)
    # Ten rounds are the usual interval of methods that stratify more than once.
    usual_interval = ("restratify_every", 10) if defaults.get("restratify_every") else None
    usual_settings = (usual_interval, ("features", "gradients"))  # of strata of least variance
    overrides = {k: v for k, v in run.overrides.items() if (k, v) not in usual_settings}
    usual = {"clients_per_round": 10, "concentration": 0.01, "network": ""}
    shape = {k: getattr(run, k) for k, v in usual.items() if getattr(run, k) != v}
    shape |= {} if run.message is None else {"message": run.message}
    return Variant.of(**overrides, **shape)


def run_key(run: Run) -> str:
    """Return a key of a declared run, which equals `record_key` of its record."""
    method = methods.get(run.method, **run.overrides)
    files = {key: user_code.sha256(getattr(run, key)) for key in ("task", "partition", "network")}
    files["digest"] = sweeps.load_task(run.task, "cpu").digest if files["task"] else ""
    start = initial_model.identity(run.initial_model)
    files["initial_model"] = start.get("files", {}).get("initial_model", "")
    names = (
        user_code.without_folders(run.task, "task"),
        Path(run.partition).name,
        user_code.without_folders(run.network, "network"),
        start.get("initial_model", ""),
    )
    shape = (run.clients, run.clients_per_round, run.rounds, run.eval_every, run.seed)
    shape += (records.further_rounds(run.rounds, run.eval_every, run.eval_rounds), run.average)
    shape += (run.drop, run.remedy) if run.drop else ()
    shape += () if run.message is None else (config.to_dict(run.message),)
    return _encode_key(methods.to_dict(method), methods.version(method), *names, *shape, files)


def record_key(identity: dict) -> str:
    """Return a key of a record's identity, which equals `run_key` of the run that it is a record of."""
    recipe, hashes = identity["partition"], identity.get("files", {})
    files = {"task": hashes.get("task", ""), "partition": recipe.get("sha256", "")}
    files |= {key: hashes.get(key, "") for key in ("network", "initial_model")}
    files["digest"] = identity["digest"] if files["task"] else ""
    names = (identity["task"], recipe["name"])
    names += (identity.get("network", ""), identity.get("initial_model", ""))
    keys = ("clients", "clients_per_round", "rounds", "eval_every", "seed")
    shape = [identity[key] for key in keys]
    shape += [identity.get("eval_rounds", ()), identity.get("average")]
    shape += [identity["drop"], identity["remedy"]] if "drop" in identity else []
    shape += [identity["message"]] if "message" in identity else []
    return _encode_key(identity["method"], identity["algorithms"], *names, *shape, files)


def _encode_key(*values) -> str:
    """Return values of a key as text."""
    return json.dumps(values, sort_keys=True)


def load_sweep(sweep: str, folder: str | Path = "results") -> RecordedSweep:
    """Load the runs of a sweep (profile `paper`) that are recorded below a folder."""
    planned = experiments.runs(sweep, "paper")
    by_key: dict[str, list[Run]] = {}
    for run in planned:
        by_key.setdefault(run_key(run), []).append(run)
    variants: dict[str, Variant] = {}
    facts = []
    for record in records.read_runs(Path(folder) / sweep):
        metadata, recipe = record.metadata, record.metadata["identity"]["partition"]
        for run in by_key.get(record_key(metadata["identity"]), []):
            if _has_partition(run, recipe):
                variants[metadata["run"]] = variant_of(run)
                facts.append(_describe_execution(run, metadata))
    if not variants:
        return RecordedSweep(sweep, pd.DataFrame(columns=COLUMNS), len(planned))
    frame = records.load(Path(folder) / sweep)
    frame = frame[frame["run"].isin(variants)]
    frame = frame.assign(
        variant=frame["run"].map(variants).astype(object),
        megabytes=(frame["bytes_down"] + frame["bytes_up"]) / 1e6,
        thousands=frame["examples"] / 1e3,
    )
    return RecordedSweep(sweep, frame, len(planned), pd.DataFrame(facts))


def _has_partition(run: Run, recipe: dict) -> bool:
    """Return whether a declared run has the partition of a record, by the settings that the recipe names."""
    settings = {k: recipe[k] for k in ("concentration", "sigma", "size") if k in recipe}
    if not run.size:  # the recipe then has the largest size that is possible
        settings["size"] = None
    sizes = partition.parse_sizes(run.sizes) if run.sizes else recipe.get("sizes")
    return sizes == recipe.get("sizes") and settings.items() <= vars(run).items()


def _describe_execution(run: Run, metadata: dict) -> dict:
    """Return where, by which code and how long a run was executed, and how it ended if it diverged."""
    environment = metadata["environment"]
    end = (metadata.get("diverged") or "").partition(":")[0]
    name = f"`{run.method}`, {str(variant_of(run)) or 'by default'}, seed {run.seed}"
    return {
        **{key: environment[key] for key in ("device", "threads", "commit")},
        "torch": environment["versions"]["torch"],
        "minutes": metadata["seconds"] / 60,
        "processor": environment.get("processor", "not recorded"),
        "ended": f"{name}: {end}" if end else "",
    }


def select_final_rounds(frame: pd.DataFrame, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Return the rows of the last of the planned rounds; none of a run that ended before them."""
    return frame[frame["round"] > frame["rounds"] - last]


def smooth_curves(frame: pd.DataFrame, metric: str, rounds: int) -> pd.DataFrame:
    """Replace a metric by its mean over the evaluations in the last `rounds` rounds up to each one, as the papers smooth curves.

    The first evaluations, which have fewer rounds before them, are dropped; of a run with fewer than that one mean is left.
    """
    parts = []
    for _, part in frame.groupby("run", sort=False):
        part = part.sort_values("round")
        at, values = part["round"].to_numpy(), part[metric].to_numpy()
        means = [values[(at > t - rounds) & (at <= t)].mean() for t in at]
        complete = at >= min(rounds, at[-1])
        parts.append(part.assign(**{metric: means})[complete])
    return pd.concat(parts, ignore_index=True) if parts else frame


def final_values(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Return the final value of each run, the mean of its last rounds: one row per method and seed, in per cent or nats."""
    recent = select_final_rounds(frame, last)
    means = recent.groupby(["method", "seed"], sort=False)[metric].mean() * SCALES.get(metric, 1)
    return means.rename("value").reset_index()


def summarise(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Return mean, 95 % interval over seeds and number of seeds of each method's final values."""
    values = final_values(frame, metric, last).groupby("method", sort=False)["value"]
    rows = {m: (*statistics.mean_interval(v), len(v)) for m, v in values}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "seeds"])


def summarise_variants(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Summarise each variant of a sweep, as `summarise` does: columns variant, method, mean, low, high, seeds."""
    parts = [
        summarise(part, metric, last).rename_axis("method").reset_index().assign(variant=variant)
        for variant, part in frame.groupby("variant", sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def choose_by_loss(frame: pd.DataFrame) -> dict[str, Variant]:
    """Return by method the variant with the least training loss in the last rounds, of those that did not diverge."""
    last_rounds = frame.groupby("run")["round"].transform("max")
    whole = select_final_rounds(frame[last_rounds == frame["rounds"]])
    last = whole.groupby(["method", "variant"], sort=False)["train_loss"].mean()
    return dict([*last.groupby("method").idxmin()]) if len(last) else {}


def pivot_seeds(frame: pd.DataFrame, metric: str, last: int = FINAL_ROUNDS) -> pd.DataFrame:
    """Return the final values, one row per seed and one column per method."""
    values = final_values(frame, metric, last)
    return values.pivot(index="seed", columns="method", values="value")


def paired_differences(
    frame: pd.DataFrame, metric: str, baseline: str, last: int = FINAL_ROUNDS
) -> pd.DataFrame:
    """Return each method's differences to a baseline over common seeds: mean, 95 % interval, p of the paired t-test."""
    wide = pivot_seeds(frame, metric, last)
    rows = {}
    for method in wide.columns.drop(baseline):
        rows[method] = statistics.paired_difference(wide[method], wide[baseline])
    columns = ["difference", "low", "high", "p", "seeds"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def compare_methods(
    frames: dict[str, pd.DataFrame], metrics: Sequence[str], baseline: str = "md"
) -> pd.DataFrame:
    """Compare all methods with the baseline, in every setting and by every metric.

    Args:
        frames: the runs of each setting, by its name.
        metrics: columns of the frames.
        baseline: a method.

    Columns of the result: place (the setting), metric, method, mean, mean_low, mean_high, runs, difference, low, high, p, seeds,
    and holm, which is p corrected for all comparisons of the table.
    """
    parts = []
    for setting, frame in frames.items():
        for metric in metrics if len(frame) else ():
            table = summarise(frame, metric)
            table.columns = ["mean", "mean_low", "mean_high", "runs"]
            if baseline in table.index:
                table = table.join(paired_differences(frame, metric, baseline))
            table = table.rename_axis("method").reset_index()
            parts.append(table.assign(place=setting, metric=metric))
    columns = ["place", "metric", "method", "mean", "mean_low", "mean_high", "runs"]
    columns += ["difference", "low", "high", "p", "seeds"]
    table = pd.concat([pd.DataFrame(columns=columns, dtype=float), *parts], ignore_index=True)
    return table.assign(holm=statistics.holm(table["p"]))


def describe_difference(
    frame: pd.DataFrame, a: str, b: str, metric: str = "test_accuracy"
) -> tuple[str, str]:
    """Describe the paired difference of a to b, and on which side of zero it is: above, below, or not told apart from."""
    if not {a, b} <= set(frame["method"]):
        return f"({NOT_RECORDED})", "not yet compared with"
    wide = pivot_seeds(frame, metric)
    difference = statistics.paired_difference(wide[a], wide[b]).interval
    word = statistics.judge_sign(difference.low, difference.high)
    if np.isnan(difference.low):
        return f"{difference.mean:+.1f} points (one seed)", word
    return statistics.format_points(*difference), word


def relative_cost(frame: pd.DataFrame, a: str, b: str) -> tuple[float, float]:
    """Return the bytes that `a` sent and received, and the examples that it processed, in multiples of `b`'s.

    These are means over the seeds that both have, at the end of their runs; NaN where one is not there.
    """
    ends = frame[frame["round"] == frame["rounds"]]
    wide = ends.pivot(index="seed", columns="method", values=["megabytes", "thousands"])
    pairs = [(unit, method) for unit in ("megabytes", "thousands") for method in (a, b)]
    means = wide.reindex(columns=[*dict.fromkeys(pairs)]).dropna().mean()
    sent, processed = (float(means[u, a] / means[u, b]) for u in ("megabytes", "thousands"))
    return sent, processed


def describe_cost(frame: pd.DataFrame, a: str, b: str) -> str:
    """Describe `relative_cost` in words, to stand beside a gain."""
    sent, processed = relative_cost(frame, a, b)
    if np.isnan(sent):
        return f"at a cost {NOT_RECORDED}"
    return f"at {sent:.2f} times the bytes and {processed:.2f} times the examples"


def describe_gain(frame: pd.DataFrame, a: str, b: str, metric: str = "test_accuracy") -> str:
    """Describe the paired difference of a to b, and what a costs in multiples of b."""
    difference, _ = describe_difference(frame, a, b, metric)
    return (
        difference if NOT_RECORDED in difference else f"{difference}, {describe_cost(frame, a, b)}"
    )


def cost_to_reach(frame: pd.DataFrame, metric: str, goal: float, cost: str) -> pd.Series:
    """Return by method the cost at which the mean curve first reaches the goal; NaN if it does not."""
    means = frame.groupby(["method", "round"])[[metric, cost]].mean()
    reached = means[means[metric] >= goal].groupby("method", sort=False)[cost].first()
    return reached.reindex(frame["method"].unique())
