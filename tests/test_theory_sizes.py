"""The size estimator and the privacy of reports (chapters 4c, 4e): every verdict, exactly where possible.

Statistical tests here: two, each with a false-alarm rate below 1e-7.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE
from scipy import stats

from companion.claims.evidence import privacy as privacy_evidence
from companion.claims.evidence import sizes as sizes_evidence
from fedstas import privacy, theory
from fedstas.errors import InputError
from fedstas.sim.rng import stream

ALPHA = Fraction("0.1616")
SUPPORT = {
    "1..M-1": lambda cap: range(1, cap),
    "0..M-1": lambda cap: range(cap),
    "1..M": lambda cap: range(1, cap + 1),
    "0..M": lambda cap: range(cap + 1),
}
INPUTS = {
    "1..M-1": "1..M-1",
    "0..M-1 (an empty client)": "0..M-1",
    "1..M (slides: clip at M)": "1..M",
    "0..M-1, alpha=(e-1)/(e+M-1) (corrected variant for n_k=0)": "0..M-1",
}
small_cases = st.tuples(  # the cap M, the truth probability alpha, the sizes
    st.integers(3, 5),
    st.fractions("1/8", "7/8", max_denominator=8),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)

VERDICTS = {
    sizes_evidence: {
        "estimator": "holds-if",
        "slides_estimator": "holds-if",
        "asymptotic_unbiasedness": "holds-if",
        "lemma2": "holds-if",
        "slides_lemma1": "fails",
        "rate_is_a_probability": "fails",
        "request_of_the_ratio": "fails",
        "slides_fixed_ratio": "holds-if",
    },
    privacy_evidence: {
        "lemma5": "holds-if",
        "total_is_private": "holds-if",
        "alpha_for_three": "holds",
        "slides_iff": "fails",
        "slides_ratio": "fails",
        "slides_clip": "fails",
        "guarantee": "fails",
        "sizes_remain_private": "fails",
        "what_is_protected": "fails",
    },
}


@pytest.mark.parametrize(
    ("module", "name", "verdict"),
    [(m, name, verdict) for m, names in VERDICTS.items() for name, verdict in names.items()],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_claim_has_the_expected_verdict(module, name, verdict):
    result = getattr(module, name)(None)
    assert result.verdict == verdict
    assert result.table is not None
    assert len(result.table) <= 10
    assert result.note


# The estimator ---------------------------------------------------------------


@pytest.mark.parametrize(
    "case", REFERENCE["ntilde_small"]["cases"], ids=lambda c: f"M={c['M']}-{c['fake_support']}"
)
def test_the_estimates_distribution_is_that_of_the_reference_cases_for_each_support(case):
    support = SUPPORT[case["fake_support"]](case["M"])
    arguments = (case["n_clipped"], case["M"], case["alpha"], support)
    law, exact = theory.size_estimator_exact(*arguments), theory.size_estimator_moments(*arguments)
    assert sum(law.values()) == 1
    assert exact.mean == Fraction(case["mean"])
    assert exact.mean - case["true_total"] == Fraction(case["bias"])
    assert exact.variance == Fraction(case["var"])
    assert exact.p_not_positive == Fraction(case["P_le_0"])
    assert law.get(0, 0) == Fraction(case["P_eq_0"])
    expected = case["E_inverse"]
    assert exact.inverse_mean == (None if expected is None else Fraction(expected))
    alpha, shift = Fraction(case["alpha"]), len(case["n_clipped"]) * case["M"] / Fraction(2)
    sums = {str(v * alpha + (1 - alpha) * shift): str(p) for v, p in law.items()}
    if "pmf_R" in case:
        assert sums == case["pmf_R"]


@given(small_cases)
def test_the_estimates_distribution_is_that_of_all_enumerated_reports(case):
    cap, alpha, sizes = case
    sizes = [min(n, cap - 1) for n in sizes]
    laws = [theory.report_distribution(n, alpha, range(1, cap)) for n in sizes]
    result: dict = {}
    for reports in product(*laws):
        probability = math.prod(
            (law[r] for law, r in zip(laws, reports, strict=True)), start=Fraction(1)
        )
        value = (sum(reports) - (1 - alpha) * cap * len(sizes) / Fraction(2)) / alpha
        result[value] = result.get(value, 0) + probability
    assert theory.size_estimator_exact(sizes, cap, alpha) == dict(sorted(result.items()))


@given(small_cases)
def test_mean_and_variance_follow_the_lemma(case):
    cap, alpha, sizes = case
    sizes = [min(n, cap - 1) for n in sizes]
    exact = theory.size_estimator_moments(sizes, cap, alpha)
    fake = Fraction(cap * (cap - 2), 12)
    terms = [fake + alpha * (n - Fraction(cap, 2)) ** 2 for n in sizes]
    assert exact.mean == sum(sizes)
    assert exact.variance == (1 - alpha) / alpha**2 * sum(terms)


def test_the_probability_of_a_nonpositive_estimate_at_the_papers_scale_by_counting():
    """Compute P(ñ <= 0) from the number of truthful reports and counted sums of fakes, without a convolution."""
    exact = theory.size_estimator_moments([99] * 10, 100, ALPHA, inverse=False)
    assert exact.mean == 990
    assert exact.variance == Fraction(11835865720, 30603)
    limit = (1 - ALPHA) * 500  # R at most this
    below = Fraction(0)
    for truthful in range(11):
        j, room = 10 - truthful, math.floor(limit) - 99 * truthful
        shifted = room - j  # sums of j values 0..98 of at most this, by inclusion and exclusion
        ways = sum(
            (-1) ** i * math.comb(j, i) * math.comb(shifted - 99 * i + j, j)
            for i in range(j + 1)
            if shifted - 99 * i >= 0
        )
        probability = math.comb(10, truthful) * ALPHA**truthful * (1 - ALPHA) ** j
        below += probability * Fraction(ways, 99**j)
    assert exact.p_not_positive == below
    assert float(below) == pytest.approx(REFERENCE["ntilde_paper_float"]["p_le0"], rel=1e-13)


def test_the_estimate_at_epsilon_3_agrees_with_rational_bounds_and_a_simulation():
    low, high = theory.truth_probability_bounds(3, 100, 32)
    assert 0 < high - low < Fraction(1, 10**20)
    assert float(low) == privacy.truth_probability(3, 100)
    ends = [theory.size_estimator_moments([99] * 10, 100, a, inverse=False) for a in (low, high)]
    assert ends[1].p_not_positive <= ends[0].p_not_positive
    assert round(float(ends[0].p_not_positive), 10) == 0.0581091247
    assert round(math.sqrt(ends[0].variance), 6) == 621.807541
    count, alpha = 200_000, privacy.truth_probability(3, 100)
    rng = stream(0, "test, estimator")
    reports = privacy.report(np.full((count, 10), 600), size_cap=100, alpha=alpha, rng=rng)
    estimates = (reports.sum(1) - (1 - alpha) * 500) / alpha
    p = float(ends[0].p_not_positive)
    # two normal deviates beyond 5.7: 2.4e-8 in all
    assert abs(estimates.mean() - 990) < 5.7 * math.sqrt(ends[0].variance / count)
    assert abs((estimates <= 0).mean() - p) < 5.7 * math.sqrt(p * (1 - p) / count)


def test_the_float_distribution_is_the_exact_one():
    for m in (3, 30):  # by convolution, and by one Fourier transform
        law = theory.size_estimator_exact([9] * m, 12, Fraction(1, 4))
        values, pmf = theory.size_estimator_distribution([9] * m, 12, 0.25)
        assert values == pytest.approx([float(v) for v in law])
        assert pmf == pytest.approx([float(p) for p in law.values()], abs=1e-15)


def test_the_error_of_the_estimate_by_cap():
    table = sizes_evidence.trade_off().set_index("M")
    expected = {50: 5513.0, 100: 5048.4, 200: 4586.3, 300: 5656.0, 601: 18279.0, 1000: 48243.0}
    for cap, rmse in expected.items():
        assert table.loc[cap, "rmse"] == pytest.approx(rmse, abs=0.06)
    assert table.loc[200, "rmse"] == table["rmse"].min() > 0.76 * 6000


def test_lemma_2_fails_without_any_of_its_three_conditions():
    for m in range(1, 5):  # (1) no guard
        law = theory.size_estimator_exact([3] * m, 4, Fraction(1, 2))
        assert law[0] == Fraction(1, 6**m)
        assert theory.raw_rate_error([3] * m, 4, Fraction(1, 2), m) == math.inf
    assert sizes_evidence.participants_with_zero_estimate() == [25, 50, 75, 100]
    reference = {10: 0.378302, 100: 0.297927, 1000: 0.260052}  # (2) clipped
    for m, error in reference.items():
        assert sizes_evidence.squared_error(600, m, 60 * m) == pytest.approx(error, abs=1e-6)
    relative = sizes_evidence.squared_error(600, 1000, 600) * 1000**2  # (3) a fixed request
    assert relative == pytest.approx(26.0, abs=0.01)
    # The lemma's 3 q^2 Var/n^2: with clients of 60 examples Var/n^2 is 7.4265/m, and q = 1/10.
    bound = [3 * 0.01 * 7.4265 / m for m in (100, 1000)]
    for m, high in zip((100, 1000), bound, strict=True):
        assert sizes_evidence.squared_error(60, m, 6 * m) < 100 * high
    assert 1000 * sizes_evidence.squared_error(60, 1000, 6000) == pytest.approx(0.0796, abs=1e-4)


def test_both_lower_bounds_of_the_estimate_give_the_same_rate():
    for floor in (1, 10):
        rate = theory.estimated_rate([600] * 10, 100, 0.1616, 600, floor)
        assert rate.mean == pytest.approx(0.6569490567842398, rel=1e-12)
        assert rate.squared_error == pytest.approx(0.37830168728958624, rel=1e-12)
        assert rate.outside == pytest.approx(0.2675770391732377, rel=1e-12)
    raw = theory.raw_rate_error([600] * 10, 100, ALPHA, 600)
    assert raw == pytest.approx(307.31991977299884, rel=1e-12)


# Reports -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", REFERENCE["ldp"]["cases"], ids=lambda c: f"M={c['M']}-{c['fake_support']}-{c['inputs']}"
)
def test_the_worst_ratio_of_the_reference_cases(case):
    cap, sizes = case["M"], SUPPORT[INPUTS[case["inputs"]]](case["M"])
    ratio = theory.report_ratio(case["alpha"], SUPPORT[case["fake_support"]](cap), sizes)
    expected = case["max_ratio"]
    assert ratio == (math.inf if expected is None else Fraction(expected))
    assert (ratio <= case["exp_eps_target"]) == case["ok"]


def test_the_worst_ratio_at_the_papers_alpha_is_that_of_the_reference():
    case = REFERENCE["ldp"]["alpha_0p1616"]
    assert theory.ldp_ratio(100, ALPHA) == Fraction(case["support_1_M1"])
    with_zero = theory.report_ratio(ALPHA, range(100), range(1, 100))
    assert with_zero == Fraction(case["support_0_M1"])


@given(st.integers(3, 8), st.fractions("1/9", "8/9", max_denominator=9), st.integers(1, 3))
def test_the_ratio_of_fresh_reports_multiplies_and_that_of_a_memoised_report_does_not(
    cap, alpha, j
):
    ratio = theory.ldp_ratio(cap, alpha)
    assert ratio == 1 + (cap - 1) * alpha / (1 - alpha)
    assert theory.composed_ratio(cap, alpha, j) == ratio**j
    if cap <= 5:
        assert privacy_evidence.ratio_of_fresh_reports(cap, alpha, j) == ratio**j
    laws = [theory.report_distribution(n, alpha, range(1, cap)) for n in range(1, cap)]
    assert theory.worst_ratio({(r,) * j: p for r, p in law.items()} for law in laws) == ratio


@given(
    st.integers(3, 5),
    st.fractions("1/9", "8/9", max_denominator=9),
    st.integers(1, 4),
    st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)]),
)
def test_composition_at_delta_is_that_of_all_enumerated_sequences(cap, alpha, j, delta):
    ratio = theory.composed_ratio(cap, alpha, j, delta)
    first, second = (theory.report_distribution(n, alpha, range(1, cap)) for n in (1, 2))

    def compute_excess(level):
        """Return the probability mass of one size's reports above `level` times the other's: delta at `level`."""
        total = Fraction(0)
        for sequence in product(range(1, cap), repeat=j):
            p = math.prod((first[r] for r in sequence), start=Fraction(1))
            q = math.prod((second[r] for r in sequence), start=Fraction(1))
            total += max(Fraction(0), p - level * q)
        return total

    assert compute_excess(ratio) == delta or (ratio == 1 and compute_excess(1) < delta)
    epsilon = privacy.composed_epsilon(float(alpha), cap, j, float(delta))
    assert epsilon == pytest.approx(math.log(ratio), abs=1e-9)


def test_composition_at_the_papers_setting_is_that_of_the_reference():
    """The reference has, by the number j of reports, their epsilon at delta = 1e-5. The papers' setting is epsilon = 3 for
    each report and the cap M = 100; 32 terms of the series of e^3 give alpha to more digits than a float has."""
    for j, epsilon in REFERENCE["ldp"]["eps_k_reports_delta1e5_float"].items():
        below, _ = theory.truth_probability_bounds(3, 100, 32)
        alpha = below.limit_denominator(10**15)
        exact = math.log(theory.composed_ratio(100, alpha, int(j), Fraction(1, 100_000)))
        assert exact == pytest.approx(epsilon, rel=1e-8)
        assert privacy.composed_epsilon(float(alpha), 100, int(j), 1e-5) == pytest.approx(
            exact, rel=1e-10
        )


def test_the_chance_that_the_most_frequent_report_is_true_agrees_with_the_reference_cases():
    attack = theory.mode_attack(100, ALPHA, 99)
    for j, probability in REFERENCE["ldp"]["mode_attack_float"].items():
        assert float(attack[int(j)]) == pytest.approx(probability, rel=1e-12)
    assert attack[0] == Fraction(1, 99)
    assert attack[1] == attack[2] == ALPHA + (1 - ALPHA) / 99


@given(st.integers(3, 5), st.fractions(0, 1, max_denominator=7), st.integers(1, 4))
def test_the_chance_that_the_most_frequent_report_is_true_agrees_with_an_enumeration_of_all_reports(
    cap, alpha, j
):
    law = theory.report_distribution(2, alpha, range(1, cap))
    success = Fraction(0)
    for sequence in product(range(1, cap), repeat=j):
        probability = math.prod((law.get(r, Fraction(0)) for r in sequence), start=Fraction(1))
        counts = [sequence.count(r) for r in range(1, cap)]
        if counts[1] == max(counts):
            success += probability / counts.count(max(counts))
    assert theory.mode_attack(cap, alpha, j)[j] == success


def test_the_chance_that_the_most_frequent_report_is_true_agrees_with_a_simulation():
    """20,000 clients, an exact binomial test: false alarm 5e-8."""
    trials, j = 20_000, 10
    rng = stream(0, "test, attack")
    reports = privacy.report(np.full((trials, j), 42), size_cap=100, alpha=0.1616, rng=rng)
    counts = np.zeros((trials, 100))
    np.add.at(counts, (np.arange(trials)[:, None], reports), 1)
    tie_breaks = 0.5 * rng.random(counts.shape)  # at random, and less than one report
    successes = ((counts + tie_breaks).argmax(1) == 42).sum()
    p = float(theory.mode_attack(100, ALPHA, j)[j])
    tails = stats.binom.cdf(successes, trials, p), stats.binom.sf(successes - 1, trials, p)
    assert 2 * min(tails) > 5e-8


def test_bounds_on_the_most_frequent_client_hold_where_all_rounds_can_be_enumerated():
    """Three rounds of one client out of three: 27 sequences of clients."""
    exact = np.mean([max(np.bincount(f, minlength=3)) for f in product(range(3), repeat=3)])
    low, high = theory.busiest_bounds(3, 1, 3)
    assert low < exact <= high + 1e-12
    assert theory.busiest_bounds(99, 10, 100) == pytest.approx((18.0272, 18.5979), abs=1e-4)


def test_subsampling_lowers_the_ratio_only_where_the_cohort_is_hidden():
    table = privacy_evidence.subsampling_table()
    visible, hidden = (max(map(Fraction, table[c])) for c in ("ratio", "ratio, drawn or not"))
    assert (visible, hidden) == (3, 2)
    assert hidden == 1 + Fraction(1, 2) * (visible - 1)


@pytest.mark.parametrize("alpha", [-0.1, 1.5, "2"])
def test_a_truth_probability_outside_the_unit_interval_is_refused(alpha):
    with pytest.raises(InputError, match="alpha is"):
        theory.report_distribution(1, alpha, range(1, 4))
    with pytest.raises(InputError, match="alpha is"):
        theory.size_estimator_exact([1], 4, alpha)


def test_an_infinite_size_is_refused():
    with pytest.raises(InputError, match="sizes are inf: they must be whole numbers"):
        theory.size_estimator_moments(math.inf, 3, 0.5)
