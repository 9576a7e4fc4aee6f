"""Privacy of one report: Lemma 5 (eq. 6.13), alpha = 0.1616, and the slides' Lemma 2."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pandas as pd

from companion.claims.evidence.sizes import ALPHA, CAP, ROUNDS, SUPPORTS
from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import theory

GRID = [(cap, e) for cap in range(3, 12) for e in range(2, 12)]  # M and exp(epsilon)


def eq_6_13(target, cap: int) -> Fraction:
    """Return the truth probability alpha of eq. 6.13 as printed, for exp(epsilon) = `target` and M = `cap`."""
    return Fraction(target - 1) / (target + cap - 2)


def format_ratio(ratio) -> str:
    """Format a ratio, which may be infinite."""
    return "∞" if ratio == math.inf else str(ratio)


def supports_table(cap: int = 4, target: int = 3) -> pd.DataFrame:
    """Tabulate the worst likelihood ratio of one report: by the range of fake sizes (rows) and of true sizes (columns)."""
    alpha, rows = eq_6_13(target, cap), []
    for name, support in SUPPORTS.items():
        rows.append(
            {
                "fake sizes": name,
                "sizes 1..M−1": format_ratio(
                    theory.report_ratio(alpha, support(cap), range(1, cap))
                ),
                "with empty clients": format_ratio(
                    theory.report_ratio(alpha, support(cap), range(cap))
                ),
                "clip at M": format_ratio(
                    theory.report_ratio(alpha, support(cap), range(1, cap + 1))
                ),
                "mean fake − M/2": str(
                    Fraction(sum(support(cap)), len(support(cap))) - Fraction(cap, 2)
                ),
            }
        )
    return pd.DataFrame(rows)


@claim(
    "preprint-lemma-2.4",
    paper="preprint",
    place="Lemma 2.4, eq. 11",
    kind="theory",
    statement="With α = (e^ε − 1)/(e^ε + M − 2) the report of a client's size is ε-locally "
    "differentially private, for any M.",
    printed="ε-LDP",
    chapter="04e_privacy#is-a-report-private",
    meaning="for one report",
    fact="report-is-private",
    order=470,
)
@claim(
    "journal-lemma-5",
    paper="journal",
    place="Lemma 5, eq. 6.13",
    kind="theory",
    statement="With α = (e^ε − 1)/(e^ε + M − 2) the report of a client's size is ε-locally "
    "differentially private, for any M.",
    printed="ε-LDP",
    chapter="04e_privacy#is-a-report-private",
    meaning="for one report",
    fact="report-is-private",
    core=True,
    order=360,
)
def lemma5(
    claim: Claim, *, supports: dict = SUPPORTS, smallest: int = 0, formula: Callable = eq_6_13
) -> Evidence:
    """Check Lemma 5 (preprint: Lemma 2.4), that alpha of eq. 6.13 gives epsilon-LDP.

    Args:
        supports: by name, the function that gives the range of the fake sizes for a cap M.
        smallest: the least size of a client; the largest is M - 1.
        formula: alpha, from exp(epsilon) and M.
    """
    table = supports_table()
    private = [
        theory.report_ratio(formula(e, cap), support(cap), range(smallest, cap)) <= e
        for cap, e in GRID
        for support in supports.values()
    ]
    tight = [theory.ldp_ratio(cap, formula(e, cap)) == e for cap, e in GRID]
    return Evidence(
        judge_theory(all(private), all(tight)),
        f"worst ratio = exp(ε) in {sum(tight)} of {len(tight)} pairs (M, exp ε)",
        note="If the fake size is uniform on 1..M−1, no client is empty (or sizes are clipped from below too), and one report is made; then with "
        "equality.",
        table=table,
    )


@claim(
    "preprint-alpha-0.1616",
    paper="preprint",
    place="Sec. 3.1",
    kind="number",
    statement="α = 0.1616 belongs to ε = 3 at M = 100.",
    printed=3,
    chapter="04e_privacy#is-a-report-private",
    meaning="is the ε of one report at this α",
    tolerance=0.001,
    order=180,
)
def alpha_for_three(claim: Claim, *, alpha: Fraction = ALPHA) -> Evidence:
    """Check whether alpha = 0.1616 keeps the ratio below e^3 at M = 100 and is eq. 6.13's alpha in four digits."""
    low, high = theory.truth_probability_bounds(3, CAP)
    ratio = theory.ldp_ratio(CAP, alpha)
    largest = theory.ldp_ratio(CAP, low)  # just below e^3
    rows = [
        {"α": f"{float(alpha):g} (printed)", "exp(ε)": str(ratio), "ε": f"{math.log(ratio):.6f}"},
        {"α": f"{float(low):.7f} (eq. 6.13)", "exp(ε)": f"{float(largest):.6f}", "ε": "3"},
    ]
    for name in ("0..M−1", "0..M"):
        other = theory.report_ratio(alpha, SUPPORTS[name](CAP), range(1, CAP))
        rows.append(
            {
                "α": f"{float(alpha):g}, fakes {name}",
                "exp(ε)": str(other),
                "ε": f"{math.log(other):.6f}",
            }
        )
    return Evidence(
        judge_theory(ratio <= largest and round(high, 4) == alpha),
        math.log(ratio),
        note="For one report, fakes uniform on 1..M−1 and no empty client.",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-total-is-private",
    paper="preprint",
    place="Sec. 2.5, before Definition 2.3",
    kind="theory",
    statement="The estimated total sample size ñ can achieve ε-local differential privacy.",
    printed="ñ achieves ε-LDP",
    chapter="04e_privacy#is-a-report-private",
    meaning="is the likelihood ratio of ñ",
    fact="total-is-private",
    order=140,
)
@claim(
    "journal-total-is-private",
    paper="journal",
    place="Sec. 6.4",
    kind="theory",
    statement="The estimated total sample size ñ satisfies ε-local differential privacy.",
    printed="ñ satisfies ε-LDP",
    chapter="04e_privacy#is-a-report-private",
    meaning="is the likelihood ratio of ñ",
    fact="total-is-private",
    order=240,
)
def total_is_private(claim: Claim, *, smallest: int = 0, formula: Callable = eq_6_13) -> Evidence:
    """Check the privacy of the total ñ if one client's size changes and the others' reports stay the same.

    `smallest` is the least size that a client may have.
    """
    rows, ratios, open_ends = [], [], []
    for cap, e in ((3, 2), (4, 3), (5, 2)):
        alpha = formula(e, cap)
        for others in ((1,), (2, 1), (2, 2, 1)):
            laws = {
                n: theory.size_estimator_exact([n, *others], cap, alpha, range(1, cap))
                for n in range(cap)
            }
            inside = theory.worst_ratio(laws[n] for n in range(1, cap))
            outside = theory.worst_ratio(laws.values())
            open_ends.append((inside if smallest else outside) <= e)
            ratios.append(inside <= e)
            rows.append(
                {
                    "M": cap,
                    "other sizes": str(others),
                    "exp(ε)": e,
                    "worst ratio of ñ": format_ratio(inside),
                    "with an empty client": format_ratio(outside),
                }
            )
    return Evidence(
        judge_theory(all(open_ends), all(ratios)),
        f"at most exp(ε) in {sum(ratios)} of {len(ratios)} cases without empty clients",
        note="As Lemma 5: one round, fakes on 1..M−1, no empty client. It is the report that is private; the server, which sees single reports, "
        "is covered by their ratio and not by the total's.",
        table=pd.DataFrame(rows),
    )


@claim(
    "slides-lemma-2-iff",
    paper="slides",
    place="Lemma 2",
    kind="theory",
    statement="FedSampling is ε-LDP if and only if α = (e^ε − 1)/(e^ε − 2 + M).",
    printed="i.f.f.",
    chapter="04e_privacy#is-a-report-private",
    meaning="where alpha is the value of the formula",
    order=30,
)
def slides_iff(claim: Claim, *, factors: tuple = (Fraction(1, 2), 1, 2)) -> Evidence:
    """Check the slides' equivalence, epsilon-LDP if and only if alpha equals the formula, at these multiples of the formula."""
    rows, cases = [], []  # of each case: private, alpha as the formula, alpha at most the formula
    for cap, e in ((4, 3), (5, 2), (100, 20)):
        alpha = eq_6_13(e, cap)
        for a in (factor * alpha for factor in factors):
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
                cases.append((ratio <= e, a == alpha, a <= alpha))
    return Evidence(
        judge_theory(all(private == equal for private, equal, _ in cases)),
        "alpha/2 is private too"
        if any(private and not equal for private, equal, _ in cases)
        else "as printed",
        note="If and only if α ≤ (e^ε − 1)/(e^ε + M − 2), for true and fake sizes in 1..M−1."
        if all(private == below for private, _, below in cases)
        else "",
        table=pd.DataFrame(rows),
    )


def second_formula(cap: int, a: Fraction) -> Fraction:
    """Return exp(epsilon) by the slides' second formula of Lemma 2."""
    return ((cap - 1) * a + 1) / (1 - a)


@claim(
    "slides-lemma-2-ratio",
    paper="slides",
    place="Lemma 2, second formula",
    kind="theory",
    statement="The largest likelihood ratio of a report is ((M−1)α + 1)/(1 − α).",
    printed="((M−1)α + 1)/(1−α)",
    chapter="04e_privacy#is-a-report-private",
    meaning="by the printed formula, where 3 is the largest ratio",
    slip=True,
    order=40,
)
def slides_ratio(claim: Claim, *, formula: Callable = second_formula) -> Evidence:
    """Compare the slides' second formula, exp(epsilon) = ((M-1) alpha + 1)/(1 - alpha), with their first and with the mechanism."""
    rows, agree, right = [], [], []
    for cap, e in ((4, 3), (5, 2), (100, 20)):
        a = eq_6_13(e, cap)
        printed, ours = formula(cap, a), ((cap - 2) * a + 1) / (1 - a)
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
                "exact, clip at M": format_ratio(clip),
            }
        )
    return Evidence(
        judge_theory(all(agree)),
        rows[0]["second formula"],
        note="exp(ε) = ((M−2)α + 1)/(1 − α), for sizes clipped at M−1." if all(right) else "",
        table=pd.DataFrame(rows),
    )


@claim(
    "slides-uniform-and-private",
    paper="slides",
    place="Conclusion",
    kind="superiority",
    statement="Data are exploited uniformly in a privacy-preserving way. (This row decides whether the "
    "response that the slides describe is private.)",
    printed="privacy-preserving",
    chapter="04e_privacy#is-a-report-private",
    meaning="is why the likelihood ratio of the response is infinite: a fake size is at most M−1",
    fact="clipped-response",
    order=120,
)
@claim(
    "slides-response-is-private",
    paper="slides",
    place="Privacy-Preserving Ratio Estimation",
    kind="theory",
    statement="The local response, with sizes clipped at M and fakes from M−1 values, is differentially "
    "private.",
    printed="Differentially private local response",
    chapter="04e_privacy#is-a-report-private",
    meaning="is why the likelihood ratio of the response is infinite: a fake size is at most M−1",
    fact="clipped-response",
    order=270,
)
def slides_clip(claim: Claim, *, below_cap: int = 0) -> Evidence:
    """Check the privacy of the slides' response: sizes clipped at M (less `below_cap`), fakes uniform on 1..M-1."""
    rows, ratios = [], []
    for cap, a in ((4, Fraction(2, 5)), (100, ALPHA)):
        at_m = theory.report_distribution(cap - below_cap, a, range(1, cap))
        below = theory.report_distribution(1, a, range(1, cap))
        ratios.append(theory.worst_ratio([at_m, below]))
        rows.append(
            {
                "M": cap,
                "α": str(a),
                "P(report M), size ≥ M": str(at_m.get(cap, 0)),
                "P(report M), smaller size": str(below.get(cap, 0)),
                "worst ratio": format_ratio(ratios[-1]),
                "clip at M−1": str(theory.ldp_ratio(cap, a)),
            }
        )
    return Evidence(
        judge_theory(max(ratios) < math.inf),
        "a report of M proves n ≥ M" if max(ratios) == math.inf else "every report may be a fake",
        note="Clip at M−1: then true and fake sizes share the values 1..M−1, and the ratio is that of Lemma 5.",
        table=pd.DataFrame(rows),
    )


def ratio_of_fresh_reports(cap: int, alpha: Fraction, reports: int) -> Fraction:
    """Return the worst likelihood ratio of several fresh reports of one client, over all sequences of them (small cases)."""
    laws = [theory.report_distribution(n, alpha, range(1, cap)) for n in range(1, cap)]
    sequences = product(range(1, cap), repeat=reports)
    worst = Fraction(1)
    for sequence in sequences:
        chances = [math.prod((law[r] for r in sequence), start=Fraction(1)) for law in laws]
        worst = max(worst, max(chances) / min(chances))
    return worst


def budget_table(counts=(1, 5, 10, 20, ROUNDS)) -> pd.DataFrame:
    """Tabulate total epsilon and the probability of learning the exact size over the number of fresh reports (M = 100, alpha = 0.1616)."""
    success, rows = theory.mode_attack(CAP, ALPHA, max(counts)), []
    for j in counts:
        pure = theory.composed_ratio(CAP, ALPHA, j)
        approximate = theory.composed_ratio(CAP, ALPHA, j, Fraction(1, 100_000))
        rows.append(
            {
                "fresh reports": j,
                "ε, pure": f"{math.log(pure):.3f}",
                "ε at δ = 10⁻⁵": f"{math.log(approximate):.3f}",
                "P(size is read off)": f"{float(success[j]):.5f}",
            }
        )
    return pd.DataFrame(rows)


@claim(
    "preprint-guarantee",
    paper="preprint",
    place="Sec. 3.1 and Fig. 3, caption",
    kind="number",
    statement="A training of 99 rounds with α = 0.1616 has a differential privacy guarantee of ε = 3.",
    printed=3,
    chapter="04e_privacy#what-do-99-rounds-cost",
    meaning="is the ε of a client that reports afresh in 99 rounds",
    fact="guarantee",
    core=True,
    order=200,
)
@claim(
    "preprint-conclusion-guarantee",
    paper="preprint",
    place="Conclusion",
    kind="superiority",
    statement="The private method keeps most of the accuracy while it ensures a privacy guarantee of ε "
    "= 3. (This row decides the guarantee alone.)",
    printed=3,
    chapter="04e_privacy#what-do-99-rounds-cost",
    meaning="is the ε of a client that reports afresh in 99 rounds",
    fact="guarantee",
    order=640,
)
def guarantee(claim: Claim, *, rounds: int = ROUNDS) -> Evidence:
    """Compute the epsilon of a whole training of 99 rounds with a fresh report of epsilon = 3 in each."""
    one = theory.ldp_ratio(CAP, ALPHA)
    all_rounds = theory.composed_ratio(CAP, ALPHA, rounds)
    exact = [ratio_of_fresh_reports(4, Fraction(2, 5), j) == 3**j for j in (1, 2, 3)]
    low, high = theory.busiest_bounds(rounds, 10, 100)
    epsilon = math.log(one)
    holds = math.log(all_rounds) <= 3
    return Evidence(
        judge_theory(holds and all(exact)),
        math.log(all_rounds),
        note=f"ε = {epsilon:.4f} is the price of one report; j fresh ones cost exactly jε: {rounds * epsilon:.0f} at worst, {rounds / 10 * epsilon:.1f} on "
        f"average, {low * epsilon:.0f} to {high * epsilon:.0f} for the busiest of 100 clients (uniform draws). One memoised report keeps ε.",
        table=budget_table(),
    )


@claim(
    "journal-sizes-remain-private",
    paper="journal",
    place="Sec. 6.4, after Lemma 5",
    kind="theory",
    statement="Client sizes remain private: adversaries cannot infer them.",
    printed="sizes remain private",
    chapter="04e_privacy#what-do-99-rounds-cost",
    meaning="is the chance to read a size off 20 fresh reports",
    order=250,
)
def sizes_remain_private(claim: Claim, *, rounds: int = ROUNDS) -> Evidence:
    """Check the sentence after Lemma 5, that nobody can infer a client's size, for a fresh report in each round."""
    attack = theory.mode_attack(CAP, ALPHA, ROUNDS)
    # The largest probability of reading one report correctly that epsilon-LDP with this ratio, about e^3, allows.
    bound = float(1 / (1 + (CAP - 2) / theory.ldp_ratio(CAP, ALPHA)))
    return Evidence(
        judge_theory(float(max(attack[: rounds + 1])) <= bound + 1e-12),
        float(attack[20]),
        note=f"One report is read correctly with probability {float(attack[1]):.3f} (blind: {float(attack[0]):.3f}), 20 fresh ones with "
        f"{float(attack[20]):.3f}, 99 with {float(attack[99]):.5f}; one memoised report stays at {float(attack[1]):.3f}.",
        table=budget_table(),
    )


def channels_table() -> pd.DataFrame:
    """Tabulate what a participant sends, and how well one message of each kind tells two clients apart."""
    p = Fraction(1, 10)
    empty = {n: {"w_t": (1 - p) ** n, "other": 1 - (1 - p) ** n} for n in (1, CAP - 1)}
    gradient = {x: {f"gradient {x}": Fraction(1)} for x in (0, 1)}
    report_ratio = theory.ldp_ratio(CAP, ALPHA)
    model_ratio = theory.worst_ratio(empty.values())
    gradient_ratio = theory.worst_ratio(gradient.values())
    rows = [
        ("size report, M = 100, α = 0.1616", "sizes 1 to 99", report_ratio),
        ("model came back unchanged, rate 1/10", "1 or 99 examples", model_ratio),
        ("gradient of (w − x)²/2 at w = 0", "one example, x = 0 or −1", gradient_ratio),
    ]
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


@claim(
    "preprint-privacy-protection",
    paper="preprint",
    place="Sec. 1",
    kind="superiority",
    statement="FedSTaS achieves privacy protection through local differential privacy.",
    printed="privacy protection",
    chapter="04e_privacy#what-else-leaves-a-client",
    meaning="in a round",
    fact="privacy-protection",
    order=80,
)
@claim(
    "journal-strong-privacy",
    paper="journal",
    place="Abstract",
    kind="superiority",
    statement="FedSTaS achieves strong privacy protection via differential privacy techniques.",
    printed="strong privacy protection",
    chapter="04e_privacy#what-else-leaves-a-client",
    meaning="in a round",
    fact="privacy-protection",
    order=50,
)
def what_is_protected(claim: Claim, *, table: pd.DataFrame | None = None) -> Evidence:
    """Check the privacy of clients' data, as the abstracts claim it, for every message (`channels_table`), not only the report."""
    table = channels_table() if table is None else table
    bounded = [row["ε of one message"] != "∞" for _, row in table.iterrows()]
    report = math.log(theory.ldp_ratio(CAP, ALPHA)) <= 3
    return Evidence(
        judge_theory(all(bounded) and report),
        "every message is bounded"
        if all(bounded)
        else "gradients and models leave a client in the clear",
        note="Only the size n_k is protected, and only within 1..M−1 and in one report; gradients, norms and models are released without noise.",
        table=table,
    )


def subsampling_table() -> pd.DataFrame:
    """Tabulate the privacy of two clients, one of which is drawn: if an observer sees the report alone, or its sender too (M = 4, alpha = 2/5)."""
    alpha, other = Fraction(2, 5), theory.report_distribution(2, Fraction(2, 5), range(1, 4))
    rows = []
    for y in range(1, 4):
        drawn = {n: theory.report_distribution(n, alpha, range(1, 4))[y] for n in (1, 3)}
        mixed = {n: (drawn[n] + other[y]) / 2 for n in (1, 3)}
        rows.append(
            {
                "report": y,
                "P, size 1, drawn": str(drawn[1]),
                "P, size 3, drawn": str(drawn[3]),
                "ratio": str(drawn[1] / drawn[3]),
                "P, size 1, drawn or not": str(mixed[1]),
                "P, size 3, drawn or not": str(mixed[3]),
                "ratio, drawn or not": str(mixed[1] / mixed[3]),
            }
        )
    return pd.DataFrame(rows)
