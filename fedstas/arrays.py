"""Checks of arrays that callers give, and rescaling to what floats can square and sum."""

import math

import numpy as np

from fedstas.errors import InputError, format_value

MAX_COUNT = 2**31 - 1  # two counts up to it can be multiplied in 64 bits
SAFE_EXPONENT = 300  # of 2, up to which squares of float64 and long sums of them stay normal


def as_float_array(
    name: str, values, low: float = -math.inf, *, ndim: int | None = 1
) -> np.ndarray:
    """Return the values as finite float64 of at least `low`, or raise an `InputError`.

    They must have `ndim` axes and not be empty; with None they may have any shape.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            array = array.astype(np.float64)
            fits = (array.ndim == ndim and array.size) if ndim is not None else True
            if fits and np.isfinite(array).all() and (array.min(initial=math.inf) >= low):
                return array
    except (TypeError, ValueError, OverflowError):
        pass
    bound = "" if low == -math.inf else f" >= {low:g}"
    shape = "" if ndim is None else f", with {ndim} axis" if ndim == 1 else f", with {ndim} axes"
    raise InputError(
        f"{name} are {format_value(values)}: they must be finite numbers{bound}{shape}"
    )


def as_int_array(name: str, values, low: int = 0, high: int = MAX_COUNT, *, ndim: int | None = 1):
    """Return the values as int64 in low..high, or raise an `InputError`; `ndim` as in `as_float_array`."""
    array = as_float_array(name, values, ndim=ndim)
    if (array != np.floor(array)).any() or (array < low).any() or (array > high).any():
        allowed = f">= {low} and at most {high}"
        raise InputError(f"{name} are {format_value(values)}: they must be whole numbers {allowed}")
    return array.astype(np.int64)


def as_array(name: str, values) -> np.ndarray:
    """Return the values as an array of their own type, or raise an `InputError` where their rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"{name} are {format_value(values)}: their rows must have one length"
        ) from None


def check_same_shape(names: str, *arrays) -> None:
    """Raise an `InputError` where arrays differ in shape; `names` is the subject of its message."""
    shapes = [np.shape(a) for a in arrays]
    if len(set(shapes)) > 1:
        unequal = " and ".join(str(list(shape)) for shape in shapes)
        raise InputError(f"{names} have the shapes {unequal}: they must have the same shape")


def rescale_exponent(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Rescale float64 x by a power of two, so that its squares neither overflow nor vanish.

    Returns:
        x 2^-e and e if the largest |entry| is above 2^300 or below 2^-300; else x and 0. Exact but for entries
        that are negligible beside the largest.
    """
    largest = max(x.max(initial=0.0), -x.min(initial=0.0))  # of |x|, without an array for it
    e = int(np.frexp(largest)[1])
    return (np.ldexp(x, -e), e) if largest and abs(e) > SAFE_EXPONENT else (x, 0)
