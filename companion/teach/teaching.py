"""Make the student's and the instructor's notebook of a chapter from its source.

Cells get the tags `exercise` and `solution` where the text has these directives; what a student fills in has the
tag `answer`, the cell below it `check`. In the source, a cell tagged `instructor` is left out of the student's
notebook, and one tagged `student` out of the instructor's.
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

from companion.pages import chapters, copies, myst, parameters
from companion.runs.atomic import write
from companion.teach.check import exercise as check_exercise
from fedstas.errors import InputError, check_choice

FOLDER = parameters.ROOT / "teaching"
PROJECT = parameters.ROOT / "examples" / "design" / "project.py"
VERSIONS = ("student", "instructor")
CHECKED_EXERCISE = re.compile(r'check\.answer\(\s*"([^"]+)"')
CHECK = re.compile(r'check\.answer\("([^"]+)", (\w+)\)')  # as `_answers` writes it


def tagged_parts(nb) -> list[myst.Part]:
    """Split a chapter's cells into parts, each in a cell with the tag of an exercise or a solution."""
    parts = myst.parts(nb.cells)
    for part in parts:
        part.cell = type(nb)(part.cell, source=part.source, metadata=dict(part.cell.metadata))
        tags = part.cell.metadata["tags"] = [*part.cell.metadata.get("tags", [])]
        exercise = any(block.name == "exercise" for block in part.blocks)
        tag = "solution" if part.solves else "exercise"
        if (part.solves or exercise) and tag not in tags:
            tags.append(tag)
    return parts


def student(chapter: str):
    """Make the chapter's notebook with an empty answer and its check in place of each solution."""
    nb = chapters.read_notebook(chapter)
    every, cells, exercise = tagged_parts(nb), [], ""
    for solves, group in itertools.groupby(every, key=lambda part: part.solves):
        parts = list(group)
        if solves:
            cells += _answers([part.cell for part in parts], exercise)
            continue
        cells += [part.cell for part in parts if "instructor" not in part.cell.metadata["tags"]]
        exercise = next(
            (p.source for p in reversed(parts) if "exercise" in p.cell.metadata["tags"]), exercise
        )
    return _finish(nb, every, cells, chapter, "student")


def instructor(chapter: str):
    """Make the chapter's notebook with its solutions and without cells tagged `student`."""
    nb = chapters.read_notebook(chapter)
    every = tagged_parts(nb)
    cells = [part.cell for part in every if "student" not in part.cell.metadata["tags"]]
    return _finish(nb, every, cells, chapter, "instructor")


def answer_id(exercise: str) -> str:
    """Return the id by which nbgrader and `fedstas grade` know the answer cell of an exercise."""
    return "answer-" + exercise.replace("/", "-")


def nbgrader_metadata(grade_id: str, *, points: int | None = None, answer: bool) -> dict:
    """Return nbgrader's metadata of a cell: one to be answered, or one that checks and is locked; or both, for words."""
    metadata = {"grade_id": grade_id, "schema_version": 3, "task": False}
    metadata |= {"solution": answer, "locked": not answer, "grade": points is not None}
    return {"nbgrader": metadata | ({} if points is None else {"points": points})}


def _empty_answer(exercise: str):
    """Return a cell for an answer in words; a person gives its points."""
    from nbformat.v4 import new_markdown_cell

    level = re.search(r"[Ll]evel\s(\d)", exercise)
    label = re.search(r":label: ([\w-]+)", exercise)
    name = f"words-{label[1] if label else len(exercise)}"
    graded = nbgrader_metadata(name, points=int(level[1]) if level else 1, answer=True)
    return new_markdown_cell("*Your answer:*", metadata={"tags": ["answer"], **graded})


def _answers(solution: list, exercise: str) -> list:
    """Return a cell for the answer and one for its check, for each answer that the cells of a solution check.

    If the exercise asks something after its last check, a cell for the answer in words follows.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell

    code = "\n\n".join(cell.source for cell in solution if cell.cell_type == "code")
    if not code:
        return [_empty_answer(exercise)]
    tree, cells = ast.parse(code), []
    answers = _checked_answers(tree) or dict.fromkeys(CHECKED_EXERCISE.findall(exercise))
    for name, variable in answers.items():
        stub, variable = _stub(tree, variable)
        check = f'from companion import check\n\ncheck.answer("{name}", {variable})'
        points = check_exercise(name).level
        answer = nbgrader_metadata(answer_id(name), answer=True)
        graded = nbgrader_metadata("check-" + name.replace("/", "-"), points=points, answer=False)
        cells += [
            new_code_cell(f"# Your answer\n{stub}", metadata={"tags": ["answer"], **answer}),
            new_code_cell(check, metadata={"tags": ["check"], **graded}),
        ]
    # What is asked after the check is answered in words; nobody checks it by a program.
    if cells and "?" in exercise.rpartition("check.answer(")[2]:
        cells.append(new_markdown_cell("*Your answer in words:*", metadata={"tags": ["words"]}))
    return cells or [new_code_cell("# Your answer\n", metadata={"tags": ["answer"]})]


def _checked_answers(tree: ast.Module) -> dict[str, str | None]:
    """Return the exercises that a solution checks, each with the variable that holds its answer (None for an expression)."""
    answers: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check.answer":
            name, answer = node.args[0].value, node.args[1]
            answers.setdefault(name, answer.id if isinstance(answer, ast.Name) else None)
    return answers


def _stub(solution: ast.Module, variable: str | None) -> tuple[str, str]:
    """Return the code that takes a solution's place for students, and the name that its check reads.

    If the solution defines `variable` as a function, the code is that function with the body `...`; otherwise it is
    the assignment `mine = ...`.
    """
    for node in solution.body:
        if isinstance(node, ast.FunctionDef) and node.name == variable:
            return f"def {node.name}({ast.unparse(node.args)}):\n    ...", node.name
    return "mine = ...", "mine"


def _finish(nb, parts: list[myst.Part], kept: list, chapter: str, version: str):
    """Return the notebook in plain Markdown, with first cells that install the package and show figures inline.

    Args:
        nb: the chapter.
        parts: of the whole chapter.
        kept: the cells of the version.
    """
    plain, asserted = copies.reader(parts), copies.asserted_words(nb.cells)
    cells = []
    for cell in kept:
        if cell.cell_type == "markdown":
            tags = cell.metadata.get("tags", [])
            cells += copies.text_cells(myst.parse(cell.source), plain, asserted, tags)
        else:
            cells.append(copies.folded(cell))
    cells[1:1] = copies.first_cells()
    text = "\n".join(cell.source for cell in kept)
    nb.cells = [*cells, *copies.references(text)]
    for place, cell in enumerate(nb.cells):
        cell["id"] = f"{version}-{place}"
    nb.metadata["fedstas"] = {"chapter": chapters.find(chapter), "version": version}
    return nb


def project():
    """Make the starting notebook of the longer project, from `examples/design/project.py`.

    Its cell tagged `my_design.py` writes that file when it is run, so that runs are recorded with the design's hash.
    """
    import jupytext

    nb = jupytext.read(PROJECT, fmt="py:percent")
    for cell in nb.cells:
        if "my_design.py" in cell.metadata.get("tags", []):
            cell.source = f"%%writefile my_design.py\n{cell.source}"
    nb.cells[1:1] = copies.first_cells()[:1]
    for place, cell in enumerate(nb.cells):
        cell["id"] = f"project-{place}"
    nb.metadata.pop("jupytext", None)
    nb.nbformat, nb.nbformat_minor = 4, 5
    return nb


def make(chapter: str, version: str, output: str | Path | None = None) -> Path:
    """Write a version of a chapter, or the project's notebook; return its path.

    By default that is `teaching/<stem>-<version>.ipynb` of the clone, and `teaching/project.ipynb`.
    """
    import nbformat

    check_choice("version", version, VERSIONS)
    if chapter == "project":
        if version == "instructor":
            raise InputError("the project has no solutions: leave out --instructor")
        nb, name = project(), "project.ipynb"
    else:
        nb = {"student": student, "instructor": instructor}[version](chapter)
        name = f"{chapters.find(chapter)}-{version}.ipynb"
    output = Path(output or FOLDER / name)
    if output.suffix != ".ipynb":
        raise InputError(f"--output {output}: give a file name that ends in .ipynb")
    write(output, lambda path: path.write_text(nbformat.writes(nb) + "\n", encoding="utf-8"))
    return output
