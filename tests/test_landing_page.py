"""The start page, Findings and README: their statements hold, and appear on these pages."""

import re

import matplotlib
import pytest

from companion.pages import design_comparison, landing_page, last_models, parameters, saved_bytes
from companion.runs import comparison, protocol
from fedstas.errors import InputError
from fedstas.sim import tasks

matplotlib.use("Agg")
PAGES = ("book/index.md", "book/findings.md", "README.md")
SETTINGS = protocol.read()


@pytest.fixture(scope="module")
def recorded_settings():
    """Return the recorded results of the settings of the protocol."""
    return design_comparison.load_results(SETTINGS)


@pytest.fixture(scope="module")
def outcomes():
    """Return the recorded outcomes of the second comparison."""
    return saved_bytes.load(comparison.read(), comparison.load_runs())


@pytest.fixture(scope="module")
def sentences(recorded_settings, outcomes):
    """Return the sentences of the front pages, and whether each holds: pairs (text, bool)."""
    models = last_models.compute(comparison.read(), comparison.load_runs())
    return landing_page.check_sentences(recorded_settings, outcomes, models, "results")


def test_checked_phrases_hold_and_stand_on_the_front_pages(sentences):
    assert all(holds for _, holds in sentences), sentences
    pages = [(parameters.ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    texts = [" ".join(re.sub("</?a[^>]*>", "", page).split()) for page in pages]
    assert sentences
    for sentence, _ in sentences:
        assert any(sentence in text for text in texts), sentence
    for text in texts:  # and none of them counts tasks otherwise
        for sentence, _ in sentences:
            text = text.replace(sentence, "")
        assert "of eight tasks" not in text and "ten seeds can see" not in text


def test_links_to_the_comparison_lead_to_a_cell_or_a_paragraph_of_chapter_10(outcomes):
    chapter = (parameters.ROOT / "notebooks/10_which_design.py").read_text(encoding="utf-8")
    anchors = set(re.findall(r"\(([a-z-]+)\)=", chapter))
    cells = outcomes[["setting", "arm"]].drop_duplicates().itertuples(index=False)
    anchors |= {saved_bytes.make_anchor(*cell) for cell in cells}
    for page in PAGES[:2]:
        text = (parameters.ROOT / page).read_text(encoding="utf-8")
        links = re.findall(r'href="chapters/10_which_design.html#([^"]+)"', text)
        assert len(links) >= 4 and set(links) <= anchors, page


def test_the_build_stops_if_nothing_is_saved(recorded_settings, outcomes, tmp_path, monkeypatch):
    equal = outcomes.assign(ratio=outcomes["ratio"].where(outcomes["setting"] != "newsgroups", 1.0))
    monkeypatch.setattr(design_comparison, "load_results", lambda settings: recorded_settings)
    monkeypatch.setattr(saved_bytes, "load", lambda *_: equal)
    with pytest.raises(
        InputError, match=r"say what is not so: a third of the bytes on Fashion-MNIST, a fifth"
    ):
        landing_page.main(tmp_path)
    assert not any(tmp_path.iterdir())


def test_findings_are_numbered_from_one_to_ten():
    lines = (parameters.ROOT / PAGES[1]).read_text(encoding="utf-8").splitlines()
    assert [line.split(". **")[0] for line in lines if line[:1].isdigit()] == list(
        map(str, range(1, 11))
    )


def test_the_figure_has_a_row_for_each_recorded_task_and_a_dot_for_each_design(outcomes):
    figure = landing_page.draw_figure(outcomes)
    (ax,) = figure.axes
    shown = saved_bytes.select_shown(outcomes)
    assert len(ax.get_yticklabels()) == shown["setting"].nunique()
    assert all("points to win" in label.get_text() for label in ax.get_yticklabels())
    pairs = shown[shown["arm"].isin(saved_bytes.SUMMARY)][["setting", "arm"]].drop_duplicates()
    dots = [line for line in ax.lines if line.get_marker() in ("o", "s", "^", "v")]
    assert len(dots) == len(pairs)
    names = [t.get_text() for t in figure.legends[0].get_texts()]
    assert names == [saved_bytes.LABELS[arm] for arm in saved_bytes.SUMMARY]


def test_the_figure_of_rounds_counts_the_classes_that_a_cohort_misses():
    all_clients, cohorts = landing_page.draw_class_counts(3)
    assert all_clients.sum() == len(tasks.load("digits").train_y)
    assert cohorts.shape == (3, 10)
    (ax,) = landing_page.draw_rounds(all_clients, cohorts).axes
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["none missing", *(f"{(row == 0).sum()} missing" for row in cohorts)]
