"""Processes killed at random moments while they record: nothing is lost, and the next start finishes.

Sweeps of one process, the parent or a worker of two, `fedstas pack`, and the writing of a page. After the kills an
undisturbed start must end in the files and results of a sweep that nothing disturbed, with no checkpoint, lock or
partly written file, and no process. Linux, for `fork` and `/proc`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import child
import nbformat

from companion.pages import copies
from companion.runs import atomic, experiments, records

# At most so many kills of a sweep in one folder, before a start that nothing disturbs.
KILLS_PER_FOLDER = 4
TIMEOUT = 120.0  # s for processes to end, on a machine that is busy with other things
NO_OUTPUT = Path(os.devnull)


def record_sweep(folder: Path) -> None:
    """Record the sweep that every trial kills: twelve runs on digits."""
    options = {"jobs": 1, "device": "cpu", "progress": False}
    failed = experiments.sweep("preprint", "quick", folder=folder, **options)
    assert not failed, failed


def hash_runs(folder: Path) -> dict[str, tuple[str, str]]:
    """Return by run the hash of its values and that of its cohorts."""
    return {
        record.run: (records.hash_values(record.columns()), record.metadata["cohorts_sha256"])
        for record in records.read_runs(folder)
    }


def file_names(folder: Path) -> set[str]:
    """Return the names of the files of a sweep's folder."""
    return {path.name for path in folder.glob("*")}


def time_undisturbed(work: Callable, *arguments) -> float:
    """Return the seconds of a child that nothing disturbs."""
    start = time.monotonic()
    code = child.wait(child.start(work, *arguments, output=NO_OUTPUT))
    assert code == 0, f"{work.__name__} ended with {code}"
    return time.monotonic() - start


def wait_for_file(folder: Path, ended: Callable[[], object]) -> None:
    """Wait until something is written below the folder, or until `ended()`."""
    before = {*folder.rglob("*")}
    while not ended() and {*folder.rglob("*")} <= before:
        time.sleep(0.002)


def kill_child(
    work: Callable, folder: Path, *arguments, moment: float, after_file: bool = False
) -> bool:
    """Kill a child `moment` seconds after it began, or first wrote; returns whether it was still at work."""
    process_id = child.start(work, folder, *arguments, output=NO_OUTPUT)
    if after_file:
        wait_options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        wait_for_file(folder, lambda: os.waitid(os.P_PID, process_id, wait_options))
    time.sleep(moment)
    os.kill(process_id, signal.SIGKILL)
    return child.wait(process_id) == -signal.SIGKILL


def kill_one_of_two(folder: Path, victim_kind: str, moment: float) -> tuple[bool, list[str]]:
    """Kill the parent or a worker of `--jobs 2`, `moment` seconds after the first file.

    Returns whether it was still at work, and what is wrong: workers that outlive their parent.
    """
    command = [sys.executable, "-m", "fedstas.cli", "sweep", "preprint", "--jobs", "2"]
    command += ["--folder", str(folder)]
    no_output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    parent = subprocess.Popen([*command, "--device", "cpu"], start_new_session=True, **no_output)
    wait_for_file(folder, lambda: parent.poll() is not None)
    time.sleep(moment)
    processes = child.session_processes(parent.pid)
    workers = [
        process_id
        for process_id, command_line in processes
        if "--process-name Loky" in command_line
    ]
    victim = parent.pid if victim_kind == "parent" else next(iter(workers), parent.pid)
    at_work = parent.poll() is None
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        at_work = False
    deadline, problems = time.monotonic() + TIMEOUT, []
    while (
        parent.poll() is None or child.session_processes(parent.pid)
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    if orphans := child.session_processes(parent.pid):
        problems.append(f"{len(orphans)} processes go on: {orphans}")
        for process_id, _ in orphans:
            os.kill(process_id, signal.SIGKILL)
    parent.wait()
    return at_work, problems


def check_after_restart(folder: Path, expected: dict, files: set[str]) -> list[str]:
    """Start the sweep once more, undisturbed; returns what is wrong with its folder then."""
    code = child.wait(child.start(record_sweep, folder, output=folder.with_suffix(".log")))
    problems = [f"the last start ended with {code}"] if code else []
    hashes = child.call(hash_runs, folder)
    problems += [f"the results differ: {hashes}"] if hashes != expected else []
    names = file_names(folder / "preprint")
    problems += [f"the files differ: {names ^ files}"] if names != files else []
    return problems


def kill_pack(
    folder: Path, expected: dict, rng: random.Random, seconds: float
) -> tuple[bool, list[str]]:
    """Pack a sweep, killed once within so many seconds, then again; returns whether it was still at work, and what is wrong."""
    packed = folder / "preprint"
    at_work = kill_child(records.pack, packed, moment=rng.uniform(0, seconds))
    problems = []
    if child.call(hash_runs, folder) != expected:
        problems.append("a killed pack changed the results")
    code = child.wait(child.start(records.pack, packed, output=folder.with_suffix(".log")))
    problems += [f"the second pack ended with {code}"] if code else []
    problems += ["packed results differ"] if child.call(hash_runs, folder) != expected else []
    names = file_names(packed)
    problems += [f"packed files differ: {names}"] if names != {records.ROWS, records.RUNS} else []
    return at_work, problems


def write_page(path: Path, notebook: Path) -> None:
    """Write an executed chapter's page as `fedstas chapter` does, again and again."""
    content = nbformat.read(notebook, as_version=4)
    for _ in range(20):
        atomic.write(path, lambda partial: nbformat.write(content, partial))


def kill_page(folder: Path, rng: random.Random, seconds: float) -> tuple[bool, list[str]]:
    """Write a page, killed once within so many seconds, then again; returns whether it was still at work, and what is wrong."""
    notebook = folder.parent / f"{folder.name}-source.ipynb"
    notebook.write_text(copies.text("04b"), encoding="utf-8")
    path = folder / "page.ipynb"
    at_work = kill_child(write_page, path, notebook, moment=rng.uniform(0, seconds))
    problems = []
    if path.exists() and nbformat.read(path, as_version=4) != nbformat.read(notebook, 4):
        problems.append("the page is damaged")
    time_undisturbed(write_page, path, notebook)
    if (names := file_names(folder)) != {path.name}:
        problems.append(f"beside the page lie {names}")
    return at_work, problems


def main(count: int, seed: int, work_folder: Path, end: float) -> dict:
    """Kill `count` times, or until `end` of the monotonic clock; returns the figures.

    `midway` counts kills that left a sweep unfinished. A failure names seed and trial, which repeat it as
    far as moments can be repeated.
    """
    base = work_folder / "undisturbed"
    base.mkdir(parents=True)
    start = time.monotonic()
    process_id = child.start(record_sweep, base, output=NO_OUTPUT)
    wait_for_file(base, lambda: False)
    first_file = time.monotonic()
    assert child.wait(process_id) == 0, "the undisturbed sweep failed"
    sweep_seconds, writing_seconds = time.monotonic() - start, time.monotonic() - first_file
    expected, files = child.call(hash_runs, base), file_names(base / "preprint")
    copy = shutil.copytree(base, work_folder / "pack")
    pack_seconds = time_undisturbed(records.pack, copy / "preprint")
    kills_by_kind = dict.fromkeys(("one", "parent", "worker", "pack", "page"), 0)
    too_late, midway, failures, number = 0, 0, [], 0
    while sum(kills_by_kind.values()) < count and time.monotonic() < end:
        rng = random.Random(f"{seed} {number}")
        folder = work_folder / f"trial-{number}"
        folder.mkdir()
        kinds = rng.choices(
            ["one", "parent", "worker"], [6, 1, 1], k=rng.randint(1, KILLS_PER_FOLDER)
        )
        problems = []
        for kind in kinds[: count - sum(kills_by_kind.values())]:
            if kind == "one":
                before_first_file = rng.random() < 0.3
                moment = rng.uniform(0, sweep_seconds if before_first_file else writing_seconds / 2)
                at_work = kill_child(
                    record_sweep, folder, moment=moment, after_file=not before_first_file
                )
            else:
                at_work, new_problems = kill_one_of_two(
                    folder, kind, rng.uniform(0, writing_seconds / 4)
                )
                problems += new_problems
            midway += at_work and file_names(folder / "preprint") != files
            kills_by_kind[kind] += at_work
            too_late += not at_work
        problems += check_after_restart(folder, expected, files)
        if number % 3 == 0:
            at_work, new_problems = kill_pack(folder, expected, rng, pack_seconds)
            kills_by_kind["pack"] += at_work
            problems += new_problems
        if number % 4 == 0:
            page = folder / "page"
            page.mkdir()
            at_work, new_problems = kill_page(page, rng, 0.3)
            kills_by_kind["page"] += at_work
            problems += new_problems
            shutil.rmtree(page)
        if hidden := [path.relative_to(folder).as_posix() for path in folder.rglob(".*")]:
            problems.append(f"left: {hidden}")
        if problems:
            failures.append({"trial": number, "seed": seed, "kinds": kinds, "wrong": problems})
        else:
            shutil.rmtree(folder)
        number += 1
    figures = {"kills": sum(kills_by_kind.values()), "by_kind": kills_by_kind, "midway": midway}
    return figures | {"too_late": too_late, "folders": number, "failures": failures}
