"""The ledger: every claim of the four papers, and the computation that decides it.

`book/claims.yml` holds the claims, one row each; `companion.claims.evidence` holds what decides them. No
verdict stands anywhere: it is computed when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import json
import math
import sys
import textwrap
from collections.abc import Callable, Iterable
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from tabulate import tabulate
from tqdm import tqdm

from companion.claims.evidence import EXPERIMENT, THEORY, VERDICTS, Claim, Evidence
from companion.claims.values import SAYS
from fedstas.errors import InputError

CLAIMS = Path(__file__).resolve().parents[2] / "book" / "claims.yml"
PAPERS = {
    "preprint": "FedSTaS, preprint",
    "journal": "FedSTaS, journal version",
    "slides": "FedSampling, slides",
    "clustered": "Clustered Sampling",
}
# A theorem is decided; a table of runs is compared; a figure (a drawing or curves) and a sentence are either.
ALLOWED = {
    "theory": THEORY,
    "figure": VERDICTS,
    "table": EXPERIMENT,
    "number": VERDICTS,
    "superiority": VERDICTS,
}
NEEDS_NOTE = ("holds-if", "fails", "undecided", "no-data", "pending")
REQUIRED = ("id", "paper", "place", "kind", "statement", "printed", "decides", "link")
OPTIONAL = ("tolerance", "fact", "core")
COLUMNS = [*REQUIRED[:6], "ours", "low", "high", "verdict", "link", "note"]
COLUMNS += ["substitute", "fact", "core"]


class Undecided(RuntimeError):
    """The evidence of a claim is missing or contradicts itself; the message names the claims."""


def rows(path: str | Path = CLAIMS) -> list[Claim]:
    """The claims as they are listed, undecided; `InputError` names the row that is wrong."""
    try:
        listed = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(listed, list):
        raise InputError(f"{path} is not a list of claims")
    found: dict[str, Claim] = {}
    for number, row in enumerate(listed, 1):
        claim = _row(row, number)
        if claim.id in found:
            raise InputError(f"claim {claim.id}: there are two rows with this id")
        found[claim.id] = claim
    return list(found.values())


def _row(row: Any, number: int) -> Claim:
    """One row as a claim, every field checked."""
    name = f"claim {row['id']}" if isinstance(row, dict) and row.get("id") else f"row {number}"
    if not isinstance(row, dict):
        raise InputError(f"{name} of the claims is not a mapping")
    for key in row:
        if key not in REQUIRED + OPTIONAL:
            raise InputError(f"{name}: unknown field {key!r}, use {', '.join(REQUIRED + OPTIONAL)}")
    for key in REQUIRED:
        if row.get(key) in (None, ""):
            raise InputError(f"{name}: the field {key!r} is missing")
        if key != "printed" and not isinstance(row[key], str):
            raise InputError(f"{name}: the field {key!r} is {row[key]!r}, not a text")
    for key, allowed in (("paper", PAPERS), ("kind", ALLOWED)):
        if row[key] not in allowed:
            raise InputError(f"{name}: unknown {key} {row[key]!r}, use one of {', '.join(allowed)}")
    tolerance = row.get("tolerance")
    if tolerance is not None and (isinstance(tolerance, (bool, str)) or not tolerance >= 0):
        raise InputError(f"{name}: the tolerance is {tolerance!r}, not a number of at least 0")
    if not isinstance(row.get("fact", ""), str) or not isinstance(row.get("core", False), bool):
        raise InputError(f"{name}: `fact` is a text and `core` is true or false")
    return Claim(**row)


def function(claim: Claim) -> Callable[[Claim], Evidence]:
    """The function of `companion.claims.evidence` that decides a claim."""
    module, _, name = claim.decides.rpartition(".")
    full = f"companion.claims.evidence.{module}"
    try:
        found = getattr(importlib.import_module(full), name)
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, ImportError) and error.name != full:
            raise  # the module is there, what it imports is not
        found = None
    if not callable(found) or name.startswith("_"):
        raise InputError(
            f"claim {claim.id}: {claim.decides!r} is not a function of companion.claims.evidence"
        )
    return found


def compute(claim: Claim) -> Evidence:
    """The evidence of a claim, computed now; `Undecided` if there is none or its verdict cannot be."""
    decides = function(claim)
    try:
        evidence = decides(claim)
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else ""
        raised = f"{claim.decides} raised {type(error).__name__}: {said}"
        raise Undecided(f"claim {claim.id}: {raised}") from error
    if not isinstance(evidence, Evidence):
        raise Undecided(f"claim {claim.id}: {claim.decides} returned {type(evidence).__name__}")
    if evidence.verdict not in ALLOWED[claim.kind]:
        allowed = ", ".join(ALLOWED[claim.kind])
        raise Undecided(
            f"claim {claim.id}: the verdict {evidence.verdict!r} is not one of a {claim.kind} ({allowed})"
        )
    if evidence.substitute and evidence.verdict != "no-data":
        raise Undecided(f"claim {claim.id}: there is a substitute for what is {evidence.verdict!r}")
    if evidence.verdict in NEEDS_NOTE and not evidence.note:
        raise Undecided(f"claim {claim.id}: {evidence.verdict!r} needs a note that says why")
    return evidence


def decide(name: str, path: str | Path = CLAIMS) -> tuple[Claim, Evidence]:
    """The claim of that id and its evidence, computed now."""
    known = {claim.id: claim for claim in rows(path)}
    if name not in known:
        near = [k for k in known if name and name in k][:3]
        near = near or difflib.get_close_matches(name, known, 3, 0.4)
        hint = f"did you mean {', '.join(near)}" if near else "`fedstas claims` lists them"
        raise InputError(f"there is no claim {name!r}: {hint}")
    return known[name], compute(known[name])


def tried(names: Iterable[str]) -> pd.DataFrame:
    """What substitutes say of claims whose data cannot be had; their own verdict where the data are there."""
    rows = []
    for claim, evidence in map(decide, names):
        found = evidence.substitute or evidence.verdict
        found = "not recorded yet" if found in ("no-data", "pending") else found
        found += f", on {evidence.tried_on}" if evidence.tried_on else ""
        ours = show_ours(evidence.ours, evidence.low, evidence.high) or "–"
        rows.append((claim.statement, f"{ours} {what(claim, evidence)}".strip(), found))
    return pd.DataFrame(rows, columns=["claim", "ours", "on a substitute"])


def _try(claim: Claim) -> Evidence | str:
    try:
        return compute(claim)
    except (Undecided, InputError) as error:
        return str(error)


def decided(chosen: Iterable[Claim], *, progress: bool = False) -> list[tuple[Claim, Evidence]]:
    """The claims with their evidence; `Undecided` names all that have none.

    One after another: all take less time than a second process needs to start.
    """
    chosen = list(chosen)
    bar = tqdm(chosen, desc="claims", unit="claim", disable=not progress)
    found = [_try(claim) for claim in bar]
    failed = [text for text in found if isinstance(text, str)]
    if failed:
        raise Undecided("; ".join(failed))
    return list(zip(chosen, found, strict=True))


def claims(
    *,
    paper: str | None = None,
    kind: str | None = None,
    path: str | Path = CLAIMS,
    progress: bool = False,
) -> pd.DataFrame:
    """All claims, or those of a paper or kind, decided now: one row each.

    Columns: id, paper, place, kind, statement, printed, ours, low, high, verdict, link, note, substitute
    (the verdict on what was tried where there is no data; else missing), fact (the same text in rows that
    state one fact; else missing), core (bool).
    """
    for name, value, allowed in (("paper", paper, PAPERS), ("kind", kind, ALLOWED)):
        if value is not None and value not in allowed:
            raise InputError(f"unknown {name} {value!r}: use one of {', '.join(allowed)}")
    chosen = [c for c in rows(path) if paper in (None, c.paper) and kind in (None, c.kind)]
    return frame(decided(chosen, progress=progress))


def frame(pairs: Iterable[tuple[Claim, Evidence]]) -> pd.DataFrame:
    """Claims and evidence as the table of `claims`."""
    table = pd.DataFrame([vars(c) | vars(e) for c, e in pairs], columns=COLUMNS)
    for name in ("printed", "ours"):
        table[name] = [plain(value) for value in table[name]]
    for name in ("substitute", "fact"):
        table[name] = table[name].replace("", None).astype(object)
    return table.astype({"low": float, "high": float, "core": bool})


def counts(verdicts: Iterable[str]) -> dict[str, int]:
    """How many claims have each verdict, in the order of `VERDICTS`, without the empty ones."""
    listed = list(verdicts)
    return {v: listed.count(v) for v in VERDICTS if v in listed}


def facts(pairs: Iterable[tuple[Claim, Evidence]]) -> list[tuple[Claim, Evidence]]:
    """The first row of every fact: what one computation decides counts once."""
    first = {}
    for claim, evidence in pairs:
        first.setdefault(claim.fact or claim.id, (claim, evidence))
    return list(first.values())


def _short(text: str, width: int) -> str:
    """A text on one line, at most so wide."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def listing(table: pd.DataFrame) -> str:
    """The ledger as an aligned table (id, place, printed, ours, verdict), and the counts."""
    widths = {"id": 44, "place": 24, "printed": 24, "ours": 30, "verdict": 8}
    lines = [list(widths)]
    for row in table.itertuples():
        ours = show_ours(row.ours, row.low, row.high)
        cells = (row.id, row.place, show(row.printed), ours, row.verdict)
        lines.append([_short(c, w) for c, w in zip(cells, widths.values(), strict=True)])
    used = [max(len(line[i]) for line in lines) for i in range(len(widths))]
    text = ["  ".join(c.ljust(w) for c, w in zip(line, used, strict=True)) for line in lines]
    found = ", ".join(f"{k} {v}" for v, k in counts(table["verdict"]).items())
    return "\n".join(line.rstrip() for line in text) + f"\n\n{len(table)} claims: {found or 'none'}"


def explain(claim: Claim, evidence: Evidence) -> str:
    """One claim for a reader: what is said, what is printed, what we find, and the evidence."""
    parts = {
        "claim": f"{claim.id} ({PAPERS[claim.paper]}, {claim.place})",
        "statement": claim.statement,
        "printed": show(claim.printed),
        "ours": show_ours(evidence.ours, evidence.low, evidence.high),
        "this is": what(claim, evidence),
        "verdict": evidence.verdict,
        "substitute": evidence.substitute,
        "one fact": claim.fact,
        "note": evidence.note,
    }
    text = "\n".join(f"{name:10} {_wrapped(value)}" for name, value in parts.items() if value)
    if evidence.table is not None:
        table = evidence.table.map(show)
        text += "\n\n" + tabulate(table, headers="keys", showindex=False, disable_numparse=True)
    page, _, section = claim.link.partition("#")
    return (
        text
        + f"\n\nin the book: _build/html/chapters/{page}.html"
        + (f"#{section}" if section else "")
    )


def what(claim: Claim, evidence: Evidence) -> str:
    """What our value is, where there is one."""
    return SAYS.get(claim.decides, "") if show(evidence.ours) else ""


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 88, subsequent_indent=" " * 11)


def write(path: str | Path, source: str | Path = CLAIMS, progress: bool = True) -> None:
    """All claims, decided, as JSON for the book's pages."""
    entries = []
    for claim, evidence in decided(rows(source), progress=progress):
        table = evidence.table
        entries.append(
            {
                **{k: getattr(claim, k) for k in REQUIRED if k not in ("decides", "printed")},
                "printed": show(claim.printed),
                "ours": show_ours(evidence.ours, evidence.low, evidence.high),
                "what": what(claim, evidence),
                "verdict": evidence.verdict,
                "coded": evidence.coded,
                "substitute": evidence.substitute,
                "fact": claim.fact,
                "core": claim.core,
                "note": evidence.note,
                "columns": [] if table is None else [str(c) for c in table.columns],
                "table": [] if table is None else [[show(v) for v in r] for r in table.to_numpy()],
            }
        )
    text = json.dumps({"papers": PAPERS, "verdicts": VERDICTS, "claims": entries}, indent=1)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text + "\n")


def plain(value: Any) -> int | float | str | None:
    """A value of the ledger as a number or a text: fractions and what numpy made are turned."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Fraction):
        return float(value)
    return str(value)


def show(value: Any) -> str:
    """A value for a reader: four digits, thousands apart, fractions and texts as they are."""
    value = plain(value)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return value


def show_ours(ours: Any, low: Any = None, high: Any = None) -> str:
    """Our value, with its interval where it has one: both with two digits of the interval's width."""
    if not (show(low) and show(high)):
        return show(ours)
    if isinstance(plain(ours), str):
        return f"{ours} ({show(low)} to {show(high)})"
    width = float(high) - float(low)
    places = max(0, 1 - math.floor(math.log10(width))) if width > 0 else 3
    return f"{float(ours):z.{places}f} ({low:z.{places}f} to {high:z.{places}f})"


if __name__ == "__main__":
    try:
        write(*sys.argv[1:], progress=sys.stderr.isatty())
    except (InputError, Undecided) as error:
        sys.exit(f"The ledger was not written: {error}")
