"""Figures 2 and 5 to 10 of Fraboni et al. (arXiv 2105.05883), with their panels and axes, of the recorded runs.

They show CIFAR-10 where its runs are recorded, at the paper's length or at the reduced one, else MNIST. A panel without
recorded runs names the command that records them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.claims.evidence import experiments
from companion.claims.evidence.clustered_losses import (
    ALGORITHM,
    CHANGES_IN_PAPER,
    CIFAR,
    CIFAR_SHORT,
    COARSE,
    COHORTS,
    GUESS,
    MNIST,
    SKEWS,
    WORK,
    at_length,
    decide_trend,
    loss_below_md,
    pair_with_algorithms,
    rolling_window,
    rounds_saved,
    shared_losses,
    steps_at_length,
)
from companion.claims.evidence.experiments import MissingRuns, Setting
from companion.claims.evidence.experiments_cifar10 import (
    best_prox,
    better_with_more_work,
    faster_in_larger_cohorts,
    losses_of_few,
    on_all_settings,
    on_cohorts,
    on_light_skew,
    on_local_work,
    on_measures,
    smoother_accuracy_overall,
    smoother_loss_overall,
    smoother_with_prox,
)
from companion.pages import plots
from companion.runs import clustered_grid, grid_results, records, statistics, tables
from fedstas.sim import partition

NAMES = {"md": "MD", "clustered-size": "Alg. 1", "clustered-similarity": "Alg. 2"}
MEASURES = {f"clustered-similarity, {m}": f"Alg. 2, {m}" for m in ("L2", "L1")}
CONCENTRATIONS = {f"concentration {c:g}": {"concentration": c} for c in SKEWS}
FEDPROX = {"FedProx, mu = 0.1": {"prox": 0.1}}
BY_MEASURE = {f"measure {m}": {"measure": m} for m in clustered_grid.MEASURES}


def name_data(data: Setting) -> str:
    """Return how the page names the data."""
    return {"mnist": "MNIST", "cifar10": "CIFAR-10"}[data.task]


def _load_runs(data: Setting, change: dict) -> pd.DataFrame | None:
    """Return the recorded runs of the three schemes in a setting, or None where there are none."""
    try:
        return replace(data, **change).runs(*NAMES)
    except MissingRuns:
        return None


def _find_recorded(candidates: tuple[Setting, ...], settings: dict) -> tuple[Setting | None, str]:
    """Return the first data set with a recorded setting (None: there is none), and the note for panels without runs."""
    recorded = (
        d for d in candidates if any(_load_runs(d, c) is not None for c in settings.values())
    )
    data = next(recorded, None)
    # The last candidate is of data that everyone can download.
    return data, _missing_note(data or candidates[-1])


def _missing_note(data: Setting) -> str:
    """Return the sentence of a panel whose runs are not recorded."""
    return f"Not recorded yet: `fedstas sweep {data.sweep}\n--profile paper --folder results`"


def _draw_note(note: str) -> Figure:
    """Draw a figure that says what is not recorded yet, as wide as the others."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 1.0))
    plots.write_in_panel(ax, note)
    return figure


def _write_title(figure: Figure, data: Setting) -> None:
    """Write above the panels on which data the runs were made."""
    reduced = ", at the reduced length" if data is CIFAR_SHORT else ""
    figure.suptitle(name_data(data) + reduced, fontsize="medium")


def _draw_panel(ax: Axes, frame, metric: str, note: str, smooth: bool, names=NAMES) -> None:
    """Draw mean curves, named at their ends: of a rolling mean, or of the values with the single seeds behind them."""
    if frame is None:
        plots.write_in_panel(ax, note)
        return
    styles = {m: plots.method_style(m)._replace(label=name) for m, name in names.items()}
    options = {"rolling": rolling_window(frame) if smooth else 0, "seeds": not smooth}
    options |= {"styles": styles, "ylabel": plots.SHORT_METRICS[metric]}
    plots.learning_curves(ax, frame, metric, list(names), **options)


def _draw_settings(
    settings: Callable[[Setting], dict[str, dict]],
    metrics: list[tuple[str, bool]],
    columns: int,
) -> Figure:
    """Draw a panel for each setting and metric, on the first data set on which the setting is recorded.

    A panel's title names the setting, and the data too, unless one data set serves all panels.

    Args:
        settings: of a data set: by title, what is changed of its usual setting; as many for each data set.
        metrics: each with whether its curves are smoothed.
        columns: of panels.
    """
    places = []  # of each setting: the data set or None, title, and runs
    for alternatives in zip(*(settings(data).items() for data in DATA), strict=True):
        found = (
            (data, title, runs)
            for data, (title, change) in zip(DATA, alternatives, strict=True)
            if (runs := _load_runs(data, change)) is not None
        )
        places.append(next(found, (None, "", None)))
    used = [data for data in DATA if any(data is each for each, *_ in places)]
    if not used:
        return _draw_note(_missing_note(DATA[-1]))
    if len(used) > 1:
        places = [(d, f"{name_data(d)}: {title}" if d else "", runs) for d, title, runs in places]
    unrecorded_titles = list(settings(used[-1]))
    panels = [
        (title or unrecorded_titles[k], runs, *metric)
        for k, (_, title, runs) in enumerate(places)
        for metric in metrics
    ]
    rows = math.ceil(len(panels) / columns)
    size = {"figsize": (plots.WIDE, 0.6 + 1.9 * rows), "squeeze": False}
    figure, axes = plt.subplots(rows, columns, **size)
    if len(used) == 1:
        _write_title(figure, used[0])
    for ax, (title, *_) in zip(axes.flat, panels, strict=True):
        ax.set(title=title, xlabel="round")
    figure.draw_without_rendering()  # the panels take their heights, by which names at line ends keep apart
    note = _missing_note(used[-1])
    for ax, (_, runs, metric, smooth) in zip(axes.flat, panels, strict=True):
        _draw_panel(ax, runs, metric, note, smooth)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    if columns == 4:  # where an axis label would take a third of the panel
        for ax in axes.flat:
            lines = re.sub("[,:] ", "\n", ax.get_title()), ax.get_ylabel()
            ax.set_title("\n".join(filter(None, lines)), fontsize=8)
            ax.set_ylabel("")
    return figure


def local_work(data: Setting) -> dict[str, dict]:
    """Return the settings of Fig. 8 at the length of a data set: a tenth and five times the usual local steps, then half
    and twice the usual participants."""
    (few, usual, many), (fewest, m, most) = steps_at_length(data), COHORTS
    return {
        f"{few} local steps, m = {m}": {"steps": few},
        f"{many} local steps, m = {m}": {"steps": many},
        f"{usual} local steps, m = {fewest}": {"clients_per_round": fewest},
        f"{usual} local steps, m = {most}": {"clients_per_round": most},
    }


DATA = (CIFAR, CIFAR_SHORT, MNIST)  # of which a figure shows the first that is recorded
# Metrics, each with whether its curves are smoothed.
SMOOTH, LOSS = ("train_loss", True), ("train_loss", False)
RAW = [("client_accuracy", False), LOSS]


def figure_2() -> Figure:
    """Draw the training loss at four concentrations, as a rolling mean."""
    return _draw_settings(lambda data: CONCENTRATIONS, [SMOOTH], columns=2)


def figure_7() -> Figure:
    """Draw accuracy and training loss as measured, two panels for each concentration."""
    return _draw_settings(lambda data: CONCENTRATIONS, RAW, columns=4)


def figure_8() -> Figure:
    """Draw the training loss by local steps and by participants, as a rolling mean."""
    return _draw_settings(local_work, [SMOOTH], columns=2)


def figure_9() -> Figure:
    """Draw accuracy and training loss as measured, two panels for each setting of figure 8."""
    return _draw_settings(local_work, RAW, columns=4)


def figure_10() -> Figure:
    """Draw the training loss with FedProx, as a rolling mean on the left and as measured on the right."""
    return _draw_settings(lambda data: FEDPROX, [SMOOTH, LOSS], columns=2)


def figure_6() -> Figure:
    """Draw the training loss with three measures of similarity, as a rolling mean on the left and as measured on the right."""
    data, note = _find_recorded(DATA, BY_MEASURE)
    frame = None if data is None else _load_runs(data, {})
    if data is None or frame is None:
        return _draw_note(note)
    names, parts = NAMES | {"clustered-similarity": "Alg. 2, angle"}, [frame]
    for (key, name), measure in zip(MEASURES.items(), ("L2", "L1"), strict=True):
        runs = _load_runs(data, {"measure": measure})
        if runs is not None:
            names[key] = name
            runs = runs[runs["method"] == "clustered-similarity"]
            parts.append(runs.assign(method=key))
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDE, 3.0))
    for ax, smooth in zip(axes, (True, False), strict=True):
        _draw_panel(ax, pd.concat(parts), "train_loss", note, smooth, names)
    _write_title(figure, data)
    return figure


def figure_5(sizes, seed: int = 0) -> Figure:
    """Draw, by concentration, every client's class shares (a) and the number of examples of each class (b).

    There are ten classes of 5,000, as CIFAR-10 has.

    Args:
        sizes: the clients' numbers of examples.
        seed: of the partition.
    """
    labels = np.repeat(np.arange(10), 5000)
    figure, axes = plt.subplots(2, len(SKEWS), figsize=(plots.WIDE, 3.8), height_ratios=(1.6, 1))
    palette, clients = sns.color_palette("magma", 11)[1:], np.arange(len(sizes))
    for (left, right), concentration in zip(axes.T, SKEWS, strict=True):
        counts = partition.dirichlet_fixed_size(labels, sizes, concentration, seed).label_counts
        ends = 100 * counts.cumsum(1) / counts.sum(1, keepdims=True)
        starts = np.hstack([np.zeros((len(sizes), 1)), ends[:, :-1]])
        for c, colour in enumerate(palette):
            left.fill_betweenx(
                clients, starts[:, c], ends[:, c], step="mid", color=colour, lw=0, label=str(c)
            )
        left.set(xlim=(0, 100), ylim=(len(sizes) - 1, 0), yticks=[])
        left.set_title(f"concentration {concentration:g}", fontsize=9)
        left.set_xlabel("% of its examples", fontsize=8)
        right.bar(range(10), counts.sum(0) / 1e3, color=palette, width=0.9)
        right.set(xticks=range(10))
        right.grid(axis="x", visible=False)
        right.set_xlabel("class", fontsize=8)
    axes[0, 0].set_ylabel("(a) clients")
    axes[1, 0].set_ylabel("(b) all clients,\nthousands")
    return figure


FIGURE_2_CLAIMS = ("fig-2", "fig-2-skew", "fig-2-close", "fig-2-faster", "fig-2-smoother-loss")
FIGURE_2_CLAIMS += ("fig-2-smoother-accuracy",)
# Of the other claims, those that are undecided at the reduced length.
UNDECIDED = ("fig-6", "fig-6-sizes", "fig-8-cohorts", "fig-8-more-clients", "fig-10", "d5-mu")
UNDECIDED += ("d5-smoother", "fig-8-steps", "6-more-work", "6-never-worse")
CLAIMS = (*FIGURE_2_CLAIMS, "fig-6", "fig-8-steps", "fig-8-cohorts", "fig-8-more-clients")
CLAIMS += ("fig-6-sizes", "fig-10", "d5-mu", "d5-smoother", "6-more-work", "6-never-worse")


def verdicts() -> pd.DataFrame:
    """Tabulate the verdicts on the claims of Fig. 2 and 6 to 10, each on the first data set that is recorded."""
    return ledger.substitutes_table(f"clustered-{name}" for name in CLAIMS)


def ends_by_concentration() -> pd.DataFrame:
    """Tabulate where the runs on CIFAR-10 end, by concentration: loss and accuracy of MD, and how much better both
    algorithms are, with 95 % intervals."""
    rows = []
    for c in SKEWS:
        frame = replace(CIFAR_SHORT, concentration=c).runs(*NAMES)
        loss, accuracy = (
            tables.pivot_seeds(frame, metric, rolling_window(frame))
            for metric in ("train_loss", "test_accuracy")
        )
        md = f"{loss['md'].mean():.2f} nats, {accuracy['md'].mean():.1f} %"
        for method, name in ALGORITHM.items():
            below = statistics.paired_difference(loss["md"], loss[method]).interval
            above = statistics.paired_difference(accuracy[method], accuracy["md"]).interval
            rows.append(
                {
                    "concentration": f"{c:g}",
                    "MD ends at": md,
                    "scheme": name,
                    "nats below MD": statistics.format_interval(*below, ".2f"),
                    "points above MD": statistics.format_interval(*above, "+.1f"),
                }
            )
    return pd.DataFrame(rows)


def least_variance_gain() -> statistics.Interval:
    """Return the points of test accuracy that least-variance strata end above MD on CIFAR-10 at 0.01: mean and 95 % interval."""
    frame = CIFAR_SHORT.runs("md", "fedstas-least-variance")
    accuracy = tables.pivot_seeds(frame, "test_accuracy", rolling_window(frame))
    return statistics.paired_difference(accuracy["fedstas-least-variance"], accuracy["md"]).interval


def loss_gains(data: Setting = MNIST, **change) -> dict[str, statistics.Interval]:
    """Return, by algorithm, how many nats its loss is below MD sampling's in a setting: mean and 95 % interval."""
    return {
        name: statistics.mean_interval(loss_below_md(replace(data, **change), m))
        for m, name in ALGORITHM.items()
    }


def count_differences(data: Setting) -> pd.DataFrame:
    """Count, by algorithm, its differences to MD sampling's training loss in all settings of the paper: how many they
    are, how many 95 % intervals lie above zero (less loss than MD) and below, and how many differences remain when
    Holm's method corrects for those of both algorithms."""
    pairs = pair_with_algorithms(CHANGES_IN_PAPER)
    differences = [
        statistics.paired_difference(
            loss_below_md(replace(data, **at_length(data, change)), method)
        )
        for change, method in pairs
    ]
    corrected = statistics.holm([difference.p for difference in differences])
    table = pd.DataFrame(
        {
            "differences": 1,
            "above": [difference.low > 0 for difference in differences],
            "below": [difference.high < 0 for difference in differences],
            "remain": [p < 0.05 for p in corrected],
        }
    )
    return table.groupby([ALGORITHM[method] for _, method in pairs]).sum()


def _saved_rounds(data: Setting) -> dict[str, dict[float, statistics.Interval]]:
    """Return, by algorithm and concentration, the % of the rounds that are saved on MD sampling: mean and 95 % interval."""
    return {
        name: {
            c: statistics.mean_interval(100 * rounds_saved(replace(data, concentration=c), m))
            for c in SKEWS
        }
        for m, name in ALGORITHM.items()
    }


def _format_change(reduction: statistics.Interval) -> str:
    """Format by how many % something changes that is reduced by so many."""
    mean, low, high = reduction
    return statistics.format_interval(-mean, -high, -low, "+.0f")


def reduced_findings() -> tuple[dict[str, str], dict[str, bool]]:
    """Return what the page states of CIFAR-10 at the reduced length: numbers, and by sentence whether it holds."""
    gains = {c: loss_gains(CIFAR_SHORT, concentration=c) for c in SKEWS}
    similar, sizes = (
        {c: gain[name] for c, gain in gains.items()} for name in ("Algorithm 2", "Algorithm 1")
    )
    settings = [replace(CIFAR_SHORT, concentration=c) for c in SKEWS]
    seeds = {len(loss_below_md(each, m)) for each in settings for m in ALGORITHM}
    most = replace(CIFAR_SHORT, concentration=0.001)
    frame = most.runs("md", *ALGORITHM)
    last = frame[frame["round"] == frame["rounds"]]
    ends = tables.pivot_seeds(frame, "train_loss", rolling_window(frame)).mean()
    usual = CIFAR_SHORT.runs(*NAMES)
    accuracy = tables.pivot_seeds(usual, "test_accuracy", rolling_window(usual))
    points = statistics.paired_difference(accuracy["clustered-similarity"], accuracy["md"])
    least_variance = least_variance_gain()
    levels = pd.concat([shared_losses(most, m) for m in ALGORITHM])
    next_step = statistics.mean_interval(
        loss_below_md(most, "clustered-similarity")
        - loss_below_md(CIFAR_SHORT, "clustered-similarity")
    )
    saved = _saved_rounds(CIFAR_SHORT)
    even = replace(CIFAR_SHORT, concentration=10.0)
    saved_between = [
        statistics.mean_interval(rounds_saved(even, method, between=True)) for method in ALGORITHM
    ]
    loss_jumps, accuracy_jumps = (
        _jump_reductions(decide, CIFAR_SHORT)
        for decide in (smoother_loss_overall, smoother_accuracy_overall)
    )
    grown, prox = _growth_of_gain(CIFAR_SHORT), loss_gains(CIFAR_SHORT, prox=0.1)
    calmer = smoother_with_prox.__wrapped__(CIFAR_SHORT).table.set_index("scheme")
    by_measure = {
        m: loss_gains(CIFAR_SHORT, measure=m)["Algorithm 2"] for m in clustered_grid.MEASURES
    }
    by_mu = best_prox.__wrapped__(CIFAR_SHORT).table.set_index("mu")
    by_mu = by_mu[["nats more than with 0.1", "low", "high"]].astype(float)
    cohorts = {m: loss_gains(CIFAR_SHORT, clients_per_round=m) for m in COHORTS}
    by_cohort = {name: [gain[name] for gain in cohorts.values()] for name in ALGORITHM.values()}
    fewer = _growth_of_gain(CIFAR_SHORT, "clients_per_round", COHORTS)
    table = faster_in_larger_cohorts.__wrapped__(CIFAR_SHORT).table
    table = table[table["clients per round"] == "change"].set_index("scheme")
    levels_of_few = pd.concat([losses_of_few(CIFAR_SHORT, m) for m in ("md", *ALGORITHM)])
    guesses_of_few = int((levels_of_few > GUESS).sum())
    points_by_cohort = {
        m: accuracy_above_md(replace(CIFAR_SHORT, clients_per_round=m), "clustered-similarity")
        for m in COHORTS
    }
    few, usual_points, _ = points_by_cohort.values()
    points_fewer = statistics.paired_difference(usual_points, few).interval
    points_grown = _growth_of_gain(
        CIFAR_SHORT, "clients_per_round", COHORTS, accuracy_above_md, "points"
    )
    faster = {
        name: statistics.Interval(*table.loc[name, ["of a share", "low", "high"]].astype(float))
        for name in ("MD", *ALGORITHM.values())
    }
    fewest, _, most_steps = steps_at_length(CIFAR_SHORT)
    few_steps, many_steps = (loss_gains(CIFAR_SHORT, steps=n) for n in (fewest, most_steps))
    work = better_with_more_work.__wrapped__(CIFAR_SHORT)
    faster_work = on_local_work.__wrapped__(CIFAR_SHORT)
    saved_by_work = faster_work.table[faster_work.table["steps"] == "change"].set_index("scheme")
    never_worse = on_all_settings.__wrapped__(CIFAR_SHORT)
    may_be_behind = never_worse.table["scheme"][never_worse.table["verdict"] == "undecided"]
    counts = count_differences(CIFAR_SHORT)
    alike = on_measures.__wrapped__(CIFAR_SHORT).table.set_index(["setting", "compared with"])
    words = {name: ledger.decide_by_id(f"clustered-{name}")[1].verdict for name in CLAIMS}
    holds = {
        "similar": min(similar[c].low for c in SKEWS if c != 10.0) > 0,
        "open": all(sizes[c].low < 0 and sizes[c].high > 0.03 for c in SKEWS if c != 10.0)
        and seeds == {5},
        "guess": ends["clustered-similarity"] < GUESS < min(ends["md"], ends["clustered-size"]),
        "above guess": (levels > GUESS).mean() >= 0.9,
        "accuracy end": last["test_accuracy"].groupby(last["method"]).mean().max() < 0.2,
        "early": 0.1 < accuracy["md"].mean() / 100 < 0.2,
        "points": points.low > 0,
        "least variance": least_variance.low > 0,
        "level": next_step.low <= 0 <= next_step.high,
        "even": all(abs(end) < 0.03 for gain in gains[10.0].values() for end in gain[1:]),
        "grown": grown.low > 0,
        "near": similar[0.1].low < 0.03 < similar[0.1].high,
        "no saving": all(saved[name][10.0] == (0, 0, 0) for name in saved)
        and all(low > -0.015 and high < 0.015 for _, low, high in saved_between),
        "sooner": min(saved["Algorithm 2"][c].low for c in (0.1, 0.01)) > 0,
        "sizes sooner": max(saved["Algorithm 1"][c].low for c in SKEWS if c != 0.001) <= 0,
        "calm": loss_jumps["Algorithm 2"].low > 0 > loss_jumps["Algorithm 1"].low
        and loss_jumps["Algorithm 1"].high > 0,
        "accuracy": all(low < 0 < high for _, low, high in accuracy_jumps.values()),
        "behind": counts["below"].sum() == 0,
        "amount": all(gain.low > 0 for gain in by_cohort["Algorithm 2"]),
        "amount by size": all(low < 0 < high for _, low, high in by_cohort["Algorithm 1"]),
        "fewer": fewer.low > 0,
        "fewer points": points_fewer.low > 0
        and points_grown.low < 0 < points_grown.high
        and losses_of_few(CIFAR_SHORT, "md").mean() > GUESS,
        "steps": min(each["Algorithm 2"].low for each in (few_steps, many_steps)) > 0,
        "steps by size": all(
            each["Algorithm 1"].low < 0 < each["Algorithm 1"].high
            for each in (few_steps, many_steps)
        ),
        "work": work.verdict == "undecided" and work.low < 0 < work.high,
        "faster steps": faster_work.verdict == "undecided",
        "none": never_worse.verdict == "undecided"
        and may_be_behind.tolist() == ["Algorithm 1"] * 5,
        "counts": counts.to_numpy().tolist() == [[9, 0, 0, 0], [11, 10, 0, 5]]
        and similar[10.0].low < 0,
        "guesses of few": 0 < guesses_of_few < len(levels_of_few),
        "prox": prox["Algorithm 2"].low > 0 > prox["Algorithm 1"].low
        and prox["Algorithm 1"].high > 0,
        "calmer with prox": calmer["low"].loc[["MD", "Algorithm 1"]].min() > 0
        and calmer.loc["Algorithm 2", "low"] < 0 < calmer.loc["Algorithm 2", "high"],
        "mu": by_mu["nats more than with 0.1"].min() > 0 and by_mu.loc[1.0, "low"] > 0,
        "mu open": all(by_mu.loc[mu, "low"] < 0 < by_mu.loc[mu, "high"] for mu in (0.001, 0.01)),
        "measures": min(low for _, low, _ in by_measure.values()) > 0,
        "alike": alike["verdict"].loc["measure arccos", "measure L2"] == "agrees"
        and {*alike["verdict"].xs("measure L1", level="compared with")} == {"undecided"},
        "verdicts": words
        == dict.fromkeys((*FIGURE_2_CLAIMS, *UNDECIDED), "undecided") | {"fig-2-faster": "differs"},
        "faster": all(gain.low > 0 for gain in faster.values()),
    }
    nats = {f"similar_{c:g}": similar[c] for c in SKEWS} | {f"sizes_{c:g}": sizes[c] for c in SKEWS}
    nats |= {"grown": grown, "prox_sizes": prox["Algorithm 1"], "prox_similar": prox["Algorithm 2"]}
    for m, gain in cohorts.items():
        nats |= {f"sizes_m{m}": gain["Algorithm 1"], f"similar_m{m}": gain["Algorithm 2"]}
    nats["fewer"] = fewer
    for key, gain in (("few_steps", few_steps), ("many_steps", many_steps)):
        nats |= {f"similar_{key}": gain["Algorithm 2"], f"sizes_{key}": gain["Algorithm 1"]}
    nats["work"] = statistics.Interval(work.ours, work.low, work.high)
    keys = zip(("md", "sizes", "similar"), faster.values(), strict=True)
    percents = {f"faster_{key}": [100 * end for end in gain] for key, gain in keys}
    shares = {f"saved_{c:g}": saved["Algorithm 2"][c] for c in (0.1, 0.01)}
    shares |= {"calm": loss_jumps["Algorithm 2"]}
    numbers = {k: statistics.format_interval(*v, ".2f") for k, v in nats.items()}
    for key, name in (("saved_work", "Algorithm 2"), ("saved_work_sizes", "Algorithm 1")):
        share = 100 * saved_by_work.loc[name, ["of a share", "low", "high"]].astype(float)
        numbers[key] = statistics.format_interval(*share, "+.0f")
    numbers |= {m: statistics.format_interval(*v, ".2f") for m, v in by_measure.items()}
    numbers |= {
        f"mu_{mu:g}": statistics.format_interval(*row, ".3f" if mu < 1 else ".2f")
        for mu, row in by_mu.iterrows()
    }
    numbers["similar_0.1"] = statistics.format_interval(*similar[0.1], ".3f")
    for key, name in (("prox_calm", "MD"), ("prox_calm_sizes", "Algorithm 1")):
        share = 100 * calmer.loc[name, ["share less of a jump", "low", "high"]].astype(float)
        numbers[key] = statistics.format_interval(*share, ".0f")
    numbers["calm_sizes"] = _format_change(loss_jumps["Algorithm 1"])
    numbers |= {k: statistics.format_interval(*v, ".0f") for k, v in (shares | percents).items()}
    numbers["points_fewer"] = statistics.format_interval(*points_fewer)
    numbers["points_grown"] = statistics.format_interval(*points_grown, "+.1f")
    numbers["guesses_of_few"] = f"{guesses_of_few} of {len(levels_of_few)}"
    numbers["points"] = statistics.format_interval(*points.interval)
    numbers["least_variance"] = statistics.format_interval(*least_variance)
    return {f"cifar_{k}".replace(".", ""): v for k, v in numbers.items()}, holds


def draw_gains() -> Figure:
    """Draw how many nats the losses of both algorithms end below MD sampling's, with 95 % intervals: by concentration,
    participants and local steps, on CIFAR-10 at the reduced length and on MNIST."""
    skews = {f"{c:g}": {"concentration": c} for c in SKEWS}
    cohorts = {str(m): {"clients_per_round": m} for m in COHORTS}
    size = {"figsize": (plots.WIDE, 4.2), "sharey": "row"}
    widths = (len(SKEWS), len(COHORTS), len(WORK))
    figure, axes = plt.subplots(2, 3, **size, width_ratios=widths)
    for row, data in zip(axes, (CIFAR_SHORT, MNIST), strict=True):
        steps = {str(n): {"steps": n} for n in steps_at_length(data)}
        by_change = {"concentration": skews, "participants": cohorts, "local steps": steps}
        for ax, (name, settings) in zip(row, by_change.items(), strict=True):
            _draw_gains_by_setting(ax, data, settings)
            ax.set_xlabel(name)
        row[0].set_ylabel(f"{name_data(data)}: loss\nbelow MD's (nats)")
    for k, method in enumerate(ALGORITHM):
        colour = plots.method_style(method).colour
        place = {"xycoords": "axes fraction"}
        plots.annotate(axes[0, 0], 0.04, 0.85 - 0.11 * k, ALGORITHM[method], colour, 0, **place)
    place = {"xycoords": axes[0, 0].get_yaxis_transform()}
    plots.annotate(axes[0, 0], 0.04, 0, "MD = 0", plots.BLACK, 0, -8, **place)
    return figure


def _draw_gains_by_setting(ax: Axes, data: Setting, settings: dict[str, dict]) -> None:
    """Draw both algorithms' gains, with 95 % intervals, at each of some changes of the usual setting, by name."""
    gains = [loss_gains(data, **change) for change in settings.values()]
    for method, shift in (("clustered-size", -0.08), ("clustered-similarity", 0.08)):
        colour = plots.method_style(method).colour
        for place, gain in enumerate(gains):
            mean, low, high = gain[ALGORITHM[method]]
            ax.plot([place + shift] * 2, [low, high], color=colour, lw=1.6)
            ax.plot(place + shift, mean, "o", color=colour, ms=5)
    ax.axhline(0, color=plots.BLACK, lw=1)
    ax.set_xticks(range(len(settings)), list(settings))
    ax.set_xlim(-0.4, len(settings) - 0.6)
    ax.grid(axis="x", visible=False)


def accuracy_above_md(setting: Setting, method: str) -> pd.Series:
    """Return by how many points of test accuracy a scheme ends above MD sampling, by seed, over the rounds of `loss_below_md`."""
    frame = setting.runs("md", method)
    wide = tables.pivot_seeds(frame, "test_accuracy", rolling_window(frame))
    return (wide[method] - wide["md"]).dropna()


def _own_loss(setting: Setting, method: str = "clustered-similarity") -> pd.Series:
    """Return the loss at which a scheme ends, by seed, over the rounds of `loss_below_md`."""
    frame = setting.runs(method)
    return tables.pivot_seeds(frame, "train_loss", rolling_window(frame))[method].dropna()


def _growth_of_gain(
    data: Setting,
    field: str = "concentration",
    values: tuple = SKEWS,
    gain=loss_below_md,
    unit: str = "nats",
) -> statistics.Interval:
    """Return how much Algorithm 2's gain grows from the largest to the smallest value of a field of the setting, by the
    ledger's fit: mean and 95 % interval."""
    table = decide_trend(data, field, values, gain, unit=unit, sign=-1, gain_words="the gain").table
    is_change = (table["scheme"] == "Algorithm 2") & (table[field.replace("_", " ")] == "change")
    change, low, high = table.loc[is_change, [unit, "low", "high"]].iloc[0]  # as the field grows
    return statistics.Interval(-change, -high, -low)


def _jump_reductions(decide, data: Setting) -> dict[str, statistics.Interval]:
    """Return, by algorithm, by how many % a jump is smaller than MD sampling's, over all concentrations."""
    table = decide.__wrapped__(data).table
    rows = table[table["concentration"] == "all"].set_index("scheme")
    share = rows[["share less of a jump", "low", "high"]].astype(float)
    return {name: statistics.Interval(*(100 * share.loc[name])) for name in rows.index}


def mnist_findings() -> tuple[dict[str, str], dict[str, bool]]:
    """Return what chapter 6 states of MNIST: formatted intervals, and by sentence whether it holds."""
    by_skew = {c: loss_gains(concentration=c) for c in SKEWS}
    size, similar = (
        {c: gains[name] for c, gains in by_skew.items()} for name in ALGORITHM.values()
    )
    steps, prox = clustered_grid.AROUND["steps"], clustered_grid.AROUND["prox"]
    by_steps, by_prox = [loss_gains(steps=n) for n in steps], [loss_gains(prox=mu) for mu in prox]
    others = [gains["Algorithm 2"] for gains in (*by_steps, *by_prox)]
    others_by_size = [gains["Algorithm 1"] for gains in (*by_steps, *by_prox)]
    by_cohort = {m: loss_gains(clients_per_round=m) for m in COHORTS}
    gain_of_few, growth = by_cohort[5]["Algorithm 1"], _growth_of_gain(MNIST)
    work = better_with_more_work.__wrapped__(MNIST)
    own_losses = [_own_loss(replace(MNIST, steps=n)) for n in steps_at_length(MNIST)]
    md_losses = [_own_loss(replace(MNIST, steps=n), "md") for n in steps_at_length(MNIST)]
    points_by_work = _growth_of_gain(
        MNIST, "steps", steps_at_length(MNIST), accuracy_above_md, "points"
    )
    ten_clients, many_clients = (
        loss_gains(clients=n, clients_per_round=m) for n, m in clustered_grid.PARTICIPANTS.items()
    )
    rates, *colour_rates = (
        grid_results.choose_clustered_rates(f"clustered-{name}-rates", experiments.RESULTS)["lr"]
        for name in ("mnist", "coarse10", "cifar10-short")
    )
    values = {
        "few": (-gain_of_few.mean, -gain_of_few.high, -gain_of_few.low),
        "sizes_tenth": size[0.1],
        "grown": growth,
        "ten": by_steps[0]["Algorithm 2"],
        "ten_clients": ten_clients["Algorithm 2"],
        "crowd": many_clients["Algorithm 2"],
        "long": by_steps[-1]["Algorithm 2"],
        "work": (work.ours, work.low, work.high),
    }
    saved_by_size, saved = _saved_rounds(MNIST).values()
    loss_jumps, accuracy_jumps = (
        _jump_reductions(decide, MNIST)
        for decide in (smoother_loss_overall, smoother_accuracy_overall)
    )
    prox_best = best_prox.__wrapped__(MNIST)  # shows the mu that is furthest below 0.1
    mu = prox_best.table.set_index("mu")
    never_worse = on_all_settings.__wrapped__(MNIST)
    ends = never_worse.table
    changes = pair_with_algorithms(CHANGES_IN_PAPER)
    counts = count_differences(MNIST)
    accuracy_p = [
        statistics.paired_difference(
            accuracy_above_md(replace(data, **at_length(data, change)), method)
        ).p
        for data in (MNIST, CIFAR_SHORT)
        for change, method in changes
        if method == "clustered-size"
    ]
    similar_means = [similar[c].mean for c in SKEWS]
    size_elsewhere = [*(size[c] for c in SKEWS if c != 0.1), *others_by_size]
    holds = {
        "more": all(mean < skewer for mean, skewer in pairwise(similar_means)),
        "open": similar[0.001].low < 0 < similar[0.001].high,
        "nothing": size[0.1].low > 0 > max(gain.low for gain in size_elsewhere),
        "few": gain_of_few.high < 0,
        "amount": min(by_cohort[m]["Algorithm 2"].low for m in COHORTS[1:]) > 0
        and by_cohort[5]["Algorithm 2"].low < 0 < by_cohort[5]["Algorithm 2"].mean,
        "fewest": on_cohorts.__wrapped__(MNIST).verdict == "differs",
        "chance": never_worse.verdict == "undecided" and len(ends) == 20,
        "only": (ends["high"] < 0).sum() == 1,
        "corrected": counts["differences"].sum() == 20 and counts["remain"].sum() == 0,
        "above": counts.drop(columns="remain").to_numpy().tolist() == [[9, 1, 1], [11, 8, 0]],
        "no accuracy": statistics.holm(accuracy_p).min() > 0.05,
        "mu": (mu["high"] < 0).loc[[0.001, 0.01]].all() and mu["low"].idxmin() == 0.001,
        "grown": growth.low > 0,
        "clients": all(low < 0 < high and mean > 0.03 for mean, low, high in ten_clients.values()),
        "crowd": all(-0.02 < low < 0 < high < 0.02 for _, low, high in many_clients.values()),
        "others": min(low for _, low, _ in others) > 0,
        "work": work.verdict == "agrees",
        "worse with work": all(
            statistics.paired_difference(many, few).interval.low > 0
            for few, _, many in (own_losses, md_losses)
        ),
        "points by work": points_by_work.low < 0 < points_by_work.high,
        "behind by chance": never_worse.table["scheme"][never_worse.table["verdict"] == "undecided"]
        .value_counts()
        .to_dict()
        == {"Algorithm 1": 5, "Algorithm 2": 1},
        "faster": on_local_work.__wrapped__(MNIST).verdict == "undecided",
        "no saving": saved[10.0].low <= 0 <= saved[10.0].high,
        "sooner": all(saved[c].low > 0 for c in SKEWS if c != 10.0),
        "close": on_light_skew.__wrapped__(MNIST).verdict == "agrees",
        "sizes_saved": all(low <= 0 <= high for _, low, high in saved_by_size.values()),
        "calm": min(loss_jumps["Algorithm 2"].low, accuracy_jumps["Algorithm 2"].low)
        > 0
        > loss_jumps["Algorithm 1"].low
        and loss_jumps["Algorithm 1"].high > 0,
        "rate": (rates == 0.1).all(),
        "rate_colour": all((chosen == 0.1).all() for chosen in colour_rates),
    }
    spans = {f"grey_{k}": statistics.format_interval(*v, ".3f") for k, v in values.items()}
    shares = {
        "calm": loss_jumps["Algorithm 2"],
        "calm_accuracy": accuracy_jumps["Algorithm 2"],
    }
    shares |= {"saved": saved[0.1], "saved_usual": saved[0.01], "saved_skewed": saved[0.001]}
    spans |= {f"grey_{k}": statistics.format_interval(*v, ".0f") for k, v in shares.items()}
    fewest, _, most = own_losses
    spans["grey_loss_few_steps"], spans["grey_loss_many_steps"] = (
        f"{losses.mean():.2f}" for losses in (fewest, most)
    )
    mean, low, high = points_by_work
    spans["grey_points_by_work"] = statistics.format_interval(-mean, -high, -low, "+.1f")
    spans["grey_calm_sizes"] = _format_change(loss_jumps["Algorithm 1"])
    spans["grey_mu"] = statistics.format_interval(
        -prox_best.ours, -prox_best.high, -prox_best.low, ".3f"
    )
    return spans, {k: bool(v) for k, v in holds.items()}


def colour_findings() -> tuple[dict[str, str], dict[str, bool]]:
    """Return what chapter 6 states of the substitute with colour images: formatted intervals, and by sentence whether
    it holds. Intervals are `colour_10_2` (concentration 10, Algorithm 2), `colour_2` (concentration 0.01) in nats, and
    `colour_points` in points of accuracy."""
    (even_1, even_2), (skewed_1, skewed_2) = (
        loss_gains(COARSE, concentration=c).values() for c in (10.0, 0.01)
    )
    frame = replace(COARSE, concentration=0.01).runs("md", "clustered-similarity")
    wide = tables.pivot_seeds(frame, "test_accuracy")
    points = statistics.mean_interval((wide["clustered-similarity"] - wide["md"]).dropna())
    nats = {
        "colour_10_1": even_1,
        "colour_10_2": even_2,
        "colour_1": skewed_1,
        "colour_2": skewed_2,
    }
    values = {key: statistics.format_interval(*gain, ".2f") for key, gain in nats.items()}
    holds = {
        "skewed": min(skewed_2.low, points.low) > 0 > skewed_1.low and skewed_1.high > 0,
        "even": max(even_1.low, even_2.low) < 0 < min(even_1.high, even_2.high),
    }
    return values | {"colour_points": statistics.format_interval(*points, ".1f")}, {
        k: bool(v) for k, v in holds.items()
    }


def local_leads(data: Setting) -> list[statistics.PairedDifference]:
    """Return by how many points each algorithm is above MD sampling on the clients' own test sets, paired by seed, in each
    setting of `local_tests`."""
    leads = []
    for last in _load_local_tests(data, _local_test_settings(data).values()):
        wide = 100 * last.pivot(index="seed", columns="method", values="local_accuracy")
        leads += [statistics.paired_difference(wide[m], wide["md"]) for m in ALGORITHM]
    return leads


def local_test_findings() -> tuple[dict[str, str], dict[str, bool]]:
    """Return what the page states of the clients' own test sets: numbers, and by sentence whether it holds."""
    leads = {data: local_leads(data) for data in (CIFAR_SHORT, MNIST)}
    ahead, behind = (
        {data: [k for k, lead in enumerate(of) if sign * lead.low > 0 and sign * lead.high > 0]
         for data, of in leads.items()}
        for sign in (1, -1)
    )  # fmt: skip
    # The places of both algorithms in the setting of concentration 0.01.
    usual = [2 * list(CONCENTRATIONS).index("concentration 0.01") + k for k in range(2)]
    holds = {
        "two each": all(len(of) == 16 for of in leads.values())
        and [len(ahead[MNIST]), len(behind[MNIST])] == [1, 1],
        "both ahead": ahead[CIFAR_SHORT] == usual and not behind[CIFAR_SHORT],
        "none remains": all(
            min(statistics.holm([lead.p for lead in of])) > 0.05 for of in leads.values()
        ),
    }
    numbers = {
        f"own_tests_{key}": statistics.format_interval(*leads[CIFAR_SHORT][k].interval)
        for key, k in zip(("sizes", "similar"), usual, strict=True)
    }
    return numbers, holds


def _local_test_settings(data: Setting) -> dict[str, dict]:
    """Return the settings of Fig. 7 and 9 at the length of a data set, by title."""
    return CONCENTRATIONS | local_work(data)


def _load_local_tests(data: Setting, changes: Iterable[dict]) -> Iterator[pd.DataFrame | None]:
    """Yield for each change the last rounds of its runs, with `local_accuracy`; None where no run is recorded."""
    runs = (run.metadata for run in records.read_runs(experiments.RESULTS / data.sweep))
    local_accuracy = {run["run"]: run["local_accuracy"] for run in runs}
    for change in changes:
        if (frame := _load_runs(data, change)) is None:
            yield None
            continue
        last = frame[frame["round"] == frame["rounds"]]
        yield last.assign(local_accuracy=last["run"].map(local_accuracy).astype(float))


def local_tests(data: Setting) -> pd.DataFrame:
    """Tabulate the final accuracy in % on the clients' own test sets in each setting of Fig. 7 and 9, and on the global
    test set in the setting of the paper: by scheme, with 95 % intervals."""
    settings = _local_test_settings(data)
    recorded, note = _find_recorded((data,), settings)
    if recorded is None:
        return pd.DataFrame({"accuracy of the final model": [note.replace("\n", " ")]})
    rows = []
    table_rows = [(name, change, "local_accuracy") for name, change in settings.items()]
    table_rows += [(f"concentration {data.concentration:g}, global test set", {}, "test_accuracy")]
    loaded = _load_local_tests(data, [change for _, change, _ in table_rows])
    for (name, _, metric), last in zip(table_rows, loaded, strict=True):
        if last is None:
            rows.append({"setting": name} | dict.fromkeys(NAMES.values(), "–"))
            continue
        by_scheme = {NAMES[method]: 100 * part[metric] for method, part in last.groupby("method")}
        cells = {
            name: statistics.format_interval(*statistics.mean_interval(by_scheme[name]), ".1f")
            for name in NAMES.values()
        }
        rows.append({"setting": name} | cells)
    return pd.DataFrame(rows)
