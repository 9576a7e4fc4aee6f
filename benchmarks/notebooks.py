"""`make times`: each notebook of `notebooks/ipynb` (written by this) in plain papermill, in an empty folder, as a reader runs it.

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

from benchmarks.timing import machine
from companion.pages import copies, parameters
from companion.pages.warm import THREADS


def busy() -> float | None:
    """Seconds of all processors that have been worked since the machine started, or None (not Linux)."""
    try:
        numbers = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, *interrupts = map(int, numbers)
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def worked() -> float:
    """Seconds of processors that the ended children of this process took."""
    times = os.times()
    return times.children_user + times.children_system


def others(share: float, ours: float, wall: float, cores: int) -> float:
    """The share of the machine, 0..1, that other processes had: of what was worked, less ours."""
    return round(max(0.0, (share - ours) / (wall * cores)), 2)


def timed(notebook: Path) -> dict:
    """One notebook, run once; a `RuntimeError` with papermill's last words if it fails."""
    plain = {k: v for k, v in os.environ.items() if k not in THREADS}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "papermill", notebook, "out.ipynb", "-k", "python3"]
        before, ours, began = busy(), worked(), time.monotonic()
        done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True)
        wall, cpu, after = time.monotonic() - began, worked() - ours, busy()
    if done.returncode:
        raise RuntimeError(f"{notebook.name} did not run:\n{done.stderr[-2000:]}")
    found = {"seconds": round(wall, 1), "cpu": round(cpu, 1)}
    if before is not None:
        found["others"] = others(after - before, cpu, wall, os.cpu_count() or 1)
    return found


def stamp(notebook: Path) -> dict:
    """What a time is of."""
    digest = hashlib.sha256(notebook.read_bytes()).hexdigest()[:16]
    return {"notebook": digest, "machine": machine(), "cores": os.cpu_count()}


def line(stem: str, r: dict) -> str:
    """A notebook's times, for a reader."""
    said = f"{stem:26} {r['seconds']:7.1f} s, {r['cpu']:6.1f} s of processors"
    return said + (f", others had {r['others']:.0%} of the machine" if "others" in r else "")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notebooks", description=__doc__)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="as 04e; all by default")
    parser.add_argument("--json", type=Path, required=True, help="file to write, and to go on from")
    asked = parser.parse_args()
    known = json.loads(asked.json.read_text()) if asked.json.exists() else {}
    copies.make()
    for stem in map(parameters.find, asked.chapters or parameters.names()):
        notebook = copies.folder() / f"{stem}.ipynb"
        what = stamp(notebook)
        if not what.items() <= known.get(stem, {}).items():
            known[stem] = timed(notebook) | what | {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
            asked.json.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
        print(line(stem, known[stem]), flush=True)
    slowest = max(known, key=lambda stem: known[stem]["seconds"])
    print(f"the longest of {len(known)}: {line(slowest, known[slowest])}")


if __name__ == "__main__":
    main()
