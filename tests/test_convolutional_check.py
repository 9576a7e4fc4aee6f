"""The check with a convolutional network on CIFAR-10: its rounds, pairs and intervals, and its place in the records."""

import numpy as np
import pandas as pd
import pytest

from companion.pages import convolutional_check as check
from companion.runs import clustered_grid, tables
from fedstas.errors import InputError

T_OF_TWO = 4.302653  # the 97.5 % quantile of Student's t with two degrees of freedom


def make_rows(
    method, seed, accuracy, rounds=(80, *check.ROUNDS), concentration=check.CONCENTRATION, **changed
):
    """Return the evaluations of a run whose averaged model has one accuracy in the rounds that count, and 0 before.

    `changed` are settings that differ from those of the check.
    """
    variant = tables.variant_of(clustered_grid.CIFAR10_SHORT.run(changed, method, seed))
    return [
        {
            "method": method,
            "seed": seed,
            "round": r,
            "concentration": concentration,
            "variant": variant,
            "test_accuracy_average": accuracy if r in check.ROUNDS else 0.0,
            "test_accuracy": accuracy / 2,
            "train_loss": 2 - accuracy,
            "megabytes": r * (1.1 if method == "fedstas-least-variance" else 1.0),
        }
        for r in rounds
    ]


@pytest.fixture
def compared(monkeypatch):
    """Return the comparison of three runs of MD with three of least variance; similarity has one more seed than MD."""
    rows = [row for seed in range(3) for row in make_rows("md", seed, 0.3)]
    for seed, accuracy in enumerate((0.31, 0.32, 0.33)):
        rows += make_rows("fedstas-least-variance", seed, accuracy)
    for seed, accuracy in enumerate((0.3, 0.3, 0.4, 0.9)):
        rows += make_rows("clustered-similarity", seed, accuracy)
    # The sweep changes one setting at a time; none of these runs counts.
    for other in ({"concentration": 10.0}, {"clients_per_round": 20}, {"steps": 2}, {"prox": 0.1}):
        rows += make_rows("md", 0, 0.99, **other)
    rows += make_rows("md", 1, 0.99, rounds=(90,))  # evaluated, but no round of the outcome
    sweep = tables.RecordedSweep(check.SWEEP, pd.DataFrame(rows), 20)
    monkeypatch.setattr(tables, "load_sweep", lambda *_: sweep)
    return check.compare().set_index(["outcome", "design"])


def test_designs_are_compared_with_md_by_pairs(compared):
    row = compared.loc[("averaged model", "fedstas-least-variance")]
    assert (row["seeds"], row["mean"], row["difference"]) == (
        3,
        pytest.approx(32),
        pytest.approx(2),
    )
    half = T_OF_TWO / np.sqrt(3)  # the differences 1, 2 and 3 have standard deviation 1
    assert (row["low"], row["high"]) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert compared.loc[("last model", "fedstas-least-variance"), "difference"] == pytest.approx(1)
    loss = compared.loc[("training loss", "fedstas-least-variance"), "difference"]
    assert loss == pytest.approx(-0.02)
    assert row["megabytes"] == pytest.approx(1.1)


def test_two_runs_of_a_seed_are_an_error(monkeypatch):
    rows = make_rows("md", 0, 0.3) * 2
    sweep = tables.RecordedSweep(check.SWEEP, pd.DataFrame(rows), 2)
    monkeypatch.setattr(tables, "load_sweep", lambda *_: sweep)
    with pytest.raises(InputError, match="several runs of a seed"):
        check.compare()


def test_the_recorded_designs_send_what_their_messages_cost():
    """In one setting, so that a run of a design differs from one of MD by its sketches, or by messages of its clients."""
    rows = check.compare().set_index(["outcome", "design"]).loc["averaged model"]
    assert rows["seeds"].tolist() == [5] * 4
    assert rows["megabytes"].between(1.0, 1.1).all() and rows.loc["md", "megabytes"] == 1.0


def test_a_seed_without_md_does_not_count(compared):
    row = compared.loc[("averaged model", "clustered-similarity")]
    assert (row["seeds"], row["mean"]) == (3, pytest.approx(100 / 3))


def test_the_table_has_a_row_per_design_and_signs(compared):
    table = check.tabulate(compared.reset_index())
    assert table["design"].tolist() == [
        "MD sampling",
        "clustered by similarity",
        "least variance, sketch",
    ]
    assert table.loc[0, "averaged model (%)"] == "30.0"
    assert table.loc[0, "averaged model less MD's"] == ""
    assert table["megabytes (MD = 1)"].tolist() == ["1.00", "1.00", "1.10"]
    assert table.loc[2, "averaged model less MD's"] == "+2.0 (-0.5 to +4.5)"


def test_the_rounds_and_designs_are_those_that_were_declared():
    runs = clustered_grid.SWEEPS[check.SWEEP]("laptop")
    assert {run.method for run in runs} == set(check.DESIGNS)
    for run in runs:
        assert run.concentration == check.CONCENTRATION
        assert {*run.eval_rounds, run.rounds} == set(check.ROUNDS)
        steps_of_paper = 100 * 1000  # a client's steps a round, and rounds (Section 6)
        assert 50 * run.overrides["steps"] * run.rounds == steps_of_paper
