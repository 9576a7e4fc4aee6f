"""The second comparison of designs: its file, tuning on a validation split, and its outcomes."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

from companion.pages import saved_bytes
from companion.runs import closed_form_heads, comparison, fine_tuning
from fedstas.errors import InputError
from fedstas.sim import partition

SMALL = """
reference: md
average: 0.5
rates: [0.1, 0.3, 1.0]
schedules: [constant, cosine]
tuning_seeds: [100]
evaluation_seeds: [0, 1, 2]
min_effect: 1.0
arms:
  md: {method: md}
  least-variance: {method: fedstas-least-variance}
  all clients: {method: fedavg}
settings:
  tiny: {title: tiny, task: digits, partition: dirichlet, concentration: 0.1, clients: 12, clients_per_round: 3,
         rounds: 8, evaluate_every: 2}
"""


@pytest.fixture
def read(tmp_path):
    """Return the only setting of the small file, with changed entries."""

    def read_changed(**changes):
        content = yaml.safe_load(SMALL) | changes
        path = tmp_path / "comparison.yml"
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return comparison.read(path)["tiny"]

    return read_changed


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the small setting, all its recorded runs, and their folder."""
    folder = tmp_path_factory.mktemp("comparison")
    path = folder / "comparison.yml"
    path.write_text(SMALL, encoding="utf-8")
    setting = comparison.read(path)["tiny"]
    assert comparison.carry_out(setting, folder=folder, progress=False) == []
    return setting, comparison.load_runs([folder]), folder


def test_the_committed_file_is_read():
    for setting in comparison.read().values():
        assert setting.reference in [arm.name for arm in setting.arms]
        assert len(setting.evaluation_seeds) >= 10


def test_tuning_trains_without_the_validation_split_and_never_sees_the_test_set(read):
    setting = read()
    candidate = comparison.Candidate(0.3, "cosine")
    tuning = setting.plan_run(setting.arms[0], candidate, 100)
    evaluation = setting.plan_run(setting.arms[0], candidate, 0)
    assert (tuning.task, evaluation.task) == ("digits-validation", "digits")
    assert tuning.overrides == evaluation.overrides
    assert evaluation.overrides["decay_rounds"] == 8
    assert {2, 8} <= {*evaluation.eval_rounds}
    run_of_all_clients = setting.plan_run(setting.arms[-1], candidate, 0)
    assert run_of_all_clients.clients_per_round == 12


def test_a_schedule_whose_optimum_lies_at_an_end_extends_its_grid(read):
    setting = read()
    columns = pd.MultiIndex.from_product([["constant", "cosine"], setting.rates])
    row = pd.Series([0.1, 0.3, 0.2, 0.1, 0.4, 0.2], columns)
    assert comparison.propose_candidates(setting, row) == []
    row["constant", 1.0] = 0.35  # not the best of all, but of its schedule
    assert comparison.propose_candidates(setting, row) == [comparison.Candidate(3.0, "constant")]
    del row["cosine", 0.3]
    assert comparison.propose_candidates(setting, row) == [comparison.Candidate(0.3, "cosine")]


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_the_megabytes_to_hold_an_accuracy_in_closed_form(late):
    """A curve that rises linearly from a guess of .1 at 0 MB to 1 at 90 MB: its mean over the ten megabytes before b is
    its value at b - 5."""
    x = np.linspace(1, 90, 90)
    run = pd.DataFrame({"megabytes": x, "accuracy": 0.1 + x / 100, "ended": False})
    value, holds = comparison.megabytes_to_hold(run, 0.5 + late, 100, 10, "accuracy")
    assert holds
    assert value == pytest.approx(45 + 100 * late, abs=0.1)
    run["ended"] = True
    assert comparison.megabytes_to_hold(run, 0.5, 100, 10, "accuracy") == (100.0, False)


def test_a_goal_that_is_touched_once_is_not_held():
    x = np.arange(1.0, 101.0)
    run = pd.DataFrame({"megabytes": x, "accuracy": np.where(x == 50, 0.9, 0.5), "ended": False})
    assert comparison.megabytes_to_hold(run, 0.8, 100, 10, "accuracy") == (100.0, False)


def test_every_arm_is_tuned_and_evaluated(recorded):
    setting, runs, _ = recorded
    assert comparison.missing(setting, runs) == {}
    table = comparison.outcomes(setting, runs)
    assert len(table) == 3 * 2 * 3  # arms, models, seeds
    of_reference = table[table["arm"] == setting.reference]
    np.testing.assert_allclose(of_reference["ratio"], 1)
    assert of_reference["reached"].all()  # at the end of its run, if not before
    best = comparison.choose_candidates(
        comparison.tabulate_tuning(setting, comparison.load_curves(setting, runs, tuning=True))
    )
    for arm, part in table.groupby("arm"):
        assert set(zip(part["lr"], part["schedule"], strict=True)) == {
            (best[arm].lr, best[arm].schedule)
        }


def test_differences_are_paired_and_ratios_are_averaged_as_logarithms(recorded):
    setting, runs, _ = recorded
    table = comparison.outcomes(setting, runs)
    gains = comparison.compare(table, "md").set_index(["model", "arm", "outcome"])
    part = table[table["model"] == "average"].pivot(index="seed", columns="arm")
    points = (part["large"]["least-variance"] - part["large"]["md"]).mean()
    assert gains.loc[("average", "least-variance", "large"), "mean"] == pytest.approx(points)
    ratio = np.exp(np.log(part["ratio"]["least-variance"]).mean())
    assert gains.loc[("average", "least-variance", "ratio"), "mean"] == pytest.approx(ratio)
    assert gains["holm"].notna().sum() == 2  # the two arms' ratios of averaged models
    shares = comparison.headroom(table, "md").set_index(["model", "arm"])
    assert shares.loc[("average", "all clients"), "share"] == pytest.approx(1)
    assert shares.loc[("raw", "least-variance"), "share"] == pytest.approx(
        gains.loc[("raw", "least-variance", "rounds"), "mean"]
        / gains.loc[("raw", "all clients", "rounds"), "mean"]
    )


def test_recorded_runs_are_not_trained_again_and_missing_ones_are_listed(recorded):
    setting, runs, folder = recorded
    assert comparison.carry_out(setting, folder=folder, progress=False) == []
    assert len(comparison.load_runs([folder])) == len(runs)
    further = replace(setting, evaluation_seeds=(0, 1, 2, 3))
    assert comparison.missing(further, runs) == {arm.name: [3] for arm in setting.arms}
    for change in (
        {"concentration": 0.2},
        {"clients": 13},
        {"clients_per_round": 4},
        {"drop": 0.1},
    ):
        other = comparison.load_curves(replace(setting, **change), runs, tuning=False)
        assert not len(other[other["arm"] != comparison.ALL_CLIENTS]), change
    assert "nothing is recorded" in comparison.format_report(setting, [])
    assert "least-variance" in comparison.format_report(setting, runs)


@pytest.mark.parametrize("low, shown", [(0.5, True), (-0.1, False)])
def test_a_share_of_the_headroom_is_reported_only_where_there_is_headroom(
    low, shown, recorded, monkeypatch
):
    setting, runs, _ = recorded
    shares = pd.DataFrame(
        [
            ("average", arm, 2.0, low, 3.0, share)
            for arm, share in ((comparison.ALL_CLIENTS, 1.0), ("least-variance", 0.37))
        ],
        columns=["model", "arm", "headroom", "low", "high", "share"],
    )
    monkeypatch.setattr(comparison, "headroom", lambda table, reference: shares)
    report = comparison.format_report(setting, runs).splitlines()
    (row,) = [line for line in report if line.endswith("0.37")] or [""]
    assert bool(row) == shown
    assert sum(f"in as many rounds: +2.0 ({low:+.1f} to +3.0)" in line for line in report) == 1


def diverge(run):
    """Return the run as if it had diverged before it was evaluated."""
    empty = {name: values[:0] for name, values in run.columns().items()}
    metadata = run.metadata | {"diverged": "the model is not finite after round 1"}
    return replace(run, metadata=metadata, columns=lambda: empty)


def test_a_run_that_diverges_before_its_first_evaluation_counts_as_a_guess(recorded):
    setting, runs, _ = recorded
    smallest = min(setting.rates)
    broken = [
        diverge(run) if run.identity["method"]["local"]["lr"] == smallest else run for run in runs
    ]
    table = comparison.tabulate_tuning(
        setting, comparison.load_curves(setting, broken, tuning=True)
    )
    assert (table.xs(smallest, axis=1, level="lr") == 1 / setting.classes).all(axis=None)


def test_a_run_of_evaluation_that_diverges_would_have_sent_the_budget_at_least(recorded):
    setting, runs, _ = recorded
    last = setting.evaluation_seeds[-1]
    is_broken = [
        run.identity["seed"] == last and run.identity["method"]["name"] == "fedstas-least-variance"
        for run in runs
    ]
    broken = [
        diverge(run) if diverges else run for run, diverges in zip(runs, is_broken, strict=True)
    ]
    table = comparison.outcomes(setting, broken)
    row = table[(table["seed"] == last) & (table["arm"] == "least-variance")]
    # `ratio`: the megabytes until the run holds the accuracy of the reference over those until the reference does; a lower
    # bound if it never does (`reached`). Its accuracy at the larger budget, `large`, is that of a guess.
    assert len(row) and not row["reached"].any() and (row["ratio"] >= 1).all()
    assert (row["large"] == 100 / setting.classes).all()


def test_holm_corrects_each_family_alone(recorded):
    setting, runs, _ = recorded
    table = comparison.outcomes(setting, runs)
    other = table.assign(setting="other", family="added")
    planned_only, with_added = (
        comparison.compare(t, "md") for t in (table, pd.concat([table, other]))
    )
    planned = with_added[with_added["family"] == "planned"]["holm"]
    np.testing.assert_array_equal(planned.to_numpy(), planned_only["holm"].to_numpy())
    one_family = comparison.compare(pd.concat([table, other.assign(family="planned")]), "md")
    assert one_family["holm"].min() == pytest.approx(min(1, 2 * planned_only["holm"].min()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "fedavg"}, "unknown arm of setting tiny 'fedavg'"),
        ({"evaluation_seeds": [100]}, "tunes and evaluates on seed 100"),
        ({"rates": [0.1, 0.3]}, "an optimum needs three"),
        ({"schedules": ["linear"]}, "unknown schedule of setting tiny"),
        ({"average": 1.0}, "average is 1.0"),
        ({"tuning": 1}, "unknown key of setting tiny 'tuning'"),
        ({"arms": {"md": {"method": "mdd"}}}, "unknown method 'mdd'"),
    ],
)
def test_a_wrong_entry_is_named(changes, message, read):
    with pytest.raises(InputError, match=message):
        read(**changes)


def test_a_setting_that_is_evaluated_on_the_split_of_its_tuning_is_refused(read):
    entry = yaml.safe_load(SMALL)["settings"]["tiny"] | {"task": "digits-validation"}
    with pytest.raises(InputError, match="evaluated on the validation split of its tuning"):
        read(settings={"tiny": entry})


def test_the_page_draws_and_tabulates_every_arm_and_names_what_it_asks_for(recorded):
    setting, runs, _ = recorded
    settings = {setting.name: setting}
    table = comparison.outcomes(setting, runs)
    rows = saved_bytes.tabulate(table, settings)
    anchors = [re.search(r'id="([^"]+)"', design)[1] for design in rows["design"]]
    assert anchors[0].startswith("saved-tiny-") and len(set(anchors)) == len(rows)
    rows = rows.set_index(rows["design"].str.replace(r"<.*>", "", regex=True))
    assert (
        rows.loc["MD sampling", "p of bytes (Holm)"]
        == "–"
        != rows.loc["all clients", "p of bytes (Holm)"]
    )
    assert set(rows.index) == {"MD sampling", "least variance, sketch", "all clients"}
    assert rows.loc["least variance, sketch", "asks for"] == "64 numbers, once"
    assert rows.loc["MD sampling", "asks for"] == "nothing"
    assert rows.loc["all clients", "share of headroom"] == "1.00"
    assert {arm.name for s in comparison.read().values() for arm in s.arms} == set(
        saved_bytes.LABELS
    )


@pytest.fixture(scope="module")
def outcomes():
    """The recorded outcomes of all settings."""
    return saved_bytes.load(comparison.read(), comparison.load_runs())


def check_with(outcomes, chosen, **values):
    """Check the page's sentences as if the chosen rows had other values, and so many times their ratio."""
    changed = outcomes.copy()
    for column, value in values.items():
        changed.loc[chosen, column] = value * outcomes["ratio"] if column == "ratio" else value
    return saved_bytes.check(changed, comparison.compare(changed, "md"))


@pytest.mark.parametrize(
    ("key", "setting", "arm", "model", "values"),
    [
        ("a fifth", "cifar10-features-0.01", "least-variance", "average", {"ratio": 1.2}),
        ("a fifth", "cifar10-features-0.01", "least-variance", "average", {"reached": False}),
        ("at most a tenth", "newsgroups", "least-variance", "average", {"reached": True}),
        ("endpoint", "newsgroups", "least-variance", "average", {"ratio": 0.75}),
        ("costly", "shakespeare", "fedsts", "average", {"ratio": 0.2}),
        ("nothing", "shakespeare", "clustered-similarity", "average", {"large": 10.0}),
        ("silent", "newsgroups-silent-0.3", "least-variance", "average", {"large": 30.0}),
        ("silent rates", "newsgroups-silent-0.3", "clustered-similarity", "average", {"lr": 9.0}),
        ("a third", "fashion-mnist", "least-variance", "average", {"ratio": 1.5}),
        ("few silent", "newsgroups-silent-0.1", "least-variance", "average", {"ratio": 1.3}),
        ("headroom", "cifar10-features-1000", "all clients", "average", {"rounds": 90.0}),
        ("average", "cifar10-features-0.01", "md", "average", {"large": 20.0}),
        ("bounds", "shakespeare", "least-variance", "average", {"reached": True}),
        ("rough", "shakespeare", "clustered-similarity", "average", {"reached": True}),
        ("others bound", "newsgroups", "hics-fl", "average", {"reached": True}),
        ("others ahead", "newsgroups", "hics-fl", "average", {"large": 20.0}),
        ("hics", "mnist", "hics-fl", "average", {"large": 89.0}),
        ("rates above one", "shakespeare", "md", "average", {"lr": 0.3}),
        ("same rates", "shakespeare", "md", "average", {"lr": 9.0}),
        ("not early", "fashion-mnist", "least-variance", "average", {"small": 99.0}),
    ],
)
def test_each_sentence_is_checked(key, setting, arm, model, values, outcomes):
    """`saved_bytes.check` has a key for each sentence; with other outcomes of the rows that it is about, it is false."""
    chosen = (outcomes["setting"] == setting) & (outcomes["arm"] == arm)
    chosen &= outcomes["model"] == model
    assert chosen.any()
    assert check_with(outcomes, chosen)[key]
    assert not check_with(outcomes, chosen, **values)[key]


def test_the_gain_of_a_rate_is_that_of_the_best_over_the_smallest_of_the_grid(read, monkeypatch):
    """The best candidate has the other schedule; a rate that is not tried has no accuracy."""
    columns = pd.MultiIndex.from_product([["constant", "cosine"], (0.1, 0.3, 1.0)])
    rows = {"md": [0.5, np.nan, 0.7, 0.4, 0.8, 0.6], "least-variance": [0.9] * 6}
    tuning = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    monkeypatch.setattr(comparison, "tabulate_tuning", lambda setting, curves: tuning)
    curves = pd.DataFrame({"arm": ["md", "md", "md", "least-variance"], "run": [1, 1, 2, 3]})
    monkeypatch.setattr(comparison, "load_curves", lambda *_, **__: curves)
    assert saved_bytes.compute_rate_gain(read(), []) == {
        "rate": 0.3,
        "rate_accuracy": pytest.approx(80),
        "rate_small": 0.1,
        "rate_small_accuracy": pytest.approx(40),
        "rate_one_accuracy": pytest.approx(60),
        "tuning_runs": 2,
    }


def test_settings_that_were_added_last_change_only_the_sentences_on_themselves(outcomes):
    names = [name for name, setting in comparison.read().items() if setting.family == "added"]
    assert names and not {*names} & {*saved_bytes.SHOWN}
    others = outcomes.copy()
    others.loc[others["setting"].isin(names) & (others["arm"] != "md"), "ratio"] /= 2
    recorded, changed = (
        (
            saved_bytes.compute_numbers(table, gains),
            saved_bytes.check(table, gains),
            saved_bytes.select_shown(gains).to_csv(),
        )
        for table in (outcomes, others)
        for gains in [comparison.compare(table, "md")]
    )
    assert recorded[2] == changed[2]
    for before, after, own in (
        (
            recorded[0],
            changed[0],
            {"second_many_ratio", "second_hundred_ratio", "second_everybody_many"},
        ),
        (recorded[1], changed[1], {"many", "hundred"}),
    ):
        assert {key for key in before if before[key] != after[key]} == own


@pytest.mark.parametrize(
    ("key", "head", "change"),
    [
        ("closed form", "ridge", {"large": -2.0}),
        ("closed form", "class means", {"large": -5.0}),
        ("within", "ridge", {"within": -2.0}),
        ("cheap", "class means", {"megabytes": 100.0}),
        ("ridge by author", "ridge", {"large": 2.0}),
    ],
)
def test_each_sentence_on_heads_in_closed_form_is_checked(key, head, change, outcomes):
    """`saved_bytes.check_closed_form` has a key for each sentence; `change` is added to the outcomes of a head."""
    heads = closed_form_heads.compute_outcomes(closed_form_heads.load(), outcomes, "md")
    assert saved_bytes.check_closed_form(heads, outcomes)[key]
    for column, added in change.items():
        heads.loc[heads["head"] == head, column] += added
    assert not saved_bytes.check_closed_form(heads, outcomes)[key]


@pytest.mark.parametrize(
    ("key", "setting", "column", "added"),
    [
        ("tuned images", "cifar10-features", "over_head_low", -1.0),
        ("tuned images", "cifar100-coarse-features", "over_head", 1.0),
        ("tuned best", "cifar10-features", "over_best_low", -2.0),
        ("tuned author", "newsgroups", "over_head_high", 2.0),
        ("tuned author", "newsgroups", "over_head_validation", -2.0),
        ("tuned level", "newsgroups", "over_best_low", 2.0),
    ],
)
def test_each_sentence_on_training_from_a_head_is_checked(key, setting, column, added, outcomes):
    tuned = fine_tuning.compute_outcomes(fine_tuning.load(), outcomes)
    assert saved_bytes.check_fine_tuning(tuned)[key]
    tuned.loc[tuned["setting"] == setting, column] += added
    assert not saved_bytes.check_fine_tuning(tuned)[key]


def test_the_classes_that_a_round_misses_are_as_many_as_in_simulated_rounds():
    """The mean of 20,000 rounds is within five standard errors of the expectation: a false alarm in 10^6 runs."""
    expected = saved_bytes.count_missed_classes(10, 0.01, seeds=[3])
    labels = np.repeat(np.arange(10), 5_000)
    dealt = partition.make("dirichlet", labels, concentration=0.01, clients=100, seed=3)
    rng = np.random.default_rng(0)
    draws = rng.choice(100, (20_000, 10), p=dealt.sizes / dealt.sizes.sum())
    missed = (~(dealt.label_counts > 0)[draws].any(axis=1)).sum(axis=1)
    assert expected > 1
    assert abs(missed.mean() - expected) < 5 * missed.std() / 20_000**0.5
