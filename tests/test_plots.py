"""Figures, and the tables and small statistics under them."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from companion.pages import ch05, plots
from companion.runs import experiments, records, statistics, sweeps, tables
from fedstas import methods
from fedstas.sim import partition, simulation, tasks


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two methods, six seeds, 20 rounds; b is 2 points above a in every seed."""
    rows = []
    for seed in range(6):
        for t in range(1, 21):
            for method, gain in (("md", 0.0), ("fedstas", 0.02)):
                value = 0.3 + 0.01 * t + 0.03 * np.sin(seed) + gain
                rows.append((method, seed, 20, t, value, value / 2, 1e6 * t))
    columns = ["method", "seed", "rounds", "round", "test_accuracy", "train_loss", "megabytes"]
    return pd.DataFrame(rows, columns=columns)


def test_summary_takes_the_last_ten_rounds_in_percent(frame):
    summary = tables.summarise(frame, "test_accuracy")
    expected = 100 * (0.3 + 0.01 * np.arange(11, 21).mean() + 0.03 * np.sin(np.arange(6)).mean())
    assert summary.loc["md", "mean"] == pytest.approx(expected)
    assert summary.loc["md", "seeds"] == 6


def test_paired_differences_remove_what_seeds_share(frame):
    row = tables.paired_differences(frame, "test_accuracy", "md").loc["fedstas"]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((2.0, 2.0, 2.0))
    assert row["p"] < 1e-6


def test_a_rolling_mean_is_drawn_of_losses_alone(frame):
    frame = frame.assign(run=frame["method"] + frame["seed"].astype(str))
    ax = plots.learning_curves(plt.figure().gca(), frame, "train_loss", names=False, rolling=4)
    (line,) = [line for line in ax.lines if line.get_gid() == "md"]
    raw = frame[frame["method"] == "md"].groupby("round")["train_loss"].mean().to_numpy()
    assert line.get_xdata().tolist() == list(range(4, 21))
    np.testing.assert_allclose(line.get_ydata(), np.convolve(raw, np.full(4, 0.25), "valid"))


def test_curves_draw_the_mean_and_a_band_from_five_seeds_on(frame):
    for seeds, bands in ((6, 2), (3, 0)):
        runs = frame[frame["seed"] < seeds]
        ax = plots.learning_curves(plt.figure().gca(), runs, "test_accuracy")
        assert len(ax.collections) == bands
        assert "%" in ax.get_ylabel() and ax.get_xlabel() == "round"
        assert {t.get_text() for t in ax.texts} == {"md", "fedstas"}
        plt.close(ax.figure)


def test_names_at_the_ends_of_curves_do_not_touch():
    ax = plt.figure().gca()
    for scale in ("linear", "log"):
        ax.set(ylim=(1, 100), yscale=scale)
        plots.name_ends(ax, {n: (1.0, 50.0 + k, "black") for k, n in enumerate("abc")}, gap=11)
        names = ax.texts[-3:]
        bottom = [ax.transData.transform(n.xy)[1] * 72 / ax.figure.dpi + n.xyann[1] for n in names]
        assert np.diff(bottom) == pytest.approx([11, 11])
    plt.close(ax.figure)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_names_at_the_ends_of_curves_stay_within_the_height_of_the_panel(end):
    ax = plt.figure().gca()
    plots.name_ends(ax, dict.fromkeys("abc", (1.0, end, "black")), gap=11)
    points = 72 / ax.figure.dpi
    heights = [ax.transData.transform(t.xy)[1] * points + t.xyann[1] for t in ax.texts]
    # 5.5 is half of the gap, the height of a line.
    assert min(heights) >= ax.bbox.y0 * points + 5.5 - 1e-9
    assert max(heights) <= ax.bbox.y1 * points - 5.5 + 1e-9
    assert np.diff(heights) == pytest.approx([11, 11])
    plt.close(ax.figure)


def test_means_of_runs_have_an_interval_from_five_runs_on_and_say_how_many_diverged():
    runs = {"one": {0: pd.Series([1.0, 2, 3, 4, 5]), 1: pd.Series([1.0, 3, np.nan])}}
    ax = plots.run_means(plt.figure().gca(), runs, {"one": plots.Style("red", "", "o")})
    *ticks, means = ax.lines
    assert [list(t.get_ydata()) for t in ticks] == [[1, 2, 3, 4, 5], [1, 3]]
    assert means.get_xydata().tolist() == [[0, 3], [1, 2]] and means.get_linestyle() == "None"
    (bars,) = ax.collections
    low, high = statistics.mean_interval([1.0, 2, 3, 4, 5])[1:]
    segments = [s.tolist() for s in bars.get_segments() if len(s) and not np.isnan(s).any()]
    assert segments == [[[0, low], [0, high]]]
    assert [t.get_text() for t in ax.texts] == ["1 of 3\ndiverged"]
    plt.close(ax.figure)


def test_every_method_has_its_own_style(monkeypatch):
    """A method that is not listed too: a registered one, or one that was added to the package."""
    names = methods.names()
    monkeypatch.setattr(methods, "names", lambda: [*names, *(f"mine-{k}" for k in range(8))])
    styles = [plots.method_style(m) for m in methods.names()]
    assert len(set(styles)) == len(styles)
    assert plots.method_style("a file of mine.py") == plots.Style(plots.BLACK)
    assert plots.method_style("md, every 10 rounds") == plots.Style(plots.PINK, "--")


def test_intervals_have_a_row_for_each_name_and_series_beside_each_other():
    table = pd.DataFrame({"mean": [1.0, np.nan], "low": [0.0, 0], "high": [3.0, 0]}, ["a", "b"])
    styles = {"full": plots.Style("red"), "hollow": plots.Style("red", hollow=True)}
    ax = plots.intervals(plt.figure().gca(), dict.fromkeys(styles, table), styles, reference=0)
    bars, dots = ax.lines[0:4:2], ax.lines[1:5:2]
    assert [list(bar.get_xdata()) for bar in bars] == [[0, 3], [0, 3]]
    # Row "a" is at 1, and its two series 0.32 apart (the default); row "b" has no mean and nothing drawn.
    assert [float(dot.get_ydata()[0]) for dot in dots] == pytest.approx([1.16, 0.84])
    assert [dot.get_markerfacecolor() for dot in dots] == ["red", "white"]
    assert list(ax.lines[4].get_xdata()) == [0, 0] and len(ax.lines) == 5
    names = dict(zip(ax.get_yticks(), [t.get_text() for t in ax.get_yticklabels()], strict=True))
    assert names == {1: "a", 0: "b"}
    plt.close(ax.figure)


def test_curves_have_an_area_or_bars_between_low_and_high():
    line = pd.DataFrame({"mean": [1.0, 2], "low": [0.0, 1], "high": [2.0, 4]}, [5, 10])
    styles = {"one": plots.Style("red", label="ours"), "two": plots.Style("blue")}
    for band in ("area", "bars"):
        lines = {"one": line, "two": pd.Series([3.0, 3.0], [5, 10])}
        ax = plots.curves(plt.figure().gca(), lines, styles, band=band, xscale="log", xlabel="x")
        (band_or_bars,) = ax.collections
        ends = np.concatenate([path.vertices for path in band_or_bars.get_paths()])
        assert {tuple(map(float, end)) for end in ends} >= {(5, 0), (5, 2), (10, 1), (10, 4)}
        assert ax.get_xscale() == "log" and ax.get_xlabel() == "x"
        assert {t.get_text(): t.xy for t in ax.texts} == {"ours": (10, 2), "two": (10, 3)}
        plt.close(ax.figure)


@pytest.fixture
def table_of_chapter_5() -> pd.DataFrame:
    """Every method of the table in both partitions: four seeds, 20 rounds, both accuracies."""
    rows = []
    for place in ("dirichlet", "dirichlet_fixed_size"):
        for position, method in enumerate(ch05.METHOD_ORDER):
            for seed in range(4):
                for t in range(1, 21):
                    value = 0.3 + 0.01 * t + 0.02 * np.sin(seed + position)
                    row = ("preprint", place, method, seed, 20, t, value, value / 2, 2 - value)
                    rows.append((*row, 1e3 * t))
    columns = ["sweep", "partition", "method", "seed", "rounds", "round"]
    values = ["test_accuracy", "client_accuracy", "train_loss", "megabytes"]
    return pd.DataFrame(rows, columns=columns + values)


def test_the_order_of_chapter_5_has_every_method_of_the_table_once():
    assert sorted(ch05.METHOD_ORDER) == sorted(experiments.TABLE_METHODS)
    versions = list(dict.fromkeys(map(plots.version, ch05.METHOD_ORDER)))
    assert versions == ["as written", "as coded", "corrected", "baselines"]


def test_a_figure_says_that_nothing_is_recorded():
    (note,) = plots.not_recorded("Not recorded yet: `fedstas sweep x`").axes[0].texts
    assert note.get_text() == "Not recorded yet:\nfedstas sweep x"
    plt.close("all")


def test_shares_of_largest_classes_are_drawn_in_increasing_order_with_those_of_the_authors():
    largest = np.array([[1.0, 0.5, 0.7], [0.9, 0.9, 0.3], [0.4, 1.0, 0.8]])
    figure = ch05.draw_largest_classes(largest, {1: 53.0, 3: 100.0})
    ours, theirs = figure.axes[0].lines
    assert list(ours.get_xdata()) == [1, 2, 3]
    assert ours.get_ydata() == pytest.approx([40, 80, 100])  # of 30 40 50, 70 80 90, 90 100 100
    assert (list(theirs.get_xdata()), list(theirs.get_ydata())) == ([1, 3], [53, 100])
    assert theirs.get_linestyle() == "None" and theirs.get_marker() == "o"
    plt.close(figure)


def test_each_run_has_a_line_beside_the_authors_curve_of_cifar10():
    wide = pd.DataFrame({0: [10.0, 20.0], 1: [12.0, 18.0]}, index=[10, 20])
    figure = ch05.draw_january(wide, {10: 9.8, 20: 12.3})
    lines = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()}
    assert list(lines) == ["ours, seed 0", "ours, seed 1", "theirs"]
    assert [line.get_linestyle() for line in lines.values()] == ["-", "--", "-"]
    assert list(lines["ours, seed 1"].get_ydata()) == [12, 18]
    assert list(lines["theirs"].get_ydata()) == [9.8, 12.3]
    plt.close(figure)


def test_a_published_curve_is_drawn_over_the_median_and_the_90_percent_range_of_our_runs(
    table_of_chapter_5,
):
    frame = table_of_chapter_5[table_of_chapter_5["partition"] == "dirichlet"]
    part = "fedsts", np.arange(6.0)
    figure, (empty, ax) = plt.subplots(2)  # names stand in the last panel
    ch05.draw_published(ax, part, frame, "test_accuracy", "")
    written, coded, printed = ax.lines
    runs = frame[(frame["method"] == "fedsts") & (frame["round"] == 20)]["test_accuracy"]
    assert written.get_ydata()[-1] == pytest.approx(100 * runs.median())
    assert (written.get_color(), coded.get_color()) == (plots.WRITTEN, plots.CODED)
    assert printed.get_color() == plots.BLACK and list(printed.get_ydata()) == [*range(6)]
    edge = ax.collections[0].get_paths()[0].vertices
    ends = edge[edge[:, 0] == 20][:, 1]
    assert (min(ends), max(ends)) == pytest.approx(tuple(100 * runs.quantile([0.05, 0.95])))
    assert {t.get_text() for t in ax.texts} == {"as written", "as coded", "the paper"}
    ch05.draw_published(empty, part, frame.iloc[:0], "test_accuracy", "Not recorded yet: `x`")
    assert empty.texts[0].get_text() == "Not recorded yet:\nx"
    plt.close(figure)


def test_printed_accuracies_stand_beside_ours_with_their_intervals(table_of_chapter_5):
    runs = table_of_chapter_5[table_of_chapter_5["partition"] == "dirichlet"]
    runs = runs[runs["method"] != "fedsts-authors-dec"]
    mean, low, high = ch05.compare_with_printed({"fedsts": 50.0, "fedstas": 51.0}, runs)
    assert list(mean.columns) == ["printed", "as written", "as coded"]
    assert mean["printed"].tolist() == [50.0, 51.0]
    assert mean.notna().to_numpy().tolist() == [[True, True, False], [True, True, True]]
    assert (low["as written"] < mean["as written"]).all() and low["printed"].isna().all()
    assert (mean["as written"] < high["as written"]).all()
    printed = {"here": {"fedsts": 50.0}, "there": {"fedsts": 9.0}}
    figure = ch05.draw_fig_3(printed, {"here": runs, "there": runs})
    second = figure.axes[1]
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["printed", "as written"]
    assert [bar.get_width() for bar in second.containers[0]] == [9.0]
    plt.close(figure)


def test_methods_stand_beside_the_baseline_with_a_mark_for_each_setting(table_of_chapter_5):
    frames = {"one": table_of_chapter_5[table_of_chapter_5["partition"] == "dirichlet"]}
    frames["two"] = frames["one"][frames["one"]["method"].isin(["md", "strat"])]
    table = tables.compare_methods(frames, ("test_accuracy", "client_accuracy"))
    figure = ch05.draw_method_intervals(table)
    (ax,) = figure.axes
    assert sum(line.get_marker() == "o" for line in ax.lines) == 16 + 1
    assert [text.get_text() for text in ax.texts] == ["MD = 0", "one", "two"]
    label = next(iter(figure.axes[0].get_yticklabels()))
    assert label.get_text() == "FedSTS, as written"
    assert label.get_color() == plots.text_colour(plots.WRITTEN)
    plt.close(figure)


def test_the_table_against_a_baseline_corrects_over_all_its_rows(table_of_chapter_5):
    frames = dict(list(table_of_chapter_5.groupby("partition")))
    table = tables.compare_methods(frames, ("test_accuracy", "client_accuracy"))
    assert len(table) == 2 * 2 * 17
    assert table["holm"].notna().sum() == 2 * 2 * 16
    assert np.allclose(table["holm"].dropna(), statistics.holm(table["p"].dropna()))
    assert table[table["method"] == "md"]["difference"].isna().all()
    without = tables.compare_methods(
        {"one": table_of_chapter_5[table_of_chapter_5["method"] == "strat"]}, ("test_accuracy",)
    )
    assert len(without) == 1 and without["holm"].isna().all()
    assert not len(
        tables.compare_methods({"none": table_of_chapter_5.iloc[:0]}, ("test_accuracy",))
    )


def test_describe_difference_states_the_difference_and_its_direction(frame):
    text, word = tables.describe_difference(frame, "fedstas", "md")
    assert (text, word) == ("+2.0 points (+2.0 to +2.0)", "above")
    _, side = tables.describe_difference(frame, "md", "fedstas")
    assert side == "below"
    assert tables.describe_difference(frame, "md", "strat") == (
        "(not recorded yet)",
        "not yet compared with",
    )
    of_one_seed = tables.describe_difference(frame[frame["seed"] == 0], "fedstas", "md")
    assert of_one_seed == ("+2.0 points (one seed)", "not told apart from")


def test_cost_to_reach_is_that_of_the_first_round_with_the_accuracy(frame):
    megabytes = tables.cost_to_reach(frame, "test_accuracy", 0.45, "megabytes")
    curve = frame[frame["method"] == "fedstas"].groupby("round")["test_accuracy"].mean()
    assert megabytes["fedstas"] == 1e6 * curve[curve >= 0.45].index[0]
    assert np.isnan(tables.cost_to_reach(frame, "test_accuracy", 0.99, "megabytes")["md"])


def test_an_unrecorded_sweep_names_its_command(tmp_path):
    grid = tables.load_sweep("privacy", tmp_path)
    assert grid.recorded == 0 and not len(grid.frame)
    assert grid.planned == len(experiments.runs("privacy", "paper"))
    assert grid.note == "Not recorded yet: `fedstas sweep privacy --profile paper --folder results`"


def record(folder, sweep, run, task, federation, diverged=None, **changes):
    """Record a run of a sweep without training it; `changes` replace entries of its identity."""
    method = methods.get(run.method, **run.overrides)
    options = {"rounds": run.rounds, "clients_per_round": run.clients_per_round, "seed": run.seed}
    options |= {"eval_every": run.eval_every, "initial_model": run.initial_model}
    identity = records.identity(task, federation, method, **options) | changes
    rounds = records.evaluated_rounds(identity)
    columns = {c: np.arange(len(rounds)).astype(t) for c, t in simulation.COLUMNS.items()}
    columns["round"] = np.array(rounds)
    history = SimpleNamespace(frame=pd.DataFrame(columns), cohorts=[])
    records.save(history, identity, sweep, folder, device="cpu", diverged=diverged)


def test_a_declared_run_and_its_record_have_one_key_where_the_last_round_is_asked_for_twice():
    """The last round is evaluated anyway, so that an identity does not list it among `eval_rounds`."""
    run = sweeps.Run("digits", "iid", 0.1, "md", 0, rounds=9, eval_every=9, eval_rounds=(8, 9))
    task = tasks.load("digits")
    federation = partition.make("iid", task.train_y, clients=run.clients, seed=run.seed)
    settings = {"rounds": 9, "clients_per_round": run.clients_per_round, "seed": run.seed}
    settings |= {"eval_every": 9, "eval_rounds": (8, 9), "initial_model": run.initial_model}
    identity = records.identity(task, federation, methods.get("md"), **settings)
    assert identity["eval_rounds"] == [8]
    assert tables.run_key(run) == tables.record_key(identity)


def test_a_partly_recorded_sweep_has_the_runs_of_the_current_version_and_names_its_variants(
    tmp_path,
):
    todo = experiments.runs("sensitivity", "paper")
    run = next(r for r in todo if r.overrides.get("strata") == 2)
    recipe = {"name": run.partition, "seed": run.seed, "clients": 100}
    federation = SimpleNamespace(
        recipe=recipe | {"concentration": run.concentration}, shards=[0] * 100
    )
    task = SimpleNamespace(name="mnist", digest="x", identity_extras={})
    record(tmp_path, "sensitivity", run, task, federation)
    record(tmp_path, "sensitivity", run, task, federation, algorithms=0)  # outdated
    record(tmp_path, "sensitivity", run, task, federation, rounds=30)  # not of the sweep
    grid = tables.load_sweep("sensitivity", tmp_path)
    assert grid.recorded == 1 and set(grid.frame["variant"]) == {tables.Variant.of(strata=2)}
    assert grid.note.startswith(f"1 of {len(todo)} runs are recorded: `fedstas sweep sensitivity")
    assert len(grid.where(method=run.method, seed=run.seed)) == len(grid.frame) == 11
    assert not len(grid.where(method="md"))
    assert grid.facts["ended"].tolist() == [""]
    record(tmp_path, "sensitivity", run, task, federation, "not finite after round 9: a hint")
    ended = tables.load_sweep("sensitivity", tmp_path).facts["ended"].tolist()
    assert ended == [f"`{run.method}`, strata 2, seed {run.seed}: not finite after round 9"]
    summary = tables.summarise_variants(grid.frame, "test_accuracy")
    assert summary[["variant", "method"]].astype(str).to_numpy().tolist() == [
        ["strata 2", run.method]
    ]


def test_every_pair_of_method_and_variant_of_the_small_sweeps_is_one_run():
    for sweep in ("sensitivity", "privacy", "ablation"):
        runs = [r for r in experiments.runs(sweep, "paper") if r.seed == 0]
        pairs = {(r.method, tables.variant_of(r)) for r in runs}
        assert len(pairs) == len(runs)
    parts = {(m, tables.Variant.of(**settings)) for m, settings in experiments.ABLATIONS.values()}
    assert parts == pairs


def test_a_map_of_strata_shows_which_draws_may_choose_a_client():
    """A design is the matrix [draws, clients] of the probabilities with which each draw chooses each client."""
    points, omega = np.array([[0.0, 0], [1, 0], [0, 2]]), np.array([0.25, 0.25, 0.5])
    halves, by_stratum = np.full((2, 3), 0.5), np.array([[1.0, 1, 0], [0, 0, 1]])
    shared = np.array([[1.0, 0.7, 0], [0, 0.3, 1]])
    designs = {"equal": halves, "whole": by_stratum, "split": shared, "b": by_stratum}
    figure = plots.strata_map(points, omega, designs)
    first, second, third = figure.axes[:3]
    assert [ax.get_title() for ax in (first, second)] == ["equal", "whole"]
    colours = [{disc.get_facecolor() for disc in ax.patches} for ax in figure.axes]
    assert list(map(len, colours)) == [1, 2, 2, 2] and not colours[0] & colours[1]
    rims = [[disc.get_linewidth() > 1 for disc in ax.patches] for ax in (first, second, third)]
    assert list(map(sum, rims)) == [0, 0, 1]  # the client that two draws may choose
    areas = sorted(disc.radius**2 for disc in second.patches)
    assert areas[2] == pytest.approx(2 * areas[0])  # area is weight
    ends = [line.get_xydata()[1].tolist() for line in second.lines]
    assert ends == [[0.5, 0.0], [0.5, 0.0], [0.0, 2.0]]  # the mean of what a draw stands for
    plt.close(figure)
