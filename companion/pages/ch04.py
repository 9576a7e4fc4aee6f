"""The tables of chapter 4's opening, *Theory, executed*."""

from __future__ import annotations

import re

import pandas as pd

from companion.claims import ledger


def _escape_markdown(text: str) -> str:
    """Escape what Markdown would read as markup; leave a text with formulas as it is."""
    return text if "$" in text else re.sub(r"([*_`|<\[\]])", r"\\\1", text)


def _tabulate_statements(rows: pd.DataFrame) -> str:
    """Return the statements of one paper with their verdicts, each linked to the part that decides it."""
    pages = [f"{row.link.split('#')[0]}.ipynb" for row in rows.itertuples()]
    places = map(_escape_markdown, rows["place"])
    columns = {
        "place": [f"[{place}]({page})" for place, page in zip(places, pages, strict=True)],
        "what it says": map(_escape_markdown, rows["statement"]),
        "verdict": [f"[{word}]{{.verdict-chip .verdict-{word}}}" for word in rows["verdict"]],
    }
    return pd.DataFrame(columns).to_markdown(index=False, disable_numparse=True)


def list_statements(decided: pd.DataFrame):
    """Return all statements as Markdown, a folded box for each paper; that of the journal version is open."""
    from IPython.display import Markdown

    boxes = []
    for paper, title in ledger.PAPERS.items():
        rows = decided[decided["paper"] == paper]
        if len(rows):
            counts = ledger.count_verdicts(rows["verdict"]).items()
            title += ": " + ", ".join(f"{count} {word}" for word, count in counts)
            option = ":open:\n" if paper == "journal" else ""
            text = _tabulate_statements(rows)
            boxes.append(f"::::{{dropdown}} {title}\n{option}\n{text}\n::::\n")
    return Markdown("\n".join(boxes))


VERDICTS = {"holds": "holds", "holds-if": "holds on a condition", "fails": "fails"}


def tabulate_verdicts(claims: dict[str, str], decided: dict) -> pd.DataFrame:
    """Return each claim with its verdict in words.

    Args:
        claims: what each claim says, by the name of its evidence.
        decided: the evidence, by the same names.
    """
    rows = [(claim, VERDICTS[decided[name].verdict]) for name, claim in claims.items()]
    return pd.DataFrame(rows, columns=["claim", "verdict"])
