"""The copies of the chapters: equal to their sources, plain, and able to run where they were downloaded to."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import nbformat
import papermill
import pytest
import yaml

from companion.pages import chapters, copies, expectations, myst, parameters
from fedstas.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
STEMS = chapters.names()
# Directives, roles, labels and classes of MyST, which no other reader of notebooks knows.
MYST = re.compile(
    r"^[`:]{3,}\{[\w:-]+\}|\{(?:glue|cite|numref|eq|term|doc|ref|prf)[\w:]*\}`|^\([\w-]+\)=|\]\{\.[\w-]+\}", re.M
)  # fmt: skip


@cache
def text(stem: str) -> str:
    return copies.text(stem)


def read(stem: str):
    return nbformat.reads(text(stem), as_version=4)


def write(stem: str, path: Path) -> Path:
    path.write_text(text(stem), encoding="utf-8")
    return path


def code(stem: str) -> list:
    return [cell for cell in read(stem).cells if cell.cell_type == "code"]


def test_make_writes_a_copy_of_every_chapter_and_nothing_else(tmp_path):
    paths = copies.make(tmp_path / "copies")
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [f"{s}.ipynb" for s in STEMS]
    assert all(path.read_text(encoding="utf-8") == text(path.stem) for path in paths)


@pytest.mark.parametrize("stem", STEMS)
def test_a_copy_is_a_valid_notebook_in_plain_markdown_without_outputs(stem):
    nb = read(stem)
    nbformat.validate(nb)
    assert len({cell["id"] for cell in nb.cells}) == len(nb.cells)
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            assert not MYST.search(cell.source), MYST.search(cell.source)[0]
        else:
            assert cell.outputs == [] and cell.execution_count is None
    assert f"_build/html/chapters/{stem}.html" in nb.cells[0].source


@pytest.mark.parametrize("stem", STEMS)
def test_the_code_of_a_copy_is_that_of_its_source(stem):
    code_parts = [p for p in myst.parts(chapters.notebook(stem).cells) if not p.blocks]
    code_parts.sort(key=lambda part: bool(part.solves))  # solutions last
    assert [cell.source for cell in code(stem)[2:]] == [part.source for part in code_parts]


@pytest.mark.parametrize("stem", STEMS)
def test_solutions_stand_after_all_else_and_every_exercise_leads_to_its_own(stem):
    text = "\n".join(c.source for c in read(stem).cells if c.cell_type == "markdown")
    chapter, _, solutions = text.partition("\n## Solutions\n")
    asked = re.findall(r"^### (Exercise \d+):", chapter, re.M)
    assert "Solution of" not in re.sub(r"\*\[Solution of .+, at the end\*", "", chapter)
    told = re.findall(r"^\*\[Solution of (Exercise \d+)\]\(#(\S+)\), at the end\*$", chapter, re.M)
    assert told == [(each, f"Solution-of-{each.replace(' ', '-')}") for each in asked]
    assert re.findall(r"^### Solution of (.+)$", solutions, re.M) == asked
    assert "## Further reading" not in solutions and "## What we learned" not in solutions


def test_numbers_and_directives_are_readable(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_config.yml").write_text((ROOT / "_config.yml").read_text())
    chapter = """# %% [markdown]
# # A title
#
# ```{at-a-glance}
# :needs: nothing
# ```
# It is {glue:text}`ch4a_gain:.2f` of {glue:text}`ch4a_name:s`, see {numref}`fig-a`.
#
# ```{admonition} As coded: a place
# :class: as-coded
# Some words.
# ```
# ```{glue:figure} figure_a
# :name: fig-a
# :alt: a
#
# What to see.
# ```
#
# ```{explorer} coin
# ```

# %%
1 + 1
"""
    (tmp_path / "notebooks" / "01_small.py").write_text(chapter)
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    (made,) = copies.make()
    text = nbformat.read(made, as_version=4).cells[0].source
    assert text.startswith("# A title\n\n> A copy of a chapter")
    for part in (
        "It is ⟨gain⟩ of ⟨name⟩, see Figure 1.",
        "> **As coded: a place**\n>\n> Some words.",
        "*Figure 1. What to see.*",
        "*Needs: nothing*",
        "*(An instrument to turn by hand: in the book.)*",
    ):
        assert part in text
    assert not MYST.search(text)
    before = made.read_bytes()
    (made.parent / "02_gone.ipynb").write_text("{}")
    copies.make()  # jupytext draws the cells' ids anew; the copy does not change
    assert made.read_bytes() == before
    assert [path.name for path in made.parent.iterdir()] == ["01_small.ipynb"]
    (tmp_path / "notebooks" / "01_small.py").write_text("# %%\n1 + 1\n")
    with pytest.raises(InputError, match=r"01_small\.py must begin with a markdown cell"):
        copies.make()


def test_without_the_repository_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    with pytest.raises(InputError, match="clone the repository and install it with `pip install"):
        chapters.settings("02_stratification", {})


def test_what_a_copy_shows_of_its_numbers_is_not_among_its_readers_names(
    tmp_path, monkeypatch, capsys
):
    import IPython.display
    import myst_nb
    from IPython.core.interactiveshell import InteractiveShell

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda *_, **how: shown.append(how))
    monkeypatch.setattr(myst_nb, "glue", myst_nb.glue)  # begin() takes its place
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.run_cell(code("07_fedsampling")[1].source)
    assert Path.cwd() == ROOT
    assert shown == [{"display_id": expectations.TOP}]  # for what the run does not bear out
    capsys.readouterr()
    cell = (
        "numbers = tell = show = [1]\nimport myst_nb; myst_nb.glue('ch7_gain', 0.25, display=False)"
    )
    for said in ("⟨gain⟩ 0.25\n", ""):
        assert shell.run_cell(cell).success
        assert capsys.readouterr().out == said
        cell = "pass"


@pytest.mark.parametrize("there", [True, False])
def test_the_first_cell_installs_the_package_where_it_is_not(there, tmp_path, monkeypatch, capfd):
    called = []
    find = importlib.util.find_spec
    if not there:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda command, **how: called.append((command, how)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    first = code("03_data_sampling")[0]
    assert "install" in first.metadata.tags
    exec(compile(first.source, "install", "exec"), {})
    assert capfd.readouterr() == ("", "")
    assert find("fedstas") is not None
    if there:
        assert called == []
        return
    config = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
    (clone, how), (install, more) = called
    folder = tmp_path / copies.CLONE
    assert [*clone] == [
        "git", "clone", "--quiet", "--depth", "1", "--branch", config["branch"], config["url"], folder,
    ]  # fmt: skip
    assert install[-2:] == ["--editable", f"{folder}[book]"]
    assert how == more == {"check": True}
    assert sys.path[0] == str(folder)


def test_the_address_comes_from_the_configuration(monkeypatch):
    where = {"title": "A book", "url": "https://example.org/us/book", "branch": "trunk"}
    monkeypatch.setattr(copies, "address", lambda: where)
    text = copies.text("01")
    assert text.count(where["url"]) == 2 and "trunk" in text
    assert yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"] not in text


@pytest.mark.parametrize("stem", STEMS)
def test_papermill_knows_type_and_meaning_of_every_parameter(stem, tmp_path):
    inspected = papermill.inspect_notebook(write(stem, tmp_path / "copy.ipynb"))
    declared = parameters.declared(stem)
    assert list(inspected) == list(declared)
    for name, parameter in declared.items():
        assert inspected[name]["inferred_type_name"] == parameter.type.__name__
        assert inspected[name]["help"] == parameter.help and len(parameter.help) > 5, name
        assert parameter.default is None or parameter.check(parameter.default) == parameter.default


def call(*words, folder: Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("papermill"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_the_help_of_a_copy_can_be_read(tmp_path):
    copy = write("02_stratification", tmp_path / "copy.ipynb")
    done = call("--help-notebook", copy, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Unknown type" not in done.stdout
    assert re.search(r"strata: int \(default None\)\s+number of strata", done.stdout)


@pytest.mark.slow
def test_a_downloaded_copy_runs_in_an_empty_folder(tmp_path):
    write("01_aggregation", tmp_path / "mine.ipynb")
    given = ("-p", "clients", "10", "-p", "rounds", "2")
    done = call("mine.ipynb", "out.ipynb", *given, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    assert any("image/svg+xml" in out.get("data", {}) for out in outputs)
    assert any("⟨clients⟩ 10" in out.get("text", "") for out in outputs)
    installed = next(cell for cell in cells if "install" in cell.metadata.get("tags", []))
    assert installed.outputs == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.ipynb", "out.ipynb"]


@pytest.mark.slow
def test_a_downloaded_copy_refuses_a_parameter_that_it_does_not_have(tmp_path):
    copy = write("01_aggregation", tmp_path / "copy.ipynb")
    done = call(copy, "out.ipynb", "-p", "client", "10", folder=tmp_path)
    assert done.returncode != 0
    assert "unknown parameter 'client' of chapter 01_aggregation" in done.stderr


@pytest.mark.parametrize("stem", STEMS)
def test_launch_links_name_the_branch_to_which_the_workflow_pushes_the_copies(stem, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import fedstas_launch

    config = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
    host, owner, name = re.fullmatch(r"https://([\w.]+)/([\w-]+)/([\w.-]+)", config["url"]).groups()
    assert host == "github.com"
    branch = fedstas_launch.NOTEBOOKS_BRANCH
    (workflow,) = (ROOT / ".github" / "workflows").iterdir()
    assert f"git push --force origin HEAD:refs/heads/{branch}\n" in workflow.read_text()
    copy = (copies.folder() / f"{stem}.ipynb").relative_to(ROOT).as_posix()
    urls = fedstas_launch.service_urls(config["url"], stem)
    colab, binder = (urlsplit(url) for url in urls.values())
    assert (colab.scheme, colab.netloc) == ("https", "colab.research.google.com")
    assert colab.path == f"/github/{owner}/{name}/blob/{branch}/{copy}"
    assert (binder.scheme, binder.netloc) == ("https", "mybinder.org")
    assert binder.path == f"/v2/gh/{owner}/{name}/{branch}"
    assert parse_qs(binder.query) == {"labpath": [copy]}
