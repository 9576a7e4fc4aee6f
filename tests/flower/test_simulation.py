"""`flwr run` of the example in Flower's simulation makes the runs of `simulation.run`."""

import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from test_deployment import METHODS, NODES, Federation, assert_same_run, expected

__all__ = ["expected"]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Start Flower's simulation of the example."""
    folder = tmp_path_factory.mktemp("simulation")
    with Federation(NODES, folder=folder, simulation=True) as deployment:
        yield deployment


@pytest.mark.parametrize("name", METHODS)
def test_a_run_in_flowers_simulation_is_that_of_our_simulation(
    name, federation, tmp_path, expected
):
    lines = federation.run(method=name, out=str(tmp_path / "out.npz"))
    assert any("fedstas: finished" in line for line in lines), "\n".join(lines[-40:])
    assert_same_run(tmp_path / "out.npz", expected(name))
