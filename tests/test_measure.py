"""How pages read: the measures on small cases, on what a reader sees."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from companion.pages import chapters, measure, myst, parameters


def test_sentences_are_counted_as_they_are_read():
    text = """# A heading is none

One two three, see eq. 2.3 or Fig. 1 of the paper. It is {glue:text}`ch1_gain:.2f` of $n_k / n$
and `two words`. A {term}`long word <word>` and [a link](x.md)!

- an item
- another one

| a | table |
| - | - |

```{math}
a + b
```
```{glue:figure} f
:alt: not read

A *caption*.
```
```{dropdown} Proof
Folded, and not read.
```
```python
print("not read")
```
$$ x = y $$
"""
    assert [measure.count_words(s) for s in measure.sentences(myst.parse(text))] == [
        12,
        7,
        6,
        2,
        2,
        2,
    ]
    measures = measure.measure(myst.parse(text))
    assert (measures["words"], measures["median"], measures["longest"]) == (31, 4.0, 12)
    assert measures["minutes"] == 31 / 230  # at 230 words a minute
    assert measures["visible"] is None


def cell(lines: int, *tags: str):
    """Return a code cell with a number of lines, each followed by an empty one, and tags."""
    return new_code_cell("x = 1\n\n" * lines, metadata={"tags": list(tags)})


def test_code_in_hidden_cells_is_not_visible_and_solutions_are_not_counted():
    start = "Before.\n\n````{solution-start} ex\n````\nIn a solution."
    end = "````{solution-end}\n````\n\nAfter it."
    cells = [cell(6), cell(3, "hide-input"), cell(1, "remove-input")]
    cells += [new_markdown_cell(start), cell(50), new_markdown_cell(end)]
    blocks, cells = measure.unfolded_content(new_notebook(cells=cells))
    assert measure.sentences(blocks) == ["Before.", "After it."]
    measures = measure.measure(blocks, cells)
    assert (measures["visible"], measures["hidden"]) == (0.6, 3)


def test_all_pages_are_in_the_table():
    lines = measure.format_table(measure.names()).splitlines()
    assert [line.split()[0] for line in lines] == ["page", *measure.names()]
    assert {"findings", *chapters.names()} <= set(measure.names())
    assert (parameters.ROOT / "book" / "findings.md").is_file()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("book/teaching/syllabus.md", "teaching/syllabus"),
        ("teaching/syllabus", "teaching/syllabus"),
        ("notebooks/05_experiments.py", "05_experiments"),
    ],
)
def test_a_page_is_found_by_its_name_or_by_its_file(word, name):
    assert measure.page_name(word) == name
