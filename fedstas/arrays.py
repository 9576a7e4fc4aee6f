"""Checks of arrays that callers give, and rescaling to what floats can square and sum."""

import math
import re
from numbers import Real

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


def as_int_array(
    name: str,
    values,
    low: int = 0,
    high: int = MAX_COUNT,
    *,
    ndim: int | None = 1,
    advice: str = "",
):
    """Return the values as int64 in low..high, or raise an `InputError`; `ndim` as in `as_float_array`.

    `advice` ends its sentence: what to give instead.
    """
    array = as_float_array(name, values, ndim=ndim)
    if (array != np.floor(array)).any() or (array < low).any() or (array > high).any():
        allowed = f">= {low} and at most {high}" + (f"; {advice}" if advice else "")
        raise InputError(f"{name} are {format_value(values)}: they must be whole numbers {allowed}")
    return array.astype(np.int64)


def as_array(name: str, values) -> np.ndarray:
    """Return the values as an array of their own type; tensors may be on any device and require gradients.

    Raises:
        InputError: their rows differ in length, they are no array at all, or some are masked.
    """
    if hasattr(values, "detach"):  # a tensor of torch, which is not imported here
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(
            f"{name} are {format_value(values)}: their rows must have one length"
        ) from None
    if array.ndim == 0 and array.dtype == object:  # a sparse matrix, a generator, a dict, None
        raise InputError(f"{name} are a {type(values).__name__}: give them as an array")
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else np.zeros(0)
    if mask.any():
        row = np.flatnonzero(mask.reshape(len(mask), -1).any(1))[0]
        raise InputError(
            f"{name} have a masked value in row {row}: fill it in, or leave the row out"
        )
    return array


# What int64 holds; "01" and full-width digits are words.
PLAIN_DECIMAL = re.compile(r"0|[1-9][0-9]{0,17}")


def as_names(name: str, values) -> np.ndarray:
    """Return what users name clients or classes by, [n]: int64 if all are whole numbers >= 0, else words.

    Words that are all plain decimals become int64, so that 9 comes before 10. Whole numbers of more than eighteen digits
    are words. Arrays, lists and columns of pandas are taken.

    Raises:
        InputError: a name is missing, empty, negative, not whole, or of another type than the others.
    """
    array = as_array(name, values)
    if array.ndim != 1:
        raise InputError(f"{name} have shape {array.shape}: they must be names [n], one an example")
    if array.dtype.kind in "iu" and (array >= 0).all() and (array <= np.iinfo(np.int64).max).all():
        return array.astype(np.int64)
    if array.dtype.kind in "SU" and hasattr(values, "dtype"):  # each word is looked at once
        array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        different, index = np.unique(array, return_inverse=True)
        if len(different) < len(array) and all(word.strip() for word in different):
            return as_names(name, different)[index]
    # Of a list the values themselves: an array of numbers and words would be one of words.
    names = array.tolist() if hasattr(values, "dtype") else list(values)
    names = [each.decode() if isinstance(each, bytes) else each for each in names]
    advice = "use words, or whole numbers from 0 on"
    numbers = [_as_whole(each) for each in names]
    for row, (each, number) in enumerate(zip(names, numbers, strict=True)):
        is_word = isinstance(each, str) and each.strip()
        if not (is_word or number is not None):
            raise InputError(f"{name} have {format_value(each)} in row {row}: {advice}")
        if isinstance(each, str) != isinstance(names[0], str):
            pair = f"{format_value(names[0])} in row 0 and {format_value(each)} in row {row}"
            raise InputError(f"{name} have {pair}: name all by words, or all by numbers")
    words = [
        each.strip() if isinstance(each, str) else str(n)
        for each, n in zip(names, numbers, strict=True)
    ]
    plain = all(PLAIN_DECIMAL.fullmatch(word) for word in words)
    return np.array([int(word) for word in words], dtype=np.int64) if plain else np.array(words)


def number_names(names) -> np.ndarray:
    """Return the place of each name [n] among the different names, ascending: int64 [n]."""
    _, numbers = np.unique(names, return_inverse=True)
    return numbers.astype(np.int64)


def _as_whole(value) -> int | None:
    """Return a number as an int, if it is whole and at least 0; else None."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return int(value) if is_number and value >= 0 and value == value // 1 else None


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


def rescale(x: np.ndarray) -> np.ndarray:
    """Rescale float64 x as `rescale_exponent` does, for results that depend on the ratios of its entries alone."""
    rescaled, _ = rescale_exponent(x)
    return rescaled
