"""The sweeps of FedSampling's slides: their runs, that no run is in two sweeps, and the choice of learning rates."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from companion.runs import experiments, grid_results, records, sweeps, tables
from companion.runs import fedsampling_grid as grid
from companion.runs.sweeps import Run
from fedstas import methods, privacy
from fedstas.aggregation import Adaptive

ROOT = Path(__file__).parents[1]
TABLE, TOPICS_ABLATIONS, MNIST_ABLATIONS = (
    f"fedsampling-{suffix}" for suffix in ("topics", "topics-ablations", "mnist-ablations")
)
# (method, epsilon): FedSampling with the true total, and with private sizes of the usual epsilon 3.
ARMS = (("fedavg", ""), ("md", ""), ("fedsampling", "None"), ("fedsampling", "3.0"))


def get_arm(run: Run) -> tuple[str, str]:
    """Return (method, epsilon) of a run, of FedOpt (kind of server, weights)."""
    method = methods.get(run.method, **run.overrides)
    if run.method in grid.FEDOPT:
        return method.server.kind, method.clients.weights
    return run.method, str(getattr(method.data, "epsilon", ""))


def test_the_table_has_all_rows_of_the_slides_with_both_networks_and_five_seeds():
    runs = experiments.runs(TABLE, "paper")
    rows = [("centralised", ""), ("fedavg", ""), ("fedsampling", "3.0"), ("fedsampling", "None")]
    rows += [(kind, w) for kind in ("adam", "yogi", "adagrad") for w in ("cohort", "plain")]
    counts = Counter((r.network, r.seed, *get_arm(r)) for r in runs)
    assert counts == Counter(
        (network, seed, *row) for network in grid.NETWORKS for seed in range(5) for row in rows
    )
    assert {(r.task, r.partition, r.clients, r.clients_per_round, r.rounds) for r in runs} == {
        ("topics", "natural", 100, 10, 100)
    }


def get_key(run: Run) -> tuple:
    """Return what tells a run from all others: the key of its record, the partition and its sigma."""
    return tables.run_key(run), run.partition, run.sigma if run.partition == "lognormal" else None


def test_no_run_is_in_two_sweeps():
    names = ("imbalance", TABLE, TOPICS_ABLATIONS, MNIST_ABLATIONS)
    keys = [get_key(r) for name in names for r in experiments.runs(name, "paper")]
    assert len(set(keys)) == len(keys) == 24 + 100 + 170 + 221


def test_each_of_five_size_spreads_has_ten_seeds_on_mnist_and_on_topics():
    runs = [r for r in experiments.runs(MNIST_ABLATIONS, "paper") if r.partition == "lognormal"]
    runs = [r for r in runs if get_arm(r)[1] in ("", "None") or r.overrides == grid.HIDDEN["mnist"]]
    runs += experiments.runs("imbalance", "paper")
    assert Counter((r.sigma, *get_arm(r)) for r in runs) == Counter(
        {(sigma, *arm): 10 for sigma in (0.0, 0.75, 1.5, 2.25, 3.0) for arm in ARMS}
    )
    runs = [r for r in experiments.runs(TOPICS_ABLATIONS, "paper") if r.partition == "lognormal"]
    assert Counter((r.sigma, r.method) for r in runs) == Counter(
        {(g, m): 10 for g in grid.SPREADS for m in ("fedavg", "fedsampling")}
    )


def test_each_client_sampling_has_ten_seeds_on_topics():
    runs = experiments.runs(TABLE, "paper") + experiments.runs(TOPICS_ABLATIONS, "paper")
    with_default_settings = [
        r
        for r in runs
        if r.partition == "natural" and not r.network and "size_cap" not in r.overrides
    ]
    names = ("fedavg", "fedavg-unbiased", "md", "fedsampling")
    seeds = {
        m: sorted(r.seed for r in with_default_settings if get_arm(r) in ((m, ""), (m, "3.0")))
        for m in names
    }
    assert seeds == {m: [*range(10)] for m in names}


@pytest.mark.parametrize(("sweep", "arms"), [(TOPICS_ABLATIONS, ARMS[:3]), (MNIST_ABLATIONS, ARMS)])
def test_one_class_each_epsilon_and_m_have_five_seeds(sweep, arms):
    runs = experiments.runs(sweep, "paper")
    by_class = Counter(get_arm(r) for r in runs if r.partition == "by_class")
    assert by_class == Counter(dict.fromkeys(arms, 5))
    task = runs[0].task
    epsilon, size_cap = grid.HIDDEN[task].values()
    counts = Counter(
        (r.overrides["epsilon"], r.overrides["size_cap"])
        for r in runs
        if "size_cap" in r.overrides and r.partition != "by_class"
    )
    del counts[epsilon, size_cap]
    others = [(e, size_cap) for e in (0.5, 1.0, 10.0)] + [(epsilon, c) for c in grid.CAPS[task]]
    assert counts == Counter(dict.fromkeys(others, 5))


def test_runs_that_differ_in_their_network_alone_are_both_loaded(tmp_path, monkeypatch):
    shape = {"clients": 20, "rounds": 1, "overrides": {"batch": 4}}
    runs = [Run("topics", "natural", 0.01, "md", 0, network=n, **shape) for n in grid.NETWORKS]
    monkeypatch.setitem(experiments.SWEEPS, "trial", lambda profile: runs)
    assert sweeps.make(runs, "trial", folder=tmp_path, device="cpu", progress=False) == []
    sweep = tables.load_sweep("trial", tmp_path)
    assert (sweep.recorded, sweep.planned) == (2, 2)
    assert sorted(map(str, sweep.frame["variant"])) == ["batch 4", "batch 4, network transformer"]


def test_the_rate_with_the_least_loss_is_chosen_for_each_network_and_method(tmp_path):
    shape = {"clients": 6, "clients_per_round": 2, "rounds": 3}
    local = {"batch": 64, "steps": 5}
    runs = [
        Run("topics", "natural", 0.1, "fedavg", 0, local | {"lr": lr}, network=network, **shape)
        for network in grid.NETWORKS
        for lr in (1e-6, 0.1, 1e30)
    ]
    runs += [
        Run("topics", "natural", 0.1, "fedyogi", 0, local | {"server": server}, **shape)
        for server in (Adaptive("yogi", 1e-9), Adaptive("yogi", 0.02))
    ]
    name = "fedsampling-topics-rates"
    failed = sweeps.make(runs, name, folder=tmp_path, device="cpu", progress=False)
    assert len(failed) == 2 and all("lr 1e+30" in message for message in failed)
    table = grid_results.choose_fedsampling_rates(tmp_path)
    assert table[["network", "method", "rate"]].to_numpy().tolist() == [
        ["", "fedavg", 0.1],
        ["", "fedyogi", 0.02],
        ["transformer", "fedavg", 0.1],
    ]
    losses = records.load(tmp_path).query("round == 3").groupby("run")["train_loss"].first()
    assert set(table["train_loss"]) <= set(losses)


def test_the_rates_are_those_that_the_recorded_trials_chose():
    if not (ROOT / "results" / "fedsampling-topics-rates").exists():
        pytest.skip(
            "record the trials with `fedstas sweep fedsampling-topics-rates --profile paper`"
        )
    rows = list(grid_results.choose_fedsampling_rates(ROOT / "results").itertuples())
    assert rows
    for row in rows:
        is_fedavg = row.method == "fedavg"
        rate = grid.LR[row.network] if is_fedavg else grid.SERVER[row.network, row.method]
        assert rate == row.rate, row


@pytest.mark.parametrize(
    ("sweep", "lr", "server"),
    [
        ("fedsampling-text-rates", grid.POSTS_LR, grid.POSTS_SERVER),
        *(
            (f"fedsampling-posts-{name}-rates", grid.WORDS_LR[network], grid.WORDS_SERVER[network])
            for name, network in {"text-cnn": "", "transformer": "transformer"}.items()
        ),
    ],
)
def test_the_rates_on_posts_are_those_that_the_recorded_trials_chose(sweep, lr, server):
    rows = list(grid_results.choose_fedsampling_rates(ROOT / "results", sweep).itertuples())
    assert {row.method for row in rows} == {"fedavg", *grid.FEDOPT}
    for row in rows:
        assert row.rate == ({"fedavg": lr} | server)[row.method], row


def test_real_text_has_the_rows_of_the_slides_on_both_corpora_and_five_seeds():
    runs = experiments.runs("fedsampling-text", "paper")
    rows = [("centralised", ""), ("fedavg", ""), ("fedsampling", "3.0"), ("fedsampling", "None")]
    rows += [(kind, "plain") for kind in ("adam", "yogi", "adagrad")]
    drawn = [("md", ""), ("fedavg-unbiased", "")]
    places = {("reuters-titles", "lognormal"): rows, ("newsgroups", "natural"): rows + drawn}
    assert Counter((r.task, r.partition, r.seed, *get_arm(r)) for r in runs) == Counter(
        (*place, seed, *row)
        for place, rows_there in places.items()
        for seed in range(5)
        for row in rows_there
    )


def test_the_transformer_has_the_runs_of_the_text_cnn_on_titles():
    on_titles = [r for r in experiments.runs("fedsampling-text", "paper") if r.task != "newsgroups"]
    by_transformer = experiments.runs("fedsampling-text-transformer", "paper")
    assert by_transformer == [replace(run, network="transformer") for run in on_titles]


@pytest.mark.parametrize(
    ("sweep", "network"),
    [("fedsampling-posts-text-cnn", ""), ("fedsampling-posts-transformer", "transformer")],
)
def test_both_networks_have_all_arms_on_the_words_of_posts_and_five_seeds(sweep, network):
    runs = experiments.runs(sweep, "paper")
    arms = {
        (r.seed, *get_arm(r))
        for r in experiments.runs("fedsampling-text", "paper")
        if r.task == "newsgroups" and r.method not in ("md", "fedavg-unbiased")
    }
    assert len(runs) == len(arms) and {(r.seed, *get_arm(r)) for r in runs} == arms
    assert {(r.task, r.partition, r.network) for r in runs} == {
        ("newsgroups-words", "natural", network)
    }


def test_all_recorded_runs_by_class_are_loaded_although_the_data_determine_their_size():
    sweep = tables.load_sweep("fedsampling-mnist-ablations", ROOT / "results")
    assert sweep.recorded == sweep.planned == 221
    assert (sweep.frame.drop_duplicates("run")["partition"] == "by_class").sum() == 20


def test_images_are_run_with_the_network_and_settings_of_the_authors_code():
    runs = grid.mnist_convolutional("paper")
    assert {(r.task, r.partition, r.network, r.rounds) for r in runs} == {
        ("mnist", "by_class", "convolutional-grey", 40)
    }
    used = {(r.seed, methods.get(r.method, **r.overrides)) for r in runs}
    assert len(used) == len(runs) == 20 and {m.local.lr for _, m in used} == {0.05}
    sampled = {m for _, m in used if m.name == "fedsampling"}
    for method in sampled:
        clients, data = method.clients, method.data
        assert clients.share * 60_000 == 1200 and data.size_cap == 700
        assert clients.fraction * data.share == pytest.approx(clients.share)  # 1,200 are drawn
        assert privacy.truth_probability(data.epsilon, 700) == pytest.approx(0.5)
    assert {m.clients.fraction for m in sampled} == {1, 0.1}
