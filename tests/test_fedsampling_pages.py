"""Chapter 7's pages on text: what the best classifier reaches, and recorded runs as the slides print theirs."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from companion.pages import fedsampling as pages
from companion.runs import experiments, grid_results, sweeps, tables
from companion.runs.sweeps import Run
from fedstas import tasks


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_best_classifier_is_right_in_nearly_nine_of_ten_and_the_commonest_topic_in_one():
    task = tasks.load("topics")
    ceiling, commonest = pages.reference_accuracies(task)
    assert abs(ceiling - 0.88) < 0.022  # three standard errors of 2,000 documents
    top = np.bincount(task.train_y).argmax()
    assert commonest == (task.test_y.numpy() == top).mean()


def test_users_stand_by_what_they_wrote_divided_by_topic():
    counts = np.array([[1, 0, 2], [5, 1, 0], [0, 4, 0]])
    (ax,) = pages.draw_users(counts).axes
    heights = np.array([[bar.get_height() for bar in part] for part in ax.containers]).T
    assert heights.tolist() == [[5, 1, 0], [0, 4, 0], [1, 0, 2]]
    tops = [(bar.get_x() + 0.5, bar.get_y() + bar.get_height()) for bar in ax.containers[-1]]
    assert tops == [(1, 6), (2, 4), (3, 3)]


def test_recorded_runs_are_told_apart_by_what_the_slides_change(tmp_path, monkeypatch):
    shape = {"clients": 20, "rounds": 1}
    local = {"batch": 4, "steps": 1}
    where = ("topics", "natural", 0.01)
    runs = [
        Run(*where, "fedavg", 0, local, **shape),
        Run(*where, "fedavg", 0, local, network="transformer", **shape),
        Run(*where, "fedyogi", 0, local | {"weights": "plain"}, **shape),
        Run(*where, "fedsampling", 0, local | {"size_cap": 20}, **shape),
        Run(*where, "fedsampling", 0, local | {"epsilon": None}, **shape),
        Run("topics", "lognormal", 0.01, "md", 0, local, sigma=1.5, **shape),
    ]
    monkeypatch.setitem(experiments.SWEEPS, "trial", lambda profile: runs)
    assert sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False) == []
    runs.append(Run(*where, "md", 0, local | {"lr": 1e30}, **shape))
    assert len(sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False)) == 1
    grid = tables.load_sweep("trial", tmp_path)
    found = pages.final_metrics(grid, folder=tmp_path)
    lost = found[found["macro_f1"].isna()]  # it diverged: a row, without a value
    assert lost["arm"].tolist() == ["md"] and lost["partition"].tolist() == ["natural"]
    found = found.drop(lost.index).fillna(0)
    keys = ["partition", "sigma", "network", "arm", "epsilon", "size_cap"]
    assert sorted(found[keys].to_numpy().tolist()) == [
        ["lognormal", 1.5, "", "md", 0, 0],
        ["natural", 0, "", "fedavg", 0, 0],
        ["natural", 0, "", "fedsampling", 0, 100],
        ["natural", 0, "", "fedsampling, private", 3, 20],
        ["natural", 0, "", "fedyogi, plain mean", 0, 0],
        ["natural", 0, "transformer", "fedavg", 0, 0],
    ]
    own = grid.frame.set_index("run")
    assert sorted(found["test_accuracy"]) == sorted(100 * own["test_accuracy"])
    assert sorted(found["macro_f1"]) == sorted(100 * own["macro_f1"])
    assert len(pages.final_metrics(tables.load_sweep("trial", tmp_path / "nothing"))) == 0


def made(rows) -> pd.DataFrame:
    columns = grid_results.COLUMNS
    usual = {"sigma": np.nan, "network": "", "epsilon": np.nan, "size_cap": np.nan}
    return pd.DataFrame([usual | row for row in rows], columns=columns)


def test_the_table_has_the_slides_rows_with_ours_and_what_they_print():
    where = {"task": "topics", "partition": "natural"}
    rows = [
        where | {"arm": "fedavg", "seed": k, "test_accuracy": a, "macro_f1": a - 10}
        for k, a in enumerate((60.0, 62.0, 64.0))
    ]
    rows.append(rows[0] | {"network": "transformer", "test_accuracy": 71.0, "macro_f1": 70.0})
    table = pages.slides_table(made(rows))
    assert len(table) == 2 * 10 and len(table.columns) == 7
    half = 4.302652729911275 * 2 / 3**0.5  # t with two degrees of freedom
    own = table[table["method"] == "fedavg"].to_numpy().tolist()
    space = "\u00a0"
    assert own == [
        ["text-cnn", "fedavg", f"52.0{space}±{space}{half:.1f}", f"62.0{space}±{space}{half:.1f}", 3, "48.11 ± 0.66", "69.23 ± 0.73"],
        ["transformer", "fedavg", "70.0", "71.0", 1, "50.46 ± 0.99", "70.74 ± 0.52"],
    ]  # fmt: skip
    assert table.iloc[8].tolist()[1:5] == ["fedsampling, private", "–", "–", 0]
    assert table.iloc[8, 5] == "51.33 ± 0.62" and table.iloc[9, 5] == "–"


def points(ax) -> list[tuple[float, float]]:
    """Where the means stand."""
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    return [(float(x), float(y)) for line in lines for x, y in line.get_xydata()]


@pytest.mark.parametrize("task", ["topics", "mnist"])
def test_each_panel_shows_its_own_runs_and_says_how_to_record_the_others(task):
    kind, sigma = pages.DEFAULT_PARTITIONS[task]
    usual = {"task": task, "partition": kind, "sigma": sigma}
    epsilon, cap = pages.HIDDEN[task].values()
    private = {"arm": pages.PRIVATE, "epsilon": epsilon, "size_cap": cap}
    values = iter(range(10, 100, 2))

    def pair(**row):
        """Two seeds; their mean is odd."""
        at = next(values)
        return [
            usual | row | {"seed": k, "test_accuracy": at + 2 * k, "macro_f1": 0} for k in (0, 1)
        ]

    rows = pair(arm="fedavg") + pair(**private) + pair(**private | {"epsilon": 0.5})
    rows += pair(arm="md", partition="lognormal", sigma=3.0)
    drawn, spreads, pure, hidden = pages.draw_ablations(made(rows), task, "Not: `record me`").axes[
        :4
    ]
    assert points(drawn) == [(0, 11), (1, 13)]
    assert [t.get_text() for t in drawn.get_xticklabels()] == ["fedavg", "fedsampling,\nprivate"]
    expected = [(3.95, 17)] if task == "topics" else [(1.85, 11), (3.95, 17), (2.05, 13)]
    assert points(spreads) == [pytest.approx(p) for p in expected]
    assert [t.get_text() for t in pure.texts] == ["Not:\nrecord me"]
    assert points(hidden) == [
        (0, 15),
        (2, 13),
        (5, 13),
    ]  # epsilon 0.5; 3 is the third, its M the sixth
    labels = [t.get_text() for t in hidden.get_xticklabels()]
    assert labels[:4] == ["ε\n0.5", "ε\n1", "ε\n3", "ε\n10"] and f"M\n{cap}" in labels[4:]
    (whole,) = pages.draw_ablations(made([]), task, "Not: `record me`").axes
    assert [t.get_text() for t in whole.texts] == ["Not:\nrecord me"]
