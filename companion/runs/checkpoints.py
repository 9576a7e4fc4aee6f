"""A run in work: its last evaluated round on disk, and the lock that says who works on it.

Beside the files of a run `NAME` lie, while it is made, `.NAME.checkpoint` and `.NAME.lock`. A
process that is killed leaves both: the next one takes the lock, for the system freed it with the
process, and goes on from the checkpoint. All of it is best effort: without locks, or with a
checkpoint that is lost, the same run is only computed twice.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import sys
import time
import zlib
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from companion.runs import atomic, provenance
from fedstas import config
from fedstas.errors import InputError
from fedstas.sim.simulation import COLUMNS, History

try:
    import fcntl
except ImportError:  # Windows: there two processes may make the same run
    fcntl = None

MAGIC = b"fedstas checkpoint 2\n"
PATIENCE = 3600.0  # s; who holds a lock and shows no sign for so long is given up
# What a checkpoint may be made of, besides data classes of this package and of the run's own design: it is
# a pickle, and one from elsewhere must not run code.
_ALLOWED = {(__name__, "_tensor")} | {
    (module, name)
    for module in ("numpy", "numpy._core.multiarray", "numpy._core.numeric")
    for name in ("ndarray", "dtype", "scalar", "_reconstruct", "_frombuffer")
}


def _tensor(array) -> torch.Tensor:
    return torch.from_numpy(np.array(array))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, torch.Tensor):
            return _tensor, (value.detach().cpu().numpy(),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        own = (
            module.startswith(config.USER_MODULE_PREFIX) and module in sys.modules
        )  # its file has been run already
        if (own or module.startswith("fedstas.")) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and is_dataclass(found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name}")


def place(data: str | Path, kind: str = "checkpoint") -> Path:
    """The hidden file of that kind (`checkpoint` or `lock`) beside a run's parquet file."""
    data = Path(data)
    return data.with_name(f".{data.stem}.{kind}")


def _maker(who: dict, device) -> dict:
    """What a checkpoint must agree in: the run, and all that its last bits depend on."""
    return {"run": json.dumps(who, sort_keys=True)} | _environment(str(device))


@lru_cache(maxsize=1)
def _environment(device: str) -> dict:
    return provenance.environment(device, 1, with_commit=False)


def write(history: History, who: dict, data: Path, device) -> None:
    """Replace the checkpoint of a run; a lock beside it shows that its holder lives."""
    content = (_maker(who, device), history.state, history.params, history.cohorts)
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(content)
    body = buffer.getbuffer()
    check = zlib.crc32(body).to_bytes(4, "big")

    def writer(path: Path) -> None:
        with path.open("wb") as file:
            file.writelines((MAGIC, check, body))

    atomic.write(place(data), writer)
    with contextlib.suppress(OSError):
        os.utime(place(data, "lock"))


def read(who: dict, data: Path, device) -> History | None:
    """The history to resume from, or None where there is no checkpoint.

    `InputError` when it is damaged, or of another run, device or version.
    """
    path = place(data)
    try:
        content = path.read_bytes()
        head, body = len(MAGIC) + 4, memoryview(content)[len(MAGIC) + 4 :]
        if content[:head] != MAGIC + zlib.crc32(body).to_bytes(4, "big"):
            raise ValueError("checksum")
        maker, state, params, cohorts = _Unpickler(io.BytesIO(body)).load()
        frame = pd.DataFrame(state["rows"], columns=list(COLUMNS)).astype(COLUMNS)
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever a damaged pickle may raise
        raise InputError(f"{path} is damaged ({type(error).__name__})") from error
    wanted = _maker(who, device)
    for key, value in wanted.items():
        if maker.get(key) != value:
            raise InputError(f"{path} is of another {key}")
    return History(frame, np.array(params), cohorts, state)


def discard(data: Path) -> None:
    """Remove the checkpoint of a run."""
    with contextlib.suppress(OSError):
        place(data).unlink(missing_ok=True)


@contextlib.contextmanager
def run_lock(data: Path):
    """`with alone(data) as free`: whether no other process, here or elsewhere, makes this run.

    The lock is the system's own (flock): it ends with the process that holds it, however that
    ends. A holder that has shown no sign for `PATIENCE` is ignored, and so is a file
    system without locks.
    """
    path = place(data, "lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise atomic.unwritable(path, error) from error
    with file:
        held = _hold(file)
        if held:
            _sweep_up(data)
        try:
            yield held is not False
        finally:
            if held:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)


def _hold(file) -> bool | None:
    """Whether the lock is ours; None where that cannot be said and the run may be made anyway."""
    try:
        if fcntl is None:
            return None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(file.fileno())
    except BlockingIOError:
        quiet = abs(time.time() - os.fstat(file.fileno()).st_mtime)
        return False if quiet < PATIENCE else None
    except OSError:  # this file system has no locks
        return None
    return True


def clean_stale(folder: Path, stems) -> None:
    """Remove what killed processes left in a sweep's folder beside these runs, which are recorded:
    a checkpoint, a lock, a file half written. Not what another process holds."""
    kinds = (".checkpoint", ".lock", ".partial")
    left = [path.name for path in folder.glob(".*") if path.suffix in kinds]
    for stem in stems if left else ():
        if any(name.lstrip(".").startswith(stem) for name in left):
            data = folder / f"{stem}.parquet"
            with run_lock(data) as free:
                if free:
                    discard(data)


def _sweep_up(data: Path) -> None:
    """Remove what a killed process was just writing of this run, on another computer an hour ago at
    least (its clock may be off); the lock must be held."""
    node = atomic.node()
    for partial in data.parent.glob(f".*{data.stem}*.partial"):
        with contextlib.suppress(OSError):
            if f".{node}." in partial.name or time.time() - partial.stat().st_mtime > PATIENCE:
                partial.unlink(missing_ok=True)
