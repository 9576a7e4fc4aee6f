"""The messages between server and clients: arrays and settings as Flower records, and the checks of replies."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedstas.compression import Squeezed
from fedstas.errors import InputError

VERSION = 2  # of the message format; every message contains it
# The largest float in a reply: its square, summed over a network, is still in the range of float32.
LARGEST = 1e15
MOST = 10**12  # number of examples, or number of a client: sums of them cannot overflow int64


def make_content(arrays: dict[str, np.ndarray] | None = None, **settings) -> RecordDict:
    """Make the content of a message from named arrays and settings."""
    records: dict = {"settings": ConfigRecord(settings | {"version": VERSION})}
    if arrays:
        records["arrays"] = ArrayRecord(
            {k: Array(np.ascontiguousarray(v)) for k, v in arrays.items()}
        )
    return RecordDict(records)


def read_settings(record: RecordDict) -> dict:
    """Return the settings of a message; `InputError` if it has none, or is of another version."""
    settings = dict(record.config_records.get("settings", {}))
    version = settings.get("version")
    if type(version) is not int or version != VERSION:
        raise InputError(
            f"its version is {short_repr(version)}: messages here are of version {VERSION}"
        )
    return settings


def read(kind: str, reply: Message | None, patience: float, **about) -> Any:
    """Read and check the reply to a question.

    Presence, type, shape and range of every field are checked, that numbers are finite, and the message's version.

    Args:
        kind: of the question, a key of `_READERS`.
        reply: None if there is none.
        patience: the seconds that were waited for it, for the message of the error.
        about: what the length and range of the answer depend on: the keyword arguments of this kind's reader in
            `_READERS`, as levels=9 for "query.centres".

    Returns:
        The answer, of a type that depends on the kind: the int of "query.size", the float of "query.spread",
        "query.norm" and "query.loss", the int64 array of "query.labels", the float32 array of "query.sketch", "query.centres" and "train", the levels and
        codes of "query.gradient", the ints of "query.report", and of "query.hello" the client's number, None for a
        client without data.

    Raises:
        InputError: there is no reply, or it is wrong. No other exception is raised, whatever a node sends.
    """
    if reply is None:
        raise InputError(f"no answer within {patience:g} s")
    if reply.has_error():
        raise InputError(f"{reply.error.reason!s:.500}")
    read_settings(reply.content)  # refuses a message of another version
    return _READERS[kind](reply.content, **about)


def digest(params: np.ndarray) -> str:
    """Return the SHA-256 of parameters float32 [P], by which a node knows whether it has made the same w_0."""
    return hashlib.sha256(np.ascontiguousarray(params, dtype="<f4").tobytes()).hexdigest()


def short_repr(value) -> str:
    """Return the first 60 characters of a value's repr, for error messages."""
    return f"{value!r:.60}"


def read_array(
    record: RecordDict, name: str, shape: tuple[int, ...], dtype="float32"
) -> np.ndarray:
    """Return an array of a message; `InputError` unless it has this shape and type and is finite."""
    arrays = record.array_records.get("arrays", {})
    if name not in arrays:
        raise InputError(f"it has no array {name!r}")
    try:
        value = arrays[name].numpy()
    except Exception as error:  # bytes that are no array
        raise InputError(f"its {name} cannot be read ({type(error).__name__})") from None
    if value.shape != shape or value.dtype != np.dtype(dtype):
        actual, expected = f"{value.dtype} {list(value.shape)}", f"{np.dtype(dtype)} {list(shape)}"
        raise InputError(f"its {name} is {actual}, not {expected}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InputError(f"its {name} holds a number that is not finite")
    if value.dtype.kind == "f" and np.abs(value).max(initial=0) > LARGEST:
        raise InputError(f"its {name} holds a number beyond {LARGEST:g}")
    return value


def read_int(record: RecordDict, name: str, low: int) -> int:
    """Return a whole number of a message; `InputError` unless it is in low..MOST."""
    value = read_settings(record).get(name)
    if type(value) is not int or not low <= value <= MOST:
        raise InputError(
            f"its {name} is {short_repr(value)}: it must be a whole number in {low}..{MOST}"
        )
    return value


def code_bits(levels: int) -> int:
    """Return the bits of one code, ceil(log2 levels), as in `Squeezed.bits`."""
    return int(np.ceil(np.log2(levels)))


def pack(squeezed: Squeezed) -> dict[str, np.ndarray]:
    """Return the arrays of a message with one squeezed gradient [1, d]: its levels, and its codes packed into bytes."""
    (levels,), (codes,) = squeezed.levels, squeezed.codes
    bits = np.unpackbits(codes[:, None], axis=1)  # eight of each code, of which the last are used
    return {
        "levels": levels.astype(np.float32),
        "codes": np.packbits(bits[:, -code_bits(len(levels)) :]),
    }


def unpack(record: RecordDict, d: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels [d'] and codes [d] of a message with a squeezed gradient; `InputError` if they are wrong."""
    bits = code_bits(levels)
    centres = read_array(record, "levels", (levels,))
    packed = read_array(record, "codes", (math.ceil(d * bits / 8),), "uint8")
    # Of each code, the highest bit first.
    raw = np.unpackbits(packed, count=d * bits).reshape(d, bits)
    codes = (raw * (1 << np.arange(bits)[::-1])).sum(axis=1).astype(np.uint8)
    if (np.diff(centres) < 0).any() or codes.max() >= levels:
        raise InputError("its squeezed gradient has levels out of order, or codes without one")
    return centres, codes


def _read_hello(record: RecordDict) -> int | None:
    """Return the client's number, or None if it has no data."""
    client, data = read_int(record, "client", 0), read_settings(record).get("data")
    if type(data) is not bool:
        raise InputError(f"its data is {short_repr(data)}: it must be True or False")
    return client if data else None


def read_float(record: RecordDict, name: str) -> float:
    """Return a float of a message; `InputError` unless it is in 0..LARGEST."""
    value = read_settings(record).get(name)
    if type(value) is not float or not 0 <= value <= LARGEST:
        raise InputError(
            f"its {name} is {short_repr(value)}: it must be a number in 0..{LARGEST:g}"
        )
    return value


def _read_reports(record: RecordDict, size_cap: int, count: int) -> list[int]:
    """Return `count` randomised responses, each in 1..size_cap - 1."""
    values = read_settings(record).get("reports")
    if not isinstance(values, list) or len(values) != count:
        raise InputError(f"its reports are {short_repr(values)}: {count} are asked for")
    for value in values:
        if type(value) is not int or not 1 <= value < size_cap:
            raise InputError(
                f"a report of it is {short_repr(value)}, not a number of 1..{size_cap - 1}"
            )
    return values


def _read_label_counts(record: RecordDict, classes: int) -> np.ndarray:
    """Return a client's label counts, int64 [classes]."""
    counts = read_array(record, "counts", (classes,), "int64")
    if counts.min() < 0 or counts.max() > MOST or not counts.any():
        raise InputError(
            f"its label counts are {short_repr(counts.tolist())}: they must be whole numbers in 0..{MOST}, not all 0"
        )
    return counts


# The reader of each kind of question: it takes the content of a reply, and by keyword what its answer depends on.
_READERS: dict[str, Callable] = {
    "query.hello": _read_hello,
    "query.size": lambda record: read_int(record, "size", 1),
    "query.gradient": unpack,
    "query.sketch": lambda record, size: read_array(record, "sketch", (size,)),
    "query.centres": lambda record, levels: read_array(record, "centres", (levels,)),
    "query.labels": _read_label_counts,
    "query.spread": lambda record: read_float(record, "spread"),
    "query.norm": lambda record: read_float(record, "norm"),
    "query.loss": lambda record: read_float(record, "loss"),
    "query.report": _read_reports,
    "train": lambda record, shape: read_array(record, "models", shape),
}
