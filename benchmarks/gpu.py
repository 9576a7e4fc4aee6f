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


def device_name(device: str) -> str:
    """Return the name of the device's model."""
    return torch.cuda.get_device_name() if device == "cuda" else machine()


def synchronised_time() -> float:
    """Wait until the GPU is idle, and return the time in seconds."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def time_run(task, method: str, rounds: int, device: str):
    """Train, evaluate once at the end, and return the history and the seconds of a round."""
    federation = partition.dirichlet(task.train_y, CLIENTS, 0.1, 0)
    how = {"clients_per_round": COHORT, "seed": 0, "eval_every": rounds, "device": device}
    simulation.run(task, federation, methods.get(method), rounds=1, **how)  # pays what is paid once
    began = synchronised_time()
    history = simulation.run(task, federation, methods.get(method), rounds=rounds, **how)
    return history, (synchronised_time() - began) / rounds


def first_difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> int | None:
    """Return the first round whose cohorts differ, or None."""
    pairs = zip(ours, theirs, strict=True)
    return next((t for t, (a, b) in enumerate(pairs, 1) if not np.array_equal(a, b)), None)


def compare_with_cpu(task, method: str, rounds: int, device: str) -> dict:
    """Run one method on the device and on the CPU."""
    on_cpu, slow = time_run(task, method, rounds, "cpu")
    on_device, fast = time_run(task, method, rounds, device)
    gap = float(on_device.frame.test_accuracy.iloc[-1] - on_cpu.frame.test_accuracy.iloc[-1])
    different = first_difference(on_cpu.cohorts, on_device.cohorts)
    return {
        "what": "beside the CPU",
        "task": task.name,
        "method": method,
        "rounds": rounds,
        "seconds_cpu": slow,
        "seconds_device": fast,
        "cohorts_differ_in": different,
        "accuracy_gap": gap,
        "parameters_gap": float(np.abs(on_device.params - on_cpu.params).max()),
        "good": different is None and abs(gap) <= POINTS,
    }


def time_chapter(device: str, profile: str) -> dict:
    """Execute chapter 5 on the device; its page is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        page = chapters.run("05", {"device": device}, profile, Path(folder) / "page.ipynb")
        block = chapters.provenance(page)
    facts = {k: block[k] for k in ("seconds", "device", "profile", "command")}
    return {"what": "chapter 5", **facts, "good": block["device"].startswith(device)}


def product_rate(device: str, rows: int = 4096) -> float:
    """Measure the multiply-adds a second of large float32 matrix products on the device, by the wall."""
    a = torch.rand(rows, rows, device=device)
    taken = []
    for _ in range(4):  # the first warms up
        began = synchronised_time()
        a @ a
        taken.append(synchronised_time() - began)
    return rows**3 / float(np.median(taken[1:]))


def load_cifar100():
    """Load CIFAR-100, or make a task of random images of its shape."""
    if (tasks.data_folder() / "cifar100.npz").exists():
        return tasks.load("cifar100")
    x, y, source = images("cifar100", 60_000)
    blank = tasks.load("digits")
    parts = {
        "train_x": x[:50_000],
        "train_y": y[:50_000],
        "test_x": x[50_000:],
        "test_y": y[50_000:],
    }
    return replace(blank, name=source, classes=100, digest=source, network="convolutional", **parts)


def time_restratification(task, device: str, rounds: int) -> dict:
    """Time FedSTaS with new strata in each round, beside the bound of its arithmetic: the
    multiply-adds of all gradients and of the cohort's steps at the rate of matrix products on the device."""
    method = methods.get("fedstas")
    _, per_round = time_run(task, "fedstas", rounds, device)
    images_ = len(task.train_y) + COHORT * method.local.steps * method.local.batch
    bound = rounds * images_ * CNN / product_rate(device)
    return {
        "what": "re-stratified",
        "task": task.name,
        "rounds": rounds,
        "seconds": rounds * per_round,
        "bound": bound,
        "good": True,
    }


def run_checks(device: str, quick: bool):
    """Make each check in turn."""
    mnist = tasks.data_folder() / "mnist.npz"
    for task in map(
        tasks.load, ["digits", "mnist"] if mnist.exists() and not quick else ["digits"]
    ):
        for method in METHODS:
            yield compare_with_cpu(task, method, 2 if quick else ROUNDS[task.name], device)
    if not quick:
        yield time_chapter(device, "laptop" if mnist.exists() else "quick")
        yield time_restratification(load_cifar100(), device, LONG)


def main() -> int:
    """Run the command; 0 if all is well, 1 if a check failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="digits alone, two rounds")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(" ".join(NONE.format(LONG=LONG, file=options.json).split()), file=sys.stderr)
        return 2
    report = {
        "device": device_name(options.device),
        "cpu": machine(),
        "torch": version("torch"),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "quick": options.quick,
        "checks": [],
    }
    for check in run_checks(options.device, options.quick):
        report["checks"].append(check)
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(
            "ok  " if check["good"] else "BAD ",
            {k: v for k, v in check.items() if k != "good"},
            flush=True,
        )
    print("\n" + gpu_section(report))
    return int(not all(check["good"] for check in report["checks"]))


if __name__ == "__main__":
    sys.exit(main())
