"""Figures and tables of the chapter *A better design* and its appendices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml
from matplotlib.figure import Figure

from companion.pages import asking, design_comparison, draw_probabilities, plots, saved_bytes
from companion.runs import comparison, feature_errors, one_rounds, protocol, statistics, tables
from companion.runs.least_variance_results import (
    FROM_UPDATES,
    LEAST_VARIANCE,
    LEAST_VARIANCE_METHOD,
    RECORDED_NAMES,
    RIVALS,
)
from companion.runs.records import Record
from fedstas import allocation, methods
from fedstas.sim import one_round
from fedstas.sim.rng import stream
from fedstas.theory import least_variance

# Variants of least variance, as the table of one-round errors names them.
FROM_UPDATES_METHOD = RECORDED_NAMES[FROM_UPDATES]
BY_NORM, RENEWED, NOISE = (
    f"{LEAST_VARIANCE_METHOD}, {variant}"
    for variant in ("draws by norm", "every 10 rounds", "noise")
)
# How the chapter's tables and figures call the designs.
MD_LABEL, KMEANS_LABEL, SIMILAR_LABEL = "MD", "k-means strata", "clustered by similarity"
LEAST_VARIANCE_LABEL = "least-variance strata"
ONE_ROUND_LABELS = {  # in the figure of one-round errors
    "clustered-similarity": SIMILAR_LABEL,
    "optimal-client-sampling": "optimal client sampling",
    "cube": "cube method",
    "fedstas-unbiased": KMEANS_LABEL,
    LEAST_VARIANCE_METHOD: LEAST_VARIANCE_LABEL,
    FROM_UPDATES_METHOD: f"{LEAST_VARIANCE_LABEL},\nfrom last updates",
}
ONCE, ONLY_UPDATES, THEN_UPDATES = feature_errors.RENEWAL_FEATURES[1:]
COST_LABELS = {  # in the figure of gains and the table of comparisons
    "md": MD_LABEL,
    "clustered-similarity": "clustered sampling",
    "fedstas-unbiased": KMEANS_LABEL,
    LEAST_VARIANCE_METHOD: LEAST_VARIANCE_LABEL,
}


def no_move_gains(d, labels, m: int) -> bool:
    """Return whether no client costs less in another of m strata than in its own, given pair weights d [N, N]."""
    labels = np.array(labels)
    costs = np.array([d[:, labels == h].sum(axis=1) for h in range(m)])
    return bool((costs[labels, np.arange(len(d))] <= costs.min(axis=0) + 1e-12).all())


def tabulate_cohorts(cohorts, updates) -> pd.DataFrame:
    """Tabulate cohorts with the weighted sums of their clients' updates; in the table clients are numbered from 1.

    Args:
        cohorts: (clients, weights, probability) of each.
        updates: each client's update, a number.
    """
    rows = []
    for clients, weights, probability in cohorts:
        update = sum(w * updates[k] for w, k in zip(weights, clients, strict=True))
        numbers = ", ".join(str(k + 1) for k in clients)
        rows.append((numbers, probability, ", ".join(map(str, weights)), update))
    names = ["clients drawn", "probability", "weights", "update"]
    return pd.DataFrame(rows, columns=names).astype(str)


def compute_draws(state: one_round.State, levels: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Compute the independent draws of four designs at a state.

    Returns:
        By the design's label, x and p [m, N]: draw j picks client k with probability p[j, k], and then adds
        x[j, k] / p[j, k] of its update.
    """
    m, omega = state.setup.m, state.omega
    kmeans = methods.get("fedstas-unbiased", levels=levels).clients
    rng = stream(state.setup.seed, "one round", 0)
    labels, measure, _ = kmeans.measure(one_round.view_at(state, kmeans), m, rng)
    totals = np.bincount(labels, measure)
    bounds = {"lower": np.ones(len(totals)), "upper": np.full(len(totals), m)}
    counts = allocation.by_priority(totals, m, **bounds)
    similar = methods.get("clustered-similarity").clients
    r = similar.distributions(one_round.view_at(state, similar), m)
    least = methods.get(LEAST_VARIANCE_METHOD, features="gradients", levels=levels).clients
    strata, q, _ = least.strata(one_round.view_at(state, least), m)

    def stratified(labels, measure, counts):
        """Return x and p of draws from strata, `counts` from each, in proportion to a measure of the clients."""
        p = draw_probabilities.probabilities_of_strata(labels, measure, counts)
        draws_of_stratum = np.repeat(np.asarray(counts), counts)[:, None]
        return omega * (p > 0) / draws_of_stratum, p

    return {
        MD_LABEL: stratified(0 * labels, omega, [m]),
        KMEANS_LABEL: stratified(labels, measure, counts),
        SIMILAR_LABEL: (r / m, r),
        LEAST_VARIANCE_LABEL: stratified(strata, q, np.ones(strata.max() + 1, dtype=int)),
    }


def find_heaviest_stratum(p: np.ndarray, omega: np.ndarray) -> tuple[float, int]:
    """Return the share of the weight in the heaviest stratum of rows p [m, N], and how many draws it has."""
    mass = (p > 0) @ omega
    return float(mass.max()), int((mass > mass.max() - 1e-12).sum())  # equal up to rounding errors


def compute_principal_coordinates(state: one_round.State) -> tuple[np.ndarray, float]:
    """Compute the two principal coordinates [N, 2] of the updates, and their share of the variance."""
    omega, ones = state.omega, np.ones(len(state.omega))
    mean = state.gram @ omega
    centred = state.gram - np.outer(ones, mean) - np.outer(mean, ones) + omega @ mean
    values, axes = np.linalg.eigh(np.sqrt(np.outer(omega, omega)) * centred)
    # The largest entry of each axis is positive, so that the picture is not mirrored on another machine.
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(len(axes))])
    two, scales = axes[:, -2:][:, ::-1], np.sqrt(np.maximum(values[-2:][::-1], 0))
    return two * scales / np.sqrt(omega)[:, None], float(scales @ scales / values[values > 0].sum())


def draw_strata_map(state: one_round.State, draws: dict, errors: dict[str, float]) -> Figure:
    """Draw the clients under each design; a slice of a client is what one draw represents.

    Args:
        draws: as `compute_draws` returns them.
        errors: of one round in multiples of MD's, by design.
    """
    panels = {f"{label}: {errors[label]:.2f}": x / state.omega for label, (x, _) in draws.items()}
    points, _ = compute_principal_coordinates(state)
    return plots.strata_map(points, state.omega, panels)


def compare_nonresponse(
    state: one_round.State, kvib_states: dict, draws: dict, levels: int, drop: float, seed: int
) -> pd.DataFrame:
    """Compare the errors of designs where each participant fails to answer with probability `drop`.

    Args:
        kvib_states: states of a run of K-Vib, by rounds.
        draws: as `compute_draws` returns them.

    Returns:
        The rows of `one_rounds.compare_nonresponse`, from 1,000 cohorts each, and for the designs of `draws` the
        `exact` error with the remedy; in multiples of MD's.
    """
    noise = state.noise + drop / (1 - drop) * (state.gram.diagonal() + state.noise)
    exact = {
        label: least_variance.variance_of(*x_and_p, state.gram, noise) / state.md_error
        for label, x_and_p in draws.items()
    }
    last = list(kvib_states.values())[-1]
    designs = {
        MD_LABEL: (state, "md", {}),
        KMEANS_LABEL: (state, "fedstas-unbiased", {"levels": levels}),
        SIMILAR_LABEL: (state, "clustered-similarity", {}),
        LEAST_VARIANCE_LABEL: (
            state,
            LEAST_VARIANCE_METHOD,
            {"features": "gradients", "levels": levels},
        ),
        "distinct clients at random": (state, "fedavg-unbiased", {}),
        **{
            f"K-Vib, round {t + 1} of its own run": (after, "k-vib", {})
            for t, after in kvib_states.items()
        },
        "Poisson sampling by size, in that round": (last, "poisson", {}),
    }
    errors = one_rounds.compare_nonresponse(designs, drop, seed=seed)
    return errors.assign(exact=pd.Series(exact).reindex(errors.index))


def tabulate_nonresponse(errors: pd.DataFrame) -> pd.DataFrame:
    """Tabulate `compare_nonresponse` as text."""
    names = {"error": "one in ten silent", "bias": "its bias", "exact": "remedied, exact"}
    text = errors[["all answer", "error", "bias", "remedied", "exact"]].map("{:.2f}".format)
    return text.replace("nan", "–").rename(columns=names).rename_axis("design").reset_index()


def tabulate_bounds(measured: dict) -> pd.DataFrame:
    """Tabulate the parts of the bound for strata of features, and the ratio to MD's variance that it bounds.

    Args:
        measured: by the name of the strata, as `least_variance.features_bound` returns it.
    """
    rows = [
        (k, *(f"{v:.2f}" for v in (x.rho, x.eps, x.bound, x.ratio))) for k, x in measured.items()
    ]
    of_md = "$V/V_{\\mathrm{MD}}$"
    return pd.DataFrame(rows, columns=["strata", "$\\rho$", "$\\varepsilon$", "bound", of_md])


def draw_one_round_errors(summary: pd.DataFrame) -> Figure:
    """Draw the error of a round over the participants, a panel per setting; the last panel names the lines.

    Args:
        summary: as `one_rounds.summarise` returns it.
    """
    settings = [name for name in one_rounds.SETTING_TITLES if name in set(summary["setting"])]
    figure, axes = plt.subplots(2, 3, figsize=(plots.WIDE, 4.4), sharey=True)
    for ax, setting in zip(axes.flat, settings, strict=False):
        rows = summary[summary["setting"] == setting].set_index("design")
        ax.axhline(1, color=plots.METHODS["md"][0], lw=1.6)
        plots.annotate(ax, -0.1, 1, "MD = 1", plots.PINK, 0, 7)
        for design in ONE_ROUND_LABELS:
            if design in rows.index:
                line = rows.loc[[design]].sort_values("m")
                colour, dash, *_ = plots.method_style(design)
                x = range(len(line))
                ax.errorbar(x, line["mean"], line["se"], color=colour, ls=dash, lw=1.6, capsize=2)
        ticks = sorted(rows["m"].unique())
        ax.set(yscale="log", xticks=range(len(ticks)), xticklabels=ticks)
        ax.set_title(one_rounds.SETTING_TITLES[setting], loc="left", fontsize=9)
    last = axes.flat[-1]
    for row, (design, label) in enumerate(ONE_ROUND_LABELS.items()):
        colour, dash, *_ = plots.method_style(design)
        y = 1 - (row + 0.5) / len(ONE_ROUND_LABELS)
        last.plot((0, 0.2), (y, y), color=colour, ls=dash, lw=2, transform=last.transAxes)
        style = {"color": plots.text_colour(colour), "fontsize": 9, "va": "center"}
        last.text(0.25, y, label, transform=last.transAxes, **style)
    for ax in list(axes.flat)[len(settings) :]:
        ax.axis("off")
    figure.supxlabel("participants in a round", fontsize=10)
    figure.supylabel("error of a round, relative to MD", fontsize=10)
    return figure


def tabulate_better_designs(table: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the one-round error of the design "least variance", and the designs whose error is smaller.

    The one-round error is the mean squared distance of a round's aggregated update from that of all clients, divided by
    that of MD sampling.

    Args:
        table: as `one_rounds.load` returns it.

    Returns:
        One row per setting and number of participants m: the mean and the largest error over partitions and rounds, and
        the designs whose error is below that of least variance in every partition.
    """
    summary, rows = one_rounds.summarise(table).set_index(["setting", "m", "design"]), []
    for setting, title in one_rounds.SETTING_TITLES.items():
        for m in sorted(table.loc[table["setting"] == setting, "m"].unique()):
            mean, _, largest = summary.loc[
                (setting, m, LEAST_VARIANCE_METHOD), ["mean", "se", "largest"]
            ]
            better = one_rounds.list_better_designs(table, setting, m)
            designs = "; ".join(one_rounds.DESIGN_NAMES[design] for design in better) or "–"
            rows.append((title, m, f"{mean:.2g}", f"{largest:.2g}", designs))
    names = [
        "setting",
        "*m*",
        f"mean error of {LEAST_VARIANCE_LABEL} (MD: 1)",
        "largest error",
        "designs with less error in every partition",
    ]
    return pd.DataFrame(rows, columns=names)


def tabulate_renewal(summary: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the mean errors of strata that updates renew: a row per setting and kind of features, a column for each
    number of rounds; `summary` is as `feature_errors.summarise_renewal` returns it."""
    order = [*feature_errors.RENEWAL_FEATURES, feature_errors.ORACLE]
    parts = []
    for name, setting in feature_errors.RENEWAL_SETTINGS.items():
        rows = summary[summary["setting"] == name]
        if len(rows):
            means = rows.pivot(index="features", columns="round", values="mean").loc[order]
            means.columns = [f"round {number}" for number in means.columns]
            part = means.map("{:.3f}".format).rename_axis("strata from").reset_index()
            part.insert(0, "setting", setting.title)
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def compare_renewal(summary: pd.DataFrame) -> pd.DataFrame:
    """Divide the mean errors of strata that updates renew by those of the sketch that is asked for once.

    Args:
        summary: as `feature_errors.summarise_renewal` returns it.

    Returns:
        One row per setting and round: the ratios `renewed` (the sketch, then updates) and `updates` (these alone).
    """
    means = summary.pivot(index=["setting", "round"], columns="features", values="mean")
    ratios = means[[THEN_UPDATES, ONLY_UPDATES]].div(means[ONCE], axis=0)
    return ratios.set_axis(["renewed", "updates"], axis=1)


def tabulate_gaps(gaps: dict) -> pd.DataFrame:
    """Tabulate how far the search for strata is from the best of all partitions.

    Args:
        gaps: by the numbers of clients N and of strata m, as `least_variance.measure_search` returns them.
    """
    rows = [
        (n, m, f"{100 * g.optimal:.0f} %", f"{g.worst:.2f}", f"{g.of_md:.2f}")
        for (n, m), g in gaps.items()
    ]
    names = ["*N*", "*m*", "best found", "worst, of the best", "worst, of MD"]
    return pd.DataFrame(rows, columns=names)


def tabulate_series(series: dict[str, np.ndarray]) -> pd.DataFrame:
    """Tabulate values of several series [rounds + 1], by name, at rounds 0, 10, ..., 10,000 as text."""
    rows = [
        (f"{t:,}", *(f"{x[t]:.3g}" for x in series.values())) for t in (0, 10, 100, 1_000, 10_000)
    ]
    return pd.DataFrame(rows, columns=["round", *series])


def tabulate_comparisons(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each variant of least variance against each rival: differences with 95 % intervals, a star where Holm's p
    is below 0.05, and relative costs.

    Args:
        comparisons: as `least_variance_results.compare_with_rivals` returns them.
    """
    rows = []
    for (place, m, rival), group in comparisons.groupby(["place", "m", "rival"], sort=False):
        row = {"data": place, "*m*": m, f"{LEAST_VARIANCE_LABEL} against": COST_LABELS[rival]}
        for variant, one in group.set_index("variant").iterrows():
            name = variant.removeprefix(LEAST_VARIANCE_METHOD).removeprefix(", ") or "strata once"
            interval = statistics.format_interval(
                one["difference"], one["low"], one["high"], "+.1f"
            )
            row[name] = interval + ("*" if one["holm"] < 0.05 else "")
        first = group.iloc[0]
        row |= {"bytes": f"{first['bytes']:.2f}", "examples": f"{first['examples']:.2f}"}
        rows.append(row | {"seeds": f"{first['seeds']:.0f}"})
    return pd.DataFrame(rows)


def list_significant_differences(comparisons: pd.DataFrame, rival: str, m: int) -> list[float]:
    """List the differences of strata formed once to a rival for which Holm's p is below 0.05."""
    rows = comparisons[
        (comparisons["variant"] == LEAST_VARIANCE_METHOD)
        & (comparisons["rival"] == rival)
        & (comparisons["m"] == m)
    ]
    return rows.loc[rows["holm"] < 0.05, "difference"].tolist()


def draw_gains(duels: pd.DataFrame, tuned: pd.DataFrame) -> Figure:
    """Draw by how many points least variance is ahead of each rival, with 95 % intervals: at one learning rate on the
    left, with tuned rates at equal megabytes on the right.

    Args:
        duels: as `least_variance_results.compare_with_rivals` returns them.
        tuned: as `compute_tuned_gains` returns them.
    """
    fixed = duels[duels["variant"] == LEAST_VARIANCE_METHOD].set_index(["place", "m", "rival"])
    rows = {f"{place}, m = {m}": (place, m) for place, m in fixed.index.droplevel("rival").unique()}
    left = {
        rival: pd.DataFrame(
            [fixed.loc[(*row, rival), ["difference", "low", "high"]] for row in rows.values()]
        ).set_axis(["mean", "low", "high"], axis=1)
        for rival in RIVALS
    }
    budgets = {"small": "early", "large": "late"}
    cells = {
        f"{title}, {word}": (setting, budget)
        for setting, title in TUNED_TITLES.items()
        for budget, word in budgets.items()
    }
    right = {}
    for rival in RIVALS:
        index = pd.MultiIndex.from_tuples(
            [(s, LEAST_VARIANCE, rival, b) for s, b in cells.values()], names=tuned.index.names
        )
        gains = tuned[["gain", "low", "high"]].reindex(index)
        right[rival] = gains.set_axis(["mean", "low", "high"], axis=1)
    figure, axes = plt.subplots(1, 2, figsize=(plots.WIDE, 4.4), width_ratios=(0.8, 1))
    titles = "one learning rate, 99 rounds", "tuned rates, at equal megabytes"
    for ax, names, series, title in zip(axes, (rows, cells), (left, right), titles, strict=True):
        named = {rival: table.set_axis(list(names)) for rival, table in series.items()}
        plots.intervals(ax, named, spread=0.5, reference=0, xlabel="points ahead of the rival")
        ax.set_title(title, loc="left", fontsize=10)
        ax.tick_params(axis="y", labelsize=8)
        foot = {"xycoords": ax.get_xaxis_transform(), "va": "bottom", "fontsize": 8}
        plots.annotate(ax, 0, 0.0, "no difference", plots.BLACK, 3, **foot)
    names = {
        rival: plots.method_style(rival)._replace(
            label=f"ahead of {COST_LABELS[rival]}", dash="", marker="o"
        )
        for rival in RIVALS
    }
    plots.legend(figure, names, columns=3)
    return figure


def format_gain(frame: pd.DataFrame, method: str = "fedstas-unbiased", other: str = "md") -> str:
    """Format the mean and 95 % interval of the paired difference in final accuracy, in points."""
    if not {method, other} <= set(frame["method"]):
        return f"({tables.NOT_RECORDED})"
    wide = tables.pivot_seeds(frame, "test_accuracy")
    difference = (wide[method] - wide[other]).dropna()
    return statistics.format_interval(*statistics.mean_interval(difference), "+.1f")


def tabulate_corrected_method(grids: dict) -> pd.DataFrame:
    """Tabulate the corrected method's gain on MD wherever both were trained.

    Args:
        grids: by name, the recorded sweeps `preprint`, `mnist-0.001`, `mnist-iid`, `fashion-mnist` and `sensitivity`.
    """
    mnist = {x: grids["preprint"].where(partition=x) for x in ("dirichlet", "dirichlet_fixed_size")}
    sensitivity = grids["sensitivity"].frame
    federations = [
        ("MNIST", "disjoint", "0.01", 10, mnist["dirichlet"]),
        ("MNIST", "equal sizes", "0.01", 10, mnist["dirichlet_fixed_size"]),
        ("MNIST", "equal sizes", "0.001", 10, grids["mnist-0.001"].frame),
        ("MNIST", "IID", "–", 10, grids["mnist-iid"].frame),
        ("Fashion-MNIST", "disjoint", "0.01", 10, grids["fashion-mnist"].frame),
    ]
    for x in (0.001, 0.1, 1.0, 10.0):
        runs = sensitivity[sensitivity["variant"] == tables.Variant.of(concentration=x)]
        federations.append(("MNIST", "disjoint", f"{x:g}", 10, runs))
    for m in (5, 20, 40):
        runs = sensitivity[sensitivity["variant"] == tables.Variant.of(clients_per_round=m)]
        federations.append(("MNIST", "disjoint", "0.01", m, runs))
    names = ["data", "partition", "concentration", "*m*", "corrected against MD, points", "seeds"]
    rows = [(*names_, format_gain(runs), runs["seed"].nunique()) for *names_, runs in federations]
    return pd.DataFrame(rows, columns=names)


TUNED_TITLES = {  # of the settings of the first comparison, as the figure of gains names them
    "mnist": "MNIST 0.01",
    "fashion-mnist": "Fashion-MNIST 0.01",
    "mnist-equal": "MNIST, equal sizes",
    "mnist-0.1": "MNIST 0.1",
    "mnist-1000": "MNIST, 1,000 clients",
    "cifar100-coarse": "CIFAR-100 coarse",
}


def compute_tuned_gains() -> pd.DataFrame:
    """Compute the differences in accuracy between each of least variance and its rivals, and each rival other than itself.

    Each design has its tuned learning rate. Accuracies are those when a run has sent as many megabytes as one of the two
    budgets of chapter 10's protocol allows.

    Returns:
        One row per setting, arm (least variance or a rival), rival (a rival other than arm) and budget ("small" or "large"),
        which are its index: gain, the mean of arm minus rival in percentage points, its 95 % interval low to high, and
        the number of seeds.
    """
    arms = {LEAST_VARIANCE, *RIVALS}
    settings = {
        name: replace(setting, arms=tuple(arm for arm in setting.arms if arm.name in arms))
        for name, setting in protocol.read().items()
    }
    runs, parts = protocol.load_runs(), []
    for name in TUNED_TITLES:
        outcomes = protocol.compute_outcomes(settings, name, recorded=runs)
        for rival in sorted(set(RIVALS) & set(outcomes["arm"])):
            gains = protocol.compute_gains(outcomes, rival, ("small", "large"))
            parts.append(gains.assign(setting=name, rival=rival))
    table = pd.concat(parts).rename(columns={"metric": "budget"})
    return table.set_index(["setting", "arm", "rival", "budget"])[
        ["gain", "low", "high", "seeds"]
    ].sort_index()


def format_tuned_gains(gains: pd.DataFrame) -> dict[str, str | int]:
    """Format the gains of `compute_tuned_gains` that the chapter quotes, by their names there, and the least number of
    seeds."""
    similar = "clustered-similarity"
    quoted = {
        "mnist": ("mnist", LEAST_VARIANCE, "md", "small"),
        "fashion": ("fashion-mnist", LEAST_VARIANCE, "md", "small"),
        "fashion_late": ("fashion-mnist", LEAST_VARIANCE, "md", "large"),
        "equal": ("mnist-equal", LEAST_VARIANCE, "md", "small"),
        "alike": ("mnist-0.1", LEAST_VARIANCE, "md", "small"),
        "thousand": ("mnist-1000", LEAST_VARIANCE, "md", "small"),
        "corrected": ("mnist", LEAST_VARIANCE, "fedstas-unbiased", "small"),
        "colour": ("cifar100-coarse", LEAST_VARIANCE, "md", "large"),
        "similar": ("cifar100-coarse", similar, "md", "large"),
    }
    values: dict[str, str | int] = {"tuned_seeds": int(gains["seeds"].min())}
    for name, row in quoted.items():
        gain, low, high = gains.loc[row, ["gain", "low", "high"]]
        values[f"tuned_{name}"] = statistics.format_interval(gain, low, high, "+.1f")
    row = gains.loc["mnist-equal", LEAST_VARIANCE, "md", "large"]
    # two digits: the interval ends close to 0
    values["tuned_equal_late"] = statistics.format_interval(*row[["gain", "low", "high"]], "+.2f")
    return values


def check_tuned_gains(gains: pd.DataFrame) -> dict[str, bool]:
    """Check each sentence of the chapter on the gains of `compute_tuned_gains`; a lead is certain if its interval is above 0."""

    def signs(setting: str, rival: str, arm: str = LEAST_VARIANCE) -> tuple[int, ...]:
        """Return, for both budgets, 1 if the interval is above 0, -1 if it is below, and 0 if it holds 0."""
        rows = (gains.loc[setting, arm, rival, budget] for budget in ("small", "large"))
        return tuple(int(row["low"] > 0) - int(row["high"] < 0) for row in rows)

    unlike, similar = ("mnist", "fashion-mnist"), "clustered-similarity"
    above_similar = [signs(setting, similar) for setting in (*unlike, "mnist-equal")]
    _, colour_similar = signs("cifar100-coarse", "md", similar)  # at the larger budget
    _, colour = signs("cifar100-coarse", "md")
    # The signs at the smaller and at the larger budget, of each setting.
    small, large = zip(*(signs(setting, "md") for setting in unlike), strict=True)
    return {
        # where sizes differ, least variance is surely ahead of MD at the smaller budget
        "early": all(sign == 1 for sign in small),
        # at the larger one only on Fashion-MNIST
        "late": large == (0, 1),
        # with equal sizes it is open at the smaller budget, and surely ahead at the larger one
        "equal": signs("mnist-equal", "md") == (0, 1),
        # where sizes differ, it is surely ahead of corrected k-means strata at both budgets
        "corrected": all(signs(setting, "fedstas-unbiased") == (1, 1) for setting in unlike),
        # of clustered sampling by similarity, only on Fashion-MNIST at the larger budget
        "similar": above_similar == [(0, 0), (0, 1), (0, 0)],
        # where clients are more alike, no lead over MD is sure
        "alike": signs("mnist-0.1", "md") == (0, 0),
        # with 1,000 clients it is surely behind MD at both budgets
        "many": signs("mnist-1000", "md") == (-1, -1),
        # on colour images at the larger budget, clustered sampling is surely ahead of MD and least variance is not
        "colour": (colour_similar, colour) == (1, 0),
    }


def compute_costs_of_asking() -> dict[str, float]:
    """Compute the megabytes of asking 1,000 clients once: `asked` for squeezed gradients, as in the first comparison, and
    `asked_mb` for sketches, with a first model that is made from a seed."""
    many = protocol.read()["mnist-1000"]
    result = design_comparison.load_results({many.name: many})[many.name]
    errors = feature_errors.summarise(feature_errors.load())
    sketches = asking.compute_asking_numbers(errors)["asked_mb"]
    return {"asked": design_comparison.first_round_surcharge(result), "asked_mb": sketches}


def compare_many_clients(recorded: list[Record]) -> pd.DataFrame:
    """Compare least variance with MD in the second comparison's setting of 1,000 clients.

    Args:
        recorded: as `comparison.load_runs` returns it.

    Returns:
        One row per model ("average" or "raw", the last one) and outcome of `comparison.compare`, which are its index.
    """
    many = comparison.read()["cifar10-features-1000"]
    pair = comparison.narrow(many, ["md", LEAST_VARIANCE])
    gains = comparison.compare(comparison.outcomes(pair, recorded), "md")
    return gains.set_index(["model", "outcome"])


def compare_last_updates(recorded: list[Record]) -> pd.DataFrame:
    """Compare the bytes of strata from last updates with MD's, between averaged models, in the second comparison.

    Args:
        recorded: as `comparison.load_runs` returns it.

    Returns:
        One row per setting in which they are recorded, its index, as `saved_bytes.select_ratios` returns it.
    """
    pairs = [
        comparison.outcomes(comparison.narrow(setting, ["md", FROM_UPDATES]), recorded)
        for setting in comparison.read().values()
        if FROM_UPDATES in {arm.name for arm in setting.arms}
    ]
    gains = comparison.compare(pd.concat([each for each in pairs if len(each)]), "md")
    return saved_bytes.select_ratios(gains, FROM_UPDATES)


def compute_cifar_accuracies(sweep: tables.RecordedSweep) -> dict[tuple[str, str], float]:
    """Compute final accuracies on CIFAR-100, by method: `stated` at the preprint's rate and work, `more` at the rate chosen
    for MD."""
    larger = np.array(["lr" in variant for variant in sweep.frame["variant"]], dtype=bool)
    accuracies = {}
    for key, part in (("stated", sweep.frame[~larger]), ("more", sweep.frame[larger])):
        for method, value in tables.summarise(part, "test_accuracy")["mean"].items():
            accuracies[key, method] = float(value)
    return accuracies


def format_citation() -> str:
    """Format how to cite the companion and the paper: a sentence and two BibTeX entries."""
    cff = yaml.safe_load(Path("CITATION.cff").read_text(encoding="utf-8"))
    repository = yaml.safe_load(Path("_config.yml").read_text(encoding="utf-8"))["repository"][
        "url"
    ]
    people = [
        x.get("name") or f"{x.get('family-names')}, {x.get('given-names')}" for x in cff["authors"]
    ]
    paper = cff["references"][0]
    authors = " and ".join(f"{x['family-names']}, {x['given-names']}" for x in paper["authors"])
    entry = f"""@software{{fedstas_executed,
  title   = {{{cff["title"]}}},
  author  = {{{{{" and ".join(people)}}}}},
  url     = {{{cff.get("repository-code", repository)}}},
  license = {{{cff["license"]}}},
  note    = {{Page: A better design}}
}}
@article{{slessor{paper["year"]}fedstas,
  title   = {{{paper["title"]}}},
  author  = {{{authors}}},
  year    = {{{paper["year"]}}}
}}"""
    return f"{cff['message']}\n\n```bibtex\n{entry}\n```"


def tabulate_rounding(rounded: dict) -> pd.DataFrame:
    """Tabulate variances of independent draws and of strata.

    Args:
        rounded: by the design's name, the variances of its draws, of the strata that rounding makes of them, and of the
            best strata.
    """
    rows = [(name, *(f"{v:.3f}" for v in values)) for name, values in rounded.items()]
    return pd.DataFrame(rows, columns=["draws of", "variance", "rounded to strata", "best strata"])


def tabulate_rates(rates: dict[int, tuple[float, float, float]]) -> pd.DataFrame:
    """Tabulate the relative squared error of the private sampling rate by the number of clients.

    Args:
        rates: by the number of clients, the exact error, the error to first order, and its bound.
    """
    rows = [
        (f"{count:,}", f"{exact:.4f}", f"{first:.4f}", f"{bound:.2f}")
        for count, (exact, first, bound) in rates.items()
    ]
    names = ["clients", "E(p̃/p − 1)², exact", "Var ñ / n²", "bound"]
    return pd.DataFrame(rows, columns=names)
