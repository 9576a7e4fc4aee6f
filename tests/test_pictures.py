"""The drawing of a round: its numbers agree with the package, its files with the script, its links exist."""

import re
import xml.etree.ElementTree as ET
from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest

from companion.pages import drawing
from fedstas import allocation, compression

ROOT = Path(__file__).parents[1]
SVG = "{http://www.w3.org/2000/svg}"
PARTS = {"¼": Q(1, 4), "⅙": Q(1, 6)}


@pytest.fixture(scope="module")
def station_targets() -> dict:
    """Return the page and section to which the page's extension links each station."""
    text = (ROOT / "book/_ext/fedstas_pictures.py").read_text(encoding="utf-8")
    return eval(re.search(r"^PLACES = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)[1])


@pytest.mark.parametrize("name", drawing.drawings())
def test_each_file_is_what_the_script_makes(name):
    assert (drawing.FOLDER / name).read_text(encoding="utf-8") == drawing.drawings()[name], (
        "run python -m companion.pages.drawing"
    )


def test_the_running_example_agrees_with_the_packages_allocation_and_weights():
    m, N = sum(drawing.ALLOCATION), sum(drawing.COUNTS)
    assert allocation.neyman(drawing.COUNTS, drawing.SPREADS, m).tolist() == list(
        drawing.ALLOCATION
    )
    weights = [
        Q(n, N * participants)
        for n, participants in zip(drawing.COUNTS, drawing.ALLOCATION, strict=True)
        for _ in range(participants)
    ]
    assert [PARTS[w] for w in drawing.WEIGHTS] == weights and sum(weights) == 1
    assert [len(row) for row in drawing.POSITIONS] == list(drawing.COUNTS)
    assert (
        len(drawing.DRAWN_CLIENTS) == drawing.ALLOCATION[0]
        and len(drawing.NORMS) == drawing.COUNTS[0]
    )


def test_the_drawn_gradient_lies_on_the_packages_nine_quantisation_levels():
    restored = drawing.restored()
    squeezed = compression.squeeze(np.array(drawing.GRADIENT, dtype=np.float32), 9)
    assert restored == pytest.approx(squeezed.restore()[0]) and len(set(restored)) == 9
    picture = drawing._squeeze()
    assert picture.count("<line") == 9
    # Each entry is a ring at its value and a dot on its level.
    assert picture.count("<circle") == 2 * len(drawing.GRADIENT)
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', picture)]
    # Within the height that this part of the picture has.
    assert min(heights) >= 0 and max(heights) <= 64


@pytest.mark.parametrize("name", drawing.drawings())
def test_a_drawing_has_a_title_a_description_and_its_words_as_text(name):
    root = ET.fromstring(drawing.drawings()[name])
    labels = {
        node.get("id"): node.text for node in root if node.tag in (f"{SVG}title", f"{SVG}desc")
    }
    described_by = [labels[key] for key in root.get("aria-labelledby").split()]
    assert described_by == [drawing.TITLE, drawing.WORDS]
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for k, station in enumerate(drawing.STATIONS):
        assert f"{k + 1}. {station.title}" in texts and set(station.lines) <= set(texts)
    linked = name in ("round.svg", "round-upright.svg")
    links = [node.get("href") for node in root.iter(f"{SVG}a")]
    assert links == [f"map:{s.target}" for s in drawing.STATIONS if linked]


def test_only_texts_on_the_paper_or_the_correction_are_coloured():
    for name, colours in (("round-light.svg", drawing.LIGHT), ("round-dark.svg", drawing.DARK)):
        root = ET.fromstring(drawing.drawings()[name])
        used = {node.get(key) for node in root.iter() for key in ("fill", "stroke")}
        assert used - {None, "none"} == set(colours.values()), name
        for node in root.iter(f"{SVG}text"):
            blue = node.get("fill") == colours["written"]
            assert blue == ("as written" in node.text or node.text in PARTS), node.text
            assert (node.get("fill") == colours["corrected"]) == ("corrected" in node.text)


def test_each_station_links_to_an_existing_page_and_section(station_targets):
    assert set(station_targets) == {station.target for station in drawing.STATIONS}
    for page, label in station_targets.values():
        source = ROOT / "notebooks" / f"{Path(page).name}.py"
        assert source.is_file(), page
        if label:
            assert re.search(
                rf"^# \({label}\)=\n# ##", source.read_text(encoding="utf-8"), re.MULTILINE
            ), label


def test_the_start_page_and_the_readme_show_the_drawing():
    assert "```{round}" in (ROOT / "book/index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("round-light.svg", "round-dark.svg"):
        assert f'"book/_static/{name}"' in readme
    alt = re.search(r'<img src="book/_static/round-light.svg" alt="([^"]+)"', readme)[1]
    assert all(station.title.lower() in alt for station in drawing.STATIONS)
