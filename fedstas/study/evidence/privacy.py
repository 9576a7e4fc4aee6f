"""Privacy of one report: Lemma 5 (eq. 6.13), alpha = 0.1616, and the slides' Lemma 2."""

from __future__ import annotations

import math
from fractions import Fraction

import pandas as pd

from fedstas import theory
from fedstas.study.evidence import Claim, Evidence
from fedstas.study.evidence import theory as verdict
from fedstas.study.evidence.sizes import ALPHA, CAP, SUPPORTS

GRID = [(cap, e) for cap in range(3, 12) for e in range(2, 12)]  # M and exp(epsilon)


def eq_6_13(target, cap: int) -> Fraction:
    """alpha as printed, for exp(epsilon) = target."""
    return Fraction(target - 1) / (target + cap - 2)


def word(ratio) -> str:
    """A ratio as text."""
    return "∞" if ratio == math.inf else str(ratio)


def supports_table(cap: int = 4, target: int = 3) -> pd.DataFrame:
    """The worst likelihood ratio of one report, for every reading of the fakes and of who may answer."""
    alpha, rows = eq_6_13(target, cap), []
    for name, support in SUPPORTS.items():
        rows.append(
            {
                "fake sizes": name,
                "sizes 1..M−1": word(theory.report_ratio(alpha, support(cap), range(1, cap))),
                "with empty clients": word(theory.report_ratio(alpha, support(cap), range(cap))),
                "clip at M": word(theory.report_ratio(alpha, support(cap), range(1, cap + 1))),
                "mean fake − M/2": str(
                    Fraction(sum(support(cap)), len(support(cap))) - Fraction(cap, 2)
                ),
            }
        )
    return pd.DataFrame(rows)


def lemma5(claim: Claim) -> Evidence:
    """Lemma 5 (preprint: Lemma 2.4): alpha of eq. 6.13 gives epsilon-LDP."""
    table = supports_table()
    printed = [
        theory.report_ratio(eq_6_13(e, cap), support(cap), range(cap)) <= e
        for cap, e in GRID
        for support in SUPPORTS.values()
    ]
    tight = [theory.ldp_ratio(cap, eq_6_13(e, cap)) == e for cap, e in GRID]
    return Evidence(
        verdict(all(printed), all(tight)),
        f"worst ratio = exp(ε) in {sum(tight)} of {len(tight)} pairs (M, exp ε)",
        note="If the fake size is uniform on 1..M−1, no client is empty (or sizes are clipped from below too), and one report is made; then with "
        "equality.",
        table=table,
    )


def alpha_for_three(claim: Claim) -> Evidence:
    """alpha = 0.1616 for epsilon = 3 and M = 100: does the ratio stay below e^3, and is it the alpha in four digits?"""
    low, high = theory.truth_probability_bounds(3, CAP)
    ratio = theory.ldp_ratio(CAP, ALPHA)
    largest = theory.ldp_ratio(CAP, low)  # just below e^3
    rows = [
        {"α": "0.1616 (printed)", "exp(ε)": str(ratio), "ε": f"{math.log(ratio):.6f}"},
        {"α": f"{float(low):.7f} (eq. 6.13)", "exp(ε)": f"{float(largest):.6f}", "ε": "3"},
    ]
    for name in ("0..M−1", "0..M"):
        other = theory.report_ratio(ALPHA, SUPPORTS[name](CAP), range(1, CAP))
        rows.append(
            {"α": f"0.1616, fakes {name}", "exp(ε)": str(other), "ε": f"{math.log(other):.6f}"}
        )
    return Evidence(
        verdict(ratio <= largest and round(high, 4) == ALPHA),
        math.log(ratio),
        note="For one report, fakes uniform on 1..M−1 and no empty client.",
        table=pd.DataFrame(rows),
    )


def total_is_private(claim: Claim) -> Evidence:
    """The total ñ as the output: one client's size changes, the others' reports are what they are."""
    rows, ratios, open_ends = [], [], []
    for cap, e in ((3, 2), (4, 3), (5, 2)):
        alpha = eq_6_13(e, cap)
        for others in ((1,), (2, 1), (2, 2, 1)):
            laws = {
                n: theory.size_estimator_exact([n, *others], cap, alpha, range(1, cap))
                for n in range(cap)
            }
            inside = theory.worst_ratio(laws[n] for n in range(1, cap))
            open_ends.append(theory.worst_ratio(laws.values()))
            ratios.append(inside <= e)
            rows.append(
                {
                    "M": cap,
                    "other sizes": str(others),
                    "exp(ε)": e,
                    "worst ratio of ñ": word(inside),
                    "with an empty client": word(open_ends[-1]),
                }
            )
    return Evidence(
        verdict(all(ratios) and max(open_ends) <= 3, all(ratios)),
        f"at most exp(ε) in {sum(ratios)} of {len(ratios)} cases without empty clients",
        note="As Lemma 5: one round, fakes on 1..M−1, no empty client. It is the report that is private; the server, which sees single reports, "
        "is covered by their ratio and not by the total's.",
        table=pd.DataFrame(rows),
    )


def slides_iff(claim: Claim) -> Evidence:
    """The slides: epsilon-LDP if and only if alpha equals the formula."""
    rows, smaller = [], []
    for cap, e in ((4, 3), (5, 2), (100, 20)):
        alpha = eq_6_13(e, cap)
        for a in (alpha / 2, alpha, 2 * alpha):
            if a < 1:
                ratio = theory.ldp_ratio(cap, a)
                rows.append(
                    {
                        "M": cap,
                        "exp(ε)": e,
                        "α": str(a),
                        "worst ratio": str(ratio),
                        "ε-LDP": "yes" if ratio <= e else "no",
                        "α ≤ formula": "yes" if a <= alpha else "no",
                    }
                )
                smaller.append((ratio <= e, a == alpha, a <= alpha))
    return Evidence(
        verdict(all(private == equal for private, equal, _ in smaller)),
        "alpha/2 is private too",
        note="If and only if α ≤ (e^ε − 1)/(e^ε + M − 2), for true and fake sizes in 1..M−1."
        if all(private == below for private, _, below in smaller)
        else "",
        table=pd.DataFrame(rows),
    )


def slides_ratio(claim: Claim) -> Evidence:
    """The slides' second formula, exp(epsilon) = ((M-1) alpha + 1)/(1 - alpha), against the first and the mechanism."""
    rows, agree, right = [], [], []
    for cap, e in ((4, 3), (5, 2), (100, 20)):
        a = eq_6_13(e, cap)
        printed, ours = ((cap - 1) * a + 1) / (1 - a), ((cap - 2) * a + 1) / (1 - a)
        exact = theory.ldp_ratio(cap, a)
        clip = theory.report_ratio(a, range(1, cap), range(1, cap + 1))
        agree.append(printed in (exact, clip))
        right.append(ours == exact)
        rows.append(
            {
                "M": cap,
                "α (first formula)": str(a),
                "exp(ε) wanted": e,
                "second formula": str(printed),
                "exact, clip at M−1": str(exact),
                "exact, clip at M": word(clip),
            }
        )
    return Evidence(
        verdict(all(agree)),
        rows[0]["second formula"],
        note="exp(ε) = ((M−2)α + 1)/(1 − α), for sizes clipped at M−1." if all(right) else "",
        table=pd.DataFrame(rows),
    )


def slides_clip(claim: Claim) -> Evidence:
    """The slides' response: sizes clipped at M, fakes uniform on 1..M-1."""
    rows, ratios = [], []
    for cap, a in ((4, Fraction(2, 5)), (100, ALPHA)):
        at_m = theory.report_distribution(cap, a, range(1, cap))
        below = theory.report_distribution(1, a, range(1, cap))
        ratios.append(theory.worst_ratio([at_m, below]))
        rows.append(
            {
                "M": cap,
                "α": str(a),
                "P(report M), size ≥ M": str(at_m[cap]),
                "P(report M), smaller size": str(below.get(cap, 0)),
                "worst ratio": word(ratios[-1]),
                "clip at M−1": str(theory.ldp_ratio(cap, a)),
            }
        )
    return Evidence(
        verdict(max(ratios) < math.inf),
        "a report of M proves n ≥ M",
        note="Clip at M−1: then true and fake sizes share the values 1..M−1, and the ratio is that of Lemma 5.",
        table=pd.DataFrame(rows),
    )
