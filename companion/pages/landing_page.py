"""The start page, Findings and README: the figure that decides, and what their sentences assert of recorded runs.

`python -m companion.pages.landing_page book/chapters` draws the figure and stops at a sentence that does not hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from companion.pages import design_comparison, plots
from companion.runs import protocol, statistics, tables
from companion.runs.least_variance_results import LEAST_VARIANCE
from fedstas.errors import InputError

SHOWN_ARMS = (
    LEAST_VARIANCE,
    "clustered-similarity",
    "fedstas-unbiased",
    "fedstas",
    "fedavg",
    "all clients",
)
TITLES = {  # in plain words
    "mnist": "MNIST, clients unlike, sizes unequal",
    "mnist-equal": "MNIST, clients unlike, equal sizes",
    "fashion-mnist": "Fashion-MNIST, unlike, sizes unequal",
    "mnist-0.1": "MNIST, clients more alike",
}
SHOWN_SETTINGS = tuple(TITLES)
HALVES = ("start-1.svg", "start-2.svg")  # side by side where there is room
FIGURE_FILE = "start.png"  # README's
NOT_SURE = (
    "With equal sizes, colour images, or clients more alike, the lead is not sure; with 1,000 more alike it is a loss",
    "With equal sizes the lead is not sure",
)


def draw_figure(
    results: Sequence[design_comparison.SettingResults], limits: tuple[float, float] | None = None
) -> Figure:
    """Draw chapter 10's figure of gains with fewer designs; the settings have the same budgets."""
    budgets = [f"at {budget:g} MB" for budget in results[0].setting.megabytes]
    return design_comparison.draw_gains(results, SHOWN_ARMS, budgets, limits, TITLES)


def check_sentences(
    results: dict[str, design_comparison.SettingResults], folder: str | Path = "results"
) -> list[tuple[str, bool]]:
    """Check each phrase of the front pages: its words, and whether they hold."""
    grid = tables.load_sweep("preprint", folder)
    one, same = (grid.where(partition=p) for p in ("dirichlet", "dirichlet_fixed_size"))

    def compute_difference(frame, method: str, other: str = "md") -> tuple[float, float, float]:
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
    many = design_comparison.check_many_clients(results[design_comparison.MANY])
    unsure = [
        results[name].gain(LEAST_VARIANCE, "small")["low"]
        for name in (design_comparison.EQUAL, design_comparison.ALIKE, design_comparison.COLOUR)
    ]
    colour = design_comparison.check_colour_images(results[design_comparison.COLOUR])
    in_colour = results[design_comparison.COLOUR].gain(LEAST_VARIANCE, "large")
    small, large = (
        [results[n].gain(LEAST_VARIANCE, m) for n in design_comparison.UNLIKE]
        for m in design_comparison.BUDGETS
    )
    best = max(mnist.gain(arm, "large")["gain"] for arm in mnist.arms)
    garments = results[design_comparison.UNLIKE[1]].gain("fedstas-unbiased", "small")
    k_means = [mnist.gain("fedstas-unbiased", metric) for metric in design_comparison.BUDGETS]
    return [
        ("where sizes differ, FedSTaS as written ends", written[2] < 0),
        ("With equal sizes both averages agree, and it ends", equal[1] > 0),
        ("more than any tuned design adds", worth > max(best, small[0]["gain"])),
        *((words, max(unsure) < 0) for words in NOT_SURE),
        ("with 1,000 more alike it is a loss", many["loss"]),
        ("more than half of these bytes", many["half"]),
        ("none surely leads MD", design_comparison.check_participants(results)["alike"]),
        ("clustered sampling by similarity leads at 980 MB", colour["late"]),
        ("least variance perhaps", in_colour["low"] < 0 < in_colour["gain"]),
        ("falls behind on Fashion-MNIST", design_comparison.check_participants(results)["loss"]),
        (
            "finding 9's leads at 240 MB are not sure",
            min(row["holm"] for row in small) > 0.05,
        ),
        ("while bytes are short", min(row["low"] for row in small) > mnist.setting.min_effect),
        ("Later little is left on MNIST", abs(large[0]["gain"]) < mnist.setting.min_effect),
        ("some on Fashion-MNIST", large[1]["low"] > mnist.setting.min_effect),
        ("At the paper's rate, 0.01, the corrected method gains", corrected[1] > 0),
        (
            "Tuned, and at equal megabytes, the same method loses on MNIST",
            k_means[1]["high"] < 0,
        ),
        ("and gains on Fashion-MNIST while bytes are short", garments["low"] > 1),
    ]


def main(folder: str | Path) -> None:
    """Draw the figure, whole and in halves; `InputError` names a sentence that does not hold."""
    results = design_comparison.load_results(protocol.read())
    if false_sentences := [words for words, holds in check_sentences(results) if not holds]:
        raise InputError(f"the front pages say what is not so: {'; '.join(false_sentences)}")
    plots.set_page_style()
    shown = [results[name] for name in SHOWN_SETTINGS if name in results]
    half, limits = (
        -(-len(shown) // 2),
        design_comparison.axis_limits(design_comparison.select_budget_gains(shown, SHOWN_ARMS)),
    )
    Path(folder).mkdir(exist_ok=True)
    for name, part in zip(HALVES, (shown[:half], shown[half:]), strict=True):
        draw_figure(part, limits).savefig(Path(folder) / name, metadata={"Date": None})
    white = {"facecolor": "white", "dpi": 200, "metadata": {"Software": None}}
    draw_figure(shown).savefig(Path(folder) / FIGURE_FILE, **white)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    main(parser.parse_args().folder)
