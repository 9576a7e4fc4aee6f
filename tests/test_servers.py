"""Servers beyond averages: control variates, memories of clusters, normalised averages, momentum."""

import itertools
from copy import deepcopy
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedstas import engine, methods, partition, simulation
from fedstas.aggregation import (
    ClusterMemory,
    ClusterMemoryServer,
    ControlVariates,
    NormalisedAverage,
    Scaffold,
    ServerMomentum,
    Velocity,
)
from fedstas.client_sampling import Cohort, Uniform
from fedstas.config import from_dict, to_dict
from fedstas.errors import InputError
from fedstas.methods import LocalSGD

OMEGA = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
MEMORY = torch.tensor([[1.0, 0, 2], [0, 3, -1], [-2, 1, 1], [5, 5, 5]], dtype=torch.float64)
UPDATES = torch.tensor([[2.0, 1, 0], [1, 1, 1], [0, -4, 2], [1, 0, 0]], dtype=torch.float64)
LABELS = torch.tensor([0, 1, 0, 1])
OPTIONS = {"clients_per_round": 5, "seed": 1, "device": "cpu"}
OPTIONS_WITH_DOWNLOAD = OPTIONS | {
    "initial_model": "sent"
}  # w_0 is downloaded like any other model


def enumerate_cohorts(m):
    """Yield each cohort of m of 4 clients drawn uniformly without replacement, and its weights N / m omega_k."""
    for clients in itertools.combinations(range(4), m):
        yield torch.tensor(clients), 4 / m * OMEGA[list(clients)]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_a_memory_of_clusters_is_unbiased_by_enumeration(m):
    last = torch.tensor([[3.0, -1, 2], [0, 7, 1]], dtype=torch.float64)
    updates = []
    for k, w in enumerate_cohorts(m):
        state = ClusterMemory(LABELS, last.clone())
        updates.append(ClusterMemoryServer().combine(k, w, UPDATES[k], OMEGA, state))
    np.testing.assert_allclose(np.mean(updates, axis=0), (OMEGA @ UPDATES).numpy(), atol=1e-14)


def test_clusters_of_equal_updates_have_no_variance():
    equal = torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64)
    for m in (1, 2, 3):
        for k, w in enumerate_cohorts(m):
            state = ClusterMemory(LABELS, equal.clone())
            update = ClusterMemoryServer().combine(k, w, equal[LABELS[k]], OMEGA, state)
            np.testing.assert_allclose(update, OMEGA @ equal[LABELS], atol=1e-14)


def test_a_cluster_remembers_the_mean_of_its_participants():
    server, state = ClusterMemoryServer(), ClusterMemory(LABELS)
    k = torch.tensor([0, 2, 1])
    update = server.combine(k, OMEGA[k], UPDATES[k], OMEGA, state)
    np.testing.assert_allclose(update, OMEGA[k] @ UPDATES[k], atol=1e-15)  # nothing remembered yet
    np.testing.assert_array_equal(state.updates, [[1, -1.5, 1], [1, 1, 1]])
    server.combine(torch.tensor([3]), OMEGA[3:], UPDATES[3:], OMEGA, state)
    np.testing.assert_array_equal(state.updates, [[1, -1.5, 1], [1, 0, 0]])


def test_stratified_weights_cancel_a_memory_of_the_same_strata():
    """One client of each stratum with the stratum's weight: no memory of strata changes the update."""
    last = torch.tensor([[3.0, -1, 2], [0, 7, 1]], dtype=torch.float64)
    k, weights = torch.tensor([2, 1]), torch.stack([OMEGA[[0, 2]].sum(), OMEGA[[1, 3]].sum()])
    update = ClusterMemoryServer().combine(
        k, weights, UPDATES[k], OMEGA, ClusterMemory(LABELS, last)
    )
    np.testing.assert_allclose(update, weights @ UPDATES[k], atol=1e-14)


def test_the_clusters_are_made_once_and_paid_for(digits, federation):
    history = simulation.run(
        digits, federation, methods.get("cluster-fedvarp"), rounds=2, **OPTIONS_WITH_DOWNLOAD
    )
    n, parameters = len(federation.with_data), len(history.params)
    labels = history.state.server.optimizer.labels
    assert labels.shape == (n,) and 1 < labels.max() < 10
    frame = history.frame
    plain = simulation.run(
        digits, federation, methods.get("fedavg-unbiased"), rounds=2, **OPTIONS_WITH_DOWNLOAD
    )
    extra = frame["bytes_down"] - plain.frame["bytes_down"]
    # The columns are cumulative: the clusters are paid for in round 1, and nothing is added in round 2. The five
    # participants of round 1 download w_0 anyway.
    assert extra.tolist() == [4 * parameters * (n - 5)] * 2
    total = len(digits.train_y)
    assert (frame["examples"] - plain.frame["examples"]).tolist() == [total, total]
    assert (frame["bytes_up"] - plain.frame["bytes_up"] > 0).all()


def test_control_variates_follow_option_two_step_by_step():
    """Karimireddy et al., Algorithm 1, for four clients of equal weight, written out."""
    n, lr, steps, equal = 4, 0.1, torch.tensor([3.0, 3, 3, 3]).double(), OMEGA * 0 + 0.25
    c_k, c = MEMORY - MEMORY.mean(0), torch.zeros(3).double()
    state, server = ControlVariates(c_k.clone()), Scaffold()
    for clients in ([1, 3], [0, 2], [3, 0]):
        k = torch.tensor(clients)
        np.testing.assert_allclose(server.corrections(k, equal, state), c - c_k[k], atol=1e-15)
        updates, lengths = UPDATES[k], lr * steps[k]
        half = torch.full((2,), 0.5).double()
        update = server.combine(k, half, updates, equal, state, lengths)
        np.testing.assert_allclose(update, updates.mean(0), atol=1e-15)
        new = c_k[k] - c - updates / (lr * 3)  # c_i+ = c_i - c + (x - y_i) / (K eta)
        c = c + 2 / n * (new - c_k[k]).mean(0)  # c + |S| / N times the mean change
        c_k[k] = new
        np.testing.assert_allclose(state.clients, c_k, atol=1e-14)
        np.testing.assert_allclose(equal @ state.clients, c, atol=1e-14)


def test_a_client_without_a_step_keeps_its_control_variate():
    state = ControlVariates(MEMORY.clone())
    k, lengths = torch.tensor([0, 1]), torch.tensor([0.0, 0.2]).double()
    updates = torch.stack([UPDATES[0] * 0, UPDATES[1]])
    Scaffold().combine(k, OMEGA[k], updates, OMEGA, state, lengths)
    np.testing.assert_array_equal(state.clients[0], MEMORY[0])
    assert not np.array_equal(state.clients[1], MEMORY[1])


def test_scaffold_trains_as_the_algorithm_written_out(digits):
    """Three rounds of all clients, as a loop over clients that keeps the control variates c_k and c itself."""
    federation = partition.iid(digits.train_y, 4, 0)
    method = methods.get("scaffold", lr=0.3, steps=4, batch=16)
    options = OPTIONS | {"clients_per_round": 4}
    history = simulation.run(digits, federation, method, rounds=3, **options)
    setup = simulation.prepare(digits, federation, method, 4, 1)
    server, x = setup.start()
    omega = torch.from_numpy(federation.sizes / federation.sizes.sum()).float()
    c_k = torch.zeros(4, len(x))
    for t in (1, 2, 3):
        cohort = history.cohorts[t - 1]
        participants = simulation.Cohort(cohort, np.ones(4))
        idx, weight, _ = simulation.draw_batches(method, setup.data, participants, np.ones(4), 1, t)
        c, mean_update = omega @ c_k, x * 0
        for place, k in enumerate(cohort):
            rows = idx[[place]], weight[[place]]
            corrections = (c - c_k[k])[None]
            y = engine.local_updates(
                server.module, x, setup.data, *rows, lr=0.3, corrections=corrections
            )[0]
            mean_update = mean_update + omega[k] * (y - x)
            c_k[k] = c_k[k] - c + (x - y) / (4 * 0.3)
        x = x + mean_update
    np.testing.assert_allclose(history.params, x.numpy(), atol=1e-5)


@dataclass(frozen=True)
class OneCohort:
    """A design whose cohort and weights are fixed."""

    clients: tuple[int, ...]
    weights: tuple[float, ...]

    def draw(self, view, m, rng):
        return Cohort(np.array(self.clients), np.array(self.weights))


@pytest.mark.parametrize("steps", [1, 3])
def test_scaffold_is_unbiased_over_all_cohorts(steps, digits):
    """By enumeration, with the training itself: in round 2 the mean of w_{t+1} - w_t over the 6 pairs of four clients,
    and over the 16 ordered draws of md, is the update of all clients; for one step that is the gradient step of all data."""
    shards, lr = np.split(np.arange(60), [6, 18, 36]), 0.5
    federation = partition.federation(digits.train_y, shards)
    p = federation.sizes / 60
    everyone = OneCohort((0, 1, 2, 3), tuple(p))
    method = methods.get("scaffold", clients=everyone, lr=lr, steps=steps, batch=60)  # whole shards
    setup = simulation.prepare(digits, federation, method, 4, 0)
    setup = replace(setup, data=replace(setup.data, x=setup.data.x.double()))
    server, w = setup.start()
    server.module.double()
    w, _ = simulation.train_round(setup, server, 1, w.double())

    def update(clients, weights):
        design = replace(method, clients=OneCohort(tuple(clients), tuple(weights)))
        after, _ = simulation.train_round(replace(setup, method=design), deepcopy(server), 2, w)
        return after - w

    full = update(range(4), p)
    pairs = [update(k, 2 * p[list(k)]) for k in itertools.combinations(range(4), 2)]
    draws = [
        p[k] * p[j] * update((k, j), (0.5, 0.5)) for k, j in itertools.product(range(4), repeat=2)
    ]
    assert min(float((pair - full).norm()) for pair in pairs) > 1e-3  # one cohort alone is not
    torch.testing.assert_close(sum(pairs) / 6, full, rtol=0, atol=1e-12)
    torch.testing.assert_close(sum(draws), full, rtol=0, atol=1e-12)
    gradients = torch.stack([*engine.client_gradients(server.module, w, setup.data)])
    step = -lr * torch.from_numpy(p) @ gradients
    assert torch.allclose(full, step, rtol=0, atol=1e-12) == (steps == 1)


def test_scaffold_doubles_the_traffic_of_models_and_nothing_else(digits, federation):
    scaffold, plain = (
        simulation.run(
            digits, federation, methods.get(name), rounds=3, **OPTIONS_WITH_DOWNLOAD
        ).frame
        for name in ("scaffold", "fedavg-unbiased")
    )
    sizes = 8 * len(federation.with_data)  # each client sends its size once
    assert scaffold["bytes_down"].tolist() == (2 * plain["bytes_down"]).tolist()
    assert (scaffold["bytes_up"] - sizes).tolist() == (2 * (plain["bytes_up"] - sizes)).tolist()
    assert scaffold["examples"].tolist() == plain["examples"].tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.floats(0.001, 1))
def test_the_normalised_average_is_the_plain_one_for_equal_steps(steps, lr):
    weights = np.arange(1.0, len(steps) + 1)
    weights /= weights.sum()
    steps = np.array(steps)
    lengths = LocalSGD(lr=lr).lengths(steps, 1)
    np.testing.assert_allclose(lengths, lr * steps, rtol=1e-12)
    result = NormalisedAverage().normalise(weights, lengths)
    if steps.min() > 0:
        tau = weights @ steps  # eq. of FedNova: tau_eff sum p_i u_i / tau_i
        np.testing.assert_allclose(result, tau * weights / steps, rtol=1e-10)
    assert np.isfinite(result).all()
    if len(set(steps)) == 1 and steps[0]:
        np.testing.assert_allclose(result, weights, rtol=1e-10)


@pytest.mark.parametrize(
    "settings", [{"momentum": 0.9}, {"prox": 0.5}, {"momentum": 0.5, "prox": 1}]
)
def test_lengths_are_the_norms_of_wang_et_al(settings):
    """||a||_1, Section 4: (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho) for momentum, (1 - (1 - alpha)^tau) / alpha
    with alpha = lr mu for FedProx; both together by a quadratic with gradient 1 and curvature mu."""
    local, steps = LocalSGD(lr=0.2, **settings), np.array([0, 1, 2, 5])
    lengths = local.lengths(steps, 1)
    rho, alpha = local.momentum, 0.2 * local.prox
    if not alpha:
        expected = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    elif not rho:
        expected = (1 - (1 - alpha) ** steps) / alpha
    else:
        w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimizer, path = torch.optim.SGD([w], lr=0.2, momentum=rho), [0.0]
        for _ in range(5):
            optimizer.zero_grad()
            (w + local.prox / 2 * w**2).sum().backward()
            optimizer.step()
            path.append(-float(w.detach()) / 0.2)
        expected = np.array(path)[steps]
    np.testing.assert_allclose(lengths, 0.2 * expected, atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_mean_of_fednova_over_all_cohorts(m):
    """Over all ordered draws with p_k = omega_k: 1 - 1/m of the update of all clients, and 1/m of FedAvg's."""
    steps, weights = torch.tensor([1.0, 4, 2, 7]).double(), torch.full((m,), 1 / m).double()
    mean = torch.zeros(3).double()
    for clients in itertools.product(range(4), repeat=m):
        k = torch.tensor(clients)
        mean += (
            OMEGA[k].prod() * NormalisedAverage().normalise(weights, 0.1 * steps[k]) @ UPDATES[k]
        )
    everyone = NormalisedAverage().normalise(OMEGA, 0.1 * steps) @ UPDATES
    fedavg = OMEGA @ UPDATES
    np.testing.assert_allclose(mean, (1 - 1 / m) * everyone + fedavg / m, atol=1e-14)
    assert float((everyone - fedavg).norm()) > 0.1  # that of all clients is not FedAvg's


def test_fednova_is_fedavg_only_where_all_have_as_many_steps(digits, federation):
    def run(**settings):
        return simulation.run(digits, federation, rounds=2, **OPTIONS, **settings).params

    local = {"lr": 0.2, "batch": 16}
    equal = [run(method=methods.get(n, steps=3, epochs=None, **local)) for n in ("fednova", "md")]
    np.testing.assert_allclose(*equal, atol=1e-6)
    fednova, md = (run(method=methods.get(n, epochs=1, **local)) for n in ("fednova", "md"))
    assert np.abs(fednova - md).max() > 1e-3


def test_server_momentum_follows_its_recurrence():
    server, state, w, v = ServerMomentum(rate=0.5, beta=0.9), Velocity(), np.ones(3), np.zeros(3)
    for update in UPDATES.numpy():
        result = server.step(w, update, state)
        v = 0.9 * v + update
        np.testing.assert_allclose(result, w + 0.5 * v)
        w = result


def test_momentum_of_zero_is_the_plain_average(digits, federation):
    with_momentum, average = (
        simulation.run(digits, federation, methods.get("md", **server), rounds=3, **OPTIONS)
        for server in ({"server": ServerMomentum(beta=0)}, {})
    )
    np.testing.assert_array_equal(with_momentum.params, average.params)


@pytest.mark.parametrize("server", [Scaffold(), ClusterMemoryServer(4), ServerMomentum()])
@pytest.mark.parametrize("name", ["md", "poisson", "fedstas-least-variance"])
def test_servers_train_with_other_designs_and_resume(name, server, digits, federation):
    method = methods.get(name, server=server)
    assert from_dict(to_dict(server)) == server
    first = simulation.run(digits, federation, method, rounds=2, **OPTIONS)
    resumed = simulation.run(
        digits, federation, method, rounds=4, resume=deepcopy(first), **OPTIONS
    )
    uninterrupted = simulation.run(digits, federation, method, rounds=4, **OPTIONS)
    np.testing.assert_array_equal(resumed.params, uninterrupted.params)


def test_bad_settings_of_servers_are_refused():
    for kind, bad in (
        (ServerMomentum, {"beta": 1}),
        (ClusterMemoryServer, {"strata": 0}),
        (ClusterMemoryServer, {"levels": 1}),
        (Scaffold, {"rate": 0}),
        (NormalisedAverage, {"rate": -1}),
    ):
        with pytest.raises(InputError):
            kind(**bad)


@pytest.mark.parametrize(
    "design",
    [
        methods.get("strat").clients,
        methods.get("stratified-labels").clients,
        methods.get("hcsfed").clients,
        Uniform("plain"),
    ],
)
def test_a_server_that_remembers_counts_clients_alike_where_the_design_does(design):
    """Both halves of such a method must aim at one target: the design's weights are those of 1/N."""
    method = methods.get("fedvarp", clients=design)
    view = SimpleNamespace(clients=2, sizes=np.array([1, 3]))
    shares = simulation.client_shares(method, view, torch.zeros(1))
    np.testing.assert_array_equal(shares, [0.5, 0.5])
    shares = simulation.client_shares(methods.get("fedvarp"), view, torch.zeros(1))
    np.testing.assert_array_equal(shares, [0.25, 0.75])
