"""Chapters at random parameters: which sets are drawn, and what a page says as its reader sees it."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from companion.pages import chapters, live_text, parameters, random_parameters

STEMS = [stem for stem in parameters.names() if stem not in random_parameters.RECORDED_ALONE]


def test_sets_are_drawn_again_from_their_seed_and_every_chapter_accepts_its_own():
    sets = [random_parameters.draw(1, place, STEMS) for place in range(len(STEMS))]
    assert sorted(stem for stem, _ in sets) == STEMS
    assert sets == [random_parameters.draw(1, place, STEMS) for place in range(len(STEMS))]
    assert sets != [random_parameters.draw(2, place, STEMS) for place in range(len(STEMS))]
    for stem, values in sets:
        assert values
        parameters.settings(stem, values)


def test_a_page_is_read_with_its_numbers_and_its_faults_are_found(tmp_path, monkeypatch):
    data = {"application/papermill.record/text/plain": "73.2"}
    glued_output = new_output("display_data", data, metadata={"scrapbook": {"name": "a"}})
    text = "# T\n\nIt [rises]{.not-here} from {glue:text}`a:.0f` % to {glue:text}`a:.0f` %, $x$."
    page = new_notebook(cells=[new_markdown_cell(text), new_code_cell("1", outputs=[glued_output])])

    def run(stem, values, output, progress):
        nbformat.write(page, output)

    monkeypatch.setattr(chapters, "run", run)
    (fault,) = random_parameters.try_set("01_aggregation", {"seed": 1}, tmp_path)
    assert fault.startswith("a range of one number: ") and "from 73 % to 73 %" in fault
    page_text = (tmp_path / "01-seed=1.txt").read_text(encoding="utf-8")
    assert "rises" in page_text and "**(not here)**" in page_text and "$x$" in page_text
    assert live_text.find_faults(new_notebook()) == []


def test_a_printed_parameter_has_the_value_of_this_run_or_says_whose_it_has():
    def printed(text):
        cell = new_code_cell("print(1)", outputs=[new_output("stream", text=text)])
        return random_parameters.find_other_values(
            new_notebook(cells=[cell]), {"epsilon": 2.0, "seed": 1, "clients_per_round": 4}
        )

    assert printed("reports: 1, epsilon  3.0\nepsilon 2") == [
        "another epsilon than this run's 2.0: epsilon  3.0"
    ]
    assert printed("clients per round: 6") == [
        "another clients_per_round than this run's 4: clients per round: 6"
    ]
    assert printed("ten different epsilon: 6.7") == []
    assert printed("the preprint's: epsilon 3.0") == printed("seed 5, epsilon 1/2") == []


def test_a_cell_that_fails_is_a_fault(monkeypatch):
    def fail(*_, **__):
        raise chapters.ChapterError("Chapter 01 stopped")

    monkeypatch.setattr(chapters, "run", fail)
    assert random_parameters.try_set("01_aggregation", {}, None) == ["Chapter 01 stopped"]
