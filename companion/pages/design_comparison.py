"""Chapter 10: the recorded comparison, its tables and figures, and checks of the chapter's sentences.

Sentences stand on the page and link to the row of the table (`anchor`) that they rest on; what is not recorded
is left out and named by `describe_missing`.
"""

from __future__ import annotations

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
    LEAST_VARIANCE: ("least variance", RECORDED_NAMES[LEAST_VARIANCE]),
    FROM_UPDATES: (
        "least variance from updates",
        RECORDED_NAMES[FROM_UPDATES],
    ),
    "fedstas-unbiased": ("corrected", "fedstas-unbiased"),
    "clustered-similarity": ("clustered by similarity", "clustered-similarity"),
    "clustered-size": ("clustered by size", "clustered-size"),
    "fedsts": ("FedSTS as written", "fedsts"),
    "fedstas": ("FedSTaS as written", "fedstas"),
    "fedavg": ("FedAvg", "fedavg"),
    "fedavg-unbiased": ("unbiased FedAvg", "fedavg-unbiased"),
    "fedvarp": ("a server that remembers", "fedvarp"),
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
VERDICTS = ("better", "no worse", "worse", "we do not know")
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
SETTINGS_OF_PLACES = {
    "MNIST, disjoint": "mnist",
    "MNIST, equal sizes": "mnist-equal",
    "Fashion-MNIST, disjoint": "fashion-mnist",
}


def arm_label(arm: str) -> str:
    """Return the label of an arm on the pages."""
    return ARMS.get(arm, (arm, ""))[0]


def arm_style(arm: str) -> plots.Style:
    """Return the style of an arm's curve: the colour and dash of its method, and the arm's label."""
    if arm == "all clients":
        colour, dash = plots.GREY, "-."
    else:
        colour, dash, *_ = plots.method_style(ARMS.get(arm, ("", arm))[1])
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
    settings: dict[str, protocol.Setting], places: dict[str, SettingResults]
) -> pd.DataFrame:
    """Tabulate which settings are recorded, with which seeds and how count of their methods."""
    rows = []
    for name, setting in settings.items():
        place = places.get(name)
        seeds = (
            provenance_report.format_seeds(place.outcomes["seed"]) if place else "not recorded yet"
        )
        count = len(setting.arms) - len(place.lacking) if place else 0
        budgets = " and ".join(f"{b:g}" for b in (setting.megabytes[0], setting.megabytes[-1]))
        rows.append([setting.title, f"{budgets} MB", f"{count} of {len(setting.arms)}", seeds])
    return pd.DataFrame(rows, columns=["setting", "budgets", "methods recorded", "on"])


def describe_missing(
    settings: dict[str, protocol.Setting], places: dict[str, SettingResults]
) -> str:
    """Describe in one line what is not recorded yet; empty if all is."""
    missing = [s.title for name, s in settings.items() if name not in places]
    partial = [
        f"of {place.title} {', '.join(map(arm_label, place.lacking))}"
        for place in places.values()
        if place.lacking
    ]
    listed = "; ".join([*missing, *partial])
    return f"Not recorded yet: {listed}." if listed else ""


# The tables


def make_anchor(setting: str, arm: str) -> str:
    """Return the HTML anchor of a row of the table."""
    return re.sub(r"[^a-z0-9.]+", "-", f"cell {setting} {arm}".lower())


def link_row(place: SettingResults, arm: str, text: str = "") -> str:
    """Return a link to a row of the table."""
    return f'<a href="#{make_anchor(place.name, arm)}">{text or arm_label(arm)}</a>'


def _sort_arms(place: SettingResults) -> list[str]:
    """Return the arms, the best at the larger budget first."""
    return list(place.outcomes.groupby("arm")["large"].mean().sort_values(ascending=False).index)


def tabulate_primary(place: SettingResults) -> pd.DataFrame:
    """Tabulate the primary outcome as text, one row per arm with an anchor: tuned rate, accuracy at both budgets, gain,
    Holm's p, seeds, verdict."""
    small, large = place.setting.megabytes[0], place.setting.megabytes[-1]
    means, rows = place.outcomes.groupby("arm"), []
    for arm in _sort_arms(place):
        row = {"method": f'<a id="{make_anchor(place.name, arm)}"></a>{arm_label(arm)}'}
        row["rate"] = f"{means.get_group(arm)['rate'].iloc[0]:g}{place.edge(arm)}"
        for metric, budget in (("small", small), ("large", large)):
            row[f"at {budget:g} MB, %"] = f"{means.get_group(arm)[metric].mean():.1f}"
            if arm != place.setting.reference:
                one = place.gain(arm, metric)
                interval = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
                cells = [interval, statistics.format_p(one["holm"]), place.verdict(arm, metric)]
            else:
                cells = ["–"] * 3
            row |= dict(
                zip((f"gain {budget:g}", f"p {budget:g}", f"says {budget:g}"), cells, strict=True)
            )
        rows.append(row | {"seeds": str(means.get_group(arm)["seed"].nunique())})
    return pd.DataFrame(rows)


def tabulate_secondary(place: SettingResults) -> pd.DataFrame:
    """Tabulate the secondary outcomes as text: gains after equal rounds, for equal examples and on the worst decile; the
    loss; what a round costs, and what was spent to reach the reference's accuracy at the smaller budget."""
    rows = []
    for arm in _sort_arms(place):
        outcomes = place.outcomes[place.outcomes["arm"] == arm]
        row = {"method": arm_label(arm)}
        for metric, head in SECONDARY.items():
            row[head] = "–"
            if arm != place.setting.reference:
                one = place.gain(arm, metric)
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


def show_title(place: SettingResults):
    """Return the title of a setting, to stand above its table."""
    return Markdown(f"**{place.title}**")


def show_list(lines: Sequence[str]):
    """Return the lines as a list in Markdown."""
    return Markdown("\n".join(f"- {line}" for line in lines))


def show_rerun(place: SettingResults, arm: str):
    """Return the command that makes one recorded run again, and the accuracy that it ends with."""
    run = place.rows[place.rows["arm"] == arm].query("seed == seed.min()").iloc[-1]
    text = (
        f"ends with an accuracy of {100 * run['test_accuracy']:.2f} % after round {run['round']}."
    )
    return Markdown(f"```bash\n{rerun_command(place, arm, run['seed'])}\n```\n\n{text}")


def rerun_command(place: SettingResults, arm: str, seed: int) -> str:
    """Return the command that makes one recorded run of evaluation again."""
    outcomes = place.outcomes[place.outcomes["arm"] == arm]
    definition = next(a for a in place.setting.arms if a.name == arm)
    run = place.setting.plan_run(definition, outcomes["rate"].iloc[0], seed)
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
    places: Sequence[SettingResults], metric: str, arms: Sequence[str] | None = None
) -> pd.Series:
    """Count the verdicts on the arms in the settings."""
    words = [
        place.verdict(arm, metric)
        for place in places
        for arm in place.arms
        if arms is None or arm in arms
    ]
    return pd.Series(words, dtype=str).value_counts().reindex(VERDICTS, fill_value=0)


def compute_front_numbers(places: dict[str, SettingResults]) -> dict[str, float | str]:
    """Compute the numbers of the front pages: MD's accuracy on MNIST at the preprint's rate and at its best, on the seeds of tuning;
    gains of two designs at both budgets; how many settings are recorded."""
    tried = 100 * places["mnist"].tried.loc["md"].dropna()
    numbers: dict[str, float | str] = {
        "at_best": tried.max(),
        "best": tried.idxmax(),
        "at_old": tried[0.01],
    }
    deciding = [place for name, place in places.items() if name != TRIAL]
    numbers |= {"settings": len(deciding), "seeds": places["mnist"].outcomes["seed"].nunique()}
    numbers |= dict(zip(("told", "strict"), count_corrected(deciding), strict=True))
    numbers["most"] = max(
        places["mnist"].gain(arm, "large")["gain"] for arm in places["mnist"].arms
    )
    numbers["least"] = min(places[name].gain(LEAST_VARIANCE, "small")["low"] for name in UNLIKE)
    numbers |= {"cut_rate": _rate(places, LEAST_VARIANCE), "md_rate": _rate(places, "md")}
    costly = [arm for kind, arms in KINDS.items() if kind in COSTLY for arm in arms]
    numbers |= format_colour_images(places[COLOUR]) if COLOUR in places else {}
    verdicts = [places[n].verdict(FROM_UPDATES, m) for n in UNLIKE for m in BUDGETS]
    numbers["updates"] = verdicts == ["no worse", "no worse", "better", "better"]
    rows = pd.concat([p.gains[p.gains["metric"].isin(BUDGETS)] for p in deciding])
    better = rows[rows["low"] > 1]
    numbers |= {"better": len(better), "better_strict": int((better["holm"] < 0.05).sum())}
    numbers |= {"asked": first_round_surcharge(places[MANY])} if MANY in places else {}
    similar = sum(count_verdicts(deciding, metric, ["clustered-similarity"]) for metric in BUDGETS)
    numbers |= {
        "cells": int(similar.sum()),
        "safe": int(similar["better"]),
        "lost": int(similar["worse"]),
    }
    numbers["dear"] = sum(count_verdicts(deciding, metric, costly)["better"] for metric in BUDGETS)
    settings = (*UNLIKE, EQUAL, ALIKE, MANY, *(f"{name}-m5" for name in UNLIKE))
    for setting in (name for name in settings if name in places):
        for arm, name in (("fedstas-unbiased", "corrected"), (LEAST_VARIANCE, "cut")):
            for metric in BUDGETS:
                row = places[setting].gain(arm, metric)
                key = f"{name}_{re.sub('[-.]', '_', setting)}_{metric}"
                numbers[key] = statistics.format_interval(
                    row["gain"], row["low"], row["high"], "+.1f"
                )
    if (few := f"{UNLIKE[1]}-m5") in places:
        row = places[few].gain(FROM_UPDATES, "large")
        numbers["updates_few"] = statistics.format_interval(
            row["gain"], row["low"], row["high"], "+.1f"
        )
    return numbers


def first_round_surcharge(place: SettingResults, arm: str = LEAST_VARIANCE) -> float:
    """Return the megabytes that an arm has sent beyond MD at the first evaluation: what it requests of all at the start."""
    rows = place.rows
    first = rows[rows["round"] == rows["round"].min()].groupby("arm")["megabytes"].mean()
    return float(first[arm] - first["md"])


def check_many_clients(place: SettingResults) -> dict[str, bool]:
    """Check what chapter 10 says of 1,000 clients, sentence by sentence."""
    early, late = (place.gain(LEAST_VARIANCE, m) for m in BUDGETS)
    return {
        "loss": early["high"] < 0,
        "nothing": late["low"] < 0,
        "half": first_round_surcharge(place) > place.setting.megabytes[0] / 2,
        "written": all(
            place.gain(a, m)["high"] < 0 for a in ("fedstas", "fedstas-unbiased") for m in BUDGETS
        ),
    }


def check_answer(places: dict[str, SettingResults], numbers: dict) -> dict[str, bool]:
    """Check the answer of chapter 10, sentence by sentence; `numbers` are those of `compute_front_numbers`."""
    equal, mnist = places[EQUAL].gain(LEAST_VARIANCE, "small"), places["mnist"]
    planned = [p for p in places.values() if len(p.setting.evaluation_seeds) == 10]
    five = [p.outcomes["seed"].nunique() == 5 for p in planned]
    late = {name: places[name].gain(LEAST_VARIANCE, "large") for name in UNLIKE}
    plenty = [
        places[n].gain(arm, "large")["low"] for n in ("mnist", EQUAL) for arm in places[n].arms
    ]
    return check_colour_images(places[COLOUR]) | {
        "rate": numbers["at_best"] - numbers["at_old"] > numbers["most"],
        "lead": numbers["least"] > 0,
        "updates": numbers["updates"],
        "strict": numbers["better_strict"] > 1,
        "dear": numbers["dear"] == 0,
        "safe": numbers["lost"] == 0,
        "holm": all(places[n].gain(LEAST_VARIANCE, "small")["holm"] > 0.05 for n in UNLIKE),
        "equal": equal["low"] < 0 < equal["high"],
        "little": abs(late["mnist"]["gain"]) < 1,
        "some": late["fashion-mnist"]["low"] > 1,
        "later": all(row["low"] > -1 for row in late.values()),
        "meet": all(
            abs(mnist.gain(arm, "large")["gain"]) < 1
            for arm in mnist.arms
            if mnist.gain(arm, "small")["low"] > 0
        ),
        "seeds": all(five) and len(five) > len(places) / 2,
        "plenty": max(plenty) < 1,
    }


def check_participants(places: dict[str, SettingResults]) -> dict[str, bool]:
    """Check what chapter 10 says of five and twenty participants, sentence by sentence."""
    few = [places[f"{name}-m5"] for name in (*UNLIKE, EQUAL, ALIKE)]
    alike = [places[f"{ALIKE}{m}"] for m in ("", "-m5", "-m20")]
    lows = [p.gain(arm, m)["low"] for p in alike for arm in p.arms for m in BUDGETS]
    return {
        "gone": all(abs(places["mnist-m20"].gain(LEAST_VARIANCE, m)["gain"]) < 1 for m in BUDGETS),
        "lasts": all(
            places["fashion-mnist-m20"].gain(LEAST_VARIANCE, m)["low"] > 1 for m in BUDGETS
        ),
        "loss": places["fashion-mnist-m5"].gain(LEAST_VARIANCE, "large")["high"] < 0,
        "updates": places["fashion-mnist-m5"].gain(FROM_UPDATES, "large")["high"] < 0,
        "corrected": all(p.gain("fedstas-unbiased", "small")["high"] < 0 for p in few),
        "alike": max(lows) < 0,
        "kept": places["mnist-m5"].gain(LEAST_VARIANCE, "small")["low"] > 1,
    }


def check_colour_images(place: SettingResults) -> dict[str, bool]:
    """Check what chapter 10 says of colour images, sentence by sentence."""
    late = place.gains[place.gains["metric"] == "large"].set_index("arm")
    guess = 100 / place.setting.classes
    return {
        "early": place.outcomes.groupby("arm")["small"].mean().max() < 1.2 * guess,
        "late": list(late.index[late["low"] > 0]) == ["clustered-similarity"],
        "perhaps": late.loc[LEAST_VARIANCE, "low"] > -place.setting.min_effect,
    }


def format_colour_images(place: SettingResults) -> dict[str, float | str]:
    """Return the lowest and the highest accuracy in % at the larger budget, and two gains there."""
    ends = place.outcomes.groupby("arm")["large"].mean()
    numbers: dict[str, float | str] = {"colour_low": ends.min(), "colour_high": ends.max()}
    for arm, name in (("clustered-similarity", "clustered"), (LEAST_VARIANCE, "cut")):
        row = place.gain(arm, "large")
        numbers[f"{name}_colour"] = statistics.format_interval(
            row["gain"], row["low"], row["high"], "+.1f"
        )
    return numbers


RIVALS = (FROM_UPDATES, "clustered-similarity", "fedstas-unbiased", "fedvarp")


def compare_rivals(
    places: Sequence[SettingResults], rivals: Sequence[str] = RIVALS
) -> pd.DataFrame:
    """Compute the points of least variance above its rivals, paired by seed: columns setting, rival, metric, gain, low, high."""
    rows = []
    for place in places:
        gains = protocol.compute_gains(place.outcomes, LEAST_VARIANCE, BUDGETS)
        gains = gains[gains["arm"].isin(rivals)]
        reversed_gains = {"gain": -gains["gain"], "low": -gains["high"], "high": -gains["low"]}
        rows.append(gains.assign(setting=place.name, rival=gains["arm"], **reversed_gains))
    table = pd.concat(rows, ignore_index=True)
    return table[["setting", "rival", "metric", "gain", "low", "high"]]


def check_rivals(gains: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of each rival, sentence by sentence."""
    rows = gains.set_index(["rival", "setting", "metric"]).sort_index()
    low, high = rows["low"], rows["high"]
    near = low["clustered-similarity"]
    return {
        "corrected": (low["fedstas-unbiased"][list(UNLIKE)] > 0).all(),
        "updates": (low[FROM_UPDATES] < 0).all(),
        "clustered": list(near[near > 0].index) == [(UNLIKE[1], "large")],
        "many": all((high[rival][MANY] < 0).all() for rival in RIVALS[:2]),
        "memory": (low["fedvarp"][list(UNLIKE)] > 0).all(),
        "memory, equal": (low["fedvarp"][EQUAL] < 0).all(),
    }


def tabulate_rivals(gains: pd.DataFrame, places: dict[str, SettingResults]) -> pd.DataFrame:
    """Tabulate `compare_rivals` as text, a row per setting and rival."""
    rows = []
    for (name, rival), group in gains.groupby(["setting", "rival"], sort=False):
        row = {"setting": places[name].title, "above": arm_label(rival)}
        for one in group.set_index("metric").loc[list(BUDGETS)].itertuples():
            head = f"{'smaller' if one.Index == 'small' else 'larger'} budget"
            row[head] = statistics.format_interval(one.gain, one.low, one.high, "+.1f")
        rows.append(row)
    return pd.DataFrame(rows)


def _rate(places: dict[str, SettingResults], arm: str) -> float:
    """Return the tuned rate of an arm on Fashion-MNIST."""
    return places[UNLIKE[1]].tried.loc[arm].idxmax()


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
    "one gradient of each: least variance": (LEAST_VARIANCE,),
    LAST_UPDATES + "least variance": (FROM_UPDATES,),
    LAST_UPDATES + "clustered by similarity": ("clustered-similarity",),
    LAST_UPDATES + "a server that remembers": ("fedvarp",),
    "sizes: clustered by size": ("clustered-size",),
    "sizes: FedAvg, also unbiased": ("fedavg", "fedavg-unbiased"),
}


def count_by_requests(places: Sequence[SettingResults]) -> pd.DataFrame:
    """Count verdicts by what designs request of clients: a row per kind, a column per verdict, over settings and budgets."""
    count = {k: sum(count_verdicts(places, m, arms) for m in BUDGETS) for k, arms in KINDS.items()}
    return pd.DataFrame(count).T.rename_axis("asks for").reset_index()


def count_corrected(places: Sequence[SettingResults]) -> tuple[int, int]:
    """Count the comparisons that are better or worse by their interval, and those of them with Holm's p below 0.05."""
    rows = [(p, r) for p in places for _, r in p.gains.iterrows() if r["metric"] in BUDGETS]
    significant = [
        r["holm"] < 0.05 for p, r in rows if p.verdict(r["arm"], r["metric"]) in ("better", "worse")
    ]
    return len(significant), sum(significant)


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


def compute_tuned_gains(places: Sequence[SettingResults], rounds: float) -> pd.DataFrame:
    """Compute the gains of tuned arms after so many rounds, where runs have as many: columns of `compute_gains`, and
    setting."""
    parts = []
    for place in (each for each in places if each.setting.rounds >= rounds):
        classes = protocol.CLASSES[place.setting.task]
        rows = [
            {
                "arm": arm,
                "seed": seed,
                "value": 100 * protocol.accuracy_at_budget(run, "round", rounds, classes),
            }
            for (arm, seed), run in place.rows.groupby(["arm", "seed"])
        ]
        table = protocol.compute_gains(pd.DataFrame(rows), place.setting.reference, ("value",))
        parts.append(table.assign(setting=place.name))
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


def tabulate_joined_gains(both: pd.DataFrame, places: dict[str, SettingResults]) -> pd.DataFrame:
    """Tabulate `join_gains` as text, with the tuned gains at both budgets."""
    rows = []
    for row in both.itertuples():
        place = places[row.setting]
        text = {"setting": place.title, "method": link_row(place, row.arm)}
        text["rate 0.01, 99 rounds"] = statistics.format_interval(
            row.gain_before, row.low_before, row.high_before, "+.1f"
        )
        text["tuned, 99 rounds"] = statistics.format_interval(
            row.gain_after, row.low_after, row.high_after, "+.1f"
        )
        for metric, name in (("small", "smaller budget"), ("large", "larger budget")):
            one = place.gain(row.arm, metric)
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
    settings: dict[str, protocol.Setting], places: dict[str, SettingResults]
) -> list[str]:
    """List the departures from the protocol that the records show."""
    fewer: dict[str, list[str]] = {}
    edges: dict[str, list[str]] = {}
    for place in places.values():
        seeds_of_setting = set(place.outcomes["seed"])
        if seeds_of_setting < set(place.setting.evaluation_seeds):
            fewer.setdefault(provenance_report.format_seeds(seeds_of_setting), []).append(
                place.title
            )
        for arm, seeds_of_arm in place.outcomes.groupby("arm")["seed"]:
            if set(seeds_of_arm) < seeds_of_setting:
                fewer.setdefault(provenance_report.format_seeds(set(seeds_of_arm)), []).append(
                    f"{arm_label(arm)} ({place.title})"
                )
        for arm in place.tried.index.intersection(place.outcomes["arm"]):
            if sign := place.edge(arm):
                edges.setdefault(sign, []).append(f"{arm_label(arm)} ({place.title})")
    departures = [
        f"**Seeds.** Evaluated on {seeds} only: {'; '.join(names)}."
        for seeds, names in fewer.items()
    ]
    departures += [
        f"**Rates.** {EDGES[sign]}: {'; '.join(names)}." for sign, names in edges.items()
    ]
    if lacking := describe_missing(settings, places):
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


def draw_figures(places: Sequence[SettingResults]) -> dict[str, Figure]:
    """Draw the chapter's figures, by name; a line of text where what one shows is not recorded."""
    ten = [place for place in places if not place.setting.rates_of]
    figures = {
        "remembered": draw_gains(ten),
        "learning": draw_learning_curves(ten),
        "rates": draw_rates(ten),
    }
    return figures | {"participants": draw_participants(places)}


def select_budget_gains(
    places: Sequence[SettingResults], arms: Sequence[str] = SHOWN_ARMS
) -> pd.DataFrame:
    """Return the gains of these arms at equal megabytes, in all these settings."""
    gains = pd.concat([p.gains for p in places])
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
    places: Sequence[SettingResults],
    arms: Sequence[str] = SHOWN_ARMS,
    budgets: Sequence[str] = ("smaller budget", "larger budget"),
    limits: tuple[float, float] | None = None,
    titles: Mapping[str, str] | None = None,
) -> Figure:
    """Draw the points above MD at equal megabytes: a panel per setting, a row per arm.

    Dots are full at the larger budget, hollow at the smaller; the grey band has the differences that do not matter, and
    a gain outside the axis is written at its edge. `titles` replace the protocol's.
    """
    gains = select_budget_gains(places, arms)
    shown = [arm for arm in arms if arm in set(gains["arm"])]
    parts = {(titles or {}).get(place.name, place.title): place for place in places}
    height = 0.26 * len(shown) + 0.28 + 0.5 / len(places)
    options = {"height": height, "align": "right", "xlabel": "points above MD"}
    limits = limits or axis_limits(gains)
    figure = plots.panels(_draw_gain_panel, parts, gains, shown, limits, **options)
    plots.legend(figure, dict(zip(budgets, BUDGET_STYLES.values(), strict=True)))
    return figure


def _draw_gain_panel(
    ax: Axes,
    place: SettingResults,
    gains: pd.DataFrame,
    arms: Sequence[str],
    limits: tuple[float, float],
) -> None:
    """Draw the gains of one setting at both budgets, a row per arm."""
    effect = place.setting.min_effect
    ax.axvspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
    series = {}
    for metric, shift in (("large", 0.17), ("small", -0.17)):
        part = gains[(gains["setting"] == place.name) & (gains["metric"] == metric)]
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
    places: Sequence[SettingResults], arms: Sequence[str] = DETAILED_ARMS
) -> Figure:
    """Draw the points above MD over participants per round, with 95 % intervals: a row of panels per federation that is
    recorded with several numbers of them, a column per budget. A gain below the axis is written at its edge."""
    by_federation: dict[str, list[SettingResults]] = {}
    for place in sorted(places, key=lambda p: p.setting.clients_per_round):
        by_federation.setdefault(place.setting.rates_of or place.name, []).append(place)
    groups = {name: group for name, group in by_federation.items() if len(group) > 1}
    if not groups:
        return plots.not_recorded("Not recorded yet: `fedstas arena --setting mnist-m5` begins.")
    options = {"figsize": (plots.WIDTH, 1.0 + 1.7 * len(groups)), "squeeze": False}
    figure, axes = plt.subplots(len(groups), 2, sharex=True, sharey=True, **options)
    for row, (name, group) in zip(axes, groups.items(), strict=True):
        title = next((p.title for p in places if p.name == name), name)
        for ax, metric, budget in zip(row, BUDGETS, ("smaller", "larger"), strict=True):
            _draw_participants_panel(ax, group, arms, metric)
            ax.set_title(f"{title}\n{budget} budget", fontsize="small")
        row[0].set_ylabel("points above MD")
    figure.supxlabel("participants a round", fontsize="medium")
    plots.legend(figure, {arm: arm_style(arm) for arm in arms})
    return figure


def _draw_participants_panel(
    ax: Axes, group: Sequence[SettingResults], arms: Sequence[str], metric: str
) -> None:
    """Draw the arms' gains over the participants of a round, a little apart."""
    effect, lines = group[0].setting.min_effect, {}
    ax.axhspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
    for k, arm in enumerate(arms):
        compared = [place for place in group if arm in place.arms]
        x = [place.setting.clients_per_round * 1.06 ** (k - 1.5) for place in compared]
        gains = pd.DataFrame([place.gain(arm, metric) for place in compared])
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
    places: Sequence[SettingResults], arms: Sequence[str] = CURVE_ARMS
) -> Figure:
    """Draw mean learning curves over megabytes up to the larger budget, with 95 % bands over seeds: a panel per
    setting; dotted lines are the budgets."""

    def draw(ax: Axes, place: SettingResults) -> None:
        smaller, larger = place.setting.megabytes[0], place.setting.megabytes[-1]
        runs = {arm: place.rows[place.rows["arm"] == arm] for arm in arms}
        lines = {arm: _mean_curve(rows, larger) for arm, rows in runs.items() if len(rows)}
        plots.curves(ax, lines, arm_style, names=False)
        for budget in place.setting.megabytes:
            ax.axvline(budget, color=plots.GREY, lw=0.8, ls=":")
        early = place.rows["megabytes"].between(smaller / 4, smaller / 2)
        reference = place.rows[early & (place.rows["arm"] == place.setting.reference)]
        low, high = 100 * reference["test_accuracy"].mean(), min(100, ax.get_ylim()[1])
        ax.set(xlim=(smaller / 4, larger), ylim=(low, high))

    labels = {"xlabel": "megabytes, sent and received", "ylabel": "accuracy, %"}
    parts = {place.title: place for place in places}
    figure = plots.panels(draw, parts, height=2.2, sharex=False, **labels)
    recorded = [arm for arm in arms if any(arm in set(p.rows["arm"]) for p in places)]
    plots.legend(figure, {arm: arm_style(arm) for arm in recorded})
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


def draw_rates(places: Sequence[SettingResults], arms: Sequence[str] = CURVE_ARMS) -> Figure:
    """Draw the accuracy at the larger budget on the seeds of tuning over the learning rate; a dot at each best rate."""

    def draw(ax: Axes, place: SettingResults) -> None:
        tried = [arm for arm in arms if arm in place.tried.index]
        lines = {arm: 100 * place.tried.loc[arm].dropna() for arm in tried}
        lines = {arm: accuracies for arm, accuracies in lines.items() if len(accuracies)}
        plots.curves(ax, lines, arm_style, names=False, width=1.5, xscale="log")
        ax.margins(x=0.05)
        for arm, accuracies in lines.items():
            ax.plot(accuracies.idxmax(), accuracies.max(), "o", ms=5, color=arm_colour(arm))

    labels = {"xlabel": "learning rate", "ylabel": "accuracy, %"}
    parts = {place.title: place for place in places}
    figure = plots.panels(draw, parts, height=2.2, sharex=False, **labels)
    recorded = [arm for arm in arms if any(arm in p.tried.index for p in places)]
    plots.legend(figure, {arm: arm_style(arm) for arm in recorded})
    return figure


def draw_one_round_errors(places: dict[str, SettingResults]) -> tuple[pd.DataFrame, Figure]:
    """Return the tuned gains after 99 rounds with the errors of one round, and the figure of both rates."""
    error = one_rounds.summarise(one_rounds.load())
    after = compute_tuned_gains(list(places.values()), 99)
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
    figure = plots.panels(draw, panels, height=3.0, xlabel=xlabel)
    plots.legend(figure, {name: styles[name] for name in [*map(arm_label, arms), "other designs"]})
    return figure
