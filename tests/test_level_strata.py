"""HCSFed: strata, spreads and norms of the levels that clients send, and what they cost."""

import numpy as np
import pytest
from test_simulation import assert_same_histories

from fedstas import methods, simulation, theory
from fedstas.client_sampling import Stratified
from fedstas.compression import squeeze
from fedstas.level_strata import LevelStrata, ascending_levels
from fedstas.sim import audit

SIZES = np.array([5, 1, 20, 3, 8, 2])
SCALES = np.array([1.0, 10.0, 1.2, 11.0, 1.1, 12.0])  # two groups, (0, 2, 4) and (1, 3, 5)
GRADIENTS = np.outer(SCALES, [2.0, -1.0, 0.5, 0.5])


@pytest.fixture
def server(view):
    """Six clients, which send the levels of their gradients."""

    class Levels(view):
        def centres(self, make, batch, levels):
            """Return `make(gradient)` of every client, as `View.centres`.

            Here a client's gradient is that of all its examples: a batch must hold them all, or it would be a mean over
            batch means.
            """
            assert batch >= SIZES.sum()
            self.requests += 1
            return np.stack([make(gradient) for gradient in self._gradients])

    return Levels(SIZES, GRADIENTS)


def test_levels_ascend_and_are_those_of_the_squeezed_gradient():
    gradient = np.array([3.0, -1.0, 0.2, 2.9, 0.1])
    np.testing.assert_array_equal(
        ascending_levels(gradient, 3), squeeze(gradient[None], 3).levels[0]
    )
    assert (np.diff(ascending_levels(gradient, 3)) > 0).all()


def test_with_one_level_a_coordinate_hcsfed_is_fedsts(server, view):
    """Four distinct values and four levels: the levels are the gradient, sorted, and distances are equal."""
    distinct = np.outer(SCALES, [-1.0, 0.25, 0.5, 2.0])
    for seed in range(20):
        levels = type(server)(SIZES, distinct)
        hcsfed = LevelStrata(2, 4).draw(levels, 3, np.random.default_rng(seed))
        fedsts = Stratified(strata=2, levels=4).draw(
            view(SIZES, distinct), 3, np.random.default_rng(seed)
        )
        np.testing.assert_array_equal(hcsfed.clients, fedsts.clients)
        np.testing.assert_array_equal(hcsfed.weights, fedsts.weights)


def test_strata_are_the_two_groups_with_neyman_allocation_and_stratum_weights(server):
    """The second group has ten times the spread of the first, and two of three participants."""
    for seed in range(20):
        cohort = LevelStrata(2).draw(server, 3, np.random.default_rng(seed))
        group = cohort.clients % 2
        assert sorted(group) == [0, 1, 1] and len(set(cohort.clients)) == 3
        np.testing.assert_allclose(cohort.weights, np.where(group, 3 / (6 * 2), 3 / 6))


def test_within_a_stratum_clients_are_drawn_by_norm_which_is_a_bias(server, false_alarm):
    draws, rng, mean = 4000, np.random.default_rng(3), np.zeros(6)
    design = LevelStrata(2)
    for _ in range(draws):
        cohort = design.draw(server, 3, rng)
        mean[cohort.clients] += cohort.weights / draws
    exact = np.zeros(6)
    for group, count in (np.array([0, 2, 4]), 1), (np.array([1, 3, 5]), 2):
        pi = theory.inclusion_probabilities([int(10 * s) for s in SCALES[group]], count)
        exact[group] = [float(q) / (2 * count) for q in pi]
    # A weight is 1/2 or 1/4: its standard deviation is at most 1/4, and 5.5 of them alarm once in 10^6.
    assert (np.abs(mean - exact) < 5.5 / 4 / np.sqrt(draws)).all()
    assert np.abs(exact - 1 / 6).max() > 0.005  # an unbiased design has 1/6 of each client


def test_levels_are_requested_every_so_many_rounds(server):
    design = LevelStrata(2, restratify_every=3)
    for t in range(1, 8):
        server.round = t
        design.draw(server, 3, np.random.default_rng(t))
    assert server.requests == 3  # in rounds 1, 4 and 7


def test_a_client_sends_its_levels_and_no_codes():
    # Six clients with 28 examples in all; hcsfed has nine levels.
    bench = audit.Bench(methods.get("hcsfed"))
    view = bench.server()
    bench.draw(view, 1)
    cost = view.server.cost
    assert cost["bytes_up"] == 6 * 9 * 4  # a level is a float32
    assert cost["bytes_down"] % 6 == 0 < cost["bytes_down"]  # w_t, or the seed of w_0, to each
    assert cost["examples"] == 28  # each once, for the gradients


def test_a_resumed_run_equals_the_uninterrupted_one(digits, federation):
    options = {"clients_per_round": 4, "seed": 0}
    method = methods.get("hcsfed", restratify_every=3)
    uninterrupted = simulation.run(digits, federation, method, rounds=5, **options)
    interrupted = simulation.run(digits, federation, method, rounds=2, **options)
    resumed = simulation.run(digits, federation, method, rounds=5, resume=interrupted, **options)
    assert_same_histories(resumed, uninterrupted)
