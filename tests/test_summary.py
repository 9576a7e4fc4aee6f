"""The findings as a PDF of one sheet: what of the page is set, and in how large letters."""

import importlib.util

import pytest
from docutils import nodes
from sphinx.errors import ExtensionError

from companion import ROOT

_spec = importlib.util.spec_from_file_location(
    "fedstas_summary", ROOT / "book/_ext/fedstas_summary.py"
)
summary = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(summary)


def make_page(text: str) -> nodes.document:
    """Return a page with a heading, a folded part, and a list that begins at 4 with `text` and a formula."""
    document = nodes.document("", None)
    section = nodes.section()
    item = nodes.list_item("", nodes.paragraph("", text, nodes.math("", r"\epsilon")))
    section += nodes.title("", "A page")
    section += nodes.raw("", "<details><summary>made by", format="html")
    section += nodes.paragraph("", "what a reader unfolds")
    section += nodes.raw("", "</details>", format="html")
    section += nodes.enumerated_list("", item, start=4)
    document += section
    return document


def test_text_lists_and_formulas_are_set_and_folded_parts_are_not():
    html = summary.to_html(make_page("less than < 1,\nat "))
    assert html == '<h1>A page</h1><ol start="4"><li>less than &lt; 1, at <i>ε</i></li></ol>'


@pytest.mark.parametrize(
    ("tex", "html"),
    [
        (r"\alpha", "<i>α</i>"),
        ("S_h", "<i>S</i><sub>h</sub>"),
        (r"\sigma_k", "<i>σ</i><sub>k</sub>"),
    ],
)
def test_formulas_of_one_symbol(tex, html):
    assert summary.format_math(tex) == html


def test_a_longer_formula_is_refused():
    with pytest.raises(ExtensionError, match=r"formulas of one symbol, and \$n / N\$ is more"):
        summary.format_math("n / N")


def test_a_text_that_does_not_fit_takes_a_second_page():
    line = "<p>" + "A sentence of some length that stands in a paragraph of its own. " * 3 + "</p>"
    pages = [summary.typeset(line * 20, size).pages_count for size in (8.5, 24)]
    assert pages[0] == 1 < pages[1]
