"""Chapter 10's tree of questions: it leads somewhere from every answer, and its numbers are those of the records."""

import json

import matplotlib
import pytest

from companion.pages import decision_tree, landing_page, parameters, plots, saved_bytes
from companion.runs import comparison

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def recorded():
    """The settings, the recorded runs, their outcomes, and the gains over MD."""
    settings, runs = comparison.read(), comparison.load_runs()
    outcomes = saved_bytes.load(settings, runs)
    return settings, runs, outcomes, comparison.compare(outcomes, "md")


@pytest.fixture(scope="module")
def nodes(recorded):
    """The nodes of the recorded comparison."""
    settings, runs, outcomes, gains = recorded
    return decision_tree.build(outcomes, gains, settings, runs, landing_page.load_heads(outcomes))


def test_every_answer_leads_further_and_every_path_ends_in_an_advice(nodes):
    keys = list(nodes)
    reached = {keys[0]} | {to for node in nodes.values() for _, to in node.answers}
    assert reached == set(keys)
    for node in nodes.values():
        assert all(keys.index(to) > keys.index(node.key) for _, to in node.answers)
        assert node.answers or (node.gain and node.cost and node.method)


def test_links_lead_to_anchors_of_the_chapter(nodes):
    text = (parameters.ROOT / f"notebooks/{decision_tree.PAGE}.py").read_text(encoding="utf-8")
    for node in nodes.values():
        assert f"({node.link})=" in text, node.link


def test_numbers_are_those_of_the_records(nodes, recorded):
    settings, runs, outcomes, _ = recorded
    is_changed = (outcomes["arm"] == "least-variance") & (outcomes["setting"] == "mnist")
    half = outcomes.assign(ratio=outcomes["ratio"].where(~is_changed, outcomes["ratio"] / 2))
    changed = decision_tree.build(
        half, comparison.compare(half, "md"), settings, runs, landing_page.load_heads(outcomes)
    )
    assert "0.95 on MNIST" in nodes["strata"].gain and "0.47 on MNIST" in changed["strata"].gain


def test_the_json_has_all_nodes(nodes):
    content = json.loads(decision_tree.as_json(nodes))
    assert content["start"] == next(iter(nodes))
    assert content["nodes"].keys() == nodes.keys()
    for answers in (node["answers"] for node in content["nodes"].values()):
        assert all(to in content["nodes"] for _, to in answers)


def test_the_figure_holds_all_its_words(nodes):
    plots.set_page_style()
    figure = decision_tree.draw(nodes)
    (ax,) = figure.axes
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in ax.texts if text.get_text()]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    edge = max(patch.get_window_extent(renderer).x1 for patch in ax.patches[:1])
    questions = [box for box in boxes if box.x0 < edge / 4]
    assert questions and all(box.x1 < edge for box in questions)
    for node in nodes.values():
        assert node.text.split()[0] in " ".join(t.get_text() for t in ax.texts)
