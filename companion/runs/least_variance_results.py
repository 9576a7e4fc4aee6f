"""Accuracy of strata of least variance against their rivals: the sweep `least-variance`, and the rivals'
runs of `preprint` and `fashion-mnist`, at the rounds that both have."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from companion.runs import statistics, tables
from companion.runs.tables import Variant

SWEEP, METHOD = "least-variance", "fedstas-least-variance"
# By place: the sweep of the rivals' runs with ten participants, task, partition.
PLACES = {
    "MNIST, disjoint": ("preprint", "mnist", "dirichlet"),
    "MNIST, equal sizes": ("preprint", "mnist", "dirichlet_fixed_size"),
    "Fashion-MNIST, disjoint": ("fashion-mnist", "fashion-mnist", "dirichlet"),
}
RIVALS = ("md", "clustered-similarity", "fedstas-unbiased")
WAYS = {
    Variant(): "",
    Variant.of(restratify_every=10): ", every 10 rounds",
    Variant.of(features="updates"): ", from updates",
}


def _ways(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each way to cut as a method of its own."""
    ways = [WAYS.get(variant.without("clients_per_round"), "") for variant in frame["variant"]]
    return frame.assign(method=frame["method"].astype(str) + ways)


def frames(folder: str | Path = "results") -> dict[tuple[str, int], pd.DataFrame]:
    """Runs by place and number of participants; methods are METHOD, its two other ways, and RIVALS."""
    own = tables.load_sweep(SWEEP, folder).frame
    found = {}
    if not len(own):
        return found
    own, few = _ways(own), own["clients_per_round"] == 5
    for place, (sweep, task, kind) in PLACES.items():
        here = (own["task"] == task) & (own["partition"] == kind)
        other = tables.load_sweep(sweep, folder).where(task=task, partition=kind)
        other = other[other["method"].isin(RIVALS)].assign(method=other["method"].astype(str))
        ten = own[here & ~few]
        other = other[other["round"].isin(ten["round"].unique())]
        found[place, 10] = pd.concat([other, ten], ignore_index=True)
        found[place, 5] = own[here & few].reset_index(drop=True)
    return found


def against(found: dict, metric: str = "test_accuracy") -> pd.DataFrame:
    """Final accuracy of each way to cut, less each rival's with the same seed, and what it costs of
    the rival's bytes and examples; Holm's correction over all rows."""
    rows = []
    for (place, m), frame in found.items():
        wide = tables.pivot_seeds(frame, metric)
        for way in WAYS.values():
            for rival in RIVALS:
                if {METHOD + way, rival} <= set(wide.columns):
                    told = tables.paired_differences(
                        frame[frame["method"].isin([METHOD + way, rival])], metric, rival
                    ).loc[METHOD + way]
                    sent, seen = tables.relative_cost(frame, METHOD + way, rival)
                    row = {"place": place, "m": m, "way": METHOD + way, "rival": rival}
                    rows.append(row | told.to_dict() | {"bytes": sent, "examples": seen})
    table = pd.DataFrame(rows)
    return table.assign(holm=statistics.holm(table["p"])) if len(table) else table


def told(duels: pd.DataFrame, rival: str) -> str:
    """Where strata made once are better than a rival, worse, or not told apart, by Holm's p, in points."""
    rows = duels[(duels["rival"] == rival) & (duels["way"] == METHOD)]
    sure = rows["holm"] < 0.05
    kinds = {
        "not told apart": rows[~sure],
        "worse": rows[sure & (rows["difference"] < 0)],
        "better": rows[sure & (rows["difference"] > 0)],
    }
    parts = []
    for word, these in kinds.items():
        places = [
            f"{x.place}, m = {x.m}, {statistics.format_interval(x.difference, x.low, x.high, '+.1f')}"
            for x in these.itertuples()
        ]
        if word == "not told apart":
            at = these.groupby("place", sort=False)["m"].agg(lambda m: " and ".join(map(str, m)))
            places = [f"{place}, m = {m}" for place, m in at.items()]
        parts += [f"{word}: {'; '.join(places)}"] if places else []
    return ". ".join(x[0].upper() + x[1:] for x in parts) or f"({tables.NOT_RECORDED})"
