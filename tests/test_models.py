"""The networks of the papers."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedstas import engine, models
from fedstas.errors import InputError
from fedstas.sim.server import Server


def build(name):
    """Return a network and the shape of five of its inputs."""
    torch.manual_seed(0)
    if name == "perceptron":
        return models.Perceptron(784, 10), (5, 1, 28, 28)
    if name == "convolutional-grey":
        return models.ConvolutionalGrey(10), (5, 1, 28, 28)
    return models.Convolutional(10), (5, 3, 32, 32)


SIZES = {"perceptron": 39_760, "convolutional": 122_570, "convolutional-grey": 1_682_890}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_networks_have_the_sizes_of_the_papers(name, size):
    module, shape = build(name)
    assert models.flatten(module).shape == (size,)
    assert module(torch.zeros(shape)).shape == (5, 10)


def test_the_grey_network_begins_as_keras_does():
    module, _ = build("convolutional-grey")
    for layer in module.children():
        fan_in, fan_out = layer.weight[0].numel(), layer.weight.numel() // layer.weight.shape[1]
        bound = (6 / (fan_in + fan_out)) ** 0.5
        assert not layer.bias.any() and 0.98 * bound < layer.weight.abs().max() <= bound


def test_perceptron_is_two_layers_with_a_relu():
    module, shape = build("perceptron")
    x = torch.rand(shape)
    p = dict(module.named_parameters())
    hidden = (x.reshape(5, -1) @ p["hidden.weight"].T + p["hidden.bias"]).clamp(min=0)
    expected = hidden @ p["output.weight"].T + p["output.bias"]
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("name", SIZES)
def test_unflatten_undoes_flatten(name):
    module, shape = build(name)
    params = models.flatten(module)
    views = models.unflatten(module, params)
    for key, value in module.named_parameters():
        assert torch.equal(views[key], value)
    x = torch.rand(shape)
    assert torch.equal(torch.func.functional_call(module, views, (x,)), module(x))
    stacked = models.unflatten(module, torch.stack([params, 2 * params, 3 * params]))
    for key, value in module.named_parameters():
        assert stacked[key].shape == (3, *value.shape)
        torch.testing.assert_close(stacked[key][1], 2 * value.detach())


def test_flatten_is_a_copy_in_the_order_of_the_parameters():
    module, _ = build("perceptron")
    params = models.flatten(module)
    before = module.hidden.weight[0, 0].item()
    assert params[0].item() == before
    params += 1
    assert module.hidden.weight[0, 0].item() == before
    assert not params.requires_grad


def test_a_gradient_flows_through_unflatten():
    module, shape = build("convolutional")
    leaf = models.flatten(module).requires_grad_()
    x, y = torch.rand(shape), torch.arange(5)
    out = torch.func.functional_call(module, models.unflatten(module, leaf), (x,))
    (gradient,) = torch.autograd.grad(F.cross_entropy(out, y), leaf)
    F.cross_entropy(module(x), y).backward()
    torch.testing.assert_close(gradient, torch.cat([p.grad.flatten() for p in module.parameters()]))


class HeadFirst(torch.nn.Module):
    """A network that defines its output layer before the layer that it calls first."""

    def __init__(self):
        super().__init__()
        self.head, self.body = torch.nn.Linear(6, 3), torch.nn.Linear(4, 6)

    def forward(self, x):
        return self.head(self.body(x))


def test_the_output_layer_of_a_network_that_does_not_define_it_last_is_refused():
    data = engine.pool(torch.ones(4, 4), torch.arange(4) % 3, [np.arange(2), np.arange(2, 4)])
    for network, refused in ((HeadFirst(), True), (torch.nn.Linear(4, 3), False)):
        server = Server(data, network, 0, classes=3)
        server.begin(1, models.flatten(network))
        for ask in (lambda s: s.output_layer, Server.output_gradients, Server.class_updates):
            if not refused:
                ask(server)
                continue
            with pytest.raises(InputError, match=r"body.bias of shape \[6\].* output layer last"):
                ask(server)
