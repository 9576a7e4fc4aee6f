"""The figures of clustered sampling have the paper's panels and curves, or name the command that records them."""

import re
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from companion.claims.evidence import experiments as evidence
from companion.claims.evidence.clustered_losses import CIFAR_SHORT, MNIST
from companion.pages import ch06
from companion.pages import clustered_figures as figures
from companion.runs import experiments, records
from fedstas import methods, partition
from fedstas.sim import simulation

SIZES = partition.parse_sizes("100x10,250x30,500x30,750x20,1000x10")
LOSS_GAIN = {"md": 0.0, "clustered-size": 0.1, "clustered-similarity": 0.2}
FIGURES = {k: getattr(figures, f"figure_{k}") for k in (2, 6, 7, 8, 9, 10)}
# These settings of the sweep on MNIST are recorded here, a few of all.
RECORDED_VALUES = {"concentration": (0.01, 10.0), "steps": (100, 500)}
RECORDED_VALUES |= {"clients_per_round": (10, 5), "prox": (0.0, 0.1)}


def loss(method: str, seed: int, t: np.ndarray) -> np.ndarray:
    """Return the training loss of a run in rounds t: it falls, and swings by 0.05 every second round."""
    return 2 / np.sqrt(t) + 1 - LOSS_GAIN[method] + 0.01 * seed + 0.05 * (-1.0) ** (t // 2)


def record(folder, sweep: str, recorded_values: dict = RECORDED_VALUES) -> None:
    """Record runs of two seeds of a sweep with these settings, of five on CIFAR-10, with losses of `loss`."""
    for run in experiments.runs(sweep, "paper"):
        setting = {"steps": run.overrides["steps"], "prox": run.overrides.get("prox", 0.0)}
        setting |= {"concentration": run.concentration, "clients_per_round": run.clients_per_round}
        if run.task == "cifar10":
            setting["steps"] *= 5  # those of the paper
        included = all(setting[k] in values for k, values in recorded_values.items())
        included &= run.method in LOSS_GAIN
        seeds = 5 if run.task == "cifar10" else 2
        if run.seed >= seeds or run.clients != 100 or not included:
            continue
        recipe = {"name": run.partition, "concentration": run.concentration, "seed": run.seed}
        recipe["sizes"] = partition.parse_sizes(run.sizes)
        federation = SimpleNamespace(recipe=recipe, shards=[0] * 100)
        task = SimpleNamespace(name=run.task, digest="x", identity_extras={})
        options = {"rounds": run.rounds, "clients_per_round": run.clients_per_round}
        options |= {"seed": run.seed, "eval_every": run.eval_every}
        method = methods.get(run.method, **run.overrides)
        identity = records.identity(task, federation, method, **options)
        t = np.array(records.evaluated_rounds(identity))
        columns = {c: np.zeros(len(t)).astype(k) for c, k in simulation.COLUMNS.items()}
        columns |= {"round": t, "train_loss": loss(run.method, run.seed, t)}
        columns |= {"test_accuracy": np.full(len(t), 0.5)}
        history = SimpleNamespace(frame=pd.DataFrame(columns), cohorts=[])
        accuracy = 0.6 + LOSS_GAIN[run.method] + 0.1 * run.seed
        records.save(history, identity, sweep, folder, device="cpu", local_accuracy=accuracy)


@pytest.fixture(scope="module")
def recorded_folder(tmp_path_factory):
    """Return a folder of recorded runs of the sweep on MNIST."""
    folder = tmp_path_factory.mktemp("recorded")
    record(folder, "clustered-mnist")
    return folder


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of each test."""
    yield
    plt.close("all")


def panel_text(figure) -> str:
    """Return all text in the panels of a figure."""
    return " ".join(t.get_text() for ax in figure.axes for t in ax.texts).replace("\n", " ")


@pytest.mark.parametrize("number", FIGURES)
def test_a_figure_without_runs_names_the_command_that_records_them(number, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    figure = FIGURES[number]()
    command = "fedstas sweep clustered-mnist --profile paper --folder results"
    assert command in panel_text(figure) and len(figure.axes) == 1
    assert "clustered-mnist" in experiments.names()
    assert "`fedstas sweep clustered-mnist" in figures.local_tests(MNIST).iloc[0, 0]


BY_WORK = list(figures.local_work(MNIST))
BY_CONCENTRATION = [f"concentration {c}" for c in ("10", "0.1", "0.01", "0.001")]
PANELS = {  # by figure: titles, and the places of the panels whose runs are recorded
    2: (BY_CONCENTRATION, [0, 2]),
    7: ([title for title in BY_CONCENTRATION for _ in range(2)], [0, 1, 4, 5]),
    8: (BY_WORK, [1, 2]),
    9: ([title for title in BY_WORK for _ in range(2)], [2, 3, 4, 5]),
    10: (["FedProx, mu = 0.1"] * 2, [0, 1]),
}


@pytest.mark.parametrize("number", PANELS)
def test_a_figure_has_the_papers_panels(number, recorded_folder, monkeypatch):
    monkeypatch.setattr(evidence, "RESULTS", recorded_folder)
    figure, (titles, recorded_places) = FIGURES[number](), PANELS[number]
    shown = [ax.get_title() for ax in figure.axes]
    if number in (7, 9):  # narrow panels: the setting, and what the axis shows
        titles = [title.replace(", ", "\n") for title in titles]
        labels = [shown[k].rpartition("\n")[2] for k in recorded_places]
        assert labels == ["accuracy, client shares (%)", "training loss (nats)"] * 2
        shown = [text[: len(title)] for text, title in zip(shown, titles, strict=True)]
    assert shown == titles
    assert figure.get_suptitle() == "MNIST"
    for place, ax in enumerate(figure.axes):
        curves = {line.get_gid() for line in ax.lines} - {None}
        assert curves == (set(LOSS_GAIN) if place in recorded_places else set())
        names = {t.get_text() for t in ax.texts}
        if place in recorded_places:
            assert names == {"MD", "Alg. 1", "Alg. 2"}  # at the ends of the curves
        else:
            assert any("fedstas sweep clustered-mnist" in name for name in names)


def test_figure_10_shows_the_rolling_mean_of_the_loss_above_the_loss_itself(
    recorded_folder, monkeypatch
):
    monkeypatch.setattr(evidence, "RESULTS", recorded_folder)
    above, below = figures.figure_10().axes
    t = np.arange(2, 101, 2)
    mean = np.mean([loss("clustered-size", s, t) for s in (0, 1)], axis=0)
    smooth, raw = (
        next(line for line in panel.lines if line.get_gid() == "clustered-size")
        for panel in (above, below)
    )
    np.testing.assert_allclose(raw.get_ydata(), mean)
    assert smooth.get_xdata()[0] == 20  # a fifth of the rounds
    np.testing.assert_allclose(smooth.get_ydata()[[0, -1]], [mean[:10].mean(), mean[-10:].mean()])
    for rounds, window in ((1000, 50), (2000, 50), (100, 20), (50, 10)):
        assert figures.rolling_window(pd.DataFrame({"rounds": [rounds]})) == window


def test_figure_6_has_a_curve_for_each_measure_of_similarity(recorded_folder, monkeypatch):
    monkeypatch.setattr(evidence, "RESULTS", recorded_folder)
    figure = figures.figure_6()
    assert figure.axes
    for ax in figure.axes:
        names = {"MD", "Alg. 1", "Alg. 2, angle", "Alg. 2, L2", "Alg. 2, L1"}
        assert {t.get_text() for t in ax.texts} == names
        styles = {(n.get_color(), n.get_linestyle()) for n in ax.lines if n.get_gid()}
        assert len(styles) == 5


def test_figures_show_cifar10_at_the_reduced_length_where_it_is_recorded(
    recorded_folder, tmp_path, monkeypatch
):
    (tmp_path / "clustered-mnist").symlink_to(recorded_folder / "clustered-mnist")
    record(tmp_path, "clustered-cifar10-short")
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    for number in FIGURES:
        figure = FIGURES[number]()
        assert figure.get_suptitle() == "CIFAR-10, at the reduced length"
        drawn = [{n.get_gid() for n in ax.lines} - {None} for ax in figure.axes]
        assert drawn.count(set()) == (len(drawn) - len(PANELS[number][1]) if number != 6 else 0)
    titles = [ax.get_title() for ax in figures.figure_8().axes]
    assert titles == list(figures.local_work(CIFAR_SHORT))
    assert titles[1:3] == ["100 local steps, m = 10", "20 local steps, m = 5"]


def test_a_panel_is_of_the_first_data_set_on_which_it_is_recorded(
    recorded_folder, tmp_path, monkeypatch
):
    """Five participants are recorded on CIFAR-10, more local steps only on MNIST: the titles of the panels name the data."""
    (tmp_path / "clustered-mnist").symlink_to(recorded_folder / "clustered-mnist")
    usual = RECORDED_VALUES | {"steps": (100,)}
    record(tmp_path, "clustered-cifar10-short", usual)
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    figure = figures.figure_8()
    assert figure.get_suptitle() == ""
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[1:3] == ["MNIST: 500 local steps, m = 10", "CIFAR-10: 20 local steps, m = 5"]
    assert titles[::3] == [BY_WORK[0], BY_WORK[3]]  # recorded on neither
    narrow = figures.figure_9().axes[4].get_title()
    assert narrow == "CIFAR-10\n20 local steps\nm = 5\naccuracy, client shares (%)"


def test_figure_5_has_every_clients_shares_and_every_classs_examples():
    figure = figures.figure_5(SIZES)
    rows = np.array(figure.axes).reshape(2, 4).T
    for concentration, (shares_panel, classes_panel) in zip(
        (10.0, 0.1, 0.01, 0.001), rows, strict=True
    ):
        assert shares_panel.get_title() == f"concentration {concentration:g}"
        federation = partition.dirichlet_fixed_size(
            np.repeat(range(10), 5000), SIZES, concentration, 0
        )
        heights = [bar.get_height() for bar in classes_panel.patches]
        assert heights == pytest.approx(federation.label_counts.sum(0) / 1e3)
        assert sum(heights) == pytest.approx(48.5)
        ends = [band.get_paths()[0].vertices[:, 0].max() for band in shares_panel.collections]
        assert len(ends) == 10 and max(ends) == pytest.approx(100)


def test_the_table_of_local_tests_has_the_recorded_accuracies(recorded_folder, monkeypatch):
    monkeypatch.setattr(evidence, "RESULTS", recorded_folder)
    table = figures.local_tests(MNIST).set_index("setting")
    recorded_settings = [
        "concentration 10",
        "concentration 0.01",
        "500 local steps, m = 10",
        "100 local steps, m = 5",
    ]
    means = table.loc[recorded_settings].map(lambda text: float(re.match(r"[\d.]+", text)[0]))
    assert means.to_numpy() == pytest.approx(np.tile([65, 75, 85], (4, 1)))
    assert set(table.iloc[-1].str[:4]) == {"50.0"} and "global" in table.index[-1]
    missing = table.drop(index=[*recorded_settings, table.index[-1]])
    assert len(table) == 9 and (missing == "–").all(axis=None)


def test_a_majority_row_has_more_than_half_of_one_class():
    """A row holds the counts of the four clients in one draw of clustered sampling; a client has one class."""
    rows = np.array([[6, 0, 6, 0], [7, 2, 0, 3], [3, 4, 2, 3]])
    assert ch06.count_majority_rows(rows, np.array([0, 1, 2, 2])) == 1
    assert ch06.count_majority_rows(rows, np.array([0, 0, 2, 2])) == 2
    assert ch06.count_majority_rows(rows, np.array([5, 5, 5, 5])) == 3


def test_the_gains_stand_in_a_row_for_each_data_set_with_its_own_local_steps():
    figure = figures.draw_gains()
    rows = np.reshape(figure.axes, (2, 3))
    ticks = [[[t.get_text() for t in ax.get_xticklabels()] for ax in row] for row in rows]
    shared = [["10", "0.1", "0.01", "0.001"], ["5", "10", "20"]]
    assert ticks == [[*shared, ["2", "20", "100"]], [*shared, ["10", "100", "500"]]]
    assert [ax.get_xlabel() for ax in rows[1]] == ["concentration", "participants", "local steps"]
    for (first, *_), name in zip(rows, ("CIFAR-10", "MNIST"), strict=True):
        assert first.get_ylabel().startswith(name)
    # Concentration 0.01, ten participants and the usual steps are one setting: both algorithms' dots agree.
    for row in rows:
        dots = [
            [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "o"] for ax in row
        ]
        usual = [
            [of[place], of[place + len(of) // 2]] for of, place in zip(dots, (2, 1, 1), strict=True)
        ]
        assert usual[0] == usual[1] == usual[2]
