"""Failures caused on purpose: `make chaos`, `make chaos-quick`, or `python tests/chaos FIGURES.json`.

Processes are killed while they record (`kills`), bits of recorded files are flipped (`flips`), and functions and
commands are called with extreme and wrong arguments (`fuzz`). Not among the tests, for it takes half an hour and the
moments of kills are random: the figures say how many trials were made, and each failure names what repeats it. Exit
code 1 if there is one.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import flips
import fuzz
import kills

from companion.runs.provenance import environment


def main() -> int:
    """Run all parts, one after another, and write one file of figures."""
    parser = argparse.ArgumentParser(prog="python tests/chaos", description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="the figures, as JSON")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--calls", type=int, default=5000, help="of functions, with any arguments")
    parser.add_argument("--commands", type=int, default=1000, help="command lines, with any words")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of a part: it ends early after these"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder, seed = Path(temporary), options.seed
        parts = {
            "kills": lambda end: kills.main(options.kills, seed, folder / "kills", end),
            "flips": lambda end: flips.main(options.flips, seed, folder / "flips", end),
            "fuzz": lambda end: fuzz.main(options.calls, options.commands, seed, end),
        }
        about = environment("cpu", 1) | {"date": time.strftime("%Y-%m-%d"), "seed": seed}
        figures: dict = {"about": about}
        for name, part in parts.items():
            start = time.monotonic()
            figures[name] = part(start + options.seconds)
            figures[name]["seconds"] = round(time.monotonic() - start)
            short = {k: len(v) if isinstance(v, list) else v for k, v in figures[name].items()}
            print(f"{name}: {json.dumps(short)}", flush=True)
            options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    failures = [failure for part in figures.values() for failure in part.get("failures", [])]
    for failure in failures:
        print(f"failure: {failure}", flush=True)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
