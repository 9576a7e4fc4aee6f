"""The moving pictures: clicked through in a browser, and their draws and searches are those of the package."""

import contextlib
import json
import re

import numpy as np
import pytest
from browser import needs_browser
from demo_page import write_page

from companion.pages import explorer, instruments, moving_pictures
from fedstas.theory import least_variance as theory

pytestmark = needs_browser

# For the tests' scripts: press(TEXT) presses a button; move(LABEL, VALUE) moves a slider; words() is the summary.
HELPERS = """
const press = (text) => [...document.querySelectorAll("button")].find((b) => b.textContent.startsWith(text)).click();
const words = () => document.querySelector(".explorer-told").textContent;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
function move(label, value) {
  const row = [...document.querySelectorAll(".explorer-slider")].find((r) => r.querySelector("label").textContent.startsWith(label));
  row.querySelector("input").value = value;
  row.querySelector("input").dispatchEvent(new Event("input", { bubbles: true }));
}
"""


@pytest.fixture(scope="module")
def data() -> dict:
    """Return the data of the moving pictures, as their scripts read them from JSON."""
    parts = {name: explorer.make_moving_picture(name) for name in instruments.MOVING_PICTURES}
    return json.loads(json.dumps(parts, allow_nan=False))


@pytest.fixture
def show(chromium, tmp_path, data):
    """Return a context manager: a page with one picture, and `run(script)` that evaluates in it."""

    @contextlib.contextmanager
    def open_part(part: str, width: int = 800, reduced: bool = False, theme: str = "light"):
        url = write_page(tmp_path, [part], data, theme, width, end=f"<script>{HELPERS}</script>")
        with chromium.page(width) as tab:
            if reduced:
                tab.emulate()
            tab.open(url)
            yield lambda script: tab.evaluate(f"(async () => {{ {script} }})()")
            assert tab.errors() == []
            assert [r for r in tab.requests() if not r.startswith(("file:", "data:"))] == []

    return open_part


@pytest.mark.parametrize("part", instruments.MOVING_PICTURES)
@pytest.mark.parametrize("width", [390, 1000, 1280, 1400])
def test_a_moving_picture_fits_the_page_and_states_what_it_shows(show, part, width):
    theme = "dark" if width == 1000 else "light"
    with show(part, width, theme=theme) as run:
        measures = run("""
          const size = [...document.querySelectorAll(".explorer-plot text")].map((t) => parseFloat(getComputedStyle(t).fontSize));
          const right = [...document.querySelectorAll("svg, button, input")].map((n) => n.getBoundingClientRect().right);
          return { wide: document.documentElement.scrollWidth, right: Math.max(...right), size: Math.min(...size, 99),
            high: document.querySelector(".explorer").getBoundingClientRect().height,
            live: document.querySelector(".explorer-told").getAttribute("role"), words: words().length,
            named: [...document.querySelectorAll(".explorer-plot svg")].every((s) => s.getAttribute("aria-label").length > 20),
            checked: document.querySelector(".explorer-checked").dataset.wrong };""")
    assert measures["wide"] <= width and measures["right"] <= width and measures["size"] >= 11
    assert measures["live"] == "status" and measures["words"] > 40 and measures["named"]
    assert measures["checked"] == "0"
    if width > 390:
        assert measures["high"] < 900  # no taller than a screen


def test_the_federation_trains_and_md_misses_classes(show):
    with show("train") as run:
        assert "12 clients hold 184 examples" in run("return words();")
        run("for (let k = 0; k < 20; k += 1) press('One round');")
        words = run("return words();")
        losses = re.findall(
            r"loss is ([\d.]+) with MD sampling, ([\d.]+) with least-variance", words
        )
        md, least = map(float, losses[0])
        assert "After 20 rounds" in words and least < md < 1.3
        # Four participants, four classes, one in each stratum.
        assert "least-variance strata in 0." in words and re.search(
            r"in [1-9]\d* of 20 rounds", words
        )
        curves = run("return document.querySelectorAll('.explorer .curve').length;")
        assert curves == 3
        run("move('heterogeneity', 0);")
        assert "Let the first round begin" in run("return words();")
        run("move('participants', 8); press('One round'); press('Start again');")
        assert "asks 8 of them" in run("return words();")


def test_playing_moves_on_and_pauses_and_is_silent_meanwhile(show):
    with show("train") as run:
        live = "return document.querySelector('.explorer-told').getAttribute('aria-live');"
        run("press('Play'); await sleep(1500);")
        assert run(live) == "off"
        run("press('Pause');")
        assert run(live) == "polite"
        rounds = int(re.match(r"After (\d+) round", run("return words();"))[1])
        assert 1 <= rounds <= 4
        run("await sleep(900);")
        assert run("return words();").startswith(f"After {rounds} round")
        run("for (let k = 0; k < 70; k += 1) press('One round');")  # it ends
        assert run("return words();").startswith(f"After {moving_pictures.ROUNDS} rounds")


def test_with_reduced_motion_ten_rounds_are_a_step(show):
    with show("train", reduced=True) as run:
        assert run(
            "return [...document.querySelectorAll('button')].map((b) => b.textContent);"
        ) == [
            "One round",
            "Ten rounds",
            "Start again",
        ]
        run("press('Ten rounds');")
        assert run("return words();").startswith("After 10 rounds")
        run("await sleep(900);")
        assert run("return words();").startswith("After 10 rounds")


@pytest.mark.parametrize("design", ["md", "least"])
def test_cohorts_of_the_page_are_unbiased_for_the_shares_of_the_data(show, design):
    """10,000 cohorts; each client's mean weight is within 5 standard errors of its share: a false alarm in 80,000."""
    count, m = 10_000, 3
    labels = moving_pictures.PlaneFederation(1.0).strata(m).tolist()
    with show("train") as run:
        means = run(f"""
          const random = fedstasExplorer.generator(3), sums = new Array(12).fill(0), squares = new Array(12).fill(0);
          for (let j = 0; j < {count}; j += 1) {{
            const one = new Array(12).fill(0);
            fedstasExplorer.drawCohort("{design}", {labels}, {m}, random).forEach(([k, w]) => {{ one[k] += w; }});
            one.forEach((w, k) => {{ sums[k] += w / {count}; squares[k] += w * w / {count}; }});
          }}
          return [sums, squares];""")
    mean, square = map(np.array, means)
    error = np.sqrt((square - mean**2) / count)
    assert np.all(np.abs(mean - moving_pictures.omega_of_clients()) < 5 * error + 1e-12)


def test_a_client_is_moved_by_a_press_by_arrows_and_by_dragging(show):
    start = list(moving_pictures.DRAGGED_START)
    where = """const chip = [...document.querySelectorAll(".explorer-chip")].find((c) => c.getAttribute("aria-label").startsWith("client 1,"));
      const group = () => chip.closest(".explorer-box").getAttribute("aria-label").slice(6, 7);"""
    with show("drag") as run:
        words = run("return words();")
        before = moving_pictures.compute_grouping(start, moving_pictures.GROUPS)
        assert f"in all {1000 * before['variance']:.0f} thousandths" in words
        assert run(where + "chip.click(); return [group(), document.activeElement === chip];") == [
            "B",
            True,
        ]
        after = moving_pictures.compute_grouping([1, *start[1:]], moving_pictures.GROUPS)
        words = run("return words();")
        assert "Client 1 moved from group A to B" in words
        assert f"in all {1000 * after['variance']:.0f} thousandths" in words
        arrow = "chip.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' })); return group();"
        assert run(where + arrow) == "A"
        dragged = run(
            where
            + """
          const box = document.querySelectorAll(".explorer-box")[2].getBoundingClientRect(), from = chip.getBoundingClientRect();
          chip.setPointerCapture = () => {};
          const send = (type, x, y) => chip.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, bubbles: true }));
          send("pointerdown", from.left + 5, from.top + 5);
          send("pointermove", box.left + 30, box.top + 30);
          const carried = chip.style.transform;
          send("pointerup", box.left + 30, box.top + 30);
          chip.click(); // the browser's, which ends a drag, moves nothing
          return [carried.startsWith("translate"), group(), chip.style.transform];"""
        )
        assert dragged == [True, "C", ""]


def test_the_search_ends_in_the_groups_of_least_variance_and_rounds_measure_it(show):
    found = moving_pictures.compute_grouping(moving_pictures.DRAGGED_START, moving_pictures.GROUPS)
    with show("drag") as run:
        run("press('Search to the end');")
        words = run("return words();")
        assert "no exchange of two lowers the variance any more" in words
        reached = int(re.search(r"in all (\d+) thousandths", words)[1])
        assert reached < 1000 * found["md"]
        run("press('Draw 10,000 rounds');")
        measured = int(re.search(r"mean squared error was (\d+)", run("return words();"))[1])
        assert abs(measured - reached) <= 0.06 * reached + 1  # 10,000 rounds
        run("press('Start again'); press('One step of the search');")
        assert run("return words();").startswith("The search moved client")


def test_the_search_finds_the_best_groups_of_the_dragged_clients():
    omega = np.array(moving_pictures.DRAGGED_SIZES) / sum(moving_pictures.DRAGGED_SIZES)
    d = theory.pair_weights(omega, np.array(moving_pictures.DRAGGED_UPDATES))
    _, least = theory.best_partition(d, moving_pictures.GROUPS)
    found = moving_pictures.compute_grouping(moving_pictures.DRAGGED_START, moving_pictures.GROUPS)
    assert found["searched"] == pytest.approx(least)


def test_four_designs_lie_around_the_update_of_all_clients_as_the_page_says():
    designs = {design["kind"]: design for design in moving_pictures.draws_data()["designs"]}

    def closest(change: float) -> list[str]:
        """Return the designs by the variance of a round, the smallest first."""
        return sorted(
            designs,
            key=lambda kind: moving_pictures.round_variance(
                designs[kind]["x"], designs[kind]["p"], change
            ),
        )

    assert closest(0.0)[0] == "should"
    assert closest(0.75) == ["least", "kmeans", "should", "md"] and closest(1.0)[0] == "least"
    assert closest(0.0)[-1] == closest(0.5)[-1] == "md"
    for (
        design
    ) in designs.values():  # unbiased: the contributions of a client's draws add up to its share
        assert np.sum(design["x"], axis=0) == pytest.approx(moving_pictures.draws_data()["omega"])


def test_estimates_of_rounds_gather_around_the_exact_distance(show):
    numbers = r"is ([\d.]+) with MD sampling, ([\d.]+) with k-means strata, ([\d.]+) with corrected FedSTaS, ([\d.]+) with"
    designs = moving_pictures.draws_data()["designs"]
    with show("draws", reduced=True) as run:
        for change in (0, 60):
            run(f"move('change', {change});")
            assert "Draw, and see" in run("return words();")
            run("press('One round');")
            assert run("return words();").startswith("After 1 round the")
            assert run("return document.querySelectorAll('.estimate').length;") == 4
            run("for (let k = 0; k < 50; k += 1) press('100 rounds');")
            words = run("return words();")
            assert words.startswith("After 5,001 rounds")
            measured = [float(value) for value in re.search(numbers, words).groups()]
            exact = [
                moving_pictures.round_variance(d["x"], d["p"], change / 100) ** 0.5 for d in designs
            ]
            assert measured == pytest.approx(exact, rel=0.06, abs=0.005)  # 5,001 rounds


def test_playing_draws_a_hundred_rounds_a_second(show):
    with show("draws") as run:
        run("press('Play'); await sleep(2000); press('Pause');")
        rounds = int(re.match(r"After (\d+) round", run("return words();"))[1])
        assert 20 <= rounds <= 250 and rounds % 10 == 0  # a busy machine draws fewer
