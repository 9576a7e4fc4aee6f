"""Over messages, every method makes the run that the simulation makes."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from fedstas import methods, simulation
from fedstas.errors import InputError

# What cannot be had of real nodes, and why.
REFUSED = {
    "centralised": "no federation",
    "target": "oracle",
    "fedstas-dp-authors-dec": "asks for true sizes",
}


@pytest.mark.parametrize("name", [n for n in methods.names() if n not in REFUSED])
def test_cohorts_and_models_are_those_of_the_simulation(name, digits, federation, nodes, train):
    method = methods.get(name)
    settings = {"rounds": 10, "clients_per_round": 4, "seed": 0}
    total = int(federation.sizes.sum())
    expected = simulation.run(digits, federation, method, eval_every=10, **settings)
    params, strategy = train(nodes(method), method, total=total)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)
    assert not strategy.view.events


@pytest.mark.parametrize(
    "name, settings",
    [
        ("fedstas-unbiased-dp", {"n_star": 200}),
        ("fedstas-unbiased", {"rate": 0.3, "replace": False}),
        ("fedstas", {"replace": True, "n_star": 64}),
    ],
)
def test_so_do_their_settings(name, settings, digits, federation, nodes, train):
    method = methods.get(name, **settings)
    expected = simulation.run(
        digits, federation, method, rounds=12, clients_per_round=5, seed=4, eval_every=12
    )
    params, strategy = train(nodes(method, seed=4), method, rounds=12, m=5, seed=4)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_real_nodes_cannot_do_is_refused(name, nodes, train):
    method = methods.get(name)
    with pytest.raises(InputError, match=REFUSED[name]):
        train(nodes(method), method)


def test_more_participants_than_clients_are_refused(nodes, train):
    method = methods.get("fedavg")
    with pytest.raises(InputError, match="30 clients per round are more than the"):
        train(nodes(method), method, m=30)
