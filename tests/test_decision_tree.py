"""Chapter 10's tree of questions: it leads somewhere from every answer, and its numbers are those of the records."""

import contextlib
import json
from itertools import combinations

import matplotlib
import pytest
from browser import needs_browser
from demo_page import write_page

from companion.pages import decision_tree, landing_page, last_models, parameters, plots, saved_bytes
from companion.runs import comparison

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def recorded():
    """The settings, the recorded runs, their outcomes, and the gains over MD."""
    settings, runs = comparison.read(), comparison.load_runs()
    outcomes = saved_bytes.load(settings, runs)
    return settings, runs, outcomes, comparison.compare(outcomes, "md")


@pytest.fixture(scope="module")
def models(recorded):
    """Averages and last models of the runs of tuning."""
    return last_models.compute(*recorded[:2])


@pytest.fixture(scope="module")
def nodes(recorded, models):
    """The nodes of the recorded comparison."""
    settings, runs, outcomes, gains = recorded
    heads = landing_page.load_heads(outcomes)
    return decision_tree.build(outcomes, gains, settings, runs, heads, models)


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


def test_cells_are_rows_of_the_chapters_table(nodes, recorded):
    settings, _, outcomes, _ = recorded
    table = " ".join(saved_bytes.tabulate(outcomes, settings)["design"])
    cells = [cell for node in nodes.values() for cell in node.cells]
    assert len(cells) > 5
    for _, anchor in cells:
        assert f'id="{anchor}"' in table


def test_numbers_are_those_of_the_records(nodes, recorded, models):
    settings, runs, outcomes, _ = recorded
    is_changed = (outcomes["arm"] == "least-variance") & (outcomes["setting"] == "mnist")
    halved = outcomes.assign(ratio=outcomes["ratio"].where(~is_changed, outcomes["ratio"] / 2))
    heads = landing_page.load_heads(outcomes)
    gains = comparison.compare(halved, "md")
    changed = decision_tree.build(halved, gains, settings, runs, heads, models)
    assert "0.95 on MNIST" in nodes["strata"].gain and "0.47 on MNIST" in changed["strata"].gain


def test_a_last_model_tuned_for_itself_is_compared_with_the_average(nodes, models):
    """A last model has the better of all its candidates, and with MD on CIFAR-10 a cosine in place of a constant rate."""
    assert (models[last_models.OWN] >= models[last_models.SAME]).all()
    md = models.loc[("cifar10-features", "md")]
    assert (md["schedule"], md["own schedule"]) == ("constant", "cosine")
    changed = models.assign(**{last_models.OWN: models[last_models.OWN] - 1})
    numbers, holds = last_models.summarise(models)
    changed_numbers, changed_holds = last_models.summarise(changed)
    assert changed_numbers["last_lost"] == pytest.approx(numbers["last_lost"] + 1)
    assert holds["within"] and not changed_holds["within"]
    assert f"at most {numbers['last_lost']:.1f} points" in nodes["last"].gain
    assert len(last_models.tabulate(models)) == 8


def test_the_json_has_all_nodes(nodes):
    content = json.loads(decision_tree.as_json(nodes))
    assert content["start"] == next(iter(nodes))
    assert content["nodes"].keys() == nodes.keys()
    for answers in (node["answers"] for node in content["nodes"].values()):
        assert all(to in content["nodes"] for _, to in answers)
    ends = {one["answer"][-1] for one in content["cases"]["follow"]}
    assert ends == {key for key, node in nodes.items() if not node.answers}


def test_all_texts_lie_inside_the_figure_and_those_of_questions_inside_their_boxes(nodes):
    plots.set_page_style()
    figure = decision_tree.draw(nodes)
    (ax,) = figure.axes
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in ax.texts if text.get_text()]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    edge = max(patch.get_window_extent(renderer).x1 for patch in ax.patches[:1])
    questions = [
        box for box in boxes if box.x0 < edge / 4
    ]  # texts that begin in the box of a question
    assert questions and all(box.x1 < edge for box in questions)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for node in nodes.values():
        assert node.text.split()[0] in " ".join(t.get_text() for t in ax.texts)


# For the tests' scripts: press(TEXT) presses the last button that begins so; steps() are the questions and advice shown.
HELPERS = """
const press = (text) => { const all = [...document.querySelectorAll("button")].filter((b) => b.textContent.startsWith(text));
  all[all.length - 1].focus(); all[all.length - 1].click(); };
const steps = () => [...document.querySelectorAll(".explorer-question")].map((n) => n.textContent);
const heard = () => document.querySelector(".explorer-told").textContent;
"""


@pytest.fixture
def show(chromium, tmp_path, nodes):
    """Return a context manager: a page with the tree to click, and `run(script)` that evaluates in it."""
    data = {"tree": json.loads(decision_tree.as_json(nodes))}

    @contextlib.contextmanager
    def open_tree(width: int = 800, theme: str = "light"):
        end = f"<script>{HELPERS}</script>"
        url = write_page(tmp_path, ["tree"], data, theme, width, end=end)
        with chromium.page(width) as tab:
            tab.open(url)
            yield lambda script: tab.evaluate(f"(async () => {{ {script} }})()")
            assert tab.errors() == []
            assert [r for r in tab.requests() if not r.startswith(("file:", "data:"))] == []

    return open_tree


@needs_browser
def test_answers_stay_in_sight_and_each_can_be_changed(show, nodes):
    with show() as run:
        assert run("return steps();") == [nodes["linear"].text]
        unused = "return [...document.querySelectorAll('[aria-disabled=true]')].map((b) => b.textContent);"
        assert run(unused) == ["One answer back", "Start again"]
        run("['no', 'no', 'Then go on', 'yes', 'yes', 'few'].forEach(press);")
        path = ["linear", "tuned", "tune", "average", "ask", "unlike", "strata"]
        assert run("return steps();") == [nodes[key].text for key in path]
        heard = run("return heard();")
        assert (
            heard.startswith(f"Advice: {nodes['strata'].text}.") and nodes["strata"].cost in heard
        )
        links = run(
            "return [...document.querySelectorAll('a')].map((a) => a.getAttribute('href'));"
        )
        for anchor in (nodes["tune"].link, *(anchor for _, anchor in nodes["strata"].cells)):
            assert f"{decision_tree.PAGE}#{anchor}" in links
        # Another answer to the third question; the focus stays where the reader is.
        focus = "return [...document.querySelectorAll('[aria-pressed=true]')].map((b) => [b.textContent, b === document.activeElement]);"
        run(
            "[...document.querySelectorAll('[aria-label]')].filter((n) => n.getAttribute('aria-label').includes('average'))[0]"
            ".querySelectorAll('button')[1].focus(); document.activeElement.click();"
        )
        assert run("return steps();") == [nodes[key].text for key in (*path[:4], "last")]
        assert run(focus) == [["no", False], ["no", False], ["Then go on", False], ["no", True]]
        run("press('One answer back');")
        assert run("return steps();") == [nodes[key].text for key in path[:4]]
        assert run("return heard();") == f"Question 3: {nodes['average'].text}"
        run("press('Start again'); press('One answer back');")
        assert run("return steps();") == [nodes["linear"].text]
        assert run("return document.querySelectorAll('[aria-pressed=true]').length;") == 0
        figure = "return [...document.querySelectorAll('figure')].map((f) => f.checkVisibility());"
        assert run(figure) == [False]
        run("press('Show the whole tree');")
        assert run(figure) == [True]
        run("press('Hide the whole tree');")
        assert run(figure) == [False]


@needs_browser
@pytest.mark.parametrize("width", [390, 1000, 1400])
def test_the_tree_to_click_fits_the_page(show, width):
    with show(width, "dark" if width == 1000 else "light") as run:
        run("['no', 'no', 'Then go on', 'yes', 'yes', 'few'].forEach(press);")
        measures = run("""
          const right = [...document.querySelectorAll(".explorer *")].map((n) => n.getBoundingClientRect().right);
          return { wide: document.documentElement.scrollWidth, right: Math.max(...right),
            low: Math.min(...[...document.querySelectorAll("button")].map((b) => b.getBoundingClientRect().height)),
            checked: document.querySelector(".explorer-checked").dataset.wrong,
            role: document.querySelector(".explorer-told").getAttribute("role") };""")
    assert measures["wide"] <= width and measures["right"] <= width and measures["low"] >= 24
    assert measures["checked"] == "0" and measures["role"] == "status"
