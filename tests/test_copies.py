"""The copies of the chapters: their code is the source's, their text plain Markdown; they run where they are downloaded."""

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

from companion.pages import chapters, copies, expectations, live_text, markdown, myst, parameters
from fedstas.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
STEMS = chapters.names()
# Directives, roles, labels and classes of MyST, which no other reader of notebooks knows.
MYST_SYNTAX = re.compile(
    r"^[`:]{3,}\{[\w:-]+\}|\{(?:glue|cite|numref|eq|term|doc|ref|prf)[\w:]*\}`|"
    r"^\([\w-]+\)=|\]\{\.[\w-]+\}",
    re.M,
)


@cache
def text(stem: str) -> str:
    """Return the text of a chapter's copy."""
    return copies.text(stem)


def read(stem: str):
    """Return a chapter's copy as a notebook."""
    return nbformat.reads(text(stem), as_version=4)


def write(stem: str, path: Path) -> Path:
    """Write a chapter's copy to a path."""
    path.write_text(text(stem), encoding="utf-8")
    return path


def code_cells(stem: str) -> list:
    """Return the code cells of a chapter's copy, without those that show text."""
    return [
        cell
        for cell in read(stem).cells
        if cell.cell_type == "code" and "text" not in cell.metadata.get("tags", [])
    ]


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
            assert not MYST_SYNTAX.search(cell.source), MYST_SYNTAX.search(cell.source)[0]
            assert "⟨" not in cell.source
        elif cell.source.startswith("%%text\n"):  # read before it is run, with names for numbers
            assert not MYST_SYNTAX.search(cell.source), MYST_SYNTAX.search(cell.source)[0]
            assert "text/markdown" in cell.outputs[0].data
            assert cell.metadata["jupyter"]["source_hidden"] and cell.metadata["cellView"] == "form"
        else:
            assert cell.outputs == [] and cell.execution_count is None
    assert f"_build/html/chapters/{stem}.html" in nb.cells[0].source


def test_a_reference_to_another_chapter_names_it_and_leads_there():
    texts = "\n".join(cell.source for cell in read("04b_variance").cells)
    assert re.search(r"Lemma 1 of \[chapter 2\]\(\S+/02_stratification\.ipynb\)", texts)


def test_every_reference_leads_to_a_label_of_a_chapter(monkeypatch):
    labels = []
    monkeypatch.setattr(
        copies.CopiedMarkdown, "elsewhere", lambda self, label: labels.append(label) or label
    )
    for stem in STEMS:
        copies.copy(stem)
    assert labels and set(labels) <= set(markdown.labels_of_chapters(parameters.sources()))


@pytest.mark.parametrize("stem", STEMS)
def test_the_code_of_a_copy_is_that_of_its_source(stem):
    code_parts = [p for p in myst.parts(chapters.read_notebook(stem).cells) if not p.blocks]
    code_parts.sort(key=lambda part: bool(part.solves))  # solutions last
    sources = [re.sub("^#@title .*\n", "", cell.source) for cell in code_cells(stem)[2:]]
    assert sources == [part.source for part in code_parts]


@pytest.mark.parametrize("stem", STEMS)
def test_code_that_asserts_or_serves_the_page_alone_is_folded(stem):
    for cell in code_cells(stem):
        for_the_page = {"remove-input", "remove-cell"} & set(cell.metadata.get("tags", []))
        assert cell.metadata.get("jupyter", {}).get("source_hidden", False) >= bool(for_the_page)
        if re.search(r"^\s*(?:expect|glue_values)\(", cell.source, re.M):
            assert cell.metadata["jupyter"]["source_hidden"] and cell.source.startswith("#@title ")


@pytest.mark.parametrize("stem", STEMS)
def test_solutions_are_last_and_every_exercise_links_to_its_own(stem):
    text = "\n".join(c.source for c in read(stem).cells)
    chapter, _, solutions = text.partition("\n## Solutions\n")
    exercises = re.findall(r"^### (Exercise \d+):", chapter, re.M)
    assert "Solution of" not in re.sub(r"\*\[Solution of .+, at the end\*", "", chapter)
    links = re.findall(r"^\*\[Solution of (Exercise \d+)\]\(#(\S+)\), at the end\*$", chapter, re.M)
    assert links == [(e, f"Solution-of-{e.replace(' ', '-')}") for e in exercises]
    assert re.findall(r"^### Solution of (.+)$", solutions, re.M) == exercises
    assert "## Further reading" not in solutions and "## What we learned" not in solutions


def test_numbers_and_directives_are_readable(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_config.yml").write_text(
        (ROOT / "_config.yml").read_text(encoding="utf-8"), encoding="utf-8"
    )
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
    (tmp_path / "notebooks" / "01_small.py").write_text(chapter, encoding="utf-8")
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    (copy,) = copies.make()
    cells = nbformat.read(copy, as_version=4).cells
    assert cells[0].source.startswith("# A title\n\n> A copy of a chapter")
    text = "\n".join(cell.source for cell in cells)
    for part in (
        "It is ⟨ch4a_gain:.2f⟩ of ⟨ch4a_name:s⟩, see Figure 1.",
        "> **As coded: a place**\n>\n> Some words.",
        "*Figure 1. What to see.*",
        "*Needs: nothing*",
        "*(The demo is interactive: it stands here on this chapter's page in the book.)*",
    ):
        assert part in text
    assert not MYST_SYNTAX.search(text)
    before = copy.read_bytes()
    (copy.parent / "02_gone.ipynb").write_text("{}", encoding="utf-8")
    copies.make()  # jupytext's ids of cells are random; the copy does not change
    assert copy.read_bytes() == before
    assert [path.name for path in copy.parent.iterdir()] == ["01_small.ipynb"]
    (tmp_path / "notebooks" / "01_small.py").write_text("# %%\n1 + 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"01_small\.py must begin with a markdown cell"):
        copies.make()


def test_without_the_repository_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    with pytest.raises(InputError, match="clone the repository and install it with `pip install"):
        chapters.settings("02_stratification", {})


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A shell that has run a copy's second cell, and what it displays: {id: Markdown}, with "" for all without one."""
    import IPython.display
    import myst_nb
    from IPython.core.interactiveshell import InteractiveShell

    shown = {}

    def show(what, display_id="", **_):
        shown[display_id] = what.data

    monkeypatch.setattr(IPython.display, "display", show)
    monkeypatch.setattr(IPython.display, "update_display", show)
    monkeypatch.setattr(myst_nb, "glue", myst_nb.glue)  # begin() takes its place
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.run_cell(code_cells("07_fedsampling")[1].source)
    assert Path.cwd() == ROOT
    yield shell, shown
    expectations.FAILED.clear()
    expectations.heading = ""


def test_a_text_has_the_numbers_of_the_run_whenever_they_are_computed(kernel):
    shell, shown = kernel
    glue = "import myst_nb; myst_nb.glue({!r}, {}, display=False)"
    before = set(shell.user_ns)
    assert shell.run_cell(glue.format("ch7_gain", 0.25)).success
    assert (
        live_text.format_text("⟨a⟩ bits, ⟨b:.0f⟩\nstrata, ⟨a⟩", {"a": 1, "b": 1.2}, {})
        == "1 bit, 1\nstratum, 1"
    )
    text = "%%text\n#@title T\nGains ⟨ch7_gain:.1%⟩, and then\n> they ⟨ch7_late⟩ fall."
    assert shell.run_cell(text).success
    assert shown["text-0"] == "Gains 25.0%, and then\n> they ⟨late⟩ fall."
    shell.run_cell(glue.format("ch7_late", 3))
    assert shown["text-0"] == "Gains 25.0%, and then\n> they 3 fall."
    shell.run_cell("from companion.pages.prose import expect\nexpect('then they', False, fall=2)")
    marked = "Gains 25.0%, and ~~then\n> they~~ **(not in this run: fall = 2)** 3 fall."
    assert shown["text-0"] == marked
    assert "then they" in shown[expectations.TOP]
    shell.run_cell("expect('then they', True)")
    assert shown["text-0"] == "Gains 25.0%, and then\n> they 3 fall."
    assert {name for name in set(shell.user_ns) - before if name[0] != "_"} <= {"myst_nb", "expect"}


def test_the_parameters_of_a_run_stand_on_top(kernel):
    shell, shown = kernel
    shell.run_cell("from companion import chapters; chapters.settings('01', {'clients': 9})")
    assert "clients `9`, clients_per_round `6`" in shown[expectations.TOP]
    assert "**Not the defaults: clients `9`.**" in shown[expectations.TOP]
    shell.run_cell("chapters.settings('01', {})")
    assert "They are the chapter's defaults." in shown[expectations.TOP]


def test_a_folded_box_that_a_cell_shows_is_folded_in_plain_markdown(kernel):
    shell, _ = kernel
    data, _ = shell.display_formatter.format(
        __import__("IPython").display.Markdown(
            "````{admonition} Made\n:class: dropdown\n\n| a |\n````"
        )
    )
    assert data["text/markdown"] == "<details><summary>Made</summary>\n\n| a |\n\n</details>"


def test_links_equations_and_citations_lead_somewhere():
    text = "\n".join(c.source for stem in STEMS for c in read(stem).cells)
    assert not re.search(
        r"\]\((?!https://|#)[^)]*\)",
        re.sub(
            r"`[^`\n]*`",
            "",
            "\n".join(
                c.source for stem in STEMS for c in read(stem).cells if c.cell_type == "markdown"
            ),
        ),
    )
    assert "\\tag{1}" in text and "McMahan et al. (2017)" in text
    for stem in STEMS:
        cells = [c for c in read(stem).cells if c.cell_type == "markdown"]
        headings = re.findall(r"^#+ (.*)$", "\n".join(c.source for c in cells), re.M)
        anchors = {heading.replace(" ", "-") for heading in headings}
        for target in re.findall(r"\]\(#([^)]*)\)", "\n".join(c.source for c in cells)):
            assert target in anchors, (stem, target)


FAULTY = {
    "mark-up of the book": "See {numref}`fig-a`.",
    "a number that is missing": "It is ⟨gain⟩.",
    "not a number": "2 points (nan)",
    "a type of NumPy": "(same = [np.False_])",
    "a warning": "FutureWarning: soon",
    "a range of one number": "rises from 73 % to 73 %",
    "a comparison of equal numbers": "larger, 0.26 against 0.26",
    "a plural of one": "codes of 1 bits",
    "an empty comment or heading": "# ",
}


@pytest.mark.parametrize("fault", live_text.FAULTS)
def test_what_a_person_would_stumble_on_is_found(fault):
    nb = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(f"Before.\n{FAULTY[fault]}\nAfter.")]
    )
    (found,) = live_text.find_faults(nb)
    assert found.startswith(fault)


def test_a_figure_that_is_not_shown_is_found():
    cell = nbformat.v4.new_code_cell("glue_figure('a', 1)")
    assert live_text.find_faults(nbformat.v4.new_notebook(cells=[cell])) == [
        "missing figures: 1 are drawn, 0 shown"
    ]
    good = "It is 1 bit of `nan`, 0.5 (0.5 to 0.5), from 7 to 70 %, 0.2 against 0.26, in $\\frac{1}{2}$ rounds.\n\n```python\n# \n```"
    good = nbformat.v4.new_markdown_cell(good)
    assert live_text.find_faults(nbformat.v4.new_notebook(cells=[good])) == []


@pytest.mark.parametrize("installed", [True, False])
def test_the_first_cell_installs_the_package_if_it_is_missing(
    installed, tmp_path, monkeypatch, capfd
):
    calls = []
    find = importlib.util.find_spec
    if not installed:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: calls.append((command, options))
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    first = code_cells("03_data_sampling")[0]
    assert "install" in first.metadata.tags
    exec(compile(first.source, "install", "exec"), {})
    output, errors = capfd.readouterr()
    assert errors == ""
    assert output == (
        "" if installed else "The package is installed now, which takes some minutes, once.\n"
    )
    assert find("fedstas") is not None
    if installed:
        assert calls == []
        return
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    (clone, clone_options), (install, install_options) = calls
    folder = tmp_path / copies.CLONE
    command = ["git", "clone", "--quiet", "--depth", "1", "--branch"]
    assert [*clone] == [*command, config["branch"], config["url"], folder]
    assert install[-2:] == ["--editable", f"{folder}[book]"]
    assert clone_options == install_options == {"check": True}
    assert sys.path[0] == str(folder)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FileNotFoundError("git"), "git was not found: the package could not be installed."),
        (subprocess.CalledProcessError(128, ["git"]), "git clone failed: the package could not"),
    ],
)
def test_without_a_network_the_first_cell_says_so_in_a_sentence(
    error, sentence, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.chdir(tmp_path)
    source = code_cells("03_data_sampling")[0].source
    with pytest.raises(SystemExit, match=sentence) as stop:
        exec(compile(source, "install", "exec"), {})
    assert "copy a clone of https://" in str(stop.value) and "\n" not in str(stop.value)


def test_the_address_comes_from_the_configuration(monkeypatch):
    address = {"title": "A book", "url": "https://example.org/us/book", "branch": "trunk"}
    monkeypatch.setattr(copies, "address", lambda: address)
    text = copies.text("01")
    assert text.count(address["url"]) >= 2 and "trunk" in text
    assert (
        yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
        not in text
    )


@pytest.mark.parametrize("stem", STEMS)
def test_papermill_knows_type_and_meaning_of_every_parameter(stem, tmp_path):
    inspected = papermill.inspect_notebook(write(stem, tmp_path / "copy.ipynb"))
    declared = parameters.declared(stem)
    assert list(inspected) == list(declared)
    for name, parameter in declared.items():
        assert inspected[name]["inferred_type_name"] == parameter.type.__name__
        assert inspected[name]["help"] == parameter.help and len(parameter.help) > 5, name
        assert parameter.default is None or parameter.check(parameter.default) == parameter.default


def run_papermill(*arguments, folder: Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("papermill"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_the_help_of_a_copy_is_readable_text(tmp_path):
    copy = write("02_stratification", tmp_path / "copy.ipynb")
    process = run_papermill("--help-notebook", copy, folder=tmp_path)
    assert process.returncode == 0, process.stderr
    assert "Unknown type" not in process.stdout
    assert re.search(r"strata: int \(default None\)\s+number of strata", process.stdout)


@pytest.mark.slow
def test_a_downloaded_copy_runs_in_an_empty_folder(tmp_path):
    write("01_aggregation", tmp_path / "mine.ipynb")
    options = ("-p", "clients", "10", "-p", "rounds", "2")
    process = run_papermill("mine.ipynb", "out.ipynb", *options, folder=tmp_path)
    assert process.returncode == 0, process.stderr
    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    assert live_text.find_faults(nbformat.v4.new_notebook(cells=cells)) == []
    shown = " ".join(
        str(out.get("data", {}).get("text/markdown")) for c in cells for out in c.get("outputs", [])
    )
    assert (
        "of the 10 clients are left" in shown
        and "**Not the defaults: clients `10`, rounds `2`.**" in shown
    )
    install = next(cell for cell in cells if "install" in cell.metadata.get("tags", []))
    assert install.outputs == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.ipynb", "out.ipynb"]


@pytest.mark.slow
def test_a_downloaded_copy_refuses_a_parameter_that_it_does_not_have(tmp_path):
    copy = write("01_aggregation", tmp_path / "copy.ipynb")
    process = run_papermill(copy, "out.ipynb", "-p", "client", "10", folder=tmp_path)
    assert process.returncode != 0
    assert "unknown parameter 'client' of chapter 01_aggregation" in process.stderr


@pytest.mark.parametrize("stem", STEMS)
def test_launch_links_name_the_branch_to_which_the_workflow_pushes_the_copies(stem, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import fedstas_launch

    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    host, owner, name = re.fullmatch(r"https://([\w.]+)/([\w-]+)/([\w.-]+)", config["url"]).groups()
    assert host == "github.com"
    branch = fedstas_launch.NOTEBOOKS_BRANCH
    (workflow,) = (ROOT / ".github" / "workflows").iterdir()
    assert f"git push --force origin HEAD:refs/heads/{branch}\n" in workflow.read_text(
        encoding="utf-8"
    )
    copy = (copies.folder() / f"{stem}.ipynb").relative_to(ROOT).as_posix()
    urls = fedstas_launch.service_urls(config["url"], stem)
    colab, binder = (urlsplit(url) for url in urls.values())
    assert (colab.scheme, colab.netloc) == ("https", "colab.research.google.com")
    assert colab.path == f"/github/{owner}/{name}/blob/{branch}/{copy}"
    assert (binder.scheme, binder.netloc) == ("https", "mybinder.org")
    assert binder.path == f"/v2/gh/{owner}/{name}/{branch}"
    assert parse_qs(binder.query) == {"labpath": [copy]}
