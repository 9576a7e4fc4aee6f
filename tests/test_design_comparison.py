"""Chapter 10's tables, figures and sentences, on small made-up records whose answers are known."""

import re
from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest

from companion.pages import design_comparison, parameters
from companion.runs import protocol, statistics
from fedstas import methods
from fedstas.sim.simulation import COLUMNS

matplotlib.use("Agg")
SETTINGS = protocol.read()
DIGITS = SETTINGS["digits"]
# By arm: its runs less MD's, in points, on three seeds, at the larger budget and at the smaller one.
GAINS = {
    "fedstas-unbiased": ([5.0, 5.1, 4.9], [9.0, 9.1, 8.9]),  # better
    "clustered-size": ([0.1, -0.1, 0.0], [2.0, 2.1, 1.9]),  # no worse; better
    "divfl": ([-5.0, -5.1, -4.9], [-30.0, -30.1, -29.9]),  # worse
    "fedavg": ([9.0, -9.3, 0.0], [9.0, -9.3, 0.0]),  # we do not know
}
MD = np.array([50.0, 60.0, 70.0])


def place(setting: protocol.Setting = DIGITS, arms=tuple(GAINS), rate=0.3, seeds=(0, 1, 2)):
    """A setting in which the gains are those above; MD runs 40 rounds for the budget, the others 20."""
    rows = []
    for arm in ("md", *arms):
        for k, seed in enumerate(seeds):
            large, small = (g[k] for g in GAINS[arm]) if arm != "md" else (0.0, 0.0)
            row = {
                "setting": setting.name,
                "arm": arm,
                "seed": seed,
                "rate": rate,
                "run": f"{arm}{k}",
            }
            row |= dict.fromkeys(("large", "rounds", "examples", "worst_decile"), MD[k] + large)
            row |= {
                "small": MD[k] - 10 + small,
                "loss": 0.5,
                "megabytes_to_goal": 4.0,
                "rounds_to_goal": 10.0,
            }
            row |= {"rounds_in_budget": 40.0 if arm == "md" else 20.0}
            row |= {"examples_in_budget": 100.0 if arm == "md" else 150.0}
            rows.append(row)
    found = pd.DataFrame(rows)
    gains = protocol.compute_gains(found, "md").assign(setting=setting.name)
    tried = pd.DataFrame(0.5, index=["md", *arms], columns=list(setting.rates))
    tried[0.3] = 0.9
    curve = [
        {"arm": r["arm"], "seed": r["seed"], "run": r["run"], "ended": False, "round": t}
        | {"megabytes": t * setting.megabytes[-1] / 10, "test_accuracy": r["large"] / 100}
        for r in rows
        for t in range(1, 11)
    ]
    return design_comparison.SettingResults(setting, found, gains, tried, pd.DataFrame(curve))


def test_gains_stand_beside_the_error_of_one_round_of_their_federation_and_participants():
    cut = "fedstas-least-variance"
    errors = pd.DataFrame(
        [("mnist", 10, cut, 0.1), ("mnist", 5, cut, 0.5), ("mnist", 10, f"{cut}, from updates", 0.2),
         ("mnist", 10, "md", 1.0), ("mnist", 20, "divfl", 0.7)],
        columns=["setting", "m", "design", "mean"],
    )  # fmt: skip
    arms = [
        ("mnist", "least-variance"), ("mnist-m5", "least-variance"), ("mnist", "least-variance, updates"),
        ("mnist", "all clients"), ("mnist", "divfl"), ("mnist-m20", "divfl"), ("digits", "least-variance"),
    ]  # fmt: skip
    gains = pd.DataFrame(arms, columns=["setting", "arm"]).assign(gain=range(7))
    found = protocol.join_one_round_errors(gains, errors)
    assert found["gain"].tolist() == [0, 1, 2, 5]
    assert found["error"].tolist() == [0.1, 0.5, 0.2, 0.7]


def test_verdicts_are_counted_cell_by_cell():
    both = [place(), place(SETTINGS["mnist"])]
    assert both[0].arms == sorted(GAINS)
    assert design_comparison.count_verdicts(both, "large").tolist() == [2, 2, 2, 2]
    assert design_comparison.count_verdicts(both, "small").tolist() == [4, 0, 2, 2]
    assert design_comparison.count_verdicts(both, "small", ["divfl", "fedstas"]).tolist() == [
        0,
        0,
        2,
        0,
    ]
    decided, strict = design_comparison.count_corrected(both)
    assert decided == 10
    # Of eight p-values: those of +9, -30 and +-5 points are below 0.05/8, that of +2 points too.
    assert strict == 10


def test_kinds_of_designs_are_counted_over_both_budgets():
    table = design_comparison.count_by_requests([place()]).set_index("asks for")
    assert table.loc["all or many clients in each round"].to_dict() == {
        "better": 0, "no worse": 0, "worse": 2, "we do not know": 0,
    }  # fmt: skip
    assert table.loc["gradients of all: FedSTaS corrected", "better"] == 2
    assert table.iloc[-2:].sum().tolist() == [1, 1, 0, 2]
    arms = [arm for arms in design_comparison.KINDS.values() for arm in arms]
    assert sorted([*arms, "md"]) == sorted(a.name for a in SETTINGS["mnist"].arms)  # each once


def test_every_link_leads_to_a_row_of_the_table():
    results = [place(SETTINGS[name]) for name in ("mnist", "mnist-m5", "mnist-0.1")] + [place()]
    rows = [row for one in results for row in design_comparison.tabulate_primary(one)["method"]]
    anchors = [re.search(r'id="([^"]+)"', row)[1] for row in rows]
    assert len(set(anchors)) == len(anchors) == 20
    every = [
        design_comparison.make_anchor(n, a.name)
        for n, setting in SETTINGS.items()
        for a in setting.arms
    ]
    assert len(set(every)) == len(every)
    text = (parameters.ROOT / "notebooks/10_which_design.py").read_text()
    links = re.findall(r'href="#([^"]+)"', text)
    assert len(links) >= 4 and set(links) <= set(every)
    assert (
        design_comparison.link_row(results[0], "divfl") == '<a href="#cell-mnist-divfl">DivFL</a>'
    )


def test_the_table_tells_rate_accuracies_gains_and_verdicts_the_best_first():
    table = design_comparison.tabulate_primary(place())
    assert [re.sub("<.*>", "", name) for name in table["method"]] == [
        "corrected", "clustered by size", "MD", "FedAvg", "DivFL",
    ]  # fmt: skip
    first = table.iloc[0]
    assert first["rate"] == "0.3" and first["seeds"] == "3"
    assert first["at 4.5 MB, %"] == "59.0" and first["at 18 MB, %"] == "65.0"
    assert first["gain 18"] == "+5.0 (+4.8 to +5.2)"
    assert table["says 18"].tolist() == ["better", "no worse", "–", "we do not know", "worse"]
    second = design_comparison.tabulate_secondary(place()).set_index("method")
    assert second.loc["corrected", "gain, equal rounds"] == "+5.0 (+4.8 to +5.2)"
    assert second.loc["DivFL", "reached by"] == "3 of 3"
    assert second.loc["MD", "gain, worst decile"] == "–"


def test_the_front_pages_get_gains_at_both_budgets_and_what_the_rate_is_worth(monkeypatch):
    monkeypatch.setitem(GAINS, "least-variance", ([0.1, -0.1, 0.0], [4.0, 4.1, 3.9]))
    monkeypatch.setitem(GAINS, "least-variance, updates", ([3.0, 3.1, 2.9], [4.0, 4.1, 3.9]))
    both = ("fedstas-unbiased", "least-variance", "least-variance, updates")
    results = {
        name: place(SETTINGS[name], arms=both) for name in ("mnist", "fashion-mnist", "digits")
    }
    numbers = design_comparison.compute_front_numbers(results)
    assert (numbers["at_old"], numbers["at_best"], numbers["best"]) == (50.0, 90.0, 0.3)
    assert (numbers["settings"], numbers["seeds"]) == (2, 3)  # the digits decide nothing
    assert numbers["cut_mnist_small"] == "+4.0 (+3.8 to +4.2)"
    assert numbers["cut_mnist_large"] == "+0.0 (-0.2 to +0.2)"
    assert numbers["corrected_fashion_mnist_large"] == "+5.0 (+4.8 to +5.2)"
    assert (numbers["better"], numbers["better_strict"], numbers["updates"]) == (10, 10, False)


def test_sentences_on_many_clients_follow_the_gains(monkeypatch):
    lost, won = ([-0.1, -0.3, 0.1], [-9.0, -9.1, -8.9]), ([0.5, 0.6, 0.4], [5.0, 5.1, 4.9])
    arms = ("fedstas", "fedstas-unbiased", "least-variance")
    for arm in arms:
        monkeypatch.setitem(GAINS, arm, lost)
    many = place(SETTINGS["mnist-1000"], arms)
    numbers = design_comparison.check_many_clients(many)
    assert numbers == {"loss": True, "nothing": True, "half": False, "written": False}
    assert design_comparison.first_round_surcharge(many) == 0
    many.rows.loc[many.rows["arm"] == "least-variance", "megabytes"] += 121  # of 240
    assert (
        design_comparison.first_round_surcharge(many) == 121
        and design_comparison.check_many_clients(many)["half"]
    )
    monkeypatch.setitem(GAINS, "least-variance", won)
    numbers = design_comparison.check_many_clients(place(SETTINGS["mnist-1000"], arms))
    assert not (numbers["loss"] or numbers["nothing"])


def test_least_variance_is_compared_with_each_rival_on_the_same_seeds(monkeypatch):
    monkeypatch.setitem(GAINS, "least-variance", ([0.1, -0.1, 0.0], [4.0, 4.1, 3.7]))
    results = {"mnist": place(SETTINGS["mnist"], arms=("fedstas-unbiased", "least-variance"))}
    found = design_comparison.compare_rivals(list(results.values()))
    large = found[found["metric"] == "large"].iloc[0]
    # 0.1 - 5.0, -0.1 - 5.1 and 0.0 - 4.9 points
    expected = statistics.mean_interval(np.array([-4.9, -5.2, -4.9]))
    assert np.allclose(large[["gain", "low", "high"]].astype(float), expected)
    (row,) = design_comparison.tabulate_rivals(found, results).to_dict("records")
    assert row["above"] == "corrected"
    assert row["smaller budget"] == "-5.1 (-5.4 to -4.8)"


def test_sentences_on_rivals_follow_the_gains():
    cells = pd.MultiIndex.from_product(
        [
            design_comparison.RIVALS,
            ("mnist", "fashion-mnist", "mnist-equal", "mnist-1000"),
            design_comparison.BUDGETS,
        ],
        names=["rival", "setting", "metric"],
    )
    found = pd.DataFrame({"gain": 0.0, "low": -1.0, "high": 1.0}, index=cells).sort_index()
    for rival in ("fedstas-unbiased", "fedvarp"):
        found.loc[(rival, ["mnist", "fashion-mnist"]), ["low", "high"]] = 1.0, 3.0
    found.loc[("clustered-similarity", "fashion-mnist", "large"), ["low", "high"]] = 1.0, 3.0
    assert not design_comparison.check_rivals(found.reset_index())["many"]
    for rival in ("least-variance, updates", "clustered-similarity"):
        found.loc[(rival, "mnist-1000"), ["low", "high"]] = -3.0, -1.0
    assert all(design_comparison.check_rivals(found.reset_index()).values())


def test_the_leaders_meet_md_late_or_they_do_not(monkeypatch):
    monkeypatch.setitem(GAINS, "least-variance", ([0.1, -0.1, 0.0], [4.0, 4.1, 3.9]))
    monkeypatch.setitem(GAINS, "least-variance, updates", ([0.2, 0.1, 0.3], [4.0, 4.1, 3.9]))
    monkeypatch.setitem(GAINS, "clustered-similarity", ([2.0, 2.1, 1.9], [0.1, -0.1, 0.0]))
    monkeypatch.setitem(GAINS, "fedstas-unbiased", ([-2.0, -2.1, -1.9], [-4.0, -4.1, -3.9]))
    leaders = ("least-variance", "least-variance, updates", "clustered-similarity")
    arms = (*leaders, "fedstas-unbiased")
    names = ("mnist", "fashion-mnist", "mnist-equal", "cifar100-coarse")
    results = {name: place(SETTINGS[name], arms) for name in names}
    numbers = design_comparison.check_answer(
        results, design_comparison.compute_front_numbers(results)
    )
    assert numbers["meet"] and numbers["later"]  # who leads late alone does not count
    assert not numbers["seeds"]  # three are run
    monkeypatch.setitem(GAINS, "least-variance", ([-2.0, -2.1, -1.9], [4.0, 4.1, 3.9]))
    results["mnist"] = place(SETTINGS["mnist"], arms)
    numbers = design_comparison.check_answer(
        results, design_comparison.compute_front_numbers(results)
    )
    assert not (numbers["meet"] or numbers["later"])


def test_a_rate_at_an_end_and_a_grid_with_holes_are_marked():
    result = place()
    assert result.edge("md") == ""
    result.tried.loc["md", 1.0] = 0.95
    result.tried.loc["divfl", 0.03] = np.nan
    assert (result.edge("md"), result.edge("divfl")) == ("†", "‡")
    table = design_comparison.tabulate_primary(result)
    assert sorted(table["rate"]) == ["0.3", "0.3", "0.3", "0.3†", "0.3‡"]
    departures = design_comparison.list_departures({"digits": DIGITS}, {"digits": result})
    assert (
        "**Seeds.** Evaluated on 3 seeds (0 to 2) only: digits, disjoint 0.1, 50 clients."
        in departures
    )
    assert any("at an end of those that were tried: MD (digits" in each for each in departures)
    assert any("not tried yet: DivFL (digits" in each for each in departures)
    assert any(each.startswith("**Runs.** Not recorded yet: of digits") for each in departures)


def test_an_arm_on_fewer_seeds_than_its_setting_is_a_departure():
    result = place()
    rows = result.outcomes
    late = rows.drop(rows[(rows["arm"] == "divfl") & (rows["seed"] == 2)].index)
    departures = design_comparison.list_departures(
        {"digits": DIGITS}, {"digits": replace(result, outcomes=late)}
    )
    one = "**Seeds.** Evaluated on 2 seeds (0 to 1) only: DivFL (digits, disjoint 0.1, 50 clients)."
    assert one in departures


def test_a_run_of_the_table_has_a_command_that_makes_it_again():
    assert design_comparison.rerun_command(place(SETTINGS["mnist"]), "divfl", 2) == (
        "fedstas run --task mnist --partition dirichlet --concentration 0.01 --clients 100 "
        "--clients-per-round 10 --method divfl --lr 0.3 --rounds 300 --eval-every 10 --seed 2"
    )
    GAINS["least-variance, updates"] = GAINS["divfl"]
    try:
        command = design_comparison.rerun_command(
            place(SETTINGS["mnist"], ("least-variance, updates",)), "least-variance, updates", 0
        )
    finally:
        del GAINS["least-variance, updates"]
    assert "--method 'fedstas-least-variance features=updates'" in command


def cells(gains, errors=(0.1, 0.2, 0.5, 1.2)):
    both = [("a", e, g) for e, g in zip(errors, gains, strict=True)]
    both += [("b", e, g) for e, g in zip(errors, gains, strict=True)]
    return pd.DataFrame(both, columns=["setting", "error", "gain"])


def test_agreement_of_orders_is_counted_in_pairs_of_one_setting():
    found = design_comparison.measure_agreement(cells([4.0, 3, 2, 1]), times=500)
    assert (found["cells"], found["settings"], found["pairs"], found["agree"]) == (8, 2, 12, 12)
    assert found["rho"] == pytest.approx(1) and found["p"] < 0.02
    found = design_comparison.measure_agreement(cells([1.0, 2, 3, 4]), times=100)
    assert (found["agree"], found["p"]) == (0, 1) and found["rho"] == pytest.approx(-1)
    assert design_comparison.measure_agreement(cells([4.0, 3, 1, 2]), times=1)["agree"] == 10


@pytest.fixture
def before():
    rows = [
        ("digits", "fedstas-unbiased", 7.0, 6.0, 8.0),
        ("digits", "clustered-size", 3.0, 2.0, 4.0),
    ]
    rows += [("digits", "divfl", 0.5, -1.0, 2.0), ("mnist", "fedavg", 9.0, 8.0, 10.0)]
    return pd.DataFrame(rows, columns=["setting", "arm", "gain", "low", "high"])


def test_joined_gains_are_those_recorded_at_both_rates(before):
    after = design_comparison.compute_tuned_gains([place()], 10)
    assert after.set_index("arm")["gain"].to_dict() == pytest.approx(
        {"fedstas-unbiased": 5, "clustered-size": 0, "divfl": -5, "fedavg": -0.1}, abs=1e-9
    )
    both = design_comparison.join_gains(before, after)
    assert len(both) == 3
    numbers = design_comparison.count_kept_gains(both)
    assert (numbers["were"], numbers["kept"], numbers["gone"]) == (2, 1, 1)
    assert (numbers["median_before"], numbers["median_after"]) == (5.0, pytest.approx(2.5))
    table = design_comparison.tabulate_joined_gains(both, {"digits": place()}).set_index(
        "rate 0.01, 99 rounds"
    )
    assert table.loc["+7.0 (+6.0 to +8.0)", "smaller budget"] == "+9.0 (+8.8 to +9.2)"
    nothing = design_comparison.join_gains(
        before, design_comparison.compute_tuned_gains([place()], DIGITS.rounds + 1)
    )  # no run is as long
    assert design_comparison.count_kept_gains(nothing)["were"] == 0
    assert not len(design_comparison.tabulate_joined_gains(nothing, {}))


def test_gains_at_the_preprints_rate_are_those_of_the_recorded_sweeps():
    found = design_comparison.load_untuned_gains().set_index(["setting", "arm"])
    assert found.index.is_unique
    assert set(found.index.get_level_values("setting")) <= set(SETTINGS)
    row = found.loc["mnist", "fedstas-unbiased"]  # as the start page tells it
    assert row[["gain", "low", "high"]].round(1).tolist() == [7.1, 5.6, 8.5]
    assert row["seeds"] == 20
    assert {"least-variance", "least-variance, updates"} <= set(found.loc["mnist-m5"].index)


def recorded(setting, arm, rate, seed, accuracy):
    """Stand in for a record that `protocol.load_runs` reads: a run whose accuracy is the same at every evaluation, half a megabyte a round."""
    run = setting.plan_run(next(a for a in setting.arms if a.name == arm), rate, seed)
    method = methods.get(run.method, **run.overrides)
    who = {
        k: getattr(run, k)
        for k in ("task", "clients", "clients_per_round", "rounds", "eval_every", "seed")
    }
    who |= {"partition": {"name": run.partition, "concentration": run.concentration}}
    who |= {"method": methods.to_dict(method), "algorithms": methods.version(method)}
    at = np.arange(run.eval_every, run.rounds + 1, run.eval_every)
    frame = pd.DataFrame(dict.fromkeys(COLUMNS, np.zeros(len(at)))).assign(
        round=at,
        test_accuracy=accuracy,
        bytes_down=250_000 * at,
        bytes_up=250_000 * at,
        examples=at,
    )
    metadata = {"diverged": None, "worst_decile": 0.25}
    run = f"{arm}{rate}{seed}"
    return SimpleNamespace(run=run, identity=who, metadata=metadata, frame=lambda: frame)


def test_recorded_settings_are_read_and_missing_ones_are_named(monkeypatch):
    runs = []
    for arm, gain in (("md", 0.0), ("divfl", 0.02), ("fedavg", 0.1)):
        seeds = (0, 1) if arm != "fedavg" else (0,)
        for rate in DIGITS.rates:
            runs += [recorded(DIGITS, arm, rate, s, 0.5 + 0.1 * (rate == 0.1)) for s in (100, 101)]
        for rate in (0.1, 0.3):  # only the tuned rate counts
            runs += [
                recorded(DIGITS, arm, rate, s, 0.6 + gain + 0.1 * s + (rate > 0.2)) for s in seeds
            ]
    monkeypatch.setattr(protocol, "load_runs", lambda folders: runs)
    found = design_comparison.load_results(SETTINGS)
    assert list(found) == ["digits"]
    result = found["digits"]
    assert result.arms == ["divfl"]  # one seed of FedAvg tells nothing
    assert set(result.outcomes["rate"]) == {0.1}
    assert result.gain("divfl", "large")["gain"] == pytest.approx(2)
    assert result.outcomes[result.outcomes["arm"] == "md"]["large"].tolist() == pytest.approx(
        [60, 70]
    )
    assert (
        result.outcomes["rounds_in_budget"].tolist() == [36] * 4
    )  # of 18 MB, half a megabyte a round
    assert len(result.rows) == 2 * 35 + 2 * 30  # MD is evaluated for longer
    progress = design_comparison.tabulate_progress(SETTINGS, found).set_index("setting")
    assert progress.loc[DIGITS.title, ["methods recorded", "on"]].tolist() == [
        "2 of 15",
        "2 seeds (0 to 1)",
    ]
    assert progress.loc["MNIST, disjoint 0.01", "on"] == "not recorded yet"
    message = design_comparison.describe_missing(SETTINGS, found)
    assert (
        "MNIST, disjoint 0.01;" in message
        and "of digits, disjoint 0.1, 50 clients FedAvg" in message
    )
    figure = design_comparison.draw_rates([result])
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [0.1]  # MD alone is among those shown


def test_without_any_record_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(protocol, "load_runs", lambda folders: [])
    found = design_comparison.load_results(SETTINGS)
    assert found == {} and design_comparison.count_corrected([]) == (0, 0)
    assert set(design_comparison.tabulate_progress(SETTINGS, found)["on"]) == {"not recorded yet"}


def test_the_figure_of_gains_has_a_panel_per_setting_and_writes_gains_outside_the_axis():
    GAINS["all clients"] = ([-4.0, -4.1, -3.9], [-40.0, -40.1, -39.9])
    try:
        shown = ("fedstas-unbiased", "all clients")
        figure = design_comparison.draw_gains(
            [place(SETTINGS[n], shown) for n in ("mnist", "mnist-equal", "mnist-0.1")]
        )
    finally:
        del GAINS["all clients"]
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title("right") for ax in panels] == [
        SETTINGS[n].title for n in ("mnist", "mnist-equal", "mnist-0.1")
    ]
    for ax in panels:
        low, high = ax.get_xlim()
        assert -10 < low < -1 and 9 < high < 12
        assert "◂ −40" in [text.get_text() for text in ax.texts]
        dots = sorted(
            round(line.get_xdata()[0], 6) for line in ax.lines if line.get_marker() == "o"
        )
        assert dots[-2:] == [5, 9] and -40 not in dots


def test_learning_curves_end_at_the_larger_budget():
    figure = design_comparison.draw_learning_curves([place(arms=("fedstas-unbiased",))])
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 100]
    assert len(curves) == 2  # and MD
    assert all(line.get_xdata()[-1] == 18 for line in curves)
    assert [line.get_ydata()[-1] for line in curves] == pytest.approx([65, 60])


def test_an_empty_panel_says_that_nothing_is_recorded():
    full = pd.DataFrame(
        [("digits", "divfl", 0.5, 1.0, 0.0, 2.0, 90.0)],  # the mean is no gain
        columns=["setting", "arm", "error", "gain", "low", "high", "mean"],
    )
    figure = design_comparison.draw_gain_over_error({"a": full, "b": full[:0]})
    left, right = figure.axes
    assert [text.get_text() for text in right.texts] == ["not recorded yet"] and not left.texts
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert [line.get_xydata().tolist() for line in dots] == [[[0.5, 1.0]]]
    assert [dot.get_color() for dot in dots] == [
        design_comparison.plots.GREY
    ]  # none of those named
