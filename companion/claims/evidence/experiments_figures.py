"""FedSTaS, preprint: Fig. 1 to 3 and the numbers that describe them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from companion.claims.evidence import Claim, Evidence
from companion.claims.evidence.experiments import (
    FEWEST,
    NETWORK,
    RESULTS,
    Found,
    Setting,
    decided,
    exactly,
    higher,
    level,
    number,
    on_substitute,
    one_more,
    order,
    other_voice,
    relative,
    same,
    whole,
)
from companion.runs import records, statistics, tables
from fedstas.sim import partition


def first_round(frame: pd.DataFrame, method: str, threshold: float) -> pd.Series:
    """By seed: the first round with that accuracy; one more than there are where it is not reached."""
    wide = frame[frame["method"] == method].pivot(
        index="round", columns="seed", values="client_accuracy"
    )
    reached = wide >= threshold
    return reached.idxmax().where(reached.any(), wide.index.max() + 1)


def rounds_to(frame: pd.DataFrame, *methods: str, threshold: float = 0.5) -> pd.DataFrame:
    """The first rounds of these methods, one row per seed that all have."""
    return pd.DataFrame({m: first_round(frame, m, threshold) for m in methods}).dropna().astype(int)


def earlier(frame: pd.DataFrame, better: str, worse: str) -> np.ndarray:
    """Seed by seed: the rounds that one method reaches 50 % before another."""
    table = rounds_to(frame, better, worse)
    return (table[worse] - table[better]).to_numpy()


def explained(frame: pd.DataFrame, published: list[tuple], by) -> tuple[int, list[float]]:
    """How many published values lie where one more run may lie, and how far that reaches.

    `published`: (method, metric, round or None for the mean of the last ten, value in % or nats);
    `by(method)`: whose runs are asked. The list has half the width of each 95 % prediction interval.
    """
    inside, halves = 0, []
    for method, metric, at, value in published:
        own = frame[frame["method"] == by(method)]
        if at is None:
            values = tables.last_rounds(own, metric)["value"]
        else:
            values = tables.SCALES.get(metric, 1) * own.loc[own["round"] == at, metric]
        mean, low, high = one_more(values)
        inside += low <= value <= high
        halves.append(high - mean)
    return inside, halves


def sooner(setting: Setting, better: str, worse: str):
    """Does one method reach 50 % in fewer rounds than another?"""

    @decided
    def evidence(claim: Claim) -> Evidence:
        def find(a: str, b: str) -> Found:
            return higher(earlier(setting.runs(a, b), a, b), "rounds")

        found, (said, coded) = find(better, worse), other_voice(find, better, worse)
        table = rounds_to(setting.runs(better, worse), better, worse)
        return Evidence(
            found.verdict, found.mean, found.low, found.high,
            f"Rounds that {better} reaches 50 % earlier than {worse} (accuracy under the clients' "
            f"shares; not reached counts as the last round and one), {found.seeds} paired runs."
            f"{found.why}{said}",
            table.reset_index(), coded,
        )  # fmt: skip

    return evidence


FIXED = Setting("preprint")
DISJOINT = Setting("preprint", partition="dirichlet")
SKEWED = Setting("mnist-0.001", concentration=0.001)
IID = Setting("mnist-iid", partition="iid", concentration=None)
HUNDRED = Setting("cifar100", "cifar100", "dirichlet", 0.001)
BOTH = (DISJOINT,)
THREE = ("fedsts", "fedstas", "fedstas-dp")

# Levels and orders of Fig. 2 and 3.
mnist_fedsts, mnist_fedstas, mnist_dp = (level(FIXED, m) for m in THREE)
skewed_fedsts, skewed_fedstas, skewed_dp = (level(SKEWED, m) for m in THREE)
hundred_fedsts, hundred_fedstas, hundred_dp = (
    on_substitute(level(HUNDRED, m), NETWORK) for m in THREE
)
loss_fedsts, loss_fedstas, loss_dp = (level(FIXED, m, "train_loss") for m in THREE)
mnist_gain = relative(FIXED, "fedstas", "fedsts")
skewed_gain = relative(SKEWED, "fedstas", "fedsts")
hundred_gain = on_substitute(relative(HUNDRED, "fedstas", "fedsts"), NETWORK)
mnist_order = order(FIXED, "fedstas", "fedsts", also=BOTH)
mnist_order_global = order(FIXED, "fedstas", "fedsts", "test_accuracy", also=BOTH)
mnist_dp_order = order(FIXED, "fedstas-dp", "fedsts", also=BOTH)
mnist_dp_cost = order(FIXED, "fedstas", "fedstas-dp", also=BOTH)
skewed_dp_order = order(SKEWED, "fedstas-dp", "fedsts")
hundred_dp_order = on_substitute(order(HUNDRED, "fedstas-dp", "fedsts"), NETWORK)
rounds_to_half = sooner(FIXED, "fedstas", "fedsts")


def _held() -> dict[str, np.ndarray]:
    return records.load_partitions(RESULTS)


def shares(labels: np.ndarray, concentration: float = 0.01, seeds: int = FEWEST) -> pd.DataFrame:
    """The share of a client's largest class, mean and median over clients, in three partitions.

    One row per partition and seed: partition, seed, mean, median.
    """
    table = []
    for seed in range(seeds):
        for name in ("dirichlet", "dirichlet_fixed_size", "iid"):
            skew = {} if name == "iid" else {"concentration": concentration}
            counts = partition.make(name, labels, seed=seed, **skew).label_counts
            some = counts[counts.sum(1) > 0]
            share = some.max(1) / some.sum(1)
            table.append((name, seed, float(share.mean()), float(np.median(share))))
    return pd.DataFrame(table, columns=["partition", "seed", "mean", "median"])


def _labels() -> np.ndarray:
    """MNIST's training labels, in no order: how many there are of each class."""
    return np.repeat(np.arange(10), _held()["iid"].sum(0))


@decided
def figure_1(claim: Claim) -> Evidence:
    """Are labels more unevenly dealt at Dirichlet 0.01 than IID, in either reading of the partition?"""
    table = shares(_labels())
    wide = table.pivot(index="seed", columns="partition", values="median")
    found = {
        name: higher(wide[name] - wide["iid"], "of a share") for name in wide.columns.drop("iid")
    }
    least = min(found.values(), key=lambda f: f.mean)
    return Evidence(
        whole(f.verdict for f in found.values()), least.mean, least.low, least.high,
        f"Median share of a client's largest class more than IID ({wide['iid'].mean():.3f}), the less "
        f"skewed reading, {least.seeds} seeds.{least.why}",
        wide.round(3).reset_index(),
    )  # fmt: skip


@decided
def equal_portions(claim: Claim) -> Evidence:
    """Does each of the 100 clients get an approximately equal portion in the IID split?"""
    sizes = _held()["iid"].sum(1)
    table = pd.DataFrame(
        {"clients": [len(sizes)], "smallest": [sizes.min()], "largest": [sizes.max()]}
    )
    even = len(sizes) == number(claim.printed) and sizes.max() - sizes.min() <= 1
    return Evidence(exactly(bool(even)), len(sizes), note=f"{sizes.min()} each.", table=table)


@decided
def mnist_counts(claim: Claim) -> Evidence:
    """How many training images, of how many classes, does MNIST have?"""
    counts = _held()["iid"]
    total, classes = int(counts.sum()), int((counts.sum(0) > 0).sum())
    table = pd.DataFrame({"class": range(classes), "training images": counts.sum(0)})
    return Evidence(
        exactly(total == number(claim.printed) and classes == 10),
        total,
        note=f"{classes} classes, from the recorded partition (data set verified by its digest).",
        table=table,
    )


@decided
def more_skewed(claim: Claim) -> Evidence:
    """Is the partition more skewed the smaller the concentration?"""
    each = (1.0, 0.1, 0.01, 0.001)
    parts = [shares(_labels(), c).assign(concentration=c) for c in each]
    wide = pd.concat(parts).query("partition != 'iid'")
    wide = wide.pivot(index=["partition", "seed"], columns="concentration", values="mean")
    found = [
        higher(here[less] - here[more], "of a share")
        for _, here in wide.groupby(level="partition")
        for more, less in itertools.pairwise(each)
    ]
    means = wide.groupby(level="partition").mean()
    word = whole(f.verdict for f in found)
    least = min(found, key=lambda f: f.low)
    return Evidence(
        word, float(means[0.01].min()),
        note=f"Mean share of a client's largest class at concentration 0.01; from one concentration to the "
        f"next it grows by at least {least}, {least.seeds} seeds.{least.why if word == 'undecided' else ''}",
        table=means.round(3).reset_index(),
    )  # fmt: skip


@decided
def loss_falls(claim: Claim) -> Evidence:
    """Does the training loss of all three methods fall?"""
    frame = FIXED.runs(*THREE)
    ends = frame[frame["round"].isin((1, 99))]
    wide = ends.pivot(index=["method", "seed"], columns="round", values="train_loss")
    fall = wide[1] - wide[99]
    found = {m: higher(fall[m], "nats") for m in THREE}
    table = wide.groupby("method").agg(["mean", "min", "max"]).round(3)
    table.columns = [f"round {r}, {what}" for r, what in table.columns]
    least = min(found.values(), key=lambda f: f.low)
    return Evidence(
        whole(f.verdict for f in found.values()), least.mean, least.low, least.high,
        f"Nats that the loss falls from round 1 to 99, the method with least; it fell in "
        f"{int((fall > 0).sum())} of {len(fall)} runs.{least.why}",
        table.reset_index(),
    )  # fmt: skip


@decided
def begins_at(claim: Claim) -> Evidence:
    """Does FedSTS begin at about the printed accuracy?"""

    def first(method: str) -> np.ndarray:
        frame = FIXED.runs(method)
        return 100 * frame.loc[frame["round"] == 1, "client_accuracy"].to_numpy()

    def find(method: str) -> Found:
        return same(first(method), number(claim.printed), "points", claim.tolerance or 0, one_more)

    found, (said, coded) = find("fedsts"), other_voice(find, "fedsts")
    return Evidence(
        found.verdict, found.mean, found.low, found.high,
        f"After round 1, {found.seeds} runs; the interval is for one more run.{found.why}{said}",
        pd.DataFrame({"accuracy (%)": first("fedsts").round(1)}).rename_axis("run").reset_index(),
        coded,
    )  # fmt: skip


@decided
def by_round_40(claim: Claim) -> Evidence:
    """Is FedSTaS above FedSTS at round 40?"""

    def gaps(better: str, worse: str) -> pd.DataFrame:
        """One row per seed and one column per round."""
        frame = FIXED.runs(better, worse)
        wide = frame.pivot(index=["seed", "round"], columns="method", values="client_accuracy")
        return (100 * (wide[better] - wide[worse])).unstack("round").dropna()

    def find(better: str, worse: str) -> Found:
        return higher(gaps(better, worse)[40], "points")

    found, (said, coded) = find("fedstas", "fedsts"), other_voice(find, "fedstas", "fedsts")
    wide = gaps("fedstas", "fedsts")
    table = pd.DataFrame(
        [
            (at, *statistics.mean_interval(wide[at]), int((wide[at] > 0).sum()))
            for at in (20, 40, 60, 80, 99)
        ],
        columns=["round", "points", "low", "high", "above"],
    )
    return Evidence(
        found.verdict, found.mean, found.low, found.high,
        f"Points of fedstas above fedsts at round 40, {found.seeds} paired runs; it was above in "
        f"{int((wide[40] > 0).sum())}.{found.why}{said}",
        table.round(2), coded,
    )  # fmt: skip
