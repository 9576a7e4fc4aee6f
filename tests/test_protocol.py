"""The comparison's protocol: refused files, the choice of rates, the accuracy at a budget, and gains."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy import stats

from companion.runs import protocol, records, statistics, sweeps
from fedstas import cli, partition
from fedstas.errors import InputError
from fedstas.sim import tasks

TINY = {
    "rounds": 6,
    "evaluate_every": 2,
    "megabytes": [0.2, 0.5],
    "rates": [0.1, 0.3, 1.0],
    "tuning_seeds": [100],
    "evaluation_seeds": [0, 1],
    "reference": "md",
    "min_effect": 1.0,
    "arms": {
        "md": {"method": "md"},
        "cut": {"method": "fedstas-least-variance"},
        "everyone": {"method": "fedstas-least-variance", "clients_per_round": 100},
    },
    "settings": {
        "small": {
            "title": "digits",
            "task": "digits",
            "partition": "dirichlet",
            "concentration": 0.1,
            "clients": 12,
            "clients_per_round": 4,
        },
    },
}
TINY["settings"]["smaller"] = TINY["settings"]["small"] | {
    "clients_per_round": 3,
    "rates_of": "small",
    "arms": ["md", "cut"],
}
DESIGN = '''
from dataclasses import dataclass

from fedstas.client_sampling import Cohort


@dataclass(frozen=True)
class BySize:
    """Draws with replacement, p as a power of the size, weights that keep it unbiased."""

    power: float = 1.0

    def draw(self, view, m, rng):
        p = view.sizes**self.power / (view.sizes**self.power).sum()
        chosen = rng.choice(view.clients, m, p=p)
        return Cohort(chosen, (view.sizes / view.sizes.sum())[chosen] / (m * p[chosen]))
'''


def write_protocol(tmp_path, **changed):
    """Write the tiny protocol with some entries changed; return the path."""
    path = tmp_path / "protocol.yml"
    path.write_text(yaml.safe_dump(TINY | changed), encoding="utf-8")
    return path


def change_setting(**changed):
    """Return the protocol's entry `settings` with the setting `small` alone, changed."""
    return {"settings": {"small": TINY["settings"]["small"] | changed}}


REFUSED = {
    "unknown method 'mdd'": {"arms": {"md": {"method": "mdd"}}},
    "no setting 'stratum'": {"arms": {"md": {"method": "md", "settings": {"stratum": 3}}}},
    "rates is []": {"rates": []},
    "has 2 rates": {"rates": [0.1, 0.3]},
    "rates of setting small is -0.1": {"rates": [-0.1, 0.1, 1.0]},
    "tunes and evaluates on seed 1": {"tuning_seeds": [100, 1]},
    "evaluation_seeds is []": {"evaluation_seeds": []},
    "unknown reference of setting small 'fedavg'": {"reference": "fedavg"},
    "unknown task 'minst'": change_setting(task="minst"),
    "unknown partition 'dirichlett'": change_setting(partition="dirichlett"),
    "unknown arm of setting small 'mdd'": change_setting(arms=["mdd"]),
    "unknown key of setting small 'cients'": change_setting(cients=3),
    "clients_per_round of setting small is 0": change_setting(clients_per_round=0),
    "unknown arm of setting small that runs longer 'mdd'": change_setting(longer={"mdd": 9}),
    "longer of setting small, md: is 5": change_setting(longer={"md": 5}),
    "unknown rates_of": change_setting(rates_of="smal"),
    "lacks rounds": {"rounds": None},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_protocol_is_refused_with_the_name_of_the_entry(tmp_path, message):
    changed = REFUSED[message]
    path = write_protocol(tmp_path, **changed)
    if changed == {"rounds": None}:
        path.write_text(
            yaml.safe_dump({k: v for k, v in TINY.items() if k != "rounds"}), encoding="utf-8"
        )
    with pytest.raises(InputError) as error:
        protocol.read(path)
    assert message in str(error.value)
    assert "protocol.yml" in str(error.value)


@pytest.mark.parametrize("text", ["", "[1, 2]", "rounds: {", "arms: 3"])
def test_a_file_that_is_no_protocol_is_reported_in_one_sentence(tmp_path, text):
    path = tmp_path / "p.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.yml"):
        protocol.read(path)


def test_the_number_of_classes_is_known_for_each_task():
    assert protocol.CLASSES.keys() == set(tasks.names())
    assert protocol.CLASSES["cifar100-coarse"] == 20


def test_the_book_s_protocol_separates_its_seeds_and_compares_all_methods():
    settings = protocol.read()
    for setting in settings.values():
        assert not set(setting.tuning_seeds) & set(setting.evaluation_seeds)
        assert len(setting.evaluation_seeds) >= 5
        assert list(setting.rates) == sorted(setting.rates)
    every = {"md", "fedavg", "fedavg-unbiased", "clustered-size", "clustered-similarity", "fedsts"}
    every |= {"fedstas", "fedstas-unbiased", "optimal-client-sampling", "power-of-choice", "divfl"}
    assert every < {arm.method for arm in settings["mnist"].arms}
    assert settings["mnist-m5"].rates_of == "mnist"


def test_an_arm_that_sends_less_per_round_is_evaluated_for_longer(tmp_path):
    setting = protocol.read(write_protocol(tmp_path, longer={"md": 8}))["small"]
    md, cut = (next(a for a in setting.arms if a.name == name) for name in ("md", "cut"))
    assert setting.plan_run(md, 0.1, 0).rounds == 8
    assert setting.plan_run(md, 0.1, 100).rounds == setting.plan_run(cut, 0.1, 0).rounds == 6
    assert protocol.read()["mnist"].longer["md"] > protocol.read()["mnist"].rounds


def make_linear_run(slope: float, rounds=(10, 20, 30), classes=10) -> pd.DataFrame:
    """Make a run whose accuracy is 1/classes at the start and rises by `slope` per megabyte, at ten megabytes a round."""
    x = np.array(rounds, dtype=float)
    return pd.DataFrame(
        {"round": x, "megabytes": 10 * x, "test_accuracy": 1 / classes + slope * 10 * x}
    ).assign(ended=False, worst_decile=0.0)


@pytest.mark.parametrize("budget", [50.0, 100.0, 155.0, 300.0])
def test_accuracy_at_a_budget_is_the_mean_of_the_last_tenth_of_the_curve(budget):
    # On a line that is its value in the middle of that tenth, whether or not it was evaluated there.
    accuracy = protocol.accuracy_at_budget(make_linear_run(0.001), "megabytes", budget, 10)
    assert accuracy == pytest.approx(0.1 + 0.001 * 0.95 * budget, abs=1e-12)


def test_a_run_counts_with_its_last_accuracy_after_its_end_and_a_diverged_one_with_that_of_a_guess():
    run = make_linear_run(0.001)
    assert protocol.accuracy_at_budget(run, "megabytes", 1000.0, 10) == pytest.approx(0.4)
    assert protocol.accuracy_at_budget(run.assign(ended=True), "megabytes", 300.0, 10) == 0.1


def test_the_cost_to_reach_an_accuracy_is_interpolated():
    run = make_linear_run(0.001)
    assert protocol._cost_to_reach(run, "megabytes", 0.3) == pytest.approx(200)
    assert protocol._cost_to_reach(run, "round", 0.25) == pytest.approx(15)
    assert np.isnan(protocol._cost_to_reach(run, "round", 0.5))


def test_a_grid_of_rates_is_completed_and_then_extended_where_its_optimum_is_at_an_end():
    rates = (0.01, 0.03, 0.1)
    row = pd.Series({0.01: 0.5, 0.03: np.nan, 0.1: 0.7})
    assert protocol.propose_rates(row, rates) == [0.03]
    assert protocol.propose_rates(row.fillna(0.6), rates) == [0.3]
    assert protocol.propose_rates(row.fillna(0.8), rates) == []
    assert protocol.propose_rates(pd.Series({0.01: 0.9, 0.03: 0.8, 0.1: 0.7}), rates) == [0.003]
    grown = pd.Series({0.01: 0.3, 0.03: 0.4, 0.1: 0.5, 0.3: 0.6, 0.9: 0.7})
    assert protocol.propose_rates(grown, rates) == [3.0]
    grown[3.0] = 0.8  # the third time that the grid grew, so that it is the last
    assert protocol.propose_rates(grown, rates) == []
    # Equal at the end and inside: the smaller is chosen.
    table = pd.DataFrame({0.01: [0.7, np.nan], 0.03: [0.7, np.nan]}, index=["a", "b"])
    best = protocol.choose_rates(table)
    assert best["a"] == 0.01
    assert np.isnan(best["b"])


@pytest.fixture(scope="module")
def settings_and_folder(tmp_path_factory):
    """Carry out the tiny protocol, with a user's design in it; return its settings and the folder of its runs."""
    folder = tmp_path_factory.mktemp("arena")
    design = folder / "by_size.py"
    design.write_text(DESIGN, encoding="utf-8")
    settings = protocol.read(write_protocol(folder))
    settings["small"] = protocol.add_arm(settings["small"], str(design))
    for name in settings:
        assert protocol.carry_out(settings, name, folder=folder, progress=False) == []
    return settings, folder


def load_curves_of(settings_and_folder, name):
    """Load the curves of a setting."""
    settings, folder = settings_and_folder
    return protocol.load_curves(settings[name], [folder])


def test_rates_are_tuned_on_their_own_seeds_and_evaluated_on_others(settings_and_folder):
    settings, _ = settings_and_folder
    rows = load_curves_of(settings_and_folder, "small")
    table = protocol.tabulate_rates(settings["small"], rows)
    assert not table[list(TINY["rates"])].isna().any(axis=None)
    best = protocol.choose_rates(table)
    evaluated = rows[rows["seed"].isin([0, 1])].groupby("arm")["rate"].unique()
    for arm, rate in best.items():
        assert evaluated[arm].tolist() == [rate]
        inside = table.loc[arm].dropna().index.tolist()
        ended = rate in (inside[0], inside[-1])
        assert not ended or len(inside) == len(TINY["rates"]) + protocol.MAX_EXTENSIONS
    # With other participants the rates are those of `small`; what is tuned there is not tuned again.
    other = load_curves_of(settings_and_folder, "smaller")
    assert set(other["seed"]) == {0, 1}
    assert (other["rate"] == other["arm"].map(best)).all()


def test_recorded_runs_are_not_run_again(settings_and_folder, monkeypatch):
    settings, folder = settings_and_folder
    monkeypatch.setattr(sweeps, "make", lambda *a, **k: pytest.fail("run again"))
    for name in settings:
        assert protocol.carry_out(settings, name, folder=folder) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": [0, 5]}, "unknown seed of evaluation of setting small 5: use one of 0, 1"),
        ({"jobs": 0}, "jobs"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
    ],
)
def test_bad_options_are_refused_even_where_no_run_is_missing(
    settings_and_folder, options, message
):
    settings, folder = settings_and_folder
    with pytest.raises(InputError, match=message):
        protocol.carry_out(settings, "small", folder=folder, **options)


def test_an_arm_cannot_set_the_rate_that_is_tuned(settings_and_folder):
    with pytest.raises(InputError, match=r"md lr=0\.1: lr is what is tuned; leave it out"):
        protocol.add_arm(settings_and_folder[0]["small"], "md lr=0.1")


def test_a_user_s_design_is_compared_with_the_others(settings_and_folder):
    # BySize with power 1 is md: the same draws, weights and curve.
    settings, folder = settings_and_folder
    outcomes = protocol.compute_outcomes(settings, "small", [folder])
    design = outcomes[outcomes["arm"] == "by_size.py:BySize"].set_index("seed")
    md = outcomes[outcomes["arm"] == "md"].set_index("seed")
    columns = ["rate", "large", "small", "rounds", "examples", "loss", "megabytes_to_goal"]
    pd.testing.assert_frame_equal(design[columns], md[columns])
    with pytest.raises(InputError, match="in setting small already"):
        protocol.add_arm(settings["small"], "md")


def test_the_reference_alone_gives_an_empty_table_of_gains(settings_and_folder):
    # As after a change of a user's design: none of its runs is recorded yet.
    settings, folder = settings_and_folder
    outcomes = protocol.compute_outcomes(settings, "small", [folder])
    table = protocol.compute_gains(outcomes[outcomes["arm"] == "md"], "md")
    assert len(table) == 0 and {"arm", "metric", "gain", "holm"} <= set(table)
    reference = [arm for arm in settings["small"].arms if arm.name == "md"]
    report = protocol.format_report(
        {"small": replace(settings["small"], arms=tuple(reference))}, "small", [folder]
    )
    assert report.splitlines()[-1].startswith("md ")


def test_a_run_of_all_clients_has_no_variance_of_the_draw(settings_and_folder):
    settings, folder = settings_and_folder
    frame = records.load(folder)
    one = frame[frame["clients_per_round"] == 100]
    assert (one["participants"] == one["participants"].iloc[0]).all()
    assert "everyone" in protocol.format_report(settings, "small", [folder])


def test_a_user_s_design_is_compared_where_the_rates_are_those_of_another_setting(
    settings_and_folder,
):
    settings, folder = settings_and_folder
    # Without the design among the arms of `small`, whose rates `smaller` takes over.
    settings = settings | {"small": replace(settings["small"], arms=settings["small"].arms[:-1])}
    settings |= {"smaller": protocol.add_arm(settings["smaller"], str(folder / "by_size.py"))}
    assert protocol.carry_out(settings, "smaller", folder=folder, progress=False) == []
    outcomes = protocol.compute_outcomes(settings, "smaller", [folder])
    assert set(outcomes["arm"]) == {"md", "cut", "by_size.py:BySize"}


def test_a_run_that_diverges_before_its_first_evaluation_has_the_accuracy_of_a_guess(tmp_path):
    # At 10^30 the model is not finite after a round; at the others it learns, or not: both are known.
    settings = protocol.read(write_protocol(tmp_path, rates=[0.1, 0.3, 1e30], evaluation_seeds=[0]))
    failures = protocol.carry_out(settings, "small", folder=tmp_path, arm="md", progress=False)
    assert any("not finite" in text for text in failures)
    table = protocol.tabulate_rates(
        settings["small"], protocol.load_curves(settings["small"], [tmp_path])
    )
    assert table.loc["md", 1e30] == pytest.approx(0.1)
    rows = protocol.load_curves(settings["small"], [tmp_path])
    worst = rows[rows["ended"]].assign(seed=0)
    assert protocol.accuracy_at_budget(worst, "megabytes", 0.5, 10) == 0.1
    assert worst["worst_decile"].iloc[0] == 0  # a guess serves its worst tenth with nothing


def test_gains_are_paired_and_the_primary_outcome_is_corrected():
    seeds = np.arange(5)
    md, other = np.array([50.0, 60, 55, 58, 52]), np.array([53.0, 61, 60, 59, 57])
    parts = [
        pd.DataFrame({"arm": arm, "seed": seeds} | dict.fromkeys(protocol.METRICS, values))
        for arm, values in (("md", md), ("other", other), ("same", md[::-1]))
    ]
    table = protocol.compute_gains(pd.concat(parts), "md").set_index(["arm", "metric"])
    row = table.loc["other", "large"]
    assert row["gain"] == pytest.approx((other - md).mean())
    assert row["p"] == pytest.approx(stats.ttest_rel(other, md).pvalue)
    assert row["low"] == pytest.approx(stats.ttest_rel(other, md).confidence_interval().low)
    p = table["p"][table.index.get_level_values("metric").isin(["large", "small"])]
    np.testing.assert_allclose(table["holm"].dropna(), statistics.holm(p))
    assert np.isnan(table.loc["other", "rounds"]["holm"])


def test_tuning_that_stops_before_the_budget_is_refused(tmp_path):
    arms = TINY["arms"] | {"md": {"method": "md", "tuning_rounds": 2}}
    settings = protocol.read(write_protocol(tmp_path, arms=arms))
    with pytest.raises(InputError, match=r"md in setting small sent .* give it more tuning_rounds"):
        protocol.carry_out(settings, "small", folder=tmp_path, arm="md", progress=False)


def test_the_command_reports_a_setting_and_refuses_an_unknown_one(settings_and_folder, capsys):
    _, folder = settings_and_folder
    command = [
        "arena",
        "--file",
        str(folder / "protocol.yml"),
        "--folder",
        str(folder),
        "--setting",
    ]
    with pytest.raises(SystemExit, match="0"):
        cli.main([*command, "small"])
    assert "everyone" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        cli.main([*command, "big"])
    assert "unknown setting 'big': use one of small, smaller" in capsys.readouterr().err


def test_the_worst_decile_of_a_constant_prediction_is_0_unless_every_client_holds_its_class(digits):
    # A model that always says 0: clients without any 0 have accuracy 0; here all hold one class each.
    federation = partition.by_class(digits.train_y, 2, 10, seed=0)
    module = digits.model(0)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
        module.output.bias[0] = 1.0
    flat = torch.cat([p.detach().flatten() for p in module.parameters()]).numpy()
    assert sweeps.worst_decile(digits, federation, flat) == 0.0
    zeros = partition.federation(digits.train_y, [np.flatnonzero(digits.train_y.numpy() == 0)])
    assert sweeps.worst_decile(digits, zeros, flat) == 1.0
