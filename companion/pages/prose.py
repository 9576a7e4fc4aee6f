"""What the cells of a chapter hand to its page: figures, tables, numbers for the prose, verdicts."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np

from companion.pages.expectations import expect as expect


def glue_figure(name: str, figure) -> None:
    """Hand a figure to the page, which shows it by `{glue:figure} name`."""
    import matplotlib.pyplot as plt
    import myst_nb

    myst_nb.glue(name, figure, display=False)
    plt.close(figure)


POWER = re.compile(r"(?<=\| )(-?[\d.]+)e([+-]\d+)(?= *\|)")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def table(frame, note: str = ""):
    """A frame as a table of the page, cells as they are, but for 2e-05, which is 2 · 10⁻⁵ and stays on one
    line; below it a note, on what is not recorded yet."""
    from IPython.display import Markdown

    text = frame.to_markdown(index=False, disable_numparse=True)
    text = POWER.sub(lambda m: f"{m[1]}\u00a0·\u00a010{str(int(m[2])).translate(RAISED)}", text)
    return Markdown(f"{text}\n\n{note}".rstrip())


def glue_values(chapter: str, /, **values: Any) -> None:
    """Hand numbers and words to the prose, `purity=0.5` as `ch2_purity` where the chapter is `ch2`."""
    import myst_nb  # the book's, not needed by the companion; `glue` is another one in a classroom

    for key, value in values.items():
        if isinstance(value, (np.generic, np.ndarray)):
            value = value.item()  # a number of numpy cannot be formatted by the page
        value = str(value) if isinstance(value, Fraction) else value
        myst_nb.glue(f"{chapter}_{key}", value, display=False)


def decide(chapter: str, claim, key: str, function):
    """The evidence for a claim; the prose gets the ledger's word (`verdict_*`) and number (`ours_*`)."""
    found = function(claim)
    glue_values(chapter, **{f"verdict_{key}": found.verdict, f"ours_{key}": str(found.ours)})
    return found
