"""Participants that do not answer, and what becomes of the weights of those who do."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion import records
from companion.runs import sweeps, tables
from fedstas import Cohorts, methods, run_file, simulation
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError
from fedstas.nonresponse import reweight

SETTINGS = {"rounds": 6, "clients_per_round": 5, "seed": 1, "device": "cpu"}
WEIGHTS = st.lists(st.floats(0.01, 3), min_size=1, max_size=5)


def run(task, federation, method="md", **options):
    """Run a method for six rounds at a rate at which it learns."""
    return simulation.run(task, federation, methods.get(method, lr=0.3), **SETTINGS | options)


def expected_weights(cohort: Cohort, drop: float, remedy: str) -> np.ndarray:
    """Return the expected weight of each participant, by enumeration of who answers."""
    total = np.zeros(len(cohort.clients))
    for answers in product([False, True], repeat=len(total)):
        answers = np.array(answers)
        probability = np.where(answers, 1 - drop, drop).prod()
        total[answers] += probability * simulation.answering(cohort, answers, drop, remedy).weights
    return total


@given(WEIGHTS, st.floats(0, 0.9))
def test_divided_weights_are_unbiased_and_without_a_remedy_weights_shrink_by_the_rate_of_answers(
    weights, drop
):
    cohort = Cohort(np.arange(len(weights)), np.array(weights))
    np.testing.assert_allclose(expected_weights(cohort, drop, "divide"), weights, rtol=1e-9)
    shrunk = (1 - drop) * cohort.weights
    np.testing.assert_allclose(expected_weights(cohort, drop, "none"), shrunk, rtol=1e-9)


@given(WEIGHTS, st.integers(1, 31))
def test_renormalised_weights_add_up_to_those_of_the_cohort(weights, mask):
    cohort = Cohort(np.arange(len(weights)), np.array(weights), strata=np.arange(len(weights)))
    answers = np.array([bool(mask >> k & 1) for k in range(len(weights))])
    reweighted = simulation.answering(cohort, answers, 0.5, "renormalise")
    np.testing.assert_array_equal(reweighted.strata, np.flatnonzero(answers))
    if answers.any():
        assert reweighted.weights.sum() == pytest.approx(cohort.weights.sum())
        np.testing.assert_allclose(
            reweighted.weights / reweighted.weights[0],
            cohort.weights[answers] / cohort.weights[answers][0],
        )


def test_weights_that_cancel_cannot_be_renormalised():
    cohort = Cohort(np.arange(2), np.array([1.0, -1.0]))
    with pytest.raises(InputError, match="choose the remedy divide"):
        simulation.answering(cohort, np.array([True, True]), 0.1, "renormalise")


def test_equal_seeds_have_the_same_clients_offline_and_the_cohorts_of_a_run_without_silence(
    digits, federation
):
    """A cohort is drawn before anybody is silent, so that designs that ask for nothing draw as ever."""
    silent, without_silence = run(digits, federation, drop=0.5), run(digits, federation)
    for one, other in zip(silent.cohorts, without_silence.cohorts, strict=True):
        np.testing.assert_array_equal(one, other)
    assert silent.frame["bytes_down"].tolist() == without_silence.frame["bytes_down"].tolist()
    assert (silent.frame["bytes_up"] < without_silence.frame["bytes_up"]).all()
    assert silent.frame["test_accuracy"].iloc[-1] != without_silence.frame["test_accuracy"].iloc[-1]


def test_without_silence_nothing_changes(digits, federation):
    one, other = run(digits, federation, drop=0.0, remedy="renormalise"), run(digits, federation)
    np.testing.assert_array_equal(one.params, other.params)


def test_a_round_without_an_answer_leaves_the_model_as_it_is(digits, federation):
    history = run(digits, federation, drop=1 - 1e-9)
    assert history.frame["test_accuracy"].nunique() == 1
    assert history.frame["bytes_up"].max() == 8 * len(federation.with_data)  # their sizes, once


@pytest.mark.parametrize("name", ["fedstas-least-variance", "scaffold", "fedvarp", "fedstas"])
def test_a_resumed_run_with_silence_equals_an_uninterrupted_one_also_from_a_file(
    name, digits, federation, tmp_path
):
    method, options = methods.get(name), {"drop": 0.3, "remedy": "renormalise"} | SETTINGS
    uninterrupted = simulation.run(digits, federation, method, **options)
    first = simulation.run(digits, federation, method, **options | {"rounds": 3})
    run_file.save_history(tmp_path / "h", {}, first)
    loaded = run_file.load_history(tmp_path / "h", {}, method)
    resumed = simulation.run(digits, federation, method, **options, resume=loaded)
    np.testing.assert_array_equal(resumed.params, uninterrupted.params)
    with pytest.raises(InputError, match="resume: the history is of another"):
        simulation.run(digits, federation, method, **options | {"drop": 0.2}, resume=loaded)


def test_silence_is_part_of_an_identity_only_where_it_is_set(digits, federation, tmp_path):
    settings = {k: v for k, v in SETTINGS.items() if k != "device"}
    method = methods.get("md")
    identity = records.identity(digits, federation, method, drop=0.0, remedy="none", **settings)
    assert identity == records.identity(digits, federation, method, **settings)
    shape = {"clients": 20, "clients_per_round": 5, "rounds": 3, "drop": 0.4, "remedy": "none"}
    declared = sweeps.Run("digits", "dirichlet", 0.1, "md", 0, **shape)
    assert sweeps.perform(declared, "silent", tmp_path) == "done"
    (record,) = records.read_runs(tmp_path / "silent")
    assert (record.identity["drop"], record.identity["remedy"]) == (0.4, "none")
    assert tables.record_key(record.identity) == tables.run_key(declared)
    repeated = records.rerun(record.run, tmp_path).frame
    pd.testing.assert_frame_equal(
        repeated.drop(columns="seconds"), record.frame().drop(columns="seconds")
    )


@pytest.mark.parametrize(("drop", "remedy"), [(1, "divide"), (-0.1, "divide"), (0.1, "guess")])
def test_a_probability_of_one_and_an_unknown_remedy_are_refused(drop, remedy, digits, federation):
    with pytest.raises(InputError, match=r"drop is .* below 1|unknown remedy"):
        run(digits, federation, drop=drop, remedy=remedy)


@pytest.mark.parametrize("method", ["md", None, methods.get("md").clients])
def test_a_method_that_is_only_named_is_refused_in_one_sentence(method, digits, federation):
    with pytest.raises(InputError, match=r"^the method is .*: give methods\.get\('md'\)$"):
        simulation.run(digits, federation, method, **SETTINGS)


def mean_reweighted(cohort: Cohort, silent: float, expands: bool) -> np.ndarray:
    """Return the mean weights [m] over who answers, given that anyone does, by enumeration."""
    mean, total = np.zeros(len(cohort.clients)), 0.0
    for answered in product([False, True], repeat=len(mean)):
        if any(answered):
            probability = np.where(answered, 1 - silent, silent).prod()
            mean += probability * reweight(cohort, answered, expands)
            total += probability
    return mean / total


@given(WEIGHTS, st.floats(0.05, 0.9), st.booleans())
def test_weights_over_inclusion_probabilities_stay_unbiased_if_clients_are_silent_at_random(
    weights, silent, normalise
):
    """Given that anyone answers, m / r times the indicator of an answer has the mean 1: also for weights that add up to 1."""
    weights = np.array(weights) / (sum(weights) if normalise else 1)
    mean = mean_reweighted(Cohort(np.arange(len(weights)), weights), silent, True)
    np.testing.assert_allclose(mean, weights, rtol=1e-9)


@pytest.mark.parametrize("weights", [[1.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
@pytest.mark.parametrize("strata", [None, np.array([0, 1, 2])])
def test_weights_that_add_up_to_0_are_no_nan(weights, strata):
    """Without an empty stratum nothing is to be shared among the others, so that no sum is divided by."""
    one = Cohort(np.arange(3), np.array(weights), np.zeros(3, int))
    np.testing.assert_allclose(reweight(one, [False, True, True]), [0, weights[1] * 1.5, 0])
    silent = [False, weights[1] == 0, True]
    if strata is None and sum(weights) != 1:  # weights that are not normalised, of one stratum
        np.testing.assert_array_equal(reweight(Cohort(np.arange(3), np.array(weights)), silent), 0)
    else:
        with pytest.raises(InputError, match=r"those who answered add up to 0, .* leave the model"):
            reweight(Cohort(np.arange(3), np.array(weights), strata), silent)


def test_weights_that_add_up_to_0_but_for_rounding_are_refused():
    """In floating point 0.1 + 0.2 - 0.3 is 5.6e-17."""
    one = Cohort(np.arange(4), np.array([0.1, 0.2, -0.3, 1.0]))
    with pytest.raises(InputError, match="those who answered add up to 0"):
        reweight(one, [True, True, True, False])
    with pytest.raises(InputError, match="do not add up to more than 0"):
        simulation.answering(one, np.array([True, True, True, False]), 0.25, "renormalise")


def test_a_client_that_is_sure_to_be_drawn_counts_its_share_if_clients_are_silent_at_random():
    """Client 0 holds half of the data and is always drawn, so that the weights of each cohort add up to 1."""
    chooser = Cohorts("local-pivotal", sizes=[500] + [50] * 10, m=6)
    cohort = chooser.sample(gradients=np.eye(11))
    assert cohort.clients[0] == 0 and cohort.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(mean_reweighted(cohort, 0.25, True), [0.5] + [0.1] * 5, rtol=1e-9)
    assert mean_reweighted(cohort, 0.25, False)[0] < 0.45  # normalised, it would not
    weights = chooser.report(cohort, [np.ones(3)] * 5 + [None])
    np.testing.assert_allclose(weights, np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0]) * 6 / 5)


def test_designs_whose_weights_are_normalised_in_each_round_stay_so_and_the_others_expand():
    expands = {n for n in methods.names() if getattr(methods.get(n).clients, "expands", False)}
    independent = {"optimal-client-sampling", "poisson", "k-vib", "cube", "local-pivotal"}
    uniform = {"fedavg-unbiased", "fedavg-eq3", "fedvarp", "mifa", "cluster-fedvarp", "scaffold"}
    assert expands == independent | uniform
