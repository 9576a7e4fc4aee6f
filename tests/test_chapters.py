"""Chapters: names, parameters, profiles, execution, failures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from companion.pages import chapters, parameters, preview
from fedstas import cli
from fedstas.client_sampling import Stratified
from fedstas.errors import InputError
from fedstas.sim.rng import LARGEST_SEED

CHAPTER = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A chapter

# %% tags=["parameters"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "cpu"  # auto, cpu or cuda
clients: int = None  # number of clients

# %%
from companion.pages import chapters, parameters

parameters.ROOT = chapters.Path.cwd()
s = chapters.settings("01_small", globals())

# %%
print(s.clients)
first = 1
1 / (s.clients - 13)
"""

PARAMETERS = parameters.declared("05")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Make a repository with one small chapter, and let the package work in it."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "params").mkdir()
    (tmp_path / "notebooks" / "01_small.py").write_text(CHAPTER, encoding="utf-8")
    (tmp_path / "params" / "quick.yaml").write_text("01_small: {clients: 7}\n", encoding="utf-8")
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    return tmp_path


def text_output(page: Path) -> str:
    """Return the text output of an executed page."""
    cells = nbformat.read(page, as_version=4).cells
    return "".join(out.get("text", "") for cell in cells for out in cell.get("outputs", []))


@pytest.mark.parametrize("name", ["01", "1", "01_small", "small"])
def test_a_chapter_has_several_names(clone, name):
    assert chapters.find(name) == "01_small"


def test_an_unknown_chapter_is_refused(clone):
    with pytest.raises(InputError, match=r"unknown chapter '02'.*01_small"):
        chapters.find("02")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("profile", "huge"),
        ("seed", -1),
        ("seed", 0.5),
        ("clients", True),
        ("clients", "ten"),
        ("clients", float("nan")),
        ("clients", float("inf")),
        ("concentration", 0),
        ("concentration", float("inf")),
        ("strata", 0),
        ("device", "tpu"),
        ("task", 3),
        ("size_cap", 2),
        ("epsilon", -1.0),
        ("rounds", 0),
    ],
)
def test_a_value_out_of_bounds_is_refused(name, value):
    with pytest.raises(InputError, match=name):
        PARAMETERS[name].check(value)


@pytest.mark.parametrize("levels", [1, 257])
def test_a_parameter_has_the_bounds_of_the_designs_field(levels):
    with pytest.raises(InputError) as refused:
        Stratified(levels=levels)
    with pytest.raises(InputError, match=f"^{re.escape(str(refused.value))}$"):
        chapters.settings("02", {"levels": levels})


def test_a_privacy_loss_beyond_what_the_size_cap_allows_is_refused():
    with pytest.raises(InputError, match=r"^epsilon is 50.*at most 40\.\d+$"):
        chapters.settings("03", {"epsilon": 50.0, "size_cap": 100})


def test_values_take_the_declared_type():
    assert PARAMETERS["clients"].check(1e2) == 100
    assert isinstance(PARAMETERS["clients"].check(1e2), int)
    assert isinstance(PARAMETERS["concentration"].check(1), float)
    texts = {"clients": "1e2", "device": "cpu", "epsilon": "3", "seed": str(LARGEST_SEED)}
    values = {"clients": 100, "device": "cpu", "epsilon": 3.0, "seed": LARGEST_SEED}
    assert parameters.parse("05", texts) == values
    for text in ("ten", "nan", "inf", "", "1_0.5"):
        with pytest.raises(InputError, match=r"^clients is "):
            parameters.parse("05", {"clients": text})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("strata: list = None  # some", "declares strata: list"),
        ("strata = None  # some", "declares strata: None"),
        ("words: str = 'a'  # some", "declares words: str"),
    ],
)
def test_a_declaration_that_nothing_checks_is_refused(line, message, clone):
    source = clone / "notebooks" / "01_small.py"
    source.write_text(
        CHAPTER.replace("clients: int = None  # number of clients", line), encoding="utf-8"
    )
    with pytest.raises(InputError, match=message):
        parameters.declared("01")
    source.write_text(CHAPTER.replace(' tags=["parameters"]', ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"01_small\.py has no cell with the tag `parameters`"):
        parameters.declared("01")


def test_the_profile_sets_parameters_that_are_not_given(clone):
    """params/quick.yaml of the clone has 7 clients."""
    assert chapters.settings("01", {"clients": None}).clients == 7
    assert chapters.settings("01", {"clients": 9}).clients == 9


def test_a_parameter_that_papermill_injected_and_nobody_declared_is_refused(clone):
    with pytest.raises(InputError, match="unknown parameter 'client'"):
        chapters.settings("01", {"_ih": ["", "# Parameters\nclient = 3\n"], "client": 3})


@pytest.mark.slow
def test_a_run_writes_the_page_with_its_provenance(clone):
    page = chapters.run("01", {"clients": 8}, progress=False)
    assert page == clone / "book" / "chapters" / "01_small.ipynb"
    assert text_output(page) == "8\n"
    block = chapters.provenance(page)
    if sys.platform != "win32":  # which does not tell the processor time of a child
        assert block["cpu"] > 0
    assert block["parameters"]["clients"] == 8
    assert block["command"] == "fedstas chapter 01 -p clients 8"
    assert str(clone) not in page.read_text(encoding="utf-8")
    assert "papermill" not in json.loads(page.read_text(encoding="utf-8"))["metadata"]


def test_parameters_and_imports_are_one_folded_cell_at_the_end_of_the_page():
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    def cell(source, *tags):
        return new_code_cell(source, metadata={"tags": list(tags)})

    set_up = cell("a = 1", "parameters"), cell("a = 2", "injected-parameters")
    others = cell("b = a"), cell("c = b", "hide-input")
    title, question = new_markdown_cell("# A title"), new_markdown_cell("## A question")
    nb = new_notebook(cells=[title, *set_up, cell("import d", "hide-input"), question, *others])
    chapters.move_set_up_to_end(nb)
    assert [c.source for c in nb.cells[:-1]] == ["# A title", "## A question", "b = a", "c = b"]
    assert nb.cells[-1].source == "a = 1\n\na = 2\n\nimport d"
    assert nb.cells[-1].metadata["tags"] == ["hide-input"]
    without = new_notebook(cells=[title, *others])
    chapters.move_set_up_to_end(without)
    assert without.cells == [title, *others]


@pytest.mark.slow
def test_a_failing_chapter_is_named_with_its_line_and_leaves_no_file(clone):
    with pytest.raises(chapters.ChapterError) as failure:
        chapters.run("01", {"clients": 13}, progress=False)
    message = str(failure.value)
    assert "Chapter 01_small stopped in cell 4, notebooks/01_small.py line 27" in message
    assert "print(s.clients)" in message
    assert "ZeroDivisionError" in message
    assert len(message.splitlines()) <= 5
    assert not list(clone.glob("book/chapters/*"))


def test_the_parameters_are_listed_with_type_value_and_meaning(clone):
    lines = parameters.listing("01", {"seed": 4}).splitlines()
    assert [line.split(maxsplit=3) for line in lines] == [
        ["profile", "str", "quick", "quick, laptop or paper"],
        ["seed", "int", "4", "of every random draw"],
        ["device", "str", "cpu", "auto, cpu or cuda"],
        ["clients", "int", "7", "number of clients"],
    ]
    with pytest.raises(InputError, match="unknown parameter 'client'"):
        parameters.listing("01", {"client": 4})


def test_the_page_is_opened_or_its_path_is_returned(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        preview.webbrowser, "open", lambda uri: opened.append(uri) or len(opened) == 1
    )
    page = tmp_path / "a page.html"
    assert preview.show(page) == f"opened {page}"
    assert preview.show(page) == f"no browser was found here: open {page} in one"
    assert opened == [page.as_uri()] * 2


def test_provenance_of_recorded_runs_is_written_unless_it_exists(tmp_path):
    file = tmp_path / "book" / "chapters" / "recorded.json"
    file.parent.mkdir(parents=True)
    preview.write_provenance(tmp_path)
    by_sweep = json.loads(file.read_text(encoding="utf-8"))
    assert {"preprint", "imbalance", "partitions"} <= set(by_sweep)
    assert by_sweep["preprint"]["runs"] == "not recorded yet"  # there is no results/
    file.write_text("{}", encoding="utf-8")
    preview.write_provenance(tmp_path)
    assert file.read_text(encoding="utf-8") == "{}"


def test_the_option_open_needs_an_executed_chapter_and_excludes_output(clone, capsys):
    with pytest.raises(InputError, match="chapter 01_small is not executed yet"):
        preview.render("01")
    with pytest.raises(SystemExit) as exc_info:
        cli.main(["chapter", "01", "--open", "--output", "mine.ipynb"])
    assert exc_info.value.code == 2
    assert "--output mine.ipynb writes elsewhere: choose one" in capsys.readouterr().err


def test_an_unknown_parameter_is_refused_before_anything_runs(clone):
    with pytest.raises(InputError, match=r"'client' of chapter 01_small.*clients"):
        chapters.run("01", {"client": 3}, progress=False)


def test_every_profile_sets_the_parameters_of_every_chapter():
    for profile in parameters.PROFILES:
        for stem in chapters.names():
            settings = chapters.settings(stem, {"profile": profile})
            assert settings.profile == profile


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"strata": 1000}, "strata is 1000: it must not be above clients, here 30"),
        ({"clients_per_round": 50}, "clients_per_round is 50: it must not be above clients"),
        ({"task": "mnist"}, "mnist"),
        ({"device": "cuda"}, "cuda"),
    ],
)
def test_a_value_that_this_machine_cannot_use_is_refused_before_a_kernel_starts(
    values, message, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"not that")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(chapters, "_execute", lambda *a: pytest.fail("a kernel was started"))
    with pytest.raises(InputError, match=message):
        chapters.run("02", values, output=tmp_path / "x.ipynb")


def test_a_chapter_may_need_more_than_a_parameters_own_bound():
    with pytest.raises(InputError, match="rounds is 1: chapter 04f_convergence needs at least 10"):
        chapters.settings("04f", {"rounds": 1})
    assert chapters.settings("04f", {"rounds": 10}).rounds == 10


def test_a_chapter_computes_with_one_thread_wherever_it_is_run():
    """In Jupyter and papermill nobody sets OMP_NUM_THREADS, and k-means brings threads of its own."""
    code = """
import numpy as np
import torch
from threadpoolctl import threadpool_info
from companion import chapters
from fedstas.stratification import stratify
chapters.settings("02_stratification", globals())
stratify(np.random.default_rng(0).normal(size=(30, 4)), 3, 0)
print(torch.get_num_threads(), sorted({pool["num_threads"] for pool in threadpool_info()}))
"""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    two_threads = os.environ | dict.fromkeys(names, "2")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=two_threads
    )
    assert result.stdout.strip() == "1 [1]", result.stderr


def test_every_chapter_calls_settings_first_which_limits_its_threads():
    for stem in chapters.names():
        cells = [c.source for c in chapters.read_notebook(stem).cells if c.cell_type == "code"]
        assert f'chapters.settings("{stem}", globals())' in "\n".join(cells[:2]), stem
