"""Figures and tables of chapter 9, *What we would write instead*."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from companion.pages import draw_probabilities, plots
from companion.runs import one_rounds, protocol, statistics, tables
from companion.runs.one_rounds import CUT
from fedstas import allocation, methods
from fedstas.sim import one_round
from fedstas.sim.rng import stream
from fedstas.theory import least_variance

NORM, FROM = f"{CUT}, draws by norm", f"{CUT}, from updates"
OLD, NOISE = f"{CUT}, every 10 rounds", f"{CUT}, noise"
MD, KMEANS, SIMILAR, LEAST = "MD", "k-means strata", "clustered by similarity", "the cut"
LINES = {  # of the figure of one-round errors, and what they are called there
    "clustered-similarity": "clustered by similarity",
    "optimal-client-sampling": "coins by norm",
    "cube": "cube method",
    "fedstas-unbiased": "k-means strata",
    FROM: "cut, from updates",
    CUT: "the cut",
}
RACERS = {"md": "MD", "clustered-similarity": "clustered", "fedstas-unbiased": "k-means", CUT: "the cut"}  # fmt: skip


def cohorts(found, updates) -> pd.DataFrame:
    """Every cohort with its probability, its weights and what it adds to the model."""
    rows = []
    for clients, weights, chance in found:
        step = sum(w * updates[k] for w, k in zip(weights, clients, strict=True))
        drawn = ", ".join(str(k + 1) for k in clients)
        rows.append((drawn, chance, ", ".join(map(str, weights)), step))
    names = ["clients drawn", "probability", "weights", "update"]
    return pd.DataFrame(rows, columns=names).astype(str)


def designs(state: one_round.State, levels: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Contributions x and probabilities p [m, N] of four designs at a state."""
    m, omega = state.setup.m, state.omega
    kmeans = methods.get("fedstas-unbiased", levels=levels).clients
    cut = methods.get("fedstas-least-variance", levels=levels).clients
    asked = one_round.view_at(state, kmeans), m, stream(state.setup.seed, "one round", 0)
    labels, measure, _ = kmeans.measure(*asked)
    totals = np.bincount(labels, measure)
    bounds = {"lower": np.ones(len(totals)), "upper": np.full(len(totals), m)}
    given = allocation.by_priority(totals, m, **bounds)
    similar = methods.get("clustered-similarity").clients
    r = similar.distributions(one_round.view_at(state, similar), m)
    least, q, _ = cut.strata(one_round.view_at(state, cut), m)

    def of(labels, a, given):
        p = draw_probabilities.probabilities_of_strata(labels, a, given)
        held = np.repeat(np.asarray(given), given)[:, None]
        return omega * (p > 0) / held, p

    return {
        MD: of(0 * labels, omega, [m]),
        KMEANS: of(labels, measure, given),
        SIMILAR: (r / m, r),
        LEAST: of(least, q, np.ones(least.max() + 1, dtype=int)),
    }


def heaviest(p: np.ndarray, omega: np.ndarray) -> tuple[float, int]:
    """The share of the weight in the heaviest stratum of rows p [m, N], and its seats."""
    mass = (p > 0) @ omega
    return float(mass.max()), int((mass > mass.max() - 1e-12).sum())


def coordinates(state: one_round.State) -> tuple[np.ndarray, float]:
    """The two principal coordinates [N, 2] of the updates, and their share of the spread."""
    omega, ones = state.omega, np.ones(len(state.omega))
    mean = state.gram @ omega
    spread = state.gram - np.outer(ones, mean) - np.outer(mean, ones) + omega @ mean
    lengths, axes = np.linalg.eigh(np.sqrt(np.outer(omega, omega)) * spread)
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(len(axes))])
    two, found = axes[:, -2:][:, ::-1], np.sqrt(np.maximum(lengths[-2:][::-1], 0))
    return two * found / np.sqrt(omega)[:, None], float(found @ found / lengths[lengths > 0].sum())


def map_of(state: one_round.State, found: dict, of_md: dict[str, float]) -> Figure:
    """The same clients under each design; a slice of a client is what one draw stands for."""
    short = {SIMILAR: "by similarity"}
    panels = {f"{short.get(k, k)}: {of_md[k]:.2f}": x / state.omega for k, (x, _) in found.items()}
    figure = plots.strata_map(coordinates(state)[0], state.omega, panels)
    figure.set_size_inches(4.2, 4.2)
    return figure


def silent(state, vibs: dict, found: dict, levels: int, drop: float, seed: int):
    """Errors of all designs at a state if all answer and if a share `drop` does not, from 1,000 cohorts each,
    in multiples of MD's; and the exact ones with the remedy, of `found` alone."""
    more = state.noise + drop / (1 - drop) * (state.gram.diagonal() + state.noise)
    exact = {
        k: least_variance.variance_of(*x, state.gram, more) / state.md_error
        for k, x in found.items()
    }
    late = list(vibs.values())[-1]
    looked_at = {
        MD: (state, "md", {}),
        KMEANS: (state, "fedstas-unbiased", {"levels": levels}),
        SIMILAR: (state, "clustered-similarity", {}),
        LEAST: (state, "fedstas-least-variance", {"levels": levels}),
        "distinct clients at random": (state, "fedavg-unbiased", {}),
        **{f"K-Vib, round {t + 1} of its own run": (x, "k-vib", {}) for t, x in vibs.items()},
        "coins by size, in that round": (late, "poisson", {}),
    }
    seen = one_rounds.silent(looked_at, drop, seed=seed)
    return seen.assign(exact=pd.Series(exact).reindex(seen.index))


def silent_table(seen: pd.DataFrame) -> pd.DataFrame:
    """What `silent` found, as text."""
    names = {"error": "one in ten silent", "bias": "its bias", "exact": "remedied, exact"}
    shown = seen[["all answer", "error", "bias", "remedied", "exact"]].map("{:.2f}".format)
    return shown.replace("nan", "–").rename(columns=names).rename_axis("design").reset_index()


def bounds_table(measured: dict) -> pd.DataFrame:
    """The parts of the bound of strata of features, and what it bounds, by state."""
    rows = [
        (k, *(f"{v:.2f}" for v in (x.rho, x.eps, x.bound, x.ratio))) for k, x in measured.items()
    ]
    of_md = "$V/V_{\\mathrm{MD}}$"
    return pd.DataFrame(rows, columns=["strata", "$\\rho$", "$\\varepsilon$", "bound", of_md])


def one_round_errors(means: pd.DataFrame) -> Figure:
    """The error of a round over the participants, a panel a setting; the last panel names the lines."""
    there = [x for x in one_rounds.PLACES if x in set(means["setting"])]
    figure, axes = plt.subplots(-(-(len(there) + 1) // 2), 2, figsize=(4.2, 5.6), sharey=True)
    for ax, setting in zip(axes.flat, there, strict=False):
        rows = means[means["setting"] == setting].set_index("design")
        ax.axhline(1, color=plots.GREY, lw=1)
        for design in LINES:
            if design in rows.index:
                found = rows.loc[[design]].sort_values("m")
                colour, dash, *_ = plots.method_style(design)
                x = range(len(found))
                ax.errorbar(x, found["mean"], found["se"], color=colour, ls=dash, lw=1.6, capsize=2)
        ticks = sorted(rows["m"].unique())
        ax.set(yscale="log", xticks=range(len(ticks)), xticklabels=ticks)
        ax.set_title(one_rounds.PLACES[setting].replace(", ", ",\n"), loc="left", fontsize=9)
    last = axes.flat[-1]
    for place, (design, words) in enumerate(LINES.items()):
        colour, dash, *_ = plots.method_style(design)
        y = 1 - (place + 0.5) / len(LINES)
        last.plot((0, 0.2), (y, y), color=colour, ls=dash, lw=2, transform=last.transAxes)
        last.text(
            0.25,
            y,
            words,
            color=plots.text_colour(colour),
            fontsize=9,
            va="center",
            transform=last.transAxes,
        )
    for ax in list(axes.flat)[len(there) :]:
        ax.axis("off")
    figure.supxlabel("participants", fontsize=10)
    figure.supylabel("error of a round (MD: 1)", fontsize=10)
    return figure


def ahead(frame: pd.DataFrame) -> pd.DataFrame:
    """By setting and number of participants: what the cut leaves of MD's error, its largest cell, and the
    designs that err less in every partition."""
    means, rows = one_rounds.summary(frame).set_index(["setting", "m", "design"]), []
    for setting, place in one_rounds.PLACES.items():
        for m in sorted(frame.loc[frame["setting"] == setting, "m"].unique()):
            left, _, largest = means.loc[(setting, m, CUT), ["mean", "se", "largest"]]
            better = one_rounds.ahead(frame, setting, m)
            names = "; ".join(one_rounds.NAMES[x] for x in better) or "–"
            rows.append((place, m, f"{left:.2g}", f"{largest:.2g}", names))
    names = ["setting", "$m$", "the cut leaves", "at most", "less in every partition"]
    return pd.DataFrame(rows, columns=names)


def gaps_table(gaps: dict) -> pd.DataFrame:
    """How far the search is from the best of all partitions, by N and m."""
    rows = [
        (n, m, f"{100 * g.optimal:.0f} %", f"{g.worst:.2f}", f"{g.of_md:.2f}")
        for (n, m), g in gaps.items()
    ]
    names = ["$N$", "$m$", "best found", "worst, of the best", "worst, of MD"]
    return pd.DataFrame(rows, columns=names)


def at_rounds(series: dict[str, np.ndarray]) -> pd.DataFrame:
    """Values of several series at some rounds, as text."""
    rows = [
        (f"{t:,}", *(f"{x[t]:.3g}" for x in series.values())) for t in (0, 10, 100, 1_000, 10_000)
    ]
    return pd.DataFrame(rows, columns=["round", *series])


def duels_table(duels: pd.DataFrame) -> pd.DataFrame:
    """Each way to cut against each rival: differences with 95 % intervals, a star by Holm's p, and costs."""
    rows = []
    for (place, m, rival), found in duels.groupby(["place", "m", "rival"], sort=False):
        row = {"data": place, "$m$": m, "cut against": RACERS[rival]}
        for way, x in found.set_index("way").iterrows():
            name = way.removeprefix(CUT).removeprefix(", ") or "strata once"
            star = "*" if x["holm"] < 0.05 else ""
            row[name] = (
                statistics.format_interval(x["difference"], x["low"], x["high"], "+.1f") + star
            )
        one = found.iloc[0]
        row |= {"bytes": f"{one['bytes']:.2f}", "examples": f"{one['examples']:.2f}"}
        rows.append(row | {"seeds": f"{one['seeds']:.0f}"})
    return pd.DataFrame(rows)


def told_apart(duels: pd.DataFrame, rival: str, m: int) -> list[float]:
    """Differences of strata made once to a rival that Holm's p tells from 0."""
    here = (duels["way"] == CUT) & (duels["rival"] == rival) & (duels["m"] == m)
    return duels.loc[here & (duels["holm"] < 0.05), "difference"].tolist()


def costs(races: dict) -> Figure:
    """Accuracy over megabytes, a row a place, with ten participants on the left and five on the right."""
    places = list(dict.fromkeys(place for place, _ in races))
    figure, axes = plt.subplots(
        len(places), 2, figsize=(4.2, 5.4), sharey="row", sharex="col", squeeze=False
    )
    for row, place in zip(axes, places, strict=True):
        for ax, m in zip(row, (10, 5), strict=True):
            there = [x for x in RACERS if x in set(races[place, m]["method"])]
            labels = {"x": "megabytes", "names": False, "xlabel": "", "ylabel": ""}
            plots.learning_curves(
                ax, races[place, m], "test_accuracy", there, xscale="log", **labels
            )
            ax.set_title(f"{place.replace(', ', chr(10))}, m = {m}", loc="left", fontsize=9)
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
    for place, (name, words) in enumerate(RACERS.items()):
        how = {"transform": axes[0, 0].transAxes, "fontsize": 9}
        axes[0, 0].text(
            0.04, 0.93 - 0.13 * place, words, color=plots.method_style(name).colour, **how
        )
    figure.supxlabel("sent and received (MB)", fontsize=10)
    figure.supylabel("accuracy on the test set (%)", fontsize=10)
    return figure


def gain(frame: pd.DataFrame, method: str = "fedstas-unbiased", other: str = "md") -> str:
    """Mean and 95 % interval of the paired difference in final accuracy, in points."""
    if not {method, other} <= set(frame["method"]):
        return f"({tables.NOT_RECORDED})"
    wide = tables.pivot_seeds(frame, "test_accuracy")
    difference = (wide[method] - wide[other]).dropna()
    return statistics.format_interval(*statistics.mean_interval(difference), "+.1f")


def tried(grids: dict) -> pd.DataFrame:
    """The corrected method against MD wherever both were trained."""
    both = {x: grids["preprint"].where(partition=x) for x in ("dirichlet", "dirichlet_fixed_size")}
    around = grids["sensitivity"].frame
    rows = [
        ("MNIST", "disjoint", "0.01", 10, both["dirichlet"]),
        ("MNIST", "equal sizes", "0.01", 10, both["dirichlet_fixed_size"]),
        ("MNIST", "equal sizes", "0.001", 10, grids["mnist-0.001"].frame),
        ("MNIST", "IID", "–", 10, grids["mnist-iid"].frame),
        ("Fashion-MNIST", "disjoint", "0.01", 10, grids["fashion-mnist"].frame),
    ]
    for x in (0.001, 0.1, 1.0, 10.0):
        runs = around[around["variant"] == tables.Variant.of(concentration=x)]
        rows.append(("MNIST", "disjoint", f"{x:g}", 10, runs))
    for x in (5, 20, 40):
        runs = around[around["variant"] == tables.Variant.of(clients_per_round=x)]
        rows.append(("MNIST", "disjoint", "0.01", x, runs))
    names = ["data", "partition", "concentration", "$m$", "corrected against MD, points", "seeds"]
    found = [(*row[:4], gain(row[4]), row[4]["seed"].nunique()) for row in rows]
    return pd.DataFrame(found, columns=names)


TUNED = ("mnist", "fashion-mnist", "mnist-equal", "mnist-0.1", "mnist-1000", "cifar100-coarse")
ARM = "least-variance"  # what the protocol calls the method
RIVALS = ("md", "clustered-similarity", "fedstas-unbiased")


def tuned() -> pd.DataFrame:
    """Of the protocol, at both budgets: points of least variance and of three rivals above each other. Index
    setting, arm, rival, budget; columns gain, low, high, seeds."""
    arms = {ARM, *RIVALS}
    known = {
        name: replace(setting, arms=tuple(arm for arm in setting.arms if arm.name in arms))
        for name, setting in protocol.read().items()
    }
    runs, rows = protocol.load_runs(), []
    for name in TUNED:
        found = protocol.compute_outcomes(known, name, recorded=runs)
        for rival in sorted(set(RIVALS) & set(found["arm"])):
            against = protocol.compute_gains(found, rival, ("small", "large"))
            rows.append(against.assign(setting=name, rival=rival))
    table = pd.concat(rows).rename(columns={"metric": "budget"})
    return table.set_index(["setting", "arm", "rival", "budget"])[
        ["gain", "low", "high", "seeds"]
    ].sort_index()


def tuned_told(table: pd.DataFrame) -> dict[str, str | int]:
    """Gains of `tuned` with their intervals, as the chapter names them, and on how many seeds at least."""
    cells = {
        "mnist": ("mnist", ARM, "md", "small"),
        "fashion": ("fashion-mnist", ARM, "md", "small"),
        "fashion_late": ("fashion-mnist", ARM, "md", "large"),
        "equal": ("mnist-equal", ARM, "md", "small"),
        "alike": ("mnist-0.1", ARM, "md", "small"),
        "thousand": ("mnist-1000", ARM, "md", "small"),
        "corrected": ("mnist", ARM, "fedstas-unbiased", "small"),
        "colour": ("cifar100-coarse", ARM, "md", "large"),
        "similar": ("cifar100-coarse", "clustered-similarity", "md", "large"),
    }
    told: dict[str, str | int] = {"tuned_seeds": int(table["seeds"].min())}
    for key, at in cells.items():
        told[f"tuned_{key}"] = statistics.format_interval(
            *table.loc[at, ["gain", "low", "high"]], "+.1f"
        )
    return told


def tuned_say(table: pd.DataFrame) -> dict[str, bool]:
    """Whether what the chapter says of `tuned` holds."""

    def sure(setting: str, rival: str, arm: str = ARM) -> tuple[int, ...]:
        """At the smaller and the larger budget: 1 surely above the rival, -1 surely below, 0 open."""
        both = (table.loc[setting, arm, rival, budget] for budget in ("small", "large"))
        return tuple(int(one["low"] > 0) - int(one["high"] < 0) for one in both)

    unlike, similar = ("mnist", "fashion-mnist"), "clustered-similarity"
    near = [sure(place, similar) for place in (*unlike, "mnist-equal")]
    clustered, cut = sure("cifar100-coarse", "md", similar), sure("cifar100-coarse", "md")
    return {
        "early": all(sure(place, "md")[0] == 1 for place in unlike),
        "late": [sure(place, "md")[1] for place in unlike] == [0, 1],
        "equal": sure("mnist-equal", "md")[0] == 0,
        "corrected": all(sure(place, "fedstas-unbiased") == (1, 1) for place in unlike),
        "similar": near == [(0, 0), (0, 1), (0, 0)],
        "alike": sure("mnist-0.1", "md") == (0, 0),
        "many": sure("mnist-1000", "md") == (-1, -1),
        "colour": (clustered[1], cut[1]) == (1, 0),
    }


def on_cifar(hundred) -> dict[str, float]:
    """Final accuracies on CIFAR-100 by key and method, at the rate chosen for MD and at the stated work."""
    larger = np.array(["lr" in variant for variant in hundred.frame["variant"]], dtype=bool)
    found = {}
    for key, part in (("stated", hundred.frame[~larger]), ("more", hundred.frame[larger])):
        for method, value in tables.summarise(part, "test_accuracy")["mean"].items():
            found[key, method] = float(value)
    return found


def citation() -> str:
    """How to cite the companion and the paper: a sentence and two entries."""
    cff = yaml.safe_load(Path("CITATION.cff").read_text())
    repository = yaml.safe_load(Path("_config.yml").read_text())["repository"]["url"]
    people = [
        x.get("name") or f"{x.get('family-names')}, {x.get('given-names')}" for x in cff["authors"]
    ]
    about = cff["references"][0]
    named = " and ".join(f"{x['family-names']}, {x['given-names']}" for x in about["authors"])
    entry = f"""@software{{fedstas_executed,
  title   = {{{cff["title"]}}},
  author  = {{{{{" and ".join(people)}}}}},
  url     = {{{cff.get("repository-code", repository)}}},
  license = {{{cff["license"]}}},
  note    = {{Chapter 9, What we would write instead}}
}}
@article{{slessor{about["year"]}fedstas,
  title   = {{{about["title"]}}},
  author  = {{{named}}},
  year    = {{{about["year"]}}}
}}"""
    return f"{cff['message']}\n\n```bibtex\n{entry}\n```"


def rounded_table(rounded: dict) -> pd.DataFrame:
    """Variances of draws, of the strata that rounding makes of them, and of the best strata."""
    rows = [(name, *(f"{v:.3f}" for v in values)) for name, values in rounded.items()]
    return pd.DataFrame(rows, columns=["draws of", "variance", "rounded to strata", "best strata"])


def rates_table(rates: dict[int, tuple[float, float, float]]) -> pd.DataFrame:
    """The relative error of the rate by the number of clients: exact, to first order, and the bound."""
    rows = [
        (f"{count:,}", f"{exact:.4f}", f"{first:.4f}", f"{bound:.2f}")
        for count, (exact, first, bound) in rates.items()
    ]
    names = ["clients", "E(p̃/p − 1)², exact", "Var ñ / n²", "bound"]
    return pd.DataFrame(rows, columns=names)
