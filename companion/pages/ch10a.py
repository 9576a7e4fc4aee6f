"""Figures and texts of the page *Use it on your own data*."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import Markdown
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import leaderboard, records, tables

MAX_LINES = 40  # of a file on the page


def show_file(spec: str) -> Markdown:
    """Show the text of the file that a parameter names; for an array, that of the script beside it."""
    file = Path(re.sub(r"\.npy$", ".py", re.sub(r":\w+$", "", spec)))
    lines = file.read_text().strip().split("\n") if file.is_file() else [f"# {spec}"]
    text = "\n".join([*lines[:MAX_LINES], "..."] if len(lines) > MAX_LINES else lines)
    return Markdown(f"```python\n{text}\n```")


def draw_class_counts(counts: np.ndarray) -> Figure:
    """Draw label counts [N, C] as stacked bars, a bar per client, sorted by the largest class."""
    figure, ax = plt.subplots(figsize=(4.2, 2.8))
    counts = counts[np.lexsort((-counts.max(1), counts.argmax(1)))]
    at, bottom = np.arange(1, len(counts) + 1), np.zeros(len(counts))
    palette = sns.color_palette("colorblind", counts.shape[1])
    for c, (count, colour) in enumerate(zip(counts.T, palette, strict=True)):
        ax.bar(at, count, 1.0, bottom=bottom, color=colour, label=str(c), lw=0)
        bottom += count
    ax.set(xlabel="client, sorted by its largest class", ylabel="examples")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(x=0)
    ax.grid(axis="x", visible=False)
    ax.legend(title="class", frameon=False, ncols=1 + counts.shape[1] // 6)
    return figure


def load_runs(runs: list, folder: str) -> tuple[pd.DataFrame, dict]:
    """Load the curves of these runs, and their identities by run; the folder may hold other runs, too."""
    keys = {tables.run_key(run) for run in runs}
    identities = {
        run: identity
        for run, identity in records.identities(folder).items()
        if tables.record_key(identity) in keys
    }
    frame = records.load(folder)
    return frame[frame["run"].isin(identities)], identities


def show_leaderboard(identities: dict, folder: str) -> Markdown:
    """Show the leaderboard of the setting of these runs."""
    ranking = leaderboard.rank_methods([folder])
    title = leaderboard.describe_setting(next(iter(identities.values())))
    return Markdown(
        leaderboard.format_markdown(ranking[ranking["federation"].str.startswith(title)])
    )


def draw_curves(frame: pd.DataFrame) -> Figure:
    """Draw accuracy on the test set over rounds: means, and thin lines for single seeds; a user's design is dashed."""
    figure, ax = plt.subplots(figsize=(4.2, 3.2))
    plots.learning_curves(ax, frame, "test_accuracy", seeds=True, names=False)
    means = [line for line in ax.lines if line.get_gid() in set(frame["method"])]
    for line in means:
        if line.get_gid() not in plots.METHODS:
            line.set_linestyle("--")
    ax.set_ylabel("accuracy on the test set (%)")
    figure.legend(
        means,
        [line.get_gid() for line in means],
        loc="outside upper center",
        ncols=1,
        frameon=False,
    )
    return figure
