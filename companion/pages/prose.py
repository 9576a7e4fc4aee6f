"""Pass figures, tables, numbers and verdicts from the cells of a chapter to its page."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from typing import Any

import numpy as np

from companion.pages import parameters
from companion.pages.expectations import expect as expect

# Environment variable of kernels whose notebook becomes a page of the book.
FOR_THE_PAGE = "FEDSTAS_PAGE"


def glue_figure(name: str, figure) -> None:
    """Pass a figure to the page, which shows it by `{glue:figure} name`."""
    import matplotlib.pyplot as plt
    import myst_nb

    # A notebook that papermill or Jupyter makes of the source has no place for it in the text: it is shown here.
    myst_nb.glue(name, figure, display=FOR_THE_PAGE not in os.environ)
    plt.close(figure)


SCIENTIFIC = re.compile(r"(?<=\| )(-?[\d.]+)e([+-]\d+)(?= *\|)")
INTERVAL = re.compile(r"\([+−-]?[\d.]+ to [+−-]?[\d.]+\)")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _to_markdown(frame, note: str) -> str:
    """Return a data frame as Markdown with a note below it: 2e-05 as 2 · 10⁻⁵, intervals unbroken."""
    text = frame.to_markdown(index=False, disable_numparse=True)
    text = SCIENTIFIC.sub(
        lambda m: f"{m[1]}\u00a0·\u00a010{str(int(m[2])).translate(SUPERSCRIPTS)}", text
    )
    text = INTERVAL.sub(lambda m: m[0].replace(" ", "\u00a0"), text)
    return f"{text}\n\n{note}".rstrip()


def table(frame, note: str = ""):
    """Return a data frame as a table of the page, with a note below it."""
    from IPython.display import Markdown

    return Markdown(_to_markdown(frame, note))


def fold_table(title: str, frame, note: str = ""):
    """Return a table in a box that is closed until its title is clicked, with a note below on what is not recorded yet."""
    from IPython.display import Markdown

    return Markdown(  # a title may have backticks
        f"~~~~{{admonition}} {title}\n:class: dropdown\n\n{_to_markdown(frame, note)}\n~~~~"
    )


def glue_values(chapter: str, /, **values: Any) -> None:
    """Pass numbers and words to the prose: with chapter `ch2`, `purity=0.5` is glued as `ch2_purity`."""
    import myst_nb  # imported here: students' notebooks replace its `glue`

    for key, value in values.items():
        if isinstance(value, (np.generic, np.ndarray)):
            value = value.item()  # the page cannot format numpy's numbers
        value = str(value) if isinstance(value, Fraction) else value
        myst_nb.glue(f"{chapter}_{key}", value, display=False)


def is_larger_as_shown(larger: float, smaller: float, form: str) -> bool:
    """Return whether a number is still larger than another when both are shown in this format."""
    larger, smaller = (
        float(format(x, form).rstrip("%").replace(",", "")) for x in (larger, smaller)
    )
    return larger > smaller


def is_as_in(chapter: str, values: Any, *names: str) -> bool:
    """Return whether parameters are those of another chapter as the book has it, in the same profile.

    Args:
        values: of this chapter, by attribute.
        names: the parameters that matter.
    """
    others = parameters.settings(chapter, {"profile": values.profile})
    return all(getattr(values, name) == getattr(others, name) for name in names)


def decide(chapter: str, claim, key: str, function):
    """Return the evidence for a claim; glue its verdict (`verdict_*`) and our value (`ours_*`) for the prose."""
    evidence = function(claim)
    glue_values(chapter, **{f"verdict_{key}": evidence.verdict, f"ours_{key}": str(evidence.ours)})
    return evidence
