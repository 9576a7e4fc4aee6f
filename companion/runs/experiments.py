"""The papers' settings, and grids around them (FedSTaS Sec. 3 of the preprint, Sec. 7 of the journal).

A sweep is a function from a profile to its runs: `paper` gives those that `results/` holds, `laptop` a part of them
that takes minutes, `quick` a few runs of the same kind on digits (on topics where the data are texts).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

from companion.runs import averaging, clustered_grid, fedsampling_grid, sweeps
from companion.runs.sweeps import Run
from companion.runs.sweeps import perform as perform
from fedstas import config, methods
from fedstas.errors import check_choice
from fedstas.sim import partition
from fedstas.update_messages import MaskedUpdates, NoisyUpdates, QuantisedUpdates

# The methods that are compared with each other, by name.
AS_WRITTEN = ("fedsts", "fedstas", "fedstas-dp")
AS_CODED = ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec")
CODE_OF_2025 = ("fedsts-authors-2025", "fedstas-authors-2025", "fedstas-dp-authors-2025")
CORRECTED = ("fedstas-unbiased", "fedstas-unbiased-dp")
MAIN_METHODS = ("fedavg", "md", *AS_WRITTEN, "fedstas-unbiased")
BASELINES = ("fedavg-unbiased", "clustered-size", "clustered-similarity", "fedprox", "strat")
TABLE_METHODS = (
    *MAIN_METHODS,
    *BASELINES,
    "strat-neyman",
    "centralised",
    "fedstas-unbiased-dp",
    *AS_CODED,
)
OPTIMAL_DATA_METHOD = "fedstas-optimal-data"
OTHER_DATA_METHODS = ("fedavg", "md", "clustered-similarity", *AS_WRITTEN, "fedstas-unbiased")
# Compared by the error of one round (`one_rounds`); the first, which we recommend, in the sweep `least-variance` too.
ONE_ROUND_METHODS = (
    "fedstas-least-variance",
    "optimal-client-sampling",
    "poisson",
    "k-vib",
    "cube",
    "local-pivotal",
    "power-of-choice",
    "divfl",
    "cyclic",
    "fedvarp",
    "mifa",
    "fedavg-eq3",
    "hcsfed",
    "stratified-labels",
    "hics-fl",
    "fed-cbs",
)
GRADIENTS = {"features": "gradients"}  # with which strata of least variance were recorded
SMALL = {"clients": 20, "clients_per_round": 5, "rounds": 3}  # the federation of `quick`


def _restratify_every(rounds: int, method: str) -> dict:
    """Return the setting that stratifies every `rounds` rounds; nothing for a method without that setting."""
    has_setting = methods.parameters(method).get("restratify_every")
    return {"restratify_every": rounds} if has_setting else {}


def _recorded_features(method: str) -> dict:
    """Return the setting with which strata of least variance were recorded, where the method has it."""
    return GRADIENTS if method == "fedstas-least-variance" else {}


def preprint(profile: str) -> list[Run]:
    """Return the preprint's runs: MNIST at concentration 0.01 in both partitions.

    100 clients, 10 per round, 99 rounds of three local steps with batches of 128 and rate 0.01; twenty seeds of
    `TABLE_METHODS`. `laptop` has two seeds of `MAIN_METHODS`.
    """
    if profile == "quick":
        return [
            Run("digits", "dirichlet", 0.1, m, s, **SMALL)
            for s, m in product(range(2), MAIN_METHODS)
        ]
    seeds, compared = (20, TABLE_METHODS) if profile == "paper" else (2, MAIN_METHODS)
    grid = product(range(seeds), ("dirichlet", "dirichlet_fixed_size"), compared)
    return [Run("mnist", p, 0.01, m, s) for s, p, m in grid]


def every_method(profile: str) -> list[Run]:
    """Return runs of every method that neither the table of methods nor that of one-round errors has.

    The setting is that of `preprint`, disjoint partition, with three seeds.
    """
    others = [
        m
        for m in methods.names()
        if m not in (*TABLE_METHODS, *ONE_ROUND_METHODS, *CODE_OF_2025, OPTIMAL_DATA_METHOD)
    ]
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, m, 0, **SMALL) for m in others]
    seeds = range(3 if profile == "paper" else 1)
    return [Run("mnist", "dirichlet", 0.01, m, s) for s, m in product(seeds, others)]


ONE_DIGIT_METHODS = ("md", "clustered-size", "clustered-similarity", "target")


def one_digit(rounds: int) -> Callable[[str], list[Run]]:
    """Return the sweep of Fraboni et al., Fig. 1 (https://proceedings.mlr.press/v139/fraboni21a.html).

    Each client has 500 examples of one digit; 50 local steps with batches of 50 and rate 0.01. The figure has 200 rounds.
    """

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        local, shape = {"steps": 50, "batch": 50}, {"size": 500, "rounds": rounds, "eval_every": 2}
        task, seeds = "mnist", range(10 if profile == "paper" else 2)
        if profile == "quick":
            task, shape = "digits", {"size": 10, "rounds": 3}
        pairs = product(seeds, ONE_DIGIT_METHODS)
        return [Run(task, "by_class", 0.01, m, s, local, **shape) for s, m in pairs]

    return sweep_runs


# What participants send, by the label of figures and tables; None: their updates as they are.
MESSAGES = {
    "as it is": None,
    "2 bits a number": QuantisedUpdates(levels=1),
    "weak noise": NoisyUpdates(clip=0.5, noise=0.005),
    "strong noise": NoisyUpdates(clip=0.5, noise=0.3),
    "masked": MaskedUpdates(),
}
MESSAGE_ARMS = {  # the schemes of clustered sampling that are run with each
    "as it is": ("md", "clustered-size", "clustered-similarity"),
    "2 bits a number": ("md", "clustered-similarity"),
    "weak noise": ("md", "clustered-similarity"),
    "strong noise": ("md",),
    "masked": ("clustered-size",),
}


def message_label(identity: dict) -> str:
    """Return the label in `MESSAGES` of what the participants of a recorded run sent, or the message's settings."""
    sent = identity.get("message")
    labels = (key for key, each in MESSAGES.items() if sent == (each and config.to_dict(each)))
    return next(labels, str(sent))


def clustered_messages(profile: str) -> list[Run]:
    """Return runs of clustered sampling with compressed, noisy and masked updates (Fraboni et al., Section 7).

    One digit per client as in `one_digit`, with 10 local steps in place of 50, at five times the rate, and 40 rounds,
    because machine time was short; five seeds. Algorithm 2 has no masked runs, because it is refused.
    """
    local, shape = {"steps": 10, "batch": 50, "lr": 0.05}, {"size": 500, "rounds": 40}
    task, evaluated = "mnist", {"eval_every": 40, "eval_rounds": (32, 34, 36, 38)}
    if profile == "quick":
        task, shape, evaluated = "digits", {"size": 10, "rounds": 3}, {}
    return [
        Run(task, "by_class", 0.01, m, s, local, **shape, **evaluated, message=MESSAGES[label])
        for s in range(5 if profile == "paper" else 1)
        for label, schemes in MESSAGE_ARMS.items()
        for m in schemes
    ]


def _on_other_data(task: str, kind: str, concentration: float) -> Callable[[str], list[Run]]:
    """Return the sweep of seven methods on another data set or partition: ten seeds, strata kept for ten rounds."""

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        pairs = product(range({"paper": 10, "laptop": 2, "quick": 1}[profile]), OTHER_DATA_METHODS)
        data, shape = (task, kind, concentration), {}
        if profile == "quick":
            data, shape = ("digits", kind, max(concentration, 0.1)), SMALL
        return [Run(*data, m, s, _restratify_every(10, m), **shape) for s, m in pairs]

    return sweep_runs


CIFAR100_METHODS = ("md", "clustered-similarity", "fedsts", "fedstas", "fedstas-unbiased")
# More local steps with a larger rate than the paper states, with which the model learns. In trials of 60 rounds (`md`,
# seed 0) the training loss rose to 4.9 with three steps of rate 0.1 or 0.3, fell to 4.70 with ten steps of rate 0.1, and
# with twenty to 4.55, which is below that of a random guess among 100 classes (4.61).
MORE_LOCAL_WORK = {"steps": 20, "batch": 32, "lr": 0.1}


def cifar100(profile: str) -> list[Run]:
    """Return runs on CIFAR-100 at concentration 0.001: the paper's local work, and `MORE_LOCAL_WORK`.

    199 rounds, two seeds; strata and evaluations every 20 rounds. The partition is disjoint, since in that of equal
    sizes no client has a third of the classes. The three methods for which a number is printed have five seeds with the
    paper's local work; `fedstas-dp` has no other.
    """
    seeds, compared, shape = range(2), CIFAR100_METHODS, {"rounds": 199, "eval_every": 20}
    data, interval = ("cifar100", "dirichlet", 0.001), 20
    if profile == "laptop":
        seeds, compared = range(1), ("md", "fedstas-unbiased")
        shape = {"rounds": 20, "eval_every": 10}
    if profile == "quick":
        seeds, data, shape, interval = range(1), ("digits", "dirichlet", 0.1), SMALL, 2
    grid = list(product(seeds, ({}, MORE_LOCAL_WORK), compared))
    if profile == "paper":
        grid += [(s, {}, "fedstas-dp") for s in seeds]
        grid += [(s, {}, m) for s in range(2, 5) for m in ("fedsts", "fedstas", "fedstas-dp")]
    return [
        Run(*data, m, s, _restratify_every(interval, m) | local, **shape) for s, local, m in grid
    ]


def cifar100_equal_bars(profile: str) -> list[Run]:
    """Return runs on CIFAR-100 at concentration 0.001 with equal sizes, for the three bars of the preprint's Fig. 3.

    The local work, rounds and strata are those of `cifar100`, whose partition is disjoint. The partition is that of the
    authors' code, which has it for MNIST only: at this concentration some classes are held by no client.
    """
    seeds, compared, shape = range(5), ("fedsts", "fedstas", "fedstas-dp"), {"rounds": 199}
    data, interval = ("cifar100", "dirichlet_fixed_size", 0.001), 20
    if profile == "laptop":
        seeds, compared, shape = range(1), ("fedsts", "fedstas"), {"rounds": 20, "eval_every": 10}
    if profile == "quick":
        seeds, data, shape, interval = range(1), ("digits", data[1], 0.1), SMALL, 2
    shape = {"eval_every": 20} | shape
    return [
        Run(*data, m, s, _restratify_every(interval, m), **shape)
        for s, m in product(seeds, compared)
    ]


# On CIFAR-100 with clients of equal sizes.
EQUAL_SIZES_METHODS = ("md", "fedstas", "fedstas-unbiased", "fedstas-least-variance")
EQUAL_SIZES_RATES = (0.03, 0.1, 0.3)
# The rate of each method that is best in `cifar100-equal-rates`, which has a seed that `cifar100-equal` has not; a test
# compares this table with those runs.
EQUAL_SIZES_TUNED = {m: {"lr": 0.1} for m in EQUAL_SIZES_METHODS[:-1]} | {
    EQUAL_SIZES_METHODS[-1]: {"lr": 0.3}
}


def _cifar100_equal(arms: list[tuple[str, dict]], seeds: range) -> Callable[[str], list[Run]]:
    """Return the sweep on CIFAR-100 with equal sizes, at concentration 0.1, where every class is held by some client.

    100 rounds of `MORE_LOCAL_WORK`; k-means strata are computed again every 20 rounds.

    Args:
        arms: pairs of a method and its settings.
        seeds: those of profile `paper`; the others have the first one, and of `arms` the first and the last.
    """

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        task, shape, interval = "cifar100", {"rounds": 100, "eval_every": 10}, 20
        if profile == "quick":
            task, shape, interval = "digits", SMALL, 2
        if profile == "laptop":
            shape = {"rounds": 10, "eval_every": 5}
        return [
            Run(
                task,
                "dirichlet_fixed_size",
                0.1,
                m,
                s,
                MORE_LOCAL_WORK | o | _restratify_every(interval, m) | _recorded_features(m),
                **shape,
            )
            for s in (seeds if profile == "paper" else seeds[:1])
            for m, o in (arms if profile == "paper" else arms[:: len(arms) - 1])
        ]

    return sweep_runs


STRATIFIED_METHODS = ("fedstas", "fedstas-unbiased")
SENSITIVITY_METHODS = ("md", *STRATIFIED_METHODS)
# By setting, its values other than the default, tried one at a time, and the methods that have the setting.
SENSITIVITY_VALUES = {
    "strata": ((1, 2, 5), STRATIFIED_METHODS),
    "levels": ((2, 4, 32, 256), STRATIFIED_METHODS),
    "rate": ((0.01, 0.05, 0.1, 0.25, 0.5), ("fedstas-unbiased",)),
    "n_star": ((512, 1024, 4096, 8192), ("fedstas",)),
    "steps": ((1, 10, 30), SENSITIVITY_METHODS),
    "restratify_every": ((1, 3, 33, 99), STRATIFIED_METHODS),
    "clients_per_round": ((5, 20, 40), SENSITIVITY_METHODS),
    "concentration": ((0.001, 0.1, 1.0, 10.0), SENSITIVITY_METHODS),
}


def _around_default(profile: str, arms: list[tuple[str, dict, dict]], seeds: int = 5) -> list[Run]:
    """Return runs on MNIST, disjoint at concentration 0.01, with strata kept for ten rounds, evaluated every nine.

    Args:
        profile: of the sweep.
        arms: method, its settings, and fields of `Run` that are not the default.
        seeds: their number in profile `paper`.
    """
    base = {"task": "mnist", "eval_every": 9, "concentration": 0.01}
    if profile == "quick":
        base = {"task": "digits", "concentration": 0.1} | SMALL
        # Every fourth arm, of those whose participants the small federation of `quick` has.
        few = SMALL["clients_per_round"]
        arms = [arm for arm in arms if arm[-1].get("clients_per_round", 0) <= few][::4]
    return [
        Run(
            partition="dirichlet",
            method=m,
            seed=s,
            overrides=_restratify_every(10, m) | o,
            **base | run,
        )
        for s in range(seeds if profile == "paper" else 1)
        for m, o, run in arms
    ]


def sensitivity(profile: str) -> list[Run]:
    """Return runs that change one setting at a time, as in `SENSITIVITY_VALUES`."""
    # A method, and what is changed: its settings, and fields of the run.
    arms: list[tuple[str, dict, dict]] = [(m, {}, {}) for m in SENSITIVITY_METHODS]
    for key, (values, compared) in SENSITIVITY_VALUES.items():
        if profile == "laptop":
            values = (values[0], values[-1])
        is_field_of_run = key in ("clients_per_round", "concentration")
        for change, method in product(({key: v} for v in values), compared):
            arms.append((method, {}, change) if is_field_of_run else (method, change, {}))
    return _around_default(profile, arms)


MORE_STRATA = (20, 40)  # each with as many participants, since every stratum needs a draw


def more_strata(profile: str) -> list[Run]:
    """Return runs with more than ten strata, one for each participant; `sensitivity` has ten strata at the same participants."""
    if profile == "quick":
        shape = SMALL | {"clients_per_round": 12}
        return [
            Run("digits", "dirichlet", 0.1, m, 0, {"strata": 12}, **shape)
            for m in STRATIFIED_METHODS
        ]
    pairs = product(MORE_STRATA, STRATIFIED_METHODS)
    return _around_default(
        profile, [(m, {"strata": h}, {"clients_per_round": h}) for h, m in pairs]
    )


EPSILONS, CAPS = (0.5, 1.0, 3.0, 10.0), (100, 700, 3000)


def privacy(profile: str) -> list[Run]:
    """Return runs by epsilon and the cap M of sizes, at n* = 2048, and of the same methods without privacy.

    `fedstas-dp` reports a size afresh in each round, as written; `fedstas-unbiased-dp` repeats one report.
    """
    grid = product(EPSILONS, CAPS)
    if profile == "laptop":
        grid = product((0.5, 10.0), (100, 3000))
    arms = [("fedstas", {}, {}), ("fedstas-unbiased", {}, {}), ("fedstas-unbiased-dp", {}, {})]
    for epsilon, cap in grid:
        o = {"epsilon": epsilon, "size_cap": cap, "n_star": 2048}
        arms += [("fedstas-dp", o, {}), ("fedstas-unbiased-dp", o, {})]
    return _around_default(profile, arms)


# The corrected method with a part left out or replaced: by name, the method and its settings.
ABLATIONS = {
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
    """Return runs of the corrected method with one part replaced at a time; `laptop` has the first ten replacements."""
    arms = [(m, o, {}) for m, o in ABLATIONS.values()]
    return _around_default(profile, arms[:10] if profile == "laptop" else arms)


def last_bit(profile: str) -> list[Run]:
    """Return runs of the authors' code on twenty simulated processors, to be compared with twenty seeds.

    All have seed 0 of `preprint` with equal sizes; they differ in the last bits of the first gradients.
    """
    shape, processors = {"task": "mnist", "concentration": 0.01}, {"paper": 20, "laptop": 4}
    if profile == "quick":
        shape = {"task": "digits", "concentration": 0.1} | SMALL
    return [
        Run(
            partition="dirichlet_fixed_size",
            method="fedstas-authors-dec",
            seed=0,
            overrides={"processor": k},
            **shape,
        )
        for k in range(1, 1 + processors.get(profile, 2))
    ]


def optimal_data(profile: str) -> list[Run]:
    """Return runs of FedSTaS that allocates n* by weight and gradient spread, to be compared with the same seeds of `preprint`.

    Both partitions, evaluated every nine rounds.
    """
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, OPTIMAL_DATA_METHOD, s, **SMALL) for s in range(2)]
    grid = product(range(5 if profile == "paper" else 1), ("dirichlet", "dirichlet_fixed_size"))
    return [Run("mnist", p, 0.01, OPTIMAL_DATA_METHOD, s, eval_every=9) for s, p in grid]


BATCH_SIZES, BATCH_SIZE_METHODS = (32, 512), ("md", "fedstas", "fedstas-least-variance")


def batch_size(profile: str) -> list[Run]:
    """Return runs with batches of 32 and 512; those of 128 are in `sensitivity` and `least-variance`."""
    arms = [
        (m, {"batch": b} | _recorded_features(m), {})
        for b in BATCH_SIZES
        for m in BATCH_SIZE_METHODS
    ]
    return _around_default(profile, arms)


# By method, the setting that is tuned and its values: the servers' rates, and FedProx's mu, with the values of Li et al.
# (https://arxiv.org/abs/1812.06127).
_RATE = ("server_rate", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3))
SERVER_VALUES = {"fedprox": ("prox", (0.001, 0.01, 0.1, 1.0)), "fedadam": _RATE, "fedyogi": _RATE}
SERVER_VALUES["fedadagrad"] = _RATE
# The value that is best in `server-rates` (by `tables.choose_by_loss`; a test compares this table with those runs).
SERVER_TUNED = {"fedprox": {"prox": 0.001}, "fedadagrad": {"server_rate": 0.1}}
SERVER_TUNED |= {key: {"server_rate": 0.03} for key in ("fedadam", "fedyogi")}


def server_rates(profile: str) -> list[Run]:
    """Return one run for each value of `SERVER_VALUES`, by which the values are chosen."""
    # All values, three in the middle, or every third.
    part = {"paper": slice(None), "laptop": slice(1, 4), "quick": slice(0, None, 3)}[profile]
    arms = [(m, {key: v}, {}) for m, (key, values) in SERVER_VALUES.items() for v in values[part]]
    return _around_default(profile, arms, seeds=1)


def servers(profile: str) -> list[Run]:
    """Return runs of FedProx and the three adaptive servers as tuned, ten seeds; FedAvg and MD are in `preprint`."""
    return _around_default(profile, [(m, o, {}) for m, o in SERVER_TUNED.items()], seeds=10)


LEAST_VARIANCE_SETTINGS = (
    GRADIENTS,
    GRADIENTS | {"restratify_every": 10},
    {"features": "updates"},
)


def least_variance(profile: str) -> list[Run]:
    """Return runs with strata of least variance in the settings of `preprint` and `fashion-mnist`.

    The strata are computed once, every ten rounds, or from updates (`LEAST_VARIANCE_SETTINGS`); evaluated every nine
    rounds. With five participants the methods that they are compared with are run too; with ten these are recorded
    in the other sweeps.
    """
    arms = [("fedstas-least-variance", o) for o in LEAST_VARIANCE_SETTINGS]
    rivals = [(m, {}) for m in ("md", "clustered-similarity", "fedstas-unbiased")]
    if profile == "quick":
        return [Run("digits", "dirichlet", 0.1, m, 0, o, **SMALL) for m, o in arms + rivals]
    settings = (  # data set, partition, number of seeds
        ("mnist", "dirichlet", 20),
        ("mnist", "dirichlet_fixed_size", 20),
        ("fashion-mnist", "dirichlet", 10),
    )
    ten_participants = {"eval_every": 9}
    five_participants = {"eval_every": 9, "clients_per_round": 5}
    return [
        Run(task, kind, 0.01, m, seed, overrides, **shape)
        for seed in range(20 if profile == "paper" else 1)
        for task, kind, seeds in settings
        for compared, shape in ((rivals + arms, five_participants), (arms, ten_participants))
        for m, overrides in compared
        if seed < seeds
    ]


# Local training of the authors' code of 2025, without what this package lacks: see `authors_2025`.
LOCAL_OF_2025 = {"epochs": 2, "batch": 64, "lr": 0.01, "momentum": 0.9}
COMPARED_WITH_2025 = ("md", "fedstas", "fedstas-unbiased", *CODE_OF_2025)


def authors_2025(profile: str) -> list[Run]:
    """Return runs of the authors' code of 2025 beside the text, MD and the corrected method, on frozen features of CIFAR-10.

    Their partitions, numbers of clients, n* and local training, with a linear head in place of their network, 50 rounds in
    place of 300, and three seeds: lengths by the time that there was. All strata are kept for twenty rounds, as in that code.
    """
    settings = (("dirichlet", 0.01), ("dirichlet", 0.1), ("iid", 0.01))
    task, shape, seeds = "cifar10-features", {"rounds": 50, "eval_every": 5}, range(3)
    if profile == "laptop":
        settings, seeds = settings[:2], seeds[:1]
    if profile == "quick":
        task, shape, settings, seeds = "digits", SMALL, (("dirichlet", 0.1),), seeds[:1]
    runs = []
    for seed, (kind, concentration), m in product(seeds, settings, COMPARED_WITH_2025):
        settable = methods.parameters(m)
        own = {"restratify_every": 20} if "restratify_every" in settable else {}
        own |= {"n_star": 2500} if "n_star" in settable else {}
        runs.append(Run(task, kind, concentration, m, seed, LOCAL_OF_2025 | own, **shape))
    return runs


def authors_january(profile: str) -> list[Run]:
    """Return runs of FedSTS beside the authors' curve of January 2025, on CIFAR-10 at concentration 0.1 with equal sizes.

    Their network, partition, levels, batches, steps and rounds, two seeds. The code is that of December 2024, which
    stratifies once; that of January stratifies in each round, which takes several hours of a core for one run.
    """
    task, network, shape, seeds = (
        "cifar10",
        "convolutional-dropout",
        {"rounds": 300, "eval_every": 10},
        range(2),
    )
    if profile == "laptop":
        seeds = seeds[:1]
    if profile == "quick":
        task, network, shape, seeds = "digits", "", SMALL, seeds[:1]
    local = {"steps": 20, "batch": 64, "lr": 0.01, "levels": 10}
    return [
        Run(
            task,
            "dirichlet_fixed_size",
            0.1,
            "fedsts-authors-dec",
            seed,
            local,
            network=network,
            initial_model="seed",
            **shape,
        )
        for seed in seeds
    ]


SWEEPS = {
    "preprint": preprint,
    "authors-january": authors_january,
    "authors-2025": authors_2025,
    "least-variance": least_variance,
    "last-bit": last_bit,
    "methods": every_method,
    "one-digit": one_digit(60),
    "clustered-fig-1": one_digit(200),
    "clustered-messages": clustered_messages,
    **fedsampling_grid.SWEEPS,
    # Equal sizes, as the authors have them: in the disjoint partition 17 to 24 of 100 clients would hold all data.
    "mnist-0.001": _on_other_data("mnist", "dirichlet_fixed_size", 0.001),
    "mnist-iid": _on_other_data("mnist", "iid", 0.01),
    "fashion-mnist": _on_other_data("fashion-mnist", "dirichlet", 0.01),
    "cifar100": cifar100,
    "cifar100-equal-0.001": cifar100_equal_bars,
    "sensitivity": sensitivity,
    "more-strata": more_strata,
    "privacy": privacy,
    "ablation": ablation,
    "optimal-data": optimal_data,
    "batch-size": batch_size,
    "server-rates": server_rates,
    "servers": servers,
    "cifar100-equal-rates": _cifar100_equal(
        [(m, {"lr": lr}) for m in EQUAL_SIZES_METHODS for lr in EQUAL_SIZES_RATES], range(1)
    ),
    "cifar100-equal": _cifar100_equal(list(EQUAL_SIZES_TUNED.items()), range(1, 6)),
    **clustered_grid.SWEEPS,
    **averaging.SWEEPS,
}


def names() -> list[str]:
    """Return the names of all sweeps."""
    return list(SWEEPS)


def runs(name: str, profile: str) -> list[Run]:
    """Return the runs of a sweep, in the order in which they are executed (seed by seed)."""
    check_choice("sweep", name, SWEEPS)
    check_choice("profile", profile, ("quick", "laptop", "paper"))
    return SWEEPS[name](profile)


def record_figure_1_labels(folder: str | Path = "results") -> None:
    """Record the label counts of Fig. 1's clients: MNIST over 100 clients, seed 0.

    Both readings of Dirichlet(0.01), and the uniform split.
    """
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
    concentrations: list[float] | None = None,
    folder: str | Path = "results",
    **options,
) -> list[str]:
    """Execute and record the runs of a sweep that are missing in a folder.

    Args:
        name: of the sweep.
        profile: quick, laptop or paper.
        methods, seeds, concentrations: if given, only runs with one of these.
        folder: of the recorded runs.
        options: those of `sweeps.make`: jobs, device, backend, address, ...

    Returns:
        A sentence for each run that failed: which, and why.
    """
    chosen = sweeps.choose(
        runs(name, profile), name, method=methods, seed=seeds, concentration=concentrations
    )
    if name == "preprint" and profile == "paper" and not options.get("dry_run"):
        record_figure_1_labels(folder)
    return sweeps.make(chosen, name, folder=folder, **options)
