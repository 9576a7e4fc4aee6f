"""The start page, Findings and README: their statements hold, appear on these pages, and are short."""

import matplotlib
import pytest
from test_design_comparison import make_results

from companion.pages import design_comparison, landing_page, measure, parameters
from companion.runs import protocol
from fedstas.errors import InputError

matplotlib.use("Agg")
PAGES = ("book/index.md", "book/findings.md", "README.md")
SETTINGS = protocol.read()


@pytest.fixture(scope="module")
def recorded_settings():
    """Return the recorded results of the settings of the protocol."""
    return design_comparison.load_results(SETTINGS)


@pytest.fixture(scope="module")
def sentences(recorded_settings):
    """Return the sentences of the front pages."""
    return landing_page.check_sentences(recorded_settings, "results")


def test_checked_phrases_hold_and_stand_on_the_front_pages(sentences):
    assert all(holds for _, holds in sentences), sentences
    texts = [
        " ".join((parameters.ROOT / page).read_text(encoding="utf-8").split()) for page in PAGES
    ]
    assert sentences
    for sentence, _ in sentences:
        assert any(sentence in text for text in texts), sentence


def test_the_build_stops_if_md_leads_in_every_setting(recorded_settings, tmp_path, monkeypatch):
    mnist = recorded_settings["mnist"]
    gains = mnist.gains.assign(gain=-3.0, low=-4.0, high=-2.0)
    other = design_comparison.SettingResults(
        mnist.setting, mnist.outcomes, gains, mnist.tried, mnist.rows
    )
    monkeypatch.setattr(
        design_comparison, "load_results", lambda known: recorded_settings | {"mnist": other}
    )
    with pytest.raises(InputError, match=r"say what is not so: .*while bytes are short"):
        landing_page.main(tmp_path)
    assert not any(tmp_path.iterdir())


def test_the_start_page_is_read_in_two_minutes_and_findings_are_ten():
    start, findings = (
        measure.measure_page(page.removeprefix("book/").removesuffix(".md")) for page in PAGES[:2]
    )
    assert start["words"] <= 400 and start["longest"] <= 35 and start["median"] < 18
    assert findings["longest"] <= 35 and findings["median"] < 18 and findings["words"] < 700
    lines = (parameters.ROOT / PAGES[1]).read_text(encoding="utf-8").splitlines()
    assert [line.split(". **")[0] for line in lines if line[:1].isdigit()] == list(
        map(str, range(1, 11))
    )


def test_the_figure_has_a_row_for_a_design_and_says_both_budgets():
    arms = ("divfl", "clustered-size", "fedstas-unbiased")
    figure = landing_page.draw_figure(
        [make_results(SETTINGS[name], arms) for name in ("mnist", "fashion-mnist")]
    )
    assert len(figure.axes) == 2
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["corrected"]
    titles = [ax.get_title(loc="right") for ax in figure.axes]
    assert titles == [landing_page.TITLES[name] for name in ("mnist", "fashion-mnist")]
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert sorted(float(line.get_xdata()[0]) for line in dots) == pytest.approx([5.0, 9.0])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["at 240 MB", "at 950 MB"]
