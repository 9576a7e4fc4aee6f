"""The sweeps of clustered sampling: their settings are the paper's, and the evidence loads their runs."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import ledger
from companion.claims.evidence import clustered_losses as losses
from companion.claims.evidence import experiments as evidence
from companion.claims.evidence import experiments_clustered as clustered
from companion.runs import clustered_grid as grid
from companion.runs import experiments, grid_results, records, sweeps, tables
from fedstas import partition

ROOT = Path(__file__).parents[1]


def test_sizes_have_the_papers_shares_and_total_for_any_number_of_clients():
    """`250x30` are 30 clients of 250 examples each. In the paper 10, 30, 30, 20 and 10 % of the clients have sizes in the
    ratio 1 : 2.5 : 5 : 7.5 : 10."""
    papers_sizes = grid.sizes(clients=100, total=48_500)
    assert papers_sizes == "100x10,250x30,500x30,750x20,1000x10"
    half_the_examples = grid.sizes(clients=100, total=24_250)
    assert half_the_examples == "50x10,125x30,250x30,375x20,500x10"
    for clients in (10, 100, 500):
        sizes = partition.parse_sizes(grid.sizes(clients=clients, total=48_500))
        assert (len(sizes), sum(sizes)) == (clients, 48_500)


def test_one_setting_changes_at_a_time_with_the_learning_rates_of_the_paper():
    runs = [r for r in experiments.runs("clustered-cifar10", "paper") if r.seed == 0]
    # Concentration, clients, participants, local steps, mu of FedProx, measure of similarity.
    usual = (0.01, 100, 10, 100, 0.0, "arccos")
    settings, settings_by_rate = [], {}
    for r in runs:
        overrides = r.overrides
        assert (r.partition, overrides["batch"]) == ("dirichlet_fixed_size", 50)
        of_method = (
            overrides["steps"],
            overrides.get("prox", 0.0),
            overrides.get("measure", "arccos"),
        )
        setting = (r.concentration, r.clients, r.clients_per_round, *of_method)
        assert sum(value != usual_one for value, usual_one in zip(setting, usual, strict=True)) <= 1
        settings.append(setting)
        settings_by_rate.setdefault(overrides["lr"], set()).add(setting)
    assert list(map(set, zip(*settings, strict=True))) == [
        {0.001, 0.01, 0.1, 10.0},
        {100},
        {5, 10, 20},
        {10, 100, 500},
        {0.0, 0.001, 0.01, 0.1, 1.0},
        {"arccos", "L2", "L1"},
    ]
    concentration_10, steps_10 = (10.0, *usual[1:]), (*usual[:3], 10, *usual[4:])
    assert settings_by_rate[0.1] == {concentration_10, steps_10}
    assert set(settings_by_rate) == {0.05, 0.1}
    rounds = {r.overrides["steps"]: r.rounds for r in runs}
    assert rounds == {10: 2000, 100: 1000, 500: 500}
    # Appendix D.5 chooses mu with MD sampling; Fig. 10 has mu = 0.1 under all three schemes.
    schemes_by_mu = pd.DataFrame(
        [(run.overrides.get("prox", 0.0), run.method) for run in runs], columns=["mu", "method"]
    )
    schemes_by_mu = schemes_by_mu.groupby("mu")["method"].agg(set).to_dict()
    all_three = set(grid.SCHEMES)
    assert schemes_by_mu == {
        0.0: all_three,
        0.1: all_three,
        0.001: {"md"},
        0.01: {"md"},
        1.0: {"md"},
    }


def test_colour_images_are_trained_with_their_network_and_others_with_the_usual_one():
    for sweep, network in (
        ("clustered-cifar10", grid.DROPOUT),
        ("clustered-coarse10", grid.DROPOUT),
        ("clustered-mnist", ""),
    ):
        for profile in ("paper", "laptop"):
            assert {r.network for r in experiments.runs(sweep, profile)} == {network}
        assert {r.network for r in experiments.runs(sweep, "quick")} == {""}  # of digits


def test_the_sweep_of_figure_1_has_its_200_rounds_and_the_recorded_settings():
    """The recorded sweep "one-digit" has runs of 60 rounds, 40 of them: four schemes with ten seeds."""
    runs, of_60_rounds = (experiments.runs(n, "paper") for n in ("clustered-fig-1", "one-digit"))
    assert [sweeps.replace(r, rounds=60) for r in runs] == of_60_rounds and len(of_60_rounds) == 40
    assert {r.rounds for r in runs} == {clustered.FIGURE_1} == {200}
    assert {r.seed for r in runs} == set(range(10))


def test_figure_1_uses_the_sweep_of_200_rounds_as_soon_as_five_seeds_are_recorded(monkeypatch):
    frame = pd.DataFrame([{"method": m, "seed": s} for m in clustered.SCHEMES for s in range(5)])

    def load_all_but(*missing):
        """Return a function that loads runs of all sweeps but these."""
        return lambda sweep: None if sweep in missing else frame

    names = clustered.FIGURE_1_SWEEPS
    monkeypatch.setattr(clustered, "load_sweep", load_all_but())
    assert clustered.first_recorded(*names) == "clustered-fig-1"
    monkeypatch.setattr(clustered, "load_sweep", load_all_but("clustered-fig-1"))
    assert clustered.first_recorded(*names) == "one-digit"
    monkeypatch.setattr(clustered.statistics, "MIN_SEEDS", 6)
    assert clustered.first_recorded(*names) == "one-digit"


def test_the_commands_that_claims_without_data_recommend_exist(monkeypatch):
    """With no recorded runs, each sweep that a note names has runs in the profile that it names."""
    monkeypatch.setattr(evidence, "load_sweep", lambda sweep: None)
    commands_of_claims = {}
    for claim in ledger.all_claims():
        if "/experiments" in claim.source and claim.id != "clustered-fig-5":
            result = claim.decide(claim)
            if result.verdict in ("no-data", "pending"):
                commands = re.findall(r"`(fedstas sweep [^`]*)`", result.note)
                commands_of_claims[claim.id] = commands
    assert len(commands_of_claims) > 30
    for claim, commands in commands_of_claims.items():
        for command in commands:
            _, _, sweep, *options = command.split()
            assert sweep in experiments.names(), f"{claim} recommends {command}"
            chosen = dict(zip(options[::2], options[1::2], strict=True))
            assert set(chosen) <= {"--profile", "--folder"}
            assert experiments.runs(sweep, chosen.get("--profile", "quick"))
    for claim in (
        "clustered-fig-2",
        "clustered-fig-6",
        "clustered-fig-8-steps",
        "clustered-fig-10",
    ):
        assert any("clustered-cifar10 --profile paper" in c for c in commands_of_claims[claim])


def test_the_sweep_of_every_printed_setting_has_five_runs_of_each_scheme():
    keys = {
        place.sweep: [
            (
                r.task,
                r.partition,
                r.concentration,
                r.overrides["steps"],
                r.clients,
                r.clients_per_round,
                r.overrides.get("prox", 0.0),
                r.method,
                r.overrides.get("measure", "arccos"),
            )
            for r in experiments.runs(place.sweep, "paper")
        ]
        for place in (losses.CIFAR, losses.MNIST, losses.COARSE, losses.CIFAR_SHORT)
    }
    whole = (losses.CIFAR, losses.MNIST, losses.CIFAR_SHORT)
    changes = [(place, change) for place in whole for change in losses.CHANGES_IN_PAPER]
    changes += [(losses.COARSE, {"concentration": c}) for c in losses.SKEWS]
    for place, change in changes:
        s = evidence.replace(place, **losses.at_length(place, change))
        for method in ("md", *losses.ALGORITHM):
            measure = s.measure if method == "clustered-similarity" else "arccos"
            if method == "clustered-size" and "measure" in change:
                continue
            key = (
                s.task,
                s.partition,
                s.concentration,
                s.steps,
                s.clients,
                s.clients_per_round,
                s.prox,
            )
            assert keys[s.sweep].count((*key, method, measure)) == 5, (s, method)


def test_the_evidence_loads_recorded_runs_by_their_changed_setting(tmp_path, monkeypatch):
    runs = [r for r in experiments.runs("clustered-mnist", "quick") if r.method != "clustered-size"]
    selection = [r for r in runs if set(r.overrides) & {"prox", "measure"} or r == runs[0]]
    assert len(selection) == 5  # MD unchanged, both schemes with mu = 0.1, and two measures
    options = {"folder": tmp_path, "device": "cpu", "progress": False}
    assert sweeps.make(selection, "clustered-mnist", **options) == []
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    monkeypatch.setattr(evidence, "MIN_PAIRS", 1)
    small = {"clients": 20, "clients_per_round": 5, "steps": 5, "task": "digits"}
    place = evidence.replace(losses.MNIST, **small)

    def load_runs(*methods, **change):
        return set(evidence.replace(place, **change).runs(*methods)["run"])

    assert len(load_runs("md")) == len(load_runs("md", prox=0.1)) == 1
    assert load_runs("md").isdisjoint(load_runs("md", prox=0.1))
    by_l2, by_l1 = (load_runs("md", "clustered-similarity", measure=m) for m in ("L2", "L1"))
    assert len(by_l2) == len(by_l1) == 2 and len(by_l2 & by_l1) == 1
    with pytest.raises(evidence.MissingRuns, match="seeds of clustered-similarity yet"):
        load_runs("md", "clustered-similarity")  # with the angle none is recorded
    with pytest.raises(evidence.MissingRuns):
        load_runs("md", clients=100)
    sweep = tables.load_sweep("clustered-mnist", tmp_path)
    assert (sweep.recorded, sweep.planned) == (0, 235)  # runs on digits are not in profile paper


def test_the_rate_with_the_least_loss_is_chosen(tmp_path):
    runs = [grid.DIGITS.run({}, "md", 0, lr=lr) for lr in (0.001, 0.1, 1e30)]
    runs += [grid.DIGITS.run({"prox": 0.1}, "md", 0, lr=0.01)]
    failed = sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False)
    assert len(failed) == 1 and "lr 1e+30" in failed[0]
    table = grid_results.choose_clustered_rates("trial", tmp_path)
    assert table[["prox", "lr"]].to_numpy().tolist() == [[0.0, 0.1], [0.1, 0.01]]
    frame = records.load(tmp_path).merge(records.details(tmp_path), on="run")
    losses = frame[frame["local.lr"] == 0.1].groupby("run")["train_loss"].mean()
    assert table["train_loss"][0] == pytest.approx(losses.item())  # mean of its three rounds


TRIALS = {
    "clustered-mnist-rates": grid.MNIST,
    "clustered-coarse10-rates": grid.COARSE,
    "clustered-cifar10-short-rates": grid.CIFAR10_SHORT,
}


@pytest.mark.parametrize("sweep", TRIALS)
def test_the_rates_are_those_that_the_recorded_trials_chose(sweep):
    if not (ROOT / "results" / sweep).exists():
        pytest.skip(f"record the trials with `fedstas sweep {sweep} --profile paper`")
    place, usual = TRIALS[sweep], grid.CENTRE | TRIALS[sweep].centre
    rows = grid_results.choose_clustered_rates(sweep, ROOT / "results").to_dict("records")
    assert rows
    for row in rows:
        changed = {k: row[k] for k in usual if row[k] != usual[k]}
        changed = {"clients": changed["clients"]} if "clients" in changed else changed
        assert place.run(changed, "md", 0).overrides["lr"] == row["lr"], changed


def test_a_smoothed_curve_is_the_rolling_mean_over_a_number_of_rounds():
    frame = pd.DataFrame({"round": [2, 4, 6, 8, 10], "x": [1.0, 2.0, 6.0, 4.0, 8.0], "run": "a"})
    second_run = frame.assign(run="b", x=frame["x"] + 1)
    smooth = tables.smooth_curves(pd.concat([frame, second_run]), "x", rounds=6)
    assert smooth["round"].tolist() == [6, 8, 10] * 2
    assert smooth["x"].tolist() == pytest.approx([3, 4, 6, 4, 5, 7])
    assert tables.smooth_curves(frame, "x", 100)["x"].tolist() == [frame["x"].mean()]
    assert tables.smooth_curves(frame, "x", 1)["x"].tolist() == frame["x"].tolist()
    denser = frame.assign(round=[2, 4, 8, 9, 10])  # evaluated more often at the end
    smooth = tables.smooth_curves(denser, "x", rounds=4)
    assert smooth["round"].tolist() == [4, 8, 9, 10]
    assert smooth["x"].tolist() == pytest.approx([1.5, 6, 5, 6])


def test_the_share_of_rounds_saved_is_measured_at_the_larger_of_the_two_final_losses(monkeypatch):
    """The loss of MD sampling falls by one a round to 1; that of the scheme falls twice as fast to 1, and stays."""
    rounds = np.arange(1, 101)
    falling = {"md": 101 - rounds, "clustered-size": np.maximum(1, 101 - 2 * rounds)}
    frame = pd.concat(
        pd.DataFrame(
            {"run": m, "method": m, "seed": 0, "round": rounds, "rounds": 100, "train_loss": loss}
        )
        for m, loss in falling.items()
    )
    monkeypatch.setattr(evidence.Setting, "runs", lambda self, *methods: frame)
    monkeypatch.setattr(losses, "ROLLING", 1)
    assert losses.rounds_saved(losses.CIFAR, "clustered-size").to_dict() == {0: 0.5}
