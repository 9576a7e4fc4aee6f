"""The tables of one-round errors by what clients are asked, which `fedstas one-round` records.

Strata of least variance are made of something that clients are asked once, at w_0: a squeezed gradient, a sketch of
it, label counts, the gradient of the output layer; or of updates, which they send anyway. All errors are exact,
relative to MD sampling's, at models of a run of `md` at the learning rate that chapter 10 tuned for it. A seed fixes
the partition, the initial model and the noise. Each file holds one setting:

- `results/one-round-features` (`--table features`): all features, after 30 rounds;
- `results/one-round-renewal` (`--table renewal`): features asked once and features that updates renew for free, after
  0, 10, 30 and 100 rounds with ten participants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd

from companion.runs import one_rounds
from companion.runs.least_variance_results import LEAST_VARIANCE_METHOD
from companion.runs.records import FEATURE_ERRORS, RENEWAL_ERRORS
from fedstas import methods
from fedstas.sim import one_round, partition, simulation, tasks
from fedstas.sim.server import NUMBER_BYTES

ROUNDS, PARTICIPANTS, SEEDS = 30, (5, 10, 20), range(5)


@dataclass(frozen=True)
class Setting:
    """A federation, and the learning rate that chapter 10 tuned for `md` there."""

    title: str
    task: str
    partition: str
    concentration: float
    lr: float
    clients: int = 100


SETTINGS = {
    "mnist": Setting("MNIST 0.01, disjoint", "mnist", "dirichlet", 0.01, 0.3),
    "mnist-equal": Setting("MNIST 0.01, equal sizes", "mnist", "dirichlet_fixed_size", 0.01, 0.3),
    "mnist-0.1": Setting("MNIST 0.1, disjoint", "mnist", "dirichlet", 0.1, 0.3),
    "mnist-1000": Setting("MNIST 0.1, 1,000 clients", "mnist", "dirichlet", 0.1, 0.3, 1000),
    "fashion-mnist": Setting("Fashion-MNIST 0.01", "fashion-mnist", "dirichlet", 0.01, 0.1),
    "cifar100-coarse": Setting("20 superclasses 0.1", "cifar100-coarse", "dirichlet", 0.1, 0.1),
}
# What strata are made of, by the label of the table: settings of least variance.
FEATURES = {
    "squeezed gradient": {"features": "gradients"},
    "64 signed sums": {},
    "16 signed sums": {"sketch_size": 16},
    "64 signed sums, epsilon 10": {"epsilon": 10.0, "delta": 1e-5, "clip": 1.0},
    "output layer's gradient": {"features": "output"},
    "label counts": {"features": "labels"},
    "label counts, epsilon 1": {"features": "labels", "epsilon": 1.0},
    "label counts, epsilon 0.1": {"features": "labels", "epsilon": 0.1},
    "last updates": {"features": "updates"},
    "64 signed sums, then updates": {"features": "sketch+updates"},
}
ORACLE = one_rounds.ORACLE
# Of the table of strata that are renewed.
RENEWAL_ROUNDS = (0, 10, 30, 100)
RENEWAL_SETTINGS = {name: SETTINGS[name] for name in ("mnist", "mnist-equal", "fashion-mnist")}
RENEWAL_FEATURES = (
    "squeezed gradient",
    "64 signed sums",
    "last updates",
    "64 signed sums, then updates",
)


def _bytes_per_client(state: one_round.State, design) -> dict[str, float]:
    """Return the bytes that a client sends, and that it receives, for the design's question at w_0."""
    first = replace(state, round=1, params=state.start)
    server = one_round.view_at(first, design)
    design.strata(server, state.setup.m)  # asks the clients, which adds to the server's costs
    up, down = (server.cost[key] / server.clients for key in ("bytes_up", "bytes_down"))
    # A client's size is no feature: every design that weights clients by size asks for it.
    size_bytes = 0 if design.equal_clients else NUMBER_BYTES
    return {"bytes_up": up - size_bytes, "bytes_down": down}


def _state_after(data: tasks.Task, setting: Setting, seed: int, rounds: int) -> one_round.State:
    """Return the state of one partition of a task after rounds of `md` with ten participants."""
    where = {"clients": setting.clients, "concentration": setting.concentration, "seed": seed}
    federation = partition.make(setting.partition, data.train_y, **where)
    local = methods.get("md", lr=setting.lr).local
    return one_round.state_after(data, federation, rounds=rounds, local=local, seed=seed)


@simulation.limited_threads(1)
def _measure_state(state: one_round.State, features: Iterable[str], bar) -> list[dict]:
    """Measure the error of each kind of features at one state, and last the oracle's."""
    rows = []
    for label in features:
        design = methods.get(LEAST_VARIANCE_METHOD, **FEATURES[label]).clients
        labels, q, _ = design.strata(one_round.view_at(state, design), state.setup.m)
        error, noise = one_round.stratified_error(state, labels, q)
        row = {"features": label, "error": error, "noise": noise}
        rows.append(row | _bytes_per_client(state, design))
        bar.update()
    oracle = one_rounds.oracle_row(state)
    return [*rows, {"features": ORACLE, "error": oracle["error"], "noise": oracle["noise"]}]


def _measure_partition(data: tasks.Task, setting: Setting, seed: int, bar) -> pd.DataFrame:
    """Measure the errors of all features in one partition of a task, for each number of participants."""
    after = _state_after(data, setting, seed, ROUNDS)
    return pd.DataFrame(
        {"seed": seed, "m": m} | row
        for m in PARTICIPANTS
        for row in _measure_state(after.with_m(m), FEATURES, bar)
    )


def _measure_renewal(data: tasks.Task, setting: Setting, seed: int, bar) -> pd.DataFrame:
    """Measure the errors of features that updates renew, and of those that they do not, after more and more rounds.

    The column `answered` is the number of clients that have sent an update so far.
    """
    rows: list[dict] = []
    answers: dict = {}  # all states are of one run: they share what clients answer at w_0
    for rounds in RENEWAL_ROUNDS:
        state = replace(_state_after(data, setting, seed, rounds), answers=answers)
        updates = state.memory.last_updates
        answered = 0 if updates is None else int(updates.any(axis=1).sum())
        keys = {"seed": seed, "round": rounds, "m": state.setup.m, "answered": answered}
        rows += [keys | row for row in _measure_state(state, RENEWAL_FEATURES, bar)]
    return pd.DataFrame(rows)


def record(
    settings: list[str] | None = None, *, seeds=SEEDS, folder: str | Path = "results"
) -> list[Path]:
    """Record what is missing of the table, setting by setting and seed by seed; return the files."""
    load_task = cache(tasks.load)  # once for all partitions of it
    return one_rounds.record_partitions(
        Path(folder) / FEATURE_ERRORS,
        lambda name, seed, bar: _measure_partition(
            load_task(SETTINGS[name].task), SETTINGS[name], seed, bar
        ),
        len(PARTICIPANTS) * len(FEATURES),
        SETTINGS,
        settings=settings,
        seeds=seeds,
    )


def record_renewal(
    settings: list[str] | None = None, *, seeds=SEEDS, folder: str | Path = "results"
) -> list[Path]:
    """Record what is missing of the table of strata that are renewed, as `record` does; return the files."""
    load_task = cache(tasks.load)
    return one_rounds.record_partitions(
        Path(folder) / RENEWAL_ERRORS,
        lambda name, seed, bar: _measure_renewal(
            load_task(RENEWAL_SETTINGS[name].task), RENEWAL_SETTINGS[name], seed, bar
        ),
        len(RENEWAL_ROUNDS) * len(RENEWAL_FEATURES),
        RENEWAL_SETTINGS,
        settings=settings,
        seeds=seeds,
    )


def load(folder: str | Path = "results") -> pd.DataFrame:
    """Load all recorded rows, with the column `setting`; raise `InputError` where nothing is recorded."""
    command = f"fedstas one-round --table features --folder {folder}"
    return one_rounds.load_partitions(Path(folder) / FEATURE_ERRORS, command)


def load_renewal(folder: str | Path = "results") -> pd.DataFrame:
    """Load all recorded rows of the table of strata that are renewed, as `load` does."""
    command = f"fedstas one-round --table renewal --folder {folder}"
    return one_rounds.load_partitions(Path(folder) / RENEWAL_ERRORS, command)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the errors: one row per setting, m and features, the `mean` over partitions, its standard error `se`,
    and the bytes of a client's answer, `bytes_up`."""
    groups = table.groupby(["setting", "m", "features"], sort=False)
    return groups.agg(
        mean=("error", "mean"), se=("error", "sem"), bytes_up=("bytes_up", "mean")
    ).reset_index()


def summarise_renewal(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the errors of strata that are renewed: one row per setting, features and round, the `mean` over
    partitions, its standard error `se`, and the mean number of clients that have `answered`."""
    groups = table.groupby(["setting", "features", "round"], sort=False)
    return groups.agg(
        mean=("error", "mean"), se=("error", "sem"), answered=("answered", "mean")
    ).reset_index()
