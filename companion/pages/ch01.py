"""Figures and tables of chapter 1, *What is a round estimating?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import Style

UPDATES, MODELS = Style(plots.CORRECTED), Style(plots.WRITTEN)
ESTIMATORS = {  # by the chapter's names: the title of a panel, and the style with a shorter label
    "fedavg": ("FedAvg: shares of the cohort's data", Style(plots.DARK_GREY, label="FedAvg")),
    "scaled": ("scaled up, on updates", UPDATES._replace(label="on updates")),
    "md": ("MD: drawn by size, counted alike", Style(plots.PINK, label="MD")),
    "printed": ("scaled up, on models (as written)", MODELS._replace(label="on models")),
}


def draw_partitions(federations: dict) -> Figure:
    """Draw a square for each client and class, its area the number of examples; a panel for each federation, by title."""
    largest = max(f.label_counts.max() for f in federations.values())

    def draw(ax: Axes, federation) -> None:
        """Draw the clients of one federation into a panel."""
        counts = federation.label_counts[federation.with_data]
        counts = counts[np.lexsort((-counts.max(1), counts.argmax(1)))]
        client, label = np.nonzero(counts)
        area = 130 * counts[client, label] / largest
        ax.scatter(client + 1, label, area, marker="s", color=plots.DARK_GREY, lw=0)
        ax.set(ylabel="class", yticks=range(0, counts.shape[1], max(1, counts.shape[1] // 5)))

    xlabel = "client, sorted by its largest class"
    return plots.panels(draw, federations, height=1.6, sharex=False, xlabel=xlabel)


def tabulate_partitions(federations: dict) -> pd.DataFrame:
    """Return how the federations differ: numbers of clients and examples, a row each."""
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


def draw_estimators(projections: dict[str, np.ndarray], limit: float = 4.0) -> Figure:
    """Draw a histogram for each estimator of its cohorts' estimates, projected on the target (1: the target).

    Args:
        projections: of the cohorts' estimates [cohorts], by the names of ESTIMATORS.
        limit: how far from 1 the axis reaches; the share outside is written.
    """

    def draw(ax: Axes, name: str) -> None:
        """Draw the histogram of one estimator into a panel."""
        values, (title, style) = projections[name], ESTIMATORS[name]
        ax.hist(values, np.linspace(1 - limit, 1 + limit, 81), color=style.colour, density=True)
        ax.axvline(1, color="black", lw=1)
        ax.set_title(title, loc="left", color=plots.text_colour(style.colour), pad=3)
        ax.set_yticks([])
        if (outside := np.mean(np.abs(values - 1) > limit)) > 0.001:
            where = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
            plots.annotate(ax, 0.99, 0.9, f"{outside:.0%} lie outside", "black", 0, **where)

    parts = {name: name for name in projections}
    xlabel = "one round, along the target (1: exactly the target)"
    return plots.panels(draw, parts, height=0.93, sharey=True, xlabel=xlabel)


def tabulate_errors(errors: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the error of a round, the bias, the bias that chance alone would show, and the sum of the weights.

    Args:
        errors: by estimator, of each cohort [cohorts, parameters].
        weights: by estimator, of each cohort [cohorts, clients].
    """
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
                "sum of weights": " to ".join(dict.fromkeys([f"{low:.2f}", f"{high:.2f}"])),
            }
        )
    return pd.DataFrame(rows)


def draw_averaging(rounds: list[int], errors: dict[str, list[float]]) -> Figure:
    """Draw the error of the mean of many rounds, a curve for each estimator.

    Args:
        rounds: numbers of rounds that are averaged.
        errors: for each of them, in lengths of the target, by the names of ESTIMATORS.
    """
    figure, ax = plt.subplots()
    styles = {name: style for name, (_, style) in ESTIMATORS.items()}
    bottom = 0.5 * min(map(min, errors.values()))  # the lowest name above the axis
    axis = {"xscale": "log", "yscale": "log", "ylim": (bottom, None), "xlabel": "rounds averaged"}
    axis["ylabel"] = "error of the mean\n(lengths of the target)"
    plots.curves(ax, pd.DataFrame(errors, rounds), styles, **axis)
    return figure


def draw_common_part(lengths, on_models, on_updates: float, model_length: float) -> Figure:
    """Draw the error of a round over the length of the models' common part; all in lengths of the target.

    Args:
        lengths: of the common part, ascending.
        on_models: the error of weights on models, for each length.
        on_updates: the error of weights on updates, which is the same for all lengths.
        model_length: the length of the chapter's model.
    """
    figure, ax = plt.subplots()
    lines = {"on models": pd.Series(on_models, lengths)}
    axis = {"xscale": "log", "yscale": "log", "ylabel": "error of a round\n(lengths of the target)"}
    axis["xlabel"] = "length of the common part\n(lengths of the target)"
    plots.curves(ax, lines, {"on models": MODELS}, names=False, **axis)
    ax.axhline(on_updates, color=UPDATES.colour, lw=2)
    middle = len(lengths) // 2
    name = {"ha": "right"}
    plots.annotate(
        ax, lengths[middle], on_models[middle], "on models", MODELS.colour, -6, 6, **name
    )
    plots.annotate(ax, lengths[middle], on_updates, "on updates", UPDATES.colour, 16, 8)
    ax.axvline(model_length, color="black", lw=1, ls=":")
    plots.annotate(ax, model_length, on_models[-1], "this model", "black", 4)
    return figure


def draw_training(runs: pd.DataFrame) -> Figure:
    """Draw the model's length and accuracy over rounds: of each form the median run, and the range of all as a band.

    Args:
        runs: columns form, round, seed, length, accuracy.
    """
    figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.9))
    styles = {"models": MODELS._replace(label="on models")}
    styles["updates"] = UPDATES._replace(label="on updates")
    labels = {"length": "length of the model", "accuracy": "test accuracy (%)"}
    for ax, (metric, label) in zip(axes, labels.items(), strict=True):
        by_form = runs.groupby(["form", "round"])[metric].agg(mean="median", low="min", high="max")
        lines = {form: by_form.loc[form] for form in styles}
        plots.curves(
            ax, lines, styles, ylabel=label, yscale="log" if metric == "length" else "linear"
        )
        ax.set_xlabel("round")
    return figure


def final_ranges(runs: pd.DataFrame) -> dict[str, float]:
    """Return the ranges over the last round's runs: `updates_length_least`, `updates_length_most`, and so on."""
    last = runs[runs["round"] == runs["round"].max()].groupby("form")
    ranges = last[["length", "accuracy"]].agg(["min", "max"])
    names = {"min": "least", "max": "most"}
    return {
        f"{form}_{metric}_{names[end]}": value
        for (metric, end), column in ranges.items()
        for form, value in column.items()
    }
