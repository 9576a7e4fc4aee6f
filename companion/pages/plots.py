"""The figures' three primitives, the style of each method, and the look of a page.

A page function chooses its rows, calls a primitive and sets labels:

- `intervals(ax, series, styles)`: a dot and an interval in each row of a table;
- `curves(ax, lines, styles)`: a curve with a band for each series, named at its end;
- `bars(ax, table, styles)`: bars by group, beside each other or stacked.

`panels` repeats one of them, a panel for each setting:

    figure = panels(curves, {"disjoint": lines, "equal sizes": others}, xlabel="round", ylabel="accuracy (%)")

The colours are those of Okabe and Ito, which colour-blind readers can tell apart, with the method as written in
blue, as coded in vermilion, as corrected in green.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from companion.runs import statistics, tables
from companion.runs.atomic import write
from fedstas import methods

WRITTEN, CODED, CORRECTED = "#0072B2", "#D55E00", "#009E73"
GREY, BLACK, ORANGE, PINK, SKY = "#7F7F7F", "#000000", "#E69F00", "#CC79A7", "#56B4E9"
DARK_GREY, AMBER, BROWN, PURPLE = "#555555", "#B07400", "#B15928", "#6A3D9A"
DRAW_COLOURS = (ORANGE, SKY, PINK, "#7A5C1E", "#5D4A8C")  # none that stands for a version

# Text needs more contrast than a line: the same hues with a contrast of 4.5 or more on white, and inverted on black.
TEXT_COLOURS = {
    CODED: "#A84600",
    CORRECTED: "#00704F",
    GREY: "#696969",
    ORANGE: "#8A5F00",
    PINK: "#A04A7C",
    SKY: "#1B6FA3",
    "#999933": "#6B6B1C",
    "#C9A227": "#7A6000",
    "#3D93C9": "#1F6FA0",
    "#E07B39": "#A0501A",
    "#E8894A": "#A0501A",
    "#D08050": "#9C5428",
    "#8C7FD9": "#6558B8",
    "#B3B34D": "#66661F",
}
WIDTH = 4.2  # inches: a column that stays readable on a phone
WIDE = 7.6  # inches: of a figure of class `wide`, which has the width of the page and scrolls sideways on a phone
METRICS = {  # axis label, and what a recorded value is multiplied by
    "test_accuracy": ("accuracy on the global test set (%)", 100),
    "client_accuracy": ("accuracy under the clients' class shares (%)", 100),
    "macro_f1": ("macro F1 on the global test set (%)", 100),
    "train_loss": ("training loss (cross-entropy, nats)", 1),
}
SHORT_METRICS = {  # where panels are narrow
    "test_accuracy": "test accuracy (%)",
    "client_accuracy": "accuracy, client shares (%)",
    "train_loss": "training loss (nats)",
}
MIN_SEEDS_FOR_BAND = 5  # with fewer, an interval says less than the runs themselves


class Style(NamedTuple):
    """How a series is drawn; `label` names it where its key is not meant to be read."""

    colour: str
    dash: str = "-"
    marker: str = ""
    label: str = ""
    hollow: bool = False


METHODS = {  # colour and dash; related methods have shades of one hue, and others have a style by `_unlisted_style`
    "fedavg": (GREY, "-"),
    "fedavg-unbiased": ("#4D4D4D", "--"),
    "md": (PINK, "-"),
    "strat": (ORANGE, "-"),
    "strat-neyman": ("#9C6A00", "--"),
    "fedsts": (SKY, "-"),
    "fedstas": (WRITTEN, "-"),
    "fedstas-dp": ("#003F6B", "--"),
    "fedstas-optimal-data": ("#3D93C9", ":"),
    "fedstas-unbiased": (CORRECTED, "-"),
    "fedstas-unbiased-dp": ("#005C43", "--"),
    "fedstas-least-variance": (BLACK, "-"),
    "fedprox": ("#8F4577", "--"),
    "clustered-size": ("#C9A227", "-"),
    "clustered-similarity": ("#8C6D31", "--"),
    "target": ("#4B3A1A", ":"),
    "fedsts-authors-dec": ("#F0A070", "-"),
    "fedstas-authors-dec": (CODED, "-"),
    "fedstas-dp-authors-dec": ("#8A3C00", "--"),
    "fedsts-authors-2025": ("#E07B39", ":"),
    "fedstas-authors-2025": ("#E8894A", ":"),
    "fedstas-dp-authors-2025": ("#A64A05", "-."),
    "fedsampling": (PURPLE, "-"),
    "fedadam": (BROWN, "-"),
    "fedyogi": ("#7E3D17", "--"),
    "fedadagrad": ("#D08050", ":"),
    "poisson": ("#8C7FD9", "-"),
    "optimal-client-sampling": ("#332288", "--"),
    "k-vib": ("#1F5F8B", ":"),
    "cube": ("#882255", "-"),
    "local-pivotal": ("#B5578A", "--"),
    "power-of-choice": ("#999933", "-"),
    "divfl": ("#66661F", "--"),
    "cyclic": ("#B3B34D", ":"),
    "fedvarp": ("#661100", "-"),
    "mifa": ("#A5452F", "--"),
    "centralised": (BLACK, ":"),
}
# Tol's muted scheme.
UNLISTED_COLOURS = (
    "#117733",
    "#44AA99",
    "#88CCEE",
    "#DDCC77",
    "#CC6677",
    "#AA4499",
)
VARIANT_COLOURS = {  # beside the method itself
    "fedstas-least-variance, from updates": "#5A4FA2",
    "clustered-similarity, L2": "#6A4C93",
    "clustered-similarity, L1": "#2F6B6B",
}
VARIANT_DASHES = {"every 10 rounds": "--", "from updates": ":", "L2": ":", "L1": "-."}


def method_style(name: str) -> Style:
    """Return the style of a method, or of a variant of one: `METHOD, every 10 rounds`."""
    method, _, variant = name.partition(", ")
    colour, dash = METHODS.get(method) or _unlisted_style(method)
    colour = VARIANT_COLOURS.get(name, colour)
    return Style(colour, VARIANT_DASHES.get(variant, "-.") if variant else dash)


def _unlisted_style(method: str) -> tuple[str, str]:
    """Return the next free colour for each method of the package that METHODS does not list, in alphabetical order;
    with another dash once all colours are taken. What is no method of the package is black."""
    unlisted = [name for name in methods.names() if name not in METHODS]
    if method not in unlisted:
        return BLACK, "-"
    repetition, place = divmod(unlisted.index(method), len(UNLISTED_COLOURS))
    return UNLISTED_COLOURS[place], ("-", "--", ":", "-.")[repetition % 4]


def version(method: str) -> str:
    """Return which version of FedSTaS a method is: `as written`, `as coded`, `corrected`; others are `baselines`."""
    if method.endswith(("-authors-dec", "-authors-2025")):
        return "as coded"
    if method in ("fedsts", "fedstas", "fedstas-dp"):
        return "as written"
    return "corrected" if method.startswith("fedstas-unbiased") else "baselines"


VERSIONS = {
    "printed": Style(BLACK),
    "as written": Style(WRITTEN),
    "as coded": Style(CODED),
    "corrected": Style(CORRECTED),
    "baselines": Style("#404040"),
}
Styles = Mapping[str, Style] | Callable[[str], Style]


def _style(styles: Styles, name: str) -> Style:
    """Return the style of a name, from a table or a function."""
    return styles(name) if callable(styles) else styles[name]


def text_colour(colour: str) -> str:
    """Return the colour of text about something drawn in this colour."""
    return TEXT_COLOURS.get(colour, colour)


def set_style() -> None:
    """Set the look of every figure."""
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


def set_page_style() -> None:
    """Set the look of a chapter's figures, which are read on phones and on dark pages: SVG without a background,
    4.2 inches wide, with letters that stay readable at 390 px. Each chapter calls this once."""
    from IPython import get_ipython

    set_style()
    transparent = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
    sizes = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 10)
    sizes |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9)
    plt.rcParams |= transparent | sizes
    plt.rcParams |= {
        "figure.figsize": (WIDTH, 2.8),
        "grid.color": "#D0D0D0",
        "svg.hashsalt": "fedstas",
    }
    if shell := get_ipython():
        from matplotlib_inline.config import InlineBackend

        InlineBackend.instance(parent=shell).figure_formats = {"svg"}


# The primitives


def write_still(figure: Figure, path: Path) -> None:
    """Write a figure on white as the still picture of an interactive demo, and close it."""
    options = {"format": "png", "dpi": 150, "bbox_inches": "tight", "facecolor": "white"}
    write(path, lambda part: figure.savefig(part, **options, metadata={"Software": None}))
    plt.close(figure)


def panels(
    draw: Callable[..., object],
    parts: Mapping[str, object],
    *args,
    height: float = 1.9,
    sharex: bool = True,
    sharey: bool = False,
    xlabel: str = "",
    ylabel: str = "",
    align: str = "left",
    columns: int = 1,
    **options,
) -> Figure:
    """Draw one panel for each part with `draw(ax, part, *args, **options)`: one above the other, or side by side.

    Args:
        draw: a primitive, or a function with the same first two arguments.
        parts: the data of each panel, by its title.
        height: of a panel, in inches.
        xlabel: of the lowest panels.
        ylabel: of the middle panel on the left.
        align: of the titles; "right" where they are longer than the axes are wide.
        columns: how many panels stand side by side; with more than one the figure has the width of the page, WIDE.
    """
    rows = -(-len(parts) // columns)
    size = (WIDTH if columns == 1 else WIDE, 0.5 + height * rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, sharex=sharex, sharey=sharey, squeeze=False
    )
    axes = grid.ravel()
    for ax, (title, part) in zip(axes, parts.items(), strict=False):
        ax.set_title(title, loc=align, fontsize=9 if columns > 2 else None)
        draw(ax, part, *args, **options)
    for ax in axes[len(parts) :]:
        ax.axis("off")
    if xlabel:
        for ax in axes[max(len(parts) - columns, 0) : len(parts)]:
            ax.set_xlabel(xlabel)
    if ylabel:
        grid[rows // 2, 0].set_ylabel(ylabel)
    return figure


def intervals(
    ax: Axes,
    series: Mapping[str, pd.DataFrame],
    styles: Styles = method_style,
    *,
    colours: Sequence[str] | None = None,
    reference: float | None = None,
    spread: float = 0.32,
    **axis,
) -> Axes:
    """Draw a dot and its interval in each row, the first row on top.

        intervals(ax, {"test set": table}, {"test set": Style(BLACK)}, reference=0, xlabel="points above MD")

    Args:
        series: for each series a frame with the rows' names as index (the same in all) and columns mean, low, high;
            nothing is drawn of a row whose mean is NaN, and no interval where low is.
        styles: of the series.
        colours: of the rows and their names, where these have colours of their own.
        reference: where a vertical line stands, such as the 0 of differences.
        spread: between the first and the last series within a row.
        axis: properties of the axes, as for `Axes.set`.
    """
    shifts = np.linspace(spread / 2, -spread / 2, len(series)) if len(series) > 1 else [0.0]
    for (name, table), shift in zip(series.items(), shifts, strict=True):
        style = _style(styles, name)
        for place, row in enumerate(table.itertuples()):
            if pd.isna(row.mean):
                continue
            y, colour = len(table) - 1 - place + shift, colours[place] if colours else style.colour
            ax.plot([row.low, row.high], [y, y], color=colour, lw=1.4)
            face = "white" if style.hollow else colour
            ax.plot(row.mean, y, style.marker or "o", ms=5, mec=colour, mfc=face)
    if reference is not None:
        ax.axvline(reference, color=BLACK, lw=0.8)
    rows = list(next(iter(series.values())).index)
    ax.set_yticks(range(len(rows))[::-1], rows)
    for label, colour in zip(ax.get_yticklabels(), colours or (), strict=bool(colours)):
        label.set_color(text_colour(colour))
    ax.set(ylim=(-0.6, len(rows) - 0.4))
    ax.grid(axis="y", visible=False)
    ax.set(**axis)
    return ax


def curves(
    ax: Axes,
    lines: Mapping[str, pd.Series | pd.DataFrame],
    styles: Styles = method_style,
    *,
    band: str = "area",
    names: bool = True,
    width: float = 2.0,
    **axis,
) -> Axes:
    """Draw a curve for each series, with its band, and name it at its right end.

        curves(ax, {"md": frame}, xlabel="round", ylabel="accuracy (%)")

    Args:
        lines: for each series a frame with x as index and columns mean and, for a band, low and high; or the means
            alone. A frame with a column for each series is such a mapping.
        styles: of the series; a style with dash "" has markers alone.
        band: "area", or "bars" for an error bar at each x.
        names: whether to write the series' labels; they are moved apart where they would touch.
        width: of the lines, in points.
        axis: properties of the axes, as for `Axes.set`; set before the names find their places.
    """
    ends = {}
    for name, line in lines.items():
        frame = line.to_frame("mean") if isinstance(line, pd.Series) else line
        colour, dash, marker, label, hollow = _style(styles, name)
        x, mean = frame.index.to_numpy(), frame["mean"].to_numpy()
        if "low" in frame and frame["low"].notna().any():
            low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
            if band == "area":
                ax.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)
            else:
                ax.vlines(x, low, high, color=colour, lw=1.4)
        face = {"mfc": "white"} if hollow else {}
        options = {"ls": dash or "none", "marker": marker, "ms": 5, "lw": width, "gid": name}
        ax.plot(x, mean, color=colour, **options, **face)
        ends[label or name] = (x[-1], mean[-1], colour)
    if band == "area":
        ax.margins(x=0)
    ax.set(**axis)
    if names:
        if band == "bars":  # clear of the last bars
            right = max(x for x, *_ in ends.values())
            ends = {name: (right, y, colour) for name, (_, y, colour) in ends.items()}
        name_ends(ax, ends, right=8 if band == "bars" else 6)
    return ax


def bars(
    ax: Axes,
    table: pd.DataFrame,
    styles: Styles = method_style,
    *,
    low: pd.DataFrame | None = None,
    high: pd.DataFrame | None = None,
    stacked: bool = False,
    width: float = 0.75,
    **axis,
) -> Axes:
    """Draw horizontal bars: a group for each row of a table, the first on top, and a bar for each column.

        bars(ax, pd.DataFrame({"printed": [50.0], "as coded": [48.0]}, index=["FedSTaS"]), VERSIONS)

    Args:
        styles: of the columns.
        low, high: ends of the bars' intervals, of the table's shape.
        stacked: whether the bars of a group stand on each other rather than beside each other.
        width: of a group, where 1 leaves no gap to the next.
        axis: properties of the axes, as for `Axes.set`.
    """
    options = {
        "color": [_style(styles, name).colour for name in table.columns],
        "stacked": stacked,
        "width": width,
    }
    options |= {"lw": 0.6, "edgecolor": "white"} if stacked else {"lw": 0, "alpha": 0.75}
    table.plot.barh(ax=ax, legend=False, **options)
    groups = dict(zip(table.columns, ax.containers, strict=True))
    for name, group in groups.items():
        y = [bar.get_y() + bar.get_height() / 2 for bar in group]
        if low is not None and high is not None:
            ax.hlines(y, low[name], high[name], color=BLACK, lw=1.5)
    ax.invert_yaxis()
    ax.set(ylabel="")
    ax.grid(axis="y", visible=False)
    ax.set(**axis)
    return ax


# Text in figures


def annotate(
    ax: Axes,
    x: float,
    y: float,
    text: str,
    colour: str,
    right: float = 6.0,
    up: float = 0.0,
    **options,
) -> None:
    """Write a text `right` and `up` of the point (x, y), in points; `options` as for `Axes.annotate`, such as
    `xycoords="axes fraction"` for a corner of the panel."""
    options = {
        "va": "center",
        "color": text_colour(colour),
        "fontsize": 9,
        "annotation_clip": False,
    } | options
    ax.annotate(text, (x, y), (right, up), textcoords="offset points", **options)


def name_ends(
    ax: Axes,
    ends: Mapping[str, tuple[float, float, str]],
    gap: float = 12.0,
    right: float = 6.0,
) -> None:
    """Write each name `right` points to the right of its curve's end (x, y, colour), at least `gap` points apart and no
    higher or lower than the panel, where they would touch its title or the labels of its x-axis."""
    ax.autoscale_view()  # else the limits are those of before the last curves
    points = 72 / ax.figure.dpi
    heights = {n: points * ax.transData.transform((x, y))[1] for n, (x, y, _) in ends.items()}
    bottom, top = points * ax.bbox.y0, points * ax.bbox.y1
    groups: list[list[str]] = []  # of names that would touch, each around the mean of its ends

    def lowest(group: list[str]) -> float:
        """Return the position of the lowest label of a group that is centred on its lines, inside the panel."""
        centred = float(np.mean([heights[n] for n in group])) - gap * (len(group) - 1) / 2
        return min(max(centred, bottom + gap / 2), top - gap * (len(group) - 0.5))

    for name in sorted(ends, key=heights.__getitem__):
        groups.append([name])
        while (
            len(groups) > 1
            and lowest(groups[-1]) < lowest(groups[-2]) + gap * len(groups[-2]) - 1e-9
        ):
            last = groups.pop()
            groups[-1] += last
    for group in groups:
        for place, name in enumerate(group):
            x, y, colour = ends[name]
            annotate(ax, x, y, name, colour, right, lowest(group) + gap * place - heights[name])


def legend(figure: Figure, styles: Mapping[str, Style], columns: int = 2) -> None:
    """Put one legend for all panels above them."""
    handles = [
        Line2D(
            [],
            [],
            color=s.colour,
            ls=s.dash or "none",
            marker=s.marker,
            lw=2,
            label=s.label or name,
            mfc="white" if s.hollow else s.colour,
        )
        for name, s in styles.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)


def write_in_panel(ax: Axes, message: str) -> None:
    """Write a message in an empty panel, such as which command records what is missing."""
    text = message.replace(": ", ":\n").replace("`", "").replace(" --", "\n--")
    ax.text(
        0.5,
        0.5,
        text,
        ha="center",
        va="center",
        transform=ax.transAxes,
        fontsize="small",
        color=GREY,
    )
    ax.set(xticks=[], yticks=[])


def not_recorded(message: str) -> Figure:
    """Return the figure of a sweep of which nothing is recorded: the message alone."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.2))
    write_in_panel(ax, message)
    return figure


# Figures that several pages share


def means_over_seeds(
    frame: pd.DataFrame, metric: str, methods: Sequence[str], x: str = "round"
) -> dict[str, pd.DataFrame]:
    """Return the mean curve of each method with its 95 % interval over seeds, as `curves` reads it.

    Args:
        frame: runs as `records.load` returns them.
        x: "round", or a column of costs, of which the mean over seeds is taken.
    """
    lines = {}
    _, scale = METRICS.get(metric, ("", 1))
    for method in methods:
        runs = frame[frame["method"] == method]
        wide = scale * runs.pivot(index="round", columns="seed", values=metric).dropna()
        ends = [statistics.mean_interval(row) for row in wide.to_numpy()]
        line = pd.DataFrame(ends, wide.index, ["mean", "low", "high"])
        if wide.shape[1] < MIN_SEEDS_FOR_BAND:
            line[["low", "high"]] = np.nan
        if x != "round":
            line.index = runs.groupby("round")[x].mean().loc[wide.index]
        lines[method] = line
    return lines


def learning_curves(
    ax: Axes,
    frame: pd.DataFrame,
    metric: str,
    methods: Sequence[str] | None = None,
    *,
    styles: Styles = method_style,
    seeds: bool = False,
    x: str = "round",
    rolling: int = 0,
    **options,
) -> Axes:
    """Draw the mean curve of each method with its 95 % band over seeds, or over thin curves of single seeds where
    there are fewer than MIN_SEEDS_FOR_BAND.

    Args:
        seeds: whether to draw the single seeds in any case.
        x: "round", or a column of costs.
        rolling: the number of rounds of a rolling mean; 0 for none.
        options: as for `curves`.
    """
    frame = tables.smooth_curves(frame, metric, rolling) if rolling else frame
    methods = list(frame["method"].unique()) if methods is None else methods
    lines = means_over_seeds(frame, metric, methods, x)
    label, scale = METRICS.get(metric, (metric, 1))
    for method, line in lines.items():
        wide = frame[frame["method"] == method].pivot(index="round", columns="seed", values=metric)
        if seeds or wide.shape[1] < MIN_SEEDS_FOR_BAND:
            single = scale * wide.dropna().to_numpy()
            ax.plot(line.index, single, color=_style(styles, method).colour, lw=0.6, alpha=0.3)
    return curves(ax, lines, styles, **({"xlabel": x, "ylabel": label} | options))


def run_means(
    ax: Axes,
    values: Mapping[str, Mapping[float, pd.Series]],
    styles: Styles = method_style,
    *,
    names: bool = False,
    **how,
) -> Axes:
    """Draw, for each series and place, single runs as ticks and their mean, with its 95 % interval where there are
    MIN_SEEDS_FOR_BAND runs or more. How many runs diverged is written at the foot of the panel.

    Args:
        values: by series and place on the x-axis, the values of the runs; NaN for one that diverged.
        styles: of the series; one with a dash has its means joined.
        how: as for `curves`.
    """
    lines, diverged = {}, {}
    for name, by_place in values.items():
        colour, rows = _style(styles, name).colour, []
        for x, all_runs in by_place.items():
            runs = all_runs.dropna()
            if len(runs) < len(all_runs):
                # A text whose neighbour on the left has one, too, stands higher where no mean is in its way.
                higher = not len(runs) and 0 in [
                    diverged[k][2] for k in diverged if 0 < x - k < 1.5
                ]
                text = f"{len(all_runs) - len(runs)} of {len(all_runs)}\ndiverged"
                diverged[x] = text, colour, 24 * higher
            ax.plot([x] * len(runs), runs, "_", color=colour, ms=6, alpha=0.5)
            mean, low, high = statistics.mean_interval(runs) if len(runs) else (np.nan,) * 3
            enough = len(runs) >= MIN_SEEDS_FOR_BAND
            rows.append((mean, low, high) if enough else (mean, np.nan, np.nan))
        lines[name] = pd.DataFrame(rows, list(by_place), ["mean", "low", "high"], dtype=float)
    curves(ax, lines, styles, band="bars", names=names, **({"width": 1.0} | how))
    ax.grid(axis="x", visible=False)
    if diverged:
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.3 * (high - low), high)  # room for the texts
    foot = {"xycoords": ax.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 8}
    for x, (text, colour, up) in diverged.items():
        annotate(ax, x, 0.02, text, colour, 0, up, **foot)
    return ax


def class_counts(ax: Axes, counts: np.ndarray, colours: str | Sequence[str] = "viridis") -> None:
    """Draw counts [clients, classes] as a stacked bar for each client, in the order given.

    Args:
        colours: of the classes, or the name of a palette.
    """
    colours = sns.color_palette(colours, counts.shape[1])
    at, ends = np.arange(1, len(counts) + 1), counts.cumsum(axis=1)
    for column, end, colour in zip(counts.T, ends.T, colours, strict=True):
        ax.bar(at, column, 1.0, bottom=end - column, color=colour, lw=0)
    ax.margins(x=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(axis="x", visible=False)


def strata_map(points: np.ndarray, omega: np.ndarray, designs: dict[str, np.ndarray]) -> Figure:
    """Draw the same clients under four designs, a panel each.

    Client k is a disc at points[k] of area omega_k. Draws with equal shares are one group: the disc has the colour of the
    group that has most of it, with a black rim if several groups share it, and is grey where there is but one group. A
    line ties it to the weighted mean of the group's clients, the fainter the smaller the share.

    Args:
        points: of the clients, [N, 2].
        omega: the clients' weights, [N].
        designs: shares [m, N] of the clients in the draws, by the title of the panel.
    """
    figure, axes = plt.subplots(1, 4, figsize=(WIDE, 2.2), sharex=True, sharey=True)
    low, high = points.min(0), points.max(0)
    span = (high - low).max()
    for ax, (title, shares) in zip(axes.flat, designs.items(), strict=True):
        _, first, group = np.unique(shares.round(9), axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # of the groups, by their first draw
        by_group = np.stack([shares[group.ravel() == g].sum(0) for g in order])
        colours = [GREY] if len(order) == 1 else [*DRAW_COLOURS] * len(order)
        for share, colour in zip(by_group, colours, strict=False):
            weights = share * omega
            for k in np.flatnonzero(share > 1e-9):
                ends = np.stack([points[k], weights @ points / weights.sum()])
                ax.plot(*ends.T, color=colour, lw=0.9, alpha=0.7 * share[k], zorder=1)
        for k in np.argsort(-omega):  # small clients in front
            rim = ("white", 0.5) if (by_group[:, k] > 1e-9).sum() == 1 else (BLACK, 1.4)
            look = {"fc": colours[int(by_group[:, k].argmax())], "ec": rim[0], "lw": rim[1]}
            radius = 0.23 * span * np.sqrt(omega[k])
            ax.add_patch(Circle(points[k], radius, zorder=2, **look))
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.set_title(title, fontsize=9)
        ax.set_xlim(low[0] - span / 9, high[0] + span / 9)
        ax.set_ylim(low[1] - span / 9, high[1] + span / 9)
    figure.supxlabel("first principal coordinate of the updates", fontsize=9)
    figure.supylabel("second", fontsize=9)
    return figure
