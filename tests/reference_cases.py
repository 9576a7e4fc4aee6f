"""The reference cases of tests/data/cases.json: exact answers, computed independently of this package."""

import json
from fractions import Fraction
from pathlib import Path

REFERENCE = json.loads((Path(__file__).parent / "data" / "cases.json").read_text(encoding="utf-8"))


def to_fractions(texts) -> list:
    """Convert texts such as "1/3", or lists of them, to Fractions."""
    return [to_fractions(x) if isinstance(x, list) else Fraction(str(x)) for x in texts]
