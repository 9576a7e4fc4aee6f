"""The arithmetic of training: both backends agree with each other and with PyTorch's own optimiser."""

import functools
import itertools
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedstas import autograd, engine, methods, models, partition, perceptron, simulation, tasks
from fedstas.errors import InputError

local_updates = engine.local_updates
SIZES = (7, 1, 12, 5)
NETWORKS = ("perceptron", "linear", "convolutional", "text-cnn", "transformer")
STEPS, BATCH = 3, 6


def make_problem(name: str, dtype):
    """Return a network, its parameters [d] and a pool of four small clients."""
    torch.manual_seed(0)
    if name == "perceptron":
        module, shape = models.Perceptron(20, 4, hidden=8), (sum(SIZES), 1, 4, 5)
    elif name == "linear":
        module, shape = models.Linear(20, 4), (sum(SIZES), 20)
    elif name == "convolutional":
        module, shape = models.Convolutional(4), (sum(SIZES), 3, 32, 32)
    else:
        kind = models.TextCNN if name == "text-cnn" else models.Transformer
        module, shape = kind(9, 4), (sum(SIZES), 6)
    module = module.to(dtype)
    x, y = torch.randn(shape, dtype=dtype), torch.randint(4, (sum(SIZES),))
    if name in NETWORKS[3:]:  # documents of 1 to 6 words
        x = 1 + (x.abs() * 3).long().clamp(max=7)
        x[torch.arange(6) > torch.randint(6, (sum(SIZES), 1))] = 0
    cuts = np.cumsum((0, *SIZES))
    shards = [np.arange(a, b) for a, b in itertools.pairwise(cuts)]
    return module, models.flatten(module), engine.pool(x, y, shards)


def make_batches(data, cohort=(2, 0, 1, 3, 2), empty=3):
    """Return rows and weights [m, steps, batch] of a cohort: clients of unequal sizes, one drawn twice, one with an empty sample."""
    rng = np.random.default_rng(1)
    idx = np.zeros((len(cohort), STEPS, BATCH), dtype=np.int64)
    weight = np.zeros(idx.shape)
    for slot, k in enumerate(cohort):
        size = min(BATCH, int(data.sizes[k])) if slot != empty else 0
        for step in range(STEPS if size else 0):
            idx[slot, step, :size] = data.offsets[k] + rng.choice(
                int(data.sizes[k]), size, replace=False
            )
            weight[slot, step, :size] = 1 / size
    return idx, weight


def train_by_pytorch(module, data, idx, weight, lr, prox):
    """Run local SGD client by client with a deep copy of the model and an optimiser of PyTorch."""
    results, start = [], models.flatten(module)
    for rows, w in zip(idx, weight, strict=True):
        local = deepcopy(module)
        optimizer = torch.optim.SGD(local.parameters(), lr=lr)
        for step in range(len(rows)):
            batch = rows[step][w[step] > 0]
            if len(batch):
                optimizer.zero_grad()
                loss = F.cross_entropy(local(data.x[batch]), data.y[batch])
                difference = torch.cat([p.flatten() for p in local.parameters()]) - start
                (loss + prox / 2 * difference.square().sum()).backward()
                optimizer.step()
        results.append(models.flatten(local))
    return torch.stack(results)


@pytest.mark.slow
@pytest.mark.parametrize("prox", [0.0, 0.1])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("backend", ["loop", "batched", "auto"])
def test_every_backend_agrees_with_sgd_of_pytorch_in_double_precision(name, backend, prox):
    module, params, data = make_problem(name, torch.float64)
    idx, weight = make_batches(data)
    expected = train_by_pytorch(module, data, idx, weight, 0.3, prox)
    result = engine.local_updates(
        module, params, data, idx, weight, lr=0.3, prox=prox, backend=backend
    )
    assert (expected - params).abs().max() > 1e-3  # something was learnt
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_backends_agree_in_single_precision_over_one_round(name):
    module, params, data = make_problem(name, torch.float32)
    idx, weight = make_batches(data)
    loop, batched = (
        engine.local_updates(module, params, data, idx, weight, lr=0.1, backend=backend)
        for backend in ("loop", "batched")
    )
    torch.testing.assert_close(loop, batched, rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_client_with_an_empty_sample_returns_the_model_unchanged(backend):
    module, params, data = make_problem("perceptron", torch.float32)
    idx, weight = make_batches(data)
    result = engine.local_updates(
        module, params, data, idx, weight, lr=0.3, prox=0.5, backend=backend
    )
    assert torch.equal(result[3], params)  # at place 3 `make_batches` has an empty sample
    assert not torch.equal(result[2], params)


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize("name", NETWORKS)
def test_padding_does_not_change_the_updates(name, backend):
    module, params, data = make_problem(name, torch.float64)
    idx, weight = make_batches(data)
    padding = np.zeros((*idx.shape[:2], 3))
    result = engine.local_updates(module, params, data, idx, weight, lr=0.3, backend=backend)
    padded = engine.local_updates(
        module,
        params,
        data,
        np.concatenate([idx, padding.astype(np.int64) + 4], axis=2),
        np.concatenate([weight, padding], 2),
        lr=0.3,
        backend=backend,
    )
    torch.testing.assert_close(padded, result, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_clients_update_does_not_depend_on_its_place_in_the_cohort_or_on_other_clients(
    name, backend
):
    module, params, data = make_problem(name, torch.float64)
    idx, weight = make_batches(data)
    options = {"lr": 0.3, "backend": backend}
    together = engine.local_updates(module, params, data, idx, weight, **options)
    order = [4, 2, 0, 3, 1]
    mixed = engine.local_updates(module, params, data, idx[order], weight[order], **options)
    torch.testing.assert_close(mixed, together[order], rtol=0, atol=1e-13)
    single = engine.local_updates(module, params, data, idx[:1], weight[:1], **options)
    torch.testing.assert_close(single, together[:1], rtol=0, atol=1e-13)


def test_the_order_within_a_batch_does_not_change_the_update():
    module, params, data = make_problem("perceptron", torch.float64)
    idx, weight = make_batches(data)
    flipped = engine.local_updates(
        module, params, data, idx[..., ::-1].copy(), weight[..., ::-1].copy(), lr=0.3
    )
    in_order = engine.local_updates(module, params, data, idx, weight, lr=0.3)
    torch.testing.assert_close(flipped, in_order, rtol=0, atol=1e-13)


def test_local_updates_do_not_change_the_model_they_start_from():
    module, params, data = make_problem("perceptron", torch.float32)
    idx, weight = make_batches(data)
    before = params.clone()
    engine.local_updates(module, params, data, idx, weight, lr=0.3)
    assert torch.equal(params, before)


@pytest.mark.parametrize("name", NETWORKS)
def test_client_gradients_are_those_of_the_mean_loss(name):
    module, params, data = make_problem(name, torch.float64)
    gradients = list(engine.client_gradients(module, params, data))
    assert len(gradients) == len(SIZES)
    for k, gradient in enumerate(gradients):
        rows = slice(int(data.offsets[k]), int(data.offsets[k + 1]))
        module.zero_grad()
        F.cross_entropy(module(data.x[rows]), data.y[rows]).backward()
        expected = torch.cat([p.grad.flatten() for p in module.parameters()])
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", NETWORKS[2:])
def test_batched_updates_do_not_depend_on_the_size_of_groups(name, monkeypatch):
    module, params, data = make_problem(name, torch.float64)
    idx, weight = make_batches(data)
    result = []
    for size in (1, 2, 16):
        monkeypatch.setattr(autograd, "GROUP", size)
        options = {"lr": 0.3, "backend": "batched"}
        result.append(engine.local_updates(module, params, data, idx, weight, **options))
    assert (result[0] - params).abs().max() > 1e-3
    for other in result[1:]:
        torch.testing.assert_close(other, result[0], rtol=0, atol=1e-13)


def test_client_gradients_do_not_depend_on_the_chunks(monkeypatch):
    module, params, data = make_problem("convolutional", torch.float64)
    expected = torch.stack(list(engine.client_gradients(module, params, data)))
    monkeypatch.setattr(autograd, "ROWS", 5)  # 12 rows: chunks of 5, 5 and 2
    chunks = torch.stack(list(engine.client_gradients(module, params, data)))
    torch.testing.assert_close(chunks, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("size", "hidden"), [(6, 50), (600, 50), (6, 51)])
def test_results_of_a_perceptron_are_equal_bit_for_bit_for_any_chunks(size, hidden, monkeypatch):
    """Results are equal bit for bit, however many clients fit into the machine's cache."""
    torch.manual_seed(0)
    module, sizes = models.Perceptron(784, 10, hidden), (size,) * 9
    x, y = torch.rand(sum(sizes), 1, 28, 28), torch.randint(10, (sum(sizes),))
    data = engine.pool(x, y, np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))
    params = models.flatten(module)
    idx, weight = make_batches(data, cohort=(8, 2, 0, 1, 3, 2, 5), empty=4)

    def results():
        """Return the local updates and the gradients of all clients."""
        trained = engine.local_updates(module, params, data, idx, weight, lr=0.3, prox=0.1)
        return trained, torch.stack(list(engine.client_gradients(module, params, data)))

    pair = 2 * (BATCH * 784 + 3 * len(params)) * 4  # bytes of two clients
    result = []
    for cache_size, count in ((1, 2), (pair, 2), (2 * pair, 4), (3 * pair + 1, 6), (16 * pair, 32)):
        monkeypatch.setattr(perceptron, "cache_bytes", lambda cache_size=cache_size: cache_size)
        assert perceptron.clients_per_pass(BATCH, params, 784) == count
        result.append(results())
    (first_trained, first_gradients), *others = result
    for trained, gradients in others:
        assert torch.equal(trained, first_trained)
        assert torch.equal(gradients, first_gradients)


@pytest.mark.parametrize("name", NETWORKS)
def test_evaluate_gives_the_mean_loss_and_the_predictions(name, monkeypatch):
    module, params, data = make_problem(name, torch.float64)
    monkeypatch.setattr(autograd, "ROWS", 4)
    loss, predicted = engine.evaluate(module, params, data.x, data.y)
    with torch.no_grad():
        logits = module(data.x)
    assert loss == pytest.approx(F.cross_entropy(logits, data.y).item(), rel=1e-12)
    assert torch.equal(predicted, logits.argmax(1))


def test_evaluate_covers_every_example_of_a_large_set():
    torch.manual_seed(1)
    module = models.Perceptron(6, 3, hidden=4)
    x, y = torch.randn(4096 + 17, 1, 2, 3), torch.randint(3, (4096 + 17,))
    loss, predicted = engine.evaluate(module, models.flatten(module), x, y)
    with torch.no_grad():
        logits = module(x)
    assert loss == pytest.approx(F.cross_entropy(logits, y).item(), rel=1e-5)
    assert torch.equal(predicted, logits.argmax(1))


def test_a_pool_gathers_the_shards_client_after_client():
    x, y = torch.arange(6.0)[:, None, None, None], torch.arange(6)
    data = engine.pool(x, y, [np.array([4, 1]), np.array([5]), np.array([1, 1, 0])])
    assert data.y.tolist() == [4, 1, 5, 1, 1, 0]
    assert data.x.flatten().tolist() == [4, 1, 5, 1, 1, 0]
    assert data.sizes.tolist() == [2, 1, 3]


def test_an_unknown_backend_is_refused():
    module, params, data = make_problem("perceptron", torch.float32)
    with pytest.raises(InputError, match=r"backend 'magic'.*loop, batched"):
        engine.local_updates(module, params, data, *make_batches(data), lr=0.1, backend="magic")


class Double(tasks.Task):
    """A task in double precision."""

    def model(self, seed):
        return super().model(seed).double()


@pytest.fixture(
    scope="module",
    params=["perceptron", pytest.param("convolutional", marks=pytest.mark.slow)],
)
def double_task(request):
    """Random images for either network."""
    cifar = request.param == "convolutional"
    draw = torch.Generator().manual_seed(0)
    shape = (3, 32, 32) if cifar else (1, 4, 4)
    x = torch.randn(60, *shape, generator=draw, dtype=torch.float64)
    y = torch.arange(60) % 3
    return Double("cifar-like" if cifar else "digits", x[:45], y[:45], x[45:], y[45:], 3, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_every_method_trains_the_same_model_with_either_backend(name, double_task, monkeypatch):
    federation = partition.iid(double_task.train_y, 5, 0)
    runs = []
    for backend in ("loop", "batched"):
        updates = functools.partial(local_updates, backend=backend)
        monkeypatch.setattr(engine, "local_updates", updates)
        options = {"rounds": 2, "clients_per_round": 3, "seed": 1, "device": "cpu"}
        runs.append(simulation.run(double_task, federation, methods.get(name, lr=0.1), **options))
    loop, batched = runs
    for loop_cohort, batched_cohort in zip(loop.cohorts, batched.cohorts, strict=True):
        np.testing.assert_array_equal(loop_cohort, batched_cohort)
    assert loop.params.dtype == np.float64
    np.testing.assert_allclose(loop.params, batched.params, rtol=0, atol=1e-10)
