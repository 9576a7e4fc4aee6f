"""Fine-tuning from a head in closed form, in settings of the second comparison: `fedstas closed-form --fine-tuning`.

The server has the head of all clients' sums, multiplied by the scale that has the smallest loss on the validation split.
From it, MD and strata of least variance train as in the comparison: with the schedule that the design has there, and a
learning rate of its own, tuned on the validation split by seeds that serve nothing else. Each file of
`results/fine-tuning` holds the runs of one setting. Book/comparison.md has the rules.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from companion.runs import closed_form_heads, comparison, one_rounds, protocol, statistics
from companion.runs.atomic import write
from companion.runs.closed_form_heads import MEANS, RIDGE, count_bytes, make_federation
from companion.runs.comparison import Candidate, Setting
from companion.runs.provenance import environment
from companion.runs.records import FINE_TUNING
from fedstas import closed_form, methods
from fedstas.errors import Diverged, check_choice
from fedstas.sim import simulation, tasks

HEADS = {  # by setting: the head that training starts from
    "newsgroups": MEANS,
    "cifar10-features": RIDGE,
    "cifar100-coarse-features": RIDGE,
}
ARMS = ("md", "least-variance")
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
TUNING_SEEDS, SEEDS = (104, 105), (0, 1, 2, 3, 4)
SCALES = tuple(2.0**k for k in range(-2, 11))
CHUNK = 5000  # examples whose features are float64 at a time


@cache
def _load(task: str) -> tasks.Task:
    """Load a task with a linear layer as its network."""
    return tasks.load(task, device="cpu", network="linear")


@cache
def make_head(task: str, kind: str) -> tuple[np.ndarray, float]:
    """Make a head from the sums over all training examples of a task.

    Returns:
        The head, float64 [d + 1, classes], and its penalty (NaN for class means).
    """
    data = _load(task)
    features, labels = data.train_x.flatten(1), data.train_y.numpy()
    total: closed_form.Statistics | None = None
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        added = closed_form.compute_statistics(
            features[part].double().numpy(), labels[part], data.classes
        )
        total = added if total is None else total + added
    if kind == MEANS:
        return closed_form.class_means_head(total), np.nan
    penalty, _ = closed_form_heads.choose_penalty(task.removesuffix(tasks.VALIDATION))
    return closed_form.ridge_head(total, penalty), penalty


def _compute_logits(data: tasks.Task, head: np.ndarray) -> torch.Tensor:
    """Return the values [n, classes] of a head for the test examples."""
    weights = torch.from_numpy(head)
    return data.test_x.flatten(1).double() @ weights[:-1] + weights[-1]


@cache
def choose_scale(task: str, kind: str) -> float:
    """Choose the scale of a head's values with the smallest cross-entropy on the validation split of a task.

    The head is that of the remaining training examples; `kind` is as in `make_head`.
    """
    name = task.removesuffix(tasks.VALIDATION) + tasks.VALIDATION
    data, (head, _) = _load(name), make_head(name, kind)
    logits = _compute_logits(data, head)
    losses = {
        scale: float(torch.nn.functional.cross_entropy(scale * logits, data.test_y))
        for scale in SCALES
    }
    return min(losses, key=lambda scale: losses[scale])


def measure(setting: Setting, arm: str, candidate: Candidate, seed: int, kind: str) -> dict:
    """Train from a head, and measure the head and the averaged and raw models over the last tenth of the rounds.

    Args:
        setting: of the comparison.
        arm: of the setting.
        candidate: the learning rate and the schedule.
        seed: one of `TUNING_SEEDS` measures on the validation split.
        kind: of the head, as in `make_head`.

    Returns:
        A row: `seed`, `arm`, `head`, `penalty`, `scale`, `lr`, `schedule`; `of_head`, `average` and `raw`, accuracies as
        fractions (those of a guess for a run that diverged); `megabytes` of the rounds and `megabytes_of_head`.
    """
    (chosen,) = [one for one in setting.arms if one.name == arm]
    run = replace(setting, tuning_seeds=TUNING_SEEDS).plan_run(chosen, candidate, seed)
    data, (head, penalty) = _load(run.task), make_head(run.task, kind)
    scale = choose_scale(setting.task, kind)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "head.npy"
        np.save(start, closed_form.as_parameters(head, scale))
        try:
            history = simulation.run(
                data,
                make_federation(setting, data, seed),
                methods.get(run.method, **run.overrides),
                rounds=run.rounds,
                clients_per_round=run.clients_per_round,
                seed=seed,
                eval_every=run.rounds,
                eval_rounds=run.eval_rounds,
                average=run.average,
                initial_model=str(start),
                device="cpu",
            )
            frame = history.frame[history.frame["round"].isin(setting.windows["large"])]
            average, raw = (frame[metric].mean() for metric in comparison.MODELS.values())
        except Diverged as error:
            frame, average, raw = error.history.frame, 1 / data.classes, 1 / data.classes
    sent = frame[["bytes_down", "bytes_up"]].sum(axis=1).max() / 1e6
    senders = make_federation(setting, _load(setting.task), seed)  # with the validation split
    sums = count_bytes(kind, senders, senders.with_data, data.train_x[0].numel())
    correct = _compute_logits(data, head).argmax(1) == data.test_y
    return {
        "seed": seed,
        "arm": arm,
        "head": kind,
        "penalty": penalty,
        "scale": scale,
        "lr": candidate.lr,
        "schedule": candidate.schedule,
        "of_head": float(correct.double().mean()),
        "average": float(average),
        "raw": float(raw),
        "megabytes": float(sent),
        "megabytes_of_head": sums / 1e6,
    }


def tabulate_rates(table: pd.DataFrame, arm: str) -> pd.Series:
    """Return the mean averaged accuracy of an arm on the validation split by learning rate, where both seeds are there."""
    rows = table[(table["arm"] == arm) & table["seed"].isin(TUNING_SEEDS)] if len(table) else table
    if not len(rows):
        return pd.Series(dtype=float)
    by_rate = rows.groupby("lr")["average"].agg(["mean", "size"])
    return by_rate.loc[by_rate["size"] == len(TUNING_SEEDS), "mean"]


def record(settings: Sequence[str] | None = None, *, folder: str | Path = "results") -> list[Path]:
    """Record the missing runs, tuning first; return the files."""
    known, recorded = comparison.read(), comparison.load_runs()
    paths = []
    for name in settings or list(HEADS):
        check_choice("setting", name, HEADS)
        setting, path = known[name], Path(folder) / FINE_TUNING / f"{name}.parquet"
        tuned = comparison.tabulate_tuning(
            setting, comparison.load_curves(setting, recorded, tuning=True)
        )
        schedules = {arm: c.schedule for arm, c in comparison.choose_candidates(tuned).items()}
        with tqdm(desc=name, unit="run") as bar:
            for arm in ARMS:
                record_arm(setting, arm, schedules[arm], path, bar)
        paths.append(path)
    return paths


def record_arm(setting: Setting, arm: str, schedule: str, path: Path, bar: tqdm) -> None:
    """Record an arm's missing runs in a file: the rates until the best lies inside them, then the seeds at the best."""
    table = pd.read_parquet(path) if path.exists() else pd.DataFrame()
    metadata_path = path.with_suffix(".json")
    known = metadata_path.exists()
    metadata = json.loads(metadata_path.read_text(encoding="utf-8")) if known else {}

    def record_run(rate: float, seed: int) -> None:
        """Record a run, unless it is there."""
        nonlocal table
        bar.update()
        if len(table) and (table[["arm", "lr", "seed"]] == [arm, rate, seed]).all(axis=1).any():
            return
        row = measure(setting, arm, Candidate(rate, schedule), seed, HEADS[setting.name])
        table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
        metadata[str(seed)] = environment("cpu", 1)
        write(path, lambda p: table.to_parquet(p, index=False))
        text = json.dumps(metadata, indent=1) + "\n"
        write(metadata_path, lambda p: p.write_text(text, encoding="utf-8"))

    for _ in range(protocol.MAX_EXTENSIONS + 1):
        if not (rates := protocol.propose_rates(tabulate_rates(table, arm), RATES)):
            break
        for rate in rates:
            for seed in TUNING_SEEDS:
                record_run(rate, seed)
    best = float(tabulate_rates(table, arm).idxmax())
    for seed in SEEDS:
        record_run(best, seed)


def load(folder: str | Path = "results") -> pd.DataFrame:
    """Load all recorded runs, with the column `setting`; raise `InputError` where nothing is recorded."""
    command = f"fedstas closed-form --fine-tuning --folder {folder}"
    return one_rounds.load_partitions(Path(folder) / FINE_TUNING, command)


def validate_head(setting: str) -> float:
    """Return the accuracy in % on the validation split of the head that training starts from in a setting of `HEADS`.

    The head is that of the remaining training examples.
    """
    rows = load()
    rows = rows[(rows["setting"] == setting) & rows["seed"].isin(TUNING_SEEDS)]
    return float(100 * rows["of_head"].mean())


def compute_outcomes(table: pd.DataFrame, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Compare what fine-tuning ends with, paired by seed, with the head and with the best design from the seed's model.

    Args:
        table: as `load` returns it.
        outcomes: as `comparison.outcomes` returns it, of all settings.

    Returns:
        A row per setting and arm that has all its seeds at the rate that is best on the validation split: `seeds`, mean accuracies in per cent of the `head` and of the averaged model (`tuned`),
        the `lr`, the `best` design of the comparison after equal rounds, all clients aside; the points over the head
        (`over_head`) and over that design (`over_best`), each with its interval (`_low`, `_high`); the points over the
        head on the validation split, where the rate was chosen (`over_head_validation`); and the mean megabytes of the
        rounds (`megabytes_of_rounds`), and of the head's sums and the rounds together (`megabytes`).
    """
    rows = []
    averaged = outcomes[
        (outcomes["model"] == "average") & (outcomes["arm"] != comparison.ALL_CLIENTS)
    ]
    for (setting, arm), part in table.groupby(["setting", "arm"], sort=False):
        accuracies = tabulate_rates(part, str(arm))
        if not len(accuracies):
            continue
        rate = float(accuracies.idxmax())
        part = part[part["lr"] == rate]
        runs = part[part["seed"].isin(SEEDS)].set_index("seed")
        if len(runs) < len(SEEDS):
            continue
        rounds = averaged[averaged["setting"] == setting].pivot(
            index="seed", columns="arm", values="rounds"
        )
        rounds = rounds.loc[runs.index].dropna(axis=1)
        best = str(rounds.mean().idxmax())
        tuned = 100 * runs["average"]
        row = {"setting": setting, "arm": arm, "seeds": len(runs), "best": best}
        row |= {"head": 100 * runs["of_head"].mean(), "tuned": tuned.mean(), "lr": rate}
        for key, other in (("head", 100 * runs["of_head"]), ("best", rounds[best])):
            paired = statistics.paired_difference(tuned, other)
            row |= {f"over_{key}": paired.mean, f"over_{key}_low": paired.low}
            row[f"over_{key}_high"] = paired.high
        chosen = part[part["seed"].isin(TUNING_SEEDS)]
        row["over_head_validation"] = 100 * (chosen["average"] - chosen["of_head"]).mean()
        row["megabytes_of_rounds"] = runs["megabytes"].mean()
        row["megabytes"] = (runs["megabytes"] + runs["megabytes_of_head"]).mean()
        rows.append(row)
    return pd.DataFrame(rows)
