"""Exercises that check themselves: `check.answer("sizes/truth", mine)` says which input breaks an answer.

An exercise asks for a function, which must agree with the solution on all its inputs, or for an example,
which must have a property. They stand in `companion.teach.exercises`, beside the typical mistakes.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from companion.teach import exercises
from fedstas.errors import InputError


@dataclass(frozen=True)
class Function:
    """Write a function. `inputs` are tuples of arguments, the simplest first; `mistakes` maps what to
    say to the wrong function that it is said of; numbers may differ by `tolerance`, relative to 1."""

    level: int
    solution: Callable
    inputs: tuple[tuple, ...]
    mistakes: dict[str, Callable] = field(default_factory=dict, hash=False)
    tolerance: float = 1e-9


@dataclass(frozen=True)
class Example:
    """Find an example. `fault(example)` says what is wrong with it, or nothing; `mistakes` are
    examples that are typically offered and are wrong."""

    level: int
    solution: Any
    fault: Callable[[Any], str]
    mistakes: tuple = ()


Exercise = Function | Example


@dataclass(frozen=True)
class Result:
    """Whether an answer is right (its truth value), and what to say of it (how it prints)."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


def names() -> list[str]:
    """All exercises, as `part/name`."""
    parts = sorted(m.name for m in pkgutil.iter_modules(exercises.__path__))
    return [f"{part}/{name}" for part in parts for name in _part(part)]


def _part(part: str) -> dict:
    return importlib.import_module(f"companion.teach.exercises.{part}").EXERCISES


def exercise(name: str) -> Function | Example:
    """An exercise by its name; `InputError` for one that does not exist."""
    if name not in names():
        near = difflib.get_close_matches(str(name), names(), 3) or ["check.names() for all of them"]
        raise InputError(f"unknown exercise {name!r}: try {' or '.join(near)}")
    part, _, key = name.partition("/")
    return _part(part)[key]


def answer(name: str, mine: Any) -> Result:
    """Check an answer: a function, or the example that was asked for."""
    asked = exercise(name)
    if _empty(mine, asked):
        return Result(False, f"Nothing answered yet: replace the ... by {_form(asked)}.")
    if isinstance(asked, Example):
        try:
            said = asked.fault(mine)
        except Exception as error:
            said = f"it could not be read as {_form(asked)}: {type(error).__name__}, {error}."
        return Result(not said, f"Not yet: {said}" if said else "Right.")
    if not callable(mine):
        return Result(False, f"Not yet: the answer must be a function, not {type(mine).__name__}.")
    broken = _first_difference(mine, asked)
    if broken is None:
        return Result(True, f"Right: it agrees with the solution on {len(asked.inputs)} inputs.")
    for said, wrong in asked.mistakes.items():
        if _same_function(mine, wrong, asked):
            return Result(False, f"Not yet: {broken} {said}")
    return Result(False, f"Not yet: {broken}")


def _empty(mine: Any, asked: Function | Example) -> bool:
    """Whether an answer is still the `...` or the None that a student's notebook begins with."""
    if mine is None or mine is ...:
        return True
    if isinstance(mine, (list, tuple)):
        return any(part is None or part is ... for part in mine)
    if not callable(mine) or isinstance(asked, Example):
        return False
    try:
        found = [mine(*arguments) for arguments in asked.inputs[:3]]
        return all(each is None or each is ... for each in found)
    except Exception:
        return False


def _form(asked: Function | Example) -> str:
    """What kind of answer is expected, without giving one."""
    if isinstance(asked, Function):
        return f"{_kind(asked.solution)} that returns {_kind(asked.solution(*asked.inputs[0]))}"
    return _kind(asked.solution)


def _kind(value: Any) -> str:
    if callable(value):
        return f"a function of ({', '.join(inspect.signature(value).parameters)})"
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, str):
        return "text in quotes"
    if isinstance(value, dict):
        return "a dictionary"
    if isinstance(value, tuple) and len({_kind(v) for v in value}) > 1:
        return f"({', '.join(map(_kind, value))})"
    if isinstance(value, (list, tuple, np.ndarray)):
        kinds = {_kind(v) for v in value}
        plural = {"a number": "numbers", "a list of numbers": "lists of numbers"}
        inside = plural.get(kinds.pop(), "values") if len(kinds) == 1 else "values"
        if isinstance(value, tuple):  # of a fixed length, unlike a list
            return f"a tuple of {len(value)} {inside}"
        return f"a list of {inside}"
    return "a number"


def _first_difference(mine: Callable, asked: Function) -> str | None:
    for arguments in asked.inputs:
        given = ", ".join(_show(a) for a in arguments)
        expected = asked.solution(*arguments)
        try:
            found = mine(*arguments)
        except Exception as error:
            return f"for ({given}) it raises {type(error).__name__}: {error}."
        if not _equal(found, expected, asked.tolerance):
            return f"for ({given}) it gives {_show(found)}, not {_show(expected)}."
    return None


def _same_function(mine: Callable, wrong: Callable, asked: Function) -> bool:
    try:
        return all(_equal(mine(*a), wrong(*a), asked.tolerance) for a in asked.inputs)
    except Exception:
        return False


def _equal(found: Any, expected: Any, tolerance: float) -> bool:
    """Equal numbers, or equal shapes of them; text, truth values and None exactly."""
    if expected is None or isinstance(expected, (str, bool)):
        return found is expected or (type(found) is type(expected) and found == expected)
    try:
        a, b = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    except (TypeError, ValueError):
        return False
    if a.shape != b.shape:
        return False
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def _show(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_show(v) for v in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return str(value)
