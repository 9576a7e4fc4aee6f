"""Closed-form heads in the settings of the second comparison that train a linear layer: `fedstas closed-form` records them.

Clients come in a random order, as many at once as a round of the setting has participants, and each sends its
statistics once. After each group of clients the server has a head of class means and one of ridge regression, which are
tested. The penalty of ridge regression is the best on the validation split. Each file of `results/closed-form` holds one
setting; a seed fixes the partition, as in the comparison, and the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from companion.runs import comparison, one_rounds
from companion.runs.comparison import Setting
from companion.runs.records import CLOSED_FORM
from fedstas import closed_form
from fedstas.sim import partition, tasks
from fedstas.streams import stream

SETTINGS = (
    "cifar10-features",
    "cifar10-features-0.01",
    "cifar10-features-1000",
    "cifar100-coarse-features",
    "newsgroups",
)
SEEDS = range(5)  # the first of those of the comparison
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
MEANS, RIDGE = "class means", "ridge"


@cache
def _load(task: str) -> tuple[tasks.Task, np.ndarray, np.ndarray]:
    """Load a task, and its features of training and test as float64."""
    data = tasks.load(task, device="cpu")
    return data, data.train_x.double().numpy(), data.test_x.double().numpy()


def _measure_accuracy(head: np.ndarray, features: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of examples whose class a head predicts."""
    return float((closed_form.predict(head, features) == labels).mean())


@cache
def choose_penalty(task: str) -> tuple[float, dict[float, float]]:
    """Choose the penalty with the highest accuracy on the validation split, the largest of equal ones.

    Returns:
        The penalty, and the accuracy of each that was tried.
    """
    data = tasks.load(task + tasks.VALIDATION, device="cpu")
    features, labels = data.train_x.double().numpy(), data.train_y.numpy()
    statistics = closed_form.compute_statistics(features, labels, data.classes)
    tested, truth = data.test_x.double().numpy(), data.test_y.numpy()
    accuracies = {
        penalty: _measure_accuracy(closed_form.ridge_head(statistics, penalty), tested, truth)
        for penalty in PENALTIES
    }
    return max(accuracies, key=lambda penalty: (accuracies[penalty], penalty)), accuracies


def make_federation(setting: Setting, data: tasks.Task, seed: int) -> partition.Federation:
    """Deal the training examples of a task to clients, as the comparison does."""
    return partition.make(
        setting.partition,
        data.train_y,
        users=data.users,
        clients=setting.clients,
        seed=seed,
        concentration=setting.concentration,
    )


def count_bytes(
    kind: str, federation: partition.Federation, clients: Iterable[int], features: int
) -> int:
    """Count the bytes of the sums that clients send for a head, "class means" or "ridge"."""
    count = {
        MEANS: closed_form.count_bytes_of_means,
        RIDGE: closed_form.count_bytes_of_ridge,
    }[kind]
    classes = (federation.label_counts > 0).sum(axis=1)
    return sum(count(len(federation.shards[k]), features, int(classes[k])) for k in clients)


def measure(setting: Setting, seed: int, bar: tqdm | None = None) -> pd.DataFrame:
    """Measure both heads while the clients of one partition send their statistics.

    Returns:
        A row for each head and each group of clients: `seed`, `head`, `penalty` (NaN for class means), `clients` that have
        sent their statistics, the `megabytes` that they sent, and the test `accuracy`, a fraction.
    """
    data, train_x, test_x = _load(setting.task)
    labels, truth = data.train_y.numpy(), data.test_y.numpy()
    federation = make_federation(setting, data, seed)
    penalty, _ = choose_penalty(setting.task)
    order = stream(seed, "closed form").permutation(federation.with_data)
    sent = {MEANS: 0, RIDGE: 0}
    total: closed_form.Statistics | None = None
    rows = []
    for start in range(0, len(order), setting.clients_per_round):
        group = order[start : start + setting.clients_per_round]
        examples = np.concatenate([federation.shards[k] for k in group])
        statistics = closed_form.compute_statistics(
            train_x[examples], labels[examples], data.classes
        )
        total = statistics if total is None else total + statistics
        for name in sent:
            sent[name] += count_bytes(name, federation, group, train_x.shape[1])
        heads = {
            MEANS: (closed_form.class_means_head(total), np.nan),
            RIDGE: (closed_form.ridge_head(total, penalty), penalty),
        }
        for name, (head, used) in heads.items():
            row = {"seed": seed, "head": name, "penalty": used, "clients": start + len(group)}
            accuracy = _measure_accuracy(head, test_x, truth)
            rows.append(row | {"megabytes": sent[name] / 1e6, "accuracy": accuracy})
    if bar is not None:
        bar.update()
    return pd.DataFrame(rows)


def record(
    settings: Sequence[str] | None = None,
    *,
    seeds: Iterable[int] = SEEDS,
    folder: str | Path = "results",
) -> list[Path]:
    """Record what is missing of the table, setting by setting and seed by seed; return the files."""
    known = comparison.read()
    return one_rounds.record_partitions(
        Path(folder) / CLOSED_FORM,
        lambda name, seed, bar: measure(known[name], seed, bar),
        1,
        SETTINGS,
        settings=None if settings is None else list(settings),
        seeds=seeds,
    )


def load(folder: str | Path = "results") -> pd.DataFrame:
    """Load all recorded rows, with the column `setting`; raise `InputError` where nothing is recorded."""
    command = f"fedstas closed-form --folder {folder}"
    return one_rounds.load_partitions(Path(folder) / CLOSED_FORM, command)


def compute_outcomes(table: pd.DataFrame, outcomes: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compare the heads with the averaged models of the comparison, paired by seed.

    Args:
        table: as `load` returns it.
        outcomes: as `comparison.outcomes` returns it, of all settings.
        reference: the arm whose accuracy at the end of its budget is the goal.

    Returns:
        A row per setting, head and seed: `large`, the accuracy in per cent when all clients have sent their statistics, the
        `megabytes` that they sent, those of the reference's run (`budget`), `within`, the accuracy in per cent of the head
        at the last group of clients within that budget (NaN if there is none), and the `goal`: the accuracy in per cent of
        the reference.
    """
    own = outcomes[(outcomes["arm"] == reference) & (outcomes["model"] == "average")]
    own = own.set_index(["setting", "seed"])
    rows = []
    for (setting, head, seed), part in table.groupby(["setting", "head", "seed"], sort=False):
        if (setting, seed) not in own.index:
            continue
        run = own.loc[(setting, seed)]
        within = part[part["megabytes"] <= run["megabytes"]]
        last = part.iloc[-1]
        rows.append(
            {
                "setting": setting,
                "head": head,
                "seed": seed,
                "large": 100 * last["accuracy"],
                "megabytes": last["megabytes"],
                "budget": run["megabytes"],
                "within": 100 * within["accuracy"].iloc[-1] if len(within) else np.nan,
                "goal": run["large"],
            }
        )
    return pd.DataFrame(rows)
