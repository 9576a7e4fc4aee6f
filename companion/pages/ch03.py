"""Figures and tables of chapter 3, *How many examples are there?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import tables

BROWN, PURPLE, SOFT = "#B15928", "#6A3D9A", "#555555"
READINGS = {  # by the chapter's names: colour, marker and place beside the client
    "Bernoulli": ("#000000", "o", -0.2),
    "fixed size": (BROWN, "s", 0.0),
    "proportional": (PURPLE, "^", 0.2),
}
METRICS = {  # what the page calls them, their colour, and their place beside the rate
    "test_accuracy": ("global test set", plots.CORRECTED, 0.97),
    "client_accuracy": ("clients' class shares", SOFT, 1.03),
}


def readings(n: np.ndarray, drawn: dict[str, np.ndarray]) -> Figure:
    """What participants of n [m] examples train on in many rounds, drawn [rounds, m] by reading."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 4.8), sharex=True)
    at = np.arange(len(n))
    axes[0].bar(at, n, 0.86, color="#808080", alpha=0.25)
    plots.annotate(axes[0], at[-1], n[-1], "all it holds", SOFT, 22)
    beside = {
        "Bernoulli": 7,
        "fixed size": 0,
        "proportional": -7,
    }  # the first and the last are close
    for name, counts in drawn.items():
        colour, marker, place = READINGS[name]
        mean, ends = counts.mean(0), np.quantile(counts, [0.025, 0.975], axis=0)
        looks = {"color": colour, "marker": marker, "ms": 5, "ls": ""}
        axes[0].errorbar(at + place, mean, np.abs(ends - mean), lw=1.4, capsize=2, **looks)
        axes[1].plot(at + place, 100 * mean / n, **looks)
        up = beside[name] if name != "fixed size" or mean[-1] < 0.8 * n[-1] else -14
        plots.annotate(axes[0], at[-1] + place, mean[-1], name, colour, 16 - 30 * place, up)
    for name, up in beside.items():
        share = 100 * drawn[name][:, -1].mean() / n[-1]
        plots.annotate(axes[1], at[-1] + 0.2, share, name, READINGS[name][0], 8, up)
    axes[0].set(ylabel="examples it trains on", ylim=(0, None))
    axes[1].set(ylabel="chance of each of\nits examples (%)", ylim=(0, 106))
    axes[1].set(xlabel="participant, by its number of examples", xlim=(-0.6, 1.45 * len(n)))
    axes[1].set_xticks(at, n, rotation=90 if len(n) > 8 else 0)
    for ax in axes:
        ax.grid(axis="x", visible=False)
    return figure


def report(M: int, low: float, high: float) -> Figure:
    """The law of one report: a client of 40 examples, and one of M-1 or more; `high` is the truth's bar."""
    figure, ax = plt.subplots(figsize=(4.2, 2.5))
    values, edges = np.arange(1, M), np.arange(1, M + 1) - 0.5
    ax.bar(values, np.where(values == 40, high, low), 1.0, color="#808080", alpha=0.6)
    ax.stairs(np.where(values == M - 1, high, low), edges, color=plots.WRITTEN, lw=1.6)
    plots.annotate(ax, 40, high, "holds 40", SOFT, 5, -3)
    plots.annotate(ax, M - 1, high, "holds 600", plots.WRITTEN, -5, -3, ha="right")
    ax.set(xlabel="reported size", ylabel="probability", xlim=(0, M + 1), ylim=(0, 1.1 * high))
    ax.grid(axis="x", visible=False)
    return figure


def estimator(laws: dict[str, tuple], counts: dict[str, int], size: int, M: int) -> Figure:
    """The law of the estimated total, a panel each of `written` and `coded`; what is not positive is dark."""
    titles = {"written": "as written: participants report", "coded": "as coded: all clients report"}
    colours = {"written": plots.WRITTEN, "coded": plots.CODED}
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 4.6))
    for ax, (name, (values, chances)) in zip(axes, laws.items(), strict=True):
        count, colour = counts[name], colours[name]
        density = 100 * chances / (values[1] - values[0])
        low, top = values <= 0, density.max()
        ax.plot(values, density, color=colour, lw=1.6)
        ax.fill_between(values, density, color=colour, alpha=0.25, lw=0)
        ax.fill_between(values[low], density[low], color=colour, alpha=0.9, lw=0)
        clipped, truth = count * (M - 1), count * size
        ax.axvline(0, color=SOFT, lw=1, ls=":")
        ax.axvline(clipped, color=colour, lw=1.2, ls="--")
        ax.axvline(truth, color="black", lw=1.4)
        plots.annotate(ax, clipped, 1.13 * top, f"clipped total {clipped:,}", colour)
        plots.annotate(ax, truth, 0.6 * top, f"truth\n{truth:,}", "black", -5, ha="right")
        ax.set(xlim=(-1.7 * count * M, 1.03 * truth), ylim=(0, 1.25 * top))
        ax.set_xticks(ticks := [0, truth // 3, 2 * truth // 3, truth], [f"{x:,}" for x in ticks])
        ax.set(ylabel="probability per\n100 examples")
        ax.set_title(titles[name], loc="left", color=plots.text_colour(colour))
    axes[-1].set_xlabel("estimated total (examples)")
    return figure


def caps(
    caps: np.ndarray, bias, spread, by_cap: dict[int, tuple], by_m: dict[int, tuple]
) -> Figure:
    """The error of the estimated total in per cent: over the cap; over reports, by cap; over epsilon, by m."""
    figure, axes = plt.subplots(3, 1, figsize=(4.2, 7.4))
    ax, rmse = axes[0], np.hypot(bias, spread)
    for values, name, colour, place in (
        (np.abs(bias), "clip bias", plots.PINK, np.searchsorted(caps, 14)),
        (spread, "standard\ndeviation", BROWN, np.searchsorted(caps, 60)),
    ):
        ax.plot(caps, values, color=colour, lw=1.6)
        up = 8 if "clip" in name else -12
        plots.annotate(ax, caps[place], values[place], name, colour, 8 if up < 0 else 0, up)
    ax.plot(caps, rmse, color="black", lw=2.2)
    ax.plot(caps[rmse.argmin()], rmse.min(), "o", color="black")
    plots.annotate(ax, 500, np.interp(500, caps, rmse), "both", "black", -8, 4, ha="right")
    ax.set(xscale="log", yscale="log", xlim=(10, caps[-1]), ylim=(5, 1500))
    ax.set(xlabel="size cap M (10 reports, ε = 3)")
    for ax, lines in ((axes[1], by_cap), (axes[2], by_m)):
        tones = ("black", PURPLE, BROWN, SOFT)
        for (key, (x, errors)), colour in zip(lines.items(), tones, strict=False):
            ax.plot(x, errors, color=colour, lw=2)
            name = f"M = {key:,}" if ax is axes[1] else f"{key:,} reports"
            # apart from each other, and off the lines of the grid
            up = {100: 4, 300: -4, 601: -6}.get(key, 0) if ax is axes[1] else {100: 6}.get(key, 0)
            plots.annotate(ax, x[-1], errors[-1], name, colour, up=up)
        ax.axhline(10, color="black", lw=1, ls=":")
        ax.set(yscale="log", ylim=(0.2, 1500))
    axes[1].set(xscale="log", xlim=(10, 3e7), xlabel="number of reports (ε = 3)")
    axes[1].set_xticks([10, 1e3, 1e5])
    axes[2].set(xlim=(1, 14), xlabel="ε of a report (best cap for each)", xticks=range(1, 11, 3))
    for ax in axes:
        ax.set_ylabel("error (% of the truth)")
        ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    return figure


def accuracy(runs: pd.DataFrame) -> Figure:
    """Differences of each rate's accuracy to that of all data, in points, with 95 % intervals."""
    figure, ax = plt.subplots(figsize=(4.2, 3.0))
    for metric, (name, colour, aside) in METRICS.items():
        found = tables.paired_differences(runs, metric, 1.0)
        x, means = found.index.to_numpy() * aside, found["difference"].to_numpy()
        ends = np.abs(found[["low", "high"]].to_numpy().T - means)
        ax.errorbar(x, means, ends, fmt="o-", color=colour, lw=2, capsize=3, ms=5)
        up, side = (-14, "left") if metric == "client_accuracy" else (14, "right")
        plots.annotate(ax, x[1], means[1], name, colour, 8 if up < 0 else -8, up, ha=side)
    ax.axhline(0, color="black", lw=1)
    ax.set(xscale="log", xlabel="rate q", ylabel="points against q = 1", xlim=(0.025, 0.7))
    ax.set_xticks(found.index, [f"{q:g}" for q in found.index])
    ax.set_xticks([], minor=True)
    return figure


def _points(row) -> str:
    """A difference and its interval; with one federation there is none."""
    text = f"{row.difference:+.1f}"
    if np.isfinite(row.low):
        text += f" ({row.low:+.1f} to {row.high:+.1f})"
    return text.replace("-", "−")


def rates(runs: pd.DataFrame, empty: dict[float, float], local: dict[float, float]) -> pd.DataFrame:
    """Per rate: examples behind a local step, weight of empty samples, and the differences to all data."""
    compared = [tables.paired_differences(runs, metric, 1.0) for metric in METRICS]
    return pd.DataFrame(
        {
            "rate q": [f"{q:g}" for q in compared[0].index],
            "a local step": [f"{local[q]:.1f}" for q in compared[0].index],
            "empty": [f"{100 * empty[q]:.1f} %" for q in compared[0].index],
        }
        | {
            METRICS[metric][0]: [_points(found.loc[q]) for q in found.index]
            for metric, found in zip(METRICS, compared, strict=True)
        }
    )


def allocation(shares: np.ndarray, left: dict[str, list[float]]) -> Figure:
    """The variance that the optimal allocation leaves, in per cent of that of one rate for all."""
    figure, ax = plt.subplots()
    colours = {"weights by size": plots.CORRECTED, "equal weights": plots.WRITTEN}
    for name, values in left.items():
        ax.plot(100 * shares, 100 * np.array(values), color=colours[name], lw=2)
        middle = len(shares) // 2
        plots.annotate(
            ax, 100 * shares[middle], 100 * values[middle], name, colours[name], 0, -9, ha="right"
        )
    ax.axhline(100, color="black", lw=1, ls=":")
    plots.annotate(ax, 100 * shares[-1], 100, "one rate for all", "black", 0, -9, ha="right")
    ax.set(xlabel="examples requested (% of all)", ylabel="variance left (%)", ylim=(0, 108))
    return figure
