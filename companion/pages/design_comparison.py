"""Chapter 10: what is recorded of the comparison, its tables, figures and sentences.

Sentences stand on the page and link to the row of the table (`anchor`) that they rest on; what is not recorded
is left out and named by `missing`.
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
from matplotlib.lines import Line2D
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
from companion.runs.tables import Variant
from fedstas.sim.rng import stream

# Arms by name: what a reader calls them, and the method whose colour they have.
ARMS = {
    "all clients": ("all clients", "centralised"),
    "least-variance": ("least variance", "fedstas-least-variance"),
    "least-variance, updates": (
        "least variance from updates",
        "fedstas-least-variance, from updates",
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
SHOWN = (
    "all clients",
    "least-variance",
    "least-variance, updates",
    "fedstas-unbiased",
    "clustered-similarity",
    "fedvarp",
    "fedstas",
)
BUDGETS = ("small", "large")  # the primary outcome's metrics
SECOND = {
    "rounds": "gain, equal rounds",
    "examples": "gain, equal examples",
    "worst_decile": "gain, worst decile",
}
VERDICTS = ("better", "no worse", "worse", "we do not know")
FOLLOWED = ("least-variance", "least-variance, updates", "clustered-similarity", "fedstas-unbiased")
HOLLOW = "least-variance, updates"  # it has the colour of another
UNLIKE = ("mnist", "fashion-mnist")  # few clients, disjoint at concentration 0.01, of unlike sizes
EQUAL = "mnist-equal"  # few clients that are unlike, but for their sizes
ALIKE = "mnist-0.1"  # few clients, disjoint, that are more alike
MANY = "mnist-1000"  # of the same kind, ten times as many
COLOUR = "cifar100-coarse"  # few clients, at the milder concentration, a convolutional network
TRIAL = "digits"  # for readers' own designs: it decides nothing where another is recorded
# By setting: the sweep and rows that chapters 5 and 9 show of it at the preprint's rate.
UNTUNED = {
    "mnist": ("preprint", {"partition": "dirichlet"}),
    "mnist-equal": ("preprint", {"partition": "dirichlet_fixed_size"}),
    "fashion-mnist": ("fashion-mnist", {"partition": "dirichlet"}),
    "mnist-0.1": ("sensitivity", {"variant": Variant.of(concentration=0.1)}),
    "mnist-m5": ("sensitivity", {"variant": Variant.of(clients_per_round=5)}),
    "mnist-m20": ("sensitivity", {"variant": Variant.of(clients_per_round=20)}),
}
CUT_PLACES = {
    "MNIST, disjoint": "mnist",
    "MNIST, equal sizes": "mnist-equal",
    "Fashion-MNIST, disjoint": "fashion-mnist",
}


def arm_label(arm: str) -> str:
    """Return what a reader calls an arm."""
    return ARMS.get(arm, (arm, ""))[0]


def arm_style(arm: str) -> tuple[str, str]:
    """Return the colour and dash of an arm's method; that of all clients is no other arm's."""
    return (
        (plots.GREY, "-.")
        if arm == "all clients"
        else plots.method_style(ARMS.get(arm, ("", arm))[1])[:2]
    )


def arm_colour(arm: str) -> str:
    """Return the colour of an arm's method."""
    return arm_style(arm)[0]


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
    known: dict[str, protocol.Setting], folders=(protocol.RECORDED,)
) -> dict[str, SettingResults]:
    """Load the results of settings where the reference and another arm were evaluated on two common seeds or more."""
    runs, found = protocol.load_runs(folders), {}
    for name, setting in known.items():
        outcomes = protocol.compute_outcomes(known, name, folders, runs)
        if not len(outcomes):
            continue
        seeds = outcomes.groupby("arm")["seed"].transform("nunique")
        outcomes = outcomes[seeds > 1]
        if outcomes["arm"].nunique() < 2:
            continue
        tried, rows = protocol.load_evaluation(known, name, folders, runs)
        rows = rows[rows["run"].isin(outcomes["run"])]
        gains = protocol.compute_gains(outcomes, setting.reference).assign(setting=name)
        found[name] = SettingResults(setting, outcomes, gains, tried, rows)
    return found


def tabulate_progress(
    known: dict[str, protocol.Setting], places: dict[str, SettingResults]
) -> pd.DataFrame:
    """Tabulate which settings are recorded, with which seeds and how many of their methods."""
    rows = []
    for name, setting in known.items():
        place = places.get(name)
        seeds = (
            provenance_report.format_seeds(place.outcomes["seed"]) if place else "not recorded yet"
        )
        many = len(setting.arms) - len(place.lacking) if place else 0
        budgets = " and ".join(f"{b:g}" for b in (setting.megabytes[0], setting.megabytes[-1]))
        rows.append([setting.title, f"{budgets} MB", f"{many} of {len(setting.arms)}", seeds])
    return pd.DataFrame(rows, columns=["setting", "budgets", "methods recorded", "on"])


def describe_missing(known: dict[str, protocol.Setting], places: dict[str, SettingResults]) -> str:
    """Describe in one line what is not recorded yet; empty if all is."""
    whole = [s.title for name, s in known.items() if name not in places]
    parts = [
        f"of {place.title} {', '.join(map(arm_label, place.lacking))}"
        for place in places.values()
        if place.lacking
    ]
    listed = "; ".join([*whole, *parts])
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
                said = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
                cells = [said, statistics.format_p(one["holm"]), place.verdict(arm, metric)]
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
        own = place.outcomes[place.outcomes["arm"] == arm]
        row = {"method": arm_label(arm)}
        for metric, head in SECOND.items():
            row[head] = "–"
            if arm != place.setting.reference:
                one = place.gain(arm, metric)
                row[head] = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
        row["training loss"] = f"{own['loss'].mean():.3f}"
        reached = own["rounds_to_goal"].notna()
        row["MB to the goal"] = f"{own['megabytes_to_goal'].mean():.0f}" if reached.any() else "–"
        row["rounds to it"] = f"{own['rounds_to_goal'].mean():.0f}" if reached.any() else "–"
        row["reached by"] = f"{reached.sum()} of {len(own)}"
        row["rounds in the larger budget"] = f"{own['rounds_in_budget'].mean():.0f}"
        row["examples in it"] = f"{own['examples_in_budget'].mean():,.0f}"
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
    said = (
        f"ends with an accuracy of {100 * run['test_accuracy']:.2f} % after round {run['round']}."
    )
    return Markdown(f"```bash\n{rerun_command(place, arm, run['seed'])}\n```\n\n{said}")


def rerun_command(place: SettingResults, arm: str, seed: int) -> str:
    """Return the command that makes one recorded run of evaluation again."""
    own = place.outcomes[place.outcomes["arm"] == arm]
    one = next(each for each in place.setting.arms if each.name == arm)
    run = place.setting.plan_run(one, own["rate"].iloc[0], seed)
    method = shlex.quote(" ".join([one.method, *(f"{k}={v}" for k, v in one.settings)]))
    return (
        f"fedstas run --task {run.task} --partition {run.partition} --concentration {run.concentration:g} "
        f"--clients {run.clients} --clients-per-round {run.clients_per_round} --method {method} "
        f"--lr {own['rate'].iloc[0]:g} --rounds {run.rounds} --eval-every {run.eval_every} --seed {seed}"
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
    told: dict[str, float | str] = {
        "at_best": tried.max(),
        "best": tried.idxmax(),
        "at_old": tried[0.01],
    }
    deciding = [place for name, place in places.items() if name != TRIAL]
    told |= {"settings": len(deciding), "seeds": places["mnist"].outcomes["seed"].nunique()}
    told |= dict(zip(("told", "strict"), count_corrected(deciding), strict=True))
    told["most"] = max(places["mnist"].gain(arm, "large")["gain"] for arm in places["mnist"].arms)
    told["least"] = min(places[name].gain("least-variance", "small")["low"] for name in UNLIKE)
    told |= {"cut_rate": _rate(places, "least-variance"), "md_rate": _rate(places, "md")}
    dear = [arm for kind, arms in KINDS.items() if kind in DEAR for arm in arms]
    told |= format_colour_images(places[COLOUR]) if COLOUR in places else {}
    told["updates"] = [places[n].verdict("least-variance, updates", m) for n in UNLIKE for m in BUDGETS] == [
        "no worse", "no worse", "better", "better",
    ]  # fmt: skip
    rows = pd.concat([p.gains[p.gains["metric"].isin(BUDGETS)] for p in deciding])
    better = rows[rows["low"] > 1]
    told |= {"better": len(better), "better_strict": int((better["holm"] < 0.05).sum())}
    told |= {"asked": first_round_surcharge(places[MANY])} if MANY in places else {}
    safe = sum(count_verdicts(deciding, metric, ["clustered-similarity"]) for metric in BUDGETS)
    told |= {"cells": int(safe.sum()), "safe": int(safe["better"]), "lost": int(safe["worse"])}
    told["dear"] = sum(count_verdicts(deciding, metric, dear)["better"] for metric in BUDGETS)
    followed = (*UNLIKE, EQUAL, ALIKE, MANY, *(f"{name}-m5" for name in UNLIKE))
    for setting in (name for name in followed if name in places):
        for arm, name in (("fedstas-unbiased", "corrected"), ("least-variance", "cut")):
            for metric in BUDGETS:
                row = places[setting].gain(arm, metric)
                key = f"{name}_{re.sub('[-.]', '_', setting)}_{metric}"
                told[key] = statistics.format_interval(row["gain"], row["low"], row["high"], "+.1f")
    if (few := f"{UNLIKE[1]}-m5") in places:
        row = places[few].gain("least-variance, updates", "large")
        told["updates_few"] = statistics.format_interval(
            row["gain"], row["low"], row["high"], "+.1f"
        )
    return told


def first_round_surcharge(place: SettingResults, arm: str = "least-variance") -> float:
    """Return the megabytes that an arm has sent beyond MD at the first evaluation: what it requests of all at the start."""
    rows = place.rows
    first = rows[rows["round"] == rows["round"].min()].groupby("arm")["megabytes"].mean()
    return float(first[arm] - first["md"])


def check_many_clients(place: SettingResults) -> dict[str, bool]:
    """Check what chapter 10 says of 1,000 clients, sentence by sentence."""
    early, late = (place.gain("least-variance", m) for m in BUDGETS)
    return {
        "loss": early["high"] < 0,
        "nothing": late["low"] < 0,
        "half": first_round_surcharge(place) > place.setting.megabytes[0] / 2,
        "written": all(
            place.gain(a, m)["high"] < 0 for a in ("fedstas", "fedstas-unbiased") for m in BUDGETS
        ),
    }


def check_answer(places: dict[str, SettingResults], told: dict) -> dict[str, bool]:
    """Check the answer of chapter 10, sentence by sentence; `told` are the numbers of `compute_front_numbers`."""
    equal, mnist = places[EQUAL].gain("least-variance", "small"), places["mnist"]
    planned = [p for p in places.values() if len(p.setting.evaluation_seeds) == 10]
    five = [p.outcomes["seed"].nunique() == 5 for p in planned]
    late = {name: places[name].gain("least-variance", "large") for name in UNLIKE}
    plenty = [
        places[n].gain(arm, "large")["low"] for n in ("mnist", EQUAL) for arm in places[n].arms
    ]
    return check_colour_images(places[COLOUR]) | {
        "rate": told["at_best"] - told["at_old"] > told["most"],
        "lead": told["least"] > 0,
        "updates": told["updates"],
        "strict": told["better_strict"] > 1,
        "dear": told["dear"] == 0,
        "safe": told["lost"] == 0,
        "holm": all(places[n].gain("least-variance", "small")["holm"] > 0.05 for n in UNLIKE),
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
    ahead = [p.gain(arm, m)["low"] for p in alike for arm in p.arms for m in BUDGETS]
    cut = "least-variance"
    return {
        "gone": all(abs(places["mnist-m20"].gain(cut, m)["gain"]) < 1 for m in BUDGETS),
        "lasts": all(places["fashion-mnist-m20"].gain(cut, m)["low"] > 1 for m in BUDGETS),
        "loss": places["fashion-mnist-m5"].gain(cut, "large")["high"] < 0,
        "updates": places["fashion-mnist-m5"].gain(f"{cut}, updates", "large")["high"] < 0,
        "corrected": all(p.gain("fedstas-unbiased", "small")["high"] < 0 for p in few),
        "alike": max(ahead) < 0,
        "kept": places["mnist-m5"].gain(cut, "small")["low"] > 1,
    }


def check_colour_images(place: SettingResults) -> dict[str, bool]:
    """Check what chapter 10 says of colour images, sentence by sentence."""
    late = place.gains[place.gains["metric"] == "large"].set_index("arm")
    guess = 100 / place.setting.classes
    return {
        "early": place.outcomes.groupby("arm")["small"].mean().max() < 1.2 * guess,
        "late": list(late.index[late["low"] > 0]) == ["clustered-similarity"],
        "perhaps": late.loc["least-variance", "low"] > -place.setting.min_effect,
    }


def format_colour_images(place: SettingResults) -> dict[str, float | str]:
    """Return the lowest and the highest accuracy in % at the larger budget, and two gains there."""
    ends = place.outcomes.groupby("arm")["large"].mean()
    told: dict[str, float | str] = {"colour_low": ends.min(), "colour_high": ends.max()}
    for arm, name in (("clustered-similarity", "clustered"), ("least-variance", "cut")):
        row = place.gain(arm, "large")
        told[f"{name}_colour"] = statistics.format_interval(
            row["gain"], row["low"], row["high"], "+.1f"
        )
    return told


RIVALS = ("least-variance, updates", "clustered-similarity", "fedstas-unbiased", "fedvarp")


def compare_rivals(
    places: Sequence[SettingResults], rivals: Sequence[str] = RIVALS
) -> pd.DataFrame:
    """Compute the points of least variance above its rivals, paired by seed: columns setting, rival, metric, gain, low, high."""
    rows = []
    for place in places:
        found = protocol.compute_gains(place.outcomes, "least-variance", BUDGETS)
        found = found[found["arm"].isin(rivals)]
        turned = {"gain": -found["gain"], "low": -found["high"], "high": -found["low"]}
        rows.append(found.assign(setting=place.name, rival=found["arm"], **turned))
    table = pd.concat(rows, ignore_index=True)
    return table[["setting", "rival", "metric", "gain", "low", "high"]]


def check_rivals(found: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of each rival, sentence by sentence."""
    rows = found.set_index(["rival", "setting", "metric"]).sort_index()
    low, high = rows["low"], rows["high"]
    near = low["clustered-similarity"]
    return {
        "corrected": (low["fedstas-unbiased"][list(UNLIKE)] > 0).all(),
        "updates": (low["least-variance, updates"] < 0).all(),
        "clustered": list(near[near > 0].index) == [(UNLIKE[1], "large")],
        "many": all((high[rival][MANY] < 0).all() for rival in RIVALS[:2]),
        "memory": (low["fedvarp"][list(UNLIKE)] > 0).all(),
        "memory, equal": (low["fedvarp"][EQUAL] < 0).all(),
    }


def tabulate_rivals(found: pd.DataFrame, places: dict[str, SettingResults]) -> pd.DataFrame:
    """Tabulate `compare_rivals` as text, a row per setting and rival."""
    rows = []
    for (name, rival), own in found.groupby(["setting", "rival"], sort=False):
        row = {"setting": places[name].title, "above": arm_label(rival)}
        for one in own.set_index("metric").loc[list(BUDGETS)].itertuples():
            head = f"{'smaller' if one.Index == 'small' else 'larger'} budget"
            row[head] = statistics.format_interval(one.gain, one.low, one.high, "+.1f")
        rows.append(row)
    return pd.DataFrame(rows)


def _rate(places: dict[str, SettingResults], arm: str) -> float:
    return places[UNLIKE[1]].tried.loc[arm].idxmax()


DEAR = ("all or many clients in each round", "gradients of all: FedSTS, FedSTaS")
LAST = "last updates: "  # which a server has anyway
KINDS = {  # of designs, by what they ask for
    "all or many clients in each round": (
        "all clients",
        "optimal-client-sampling",
        "power-of-choice",
        "divfl",
    ),
    "gradients of all: FedSTS, FedSTaS": ("fedsts", "fedstas"),
    "gradients of all: FedSTaS corrected": ("fedstas-unbiased",),
    "one gradient of each: least variance": ("least-variance",),
    LAST + "least variance": ("least-variance, updates",),
    LAST + "clustered by similarity": ("clustered-similarity",),
    LAST + "a server that remembers": ("fedvarp",),
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
    told = [
        r["holm"] < 0.05 for p, r in rows if p.verdict(r["arm"], r["metric"]) in ("better", "worse")
    ]
    return len(told), sum(told)


EDGES = {
    "†": "The best rate lies at an end of those that were tried",
    "‡": "Some rates of the grid are not tried yet",
}

# Beside the preprint's rate


def load_untuned_gains(folder: str | Path = "results") -> pd.DataFrame:
    """Load the gains after 99 rounds at the preprint's rate from the sweeps of chapters 5 and 9: columns setting, arm, gain,
    low, high, seeds."""
    ways = {
        least_variance_results.LEAST_VARIANCE_METHOD: "least-variance",
        f"{least_variance_results.LEAST_VARIANCE_METHOD}, from updates": "least-variance, updates",
    }
    frames = {
        name: tables.load_sweep(sweep, folder).where(**wanted)
        for name, (sweep, wanted) in UNTUNED.items()
    }
    found = {}
    for name, frame in frames.items():
        for arm, row in (
            tables.paired_differences(frame, "test_accuracy", "md").iterrows() if len(frame) else ()
        ):
            found[name, arm] = row
    for (place, m), frame in least_variance_results.load_frames(folder).items():
        name = CUT_PLACES[place] + ("" if m == 10 else f"-m{m}")
        for arm, row in tables.paired_differences(frame, "test_accuracy", "md").iterrows():
            found.setdefault((name, ways.get(arm, arm)), row)
    rows = [
        {"setting": name, "arm": arm, "gain": row["difference"]}
        | dict(row[["low", "high", "seeds"]])
        for (name, arm), row in found.items()
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
        said = {"setting": place.title, "method": link_row(place, row.arm)}
        said["rate 0.01, 99 rounds"] = statistics.format_interval(
            row.gain_before, row.low_before, row.high_before, "+.1f"
        )
        said["tuned, 99 rounds"] = statistics.format_interval(
            row.gain_after, row.low_after, row.high_after, "+.1f"
        )
        for metric, name in (("small", "smaller budget"), ("large", "larger budget")):
            one = place.gain(row.arm, metric)
            said[name] = statistics.format_interval(one["gain"], one["low"], one["high"], "+.1f")
        rows.append(said)
    return pd.DataFrame(rows)


def count_kept_gains(both: pd.DataFrame, matters: float = 1.0) -> dict[str, float]:
    """Count the gains whose interval at the preprint's rate is above the smallest effect (`were`), those `kept` and
    `gone` with tuned rates; and their medians before and after."""
    sure = both[both["low_before"] > matters]
    kept, gone = (sure["low_after"] > matters).sum(), (sure["high_after"] < matters).sum()
    told = {"were": len(sure), "kept": kept, "gone": gone}
    return told | {f"median_{x}": sure[f"gain_{x}"].median() for x in ("before", "after")}


def list_departures(
    known: dict[str, protocol.Setting], places: dict[str, SettingResults]
) -> list[str]:
    """List the departures from the protocol that the records show."""
    fewer: dict[str, list[str]] = {}
    edges: dict[str, list[str]] = {}
    for place in places.values():
        there = set(place.outcomes["seed"])
        if there < set(place.setting.evaluation_seeds):
            fewer.setdefault(provenance_report.format_seeds(there), []).append(place.title)
        for arm, own in place.outcomes.groupby("arm")["seed"]:
            if set(own) < there:
                fewer.setdefault(provenance_report.format_seeds(set(own)), []).append(
                    f"{arm_label(arm)} ({place.title})"
                )
        for arm in place.tried.index.intersection(place.outcomes["arm"]):
            if sign := place.edge(arm):
                edges.setdefault(sign, []).append(f"{arm_label(arm)} ({place.title})")
    said = [f"**Seeds.** Evaluated on {seeds} only: {'; '.join(w)}." for seeds, w in fewer.items()]
    said += [f"**Rates.** {EDGES[sign]}: {'; '.join(each)}." for sign, each in edges.items()]
    if lacking := describe_missing(known, places):
        said.append(f"**Runs.** {lacking}")
    return said


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

    def agreeing(gain: np.ndarray) -> int:
        return int((np.sign(gain[pairs[:, 1]] - gain[pairs[:, 0]]) == less).sum())

    found, rng, as_many = agreeing(gain), stream(seed, "exchanged gains"), 0
    for _ in range(times):
        other = gain.copy()
        for g in groups:
            other[g] = rng.permutation(gain[g])
        as_many += agreeing(other) >= found
    rho = stats.spearmanr(-errors, gain).statistic if len(cells) > 2 else np.nan
    told = {"cells": len(cells), "settings": len(groups), "rho": float(rho)}
    return told | {"pairs": len(pairs), "agree": found, "p": (as_many + 1) / (times + 1)}


# The figures

FLOOR = 16  # points, where the axis of `participants` ends
LINES = (
    "least-variance",
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
    places: Sequence[SettingResults], arms: Sequence[str] = SHOWN
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


def draw_gains(
    places: Sequence[SettingResults],
    arms: Sequence[str] = SHOWN,
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
    limits = limits or axis_limits(gains)
    height = 1.0 + (0.26 * len(shown) + 0.28) * len(places)
    figure, axes = plt.subplots(len(places), sharex=True, figsize=(4.2, height), squeeze=False)
    looks = [arm_colour(arm) for arm in shown]
    for ax, place in zip(axes.flat, places, strict=False):
        effect = place.setting.min_effect
        ax.axvspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
        series = {}
        for metric, shift in (("large", 0.17), ("small", -0.17)):
            part = gains[(gains["setting"] == place.name) & (gains["metric"] == metric)]
            found = part.set_index("arm")[["gain", "low", "high"]].reindex(shown)
            found = found.rename(columns={"gain": "mean"})
            out = (found["mean"] < limits[0]) | (found["mean"] > limits[1])
            for arm, value in found.loc[out, "mean"].items():
                low, at = value < limits[0], len(shown) - 1 - shown.index(arm) + shift
                words = f"◂ {value:+.0f}".replace("-", "−") if low else f"{value:+.0f} ▸"
                where = {"ha": "left" if low else "right", "va": "center", "fontsize": "small"}
                ax.text(limits[0 if low else 1], at, words, color=arm_colour(arm), **where)
            found.loc[out, "mean"] = np.nan
            found.index = [arm_label(arm) for arm in shown]
            series[metric] = found
        styles = {m: plots.Style(plots.GREY, hollow=m == "small") for m in series}
        plots.intervals(ax, series, styles, colours=looks, reference=0, spread=0.34)
        said = (titles or {}).get(place.name, place.title)
        ax.set_title(said, loc="right")  # longer than the axis is wide
        ax.set_xlim(limits)
    axes.flat[-1].set_xlabel("points above MD")
    dots = [
        Line2D([], [], marker="o", ls="", color=plots.GREY, mfc=face, label=name)
        for name, face in zip(budgets, ("white", plots.GREY), strict=True)
    ]
    figure.legend(handles=dots, loc="outside upper center", ncols=2, frameon=False)
    return figure


def draw_participants(places: Sequence[SettingResults], arms: Sequence[str] = FOLLOWED) -> Figure:
    """Draw the points above MD over participants per round, with 95 % intervals: a row of panels per federation that is
    recorded with several numbers of them, a column per budget. A gain below the axis is written at its edge."""
    of: dict[str, list[SettingResults]] = {}
    for place in sorted(places, key=lambda p: p.setting.clients_per_round):
        of.setdefault(place.setting.rates_of or place.name, []).append(place)
    shown = {name: group for name, group in of.items() if len(group) > 1}
    if not shown:
        return plots.not_recorded("Not recorded yet: `fedstas arena --setting mnist-m5` begins.")
    size = (4.2, 1.0 + 1.7 * len(shown))
    figure, axes = plt.subplots(
        len(shown), 2, sharex=True, sharey=True, figsize=size, squeeze=False
    )
    for row, (name, group) in zip(axes, shown.items(), strict=True):
        base = next((p.title for p in places if p.name == name), name)
        for ax, metric, budget in zip(row, BUDGETS, ("smaller", "larger"), strict=True):
            effect = group[0].setting.min_effect
            ax.axhspan(-effect, effect, color=plots.GREY, alpha=0.15, lw=0)
            for k, arm in enumerate(arms):
                there = [p for p in group if arm in p.arms]
                cells = pd.DataFrame([p.gain(arm, metric) for p in there])
                at = [p.setting.clients_per_round * 1.06 ** (k - 1.5) for p in there]
                _draw_followed(ax, at, cells, arm_style(arm))
            ax.set(xscale="log", xticks=(5, 10, 20), xticklabels=("5", "10", "20"))
            ax.minorticks_off()
            ax.set_ylim(-FLOOR, FLOOR)
            ax.set_title(f"{base}\n{budget} budget", fontsize="small")
        row[0].set_ylabel("points above MD")
    figure.supxlabel("participants a round", fontsize="medium")
    _draw_legend(figure, arms)
    return figure


def _draw_followed(
    ax: Axes, at: list[float], cells: pd.DataFrame, arm_style: tuple[str, str]
) -> None:
    """Draw one arm's gains as a line; one below the axis is written at its edge."""
    inside = cells["gain"] > -FLOOR
    x, gain = np.array(at), cells["gain"].where(inside)
    ax.plot(x, gain, color=arm_style[0], ls=arm_style[1], lw=1, marker="o", ms=3.5)
    ax.vlines(x[inside], cells["low"][inside], cells["high"][inside], color=arm_style[0], lw=1)
    for where, value in zip(x[~inside], cells["gain"][~inside], strict=True):
        words = {
            "ha": "center",
            "va": "bottom",
            "fontsize": 8,
            "color": plots.text_colour(arm_style[0]),
        }
        ax.text(where, -FLOOR, f"{value:.0f}\n▾", **words)


def draw_learning_curves(places: Sequence[SettingResults], arms: Sequence[str] = LINES) -> Figure:
    """Draw mean learning curves over megabytes up to the larger budget, with 95 % bands over seeds: a panel per
    setting; dotted lines are the budgets."""
    figure, axes = plt.subplots(len(places), figsize=(4.2, 0.9 + 2.4 * len(places)), squeeze=False)
    for ax, place in zip(axes.flat, places, strict=False):
        budgets = place.setting.megabytes
        for budget in budgets:
            ax.axvline(budget, color=plots.GREY, lw=0.8, ls=":")
        for arm in arms:
            part = place.rows[place.rows["arm"] == arm]
            if len(part):
                _draw_curve(ax, part, budgets[-1], arm_style(arm))
        half = place.rows["megabytes"].between(budgets[0] / 4, budgets[0] / 2)
        low = (
            100
            * place.rows[half & (place.rows["arm"] == place.setting.reference)][
                "test_accuracy"
            ].mean()
        )
        ax.set(title=place.title, xlabel="megabytes, sent and received", ylabel="accuracy, %")
        ax.set(xlim=(budgets[0] / 4, budgets[-1]), ylim=(low, min(100, ax.get_ylim()[1])))
    there = [arm for arm in arms if any(arm in set(p.rows["arm"]) for p in places)]
    _draw_legend(figure, there)
    return figure


def _draw_legend(figure: Figure, arms: Sequence[str]) -> None:
    looks = zip(arms, map(arm_style, arms), strict=True)
    lines = [Line2D([], [], color=c, ls=d, lw=2, label=arm_label(a)) for a, (c, d) in looks]
    figure.legend(handles=lines, loc="outside upper center", ncols=2, frameon=False)


def _draw_curve(ax: Axes, part: pd.DataFrame, budget: float, arm_style: tuple[str, str]) -> None:
    """Draw one arm's mean over seeds, with its band where seeds are enough."""
    top = min(budget, part.groupby("seed")["megabytes"].max().min())
    at = np.linspace(0.02 * top, top, 100)
    each = np.array(
        [
            np.interp(at, run["megabytes"], 100 * run["test_accuracy"])
            for _, run in part.groupby("seed")
        ]
    )
    mean = each.mean(0)
    if len(each) >= plots.MIN_SEEDS_FOR_BAND:
        _, low, high = statistics.mean_band(each)
        ax.fill_between(at, low, high, color=arm_style[0], alpha=0.15, lw=0)
    ax.plot(at, mean, color=arm_style[0], ls=arm_style[1], lw=2)


def draw_rates(places: Sequence[SettingResults], arms: Sequence[str] = LINES) -> Figure:
    """Draw the accuracy at the larger budget on the seeds of tuning over the learning rate; a dot at each best rate."""
    figure, axes = plt.subplots(len(places), figsize=(4.2, 0.9 + 2.4 * len(places)), squeeze=False)
    for ax, place in zip(axes.flat, places, strict=False):
        for arm in arms:
            known = 100 * place.tried.loc[arm].dropna() if arm in place.tried.index else ()
            if len(known):
                shade, dash = arm_style(arm)
                ax.plot(known.index, known, color=shade, ls=dash, lw=1.5)
                ax.plot(known.idxmax(), known.max(), "o", ms=5, color=shade)
        ax.set(xscale="log", title=place.title, xlabel="learning rate", ylabel="accuracy, %")
    there = [arm for arm in arms if any(arm in p.tried.index for p in places)]
    _draw_legend(figure, there)
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


def draw_gain_over_error(panels: dict[str, pd.DataFrame], arms: Sequence[str] = FOLLOWED) -> Figure:
    """Draw gain over error of one round: a panel per kind of gain, a dot per design and setting.

    These arms have their colours, all others are grey; an empty panel says that nothing is recorded.
    """
    figure, axes = plt.subplots(len(panels), figsize=(4.2, 3.0 * len(panels) + 0.8), sharex=True)
    for ax, (title, cells) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        ax.set(title=title, xscale="log", ylabel="points above MD")
        ax.axhline(0, color=plots.BLACK, lw=0.8)
        ax.axvline(1, color=plots.BLACK, lw=0.8)
        for row in sorted(cells.itertuples(), key=lambda row: row.arm in arms):
            shade = arm_colour(row.arm) if row.arm in arms else plots.GREY
            ax.plot([row.error] * 2, [row.low, row.high], color=shade, lw=0.8, alpha=0.5)
            ax.plot(row.error, row.gain, "o", color=shade, ms=5, mfc=_marker_face(row.arm, shade))
        if not len(cells):
            ax.text(
                0.5, 0.5, "not recorded yet", transform=ax.transAxes, ha="center", color=plots.GREY
            )
    np.atleast_1d(axes)[-1].set_xlabel("error of one round (MD = 1)")
    names = {arm_label(arm): (arm_colour(arm), _marker_face(arm, arm_colour(arm))) for arm in arms}
    names["other designs"] = (plots.GREY, plots.GREY)
    dots = [
        Line2D([], [], marker="o", ls="", color=shade, mfc=face, label=name)
        for name, (shade, face) in names.items()
    ]
    figure.legend(handles=dots, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _marker_face(arm: str, shade: str) -> str:
    return "white" if arm == HOLLOW else shade
