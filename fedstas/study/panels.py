"""Figures of many panels: what chapter 5 shows of the recorded grid; each drawn as `plots` draws."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedstas.study.plots import (
    BLACK,
    CODED,
    GREY,
    METHODS,
    SHOULD,
    WRITTEN,
    curves,
    label_ends,
    legend,
    same_range,
)
from fedstas.study.tables import NOT_YET

SHORT = {  # where panels are narrow
    "test_accuracy": "global test set (%)",
    "client_accuracy": "clients' shares (%)",
    "train_loss": "training loss (nats)",
}
GROUPS = {
    "as written": ("fedsts", "fedstas", "fedstas-dp"),
    "as coded": ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec"),
    "as it should be": ("fedstas-unbiased", "fedstas-unbiased-dp"),
    "baselines": (
        "md", "fedavg", "fedavg-unbiased", "fedprox", "clustered-size", "clustered-similarity",
        "strat", "strat-neyman", "centralised",
    ),
}  # fmt: skip
VOICES = {
    "as written": WRITTEN,
    "as coded": CODED,
    "as it should be": SHOULD,
    "baselines": "#404040",
}


def blank(ax: Axes, note: str) -> None:
    """A panel of which nothing is recorded yet says so, and how to record it."""
    ax.text(0.5, 0.5, note.replace(": ", ":\n").replace("`", ""), ha="center", va="center",
            transform=ax.transAxes, fontsize="small", color=GREY)  # fmt: skip
    ax.set(xticks=[], yticks=[])


def not_recorded(note: str) -> Figure:
    """The figure of a sweep of which nothing is recorded yet."""
    figure, ax = plt.subplots(figsize=(7, 1.2))
    blank(ax, note)
    return figure


def curve_grid(
    columns: dict[str, tuple[pd.DataFrame, Sequence[str]]],
    metrics: Sequence[str],
    *,
    note: str = NOT_YET,
    marks: dict[str, dict[str, float]] | None = None,
    seeds: bool = False,
    height: float = 2.7,
) -> Figure:
    """A row of panels per metric, a column per (frame, methods); the same y-range along a row.

    `marks` are printed end values by metric and method: a star at the end of the first column.
    """
    shape = (len(metrics), len(columns))
    figure, axes = plt.subplots(*shape, figsize=(8.4, 0.7 + height * shape[0]), squeeze=False)
    drawn: dict[str, None] = {}
    for j, (title, (frame, names)) in enumerate(columns.items()):
        there = [m for m in names if m in set(frame["method"])]
        drawn |= dict.fromkeys(there)
        axes[0, j].set_title(title)
        for ax, metric in zip(axes[:, j], metrics, strict=True):
            if not there:
                blank(ax, note)
                continue
            curves(frame, metric, ax=ax, methods=there, seeds=seeds, ends=False)
            ax.set(ylabel=SHORT[metric] if j == 0 else "", xlabel="")
            for m, value in (marks or {}).get(metric, {}).items():
                if m in there:
                    at = frame["round"].max()
                    ax.plot(at, value, "*", ms=9, color=METHODS[m][0], mec="white", clip_on=False)
        if there:
            axes[-1, j].set_xlabel("round")
    for row in axes:
        same_range([ax for ax in row if ax.lines])
    if drawn:
        legend(figure, list(drawn))
    return figure


def group_grid(frames: dict[str, pd.DataFrame], metric: str, baseline: str = "md") -> Figure:
    """A row of panels per voice and a column per frame; names at the ends, the baseline in all."""
    shape = (len(GROUPS), len(frames))
    figure, axes = plt.subplots(*shape, figsize=(8.6, 2.5 * shape[0]), squeeze=False, sharex=True)
    for row, (group, names) in zip(axes, GROUPS.items(), strict=True):
        for ax, frame in zip(row, frames.values(), strict=True):
            there = [m for m in dict.fromkeys((baseline, *names)) if m in set(frame["method"])]
            if there:
                curves(frame, metric, ax=ax, methods=there, ends=False)
            ax.set(xlabel="", ylabel="")
        row[0].set_ylabel(f"{group}\n{SHORT[metric]}", color=VOICES[group])
    for title, top, bottom in zip(frames, axes[0], axes[-1], strict=True):
        top.set_title(title)
        bottom.set_xlabel("round")
    same_range(list(axes.flat))
    for ax in axes.flat:  # now that the range is known
        ends = {}
        for line in ax.lines:
            if line.get_gid():
                ends[line.get_gid()] = (*(v[-1] for v in line.get_data()), line.get_color())
        label_ends(ax, ends, gap=0.1)
    return figure


def forest(ax: Axes, rows: pd.DataFrame, looks: Sequence[str], *, shift=0.0, hollow=False) -> None:
    """Differences with their 95 % intervals, the first row on top: columns difference, low, high."""
    for at, look, row in zip(range(len(rows))[::-1], looks, rows.itertuples(), strict=True):
        if np.isnan(row.difference):
            continue
        ax.plot([row.low, row.high], [at + shift] * 2, color=look, lw=1.4)
        ax.plot(row.difference, at + shift, "o", ms=5, mec=look, mfc="white" if hollow else look)
    ax.axvline(0, color=BLACK, lw=0.8)
    ax.set_yticks(range(len(rows))[::-1], list(rows.index))
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.grid(axis="y", visible=False)


def method_forest(table: pd.DataFrame, baseline: str = "md") -> Figure:
    """All methods against the baseline, a panel per place; full: global test set, hollow: clients'."""
    places = list(dict.fromkeys(table["place"]))
    listed = {m: VOICES[g] for g, names in GROUPS.items() for m in names if m != baseline}
    figure, axes = plt.subplots(1, len(places), figsize=(8.4, 5.4), sharey=True, squeeze=False)
    for ax, place in zip(axes[0], places, strict=True):
        for metric, shift in (("test_accuracy", 0.16), ("client_accuracy", -0.16)):
            part = table[(table["place"] == place) & (table["metric"] == metric)]
            rows = part.set_index("method").reindex(list(listed))
            forest(ax, rows, list(listed.values()), shift=shift, hollow=shift < 0)
        ax.set(title=place, xlabel=f"points above {baseline}")
    for label, colour in zip(axes[0, 0].get_yticklabels(), listed.values(), strict=True):
        label.set_color(colour)
    dots = [
        Line2D([], [], marker="o", ls="", color=GREY, mfc=face, label=name)
        for name, face in (("global test set", GREY), ("clients' shares", "white"))
    ]
    figure.legend(handles=dots, loc="outside upper center", ncols=2, frameon=False)
    return figure


def dependence(ax: Axes, table: pd.DataFrame, x: str, methods: Sequence[str]) -> None:
    """Final accuracy against one setting, on a logarithmic axis: columns x, method, mean, low, high."""
    for i, method in enumerate(methods):
        part = table[table["method"] == method].sort_values(x)
        if not len(part):
            continue
        colour, dash = METHODS[method]
        at = part[x].to_numpy(float) * 1.03 ** (i - 1)
        ax.vlines(at, part["low"], part["high"], color=colour, lw=1.2)
        ax.plot(at, part["mean"], color=colour, ls=dash, marker="o", ms=3.5)
    ax.set_xscale("log")
    values = sorted(table[x].unique())
    ax.set_xticks(values, [f"{v:g}" for v in values])
    ax.minorticks_off()
