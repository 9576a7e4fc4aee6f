"""Privacy over a training: repeated reports, the guarantee of epsilon = 3, and what else leaves a client."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pandas as pd

from fedstas import theory
from fedstas.study.evidence import Claim, Evidence
from fedstas.study.evidence import theory as verdict
from fedstas.study.evidence.sizes import ALPHA, CAP, ROUNDS


def repeated(cap: int, alpha: Fraction, reports: int) -> Fraction:
    """The worst ratio of that many fresh reports, over all sequences of them (small cases)."""
    laws = [theory.report_distribution(n, alpha, range(1, cap)) for n in range(1, cap)]
    sequences = product(range(1, cap), repeat=reports)
    worst = Fraction(1)
    for sequence in sequences:
        chances = [math.prod((law[r] for r in sequence), start=Fraction(1)) for law in laws]
        worst = max(worst, max(chances) / min(chances))
    return worst


def budget_table(counts=(1, 5, 10, 20, ROUNDS)) -> pd.DataFrame:
    """Total epsilon and the chance of reading the size off, by the number of fresh reports (M = 100, alpha = 0.1616)."""
    attack, rows = theory.mode_attack(CAP, ALPHA, max(counts)), []
    for j in counts:
        pure = theory.composed_ratio(CAP, ALPHA, j)
        soft = theory.composed_ratio(CAP, ALPHA, j, Fraction(1, 100_000))
        rows.append(
            {
                "fresh reports": j,
                "ε, pure": f"{math.log(pure):.3f}",
                "ε at δ = 10⁻⁵": f"{math.log(soft):.3f}",
                "P(size is read off)": f"{float(attack[j]):.5f}",
            }
        )
    return pd.DataFrame(rows)


def guarantee(claim: Claim) -> Evidence:
    """The guarantee of epsilon = 3 for a training of 99 rounds."""
    one = theory.ldp_ratio(CAP, ALPHA)
    all_rounds = theory.composed_ratio(CAP, ALPHA, ROUNDS)
    exact = [repeated(4, Fraction(2, 5), j) == 3**j for j in (1, 2, 3)]
    low, high = theory.busiest_bounds(ROUNDS, 10, 100)
    epsilon = math.log(one)
    holds = math.log(all_rounds) <= 3
    return Evidence(
        verdict(holds and all(exact)),
        math.log(all_rounds),
        note=f"ε = {epsilon:.4f} is the price of one report; j fresh ones cost exactly jε: {ROUNDS * epsilon:.0f} at worst, {9.9 * epsilon:.1f} on "
        f"average, {low * epsilon:.0f} to {high * epsilon:.0f} for the busiest of 100 clients (uniform draws). One memoised report keeps ε.",
        table=budget_table(),
    )


def sizes_remain_private(claim: Claim) -> Evidence:
    """The sentence after Lemma 5: adversaries cannot infer a client's size."""
    attack = theory.mode_attack(CAP, ALPHA, ROUNDS)
    bound = float(1 / (1 + (CAP - 2) / theory.ldp_ratio(CAP, ALPHA)))  # what e^3 allows
    return Evidence(
        verdict(float(max(attack)) <= bound + 1e-12),
        float(attack[20]),
        note=f"One report is read correctly with probability {float(attack[1]):.3f} (blind: {float(attack[0]):.3f}), 20 fresh ones with "
        f"{float(attack[20]):.3f}, 99 with {float(attack[99]):.5f}; one memoised report stays at {float(attack[1]):.3f}.",
        table=budget_table(),
    )


def channels_table() -> pd.DataFrame:
    """What a participant sends, and how well one message tells two clients apart."""
    p = Fraction(1, 10)
    empty = {n: {"w_t": (1 - p) ** n, "other": 1 - (1 - p) ** n} for n in (1, CAP - 1)}
    gradient = {x: {f"gradient {x}": Fraction(1)} for x in (0, 1)}
    rows = [
        ("size report, M = 100, α = 0.1616", "sizes 1 to 99", theory.ldp_ratio(CAP, ALPHA)),
        ("model came back unchanged, rate 1/10", "1 or 99 examples", theory.worst_ratio(empty.values())),
        ("gradient of (w − x)²/2 at w = 0", "one example, x = 0 or −1", theory.worst_ratio(gradient.values())),
    ]  # fmt: skip
    return pd.DataFrame(
        [
            {
                "message": message,
                "between": between,
                "worst ratio": "∞" if ratio == math.inf else f"{float(ratio):.4g}",
                "ε of one message": "∞" if ratio == math.inf else f"{math.log(ratio):.2f}",
            }
            for message, between, ratio in rows
        ]
    )


def what_is_protected(claim: Claim) -> Evidence:
    """Privacy of clients' data, as abstracts and conclusions put it: every message, not the report alone."""
    table = channels_table()
    bounded = [row["ε of one message"] != "∞" for _, row in table.iterrows()]
    report = math.log(theory.ldp_ratio(CAP, ALPHA)) <= 3
    return Evidence(
        verdict(all(bounded) and report),
        "gradients and models leave a client in the clear",
        note="Only the size n_k is protected, and only within 1..M−1 and in one report; gradients, norms and models are released without noise.",
        table=table,
    )


def subsampling_table() -> pd.DataFrame:
    """Two clients, one drawn by lot: an observer of the report alone, and one who sees whose it is (M = 4, alpha = 2/5)."""
    alpha, other = Fraction(2, 5), theory.report_distribution(2, Fraction(2, 5), range(1, 4))
    rows = []
    for y in range(1, 4):
        mine = {n: theory.report_distribution(n, alpha, range(1, 4))[y] for n in (1, 3)}
        mixed = {n: (mine[n] + other[y]) / 2 for n in (1, 3)}
        rows.append(
            {
                "report": y,
                "P, size 1, drawn": str(mine[1]),
                "P, size 3, drawn": str(mine[3]),
                "ratio": str(mine[1] / mine[3]),
                "P, size 1, drawn or not": str(mixed[1]),
                "P, size 3, drawn or not": str(mixed[3]),
                "ratio, drawn or not": str(mixed[1] / mixed[3]),
            }
        )
    return pd.DataFrame(rows)
