"""Figures and tables of chapter 8, *From the page to a federation*."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

PARTS = {  # of what passes between nodes and server, and their colours
    "models, gradients": "#6A3D9A",
    "messages": "#E69F00",
    "the app": "#7F7F7F",
    "everything else": "#B0B0B0",
}


def wire(sent: pd.DataFrame) -> Figure:
    """A panel per task: bytes by part, for each method and way, per byte accounted (1: the black line)."""
    figure, axes = plt.subplots(sent["task"].nunique(), 1, figsize=(4.2, 5.6))
    for ax, (task, rows) in zip(axes, sent.groupby("task", sort=False), strict=True):
        at, left = np.arange(len(rows))[::-1], np.zeros(len(rows))
        for part, colour in PARTS.items():
            share = (rows[part] / rows["accounted"]).to_numpy()
            ax.barh(at, share, 0.7, left=left, color=colour, label=part)
            left += share
        ax.axvline(1, color="black", lw=1.5)
        ax.set_yticks(at, [f"{r.method}, {r.way}" for r in rows.itertuples()])
        ax.set_title(f"{task}: {rows['parameters'].iloc[0]:,} parameters", loc="left")
        ax.grid(axis="y", visible=False)
    axes[-1].set_xlabel("bytes on the wire per byte accounted")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    return figure


def sizes(sent: pd.DataFrame) -> pd.DataFrame:
    """The same in kilobytes, with what all is of the account."""
    rows = []
    for row in sent.to_dict("records"):
        kilo = {f"{part} (kB)": f"{row[part] / 1e3:,.0f}" for part in PARTS}
        head = {"task": row["task"], "method": f"`{row['method']}`", "way": row["way"]}
        head["accounted (kB)"] = f"{row['accounted'] / 1e3:,.0f}"
        rows.append(head | kilo | {"all / accounted": f"{row['ratio']:.2f}"})
    return pd.DataFrame(rows)


def silence(estimates: dict[tuple, np.ndarray]) -> pd.DataFrame:
    """Per (who is silent, estimator): mean over the target with its standard error, and the spread."""
    rows = []
    for (silent, what), results in estimates.items():
        error, mean = results.std() / np.sqrt(len(results)), results.mean()
        rows.append((silent, what, f"{mean:.3f} ± {error:.3f}", f"{results.std():.2f}"))
    columns = ["silent", "estimator", "mean / target", "standard deviation"]
    return pd.DataFrame(rows, columns=columns)
