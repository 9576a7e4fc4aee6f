"""Independent coins: unbiased by enumeration, least variance, the approximation, K-Vib's memory."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError
from fedstas.independent import (
    KVib,
    OptimalClientSampling,
    Poisson,
    approximate_inclusion,
    poisson_sample,
)

SIZES = [5, 1, 20, 3, 8, 2]
GRADIENTS = np.array([[1, 0], [0, 4], [2, 2], [0.1, 0], [3, -3], [0, 9]])
DESIGNS = [Poisson(), OptimalClientSampling(), OptimalClientSampling(1), KVib(), KVib(0.1)]


class Coins:
    """A generator whose uniform numbers are as low, or as high, as these bits say."""

    def __init__(self, bits):
        self.bits = np.array(bits, dtype=bool)

    def random(self, count):
        assert count == len(self.bits)
        return np.where(self.bits, 0.0, 1 - 2.0**-53)


def cohorts(design, view, m):
    """Every cohort of a design of coins, with its chance; pi from the cohort in which all coins fall."""
    everyone, omega = (
        design.draw(view, m, Coins([True] * view.clients)),
        view.sizes / view.sizes.sum(),
    )
    pi = np.zeros(view.clients)
    pi[everyone.clients] = omega[everyone.clients] / everyone.weights
    found = []
    for bits in itertools.product([False, True], repeat=view.clients):
        chance = np.where(bits, pi, 1 - pi).prod()
        if chance > 0:
            found.append((design.draw(view, m, Coins(bits)), chance))
    return found, pi


@pytest.mark.parametrize("m", [1, 3, 5])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_coins_are_unbiased_and_m_fall_on_average(view, design, m):
    known = view(SIZES, GRADIENTS)
    if isinstance(design, KVib):  # with something learned
        design.draw(known, m, Coins([True] * 6))
        known.round, known.updates = 2, GRADIENTS
    found, pi = cohorts(design, known, m)
    mean, size = np.zeros(6), 0.0
    for cohort, chance in found:
        np.add.at(mean, cohort.clients, chance * cohort.weights)
        size += chance * len(cohort.clients)
    np.testing.assert_allclose(mean, np.array(SIZES) / 39, rtol=1e-12)
    np.testing.assert_allclose(sum(c for _, c in found), 1, rtol=1e-12)
    np.testing.assert_allclose(size, pi.sum(), rtol=1e-12)
    if getattr(design, "approximate", 0):
        assert size <= m + 1e-12
    else:
        np.testing.assert_allclose(size, m, rtol=1e-12)


def test_the_variance_is_that_of_the_formula_and_a_cohort_may_be_empty(view):
    known, omega = view(SIZES, GRADIENTS), np.array(SIZES) / 39
    found, pi = cohorts(Poisson(), known, 1)
    second = sum(c * np.square(k.weights @ GRADIENTS[k.clients]).sum() for k, c in found)
    length = np.square(omega[:, None] * GRADIENTS).sum(1)
    variance = second - np.square(omega @ GRADIENTS).sum()
    np.testing.assert_allclose(variance, ((1 / pi - 1) * length).sum(), rtol=1e-12)
    assert min(len(cohort.clients) for cohort, _ in found) == 0


measures = st.lists(st.floats(0.01, 10), min_size=2, max_size=6).map(np.array)


@given(measures, st.data())
def test_optimal_client_sampling_is_the_minimum_over_all_coins(measure, data):
    """Karush, Kuhn and Tucker: sum a^2 / pi is convex, so that equal a / pi below 1, and no smaller
    a / pi at 1, is the minimum; a numeric search finds nothing better."""
    m = data.draw(st.integers(1, len(measure)))
    pi = proportional_inclusion(measure, m)
    np.testing.assert_allclose(pi.sum(), m, rtol=1e-12)
    ratio = measure / pi
    if (pi < 1).any():
        price = ratio[pi < 1].mean()
        np.testing.assert_allclose(ratio[pi < 1], price, rtol=1e-9)
        assert (ratio[pi == 1] >= price * (1 - 1e-9)).all()
    ours = (measure**2 / pi).sum()
    searched = minimize(
        lambda p: (measure**2 / p).sum() / ours,
        np.full(len(measure), m / len(measure)),
        jac=lambda p: -(measure**2) / p**2 / ours,
        bounds=[(1e-4, 1)] * len(measure),
        constraints={
            "type": "ineq",
            "fun": lambda p: m - p.sum(),
            "jac": lambda p: -np.ones(len(p)),
        },
        method="SLSQP",
    )
    if searched.success:  # what it finds may exceed m by a rounding
        assert searched.fun >= 1 - 1e-6


def test_the_design_draws_by_size_times_norm(view):
    known = view(SIZES, GRADIENTS)
    measure = np.array(SIZES) * np.linalg.norm(GRADIENTS, axis=1)
    pi = cohorts(OptimalClientSampling(), known, 3)[1]
    np.testing.assert_allclose(pi, proportional_inclusion(measure, 3), rtol=1e-12)
    assert (pi == 1).sum() == 2  # the cap is at work


def test_the_approximation_by_hand():
    measure = [8, 4, 1, 1, 1, 1]
    first = [1, 0.75, *[3 / 16] * 4]
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 0), first, rtol=1e-15)
    second = [1, 1, *[1 / 4] * 4]  # 2 are missing among 3/2: times 4/3
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 1), second, rtol=1e-15)
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 9), second, rtol=1e-15)


@given(measures, st.data())
def test_the_approximation_comes_to_the_exact_one(measure, data):
    m = data.draw(st.integers(1, len(measure)))
    sums = [approximate_inclusion(measure, m, r).sum() for r in range(len(measure) + 1)]
    assert (np.diff(sums) > -1e-12).all() and sums[-1] <= m + 1e-9
    exact = proportional_inclusion(measure, m)
    np.testing.assert_allclose(approximate_inclusion(measure, m, len(measure)), exact, rtol=1e-9)


def test_k_vib_learns_from_what_came_back(view):
    known, omega, m, mix = view(SIZES, GRADIENTS), np.array(SIZES) / 39, 2, 0.3
    design = KVib(mix)
    first = cohorts(design, known, m)[1]
    np.testing.assert_allclose(first, m / 6)  # nothing is known
    design.draw(known, m, Coins([1, 0, 1, 0, 0, 0]))
    known.round, known.updates = 2, GRADIENTS
    pi = cohorts(design, known, m)[1]
    squares = np.square(omega[[0, 2]]) * np.square(GRADIENTS[[0, 2]]).sum(1)
    gamma, shown = squares.max() * 6 / (mix * m), np.zeros(6)
    shown[[0, 2]] = squares / (m / 6)
    expected = (1 - mix) * proportional_inclusion(np.sqrt(shown + gamma), m) + mix * m / 6
    np.testing.assert_allclose(pi, expected, rtol=1e-12)
    assert pi[2] > pi[0] > pi[1]
    # A second draw of the same round has learned nothing more; the next round has.
    design.draw(known, m, Coins([0, 0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(cohorts(design, known, m)[1], pi)
    design.draw(known, m, Coins([0, 0, 0, 0, 0, 1]))
    known.round = 3
    shown[5] += omega[5] ** 2 * 81 / pi[5]
    expected = (1 - mix) * proportional_inclusion(np.sqrt(shown + gamma), m) + mix * m / 6
    np.testing.assert_allclose(cohorts(design, known, m)[1], expected, rtol=1e-12)


def test_clients_without_gradient_are_not_asked(view):
    rng = np.random.default_rng(0)
    cohort = OptimalClientSampling().draw(view(SIZES, np.zeros((6, 2))), 3, rng)
    assert len(cohort.clients) == len(cohort.weights) == 0
    some = GRADIENTS * [[1], [0], [0], [1], [0], [0]]
    cohort = OptimalClientSampling().draw(view(SIZES, some), 3, rng)
    assert cohort.clients.tolist() == [0, 3]
    np.testing.assert_allclose(cohort.weights, np.array([5, 3]) / 39)
    for design in (OptimalClientSampling(), OptimalClientSampling(3)):
        pi = cohorts(design, view(SIZES, some), 1)[1]
        np.testing.assert_allclose(
            pi, proportional_inclusion(np.array(SIZES) * np.abs(some).sum(1), 1)
        )


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_all_clients_and_one_client(view, design):
    rng = np.random.default_rng(0)
    for sizes, gradients in ((SIZES, GRADIENTS), ([7], [[1.0, 2.0]])):
        cohort = design.draw(view(sizes, gradients), len(sizes), rng)
        assert cohort.clients.tolist() == list(range(len(sizes)))
        np.testing.assert_allclose(cohort.weights, np.array(sizes) / sum(sizes), rtol=1e-12)
    for m in (0, 7):
        with pytest.raises(
            InputError, match=f"participants .* is {m}: .* at least 1 and at most 6"
        ):
            design.draw(view(SIZES, GRADIENTS), m, rng)


def test_bad_input_is_one_sentence():
    with pytest.raises(InputError, match="measure is zero for every client"):
        approximate_inclusion([0, 0], 1, 1)
    with pytest.raises(InputError, match="m is 3"):
        approximate_inclusion([1, 2], 3, 1)
    with pytest.raises(InputError, match="mix is 0"):
        KVib(0)
    with pytest.raises(InputError, match="approximate is -1"):
        OptimalClientSampling(-1)


def test_the_coins_of_the_package_fall_as_often_as_they_should(false_alarm):
    pi, rng = np.array([0.1, 0.5, 0.9]), np.random.default_rng(3)
    counts = np.zeros(3)
    for _ in range(4000):
        counts[poisson_sample(pi, np.ones(3), rng).clients] += 1
    assert (np.abs(counts - 4000 * pi) < 4.9 * np.sqrt(4000 * pi * (1 - pi))).all()
    assert false_alarm == 1e-6  # 4.9 standard deviations
