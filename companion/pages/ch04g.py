"""Figures, tables and verdicts of chapter 4g, *Clustered sampling: do its theorems hold?*"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.claims.evidence import (
    clusters,
    clusters_algorithms,
    clusters_bounds,
    clusters_sentences,
    slides_sampling,
)
from companion.claims.registry import Evidence
from companion.pages import plots
from companion.pages.plots import AMBER, Style
from fedstas import clustered

THEOREMS = {  # by the page's names: the functions that decide them, in the order of its first table
    "prop1": clusters.proposition_1,
    "eq12": clusters.eq_12,
    "eq13": clusters.eq_13_14,
    "eq15": clusters.eq_15_16,
    "eq17": clusters.eq_17,
    "eq17eq": clusters.eq_17_equality,
    "eq18": clusters.eq_18_20,
    "eq21": clusters.eq_21_22,
    "eq23": clusters.eq_23,
    "eq23eq": clusters.eq_23_equality,
    "b1": clusters.variance_difference_per_client,
    "b2": clusters.absence_probability_per_client,
    "eq56": clusters.eq_56,
    "lemma5": clusters_bounds.lemma_5,
    "eq26": clusters_bounds.eq_26_41,
    "eq42": clusters_bounds.eq_42_43,
    "a2": clusters_bounds.a2_equality,
    "thm1": clusters_bounds.theorem_1,
    "thm2": clusters_bounds.theorem_2,
    "better": clusters_bounds.better_guarantees,
    "alg1": clusters_algorithms.algorithm_1_printed,
    "thm3": clusters_algorithms.theorem_3,
    "cost1": clusters_algorithms.algorithm_1_cost,
    "proof3": clusters_algorithms.theorem_3_proof,
    "alg2": clusters_algorithms.algorithm_2_printed,
    "thm4": clusters_algorithms.theorem_4,
    "cost2": clusters_sentences.algorithm_2_cost,
}
WEIGHTS = {
    "fedavg": clusters.eq_3_biased,
    "md": clusters.md_unbiased,
    "abstract": clusters.representativity,
}
SENTENCES = {
    "times": clusters_algorithms.most_draws_per_client,
    "heavy_clients": clusters_sentences.heavy_clients,
    "cut": clusters_algorithms.enough_groups,
    "zero": clusters_sentences.zero_updates,
    "further": clusters_sentences.further_variance,
    "extra": clusters_sentences.no_extra_messages,
    "sixty": clusters_sentences.distinct_clients,
    "thirty": clusters_sentences.repeated_clients,
    "digits": clusters_sentences.six_to_eight,
    "ten": clusters_sentences.ten_different,
    "same": clusters_sentences.equal_variances,
    "limits": clusters_sentences.dirichlet_limits,
}
SLIDES = {
    "uniform": slides_sampling.uniform_pair,
    "weighted": slides_sampling.weighted_pair,
    "fedopt": slides_sampling.fedopt_mean,
    "hard": slides_sampling.hard_to_be_uniform,
    "examples": slides_sampling.uniform_examples,
    "ratio": slides_sampling.fixed_ratio,
}
REPAIRS = {  # of Algorithm 1, one added after another: style, at how many clients it is named, how far right and up
    "as printed": (Style(plots.WRITTEN, marker="o"), 12, (6, -4)),
    "rows from 0": (Style("#777777", marker="s"), 2, (-4, 9)),
    "and line 11": (Style(AMBER, marker="^"), 4, (6, 3)),
    "all three": (Style(plots.CORRECTED, marker="o"), 12, (6, -3)),
}


def count_small_cases(federations: list) -> dict[str, int]:
    """Count the groupings for which Algorithm 2 is right as printed (`good` of `tried`), and the federations in which
    Fig. 3 loses a client a certain draw (`lost`).

    Args:
        federations: pairs of the clients' sizes and m.
    """
    good, tried = clusters_algorithms.count_valid_algorithm_2()
    lost = 0
    for sizes, m in federations:
        certain = clusters_algorithms.count_certain_rows(clustered.counts_by_size(sizes, m))
        entitled = [m * size // sum(sizes) for size in sizes]
        lost += any(count < due for count, due in zip(certain, entitled, strict=True))
    return {"good": good, "tried": tried, "lost": lost}


def decide_claims() -> tuple[dict[str, str], dict[str, Evidence]]:
    """Decide all claims of the page; return the verdicts with what was measured (`NAME_ours`), and the evidence."""
    functions = THEOREMS | WEIGHTS | SENTENCES | SLIDES
    evidence = {name: function(None) for name, function in functions.items()}
    verdicts = {name: result.verdict for name, result in evidence.items()}
    return verdicts | {
        f"{name}_ours": str(result.ours) for name, result in evidence.items()
    }, evidence


def tabulate_weights(sizes, md: tuple, algorithm_1: tuple) -> pd.DataFrame:
    """Return the variances of the weights and the chances to take part, a row for each client.

    Args:
        md, algorithm_1: of each design, mean weights, covariance of the weights, and chances to take part.
    """
    _, md_covariance, md_chances, *_ = md
    mean, covariance, chances, *_ = algorithm_1
    return pd.DataFrame(
        {
            "examples": [str(size) for size in sizes],
            "mean weight": map(str, mean),
            "variance, MD": map(str, np.diag(md_covariance)),
            "Algorithm 1": map(str, np.diag(covariance)),
            "takes part, MD": map(str, md_chances),
            # Algorithm 1's chances to take part. The space tells the column's name from that of its variances.
            "Algorithm 1 ": map(str, chances),
        }
    )


def draw_local_steps(
    counts: pd.Series, average: pd.Series, printed: pd.Series, corrected: pd.Series
) -> Figure:
    """Draw the mean squared gradient over the number of local steps, between the printed and the corrected rate.

    Args:
        counts: the numbers N of local steps, ascending.
        average: for each of them, the exact mean squared gradient over (2N)^3 rounds.
        printed, corrected: for each of them, the rate of Theorems 1 and 2 as printed and as corrected.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.2))
    lines = {"printed": printed, "corrected": corrected, "exact": average}
    lines = {name: pd.Series(np.asarray(values), counts) for name, values in lines.items()}
    styles = {
        "printed": Style(plots.WRITTEN, "--"),
        "corrected": Style(plots.CORRECTED, "--"),
        "exact": Style(plots.BLACK, marker="o"),
    }
    plots.curves(ax, lines, styles, names=False, xscale="log", yscale="log")
    middle = len(counts) // 2
    x = counts.iloc[middle]
    low, high = {"ha": "right", "va": "top"}, {"ha": "left", "va": "bottom"}
    plots.annotate(ax, x, printed.iloc[middle], "rate as written", plots.WRITTEN, -5, -5, **low)
    plots.annotate(ax, x, corrected.iloc[middle], "corrected rate", plots.CORRECTED, 5, 5, **high)
    plots.annotate(ax, counts.iloc[-1], average.iloc[-1], "exact", plots.BLACK)
    ax.set(xlabel="local steps N (in (2N)³ rounds)", ylabel="mean squared gradient")
    ax.set_xlim(counts.iloc[0] / 1.5, 1.2 * counts.iloc[-1])
    ax.set_xticks(counts, [str(n) for n in counts])
    ax.minorticks_off()
    return figure


def draw_repairs(percent: dict[str, list[float]]) -> Figure:
    """Draw how often Proposition 1 holds over the number of clients, a curve for each number of lines of Algorithm 1 that are
    corrected.

    Args:
        percent: by the names of REPAIRS, how often it holds (%) with 1, 2, ... clients.
    """
    figure, ax = plt.subplots()
    clients = range(1, len(percent["all three"]) + 1)
    lines = {name: pd.Series(values, clients) for name, values in percent.items()}
    styles = {name: style for name, (style, *_) in REPAIRS.items()}
    axis = {"xlabel": "number of clients", "ylabel": "Proposition 1 holds (%)"}
    plots.curves(ax, lines, styles, names=False, width=1.6, **axis)
    for name, (style, at, offset) in REPAIRS.items():
        plots.annotate(ax, at, lines[name][at], name, style.colour, *offset)
    ax.set(xticks=clients[::2], xlim=(0.5, clients[-1] + 0.5), ylim=(-5, 106))
    return figure
