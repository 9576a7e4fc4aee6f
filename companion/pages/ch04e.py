"""Figures and tables of chapter 4e, *Privacy*."""

from __future__ import annotations

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from fedstas import privacy, theory

CLAIMS = {  # by the names of their evidence
    "lemma5": "journal, Lemma 5, eq. 6.13 (preprint, Lemma 2.4): a report is ε-LDP",
    "total_is_private": "journal, Section 6.4: the estimated total satisfies ε-LDP",
    "alpha_for_three": "preprint, Section 3.1: α = 0.1616 belongs to ε = 3, M = 100",
    "guarantee": "preprint, Section 3.1, Fig. 3, conclusion: a guarantee of ε = 3",
    "sizes_remain_private": "journal, after Lemma 5: adversaries cannot infer sizes",
    "what_is_protected": "preprint, Section 1, and journal, abstract: privacy of clients' data",
    "slides_iff": "slides, Lemma 2: ε-LDP if and only if α is as in eq. 6.13",
    "slides_ratio": "slides, Lemma 2: exp(ε) = ((M−1)α + 1)/(1 − α)",
    "slides_clip": "slides: sizes clipped at M, fakes from M−1 values, private",
}


def verdicts(decided: dict) -> pd.DataFrame:
    """The verdict of each claim, in words."""
    words = {"holds": "holds", "holds-if": "holds on a condition", "fails": "fails"}
    rows = [(claim, words[decided[name].verdict]) for name, claim in CLAIMS.items()]
    return pd.DataFrame(rows, columns=["claim", "verdict"])


def rounds(pure: float, soft: dict[int, float], attack: list, busiest: float) -> Figure:
    """What fresh reports cost: total epsilon above, the chance that the size is read off below."""
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.6), sharex=True)
    most = len(attack) - 1
    axes[0].plot([1, most], [pure, most * pure], color=plots.WRITTEN, lw=2)
    axes[0].plot(list(soft), list(soft.values()), color=plots.WRITTEN, lw=2, ls="--")
    axes[0].axhline(pure, color=plots.CORRECTED, lw=2)
    axes[1].plot(
        range(1, most + 1), [100 * float(x) for x in attack[1:]], color=plots.WRITTEN, lw=2
    )
    axes[1].axhline(100 * float(attack[1]), color=plots.CORRECTED, lw=2)
    plots.annotate(axes[0], 62, 225, "fresh reports", plots.WRITTEN, 0, ha="right")
    plots.annotate(axes[0], 70, 58, "with δ = 10⁻⁵", plots.WRITTEN, 0)
    plots.annotate(axes[0], 97, 15, "one report, remembered", plots.CORRECTED, 0, ha="right")
    plots.annotate(axes[1], 38, 90, "fresh reports", plots.WRITTEN, 0)
    plots.annotate(axes[1], 97, 23, "one report, remembered", plots.CORRECTED, 0, ha="right")
    marks = ((most / 10, "average", "#555555", "right"), (busiest, "busiest", "#555555", "left"))
    for ax, top in zip(axes, (most * pure, 100), strict=True):
        for x, words, colour, side in (*marks, (most, "as coded", plots.CODED, "center")):
            ax.axvline(x, color=colour, lw=1, ls=":")
            plots.annotate(ax, x, 1.1 * top, words, colour, 0, ha=side)
        ax.set(xlim=(0, 105), ylim=(0, 1.04 * top))
    axes[0].set_ylabel("total ε of a client's reports")
    axes[1].set(xlabel="reports of one client", ylabel="the size is read off (%)")
    return figure


def own(clients: int, m: int, rounds: int, size_cap: int, epsilon: float) -> pd.DataFrame:
    """What reports cost in a setting of the reader's: total epsilon, chance that a size is read off."""
    alpha = Fraction(privacy.truth_probability(epsilon, size_cap)).limit_denominator(10**4)
    low, high = theory.busiest_bounds(rounds, m, clients)
    average, busy = rounds * m / clients, round((low + high) / 2)
    attack = theory.mode_attack(size_cap, alpha, rounds)
    who = {
        "1, remembered": 1,
        f"{average:.1f}, average client": average,
        f"{low:.1f} to {high:.1f}, busiest": busy,
        f"{rounds}, as coded": rounds,
    }
    rows = [
        (
            words,
            f"{count * epsilon:.1f}",
            f"{100 * float(attack[round(count)]):.2f} % ({round(count)})",
        )
        for words, count in who.items()
    ]
    return pd.DataFrame(rows, columns=["reports", "total ε", "size is read off (after reports)"])


def costs(attack: list, soft: dict[int, float], pure: float) -> pd.DataFrame:
    """Exact costs by the number of fresh reports."""
    rows = [
        (
            j,
            f"{j * pure:.1f}",
            f"{soft[j]:.1f}",
            f"{100 * float(attack[j]):.{3 if j > 50 else 2}f} %",
        )
        for j in (1, 2, 5, 10, 20, 99)
    ]
    names = ["fresh reports", "total ε", "total ε with δ = 10⁻⁵", "the size is read off"]
    return pd.DataFrame(np.array(rows, dtype=object), columns=names)
