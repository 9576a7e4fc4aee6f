"""Recorded runs are reproduced: one of every method, from each kind of machine that they were recorded on."""

import numpy as np
import pandas as pd
import pytest

from companion import records
from fedstas import methods, partition, simulation

ROUNDS = 3
# A seed recorded on each kind of processor. No sidecar before November 2026 names it; it was inferred from runs of
# the authors' methods, whose cohorts then depended on the last bit of a sum, and so on the processor.
SEEDS_BY_MACHINE = {"recorded on AMD": 0, "recorded on Intel": 12}
SWEEP = "results/preprint"


def repeat_first_rounds(task, identity):
    """Train the first rounds of the run with this identity again; return the history's frame."""
    history = simulation.run(
        task,
        partition.from_recipe(task.train_y, identity["partition"]),
        methods.from_dict(identity["method"]),
        rounds=ROUNDS,
        clients_per_round=identity["clients_per_round"],
        seed=identity["seed"],
        initial_model=identity.get("initial_model", "sent"),
    )
    return history.frame


def assert_close(result: pd.DataFrame, recorded: pd.DataFrame) -> None:
    """Assert that counts are equal, as those of another cohort are not, and that measurements are close."""
    for column in ("participants", "examples", "bytes_down", "bytes_up"):
        np.testing.assert_array_equal(result[column], recorded[column], err_msg=column)
    np.testing.assert_allclose(result["train_loss"], recorded["train_loss"], rtol=2e-4)
    np.testing.assert_allclose(result["test_accuracy"], recorded["test_accuracy"], atol=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("machine", SEEDS_BY_MACHINE)
def test_the_first_rounds_of_a_recorded_run_of_every_method_are_reproduced(real_data, machine):
    mnist = real_data("mnist")
    runs = {r.run: r for r in records.read_runs(SWEEP)}
    run_by_method = {}
    for run in runs.values():
        identity = run.identity
        if (
            identity["seed"] == SEEDS_BY_MACHINE[machine]
            and identity["partition"]["name"] == "dirichlet"
        ):
            run_by_method.setdefault(identity["method"]["name"], run)
    assert len(run_by_method) == 17
    for run in run_by_method.values():
        assert_close(repeat_first_rounds(mnist, run.identity), run.frame().head(ROUNDS))


def test_the_comparison_rejects_a_run_with_another_cohort(digits):
    federation = partition.dirichlet(digits.train_y, 20, 0.3, seed=0)
    first, second = [
        simulation.run(
            digits, federation, methods.get("md"), rounds=3, clients_per_round=4, seed=seed
        ).frame
        for seed in (0, 1)
    ]
    assert_close(first, first)
    with pytest.raises(AssertionError):
        assert_close(second, first)
