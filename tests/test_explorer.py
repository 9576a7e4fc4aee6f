"""The instruments: their data are the package's, and in a browser their scripts compute the same."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser
from demo_page import load_extension, write_page

from companion.pages import draw_probabilities, explorer, instruments, moving_pictures
from fedstas import allocation, compression, privacy, theory

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def data() -> dict:
    """Return the data of the instruments that are computed, as their scripts read them from JSON."""
    return json.loads(json.dumps(explorer.make_data(), allow_nan=False))


@pytest.fixture(scope="module")
def extension():
    """Import the Sphinx extension of the book's instruments."""
    return load_extension()


# For the tests' scripts: move(part, label, value) moves a slider as a reader would and returns its new label;
# report(key, value) leaves a value in the document, where `reported_value` finds it.
MOVE_AND_REPORT = """
function move(part, label, value) {
  const root = document.querySelector('[data-part="' + part + '"]');
  const row = [...root.querySelectorAll(".explorer-slider")].find((r) => !r.closest("[hidden]")
    && r.querySelector("label").textContent.startsWith(label));
  const input = row.querySelector("input");
  input.value = value;
  input.dispatchEvent(new Event("input", {bubbles: true}));
  return row.querySelector("output").textContent;
}
function report(key, value) {
  const node = document.createElement("pre");
  node.id = "reported-" + key;
  node.textContent = JSON.stringify(value);
  document.body.appendChild(node);
}
"""


@pytest.fixture
def browse(tmp_path, extension, data, chromium):
    """Return the function `browse(drive)`: the page's document after its scripts and the script `drive` ran."""

    def read(drive="", data=data, theme="light", width=1000, scripts=True) -> str:
        return render_page(chromium, tmp_path, extension, data, drive, theme, width, scripts)

    return read


def render_page(chromium, tmp_path, extension, data, drive, theme, width, scripts) -> str:
    """Return the HTML of a page of these instruments, in a theme and width, after its scripts and `drive` ran."""
    end = f"<script>{MOVE_AND_REPORT}{drive}</script>"
    url = write_page(tmp_path, instruments.COMPUTED, data, theme, width, scripts, end)
    with chromium.page(width) as tab:
        tab.open(url)
        document = tab.evaluate("document.documentElement.outerHTML")
        assert tab.errors() == []
    return document


def reported_value(document: str, key: str):
    """Return the value that a test's script reported by `report(key, value)`."""
    text = re.search(rf'<pre id="reported-{key}">(.*?)</pre>', document, flags=re.DOTALL)[1]
    return json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def test_the_data_of_the_instruments_are_small_and_complete(data):
    assert len(json.dumps(data)) < explorer.MAX_BYTES
    assert tuple(data) == instruments.COMPUTED
    part = data["privacy"]
    assert len(part["attack"]) == len(part["epsilons"])
    assert all(len(row) == len(part["caps"]) for row in part["attack"])


def test_the_grid_has_the_exact_success_of_the_attack_on_privacy(data):
    data = data["privacy"]
    e, cap = data["epsilons"].index(3), data["caps"].index(100)
    alpha = privacy.truth_probability(3, 100)
    exact = [float(p) for p in theory.mode_attack(100, alpha, 4)]
    assert data["attack"][e][cap][:5] == pytest.approx(exact, abs=1e-4)
    for row in data["attack"]:
        for curve in row:
            assert curve[1] <= curve[-1] + 1e-9  # more reports reveal more


def test_the_default_setting_shows_what_its_caption_states():
    rows = explorer.compare_allocations(explorer.SIZES, explorer.SPREADS, explorer.PARTICIPANTS)
    assert rows["rounded"]["draws"] == [2, 3, 4, 1]
    assert rows["optimal"]["draws"] == [2, 3, 3, 2]
    assert rows["optimal"]["variance"] < rows["rounded"]["variance"]
    printed = allocation.neyman_real(explorer.SIZES, explorer.SPREADS, explorer.PARTICIPANTS)
    assert [round(float(x), 2) for x in printed] == [1.86, 2.79, 3.72, 1.63]


def test_the_answer_to_the_second_sessions_vote_appears_only_after_a_slider_is_moved():
    """The second session asks how many participants ten clients get that hardly differ, as the fourth stratum after its
    slider is moved to 0.2: in rounded numbers none, in the best allocation one."""
    assert all(spread >= 1 for spread in explorer.SPREADS)
    spreads = (*explorer.SPREADS[:3], 0.2)
    rows = explorer.compare_allocations(explorer.SIZES, spreads, explorer.PARTICIPANTS)
    assert rows["rounded"]["draws"] == [2, 3, 5, 0] and rows["optimal"]["draws"] == [2, 3, 4, 1]


def test_equal_spreads_of_zero_have_no_printed_allocation():
    rows = explorer.compare_allocations([8, 8], [0.0, 0.0], 4)
    assert rows["printed"]["draws"] is None and rows["optimal"]["variance"] == 0


@pytest.mark.slow
def test_the_page_files_are_the_data_and_a_figure_for_each_part(tmp_path, data):
    explorer.write_page_files(tmp_path)
    assert json.loads((tmp_path / "explorer.json").read_text(encoding="utf-8")) == data
    for name in instruments.COMPUTED:
        assert (tmp_path / f"explorer-{name}.png").stat().st_size > 5000


def test_the_page_has_a_figure_before_each_instrument():
    page = (ROOT / "book" / "explorer.md").read_text(encoding="utf-8")
    for name in instruments.NAMES:
        figure = page.index(f":name: fig-explorer-{name}")
        assert f"chapters/explorer-{name}.png" in page
        assert figure < page.index(f"```{{explorer}} {name}") < page.index("{explorer} checked")
        assert f"](#instrument-{name}): " in page and f"\n(instrument-{name})=\n## " in page


def test_scripts_and_styles_load_nothing(extension):
    names = {path.name for path in extension.SCRIPTS.iterdir()}
    assert names == {"core.js", "instruments.css", *(f"{part}.js" for part in instruments.NAMES)}
    for name in names:
        text = (extension.SCRIPTS / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|fetch\(|XMLHttp|import\(|@import|url\(", text), name


def test_data_cannot_end_the_script(extension):
    assert "</script><b>" not in extension.script({"coin": "</script><b>"}, ["coin"])


def test_a_page_has_the_data_and_scripts_of_its_instruments_only(extension, data):
    script = extension.script(data, ["coin"])
    text = re.search(r'id="explorer-data">(.*?)</script>', script)[1]
    assert json.loads(text) == {"coin": data["coin"]}
    assert script.count("fedstasExplorer.add(") == 1 and len(script) < 40_000


def test_the_quantisation_levels_and_their_error_are_those_of_the_package(data):
    part = data["squeeze"]
    entries = np.array(part["entries"], dtype=np.float32)
    assert len(entries) == explorer.ENTRIES and np.unique(entries).size > 100
    restored = compression.squeeze(entries, 9).restore()[0]
    assert set(np.unique(restored)) == set(np.array(part["levels"]["9"], dtype=np.float32))
    (nine,) = [c["answer"] for c in part["cases"]["squeezed"] if c["given"] == [9]]
    # the share of the gradient's square that nine levels keep, of 510 entries
    assert nine["kept"] == pytest.approx(
        1 - np.var(entries - restored) * 510 / (entries**2).sum(), abs=1e-4
    )
    assert nine["bits"] == 32 * 9 + 4 * 510 and sum(nine["counts"]) == 510


def test_the_map_shows_clients_of_one_or_two_classes_and_their_chances_sum_to_the_participants(
    data,
):
    part = data["strata"]
    N = len(part["points"])
    assert 25 <= N <= 30 and [max(labels) + 1 for labels in part["labels"]] == list(range(1, 9))
    counts = draw_probabilities.example().counts
    assert np.median((counts > 0.1 * counts.sum(1, keepdims=True)).sum(1)) <= 2
    for case in part["cases"]["onMap"]:
        strata, m = case["given"]
        labels, chances = np.array(part["labels"][strata - 1]), np.array(case["answer"]["chances"])
        draws = np.bincount(labels, chances)
        assert draws == pytest.approx(case["answer"]["draws"], abs=1e-9)
        assert draws.sum() == pytest.approx(m)


def test_the_mean_of_six_clients_is_biased_as_written_and_unbiased_corrected():
    """By hand for one draw: sum u |u| / sum |u|."""
    round_ = explorer.summarise_round(explorer.VALUES, explorer.NORMS, 1)
    assert round_["written"] == pytest.approx((-1 - 0.25 + 0.25 + 1 + 4 + 16) / 9)
    assert round_["target"] == round_["corrected"] == 1
    means = [
        explorer.summarise_round(explorer.VALUES, explorer.NORMS, m)["written"] for m in range(1, 6)
    ]
    assert means == sorted(means, reverse=True) and means[-1] > 1


@needs_browser
def test_the_check_in_the_page_finds_no_difference(browse, data):
    document = browse('report("wrong", fedstasExplorer.differences());')
    assert reported_value(document, "wrong") == []
    count = sum(len(cases) for part in data.values() for cases in part["cases"].values())
    assert f"the package's numbers on all {count} test inputs" in document


def assert_close(answer, expected, name: str) -> None:
    """Assert that numbers, lists and nested dictionaries of them are equal up to 1e-7 of each, or 1e-9."""
    if isinstance(expected, dict):
        assert answer.keys() == expected.keys(), name
        for key, value in expected.items():
            assert_close(answer[key], value, f"{name}, {key}")
    elif expected is None:  # an infinite variance, which JSON does not have
        assert answer is None, name
    else:
        assert answer == pytest.approx(expected, rel=1e-7, abs=1e-9), name


# By function of the scripts: the package's function, and inputs that are not among the page's test inputs.
FUNCTIONS_AND_INPUTS = {
    "grouping": (
        moving_pictures.compute_grouping,
        [
            {"labels": [0, 0, 1, 1, 2, 2, 3, 3, 3], "m": 4},
            {"labels": [1, 0, 0, 0, 0, 1, 1, 1, 0], "m": 2},
        ],
    ),
    "roundVariance": (
        moving_pictures.round_variance,
        [
            {"x": design["x"], "p": design["p"], "change": change}
            for design in moving_pictures.draws_data()["designs"]
            for change in (0.35, 1.0)
        ],
    ),
    "trained": (
        moving_pictures.train_all,
        [
            {"heterogeneity": 0.9, "m": 6, "rounds": 3},
            {"heterogeneity": 0.3, "m": 2, "rounds": 8},
            {"heterogeneity": 1.0, "m": 7, "rounds": 1},
        ],
    ),
    "allocate": (
        explorer.compare_allocations,
        [
            {"sizes": [7, 19, 4], "spreads": [0.5, 2.5, 1.0], "m": 9},
            {"sizes": [60, 2], "spreads": [0.1, 5.0], "m": 30},
        ],
    ),
    "estimate": (
        explorer.summarise_size_estimate,
        [
            {"size": 123, "cap": 77, "epsilon": 2.5, "m": 12},
            {"size": 1000, "cap": 1001, "epsilon": 0.1, "m": 2},
        ],
    ),
    "composed": (
        explorer.compose_epsilon,
        [
            {"epsilon": 4, "cap": 50, "reports": 33, "delta": 1e-4},
            {"epsilon": 1, "cap": 10, "reports": 60, "delta": 1e-9},
        ],
    ),
    "squeezed": (explorer.summarise_squeeze, [{"levels": 4}, {"levels": 13}]),
    "onMap": (
        explorer.allocate_on_map,
        [{"strata": 2, "m": 9}, {"strata": 5, "m": 5}, {"strata": 3, "m": 14}],
    ),
    "bias": (
        explorer.summarise_round,
        [
            {"values": [2, -3, 5, 0.5], "norms": [1, 2, 3, 4], "m": 3},
            {"values": [1, 7], "norms": [5, 1], "m": 1},
        ],
    ),
    "coin": (
        explorer.summarise_reports,
        [
            {
                "size": 77,
                "cap": 50,
                "epsilon": 2.0,
                "flips": [[0.9, 3], [0.001, 12], [0.5, 49]],
            },
            {"size": 5, "cap": 3, "epsilon": 6.5, "flips": [[0.2, 1]]},
        ],
    ),
}


@needs_browser
@pytest.mark.parametrize("name", FUNCTIONS_AND_INPUTS)
def test_a_function_of_the_scripts_computes_what_the_package_computes(browse, name):
    function, inputs = FUNCTIONS_AND_INPUTS[name]
    positional = json.dumps([[*arguments.values()] for arguments in inputs])  # in JavaScript
    document = browse(f'report("answers", {positional}.map((a) => fedstasExplorer.{name}(...a)));')
    answers = reported_value(document, "answers")
    for arguments, answer in zip(inputs, answers, strict=True):
        assert_close(answer, function(**arguments), f"{name} of {arguments}")


@needs_browser
def test_the_check_in_the_page_reports_a_wrong_number(browse, data):
    wrong = json.loads(json.dumps(data))
    wrong["privacy"]["cases"]["composed"][5]["answer"] *= 1.01
    document = browse(data=wrong)
    assert "other numbers than the package: composed of" in document


@needs_browser
def test_sliders_change_text_and_figures(browse):
    drive = """
      const says = (part) => document.querySelector('[data-part="' + part + '"] .explorer-told').textContent;
      const row = (name) => [...document.querySelectorAll('[data-part="allocation"] tr[data-row="' + name + '"] td')].map((c) => c.textContent);
      report("start", row("rounded"));
      const spread = [...document.querySelectorAll(".explorer-stratum")][3].querySelectorAll("input")[1];
      spread.value = 0.2; spread.dispatchEvent(new Event("input", {bubbles: true}));
      report("first", {rounded: row("rounded"), text: says("allocation"),
        figures: [...document.querySelectorAll("figure")].map((f) => getComputedStyle(f).display)});
      move("allocation", "strata", 2); move("allocation", "participants", 12);
      report("two", row("optimal"));
      report("estimate", says("estimate"));
      const before = document.querySelector('[data-part="estimate"] svg').outerHTML;
      report("epsilon", move("estimate", "size cap", 601) && move("estimate", "ε", 8));
      report("moved", before !== document.querySelector('[data-part="estimate"] svg').outerHTML);
      report("wide", says("estimate"));
      report("ten", says("privacy"));
      move("privacy", "fresh", 99); move("privacy", "δ", 0);
      report("all", says("privacy"));
      // what a reader without a mouse or without eyes is given
      const inputs = [...document.querySelectorAll(".explorer input")];
      report("reach", inputs.map((i) => [i.tabIndex, i.labels.length, !!i.getAttribute("aria-valuetext")]));
      report("drawn", [...document.querySelectorAll(".explorer-plot svg")].map((s) => s.getAttribute("aria-label").length));
    """
    document = browse(drive)
    # Seats of four strata by rounding: first with the default spreads, then with 0.2 as the fourth.
    assert reported_value(document, "start")[:4] == ["2", "3", "4", "1"]
    first = reported_value(document, "first")
    assert first["rounded"] == ["2", "3", "5", "0", "infinite"]
    assert (
        "gives stratum 4 no participant: none of those clients can ever be drawn" in first["text"]
    )
    assert first["figures"] == ["none"] * len(
        instruments.COMPUTED
    )  # instruments replace all figures
    # Two strata and 12 participants.
    sizes, spreads = explorer.SIZES[:2], explorer.SPREADS[:2]
    expected = [str(k) for k in allocation.neyman(sizes, spreads, 12)]
    assert reported_value(document, "two")[:2] == expected
    # Ten clients of 600 examples; the size cap 100 lets none report more than 99, the cap 601 lets all report 600.
    sd = round(explorer.summarise_size_estimate(600, 100, 3.0, 10)["sd"])
    sentence = f"the mean 990 where 6,000 is true, and the standard deviation {sd}"
    assert sentence in reported_value(document, "estimate")
    assert "Every true answer is 99: M clips all sizes." in reported_value(document, "estimate")
    alpha = privacy.truth_probability(8, 601)
    assert f"{alpha:.4f}" in reported_value(document, "epsilon") and reported_value(
        document, "moved"
    )
    assert "the mean 6,000 where 6,000" in reported_value(document, "wide")
    assert "clips" not in reported_value(document, "wide")
    # Ten reports of epsilon 3, the bound without delta and the smaller one with it; then 99 reports without delta.
    tight = explorer.compose_epsilon(3, 100, 10, explorer.DELTA)
    assert f"cost ε = 30, or {tight:.1f} if δ = 0.00001 is allowed" in reported_value(
        document, "ten"
    )
    assert "99 fresh reports of ε = 3 cost ε = 297." in reported_value(document, "all")
    # Every slider is reached by the keyboard, and has one label and its value in words.
    assert all(reach == [0, 1, True] for reach in reported_value(document, "reach"))
    # Sliders by part; two of allocation's are for all strata, two for each of eight.
    sliders = {
        "train": 2,
        "drag": 0,
        "draws": 1,
        "squeeze": 1,
        "strata": 2,
        "allocation": 2 + 2 * 8,
        "bias": 1,
        "coin": 2,
    }
    sliders |= {"estimate": 4, "privacy": 4}
    assert sliders.keys() == {*instruments.COMPUTED}
    assert len(reported_value(document, "reach")) == sum(sliders.values())
    assert min(reported_value(document, "drawn")) > 40  # characters of a drawing's description


# press(part, words) clicks the button of these words; says(part) returns the text under the instrument.
PRESS_BUTTON = """
const press = (part, words) => {
  const buttons = [...document.querySelectorAll('[data-part="' + part + '"] button')].filter((b) => b.textContent === words);
  if (buttons.length !== 1) throw new Error(words);
  buttons[0].click();
};
const says = (part) => document.querySelector('[data-part="' + part + '"] .explorer-told').textContent;
"""


@needs_browser
def test_a_button_draws_and_changes_the_text(browse, data):
    drive = """
      report("before", says("coin"));
      press("coin", "Flip once"); report("once", says("coin"));
      for (let k = 0; k < 10; k += 1) press("coin", "Flip 100 times");
      report("many", says("coin"));
      move("coin", "ε", 8); report("again", says("coin"));
      for (let k = 0; k < 20; k += 1) press("bias", "Draw 100 rounds");
      report("bias", says("bias"));
      press("bias", "Start again"); report("restarted", says("bias"));
      press("strata", "Draw a round");
      report("drawn", document.querySelectorAll(".client.drawn").length);
      report("participants", [...document.querySelectorAll('[data-part="strata"] tr[data-row="participants"] td')].map((c) => Number(c.textContent)));
      move("strata", "participants", 9); report("cleared", document.querySelectorAll(".client.drawn").length);
      move("strata", "strata", 8); move("strata", "participants", 1); report("least", move("strata", "participants", 1));
      report("tab", [...document.querySelectorAll(".explorer button")].map((b) => b.tabIndex));
      report("clients", document.querySelectorAll(".client").length);
    """
    document = browse(PRESS_BUTTON + drive)
    alpha = privacy.truth_probability(3.0, 100)
    assert f"with probability {alpha:.2f}" in reported_value(document, "before")
    assert re.search(r"Of 1 report, [01] told the truth", reported_value(document, "once"))
    first, last = (
        re.search(
            r"they say ([−\d.,]+), give or take ([\d.,]+); the true size is 40",
            reported_value(document, key),
        )
        for key in ("once", "many")
    )
    half_width = 1.96 * explorer.summarise_reports(40, 100, 3.0, [[0.5, 1]])["sd"]
    assert float(first[2]) == pytest.approx(half_width, abs=0.05)
    assert float(last[2]) == pytest.approx(half_width / 1001**0.5, abs=0.05)
    assert abs(float(last[1].replace("−", "-")) - 40) < 2 * float(last[2])
    assert "Flip the coin." in reported_value(document, "again")
    exact = explorer.summarise_round(explorer.VALUES, explorer.NORMS, explorer.COHORT_SIZE)
    written, corrected = map(
        float,
        re.search(
            r"average is ([\d.]+) as written and ([\d.]+) corrected",
            reported_value(document, "bias"),
        ).groups(),
    )
    assert "After 2,000 rounds" in reported_value(document, "bias")
    for average, key in ((written, "written"), (corrected, "corrected")):
        assert abs(average - exact[key]) < 4 * exact[f"{key}_sd"] / 2000**0.5 + 0.005, key
    assert written - corrected > 0.3
    assert "Six clients would move the model" in reported_value(document, "restarted")
    assert (
        reported_value(document, "drawn")
        == sum(reported_value(document, "participants"))
        == draw_probabilities.PARTICIPANTS
    )
    assert reported_value(document, "cleared") == 0 and reported_value(document, "least") == "8"
    assert {*reported_value(document, "tab")} == {0}
    assert reported_value(document, "clients") == len(data["strata"]["points"])


@needs_browser
def test_extreme_settings_show_no_undefined_or_infinite_number(browse):
    drive = """
      const texts = [];
      document.querySelectorAll(".explorer").forEach((root) => {
        for (const end of ["min", "max"]) {
          [...root.querySelectorAll("input")].forEach((i) => { i.value = i[end]; i.dispatchEvent(new Event("input")); });
          [...root.querySelectorAll("button")].slice(0, 2).forEach((b) => b.click());
          texts.push(root.textContent, root.innerHTML);
        }
      });
      report("bad", texts.map((t) => (t.match(/NaN|undefined|Infinity/) || []).length));
    """
    assert set(reported_value(browse(drive), "bad")) == {0}


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_phone_and_is_legible(browse, theme):
    drive = """
      const shade = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255;
        return x <= 0.03928 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const ground = shade(getComputedStyle(document.body).backgroundColor);
      const ratio = (c) => { const s = shade(c), a = Math.max(s, ground), b = Math.min(s, ground);
        return (a + 0.05) / (b + 0.05); };
      const words = [...document.querySelectorAll(".explorer svg text")].map((n) => ratio(getComputedStyle(n).fill));
      const bars = [...document.querySelectorAll(".explorer rect:not(.part)")] // parts have an outline in ink
        .map((n) => ratio(getComputedStyle(n).fill));
      const sizes = [...document.querySelectorAll(".explorer svg text")].map((n) => n.getBoundingClientRect().height);
      const main = document.getElementById("main");
      report("seen", {words: Math.min(...words), bars: Math.min(...bars), high: Math.min(...sizes),
        wide: main.scrollWidth, room: main.clientWidth,
        svg: Math.max(...[...document.querySelectorAll("svg")].map((s) => s.getBoundingClientRect().right))});
    """
    measures = reported_value(browse(drive, theme=theme, width=375), "seen")
    assert (
        measures["room"] <= 351 and measures["wide"] <= measures["room"] and measures["svg"] <= 375
    )
    assert measures["words"] >= 4.5 and measures["bars"] >= 3 and measures["high"] >= 10
    assert not math.isnan(measures["words"])


@needs_browser
def test_without_scripts_the_figures_are_shown(browse):
    drive = """report("figures", [...document.querySelectorAll("figure")].map((f) => getComputedStyle(f).display));
      report("parts", [...document.querySelectorAll(".explorer")].map((f) => getComputedStyle(f).display));"""
    document = browse(drive, scripts=False)
    assert "none" not in reported_value(document, "figures") and set(
        reported_value(document, "parts")
    ) == {"none"}
