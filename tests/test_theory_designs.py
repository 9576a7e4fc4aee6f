"""Exact moments of designs, allocations and variances, and the verdicts of chapters 4a and 4b.

One test is statistical (`successive_inclusion` against draws): its docstring states the false-alarm rate.
"""

from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import REFERENCE, to_fractions

from companion.claims.evidence import allocations as evidence_allocations
from companion.claims.evidence import unbiasedness, variance
from companion.claims.registry import VERDICTS
from companion.teach import check
from fedstas import allocation, theory
from fedstas.client_sampling import successive_sample
from fedstas.errors import InputError
from fedstas.theory import allocations

NEYMAN = REFERENCE["neyman"]["cases"]
F = Fraction


# The reference cases.


@pytest.mark.parametrize("case", REFERENCE["pps"]["cases"], ids=lambda c: f"w={c['w']}")
def test_designs_with_unequal_probabilities_have_the_moments_of_the_reference_cases(case):
    w, norm, m = case["w"], case["norm"], case["m"]
    names = {"des-raj": "desraj_successive", "plain-wr": "plain_wr", "hansen-hurwitz": "hh_wr"}
    for design, key in names.items():
        moments = theory.design_moments(design, w, norm, m)
        assert moments == (F(case[key]["mean"]), F(case[key]["var"]))
    pi = theory.successive_inclusion(norm, m)
    assert np.allclose(pi, [float(F(x)) for x in case["pi_successive"]], atol=1e-12, rtol=0)
    p = to_fractions(case["p"])
    # Weights of Hansen and Hurwitz, which are of draws with replacement, on draws without it.
    mismatched = theory.moments(
        (sum(w[k] / (len(w) * p[k]) for k in s) / m, q) for s, q in theory.successive_samples(p, m)
    )
    assert mismatched == tuple(F(case["hh_weights_on_successive"][k]) for k in ("mean", "var"))


def test_designs_in_two_strata_have_the_moments_of_the_reference_case():
    case = REFERENCE["pps_two_strata"]
    keys = {
        "plain-wr": "paper_plain_wr",
        "hansen-hurwitz": "hh_wr",
        "horvitz-thompson": "ht_successive",
    }
    for design, key in keys.items():
        moments = theory.stratified_moments(design, case["strata"], case["norms"], case["m_h"])
        assert moments == (F(case[key]["mean"]), F(case[key]["var"]))


@pytest.mark.parametrize("case", NEYMAN, ids=lambda c: f"N={c['N']}")
def test_allocations_agree_with_the_reference_cases(case):
    n, s, m = case["N"], case["S"], case["m"]
    if case["real"] is not None:
        real = theory.neyman_printed(n, s, m)
        assert real == to_fractions(case["real"])
        assert theory.allocation_variance(n, s, real) == F(case["V_real"])
        squared = theory.neyman_printed(n, [x * x for x in s], m)
        assert theory.allocation_variance(n, s, squared) == F(case["V_variance_as_S"])
        assert theory.neyman_bounded(n, s, m) == to_fractions(case["boxed_real"])
        assert allocations.largest_remainder(real, m) == case["largest_remainder"]
    proportional = allocations.in_proportion(n, m)
    assert theory.allocation_variance(n, s, proportional) == F(case["V_prop_real"])
    assert allocations.largest_remainder(proportional, m) == case["prop_largest_remainder"]
    least, best = theory.integer_optimum(n, s, m)
    assert least == F(case["int_opt_V"])
    assert sorted(map(list, best)) == sorted(case["int_opt"])
    assert allocation.neyman(n, s, m).tolist() == case["greedy"]


def test_variances_agree_with_the_counterexamples_to_theorem_1():
    """Theorem 1 says that the variances of FedSTS, STRADIV, STRAT and RAND ascend; each case of data/cases.json has two that
    do not."""
    cases = REFERENCE["theorem1"]
    # FedSTS draws with p proportional to the norm and takes the plain mean: it is above STRADIV, which draws uniformly.
    case = cases["sts_gt_stradiv"]
    variances = theory.per_draw(case["w"], [abs(x) for x in case["w"]])
    assert variances.plain == F(case["per_draw_var_plain_pps"])
    assert variances.uniform == F(case["per_draw_var_uniform"])
    assert variances.hansen_hurwitz == F(case["per_draw_var_hh"])
    assert variances.plain > variances.uniform
    # p proportional to norms in the wrong order: Hansen-Hurwitz is above uniform draws, too.
    case = cases["hh_wrong_norm"]
    variances = theory.per_draw(case["w"], case["norm"])
    assert variances.hansen_hurwitz == F(case["hh"])
    assert variances.uniform == F(case["uniform"])
    assert variances.hansen_hurwitz > variances.uniform
    # Strata that are all like the whole: STRAT is above RAND, which has no strata.
    case = cases["strat_gt_rand"]
    stratified = theory.stratified_random_variance(case["strata"], case["m_h"])
    assert stratified == F(case["V_strat"])
    population = [x for stratum in case["strata"] for x in stratum]
    simple = theory.simple_random_variance(population, sum(case["m_h"]))
    assert simple == F(case["V_rand"])
    assert stratified > simple
    # Allocations rounded by largest remainder: STRADIV (Neyman) is above STRAT (proportional).
    case = cases["stradiv_rounded_gt_strat"]
    neyman, proportional = (
        theory.allocation_variance(case["N"], case["S"], case[f"{name}_LR"])
        for name in ("neyman", "proportional")
    )
    assert neyman == F(case["V_neyman_LR"])
    assert proportional == F(case["V_proportional_LR"])
    assert neyman > proportional


# Designs.

value_lists = st.lists(st.fractions(-5, 5, max_denominator=6), min_size=1, max_size=4)


@given(value_lists, st.data())
@settings(max_examples=60, deadline=None)
def test_the_unbiased_designs_are_unbiased_for_any_positive_selection(values, data):
    p = data.draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    m = data.draw(st.integers(1, len(values)))
    for design in unbiasedness.UNBIASED:
        assert theory.design_moments(design, values, p, m).mean == sum(values) / len(values)


@given(value_lists, st.data())
@settings(max_examples=60, deadline=None)
def test_the_bias_of_a_plain_mean_is_a_covariance_of_expected_counts_and_values(values, data):
    n = len(values)
    p = data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    m = data.draw(st.integers(1, n))
    expected_counts = {
        "plain-wr": [F(m * x, sum(p)) for x in p],
        "plain-successive": theory.inclusion_probabilities(p, m),
    }
    for design, counts in expected_counts.items():
        covariance = sum((a - F(m, n)) * d for a, d in zip(counts, values, strict=True)) / n
        mean = theory.design_moments(design, values, p, m).mean
        assert mean - sum(values) / n == F(n, m) * covariance


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_inclusion_by_the_integral_agrees_with_the_enumeration(selection, data):
    m = data.draw(st.integers(1, len(selection)))
    exact = [float(x) for x in theory.inclusion_probabilities(selection, m)]
    assert np.allclose(theory.successive_inclusion(selection, m), exact, atol=1e-11, rtol=0)


def test_inclusion_by_the_integral_agrees_with_draws_at_the_papers_scale():
    """100 clients, 20,000 draws: each count is binomial; 6 standard errors, 100 clients: false alarm < 3e-7."""
    rng = np.random.default_rng(0)
    selection, draws = rng.lognormal(0, 1, 100), 20_000
    pi = theory.successive_inclusion(selection, 10)
    assert pi.sum() == pytest.approx(10, abs=1e-10)
    counts = np.zeros(100)
    for _ in range(draws):
        counts[successive_sample(selection, 10, rng)] += 1
    assert (abs(counts / draws - pi) < 6 * np.sqrt(pi * (1 - pi) / draws)).all()
    assert abs(pi - 10 * selection / selection.sum()).max() > 0.02  # it is not m p


def test_inclusion_by_the_integral_where_a_probability_is_zero_or_a_client_is_certain():
    assert theory.successive_inclusion([0, 1, 3], 2).tolist() == [0, 1, 1]
    assert theory.successive_inclusion([0, 0, 1, 3], 3).tolist() == [0.5, 0.5, 1, 1]
    assert theory.successive_inclusion([1, 2], 0).tolist() == [0, 0]
    assert theory.successive_inclusion([1, 1e-9, 1], 2)[1] < 1e-7
    for bad in ([-1, 2], [np.nan, 1], [[1, 2]]):
        with pytest.raises(InputError):
            theory.successive_inclusion(bad, 1)
    with pytest.raises(InputError):
        theory.successive_inclusion([1, 2], 3)


def test_the_mean_of_des_rajs_estimator_computed_by_hand():
    w, p = (1, 2, 6), to_fractions(("1/6", "1/3", "1/2"))
    mean = F(0)
    for i, j in permutations(range(3), 2):
        first, second = w[i] / p[i], w[i] + w[j] * (1 - p[i]) / p[j]
        mean += p[i] * p[j] / (1 - p[i]) * (first + second) / 6
    assert mean == 3 == theory.design_moments("des-raj", w, p, 2).mean
    # A client with p = 0 is never drawn, so the estimate lacks it.
    assert theory.design_moments("des-raj", (9, 1, 1), (0, 1, 1), 2).mean == F(2, 3)


def test_a_stratum_without_a_draw_and_other_bad_input_is_refused():
    with pytest.raises(InputError):
        theory.stratified_moments("plain-wr", [[1], [2]], [[1], [1]], [1, 0])
    with pytest.raises(InputError):
        theory.stratified_moments("plain-wr", [[1], [2]], [[1], [1]], [1])
    with pytest.raises(InputError):
        theory.per_draw((1, 2), (0, 1))
    with pytest.raises(InputError):
        theory.theorem_1([[1.0], [2.0]], [0, 0], [0, 1], 1)


# Allocations.


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), min_size=1, max_size=3), st.data())
@settings(max_examples=80, deadline=None)
def test_the_bounded_optimum_is_below_all_integer_allocations_and_within_its_bounds(strata, data):
    n, s = zip(*strata, strict=True)
    m = data.draw(st.integers(len(n), sum(n)))
    least, best = theory.integer_optimum(n, s, m)
    assert theory.allocation_variance(n, s, allocation.neyman(n, s, m).tolist()) == least
    assert all(sum(b) == m for b in best)
    if any(s):
        real = theory.neyman_bounded(n, s, m)
        assert sum(real) == m
        assert all(1 <= k <= a for k, a in zip(real, n, strict=True))
        assert theory.allocation_variance(n, s, real) <= least


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
def test_an_allocation_by_variances_is_no_better_than_the_proportional_one(strata):
    n, s = zip(*strata, strict=True)
    by_deviation = theory.allocation_variance(n, s, theory.neyman_printed(n, s, 7))
    by_variance = theory.allocation_variance(n, s, theory.neyman_printed(n, [x * x for x in s], 7))
    assert by_variance == theory.allocation_variance(n, s, allocations.in_proportion(n, 7))
    assert by_deviation <= by_variance
    assert (by_deviation == by_variance) == (len(set(s)) == 1)


def test_the_bounded_allocation_handles_constant_and_full_strata_and_refuses_the_impossible():
    assert theory.allocation_variance((2, 2), (0, 1), (0, 2)) == F(1, 8)
    assert theory.allocation_variance((2, 2), (1, 1), (0, 2)) == inf
    assert theory.neyman_bounded((2, 5), (3, 0), 6) == [2, 4]  # the spread stratum is full
    for call in (
        lambda: theory.neyman_printed((1, 2), (0, 0), 2),
        lambda: theory.neyman_bounded((1, 2), (0, 0), 2),
        lambda: theory.neyman_bounded((2, 2), (1, 1), 1),
        lambda: theory.integer_optimum((2, 2), (1, 1), 5),
        lambda: theory.allocation_variance((), (), ()),
    ):
        with pytest.raises(InputError):
            call()


# Variances.


def test_theorem_1_function_agrees_with_the_exact_moments():
    w, norm = (1, 2, 6), (1, 2, 3)
    v = theory.theorem_1(w, (0, 0, 0), norm, 2)
    for name, design, p in (
        ("sts", "plain-wr", norm),
        ("corrected", "hansen-hurwitz", norm),
        ("rand", "plain-wr", (1, 1, 1)),
        ("stradiv", "plain-wr", (1, 1, 1)),
    ):
        exact = theory.design_moments(design, w, p, 2).variance
        assert getattr(v, name) == pytest.approx(float(exact), rel=1e-12)
    assert v.squared_bias == pytest.approx((5 / 6) ** 2)
    two_strata = theory.theorem_1((0, 2, 5, 5), (0, 0, 1, 1), [1, 1, 1, 1], 2)
    assert two_strata.strat == pytest.approx(0.25)  # (1/2 * 1 + 1/2 * 0) / 2
    assert two_strata.stradiv == pytest.approx(0.125)  # (1/2 * 1)^2 / 2


def test_the_gain_of_strata_is_between_minus_within_variance():
    for w in product(range(3), repeat=4):
        strata = (w[:2], w[2:])
        n, m = 4, 2
        # sum N_h (mean_h - mean)^2
        between = sum(2 * (F(sum(h), 2) - F(sum(w), 4)) ** 2 for h in strata)
        # sum (1 - N_h / N) S_h^2: two of four are 1/2, and S_h^2 of two numbers is half their squared difference
        inside = sum(F(1, 2) * F((h[0] - h[1]) ** 2, 2) for h in strata)
        gain = (1 - F(m, n)) / (m * (n - 1)) * (between - inside)
        assert (
            theory.simple_random_variance(w, m) - theory.stratified_random_variance(strata, (1, 1))
            == gain
        )


def test_no_random_federation_violates_the_corrected_order_of_the_variances_of_theorem_1():
    assert variance.corrected_chain(500) == 0


def test_no_selection_beats_the_norm_of_what_is_averaged():
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = [int(x) for x in rng.integers(-5, 6, 4)]
        if all(values):
            by_norm = theory.per_draw(values, [abs(x) for x in values]).hansen_hurwitz
            selection = [int(x) for x in rng.integers(1, 9, 4)]
            assert by_norm <= theory.per_draw(values, selection).hansen_hurwitz
            assert by_norm <= theory.per_draw(values, selection).uniform


# The verdicts.

EXPECTED = {
    (unbiasedness, "lemma_1"): "fails",
    (unbiasedness, "algorithm"): "fails",
    (unbiasedness, "selection_probability"): "holds-if",
    (unbiasedness, "weights"): "holds-if",
    (unbiasedness, "expansion"): "holds-if",
    (unbiasedness, "weights_sum_to_one"): "holds-if",
    (unbiasedness, "empty_stratum"): "fails",
    (unbiasedness, "cohort_weights"): "holds-if",
    (variance, "theorem_1_first"): "fails",
    (variance, "theorem_1_third"): "holds-if",
    (variance, "theorem_1"): "fails",
    (variance, "combined"): "fails",
    (variance, "wrong_norm"): "holds-if",
    (evidence_allocations, "theorem_1_second"): "holds-if",
    (evidence_allocations, "neyman"): "holds-if",
    (evidence_allocations, "whole_allocation"): "fails",
    (evidence_allocations, "spread_of_draws"): "holds-if",
}


@cache
def compute_evidence(module, name):
    """Compute the evidence for one claim, once for all tests."""
    return getattr(module, name)()


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "verdict"), EXPECTED.items(), ids=lambda x: str(x)[-30:])
def test_every_claim_has_the_expected_verdict(claim, verdict):
    result = compute_evidence(*claim)
    assert result.verdict == verdict
    assert result.verdict in VERDICTS
    assert result.note.endswith(".")
    assert len(result.table)


@pytest.mark.slow
def test_the_counterexamples_of_the_verdicts_have_the_known_values():
    values = {name: compute_evidence(module, name).ours for module, name in EXPECTED}
    # Updates 0, 1 that are drawn with probabilities 1/3 and 2/3.
    assert values["lemma_1"] == "2/3 instead of 1/2"
    assert values["algorithm"] == "31/10 or 38561/14280 instead of 15/7"
    assert values["weights"] == "1/3 against 4/5"
    assert values["weights_sum_to_one"] == "3/10 or 27/20"
    # Updates 1, 1, 2: by norm 5/2 - (3/2)^2, uniformly 2 - (4/3)^2.
    assert values["theorem_1_first"] == "1/4 > 2/9"
    assert values["theorem_1_second"] == "27/80 > 1/4"
    assert values["theorem_1_third"] == "41/25 > 1"
    assert values["neyman"] == "7/5"


def test_terms_that_theorem_1_neglects_decide_none_of_its_inequalities():
    """Theorem 1 neglects m/N, m_h/N_h, 1/m_h and 1/N: finite populations and small allocations are not judged."""
    assert "61/121" in set(
        compute_evidence(evidence_allocations, "theorem_1_second").table["V(stradiv)"]
    )
    assert "1/2" in set(compute_evidence(variance, "theorem_1_third").table["V(strat)"])
    proportional = {"proportional": variance.PLAIN["proportional"]}
    result = variance.theorem_1_third(plain=proportional)
    assert (result.verdict, result.ours) == ("holds", "V(strat) ≤ V(rand)")
    values = result.table[["V(strat)", "V(rand)"]].map(F)
    assert (values["V(strat)"] > values["V(rand)"]).sum() == 3  # in the table, but not judged


def test_no_counterexample_is_smaller_than_the_smallest_one():
    counterexamples = [
        (w, g)
        for n in (1, 2)
        for w in product(range(3), repeat=n)
        for g in product((1, 2), repeat=n)
        if theory.design_moments("plain-wr", w, g, 1).mean != F(sum(w), n)
    ]
    assert min(sum(w) + sum(g) for w, g in counterexamples) == 4
    assert all(len(w) == 2 for w, g in counterexamples)
    smallest, _ = variance.first_smallest()
    assert smallest == (1, 1, 2)
    for w in product(range(1, 9), repeat=2):  # no two clients violate the first inequality
        variances = theory.per_draw(w, w)
        assert variances.plain <= variances.uniform


def test_the_error_of_weights_on_models_grows_with_the_square_of_the_common_part():
    omega, models = to_fractions(("1/10", "1/10", "4/5")), (1, 2, 6)
    base, far = (
        sqrt(theory.expansion_moments([c + x for x in models], omega, (1, 1, 1), 2).variance)
        for c in (1000, 10_000)
    )
    assert far / base == pytest.approx(10, rel=0.02)


def test_expected_weights_add_up_what_a_client_weighs_over_all_cohorts():
    one_of_two = [((0,), (F(1),), F(1, 3)), ((1,), (F(1),), F(2, 3))]
    assert theory.expected_weights(2, one_of_two) == [F(1, 3), F(2, 3)]
    pairs = [(pair, (F(1, 2),) * 2, F(1, 4)) for pair in product(range(2), repeat=2)]
    assert theory.expected_weights(3, pairs) == [F(1, 2), F(1, 2), 0]  # drawn twice, counted twice


@pytest.mark.parametrize("part", ["unbiasedness", "variance"])
def test_exercises_accept_the_solution_and_reject_each_mistake(part):
    names = [n for n in check.names() if n.startswith(f"{part}/")]
    assert sorted(check.exercise(n).level for n in names) == [1, 2, 3]
    for name in names:
        exercise = check.exercise(name)
        assert check.answer(name, exercise.solution)
        is_example = isinstance(exercise, check.Example)
        mistakes = exercise.mistakes if is_example else exercise.mistakes.values()
        assert len(mistakes) >= 2
        assert not any(check.answer(name, mistake) for mistake in mistakes)


@pytest.mark.parametrize("m", [14, 2**63, 1e308])
def test_more_draws_than_clients_have_no_allocation(m):
    assert not [*allocations.integer_allocations([13], m)]
    with pytest.raises(InputError, match="no allocation has"):
        theory.integer_optimum([13], [13], m)
