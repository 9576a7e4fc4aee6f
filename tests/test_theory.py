"""Exact moments, against the reference cases and against independent enumeration."""

import math
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE, to_fractions

from fedstas import privacy, theory
from fedstas.errors import InputError

PPS = REFERENCE["pps"]["cases"]
SIZE_CASES = [c for c in REFERENCE["ntilde_small"]["cases"] if c["fake_support"] == "1..M-1"]
REFERENCE_KEYS = {  # names of designs -> keys of the reference cases
    "plain-wr": "plain_wr",
    "plain-successive": "plain_successive",
    "hansen-hurwitz": "hh_wr",
    "horvitz-thompson": "ht_successive_true_pi",
}


@pytest.mark.parametrize("design", theory.DESIGNS)
@pytest.mark.parametrize("case", PPS, ids=lambda c: f"w={c['w']}")
def test_design_moments_are_those_of_the_reference_cases(case, design):
    mean, variance = theory.design_moments(design, case["w"], case["norm"], case["m"])
    expected = case[REFERENCE_KEYS[design]]
    assert (mean, variance) == (Fraction(expected["mean"]), Fraction(expected["var"]))
    assert isinstance(mean, Fraction)
    assert isinstance(variance, Fraction)


@pytest.mark.parametrize("case", PPS, ids=lambda c: f"w={c['w']}")
def test_inclusion_probabilities_are_those_of_the_reference_cases(case):
    pi = theory.inclusion_probabilities(case["norm"], case["m"])
    assert pi == [Fraction(x) for x in case["pi_successive"]]
    assert pi != [case["m"] * Fraction(x) for x in case["p"]]


def test_variances_per_draw_of_the_counterexamples_to_theorem_1_are_those_of_the_reference():
    case = REFERENCE["theorem1"]["sts_gt_stradiv"]
    size = [abs(x) for x in case["w"]]

    def per_draw(design, selection):
        """Return the variance of one draw."""
        return theory.design_moments(design, case["w"], selection, 1).variance

    assert per_draw("plain-wr", size) == Fraction(case["per_draw_var_plain_pps"])
    assert per_draw("plain-wr", [1] * 4) == Fraction(case["per_draw_var_uniform"])
    assert per_draw("hansen-hurwitz", size) == Fraction(case["per_draw_var_hh"])
    case = REFERENCE["theorem1"]["hh_wrong_norm"]
    by_norm = theory.design_moments("hansen-hurwitz", case["w"], case["norm"], 1)
    assert by_norm == (Fraction(5, 2), Fraction(case["hh"]))
    uniform = theory.design_moments("hansen-hurwitz", case["w"], [1] * 4, 1)
    assert uniform == (Fraction(5, 2), Fraction(case["uniform"]))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_inclusion_probabilities_sum_to_m_and_lie_in_the_unit_interval(selection, data):
    m = data.draw(st.integers(1, len(selection)))
    pi = theory.inclusion_probabilities(selection, m)
    assert sum(pi) == m
    assert all(0 < x <= 1 for x in pi)
    if m == 1:
        assert pi == [Fraction(w, sum(selection)) for w in selection]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any), st.data())
def test_the_probabilities_of_enumerated_samples_sum_to_one_and_no_sample_is_repeated(
    selection, data
):
    m = data.draw(st.integers(1, sum(x > 0 for x in selection)))
    for enumerate_samples in (theory.samples_with_replacement, theory.successive_samples):
        samples = list(enumerate_samples(selection, m))
        assert sum(probability for _, probability in samples) == 1
        assert len({sample for sample, _ in samples}) == len(samples)
    assert all(len(set(sample)) == m for sample, _ in theory.successive_samples(selection, m))


def test_a_client_with_probability_zero_is_never_drawn():
    assert theory.inclusion_probabilities([0, 1, 3], 2) == [0, 1, 1]
    mean, _ = theory.design_moments("hansen-hurwitz", [9, 1, 1], [0, 1, 1], 2)
    # The estimate lacks the first client: Hansen-Hurwitz is unbiased only if every p is above 0.
    assert mean == Fraction(2, 3)


def test_floats_and_numpy_numbers_are_taken_at_their_exact_values():
    exact = theory.design_moments("plain-wr", [0.5, 2], np.array([1, 3]), 1)
    assert exact[0] == Fraction(1, 8) + Fraction(3, 2)


@pytest.mark.parametrize("case", SIZE_CASES, ids=lambda c: f"M={c['M']}-n={c['n_clipped']}")
def test_size_estimator_moments_are_those_of_the_reference_cases(case):
    exact = theory.size_estimator_moments(case["n_clipped"], case["M"], case["alpha"])
    assert exact.mean == Fraction(case["mean"]) == case["true_total"]
    assert exact.variance == Fraction(case["var"])
    assert exact.p_not_positive == Fraction(case["P_le_0"])
    assert exact.inverse_mean == Fraction(case["E_inverse"])
    assert exact[:2] == (exact.mean, exact.variance)


def test_the_inverse_has_no_mean_where_the_estimate_can_be_zero():
    exact = theory.size_estimator_moments([1, 2], 3, "1/2")  # reports 1 and 2, shift 3/2
    values = {(r1 + r2 - Fraction(3, 2)) / Fraction(1, 2) for r1, r2 in product((1, 2), repeat=2)}
    assert 0 not in values
    assert exact.inverse_mean is not None
    assert theory.size_estimator_moments([3, 3, 3], 4, "1/2").inverse_mean is None


def test_size_estimator_of_the_papers_setting_has_the_reference_values():
    paper = REFERENCE["ntilde_paper_float"]
    setting = paper["inputs"]
    alpha, m, n_star = float(Fraction(setting["alpha"])), setting["m"], setting["n_star"]
    sizes = np.full(m, setting["n_k"])
    values, pmf = theory.size_estimator_distribution(sizes, setting["M"], alpha)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert values @ pmf == pytest.approx(paper["mean"], rel=1e-12)
    assert (values**2) @ pmf - (values @ pmf) ** 2 == pytest.approx(paper["var"], rel=1e-11)
    assert pmf[values <= 0].sum() == pytest.approx(paper["p_le0"], rel=1e-12)
    assert (1 / values) @ pmf == pytest.approx(paper["e_inv"], rel=1e-11)
    raw = n_star / values
    true, clipped = n_star / sizes.sum(), n_star / (m * setting["n_clipped"])
    outside = pmf[(raw <= 0) | (raw > 1)].sum()
    assert outside == pytest.approx(paper["P(n*/nt not in (0,1])"], rel=1e-12)
    for guard, rate in (
        ("[raw]", raw),
        ("[ref fedstas: min(1,n*/max(nt,1))]", np.minimum(1, n_star / np.maximum(values, 1))),
        ("[ref FedSampling: min(1,n*/max(nt,m))]", np.minimum(1, n_star / np.maximum(values, m))),
    ):
        assert rate @ pmf == pytest.approx(paper[f"E p~ {guard}"], rel=1e-11)
        for name, target in (("n*/n", true), ("n*/n_c", clipped)):
            mse = (rate - target) ** 2 @ pmf
            assert mse == pytest.approx(paper[f"MSE p~ vs {name} {guard}"], rel=1e-10)


def test_the_float_distribution_is_that_of_the_exact_moments():
    values, pmf = theory.size_estimator_distribution([0, 2, 9], 5, 0.25)
    exact = theory.size_estimator_moments([1, 2, 4], 5, "1/4")
    assert values @ pmf == pytest.approx(float(exact.mean), rel=1e-12)
    assert values**2 @ pmf - (values @ pmf) ** 2 == pytest.approx(float(exact.variance), rel=1e-12)
    assert pmf[values <= 0].sum() == pytest.approx(float(exact.p_not_positive), rel=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in REFERENCE["ldp"]["cases"]
        if c["fake_support"] == "1..M-1" and c["inputs"] == "1..M-1"
    ],
    ids=lambda c: f"M={c['M']}",
)
def test_ldp_ratio_of_the_reference_cases(case):
    assert theory.ldp_ratio(case["M"], case["alpha"]) == Fraction(case["max_ratio"])


def test_ldp_ratio_of_the_papers_alpha():
    ratio = Fraction(REFERENCE["ldp"]["alpha_0p1616"]["support_1_M1"])
    assert theory.ldp_ratio(100, Fraction("0.1616")) == ratio
    assert math.log(ratio) == pytest.approx(privacy.epsilon(0.1616, 100), rel=1e-12)


@given(st.integers(3, 9), st.fractions(0, "9/10", max_denominator=20))
def test_ldp_ratio_is_one_plus_the_closed_form(size_cap, alpha):
    assert theory.ldp_ratio(size_cap, alpha) == 1 + (size_cap - 1) * alpha / (1 - alpha)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.design_moments("best", [1], [1], 1), "design 'best'.*plain-wr"),
        (lambda: theory.design_moments("plain-wr", [1, 2], [1], 1), "same length"),
        (lambda: theory.design_moments("plain-wr", [1, 2], [0, 0], 1), "not all zero"),
        (lambda: theory.design_moments("plain-wr", [1, 2], [2, -1], 1), ">= 0"),
        (lambda: theory.inclusion_probabilities([1, 0], 2), "m is 2.*at most 1"),
        (lambda: list(theory.samples_with_replacement([1, 2], 0)), "m is 0"),
        (lambda: list(theory.samples_with_replacement([1] * 10, 9)), "too many to enumerate"),
        (lambda: theory.size_estimator_moments([4], 4, "1/2"), "a size is 4"),
        (lambda: theory.size_estimator_moments([0], 4, "1/2"), "a size is 0"),
        (lambda: theory.size_estimator_moments([1], 4, 0), "alpha is 0"),
        (lambda: theory.ldp_ratio(4, 1), "alpha is 1"),
        (lambda: theory.ldp_ratio(1, "1/2"), "size_cap is 1"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("case", REFERENCE["srs_lemma3"])
def test_lemma_3_agrees_with_the_reference_and_with_enumeration(case):
    g = np.array(case["g"], dtype=object) * Fraction(1)
    result = theory.srs_covariance(g, case["nbar"])
    assert result.tolist() == to_fractions(case["cov"])
    means = [sum(g[i] for i in s) / case["nbar"] for s in combinations(range(len(g)), case["nbar"])]
    centre = sum(means) / len(means)
    enumerated = sum(np.outer(x - centre, x - centre) for x in means) / len(means)
    assert enumerated.tolist() == result.tolist()
    np.testing.assert_allclose(
        theory.srs_covariance(case["g"], case["nbar"]), result.astype(float), atol=1e-12
    )


@pytest.mark.parametrize("case", REFERENCE["lemma4_vs_designs"]["cases"])
def test_lemma_4_as_printed_and_the_bernoulli_covariance_agree_with_the_reference(case):
    g = np.array(case["g"], dtype=object) * Fraction(1)
    n, n_star, size = case["n"], case["nstar"], case["nbar"]
    assert theory.paper_lemma4(g, n, n_star, size).tolist() == to_fractions(case["lemma4"])
    result = theory.bernoulli_covariance(g, Fraction(n_star, n), size)
    assert result.tolist() == to_fractions(case["bernoulli_fixed_norm"])


def test_bernoulli_covariance_is_that_of_all_enumerated_samples():
    g, rate = np.array([[1, 0], [0, 2], [3, -1]], dtype=object) * Fraction(1), Fraction(1, 3)
    mean, square = np.array([Fraction(0)] * 2), np.full((2, 2), Fraction(0))
    for sample in product((0, 1), repeat=3):
        probability = prod(rate if z else 1 - rate for z in sample)
        value = sum(z * x for z, x in zip(sample, g, strict=True)) / Fraction(2)
        mean, square = mean + probability * value, square + probability * np.outer(value, value)
    result = theory.bernoulli_covariance(g, rate, 2)
    assert result.tolist() == (square - np.outer(mean, mean)).tolist()


def test_lemma_4_as_printed_is_negative_definite_at_the_papers_scale():
    case = REFERENCE["lemma4_paper_scale"]
    g = np.eye(2, dtype=object) * Fraction(1)
    outer, total = Fraction(case["coef_gg"]), Fraction(case["coef_ss"])
    result = theory.paper_lemma4(g, case["n"], case["nstar"], case["nbar"])
    assert result.tolist() == [[outer + total, total], [total, outer + total]]
    assert np.linalg.eigvalsh(result.astype(float)).max() < 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.srs_covariance([[1.0]], 2), "sample_size is 2"),
        (lambda: theory.srs_covariance([], 1), "sample_size"),
        (lambda: theory.bernoulli_covariance([[1.0]], 2, 1), "rate is 2"),
        (lambda: theory.paper_lemma4([[1.0]], 1, 1, 1), "n is 1"),
    ],
)
def test_covariances_refuse_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
