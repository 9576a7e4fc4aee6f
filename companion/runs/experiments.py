"""The papers' settings, and grids around them (FedSTaS Sec. 3 of the preprint, Sec. 7 of the journal).

A sweep is a function from a profile to runs: `paper` what `results/` holds, `laptop` a part of the
same runs that takes minutes, `quick` the same shape on digits, or on topics where it is of text.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from companion.runs import clustered_grid, sweeps
from companion.runs.sweeps import Run
from companion.runs.sweeps import perform as perform
from fedstas import methods
from fedstas.errors import one_of
from fedstas.sim import partition

AS_WRITTEN = ("fedsts", "fedstas", "fedstas-dp")
AS_CODED = ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec")
CORRECTED = ("fedstas-unbiased", "fedstas-unbiased-dp")
FIRST = ("fedavg", "md", *AS_WRITTEN, "fedstas-unbiased")
BASELINES = ("fedavg-unbiased", "clustered-size", "clustered-similarity", "fedprox", "strat")
TABLE = (*FIRST, *BASELINES, "strat-neyman", "centralised", "fedstas-unbiased-dp", *AS_CODED)
SEVEN = ("fedavg", "md", "clustered-similarity", *AS_WRITTEN, "fedstas-unbiased")
# Compared by the error of one round (`one_rounds`), the recommended one by the sweep `least-variance`.
BY_ROUND = ("fedstas-least-variance", "optimal-client-sampling", "poisson", "k-vib", "cube")
BY_ROUND += ("local-pivotal", "power-of-choice", "divfl", "cyclic", "fedvarp", "mifa")
SMALL = {"clients": 20, "clients_per_round": 5, "rounds": 3}  # the shape of `quick`


def _every(rounds: int, method: str) -> dict:
    """Strata kept for that many rounds, where the method has strata and can."""
    return {"restratify_every": rounds} if "restratify_every" in methods.parameters(method) else {}


def preprint(profile: str) -> list[Run]:
    """MNIST 0.01 in both partitions: 100 clients, 10 a round, 99 rounds of 3 steps of 128, lr 0.01.

    Twenty seeds of every method of the table; `laptop` has two seeds of the first six, and `quick`
    the same shape on digits.
    """
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, m, s, **SMALL) for s, m in product(range(2), FIRST)]
    seeds, table = (20, TABLE) if profile == "paper" else (2, FIRST)
    grid = product(range(seeds), ("dirichlet", "dirichlet_fixed_size"), table)
    return [Run("mnist", p, 0.01, m, s) for s, p, m in grid]


def every_method(profile: str) -> list[Run]:
    """The papers' other methods in the setting of `preprint`, disjoint partition, three seeds."""
    others = [m for m in methods.names() if m not in (*TABLE, *BY_ROUND)]
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, m, 0, **SMALL) for m in others]
    seeds = range(3 if profile == "paper" else 1)
    return [Run("mnist", "dirichlet", 0.01, m, s) for s, m in product(seeds, others)]


CLUSTERED = ("md", "clustered-size", "clustered-similarity", "target")


def one_digit(rounds: int):
    """Fraboni et al., Fig. 1: one digit per client, 500 examples, 50 steps of 50, lr 0.01; they draw 200 rounds."""

    def grid(profile: str) -> list[Run]:
        local, shape = {"steps": 50, "batch": 50}, {"size": 500, "rounds": rounds, "eval_every": 2}
        task, seeds = "mnist", range(10 if profile == "paper" else 2)
        if profile == "quick":
            task, shape = "digits", {"size": 10, "rounds": 3}
        pairs = product(seeds, CLUSTERED)
        return [Run(task, "by_class", 0.01, m, s, local, **shape) for s, m in pairs]

    return grid


SIGMAS = (0.0, 1.5, 3.0)


def imbalance(profile: str) -> list[Run]:
    """Growing size imbalance: FedAvg and MD against FedSampling, without and with privacy."""
    arms = [("fedavg", {}), ("md", {}), ("fedsampling", {"epsilon": None})]
    arms += [("fedsampling", {"epsilon": 3.0, "size_cap": 700})]
    task, seeds, sigmas = "mnist", range(2), SIGMAS
    shape = {"eval_every": 9}
    if profile == "quick":
        task, shape, sigmas = "digits", SMALL, SIGMAS[:2]
    grid = product(seeds, sigmas, arms)
    return [Run(task, "lognormal", 0.01, m, s, o, sigma=g, **shape) for s, g, (m, o) in grid]


def fedsampling_topics(profile: str) -> list[Run]:
    """The table of FedSampling's slides on `topics`, a client for each of its 100 users, both networks, five
    seeds: FedOpt with weights n_k over the cohort and with their Algorithm 1's plain mean, FedSampling with
    private sizes and with true ones."""
    arms = [
        ("centralised", {}),
        ("fedavg", {}),
        ("fedsampling", {}),
        ("fedsampling", {"epsilon": None}),
    ]
    adaptive = product(("fedadam", "fedyogi", "fedadagrad"), ("cohort", "plain"))
    arms += [(m, {"weights": w}) for m, w in adaptive]
    shape = SMALL if profile == "quick" else {"rounds": 100, "eval_every": 10}
    grid = product(range(5 if profile == "paper" else 1), ("text-cnn", "transformer"), arms)
    local = {"steps": 5, "lr": 0.5}
    return [
        Run("topics", "natural", 0.01, m, s, o | local, network=network, **shape)
        for s, network, (m, o) in grid
    ]


def _seven(task: str, kind: str, concentration: float):
    """Seven methods on another data set or partition, ten seeds, strata kept for ten rounds."""

    def grid(profile: str) -> list[Run]:
        pairs = product(range({"paper": 10, "laptop": 2, "quick": 1}[profile]), SEVEN)
        where, shape = (task, kind, concentration), {}
        if profile == "quick":
            where, shape = ("digits", kind, max(concentration, 0.1)), SMALL
        return [Run(*where, m, s, _every(10, m), **shape) for s, m in pairs]

    return grid


DEEP = ("md", "clustered-similarity", "fedsts", "fedstas", "fedstas-unbiased")
# More local work, and a larger step. On trial (`md`, seed 0, 60 rounds) the training loss rose to 4.9
# with three steps of rate 0.1 or 0.3, fell to 4.70 with ten of 0.1, and with twenty to 4.55, below that of
# a guess (4.61).
LEARNS = {"steps": 20, "batch": 32, "lr": 0.1}


def cifar100(profile: str) -> list[Run]:
    """CIFAR-100 0.001, 199 rounds: the local work that the paper states, and one that learns.

    Disjoint, since the drawn partition leaves a third of the classes to nobody. Two seeds; strata
    and evaluations every 20 rounds. `fedstas-dp` as stated alone: the paper prints a number for it.
    """
    seeds, table, shape = range(2), DEEP, {"rounds": 199, "eval_every": 20}
    where, every = ("cifar100", "dirichlet", 0.001), 20
    if profile == "laptop":
        seeds, table, shape = range(1), ("md", "fedstas-unbiased"), {"rounds": 20, "eval_every": 10}
    if profile == "quick":
        seeds, where, shape, every = range(1), ("digits", "dirichlet", 0.1), SMALL, 2
    grid = list(product(seeds, ({}, LEARNS), table))
    if profile == "paper":
        grid += [(s, {}, "fedstas-dp") for s in seeds]
    return [Run(*where, m, s, _every(every, m) | local, **shape) for s, local, m in grid]


THREE = ("md", "fedstas", "fedstas-unbiased")
# One setting at a time around the default; for each, its values and the methods that have it.
AROUND = {
    "strata": ((1, 2, 5), THREE[1:]),
    "levels": ((2, 4, 32, 256), THREE[1:]),
    "rate": ((0.01, 0.05, 0.1, 0.25, 0.5), ("fedstas-unbiased",)),
    "n_star": ((512, 1024, 4096, 8192), ("fedstas",)),
    "steps": ((1, 10, 30), THREE),
    "restratify_every": ((1, 3, 33, 99), THREE[1:]),
    "clients_per_round": ((5, 20, 40), THREE),
    "concentration": ((0.001, 0.1, 1.0, 10.0), THREE),
}


def _around(profile: str, arms: list[tuple[str, dict, dict]]) -> list[Run]:
    """MNIST 0.01, disjoint, strata kept for ten rounds, evaluated every nine; five seeds."""
    base, seeds = {"task": "mnist", "eval_every": 9, "concentration": 0.01}, {"paper": 5}
    if profile == "quick":
        base = {"task": "digits", "concentration": 0.1} | SMALL
        arms = [arm for arm in arms if arm[2].get("clients_per_round", 0) <= 5][::4]
    return [
        Run(partition="dirichlet", method=m, seed=s, overrides=_every(10, m) | o, **base | run)
        for s in range(seeds.get(profile, 1))
        for m, o, run in arms
    ]


def sensitivity(profile: str) -> list[Run]:
    """H, d', q (a rate, or n*), local steps, interval, m and concentration, one at a time."""
    arms = [(m, {}, {}) for m in THREE]
    for key, (values, table) in AROUND.items():
        if profile == "laptop":
            values = (values[0], values[-1])
        own = key not in ("clients_per_round", "concentration")
        arms += [
            (m, {key: v} if own else {}, {} if own else {key: v}) for v in values for m in table
        ]
    return _around(profile, arms)


EPSILONS, CAPS = (0.5, 1.0, 3.0, 10.0), (100, 700, 3000)


def privacy(profile: str) -> list[Run]:
    """epsilon and M for fresh reports (as written) and memoised ones, n* = 2048, with the same
    methods without privacy."""
    grid = product(EPSILONS, CAPS)
    if profile == "laptop":
        grid = product((0.5, 10.0), (100, 3000))
    arms = [("fedstas", {}, {}), ("fedstas-unbiased", {}, {}), ("fedstas-unbiased-dp", {}, {})]
    for epsilon, cap in grid:
        o = {"epsilon": epsilon, "size_cap": cap, "n_star": 2048}
        arms += [("fedstas-dp", o, {}), ("fedstas-unbiased-dp", o, {})]
    return _around(profile, arms)


# What the corrected method consists of, taken away or exchanged; by name, method and settings.
PARTS = {
    "the corrected method": ("fedstas-unbiased", {}),
    "p uniform": ("fedstas-unbiased", {"selection": "uniform"}),
    "p by size": ("fedstas-unbiased", {"selection": "size"}),
    "p by norm": ("fedstas-unbiased", {"selection": "norm"}),
    "one stratum": ("fedstas-unbiased", {"strata": 1}),
    "one stratum, p by size": ("md", {}),
    "one stratum, p by norm": ("fedstas-unbiased", {"strata": 1, "selection": "norm"}),
    "one stratum, p uniform": ("fedstas-unbiased", {"strata": 1, "selection": "uniform"}),
    "without replacement": ("fedstas-unbiased", {"replace": False}),
    "without replacement, p by size": ("fedstas-unbiased", {"replace": False, "selection": "size"}),
    "plain weights, p by norm, Neyman": ("fedsts", {"replace": True}),
    "plain weights, p uniform, Neyman": ("strat-neyman", {}),
    "plain weights, p uniform, proportional": ("strat", {}),
    "every client counts the same": ("fedstas-unbiased-dp", {}),
    "strata of each round": ("fedstas-unbiased", {"restratify_every": 1}),
    "strata frozen at w_0": ("fedstas-unbiased", {"restratify_every": 99}),
    "half the data": ("fedstas-unbiased", {"rate": 0.5}),
    "a tenth of the data": ("fedstas-unbiased", {"rate": 0.1}),
    "a tenth of the data, strata frozen": (
        "fedstas-unbiased",
        {"rate": 0.1, "restratify_every": 99},
    ),
}


def ablation(profile: str) -> list[Run]:
    """The corrected method, with one part of it exchanged at a time."""
    parts = list(PARTS.values())
    return _around(profile, [(m, o, {}) for m, o in (parts[:10] if profile == "laptop" else parts)])


def last_bit(profile: str) -> list[Run]:
    """The authors' code on twenty processors: seed 0 of `preprint`, equal sizes, and in each run
    another way for the last bits of the first gradients to fall; to be held against twenty seeds."""
    shape, ways = {"task": "mnist", "concentration": 0.01}, {"paper": 20, "laptop": 4}
    if profile == "quick":
        shape = {"task": "digits", "concentration": 0.1} | SMALL
    return [
        Run(
            partition="dirichlet_fixed_size", method=AS_CODED[1], seed=0,
            overrides={"processor": k}, **shape,
        )
        for k in range(1, 1 + ways.get(profile, 2))
    ]  # fmt: skip


CUTS = ({}, {"restratify_every": 10}, {"features": "updates"})


def least_variance(profile: str) -> list[Run]:
    """Strata of least variance, of features once, every ten rounds, and from updates, in the settings of
    `preprint` and `fashion-mnist`, evaluated every nine rounds; and with five participants, beside the
    methods that they are held against there."""
    arms = [("fedstas-least-variance", o) for o in CUTS]
    rivals = [(m, {}) for m in ("md", "clustered-similarity", "fedstas-unbiased")]
    if profile == "quick":
        where = ("digits", "dirichlet", 0.1)
        return [Run(*where, m, 0, o, **SMALL) for m, o in arms + rivals]
    places = (("mnist", "dirichlet", 20), ("mnist", "dirichlet_fixed_size", 20))
    places += (("fashion-mnist", "dirichlet", 10),)
    ten, five = {"eval_every": 9}, {"eval_every": 9, "clients_per_round": 5}
    return [
        Run(task, kind, 0.01, m, seed, o, **shape)
        for seed in range(20 if profile == "paper" else 1)
        for task, kind, seeds in places
        for table, shape in ((rivals + arms, five), (arms, ten))
        for m, o in table
        if seed < seeds
    ]


SWEEPS = {
    "preprint": preprint,
    "least-variance": least_variance,
    "last-bit": last_bit,
    "methods": every_method,
    "one-digit": one_digit(60),
    "clustered-fig-1": one_digit(200),
    "imbalance": imbalance,
    "fedsampling-topics": fedsampling_topics,
    # As the authors draw it: dealt disjointly, 17 to 24 of 100 clients would hold all data.
    "mnist-0.001": _seven("mnist", "dirichlet_fixed_size", 0.001),
    "mnist-iid": _seven("mnist", "iid", 0.01),
    "fashion-mnist": _seven("fashion-mnist", "dirichlet", 0.01),
    "cifar100": cifar100,
    "sensitivity": sensitivity,
    "privacy": privacy,
    "ablation": ablation,
    **clustered_grid.SWEEPS,
}


def names() -> list[str]:
    """All sweep names."""
    return list(SWEEPS)


def runs(name: str, profile: str) -> list[Run]:
    """The runs of a sweep, in the order in which they are made (seed by seed)."""
    one_of("sweep", name, SWEEPS)
    one_of("profile", profile, ("quick", "laptop", "paper"))
    return SWEEPS[name](profile)


def figure_1(folder: str | Path = "results") -> None:
    """Record who holds what in Fig. 1: MNIST over 100 clients, seed 0, both readings of
    Dirichlet(0.01) and the uniform split."""
    from companion.runs import records

    task = sweeps.load_task("mnist", "cpu")
    for name in ("dirichlet", "dirichlet_fixed_size", "iid"):
        federation = partition.make(name, task.train_y, clients=100, seed=0, concentration=0.01)
        records.save_partition(task, federation, folder)


def sweep(
    name: str,
    profile: str = "quick",
    *,
    methods: list[str] | None = None,
    seeds: list[int] | None = None,
    folder: str | Path = "results",
    **how,
) -> list[str]:
    """Make what is missing of a sweep, or of its part with these methods and seeds; returns what
    failed and why. `how` is that of `sweeps.make`: jobs, device, backend, address, ..."""
    todo = sweeps.choose(runs(name, profile), name, method=methods, seed=seeds)
    if name == "preprint" and profile == "paper" and not how.get("dry_run"):
        figure_1(folder)
    return sweeps.make(todo, name, folder=folder, **how)
