"""Biased designs: which clients they choose, how large their bias is, what they request."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstas import Cohorts, theory
from fedstas.biased import Cyclic, DivFL, PowerOfChoice, facility_location
from fedstas.errors import InputError

SIZES = np.array([5, 1, 20, 3, 8, 2])
GRADIENTS = np.array([[1.0, 0], [0, 4], [2, 2], [0.1, 0], [3, -3], [0, 9]])
LOSSES = np.array([0.3, 2.0, 0.1, 2.0, 0.7, 1.5])


@pytest.fixture
def server(view):
    """Six clients; `loss_clients` are those last asked for a loss."""

    class Losses(view):
        loss_clients = ()

        def losses(self, clients):
            self.loss_clients = clients.tolist()
            return LOSSES[clients]

    return Losses(SIZES, GRADIENTS)


def test_power_of_choice_takes_the_worst_of_its_candidates(server):
    for seed in range(50):
        cohort = PowerOfChoice(4).draw(server, 2, np.random.default_rng(seed))
        assert len(set(server.loss_clients)) == 4  # and asks nobody else
        worst = sorted(server.loss_clients, key=lambda k: -LOSSES[k])[:2]
        assert LOSSES[cohort.clients].tolist() == LOSSES[worst].tolist()
        assert set(cohort.clients.tolist()) <= set(server.loss_clients)
        np.testing.assert_array_equal(cohort.weights, [1 / 2, 1 / 2])
    for m, d in ((1, 2), (3, 6), (5, 6)):  # twice m, at most N
        PowerOfChoice().draw(server, m, np.random.default_rng(0))
        assert len(server.loss_clients) == d


def test_power_of_choice_with_all_candidates_is_the_worst_clients_whatever_their_size(server):
    for seed in range(20):
        cohort = PowerOfChoice(6).draw(server, 2, np.random.default_rng(seed))
        # They hold 4 of the 39 examples, and get all the weight.
        assert set(cohort.clients.tolist()) == {1, 3}
        assert cohort.weights.tolist() == [1 / 2, 1 / 2]


def test_the_bias_of_power_of_choice_by_enumeration(server):
    """m = 1 of d = 2: the chance that a client is the worse of an ordered pair drawn by size."""
    p, exact = SIZES / SIZES.sum(), np.zeros(6)
    for i, j in itertools.permutations(range(6), 2):
        chance = p[i] * p[j] / (1 - p[i])
        exact[i if LOSSES[i] >= LOSSES[j] else j] += chance  # a tie: the first drawn
    np.testing.assert_allclose(exact.sum(), 1)
    draws, rng = 4000, np.random.default_rng(7)
    frequency = np.zeros(6)
    for _ in range(draws):
        frequency[PowerOfChoice(2).draw(server, 1, rng).clients] += 1 / draws
    standard_error = np.sqrt(exact * (1 - exact) / draws)
    assert (np.abs(frequency - exact) <= 4.9 * standard_error).all()  # a false alarm in 10^6 each
    assert exact[2] < 0.2 * p[2] and exact[1] > 2 * p[1]  # the best is hardly ever seen


def test_with_as_many_candidates_as_participants_large_clients_count_too_little(server):
    """Whatever the losses, all candidates take part: the mean weight of a client is pi/m, which is at most 1/3.

    Client 2 holds 20 of the 39 examples.
    """
    pi = np.array([float(q) for q in theory.inclusion_probabilities(SIZES.tolist(), 3)])
    rng, draws = np.random.default_rng(1), 3000
    mean = np.zeros(6)
    for _ in range(draws):
        cohort = PowerOfChoice(3).draw(server, 3, rng)
        mean[cohort.clients] += cohort.weights / draws
    standard_error = np.sqrt(pi * (1 - pi) / draws) / 3
    assert (np.abs(mean - pi / 3) < 4.9 * standard_error).all()  # a false alarm in 10^6 each
    assert mean[2] < 1 / 3 + 1e-9 < 20 / 39


def saved_distance(distances, chosen):
    """Return the distances saved by a choice, compared with all clients at the largest distance."""
    return distances.max() * len(distances) - distances[:, list(chosen)].min(1).sum()


POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


@given(POINTS, st.data())
def test_greedy_facility_location_saves_at_least_63_percent_of_the_optimum(points, data):
    x = np.array(points, dtype=float)
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    m = data.draw(st.integers(1, len(x)))
    chosen = facility_location(distances, m)
    assert len(set(chosen.tolist())) == m
    best = max(saved_distance(distances, s) for s in itertools.combinations(range(len(x)), m))
    assert saved_distance(distances, chosen) >= (1 - 1 / np.e) * best - 1e-9
    if m in (1, len(x)):
        assert saved_distance(distances, chosen) == pytest.approx(best, abs=1e-9)


def test_greedy_facility_location_is_not_always_optimal():
    x = np.array([0.0, 1, 2, 3, 4])  # the middle first; the best two are 1 and 3 (or 4)
    distances = np.abs(x[:, None] - x)
    assert facility_location(distances, 2).tolist() == [2, 0]
    assert saved_distance(distances, [2, 0]) < saved_distance(distances, [1, 3])


def test_divfl_chooses_representatives_and_weighs_them_by_those_they_stand_for(view):
    z = np.array([[0.0, 0], [0.1, 0], [9, 0], [9, 0.1], [9, -0.1], [0, 9]])
    cohort = DivFL().draw(view(SIZES, z), 3, np.random.default_rng(0))
    weights = dict(zip(cohort.clients.tolist(), cohort.weights.tolist(), strict=True))
    # Of 39 examples client 0 and its neighbour hold 5 + 1, client 2 and its two 20 + 3 + 8, and client 5 holds 2.
    assert weights == pytest.approx({0: 6 / 39, 2: 31 / 39, 5: 2 / 39}, abs=1e-15)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_bias_of_divfl_is_what_clients_differ_from_their_representatives(view, seed, m):
    rng = np.random.default_rng(seed)
    z, sizes = rng.normal(size=(6, 4)), rng.integers(1, 9, 6)
    server = view(sizes, z)
    cohort = DivFL().draw(server, m, rng)
    assert len(set(cohort.clients.tolist())) == m
    assert cohort.weights.sum() == pytest.approx(1, abs=1e-12) and (cohort.weights > 0).all()
    z = server.gradients(9).restore().astype(float)
    distances = np.linalg.norm(z[:, None] - z, axis=2)
    error = np.linalg.norm(cohort.weights @ z[cohort.clients] - sizes / sizes.sum() @ z)
    bound = sizes / sizes.sum() @ distances[:, cohort.clients].min(1)
    assert error <= bound + 2.0**-14 * distances.max()  # distances are rounded


@pytest.mark.parametrize("exponent", [-800, 0, 800])
def test_divfl_does_not_depend_on_a_common_factor(exponent):
    gradients = np.random.default_rng(0).normal(size=(6, 9))
    cohorts = [
        Cohorts("divfl", sizes=range(1, 7), m=3).sample(gradients=np.ldexp(gradients, e))
        for e in (0, exponent)
    ]
    np.testing.assert_array_equal(cohorts[0].clients, cohorts[1].clients)
    np.testing.assert_array_equal(cohorts[0].weights, cohorts[1].weights)


def test_divfl_is_deterministic_and_breaks_ties_by_index(view):
    for seed in (0, 1):
        cohort = DivFL().draw(view(SIZES, np.zeros((6, 2))), 2, np.random.default_rng(seed))
        assert cohort.clients.tolist() == [0, 1]
        np.testing.assert_allclose(cohort.weights, [38 / 39, 1 / 39])
    everyone = DivFL().draw(view(SIZES, GRADIENTS), 6, np.random.default_rng(0))
    assert sorted(everyone.clients.tolist()) == list(range(6))
    np.testing.assert_allclose(everyone.weights, SIZES[everyone.clients] / 39)


@pytest.mark.parametrize("m", range(1, 7))
def test_in_a_cycle_each_client_takes_part_once(view, m):
    server, rng = view(SIZES, GRADIENTS), np.random.default_rng(m)
    turns = []
    for _ in range(2):
        turn = []
        for t in range(math.ceil(6 / m)):
            cohort = Cyclic().draw(server, m, rng)
            assert len(cohort.clients) == min(m, 6 - t * m)
            share = SIZES[cohort.clients] / SIZES[cohort.clients].sum()
            np.testing.assert_allclose(cohort.weights, share)
            turn += cohort.clients.tolist()
            server.round += 1
        assert sorted(turn) == list(range(6))
        turns.append(turn)
    assert turns[0] == turns[1]
    others = {
        tuple(Cyclic().draw(view(SIZES, GRADIENTS), m, np.random.default_rng(s)).clients)
        for s in range(9)
    }
    assert len(others) > 1


def test_a_whole_cycle_is_unbiased_for_clients_of_equal_size_only(view):
    def mean(sizes):
        server, total, rng = view(sizes, GRADIENTS), np.zeros(6), np.random.default_rng(0)
        for _ in range(3):
            cohort = Cyclic().draw(server, 2, rng)
            total[cohort.clients] += cohort.weights / 3
        return total

    np.testing.assert_allclose(mean(np.full(6, 4)), 1 / 6)
    assert np.abs(mean(SIZES) - SIZES / 39).max() > 0.1


@pytest.mark.parametrize("design", [PowerOfChoice(), DivFL(), Cyclic()], ids=repr)
def test_one_client_takes_part_and_too_many_participants_are_refused(server, view, design):
    class OneClient(view):
        def losses(self, clients):
            return np.ones(len(clients))

    cohort = design.draw(OneClient([7], [[1.0, 2.0]]), 1, np.random.default_rng(0))
    assert (cohort.clients.tolist(), cohort.weights.tolist()) == ([0], [1.0])
    for m in (0, 7):
        with pytest.raises(
            InputError, match=f"participants .* is {m}: .* at least 1 and at most 6"
        ):
            design.draw(server, m, np.random.default_rng(0))


def test_bad_input_is_refused(server):
    for d in (1, 7):
        with pytest.raises(InputError, match=f"candidates is {d}: .* at least 2 and at most 6"):
            PowerOfChoice(d).draw(server, 2, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"must be \[N, N\]"):
        facility_location(np.zeros((2, 3)), 1)
    with pytest.raises(InputError, match="distances are"):
        facility_location([[np.nan]], 1)
    with pytest.raises(InputError, match="m is 3"):
        facility_location(np.zeros((2, 2)), 3)
