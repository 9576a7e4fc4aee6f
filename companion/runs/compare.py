"""Comparison of a reader's results with recorded ones, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs import records
from fedstas.errors import InputError, check_float
from fedstas.sim.simulation import COLUMNS, LATER_COLUMNS

VALUES = [c for c in COLUMNS if c not in ("round", "seconds")]
COUNTS = ["participants", "examples", "bytes_down", "bytes_up"]  # they differ where cohorts do
ACCURACIES = ["test_accuracy", "client_accuracy"]
IDENTICAL, CLOSE, DIFFERS, MISSING = "identical", "close", "differs", "not recorded"
# Groups of runs that only the second results have; of more, their number is reported.
MAX_LISTED = 4


@dataclass(frozen=True)
class Comparison:
    """What a comparison of two results says.

    Attributes:
        runs: one row per run of the first results, with columns run, sweep, task, partition, concentration, method,
            seed, verdict (identical, close, differs, not recorded), first (the first round in which the two differ,
            or NaN), what (differs there: cohorts, or a column), and points (the largest difference of an accuracy
            after the last round).
        unmatched: the runs of the second results that the first lack, with the columns up to `seed`.
        tolerance: the points up to which two accuracies are close.
    """

    runs: pd.DataFrame
    unmatched: pd.DataFrame
    tolerance: float

    @property
    def agree(self) -> bool:
        """Whether every run is recorded in both, and identical or close."""
        return bool(self.runs["verdict"].isin([IDENTICAL, CLOSE]).all())

    def summary(self) -> str:
        """Count the runs of each verdict, in one line."""
        number = self.runs["verdict"].value_counts()
        verdicts = (IDENTICAL, CLOSE, DIFFERS, MISSING)
        counts = ", ".join(f"{number.get(v, 0)} {v}" for v in verdicts)
        return f"{len(self.runs)} runs: {counts} (tolerance {self.tolerance:g} points)"

    def report(self) -> str:
        """Return the summary, a line for every run that is not identical, and what was not compared."""
        lines = [self.summary()]
        for row in self.runs[self.runs["verdict"] != IDENTICAL].itertuples():
            text = f"  {row.verdict}: {_name(row)}"
            if row.verdict != MISSING:
                text += f": {row.what} from round {row.first:.0f} on, accuracy at the end {row.points:.2f} points apart"
            lines.append(text)
        by = ["task", "partition", "concentration", "method"]
        groups = [*self.unmatched.groupby(by, dropna=False, sort=False)]
        if len(groups) > MAX_LISTED:  # as where a part of a sweep is compared with the whole sweep
            others = f"{len(self.unmatched):,} runs of {len(groups)} methods and settings"
            return "\n".join([*lines, f"  only in the second: {others}"])
        for key, group in groups:
            setting = " ".join(str(k) for k in key if not pd.isna(k))
            seeds = ", ".join(map(str, sorted(group["seed"].unique())))
            lines.append(f"  only in the second: {setting}, {len(group)} runs (seeds {seeds})")
        return "\n".join(lines)


def _name(row) -> str:
    """Return the method, setting, seed and identity of a run, for the report."""
    concentration = "" if pd.isna(row.concentration) else f" {row.concentration:g}"
    return f"{row.method} on {row.task} {row.partition}{concentration}, seed {row.seed} ({row.run})"


@dataclass(frozen=True)
class _Recorded:
    """A recorded run: its description (see `_describe`), its history, and hashes of its cohorts.

    `cohorts` is the hash of all cohorts, None if it was not recorded; `chain` has a few digits for each round, which
    depend on all cohorts up to it. `diverged` says how the run ended early, if it did.
    """

    description: dict
    frame: pd.DataFrame
    cohorts: str | None = None
    chain: str = ""
    diverged: str | None = None


def _read(path: str | Path) -> dict[str, _Recorded]:
    """Read recorded runs by name; a parquet file without a sidecar is one run named ''."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: name a folder of results or a parquet file")
    if path.is_dir():
        runs = records.read_runs(path)
    elif path.with_suffix(".json").exists():
        runs = [records.read_sidecar(path.with_suffix(".json"))]
    else:
        return {"": _Recorded(_describe({}, path), _read_history(path))}
    if not runs:
        raise InputError(f"there are no recorded runs below {path}")
    return {
        run.run: _Recorded(
            _describe(run.metadata, run.file),
            run.frame(),
            run.metadata.get("cohorts_sha256"),
            run.metadata.get("cohorts_chain") or "",
            run.metadata.get("diverged"),
        )
        for run in runs
    }


def _describe(metadata: dict, path: Path) -> dict:
    """Return the columns of `Comparison.runs` that say which run it is; `?` for what a file without metadata leaves open."""
    identity = metadata.get("identity", {})
    partition = identity.get("partition", {})
    return {
        "run": metadata.get("run", path.name),
        "sweep": metadata.get("sweep", ""),
        "task": identity.get("task", "?"),
        "partition": partition.get("name", "?"),
        "concentration": partition.get("concentration", np.nan),
        "method": identity.get("method", {}).get("name", "?"),
        "seed": identity.get("seed", 0),
    }


def _read_history(path: Path) -> pd.DataFrame:
    """Read the frame that `fedstas run --out` wrote."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a parquet file, or damaged") from error
    known = [*COLUMNS, *(name for name in LATER_COLUMNS if name in frame)]
    if list(frame.columns) != known or not len(frame):
        raise InputError(f"{path} is not the history of a run: its columns are others")
    return frame


def _first_other_cohort(one: _Recorded, two: _Recorded) -> int | None:
    """Return the first round in which two runs have other cohorts, by their chains; None if no round of both has."""
    width = records.CHAIN_DIGITS
    pairs = zip(
        *([r.chain[i : i + width] for i in range(0, len(r.chain), width)] for r in (one, two)),
        strict=False,
    )
    return next((t for t, (a, b) in enumerate(pairs, 1) if a != b), None)


def _judge(one: _Recorded, two: _Recorded, tolerance: float) -> dict:
    """Compare two records of a run; return verdict, first, what and points, as in `Comparison.runs`."""
    later = [c for c in LATER_COLUMNS if c in one.frame and c in two.frame]
    a, b = (r.frame.set_index("round")[VALUES + later] for r in (one, two))
    common = a.index.intersection(b.index)
    same_end = bool(one.diverged) == bool(two.diverged)
    if not len(common):
        if same_end and (len(a) or len(b)):
            raise InputError("the two histories have no evaluated round in common")
        # Both, or one of them, diverged before the first evaluation.
        same = same_end and one.cohorts == two.cohorts
        what = "" if same else "other cohorts" if same_end else "one run diverged"
        first = np.nan if same else _first_other_cohort(one, two) or 1
        verdict = IDENTICAL if same else DIFFERS
        return {"verdict": verdict, "first": first, "what": what, "points": 0.0 if same else np.nan}
    same_end &= a.index.max() == b.index.max()
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
        unequal_counts = [c for c in columns if c in COUNTS]
        what = f"other {(unequal_counts or list(columns))[0]}"
    if not same_cohorts:
        first, what = _first_other_cohort(one, two) or first, "other cohorts"
    if not same_end:
        first, what = common[-1], "one run ended earlier"
    close = points <= tolerance and same_end
    return {"verdict": CLOSE if close else DIFFERS, "first": first, "what": what, "points": points}


def compare(mine: str | Path, recorded: str | Path, *, tolerance: float = 0.5) -> Comparison:
    """Compare the runs below `mine` with those of the same identity below `recorded`.

    Identical: every value bit for bit, seconds aside, and every cohort. Close: no accuracy after the last round
    differs by more than `tolerance` points, and both runs diverged or neither. Two parquet files without sidecars, as
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
    not_recorded = {"verdict": MISSING, "first": np.nan, "what": "", "points": np.nan}
    rows = [
        run.description | (_judge(run, second[name], tolerance) if name in second else not_recorded)
        for name, run in first.items()
    ]
    columns = list(next(iter(second.values())).description)
    unmatched = [run.description for name, run in second.items() if name not in first]
    return Comparison(pd.DataFrame(rows), pd.DataFrame(unmatched, columns=columns), tolerance)
