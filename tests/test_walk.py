"""The page `FedSTaS in 150 lines`: it shows the whole of examples/fedstas.py, every line once, in its order."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "fedstas_in_150_lines.md").read_text(encoding="utf-8")
CODE = (ROOT / "examples" / "fedstas.py").read_text(encoding="utf-8")
INCLUDE = re.compile(r"^```\{literalinclude\} \.\./examples/fedstas\.py\n((?::.*\n)+)```", re.M)


def shown(options: str, code: str = CODE) -> range:
    """The numbers of the lines (from 0) that a literalinclude shows; each marker stands there once."""
    found = dict(re.findall(r"^:([\w-]+): ?(.*)$", options, re.M))
    lines = code.splitlines()
    if name := found.get("pyobject"):
        (node,) = [n for n in ast.parse(code).body if getattr(n, "name", "") == name]
        return range(node.lineno - 1, node.end_lineno)
    places = {}
    for marker in ("start-at", "end-at"):
        if marker in found:
            (places[marker],) = [i for i, line in enumerate(lines) if found[marker] in line]
    return range(places["start-at"], places.get("end-at", len(lines) - 1) + 1)


RANGES = [shown(options) for options in INCLUDE.findall(PAGE)]


def test_every_line_is_shown_once_and_in_order():
    assert len(RANGES) == PAGE.count("{literalinclude}") > 10
    numbers = [i for lines in RANGES for i in lines]
    assert numbers == sorted(set(numbers))
    lines = CODE.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("def "))
    left = [lines[i] for i in range(first, len(lines)) if i not in numbers]
    assert not "".join(left).strip(), left


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("def spread(Z)", "def width(Z)"),
        ("S_t, weights = select(Z", "S_t, shares = select(Z"),
        ("ratio = min(1, n_star", "share = min(1, n_star"),
    ],
)
def test_a_renamed_line_is_noticed(was, now):
    assert CODE.count(was) == 1
    with pytest.raises(ValueError, match="values to unpack"):
        [shown(options, CODE.replace(was, now)) for options in INCLUDE.findall(PAGE)]


def test_the_title_counts_right():
    filled = [line for line in CODE.splitlines() if line.strip()]
    assert 140 <= len(filled) <= 150 and PAGE.startswith("# FedSTaS in 150 lines\n")


def test_the_lines_of_algorithm_3_are_gone_through_from_3_to_16():
    told = re.findall(r"^Lines? (\d+)(?: to (\d+))?:", PAGE, re.M)
    numbers = [int(n) for pair in told for n in (range(int(pair[0]), int(pair[1] or pair[0]) + 1))]
    assert numbers == list(range(3, 17))
    # The comments of the code say the same.
    said = re.findall(r"# lines? (\d+)(?: to (\d+))?", CODE[CODE.index("def fedstas(") :])
    assert [(int(a), int(b or a)) for a, b in said] == [
        (2, 2),
        (3, 3),
        (4, 8),
        (9, 12),
        (13, 15),
        (16, 16),
    ]


def test_sentences_are_short():
    prose = re.sub(
        r"^(?:#.*|:.*|`{3,}.*)$",
        "",
        re.sub(r"```(?:bash|\{literal|\{round).*?^```", "", PAGE, flags=re.S | re.M),
        flags=re.M,
    )
    sentences = re.split(
        r"(?<=[.?!:])\s+(?=[A-Zx\[{*])|\n\n", re.sub(r"\$[^$]*\$|`[^`]*`", "x", prose)
    )
    counts = sorted(len(s.split()) for s in sentences if s.strip())
    assert counts[-1] <= 35 and counts[len(counts) // 2] < 18, counts[-5:]


def test_the_readme_and_the_contents_lead_to_it():
    assert "- file: fedstas_in_150_lines" in (ROOT / "book/_toc.yml").read_text()
    assert "FedSTaS in 150 lines" in (ROOT / "README.md").read_text()
