"""Check answers to exercises: `check.answer("sizes/truth", mine)` names an input that breaks a wrong one.

An exercise asks for a function, which must agree with the solution on all inputs, or for an example, which
must have a property. Each module of `companion.teach.exercises` declares those of one part of the book in its
`EXERCISES`, beside their solutions and common mistakes.
"""

from __future__ import annotations

import difflib
import dis
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from companion.teach import exercises
from fedstas.errors import InputError


@dataclass(frozen=True)
class Function:
    """An exercise that asks for a function.

    Args:
        level: 1 (easy) to 3.
        solution: the function that an answer must agree with.
        inputs: tuples of arguments on which they are compared, the simplest first.
        mistakes: common wrong functions, by the hint that is given for each.
        tolerance: by how much numbers may differ, relative to 1.
    """

    level: int
    solution: Callable
    inputs: tuple[tuple, ...]
    mistakes: dict[str, Callable] = field(default_factory=dict, hash=False)
    tolerance: float = 1e-9


@dataclass(frozen=True)
class Example:
    """An exercise that asks for an example with a property.

    Args:
        level: 1 (easy) to 3.
        solution: an example that has the property.
        fault: says what is wrong with an example; "" for one that has the property. It may raise
            InputError instead.
        mistakes: wrong examples that are typically offered.
    """

    level: int
    solution: Any
    fault: Callable[[Any], str]
    mistakes: tuple = ()


Exercise = Function | Example


@dataclass(frozen=True)
class Result:
    """Whether an answer is right (its truth value), and the message about it (how it prints)."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


UNANSWERED = "Nothing answered yet"
# What a function does whose body is `...`, `pass` or `return None`.
EMPTY_BODY = {"RESUME", "NOP", "LOAD_CONST", "POP_TOP", "RETURN_VALUE", "RETURN_CONST", "CACHE"}
# Names in notebooks that students have.
RENAMED = {"variance/best-seats": "variance/best-allocation"}


def names() -> list[str]:
    """List all exercises, as `part/name`."""
    parts = sorted(m.name for m in pkgutil.iter_modules(exercises.__path__))
    return [f"{part}/{name}" for part in parts for name in _exercises_of(part)]


def _exercises_of(part: str) -> dict[str, Exercise]:
    """Return the exercises of a part of the book by name."""
    return importlib.import_module(f"companion.teach.exercises.{part}").EXERCISES


def exercise(name: str) -> Exercise:
    """Return an exercise by its name, `part/name`, or a former one; raise InputError for an unknown one."""
    name = RENAMED.get(name, name)
    if name not in names():
        similar = difflib.get_close_matches(str(name), names(), 3)
        similar = similar or ["check.names() for all of them"]
        raise InputError(f"unknown exercise {name!r}: try {' or '.join(similar)}")
    part, _, key = name.partition("/")
    return _exercises_of(part)[key]


def answer(name: str, mine: Any) -> Result:
    """Check an answer to an exercise.

    Args:
        name: the exercise, as `part/name`.
        mine: the function or the example that it asks for.
    """
    result = judge(name, mine)
    if not result and os.environ.get("NBGRADER_EXECUTION"):
        raise AssertionError(result.message)  # nbgrader gives points to a cell that raises nothing
    return result


def judge(name: str, mine: Any) -> Result:
    """Return whether an answer is right, with the message about it."""
    task = exercise(name)
    if is_unanswered(mine, task):
        form = _describe_form(task)
        return Result(False, f"{UNANSWERED}: replace the ... by {form}.")
    message = (
        check_example(mine, task) if isinstance(task, Example) else _check_function(mine, task)
    )
    if message:
        return Result(False, f"Not yet: {message}")
    agreement = (
        f": it agrees with the solution on {len(task.inputs)} inputs."
        if isinstance(task, Function)
        else "."
    )
    return Result(True, f"Right{agreement}")


def check_example(mine: Any, task: Example) -> str:
    """Return what is wrong with an example; "" if nothing is."""
    try:
        return task.fault(mine)
    except InputError as error:
        return f"{error}."
    except Exception as error:
        form = _describe_form(task)
        return f"it could not be read as {form}: {type(error).__name__}, {error}."


def _check_function(mine: Any, task: Function) -> str:
    """Return an input on which a function is wrong, with the hint for a common mistake; "" if there is none."""
    if not callable(mine):
        return f"the answer must be a function, not {type(mine).__name__}."
    if returns_nothing(mine, task):
        result = _describe_kind(task.solution(*task.inputs[0]))
        return f"the function returns nothing (None): it must end with `return`, and {result}."
    difference = first_difference(mine, task)
    for hint, wrong in task.mistakes.items():
        if difference and _agree(mine, wrong, task):
            return f"{difference} {hint}"
    return difference


def returns_nothing(mine: Callable, task: Function) -> bool:
    """Return whether a function returns None on the first inputs, where the solution does not."""
    try:
        results = [mine(*arguments) for arguments in task.inputs[:3]]
    except Exception:
        return False
    return all(result is None for result in results) and task.solution(*task.inputs[0]) is not None


def is_unanswered(mine: Any, task: Exercise) -> bool:
    """Return whether an answer is still the `...` or None that a student's notebook begins with."""
    if mine is None or mine is ...:
        return True
    if isinstance(mine, (list, tuple)):
        return any(part is None or part is ... for part in mine)
    if not callable(mine):
        return False
    code = getattr(mine, "__code__", None)
    if code is None:  # a builtin, or an object with __call__
        return False
    does_nothing = {i.opname for i in dis.get_instructions(code)} <= EMPTY_BODY
    return does_nothing and set(code.co_consts) <= {None, ..., mine.__doc__}


def _describe_form(task: Exercise) -> str:
    """Return what kind of answer an exercise expects, without giving one."""
    if isinstance(task, Function):
        result = _describe_kind(task.solution(*task.inputs[0]))
        return f"{_describe_kind(task.solution)} that returns {result}"
    return _describe_kind(task.solution)


def _describe_kind(value: Any) -> str:
    """Return the kind of a value in words: `a number`, `a list of numbers`, `a function of (x)`."""
    if callable(value):
        return f"a function of ({', '.join(inspect.signature(value).parameters)})"
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, str):
        return "text in quotes"
    if isinstance(value, dict):
        return "a dictionary"
    if not isinstance(value, (list, tuple, np.ndarray)):
        return "a number"
    kinds = {_describe_kind(v) for v in value}
    if isinstance(value, tuple) and len(kinds) > 1:
        return f"({', '.join(map(_describe_kind, value))})"
    plural = {"a number": "numbers", "a list of numbers": "lists of numbers"}
    members = plural.get(kinds.pop(), "values") if len(kinds) == 1 else "values"
    # A tuple has a fixed length, unlike a list.
    return (
        f"a tuple of {len(value)} {members}" if isinstance(value, tuple) else f"a list of {members}"
    )


def first_difference(mine: Callable, task: Function, inputs: Sequence[tuple] = ()) -> str:
    """Return the first input on which an answer differs from the solution, in a sentence; "" if there is none.

    Args:
        inputs: tuples of arguments; those of the exercise by default.
    """
    for arguments in inputs or task.inputs:
        formatted = ", ".join(_format(argument) for argument in arguments)
        expected = task.solution(*arguments)
        try:
            result = mine(*arguments)
        except Exception as error:
            return f"for ({formatted}) it raises {type(error).__name__}: {error}."
        if not _equal(result, expected, task.tolerance):
            return f"for ({formatted}) it gives {_format(result)}, not {_format(expected)}."
    return ""


def _agree(mine: Callable, other: Callable, task: Function) -> bool:
    """Return whether two functions agree on all inputs of an exercise."""
    try:
        return all(_equal(mine(*a), other(*a), task.tolerance) for a in task.inputs)
    except Exception:
        return False


def _equal(result: Any, expected: Any, tolerance: float) -> bool:
    """Return whether numbers or equally shaped arrays are equal within a tolerance; text, truth values and None, exactly."""
    if expected is None or isinstance(expected, (str, bool)):
        return result is expected or (type(result) is type(expected) and result == expected)
    try:
        a, b = np.asarray(result, dtype=float), np.asarray(expected, dtype=float)
    except (TypeError, ValueError):
        return False
    if a.shape != b.shape:
        return False
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def _format(value: Any) -> str:
    """Return a value as Python shows it, with six digits of a number and without NumPy's types."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        members = ", ".join(_format(v) for v in value)
        if isinstance(value, list):
            return f"[{members}]"
        return f"({members},)" if len(value) == 1 else f"({members})"
    return str(value)
