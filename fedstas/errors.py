"""The ways in which a call can end early, each with one plain sentence."""

import contextlib
import difflib
import math
from numbers import Real

import numpy as np


class InputError(ValueError):
    """What was asked for is not allowed; the message names it and says what is."""


class DataError(InputError):
    """A data set is missing or damaged; the message says which file and what to do."""


class Interrupted(RuntimeError):
    """Somebody stopped it; the message says what is kept."""


class Diverged(RuntimeError):
    """Training reached a non-finite model or loss; `history` holds the rounds before."""

    def __init__(self, message: str, history=None):
        super().__init__(message)
        self.history = history


def format_value(values) -> str:
    """Values in a sentence: on one line, and not all of them where they are many."""
    short = repr(values.ravel()[:20].tolist() if isinstance(values, np.ndarray) else values)
    short = short.replace("\n", " ")
    return short if len(short) <= 60 else f"{short[:57]}..."


def check_choice(name: str, value, allowed) -> None:
    """Refuse a value that is not among the allowed ones."""
    allowed = list(allowed)
    if not any(isinstance(value, type(known)) and value == known for known in allowed):
        listed = [*filter(None, map(str, allowed))]
        said = f"unknown {name} {format_value(value)}{suggestion(str(value), listed)}"
        raise InputError(f"{said}: use one of {', '.join(listed)}")


def suggestion(word: str, known) -> str:
    """ " (did you mean ...?)", or nothing where no word that is known is near."""
    near = difflib.get_close_matches(word, known, 1, 0.7) or [k for k in known if {*k} == {*word}]
    return f" (did you mean {near[0]}?)" if near else ""


def check_int(name: str, value, low: int, high: float = math.inf) -> int:
    """The value as an int in low..high, or an `InputError`."""
    whole = isinstance(value, float) and value.is_integer()
    if hasattr(value, "__index__") and not isinstance(value, bool | np.bool_):
        with contextlib.suppress(TypeError):  # an array of several has it too
            value, whole = value.__index__(), True
    if not whole or not low <= value <= high:
        allowed = f"at least {low}" + ("" if high == math.inf else f" and at most {high}")
        raise InputError(f"{name} is {format_value(value)}: it must be a whole number of {allowed}")
    return int(value)


def check_float(
    name: str, value, low: float, high: float = math.inf, *, open_low=True, open_high=False
):
    """The value as a finite float in (low, high] (or with other ends), or an `InputError`."""
    known = isinstance(value, Real) and not isinstance(value, bool)  # no text, no np.bool_
    try:
        number = float(value) if known else math.nan
    except OverflowError:
        number = math.nan
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (math.isfinite(number) and above and below):
        upper = "" if high == math.inf else f" and {'below' if open_high else 'at most'} {high:g}"
        floor = f"above {low:g}" if open_low else f"at least {low:g}"
        raise InputError(f"{name} is {format_value(value)}: it must be a number {floor}{upper}")
    return number + 0.0  # -0.0 is 0.0: equal settings are one run


def check_bool(name: str, value) -> bool:
    """The value as a bool, or an `InputError`."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {format_value(value)}: it must be True or False")
    return bool(value)
