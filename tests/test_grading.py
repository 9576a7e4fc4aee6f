"""`fedstas grade`: answers are judged on hidden inputs, and what a submission does harms no other one."""

import csv
import json
import os
import socket
import subprocess
import sys
from functools import cache

import nbformat.v4 as v4
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from companion.teach import check, grading, hidden_inputs, submission, teaching
from fedstas.errors import InputError

FUNCTIONS = [n for n in check.names() if isinstance(check.exercise(n), check.Function)]
RIGHT_ANSWERS = {
    "sizes/estimate": "def estimate(total, m, size_cap, alpha):\n"
    "    return (total - (1 - alpha) * size_cap * m / 2) / alpha",
    "sizes/mean-with-zero": "def mean(sizes, size_cap, alpha):\n"
    "    return sum(min(n, size_cap - 1) for n in sizes) - (1 - alpha) * len(sizes) / (2 * alpha)",
    "sizes/zero": "mine = (0.25, (1, 2))",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hidden_inputs_are_others_than_the_visible_and_fit_the_exercise(name):
    task = check.exercise(name)
    assert hidden_inputs.inputs(name, 1) != hidden_inputs.inputs(name, 2)
    visible = set(map(repr, task.inputs))
    for seed in range(3):
        hidden = hidden_inputs.inputs(name, seed)
        assert not all(repr(arguments) in visible for arguments in hidden)
        for arguments in hidden:
            result = task.solution(*arguments)
            numbers = np.asarray(result if not isinstance(result, str) else 0, dtype=float)
            assert np.isfinite(numbers).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_answer_for_the_visible_inputs_alone_is_wrong(name):
    task = check.exercise(name)
    table = {repr(a): task.solution(*a) for a in task.inputs}

    def judge_function(function):
        """Return how a function is judged on the visible and the hidden inputs."""
        all_inputs = [*task.inputs, *hidden_inputs.inputs(name, 0)]
        results = [submission.call(function, arguments) for arguments in all_inputs]
        return grading.judge(
            name, {"state": "results", "results": json.loads(json.dumps(results))}, 0
        )

    state, message = judge_function(lambda *a: table.get(repr(a), -12345))
    assert state == "wrong" and message.startswith(
        "right on the inputs that students see, and for ("
    )
    assert judge_function(task.solution) == ("right", "")
    state, _ = judge_function(lambda *a: 1 / 0)
    assert state == "wrong"


def test_decoding_an_encoded_value_restores_it():
    from fractions import Fraction as F

    for value in (1, 0.1, True, None, "cde", F(1, 3), ([1, 2], 1), {"a": F(1)}, ..., float("inf")):
        assert submission.decode(json.loads(json.dumps(submission.encode(value)))) == value
    array = submission.decode(submission.encode(np.eye(2)))
    assert isinstance(array, np.ndarray) and (array == np.eye(2)).all()
    assert isinstance(submission.decode(submission.encode(object())), submission.Unreadable)


def test_a_forged_record_of_a_submission_is_never_judged_right():
    deep = {"list": []}
    for _ in range(3000):  # deeper than Python's stack
        deep = {"list": [deep]}
    for record in (
        {"state": "right"},
        {"state": "judged", "message": ""},
        {"state": "rounds", "results": []},
        {"state": "value", "value": deep},
        {"state": "results", "results": []},
        {"state": "results", "results": [{"value": {"other": "x"}}] * 9},
        {"state": "value", "value": {"fraction": [1, 0]}},
        {},
    ):
        for name in ("sizes/estimate", "sizes/zero", "convergence/steps"):
            state, _ = grading.judge(name, record, 0)
            assert state in ("wrong", "failed")
    assert grading.parse_record("[1]") is grading.parse_record("{") is None


def test_an_example_that_is_a_function_is_judged_by_its_values_and_not_by_the_submission():
    task = check.exercise("convergence/steps")
    for function, expected in ((task.solution, "right"), (task.mistakes[0], "wrong")):
        results = [submission.call(function, (t,)) for t in range(submission.ROUNDS)]
        text = json.dumps({"state": "rounds", "results": results})
        assert len(text) < grading.MAX_RECORDS
        state, _ = grading.judge("convergence/steps", json.loads(text), 0)
        assert state == expected


def write_submission(path, answers, **metadata):
    """Write a submission of chapter 4c with these answers: only its exercises, so that it is executed fast."""
    cells = []
    for cell in handout():
        new = v4.new_code_cell(cell.source, metadata=cell.metadata)
        exercise = next(
            (n for n in answers if teaching.answer_id(n) == new.metadata.nbgrader.grade_id), ""
        )
        new.source = answers.get(exercise, new.source)
        cells.append(new)
    path.write_text(json.dumps(v4.new_notebook(cells=cells, metadata=metadata)), encoding="utf-8")


@cache
def handout() -> list:
    """Return the exercises of chapter 4c's handout."""
    return [
        cell
        for cell in teaching.student("04c").cells
        if cell.cell_type == "code" and {"answer", "check"} & set(cell.metadata.get("tags", []))
    ]


@pytest.mark.slow
def test_all_submissions_are_graded_even_if_one_crashes(tmp_path, monkeypatch):
    folder = tmp_path / "submissions"
    folder.mkdir()
    write_submission(folder / "ann.ipynb", RIGHT_ANSWERS)
    # It leaves a file, and ends its process only where the lecturer's environment is not seen.
    crashing = (
        "import os\nopen('left', 'w')\n'SECRET' in os.environ or os._exit(3)\nmine = (0.25, (1, 2))"
    )
    monkeypatch.setenv("SECRET", "of the lecturer")
    monkeypatch.chdir(tmp_path)
    write_submission(folder / "=dee.ipynb", {**RIGHT_ANSWERS, "sizes/zero": crashing})
    (folder / "notes.txt").write_text("hello", encoding="utf-8")
    (folder / "broken.ipynb").write_text("{", encoding="utf-8")
    write_submission(folder / "of_chapter_1.ipynb", {})
    text = (folder / "of_chapter_1.ipynb").read_text(encoding="utf-8")
    text = text.replace("sizes/", "privacy/").replace("answer-sizes-", "")
    (folder / "of_chapter_1.ipynb").write_text(text, encoding="utf-8")
    reports = []
    execute = grading.execute
    monkeypatch.setattr(grading, "execute", lambda *a: reports.append(execute(*a)) or reports[-1])
    stem, grades = grading.grade_folder(folder, limits=grading.Limits(seconds=150))
    assert stem == "04c_size_estimator"
    results = {g.name: g for g in grades}
    assert {state for state, _ in results["ann.ipynb"].results.values()} == {"right"}
    # Its check follows each answer, and evaluates nothing again.
    answers = [(r["answer"], r["state"]) for r in reports[-1][0] if "answer" in r]
    assert answers == [
        *((name, state) for name in [*RIGHT_ANSWERS][:2] for state in ("begun", "results")),
        ("sizes/zero", "value"),
    ]
    dee = results["=dee.ipynb"]
    assert dee.right == 2 and dee.results["sizes/zero"][0] == "failed"
    assert "its process ended in code cell 5" in dee.note
    assert not (tmp_path / "left").exists() and not (folder / "left").exists()
    assert (
        "is no notebook" in results["notes.txt"].note
        and "is no notebook" in results["broken.ipynb"].note
    )
    assert (
        "chapter 04e_privacy: this is the grading of chapter 04c"
        in results["of_chapter_1.ipynb"].note
    )
    grading.write_csv(grades, list(grading.checks_in(stem)), tmp_path / "grades.csv")
    with (tmp_path / "grades.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["submission"] == "'=dee.ipynb"
    assert [row["right"] for row in rows if row["submission"] == "ann.ipynb"] == ["3"]
    summary = grading.summarise(stem, grades)
    assert "sizes/estimate        2 right, 0 wrong, 0 unanswered, 0 failed" in summary


def test_an_answer_is_evaluated_again_only_after_other_code_of_the_student(tmp_path, monkeypatch):
    """A function may use what a later cell defines: the last evaluation counts."""
    reading, writing = os.pipe()
    check_cell = 'from companion import check\n\ncheck.answer("sizes/estimate", estimate)'
    cells = [
        {
            "source": "calls = []\ndef estimate(*a):\n    calls.append(a)\n    return factor",
            "id": "answer",
        },
        {"source": check_cell, "id": "check"},
        {"source": "factor = 2", "id": ""},
        {"source": check_cell, "id": "check"},
    ]
    for cell in cells:
        cell["checks"] = [("sizes/estimate", "estimate")] if cell["id"] == "answer" else []
        cell |= {"asks": [], "only_checks": cell["id"] == "check"}
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"cells": cells, "seed": 0, "pipe": writing}), encoding="utf-8")
    monkeypatch.setattr(check, "answer", check.answer)  # `main` replaces it
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    submission.main(str(job))
    InteractiveShell.clear_instance()
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        records = [json.loads(line) for line in pipe]
    assert [r.get("cell", r.get("state")) for r in records[:-1]] == [
        *(1, "begun", "results"),
        *(2, 3, 4, "begun", "results"),
    ]
    first, last = (r["results"][0] for r in records if r.get("state") == "results")
    assert "NameError" in first["error"] and last == {"value": 2}


@pytest.mark.slow
def test_a_submission_that_never_ends_is_stopped(tmp_path):
    endless = "def mean(sizes, size_cap, alpha):\n    while True: pass"
    write_submission(tmp_path / "eve.ipynb", {"sizes/mean-with-zero": endless})
    limits = grading.Limits(seconds=3)
    eve = grading.grade(tmp_path / "eve.ipynb", "eve.ipynb", "04c_size_estimator", 0, limits)
    assert eve.results["sizes/mean-with-zero"][0] == eve.results["sizes/zero"][0] == "failed"
    assert "stopped in code cell" in eve.note and "the time limit was reached" in eve.note


def test_a_submission_has_no_network_where_the_system_can_take_it_away():
    if not grading.isolation():
        pytest.skip("unshare may not make a network namespace here: on Linux allow user namespaces")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        code = (
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 3)"
        )
        for command, reached in (((), True), (grading.isolation(), False)):
            process = subprocess.run([*command, sys.executable, "-c", code], capture_output=True)
            assert (process.returncode == 0) == reached


def test_edited_checks_and_the_solutions_module_are_noted(tmp_path, monkeypatch):
    write_submission(
        tmp_path / "a.ipynb", {"sizes/zero": "from companion.teach.exercises import sizes"}
    )
    text = (tmp_path / "a.ipynb").read_text(encoding="utf-8")
    (tmp_path / "a.ipynb").write_text(
        text.replace('check.answer(\\"sizes/zero\\", mine)', "print(1)"), encoding="utf-8"
    )
    monkeypatch.setattr(grading, "execute", lambda cells, seed, limits: ([], ""))
    _, (result,) = grading.grade_folder(tmp_path)
    assert "names the module of the solutions" in result.note
    assert result.note.endswith("made anew: sizes/zero")
    assert set(result.results.values()) == {("unanswered", "")}


def test_a_folder_without_submissions_and_a_chapter_without_exercises_are_refused(tmp_path):
    with pytest.raises(InputError, match="is empty: put the notebooks"):
        grading.grade_folder(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        grading.grade_folder(tmp_path / "none")
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="no notebook that answers exercises"):
        grading.grade_folder(tmp_path)
    with pytest.raises(InputError, match="chapter 10a_own_data has no exercises"):
        grading.grade_folder(tmp_path, "10a")


def test_the_message_of_a_function_without_return_names_it_and_a_stub_is_unanswered():
    def no_return(total, m, size_cap, alpha):
        total / alpha

    def stub(total, m, size_cap, alpha):
        """Estimate it."""

    assert (
        "returns nothing (None): it must end with `return`"
        in check.answer("sizes/estimate", no_return).message
    )
    assert check.answer("sizes/estimate", stub).message.startswith("Nothing answered yet")


def test_under_nbgrader_a_wrong_answer_raises(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="Not yet"):
        check.answer("sizes/zero", (0.75, (1, 2)))
    assert check.answer("sizes/zero", (0.25, (1, 2)))


def test_handouts_have_nbgraders_metadata():
    answers = [c.metadata.nbgrader for c in handout() if "answer" in c.metadata.tags]
    checks = [c.metadata.nbgrader for c in handout() if "check" in c.metadata.tags]
    assert [a.grade_id for a in answers] == [teaching.answer_id(n) for n in RIGHT_ANSWERS]
    assert all(a.solution and not a.locked and not a.grade for a in answers)
    assert [c.points for c in checks] == [check.exercise(n).level for n in RIGHT_ANSWERS]
    assert all(c.locked and c.grade and not c.solution for c in checks)
