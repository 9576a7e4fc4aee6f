"""A run on disk, from which it goes on: arrays and plain settings only."""

import contextlib
import json
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedstas.authors import Frozen
from fedstas.client_sampling import Strata
from fedstas.compression import Squeezed
from fedstas.config import USER_MODULE_PREFIX
from fedstas.errors import InputError
from fedstas.sim.simulation import COLUMNS, History

STORABLE_CLASSES: dict[str, type[Any]] = {k.__name__: k for k in (Strata, Frozen, Squeezed)}


def encode(value, arrays: dict[str, np.ndarray]):
    """A value as plain data, its arrays put into `arrays` (`InputError`: it holds something else).

    Types are exact: what would come back as another one is refused.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.generic) or (kind is np.ndarray and not value.dtype.hasobject):
        name = f"kept/{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if kind is torch.Tensor:
        return {"tensor": encode(value.detach().cpu().numpy(), arrays)}
    if kind is list or kind is tuple:
        return {kind.__name__: [encode(v, arrays) for v in value]}
    if kind is dict:
        return {"dict": [[encode(k, arrays), encode(v, arrays)] for k, v in value.items()]}
    user_class = is_dataclass(kind) and kind.__module__.startswith(USER_MODULE_PREFIX)
    if kind in STORABLE_CLASSES.values() or user_class:
        inside = {f.name: getattr(value, f.name) for f in fields(value)}
        name = f"{kind.__module__}:{kind.__name__}" if user_class else kind.__name__
        return {name: encode(inside, arrays)}
    raise InputError(
        f"a design or server remembers a {kind.__name__}, which a state file cannot hold: it can hold "
        "numbers, text, arrays and tensors of them, and lists, tuples and dicts of these"
    )


def decode(plain, arrays: dict[str, np.ndarray]):
    """The value that `told` wrote down."""
    if not isinstance(plain, dict):
        return plain
    ((kind, inside),) = plain.items()
    if kind == "array":
        return arrays[inside][()]  # of no axes: a number again
    if kind == "tensor":
        return torch.from_numpy(arrays[inside["array"]])
    if kind in ("list", "tuple"):
        values = [decode(v, arrays) for v in inside]
        return values if kind == "list" else tuple(values)
    if kind == "dict":
        return {decode(k, arrays): decode(v, arrays) for k, v in inside}
    module, _, name = kind.rpartition(":")  # of user code, whose file has been run already
    stored = getattr(sys.modules[module], name) if module else STORABLE_CLASSES[name]
    if not is_dataclass(stored) or (module and not module.startswith(USER_MODULE_PREFIX)):
        raise TypeError(kind)
    return stored(**decode(inside, arrays))


def replace(file: Path, plain: dict, arrays: dict[str, np.ndarray]) -> None:
    """Replace the file, whole or not at all."""
    partial = file.with_name(f".{file.name.lstrip('.')}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as stream:
            np.savez(stream, plain=np.array(json.dumps(plain)), **arrays)  # type: ignore[arg-type]
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def keep(file: Path, asked: dict, history: History) -> None:
    """Replace the file of a run of the simulator, of which `asked` tells all but the number of rounds. Where its
    design or server remembers what a file cannot hold, or the disk is full, none is kept."""
    arrays: dict[str, np.ndarray] = {}
    state, cohorts = history.state, history.cohorts
    plain = {"asked": asked} | {k: state[k] for k in ("key", "round", "seconds")}
    with contextlib.suppress(InputError, OSError):
        plain["server"] = encode(state["server"], arrays)
        arrays |= {f"column/{name}": history.frame[name].to_numpy() for name in COLUMNS}
        arrays |= {
            "params": history.params,
            "cohorts": np.concatenate([*cohorts, np.zeros(0, np.int64)]),
        }
        arrays["ends"] = np.cumsum([len(cohort) for cohort in cohorts])
        replace(file, plain, arrays)


@contextlib.contextmanager
def opened(file: Path):
    """What such a file holds, plain and arrays; `InputError` if it, or what is made of it, is damaged."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            arrays = {k: data[k] for k in data.files}
        yield json.loads(str(arrays["plain"])), arrays
    except Exception as error:  # whatever numpy and zipfile raise
        raise InputError(f"{file} is damaged ({type(error).__name__}): delete it") from None


def history(file: Path, asked: dict) -> History | None:
    """What `keep` wrote, to go on from, or None where there is no file; `InputError` if that is damaged, or
    if something else was asked."""
    if not file.exists():
        return None
    with opened(file) as (plain, arrays):
        same = plain["asked"] == asked
        frame = pd.DataFrame({name: arrays[f"column/{name}"] for name in COLUMNS})
        state = {k: plain[k] for k in ("key", "round", "seconds")}
        state |= {"rows": frame.to_dict("records"), "server": decode(plain["server"], arrays)}
        cohorts = np.split(arrays["cohorts"], arrays["ends"])[:-1]
    if not same:
        raise InputError(
            f"{file} is of a run with other settings: delete it, or name another --out"
        )
    return History(frame, arrays["params"], cohorts, state)
