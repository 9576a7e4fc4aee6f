"""Figures and tables of chapter 4f, *Convergence: where does a biased design lead?*"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots

COLOURS = {"as written": plots.WRITTEN, "corrected": plots.CORRECTED, "uniform": "#B07400"}
CLUSTERED = plots.method_style("clustered-size").colour


def verdict(function: Callable) -> str:
    """The ledger's word for the claim that this function decides."""
    return function(None).verdict


def fixed_point(paths: dict[str, np.ndarray], biased: float, optimum: float) -> Figure:
    """Models [rounds, runs] of two designs: mean and the middle 90 %, and where they should end."""
    figure, ax = plt.subplots()
    at = np.arange(10, len(paths["corrected"]) + 1)
    for level in (biased, optimum):
        ax.axhline(level, color="black", lw=1, ls=":")
    for name, path in paths.items():
        low, high = np.quantile(path[at - 1], [0.05, 0.95], axis=1)
        ax.fill_between(at, low, high, color=COLOURS[name], alpha=0.2, lw=0)
        mean = path[at - 1].mean(axis=1)
        ax.plot(at, mean, color=COLOURS[name], lw=2)
        plots.annotate(
            ax, at[-1], mean[-1], name, COLOURS[name], up=8 if name == "as written" else -8
        )
    ax.set(xscale="log", xlabel="round", ylabel="model $w$", ylim=(0.1, 0.65))
    ax.set_xlim(at[0], 9 * at[-1])  # room for the names
    return figure


def rates(
    runs: dict[str, np.ndarray],
    uniform: np.ndarray,
    promised: np.ndarray,
    beside: float,
    constant: dict[float, np.ndarray],
    ceilings: dict[float, np.ndarray],
) -> Figure:
    """Excess objective over rounds: above with decreasing steps, below with constant ones.

    `runs` are of shape [rounds + 1, runs], all others [rounds + 1]; `constant` and its bounds by the step in units of the largest.
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.2, 5.4), sharex=True)
    t = np.arange(1, len(uniform))
    curves = {name: path.mean(axis=1) for name, path in runs.items()} | {"uniform": uniform}
    places = {"as written": 7, "corrected": -7, "uniform": 6}
    for name, values in curves.items():
        above.loglog(t, values[1:], color=COLOURS[name], lw=1.8)
        plots.annotate(above, t[-1], values[-1], name, COLOURS[name], up=places[name])
    above.loglog(t, promised[1:], color=plots.GREY, lw=1.5)
    plots.annotate(above, t[-1], promised[-1], "theorem", "#666666")
    above.axhline(beside, color=plots.WRITTEN, lw=1, ls=":")
    above.set_ylim(bottom=curves["corrected"][-1] / 2)  # room for the lowest name
    above.set_title("decreasing steps", loc="left")
    shades = ("black", "#5D4A8C", plots.PINK)
    names = ("largest step", "a quarter", "a sixteenth")
    for part, colour, name in zip(constant, shades, names, strict=True):
        below.loglog(t, constant[part][1:], color=colour, lw=1.8)
        below.loglog(t, ceilings[part][1:], color=colour, lw=1, ls=":")
        plots.annotate(below, t[-1], constant[part][-1], name, colour)
    below.set_title("constant steps", loc="left")
    below.set_xlabel("round T")
    below.set_xlim(1, 18 * t[-1])  # room for the names
    below.set_xticks([10**k for k in range(int(np.log10(t[-1])) + 1)])
    below.minorticks_off()
    figure.supylabel("excess objective $F(w_T) - F^*$", fontsize=10)
    return figure


def exponents(slopes: pd.DataFrame) -> tuple[float, float, float]:
    """Lowest slope that the draws as written may have, highest of the others, how far these are from -1."""
    found = slopes.set_index("draws")
    others = found.drop(index="as written")
    return (
        found.loc["as written", "low"],
        others["high"].max(),
        (others["slope"] + 1).abs().max(),
    )


def slopes(found: pd.DataFrame) -> pd.DataFrame:
    """The measured exponents as a table."""
    rows = [
        {
            "draws": row["draws"],
            "slope": f"{row['slope']:.2f}",
            "95 % interval": f"{row['low']:.2f} to {row['high']:.2f}",
            "error after the last round": f"{1e4 * row['excess at T']:.2f}\u00a0·\u00a010⁻⁴",
        }
        for _, row in found.iterrows()
    ]
    return pd.DataFrame(rows)


def clustered(floors: dict[str, tuple[float, float]], tails: dict[str, list]) -> Figure:
    """Bars of the long-run error per design, with one and with five local steps; below, flat tails over rounds."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.2, 5.2), height_ratios=(1.1, 1))
    colours = (plots.PINK, "#B07400", CLUSTERED, CLUSTERED)
    for place, (found, colour) in enumerate(zip(floors.values(), colours, strict=True)):
        above.barh(place - 0.19, 1e4 * found[0], 0.36, color=colour)
        above.barh(place + 0.19, 1e4 * found[1], 0.36, color=colour, alpha=0.5)
    above.set_yticks(range(len(floors)), [name.replace(" ", "\n", 1) for name in floors])
    above.invert_yaxis()
    above.set(xlabel="long-run excess objective ($10^{-4}$)")
    above.set_title("quadratic clients", loc="left")
    above.grid(axis="y", visible=False)
    rounds = range(1, len(tails["MD"]) + 1)
    for name, colour in (("MD", plots.PINK), ("clustered", CLUSTERED)):
        values = [float(x) for x in tails[name]]
        below.plot(rounds, values, "o-", color=colour, ms=4)
        plots.annotate(
            below, rounds[-1], values[-1], name, colour, up=7 if name == "clustered" else -7
        )
    below.set(xlabel="round", ylabel=r"$\mathbb{E}\,\|\nabla F(w_t)\|^2$", ylim=(0.7, 1.02))
    below.set_xlim(0.7, 1.4 * rounds[-1])  # room for the names
    below.set_title("flat tails", loc="left")
    return figure
