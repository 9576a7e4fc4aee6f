"""Clustered sampling, the bounds: Lemma 5 and its proof, Theorems 1 and 2, and what Appendix A concludes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from math import expm1, log1p, sqrt

import numpy as np
import pandas as pd

from companion.claims.evidence.clusters import (
    EQUAL_GRADIENT_ROWS,
    EXAMPLE_GRADIENTS,
    MIXED_ROWS,
    cohort_means,
    schemes,
    shares,
)
from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import theory

# MD sampling of the four clients of EXAMPLE_GRADIENTS, two draws.
MD_ROWS = [[Fraction(1, 4)] * 4] * 2


def _gradients(n: int) -> list[tuple[int, ...]]:
    """List up to twelve assignments of scalar gradients to n clients, the first client's not negative."""
    return [g for g in product((-1, 0, 2), repeat=n) if g[0] >= 0][:12]


def _expectation(pairs) -> Fraction:
    """Return the expected value from pairs (value, probability)."""
    return sum((v * chance for v, chance in pairs), Fraction(0))


def _small_schemes() -> list:
    """List (sizes, rows) of the schemes that are small enough to enumerate all their cohorts quickly."""
    return [(n, rows) for n, rows, _, _ in schemes() if len(n) <= 3 and sum(n) <= 5]


@claim(
    "clustered-lemma-5",
    paper="clustered",
    place="Lemma 5, eq. 24-25",
    kind="theory",
    statement="The cohort's mean is unbiased, and its squared norm has the bound with 3/m (beta^2 |grad "
    "L|^2 + kappa^2).",
    printed="eq. 25",
    chapter="04g_clustered#do-the-bounds-of-theorems-1-and-2-hold",
    meaning="of the mean and of the bound, over all cohorts of small federations",
    order=360,
)
def lemma_5(claim: Claim, *, three: Fraction = Fraction(3)) -> Evidence:
    """Check eq. 24 and 25 by enumerating all cohorts; `three` is the constant 3 of eq. 25.

    For scalar gradients Assumption 3 holds with beta^2 = 1 and kappa = half the gradients' range.
    """
    checks = []
    for sizes, rows in _small_schemes():
        p = shares(sizes)
        for g in _gradients(len(p)):
            z = [x + Fraction(k, 2) for k, x in enumerate(g)]
            kappa2 = Fraction(max(g) - min(g), 2) ** 2
            means = cohort_means(rows, z)
            centre = sum((q * x for q, x in zip(p, g, strict=True)), Fraction(0))
            bound = three * sum(q * (a - b) ** 2 for q, a, b in zip(p, z, g, strict=True))
            bound += three * centre**2 + three / len(rows) * (centre**2 + kappa2)
            checks.append(_expectation(means) == sum(q * a for q, a in zip(p, z, strict=True)))
            checks.append(_expectation((v * v, c) for v, c in means) <= bound)
    note = "For MD and for every scheme that satisfies Proposition 1."
    return Evidence(
        judge_theory(all(checks)), f"{sum(checks)} of {len(checks)} exact checks", note=note
    )


def _example_table() -> pd.DataFrame:
    """Tabulate B, the variance of the cohort's mean gradient, of MD and of two clustered schemes of four clients."""
    rows_by_scheme = {
        "MD": MD_ROWS,
        "rows {1, 2}, {3, 4}": MIXED_ROWS,
        "rows {1, 3}, {2, 4}": EQUAL_GRADIENT_ROWS,
    }
    table = []
    for name, rows in rows_by_scheme.items():
        means = [
            sum((Fraction(q) * g for q, g in zip(row, EXAMPLE_GRADIENTS, strict=True)), Fraction(0))
            for row in rows
        ]
        table.append(
            {
                "gradients": ", ".join(map(str, EXAMPLE_GRADIENTS)),
                "scheme": name,
                "mean gradients of the rows": ", ".join(map(str, means)),
                "B": str(theory.variance_of_mean(rows, EXAMPLE_GRADIENTS)),
            }
        )
    return pd.DataFrame(table)


@claim(
    "clustered-eq-26",
    paper="clustered",
    place="App. A, eq. 26-41",
    kind="theory",
    statement="The bound in the proof has two parts: a drift term, and the variance of the cohort's "
    "mean gradient (eq. 32 and 40).",
    printed="eq. 32; eq. 40",
    chapter="04g_clustered#do-the-bounds-of-theorems-1-and-2-hold",
    meaning="of the terms of the proof, over all cohorts of small federations",
    order=790,
)
def eq_26_41(claim: Claim, *, formula: Callable = theory.variance_of_mean) -> Evidence:
    """Check the two terms of the proof by enumerating all cohorts: the drift term (eq. 28-29 and 35) and B (eq. 32, 40).

    `formula` gives B, the variance of the cohort's mean gradient, from the rows and the gradients.
    """
    checks = []
    for sizes, rows in _small_schemes():
        p, m = shares(sizes), len(rows)
        for g in _gradients(len(p)):
            drift = [Fraction(k + 1, 3) for k in range(len(p))]
            first = _expectation((v * v, c) for v, c in cohort_means(rows, drift))
            checks.append(first <= sum(q * d * d for q, d in zip(p, drift, strict=True)))
            centre = sum((q * x for q, x in zip(p, g, strict=True)), Fraction(0))
            second = _expectation(((v - centre) ** 2, c) for v, c in cohort_means(rows, g))
            squares = sum(q * x * x for q, x in zip(p, g, strict=True))
            rows_mean = [sum(q * x for q, x in zip(row, g, strict=True)) for row in rows]
            printed = squares / m - sum(x * x for x in rows_mean) / Fraction(m * m)
            checks.append(second == printed == formula(rows, g))
            checks.append(second <= squares / m)
    note = "B_MD (eq. 32) and B_Cl (eq. 40) are the variances of the cohort's mean gradient."
    return Evidence(
        judge_theory(all(checks)),
        f"{sum(checks)} of {len(checks)} exact checks",
        note=note,
        table=_example_table(),
    )


@cache
def _variance_cases() -> list:
    """List (rows, MD's rows, gradients, B_Cl, B_MD) of all small cases.

    B_Cl and B_MD are the variances of the cohort's mean gradient under the rows and under MD (eq. 40 and 32).
    """
    result = []
    for sizes, rows in _small_schemes():
        md = theory.md_rows(sizes, len(rows))
        for g in _gradients(len(sizes)):
            result.append(
                (rows, md, g, theory.variance_of_mean(rows, g), theory.variance_of_mean(md, g))
            )
    return result


def _have_equal_means(rows, g) -> bool:
    """Return whether all rows have the same mean gradient."""
    return len({sum(Fraction(q) * x for q, x in zip(row, g, strict=True)) for row in rows}) == 1


@claim(
    "clustered-eq-42",
    paper="clustered",
    place="App. A.2, eq. 42-43",
    kind="theory",
    statement="The gradient variance of clustered sampling is at most MD's; the two are equal if and "
    "only if the rows' mean gradients are equal.",
    printed="B_Cl ≤ B_MD",
    chapter="04g_clustered#when-is-nothing-gained",
    meaning="of B_Cl against B_MD, in small federations",
    order=760,
)
def eq_42_43(claim: Claim, *, pairs: list | None = None) -> Evidence:
    """Check that B_Cl <= B_MD, and that both are equal if and only if all rows have the same mean gradient."""
    checks = [
        b <= b_md and (b == b_md) == _have_equal_means(r, g)
        for r, _, g, b, b_md in pairs or _variance_cases()
    ]
    note = "Equality if and only if the mean gradients of all rows are equal."
    return Evidence(
        judge_theory(all(checks)),
        f"{sum(checks)} of {len(checks)} exact checks",
        note=note,
        table=_example_table(),
    )


@claim(
    "clustered-a2-equality",
    paper="clustered",
    place="App. A.2, end",
    kind="theory",
    statement="B_Cl = B_MD if and only if all clients have the same data distribution or the scheme is "
    "MD sampling.",
    printed="iff same data or MD",
    chapter="04g_clustered#when-is-nothing-gained",
    meaning="for clients whose gradients differ, and a scheme that is not MD's",
    order=740,
)
def a2_equality(claim: Claim, *, rows: list = MIXED_ROWS, pairs: list | None = None) -> Evidence:
    """Look for cases with B_Cl = B_MD although the clients' gradients differ and the scheme is not MD sampling.

    Args:
        rows: a scheme of four clients, shown as the example.
        pairs: the cases to search, as from `_variance_cases`.
    """
    b, b_md = (theory.variance_of_mean(r, EXAMPLE_GRADIENTS) for r in (rows, MD_ROWS))
    equality_is_claimed = len(set(EXAMPLE_GRADIENTS)) == 1 or rows == MD_ROWS
    checks = [(b == b_md) == equality_is_claimed]
    for case_rows, md_rows, gradients, case_b, case_b_md in pairs or _variance_cases():
        equality_is_claimed = len(set(gradients)) == 1 or case_rows == md_rows
        checks.append((case_b == case_b_md) == equality_is_claimed)
    note = "Equality if and only if all rows have the same mean gradient; equal data or MD are only sufficient."
    ours = f"B_Cl = {b} {'=' if b == b_md else '<'} B_MD"
    return Evidence(judge_theory(all(checks)), ours, note=note, table=_example_table())


@claim(
    "clustered-better-guarantees",
    paper="clustered",
    place="Sec. 3.1",
    kind="superiority",
    statement="The convergence guarantees of clustered sampling are better than those of MD sampling.",
    printed="better",
    chapter="04g_clustered#do-the-bounds-of-theorems-1-and-2-hold",
    meaning="by the term B of the bound",
    order=70,
)
def better_guarantees(claim: Claim, *, pairs: list | None = None) -> Evidence:
    """Check whether the term B of the bound is smaller than under MD.

    The two bounds differ in this term alone, until the proof's last step bounds B_Cl by B_MD.
    """
    pairs = list(pairs or _variance_cases())
    not_worse = [b <= b_md for _, _, _, b, b_md in pairs]
    better_or_md = [b < b_md or r == md for r, md, _, b, b_md in pairs]
    note = "Never worse: B_Cl <= B_MD; better if and only if the rows' mean gradients differ. Theorem 2 itself states MD's bound."
    worse = len(pairs) - sum(not_worse)
    ours = f"better or MD in {sum(better_or_md)} of {len(pairs)} cases, worse in {worse}"
    verdict = judge_theory(all(better_or_md), all(not_worse))
    return Evidence(verdict, ours, note=note, table=_example_table())


def average_squared_gradient(gradient_variance: float, steps: int, m: int, rounds: float) -> float:
    """Return (1/T) sum_{t=0..T} E theta_t^2 from theta_0 = 0, exactly, for losses (theta - c_i)^2/2 whose c_i have mean 0.

    The gradient at theta is theta. N local steps of rate eta = sqrt(m/(N T)) take a client from theta to
    rho theta + gamma c_i with rho = (1 - eta)^N and gamma = 1 - rho, so theta_t is an autoregression whose innovations
    have the variance gamma^2 B.

    Args:
        gradient_variance: B, the variance of the cohort's mean gradient.
        steps: N, the local steps of a round.
        m: the number of participants.
        rounds: T.
    """
    eta = sqrt(m / (steps * rounds))
    log_rho_squared = 2 * steps * log1p(-eta)
    gamma = -expm1(log_rho_squared / 2)
    stationary_variance = gamma * gradient_variance / (2 - gamma)  # gamma^2 B / (1 - rho^2)
    # E theta_t^2 = stationary_variance (1 - rho^(2t)); the geometric series of rho^(2t) over t = 0..T:
    series = expm1((rounds + 1) * log_rho_squared) / expm1(log_rho_squared)
    return stationary_variance * (rounds + 1 - series) / rounds


def printed_rate(steps: int, m: int, rounds: float) -> float:
    """Return 1/sqrt(mNT) + mN/T, the rate of eq. 5 and 11 with both hidden constants 1."""
    return 1 / sqrt(m * steps * rounds) + m * steps / rounds


def corrected_rate(steps: int, m: int, rounds: float) -> float:
    """Return sqrt(N/(mT)) + mN/T, the rate that follows from Lemma 5 if clients' gradients differ."""
    return sqrt(steps / (m * rounds)) + m * steps / rounds


STEPS = (1, 4, 16, 64, 256, 1024)  # numbers N of local steps that the table compares


def rates(rows, m: int = 2) -> pd.DataFrame:
    """Tabulate the average squared gradient over T = (mN)^3 rounds, and over the two rates, by the number N of steps.

    Two of the four clients have the gradient +1 at the optimum, two have -1; `rows` is their sampling scheme.
    """
    b = float(theory.variance_of_mean(rows, [2 * g - 1 for g in EXAMPLE_GRADIENTS]))
    lines = []
    for steps in STEPS:
        rounds = float((m * steps) ** 3)
        result = average_squared_gradient(b, steps, m, rounds)
        lines.append(
            {
                "N": steps,
                "T": rounds,
                "average": result,
                "over the printed rate": result / printed_rate(steps, m, rounds),
                "over the corrected rate": result / corrected_rate(steps, m, rounds),
            }
        )
    return pd.DataFrame(lines)


def _check_rate(rows, case: str, drift: float) -> Evidence:
    """Check whether the average squared gradient over the printed rate stays bounded as N grows, and as T grows for fixed N.

    Args:
        rows: the sampling scheme of the four clients.
        case: the case in which the printed rate does hold, for the note.
        drift: a factor of the average for fixed N (1 is the true value).
    """
    table = rates(rows)
    ratios = table["over the printed rate"].to_numpy()
    slope = 0.0  # of the ratio's logarithm over that of N
    if ratios.all():
        slope, _ = np.polyfit(np.log(table["N"]), np.log(ratios), 1)
    b = drift * float(theory.variance_of_mean(rows, [2 * g - 1 for g in EXAMPLE_GRADIENTS]))
    bounded_for_fixed_steps = all(
        average_squared_gradient(b, n, 2, t) <= n * printed_rate(n, 2, t)
        for n in (1, 16, 256)
        for t in (float((2 * n) ** k) for k in range(3, 7))
    )
    bounded_by_corrected = table["over the corrected rate"].max() <= 1
    zero_for_equal_gradients = rates(EQUAL_GRADIENT_ROWS)["average"].max() == 0
    bounded = bounded_for_fixed_steps and bounded_by_corrected and zero_for_equal_gradients
    formatted = table.map(lambda x: f"{x:.3g}")
    note = (
        f"With constants that may depend on the number N of local steps, or where {case}. "
        "Uniformly in N, the clients' differences add O(sqrt(N/(mT))), as Lemma 5 itself gives."
    )
    ours = f"average / printed rate grows as N^{slope:.2f}"
    return Evidence(judge_theory(slope < 0.1, bounded), ours, note=note, table=formatted)


@claim(
    "clustered-theorem-1",
    paper="clustered",
    place="Theorem 1, eq. 5",
    kind="theory",
    statement="Under MD sampling with local rate sqrt(m/(NT)) the mean squared gradient is "
    "O(1/sqrt(mNT)) + O(mN/T).",
    printed="O(1/√(mNT)) + O(mN/T)",
    chapter="04g_clustered#do-the-bounds-of-theorems-1-and-2-hold",
    meaning="on four quadratic clients; bounded would be N^0",
    order=380,
)
def theorem_1(claim: Claim, *, rows: list = MD_ROWS, drift: float = 1) -> Evidence:
    """Check the rate of MD sampling on four quadratic clients."""
    return _check_rate(rows, "all clients have one gradient", drift)


@claim(
    "clustered-theorem-2",
    paper="clustered",
    place="Theorem 2, eq. 11",
    kind="theory",
    statement="Every clustered sampling that satisfies Proposition 1 has MD's rate O(1/sqrt(mNT)) + "
    "O(mN/T).",
    printed="O(1/√(mNT)) + O(mN/T)",
    chapter="04g_clustered#do-the-bounds-of-theorems-1-and-2-hold",
    meaning="on four quadratic clients; bounded would be N^0",
    order=390,
)
def theorem_2(claim: Claim, *, rows: list = MIXED_ROWS, drift: float = 1) -> Evidence:
    """Check the rate of clustered sampling on four quadratic clients, with rows that mix both kinds of client."""
    return _check_rate(rows, "the clients of each row have one gradient", drift)
