"""Exact covariances of data sampling, and the verdicts on Lemmas 3 and 4 and Theorem 3."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import REFERENCE, to_fractions

from companion.claims.evidence import covariances, pooling
from fedstas.errors import InputError
from fedstas.theory import covariances as cov

CASES = REFERENCE["lemma4_vs_designs"]["cases"]
REFERENCE_KEYS = {  # readings of Lemma 4 -> keys of the reference cases
    "fixed": "srs",
    "bernoulli": "bernoulli_fixed_norm",
    "bernoulli-mean": "bernoulli_mean_over_nonempty",
    "pooled": "pooled_srswor_nstar",
    "again": "wr_equal_prob",
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n*={c['nstar']}")
@pytest.mark.parametrize("reading", REFERENCE_KEYS)
def test_readings_of_eq_6_11_agree_with_the_reference_cases(case, reading):
    g = np.array(case["g"], dtype=object)
    setting = (case["n_k"], case["n"], case["nstar"], case["nbar"])
    _, form = cov.reading_form(reading, *setting)
    assert form.at(g).tolist() == to_fractions(case[REFERENCE_KEYS[reading]])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"n*={c['nstar']}")
def test_eq_6_11_agrees_with_the_reference_cases(case):
    form = cov.lemma4_form(case["n"], case["nstar"], case["nbar"])
    n_k = case["n_k"]
    assert form == (Fraction(case["coef_gg"]), Fraction(case["coef_ss"]))
    assert form.is_covariance(n_k) == case["psd_for_all_g"]
    srs = cov.srs_form(n_k, case["nbar"])
    assert srs.is_at_least(form, n_k) == case["srs_minus_lemma4_psd_for_all_g"]
    assert (srs == form) == case["srs_equals_lemma4"]


@pytest.mark.parametrize("reading", cov.READINGS)
def test_mean_and_covariance_of_a_reading_are_those_of_all_enumerated_samples(reading):
    rng = np.random.default_rng(0)
    for n_k, n, star, size in product((1, 2, 3, 4), (4, 7), (1, 2, 4), (1, 2, 3)):
        if size > n_k or (reading == "again-or-nothing" and n_k * star > n):
            continue
        g = np.array([[Fraction(int(x)) for x in row] for row in rng.integers(-3, 4, (n_k, 2))])
        weight, form = cov.reading_form(reading, n_k, n, star, size)
        mean, covariance = cov.enumerated(g, cov.outcomes(reading, n_k, n, star, size))
        assert (mean == weight * g.sum(axis=0) / n_k).all()
        assert (covariance == form.at(g)).all()


def test_eq_6_11_is_a_covariance_up_to_the_largest_request():
    for n_k, n, star, size in covariances.grid():
        form = cov.lemma4_form(n, star, size)
        assert form.is_covariance(n_k) == (star <= cov.largest_request(n_k, n, size))


def test_with_equal_clients_eq_6_11_is_a_covariance_for_one_example_only():
    for n_k, m in product((2, 3, 6, 60, 600), (1, 2, 10)):
        for size in (s for s in (1, 2, 3, n_k) if s <= n_k and n_k * m >= 2):
            form = cov.lemma4_form(m * n_k, m * size, size)
            # also with m = 1 and size = n_k, where every example is sampled
            assert form.is_covariance(n_k) == (size == 1), (n_k, m, size)


def test_at_the_papers_settings_all_printed_variances_are_negative():
    case = REFERENCE["lemma4_paper_scale"]
    for n_k, n, star, size in covariances.SETTINGS.values():
        assert max(cov.lemma4_form(n, star, size).eigenvalues(n_k)) < 0
    form = cov.lemma4_form(case["n"], case["nstar"], case["nbar"])
    assert form == (Fraction(case["coef_gg"]), Fraction(case["coef_ss"]))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.data())
def test_no_unbiased_design_that_ignores_the_gradients_is_below_simple_random_sampling(n, data):
    """Designs with random probabilities and weights: the trace of their covariance, and the Loewner order."""
    size = data.draw(st.integers(1, n))
    subsets = [c for c in product((0, 1), repeat=n) if sum(c) == size]
    weights = data.draw(st.lists(st.integers(0, 4), min_size=len(subsets), max_size=len(subsets)))
    scale = [
        [Fraction(data.draw(st.integers(1, 5))) if bit else Fraction(0) for bit in c]
        for c in subsets
    ]
    total = sum(weights)
    if not total:
        return
    mean = [sum(w * c[i] for w, c in zip(weights, scale, strict=True)) / total for i in range(n)]
    if min(mean) == 0:
        return
    samples = [
        ([c[i] / (n * mean[i]) for i in range(n)], Fraction(w, total))
        for c, w in zip(scale, weights, strict=True)
    ]
    expected, covariance = cov.enumerated(np.array(np.eye(n, dtype=int), dtype=object), samples)
    assert expected.tolist() == [Fraction(1, n)] * n
    srs = cov.srs_form(n, size).at(np.array(np.eye(n, dtype=int), dtype=object))
    assert np.trace(covariance) >= np.trace(srs)
    assert cov.loewner(srs, covariance) in ("neither", "≤", "=")


def test_neither_of_bernoulli_and_simple_random_sampling_is_above_the_other():
    for n in range(2, 7):
        for size in range(1, n):
            _, bernoulli = cov.reading_form("bernoulli", n, 10 * n, 10 * size, size)
            srs = cov.srs_form(n, size)
            factor = (Fraction(n, size) - 1) / (n**2 * (n - 1))
            difference = bernoulli.each - srs.each, bernoulli.total - srs.total
            assert difference == (-factor, factor)
            assert not bernoulli.is_at_least(srs, n)
            assert not srs.is_at_least(bernoulli, n)


def test_where_lemma_4_is_below_simple_random_sampling_it_is_that_of_a_shrunk_estimator():
    form, srs = cov.lemma4_form(64, 6, 4), cov.srs_form(8, 4)
    assert form.is_covariance(8)
    assert srs.is_at_least(form, 8)
    assert srs != form
    factor = Fraction(8 * 6, 64)
    srs_of_three = cov.srs_form(8, 3)
    assert form == (factor**2 * srs_of_three.each, factor**2 * srs_of_three.total)
    assert form.each / factor**2 > srs.each


def test_semidefinite_matrices_and_their_loewner_order():
    unit, zero, ones, indefinite, swap = (
        np.array(rows, dtype=object)
        for rows in (
            [[1, 0], [0, 1]],
            [[0, 0], [0, 0]],
            [[1, 1], [1, 1]],
            [[1, 2], [2, 1]],
            [[0, 1], [1, 0]],
        )
    )
    assert all(cov.semidefinite(x) for x in (unit, zero, ones, ones.astype(float)))
    assert not any(cov.semidefinite(x) for x in (indefinite, swap))
    pairs = {"≥": (unit, zero), "≤": (zero, unit), "=": (unit, unit), "neither": (unit, ones)}
    for order, (first, second) in pairs.items():
        assert cov.loewner(first, second) == order


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decide", "verdict"),
    [
        (covariances.lemma_3, "holds"),
        (covariances.lemma_4, "fails"),
        (covariances.theorem_3, "fails"),
        (covariances.more_stable_updates, "fails"),
        (pooling.larger_clients, "fails"),
        (pooling.requested_total, "holds"),
        (pooling.uniform_over_participants, "holds-if"),
        (pooling.unbiased_data_sampling, "holds-if"),
        (pooling.mimics_centralised, "holds-if"),
    ],
)
def test_every_claim_has_the_expected_verdict(decide, verdict):
    result = decide(None)
    assert result.verdict == verdict
    assert result.note
    assert 0 < len(result.table) < 12


def test_mean_and_variance_of_the_aggregate_of_pooled_data_sampling():
    """Clients hold 0, 2 and 1, 2, 3, 4, 5, 9: eight examples of mean 26/8, whose squares sum to 140; n* is 4.

    A simple random sample of size s from n values with the sample variance S^2 has a mean of variance S^2/s (1 - s/n).
    """
    table = pooling.pooled_target()
    assert list(table["mean"][:5]) == ["13/4"] * 4 + ["5/2"]  # equal weights: (1 + 4)/2
    assert (
        list(table["variance"][:4])
        == [
            "111/112",  # 4 of the pool: S^2 = (140 - 26^2/8)/7, S^2/4 (1 - 4/8)
            "35/16",  # coins: q (1 - q) 140/4^2 for q = 4/8
            "13/16",  # one of the first and three of the second client, over 4: (1 + 9 * 8/3 (1 - 3/6))/4^2
            "3/2",  # all of the first and two of the second client: (6/8)^2 8/2 (1 - 2/6)
        ]
    )
    assert pooling.aggregate_moments(((0,), (1, 2, 3)), 2, "bernoulli", "drawn") == (
        Fraction(3, 2),
        Fraction(7, 8),
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cov.reading_form("other", 2, 4, 1, 1), "unknown reading"),
        (lambda: cov.reading_form("fixed", 5, 4, 1, 1), "n_k is 5"),
        (lambda: cov.reading_form("fixed", 2, 4, 5, 1), "n_star is 5"),
        (lambda: cov.reading_form("fixed", 2, 4, 1, 3), "size is 3"),
        (lambda: cov.reading_form("again-or-nothing", 4, 8, 4, 2), "n_k n"),
        (lambda: cov.Form(Fraction(1), Fraction(0)).at([1.0]), "gradients"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
