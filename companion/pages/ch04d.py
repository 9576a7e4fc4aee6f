"""Figures of chapter 4d, *Data sampling*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.ticker import NullFormatter

from companion.claims.evidence import covariances, pooling
from companion.pages import plots
from companion.pages.plots import AMBER, Style
from fedstas.theory import covariances as cov

CLAIMS = {  # of the page: the functions that decide them
    "lemma3": covariances.lemma_3,
    "lemma4": covariances.lemma_4,
    "theorem3": covariances.theorem_3,
    "stable": covariances.more_stable_updates,
    "larger": pooling.larger_clients,
    "total": pooling.requested_total,
    "uniform": pooling.uniform_over_participants,
    "unbiased": pooling.unbiased_data_sampling,
    "mimic": pooling.mimics_centralised,
}
DESIGNS = {  # of data sampling, by the names of the readings
    "fixed": Style(plots.BLACK, label="a fixed number"),
    "bernoulli": Style(plots.PINK, "--", label="coins"),
    "again": Style(plots.GREY, ":", label="with replacement"),
}


def draw_validity(sizes=(6, 60, 600), m: int = 10) -> Figure:
    """Draw for which samples and requests eq. 6.11 is a covariance, a panel for each size of m equal clients.

    The sample n̄ of one client is on the horizontal axis, the requested sample n* of the round on the vertical one.
    """
    figure, axes = plt.subplots(len(sizes), 1, figsize=(4.2, 7.2))
    for ax, n_k in zip(axes, sizes, strict=True):
        n, size = m * n_k, np.geomspace(1, n_k, 241)
        # Up to the first request eq. 6.11 is a covariance (`covariances.largest_request`). Above the second its factor
        # 1 - n*(n̄ - 1)/(n - 1) is negative, whatever the gradients.
        largest_request = n * (n - 1) / (n * (size - 1) + n_k * (n - size))
        negative_from = np.minimum(n, (n - 1) / np.maximum(size - 1, 1e-9))
        largest_request = np.minimum(largest_request, negative_from)
        ax.fill_between(size, largest_request, negative_from, color=plots.GREY, alpha=0.25, lw=0)
        ax.fill_between(size, negative_from, n, color=plots.GREY, alpha=0.6, lw=0)
        ax.plot(size, m * size, color=plots.WRITTEN, lw=2)
        ax.set(xscale="log", yscale="log", xlim=(1, n_k), ylim=(1, n))
        ax.set_title(f"{m} clients of {n_k} examples", loc="left")
        ax.xaxis.set_minor_formatter(NullFormatter())
        if n_k < 10:
            ax.set_xticks([1, 2, 3, n_k], ["1", "2", "3", f"{n_k}"])
        ax.grid(visible=False)
    last = axes[-1]  # with clients of 600 examples, as in the settings
    for name, (_, _, request, size) in covariances.SETTINGS.items():
        last.plot(size, request, "o", color=plots.BLACK, ms=6)
        label, _, _ = name.partition(" (")
        plots.annotate(last, size, request, label, plots.BLACK, -5, 7, ha="right")
    plots.annotate(last, 1.2, 3, "a covariance", plots.BLACK, 0)
    plots.annotate(last, 1.1, 800, "negative for\nequal gradients", plots.BLACK, 0)
    plots.annotate(last, 560, 60, "negative for\nall gradients", plots.BLACK, 0, ha="right")
    plots.annotate(last, 9, 35, "the paper's rule", plots.WRITTEN, 0)
    axes[-1].set_xlabel("sample of one client (examples)")
    axes[1].set_ylabel("requested sample of the round (examples)")
    return figure


def draw_ellipses() -> Figure:
    """Draw one standard deviation of the step for four gradients, and for the same plus (2, 1)."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 4.8), sharex=True)
    moves = {"the four gradients": 0, "the same, each plus (2, 1)": np.array([2, 1], dtype=object)}
    for ax, (title, move) in zip(axes, moves.items(), strict=True):
        for reading, style in DESIGNS.items():
            _, form = cov.reading_form(reading, n_k=4, n=8, n_star=4, size=2)
            values, vectors = np.linalg.eigh(form.at(covariances.EXAMPLE + move).astype(float))
            angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
            wide, high = 2 * np.sqrt(values[::-1])
            how = {"fill": False, "color": style.colour, "ls": style.dash, "lw": 2}
            ax.add_patch(Ellipse((0, 0), wide, high, angle=angle, **how))
        ax.set(xlim=(-2.6, 4.4), ylim=(-1.6, 1.6), aspect="equal", ylabel="second coordinate")
        ax.set_title(title, loc="left")
        for style, y in zip(DESIGNS.values(), (0.8, 0.5, 0.2), strict=True):  # between grid lines
            plots.annotate(ax, 2.3, y, style.label, style.colour, 0)
    axes[1].set_xlabel("step, first coordinate")
    return figure


def draw_variance_ratios(counts, ratios: dict[str, np.ndarray]) -> Figure:
    """Draw the variance of Poisson sampling over that of a fixed sample size for each client.

    Args:
        counts: examples of the clients [N].
        ratios: of the clients [N], `before` and `after` training.
    """
    figure, ax = plt.subplots(figsize=(4.2, 3.2))
    for when, colour, mark in (("before", AMBER, "o"), ("after", plots.BLACK, "^")):
        ax.plot(counts, ratios[when], mark, color=colour, ms=5)
    ax.axhline(1, color=plots.GREY, lw=1, ls=":")
    top = max(values.max() for values in ratios.values())
    ax.set(xscale="log", ylim=(0, 1.25 * top), xlabel="examples of the client")
    ax.set_ylabel("variance of coins\n(1: as a fixed number)")
    for text, colour, y in (
        ("● before training", AMBER, 1.17),
        ("▲ after training", plots.BLACK, 1.05),
    ):
        plots.annotate(ax, counts.min(), y * top, text, colour, 0)
    return figure
