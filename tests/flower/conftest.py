"""Fixtures of the tests that need Flower; without it (`make test`) they are skipped."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

from importlib.util import find_spec

import pytest

from fedstas import models, partition, tasks

if find_spec("flwr") is not None:
    import torch
    from flwr.app import ArrayRecord
    from flwr.supercore.task_identity import TaskIdentity
    from memory import Memory

    from fedstas.flower import Designs, Local, Privacy, roster

    torch.set_num_threads(1)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(roster, "POLL", 0.005)


@pytest.fixture(scope="session")
def digits():
    return tasks.load("digits")


@pytest.fixture(scope="session")
def federation(digits):
    """12 clients, one of them without data."""
    found = partition.dirichlet(digits.train_y, 12, 0.05, seed=11)
    assert 0 < len(found.with_data) < 12
    return found


@pytest.fixture
def nodes(digits, federation):
    """`nodes(method, fault=...)`: the grid of a federation of that method.

    The nodes' own privacy is what the method reports with, and a thousand reports, unless given."""

    def make(method, seed=0, fault=None, federation=federation, **local):
        data = method.data
        if "privacy" not in local and getattr(data, "epsilon", None) is not None:
            memoised = getattr(data, "memoised", False)
            local["privacy"] = Privacy(data.epsilon, data.size_cap, memoised, 1000)

        def load(context):
            k = context.node_config["partition-id"]
            shard = federation.shards[k]
            return Local(
                k,
                digits.train_x[shard],
                digits.train_y[shard],
                digits.model(seed),
                method,
                seed,
                **({"reproducible": True} | local),
            )

        return Memory(load, len(federation.shards), fault)

    return make


@pytest.fixture
def train(digits):
    """`train(grid, method, rounds, ...)`: the final model and the strategy."""

    def start(grid, method, rounds=10, m=4, seed=0, patience=5.0, **settings):
        strategy = Designs(
            method,
            clients_per_round=m,
            seed=seed,
            nodes=len(grid.there),
            patience=patience,
            **settings,
        )
        w = ArrayRecord([models.flatten(digits.model(seed)).numpy()])
        result = strategy.start(grid, w, num_rounds=rounds)
        return result.arrays.to_numpy_ndarrays()[0], strategy

    return start
