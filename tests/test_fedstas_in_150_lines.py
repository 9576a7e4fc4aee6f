"""The page `FedSTaS in 150 lines` shows every line of examples/fedstas.py once, in order."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "fedstas_in_150_lines.md").read_text(encoding="utf-8")
CODE = (ROOT / "examples" / "fedstas.py").read_text(encoding="utf-8")
INCLUDE = re.compile(r"^```\{literalinclude\} \.\./examples/fedstas\.py\n((?::.*\n)+)```", re.M)


def included_lines(options: str, code: str = CODE) -> range:
    """The numbers (from 0) of the lines that a literalinclude shows; its markers must each be in one line."""
    values = dict(re.findall(r"^:([\w-]+): ?(.*)$", options, re.M))
    lines = code.splitlines()
    if name := values.get("pyobject"):
        (node,) = [n for n in ast.parse(code).body if getattr(n, "name", "") == name]
        return range(node.lineno - 1, node.end_lineno)
    places = {}
    for marker in ("start-at", "end-at"):
        if marker in values:
            (places[marker],) = [i for i, line in enumerate(lines) if values[marker] in line]
    return range(places["start-at"], places.get("end-at", len(lines) - 1) + 1)


RANGES = [included_lines(options) for options in INCLUDE.findall(PAGE)]


def test_every_line_is_shown_once_and_in_order():
    assert len(RANGES) == PAGE.count("{literalinclude}") > 10
    numbers = [i for lines in RANGES for i in lines]
    assert numbers == sorted(set(numbers))
    lines = CODE.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("def "))
    missing = [lines[i] for i in range(first, len(lines)) if i not in numbers]
    assert not "".join(missing).strip(), missing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def spread(Z)", "def width(Z)"),
        ("S_t, weights = select(Z", "S_t, shares = select(Z"),
        ("ratio = min(1, n_star", "share = min(1, n_star"),
    ],
)
def test_a_renamed_line_is_noticed(old, new):
    assert CODE.count(old) == 1
    with pytest.raises(ValueError, match="values to unpack"):
        [included_lines(options, CODE.replace(old, new)) for options in INCLUDE.findall(PAGE)]


def test_the_code_has_the_number_of_lines_in_the_title():
    lines = [line for line in CODE.splitlines() if line.strip()]
    assert 140 <= len(lines) <= 150 and PAGE.startswith("# FedSTaS in 150 lines\n")


def test_the_page_explains_lines_3_to_16_of_algorithm_3_in_order():
    ranges = re.findall(r"^(?:In l|L)ines? (\d+)(?: to (\d+))? ", PAGE, re.M)
    numbers = [
        int(n) for pair in ranges for n in (range(int(pair[0]), int(pair[1] or pair[0]) + 1))
    ]
    assert numbers == list(range(3, 17))
    comments = re.findall(r"# lines? (\d+)(?: to (\d+))?", CODE[CODE.index("def fedstas(") :])
    assert [(int(a), int(b or a)) for a, b in comments] == [
        (2, 2),
        (3, 3),
        (4, 8),
        (9, 12),
        (13, 15),
        (16, 16),
    ]


def test_the_readme_and_the_table_of_contents_link_to_the_page():
    assert "- file: fedstas_in_150_lines" in (ROOT / "book/_toc.yml").read_text(encoding="utf-8")
    assert "FedSTaS in 150 lines" in (ROOT / "README.md").read_text(encoding="utf-8")
