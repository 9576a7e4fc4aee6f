"""Figures and tables of chapter 4b, *Variance: which design is less noisy?*"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots


def one_draw(moments: Callable, cases, by: str = "updates") -> pd.DataFrame:
    """Of some strata (updates, norms): the variances of one draw, as `moments` computes them; `by` names the rows."""
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


def allocation(shares: np.ndarray, variance: np.ndarray, marks: dict) -> Figure:
    """Variance over the first stratum's share of seats; `marks` are its points by name: (share, variance)."""
    figure, ax = plt.subplots()
    ax.plot(100 * shares, variance, color=plots.BLACK, lw=1.5)
    looks = {
        "proportional": (plots.GREY, "o", {"up": -9, "right": 5}),
        "standard deviations": (plots.CORRECTED, "s", {"ha": "center", "up": -14, "right": 0}),
        "variances, as written": (plots.WRITTEN, "^", {"up": 8}),
    }
    for name, (at, value) in marks.items():
        colour, marker, where = looks[name]
        ax.plot(100 * at, value, marker, color=colour, ms=9)
        plots.annotate(ax, 100 * at, value, name, colour, **where)
    ax.axhline(1, color=plots.GREY, ls=":", lw=1)
    ax.set(xlabel="seats of the first stratum (% of all)", ylabel="variance (proportional: 1)")
    ax.set(xlim=(0, 70), ylim=(0.65, 1.6))
    return figure


def order(found: dict[str, float], squared_bias: float) -> Figure:
    """A bar per design, of the variance in percent of that without strata; the plain mean's squared bias hatched."""
    looks = {"no strata": plots.GREY, "strata": plots.ORANGE, "as written": plots.WRITTEN}
    figure, ax = plt.subplots(figsize=(4.2, 4.4))
    for place, (name, value) in enumerate(found.items()):
        colour = next((c for key, c in looks.items() if name.startswith(key)), plots.CORRECTED)
        ax.barh(-place, 100 * value, color=colour, height=0.4)
        end = value
        if name.startswith("as written"):
            end += squared_bias
            ax.barh(
                -place,
                100 * squared_bias,
                left=100 * value,
                color="none",
                edgecolor=colour,
                hatch="/////",
                height=0.4,
            )
        plots.annotate(ax, 0, -place + 0.37, name, plots.BLACK, right=1)
        plots.annotate(ax, 100 * end, -place, f"{100 * value:.0f} %", plots.BLACK, right=3)
    ax.set(xlabel="variance of a cohort (% of no strata)", yticks=[], ylim=(0.4 - len(found), 0.7))
    ax.set_xlim(0, 112 * max(*found.values(), found_end(found, squared_bias)))
    ax.grid(axis="y", visible=False)
    return figure


def found_end(found: dict[str, float], squared_bias: float) -> float:
    """Where the bar of the plain mean ends."""
    return squared_bias + max(v for name, v in found.items() if name.startswith("as written"))


def seats(frame: pd.DataFrame) -> pd.DataFrame:
    """The ledger's cases of whole seats, in the columns that a page has room for."""
    shown = frame[["N_h", "S_h", "m", "eq. 3.5", "rounded", "best whole seats"]]
    return shown.rename(columns={"N_h": "clients", "S_h": "spreads", "m": "draws"})


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """The ledger's cases of the whole chain, in the page's words."""
    names = {"m V(sts)": "as written", "m V(corrected)": "corrected", "m V(rand)": "no strata"}
    return frame[["updates", "strata", *names]].rename(columns=names)
