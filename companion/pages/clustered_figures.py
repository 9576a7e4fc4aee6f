"""Figures 2 and 5 to 10 of Fraboni et al., panels and axes as they draw them: CIFAR-10, or MNIST where it is not there.

What is not recorded says which command records it.
"""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.claims.evidence import experiments
from companion.claims.evidence.experiments import MissingRuns, Setting
from companion.claims.evidence.experiments_clustered import (
    ALGORITHM,
    CIFAR,
    COARSE,
    MNIST,
    SKEWS,
    best_prox,
    better_with_more_work,
    decide_trend,
    loss_below_md,
    on_light_skew,
    rolling_window,
    rounds_saved,
    smoother_accuracy_overall,
    smoother_loss_overall,
)
from companion.pages import plots
from companion.runs import clustered_grid, records, statistics, tables
from fedstas.sim import partition

NAMES = {"md": "MD", "clustered-size": "Alg. 1", "clustered-similarity": "Alg. 2"}
MEASURES = {f"clustered-similarity, {m}": f"Alg. 2, {m}" for m in ("L2", "L1")}
SKEWED = {f"concentration {c:g}": {"concentration": c} for c in SKEWS}
COLOUR = {name: SKEWED[name] for name in ("concentration 10", "concentration 0.01")}
WORKED = {
    "10 local steps, m = 10": {"steps": 10},
    "500 local steps, m = 10": {"steps": 500},
    "100 local steps, m = 5": {"clients_per_round": 5},
    "100 local steps, m = 20": {"clients_per_round": 20},
}
WIDE = 4.2  # inches
REGULAR = {"FedProx, mu = 0.1": {"prox": 0.1}}


def _runs(place: Setting, change: dict) -> pd.DataFrame | None:
    """The recorded runs of the three schemes in a setting; None where they are not there."""
    try:
        return replace(place, **change).runs(*NAMES)
    except MissingRuns:
        return None


def _first(
    places: tuple[Setting, ...], settings: dict, profile: str = "paper"
) -> tuple[Setting | None, str]:
    """The first place where one of the settings is recorded, and what to say of those that are not."""
    there = [p for p in places if any(_runs(p, c) is not None for c in settings.values())]
    place = there[0] if there else None
    sweep = (place or places[-1]).sweep  # the last is of data that all can have
    return (
        place,
        f"Not recorded yet: `fedstas sweep {sweep}\n--profile {profile} --folder results`",
    )


def _nothing(note: str) -> Figure:
    """The figure of what is not recorded yet, as wide as the others."""
    figure, ax = plt.subplots(figsize=(WIDE, 1.0))
    plots.write_in_panel(ax, note)
    return figure


def _panel(ax: Axes, frame, metric: str, note: str, smooth: bool, names=NAMES) -> None:
    """One panel: mean curves, named at their ends; without a rolling mean the single seeds behind them."""
    if frame is None:
        plots.write_in_panel(ax, note)
        return
    styles = {m: plots.method_style(m)._replace(label=name) for m, name in names.items()}
    how = {"rolling": rolling_window(frame) if smooth else 0, "seeds": not smooth, "styles": styles}
    plots.learning_curves(ax, frame, metric, list(names), ylabel=plots.SHORT_METRICS[metric], **how)


def _figure(
    settings: dict, places, columns: list[tuple[str, bool]], across: int, profile: str = "paper"
) -> Figure:
    """A panel for each setting and (metric, smooth), `across` of them in a row; titles name the setting."""
    place, note = _first(places, settings, profile)
    if place is None:
        return _nothing(note)
    many = [(title, change, *how) for title, change in settings.items() for how in columns]
    rows = -(-len(many) // across)
    size = {"figsize": (WIDE, 0.6 + 1.9 * rows), "squeeze": False}
    figure, axes = plt.subplots(rows, across, **size)
    for ax, (title, change, metric, smooth) in zip(axes.flat, many, strict=True):
        _panel(ax, _runs(place, change), metric, note, smooth)
        ax.set_title(title)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    figure.suptitle(place.task, fontsize="medium")
    return figure


SMOOTH, RAW = ("train_loss", True), [("client_accuracy", False), ("train_loss", False)]


def figure_2() -> Figure:
    """The training loss at four concentrations, as a rolling mean."""
    return _figure(SKEWED, (CIFAR, MNIST), [SMOOTH], 1)


def figure_2_colour() -> Figure:
    """The same on the substitute in colour, at the two concentrations that take hours and not a day."""
    return _figure(COLOUR, (COARSE,), [SMOOTH], 1, "laptop")


def figure_7() -> Figure:
    """The same as it was measured, with the accuracy; a row a concentration."""
    return _figure(SKEWED, (CIFAR, MNIST), RAW, 2)


def figure_8() -> Figure:
    """The training loss by local steps and by participants, as a rolling mean."""
    return _figure(WORKED, (CIFAR, MNIST), [SMOOTH], 1)


def figure_9() -> Figure:
    """The same as it was measured, with the accuracy; a row a setting."""
    return _figure(WORKED, (CIFAR, MNIST), RAW, 2)


def figure_10() -> Figure:
    """The training loss with FedProx, as a rolling mean above and as it was measured below."""
    return _figure(REGULAR, (CIFAR, MNIST), [SMOOTH, RAW[1]], 1)


def figure_6() -> Figure:
    """Three measures of similarity: the training loss as a rolling mean above, as it was measured below."""
    places, change = (CIFAR, MNIST), {"": {}}
    place, note = _first(places, change)
    frame = None if place is None else _runs(place, {})
    if place is None or frame is None:
        return _nothing(note)
    names, parts = NAMES | {"clustered-similarity": "Alg. 2, angle"}, [frame]
    for (key, name), measure in zip(MEASURES.items(), ("L2", "L1"), strict=True):
        results = _runs(place, {"measure": measure})
        if results is not None:
            names[key] = name
            runs = results[results["method"] == "clustered-similarity"]
            parts.append(runs.assign(method=key))
    figure, axes = plt.subplots(2, 1, figsize=(WIDE, 5.0), sharex=True)
    for ax, smooth in zip(axes, (True, False), strict=True):
        _panel(ax, pd.concat(parts), "train_loss", note, smooth, names)
    axes[0].set_xlabel("")
    figure.suptitle(place.task, fontsize="medium")
    return figure


def figure_5(sizes, seed: int = 0) -> Figure:
    """By concentration: every client's class shares (a), and how many examples of each class there are (b).

    Ten classes of 5,000, as CIFAR-10 has; `sizes` of the clients.
    """
    labels = np.repeat(np.arange(10), 5000)
    figure, axes = plt.subplots(len(SKEWS), 2, figsize=(WIDE, 6.6))
    palette, clients = sns.color_palette("magma", 11)[1:], np.arange(len(sizes))
    for (left, right), concentration in zip(axes, SKEWS, strict=True):
        counts = partition.dirichlet_fixed_size(labels, sizes, concentration, seed).label_counts
        ends = 100 * counts.cumsum(1) / counts.sum(1, keepdims=True)
        starts = np.hstack([np.zeros((len(sizes), 1)), ends[:, :-1]])
        for c, colour in enumerate(palette):
            left.fill_betweenx(
                clients, starts[:, c], ends[:, c], step="mid", color=colour, lw=0, label=str(c)
            )
        left.set(xlim=(0, 100), ylim=(len(sizes) - 1, 0), yticks=[])
        left.set_ylabel(f"concentration\n{concentration:g}")
        right.bar(range(10), counts.sum(0) / 1e3, color=palette, width=0.9)
        right.set(xticks=range(10))
        right.grid(axis="x", visible=False)
    axes[0, 0].set_title("(a) clients' classes")
    axes[0, 1].set_title("(b) all (thousands)")
    axes[-1, 0].set_xlabel("% of its examples")
    axes[-1, 1].set_xlabel("class")
    return figure


JUDGED = ("fig-2", "fig-2-skew", "fig-2-close", "fig-2-faster", "fig-2-smoother-loss")
JUDGED += ("fig-2-smoother-accuracy", "fig-6", "fig-8-steps", "fig-8-cohorts", "fig-8-more-clients")
JUDGED += ("fig-6-sizes", "fig-10", "d5-mu", "d5-smoother", "6-more-work", "6-never-worse")


def verdicts() -> pd.DataFrame:
    """What the first data set recorded says of the claims on Fig. 2 and 6 to 10."""
    return ledger.substitutes_table(f"clustered-{name}" for name in JUDGED)


def ahead(place: Setting = MNIST, **change) -> dict[str, tuple[float, float, float]]:
    """By algorithm: how many nats less than MD sampling it has in a setting; mean and 95 % interval."""
    return {
        name: statistics.mean_interval(loss_below_md(replace(place, **change), m))
        for m, name in ALGORITHM.items()
    }


def _grown() -> tuple[float, float, float]:
    """How much Algorithm 2's gain on MNIST grows from concentration 10 to 0.001, as the ledger fits it: mean, interval."""
    table = decide_trend(MNIST, "concentration", SKEWS, loss_below_md, "nats", -1, "the gain").table
    (row,) = table[(table["scheme"] == "Algorithm 2") & (table["concentration"] == "change")].values
    return -row[2], -row[4], -row[3]


def _smoother(decide) -> dict[str, tuple[float, float, float]]:
    """By algorithm: by how many % a jump on MNIST is smaller than MD sampling's, over all skews."""
    table = decide.__wrapped__(MNIST).table
    rows = table[table["concentration"] == "all"].set_index("scheme")
    share = rows[["share less of a jump", "low", "high"]].astype(float)
    return {name: tuple(100 * share.loc[name]) for name in rows.index}


def on_mnist() -> tuple[dict[str, str], dict[str, bool]]:
    """What chapter 6 says of MNIST: intervals to be read, and whether its sentences hold."""
    skews = [ahead(concentration=c) for c in SKEWS]
    size, similar = ([one[name] for one in skews] for name in ALGORITHM.values())
    steps, prox = clustered_grid.AROUND["steps"], clustered_grid.AROUND["prox"]
    worked, regular = [ahead(steps=n) for n in steps], [ahead(prox=mu) for mu in prox]
    others = [ahead(measure=m)["Algorithm 2"] for m in clustered_grid.MEASURES]
    others += [one["Algorithm 2"] for one in (*worked, *regular)]
    many = [one["Algorithm 1"] for one in (*worked, *regular)]
    few = ahead(clients_per_round=5)
    lost, grown = tuple(-v for v in few["Algorithm 1"]), _grown()
    work = better_with_more_work.__wrapped__(MNIST)
    ten, crowd = (
        ahead(clients=n, clients_per_round=m) for n, m in clustered_grid.PARTICIPANTS.items()
    )
    rates, colour = (
        clustered_grid.chosen(f"clustered-{name}-rates", experiments.RESULTS)["lr"]
        for name in ("mnist", "coarse10")
    )
    values = {
        "few": (lost[0], lost[2], lost[1]),
        "few_2": few["Algorithm 2"],
        "sizes": size[2],
        "sizes_tenth": size[1],
        "grown": grown,
        "similar": similar[2],
        "skewed": similar[3],
        "even": similar[0],
        "ten": worked[0]["Algorithm 2"],
        "ten_clients": ten["Algorithm 2"],
        "crowd": crowd["Algorithm 2"],
        "long": worked[-1]["Algorithm 2"],
        "work": (work.ours, work.low, work.high),
    }
    gone = [rounds_saved(replace(MNIST, concentration=c), m) for m in ALGORITHM for c in SKEWS]
    gone = [statistics.mean_interval(100 * shares) for shares in gone]
    calm, accuracy = map(_smoother, (smoother_loss_overall, smoother_accuracy_overall))
    prox_best = best_prox.__wrapped__(MNIST)  # shows the mu that is furthest below 0.1
    mu = prox_best.table.set_index("mu")
    never = ledger.decide_by_id("clustered-6-never-worse")[1].table
    judged = {n: ledger.decide_by_id(f"clustered-{n}")[1] for n in ("6-never-worse", "fig-8-steps")}
    judged = {n: results.substitute or results.verdict for n, results in judged.items()}
    holds = {
        "one": similar[2][1] > 0 > size[2][1] and size[2][2] > 0,
        "more": similar[0][0] < similar[1][0] < similar[2][0] < similar[3][0],
        "open": similar[3][1] < 0 < similar[3][2],
        "nothing": size[1][1] > 0 > max(low for _, low, _ in (size[0], *size[2:], *many)),
        "few": few["Algorithm 1"][2] < 0,
        "chance": judged["6-never-worse"] == "undecided" and len(never) == 20,
        "only": (never["high"] < 0).sum() == 1,
        "mu": (mu["high"] < 0).loc[[0.001, 0.01]].all() and mu["low"].idxmin() == 0.001,
        "grown": grown[1] > 0,
        "clients": all(low < 0 < high and mean > 0.03 for mean, low, high in ten.values()),
        "crowd": all(-0.02 < low < 0 < high < 0.02 for _, low, high in crowd.values()),
        "others": min(low for _, low, _ in others) > 0,
        "work": work.verdict == "agrees",
        "faster": judged["fig-8-steps"] == "undecided",
        "sooner": gone[4][1] < 0 < gone[4][2] and min(low for _, low, _ in gone[5:]) > 0,
        "close": on_light_skew.__wrapped__(MNIST).verdict == "agrees",
        "sizes_saved": all(low <= 0 <= high for _, low, high in gone[:4]),
        "calm": min(calm["Algorithm 2"][1], accuracy["Algorithm 2"][1]) > 0 > calm["Algorithm 1"][1]
        and calm["Algorithm 1"][2] > 0,
        "rate": (rates == 0.1).all(),
        "rate_colour": (colour == 0.1).all(),
    }
    spans = {f"grey_{k}": statistics.format_interval(*v, ".3f") for k, v in values.items()}
    shares = {
        "calm": calm["Algorithm 2"],
        "calm_accuracy": accuracy["Algorithm 2"],
        "calm_sizes": calm["Algorithm 1"],
    }
    shares |= {"saved": gone[5], "saved_skewed": gone[7]}
    spans |= {f"grey_{k}": statistics.format_interval(*v, ".0f") for k, v in shares.items()}
    spans["grey_mu"] = statistics.format_interval(
        -prox_best.ours, -prox_best.high, -prox_best.low, ".3f"
    )
    return spans, {k: bool(v) for k, v in holds.items()}


def in_colour() -> tuple[dict[str, str], dict[str, bool]]:
    """What chapter 6 says of the substitute in colour: intervals as `colour_10_2` (concentration 10, Algorithm 2), at
    0.01 as `colour_2`, in points of accuracy `colour_points`; and whether its sentences hold."""
    (even_1, even_2), (one, two) = (ahead(COARSE, concentration=c).values() for c in (10.0, 0.01))
    frame = replace(COARSE, concentration=0.01).runs("md", "clustered-similarity")
    wide = tables.pivot_seeds(frame, "test_accuracy")
    points = statistics.mean_interval((wide["clustered-similarity"] - wide["md"]).dropna())
    nats = {"colour_10_1": even_1, "colour_10_2": even_2, "colour_1": one, "colour_2": two}
    values = {key: statistics.format_interval(*results, ".2f") for key, results in nats.items()}
    holds = {
        "skewed": min(two[1], points[1]) > 0 > one[1] and one[2] > 0,
        "even": max(even_1[1], even_2[1]) < 0 < min(even_1[2], even_2[2]),
    }
    return values | {"colour_points": statistics.format_interval(*points, ".1f")}, {
        k: bool(v) for k, v in holds.items()
    }


def local_tests() -> pd.DataFrame:
    """The final accuracy in % on the clients' own test sets in each setting of Fig. 7 and 9, and on the global one in
    theirs; by scheme, with 95 % intervals."""
    settings = {**SKEWED, **WORKED}
    place, note = _first((CIFAR, MNIST), settings)
    if place is None:
        return pd.DataFrame({"accuracy of the final model": [note.replace("\n", " ")]})
    notes = (results.metadata for results in records.read_runs(experiments.RESULTS / place.sweep))
    known = {note["run"]: note["local_accuracy"] for note in notes}
    rows = []
    asked = [(name, change, "own") for name, change in settings.items()]
    asked += [(f"concentration {place.concentration:g}, global test set", {}, "test_accuracy")]
    for name, change, metric in asked:
        if (frame := _runs(place, change)) is None:
            rows.append({"setting": name} | dict.fromkeys(NAMES.values(), "–"))
            continue
        last = frame[frame["round"] == frame["rounds"]]
        last = last.assign(own=last["run"].map(known).astype(float))
        by = {NAMES[method]: 100 * part[metric] for method, part in last.groupby("method")}
        cells = {
            name: statistics.format_interval(*statistics.mean_interval(by[name]), ".1f")
            for name in NAMES.values()
        }
        rows.append({"setting": name} | cells)
    return pd.DataFrame(rows)
