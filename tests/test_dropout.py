"""Dropout (Fraboni et al., Section 6): masks come from keys drawn on the host, so that every backend drops the same units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from companion.runs import records
from fedstas import engine, methods, models, partition, simulation, tasks
from fedstas.sim.rng import stream

LOCAL = methods.LocalSGD(steps=2, batch=6, lr=0.3)
GOLDEN = 0x9E3779B97F4A7C15


def make_network(dtype=torch.float64):
    """Return the convolutional network with dropout, of four classes."""
    torch.manual_seed(0)
    return models.ConvolutionalDropout(4).to(dtype)


def splitmix64(seed: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return outputs number `step` (from 1) of the published generator SplitMix64 after a seed, as uint64."""
    with np.errstate(over="ignore"):
        z = seed + step * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def test_the_hash_is_that_of_splitmix64():
    # The first outputs for the seed 1234567, as https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64 lists them.
    first = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    steps = np.arange(1, 4, dtype=np.uint64)
    assert splitmix64(np.uint64(1234567), steps).tolist() == first
    with np.errstate(over="ignore"):
        states = (np.uint64(1234567) + steps * np.uint64(GOLDEN)).view(np.int64)
    result = models.hash_int64(torch.from_numpy(states)).numpy().view(np.uint64)
    assert result.tolist() == first


def compute_masks(keys: torch.Tensor, layer: int, shape: tuple) -> torch.Tensor:
    """Return which units [n, *shape] the keys keep, in numpy's arithmetic."""
    channels, *image = shape
    with np.errstate(over="ignore"):
        seeds = splitmix64(keys.numpy().view(np.uint64) + np.uint64(layer), np.uint64(0))
        words = splitmix64(seeds[:, None], np.arange(np.prod(shape) // 4, dtype=np.uint64))
    # Low bits first.
    quarters = [(words >> np.uint64(16 * k)) & np.uint64(0xFFFF) for k in range(4)]
    value = np.stack(quarters, -1).reshape(-1, *image, channels).astype(np.int64)
    signed = (value + 2**15) % 2**16 - 2**15  # as signed integers of 16 bits
    return torch.from_numpy(np.moveaxis(signed, -1, 1) >= 13107 - 2**15)  # 13107 / 2**16 is a fifth


def test_a_fifth_of_the_units_is_dropped_and_the_mean_is_preserved():
    keys = torch.from_numpy(np.random.default_rng(0).integers(-(2**63), 2**63, 2000))
    x = torch.randn(4, 3, 4, dtype=torch.float64)
    module, n = make_network(), len(keys)
    dropped = {k: module.dropout(x.expand(n, -1, -1, -1), keys, k) for k in (1, 2, 3)}
    for layer, result in dropped.items():
        mask = compute_masks(keys, layer, (4, 3, 4))
        assert torch.equal(result != 0, mask)
        assert torch.equal(result, x * mask * 1.25)
        sd = (0.8 * 0.2) ** 0.5  # of one unit of one example
        assert abs(mask.double().mean() - 0.8) < 4 * sd / mask.numel() ** 0.5
        assert (mask.double().mean(0) - 0.8).abs().max() < 5 * sd / n**0.5  # of each unit
        z = (result.mean(0) - x) / (x.abs() * sd / 0.8 / n**0.5)
        assert z.abs().max() < 5 and 0.6 < z.std() < 1.4  # unbiased, with the expected noise
    both_kept = ((dropped[1] != 0) & (dropped[2] != 0)).double().mean()
    assert both_kept.item() == pytest.approx(0.64, abs=0.01)  # layers are independent
    kept_units = (dropped[1] != 0).flatten(1).double()
    # Units are independent, too.
    assert (kept_units[:, 1:] * kept_units[:, :-1]).mean().item() == pytest.approx(0.64, abs=0.01)


def apply_masked(module, flat, x, keys):
    """Return the outputs of the network for colour images, computed layer by layer with the masks of the keys."""
    p = models.unflatten(module, flat)
    for layer in (1, 2, 3):
        x = F.conv2d(x, p[f"conv{layer}.weight"], p[f"conv{layer}.bias"])
        x = F.max_pool2d(F.relu(x), 2) if layer < 3 else x
        x = x * compute_masks(keys, layer, tuple(x.shape[1:])) / 0.8
    x = F.relu(F.linear(x.flatten(1), p["hidden.weight"], p["hidden.bias"]))
    return F.linear(x, p["output.weight"], p["output.bias"])


def apply_masked_grey(module, flat, x, keys):
    """Return the outputs of the network for grey images, as `apply_masked` does."""
    p = models.unflatten(module, flat)
    for layer in (1, 2):
        x = F.max_pool2d(F.conv2d(x, p[f"conv{layer}.weight"], p[f"conv{layer}.bias"]), 2)
        x = x * compute_masks(keys, layer, tuple(x.shape[1:])) / 0.8
    x = x.flatten(1)
    for layer in (1, 2, 3):
        x = F.relu(F.linear(x, p[f"hidden{layer}.weight"], p[f"hidden{layer}.bias"]))
        x = x * compute_masks(keys, layer + 2, tuple(x.shape[1:])) / 0.8
    return F.linear(x, p["output.weight"], p["output.bias"])


COLOUR = models.ConvolutionalDropout, apply_masked, (3, 32, 32)
GREY = models.ConvolutionalGrey, apply_masked_grey, (1, 28, 28)


def make_cohort(module, shape):
    """Return a pool of three clients with images of a shape, and rows, weights and keys of a cohort of two."""
    torch.manual_seed(1)
    x, y = torch.randn(15, *shape, dtype=torch.float64), torch.arange(15) % 4
    data = engine.pool(x, y, [np.arange(6), np.arange(6, 10), np.arange(10, 15)])
    participants = simulation.Cohort(np.array([1, 0]), np.full(2, 0.5))
    method = methods.get("md", steps=2, batch=6)
    idx, weight, _ = simulation.draw_batches(method, data, participants, np.ones(2), 0, 3)
    return data, idx, weight, simulation.draw_keys(module, LOCAL, idx, 0, 3)


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize(("network", "apply", "shape"), [COLOUR, GREY])
def test_local_steps_are_gradient_descent_of_the_masked_network(backend, network, apply, shape):
    torch.manual_seed(0)
    module = network(4).double()
    data, idx, weight, keys = make_cohort(module, shape)
    start = models.flatten(module)
    expected = []
    for rows, w, k in zip(idx, weight, keys, strict=True):
        flat = start.clone()
        for step in range(2):
            leaf, used = flat.clone().requires_grad_(), w[step] > 0
            batch = rows[step][used]
            logits = apply(module, leaf, data.x[batch], torch.from_numpy(k[step][used]))
            (gradient,) = torch.autograd.grad(F.cross_entropy(logits, data.y[batch]), leaf)
            flat -= 0.3 * gradient
        expected.append(flat)
    options = {"lr": 0.3, "backend": backend}
    result = engine.local_updates(module, start, data, idx, weight, keys=keys, **options)
    torch.testing.assert_close(result, torch.stack(expected), rtol=0, atol=1e-12)
    without_dropout = engine.local_updates(module, start, data, idx, weight, **options)
    assert (without_dropout - result).abs().max() > 1e-3


def test_keys_depend_on_the_seed_the_round_and_the_place_only():
    module = make_network()
    idx = np.zeros((3, 2, 6), dtype=np.int64)
    keys = simulation.draw_keys(module, LOCAL, idx, 7, 5)
    assert keys.dtype == np.int64 and len(np.unique(keys)) == keys.size
    expected = stream(7, "dropout", 5, 1).integers(-(2**63), 2**63, (2, 6))
    assert (keys[1] == expected).all()
    # The same keys, for a cohort of fewer examples.
    second_place = simulation.draw_keys(module, LOCAL, idx[:1, :, :4], 7, 5, places=[1])
    assert (second_place[0] == keys[1, :, :4]).all()
    assert (simulation.draw_keys(module, LOCAL, idx, 7, 6) != keys).all()
    assert simulation.draw_keys(models.Convolutional(4), LOCAL, idx, 7, 5) is None


@pytest.fixture(scope="module")
def task():
    """Return a task of 40 random images."""
    torch.manual_seed(2)
    x, y = torch.randn(40, 3, 32, 32), torch.arange(40) % 4
    small = tasks.Task("small", x[:30], y[:30], x[30:], y[30:], 4, "", "convolutional-dropout")
    assert type(small.model(0)) is models.ConvolutionalDropout
    return small


def test_a_resumed_run_drops_the_same_units_and_evaluation_drops_none(task):
    federation = partition.iid(task.train_y, 5, 0)
    options = {"clients_per_round": 2, "seed": 1, "device": "cpu"}
    method = methods.get("md", steps=2, batch=4, lr=0.2)
    uninterrupted = simulation.run(task, federation, method, rounds=3, **options)
    first = simulation.run(task, federation, method, rounds=1, **options)
    resumed = simulation.run(task, federation, method, rounds=3, resume=first, **options)
    assert (uninterrupted.params == resumed.params).all()
    module, params = task.model(0), torch.from_numpy(uninterrupted.params)
    logits = torch.func.functional_call(module, models.unflatten(module, params), (task.test_x,))
    accuracy = (logits.argmax(1) == task.test_y).double().mean().item()
    assert uninterrupted.frame["test_accuracy"].iloc[-1] == pytest.approx(accuracy, abs=1e-12)


def test_dropout_keeps_the_initial_model_and_changes_the_identity(task):
    without_dropout = replace(task, network="convolutional")
    assert torch.equal(models.flatten(task.model(3)), models.flatten(without_dropout.model(3)))
    federation = partition.iid(task.train_y, 5, 0)
    options = {"rounds": 1, "clients_per_round": 2, "seed": 1, "eval_every": 1}
    identities = [
        records.identity(one_task, federation, methods.get("md"), **options)
        for one_task in (without_dropout, task)
    ]
    assert "network" not in identities[0] and identities[1]["network"] == "convolutional-dropout"
