"""Figures and tables of the page *Neighbours: FedSampling*, and the recorded runs that it reads.

Sigma is the parameter of the log-normal partition, the spread of the clients' sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.pages.ch05 import METHOD_NAMES
from companion.runs import (
    fedsampling_grid,
    least_variance_results,
    records,
    statistics,
    tables,
)
from fedstas import methods

PRIVATE, ALL = "fedsampling, private", "fedavg, all clients"
ARMS = {  # in the chapter's order, with the page's label
    "fedavg": plots.Style(plots.GREY, "", "s", "fedavg"),
    "md": plots.Style(plots.PINK, "", "D", "md"),
    "fedsampling": plots.Style(plots.PURPLE, "", "o", "FedSampling"),
    PRIVATE: plots.Style(plots.BROWN, "", "^", "FedSampling, private"),
    ALL: plots.Style(plots.BLACK, "", "v", "fedavg, all clients"),
}
IMBALANCE_SWEEPS = ("imbalance", "fedsampling-mnist-ablations")
PRIVATE_SETTINGS = fedsampling_grid.HIDDEN["mnist"]  # epsilon and size cap of private FedSampling


def format_signed(value: float) -> str:
    """Format a number with its sign and one decimal."""
    return f"{value:+.1f}".replace("-", "−")


def format_difference(values) -> str:
    """Format the mean of paired differences, with its 95 % interval where there are two or more."""
    mean, low, high = statistics.mean_interval(np.asarray(values)[~np.isnan(values)])
    interval = "" if np.isnan(low) else f" ({format_signed(low)} to {format_signed(high)})"
    return format_signed(mean) + interval


def format_list(words: Iterable[str]) -> str:
    """Format words as `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}"


def draw_distributions(distributions: dict[str, list[tuple]], target: float) -> Figure:
    """Draw the exact distribution of the aggregate under each rule; a triangle marks its mean.

    Args:
        distributions: for each rule its outcomes, as pairs (value, probability).
        target: the mean over the pool, a dashed line.
    """

    def draw(ax: Axes, outcomes: list[tuple]) -> None:
        """Draw the distribution under one rule into a panel."""
        values, probabilities = np.array(outcomes, dtype=float).T
        support, where = np.unique(values.round(9), return_inverse=True)
        # FedSampling is first.
        colour = plots.PURPLE if ax is ax.figure.axes[0] else plots.DARK_GREY
        ax.bar(support, np.bincount(where, probabilities), 0.1, color=colour, alpha=0.7, lw=0)
        ax.axvline(target, color=plots.BLACK, lw=1.2, ls="--")
        if ax is ax.figure.axes[0]:
            plots.annotate(ax, target, 0.36, "pooled mean", plots.BLACK, 4)
        ax.plot(values @ probabilities, 0.4, "v", color=colour, ms=9, mec=plots.BLACK)
        ax.set(ylim=(0, 0.45), yticks=[0, 0.2, 0.4])
        ax.grid(axis="x", visible=False)

    options = {"height": 1.7, "columns": 3, "sharey": True}
    return plots.panels(draw, distributions, xlabel="aggregate", ylabel="probability", **options)


def draw_reach(shares: dict[float, np.ndarray]) -> Figure:
    """Draw which share of all examples one round can draw on: the median, and a range that holds 95 % of the rounds.

    Args:
        shares: by sigma, of rounds of fedavg, md and FedSampling [rounds, 3].
    """
    names, series = ("fedavg", "md", "fedsampling"), {}
    for place, name in enumerate(names):
        quantiles = [np.percentile(100 * x[:, place], (50, 2.5, 97.5)) for x in shares.values()]
        rows = [f"σ = {sigma:g}" for sigma in shares]
        series[name] = pd.DataFrame(quantiles, rows, ["mean", "low", "high"])
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.6))
    plots.intervals(ax, series, ARMS, spread=0.5, xlim=(0, 100))
    ax.axvline(10, color=plots.GREY, lw=0.8, ls="--")
    plots.annotate(
        ax, 10, 1, "a tenth", plots.GREY, 0, 6, ha="center", xycoords=ax.get_xaxis_transform()
    )
    ax.set_xlabel("examples that a round can draw on (% of all)")
    plots.legend(figure, {name: ARMS[name] for name in names}, columns=3)
    return figure


def load_imbalance() -> pd.DataFrame:
    """Load the recorded runs on MNIST with log-normal sizes: a row per measured round, with the columns of recorded
    runs and `arm`, `sigma`, `cap`, `epsilon`, `lr`, `megabytes` and `thousands` (of examples)."""
    settings, sweeps = {}, [Path("results") / name for name in IMBALANCE_SWEEPS]
    for run, identity in (pair for s in sweeps for pair in records.identities(s).items()):
        method, data = identity["method"], identity["method"]["data"]
        private = data.get("epsilon") is not None
        other_settings = {key: data.get(key) for key in PRIVATE_SETTINGS} != PRIVATE_SETTINGS
        if identity["partition"]["name"] != "lognormal" or (private and other_settings):
            continue
        settings[run] = {
            "arm": PRIVATE if private else method["name"],
            "sigma": identity["partition"].get("sigma"),
            "cap": data.get("size_cap"),
            "epsilon": data.get("epsilon"),
            "lr": method["local"]["lr"],
        }
    frame = pd.concat([records.load(sweep) for sweep in sweeps], ignore_index=True)
    frame = frame[(frame["task"] == "mnist") & frame["run"].isin(settings)]
    frame = frame.join(pd.DataFrame.from_dict(settings, orient="index"), on="run")
    megabytes = (frame["bytes_down"] + frame["bytes_up"]) / 1e6
    return frame.assign(megabytes=megabytes, thousands=frame["examples"] / 1e3)


def draw_differences(accuracies: Mapping[str, pd.DataFrame], other: str = "fedavg") -> Figure:
    """Draw by how many points the arms are above another one in each setting, with 95 % intervals over seeds.

    Args:
        accuracies: by metric a frame of runs, a column per arm, its index starting with sigma.
        other: the arm that the others are compared with.
    """
    figure, axes = plt.subplots(1, len(accuracies), figsize=(plots.WIDE, 2.9), sharey=True)
    for ax, (metric, runs) in zip(np.atleast_1d(axes), accuracies.items(), strict=True):
        settings = runs.groupby(level=0)
        series = {}
        for arm in (arm for arm in ARMS if arm in runs and arm != other):
            rows = [statistics.mean_interval((x[arm] - x[other]).dropna()) for _, x in settings]
            names = [f"σ = {name:g}" for name, _ in settings]
            series[arm] = pd.DataFrame(rows, names, ["mean", "low", "high"])
        plots.intervals(ax, series, ARMS, reference=0, spread=0.5)
        ax.set_title(plots.METRICS[metric][0], loc="left", fontsize=9)
        ax.set_xlabel(f"points above {ARMS[other].label}")
        plots.annotate(
            ax, 0, 0.02, f"{other} = 0", plots.GREY, 4, xycoords=ax.get_xaxis_transform()
        )
    plots.legend(figure, {arm: ARMS[arm] for arm in series}, columns=3)
    return figure


def draw_live(above: Mapping[tuple[str, str], tuple[float, float, float]]) -> Figure:
    """Draw by how many points FedSampling is above fedavg and above the control, in each partition.

    Args:
        above: the mean difference and its 95 % interval, by partition and arm.
    """
    partitions = list(dict.fromkeys(name for name, _ in above))
    series = {
        arm: pd.DataFrame(
            [above[name, arm] for name in partitions], partitions, ["mean", "low", "high"]
        )
        for arm in ("fedavg", ALL)
    }
    styles = {arm: ARMS[arm]._replace(label=f"above {ARMS[arm].label}") for arm in series}
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.4))
    plots.intervals(ax, series, styles, reference=0, spread=0.4)
    ax.set_xlabel("points by which FedSampling is ahead")
    top = {"xycoords": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    plots.annotate(ax, 0, 1, "no difference", plots.BLACK, 0, 2, **top)
    plots.legend(figure, styles)
    return figure


def tabulate_differences(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Tabulate by sigma fedavg's accuracy, and by how many points the other arms are above it."""
    rows = []
    for sigma, runs in accuracies.groupby("sigma"):
        row = {"σ": f"{sigma:g}", "fedavg (%)": f"{runs['fedavg'].mean():.1f}"}
        others = [arm for arm in ARMS if arm in runs and arm != "fedavg"]
        row |= {ARMS[a].label: format_difference(runs[a] - runs["fedavg"]) for a in others}
        rows.append(row)
    return pd.DataFrame(rows)


def draw_over_costs(runs: pd.DataFrame, sigma: float) -> Figure:
    """Draw accuracy over bytes and over examples at one sigma: means of each arm, and thin lines for single seeds."""
    runs = runs[runs["sigma"] == sigma].assign(method=runs["arm"])
    arms = [arm for arm in ARMS if arm in set(runs["arm"])]
    labels = {"megabytes": "sent, down and up (MB)", "thousands": "examples processed (thousands)"}
    styles = {arm: ARMS[arm]._replace(dash="-") for arm in arms}
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDE, 3.0), sharey=True)
    for ax, (cost, label) in zip(axes, labels.items(), strict=True):
        options = {"styles": styles, "seeds": True, "names": False, "width": 1.6}
        plots.learning_curves(ax, runs, "test_accuracy", arms, x=cost, **options)
        ax.set(xscale="log", xlabel=label, ylabel="")
        ax.margins(x=0.05)
        plt.setp(ax.lines, markevery=0.2)
    axes[0].set_ylabel("accuracy on the\nglobal test set (%)")
    plots.legend(figure, styles, columns=4)
    return figure


def tabulate_costs(equal: dict[tuple[float, str], dict], means: pd.DataFrame) -> pd.DataFrame:
    """Tabulate what a round costs, and the accuracies at equal rounds, bytes and examples.

    Args:
        equal: by sigma and arm, the accuracies in percent, by what is equal.
        means: of `megabytes` and `thousands` of examples spent, by sigma, arm and round.
    """
    rows = []
    for (sigma, arm), accuracies in equal.items():
        last = means.loc[sigma, arm].iloc[-1] / means.loc[sigma, arm].index[-1]
        row = {"σ": f"{sigma:g}", "method": ARMS[arm].label}
        row["MB a round"] = f"{last['megabytes']:.1f}"
        row["examples a round"] = f"{1000 * last['thousands']:,.0f}"
        rows.append(row | {f"at equal {k} (%)": f"{v:.1f}" for k, v in accuracies.items()})
    return pd.DataFrame(rows)


def tabulate_live_runs(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Tabulate by partition the arms' accuracies in percent, and how many points FedSampling is above fedavg."""
    rows = []
    for name, runs in accuracies.groupby(level=0, sort=False):
        row = {"partition": name}
        row |= {ARMS[arm].label: f"{runs[arm].mean():.1f}" for arm in ARMS if arm in runs}
        for arm in ("fedavg", ALL):
            difference = format_difference(runs["fedsampling"] - runs[arm])
            row[f"FedSampling above {ARMS[arm].label}"] = difference
        rows.append(row)
    return pd.DataFrame(rows)


ERROR_PARTS = {  # colour, and where the name stands: x, points to the right and up, alignment
    "missing by clipping": (plots.BROWN, 12, 0, -10, "left"),
    "standard deviation": (plots.PURPLE, 230, -6, 4, "right"),
    "both": (plots.BLACK, 760, -4, 8, "right"),
}


def draw_errors_by_cap(
    parts: pd.DataFrame, totals: pd.DataFrame, best: dict[int, tuple[float, int]]
) -> Figure:
    """Draw the error of the private total, in % of the true one, over the size cap M.

    Args:
        parts: with 100 clients, a column for each of ERROR_PARTS; the caps are the index.
        totals: both parts together, a column for each number of clients.
        best: by number of clients, the least error (a share of the total) and its cap; a dot.
    """
    totals = totals.rename(columns="{:,}".format)
    colours = dict(zip(totals, (plots.BLACK, plots.DARK_GREY, plots.GREY), strict=True))
    styles = {part: plots.Style(colour) for part, (colour, *_) in ERROR_PARTS.items()}
    styles |= {name: plots.Style(colour) for name, colour in colours.items()}
    panels = {"100 clients": parts, "both parts, by the number of clients": totals}
    options = {"names": False, "width": 1.6, "sharey": True, "height": 2.65, "xlabel": "size cap M"}
    options |= {"columns": 2}
    options |= {"xscale": "log", "yscale": "log", "ylim": (2, 1500), "xlim": (10, 5500)}
    figure = plots.panels(plots.curves, panels, styles, **options)
    above, below = figure.axes
    for part, (colour, x, right, up, ha) in ERROR_PARTS.items():
        y = np.interp(x, parts.index, parts[part])
        plots.annotate(above, x, y, part, colour, right, up, ha=ha)
    for (error, cap), (name, colour) in zip(best.values(), colours.items(), strict=True):
        below.plot(cap, 100 * error, "o", color=colour, ms=6)
        plots.annotate(below, totals.index[-1], totals[name].iloc[-1], name, colour, up=5)
    for ax in figure.axes:
        ax.axhline(10, color=plots.GREY, lw=0.8, ls="--")
        ax.set_yticks([10, 100, 1000], ["10", "100", "1000"])
    above.set_ylabel("error of the total\n(% of the truth)")
    plots.annotate(above, 11, 10, "10 %", plots.GREY, 0, 6)
    below.set_xticks([10, 100, 601, 2000], ["10", "100", "601", "2000"])
    below.set_xticks([], minor=True)
    return figure


def draw_rates(rates: dict[int, dict[int, np.ndarray]]) -> Figure:
    """Draw the sampling rates that clients receive: their median, middle half (thick) and middle 90 %.

    Args:
        rates: the rates of many rounds, by the number of clients (a panel) and the size cap (a row).
    """
    parts = {}
    for clients, by_cap in rates.items():
        quantiles = [
            np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)) for values in by_cap.values()
        ]
        rows, columns = [f"M = {cap}" for cap in by_cap], ["low", "q25", "mean", "q75", "high"]
        parts[f"{clients:,} clients"] = pd.DataFrame(quantiles, rows, columns)

    def draw(ax: Axes, table: pd.DataFrame) -> None:
        """Draw the quantiles of the rates for one number of clients into a panel, a row for each cap."""
        styles = {"rates": plots.Style(plots.PURPLE)}
        plots.intervals(ax, {"rates": table}, styles, xscale="log", xlim=(0.03, 1.15))
        thick = {"color": plots.PURPLE, "lw": 6, "alpha": 0.6, "zorder": 1}
        ax.hlines(range(len(table))[::-1], table["q25"], table["q75"], **thick)
        ax.axvline(0.1, color=plots.BLACK, lw=1.2, ls="--")

    options = {"height": 1.7, "columns": 3, "sharey": True}
    figure = plots.panels(draw, parts, xlabel="sampling rate where 0.1 is wanted", **options)
    ticks = [0.05, 0.1, 0.2, 0.5, 1]
    figure.axes[-1].set_xticks(ticks, [f"{x:g}" for x in ticks])
    figure.axes[-1].set_xticks([], minor=True)
    return figure


def tabulate_steps(rates: dict[float, np.ndarray], clipped: dict[float, float]) -> pd.DataFrame:
    """Tabulate by sigma the share of examples above the size cap (`clipped`), quantiles of the sampling rates that
    clients receive, and the mean step over the intended one."""
    rows = []
    for sigma, values in rates.items():
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        share, step = f"{100 * clipped[sigma]:.0f}", f"{10 * values.mean():.1f}"
        rows.append((f"{sigma:g}", share, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", step))
    columns = [
        "σ",
        "above the cap (%)",
        "median sampling rate",
        "middle 90 %",
        "mean step (intended: 1)",
    ]
    return pd.DataFrame(rows, columns=columns)


def rank_methods() -> tuple[pd.DataFrame, list[str]]:
    """Rank the methods recorded in the papers' setting on MNIST by their accuracy on the global test set.

    Returns:
        a row per method, best first: `mean`, `least` and `most` accuracy and the mean under the clients' class
        shares (`client`) in percent, `bytes_down` and `bytes_up` in MB, `examples` in thousands, number of `seeds`;
        and the methods of the package that are not recorded there.
    """
    frame = pd.concat([records.load(f"results/{sweep}") for sweep in ("preprint", "methods")])
    frame = frame[(frame["task"] == "mnist") & (frame["partition"] == "dirichlet")]
    seeds = frame.groupby("method")["seed"].agg(set)
    common = set.intersection(*seeds)
    frame = frame[frame["seed"].isin(common)]
    test, client = (tables.pivot_seeds(frame, x) for x in ("test_accuracy", "client_accuracy"))
    last = frame[frame["round"] == frame["rounds"]].groupby("method").mean(numeric_only=True)
    ranked = pd.DataFrame(
        {"mean": test.mean(), "least": test.min(), "most": test.max(), "client": client.mean()}
    )
    ranked = ranked.join(last[["bytes_down", "bytes_up", "examples"]] / [1e6, 1e6, 1e3])
    ranked["seeds"] = len(common)
    missing = [name for name in methods.names() if name not in seeds.index]
    return ranked.sort_values("mean", ascending=False), missing


def load_other_accuracies() -> dict[str, pd.Series]:
    """Load what other sweeps record in the setting of `rank_methods`, as accuracies on the global test set in percent by
    seed: of the tuned servers, of least-variance strata and of examples allocated optimally."""
    least_variance = least_variance_results.load_frames()["MNIST, disjoint", 10]
    tuned, optimal = (records.load(f"results/{sweep}") for sweep in ("servers", "optimal-data"))
    optimal = optimal[optimal["partition"] == "dirichlet"]
    servers = tables.pivot_seeds(tuned, "test_accuracy")
    accuracies = {f"tuned_{m}": servers[m] for m in fedsampling_grid.FEDOPT}
    for name, frame, method in (
        ("least_variance", least_variance, "fedstas-least-variance"),
        ("optimal_data", optimal, "fedstas-optimal-data"),
    ):
        only = frame[frame["method"] == method]
        accuracies[name] = tables.pivot_seeds(only, "test_accuracy")[method]
    return accuracies


RANKED_NAMES = METHOD_NAMES | {
    "fedsampling": "FedSampling, private",
    "target": "clustered by label",
}


def tabulate_ranking(ranked: pd.DataFrame) -> pd.DataFrame:
    """Format the ranking of `rank_methods` as a table of text, a row for each method."""
    ends = ranked[["least", "most"]].to_numpy()
    columns = {
        "method": [RANKED_NAMES.get(name, f"`{name}`") for name in ranked.index],
        "global (%)": [f"{x:.1f}" for x in ranked["mean"]],
        # the lowest and the highest accuracy of a seed
        "seeds (%)": [f"{low:.1f}\u2060–\u2060{high:.1f}" for low, high in ends],
        "clients (%)": [f"{x:.1f}" for x in ranked["client"]],
        "down (MB)": [f"{x:,.0f}" for x in ranked["bytes_down"]],
        "up (MB)": [f"{x:,.0f}" for x in ranked["bytes_up"]],
        "examples (1,000)": [f"{x:,.0f}" for x in ranked["examples"]],
    }
    return pd.DataFrame(columns)
