"""Make the student's and the instructor's notebook of a chapter from its source.

Cells get the tags `exercise` and `solution` where the text has these directives; what a student fills in has the
tag `answer`, the cell below it `check`. In the source, a cell tagged `instructor` is left out of the student's
notebook, and one tagged `student` out of the instructor's.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from pathlib import Path
from typing import Any

from companion.pages import chapters, copies, markdown, myst, parameters
from companion.runs.atomic import write
from fedstas.errors import InputError, check_choice

FOLDER = parameters.ROOT / "teaching"
VERSIONS = ("student", "instructor")
CHECKED_EXERCISE = re.compile(r'check\.answer\(\s*"([^"]+)"')
SETUP = """# Chapters read parameters and recorded runs from the repository, and figures are shown where they are drawn.
import os

import myst_nb
from IPython.display import display as show_here

from companion.pages import parameters

os.chdir(parameters.ROOT)


def glue(name, value, display=True):
    if hasattr(value, "savefig") or hasattr(value, "to_html"):
        show_here(value)


myst_nb.glue = glue"""


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
    nb = chapters.notebook(chapter)
    cells, exercise = [], ""
    for solves, group in itertools.groupby(tagged_parts(nb), key=lambda part: part.solves):
        parts = list(group)
        if solves:
            cells += _answers([part.cell for part in parts], exercise)
            continue
        cells += [part.cell for part in parts if "instructor" not in part.cell.metadata["tags"]]
        exercise = next(
            (p.source for p in reversed(parts) if "exercise" in p.cell.metadata["tags"]), exercise
        )
    nb.cells = cells
    return _finish(nb, chapter, "student")


def instructor(chapter: str):
    """Make the chapter's notebook with its solutions and without cells tagged `student`."""
    nb = chapters.notebook(chapter)
    cells = [part.cell for part in tagged_parts(nb)]
    nb.cells = [cell for cell in cells if "student" not in cell.metadata["tags"]]
    return _finish(nb, chapter, "instructor")


def _empty_answer():
    """Return a cell for an answer in words."""
    from nbformat.v4 import new_markdown_cell

    return new_markdown_cell("*Your answer:*", metadata={"tags": ["answer"]})


def _answers(solution: list, exercise: str) -> list:
    """Return a cell for the answer and one for its check, for each answer that the cells of a solution check."""
    from nbformat.v4 import new_code_cell

    code = "\n\n".join(cell.source for cell in solution if cell.cell_type == "code")
    if not code:
        return [_empty_answer()]
    tree, cells = ast.parse(code), []
    answers = _checked_answers(tree) or dict.fromkeys(CHECKED_EXERCISE.findall(exercise))
    for name, variable in answers.items():
        stub, variable = _stub(tree, variable)
        check = f'from companion import check\n\ncheck.answer("{name}", {variable})'
        cells += [
            new_code_cell(f"# Your answer\n{stub}", metadata={"tags": ["answer"]}),
            new_code_cell(check, metadata={"tags": ["check"]}),
        ]
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


def glued_values(chapter: str) -> dict[str, Any]:
    """Read the numbers and words that the chapter's executed page glued, by name."""
    page = parameters.ROOT / "book" / "chapters" / f"{chapters.find(chapter)}.ipynb"
    values = {}
    for name, record in glued_outputs(page).items():
        text = "".join(record.get("text/plain", ""))
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def glued_outputs(page: Path) -> dict[str, dict]:
    """Read what an executed page glued, {name: {mime type: data}}; {} if there is no page."""
    if not page.is_file():
        return {}
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    records = {}
    for output in outputs:
        if name := output.get("metadata", {}).get("scrapbook", {}).get("name"):
            data = output["data"].items()
            records[name] = {k.removeprefix("application/papermill.record/"): v for k, v in data}
    return records


def _finish(nb, chapter: str, version: str):
    """Return the notebook in plain Markdown, with first cells that install the package and show figures inline."""
    from nbformat.v4 import new_code_cell

    texts = [cell.source for cell in nb.cells if cell.cell_type == "markdown"]
    labels = myst.reference_texts(block for text in texts for block in myst.parse(text))
    plain = markdown.PlainMarkdown(glued_values(chapter), labels)
    for place, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            cell.source = plain.text(cell.source)
        if "hide-input" in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True}  # JupyterLab's word for it
        cell["id"] = f"{version}-{place}"
    nb.cells = [cell for cell in nb.cells if cell.source.strip()]
    setup = new_code_cell(SETUP, metadata={"tags": ["setup"]}, id="setup")
    install = copies.INSTALL.format(clone=copies.CLONE, **copies.address())
    install = new_code_cell(install, metadata={"tags": ["install"]}, id="install")
    nb.cells[1:1] = [install, setup]
    nb.metadata["fedstas"] = {"chapter": chapters.find(chapter), "version": version}
    return nb


def make(chapter: str, version: str, output: str | Path | None = None) -> Path:
    """Write a version of a chapter, to `teaching/<stem>-<version>.ipynb` of the clone by default; return its path."""
    import nbformat

    check_choice("version", version, VERSIONS)
    nb = {"student": student, "instructor": instructor}[version](chapter)
    output = Path(output or FOLDER / f"{chapters.find(chapter)}-{version}.ipynb")
    if output.suffix != ".ipynb":
        raise InputError(f"--output {output}: give a file name that ends in .ipynb")
    write(output, lambda path: path.write_text(nbformat.writes(nb) + "\n", encoding="utf-8"))
    return output
