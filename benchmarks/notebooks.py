"""`make times`: each notebook of `notebooks/ipynb` (written by this) in plain papermill, in an empty folder, as a reader runs it.

It stops at a notebook on which a person would stumble: raw mark-up, a missing figure or number, `nan`, a warning.

`python -m benchmarks.notebooks --json FILE [CHAPTER ...]`, a line each: seconds of the wall and of the
processors, and what share of the machine others had meanwhile (seconds of the wall mean little where that is
not near 0). Stopped at any moment it goes on with the next call: a notebook is run again when it has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from benchmarks.timing import machine
from companion.pages import copies, live_text, parameters
from companion.pages.warm import THREADS


def machine_cpu_seconds() -> float | None:
    """Return the busy seconds of all processors since the machine started, or None (not Linux)."""
    try:
        numbers = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, *interrupts = map(int, numbers)
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def children_cpu_seconds() -> float:
    """Return the processor seconds that the ended children of this process took."""
    times = os.times()
    return times.children_user + times.children_system


def share_of_others(total: float, ours: float, wall: float, cores: int) -> float:
    """Compute the share of the machine, 0..1, that other processes had: all busy seconds, less ours."""
    return round(max(0.0, (total - ours) / (wall * cores)), 2)


def time_notebook(notebook: Path) -> dict:
    """Run a notebook once and return its seconds; a `RuntimeError` with the end of papermill's output if it fails."""
    plain = {k: v for k, v in os.environ.items() if k not in THREADS}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "papermill", notebook, "out.ipynb", "-k", "python3"]
        before, ours, began = machine_cpu_seconds(), children_cpu_seconds(), time.monotonic()
        process = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True)
        wall, cpu, after = (
            time.monotonic() - began,
            children_cpu_seconds() - ours,
            machine_cpu_seconds(),
        )
        if process.returncode:
            raise RuntimeError(f"{notebook.name} did not run:\n{process.stderr[-2000:]}")
        if faults := live_text.find_faults(nbformat.read(Path(folder, "out.ipynb"), as_version=4)):
            raise RuntimeError(f"{notebook.name} is not fit to be read:\n" + "\n".join(faults))
    times = {"seconds": round(wall, 1), "cpu": round(cpu, 1)}
    if before is not None:
        times["others"] = share_of_others(after - before, cpu, wall, os.cpu_count() or 1)
    return times


def identify(notebook: Path) -> dict:
    """Return what a recorded time belongs to: the notebook's digest, the machine and its cores."""
    digest = hashlib.sha256(notebook.read_bytes()).hexdigest()[:16]
    return {"notebook": digest, "machine": machine(), "cores": os.cpu_count()}


def format_times(stem: str, r: dict) -> str:
    """Format a notebook's times as a line."""
    text = f"{stem:26} {r['seconds']:7.1f} s, {r['cpu']:6.1f} s of processors"
    return text + (f", others had {r['others']:.0%} of the machine" if "others" in r else "")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notebooks", description=__doc__)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="as 04e; all by default")
    parser.add_argument("--json", type=Path, required=True, help="file to write, and to go on from")
    options = parser.parse_args()
    recorded = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    copies.make()
    for stem in map(parameters.find, options.chapters or parameters.names()):
        notebook = copies.folder() / f"{stem}.ipynb"
        what = identify(notebook)
        if not what.items() <= recorded.get(stem, {}).items():
            recorded[stem] = (
                time_notebook(notebook) | what | {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
            )
            options.json.write_text(
                json.dumps(dict(sorted(recorded.items())), indent=1) + "\n", encoding="utf-8"
            )
        print(format_times(stem, recorded[stem]), flush=True)
    slowest = max(recorded, key=lambda stem: recorded[stem]["seconds"])
    print(f"the longest of {len(recorded)}: {format_times(slowest, recorded[slowest])}")


if __name__ == "__main__":
    main()
