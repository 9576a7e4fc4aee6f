"""What a last model loses to an average if its own rate and schedule are tuned: chapter 10, from the runs of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from companion.pages.saved_bytes import BY_AUTHOR, LABELS, RECOMMENDED, SHORT_TITLES, SHOWN
from companion.runs import comparison
from companion.runs.comparison import Setting
from companion.runs.records import Record

ARMS = ("md", RECOMMENDED)
AVERAGE, SAME, OWN = "average", "last, as tuned for the average", "last, tuned for itself"


def compute(settings: Mapping[str, Setting], recorded: list[Record]) -> pd.DataFrame:
    """Compute validation accuracies in %, over the seeds of tuning, of the averaged model and of two last models.

    One last model has the rate and the schedule that are best for the average, the other has its own best ones of those
    that were tried.

    Returns:
        A row by setting of `SHOWN` and arm of `ARMS`, with the columns `AVERAGE`, `SAME`, `OWN`, "schedule" (of the
        average), "own schedule" and "own rate".
    """
    rows = {}
    for name in SHOWN:
        arms = tuple(arm for arm in settings[name].arms if arm.name in ARMS)
        setting = replace(settings[name], arms=arms)
        curves = comparison.load_curves(setting, recorded, tuning=True)
        average, last = (
            comparison.tabulate_tuning(setting, curves, model) for model in comparison.MODELS
        )
        for arm in ARMS:
            best, own = average.loc[arm].idxmax(), last.loc[arm].idxmax()
            rows[name, arm] = {
                AVERAGE: 100 * average.loc[arm, best],
                SAME: 100 * last.loc[arm, best],
                OWN: 100 * last.loc[arm, own],
                "schedule": best[0],
                "own schedule": own[0],
                "own rate": own[1],
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["setting", "arm"])


def tabulate(models: pd.DataFrame) -> pd.DataFrame:
    """Tabulate what `compute` returns: a row per task, and the three models of both arms."""
    rows = []
    for name in SHOWN:
        row = {"task": SHORT_TITLES[name]}
        for arm in ARMS:
            cells = models.loc[(name, arm)]
            row |= {
                f"{LABELS[arm]}: {column}": f"{cells[column]:.1f}" for column in (AVERAGE, SAME)
            }
            rate = f"{cells[OWN]:.1f} ({cells['own rate']:g}, {cells['own schedule']})"
            row |= {f"{LABELS[arm]}: {OWN}": rate}
        rows.append(row)
    return pd.DataFrame(rows)


def summarise(models: pd.DataFrame) -> tuple[dict[str, float], dict[str, bool]]:
    """Return the numbers that chapter 10 has of `compute`'s table, and by sentence whether it holds."""
    md = models.xs("md", level="arm")
    lost, gap = md[AVERAGE] - md[OWN], md[AVERAGE] - md[SAME]
    most = gap.nlargest(4).index
    leads = {column: models[column].unstack("arm") for column in (AVERAGE, SAME, OWN)}
    leads = {column: table[RECOMMENDED] - table["md"] for column, table in leads.items()}
    numbers = {"last_lost": lost.max(), "last_closest": (leads[OWN] - leads[AVERAGE]).abs().max()}
    posts = models.loc[BY_AUTHOR, AVERAGE]  # beside which a head is judged
    numbers |= {"validated_md": posts["md"], "validated_strata": posts[RECOMMENDED]}
    holds = {
        "within": bool(lost.max() < 1) and len(md) == 8,
        "cosine": bool((md["own schedule"] == "cosine").all()),
        "constant": bool((md.loc[most, "schedule"] == "constant").all()),
        "as much": bool((leads[OWN] - leads[AVERAGE]).abs().max() < 0.55),
        "flattered": bool((leads[SAME] - leads[OWN]).drop(BY_AUTHOR).max() > 1),
    }
    return numbers, holds
