"""Chapter 10's figures and tables on what clients are asked, and on an average of the server's models."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import averaging, averaging_results, feature_errors, statistics
from companion.runs.averaging import ARMS, MODELS, REFERENCE, SETTINGS

# The features whose errors are drawn against the bytes of a client's answer, without noise.
DRAWN = (
    "last updates",
    "label counts",
    "16 signed sums",
    "64 signed sums",
    "output layer's gradient",
    "squeezed gradient",
)
SKETCH_ARM, PIVOTAL_ARM = "least variance, sketch", "local pivotal, sketch"
SIMILARITY_ARM = "clustered by similarity"
SEED_BYTES = 8  # what a client downloads to make w_0
NOTHING = 5  # bytes: where the axis, which is logarithmic, shows an answer of 0 bytes
STYLES = {
    name: plots.Style(colour, "-", "o")
    for name, colour in zip(feature_errors.SETTINGS, (*plots.DRAW_COLOURS, plots.GREY), strict=True)
}
MODEL_STYLES = {
    "raw": plots.Style(plots.GREY, "", "o"),
    "average": plots.Style(plots.BLACK, "", "o"),
}


def draw_error_by_bytes(summary: pd.DataFrame, m: int = 10) -> Figure:
    """Draw the error of one round against the bytes of a client's answer, a curve per setting.

    Args:
        summary: as `feature_errors.summarise` returns it.
        m: the number of participants.
    """
    rows = summary[(summary["m"] == m) & summary["features"].isin(DRAWN)]
    lines, styles = {}, {}
    for name, setting in feature_errors.SETTINGS.items():
        part = rows[rows["setting"] == name]
        if len(part):
            means = part.set_index(part["bytes_up"].clip(lower=NOTHING))["mean"].sort_index()
            lines[setting.title], styles[setting.title] = means, STYLES[name]

    def draw(ax: Axes, lines: dict[str, pd.Series]) -> None:
        """Draw the lines on logarithmic axes, on which an answer of 0 bytes has a place of its own."""
        ticks = {NOTHING: "0", 40: "40", 256: "256", 2_000: "2 k", 20_000: "20 k"}
        ax.set(xscale="log", yscale="log", xlim=(4, 100_000), ylim=(0.025, 1.1))
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
        ax.minorticks_off()
        # The axes get their size now, within which `plots.curves` finds places for the names.
        ax.figure.draw_without_rendering()
        limits = {"xlim": ax.get_xlim(), "ylabel": "error of one round (MD = 1)"}
        plots.curves(ax, lines, styles, band="bars", **limits)

    xlabel = "bytes that a client is asked for, once"
    return plots.panels(draw, {"": lines}, height=3.4, xlabel=xlabel)


def tabulate_errors(summary: pd.DataFrame, m: int = 10) -> pd.DataFrame:
    """Tabulate the mean error of one round: a row per kind of features, a column per setting, and the bytes of an
    answer where there are ten classes; arguments as for `draw_error_by_bytes`."""
    rows = summary[summary["m"] == m]
    table = rows.pivot(index="features", columns="setting", values="mean")
    names = [name for name in feature_errors.SETTINGS if name in table]
    order = [*feature_errors.FEATURES, feature_errors.ORACLE]
    table = table.loc[[name for name in order if name in table.index], names].map("{:.3g}".format)
    table.columns = [feature_errors.SETTINGS[name].title for name in names]
    sent = rows[rows["setting"] == names[0]].set_index("features")["bytes_up"]
    bytes_up = [f"{sent[name]:,.0f}" if sent[name] >= 0 else "–" for name in table.index]
    return table.assign(bytes=bytes_up).rename_axis("strata from").reset_index()


def _errors(summary: pd.DataFrame, m: int = 10) -> pd.DataFrame:
    """Return the mean errors with m participants: a row per setting, a column per kind of features."""
    return summary[summary["m"] == m].pivot(index="setting", columns="features", values="mean")


def compute_asking_numbers(summary: pd.DataFrame) -> dict[str, float]:
    """Compute the numbers of the section on what a client is asked, for `glue_values`."""
    errors = _errors(summary)
    many, disjoint = errors.loc["mnist-1000"], errors.loc["mnist"]
    worse = errors["64 signed sums"] / errors["squeezed gradient"] - 1
    last = errors["last updates"] / errors["squeezed gradient"]
    unlike = last.drop(["mnist-0.1", "cifar100-coarse"])
    answers = summary[(summary["setting"] == "mnist-1000") & (summary["m"] == 10)]
    sketch = answers.set_index("features")["bytes_up"]["64 signed sums"]
    return {
        "asked_mb": 1000 * (sketch + SEED_BYTES) / 1e6,
        "sketch_worse": 100 * worse.max(),
        "last_least": unlike.min(),
        "last_most": unlike.max(),
        "last_alike": 100 * (last["mnist-0.1"] - 1),
        "last_colour": 100 * (last["cifar100-coarse"] - 1),
        "labels_noisy": many["label counts, epsilon 0.1"],
        "labels_clear": many["label counts"],
        "client_noise": disjoint["64 signed sums, epsilon 10"],
        "client_clear": disjoint["64 signed sums"],
        "oracle_gain": 100 * (1 - many[feature_errors.ORACLE] / many["64 signed sums"]),
    }


def check_asking(summary: pd.DataFrame) -> dict[str, bool]:
    """Check what the section on asking says, by sentence: see chapter 10."""
    errors = _errors(summary)
    gradient, sketch = errors["squeezed gradient"], errors["64 signed sums"]
    updates = errors["last updates"] / gradient
    oracle = errors[feature_errors.ORACLE] / sketch
    client = errors["64 signed sums, epsilon 10"]
    alike = ["mnist-0.1", "mnist-1000", "cifar100-coarse"]
    answers = summary[summary["features"] == "squeezed gradient"].set_index("setting")["bytes_up"]
    return {
        "gradient": bool(answers.drop("cifar100-coarse").between(19_000, 21_000).all()),
        "sketch": bool((sketch < 1.12 * gradient).all()),
        "sketch in per cent": bool((sketch < 1.09 * gradient).all()),
        "labels": bool((errors["label counts"] < 1.05 * gradient).all()),
        "updates": bool((updates > 1).all() and (updates > 1.7).sum() == 4)
        and updates[["mnist-0.1", "cifar100-coarse"]].max() < 1.5,
        "examples": bool((errors["label counts, epsilon 1"] < 1.06 * gradient).all())
        and errors.loc["mnist-1000", "label counts, epsilon 0.1"] > 1.15 * gradient["mnist-1000"],
        "client": bool(((1 - client) < 0.62 * (1 - sketch)).all())
        and client["mnist-1000"] > 1 - 0.1 * (1 - sketch["mnist-1000"]),
        "oracle": bool((oracle[alike] < 0.95).all())
        and oracle["mnist"] > 0.97
        and oracle["mnist-1000"] < 0.9,
    }


def draw_differences(differences: pd.DataFrame, arm: str = SKETCH_ARM) -> Figure:
    """Draw by how many points of accuracy an arm is above MD sampling: a panel per budget, a row per setting.

    Two intervals a row: of the difference between the last models of both, and between averages of the models of both.

    Args:
        differences: as `averaging_results.differences` returns it.
        arm: of `averaging.ARMS`.
    """
    rows = differences[differences["arm"] == arm].assign(
        title=lambda frame: frame["setting"].map(lambda name: SETTINGS[name].title)
    )
    titles = [setting.title for setting in SETTINGS.values()]
    panels = {}
    for budget in averaging.WINDOWS:
        part = rows[rows["budget"] == budget]
        panels[f"before round {budget}"] = {
            model: part[part["model"] == model]
            .set_index("title")[["mean", "low", "high"]]
            .reindex(titles)
            for model in MODELS
        }
    figure = plots.panels(
        plots.intervals,
        panels,
        MODEL_STYLES,
        reference=0,
        height=1.7,
        xlabel="points above MD sampling (0)",
    )
    plots.legend(figure, MODEL_STYLES)
    return figure


def _at(table: pd.DataFrame, **keys) -> pd.Series:
    """Return the only row of a table with these values in these columns."""
    for column, value in keys.items():
        table = table[table[column] == value]
    (_, row), *others = table.iterrows()
    assert not others, keys
    return row


def compute_averaging_numbers(accuracies: pd.DataFrame) -> dict[str, float | str]:
    """Compute the numbers of chapter 10 on averaged models, for `glue_values`.

    Args:
        accuracies: as `averaging_results.accuracies` returns it.
    """
    own = averaging_results.gains_of_averaging(accuracies)
    to_md = averaging_results.differences(accuracies)
    to_md = to_md[to_md["model"] == "average"]

    def lead(setting: str, budget: int, arm: str = SKETCH_ARM) -> str:
        row = _at(to_md, setting=setting, budget=budget, arm=arm)
        return statistics.format_interval(row["mean"], row["low"], row["high"], "+.1f")

    def gain(setting: str, budget: int) -> float:
        return _at(own, setting=setting, budget=budget, arm=REFERENCE)["mean"]

    late = _at(to_md, setting="mnist", budget=300, arm=SKETCH_ARM)
    on_mnist = [name for name in SETTINGS if name.startswith("mnist")]
    gains = {
        f"averaged_md_{word}_{end}": choose(gain(name, budget) for name in on_mnist)
        for word, budget in (("early", 75), ("late", 300))
        for end, choose in (("least", min), ("most", max))
    }
    return gains | {
        "averaged_md_fashion_early": gain("fashion-mnist", 75),
        "averaged_md_fashion": gain("fashion-mnist", 300),
        "averaged_lead_early": lead("mnist", 75),
        "averaged_lead_late": statistics.format_interval(
            late["mean"], late["low"], late["high"], "+.2f"
        ),
        "averaged_lead_fashion": lead("fashion-mnist", 300),
        "averaged_pivotal_fashion": lead("fashion-mnist", 300, PIVOTAL_ARM),
        "averaged_similarity_fashion": lead("fashion-mnist", 300, SIMILARITY_ARM),
        "averaged_sketch_collapse": accuracies[
            (accuracies["setting"] == "fashion-mnist")
            & (accuracies["budget"] == 75)
            & (accuracies["model"] == "average")
            & (accuracies["arm"] == SKETCH_ARM)
        ]["accuracy"].min(),
    }


def check_averaging(accuracies: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of averaged models, by sentence."""
    own = averaging_results.gains_of_averaging(accuracies)
    to_md = averaging_results.differences(accuracies)
    averaged = to_md[to_md["model"] == "average"]
    sketch = averaged[averaged["arm"] == SKETCH_ARM].set_index(["setting", "budget"])
    raw = to_md[(to_md["model"] == "raw") & (to_md["arm"] == SKETCH_ARM)]
    raw = raw.set_index(["setting", "budget"])
    md = own[own["arm"] == REFERENCE]
    own_sketch = own[own["arm"] == SKETCH_ARM].set_index(["setting", "budget"])
    to_similarity = averaging_results.differences(accuracies, SIMILARITY_ARM)
    to_similarity = to_similarity[to_similarity["model"] == "average"]
    early, late = (sketch.xs(budget, level="budget") for budget in averaging.WINDOWS)
    on_mnist = [name for name in SETTINGS if name.startswith("mnist")]
    best_late = averaged[(averaged["budget"] == 300) & averaged["setting"].isin(on_mnist)]
    sketch_to_similarity = to_similarity[to_similarity["arm"] == SKETCH_ARM]
    fashion = averaged[(averaged["setting"] == "fashion-mnist") & (averaged["budget"] == 300)]
    fashion = fashion.set_index("arm")
    label_lead = fashion.loc["least variance, label counts"]
    md_gains = md[md["setting"].isin(on_mnist)].pivot(
        index="setting", columns="budget", values="mean"
    )
    return {
        "always": bool((md["low"] > 0).all()),
        "most": bool((sketch["mean"] < raw["mean"] / 2).all()),
        "early": bool((early.loc[on_mnist, "low"] > 0).all()),
        "late": bool(
            (late.loc[on_mnist, "mean"] < 0).all()
            and (late.loc[["mnist", "mnist-0.1"], "high"] < 0).all()
            and late.loc["mnist-equal", "high"] > 0
            and (late.loc[on_mnist, "low"] > -0.7).all()
        ),
        "half a point": bool(late.loc[on_mnist, "mean"].between(-0.5, 0).all()),
        "alike": bool((md_gains.idxmin() == "mnist-0.1").all()),
        "nobody": bool((best_late["low"] <= 0).all()),
        "fashion": bool(fashion.loc[SKETCH_ARM, "low"] < 0 < fashion.loc[SKETCH_ARM, "mean"]),
        "others": bool(
            fashion.loc[PIVOTAL_ARM, "low"] > 1
            and fashion.loc[SIMILARITY_ARM, "low"] > 1
            and label_lead["low"] > 0
            and fashion.loc["strata of label counts (Shen et al.)", "low"] < 0
        ),
        "steady": bool((own_sketch.loc[on_mnist, "mean"].abs() < 0.25).all()),
        "similarity": bool(
            (sketch_to_similarity["low"] <= 0).all() and (to_similarity["low"] <= 1).all()
        ),
    }


def tabulate_accuracies(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Tabulate mean accuracies in per cent with 95 % intervals: a row per setting and arm, a column per budget and
    model.

    Args:
        accuracies: as `averaging_results.accuracies` returns it.
    """
    rows = []
    for setting, place in SETTINGS.items():
        for arm in ARMS:
            row = {"setting": place.title, "design": arm}
            for budget in averaging.WINDOWS:
                for model in MODELS:
                    keys = {"setting": setting, "arm": arm, "budget": budget, "model": model}
                    part = accuracies
                    for key, value in keys.items():
                        part = part[part[key] == value]
                    interval = statistics.mean_interval(part["accuracy"])
                    text = statistics.format_plus_minus(*interval) if len(part) else "–"
                    row[f"{model}, round {budget}"] = text
            rows.append(row)
    return pd.DataFrame(rows)
