"""Chapter 10: the recorded comparison, its tables and figures, and checks of the chapter's sentences.

An accuracy is measured when a run has sent a number of megabytes, the smaller or the larger of the two budgets of its
setting (`protocol`), or after a number of rounds.

Sentences stand on the page and link to the row of the table (`anchor`) that they rest on; what is not recorded
is left out and named by `describe_missing`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import Markdown
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from companion.pages import plots
from companion.runs import (
    least_variance_results,
    one_rounds,
    protocol,
    provenance_report,
    statistics,
    tables,
)
from companion.runs.least_variance_results import FROM_UPDATES, LEAST_VARIANCE, RECORDED_NAMES
from companion.runs.tables import Variant
from fedstas.sim.rng import stream

# By arm: its label on the pages, and the method whose colour it has.
ARMS = {
    "all clients": ("all clients", "centralised"),
    LEAST_VARIANCE: ("least-variance strata", RECORDED_NAMES[LEAST_VARIANCE]),
    FROM_UPDATES: (
        "strata from updates",
        RECORDED_NAMES[FROM_UPDATES],
    ),
    "fedstas-unbiased": ("corrected", "fedstas-unbiased"),
    "clustered-similarity": ("clustered by similarity", "clustered-similarity"),
    "clustered-size": ("clustered by size", "clustered-size"),
    "fedsts": ("FedSTS as written", "fedsts"),
    "fedstas": ("FedSTaS as written", "fedstas"),
    "fedavg": ("FedAvg", "fedavg"),
    "fedavg-unbiased": ("unbiased FedAvg", "fedavg-unbiased"),
    "fedvarp": ("FedVARP", "fedvarp"),
    "optimal-client-sampling": ("optimal client sampling", "optimal-client-sampling"),
    "power-of-choice": ("power of choice", "power-of-choice"),
    "divfl": ("DivFL", "divfl"),
    "md": ("MD", "md"),
}
SHOWN_ARMS = (
    "all clients",
    LEAST_VARIANCE,
    FROM_UPDATES,
    "fedstas-unbiased",
    "clustered-similarity",
    "fedvarp",
    "fedstas",
)
BUDGETS = ("small", "large")  # the metrics of the primary outcome
SECONDARY = {
    "rounds": "gain, equal rounds",
    "examples": "gain, equal examples",
    "worst_decile": "gain, worst decile",
}
DETAILED_ARMS = (LEAST_VARIANCE, FROM_UPDATES, "clustered-similarity", "fedstas-unbiased")
HOLLOW_ARM = FROM_UPDATES  # drawn hollow: it shares the colour of least variance
UNLIKE = ("mnist", "fashion-mnist")  # 100 clients, disjoint at concentration 0.01, of unequal sizes
EQUAL = "mnist-equal"  # as those, with equal sizes
ALIKE = "mnist-0.1"  # 100 clients, disjoint at concentration 0.1: more alike
MANY = "mnist-1000"  # as ALIKE, with 1,000 clients
COLOUR = "cifar100-coarse"  # 100 clients, colour images, a convolutional network
TRIAL = "digits"  # for readers' designs; it is not counted among the results
# By setting: the sweep and rows that chapters 5 and 9 show of it at the preprint's rate.
UNTUNED = {
    "mnist": ("preprint", {"partition": "dirichlet"}),
    "mnist-equal": ("preprint", {"partition": "dirichlet_fixed_size"}),
    "fashion-mnist": ("fashion-mnist", {"partition": "dirichlet"}),
    "mnist-0.1": ("sensitivity", {"variant": Variant.of(concentration=0.1)}),
    "mnist-m5": ("sensitivity", {"variant": Variant.of(clients_per_round=5)}),
    "mnist-m20": ("sensitivity", {"variant": Variant.of(clients_per_round=20)}),
}
SETTINGS_OF_PLACES = {  # by the names of `least_variance_results`
    "MNIST, disjoint": "mnist",
    "MNIST, equal sizes": "mnist-equal",
    "Fashion-MNIST, disjoint": "fashion-mnist",
}


def arm_label(arm: str) -> str:
    """Return the label of an arm on the pages."""
    label, _ = ARMS.get(arm, (arm, ""))
    return label


def arm_style(arm: str) -> plots.Style:
    """Return the style of an arm's curve: the colour and dash of its method, and the arm's label."""
    if arm == "all clients":
        colour, dash = plots.GREY, "-."
    else:
        _, method = ARMS.get(arm, ("", arm))
        colour, dash, *_ = plots.method_style(method)
    return plots.Style(colour, dash, label=arm_label(arm))


def arm_colour(arm: str) -> str:
    """Return the colour of an arm's method."""
    return arm_style(arm).colour


# What is recorded


@dataclass(frozen=True, eq=False)
class SettingResults:
    """The recorded results of a setting: `outcomes` and `gains` of the protocol, accuracy by arm and rate `tried`,
    and the curves of evaluation (`rows`)."""

    setting: protocol.Setting
    outcomes: pd.DataFrame
    gains: pd.DataFrame
    tried: pd.DataFrame
    rows: pd.DataFrame

    @property
    def name(self) -> str:
        """The name of the setting."""
        return self.setting.name

    @property
    def title(self) -> str:
        """The setting in words."""
        return self.setting.title

    @property
    def arms(self) -> list[str]:
        """The arms that can be compared with the reference."""
        return list(self.gains["arm"].unique())

    @property
    def lacking(self) -> list[str]:
        """The arms of the protocol that are not recorded yet."""
        return [a.name for a in self.setting.arms if a.name not in set(self.outcomes["arm"])]

    def verdict(self, arm: str, metric: str) -> str:
        """Return the verdict on an arm's gain, in the protocol's words."""
        row = self.gains[(self.gains["arm"] == arm) & (self.gains["metric"] == metric)].iloc[0]
        return statistics.judge_gain(row["low"], row["high"], self.setting.min_effect)

    def gain(self, arm: str, metric: str) -> pd.Series:
        """Return an arm's row of `gains`."""
        return self.gains[(self.gains["arm"] == arm) & (self.gains["metric"] == metric)].iloc[0]

    def edge(self, arm: str) -> str:
        """Return `†` where an arm's best rate lies at an end of those that were tried, `‡` where some of the grid are
        not tried yet."""
        ahead = protocol.propose_rates(self.tried.loc[arm], self.setting.rates)
        return "" if not ahead else "‡" if set(ahead) & set(self.setting.rates) else "†"


def load_results(
    settings: dict[str, protocol.Setting], folders=(protocol.RECORDED,)
) -> dict[str, SettingResults]:
    """Load the results of settings where the reference and another arm were evaluated on two common seeds or more."""
    runs, results = protocol.load_runs(folders), {}
    for name, setting in settings.items():
        outcomes = protocol.compute_outcomes(settings, name, folders, runs)
        if not len(outcomes):
            continue
        seeds = outcomes.groupby("arm")["seed"].transform("nunique")
        outcomes = outcomes[seeds > 1]
        if outcomes["arm"].nunique() < 2:
            continue
        tried, rows = protocol.load_evaluation(settings, name, folders, runs)
        rows = rows[rows["run"].isin(outcomes["run"])]
        gains = protocol.compute_gains(outcomes, setting.reference).assign(setting=name)
        results[name] = SettingResults(setting, outcomes, gains, tried, rows)
    return results


def tabulate_progress(
    settings: dict[str, protocol.Setting], results: dict[str, SettingResults]
) -> pd.DataFrame:
    """Tabulate which settings are recorded, with which seeds and how count of their methods."""
    rows = []
    for name, setting in settings.items():
        result = results.get(name)
        seeds = (
            provenance_report.format_seeds(result.outcomes["seed"])
            if result
            else "not recorded yet"
        )
        count = len(setting.arms) - len(result.lacking) if result else 0
        budgets = " and ".join(f"{b:g}" for b in (setting.megabytes[0], setting.megabytes[-1]))
        rows.append([setting.title, f"{budgets} MB", f"{count} of {len(setting.arms)}", seeds])
    return pd.DataFrame(rows, columns=["setting", "budgets", "methods recorded", "on"])


def describe_missing(
    settings: dict[str, protocol.Setting], results: dict[str, SettingResults]
) -> str:
    """Describe in one line what is not recorded yet; empty if all is."""
    missing = [s.title for name, s in settings.items() if name not in results]
    partial = [
        f"of {result.title} {', '.join(map(arm_label, result.lacking))}"
        for result in results.values()
        if result.lacking
    ]
    listed = "; ".join([*missing, *partial])
    return f"Not recorded yet: {listed}." if listed else ""


# The tables


def make_anchor(setting: str, arm: str) -> str:
    """Return the HTML anchor of a row of the table."""
    return re.sub(r"[^a-z0-9.]+", "-", f"cell {setting} {arm}".lower())


def link_row(result: SettingResults, arm: str, text: str = "") -> str:
    """Return a link to a row of the table."""
    return f'<a href="#{make_anchor(result.name, arm)}">{text or arm_label(arm)}</a>'


def _sort_arms(result: SettingResults) -> list[str]:
    """Return the arms, the best at the larger budget first."""
    return list(result.outcomes.groupby("arm")["large"].mean().sort_values(ascending=False).index)


def tabulate_primary(result: SettingResults) -> pd.DataFrame:
    """Tabulate the primary outcome as text, one row per arm with an anchor: tuned rate, accuracy at both budgets, gain,
    Holm's p, seeds, verdict."""
    small, large = result.setting.megabytes[0], result.setting.megabytes[-1]
    means, rows = result.outcomes.groupby("arm"), []
    for arm in _sort_arms(result):
        row = {"method": f'<a id="{make_anchor(result.name, arm)}"></a>{arm_label(arm)}'}
        row["rate"] = f"{means.get_group(arm)['rate'].iloc[0]:g}{result.edge(arm)}"
        for metric, budget in (("small", small), ("large", large)):
            row[f"at {budget:g} MB, %"] = f"{means.get_group(arm)[metric].mean():.1f}"
            if arm != result.setting.reference:
                one = result.gain(arm, metric)
                interval = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
                cells = [interval, statistics.format_p(one["holm"]), result.verdict(arm, metric)]
            else:
                cells = ["–"] * 3
            row |= dict(
                zip((f"gain {budget:g}", f"p {budget:g}", f"says {budget:g}"), cells, strict=True)
            )
        rows.append(row | {"seeds": str(means.get_group(arm)["seed"].nunique())})
    return pd.DataFrame(rows)


def tabulate_secondary(result: SettingResults) -> pd.DataFrame:
    """Tabulate the secondary outcomes as text: gains after equal rounds, for equal examples and on the worst decile; the
    loss; what a round costs, and what was spent to reach the reference's accuracy at the smaller budget."""
    rows = []
    for arm in _sort_arms(result):
        outcomes = result.outcomes[result.outcomes["arm"] == arm]
        row = {"method": arm_label(arm)}
        for metric, head in SECONDARY.items():
            row[head] = "–"
            if arm != result.setting.reference:
                one = result.gain(arm, metric)
                row[head] = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
        row["training loss"] = f"{outcomes['loss'].mean():.3f}"
        reached = outcomes["rounds_to_goal"].notna()
        row["MB to the goal"] = (
            f"{outcomes['megabytes_to_goal'].mean():.0f}" if reached.any() else "–"
        )
        row["rounds to it"] = f"{outcomes['rounds_to_goal'].mean():.0f}" if reached.any() else "–"
        row["reached by"] = f"{reached.sum()} of {len(outcomes)}"
        row["rounds in the larger budget"] = f"{outcomes['rounds_in_budget'].mean():.0f}"
        row["examples in it"] = f"{outcomes['examples_in_budget'].mean():,.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def show_title(result: SettingResults):
    """Return the title of a setting, to stand above its table."""
    return Markdown(f"**{result.title}**")


def show_list(lines: Sequence[str]):
    """Return the lines as a list in Markdown."""
    return Markdown("\n".join(f"- {line}" for line in lines))


def show_rerun(result: SettingResults, arm: str):
    """Return the command that makes one recorded run again, and the accuracy that it ends with."""
    run = result.rows[result.rows["arm"] == arm].query("seed == seed.min()").iloc[-1]
    text = f"This run ends with an accuracy of {100 * run['test_accuracy']:.2f} % after round {run['round']}."
    return Markdown(f"```bash\n{rerun_command(result, arm, run['seed'])}\n```\n\n{text}")


def rerun_command(result: SettingResults, arm: str, seed: int) -> str:
    """Return the command that makes one recorded run of evaluation again."""
    outcomes = result.outcomes[result.outcomes["arm"] == arm]
    definition = next(a for a in result.setting.arms if a.name == arm)
    run = result.setting.plan_run(definition, outcomes["rate"].iloc[0], seed)
    method = shlex.quote(
        " ".join([definition.method, *(f"{k}={v}" for k, v in definition.settings)])
    )
    return (
        f"fedstas run --task {run.task} --partition {run.partition} --concentration {run.concentration:g} "
        f"--clients {run.clients} --clients-per-round {run.clients_per_round} --method {method} "
        f"--lr {outcomes['rate'].iloc[0]:g} --rounds {run.rounds} --eval-every {run.eval_every} --seed {seed}"
    )


# What the chapter says of the results


def count_verdicts(
    results: Sequence[SettingResults], metric: str, arms: Sequence[str] | None = None
) -> pd.Series:
    """Count the verdicts on the arms in the settings."""
    words = [
        result.verdict(arm, metric)
        for result in results
        for arm in result.arms
        if arms is None or arm in arms
    ]
    return (
        pd.Series(words, dtype=str).value_counts().reindex(statistics.GAIN_VERDICTS, fill_value=0)
    )


def compute_front_numbers(results: dict[str, SettingResults]) -> dict[str, float | str]:
    """Compute the numbers of the front pages: MD's accuracy on MNIST at the preprint's rate and at its best, on the seeds of tuning;
    gains of two designs at both budgets; how many settings are recorded."""
    tried = 100 * results["mnist"].tried.loc["md"].dropna()
    numbers: dict[str, float | str] = {
        "at_best": tried.max(),
        "best": tried.idxmax(),
        "at_old": tried[0.01],
    }
    deciding = [result for name, result in results.items() if name != TRIAL]
    numbers |= {"settings": len(deciding), "seeds": results["mnist"].outcomes["seed"].nunique()}
    numbers |= dict(
        zip(("decided_by_interval", "decided_by_holm"), count_corrected(deciding), strict=True)
    )
    numbers["most"] = max(
        results["mnist"].gain(arm, "large")["gain"] for arm in results["mnist"].arms
    )
    numbers["least"] = min(results[name].gain(LEAST_VARIANCE, "small")["low"] for name in UNLIKE)
    numbers |= {
        "least_variance_rate": _rate(results, LEAST_VARIANCE),
        "md_rate": _rate(results, "md"),
    }
    costly = [arm for kind, arms in KINDS.items() if kind in COSTLY for arm in arms]
    numbers |= format_colour_numbers(results[COLOUR]) if COLOUR in results else {}
    verdicts = [results[n].verdict(FROM_UPDATES, m) for n in UNLIKE for m in BUDGETS]
    numbers["updates"] = verdicts == ["no worse", "no worse", "better", "better"]
    rows = pd.concat([p.gains[p.gains["metric"].isin(BUDGETS)] for p in deciding])
    better = rows[rows["low"] > 1]
    numbers |= {"better": len(better), "better_by_holm": int((better["holm"] < 0.05).sum())}
    numbers |= count_corrected_at_once(deciding)
    numbers |= {"asked": first_round_surcharge(results[MANY])} if MANY in results else {}
    similar = sum(count_verdicts(deciding, metric, ["clustered-similarity"]) for metric in BUDGETS)
    numbers |= {
        "similarity_cells": int(similar.sum()),
        "similarity_better": int(similar["better"]),
        "similarity_worse": int(similar["worse"]),
    }
    numbers["costly_better"] = sum(
        count_verdicts(deciding, metric, costly)["better"] for metric in BUDGETS
    )
    settings = (*UNLIKE, EQUAL, ALIKE, MANY, *(f"{name}-m5" for name in UNLIKE))
    for setting in (name for name in settings if name in results):
        for arm, name in (("fedstas-unbiased", "corrected"), (LEAST_VARIANCE, "least_variance")):
            for metric in BUDGETS:
                row = results[setting].gain(arm, metric)
                key = f"{name}_{re.sub('[-.]', '_', setting)}_{metric}"
                numbers[key] = statistics.format_interval(
                    row["gain"], row["low"], row["high"], "+.1f"
                )
    for key, name, metric in (("few", "fashion-mnist-m5", "large"), ("many", MANY, "small")):
        if name in results:
            row = results[name].gain(FROM_UPDATES, metric)
            numbers[f"updates_{key}"] = statistics.format_interval(
                row["gain"], row["low"], row["high"], "+.1f"
            )
    return numbers


def first_round_surcharge(result: SettingResults, arm: str = LEAST_VARIANCE) -> float:
    """Return the megabytes that an arm has sent beyond MD at the first evaluation: what it requests of all at the start."""
    rows = result.rows
    first = rows[rows["round"] == rows["round"].min()].groupby("arm")["megabytes"].mean()
    return float(first[arm] - first["md"])


def check_many_clients(result: SettingResults) -> dict[str, bool]:
    """Check each sentence of chapter 10 on 1,000 clients, most of them on gains over MD."""
    early, late = (result.gain(LEAST_VARIANCE, m) for m in BUDGETS)
    return {
        # at the smaller budget, least variance is surely behind MD
        "loss": early["high"] < 0,
        # at the larger one, it is not surely ahead
        "nothing": late["low"] < 0,
        # what it asks of all clients at the start takes more than half of the smaller budget
        "half": first_round_surcharge(result) > result.setting.megabytes[0] / 2,
        # its version from updates is surely ahead of MD at the smaller budget
        "free": result.gain(FROM_UPDATES, "small")["low"] > 0,
        # FedSTaS as written, and corrected, is surely behind MD at both budgets
        "written": all(
            result.gain(a, m)["high"] < 0 for a in ("fedstas", "fedstas-unbiased") for m in BUDGETS
        ),
    }


def check_answer(results: dict[str, SettingResults], numbers: dict) -> dict[str, bool]:
    """Check each sentence of the answer of chapter 10, most of them on gains over MD.

    Gains are in points, `low` and `high` the ends of their intervals. As in the protocol, "better" is better by more
    than one point, and "no worse" is worse by less than one; "surely ahead" is ahead by more than nothing.

    Args:
        results: those of each recorded setting, by its name.
        numbers: as `compute_front_numbers` returns them.
    """
    equal, mnist = results[EQUAL].gain(LEAST_VARIANCE, "small"), results["mnist"]
    planned = [p for p in results.values() if len(p.setting.evaluation_seeds) == 10]
    five = [p.outcomes["seed"].nunique() == 5 for p in planned]
    late = {name: results[name].gain(LEAST_VARIANCE, "large") for name in UNLIKE}
    plenty = [
        results[n].gain(arm, "large")["low"] for n in ("mnist", EQUAL) for arm in results[n].arms
    ]
    return check_colour_images(results[COLOUR]) | {
        # on MNIST, no design adds as many points as the best learning rate adds to MD
        "rate": numbers["at_best"] - numbers["at_old"] > numbers["most"],
        # where sizes differ, least variance is surely ahead of MD at the smaller budget
        "lead": numbers["least"] > 0,
        # its version from updates is better than MD on Fashion-MNIST and no worse on MNIST, at both budgets
        "updates": numbers["updates"],
        # more than one gain is left of those above a point if p-values are corrected by Holm
        "left by holm": numbers["better_by_holm"] > 1,
        # if all comparisons are corrected at once, one gain is left
        "single": numbers["better_all"] == ["least-variance (fashion-mnist-m20)"],
        # no design of the kinds in `COSTLY`, by what it asks clients for, is better than MD in any cell
        "costly not better": numbers["costly_better"] == 0,
        # clustered sampling by similarity is worse than MD in no cell
        "similarity not worse": numbers["similarity_worse"] == 0,
        # the gains of least variance at the smaller budget, where sizes differ, are not left after this correction
        "holm": all(results[n].gain(LEAST_VARIANCE, "small")["holm"] > 0.05 for n in UNLIKE),
        # with equal sizes, it is open whether least variance is ahead at the smaller budget
        "equal": equal["low"] < 0 < equal["high"],
        # at the larger budget little is left of its lead on MNIST
        "little": abs(late["mnist"]["gain"]) < 1,
        # and some of it is left on Fashion-MNIST
        "some": late["fashion-mnist"]["low"] > 1,
        # where sizes differ, least variance is no worse than MD at the larger budget
        "later": all(row["low"] > -1 for row in late.values()),
        # on MNIST, the designs that are surely ahead early end within a point of MD
        "meet": all(
            abs(mnist.gain(arm, "large")["gain"]) < 1
            for arm in mnist.arms
            if mnist.gain(arm, "small")["low"] > 0
        ),
        # where ten seeds are planned, five are run, and that is most settings
        "seeds": all(five) and len(five) > len(results) / 2,
        # on MNIST, with unequal and with equal sizes, no design is better than MD at the larger budget
        "plenty": max(plenty) < 1,
    }


def check_participants(results: dict[str, SettingResults]) -> dict[str, bool]:
    """Check each sentence of chapter 10 on five and twenty participants a round, by gains over MD."""
    few = [results[f"{name}-m5"] for name in (*UNLIKE, EQUAL, ALIKE)]
    alike = [results[f"{ALIKE}{m}"] for m in ("", "-m5", "-m20")]
    lows = [p.gain(arm, m)["low"] for p in alike for arm in p.arms for m in BUDGETS]
    return {
        # with twenty participants, the lead of least variance on MNIST is gone
        "gone": all(abs(results["mnist-m20"].gain(LEAST_VARIANCE, m)["gain"]) < 1 for m in BUDGETS),
        # on Fashion-MNIST it lasts with twenty
        "lasts": all(
            results["fashion-mnist-m20"].gain(LEAST_VARIANCE, m)["low"] > 1 for m in BUDGETS
        ),
        # with five, least variance loses there at the larger budget
        "loss": results["fashion-mnist-m5"].gain(LEAST_VARIANCE, "large")["high"] < 0,
        # and so does its version whose strata are made from updates
        "updates": results["fashion-mnist-m5"].gain(FROM_UPDATES, "large")["high"] < 0,
        # with five, corrected k-means strata lose in every setting at the smaller budget
        "corrected": all(p.gain("fedstas-unbiased", "small")["high"] < 0 for p in few),
        # where clients are more alike, no design is surely ahead of MD, with five, ten or twenty
        "alike": max(lows) < 0,
        # with five, least variance keeps its lead on MNIST at the smaller budget
        "kept": results["mnist-m5"].gain(LEAST_VARIANCE, "small")["low"] > 1,
    }


def check_colour_images(result: SettingResults) -> dict[str, bool]:
    """Check each sentence of chapter 10 on the setting with colour images."""
    late = result.gains[result.gains["metric"] == "large"].set_index("arm")
    guess = 100 / result.setting.classes
    return {
        # at the smaller budget, hardly any design has begun to learn
        "early": result.outcomes.groupby("arm")["small"].mean().max() < 1.2 * guess,
        # at the larger one, clustered sampling by similarity is surely ahead of MD, and no other design is
        "late": list(late.index[late["low"] > 0]) == ["clustered-similarity"],
        # least variance is no worse than MD there: if behind, then by less than what matters
        "perhaps": late.loc[LEAST_VARIANCE, "low"] > -result.setting.min_effect,
    }


def format_colour_numbers(result: SettingResults) -> dict[str, float | str]:
    """Return the numbers of the setting with colour images that chapter 10's first screen and the page Findings quote.

    All are at the larger budget of megabytes: the lowest and the highest mean accuracy among the designs in %, and the
    gains over MD of clustered sampling and of least variance, formatted with their intervals.
    """
    accuracies = result.outcomes.groupby("arm")["large"].mean()
    numbers: dict[str, float | str] = {
        "colour_low": accuracies.min(),
        "colour_high": accuracies.max(),
    }
    for arm, name in (("clustered-similarity", "clustered"), (LEAST_VARIANCE, "least_variance")):
        row = result.gain(arm, "large")
        numbers[f"{name}_colour"] = statistics.format_interval(
            row["gain"], row["low"], row["high"], "+.1f"
        )
    return numbers


RIVALS = (FROM_UPDATES, "clustered-similarity", "fedstas-unbiased", "fedvarp")


def compare_rivals(
    results: Sequence[SettingResults], rivals: Sequence[str] = RIVALS
) -> pd.DataFrame:
    """Compute the points of least variance above its rivals, paired by seed: columns setting, rival, metric, gain, low, high."""
    rows = []
    for result in results:
        gains = protocol.compute_gains(result.outcomes, LEAST_VARIANCE, BUDGETS)
        gains = gains[gains["arm"].isin(rivals)]
        reversed_gains = {"gain": -gains["gain"], "low": -gains["high"], "high": -gains["low"]}
        rows.append(gains.assign(setting=result.name, rival=gains["arm"], **reversed_gains))
    table = pd.concat(rows, ignore_index=True)
    return table[["setting", "rival", "metric", "gain", "low", "high"]]


def check_rivals(gains: pd.DataFrame) -> dict[str, bool]:
    """Check each sentence of chapter 10 on the gains of least variance over its rivals.

    Args:
        gains: as `compare_rivals` returns them. A lead is sure where the interval, low to high, is above 0.
    """
    rows = gains.set_index(["rival", "setting", "metric"]).sort_index()
    low, high = rows["low"], rows["high"]
    over_clustered = low["clustered-similarity"]
    return {
        # where sizes differ, it is surely ahead of corrected k-means strata, at both budgets
        "corrected": (low["fedstas-unbiased"][list(UNLIKE)] > 0).all(),
        # it is nowhere surely ahead of its version whose strata are made from updates
        "updates": (low[FROM_UPDATES] < 0).all(),
        # of clustered sampling by similarity, only on Fashion-MNIST at the larger budget
        "clustered": list(over_clustered[over_clustered > 0].index) == [(UNLIKE[1], "large")],
        # with 1,000 clients, it is surely behind both rivals that ask clients for nothing beforehand
        "many": all(
            (high[rival][MANY] < 0).all() for rival in (FROM_UPDATES, "clustered-similarity")
        ),
        # where sizes differ, it is surely ahead of a server that remembers updates
        "memory": (low["fedvarp"][list(UNLIKE)] > 0).all(),
        # with equal sizes, it is not
        "memory, equal": (low["fedvarp"][EQUAL] < 0).all(),
    }


def tabulate_rivals(gains: pd.DataFrame, results: dict[str, SettingResults]) -> pd.DataFrame:
    """Tabulate `compare_rivals` as text, a row per setting and rival."""
    rows = []
    for (name, rival), group in gains.groupby(["setting", "rival"], sort=False):
        row = {"setting": results[name].title, "above": arm_label(rival)}
        for one in group.set_index("metric").loc[list(BUDGETS)].itertuples():
            head = f"{'smaller' if one.Index == 'small' else 'larger'} budget"
            row[head] = statistics.format_interval(one.gain, one.low, one.high, "+.1f")
        rows.append(row)
    return pd.DataFrame(rows)


def _rate(results: dict[str, SettingResults], arm: str) -> float:
    """Return the tuned rate of an arm on Fashion-MNIST."""
    return results[UNLIKE[1]].tried.loc[arm].idxmax()


COSTLY = ("all or many clients in each round", "gradients of all: FedSTS, FedSTaS")
LAST_UPDATES = "last updates: "  # which a server has anyway
KINDS = {  # of designs, by what they ask for
    "all or many clients in each round": (
        "all clients",
        "optimal-client-sampling",
        "power-of-choice",
        "divfl",
    ),
    "gradients of all: FedSTS, FedSTaS": ("fedsts", "fedstas"),
    "gradients of all: FedSTaS corrected": ("fedstas-unbiased",),
    "one gradient of each: least-variance strata": (LEAST_VARIANCE,),
    LAST_UPDATES + "least-variance strata": (FROM_UPDATES,),
    LAST_UPDATES + "clustered by similarity": ("clustered-similarity",),
    LAST_UPDATES + "FedVARP": ("fedvarp",),
    "sizes: clustered by size": ("clustered-size",),
    "sizes: FedAvg, also unbiased": ("fedavg", "fedavg-unbiased"),
}


def count_by_requests(results: Sequence[SettingResults]) -> pd.DataFrame:
    """Count verdicts by what designs request of clients: a row per kind, a column per verdict, over settings and budgets."""
    count = {k: sum(count_verdicts(results, m, arms) for m in BUDGETS) for k, arms in KINDS.items()}
    return pd.DataFrame(count).T.rename_axis("asks for").reset_index()


def count_corrected(results: Sequence[SettingResults]) -> tuple[int, int]:
    """Count the comparisons that are better or worse by their interval, and those of them with Holm's p below 0.05."""
    rows = [(p, r) for p in results for _, r in p.gains.iterrows() if r["metric"] in BUDGETS]
    significant = [
        r["holm"] < 0.05 for p, r in rows if p.verdict(r["arm"], r["metric"]) in ("better", "worse")
    ]
    return len(significant), sum(significant)


def count_corrected_at_once(results: Sequence[SettingResults]) -> dict[str, int | list[str]]:
    """Correct the p-values of all comparisons in all settings at once by Holm's method.

    Returns:
        How many are `compared`; how many of those that are better or worse by their interval have p below 0.05
        (`decided_at_once`); and which of those that are better do (`better_all`), as "arm (setting)".
    """
    rows = pd.concat([p.gains[p.gains["metric"].isin(BUDGETS)] for p in results])
    least = rows["setting"].map({p.name: p.setting.min_effect for p in results})
    below = pd.Series(statistics.holm(rows["p"]), index=rows.index).to_numpy() < 0.05
    better, worse = (rows["low"] > least).to_numpy(), (rows["high"] < -least).to_numpy()
    named = rows[better & below]
    return {
        "compared": int(rows["p"].notna().sum()),
        "decided_at_once": int(((better | worse) & below).sum()),
        "better_all": [f"{a} ({s})" for a, s in zip(named["arm"], named["setting"], strict=True)],
    }


EDGES = {
    "†": "The best rate lies at an end of those that were tried",
    "‡": "Some rates of the grid are not tried yet",
}

# Beside the preprint's rate


def load_untuned_gains(folder: str | Path = "results") -> pd.DataFrame:
    """Load the gains after 99 rounds at the preprint's rate from the sweeps of chapters 5 and 9: columns setting, arm, gain,
    low, high, seeds."""
    arms = {recorded: arm for arm, recorded in RECORDED_NAMES.items()}
    frames = {
        name: tables.load_sweep(sweep, folder).where(**wanted)
        for name, (sweep, wanted) in UNTUNED.items()
    }
    gains = {}
    for name, frame in frames.items():
        for arm, row in (
            tables.paired_differences(frame, "test_accuracy", "md").iterrows() if len(frame) else ()
        ):
            gains[name, arm] = row
    for (place, m), frame in least_variance_results.load_frames(folder).items():
        name = SETTINGS_OF_PLACES[place] + ("" if m == 10 else f"-m{m}")
        for arm, row in tables.paired_differences(frame, "test_accuracy", "md").iterrows():
            gains.setdefault((name, arms.get(arm, arm)), row)
    rows = [
        {"setting": name, "arm": arm, "gain": row["difference"]}
        | dict(row[["low", "high", "seeds"]])
        for (name, arm), row in gains.items()
        if arm in ARMS
    ]
    return pd.DataFrame(rows, columns=["setting", "arm", "gain", "low", "high", "seeds"])


def compute_tuned_gains(results: Sequence[SettingResults], rounds: float) -> pd.DataFrame:
    """Compute the gains of tuned arms after so many rounds, where runs have as many: columns of `compute_gains`, and
    setting."""
    parts = []
    for result in (each for each in results if each.setting.rounds >= rounds):
        classes = protocol.CLASSES[result.setting.task]
        rows = [
            {
                "arm": arm,
                "seed": seed,
                "value": 100 * protocol.accuracy_at_budget(run, "round", rounds, classes),
            }
            for (arm, seed), run in result.rows.groupby(["arm", "seed"])
        ]
        table = protocol.compute_gains(pd.DataFrame(rows), result.setting.reference, ("value",))
        parts.append(table.assign(setting=result.name))
    return (
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["setting", "arm"])
    )


def join_gains(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Join the gains at the preprint's rate with those of tuned arms, where both are recorded: columns setting, arm, and
    gain, low, high with the endings _before and _after."""
    keys, values = ["setting", "arm"], ["gain", "low", "high"]
    if not len(before) or not len(after):
        return pd.DataFrame(
            columns=keys + [f"{v}_{x}" for x in ("before", "after") for v in values]
        )
    pair = before[keys + values].merge(
        after[keys + values], on=keys, suffixes=("_before", "_after")
    )
    return pair.reset_index(drop=True)


def tabulate_joined_gains(both: pd.DataFrame, results: dict[str, SettingResults]) -> pd.DataFrame:
    """Tabulate `join_gains` as text, with the tuned gains at both budgets."""
    rows = []
    for row in both.itertuples():
        result = results[row.setting]
        text = {"setting": result.title, "method": link_row(result, row.arm)}
        text["rate 0.01, 99 rounds"] = statistics.format_interval(
            row.gain_before, row.low_before, row.high_before, "+.1f"
        )
        text["tuned, 99 rounds"] = statistics.format_interval(
            row.gain_after, row.low_after, row.high_after, "+.1f"
        )
        for metric, name in (("small", "smaller budget"), ("large", "larger budget")):
            one = result.gain(row.arm, metric)
            text[name] = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
        rows.append(text)
    return pd.DataFrame(rows)


def count_kept_gains(both: pd.DataFrame, min_effect: float = 1.0) -> dict[str, float]:
    """Count the gains whose interval at the preprint's rate is above the smallest effect (`were`), those `kept` and
    `gone` with tuned rates; and their medians before and after."""
    clear = both[both["low_before"] > min_effect]
    kept, gone = (clear["low_after"] > min_effect).sum(), (clear["high_after"] < min_effect).sum()
    counts = {"were": len(clear), "kept": kept, "gone": gone}
    return counts | {f"median_{x}": clear[f"gain_{x}"].median() for x in ("before", "after")}


def list_departures(
    settings: dict[str, protocol.Setting], results: dict[str, SettingResults]
) -> list[str]:
    """List the departures from the protocol that the records show."""
    fewer: dict[str, list[str]] = {}
    edges: dict[str, list[str]] = {}
    for result in results.values():
        seeds_of_setting = set(result.outcomes["seed"])
        if seeds_of_setting < set(result.setting.evaluation_seeds):
            fewer.setdefault(provenance_report.format_seeds(seeds_of_setting), []).append(
                result.title
            )
        for arm, seeds_of_arm in result.outcomes.groupby("arm")["seed"]:
            if set(seeds_of_arm) < seeds_of_setting:
                fewer.setdefault(provenance_report.format_seeds(set(seeds_of_arm)), []).append(
                    f"{arm_label(arm)} ({result.title})"
                )
        for arm in result.tried.index.intersection(result.outcomes["arm"]):
            if sign := result.edge(arm):
                edges.setdefault(sign, []).append(f"{arm_label(arm)} ({result.title})")
    departures = [
        f"**Seeds.** Evaluated on {seeds} only: {'; '.join(names)}."
        for seeds, names in fewer.items()
    ]
    departures += [
        f"**Rates.** {EDGES[sign]}: {'; '.join(names)}." for sign, names in edges.items()
    ]
    if lacking := describe_missing(settings, results):
        departures.append(f"**Runs.** {lacking}")
    return departures


def measure_agreement(cells: pd.DataFrame, seed: int = 0, times: int = 2000) -> dict[str, float]:
    """Measure whether less error in one round goes with more gain: `rho`, Spearman's between -error and gain over all cells;
    the `pairs` of arms within a setting and how many of them `agree`; and `p`, how often arms exchanged at random
    within their settings agree in as many pairs."""
    cells = cells.reset_index(drop=True)
    errors, gain = cells["error"].to_numpy(), cells["gain"].to_numpy()
    groups = [g.to_numpy() for g in cells.groupby("setting").groups.values()]
    pairs = np.array([pair for g in groups for pair in combinations(g, 2)], dtype=int).reshape(
        -1, 2
    )
    less = np.sign(errors[pairs[:, 0]] - errors[pairs[:, 1]])

    def count_agreeing(gain: np.ndarray) -> int:
        """Count the pairs in which the arm with less error has more gain."""
        return int((np.sign(gain[pairs[:, 1]] - gain[pairs[:, 0]]) == less).sum())

    agreeing, rng, as_many = count_agreeing(gain), stream(seed, "exchanged gains"), 0
    for _ in range(times):
        other = gain.copy()
        for g in groups:
            other[g] = rng.permutation(gain[g])
        as_many += count_agreeing(other) >= agreeing
    rho = stats.spearmanr(-errors, gain).statistic if len(cells) > 2 else np.nan
    measures = {"cells": len(cells), "settings": len(groups), "rho": float(rho)}
    return measures | {"pairs": len(pairs), "agree": agreeing, "p": (as_many + 1) / (times + 1)}


# The figures

FLOOR = 16  # points, where the axis of `participants` ends
CURVE_ARMS = (
    LEAST_VARIANCE,
    "clustered-similarity",
    "fedstas-unbiased",
    "fedstas",
    "all clients",
    "md",
)


def draw_figures(results: Sequence[SettingResults]) -> dict[str, Figure]:
    """Draw the chapter's figures, by name; a line of text where what one shows is not recorded."""
    ten = [result for result in results if not result.setting.rates_of]
    figures = {
        "remembered": draw_gains(ten),
        "learning": draw_learning_curves(ten),
        "rates": draw_rates(ten),
    }
    return figures | {"participants": draw_participants(results)}


def select_budget_gains(
    results: Sequence[SettingResults], arms: Sequence[str] = SHOWN_ARMS
) -> pd.DataFrame:
    """Return the gains of these arms at equal megabytes, in all these settings."""
    gains = pd.concat([p.gains for p in results])
    return gains[gains["arm"].isin(arms) & gains["metric"].isin(BUDGETS)]


def axis_limits(gains: pd.DataFrame) -> tuple[float, float]:
    """Return the limits of an axis of points that holds -2 to 2 and these intervals, except those of all clients."""
    inside = gains[gains["arm"] != "all clients"]
    inside = gains if inside.empty else inside
    low, high = min(inside["low"].min(), -2), max(inside["high"].max(), 2)
    room = 0.05 * (high - low)
    return low - room, high + room


BUDGET_STYLES = {
    "small": plots.Style(plots.GREY, "", "o", hollow=True),
    "large": plots.Style(plots.GREY, "", "o"),
}


def draw_gains(
    results: Sequence[SettingResults],
    arms: Sequence[str] = SHOWN_ARMS,
    budgets: Sequence[str] = ("smaller budget", "larger budget"),
    limits: tuple[float, float] | None = None,
    titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the points above MD at equal megabytes: a panel per setting, a row per arm.

    Dots are full at the larger budget, hollow at the smaller; the grey band has the differences that do not matter, and
    a gain outside the axis is written at its edge. `titles` replace the protocol's.
    """
    gains = select_budget_gains(results, arms)
    shown = [arm for arm in arms if arm in set(gains["arm"])]
    parts = {_break_title((titles or {}).get(r.name, r.title)): r for r in results}
    height = 0.26 * len(shown) + 0.28 + 0.5 / len(results)
    options = {"height": height, "align": "right", "xlabel": "points above MD (MD = 0)"}
    columns = min(3, len(parts))
    limits = limits or axis_limits(gains)
    options |= {"columns": columns}
    figure = plots.panels(_draw_gain_panel, parts, gains, shown, limits, **options)
    for place, ax in enumerate(figure.axes):
        ax.tick_params(labelleft=place % columns == 0)
    plots.legend(figure, dict(zip(budgets, BUDGET_STYLES.values(), strict=True)))
    return figure


def _break_title(title: str, fits: int = 30) -> str:
    """Return a panel's title, in two lines if it has more than `fits` characters and would reach into the next panel."""
    first, comma, last = title.rpartition(", ")
    return f"{first},\n{last}" if comma and len(title) > fits else title


def _draw_gain_panel(
    ax: Axes,
    result: SettingResults,
    gains: pd.DataFrame,
    arms: Sequence[str],
    limits: tuple[float, float],
) -> None:
    """Draw the gains of one setting at both budgets, a row per arm."""
    effect = result.setting.min_effect
    ax.axvspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
    series = {}
    for metric, shift in (("large", 0.17), ("small", -0.17)):
        part = gains[(gains["setting"] == result.name) & (gains["metric"] == metric)]
        rows = part.set_index("arm")[["gain", "low", "high"]].reindex(arms)
        outside = (rows["gain"] < limits[0]) | (rows["gain"] > limits[1])
        for arm, value in rows.loc[outside, "gain"].items():
            low, y = value < limits[0], len(arms) - 1 - arms.index(arm) + shift
            text = f"◂ {value:+.0f}".replace("-", "−") if low else f"{value:+.0f} ▸"
            x, ha = (limits[0], "left") if low else (limits[1], "right")
            plots.annotate(ax, x, y, text, arm_colour(arm), 0, ha=ha)
        series[metric] = rows.mask(outside).set_axis(["mean", "low", "high"], axis=1)
        series[metric].index = [arm_label(arm) for arm in arms]
    colours = [arm_colour(arm) for arm in arms]
    options = {"reference": 0, "spread": 0.34, "xlim": limits}
    plots.intervals(ax, series, BUDGET_STYLES, colours=colours, **options)


def draw_participants(
    results: Sequence[SettingResults], arms: Sequence[str] = DETAILED_ARMS
) -> Figure:
    """Draw the points above MD over participants per round, with 95 % intervals: a row of panels per federation that is
    recorded with several numbers of them, a column per budget. A gain below the axis is written at its edge."""
    by_federation: dict[str, list[SettingResults]] = {}
    for result in sorted(results, key=lambda p: p.setting.clients_per_round):
        by_federation.setdefault(result.setting.rates_of or result.name, []).append(result)
    groups = {name: group for name, group in by_federation.items() if len(group) > 1}
    if not groups:
        return plots.not_recorded("Not recorded yet: `fedstas arena --setting mnist-m5` begins.")
    lines = math.ceil(len(groups) / 2)  # of two federations each, with two panels each
    options = {"figsize": (plots.WIDE, 0.6 + 2.0 * lines), "squeeze": False}
    figure, axes = plt.subplots(lines, 4, sharex=True, sharey=True, **options)
    rows = axes.reshape(2 * lines, 2)
    for ax in rows[len(groups) :].flat:
        ax.axis("off")
    for row, (name, group) in zip(rows, groups.items(), strict=False):
        title = next((p.title for p in results if p.name == name), name).replace(", ", "\n")
        for ax, metric, budget in zip(row, BUDGETS, ("smaller", "larger"), strict=True):
            _draw_participants_panel(ax, group, arms, metric)
            ax.set_title(f"{title}\n{budget} budget", fontsize=8)
    axes[0, 0].set_ylabel("points above MD (MD = 0)")
    figure.supxlabel("participants a round", fontsize="medium")
    plots.legend(figure, {arm: arm_style(arm) for arm in arms}, columns=4)
    return figure


def _draw_participants_panel(
    ax: Axes, group: Sequence[SettingResults], arms: Sequence[str], metric: str
) -> None:
    """Draw the arms' gains over the participants of a round, a little apart."""
    effect, lines = group[0].setting.min_effect, {}
    ax.axhspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
    for k, arm in enumerate(arms):
        compared = [result for result in group if arm in result.arms]
        x = [result.setting.clients_per_round * 1.06 ** (k - 1.5) for result in compared]
        gains = pd.DataFrame([result.gain(arm, metric) for result in compared])
        rows = (
            gains[["gain", "low", "high"]].astype(float).set_axis(["mean", "low", "high"], axis=1)
        )
        rows.index = pd.Index(x)
        below = rows["mean"] <= -FLOOR
        for x_value, value in rows.loc[below, "mean"].items():
            text, colour = f"{value:.0f}\n▾", arm_colour(arm)
            plots.annotate(
                ax, x_value, -FLOOR, text, colour, 0, ha="center", va="bottom", fontsize=8
            )
        lines[arm] = rows.mask(below)
    styles = {arm: arm_style(arm)._replace(marker="o") for arm in arms}
    axis = {"xscale": "log", "xticks": (5, 10, 20), "xticklabels": ("5", "10", "20")}
    plots.curves(ax, lines, styles, band="bars", names=False, width=1, **axis)
    ax.minorticks_off()
    ax.set_ylim(-FLOOR, FLOOR)


def draw_learning_curves(
    results: Sequence[SettingResults], arms: Sequence[str] = CURVE_ARMS
) -> Figure:
    """Draw mean learning curves over megabytes up to the larger budget, with 95 % bands over seeds: a panel per
    setting; dotted lines are the budgets."""

    def draw(ax: Axes, result: SettingResults) -> None:
        """Draw the curves of one setting, from the accuracy that MD has before the smaller budget is half spent."""
        smaller, larger = result.setting.megabytes[0], result.setting.megabytes[-1]
        runs = {arm: result.rows[result.rows["arm"] == arm] for arm in arms}
        lines = {arm: _mean_curve(rows, larger) for arm, rows in runs.items() if len(rows)}
        plots.curves(ax, lines, arm_style, names=False)
        for budget in result.setting.megabytes:
            ax.axvline(budget, color=plots.GREY, lw=0.8, ls=":")
        early = result.rows["megabytes"].between(smaller / 4, smaller / 2)
        reference = result.rows[early & (result.rows["arm"] == result.setting.reference)]
        low, high = 100 * reference["test_accuracy"].mean(), min(100, ax.get_ylim()[1])
        ax.set(xlim=(smaller / 4, larger), ylim=(low, high))

    labels = {"xlabel": "megabytes, sent and received", "ylabel": "accuracy, %"}
    parts = {result.title: result for result in results}
    options = {"height": 2.2, "sharex": False, "columns": min(3, len(parts))}
    figure = plots.panels(draw, parts, **options, **labels)
    recorded = [arm for arm in arms if any(arm in set(p.rows["arm"]) for p in results)]
    plots.legend(figure, {arm: arm_style(arm) for arm in recorded}, columns=3)
    return figure


def _mean_curve(runs: pd.DataFrame, budget: float) -> pd.DataFrame:
    """Return an arm's mean accuracy over seeds by megabytes, with its band where there are enough seeds."""
    end = min(budget, runs.groupby("seed")["megabytes"].max().min())
    megabytes = np.linspace(0.02 * end, end, 100)
    accuracies = np.array(
        [
            np.interp(megabytes, run["megabytes"], 100 * run["test_accuracy"])
            for _, run in runs.groupby("seed")
        ]
    )
    curve = pd.DataFrame({"mean": accuracies.mean(0)}, index=megabytes)
    if len(accuracies) >= plots.MIN_SEEDS_FOR_BAND:
        _, curve["low"], curve["high"] = statistics.mean_band(accuracies)
    return curve


def draw_rates(results: Sequence[SettingResults], arms: Sequence[str] = CURVE_ARMS) -> Figure:
    """Plot accuracy against learning rate, a curve for each design and a panel for each setting.

    The accuracy is that at the larger budget, the mean over the seeds of tuning; a dot marks each design's best rate.
    """

    def draw(ax: Axes, result: SettingResults) -> None:
        """Draw the curves of one setting."""
        tried = [arm for arm in arms if arm in result.tried.index]
        lines = {arm: 100 * result.tried.loc[arm].dropna() for arm in tried}
        lines = {arm: accuracies for arm, accuracies in lines.items() if len(accuracies)}
        plots.curves(ax, lines, arm_style, names=False, width=1.5, xscale="log")
        ax.margins(x=0.05)
        for arm, accuracies in lines.items():
            ax.plot(accuracies.idxmax(), accuracies.max(), "o", ms=5, color=arm_colour(arm))

    labels = {"xlabel": "learning rate", "ylabel": "accuracy, %"}
    parts = {result.title: result for result in results}
    options = {"height": 2.2, "sharex": False, "columns": min(3, len(parts))}
    figure = plots.panels(draw, parts, **options, **labels)
    recorded = [arm for arm in arms if any(arm in p.tried.index for p in results)]
    plots.legend(figure, {arm: arm_style(arm) for arm in recorded}, columns=3)
    return figure


def draw_one_round_errors(results: dict[str, SettingResults]) -> tuple[pd.DataFrame, Figure]:
    """Return the tuned gains after 99 rounds with the errors of one round, and the figure of both rates."""
    error = one_rounds.summarise(one_rounds.load())
    after = compute_tuned_gains(list(results.values()), 99)
    before, tuned = (
        protocol.join_one_round_errors(g, error) for g in (load_untuned_gains(), after)
    )
    panels = {"rate 0.01, 99 rounds": before, "each tuned, 99 rounds": tuned}
    return tuned, draw_gain_over_error(panels)


def draw_gain_over_error(
    panels: dict[str, pd.DataFrame], arms: Sequence[str] = DETAILED_ARMS
) -> Figure:
    """Draw gain over error of one round: a panel per kind of gain, a dot per design and setting.

    These arms have their colours, all others are grey; an empty panel says that nothing is recorded.
    """
    styles = {"other designs": plots.Style(plots.GREY, "", "o")}
    for arm in arms:
        hollow = arm == HOLLOW_ARM
        styles[arm_label(arm)] = plots.Style(arm_colour(arm), "", "o", hollow=hollow)

    def draw(ax: Axes, cells: pd.DataFrame) -> None:
        """Draw the dots of one kind of gain; lines mark the gain 0 and the error of MD."""
        ax.set(xscale="log", ylabel="points above MD")
        ax.axhline(0, color=plots.BLACK, lw=0.8)
        ax.axvline(1, color=plots.BLACK, lw=0.8)
        names = cells["arm"].map(lambda arm: arm_label(arm) if arm in arms else "other designs")
        rows = cells.set_index("error")[["gain", "low", "high"]]
        rows = rows.set_axis(["mean", "low", "high"], axis=1)
        lines = {name: rows[(names == name).to_numpy()] for name in styles}
        lines = {name: line for name, line in lines.items() if len(line)}
        plots.curves(ax, lines, styles, band="bars", names=False)
        if not lines:
            corner = {"xycoords": "axes fraction", "ha": "center"}
            plots.annotate(ax, 0.5, 0.5, "not recorded yet", plots.GREY, 0, **corner)

    xlabel = "error of one round (MD = 1)"
    figure = plots.panels(draw, panels, height=3.0, xlabel=xlabel, columns=2)
    for ax in figure.axes[1:]:
        ax.set_ylabel("")
    plots.legend(figure, {name: styles[name] for name in [*map(arm_label, arms), "other designs"]})
    return figure
