"""The state file of a Flower server: written after each round, so that a new process can continue the run.

`fedstas.sim.run_file` encodes what it holds.
"""

import hashlib
from pathlib import Path

import numpy as np

from fedstas import user_code
from fedstas.errors import InputError
from fedstas.sim import run_file


def key(strategy) -> str:
    """Return the hash of the settings that a run must have to continue from a state file.

    `InputError` if the repr of a part of the method does not show its settings.
    """
    method = strategy.method
    files = user_code.source_digests(method.clients, method.data, method.server)
    settings = repr((method, strategy.m, strategy.seed, files))
    if " object at 0x" in settings:
        raise InputError(
            f"{method.name} has a part whose repr does not show its settings, so that a state file "
            "could be of other settings: make it a frozen dataclass, or give no state"
        )
    return hashlib.sha256(settings.encode()).hexdigest()


def write(strategy, params: np.ndarray) -> None:
    """Replace the state file by the model, the server's memory, the clients on the roster and the cohorts so far."""
    view, file = strategy.view, strategy.state_path
    arrays: dict[str, np.ndarray] = {}
    plain = {
        "key": key(strategy),
        "round": strategy.rounds_done,
        "roll": list(view.client_ids),
    }  # "roll": old name
    plain["cohorts"] = [c.tolist() for c in strategy.cohorts]
    plain |= {"version": run_file.VERSION, "run": strategy.run}
    classes = run_file.memory_classes(view.memory)
    plain["memory"] = run_file.encode(view.memory, arrays, classes)
    run_file.write(file, plain, arrays | {"params": params})


def read(strategy, length: int) -> np.ndarray:
    """Restore a strategy from its state file and return the model [P], where P must be `length`.

    `InputError` if the file is damaged, or is of another run or version. What the run is of (`Designs(run=...)`) is
    compared where the file and the strategy both have it.
    """
    file, view = Path(strategy.state_path), strategy.view
    with run_file.open_run_file(file) as (plain, arrays):
        same = plain["key"] == key(strategy)
        classes = run_file.method_classes(strategy.method)
        memory = run_file.decode(plain["memory"], arrays, classes) if same else None
        params, rounds_done = arrays["params"], plain["round"]
        run = plain.get("run")  # files that were written without one are read, too
        cohorts = [np.array(c, dtype=np.int64) for c in plain["cohorts"]]
    if memory is None:
        raise InputError(f"{file} is of another method, seed or number of participants")
    if None not in (run, strategy.run) and run != strategy.run:
        raise InputError(
            f"{file} is of the run {run!r:.300}, not {strategy.run!r:.300}: name another state file, or "
            "delete this one"
        )
    if len(params) != length:
        raise InputError(
            f"{file} has a model of {len(params)} numbers, and initial_arrays has {length}: name another state file, or "
            "delete this one"
        )
    view.memory = memory
    strategy.rounds_done, strategy.cohorts = rounds_done, cohorts
    view.resume(plain["roll"])
    return params
