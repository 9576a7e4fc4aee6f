"""The registry of claims: `@claim(...)` above the function that decides it makes a row of the ledger.

A function that decides a claim takes the `Claim` and returns `Evidence`; it stands in a module of
`companion.claims.evidence`. A verdict is what such a function computes; none is written down.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from companion.runs import statistics
from fedstas.errors import InputError

# The verdicts, and what each says. Statements are decided by calculation, results of training by runs.
THEORY = {
    "holds": "true as printed",
    "holds-if": "true under a condition",
    "fails": "false",
}
EXPERIMENT = {
    statistics.AGREES: "our runs show it",
    statistics.DIFFERS: "our runs show that it is not so",
    statistics.UNDECIDED: "our runs cannot tell",
    "no-data": "no runs on its data, or on real data of their kind, are recorded",
    "pending": "too few runs are recorded yet",
}
VERDICTS = THEORY | EXPERIMENT
NEEDS_NOTE = ("holds-if", "fails", "undecided", "no-data", "pending")
PAPERS = {
    "preprint": "FedSTaS, preprint",
    "journal": "FedSTaS, journal version",
    "slides": "FedSampling, slides",
    "clustered": "Clustered Sampling",
}
# The verdicts that a claim of each kind can get: a figure (a drawing or curves) and a sentence are decided
# either way.
KINDS = {
    "theory": THEORY,
    "figure": VERDICTS,
    "table": EXPERIMENT,
    "number": VERDICTS,
    "superiority": VERDICTS,
}
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Evidence:
    """What was computed for a claim.

    Args:
        verdict: one of `VERDICTS`, by the reading that decides.
        ours: our value, a number or a short text.
        low, high: the interval of our value, if it has one.
        note: the condition of `holds-if`, the corrected statement of `fails`, or the reason of `undecided`,
            `no-data` and `pending`.
        table: the computation, small enough to be checked by hand.
        coded: the verdict under the authors' code, where runs of it are recorded.
        substitute: the verdict on the substitute that was run, where `verdict` is `no-data`.
        tried_on: the data set that stands in for the paper's, if it could be one of several: a substitute, or with a
            verdict of its own real data of the same kind.
    """

    verdict: str
    ours: Any = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    table: pd.DataFrame | None = None
    coded: str = ""
    substitute: str = ""
    tried_on: str = ""


Decision = Callable[["Claim"], Evidence]


@dataclass(frozen=True)
class Claim:
    """One statement of a paper: a row of the ledger.

    Args:
        id: its name in the ledger; it begins with the paper's.
        paper: one of `PAPERS`.
        place: where it stands in the paper.
        kind: one of `KINDS`.
        statement: the statement, in a sentence.
        printed: the value or the words that the paper prints.
        chapter: the stem of the chapter that shows it, `#` and the section's anchor.
        meaning: what the value of ours is; it reads on from the value: "points that FedSTaS is above FedSTS".
        tolerance: how far our value may be from the printed one, in its unit.
        fact: a name that all claims share which state the same fact.
        core: whether it is one of the about fifteen core claims.
        slip: whether it is a slip of the pen: a misprinted sign or index, which the text beside it contradicts.
        order: its place among the rows of its paper, by default the last.
        decide: the function that decides it.
        source: file and line of its declaration.
    """

    id: str
    paper: str
    place: str
    kind: str
    statement: str
    printed: Any
    chapter: str
    meaning: str = ""
    tolerance: float | None = None
    fact: str | None = None
    core: bool = False
    slip: bool = False
    order: float = float("inf")
    decide: Decision | None = field(default=None, repr=False, compare=False)
    source: str = field(default="", repr=False, compare=False)

    def __post_init__(self):
        for name in ("id", "place", "statement", "chapter"):
            if not isinstance(value := getattr(self, name), str):
                raise InputError(f"the field {name!r} is {value!r}, not a text")
        for name in ("id", "place", "statement", "printed", "chapter"):
            if getattr(self, name) in (None, ""):
                raise InputError(f"the field {name!r} is empty")
        for name, value, allowed in (("paper", self.paper, PAPERS), ("kind", self.kind, KINDS)):
            if value not in allowed:
                raise InputError(f"unknown {name} {value!r}, use one of {', '.join(allowed)}")
        tolerance = self.tolerance
        if tolerance is not None and (isinstance(tolerance, (bool, str)) or not tolerance >= 0):
            raise InputError(f"the tolerance is {tolerance!r}, not a number of at least 0")
        if not isinstance(self.fact, (str, type(None))) or not isinstance(self.core, bool):
            raise InputError("`fact` is a text and `core` is True or False")
        if not isinstance(self.slip, bool):
            raise InputError(f"`slip` is {self.slip!r}, not True or False")


ARGUMENTS = [each.name for each in fields(Claim) if each.name not in ("decide", "source")]
REQUIRED = ARGUMENTS[:7]
_claims: dict[str, Claim] = {}
_without_function: dict[str, str] = {}  # id and source of claims that no function follows (yet)


def claim(id: str, **arguments: Any) -> Callable[[Decision], Decision]:
    """Register a claim that the decorated function decides; it is returned unchanged.

    Several claims that one function decides are several decorators. The arguments are the fields of `Claim`,
    all but `decide` and `source`.

    Raises:
        InputError: a field is unknown, missing or wrong, or the id is taken; it names the claim, its file and line.
    """
    frame = sys._getframe(1)
    source = f"{_relative(frame.f_code.co_filename)}:{frame.f_lineno}"
    if (unknown := next((name for name in arguments if name not in ARGUMENTS), None)) is not None:
        raise _error(id, source, f"unknown field {unknown!r}, use {', '.join(ARGUMENTS)}")
    if missing := [name for name in REQUIRED[1:] if name not in arguments]:
        raise _error(id, source, f"the field {missing[0]!r} is missing")
    taken = _claims[id].source if id in _claims else _without_function.get(id)
    if taken is not None:
        raise _error(id, source, f"there is another claim of this id, at {taken}")
    _without_function[id] = source

    def register(function: Decision) -> Decision:
        """Register the claim with the function that decides it."""
        if not callable(function):
            raise _error(id, source, f"what decides it is {function!r}, not a function")
        try:
            _claims[id] = Claim(id, **arguments, decide=function, source=source)
        except InputError as error:
            raise _error(id, source, str(error)) from None
        _without_function.pop(id)
        return function

    return register


def _error(id: str, source: str, reason: str) -> InputError:
    """Return the error that names the claim and where it is declared."""
    return InputError(f"claim {id} ({source}): {reason}")


def _relative(path: str) -> str:
    """Return the path below the repository, or the whole path of a file elsewhere."""
    here = Path(path)
    return str(here.relative_to(ROOT)) if here.is_relative_to(ROOT) else str(here)


def load_evidence() -> None:
    """Import every module of `companion.claims.evidence`, which registers its claims."""
    from companion.claims import evidence

    for module in pkgutil.iter_modules(evidence.__path__):
        importlib.import_module(f"{evidence.__name__}.{module.name}")


def all_claims() -> list[Claim]:
    """Return every claim in the order of the ledger: by paper, then by `order`.

    Raises:
        InputError: no function decides a claim.
    """
    load_evidence()
    for id, source in _without_function.items():
        raise _error(id, source, "no function decides it: put `@claim(...)` above one")
    papers = list(PAPERS)
    return sorted(_claims.values(), key=lambda each: (papers.index(each.paper), each.order))


def judge_theory(printed: bool, condition: bool = False) -> str:
    """Return the verdict of a statement: whether it holds as printed, or else under the condition of the note."""
    return "holds" if printed else "holds-if" if condition else "fails"
