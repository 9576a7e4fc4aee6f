"""`flwr run` of the example in Flower's simulation makes the runs of `simulation.run`."""

import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from test_deployment import METHODS, NODES, Federation, expected, same

__all__ = ["expected"]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulation")
    with Federation(NODES, folder=folder, simulation=True) as started:
        yield started


@pytest.mark.parametrize("name", METHODS)
def test_flowers_simulation_makes_the_run_of_ours(name, federation, tmp_path, expected):
    lines = federation.run(method=name, out=str(tmp_path / "out.npz"))
    assert any("fedstas: finished" in line for line in lines), "\n".join(lines[-40:])
    same(tmp_path / "out.npz", expected(name))
