"""Fixtures of the tests that need Flower; without it (`make test`) they are skipped."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

from importlib.util import find_spec

import pytest

from fedstas import models, partition

if find_spec("flwr") is not None:
    import torch
    from flwr.app import ArrayRecord
    from flwr.supercore.task_identity import TaskIdentity
    from memory import Memory

    from fedstas.flower import Designs, Local, Privacy, roster

    torch.set_num_threads(1)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1


@pytest.fixture(autouse=True)
def short_poll(monkeypatch):
    """Look for replies every 5 ms."""
    monkeypatch.setattr(roster, "POLL", 0.005)


@pytest.fixture(scope="session")
def federation(digits):
    """12 clients, one of them without data."""
    clients = partition.dirichlet(digits.train_y, 12, 0.05, seed=11)
    assert len(clients.with_data) == 11
    return clients


@pytest.fixture
def nodes(digits, federation):
    """Return the function `nodes(method, fault=...)`, which makes a grid of nodes in one process.

    Unless another is given, the nodes' privacy is that of the method, with a thousand reports.
    """

    def make(method, seed=0, fault=None, federation=federation, **local):
        """Make a grid of nodes, whose clients are those of a federation; `local` are further settings of the nodes."""
        data = method.data
        if "privacy" not in local and getattr(data, "epsilon", None) is not None:
            memoised = getattr(data, "memoised", False)
            local["privacy"] = Privacy(
                data.epsilon, size_cap=data.size_cap, memoised=memoised, reports=1000
            )

        def load_client(context):
            """Return the data and settings of the node of a context."""
            client = context.node_config["partition-id"]
            shard = federation.shards[client]
            return Local(
                client,
                digits.train_x[shard],
                digits.train_y[shard],
                digits.model(seed),
                method,
                seed,
                **({"reproducible": True} | local),
            )

        return Memory(load_client, len(federation.shards), fault)

    return make


@pytest.fixture
def train(digits):
    """Return the function `train(grid, method, rounds, ...)`, which returns the final model and the strategy."""

    def start_run(grid, method, rounds=10, m=4, seed=0, patience=5.0, **settings):
        """Run the strategy on a grid; return the final model and the strategy."""
        strategy = Designs(
            method,
            clients_per_round=m,
            seed=seed,
            nodes=len(grid.online),
            patience=patience,
            **settings,
        )
        initial = ArrayRecord([models.flatten(digits.model(seed)).numpy()])
        result = strategy.start(grid, initial, num_rounds=rounds)
        (model,) = result.arrays.to_numpy_ndarrays()
        return model, strategy

    return start_run
