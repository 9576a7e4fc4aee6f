"""The drawing, the small pictures and the tables of the page *Does the theory hold?*"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.pages import formulas, plots


def _tabulate_statements(rows: pd.DataFrame) -> str:
    """Return the statements of one paper with their verdicts, each linked to the part that decides it."""
    pages = [f"{row.link.split('#')[0]}.ipynb" for row in rows.itertuples()]
    places = map(formulas.set_formulas, rows["place"])
    columns = {
        "place": [f"[{place}]({page})" for place, page in zip(places, pages, strict=True)],
        "what it says": map(formulas.set_formulas, rows["statement"]),
        "verdict": [f"[{word}]{{.verdict-chip .verdict-{word}}}" for word in rows["verdict"]],
    }
    return pd.DataFrame(columns).to_markdown(index=False, disable_numparse=True)


def list_statements(decided: pd.DataFrame):
    """Return all statements as Markdown, a folded box for each paper; that of the journal version is open."""
    from IPython.display import Markdown

    boxes = []
    for paper, title in ledger.PAPERS.items():
        rows = decided[decided["paper"] == paper]
        if len(rows):
            counts = ledger.count_verdicts(rows["verdict"]).items()
            title += ": " + ", ".join(f"{count} {word}" for word, count in counts)
            option = ":open:\n" if paper == "journal" else ""
            text = _tabulate_statements(rows)
            boxes.append(f"::::{{dropdown}} {title}\n{option}\n{text}\n::::\n")
    return Markdown("\n".join(boxes))


VERDICTS = {"holds": "holds", "holds-if": "holds on a condition", "fails": "fails"}


def tabulate_verdicts(claims: dict[str, str], decided: dict) -> pd.DataFrame:
    """Return each claim with its verdict in words.

    Args:
        claims: what each claim says, by the name of its evidence.
        decided: the evidence, by the same names.
    """
    rows = [(claim, VERDICTS[decided[name].verdict]) for name, claim in claims.items()]
    return pd.DataFrame(rows, columns=["claim", "verdict"])


# The drawing: every statement with its verdict and what decides it

MARKERS = {  # by verdict: marker, fill and colour
    "holds": ("o", "full", plots.BLACK),
    "holds-if": ("o", "left", plots.BLACK),
    "fails": ("X", "full", plots.PURPLE),
}


class Statement(NamedTuple):
    """A row of the drawing: a statement's name, what it promises, its verdict, and the case or condition beside it."""

    name: str
    promise: str
    verdict: str
    beside: str


def draw_statements(statements: Sequence[Statement]) -> Figure:
    """Draw a row for each statement: a mark for its verdict, its name and promise, and below them what decides it."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 0.46 * len(statements) + 0.1))
    for row, (name, promise, verdict, beside) in enumerate(statements):
        marker, fill, colour = MARKERS[verdict]
        face = {"mfc": colour, "mfcalt": "none", "mec": colour}
        ax.plot(0, -row, marker, ms=10, fillstyle=fill, **face)
        plots.annotate(ax, 0, -row, f"{name}: {promise}", plots.BLACK, 12, 6, fontsize=8.5)
        words = f"{VERDICTS[verdict]}: {beside}"
        plots.annotate(ax, 0, -row, words, colour, 12, -6, fontsize=8)
    ax.set(xlim=(-0.05, 1), ylim=(0.6 - len(statements), 0.6))
    ax.axis("off")
    return figure


# A picture for each claim


def draw_two_clients(chances: Sequence[float], expected: float) -> Figure:
    """Draw two clients at their updates 0 and 1, of areas in proportion to their chances, their mean, and what a draw expects."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 1.5))
    ax.axhline(0, color=plots.GREY, lw=1)
    for update, chance in enumerate(chances):
        ax.scatter(update, 0, s=1500 * chance, color=plots.WRITTEN, alpha=0.85, zorder=2)
        label = f"update {update}\nchance {chance:.2f}"
        plots.annotate(ax, update, 0, label, plots.WRITTEN, 0, -34, ha="center", fontsize=8)
    marks = {"mean of both": (0.5, plots.BLACK), "a draw expects": (expected, plots.WRITTEN)}
    for words, (x, colour) in marks.items():
        side = "right" if x <= 0.5 else "left"
        ax.plot([x, x], [0, 0.5], color=colour, lw=2, zorder=3)
        shift = -2 if side == "right" else 2
        plots.annotate(ax, x, 0.62, f"{words}: {x:.2f}", colour, shift, 6, ha=side)
    ax.set(xlim=(-0.4, 1.4), ylim=(-1.1, 1))
    ax.axis("off")
    return figure


def draw_variances(panels: dict[str, dict[str, float]], colours: dict[str, str]) -> Figure:
    """Draw a bar for each variance, a panel for each case.

    Args:
        panels: by title, the variances by the design's name.
        colours: of the designs.
    """
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(plots.WIDTH, 1.55 * len(panels)), squeeze=False
    )
    for ax, (title, variances) in zip(axes[:, 0], panels.items(), strict=True):
        ax.set_title(title, loc="left", x=-0.55, fontsize=9)
        for row, (name, value) in enumerate(variances.items()):
            ax.barh(-row, value, color=colours[name], height=0.6)
            plots.annotate(ax, value, -row, f"{value:.2f}", plots.BLACK, 4)
        ax.set_yticks([-row for row in range(len(variances))], list(variances))
        ax.set(xlim=(0, 1.15 * max(variances.values())), xticks=[])
        ax.grid(visible=False)
    axes[-1, 0].set_xlabel("variance")
    return figure


def draw_estimate(estimate: np.ndarray, law: np.ndarray, truth: float) -> Figure:
    """Draw the distribution of the estimated total, its part at or below zero darker, and a line at the true total."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.0))
    per_example = law / (estimate[1] - estimate[0])
    for part, alpha in ((estimate > 0, 0.35), (estimate <= 0, 0.9)):
        ax.fill_between(estimate[part], per_example[part], color=plots.WRITTEN, alpha=alpha, lw=0)
    top = per_example.max()
    plots.annotate(ax, 1000 + estimate @ law, 0.6 * top, "estimates", plots.WRITTEN, 4)
    ax.axvline(truth, color=plots.BLACK)
    plots.annotate(ax, truth, 0.9 * top, "true total", plots.BLACK, -4, ha="right")
    edges = estimate[per_example > 1e-3 * top]
    ax.set(xlim=(edges[0], 1.05 * max(truth, edges[-1])), ylim=(0, None), yticks=[])
    ax.set_xlabel("estimated number of examples of ten clients")
    return figure


def draw_privacy_loss(one: float, relaxed: dict[int, float]) -> Figure:
    """Draw the epsilon that a client has spent over its number of reports: fresh ones, the same at delta, one for good."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.2))
    most = max(relaxed)
    lines = {
        "fresh reports": pd.Series([one, most * one], [1, most]),
        "fresh, δ = 10⁻⁵": pd.Series(relaxed),
        "one, remembered": pd.Series([one, one], [1, most]),
    }
    styles = {
        "fresh reports": plots.Style(plots.WRITTEN),
        "fresh, δ = 10⁻⁵": plots.Style(plots.WRITTEN, "--"),
        "one, remembered": plots.Style(plots.CORRECTED),
    }
    axis = {"xlabel": "reports of one client", "ylabel": "epsilon spent", "ylim": (-12, None)}
    plots.curves(ax, lines, styles, **axis)
    return figure


def draw_path(path: Sequence[float], optimum: float) -> Figure:
    """Draw the model over the rounds of expected steps drawn by norm, and a line at the optimum."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.0))
    line = pd.Series(path, np.arange(len(path)))
    lines, styles = {"drawn by norm": line}, {"drawn by norm": plots.Style(plots.WRITTEN)}
    axis = {"xlabel": "round", "ylabel": "model", "ylim": (0.25, 0.95)}
    ax.axhline(optimum, color=plots.BLACK, lw=1)
    plots.curves(ax, lines, styles, **axis)
    plots.annotate(ax, len(path) - 1, optimum, f"optimum: {optimum:.3f}", plots.BLACK)
    return figure


def draw_counts(counts: dict[str, int], most: int, colours: Sequence[str]) -> Figure:
    """Draw a bar for how many of `most` cases are right."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 1.2))
    for row, count in enumerate(counts.values()):
        ax.barh(-row, count, color=colours[row], height=0.55)
        plots.annotate(ax, count, -row, f"{count}", plots.BLACK, 4)
    ax.set_yticks([-row for row in range(len(counts))], list(counts))
    ax.set(xlim=(0, 1.12 * most), xlabel=f"of {most} random federations")
    ax.grid(axis="y", visible=False)
    return figure
