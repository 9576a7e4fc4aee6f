"""Figures and tables of chapter 4a, *Unbiasedness: is the cohort's mean right?*"""

from __future__ import annotations

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots

LOOKS = {  # by the chapter's names
    "as written": (plots.WRITTEN, "-"),
    "as coded": (plots.CODED, "-"),
    "Hansen–Hurwitz": (plots.CORRECTED, "-"),
    "Horvitz–Thompson": (plots.CORRECTED, "--"),
}


def listed(moments: dict[str, tuple[Fraction, Fraction]]) -> pd.DataFrame:
    """Mean and variance of each estimator, exactly and as a decimal."""
    rows = [
        {
            "estimator": name,
            "mean": str(mean) if mean.denominator == 1 else f"{mean} = {float(mean):.2f}",
            "variance": f"{float(v):.2f}",
        }
        for name, (mean, v) in moments.items()
    ]
    return pd.DataFrame(rows)


def decimals(frame: pd.DataFrame) -> pd.DataFrame:
    """Fractions of a table of evidence as decimals."""
    return frame.map(lambda x: f"{float(Fraction(x)):,.1f}" if "/" in str(x) else str(x))


def averaging(bias: dict[str, float], noise: dict[str, float]) -> Figure:
    """Error of the mean of many cohorts, a line per design, and each bias as a dotted line."""
    figure, ax = plt.subplots(figsize=(4.2, 3.2))
    many = np.logspace(0, 5, 80)
    for name, (colour, dash) in LOOKS.items():
        ax.loglog(
            many, np.sqrt(bias[name] ** 2 + noise[name] ** 2 / many), color=colour, ls=dash, lw=2
        )
        if bias[name] > 1e-9:
            ax.plot([1, many[-1]], [bias[name]] * 2, color=colour, ls=":", lw=1)
            plots.annotate(ax, many[-1], bias[name], name, colour)
    end = noise["Hansen–Hurwitz"] / np.sqrt(many[-1])
    plots.annotate(ax, many[-1], end, "Hansen–Hurwitz,\nHorvitz–Thompson", plots.CORRECTED, up=8)
    ax.set(xlabel="cohorts averaged", ylabel="error of the mean\n(lengths of the full update)")
    ax.set_xlim(1, 300 * many[-1])  # room for the names
    ax.set_xticks(10.0 ** np.arange(6))
    return figure


def table(found: dict[str, tuple[dict, dict]]) -> pd.DataFrame:
    """Per design bias and error of one cohort, for each target's (bias, noise); the first needs no name."""
    rows = []
    for name in LOOKS:
        row = {"design": name}
        for place, (target, (bias, noise)) in enumerate(found.items()):
            of = f" {target}" if place else ""
            row[f"bias{of}"] = f"{100 * bias[name]:.0f}\u00a0%"
            row[f"error{of}"] = f"{100 * np.hypot(bias[name], noise[name]):.0f}\u00a0%"
        rows.append(row)
    return pd.DataFrame(rows)
