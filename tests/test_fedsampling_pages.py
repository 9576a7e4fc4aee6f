"""Chapter 7's figures and table on text: the best classifier, the users, and recorded runs beside the slides' numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from companion.pages import fedsampling as pages
from companion.runs import experiments, grid_results, sweeps, tables
from companion.runs.sweeps import Run
from fedstas import tasks


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of each test."""
    yield
    plt.close("all")


def test_the_best_classifier_has_an_accuracy_of_88_percent_and_the_commonest_topic_that_of_its_share():
    task = tasks.load("topics")
    ceiling, commonest = pages.reference_accuracies(task)
    assert abs(ceiling - 0.88) < 0.022  # three standard errors of 2,000 documents
    top = np.bincount(task.train_y).argmax()
    assert commonest == (task.test_y.numpy() == top).mean()


def test_the_bars_of_users_are_ordered_by_length_and_divided_by_the_rank_of_the_topic():
    counts = np.array([[1, 0, 2, 1], [5, 1, 1, 1], [0, 4, 0, 0]])
    (ax,) = pages.draw_users(counts).axes
    heights = np.array([[bar.get_height() for bar in part] for part in ax.containers]).T
    assert heights.tolist() == [[5, 2, 1], [2, 2, 0], [4, 0, 0]]
    tops = [(bar.get_x() + 0.5, bar.get_y() + bar.get_height()) for bar in ax.containers[-1]]
    assert tops == [(1, 8), (2, 4), (3, 4)]


def test_final_metrics_distinguishes_runs_by_the_settings_that_the_slides_change(
    tmp_path, monkeypatch
):
    shape = {"clients": 20, "rounds": 1}
    local = {"batch": 4, "steps": 1}
    setting = ("topics", "natural", 0.01)
    runs = [
        Run(*setting, "fedavg", 0, local, **shape),
        Run(*setting, "fedavg", 0, local, network="transformer", **shape),
        Run(*setting, "fedyogi", 0, local | {"weights": "plain"}, **shape),
        Run(*setting, "fedsampling", 0, local | {"size_cap": 20}, **shape),
        Run(*setting, "fedsampling", 0, local | {"epsilon": None}, **shape),
        Run("topics", "lognormal", 0.01, "md", 0, local, sigma=1.5, **shape),
    ]
    monkeypatch.setitem(experiments.SWEEPS, "trial", lambda profile: runs)
    assert sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False) == []
    runs.append(Run(*setting, "md", 0, local | {"lr": 1e30}, **shape))
    assert len(sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False)) == 1
    grid = tables.load_sweep("trial", tmp_path)
    metrics = pages.final_metrics(grid, folder=tmp_path)
    diverged = metrics[metrics["macro_f1"].isna()]  # it diverged: a row, without a value
    assert diverged["arm"].tolist() == ["md"] and diverged["partition"].tolist() == ["natural"]
    metrics = metrics.drop(diverged.index).fillna(0)
    keys = ["partition", "sigma", "network", "arm", "epsilon", "size_cap"]
    assert sorted(metrics[keys].to_numpy().tolist()) == [
        ["lognormal", 1.5, "", "md", 0, 0],
        ["natural", 0, "", "fedavg", 0, 0],
        ["natural", 0, "", "fedsampling", 0, 100],
        ["natural", 0, "", "fedsampling, private", 3, 20],
        ["natural", 0, "", "fedyogi, plain mean", 0, 0],
        ["natural", 0, "transformer", "fedavg", 0, 0],
    ]
    recorded = grid.frame.set_index("run")
    assert sorted(metrics["test_accuracy"]) == sorted(100 * recorded["test_accuracy"])
    assert sorted(metrics["macro_f1"]) == sorted(100 * recorded["macro_f1"])
    assert len(pages.final_metrics(tables.load_sweep("trial", tmp_path / "nothing"))) == 0


def make_metrics(rows) -> pd.DataFrame:
    """Return final metrics of runs, with the columns of `pages.final_metrics`."""
    columns = grid_results.COLUMNS
    usual = {"sigma": np.nan, "network": "", "epsilon": np.nan, "size_cap": np.nan}
    return pd.DataFrame([usual | row for row in rows], columns=columns)


def test_the_table_has_our_values_beside_the_slides_printed_ones():
    setting = {"task": "topics", "partition": "natural"}
    rows = [
        setting | {"arm": "fedavg", "seed": k, "test_accuracy": a, "macro_f1": a - 10}
        for k, a in enumerate((60.0, 62.0, 64.0))
    ]
    rows.append(rows[0] | {"network": "transformer", "test_accuracy": 71.0, "macro_f1": 70.0})
    table = pages.slides_table(make_metrics(rows))
    assert len(table) == 2 * 10 and len(table.columns) == 7
    half_width = 4.302652729911275 * 2 / 3**0.5  # t with two degrees of freedom
    cnn, transformer = table[table["method"] == "fedavg"].to_numpy().tolist()
    interval = f"\u00a0±\u00a0{half_width:.1f}"
    printed = ["48.11 ± 0.66", "69.23 ± 0.73"]
    assert cnn == ["text-cnn", "fedavg", f"52.0{interval}", f"62.0{interval}", 3, *printed]
    printed = ["50.46 ± 0.99", "70.74 ± 0.52"]
    assert transformer == ["transformer", "fedavg", "70.0", "71.0", 1, *printed]
    mind = "MIND, printed: macro F1"  # FedOpt's printed numbers stand beside its plain mean
    assert table.set_index(["network", "method"])[mind]["text-cnn"][
        ["fedyogi", "fedyogi, plain mean"]
    ].tolist() == ["–", "49.12 ± 0.71"]
    assert table.iloc[8].tolist()[1:5] == ["fedsampling, private", "–", "–", 0]
    assert table.iloc[8, 5] == "51.33 ± 0.62" and table.iloc[9, 5] == "–"


def test_real_text_is_tabulated_by_network_beside_what_the_slides_print_of_it():
    values = {
        ("reuters-titles", ""): 50.0,
        ("newsgroups", ""): 40.0,
        ("newsgroups-words", ""): 30.0,
    }
    values |= {("reuters-titles", "transformer"): 20.0, ("newsgroups-words", "transformer"): 10.0}
    runs = make_metrics(
        {"task": task, "network": network, "partition": "natural", "arm": "fedavg", "seed": 0}
        | {"macro_f1": value, "test_accuracy": value + 1}
        for (task, network), value in values.items()
    )
    rows = {
        network: pages.real_text_table(runs, network).set_index("method").loc["fedavg"].tolist()
        for network in pages.NETWORKS
    }
    mind, toys, beauty = (
        "48.11 ± 0.66 / 69.23 ± 0.73",
        "35.32 ± 0.78 / 61.63 ± 0.33",
        "38.44 ± 1.43",
    )
    assert rows["text-cnn"][:3] == [mind, "50.0 / 51.0", toys]
    assert rows["text-cnn"][3].startswith(beauty)
    assert rows["text-cnn"][4:] == ["30.0 / 31.0", "40.0 / 41.0"]  # the last: the linear network
    assert rows["transformer"][0].startswith("50.46") and rows["transformer"][2].startswith("38.68")
    assert (rows["transformer"][1], *rows["transformer"][4:]) == ("20.0 / 21.0", "10.0 / 11.0")


def test_a_cell_says_how_many_seeds_it_rests_on_where_runs_diverged():
    setting = {"task": "reuters-titles", "partition": "lognormal"}
    levels = {"fedavg": (50.0, 50.0, 50.0), pages.PRIVATE: (50.0, np.nan, 50.0)}
    runs = make_metrics(
        setting | {"arm": arm, "seed": seed, "macro_f1": level, "test_accuracy": level + 1}
        for arm, of_seeds in levels.items()
        for seed, level in enumerate(of_seeds)
    )
    titles = pages.real_text_table(runs, "text-cnn").set_index("method")["titles"]
    half = "\u00a0±\u00a00.0"
    assert titles["fedavg"] == f"50.0{half} / 51.0{half}"
    assert titles[pages.PRIVATE] == f"50.0{half} / 51.0{half} (2 of 3 seeds)"


def runs_on_words(levels: dict[str, float]) -> pd.DataFrame:
    """Return five runs of each arm at these macro F1, of which private FedSampling's scatter; a level that is missing is
    that of the first seed alone."""
    rows = [
        {"task": "newsgroups-words", "partition": "natural", "arm": arm, "seed": seed}
        | {"macro_f1": level + (seed - 2) * (arm == pages.PRIVATE), "test_accuracy": level}
        for arm, level in levels.items()
        for seed in range(5)
    ]
    lost = [row["arm"] for row in rows if np.isnan(row["macro_f1"])]
    rows = [r | {"macro_f1": 5.0} if r["arm"] in lost and r["seed"] else r for r in rows]
    return make_metrics(rows)


def test_the_summary_compares_the_best_rival_and_counts_the_runs_that_diverged():
    levels = {"fedavg": 50.0, "fedadagrad, plain mean": 60.0, "fedsampling": 48.0}
    levels |= {pages.PRIVATE: 55.0, "centralised": 90.0, "fedadagrad": 80.0}
    runs = [
        {"task": "reuters-titles", "partition": "lognormal", "arm": arm, "seed": seed}
        | {"macro_f1": level + seed, "test_accuracy": 0.0}
        for arm, level in levels.items()
        for seed in range(3)
    ]
    runs[11]["macro_f1"] = np.nan
    assert runs[11]["arm"] == pages.PRIVATE
    table = pages.summary_table(make_metrics(runs[:9]), make_metrics(runs[9:]))
    (row,) = table.to_numpy().tolist()
    assert row[:3] == ["titles, Text-CNN", "−2.0 (−2.0 to −2.0)", "+5.0 (+5.0 to +5.0)"]
    assert row[3:] == ["FedAdagrad: −5.0 (−5.0 to −5.0)", "1 of 3"]


def test_runs_that_diverged_are_counted_by_what_was_changed():
    settings = [
        ("natural", np.nan, 3.0, 100, 60.0),
        ("natural", np.nan, 0.5, 100, np.nan),
        ("natural", np.nan, 3.0, 500, np.nan),
        ("natural", np.nan, 3.0, 500, 60.0),
        ("lognormal", 0.0, 3.0, 100, 60.0),
        ("lognormal", 3.0, 3.0, 100, np.nan),
    ]
    keys = ["partition", "sigma", "epsilon", "size_cap", "test_accuracy"]
    rows = [
        {"task": "topics", "arm": pages.PRIVATE, "seed": 0, "macro_f1": 0.0}
        | dict(zip(keys, setting, strict=True))
        for setting in settings
    ]
    counts = pages.count_diverged(make_metrics(rows))
    assert counts == {
        "lost": 3,
        "lost_private": 3,
        "of": 6,
        "noisy": 1,
        "of_noisy": 1,
        "by_spread": {3.0: 1},
        "of_spread": 1,
        "capped": 1,
        "of_capped": 2,
    }


SERVERS = ("fedadagrad, plain mean", "fedadam, plain mean", "fedyogi, plain mean")
BY_TEXT_CNN = {pages.PRIVATE: 10.0, "fedavg": 10.0, "centralised": 40.0} | dict.fromkeys(
    SERVERS, 20
)
BY_TRANSFORMER = {pages.PRIVATE: 10.0, "fedavg": 5.0, "centralised": 40.0} | dict(
    zip(SERVERS, (16.0, 10.0, 10.0), strict=True)
)


@pytest.mark.parametrize(
    ("arm", "by_text_cnn", "by_transformer", "false"),
    [
        ("fedavg", 10.0, 5.0, []),
        ("fedavg", 5.0, 9.5, ["cnn fedavg", "fedavg"]),
        ("fedadagrad, plain mean", 11.0, 11.0, ["cnn servers", "adagrad"]),
        ("fedyogi, plain mean", 11.0, 19.0, ["cnn servers", "moments"]),
        ("fedadam, plain mean", 10.0, 10.0, ["cnn servers", "cnn ahead"]),
        ("centralised", 9.0, 40.0, ["cnn centralised"]),
        ("centralised", 40.0, 9.0, ["centralised"]),
        ("fedavg", 10.0, np.nan, ["finished"]),
    ],
)
def test_the_sentences_on_the_words_of_posts_are_held_by_the_runs(
    arm, by_text_cnn, by_transformer, false
):
    both = BY_TEXT_CNN | {arm: by_text_cnn}, BY_TRANSFORMER | {arm: by_transformer}
    holds = pages.words_findings(*map(runs_on_words, both))
    assert [name for name, is_true in holds.items() if not is_true] == false


@pytest.mark.parametrize(
    ("sigma", "arm", "level", "false"),
    [
        (0.0, "fedavg", 80.0, []),
        (3.0, "fedavg", 77.0, ["baselines", "behind"]),
        (0.0, "md", 85.0, ["baselines"]),
        (3.0, "fedsampling", 76.0, ["fedsampling", "behind"]),
        (0.0, "fedsampling", 80.0, ["fedsampling", "behind"]),
        (1.5, "md", 77.0, ["behind md", "draws"]),
    ],
)
def test_the_sentences_on_titles_are_held_by_the_runs(sigma, arm, level, false):
    levels = {
        (0.0, "fedavg"): 80.0,
        (0.0, "md"): 80.5,
        (0.0, "fedsampling"): 76.0,
        (1.5, "fedavg"): 80.0,
        (1.5, "fedavg-unbiased"): 80.0,
        (1.5, "md"): 80.0,
        (1.5, "fedsampling"): 78.0,
        (1.5, pages.PRIVATE): 80.0,
        (3.0, "fedavg"): 80.0,
        (3.0, "md"): 82.0,
        (3.0, "fedsampling"): 80.0,
    }
    signs = {(1.5, pages.PRIVATE): -1, (3.0, "fedavg"): -1}  # so that differences scatter
    rows = [
        {"task": "reuters-titles", "partition": "lognormal", "sigma": s, "arm": name, "seed": seed}
        | {"test_accuracy": value + 0.2 * (seed - 2) * signs.get((s, name), 1), "macro_f1": 0}
        for (s, name), value in (levels | {(sigma, arm): level}).items()
        for seed in range(5)
    ]
    _, holds = pages.titles_findings(make_metrics(rows))
    assert [name for name, is_true in holds.items() if not is_true] == false


ABLATED = {  # accuracies (%), by task, partition, sigma and arm
    ("topics", "natural", np.nan, "fedavg"): 65.0,
    ("topics", "natural", np.nan, "fedavg-unbiased"): 65.0,
    ("topics", "natural", np.nan, "md"): 65.0,
    ("topics", "natural", np.nan, pages.PRIVATE): 65.0,
    ("topics", "lognormal", 0.0, "fedavg"): 68.0,
    ("topics", "lognormal", 0.0, pages.PRIVATE): 66.0,
    ("topics", "lognormal", 1.5, "fedavg"): 67.0,
    ("topics", "lognormal", 1.5, pages.PRIVATE): 62.0,
    ("topics", "lognormal", 3.0, "fedavg"): 65.0,
    ("topics", "lognormal", 3.0, pages.PRIVATE): np.nan,
    ("topics", "by_class", np.nan, "fedavg"): 60.0,
    ("topics", "by_class", np.nan, "md"): 60.0,
    ("topics", "by_class", np.nan, "fedsampling"): 60.0,
    ("mnist", "lognormal", 1.5, "fedavg"): 73.0,
    ("mnist", "lognormal", 1.5, "md"): 73.0,
    ("mnist", "lognormal", 1.5, "fedsampling"): 73.0,
    ("mnist", "lognormal", 1.5, pages.PRIVATE): 88.0,
    ("mnist", "lognormal", 0.0, "fedavg"): 73.0,
    ("mnist", "lognormal", 0.0, "md"): 73.0,
    ("mnist", "lognormal", 3.0, "fedavg"): 73.0,
    ("mnist", "lognormal", 3.0, "md"): 73.0,
    ("mnist", "by_class", np.nan, "fedavg"): 71.0,
    ("mnist", "by_class", np.nan, "fedsampling"): 78.0,
    ("mnist", "by_class", np.nan, pages.PRIVATE): 86.0,
}


@pytest.mark.parametrize(
    ("setting", "level", "false"),
    [
        (("mnist", "lognormal", 1.5, pages.PRIVATE), 88.0, []),
        (("topics", "natural", np.nan, "md"), 70.0, ["topics draws"]),
        (("topics", "lognormal", 0.0, pages.PRIVATE), 68.0, ["topics behind"]),
        (("topics", "lognormal", 1.5, pages.PRIVATE), 67.0, ["topics behind"]),
        (("topics", "lognormal", 3.0, "fedavg"), 68.0, ["topics spread"]),
        (("topics", "lognormal", 3.0, pages.PRIVATE), 60.0, ["topics spread"]),
        (("topics", "by_class", np.nan, "md"), 50.0, ["topics class"]),
        (("mnist", "lognormal", 1.5, pages.PRIVATE), 74.0, ["mnist draws"]),
        (("mnist", "lognormal", 1.5, "fedsampling"), 78.0, ["mnist true"]),
        (("mnist", "lognormal", 3.0, "md"), 70.0, ["mnist spread"]),
        (("mnist", "by_class", np.nan, "fedsampling"), 71.0, ["mnist class"]),
    ],
)
def test_the_sentences_on_the_ablations_are_held_by_the_runs(setting, level, false):
    rows = [
        {"task": task, "partition": partition, "sigma": sigma, "arm": arm, "seed": seed}
        | {"test_accuracy": value + 0.05 * (k + 1) * (seed - 2), "macro_f1": 0}
        | (pages.HIDDEN[task] if arm == pages.PRIVATE else {})
        for k, ((task, partition, sigma, arm), value) in enumerate(
            (ABLATED | {setting: level}).items()
        )
        for seed in range(5)
    ]
    numbers, holds = pages.ablation_findings(*[make_metrics(rows)] * 2)
    assert [name for name, is_true in holds.items() if not is_true] == false
    lost = 0 if setting == ("topics", "lognormal", 3.0, pages.PRIVATE) else 5
    assert (numbers["topics_lost"], numbers["topics_of"]) == (lost, 5)


@pytest.mark.parametrize(
    ("private", "examples", "tenth", "false"),
    [
        (80.0, 3500, 70.0, []),
        (72.0, 3500, 70.0, ["above"]),
        (69.0, 3500, 70.0, ["above", "everyone"]),
        (80.0, 9000, 70.0, ["examples"]),
        (80.0, 3500, 79.0, ["tenth", "everyone"]),
        (86.0, 3500, 78.0, ["tenth"]),
    ],
)
def test_the_sentences_on_the_network_for_images_are_held_by_the_runs(
    private, examples, tenth, false, monkeypatch
):
    levels = {"fedavg": 70.0, "md": 70.0, pages.PRIVATE: private, pages.TENTH: tenth}
    rows = [
        {"arm": arm, "seed": seed, "test_accuracy": level + (seed - 2) * (0.3 + k)}
        for k, (arm, level) in enumerate(levels.items())
        for seed in range(5)
    ]
    monkeypatch.setattr(pages, "final_metrics", lambda sweep: pd.DataFrame(rows))
    costs = [("fedavg", 10, 4000), ("md", 9, 4000)]
    costs += [("fedsampling", 100, examples), ("fedsampling", 10, 3600)]
    frame = pd.DataFrame(
        {"run": f"{m}-{k}-{s}", "method": m, "rounds": 40, "round": 40}
        | {"participants": k, "bytes_up": k, "examples": n}
        for m, k, n in costs
        for s in range(5)
    )
    numbers, holds = pages.images_findings(tables.RecordedSweep("images", frame, 20))
    assert [name for name, is_true in holds.items() if not is_true] == false
    assert numbers["images_bytes"] == pytest.approx(10)
    tenth_of_clients = (frame["method"] == "fedsampling") & (frame["participants"] == 10)
    frame.loc[tenth_of_clients, "bytes_up"] *= 2
    _, holds = pages.images_findings(tables.RecordedSweep("images", frame, 20))
    assert not holds["bytes"]
    assert numbers["images_private"] == pytest.approx(private)


def dot_positions(ax) -> list[tuple[float, float]]:
    """Return the positions of the dots, which are means."""
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    return [(float(x), float(y)) for line in lines for x, y in line.get_xydata()]


@pytest.mark.parametrize("task", ["topics", "mnist"])
def test_each_panel_shows_the_runs_of_its_setting_or_the_command_that_records_them(task):
    usual_partition, sigma = pages.DEFAULT_PARTITIONS[task]
    usual = {"task": task, "partition": usual_partition, "sigma": sigma}
    epsilon, cap = pages.HIDDEN[task].values()
    private = {"arm": pages.PRIVATE, "epsilon": epsilon, "size_cap": cap}
    values = iter(range(10, 100, 2))

    def two_seeds(**row):
        """Return two runs of a setting; the mean of their accuracies is the next odd number from 11 on."""
        accuracy = next(values)
        return [
            usual | row | {"seed": k, "test_accuracy": accuracy + 2 * k, "macro_f1": 0}
            for k in (0, 1)
        ]

    rows = two_seeds(arm="fedavg") + two_seeds(**private) + two_seeds(**private | {"epsilon": 0.5})
    rows += two_seeds(arm="md", partition="lognormal", sigma=3.0)
    by_method, by_sigma, by_class, by_privacy = pages.draw_ablations(
        make_metrics(rows), task, "Not: `record me`"
    ).axes[:4]
    assert dot_positions(by_method) == [(0, 11), (1, 13)]
    assert [t.get_text() for t in by_method.get_xticklabels()] == [
        "fedavg",
        "fedsampling,\nprivate",
    ]
    # x is the place of sigma among the spreads, and 0.1 apart for each arm around it.
    expected = [(3.95, 17)] if task == "topics" else [(1.85, 11), (3.95, 17), (2.05, 13)]
    assert dot_positions(by_sigma) == [pytest.approx(p) for p in expected]
    assert [t.get_text() for t in by_class.texts] == ["Not:\nrecord me"]
    assert dot_positions(by_privacy) == [
        (0, 15),
        (2, 13),
        (5, 13),
    ]  # epsilon 0.5; 3 is the third, its M the sixth
    labels = [t.get_text() for t in by_privacy.get_xticklabels()]
    assert labels[:4] == ["ε\n0.5", "ε\n1", "ε\n3", "ε\n10"] and f"M\n{cap}" in labels[4:]
    (empty_panel,) = pages.draw_ablations(make_metrics([]), task, "Not: `record me`").axes
    assert [t.get_text() for t in empty_panel.texts] == ["Not:\nrecord me"]


def test_sentences_on_the_slides_table_follow_the_paired_differences_over_seeds():
    """Fedadagrad is 3 points above private FedSampling with the Transformer and 5 with the Text-CNN; two seeds."""
    f1 = dict.fromkeys(pages.ARMS, 40.0) | {"fedadagrad": 48.0, f"fedadagrad{pages.PLAIN}": 48.0}
    f1 |= {pages.PRIVATE: 45.0, "fedavg": 44.0, "fedsampling": 44.0}
    spread = {"fedadagrad": 0.1, "fedsampling": 0.2}
    rows = [
        (network, arm, seed, value + sign * spread.get(arm, 0.0))
        for network in ("", "transformer")
        for arm, value in f1.items()
        for seed, sign in enumerate((-1, 1))
    ]
    runs = pd.DataFrame(rows, columns=["network", "arm", "seed", "macro_f1"])
    runs.loc[(runs["network"] == "") & (runs["arm"] == pages.PRIVATE), "macro_f1"] -= 2.0
    intervals, holds = pages.table_findings(runs)
    half = 12.706 * 0.1  # sd of the two differences is 0.1 sqrt(2), over sqrt(2) seeds
    assert intervals["adagrad_transformer"] == f"3.0 ({3 - half:.1f} to {3 + half:.1f})"
    assert intervals["adagrad_text_cnn"] == f"5.0 ({5 - half:.1f} to {5 + half:.1f})"
    assert intervals["over_fedavg"] == "1.0 (1.0 to 1.0)"  # no spread of either
    assert holds == dict.fromkeys(("best", "plain", "central", "fedavg", "true"), True)
    plain = runs["arm"] == f"fedadagrad{pages.PLAIN}"
    lower = runs.assign(macro_f1=runs["macro_f1"].mask(plain & (runs["network"] == ""), 43.0))
    assert not pages.table_findings(lower)[1]["plain"]
    first = (runs["arm"] == "fedadagrad") & (runs["network"] == "transformer")
    runs.loc[first, "macro_f1"] -= 2.0
    assert not pages.table_findings(runs)[1]["best"]
    runs.loc[runs["arm"] == "centralised", "macro_f1"] = 48.0
    assert not pages.table_findings(runs)[1]["central"]
    runs.loc[runs["arm"] == "fedsampling", "macro_f1"] = 46.0
    assert not pages.table_findings(runs)[1]["true"]
    runs.loc[runs["arm"] == pages.PRIVATE, "macro_f1"] = 43.0
    assert not pages.table_findings(runs)[1]["fedavg"]
