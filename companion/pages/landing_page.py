"""The start page, Findings and README: the figure that decides, and what their sentences assert of recorded runs.

`python -m companion.pages.landing_page book/chapters` draws the figure, writes chapter 10's tree of questions as JSON, and
stops at a sentence that does not hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import (
    ch05,
    decision_tree,
    design_comparison,
    last_models,
    plots,
    recorded_rates,
    saved_bytes,
)
from companion.pages.design_comparison import LEAST_VARIANCE
from companion.runs import closed_form_heads, comparison, one_rounds, protocol, statistics, tables
from companion.runs.least_variance_results import LEAST_VARIANCE_METHOD
from fedstas import partition, tasks
from fedstas.errors import InputError
from fedstas.sim.rng import stream

FIGURE_FILES = ("start.svg", "start.png")  # the start page's, and README's
ROUNDS_FILE = "start-rounds.svg"


def draw_class_counts(rounds: int, participants: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Draw cohorts by MD sampling from a hundred clients of digits, dealt at a concentration of 0.01.

    Returns:
        the examples of each class that all clients hold together, [C], and those that the cohort of each round holds,
        [rounds, C]; a client that is drawn twice counts twice.
    """
    labels = tasks.load("digits").train_y
    federation = partition.dirichlet(labels, 100, concentration=0.01, seed=0)
    counts = federation.label_counts[federation.with_data]
    omega = counts.sum(axis=1) / counts.sum()
    draws = stream(0, "start page, cohorts").multinomial(participants, omega, rounds)
    return counts.sum(axis=0), draws @ counts


def draw_rounds(all_clients: np.ndarray, cohorts: np.ndarray) -> Figure:
    """Draw what rounds see of the classes: a row for each round, a disc for each class, its area the class's share.

    Args:
        all_clients: examples of each class that all clients hold, [C].
        cohorts: those that the cohort of each round holds, [rounds, C].
    """
    rows = {"all clients": all_clients} | {
        f"round {t}": counts for t, counts in enumerate(cohorts, 1)
    }
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 0.34 * len(rows) + 0.75))
    for y, counts in enumerate(rows.values()):
        colour = plots.BLACK if y == 0 else plots.PINK
        for label, share in enumerate(counts / counts.sum()):
            if share > 0:
                ax.scatter(label, y, 700 * share, color=colour, lw=0)
            else:
                ax.scatter(label, y, 55, facecolor="none", edgecolor=plots.GREY, lw=1)
        missing = int((counts == 0).sum())
        text = f"{missing} missing" if missing else "none missing"
        ax.text(len(counts) - 0.3, y, text, va="center", fontsize=9)
    ax.set(xticks=range(len(all_clients)), yticks=range(len(rows)), yticklabels=list(rows))
    ax.set(xlim=(-0.6, len(all_clients) + 1.9), ylim=(len(rows) - 0.5, -0.6), xlabel="digit")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return figure


def load_heads(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Load the recorded heads in closed form, compared with MD; `outcomes` as `comparison.outcomes` has them."""
    return closed_form_heads.compute_outcomes(closed_form_heads.load(), outcomes, "md")


def draw_figure(outcomes: pd.DataFrame) -> Figure:
    """Draw chapter 10's summary; `outcomes` as `comparison.outcomes` has them, of all settings."""
    return saved_bytes.draw_summary(saved_bytes.select_shown(outcomes), comparison.read())


def check_sentences(
    results: dict[str, design_comparison.SettingResults],
    outcomes: pd.DataFrame,
    models: pd.DataFrame,
    folder: str | Path = "results",
) -> list[tuple[str, bool]]:
    """Check each phrase of the front pages: its words, and whether they hold.

    Args:
        results: of the first comparison, by setting.
        outcomes: of the second one, as `comparison.outcomes` returns them, of all settings.
        models: of the second one, as `last_models.compute` returns them.
        folder: of the recorded runs.
    """
    _, holds_last = last_models.summarise(models)
    missing = (draw_class_counts(2000)[1] == 0).sum(axis=1)
    grid = tables.load_sweep("preprint", folder)
    one, same = (grid.where(partition=p) for p in ("dirichlet", "dirichlet_fixed_size"))

    def compute_difference(frame, method: str, other: str = "md") -> statistics.Interval:
        """Return the mean difference of a method to another in points, with its 95 % interval."""
        wide = tables.pivot_seeds(frame, "test_accuracy")
        return statistics.mean_interval((wide[method] - wide[other]).dropna())

    written, equal, corrected = (
        compute_difference(one, "fedstas"),
        compute_difference(same, "fedstas"),
        compute_difference(one, "fedstas-unbiased"),
    )
    mnist = results["mnist"]
    rates = 100 * mnist.tried.loc["md"].dropna()
    worth = rates.max() - rates[0.01]
    best = max(mnist.gain(arm, "large")["gain"] for arm in mnist.arms)
    garments = results[design_comparison.UNLIKE[1]].gain("fedstas-unbiased", "small")
    k_means = mnist.gain("fedstas-unbiased", "large")
    gains, settings = comparison.compare(outcomes, "md"), comparison.read()
    second = saved_bytes.check(outcomes, gains)
    saves = second["a third"] and second["a fifth"] and second["at most a tenth"]
    heads = load_heads(outcomes)
    closed = saved_bytes.check_closed_form(heads, outcomes)
    numbers = saved_bytes.compute_closed_form_numbers(heads, outcomes)
    times = numbers["closed_times_high"]
    misses = 2.3 < missing.mean() < 2.8
    data, draws, weights = (
        compute_difference(one, *pair)
        for pair in (("fedstas", "fedsts"), ("fedsts", "strat"), ("strat", "md"))
    )
    same_as_written = compute_difference(same, "fedstas-unbiased", "fedstas")
    sent, seen = tables.relative_cost(one, "fedstas-unbiased", "md")
    sent_by_written, _ = tables.relative_cost(one, "fedstas", "md")
    corrected_on_equal = compute_difference(same, "fedstas-unbiased")
    # on Fashion-MNIST both keep their strata for ten rounds
    kept = tables.load_sweep("fashion-mnist", folder).frame
    of_written_kept, _ = tables.relative_cost(kept, "fedstas-unbiased", "fedstas")
    parts = ch05.name_parts(tables.load_sweep("ablation", folder).frame)
    by_norm = compute_difference(parts, "p by norm", "one stratum, p by size")
    one_round = one_rounds.load(folder).query("setting == 'mnist' and m == 10")
    errors = one_round.groupby("design")["error"].mean()
    asking, once = errors["fedstas-unbiased"], errors[LEAST_VARIANCE_METHOD]
    most_high = max(mnist.gain(arm, "large")["high"] for arm in mnist.arms)
    strata_early = mnist.gain(LEAST_VARIANCE, "small")
    held = gains[(gains["model"] == "average") & (gains["outcome"] == "ratio")]
    held = held[held["setting"].isin(saved_bytes.SHOWN)]
    bounds = held.assign(bound=held["reached"] < held["seeds"]).set_index("arm")["bound"]
    images = {name for name, setting in settings.items() if setting.family == "images"}
    return [
        ("a round misses two or three of the ten digits on average", misses),
        ("where sizes differ, FedSTaS as written ends", written.high < 0),
        (
            f"ends {corrected.mean:.1f} points above MD sampling on MNIST at the paper's learning rate where sizes differ",
            corrected.low > 0,
        ),
        (
            f"where sizes differ ({corrected.low:.1f} to {corrected.high:.1f}, a 95 % interval). For this it sends "
            f"{sent:.1f} times MD's bytes and processes {seen:.1f} times its examples. FedSTaS as written sends "
            f"{sent_by_written:.1f} times MD's bytes",
            corrected.low > 0,
        ),
        (
            "because it forms its strata in every round and not in every tenth",
            abs(of_written_kept - 1) < 0.01,
        ),
        (
            "With equal sizes corrected FedSTaS and FedSTaS as written are equally accurate, as far as 20 seeds can see, "
            "and both end above MD",
            same_as_written.low < 0 < same_as_written.high
            and min(equal.low, corrected_on_equal.low) > 0,
        ),
        (
            "Tuned, and at equal megabytes, the corrected method loses to MD on MNIST",
            k_means["high"] < 0,
        ),
        (
            "which costs more than a design saves in one run",
            held["mean"].min() > 0.5,  # while tuning costs a run for each rate
        ),
        (
            "About ten of these points are lost where clients are drawn from strata and all count alike",
            -10.5 < weights.mean < -9 and weights.high < 0,
        ),
        (
            "and five where a round trains on a sample of the data",
            -5.5 < data.mean < -4.5 and data.high < 0,
        ),
        (
            "The biased draw costs nothing there that 20 seeds can see",
            draws.low < 0 < draws.high,
        ),
        ("with correct weights and the paper's own draws it ends", by_norm.high < 0),
        ("Corrected FedSTaS leaves about as little there", 1 < asking / once < 1.2),
        (f"no interval reaches beyond {most_high:.1f}", best < most_high),
        ("least-variance strata do add", strata_early["low"] > best),
        (
            "FedAvg ran on five of the tasks, and its marks are all hollow",
            len(bounds["fedavg"]) == 5 and bool(bounds["fedavg"].all()),
        ),
        ("are corrected with each other alone", images == {"mnist", "fashion-mnist"}),
        (
            "the wrong one ends more than five points behind MD on the images",
            closed["means of images"],
        ),
        ("points and for less than a tenth of the bytes", closed["cheap"]),
        (
            f"Class means win on newsgroups, by {numbers['closed_means_lead']:.1f} points",
            numbers["closed_means_lead"] > 0,
        ),
        (
            "With equal sizes the average over clients is that over data, and FedSTaS ends",
            equal.low > 0,
        ),
        (
            "On MNIST tuning the learning rate is worth more than any choice of clients",
            worth > best,
        ),
        ("no choice of clients adds as much", worth > best),
        ("which costs nothing and adds up to", second["average"]),
        ("to MD at a constant rate", holds_last["constant"]),
        ("comes within a point of MD's average on all eight tasks", holds_last["within"]),
        ("is tuned for it, comes within a point of that", holds_last["within"]),
        ("the design leads MD by about as much as between averages", holds_last["as much"]),
        (
            "a third of the bytes on Fashion-MNIST, a fifth on CIFAR-10 features at concentration 0.01, about a tenth at "
            "most on newsgroups",
            saves,
        ),
        ("misses the yardstick that we set beforehand", second["endpoint"]),
        ("nothing that ten seeds can see on four", second["same"]),
        (
            "only that on Fashion-MNIST passes the correction",
            second["holm"],
        ),
        (
            "one round without training ends above a hundred rounds of every design",
            closed["closed form"],
        ),
        # The README cannot be filled in when the book is built, so its number is held here.
        (f"for up to {times:.1f} times the bytes of such a run", closed["closed form"]),
        ("by less than a point and for up to", closed["less than a point"]),
        ("is missed on both tasks whose clients are given by nature", second["endpoint"]),
        ("at the paper's learning rate, 0.01, the corrected method gains", corrected.low > 0),
        ("Tuned, and at equal megabytes, the same method loses on MNIST", k_means["high"] < 0),
        ("and gains on Fashion-MNIST while bytes are short", garments["low"] > 1),
    ]


def main(folder: str | Path) -> None:
    """Draw the figure, for the page and for README, and write the tree of questions; `InputError` names a sentence that
    does not hold."""
    results = design_comparison.load_results(protocol.read())
    settings, recorded = comparison.read(), comparison.load_runs()
    outcomes = saved_bytes.load(settings, recorded)
    models = last_models.compute(settings, recorded)
    sentences = check_sentences(results, outcomes, models)
    if false_sentences := [words for words, holds in sentences if not holds]:
        raise InputError(f"the front pages say what is not so: {'; '.join(false_sentences)}")
    plots.set_page_style()
    Path(folder).mkdir(exist_ok=True)
    page, readme = (Path(folder) / name for name in FIGURE_FILES)
    draw_figure(outcomes).savefig(page, metadata={"Date": None})
    rounds = draw_rounds(*draw_class_counts(6))
    rounds.savefig(Path(folder) / ROUNDS_FILE, metadata={"Date": None})
    white = {"facecolor": "white", "dpi": 200, "metadata": {"Software": None}}
    draw_figure(outcomes).savefig(readme, **white)
    gains = comparison.compare(outcomes, "md")
    tree = decision_tree.build(outcomes, gains, settings, recorded, load_heads(outcomes), models)
    (Path(folder) / decision_tree.FILE).write_text(decision_tree.as_json(tree), encoding="utf-8")
    plots.write_still(decision_tree.draw(tree), Path(folder) / "explorer-tree.png")
    rates = recorded_rates.load()
    (Path(folder) / recorded_rates.FILE).write_text(recorded_rates.as_json(rates), encoding="utf-8")
    plots.write_still(recorded_rates.draw(rates), Path(folder) / "explorer-rates.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    main(parser.parse_args().folder)
