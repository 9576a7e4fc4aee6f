"""Chapter 10's figure and tables of the second comparison: averaged models, megabytes saved, headroom."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import comparison, statistics
from companion.runs.comparison import Setting
from companion.runs.records import Record

# What a design asks of clients besides the update of those who take part, by arm; for the rest nothing.
ASKED = {
    "least-variance": "64 numbers, once",
    "local-pivotal": "64 numbers, once",
    "least-variance, labels": "noisy label counts, once",
    "fedsts": "a gradient, every 10 rounds",
    "fedstas": "a gradient, every 10 rounds",
    "fedstas-unbiased": "a gradient, every 10 rounds",
    "power-of-choice": "losses of some, each round",
    "scaffold": "control variates, as large as a model",
    "all clients": "everybody takes part",
}
LABELS = {
    "md": "MD sampling",
    "fedavg": "FedAvg",
    "clustered-similarity": "clustered by similarity",
    "hics-fl": "HiCS-FL",
    "least-variance": "least variance, sketch",
    "least-variance, updates": "least variance, last updates",
    "least-variance, labels": "least variance, label counts (ε = 1)",
    "local-pivotal": "local pivotal, sketch",
    "fedsts": "FedSTS, as written",
    "fedstas": "FedSTaS, as written",
    "fedstas-unbiased": "FedSTaS, corrected",
    "fedvarp": "FedVARP",
    "scaffold": "SCAFFOLD",
    "power-of-choice": "power of choice",
    "all clients": "all clients",
}


def load(settings: dict[str, Setting], recorded: list[Record]) -> pd.DataFrame:
    """Compute the outcomes of all settings whose reference is recorded: see `comparison.outcomes`."""
    tables = [comparison.outcomes(setting, recorded) for setting in settings.values()]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def draw_ratios(gains: pd.DataFrame, settings: dict[str, Setting]) -> Figure:
    """Draw the megabytes to MD's accuracy, relative to MD's, of averaged models: a panel per setting, a row per arm.

    Hollow dots are lower bounds: some runs do not hold that accuracy with all that they send.

    Args:
        gains: as `comparison.compare` returns them, against MD.
        settings: by name, those that are drawn.
    """
    rows = gains[(gains["outcome"] == "ratio") & (gains["model"] == "average")]
    panels, series = {}, ("held in all seeds", "a lower bound")
    for name, part in rows.groupby("setting", sort=False):
        part = part[part["arm"] != comparison.ALL_CLIENTS].sort_values("mean")
        table = part.set_index(part["arm"].map(LABELS.get))[["mean", "low", "high"]]
        is_held = pd.Series((part["reached"] == part["seeds"]).to_numpy(), table.index)
        panels[settings[name].title] = {
            series[0]: table.where(is_held, axis=0),
            series[1]: table.where(~is_held, axis=0),
        }
    styles = {
        series[0]: plots.Style(plots.BLACK, "", "o"),
        series[1]: plots.Style(plots.BLACK, "", "o", hollow=True),
    }
    figure = plots.panels(
        plots.intervals,
        panels,
        styles,
        reference=1,
        spread=0.0,
        height=2.4,
        align="right",
        xlabel="megabytes, relative to MD (1)",
    )
    plots.legend(figure, styles)
    return figure


def tabulate(table: pd.DataFrame, settings: dict[str, Setting]) -> pd.DataFrame:
    """Tabulate the averaged models of all settings: a row per setting and arm, the most accurate first.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        settings: by name.
    """
    rows = []
    references = {settings[name].reference for name in table["setting"].unique()}
    (reference,) = references  # Holm's family is all settings, compared with one arm
    averaged = table[table["model"] == "average"]
    family = comparison.compare(averaged, reference)
    for name, part in averaged.groupby("setting", sort=False):
        gains = family[family["setting"] == name].set_index(["arm", "outcome"])
        shares = comparison.headroom(part, reference).set_index("arm")["share"]
        means = part.groupby("arm").agg(
            lr=("lr", "first"),
            schedule=("schedule", "first"),
            large=("large", "mean"),
            at_end=("at_end", "first"),
        )
        for arm, mean in means.sort_values("large", ascending=False).iterrows():
            row = {
                "setting": settings[name].title,
                "design": LABELS.get(str(arm), arm),
                "asks for": ASKED.get(str(arm), "nothing" if arm in LABELS else ""),
                "rate": f"{mean['lr']:g}{'†' if mean['at_end'] else ''}, {mean['schedule']}",
                "accuracy": f"{mean['large']:.1f}",
            }
            for outcome, form in (("small", "+.1f"), ("large", "+.1f"), ("ratio", ".2f")):
                cell = "–"
                if arm != reference:
                    gain = gains.loc[(arm, outcome)]
                    cell = statistics.format_interval(gain["mean"], gain["low"], gain["high"], form)
                    bound = outcome == "ratio" and gain["reached"] < gain["seeds"]
                    cell = f"≥ {cell}" if bound else cell
                row[
                    {
                        "small": "points, quarter budget",
                        "large": "points, budget",
                        "ratio": "bytes",
                    }[outcome]
                ] = cell
            p = float("nan") if arm == reference else gains.loc[(arm, "ratio"), "holm"]
            row["p of bytes (Holm)"] = statistics.format_p(p)
            row["share of headroom"] = f"{shares[arm]:.2f}" if arm in shares else "–"
            rows.append(row)
    return pd.DataFrame(rows)


def list_missing(settings: dict[str, Setting], recorded: list[Record]) -> pd.DataFrame:
    """List, from the records themselves, the settings and how many of their runs of evaluation are recorded."""
    rows = []
    for setting in settings.values():
        lacking = comparison.missing(setting, recorded)
        planned = len(setting.arms) * len(setting.evaluation_seeds)
        runs = planned - sum(map(len, lacking.values()))
        rows.append({"setting": setting.title, "runs": planned, "recorded": runs})
    return pd.DataFrame(rows)


RECOMMENDED = "least-variance"  # by sketches
PRETRAINED, BY_AUTHOR = "cifar10-features", "newsgroups"  # the settings whose numbers the text has


def _row(gains: pd.DataFrame, setting: str, model: str, outcome: str) -> pd.Series:
    """Return the row of the recommended design in a setting."""
    rows = gains[(gains["setting"] == setting) & (gains["arm"] == RECOMMENDED)]
    (_, row), *_ = rows[(rows["model"] == model) & (rows["outcome"] == outcome)].iterrows()
    return row


def _format(row: pd.Series, form: str) -> str:
    """Format a difference or a ratio with its interval, a ratio that is a bound as such."""
    text = statistics.format_interval(row["mean"], row["low"], row["high"], form)
    is_bound = row["outcome"] == "ratio" and row["reached"] < row["seeds"]
    return f"at least {text}" if is_bound else text


def compare_with_best_rival(table: pd.DataFrame, setting: str) -> tuple[str, pd.Series]:
    """Compare the megabytes of the recommended design with those of the best averaged rival that asks for nothing.

    Only rivals that hold the goal in all seeds are considered, MD at least: of another the ratio to MD is a lower bound, so
    that it may only look cheap.

    Args:
        table: as `comparison.outcomes` returns it.
        setting: of the table.

    Returns:
        The rival, the arm with the smallest geometric mean of ratios to MD, and the row of `comparison.compare`.
    """
    part = table[(table["setting"] == setting) & (table["model"] == "average")]
    is_held = part.groupby("arm")["reached"].all()
    asks_nothing = [arm for arm in is_held[is_held].index if arm in LABELS and arm not in ASKED]
    ratios = part.assign(ratio=np.log(part["ratio"])).groupby("arm")["ratio"].mean()
    rival = str(ratios.loc[asks_nothing].idxmin())
    return rival, _row(comparison.compare(part, rival), setting, "average", "ratio")


def compute_numbers(table: pd.DataFrame, gains: pd.DataFrame) -> dict[str, str | float]:
    """Compute the numbers of chapter 10 on the second comparison, for `glue_values`.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        gains: as `comparison.compare` returns them, against MD.
    """
    rival, against_rival = compare_with_best_rival(table, BY_AUTHOR)
    shares = comparison.headroom(table[table["setting"] == BY_AUTHOR], "md")
    shares = shares[(shares["model"] == "average") & (shares["arm"] == RECOMMENDED)]
    return {
        "second_author_p": float(_row(gains, BY_AUTHOR, "average", "ratio")["holm"]),
        "second_ratio": _format(_row(gains, PRETRAINED, "average", "ratio"), ".2f"),
        "second_points": _format(_row(gains, PRETRAINED, "average", "large"), "+.1f"),
        "second_points_early": _format(_row(gains, PRETRAINED, "average", "small"), "+.1f"),
        "second_raw_ratio": _format(_row(gains, PRETRAINED, "raw", "ratio"), ".2f"),
        "second_raw_points": _format(_row(gains, PRETRAINED, "raw", "large"), "+.1f"),
        "second_author_ratio": _format(_row(gains, BY_AUTHOR, "average", "ratio"), ".2f"),
        "second_author_points": _format(_row(gains, BY_AUTHOR, "average", "large"), "+.1f"),
        "second_author_share": 100 * float(shares["share"].iloc[0]),
        "second_rival": LABELS[rival],
        "second_rival_ratio": _format(against_rival, ".2f"),
    }


def check(table: pd.DataFrame, gains: pd.DataFrame) -> dict[str, bool]:
    """Check what chapter 10 says of the second comparison, by sentence.

    Args:
        table: as `comparison.outcomes` returns it, of all settings.
        gains: as `comparison.compare` returns them, against MD.
    """
    ratio, points = (_row(gains, PRETRAINED, "average", key) for key in ("ratio", "large"))
    raw = _row(gains, PRETRAINED, "raw", "ratio")
    early = _row(gains, PRETRAINED, "average", "small")
    ends = gains[(gains["model"] == "average") & (gains["outcome"] == "large")]
    rivals = ends[(ends["setting"] == PRETRAINED) & (ends["arm"] != comparison.ALL_CLIENTS)]
    author, author_points = (_row(gains, BY_AUTHOR, "average", key) for key in ("ratio", "large"))
    _, against_rival = compare_with_best_rival(table, BY_AUTHOR)
    return {
        "averaged": bool(ratio["low"] < 1 < ratio["high"] and points["low"] < 0 < points["high"]),
        "raw": bool(raw["high"] < 0.9),
        "early": bool(early["low"] > 0),
        "nobody": bool((rivals["low"] < 0.5).all()),
        "author": bool(
            0.85 < author["mean"] < author["high"] < 1
            and author["holm"] < 0.05
            and author_points["low"] > 0
        ),
        "recorded": {key: int(part["seed"].nunique()) for key, part in table.groupby("setting")}
        == {PRETRAINED: 10, BY_AUTHOR: 20},
        # The reader's endpoint asks for a fifth fewer on both tasks with clients of their own: one misses it.
        "endpoint": bool(against_rival["mean"] > 0.8),
    }
