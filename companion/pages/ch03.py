"""Figures and tables of chapter 3, *How many examples are there?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import (
    AMBER,
    BLACK,
    BROWN,
    CODED,
    CORRECTED,
    DARK_GREY,
    PURPLE,
    WRITTEN,
    Style,
)
from companion.runs import tables

READINGS = {  # of the requested sample, by the chapter's names: style, and offset from the client's place
    "Bernoulli": (Style(BLACK, "", "o"), -0.2),
    "fixed size": (Style(BROWN, "", "s"), 0.0),
    "proportional": (Style(PURPLE, "", "^"), 0.2),
}
METRICS = {  # what the page calls them, their colour, and their place beside the rate
    "test_accuracy": ("global test set", CORRECTED, 0.97),
    "client_accuracy": ("clients' class shares", DARK_GREY, 1.03),
}


def draw_six(held: np.ndarray, samples: dict[str, np.ndarray]) -> Figure:
    """Draw what three of the six clients hold, and how much of it they train on under two rules.

    Args:
        held: examples of the clients A, C and E.
        samples: numbers of examples that they train on, by rule.
    """
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDTH, 1.9), sharey=True)
    for ax, (name, drawn) in zip(axes, samples.items(), strict=True):
        ax.bar(range(3), held, 0.9, color="#808080", alpha=0.25)
        ax.bar(range(3), drawn, 0.9, color=BLACK, alpha=0.75)
        for k, (size, number) in enumerate(zip(held, drawn, strict=True)):
            ax.text(
                k,
                number - 1,
                f"{number:.0f}/{size}",
                ha="center",
                va="top",
                fontsize=8,
                color="white",
            )
        ax.set_xticks(range(3), ["A", "C", "E"])
        ax.set_title(name, loc="left")
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("pictures")
    return figure


def draw_readings(sizes: np.ndarray, samples: dict[str, np.ndarray]) -> Figure:
    """Draw the number of examples that each participant trains on, and each example's chance to be used.

    Args:
        sizes: examples of the participants [m].
        samples: by reading, the numbers of examples drawn in many rounds [rounds, m].
    """
    figure, axes = plt.subplots(2, 1, figsize=(plots.WIDTH, 4.8), sharex=True)
    at = np.arange(len(sizes))
    axes[0].bar(at, sizes, 0.86, color="#808080", alpha=0.25)
    plots.annotate(axes[0], at[-1], sizes[-1], "all it holds", DARK_GREY, 22)
    counts, chances, styles = {}, {}, {}
    for name, numbers in samples.items():
        styles[name], offset = READINGS[name]
        low, high = np.quantile(numbers, [0.025, 0.975], axis=0)
        line = pd.DataFrame({"mean": numbers.mean(0), "low": low, "high": high}, at + offset)
        counts[name], chances[name] = line, 100 * line["mean"] / sizes
    limits = (0, 1.05 * sizes.max()), (0, 106)
    for ax, lines, ylim in zip(axes, (counts, chances), limits, strict=True):
        plots.curves(ax, lines, styles, band="bars", ylim=ylim)
        ax.grid(axis="x", visible=False)
    axes[0].set(ylabel="examples it trains on")
    axes[1].set(ylabel="chance of each of\nits examples (%)")
    axes[1].set(xlabel="participant, by its number of examples", xlim=(-0.6, len(sizes) - 0.4))
    axes[1].set_xticks(at, sizes, rotation=90 if len(sizes) > 8 else 0)
    return figure


def draw_report(size_cap: int, fake: float, truth: float) -> Figure:
    """Draw the distribution of one report of a client of 40 examples, and of one at or above the cap.

    Args:
        size_cap: M; reports are 1 to M-1.
        fake: probability of each size that is not the client's.
        truth: probability of the client's size.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.5))
    values, edges = np.arange(1, size_cap), np.arange(1, size_cap + 1) - 0.5
    ax.bar(values, np.where(values == 40, truth, fake), 1.0, color="#808080", alpha=0.6)
    clipped = np.where(values == size_cap - 1, truth, fake)
    ax.stairs(clipped, edges, color=WRITTEN, lw=1.6)
    plots.annotate(ax, 40, truth, "holds 40", DARK_GREY, 5, -3)
    plots.annotate(ax, size_cap - 1, truth, "holds 600", WRITTEN, -5, -3, ha="right")
    ax.set(xlabel="reported size", ylabel="probability")
    ax.set(xlim=(0, size_cap + 1), ylim=(0, 1.1 * truth))
    ax.grid(axis="x", visible=False)
    return figure


def draw_estimator(
    distributions: dict[str, tuple], counts: dict[str, int], size: int, size_cap: int
) -> Figure:
    """Draw the distribution of the estimated total, a panel for each version; what is not positive is dark.

    Args:
        distributions: by version (`written`, `coded`), the values and their probabilities.
        counts: by version, how many clients report.
        size: examples of each client.
    """
    versions = {
        "written": ("as written: participants report", WRITTEN),
        "coded": ("as coded: all clients report", CODED),
    }

    def draw(ax: Axes, name: str) -> None:
        """Draw the distribution of one version of the estimate into a panel."""
        (values, chances), count, (title, colour) = (
            distributions[name],
            counts[name],
            versions[name],
        )
        density = 100 * chances / (values[1] - values[0])
        negative, top = values <= 0, density.max()
        ax.plot(values, density, color=colour, lw=1.6)
        for part, alpha in ((slice(None), 0.25), (negative, 0.9)):
            ax.fill_between(values[part], density[part], color=colour, alpha=alpha, lw=0)
        clipped, truth = count * (size_cap - 1), count * size
        ax.axvline(0, color=DARK_GREY, lw=1, ls=":")
        ax.axvline(clipped, color=colour, lw=1.2, ls="--")
        ax.axvline(truth, color="black", lw=1.4)
        plots.annotate(ax, clipped, 1.13 * top, f"clipped total {clipped:,}", colour)
        plots.annotate(ax, truth, 0.6 * top, f"truth\n{truth:,}", "black", -5, ha="right")
        ax.set(xlim=(-1.7 * count * size_cap, 1.03 * truth), ylim=(0, 1.25 * top))
        ax.set_xticks(ticks := [0, truth // 3, 2 * truth // 3, truth], [f"{x:,}" for x in ticks])
        ax.set(ylabel="probability per\n100 examples")
        ax.set_title(title, loc="left", color=plots.text_colour(colour))

    parts = {name: name for name in distributions}
    return plots.panels(draw, parts, height=2.05, sharex=False, xlabel="estimated total (examples)")


ERROR_AXIS = {"yscale": "log", "ylabel": "error (% of the truth)"}


def _label_errors(ax: Axes) -> None:
    """Write the errors at an axis as plain numbers."""
    ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])


def draw_caps(caps: np.ndarray, bias: np.ndarray, spread: np.ndarray) -> Figure:
    """Draw the error of the total that ten reports estimate over the size cap.

    Args:
        caps: size caps, ascending.
        bias, spread: clipping bias and standard deviation at each cap (% of the total).
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.0))
    parts = {
        "standard\ndeviation": pd.Series(spread, caps),
        "both": pd.Series(np.hypot(bias, spread), caps),
        "clip bias": pd.Series(np.abs(bias), caps),
    }
    styles = {
        "clip bias": Style(AMBER),
        "standard\ndeviation": Style(BROWN),
        "both": Style(BLACK),
    }
    axis = {"xscale": "log", "xlim": (10, caps[-1]), "ylim": (5, 1500)} | ERROR_AXIS
    plots.curves(ax, parts, styles, width=1.8, names=False, **axis)
    both = parts["both"]
    ax.plot(both.idxmin(), both.min(), "o", color="black")
    places = {"clip bias": (14, 0, 8), "standard\ndeviation": (60, 8, -12), "both": (500, -8, 4)}
    for name, (x, right, up) in places.items():
        alignment = {"ha": "right" if right == -8 else "left"}
        y = np.interp(x, caps, parts[name])
        plots.annotate(ax, x, y, name, styles[name].colour, right, up, **alignment)
    ax.set_xlabel("size cap M (10 reports, ε = 3)")
    _label_errors(ax)
    return figure


def draw_more_reports(by_cap: dict[int, tuple], by_m: dict[int, tuple]) -> Figure:
    """Draw the error of the estimated total (%), over the number of reports and over epsilon; dotted, an error of 10 %.

    Args:
        by_cap: for each cap M, the numbers of reports and the errors.
        by_m: for each number of reports, epsilon and the errors.
    """
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 2.9), sharey=True)
    tones = (BLACK, PURPLE, BROWN, DARK_GREY)
    for ax, curves, form in zip(axes, (by_cap, by_m), ("M = {:,}", "{:,} reports"), strict=True):
        lines = {form.format(key): pd.Series(errors, x) for key, (x, errors) in curves.items()}
        tone = {name: Style(c) for name, c in zip(lines, tones, strict=False)}
        scale = "log" if ax is axes[0] else "linear"
        plots.curves(ax, lines, tone, xscale=scale, ylim=(0.2, 1500), **ERROR_AXIS)
        ax.axhline(10, color="black", lw=1, ls=":")
        _label_errors(ax)
    axes[0].set_xlabel("number of reports (ε = 3)")
    axes[1].set(xlabel="ε of a report (best cap for each)", xticks=range(1, 11, 3), ylabel="")
    return figure


def draw_accuracy(runs: pd.DataFrame) -> Figure:
    """Draw the difference of each rate's accuracy to that of all data, in points, with 95 % intervals.

    Args:
        runs: a row for each run and evaluated round, the rate in the column `method`.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.0))
    for metric, (name, colour, offset) in METRICS.items():
        table = tables.paired_differences(runs, metric, 1.0)
        line = table[["difference", "low", "high"]].rename(columns={"difference": "mean"})
        line.index = line.index * offset
        style = {name: Style(colour, marker="o")}
        plots.curves(ax, {name: line}, style, band="bars", names=False)
        up, ha = (-14, "left") if metric == "client_accuracy" else (14, "right")
        _, (x, y), *_ = line["mean"].items()  # the name stands at the second rate
        plots.annotate(ax, x, y, name, colour, 8 if up < 0 else -8, up, ha=ha)
    ax.axhline(0, color="black", lw=1)
    ax.set(xscale="log", xlabel="rate q", ylabel="points against q = 1", xlim=(0.025, 0.7))
    ax.set_xticks(table.index, [f"{q:g}" for q in table.index])
    ax.set_xticks([], minor=True)
    return figure


def _format_points(row) -> str:
    """Return a difference and its interval; with one federation there is none."""
    text = f"{row.difference:+.1f}"
    if np.isfinite(row.low):
        text += f" ({row.low:+.1f} to {row.high:+.1f})"
    return text.replace("-", "−")


def tabulate_rates(
    runs: pd.DataFrame, empty: dict[float, float], local: dict[float, float]
) -> pd.DataFrame:
    """Return a row for each rate: examples of a local step, weight of empty samples, differences to all data.

    Args:
        runs: a row for each run and evaluated round, the rate in the column `method`.
        empty: by rate, the weight of the participants that drew nothing.
        local: by rate, the mean number of examples of a local step.
    """
    differences = {metric: tables.paired_differences(runs, metric, 1.0) for metric in METRICS}
    rates = differences["test_accuracy"].index
    columns = {
        "rate q": [f"{q:g}" for q in rates],
        "examples behind a local step": [f"{local[q]:.1f}" for q in rates],
        "weight of clients that draw nothing": [f"{100 * empty[q]:.1f} %" for q in rates],
    }
    for metric, by_rate in differences.items():
        columns[f"{METRICS[metric][0]} (points against q = 1)"] = [
            _format_points(by_rate.loc[q]) for q in by_rate.index
        ]
    return pd.DataFrame(columns)


def draw_allocation(
    sigma: np.ndarray, sizes: np.ndarray, allocations: dict[str, np.ndarray]
) -> Figure:
    """Draw which share of each client's examples the optimal allocation of a tenth of all uses, over the client's spread.

    Args:
        sigma: standard deviation of each client's example gradients, [N].
        sizes: examples of each client, [N].
        allocations: examples that each client trains on, [N], by the name of the clients' weights in the objective (by
            size, or equal). In sum they are a tenth of all examples.
    """
    figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.9), sharey=True)
    some = sizes > 1  # a client of one example has no spread
    for ax, (name, n_prime) in zip(axes, allocations.items(), strict=True):
        share = 100 * n_prime[some] / sizes[some]
        # Of a dot, in square points: the smallest stay visible.
        area = 220 * sizes[some] / sizes.max() + 8
        ax.scatter(sigma[some], share, area, color=BROWN, alpha=0.55, lw=0)
        # 10 %: if every client used the same share of its examples.
        ax.axhline(10, color="black", lw=1, ls=":")
        plots.annotate(ax, sigma[some].min(), 10, "one rate for all", "black", 0, 5, ha="left")
        ax.set_title(name, loc="left")
        ax.set(xlabel="spread of a client's examples")
    # Only now: a limit that is set before the second panel is drawn would cut off its highest discs.
    axes[0].set(ylabel="examples used (%)", ylim=(0, None))
    return figure
