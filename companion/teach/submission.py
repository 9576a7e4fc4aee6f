"""Execute a student's notebook in this process, and write what it answers to a pipe: the untrusted half of `grading`.

`python -m companion.teach.submission JOB` is started by `grading` with limits of time, memory and file size. JOB is a
JSON file: the code cells, and the exercises with the check that follows each answer cell. A line of JSON is written to
the file descriptor of the job whenever a cell begins or an exercise is answered. The process that reads them judges:
nothing that the student's program does here can make a wrong answer right.
"""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

MAX_TEXT = 500  # characters of an error or a value that are kept
MAX_DEPTH = 6
ROUNDS = 10_000  # t = 0, 1, ... for which an example that is a function of t is called


def encode(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON: numbers, text, truth values, lists; fractions, tuples and all else as one-key objects."""
    import numpy as np

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value if not isinstance(value, str) else value[: 10 * MAX_TEXT]
    if isinstance(value, float):
        return {"float": repr(value)}  # nan and inf are no JSON
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if value is ...:
        return {"ellipsis": True}
    if hasattr(value, "tolist"):  # an array or a tensor
        return {"array": encode(value.tolist(), depth + 1)}
    if isinstance(value, (list, tuple, set, frozenset, range)) and depth < MAX_DEPTH:
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode(part, depth + 1) for part in list(value)[:10_000]]}
    if isinstance(value, dict) and depth < MAX_DEPTH:
        return {"dict": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    return {"other": type(value).__name__}


def decode(value: Any) -> Any:
    """Return the value that `encode` wrote; what was of another type becomes an `Unreadable`."""
    import numpy as np

    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "float":
            return float(content)
        case "fraction":
            return Fraction(*content)
        case "ellipsis":
            return ...
        case "array":
            return np.asarray(decode(content))
        case "tuple":
            return tuple(map(decode, content))
        case "list":
            return list(map(decode, content))
        case "dict":
            return {decode(k): decode(v) for k, v in content}
    return Unreadable(str(content))


class Unreadable:
    """An answer that is no number, text, list or function."""

    def __init__(self, kind: str):
        self.kind = kind


def describe(error: BaseException) -> str:
    """Return an error in a line."""
    return f"{type(error).__name__}: {error}"[:MAX_TEXT]


class Recorder:
    """Writes cells and answers to the pipe.

    Args:
        pipe: the file descriptor.
        seed: of the hidden inputs.

    Attributes:
        evaluated: answers that were evaluated since code of the student's ran last, by exercise. The check that follows
            an answer cell asks for the same answer once more; it is not evaluated again.
    """

    def __init__(self, pipe: int, seed: int):
        self.pipe, self.seed = pipe, seed
        self.evaluated: dict[str, Any] = {}

    def write(self, **record: Any) -> None:
        """Write a record."""
        os.write(self.pipe, (json.dumps(record) + "\n").encode())

    def answer(self, name: str, mine: Any):
        """Take the place of `check.answer`: record an answer, and return what the student's own check says."""
        from companion.teach import check, hidden_inputs
        from fedstas.errors import InputError

        try:
            task = check.exercise(name)
        except InputError as error:
            return check.Result(False, str(error))
        key = check.RENAMED.get(name, name)
        if key in self.evaluated and self.evaluated[key] is mine:
            return check.Result(False, "Recorded.")
        if check.is_unanswered(mine, task):
            self.write(answer=key, state="unanswered")
        elif isinstance(task, check.Example) and callable(mine):
            self.write(answer=key, state="begun")
            self.write(
                answer=key, state="rounds", results=[call(mine, (t,)) for t in range(ROUNDS)]
            )
        elif isinstance(task, check.Example):
            self.write(answer=key, state="value", value=encode(mine))
        elif not callable(mine):
            self.write(
                answer=key, state="wrong", message=check.judge(name, mine).message[:MAX_TEXT]
            )
        else:
            self.write(answer=key, state="begun")
            inputs = [*task.inputs, *hidden_inputs.inputs(key, self.seed)]
            self.write(answer=key, state="results", results=[call(mine, a) for a in inputs])
        return check.Result(False, "Recorded.")


def call(function: Any, arguments: tuple) -> dict:
    """Return what a function returns for arguments, or the error that it raises."""
    import copy

    try:
        return {"value": encode(function(*copy.deepcopy(arguments)))}
    except Exception as error:
        return {"error": describe(error)}


def main(job_file: str) -> None:
    """Execute the cells of a job."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    recorder = Recorder(job["pipe"], job["seed"])
    import matplotlib

    matplotlib.use("Agg")
    from IPython.core.interactiveshell import InteractiveShell

    from companion.teach import check, hidden_inputs  # noqa: F401  (imported before time counts)

    check.answer = recorder.answer  # type: ignore[assignment]
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    for number, cell in enumerate(job["cells"], 1):
        recorder.write(cell=number)
        if not cell["only_checks"]:
            recorder.evaluated.clear()
        for _, variable in cell["checks"]:
            shell.user_ns.pop(variable, None)  # another answer may have the same name
        result = shell.run_cell(cell["source"], store_history=False)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            recorder.write(cell=number, error=describe(error))
        for name, variable in cell["checks"]:
            if variable in shell.user_ns:
                recorder.answer(name, shell.user_ns[variable])
                recorder.evaluated[check.RENAMED.get(name, name)] = shell.user_ns[variable]
            elif error is not None:
                recorder.write(answer=name, state="failed", message=describe(error))
        for name in cell["asks"] if error is not None else ():
            recorder.write(answer=name, state="failed", message=describe(error))
    recorder.write(end=True)


if __name__ == "__main__":
    main(sys.argv[1])
