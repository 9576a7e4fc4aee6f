"""Poisson sampling: unbiased by enumeration, of least variance, its approximation, and K-Vib's memory."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedstas import Cohorts, methods, simulation
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError
from fedstas.independent import (
    KVib,
    KVibState,
    OptimalClientSampling,
    Poisson,
    approximate_inclusion,
    poisson_sample,
)
from fedstas.streams import stream

SIZES = [5, 1, 20, 3, 8, 2]
GRADIENTS = np.array([[1, 0], [0, 4], [2, 2], [0.1, 0], [3, -3], [0, 9]])
DESIGNS = [Poisson(), OptimalClientSampling(), OptimalClientSampling(1), KVib(), KVib(0.1)]


class ScriptedGenerator:
    """A generator whose uniform numbers select the clients with bit 1 and no others."""

    def __init__(self, bits):
        self.bits = np.array(bits, dtype=bool)

    def random(self, count):
        assert count == len(self.bits)
        return np.where(self.bits, 0.0, 1 - 2.0**-53)


def enumerate_cohorts(design, view, m):
    """Return every cohort of Poisson sampling with its probability, and pi, read off the weights of the full cohort."""
    full = design.draw(view, m, ScriptedGenerator([True] * view.clients))
    omega, pi, cohorts = view.sizes / view.sizes.sum(), np.zeros(view.clients), []
    pi[full.clients] = omega[full.clients] / full.weights
    for bits in itertools.product([False, True], repeat=view.clients):
        chance = np.where(bits, pi, 1 - pi).prod()
        if chance > 0:
            cohorts.append((design.draw(view, m, ScriptedGenerator(bits)), chance))
    return cohorts, pi


def compute_inclusion(design, view, m):
    """Return the inclusion probabilities pi of Poisson sampling, as `enumerate_cohorts` reads them off."""
    _, pi = enumerate_cohorts(design, view, m)
    return pi


@pytest.mark.parametrize("m", [1, 3, 5])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_poisson_sampling_is_unbiased_with_m_clients_on_average(view, design, m):
    server = view(SIZES, GRADIENTS)
    if isinstance(design, KVib):  # in a second round, with the memory of the first
        design.draw(server, m, ScriptedGenerator([True] * 6))
        server.round, server.updates = 2, GRADIENTS
    cohorts, pi = enumerate_cohorts(design, server, m)
    mean, size = np.zeros(6), 0.0
    for cohort, chance in cohorts:
        np.add.at(mean, cohort.clients, chance * cohort.weights)
        size += chance * len(cohort.clients)
    np.testing.assert_allclose(mean, np.array(SIZES) / sum(SIZES), rtol=1e-12)
    np.testing.assert_allclose(sum(c for _, c in cohorts), 1, rtol=1e-12)
    np.testing.assert_allclose(size, pi.sum(), rtol=1e-12)
    if getattr(design, "approximate", 0):
        assert size <= m + 1e-12
    else:
        np.testing.assert_allclose(size, m, rtol=1e-12)


def test_the_variance_is_that_of_the_formula_and_a_cohort_may_be_empty(view):
    server, omega = view(SIZES, GRADIENTS), np.array(SIZES) / 39
    cohorts, pi = enumerate_cohorts(Poisson(), server, 1)
    mean_square = sum(c * np.square(k.weights @ GRADIENTS[k.clients]).sum() for k, c in cohorts)
    squared_lengths = np.square(omega[:, None] * GRADIENTS).sum(1)
    variance = mean_square - np.square(omega @ GRADIENTS).sum()
    np.testing.assert_allclose(variance, ((1 / pi - 1) * squared_lengths).sum(), rtol=1e-12)
    assert min(len(cohort.clients) for cohort, _ in cohorts) == 0


MEASURES = st.lists(st.floats(0.01, 10), min_size=2, max_size=6).map(np.array)


@given(MEASURES, st.data())
def test_optimal_client_sampling_has_the_least_variance_of_all_inclusion_probabilities(
    measure, data
):
    """By the conditions of Karush, Kuhn and Tucker sum a^2 / pi is least where a / pi is equal for pi < 1 and not smaller
    for pi = 1; a numeric search must not find less."""
    m = data.draw(st.integers(1, len(measure)))
    pi = proportional_inclusion(measure, m)
    np.testing.assert_allclose(pi.sum(), m, rtol=1e-12)
    ratio = measure / pi
    if (pi < 1).any():
        common_ratio = ratio[pi < 1].mean()
        np.testing.assert_allclose(ratio[pi < 1], common_ratio, rtol=1e-9)
        assert (ratio[pi == 1] >= common_ratio * (1 - 1e-9)).all()
    least = (measure**2 / pi).sum()
    searched = minimize(
        lambda p: (measure**2 / p).sum() / least,
        np.full(len(measure), m / len(measure)),
        jac=lambda p: -(measure**2) / p**2 / least,
        bounds=[(1e-4, 1)] * len(measure),
        constraints={
            "type": "ineq",
            "fun": lambda p: m - p.sum(),
            "jac": lambda p: -np.ones(len(p)),
        },
        method="SLSQP",
    )
    if searched.success:  # its solution may exceed m by a rounding error
        assert searched.fun >= 1 - 1e-6


def test_optimal_client_sampling_draws_by_size_times_norm(view):
    server = view(SIZES, GRADIENTS)
    measure = np.array(SIZES) * np.linalg.norm(GRADIENTS, axis=1)
    pi = compute_inclusion(OptimalClientSampling(), server, 3)
    np.testing.assert_allclose(pi, proportional_inclusion(measure, 3), rtol=1e-12)
    assert (pi == 1).sum() == 2  # two clients are certain


def test_the_approximation_agrees_with_a_calculation_by_hand():
    measure = [8, 4, 1, 1, 1, 1]
    first = [1, 0.75, *[3 / 16] * 4]
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 0), first, rtol=1e-15)
    # One client has 1 after the start; the others sum to 3/2 and should to 3 - 1 = 2: they are multiplied by 4/3.
    second = [1, 1, *[1 / 4] * 4]
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 1), second, rtol=1e-15)
    np.testing.assert_allclose(approximate_inclusion(measure, 3, 9), second, rtol=1e-15)


@given(MEASURES, st.data())
def test_the_approximation_converges_to_the_exact_probabilities(measure, data):
    m = data.draw(st.integers(1, len(measure)))
    repetitions = range(len(measure) + 1)
    sums = [approximate_inclusion(measure, m, rounds=r).sum() for r in repetitions]
    assert (np.diff(sums) > -1e-12).all() and sums[-1] <= m + 1e-9
    exact = proportional_inclusion(measure, m)
    np.testing.assert_allclose(approximate_inclusion(measure, m, len(measure)), exact, rtol=1e-9)


def test_k_vib_estimates_norms_from_the_updates_it_received(view):
    server, omega, m, mix = view(SIZES, GRADIENTS), np.array(SIZES) / 39, 2, 0.3
    design = KVib(mix)
    first = compute_inclusion(design, server, m)
    np.testing.assert_allclose(first, m / 6)  # uniform before any update is known
    design.draw(server, m, ScriptedGenerator([1, 0, 1, 0, 0, 0]))
    server.round, server.updates = 2, GRADIENTS
    pi = compute_inclusion(design, server, m)
    squares = np.square(omega[[0, 2]]) * np.square(GRADIENTS[[0, 2]]).sum(1)
    gamma, estimates = squares.max() * 6 / (mix * m), np.zeros(6)
    estimates[[0, 2]] = squares / (m / 6)
    expected = (1 - mix) * proportional_inclusion(np.sqrt(estimates + gamma), m) + mix * m / 6
    np.testing.assert_allclose(pi, expected, rtol=1e-12)
    assert pi[2] > pi[0] > pi[1]
    # A second draw in the same round uses the same memory; the next round adds client 5, of norm 9.
    design.draw(server, m, ScriptedGenerator([0, 0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(compute_inclusion(design, server, m), pi)
    design.draw(server, m, ScriptedGenerator([0, 0, 0, 0, 0, 1]))
    server.round = 3
    estimates[5] += omega[5] ** 2 * 9**2 / pi[5]
    expected = (1 - mix) * proportional_inclusion(np.sqrt(estimates + gamma), m) + mix * m / 6
    np.testing.assert_allclose(compute_inclusion(design, server, m), expected, rtol=1e-12)


def test_k_vib_learns_nothing_of_who_does_not_answer():
    sizes, updates = [4, 5, 6, 7], np.diag([1.0, 2, 3, 4])
    silent = (
        {0},
        {*range(4)},
        {1},
        {0, 3},
    )  # who does not answer, by round; in the second one nobody does
    chooser, received, expected = Cohorts("k-vib", sizes=sizes, m=2), np.zeros(4), np.zeros(4)
    state = chooser._view.state_of(chooser.method.clients)
    for mute in silent:
        cohort = chooser.sample()
        expected = expected + received
        np.testing.assert_allclose(state.scores.value.sums, expected, rtol=1e-6)
        answers = [k for k in cohort.clients.tolist() if k not in mute]
        chooser.report(cohort, {k: updates[k] for k in answers})
        received = np.zeros(4)
        omega = np.array(sizes)[answers] / sum(sizes)
        received[answers] = (omega * (1 + np.array(answers))) ** 2 / state.scores.value.pi[answers]
    assert expected.any()


def test_k_vib_learns_in_the_simulator_of_who_answers_only(digits, federation):
    method, options = methods.get("k-vib"), {"clients_per_round": 6, "seed": 1, "drop": 0.6}
    history = simulation.run(digits, federation, method, rounds=6, **options)
    server, clients = history.state.server, federation.with_data
    answered = np.zeros((7, len(clients)), dtype=bool)
    for t, cohort in enumerate(history.cohorts, 1):
        online = stream(1, "answers", t).random(len(clients)) >= 0.6
        answered[t] = online & np.isin(clients, cohort)
    np.testing.assert_array_equal(server.respondents, answered[6])
    # The updates of the last round are not among the scores yet.
    times, sums = answered[:6].sum(0), server.designs[KVibState].scores.value.sums
    np.testing.assert_array_equal(sums == 0, times == 0)
    once = (times == 1) & ~answered[6]
    assert once.sum() > 2
    sizes = np.array([len(federation.shards[k]) for k in clients])
    squares = np.square(server.last_updates[once].astype(float)).sum(1)
    squares *= (sizes[once] / sizes.sum()) ** 2
    # Added once, over a probability of at most 1 and at least mix times m / N.
    assert (sums[once] >= squares * (1 - 1e-9)).all()
    assert (sums[once] <= squares / (0.4 * 6 / len(clients)) * (1 + 1e-9)).all()


def test_clients_without_gradient_are_not_drawn(view):
    rng = np.random.default_rng(0)
    cohort = OptimalClientSampling().draw(view(SIZES, np.zeros((6, 2))), 3, rng)
    assert len(cohort.clients) == len(cohort.weights) == 0
    two_gradients = GRADIENTS * [[1], [0], [0], [1], [0], [0]]
    cohort = OptimalClientSampling().draw(view(SIZES, two_gradients), 3, rng)
    assert cohort.clients.tolist() == [0, 3]
    np.testing.assert_allclose(cohort.weights, np.array([5, 3]) / 39)
    for design in (OptimalClientSampling(), OptimalClientSampling(3)):
        pi = compute_inclusion(design, view(SIZES, two_gradients), 1)
        np.testing.assert_allclose(
            pi, proportional_inclusion(np.array(SIZES) * np.abs(two_gradients).sum(1), 1)
        )


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_full_participation_and_one_client_have_the_weights_of_their_sizes(view, design):
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


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="measure is zero for every client"):
        approximate_inclusion([0, 0], 1, 1)
    with pytest.raises(InputError, match="m is 3"):
        approximate_inclusion([1, 2], 3, 1)
    with pytest.raises(InputError, match="mix is 0"):
        KVib(0)
    with pytest.raises(InputError, match="approximate is -1"):
        OptimalClientSampling(-1)


def test_poisson_sample_selects_each_client_with_its_probability(false_alarm):
    pi, rng = np.array([0.1, 0.5, 0.9]), np.random.default_rng(3)
    counts = np.zeros(3)
    for _ in range(4000):
        counts[poisson_sample(pi, np.ones(3), rng).clients] += 1
    assert (np.abs(counts - 4000 * pi) < 4.9 * np.sqrt(4000 * pi * (1 - pi))).all()
    assert false_alarm == 1e-6  # 4.9 standard deviations
