"""Figures and tables of the page on FedSampling about its slides: the users of `topics`, the slides' table, and what they vary.

Recorded runs come as a frame of `final_metrics`: a row per run, with the columns of `grid_results.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.claims.evidence.experiments_fedsampling import QUICKLY
from companion.pages import plots
from companion.pages.ch05 import METHOD_NAMES
from companion.runs import statistics, tables
from companion.runs.fedsampling_grid import (
    CAPS,
    EPSILONS,
    FEDOPT,
    HIDDEN,
    PLAIN,
    PRIVATE,
    SPREADS,
    TENTH,
    USUAL_SIGMA,
)
from companion.runs.grid_results import METRICS
from companion.runs.grid_results import final_metrics as final_metrics
from fedstas.sim import text
from fedstas.sim.tasks import Task

LABELS = {"fedavg": "fedavg", "fedsampling": "FedSampling"}
# Posts of the 20 newsgroups: how many there are, and how many have no word without header, quotes and signature.
POSTS, WORDLESS_POSTS = 18_846, 535
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
# The same of Amazon-Toys and Amazon-Beauty.
PRINTED_TOYS = {
    "text-cnn": {
        "centralised": ("39.61 ± 1.13", "63.71 ± 0.22"),
        "fedavg": ("35.32 ± 0.78", "61.63 ± 0.33"),
        "fedyogi": ("35.62 ± 2.34", "61.22 ± 0.39"),
        "fedadagrad": ("34.69 ± 0.70", "60.63 ± 1.36"),
        "fedadam": ("35.27 ± 1.59", "61.35 ± 0.32"),
        PRIVATE: ("40.15 ± 1.27", "63.41 ± 0.74"),
    },
    "transformer": {
        "centralised": ("41.86 ± 0.96", "63.56 ± 0.57"),
        "fedavg": ("38.68 ± 0.93", "60.30 ± 2.06"),
        "fedyogi": ("37.75 ± 1.87", "61.44 ± 0.36"),
        "fedadagrad": ("38.06 ± 0.61", "59.69 ± 1.60"),
        "fedadam": ("37.58 ± 0.77", "60.59 ± 1.24"),
        PRIVATE: ("41.63 ± 1.12", "64.03 ± 0.46"),
    },
}
PRINTED_BEAUTY = {
    "text-cnn": {
        "centralised": ("43.90 ± 0.97", "62.20 ± 0.67"),
        "fedavg": ("38.44 ± 1.43", "60.75 ± 0.36"),
        "fedyogi": ("38.77 ± 0.89", "60.35 ± 0.91"),
        "fedadagrad": ("37.20 ± 1.90", "60.64 ± 0.70"),
        "fedadam": ("39.09 ± 0.80", "60.43 ± 1.05"),
        PRIVATE: ("43.04 ± 0.83", "62.96 ± 0.16"),
    },
    "transformer": {
        "centralised": ("44.31 ± 0.70", "62.92 ± 0.48"),
        "fedavg": ("37.82 ± 1.36", "60.41 ± 0.27"),
        "fedyogi": ("38.10 ± 1.07", "60.17 ± 0.33"),
        "fedadagrad": ("38.59 ± 1.56", "59.87 ± 0.51"),
        "fedadam": ("38.44 ± 1.42", "60.65 ± 0.46"),
        PRIVATE: ("43.47 ± 0.94", "62.67 ± 0.60"),
    },
}
TEXT_ARMS = {  # the slides' rows on real text, where FedOpt has its plain mean, and one more: by label, the printed one
    "centralised": "centralised",
    "fedavg": "fedavg",
    **{f"{m}{PLAIN}": m for m in ("fedyogi", "fedadagrad", "fedadam")},
    PRIVATE: PRIVATE,
    "fedsampling": "",
}
NETWORKS = {"text-cnn": "", "transformer": "transformer"}  # as runs name them
DEFAULT_PARTITIONS = {"topics": ("natural", np.nan), "mnist": ("lognormal", USUAL_SIGMA)}  # sigma
PARTITION_LABELS = {"natural": "by user", "lognormal": f"σ = {USUAL_SIGMA:g}"}
CLAIMS = [
    f"table-{data}{network}{metric}"
    for data in ("mind", "toys")
    for network in ("", "-transformer")
    for metric in ("", "-accuracy")
]
CLAIMS += ["table-centralised", "weighted-sampling", "femnist", "femnist-network", "imbalance"]


def reference_accuracies(task: Task) -> tuple[float, float]:
    """Return the accuracy on the test documents of `topics` of the best classifier, which knows the topics' word
    distributions and their shares of the training documents, and of always predicting the most frequent topic."""
    words = np.log(text.word_distributions())
    words = np.concatenate([np.zeros((len(words), 1)), words], axis=1)  # padding says nothing
    x, y = task.test_x.cpu().numpy(), task.test_y.cpu().numpy()
    share = np.bincount(task.train_y.cpu()) / len(task.train_y)
    predicted = (words[:, x].sum(2).T + np.log(share)).argmax(1)
    return float((predicted == y).mean()), float((y == share.argmax()).mean())


def draw_users(counts: np.ndarray) -> Figure:
    """Draw documents by user, from counts [users, topics], the user with most on the left: on the favourite topic, on
    the next two, and on the others."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.3))
    favourites = -np.sort(-counts[np.argsort(-counts.sum(1), kind="stable")], axis=1)
    parts = {
        "favourite topic": (favourites[:, 0], plots.PURPLE),
        "next two topics": (favourites[:, 1:3].sum(1), "#A98FC4"),
        "other topics": (favourites[:, 3:].sum(1), "#C8C8C8"),
    }
    at, bottom = np.arange(1, len(counts) + 1), np.zeros(len(counts))
    for line, (name, (part, colour)) in enumerate(parts.items()):
        ax.bar(at, part, 1.0, bottom=bottom, color=colour, lw=0)
        bottom = bottom + part
        ink = plots.DARK_GREY if colour == "#C8C8C8" else colour
        place = 0.3, 0.9 - 0.13 * line
        plots.annotate(ax, *place, "■", colour, 0, color=colour, xycoords="axes fraction")
        plots.annotate(ax, *place, name, ink, 12, xycoords="axes fraction")
    ax.margins(x=0)
    ax.grid(axis="x", visible=False)
    ax.set(xlabel="user (sorted by the number of documents)", ylabel="documents")
    return figure


def draw_learning(histories: dict[str, pd.DataFrame], best_accuracy: float) -> Figure:
    """Draw test accuracy over rounds and over documents processed, by method; dashed: the best classifier's."""
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDE, 2.6), sharey=True)
    labels = {"round": "round", "thousands": "documents processed (thousands)"}
    for ax, (x, label) in zip(axes, labels.items(), strict=True):
        lines = {}
        for method, history in histories.items():
            frame = history.assign(thousands=history["examples"] / 1e3).set_index(x)
            lines[LABELS[method]] = 100 * frame["test_accuracy"]
        styles = {label: plots.method_style(method) for method, label in LABELS.items()}
        plots.curves(ax, lines, styles, xlabel=label, ylim=(0, 100), xlim=(0, None))
        ax.axhline(100 * best_accuracy, color=plots.BLACK, lw=1, ls="--")
    place = {"xycoords": axes[0].get_yaxis_transform()}
    plots.annotate(
        axes[0], 0.03, 100 * best_accuracy, "the best that can be done", plots.BLACK, 0, -7, **place
    )
    axes[0].set_ylabel("accuracy on the\nglobal test set (%)")
    return figure


def slides_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the slides' table on `topics`, beside what they print of MIND; a dash where nothing is recorded, or
    printed."""
    rows = []
    for network, printed in PRINTED.items():
        # The Text-CNN is the task's own network, which runs name "".
        method_runs = runs[runs["network"] == NETWORKS[network]]
        for arm in ARMS:
            finished = method_runs[method_runs["arm"] == arm].dropna(subset=METRICS)
            cells = [
                statistics.format_plus_minus(*statistics.mean_interval(finished[k]))
                for k in reversed(METRICS)
            ]
            # What the slides call FedOpt is their Algorithm 1, which takes the plain mean.
            on_mind = printed.get(TEXT_ARMS.get(arm, ""), ("–", "–"))
            rows.append((network, arm, *cells, len(finished), *on_mind))
    columns = ["network", "method", "macro F1 (%)", "accuracy (%)", "seeds"]
    columns += ["MIND, printed: macro F1", "MIND, printed: accuracy"]
    return pd.DataFrame(rows, columns=columns)


def _metric_cells(runs: pd.DataFrame) -> str:
    """Return macro F1 / accuracy of the runs that did not diverge, each a mean with half the width of its interval; where
    some diverged, with the number of seeds that the means rest on."""
    finished = runs.dropna(subset=METRICS)
    intervals = (statistics.mean_interval(finished[metric]) for metric in reversed(METRICS))
    cells = " / ".join(statistics.format_plus_minus(*each) for each in intervals)
    all_finished = len(finished) == len(runs)
    return cells if all_finished else f"{cells} ({len(finished)} of {len(runs)} seeds)"


def real_text_table(runs: pd.DataFrame, network: str) -> pd.DataFrame:
    """Tabulate the slides' methods on titles of Reuters and on posts, as macro F1 / accuracy, beside what the slides print
    with a network, text-cnn or transformer; a dash where nothing is printed. Beside the Text-CNN on posts is the linear
    network on their mean vectors."""
    places = [("reuters-titles", NETWORKS[network]), ("newsgroups-words", NETWORKS[network])]
    if network == "text-cnn":
        places.append(("newsgroups", ""))
    rows = []
    for arm, printed_arm in TEXT_ARMS.items():
        titles, *posts = (
            _metric_cells(
                runs[(runs["task"] == task) & (runs["network"] == each) & (runs["arm"] == arm)]
            )
            for task, each in places
        )
        mind, toys, beauty = _printed_cells(network, printed_arm)
        rows.append((arm, mind, titles, toys, beauty, *posts))
    columns = ["method", "MIND, printed", "titles", "Toys, printed", "Beauty, printed"]
    columns += ["posts", "posts, linear"][: len(places) - 1]
    return pd.DataFrame(rows, columns=columns)


def _printed_cells(network: str, printed_arm: str) -> list[str]:
    """Return what the slides print of a method on MIND, Toys and Beauty, macro F1 / accuracy; a dash for nothing."""
    return [
        " / ".join(printed[network].get(printed_arm, ("–",)))
        for printed in (PRINTED, PRINTED_TOYS, PRINTED_BEAUTY)
    ]


def differences_on_real_text(runs: pd.DataFrame, metric: str = "macro_f1") -> pd.DataFrame:
    """Return by how many points private FedSampling is above each other method on real text, with 95 % intervals:
    indexed by task and arm."""
    rows = {}
    for task, part in runs.groupby("task"):
        wide = part.pivot_table(metric, "seed", "arm")
        for arm in wide:
            if arm != PRIVATE and PRIVATE in wide:
                rows[task, arm] = statistics.mean_interval((wide[PRIVATE] - wide[arm]).dropna())
    index = pd.MultiIndex.from_tuples(list(rows), names=["task", "arm"])
    return pd.DataFrame(list(rows.values()), index, columns=["mean", "low", "high"])


def true_total_behind(runs: pd.DataFrame, metric: str = "macro_f1") -> statistics.Interval:
    """Return by how many points of a metric FedSampling with the true total is behind fedavg on titles of Reuters."""
    titles = runs[runs["task"] == "reuters-titles"].pivot_table(metric, "seed", "arm")
    return statistics.mean_interval((titles["fedavg"] - titles["fedsampling"]).dropna())


SUMMARY = {  # the rows of `summary_table`: task, network as runs name it, metric
    "MNIST, σ = 1.5": ("mnist", "", "test_accuracy"),
    "`topics`, Text-CNN": ("topics", "", "macro_f1"),
    "`topics`, Transformer": ("topics", "transformer", "macro_f1"),
    "titles, Text-CNN": ("reuters-titles", "", "macro_f1"),
    "titles, Transformer": ("reuters-titles", "transformer", "macro_f1"),
    "posts, Text-CNN": ("newsgroups-words", "", "macro_f1"),
    "posts, Transformer": ("newsgroups-words", "transformer", "macro_f1"),
    "posts, linear": ("newsgroups", "", "macro_f1"),
}
RIVALS = ("fedavg", "fedavg-unbiased", "md", *(f"{m}{PLAIN}" for m in FEDOPT))


def summary_table(*frames: pd.DataFrame) -> pd.DataFrame:
    """Tabulate by data set and network how far FedSampling is above fedavg and private FedSampling above its best rival.

    Args:
        frames: ends of runs (`final_metrics`), each with one federation a task and one epsilon and size cap.

    Returns:
        differences with 95 % intervals over seeds, and how many private runs diverged; rivals have the slides' plain mean.
    """
    runs, rows = pd.concat(frames), []
    for name, (task, network, metric) in SUMMARY.items():
        part = runs[(runs["task"] == task) & (runs["network"] == network)]
        wide = part.pivot_table(metric, "seed", "arm")
        if not {"fedavg", "fedsampling", PRIVATE} <= set(wide):
            continue
        best = wide[[arm for arm in RIVALS if arm in wide]].mean().idxmax()
        true, private, over_best = (
            _format_above(wide[arm] - wide[other])
            for arm, other in (("fedsampling", "fedavg"), (PRIVATE, "fedavg"), (PRIVATE, best))
        )
        lost = part.loc[part["arm"] == PRIVATE, metric].isna()
        rival = f"{METHOD_NAMES[best.removesuffix(PLAIN)]}: {over_best}"
        rows.append((name, true, private, rival, f"{lost.sum()} of {len(lost)}"))
    columns = ["data, network", "true total above fedavg", "private above fedavg"]
    return pd.DataFrame(rows, columns=[*columns, "private above best rival", "diverged"])


def _format_above(differences: pd.Series) -> str:
    """Format the mean of paired differences with its interval."""
    interval = statistics.mean_interval(differences.dropna())
    return statistics.format_interval(*interval, "+.1f").replace("-", "−")


def count_diverged(runs: pd.DataFrame) -> dict[str, Any]:
    """Count the runs on `topics` with the Text-CNN that diverged.

    Returns:
        lost, lost_private: how many, of all runs and of private FedSampling's;
        of: the number of private FedSampling's runs;
        noisy, of_noisy: how many of those with an epsilon of 1 or less diverged, and how many there are;
        by_spread: by sigma, how many of those with log-normal sizes diverged, without the sigmas where none did;
        of_spread: the number of runs at each sigma;
        capped, of_capped: how many of those with a larger size cap diverged, and how many there are.
    """
    runs = runs[runs["network"] == ""]  # the task's own network, which is the Text-CNN
    is_private = runs["arm"] == PRIVATE
    private = runs[is_private].assign(diverged=lambda frame: frame[METRICS[0]].isna())
    noisy = private[private["epsilon"] <= 1]
    capped = private[private["size_cap"] > HIDDEN["topics"]["size_cap"]]
    by_sigma = private.dropna(subset="sigma").groupby("sigma")["diverged"]
    by_spread = by_sigma.sum()
    return {
        "lost": int(runs[METRICS[0]].isna().sum()),
        "lost_private": int(private["diverged"].sum()),
        "of": len(private),
        "noisy": int(noisy["diverged"].sum()),
        "of_noisy": len(noisy),
        "by_spread": by_spread[by_spread > 0].astype(int).to_dict(),
        "of_spread": int(by_sigma.size().min()),
        "capped": int(capped["diverged"].sum()),
        "of_capped": len(capped),
    }


def table_findings(runs: pd.DataFrame) -> tuple[dict[str, str], dict[str, bool]]:
    """Return what the page states of `slides_table`: differences in macro F1 with 95 % intervals over seeds, and by
    sentence whether it holds."""

    def difference(network: str, arm: str, other: str) -> statistics.Interval:
        by_arm = runs[runs["network"] == network].pivot_table("macro_f1", "seed", "arm")
        return statistics.mean_interval((by_arm[arm] - by_arm[other]).dropna())

    networks = {"text_cnn": "", "transformer": "transformer"}
    lead = {name: difference(n, "fedadagrad", PRIVATE) for name, n in networks.items()}
    plain_arm = f"fedadagrad{PLAIN}"
    plain = {name: difference(n, plain_arm, PRIVATE) for name, n in networks.items()}
    private = {name: difference(n, PRIVATE, "fedavg") for name, n in networks.items()}
    true_total = difference("transformer", "fedsampling", "fedavg")
    others = [arm for arm in ARMS if not arm.startswith("fedadagrad")]
    lows = [difference(n, "fedadagrad", arm).low for n in networks.values() for arm in others]
    central = [
        difference(n, arm, "centralised").low
        for n in networks.values()
        for arm in ("fedadagrad", plain_arm)
    ]
    holds = {
        "best": min(lows) > 0,
        "plain": min(each.low for each in plain.values()) > 0,
        "central": min(central) > 0,
        "fedavg": private["transformer"].low > 0 > private["text_cnn"].low,
        "true": true_total.low < 0 < true_total.high,
    }
    intervals = {f"adagrad_{name}": interval for name, interval in lead.items()}
    intervals |= {f"plain_{name}": interval for name, interval in plain.items()}
    intervals |= {"over_fedavg": private["transformer"], "true_over_fedavg": true_total}
    return {k: statistics.format_interval(*v, ".1f") for k, v in intervals.items()}, holds


def words_findings(text_cnn: pd.DataFrame, transformer: pd.DataFrame) -> dict[str, bool]:
    """Return by sentence whether what the page states of each network on the words of posts holds: how private
    FedSampling, by macro F1, stands to fedavg, to the servers and to centralised training."""
    cnn, above = (
        differences_on_real_text(runs).loc["newsgroups-words"] for runs in (text_cnn, transformer)
    )
    servers = adagrad, *moments = [f"{m}{PLAIN}" for m in ("fedadagrad", "fedadam", "fedyogi")]
    ends = text_cnn[text_cnn["task"] == "newsgroups-words"].pivot_table("macro_f1", "seed", "arm")
    ahead = [statistics.mean_interval((ends[m] - ends["fedavg"]).dropna()) for m in servers]
    return {
        "finished": all(bool(runs["macro_f1"].notna().all()) for runs in (text_cnn, transformer)),
        "cnn fedavg": cnn.loc["fedavg", "low"] < 0 < cnn.loc["fedavg", "high"],
        "cnn servers": cnn.loc[servers, "high"].max() < 0,
        "cnn ahead": min(each.low for each in ahead) > 0,
        "cnn centralised": cnn.loc["centralised", "high"] < 0,
        "fedavg": above.loc["fedavg", "low"] > 0,
        "adagrad": above.loc[adagrad, "high"] < 0,
        "moments": bool(((above.loc[moments, "low"] < 0) & (above.loc[moments, "high"] > 0)).all()),
        "centralised": above.loc["centralised", "high"] < 0,
    }


def titles_findings(runs: pd.DataFrame) -> tuple[dict[str, str | float], dict[str, bool]]:
    """Return what the page states of titles of Reuters with the Text-CNN, from the ends of runs (`final_metrics`).

    Returns:
        points of accuracy with 95 % intervals over seeds: what FedSampling gains from equal sizes to the largest
        spread, how far FedSampling with the true total is behind fedavg at equal sizes, and behind MD sampling at the
        spread at which it comes nearest; and by sentence whether it holds.
    """
    titles = runs[(runs["task"] == "reuters-titles") & (runs["network"] == "")]
    wide = titles.pivot_table("test_accuracy", ["seed", "sigma"], "arm")
    equal, spread = (wide.xs(sigma, level="sigma") for sigma in (SPREADS[0], SPREADS[-1]))
    gains = {
        arm: statistics.mean_interval((spread[arm] - equal[arm]).dropna())
        for arm in ("fedavg", "md", "fedsampling")
    }
    behind = statistics.mean_interval((equal["fedavg"] - equal["fedsampling"]).dropna())
    more = [spread["fedsampling"] - equal["fedsampling"] - spread[a] + equal[a] for a in gains]
    in_the_end = statistics.mean_interval((spread["fedavg"] - spread["fedsampling"]).dropna())
    usual = titles[titles["sigma"] == USUAL_SIGMA].pivot_table("test_accuracy", "seed", "arm")
    behind_md = [
        statistics.mean_interval((each["md"] - each["fedsampling"]).dropna())
        for each in (equal, usual, spread)
    ]
    over = {
        arm: statistics.mean_interval((usual[PRIVATE] - usual[arm]).dropna())
        for arm in ("fedavg", "fedavg-unbiased", "md")
    }
    holds = {
        "baselines": min(gains["fedavg"].low, gains["md"].low) > -QUICKLY,
        "fedsampling": min(statistics.mean_interval(m.dropna()).low for m in more[:2]) > 0,
        "behind": behind.low > 0 > in_the_end.low and in_the_end.high > 0,
        "behind md": min(each.low for each in behind_md) > 0,
        "draws": all(low < 0 < high for _, low, high in over.values()),
    }
    numbers: dict[str, str | float] = {
        "titles_fedsampling": statistics.format_interval(*gains["fedsampling"], ".1f"),
        "titles_behind": statistics.format_interval(*behind, ".1f"),
        "titles_behind_md": min(each.mean for each in behind_md),
    }
    return numbers, holds


def images_findings(
    sweep: tables.RecordedSweep,
) -> tuple[dict[str, str | float], dict[str, bool]]:
    """Return what the page states of MNIST with the network of FedSampling's code.

    Args:
        sweep: its runs: of private FedSampling with all clients and with a tenth of them, of fedavg and of MD sampling.

    Returns:
        the accuracies in % in the end of private FedSampling; its points above fedavg, with all clients also above MD
        sampling, with 95 % intervals over seeds; how many times the bytes of fedavg it sends up with all clients; and by
        sentence whether it holds.
    """
    arms = final_metrics(sweep).pivot_table("test_accuracy", "seed", "arm")
    above = {
        arm: statistics.mean_interval((arms[PRIVATE] - arms[arm]).dropna())
        for arm in ("fedavg", "md", TENTH)
    }
    tenth_above, tenth_above_md = (
        statistics.mean_interval((arms[TENTH] - arms[arm]).dropna()) for arm in ("fedavg", "md")
    )
    last = tables.select_final_rounds(sweep.frame)
    costs = last.groupby(["method", "participants"])[["bytes_up", "examples"]].mean()
    ratios = costs / costs.loc["fedavg"].mean()
    whole = ratios.loc["fedsampling"].loc[100]
    values: dict[str, str | float] = {
        f"images_above_{arm}": statistics.format_interval(*above[arm], ".1f")
        for arm in ("fedavg", "md")
    }
    values |= {"images_tenth_fedavg": statistics.format_interval(*tenth_above, "+.1f")}
    values |= {"images_tenth_md": statistics.format_interval(*tenth_above_md, "+.1f")}
    values |= {"images_private": arms[PRIVATE].mean(), "images_tenth": arms[TENTH].mean()}
    values |= {"images_bytes": whole["bytes_up"]}
    return values, {
        "above": min(above["fedavg"].low, above["md"].low) > 0,
        "examples": bool(ratios["examples"].between(0.8, 1.25).all()),
        "bytes": 0.8 < ratios.loc["fedsampling"].loc[10]["bytes_up"] < 1.25,
        "tenth": all(low < 0 < high for _, low, high in (tenth_above, tenth_above_md)),
        "everyone": above[TENTH].low > 0,
    }


def verdicts_table() -> pd.DataFrame:
    """Tabulate the verdicts on the slides' claims by real text and MNIST; those on Beauty rest on the runs of Toys."""
    return ledger.substitutes_table(f"slides-{name}" for name in CLAIMS)


class Panel(NamedTuple):
    """A panel of `draw_ablations`: accuracies of runs by arm and place on the x-axis, and the labels of the places."""

    accuracies: dict[str, dict[float, pd.Series]]
    labels: Sequence[str]
    xlabel: str = ""
    split: float | None = None  # where a vertical line separates two groups of places


def _arm_style(arm: str) -> plots.Style:
    style = plots.Style(plots.BROWN, "--") if arm == PRIVATE else plots.method_style(arm)
    return style._replace(marker="o")


def _dot_style(arm: str) -> plots.Style:
    return _arm_style(arm)._replace(dash="")


def _compare_arms(runs: pd.DataFrame, arms: Sequence[str]) -> Panel:
    """Put the recorded arms beside each other."""
    groups = dict(list(runs.groupby("arm")[METRICS[0]]))
    recorded = [arm for arm in arms if arm in groups]
    labels = [arm.replace(", ", ",\n").replace("-", "-\n") for arm in recorded]
    return Panel({arm: {x: groups[arm]} for x, arm in enumerate(recorded)}, labels)


def _compare_spreads(runs: pd.DataFrame, arms: Sequence[str]) -> Panel:
    """Put the arms over the spreads of the clients' sizes, a little apart."""
    groups = dict(list(runs.groupby(["arm", "sigma"])[METRICS[0]]))
    accuracies: dict[str, dict[float, pd.Series]] = {}
    for k, arm in enumerate(arms):
        places = {x + 0.1 * (k - 1.5): (arm, sigma) for x, sigma in enumerate(SPREADS)}
        accuracies[arm] = {x: groups[key] for x, key in places.items() if key in groups}
    recorded = {arm: by_place for arm, by_place in accuracies.items() if by_place}
    return Panel(recorded, [f"{sigma:g}" for sigma in SPREADS], xlabel="σ of the sizes")


def _compare_privacy(runs: pd.DataFrame, task: str) -> Panel:
    """Put private FedSampling at each epsilon beside each size cap M."""
    default = HIDDEN[task]
    epsilons = sorted([*EPSILONS, default["epsilon"]])
    caps = sorted([*CAPS[task], default["size_cap"]])
    settings = [(f"ε\n{epsilon:g}", epsilon, default["size_cap"]) for epsilon in epsilons]
    settings += [(f"M\n{cap}", default["epsilon"], cap) for cap in caps]
    groups = dict(list(runs.groupby(["epsilon", "size_cap"])[METRICS[0]]))
    places = {x: tuple(setting[1:]) for x, setting in enumerate(settings)}
    accuracies = {x: groups[key] for x, key in places.items() if key in groups}
    labels = [label for label, *_ in settings]
    return Panel({PRIVATE: accuracies} if accuracies else {}, labels, split=len(epsilons) - 0.5)


def _draw_panel(ax: Axes, panel: Panel, note: str) -> None:
    """Draw a panel, or the note where none of its runs is recorded."""
    if not panel.accuracies:
        plots.write_in_panel(ax, note)
        return
    joined = panel.xlabel != ""  # means over a quantity are joined, those of categories are not
    styles = _arm_style if joined else _dot_style
    places = range(len(panel.labels))
    limits = (-0.6, len(places) - 0.4)
    plots.run_means(ax, panel.accuracies, styles, xlim=limits, xlabel=panel.xlabel)
    ax.set_xticks(places, panel.labels, fontsize="medium" if joined else "small")
    if panel.split is not None:
        ax.axvline(panel.split, color=plots.GREY, lw=0.8)


class Ablations(NamedTuple):
    """The runs in which the slides vary one thing at a time."""

    draws: pd.DataFrame  # of clients, in the usual federation
    spreads: pd.DataFrame  # of the clients' sizes
    one_class: pd.DataFrame  # for each client
    hidden: pd.DataFrame  # private FedSampling in the usual federation, with every epsilon and M


def select_ablations(runs: pd.DataFrame, task: str) -> Ablations:
    """Select what the slides vary on one task, from the ends of runs (`final_metrics`)."""
    runs = runs[(runs["task"] == task) & (runs["network"] == "")]
    default = HIDDEN[task]
    is_default = (runs["epsilon"] == default["epsilon"]) & (runs["size_cap"] == default["size_cap"])
    at_default = runs["epsilon"].isna() | is_default
    kind, sigma = DEFAULT_PARTITIONS[task]
    sigmas = runs["sigma"] == sigma if kind == "lognormal" else runs["sigma"].isna()
    federation = (runs["partition"] == kind) & sigmas
    lognormal, by_class = (runs["partition"] == name for name in ("lognormal", "by_class"))
    return Ablations(
        runs[federation & at_default],
        runs[lognormal & at_default],
        runs[by_class & at_default],
        runs[federation & (runs["arm"] == PRIVATE)],
    )


def ablation_findings(
    on_topics: pd.DataFrame, on_mnist: pd.DataFrame
) -> tuple[dict[str, str | float], dict[str, bool]]:
    """Return what the page states of the slides' ablations on `topics` and on MNIST, from the ends of runs.

    Returns:
        points of accuracy with 95 % intervals over seeds, of runs that did not diverge; how many runs of private
        FedSampling diverged at the largest spread, and of how many; and by sentence whether it holds.
    """
    topics, mnist = select_ablations(on_topics, "topics"), select_ablations(on_mnist, "mnist")

    def above(runs: pd.DataFrame, arm: str, other: str) -> statistics.Interval:
        """Estimate by how much an arm is above another, over paired seeds."""
        wide = runs.pivot_table("test_accuracy", "seed", "arm")
        return statistics.mean_interval((wide[arm] - wide[other]).dropna())

    def change(runs: pd.DataFrame, arm: str) -> statistics.Interval:
        """Estimate by how much an arm's accuracy changes from equal sizes to the largest spread."""
        wide = runs[runs["arm"] == arm].pivot_table("test_accuracy", "seed", "sigma")
        return statistics.mean_interval((wide[SPREADS[-1]] - wide[SPREADS[0]]).dropna())

    behind = {
        sigma: above(topics.spreads[topics.spreads["sigma"] == sigma], "fedavg", PRIVATE)
        for sigma in (SPREADS[0], USUAL_SIGMA)
    }
    of_draws = [above(topics.draws, PRIVATE, arm) for arm in ("fedavg", "fedavg-unbiased", "md")]
    is_widest = (topics.spreads["arm"] == PRIVATE) & (topics.spreads["sigma"] == SPREADS[-1])
    widest = topics.spreads.loc[is_widest, "test_accuracy"]
    lost = int(widest.isna().sum())
    intervals = {
        "topics_spread_fedavg": change(topics.spreads, "fedavg"),
        "topics_class_fedavg": above(topics.one_class, "fedsampling", "fedavg"),
        "topics_class_md": above(topics.one_class, "fedsampling", "md"),
        "mnist_draws_fedavg": above(mnist.draws, PRIVATE, "fedavg"),
        "mnist_draws_md": above(mnist.draws, PRIVATE, "md"),
        "mnist_true_fedavg": above(mnist.draws, "fedsampling", "fedavg"),
        "mnist_true_md": above(mnist.draws, "fedsampling", "md"),
        "mnist_spread_fedavg": change(mnist.spreads, "fedavg"),
        "mnist_spread_md": change(mnist.spreads, "md"),
        "mnist_class_private": above(mnist.one_class, PRIVATE, "fedavg"),
        "mnist_class_true": above(mnist.one_class, "fedsampling", "fedavg"),
    }

    def group(start: str) -> list[statistics.Interval]:
        """Return the intervals whose names begin so."""
        return [each for name, each in intervals.items() if name.startswith(start)]

    holds = {
        "topics draws": all(each.low < 0 < each.high for each in of_draws),
        "topics behind": min(each.low for each in behind.values()) > 0,
        "topics spread": intervals["topics_spread_fedavg"].high < 0 and 2 * lost > len(widest),
        "topics class": all(each.low < 0 < each.high for each in group("topics_class")),
        "mnist draws": min(each.low for each in group("mnist_draws")) > 5,
        "mnist true": all(each.low > -1 and each.high < 1 for each in group("mnist_true")),
        "mnist spread": min(each.low for each in group("mnist_spread")) > -QUICKLY,
        "mnist class": min(each.low for each in group("mnist_class")) > 0,
    }
    loss = -np.array(intervals["topics_spread_fedavg"])[[0, 2, 1]]
    values: dict[str, str | float] = {
        name: statistics.format_interval(*intervals[name], ".1f")
        for name in ("mnist_class_true", "mnist_class_private")
    }
    values |= {"topics_spread_fedavg": statistics.format_interval(*loss, ".1f")}
    for name, each in zip(("equal", "usual"), behind.values(), strict=True):
        values[f"topics_behind_{name}"] = statistics.format_interval(*each, ".1f")
    return values | {"topics_lost": lost, "topics_of": len(widest)}, holds


def draw_ablations(runs: pd.DataFrame, task: str, note: str) -> Figure:
    """Draw what the slides vary on one task: how clients are sampled, the spread of their sizes, one class per client,
    and FedSampling's epsilon and M. `note` stands where runs of a panel are not recorded, or none at all."""
    ablations = select_ablations(runs, task)
    if all(not len(part) for part in ablations):
        return plots.not_recorded(note)
    label = PARTITION_LABELS[DEFAULT_PARTITIONS[task][0]]
    designs = ("fedavg", "fedavg-unbiased", "md", PRIVATE)
    arms = ("fedavg", "md", PRIVATE, "fedsampling")
    parts = {
        f"Ways to draw clients ({label})": _compare_arms(ablations.draws, designs),
        "Spread of the sizes": _compare_spreads(ablations.spreads, arms),
        "One class each": _compare_arms(ablations.one_class, arms),
        f"ε and M ({label})": _compare_privacy(ablations.hidden, task),
    }
    figure = plots.panels(_draw_panel, parts, note, height=2.3, sharex=False, columns=2)
    for ax in figure.axes[::2]:
        ax.set_ylabel("accuracy on the\nglobal test set (%)")
    recorded = set(pd.concat(ablations[:3])["arm"])
    styles = {arm: _arm_style(arm)._replace(marker="") for arm in arms if arm in recorded}
    plots.legend(figure, styles, columns=4)
    return figure
