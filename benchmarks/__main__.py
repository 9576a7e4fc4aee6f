"""`python -m benchmarks [NAME ...] [--quick] --json FILE`: seconds of others over seconds of ours.

Each ratio is taken within one run: both sides run in turn, on one thread, on the same input, after it was
checked that they compute the same; the ratio is of medians, its range over the repeats. float32, evaluation
excluded unless said. MNIST is real where FEDSTAS_DATA holds it, else random images of its shape.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks import frameworks, rounds, scale, squeezing, strata, whole_rounds

BENCHMARKS = {
    "round-mnist": rounds.round_mnist,
    "round-cifar": rounds.round_cifar,
    "gradients": rounds.gradients,
    "squeeze": squeezing.squeezing,
    "restratify": whole_rounds.restratify,
    "authors": whole_rounds.authors,
    "scale": scale.scale,
    "strata": strata.strata,
    "speed": whole_rounds.every_method,
}
OTHERS = {"round-mnist": "mnist", "round-cifar": "cifar10"}  # also in Flower and in pfl


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller input")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    parser.add_argument(
        "--bench-python",
        default=sys.executable,
        metavar="PYTHON",
        help="the interpreter that has Flower and pfl-research (extra `bench`); default: this one",
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r}: use one of {', '.join(BENCHMARKS)}")
    torch.set_num_threads(1)
    stamp = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "torch": version("torch"),
        "quick": options.quick,
    }
    results = []
    with threadpool_limits(1):
        for name in options.names or BENCHMARKS:
            results += BENCHMARKS[name](options.quick)
            for other in frameworks.SIDES if name in OTHERS else ():
                results += frameworks.framework(
                    other, OTHERS[name], options.bench_python, options.quick
                )
            options.json.write_text(
                json.dumps([r | stamp for r in results], indent=1) + "\n", encoding="utf-8"
            )
    for r in results:
        if r["low"] is not None:
            spread = f"{r['ratio']:.2f} ({r['low']:.2f} to {r['high']:.2f})"
            print(f"{r['name']} against {r['against']}: {spread}; {r['workload']}")


if __name__ == "__main__":
    main()
