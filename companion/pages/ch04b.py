"""Figures and tables of chapter 4b, *Variance: which design is less noisy?*"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import Style


def tabulate_one_draw(moments: Callable, cases, by: str = "updates") -> pd.DataFrame:
    """Return the variances of one draw from some strata, a row each.

    Args:
        moments: returns the variances of the plain mean, of uniform draws and of Hansen–Hurwitz for (updates, norms).
        cases: the strata: pairs of updates and norms.
        by: what names a row: "updates" or "norms".
    """
    rows = []
    for updates, norms in cases:
        plain, uniform, weighted = moments(updates, norms)
        rows.append(
            {
                by: ", ".join(map(str, updates if by == "updates" else norms)).replace("-", "−"),
                "plain mean": str(plain),
                "uniform draws": str(uniform),
                "Hansen–Hurwitz": str(weighted),
            }
        )
    return pd.DataFrame(rows)


def draw_allocation(shares: np.ndarray, variance: np.ndarray, marks: dict) -> Figure:
    """Draw the variance over the first stratum's share of the allocation.

    Args:
        shares: of the first stratum in the allocation, ascending.
        variance: for each share, in multiples of proportional allocation's.
        marks: by name, share and variance of three allocations.
    """
    figure, ax = plt.subplots()
    axis = {
        "xlabel": "draws of the first stratum (% of all)",
        "ylabel": "variance (proportional: 1)",
    }
    line = {"": pd.Series(variance, 100 * shares)}
    plots.curves(ax, line, {"": Style(plots.BLACK)}, names=False, width=1.5, **axis)
    styles = {
        "proportional": (Style(plots.GREY, marker="o"), {"up": -9, "right": 5}),
        "standard deviations": (
            Style(plots.CORRECTED, marker="s"),
            {"up": -14, "right": 0, "ha": "center"},
        ),
        "variances, as written": (Style(plots.WRITTEN, marker="^"), {"up": 8}),
    }
    for name, (share, value) in marks.items():
        style, where = styles[name]
        ax.plot(100 * share, value, style.marker, color=style.colour, ms=9)
        plots.annotate(ax, 100 * share, value, name, style.colour, **where)
    ax.axhline(1, color=plots.GREY, ls=":", lw=1)
    ax.set(xlim=(0, 70), ylim=(0.65, 1.6))
    return figure


def draw_order(variances: dict[str, float], squared_bias: float) -> Figure:
    """Draw a bar for the variance of each design, in multiples of that without strata.

    Args:
        variances: by the design's name.
        squared_bias: of the plain mean, the design `as written`, in the same unit; it is hatched.
    """
    colours = {
        "no strata": plots.GREY,
        "strata, proportional": plots.ORANGE,
        "strata, Neyman": "#7A5C1E",
        "as written": plots.WRITTEN,
        "corrected, norms of the first": "#66C2A5",
        "corrected, squeezed": plots.CORRECTED,
        "corrected, norms of the updates": "#00543D",
    }
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 4.4))
    for row, (name, value) in enumerate(variances.items()):
        colour = next(c for key, c in colours.items() if name.startswith(key))
        bias = squared_bias if name.startswith("as written") else 0.0
        ax.barh(-row, 100 * value, color=colour, height=0.4)
        hatched = {"color": "none", "edgecolor": colour, "hatch": "/////", "height": 0.4}
        ax.barh(-row, 100 * bias, left=100 * value, **hatched)
        plots.annotate(ax, 0, -row + 0.37, name, plots.BLACK, right=1)
        plots.annotate(ax, 100 * (value + bias), -row, f"{100 * value:.0f} %", plots.BLACK, right=3)
    ax.set(
        xlabel="variance of a cohort (% of no strata)", yticks=[], ylim=(0.4 - len(variances), 0.7)
    )
    ax.grid(axis="y", visible=False)
    return figure


def select_whole_allocations(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ledger's cases of whole allocations, in the columns that a page has room for."""
    columns = frame[["N_h", "S_h", "m", "eq. 3.5", "rounded", "best whole draws"]]
    return columns.rename(columns={"N_h": "clients", "S_h": "spreads", "m": "draws"})


def select_combined_cases(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ledger's cases of stratification and importance sampling together, in the page's words."""
    names = {"m V(sts)": "as written", "m V(corrected)": "corrected", "m V(rand)": "no strata"}
    return frame[["updates", "strata", *names]].rename(columns=names)
