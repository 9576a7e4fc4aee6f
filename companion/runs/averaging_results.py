"""What the sweeps of `averaging` measured: the chosen learning rates, accuracies, differences from MD sampling."""

from __future__ import annotations

import pandas as pd

from companion.runs import statistics, tables
from companion.runs.averaging import (
    ARMS,
    MODELS,
    RATES_SWEEP,
    REFERENCE,
    ROUNDS,
    SETTINGS,
    SWEEP,
    TUNED,
    WINDOWS,
)
from fedstas.errors import InputError


def _load(sweep: str, folder) -> pd.DataFrame:
    """Load the rows of a sweep with the columns `setting`, `arm` and `lr`."""
    frame = tables.load_sweep(sweep, folder).frame
    if not len(frame):
        raise InputError(
            f"no run of sweep {sweep} is recorded in {folder}: `fedstas sweep {sweep}` makes them"
        )
    places = {(s.task, s.partition, s.concentration): name for name, s in SETTINGS.items()}
    arms = {(method, settings.get("features", "")): arm for arm, (method, settings) in ARMS.items()}
    return frame.assign(
        setting=[
            places[key]
            for key in zip(frame["task"], frame["partition"], frame["concentration"], strict=True)
        ],
        arm=[
            arms[method, variant.get("features", "")]
            for method, variant in zip(frame["method"], frame["variant"], strict=True)
        ],
        lr=[variant.get("lr") for variant in frame["variant"]],
    )


def choose_rates(folder="results") -> pd.DataFrame:
    """Choose each arm's rates: those of the highest mean accuracy of the last window over the tuning seeds,
    none of which diverged.

    Returns:
        One row per setting and arm: the rate of the `raw` model and of the `average`, and for each whether it lies
        at an end of the grid (`raw_at_end`, `average_at_end`).
    """
    frame = _load(RATES_SWEEP, folder)
    rows = []
    for (setting, arm), part in frame.groupby(["setting", "arm"], sort=False):
        row = {"setting": setting, "arm": arm}
        for model, column in MODELS.items():
            last = part[part["round"] > WINDOWS[ROUNDS].start - 1].groupby("lr")
            seeds = last["seed"].nunique()  # a rate at which one diverged is not chosen
            means = last[column].mean()[seeds == seeds.max()]
            row |= {
                model: means.idxmax(),
                f"{model}_at_end": means.idxmax() in means.index[[0, -1]],
            }
        rows.append(row)
    return pd.DataFrame(rows)


def accuracies(folder="results") -> pd.DataFrame:
    """Tabulate the accuracy of each run, a mean over the window before a budget, in per cent.

    Returns:
        One row per setting, arm, model (raw or average), budget in rounds and seed; each model has the runs at its
        own rate.
    """
    frame, rows = _load(SWEEP, folder), []
    for (setting, arm, lr, seed), run in frame.groupby(["setting", "arm", "lr", "seed"]):
        chosen = dict(zip(MODELS, TUNED[setting][arm], strict=True))
        for (model, column), (budget, window) in (
            (m, w) for m in MODELS.items() for w in WINDOWS.items()
        ):
            if chosen[model] == lr:
                value = 100 * run[run["round"].isin(window)][column].mean()
                rows.append((setting, arm, model, budget, seed, value))
    return pd.DataFrame(rows, columns=["setting", "arm", "model", "budget", "seed", "accuracy"])


def differences(table: pd.DataFrame, against: str = REFERENCE) -> pd.DataFrame:
    """Compare every arm with another in points, both raw or both averaged, paired by seed, 95 % intervals.

    Args:
        table: as `accuracies` returns it.
        against: the other arm, MD sampling by default.

    Returns:
        One row per setting, arm, model and budget: `mean`, `low`, `high`, the number of `seeds`.
    """
    rows = []
    for key, part in table.groupby(["setting", "model", "budget"], sort=False):
        wide = part.pivot(index="seed", columns="arm", values="accuracy")
        for arm in ARMS:
            if arm in wide and arm != against:
                paired = statistics.paired_difference(wide[arm], wide[against])
                rows.append((*key, arm, *paired.interval, paired.pairs))
    names = ["setting", "model", "budget", "arm", "mean", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=names)


def gains_of_averaging(table: pd.DataFrame) -> pd.DataFrame:
    """Compare the averaged model of every arm with its raw one in points, paired by seed, 95 % intervals.

    Args:
        table: as `accuracies` returns it.

    Returns:
        One row per setting, arm and budget: `mean`, `low`, `high`, the number of `seeds`.
    """
    rows = []
    for key, part in table.groupby(["setting", "arm", "budget"], sort=False):
        wide = part.pivot(index="seed", columns="model", values="accuracy")
        paired = statistics.paired_difference(wide["average"], wide["raw"])
        rows.append((*key, *paired.interval, paired.pairs))
    names = ["setting", "arm", "budget", "mean", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=names)
