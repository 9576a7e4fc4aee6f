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


def draw_costs(epsilon: float, relaxed: dict[int, float], attack: list, busiest: float) -> Figure:
    """Draw what fresh reports of its size cost a client, over their number: above the total epsilon, below the chance that the
    most frequent report is the true size.

    Args:
        epsilon: of one report.
        relaxed: total epsilon with delta = 1e-5, by the number of reports.
        attack: chance that the most frequent of j reports is the true size, j = 0, 1, ...
        busiest: reports of the busiest client.
    """
    figure, axes = plt.subplots(2, 1, figsize=(4.2, 5.6), sharex=True)
    most = len(attack) - 1
    axes[0].plot([1, most], [epsilon, most * epsilon], color=plots.WRITTEN, lw=2)
    axes[0].plot(list(relaxed), list(relaxed.values()), color=plots.WRITTEN, lw=2, ls="--")
    axes[0].axhline(epsilon, color=plots.CORRECTED, lw=2)
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
    for ax, top in zip(axes, (most * epsilon, 100), strict=True):
        for x, text, colour, side in (*marks, (most, "as coded", plots.CODED, "center")):
            ax.axvline(x, color=colour, lw=1, ls=":")
            plots.annotate(ax, x, 1.1 * top, text, colour, 0, ha=side)
        ax.set(xlim=(0, 105), ylim=(0, 1.04 * top))
    axes[0].set_ylabel("total ε of a client's reports")
    axes[1].set(xlabel="reports of one client", ylabel="the size is read off (%)")
    return figure


def tabulate_setting(
    clients: int, m: int, rounds: int, size_cap: int, epsilon: float
) -> pd.DataFrame:
    """Tabulate what randomised reports reveal of a client's size, by their number: the total epsilon, and the chance that
    the most frequent report is the true size, as an attacker guesses.

    The rows: one report, memoised and sent again in each round; fresh reports of an average client and of the one that
    takes part most often (its expected number, from a lower to an upper bound); a fresh report in each round, as the
    authors' code has it.

    Args:
        clients: N.
        m: clients that take part in a round.
        rounds: number of rounds.
        size_cap: M, from which sizes are clipped to M - 1.
        epsilon: of one report.
    """
    alpha = Fraction(privacy.truth_probability(epsilon, size_cap)).limit_denominator(10**4)
    low, high = theory.busiest_bounds(rounds, m, clients)
    average = rounds * m / clients
    attack = theory.mode_attack(size_cap, alpha, rounds)
    reports = {
        "1, remembered": (1, 1),
        f"{average:.1f}, average client": (average, average),
        f"{low:.1f} to {high:.1f}, busiest": (low, high),
        f"{rounds}, as coded": (rounds, rounds),
    }
    rows = []
    for name, (fewest, most) in reports.items():
        total = " to ".join(dict.fromkeys(f"{count * epsilon:.1f}" for count in (fewest, most)))
        count = round((fewest + most) / 2)
        rows.append((name, total, f"{100 * float(attack[count]):.2f} % ({count})"))
    return pd.DataFrame(rows, columns=["reports", "total ε", "size is read off (after reports)"])


def tabulate_costs(attack: list, relaxed: dict[int, float], epsilon: float) -> pd.DataFrame:
    """Tabulate what fresh reports of its size cost a client, by their number: total epsilon, and the chance that the most
    frequent report is the true size; arguments as of `draw_costs`."""
    rows = [
        (
            j,
            f"{j * epsilon:.1f}",
            f"{relaxed[j]:.1f}",
            f"{100 * float(attack[j]):.{3 if j > 50 else 2}f} %",
        )
        for j in (1, 2, 5, 10, 20, 99)
    ]
    names = ["fresh reports", "total ε", "total ε with δ = 10⁻⁵", "the size is read off"]
    return pd.DataFrame(np.array(rows, dtype=object), columns=names)
