"""The designs over examples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, chisquare

from fedstas import privacy
from fedstas.client_sampling import Cohort
from fedstas.data_sampling import (
    AllData,
    FedSampling,
    FixedRate,
    FixedSize,
    Optimal,
    Requested,
    bernoulli,
    optimal_sizes,
)
from fedstas.errors import InputError

COHORT = Cohort(np.array([0, 2, 3]), np.ones(3) / 3)


class SizesOnly:
    """A view of four clients' sizes, of which no report may be asked."""

    sizes = np.array([100, 50, 200, 100])

    def reports(self, *_args, **_kw):
        raise AssertionError("a report was asked for")


class ReportsOnly:
    """A view that returns these reports and records the question."""

    def __init__(self, reports):
        self.answer = np.array(reports)

    @property
    def sizes(self):
        raise AssertionError("a true size was asked for")

    def reports(self, clients, *, size_cap, alpha, memoised):
        self.question = (list(clients), size_cap, alpha, memoised)
        return self.answer


class NoRequests:
    """A view of which nothing may be asked."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")


def test_all_data_and_a_fixed_rate_need_no_request():
    np.testing.assert_array_equal(AllData().rates(NoRequests(), COHORT), np.ones(3))
    np.testing.assert_array_equal(FixedRate(0.25).rates(NoRequests(), COHORT), np.full(3, 0.25))


@pytest.mark.parametrize("design", [AllData(), FixedRate(1.0), Requested()])
def test_at_rate_one_every_example_is_kept(design):
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(design.sample(7, 1.0, rng), np.arange(7))


def test_bernoulli_keeps_each_example_with_its_rate(false_alarm):
    rng, trials = np.random.default_rng(1), 5000
    samples = [bernoulli(6, 0.3, rng) for _ in range(trials)]
    for count in np.bincount(np.concatenate(samples), minlength=6).tolist():
        assert binomtest(count, trials, 0.3).pvalue > false_alarm / 6
    lengths = Counter(len(s) for s in samples)
    expected = binom.pmf(range(6), 6, 0.3) * trials  # 0..5; 6 is too rare for the test
    observed = [lengths[k] for k in range(6)]
    expected *= sum(observed) / expected.sum()
    assert chisquare(observed, expected).pvalue > false_alarm
    assert all((np.diff(s) > 0).all() for s in samples)


def test_requested_rate_is_n_star_over_the_total_of_the_participants():
    np.testing.assert_allclose(Requested(100).rates(SizesOnly(), COHORT), np.full(3, 100 / 400))
    np.testing.assert_array_equal(Requested(4000).rates(SizesOnly(), COHORT), np.ones(3))


def test_the_requested_rate_with_epsilon_uses_reports_only():
    view = ReportsOnly([99, 50, 60])
    rates = Requested(10, epsilon=3.0, size_cap=100).rates(view, COHORT)
    alpha = privacy.truth_probability(3.0, 100)
    total = (99 + 50 + 60 - (1 - alpha) * 100 * 3 / 2) / alpha
    assert total > 3
    np.testing.assert_allclose(rates, np.full(3, 10 / total), rtol=1e-12)
    assert view.question == ([0, 2, 3], 100, alpha, False)


@pytest.mark.parametrize(("n_star", "rate"), [(2, 2 / 3), (2048, 1.0)])
def test_an_estimated_total_is_at_least_the_number_of_reports(n_star, rate):
    design = Requested(n_star, epsilon=3.0, size_cap=100)
    view = ReportsOnly([1, 1, 1])
    alpha = privacy.truth_probability(3.0, 100)
    assert privacy.estimate_total(view.answer, size_cap=100, alpha=alpha) < 0
    np.testing.assert_allclose(design.rates(view, COHORT), np.full(3, rate))


def test_the_setting_memoised_is_passed_to_the_server():
    view = ReportsOnly([50, 50, 50])
    Requested(10, epsilon=1.0, size_cap=80, memoised=True).rates(view, COHORT)
    assert view.question[1::2] == (80, True)


def test_a_sample_may_be_empty():
    assert len(Requested(1).sample(5, 1e-9, np.random.default_rng(0))) == 0
    assert len(FixedRate(1e-9).sample(5, 1e-9, np.random.default_rng(0))) == 0


def test_fixed_size_takes_the_floor_of_its_share_and_all_of_a_small_client():
    design = FixedSize(20)
    rates = design.rates(NoRequests(), COHORT)
    np.testing.assert_array_equal(rates, np.full(3, 6.0))
    rng = np.random.default_rng(0)
    sample = design.sample(50, 6.0, rng)
    assert len(set(sample.tolist())) == 6
    assert sample.min() >= 0
    assert sample.max() < 50
    np.testing.assert_array_equal(design.sample(4, 6.0, rng), np.arange(4))
    with pytest.raises(InputError, match="n_star is 2, fewer than the 3 participants: raise it to"):
        FixedSize(2).rates(NoRequests(), COHORT)
    assert not len(FixedSize(2).rates(NoRequests(), Cohort(np.array([]), np.array([]))))


def test_fixed_size_draws_each_subset_equally_often(false_alarm):
    rng = np.random.default_rng(2)
    counts = Counter(tuple(FixedSize(6).sample(4, 2.0, rng)) for _ in range(6000))
    assert len(counts) == 6
    assert chisquare(list(counts.values())).pvalue > false_alarm


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedRate(0), "rate is 0"),
        (lambda: FixedRate(1.5), "rate is 1.5"),
        (lambda: FixedRate(float("nan")), "rate is nan"),
        (lambda: FixedRate("much"), "rate is 'much'"),
        (lambda: Requested(0), "n_star is 0"),
        (lambda: Requested(10, epsilon=0), "epsilon is 0"),
        (lambda: Requested(10, epsilon=float("inf")), "epsilon is inf"),
        (lambda: Requested(10, epsilon=1, size_cap=1), "size_cap is 1"),
        (lambda: FixedSize(-3), "n_star is -3"),
    ],
)
def test_rates_and_requests_out_of_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@given(
    st.lists(
        st.tuples(st.floats(0.01, 2), st.floats(0.01, 5), st.integers(1, 200)),
        min_size=1,
        max_size=8,
    ),
    st.floats(0.05, 1),
)
def test_optimal_sizes_satisfy_the_conditions_of_the_optimum(clients, share):
    weights, spreads, sizes = (np.array(c, dtype=float) for c in zip(*clients, strict=True))
    total = share * sizes.sum()
    result = optimal_sizes(weights, spreads, sizes, total)
    assert result.sum() == pytest.approx(total) and (result <= sizes + 1e-9).all()
    below_size = result < sizes * (1 - 1e-9)
    root_of_marginal_gain = weights * spreads / result  # equal for all clients below their size
    if below_size.any():
        assert (
            np.ptp(root_of_marginal_gain[below_size])
            <= 1e-6 * root_of_marginal_gain[below_size].max()
        )
        assert (
            root_of_marginal_gain[~below_size]
            >= root_of_marginal_gain[below_size].max() * (1 - 1e-6)
        ).all()


def test_optimal_sizes_depend_on_ratios_alone_up_to_the_ends_of_the_floats():
    weights, spreads, sizes = np.array([1.0, 2, 3]), np.array([4.0, 1, 0.5]), [100, 30, 2]
    expected = optimal_sizes(weights, spreads, sizes, 50)
    for exponent in (-1070, -700, 700, 1020):
        result = optimal_sizes(np.ldexp(weights, -600), np.ldexp(spreads, exponent), sizes, 50)
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(optimal_sizes(weights, spreads, sizes, 1e9), sizes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_sizes([1, np.nan], [1, 1], [5, 5], 4), "weights"),
        (lambda: optimal_sizes([1, 1], [1, np.inf], [5, 5], 4), "spreads"),
        (lambda: optimal_sizes([1, 1], [1, 1], [5, -5], 4), "client sizes"),
        (lambda: optimal_sizes([1, 1], [1, 1], [5, 5], -4), "total is -4"),
        (lambda: optimal_sizes([1, 1], [1], [5, 5], 4), "same shape"),
        (lambda: bernoulli(5, np.nan, np.random.default_rng(0)), "rate is nan"),
        (lambda: bernoulli(-5, 0.5, np.random.default_rng(0)), "size is -5"),
        (lambda: FixedSize.sample(5, -1.0, np.random.default_rng(0)), "number is -1"),
    ],
)
def test_invalid_arguments_of_a_sample_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_optimal_sizes_beat_equal_rates_exactly_where_spreads_differ():
    sizes = np.array([300.0, 200, 100])
    weights = sizes / 600
    for spreads, gain in (([1, 1, 1], False), ([5, 1, 0.2], True)):

        def variance(n):
            return (weights**2 * np.square(spreads) / n).sum()  # noqa: B023

        best = variance(optimal_sizes(weights, spreads, sizes, 60))
        proportional = variance(sizes / 600 * 60)
        assert best <= proportional * (1 + 1e-12)
        assert bool(best < 0.9 * proportional) is gain


def test_optimal_asks_for_spreads_and_keeps_within_the_data():
    class WithSpreads(SizesOnly):
        """A view with the spreads of two clients' gradients."""

        def gradient_spreads(self, clients):
            return np.array([1.0, 9.0])

    cohort = Cohort(np.array([0, 1]), np.array([0.5, 0.5]))
    design = Optimal(50)
    rates = design.rates(WithSpreads(), cohort)
    assert rates.tolist() == np.clip([5, 45], 1, SizesOnly.sizes[:2]).tolist()
    sample = design.sample(30, rates[0], np.random.default_rng(0))
    assert len(set(sample.tolist())) == rates[0]


def test_fedsampling_asks_all_clients_and_sets_one_rate():
    questions = []

    class FourReports(SizesOnly):
        """A view of four clients that report 50 each."""

        clients, total = 4, 1000

        def reports(self, clients, *, size_cap, alpha, memoised):
            questions.append((clients.tolist(), memoised))
            return np.full(4, 50)  # M/2: the estimate is their sum

    cohort = Cohort(np.array([1, 3]), np.full(2, 0.01), per_example=True)
    assert FedSampling(0.1, 3.0, 100).rates(FourReports(), cohort) == pytest.approx([0.5, 0.5])
    assert questions == [([0, 1, 2, 3], False)]
    assert FedSampling(0.1, None).rates(FourReports(), cohort).tolist() == [0.1, 0.1]
