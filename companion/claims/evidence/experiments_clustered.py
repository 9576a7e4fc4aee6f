"""Clustered Sampling: Fig. 1 from recorded runs; the CIFAR-10 figures where the data are, else on a substitute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, wraps

import numpy as np
import pandas as pd

from companion.claims.evidence.experiments import (
    FEWEST,
    MATTERS,
    RESULTS,
    WEIGHED,
    Found,
    Missing,
    Setting,
    decided,
    decisive,
    difference,
    exactly,
    higher,
    not_lower,
    order,
    recorded,
    same,
    seeds,
    unit_of,
    whole,
)
from companion.claims.registry import Claim, Evidence, claim
from companion.runs import records, statistics, tables
from fedstas.sim import partition

NATS_BELOW_MD = "nats that the training loss is below MD sampling's, in the comparison that decides"

ALGORITHM = {"clustered-size": "Algorithm 1", "clustered-similarity": "Algorithm 2"}
SCHEMES = ("md", *ALGORITHM, "target")
FIGURE_1 = 200  # rounds that the paper's figure shows
FIGURE_1_SWEEPS = ("clustered-fig-1", "one-digit")  # of so many rounds, and of 60


def first_recorded(*sweeps: str) -> str:
    """The first of the sweeps that has seeds enough of all four schemes; the last one if none has."""
    enough = (n for n in sweeps if min(seeds(recorded(n), m) for m in SCHEMES) >= FEWEST)
    return next(enough, sweeps[-1])


class OneDigit(Setting):
    """Fig. 1: all of its rounds where they are recorded, else as many as there are."""

    def runs(self, *methods: str) -> pd.DataFrame:
        """As of any setting."""
        found = Setting(first_recorded(*FIGURE_1_SWEEPS), self.task, self.partition, None, None)
        return found.runs(*methods)


ONE_DIGIT = OneDigit("one-digit", partition="by_class", concentration=None, steps=None)

size_loss = order(ONE_DIGIT, "clustered-size", "md", "train_loss", shown=FIGURE_1)
claim(
    "clustered-fig-1-size-loss",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 1 has a smaller training loss than MD sampling (one digit per client).",
    printed="smaller",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="nats that Algorithm 1 is below MD sampling",
    order=530,
)(size_loss)
size_accuracy = order(ONE_DIGIT, "clustered-size", "md", "test_accuracy", shown=FIGURE_1)
claim(
    "clustered-fig-1-size-accuracy",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 1 has a higher test accuracy than MD sampling (one digit per client).",
    printed="higher",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="points that Algorithm 1 is above MD sampling",
    order=510,
)(size_accuracy)
similarity_loss = order(ONE_DIGIT, "clustered-similarity", "md", "train_loss", shown=FIGURE_1)
claim(
    "clustered-fig-1-similarity-loss",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 2 has a smaller training loss than MD sampling (one digit per client).",
    printed="smaller",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="nats that Algorithm 2 is below MD sampling",
    order=500,
)(similarity_loss)
similarity_accuracy = order(
    ONE_DIGIT, "clustered-similarity", "md", "test_accuracy", shown=FIGURE_1
)
claim(
    "clustered-fig-1-similarity-accuracy",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 2 has a higher test accuracy than MD sampling (one digit per client).",
    printed="higher",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="points that Algorithm 2 is above MD sampling",
    order=480,
)(similarity_accuracy)


def _drawn() -> pd.DataFrame:
    """One row per recorded round of Fig. 1: distinct clients and distinct digits of its cohort."""
    runs = ONE_DIGIT.runs(*SCHEMES).drop_duplicates("run").set_index("run")
    sweep = first_recorded(*FIGURE_1_SWEEPS)
    labels = records.majority_labels(sweep, RESULTS)
    return pd.DataFrame(
        {
            "method": runs["method"][run],
            "seed": runs["seed"][run],
            "round": number,
            "clients": len(set(cohort.tolist())),
            "digits": len(set(labels[run][cohort].tolist())),
        }
        for run, cohorts in records.cohorts(sweep, RESULTS).items()
        if run in runs.index
        for number, cohort in enumerate(cohorts, 1)
    )


def _table(drawn: pd.DataFrame, what: str) -> pd.DataFrame:
    table = drawn.groupby("method")[what].agg(["mean", "min", "max"]).loc[list(SCHEMES)]
    return table.round(2).reset_index()


def more_digits(method: str):
    """Does a scheme draw more digits a round than MD sampling?"""

    @decided
    def evidence(claim: Claim) -> Evidence:
        drawn = _drawn()
        wide = drawn.pivot_table(index="seed", columns="method", values="digits")
        found = higher(wide[method] - wide["md"], "digits")
        return Evidence(
            found.verdict, found.mean, found.low, found.high,
            f"Distinct digits a round more than under MD sampling, {len(wide)} paired runs.{found.why}",
            _table(drawn, "digits"),
        )  # fmt: skip

    return evidence


size_digits, similarity_digits = more_digits("clustered-size"), more_digits("clustered-similarity")
claim(
    "clustered-fig-1-size-digits",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 1 draws clients of more digits a round than MD sampling.",
    printed="more",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="more digits a round than under MD sampling",
    order=520,
)(size_digits)
claim(
    "clustered-fig-1-similarity-digits",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 2 draws clients of more digits a round than MD sampling.",
    printed="more",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="more digits a round than under MD sampling",
    order=490,
)(similarity_digits)


@claim(
    "clustered-6-md-digits",
    paper="clustered",
    place="Sec. 6",
    kind="number",
    statement="With MD sampling, clients of 6 to 8 different digits are generally drawn in a round. "
    "(Judged by recorded runs.)",
    printed="6 to 8",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="of the rounds have 6 to 8 digits",
    fact="md-digits",
    order=240,
)
@decided
def digits_of_md(claim: Claim) -> Evidence:
    """Does MD sampling generally draw 6 to 8 digits? Generally: in more than three rounds of four."""
    drawn = _drawn().query("method == 'md'")
    digits = drawn["digits"]
    shares = digits.between(6, 8).groupby(drawn["seed"]).mean()
    found, mean = higher(shares - 0.75, "of a share"), float(shares.mean())
    table = digits.value_counts().sort_index().rename_axis("digits").rename("rounds").reset_index()
    return Evidence(
        found.verdict, mean, found.low + 0.75, found.high + 0.75,
        f"Share of rounds with 6 to 8, {len(digits)} rounds of {found.seeds} runs; generally means "
        f"more than 0.75.{found.why}",
        table,
    )  # fmt: skip


@claim(
    "clustered-6-ten-clients",
    paper="clustered",
    place="Sec. 6",
    kind="number",
    statement="Clustered sampling always aggregates ten different clients in this setting. (Judged by "
    "recorded runs.)",
    printed=10,
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="is the fewest different clients in a recorded round",
    fact="ten-clients",
    order=290,
)
@decided
def ten_clients(claim: Claim) -> Evidence:
    """Do the clustered schemes always aggregate ten different clients?"""
    drawn = _drawn()
    fewest = int(drawn[drawn["method"].isin(ALGORITHM)]["clients"].min())
    runs = drawn["seed"].nunique()
    word, note = exactly(fewest == 10), "Fewest different clients in a round of Algorithm 1 or 2."
    if runs < FEWEST:
        word, note = "undecided", f"{note} Undecided: there are fewer than {FEWEST} seeds."
    return Evidence(word, fewest, note=note, table=_table(drawn, "clients"))


@claim(
    "clustered-6-finds-groups",
    paper="clustered",
    place="Sec. 6",
    kind="superiority",
    statement="Algorithm 2 misses some digits in early rounds and then quickly finds the ten groups.",
    printed="ten groups",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="digits a round in the last 20 rounds",
    order=230,
)
@decided
def finds_the_groups(claim: Claim) -> Evidence:
    """Does Algorithm 2 miss digits in early rounds and then find the ten groups (9.5 digits a round)?"""
    drawn = _drawn().query("method == 'clustered-similarity'")
    early, late = drawn["round"] <= 10, drawn["round"] > drawn["round"].max() - 20
    first, last = (drawn[at].groupby("seed")["digits"].mean() for at in (early, late))
    missed, found = higher(9.5 - first, "digits"), higher(last - 9.5, "digits")
    word, low, high = whole((missed.verdict, found.verdict)), found.low + 9.5, found.high + 9.5
    rows = [
        ("rounds 1 to 10", *statistics.mean_interval(first)),
        ("the last 20", *statistics.mean_interval(last)),
    ]
    return Evidence(
        word, float(last.mean()), low, high,
        f"Digits a round in the last 20 of {drawn['round'].max()} rounds; {first.mean():.2f} in the first ten."
        f"{(missed.why or found.why) if word == 'undecided' else ''}",
        pd.DataFrame(rows, columns=["rounds", "digits a round", "low", "high"]).round(2),
    )  # fmt: skip


@claim(
    "clustered-fig-1-target",
    paper="clustered",
    place="Fig. 1",
    kind="figure",
    statement="Algorithm 2 converges to the performance of the ideal target sampling. (Read as: it ends "
    "within one point of it.)",
    printed="the same",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="points that Algorithm 2 is above the target where our runs end",
    tolerance=1,
    order=550,
)
@decided
def as_the_target(claim: Claim) -> Evidence:
    """Does Algorithm 2 end within the tolerance (points) of the target's accuracy, after Fig. 1's rounds?

    Runs that end earlier cannot say where the two converge to: they decide nothing.
    """
    frame = ONE_DIGIT.runs("clustered-similarity", "target")
    values = difference(frame, "clustered-similarity", "target", "test_accuracy")
    found, rounds = same(values, 0, "points", claim.tolerance), int(frame["rounds"].min())
    word, why = found.verdict, found.why
    if rounds < FIGURE_1:
        word = "undecided"
        why = f" Undecided: the figure shows {FIGURE_1} rounds, our runs have {rounds}."
    return Evidence(
        word, found.mean, found.low, found.high,
        f"Points of Algorithm 2 above the target after {rounds} rounds, {found.seeds} paired runs; the same "
        f"performance means within {claim.tolerance:g}.{why}",
        pd.DataFrame({"run": range(len(values)), "points": values.round(2)}),
    )  # fmt: skip


def jumps(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """How far a curve jumps from one evaluation to the next in its second half: a row a seed, a column a scheme."""
    late = frame[frame["round"] > frame["rounds"] / 2].sort_values("round")
    steps = late.groupby(["method", "seed"])[metric].apply(lambda v: v.diff().abs().mean())
    return steps.unstack("method") * tables.SCALES.get(metric, 1)


def of_parts(found: dict[object, Found], heads: tuple[str, str], note: str) -> Evidence:
    """The evidence of a claim of several parts: the one that decides, and all of them in a table headed so."""
    one = decisive(found.values())
    rows = [(name, f.mean, f.low, f.high, f.verdict) for name, f in found.items()]
    why = one.why if one.verdict == "undecided" else ""
    return Evidence(
        one.verdict, one.mean, one.low, one.high, f"{note}, {one.seeds} paired runs.{why}",
        pd.DataFrame(rows, columns=[*heads, "low", "high", "verdict"]).round(4),
    )  # fmt: skip


def smoother(metric: str):
    """Does a curve of both algorithms jump less from one evaluation to the next than MD's?"""

    @decided
    def evidence(claim: Claim) -> Evidence:
        frame = ONE_DIGIT.runs("md", *ALGORITHM)
        wide = jumps(frame, metric)
        found = {n: higher(wide["md"] - wide[m], unit_of(metric)) for m, n in ALGORITHM.items()}
        note = (
            f"How much smaller a jump of {metric.replace('_', ' ')} is than under MD sampling, second half of the runs, for "
            f"the one of the two that decides; MD jumps by {wide['md'].mean():.3g}"
        )
        return of_parts(found, ("scheme", "smaller jumps than MD"), note)

    return evidence


smoother_loss, smoother_accuracy = smoother("train_loss"), smoother("test_accuracy")
claim(
    "clustered-6-smoother-loss",
    paper="clustered",
    place="Sec. 6",
    kind="superiority",
    statement="Over rounds the training loss of both algorithms is smoother than that of MD sampling.",
    printed="smoother",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="nats that a jump is smaller than MD's, for the one that decides",
    order=280,
)(smoother_loss)
claim(
    "clustered-6-smoother-accuracy",
    paper="clustered",
    place="Sec. 6",
    kind="superiority",
    statement="Over rounds the test accuracy of both algorithms is smoother than that of MD sampling.",
    printed="smoother",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="points that a jump is smaller than MD's, for the one that decides",
    order=270,
)(smoother_accuracy)


@claim(
    "clustered-5-communication",
    paper="clustered",
    place="Sec. 5",
    kind="number",
    statement="Algorithm 2 communicates as much as standard federated learning.",
    printed="the same",
    chapter="06_clustered_sampling#can-the-updates-tell-who-belongs-together",
    meaning="times the bytes of MD sampling",
    tolerance=0.05,
    order=190,
)
@decided
def same_messages(claim: Claim) -> Evidence:
    """Does Algorithm 2 send as many bytes as MD sampling?"""
    frame = ONE_DIGIT.runs("md", "clustered-similarity")
    last = frame[frame["round"] == frame["rounds"]]
    last = last.assign(MB=(last["bytes_down"] + last["bytes_up"]) / 1e6)
    wide = last.pivot(index="seed", columns="method", values="MB").dropna()
    ratio = wide["clustered-similarity"] / wide["md"]
    found = same(ratio, 1, "of a share", claim.tolerance or 0)
    return Evidence(
        found.verdict, found.mean, found.low, found.high,
        "Bytes of Algorithm 2 as a multiple of MD sampling's (a client that is drawn twice is sent one "
        f"model), {found.seeds} paired runs.{found.why}",
        last.groupby("method")["MB"].agg(["mean", "min", "max"]).round(2).reset_index(),
    )  # fmt: skip


@claim(
    "clustered-fig-5",
    paper="clustered",
    place="Fig. 5",
    kind="figure",
    statement="Concentration 10 gives nearly equal class shares and counts, 0.001 almost one class per "
    "client and unequal counts.",
    printed="almost one class",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="mean share of a client's largest class at 0.001",
    order=640,
)
@decided
def cifar_partitions(claim: Claim) -> Evidence:
    """Fig. 5: are classes nearly equal at concentration 10 and nearly pure at 0.001?"""
    labels = np.repeat(np.arange(10), 5000)
    sizes = np.repeat([100, 250, 500, 750, 1000], [10, 30, 30, 20, 10])
    table = []
    for concentration, seed in itertools.product((10.0, 0.1, 0.01, 0.001), range(FEWEST)):
        counts = partition.dirichlet_fixed_size(labels, sizes, concentration, seed).label_counts
        classes = counts.sum(0)
        share = float((counts.max(1) / counts.sum(1)).mean())
        table.append((concentration, seed, share, classes.max() / classes.min()))
    columns = ["concentration", "seed", "mean largest share", "largest class / smallest"]
    table = pd.DataFrame(table, columns=columns)
    share = table.pivot(index="seed", columns="concentration", values=columns[2])
    unequal = table.pivot(index="seed", columns="concentration", values=columns[3])
    found = [
        higher(values, "of a share", 0)
        for values in (0.25 - share[10.0], share[0.001] - 0.95, unequal[0.001] - unequal[10.0])
    ]
    word = whole(f.verdict for f in found)
    why = max(f.why for f in found) if word == "undecided" else ""
    mean, low, high = statistics.mean_interval(share[0.001])
    means = table.drop(columns="seed").groupby("concentration").mean().round(3).reset_index()
    return Evidence(
        word, mean, low, high,
        "Mean share of a client's largest class at 0.001 (almost one class: over 0.95; nearly equal at 10: "
        f"below 0.25), {FEWEST} seeds; the counts depend on the labels alone."
        f"{why}",
        means,
    )  # fmt: skip


CENTRE = {"clients": 100, "clients_per_round": 10, "prox": 0.0, "measure": "arccos"}
CIFAR = Setting("clustered-cifar10", "cifar10", steps=100, **CENTRE)
MNIST = Setting("clustered-mnist", "mnist", steps=100, **CENTRE)
COARSE = Setting("clustered-coarse10", "cifar100-coarse10", steps=20, **CENTRE)
ROLLING = 50  # rounds of the rolling mean that the paper's losses are, of 1,000
LESS = ("nats less", f"mean of the last rounds ({ROLLING}, or a fifth if fewer)")
SKEWS, WORK, COHORTS = (10.0, 0.1, 0.01, 0.001), (10, 100, 500), (5, 10, 20)
SKEWED = tuple({"concentration": c} for c in SKEWS)
PRINTED = (  # what the paper changes, one at a time
    *SKEWED,
    *({"steps": n} for n in (10, 500)),
    *({"clients_per_round": m} for m in (5, 20)),
    {"prox": 0.1},
    *({"measure": word} for word in ("L2", "L1")),
)


def on_cifar10(*substitutes: Setting):
    """The evidence of a claim on CIFAR-10, from what the function below says of a setting: where CIFAR-10 cannot
    be had, `no-data`, with the verdict on the first substitute that is recorded."""

    def of(decide: Callable[[Setting], Evidence]) -> Callable[[Claim], Evidence]:
        @decided
        def evidence(claim: Claim) -> Evidence:
            try:
                return decide(CIFAR)
            except Missing as missing:
                if missing.verdict != "no-data":
                    raise
                lacking = [str(missing)]
            for setting in substitutes:
                try:
                    found = decide(setting)
                except Missing as missing:
                    lacking.append(f"on {setting.task} instead: {missing}")
                    continue
                note = f"{lacking[0]}. On {setting.task} instead: {found.note}"
                return replace(
                    found,
                    verdict="no-data",
                    substitute=found.verdict,
                    tried_on=setting.task,
                    note=note,
                )
            raise Missing("no-data", "; ".join(lacking))

        return wraps(decide)(evidence)  # `__wrapped__` is asked of one setting

    return of


def window(frame: pd.DataFrame) -> int:
    """Rounds of the rolling mean: the paper's 50, and at most a fifth of a shorter run."""
    return min(ROLLING, int(frame["rounds"].min()) // 5)


def less(setting: Setting, method: str) -> pd.Series:
    """By seed: how many nats less a scheme has than MD sampling, over the last rounds as the paper draws them."""
    frame = setting.runs("md", method)
    wide = tables.pivot_seeds(frame, "train_loss", window(frame))
    return (wide["md"] - wide[method]).dropna()


def _in(
    where: Setting, changes: Iterable[dict], rule=higher, gain=less, unit="nats", what=LESS
) -> Evidence:
    """Do both algorithms gain on MD sampling (`gain` by setting and method) in each of these settings?"""
    table, each = [], []
    for changed, (method, name) in itertools.product(changes, ALGORITHM.items()):
        if "measure" in changed and method != "clustered-similarity":
            continue
        found = rule(gain(replace(where, **changed), method), unit)
        told = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in changed.items())
        table.append((told, name, found.mean, found.low, found.high, found.verdict))
        each.append(found)
    columns = ["setting", "scheme", f"{what[0]} than MD", "low", "high", "verdict"]
    table, one = pd.DataFrame(table, columns=columns), decisive(each)
    return Evidence(
        one.verdict, one.mean, one.low, one.high,
        f"{what[0].capitalize()} than MD sampling, {what[1]}, in the one of {len(table)} "
        f"comparisons that decides.{one.why if one.verdict == 'undecided' else ''}",
        table.round(3),
    )  # fmt: skip


def first_reached(curve: pd.Series, level: float) -> float:
    """The round at which a loss is down to a level; the last one of the curve if it is not."""
    reached = curve.index[curve <= level]
    return reached[0] if len(reached) else curve.index[-1]


def curves(
    setting: Setting, *methods: str, metric="train_loss", rounds=0
) -> dict[tuple, pd.Series]:
    """By (method, seed): the rolling mean by round, as the paper draws it or over so many rounds; accuracies negative, so
    that less is better."""
    frame = setting.runs(*methods)
    frame = tables.smooth_curves(frame, metric, rounds or window(frame))
    sign = 1 if metric == "train_loss" else -1
    parts = frame.groupby(["method", "seed"])
    return {key: sign * part.set_index("round")[metric] for key, part in parts}


def saved(setting: Setting, method: str, **how) -> pd.Series:
    """By seed: the share of all rounds that a scheme saves on MD sampling's way to the worse of their last losses."""
    shown, share = curves(setting, "md", method, **how), {}
    for (name, seed), md in shown.items():
        if name == "md" and (other := shown.get((method, seed))) is not None:
            level = max(md.iloc[-1], other.iloc[-1])
            share[seed] = (first_reached(md, level) - first_reached(other, level)) / md.index[-1]
    return pd.Series(share, dtype=float)


def _skews(where: Setting, printed: tuple[float, ...], fewest: int) -> tuple[float, ...]:
    """The concentrations of a figure; of the substitute in colour those that are recorded, if so many are: all four
    take a day."""
    if where.task != COARSE.task:
        return printed

    def enough(concentration: float) -> bool:
        try:
            frame = replace(where, concentration=concentration).runs("md", *ALGORITHM)
        except Missing:
            return False
        return min(seeds(frame, m) for m in ("md", *ALGORITHM)) >= FEWEST

    there = tuple(filter(enough, printed))
    return there if len(there) >= fewest else printed


@claim(
    "clustered-fig-2",
    paper="clustered",
    place="Fig. 2, Fig. 7",
    kind="figure",
    statement="On CIFAR-10 with unequal sizes clustered sampling ends with a smaller training loss than "
    "MD sampling at concentrations 0.01 and 0.001.",
    printed="faster and better",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning=NATS_BELOW_MD,
    order=560,
)
@on_cifar10(COARSE, MNIST)
def on_heavy_skew(where: Setting) -> Evidence:
    """Fig. 2: do both algorithms end with a smaller loss than MD sampling at 0.01 and 0.001?"""
    return _in(where, ({"concentration": c} for c in _skews(where, (0.01, 0.001), 1)))


def near(values, unit: str) -> Found:
    """Are these differences all but zero? Refuted only by an interval beyond what matters."""
    return same(values, 0, unit, MATTERS[unit])


@claim(
    "clustered-fig-2-close",
    paper="clustered",
    place="Sec. 6, Fig. 2",
    kind="figure",
    statement="At concentrations 10 and 0.1 the final performances of clustered and of MD sampling are "
    "close (CIFAR-10).",
    printed="close",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning=NATS_BELOW_MD,
    order=570,
)
@on_cifar10(MNIST)
def on_light_skew(where: Setting) -> Evidence:
    """Fig. 2: do both algorithms end within 0.03 nats of MD sampling at 10 and 0.1?"""
    return _in(where, ({"concentration": c} for c in (10.0, 0.1)), near)


@claim(
    "clustered-fig-2-faster",
    paper="clustered",
    place="Sec. 6, Fig. 2",
    kind="figure",
    statement="At every concentration, 10 and 0.1 too, clustered sampling converges faster than MD "
    "sampling (CIFAR-10).",
    printed="faster",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="of the rounds are saved on MD sampling, in the comparison that decides",
    order=580,
)
@on_cifar10(MNIST)
def faster_on_any_skew(where: Setting) -> Evidence:
    """Fig. 2: do both algorithms need fewer rounds than MD sampling at every concentration?"""
    what = ("share of all rounds less", "to the worse of the two last losses (rolling means)")
    return _in(where, SKEWED, gain=saved, unit="of a share", what=what)


def _smoother(metric: str):
    def of(where: Setting) -> Evidence:
        """Fig. 2 and 7: over all concentrations, is the mean jump of both algorithms a smaller one than MD sampling's?"""
        rows, found = [], []
        for method, name in ALGORITHM.items():
            shares = {}
            for c in SKEWS:
                wide = jumps(replace(where, concentration=c).runs("md", method), metric).dropna()
                shares[f"{c:g}"] = 1 - wide[method] / wide["md"]
            each = pd.DataFrame(shares).dropna()
            found.append(one := higher(each.mean(axis=1), "of a share"))
            rows += [(name, c, *statistics.mean_interval(each[c]), "") for c in each]
            rows.append((name, "all", one.mean, one.low, one.high, one.verdict))
        columns = ["scheme", "concentration", "share less of a jump", "low", "high", "verdict"]
        one = decisive(found)
        return Evidence(
            one.verdict, one.mean, one.low, one.high,
            f"Share by which a jump of {metric.replace('_', ' ')} is smaller than under MD sampling, second half of the "
            f"runs, mean of the {len(SKEWS)} concentrations, for the one of the two that decides, {one.seeds} paired runs."
            f"{one.why if one.verdict == 'undecided' else ''}",
            pd.DataFrame(rows, columns=columns).round(3),
        )  # fmt: skip

    return on_cifar10(MNIST)(of)


smoother_loss_overall, smoother_accuracy_overall = (
    _smoother(metric) for metric in ("train_loss", "client_accuracy")
)
claim(
    "clustered-fig-2-smoother-loss",
    paper="clustered",
    place="Sec. 6, Fig. 2, Fig. 7",
    kind="figure",
    statement="Overall the training loss of clustered sampling is smoother than that of MD sampling "
    "(CIFAR-10).",
    printed="smoother",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="is the share by which a jump is smaller than MD's, mean of all concentrations, for the "
    "algorithm that decides",
    order=610,
)(smoother_loss_overall)
claim(
    "clustered-fig-2-smoother-accuracy",
    paper="clustered",
    place="Sec. 6, Fig. 2, Fig. 7",
    kind="figure",
    statement="Overall the testing accuracy of clustered sampling is smoother than that of MD sampling "
    "(CIFAR-10).",
    printed="smoother",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="is the share by which a jump is smaller than MD's, mean of all concentrations, for the "
    "algorithm that decides",
    order=600,
)(smoother_accuracy_overall)


@claim(
    "clustered-6-never-worse",
    paper="clustered",
    place="Sec. 6",
    kind="superiority",
    statement="Clustered sampling is worse than MD sampling in none of the settings that the paper "
    "tries (CIFAR-10; concentrations, local steps, clients a round, FedProx, measures).",
    printed="none",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning=NATS_BELOW_MD,
    order=260,
)
@on_cifar10(MNIST)
def on_all_settings(where: Setting) -> Evidence:
    """Do both algorithms nowhere end with a larger loss than MD sampling, but for what may be chance?"""
    many = sum(1 if "measure" in changed else len(ALGORITHM) for changed in PRINTED)
    return _in(where, PRINTED, partial(not_lower, of=many))


@claim(
    "clustered-fig-10",
    paper="clustered",
    place="Fig. 10",
    kind="figure",
    statement="With FedProx's local regularisation both algorithms still outperform MD sampling "
    "(CIFAR-10).",
    printed="outperform",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning=NATS_BELOW_MD,
    order=700,
)
@on_cifar10(MNIST)
def on_prox(where: Setting) -> Evidence:
    """Fig. 10: do both algorithms end with a smaller loss than MD sampling, all with mu = 0.1?"""
    return _in(where, ({"prox": 0.1},))


@claim(
    "clustered-fig-6",
    paper="clustered",
    place="Fig. 6",
    kind="figure",
    statement="With arccos, L2 and L1 similarity Algorithm 2 performs alike, and each time better than "
    "MD sampling (CIFAR-10).",
    printed="similar",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats between two measures, or below MD sampling's training loss, whichever decides",
    order=650,
)
@on_cifar10(MNIST)
def on_measures(where: Setting) -> Evidence:
    """Fig. 6: is Algorithm 2 better than MD sampling with each measure, and with all of them alike?"""
    words = ("arccos", "L2", "L1")
    better = _in(where, ({"measure": word} for word in words))
    better.table["compared with"] = "MD"
    ahead = {w: less(replace(where, measure=w), "clustered-similarity") for w in words}
    rows, alikes = [], []
    for a, b in itertools.combinations(words, 2):
        found = near((ahead[a] - ahead[b]).dropna(), "nats")
        rows.append(
            (
                f"measure {a}",
                "Algorithm 2",
                found.mean,
                found.low,
                found.high,
                found.verdict,
                f"measure {b}",
            )
        )
        alikes.append(found)
    alike = pd.DataFrame(rows, columns=better.table.columns).round(3)
    table = pd.concat([better.table, alike], ignore_index=True)
    table = table.rename(columns={"nats less than MD": "nats less"})
    word = whole(table["verdict"])
    said = "The measures are alike if within 0.03 nats of each other."
    if word == better.verdict:
        return replace(better, note=f"{better.note} {said}", table=table)
    one = decisive(alikes)
    note = f"Nats between two measures, in the one of {len(alikes)} comparisons that decides. {said}{one.why}"
    return Evidence(word, one.mean, one.low, one.high, note, table)


def trend(
    where: Setting,
    key: str,
    values: tuple,
    gain,
    unit: str,
    sign: int,
    what: str,
    schemes: dict[str, str] = ALGORITHM,
) -> Evidence:
    """Does the gain of both algorithms (or of all `schemes`) grow with a setting (`sign` 1), or as it falls? Judged
    by the change from its smallest to its largest value along a line fitted in its logarithm, one per seed;
    `gain` by method and seed."""
    rows, x = [], np.log(np.array(sorted(values), dtype=float))
    found = {}
    for method, name in schemes.items():
        gains = pd.concat(
            {v: gain(replace(where, **{key: v}), method) for v in sorted(values)}, axis=1
        )
        gains = gains.dropna()
        slopes = np.polyfit(x, gains.to_numpy().T, 1)[0] if len(gains) else np.zeros(0)
        found[name] = higher(np.round(sign * slopes * (x[-1] - x[0]), 9), unit)
        rows += [(name, f"{v:g}", *statistics.mean_interval(gains[v]), "") for v in gains]
        f = found[name]
        rows.append(
            (name, "change", sign * f.mean, *sorted((sign * f.low, sign * f.high)), f.verdict)
        )
    table = pd.DataFrame(
        rows, columns=["scheme", key.replace("_", " "), unit, "low", "high", "verdict"]
    )
    one = decisive(found.values())
    grows = "grows" if sign > 0 else "falls"
    which = f"for the one of the {len(schemes)} that decides, " if len(schemes) > 1 else ""
    note = (
        f"How much {what} {grows} from {key.replace('_', ' ')} {min(values):g} to {max(values):g}, along a line "
        f"fitted in its logarithm, {which}{one.seeds} paired runs.{one.why}"
    )
    return Evidence(one.verdict, one.mean, one.low, one.high, note, table.round(3))


@claim(
    "clustered-fig-2-skew",
    paper="clustered",
    place="Sec. 6, Fig. 2",
    kind="figure",
    statement="The more heterogeneous the clients, the larger the improvement of clustered sampling "
    "over MD sampling (CIFAR-10, concentrations 10, 0.1, 0.01 and 0.001).",
    printed="larger",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats that the gain on MD sampling grows from the largest to the smallest concentration",
    order=590,
)
@on_cifar10(COARSE, MNIST)
def grows_with_skew(where: Setting) -> Evidence:
    """Fig. 2: is the improvement larger, the smaller the concentration?"""
    return trend(
        where,
        "concentration",
        _skews(where, SKEWS, 2),
        less,
        "nats",
        -1,
        "the gain on MD sampling",
    )


@claim(
    "clustered-fig-8-steps",
    paper="clustered",
    place="Fig. 8, Fig. 9",
    kind="figure",
    statement="The more local steps, the faster clustered sampling converges compared with MD sampling "
    "(CIFAR-10).",
    printed="faster",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="of the rounds are saved more with most local steps than with fewest",
    order=690,
)
@on_cifar10(MNIST)
def on_local_work(where: Setting) -> Evidence:
    """Fig. 8: the more local steps, the faster, compared with MD sampling?"""
    return trend(
        where,
        "steps",
        WORK,
        saved,
        "of a share",
        1,
        "the share of the rounds that is saved on MD sampling",
    )


@claim(
    "clustered-6-more-work",
    paper="clustered",
    place="Sec. 6",
    kind="figure",
    statement="More local work enables better clustering, leading to better performances (App. D, "
    "CIFAR-10).",
    printed="better",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats that Algorithm 2's gain on MD sampling grows from fewest to most local steps",
    order=250,
)
@on_cifar10(MNIST)
def better_with_more_work(where: Setting) -> Evidence:
    """Sec. 6: does what Algorithm 2 gains on MD sampling grow with the local steps? The clusters are not judged."""
    scheme = {"clustered-similarity": ALGORITHM["clustered-similarity"]}
    what = "Algorithm 2's gain on MD sampling"
    return trend(where, "steps", WORK, less, "nats", 1, what, scheme)


@claim(
    "clustered-fig-8-cohorts",
    paper="clustered",
    place="Fig. 8, Fig. 9",
    kind="figure",
    statement="Clustered sampling improves on MD sampling for every number of clients a round, and the "
    "more, the fewer there are (CIFAR-10).",
    printed="improves",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats that the gain on MD sampling grows from most to fewest clients a round; or the "
    "gain, if that decides",
    order=670,
)
@on_cifar10(MNIST)
def on_cohorts(where: Setting) -> Evidence:
    """Fig. 8: is clustered sampling better with every number of participants, and the more so, the fewer?"""
    better = _in(where, ({"clients_per_round": m} for m in COHORTS))
    found = trend(
        where,
        "clients_per_round",
        COHORTS,
        less,
        "nats",
        -1,
        "the gain on MD sampling",
    )
    word = whole((better.verdict, found.verdict))
    said = f" With every number: {better.verdict}; the trend: {found.verdict}."
    one = found if found.verdict == word else better
    return replace(one, note=one.note + said, table=pd.concat([found.table, better.table]))


def sooner(setting: Setting, method: str) -> pd.Series:
    """By seed: the share of all rounds that are left when a run reaches the loss at which the fewest clients a round end."""
    few = curves(replace(setting, clients_per_round=COHORTS[0]), method)
    left = {
        seed: 1 - first_reached(curve, few[name, seed].iloc[-1]) / curve.index[-1]
        for (name, seed), curve in curves(setting, method).items()
        if (name, seed) in few
    }
    return pd.Series(left, dtype=float)


@claim(
    "clustered-fig-8-more-clients",
    paper="clustered",
    place="App. D, Fig. 8",
    kind="figure",
    statement="With more clients a round both MD and clustered sampling converge faster (CIFAR-10).",
    printed="faster",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="of the rounds are saved on the way to one loss by most clients a round, not fewest, for "
    "the scheme that decides",
    order=680,
)
@on_cifar10(MNIST)
def faster_in_larger_cohorts(where: Setting) -> Evidence:
    """Fig. 8: do all three schemes reach a loss earlier with more participants?"""
    what = "the share of rounds left at the loss at which the fewest end"
    schemes = {"md": "MD"} | ALGORITHM
    return trend(where, "clients_per_round", COHORTS, sooner, "of a share", 1, what, schemes)


@claim(
    "clustered-fig-6-sizes",
    paper="clustered",
    place="App. D.2, Fig. 6",
    kind="figure",
    statement="Algorithm 1 outperforms MD sampling in training loss at concentration 0.01 (CIFAR-10).",
    printed="outperforms",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats that Algorithm 1 is below MD sampling",
    order=660,
)
@on_cifar10(MNIST)
def by_size_in_figure_6(where: Setting) -> Evidence:
    """App. D.2: does Algorithm 1 end with a smaller loss than MD sampling at concentration 0.01?"""
    found = higher(less(where, "clustered-size"), "nats")
    return Evidence(
        found.verdict, found.mean, found.low, found.high,
        f"Nats less than MD sampling, {LESS[1]}, concentration 0.01, {found.seeds} paired runs.{found.why}",
    )  # fmt: skip


@claim(
    "clustered-d5-mu",
    paper="clustered",
    place="App. D.5",
    kind="figure",
    statement="Of mu = 0.001, 0.01, 0.1 and 1, FedProx with MD sampling performs best with 0.1 "
    "(CIFAR-10). (Read as: it ends with the smallest training loss.)",
    printed=0.1,
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="nats that another mu has more than 0.1, for the one that decides",
    order=710,
)
@on_cifar10(MNIST)
def best_prox(where: Setting) -> Evidence:
    """App. D.5: does MD sampling with mu = 0.1 end with a smaller loss than with the other three?"""

    def end(mu: float) -> pd.Series:
        frame = replace(where, prox=mu).runs("md")
        return tables.pivot_seeds(frame, "train_loss", window(frame))["md"]

    found = {mu: higher((end(mu) - end(0.1)).dropna(), "nats") for mu in (0.001, 0.01, 1.0)}
    note = f"Nats of MD sampling that another mu has more than 0.1, {LESS[1]}, for the one that decides"
    return of_parts(found, ("mu", "nats more than with 0.1"), note)


@claim(
    "clustered-d5-smoother",
    paper="clustered",
    place="App. D.5",
    kind="figure",
    statement="FedProx's local regularisation enables smoother federated learning (CIFAR-10, mu = 0.1).",
    printed="smoother",
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="is the share by which a jump is smaller with mu = 0.1 than without, for the scheme that "
    "decides",
    order=720,
)
@on_cifar10(MNIST)
def smoother_with_prox(where: Setting) -> Evidence:
    """App. D.5: does the loss of all three schemes jump less with mu = 0.1 than with 0?"""
    found = {}
    for method, name in ({"md": "MD"} | ALGORITHM).items():
        usual, prox = (
            jumps(replace(where, prox=mu).runs(method), "train_loss")[method] for mu in (0.0, 0.1)
        )
        found[name] = higher((1 - prox / usual).dropna(), "of a share")
    note = (
        "Share by which a jump of the training loss is smaller with mu = 0.1 than without, second half of the runs, for "
        "the scheme that decides"
    )
    return of_parts(found, ("scheme", "share less of a jump"), note)


@claim(
    "clustered-fig-1-faster",
    paper="clustered",
    place="Sec. 6, Fig. 1",
    kind="figure",
    statement="Algorithm 2 converges faster than MD sampling, in training loss and in testing accuracy "
    "(one digit per client).",
    printed="faster",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="of the rounds are saved on MD sampling, in loss or accuracy, whichever decides",
    order=540,
)
@decided
def similarity_faster(claim: Claim) -> Evidence:
    """Fig. 1: does Algorithm 2 need fewer rounds than MD sampling, in loss and in accuracy, to the worse of their ends?

    Means of ten rounds: the figure is not smoothed, but the first of 200 single values to pass a level is chance.
    """
    rounds = int(ONE_DIGIT.runs("md", "clustered-similarity")["rounds"].min())
    found = {
        metric.replace("_", " "): higher(
            saved(ONE_DIGIT, "clustered-similarity", metric=metric, rounds=10), "of a share"
        )
        for metric in ("train_loss", "test_accuracy")
    }
    short = f" (the figure shows {FIGURE_1})" if rounds < FIGURE_1 else ""
    note = (
        f"Share of all {rounds} rounds{short} that Algorithm 2 saves on MD sampling's way to the worse of their ends "
        "(means of ten rounds), for the one of loss and accuracy that decides"
    )
    return of_parts(found, ("curve", "share saved"), note)


@claim(
    "clustered-abstract-consistently",
    paper="clustered",
    place="Abstract",
    kind="superiority",
    statement="Clustered sampling (both algorithms) trains better than MD sampling in the controlled "
    "setting of Fig. 1.",
    printed="consistently better",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="comparisons (two algorithms; loss and accuracy) that our runs show",
    core=True,
    order=10,
)
def better_in_figure_1(claim: Claim) -> Evidence:
    """Do both algorithms beat MD sampling in loss and in accuracy?"""
    parts = {
        "Algorithm 1, loss": size_loss(claim),
        "Algorithm 1, accuracy": size_accuracy(claim),
        "Algorithm 2, loss": similarity_loss(claim),
        "Algorithm 2, accuracy": similarity_accuracy(claim),
    }
    words = [e.verdict for e in parts.values()]
    if set(words) - set(WEIGHED):
        return next(e for e in parts.values() if e.verdict not in WEIGHED)
    table = pd.DataFrame(
        [(name, e.ours, e.low, e.high, e.verdict) for name, e in parts.items()],
        columns=["comparison with MD", "better by", "low", "high", "verdict"],
    )
    said = ", ".join(f"{words.count(w)} {w}" for w in dict.fromkeys(words))
    note = f"Of {len(words)} comparisons with MD sampling: {said}."
    ours = f"{words.count('agrees')} of {len(words)}"
    return Evidence(whole(words), ours, note=note, table=table)
