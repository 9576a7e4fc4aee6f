"""The figures of chapter 10: points over the reference at equal cost, and whether one round explains them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots

# Arms by name: what a reader calls them, and the method whose colour they have.
ARMS = {
    "all clients": ("all clients", "centralised"),
    "least-variance": ("least variance", "fedstas-least-variance"),
    "least-variance, updates": (
        "least variance, from updates",
        "fedstas-least-variance, from updates",
    ),
    "fedstas-unbiased": ("corrected", "fedstas-unbiased"),
    "clustered-similarity": ("clustered, by similarity", "clustered-similarity"),
    "clustered-size": ("clustered, by size", "clustered-size"),
    "fedsts": ("FedSTS as written", "fedsts"),
    "fedstas": ("FedSTaS as written", "fedstas"),
    "fedavg": ("FedAvg", "fedavg"),
    "fedavg-unbiased": ("FedAvg, unbiased", "fedavg-unbiased"),
    "fedvarp": ("a server that remembers", "fedvarp"),
    "optimal-client-sampling": ("optimal client sampling", "optimal-client-sampling"),
    "power-of-choice": ("power of choice", "power-of-choice"),
    "divfl": ("DivFL", "divfl"),
    "md": ("MD", "md"),
}
SHOWN = (
    "all clients",
    "least-variance",
    "least-variance, updates",
    "fedstas-unbiased",
    "clustered-similarity",
    "fedstas",
)


def called(arm: str) -> str:
    """What a reader calls an arm."""
    return ARMS.get(arm, (arm, ""))[0]


def colour(arm: str) -> str:
    """The colour of its method."""
    return plots.look(ARMS.get(arm, ("", ""))[1])[0]


def remembered(table: pd.DataFrame, settings: dict[str, str], matters: float = 1.0) -> Figure:
    """Points over MD at equal megabytes: a panel a setting, an arm a row; full at the larger budget,
    hollow at the smaller. Grey: differences that do not matter."""
    columns = min(2, len(settings))
    rows = -(-len(settings) // columns)
    shape = {"figsize": (8.4, 0.9 + 2.3 * rows), "sharex": True, "sharey": True, "squeeze": False}
    figure, axes = plt.subplots(rows, columns, **shape)
    looks = [colour(arm) for arm in SHOWN]
    for ax, (name, says) in zip(axes.flat, settings.items(), strict=False):
        ax.axvspan(-matters, matters, color=plots.GREY, alpha=0.15, lw=0)
        for metric, shift in (("large", 0.17), ("small", -0.17)):
            part = table[(table["setting"] == name) & (table["metric"] == metric)]
            found = part.set_index("arm").rename(columns={"gain": "difference"}).reindex(SHOWN)
            found.index = [called(arm) for arm in SHOWN]
            plots.forest(ax, found, looks, shift=shift, hollow=shift < 0)
        ax.set(title=says)
    for ax in list(axes.flat)[len(settings) :]:
        ax.axis("off")
    for ax in axes[-1]:
        ax.set_xlabel("points above MD")
    return figure


def learning(ax: Axes, rows: pd.DataFrame, of: str, arms: Sequence[str]) -> None:
    """Mean learning curves over a cumulative cost, with 95 % bands over seeds, names at their ends."""
    ends = {}
    for arm in arms:
        part = rows[rows["arm"] == arm]
        if not len(part):
            continue
        top = part.groupby("seed")[of].max().min()
        at = np.linspace(0.02 * top, top, 60)
        each = np.array(
            [np.interp(at, run[of], 100 * run["test_accuracy"]) for _, run in part.groupby("seed")]
        )
        mean, look = each.mean(0), plots.look(ARMS[arm][1])
        if len(each) >= plots.FEW:
            half = [plots.interval(column)[2] for column in each.T] - mean
            ax.fill_between(at, mean - half, mean + half, color=look[0], alpha=0.15, lw=0)
        ax.plot(at, mean, color=look[0], ls=look[1], lw=2)
        ends[called(arm)] = (at[-1], mean[-1], look[0])
    ax.margins(x=0)
    plots.label_ends(ax, ends)


def explained(ax: Axes, cells: pd.DataFrame, settings: dict[str, str]) -> None:
    """What a design leaves of MD's error in one round against its points over MD, a mark a setting."""
    marks = iter("osD^vPX*<>hpd")
    for name, says in settings.items():
        part = cells[cells["setting"] == name]
        if not len(part):
            continue
        mark = next(marks)
        ax.plot([], [], mark, color=plots.GREY, ls="", label=says)
        for row in part.itertuples():
            ax.plot([row.error] * 2, [row.low, row.high], color=colour(row.arm), lw=0.8, alpha=0.5)
            ax.plot(row.error, row.gain, mark, color=colour(row.arm), ms=5)
    ax.axhline(0, color=plots.BLACK, lw=0.8)
    ax.axvline(1, color=plots.BLACK, lw=0.8)
    ax.set(
        xscale="log", xlabel="error of one round (MD = 1)", ylabel="points above MD, equal rounds"
    )
    ax.legend(frameon=False, fontsize="small")
