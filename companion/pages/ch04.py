"""The tables of chapter 4's opening, *Theory, executed*."""

from __future__ import annotations

import re

import pandas as pd

from companion.claims import ledger


def _plain(text: str) -> str:
    """A text whose signs Markdown is not to read; one with formulas stays as it is."""
    return text if "$" in text else re.sub(r"([*_`|<\[\]])", r"\\\1", text)


def _listed(rows: pd.DataFrame) -> str:
    """Statements of one paper with their verdicts, each linked to the part that decides it."""
    places = [f"[{_plain(row.place)}]({row.link.split('#')[0]}.ipynb)" for row in rows.itertuples()]
    chips = [f"[{word}]{{.verdict-chip .verdict-{word}}}" for word in rows["verdict"]]
    said = [_plain(text) for text in rows["statement"]]
    frame = pd.DataFrame({"place": places, "what it says": said, "verdict": chips})
    return frame.to_markdown(index=False, disable_numparse=True)


def statements(decided: pd.DataFrame):
    """All statements, folded by paper: the journal version open."""
    from IPython.display import Markdown

    pieces = []
    for paper, title in ledger.PAPERS.items():
        rows = decided[decided["paper"] == paper]
        found = ledger.count_verdicts(rows["verdict"])
        said = ", ".join(f"{count} {word}" for word, count in found.items())
        opened = ":open:\n" if paper == "journal" else ""
        if said:
            pieces.append(f"::::{{dropdown}} {title}: {said}\n{opened}\n{_listed(rows)}\n::::\n")
    return Markdown("\n".join(pieces))
