"""Aggregation weights, and the steps of each kind of server."""

import itertools

import numpy as np
import pytest
import torch

from fedstas import aggregation
from fedstas.aggregation import Adaptive, Moments, UpdateMemory, UpdateMemoryServer
from fedstas.errors import InputError


def test_cohort_weights_are_shares_of_the_cohort():
    np.testing.assert_allclose(aggregation.cohort_weights([1, 3, 4]), [1 / 8, 3 / 8, 1 / 2])


def test_expansion_weights_are_n_over_m_omega():
    np.testing.assert_allclose(aggregation.expansion_weights([0.1, 0.3], 10), [0.5, 1.5])


def test_stratum_weights_are_shares_over_participants():
    np.testing.assert_allclose(
        aggregation.stratum_weights([6, 4], [3, 1]), [6 / (10 * 3), 4 / (10 * 1)]
    )


def test_hansen_hurwitz_weights_are_omega_over_draws_times_p():
    weights = aggregation.hansen_hurwitz([0.2, 0.3], [0.5, 0.25], [2, 4])
    np.testing.assert_allclose(weights, [0.2, 0.3])


def test_an_empty_stratum_has_weight_zero():
    np.testing.assert_allclose(aggregation.stratum_weights([6, 0, 4], [3, 0, 1]), [0.2, 0, 0.4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aggregation.cohort_weights([0, 0]), "one must have some"),
        (lambda: aggregation.cohort_weights([1, -1]), "client sizes"),
        (lambda: aggregation.cohort_weights([]), "client sizes"),
        (lambda: aggregation.expansion_weights([], 3), "omega"),
        (lambda: aggregation.expansion_weights([0.5], 0), "number of clients is 0"),
        (lambda: aggregation.expansion_weights([0.5, 0.5, 0.2], 2), "3 participants of 2 clients"),
        (lambda: aggregation.stratum_weights([3, 4], [1, 0]), "needs a participant"),
        (lambda: aggregation.stratum_weights([3, 4], [1]), "same shape"),
        (lambda: aggregation.hansen_hurwitz([0.5], [0.0], [1]), "selection probabilities"),
        (lambda: aggregation.hansen_hurwitz([0.5], [np.nan], [1]), "selection"),
    ],
)
def test_undefined_weights_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_aggregate_of_weights_that_sum_to_one_is_the_average_of_the_models():
    rng = np.random.default_rng(0)
    params, models, weights = rng.normal(size=5), rng.normal(size=(3, 5)), np.array([0.2, 0.3, 0.5])
    update = aggregation.aggregate(params, models, weights)
    np.testing.assert_allclose(params + update, weights @ models, atol=1e-15)


def test_aggregate_of_other_weights_scales_the_update_and_not_the_model():
    params, models = np.array([100.0, 100.0]), np.array([[101.0, 102.0], [99.0, 100.0]])
    update = aggregation.aggregate(params, models, np.array([2.0, 0.5]))
    np.testing.assert_allclose(update, [2 * 1 - 0.5, 2 * 2])


def test_torch_and_numpy_aggregate_to_the_same_update():
    rng = np.random.default_rng(1)
    params, models, weights = rng.normal(size=5), rng.normal(size=(3, 5)), rng.random(3)
    tensors = (torch.from_numpy(a) for a in (params, models, weights))
    np.testing.assert_allclose(
        aggregation.aggregate(*tensors).numpy(),
        aggregation.aggregate(params, models, weights),
        atol=1e-15,
    )


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_average_steps_by_its_rate(rate):
    after = aggregation.Average(rate).step(np.array([1.0, 2.0]), np.array([2.0, -2.0]))
    np.testing.assert_array_equal(after, [1 + 2 * rate, 2 - 2 * rate])


@pytest.mark.parametrize("kind", ["adam", "yogi", "adagrad"])
def test_adaptive_servers_follow_reddi_et_al_step_by_step(kind):
    server = Adaptive(kind, rate=0.1, beta1=0.9, beta2=0.99, tau=0.01)
    w, state = np.array([1.0, -2.0]), Moments()
    m, v, expected = np.zeros(2), np.full(2, 1e-4), w.copy()
    for update in np.array([[0.5, 0.0], [-0.2, 0.003], [0.1, -1.0]]):
        m = 0.9 * m + 0.1 * update
        if kind == "adam":
            v = 0.99 * v + 0.01 * update**2
        elif kind == "yogi":
            v = v - 0.01 * update**2 * np.sign(v - update**2)
        else:
            v = v + update**2
        expected = expected + 0.1 * m / (np.sqrt(v) + 0.01)
        w = server.step(w, update, state)
        np.testing.assert_allclose(w, expected, rtol=1e-12)


def test_adaptive_servers_take_tensors_and_refuse_bad_settings():
    stepped = Adaptive("yogi").step(torch.zeros(3), torch.ones(3), Moments())
    assert torch.isfinite(stepped).all() and (stepped > 0).all()
    for bad in ({"kind": "sgd"}, {"beta1": 1.0}, {"tau": 0.0}, {"rate": -1.0}):
        with pytest.raises(InputError):
            Adaptive(**bad)


OMEGA = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
MEMORY = torch.tensor([[1.0, 0, 2], [0, 3, -1], [-2, 1, 1], [5, 5, 5]], dtype=torch.float64)
UPDATES = torch.tensor([[2.0, 1, 0], [1, 1, 1], [0, -4, 2], [1, 0, 0]], dtype=torch.float64)


def combine_updates(kind, clients, weights, updates, memory):
    """Return the server's update and its memory afterwards; `memory` is None before the first round."""
    state = UpdateMemory(None if memory is None else memory.clone())
    chosen = torch.tensor(clients, dtype=torch.long)
    weights = torch.as_tensor(weights, dtype=torch.float64)
    update = UpdateMemoryServer(kind).combine(chosen, weights, updates[chosen], OMEGA, state)
    return update.numpy(), state.updates.numpy()


def enumerate_cohorts(m):
    """Yield each cohort of m of 4 clients drawn uniformly without replacement, and its weights N / m omega_k."""
    for clients in itertools.combinations(range(4), m):
        yield list(clients), 4 / m * OMEGA[list(clients)]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_fedvarp_is_unbiased_for_any_memory(m):
    aggregated = [
        combine_updates("fedvarp", k, w, UPDATES, MEMORY)[0] for k, w in enumerate_cohorts(m)
    ]
    np.testing.assert_allclose(np.mean(aggregated, axis=0), (OMEGA @ UPDATES).numpy(), atol=1e-14)
    assert (np.ptp(aggregated, axis=0) > 0.1).any() == (m < 4)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_fedvarp_without_memory_is_the_plain_sum_and_without_change_has_no_variance(m):
    for clients, weights in enumerate_cohorts(m):
        plain = (weights @ UPDATES[clients]).numpy()
        for memory in (None, torch.zeros_like(MEMORY)):
            update, _ = combine_updates("fedvarp", clients, weights, UPDATES, memory)
            np.testing.assert_allclose(update, plain, atol=1e-15)
        update, _ = combine_updates("fedvarp", clients, weights, UPDATES, UPDATES)
        np.testing.assert_allclose(update, (OMEGA @ UPDATES).numpy(), atol=1e-15)


@pytest.mark.parametrize("kind", ["fedvarp", "mifa"])
def test_the_memory_holds_each_clients_last_update(kind):
    _, memory = combine_updates(kind, [2, 0], [0.5, 0.5], UPDATES, MEMORY)
    np.testing.assert_array_equal(memory[[0, 2]], UPDATES[[0, 2]].numpy())
    np.testing.assert_array_equal(memory[[1, 3]], MEMORY[[1, 3]].numpy())
    twice = torch.stack([UPDATES[0], UPDATES[1]])
    state = UpdateMemory(MEMORY.clone())
    UpdateMemoryServer(kind).combine(
        torch.tensor([3, 3]), torch.tensor([0.5, 0.5]).double(), twice, OMEGA, state
    )
    np.testing.assert_array_equal(state.updates[3], UPDATES[1])  # the later of the two


def test_mifa_is_the_mean_of_the_last_updates_whatever_the_weights():
    update, memory = combine_updates("mifa", [2, 0], [7.0, -3.0], UPDATES, MEMORY)
    last_updates = MEMORY.clone()
    last_updates[[0, 2]] = UPDATES[[0, 2]]
    np.testing.assert_allclose(update, (OMEGA @ last_updates).numpy(), atol=1e-15)
    np.testing.assert_array_equal(memory, last_updates.numpy())
    pairs = [combine_updates("mifa", k, w, UPDATES, MEMORY) for k, w in enumerate_cohorts(2)]
    means = [update for update, _ in pairs]
    half = (OMEGA @ (UPDATES + MEMORY) / 2).numpy()  # each client is new in half of the cohorts
    np.testing.assert_allclose(np.mean(means, axis=0), half, atol=1e-14)


@pytest.mark.parametrize("kind", ["fedvarp", "mifa"])
def test_an_empty_cohort_leaves_the_memory_unchanged(kind):
    update, memory = combine_updates(kind, [], [], UPDATES, MEMORY)
    np.testing.assert_allclose(update, (OMEGA @ MEMORY).numpy(), atol=1e-15)
    np.testing.assert_array_equal(memory, MEMORY.numpy())
    update, _ = combine_updates(kind, [], [], UPDATES, None)
    assert not update.any()


def test_an_update_memory_server_steps_by_its_rate_and_refuses_bad_settings():
    after = UpdateMemoryServer(rate=0.5).step(torch.ones(2), torch.tensor([2.0, -2.0]))
    np.testing.assert_array_equal(after, [2, 0])
    for bad in ({"kind": "scaffold"}, {"rate": 0}):
        with pytest.raises(InputError):
            UpdateMemoryServer(**bad)
