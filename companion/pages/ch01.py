"""Figures and tables of chapter 1, *What is a round estimating?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots

UPDATES, MODELS = plots.CORRECTED, plots.WRITTEN  # corrected, and as the paper writes it
ESTIMATORS = {  # by the chapter's names: what the page calls them, shorter, and their colour
    "fedavg": ("FedAvg: shares of the cohort's data", "FedAvg", "#555555"),
    "scaled": ("scaled up, on updates", "on updates", UPDATES),
    "md": ("MD: drawn by size, counted alike", "MD", plots.PINK),
    "printed": ("scaled up, on models (as written)", "on models", MODELS),
}


def who_holds_what(federations: dict) -> Figure:
    """A panel per partition: a square for each client and class, its area the number of examples."""
    figure, axes = plt.subplots(len(federations), 1, figsize=(4.2, 1.7 * len(federations)))
    largest = max(f.label_counts.max() for f in federations.values())
    for ax, (title, federation) in zip(axes, federations.items(), strict=True):
        held = federation.label_counts[federation.with_data]
        held = held[np.lexsort((-held.max(1), held.argmax(1)))]
        client, label = np.nonzero(held)
        area = 130 * held[client, label] / largest
        ax.scatter(client + 1, label, area, marker="s", color="#555555", lw=0)
        ax.set(ylabel="class", yticks=range(0, held.shape[1], max(1, held.shape[1] // 5)))
        ax.set_title(title, loc="left")
    axes[-1].set_xlabel("client, sorted by its largest class")
    return figure


def held(federations: dict) -> pd.DataFrame:
    """How the partitions differ, in numbers."""
    rows = {}
    for title, f in federations.items():
        table, sizes = f.label_counts[f.with_data], f.sizes[f.with_data]
        rows[title] = {
            "clients": len(table),
            "least examples": sizes.min(),
            "median": int(np.median(sizes)),
            "most examples": sizes.max(),
            "one class only": int((table.max(1) == table.sum(1)).sum()),
            "different examples": len(np.unique(np.concatenate(f.shards))),
        }
    return pd.DataFrame(rows).T.rename_axis("partition").reset_index()


def estimators(along: dict[str, np.ndarray], limit: float = 4.0) -> Figure:
    """A histogram per estimator of what its cohorts say along the target (1: the target)."""
    figure, axes = plt.subplots(len(along), 1, figsize=(4.2, 4.2), sharex=True, sharey=True)
    for ax, (name, values) in zip(axes, along.items(), strict=True):
        words, _, colour = ESTIMATORS[name]
        ax.hist(values, np.linspace(1 - limit, 1 + limit, 81), color=colour, density=True)
        ax.axvline(1, color="black", lw=1)
        ax.set_title(words, loc="left", color=plots.text_colour(colour), pad=3)
        ax.set_yticks([])
        if (outside := np.mean(np.abs(values - 1) > limit)) > 0.001:
            where = {"transform": ax.transAxes, "ha": "right", "va": "top", "fontsize": 9}
            ax.text(0.99, 0.9, f"{outside:.0%} lie outside", **where)
    axes[-1].set_xlabel("one round, along the target (1: exactly the target)")
    return figure


def table(errors: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> pd.DataFrame:
    """Per estimator: error of a round, bias, what chance alone would show of one, sum of the weights."""
    rows = []
    for name, error in errors.items():
        rms = np.sqrt((error**2).sum(1).mean())
        low, high = np.quantile(weights[name].sum(1), [0.05, 0.95])
        rows.append(
            {
                "estimator": ESTIMATORS[name][0],
                "error": f"{rms:.2f}",
                "bias": f"{np.linalg.norm(error.mean(0)):.3f}",
                "bias by chance alone": f"{rms / np.sqrt(len(error)):.3f}",
                "sum of weights": f"{low:.2f} to {high:.2f}",
            }
        )
    return pd.DataFrame(rows)


def averaging(rounds: list[int], curves: dict[str, list[float]]) -> Figure:
    """The error of the mean of many rounds, a line per estimator."""
    figure, ax = plt.subplots()
    apart = {"scaled": 5, "md": -5}  # their lines end close to each other
    for name, errors in curves.items():
        _, short, colour = ESTIMATORS[name]
        ax.loglog(rounds, errors, color=colour, lw=2)
        plots.annotate(ax, rounds[-1], errors[-1], short, colour, up=apart.get(name, 0))
    ax.set(xlabel="rounds averaged", ylabel="error of the mean\n(lengths of the target)")
    ax.set_xlim(1, 60 * rounds[-1])  # room for the names
    ax.set_ylim(bottom=0.5 * min(map(min, curves.values())))  # the lowest name above the axis
    return figure


def common_part(lengths, on_models, on_updates: float, here: float) -> Figure:
    """Error of a round over the length of the common part; `here` is that of the chapter's model."""
    figure, ax = plt.subplots()
    ax.loglog(lengths, on_models, color=MODELS, lw=2)
    ax.axhline(on_updates, color=UPDATES, lw=2)
    middle = len(lengths) // 2
    plots.annotate(ax, lengths[middle], on_models[middle], "on models", MODELS, -6, 6, ha="right")
    plots.annotate(ax, lengths[middle], on_updates, "on updates", UPDATES, 16, 8)
    ax.axvline(here, color="black", lw=1, ls=":")
    plots.annotate(ax, here, on_models[-1], "this model", "black", 4)
    ax.set(xlabel="length of the common part\n(lengths of the target)")
    ax.set(ylabel="error of a round\n(lengths of the target)")
    ax.margins(x=0)
    return figure


def over_rounds(runs: pd.DataFrame) -> Figure:
    """Length and accuracy over rounds; per form the median run, and the range of all in a band."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 4.6), sharex=True)
    for form, colour in (("models", MODELS), ("updates", UPDATES)):
        found = runs[runs["form"] == form].groupby("round")
        for ax, metric in zip(axes, ("length", "accuracy"), strict=True):
            low, mid, high = (found[metric].quantile(q) for q in (0, 0.5, 1))
            ax.fill_between(mid.index, low, high, color=colour, alpha=0.2, lw=0)
            ax.plot(mid.index, mid, color=colour, lw=2)
            plots.annotate(ax, mid.index[-1], mid.iloc[-1], f"on {form}", colour)
    axes[0].set(yscale="log", ylabel="length of the model")
    axes[1].set(xlabel="round", ylabel="test accuracy (%)")
    axes[1].set_xlim(1, 1.4 * runs["round"].max())  # room for the names
    return figure


def ranges(runs: pd.DataFrame) -> dict[str, float]:
    """Of the last round, per form: `updates_length_least`, `updates_length_most`, and so on."""
    last = runs[runs["round"] == runs["round"].max()].groupby("form")
    found = {}
    for metric in ("length", "accuracy"):
        for form, values in last[metric]:
            found[f"{form}_{metric}_least"], found[f"{form}_{metric}_most"] = (
                values.min(),
                values.max(),
            )
    return found
