"""What decides the claims that need runs: recorded sweeps, compared with what is printed.

An order is judged by the 95 % interval of the paired mean difference. It agrees if that lies on the
printed side of zero, and differs if all of it stays below the smallest difference that matters. A level
is judged by the 95 % prediction interval of one more run of ours, for the papers print single runs. It
differs if the printed value lies outside, and agrees if all of it lies within the smallest difference
that matters. What is neither is undecided, as is everything with fewer than five seeds. The published
curves are of the authors' partition (equal sizes) and accuracy (under the clients' class shares), so that
reading decides; the others are in the table of the evidence.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Evidence
from companion.runs import atomic, records, statistics, tables
from fedstas.sim import tasks

RESULTS = Path(__file__).resolve().parents[3] / "results"
FEWEST, MATTERS = statistics.MIN_SEEDS, statistics.MIN_EFFECT
SHOWN = 2  # seeds: with one there is no interval
NETWORK = "The paper names no network for CIFAR-100, and 99 as well as 199 rounds; with a network of ours:"
METRICS = ("client_accuracy", "test_accuracy")
VOICES = {"as written": "", "as coded": "-authors-dec"}


class Missing(Exception):
    """A claim cannot be decided yet, or not here; `verdict` is `pending` or `no-data`."""

    def __init__(self, verdict: str, reason: str):
        super().__init__(reason)
        self.verdict = verdict


@dataclass(frozen=True)
class Setting:
    """One setting of a sweep. The data set may be one that cannot be had here."""

    sweep: str
    task: str = "mnist"
    partition: str = "dirichlet_fixed_size"
    concentration: float | None = 0.01
    steps: int | None = 3  # local ones, as printed; None: all runs of the sweep
    clients: int | None = None  # and so of these: None is all
    clients_per_round: int | None = None
    prox: float | None = None
    measure: str | None = None  # of similarity, of the methods that have one

    def __str__(self) -> str:
        skew = "" if self.concentration is None else f" {self.concentration:g}"
        return f"{self.task}, {self.partition.replace('_', ' ')}{skew}"

    def runs(self, *methods: str) -> pd.DataFrame:
        """The recorded runs of these methods, or `Missing`."""
        found = recorded(self.sweep)
        if found is not None:
            skew = self.concentration is None or np.isclose(
                found["concentration"], self.concentration
            )
            where = (found["task"] == self.task) & (found["partition"] == self.partition)
            for key in ("steps", "clients", "clients_per_round", "prox"):
                if (value := getattr(self, key)) is not None:
                    where &= found[key] == value
            if self.measure is not None:
                where &= found["measure"].isin([self.measure, ""])
            found = found[where & skew]
        few = [m for m in methods if seeds(found, m) < SHOWN]
        if not few:
            return found[found["method"].isin(methods)]
        obtainable(self.task, self.sweep)
        raise Missing(
            "pending",
            f"sweep {self.sweep!r} ({self}) does not hold {SHOWN} seeds of {', '.join(few)} yet: "
            f"`fedstas sweep {self.sweep} --profile paper --folder results` records them",
        )


def seeds(frame: pd.DataFrame | None, method: str) -> int:
    """How many seeds of a method are recorded."""
    return 0 if frame is None else frame.loc[frame["method"] == method, "seed"].nunique()


def obtainable(task: str, sweep: str = "NAME") -> None:
    """`Missing` with `no-data` for a data set that the project cannot load, or that is not here."""
    if task not in tasks.names():
        known = ", ".join(tasks.names())
        raise Missing("no-data", f"{task} is not among the data sets that can be had ({known})")
    if task == "cifar10" and not (tasks.data_folder() / f"{task}.npz").exists():
        raise Missing(
            "no-data",
            f"{task}.npz is not in the data folder; where it is, `fedstas sweep {sweep} --profile paper "
            "--folder results` records the runs that decide this claim",
        )


def recorded(sweep: str) -> pd.DataFrame | None:
    """All runs of a sweep; None where nothing is recorded."""
    folder = RESULTS / sweep
    kinds = ("*.json", records.RUNS, records.ROWS)
    stamps = tuple(atomic.stamp(path) for kind in kinds for path in sorted(folder.glob(kind)))
    return _load(str(folder), stamps) if stamps else None


@lru_cache(maxsize=16)
def _load(folder: str, _stamps: tuple) -> pd.DataFrame:
    frame = records.load(folder)
    own = {run: who["method"] for run, who in records.identities(folder).items()}
    for key in ("steps", "prox"):
        frame[key] = frame["run"].map({run: each["local"][key] for run, each in own.items()})
    measures = {run: each["clients"].get("measure", "") for run, each in own.items()}
    similar = (
        frame["method"] == "clustered-similarity"
    )  # of other methods it is none, or means nothing
    return frame.assign(measure=frame["run"].map(measures).where(similar, ""))


def decided(function: Callable[[Claim], Evidence]) -> Callable[[Claim], Evidence]:
    """The function, with `Missing` turned into the verdict that it carries."""

    def evidence(claim: Claim) -> Evidence:
        try:
            return function(claim)
        except Missing as missing:
            return Evidence(missing.verdict, note=f"{missing}.")

    evidence.__doc__ = function.__doc__
    return evidence


def on_substitute(
    function: Callable[[Claim], Evidence], reason: str
) -> Callable[[Claim], Evidence]:
    """`no-data` for what cannot be had, with the verdict on what was tried instead."""

    def evidence(claim: Claim) -> Evidence:
        found = function(claim)
        tried = found.verdict if found.verdict in WEIGHED else ""
        return replace(found, verdict="no-data", substitute=tried, note=f"{reason} {found.note}")

    evidence.__doc__ = function.__doc__
    return evidence


WEIGHED = statistics.CLAIM_VERDICTS
exactly, whole = statistics.judge_exactly, statistics.combine_verdicts
one_more = statistics.prediction_interval


@dataclass(frozen=True)
class Found:
    """What values of ours, one per seed, say: the verdict, and their mean with the interval that decides."""

    verdict: str
    mean: float
    low: float
    high: float
    seeds: int
    why: str = ""  # a sentence, where the verdict needs one

    def __str__(self) -> str:
        return statistics.format_interval(self.mean, self.low, self.high)


def decisive(found: Iterable[Found]) -> Found:
    """Of a claim's parts, those with the verdict of the `whole`, the one with the lowest interval."""
    found = list(found)
    word = whole(part.verdict for part in found)
    return min((part for part in found if part.verdict == word), key=lambda part: part.low)


def _found(values, word: str, interval: tuple, undecided: str, differs: str = "") -> Found:
    if len(values) < FEWEST:
        word, undecided = "undecided", f"there are fewer than {FEWEST} seeds"
    why = {"undecided": f" Undecided: {undecided}.", "differs": differs}.get(word, "")
    return Found(word, *interval, len(values), why)


def amount(value: float, unit: str) -> str:
    """A number with its unit, `1 point`."""
    return f"{value:g} {unit.removesuffix('s') if value == 1 else unit}"


def higher(values, unit: str, matters: float | None = None) -> Found:
    """Are these differences, one per seed, above zero? `matters` if it is not that of the unit."""
    room = MATTERS[unit] if matters is None else matters
    mean, low, high = interval = statistics.mean_interval(values)
    word = statistics.judge_increase(interval, room)
    some = f"{amount(room, unit)}, which matters" if room else "more"
    small = f" A gain of {amount(room, unit)}, the smallest that matters, is outside the interval."
    none = small if high >= 0 and room else ""
    return _found(
        values, word, (mean, low, high), f"the interval holds both no gain and {some}", none
    )


def not_lower(values, unit: str, of: int = 1) -> Found:
    """Are these differences, one per seed, not below zero? A loss that cannot matter is none.

    Of so many comparisons one must be lower beyond chance (Bonferroni), or the claim for all is not refuted."""
    room = MATTERS[unit]
    mean, low, high = interval = statistics.mean_interval(values)
    corrected = statistics.mean_interval(values, 1 - 0.05 / of)
    word = statistics.judge_no_decrease(interval, room, corrected.high)
    loss = (
        f"the interval holds both no loss and one of more than {amount(room, unit)}, which matters"
    )
    if high < 0:
        loss = f"an interval lies below zero, which among {of} comparisons may be chance"
    return _found(values, word, (mean, low, high), loss)


def same(
    values, printed: float, unit: str, room: float = 0.0, interval=statistics.mean_interval
) -> Found:
    """Are these values, one per seed, what is printed? `room`: the tolerance of what is printed."""
    mean, low, high = interval(values)
    near = max(room, MATTERS[unit])
    word = statistics.judge_equality((mean, low, high), printed, room, MATTERS[unit])
    both = f"the interval holds {printed:g} and what is more than {amount(near, unit)} from it"
    return _found(values, word, (mean, low, high), both)


def within_one_more(
    frame: pd.DataFrame, printed: dict[str, float], metric: str = METRICS[0]
) -> str:
    """How many printed final accuracies (in %, by method) lie where one more run may: `1 of 3`.

    The frame is of one partition: a level is one of a method *and* a partition, and mixing two counts neither.
    """
    if frame["partition"].nunique() > 1:
        raise ValueError(f"runs of several partitions: {', '.join(frame['partition'].unique())}")
    agreed = []
    for method, value in printed.items():
        values = tables.final_values(frame[frame["method"] == method], metric)["value"]
        if len(values) >= FEWEST:
            _, low, high = one_more(values)
            agreed.append(low <= value <= high)
    few = len(agreed) < len(printed)
    return f"({tables.NOT_RECORDED})" if few else f"{sum(agreed)} of {len(agreed)}"


def number(text) -> float:
    """The first number of what is printed."""
    if isinstance(text, (int, float)):
        return float(text)
    cleaned = "".join(c if c.isdigit() or c in ".-" else " " for c in text.replace("−", "-"))
    return float(next(w for w in cleaned.split() if any(c.isdigit() for c in w)))


def difference(frame: pd.DataFrame, better: str, worse: str, metric=METRICS[0]) -> np.ndarray:
    """Seed by seed: the last ten rounds of one method minus those of another."""
    wide = tables.pivot_seeds(frame, metric)
    return (wide[better] - wide[worse]).dropna().to_numpy()


def readings(settings: Iterable[Setting], better: str, worse: str) -> pd.DataFrame:
    """The paired difference in every recorded reading: partition and accuracy."""
    table = []
    for setting, (voice, coded) in itertools.product(settings, VOICES.items()):
        a, b = better + coded, worse + coded
        try:
            frame = setting.runs(a, b)
        except Missing:
            continue
        for metric in METRICS:
            values = difference(frame, a, b, metric)
            mean, low, high = statistics.mean_interval(values)
            table.append(
                {
                    "setting": f"{setting}, {voice}",
                    "accuracy": "clients' shares" if metric == METRICS[0] else "global test set",
                    "difference (points)": f"{mean:+.2f}",
                    "95 % interval": f"{low:+.2f} to {high:+.2f}",
                    "seeds": len(values),
                }
            )
    return pd.DataFrame(table)


def other_voice(find: Callable[..., Found], *methods: str) -> tuple[str, str]:
    """What `find` finds as coded: a sentence of the note and the verdict; empty where it is not recorded."""
    try:
        found = find(*(method + VOICES["as coded"] for method in methods))
    except Missing:
        return "", ""
    return f" As coded: {found}, {found.verdict}.", found.verdict


def unit_of(metric: str) -> str:
    """The unit of a difference in a metric."""
    return "nats" if metric == "train_loss" else "points"


def level(setting: Setting, method: str, metric: str = METRICS[0]):
    """Does one more run of ours reach what is printed, in % (or nats)?"""

    @decided
    def evidence(claim: Claim) -> Evidence:
        printed, room = number(claim.printed), claim.tolerance or 0
        found = {}
        for voice, coded in VOICES.items():
            with contextlib.suppress(Missing if coded else ()):
                values = tables.pivot_seeds(setting.runs(method + coded), metric)[method + coded]
                found[voice] = same(values, printed, unit_of(metric), room, one_more)
        columns = ["voice", "mean", "low", "high", "runs", "the printed value"]
        table = pd.DataFrame(
            [(v, f.mean, f.low, f.high, f.seeds, f.verdict) for v, f in found.items()],
            columns=columns,
        )
        written, coded = found["as written"], found.get("as coded")
        note = (
            f"Last ten rounds, {written.seeds} runs, {setting}; the interval is for one more run."
            f"{written.why}"
        )
        note += f" As coded: {coded}, {coded.verdict}." if coded else ""
        return Evidence(
            written.verdict, written.mean, written.low, written.high, note, table.round(2),
            coded.verdict if coded else "",
        )  # fmt: skip

    return evidence


def order(
    setting: Setting, better: str, worse: str, metric: str = METRICS[0], also=(), shown: int = 0
):
    """Is one method above another (for a loss: below)? `shown`: the rounds of the printed figure."""
    sign = -1 if metric == "train_loss" else 1

    @decided
    def evidence(claim: Claim) -> Evidence:
        def find(a: str, b: str) -> Found:
            return higher(sign * difference(setting.runs(a, b), a, b, metric), unit_of(metric))

        found, (said, coded) = find(better, worse), other_voice(find, better, worse)
        unit = "nats less" if sign < 0 else "points more"
        ours = int(setting.runs(better, worse)["rounds"].max())
        when = f", after {ours} of the figure's {shown} rounds" if shown > ours else ""
        return Evidence(
            found.verdict, found.mean, found.low, found.high,
            f"{unit.capitalize()} of {better} than of {worse}, {found.seeds} paired runs, {setting}, "
            f"{metric.replace('_', ' ')}{when}.{found.why}{said}",
            readings((setting, *also), better, worse), coded,
        )  # fmt: skip

    return evidence


def relative(setting: Setting, better: str, worse: str):
    """Is there a gain, and is the printed one, in %, one that a single pair of runs shows?"""

    @decided
    def evidence(claim: Claim) -> Evidence:
        def find(a: str, b: str) -> tuple[Found, Found]:
            wide = tables.pivot_seeds(setting.runs(a, b), METRICS[0]).dropna()
            gains, unit = 100 * (wide[a] / wide[b] - 1), "% relatively"
            there, printed = higher(gains, unit), number(claim.printed)
            pair = same(gains, printed, unit, claim.tolerance or 0, one_more)
            word = whole((there.verdict, pair.verdict))
            why = (there.why or pair.why) if word == "undecided" else ""
            return there, replace(pair, verdict=word, why=why)

        there, found = find(better, worse)
        said, coded = other_voice(lambda a, b: find(a, b)[1], better, worse)
        return Evidence(
            found.verdict, found.mean, found.low, found.high,
            f"Relative gain of {better} over {worse} in %, {found.seeds} paired runs, {setting}; the interval is "
            f"for one more pair, that of the mean is {statistics.format_interval(there.mean, there.low, there.high)}."
            f"{found.why}{said}",
            readings((setting,), better, worse), coded,
        )  # fmt: skip

    return evidence


def everywhere(
    settings: Iterable[Setting], better: str, rivals: tuple[str, ...], gap=difference, unit="points"
):
    """Is one method above all rivals in all settings? One setting that differs is enough to differ."""

    @decided
    def evidence(claim: Claim) -> Evidence:
        table, tried, lacking = [], [], ""
        for setting, rival in itertools.product(settings, rivals):
            row = (str(setting), rival)
            try:
                found = higher(gap(setting.runs(better, rival), better, rival), unit)
            except Missing as missing:
                table.append((*row, np.nan, np.nan, np.nan, missing.verdict))
                tried.append(missing.verdict)
                lacking = lacking or f" {missing}."
                continue
            tried.append(found.verdict)
            word = "no-data" if setting.task == "cifar100" else found.verdict
            table.append((*row, found.mean, found.low, found.high, word))
        columns = ["setting", f"{better} against", unit, "low", "high", "verdict"]
        shown = pd.DataFrame(table, columns=columns).round(2)
        words = list(shown["verdict"])
        count = ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words))
        note = f"Is {better} above ({unit})? Of {len(words)} comparisons: {count}.{lacking}"
        if any(setting.task == "cifar100" for setting in settings):
            note += " For CIFAR-100 no network is named: its rows are of one of ours."
        ours, word = f"{words.count('agrees')} of {len(words)}", whole(words)
        other = whole(tried) if word == "no-data" and not lacking else ""
        return Evidence(word, ours, note=note, table=shown, substitute=other)

    return evidence
