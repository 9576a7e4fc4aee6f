"""Figures and tables of chapter 7, *Neighbours: FedSampling*, and the recorded runs that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import fedsampling_grid, records, statistics, tables
from fedstas import methods

PURPLE, SOFT = plots.PURPLE, "#555555"
PRIVATE, ALL = "fedsampling, private", "fedavg, all clients"
SPREAD, HIDDEN = ("imbalance", "fedsampling-mnist-ablations"), fedsampling_grid.HIDDEN["mnist"]
ARMS = {  # by the chapter's names: what the page calls them, colour and marker
    "fedavg": ("fedavg", "#808080", "s"),
    "md": ("md", plots.PINK, "D"),
    "fedsampling": ("FedSampling", PURPLE, "o"),
    PRIVATE: ("FedSampling, private", "#B15928", "^"),
    ALL: ("fedavg, all clients", "#000000", "v"),
}
METRICS = {
    "test_accuracy": "accuracy on the\nglobal test set (%)",
    "client_accuracy": "accuracy under the\nclients' class shares (%)",
}


def signed(value: float) -> str:
    """With its sign, and one digit."""
    return f"{value:+.1f}".replace("-", "−")


def points(values) -> str:
    """A difference in points, with its 95 % interval over seeds where there are two or more."""
    mean, low, high = statistics.mean_interval(np.asarray(values)[~np.isnan(values)])
    return signed(mean) + ("" if np.isnan(low) else f" ({signed(low)} to {signed(high)})")


def listing(words) -> str:
    """a, b and c: what stands on an axis."""
    words = list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]])


def enumeration(laws: dict[str, list], target: float) -> Figure:
    """A panel per rule: what the aggregate can be and how likely, from (value, chance); a triangle at its mean."""
    figure, axes = plt.subplots(len(laws), 1, figsize=(4.2, 1.6 * len(laws)), sharex=True)
    for ax, (name, law), colour in zip(axes, laws.items(), (PURPLE, "#808080", "#404040"), strict=True):  # fmt: skip
        values, chances = np.array([[float(v), float(p)] for v, p in law]).T
        at, where = np.unique(values.round(9), return_inverse=True)
        ax.bar(at, np.bincount(where, chances), 0.1, color=colour, alpha=0.7)
        ax.axvline(target, color="black", lw=1.2, ls="--")
        ax.plot(values @ chances, 0.4, "v", color=colour, ms=9, mec="black")
        ax.set_title(name, loc="left", color=plots.text_colour(colour))
        ax.set(ylim=(0, 0.45), yticks=[0, 0.2, 0.4])
        ax.grid(axis="x", visible=False)
    axes[len(axes) // 2].set_ylabel("chance")
    axes[-1].set_xlabel("aggregate")
    return figure


def one_round(panels: dict[float, tuple]) -> Figure:
    """A panel per sigma, from (sizes, drawn of each, a cohort): what the clients hold, and what a round uses."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(4.2, 5.4), sharex=True, sharey=True)
    top = max(sizes.max() for sizes, _, _ in panels.values())
    for ax, (sigma, (sizes, drawn, cohort)) in zip(axes, panels.items(), strict=True):
        ax.plot(sizes, drawn, "o", color=PURPLE, ms=4, alpha=0.6, mew=0)
        ax.plot(sizes[cohort], sizes[cohort], "s", color="#808080", ms=5)
        where = {"transform": ax.transAxes, "fontsize": 9}
        ax.text(0.02, 0.9, f"ten clients, all they hold: {sizes[cohort].sum():,}", color=SOFT, **where)  # fmt: skip
        ax.text(0.98, 0.06, f"FedSampling: {drawn.sum():,}", color=PURPLE, ha="right", **where)
        ax.set_title(f"σ = {sigma:g}: {len(sizes)} clients with data", loc="left")
        ax.set(xscale="log", ylabel="examples used", xlim=(0.7, 2 * top), ylim=(-0.4, 20 * top))
        ax.set_yscale("symlog", linthresh=1)
        ax.set_yticks([0, 1, 100, 10_000], ["0", "1", "100", "10,000"])
    axes[-1].set_xlabel("examples that the client holds")
    return figure


def reach(shares: dict[float, np.ndarray], sizes: dict[float, np.ndarray], p: float) -> pd.DataFrame:  # fmt: skip
    """Per sigma: 95 % ranges of what rounds [R, 3] of three methods reach, and who draws nothing at rate p."""
    rows = []
    for sigma, reached in shares.items():
        ends = np.percentile(100 * reached, (2.5, 97.5), axis=0).T
        ranges = [f"{a:.1f}\u2060–\u2060{b:.1f}" for a, b in ends]
        empty = f"{((1 - p) ** sizes[sigma]).sum():.1f}"
        rows.append((f"{sigma:g}", *ranges, empty))
    columns = ["σ", "fedavg (%)", "md (%)", "FedSampling (%)", "clients that draw nothing"]
    return pd.DataFrame(rows, columns=columns)


def imbalance() -> pd.DataFrame:
    """The recorded runs on MNIST whose sizes are log-normal, of two sweeps, a row per measured round, with columns
    `arm`, `sigma`, `cap`, `epsilon`, `lr`, `megabytes` and `thousands` (of examples)."""
    about, sweeps = {}, [Path("results") / name for name in SPREAD]
    known = [pair for sweep in sweeps for pair in records.identities(sweep).items()]
    for run, who in known:
        method, data = who["method"], who["method"]["data"]
        private = data.get("epsilon") is not None
        asked = {key: data.get(key) for key in HIDDEN}
        if who["partition"]["name"] != "lognormal" or (private and asked != HIDDEN):
            continue
        about[run] = {
            "arm": PRIVATE if private else method["name"],
            "sigma": who["partition"].get("sigma"),
            "cap": data.get("size_cap"),
            "epsilon": data.get("epsilon"),
            "lr": method["local"]["lr"],
        }
    frame = pd.concat([records.load(sweep) for sweep in sweeps], ignore_index=True)
    frame = frame[(frame["task"] == "mnist") & frame["run"].isin(about)]
    frame = frame.join(pd.DataFrame.from_dict(about, orient="index"), on="run")
    megabytes = (frame["bytes_down"] + frame["bytes_up"]) / 1e6
    return frame.assign(megabytes=megabytes, thousands=frame["examples"] / 1e3)


def _side_by_side(ax: Axes, wide: pd.DataFrame, places: Sequence, arms: Sequence[str]) -> None:
    """Runs, means and 95 % intervals (of few seeds, none), the arms of a place beside each other."""
    for shift, arm in enumerate(arms):
        _, colour, marker = ARMS[arm]
        for place, level in enumerate(places):
            values = wide.xs(level)[arm].dropna()
            x = place + 0.16 * (shift - (len(arms) - 1) / 2)
            mean, low, high = statistics.mean_interval(values)
            ax.plot([x] * len(values), values, "_", color=colour, ms=6, alpha=0.6)
            if len(values) >= plots.MIN_SEEDS_FOR_BAND:
                ax.vlines(x, low, high, color=colour, lw=1.6)
            ax.plot(x, mean, marker, color=colour, ms=5)
    ax.grid(axis="x", visible=False)


def _names(figure: Figure, arms: Sequence[str]) -> None:
    """One legend for all panels, above them."""
    lines = [plt.Line2D([], [], color=c, marker=m, ls="") for _, c, m in (ARMS[a] for a in arms)]
    words = [ARMS[arm][0] for arm in arms]
    figure.legend(lines, words, loc="outside upper center", ncols=2, frameon=False)


def accuracies(wides: dict[str, pd.DataFrame], labels: dict, arms: Sequence[str]) -> Figure:
    """A panel per metric: accuracy of each arm at each place; `labels`: what the axis calls the places."""
    figure, axes = plt.subplots(len(wides), 1, figsize=(4.2, 5.6), sharex=True, sharey=True)
    for ax, (metric, wide) in zip(axes, wides.items(), strict=True):
        _side_by_side(ax, wide, list(labels), arms)
        ax.set_ylabel(METRICS[metric])
    axes[-1].set_xticks(range(len(labels)), list(labels.values()))
    _names(figure, arms)
    return figure


def differences(test: pd.DataFrame) -> pd.DataFrame:
    """At each sigma: fedavg's accuracy, and what the others are above it, in points."""
    rows = []
    for sigma, part in test.groupby("sigma"):
        row = {"σ": f"{sigma:g}", "fedavg (%)": f"{part['fedavg'].mean():.1f}"}
        others = [arm for arm in ARMS if arm in part and arm != "fedavg"]
        rows.append(row | {ARMS[a][0]: points(part[a] - part["fedavg"]) for a in others})
    return pd.DataFrame(rows)


def over_costs(runs: pd.DataFrame, sigma: float) -> Figure:
    """Accuracy over what was sent and over examples, at one sigma: means of each arm, seeds thin."""
    names = {"megabytes": "sent, down and up (MB)", "thousands": "examples processed (thousands)"}
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.8), sharey=True)
    arms = [arm for arm in ARMS if arm in set(runs["arm"])]
    for ax, cost in zip(axes, names, strict=True):
        for arm in arms:
            part, (_, colour, marker) = runs[(runs["sigma"] == sigma) & (runs["arm"] == arm)], ARMS[arm]  # fmt: skip
            wide = 100 * part.pivot(index="round", columns="seed", values="test_accuracy").dropna()
            at = part.groupby("round")[cost].mean().loc[wide.index]
            ax.plot(at, wide, color=colour, lw=0.5, alpha=0.3)
            ax.plot(at, wide.mean(axis=1), color=colour, lw=1.6, marker=marker, ms=4, markevery=0.2)
        ax.set(xscale="log", xlabel=names[cost], ylabel=METRICS["test_accuracy"])
    _names(figure, arms)
    return figure


def costs(equal: dict[tuple, dict], means: pd.DataFrame) -> pd.DataFrame:
    """Per (sigma, arm): what a round costs, and the accuracies of `equal` (rounds, bytes, examples)."""
    rows = []
    for (sigma, arm), accuracies_at in equal.items():
        last = means.loc[sigma, arm].iloc[-1] / means.loc[sigma, arm].index[-1]
        row = {"σ": f"{sigma:g}", "method": ARMS[arm][0]}
        row |= {"MB a round": f"{last['megabytes']:.1f}", "examples a round": f"{1000 * last['thousands']:,.0f}"}  # fmt: skip
        rows.append(row | {f"at equal {k} (%)": f"{v:.1f}" for k, v in accuracies_at.items()})
    return pd.DataFrame(rows)


def gaps(test: pd.DataFrame) -> pd.DataFrame:
    """Per partition of the live runs: accuracies in percent, and FedSampling's distances in points."""
    rows = []
    for name, part in test.groupby(level=0, sort=False):
        row = {
            "partition": name,
            **{ARMS[a][0]: f"{part[a].mean():.1f}" for a in ARMS if a in part},
        }
        for arm in ("fedavg", ALL):
            row[f"FedSampling above {ARMS[arm][0]}"] = points(part["fedsampling"] - part[arm])
        rows.append(row)
    return pd.DataFrame(rows)


def caps(at: np.ndarray, parts: np.ndarray, curves: dict[int, list], best: dict[int, tuple]) -> Figure:  # fmt: skip
    """The error of the total in percent over the cap: its parts [caps, 3] for 100 clients, and by clients."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.8), sharex=True, sharey=True)
    looks = (("missing by clipping", "#B15928"), ("standard deviation", PURPLE), ("both", "#000000"))  # fmt: skip
    for values, (name, colour), (x, right, up, ha) in zip(
        np.abs(parts).T, looks, ((12, 0, -10, "left"), (230, -6, 4, "right"), (760, -4, 8, "right")), strict=True
    ):  # fmt: skip
        axes[0].plot(at, values, color=colour, lw=1.6)
        plots.annotate(axes[0], x, np.interp(x, at, values), name, colour, right, up, ha=ha)
    axes[0].set_title("100 clients", loc="left")
    for (count, values), colour in zip(curves.items(), ("#000000", "#555555", "#808080"), strict=True):  # fmt: skip
        axes[1].plot(at, values, color=colour, lw=1.6)
        error, cap = best[count]
        axes[1].plot(cap, 100 * error, "o", color=colour, ms=6)
        plots.annotate(axes[1], at[-1], values[-1], f"{count:,}", colour, up=5)
    axes[1].set_title("both parts, by the number of clients", loc="left")
    for ax in axes:
        ax.axhline(10, color="#808080", lw=0.8, ls="--")
        ax.set(xscale="log", yscale="log", ylim=(2, 1500), xlim=(10, 5500))
        ax.set_yticks([10, 100, 1000], ["10", "100", "1000"])
        ax.set_ylabel("error of the total\n(% of the truth)")
    axes[-1].set_xticks([10, 100, 601, 2000], ["10", "100", "601", "2000"])
    axes[-1].set_xticks([], minor=True)
    axes[-1].set_xlabel("size cap M")
    return figure


def rates(found: dict[int, dict[int, np.ndarray]]) -> Figure:
    """A panel per number of clients: median, middle half and middle 90 % of the rates, by cap."""
    figure, axes = plt.subplots(len(found), 1, figsize=(4.2, 5.4), sharex=True, sharey=True)
    for ax, (count, by_cap) in zip(axes, found.items(), strict=True):
        for y, values in enumerate(by_cap.values()):
            q = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
            ax.plot(q[[0, 4]], [y, y], color=PURPLE, lw=1.6)
            ax.plot(q[[1, 3]], [y, y], color=PURPLE, lw=6, alpha=0.6, solid_capstyle="butt")
            ax.plot(q[2], y, "o", color=PURPLE, ms=6)
        ax.axvline(0.1, color="black", lw=1.2, ls="--")
        ax.set_title(f"{count:,} clients", loc="left")
        ax.set(xscale="log", xlim=(0.03, 1.15), ylim=(-0.6, len(by_cap) - 0.4))
        ax.set_yticks(range(len(by_cap)), [f"M = {cap}" for cap in by_cap])
        ax.grid(axis="y", visible=False)
    axes[-1].set_xticks(at := [0.05, 0.1, 0.2, 0.5, 1], [f"{x:g}" for x in at])
    axes[-1].set_xticks([], minor=True)
    axes[-1].set_xlabel("rate where 0.1 is wanted")
    return figure


def steps(found: dict[float, np.ndarray], cut: dict[float, float]) -> pd.DataFrame:
    """Per sigma: the share of examples above the cap, the rates, and the mean step over the intended one."""
    rows = []
    for sigma, p in found.items():
        low, middle, high = np.quantile(p, (0.05, 0.5, 0.95))
        ends = f"{low:.2f} to {high:.2f}"
        rows.append((f"{sigma:g}", f"{100 * cut[sigma]:.0f}", f"{middle:.2f}", ends, f"{10 * p.mean():.1f}"))  # fmt: skip
    columns = ["σ", "above the cap (%)", "median rate", "middle 90 %", "mean step (intended: 1)"]
    return pd.DataFrame(rows, columns=columns)


def every_method() -> tuple[pd.DataFrame, list[str]]:
    """The recorded runs in the papers' setting, by method, best first: mean, least and most accuracy on the
    global test set and mean under the clients' (percent), megabytes, thousands of examples, seeds; and which
    methods of the package are not among them."""
    frame = pd.concat([records.load(f"results/{sweep}") for sweep in ("preprint", "methods")])
    frame = frame[(frame["task"] == "mnist") & (frame["partition"] == "dirichlet")]
    seeds = frame.groupby("method")["seed"].agg(set)
    common = set.intersection(*seeds)
    frame = frame[frame["seed"].isin(common)]
    test, client = (tables.pivot_seeds(frame, x) for x in ("test_accuracy", "client_accuracy"))
    last = frame[frame["round"] == frame["rounds"]].groupby("method").mean(numeric_only=True)
    ranked = pd.DataFrame({"mean": test.mean(), "least": test.min(), "most": test.max(), "client": client.mean()})  # fmt: skip
    ranked = ranked.join(last[["bytes_down", "bytes_up", "examples"]] / [1e6, 1e6, 1e3])
    ranked["seeds"] = len(common)
    missing = [name for name in methods.names() if name not in seeds.index]
    return ranked.sort_values("mean", ascending=False), missing


def ranking(found: pd.DataFrame) -> pd.DataFrame:
    """`every_method` in the page's words."""
    columns = {
        "method": [f"`{name}`" for name in found.index],
        "global (%)": [f"{x:.1f}" for x in found["mean"]],
        "seeds (%)": [f"{a:.1f}\u2060–\u2060{b:.1f}" for a, b in found[["least", "most"]].to_numpy()],
        "clients (%)": [f"{x:.1f}" for x in found["client"]],
        "down (MB)": [f"{x:,.0f}" for x in found["bytes_down"]],
        "up (MB)": [f"{x:,.0f}" for x in found["bytes_up"]],
        "examples (1,000)": [f"{x:,.0f}" for x in found["examples"]],
    }  # fmt: skip
    return pd.DataFrame(columns)
