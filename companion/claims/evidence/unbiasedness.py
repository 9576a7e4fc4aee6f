"""Unbiasedness of the cohort's mean: Lemma 1 and the statements around it (chapter 4a), all exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product

import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import theory

AGGREGATE_MEAN = "is the mean of the aggregate (with and without replacement), in two small strata"

PLAIN = ("plain-wr", "plain-successive")
UNBIASED = ("hansen-hurwitz", "horvitz-thompson", "des-raj")
NAMES = {
    "plain-wr": "plain mean, with replacement",
    "plain-successive": "plain mean, distinct clients",
    "hansen-hurwitz": "Hansen–Hurwitz, with replacement",
    "horvitz-thompson": "Horvitz–Thompson, distinct clients",
    "des-raj": "Des Raj, distinct clients in order",
}
UPDATES, NORMS, DRAWS = (1, 2, 6), (1, 2, 3), 2
STRATA, STRATA_NORMS = ((1, 2, 6), (-1, 2, 0, 5)), ((1, 2, 3), (5, 3, 2, 10))
SIZES = (1, 1, 8)


def mean(values) -> Fraction:
    """Return the exact mean."""
    return Fraction(sum(values), len(values))


def weighted(values, weights) -> Fraction:
    """Return the exact mean with whole numbers as weights."""
    return Fraction(sum(a * b for a, b in zip(values, weights, strict=True)), sum(weights))


def small_cases() -> Iterator[tuple[tuple, tuple, int]]:
    """List (updates, norms, m) of one to three clients, smallest first: updates 0 to 2, norms 1 and 2, one or two draws."""
    cases = [
        (w, g, m)
        for n in (1, 2, 3)
        for w in product(range(3), repeat=n)
        for g in product((1, 2), repeat=n)
        for m in range(1, min(n, 2) + 1)
    ]

    def size_of(case: tuple) -> tuple:
        """Return what cases are ordered by: clients, draws, the sum of updates and norms, and these themselves."""
        w, g, m = case
        return len(w), m, sum(w) + sum(g), case

    return iter(sorted(cases, key=size_of))


@cache
def biases(design: str, cases: tuple | None = None) -> list[tuple]:
    """List the cases (updates, norms, m), by default all small ones, in which a design is biased, with its expected value."""
    result = []
    for w, g, m in small_cases() if cases is None else cases:
        moment = theory.design_moments(design, w, g, m).mean
        if moment != mean(w):
            result.append((w, g, m, moment))
    return result


@claim(
    "journal-lemma-1",
    paper="journal",
    place="Lemma 1",
    kind="theory",
    statement="The aggregate of Algorithm 3 (clients drawn by gradient norm in each stratum, averaged "
    "plainly) has the full aggregate as its expectation.",
    printed="E[w_t+1] = W(K)",
    chapter="04a_unbiasedness#is-the-mean-of-a-cohort-unbiased",
    meaning="is the mean of the aggregate, in the smallest stratum where it is wrong",
    fact="unbiased-aggregate",
    core=True,
    order=320,
)
def lemma_1(claim: Claim | None = None, *, cases: tuple | None = None) -> Evidence:
    """Check Lemma 1 in one stratum, for both readings of "sampled with p", on all cases (updates, norms, m)."""
    wrong = {x: biases(x, cases) for x in PLAIN}
    right = {x: not biases(x, cases) for x in UNBIASED}
    assert all(right.values())  # a mistake here would be ours
    smallest = next((result[0] for result in wrong.values() if result), None)
    rows = []
    shown_cases = (smallest[:3], (UPDATES, NORMS, DRAWS)) if smallest else (cases or ())[:2]
    for w, g, m in shown_cases:
        for x in (*PLAIN, *UNBIASED):
            moment, variance = theory.design_moments(x, w, g, m)
            rows.append(
                {
                    "updates": str(w),
                    "norms": str(g),
                    "m": str(m),
                    "estimator": NAMES[x],
                    "target": str(mean(w)),
                    "mean": str(moment),
                    "bias": str(moment - mean(w)),
                    "variance": str(variance),
                }
            )
    holds, ours = not any(wrong.values()), "the mean of all"
    if smallest:
        updates, _, _, expected = smallest
        ours = f"{expected} instead of {mean(updates)}"
    return Evidence(
        judge_theory(holds),
        ours=ours,
        note="The bias of a plain mean is (N_h/m_h) Cov(nu, d), nu the expected number of draws. Divide each update by "
        "what was favoured: Hansen-Hurwitz, Horvitz-Thompson with the true pi, or Des Raj are exactly unbiased.",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-shows-unbiasedness",
    paper="preprint",
    place="Sec. 1",
    kind="superiority",
    statement="The unbiasedness of FedSTaS is shown in theory.",
    printed="unbiased",
    chapter="04a_unbiasedness#which-estimators-are-unbiased",
    meaning=AGGREGATE_MEAN,
    fact="unbiased-aggregate",
    order=70,
)
@claim(
    "preprint-representative",
    paper="preprint",
    place="Sec. 2.5, after Lemma 2.1",
    kind="superiority",
    statement="The method introduces no bias into the global model, and its sampled aggregate is "
    "representative of the population.",
    printed="does not introduce bias",
    chapter="04a_unbiasedness#which-estimators-are-unbiased",
    meaning=AGGREGATE_MEAN,
    fact="unbiased-aggregate",
    order=130,
)
@claim(
    "preprint-eq-6",
    paper="preprint",
    place="eq. 6",
    kind="theory",
    statement="The mean of the strata's plain sample means, weighted by N_h/N, represents the whole "
    "population.",
    printed="w_sts = (1/N) Σ N_h w_h",
    chapter="04a_unbiasedness#which-estimators-are-unbiased",
    meaning=AGGREGATE_MEAN,
    fact="unbiased-aggregate",
    order=440,
)
@claim(
    "preprint-lemma-2-1",
    paper="preprint",
    place="Lemma 2.1",
    kind="theory",
    statement="The aggregate of Algorithm 2 over all strata is unbiased for the aggregate of all "
    "clients.",
    printed="E[w_t+1] = W(K)",
    chapter="04a_unbiasedness#which-estimators-are-unbiased",
    meaning=AGGREGATE_MEAN,
    fact="unbiased-aggregate",
    order=450,
)
@claim(
    "journal-representative",
    paper="journal",
    place="Sec. 6.1",
    kind="superiority",
    statement="Although a subset of clients trains, the expected aggregate remains representative of "
    "all, since the client sampling of FedSTS is unbiased.",
    printed="unbiased client selection",
    chapter="04a_unbiasedness#which-estimators-are-unbiased",
    meaning=AGGREGATE_MEAN,
    fact="unbiased-aggregate",
    order=200,
)
def algorithm(
    claim: Claim | None = None, *, strata: tuple = STRATA, norms: tuple = STRATA_NORMS
) -> Evidence:
    """Check Lemma 1 for Algorithm 3 as a whole, with two strata: the expected value of the line that computes w_{t+1}."""
    target = mean([x for s in strata for x in s])
    rows, means = [], {}
    for x in (*PLAIN, *UNBIASED):
        means[x], variance = theory.stratified_moments(x, strata, norms, (DRAWS, DRAWS))
        rows.append(
            {
                "estimator": NAMES[x],
                "target": str(target),
                "mean": str(means[x]),
                "bias": str(means[x] - target),
                "standard deviation": f"{float(variance) ** 0.5:.3f}",
            }
        )
    with_replacement, distinct = PLAIN
    equal_norms = [[1] * len(s) for s in strata]
    mean_of_equal, _ = theory.stratified_moments(distinct, strata, equal_norms, (2, 2))
    assert mean_of_equal == target and all(means[x] == target for x in UNBIASED)
    return Evidence(
        judge_theory(all(means[x] == target for x in PLAIN)),
        ours=f"{means[with_replacement]} or {means[distinct]} instead of {target}",
        note="Unbiased for all updates only where all clients of a stratum are expected equally often, as under uniform p. With p "
        "by norm and replacement, weight each update by 1/(N_h p_k) instead of 1.",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-sec-2-2-norm",
    paper="preprint",
    place="Sec. 2.2",
    kind="theory",
    statement="Clients are sampled with probabilities proportional to the norms of their gradients.",
    printed="probabilities proportional to the norm",
    chapter="04a_unbiasedness#is-the-mean-of-a-cohort-unbiased",
    meaning="are the chances to be in a cohort of two, for clients with norms 1, 2 and 3",
    fact="by-norm",
    order=100,
)
@claim(
    "journal-sec-3-2",
    paper="journal",
    place="Sec. 3.2, the formula of p_t^k",
    kind="theory",
    statement="A client is selected with probability proportional to the norm of its gradient.",
    printed="p_k = |IS(G_k)| / Σ |IS(G_k)|",
    chapter="04a_unbiasedness#is-the-mean-of-a-cohort-unbiased",
    meaning="are the chances to be in a cohort of two, for clients with norms 1, 2 and 3",
    fact="by-norm",
    order=110,
)
def selection_probability(
    claim: Claim | None = None,
    *,
    norms: tuple = NORMS,
    m: int = DRAWS,
    inclusion: Callable = theory.inclusion_probabilities,
) -> Evidence:
    """Compare the probability of being selected with the norm; `inclusion` is that of distinct clients."""
    p = [Fraction(g, sum(norms)) for g in norms]
    pi, one = inclusion(norms, m), inclusion(norms, 1)
    again = [1 - (1 - q) ** m for q in p]
    expected = [m * q for q in p]
    counted = [
        sum(s.count(k) * q for s, q in theory.samples_with_replacement(norms, m)) for k in range(3)
    ]
    rows = [
        {
            "client": str(k + 1),
            "norm": str(norms[k]),
            "m p": str(expected[k]),
            "P(in the cohort), distinct": str(pi[k]),
            "P(in the cohort), with replacement": str(again[k]),
            "expected draws, with replacement": str(counted[k]),
        }
        for k in range(3)
    ]
    proportional = [x / pi[0] for x in pi] == [Fraction(g, norms[0]) for g in norms]
    return Evidence(
        judge_theory(proportional, one == p and counted == expected),
        ours=", ".join(map(str, pi)),
        note="If p is that of one draw: the expected number of draws with replacement is m p_k. Of distinct clients, drawn one "
        "after another, the probability of being in the cohort is another (successive sampling), and no client's can exceed 1.",
        table=pd.DataFrame(rows),
    )


def everyone(models: tuple) -> Fraction:
    """Return what Algorithm 3 aggregates if all clients of its one stratum take part."""
    n = len(models)
    return theory.stratified_moments("plain-successive", [models], [[1] * n], [n]).mean


@claim(
    "preprint-eq-3",
    paper="preprint",
    place="eq. 3 with eq. 6",
    kind="theory",
    statement="If all clients take part, the stratified aggregate is the full aggregate with weights "
    "omega_k.",
    printed="w = Σ ω_k w_k",
    chapter="04a_unbiasedness#which-weights-is-it-about",
    meaning="is the aggregate of Algorithm 3, against that with weights omega_k, of three models",
    fact="objective",
    order=410,
)
@claim(
    "journal-eq-2-1",
    paper="journal",
    place="eq. 2.1 with Algorithm 3",
    kind="theory",
    statement="The objective weights clients by their data, and the aggregate of Algorithm 3 with full "
    "participation has these weights.",
    printed="ω_k proportional to the client's data",
    chapter="04a_unbiasedness#which-weights-is-it-about",
    meaning="is the aggregate of Algorithm 3, against that with weights omega_k, of three models",
    fact="objective",
    order=260,
)
def weights(
    claim: Claim | None = None, *, sizes: tuple = SIZES, aggregate: Callable = everyone
) -> Evidence:
    """Compare the weights of the objective (eq. 2.1) with the aggregator's, 1/N each."""
    models, rows = (0, 0, 1), []
    for case_sizes in (sizes, (2, 2, 2)):
        rows.append(
            {
                "sizes": str(case_sizes),
                "models": str(models),
                "weights by size": str(weighted(models, case_sizes)),
                "Algorithm 3, everyone takes part": str(aggregate(models)),
            }
        )
    same = [r["weights by size"] == r["Algorithm 3, everyone takes part"] for r in rows]
    _, same_for_equal_sizes = same
    return Evidence(
        judge_theory(all(same), same_for_equal_sizes),
        ours=f"{aggregate(models)} against {weighted(models, sizes)}",
        note="If all clients hold equally many examples. Otherwise Algorithm 3 aims at the mean of the clients' losses, omega_k = 1/N; "
        "multiplying each term by N omega_k aims at eq. 2.1.",
        table=pd.DataFrame(rows),
    )


def _omega(sizes=SIZES):
    """Return each client's share of all examples."""
    return [Fraction(n, sum(sizes)) for n in sizes]


DRAWN = {"uniform": (1, 1, 1), "by norm": NORMS, "by size": SIZES}
FACTOR = Fraction(len(UPDATES), DRAWS)  # N/m of eq. 2.3


@claim(
    "preprint-eq-5",
    paper="preprint",
    place="eq. 5",
    kind="theory",
    statement="With the weights (N/m) omega_k the expected aggregate is that of all clients.",
    printed="E[Σ (N/m) ω_k w_k] = Σ ω_k w_k",
    chapter="04a_unbiasedness#models-or-updates",
    meaning="is the mean of the aggregate under draws by norm, in a small federation; 51/10 is that "
    "of all clients",
    fact="expansion",
    order=430,
)
@claim(
    "journal-eq-2-4",
    paper="journal",
    place="eq. 2.4",
    kind="theory",
    statement="With the weights (N/m) omega_k the expected aggregate is that of all clients.",
    printed="E[Σ (N/m) ω_k w_k] = Σ ω_k w_k",
    chapter="04a_unbiasedness#models-or-updates",
    meaning="is the mean of the aggregate under draws by norm, in a small federation; 51/10 is that "
    "of all clients",
    fact="expansion",
    order=280,
)
def expansion(
    claim: Claim | None = None, *, designs: dict = DRAWN, factor: Fraction = FACTOR
) -> Evidence:
    """Compute the mean of (N/m) sum omega_k w_k under each design (eq. 2.4); `factor` takes the place of N/m."""
    target = weighted(UPDATES, SIZES)
    rows, unbiased = [], {}
    for name, selection in designs.items():
        moments = theory.expansion_moments(UPDATES, _omega(), selection, DRAWS)
        expected = moments.mean * factor / FACTOR
        unbiased[name] = expected == target
        pi = theory.inclusion_probabilities(selection, DRAWS)
        rows.append(
            {
                "draws": name,
                "probability of each client": ", ".join(map(str, pi)),
                "target": str(target),
                "mean": str(expected),
            }
        )
    return Evidence(
        judge_theory(all(unbiased.values()), unbiased["uniform"]),
        ours=next((r["mean"] for r in rows if r["mean"] != r["target"]), str(target)),
        note="If every client is expected m/N times, as under uniform draws; a design by norm or by size needs other weights, "
        "omega_k / (m p_k).",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-eq-4",
    paper="preprint",
    place="eq. 4 for eq. 3",
    kind="theory",
    statement="A sum over a random subset of clients with weights (N/m) omega_k can stand for the full "
    "aggregate, whose weights omega_k sum to one.",
    printed="w = Σ (N/m) ω_k w_k",
    chapter="04a_unbiasedness#models-or-updates",
    meaning="is what the weights of a cohort sum to, in a small federation",
    fact="weighted-average",
    order=420,
)
@claim(
    "journal-eq-2-3",
    paper="journal",
    place="eq. 2.3",
    kind="theory",
    statement="The aggregate with weights (N/m) omega_k is a weighted average of the participants' "
    'models ("a weighted averaging scheme").',
    printed="w = Σ (N/m) ω_k w_k",
    chapter="04a_unbiasedness#models-or-updates",
    meaning="is what the weights of a cohort sum to, in a small federation",
    fact="weighted-average",
    order=270,
)
def weights_sum_to_one(
    claim: Claim | None = None, *, sizes: tuple = SIZES, factor: Fraction = FACTOR
) -> Evidence:
    """Compute what the weights (N/m) omega_k of eq. 2.3 sum to, for each cohort of two out of three clients.

    The table has the variances of eq. 2.3 and of other estimators if their weights are applied to updates, and to models;
    a client's model is its update plus `common part`, the same number for all clients.

    Args:
        claim: not used: the evidence is computed.
        sizes: the clients' numbers of examples, whose shares are omega.
        factor: N/m, 3/2; a test can replace it to make the claim false. The table does not depend on it.
    """
    uniform, omega = (1, 1, 1), _omega(sizes)

    def list_weight_sums(shares) -> set[Fraction]:
        """List the different sums that the cohorts' weights have if omega is `shares`."""
        sums = theory.expansion_moments(UPDATES, shares, uniform, DRAWS).weight_sums
        return {x * factor / FACTOR for x in sums}

    sizes_sum, equal_sum = list_weight_sums(omega), list_weight_sums([Fraction(1, 3)] * 3)
    rows = []
    for common in (0, 10, 100):
        models = [common + x for x in UPDATES]
        moments = {
            "eq. 2.3, on models": theory.expansion_moments(models, omega, uniform, DRAWS),
            "eq. 2.3, on updates": theory.expansion_moments(UPDATES, omega, uniform, DRAWS),
            "Hansen–Hurwitz, p ∝ update, on models": theory.design_moments(
                "hansen-hurwitz", models, UPDATES, DRAWS
            ),
            "Hansen–Hurwitz, p ∝ update, on updates": theory.design_moments(
                "hansen-hurwitz", UPDATES, UPDATES, DRAWS
            ),
            "plain mean, uniform p": theory.design_moments("plain-wr", models, uniform, DRAWS),
        }
        variances = {name: str(each.variance) for name, each in moments.items()}
        rows.append({"common part": str(common)} | variances)
    return Evidence(
        judge_theory(sizes_sum == {1}, equal_sum == {1}),
        ours=" or ".join(map(str, sorted(sizes_sum))),
        note="If all omega_k are equal. Otherwise the weights of a cohort sum to a random number that multiplies what all models "
        "have in common; on updates w_k - w_t the same weights do no harm.",
        table=pd.DataFrame(rows),
    )


@claim(
    "journal-algorithm-3-empty-stratum",
    paper="journal",
    place="Algorithm 3 with eq. 3.5",
    kind="theory",
    statement="The mean 1/m_h over the clients of a stratum is defined for every stratum.",
    printed="m_h = m N_h S_h / Σ N_h S_h",
    chapter="04a_unbiasedness#what-if-a-stratum-gets-no-draw",
    meaning="are the draws that eq. 3.5 gives two small strata, so that 1/m_h is 1/0",
    order=440,
)
def empty_stratum(claim: Claim | None = None, *, strata: tuple = ((4, 4), (9, 11))) -> Evidence:
    """Compute Algorithm 3's mean with m_h of eq. 3.5 where a stratum gets no draw, in two strata of two."""
    spreads = [(max(s) - min(s)) / 2 for s in strata]
    draws_per_stratum = theory.neyman_printed([2, 2], spreads, 2)
    target = mean([x for s in strata for x in s])
    drawn_strata = sum(
        Fraction(1, 2) * mean(s) for s, k in zip(strata, draws_per_stratum, strict=True) if k
    )
    one_each = theory.stratified_moments("plain-successive", strata, [(1, 1)] * 2, (1, 1)).mean
    rows = [
        {"what is done with the stratum without a draw": a, "mean": b, "target": str(target)}
        for a, b in (
            ("0/0, as printed", "undefined"),
            ("leave it out", str(drawn_strata)),
            (
                "leave it out, weights made to sum to 1",
                str(2 * drawn_strata / sum(map(bool, draws_per_stratum))),
            ),
            ("one draw each", str(one_each)),
        )
    ]
    assert one_each == target
    return Evidence(
        judge_theory(all(x >= 1 for x in draws_per_stratum)),
        ours=", ".join(map(str, draws_per_stratum)),
        note="Every stratum that is not empty needs at least one draw, m_h >= 1, hence m >= H: `allocation.neyman` finds the best "
        "whole numbers under that bound.",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-fedavg-bias",
    paper="preprint",
    place="Sec. 1",
    kind="theory",
    statement="FedAvg introduces bias into the global model.",
    printed="biased",
    chapter="04a_unbiasedness#which-weights-is-it-about",
    meaning="is the mean of FedAvg's aggregate, for two of three clients",
    order=30,
)
def cohort_weights(
    claim: Claim | None = None, *, cases: tuple = ((SIZES, 2), (SIZES, 1), ((2, 2, 2), 2))
) -> Evidence:
    """Compute the bias of FedAvg's weights n_k over the cohort for the weights of eq. 2.1."""
    rows = []
    for sizes, m in cases:
        aim, _ = theory.moments(
            (weighted([UPDATES[k] for k in s], [sizes[k] for k in s]), q)
            for s, q in theory.successive_samples((1, 1, 1), m)
        )
        target = weighted(UPDATES, sizes)
        rows.append(
            {
                "sizes": str(sizes),
                "m": str(m),
                "target": str(target),
                "mean": str(aim),
                "biased": aim != target,
            }
        )
    biased = [row["biased"] for row in rows]
    for row in rows:
        row["biased"] = "yes" if row["biased"] else "no"
    return Evidence(
        judge_theory(all(biased), any(biased)),
        ours=f"{rows[0]['mean']} instead of {rows[0]['target']}",
        note="If client sizes differ: n_k over the cohort is a ratio estimator. With equal sizes it is unbiased. The sentence is read "
        "as one about client sampling, and not about several local steps.",
        table=pd.DataFrame(rows),
    )
