"""Figures and tables of chapter 4c, *The size estimator*."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.plots import Style
from fedstas import privacy, theory

CLIPPED, NOT_CLIPPED = plots.PINK, plots.BLACK  # sizes above the cap, and below it
ERROR_LEVELS = {2: 1e5, 5: 1e5, 10: 1e5, 30: 1e5, 70: 2e3}  # per cent, and where a line is named
SETTINGS = {  # by the chapter's names
    "clipped": Style(CLIPPED, label="clipped, a tenth requested"),
    "clipped, 600": Style(CLIPPED, "--", label="clipped, 600 requested"),
    "whole": Style(NOT_CLIPPED, label="not clipped, a tenth"),
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


def draw_rate_error(counts, errors: dict, relative: dict, limit: float, falls: float) -> Figure:
    """Draw the mean squared error of the sampling rate over participants, above as it is, below relative to the rate.

    Args:
        counts: numbers of participants.
        errors, relative: over the counts, by the names of SETTINGS.
        limit: of the error, a dotted line.
        falls: factor of the dotted line that falls as 1/m.
    """
    figure, axes = plt.subplots(2, 1, figsize=(plots.WIDTH, 5.4), sharex=True)
    for ax, lines, scale in zip(axes, (errors, relative), (1, 100), strict=True):
        frame = pd.DataFrame(lines, counts)
        plots.curves(ax, frame, SETTINGS, names=False, xscale="log", yscale="log")
        ax.axhline(scale * limit, color=plots.GREY, ls=":", lw=1.2)
    axes[0].loglog(counts, falls / counts, color=plots.GREY, ls=":", lw=1.2)
    places = {"clipped": (40, 2), "clipped, 600": (500, 3.2e-3), "whole": (3, 4e-5)}
    for name, (x, y) in places.items():
        plots.annotate(axes[0], x, y, SETTINGS[name].label, SETTINGS[name].colour, 0)
    plots.annotate(axes[1], 120, 70, "clipped, either request", CLIPPED, 0)
    plots.annotate(axes[1], 3, 0.03, "not clipped", NOT_CLIPPED, 0)
    axes[0].set(xlim=(2, 5e4), ylim=(1e-6, 9), ylabel="mean squared error\nof the rate")
    axes[1].set(xlabel="participants", ylabel="the same, relative\nto the rate squared")
    return figure


def draw_equal_errors(counts, epsilons, least, best_cap, size: int) -> Figure:
    """Draw lines of equal error (% of the total) over the number of reports and epsilon.

    Args:
        least: error at the best cap [epsilons, counts], as a share of the total.
        best_cap: the cap that has it [epsilons, counts].
        size: examples of each client.
    """
    figure, ax = plt.subplots(figsize=(4.2, 3.6))
    ax.contour(counts, epsilons, 100 * least, list(ERROR_LEVELS), colors="#555555", linewidths=1.5)
    for level, x in ERROR_LEVELS.items():
        column = 100 * least[:, np.abs(counts - x).argmin()]  # falls with epsilon
        y = float(np.interp(-level, -column, epsilons))
        plots.annotate(ax, x, y, f"{level} %", "#555555", 4, 0 if x > 1e4 else 5)
    ax.contour(counts, epsilons, best_cap, [size + 0.5], colors=plots.PINK, linestyles="--")
    plots.annotate(ax, 1000, 10.6, "nobody clipped", plots.PINK, 0)
    for text, x, y, colour in (
        ("paper: 10", 10, 3.8, plots.WRITTEN),
        ("as coded:\n100", 100, 2.5, plots.CODED),
    ):
        ax.plot(x, 3, "o", color=colour, ms=8, clip_on=False, zorder=5)
        plots.annotate(ax, x, y, text, colour, 8)
    ax.set(xscale="log", yscale="log", xlabel="number of reports", ylabel="ε of one report")
    ax.set_yticks([0.5, 1, 2, 3, 5, 10], ["0.5", "1", "2", "3", "5", "10"])
    ax.minorticks_off()
    return figure


def tabulate_setting(
    m: int, size_cap: int, epsilon: float, n_star: int, size: int = 600
) -> pd.DataFrame:
    """Return the estimate and the rate for m clients of one size in the reader's setting."""
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


def tabulate_examples(moments: dict[str, tuple[float, float, float]]) -> pd.DataFrame:
    """Return the mean rate, and mean and standard deviation of a round's examples, for each way to set the rate."""
    rows = [
        (name, f"{rate:.3f}", f"{mean:.0f}", f"{sd:.0f}")
        for name, (rate, mean, sd) in moments.items()
    ]
    columns = ["rate", "mean rate", "mean examples", "standard deviation"]
    return pd.DataFrame(rows, columns=columns)
