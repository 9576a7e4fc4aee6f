"""File primitives: writing that leaves a file complete or absent, and locks between processes."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from fedstas.errors import InputError

WRITING = 60.0  # seconds to wait for another process that writes the same file
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)  # of file systems without locks


class Unwritable(InputError):
    """The disk is full, or the folder may not be written: no run can be recorded."""


def unwritable(path: Path, error: OSError) -> Unwritable:
    """Return the error for a file that could not be written."""
    return Unwritable(f"{path} could not be written: {error.strerror}")


def hidden_file(path: Path, kind: str) -> Path:
    """Return the hidden file of a kind (`lock`, `partial`, `checkpoint`) beside a file."""
    return path.with_name(f".{path.name.lstrip('.')}.{kind}")


def write(path: Path, writer: Callable[[Path], object]) -> None:
    """Call `writer(temporary path)` and rename the result: the file is complete or absent.

    What a killed process had half written is overwritten by the next writing of the same file.
    """
    partial = hidden_file(path, "partial")
    with lock(path, wait=WRITING) as acquired:
        if not acquired:
            raise Unwritable(f"{path} could not be written: another process is writing it")
        try:
            writer(partial)
            partial.replace(path)
        except OSError as error:
            raise unwritable(path, error) from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise an `InputError` if a file cannot be written, before hours are spent on what it is to hold."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    trial = hidden_file(path, "trial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise unwritable(path, error) from error


@contextlib.contextmanager
def lock(path: Path, wait: float = 0.0) -> Iterator[bool]:
    """Hold the lock of a file; yields whether it was acquired within `wait` seconds.

    The operating system frees the lock when its holder ends, however that ends. On a file system
    without locks every process acquires it.
    """
    file = FileLock(hidden_file(path, "lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.acquire(timeout=wait, blocking=wait > 0)
    except Timeout:
        yield False
        return
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise unwritable(path, error) from error
    try:
        yield True
    finally:
        # A process that waits for the removed file opens a new one.
        with contextlib.suppress(OSError):
            Path(file.lock_file).unlink(missing_ok=True)
        file.release()


def stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced or written; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
