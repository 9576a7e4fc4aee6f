"""The demo of learning rates, designs and budgets: its numbers are those of the records, and it works in a browser."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import needs_browser
from demo_page import write_page

from companion.pages import recorded_rates
from companion.runs import protocol

ROOT = Path(__file__).parents[1]

MOVE = """
function move(label, value) {
  const row = [...document.querySelectorAll(".explorer-slider")].find((r) => r.querySelector("label").textContent.startsWith(label));
  row.querySelector("input").value = value;
  row.querySelector("input").dispatchEvent(new Event("input", { bubbles: true }));
}
const words = () => document.querySelector(".explorer-told").textContent;
"""


@pytest.fixture(scope="module")
def tables():
    """The accuracies of the recorded runs."""
    return recorded_rates.load()


def test_accuracies_are_means_of_the_runs_at_a_budget():
    setting = protocol.read()["mnist"]
    runs = [
        {"arm": arm, "rate": 0.1, "seed": seed, "ended": False, "megabytes": mb, "test_accuracy": y}
        for arm in ("md", "divfl")
        for seed, high in zip((*setting.tuning_seeds, 0), (0.5, 0.7, 0.9), strict=True)
        for mb, y in ((30.0, 0.2), (60.0, high), (900.0, high))
    ]
    table = recorded_rates.tabulate(setting, pd.DataFrame(runs))
    assert list(table.index) == [("md", 0.1)]  # DivFL is not shown
    assert table.loc[("md", 0.1), 840] == pytest.approx(60)  # of seeds of tuning only
    # At 30 MB the mean over the last tenth of the budget, on the line from a guess to 20 %.
    assert table.loc[("md", 0.1), 30] == pytest.approx(10 + 10 * 0.95)


def test_the_page_says_what_the_records_show(tables):
    last, early = recorded_rates.MOST, 240

    def worth(table, megabytes):
        """Return what tuning MD's rate is worth at a budget, and the best design's lead over tuned MD, in points."""
        best = recorded_rates.choose_best(table, megabytes)
        md = best.pop("md")[1]
        return md - table.loc[("md", 0.01), megabytes], max(v for _, v in best.values()) - md

    assert np.greater(*worth(tables["mnist"], last))
    tuning, lead = worth(tables["fashion-mnist"], last)
    assert abs(tuning - lead) < 2  # "a point or two may be chance"
    page = " ".join((ROOT / "book" / "explorer.md").read_text(encoding="utf-8").split())
    told = f"tuning is worth {tuning:.1f} points, and least-variance strata are {lead:.1f} points"
    assert told in page
    ends = {a: v for a, (_, v) in recorded_rates.choose_best(tables["fashion-mnist"], last).items()}
    assert max(ends, key=ends.get) == "least-variance"
    assert np.less(*worth(tables["fashion-mnist"], early))
    garments = tables["fashion-mnist"][last]
    assert garments["md", 0.3] < garments["md", 0.1]
    for arm in ("least-variance", "clustered-similarity"):
        assert garments[arm, 0.3] > garments[arm, 0.1]
    for table in tables.values():  # all rates of all designs, and nothing of a run's end held on
        assert len(table) == len(recorded_rates.DESIGNS) * 5 and table.notna().all(axis=None)


def test_the_data_are_small(tables):
    assert len(recorded_rates.as_json(tables)) < 60_000


@needs_browser
@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (800, "dark"), (1400, "light")])
def test_rate_and_budget_are_chosen_and_the_page_fits(chromium, tmp_path, tables, width, theme):
    data = {"rates": json.loads(recorded_rates.as_json(tables))}
    end = f"<script>{MOVE}</script>"
    url = write_page(tmp_path, ["rates"], data, theme, width, end=end)
    with chromium.page(width) as tab:
        tab.open(url)
        tab.evaluate("document.querySelectorAll('.explorer button')[1].click()")
        tab.evaluate("move('learning rate', 3), move('budget', 840)")
        words = tab.evaluate("words()")
        measures = tab.evaluate("""({
          wide: document.documentElement.scrollWidth, high: document.querySelector(".explorer").getBoundingClientRect().height,
          checked: document.querySelector(".explorer-checked").dataset.wrong,
          pressed: [...document.querySelectorAll(".explorer button")].map((b) => b.getAttribute("aria-pressed")),
          curves: document.querySelectorAll(".explorer .curve").length, discs: document.querySelectorAll(".explorer .best").length,
          labels: [...document.querySelectorAll(".explorer svg")].map((s) => s.getAttribute("aria-label")) })""")
        assert tab.errors() == []
        assert [r for r in tab.requests() if not r.startswith(("file:", "data:"))] == []
    table = tables["fashion-mnist"][recorded_rates.MOST]
    md, least = (f"{table[arm, 0.3]:.1f}" for arm in ("md", "least-variance"))
    assert words.startswith("After 840 MB at the rate 0.3")
    assert re.search(rf"MD sampling reaches {md}\s% and least-variance strata {least}\s%", words)
    best = recorded_rates.choose_best(tables["fashion-mnist"], recorded_rates.MOST)["fedavg"]
    assert f"FedAvg {best[1]:.1f} % at {best[0]:g}" in measures["labels"][0]
    assert measures["wide"] <= width and measures["checked"] == "0"
    assert measures["pressed"] == ["false", "true"]
    assert measures["curves"] == 2 * len(recorded_rates.DESIGNS) and measures["discs"] == 6
    if width > 390:
        assert measures["high"] < 900  # no taller than a screen
