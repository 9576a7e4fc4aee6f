"""Chapter 10's figures and tables on what clients are asked, on errors that are made up."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from companion.pages import asking
from companion.runs import averaging, averaging_results, feature_errors
from fedstas.errors import InputError

SUMMARY = feature_errors.summarise(feature_errors.load())


def replace_error(setting, features, error):
    """Return the recorded summary with another mean error of some features in one setting."""
    changed = SUMMARY.copy()
    rows = (changed["setting"] == setting) & (changed["features"] == features)
    assert rows.sum() == 3  # one for each number of participants
    changed.loc[rows, "mean"] = error
    return changed


def test_every_sentence_on_asking_holds_of_what_is_recorded():
    assert all(asking.check_asking(SUMMARY).values())


@pytest.mark.parametrize(
    ("sentence", "setting", "features", "error"),
    [
        ("sketch", "mnist", "64 signed sums", 0.2),
        ("sketch in per cent", "mnist-equal", "64 signed sums", 0.2),
        ("updates", "cifar100-coarse", "last updates", 0.01),
        ("labels", "fashion-mnist", "label counts", 0.1),
        ("updates", "mnist", "last updates", 0.08),
        ("examples", "mnist-1000", "label counts, epsilon 0.1", 0.5),
        ("client", "mnist-equal", "64 signed sums, epsilon 10", 0.2),
        ("oracle", "mnist-0.1", feature_errors.ORACLE, 0.6),
    ],
)
def test_a_sentence_on_asking_fails_where_its_error_is_another(sentence, setting, features, error):
    """`asking.check_asking` has a key for each sentence; each error here is outside the bounds that the sentence states."""
    assert not asking.check_asking(replace_error(setting, features, error))[sentence]


def test_each_setting_has_a_curve_from_the_answer_of_no_byte_to_the_largest():
    ax = asking.draw_error_by_bytes(SUMMARY).axes[0]
    curves = {line.get_gid(): line for line in ax.get_lines()}
    assert set(curves) == {setting.title for setting in feature_errors.SETTINGS.values()}
    for curve in curves.values():
        x = curve.get_xdata()
        assert len(x) == len(asking.DRAWN)
        assert min(x) == asking.NOTHING and max(x) < ax.get_xlim()[1]
    errors = SUMMARY[(SUMMARY["m"] == 10) & (SUMMARY["setting"] == "mnist")].set_index("features")
    mnist = curves[feature_errors.SETTINGS["mnist"].title]
    expected = errors.loc[list(asking.DRAWN)].sort_values("bytes_up")["mean"]
    np.testing.assert_allclose(mnist.get_ydata(), expected)


def test_the_table_has_each_kind_of_features_and_the_bytes_of_ten_classes():
    table = asking.tabulate_errors(SUMMARY).set_index("strata from")
    assert list(table.index) == [*feature_errors.FEATURES, feature_errors.ORACLE]
    assert table.loc["64 signed sums", "bytes"] == "256"  # 64 numbers of four bytes
    assert table.loc["label counts", "bytes"] == "40"  # ten counts
    assert table.loc[feature_errors.ORACLE, "bytes"] == "–"


def test_an_arms_differences_from_md_are_drawn_with_a_panel_for_each_budget():
    rows = [
        (setting, model, budget, arm, place, place - 1, place + 1)
        for setting in averaging.SETTINGS
        for model in averaging.MODELS
        for budget in averaging.WINDOWS
        for place, arm in enumerate(averaging.ARMS)
        if arm != averaging.REFERENCE
    ]
    names = ["setting", "model", "budget", "arm", "mean", "low", "high"]
    figure = asking.draw_differences(pd.DataFrame(rows, columns=names))
    titles = [f"before round {budget}" for budget in averaging.WINDOWS]
    assert [ax.get_title(loc="left") for ax in figure.axes] == titles


def _accuracies(sketch_late=-0.4, noise=0.05):
    """Return made-up accuracies as `averaging_results.accuracies` has them: averaging gives MD 2 points, and the others
    lie above it by 1 early, by `sketch_late` late and by 2 on Fashion-MNIST late, there for the sketch with a large noise.

    Columns: setting, arm, model (raw or average), budget in rounds, seed, accuracy in percent.
    """
    rng, rows = np.random.default_rng(0), []
    for setting, arm, model, budget, seed in product(
        averaging.SETTINGS, averaging.ARMS, averaging.MODELS, averaging.WINDOWS, range(5)
    ):
        value = 80 + seed + noise * rng.standard_normal()
        is_late = budget == averaging.ROUNDS
        if arm == averaging.REFERENCE:
            value += 2 if model == "average" else 0
        elif is_late and setting == "fashion-mnist":
            value += 4 + (3 * rng.standard_normal() if arm == asking.SKETCH_ARM else 0)
            value += 1 if model == "raw" else 0
        elif is_late:
            value += 2 + (sketch_late if model == "average" else sketch_late / 2 + 0.3)
        else:
            value += 3 if model == "average" else 3.1
        rows.append((setting, arm, model, budget, seed, value))
    names = ["setting", "arm", "model", "budget", "seed", "accuracy"]
    return pd.DataFrame(rows, columns=names)


def test_each_sentence_on_averaged_models_depends_on_its_differences():
    """Recorded accuracies fulfil all of them; where the late loss becomes a gain, those that speak of it fail."""
    assert all(asking.check_averaging(averaging_results.accuracies()).values())
    other = asking.check_averaging(_accuracies(sketch_late=1.0))
    assert not other["late"] and not other["nobody"] and not other["half a point"]
    assert not other["alike"]  # here averaging gives MD as much in all settings, up to noise
    assert other["always"] and other["early"]


def test_accuracies_are_tabulated_by_setting_and_arm_and_what_is_not_recorded_is_a_dash():
    rows = [("mnist", averaging.REFERENCE, "raw", 75, seed, 80.0 + seed) for seed in range(5)]
    names = ["setting", "arm", "model", "budget", "seed", "accuracy"]
    table = asking.tabulate_accuracies(pd.DataFrame(rows, columns=names))
    first = table.iloc[0]
    assert first["design"] == averaging.REFERENCE and first["raw, round 75"].startswith("82.0")
    assert (table.drop(columns=["setting", "design"]).iloc[1:] == "–").all().all()


def test_the_table_of_features_is_recorded_partition_by_partition_and_goes_on_where_it_stopped(
    tmp_path, monkeypatch
):
    digits = feature_errors.Setting("digits", "digits", "dirichlet", 0.1, 0.1, clients=25)
    monkeypatch.setattr(feature_errors, "SETTINGS", {"digits": digits})
    with pytest.raises(InputError, match="holds no table: `fedstas one-round --table features"):
        feature_errors.load(tmp_path)
    feature_errors.record(seeds=[0], folder=tmp_path)
    first = feature_errors.load(tmp_path)
    (path,) = feature_errors.record(["digits"], seeds=[0, 1], folder=tmp_path)
    two_partitions = feature_errors.load(tmp_path)
    pd.testing.assert_frame_equal(two_partitions[two_partitions["seed"] == 0], first)
    assert set(two_partitions["seed"]) == {0, 1} and len(two_partitions) == 2 * len(first)
    before = path.stat().st_mtime_ns
    feature_errors.record(["digits"], seeds=[0, 1], folder=tmp_path)
    assert path.stat().st_mtime_ns == before  # nothing was missing
    ten = first[first["m"] == 10].set_index("features")
    assert ten.loc["64 signed sums", ["bytes_up", "bytes_down"]].tolist() == [256, 8]
    assert (ten["error"] > 0).all()
    with pytest.raises(InputError, match="setting"):
        feature_errors.record(["mnist"], folder=tmp_path)


def test_features_that_updates_renew_are_recorded_after_more_and_more_rounds(tmp_path, monkeypatch):
    digits = feature_errors.Setting("digits", "digits", "dirichlet", 0.1, 0.1, clients=25)
    monkeypatch.setattr(feature_errors, "RENEWAL_SETTINGS", {"digits": digits})
    monkeypatch.setattr(feature_errors, "RENEWAL_ROUNDS", (0, 2))
    with pytest.raises(InputError, match="holds no table: `fedstas one-round --table renewal"):
        feature_errors.load_renewal(tmp_path)
    feature_errors.record_renewal(seeds=[0], folder=tmp_path)
    table = feature_errors.load_renewal(tmp_path)
    labels = [*feature_errors.RENEWAL_FEATURES, feature_errors.ORACLE]
    assert table["features"].tolist() == labels * 2
    assert table["round"].tolist() == [0] * 5 + [2] * 5 and set(table["m"]) == {10}
    assert (table["error"] > 0).all()
    answered = table.groupby("round")["answered"]
    assert (
        answered.max()[0] == 0 and answered.min()[2] > 0 and answered.max()[2] <= 20
    )  # of two rounds with ten participants
    errors = table.pivot(index=["seed", "round"], columns="features", values="error")
    before, after = errors.xs(0, level="round"), errors.xs(2, level="round")
    renewed = "64 signed sums, then updates"
    assert (before["64 signed sums"] == before[renewed]).all()  # nobody has answered
    assert (after["last updates"] != before["last updates"]).all()
    summary = feature_errors.summarise_renewal(table).set_index(["setting", "features", "round"])
    assert len(summary) == 2 * len(labels)
    mean = summary.loc[("digits", renewed, 2), "mean"]
    assert mean == pytest.approx(after[renewed].mean())
