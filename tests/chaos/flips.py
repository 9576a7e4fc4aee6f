"""One flipped bit in recorded or downloaded files: readers refuse the file by name, or read what they read before.

The files are tables of `results/`, the tables and the single files of a small sweep, and the npz of a data set.
"""

import hashlib
import random
import shutil
import time
from pathlib import Path

import child
import numpy as np
import pandas as pd

from companion.runs import records, sweeps
from companion.runs.experiments import SMALL
from fedstas.errors import InputError
from fedstas.sim import tasks

ROOT = Path(__file__).parents[2]
TABLES = ("imbalance", "cifar100")  # of `results/`: small ones, of several shapes
BATCH = 25  # flips of one child


def read_results(folder: Path) -> list:
    """Return all that readers get: each run's metadata and frame, and the frame of all."""
    runs = [(run.metadata, run.frame()) for run in records.read_runs(folder)]
    return [*runs, (None, records.load(folder)), (None, records.details(folder))]


def read_data(folder: Path) -> list:
    """Return a task's tensors, a frame each, with its digest."""
    tasks.DIGESTS["mnist"] = digests(folder.parent / "digests.npz")
    task = tasks.load("mnist", root=folder)
    frames = [pd.DataFrame(getattr(task, key).numpy().reshape(-1)) for key in tasks.KEYS]
    return [({"digest": task.digest, "classes": task.classes}, frame) for frame in frames]


def digests(intact: Path) -> dict:
    """Return the digests of the intact arrays."""
    with np.load(intact) as file:
        return {key: hashlib.sha256(file[key].tobytes()).hexdigest() for key in tasks.KEYS}


def equal(result: list, expected: list) -> bool:
    """Whether frames are equal, and metadata where they are expected."""
    if len(result) != len(expected):
        return False
    for (metadata, frame), (expected_metadata, expected_frame) in zip(
        result, expected, strict=True
    ):
        if not frame.equals(expected_frame) or list(frame.dtypes) != list(expected_frame.dtypes):
            return False
        if expected_metadata and metadata != metadata | expected_metadata:
            return False
    return True


def prepare(work_folder: Path) -> dict:
    """Write the intact sources below `work_folder`; returns the reader of each folder."""
    methods_and_settings = [("md", {}), ("fedstas-dp", {"strata": 2}), ("md", {"lr": 1e30})]
    todo = [
        sweeps.Run("digits", "dirichlet", 0.1, method, 0, settings, **SMALL)
        for method, settings in methods_and_settings
    ]
    todo += [sweeps.Run("digits", "by_class", 0.1, "md", 0, size=10, **SMALL)]
    for name in ("single", "packed"):
        sweeps.make(todo, "trial", folder=work_folder / name, device="cpu", progress=False)
    records.pack(work_folder / "packed" / "trial")
    for name in TABLES:
        shutil.copytree(ROOT / "results" / name, work_folder / name / name)
    rng = np.random.default_rng(0)
    arrays = {
        f"{part}_{key}": rng.integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)
        if key == "x"
        else np.arange(count, dtype=np.int64) % 10
        for part, count in (("train", 120), ("test", 30))
        for key in "xy"
    }
    (work_folder / "data").mkdir()
    np.savez(work_folder / "data" / "mnist.npz", **arrays)
    np.savez(work_folder / "digests.npz", **arrays)
    return dict.fromkeys(("single", "packed", *TABLES), read_results) | {"data": read_data}


def flip(work_folder: Path, readers: dict, seed: int, number: int) -> tuple[str, str]:
    """Flip the bit of that number; returns its file and place, and the outcome: `refused`, `same`, or a failure."""
    choices = random.Random(f"{seed} {number}")
    name = choices.choice([*readers])
    source = work_folder / name
    file = choices.choice(sorted(p for p in source.rglob("*") if p.is_file()))
    content = bytearray(file.read_bytes())
    byte, bit = choices.randrange(len(content)), choices.randrange(8)
    content[byte] ^= 1 << bit
    place_of_bit = f"{file.relative_to(work_folder)}, byte {byte}, bit {bit}"
    folder = work_folder / f"flipped-{number}"
    shutil.copytree(source, folder)
    (folder / file.relative_to(source)).write_bytes(content)
    try:
        result = readers[name](folder)
    except InputError as error:
        names_the_file = str(folder) in str(error) and "\n" not in str(error)
        return place_of_bit, "refused" if names_the_file else f"not a clear sentence: {error}"
    except Exception as error:
        return place_of_bit, f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
    return place_of_bit, "same" if equal(result, readers[name](source)) else "another value is read"


def flip_batch(
    work_folder: Path, readers: dict, seed: int, numbers: list[int]
) -> list[tuple[str, str]]:
    """Flip several bits, one at a time, in one child."""
    return [flip(work_folder, readers, seed, number) for number in numbers]


def main(count: int, seed: int, work_folder: Path, end: float) -> dict:
    """Flip `count` bits, one at a time, until `end` of the monotonic clock.

    A failure names what repeats it: `flip(work_folder, readers, seed, number)`.
    """
    work_folder.mkdir(parents=True)
    readers = child.call(prepare, work_folder)
    outcomes = {}
    for low in range(0, count, BATCH):
        if time.monotonic() > end:
            break
        numbers = [*range(low, min(low + BATCH, count))]
        try:
            results = child.call(flip_batch, work_folder, readers, seed, numbers)
        except ChildProcessError:  # one of them killed the reader: which?
            results = []
            for number in numbers:
                try:
                    results += child.call(
                        flip_batch, work_folder, readers, seed, [number], seconds=60
                    )
                except ChildProcessError as error:
                    results.append(("", f"the reader died: {error}"))
        outcomes |= dict(zip(numbers, results, strict=True))
    kinds = ["refused", "same"]
    return {
        "flips": len(outcomes),
        "by_outcome": {kind: sum(o[1] == kind for o in outcomes.values()) for kind in kinds},
        "failures": [
            {"number": number, "seed": seed, "where": place_of_bit, "wrong": outcome}
            for number, (place_of_bit, outcome) in outcomes.items()
            if outcome not in kinds
        ],
    }
