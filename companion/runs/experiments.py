"""The papers' settings, and grids around them (FedSTaS Sec. 3 of the preprint, Sec. 7 of the journal).

A sweep is a function from a profile to runs: `paper` what `results/` holds, `laptop` a part of the
same runs that takes minutes, `quick` the same shape on digits, or on topics where it is of text.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from companion.runs import clustered_grid, fedsampling_grid, sweeps
from companion.runs.sweeps import Run
from companion.runs.sweeps import perform as perform
from fedstas import methods
from fedstas.errors import check_choice
from fedstas.sim import partition

AS_WRITTEN = ("fedsts", "fedstas", "fedstas-dp")
AS_CODED = ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec")
CORRECTED = ("fedstas-unbiased", "fedstas-unbiased-dp")
FIRST = ("fedavg", "md", *AS_WRITTEN, "fedstas-unbiased")
BASELINES = ("fedavg-unbiased", "clustered-size", "clustered-similarity", "fedprox", "strat")
TABLE = (*FIRST, *BASELINES, "strat-neyman", "centralised", "fedstas-unbiased-dp", *AS_CODED)
OPTIMAL = "fedstas-optimal-data"  # compared in the sweep `optimal-data`
SEVEN = ("fedavg", "md", "clustered-similarity", *AS_WRITTEN, "fedstas-unbiased")
# Compared by the error of one round (`one_rounds`), the recommended one by the sweep `least-variance`.
BY_ROUND = ("fedstas-least-variance", "optimal-client-sampling", "poisson", "k-vib", "cube")
BY_ROUND += ("local-pivotal", "power-of-choice", "divfl", "cyclic", "fedvarp", "mifa")
BY_ROUND += ("fedavg-eq3", "hcsfed")
SMALL = {"clients": 20, "clients_per_round": 5, "rounds": 3}  # the shape of `quick`


def _every(rounds: int, method: str) -> dict:
    """Return the setting that stratifies every `rounds` rounds, where the method stratifies again at all."""
    return (
        {"restratify_every": rounds} if methods.parameters(method).get("restratify_every") else {}
    )


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
    """Return the papers' other methods in the setting of `preprint`, disjoint partition, three seeds."""
    others = [m for m in methods.names() if m not in (*TABLE, *BY_ROUND, OPTIMAL)]
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


HUNDRED = ("md", "fedstas", "fedstas-unbiased", "fedstas-least-variance")
HUNDRED_RATES = (0.03, 0.1, 0.3)
# Of each method, as `cifar100-equal-rates` chose them, on a seed that `cifar100-equal` has not; a test holds
# the two together.
HUNDRED_TUNED = {m: {"lr": 0.1} for m in HUNDRED[:-1]} | {HUNDRED[-1]: {"lr": 0.3}}


def _hundred_equal(arms: list[tuple[str, dict]], seeds: range):
    """CIFAR-100 with equal sizes at a concentration that leaves every class to somebody: 100 rounds of
    `LEARNS`, strata of k-means made anew every 20."""

    def grid(profile: str) -> list[Run]:
        where, shape, every = ("cifar100", 0.1), {"rounds": 100, "eval_every": 10}, 20
        if profile == "quick":
            where, shape, every = ("digits", 0.1), SMALL, 2
        if profile == "laptop":
            shape = {"rounds": 10, "eval_every": 5}
        return [
            Run(
                where[0],
                "dirichlet_fixed_size",
                where[1],
                m,
                s,
                LEARNS | o | _every(every, m),
                **shape,
            )
            for s in (seeds if profile == "paper" else seeds[:1])
            for m, o in (arms if profile == "paper" else arms[:: len(arms) - 1])
        ]

    return grid


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


def _around(profile: str, arms: list[tuple[str, dict, dict]], seeds: int = 5) -> list[Run]:
    """MNIST 0.01, disjoint, strata kept for ten rounds, evaluated every nine; five seeds."""
    base = {"task": "mnist", "eval_every": 9, "concentration": 0.01}
    if profile == "quick":
        base = {"task": "digits", "concentration": 0.1} | SMALL
        arms = [arm for arm in arms if arm[2].get("clients_per_round", 0) <= 5][::4]
    return [
        Run(partition="dirichlet", method=m, seed=s, overrides=_every(10, m) | o, **base | run)
        for s in range(seeds if profile == "paper" else 1)
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
    """Return the corrected method, with one part of it exchanged at a time."""
    parts = list(PARTS.values())
    return _around(profile, [(m, o, {}) for m, o in (parts[:10] if profile == "laptop" else parts)])


def last_bit(profile: str) -> list[Run]:
    """Return the authors' code on twenty processors: seed 0 of `preprint`, equal sizes, and in each run other last
    bits of the first gradients; to be compared with twenty seeds."""
    shape, ways = {"task": "mnist", "concentration": 0.01}, {"paper": 20, "laptop": 4}
    if profile == "quick":
        shape = {"task": "digits", "concentration": 0.1} | SMALL
    return [
        Run(
            partition="dirichlet_fixed_size",
            method=AS_CODED[1],
            seed=0,
            overrides={"processor": k},
            **shape,
        )
        for k in range(1, 1 + ways.get(profile, 2))
    ]


def optimal_data(profile: str) -> list[Run]:
    """FedSTaS with n* shared by weight and gradient spread, both partitions, evaluated every nine rounds:
    to be compared with the same seeds of `preprint`."""
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, OPTIMAL, s, **SMALL) for s in range(2)]
    grid = product(range(5 if profile == "paper" else 1), ("dirichlet", "dirichlet_fixed_size"))
    return [Run("mnist", p, 0.01, OPTIMAL, s, eval_every=9) for s, p in grid]


BATCHES, BATCHED = (32, 512), ("md", "fedstas", "fedstas-least-variance")


def batch_size(profile: str) -> list[Run]:
    """Batches a quarter and four times as large; those of 128 are in `sensitivity` and `least-variance`."""
    return _around(profile, [(m, {"batch": b}, {}) for b in BATCHES for m in BATCHED])


# The servers' rates, and FedProx's mu as Li et al. try it.
_RATE = ("server_rate", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3))
SERVERS = {"fedprox": ("prox", (0.001, 0.01, 0.1, 1.0)), "fedadam": _RATE, "fedyogi": _RATE}
SERVERS["fedadagrad"] = _RATE
# What `server-rates` chose (`tables.choose_by_loss`; a test holds the two together).
SERVERS_TUNED = {"fedprox": {"prox": 0.001}, "fedadagrad": {"server_rate": 0.1}}
SERVERS_TUNED |= {key: {"server_rate": 0.03} for key in ("fedadam", "fedyogi")}


def server_rates(profile: str) -> list[Run]:
    """One seed of each, by which the rates are chosen."""
    own = {"paper": slice(None), "laptop": slice(1, 4), "quick": slice(0, None, 3)}[profile]
    runs = _around(
        profile, [(m, {k: v}, {}) for m, (k, values) in SERVERS.items() for v in values[own]]
    )
    return [run for run in runs if run.seed == 0]


def servers(profile: str) -> list[Run]:
    """FedProx and the three adaptive servers as tuned, ten seeds; FedAvg and MD are in `preprint`."""
    return _around(profile, [(m, o, {}) for m, o in SERVERS_TUNED.items()], seeds=10)


CUTS = ({}, {"restratify_every": 10}, {"features": "updates"})


def least_variance(profile: str) -> list[Run]:
    """Strata of least variance, of features once, every ten rounds, and from updates, in the settings of
    `preprint` and `fashion-mnist`, evaluated every nine rounds; and with five participants, beside the
    methods that they are compared with there."""
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
    **fedsampling_grid.SWEEPS,
    # As the authors draw it: partitioned disjointly, 17 to 24 of 100 clients would hold all data.
    "mnist-0.001": _seven("mnist", "dirichlet_fixed_size", 0.001),
    "mnist-iid": _seven("mnist", "iid", 0.01),
    "fashion-mnist": _seven("fashion-mnist", "dirichlet", 0.01),
    "cifar100": cifar100,
    "sensitivity": sensitivity,
    "privacy": privacy,
    "ablation": ablation,
    "optimal-data": optimal_data,
    "batch-size": batch_size,
    "server-rates": server_rates,
    "servers": servers,
    "cifar100-equal-rates": _hundred_equal(
        [(m, {"lr": lr}) for m in HUNDRED for lr in HUNDRED_RATES], range(1)
    ),
    "cifar100-equal": _hundred_equal(list(HUNDRED_TUNED.items()), range(1, 6)),
    **clustered_grid.SWEEPS,
}


def names() -> list[str]:
    """Return the names of all sweeps."""
    return list(SWEEPS)


def runs(name: str, profile: str) -> list[Run]:
    """Return the runs of a sweep, in the order in which they are made (seed by seed)."""
    check_choice("sweep", name, SWEEPS)
    check_choice("profile", profile, ("quick", "laptop", "paper"))
    return SWEEPS[name](profile)


def figure_1(folder: str | Path = "results") -> None:
    """Record the label counts of Fig. 1's clients: MNIST over 100 clients, seed 0, both readings of
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
    """Make the missing runs of a sweep, or of its part with these methods and seeds; returns what
    failed and why. `how` is that of `sweeps.make`: jobs, device, backend, address, ..."""
    todo = sweeps.choose(runs(name, profile), name, method=methods, seed=seeds)
    if name == "preprint" and profile == "paper" and not how.get("dry_run"):
        figure_1(folder)
    return sweeps.make(todo, name, folder=folder, **how)
