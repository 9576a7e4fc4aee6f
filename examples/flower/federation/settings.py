"""What server and clients agree on: the run's configuration as a task, a partition and a method."""

import json
from functools import cache

from fedstas import methods, partition, tasks


@cache
def data(name: str, kind: str, clients: int, concentration: float, seed: int):
    """The task, and who holds which of its examples."""
    task = tasks.load(name)
    settings = {"clients": clients, "seed": seed, "concentration": concentration}
    return task, partition.make(kind, task.train_y, users=task.users, **settings)


def data_of(config):
    """The same from a run's configuration."""
    given = (config[k] for k in ("task", "partition", "nodes", "concentration", "seed"))
    return data(*given)


def method_of(config):
    """The method, with its settings."""
    return methods.get(config["method"], **json.loads(config["settings"]))
