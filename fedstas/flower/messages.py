"""What travels: arrays and small settings as Flower records, and the one place where replies are judged."""

from collections.abc import Callable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedstas.compression import Squeezed
from fedstas.errors import InputError

VERSION = 2  # of these messages; each names it
LARGEST = 1e15  # of a float in a reply: its square, summed over a network, is still a float32
MOST = 10**12  # of a number of examples or of a client: sums stay far from the end of int64


def content(arrays: dict[str, np.ndarray] | None = None, **settings) -> RecordDict:
    """A message's content: named arrays and settings."""
    records: dict = {"settings": ConfigRecord(settings | {"version": VERSION})}
    if arrays:
        records["arrays"] = ArrayRecord(
            {k: Array(np.ascontiguousarray(v)) for k, v in arrays.items()}
        )
    return RecordDict(records)


def settings_of(record: RecordDict) -> dict:
    """The settings of a message (`InputError`: it is of another version, or has none)."""
    settings = dict(record.config_records.get("settings", {}))
    version = settings.get("version")
    if type(version) is not int or version != VERSION:
        raise InputError(f"its version is {shown(version)}: messages here are of version {VERSION}")
    return settings


def read(kind: str, reply: Message | None, patience: float, **about):
    """What a reply to this kind of question says, checked in every field that is used: presence, type,
    shape, finiteness, range and version. `InputError`: there is no reply, or something is wrong with
    it; nothing else is raised, whatever a node sends. `about`: what its length depends on.
    """
    if reply is None:
        raise InputError(f"no answer within {patience:g} s")
    if reply.has_error():
        raise InputError(f"{reply.error.reason!s:.500}")
    settings_of(reply.content)
    return _READERS[kind](reply.content, **about)


def shown(value) -> str:
    """A value as a sentence names it, whatever its length."""
    return f"{value!r:.60}"


def array_of(record: RecordDict, name: str, shape: tuple[int, ...], dtype="float32") -> np.ndarray:
    """An array of a message, which must have this shape and type and be finite (`InputError`)."""
    arrays = record.array_records.get("arrays", {})
    if name not in arrays:
        raise InputError(f"it has no array {name!r}")
    try:
        value = arrays[name].numpy()
    except Exception as error:  # bytes that are no array
        raise InputError(f"its {name} cannot be read ({type(error).__name__})") from None
    if value.shape != shape or value.dtype != np.dtype(dtype):
        found, wanted = f"{value.dtype} {list(value.shape)}", f"{np.dtype(dtype)} {list(shape)}"
        raise InputError(f"its {name} is {found}, not {wanted}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InputError(f"its {name} holds a number that is not finite")
    if value.dtype.kind == "f" and np.abs(value).max(initial=0) > LARGEST:
        raise InputError(f"its {name} holds a number beyond {LARGEST:g}")
    return value


def whole_of(record: RecordDict, name: str, low: int) -> int:
    """A whole number of a message in low..MOST (`InputError`)."""
    value = settings_of(record).get(name)
    if type(value) is not int or not low <= value <= MOST:
        raise InputError(
            f"its {name} is {shown(value)}: it must be a whole number in {low}..{MOST}"
        )
    return value


def width(levels: int) -> int:
    """Bits of one code: ceil(log2 levels), as `Squeezed.bits` counts them."""
    return int(np.ceil(np.log2(levels)))


def pack(squeezed: Squeezed) -> dict[str, np.ndarray]:
    """One squeezed gradient [1, d] as its levels and its codes, bit after bit."""
    bits = np.unpackbits(squeezed.codes[0][:, None], axis=1)[:, -width(squeezed.levels.shape[1]) :]
    return {"levels": squeezed.levels[0].astype(np.float32), "codes": np.packbits(bits)}


def unpack(record: RecordDict, d: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels [d'] and codes [d] of a message, checked."""
    bits = width(levels)
    centres = array_of(record, "levels", (levels,))
    packed = array_of(record, "codes", (-(-d * bits // 8),), "uint8")
    raw = np.unpackbits(packed, count=d * bits).reshape(d, bits)
    codes = (raw * (1 << np.arange(bits)[::-1])).sum(axis=1).astype(np.uint8)
    if (np.diff(centres) < 0).any() or codes.max() >= levels:
        raise InputError("its squeezed gradient has levels out of order, or codes without one")
    return centres, codes


def _hello(record: RecordDict) -> int | None:
    """The client's number, or None if it has no data."""
    client, data = whole_of(record, "client", 0), settings_of(record).get("data")
    if type(data) is not bool:
        raise InputError(f"its data is {shown(data)}: it must be True or False")
    return client if data else None


def number_of(record: RecordDict, name: str) -> float:
    """A number of a message in 0..LARGEST (`InputError`)."""
    value = settings_of(record).get(name)
    if type(value) is not float or not 0 <= value <= LARGEST:
        raise InputError(f"its {name} is {shown(value)}: it must be a number in 0..{LARGEST:g}")
    return value


def _reports(record: RecordDict, size_cap: int, count: int) -> list[int]:
    values = settings_of(record).get("reports")
    if not isinstance(values, list) or len(values) != count:
        raise InputError(f"its reports are {shown(values)}: {count} are asked for")
    for value in values:
        if type(value) is not int or not 1 <= value < size_cap:
            raise InputError(f"a report of it is {shown(value)}, not a number of 1..{size_cap - 1}")
    return values


_READERS: dict[str, Callable] = {
    "query.hello": _hello,
    "query.size": lambda record: whole_of(record, "size", 1),
    "query.gradient": unpack,
    "query.sketch": lambda record, size: array_of(record, "sketch", (size,)),
    "query.centres": lambda record, levels: array_of(record, "centres", (levels,)),
    "query.spread": lambda record: number_of(record, "spread"),
    "query.norm": lambda record: number_of(record, "norm"),
    "query.loss": lambda record: number_of(record, "loss"),
    "query.report": _reports,
    "train": lambda record, shape: array_of(record, "models", shape),
}
