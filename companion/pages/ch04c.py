"""Figures and tables of chapter 4c, *The size estimator*."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from fedstas import privacy, theory

CLIPPED, WHOLE = plots.PINK, plots.BLACK  # sizes above the cap, and below it
LEVELS = {2: 1e5, 5: 1e5, 10: 1e5, 30: 1e5, 70: 2e3}  # per cent, and where a line is named
SETTINGS = {  # by the chapter's names: short words, colour and dash
    "clipped": ("clipped, a tenth requested", CLIPPED, "-"),
    "clipped, 600": ("clipped, 600 requested", CLIPPED, "--"),
    "whole": ("not clipped, a tenth", WHOLE, "-"),
}

CLAIMS = {  # by the names of their evidence
    "estimator": "journal, eq. 5.7 (preprint, eq. 8): it estimates the participants' total size",
    "slides_estimator": "slides: the estimate is unbiased",
    "asymptotic_unbiasedness": "journal, before Lemma 2: the ratio is asymptotically unbiased",
    "lemma2": "journal, Lemma 2, eq. 6.8 (preprint, Lemma 2.2): the error of the rate vanishes",
    "slides_lemma1": "slides, Lemma 1: the limit of that error is below a limit of 0",
    "rate_is_a_probability": "journal, Section 5.2: examples are drawn with probability n*/ñ",
    "request_of_the_ratio": "preprint, Section 3.1: q = 0.1 determines the requested size, 2048",
    "slides_fixed_ratio": "slides: a fixed sampling ratio leaks or biases",
}


def verdicts(decided: dict) -> pd.DataFrame:
    """The verdict of each claim, in words."""
    words = {"holds": "holds", "holds-if": "holds on a condition", "fails": "fails"}
    rows = [(claim, words[decided[name].verdict]) for name, claim in CLAIMS.items()]
    return pd.DataFrame(rows, columns=["claim", "verdict"])


def error_of_the_rate(counts, errors: dict, relative: dict, limit: float, falls: float) -> Figure:
    """Mean squared error of the rate over participants, above as it is and below relative to the rate."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.4), sharex=True)
    for ax, curves, scale in zip(axes, (errors, relative), (1, 100), strict=True):
        for name, values in curves.items():
            _, colour, dash = SETTINGS[name]
            ax.loglog(counts, values, color=colour, ls=dash, lw=2)
        ax.axhline(scale * limit, color=plots.GREY, ls=":", lw=1.2)
    axes[0].loglog(counts, falls / counts, color=plots.GREY, ls=":", lw=1.2)
    for name, (x, y) in {
        "clipped": (40, 2),
        "clipped, 600": (500, 3.2e-3),
        "whole": (3, 4e-5),
    }.items():
        words, colour, _ = SETTINGS[name]
        plots.annotate(axes[0], x, y, words, colour, 0)
    plots.annotate(axes[1], 120, 70, "clipped, either request", CLIPPED, 0)
    plots.annotate(axes[1], 3, 0.03, "not clipped", WHOLE, 0)
    axes[0].set(xlim=(2, 5e4), ylim=(1e-6, 9), ylabel="mean squared error\nof the rate")
    axes[1].set(xlabel="participants", ylabel="the same, relative\nto the rate squared")
    return figure


def useful(many, epsilons, least, chosen, size: int) -> Figure:
    """Lines of equal error (per cent of the total) over the number of reports and epsilon."""
    figure, ax = plt.subplots(figsize=(4.2, 3.6))
    ax.contour(many, epsilons, 100 * least, list(LEVELS), colors="#555555", linewidths=1.5)
    for level, x in LEVELS.items():
        column = 100 * least[:, np.abs(many - x).argmin()]  # falls with epsilon
        y = float(np.interp(-level, -column, epsilons))
        plots.annotate(ax, x, y, f"{level} %", "#555555", 4, 0 if x > 1e4 else 5)
    ax.contour(many, epsilons, chosen, [size + 0.5], colors=plots.PINK, linestyles="--")
    plots.annotate(ax, 1000, 10.6, "nobody clipped", plots.PINK, 0)
    for words, x, y, colour in (
        ("paper: 10", 10, 3.8, plots.WRITTEN),
        ("as coded:\n100", 100, 2.5, plots.CODED),
    ):
        ax.plot(x, 3, "o", color=colour, ms=8, clip_on=False, zorder=5)
        plots.annotate(ax, x, y, words, colour, 8)
    ax.set(xscale="log", yscale="log", xlabel="number of reports", ylabel="ε of one report")
    ax.set_yticks([0.5, 1, 2, 3, 5, 10], ["0.5", "1", "2", "3", "5", "10"])
    ax.minorticks_off()
    return figure


def own(m: int, size_cap: int, epsilon: float, n_star: int, size: int = 600) -> pd.DataFrame:
    """Estimate and rate for m clients of one size in a setting of the reader's."""
    alpha = privacy.truth_probability(epsilon, size_cap)
    values, chances = theory.size_estimator_distribution([size] * m, size_cap, alpha)
    rate = theory.estimated_rate([size] * m, size_cap, alpha, n_star)
    mean = float(values @ chances)
    row = {
        "reports": m,
        "M": size_cap,
        "ε": f"{epsilon:g}",
        "total": f"{size * m:,}",
        "mean estimate": f"{mean:,.0f}",
        "standard deviation": f"{np.sqrt((values - mean) ** 2 @ chances):,.0f}",
        "chance of 0 or less": f"{chances[values <= 0].sum():.4f}",
        "requested": f"{n_star:,}",
        "right rate": f"{n_star / (size * m):.4f}",
        "mean rate": f"{rate.mean:.4f}",
    }
    return pd.DataFrame([row])


def examples(moments: dict[str, tuple[float, float, float]]) -> pd.DataFrame:
    """Per way to set the rate: its mean, and mean and standard deviation of the examples of a round."""
    rows = [
        (words, f"{rate:.3f}", f"{mean:.0f}", f"{sd:.0f}")
        for words, (rate, mean, sd) in moments.items()
    ]
    columns = ["rate", "mean rate", "mean examples", "standard deviation"]
    return pd.DataFrame(rows, columns=columns)
