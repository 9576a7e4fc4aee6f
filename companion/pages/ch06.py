"""Figures and tables of chapter 6, *Neighbours: clustered sampling*."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram

from companion.claims import ledger
from companion.claims.evidence.experiments_clustered import first_recorded
from companion.pages import plots
from companion.runs import records, statistics, tables

NAMES = {  # schemes as the page calls them
    "md": "MD",
    "clustered-size": "Algorithm 1",
    "clustered-similarity": "Algorithm 2",
    "target": "target",
}
SHORT = {"md": "MD", "clustered-size": "Alg. 1", "clustered-similarity": "Alg. 2", "target": "target"}  # fmt: skip
FIG_1 = ("size-digits", "size-loss", "size-accuracy", "similarity-digits", "similarity-loss")
FIG_1 += ("similarity-accuracy", "faster", "target")
JUDGED = [f"clustered-fig-1-{name}" for name in FIG_1]
JUDGED += [f"clustered-6-{name}" for name in ("ten-clients", "finds-groups")]
JUDGED += [f"clustered-6-smoother-{name}" for name in ("loss", "accuracy")]


def _ink(colour) -> str:
    """Black or white, whichever can be read on this colour."""
    return "black" if np.dot(colour[:3], (0.299, 0.587, 0.114)) > 0.55 else "white"


def _bars(ax: Axes, counts, colours, names, widest: float = 0.05) -> None:
    """The rows of a matrix of counts as stacked bars; a name where it fits."""
    full = counts.sum(1).max()
    for k, row in enumerate(counts):
        left = 0
        for i in np.flatnonzero(row):
            ax.barh(k, row[i], left=left, height=0.84, color=colours[i], edgecolor="white", lw=0.6)
            if row[i] >= widest * full:
                place = {"ha": "center", "va": "center", "fontsize": 9}
                ax.text(left + row[i] / 2, k, names[i], color=_ink(colours[i]), **place)
            left += row[i]
    ax.set(xlim=(0, full), ylim=(len(counts) - 0.5, -0.5), yticks=range(len(counts)))
    ax.set_yticklabels([str(k + 1) for k in range(len(counts))])
    ax.grid(visible=False)


def line(sizes, counts: np.ndarray) -> Figure:
    """Clients laid end to end, with the cuts, and below the rows [m, N] that result."""
    (m, clients), total = counts.shape, sum(sizes)
    shape = {"figsize": (4.2, 3.0), "height_ratios": (1, 2.2)}
    figure, (above, below) = plt.subplots(2, 1, **shape)
    tones = sns.color_palette("magma", clients + 2)[1:-1]
    names = [str(i + 1) for i in range(clients)]
    _bars(above, m * np.array([sizes]), tones, names, 0)
    for cut in range(1, m):
        above.axvline(cut * total, color=plots.GREY, lw=2, ls="--")
    above.set(yticks=[], xticks=range(0, m * total + 1, total))
    above.set_xlabel(f"examples, {m} times each client's (dashed: the cuts)")
    _bars(below, counts, tones, names)
    below.set(xlabel="examples in the row", ylabel="draw", xticks=range(0, total + 1, 3))
    return figure


def rows(schemes: dict[str, np.ndarray], labels: np.ndarray) -> Figure:
    """A panel per scheme: its rows [m, N], a piece a client, coloured and named by its majority class."""
    m, classes = len(next(iter(schemes.values()))), int(labels.max()) + 1
    palette = sns.color_palette("magma", classes + 1)[1:]
    shape = {"figsize": (4.2, (0.26 * m + 0.6) * len(schemes)), "squeeze": False, "sharex": True}
    figure, axes = plt.subplots(len(schemes), 1, **shape)
    for ax, (title, counts) in zip(axes[:, 0], schemes.items(), strict=True):
        _bars(ax, counts, [palette[c] for c in labels], [str(c) for c in labels])
        ax.set(ylabel="draw")
        ax.set_title(title, loc="left")
    axes[-1, 0].set_xlabel("examples in the row")
    return figure


def ruled(counts: np.ndarray, labels: np.ndarray) -> int:
    """In how many rows [m, N] one class has more than half."""
    shares = np.array([counts[:, labels == c].sum(1) for c in np.unique(labels)])
    return int((2 * shares.max(0) > counts.sum(1)).sum())


def tree(joined: np.ndarray, groups: list[list[int]], labels: np.ndarray, never) -> Figure:
    """Ward's tree of the clients: branches within a group black, others grey; leaves are majority classes.

    `never`: bool [N], clients that have not taken part, with an asterisk.
    """
    clients = len(labels)
    members = {k: {k} for k in range(clients)}
    for step, (a, b, *_) in enumerate(joined):
        members[clients + step] = members[int(a)] | members[int(b)]
    kept = {node for node, inside in members.items() if any(inside <= set(g) for g in groups)}
    figure, ax = plt.subplots(figsize=(4.2, 3.2))
    with plt.rc_context({"lines.linewidth": 1.2}):
        colour = {node: plots.BLACK if node in kept else "#AAAAAA" for node in members}
        how = {"no_labels": True, "link_color_func": colour.get}
        leaves = dendrogram(joined, ax=ax, **how)["leaves"]
    height = joined[:, 2].max()
    if clients <= 40:
        for place, leaf in enumerate(leaves):
            words = f"{labels[leaf]}*" if never[leaf] else str(labels[leaf])
            ax.text(10 * place + 5, -0.03 * height, words, ha="center", va="top", fontsize=8)
    ax.set(ylim=(-0.1 * height, 1.03 * height), ylabel="height (Ward, of angles)")
    ax.set_xlabel("clients, by majority class" if clients <= 40 else "clients")
    ax.grid(axis="x", visible=False)
    return figure


def neighbours(joined: np.ndarray, labels: np.ndarray) -> tuple[int, float]:
    """How many neighbouring leaves share a class, and how many would in random order."""
    order = dendrogram(joined, no_plot=True)["leaves"]
    alike = int((labels[order[1:]] == labels[order[:-1]]).sum())
    many = np.bincount(labels)
    return alike, float((many * (many - 1)).sum() / len(labels))


class Recorded(NamedTuple):
    """Recorded runs of the paper's Fig. 1: one row per evaluation, and one per round drawn."""

    history: pd.DataFrame
    drawn: pd.DataFrame  # method, seed, round, digits


def recorded() -> Recorded:
    """Of 200 rounds where they are recorded, else of 60."""
    sweep = first_recorded("clustered-fig-1", "one-digit")
    history = records.load(f"results/{sweep}").query("task == 'mnist'")
    heads = history.drop_duplicates("run").set_index("run")
    labels = records.majority_labels(sweep)
    rows_ = [
        {"method": heads.at[run, "method"], "seed": heads.at[run, "seed"], "round": t,
         "digits": len(np.unique(labels[run][cohort]))}
        for run, drawn in records.cohorts(sweep).items() if run in heads.index
        for t, cohort in enumerate(drawn, 1)
    ]  # fmt: skip
    return Recorded(history, pd.DataFrame(rows_))


def panels(runs: Recorded, under_md: float, every: int, what: str = "digits") -> Figure:
    """Draw the distinct digits of a round, the training loss and the test accuracy over the rounds.

    Args:
        under_md: the expected number of distinct digits under MD sampling, a dotted line.
        every: how many digits there are.
        what: what the classes are called.
    """
    figure, axes = plt.subplots(3, 1, figsize=(plots.WIDTH, 6.6), sharex=True)
    styles = {m: plots.method_style(m)._replace(label=name) for m, name in SHORT.items()}
    labels = {"train_loss": "training loss (nats)", "test_accuracy": "test accuracy (%)"}
    labels = {"digits": f"distinct {what}"} | labels
    for ax, (metric, label) in zip(axes, labels.items(), strict=True):
        frame = runs.drawn if metric == "digits" else runs.history
        how = {"styles": styles, "xlabel": "", "ylabel": label, "width": 1.6}
        plots.learning_curves(ax, frame, metric, list(SHORT), **how)
    axes[0].axhline(under_md, color=plots.BLACK, lw=1, ls=":")
    axes[0].set_ylim(top=every + 0.3)
    axes[-1].set_xlabel("round")
    return figure


LAST = 10  # rounds of the final loss and accuracy


def jumps(runs: Recorded) -> pd.Series:
    """By scheme: points of accuracy from one evaluation to the next, in the second half."""
    frame = runs.history.sort_values("round")
    step = 100 * frame.groupby(["method", "seed"])["test_accuracy"].diff().abs()
    late = frame.assign(step=step)[frame["round"] > frame["rounds"] / 2]
    return late.groupby(["method", "seed"])["step"].mean().groupby("method").mean()


def final(runs: Recorded) -> pd.DataFrame:
    """How each scheme ends: digits of the first 10 and last 20 rounds, loss, accuracy, points above MD."""
    drawn, last = runs.drawn, runs.drawn["round"].max()
    digits = [drawn[drawn["round"] <= 10], drawn[drawn["round"] > last - 20]]
    early, late = (part.groupby("method")["digits"].mean() for part in digits)
    loss, accuracy = (
        tables.summarise(runs.history, metric, LAST)["mean"]
        for metric in ("train_loss", "test_accuracy")
    )
    gain = tables.paired_differences(runs.history, "test_accuracy", "md", LAST)
    rows = [
        {
            "scheme": name,
            "digits, early and late": f"{early[method]:.2f}, {late[method]:.2f}",
            "loss (nats)": f"{loss[method]:.3f}",
            "accuracy (%)": f"{accuracy[method]:.1f}",
            "against MD (points)": "" if method == "md" else _span(gain.loc[method]),
            "step (points)": f"{jumps(runs)[method]:.1f}",
        }
        for method, name in NAMES.items()
    ]
    return pd.DataFrame(rows)


def _span(row: pd.Series) -> str:
    return "{:+.1f} ({:+.1f} to {:+.1f})".format(*row[["difference", "low", "high"]]).replace("-", "−")  # fmt: skip


def gains(runs: Recorded, last: int = LAST) -> dict[str, float]:
    """Points above MD with their interval, `size`, `size_low`, ..., `similarity`, ..., `target`, ...;
    and of Algorithm 2 below the target, `short`, `short_low`, `short_high`."""
    differences, summary = tables.paired_differences(runs.history, "test_accuracy", "md", last), {}
    for method in tuple(NAMES)[1:]:
        short = method.removeprefix("clustered-")
        ends = differences.loc[method, ["difference", "low", "high"]]
        summary |= {
            f"{short}{e}": float(v) for e, v in zip(("", "_low", "_high"), ends, strict=True)
        }
    wide = tables.pivot_seeds(runs.history, "test_accuracy", last)
    values = statistics.mean_interval((wide["target"] - wide["clustered-similarity"]).dropna())
    return summary | dict(
        zip(("short", "short_low", "short_high"), map(float, values), strict=True)
    )


def verdicts() -> pd.DataFrame:
    """What the ledger says of Section 6's claims on one digit per client."""
    decided = [ledger.decide_by_id(name) for name in JUDGED]
    return pd.DataFrame(
        {
            "claim of Section 6": claim.statement,
            "ours": f"{ledger.format_ours(evidence)} {ledger.meaning(claim, evidence)}",
            "verdict": evidence.verdict,
        }
        for claim, evidence in decided
    )


def compared(variances: dict[str, float], classes: dict[str, float], full: float) -> pd.DataFrame:
    """Per scheme: variance against MD's, error of a cohort against the full update, expected classes."""
    rows = [
        {
            "scheme": name,
            "variance (% of MD)": f"{100 * v / variances['MD']:.1f}",
            "error of a cohort (% of the full update)": f"{100 * np.sqrt(v) / full:.0f}",
            "classes": f"{classes[name]:.2f}",
        }
        for name, v in variances.items()
    ]
    return pd.DataFrame(rows)
