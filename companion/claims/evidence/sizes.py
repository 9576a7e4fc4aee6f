"""The size estimator: eq. 5.7, Lemma 2 (eq. 6.8), and the slides' versions.

The server wants n* examples of a round's participants, whose total size is n. Each reports its size by randomised
response among 1..M - 1, truthfully with probability alpha. From the reports the server computes ñ, its estimate of n, and
each participant draws its examples at the rate n*/ñ.

Small cases are rational; the paper's scale (M = 100, alpha = 0.1616) comes from the distribution of the sum
of the reports, by convolution.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import privacy, theory

# The preprint's setting: truth probability, size cap (its M), participants (m), examples per client, rounds, and q.
ALPHA, CAP, PARTICIPANTS, SIZE, ROUNDS = Fraction("0.1616"), 100, 10, 600, 99
SAMPLING_RATIO = Fraction(1, 10)
SUPPORTS = {
    "1..M−1": lambda cap: range(1, cap),
    "0..M−1": lambda cap: range(cap),
    "1..M": lambda cap: range(1, cap + 1),
    "0..M": lambda cap: range(cap + 1),
}
ALPHAS = (Fraction(1, 4), Fraction(2, 5), Fraction(1, 2), Fraction(9, 10))


# The ranges of the fake sizes, and the true sizes of two participants, of which the second pair is clipped.
ESTIMATOR_CASES = (SUPPORTS, ((1, 3), (1, 5)))


def estimator_table(
    cases: tuple = ESTIMATOR_CASES, clip: int = 3, moments: Callable = theory.size_estimator_moments
) -> pd.DataFrame:
    """Tabulate the mean of the estimate of eq. 5.7 by the range of fake sizes and the true sizes (M = 4, alpha = 2/5)."""
    cap, alpha = 4, Fraction(2, 5)
    rows, (supports, all_sizes) = [], cases
    for name, support in supports.items():
        for sizes in all_sizes:
            clipped = [min(n, clip) for n in sizes]
            exact = moments(clipped, cap, alpha, support(cap))
            rows.append(
                {
                    "fake sizes": name,
                    "sizes": str(sizes),
                    "total": sum(sizes),
                    "clipped total": sum(clipped),
                    "mean estimate": str(exact.mean),
                    "variance": str(exact.variance),
                }
            )
    return pd.DataFrame(rows)


def _check_unbiased(cap: int, clip: int, largest: int, moments: Callable) -> list[bool]:
    """Check whether the mean estimate is the total, for every two sizes 1..largest and every alpha."""
    return [
        moments([min(n, clip) for n in sizes], cap, alpha, range(1, cap)).mean == sum(sizes)
        for sizes in product(range(1, largest + 1), repeat=2)
        for alpha in ALPHAS
    ]


@claim(
    "preprint-eq-8",
    paper="preprint",
    place="Sec. 2.4, eq. 8",
    kind="theory",
    statement="ñ is a private version of the participants' total number of examples.",
    printed="ñ = (R − (1−α)Mm/2)/α estimates n",
    chapter="04c_size_estimator#what-does-the-estimator-estimate",
    meaning="of two participants",
    fact="size-estimator",
    order=120,
)
@claim(
    "journal-eq-5.7",
    paper="journal",
    place="Sec. 5.2, eq. 5.7",
    kind="theory",
    statement="From the participants' randomised sizes the server estimates their total number of "
    "examples.",
    printed="ñ = (R − (1−α)Mm/2)/α estimates n",
    chapter="04c_size_estimator#what-does-the-estimator-estimate",
    meaning="of two participants",
    fact="size-estimator",
    order=180,
)
def estimator(
    claim: Claim,
    *,
    cases: tuple = ESTIMATOR_CASES,
    moments: Callable = theory.size_estimator_moments,
) -> Evidence:
    """Check whether eq. 5.7 (preprint: eq. 8) is unbiased for the participants' total; `moments` are its mean and variance."""
    table = estimator_table(cases, moments=moments)
    printed = table["mean estimate"] == table["total"].astype(str)
    condition = [x for cap in (3, 4, 5) for x in _check_unbiased(cap, cap - 1, cap - 1, moments)]
    return Evidence(
        judge_theory(bool(printed.all()), all(condition)),
        f"{sum(condition)} of {len(condition)} exact means equal the total if no size exceeds M−1",
        note="Unbiased if the fake size has mean M/2 (uniform on 1..M−1) and every participant holds 1 to M−1 "
        "examples; else for the total of the clipped sizes.",
        table=table,
    )


@claim(
    "slides-unbiased-total",
    paper="slides",
    place="Privacy-Preserving Ratio Estimation",
    kind="theory",
    statement="The estimate of the total from sizes clipped at M and fakes from M−1 values is unbiased.",
    printed="Unbiased estimation",
    chapter="04c_size_estimator#what-does-the-estimator-estimate",
    meaning="of two participants",
    order=280,
)
def slides_estimator(
    claim: Claim,
    *,
    cases: tuple = ESTIMATOR_CASES,
    moments: Callable = theory.size_estimator_moments,
) -> Evidence:
    """Check whether the slides' estimate is unbiased: sizes clipped at M, fakes uniform on M−1 values."""
    table = estimator_table(cases, 4, moments)
    printed = table["mean estimate"] == table["total"].astype(str)
    condition = [x for cap in (3, 4, 5) for x in _check_unbiased(cap, cap, cap, moments)]
    return Evidence(
        judge_theory(bool(printed.all()), all(condition)),
        f"{sum(condition)} of {len(condition)} exact means equal the total if no size exceeds M",
        note="Unbiased for the total of min(n, M), with fakes on 1..M−1; for the total itself if no client holds more than M. "
        "A client that reports M has no privacy.",
        table=table,
    )


# Lemma 2 -----------------------------------------------------------------------------------------


def compute_limits() -> dict[str, float]:
    """Compute what `squared_error`, E(p~ - p)^2 for n* = n/10, tends to with more and more participants m.

    Returns:
        clipped: its limit for sizes 600, which are clipped, so that it does not vanish.
        unclipped times m: for sizes 60 it vanishes like 1/m; this is the limit of m times it, by the delta method.
    """
    variance = privacy.estimate_variance([60], size_cap=CAP, alpha=float(ALPHA))
    return {
        "clipped": float(SAMPLING_RATIO * (Fraction(SIZE, CAP - 1) - 1)) ** 2,
        "unclipped times m": float(SAMPLING_RATIO) ** 2 * variance / 60**2,
    }


def squared_error(size: int, m: int, n_star: float) -> float:
    """Return E(p~ - p)^2 for p~ = min(1, n*/max(estimate, 1)) and m clients of one size."""
    return theory.estimated_rate([size] * m, CAP, float(ALPHA), n_star).squared_error


def participants_with_zero_estimate(largest: int = 100) -> list[int]:
    """List the numbers m of participants up to `largest` whose estimate can be exactly 0 at the preprint's M and alpha.

    Eq. 5.7 is 0 where the sum R of the reports is m (1 - alpha) M / 2, what fakes add on average. R is a whole number
    and at least m, since each report is at least 1.
    """
    mean_fakes = (1 - ALPHA) * CAP / 2  # of one report
    return [
        m
        for m in range(1, largest + 1)
        if (mean_fakes * m).denominator == 1 and mean_fakes * m >= m
    ]


def lemma2_table(counts=(10, 100, 1000)) -> pd.DataFrame:
    """Tabulate the mean squared error of the rate, guarded as in `squared_error`, over m: sizes and requests of three readings."""
    rows, limit = [], compute_limits()
    for name, size, request, relative in (
        ("sizes 60 (below M), n* = n/10", 60, lambda m: 6.0 * m, False),
        ("sizes 600 (clipped), n* = n/10", SIZE, lambda m: 60.0 * m, False),
        ("sizes 600 (clipped), n* = 600", SIZE, lambda m: 600.0, False),
        ("sizes 600 (clipped), n* = 600, relative", SIZE, lambda m: 600.0, True),
        ("sizes 60 (below M), n* = 60, relative", 60, lambda m: 60.0, True),
    ):
        rates = [request(m) / (size * m) if relative else 1.0 for m in counts]
        values = [
            squared_error(size, m, request(m)) / p**2 for m, p in zip(counts, rates, strict=True)
        ]
        end = 0.0 if size == 60 or (request(1) == 600 and not relative) else limit["clipped"]
        rows.append(
            {"setting": name}
            | {f"m = {m}": f"{v:.4g}" for m, v in zip(counts, values, strict=True)}
            | {"limit": f"{end / float(SAMPLING_RATIO) ** 2 if relative else end:.4g}"}
        )
    raw = [
        theory.size_estimator_exact([3] * m, 4, Fraction(1, 2)).get(0, Fraction(0))
        for m in (1, 2, 3)
    ]
    text = ", ".join(map(str, raw))
    rows.append(
        {"setting": f"no guard; M = 4, α = 1/2, sizes 3 (P(ñ = 0) = {text}, … for m = 1, 2, 3, …)"}
        | {f"m = {m}": "infinite" for m in counts}
        | {"limit": "none"}
    )
    return pd.DataFrame(rows)


@claim(
    "preprint-lemma-2.2",
    paper="preprint",
    place="Lemma 2.2, eq. 9",
    kind="theory",
    statement="The mean squared error between η/ñ and η/n vanishes as the number of participants grows.",
    printed="lim E(p̃ − p)² = 0",
    chapter="04c_size_estimator#what-limit-does-lemma-2-have",
    meaning="is the mean squared error of the guarded rate, for n* = n/10",
    fact="rate-error",
    order=460,
)
@claim(
    "journal-lemma-2",
    paper="journal",
    place="Lemma 2, eq. 6.8",
    kind="theory",
    statement="The mean squared error between n*/ñ and n*/n vanishes as the number of participants "
    "grows.",
    printed="lim E(p̃ − p)² = 0",
    chapter="04c_size_estimator#what-limit-does-lemma-2-have",
    meaning="is the mean squared error of the guarded rate, for n* = n/10",
    fact="rate-error",
    core=True,
    order=330,
)
def lemma2(
    claim: Claim, *, sizes: tuple[int, int] = (60, SIZE), alpha: Fraction = Fraction(1, 2)
) -> Evidence:
    """Check Lemma 2, eq. 6.8 (preprint: Lemma 2.2): that the mean squared error of n*/ñ vanishes.

    With a guard against ñ near 0: for sizes below the cap and above it, at n* = n/10 and at three requests n* that are
    no fixed share of n. Without one: for M = 4 and sizes of 3.

    Args:
        sizes: below the cap, and above it.
        alpha: of the case without a guard.
    """
    (small, size), limit, large = sizes, compute_limits(), 5_000
    bound = 3 * limit["unclipped times m"] / float(SAMPLING_RATIO) ** 2  # of m times the error
    # n* as a function of n: a share that vanishes, one that does not converge, and nearly all examples.
    requests = (math.sqrt, lambda n: n / (2 + n % 7), lambda n: n - 1)
    last = range(large - 2, large + 1)
    errors = [squared_error(small, m, r(small * m)) * m for r in requests for m in last]
    vanishing = squared_error(size, large, math.sqrt(size * large))
    raw = [theory.raw_rate_error([3] * m, 4, alpha, m) for m in range(1, 6)]
    clipped = squared_error(size, large, size / 10 * large)
    unclipped = squared_error(small, large, small / 10 * large)
    printed = [math.isfinite(x) for x in raw] + [clipped < 0.01 * limit["clipped"]]
    condition = [
        bool(np.isclose(unclipped * large, limit["unclipped times m"], rtol=0.03)),
        unclipped < 2e-5,
        bool(np.isclose(clipped, limit["clipped"], rtol=0.005)),
        max(errors) < bound,
        vanishing < 2e-5,
    ]
    return Evidence(
        judge_theory(all(printed), all(condition)),
        f"clipped: {clipped:.4f} at m = {large} (limit {limit['clipped']:.4f}); "
        f"below the cap: {unclipped:.2e} = {unclipped * large:.4f}/m",
        note="If ñ is guarded from below (else E is infinite wherever ñ can be 0), fakes have the mean M/2, and no size exceeds M−1 or n*/m goes to 0. With "
        "no size above M−1 the error is O(1/m), for n* = qn and for requests that vanish, waver or take nearly all.",
        table=lemma2_table(),
    )


@claim(
    "journal-asymptotic-unbiasedness",
    paper="journal",
    place="Sec. 6.1, before Lemma 2",
    kind="theory",
    statement="The privacy-preserving ratio estimator n*/ñ is asymptotically unbiased.",
    printed="E p̃ → p",
    chapter="04c_size_estimator#what-limit-does-lemma-2-have",
    meaning="in M = 100; unbiased would be 1",
    order=210,
)
def asymptotic_unbiasedness(claim: Claim, *, sizes: tuple[int, int] = (60, SIZE)) -> Evidence:
    """Check whether E p~ / p tends to 1, for sizes below the cap and above it."""
    (small, large), rows, ends = sizes, [], {}
    for size in sizes:
        for m in (10, 100, 1000):
            mean = theory.estimated_rate([size] * m, CAP, float(ALPHA), size * m / 10).mean
            ends[size] = mean / float(SAMPLING_RATIO)
            rows.append(
                {"sizes": size, "m": m, "E p̃": f"{mean:.5f}", "E p̃ / p": f"{ends[size]:.4f}"}
            )
    limit = SIZE / (CAP - 1)
    return Evidence(
        judge_theory(abs(ends[large] - 1) < 0.01, abs(ends[small] - 1) < 0.01),
        f"E p̃/p at m = 1000: {ends[small]:.4f} below the cap, {ends[large]:.3f} above it",
        note=f"If no size exceeds M−1 and ñ is guarded; with 600 examples each and M = 100 the ratio tends to 600/99 = {limit:.3f}.",
        table=pd.DataFrame(rows),
    )


@claim(
    "slides-lemma-1",
    paper="slides",
    place="Lemma 1",
    kind="theory",
    statement="The limit of the mean squared error of the rate is strictly below the limit of "
    "Var(r)/(|C|α²), which is 0.",
    printed="lim E(p − p̂)² < lim Var(r)/(|C|α²) = 0",
    chapter="04c_size_estimator#what-limit-does-lemma-2-have",
    meaning="is the printed relation of the two limits",
    slip=True,
    order=20,
)
def slides_lemma1(claim: Claim, *, below: Callable = operator.lt) -> Evidence:
    """Check the slides' lim E(p - p^)^2 < lim Var(r)/(|C| alpha^2) = 0; `below` may be another relation than <."""
    one = privacy.estimate_variance([60], size_cap=CAP, alpha=float(ALPHA))  # Var(r) / alpha^2
    rows, limit = [], compute_limits()["unclipped times m"]
    for m in (10, 100, 1000):
        error = squared_error(60, m, 6.0 * m)
        rows.append(
            {
                "|C|": m,
                "E(p − p̂)²": f"{error:.6f}",
                "Var(r)/(|C|α²)": f"{one / m:.4f}",
                "(K/N)² Var(r)/(|C|α²n²)": f"{limit / m:.6f}",
            }
        )
    # Both sides vanish: a limit of squares is at least 0, so it is not below 0. The last error, with the last m, is taken to
    # vanish if m times it is near its limit.
    limit_left = 0.0 if error * m < 1.1 * limit else error
    limit_right = 0.0
    return Evidence(
        judge_theory(below(limit_left, limit_right)),
        f"0 < 0; |C| times the error tends to {limit:.4f}",
        note="The strict sign must be ≤, and for a guarded ratio of unclipped sizes the error is (K/N)² Var(r)/(|C| α² n̄²) to first order, "
        "n̄ the mean size.",
        table=pd.DataFrame(rows),
    )


# What the page prints ----------------------------------------------------------------------------


def paper_scale(simulated: np.ndarray | None = None) -> pd.DataFrame:
    """Tabulate mean, standard deviation and P(ñ <= 0) at the paper's scale for both alphas, exactly, and as simulated.

    alpha = 101/625 is the printed value; for epsilon = 3 alpha is irrational and stands between two rationals
    less than 1e-20 apart. P(ñ <= 0) falls with alpha as all sizes are clipped to M-1, so the two enclose it.
    """
    low, high = theory.truth_probability_bounds(3, CAP, 32)
    rows = {}
    for name, alphas in (("alpha = 0.1616", (ALPHA,)), ("epsilon = 3", (low, high))):
        ends = [
            theory.size_estimator_moments([CAP - 1] * PARTICIPANTS, CAP, a, inverse=False)
            for a in alphas
        ]
        printed = [
            (str(x.mean), f"{math.sqrt(x.variance):.7f}", f"{float(x.p_not_positive):.10f}")
            for x in ends
        ]
        if len(set(printed)) > 1:
            raise ArithmeticError("the bounds of alpha differ within the digits that are printed")
        rows[name] = printed[0]
    if simulated is not None:
        share, root = float((simulated <= 0).mean()), math.sqrt(len(simulated))
        mean, sd = float(simulated.mean()), float(simulated.std())
        rows["simulated"] = (f"{mean:.2f}", f"{sd:.2f}", f"{share:.5f}")
        errors = (sd / root, sd / root / math.sqrt(2), math.sqrt(share * (1 - share)) / root)
        rows["  +/-"] = tuple(f"{x:.{k}f}" for x, k in zip(errors, (2, 2, 5), strict=True))
    return pd.DataFrame(rows, index=["mean", "sd", "P(<= 0)"]).T


def trade_off(caps=(50, 100, 200, 300, 601, 1000)) -> pd.DataFrame:
    """Tabulate bias and standard deviation of the estimate over the cap M: epsilon = 3, ten reports, sizes 600."""
    rows = []
    for cap in caps:
        alpha = privacy.truth_probability(3, cap)
        bias = PARTICIPANTS * (min(SIZE, cap - 1) - SIZE)
        sd = math.sqrt(privacy.estimate_variance([SIZE] * PARTICIPANTS, size_cap=cap, alpha=alpha))
        rows.append({"M": cap, "α": alpha, "bias": bias, "sd": sd, "rmse": math.hypot(bias, sd)})
    return pd.DataFrame(rows)


def rate_table(requests=(99, 600, 2048)) -> pd.DataFrame:
    """Tabulate the distribution of n*/ñ at the preprint's numbers: m = 10, M = 100, alpha = 0.1616, sizes 600."""
    rows = []
    for n_star in requests:
        both = [
            theory.estimated_rate([SIZE] * PARTICIPANTS, CAP, float(ALPHA), n_star, floor)
            for floor in (1, PARTICIPANTS)
        ]
        p = n_star / (SIZE * PARTICIPANTS)
        rows.append(
            {
                "n*": n_star,
                "n*/n": f"{p:.4f}",
                "n*/n_c": f"{n_star / ((CAP - 1) * PARTICIPANTS):.4f}",
                "P(n*/ñ not in (0, 1])": f"{both[0].outside:.4f}",
                "E p̃, floor 1": f"{both[0].mean:.5f}",
                "E p̃, floor m": f"{both[1].mean:.5f}",
                "times n*/n": f"{both[0].mean / p:.2f}",
            }
        )
    return pd.DataFrame(rows)


@claim(
    "journal-rate-is-a-probability",
    paper="journal",
    place="Sec. 5.2, Algorithm 1",
    kind="theory",
    statement="With privacy, examples are drawn with the probability n*/ñ.",
    printed="p_k = n*/ñ",
    chapter="04c_size_estimator#what-becomes-of-the-rate",
    meaning="is the chance that n*/ñ is not a probability, for ten clients whose sizes are clipped to M - 1, and n* = 600",
    order=170,
)
def rate_is_a_probability(
    claim: Claim, *, cap: int = CAP, alpha: Fraction = ALPHA, n_star: int = 600
) -> Evidence:
    """Compute the chance that the rate n*/ñ is not in (0, 1], for ten clients of the largest size that can be
    reported, M - 1 (Sec. 5.2).

    Args:
        claim: on the rate.
        cap: M; sizes are reported in 1..M - 1.
        alpha: the chance that a report is the true size.
        n_star: n*, the requested examples.
    """
    table = rate_table()
    # By value of the estimate ñ, its probability.
    law = theory.size_estimator_exact([cap - 1] * PARTICIPANTS, cap, alpha)
    # ñ <= 0, too: then n*/ñ is negative or not defined.
    outside = sum(p for v, p in law.items() if v < n_star)
    return Evidence(
        judge_theory(outside == 0),
        float(outside),
        note="n*/ñ is no probability where ñ ≤ 0 or ñ < n*: write min(1, n*/max(ñ, 1)); or choose n* = q ñ, then the rate is q for every ñ.",
        table=table,
    )


@claim(
    "preprint-q-determines-the-request",
    paper="preprint",
    place="Sec. 3.1",
    kind="number",
    statement="The sampling ratio q = 0.1 determines the requested sample size, which is given as 2048. (Read as: that is "
    'K_desired, "the desired dimension" in Fig. 3, which the authors\' code uses as this size.)',
    printed=2048,
    chapter="04c_size_estimator#what-becomes-of-the-rate",
    meaning="examples: q of one participant's, of all participants', and of all clients'",
    order=190,
)
def request_of_the_ratio(claim: Claim, *, request: int = 2048) -> Evidence:
    """Check whether the ratio q = 0.1 gives the requested sample of 2048 for any total of the setting (Sec. 3.1)."""
    totals = {
        "one participant": SIZE,
        "the participants": SIZE * PARTICIPANTS,
        "all clients": SIZE * 100,
    }
    rows = [{"q of": k, "examples": n, "q n": str(SAMPLING_RATIO * n)} for k, n in totals.items()]
    agrees = any(SAMPLING_RATIO * n == request for n in totals.values())
    return Evidence(
        "holds" if agrees else "fails",
        ", ".join(row["q n"] for row in rows),
        note="2048 is not q = 0.1 of any total of the setting (100 clients of 600, 10 take part): say which of q and n* is the parameter.",
        table=pd.DataFrame(rows),
    )


def _expected_pooled_sum(shards, rate: Fraction, norm: Fraction) -> Fraction:
    """Return the expected sum of a Bernoulli(rate) sample of all examples over `norm`, by enumeration."""
    pool = [x for shard in shards for x in shard]
    total = Fraction(0)
    for selected in product((0, 1), repeat=len(pool)):
        chance = rate ** sum(selected) * (1 - rate) ** (len(pool) - sum(selected))
        total += chance * sum(x for x, k in zip(pool, selected, strict=True) if k) / norm
    return total


def _expected_mean_of_clients(shards, rate: Fraction) -> Fraction:
    """Return the expected mean over clients of the mean of a non-empty Bernoulli(rate) sample (drawn again if empty)."""
    ends = []
    for shard in shards:
        total = weight = Fraction(0)
        for selected in product((0, 1), repeat=len(shard)):
            if any(selected):
                chance = rate ** sum(selected) * (1 - rate) ** (len(shard) - sum(selected))
                mean = Fraction(
                    sum(x for x, k in zip(shard, selected, strict=True) if k), sum(selected)
                )
                total, weight = total + chance * mean, weight + chance
        ends.append(total / weight)
    return sum(ends) / len(shards)


def slides_fixed_ratio(
    claim: Claim,
    *,
    rates: tuple = (Fraction(1, 4), Fraction(1, 2)),
    clients: Fraction = Fraction(0 + 2, 2),
) -> Evidence:
    """Check the slides' "naive solution", a fixed sampling ratio: whether it leaks sizes or biases the update.

    `clients` is the mean of the clients' means, which the mean over their samples should have on average.
    """
    shards, k, rows = ((0,), (1, 2, 3)), 1, []
    pooled = Fraction(6, 4)
    for rate in rates:
        fixed, equal = (
            _expected_pooled_sum(shards, rate, Fraction(k)),
            _expected_mean_of_clients(shards, rate),
        )
        rows.append(
            {
                "rate": str(rate),
                "sum of the sample / K, K = 1": str(fixed),
                "mean of all examples": str(pooled),
                "mean over clients of their samples' means": str(equal),
                "mean of the clients' means": str(clients),
            }
        )
    biased = [r["sum of the sample / K, K = 1"] != r["mean of all examples"] for r in rows]
    free = [
        r["mean over clients of their samples' means"] == r["mean of the clients' means"]
        for r in rows
    ]
    return Evidence(
        judge_theory(not any(free), any(biased)),
        "biased for the mean of all examples if r ≠ K/N; unbiased for the mean of the clients' means",
        note="If clients are to count by their sizes and K is fixed beforehand (r N ≠ K). For the weights 1/N of FedSTaS's eq. 6 a fixed rate is "
        "unbiased (samples that are not empty) and needs no size.",
        table=pd.DataFrame(rows),
    )
