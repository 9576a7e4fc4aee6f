"""Runs in progress on disk, as JSON and arrays (no pickle): the file from which an interrupted run continues.

`encode` converts values, arrays, tensors, and the dataclasses in which designs and servers declare their state
(`fedstas.state`). `decode` converts back, and makes instances only of the classes that the run's method declares.
`encode_history` and `decode_history` do the same for a `History`.
"""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedstas.errors import InputError, format_value
from fedstas.methods import Method
from fedstas.sim.server import ServerMemory
from fedstas.sim.simulation import COLUMNS, LATER_COLUMNS, History, RunState
from fedstas.state import (
    OtherVersion,
    classes_of_parts,
    declared_classes,
    from_plain,
    to_plain,
)

VERSION = 3  # of this encoding; files of other versions are refused


def memory_classes(memory: ServerMemory) -> set[type]:
    """Return the classes that a server's memory may contain: those that its states declare."""
    kinds = [ServerMemory, *memory.designs, *([type(memory.optimizer)] if memory.optimizer else [])]
    return set().union(*map(declared_classes, kinds))


def method_classes(method: Method) -> set[type]:
    """Return the classes that the memory of a server may contain if it runs this method."""
    return {ServerMemory} | classes_of_parts(method.clients, method.data, method.server)


def encode(value, arrays: dict[str, np.ndarray], classes: Iterable[type] = ()):
    """Convert a value to plain data for JSON, which refers by name to arrays that are added to `arrays`.

    Args:
        value: see `state.to_plain`; it may hold arrays and tensors.
        arrays: filled with the arrays.
        classes: the dataclasses that may occur; a class itself may be the key of a dict.

    Raises:
        InputError: the value holds something else.
    """

    def store(value) -> dict | None:
        """Add an array or tensor to `arrays`, and return its reference; None for another value."""
        if isinstance(value, np.generic) or (
            type(value) is np.ndarray and not value.dtype.hasobject
        ):
            name = f"value/{len(arrays)}"
            arrays[name] = value  # type: ignore[assignment]
            return {"array": name}
        if type(value) is torch.Tensor:
            return {"tensor": store(value.detach().cpu().numpy())}
        return None

    return to_plain(value, classes, store)


def decode(plain, arrays, classes: Iterable[type] = ()) -> Any:
    """Convert plain data and arrays back to the value that `encode` was given.

    `OtherVersion` if it contains a class that is not among `classes`, or that has other fields now.
    """

    def restore_tensor(content) -> torch.Tensor:
        return torch.from_numpy(np.array(arrays[content["array"]]))

    def restore_array(name):
        return arrays[name][()]  # [()]: an array without axes is a number again

    return from_plain(plain, classes, {"array": restore_array, "tensor": restore_tensor})


def check_version(plain: dict) -> None:
    """Raise `OtherVersion` unless the plain data of a file are of this `VERSION`."""
    if not isinstance(plain, dict) or plain.get("version") != VERSION:
        version = plain.get("version") if isinstance(plain, dict) else None
        raise OtherVersion(f"format {format_value(version)}, not {VERSION}")


def encode_history(history: History) -> tuple[dict, dict[str, np.ndarray]]:
    """Convert a history to plain data and named arrays; `InputError` if a state contains what no file can store."""
    state, cohorts = history.state, history.cohorts
    arrays: dict[str, np.ndarray] = {}
    memory = encode(state.server, arrays, memory_classes(state.server))
    plain = {"version": VERSION, "server": memory}
    names = ("key", "round", "seconds", "shards_digest")
    plain |= {name: getattr(state, name) for name in names}
    arrays |= {f"column/{name}": values.to_numpy() for name, values in history.frame.items()}
    arrays |= {} if state.average is None else {"average": state.average}
    arrays["params"] = history.params
    arrays["cohorts"] = np.concatenate([*cohorts, np.zeros(0, np.int64)])
    arrays["cohort ends"] = np.cumsum([len(cohort) for cohort in cohorts], dtype=np.int64)
    return plain, arrays


def decode_history(plain: dict, arrays, method: Method) -> History:
    """Convert plain data and arrays back to the history of a run of this method.

    `OtherVersion` if another version of the code wrote them.
    """
    check_version(plain)
    later = [name for name in LATER_COLUMNS if f"column/{name}" in arrays]
    frame = pd.DataFrame({name: arrays[f"column/{name}"] for name in (*COLUMNS, *later)})
    memory = decode(plain["server"], arrays, method_classes(method))
    rows = frame.to_dict("records")
    average, digest = arrays.get("average"), plain.get("shards_digest")  # runs may have neither
    state = RunState(plain["key"], plain["round"], plain["seconds"], rows, memory, average, digest)
    cohorts = np.split(arrays["cohorts"], arrays["cohort ends"])[:-1]
    return History(frame, arrays["params"], cohorts, state)


def write(file: Path, plain: dict, arrays: dict[str, np.ndarray]) -> None:
    """Replace the file, completely or not at all."""
    partial = file.with_name(f".{file.name.lstrip('.')}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as stream:
            np.savez(stream, plain=np.array(json.dumps(plain)), **arrays)  # type: ignore[arg-type]
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def open_run_file(file: Path):
    """Read a file and yield its plain data and arrays, to be decoded in a `with` block.

    `InputError` that names the file if it cannot be read, is damaged or of another version; also for errors within the
    block.
    """
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            arrays = {k: data[k] for k in data.files}
        plain = json.loads(str(arrays["plain"]))
        check_version(plain)
        yield plain, arrays
    except OtherVersion as error:
        raise InputError(f"{file}: {error}: delete it, and the run starts over") from None
    except PermissionError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): make it readable") from None
    except Exception as error:  # numpy, zipfile and json raise many kinds
        raise InputError(f"{file} is damaged ({type(error).__name__}): delete it") from None


def save_history(file: Path, settings: dict, history: History) -> str:
    """Save a run, so that `load_history` can continue it; `settings` are all but the number of rounds.

    Returns:
        "", or why no file is written: a state contains what no file can store, or the disk is full.
    """
    try:
        plain, arrays = encode_history(history)
        write(file, plain | {"settings": settings}, arrays)
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{file} could not be written ({error.strerror})"
    return ""


def load_history(file: Path, settings: dict, method: Method) -> History | None:
    """Return the history that `save_history` wrote, or None if there is no such file.

    `InputError` if the file is damaged, of another version, or of a run with other settings.
    """
    if not file.exists():
        return None
    history = None
    with open_run_file(file) as (plain, arrays):
        if plain["settings"] == settings:
            history = decode_history(plain, arrays, method)
    if history is None:
        raise InputError(
            f"{file} is of a run with other settings: delete it, or name another --out"
        )
    return history
