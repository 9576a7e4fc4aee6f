"""Figures and tables of chapter 2, *Do gradients know the labels?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import BLACK, CODED, CORRECTED, GREY, WRITTEN
from companion.runs import statistics

DARK = "#555555"
SUMMARIES = {  # by the chapter's names: in words, and their colour
    "restored": ("restored gradients, as written", WRITTEN),
    "sorted": ("centres in ascending order", DARK),
    "unsorted": ("centres in any order, as coded", CODED),
}


def squeezed(gradient: np.ndarray, levels: np.ndarray, lost: pd.DataFrame, kept: int) -> Figure:
    """Entries [d] of a gradient with its levels, and what is lost over what is sent.

    `lost`: columns levels, bits (per entry), median, low, high (%); `kept`: the chapter's number of levels.
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.2, 5.2))
    above.hist(gradient, bins=121, color=GREY, lw=0)
    for level in levels:
        above.axvline(level, color=BLACK, lw=1)
    above.set(yscale="log", xlabel="entry of the gradient", ylabel="entries")
    above.set_title(f"one client, {len(levels)} levels", loc="left")
    below.vlines(lost["bits"], lost["low"], lost["high"], color=GREY, lw=1)
    below.plot(lost["bits"], lost["median"], color=BLACK, marker="o", ms=4, lw=1.5)
    for row in lost.itertuples():
        if row.levels in (2, 4, kept, 16, 64):
            words = f"{row.levels} levels" if row.levels in (2, kept) else str(row.levels)
            plots.annotate(below, row.bits, row.median, words, BLACK, 5, 6)
    below.set(yscale="log", xlabel="bits for each entry", ylabel="squared error (%)")
    below.set_title("all clients", loc="left")
    below.set(xlim=(0, 1.08 * lost["bits"].max()), ylim=(None, 2.5 * lost["high"].max()))
    return figure


def _plane(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Principal coordinates [N, 2] of points [N, d], and the share of the variance that they show."""
    u, size, _ = np.linalg.svd(points - points.mean(0), full_matrices=False)
    return u[:, :2] * size[:2], (size[:2] ** 2).sum() / (size**2).sum()


def plane(views: dict[str, np.ndarray], strata: dict[str, np.ndarray], classes) -> Figure:
    """A panel per summary: each client as its largest class, tied to the centre of its stratum."""
    figure, axes = plt.subplots(len(views), 1, figsize=(4.2, 3.3 * len(views)))
    for ax, (name, points) in zip(axes, views.items(), strict=True):
        xy, part = _plane(points.astype(float))
        for h in range(strata[name].max() + 1):
            members = xy[strata[name] == h]
            for point in members:
                ax.plot(*np.stack([members.mean(0), point]).T, color="#BBBBBB", lw=1, zorder=1)
        for point, label in zip(xy, classes, strict=True):
            ax.text(*point, str(label), ha="center", va="center", fontweight="bold", zorder=2)
        ax.scatter(*xy.T, s=0)
        words, colour = SUMMARIES[name]
        ax.set_title(words, loc="left", color=plots.text_colour(colour))
        ax.set(xticklabels=[], yticklabels=[], ylabel="second principal component")
        ax.set_xlabel(f"first principal component\n({part:.0%} of the variance in the two)")
    return figure


def known(found: pd.DataFrame) -> Figure:
    """Label purity of the three summaries, a panel per partition; a tick where shuffled clients are.

    `found`: columns partition, seed, strata of (a summary, or `... shuffled`), purity (%).
    """
    panels = list(found["partition"].unique())
    figure, axes = plt.subplots(len(panels), 1, figsize=(4.2, 2.2 * len(panels)), sharex=True)
    for ax, title in zip(axes, panels, strict=True):
        here = found[found["partition"] == title]
        for at, (name, (words, colour)) in enumerate(SUMMARIES.items()):
            values = here.loc[here["strata of"] == name, "purity"].to_numpy()
            chance = here.loc[here["strata of"] == f"{name} shuffled", "purity"].mean()
            mean, low, high = statistics.mean_interval(values)
            ax.barh(-at, mean, 0.36, color=colour, lw=0)
            ax.plot([low, high], [-at, -at], color=BLACK, lw=1.5)
            ax.plot([chance, chance], [-at - 0.26, -at + 0.22], color=BLACK, lw=2)
            ax.text(0, -at + 0.24, words, color=plots.text_colour(colour), fontsize=9, va="bottom")
        plots.annotate(ax, chance, -at - 0.26, "by chance", BLACK, 0, -7, ha="center")
        ax.set(yticks=[], ylim=(-2.75, 0.75), xlim=(0, 100))
        ax.set_title(title, loc="left")
        ax.grid(axis="y", visible=False)
    axes[-1].set_xlabel("label purity of the strata (%)")
    return figure


SHOWN = {
    "oracle": "class shares themselves (oracle)",
    "restored": "restored gradients, as written",
    "sorted": "centres, ascending",
    "unsorted": "centres in any order, as coded",
    "unsorted shuffled": "the last, clients shuffled",
}


def merged(classes: np.ndarray, H: int) -> float:
    """The adjusted Rand index of the clients' `classes` with these merged into H groups, as even as can be:
    the largest first, each into the group that is smallest so far."""
    from sklearn.metrics import adjusted_rand_score

    sizes, group = np.zeros(H), {}
    for name, many in pd.Series(classes).value_counts().items():
        group[name] = sizes.argmin()
        sizes[group[name]] += many
    return adjusted_rand_score(classes, [group[name] for name in classes])


def of(found: pd.DataFrame, metric: str, name: str, **where) -> np.ndarray:
    """A metric of one kind of strata, a value per federation."""
    for column, value in ({"partition": "disjoint", "round": 0} | where).items():
        found = found[found[column] == value]
    return found[found["strata of"] == name].groupby("seed")[metric].mean().to_numpy()


def interval(values: np.ndarray, digits: int) -> str:
    """Mean and 95 % interval of values, one per federation, as a table shows them."""
    said = (
        f"{round(x, digits) + 0.0:.{digits}f}" for x in map(float, statistics.mean_interval(values))
    )
    return "{} ({} to {})".format(*said).replace("-", "−")


def knowledge(found: pd.DataFrame) -> pd.DataFrame:
    """What strata know of the labels and of the gradients, a row per kind; disjoint, at w_0."""
    rows = []
    for name, words in SHOWN.items():
        row = {"strata of": words}
        for metric, title, digits in (
            ("purity", "purity (%)", 0),
            ("rand", "adjusted Rand index", 2),
            ("left", "variance left (%)", 0),
        ):
            row[title] = interval(of(found, metric, name), digits)
        rows.append(row)
    return pd.DataFrame(rows)


def numbers(found: pd.DataFrame) -> dict[str, float]:
    """`rand_restored`, `rand_restored_low`, `..._high`, `equal_rand_restored`, ..., `left_restored`, ...

    Means over the federations, and ends of their 95 % intervals.
    """
    said = {}
    for name in ("oracle", *SUMMARIES):
        for prefix, title in (("", "disjoint"), ("equal_", "equal sizes")):
            values = map(float, statistics.mean_interval(of(found, "rand", name, partition=title)))
            ends = zip(("", "_low", "_high"), values, strict=True)
            said |= {f"{prefix}rand_{name}{end}": value for end, value in ends}
        said[f"left_{name}"] = of(found, "left", name).mean()
    return said | {"left_chance": of(found, "left", "unsorted shuffled").mean()}


def over_rounds(trained: pd.DataFrame) -> Figure:
    """Purity of new strata, and the variance that new and kept strata leave, over the moments of training."""
    moments = sorted(trained["round"].unique())
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.2))
    lines = [(axes[0], "purity", n, "-", words) for n, (words, _) in SUMMARIES.items()]
    lines += [
        (axes[1], "left", "restored", "-", "as written, made anew (solid)"),
        (axes[1], "kept", "restored", ":", "as written, kept (dotted)"),
        (axes[1], "kept", "unsorted", "--", "as coded, kept (dashed)"),
    ]
    for place, (ax, metric, name, dash, words) in enumerate(lines):
        stats = [statistics.mean_interval(of(trained, metric, name, round=t)) for t in moments]
        mean, low, high = np.array(stats).T
        at, colour = np.arange(len(moments)) + 0.05 * (place % 3 - 1), SUMMARIES[name][1]
        ax.vlines(at, low, high, color=colour, lw=1)
        ax.plot(at, mean, color=colour, ls=dash, marker="o", ms=4, lw=2)
        ax.text(1.02, 0.96 - 0.1 * (place % 3), words, **_corner(ax), color=colour)
    axes[0].set_ylabel("label purity (%)")
    axes[1].set_ylabel("variance left (%)")
    for ax in axes:
        ax.set_xticks(range(len(moments)), [f"round {t}" if t else "$w_0$" for t in moments])
        ax.set(ylim=(0, 145), yticks=range(0, 101, 25), xlim=(-0.2, len(moments) - 0.8))
    return figure


def _corner(ax) -> dict:
    return {"transform": ax.transAxes, "ha": "right", "va": "center", "fontsize": 9}


def exponents(powers: np.ndarray, curves: dict[str, np.ndarray]) -> Figure:
    """V against the exponent of the spread (proportional: 100), a curve per set of strata."""
    figure, ax = plt.subplots(figsize=(4.2, 3.0))
    for (words, values), colour in zip(curves.items(), (BLACK, WRITTEN), strict=True):
        ax.plot(powers, values, color=colour, lw=2)
        least = values.argmin()
        plots.annotate(ax, powers[least], values[least], words, colour, 0, -9, ha="center")
    ax.axhline(100, color=GREY, lw=1, ls=":")
    low, high = min(map(np.min, curves.values())), max(map(np.max, curves.values()))
    for a, words in ((0, "proportional"), (1, "deviation"), (2, "variance")):
        ax.axvline(a, color=GREY, lw=1, ls=":")
        ax.text(a, high + 0.06 * (high - low), words, fontsize=9, ha="left" if a == 0 else "center")
    ax.set(xlabel="exponent of $S_h$ in the seats", ylabel="V (% of proportional)")
    ax.set(xlim=(0, powers[-1]), ylim=(low - 0.16 * (high - low), high + 0.2 * (high - low)))
    return figure


RULES = {  # by the chapter's names: in words, and their colour
    "printed": ("eq. 3.5 as printed", WRITTEN),
    "coded": ("as coded", CODED),
    "remainder": ("largest remainder", DARK),
    "proportional": ("proportional", DARK),
    "best": ("best in whole numbers", CORRECTED),
}


def seats(sizes: np.ndarray, panels: dict[int, dict[str, tuple]]) -> Figure:
    """A panel per number of participants, a row per rule, a disc per stratum with its seats.

    `panels`, by m and rule: the seats [H], and V in per cent of the best. Strata without a seat are empty rings.
    """
    rows = [len(rules) + 1.3 for rules in panels.values()]
    shape = {"height_ratios": rows, "figsize": (4.2, 0.52 * sum(rows))}
    figure, axes = plt.subplots(len(panels), 1, **shape)
    at = np.arange(len(sizes))
    most = max(np.max(each) for rules in panels.values() for each, _ in rules.values())
    for ax, (m, rules) in zip(axes, panels.items(), strict=True):
        for row, (name, (found, variance)) in enumerate(rules.items()):
            words, colour = RULES[name]
            ax.text(
                -0.75,
                -row,
                words,
                ha="right",
                va="center",
                color=plots.text_colour(colour),
                fontsize=9,
            )
            empty = np.asarray(found) == 0
            ax.scatter(at[~empty], -row - 0 * at[~empty], 60 + 260 * found[~empty] / most,
                       color=colour, alpha=0.3, lw=0)  # fmt: skip
            ax.scatter(
                at[empty], -row - 0 * at[empty], 150, facecolor="none", edgecolor=BLACK, lw=2
            )
            for h, seat in enumerate(found):
                digits = f"{seat:.1f}" if name == "printed" else f"{seat:.0f}"
                ax.text(h, -row - 0.04, digits, ha="center", va="center", fontsize=8)
            shown = f"{variance:.0f} %" if np.isfinite(variance) else "infinite"
            ax.text(len(sizes) - 0.4, -row, shown, ha="left", va="center", fontsize=9)
        ax.text(len(sizes) - 0.4, 0.75, "V", fontsize=9, va="center")
        ax.set_title(f"{m} participants", loc="left")
        ax.set(xticks=at, xticklabels=sizes, yticks=[], ylim=(0.5 - len(rules), 1.0))
        ax.set_xlim(-0.7, len(sizes) - 0.5)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    axes[-1].set_xlabel("stratum, by its number of clients")
    return figure


def out_of_reach(reach: pd.DataFrame) -> Figure:
    """A histogram per partition of the clients that can never be drawn: columns partition, clients."""
    panels = reach["partition"].unique()
    figure, axes = plt.subplots(len(panels), 1, figsize=(4.2, 3.6), sharex=True, sharey=True)
    bins = np.arange(reach["clients"].max() + 2)
    for ax, title in zip(axes, panels, strict=True):
        values = reach.loc[reach["partition"] == title, "clients"]
        ax.bar(bins, np.bincount(values, minlength=len(bins)), 0.8, color=CODED, lw=0)
        ax.set_title(title, loc="left")
        ax.set_ylabel("stratifications")
        ax.grid(axis="x", visible=False)
    axes[-1].set_xlabel("clients that can never be drawn")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


def inclusion(panels: dict[str, tuple]) -> Figure:
    """Inclusion probabilities against m p: `panels`, by title: m p, exact, and shares of numpy's cohorts."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(4.2, 5.6))
    for ax, (title, (printed, exact, counted)) in zip(axes, panels.items(), strict=True):
        ends = np.array([min(*printed, *exact), max(*printed, *exact)])
        ends = ends + np.ptp(ends) * np.array([-0.12, 0.12])
        ax.plot(ends, ends, color=WRITTEN, lw=1.5)
        ax.plot(printed, exact, "o", color=BLACK, ms=8, mfc="none", mew=1.5)
        ax.plot(printed, counted, "x", color=CODED, ms=6, mew=1.5)
        for row, (words, colour) in enumerate(
            (("exact: circles", BLACK), ("numpy: crosses", CODED), ("m times p: line", WRITTEN))
        ):
            ax.text(0.02, 0.94 - 0.11 * row, words, **_corner(ax) | {"ha": "left"}, color=colour)
        ax.set_title(title, loc="left")
        ax.set(xlabel="draws times p", ylabel="chance to be drawn")
    return figure
