"""Runs that are to be made: which, and about how long they take."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedstas import methods
from fedstas.errors import InputError

# Seconds of one core, loaded as a laptop is: per example of a local step, per evaluation, per
# stratification, per round.
COSTS = {
    "digits": (2e-6, 0.004, 0.04, 0.01),
    "mnist": (6e-6, 0.13, 0.45, 0.01),
    "fashion-mnist": (6e-6, 0.13, 0.45, 0.01),
    "cifar10": (4.5e-4, 14.0, 25.0, 0.05),
    "cifar100": (4.5e-4, 14.0, 25.0, 0.05),
}


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

    def __str__(self):
        settings = "".join(f", {k} {v}" for k, v in self.overrides.items())
        return f"{self.method}{settings} on {self.partition}, seed {self.seed}"


def estimate(run: Run) -> float:
    """About how many seconds a run takes on one core."""
    example, evaluation, stratification, round_ = COSTS[run.task]
    known = methods.parameters(run.method) | run.overrides
    times = 0
    if "strata" in known:
        times = -(-run.rounds // known.get("restratify_every", 10**9))
    m = run.clients_per_round
    if run.method == "fedsampling":
        m = run.clients
    each = example * m * known["steps"] * known["batch"] + round_
    if "authors" in run.method:  # 100 times k-means with ten starts, once
        times = 60
    if run.method == "clustered-similarity":
        each += 5 * round_
    return run.rounds * each + run.rounds / run.eval_every * evaluation + times * stratification


def choose(todo: list[Run], name: str, **wanted) -> list[Run]:
    """The runs with these `method`s, `seed`s, `task`s; None takes all."""
    for key, values in wanted.items():
        if values is None:
            continue
        has = list(dict.fromkeys(getattr(run, key) for run in todo))
        for value in values:
            if value not in has:
                listed = ", ".join(map(str, has))
                raise InputError(f"sweep {name} has no {key} {value!r}: it has {listed}")
        todo = [run for run in todo if getattr(run, key) in values]
    return todo


def parse_seeds(text: str) -> list[int]:
    """`0-4`, `0,3` or `0-2,7` as a list."""
    seeds = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or int(high or low) < int(low):
            raise InputError(f"{text!r} is no list of seeds: write 0-4, or 0,3")
        seeds += range(int(low), int(high or low) + 1)
    return list(dict.fromkeys(seeds))


def duration(seconds: float) -> str:
    """A number of seconds, to be read."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Clock:
    """What is left to do, in seconds of one core: estimates, corrected by what was measured."""

    def __init__(self, todo: list[Run]):
        self.left = dict(enumerate(todo))
        self.measured: dict[str | None, list[float]] = {}

    def done(self, number: int, outcome: str, seconds: float) -> None:
        """The run of this number is off the list; what it took corrects the others."""
        run = self.left.pop(number)
        if outcome == "done":
            for key in (run.method, None):
                sums = self.measured.setdefault(key, [0.0, 0.0])
                sums[0] += seconds
                sums[1] += estimate(run)

    def seconds(self) -> float:
        """The estimate for all that is left."""
        total = 0.0
        for run in self.left.values():
            sums = self.measured.get(run.method) or self.measured.get(None) or (1.0, 1.0)
            total += estimate(run) * sums[0] / sums[1]
        return total
