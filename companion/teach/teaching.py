"""The student's and the instructor's notebook of a chapter, both from its one source.

Cells carry tags: `exercise`, `solution` (also `instructor`), `answer`, `check`. They follow from where the
exercises and solutions begin and end; a tag that the source gives itself counts as well, and
a cell tagged `student` is in the student's version only.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from companion.pages import chapters, copies, markdown, parameters
from companion.runs.atomic import write
from fedstas.errors import InputError, check_choice

FOLDER = parameters.ROOT / "teaching"
VERSIONS = ("student", "instructor")
STARTS = re.compile(r"^(?P<fence>`{3,})\{solution-start\}\s*(?P<of>\S+)", re.MULTILINE)
ENDS = re.compile(r"^`{3,}\{solution-end\}", re.MULTILINE)
WHOLE = re.compile(r"^(`{3,})\{solution\}\s*\S+.*?^\1\s*$", re.MULTILINE | re.DOTALL)
ASKED = re.compile(r'check\.answer\(\s*"([^"]+)"')
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


def tag(nb) -> None:
    """Marks the cells of exercises and solutions."""
    inside = False
    for cell in nb.cells:
        tags = cell.metadata.setdefault("tags", [])
        text = cell.source if cell.cell_type == "markdown" else ""
        inside = inside or bool(STARTS.search(text))
        if inside or "instructor" in tags:
            _add(cell, "solution")
        elif "{exercise" in text:
            _add(cell, "exercise")
        inside = inside and not ENDS.search(text)
    if inside:
        raise InputError("a solution has no end: close it with {solution-end}")


def _add(cell, name: str) -> None:
    if name not in cell.metadata["tags"]:
        cell.metadata["tags"].append(name)


def student(chapter: str):
    """The chapter without its solutions, an empty answer and its check in place of each."""
    nb = chapters.notebook(chapter)
    tag(nb)
    kept, region, exercise = [], [], ""
    for cell in [*nb.cells, None]:
        tags = cell.metadata["tags"] if cell is not None else []
        if "solution" in tags:
            region.append(cell)
        if region and ("solution" not in tags or ENDS.search(cell.source)):
            kept += _answers(region, exercise)
            region = []
        if cell is None or "solution" in tags:
            continue
        if "exercise" in tags:
            exercise = cell.source
        if cell.cell_type == "markdown" and WHOLE.search(cell.source):
            kept += _split(cell)
        else:
            kept.append(cell)
    nb.cells = kept
    return _finish(nb, chapter, "student")


def instructor(chapter: str):
    """The chapter with its solutions, and only what is not for students alone."""
    nb = chapters.notebook(chapter)
    tag(nb)
    nb.cells = [cell for cell in nb.cells if "student" not in cell.metadata["tags"]]
    return _finish(nb, chapter, "instructor")


def _split(cell) -> list:
    """A cell whose solution is text within it: what is before, an empty answer, what is after."""
    from nbformat.v4 import new_markdown_cell

    found, at = [], 0
    for match in WHOLE.finditer(cell.source):
        before = cell.source[at : match.start()].strip("\n")
        found += [new_markdown_cell(before, metadata={"tags": ["exercise"]}), _empty()]
        at = match.end()
    rest = cell.source[at:].strip("\n")
    return found + ([new_markdown_cell(rest, metadata={"tags": []})] if rest else [])


def _empty():
    from nbformat.v4 import new_markdown_cell

    return new_markdown_cell("*Your answer:*", metadata={"tags": ["answer"]})


def _answers(region: list, exercise: str) -> list:
    """An empty answer and its check for what a solution consists of."""
    from nbformat.v4 import new_code_cell

    code = "\n\n".join(cell.source for cell in region if cell.cell_type == "code")
    if not code:
        return [_empty()]
    asked = _asked(code) or dict.fromkeys(ASKED.findall(exercise))
    tree, made = ast.parse(code), []
    for name, given in asked.items():
        stub, handed = _stub(tree, given)
        made += [
            new_code_cell(f"# Your answer\n{stub}", metadata={"tags": ["answer"]}),
            new_code_cell(
                f'from companion import check\n\ncheck.answer("{name}", {handed})',
                metadata={"tags": ["check"]},
            ),
        ]
    return made or [new_code_cell("# Your answer\n", metadata={"tags": ["answer"]})]


def _asked(code: str) -> dict[str, str | None]:
    """Which exercises a solution answers, and the name of what it hands in where that has one."""
    found: dict[str, str | None] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check.answer":
            name, given = node.args[0].value, node.args[1]
            found.setdefault(name, given.id if isinstance(given, ast.Name) else None)
    return found


def _stub(tree: ast.Module, given: str | None) -> tuple[str, str]:
    """What the student begins with, and the name that is checked."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == given:
            return f"def {node.name}({ast.unparse(node.args)}):\n    ...", node.name
    return "mine = ...", "mine"


def values(chapter: str) -> dict[str, Any]:
    """The numbers and words of the chapter's executed page, by the names that the prose uses."""
    page = parameters.ROOT / "book" / "chapters" / f"{chapters.find(chapter)}.ipynb"
    found = {}
    for name, record in glued(page).items():
        said = "".join(record.get("text/plain", ""))
        try:
            found[name] = ast.literal_eval(said)
        except (ValueError, SyntaxError):
            found[name] = said
    return found


def glued(page: Path) -> dict[str, dict]:
    """What an executed page glued, by name: {mime type: data}; nothing where there is no page."""
    if not page.is_file():
        return {}
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    found = {}
    for output in outputs:
        if name := output.get("metadata", {}).get("scrapbook", {}).get("name"):
            data = output["data"].items()
            found[name] = {k.removeprefix("application/papermill.record/"): v for k, v in data}
    return found


def _finish(nb, chapter: str, version: str):
    """Plain text, figures in place, and first cells that install the package and go to the repository."""
    from nbformat.v4 import new_code_cell

    known = values(chapter)
    texts = [cell.source for cell in nb.cells if cell.cell_type == "markdown"]
    labels = markdown.numbers(texts)
    for place, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            cell.source = markdown.markdown(cell.source, known, labels)
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
    """Write a version of a chapter, `teaching/<stem>-<version>.ipynb` of the clone by default."""
    import nbformat

    check_choice("version", version, VERSIONS)
    nb = {"student": student, "instructor": instructor}[version](chapter)
    output = Path(output or FOLDER / f"{chapters.find(chapter)}-{version}.ipynb")
    if output.suffix != ".ipynb":
        raise InputError(f"--output {output}: a notebook's name ends in .ipynb")
    write(output, lambda path: path.write_text(nbformat.writes(nb) + "\n", encoding="utf-8"))
    return output
