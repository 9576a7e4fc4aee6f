"""Accuracy of strata of least variance and of the methods that they are compared with.

With five participants a round all were recorded by the sweep `least-variance`. With ten, that sweep has least variance alone,
and the rivals were recorded by `preprint` and `fashion-mnist`; they are compared at the rounds that both evaluated.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from companion.runs import statistics, tables
from companion.runs.tables import Variant

# The labels of strata of least variance and of the variant that forms them from last updates.
LEAST_VARIANCE, FROM_UPDATES = "least-variance", "least-variance, updates"
# The names that they have in recorded runs and in the table of one-round errors.
RECORDED_NAMES = {
    LEAST_VARIANCE: "fedstas-least-variance",
    FROM_UPDATES: "fedstas-least-variance, from updates",
}
LEAST_VARIANCE_METHOD = RECORDED_NAMES[LEAST_VARIANCE]
SWEEP = "least-variance"
# By federation: the sweep of the rivals' runs with ten participants, task, partition.
PLACES = {
    "MNIST, disjoint": ("preprint", "mnist", "dirichlet"),
    "MNIST, equal sizes": ("preprint", "mnist", "dirichlet_fixed_size"),
    "Fashion-MNIST, disjoint": ("fashion-mnist", "fashion-mnist", "dirichlet"),
}
RIVALS = ("md", "clustered-similarity", "fedstas-unbiased")
SUFFIXES = {  # of the method, by variant
    Variant(): "",
    Variant.of(restratify_every=10): ", every 10 rounds",
    Variant.of(features="updates"): ", from updates",
}


def _name_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Make each variant of least variance a method of its own."""
    suffixes = [
        SUFFIXES.get(variant.without("clients_per_round"), "") for variant in frame["variant"]
    ]
    return frame.assign(method=frame["method"].astype(str) + suffixes)


def load_frames(folder: str | Path = "results") -> dict[tuple[str, int], pd.DataFrame]:
    """Load the runs of least variance and its rivals.

    Returns:
        The runs by place, a key of PLACES, and number of participants, 10 or 5; their methods are LEAST_VARIANCE_METHOD,
        its two variants, and RIVALS. An empty dictionary if the sweep `least-variance` is not recorded.
    """
    runs = tables.load_sweep(SWEEP, folder).frame
    frames: dict[tuple[str, int], pd.DataFrame] = {}
    if not len(runs):
        return frames
    runs, has_five = _name_variants(runs), runs["clients_per_round"] == 5
    for place, (sweep, task, kind) in PLACES.items():
        in_place = (runs["task"] == task) & (runs["partition"] == kind)
        with_five, with_ten = runs[in_place & has_five], runs[in_place & ~has_five]
        # With five participants the rivals are in the same sweep, with ten they are in another.
        rivals = tables.load_sweep(sweep, folder).where(task=task, partition=kind)
        rivals = rivals[rivals["method"].isin(RIVALS)]
        rivals = rivals.assign(method=rivals["method"].astype(str))
        rivals = rivals[rivals["round"].isin(with_ten["round"].unique())]
        frames[place, 10] = pd.concat([rivals, with_ten], ignore_index=True)
        frames[place, 5] = with_five.reset_index(drop=True)
    return frames


def compare_with_rivals(
    frames: dict[tuple[str, int], pd.DataFrame], metric: str = "test_accuracy"
) -> pd.DataFrame:
    """Compare each variant with each rival on the same seeds.

    Returns:
        One row per place, number of participants m, variant and rival: difference in final accuracy with low,
        high, p and seeds, `bytes` and `examples` in multiples of the rival's, and `holm`, p corrected over all rows.
    """
    rows = []
    for (place, m), frame in frames.items():
        methods = set(tables.pivot_seeds(frame, metric).columns)
        for suffix in SUFFIXES.values():
            for rival in RIVALS:
                variant = LEAST_VARIANCE_METHOD + suffix
                if {variant, rival} <= methods:
                    pair = frame[frame["method"].isin([variant, rival])]
                    difference = tables.paired_differences(pair, metric, rival).loc[variant]
                    sent, processed = tables.relative_cost(frame, variant, rival)
                    row = {"place": place, "m": m, "variant": variant, "rival": rival}
                    row |= difference.to_dict()
                    rows.append(row | {"bytes": sent, "examples": processed})
    table = pd.DataFrame(rows)
    return table.assign(holm=statistics.holm(table["p"])) if len(table) else table
