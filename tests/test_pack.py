"""The pack of a course: what is in it, and the notebook with which the project begins."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

from companion.pages import chapters
from companion.teach import pack, teaching
from fedstas.errors import InputError
from fedstas.sim import tasks

STEMS = ("04c_size_estimator", "10a_own_data")  # with exercises, and without


@pytest.fixture(scope="module")
def two_chapters(tmp_path_factory):
    """A pack of two chapters, made where a data set is and one chapter was executed."""
    folder, patch = tmp_path_factory.mktemp("pack"), pytest.MonkeyPatch()
    (folder / "from").mkdir()
    (folder / "from" / "mnist.npz").write_bytes(b"numbers")
    page = folder / "page.ipynb"
    page.write_text("{}", encoding="utf-8")
    with patch.context() as m:
        m.setattr(chapters, "names", lambda: STEMS)
        m.setattr(tasks, "data_folder", lambda: folder / "from")
        m.setattr(
            pack.slides, "executed_page", lambda s: page if s == STEMS[0] else folder / "none"
        )
        m.setattr(
            pack.slides, "make", lambda stem, path: path.write_text("<html>", encoding="utf-8")
        )
        report = pack.make(folder / "course")
    return folder / "course", report


def read(path: Path):
    """Read a notebook."""
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    return nb


def test_a_pack_has_notebooks_slides_data_and_says_what_is_missing(two_chapters):
    folder, report = two_chapters
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {
        "README.md",
        *(f"students/{stem}.ipynb" for stem in (*STEMS, "project")),
        *(f"lecturer/{stem}-solutions.ipynb" for stem in STEMS),
        f"lecturer/{STEMS[0]}-slides.html",
        "data/mnist.npz",
    }
    assert (folder / "data" / "mnist.npz").read_bytes() == b"numbers"
    assert "slides of 1 (not executed here: 10a;" in report
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Slides are missing of chapters 10a," in text and "`data/`: mnist, for the pro" in text


def test_students_of_a_pack_get_no_solution(two_chapters):
    solution = "(total - (1 - alpha) * size_cap * m / 2) / alpha"
    for path in (two_chapters[0] / "students").iterdir():
        nb = read(path)
        assert not [c for c in nb.cells if "solution" in c.metadata.get("tags", [])], path
        text = path.read_text(encoding="utf-8")
        assert solution not in text and "teach.exercises" not in text and "### Solution" not in text
    with_solutions = read(two_chapters[0] / "lecturer" / f"{STEMS[0]}-solutions.ipynb")
    assert "### Solution of Exercise 1" in str(with_solutions.cells)


def test_a_chapter_that_cannot_be_converted_is_one_sentence_and_the_others_are_written(
    tmp_path, monkeypatch
):
    def make(stem, version, path):
        if stem == "02_b":
            raise SyntaxError("invalid syntax (02_b.py, line 7)\nand more")
        path.write_text(version, encoding="utf-8")

    monkeypatch.setattr(chapters, "names", lambda: ["01_a", "02_b", "03_c"])
    monkeypatch.setattr(teaching, "make", make)
    monkeypatch.setattr(tasks, "data_folder", lambda: tmp_path)
    lines = []
    with pytest.raises(InputError) as failure:
        pack.make(tmp_path / "course", lines.append)
    assert lines == ["01_a written", "03_c written"]
    assert str(failure.value) == (
        f"{tmp_path / 'course'} has all but what could not be converted: 02_b (invalid syntax (02_b.py, line 7))"
    )
    students = {p.stem for p in (tmp_path / "course" / "students").iterdir()}
    assert students == {"01_a", "03_c", "project"}
    assert (tmp_path / "course" / "README.md").is_file()


def test_a_folder_with_something_else_is_not_written_into(tmp_path):
    (tmp_path / "thesis.tex").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="something else in it: name a new or an empty folder"):
        pack.make(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_projects_notebook_runs_and_makes_a_run_again(tmp_path, monkeypatch):
    import papermill

    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share" / "jupyter"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = teaching.make("project", "student", tmp_path / "project.ipynb")
    small = {"task": "digits", "clients": 20, "clients_per_round": 4, "rounds": 8, "seeds": 2}
    nb = papermill.execute_notebook(
        path, None, small | {"draws": 250}, cwd=tmp_path, kernel_name="python3", progress_bar=False
    )
    outputs = [o for cell in nb.cells for o in cell.get("outputs", [])]
    text = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    assert "the same numbers" in text and "md: the final accuracy of md" in text
    assert len([o for o in outputs if "image/png" in o.get("data", {})]) == 2
    assert (tmp_path / "my_design.py").is_file()
    assert len([*(tmp_path / "runs" / "clothes").glob("*.parquet")]) == 6
    # Its points are those of the rubric.
    points = re.findall(r"\*\*Question \d \((\d) points\)", "".join(c.source for c in nb.cells))
    rubric = (Path(__file__).parents[1] / "book" / "teaching" / "project.md").read_text(
        encoding="utf-8"
    )
    assert (
        points == re.findall(r"^\| (\d) \|", rubric, re.MULTILINE) and sum(map(int, points)) == 24
    )
