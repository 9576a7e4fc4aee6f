"""What the claims on clustered sampling share: settings on four data sets, and how losses, jumps and rounds compare with MD's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps

import numpy as np
import pandas as pd

from companion.claims.evidence.experiments import (
    MissingRuns,
    Setting,
    count_seeds,
    deciding_part,
    judge_higher,
    verdict_if_missing,
)
from companion.claims.registry import Claim, Decision, Evidence
from companion.runs import statistics, tables

NATS_BELOW_MD = "nats that the training loss is below MD sampling's, in the comparison that decides"

ALGORITHM = {"clustered-size": "Algorithm 1", "clustered-similarity": "Algorithm 2"}


def mean_jumps(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the mean absolute change of a curve between evaluations in its second half, a row per seed and a column per scheme."""
    late = frame[frame["round"] > frame["rounds"] / 2].sort_values("round")
    steps = late.groupby(["method", "seed"])[metric].apply(lambda v: v.diff().abs().mean())
    return steps.unstack("method") * tables.SCALES.get(metric, 1)


CENTRE = {"clients": 100, "clients_per_round": 10, "prox": 0.0, "measure": "arccos"}
PAPER_STEPS = 100
GUESS = np.log(10)  # the loss of equal probabilities for ten classes
CIFAR = Setting("clustered-cifar10", "cifar10", steps=PAPER_STEPS, **CENTRE)
CIFAR_SHORT = Setting(
    "clustered-cifar10-short", "cifar10", steps=20, **CENTRE, min_seeds=statistics.MIN_SEEDS
)
REDUCED = "At a reduced length (a fifth of the local steps and a tenth of the rounds): "
MNIST = Setting("clustered-mnist", "mnist", steps=PAPER_STEPS, **CENTRE)
COARSE = Setting("clustered-coarse10", "cifar100-coarse10", steps=20, **CENTRE)
ROLLING = 50  # rounds of the rolling mean that the paper's losses are, of 1,000
IN_LAST_ROUNDS = f"mean of the last rounds ({ROLLING}, or a fifth if fewer)"
NATS_LESS = ("nats less", IN_LAST_ROUNDS)
SKEWS, WORK, COHORTS = (10.0, 0.1, 0.01, 0.001), (10, 100, 500), (5, 10, 20)
SKEWED = tuple({"concentration": c} for c in SKEWS)
CHANGES_IN_PAPER = (  # of the setting, one at a time
    *SKEWED,
    *({"steps": n} for n in (10, 500)),
    *({"clients_per_round": m} for m in (5, 20)),
    {"prox": 0.1},
    *({"measure": word} for word in ("L2", "L1")),
)


def at_length(setting: Setting, change: dict) -> dict:
    """Return a change of the paper's setting at the length of this one: its local steps in proportion."""
    if "steps" not in change:
        return change
    steps = change["steps"] * (setting.steps or PAPER_STEPS) // PAPER_STEPS
    return change | {"steps": steps}


def steps_at_length(setting: Setting) -> tuple[int, ...]:
    """Return the local steps that the paper compares, at the length of a setting."""
    return tuple(at_length(setting, {"steps": n})["steps"] for n in WORK)


def on_cifar10(*substitutes: Setting) -> Callable[[Callable[[Setting], Evidence]], Decision]:
    """Make a function that decides in a setting into one that decides a claim on CIFAR-10, one about an order or a trend.

    It is decided at the paper's length, or else at the reduced one. Where too few runs of both are recorded the verdict is
    `no-data`, with that on the first substitute that is recorded, wherever it is decided. The decorated function itself is
    `__wrapped__`.
    """

    def decorate(decide_in: Callable[[Setting], Evidence]) -> Decision:
        """Wrap a function that decides in one setting."""

        @verdict_if_missing
        def decide(claim: Claim) -> Evidence:
            """Decide on CIFAR-10, or on the first substitute that is recorded."""
            try:
                return decide_in(CIFAR)
            except MissingRuns as missing:
                reasons = [f"There are too few runs on {CIFAR.task}: {missing}"]
            try:
                evidence = decide_in(CIFAR_SHORT)
            except MissingRuns as missing:
                reasons[0] += f"; of shorter runs, {missing}"
            else:
                where = f"{CIFAR_SHORT.task}, at a reduced length"
                return replace(evidence, note=REDUCED + evidence.note, tried_on=where)
            for setting in substitutes:
                try:
                    evidence = decide_in(setting)
                except MissingRuns as missing:
                    reasons.append(f"on {setting.task} instead: {missing}")
                    continue
                note = f"{reasons[0]}. On {setting.task} instead: {evidence.note}"
                return replace(
                    evidence,
                    verdict="no-data",
                    substitute=evidence.verdict,
                    tried_on=setting.task,
                    note=note,
                )
            raise MissingRuns("no-data", "; ".join(reasons))

        return wraps(decide_in)(decide)

    return decorate


def rolling_window(frame: pd.DataFrame) -> int:
    """Return the rounds of the rolling mean: the paper's 50, and at most a fifth of a shorter run."""
    return min(ROLLING, int(frame["rounds"].min()) // 5)


def loss_below_md(setting: Setting, method: str) -> pd.Series:
    """Return how many nats a scheme's loss is below MD sampling's, by seed, over the last rounds as the paper draws them."""
    frame = setting.runs("md", method)
    wide = tables.pivot_seeds(frame, "train_loss", rolling_window(frame))
    return (wide["md"] - wide[method]).dropna()


def pair_with_algorithms(changes: Iterable[dict]) -> list[tuple[dict, str]]:
    """Return each change of the setting with each algorithm that has what is changed: Algorithm 1 has no measure."""
    return [
        (changed, method)
        for changed, method in itertools.product(changes, ALGORITHM)
        if method == "clustered-similarity" or "measure" not in changed
    ]


def decide_in_settings(
    setting: Setting,
    changes: Iterable[dict],
    judge=judge_higher,
    gain=loss_below_md,
    unit="nats",
    quantity=NATS_LESS,
    beside: int = 0,
) -> Evidence:
    """Judge whether both algorithms gain on MD sampling in each changed setting.

    Args:
        setting: what is changed.
        changes: fields of the setting and their new values.
        judge: judges the gains of one algorithm in one setting, by `unit`, as one of several comparisons.
        gain: the gains by seed, from a setting and a method.
        unit: of the gain.
        quantity: the words for the gain and for how it is measured.
        beside: comparisons of the same claim that are made elsewhere.
    """
    pairs = pair_with_algorithms(changes)
    rows, parts = [], []
    for changed, method in pairs:
        name, changes_here = ALGORITHM[method], at_length(setting, changed)
        gains = gain(replace(setting, **changes_here), method)
        part = judge(gains, unit, comparisons=len(pairs) + beside)
        words = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in changes_here.items())
        rows.append((words, name, *part.cells))
        parts.append(part)
    gain_words, measured = quantity
    columns = ["setting", "scheme", f"{gain_words} than MD", "low", "high", "verdict"]
    part = deciding_part(parts)
    return part.evidence(
        f"{gain_words.capitalize()} than MD sampling, {measured}, in the one of {len(rows)} "
        f"comparisons that decides.{part.why_undecided}",
        pd.DataFrame(rows, columns=columns).round(3),
    )


def first_reached(curve: pd.Series, level: float, between: bool = False) -> float:
    """Return the round at which a loss is down to a level, or the last one of the curve.

    With `between`, a straight line between the last evaluation above the level and the first one down to it says where.
    """
    (down,) = np.nonzero(curve.to_numpy() <= level)
    if not len(down):
        return curve.index[-1]
    first = down[0]
    if not between or first == 0:
        return curve.index[first]
    # Rounds as a function of the loss, which falls from the first of these two evaluations to the second.
    after, before = curve.iloc[[first, first - 1]].items()
    return float(np.interp(level, [after[1], before[1]], [after[0], before[0]]))


def rolling_curves(
    setting: Setting, *methods: str, metric="train_loss", rounds=0
) -> dict[tuple, pd.Series]:
    """Return the rolling mean by round of each (method, seed), as the paper draws it or over so many rounds.

    Accuracies are negated, so that less is better.
    """
    frame = setting.runs(*methods)
    frame = tables.smooth_curves(frame, metric, rounds or rolling_window(frame))
    sign = 1 if metric == "train_loss" else -1
    parts = frame.groupby(["method", "seed"])
    return {key: sign * part.set_index("round")[metric] for key, part in parts}


def shared_losses(setting: Setting, method: str, **options) -> pd.Series:
    """Return the worse of the last losses of MD sampling and a scheme, by seed; `options` are those of `rolling_curves`."""
    curves = rolling_curves(setting, "md", method, **options)
    ends = {key: curve.iloc[-1] for key, curve in curves.items()}
    seeds = [seed for name, seed in ends if name == "md" and (method, seed) in ends]
    return pd.Series(
        {seed: max(ends["md", seed], ends[method, seed]) for seed in seeds}, dtype=float
    )


def rounds_saved(setting: Setting, method: str, between: bool = False, **options) -> pd.Series:
    """Return the share of all rounds that a scheme saves on MD sampling's way to the worse of their last losses, by seed.

    `between` is that of `first_reached`, and `options` are those of `rolling_curves`.
    """
    curves = rolling_curves(setting, "md", method, **options)
    share = {}
    for seed, level in shared_losses(setting, method, **options).items():
        md, other = curves["md", seed], curves[method, seed]
        rounds = first_reached(md, level, between) - first_reached(other, level, between)
        share[seed] = rounds / md.index[-1]
    return pd.Series(share, dtype=float)


def recorded_concentrations(
    setting: Setting, printed: tuple[float, ...], fewest: int
) -> tuple[float, ...]:
    """Return the concentrations of a figure at which it is decided.

    On `cifar100-coarse10`, where all four would take a day to record, these are the recorded ones, if at least `fewest`
    are; otherwise those that are printed.
    """
    if setting.task != COARSE.task:
        return printed

    def has_enough_seeds(concentration: float) -> bool:
        """Return whether enough seeds of all schemes are recorded at a concentration."""
        try:
            frame = replace(setting, concentration=concentration).runs("md", *ALGORITHM)
        except MissingRuns:
            return False
        return min(count_seeds(frame, m) for m in ("md", *ALGORITHM)) >= statistics.MIN_SEEDS

    recorded = tuple(filter(has_enough_seeds, printed))
    return recorded if len(recorded) >= fewest else printed


def decide_trend(
    setting: Setting,
    name: str,
    values: tuple,
    gain: Callable[[Setting, str], pd.Series],
    unit: str,
    sign: int,
    gain_words: str,
    schemes: dict[str, str] = ALGORITHM,
    beside: int = 0,
) -> Evidence:
    """Judge whether the gain of each scheme grows with a field of the setting, or as it falls.

    Judged by the change from the smallest to the largest value along a line fitted in the field's logarithm, one per
    seed.

    Args:
        setting: with the usual value of the field.
        name: of the field.
        values: of the field, with which runs are recorded.
        gain: takes a setting and a method, and returns a gain for each seed.
        unit: of the gain, in `statistics.MIN_EFFECT`.
        sign: 1 if the gain is claimed to grow with the field, -1 if it is claimed to grow as the field falls.
        gain_words: the gain in words, for the note.
        schemes: the methods and their names; the claim is one about all of them.
        beside: comparisons of the same claim that are made elsewhere.
    """
    comparisons = len(schemes) + beside
    field = name.replace("_", " ")
    rows, x = [], np.log(np.array(sorted(values), dtype=float))
    parts = {}
    for method, scheme in schemes.items():
        gains = pd.concat(
            {v: gain(replace(setting, **{name: v}), method) for v in sorted(values)}, axis=1
        ).dropna()
        slopes, _ = np.polyfit(x, gains.to_numpy().T, 1) if len(gains) else (np.zeros(0), None)
        # Rounded, so that equal gains have no slope of rounding errors.
        change = np.round(sign * slopes * (x[-1] - x[0]), 9)
        part = judge_higher(change, unit, comparisons=comparisons)
        parts[scheme] = part
        rows += [(scheme, f"{v:g}", *statistics.mean_interval(gains[v]), "") for v in gains]
        ends = sorted((sign * part.low, sign * part.high))
        rows.append((scheme, "change", sign * part.mean, *ends, part.verdict))
    table = pd.DataFrame(rows, columns=["scheme", field, unit, "low", "high", "verdict"])
    part = deciding_part(parts.values())
    grows = "grows" if sign > 0 else "falls"
    which = f"for the one of the {len(schemes)} that decides, " if len(schemes) > 1 else ""
    note = (
        f"How much {gain_words} {grows} from {field} {min(values):g} to {max(values):g}, along a line "
        f"fitted in its logarithm, {which}{part.seeds} paired runs.{part.why}"
    )
    return part.evidence(note, table.round(3))
