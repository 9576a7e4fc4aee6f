"""The project's template of a design, and the leaderboard of recorded runs."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.runs import leaderboard, records
from fedstas import cli, methods
from fedstas.aggregation import Average
from fedstas.client_sampling import Cohort
from fedstas.data_sampling import FixedRate
from fedstas.errors import InputError
from fedstas.methods import LocalSGD, Method
from fedstas.sim import simulation

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def template():
    """Import the template of a design, examples/design/my_design.py."""
    spec = importlib.util.spec_from_file_location(
        "my_design", ROOT / "examples" / "design" / "my_design.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_design"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["my_design"]


def test_the_template_is_accepted_by_the_simulation(template):
    task, federation = leaderboard.load_arena(0)
    method = leaderboard.make_entrant(template.NAME, template.MyDesign())
    settings = {"rounds": 2, "clients_per_round": 10, "seed": 0, "device": "cpu"}
    first = simulation.run(task, federation, method, **settings)
    second = simulation.run(task, federation, method, **settings)
    pd.testing.assert_frame_equal(
        first.frame.drop(columns="seconds"), second.frame.drop(columns="seconds")
    )
    assert np.isfinite(first.frame["train_loss"]).all() and len(first.cohorts) == 2


@pytest.mark.parametrize(
    ("design", "verdict"),
    [
        (None, "ok     unbiased             for sum of n_k/n u_k"),
        ("power-of-choice", "biased unbiased"),
    ],
)
def test_the_template_audits_its_design_as_the_command_does(template, design, verdict):
    clients = methods.get(design).clients if design else template.MyDesign()
    assert verdict in template.audit_design(Method("audited", clients), draws=400)


def test_designs_that_cannot_enter_are_refused_with_a_reason(template):
    with pytest.raises(InputError, match=r"put @dataclass\(frozen=True\) above class Bare"):
        leaderboard.make_entrant("mine", type("Bare", (), {"draw": lambda *_: None})())
    with pytest.raises(InputError, match="has no method draw"):
        leaderboard.make_entrant("mine", object())
    with pytest.raises(InputError, match="choose another"):
        leaderboard.make_entrant("md", template.MyDesign())
    with pytest.raises(InputError, match="power is 3"):
        template.MyDesign(3)


@pytest.fixture(scope="module")
def recorded_folder(tmp_path_factory, template):
    """Return a folder of two-round runs: three seeds of the template and of md, one of fedavg."""
    folder = tmp_path_factory.mktemp("runs")
    entrant = leaderboard.make_entrant(template.NAME, template.MyDesign())
    for method, seeds in (
        (entrant, 3),
        (leaderboard.get_baseline("md"), 3),
        (leaderboard.get_baseline("fedavg"), 1),
    ):
        leaderboard.record_runs(method, range(seeds), folder, rounds=2)
    return folder


def test_the_leaderboard_has_the_numbers_of_the_recorded_runs(recorded_folder):
    ranking = leaderboard.rank_methods([recorded_folder]).set_index("method")
    frame = records.load(recorded_folder)
    last = frame[frame["round"] == 2]
    assert list(ranking["rank"]) == [1, 2, 3] and ranking["accuracy"].is_monotonic_decreasing
    for method, rows in last.groupby("method"):
        row = ranking.loc[method]
        assert row["seeds"] == len(rows)
        # The mean of the last ten rounds is that of both rounds here.
        accuracies = frame[frame["method"] == method]["test_accuracy"]
        assert row["accuracy"] == pytest.approx(100 * accuracies.mean())
        assert row["MB"] == pytest.approx((rows["bytes_down"] + rows["bytes_up"]).mean() / 1e6)
        assert row["examples"] == rows["examples"].mean()
    of_template, md = (
        100 * frame[frame["method"] == name].groupby("seed")["test_accuracy"].mean()
        for name in ("my-design", "md")
    )
    gains = of_template - md
    assert ranking.loc["my-design", "gain"] == pytest.approx(gains.mean())
    half_width = 4.302653 * gains.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom
    assert ranking.loc["my-design", "gain_interval"] == pytest.approx(half_width, rel=1e-6)
    assert np.isnan(ranking.loc["fedavg", "interval"]) and np.isnan(ranking.loc["md", "gain"])


def test_final_accuracy_is_the_mean_of_the_last_ten_rounds_and_md_has_the_same_local_work(
    monkeypatch,
):
    """Two sweeps on one federation: 3 steps of 128, and 20 of 32; md is 10 and 50 %, fedavg 4 points above."""
    rows, identities = [], {}
    for steps, base in ((3, 0.1), (20, 0.5)):
        for method, more in (("md", 0.0), ("fedavg", 0.04)):
            run = f"{method}{steps}"
            method_of_run = methods.get(method, steps=steps)
            setting = {"task": "digits", "digest": "d", "clients": 9, "clients_per_round": 3}
            setting |= {"partition": {"name": "iid", "seed": 0, "clients": 9}}
            setting |= {"rounds": 30, "eval_every": 5, "seed": 0}
            version = methods.version(method_of_run)
            identities[run] = setting | {
                "method": methods.to_dict(method_of_run),
                "algorithms": version,
            }
            for t in (5, 25, 30):  # round 5 is none of the last ten
                value = 0.99 if t == 5 else base + more + (0.01 if t == 30 else -0.01)
                rows.append((run, "a sweep", "digits", 0, 30, t, value, 1e6, 1e6, 5))
    columns = ["run", "sweep", "task", "seed", "rounds", "round", "test_accuracy"]
    frame = pd.DataFrame(rows, columns=[*columns, "bytes_down", "bytes_up", "examples"])
    monkeypatch.setattr(records, "identities", lambda folder: identities)
    monkeypatch.setattr(records, "load", lambda folder: frame)
    ranking = leaderboard.rank_methods(["here", "here"])  # twice the same: counted once
    by_steps = ranking.assign(steps=[20 if "20 steps" in w else 3 for w in ranking["federation"]])
    by_steps = by_steps.set_index(["steps", "method"])
    expected = {(3, "md"): 10, (20, "md"): 50, (3, "fedavg"): 14, (20, "fedavg"): 54}
    assert by_steps["accuracy"].to_dict() == pytest.approx(expected)
    assert [by_steps.loc[(k, "fedavg"), "gain"] for k in (3, 20)] == pytest.approx([4, 4])
    assert ranking["seeds"].eq(1).all() and ranking["diverged"].eq(0).all()

    # FedAvg's runs diverge before their last round: they are counted, and in no mean.
    frame = frame[(frame["round"] < 30) | frame["run"].str.startswith("md")]
    monkeypatch.setattr(records, "load", lambda folder: frame)
    ranking = leaderboard.rank_methods(["here"])
    of_fedavg = ranking[ranking["method"] == "fedavg"]
    assert of_fedavg["seeds"].eq(0).all() and of_fedavg["diverged"].eq(1).all()
    assert of_fedavg["accuracy"].isna().all() and of_fedavg["rank"].eq(2).all()


def test_the_leaderboard_is_formatted_as_a_markdown_table(recorded_folder):
    text = leaderboard.format_markdown(leaderboard.rank_methods([recorded_folder]))
    lines = text.split("\n")
    assert lines[0] == (
        "**digits, dirichlet, concentration 0.1: 50 clients, 10 a round, 2 rounds of 3 steps of 128 at rate 0.1, "
        "evaluated at the end**"
    )
    assert lines[2] == "| rank | method | seeds | accuracy | against md | MB | examples |"
    assert len({line.count("|") for line in lines[2:]}) == 1 and len(lines) == 7
    assert "nan" not in text


def test_a_users_design_is_trained_again_and_a_recorded_baseline_is_not(
    recorded_folder, template, monkeypatch
):
    monkeypatch.setattr(simulation, "run", lambda *a, **k: pytest.fail("trained"))
    leaderboard.record_runs(leaderboard.get_baseline("md"), range(3), recorded_folder, rounds=2)
    with pytest.raises(pytest.fail.Exception, match="trained"):
        leaderboard.record_runs(
            leaderboard.make_entrant(template.NAME, template.MyDesign()), [0], recorded_folder, 2
        )


def record_run(
    folder, accuracy, name="md", seed=0, recipe=None, digest="d", version=None, **settings
):
    """Record a run, not a trained one, that ends with this accuracy."""
    shape = {"rounds": 4, "clients_per_round": 2, "eval_every": 2}
    shape |= {key: settings.pop(key) for key in [*shape] if key in settings}
    method = methods.get(name, **settings) if name in methods.names() else Method(name, **settings)
    identity = shape | {"task": "mnist", "digest": digest, "clients": 9, "seed": seed}
    partition = {"name": "lognormal", "clients": 9, "sigma": 1.5} | (recipe or {})
    identity |= {"partition": partition | {"seed": seed}, "method": methods.to_dict(method)}
    identity |= {"algorithms": methods.version(method) if version is None else version}
    rounds = records.evaluated_rounds(identity)
    frame = pd.DataFrame({c: [1.0] * len(rounds) for c in simulation.COLUMNS})
    frame = frame.assign(round=rounds, test_accuracy=accuracy / 100).astype(simulation.COLUMNS)
    records.save(simulation.History(frame, None, [], {}), identity, "made-up", folder, device="cpu")


def test_runs_of_different_settings_are_in_different_tables(tmp_path):
    """Each change of a setting makes another table, and `md` is compared with the others of its own table alone."""
    record_run(tmp_path, 50, "fedprox")
    record_run(tmp_path, 51)
    changes = [
        {"steps": 20},
        {"batch": 64},
        {"lr": 0.1},
        {"rounds": 6},
        {"eval_every": 4},
        {"clients_per_round": 3},
        {"recipe": {"sigma": 0.0}},
        {"recipe": {"name": "iid"}},
        {"digest": "e"},
    ]
    for k, change in enumerate(changes):
        record_run(tmp_path, 60 + k, **change)
    ranking = leaderboard.rank_methods([tmp_path])
    tables = ranking["federation"].nunique()
    assert tables == 1 + len(changes)
    assert len(ranking) == tables + 1  # the first table holds two methods, the others md alone
    prox = ranking[ranking["method"] == "fedprox"].iloc[0]
    assert prox["gain"] == pytest.approx(-1)  # 50 % against the 51 % of md in the same table
    setting = "mnist, lognormal, sigma 1.5: 9 clients, 2 a round, 4 rounds of 3 steps of 128 at rate 0.01, evaluated every 2"
    assert prox["federation"].startswith(setting)
    titles = ranking[ranking["federation"].str.startswith(setting)]["federation"].unique()
    # Two tables differ by the digest of the data alone: the title of the second ends with a hash in brackets.
    assert len(titles) == 2 and sum("[" in title for title in titles) == 1


def test_the_gain_is_over_the_seeds_that_both_have(tmp_path):
    for seed, accuracy in ((0, 10), (1, 20), (2, 90)):
        record_run(tmp_path, accuracy, seed=seed)
    for seed, accuracy in ((0, 13), (1, 25), (7, 0)):
        record_run(tmp_path, accuracy, "clustered-similarity", seed=seed)
    record_run(tmp_path, 0, steps=1)
    record_run(tmp_path, 0, recipe={"clients": 8, "name": "iid"})
    row = leaderboard.rank_methods([tmp_path]).set_index("method").loc["clustered-similarity"]
    assert (row["seeds"], row["gain"]) == (3, pytest.approx(4))
    assert row["gain_interval"] == pytest.approx(12.7062047364)  # t of 1 degree of freedom, times 1


def test_names_of_methods_have_the_settings_that_differ_from_the_default(tmp_path, template):
    size_selection = {"replace": False, "selection": "size"}
    expected = {
        "md": ("md", {}),
        "md (FixedRate, rate 0.5)": ("md", {"data": FixedRate(0.5)}),
        "md (server rate 0.5)": ("md", {"server": Average(0.5)}),
        "fedprox (prox 1)": ("fedprox", {"prox": 1}),
        "fedstas (restratify every 10, replace)": (
            "fedstas",
            {"restratify_every": 10, "replace": True},
        ),
        "fedstas (version 1)": ("fedstas", {"version": 1}),
        "fedstas-unbiased (StratifiedHorvitzThompson, selection size)": (
            "fedstas-unbiased",
            size_selection,
        ),
        "fedsampling (no epsilon)": ("fedsampling", {"epsilon": None}),
        "fedstas-authors-dec": ("fedstas-authors-dec", {}),
        "mine (power 0.5)": ("mine", {"clients": template.MyDesign(0.5)}),
        "mine (power 1)": ("mine", {"clients": template.MyDesign(1.0)}),
        "alone": ("alone", {"clients": template.MyDesign(1.0)}),
    }
    for name, settings in expected.values():
        local = {"batch": 64} if name in methods.names() else {"local": LocalSGD(batch=64)}
        record_run(tmp_path, 50, name, **local, **settings)
    assert set(leaderboard.rank_methods([tmp_path])["method"]) == set(expected)


def test_gains_in_the_recorded_runs_are_paired_at_equal_local_work():
    """Gains are paired at equal local work: on CIFAR-100, and of FedProx in the papers' setting."""
    ranking = leaderboard.rank_methods([ROOT / "results"])
    cifar = ranking[ranking["federation"].str.contains("cifar100.*20 steps of 32 at rate 0.1,")]
    cifar = cifar.set_index("method")["gain"]
    assert round(cifar["clustered-similarity"], 1) == -0.6
    prox = ranking["federation"].str.contains("dirichlet,.*evaluated every round")
    prox = ranking[(ranking["method"] == "fedprox") & prox]
    assert [round(gain, 2) for gain in prox["gain"]] == [-0.01]
    assert not ranking["method"].str.contains("[", regex=False).any()
    assert not ranking.duplicated(["federation", "method"]).any()


def test_a_design_whose_code_changed_is_not_recorded_beside_its_packed_run(tmp_path, template):
    entrant = leaderboard.make_entrant(template.NAME, template.MyDesign())
    leaderboard.record_runs(entrant, [0], tmp_path, rounds=1)
    records.pack(tmp_path / "project")
    leaderboard.record_runs(entrant, [0], tmp_path, rounds=1)  # equal results may be recorded twice
    records.pack(tmp_path / "project")
    changed = dataclasses.replace(entrant, clients=template.MyDesign())
    object.__setattr__(
        changed.clients, "draw", lambda view, m, rng: Cohort(np.arange(m), np.full(m, 1 / m))
    )
    with pytest.raises(
        InputError, match=r"packed run of my-design, seed 0, .* the code has changed since. Give"
    ):
        leaderboard.record_runs(changed, [0], tmp_path, rounds=1)
    assert len(leaderboard.rank_methods([tmp_path])) == 1
    assert {p.name for p in (tmp_path / "project").iterdir()} == {records.ROWS, records.RUNS}


def test_unknown_folders_tasks_and_metrics_are_refused(tmp_path, recorded_folder):
    with pytest.raises(InputError, match="there are no recorded runs below"):
        leaderboard.rank_methods([tmp_path])
    with pytest.raises(InputError, match="no run of task 'mnist'"):
        leaderboard.rank_methods([recorded_folder], task="mnist")
    with pytest.raises(InputError, match="unknown metric 'loss'"):
        leaderboard.rank_methods([recorded_folder], metric="loss")


def test_the_command_leaderboard_writes_a_table(tmp_path, recorded_folder):
    table = tmp_path / "table.md"
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["leaderboard", str(recorded_folder), "-o", str(table)])
    assert exit_info.value.code == 0 and "my-design" in table.read_text(encoding="utf-8")
