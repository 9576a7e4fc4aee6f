"""Figures and tables of chapter 4a, *Unbiasedness: is the cohort's mean right?*"""

from __future__ import annotations

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import Style

STYLES = {  # by the chapter's names of the designs
    "as written": Style(plots.WRITTEN),
    "as coded": Style(plots.CODED),
    "Hansen–Hurwitz": Style(plots.CORRECTED),
    "Horvitz–Thompson": Style(plots.CORRECTED, "--"),
}


def tabulate_moments(moments: dict[str, tuple[Fraction, Fraction]]) -> pd.DataFrame:
    """Return the mean and the variance of each estimator, exactly and as a decimal."""
    rows = [
        {
            "estimator": name,
            "mean": str(mean) if mean.denominator == 1 else f"{mean} = {float(mean):.2f}",
            "variance": f"{float(v):.2f}",
        }
        for name, (mean, v) in moments.items()
    ]
    return pd.DataFrame(rows)


def fractions_to_decimals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of evidence with its fractions as decimals."""
    return frame.map(lambda x: f"{float(Fraction(x)):,.1f}" if "/" in str(x) else str(x))


def draw_averaging(bias: dict[str, float], noise: dict[str, float]) -> Figure:
    """Draw the error of the mean of many cohorts, a curve for each design, and each bias as a dotted line.

    Args:
        bias: by design, the distance of the expected update from the full one, in lengths of the latter.
        noise: by design, the standard deviation of one cohort's update, in the same unit.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.2))
    cohorts = np.logspace(0, 5, 80)
    errors = {n: np.sqrt(bias[n] ** 2 + noise[n] ** 2 / cohorts) for n in STYLES}
    lines = {name: pd.Series(error, cohorts) for name, error in errors.items()}
    axis = {"xscale": "log", "yscale": "log", "xlabel": "cohorts averaged"}
    axis["ylabel"] = "error of the mean\n(lengths of the full update)"
    plots.curves(ax, lines, STYLES, **axis)
    for name, style in STYLES.items():
        if bias[name] > 1e-9:
            ax.axhline(bias[name], color=style.colour, ls=":", lw=1)
    ax.set_xticks(10.0 ** np.arange(6))
    return figure


def tabulate_errors(moments: dict[str, tuple[dict, dict]]) -> pd.DataFrame:
    """Return the bias and the error of one cohort of each design.

    Args:
        moments: by target, the bias and the noise of each design; the first target needs no name.
    """
    rows = []
    for name in STYLES:
        row = {"design": name}
        for place, (target, (bias, noise)) in enumerate(moments.items()):
            suffix = f" {target}" if place else ""
            row[f"bias{suffix}"] = f"{100 * bias[name]:.0f}\u00a0%"
            row[f"error{suffix}"] = f"{100 * np.hypot(bias[name], noise[name]):.0f}\u00a0%"
        rows.append(row)
    return pd.DataFrame(rows)
