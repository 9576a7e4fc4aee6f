"""Chapter 10's figure and tables of the second comparison: averaged models, megabytes saved, headroom."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd
from IPython.display import Markdown
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import closed_form_heads, comparison, fine_tuning, statistics
from companion.runs.comparison import Setting
from companion.runs.records import Record
from fedstas.sim import partition

# What a design asks of clients besides the update of those who take part, by arm; for the rest nothing.
ASKED = {
    "least-variance": "64 numbers, once",
    "local-pivotal": "64 numbers, once",
    "least-variance, labels": "noisy label counts, once",
    "fedsts": "a gradient, every 10 rounds",
    "fedstas": "a gradient, every 10 rounds",
    "fedstas-unbiased": "a gradient, every 10 rounds",
    "power-of-choice": "losses of 2m clients, each round",
    "scaffold": "control variates, as large as a model",
    "all clients": "everybody takes part",
}
# The designs between which a reader chooses first, two that ask and two that ask for nothing.
SUMMARY = {
    "least-variance": plots.Style(plots.BLACK, "", "o"),
    "least-variance, labels": plots.Style(plots.CORRECTED, "", "s"),
    "clustered-similarity": plots.Style(plots.ORANGE, "", "^"),
    "fedavg": plots.Style(plots.GREY, "", "v"),
}
SHORT_TITLES = {
    "cifar10-features": "CIFAR-10, 0.1",
    "cifar100-coarse-features": "CIFAR-100, 0.1",
    "cifar10-features-0.01": "CIFAR-10, 0.01",
    "cifar10-features-1000": "CIFAR-10, N = 1,000",
    "newsgroups": "newsgroups",
    "shakespeare": "Shakespeare",
    "mnist": "MNIST, 0.01",
    "fashion-mnist": "Fashion-MNIST, 0.01",
}
LABELS = {
    "md": "MD sampling",
    "fedavg": "FedAvg",
    "clustered-similarity": "clustered by similarity",
    "hics-fl": "HiCS-FL",
    "least-variance": "least variance, sketch",
    "least-variance, updates": "least variance, last updates",
    "least-variance, labels": "least variance, label counts (ε = 1)",
    "local-pivotal": "local pivotal, sketch",
    "fedsts": "FedSTS, as written",
    "fedstas": "FedSTaS, as written",
    "fedstas-unbiased": "FedSTaS, corrected",
    "fedvarp": "FedVARP",
    "scaffold": "SCAFFOLD",
    "power-of-choice": "power of choice",
    "all clients": "all clients",
}


def load(settings: dict[str, Setting], recorded: list[Record]) -> pd.DataFrame:
    """Compute the outcomes of all settings whose reference is recorded: see `comparison.outcomes`."""
    tables = [comparison.outcomes(setting, recorded) for setting in settings.values()]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def select_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `SHOWN`, the settings of the figure and of the answer; `table` has a column setting."""
    return table[table["setting"].isin(SHOWN)]


def draw_summary(table: pd.DataFrame, settings: dict[str, Setting]) -> Figure:
    """Draw what a reader chooses between: for each setting the megabytes of four averaged designs, relative to MD's.

    Below a setting's name stands its headroom: by how many points all clients together are above MD after equal rounds.

    Args:
        table: as `comparison.outcomes` returns it, of the settings that are drawn.
        settings: by name.
    """
    averaged = table[table["model"] == "average"]
    gains = comparison.compare(averaged, "md")
    gains = gains[gains["outcome"] == "ratio"].set_index(["arm", "setting"])
    most = comparison.headroom(averaged, "md").groupby("setting")["headroom"].first()
    names = {
        name: f"{SHORT_TITLES[name]}\n{most[name]:.1f} points to win"
        for name in settings
        if name in set(averaged["setting"])
    }
    series, styles = {}, {}
    for arm, style in SUMMARY.items():
        rows = gains.loc[arm].reindex(list(names))
        means = rows[["mean", "low", "high"]].set_axis(list(names.values()))
        is_held = (rows["reached"] == rows["seeds"]).to_numpy()
        series[LABELS[arm]] = means.where(pd.Series(is_held, means.index), axis=0)
        series[f"{LABELS[arm]}, a lower bound"] = means.mask(
            pd.Series(is_held, means.index), axis=0
        )
        styles[LABELS[arm]] = style
        styles[f"{LABELS[arm]}, a lower bound"] = style._replace(hollow=True)
    figure = plots.panels(
        plots.intervals,
        {"": series},
        styles,
        reference=1,
        spread=0.66,
        height=0.55 * len(names),
        xlabel="megabytes to MD's accuracy (MD = 1)",
    )
    plots.legend(figure, {LABELS[arm]: style for arm, style in SUMMARY.items()}, columns=1)
    return figure


def compute_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean megabytes and examples of a run in equal rounds, relative to MD: a row per arm and setting.

    Args:
        table: as `comparison.outcomes` returns it.
    """
    averaged = table[table["model"] == "average"]
    means = averaged.groupby(["arm", "setting"])[["megabytes", "examples"]].mean()
    return means / means.loc["md"].reindex(means.index, level="setting")


def tabulate_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Tabulate what a run of each design sends and computes in equal rounds, relative to MD, over all settings of `table`.

    Args:
        table: as `comparison.outcomes` returns it.

    Returns:
        A row per arm, the cheapest first: what it asks for, and the smallest and the largest mean over a setting's seeds of
        the megabytes and of the examples of a run.
    """
    rows = []
    for arm, part in compute_costs(table).groupby(level="arm"):
        spans = {}
        for column in ("megabytes", "examples"):
            low, high = part[column].min(), part[column].max()
            ends = [f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in (low, high)]
            spans[f"{column} (MD = 1)"] = " to ".join(dict.fromkeys(ends))
        row = {"design": LABELS[str(arm)], "asks for": ASKED.get(str(arm), "nothing")}
        rows.append((part["megabytes"].max(), row | spans))
    return pd.DataFrame([row for _, row in sorted(rows, key=lambda pair: pair[0])])


def offer_downloads(tables: dict[str, pd.DataFrame]):
    """Return links under which the page itself holds tables, as files of comma-separated values, by the files' names."""
    links = []
    for name, table in tables.items():
        content = base64.b64encode(table.to_csv(index=False).encode()).decode()
        link = f'<a download="{name}" href="data:text/csv;base64,{content}">{name}</a>'
        links.append(f"{link}, {len(table):,d} rows")
    return Markdown("; ".join(links))  # as text, in the colours of the page


def tabulate_silence(gains: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the megabytes of averaged models relative to MD's, by how many of the drawn clients are silent.

    Args:
        gains: as `comparison.compare` returns them, against MD.
    """
    rows = gains[(gains["model"] == "average") & (gains["outcome"] == "ratio")]
    cells = {(row["setting"], row["arm"]): _format(row, ".2f") for _, row in rows.iterrows()}
    table = []
    for task in (BY_AUTHOR, FEATURES, "mnist"):
        silent = [f"{task}-silent-0.1", f"{task}-silent-0.3"]
        for arm in (RECOMMENDED, LABEL_COUNTS, SIMILARITY):
            if any((setting, arm) in cells for setting in silent):
                row = {"task": SHORT_TITLES[task], "design": LABELS[arm]}
                shares = zip(
                    ("everybody answers", "10 % silent", "30 % silent"),
                    [task, *silent],
                    strict=True,
                )
                table.append(row | {name: cells.get((key, arm), "–") for name, key in shares})
    return pd.DataFrame(table)


def make_anchor(setting: str, arm: str) -> str:
    """Return the HTML anchor of an arm's row in the table of all cells."""
    return re.sub(r"[^a-z0-9.]+", "-", f"saved {setting} {arm}".lower())


def tabulate_closed_form(
    heads: pd.DataFrame, table: pd.DataFrame, settings: dict[str, Setting]
) -> pd.DataFrame:
    """Tabulate heads in closed form beside averaged models: accuracy in per cent, and megabytes of a run.

    Args:
        heads: as `closed_form_heads.compute_outcomes` returns them.
        table: as `comparison.outcomes` returns it, of all settings.
        settings: by name.
    """

    def format_cell(accuracy: float, megabytes: float) -> str:
        digits = 0 if megabytes >= 10 else 1 if megabytes >= 0.1 else 2
        return f"{accuracy:.1f} %, {megabytes:,.{digits}f} MB"

    averaged = table[table["model"] == "average"]
    means = averaged.groupby(["setting", "arm"])[["large", "megabytes"]].mean()
    closed = heads.groupby(["setting", "head"])[["large", "megabytes", "within"]].mean()
    rows = []
    for name in [name for name in settings if name in set(heads["setting"])]:
        row = {"setting": SHORT_TITLES[name]}
        for arm in ("md", RECOMMENDED):
            row[LABELS[arm]] = format_cell(*means.loc[(name, arm)])
        for head in (closed_form_heads.MEANS, closed_form_heads.RIDGE):
            row[head] = format_cell(*closed.loc[(name, head), ["large", "megabytes"]])
        within = closed.loc[(name, closed_form_heads.RIDGE), "within"]
        row["ridge, within MD's megabytes"] = f"{within:.1f} %"
        rows.append(row)
    return pd.DataFrame(rows)


def tabulate(table: pd.DataFrame, settings: dict[str, Setting]) -> pd.DataFrame:
    """Tabulate the averaged models of all settings: a row per setting and arm, the most accurate first.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        settings: by name.
    """
    rows = []
    references = {settings[name].reference for name in table["setting"].unique()}
    (reference,) = references  # of all settings
    averaged = table[table["model"] == "average"]
    family = comparison.compare(averaged, reference)
    for name, part in averaged.groupby("setting", sort=False):
        gains = family[family["setting"] == name].set_index(["arm", "outcome"])
        shares = comparison.headroom(part, reference).set_index("arm")["share"]
        means = part.groupby("arm").agg(
            lr=("lr", "first"),
            schedule=("schedule", "first"),
            large=("large", "mean"),
            at_end=("at_end", "first"),
        )
        for arm, mean in means.sort_values("large", ascending=False).iterrows():
            row = {
                "setting": settings[name].title,
                "design": f'<a id="{make_anchor(str(name), str(arm))}"></a>{LABELS.get(str(arm), arm)}',
                "asks for": ASKED.get(str(arm), "nothing" if arm in LABELS else ""),
                "rate": f"{mean['lr']:g}{'†' if mean['at_end'] else ''}, {mean['schedule']}",
                "accuracy": f"{mean['large']:.1f}",
            }
            for outcome, form in (("small", "+.1f"), ("large", "+.1f"), ("ratio", ".2f")):
                cell = "–"
                if arm != reference:
                    gain = gains.loc[(arm, outcome)]
                    cell = statistics.format_interval(gain["mean"], gain["low"], gain["high"], form)
                    bound = outcome == "ratio" and gain["reached"] < gain["seeds"]
                    cell = f"≥ {cell}" if bound else cell
                row[
                    {
                        "small": "points, quarter budget",
                        "large": "points, budget",
                        "ratio": "bytes",
                    }[outcome]
                ] = cell
            p = float("nan")
            if arm != reference:
                gain = gains.loc[(arm, "ratio")]
                # A bound below 1 that is taken for a value has too small a p.
                is_saving_bound = gain["reached"] < gain["seeds"] and gain["mean"] < 1
                p = p if is_saving_bound else gain["holm"]
            row["p of bytes (Holm)"] = statistics.format_p(p)
            row["share of headroom"] = f"{shares[arm]:.2f}" if arm in shares else "–"
            rows.append(row)
    return pd.DataFrame(rows)


def list_missing(table: pd.DataFrame, settings: dict[str, Setting]) -> pd.DataFrame:
    """List, from the records themselves, the settings and how many of their runs of evaluation are recorded.

    Args:
        table: as `load` returns it.
        settings: by name.
    """
    counts = table[table["model"] == "average"].groupby("setting").size()
    rows = []
    for name, setting in settings.items():
        planned = len(setting.arms) * len(setting.evaluation_seeds)
        row = {"setting": setting.title, "clients a round": str(setting.clients_per_round)}
        rows.append(row | {"runs": planned, "recorded": int(counts.get(name, 0))})
    return pd.DataFrame(rows)


RECOMMENDED, SIMILARITY = "least-variance", "clustered-similarity"  # 64 numbers, and nothing
FEATURES, UNLIKE, TWENTY = "cifar10-features", "cifar10-features-0.01", "cifar100-coarse-features"
THOUSAND, BY_AUTHOR, BY_ROLE = "cifar10-features-1000", "newsgroups", "shakespeare"
NATURAL = (BY_AUTHOR, BY_ROLE)  # the settings of the reader's endpoint
SAVES, NO_SAVING = (UNLIKE, BY_AUTHOR), (FEATURES, TWENTY, THOUSAND, BY_ROLE)
GARMENTS = "fashion-mnist"
# The settings of the figure and of the answer: everybody answers in them, and they were not added last of all.
SHOWN = (*SAVES, *NO_SAVING, "mnist", GARMENTS)
FEW_SILENT, SILENT = "newsgroups-silent-0.1", "newsgroups-silent-0.3"
FEW_SILENT_DIGITS, SILENT_DIGITS = "mnist-silent-0.1", "mnist-silent-0.3"
FEW_SILENT_FEATURES, SILENT_FEATURES = "cifar10-features-silent-0.1", "cifar10-features-silent-0.3"
MANY, HUNDRED = "cifar10-features-m50", "cifar100-features"  # added last of all
LABEL_COUNTS = "least-variance, labels"
# Differences to MD that the text has, by key: setting, model, outcome, arm.
NUMBERS = {
    "cifar10_features_0_01_ratio": (UNLIKE, "average", "ratio", RECOMMENDED),
    "cifar10_features_0_01_points": (UNLIKE, "average", "large", RECOMMENDED),
    "cifar10_features_0_01_early": (UNLIKE, "average", "small", RECOMMENDED),
    "fashion_mnist_ratio": (GARMENTS, "average", "ratio", RECOMMENDED),
    "fashion_mnist_points": (GARMENTS, "average", "large", RECOMMENDED),
    "fashion_mnist_early": (GARMENTS, "average", "small", RECOMMENDED),
    "fashion_mnist_similarity": (GARMENTS, "average", "ratio", SIMILARITY),
    "mnist_ratio": ("mnist", "average", "ratio", RECOMMENDED),
    "mnist_early": ("mnist", "average", "small", RECOMMENDED),
    "newsgroups_ratio": (BY_AUTHOR, "average", "ratio", RECOMMENDED),
    "newsgroups_points": (BY_AUTHOR, "average", "large", RECOMMENDED),
    "newsgroups_labels": (BY_AUTHOR, "average", "large", LABEL_COUNTS),
    "newsgroups_hics": (BY_AUTHOR, "average", "large", "hics-fl"),
    "newsgroups_early": (BY_AUTHOR, "average", "small", RECOMMENDED),
    "newsgroups_early_fedvarp": (BY_AUTHOR, "average", "small", "fedvarp"),
    "shakespeare_early": (BY_ROLE, "average", "small", RECOMMENDED),
    "few_silent_ratio": (FEW_SILENT, "average", "ratio", RECOMMENDED),
    "few_silent_points": (FEW_SILENT, "average", "large", RECOMMENDED),
    "few_silent_labels": (FEW_SILENT, "average", "ratio", LABEL_COUNTS),
    "few_silent_similarity": (FEW_SILENT, "average", "ratio", SIMILARITY),
    "silent_ratio": (SILENT, "average", "ratio", RECOMMENDED),
    "silent_points": (SILENT, "average", "large", RECOMMENDED),
    "silent_labels": (SILENT, "average", "large", LABEL_COUNTS),
    "silent_similarity": (SILENT, "average", "large", SIMILARITY),
    "few_silent_digits": (FEW_SILENT_DIGITS, "average", "ratio", RECOMMENDED),
    "silent_digits": (SILENT_DIGITS, "average", "ratio", RECOMMENDED),
    "silent_digits_similarity": (SILENT_DIGITS, "average", "ratio", SIMILARITY),
    "silent_digits_points": (SILENT_DIGITS, "average", "large", RECOMMENDED),
    "few_silent_features": (FEW_SILENT_FEATURES, "average", "ratio", RECOMMENDED),
    "silent_features": (SILENT_FEATURES, "average", "ratio", RECOMMENDED),
    "many_ratio": (MANY, "average", "ratio", RECOMMENDED),
    "hundred_ratio": (HUNDRED, "average", "ratio", RECOMMENDED),
}
ENDPOINT = 0.8  # of the best rival's megabytes
COSTLY = ("fedsts", "fedstas", "fedstas-unbiased", "scaffold", "power-of-choice")


def _row(
    gains: pd.DataFrame, setting: str, model: str, outcome: str, arm: str = RECOMMENDED
) -> pd.Series:
    """Return the row of an arm in a setting, by default of the recommended design."""
    rows = gains[(gains["setting"] == setting) & (gains["arm"] == arm)]
    (_, row), *_ = rows[(rows["model"] == model) & (rows["outcome"] == outcome)].iterrows()
    return row


def _format(row: pd.Series, form: str) -> str:
    """Format a difference or a ratio with its interval, a ratio that is a bound as such."""
    text = statistics.format_interval(row["mean"], row["low"], row["high"], form)
    is_bound = row["outcome"] == "ratio" and row["reached"] < row["seeds"]
    return f"at least {text}" if is_bound else text


def compare_with_best_rival(table: pd.DataFrame, setting: str) -> tuple[str, pd.Series]:
    """Compare the megabytes of the recommended design with those of the best averaged rival that asks for nothing.

    A rival that misses the goal with some seeds is considered with its lower bound, which can only make it look cheaper.

    Args:
        table: as `comparison.outcomes` returns it.
        setting: of the table.

    Returns:
        The rival, the arm with the smallest geometric mean of ratios to MD, and the row of `comparison.compare`.
    """
    part = table[(table["setting"] == setting) & (table["model"] == "average")]
    seeds = part.groupby("arm")["seed"].transform("nunique")
    part = part[seeds == seeds.max()]  # others are still being run
    asks_nothing = [arm for arm in part["arm"].unique() if arm in LABELS and arm not in ASKED]
    ratios = part.assign(ratio=np.log(part["ratio"])).groupby("arm")["ratio"].mean()
    rival = str(ratios.loc[asks_nothing].idxmin())
    return rival, _row(comparison.compare(part, rival), setting, "average", "ratio")


def compute_average_gains(table: pd.DataFrame) -> pd.Series:
    """Compute by how many points MD's averaged model is above its last one at the end of the budget, by setting of `SHOWN`,
    from the smallest gain to the largest.

    Args:
        table: as `comparison.outcomes` returns it.
    """
    shown = select_shown(table)
    means = shown[shown["arm"] == "md"].groupby(["setting", "model"])["large"].mean()
    return (means.xs("average", level="model") - means.xs("raw", level="model")).sort_values()


def compute_rate_gain(setting: Setting, recorded: list[Record]) -> dict[str, float]:
    """Return MD's validation accuracy in per cent at the smallest rate of the grid, at 1 and at its best one, the first and
    the last of these rates, and the number of its runs."""
    curves = comparison.load_curves(setting, recorded, tuning=True)
    row = comparison.tabulate_tuning(setting, curves).loc["md"].dropna()
    schedule, rate = row.idxmax()
    return {
        "rate": float(rate),
        "rate_accuracy": 100 * float(row.max()),
        "rate_small": min(setting.rates),
        "rate_small_accuracy": 100 * float(row[schedule, min(setting.rates)]),
        "rate_one_accuracy": 100 * float(row.get((schedule, 1.0), math.nan)),
        "tuning_runs": int(curves.loc[curves["arm"] == "md", "run"].nunique()),
    }


def _average_designs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracies in % of averaged models after equal megabytes (large) and after equal rounds, by setting and arm
    other than all clients."""
    designs = table[(table["model"] == "average") & (table["arm"] != comparison.ALL_CLIENTS)]
    return designs.groupby(["setting", "arm"])[["large", "rounds"]].mean()


def _compute_best_designs(table: pd.DataFrame) -> pd.Series:
    """Return by setting the accuracy in % of the best averaged design, all clients aside, after equal megabytes or rounds."""
    return _average_designs(table).max(axis=1).groupby("setting").max()


def select_ratios(gains: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return an arm's megabytes relative to MD's, between averaged models with everybody answering: of what
    `comparison.compare` returns against MD, the rows by setting."""
    rows = select_shown(gains[(gains["arm"] == arm) & (gains["outcome"] == "ratio")])
    return rows[rows["model"] == "average"].set_index("setting")


def count_missed_classes(
    classes: int, concentration: float, seeds: Iterable[int] = range(5)
) -> float:
    """Compute how many classes no participant holds, expected in a round of MD sampling and averaged over partitions.

    Ten of a hundred clients take part, who hold 50,000 examples of as many in each class, dealt disjointly.

    Args:
        classes: how many there are.
        concentration: of the Dirichlet law that deals each class.
        seeds: of the partitions.
    """
    labels = np.repeat(np.arange(classes), 50_000 // classes)
    missed = []
    for seed in seeds:
        dealt = partition.make(
            "dirichlet", labels, concentration=concentration, clients=100, seed=seed
        )
        holders = dealt.sizes / dealt.sizes.sum() @ (dealt.label_counts > 0)
        missed.append(float(((1 - holders) ** 10).sum()))  # ten draws, each with these chances
    return float(np.mean(missed))


def compute_closed_form_numbers(heads: pd.DataFrame, table: pd.DataFrame) -> dict[str, float]:
    """Compute what chapter 10 says of heads in closed form, for `glue_values`; arguments as in `tabulate_closed_form`."""
    closed = heads.groupby(["setting", "head"])[["large", "megabytes", "budget"]].mean()
    best, at_equal_bytes = _compute_best_designs(table), _average_designs(table)["large"]
    at_equal_bytes = at_equal_bytes.groupby("setting").max()
    ridge, means = (
        closed.xs(head, level="head") for head in (closed_form_heads.RIDGE, closed_form_heads.MEANS)
    )
    times = ridge["megabytes"] / ridge["budget"]
    md = table[(table["model"] == "average") & (table["arm"] == "md")]
    return {
        "closed_ridge": ridge.loc[TWENTY, "large"],
        "closed_ridge_best": best[TWENTY],
        "closed_ridge_best_equal": at_equal_bytes[TWENTY],
        "closed_means_best_equal": at_equal_bytes[BY_AUTHOR],
        "closed_ridge_megabytes": ridge.loc[TWENTY, "megabytes"],
        "closed_ridge_budget": md[md["setting"] == TWENTY]["megabytes"].mean(),
        "closed_means": means.loc[BY_AUTHOR, "large"],
        "closed_means_lead": means.loc[BY_AUTHOR, "large"] - best[BY_AUTHOR],
        "closed_means_best": best[BY_AUTHOR],
        "closed_means_kilobytes": 1000 * means.loc[BY_AUTHOR, "megabytes"],
        "closed_ridge_author": ridge.loc[BY_AUTHOR, "large"],
        "closed_times_low": times.drop(BY_AUTHOR).min(),
        "closed_times_high": times.drop(BY_AUTHOR).max(),
    }


def check_closed_form(heads: pd.DataFrame, table: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of heads in closed form, by sentence; arguments as in `tabulate_closed_form`."""
    closed = heads.groupby(["setting", "head"])[["large", "megabytes", "budget", "within"]].mean()
    ridge, means = (
        closed.xs(head, level="head") for head in (closed_form_heads.RIDGE, closed_form_heads.MEANS)
    )
    arms = table[table["model"] == "average"].groupby(["setting", "arm"])[["large", "rounds"]]
    best = arms.mean().max(axis=1).groupby("setting").max()  # after equal megabytes or rounds
    images = [s for s in ridge.index if s != BY_AUTHOR]
    designs = _compute_best_designs(table)
    md = table[(table["model"] == "average") & (table["arm"] == "md")]
    md = md.groupby("setting")["large"].mean()
    means_of_designs, sent = _average_designs(table), compute_costs(table)["megabytes"]
    dear = {TWENTY: "scaffold", BY_AUTHOR: "power-of-choice"}  # the best design, after equal rounds
    return {
        "best after rounds": all(
            means_of_designs.loc[s].max(axis=1).idxmax() == arm
            and means_of_designs.loc[s].stack().idxmax() == (arm, "rounds")
            for s, arm in dear.items()
        )
        and bool(1.9 < sent[dear[TWENTY], TWENTY] < 2.2)
        and bool(1.4 < sent[dear[BY_AUTHOR], BY_AUTHOR] < 1.6),
        "closed form": len(images) == 4
        and all(ridge.loc[s, "large"] > best[s] for s in images)
        and bool(means.loc[BY_AUTHOR, "large"] > best[BY_AUTHOR]),
        "less than a point": all(0 < ridge.loc[s, "large"] - designs[s] < 1 for s in images),
        "means of images": all(means.loc[s, "large"] < md[s] - 5 for s in images),
        "ridge by author": bool(abs(ridge.loc[BY_AUTHOR, "large"] - md[BY_AUTHOR]) < 1),
        "cheap": all(means.loc[s, "megabytes"] < 0.1 * means.loc[s, "budget"] for s in means.index),
        "within": all(
            (ridge.loc[s, "within"] > best[s]) == (s in (TWENTY, THOUSAND)) for s in images
        ),
        "behind within": bool(ridge.loc[FEATURES, "within"] < md[FEATURES]),
    }


def compute_fine_tuning_numbers(tuned: pd.DataFrame) -> dict[str, str | float]:
    """Compute what chapter 10 says of MD that trains from a head, for `glue_values`.

    Args:
        tuned: as `fine_tuning.compute_outcomes` returns it.
    """
    numbers: dict[str, str | float] = {}
    for _, row in tuned[tuned["arm"] == "md"].iterrows():
        key = f"tuned_{row['setting'].replace('-', '_')}"
        for other in ("head", "best"):
            low, high = row[f"over_{other}_low"], row[f"over_{other}_high"]
            numbers[f"{key}_over_{other}"] = statistics.format_interval(
                row[f"over_{other}"], low, high, "+.1f"
            )
        numbers[f"{key}_validation"] = row["over_head_validation"]
        numbers[f"{key}_megabytes"] = row["megabytes_of_rounds"]
    return numbers


def check_fine_tuning(tuned: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of training from a head, by sentence; `tuned` as in `compute_fine_tuning_numbers`."""
    by_author = tuned[tuned["setting"] == BY_AUTHOR]
    images = tuned[tuned["setting"] != BY_AUTHOR]
    everything = set(fine_tuning.HEADS) == set(tuned["setting"])
    everything &= len(tuned) == len(fine_tuning.HEADS) * len(fine_tuning.ARMS)
    return {
        "tuned images": everything
        and bool((images["over_head_low"] > 0).all() and (images["over_head"] < 1).all()),
        "tuned best": everything and bool((images["over_best_low"] > 0).all()),
        "tuned author": everything
        and bool((by_author["over_head_high"] < 0).all())
        and bool((by_author["over_head_validation"] > 3).all()),
        "tuned level": everything
        and bool(((by_author["over_best_low"] < 0) & (by_author["over_best_high"] > 0)).all()),
    }


def get_rates(table: pd.DataFrame, setting: str) -> pd.Series:
    """Return the tuned learning rate of each arm of a setting; `table` as `comparison.outcomes` returns it."""
    return table[table["setting"] == setting].groupby("arm")["lr"].first()


def compute_numbers(table: pd.DataFrame, gains: pd.DataFrame) -> dict[str, str | float]:
    """Compute the numbers of chapter 10 on the second comparison, for `glue_values`.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        gains: as `comparison.compare` returns them, against MD.
    """
    numbers: dict[str, str | float] = {
        f"second_{key}": _format(
            _row(gains, setting, model, outcome, arm), ".2f" if outcome == "ratio" else "+.1f"
        )
        for key, (setting, model, outcome, arm) in NUMBERS.items()
    }
    is_ratio = gains["outcome"] == "ratio"
    ratios = gains[is_ratio & (gains["model"] == "average")]
    for setting in NATURAL:
        rival, row = compare_with_best_rival(table, setting)
        numbers |= {
            f"second_{setting}_rival": LABELS[rival],
            # both may be bounds, so that the quotient is none
            f"second_{setting}_rival_ratio": statistics.format_interval(
                row["mean"], row["low"], row["high"], ".2f"
            ),
        }
    planned = ratios[ratios["family"] == "planned"]
    same = planned[(planned["arm"] == RECOMMENDED) & planned["setting"].isin(NO_SAVING)]
    costly = planned[planned["arm"].isin(COSTLY)]
    numbers |= {
        "second_same_low": same["mean"].min(),
        "second_same_high": same["mean"].max(),
        "second_costly_low": costly["mean"].min(),
    }
    most = comparison.headroom(table, "md")
    most = most[(most["model"] == "average") & (most["arm"] == RECOMMENDED)]
    by_setting = most.set_index("setting")
    average = compute_average_gains(table)
    rates, garment_rates = get_rates(table, SILENT), get_rates(table, GARMENTS)
    unlike_rates = get_rates(table, UNLIKE)
    everybody = ratios[ratios["arm"] == comparison.ALL_CLIENTS].set_index("setting")["mean"]
    sent = compute_costs(table[table["family"] == "planned"])["megabytes"].drop(
        comparison.ALL_CLIENTS, level="arm"
    )
    asks_much = sent.index.isin(COSTLY, level="arm")
    return numbers | {
        "second_sent_little": sent[~asks_much].max(),
        "second_sent_low": sent[asks_much].min(),
        "second_sent_high": sent[asks_much].max(),
        "second_fashion_mnist_md_rate": garment_rates["md"],
        "second_fashion_mnist_rate": garment_rates[RECOMMENDED],
        "second_silent_labels_rate": rates[LABEL_COUNTS],
        "second_silent_md_rate": rates["md"],
        "second_silent_sketch_rate": rates[RECOMMENDED],
        "second_unlike_md_rate": unlike_rates["md"],
        "second_unlike_rate": unlike_rates[RECOMMENDED],
        "second_everybody_least": everybody[everybody.index.isin(SHOWN)].min(),
        "second_everybody_many": everybody[MANY],
        "second_unlike_p": float(_row(gains, UNLIKE, "average", "ratio")["holm"]),
        "second_author_share": 100 * by_setting.loc[BY_AUTHOR, "share"],
        "second_author_headroom": by_setting.loc[BY_AUTHOR, "headroom"],
        "second_average_least": average.iloc[4],  # of the four largest
        "second_average_most": average.iloc[-1],
    }


def check(table: pd.DataFrame, gains: pd.DataFrame) -> dict:
    """Check what chapter 10 says of the second comparison, by sentence; "largest gain", in points, and "largest saving", a share of MD's megabytes, are
    numbers.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        gains: as `comparison.compare` returns them, against MD.
    """

    def get(model: str, outcome: str, arm: str = RECOMMENDED) -> dict[str, pd.Series]:
        """Return an outcome of an arm against MD by setting, of those in which the arm is recorded."""
        return {
            setting: _row(gains, setting, model, outcome, arm)
            for setting in SHOWN
            if arm in set(gains.loc[gains["setting"] == setting, "arm"])
        }

    ratio, early = get("average", "ratio"), get("average", "small")
    similarity = get("average", "large", SIMILARITY)
    labels = get("average", "ratio", LABEL_COUNTS)
    similar = get("average", "ratio", SIMILARITY)
    hics = get("average", "large", "hics-fl")
    costly = {arm: get("average", "ratio", arm) for arm in COSTLY}
    most = comparison.headroom(table[table["model"] == "average"], "md")
    most = most[most["arm"] == RECOMMENDED].set_index("setting")
    rivals = {setting: compare_with_best_rival(table, setting) for setting in NATURAL}
    best_rivals = [_row(gains, s, "average", "ratio", rivals[s][0]) for s in NATURAL]
    silent_features = [
        _row(gains, setting, "average", "ratio")
        for setting in (FEW_SILENT_FEATURES, SILENT_FEATURES)
    ]
    few_silent_digits, silent_digits = (
        [_row(gains, setting, "average", "ratio", arm) for arm in (RECOMMENDED, LABEL_COUNTS)]
        for setting in (FEW_SILENT_DIGITS, SILENT_DIGITS)
    )
    silent = {
        arm: _row(gains, SILENT, "average", "large", arm)
        for arm in (RECOMMENDED, LABEL_COUNTS, SIMILARITY)
    }
    hundred = _row(gains, HUNDRED, "average", "ratio")
    many = {key: _row(gains, MANY, "average", key) for key in ("ratio", "rounds")}
    sent_by_many = table[table["setting"] == MANY].groupby("arm")["megabytes"].mean()
    rates, few_silent_rates = get_rates(table, SILENT), get_rates(table, FEW_SILENT)
    averaged = select_shown(table[table["model"] == "average"])
    seeds = {key: int(part["seed"].nunique()) for key, part in averaged.groupby("setting")}
    averaged_ratios = select_shown(
        gains[(gains["model"] == "average") & (gains["outcome"] == "ratio")]
    )
    everybody = get("average", "ratio", comparison.ALL_CLIENTS)
    by_author = {  # the sketch and its two rivals
        arm: [_row(gains, BY_AUTHOR, "average", outcome, arm) for outcome in ("ratio", "large")]
        for arm in (RECOMMENDED, LABEL_COUNTS, "hics-fl")
    }
    tuned = pd.DataFrame({s: get_rates(table, s)[["md", RECOMMENDED]] for s in SHOWN})
    average = compute_average_gains(table)
    at_end = gains[(gains["setting"] == FEATURES) & (gains["model"] == "average")]
    largest = float(at_end.loc[at_end["outcome"] == "large", "mean"].max())
    unlike, author, garments = ratio[UNLIKE], ratio[BY_AUTHOR], ratio[GARMENTS]
    few_silent = {arm: _row(gains, FEW_SILENT, "average", "ratio", arm) for arm in silent}
    return {
        "a third": bool(
            0.6 < garments["mean"] < 0.72
            and garments["high"] < 0.85
            and garments["reached"] == garments["seeds"]
        ),
        "a fifth": bool(
            0.75 < unlike["mean"] < 0.85
            and unlike["high"] < 1
            and unlike["reached"] == unlike["seeds"]
        ),
        "at most a tenth": bool(
            0.875 < author["mean"] < 0.925
            and author["high"] < 1
            and author["seeds"] - author["reached"] == 5
        ),
        "holm": all(ratio[s]["holm"] > 0.05 for s in (*SAVES, "mnist"))
        and bool(garments["holm"] < 0.01),
        "same": all(ratio[s]["low"] < 1 < ratio[s]["high"] for s in NO_SAVING),
        "largest gain": largest,
        "largest saving": 1 - float(averaged_ratios["mean"].min()),
        "labels": all(abs(np.log(labels[s]["mean"] / ratio[s]["mean"])) < 0.05 for s in ratio),
        "endpoint": all(row["mean"] > ENDPOINT for _, row in rivals.values()),
        "early": all(early[s]["low"] > 0 for s in (FEATURES, UNLIKE, BY_AUTHOR, "mnist")),
        "not early": all(early[s]["low"] < 0 < early[s]["high"] for s in (THOUSAND, GARMENTS)),
        "early rival": bool(
            get("average", "small", "fedvarp")[BY_AUTHOR]["low"] > early[BY_AUTHOR]["high"]
        ),
        "role early": bool(early[BY_ROLE]["high"] < 0),
        "headroom": bool(most.loc[THOUSAND, "headroom"] < 0.5),
        "nearly all": bool(most.loc[UNLIKE, "share"] > 0.9),
        "nothing": len(similarity) == 8
        and all(abs(row["mean"]) < 0.5 for s, row in similarity.items() if s != GARMENTS),
        "a quarter": bool(0.7 < similar[GARMENTS]["mean"] < 0.85 and similar[GARMENTS]["high"] < 1)
        and all(row["low"] < 1 < row["high"] for s, row in similar.items() if s != GARMENTS),
        "hics": all(-34.5 < hics[s]["mean"] < -6.5 for s in (UNLIKE, GARMENTS, "mnist"))
        and bool(hics[BY_AUTHOR]["low"] > 0)
        and len(hics) == 8
        and all(row["high"] < 0 for s, row in hics.items() if s != BY_AUTHOR),
        "costly": all(
            len(rows) == 5 and all(row["low"] > 1 for row in rows.values())
            for rows in costly.values()
        ),
        "average": bool(average.iloc[3] < 1 and average.iloc[4] > 2 and len(average) == 8),
        "bounds": all(ratio[s]["reached"] < ratio[s]["seeds"] for s in NO_SAVING),
        "rough": all(ratio[s]["reached"] < ratio[s]["seeds"] for s in NATURAL)
        and all(row["reached"] < row["seeds"] for row in best_rivals),
        "others bound": all(row["reached"] < row["seeds"] for row, _ in by_author.values()),
        "others ahead": all(row["low"] > 0 for _, row in by_author.values()),
        "rates above one": int((tuned.loc["md"] > 1).sum()) == 6,
        "same rates": int((tuned.loc["md"] == tuned.loc[RECOMMENDED]).sum()) == 5,
        "everybody": all(row["mean"] > 2.5 for row in everybody.values()),
        "few silent": all(
            0.85 < row["mean"] < 0.95 and row["high"] < 1 for row in few_silent.values()
        )
        and bool(few_silent_rates["md"] == few_silent_rates[RECOMMENDED])
        and bool(_row(gains, FEW_SILENT, "average", "large")["low"] > 0),
        "silent": bool(
            silent[RECOMMENDED]["low"] > 0
            and all(
                -4 < silent[arm]["mean"] < silent[arm]["high"] < -2
                for arm in silent
                if arm != RECOMMENDED
            )
        ),
        "silent digits": all(
            0.75 < row["mean"] < 0.85 and row["holm"] < 0.05 and row["reached"] == row["seeds"]
            for row in silent_digits
        )
        and all(row["high"] < 1 and row["holm"] > 0.05 for row in few_silent_digits)
        and len(set(get_rates(table, SILENT_DIGITS)[["md", RECOMMENDED, LABEL_COUNTS]])) == 1,
        "silent rates": bool(
            rates[LABEL_COUNTS] == rates[SIMILARITY] < rates["md"] < rates[RECOMMENDED]
        ),
        "silent features": all(row["low"] < 1 < row["high"] for row in silent_features),
        "many": bool(
            many["ratio"]["low"] > 1
            and many["rounds"]["low"] < 0 < many["rounds"]["high"]
            and sent_by_many[RECOMMENDED] > 1.1 * sent_by_many["md"]
        ),
        "hundred rates": bool((get_rates(table, HUNDRED) == 30).mean() > 0.5),
        "hundred": bool(hundred["low"] < 1 < hundred["high"]),
        "recorded": seeds == {s: 20 if s in (BY_AUTHOR, "mnist", GARMENTS) else 10 for s in SHOWN},
    }
