"""Figures and tables of the page *Neighbours: clustered sampling*."""

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
from companion.claims.evidence import experiments_messages
from companion.claims.evidence.experiments import load_sweep
from companion.claims.evidence.experiments_clustered import first_recorded
from companion.pages import plots
from companion.runs import records, statistics, tables
from companion.runs.experiments import MESSAGE_ARMS

NAMES = {  # of the schemes on the page
    "md": "MD",
    "clustered-size": "Algorithm 1",
    "clustered-similarity": "Algorithm 2",
    "target": "target",
}
SHORT_NAMES = {
    "md": "MD",
    "clustered-size": "Alg. 1",
    "clustered-similarity": "Alg. 2",
    "target": "target",
}
FIG_1 = ("size-digits", "size-loss", "size-accuracy", "similarity-digits", "similarity-loss")
FIG_1 += ("similarity-accuracy", "faster", "target")
CLAIMS = [f"clustered-fig-1-{name}" for name in FIG_1]
CLAIMS += [f"clustered-6-{name}" for name in ("ten-clients", "finds-groups")]
CLAIMS += [f"clustered-6-smoother-{name}" for name in ("loss", "accuracy")]


def _contrasting(colour) -> str:
    """Return black or white, whichever can be read on a colour (red, green, blue, ...), each part in [0, 1]."""
    luma = np.dot(colour[:3], (0.299, 0.587, 0.114))  # the weights of ITU-R BT.601
    return "black" if luma > 0.55 else "white"


def _draw_stacked_bars(ax: Axes, counts, colours, names, min_share: float = 0.05) -> None:
    """Draw the rows of a matrix of counts as stacked bars, with a name in each piece of at least `min_share`."""
    longest = counts.sum(1).max()
    for k, row in enumerate(counts):
        start = 0
        for i in np.flatnonzero(row):
            ax.barh(k, row[i], left=start, height=0.84, color=colours[i], edgecolor="white", lw=0.6)
            if row[i] >= min_share * longest:
                place = {"ha": "center", "va": "center", "fontsize": 9}
                ax.text(start + row[i] / 2, k, names[i], color=_contrasting(colours[i]), **place)
            start += row[i]
    ax.set(xlim=(0, longest), ylim=(len(counts) - 0.5, -0.5), yticks=range(len(counts)))
    ax.set_yticklabels([str(k + 1) for k in range(len(counts))])
    ax.grid(visible=False)


def draw_line(sizes, counts: np.ndarray) -> Figure:
    """Draw how clusters by size are formed: above, m times the clients' examples end to end, cut into m equal parts; below,
    each part as the row of one draw.

    Args:
        sizes: the clients' numbers of examples [N].
        counts: how many examples each draw gives to each client [m, N].
    """
    (m, clients), total = counts.shape, sum(sizes)
    shape = {"figsize": (plots.WIDTH, 2.4), "height_ratios": (1, 2.2)}
    figure, (above, below) = plt.subplots(2, 1, **shape)
    tones = sns.color_palette("magma", clients + 2)[1:-1]
    names = [str(i + 1) for i in range(clients)]
    _draw_stacked_bars(above, m * np.array([sizes]), tones, names, 0)
    for cut in range(1, m):
        above.axvline(cut * total, color=plots.GREY, lw=2, ls="--")
    above.set(yticks=[], xticks=range(0, m * total + 1, total))
    above.set_xlabel(f"examples, {m} times each client's (dashed: the cuts)")
    _draw_stacked_bars(below, counts, tones, names)
    below.set(xlabel="examples in the row", ylabel="draw", xticks=range(0, total + 1, 3))
    return figure


def draw_rows(schemes: dict[str, np.ndarray], labels: np.ndarray) -> Figure:
    """Draw the rows of each scheme in a panel, a piece for each client, coloured and named by its majority class.

    Args:
        schemes: counts [m, N] by the panel's title.
        labels: the clients' majority classes [N].
    """
    m, classes = len(next(iter(schemes.values()))), int(labels.max()) + 1
    palette = sns.color_palette("magma", classes + 1)[1:]
    width = plots.WIDTH if len(schemes) == 1 else plots.WIDE
    figure, axes = plt.subplots(1, len(schemes), figsize=(width, 0.21 * m + 0.6), squeeze=False)
    for ax, (title, counts) in zip(axes[0], schemes.items(), strict=True):
        _draw_stacked_bars(ax, counts, [palette[c] for c in labels], [str(c) for c in labels])
        ax.set(ylabel="draw", xlabel="examples in the row")
        ax.set_title(title, loc="left")
    return figure


def count_majority_rows(counts: np.ndarray, labels: np.ndarray) -> int:
    """Count the rows of counts [m, N] in which the clients of one class have more than half."""
    shares = np.array([counts[:, labels == c].sum(1) for c in np.unique(labels)])
    return int((2 * shares.max(0) > counts.sum(1)).sum())


def draw_tree(joined: np.ndarray, groups: list[list[int]], labels: np.ndarray, never) -> Figure:
    """Draw Ward's tree of the clients: branches within a group black, others grey.

    Args:
        joined: the linkage, as `scipy.cluster.hierarchy.linkage` returns it.
        groups: the clients of each group.
        labels: the clients' majority classes [N], the names of the leaves.
        never: bool [N], the clients that have not taken part; their names have an asterisk.
    """
    clients = len(labels)
    members = {k: {k} for k in range(clients)}
    for step, (a, b, *_) in enumerate(joined):
        members[clients + step] = members[int(a)] | members[int(b)]
    within_group = {
        node for node, inside in members.items() if any(inside <= set(g) for g in groups)
    }
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.5))
    with plt.rc_context({"lines.linewidth": 1.2}):
        colour = {node: plots.BLACK if node in within_group else "#AAAAAA" for node in members}
        options = {"no_labels": True, "link_color_func": colour.get}
        leaves = dendrogram(joined, ax=ax, **options)["leaves"]
    height = joined[:, 2].max()
    if clients <= 40:
        for place, leaf in enumerate(leaves):
            name = f"{labels[leaf]}*" if never[leaf] else str(labels[leaf])
            ax.text(10 * place + 5, -0.03 * height, name, ha="center", va="top", fontsize=8)
    ax.set(ylim=(-0.1 * height, 1.03 * height), ylabel="height (Ward, of angles)")
    ax.set_xlabel("clients, by majority class" if clients <= 40 else "clients")
    ax.grid(axis="x", visible=False)
    return figure


def count_alike_neighbours(joined: np.ndarray, labels: np.ndarray) -> tuple[int, float]:
    """Count the pairs of neighbouring leaves that share a class; and how many would in random order, on average."""
    order = dendrogram(joined, no_plot=True)["leaves"]
    alike = int((labels[order[1:]] == labels[order[:-1]]).sum())
    sizes = np.bincount(labels)
    return alike, float((sizes * (sizes - 1)).sum() / len(labels))


class SchemeRuns(NamedTuple):
    """Runs of the schemes with one class per client.

    Attributes:
        history: a row for each evaluation, with the columns of recorded runs.
        cohorts: a row for each round: method, seed, round, digits (the number of distinct classes in its cohort).
    """

    history: pd.DataFrame
    cohorts: pd.DataFrame


def load_runs() -> SchemeRuns:
    """Load the recorded runs of the paper's Fig. 1: of 200 rounds where they are recorded, else of 60."""
    sweep = first_recorded("clustered-fig-1", "one-digit")
    history = records.load(f"results/{sweep}").query("task == 'mnist'")
    heads = history.drop_duplicates("run").set_index("run")
    labels = records.majority_labels(sweep)
    rows = []
    for run, cohorts in records.cohorts(sweep).items():
        if run in heads.index:
            method, seed = heads.loc[run, ["method", "seed"]]
            digits = [len(np.unique(labels[run][cohort])) for cohort in cohorts]
            rows += [(method, seed, t, count) for t, count in enumerate(digits, 1)]
    return SchemeRuns(history, pd.DataFrame(rows, columns=["method", "seed", "round", "digits"]))


def draw_panels(runs: SchemeRuns, under_md: float, classes: int, name: str = "digits") -> Figure:
    """Draw the distinct digits of a round, the training loss and the test accuracy over the rounds.

    Args:
        under_md: the expected number of distinct digits under MD sampling, a dotted line.
        classes: the number of classes.
        name: what the classes are called on the axis.
    """
    figure, axes = plt.subplots(1, 3, figsize=(plots.WIDE, 2.5))
    styles = {m: plots.method_style(m)._replace(label=short) for m, short in SHORT_NAMES.items()}
    labels = {"train_loss": "training loss (nats)", "test_accuracy": "test accuracy (%)"}
    labels = {"digits": f"distinct {name}"} | labels
    for ax, (metric, label) in zip(axes, labels.items(), strict=True):
        frame = runs.cohorts if metric == "digits" else runs.history
        options = {"styles": styles, "ylabel": label, "width": 1.6}
        plots.learning_curves(ax, frame, metric, list(SHORT_NAMES), **options)
    axes[0].axhline(under_md, color=plots.BLACK, lw=1, ls=":")
    plots.annotate(
        axes[0],
        0.05,
        under_md,
        "MD, exact",
        plots.BLACK,
        0,
        -22,
        xycoords=axes[0].get_yaxis_transform(),
    )
    axes[0].set_ylim(top=classes + 0.3)
    return figure


def draw_gains(gains: dict[str, float]) -> Figure:
    """Draw the points of accuracy above MD of each scheme, as `accuracy_gains` returns them, with their intervals."""
    keys = {m: m.removeprefix("clustered-") for m in tuple(NAMES)[1:]}
    rows = [(gains[k], gains[f"{k}_low"], gains[f"{k}_high"]) for k in keys.values()]
    table = pd.DataFrame(rows, [NAMES[m] for m in keys], ["mean", "low", "high"])
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 1.5))
    colours = [plots.method_style(m).colour for m in keys]
    plots.intervals(ax, {"": table}, {"": plots.Style(plots.BLACK)}, colours=colours, reference=0)
    ax.set(xlabel="points of test accuracy above MD")
    plots.annotate(
        ax, 0, 1, "MD = 0", plots.BLACK, 0, 6, ha="center", xycoords=ax.get_xaxis_transform()
    )
    return figure


LAST = 10  # rounds of the final loss and accuracy


def mean_jumps(runs: SchemeRuns) -> pd.Series:
    """Return, by scheme, the mean points of accuracy between one evaluation and the next, in the second half."""
    frame = runs.history.sort_values("round")
    jump = 100 * frame.groupby(["method", "seed"])["test_accuracy"].diff().abs()
    late = frame.assign(jump=jump)[frame["round"] > frame["rounds"] / 2]
    return late.groupby(["method", "seed"])["jump"].mean().groupby("method").mean()


def final_table(runs: SchemeRuns) -> pd.DataFrame:
    """Tabulate, by scheme, the digits of the first 10 and last 20 rounds, final loss, accuracy and points above MD."""
    cohorts, last = runs.cohorts, runs.cohorts["round"].max()
    digits = [cohorts[cohorts["round"] <= 10], cohorts[cohorts["round"] > last - 20]]
    early, late = (part.groupby("method")["digits"].mean() for part in digits)
    loss, accuracy = (
        tables.summarise(runs.history, metric, LAST)["mean"]
        for metric in ("train_loss", "test_accuracy")
    )
    gain = tables.paired_differences(runs.history, "test_accuracy", "md", LAST)
    jumps = mean_jumps(runs)
    rows = [
        {
            "scheme": name,
            "digits, early and late": f"{early[method]:.2f}, {late[method]:.2f}",
            "loss (nats)": f"{loss[method]:.3f}",
            "accuracy (%)": f"{accuracy[method]:.1f}",
            "against MD (points)": "" if method == "md" else _format_difference(gain.loc[method]),
            "jump (points)": f"{jumps[method]:.1f}",
        }
        for method, name in NAMES.items()
    ]
    return pd.DataFrame(rows)


def _format_difference(row: pd.Series) -> str:
    """Format a difference and its interval with signs, minus signs as such."""
    difference, low, high = row[["difference", "low", "high"]]
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f})".replace("-", "−")


def accuracy_gains(runs: SchemeRuns, last: int = LAST) -> dict[str, float]:
    """Return the points of accuracy above MD, with their intervals.

    The keys are `size`, `size_low`, `size_high`; the same of `similarity` and of `target`, the oracle that clusters by
    majority label; and of `short`: how far Algorithm 2 (`similarity`) is below this oracle.
    """
    differences, summary = tables.paired_differences(runs.history, "test_accuracy", "md", last), {}
    for method in tuple(NAMES)[1:]:
        scheme = method.removeprefix("clustered-")
        ends = differences.loc[method, ["difference", "low", "high"]]
        summary |= {
            f"{scheme}{e}": float(v) for e, v in zip(("", "_low", "_high"), ends, strict=True)
        }
    wide = tables.pivot_seeds(runs.history, "test_accuracy", last)
    shortfall = statistics.mean_interval((wide["target"] - wide["clustered-similarity"]).dropna())
    return summary | dict(
        zip(("short", "short_low", "short_high"), map(float, shortfall), strict=True)
    )


def verdicts_table() -> pd.DataFrame:
    """Tabulate the verdicts on the claims of Section 6 about one digit per client."""
    decided = [ledger.decide_by_id(name) for name in CLAIMS]
    return pd.DataFrame(
        {
            "claim of Section 6": claim.statement,
            "ours": f"{ledger.format_ours(evidence)} {ledger.meaning(claim, evidence)}",
            "verdict": evidence.verdict,
        }
        for claim, evidence in decided
    )


class MessageResults(NamedTuple):
    """What the runs with compressed, noisy and masked updates show.

    Attributes:
        table: a row for each message, as the page shows it.
        gains: by message, the points of Algorithm 2 above MD, with interval.
        costs: by message and scheme, the points below the same scheme's runs with updates as they are, with interval.
        lost_leads: by message, by how many points Algorithm 2's lead on MD is below that with updates as they are.
        digits: by message and scheme, the mean distinct digits of a cohort in the last ten rounds.
        accuracy: by message and scheme, the final accuracy in %.
        bytes: by message, those that the participants of a round send, mean over the run.
        seeds: the fewest that a message has.
    """

    table: pd.DataFrame
    gains: dict[str, statistics.Interval]
    costs: dict[tuple[str, str], statistics.Interval]
    lost_leads: dict[str, statistics.Interval]
    digits: dict[tuple[str, str], float]
    accuracy: dict[tuple[str, str], float]
    bytes: dict[str, float]
    seeds: int


def load_messages() -> MessageResults:
    """Load the recorded runs of `clustered-messages`, and tabulate them by what participants send."""
    sweep = experiments_messages.PLAIN.sweep
    frame, labels = load_sweep(sweep), records.majority_labels(sweep)
    heads = frame.drop_duplicates("run").set_index("run")
    counts = {
        run: np.mean([len(np.unique(labels[run][cohort])) for cohort in cohorts[-10:]])
        for run, cohorts in records.cohorts(sweep).items()
    }
    keys = ["message", "method"]
    digits = heads.assign(digits=pd.Series(counts)).groupby(keys)["digits"].mean().to_dict()
    last = frame[frame["round"] == frame["rounds"]]
    sent = (last["bytes_up"] / last["rounds"]).groupby(last["message"]).mean().to_dict()
    gains, costs, lost_leads, accuracy, rows = {}, {}, {}, {}, []
    for label, schemes in MESSAGE_ARMS.items():
        part = frame[frame["message"] == label]
        for scheme, mean in tables.summarise(part, "test_accuracy", LAST)["mean"].items():
            accuracy[label, scheme] = mean
        lost = {m: experiments_messages.cost_of_message(label, m) for m in schemes}
        costs |= {(label, m): statistics.mean_interval(points) for m, points in lost.items()}
        if {"md", "clustered-similarity"} <= {*schemes}:
            lost_lead = statistics.paired_difference(lost["clustered-similarity"], lost["md"])
            lost_leads[label] = lost_lead.interval
            gain = experiments_messages.gain_over_md(label)
            gains[label] = statistics.Interval(gain.mean, gain.low, gain.high)
        row = {"what is sent": label, "kB up a round": f"{sent[label] / 1000:,.0f}"}
        row |= {
            NAMES[m]: f"{accuracy[label, m]:.1f}" if m in schemes else "–" for m in tuple(NAMES)[:3]
        }
        row["Algorithm 2 above MD"] = (
            statistics.format_points(*gains[label]) if label in gains else "–"
        )
        known = digits.get((label, "clustered-similarity"))
        row["digits, Algorithm 2"] = "–" if known is None else f"{known:.1f}"
        rows.append(row)
    seeds, table = int(frame.groupby(keys)["seed"].nunique().min()), pd.DataFrame(rows)
    return MessageResults(table, gains, costs, lost_leads, digits, accuracy, sent, seeds)


def variance_table(
    variances: dict[str, float], classes: dict[str, float], full: float
) -> pd.DataFrame:
    """Tabulate the schemes' variances as shares of MD's, errors of a cohort, and expected numbers of classes.

    Args:
        variances: by scheme, of the aggregate.
        classes: by scheme, the expected number of distinct classes in a cohort.
        full: the length of the full update.
    """
    rows = [
        {
            "scheme": name,
            "variance (% of MD)": f"{100 * variance / variances['MD']:.1f}",
            "error of a cohort (% of the full update)": f"{100 * np.sqrt(variance) / full:.0f}",
            "classes": f"{classes[name]:.2f}",
        }
        for name, variance in variances.items()
    ]
    return pd.DataFrame(rows)
