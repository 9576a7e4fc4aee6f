"""Figures and the small statistics under them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedstas import methods
from fedstas.study import plots


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two methods, six seeds, 20 rounds; b is 2 points above a in every seed."""
    rows = []
    for seed in range(6):
        for t in range(1, 21):
            for method, more in (("md", 0.0), ("fedstas", 0.02)):
                value = 0.3 + 0.01 * t + 0.03 * np.sin(seed) + more
                rows.append((method, seed, 20, t, value, value / 2, 1e6 * t))
    columns = ["method", "seed", "rounds", "round", "test_accuracy", "train_loss", "megabytes"]
    return pd.DataFrame(rows, columns=columns)


def test_interval_is_the_t_interval():
    values = np.array([3.0, 5.0, 4.0, 8.0])
    low, high = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(values))
    assert plots.interval(values) == pytest.approx((5.0, low, high))
    assert np.isnan(plots.interval([2.0])[1])


def test_interval_covers_95_percent():
    # 4,000 normal samples of 10: the count outside is binomial; false alarm below 1e-6 at 5 sd.
    samples = np.random.default_rng(0).normal(size=(4000, 10))
    outside = sum(not low <= 0 <= high for _, low, high in map(plots.interval, samples))
    assert abs(outside - 200) < 5 * np.sqrt(4000 * 0.05 * 0.95)


def test_summary_takes_the_last_ten_rounds_in_percent(frame):
    summary = plots.summary(frame, "test_accuracy")
    expected = 100 * (0.3 + 0.01 * np.arange(11, 21).mean() + 0.03 * np.sin(np.arange(6)).mean())
    assert summary.loc["md", "mean"] == pytest.approx(expected)
    assert summary.loc["md", "seeds"] == 6


def test_paired_differences_remove_what_seeds_share(frame):
    row = plots.paired(frame, "test_accuracy", "md").loc["fedstas"]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((2.0, 2.0, 2.0))
    assert row["p"] < 1e-6


def test_curves_draw_the_mean_and_a_band_from_five_seeds_on(frame):
    for seeds, bands in ((6, 2), (3, 0)):
        ax = plots.curves(frame[frame["seed"] < seeds], "test_accuracy", ax=plt.figure().gca())
        assert len(ax.collections) == bands
        assert "%" in ax.get_ylabel() and ax.get_xlabel() == "round"
        assert {t.get_text() for t in ax.texts} == {"md", "fedstas"}
        plt.close(ax.figure)


def test_labels_at_the_ends_do_not_touch():
    ax = plt.figure().gca()
    ax.set_ylim(0, 100)
    plots.label_ends(ax, dict.fromkeys("abc", (1.0, 50.0, "black")))
    heights = sorted(t.get_position()[1] for t in ax.texts)
    assert min(np.diff(heights)) >= 4
    plt.close(ax.figure)


def test_every_method_has_its_own_look():
    assert set(methods.names()) <= set(plots.METHODS)
    looks = [plots.METHODS[m] for m in methods.names()]
    assert len(set(looks)) == len(looks)
