"""FedSampling's slides on `topics` and MNIST: who holds what, their table, and what else they change."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.pages import plots
from companion.runs import statistics
from companion.runs.fedsampling_grid import (
    CAPS,
    EPSILONS,
    HIDDEN,
    PLAIN,
    PRIVATE,
    SIGMAS,
    SPREADS,
)
from companion.runs.grid_results import METRICS
from companion.runs.grid_results import final_metrics as final_metrics
from fedstas.sim import text
from fedstas.sim.tasks import Task

WORDS = {"fedavg": "fedavg", "fedsampling": "FedSampling"}
ARMS = ("centralised", "fedavg", "fedyogi", "fedadagrad", "fedadam")
ARMS += (*(f"{m}{PLAIN}" for m in ARMS[2:]), PRIVATE, "fedsampling")
# What the slides print of MIND: macro F1 and accuracy in percent, as they stand there.
PRINTED = {
    "text-cnn": {
        "centralised": ("51.52 ± 0.57", "71.14 ± 0.45"),
        "fedavg": ("48.11 ± 0.66", "69.23 ± 0.73"),
        "fedyogi": ("49.12 ± 0.71", "68.92 ± 0.40"),
        "fedadagrad": ("48.55 ± 0.92", "67.74 ± 1.89"),
        "fedadam": ("48.54 ± 0.65", "68.22 ± 0.50"),
        PRIVATE: ("51.33 ± 0.62", "71.15 ± 0.30"),
    },
    "transformer": {
        "centralised": ("53.73 ± 0.62", "72.19 ± 0.28"),
        "fedavg": ("50.46 ± 0.99", "70.74 ± 0.52"),
        "fedyogi": ("50.94 ± 0.59", "70.29 ± 0.53"),
        "fedadagrad": ("50.99 ± 0.68", "70.65 ± 0.48"),
        "fedadam": ("50.69 ± 0.58", "70.83 ± 0.28"),
        PRIVATE: ("53.43 ± 0.57", "71.98 ± 0.37"),
    },
}
USUAL = {"topics": ("natural", np.nan), "mnist": ("lognormal", SIGMAS[1])}  # partition, sigma
PLACES = {"natural": "by user", "lognormal": f"σ = {SIGMAS[1]:g}"}


def best(task: Task) -> tuple[float, float]:
    """Accuracy on the test documents of `topics` of the best classifier, which knows how the words are drawn and
    counts the training topics, and of always naming the commonest topic."""
    words = np.log(text.word_distributions())
    words = np.concatenate([np.zeros((len(words), 1)), words], axis=1)  # padding says nothing
    x, y = task.test_x.cpu().numpy(), task.test_y.cpu().numpy()
    share = np.bincount(task.train_y.cpu()) / len(task.train_y)
    predicted = (words[:, x].sum(2).T + np.log(share)).argmax(1)
    return float((predicted == y).mean()), float((y == share.argmax()).mean())


def users(counts: np.ndarray) -> Figure:
    """Documents by user and topic, from counts [users, topics], the user with most on the left."""
    figure, ax = plt.subplots(figsize=(4.2, 2.6))
    counts = counts[np.argsort(-counts.sum(1), kind="stable")]
    bottom, palette = np.zeros(len(counts)), sns.color_palette("viridis", counts.shape[1])
    for held, colour in zip(counts.T, palette, strict=True):
        ax.bar(range(len(counts)), held, 1.0, bottom=bottom, color=colour, lw=0)
        bottom += held
    ax.set(xlabel="user (sorted by what it wrote)", ylabel="documents")
    ax.margins(x=0)
    ax.grid(axis="x", visible=False)
    return figure


def learning(curves: dict[str, pd.DataFrame], ceiling: float) -> Figure:
    """Test accuracy over rounds and over documents processed, by method; dashed: the best classifier's."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 4.8), sharey=True)
    for ax, (x, label, scale) in zip(
        axes, (("round", "round", 1), ("examples", "documents processed (thousands)", 1e3)), strict=True
    ):  # fmt: skip
        longest = max(frame[x].max() for frame in curves.values()) / scale
        for method, frame in curves.items():
            colour, dash, *_ = plots.method_style(method)
            accuracy = 100 * frame["test_accuracy"]
            ax.plot(frame[x] / scale, accuracy, color=colour, ls=dash, lw=2)
            plots.annotate(ax, frame[x].iloc[-1] / scale, accuracy.iloc[-1], WORDS[method], colour)
        ax.axhline(100 * ceiling, color=plots.BLACK, lw=1, ls="--")
        ax.set(xlabel=label, ylim=(0, 100), xlim=(0, 1.45 * longest))  # room for the names
        ax.set_ylabel("accuracy on the\nglobal test set (%)")
    return figure


def slides_table(runs: pd.DataFrame) -> pd.DataFrame:
    """The slides' table on `topics`, from `final_metrics`, with what they print of MIND beside it; a dash where nothing
    is recorded, or printed."""
    rows = []
    for network, printed in PRINTED.items():
        method_runs = runs[runs["network"] == ("" if network == "text-cnn" else network)]
        for arm in ARMS:
            finished = method_runs[method_runs["arm"] == arm].dropna(subset=METRICS)
            cells = [
                statistics.format_plus_minus(*statistics.mean_interval(finished[k]))
                for k in reversed(METRICS)
            ]
            rows.append((network, arm, *cells, len(finished), *printed.get(arm, ("–", "–"))))
    columns = ["network", "method", "macro F1 (%)", "accuracy (%)", "seeds"]
    return pd.DataFrame(
        rows, columns=[*columns, "MIND, printed: macro F1", "MIND, printed: accuracy"]
    )


def diverged(runs: pd.DataFrame) -> dict[str, int | bool]:
    """How many runs on `topics` with the Text-CNN diverged, of all and of private FedSampling, and `of` how many of
    these; whether all with an epsilon of 1 or less did, and how many `wide` ones, `of_wide` at the largest spread.
    `runs` as from `final_metrics`."""
    runs = runs[runs["network"] == ""]
    lost, private = runs[METRICS[0]].isna(), runs["arm"] == PRIVATE
    noisy, wide = (
        private & which for which in (runs["epsilon"] <= 1, runs["sigma"] == SPREADS[-1])
    )
    return {
        "lost": int(lost.sum()),
        "lost_private": int((lost & private).sum()),
        "of": int(private.sum()),
        "whenever": bool(lost[noisy].all()),
        "wide": int((lost & wide).sum()),
        "of_wide": int(wide.sum()),
    }


def duels(runs: pd.DataFrame) -> tuple[dict[str, bool], dict[str, str]]:
    """Whether what chapter 7 says of `slides_table` holds, and its differences in macro F1 with 95 % intervals over
    seeds: `runs` as from `final_metrics`."""

    def above(network: str, arm: str, other: str) -> tuple[float, float, float]:
        method_runs = runs[runs["network"] == network].pivot_table("macro_f1", "seed", "arm")
        return statistics.mean_interval((method_runs[arm] - method_runs[other]).dropna())

    kinds = {"text_cnn": "", "transformer": "transformer"}
    lead = {name: above(n, "fedadagrad", PRIVATE) for name, n in kinds.items()}
    over = {name: above(n, PRIVATE, "fedavg") for name, n in kinds.items()}
    true = above("transformer", "fedsampling", "fedavg")
    best = [
        min(above(n, "fedadagrad", arm)[1] for arm in ARMS if not arm.startswith("fedadagrad"))
        for n in kinds.values()
    ]
    holds = {
        "best": min(best) > 0,
        "central": all(above(n, "fedadagrad", "centralised")[1] > 0 for n in kinds.values()),
        "fedavg": over["transformer"][1] > 0 > over["text_cnn"][1],
        "true": true[1] < 0 < true[2],
    }
    said = {
        f"adagrad_{name}": statistics.format_interval(*gain, ".1f") for name, gain in lead.items()
    }
    said["over_fedavg"] = statistics.format_interval(*over["transformer"], ".1f")
    return holds, said | {"true_over_fedavg": statistics.format_interval(*true, ".1f")}


JUDGED = ("table-mind", "table-mind-accuracy", "table-mind-transformer")
JUDGED += ("table-mind-transformer-accuracy", "weighted-sampling", "femnist", "imbalance")


def verdicts() -> pd.DataFrame:
    """What `topics` and MNIST say of the slides' claims; those on Toys and Beauty are MIND's, with the same runs."""
    return ledger.substitutes_table(f"slides-{name}" for name in JUDGED)


def _dots(ax: Axes, at: float, values, colour: str) -> float:
    """Runs, their mean and its 95 % interval (of few seeds, none) at one place, and how many diverged; returns
    the mean of the others."""
    lost, of = int(values.isna().sum()), len(values)
    if lost:
        where = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        ax.text(
            at,
            0.02,
            f"{lost} of {of}\ndiverged",
            color=plots.text_colour(colour),
            fontsize=8,
            **where,
        )
    values = values.dropna()
    if not len(values):
        return np.nan
    mean, low, high = statistics.mean_interval(values)
    ax.plot([at] * len(values), values, "_", color=colour, ms=6, alpha=0.5)
    if len(values) >= plots.MIN_SEEDS_FOR_BAND:
        ax.vlines(at, low, high, color=colour, lw=1.6)
    ax.plot(at, mean, "o", color=colour, ms=5)
    return mean


def _look(arm: str) -> tuple[str, str]:
    return (plots.PURPLE, "--") if arm == PRIVATE else plots.method_style(arm)


def _side_by_side(ax: Axes, runs: pd.DataFrame, arms: Sequence[str]) -> None:
    there = [arm for arm in arms if arm in set(runs["arm"])]
    for place, arm in enumerate(there):
        _dots(ax, place, runs.loc[runs["arm"] == arm, METRICS[0]], _look(arm)[0])
    names = [arm.replace(", ", ",\n").replace("-", "-\n") for arm in there]
    ax.set_xticks(range(len(there)), names, fontsize="small")
    ax.margins(x=0.2)


def _over_spreads(ax: Axes, runs: pd.DataFrame, arms: Sequence[str]) -> None:
    for shift, arm in enumerate(arms):
        part = runs[runs["arm"] == arm].groupby("sigma")[METRICS[0]]
        at = [(SPREADS.index(sigma) + 0.1 * (shift - 1.5), v) for sigma, v in part]
        means = [_dots(ax, x, v, _look(arm)[0]) for x, v in at]
        ax.plot([x for x, _ in at], means, color=_look(arm)[0], ls=_look(arm)[1], lw=1)
    ax.set_xticks(range(len(SPREADS)), [f"{s:g}" for s in SPREADS])
    ax.set(xlabel="σ of the sizes", xlim=(-0.5, len(SPREADS) - 0.3))


def _private(ax: Axes, runs: pd.DataFrame, task: str) -> None:
    usual = HIDDEN[task]
    epsilons = sorted([*EPSILONS, usual["epsilon"]])
    caps = sorted([*CAPS[task], usual["size_cap"]])
    settings = [(f"ε\n{e:g}", e, usual["size_cap"]) for e in epsilons]
    settings += [(f"M\n{c}", usual["epsilon"], c) for c in caps]
    for place, (_, epsilon, cap) in enumerate(settings):
        part = runs[(runs["epsilon"] == epsilon) & (runs["size_cap"] == cap)]
        if len(part):
            _dots(ax, place, part[METRICS[0]], _look(PRIVATE)[0])
    ax.axvline(len(epsilons) - 0.5, color=plots.GREY, lw=0.8)
    ax.set_xlim(-0.6, len(settings) - 0.4)
    ax.set_xticks(range(len(settings)), [s[0] for s in settings], fontsize="small")


def ablations(runs: pd.DataFrame, task: str, note: str) -> Figure:
    """What the slides change, on one task: how clients are drawn, the spread of the sizes, one class each, and
    FedSampling's epsilon and M; `runs` as from `final_metrics`, `note` where none of a panel is there, or none at all."""
    runs = runs[(runs["task"] == task) & (runs["network"] == "")]
    if not len(runs):
        figure = plots.not_recorded(note.replace(" --", "\n--"))
        figure.set_size_inches(4.2, 1.4)
        return figure
    usual = HIDDEN[task]
    hidden = (runs["epsilon"] == usual["epsilon"]) & (runs["size_cap"] == usual["size_cap"])
    settled = runs[runs["epsilon"].isna() | hidden]
    kind, sigma = USUAL[task]
    sigmas = runs["sigma"] == sigma if kind == "lognormal" else runs["sigma"].isna()
    rows_here = runs[(runs["partition"] == kind) & sigmas]
    drawn = ("fedavg", "fedavg-unbiased", "md", PRIVATE)
    arms = ("fedavg", "md", PRIVATE, "fedsampling")
    panels = {
        f"Clients drawn otherwise ({PLACES[kind]})": (
            _side_by_side, rows_here.loc[rows_here.index.intersection(settled.index)], drawn),
        "Spread of the sizes": (_over_spreads, settled[settled["partition"] == "lognormal"], arms),
        "One class each": (_side_by_side, settled[settled["partition"] == "by_class"], arms),
        f"ε and M ({PLACES[kind]})": (_private, rows_here[rows_here["arm"] == PRIVATE], task),
    }  # fmt: skip
    figure, axes = plt.subplots(4, 1, figsize=(4.2, 9.6))
    for ax, (title, (draw, part, how)) in zip(axes, panels.items(), strict=True):
        ax.set_title(title, loc="left")
        if len(part):
            draw(ax, part, how)
            ax.grid(axis="x", visible=False)
            if part[METRICS[0]].isna().any():  # room for how many
                low, high = ax.get_ylim()
                ax.set_ylim(low - 0.3 * (high - low), high)
        else:
            plots.write_in_panel(ax, note.replace(" --", "\n--"))
        ax.set_ylabel("accuracy on the\nglobal test set (%)")
    shown = [arm for arm in arms if arm in set(settled["arm"])]
    lines = [plt.Line2D([], [], color=_look(a)[0], ls=_look(a)[1], lw=2) for a in shown]
    figure.legend(lines, shown, loc="outside upper center", ncols=2, frameon=False)
    return figure
