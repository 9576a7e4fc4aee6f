"""The check of designs with a convolutional network on CIFAR-10, which book/comparison.md declares (chapter 10)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from companion.pages.saved_bytes import LABELS
from companion.runs import statistics, tables
from companion.runs.clustered_grid import CIFAR10_SHORT
from fedstas.errors import InputError

SWEEP = "clustered-cifar10-short"
CONCENTRATION = 0.01
ROUNDS = (84, 88, 92, 96, 100)  # over which an outcome is averaged
DESIGNS = {
    "md": LABELS["md"],
    "clustered-size": "clustered by size",
    "clustered-similarity": LABELS["clustered-similarity"],
    "fedstas-least-variance": LABELS["least-variance"],
}
OUTCOMES = {  # column of the records, factor, unit and decimals; the primary one first
    "averaged model": ("test_accuracy_average", 100, "%", 1),
    "last model": ("test_accuracy", 100, "%", 1),
    "training loss": ("train_loss", 1, "nats", 3),
}


def compare(folder: str | Path = "results") -> pd.DataFrame:
    """Compare each design with MD sampling, paired by seed, in the runs that are recorded below a folder.

    Returns:
        A row per outcome and design, MD among them: `outcome`, `design`, `seeds`, `mean` (per cent, or nats), `megabytes`
        that a run sends in all, relative to MD's, and for other designs `difference` to MD with its 95 % interval `low` to
        `high`.

    Raises:
        InputError: a seed of a design has several runs.
    """
    # The sweep changes one setting at a time, too; the check is of the usual one.
    usual = {tables.variant_of(CIFAR10_SHORT.run({}, design, 0)) for design in DESIGNS}
    runs = tables.load_sweep(SWEEP, folder).where(concentration=CONCENTRATION)
    runs = runs[runs["variant"].isin(usual) & runs["round"].isin(ROUNDS)]
    if runs.duplicated(["seed", "method", "round"]).any():
        raise InputError(
            f"the sweep {SWEEP} has several runs of a seed in the setting of the check"
        )
    sent = runs.groupby(["seed", "method"])["megabytes"].max().unstack()
    rows = []
    for outcome, (column, factor, *_) in OUTCOMES.items():
        means = runs.groupby(["seed", "method"])[column].mean().unstack() * factor
        for design in filter(means.columns.__contains__, DESIGNS):
            both = means[["md", design] if design != "md" else ["md"]].dropna()
            row = {"outcome": outcome, "design": design, "seeds": len(both)}
            row["mean"] = both[design].mean()
            row["megabytes"] = (sent[design] / sent["md"])[both.index].mean()
            if design != "md":
                interval = statistics.mean_interval(both[design] - both["md"])
                row |= dict(zip(("difference", "low", "high"), interval, strict=True))
            rows.append(row)
    return pd.DataFrame(rows)


def tabulate(compared: pd.DataFrame) -> pd.DataFrame:
    """Format what `compare` returns for the page: a row per design."""
    rows = []
    for design, part in compared.groupby("design", sort=False):
        row = {"design": DESIGNS[str(design)], "seeds": part["seeds"].iloc[0]}
        row["megabytes (MD = 1)"] = f"{part['megabytes'].iloc[0]:.2f}"
        for outcome, values in part.set_index("outcome").iterrows():
            *_, unit, decimals = OUTCOMES[outcome]
            form = f".{decimals}f"
            row[f"{outcome} ({unit})"] = f"{values['mean']:{form}}"
            difference = values[["difference", "low", "high"]]
            row[f"{outcome} less MD's"] = (
                "" if design == "md" else statistics.format_interval(*difference, f"+{form}")
            )
        rows.append(row)
    return pd.DataFrame(rows)


def compute_numbers(compared: pd.DataFrame) -> dict:
    """Compute the page's numbers from what `compare` returns."""
    rows = compared.set_index(["outcome", "design"])
    strata = rows.xs("fedstas-least-variance", level="design")
    numbers = {
        "checked_md": rows.loc[("averaged model", "md"), "mean"],
        "checked_megabytes": strata["megabytes"].iloc[0],
    }
    for key, outcome, design in (
        ("average", "averaged model", "fedstas-least-variance"),
        ("last", "last model", "fedstas-least-variance"),
        ("similarity", "averaged model", "clustered-similarity"),
    ):
        interval = rows.loc[(outcome, design), ["difference", "low", "high"]]
        numbers[f"checked_{key}"] = statistics.format_interval(*interval)
    return numbers


def check(compared: pd.DataFrame) -> dict[str, bool]:
    """Check the page's sentences on what `compare` returns: seeds, and on which side of MD the designs are."""
    rows = compared.set_index(["outcome", "design"])
    strata = rows.xs("fedstas-least-variance", level="design")
    similarity = rows.loc[("averaged model", "clustered-similarity")]
    return {
        "seeds": bool((strata["seeds"] == 5).all()),
        "average": strata.loc["averaged model", "low"] > 0,
        "last": strata.loc["last model", "low"] > 0,
        "similarity": similarity["seeds"] == 5 and similarity["low"] > 0,
    }
