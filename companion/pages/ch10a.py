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

LINES = 40  # of a file that are shown


def shown(spec: str) -> Markdown:
    """The text of the file that a parameter names; of an array, that of the script beside it."""
    file = Path(re.sub(r"\.npy$", ".py", re.sub(r":\w+$", "", spec)))
    lines = file.read_text().strip().split("\n") if file.is_file() else [f"# {spec}"]
    text = "\n".join([*lines[:LINES], "..."] if len(lines) > LINES else lines)
    return Markdown(f"```python\n{text}\n```")


def who_holds_what(counts: np.ndarray) -> Figure:
    """Label counts [N, C] as stacked bars, a bar for each client, in the order of its largest class."""
    figure, ax = plt.subplots(figsize=(4.2, 2.8))
    counts = counts[np.lexsort((-counts.max(1), counts.argmax(1)))]
    at, bottom = np.arange(1, len(counts) + 1), np.zeros(len(counts))
    palette = sns.color_palette("colorblind", counts.shape[1])
    for c, (held, colour) in enumerate(zip(counts.T, palette, strict=True)):
        ax.bar(at, held, 1.0, bottom=bottom, color=colour, label=str(c), lw=0)
        bottom += held
    ax.set(xlabel="client, sorted by its largest class", ylabel="examples")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(x=0)
    ax.grid(axis="x", visible=False)
    ax.legend(title="class", frameon=False, ncols=1 + counts.shape[1] // 6)
    return figure


def of_these(runs: list, folder: str) -> tuple[pd.DataFrame, dict]:
    """What is recorded of these runs, and their identities; the folder may hold runs of other files, too."""
    asked = {tables.run_key(run) for run in runs}
    known = records.identities(folder)
    known = {run: who for run, who in known.items() if tables.record_key(who) in asked}
    frame = records.load(folder)
    return frame[frame["run"].isin(known)], known


def board(known: dict, folder: str) -> Markdown:
    """The table of the setting that these runs have."""
    found = leaderboard.rank_methods([folder])
    title = leaderboard.describe_setting(next(iter(known.values())))
    return Markdown(leaderboard.format_markdown(found[found["federation"].str.startswith(title)]))


def curves(frame: pd.DataFrame) -> Figure:
    """Accuracy on the test set over rounds: means, and thin lines for single seeds; a design of one's own is dashed."""
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
