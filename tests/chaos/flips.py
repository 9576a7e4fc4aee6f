"""One flipped bit in what is recorded or downloaded: a clear refusal, or what is read is as before.

Tables of `results/`, tables and single files of a sweep made on the spot, and the npz of a data set.
"""

import hashlib
import random
import shutil
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
    """All that readers get: each run's note and frame, and the frame of all."""
    runs = [(run.metadata, run.frame()) for run in records.read_runs(folder)]
    return [*runs, (None, records.load(folder)), (None, records.details(folder))]


def read_data(folder: Path) -> list:
    """A task's tensors and digest, as a frame each."""
    tasks.DIGESTS["mnist"] = digests(folder.parent / "digests.npz")
    task = tasks.load("mnist", root=folder)
    frames = [pd.DataFrame(getattr(task, key).numpy().reshape(-1)) for key in tasks.KEYS]
    return [({"digest": task.digest, "classes": task.classes}, frame) for frame in frames]


def digests(kept: Path) -> dict:
    """Of the arrays as they were made."""
    with np.load(kept) as file:
        return {key: hashlib.sha256(file[key].tobytes()).hexdigest() for key in tasks.KEYS}


def same(found: list, before: list) -> bool:
    """Whether all that was said before is said, and nothing else of it."""
    if len(found) != len(before):
        return False
    for (note, frame), (known, expected) in zip(found, before, strict=True):
        if not frame.equals(expected) or list(frame.dtypes) != list(expected.dtypes):
            return False
        if known is not None and {key: note.get(key) for key in known} != known:
            return False
    return True


def prepare(place: Path) -> dict:
    """The untouched sources below `place`: by name, the folder and its reader."""
    arms = [("md", {}), ("fedstas-dp", {"strata": 2}), ("md", {"lr": 1e30})]
    todo = [sweeps.Run("digits", "dirichlet", 0.1, m, 0, o, **SMALL) for m, o in arms]
    todo += [sweeps.Run("digits", "by_class", 0.1, "md", 0, size=10, **SMALL)]
    for name in ("single", "packed"):
        sweeps.make(todo, "trial", folder=place / name, device="cpu", progress=False)
    records.pack(place / "packed" / "trial")
    for name in TABLES:
        shutil.copytree(ROOT / "results" / name, place / name / name)
    rng = np.random.default_rng(0)
    arrays = {
        f"{part}_{key}": rng.integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)
        if key == "x"
        else np.arange(n, dtype=np.int64) % 10
        for part, n in (("train", 120), ("test", 30))
        for key in "xy"
    }
    (place / "data").mkdir()
    np.savez(place / "data" / "mnist.npz", **arrays)
    np.savez(place / "digests.npz", **arrays)
    return dict.fromkeys(("single", "packed", *TABLES), read_results) | {"data": read_data}


def flip(place: Path, readers: dict, seed: int, number: int) -> tuple[str, str]:
    """The flip of that number: the file and bit, and what came of it (`refused`, `same`, or else)."""
    chance = random.Random(f"{seed} {number}")
    name = chance.choice([*readers])
    source = place / name
    file = chance.choice(sorted(p for p in source.rglob("*") if p.is_file()))
    content = bytearray(file.read_bytes())
    byte, bit = chance.randrange(len(content)), chance.randrange(8)
    content[byte] ^= 1 << bit
    where = f"{file.relative_to(place)}, byte {byte}, bit {bit}"
    folder = place / f"flipped-{number}"
    shutil.copytree(source, folder)
    (folder / file.relative_to(source)).write_bytes(content)
    try:
        found = readers[name](folder)
    except InputError as error:
        clear = str(folder) in str(error) and "\n" not in str(error)
        return where, "refused" if clear else f"not a clear sentence: {error}"
    except Exception as error:
        return where, f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
    return where, "same" if same(found, readers[name](source)) else "another value is read"


def batch(place: Path, readers: dict, seed: int, numbers: list[int]) -> list[tuple[str, str]]:
    """Some flips, in one child."""
    return [flip(place, readers, seed, number) for number in numbers]


def main(count: int, seed: int, place: Path) -> dict:
    """Flip `count` bits, one at a time. A failure names its flip: `flip(place, readers, seed, number)`."""
    place.mkdir(parents=True)
    readers = child.call(prepare, place)
    outcomes = {}
    for low in range(0, count, BATCH):
        numbers = [*range(low, min(low + BATCH, count))]
        try:
            found = child.call(batch, place, readers, seed, numbers)
        except ChildProcessError:  # one of them killed the reader: which?
            found = []
            for number in numbers:
                try:
                    found += child.call(batch, place, readers, seed, [number], seconds=60)
                except ChildProcessError as error:
                    found.append(("", f"the reader died: {error}"))
        outcomes |= dict(zip(numbers, found, strict=True))
    kinds = ["refused", "same"]
    return {
        "flips": count,
        "by_outcome": {kind: sum(o[1] == kind for o in outcomes.values()) for kind in kinds},
        "failures": [
            {"number": number, "seed": seed, "where": where, "wrong": said}
            for number, (where, said) in outcomes.items()
            if said not in kinds
        ],
    }
