"""Every figure of the book as a function of a tidy frame; one fixed colour per method.

Colours are Okabe and Ito's. Blue speaks as written, vermilion as coded, green as it should be.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from fedstas.study.tables import by_seed as by_seed
from fedstas.study.tables import interval as interval
from fedstas.study.tables import last_rounds as last_rounds
from fedstas.study.tables import paired as paired
from fedstas.study.tables import summary as summary

WRITTEN, CODED, SHOULD = "#0072B2", "#D55E00", "#009E73"
GREY, BLACK, ORANGE, PINK, SKY = "#7F7F7F", "#000000", "#E69F00", "#CC79A7", "#56B4E9"

# method -> colour and dash; methods of one voice share its hue.
METHODS = {
    "fedavg": (GREY, "-"),
    "fedavg-unbiased": (GREY, "--"),
    "md": (PINK, "-"),
    "strat": (ORANGE, "-"),
    "strat-neyman": (ORANGE, "--"),
    "fedsts": (SKY, "-"),
    "fedstas": (WRITTEN, "-"),
    "fedstas-dp": (WRITTEN, "--"),
    "fedstas-unbiased": (SHOULD, "-"),
    "fedstas-unbiased-dp": (SHOULD, "--"),
    "fedprox": (PINK, "--"),
    "clustered-size": ("#8C6D31", "-"),
    "clustered-similarity": ("#8C6D31", "--"),
    "target": ("#8C6D31", ":"),
    "fedsts-authors-dec": ("#F0A070", "-"),
    "fedstas-authors-dec": (CODED, "-"),
    "fedstas-dp-authors-dec": (CODED, "--"),
    "fedsampling": ("#6A3D9A", "-"),
    "fedadam": ("#B15928", "-"),
    "fedyogi": ("#B15928", "--"),
    "fedadagrad": ("#B15928", ":"),
    "centralised": (BLACK, ":"),
}
METRICS = {
    "test_accuracy": ("accuracy on the global test set (%)", 100),
    "client_accuracy": ("accuracy under the clients' class shares (%)", 100),
    "macro_f1": ("macro F1 on the global test set (%)", 100),
    "train_loss": ("training loss (cross-entropy, nats)", 1),
}

FEW = 5  # with fewer seeds an interval says less than the runs themselves


def style() -> None:
    """The look of every figure; called once by each chapter."""
    sns.set_theme(context="notebook", style="whitegrid", font_scale=0.95)
    plt.rcParams |= {
        "figure.figsize": (7.0, 3.8),
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#E5E5E5",
        "axes.titlesize": "medium",
    }


def label_ends(ax: Axes, ends: dict[str, tuple[float, float, str]], gap: float = 0.045) -> None:
    """Write each name at the right end of its curve; names that would touch are moved apart."""
    low, high = ax.get_ylim()
    step = gap * (high - low)
    groups: list[list[str]] = []  # names that touch, each group about the mean of its curves' ends
    for name in sorted(ends, key=lambda n: ends[n][1]):
        groups.append([name])
        while len(groups) > 1 and (
            _first(groups[-1], ends, step) - _first(groups[-2], ends, step)
            < step * len(groups[-2]) * (1 - 1e-9)
        ):
            last = groups.pop()
            groups[-1] += last
    for group in groups:
        for place, name in enumerate(group):
            x, _, colour = ends[name]
            ax.text(
                x + 0.015 * np.diff(ax.get_xlim())[0], _first(group, ends, step) + place * step,
                name, color=colour, va="center", fontsize="small", clip_on=False,
            )  # fmt: skip


def _first(group: list[str], ends: dict, step: float) -> float:
    """Where the lowest name of a group stands."""
    return float(np.mean([ends[n][1] for n in group])) - step * (len(group) - 1) / 2


def curves(
    frame: pd.DataFrame,
    metric: str,
    *,
    ax: Axes | None = None,
    methods: Sequence[str] | None = None,
    seeds: bool = False,
    ends: bool = True,
    x: str = "round",
) -> Axes:
    """Mean curve of each method with a 95 % band over seeds, from FEW seeds on; thin single seeds
    behind it, always where there are fewer.

    `ends` writes the names at the ends of the curves; `x` is "round" or a column of costs.
    """
    ax = ax or plt.gca()
    label, scale = METRICS[metric]
    names = {}
    for method in methods or list(frame["method"].unique()):
        wide = frame[frame["method"] == method].pivot(index="round", columns="seed", values=metric)
        wide = wide.dropna() * scale
        colour, dash = METHODS.get(method, (BLACK, "-"))
        at = wide.index.to_numpy()
        if x != "round":  # a cost: its mean over seeds
            at = frame[frame["method"] == method].groupby("round")[x].mean().loc[at].to_numpy()
        mean = wide.mean(axis=1).to_numpy()
        if wide.shape[1] >= FEW:
            half = stats.t.ppf(0.975, wide.shape[1] - 1) * wide.std(axis=1) / np.sqrt(wide.shape[1])
            ax.fill_between(at, mean - half, mean + half, color=colour, alpha=0.15, lw=0)
        if wide.shape[1] < FEW or seeds:
            ax.plot(at, wide.to_numpy(), color=colour, lw=0.6, alpha=0.3)
        ax.plot(at, mean, color=colour, ls=dash, lw=2, gid=method)
        names[method] = (at[-1], mean[-1], colour)
    ax.set_xlabel(x)
    ax.set_ylabel(label)
    ax.margins(x=0)
    if ends:
        label_ends(ax, names)
    return ax


def legend(
    figure: Figure, methods: Sequence[str], names: Sequence[str] | None = None, columns: int = 4
) -> None:
    """One legend of methods for all panels, above them; `names` instead of the methods' own."""
    looks = [METHODS.get(m, (BLACK, "-")) for m in methods]
    lines = [Line2D([], [], color=c, ls=d, lw=2) for c, d in looks]
    place = {"loc": "outside upper center", "ncols": min(columns, len(lines)), "frameon": False}
    figure.legend(lines, names or methods, **place)


def same_range(axes: Sequence[Axes]) -> None:
    """The same y-range where figures are compared."""
    limits = [a.get_ylim() for a in axes]
    for a in axes:
        a.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def partitions(counts: dict[str, np.ndarray], classes: str = "class") -> Figure:
    """Fig. 1 of the paper: who holds what. One panel per partition of label counts [N, C]."""
    figure, axes = plt.subplots(1, len(counts), figsize=(7.4, 3.6), sharey=False, squeeze=False)
    palette = sns.color_palette("colorblind", max(c.shape[1] for c in counts.values()))
    for ax, (name, table) in zip(axes[0], counts.items(), strict=True):
        order = np.lexsort((-table.max(1), table.argmax(1)))
        bottom, at = np.zeros(len(table)), np.arange(len(table))
        for c in range(table.shape[1]):
            height = table[order, c]
            ax.bar(at, height, 1.0, bottom=bottom, color=palette[c], label=str(c), lw=0)
            bottom = bottom + height
        ax.set(title=name, ylabel="examples")
        ax.margins(x=0)
        ax.grid(axis="x", visible=False)
    figure.supxlabel("client (sorted by its largest class)", fontsize="medium")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, title=classes, loc="outside right center", frameon=False)
    return figure


def first_result(frame: pd.DataFrame) -> Figure:
    """The start page's figure: MNIST 0.01, both partitions, what is recorded of four methods."""
    voices = {
        "md": "md: m draws, p = n_k/n",
        "fedstas": "fedstas: as written",
        "fedstas-authors-dec": "fedstas-authors-dec: as coded",
        "fedstas-unbiased": "fedstas-unbiased: as it should be",
    }
    titles = {
        "dirichlet": "disjoint Dirichlet 0.01",
        "dirichlet_fixed_size": "equal sizes, overlapping",
    }
    if "sweep" in frame:
        frame = frame[frame["sweep"] == "preprint"]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.8))
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        part = frame[frame["partition"] == name]
        shown = [m for m in voices if m in set(part["method"])]
        curves(part, "test_accuracy", ax=ax, methods=shown, ends=False)
        ax.set_title(title)
    same_range(axes)
    axes[1].set_ylabel("")
    there = [m for m in voices if m in set(frame["method"])]
    legend(figure, there, [voices[m] for m in there], columns=2)
    return figure
