"""The sweeps of clustered sampling: their settings are the paper's, and their runs are found again."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import ledger
from companion.claims.evidence import experiments as evidence
from companion.claims.evidence import experiments_clustered as clustered
from companion.runs import clustered_grid as grid
from companion.runs import experiments, grid_results, records, sweeps, tables
from fedstas import partition

ROOT = Path(__file__).parents[1]


def test_sizes_are_those_of_the_paper_whatever_the_number_of_clients():
    assert grid.sizes(100, 48_500) == "100x10,250x30,500x30,750x20,1000x10"
    assert grid.sizes(100, 24_250) == "50x10,125x30,250x30,375x20,500x10"
    for clients in (10, 100, 500):
        listed = partition.parse_sizes(grid.sizes(clients, 48_500))
        assert (len(listed), sum(listed)) == (clients, 48_500)


def test_one_thing_is_changed_at_a_time_with_the_rates_of_the_paper():
    runs = [r for r in experiments.runs("clustered-cifar10", "paper") if r.seed == 0]
    usual = (0.01, 100, 10, 100, 0.0, "arccos")
    changed, rates = [], {}
    for r in runs:
        o = r.overrides
        assert (r.partition, o["batch"]) == ("dirichlet_fixed_size", 50)
        now = (r.concentration, r.clients, r.clients_per_round, o["steps"], o.get("prox", 0.0), o.get("measure", "arccos"))  # fmt: skip
        other = [k for k in range(6) if now[k] != usual[k]]
        assert len(other) <= 1 or (other == [1, 2] and (r.clients, r.clients_per_round) in ((10, 5), (500, 50)))  # fmt: skip
        changed.append(now)
        rates.setdefault(o["lr"], set()).add(now)
    assert {c[0] for c in changed} == {0.001, 0.01, 0.1, 10.0}
    assert {c[1] for c in changed} == {10, 100, 500}
    assert {c[2] for c in changed} == {5, 10, 20, 50}
    assert {c[3] for c in changed} == {10, 50, 100, 500}
    assert {c[4] for c in changed} == {0.0, 0.001, 0.01, 0.1, 1.0}
    assert {c[5] for c in changed} == {"arccos", "L2", "L1"}
    ten, work = (10.0, *usual[1:]), (*usual[:3], 10, *usual[4:])
    assert rates[0.1] == {ten, work} and set(rates) == {0.05, 0.1}
    by_work = {r.overrides["steps"]: (r.rounds, r.overrides["steps"] * r.rounds) for r in runs}
    assert by_work == {10: (2000, 20_000), 50: (1000, 50_000), 100: (1000, 100_000), 500: (500, 250_000)}  # fmt: skip


def test_colour_images_are_trained_with_their_network_and_others_with_the_usual_one():
    for sweep, network in (("clustered-cifar10", grid.DROPOUT), ("clustered-coarse10", grid.DROPOUT), ("clustered-mnist", "")):  # fmt: skip
        for profile in ("paper", "laptop"):
            assert {r.network for r in experiments.runs(sweep, profile)} == {network}
        assert {r.network for r in experiments.runs(sweep, "quick")} == {""}  # of digits


def test_figure_1_is_declared_over_its_200_rounds_and_begins_with_what_is_recorded():
    runs, first = (experiments.runs(n, "paper") for n in ("clustered-fig-1", "one-digit"))
    assert [sweeps.replace(r, rounds=60) for r in runs] == first and len(first) == 40
    assert {r.rounds for r in runs} == {clustered.FIGURE_1} == {200}
    assert {r.seed for r in runs} == set(range(10))


def test_figure_1_is_read_of_its_200_rounds_as_soon_as_five_seeds_are_there(monkeypatch):
    def there(*short):
        return lambda sweep: None if sweep in short else pd.DataFrame(
            [{"method": m, "seed": s} for m in clustered.SCHEMES for s in range(5)]
        )  # fmt: skip

    names = clustered.FIGURE_1_SWEEPS
    monkeypatch.setattr(clustered, "load_sweep", there())
    assert clustered.first_recorded(*names) == "clustered-fig-1"
    monkeypatch.setattr(clustered, "load_sweep", there("clustered-fig-1"))
    assert clustered.first_recorded(*names) == "one-digit"
    monkeypatch.setattr(clustered.statistics, "MIN_SEEDS", 6)
    assert clustered.first_recorded(*names) == "one-digit"


def test_what_a_claim_without_data_recommends_can_be_called(tmp_path, monkeypatch):
    """With nothing recorded: each sweep that a note names is there, in that profile."""
    monkeypatch.setattr(evidence, "load_sweep", lambda sweep: None)
    monkeypatch.setattr(evidence.tasks, "data_folder", lambda: tmp_path)
    named = {}
    for claim in ledger.all_claims():
        if "/experiments" in claim.source and claim.id != "clustered-fig-5":
            found = claim.decide(claim)
            if found.verdict in ("no-data", "pending"):
                named[claim.id] = re.findall(r"`(fedstas sweep [^`]*)`", found.note)
    assert len(named) > 30
    for claim, commands in named.items():
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
        assert any("clustered-cifar10 --profile paper" in c for c in named[claim])


def test_every_claim_finds_its_runs_among_those_declared():
    """What the evidence asks for, of every printed setting, is in the sweep that it names, five times."""
    known = {}
    for place in (clustered.CIFAR, clustered.MNIST, clustered.COARSE):
        known[place.sweep] = [
            (r.task, r.partition, r.concentration, r.overrides["steps"], r.clients, r.clients_per_round,
             r.overrides.get("prox", 0.0), r.method, r.overrides.get("measure", "arccos"))
            for r in experiments.runs(place.sweep, "paper")
        ]  # fmt: skip
    skews = [{"concentration": c} for c in clustered.SKEWS]
    asked = [(p, c) for p in (clustered.CIFAR, clustered.MNIST) for c in clustered.PRINTED]
    asked += [(clustered.COARSE, c) for c in skews]
    for place, change in asked:
        s = evidence.replace(place, **change)
        for method in ("md", *clustered.ALGORITHM):
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
            assert known[s.sweep].count((*key, method, measure)) == 5, (s, method)


def test_recorded_runs_are_found_by_what_was_changed(tmp_path, monkeypatch):
    runs = [r for r in experiments.runs("clustered-mnist", "quick") if r.method != "clustered-size"]
    wanted = [r for r in runs if set(r.overrides) & {"prox", "measure"} or r == runs[0]]
    assert len(wanted) == 5  # md as it is, both with mu = 0.1, and two measures
    assert (
        sweeps.make(wanted, "clustered-mnist", folder=tmp_path, device="cpu", progress=False) == []
    )
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    monkeypatch.setattr(evidence, "MIN_PAIRS", 1)
    small = {"clients": 20, "clients_per_round": 5, "steps": 5, "task": "digits"}
    place = evidence.replace(clustered.MNIST, **small)

    def found(*methods, **change):
        return evidence.replace(place, **change).runs(*methods)

    assert found("md")["run"].nunique() == found("md", prox=0.1)["run"].nunique() == 1
    assert set(found("md")["run"]).isdisjoint(found("md", prox=0.1)["run"])
    each = [set(found("md", "clustered-similarity", measure=w)["run"]) for w in ("L2", "L1")]
    assert [len(runs) for runs in each] == [2, 2] and len(each[0] & each[1]) == 1
    with pytest.raises(evidence.MissingRuns, match="seeds of clustered-similarity yet"):
        found("md", "clustered-similarity")  # with the angle none is recorded
    with pytest.raises(evidence.MissingRuns):
        found("md", clients=100)
    here = tables.load_sweep("clustered-mnist", tmp_path)
    assert (here.recorded, here.planned) == (
        0,
        235,
    )  # those of digits are none of the profile paper


def test_the_rate_with_the_least_loss_is_chosen(tmp_path):
    runs = [grid.DIGITS.run({}, "md", 0, lr=lr) for lr in (0.001, 0.1, 1e30)]
    runs += [grid.DIGITS.run({"prox": 0.1}, "md", 0, lr=0.01)]
    failed = sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False)
    assert len(failed) == 1 and "lr 1e+30" in failed[0]
    found = grid_results.choose_clustered_rates("trial", tmp_path)
    assert found[["prox", "lr"]].to_numpy().tolist() == [[0.0, 0.1], [0.1, 0.01]]
    frame = records.load(tmp_path).merge(records.details(tmp_path), on="run")
    losses = frame[frame["local.lr"] == 0.1].groupby("run")["train_loss"].mean()
    assert found["train_loss"][0] == pytest.approx(losses.item())  # of its three rounds


TRIALS = {"clustered-mnist-rates": grid.MNIST, "clustered-coarse10-rates": grid.COARSE}


@pytest.mark.parametrize("sweep", TRIALS)
def test_the_rates_are_those_that_the_recorded_trials_chose(sweep):
    if not (ROOT / "results" / sweep).exists():
        pytest.skip(
            f"`fedstas sweep {sweep} --profile paper` records what this holds rates against"
        )
    place, usual = TRIALS[sweep], grid.CENTRE | TRIALS[sweep].centre
    for row in grid_results.choose_clustered_rates(sweep, ROOT / "results").to_dict("records"):
        changed = {k: row[k] for k in usual if row[k] != usual[k]}
        changed = {"clients": changed["clients"]} if "clients" in changed else changed
        assert place.run(changed, "md", 0).overrides["lr"] == row["lr"], changed


def test_a_rolling_mean_is_that_of_the_evaluations_of_so_many_rounds():
    frame = pd.DataFrame({"round": [2, 4, 6, 8, 10], "x": [1.0, 2.0, 6.0, 4.0, 8.0], "run": "a"})
    other = frame.assign(run="b", x=frame["x"] + 1)
    found = tables.smooth_curves(pd.concat([frame, other]), "x", rounds=6)
    assert found["round"].tolist() == [6, 8, 10] * 2
    assert found["x"].tolist() == pytest.approx([3, 4, 6, 4, 5, 7])
    assert tables.smooth_curves(frame, "x", 100)["x"].tolist() == [frame["x"].mean()]
    assert tables.smooth_curves(frame, "x", 1)["x"].tolist() == frame["x"].tolist()


def test_rounds_saved_are_those_to_the_worse_of_the_two_ends(monkeypatch):
    """MD sampling falls by one a round and ends at 1; the scheme falls twice as fast to 1, and stays."""
    rounds = np.arange(1, 101)
    falls = {"md": 101 - rounds, "clustered-size": np.maximum(1, 101 - 2 * rounds)}
    frame = pd.concat(
        pd.DataFrame(
            {"run": m, "method": m, "seed": 0, "round": rounds, "rounds": 100, "train_loss": v}
        )
        for m, v in falls.items()
    )
    monkeypatch.setattr(evidence.Setting, "runs", lambda self, *methods: frame)
    monkeypatch.setattr(clustered, "ROLLING", 1)
    assert clustered.rounds_saved(clustered.CIFAR, "clustered-size").to_dict() == {0: 0.5}
