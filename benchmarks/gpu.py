"""`make gpu`: the simulator on a GPU beside the CPU: the same cohorts and accuracies, and seconds a round.

`python -m benchmarks.gpu --json FILE [--device cuda|cpu] [--quick]`. Both sides compute the same runs of
`simulation.run`; the GPU must draw the cohorts that the CPU draws, in every round, and end within half a
point of its accuracy. Then chapter 5 is executed on the GPU, and CIFAR-100 is trained for the paper's rounds,
all clients' gradients squeezed and clustered anew in each. `--device cpu` is the same with the CPU in the
GPU's place: it shows that the check itself runs. Data sets that are not here are replaced by random images
of their shape, and said to be. `python -m benchmarks.page` then shows what was found in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from benchmarks.page import gpu_section
from benchmarks.rounds import CNN
from benchmarks.timing import machine
from benchmarks.workloads import images
from companion.pages import chapters
from fedstas import methods
from fedstas.sim import partition, simulation, tasks

POINTS = 0.005  # of accuracy that a GPU's other roundings may make
METHODS = ("md", "fedadam", "fedstas", "fedstas-unbiased", "fedstas-least-variance", "mifa")
CLIENTS, COHORT, ROUNDS = 100, 10, {"digits": 30, "mnist": 20}
LONG = 199  # rounds of CIFAR-100, as the journal version has them
NONE = """no CUDA device here. With one, `make gpu` trains digits and MNIST on it and on the CPU (equal cohorts,
accuracy within half a point, seconds a round), executes chapter 5, and times {LONG} rounds of CIFAR-100; it writes
{file}. `make gpu ARGS="--device cpu --quick"` tries the check itself on the CPU."""


def name(device: str) -> str:
    """What the device is called."""
    return torch.cuda.get_device_name() if device == "cuda" else machine()


def synchronised() -> float:
    """The clock, once the GPU has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def trained(task, method: str, rounds: int, device: str):
    """The history of a run that is measured once, at its end, and its seconds a round."""
    federation = partition.dirichlet(task.train_y, CLIENTS, 0.1, 0)
    how = {"clients_per_round": COHORT, "seed": 0, "eval_every": rounds, "device": device}
    simulation.run(task, federation, methods.get(method), rounds=1, **how)  # what is done once only
    began = synchronised()
    history = simulation.run(task, federation, methods.get(method), rounds=rounds, **how)
    return history, (synchronised() - began) / rounds


def differs(ours: list[np.ndarray], theirs: list[np.ndarray]) -> int | None:
    """The first round with another cohort, or None."""
    pairs = zip(ours, theirs, strict=True)
    return next((t for t, (a, b) in enumerate(pairs, 1) if not np.array_equal(a, b)), None)


def beside(task, method: str, rounds: int, device: str) -> dict:
    """One method on the device and on the CPU."""
    here, slow = trained(task, method, rounds, "cpu")
    there, fast = trained(task, method, rounds, device)
    gap = float(there.frame.test_accuracy.iloc[-1] - here.frame.test_accuracy.iloc[-1])
    other = differs(here.cohorts, there.cohorts)
    return {
        "what": "beside the CPU", "task": task.name, "method": method, "rounds": rounds,
        "seconds_cpu": slow, "seconds_device": fast, "cohorts_differ_in": other, "accuracy_gap": gap,
        "parameters_gap": float(np.abs(there.params - here.params).max()),
        "good": other is None and abs(gap) <= POINTS,
    }  # fmt: skip


def chapter(device: str, profile: str) -> dict:
    """Chapter 5 executed on the device; its page is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        page = chapters.run("05", {"device": device}, profile, Path(folder) / "page.ipynb")
        block = chapters.provenance(page)
    said = {k: block[k] for k in ("seconds", "device", "profile", "command")}
    return {"what": "chapter 5", **said, "good": block["device"].startswith(device)}


def product_rate(device: str, rows: int = 4096) -> float:
    """Multiply-adds a second of large float32 matrix products on the device, by the wall."""
    a = torch.rand(rows, rows, device=device)
    taken = []
    for _ in range(4):  # the first warms up
        began = synchronised()
        a @ a
        taken.append(synchronised() - began)
    return rows**3 / float(np.median(taken[1:]))


def cifar100():
    """CIFAR-100, or a task of random images of its shape."""
    if (tasks.data_folder() / "cifar100.npz").exists():
        return tasks.load("cifar100")
    x, y, said = images("cifar100", 60_000)
    blank = tasks.load("digits")
    parts = {
        "train_x": x[:50_000],
        "train_y": y[:50_000],
        "test_x": x[50_000:],
        "test_y": y[50_000:],
    }
    return replace(blank, name=said, classes=100, digest=said, network="convolutional", **parts)


def restratified(task, device: str, rounds: int) -> dict:
    """FedSTaS on a task of its images, strata made anew in each round, beside the bound of its arithmetic: the
    multiply-adds of all gradients and of the cohort's steps at the rate of matrix products on the device."""
    method = methods.get("fedstas")
    _, each = trained(task, "fedstas", rounds, device)
    images_ = len(task.train_y) + COHORT * method.local.steps * method.local.batch
    bound = rounds * images_ * CNN / product_rate(device)
    return {
        "what": "re-stratified", "task": task.name, "rounds": rounds, "seconds": rounds * each,
        "bound": bound, "good": True,
    }  # fmt: skip


def checks(device: str, quick: bool):
    """Each check in turn."""
    here = tasks.data_folder() / "mnist.npz"
    for task in map(tasks.load, ["digits", "mnist"] if here.exists() and not quick else ["digits"]):
        for method in METHODS:
            yield beside(task, method, 2 if quick else ROUNDS[task.name], device)
    if not quick:
        yield chapter(device, "laptop" if here.exists() else "quick")
        yield restratified(cifar100(), device, LONG)


def main() -> int:
    """The command; 0 if all is well, 1 if a check failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="digits alone, two rounds")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        print(" ".join(NONE.format(LONG=LONG, file=asked.json).split()), file=sys.stderr)
        return 2
    found = {
        "device": name(asked.device), "cpu": machine(), "torch": version("torch"),
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": asked.quick, "checks": [],
    }  # fmt: skip
    for made in checks(asked.device, asked.quick):
        found["checks"].append(made)
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
        print("ok  " if made["good"] else "BAD ", {k: v for k, v in made.items() if k != "good"}, flush=True)  # fmt: skip
    print("\n" + gpu_section(found))
    return int(not all(made["good"] for made in found["checks"]))


if __name__ == "__main__":
    sys.exit(main())
