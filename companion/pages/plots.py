"""Every figure of the book as a function of a tidy frame; one fixed colour per method.

Colours are Okabe and Ito's. Blue speaks as written, vermilion as coded, green corrected.
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
from matplotlib.patches import Wedge
from scipy import stats

from companion.runs import tables
from companion.runs.tables import NOT_YET
from companion.runs.tables import by_seed as by_seed
from companion.runs.tables import last_rounds as last_rounds
from companion.runs.tables import paired as paired
from companion.runs.tables import summary as summary
from fedstas import methods as known_methods

WRITTEN, CODED, SHOULD = "#0072B2", "#D55E00", "#009E73"
GREY, BLACK, ORANGE, PINK, SKY = "#7F7F7F", "#000000", "#E69F00", "#CC79A7", "#56B4E9"

# A word needs more contrast than a line: the same hues, 4.5 or more on white (and, turned over, in the dark).
INKS = {
    CODED: "#A84600",
    SHOULD: "#00704F",
    GREY: "#696969",
    ORANGE: "#8A5F00",
    PINK: "#A04A7C",
    SKY: "#1B6FA3",
    "#999933": "#6B6B1C",
}


def ink(colour: str) -> str:
    """The colour of words about what is drawn in this colour."""
    return INKS.get(colour, colour)


# Listed methods: colour and dash; those of one group share a hue. `look` draws the others by a rule.
METHODS = {
    "fedavg": (GREY, "-"),
    "fedavg-unbiased": (GREY, "--"),
    "md": (PINK, "-"),
    "strat": (ORANGE, "-"),
    "strat-neyman": (ORANGE, "--"),
    "fedsts": (SKY, "-"),
    "fedstas": (WRITTEN, "-"),
    "fedstas-dp": (WRITTEN, "--"),
    "fedstas-optimal-data": (WRITTEN, ":"),
    "fedstas-unbiased": (SHOULD, "-"),
    "fedstas-unbiased-dp": (SHOULD, "--"),
    "fedstas-least-variance": (BLACK, "-"),
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
    "poisson": ("#332288", "-"),
    "optimal-client-sampling": ("#332288", "--"),
    "k-vib": ("#332288", ":"),
    "cube": ("#882255", "-"),
    "local-pivotal": ("#882255", "--"),
    "power-of-choice": ("#999933", "-"),
    "divfl": ("#999933", "--"),
    "cyclic": ("#999933", ":"),
    "fedvarp": ("#661100", "-"),
    "mifa": ("#661100", "--"),
    "centralised": (BLACK, ":"),
}
METRICS = {
    "test_accuracy": ("accuracy on the global test set (%)", 100),
    "client_accuracy": ("accuracy under the clients' class shares (%)", 100),
    "macro_f1": ("macro F1 on the global test set (%)", 100),
    "train_loss": ("training loss (cross-entropy, nats)", 1),
}

FEW = 5  # with fewer seeds an interval says less than the runs themselves


WAYS = {
    "every 10 rounds": "--",
    "from updates": ":",
    "L2": ":",
    "L1": "-.",
}  # of one method, after a comma in its name


SPARE = ("#117733", "#44AA99", "#88CCEE", "#DDCC77", "#CC6677", "#AA4499")


def look(name: str) -> tuple[str, str]:
    """Colour and dash of a method, or of one way of it: `METHOD, every 10 rounds`."""
    method, _, way = name.partition(", ")
    colour, dash = METHODS.get(method) or _spare_look(method)
    return colour, WAYS.get(way, "-.") if way else dash


def _spare_look(method: str) -> tuple[str, str]:
    """Colour and dash of a method that `METHODS` does not list: spare colours of Tol's muted scheme in turn,
    in the order of `methods.names()`; dashes change once all colours are taken. Black for no method at all."""
    others = [name for name in known_methods.names() if name not in METHODS]
    if method not in others:
        return BLACK, "-"
    round_, place = divmod(others.index(method), len(SPARE))
    return SPARE[place], ("-", "--", ":", "-.")[round_ % 4]


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


def for_pages() -> None:
    """The look of figures that are read on a phone and in the dark: SVG without a ground of its own, a column
    4.2 inches wide with letters that stay readable at 390 px. Called once by each chapter of the second edition."""
    from IPython import get_ipython

    style()
    bare = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
    sizes = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 10)
    sizes |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9)
    plt.rcParams |= bare | sizes
    plt.rcParams |= {
        "figure.figsize": (4.2, 2.8),
        "grid.color": "#D0D0D0",
        "svg.hashsalt": "fedstas",
    }
    if shell := get_ipython():
        from matplotlib_inline.config import InlineBackend

        InlineBackend.instance(parent=shell).figure_formats = {"svg"}


def note(ax: Axes, x: float, y: float, words: str, colour: str, right=6.0, up=0.0, **how) -> None:
    """Write words beside the point (x, y) of the data, `right` and `up` of it by so many points."""
    how = {"va": "center", "color": ink(colour), "fontsize": 9, "annotation_clip": False} | how
    ax.annotate(words, (x, y), (right, up), textcoords="offset points", **how)


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
                name, color=ink(colour), va="center", fontsize="small", clip_on=False,
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
    rolling: int = 0,
) -> Axes:
    """Mean curve of each method with a 95 % band over seeds, from FEW seeds on; thin single seeds
    behind it, always where there are fewer.

    `ends` writes the names at the ends of the curves; `x` is "round" or a column of costs; `rolling`: the
    mean over so many rounds up to each (`tables.rolling`).
    """
    ax = ax or plt.gca()
    frame = tables.rolling(frame, metric, rolling) if rolling else frame
    label, scale = METRICS[metric]
    names = {}
    for method in methods or list(frame["method"].unique()):
        wide = frame[frame["method"] == method].pivot(index="round", columns="seed", values=metric)
        wide = wide.dropna() * scale
        colour, dash = look(method)
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
    looks = [look(m) for m in methods]
    lines = [Line2D([], [], color=c, ls=d, lw=2) for c, d in looks]
    place = {"loc": "outside upper center", "ncols": min(columns, len(lines)), "frameon": False}
    figure.legend(lines, names or methods, **place)


def same_range(axes: Sequence[Axes]) -> None:
    """The same y-range where figures are compared."""
    limits = [a.get_ylim() for a in axes]
    for a in axes:
        a.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


DRAWS = (ORANGE, SKY, PINK, "#7A5C1E", "#5D4A8C")  # no voice's colours: what a draw stands for


def strata_map(points: np.ndarray, omega: np.ndarray, designs: dict[str, np.ndarray]) -> Figure:
    """The same clients under four designs, a panel each: `designs` are titles and shares [m, N].

    Client k is a disc at points[k] of area omega_k, and shares[j, k] of it a slice of draw j's colour; a
    grey line ties it to the mean of what draw j stands for, the fainter the smaller its share.
    """
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 6.6), sharex=True, sharey=True)
    low, high = points.min(0), points.max(0)
    span = (high - low).max()
    for ax, (title, shares) in zip(axes.flat, designs.items(), strict=True):
        for share in shares:
            held = share * omega
            for k in np.flatnonzero(share > 1e-9):
                ends = np.stack([points[k], held @ points / held.sum()])
                ax.plot(*ends.T, color=GREY, lw=0.8, alpha=0.7 * share[k], zorder=1)
        for k in np.argsort(-omega):  # the small ones in front
            at, radius = 90.0, 0.2 * span * np.sqrt(omega[k])
            for j in np.flatnonzero(shares[:, k] > 1e-9):
                end = at + 360 * shares[j, k]
                colour = DRAWS[j % len(DRAWS)]
                ax.add_patch(
                    Wedge(points[k], radius, at, end, fc=colour, ec="white", lw=0.4, zorder=2)
                )
                at = end
        ax.set(title=title, aspect="equal", xticks=[], yticks=[])
        ax.set(
            xlim=(low[0] - span / 9, high[0] + span / 9),
            ylim=(low[1] - span / 9, high[1] + span / 9),
        )
    figure.supxlabel("first principal coordinate of the updates", fontsize="medium")
    figure.supylabel("second coordinate", fontsize="medium")
    return figure


SHORT = {  # where panels are narrow
    "test_accuracy": "global test set (%)",
    "client_accuracy": "clients' shares (%)",
    "train_loss": "training loss (nats)",
}
GROUPS = {
    "as written": ("fedsts", "fedstas", "fedstas-dp"),
    "as coded": ("fedsts-authors-dec", "fedstas-authors-dec", "fedstas-dp-authors-dec"),
    "corrected": ("fedstas-unbiased", "fedstas-unbiased-dp"),
    "baselines": (
        "md", "fedavg", "fedavg-unbiased", "fedprox", "clustered-size", "clustered-similarity",
        "strat", "strat-neyman", "centralised",
    ),
}  # fmt: skip
VOICES = {
    "as written": WRITTEN,
    "as coded": CODED,
    "corrected": SHOULD,
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


def beside_published(
    frame: pd.DataFrame, panels: dict[str, tuple], metric: str, note: str = NOT_YET
) -> Figure:
    """A panel per published curve, in black, on the median and the middle nine tenths of our runs.

    `panels`, by title: our methods, and the published rounds and values. A method has its voice's colour.
    """
    shape = {"figsize": (4.2, 0.6 + 1.7 * len(panels)), "sharex": True, "sharey": True}
    figure, axes = plt.subplots(len(panels), 1, squeeze=False, **shape)
    voice = {m: group for group, names in GROUPS.items() for m in names}
    for ax, (title, (names, at, values)) in zip(axes[:, 0], panels.items(), strict=True):
        ends = {}
        for m in (m for m in names if m in set(frame["method"])):
            wide = frame[frame["method"] == m].pivot(index="round", columns="seed", values=metric)
            low, middle, high = METRICS[metric][1] * wide.quantile([0.05, 0.5, 0.95], axis=1).values
            colour = VOICES[voice[m]]
            ax.fill_between(wide.index, low, high, color=colour, alpha=0.18, lw=0)
            ax.plot(wide.index, middle, color=colour, lw=2, gid=m)
            ends[voice[m]] = (wide.index[-1], middle[-1], colour)
        if not ax.lines:
            blank(ax, note)
            continue
        ax.plot(at, values, color=BLACK, marker="o", ms=4, lw=1.5)
        ends["the paper"] = (at[-1], values[-1], BLACK)
        ax.set_title(title, loc="left")
        ax.set_xlim(0, 1.34 * max(x for x, *_ in ends.values()))  # room for the names
        label_ends(ax, ends, gap=0.13)
    axes[len(panels) // 2, 0].set_ylabel(SHORT[metric])
    axes[-1, 0].set_xlabel("round")
    return figure


BARS = {"printed": BLACK, "as written": WRITTEN, "as coded": CODED}


def printed_bars(table: pd.DataFrame) -> Figure:
    """A panel per place, and for each method a bar of what is printed and of ours, with its interval.

    `table`: columns place, method, who (of `BARS`), mean, low, high.
    """
    places, names = (list(table[k].unique()) for k in ("place", "method"))
    shape = {"figsize": (4.2, 0.5 + 1.6 * len(places)), "sharex": True, "squeeze": False}
    figure, axes = plt.subplots(len(places), 1, **shape)
    named: set[str] = set()
    for ax, place in zip(axes[:, 0], places, strict=True):
        part = table[table["place"] == place]
        there = [who for who in BARS if who in set(part["who"])]
        for i, who in enumerate(there):
            rows = part[part["who"] == who].set_index("method").reindex(names)
            y = np.arange(len(names)) + (i - (len(there) - 1) / 2) * 0.8 / len(there)
            ax.barh(y, rows["mean"], 0.7 / len(there), color=BARS[who], alpha=0.75, label=who)
            ax.hlines(y, rows["low"].clip(lower=0), rows["high"], color=GREY, lw=2)
            if who not in named:  # beside its first bar
                end = rows[["mean", "high"]].max(axis=1).iloc[0]
                note(ax, end, y[0], who, BARS[who])
            named.add(who)
        ax.set(yticks=range(len(names)), yticklabels=names)
        ax.set_title(place, loc="left")
        ax.grid(axis="y", visible=False)
        ax.set_xlim(left=0)
        ax.invert_yaxis()
    axes[-1, 0].set_xlabel("final accuracy, clients' shares (%)")
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


def method_forest(
    table: pd.DataFrame, baseline: str = "md", names: dict[str, str] | None = None
) -> Figure:
    """All methods against the baseline, a panel per place; full: global test set, hollow: clients'.

    `names`: what a method is called, if not by its own name.
    """
    places, names = list(dict.fromkeys(table["place"])), names or {}
    listed = {m: VOICES[g] for g, group in GROUPS.items() for m in group if m != baseline}
    shape = {"figsize": (4.2, 0.5 + 3.4 * len(places)), "sharex": True, "squeeze": False}
    figure, axes = plt.subplots(len(places), 1, **shape)
    for ax, place in zip(axes[:, 0], places, strict=True):
        for metric, shift in (("test_accuracy", 0.16), ("client_accuracy", -0.16)):
            part = table[(table["place"] == place) & (table["metric"] == metric)]
            rows = part.set_index("method").reindex(list(listed))
            rows.index = [names.get(m, m) for m in listed]
            forest(ax, rows, list(listed.values()), shift=shift, hollow=shift < 0)
        ax.set_title(place, loc="left")
        for label, colour in zip(ax.get_yticklabels(), listed.values(), strict=True):
            label.set_color(ink(colour))
    axes[-1, 0].set_xlabel(f"points above {names.get(baseline, baseline)}")
    return figure
