"""How much of the four papers is done: the rows of *Where is what* and of the ledger, counted by paper and state.

A row that states nothing of runs is done if it is on the page, because the page's tests check its section, function and
tests. What depends on runs is computed from the records: a figure's state follows from the verdicts on its claims, and
a row that names sweeps follows from which of their runs are in `results/`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as parquet

from companion.claims.evidence.clustered_losses import CIFAR, CIFAR_SHORT, REDUCED
from companion.runs import experiments

ROOT = Path(__file__).resolve().parents[2]
STATES = ("done", "shorter", "substitute", "partly", "not")
# Sweeps of which another one repeats, on the same data, all that the paper's figures show, with less training.
SHORTER_SWEEPS = {CIFAR.sweep: CIFAR_SHORT.sweep}
# The sections of the page with a row for each item, and the paper in the ledger whose figures they list.
PAPERS = {
    "FedSTaS, journal version": "journal",
    "FedSTaS, preprint": "preprint",
    "FedSTaS: sections, data and studies": "",
    "FedSampling, slides": "slides",
    "Clustered Sampling": "clustered",
    "Clustered Sampling: sections and experiments": "",
}
WORDS = {"as": "substitute", "substitutes": "substitute", "absent": "not"}  # of the page


@dataclass(frozen=True)
class Item:
    """A row: its section, what it is, its state (one of `STATES`), and why it is not done (empty if it is)."""

    section: str
    name: str
    state: str
    reason: str = ""


def recorded_state(sweep: str) -> str:
    """Return the page's word for a sweep of which all, some or none of the runs are recorded."""
    path = ROOT / "results" / sweep / "runs.parquet"
    runs = parquet.read_metadata(path).num_rows if path.is_file() else 0
    if not runs:
        return "declared"
    return "recorded" if runs >= len(experiments.runs(sweep, "paper")) else "recorded in part"


def state_of_figure(claims: list[dict]) -> tuple[str, str]:
    """Return the state of a figure or table and its reason, from the entries of its claims in the ledger."""
    missing = [claim for claim in claims if claim["verdict"] in ("no-data", "pending")]
    if not missing:
        shorter = sum(claim["note"].startswith(REDUCED) for claim in claims)
        if not shorter:
            return "done", ""
        return "shorter", f"{shorter} of its {len(claims)} claims are decided by shorter runs"
    tried = sum(bool(claim["substitute"]) for claim in missing)
    reason = f"runs on the paper's data are missing for {len(missing)} of its {len(claims)} claims"
    reason += f"; a substitute decides {tried} of these"
    if tried < len(missing) or len(missing) < len(claims):
        return ("not" if tried == 0 and len(missing) == len(claims) else "partly"), reason
    return "substitute", reason


def state_of_sweeps(cell: str) -> tuple[str, str]:
    """Return the state of a row that names sweeps, and its reason, from what is recorded of them.

    Where one sweep has no run and another has, the latter stands in for the former; if the latter is that sweep at a
    shorter length, no other one matters. What stands in brackets at the end of the cell says why runs are missing, and is
    the reason then.
    """
    why = re.search(r"\((.+)\)$", cell)
    sweeps = re.findall("`([^`]+)`", cell)
    by_word: dict[str, list[str]] = {"recorded": [], "recorded in part": [], "declared": []}
    for sweep in sweeps:
        by_word[recorded_state(sweep)].append(f"`{sweep}`")
    whole, partial, missing = by_word.values()
    if not partial and not missing:
        return "done", ""
    in_full = {f"`{sweep}`": f"`{shorter}`" for sweep, shorter in SHORTER_SWEEPS.items()}
    if missing and all(in_full.get(sweep) in whole for sweep in missing):
        shorter = [in_full[sweep] for sweep in missing]
        return (
            "shorter",
            f"{', '.join(missing)} is recorded with less training: {', '.join(shorter)}",
        )
    reason = [f"no run of {', '.join(missing)} is recorded"] if missing else []
    are = "is" if len(partial) == 1 else "are"
    reason += [f"{', '.join(partial)} {are} recorded in part"] if partial else []
    reason += [f"in its place {', '.join(whole)}"] if missing and whole else []
    state = "partly" if not missing else "substitute" if whole or partial else "not"
    return state, why[1] if why else "; ".join(reason)


def read_items(page: str, claims: list[dict]) -> list[Item]:
    """Return every item of the page.

    Args:
        page: the source of `book/where_is_what.md`.
        claims: the entries of the ledger, as `ledger.write_json` writes them.
    """
    items, section, state_column = [], "", None
    for line in page.split("\n"):
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("| ") or section not in PAPERS:
            continue
        cells = [cell.strip() for cell in line[2:].removesuffix("|").split(" | ")]
        if cells[0] in ("Printed", "What the papers have"):
            state_column = cells.index("State") if "State" in cells else None
        elif cells[0] != "---":
            items.append(
                Item(section, cells[0], *_state_of_row(section, cells, state_column, claims))
            )
    return items


def _state_of_row(section, cells, state_column, claims) -> tuple[str, str]:
    """Return the state of a row and its reason."""
    if state_column is None:
        if not cells[0].startswith("Fig. "):
            return "done", ""
        # A figure without claims of its own that shows another one's runs has the state of that one.
        for figure in (cells[0], *re.findall(r"Fig\. \d+", cells[1])):
            own = re.compile(rf"{re.escape(figure)}(?!\d)")
            if of := [c for c in claims if c["paper"] == PAPERS[section] and own.match(c["place"])]:
                return state_of_figure(of)
        return "done", ""
    cell = cells[state_column]
    if "experiments" in section:
        return state_of_sweeps(cell)
    word, _, rest = cell.partition(" ")
    word = word.rstrip(",;:")
    state = WORDS.get(word, word)
    if state == "done":
        return state, ""
    return state, cells[3] if "sections" in section else rest or cell


def read_claims(claims: list[dict]) -> list[Item]:
    """Return every claim of the ledger as an item: done if it has a verdict on the paper's own data."""
    items = []
    for claim in claims:
        state, reason = state_of_figure([claim])
        reason = claim["note"] if reason else ""
        items.append(Item(claim["paper"], claim["id"], state, reason))
    return items


def count_states(items: list[Item]) -> dict[str, Counter]:
    """Count the items by section and state."""
    counts: dict[str, Counter] = {}
    for item in items:
        counts.setdefault(item.section, Counter())[item.state] += 1
    return counts
