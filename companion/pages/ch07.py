"""Figures and tables of chapter 7, *Neighbours: FedSampling*, and the recorded runs that it reads.

Sigma is the parameter of the log-normal partition, the spread of the clients' sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import fedsampling_grid, records, statistics, tables
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
        ax.plot(values @ probabilities, 0.4, "v", color=colour, ms=9, mec=plots.BLACK)
        ax.set(ylim=(0, 0.45), yticks=[0, 0.2, 0.4])
        ax.grid(axis="x", visible=False)

    return plots.panels(draw, distributions, height=1.4, xlabel="aggregate", ylabel="probability")


def draw_one_round(rounds: dict[float, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Draw how many examples of each client one round uses, over how many the client has.

    Args:
        rounds: by sigma, the clients' sizes [N], how many examples FedSampling draws of each [N], and ten clients
            sampled uniformly [10], who use all their examples.
    """
    largest = max(sizes.max() for sizes, _, _ in rounds.values())

    def draw(ax: Axes, part: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Draw one round at one sigma into a panel."""
        sizes, counts, cohort = part
        ax.plot(sizes, counts, "o", color=plots.PURPLE, ms=4, alpha=0.6, mew=0)
        ax.plot(sizes[cohort], sizes[cohort], "s", color=plots.GREY, ms=5)
        ax.set(xscale="log", xlim=(0.7, 2 * largest), ylim=(-0.4, 20 * largest))
        ax.set_yscale("symlog", linthresh=1)
        ax.set_yticks([0, 1, 100, 10_000], ["0", "1", "100", "10,000"])
        ten_clients = f"ten clients, all their examples: {sizes[cohort].sum():,}"
        corner = {"xycoords": "axes fraction"}
        plots.annotate(ax, 0.02, 0.93, ten_clients, plots.DARK_GREY, 0, **corner)
        drawn = f"FedSampling: {counts.sum():,}"
        plots.annotate(ax, 0.98, 0.09, drawn, plots.PURPLE, 0, ha="right", **corner)

    parts = {
        f"σ = {sigma:g}: {len(part[0])} clients with data": part for sigma, part in rounds.items()
    }
    labels = {"xlabel": "examples of the client", "ylabel": "examples used"}
    return plots.panels(draw, parts, height=2.45, sharey=True, **labels)


def tabulate_reach(
    shares: dict[float, np.ndarray], sizes: dict[float, np.ndarray], rate: float
) -> pd.DataFrame:
    """Tabulate by sigma which share of all examples a round reaches, as ranges of 95 % of the rounds.

    Args:
        shares: by sigma, of rounds of fedavg, md and FedSampling [rounds, 3].
        sizes: by sigma, the clients' sizes.
        rate: of FedSampling; the last column has the expected number of clients with no example in the sample.
    """
    rows = []
    for sigma, reached in shares.items():
        ends = np.percentile(100 * reached, (2.5, 97.5), axis=0).T
        ranges = [f"{low:.1f}\u2060–\u2060{high:.1f}" for low, high in ends]
        without = ((1 - rate) ** sizes[sigma]).sum()
        rows.append((f"{sigma:g}", *ranges, f"{without:.1f}"))
    columns = ["σ", "fedavg (%)", "md (%)", "FedSampling (%)", "clients that draw nothing"]
    return pd.DataFrame(rows, columns=columns)


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


def draw_accuracies(
    accuracies: dict[str, pd.DataFrame], labels: Mapping, arms: Sequence[str]
) -> Figure:
    """Draw the accuracy of each arm in each setting: single runs, means and 95 % intervals over seeds.

    Args:
        accuracies: by metric a frame of runs, a column per arm, its index starting with the setting.
        labels: of the settings on the axis.
    """
    parts = {}
    for metric, runs in accuracies.items():
        places: dict[str, dict[float, pd.Series]] = {arm: {} for arm in arms}
        for k, arm in enumerate(arms):
            for x, setting in enumerate(labels):
                places[arm][x + 0.16 * (k - (len(arms) - 1) / 2)] = runs.xs(setting)[arm]
        parts[plots.METRICS[metric][0]] = places
    options = {"height": 2.4, "sharey": True}
    figure = plots.panels(plots.run_means, parts, ARMS, **options)
    figure.axes[-1].set_xticks(range(len(labels)), list(labels.values()))
    plots.legend(figure, {arm: ARMS[arm] for arm in arms})
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
    figure, axes = plt.subplots(2, 1, figsize=(plots.WIDTH, 5.8), sharey=True)
    for ax, (cost, label) in zip(axes, labels.items(), strict=True):
        options = {"styles": styles, "seeds": True, "names": False, "width": 1.6}
        plots.learning_curves(ax, runs, "test_accuracy", arms, x=cost, **options)
        ax.set(xscale="log", xlabel=label, ylabel="accuracy on the\nglobal test set (%)")
        ax.margins(x=0.05)
        plt.setp(ax.lines, markevery=0.2)
    plots.legend(figure, styles)
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
        ax.set_ylabel("error of the total\n(% of the truth)")
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

    figure = plots.panels(draw, parts, height=1.6, xlabel="rate where 0.1 is wanted")
    ticks = [0.05, 0.1, 0.2, 0.5, 1]
    figure.axes[-1].set_xticks(ticks, [f"{x:g}" for x in ticks])
    figure.axes[-1].set_xticks([], minor=True)
    return figure


def tabulate_steps(rates: dict[float, np.ndarray], clipped: dict[float, float]) -> pd.DataFrame:
    """Tabulate by sigma the share of examples above the size cap (`clipped`), quantiles of the rates that clients
    receive, and the mean step over the intended one."""
    rows = []
    for sigma, values in rates.items():
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        share, step = f"{100 * clipped[sigma]:.0f}", f"{10 * values.mean():.1f}"
        rows.append((f"{sigma:g}", share, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", step))
    columns = ["σ", "above the cap (%)", "median rate", "middle 90 %", "mean step (intended: 1)"]
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


def tabulate_ranking(ranked: pd.DataFrame) -> pd.DataFrame:
    """Format the ranking of `rank_methods` as a table of text, a row for each method."""
    ends = ranked[["least", "most"]].to_numpy()
    columns = {
        "method": [f"`{name}`" for name in ranked.index],
        "global (%)": [f"{x:.1f}" for x in ranked["mean"]],
        # the lowest and the highest accuracy of a seed
        "seeds (%)": [f"{low:.1f}\u2060–\u2060{high:.1f}" for low, high in ends],
        "clients (%)": [f"{x:.1f}" for x in ranked["client"]],
        "down (MB)": [f"{x:,.0f}" for x in ranked["bytes_down"]],
        "up (MB)": [f"{x:,.0f}" for x in ranked["bytes_up"]],
        "examples (1,000)": [f"{x:,.0f}" for x in ranked["examples"]],
    }
    return pd.DataFrame(columns)
