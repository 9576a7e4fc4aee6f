"""Figures and tables of the page *From the page to a federation*."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots

PARTS = {  # of the bytes between nodes and server, by purpose
    "models, gradients": plots.Style(plots.PURPLE, "", "s"),
    "messages": plots.Style(plots.ORANGE, "", "s"),
    "the app": plots.Style(plots.GREY, "", "s"),
    "everything else": plots.Style("#B0B0B0", "", "s"),
}


def draw_bytes(traffic: pd.DataFrame) -> Figure:
    """Draw the bytes between nodes and server by purpose, in multiples of the bytes that the simulation accounts for.

    A panel for each task, side by side, and a bar for each method and direction; the black line at 1 is the account.

    Args:
        traffic: a row for each task, method and direction (`way`); columns are `parameters` of the network, the bytes
            `accounted` for by the simulation, and the bytes of each of PARTS.
    """
    shares = traffic.assign(**traffic[list(PARTS)].div(traffic["accounted"], axis=0))
    shares.index = shares["method"] + ", " + shares["way"]
    by_task = {
        f"{task}: {rows['parameters'].iloc[0]:,} parameters": rows[list(PARTS)]
        for task, rows in shares.groupby("task", sort=False)
    }
    xlabel = "bytes on the wire (line: 1 = the account)"
    options = {"height": 2.7, "sharex": False, "xlabel": xlabel, "stacked": True, "columns": 2}
    figure = plots.panels(plots.bars, by_task, PARTS, **options)
    for ax in figure.axes:
        ax.axvline(1, color=plots.BLACK, lw=1.5)
    plots.legend(figure, PARTS, columns=4)
    return figure


def tabulate_bytes(traffic: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the bytes of `draw_bytes` in kilobytes, and all of them over the accounted ones (`ratio`)."""
    rows = []
    for row in traffic.to_dict("records"):
        kilo = {f"{part} (kB)": f"{row[part] / 1e3:,.0f}" for part in PARTS}
        head = {"task": row["task"], "method": f"`{row['method']}`", "way": row["way"]}
        head["accounted (kB)"] = f"{row['accounted'] / 1e3:,.0f}"
        rows.append(head | kilo | {"all / accounted": f"{row['ratio']:.2f}"})
    return pd.DataFrame(rows)


def tabulate_nonresponse(estimates: dict[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """Tabulate mean and standard deviation of estimates under nonresponse, the mean with its standard error.

    Args:
        estimates: estimates over the target [repeats], by who does not answer and by estimator.
    """
    rows = []
    for (silent, estimator), values in estimates.items():
        error, mean = values.std() / np.sqrt(len(values)), values.mean()
        rows.append((silent, estimator, f"{mean:.3f} ± {error:.3f}", f"{values.std():.2f}"))
    columns = ["silent", "estimator", "mean / target", "standard deviation"]
    return pd.DataFrame(rows, columns=columns)
