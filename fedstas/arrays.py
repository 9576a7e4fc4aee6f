"""Arrays that callers give: checked, and kept within what floats can square and sum."""

import math

import numpy as np

from fedstas.errors import InputError, format_value

MAX_COUNT = 2**31 - 1  # of a count: two of them can still be multiplied in 64 bits
ORDINARY = 300  # exponents up to which squares of float64 and long sums of them stay normal


def as_float_array(
    name: str, values, low: float = -math.inf, *, ndim: int | None = 1
) -> np.ndarray:
    """The values as finite float64 of at least `low`, or an `InputError`.

    With `ndim` axes and not empty; any shape for None.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind in "biufO":
            found = found.astype(np.float64)
            right = (found.ndim == ndim and found.size) if ndim is not None else True
            if right and np.isfinite(found).all() and (found.min(initial=math.inf) >= low):
                return found
    except (TypeError, ValueError, OverflowError):
        pass
    bound = "" if low == -math.inf else f" >= {low:g}"
    shape = "" if ndim is None else f", with {ndim} axis" if ndim == 1 else f", with {ndim} axes"
    raise InputError(
        f"{name} are {format_value(values)}: they must be finite numbers{bound}{shape}"
    )


def as_int_array(name: str, values, low: int = 0, high: int = MAX_COUNT, *, ndim: int | None = 1):
    """The values as int64 in low..high, or an `InputError`; `ndim` as in `reals`."""
    found = as_float_array(name, values, ndim=ndim)
    if (found != np.floor(found)).any() or (found < low).any() or (found > high).any():
        allowed = f">= {low} and at most {high}"
        raise InputError(f"{name} are {format_value(values)}: they must be whole numbers {allowed}")
    return found.astype(np.int64)


def as_array(name: str, values) -> np.ndarray:
    """The values as an array of their own type, or an `InputError` where their rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"{name} are {format_value(values)}: their rows must have one length"
        ) from None


def check_same_shape(names: str, *arrays) -> None:
    """Refuse arrays of different shapes."""
    if len({np.shape(a) for a in arrays}) > 1:
        raise InputError(f"{names} must have the same length")


def rescale_exponent(x: np.ndarray) -> tuple[np.ndarray, int]:
    """x 2^-e and e, where the largest entry of float64 x is beyond 2^-300 and 2^300; else x and 0.

    Exact but for entries that are nothing beside the largest.
    """
    largest = max(x.max(initial=0.0), -x.min(initial=0.0))  # of |x|, which takes no room
    e = int(np.frexp(largest)[1])
    return (np.ldexp(x, -e), e) if largest and abs(e) > ORDINARY else (x, 0)
