"""What travels: arrays and small settings as Flower records, and the checks of what arrives."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedstas.compression import Squeezed
from fedstas.errors import InputError


def content(arrays: dict[str, np.ndarray] | None = None, **settings) -> RecordDict:
    """A message's content: named arrays and settings."""
    records: dict = {"settings": ConfigRecord(settings)}
    if arrays:
        records["arrays"] = ArrayRecord(
            {k: Array(np.ascontiguousarray(v)) for k, v in arrays.items()}
        )
    return RecordDict(records)


def settings_of(record: RecordDict) -> dict:
    """The settings of a message."""
    return dict(record.config_records["settings"])


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
    return value


def number_of(record: RecordDict, name: str, low: float, high: float = np.inf):
    """A number of a message in low..high (`InputError`)."""
    value = record.config_records.get("settings", {}).get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"its {name} is {value!r}")
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
