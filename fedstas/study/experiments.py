"""The papers' settings, and sweeps over them (FedSTaS Sec. 3 of the preprint, Sec. 7 of the journal)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed
from tqdm import tqdm

from fedstas import methods
from fedstas.errors import Diverged, InputError, integer, one_of
from fedstas.sim import partition, simulation, tasks
from fedstas.study import records

AS_WRITTEN = ("fedsts", "fedstas", "fedstas-dp")
AS_CODED = ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec")
CORRECTED = ("fedstas-unbiased", "fedstas-unbiased-dp")
FIRST = ("fedavg", "md", *AS_WRITTEN, "fedstas-unbiased")
BASELINES = ("fedavg-unbiased", "clustered-size", "clustered-similarity", "fedprox", "strat")
TABLE = (*FIRST, *BASELINES, "strat-neyman", "centralised", "fedstas-unbiased-dp", *AS_CODED)


@dataclass(frozen=True)
class Run:
    """One run of a sweep; `overrides` are settings of the method."""

    task: str
    partition: str
    concentration: float
    method: str
    seed: int
    overrides: dict = field(default_factory=dict, hash=False)
    clients: int = 100
    clients_per_round: int = 10
    rounds: int = 99
    eval_every: int = 1
    sigma: float = 1.0
    size: int | None = None


def preprint(profile: str) -> list[Run]:
    """MNIST 0.01 in both partitions: 100 clients, 10 a round, 99 rounds of 3 steps of 128, lr 0.01.

    Twenty seeds of every method of the table; `laptop` has two seeds of the first six, and `quick`
    the same shape on digits.
    """
    if profile == "quick":
        small = {"clients": 20, "clients_per_round": 5, "rounds": 3}
        return [Run("digits", "dirichlet", 0.1, m, s, **small) for s, m in product(range(2), FIRST)]
    seeds, table = (20, TABLE) if profile == "paper" else (2, FIRST)
    grid = product(range(seeds), ("dirichlet", "dirichlet_fixed_size"), table)
    return [Run("mnist", p, 0.01, m, s) for s, p, m in grid]


def every_method(profile: str) -> list[Run]:
    """All other methods in the setting of `preprint`, disjoint partition, three seeds."""
    others = [m for m in methods.names() if m not in TABLE]
    if profile == "quick":
        small = {"clients": 20, "clients_per_round": 5, "rounds": 3}
        return [Run("digits", "dirichlet", 0.1, m, 0, **small) for m in others]
    seeds = range(3 if profile == "paper" else 1)
    return [Run("mnist", "dirichlet", 0.01, m, s) for s, m in product(seeds, others)]


CLUSTERED = ("md", "clustered-size", "clustered-similarity", "target")


def one_digit(profile: str) -> list[Run]:
    """Fraboni et al., Fig. 1: one digit per client, 500 examples, 50 steps of 50, lr 0.01."""
    local, shape = {"steps": 50, "batch": 50}, {"size": 500, "rounds": 60, "eval_every": 2}
    task, seeds = "mnist", range(10 if profile == "paper" else 2)
    if profile == "quick":
        task, shape = "digits", {"size": 10, "rounds": 3}
    grid = product(seeds, CLUSTERED)
    return [Run(task, "by_class", 0.01, m, s, local, **shape) for s, m in grid]


SIGMAS = (0.0, 1.5, 3.0)


def imbalance(profile: str) -> list[Run]:
    """Growing size imbalance: FedAvg and MD against FedSampling, without and with privacy."""
    arms = [("fedavg", {}), ("md", {}), ("fedsampling", {"epsilon": None})]
    arms += [("fedsampling", {"epsilon": 3.0, "size_cap": 700})]
    task, seeds, sigmas = "mnist", range(2), SIGMAS
    shape = {"eval_every": 9}
    if profile == "quick":
        task, shape = "digits", {"clients": 20, "clients_per_round": 5, "rounds": 3}
        sigmas = SIGMAS[:2]
    grid = product(seeds, sigmas, arms)
    return [Run(task, "lognormal", 0.01, m, s, o, sigma=g, **shape) for s, g, (m, o) in grid]


SWEEPS = {
    "preprint": preprint,
    "methods": every_method,
    "one-digit": one_digit,
    "imbalance": imbalance,
}


def names() -> list[str]:
    """All sweep names."""
    return list(SWEEPS)


def runs(name: str, profile: str) -> list[Run]:
    """The runs of a sweep, in the order in which they are made (seed by seed)."""
    one_of("sweep", name, SWEEPS)
    one_of("profile", profile, ("quick", "laptop", "paper"))
    return SWEEPS[name](profile)


@lru_cache(maxsize=1)
def _task(name: str, device: str):
    return tasks.load(name, device=device)


def _prepare(run: Run, device: str):
    task = _task(run.task, device)
    settings = {"clients": run.clients, "seed": run.seed, "concentration": run.concentration}
    settings |= {"sigma": run.sigma, "size": run.size}
    federation = partition.make(run.partition, task.train_y, **settings)
    method = methods.get(run.method, **run.overrides)
    how = {
        "rounds": run.rounds,
        "clients_per_round": run.clients_per_round,
        "seed": run.seed,
        "eval_every": run.eval_every,
    }
    return task, federation, method, how


def perform(run: Run, sweep: str, folder: str | Path, device: str = "auto") -> str:
    """Make and record one run unless it is there; returns `done`, `there`, or what went wrong."""
    task, federation, method, how = _prepare(run, device)
    who = records.identity(task, federation, method, **how)
    if records.paths(who, sweep, folder)[1].exists():
        return "there"
    try:
        history = simulation.run(task, federation, method, device=device, **how)
        pure = run.partition == "by_class"  # there the cohorts say which classes were seen
        majority = federation.label_counts.argmax(1) if pure else None
        records.save(history, who, sweep, folder, device=task.device, majority=majority)
    except (Diverged, InputError) as error:
        return f"{run.method} on {run.partition}, seed {run.seed}: {error}"
    return "done"


def figure_1(folder: str | Path = "results") -> None:
    """Record who holds what in Fig. 1: MNIST over 100 clients, seed 0, both readings of
    Dirichlet(0.01) and the uniform split."""
    task = _task("mnist", "cpu")
    for name in ("dirichlet", "dirichlet_fixed_size", "iid"):
        federation = partition.make(name, task.train_y, clients=100, seed=0, concentration=0.01)
        records.save_partition(task, federation, folder)


def sweep(
    name: str,
    profile: str = "quick",
    *,
    jobs: int = 1,
    folder: str | Path = "results",
    device: str = "auto",
    progress: bool = True,
) -> list[str]:
    """Make what is missing of a sweep, `jobs` runs at a time; returns what failed and why."""
    todo, jobs = runs(name, profile), integer("jobs", jobs, 1)
    _task(todo[0].task, device)  # data that are missing are one error here, not one per run
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}") from error
    if name == "preprint" and profile == "paper":
        figure_1(folder)
    began = time.perf_counter()
    work = (delayed(perform)(r, name, folder, device) for r in todo)
    results = Parallel(n_jobs=jobs, return_as="generator_unordered")(work)
    bar = tqdm(results, total=len(todo), desc=f"sweep {name}", unit="run", disable=not progress)
    outcome = list(bar)
    failed = [o for o in outcome if o not in ("done", "there")]
    made = outcome.count("done")
    tqdm.write(
        f"sweep {name}: {made} made, {outcome.count('there')} there already, {len(failed)} failed, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return failed
