"""Randomised response: its distribution, the estimate from it, and its price."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE
from scipy.integrate import quad
from scipy.stats import chisquare, kstest, laplace, norm

from fedstas import privacy, theory
from fedstas.errors import InputError

SMALL = [c for c in REFERENCE["ntilde_small"]["cases"] if c["fake_support"] == "1..M-1"]
LDP = [
    c
    for c in REFERENCE["ldp"]["cases"]
    if c["fake_support"] == "1..M-1" and c["inputs"] == "1..M-1"
]


@pytest.mark.parametrize("case", LDP, ids=lambda c: f"M={c['M']}")
def test_truth_probability_of_the_reference_cases(case):
    alpha = privacy.truth_probability(math.log(case["exp_eps_target"]), case["M"])
    assert alpha == pytest.approx(float(Fraction(case["alpha"])), rel=1e-12)
    assert math.exp(privacy.epsilon(alpha, case["M"])) == pytest.approx(
        float(Fraction(case["max_ratio"])), rel=1e-12
    )


def test_truth_probability_of_the_paper():
    alpha = privacy.truth_probability(3, 100)
    assert alpha == pytest.approx(REFERENCE["ldp"]["alpha_eps3_M100_float"], rel=1e-12)


def test_the_epsilon_of_the_papers_rounded_alpha():
    ratio = Fraction(REFERENCE["ldp"]["alpha_0p1616"]["support_1_M1"])
    assert privacy.epsilon(0.1616, 100) == pytest.approx(math.log(ratio), rel=1e-12)


@given(st.floats(1e-3, 20), st.integers(3, 10_000))
def test_epsilon_inverts_truth_probability_and_is_the_worst_ratio(epsilon, size_cap):
    alpha = privacy.truth_probability(epsilon, size_cap)
    assert 0 < alpha < 1
    assert privacy.epsilon(alpha, size_cap) == pytest.approx(epsilon, rel=1e-6)
    if size_cap <= 12:
        assert float(theory.ldp_ratio(size_cap, alpha)) == pytest.approx(
            math.exp(privacy.epsilon(alpha, size_cap)), rel=1e-9
        )


def test_an_epsilon_that_would_reveal_every_true_size_is_refused():
    for size_cap in (3, 100, 2**31 - 1):
        limit = 36 + math.log(size_cap - 1)
        alpha = privacy.truth_probability(limit, size_cap)
        assert alpha < 1  # and so a fake is possible
        assert privacy.epsilon(alpha, size_cap) == pytest.approx(limit, abs=0.5)
        for epsilon in (limit + 0.01, limit + 10, 5000.0):
            with pytest.raises(InputError, match=f"epsilon is {epsilon}.*at most"):
                privacy.truth_probability(epsilon, size_cap)
    assert privacy.epsilon(1.0, 100) == math.inf
    assert privacy.epsilon(0.0, 100) == 0.0


@given(
    st.lists(st.integers(0, 10_000), max_size=30),
    st.integers(3, 300),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_reports_lie_in_one_to_size_cap_minus_one(sizes, size_cap, alpha, seed):
    reports = privacy.report(sizes, size_cap=size_cap, alpha=alpha, rng=np.random.default_rng(seed))
    assert reports.shape == (len(sizes),)
    assert reports.dtype.kind == "i"
    assert ((reports >= 1) & (reports <= size_cap - 1)).all()


def test_with_alpha_one_the_clipped_size_is_reported():
    reports = privacy.report(
        [0, 1, 50, 99, 100, 600], size_cap=100, alpha=1.0, rng=np.random.default_rng(0)
    )
    assert reports.tolist() == [1, 1, 50, 99, 99, 99]


@pytest.mark.parametrize("size", [0, 1, 4, 7, 900])
def test_reports_have_the_distribution_of_the_mechanism(size, false_alarm):
    size_cap, alpha, trials = 8, 0.3, 40_000
    reports = privacy.report(
        np.full(trials, size), size_cap=size_cap, alpha=alpha, rng=np.random.default_rng(size)
    )
    expected = np.full(size_cap - 1, (1 - alpha) / (size_cap - 1))
    expected[min(max(size, 1), size_cap - 1) - 1] += alpha
    observed = np.bincount(reports, minlength=size_cap)[1:]
    assert chisquare(observed, expected * trials).pvalue > false_alarm


@pytest.mark.parametrize("case", SMALL, ids=lambda c: f"M={c['M']}-n={c['n_clipped']}")
def test_estimate_over_all_reports_has_the_moments_of_the_reference_case(case):
    sizes, size_cap, alpha = case["n_clipped"], case["M"], float(Fraction(case["alpha"]))
    fake = (1 - alpha) / (size_cap - 1)
    mean = square = below = 0.0
    for reports in product(range(1, size_cap), repeat=len(sizes)):
        pairs = zip(reports, sizes, strict=True)
        chance = math.prod(fake + alpha * (r == n) for r, n in pairs)
        value = privacy.estimate_total(reports, size_cap=size_cap, alpha=alpha)
        mean, square = mean + chance * value, square + chance * value**2
        below += chance * (value <= 0)
    assert mean == pytest.approx(case["true_total"], rel=1e-12)
    assert square - mean**2 == pytest.approx(float(Fraction(case["var"])), rel=1e-11)
    assert below == pytest.approx(float(Fraction(case["P_le_0"])), rel=1e-12)
    formula = privacy.estimate_variance(sizes, size_cap=size_cap, alpha=alpha)
    assert formula == pytest.approx(float(Fraction(case["var"])), rel=1e-12)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.fractions("1/10", 1))
def test_variance_formula_equals_the_enumeration(sizes, alpha):
    exact = theory.size_estimator_moments(sizes, 6, alpha)
    formula = privacy.estimate_variance(sizes, size_cap=6, alpha=float(alpha))
    assert formula == pytest.approx(float(exact.variance), rel=1e-9, abs=1e-12)
    assert exact.mean == sum(sizes)


def test_estimate_and_variance_of_the_papers_setting():
    paper = REFERENCE["ntilde_paper_float"]
    alpha = float(Fraction(paper["inputs"]["alpha"]))
    variance = privacy.estimate_variance(np.full(10, 600), size_cap=100, alpha=alpha)
    assert variance == pytest.approx(paper["var"], rel=1e-12)
    assert math.sqrt(variance) == pytest.approx(paper["sd"], rel=1e-12)


def test_the_estimate_is_not_clipped_and_may_be_negative():
    assert privacy.estimate_total([1] * 10, size_cap=100, alpha=0.1616) < -2000


@pytest.mark.parametrize("reports", [0, 1, 7, 99])
def test_composition_without_delta_is_reports_times_epsilon(reports):
    assert privacy.composed_epsilon(0.3, 10, reports) == pytest.approx(
        reports * privacy.epsilon(0.3, 10), rel=1e-14
    )


@pytest.mark.parametrize("reports", [1, 10, 99])
def test_composition_with_delta_has_the_reference_values(reports):
    expected = REFERENCE["ldp"]["eps_k_reports_delta1e5_float"][str(reports)]
    alpha = REFERENCE["ldp"]["alpha_eps3_M100_float"]
    assert privacy.composed_epsilon(alpha, 100, reports, 1e-5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("delta", [0.9, 0.3, 0.05, 1e-3])
@pytest.mark.parametrize(("size_cap", "reports"), [(3, 4), (4, 3), (6, 3)])
def test_composition_is_exact_by_enumeration_of_all_reports(size_cap, reports, delta):
    alpha = 0.35
    fake = (1 - alpha) / (size_cap - 1)
    pairs = []
    for r in product(range(1, size_cap), repeat=reports):
        chance_of_size_1 = math.prod(fake + alpha * (x == 1) for x in r)
        chance_of_size_2 = math.prod(fake + alpha * (x == 2) for x in r)
        pairs.append((chance_of_size_1, chance_of_size_2))

    def excess(epsilon):
        """Return by how much the reports of size 1 exceed e^epsilon times those of size 2."""
        return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs)

    epsilon_bound = privacy.composed_epsilon(alpha, size_cap, reports, delta)
    assert (epsilon_bound == 0) == (delta == 0.9)  # so much is allowed that no report costs epsilon
    if epsilon_bound == 0:
        assert excess(0) <= delta
    else:
        assert excess(epsilon_bound) == pytest.approx(delta, rel=1e-9)


def test_a_delta_of_one_no_report_or_no_true_report_costs_no_epsilon():
    assert privacy.composed_epsilon(0.3, 10, 5, 1.0) == 0.0
    assert privacy.composed_epsilon(0.3, 10, 0, 1e-5) == 0.0
    assert privacy.composed_epsilon(0.0, 10, 5) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy.truth_probability(0, 100), "epsilon is 0"),
        (lambda: privacy.truth_probability(-1, 100), "epsilon is -1"),
        (lambda: privacy.truth_probability(math.inf, 100), "epsilon is inf"),
        (lambda: privacy.truth_probability(3, 1), "size_cap is 1"),
        (lambda: privacy.truth_probability(3, 9.5), "size_cap is 9.5"),
        (lambda: privacy.epsilon(1.1, 10), "alpha is 1.1"),
        (lambda: privacy.estimate_total([1], size_cap=10, alpha=0), "alpha is 0"),
        (lambda: privacy.estimate_variance([1], size_cap=10, alpha=0), "alpha is 0"),
        (lambda: privacy.clip([-1], 10), r"client sizes are \[-1\].*>= 0"),
        (lambda: privacy.clip([1], 1), "size_cap is 1"),
        (lambda: privacy.truth_probability(3, 1e20), r"size_cap is 1e\+20.*at most 2147483647"),
        (lambda: privacy.epsilon(0.5, 10**400), "size_cap is 1000"),
        (lambda: privacy.clip([1], 1e20), r"size_cap is 1e\+20"),
        (lambda: privacy.clip([1.5], 10), "whole numbers"),
        (lambda: privacy.clip(["5"], 10), "client sizes"),
        (lambda: privacy.report([5], size_cap=10**20, alpha=0.5, rng=None), "size_cap is 1000"),
        (lambda: privacy.estimate_total([5], size_cap=1e20, alpha=0.5), r"size_cap is 1e\+20"),
        (lambda: privacy.estimate_total([np.nan], size_cap=9, alpha=0.5), "reports are"),
        (lambda: privacy.estimate_total([5], size_cap=9, alpha=1e-310), "alpha is 1e-310"),
        (lambda: privacy.estimate_total([5000], size_cap=100, alpha=0.5), "reports are .* most 99"),
        (lambda: privacy.estimate_total([0], size_cap=100, alpha=0.5), "reports are .* >= 1"),
        (lambda: privacy.gaussian_delta(0, 1, 1), "sigma is 0"),
        (lambda: privacy.gaussian_delta(-1, 1, 1), "sigma is -1"),
        (lambda: privacy.gaussian_delta(1, -1, 1), "epsilon is -1"),
        (lambda: privacy.gaussian_delta(1, 1, 0), "sensitivity is 0"),
        (lambda: privacy.estimate_variance([5], size_cap=9, alpha=1e-200), "alpha is 1e-200"),
        (lambda: privacy.composed_epsilon(0.3, 10, -1), "reports is -1"),
        (lambda: privacy.composed_epsilon(0.3, 10, 2, 2.0), "delta is 2"),
    ],
)
def test_privacy_parameters_out_of_range_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_the_noise_of_label_counts_has_the_density_that_its_epsilon_promises():
    """Laplace noise of scale b has log densities that differ by at most 1/b between counts that differ by one; that the
    noise is Laplace's is a Kolmogorov-Smirnov test, which fails a right sampler once in a million."""
    epsilon, counts = 0.5, np.array([[3, 0, 7]])
    rng = np.random.default_rng(0)
    noise = privacy.noisy_counts(np.repeat(counts, 20_000, 0), epsilon, rng) - counts
    assert kstest(noise.ravel(), laplace(scale=1 / epsilon).cdf).pvalue > 1e-6
    answers = np.linspace(-20, 20, 401)
    log_density_of_3, log_density_of_4 = (
        laplace(loc=c, scale=1 / epsilon).logpdf(answers) for c in (3, 4)
    )
    assert np.abs(log_density_of_3 - log_density_of_4).max() == pytest.approx(
        epsilon
    )  # one example more or fewer
    # An example that changes its class moves two counts.
    pairs = laplace(loc=[3, 4], scale=1 / epsilon).logpdf(answers[:, None])
    swapped = laplace(loc=[4, 3], scale=1 / epsilon).logpdf(answers[:, None])
    log_ratio = np.add.outer(*(pairs - swapped).T)
    assert np.abs(log_ratio).max() == pytest.approx(2 * epsilon)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, None])
def test_noise_of_label_counts_needs_an_epsilon_above_zero(epsilon):
    with pytest.raises(InputError, match=r"epsilon is .*: it must be a number above 0"):
        privacy.noisy_counts([1, 2], epsilon, np.random.default_rng(0))


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.4, 0.1), (1.0, 1.0), (3.0, 0.5), (0.7, 6.0)])
def test_the_delta_of_gaussian_noise_is_the_integral_of_its_definition(sigma, epsilon):
    density_of_0, density_of_1 = norm(0, sigma).pdf, norm(1, sigma).pdf
    value, error = quad(
        lambda x: max(0.0, density_of_1(x) - math.exp(epsilon) * density_of_0(x)),
        -30,
        60,
        points=[0, 1],
        limit=500,
    )
    assert privacy.gaussian_delta(sigma, epsilon, 1.0) == pytest.approx(value, abs=1e-9 + error)
    # At epsilon 0 it is the distance in total variation of two normal laws.
    distance = 2 * norm.cdf(1 / (2 * sigma)) - 1
    assert privacy.gaussian_delta(sigma, 0.0, 1.0) == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("epsilon", [699.0, 700.0, 701.0, 2000.0, 1e5])
def test_the_delta_of_a_large_epsilon_is_finite_and_the_inverse_of_epsilon(epsilon):
    assert privacy.gaussian_delta(1, epsilon, 1) == 0
    sensitivity = math.sqrt(2 * epsilon) - 1  # so that delta is between 0 and 1
    delta = privacy.gaussian_delta(1, epsilon, sensitivity)
    assert 0.01 < delta < 0.99
    assert privacy.gaussian_epsilon(1, delta, sensitivity) == pytest.approx(epsilon, rel=1e-9)
    assert privacy.gaussian_delta(1e-320, epsilon, 1e300) == 1


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_sigma_is_the_least_that_is_private(epsilon, delta):
    sigma = privacy.gaussian_sigma(epsilon, delta, 2.0)
    assert privacy.gaussian_delta(sigma, epsilon, 2.0) == pytest.approx(delta, rel=1e-6)
    assert privacy.gaussian_delta(sigma * 0.999, epsilon, 2.0) > delta
    if epsilon < 1:  # the classical bound, sufficient there (Dwork and Roth 2014, Theorem A.1)
        assert sigma < 2.0 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_a_noisy_sketch_is_short_and_its_noise_is_that_of_its_epsilon():
    """Noise is compared with sigma by a Kolmogorov-Smirnov test that fails a right sampler once in a million."""
    long, clip = np.array([30.0, 40.0]), 5.0
    rng = np.random.default_rng(0)
    answers = np.stack([privacy.noisy_sketch(long, clip, 2.0, 1e-5, rng) for _ in range(4000)])
    sigma = privacy.gaussian_sigma(2.0, 1e-5, 2 * clip)
    noise = (answers - [3.0, 4.0]) / sigma
    assert kstest(noise.ravel(), norm.cdf).pvalue > 1e-6
    short = privacy.noisy_sketch([0.3, 0.4], clip, 2.0, 1e-5, np.random.default_rng(1))
    noise_alone = privacy.noisy_sketch([0.0, 0.0], clip, 2.0, 1e-5, np.random.default_rng(1))
    np.testing.assert_allclose(short - noise_alone, [0.3, 0.4])  # within clip it is as it was


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0: it must be a number above 0 and at most 100"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"clip": 0.0}, "clip is 0.0: it must be a number above 0"),
    ],
)
def test_noise_of_a_sketch_needs_epsilon_delta_and_clip(wrong, message):
    settings = {"clip": 1.0, "epsilon": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(InputError, match=message):
        privacy.noisy_sketch([1.0], rng=np.random.default_rng(0), **settings)
