"""Clustered Sampling: Fig. 1, and the CIFAR-10 figures where such runs are recorded, else on a substitute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps

import numpy as np
import pandas as pd

from companion.claims.evidence.experiments import (
    RESULTS,
    UNIT_OF_METRIC,
    MissingRuns,
    Setting,
    count_each,
    count_seeds,
    decide_order,
    deciding_part,
    differences_by_seed,
    evidence_of_parts,
    first_number,
    judge_equal,
    judge_higher,
    judge_near_zero,
    judge_not_lower,
    load_sweep,
    verdict_if_missing,
)
from companion.claims.registry import Claim, Decision, Evidence, claim
from companion.runs import records, statistics, tables
from fedstas.sim import partition

NATS_BELOW_MD = "nats that the training loss is below MD sampling's, in the comparison that decides"

ALGORITHM = {"clustered-size": "Algorithm 1", "clustered-similarity": "Algorithm 2"}
SCHEMES = ("md", *ALGORITHM, "target")
FIGURE_1 = 200  # rounds that the paper's figure shows
FIGURE_1_SWEEPS = ("clustered-fig-1", "one-digit")  # of so many rounds, and of 60


def first_recorded(*sweeps: str) -> str:
    """Return the first of the sweeps with enough seeds of all four schemes, or the last one."""
    for sweep in sweeps:
        if min(count_seeds(load_sweep(sweep), m) for m in SCHEMES) >= statistics.MIN_SEEDS:
            return sweep
    return sweeps[-1]


class OneDigit(Setting):
    """Fig. 1: all of its rounds where they are recorded, else as many as there are."""

    def runs(self, *methods: str) -> pd.DataFrame:
        """Return the recorded runs of these methods."""
        sweep = first_recorded(*FIGURE_1_SWEEPS)
        return Setting(sweep, self.task, self.partition, None, None).runs(*methods)


ONE_DIGIT = OneDigit("one-digit", partition="by_class", concentration=None, steps=None)

size_loss = decide_order(ONE_DIGIT, "clustered-size", "md", "train_loss", rounds_of_figure=FIGURE_1)
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
size_accuracy = decide_order(
    ONE_DIGIT, "clustered-size", "md", "test_accuracy", rounds_of_figure=FIGURE_1
)
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
similarity_loss = decide_order(
    ONE_DIGIT, "clustered-similarity", "md", "train_loss", rounds_of_figure=FIGURE_1
)
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
similarity_accuracy = decide_order(
    ONE_DIGIT, "clustered-similarity", "md", "test_accuracy", rounds_of_figure=FIGURE_1
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


def recorded_cohorts() -> pd.DataFrame:
    """Return the numbers of distinct clients and digits of the cohorts of Fig. 1, a row per recorded round."""
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


def summarise_cohorts(cohorts: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return mean, least and largest value of a column of `recorded_cohorts`, by scheme."""
    table = cohorts.groupby("method")[column].agg(["mean", "min", "max"]).loc[list(SCHEMES)]
    return table.round(2).reset_index()


def decide_more_digits(method: str) -> Decision:
    """Return a function that decides whether a scheme draws more digits a round than MD sampling."""

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge whether a cohort has more distinct digits than under MD sampling."""
        cohorts = recorded_cohorts()
        wide = cohorts.pivot_table(index="seed", columns="method", values="digits")
        more = (wide[method] - wide["md"]).dropna()
        judgement = judge_higher(more, "digits")
        return judgement.evidence(
            f"Distinct digits a round more than under MD sampling, {len(more)} paired runs.{judgement.why}",
            summarise_cohorts(cohorts, "digits"),
        )

    return decide


size_digits, similarity_digits = (
    decide_more_digits("clustered-size"),
    decide_more_digits("clustered-similarity"),
)
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
@verdict_if_missing
def digits_of_md(claim: Claim) -> Evidence:
    """Judge whether MD sampling generally draws 6 to 8 digits: in more than three rounds of four."""
    cohorts = recorded_cohorts().query("method == 'md'")
    digits = cohorts["digits"]
    shares = digits.between(6, 8).groupby(cohorts["seed"]).mean()
    judgement = judge_higher(shares - 0.75, "of a share").shift(0.75)
    judgement = replace(judgement, mean=float(shares.mean()))  # without the rounding of the shift
    table = digits.value_counts().sort_index().rename_axis("digits").rename("rounds").reset_index()
    return judgement.evidence(
        f"Share of rounds with 6 to 8, {len(digits)} rounds of {judgement.seeds} runs; generally means "
        f"more than 0.75.{judgement.why}",
        table,
    )


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
@verdict_if_missing
def ten_clients(claim: Claim) -> Evidence:
    """Count the fewest different clients that the clustered schemes aggregate."""
    cohorts = recorded_cohorts()
    fewest = int(cohorts[cohorts["method"].isin(ALGORITHM)]["clients"].min())
    verdict = statistics.judge_exactly(fewest == 10)
    note = "Fewest different clients in a round of Algorithm 1 or 2."
    if cohorts["seed"].nunique() < statistics.MIN_SEEDS:
        verdict = statistics.UNDECIDED
        note += f" Undecided: there are fewer than {statistics.MIN_SEEDS} seeds."
    return Evidence(verdict, fewest, note=note, table=summarise_cohorts(cohorts, "clients"))


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
@verdict_if_missing
def finds_the_groups(claim: Claim) -> Evidence:
    """Judge whether cohorts of Algorithm 2 have fewer than 9.5 digits on average in early rounds, and more in the last.

    Every client has examples of one digit: with ten digits in a cohort, one client of each of the ten groups is in it.
    """
    cohorts = recorded_cohorts().query("method == 'clustered-similarity'")
    rounds = cohorts["round"]
    early, late = rounds <= 10, rounds > rounds.max() - 20
    first, last = (cohorts[at].groupby("seed")["digits"].mean() for at in (early, late))
    misses, finds = (judge_higher(v, "digits", comparisons=2) for v in (9.5 - first, last - 9.5))
    verdict = statistics.combine_verdicts((misses.verdict, finds.verdict))
    rows = [
        ("rounds 1 to 10", *statistics.mean_interval(first)),
        ("the last 20", *statistics.mean_interval(last)),
    ]
    # Shown are the digits of the end, not by how many they are above 9.5.
    return replace(finds.shift(9.5), verdict=verdict).evidence(
        f"Digits a round in the last 20 of {rounds.max()} rounds; {first.mean():.2f} in the first ten."
        f"{(misses.why or finds.why) if verdict == 'undecided' else ''}",
        pd.DataFrame(rows, columns=["rounds", "digits a round", "low", "high"]).round(2),
    )


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
@verdict_if_missing
def as_the_target(claim: Claim) -> Evidence:
    """Judge whether Algorithm 2 ends within the tolerance (points) of the target's accuracy, after Fig. 1's rounds.

    Runs that end earlier cannot say where the two converge to: they decide nothing.
    """
    frame = ONE_DIGIT.runs("clustered-similarity", "target")
    values = differences_by_seed(frame, "clustered-similarity", "target", "test_accuracy")
    judgement, rounds = (
        judge_equal(values, 0, "points", claim.tolerance),
        int(frame["rounds"].min()),
    )
    if rounds < FIGURE_1:
        why = f" Undecided: the figure shows {FIGURE_1} rounds, our runs have {rounds}."
        judgement = replace(judgement, verdict=statistics.UNDECIDED, why=why)
    return judgement.evidence(
        f"Points of Algorithm 2 above the target after {rounds} rounds, {judgement.seeds} paired runs; the same "
        f"performance means within {claim.tolerance:g}.{judgement.why}",
        pd.DataFrame({"run": range(len(values)), "points": values.round(2)}),
    )


def mean_jumps(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the mean absolute change of a curve between evaluations in its second half, a row per seed and a column per scheme."""
    late = frame[frame["round"] > frame["rounds"] / 2].sort_values("round")
    steps = late.groupby(["method", "seed"])[metric].apply(lambda v: v.diff().abs().mean())
    return steps.unstack("method") * tables.SCALES.get(metric, 1)


def decide_smoother(metric: str) -> Decision:
    """Return a function that decides whether curves of both algorithms jump less between evaluations than MD's."""

    @verdict_if_missing
    def decide(claim: Claim) -> Evidence:
        """Judge for each algorithm whether its curve jumps less than that of MD sampling."""
        frame = ONE_DIGIT.runs("md", *ALGORITHM)
        wide = mean_jumps(frame, metric)
        parts = {
            name: judge_higher(
                (wide["md"] - wide[method]).dropna(),
                UNIT_OF_METRIC[metric],
                comparisons=len(ALGORITHM),
            )
            for method, name in ALGORITHM.items()
        }
        note = (
            f"How much smaller a jump of {metric.replace('_', ' ')} is than under MD sampling, second half of the runs, for "
            f"the one of the two that decides; MD jumps by {wide['md'].mean():.3g}"
        )
        return evidence_of_parts(parts, ("scheme", "smaller jumps than MD"), note)

    return decide


smoother_loss, smoother_accuracy = decide_smoother("train_loss"), decide_smoother("test_accuracy")
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
@verdict_if_missing
def same_messages(claim: Claim) -> Evidence:
    """Judge whether Algorithm 2 sends as many bytes as MD sampling."""
    frame = ONE_DIGIT.runs("md", "clustered-similarity")
    last = frame[frame["round"] == frame["rounds"]]
    last = last.assign(MB=(last["bytes_down"] + last["bytes_up"]) / 1e6)
    wide = last.pivot(index="seed", columns="method", values="MB").dropna()
    ratio = wide["clustered-similarity"] / wide["md"]
    judgement = judge_equal(ratio, 1, "of a share", claim.tolerance or 0)
    return judgement.evidence(
        "Bytes of Algorithm 2 as a multiple of MD sampling's (a client that is drawn twice is sent one "
        f"model), {judgement.seeds} paired runs.{judgement.why}",
        last.groupby("method")["MB"].agg(["mean", "min", "max"]).round(2).reset_index(),
    )


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
@verdict_if_missing
def cifar_partitions(claim: Claim) -> Evidence:
    """Judge whether classes are nearly equal at concentration 10 and nearly pure at 0.001 (Fig. 5)."""
    labels = np.repeat(np.arange(10), 5000)
    sizes = np.repeat([100, 250, 500, 750, 1000], [10, 30, 30, 20, 10])
    rows = []
    for concentration, seed in itertools.product(
        (10.0, 0.1, 0.01, 0.001), range(statistics.MIN_SEEDS)
    ):
        counts = partition.dirichlet_fixed_size(labels, sizes, concentration, seed).label_counts
        classes = counts.sum(0)
        share = float((counts.max(1) / counts.sum(1)).mean())
        rows.append((concentration, seed, share, classes.max() / classes.min()))
    largest_share, ratio = "mean largest share", "largest class / smallest"
    table = pd.DataFrame(rows, columns=["concentration", "seed", largest_share, ratio])
    share = table.pivot(index="seed", columns="concentration", values=largest_share)
    unequal = table.pivot(index="seed", columns="concentration", values=ratio)
    parts = [
        judge_higher(values, "of a share", 0, comparisons=3)
        for values in (0.25 - share[10.0], share[0.001] - 0.95, unequal[0.001] - unequal[10.0])
    ]
    verdict = statistics.combine_verdicts(part.verdict for part in parts)
    why = max(part.why for part in parts) if verdict == "undecided" else ""
    mean, low, high = statistics.mean_interval(share[0.001])
    means = table.drop(columns="seed").groupby("concentration").mean().round(3).reset_index()
    return Evidence(
        verdict,
        mean,
        low,
        high,
        "Mean share of a client's largest class at 0.001 (almost one class: over 0.95; nearly equal at 10: "
        f"below 0.25), {statistics.MIN_SEEDS} seeds; the counts depend on the labels alone."
        f"{why}",
        means,
    )


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
    pairs = [
        (changed, method)
        for changed, method in itertools.product(changes, ALGORITHM)
        # Algorithm 1 has no similarity measure
        if method == "clustered-similarity" or "measure" not in changed
    ]
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


def first_reached(curve: pd.Series, level: float) -> float:
    """Return the round at which a loss is down to a level, or the last one of the curve."""
    reached = curve.index[curve <= level]
    return reached[0] if len(reached) else curve.index[-1]


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


def rounds_saved(setting: Setting, method: str, **options) -> pd.Series:
    """Return the share of all rounds that a scheme saves on MD sampling's way to the worse of their last losses, by seed.

    `options` are those of `rolling_curves`.
    """
    curves = rolling_curves(setting, "md", method, **options)
    share = {}
    for seed, level in shared_losses(setting, method, **options).items():
        md, other = curves["md", seed], curves[method, seed]
        share[seed] = (first_reached(md, level) - first_reached(other, level)) / md.index[-1]
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
def on_heavy_skew(setting: Setting) -> Evidence:
    """Judge whether both algorithms end with a smaller loss than MD sampling at 0.01 and 0.001 (Fig. 2)."""
    concentrations = recorded_concentrations(setting, (0.01, 0.001), 1)
    return decide_in_settings(setting, ({"concentration": c} for c in concentrations))


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
def on_light_skew(setting: Setting) -> Evidence:
    """Judge whether both algorithms end within 0.03 nats of MD sampling at 10 and 0.1 (Fig. 2)."""
    return decide_in_settings(setting, ({"concentration": c} for c in (10.0, 0.1)), judge_near_zero)


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
def faster_on_any_skew(setting: Setting) -> Evidence:
    """Judge whether both algorithms need fewer rounds than MD sampling at every concentration (Fig. 2)."""
    quantity = ("share of all rounds less", "to the worse of the two last losses (rolling means)")
    evidence = decide_in_settings(
        setting, SKEWED, gain=rounds_saved, unit="of a share", quantity=quantity
    )
    *_, before, last = next(iter(rolling_curves(setting, "md").values())).index
    note = f" Losses are measured {last - before} rounds apart at the end of {last}: a smaller saving counts as none."
    most = replace(setting, concentration=min(SKEWS))
    levels = pd.concat([shared_losses(most, method) for method in ALGORITHM])
    if guesses := int((levels > GUESS).sum()):
        note += f" At {min(SKEWS):g} that loss is above that of a guess in {guesses} of {len(levels)} pairs of runs."
    return replace(evidence, note=evidence.note + note)


def decide_smoother_overall(metric: str) -> Decision:
    """Return a function that decides whether over all concentrations both algorithms jump less than MD (Fig. 2, 7)."""

    @on_cifar10(MNIST)
    def decide_in(setting: Setting) -> Evidence:
        """Compare jumps with those of MD sampling at every concentration of a setting."""
        rows, parts = [], []
        for method, name in ALGORITHM.items():
            shares = {}
            for c in SKEWS:
                wide = mean_jumps(
                    replace(setting, concentration=c).runs("md", method), metric
                ).dropna()
                shares[f"{c:g}"] = 1 - wide[method] / wide["md"]
            wide = pd.DataFrame(shares).dropna()
            part = judge_higher(wide.mean(axis=1), "of a share", comparisons=len(ALGORITHM))
            parts.append(part)
            rows += [(name, c, *statistics.mean_interval(wide[c]), "") for c in wide]
            rows.append((name, "all", *part.cells))
        columns = ["scheme", "concentration", "share less of a jump", "low", "high", "verdict"]
        part = deciding_part(parts)
        return part.evidence(
            f"Share by which a jump of {metric.replace('_', ' ')} is smaller than under MD sampling, second half of the "
            f"runs, mean of the {len(SKEWS)} concentrations, for the one of the two that decides, {part.seeds} paired runs."
            f"{part.why_undecided}",
            pd.DataFrame(rows, columns=columns).round(3),
        )

    return decide_in


smoother_loss_overall, smoother_accuracy_overall = (
    decide_smoother_overall(metric) for metric in ("train_loss", "client_accuracy")
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
def on_all_settings(setting: Setting) -> Evidence:
    """Judge whether both algorithms nowhere end with a larger loss than MD sampling.

    A larger loss in one of the comparisons counts if its interval with Bonferroni's correction for all of them excludes 0.
    """
    return decide_in_settings(setting, CHANGES_IN_PAPER, judge_not_lower)


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
def on_prox(setting: Setting) -> Evidence:
    """Judge whether both algorithms end with a smaller loss than MD sampling, all with mu = 0.1 (Fig. 10)."""
    return decide_in_settings(setting, ({"prox": 0.1},))


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
def on_measures(setting: Setting) -> Evidence:
    """Judge whether Algorithm 2 is better than MD sampling with each measure, by about the same (Fig. 6)."""
    measures = ("arccos", "L2", "L1")
    pairs = list(itertools.combinations(measures, 2))
    better = decide_in_settings(setting, [{"measure": m} for m in measures], beside=len(pairs))
    better.table["compared with"] = "MD"
    gains = {
        m: loss_below_md(replace(setting, measure=m), "clustered-similarity") for m in measures
    }
    rows, parts = [], []
    for a, b in pairs:
        difference = (gains[a] - gains[b]).dropna()
        part = judge_near_zero(difference, "nats", comparisons=len(measures) + len(pairs))
        rows.append((f"measure {a}", "Algorithm 2", *part.cells, f"measure {b}"))
        parts.append(part)
    between = pd.DataFrame(rows, columns=better.table.columns).round(3)
    table = pd.concat([better.table, between], ignore_index=True)
    table = table.rename(columns={"nats less than MD": "nats less"})
    verdict = statistics.combine_verdicts(table["verdict"])
    rule = "The measures are alike if within 0.03 nats of each other."
    if verdict == better.verdict:
        return replace(better, note=f"{better.note} {rule}", table=table)
    part = deciding_part(parts)
    note = f"Nats between two measures, in the one of {len(parts)} comparisons that decides. {rule}{part.why}"
    return replace(part, verdict=verdict).evidence(note, table)


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
def grows_with_skew(setting: Setting) -> Evidence:
    """Judge whether the improvement is larger, the smaller the concentration (Fig. 2)."""
    return decide_trend(
        setting,
        "concentration",
        recorded_concentrations(setting, SKEWS, 2),
        loss_below_md,
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
def on_local_work(setting: Setting) -> Evidence:
    """Judge whether more local steps save more rounds, compared with MD sampling (Fig. 8)."""
    return decide_trend(
        setting,
        "steps",
        steps_at_length(setting),
        rounds_saved,
        unit="of a share",
        sign=1,
        gain_words="the share of the rounds that is saved on MD sampling",
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
def better_with_more_work(setting: Setting) -> Evidence:
    """Judge whether what Algorithm 2 gains on MD sampling grows with the local steps; the clusters are not judged (Sec. 6)."""
    scheme = {"clustered-similarity": ALGORITHM["clustered-similarity"]}
    return decide_trend(
        setting,
        "steps",
        steps_at_length(setting),
        loss_below_md,
        unit="nats",
        sign=1,
        gain_words="Algorithm 2's gain on MD sampling",
        schemes=scheme,
    )


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
def on_cohorts(setting: Setting) -> Evidence:
    """Judge whether clustered sampling is better with every number of participants, and the more so, the fewer (Fig. 8)."""
    changes = [{"clients_per_round": m} for m in COHORTS]
    better = decide_in_settings(setting, changes, beside=len(ALGORITHM))
    trend = decide_trend(
        setting,
        "clients_per_round",
        COHORTS,
        loss_below_md,
        "nats",
        -1,
        "the gain on MD sampling",
        beside=len(changes) * len(ALGORITHM),
    )
    verdict = statistics.combine_verdicts((better.verdict, trend.verdict))
    note = f" With every number: {better.verdict}; the trend: {trend.verdict}."
    part = trend if trend.verdict == verdict else better
    return replace(part, note=part.note + note, table=pd.concat([trend.table, better.table]))


def rounds_left(setting: Setting, method: str) -> pd.Series:
    """Return by seed what share of the rounds is left when a run is down to the final loss of a run with the fewest
    clients per round."""
    few = rolling_curves(replace(setting, clients_per_round=COHORTS[0]), method)
    share = {
        seed: 1 - first_reached(curve, few[name, seed].iloc[-1]) / curve.index[-1]
        for (name, seed), curve in rolling_curves(setting, method).items()
        if (name, seed) in few
    }
    return pd.Series(share, dtype=float)


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
def faster_in_larger_cohorts(setting: Setting) -> Evidence:
    """Judge whether all three schemes reach a loss earlier with more participants (Fig. 8)."""
    return decide_trend(
        setting,
        "clients_per_round",
        COHORTS,
        rounds_left,
        unit="of a share",
        sign=1,
        gain_words="the share of rounds left at the loss at which the fewest end",
        schemes={"md": "MD"} | ALGORITHM,
    )


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
def by_size_in_figure_6(setting: Setting) -> Evidence:
    """Judge whether Algorithm 1 ends with a smaller loss than MD sampling at concentration 0.01 (App. D.2)."""
    judgement = judge_higher(loss_below_md(setting, "clustered-size"), "nats")
    return judgement.evidence(
        f"Nats less than MD sampling, {IN_LAST_ROUNDS}, concentration 0.01, {judgement.seeds} paired runs.{judgement.why}",
    )


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
def best_prox(setting: Setting) -> Evidence:
    """Judge whether MD sampling with mu = 0.1 ends with a smaller loss than with the other three (App. D.5)."""

    def last_losses(mu: float) -> pd.Series:
        """Return the final training losses of MD sampling at this mu, by seed."""
        frame = replace(setting, prox=mu).runs("md")
        return tables.pivot_seeds(frame, "train_loss", rolling_window(frame))["md"]

    others = (0.001, 0.01, 1.0)
    parts = {
        mu: judge_higher(
            (last_losses(mu) - last_losses(0.1)).dropna(), "nats", comparisons=len(others)
        )
        for mu in others
    }
    note = f"Nats of MD sampling that another mu has more than 0.1, {IN_LAST_ROUNDS}, for the one that decides"
    return evidence_of_parts(parts, ("mu", "nats more than with 0.1"), note)


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
def smoother_with_prox(setting: Setting) -> Evidence:
    """Judge whether the loss of all three schemes jumps less with mu = 0.1 than with 0 (App. D.5)."""
    parts, schemes = {}, {"md": "MD"} | ALGORITHM
    for method, name in schemes.items():
        usual, prox = (
            mean_jumps(replace(setting, prox=mu).runs(method), "train_loss")[method]
            for mu in (0.0, 0.1)
        )
        saved = (1 - prox / usual).dropna()
        parts[name] = judge_higher(saved, "of a share", comparisons=len(schemes))
    note = (
        "Share by which a jump of the training loss is smaller with mu = 0.1 than without, second half of the runs, for "
        "the scheme that decides"
    )
    return evidence_of_parts(parts, ("scheme", "share less of a jump"), note)


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
@verdict_if_missing
def similarity_faster(claim: Claim) -> Evidence:
    """Judge whether Algorithm 2 needs fewer rounds than MD sampling to the worse of their ends, in loss and accuracy (Fig. 1).

    Means of ten rounds: the figure is not smoothed, but the first of 200 single values to pass a level is chance.
    """
    rounds = int(ONE_DIGIT.runs("md", "clustered-similarity")["rounds"].min())
    parts = {
        metric.replace("_", " "): judge_higher(
            rounds_saved(ONE_DIGIT, "clustered-similarity", metric=metric, rounds=10),
            "of a share",
            comparisons=2,
        )
        for metric in ("train_loss", "test_accuracy")
    }
    short = f" (the figure shows {FIGURE_1})" if rounds < FIGURE_1 else ""
    note = (
        f"Share of all {rounds} rounds{short} that Algorithm 2 saves on MD sampling's way to the worse of their ends "
        "(means of ten rounds), for the one of loss and accuracy that decides"
    )
    return evidence_of_parts(parts, ("curve", "share saved"), note)


# Concentrations in the authors' public code, its branch `clustered_sampling` of May 2021: what `plots_appendix` draws, and
# with what the command files run the figure's setting. The longest of them lists all runs of the work; of the other two,
# `experiments` has Fig. 6, and `experiments_appendix` Fig. 8 to 10.
CONCENTRATIONS_IN_CODE = pd.DataFrame(
    {
        "figure": ["Fig. 6", "Fig. 8", "Fig. 9", "Fig. 10"],
        "caption": 0.01,
        "drawn by plots_appendix": 0.01,
        "in experiments_all": "0.001, 0.01, 0.1, 10.0",
        "in the shorter file": "0.1",
    }
)


@claim(
    "clustered-fig-6-to-10-concentration",
    paper="clustered",
    place="Fig. 6, 8, 9, 10, captions",
    kind="figure",
    statement="Fig. 6, 8, 9 and 10 are of concentration 0.01, as their captions say. (Two of the three command files of "
    "the authors' public code run them at 0.1.)",
    printed=0.01,
    chapter="06_clustered_sampling#does-it-help-on-colour-images",
    meaning="of the figures are drawn at the concentration of their caption",
    order=595,
)
def captions_and_code(claim: Claim) -> Evidence:
    """Judge whether the authors' code draws the figures at the concentration of the captions, from runs that it lists."""
    code = CONCENTRATIONS_IN_CODE
    printed = first_number(claim.printed)
    listed = code["in experiments_all"].map(lambda runs: f"{printed:g}" in runs.split(", "))
    drawn = (code[["caption", "drawn by plots_appendix"]] == printed).all(axis=1) & listed
    return Evidence(
        statistics.judge_exactly(drawn.all()),
        f"{drawn.sum()} of {len(drawn)}",
        note="From the authors' public code, since the paper prints no number of these figures: its plotting script draws them at "
        "0.01, and the command file with all runs lists them at 0.01, too. The two shorter command files, which are "
        "said to be enough for the figures, have these settings at 0.1 only. So who runs what the shorter files list cannot draw "
        "the figures. For Fig. 6 the script takes the rate 0.01, where the caption says 0.05, and the files give L1 and L2 to "
        "Algorithm 1, which has no measure.",
        table=code,
    )


@claim(
    "clustered-abstract-consistently",
    paper="clustered",
    place="Abstract",
    kind="superiority",
    statement="Clustered sampling (both algorithms) consistently trains better than MD sampling. (Read as: in the "
    "controlled setting of Fig. 1; the other experiments have rows of their own.)",
    printed="consistently better",
    chapter="06_clustered_sampling#the-recorded-runs",
    meaning="comparisons (two algorithms; loss and accuracy) that our runs show",
    core=True,
    order=10,
)
@verdict_if_missing
def better_in_figure_1(claim: Claim) -> Evidence:
    """Judge whether both algorithms are better than MD sampling in loss and in accuracy."""
    signs = {"train_loss": -1, "test_accuracy": 1}
    parts = {}
    for (method, name), (metric, sign) in itertools.product(ALGORITHM.items(), signs.items()):
        values = differences_by_seed(ONE_DIGIT.runs(method, "md"), method, "md", metric)
        parts[f"{name}, {metric.split('_')[-1]}"] = judge_higher(
            sign * values, UNIT_OF_METRIC[metric], comparisons=len(ALGORITHM) * len(signs)
        )
    verdicts = [part.verdict for part in parts.values()]
    table = pd.DataFrame(
        [(name, *part.cells) for name, part in parts.items()],
        columns=["comparison with MD", "better by", "low", "high", "verdict"],
    )
    note = f"Of {len(verdicts)} comparisons with MD sampling: {count_each(verdicts)}."
    ours = f"{verdicts.count('agrees')} of {len(verdicts)}"
    return Evidence(statistics.combine_verdicts(verdicts), ours, note=note, table=table)
