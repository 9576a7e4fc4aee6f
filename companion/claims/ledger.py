"""The ledger: every claim of the four papers with the verdict that its computation gives, as a table and as text.

The claims stand in `companion.claims.evidence`, each above the function that decides it (see
`companion.claims.registry`). No verdict is stored: it is computed when it is asked for.
"""

from __future__ import annotations

import difflib
import json
import math
import sys
import textwrap
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate
from tqdm import tqdm

from companion.claims.registry import (
    KINDS,
    NEEDS_NOTE,
    PAPERS,
    VERDICTS,
    Claim,
    Evidence,
    all_claims,
)
from fedstas.errors import InputError

COLUMNS = [
    *("id", "paper", "place", "kind", "statement", "printed", "ours", "low", "high", "verdict"),
    *("link", "note", "substitute", "fact", "core"),
]


# Former ids of claims, under which they were published.
RENAMED = {"journal-algorithm-3-seats": "journal-algorithm-3-empty-stratum"}


class Undecided(RuntimeError):
    """The evidence of a claim is missing or contradicts itself; the message names the claims."""


def decide(claim: Claim) -> Evidence:
    """Compute the evidence of a claim.

    Raises:
        Undecided: the function failed, or what it returned is not evidence for a claim of this kind.
    """

    def error(reason: str) -> Undecided:
        """Return the error that names the claim and where it is declared."""
        return Undecided(f"claim {claim.id} ({claim.source or 'not registered'}): {reason}")

    if claim.decide is None:
        raise error("no function decides it")
    try:
        evidence = claim.decide(claim)
    except Exception as cause:
        first_line = str(cause).partition("\n")[0]
        raise error(f"its function raised {type(cause).__name__}: {first_line}") from cause
    if not isinstance(evidence, Evidence):
        raise error(f"its function returned {type(evidence).__name__}, not Evidence")
    if evidence.verdict not in (allowed := KINDS[claim.kind]):
        raise error(
            f"the verdict {evidence.verdict!r} is not one of a {claim.kind} ({', '.join(allowed)})"
        )
    if evidence.substitute and evidence.verdict != "no-data":
        raise error(f"a substitute is given, but the verdict is {evidence.verdict!r}")
    if evidence.verdict in NEEDS_NOTE and not evidence.note:
        raise error(f"the verdict {evidence.verdict!r} needs a note that says why")
    return evidence


def find_claim(id: str) -> Claim:
    """Return the claim of that id, or former id; `InputError` suggests similar ids."""
    claims = {claim.id: claim for claim in all_claims()}
    id = RENAMED.get(id, id)
    if id not in claims:
        near = [k for k in claims if id and id in k][:3]
        near = near or difflib.get_close_matches(id, claims, 3, 0.4)
        hint = f"did you mean {', '.join(near)}" if near else "`fedstas claims` lists them"
        raise InputError(f"there is no claim {id!r}: {hint}")
    return claims[id]


def decide_by_id(id: str) -> tuple[Claim, Evidence]:
    """Return the claim of that id and its evidence, computed now."""
    claim = find_claim(id)
    return claim, decide(claim)


def decide_all(claims: Iterable[Claim], *, progress: bool = False) -> list[tuple[Claim, Evidence]]:
    """Compute the evidence of the claims; `Undecided` names all that have none.

    One after another: all take less time than a second process needs to start.
    """
    pairs, errors = [], []
    for claim in tqdm(list(claims), desc="claims", unit="claim", disable=not progress):
        try:
            pairs.append((claim, decide(claim)))
        except Undecided as error:
            errors.append(str(error))
    if errors:
        raise Undecided("; ".join(errors))
    return pairs


def claims(
    *, paper: str | None = None, kind: str | None = None, progress: bool = False
) -> pd.DataFrame:
    """Return all claims, or those of a paper or kind, decided now: one row each.

    Columns: id, paper, place, kind, statement, printed, ours, low, high, verdict, link (chapter and section),
    note, substitute (the verdict on the substitute that was run where there is no data; else missing), fact
    (the same text in rows that state one fact; else missing), core (bool).
    """
    for name, value, allowed in (("paper", paper, PAPERS), ("kind", kind, KINDS)):
        if value is not None and value not in allowed:
            raise InputError(f"unknown {name} {value!r}: use one of {', '.join(allowed)}")
    chosen = [c for c in all_claims() if paper in (None, c.paper) and kind in (None, c.kind)]
    return as_frame(decide_all(chosen, progress=progress))


def as_frame(pairs: Iterable[tuple[Claim, Evidence]]) -> pd.DataFrame:
    """Return claims and their evidence as the table of `claims`."""
    rows = [vars(claim) | vars(evidence) | {"link": claim.chapter} for claim, evidence in pairs]
    table = pd.DataFrame(rows, columns=COLUMNS)
    for name in ("printed", "ours"):
        table[name] = [as_plain_value(value) for value in table[name]]
    for name in ("substitute", "fact"):
        table[name] = table[name].replace("", None).astype(object)
    return table.astype({"low": float, "high": float, "core": bool})


def count_verdicts(verdicts: Iterable[str]) -> dict[str, int]:
    """Count how many claims have each verdict, in the order of `VERDICTS`, without the empty ones."""
    listed = list(verdicts)
    return {v: listed.count(v) for v in VERDICTS if v in listed}


def first_of_each_fact(pairs: Iterable[tuple[Claim, Evidence]]) -> list[tuple[Claim, Evidence]]:
    """Keep the first claim of every fact, so that one computation counts once."""
    first: dict[str, tuple[Claim, Evidence]] = {}
    for claim, evidence in pairs:
        first.setdefault(claim.fact or claim.id, (claim, evidence))
    return list(first.values())


def substitutes_table(ids: Iterable[str]) -> pd.DataFrame:
    """Tabulate claims of which some are tested on other data than the paper's.

    A row has the verdict and the data that it is on: the paper's, real data of the same kind, or a substitute.

    Columns: claim, ours, verdict.
    """
    rows = []
    for claim, evidence in map(decide_by_id, ids):
        verdict = evidence.substitute or evidence.verdict
        verdict = "not recorded yet" if verdict in ("no-data", "pending") else verdict
        is_decided = evidence.verdict not in ("no-data", "pending")
        where = evidence.tried_on or ("the paper's data" if is_decided else "")
        verdict += f", on {where}" if where else ""
        ours = f"{format_ours(evidence) or '–'} {meaning(claim, evidence)}".strip()
        rows.append((claim.statement, ours, verdict))
    return pd.DataFrame(rows, columns=["claim", "ours", "verdict"])


def format_listing(table: pd.DataFrame) -> str:
    """Format the table of `claims` as aligned text (id, place, printed, ours, verdict), and the counts."""
    widths = {"id": 44, "place": 24, "printed": 24, "ours": 30, "verdict": 8}
    lines = [list(widths)]
    for row in table.itertuples():
        ours = format_interval(row.ours, row.low, row.high)
        cells = (row.id, row.place, format_value(row.printed), ours, row.verdict)
        lines.append([_shorten(c, w) for c, w in zip(cells, widths.values(), strict=True)])
    used = [max(len(line[i]) for line in lines) for i in range(len(widths))]
    text = ["  ".join(c.ljust(w) for c, w in zip(line, used, strict=True)) for line in lines]
    counts = ", ".join(f"{k} {v}" for v, k in count_verdicts(table["verdict"]).items())
    return (
        "\n".join(line.rstrip() for line in text) + f"\n\n{len(table)} claims: {counts or 'none'}"
    )


def _shorten(text: str, width: int) -> str:
    """Put a text on one line and cut it to the width."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def format_claim(claim: Claim, evidence: Evidence) -> str:
    """Format one claim for the terminal: the statement, the printed value, ours, and the evidence."""
    parts = {
        "claim": f"{claim.id} ({PAPERS[claim.paper]}, {claim.place})",
        "statement": claim.statement,
        "printed": format_value(claim.printed),
        "ours": format_ours(evidence),
        "this is": meaning(claim, evidence),
        "verdict": evidence.verdict,
        "substitute": evidence.substitute,
        "one fact": claim.fact,
        "note": evidence.note,
    }
    text = "\n".join(f"{name:10} {_wrap(value)}" for name, value in parts.items() if value)
    if evidence.table is not None:
        table = evidence.table.map(format_value)
        text += "\n\n" + tabulate(table, headers="keys", showindex=False, disable_numparse=True)
    page, hash_, section = claim.chapter.partition("#")
    return text + f"\n\nin the book: _build/html/chapters/{page}.html{hash_}{section}"


def _wrap(text: str) -> str:
    """Wrap a text to lines of 88 characters, indented below the first word of its value."""
    return textwrap.fill(" ".join(text.split()), 88, subsequent_indent=" " * 11)


def meaning(claim: Claim, evidence: Evidence) -> str:
    """Return what our value is, or nothing where there is no value."""
    return claim.meaning if format_value(evidence.ours) else ""


def write_json(path: str | Path, progress: bool = True) -> None:
    """Decide all claims and write them as JSON for the book's pages."""
    entries = []
    for claim, evidence in decide_all(all_claims(), progress=progress):
        table = evidence.table
        cells = [] if table is None else [[format_value(v) for v in r] for r in table.to_numpy()]
        entries.append(
            {
                **{k: getattr(claim, k) for k in ("id", "paper", "place", "kind", "statement")},
                "link": claim.chapter,
                "printed": format_value(claim.printed),
                "ours": format_ours(evidence),
                "meaning": meaning(claim, evidence),
                "verdict": evidence.verdict,
                "coded": evidence.coded,
                "substitute": evidence.substitute,
                "fact": claim.fact,
                "core": claim.core,
                "slip": claim.slip,
                "note": evidence.note,
                "columns": [] if table is None else [str(c) for c in table.columns],
                "table": cells,
            }
        )
    text = json.dumps({"papers": PAPERS, "verdicts": VERDICTS, "claims": entries}, indent=1)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text + "\n", encoding="utf-8")


def as_plain_value(value: Any) -> int | float | str | None:
    """Return a value of the ledger as a number or a text: NumPy's scalars as Python's, fractions as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Fraction):
        return float(value)
    return str(value)


def format_value(value: Any) -> str:
    """Format a value: four digits, thousands separated, fractions and texts as they are, nothing as ''."""
    value = as_plain_value(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return value


def format_ours(evidence: Evidence) -> str:
    """Format our value, with its interval if it has one."""
    return format_interval(evidence.ours, evidence.low, evidence.high)


def format_interval(value: Any, low: Any = None, high: Any = None) -> str:
    """Format a value with its interval, both with two digits of the interval's width."""
    if not (format_value(low) and format_value(high)):
        return format_value(value)
    if isinstance(as_plain_value(value), str):
        return f"{value} ({format_value(low)} to {format_value(high)})"
    width = float(high) - float(low)
    places = max(0, 1 - math.floor(math.log10(width))) if width > 0 else 3
    return f"{float(value):z.{places}f} ({low:z.{places}f} to {high:z.{places}f})"


if __name__ == "__main__":
    try:
        write_json(*sys.argv[1:], progress=sys.stderr.isatty())
    except (InputError, Undecided) as error:
        sys.exit(f"The ledger was not written: {error}")
