"""The sweeps of FedSampling's slides: what is in them, that nothing is run twice, which rates are taken."""

from collections import Counter
from pathlib import Path

import pytest

from companion.runs import experiments, grid_results, records, sweeps, tables
from companion.runs import fedsampling_grid as grid
from companion.runs.sweeps import Run
from fedstas import methods
from fedstas.aggregation import Adaptive

ROOT = Path(__file__).parents[1]
TABLE, MORE, ON_MNIST = (
    f"fedsampling-{rest}" for rest in ("topics", "topics-ablations", "mnist-ablations")
)


def arm(run: Run) -> tuple[str, str]:
    """A run's method, and what of its data design or server sets it apart."""
    made = methods.get(run.method, **run.overrides)
    if run.method in grid.FEDOPT:
        return made.server.kind, made.clients.weights
    return run.method, str(getattr(made.data, "epsilon", ""))


def test_the_table_has_all_rows_of_the_slides_with_both_networks_and_five_seeds():
    runs = experiments.runs(TABLE, "paper")
    rows = [("centralised", ""), ("fedavg", ""), ("fedsampling", "3.0"), ("fedsampling", "None")]
    rows += [(kind, w) for kind in ("adam", "yogi", "adagrad") for w in ("cohort", "plain")]
    found = Counter((r.network, r.seed, *arm(r)) for r in runs)
    assert found == Counter(
        (network, seed, *row) for network in grid.NETWORKS for seed in range(5) for row in rows
    )
    assert {(r.task, r.partition, r.clients, r.clients_per_round, r.rounds) for r in runs} == {
        ("topics", "natural", 100, 10, 100)
    }


def key(run: Run) -> tuple:
    where = (run.partition, run.sigma if run.partition == "lognormal" else None)
    return tables.run_key(run), where


def test_what_one_sweep_has_no_other_runs_again():
    names = ("imbalance", TABLE, MORE, ON_MNIST)
    keys = [key(r) for name in names for r in experiments.runs(name, "paper")]
    assert len(set(keys)) == len(keys) == 24 + 100 + 170 + 221


def test_the_spreads_are_five_of_ten_seeds_on_mnist_and_on_topics():
    spread = [r for r in experiments.runs(ON_MNIST, "paper") if r.partition == "lognormal"]
    whole = [r for r in spread if arm(r)[1] in ("", "None") or r.overrides == grid.HIDDEN["mnist"]]
    both = Counter((r.sigma, *arm(r)) for r in whole + experiments.runs("imbalance", "paper"))
    assert both == Counter(
        {(g, m, e): 10 for g in (0.0, 0.75, 1.5, 2.25, 3.0) for m, e in ARMS}  # 10 seeds each
    )
    here = [r for r in experiments.runs(MORE, "paper") if r.partition == "lognormal"]
    assert Counter((r.sigma, r.method) for r in here) == Counter(
        {(g, m): 10 for g in grid.SPREADS for m in ("fedavg", "fedsampling")}
    )


def test_clients_drawn_otherwise_have_ten_seeds_on_topics():
    runs = experiments.runs(TABLE, "paper") + experiments.runs(MORE, "paper")
    usual = [
        r
        for r in runs
        if r.partition == "natural" and not r.network and "size_cap" not in r.overrides
    ]
    drawn = ("fedavg", "fedavg-unbiased", "md", "fedsampling")
    seeds = {
        m: sorted(r.seed for r in usual if (r.method, arm(r)[1]) in ((m, ""), (m, "3.0")))
        for m in drawn
    }
    assert seeds == {m: [*range(10)] for m in drawn}


ARMS = (("fedavg", ""), ("md", ""), ("fedsampling", "None"), ("fedsampling", "3.0"))


@pytest.mark.parametrize(("sweep", "arms"), [(MORE, ARMS[:3]), (ON_MNIST, ARMS)])
def test_one_class_each_epsilon_and_m_have_five_seeds(sweep, arms):
    runs = experiments.runs(sweep, "paper")
    pure = Counter(arm(r) for r in runs if r.partition == "by_class")
    assert pure == Counter(dict.fromkeys(arms, 5))
    task = runs[0].task
    usual = tuple(grid.HIDDEN[task].values())
    asked = Counter(
        (r.overrides["epsilon"], r.overrides["size_cap"])
        for r in runs
        if "size_cap" in r.overrides and r.partition != "by_class"
        and tuple(r.overrides[k] for k in ("epsilon", "size_cap")) != usual
    )  # fmt: skip
    others = [(e, usual[1]) for e in (0.5, 1.0, 10.0)] + [(usual[0], c) for c in grid.CAPS[task]]
    assert asked == Counter(dict.fromkeys(others, 5))


def test_the_two_networks_of_a_sweep_are_told_apart(tmp_path, monkeypatch):
    """Equal in all else: each record is found once, under the network that it is of."""
    shape = {"clients": 20, "rounds": 1, "overrides": {"batch": 4}}
    runs = [Run("topics", "natural", 0.01, "md", 0, network=n, **shape) for n in grid.NETWORKS]
    monkeypatch.setitem(experiments.SWEEPS, "trial", lambda profile: runs)
    assert sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False) == []
    found = tables.load_sweep("trial", tmp_path)
    assert (found.recorded, found.planned) == (2, 2)
    assert sorted(map(str, found.frame["variant"])) == ["batch 4", "batch 4, network transformer"]


def test_the_rate_with_the_least_loss_is_chosen_of_each_network_and_method(tmp_path):
    shape = {"clients": 6, "clients_per_round": 2, "rounds": 3}
    local = {"batch": 64, "steps": 5}
    runs = [
        Run("topics", "natural", 0.1, "fedavg", 0, local | {"lr": lr}, network=network, **shape)
        for network in grid.NETWORKS
        for lr in (1e-6, 0.1, 1e30)
    ]
    runs += [
        Run("topics", "natural", 0.1, "fedyogi", 0, local | {"server": Adaptive("yogi", rate)}, **shape)
        for rate in (1e-9, 0.02)
    ]  # fmt: skip
    name = "fedsampling-topics-rates"
    failed = sweeps.make(runs, name, folder=tmp_path, device="cpu", progress=False)
    assert len(failed) == 2 and all("lr 1e+30" in said for said in failed)
    found = grid_results.choose_fedsampling_rates(tmp_path)
    assert found[["network", "method", "rate"]].to_numpy().tolist() == [
        ["", "fedavg", 0.1], ["", "fedyogi", 0.02], ["transformer", "fedavg", 0.1],
    ]  # fmt: skip
    losses = records.load(tmp_path).query("round == 3").groupby("run")["train_loss"].first()
    assert set(found["train_loss"]) <= set(losses)


def test_the_rates_are_those_that_the_recorded_trials_chose():
    if not (ROOT / "results" / "fedsampling-topics-rates").exists():
        pytest.skip(
            "`fedstas sweep fedsampling-topics-rates --profile paper` records what this holds rates against"
        )
    for row in grid_results.choose_fedsampling_rates(ROOT / "results").itertuples():
        known = (
            grid.LR[row.network] if row.method == "fedavg" else grid.SERVER[row.network, row.method]
        )
        assert known == row.rate, row


def test_all_recorded_runs_by_class_are_found_though_the_data_set_their_size():
    grid_ = tables.load_sweep("fedsampling-mnist-ablations", ROOT / "results")
    assert grid_.recorded == grid_.planned == 221
    assert (grid_.frame.drop_duplicates("run")["partition"] == "by_class").sum() == 20
