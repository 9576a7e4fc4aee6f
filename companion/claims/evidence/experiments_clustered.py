"""Clustered Sampling, Fig. 1: one digit per client on MNIST."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pandas as pd

from companion.claims.evidence.clustered_losses import (
    ALGORITHM,
    mean_jumps,
    rounds_saved,
)
from companion.claims.evidence.experiments import (
    RESULTS,
    UNIT_OF_METRIC,
    Setting,
    count_each,
    count_seeds,
    decide_order,
    differences_by_seed,
    evidence_of_parts,
    judge_equal,
    judge_higher,
    load_sweep,
    verdict_if_missing,
)
from companion.claims.registry import Claim, Decision, Evidence, claim
from companion.runs import records, statistics

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
