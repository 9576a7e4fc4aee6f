"""How a client trains: learning rates by round, passes over its sample, momentum, Adam; every backend alike."""

import itertools
import math
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from fedstas import engine, methods, models, partition, simulation
from fedstas.aggregation import Scaffold
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError
from fedstas.methods import LocalSGD
from fedstas.sim import one_round

SIZES = (7, 1, 12, 5)
NETWORKS = {
    "perceptron": (models.Perceptron(20, 4, hidden=8), (1, 4, 5)),
    "convolutional": (models.Convolutional(4), (3, 32, 32)),
    "convolutional-dropout": (models.ConvolutionalDropout(4), (3, 32, 32)),
}
DIGITS = {"clients_per_round": 5, "seed": 1, "device": "cpu"}


@given(st.integers(1, 400), st.integers(1, 300), st.floats(1e-4, 10), st.floats(0.05, 1))
def test_the_rate_of_a_round_is_the_closed_form_of_its_schedule(t, period, lr, factor):
    def rate(schedule):
        changes = {"schedule": schedule, "decay_rounds": period, "decay_factor": factor}
        return LocalSGD(lr=lr, **changes).learning_rate(t)

    assert LocalSGD(lr=lr).learning_rate(t) == lr
    assert rate("inverse") == pytest.approx(lr * period / (period + t - 1))
    floor = (t - 1) // period
    if factor**floor > 0:
        assert rate("step") == pytest.approx(lr * factor**floor)
    if t <= period:
        expected = lr * (1 + math.cos(math.pi * (t - 1) / period)) / 2
        assert rate("cosine") == pytest.approx(expected, abs=1e-12 * lr)
        assert rate("cosine") > 0
    else:
        with pytest.raises(InputError, match=rf"rate of round {t} is 0 .* decay_rounds {period}"):
            rate("cosine")


def test_inverse_with_one_round_is_lr_over_t():
    local = LocalSGD(lr=0.3, schedule="inverse", decay_rounds=1)
    assert [local.learning_rate(t) for t in (1, 2, 3)] == pytest.approx([0.3, 0.15, 0.1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "cosine"}, "schedule is 'cosine': decay_rounds is missing"),
        ({"decay_rounds": 9}, "schedule is 'constant': decay_rounds is of no use"),
        ({"schedule": "linear"}, "unknown schedule 'linear'.*use one of constant, cosine"),
        ({"schedule": "step", "decay_rounds": 0}, "decay_rounds is 0: .* at least 1"),
        ({"schedule": "step", "decay_rounds": 1, "decay_factor": 0}, "decay_factor is 0"),
        ({"optimizer": "Adam"}, "unknown optimizer 'Adam'"),
        ({"epochs": 0}, "epochs is 0: it must be a whole number of at least 1"),
        ({"epochs": 1.5}, r"epochs is 1\.5"),
        ({"momentum": 1}, "momentum is 1: it must be a number at least 0 and below 1"),
    ],
)
def test_bad_local_settings_are_refused_in_one_sentence(settings, message):
    with pytest.raises(InputError, match=message):
        methods.get("md", **settings)


def test_a_schedule_that_ends_before_the_run_is_refused_before_the_first_round(digits, federation):
    def stop(history):
        raise AssertionError("a round was made")

    method = methods.get("md", schedule="cosine", decay_rounds=4)
    with pytest.raises(InputError, match=r"the learning rate of round 5 is 0 by schedule 'cosine'"):
        simulation.run(digits, federation, method, rounds=5, checkpoint=stop, **DIGITS)
    assert len(simulation.run(digits, federation, method, rounds=4, **DIGITS).frame) == 4


def test_a_run_uses_the_rate_of_each_round_also_when_it_is_resumed(digits, federation, monkeypatch):
    rates, original = [], engine.local_updates

    def spy(*args, lr, **options):
        rates.append(lr)
        return original(*args, lr=lr, **options)

    monkeypatch.setattr(engine, "local_updates", spy)
    method = methods.get("md", lr=0.2, schedule="step", decay_rounds=2, decay_factor=0.5)
    first = simulation.run(digits, federation, method, rounds=2, **DIGITS)
    resumed = simulation.run(digits, federation, method, rounds=5, resume=first, **DIGITS)
    assert rates == pytest.approx([0.2, 0.2, 0.1, 0.1, 0.05])
    uninterrupted = simulation.run(digits, federation, method, rounds=5, **DIGITS)
    np.testing.assert_array_equal(resumed.params, uninterrupted.params)
    rates.clear()
    one_round.state_after(digits, federation, rounds=2, method=method, seed=1, device="cpu")
    assert rates == pytest.approx([0.2, 0.2, 0.1, 0.1])  # two rounds, twice the third


def test_the_number_of_steps_of_an_epoch_is_rounded_up():
    local = LocalSGD(epochs=2, batch=4, steps=50)
    assert [local.count_steps(n) for n in (0, 1, 2, 3, 4, 7)] == [0, 1, 1, 2, 2, 4]
    assert [LocalSGD(steps=3).count_steps(n) for n in (0, 1, 1000)] == [0, 3, 3]


def make_problem(network: str, local: LocalSGD, dtype=torch.float64, cohort=(2, 0, 1, 3, 2)):
    """Return a network, its parameters, a pool of four small clients, and rows and weights of a cohort in round 3."""
    module, shape = NETWORKS[network]
    torch.manual_seed(0)
    module = deepcopy(module).to(dtype)
    x, y = torch.randn((sum(SIZES), *shape), dtype=dtype), torch.randint(4, (sum(SIZES),))
    cuts = np.cumsum((0, *SIZES))
    data = engine.pool(x, y, [np.arange(a, b) for a, b in itertools.pairwise(cuts)])
    method = methods.get("md", local=local)
    participants = Cohort(np.array(cohort), np.ones(len(cohort)))
    idx, weight, _ = simulation.draw_batches(method, data, participants, np.ones(len(cohort)), 0, 3)
    return module, models.flatten(module), data, idx, weight


def train_by_pytorch(module, data, idx, weight, local: LocalSGD, corrections=None):
    """Return the models [m, d] of clients trained one by one with an optimiser of PyTorch, on steps that have examples."""
    results, start = [], models.flatten(module)
    for k, (rows, w) in enumerate(zip(idx, weight, strict=True)):
        local_model = deepcopy(module)
        optimizer: torch.optim.Optimizer = torch.optim.Adam(local_model.parameters(), lr=local.lr)
        if local.optimizer == "sgd":
            optimizer = torch.optim.SGD(
                local_model.parameters(), lr=local.lr, momentum=local.momentum
            )
        for step in range(len(rows)):
            batch = rows[step][w[step] > 0]
            if len(batch):
                optimizer.zero_grad()
                params = torch.cat([p.flatten() for p in local_model.parameters()])
                loss = F.cross_entropy(local_model(data.x[batch]), data.y[batch])
                loss = loss + local.prox / 2 * (params - start).square().sum()
                (loss if corrections is None else loss + corrections[k] @ params).backward()
                optimizer.step()
        results.append(models.flatten(local_model))
    return torch.stack(results)


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize("network", ["perceptron", "convolutional"])
@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 4, "momentum": 0.9},
        {"epochs": 2, "batch": 3},
        {"epochs": 3, "batch": 4, "momentum": 0.5, "prox": 0.3},
        {"steps": 4, "optimizer": "adam"},
        {"epochs": 3, "batch": 4, "optimizer": "adam", "prox": 0.3},
    ],
    ids=str,
)
def test_momentum_passes_and_adam_are_those_of_pytorch_on_ragged_clients(
    network, backend, settings
):
    local = LocalSGD(lr=0.1, **settings)
    module, params, data, idx, weight = make_problem(network, local)
    corrections = torch.randn(len(idx), len(params), dtype=params.dtype) / 10
    names = ("lr", "prox", "momentum", "optimizer")
    options = {"backend": backend} | {name: getattr(local, name) for name in names}
    for extra in (None, corrections):
        result = engine.local_updates(
            module, params, data, idx, weight, corrections=extra, **options
        )
        expected = train_by_pytorch(module, data, idx, weight, local, extra)
        assert (expected - params).abs().max() > 1e-4
        # Adam divides by the root of squares, which magnifies rounding errors of gradients near zero.
        tolerance = 1e-12 if local.optimizer == "sgd" else 1e-10
        torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_adam_follows_pytorch_from_step_to_step(backend):
    """The models after each of the steps of one client, of which the first two have no example for it."""
    local = LocalSGD(lr=0.05, steps=6, batch=4, optimizer="adam")
    module, params, data, idx, weight = make_problem("perceptron", local)
    weight[0, :2], before = 0, params
    for step in range(1, 7):
        batches = idx[:, :step], weight[:, :step]
        trained_models = engine.local_updates(
            module, params, data, *batches, lr=0.05, optimizer="adam", backend=backend
        )
        expected = train_by_pytorch(module, data, *batches, local)
        torch.testing.assert_close(trained_models, expected, rtol=1e-10, atol=1e-10)
        step_length = (trained_models[0] - before).abs().max()
        assert step_length == 0 if step <= 2 else step_length > 1e-3
        if step == 3:  # the first step of Adam is lr times the sign of the gradient
            assert step_length == pytest.approx(0.05, rel=1e-4)
        before = trained_models[0]


def test_adam_is_refused_with_servers_that_count_steps_of_sgd_and_with_momentum(digits, federation):
    for name in ("scaffold", "fednova"):
        with pytest.raises(
            InputError, match=r"'adam' does not go with .* which divides updates by"
        ):
            methods.get(name, optimizer="adam")
    with pytest.raises(InputError, match="'adam' does not go with the server Scaffold"):
        methods.get("md", optimizer="adam", server=Scaffold())
    with pytest.raises(InputError, match=r"momentum is 0\.9: it is of optimizer 'sgd' alone"):
        methods.get("md", optimizer="adam", momentum=0.9)
    method = methods.parse("md lr=0.01 optimizer=adam")
    history = simulation.run(digits, federation, method, rounds=2, **DIGITS)
    assert np.isfinite(history.params).all()


def test_steps_without_examples_come_first_and_change_nothing():
    local = LocalSGD(epochs=2, batch=3)
    *_, weight = make_problem("perceptron", local)
    active = weight.any(2)
    assert active.sum(1).tolist() == [8, 5, 1, 4, 8]
    assert (np.diff(active.astype(int), axis=1) >= 0).all()
    module, params, data, idx, weight = make_problem("perceptron", local, torch.float32)
    weight[1] = 0
    corrections = torch.ones(len(idx), len(params))
    for backend in ("loop", "batched"):
        options = {
            "lr": 0.1,
            "prox": 0.5,
            "momentum": 0.9,
            "corrections": corrections,
            "backend": backend,
        }
        result = engine.local_updates(module, params, data, idx, weight, **options)
        assert torch.equal(result[1], params)


def test_the_batches_and_keys_of_a_client_do_not_depend_on_the_longer_ones():
    """As over messages, where each client draws its own."""
    local = LocalSGD(epochs=2, batch=3, lr=0.1)
    module, params, data, idx, weight = make_problem("convolutional-dropout", local, torch.float32)
    together = simulation.train_cohort(module, params, data, local, idx, weight, 0, 3)
    for place, k in enumerate((2, 0, 1, 3, 2)):
        method = methods.get("md", local=local)
        alone = Cohort(np.array([k]), np.ones(1))
        batches = simulation.draw_batches(method, data, alone, np.ones(1), 0, 3, [place])[:2]
        result = simulation.train_cohort(module, params, data, local, *batches, 0, 3, [place])
        torch.testing.assert_close(result[0], together[place], rtol=0, atol=1e-5)


def test_an_epoch_is_charged_by_the_examples_that_are_trained_on(digits):
    federation = partition.dirichlet(digits.train_y, 20, 0.1, seed=0)
    method = methods.get("fedavg", epochs=1, batch=8)
    history = simulation.run(digits, federation, method, rounds=1, **DIGITS)
    sizes = federation.sizes[history.cohorts[0]]
    steps = [np.minimum(8, n) * math.ceil(n / 8) for n in sizes]
    assert history.frame["examples"][0] == sum(steps)


def test_identities_have_later_settings_only_where_they_are_set():
    usual = methods.to_dict(methods.get("md"))["local"]
    assert set(usual) == {"is", "steps", "batch", "lr", "prox"}
    method = methods.get("md", epochs=2, momentum=0.9, schedule="inverse", decay_rounds=5)
    recorded = methods.to_dict(method)
    later = {"epochs": 2, "momentum": 0.9, "schedule": "inverse", "decay_rounds": 5}
    assert recorded["local"] == usual | later
    assert methods.from_dict(recorded) == method
    assert methods.to_dict(methods.get("md", optimizer="sgd"))["local"] == usual
    adam = methods.get("md", optimizer="adam")
    assert methods.to_dict(adam)["local"] == usual | {"optimizer": "adam"}
    assert methods.from_dict(methods.to_dict(adam)) == adam
