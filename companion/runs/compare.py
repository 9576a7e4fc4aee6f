"""Comparison of a reader's results with recorded ones, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs import records
from fedstas.errors import InputError, check_float
from fedstas.sim.simulation import AVERAGE_COLUMNS, COLUMNS

VALUES = [c for c in COLUMNS if c not in ("round", "seconds")]
COUNTS = ["participants", "examples", "bytes_down", "bytes_up"]  # they differ as cohorts do
ACCURACIES = ["test_accuracy", "client_accuracy"]
IDENTICAL, CLOSE, DIFFERS, MISSING = "identical", "close", "differs", "not recorded"


FEW = 4  # groups of runs that only the second results have, listed one by one


@dataclass(frozen=True)
class Comparison:
    """One row per run of the first results: run, sweep, task, partition, concentration, method,
    seed, verdict (identical, close, differs, not recorded), first (the first round in which they
    differ, or NaN), what (differs there: cohorts, or a column), points (the largest difference of
    an accuracy at the end). `unmatched` are the runs of the second results that the first lack."""

    runs: pd.DataFrame
    unmatched: pd.DataFrame
    tolerance: float

    @property
    def agree(self) -> bool:
        """Every run was found, and is identical or close."""
        return bool(self.runs["verdict"].isin([IDENTICAL, CLOSE]).all())

    def summary(self) -> str:
        """One line."""
        counts = self.runs["verdict"].value_counts()
        listed = ", ".join(f"{counts.get(v, 0)} {v}" for v in (IDENTICAL, CLOSE, DIFFERS, MISSING))
        return f"{len(self.runs)} runs: {listed} (tolerance {self.tolerance:g} points)"

    def report(self) -> str:
        """The summary, a line for every run that is not identical, and what was not compared."""
        lines = [self.summary()]
        for row in self.runs[self.runs["verdict"] != IDENTICAL].itertuples():
            text = f"  {row.verdict}: {_name(row)}"
            if row.verdict != MISSING:
                text += f": {row.what} from round {row.first:.0f} on, accuracy at the end {row.points:.2f} points apart"
            lines.append(text)
        by = ["task", "partition", "concentration", "method"]
        groups = [*self.unmatched.groupby(by, dropna=False, sort=False)]
        if len(groups) > FEW:  # a part of a sweep compared with all of ours
            others = f"{len(self.unmatched):,} runs of {len(groups)} methods and settings"
            return "\n".join([*lines, f"  only in the second: {others}"])
        for key, group in groups:
            where = " ".join(str(k) for k in key if not pd.isna(k))
            seeds = ", ".join(map(str, sorted(group["seed"].unique())))
            lines.append(f"  only in the second: {where}, {len(group)} runs (seeds {seeds})")
        return "\n".join(lines)


def _name(row) -> str:
    where = "" if pd.isna(row.concentration) else f" {row.concentration:g}"
    return f"{row.method} on {row.task} {row.partition}{where}, seed {row.seed} ({row.run})"


@dataclass(frozen=True)
class _Recorded:
    head: dict
    frame: pd.DataFrame
    cohorts: str | None = None  # hash of all cohorts
    chain: str = ""  # a few digits of it, round by round


def _read(place: str | Path) -> dict[str, _Recorded]:
    """Read recorded runs by name; a parquet file without a sidecar is one run named ''."""
    place = Path(place)
    if not place.exists():
        raise InputError(f"{place} does not exist: name a folder of results or a parquet file")
    if place.is_dir():
        runs = records.read_runs(place)
    elif place.with_suffix(".json").exists():
        runs = [records.read_sidecar(place.with_suffix(".json"))]
    else:
        return {"": _Recorded(_head({}, place), _history(place))}
    if not runs:
        raise InputError(f"there are no recorded runs below {place}")
    return {
        run.run: _Recorded(
            _head(run.metadata, run.file),
            run.frame(),
            run.metadata.get("cohorts_sha256"),
            run.metadata.get("cohorts_chain") or "",
        )
        for run in runs
    }


def _head(note: dict, path: Path) -> dict:
    who = note.get("identity", {})
    recipe = who.get("partition", {})
    return {
        "run": note.get("run", path.name),
        "sweep": note.get("sweep", ""),
        "task": who.get("task", "?"),
        "partition": recipe.get("name", "?"),
        "concentration": recipe.get("concentration", np.nan),
        "method": who.get("method", {}).get("name", "?"),
        "seed": who.get("seed", 0),
    }


def _history(path: Path) -> pd.DataFrame:
    """Read the frame that `fedstas run --out` wrote."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a parquet file, or damaged") from error
    known = [*COLUMNS], [*COLUMNS, *AVERAGE_COLUMNS]
    if list(frame.columns) not in known or not len(frame):
        raise InputError(f"{path} is not the history of a run: its columns are others")
    return frame


def _first_other_cohort(one: _Recorded, two: _Recorded) -> int | None:
    """Return the first round with another cohort, by the chains of hashes."""
    width = records.CHAIN_DIGITS
    pairs = zip(
        *([r.chain[i : i + width] for i in range(0, len(r.chain), width)] for r in (one, two)),
        strict=False,
    )
    return next((t for t, (a, b) in enumerate(pairs, 1) if a != b), None)


def _judge(one: _Recorded, two: _Recorded, tolerance: float) -> dict:
    averages = [c for c in AVERAGE_COLUMNS if c in one.frame and c in two.frame]
    a, b = (r.frame.set_index("round")[VALUES + averages] for r in (one, two))
    common = a.index.intersection(b.index)
    if not len(common):
        raise InputError("the two histories have no evaluated round in common")
    a, b = a.loc[common], b.loc[common]
    unequal = (a != b) & ~(a.isna() & b.isna())
    points = 100 * float((a[ACCURACIES].iloc[-1] - b[ACCURACIES].iloc[-1]).abs().max())
    same_cohorts = None in (one.cohorts, two.cohorts) or one.cohorts == two.cohorts
    same_rounds = len(one.frame) == len(two.frame) == len(common)
    if same_cohorts and same_rounds and not unequal.to_numpy().any():
        return {"verdict": IDENTICAL, "first": np.nan, "what": "", "points": 0.0}
    rounds = common[unequal.any(axis=1)]
    first, what = (rounds[0], "") if len(rounds) else (common[-1], "the evaluated rounds differ")
    if len(rounds):
        columns = unequal.columns[unequal.loc[first]]
        counted = [c for c in columns if c in COUNTS]
        what = f"other {(counted or list(columns))[0]}"
    if not same_cohorts:
        first, what = _first_other_cohort(one, two) or first, "other cohorts"
    close = points <= tolerance
    return {"verdict": CLOSE if close else DIFFERS, "first": first, "what": what, "points": points}


def compare(mine: str | Path, recorded: str | Path, *, tolerance: float = 0.5) -> Comparison:
    """Compare the runs below `mine` with those of the same identity below `recorded`.

    Identical: every value bit for bit, seconds aside, and every cohort. Close: no accuracy after the last round
    differs by more than `tolerance` points. Two parquet files without sidecars, as
    `fedstas run --out` writes them, are taken for the same run.
    """
    tolerance = check_float("tolerance", tolerance, 0, 100, open_low=False)
    first, second = _read(mine), _read(recorded)
    if "" in first or "" in second:
        if len(first) != 1 or len(second) != 1:
            raise InputError(
                "a single parquet file can only be compared with another one: name two files, or two folders"
            )
        first, second = ({"": run} for d in (first, second) for run in d.values())
    nothing = {"verdict": MISSING, "first": np.nan, "what": "", "points": np.nan}
    rows = [
        run.head | (_judge(run, second[name], tolerance) if name in second else nothing)
        for name, run in first.items()
    ]
    head = list(next(iter(second.values())).head)
    unmatched = [run.head for name, run in second.items() if name not in first]
    return Comparison(pd.DataFrame(rows), pd.DataFrame(unmatched, columns=head), tolerance)
