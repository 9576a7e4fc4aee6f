"""What the claims on training share: recorded sweeps, judged against what is printed.

An order is judged by the 95 % interval of the paired mean difference. It agrees if that lies on the
printed side of zero, and differs if all of it stays below the smallest effect that matters. A level
is judged by the 95 % prediction interval of one more run of ours, for the papers print single runs. It
differs if the printed value lies outside, and agrees if all of it lies within the smallest effect
that matters. What is neither is undecided, as is everything with fewer than five seeds. The published
curves are of the authors' partition (equal sizes) and accuracy (under the clients' class shares), so that
reading decides; the others are in the table of the evidence.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from pathlib import Path

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Decision, Evidence
from companion.runs import atomic, records, statistics, tables
from companion.runs.experiments import message_label
from companion.runs.statistics import UNDECIDED, combine_verdicts
from fedstas.sim import tasks

RESULTS = Path(__file__).resolve().parents[3] / "results"
MIN_PAIRS = 2  # seeds: with one there is no interval
METRICS = ("client_accuracy", "test_accuracy")
# The method as the paper writes it, and as the released code has it: what is added to a method's name.
IMPLEMENTATIONS = {"as written": "", "as coded": "-authors-dec"}
UNIT_OF_METRIC = {"train_loss": "nats", "client_accuracy": "points", "test_accuracy": "points"}


class MissingRuns(Exception):
    """The runs that would decide a claim are not recorded (verdict `pending`) or cannot be had (`no-data`)."""

    def __init__(self, verdict: str, reason: str):
        super().__init__(reason)
        self.verdict = verdict


@dataclass(frozen=True)
class Setting:
    """A setting of a sweep, by which runs are chosen; a field that is None allows every value.

    Its data set may be one that the project cannot obtain.
    """

    sweep: str
    task: str = "mnist"
    partition: str = "dirichlet_fixed_size"
    concentration: float | None = 0.01
    steps: int | None = 3  # local steps, as printed
    clients: int | None = None
    clients_per_round: int | None = None
    prox: float | None = None
    measure: str | None = None  # of similarity, for methods that have one
    message: str | None = None  # what participants send, a label of `MESSAGES`
    # Fewer seeds count as none. More than `MIN_PAIRS` where runs take hours and are recorded a few at a time: what a
    # claim comes to is then said once, of all its seeds.
    min_seeds: int | None = None

    def __str__(self) -> str:
        skew = "" if self.concentration is None else f" {self.concentration:g}"
        return f"{self.task}, {self.partition.replace('_', ' ')}{skew}"

    def runs(self, *methods: str) -> pd.DataFrame:
        """Return the recorded runs of these methods, a row per run and round.

        Raises:
            MissingRuns: a method has fewer than `min_seeds` seeds, by default `MIN_PAIRS`.
        """
        frame = load_sweep(self.sweep)
        if frame is not None:
            rows = (frame["task"] == self.task) & (frame["partition"] == self.partition)
            if self.concentration is not None:
                rows &= np.isclose(frame["concentration"], self.concentration)
            for name in ("steps", "clients", "clients_per_round", "prox"):
                if (value := getattr(self, name)) is not None:
                    rows &= frame[name] == value
            if self.measure is not None:
                rows &= frame["measure"].isin([self.measure, ""])
            if self.message is not None:
                rows &= frame["message"] == self.message
            frame = frame[rows]
        least = self.min_seeds or MIN_PAIRS
        too_few = [method for method in methods if count_seeds(frame, method) < least]
        if not too_few:
            return frame[frame["method"].isin(methods)]
        check_obtainable(self.task)
        counts = {"steps": "local steps", "clients": "clients", "clients_per_round": "a round"}
        chosen = {words: getattr(self, name) for name, words in counts.items()}
        where = ", ".join([str(self), *(f"{n} {words}" for words, n in chosen.items() if n)])
        raise MissingRuns(
            "pending",
            f"sweep {self.sweep!r} ({where}) does not hold {least} seeds of {', '.join(too_few)} yet: "
            f"`fedstas sweep {self.sweep} --profile paper --folder results` records them",
        )


def count_seeds(frame: pd.DataFrame | None, method: str) -> int:
    """Count the recorded seeds of a method."""
    return 0 if frame is None else frame.loc[frame["method"] == method, "seed"].nunique()


def check_obtainable(task: str) -> None:
    """Raise `MissingRuns` with `no-data` for a data set that the project cannot load.

    Which files lie in the data folder of this machine is not asked: a verdict comes from what is recorded.
    """
    if task not in tasks.names():
        names = ", ".join(tasks.names())
        raise MissingRuns("no-data", f"{task} is not among the data sets that can be had ({names})")


def load_sweep(sweep: str) -> pd.DataFrame | None:
    """Return all runs of a sweep, or None where nothing is recorded; read once while its files stay the same."""
    folder = RESULTS / sweep
    patterns = ("*.json", records.RUNS, records.ROWS)
    paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return _load(str(folder), tuple(map(atomic.stamp, paths))) if paths else None


@lru_cache(maxsize=16)
def _load(folder: str, _stamps: tuple) -> pd.DataFrame:
    """Load a sweep with the local settings `steps`, `prox`, the similarity `measure` and the `message` as columns."""
    frame, identities = records.load(folder), records.identities(folder)
    methods = {run: each["method"] for run, each in identities.items()}
    frame["message"] = frame["run"].map({run: message_label(i) for run, i in identities.items()})
    for name in ("steps", "prox"):
        frame[name] = frame["run"].map({run: m["local"][name] for run, m in methods.items()})
    measures = frame["run"].map(
        {run: m["clients"].get("measure", "") for run, m in methods.items()}
    )
    # of other methods the measure is missing, or means nothing
    return frame.assign(measure=measures.where(frame["method"] == "clustered-similarity", ""))


def verdict_if_missing(decide: Decision) -> Decision:
    """Wrap a deciding function: where runs are missing, its evidence is `pending` or `no-data`."""

    @wraps(decide)
    def wrapped(claim: Claim) -> Evidence:
        """Decide the claim, or return that its runs are missing."""
        try:
            return decide(claim)
        except MissingRuns as missing:
            return Evidence(missing.verdict, note=f"{missing}.")

    return wrapped


def on_substitute(decide: Decision, reason: str) -> Decision:
    """Wrap a function that decides on a substitute: the verdict is `no-data`, its own that on the substitute."""

    @wraps(decide)
    def wrapped(claim: Claim) -> Evidence:
        """Decide the claim on the substitute, and return the verdict as that on the substitute."""
        evidence = decide(claim)
        judged = evidence.verdict in statistics.CLAIM_VERDICTS
        return replace(
            evidence,
            verdict="no-data",
            substitute=evidence.verdict if judged else "",
            note=f"{reason} {evidence.note}",
        )

    return wrapped


@dataclass(frozen=True)
class Judgement:
    """The verdict on values, one per seed, with their mean and the interval that decides."""

    verdict: str
    mean: float
    low: float
    high: float
    seeds: int
    why: str = ""  # a sentence, where the verdict needs one

    def __str__(self) -> str:
        return statistics.format_interval(self.mean, self.low, self.high)

    @property
    def cells(self) -> tuple[float, float, float, str]:
        """Mean, low, high and verdict: the cells of a table's row."""
        return self.mean, self.low, self.high, self.verdict

    @property
    def why_undecided(self) -> str:
        """The sentence that says why it is undecided, if it is."""
        return self.why if self.verdict == UNDECIDED else ""

    def shift(self, amount: float) -> Judgement:
        """Return the judgement with the amount added to the mean and the interval."""
        return replace(
            self, mean=self.mean + amount, low=self.low + amount, high=self.high + amount
        )

    def evidence(self, note: str, table: pd.DataFrame | None = None, coded: str = "") -> Evidence:
        """Return the evidence with this verdict, mean and interval."""
        return Evidence(self.verdict, self.mean, self.low, self.high, note, table, coded)


def deciding_part(parts: Iterable[Judgement]) -> Judgement:
    """Return the judgement that decides a claim of several parts: of those that have the combined verdict, the one whose
    interval begins lowest."""
    parts = list(parts)
    verdict = combine_verdicts(part.verdict for part in parts)
    return min((part for part in parts if part.verdict == verdict), key=lambda part: part.low)


def evidence_of_parts(
    parts: dict[object, Judgement], columns: tuple[str, str], note: str, decimals: int = 4
) -> Evidence:
    """Return the evidence of a claim of several parts: the one that decides, and a table of all.

    Args:
        parts: the judgement of each part by its name.
        columns: the names of the table's columns for the part and the mean.
        note: what the mean is; the number of seeds is added.
        decimals: of the numbers in the table.
    """
    part = deciding_part(parts.values())
    rows = [(name, *each.cells) for name, each in parts.items()]
    table = pd.DataFrame(rows, columns=[*columns, "low", "high", "verdict"]).round(decimals)
    return part.evidence(f"{note}, {part.seeds} paired runs.{part.why_undecided}", table)


def _judgement(
    values, verdict: str, interval: tuple[float, float, float], undecided: str, differs: str = ""
) -> Judgement:
    """Return the judgement; with too few seeds it is undecided.

    Raises:
        ValueError: if a value is missing (NaN).
    """
    if np.isnan(np.asarray(values, dtype=float)).any():
        raise ValueError("a value is missing (NaN): leave out the seeds that not all methods have")
    if len(values) < statistics.MIN_SEEDS:
        verdict, undecided = UNDECIDED, f"there are fewer than {statistics.MIN_SEEDS} seeds"
    reasons = {UNDECIDED: f" Undecided: {undecided}.", statistics.DIFFERS: differs}
    return Judgement(verdict, *interval, len(values), reasons.get(verdict, ""))


def format_amount(value: float, unit: str) -> str:
    """Format a number with its unit, as in `1 point`."""
    return f"{value:g} {unit.removesuffix('s') if value == 1 else unit}"


def corrected_level(comparisons: int) -> float:
    """Return the level of an interval with Bonferroni's correction for so many comparisons."""
    return 1 - (1 - statistics.LEVEL) / comparisons


def judge_higher(
    values, unit: str, min_effect: float | None = None, comparisons: int = 1
) -> Judgement:
    """Judge whether differences, one per seed, are above zero; `min_effect` is by default that of the unit.

    For one of several `comparisons` of a claim to differ, its interval with Bonferroni's correction holds no gain that
    matters.
    """
    min_effect = statistics.MIN_EFFECT[unit] if min_effect is None else min_effect
    amount = format_amount(min_effect, unit)
    interval = statistics.mean_interval(values)
    corrected = statistics.mean_interval(values, corrected_level(comparisons))
    gain = f"{amount}, which matters" if min_effect else "more"
    small = f" A gain of {amount}, the smallest that matters, is outside the interval."
    undecided = f"the interval holds both no gain and {gain}"
    if interval.high < min_effect:
        undecided = f"no gain of {amount} is in the interval, but among {comparisons} comparisons that may be chance"
    return _judgement(
        values,
        statistics.judge_increase(interval, min_effect, corrected.high),
        interval,
        undecided=undecided,
        differs=small if interval.high >= 0 and min_effect else "",
    )


def judge_not_lower(values, unit: str, comparisons: int = 1) -> Judgement:
    """Judge whether differences, one per seed, are not below zero; a loss too small to matter is none.

    For one of several `comparisons` to differ, its interval with Bonferroni's correction is below zero.
    """
    min_effect = statistics.MIN_EFFECT[unit]
    interval = statistics.mean_interval(values)
    corrected = statistics.mean_interval(values, corrected_level(comparisons))
    amount = format_amount(min_effect, unit)
    undecided = f"the interval holds both no loss and one of more than {amount}, which matters"
    if interval.high < 0:
        undecided = (
            f"an interval lies below zero, which among {comparisons} comparisons may be chance"
        )
    verdict = statistics.judge_no_decrease(interval, min_effect, corrected.high)
    return _judgement(values, verdict, interval, undecided)


def judge_equal(
    values,
    printed: float,
    unit: str,
    tolerance: float = 0.0,
    estimate: Callable[..., statistics.Interval] = statistics.mean_interval,
    comparisons: int = 1,
) -> Judgement:
    """Judge whether values, one per seed, are the printed one up to its tolerance, by the interval of `estimate`.

    For one of several `comparisons` of a claim to differ, its interval with Bonferroni's correction does.
    """
    interval, min_effect = estimate(values), statistics.MIN_EFFECT[unit]
    amount = format_amount(max(tolerance, min_effect), unit)
    corrected = estimate(values, corrected_level(comparisons))
    undecided = f"the interval holds {printed:g} and what is more than {amount} from it"
    if interval.high < printed - tolerance or interval.low > printed + tolerance:
        undecided = f"the interval does not hold {printed:g}, but among {comparisons} comparisons that may be chance"
    return _judgement(
        values,
        statistics.judge_equality(interval, printed, tolerance, min_effect, corrected),
        interval,
        undecided=undecided,
    )


def judge_near_zero(values, unit: str, comparisons: int = 1) -> Judgement:
    """Judge whether differences, one per seed, are too small to matter."""
    return judge_equal(values, 0, unit, statistics.MIN_EFFECT[unit], comparisons=comparisons)


def count_predicted(
    frame: pd.DataFrame, printed: dict[str, float], metric: str = METRICS[0]
) -> str:
    """Count the printed final accuracies (in %, by method) inside the prediction interval: `1 of 3`.

    The frame is of one partition: a level is one of a method *and* a partition, and mixing two counts neither.
    """
    if frame["partition"].nunique() > 1:
        names = ", ".join(frame["partition"].unique())
        raise ValueError(f"runs of several partitions ({names}): select one")
    inside = []
    for method, value in printed.items():
        values = tables.final_values(frame[frame["method"] == method], metric)["value"]
        if len(values) >= statistics.MIN_SEEDS:
            _, low, high = statistics.prediction_interval(values)
            inside.append(low <= value <= high)
    too_few = len(inside) < len(printed)
    return f"({tables.NOT_RECORDED})" if too_few else f"{sum(inside)} of {len(inside)}"


def first_number(text: str | float) -> float:
    """Return the first number of what is printed."""
    if isinstance(text, (int, float)):
        return float(text)
    numerals = "".join(c if c.isdigit() or c in ".-" else " " for c in text.replace("−", "-"))
    return float(next(w for w in numerals.split() if any(c.isdigit() for c in w)))


def differences_by_seed(
    frame: pd.DataFrame, better: str, worse: str, metric: str = METRICS[0]
) -> np.ndarray:
    """Return one method's mean of the last ten rounds minus another's, seed by seed [seeds]."""
    wide = tables.pivot_seeds(frame, metric)
    return (wide[better] - wide[worse]).dropna().to_numpy()


def readings_table(
    settings: Iterable[Setting], better: str, worse: str, metric: str = METRICS[0]
) -> pd.DataFrame:
    """Tabulate the paired difference in every recorded reading: setting, implementation and accuracy; or, of a claim on
    the training loss, how many nats less."""
    of_loss = metric == "train_loss"
    names = {"client_accuracy": "clients' shares", "test_accuracy": "global test set"}
    measured, difference, digits = "accuracy", "difference (points)", 2
    if of_loss:
        names = {"train_loss": "training loss"}
        measured, difference, digits = "measured", "nats less", 3
    rows = []
    for setting, (name, suffix) in itertools.product(settings, IMPLEMENTATIONS.items()):
        first, second = better + suffix, worse + suffix
        try:
            frame = setting.runs(first, second)
        except MissingRuns:
            continue
        for each, words in names.items():
            values = differences_by_seed(frame, first, second, each)
            mean, low, high = statistics.mean_interval(-values if of_loss else values)
            rows.append(
                {
                    "setting": f"{setting}, {name}",
                    measured: words,
                    difference: f"{mean:+.{digits}f}",
                    "95 % interval": f"{low:+.{digits}f} to {high:+.{digits}f}",
                    "seeds": len(values),
                }
            )
    return pd.DataFrame(rows)


def judge_both(judge: Callable[..., Judgement], *methods: str) -> tuple[Judgement, str, str]:
    """Judge methods as their paper writes them, and as their authors coded them.

    Args:
        judge: takes the names of methods, and judges their recorded runs.
        methods: the names as written.

    Returns:
        The judgement as written; a sentence on the one as coded, and its verdict, both empty where its runs are
        not recorded.
    """
    as_written = judge(*methods)
    try:
        as_coded = judge(*(method + IMPLEMENTATIONS["as coded"] for method in methods))
    except MissingRuns:
        return as_written, "", ""
    return as_written, f" As coded: {as_coded}, {as_coded.verdict}.", as_coded.verdict


def decide_level(
    setting: Setting,
    method: str,
    metric: str = METRICS[0],
    also: Iterable[Setting] = (),
    last: int = tables.FINAL_ROUNDS,
) -> Decision:
    """Return a function that decides whether one more run of ours reaches the printed level, in % (or nats).

    Judged is the mean of the `last` rounds. Settings in `also` are shown in its table and decide nothing.
    """
    unit = UNIT_OF_METRIC[metric]

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge the level of the method as written; note that as coded, too, where such runs are recorded."""
        rows = []

        def judge_in(place: Setting, name: str) -> Judgement:
            """Judge whether the prediction interval of a method in a setting holds the printed value; add a row."""
            values = tables.pivot_seeds(place.runs(name), metric, last)[name]
            printed, tolerance = first_number(claim.printed), claim.tolerance or 0
            predict = statistics.prediction_interval
            part = judge_equal(values, printed, unit, tolerance, predict)
            voice = "as written" if name == method else "as coded"
            rows.append(
                (str(place), voice, part.mean, part.low, part.high, part.seeds, part.verdict)
            )
            return part

        as_written, sentence, coded = judge_both(partial(judge_in, setting), method)
        for place in also:
            judge_both(partial(judge_in, place), method)
        columns = ["setting", "implementation", "mean", "low", "high", "runs", "the printed value"]
        when = "Last ten rounds" if last == tables.FINAL_ROUNDS else "Last round"
        note = f"{when}, {as_written.seeds} runs, {setting}; the interval is for one more run."
        table = pd.DataFrame(rows, columns=columns).round(2)
        return as_written.evidence(f"{note}{as_written.why}{sentence}", table, coded)

    return decide


def decide_order(
    setting: Setting,
    better: str,
    worse: str,
    metric: str = METRICS[0],
    also: Iterable[Setting] = (),
    rounds_of_figure: int = 0,
) -> Decision:
    """Return a function that decides whether one method is above another (for a loss: below).

    Settings in `also` are shown in its table and decide nothing.
    """
    sign = -1 if metric == "train_loss" else 1

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge the order of the methods as written; note that as coded, too, where such runs are recorded."""

        def judge(a: str, b: str) -> Judgement:
            """Judge whether method a is above method b."""
            values = sign * differences_by_seed(setting.runs(a, b), a, b, metric)
            return judge_higher(values, UNIT_OF_METRIC[metric])

        as_written, sentence, coded = judge_both(judge, better, worse)
        unit = "Nats less" if sign < 0 else "Points more"
        ours = int(setting.runs(better, worse)["rounds"].max())
        shorter = f", after {ours} of the figure's {rounds_of_figure} rounds"
        return as_written.evidence(
            f"{unit} of {better} than of {worse}, {as_written.seeds} paired runs, {setting}, "
            f"{metric.replace('_', ' ')}{shorter if rounds_of_figure > ours else ''}.{as_written.why}{sentence}",
            readings_table((setting, *also), better, worse, metric),
            coded,
        )

    return decide


def decide_gain(
    setting: Setting,
    better: str,
    worse: str,
    also: Iterable[Setting] = (),
    unit: str = "% relatively",
) -> Decision:
    """Return a function that decides whether there is a gain, and a single pair of runs shows the printed one.

    The gain is in points, or relative to the worse method in %, as the unit says. Settings in `also` are shown in its
    table and decide nothing.
    """

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge the gain for the methods as written; note it as coded, too, where such runs are recorded."""

        def judge_gains(a: str, b: str) -> tuple[Judgement, Judgement]:
            """Judge the mean gain of a over b, and that of a single pair of runs."""
            wide = tables.pivot_seeds(setting.runs(a, b), METRICS[0]).dropna()
            relative = unit == "% relatively"
            gains = 100 * (wide[a] / wide[b] - 1) if relative else wide[a] - wide[b]
            printed, tolerance = first_number(claim.printed), claim.tolerance or 0
            gain = judge_higher(gains, unit, comparisons=2)

            def predict(_, level: float = statistics.LEVEL) -> statistics.Interval:
                """Return where the gain of one more pair lies: the paper prints one, of runs that share no draw."""
                return statistics.gain_prediction_interval(wide[a], wide[b], relative, level)

            pair = judge_equal(gains, printed, unit, tolerance, predict, comparisons=2)
            verdict = combine_verdicts((gain.verdict, pair.verdict))
            why = (gain.why or pair.why) if verdict == UNDECIDED else ""
            return gain, replace(pair, verdict=verdict, why=why)

        def judge(a: str, b: str) -> Judgement:
            """Judge whether a single pair of runs shows the printed gain of a over b."""
            _, pair = judge_gains(a, b)
            return pair

        as_written, sentence_as_coded, verdict_as_coded = judge_both(judge, better, worse)
        gain, _ = judge_gains(better, worse)
        words = f"Relative gain of {better} over {worse} in %"
        if unit == "points":
            words = f"Points of {better} above {worse}"
        return as_written.evidence(
            f"{words}, {as_written.seeds} paired runs, {setting}; the interval is "
            f"for one more pair of separate runs, that of the mean gain is {gain}.{as_written.why}{sentence_as_coded}",
            readings_table((setting, *also), better, worse),
            verdict_as_coded,
        )

    return decide


def decide_everywhere(
    settings: Iterable[Setting],
    better: str,
    rivals: tuple[str, ...],
    differences: Callable[[pd.DataFrame, str, str], np.ndarray] = differences_by_seed,
    unit: str = "points",
) -> Decision:
    """Return a function that decides whether one method is above all rivals in all settings.

    One setting that differs is enough to differ. `differences(frame, better, worse)` are one per seed.
    """
    pairs = list(itertools.product(settings, rivals))

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge the method against every rival in every setting, and combine the verdicts."""
        rows, reasons, missing_note = [], [], ""
        for setting, rival in pairs:
            row = (str(setting), rival)
            try:
                frame = setting.runs(better, rival)
                values = differences(frame, better, rival)
            except MissingRuns as missing:
                rows.append((*row, np.nan, np.nan, np.nan, missing.verdict))
                missing_note = missing_note or f" {missing}."
                continue
            judgement = judge_higher(values, unit, comparisons=len(pairs))
            spacing = frame["round"].drop_duplicates().sort_values().diff().max()
            if unit == "rounds" and spacing > statistics.MIN_EFFECT["rounds"]:
                judgement = replace(judgement, verdict=UNDECIDED)
                reasons.append(f"{setting} is evaluated every {spacing:g} rounds only")
            # Final accuracies that are equal in all seeds are of equal runs; equal numbers of rounds can be chance.
            if not np.any(values) and unit == "points":
                judgement = replace(judgement, verdict=UNDECIDED)
                reasons.append(f"on {setting} {better} and {rival} made the same runs")
            rows.append((*row, *judgement.cells))
        columns = ["setting", f"{better} against", unit, "low", "high", "verdict"]
        table = pd.DataFrame(rows, columns=columns).round(2)
        listed = list(table["verdict"])
        note = f"Is {better} above ({unit})? Of {len(listed)} comparisons: {count_each(listed)}.{missing_note}"
        for reason in dict.fromkeys(reasons):
            note += f" Undecided: {reason}."
        if any(setting.task == "cifar100" for setting, _ in pairs):
            note += (
                " For CIFAR-100 no network is named: its rows are with the network that we tried."
            )
        if any(setting.partition == "iid" for setting, _ in pairs):
            note += (
                " On IID data the authors' code of December 2024 draws ten clients uniformly, whatever the "
                "method; these runs draw from strata, as the text has it."
            )
        ours = f"{listed.count('agrees')} of {len(listed)}"
        return Evidence(combine_verdicts(listed), ours, note=note, table=table)

    return decide


def count_each(verdicts: list[str]) -> str:
    """Format how often each verdict is in a list, as in `2 agrees, 1 differs`, in the order of first occurrence."""
    return ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
