"""Learning rate, design and budget: the data of the interactive demo `rates`, from the first comparison's tuning runs.

`load` reads the recorded runs, `as_json` returns the demo's data, and `draw` its still picture; the build writes both
beside chapter 10's tree of questions (`companion.pages.landing_page`).
"""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import design_comparison
from companion.runs import protocol

FILE = "learning-rates.json"
SETTINGS = ("mnist", "fashion-mnist")  # of the first comparison, whose runs have ten participants
DESIGNS = ("md", "fedavg", "clustered-similarity", "fedstas", "fedstas-unbiased", "least-variance")
REFERENCE, RECOMMENDED = "md", "least-variance"
STEP, MOST = 30, 840  # megabytes; each run of these designs has sent more than MOST at its end
START = {"rate": 0.1, "megabytes": 240}  # where the sliders begin
LOWEST = 40  # per cent: what is below lies on the axis


def load() -> dict[str, pd.DataFrame]:
    """Return the accuracy of the last model in per cent, by setting.

    Returns:
        A row per design and learning rate, a column per budget in megabytes: the mean over the seeds of tuning of the
        accuracy at that budget on the test set.
    """
    settings, recorded = protocol.read(), protocol.load_runs()
    return {
        name: tabulate(settings[name], protocol.load_curves(settings[name], recorded=recorded))
        for name in SETTINGS
    }


def tabulate(setting: protocol.Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate a setting's accuracies as `load` returns them; `rows` as `protocol.load_curves` returns them."""
    rows = rows[rows["seed"].isin(setting.tuning_seeds) & rows["rate"].isin(setting.rates)]
    budgets = range(STEP, MOST + 1, STEP)
    means = {
        (arm, rate): [
            100
            * np.mean(
                [
                    protocol.accuracy_at_budget(run, "megabytes", budget, setting.classes)
                    for _, run in part.groupby("seed")
                ]
            )
            for budget in budgets
        ]
        for (arm, rate), part in rows.groupby(["arm", "rate"])
        if arm in DESIGNS
    }
    index = pd.MultiIndex.from_tuples(means, names=["design", "rate"])
    return pd.DataFrame([*means.values()], index=index, columns=[*budgets])


def choose_best(table: pd.DataFrame, megabytes: int) -> dict[str, list[float]]:
    """Return the best learning rate of each design at a budget, and its accuracy there in per cent."""
    best = {}
    for arm in DESIGNS:
        row = table.loc[arm][megabytes]
        best[arm] = [float(row.idxmax()), float(row.max())]
    return best


def as_json(tables: dict[str, pd.DataFrame]) -> str:
    """Return the demo's data as JSON, with inputs of its script's function and this package's answers.

    Args:
        tables: as `load` returns them.
    """
    tables = {name: table.round(2) for name, table in tables.items()}
    settings = protocol.read()
    tasks = {}
    for name, table in tables.items():
        rates = list(settings[name].rates)
        accuracy = {arm: [table.loc[(arm, rate)].tolist() for rate in rates] for arm in DESIGNS}
        tasks[name] = {
            "title": settings[name].title,
            "rates": rates,
            "seeds": len(settings[name].tuning_seeds),
            "accuracy": accuracy,
        }
    cases = [
        {"given": [name, megabytes], "answer": choose_best(tables[name], megabytes)}
        for name in tables
        for megabytes in (STEP, START["megabytes"], MOST)
    ]
    content = {
        "tasks": tasks,
        "step": STEP,
        "most": MOST,
        "start": START,
        "lowest": LOWEST,
        "reference": REFERENCE,
        "recommended": RECOMMENDED,
        "cases": {"bestRates": cases},
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw the accuracy at the largest budget against the learning rate: a panel per setting, a curve per design."""
    settings = protocol.read()
    figure, axes = plt.subplots(
        1, len(tables), figsize=(8.4, 3.6), sharey=True, layout="constrained"
    )
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        for arm in DESIGNS:
            row = table.loc[arm][MOST]
            style = design_comparison.arm_style(arm)
            ax.plot(
                row.index,
                row,
                color=style.colour,
                ls=style.dash,
                marker="o",
                ms=3,
                label=style.label,
            )
        ax.set(xscale="log", xlabel="learning rate", ylim=(LOWEST, 95), title=settings[name].title)
    axes[0].set_ylabel(f"accuracy after {MOST} MB, %")
    axes[0].legend(fontsize="x-small", loc="lower left")
    return figure
