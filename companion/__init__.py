"""The companion of the papers: it makes the book, and needs a clone of the repository.

    companion.runs      recorded runs: how they are made, stored, read, compared
    companion.claims    the ledger: every claim of the papers, with the function that decides it
    companion.pages     chapters: parameters, execution, figures, copies, instruments
    companion.teach     exercises that check themselves, students' notebooks, slides

A package may import those above it, and `fedstas`, which knows nothing of the companion; `tests/test_structure.py`
holds that. `from companion import records, ledger` imports any module of them. `commands` has the sub-commands of
`fedstas`, `doctor` checks an installation, `dependencies` finds imports for the build (`dodo.py`).

CONTRIBUTING.md adds a design, a claim, a chapter and a sweep by example.
"""

import importlib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # the clone's root
PACKAGES = ("runs", "claims", "pages", "teach")


def __getattr__(name: str):
    """Import a module of the companion when it is first used."""
    if not name.startswith("_"):
        for package in ("companion", *(f"companion.{inner}" for inner in PACKAGES)):
            if find_spec(f"{package}.{name}") is not None:
                return importlib.import_module(f"{package}.{name}")
    raise AttributeError(f"module 'companion' has no attribute {name!r}")
