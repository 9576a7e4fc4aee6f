"""Reports on how the recorded runs of a sweep were made, for the line under a figure or table that shows them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from companion.runs import atomic, comparison, experiments, one_rounds, protocol, records
from fedstas.errors import check_choice

# Commits that recorded runs name and this repository does not hold: their code cannot be looked up. The
# runs can be made again all the same, from their identities and the version of their algorithms.
LOST_COMMITS = {"d60f99f7d", "0f1a3086d", "f4f3c8bc5"}
UNKNOWN_PROCESSOR = "processor not recorded"
# Commands by sweep, where it is not `fedstas sweep NAME --profile paper`.
COMMANDS = {
    protocol.SWEEP: "fedstas arena --setting NAME",
    comparison.SWEEP: "fedstas arena --edition 2 --setting NAME",
    records.PARTITIONS: "fedstas sweep preprint --profile paper",
    records.ONE_ROUND: "fedstas one-round",
    records.FEATURE_ERRORS: "fedstas one-round --table features",
    records.RENEWAL_ERRORS: "fedstas one-round --table renewal",
    records.CLOSED_FORM: "fedstas closed-form",
    records.FINE_TUNING: "fedstas closed-form --fine-tuning",
}
SWEEPS = (*experiments.SWEEPS, *COMMANDS)


def format_commits(commits: Iterable[str]) -> str:
    """Format commits with their numbers of runs, most runs first, and which of them are lost."""
    parts = []
    for name, runs in Counter(commits).most_common():
        lost = name.removesuffix("-dirty") in LOST_COMMITS
        parts.append(f"{name} ({runs:,}{'; not in this repository' if lost else ''})")
    return ", ".join(parts)


def format_machines(environments: Iterable[dict]) -> str:
    """Format devices with processor, threads and torch, and their numbers of runs, most runs first."""
    machines = Counter(
        f"{e['device']}, {e.get('processor') or UNKNOWN_PROCESSOR}, "
        f"{e['threads']} thread{'s' * (e['threads'] > 1)}, torch {e['versions']['torch']}"
        for e in environments
    )
    return "; ".join(f"{name} ({runs:,})" for name, runs in machines.most_common())


def format_seeds(seeds: Iterable[int]) -> str:
    """Format seeds in words, three or more in a row by their ends: `22 seeds (0 to 19, 100, 101)`."""
    distinct = sorted(set(seeds))
    if len(distinct) == 1:
        return f"seed {distinct[0]}"
    parts = []
    for _, row in groupby(enumerate(distinct), lambda pair: pair[1] - pair[0]):
        row = [seed for _, seed in row]
        parts += [f"{row[0]} to {row[-1]}"] if len(row) > 2 else map(str, row)
    return f"{len(distinct)} seeds ({', '.join(parts)})"


def _read_metadata(sweep: str, folder: str | Path) -> tuple[list[dict], list[int]]:
    """Return the metadata and the seeds of what is recorded of a sweep."""
    if sweep == records.PARTITIONS:
        files = sorted((Path(folder) / sweep).glob("*.json"))
        metadata = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        return metadata, [each["identity"]["partition"]["seed"] for each in metadata]
    if sweep in records.ERROR_TABLES:
        metadata = one_rounds.load_metadata(folder, sweep)
    else:
        metadata = [record.metadata for record in records.read_runs(Path(folder) / sweep)]
    return metadata, [each["identity"]["seed"] for each in metadata]


def report(sweep: str, folder: str | Path = "results") -> dict[str, str]:
    """Report in words how a sweep's recorded runs were made: runs, commits, machines, command.

    `partitions` are the label counts of the papers' Fig. 1, which the sweep `preprint` records, too;
    `one-round`, `one-round-features` and `one-round-renewal` are tables of one-round errors, `closed-form` is one of
    heads without training, and `fine-tuning` one of runs that start from such heads.
    """
    check_choice("sweep", sweep, SWEEPS)
    command = COMMANDS.get(sweep, f"fedstas sweep {sweep} --profile paper")
    metadata, seeds = _read_metadata(sweep, folder)
    if not metadata:
        return {"runs": "not recorded yet", "command": command}
    environments = [each["environment"] for each in metadata]
    unit = "partitions" if sweep in (records.PARTITIONS, *records.ERROR_TABLES) else "runs"
    return {
        "runs": f"{len(metadata):,} {unit}, {format_seeds(seeds)}",
        "commits": format_commits(e["commit"] for e in environments),
        "machines": format_machines(environments),
        "command": command,
    }


def main(arguments: list[str]) -> int:
    """Write the reports of all sweeps as JSON: `python -m companion.runs.provenance_report FILE`."""
    text = json.dumps({sweep: report(sweep) for sweep in SWEEPS}, indent=1) + "\n"
    atomic.write(Path(arguments[0]), lambda path: path.write_text(text, encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
