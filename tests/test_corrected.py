"""The corrected designs without replacement: exact inclusion, exact unbiasedness."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedstas import allocation
from fedstas.corrected import (
    StratifiedHansenHurwitz,
    StratifiedHorvitzThompson,
    proportional_inclusion,
    systematic_sample,
)
from fedstas.errors import InputError


@pytest.fixture
def six_clients(view):
    """Six clients of unequal sizes in two clear strata, 0 2 4 and 1 3 5, with unequal norms."""
    base = np.array([[1.0, 0, 0, 0], [0, 0, 0, 9.0]])[[0, 1, 0, 1, 0, 1]]
    return view([3, 11, 1, 7, 20, 5], base * np.array([1, 1, 1.2, 1.1, 1.5, 0.9])[:, None])


MEASURES = st.lists(st.floats(0.01, 100), min_size=1, max_size=8)


class FixedGenerator:
    """A generator with a given permutation and a given uniform number."""

    def __init__(self, order, u):
        self.order, self.u = np.array(order), u

    def permutation(self, _):
        return self.order

    def random(self):
        return self.u


def exact_inclusion(pi: np.ndarray, order) -> np.ndarray:
    """Return each client's exact inclusion probability: samples are constant between breakpoints of the uniform u."""
    breakpoints = np.unique(np.concatenate([[0, 1], np.cumsum(pi[list(order)]) % 1]))
    inclusion = np.zeros(len(pi))
    for low, high in pairwise(breakpoints):
        if high - low > 1e-12:
            sample = systematic_sample(pi, FixedGenerator(order, (low + high) / 2))
            assert len(set(sample.tolist())) == round(pi.sum())
            inclusion[sample] += high - low
    return inclusion


@given(MEASURES, st.integers(1, 8))
def test_inclusion_is_proportional_up_to_certainty_and_sums_to_m(measure, m):
    m = min(m, len(measure))
    pi = proportional_inclusion(measure, m)
    assert pi.sum() == pytest.approx(m) and (pi > 0).all() and (pi <= 1).all()
    free = pi < 1 - 1e-9
    ratio = pi[free] / np.array(measure)[free]
    assert ratio.size == 0 or np.ptp(ratio) <= 1e-9 * ratio.max()
    if free.any():  # a certain client's share would have exceeded 1
        assert (np.array(measure)[~free] * ratio.max() >= 1 - 1e-6).all()


@pytest.mark.parametrize("measure", [[1, 2, 3, 10], [1, 1, 1, 1], [5, 1, 1, 0.2]])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_systematic_sampling_has_exactly_the_given_inclusion_probabilities(measure, m):
    pi = proportional_inclusion(measure, m)
    for order in permutations(range(len(measure))):
        np.testing.assert_allclose(exact_inclusion(pi, order), pi, atol=1e-9)


def test_systematic_draws_have_the_expected_frequencies():
    # chi-square on the number of times of each client; false alarm about 1e-7.
    pi, rng, rounds = proportional_inclusion([1, 2, 3, 4, 5], 2), np.random.default_rng(0), 30_000
    counts = np.zeros(5)
    for _ in range(rounds):
        counts[systematic_sample(pi, rng)] += 1
    assert chisquare(counts, rounds * pi).pvalue > 1e-7


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_horvitz_thompson_is_unbiased_on_a_small_federation(six_clients, equal, m):
    corrected = StratifiedHansenHurwitz(strata=2, restratify_every=1, equal_clients=equal)
    labels, measure, omega = corrected.measure(six_clients, m, np.random.default_rng(0))
    totals, sizes = np.bincount(labels, measure), np.bincount(labels)
    participants = allocation.by_priority(totals, m, lower=np.ones(2), upper=sizes)
    values, mean = np.arange(1.0, 7.0), 0.0
    for h, m_h in enumerate(participants):
        members = np.flatnonzero(labels == h)
        pi = proportional_inclusion(measure[members], int(m_h))
        orders = list(permutations(range(len(members))))
        inclusion = np.mean([exact_inclusion(pi, order) for order in orders], axis=0)
        mean += (inclusion * omega[members] / pi) @ values[members]
    assert mean == pytest.approx(omega @ values, abs=1e-9)


def test_the_design_draws_distinct_clients_with_horvitz_thompson_weights(six_clients):
    design = StratifiedHorvitzThompson(StratifiedHansenHurwitz(strata=2, restratify_every=1))
    labels, measure, omega = design.corrected.measure(six_clients, 4, np.random.default_rng(0))
    for seed in range(20):
        cohort = design.draw(six_clients, 4, np.random.default_rng(seed))
        assert len(set(cohort.clients.tolist())) == 4
        participants = np.bincount(labels[cohort.clients])
        pi = np.zeros(six_clients.clients)
        for h, m_h in enumerate(participants):
            pi[labels == h] = proportional_inclusion(measure[labels == h], int(m_h))
        np.testing.assert_allclose(cohort.weights, omega[cohort.clients] / pi[cohort.clients])


def test_more_participants_than_clients_are_refused(six_clients):
    with pytest.raises(InputError, match="7"):
        StratifiedHorvitzThompson().draw(six_clients, 7, np.random.default_rng(0))


@pytest.mark.parametrize("exponent", [-1070, -900, 900, 1018])
def test_inclusion_depends_on_the_ratios_alone_up_to_the_ends_of_the_floats(exponent):
    measure = np.array([5.0, 1, 2, 3, 20])
    for m in range(6):
        expected = proportional_inclusion(measure, m)
        np.testing.assert_array_equal(
            proportional_inclusion(np.ldexp(measure, exponent), m), expected
        )


def test_inclusion_probabilities_of_extreme_measures_are_proportional_below_one():
    np.testing.assert_allclose(
        proportional_inclusion([1e308, 1e308, 1e308], 1), np.full(3, 1 / 3), rtol=1e-15
    )
    np.testing.assert_allclose(
        proportional_inclusion([1e308, 1e-300, 3e-300], 2), [1, 0.25, 0.75], rtol=1e-15
    )
    # Tiny probabilities are kept: not 1 and 0.
    np.testing.assert_allclose(proportional_inclusion([1, 1e-13], 1), [1, 1e-13], rtol=1e-12)
    np.testing.assert_array_equal(proportional_inclusion([0, 0, 3, 0], 2), [1 / 3, 1 / 3, 1, 1 / 3])
    np.testing.assert_array_equal(proportional_inclusion([0, 0], 1), [0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: proportional_inclusion([1, 2], 3), "m is 3"),
        (lambda: proportional_inclusion([1, -2], 1), "measure"),
        (lambda: proportional_inclusion([1, np.inf], 1), "measure"),
        (lambda: proportional_inclusion([], 0), "measure"),
        (lambda: systematic_sample([0.5, 0.2], np.random.default_rng(0)), "whole number"),
        (lambda: systematic_sample([1.5, 0.5], np.random.default_rng(0)), "at most 1"),
    ],
)
def test_invalid_measures_and_probabilities_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
