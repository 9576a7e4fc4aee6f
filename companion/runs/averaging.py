"""The comparison of designs with and without an average of the server's models (chapter 10).

Strata of least variance from a sketch and from label counts, and their rivals, in four of the settings of
`protocol`, with ten participants for 300 rounds. Each run reports the raw model and its exponential average. The
sweep `averaging-rates` tries learning rates; an arm has one rate for its raw model and one for its average, the best
in the last thirty rounds. The sweep `averaging` has the runs that are
compared, evaluated in the thirty rounds before either budget, 75 rounds and 300.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from companion.runs.sweeps import Run

BETA = 0.9  # of the average
ROUNDS = 300
WINDOWS = {75: range(46, 76), 300: range(271, 301)}  # by budget in rounds
SEEDS = range(5)
MODELS = {"raw": "test_accuracy", "average": "test_accuracy_average"}
REFERENCE = "MD sampling"
# By label: method and settings.
ARMS = {
    REFERENCE: ("md", {}),
    "clustered by similarity": ("clustered-similarity", {}),
    "least variance, sketch": ("fedstas-least-variance", {}),
    "least variance, label counts": ("fedstas-least-variance", {"features": "labels"}),
    "strata of label counts (Shen et al.)": ("stratified-labels", {}),
    "local pivotal, sketch": ("local-pivotal", {"features": "sketch", "restratify_every": 0}),
}


@dataclass(frozen=True)
class Setting:
    """A federation of 100 clients, and the learning rates that are tried in it, on seeds that serve nothing else.

    Where there is one seed, `protocol` found the same rate for all its arms, far from its neighbours.
    """

    title: str
    task: str
    partition: str
    concentration: float
    rates: tuple[float, ...] = (0.1, 0.3, 1.0)
    tuning_seeds: tuple[int, ...] = (100,)


SETTINGS = {
    "mnist": Setting("MNIST, disjoint 0.01", "mnist", "dirichlet", 0.01, tuning_seeds=(100, 101)),
    "mnist-equal": Setting("MNIST, equal sizes 0.01", "mnist", "dirichlet_fixed_size", 0.01),
    "mnist-0.1": Setting("MNIST, disjoint 0.1", "mnist", "dirichlet", 0.1),
    "fashion-mnist": Setting(
        "Fashion-MNIST, disjoint 0.01",
        "fashion-mnist",
        "dirichlet",
        0.01,
        (0.05, 0.1, 0.2, 0.4, 0.8),
        (100, 101),
    ),
}
# The rates that `averaging-rates` chose, by setting and arm: of the raw model and of the average. A test holds the
# two together.
TUNED = {name: dict.fromkeys(ARMS, (0.3, 0.3)) for name in SETTINGS}
TUNED["fashion-mnist"] = dict.fromkeys(ARMS, (0.2, 0.2)) | {
    "least variance, sketch": (0.2, 0.4),
    "least variance, label counts": (0.2, 0.4),
}


def _run(setting: Setting, arm: str, lr: float, seed: int, eval_rounds: tuple[int, ...]) -> Run:
    """Declare the run of an arm at a learning rate."""
    method, settings = ARMS[arm]
    return Run(
        setting.task,
        setting.partition,
        setting.concentration,
        method,
        seed,
        settings | {"lr": lr},
        rounds=ROUNDS,
        eval_every=ROUNDS,
        eval_rounds=eval_rounds,
        average=BETA,
        initial_model="seed",
    )


def _shrink(runs: list[Run], profile: str) -> list[Run]:
    """Return the runs of a profile: `laptop` a sixth as long, `quick` a few short ones on digits."""
    if profile == "paper":
        return runs
    if profile == "laptop":
        return [replace(run, rounds=50, eval_every=10, eval_rounds=()) for run in runs]
    few = {"clients": 20, "clients_per_round": 5, "rounds": 3, "eval_every": 1, "eval_rounds": ()}
    on_digits = {"task": "digits", "partition": "dirichlet", "concentration": 0.1}
    first = [run for run in runs if run.task == runs[0].task and run.seed == runs[0].seed]
    small = [replace(run, **on_digits, **few) for run in first]
    return list({repr(run): run for run in small}.values())


def rates(profile: str) -> list[Run]:
    """Return runs of every arm at every rate on the tuning seeds, evaluated in every third of the last thirty rounds.

    These are ten rounds: 271, 274, ..., 298. `profile`: as in `_shrink`.
    """
    return _shrink(
        [
            _run(setting, arm, lr, seed, tuple(WINDOWS[ROUNDS][::3]))
            for setting in SETTINGS.values()
            for seed in setting.tuning_seeds
            for arm in ARMS
            for lr in setting.rates
        ],
        profile,
    )


def compared(profile: str) -> list[Run]:
    """Five seeds of every arm at its rates, evaluated in each of the thirty rounds before either budget."""
    every = tuple(t for window in WINDOWS.values() for t in window)
    return _shrink(
        [
            _run(SETTINGS[name], arm, lr, seed, every)
            for seed in SEEDS
            for name, tuned in TUNED.items()
            for arm, chosen in tuned.items()
            for lr in dict.fromkeys(chosen)
        ],
        profile,
    )


RATES_SWEEP, SWEEP = "averaging-rates", "averaging"
SWEEPS = {RATES_SWEEP: rates, SWEEP: compared}
