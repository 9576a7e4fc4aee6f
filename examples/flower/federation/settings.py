"""What server and clients agree on: the run's configuration as a task, a partition and a method."""

import json
from functools import cache

from fedstas import methods, partition, tasks


@cache
def data(name: str, kind: str, clients: int, concentration: float, seed: int):
    """Load a task and its partition: the task, and the `Federation` of who holds which of its examples."""
    task = tasks.load(name)
    settings = {"clients": clients, "seed": seed, "concentration": concentration}
    return task, partition.make(kind, task.train_y, users=task.users, **settings)


def data_of(config):
    """Return the task and the `Federation` that a run's configuration names."""
    names = ("task", "partition", "nodes", "concentration", "seed")
    return data(*(config[name] for name in names))


def method_of(config):
    """Return the method of a run's configuration, with its settings."""
    return methods.get(config["method"], **json.loads(config["settings"]))
