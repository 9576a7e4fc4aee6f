"""Sweeps, packing and the writing of pages, killed at random moments and started again.

After the last start of each trial the results are those of an undisturbed one, bit for bit; no
checkpoint, lock or half-written file is left, and no process. Linux, for `fork` and `/proc`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import child
import nbformat

from companion.pages import copies
from companion.runs import atomic, experiments, records

MOST = 4  # kills in one folder, before it is finished
PATIENCE = 120.0  # s for processes to end, on a machine that is busy with other things


def sweep(folder: Path, jobs: int = 1) -> None:
    """The sweep of all trials: twelve runs on digits."""
    how = {"jobs": jobs, "device": "cpu", "progress": False}
    failed = experiments.sweep("preprint", "quick", folder=folder, **how)
    assert not failed, failed


def results(folder: Path) -> dict:
    """By run: the hash of its values and that of its cohorts."""
    return {
        run.run: (records.hash_values(run.columns()), run.metadata["cohorts_sha256"])
        for run in records.read_runs(folder)
    }


def timed(work, *arguments) -> float:
    """Seconds of a child that is not disturbed."""
    began = time.monotonic()
    code = child.ended(child.start(work, *arguments, output=Path(os.devnull)))
    assert code == 0, f"{work.__name__} ended with {code}"
    return time.monotonic() - began


def sign_of_life(folder: Path, ended) -> None:
    """Wait until something is written there, or `ended()`."""
    before = {*folder.rglob("*")}
    while not ended() and {*folder.rglob("*")} <= before:
        time.sleep(0.002)


def killed(work, folder: Path, *arguments, moment: float, after_sign: bool = False) -> bool:
    """Whether a child was still at work when it was killed, so many seconds after it began or wrote."""
    number = child.start(work, folder, *arguments, output=Path(os.devnull))
    if after_sign:
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        sign_of_life(folder, lambda: os.waitid(os.P_PID, number, how))
    time.sleep(moment)
    os.kill(number, signal.SIGKILL)
    return child.ended(number) == -signal.SIGKILL


def pair_killed(folder: Path, whom: str, moment: float) -> tuple[bool, list[str]]:
    """`--jobs 2` in a session of its own; its parent or a worker killed a moment after the first file."""
    command = [sys.executable, "-m", "fedstas.cli", "sweep", "preprint", "--jobs", "2"]
    command += ["--folder", str(folder)]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    parent = subprocess.Popen([*command, "--device", "cpu"], start_new_session=True, **silent)
    sign_of_life(folder, lambda: parent.poll() is not None)
    time.sleep(moment)
    workers = [n for n, words in child.of_session(parent.pid) if "--process-name Loky" in words]
    victim = parent.pid if whom == "parent" else next(iter(workers), parent.pid)
    was = parent.poll() is None
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        was = False
    deadline, wrong = time.monotonic() + PATIENCE, []
    while (parent.poll() is None or child.of_session(parent.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left := child.of_session(parent.pid):
        wrong.append(f"{len(left)} processes go on: {left}")
        for number, _ in left:
            os.kill(number, signal.SIGKILL)
    parent.wait()
    return was, wrong


def hidden(folder: Path) -> list[str]:
    """What no folder of results should hold."""
    return [p.relative_to(folder).as_posix() for p in folder.rglob(".*")]


def finished(folder: Path, expected: dict, files: set[str]) -> list[str]:
    """What is wrong with a sweep's folder after a start that nothing disturbed."""
    code = child.ended(child.start(sweep, folder, output=folder.with_suffix(".log")))
    wrong = [f"the last start ended with {code}"] if code else []
    found = child.call(results, folder)
    wrong += [f"the results are others: {found}"] if found != expected else []
    there = {p.name for p in (folder / "preprint").iterdir()}
    wrong += [f"the files are others: {there ^ files}"] if there != files else []
    return wrong


def packs(folder: Path, expected: dict, chance: random.Random, longest: float) -> tuple[int, list]:
    """Packing it, killed once, then finished: how often it was at work then, and what is wrong."""
    where = folder / "preprint"
    count = killed(records.pack, where, moment=chance.uniform(0, longest))
    wrong = []
    if child.call(results, folder) != expected:
        wrong.append("a killed pack changed the results")
    code = child.ended(child.start(records.pack, where, output=folder.with_suffix(".log")))
    wrong += [f"the second pack ended with {code}"] if code else []
    wrong += ["packed results are others"] if child.call(results, folder) != expected else []
    there = {p.name for p in where.iterdir()}
    wrong += [f"packed files are others: {there}"] if there != {records.ROWS, records.RUNS} else []
    return count, wrong


def page(path: Path, notebook: Path) -> None:
    """Write an executed chapter's page as `fedstas chapter` does, again and again."""
    content = nbformat.read(notebook, as_version=4)
    for _ in range(20):
        atomic.write(path, lambda partial: nbformat.write(content, partial))


def pages(folder: Path, chance: random.Random, longest: float) -> tuple[int, list]:
    """A page whose writing is killed is whole or absent, and the next writing leaves it alone there."""
    notebook = folder.parent / f"{folder.name}-source.ipynb"
    notebook.write_text(copies.text("04b"), encoding="utf-8")
    path = folder / "page.ipynb"
    count = killed(page, path, notebook, moment=chance.uniform(0, longest))
    wrong = []
    if path.exists() and nbformat.read(path, as_version=4) != nbformat.read(notebook, 4):
        wrong.append("the page is damaged")
    timed(page, path, notebook)
    if (left := [p.name for p in folder.iterdir()]) != [path.name]:
        wrong.append(f"beside the page lie {left}")
    return count, wrong


def main(count: int, seed: int, place: Path) -> dict:
    """Kill `count` times: most in sweeps of one process, some each in the parent and a
    worker of two, and in packing or writing pages. `midway` are those that left a sweep unfinished. A
    failure names seed and trial, which make it again as far as moments can be made again."""
    base = place / "undisturbed"
    base.mkdir(parents=True)
    began = time.monotonic()
    number = child.start(sweep, base, output=Path(os.devnull))
    sign_of_life(base, lambda: False)
    sign = time.monotonic()
    assert child.ended(number) == 0, "the undisturbed sweep failed"
    longest, writing = time.monotonic() - began, time.monotonic() - sign
    expected, files = child.call(results, base), {p.name for p in (base / "preprint").iterdir()}
    copy = shutil.copytree(base, place / "pack")
    longest_pack = timed(records.pack, copy / "preprint")
    done = dict.fromkeys(("one", "parent", "worker", "pack", "page"), 0)
    too_late, midway, failures, number = 0, 0, [], 0
    while sum(done.values()) < count:
        chance = random.Random(f"{seed} {number}")
        folder = place / f"trial-{number}"
        folder.mkdir()
        kinds = chance.choices(["one", "parent", "worker"], [6, 1, 1], k=chance.randint(1, MOST))
        wrong = []
        for kind in kinds[: count - sum(done.values())]:
            if kind == "one":
                early = chance.random() < 0.3
                moment = chance.uniform(0, longest if early else writing / 2)
                was = killed(sweep, folder, moment=moment, after_sign=not early)
            else:
                was, said = pair_killed(folder, kind, chance.uniform(0, writing / 4))
                wrong += said
            midway += was and {p.name for p in (folder / "preprint").glob("*")} != files
            done[kind] += was
            too_late += not was
        wrong += finished(folder, expected, files)
        if number % 3 == 0:
            was, said = packs(folder, expected, chance, longest_pack)
            done["pack"] += was
            wrong += said
        if number % 4 == 0:
            (folder / "page").mkdir()
            was, said = pages(folder / "page", chance, 0.3)
            done["page"] += was
            wrong += said
            shutil.rmtree(folder / "page")
        if left := hidden(folder):
            wrong.append(f"left: {left}")
        if wrong:
            failures.append({"trial": number, "seed": seed, "kinds": kinds, "wrong": wrong})
        else:
            shutil.rmtree(folder)
        number += 1
    return {
        "kills": sum(done.values()), "by_kind": done, "midway": midway, "too_late": too_late, "folders": number,
        "failures": failures,
    }  # fmt: skip
