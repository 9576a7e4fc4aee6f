"""Exceptions whose messages are one plain sentence, and checks of single values."""

import contextlib
import difflib
import math
from numbers import Real

import numpy as np


class InputError(ValueError):
    """A value is not allowed; the message names it and says what is allowed."""


class DataError(InputError):
    """A data set is missing or damaged; the message says which file and what to do."""


class Interrupted(RuntimeError):
    """The user stopped a command; the message says what is kept."""


class Diverged(RuntimeError):
    """Training reached a non-finite model or loss; `history` holds the rounds before."""

    def __init__(self, message: str, history=None):
        super().__init__(message)
        self.history = history


def format_value(values) -> str:
    """Format a value, or the first of many, for a message: on one line of at most 60 characters."""
    short = repr(values.ravel()[:20].tolist() if isinstance(values, np.ndarray) else values)
    short = short.replace("\n", " ")
    return short if len(short) <= 60 else f"{short[:57]}..."


def check_choice(name: str, value, allowed) -> None:
    """Raise an `InputError` unless the value is among the allowed ones."""
    allowed = list(allowed)
    if not any(isinstance(value, type(each)) and value == each for each in allowed):
        listed = [*filter(None, map(str, allowed))]
        hint = suggestion(str(value), listed)
        raise InputError(
            f"unknown {name} {format_value(value)}{hint}: use one of {', '.join(listed)}"
        )


def suggestion(word: str, choices) -> str:
    """Return " (did you mean ...?)" with the choice most like the word, or "" if none is like it."""
    similar = difflib.get_close_matches(word, choices, 1, 0.7)
    similar = similar or [each for each in choices if {*each} == {*word}]
    return f" (did you mean {similar[0]}?)" if similar else ""


def check_int(name: str, value, low: int, high: float = math.inf) -> int:
    """Return the value as an int in low..high, or raise an `InputError`."""
    is_whole = isinstance(value, float) and value.is_integer()
    if hasattr(value, "__index__") and not isinstance(value, bool | np.bool_):
        with contextlib.suppress(TypeError):  # arrays of several values have it too
            value, is_whole = value.__index__(), True
    if not is_whole or not low <= value <= high:
        allowed = f"at least {low}" + ("" if high == math.inf else f" and at most {high}")
        raise InputError(f"{name} is {format_value(value)}: it must be a whole number of {allowed}")
    return int(value)


def check_float(
    name: str, value, low: float, high: float = math.inf, *, open_low=True, open_high=False
):
    """Return the value as a finite float in (low, high], or raise an `InputError`; `open_low` and `open_high` say
    whether the ends are excluded."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)  # no text, no np.bool_
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.nan
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (math.isfinite(number) and above and below):
        upper = "" if high == math.inf else f" and {'below' if open_high else 'at most'} {high:g}"
        floor = f"above {low:g}" if open_low else f"at least {low:g}"
        raise InputError(f"{name} is {format_value(value)}: it must be a number {floor}{upper}")
    return number + 0.0  # -0.0 becomes 0.0, so that equal settings have equal identities


def check_bool(name: str, value) -> bool:
    """Return the value as a bool, or raise an `InputError`."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {format_value(value)}: it must be True or False")
    return bool(value)
