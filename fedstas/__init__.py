"""The algorithms of FedSTaS and of the papers around it, and a simulator of federations.

What lives here:
    fedstas           the algorithms, one module for each section of the papers: numpy, scipy, scikit-learn
    fedstas.sim       the simulator: data, networks, clients, the round loop (torch)
    fedstas.theory    exact moments by enumeration, and the papers' formulas
    fedstas.flower    the designs in a Flower federation (extra `flower`)

The algorithms import only `fedstas.theory` of these, and no torch; nothing here depends on the folders of a clone.
`from fedstas import tasks, simulation, privacy` imports any module of the first two. `fedstas.Cohorts` chooses the clients of
a training loop of one's own.

Equations, sections and algorithms of FedSTaS have the numbers of the journal version ("FedSTaS: Client Stratification and
Data Level Sampling for Efficient Federated Learning", Slessor, Kong, Hu, Kong and Jiang 2025) unless the preprint ("...
and Client Level Sampling ...", Slessor, Kong, Tang, Than and Kong 2024) is named. Other papers are cited where they are used.

To add a method, write its design in a module of its own and its entry in `methods`. Settings of a design are fields
of `config`, checks of values stand in `errors` and `arrays`, what a design remembers in `state`.
"""

import importlib
import pkgutil
from importlib.util import find_spec

__version__ = "0.1.0"

# Raised whenever the same arguments would give another run; `methods.version` says what a method's runs
# depend on (it is part of their identity). 2: the squeeze is faster, in another local optimum.
ALGORITHMS = 2

_PACKAGES = ("fedstas", "fedstas.sim")
_RENAMED = {"own_data": "user_data", "own": "user_code", "parts": "config"}  # old name: new name


def __getattr__(name: str):
    """Import a module of the algorithms or of the simulator, or `Cohorts`, when it is first asked for."""
    if name == "Cohorts":
        return importlib.import_module("fedstas.cohorts").Cohorts
    module = _RENAMED.get(name, name)
    for package in () if name.startswith("_") else _PACKAGES:
        if find_spec(f"{package}.{module}") is not None:
            return importlib.import_module(f"{package}.{module}")
    raise AttributeError(f"module 'fedstas' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names of this module, and what `__getattr__` imports."""
    paths = [path for package in _PACKAGES for path in importlib.import_module(package).__path__]
    modules = [each.name for each in pkgutil.iter_modules(paths)]
    return sorted({*globals(), *modules, "Cohorts"})
