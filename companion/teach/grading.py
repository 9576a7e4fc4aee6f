"""Grade a folder of submissions: `fedstas grade submissions/ --csv grades.csv`.

A submission is somebody else's program. Each is executed by `companion.teach.submission` in a process of its own: in a
temporary folder, with an environment that holds nothing of the lecturer's, with a limit of time, limits of memory and
file size for each of its processes and, where Linux allows it, without a network and other processes (`unshare`). Only its code counts: its outputs, and what its
metadata say of points, are not read. Answers come back as plain data and are judged here, on the inputs that students
see and on others (`hidden_inputs`).

Not kept out: a program may read and write every file that the lecturer's account may, use sockets in the file system,
start many processes until its time is over, and import the solutions, which are public; whose code names their module
is reported. Grade in a container, or under an account of its own,
where that matters.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from companion.pages import chapters, parameters
from companion.teach import check, hidden_inputs, submission, teaching
from fedstas.errors import InputError

MAX_RECORDS = 2_000_000  # bytes that a submission may report
STARTUP = 300  # seconds until the first cell begins, on a busy machine
MAX_FILE = 100_000_000  # bytes of any file that it may write
SOLUTIONS = re.compile(r"teach[.\s]*(?:import\s+)?exercises|import\s+exercises|check\.exercise\(")
ASKED = re.compile(r'check\.answer\(\s*"([^"]+)"')
STATES = ("right", "wrong", "unanswered", "failed")
GENERATED = {".ipynb_checkpoints", "__pycache__"}


@dataclass
class Grade:
    """The result of a submission.

    Attributes:
        name: its path in the folder.
        results: (state, message) by exercise; a state is right, wrong, unanswered or failed.
        note: a sentence on the submission as a whole; "" if there is nothing to say.
    """

    name: str
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    note: str = ""

    @property
    def right(self) -> int:
        """How many exercises are right."""
        return sum(state == "right" for state, _ in self.results.values())


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds, and gigabytes of memory."""

    seconds: int = 300
    gigabytes: float = 4.0


def find_submissions(folder: Path) -> list[Path]:
    """Return the files of a folder of submissions, in order; those that notebooks leave behind are not among them."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: give the folder that holds the submissions")
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not GENERATED & set(path.relative_to(folder).parts)
        and not path.name.startswith(".")
    )
    if not files:
        raise InputError(f"{folder} is empty: put the notebooks of the students into it")
    return files


def read_code(path: Path) -> list[dict]:
    """Return the code cells of a notebook as plain data: `source`, and the `id` that a handout gave it.

    Raises:
        InputError: the file is no notebook.
    """
    refusal = InputError(f"{path.name} is no notebook: hand in the .ipynb that was handed out")
    if path.suffix != ".ipynb" or path.is_symlink() or path.stat().st_size > MAX_FILE:
        raise refusal
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for cell in code]
        ids = [cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "") for cell in code]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise refusal from None
    return [{"source": s, "id": str(i)} for s, i in zip(sources, ids, strict=True)]


@lru_cache(maxsize=64)
def checks_of(chapter: str) -> dict[str, tuple[str, str, str]]:
    """Return the checks of a chapter's handout: its answer cells' ids -> (exercise, variable, source of the check)."""
    checks, answer = {}, ""
    for cell in teaching.student(chapter).cells:
        tags = cell.metadata.get("tags", [])
        if "answer" in tags:
            answer = cell.metadata["nbgrader"]["grade_id"]
        elif "check" in tags:
            name, variable = teaching.CHECK.search(cell.source).groups()  # type: ignore[union-attr]
            checks[answer] = (name, variable, cell.source)
    return checks


def chapter_of(cells: list[dict]) -> str:
    """Return the chapter whose exercises a submission answers, by the names in its code; "" if there is none."""
    code = "\n".join(cell["source"] for cell in cells)
    parts = Counter(name.partition("/")[0] for name in ASKED.findall(code))
    ids = {cell["id"] for cell in cells if cell["id"]}
    best, most = "", 0
    for stem in parameters.names():
        checks = checks_in(stem)
        score = sum(parts[part] for part in {name.partition("/")[0] for name in checks})
        score += sum(teaching.answer_id(name) in ids for name in checks)
        if score > most:
            best, most = stem, score
    return best


@lru_cache(maxsize=64)
def checks_in(stem: str) -> tuple[str, ...]:
    """Return the names of the exercises that a chapter's source checks."""
    source = (parameters.sources() / f"{stem}.py").read_text(encoding="utf-8")
    return tuple(dict.fromkeys(teaching.CHECKED_EXERCISE.findall(source)))


@lru_cache(maxsize=1)
def isolation() -> tuple[str, ...]:
    """Return the command that takes network and other processes away from a program; () where there is none."""
    unshare = shutil.which("unshare")
    command = (
        unshare or "",
        "--user",
        "--map-root-user",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
    )
    try:
        tried = unshare and subprocess.run([*command, "true"], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if tried and tried.returncode == 0 else ()


def set_limits(limits: Limits) -> Callable[[], None]:
    """Return a function that limits the process in which it is called."""
    import ctypes

    end_with_parent = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None

    def apply() -> None:
        """Limit processor seconds, memory and file sizes; end when the grading process ends, however it does."""
        import resource

        if end_with_parent is not None:
            end_with_parent(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        memory = int(limits.gigabytes * 2**30)
        for name, value in (
            # Only a guard for processes that escape the clock of `read_records`: threads may use more than a second of
            # processor time in a second.
            ("RLIMIT_CPU", STARTUP + 2 * limits.seconds),
            ("RLIMIT_DATA", memory),
            ("RLIMIT_FSIZE", MAX_FILE),
            ("RLIMIT_CORE", 0),
        ):
            if hasattr(resource, name):
                resource.setrlimit(getattr(resource, name), (value, value))

    return apply


def execute(cells: list[dict], seed: int, limits: Limits) -> tuple[list[dict], str]:
    """Execute the cells of a submission in a process of its own.

    Returns:
        What it reported, and in a sentence why it did not come to its end; "" if it did.
    """
    with tempfile.TemporaryDirectory(
        prefix="fedstas-submission-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        for entry in ("results", "notebooks", "params", "book", "examples", "_config.yml"):
            if (parameters.ROOT / entry).exists():  # chapters read recorded runs from them
                (work / entry).symlink_to(parameters.ROOT / entry)
        reading, writing = os.pipe()
        job = {"cells": cells, "seed": seed, "pipe": writing}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        environment = {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "MPLCONFIGDIR": str(folder),
            "IPYTHONDIR": str(folder),
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "FEDSTAS_FOLDER": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        command = [
            *isolation(),
            sys.executable,
            "-m",
            "companion.teach.submission",
            str(folder / "job.json"),
        ]
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environment | {"PYTHONPATH": str(parameters.ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[writing],
            start_new_session=True,
            preexec_fn=set_limits(limits) if os.name == "posix" else None,
        )
        os.close(writing)
        try:
            text, late = read_records(reading, limits.seconds)
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    records = [r for line in text.split("\n") if (r := parse_record(line)) is not None]
    if any("end" in record for record in records):
        return records, ""
    cell = max((r["cell"] for r in records if isinstance(r.get("cell"), int)), default=0)
    place = f"in code cell {cell}" if cell else "before its first cell"
    if late:
        return records, f"stopped {place}: {late}"
    return records, f"its process ended {place} (out of memory, or ended by its own code)"


def read_records(pipe: int, seconds: float) -> tuple[str, str]:
    """Return what comes through a pipe until it is closed, and why reading stopped earlier; "" if it did not.

    The limit of seconds counts from the first report on: before that our own modules are imported.
    """
    content, reached, deadline = bytearray(), "", time.monotonic() + STARTUP
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not reached:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                reached = "the time limit was reached"
                break
            part = os.read(pipe, 65536)
            if part and not content:
                deadline = time.monotonic() + seconds
            content += part
            if not part:
                break
            if len(content) > MAX_RECORDS:
                reached = "it wrote more than it may"
    return content.decode(errors="replace"), reached


def parse_record(line: str) -> dict | None:
    """Return a record of a submission, or None for what is none: the student's program may write anything."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def judge(name: str, record: dict, seed: int) -> tuple[str, str]:
    """Return the state of an exercise, and a sentence on it, from what a submission reported of it.

    Three reported states are judged here: "value" (an answer), "rounds" (an answer that is a function of t, by its
    results) and "results" (of a function, on the inputs). The others say why there is nothing to judge.
    """
    state = record.get("state")
    try:
        if state == "unanswered":
            return "unanswered", ""
        if state == "failed":
            return "failed", str(record["message"])
        if state == "begun":
            return "failed", "the function does not end"
        if state == "wrong":  # no function, where one is asked for
            return "wrong", str(record["message"]).removeprefix("Not yet: ")
        if state == "rounds":
            message = check.check_example(_replay(record["results"]), check.exercise(name))
            return ("wrong", message) if message else ("right", "")
        if state == "value":
            value = submission.decode(record["value"])
            message = check.judge(name, value).message
            return (
                ("right", "")
                if message.startswith("Right")
                else ("wrong", message.removeprefix("Not yet: "))
            )
        if state == "results":
            return judge_results(name, record["results"], seed)
    # Whatever a forged report makes of our own code, the others are graded.
    except Exception as error:
        return "failed", f"its answer could not be read ({type(error).__name__})"
    return "failed", "its answer could not be read"


def _replay(results: list[dict]) -> Callable:
    """Return the function of t = 0, 1, ... whose results a submission reported; it raises where the submission's did."""

    def replay(t: int):
        if "error" in results[t]:
            raise RuntimeError(results[t]["error"])
        return submission.decode(results[t]["value"])

    return replay


def judge_results(name: str, results: list[dict], seed: int) -> tuple[str, str]:
    """Return the state of an exercise that asks for a function, from its results on visible and hidden inputs."""
    task = check.exercise(name)
    assert isinstance(task, check.Function)
    hidden = hidden_inputs.inputs(name, seed)
    every = [*task.inputs, *hidden]
    by_input = dict(zip(map(repr, every), results, strict=True))

    def mine(*arguments):
        """Return what the submission's function returned for these arguments, or raise its error."""
        result = by_input[repr(arguments)]
        if "error" in result:
            raise RuntimeError(result["error"])
        return submission.decode(result["value"])

    message = check.judge(name, mine).message
    if not message.startswith("Right"):
        return "wrong", message.removeprefix("Not yet: ").replace("RuntimeError: ", "")
    difference = check.first_difference(mine, task, hidden)
    if difference:
        return "wrong", f"right on the inputs that students see, and {difference}".replace(
            "RuntimeError: ", ""
        )
    return "right", ""


def grade(path: Path, name: str, chapter: str, seed: int, limits: Limits) -> Grade:
    """Grade one submission for a chapter; a submission that cannot be graded has a note that says why."""
    try:
        cells = read_code(path)
    except InputError as error:
        return Grade(name, note=str(error))
    own = chapter_of(cells)
    if own != chapter:
        what = f"is of chapter {own}" if own else "answers no exercise of this book"
        return Grade(name, note=f"{path.name} {what}: this is the grading of chapter {chapter}")
    checks = checks_of(chapter)
    notes = []
    code = "\n".join(cell["source"] for cell in cells)
    if SOLUTIONS.search(code):
        notes.append("its code names the module of the solutions: look at it")
    edited = [n for _, (n, _, source) in checks.items() if source not in code]
    if edited:
        notes.append(f"changed or missing checks, which are made anew: {', '.join(edited)}")
    unedited = {source for _, _, source in checks.values()}
    for cell in cells:
        check_of_answer = checks.get(cell["id"])  # (exercise, variable, source)
        cell["checks"] = [check_of_answer[:2]] if check_of_answer else []
        cell["asks"] = ASKED.findall(cell["source"])
        cell["only_checks"] = cell["source"] in unedited
    records, ending = execute(cells, seed, limits)
    if ending:
        notes.append(ending)
    answers: dict[str, dict] = {}
    for record in records:
        known = answers.get(str(record.get("answer")))
        # An answer's own check may fail where a name is missing; what was read of it before counts.
        if "answer" in record and not (known and record.get("state") == "failed"):
            answers[str(record["answer"])] = record
    results = {}
    for exercise, _, _ in checks.values():
        if exercise in answers:
            results[exercise] = judge(exercise, answers[exercise], seed)
        else:
            results[exercise] = ("failed", ending) if ending else ("unanswered", "")
    return Grade(name, results, "; ".join(notes))


def grade_folder(
    folder: Path,
    chapter: str | None = None,
    seed: int = 0,
    limits: Limits = Limits(),
    report: Callable[[str], None] = lambda line: None,
) -> tuple[str, list[Grade]]:
    """Grade all submissions of a folder.

    Args:
        chapter: whose exercises; by default the one that most submissions are of.
        seed: of the hidden inputs.
        report: called with a line for each graded submission.

    Raises:
        InputError: the folder is empty or none, or the chapter has no exercises that check themselves.
    """
    files = find_submissions(folder)
    if chapter is None:
        votes: Counter = Counter()
        for path in files:
            try:
                votes[chapter_of(read_code(path))] += 1
            except InputError:
                continue
        del votes[""]
        if not votes:
            raise InputError(f"{folder} has no notebook that answers exercises of this book")
        chapter = votes.most_common(1)[0][0]
    stem = chapters.find(chapter)
    if not checks_of(stem):
        raise InputError(
            f"chapter {stem} has no exercises that can be graded: its parts or others have"
        )
    grades = []
    for path in files:
        result = grade(path, path.relative_to(folder).as_posix(), stem, seed, limits)
        grades.append(result)
        line = f"{result.name}: {result.right} of {len(checks_of(stem))} right"
        report(f"{result.name}: {result.note}" if not result.results else line)
    return stem, grades


def write_csv(grades: list[Grade], exercises: list[str], path: Path) -> None:
    """Write a row for each submission: how many are right, the result of each exercise, and the note."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["submission", "right", "exercises", *exercises, "note"])
        for g in grades:
            cells = [
                ": ".join(filter(None, g.results.get(e, ("not graded", "")))) for e in exercises
            ]
            writer.writerow(map(as_text, [g.name, g.right, len(exercises), *cells, g.note]))


def as_text(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula: a student chooses file names and messages."""
    text = str(value)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else value


def summarise(chapter: str, grades: list[Grade]) -> str:
    """Return a line for each exercise: how many are right, wrong, unanswered, failed, and what is wrong most often."""
    graded = [g for g in grades if g.results]
    names = list(graded[0].results) if graded else []
    width = max(map(len, names), default=0)
    lines = [f"Chapter {chapter}: {len(graded)} of {len(grades)} submissions graded"]
    for name in names:
        counts = Counter(g.results[name][0] for g in graded)
        wrong = Counter(hint(m) for s, m in (g.results[name] for g in graded) if s == "wrong")
        line = f"  {name:{width}}  " + ", ".join(f"{counts[state]} {state}" for state in STATES)
        lines.append(line + (f"; most often: {wrong.most_common(1)[0][0]}" if wrong else ""))
    lines += [f"  {g.name}: {g.note}" for g in grades if g.note]
    if not isolation():
        lines.append(
            "  This system does not let a program be run without a network: submissions had one."
        )
    return "\n".join(lines)


def hint(message: str) -> str:
    """Return what a message says of the mistake, without the input on which it was seen."""
    match = re.match(r"for \(.*?\) it gives .*?, not .*?\. (.+)", message, re.DOTALL)
    return match[1] if match else message
