"""What a chapter's sentences assert: stopped by the pipeline, marked in a reader's run, told in a copy."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from companion.pages import chapters, expectations, myst, parameters
from companion.pages.expectations import expect, list_failures, mark, pattern, remove_failures

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def shown(monkeypatch):
    """What `expect` displays, as (text, metadata), and what it writes to the top of a copy."""
    cells, top = [], []
    monkeypatch.setattr(
        "IPython.display.display", lambda what, metadata: cells.append((what.data, metadata))
    )
    monkeypatch.setattr(
        "IPython.display.update_display",
        lambda what, display_id: top.append((display_id, what.data)),
    )
    monkeypatch.setattr(expectations, "FAILED", {})
    return cells, top


def test_what_holds_shows_nothing(shown):
    expect("two is even", 2 % 2 == 0, two=2)
    assert shown == ([], [("not-here", "")])


def test_what_does_not_hold_is_told_with_its_numbers_and_in_a_list(shown):
    expect("three is even", 3 % 2 == 0, three=3, third=1 / 3, name="a")
    expect("four is odd", 4 % 2 == 1)
    cells, top = shown
    note = {"words": "three is even", "values": "three = 3, third = 0.333, name = a"}
    assert cells == [
        (f"**Not in this run:** “three is even” ({note['values']})", {"fedstas": note}),
        ("**Not in this run:** “four is odd”", {"fedstas": {"words": "four is odd", "values": ""}}),
    ]
    assert top[-1][1].splitlines()[-2:] == [
        "- “three is even” (three = 3, third = 0.333, name = a)", "- “four is odd”",
    ]  # fmt: skip
    expect("three is even", True)  # a cell that is run again takes it back
    assert "three" not in top[-1][1] and "four" in top[-1][1]


def page(*failed):
    """A chapter whose cell told of what did not hold, beside an output of its own."""
    notes = [
        new_output(
            "display_data", {"text/markdown": "x"}, metadata={"fedstas": {"words": w, "values": v}}
        )
        for w, v in failed
    ]
    texts = "# A title\n\nFirst.", "It grows with\nthe *model*, and stays.\n\nIt grows."
    cells = [new_markdown_cell(text) for text in texts]
    own = new_output("stream", name="stdout", text="kept")
    return new_notebook(cells=[*cells, new_code_cell("1", outputs=[*notes, own])])


def test_sentences_are_marked_where_they_stand_and_listed_on_top():
    nb = page(("grows with the *model*", "a = 1"))
    failed = remove_failures(nb)
    assert failed == [("grows with the *model*", "a = 1")]
    assert [output.output_type for output in nb.cells[2].outputs] == ["stream"]
    mark(nb, failed)
    assert nb.cells[1].source == (
        "It [grows with\nthe *model*]{.not-here}, and stays.\n\nIt grows."
    )
    title, box = nb.cells[0].source.split("\n\n", 1)
    assert title == "# A title" and box.endswith("```\n\nFirst.")
    warning = myst.parse(box)[0]
    assert (warning.name, warning.options) == ("admonition", {"class": "warning"})
    assert "Not all of this page holds" in warning.argument
    assert warning.body == list_failures(failed)
    assert warning.body.endswith("\n- “grows with the *model*” (a = 1)")


def test_where_all_holds_the_page_stays_as_it_is():
    nb, same = page(), page()
    mark(nb, remove_failures(nb))
    assert [c.source for c in nb.cells] == [c.source for c in same.cells]


CHAPTER = """\
# %% [markdown]
# # A chapter

# %% tags=["parameters"]
profile: str = "quick"  # quick, laptop or paper
clients: int = None  # number of clients

# %% [markdown]
# There are fewer clients
# than eight.

# %%
from companion.pages.prose import expect

expect("fewer clients than eight", (clients or 7) < 8, clients=clients)
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A house with one chapter, whose sentence holds for 7 clients."""
    for name, text in (
        ("notebooks/01_small.py", CHAPTER),
        ("params/quick.yaml", "01_small: {clients: 7}"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_reader_is_told_and_at_the_defaults_the_build_stops(house):
    made = nbformat.read(chapters.run("01", {"clients": 9}, progress=False), as_version=4)
    assert "[fewer clients\nthan eight]{.not-here}" in made.cells[3].source
    assert made.cells[0].source.endswith("- “fewer clients than eight” (clients = 9)\n```\n")
    assert not any(cell.get("outputs") for cell in made.cells)
    made = nbformat.read(chapters.run("01", {"clients": 6}, progress=False), as_version=4)
    assert "not-here" not in str(made.cells)
    (house / "notebooks/01_small.py").write_text(CHAPTER.replace("(clients or 7)", "8"))
    page = house / "book" / "chapters" / "01_small.ipynb"
    page.unlink()
    with pytest.raises(chapters.ChapterError) as stopped:
        chapters.run("01", progress=False)
    assert str(stopped.value).splitlines() == [
        "Chapter 01_small: what it says does not hold at its default parameters:",
        "    “fewer clients than eight” (clients = None)",
    ]
    assert not page.exists()


def asserted(stem: str) -> list[str]:
    """The words that a chapter asserts."""
    code = "\n".join(c.source for c in chapters.notebook(stem).cells if c.cell_type == "code")
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call)]
    return [n.args[0].value for n in calls if getattr(n.func, "id", "") == "expect"]


@pytest.mark.parametrize("stem", chapters.names())
def test_what_is_asserted_stands_on_the_page_once(stem):
    text = "\n".join(c.source for c in chapters.notebook(stem).cells if c.cell_type == "markdown")
    for words in asserted(stem):
        assert len(pattern(words).findall(text)) == 1, f"{stem} does not say {words!r} just once"


def test_chapter_1_asserts_what_it_claims():
    assert len(set(asserted("01_aggregation"))) >= 8
    assert not re.search(r"glue\(", (ROOT / "notebooks" / "01_aggregation.py").read_text())
