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
    "b1": clusters.eq_44_50,
    "b2": clusters.eq_51_55,
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
    "cost1": clusters_algorithms.complexity_1,
    "proof3": clusters_algorithms.theorem_3_proof,
    "alg2": clusters_algorithms.algorithm_2_printed,
    "thm4": clusters_algorithms.theorem_4,
    "cost2": clusters_sentences.complexity_2,
}
WEIGHTS = {
    "fedavg": clusters.eq_3_biased,
    "md": clusters.md_unbiased,
    "abstract": clusters.representativity,
}
SENTENCES = {
    "times": clusters_algorithms.times_1,
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
VERSIONS = {  # of Algorithm 1, repairs added one after another: colour, mark, clients where named, how far right and up
    "as printed": (plots.WRITTEN, "o", 12, (6, -4)),
    "rows from 0": ("#777777", "s", 2, (-4, 9)),
    "and line 11": ("#B07400", "^", 4, (6, 3)),
    "all three": (plots.CORRECTED, "o", 12, (6, -3)),
}


def small_cases(federations: list) -> dict[str, int]:
    """For how many groupings Algorithm 2 is right as printed, and in how many of these federations Fig. 3
    loses a client a certain draw."""
    good, tried = clusters_algorithms.frequency_2()
    rows = [
        (n, m, clusters_algorithms.certain(clustered.counts_by_size(n, m))) for n, m in federations
    ]
    short = [any(c < m * k // sum(n) for c, k in zip(own, n, strict=True)) for n, m, own in rows]
    return {"good": good, "tried": tried, "lost": sum(short)}


def decided() -> tuple[dict[str, str], dict[str, Evidence]]:
    """The ledger's words for all claims of the page, with what was found (`NAME_ours`); and the evidence."""
    every = THEOREMS | WEIGHTS | SENTENCES | SLIDES
    found = {name: function(None) for name, function in every.items()}
    words = {name: each.verdict for name, each in found.items()}
    return words | {f"{name}_ours": str(each.ours) for name, each in found.items()}, found


def weights(sizes, md: tuple, one: tuple) -> pd.DataFrame:
    """Variances of the weights and chances to take part, client by client, MD beside Algorithm 1."""
    return pd.DataFrame(
        {
            "examples": [str(size) for size in sizes],
            "mean weight": map(str, one[0]),
            "variance, MD": map(str, np.diag(md[1])),
            "Algorithm 1": map(str, np.diag(one[1])),
            "takes part, MD": map(str, md[2]),
            "Algorithm 1 ": map(str, one[2]),
        }
    )


def steps(counts, average, printed, corrected) -> Figure:
    """The mean squared gradient over the number of local steps, between two rates."""
    figure, ax = plt.subplots(figsize=(4.2, 3.2))
    ax.loglog(counts, printed, "--", color=plots.WRITTEN, lw=2)
    ax.loglog(counts, corrected, "--", color=plots.CORRECTED, lw=2)
    ax.loglog(counts, average, "o-", color=plots.BLACK, ms=4)
    at = len(counts) // 2
    x = counts.iloc[at]
    low, high = {"ha": "right", "va": "top"}, {"ha": "left", "va": "bottom"}
    plots.annotate(ax, x, printed.iloc[at], "rate as written", plots.WRITTEN, -5, -5, **low)
    plots.annotate(ax, x, corrected.iloc[at], "corrected rate", plots.CORRECTED, 5, 5, **high)
    plots.annotate(ax, counts.iloc[-1], average.iloc[-1], "exact", plots.BLACK)
    ax.set(xlabel="local steps N (in (2N)³ rounds)", ylabel="mean squared gradient")
    ax.set_xlim(counts.iloc[0] / 1.5, 8 * counts.iloc[-1])  # room for the name
    ax.set_xticks(counts, [str(n) for n in counts])
    ax.minorticks_off()
    return figure


def printed(percent: dict[str, list[float]]) -> Figure:
    """How often Proposition 1 holds over the number of clients, a line per state of repair."""
    figure, ax = plt.subplots()
    clients = range(1, len(percent["all three"]) + 1)
    for name, values in percent.items():
        colour, mark, at, off = VERSIONS[name]
        ax.plot(clients, values, marker=mark, color=colour, ms=4, lw=1.6)
        plots.annotate(ax, at, values[at - 1], name, colour, *off)
    ax.set(xlabel="number of clients", ylabel="Proposition 1 holds (%)", ylim=(-5, 106))
    ax.set(xticks=clients[::2], xlim=(0.5, 1.4 * clients[-1]))  # room for the names
    return figure
