"""Students' and instructors' notebooks, the course's syllabus, and the numbers that chapters show."""

import ast
import builtins
import json
import os
import re
import shlex
import symtable
import sys
from collections import defaultdict
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import nbformat
import nbformat.v4 as v4
import numpy as np
import pandas as pd
import pytest

from companion.pages import chapters, copies, live_text, myst, parameters, prose
from companion.teach import check, teaching
from fedstas import cli
from fedstas.errors import InputError

ROOT = Path(__file__).parents[1]
STEMS = chapters.names()
TIMEOUT = 3600  # seconds; it only stops a hang
# nbgrader's schema of a cell's metadata, version 3 (nbgrader 0.9, nbgraderformat/v3.json).
NBGRADER = {
    "type": "object",
    "properties": {
        "schema_version": {"enum": [3]},
        **{name: {"type": "boolean"} for name in ("grade", "locked", "solution", "task")},
        "grade_id": {"type": "string", "pattern": r"^[a-zA-Z0-9_\-]+$"},
        "points": {"type": "number", "minimum": 0},
    },
    "required": ["schema_version", "grade", "locked", "solution", "grade_id"],
    "additionalProperties": False,
}
MYST_SYNTAX = re.compile(r"^(?:`{3,}|:{3,})\{|\{[\w:-]+\}`", re.MULTILINE)


def cells_with_tag(nb, tag: str) -> list:
    """Return the cells that have a tag."""
    return [cell for cell in nb.cells if tag in cell.metadata.get("tags", [])]


@cache
def version_of(stem: str, version: str):
    """Make a version of a chapter once for all tests, which only read it."""
    return getattr(teaching, version)(stem)


@cache
def source_of(stem: str):
    """Read a chapter's source once for all tests, which only read it."""
    return chapters.read_notebook(stem)


def code_of(nb) -> str:
    """Return the code of a notebook."""
    return "\n".join(
        cell.source
        for cell in nb.cells
        if cell.cell_type == "code" and not cell.source.startswith("%%text\n")
    )


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_a_student_gets_every_exercise_and_no_solution(stem):
    student, instructor = version_of(stem, "student"), version_of(stem, "instructor")
    source = "\n".join(cell.source for cell in source_of(stem).cells)
    exercises = source.count("{exercise-start}")
    assert len(cells_with_tag(student, "answer")) >= exercises
    assert sum(c.source.count("### Exercise") for c in student.cells) == exercises
    assert not cells_with_tag(student, "solution") and "### Solution" not in str(student.cells)
    assert sum(c.source.count("### Solution of") for c in instructor.cells) == exercises
    solutions = [c.source for c in cells_with_tag(instructor, "solution") if c.cell_type == "code"]
    for solution in solutions:
        assert solution not in "\n".join(cell.source for cell in student.cells)
    checked = set(teaching.CHECKED_EXERCISE.findall(code_of(student)))
    assert checked >= set(teaching.CHECKED_EXERCISE.findall("\n".join(solutions)))
    assert checked <= set(check.names())


def defined_and_used_names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that code defines, and those that it uses without defining them."""
    top = symtable.symtable(code, "", "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    used, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        free = (s for s in table.get_symbols() if table is top or s.is_global())
        used |= {s.get_name() for s in free if s.is_referenced()}
    return defined, used - defined - set(dir(builtins))


def test_names_of_code_are_those_that_it_defines_and_uses():
    code = "import a\nb = a + c\ndef d(e):\n    return [f for f in e if g]\nprint(b)\n"
    assert defined_and_used_names(code) == ({"a", "b", "d"}, {"c", "g"})


@pytest.mark.parametrize("stem", STEMS[:3])
def test_a_solution_uses_only_names_defined_in_its_chapter(stem):
    """It needs no other solution, and no other solution redefines what it needs."""
    sources_by_exercise = defaultdict(list)  # by the exercise that it solves; "" for the chapter's
    for part in myst.parts(source_of(stem).cells):
        if not part.blocks:  # a code cell: blocks are of Markdown
            sources_by_exercise[part.solves].append(part.source)
    defined = defined_and_used_names("\n".join(sources_by_exercise.pop("")))[0]
    solutions = [
        defined_and_used_names("\n".join(sources)) for sources in sources_by_exercise.values()
    ]
    assert len(solutions) >= 4
    # What a solution defines, and what it uses without defining it.
    for redefined, needed in solutions:
        assert needed <= defined
        assert all(not needed & other for other, _ in solutions if other is not redefined)


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_a_version_is_a_valid_notebook_that_reads_without_extensions(stem):
    for version in teaching.VERSIONS:
        nb = version_of(stem, version)
        nbformat.validate(nb)
        for cell in nb.cells:
            if cell.cell_type == "code" and not cell.source.startswith("%%text\n"):
                ast.parse(cell.source)
                assert not cell.outputs
            else:
                assert not MYST_SYNTAX.search(cell.source), cell.source
        assert "parameters" in [t for cell in nb.cells[:8] for t in cell.metadata.get("tags", [])]
        for cell in nb.cells:
            tags = set(cell.metadata.get("tags", []))
            hidden = bool(tags & {"text", *copies.FOLDED}) and "parameters" not in tags
            assert cell.metadata.get("jupyter", {}).get("source_hidden", False) == hidden
        install = copies.INSTALL.format(clone=copies.CLONE, **copies.address())
        assert nb.cells[1].source == install
        assert json.loads(nbformat.writes(nb))["metadata"]["fedstas"]["version"] == version


def metadata_faults(cells) -> list[str]:
    """Return what nbgrader would refuse: its schema, and the rules of its validator (nbgraderformat/v3.py)."""
    faults, ids = [], set()
    for cell in cells:
        if (meta := cell.metadata.get("nbgrader")) is None:
            continue
        faults += [e.message for e in jsonschema.Draft4Validator(NBGRADER).iter_errors(meta)]
        name, grade, solution = (meta.get(k) for k in ("grade_id", "grade", "solution"))
        if name in ids:
            faults.append(f"duplicate grade id {name}")
        ids.add(name)
        if bool(grade) != ("points" in meta):
            faults.append(f"{name}: points belong to graded cells, and to these alone")
        if cell.cell_type == "markdown" and not (grade and solution) and not meta.get("task"):
            faults.append(f"{name}: a text cell must be graded and a solution")
        if meta.get("task") and cell.cell_type != "markdown":
            faults.append(f"{name}: a task must be a text cell")
        if bool(solution) == bool(meta.get("locked")):
            faults.append(f"{name}: what a student fills in is not locked, all else is")
    return faults


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_nbgrader_accepts_the_metadata_of_a_handout(stem):
    nb = version_of(stem, "student")
    assert metadata_faults(nb.cells) == []
    for cell in cells_with_tag(nb, "check"):
        name = teaching.CHECK.search(cell.source)[1]
        assert cell.metadata.nbgrader.points == check.exercise(name).level
        assert cell.metadata.nbgrader.locked and cell.metadata.nbgrader.grade


def test_each_fault_of_metadata_is_found():
    def cell(kind, **changes):
        meta = teaching.nbgrader_metadata("a", points=1, answer=False)["nbgrader"] | changes
        return nbformat.from_dict({"cell_type": kind, "metadata": {"nbgrader": meta}})

    assert metadata_faults([cell("code")]) == []
    assert metadata_faults([cell("code"), cell("code")]) == ["duplicate grade id a"]
    for kind, change in (
        ("markdown", {}),
        ("code", {"grade": False}),
        ("code", {"schema_version": 2}),
        ("code", {"grade_id": "a/b"}),
        ("code", {"task": True}),
        ("code", {"locked": False}),
        ("code", {"points": "1"}),
        ("code", {"hint": ""}),
    ):
        assert len(metadata_faults([cell(kind, **change)])) == 1, (kind, change)


@pytest.fixture(scope="module")
def executed_notebook(tmp_path_factory):
    """A student's notebook, executed in another folder and without data sets, as in a classroom."""
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("classroom")
    path = teaching.make("04c", "student", folder / "mine.ipynb")
    nb = nbformat.read(path, as_version=4)
    environment = {
        "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "FEDSTAS_DATA": str(folder / "nothing"),
        "OMP_NUM_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        NotebookClient(
            nb,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return nb


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_students_notebook_runs_and_its_checks_say_that_nothing_is_answered(executed_notebook):
    checks = cells_with_tag(executed_notebook, "check")
    assert len(checks) == 3
    for cell in checks:
        assert cell.outputs[0]["data"]["text/plain"].startswith(
            "Nothing answered yet: replace the ... by "
        )
    outputs = [o for c in executed_notebook.cells for o in c.get("outputs", [])]
    assert len([o for o in outputs if "image/svg+xml" in o.get("data", {})]) == 2
    assert live_text.find_faults(executed_notebook) == []


def test_a_handout_has_places_for_numbers_and_none_of_an_earlier_run():
    """Its numbers are those of its own run, whatever page was executed before."""
    handout = nbformat.writes(version_of("01_aggregation", "student"))
    assert "⟨ch1_clients⟩ clients" in handout and "from … to" not in handout


def test_executed_pages_record_their_time_and_device():
    """A teacher needs them; the page *Execution status* shows them."""
    pages = [*(ROOT / "book" / "chapters").glob("*.ipynb")]
    if not pages:
        pytest.skip("no chapter is executed here: `make book` does it")
    blocks = [chapters.provenance(page) for page in pages]
    assert all(block["seconds"] > 0 and block["device"] for block in blocks)
    if sys.platform != "win32":  # which does not tell the processor time of a child
        assert all(block["cpu"] > 0 for block in blocks)


def test_no_chapter_needs_a_download_in_profile_quick():
    for stem in STEMS:
        assert parameters.defaults("quick", stem).get("task", "digits") == "digits", stem


@pytest.fixture
def chapter_of(monkeypatch):
    """A function that makes every chapter one of these cells: ("md" or "code", source, *tags)."""
    new_cell = {"md": v4.new_markdown_cell, "code": v4.new_code_cell}

    def replace_chapters(*cells):
        """Put these chapters in the place of the book's."""
        nb = v4.new_notebook(cells=[new_cell[k](s, metadata={"tags": t}) for k, s, *t in cells])
        text = nbformat.writes(nb)
        monkeypatch.setattr(
            chapters, "read_notebook", lambda name: nbformat.reads(text, as_version=4)
        )

    return replace_chapters


def markdown_of(nb) -> list[str]:
    """Return the Markdown cells' sources."""
    return [cell.source for cell in nb.cells if cell.cell_type == "markdown"]


def test_cells_tagged_for_one_version_are_only_in_that_version(chapter_of):
    chapter_of(
        ("md", "# Title"),
        ("code", "secret = 1", "instructor"),
        ("code", "hint = 2", "student"),
        (
            "md",
            "```{exercise} Sum\n:label: ex-a\nLevel 1. Add.\n```\n\n```{solution} ex-a\nSo.\n```\n\nAfter.",
        ),
    )
    student, instructor = teaching.student("01"), teaching.instructor("01")
    assert "secret" not in code_of(student) and "hint" in code_of(student)
    assert "secret" in code_of(instructor) and "hint" not in code_of(instructor)
    texts = [
        "# Title",
        "### Exercise 1: Sum\n\n*Plan 5 minutes.*\n\nLevel 1. Add.",
        "*Your answer:*",
        "After.",
    ]
    assert markdown_of(student) == texts
    assert "So." in str(instructor.cells) and "So." not in str(student.cells)


def test_text_after_a_solution_reaches_students(chapter_of):
    chapter_of(
        ("md", "# Title\n\n````{solution-start} ex-a\n````\nSo."),
        ("md", "````{solution-end}\n````\n\n## Further reading"),
    )
    texts = ["# Title", "*Your answer:*", "## Further reading"]
    assert markdown_of(teaching.student("01")) == texts


@pytest.mark.parametrize("question", ["", " Why does the rate not matter?"])
def test_what_an_exercise_asks_after_its_check_is_answered_in_words(chapter_of, question):
    ask = 'check.answer("aggregation/smallest", answer)'
    chapter_of(
        ("md", f"```{{exercise}} Sum\n:label: ex-a\nAdd. `{ask}`.{question}\n```"),
        ("md", "````{solution-start} ex-a\n:label: sol-a\n````\nSo."),
        ("code", f"answer = (1, 2), 1\n{ask}"),
        ("md", "````{solution-end}\n````"),
    )
    words = [c for c in teaching.student("01").cells if "words" in c.metadata.get("tags", [])]
    assert [cell.source for cell in words] == ["*Your answer in words:*"] * bool(question)


def test_a_stub_has_the_name_and_the_arguments_of_the_solution():
    tree = ast.parse("def mean(sizes, *, cap=3):\n    return 1\n")
    assert teaching._stub(tree, "mean") == ("def mean(sizes, *, cap=3):\n    ...", "mean")
    assert teaching._stub(tree, None) == ("mine = ...", "mine")


def test_unknown_chapters_versions_and_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="unknown chapter"):
        teaching.make("77", "student")
    with pytest.raises(
        InputError, match="unknown version 'teacher': use one of student, instructor"
    ):
        teaching.make("01", "teacher")
    with pytest.raises(InputError, match="the project has no solutions: leave out --instructor"):
        teaching.make("project", "instructor")
    with pytest.raises(InputError, match=r"ends in \.ipynb"):
        teaching.make("01", "student", tmp_path / "a.txt")


def test_the_command_teach_writes_notebooks_of_both_versions(tmp_path, monkeypatch, capsys):
    def fedstas(line: str) -> tuple[int, str, str]:
        """Return the exit code, standard output and standard error of a command line."""
        with pytest.raises(SystemExit) as exc_info:
            cli.main(shlex.split(line))
        return exc_info.value.code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    assert teaching.FOLDER == ROOT / "teaching"  # whatever the current folder is
    monkeypatch.setattr(teaching, "FOLDER", tmp_path / "teaching")
    assert fedstas("teach 04c")[:2] == (0, "teaching/04c_size_estimator-student.ipynb\n")
    code, *_ = fedstas("teach 04c --instructor -o b.ipynb")
    assert code == 0
    assert "estimate(total, m, size_cap, alpha)" in (tmp_path / "b.ipynb").read_text(
        encoding="utf-8"
    )
    code, _, message = fedstas("teach 04c --student --instructor")
    assert (code, message) == (2, "fedstas: --student and --instructor: choose one\n")


def test_the_syllabus_has_six_sessions_and_names_chapters_that_exist():
    text = (ROOT / "book" / "teaching" / "syllabus.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\d)\.", text, re.MULTILINE) == list("123456")
    for stem in re.findall(r"\.\./chapters/(\w+)\.ipynb", text):
        assert stem in STEMS
    assert text.count("At the end you can") == text.count("\nExercises:") == 6


def test_every_exercise_of_the_syllabus_is_in_a_chapter_of_its_session():
    text = (ROOT / "book" / "teaching" / "syllabus.md").read_text(encoding="utf-8")
    for session in re.split(r"^### (?=\d\.)", text, flags=re.MULTILINE)[1:]:
        exercises = {}
        for stem in re.findall(r"\.\./chapters/(\w+)\.ipynb", session):
            source = "\n".join(cell.source for cell in source_of(stem).cells)
            for part in source.split("{exercise-start} ")[1:]:
                title = re.sub(r" \(level \d\)$", "", part.split("\n")[0].strip())
                part = part.split("{exercise-end}")[0]
                exercises.setdefault(title, set()).update(re.findall(r"[Ll]evel\s(\d)", part))
        exercises_of_session = re.search(
            r"^Exercises: (.*?)(?:\n\n|\Z)", session, re.MULTILINE | re.DOTALL
        )[1]
        titles_and_levels = re.findall(r"\*([^*]+)\*\s\(([^)]+)\)", exercises_of_session)
        assert len(titles_and_levels) >= 3 and exercises_of_session.count("*") == 2 * len(
            titles_and_levels
        )
        for title, levels in titles_and_levels:
            title = " ".join(title.split())
            assert title in exercises, f"no exercise {title!r} in session {session[:2]}"
            assert set(re.findall(r"\d", levels)) <= exercises[title], title


@pytest.fixture
def glued_values(monkeypatch):
    """Return the dict that gets the values that a chapter glues, by name."""
    import myst_nb

    values = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: values.update({name: value}))
    return values


def test_glued_values_are_plain_python_values(glued_values):
    prose.glue_values(
        "ch0", half=Fraction(1, 2), count=np.int64(3), mean=np.float64(0.5), word="so"
    )
    assert glued_values == {"ch0_half": "1/2", "ch0_count": 3, "ch0_mean": 0.5, "ch0_word": "so"}
    assert [type(value) for value in glued_values.values()] == [str, int, float, str]


def test_decide_glues_the_verdict_and_our_value(glued_values):
    verdict = prose.decide(
        "ch0", 7, "sum", lambda claim: SimpleNamespace(verdict="fails", ours=claim)
    )
    assert (verdict.ours, glued_values["ch0_verdict_sum"], glued_values["ch0_ours_sum"]) == (
        7,
        "fails",
        "7",
    )


def test_a_table_keeps_trailing_zeros_and_prints_powers_of_ten():
    lines = prose.table(pd.DataFrame({"a": ["1/2", "1.50"]})).data.split("\n")
    assert [line.split() for line in lines[2:]] == [["|", "1/2", "|"], ["|", "1.50", "|"]]
    power = prose.table(pd.DataFrame({"a": ["7.9e-05", "at 1e-3"], "b": ["3e+04", "x"]})).data
    assert "| 7.9\u00a0·\u00a010⁻⁵" in power and "| 3\u00a0·\u00a010⁴" in power
    assert "| at 1e-3" in power
    assert (
        "| +1.5 (−0.5\u00a0to\u00a0+3.5)"
        in prose.table(pd.DataFrame({"a": ["+1.5 (−0.5 to +3.5)"]})).data
    )
