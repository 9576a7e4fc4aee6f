"""The average of the server's models, and evaluations in chosen rounds."""

import json
import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from companion import compare, records
from companion.runs import sweeps, tables
from fedstas import cli, engine, methods, models, partition, run_file, simulation
from fedstas.aggregation import average_models, mean_of_tail
from fedstas.errors import Diverged, InputError

SETTINGS = {"rounds": 6, "clients_per_round": 5, "seed": 1}
RAW = [name for name in simulation.COLUMNS if name not in ("train_loss", "seconds")]
AVERAGES = [*simulation.AVERAGE_COLUMNS]


def run(task, federation, **options):
    """Run a method, md unless another is given, for six rounds."""
    method = methods.get(options.pop("method", "md"), lr=0.3)
    return simulation.run(task, federation, method, device="cpu", **SETTINGS | options)


@given(
    arrays(np.float64, (7, 3), elements=st.floats(-100, 100)),
    st.floats(0, 1, exclude_max=True),
)
def test_the_average_is_the_weighted_mean_of_all_models(w, beta):
    """Closed form: weights beta^(t - s) of w_s, divided by their sum; also where beta is almost 1."""
    average = None
    for t in range(1, 8):
        average = average_models(average, w[t - 1], beta, t)
        weights = beta ** np.arange(t - 1, -1, -1.0)
        np.testing.assert_allclose(average, weights @ w[:t] / weights.sum(), atol=1e-10)
        if t == 1 or beta == 0:
            np.testing.assert_array_equal(average, w[t - 1])


@pytest.fixture(scope="module")
def pair_of_runs(digits, federation):
    """A run that measures the average in each round, and the same run without it."""
    return run(digits, federation, average=0.7), run(digits, federation)


def test_clients_train_from_the_model_itself(pair_of_runs):
    """Cohorts, costs, models and their metrics are those of a run without an average; losses to rounding, since two
    models are one product."""
    with_average, without = pair_of_runs
    np.testing.assert_array_equal(with_average.params, without.params)
    pd.testing.assert_frame_equal(with_average.frame[RAW], without.frame[RAW], check_exact=True)
    np.testing.assert_allclose(with_average.frame.train_loss, without.frame.train_loss, rtol=1e-6)
    assert list(without.frame.columns) == [*simulation.COLUMNS]
    assert list(with_average.frame.columns) == [*simulation.COLUMNS, *AVERAGES]
    assert without.average is None


def test_the_average_is_measured_as_a_model_of_its_own(digits, federation, pair_of_runs):
    history, _ = pair_of_runs
    models_by_round = [run(digits, federation, rounds=t).params for t in range(1, 7)]
    weights = 0.7 ** np.arange(5, -1, -1.0)
    average = np.average(np.stack(models_by_round).astype(float), axis=0, weights=weights)
    np.testing.assert_allclose(history.average, average, atol=1e-6)
    setup = simulation.prepare(digits, federation, methods.get("md"), 5, 1)
    model = torch.from_numpy(history.average)
    measured, _ = simulation.measure(digits, digits.model(1), model, setup.data, setup.class_shares)
    last = history.frame.iloc[-1]
    for name, value in measured.items():
        assert last[f"{name}_average"] == pytest.approx(value, rel=1e-6)
        assert history.frame[f"{name}_average"].iloc[0] == history.frame[name].iloc[0]  # w_1
    assert last.train_loss_average != last.train_loss


@given(arrays(np.float64, (7, 3), elements=st.floats(-100, 100)), st.integers(1, 8))
def test_the_mean_of_the_tail_is_the_plain_mean_of_its_models(w, first):
    average = None
    for t in range(1, 8):
        average = mean_of_tail(average, w[t - 1], first, t)
        expected = w[first - 1 : t].mean(0) if t > first else w[t - 1]
        np.testing.assert_allclose(average, expected, atol=1e-10)


@pytest.mark.parametrize(("rounds", "first"), [(6, 4), (5, 3), (1, 1)])
def test_the_tail_is_the_second_half_of_the_run(rounds, first, digits, federation):
    models_by_round = [run(digits, federation, rounds=t).params for t in range(1, rounds + 1)]
    history = run(digits, federation, rounds=rounds, average="tail")
    np.testing.assert_array_equal(history.params, models_by_round[-1])
    expected = np.stack(models_by_round[first - 1 :]).astype(float).mean(0)
    np.testing.assert_allclose(history.average, expected, atol=1e-6)
    early = history.frame[history.frame["round"] <= first]
    assert early.test_accuracy.tolist() == early.test_accuracy_average.tolist()


def test_a_run_that_averages_its_tail_resumes_only_with_the_same_number_of_rounds(
    digits, federation
):
    checkpoints = []
    uninterrupted = run(
        digits, federation, average="tail", checkpoint=lambda h: checkpoints.append(deepcopy(h))
    )
    for history in checkpoints:  # after rounds 1 to 5
        resumed = run(digits, federation, average="tail", resume=history)
        np.testing.assert_array_equal(resumed.average, uninterrupted.average)
    with pytest.raises(InputError, match=r"history is of another .* average"):
        run(digits, federation, average="tail", rounds=9, resume=checkpoints[0])
    settings = SETTINGS | {"average": "tail"}
    assert records.identity(digits, federation, methods.get("md"), **settings)["average"] == "tail"


def test_beta_of_zero_measures_the_model_twice(digits, federation):
    frame = run(digits, federation, average=0, rounds=3).frame
    for name in simulation.METRICS:
        assert frame[name].tolist() == frame[f"{name}_average"].tolist()


@pytest.mark.parametrize("network", ["perceptron", "convolutional", "transformer"])
def test_evaluating_models_together_gives_the_results_of_each_alone(network):
    torch.manual_seed(0)
    x, y = torch.randn(300, 3, 32, 32), torch.randint(10, (300,))
    module = models.Perceptron(3072, 10)
    if network == "convolutional":
        module = models.Convolutional(10)
    if network == "transformer":
        module, x = models.Transformer(50, 10), torch.randint(1, 50, (300, 9))
    pair = models.flatten(module) * torch.tensor([[1.0], [-0.5], [2.0]])
    together = engine.evaluate_models(module, pair, x, y)
    for params, (loss, predicted) in zip(pair, together, strict=True):
        expected, labels = engine.evaluate(module, params, x, y)
        assert loss == pytest.approx(expected, rel=1e-5)
        assert (predicted == labels).float().mean() > 0.99  # a tie may be broken by rounding
    with torch.no_grad():
        logits = module(x)
    (loss, _), *_ = together  # of the module's own parameters
    assert loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, y)))


@pytest.mark.parametrize("name", ["md", "fedavg-unbiased", "fedadam", "poisson", "centralised"])
def test_a_resumed_average_equals_an_uninterrupted_one_also_from_a_file(
    name, digits, federation, tmp_path
):
    method, options = methods.get(name), {"average": 0.9, "device": "cpu"} | SETTINGS
    uninterrupted = simulation.run(digits, federation, method, **options)
    first = simulation.run(digits, federation, method, **options | {"rounds": 2})
    run_file.save_history(tmp_path / "run", {}, first)
    for history in (first, run_file.load_history(tmp_path / "run", {}, method)):
        resumed = simulation.run(digits, federation, method, resume=history, **options)
        np.testing.assert_array_equal(resumed.average, uninterrupted.average)
        pd.testing.assert_frame_equal(
            resumed.frame.drop(columns="seconds"),
            uninterrupted.frame.drop(columns="seconds"),
            check_exact=True,
        )


def test_a_history_with_another_average_is_not_resumed(digits, federation, pair_of_runs):
    for history in pair_of_runs:
        with pytest.raises(InputError, match=r"history is of another .* average"):
            run(digits, federation, average=0.5, rounds=9, resume=history)


@pytest.mark.parametrize("beta", [1, -0.1, float("nan"), "0.9", 2.0, True, "half"])
def test_an_average_outside_zero_to_one_is_refused(beta, digits, federation):
    with pytest.raises(InputError, match=r"average is .* at least 0 and below 1, or 'tail'"):
        run(digits, federation, average=beta)
    with pytest.raises(InputError, match=r"average is .* at least 0 and below 1, or 'tail'"):
        records.identity(digits, federation, methods.get("md"), average=beta, **SETTINGS)


def test_a_diverged_run_keeps_the_columns_of_the_average(digits, federation):
    method = methods.get("md", lr=1e12)
    with pytest.raises(Diverged) as caught:
        simulation.run(digits, federation, method, average=0.9, **SETTINGS | {"rounds": 50})
    assert list(caught.value.history.frame.columns) == [*simulation.COLUMNS, *AVERAGES]


def test_a_run_is_evaluated_in_the_further_rounds_and_nowhere_else(
    digits, federation, pair_of_runs
):
    history = run(digits, federation, eval_every=6, eval_rounds=[5, 2, 2], average=0.7)
    assert history.frame["round"].tolist() == [2, 5, 6]
    full = pair_of_runs[0].frame
    pd.testing.assert_frame_equal(
        history.frame.drop(columns="seconds"),
        full[full["round"].isin([2, 5, 6])].reset_index(drop=True).drop(columns="seconds"),
        check_exact=True,
    )


@pytest.mark.parametrize(
    ("further", "message"),
    [([0], "eval_rounds is 0"), ([7], "at most 6"), ([2.5], "is 2.5"), (3, "is 3: .* a list")],
)
def test_further_rounds_that_a_run_does_not_have_are_refused(further, message, digits, federation):
    with pytest.raises(InputError, match=message):
        run(digits, federation, eval_rounds=further)


def test_an_identity_has_average_and_further_rounds_only_if_they_are_set(digits, federation):
    def identity(**options):
        return records.identity(digits, federation, methods.get("md"), **SETTINGS | options)

    usual = identity()
    assert {"average", "eval_rounds"}.isdisjoint(usual)
    assert identity(average=None, eval_rounds=[]) == usual
    assert identity(eval_every=3, eval_rounds=[3, 6]) == identity(eval_every=3)
    assert identity(average=np.float64(0.5)) == usual | {"average": 0.5}
    rare = identity(eval_every=3, eval_rounds=(5, np.int64(2), 5))
    assert rare == usual | {"eval_every": 3, "eval_rounds": [2, 5]}
    assert json.loads(json.dumps(rare)) == rare
    assert records.evaluated_rounds(rare) == [2, 3, 5, 6]


SWEEP = [
    sweeps.Run(
        "digits", "dirichlet", 0.1, "md", 0, clients=20, clients_per_round=5, rounds=4, **options
    )
    for options in ({}, {"average": 0.9}, {"average": 0.9, "eval_every": 4, "eval_rounds": (2, 3)})
]


@pytest.fixture(scope="module")
def recorded_folder(tmp_path_factory):
    """Return a folder of the recorded runs of SWEEP."""
    folder = tmp_path_factory.mktemp("results")
    assert [sweeps.perform(one, "trial", folder, "cpu") for one in SWEEP] == ["done"] * 3
    return folder


def test_a_run_whose_worst_decile_is_not_a_number_is_packed(tmp_path, monkeypatch):
    """It is none where a client has a class that the test set lacks."""
    monkeypatch.setattr(sweeps, "worst_decile", lambda *model: math.nan)
    assert sweeps.perform(SWEEP[0], "trial", tmp_path, "cpu") == "done"
    single = records.load(tmp_path)
    records.pack(tmp_path / "trial")
    assert not [*(tmp_path / "trial").glob("*.json")]
    pd.testing.assert_frame_equal(records.load(tmp_path), single, check_exact=True)


def test_recorded_averages_are_read_packed_and_recomputed(recorded_folder, tmp_path):
    single = records.load(recorded_folder)
    records.unpack(recorded_folder / "trial", tmp_path / "copy")
    records.pack(tmp_path / "copy" / "trial")
    packed = records.load(tmp_path / "copy")
    pd.testing.assert_frame_equal(packed, single, check_exact=True)
    assert (
        compare.compare(recorded_folder, tmp_path / "copy").runs.verdict.tolist()
        == ["identical"] * 3
    )
    identities = records.identities(tmp_path / "copy")
    for name, frame in packed.groupby("run"):
        averages = frame[AVERAGES]
        assert averages.notna().all(axis=None) == ("average" in identities[name])
        assert averages.isna().all(axis=None) == ("average" not in identities[name])
        rounds = [2, 3, 4] if "eval_rounds" in identities[name] else [1, 2, 3, 4]
        assert frame["round"].tolist() == rounds
        repeated = records.rerun(name, tmp_path / "copy", device="cpu")
        drop = {"columns": "seconds"}
        pd.testing.assert_frame_equal(
            repeated.frame.drop(**drop),
            frame[repeated.frame.columns].reset_index(drop=True).drop(**drop),
            check_exact=True,
        )


def test_a_table_without_averages_has_no_columns_of_averages(recorded_folder, tmp_path):
    """Tables that were packed before keep their bytes when they are packed again, and are read as they were."""
    sweeps.perform(SWEEP[0], "plain", tmp_path, "cpu")
    records.pack(tmp_path / "plain")
    rows = pd.read_parquet(tmp_path / "plain" / "rows.parquet")
    assert list(rows.columns) == ["run", *simulation.COLUMNS]
    frame = records.load(tmp_path)
    assert frame[AVERAGES].isna().all(axis=None)
    assert records.read_runs(tmp_path)[0].frame().columns.tolist() == [*simulation.COLUMNS]


def test_an_edited_average_is_refused(recorded_folder, tmp_path):
    records.unpack(recorded_folder / "trial", tmp_path)
    sidecar = next(
        s for s in records.sidecars(tmp_path) if '"average"' in s.read_text(encoding="utf-8")
    )
    data = sidecar.with_suffix(".parquet")
    frame = pd.read_parquet(data)
    frame["macro_f1_average"] += 0.01
    frame.to_parquet(data, index=False)
    with pytest.raises(InputError, match="contradicts"):
        records.load(tmp_path)
    frame[[*simulation.COLUMNS]].to_parquet(data, index=False)
    with pytest.raises(InputError, match="contradicts"):
        records.load(tmp_path)


def test_the_keys_of_a_sweeps_runs_differ_by_average_and_rounds(recorded_folder):
    keys = {tables.run_key(one) for one in SWEEP}
    assert len(keys) == len({hash(one) for one in SWEEP}) == 3
    assert keys == {
        tables.record_key(identity) for identity in records.identities(recorded_folder).values()
    }
    with pytest.raises(InputError, match="eval_rounds is 0"):
        sweeps.Run("digits", "dirichlet", 0.1, "md", 0, eval_rounds=(0,))


def test_more_evaluated_rounds_are_estimated_to_take_longer():
    fewer = replace(SWEEP[2], eval_rounds=())
    assert sweeps.estimate(SWEEP[2]) > sweeps.estimate(fewer)


def test_an_average_is_estimated_to_double_the_time_of_each_evaluation():
    one = replace(SWEEP[2], eval_every=5, eval_rounds=(), rounds=10, average=None)
    once_more = sweeps.estimate(replace(one, eval_rounds=(1,))) - sweeps.estimate(one)
    with_average = sweeps.estimate(replace(one, average=0.9)) - sweeps.estimate(one)
    assert with_average == pytest.approx(2 * once_more)


@pytest.mark.parametrize("average", [0.9, "tail"])
def test_the_command_measures_the_average_and_ends_with_its_accuracy(
    average, tmp_path, digits, capsys
):
    out = tmp_path / "run.parquet"
    line = "run --task digits --clients 20 --clients-per-round 4 --rounds 3 --method md --seed 2"
    with pytest.raises(SystemExit) as caught:
        cli.main([*line.split(), "--average", str(average), "--device", "cpu", "--out", str(out)])
    assert caught.value.code == 0
    federation = partition.make("dirichlet", digits.train_y, clients=20, seed=2)
    settings = {"rounds": 3, "clients_per_round": 4, "seed": 2, "average": average, "device": "cpu"}
    expected = simulation.run(digits, federation, methods.get("md"), **settings).frame
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(pd.read_parquet(out).drop(**drop), expected.drop(**drop))
    last = expected.iloc[-1]
    of_both = f"{last.test_accuracy_average:.2%}, of the last model {last.test_accuracy:.2%}, after"
    assert last.test_accuracy_average != last.test_accuracy
    assert f"accuracy of the averaged model {of_both} round 3" in capsys.readouterr().out
    assert compare.compare(out, out).runs.verdict.tolist() == ["identical"]
