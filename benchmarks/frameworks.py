"""The identical round in Flower's simulation, in pfl-research, compiled by JAX and by torch.

All run in a process of the interpreter that has them (`--bench-python`, extra `bench`), with our engine
timed between their rounds, in that process; a framework that is not there is named in one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import entry
from benchmarks.workloads import problem

ROOT = Path(__file__).resolve().parents[1]
MODULES = {"flower": ("flwr", "ray"), "pfl": ("pfl",), "jax": ("jax",), "compile": ("torch",)}
# Each framework's module, and the CPUs that Flower gives a client: two by default.
SIDES = {
    "jax": ["jax"],
    "compile": ["compile"],
    "pfl": ["pfl"],
    "flower": ["flower", "1"],
    "flower-default": ["flower", "2"],
}


def missing(python: str, framework: str) -> str:
    """Return the module that an interpreter lacks for the framework, or ""."""
    for module in MODULES[framework]:
        code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
        if subprocess.run([python, "-c", code], capture_output=True).returncode:
            return module
    return ""


def framework(name: str, data: str, python: str, quick: bool) -> list[dict]:
    """Time rounds of one of `SIDES` on MNIST or CIFAR shapes, ours in between."""
    side, *cpus = SIDES[name]
    title = f"round-{'mnist' if data == 'mnist' else 'cifar'}"
    lacking = missing(python, side)
    if lacking:
        print(
            f"{title} against {name}: skipped, {lacking} is not in {Path(python).name}'s environment "
            "(install the extra `bench` there, or give --bench-python)",
            file=sys.stderr,
        )
        return []
    p = problem(data)
    m, steps, batch = p.idx.shape
    rounds = 4 if quick else 31 if data == "mnist" else 10
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        np.save(where / "x.npy", p.data.x.numpy())
        np.save(where / "y.npy", p.data.y.numpy())
        np.save(where / "idx.npy", p.idx)
        np.save(where / "offsets.npy", p.data.offsets)
        process = subprocess.run(
            [python, "-m", f"benchmarks.{side}_side", data, str(where), str(rounds), *cpus],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=900,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0"},
        )
        if not (where / "seconds.json").exists():
            raise RuntimeError(f"{name} did not finish its rounds:\n{process.stderr[-3000:]}")
        taken = json.loads((where / "seconds.json").read_text(encoding="utf-8"))
    what = f"{p.what}, cohort {m}, {steps} steps of {batch}; the first round left out"
    what += f"; threads of a client: {cpus[0]}" if cpus else ""
    ours, theirs = taken["ours"][1:], taken["theirs"][1:]
    return [entry(title, name, ours, theirs, what, version=taken["version"])]
