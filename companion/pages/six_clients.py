"""The six clients: one small federation on which each chapter tries its idea first, and its drawing.

Six clients A to F hold pictures of cats, dogs and birds. The model has three numbers, one a class, and predicts 1/3 for
each class, whatever the picture. One step of SGD on the cross-entropy with learning rate 1 then moves it by the client's
shares of the classes, less 1/3. So a client is a point in a triangle whose corners are the classes, its update is the arrow from
the triangle's middle to that point, and whatever a server estimates is a point of the same triangle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots

NAMES = ("A", "B", "C", "D", "E", "F")
CLASSES = ("cats", "dogs", "birds")
COUNTS = np.array([(20, 8, 2), (25, 0, 5), (10, 5, 5), (15, 0, 5), (0, 6, 4), (2, 0, 8)])  # [6, 3]
SIZES = COUNTS.sum(axis=1)  # n_k: 30, 30, 20, 20, 10, 10
OMEGA = SIZES / SIZES.sum()  # the clients' shares of the data
SHARES = COUNTS / SIZES[:, None]  # of the classes within each client
UPDATES = SHARES - 1 / 3  # what one step moves the model by; the gradient is its negative
TARGET = OMEGA @ UPDATES  # the update of all clients
PARTICIPANTS = 3  # m, the clients of one round

# Of the gradients, as FedSTaS makes them: {A, B, C, D}, {E}, {F}.
K_MEANS_STRATA = np.array([0, 0, 0, 0, 1, 2])
LEAST_VARIANCE_STRATA = np.array([0, 1, 0, 1, 2, 2])  # {A, C}, {B, D}, {E, F}

_CORNERS = np.array([(0.0, 0.0), (1.0, 0.0), (0.5, np.sqrt(0.75))])  # of the classes in the drawing
_COLOURS = (plots.ORANGE, plots.SKY, "#B8A1D9")  # of strata; none that stands for a method
_POINT = "#5D4A8C"  # of marks


def tabulate() -> pd.DataFrame:
    """Return what each client holds, a row each, and all of them together."""
    rows = pd.DataFrame(COUNTS, NAMES, CLASSES)
    rows.loc["all"] = rows.sum()
    rows.insert(0, "examples", rows.sum(axis=1))
    weights = [f"{n}/{SIZES.sum()}" for n in rows["examples"]]
    rows.insert(1, "weight ω", weights)
    return rows.rename_axis("client").reset_index()


def place(shares: np.ndarray) -> np.ndarray:
    """Return the points [..., 2] of the drawing at these shares of the classes [..., 3]."""
    return np.asarray(shares) @ _CORNERS


def draw_on(
    ax: Axes,
    *,
    cohort: Sequence[int] | None = None,
    strata: Sequence[int] | None = None,
    points: Mapping[str, np.ndarray] | None = None,
    cloud: np.ndarray | None = None,
    target: bool = True,
) -> Axes:
    """Draw the six clients in the triangle of the classes: a disc of area n_k at each client's class shares.

    Args:
        cohort: the clients that are dark, 0 to 5; all if None.
        strata: of the clients [6], drawn as coloured discs joined by lines within a stratum.
        points: further updates [3], by the name that is written beside them.
        cloud: many more updates [n, 3], each a small dot.
        target: whether the update of all clients is marked by a cross.
    """
    ax.plot(*_CORNERS[[0, 1, 2, 0]].T, color=plots.GREY, lw=1, zorder=0)
    text = {"ha": "center", "fontsize": 9, "color": plots.DARK_GREY}
    for name, corner, up in zip(CLASSES, _CORNERS, (-0.05, -0.05, 0.04), strict=True):
        ax.text(corner[0], corner[1] + up, name, va="bottom" if up > 0 else "top", **text)
    at = place(SHARES)
    if strata is not None:
        for j, k in np.argwhere(np.triu(np.equal.outer(strata, strata), 1)):
            ax.plot(*at[[j, k]].T, color=_COLOURS[strata[j]], lw=3, alpha=0.6, zorder=1)
    for k, name in enumerate(NAMES):
        colour = plots.DARK_GREY if strata is None else _COLOURS[strata[k]]
        is_drawn = cohort is None or k in cohort
        face = colour if is_drawn else "white"
        ax.scatter(*at[k], 9 * SIZES[k], color=face, edgecolors=colour, lw=1.2, zorder=2)
        ink = "white" if is_drawn and strata is None else "black"
        ax.text(*at[k], name, ha="center", va="center", fontsize=9, color=ink, zorder=3)
    if cloud is not None:
        dots = place(np.asarray(cloud) + 1 / 3)
        ax.scatter(*dots.T, 14, color=_POINT, alpha=0.7, lw=0, zorder=3)
    places = [(0.67, 0.6), (0.66, 0.07), (0.66, -0.05)]  # of the names, clear of discs and lines
    marks = {"all clients": TARGET} if target else {}
    for (name, update), at_name in zip((marks | dict(points or {})).items(), places, strict=False):
        where = place(np.asarray(update) + 1 / 3)
        is_target = name == "all clients"
        colour = plots.BLACK if is_target else _POINT
        ax.plot(*where, "+" if is_target else "x", color=colour, ms=10, mew=2.2, zorder=4)
        line = {"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkB": 4}
        ax.annotate(name, where, at_name, color=colour, fontsize=9, arrowprops=line, zorder=5)
    ax.set(xlim=(-0.12, 1.12), ylim=(-0.16, 1.0), aspect="equal")
    ax.axis("off")
    return ax


def draw(panels: Mapping[str, Mapping] | None = None, *, columns: int = 2) -> Figure:
    """Draw the six clients once, or in a panel for each title, with the options of `draw_on`."""
    panels = panels or {"": {}}
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = plots.WIDTH if columns < 3 else 6.6
    size = (width, rows * (2.9 if columns == 1 else 0.95 * width / columns + 0.15))
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    for ax, (title, options) in zip(axes.flat, panels.items(), strict=False):
        draw_on(ax, **options)
        ax.set_title(title, fontsize=10)
    return figure
