"""How the values of the ledger are shown: numbers, fractions, texts, and intervals."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any


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
    return f"{float(ours):.{places}f} ({low:.{places}f} to {high:.{places}f})"
