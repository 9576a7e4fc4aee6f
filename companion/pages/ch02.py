"""Figures and tables of chapter 2, *Do gradients know the labels?*"""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import BLACK, CODED, CORRECTED, DARK_GREY, GREY, WRITTEN, Style
from companion.runs import statistics

SUMMARIES = {  # of a client's gradient, by the chapter's names
    "restored": Style(WRITTEN, label="restored gradients, as written"),
    "sorted": Style(DARK_GREY, label="level values, ascending"),
    "unsorted": Style(CODED, label="level values in any order, as coded"),
}


def draw_squeeze(
    gradient: np.ndarray, levels: np.ndarray, losses: pd.DataFrame, chosen_levels: int
) -> Figure:
    """Draw the entries of a gradient with its levels, and what the squeeze loses over what is sent.

    Args:
        gradient: of one client [d].
        levels: the values that its squeezed entries have.
        losses: squared error of all clients (%): columns levels, bits (per entry), median, low, high.
        chosen_levels: the chapter's number of levels.
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(plots.WIDTH, 5.2))
    above.hist(gradient, bins=121, color=GREY, lw=0)
    for level in levels:
        above.axvline(level, color=BLACK, lw=1)
    above.set(yscale="log", xlabel="entry of the gradient", ylabel="entries")
    above.set_title(f"one client, {len(levels)} levels", loc="left")
    line = losses.set_index("bits")[["median", "low", "high"]].rename(columns={"median": "mean"})
    style = {"": Style(BLACK, marker="o")}
    axis = {"yscale": "log", "xlabel": "bits for each entry", "ylabel": "squared error (%)"}
    plots.curves(below, {"": line}, style, band="bars", names=False, width=1.5, **axis)
    for row in losses.itertuples():
        if row.levels in (2, 4, chosen_levels, 16, 64):
            unit = " levels" if row.levels in (2, chosen_levels) else ""
            plots.annotate(below, row.bits, row.median, f"{row.levels}{unit}", BLACK, 5, 6)
    below.set_title("all clients", loc="left")
    below.set(xlim=(0, 1.08 * losses["bits"].max()), ylim=(None, 2.5 * losses["high"].max()))
    return figure


def draw_planes(strata: dict[str, np.ndarray], classes: np.ndarray) -> Figure:
    """Draw how the clients' largest classes fall into strata, a panel for each summary: a disc for each stratum and class.

    Args:
        strata: the clients' strata [N], by summary.
        classes: the clients' largest classes [N].
    """
    figure, axes = plt.subplots(1, len(strata), figsize=(7.0, 3.3), sharey=True)
    for ax, (name, labels) in zip(axes, strata.items(), strict=True):
        style, counts = SUMMARIES[name], np.zeros((labels.max() + 1, classes.max() + 1), dtype=int)
        np.add.at(counts, (labels, classes), 1)
        stratum, label = np.nonzero(counts)
        number = counts[stratum, label]
        ax.scatter(stratum + 1, label, 60 * number, color=style.colour, alpha=0.75, lw=0)
        for x, y, clients in zip(stratum + 1, label, number, strict=True):
            if clients > 1:
                ax.text(x, y, clients, ha="center", va="center", fontsize=8, color="white")
        ax.set_title(style.label, loc="left", color=plots.text_colour(style.colour))
        ax.set(xlabel="stratum", xticks=range(1, len(counts) + 1))
        ax.margins(0.08)
    axes[0].set(ylabel="largest class of a client", yticks=range(classes.max() + 1))
    return figure


def draw_purity(purities: pd.DataFrame) -> Figure:
    """Draw the label purity of the summaries' strata as bars with intervals, a panel for each partition. A tick on each
    bar marks the purity that strata of the same sizes have by chance: with the clients shuffled among them.

    Args:
        purities: columns partition, seed, strata of (a summary, or `... shuffled`), purity (%).
    """

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        """Draw the bars of one partition into a panel, a row for each summary."""
        by_kind = part.groupby("strata of")["purity"]
        intervals = [statistics.mean_interval(by_kind.get_group(name)) for name in SUMMARIES]
        # `plots.bars` colours by column, and here each row needs a colour of its own: so each row has a value in its own
        # column alone, on the diagonal, and stacking leaves out the others.
        mean, low, high = (
            pd.DataFrame(np.diag(values), SUMMARIES, SUMMARIES).replace(0, np.nan)
            for values in zip(*intervals, strict=True)
        )
        plots.bars(ax, mean, SUMMARIES, low=low, high=high, stacked=True, width=0.36)
        by_chance = [by_kind.get_group(f"{name} shuffled").mean() for name in SUMMARIES]
        for y, (style, chance) in enumerate(zip(SUMMARIES.values(), by_chance, strict=True)):
            ax.plot([chance, chance], [y - 0.21, y + 0.26], color=BLACK, lw=2)
            colour = plots.text_colour(style.colour)
            ax.text(0, y - 0.33, style.label, color=colour, fontsize=9)
        last_row = len(SUMMARIES) - 1
        plots.annotate(ax, by_chance[-1], last_row + 0.26, "by chance", BLACK, 0, -7, ha="center")
        ax.set(yticks=[], ylim=(2.75, -0.8), xlim=(0, 100))

    parts = dict(list(purities.groupby("partition", sort=False)))
    return plots.panels(draw, parts, height=2.1, xlabel="label purity of the strata (%)")


KINDS = {  # of strata, as the table calls them
    "oracle": "class shares themselves (oracle)",
    "restored": "restored gradients, as written",
    "sorted": "level values, ascending",
    "unsorted": "level values in any order, as coded",
    "unsorted shuffled": "level values as coded, clients shuffled",
}


def rand_of_merged_classes(classes: np.ndarray, strata: int) -> float:
    """Return the adjusted Rand index of the clients' classes with these merged into so many strata of about one size:
    the largest class first, each into the stratum that is smallest so far."""
    from sklearn.metrics import adjusted_rand_score

    sizes, stratum = np.zeros(strata), {}
    for name, count in pd.Series(classes).value_counts().items():
        stratum[name] = sizes.argmin()
        sizes[stratum[name]] += count
    return adjusted_rand_score(classes, [stratum[name] for name in classes])


def metric_of(measures: pd.DataFrame, metric: str, kind: str, **where) -> np.ndarray:
    """Return a metric of one kind of strata, a value for each federation; by default disjoint and at w_0."""
    for column, value in ({"partition": "disjoint", "round": 0} | where).items():
        measures = measures[measures[column] == value]
    return measures[measures["strata of"] == kind].groupby("seed")[metric].mean().to_numpy()


def _format_interval(values: np.ndarray, digits: int) -> str:
    """Return the mean and 95 % interval of values, one for each federation, as a table shows them."""
    ends = map(float, statistics.mean_interval(values))
    texts = (f"{round(x, digits) + 0.0:.{digits}f}" for x in ends)
    return "{} ({} to {})".format(*texts).replace("-", "−")


def tabulate_knowledge(measures: pd.DataFrame) -> pd.DataFrame:
    """Tabulate how well strata agree with the clients' labels, and how much of the gradients' variance they leave.

    A row for each of KINDS, with means over federations and 95 % intervals; for the disjoint partition, at w_0.
    """
    columns = (
        ("purity", "purity (%)", 0),
        ("rand", "adjusted Rand index", 2),
        ("left", "variance left (%)", 0),
    )
    return pd.DataFrame(
        {"strata of": label}
        | {title: _format_interval(metric_of(measures, m, kind), d) for m, title, d in columns}
        for kind, label in KINDS.items()
    )


def summarise_knowledge(measures: pd.DataFrame) -> dict[str, float]:
    """Return the numbers of the chapter on strata, labels and gradients at w_0, by the names that it gives them.

    Returns:
        For each kind of strata, such as "restored":
            rand_restored: the mean over federations of the adjusted Rand index of strata and classes, disjoint partition;
            rand_restored_low, rand_restored_high: the ends of its 95 % interval;
            equal_rand_restored, ...: the same with equal sizes;
            left_restored: the mean share of the gradients' variance that the strata leave, in %, disjoint partition.
        left_chance: that share for the strata "unsorted" with the clients shuffled among them.
    """
    values = {}
    for name in ("oracle", *SUMMARIES):
        for prefix, title in (("", "disjoint"), ("equal_", "equal sizes")):
            rand = metric_of(measures, "rand", name, partition=title)
            ends = zip(("", "_low", "_high"), statistics.mean_interval(rand), strict=True)
            values |= {f"{prefix}rand_{name}{end}": float(value) for end, value in ends}
        values[f"left_{name}"] = metric_of(measures, "left", name).mean()
    return values | {"left_chance": metric_of(measures, "left", "unsorted shuffled").mean()}


def draw_training(measures: pd.DataFrame) -> Figure:
    """Draw the purity of new strata, and the variance that new and old strata leave, over the moments of training."""
    moments = sorted(measures["round"].unique())
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 2.9))
    short = {"restored": "restored", "sorted": "ascending", "unsorted": "as coded"}
    purity = [
        ("purity", name, style._replace(label=short[name])) for name, style in SUMMARIES.items()
    ]
    variance = [
        ("kept", "unsorted", Style(CODED, "--", label="as coded, kept")),
        ("kept", "restored", Style(WRITTEN, ":", label="written, kept")),
        ("left", "restored", Style(WRITTEN, label="written, new")),
    ]
    labels = ("label purity (%)", "variance left (%)")
    for ax, series, label in zip(axes, (purity, variance), labels, strict=True):
        lines, styles = {}, {}
        for place, (metric, kind, style) in enumerate(series):
            values = [metric_of(measures, metric, kind, round=t) for t in moments]
            rows = [statistics.mean_interval(v) for v in values]
            at = np.arange(len(moments)) + 0.05 * (place - 1)
            lines[style.label] = pd.DataFrame(rows, at, ["mean", "low", "high"])
            styles[style.label] = style._replace(marker="o")
        plots.curves(ax, lines, styles, band="bars", ylabel=label, ylim=(0, 100))
        ax.set_xticks(range(len(moments)), [f"round {t}" if t else "$w_0$" for t in moments])
    return figure


def _write_in_corner(ax: Axes, styles: Iterable[Style], x: float, ha: str) -> None:
    """Write the labels of the styles into the panel's upper part, one below the other."""
    for row, style in enumerate(styles):
        where = {"xycoords": "axes fraction", "ha": ha}
        plots.annotate(ax, x, 0.95 - 0.1 * row, style.label, style.colour, 0, **where)


def draw_exponents(powers: np.ndarray, variances: dict[str, np.ndarray]) -> Figure:
    """Draw the variance V over the exponent of the within-stratum standard deviation in the allocation.

    Args:
        powers: the exponents, ascending from 0.
        variances: by the name of two sets of strata, V for each exponent, in per cent of proportional allocation's.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.0))
    colours = dict(zip(variances, (Style(BLACK), Style(WRITTEN)), strict=True))
    axis = {"xlabel": "exponent of $S_h$ in the allocation", "ylabel": "V (% of proportional)"}
    plots.curves(ax, pd.DataFrame(variances, powers), colours, names=False, **axis)
    beside = np.abs(powers - 1.1).argmin()  # of the upright lines
    for name, values in variances.items():
        plots.annotate(ax, powers[beside], values[beside], name, colours[name].colour, 2, -9)
    ax.axhline(100, color=GREY, lw=1, ls=":")
    low, high = min(map(np.min, variances.values())), max(map(np.max, variances.values()))
    for power, name in ((0, "proportional"), (1, "deviation"), (2, "variance")):
        bottom, top = low - 0.16 * (high - low), high + 0.03 * (high - low)
        ax.plot([power, power], [bottom, top], color=GREY, lw=1, ls=":")
        ha = "left" if power == 0 else "center"
        ax.text(power, high + 0.07 * (high - low), name, fontsize=9, ha=ha)
    ax.grid(axis="x", visible=False)
    ax.set(xlim=(0, powers[-1]), ylim=(low - 0.16 * (high - low), high + 0.2 * (high - low)))
    return figure


RULES = {  # of allocation, by the chapter's names
    "printed": Style(WRITTEN, label="eq. 3.5 as printed"),
    "coded": Style(CODED, label="as coded"),
    "remainder": Style(DARK_GREY, label="largest remainder"),
    "proportional": Style(DARK_GREY, label="proportional"),
    "best": Style(CORRECTED, label="best in whole numbers"),
}


def draw_allocations(sizes: np.ndarray, panels: dict[int, dict[str, tuple]]) -> Figure:
    """Draw a disc for the allocation of each stratum, a row for each rule, a panel for each number of participants.
    Strata without a participant are empty rings.

    Args:
        sizes: clients of the strata [H].
        panels: by the number of participants and rule, the allocation [H], and the variance V in per cent of the best.
    """
    heights = [len(rules) + 1.3 for rules in panels.values()]
    size = {"height_ratios": heights, "figsize": (plots.WIDTH, 0.54 * sum(heights))}
    figure, axes = plt.subplots(len(panels), 1, **size)
    at, right = np.arange(len(sizes)), len(sizes) - 0.4
    most = max(np.max(draws) for rules in panels.values() for draws, _ in rules.values())
    for ax, (m, rules) in zip(axes, panels.items(), strict=True):
        for row, (rule, (allocation, variance)) in enumerate(rules.items()):
            style, draws = RULES[rule], np.asarray(allocation)
            colour, left = plots.text_colour(style.colour), {"ha": "right", "va": "center"}
            ax.text(-0.75, -row, style.label, color=colour, fontsize=9, **left)
            empty = draws == 0
            disc = {"color": style.colour, "alpha": 0.3, "lw": 0}
            ax.scatter(
                at[~empty], np.full((~empty).sum(), -row), 170 + 230 * draws[~empty] / most, **disc
            )
            ring = {"facecolor": "none", "edgecolor": BLACK, "lw": 2}
            ax.scatter(at[empty], np.full(empty.sum(), -row), 170, **ring)
            for stratum, count in enumerate(draws):
                text = f"{count:.1f}" if rule == "printed" else f"{count:.0f}"
                ax.text(stratum, -row - 0.04, text, ha="center", va="center", fontsize=8)
            text = f"{variance:.0f} %" if np.isfinite(variance) else "infinite"
            ax.text(right, -row, text, ha="left", va="center", fontsize=9)
        ax.text(right, 0.75, "V", fontsize=9, va="center")
        ax.set_title(f"{m} participants", loc="left")
        ax.set(xticks=at, xticklabels=sizes, yticks=[], ylim=(0.5 - len(rules), 1.0))
        ax.set_xlim(-0.7, len(sizes) - 0.5)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    axes[-1].set_xlabel("stratum, by its number of clients")
    figure.get_layout_engine().set(h_pad=0.12)
    return figure


def draw_out_of_reach(reach: pd.DataFrame) -> Figure:
    """Draw a histogram of the number of clients that can never be drawn, a panel for each partition.

    Args:
        reach: columns partition, clients; a row for each stratification.
    """
    bins = np.arange(reach["clients"].max() + 2)

    def draw(ax: Axes, part: pd.DataFrame) -> None:
        """Draw the histogram of one partition into a panel."""
        counts = np.bincount(part["clients"], minlength=len(bins))
        ax.bar(bins, counts, 0.8, color=CODED, lw=0)
        ax.set_ylabel("stratifications")
        ax.grid(axis="x", visible=False)

    parts = dict(list(reach.groupby("partition", sort=False)))
    xlabel = "clients that can never be drawn"
    figure = plots.panels(draw, parts, height=1.55, sharey=True, xlabel=xlabel)
    figure.axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


def draw_inclusion(panels: dict[str, tuple]) -> Figure:
    """Draw inclusion probabilities over m p_k, a panel for each stratum.

    Args:
        panels: by title, m p_k, the exact inclusion probabilities, and the shares of numpy's cohorts.
    """
    names = (Style(BLACK, label="exact: circles"), Style(CODED, label="numpy: crosses"))
    names += (Style(WRITTEN, label="m times p: line"),)

    def draw(ax: Axes, part: tuple) -> None:
        """Draw the inclusion probabilities of one stratum into a panel."""
        printed, exact, shares = part
        ends = np.array([min(*printed, *exact), max(*printed, *exact)])
        ends = ends + np.ptp(ends) * np.array([-0.12, 0.12])
        ax.plot(ends, ends, color=WRITTEN, lw=1.5)
        ax.plot(printed, exact, "o", color=BLACK, ms=8, mfc="none", mew=1.5)
        ax.plot(printed, shares, "x", color=CODED, ms=6, mew=1.5)
        _write_in_corner(ax, names, x=0.02, ha="left")
        ax.set(xlabel="draws times p", ylabel="chance to be drawn")

    return plots.panels(draw, panels, height=2.55, sharex=False)
