"""Asserted sentences of chapters: a failure stops the build, is marked in a reader's run, is listed in a copy."""

import ast

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from companion.pages import chapters, expectations, live_text, myst, parameters
from companion.pages.expectations import expect, list_failures, mark, pattern, remove_failures


@pytest.fixture
def displays(monkeypatch):
    """Collect what `expect` displays as (text, metadata), and what it writes to the top of a copy."""
    cells, top = [], []
    monkeypatch.setattr(
        "IPython.display.display", lambda output, metadata: cells.append((output.data, metadata))
    )
    monkeypatch.setattr(
        "IPython.display.update_display",
        lambda output, display_id: top.append((display_id, output.data)),
    )
    monkeypatch.setattr(expectations, "FAILED", {})
    monkeypatch.setattr(expectations, "heading", "")
    return cells, top


def test_a_sentence_that_holds_displays_nothing(displays):
    expect("two is even", 2 % 2 == 0, two=2)
    assert displays == ([], [("not-here", "")])


def test_a_sentence_that_does_not_hold_is_displayed_with_its_values_and_listed(displays):
    expect("three is even", 3 % 2 == 0, three=3, third=1 / 3, name="a")
    expect("four is odd", 4 % 2 == 1)
    cells, top = displays
    note = {"words": "three is even", "values": "three = 3, third = 0.333, name = a"}
    assert cells == [
        (f"**Not in this run:** “three is even” ({note['values']})", {"fedstas": note}),
        ("**Not in this run:** “four is odd”", {"fedstas": {"words": "four is odd", "values": ""}}),
    ]
    assert top[-1][1].splitlines()[-2:] == [
        "- “three is even” (three = 3, third = 0.333, name = a)",
        "- “four is odd”",
    ]
    expect("three is even", True)  # a cell that is run again removes it from the list
    assert "three" not in top[-1][1] and "four" in top[-1][1]


def make_page(*failed):
    """Return a chapter whose cell has the notes of failed sentences, (sentence, values), beside an output."""
    notes = [
        new_output(
            "display_data", {"text/markdown": "x"}, metadata={"fedstas": {"words": w, "values": v}}
        )
        for w, v in failed
    ]
    texts = "# A title\n\nFirst.", "It grows with\nthe *model*, and stays.\n\nIt grows."
    cells = [new_markdown_cell(text) for text in texts]
    output = new_output("stream", name="stdout", text="output")
    return new_notebook(cells=[*cells, new_code_cell("1", outputs=[*notes, output])])


def test_failed_sentences_are_marked_in_the_text_and_listed_on_top():
    nb = make_page(("grows with the *model*", "a = 1"))
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


def test_without_failures_the_page_is_unchanged():
    nb, unchanged = make_page(), make_page()
    mark(nb, remove_failures(nb))
    assert [c.source for c in nb.cells] == [c.source for c in unchanged.cells]


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
def clone(tmp_path, monkeypatch):
    """Make a repository with one chapter, whose sentence holds for 7 clients."""
    for name, text in (
        ("notebooks/01_small.py", CHAPTER),
        ("params/quick.yaml", "01_small: {clients: 7}"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_failed_sentence_is_marked_in_a_readers_run_and_stops_the_build_at_the_defaults(clone):
    nb = nbformat.read(chapters.run("01", {"clients": 9}, progress=False), as_version=4)
    assert "[fewer clients\nthan eight]{.not-here}" in nb.cells[1].source
    assert nb.cells[0].source.endswith("- “fewer clients than eight” (clients = 9)\n```\n")
    assert not any(cell.get("outputs") for cell in nb.cells)
    nb = nbformat.read(chapters.run("01", {"clients": 6}, progress=False), as_version=4)
    assert "not-here" not in str(nb.cells)
    (clone / "notebooks/01_small.py").write_text(
        CHAPTER.replace("(clients or 7)", "8"), encoding="utf-8"
    )
    page = clone / "book" / "chapters" / "01_small.ipynb"
    page.unlink()
    with pytest.raises(chapters.ChapterError) as failure:
        chapters.run("01", progress=False)
    assert str(failure.value).splitlines() == [
        "Chapter 01_small: what it says does not hold at its default parameters:",
        "    “fewer clients than eight” (clients = None)",
    ]
    assert not page.exists()


def test_a_noun_after_a_value_of_one_is_in_the_singular():
    data = {"application/papermill.record/text/plain": "1.2"}
    glued = new_output("display_data", data, metadata={"scrapbook": {"name": "a"}})
    text = "In {glue:text}`a:.0f`\nrounds, {glue:text}`a:.1f` points, {glue:text}`b` bits."
    nb = new_notebook(cells=[new_markdown_cell(text), new_code_cell("1", outputs=[glued])])
    live_text.fit_words_to_numbers(nb)
    assert nb.cells[0].source == text.replace("rounds", "round")


def test_a_range_of_equal_numbers_is_one_number():
    def glued(name, value):
        data = {"application/papermill.record/text/plain": str(value)}
        return new_output("display_data", data, metadata={"scrapbook": {"name": name}})

    a, b = "{glue:text}`a:.1f`", "{glue:text}`b:.1f`"
    kept = f"It goes from {a} to {b}, by 4.6 ({a} to {b}), from\n{a} to {b}."
    merged = f"Lengths: {a}\nto {b}."
    for high, expected in ((4.62, f"{kept} Lengths: {a}."), (4.7, f"{kept} {merged}")):
        outputs = [glued("a", 4.58), glued("b", high)]
        nb = new_notebook(cells=[new_markdown_cell(f"{kept} {merged}"), new_code_cell("1")])
        nb.cells[1].outputs = outputs
        live_text.fit_words_to_numbers(nb)
        assert nb.cells[0].source == expected
    text = "Lengths: ⟨a:.1f⟩ to ⟨b:.1f⟩ points, from ⟨a:.1f⟩ to ⟨b:.1f⟩, ⟨a:.1f⟩ to ⟨c:.1f⟩."
    shown = live_text.format_text(text, {"a": 4.58, "b": 4.62}, {})
    assert shown == "Lengths: 4.6 points, from 4.6 to 4.6, 4.6 to ⟨c⟩."


def list_asserted_sentences(stem: str) -> list[str]:
    """Return the sentences that a chapter passes to `expect`."""
    code = "\n".join(c.source for c in chapters.read_notebook(stem).cells if c.cell_type == "code")
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call)]
    return [n.args[0].value for n in calls if getattr(n.func, "id", "") == "expect"]


@pytest.mark.parametrize("stem", chapters.names())
def test_asserted_sentences_occur_on_the_page_exactly_once(stem):
    text = "\n".join(
        c.source for c in chapters.read_notebook(stem).cells if c.cell_type == "markdown"
    )
    for sentence in list_asserted_sentences(stem):
        assert len(pattern(sentence).findall(text)) == 1, (
            f"{stem} does not say {sentence!r} just once"
        )
