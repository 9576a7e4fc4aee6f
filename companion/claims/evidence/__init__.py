"""What decides a claim: one function per claim, `decide(claim) -> Evidence`, one module per part.

`book/claims.yml` names the function of each claim as `module.function`; `ledger` calls it. A verdict
is the outcome of a computation here and stands nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

THEORY = ("holds", "holds-if", "fails")
EXPERIMENT = ("agrees", "differs", "undecided", "no-data", "pending")
VERDICTS = THEORY + EXPERIMENT


@dataclass(frozen=True)
class Claim:
    """A row of `book/claims.yml`. Rows that state one fact share `fact`; `core`: one of about fifteen."""

    id: str
    paper: str
    place: str
    kind: str
    statement: str
    printed: Any
    decides: str
    link: str
    tolerance: float | None = None
    fact: str | None = None
    core: bool = False


@dataclass(frozen=True)
class Evidence:
    """What was computed for a claim.

    `verdict` is that of the reading that decides; `coded` the one that the authors' code would have
    got, where runs of it are recorded; `substitute` that on what was tried where the verdict is `no-data`,
    and `tried_on` its data, if it could be one of several.
    `ours` is a number or a short text, `low`..`high` its interval where it has one; `note` is the
    condition of `holds-if`, the corrected statement of `fails`, or the reason of `undecided`, `no-data`
    and `pending`; `table` is small enough to be checked by hand.
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


def theory(printed: bool, condition: bool = False) -> str:
    """The word for a statement: does it hold as printed, or at least under the condition of the note?"""
    return "holds" if printed else "holds-if" if condition else "fails"
