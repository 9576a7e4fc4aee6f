"""Figures and tables of chapter 4f, *Convergence: where does a biased design lead?*"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import AMBER, Style

STYLES = {
    "as written": Style(plots.WRITTEN),
    "corrected": Style(plots.CORRECTED),
    "uniform": Style(AMBER),
}
BY_SIZE = plots.method_style("clustered-size").colour
BY_SIMILARITY = plots.method_style("clustered-similarity").colour


def decide(function: Callable) -> str:
    """Return the verdict of the function that decides a claim."""
    return function(None).verdict


def draw_fixed_point(paths: dict[str, np.ndarray], biased: float, optimum: float) -> Figure:
    """Draw the models of two designs over rounds: the mean and the middle 90 % of runs, and where they should end.

    Args:
        paths: by design, models [rounds, runs].
    """
    figure, ax = plt.subplots()
    at = np.arange(10, len(paths["corrected"]) + 1)
    lines = {}
    for name, path in paths.items():
        low, high = np.quantile(path[at - 1], [0.05, 0.95], axis=1)
        mean = path[at - 1].mean(axis=1)
        lines[name] = pd.DataFrame({"mean": mean, "low": low, "high": high}, at)
    axis = {"xscale": "log", "xlabel": "round", "ylabel": "model $w$", "ylim": (0.1, 0.65)}
    plots.curves(ax, lines, STYLES, **axis)
    for level in (biased, optimum):
        ax.axhline(level, color="black", lw=1, ls=":")
    return figure


def draw_rates(
    runs: dict[str, np.ndarray],
    uniform: np.ndarray,
    theorem: np.ndarray,
    bias: float,
    constant: dict[float, np.ndarray],
    bounds: dict[float, np.ndarray],
) -> Figure:
    """Draw the excess objective F(w_T) - F* over rounds: above with decreasing steps, below with constant ones.

    Args:
        runs: with decreasing steps, the excess of runs by design, [rounds + 1, runs].
        uniform: with decreasing steps and uniform draws, its exact expectation [rounds + 1].
        theorem: the theorem's bound of `uniform`, [rounds + 1].
        bias: the excess at the fixed point of the biased design as written.
        constant: with constant steps and uniform draws, its exact expectation [rounds + 1], by the step size in units of
            the largest.
        bounds: their bounds, as `constant`.
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(plots.WIDTH, 4.9), sharex=True)
    rounds = np.arange(1, len(uniform))
    means = {name: path.mean(axis=1) for name, path in runs.items()} | {"uniform": uniform}
    lines = pd.DataFrame(means | {"theorem": theorem}).loc[rounds]
    bottom = means["corrected"][-1] / 2  # room for the lowest name
    axis = {"xscale": "log", "yscale": "log"}
    styles = STYLES | {"theorem": Style(plots.GREY)}
    plots.curves(above, lines, styles, width=1.8, ylim=(bottom, None), **axis)
    above.axhline(bias, color=plots.WRITTEN, lw=1, ls=":")
    plots.annotate(above, 1, bias, "fixed point as written", plots.WRITTEN, 3, -7)
    above.set_title("decreasing steps", loc="left")
    names = ("largest step", "a quarter", "a sixteenth")
    colour, dashes = STYLES["uniform"].colour, ("-", "--", "-.")  # all three are uniform draws
    styles = {name: Style(colour, dash) for name, dash in zip(names, dashes, strict=True)}
    lines = pd.DataFrame(dict(zip(names, constant.values(), strict=True))).loc[rounds]
    plots.curves(below, lines, styles, width=1.8, **axis)
    for step in constant:
        below.plot(rounds, bounds[step][1:], color=plots.GREY, lw=1, ls=":")
    end = max(bounds[step][-1] for step in constant)
    plots.annotate(below, rounds[-1], end, "theorem's bounds", plots.GREY)
    below.set_title("constant steps, uniform draws", loc="left")
    below.set_xlabel("round T")
    below.set_xticks([10**k for k in range(int(np.log10(rounds[-1])) + 1)])
    below.minorticks_off()
    figure.supylabel("excess objective $F(w_T) - F^*$", fontsize=10)
    return figure


def summarise_slopes(slopes: pd.DataFrame) -> tuple[float, float, float]:
    """Compare the measured exponents of the draws as printed with those of the other designs, by their 95 % intervals.

    Returns:
        The lower end of the interval of the draws as printed, the largest upper end of the others, and the largest
        distance of one of their slopes from -1.
    """
    by_design = slopes.set_index("draws")
    others = by_design.drop(index="as written")
    return (
        by_design.loc["as written", "low"],
        others["high"].max(),
        (others["slope"] + 1).abs().max(),
    )


def tabulate_slopes(slopes: pd.DataFrame) -> pd.DataFrame:
    """Return the measured exponents as a table."""
    rows = [
        {
            "draws": row["draws"],
            "slope": f"{row['slope']:.2f}",
            "95 % interval": f"{row['low']:.2f} to {row['high']:.2f}",
            "error after the last round": f"{1e4 * row['excess at T']:.2f}\u00a0·\u00a010⁻⁴",
        }
        for _, row in slopes.iterrows()
    ]
    return pd.DataFrame(rows)


def draw_clustered(floors: dict[str, tuple[float, float]], tails: dict[str, list]) -> Figure:
    """Draw the long-run error of each design, with one and (paler) with five local steps; below, flat tails over rounds.

    Args:
        floors: by design, the excess objective with one and with five local steps.
        tails: by design, the expected squared gradient in each round.
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(plots.WIDTH, 4.8), height_ratios=(1.1, 1))
    colours = (plots.PINK, plots.GREY, BY_SIZE, BY_SIMILARITY)
    for row, ((one_step, five_steps), colour) in enumerate(
        zip(floors.values(), colours, strict=True)
    ):
        above.barh(row - 0.19, 1e4 * one_step, 0.36, color=colour)
        above.barh(row + 0.19, 1e4 * five_steps, 0.36, color=colour, alpha=0.5)
        if not row:  # the bars of the first design are named
            plots.annotate(above, 0, -0.19, "one local step", "black", 4, fontsize=8)
            plots.annotate(above, 0, 0.19, "five local steps", "black", 4, fontsize=8)
    above.set_yticks(range(len(floors)), [name.replace(" ", "\n", 1) for name in floors])
    above.invert_yaxis()
    above.set(xlabel="long-run excess objective ($10^{-4}$)")
    above.set_title("quadratic clients", loc="left")
    above.grid(axis="y", visible=False)
    lines = {
        n: pd.Series(map(float, tails[n]), range(1, len(tails[n]) + 1)) for n in ("MD", "clustered")
    }
    # Of equal clients in a list, the rows by size hold neighbours, as the rows of these four clients do.
    styles = {"MD": Style(plots.PINK, marker="o"), "clustered": Style(BY_SIZE, marker="o")}
    axis = {"xlabel": "round", "ylabel": r"$\mathbb{E}\,\|\nabla F(w_t)\|^2$", "ylim": (0.7, 1.02)}
    plots.curves(below, lines, styles, width=1.5, **axis)
    below.set_title("flat tails", loc="left")
    return figure
