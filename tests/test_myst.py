"""The parser of MyST text: blocks, parts of a chapter, references, and plain Markdown."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from companion.pages import chapters, markdown, myst
from fedstas.errors import InputError


@pytest.mark.parametrize("stem", chapters.names())
def test_blocks_hold_the_whole_text_of_every_chapter(stem):
    for cell in chapters.read_notebook(stem).cells:
        if cell.cell_type == "markdown":
            assert "\n".join(block.source for block in myst.parse(cell.source)) == cell.source


def test_a_directive_has_a_name_an_argument_options_and_a_body():
    fence, colons = myst.parse(
        "```{prf:lemma} A *title*\n:label: lem-a\n:class: wide\n\nIt holds.\n```\n:::{note}\nSo.\n:::"
    )
    assert (fence.name, fence.argument, fence.label) == ("prf:lemma", "A *title*", "lem-a")
    assert fence.options == {"label": "lem-a", "class": "wide"} and fence.body == "It holds."
    assert (colons.name, colons.argument, colons.body) == ("note", "", "So.")


def test_headings_in_code_are_no_headings():
    blocks = myst.parse("# A\n\n```bash\n# no heading {glue:text}`x`\n```\n\n## B")
    assert [block.kind for block in blocks] == ["heading", "fence", "heading"]
    assert markdown.PlainMarkdown({}, {}).blocks(blocks[1:2]) == blocks[1].source.strip("\n")


def test_an_exercise_from_start_to_end_is_one_block():
    text = "```{exercise-start} Sum\n:label: ex-a\n```\nAdd.\n\n$$\na\n$$\n```{exercise-end}\n```"
    (exercise,) = myst.parse(text)
    assert (exercise.name, exercise.argument, exercise.label) == ("exercise", "Sum", "ex-a")
    assert exercise.body == "Add.\n\n$$\na\n$$" and exercise.source == text


def test_parts_end_where_a_solution_begins_or_ends():
    cells = [
        new_markdown_cell("Before.\n\n````{solution-start} ex-a\n````\nSo."),
        new_code_cell("1"),
        new_markdown_cell("````{solution-end}\n````\nAfter.\n\n```{solution} ex-b\nIt.\n```"),
    ]
    parts = myst.parts(cells)
    assert [part.solves for part in parts] == ["", "ex-a", "ex-a", "ex-a", "", "ex-b"]
    assert [parts[k].source for k in (0, 2, 4)] == ["Before.", "1", "After."]


def test_a_solution_or_an_exercise_without_an_end_is_refused():
    cells = [new_markdown_cell("````{solution-start} ex-a\n````"), new_code_cell("1")]
    with pytest.raises(InputError, match=r"the solution of ex-a has no end: .*\{solution-end\}"):
        myst.parts(cells)
    with pytest.raises(InputError, match=r"exercise 'ex-a' has no end: .*\{exercise-end\}"):
        myst.parse("```{exercise-start} Sum\n:label: ex-a\n```\nAdd.")


def test_directives_and_roles_in_plain_markdown():
    text = (
        "See {glue:text}`x:.1f`, {cite:p}`a2020,b2021`, {numref}`fig-a`, {prf:ref}`lem-a`, {term}`stratum`, "
        "{doc}`/ledger`, {ref}`words <fig-z>`, [as written]{.as-written}, [](02_b.ipynb).\n\n"
        "```{glue:figure} plot\n:name: fig-a\n:alt: what\n\nA caption.\n```\n"
        "::::{admonition} Verdict\n:class: verdict\nIt {glue:text}`word`.\n::::\n"
        "```{prf:lemma} Short\n:label: lem-a\n$x$\n```\n```{provenance} Figure\n```"
    )
    labels = myst.reference_texts(myst.parse(text))
    assert labels == {"fig-a": "Figure 1", "lem-a": "Lemma 1"}
    plain = markdown.PlainMarkdown({"x": 1.25, "word": "holds"}, labels)
    assert plain.text(text) == (
        "See 1.2, [a2020, b2021], Figure 1, Lemma 1, stratum, `ledger`, words, as written, "
        "[02_b](02_b.ipynb).\n\n*Figure 1. A caption.*\n\n> **Verdict**\n>\n> It holds.\n\n"
        "> **Lemma 1 (Short)**\n>\n> $x$"
    )
    assert plain.inline("{glue:text}`gone:d` and `{term}` in $a{b}$") == "… and `{term}` in $a{b}$"
