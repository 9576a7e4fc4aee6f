"""Clustered Sampling, Section 7: "compatible with" technologies for privacy and for fewer bytes, decided on MNIST.

Runs with one digit per client, in which the participants send updates of two bits a number, noisy updates, or updates
that are masked in their sum.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from companion.claims.evidence.experiments import (
    Judgement,
    Setting,
    differences_by_seed,
    judge_higher,
    judge_near_zero,
    verdict_if_missing,
)
from companion.claims.registry import Claim, Evidence, claim
from companion.runs import statistics, tables
from companion.runs.experiments import MESSAGES

SIMILARITY, SIZE = "clustered-similarity", "clustered-size"
PLAIN = Setting(
    "clustered-messages", partition="by_class", concentration=None, steps=None, message="as it is"
)
WHERE = "MNIST, one digit per client, 40 rounds"


def gain_over_md(label: str) -> Judgement:
    """Judge by how many points Algorithm 2 ends above MD sampling, both with this message."""
    frame = replace(PLAIN, message=label).runs("md", SIMILARITY)
    return judge_higher(differences_by_seed(frame, SIMILARITY, "md", "test_accuracy"), "points")


def cost_of_message(label: str, method: str) -> pd.Series:
    """Return by seed how many points a method ends below its own runs with updates as they are."""
    plain, sent = (
        tables.pivot_seeds(replace(PLAIN, message=each).runs(method), "test_accuracy")[method]
        for each in (PLAIN.message, label)
    )
    return (plain - sent).dropna()


def decide_gain(label: str, note: str = "") -> Evidence:
    """Judge whether Algorithm 2 stays above MD sampling with this message; the table has the same without it."""
    rows = [(each, *gain_over_md(each).cells) for each in (PLAIN.message, label)]
    gain, cost = gain_over_md(label), statistics.mean_interval(cost_of_message(label, SIMILARITY))
    columns = ["what is sent", "points above MD", "low", "high", "verdict"]
    return gain.evidence(
        f"Points of Algorithm 2 above MD sampling, {WHERE}, {gain.seeds} paired runs. The message costs Algorithm 2 "
        f"{statistics.format_interval(*cost)} points.{note}{gain.why}",
        pd.DataFrame(rows, columns=columns).round(2),
    )


@claim(
    "clustered-7-compressed",
    paper="clustered",
    place="Sec. 7",
    kind="superiority",
    statement="Clustered sampling is readily compatible with technologies for fewer bytes. (Read as: with "
    "updates of two bits a number Algorithm 2 still ends above MD sampling.)",
    printed="readily compatible",
    chapter="06_clustered_sampling#what-if-updates-are-compressed-noisy-or-hidden",
    meaning="points that Algorithm 2 is above MD sampling, with updates of two bits a number",
    order=356,
)
@verdict_if_missing
def compressed(claim: Claim) -> Evidence:
    """Judge whether Algorithm 2 stays above MD sampling if updates are quantised."""
    return decide_gain("2 bits a number")


@claim(
    "clustered-7-noisy",
    paper="clustered",
    place="Sec. 7",
    kind="superiority",
    statement="Clustered sampling is readily compatible with technologies for privacy. (Read as: with weak "
    "noise on every update Algorithm 2 still ends above MD sampling.)",
    printed="readily compatible",
    chapter="06_clustered_sampling#what-if-updates-are-compressed-noisy-or-hidden",
    meaning="points that Algorithm 2 is above MD sampling, with weak noise on updates",
    order=357,
)
@verdict_if_missing
def noisy(claim: Claim) -> Evidence:
    """Judge whether Algorithm 2 stays above MD sampling if updates are shortened and noisy."""
    weak, strong = (MESSAGES[label].epsilon() for label in ("weak noise", "strong noise"))
    cost = statistics.mean_interval(cost_of_message("strong noise", "md"))
    return decide_gain(
        "weak noise",
        f" This noise protects nobody: one message has epsilon {weak:,.0f} at delta 1e-5. Noise of epsilon {strong:.0f} "
        f"a message costs MD sampling {statistics.format_interval(*cost)} points; Algorithm 2 was not run with it.",
    )


@claim(
    "clustered-7-masked",
    paper="clustered",
    place="Sec. 7",
    kind="superiority",
    statement="Clustered sampling by size works unchanged under secure aggregation. (Read as: Algorithm 1 "
    "reaches the same test accuracy if the server sees masked sums alone.)",
    printed="readily compatible",
    chapter="06_clustered_sampling#what-if-updates-are-compressed-noisy-or-hidden",
    meaning="points that Algorithm 1 loses if the server sees masked sums alone",
    tolerance=1,
    order=358,
)
@verdict_if_missing
def masked(claim: Claim) -> Evidence:
    """Judge whether Algorithm 1 ends where it ends without masks."""
    lost = cost_of_message("masked", SIZE)
    judgement = judge_near_zero(lost, "points")
    table = lost.rename("points").rename_axis("seed").reset_index().round(3)
    return judgement.evidence(
        f"Points lost, {WHERE}, {judgement.seeds} paired runs. Algorithm 2 and FedSTaS are refused: they ask for "
        f"vectors of single clients.{judgement.why}",
        table,
    )
