"""The algorithms of FedSTaS and of the papers around it, a simulator, and the study of them.

Three rooms: the algorithms (this folder), `fedstas.sim`, `fedstas.study`. Readers need not know
them: `from fedstas import tasks, simulation, records` works for every module of every room.
"""

import importlib
from importlib.util import find_spec

__version__ = "0.1.0"

# Raised whenever the same arguments would give another run; `methods.version` says which of them
# a method's runs depend on (it is part of a run's identity). 2: the squeeze is faster, and ends in
# another local optimum.
ALGORITHMS = 2


def __getattr__(name: str):
    if not name.startswith("_"):
        for room in ("fedstas", "fedstas.sim", "fedstas.study"):
            if find_spec(f"{room}.{name}") is not None:
                return importlib.import_module(f"{room}.{name}")
    raise AttributeError(f"module 'fedstas' has no attribute {name!r}")
