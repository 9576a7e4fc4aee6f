"""How the recorded runs of a sweep were made: what stands under a figure or table that shows them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from companion.runs import experiments, one_rounds, protocol, records
from companion.runs.atomic import write
from companion.runs.records import ONE_ROUND, PARTITIONS
from fedstas.errors import check_choice

# Commits that recorded runs name and this repository does not hold: their code cannot be looked up.
# Each run's identity and the version of its algorithms are kept, and make it again.
LOST = {"d60f99f7d"}
UNKNOWN = "processor not recorded"


def commits(names: Iterable[str]) -> str:
    """Commits, most runs first, and which of them are not in this repository."""
    told = []
    for name, runs in Counter(names).most_common():
        lost = name.removesuffix("-dirty") in LOST
        told.append(f"{name} ({runs:,}{'; not in this repository' if lost else ''})")
    return ", ".join(told)


def machines(environments: Iterable[dict]) -> str:
    """Devices with processor, threads and torch, most runs first."""
    named = Counter(
        f"{e['device']}, {e.get('processor') or UNKNOWN}, {e['threads']} thread{'s' * (e['threads'] > 1)}, "
        f"torch {e['versions']['torch']}"
        for e in environments
    )
    return "; ".join(f"{name} ({runs:,})" for name, runs in named.most_common())


def span(seeds: Iterable[int]) -> str:
    """Seeds in words: `20 seeds (0 to 19)`."""
    there = sorted(set(seeds))
    if len(there) == 1:
        return f"seed {there[0]}"
    whole = there == list(range(there[0], there[-1] + 1))
    said = f"{there[0]} to {there[-1]}" if whole else ", ".join(map(str, there))
    return f"{len(there)} seeds ({said})"


def of(sweep: str, folder: str | Path = "results") -> dict[str, str]:
    """What is known of a sweep's recorded runs, in words: runs, seeds, commits, machines, command.

    `partitions` are the label counts of the papers' Fig. 1, which the sweep `preprint` records, too;
    `one-round` is the table of one-round errors.
    """
    if sweep == PARTITIONS:
        paths = sorted((Path(folder) / PARTITIONS).glob("*.json"))
        notes = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        what, seeds = "partitions", [n["identity"]["partition"]["seed"] for n in notes]
        command = "fedstas sweep preprint --profile paper"
    elif sweep == ONE_ROUND:
        notes = one_rounds.notes(folder)
        what, seeds = "partitions", [n["identity"]["seed"] for n in notes]
        command = "fedstas one-round"
    else:
        check_choice("sweep", sweep, (*experiments.SWEEPS, protocol.SWEEP))
        notes = [run.metadata for run in records.read_runs(Path(folder) / sweep)]
        what, seeds = "runs", [n["identity"]["seed"] for n in notes]
        command = f"fedstas sweep {sweep} --profile paper"
        if sweep == protocol.SWEEP:
            command = "fedstas arena"
    if not notes:
        return {"runs": "not recorded yet", "command": command}
    environments = [note["environment"] for note in notes]
    return {
        "runs": f"{len(notes):,} {what}, {span(seeds)}",
        "commits": commits(e["commit"] for e in environments),
        "machines": machines(environments),
        "command": command,
    }


def main(arguments: list[str]) -> int:
    """`python -m companion.runs.provenance_report FILE`: all sweeps for the pages, as JSON."""
    told = {name: of(name) for name in (*experiments.SWEEPS, protocol.SWEEP, PARTITIONS, ONE_ROUND)}
    text = json.dumps(told, indent=1) + "\n"
    write(Path(arguments[0]), lambda path: path.write_text(text, encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
