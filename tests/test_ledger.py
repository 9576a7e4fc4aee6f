"""The ledger: claims are checked where they are declared, verdicts are computed, and a claim without evidence is an
error that names it."""

import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from deciders import claims_by_function

from companion.claims import ledger, registry
from companion.claims.evidence import experiments
from companion.claims.evidence import experiments_cifar10 as cifar10
from companion.claims.evidence import experiments_figures as figures
from companion.claims.evidence import experiments_sentences as sentences
from companion.claims.registry import VERDICTS, Claim, Evidence, judge_theory
from fedstas.errors import InputError
from fedstas.sim import tasks

ROOT = Path(__file__).resolve().parents[1]
FIELDS = {
    "id": "journal-lemma-0",
    "paper": "journal",
    "place": "Lemma 0",
    "kind": "theory",
    "statement": "One is one.",
    "printed": 1,
    "chapter": "04_theory",
}


def true_if_one_is_printed(claim):
    """Decide a claim: it holds if the printed value is 1."""
    return Evidence(judge_theory(claim.printed == 1), ours=claim.printed, note="see")


@pytest.fixture
def register(monkeypatch):
    """`register(fields, ..., decide=function)` registers claims in a registry that is empty at first."""
    registry.load_evidence()
    monkeypatch.setattr(registry, "_claims", {})
    monkeypatch.setattr(registry, "_without_function", {})

    def register(*claims, decide=true_if_one_is_printed):
        for fields in claims:
            registry.claim(**fields)(decide)

    return register


@pytest.fixture(scope="session")
def claims():
    """Return all claims with their verdicts, decided without a data folder: to ask for it is an error."""

    def data_folder(root=None):
        raise AssertionError("a verdict depends on files of this machine")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "data_folder", data_folder)
        return ledger.claims()


def test_claims_are_listed_by_paper_then_by_their_order_then_as_declared(register):
    names = {"a": 20, "b": None, "c": 10, "d": None}
    for name, order in names.items():
        register(FIELDS | {"id": name} | ({"order": order} if order else {}))
    register(FIELDS | {"id": "first", "paper": "preprint", "tolerance": 0.5})
    claims = registry.all_claims()
    assert [claim.id for claim in claims] == ["first", "c", "a", "b", "d"]
    assert claims[0] == Claim(**FIELDS | {"id": "first", "paper": "preprint", "tolerance": 0.5})
    assert claims[0].decide is true_if_one_is_printed


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"paper": "thesis"}, ("unknown paper 'thesis'", "preprint")),
        ({"kind": "opinion"}, ("unknown kind 'opinion'", "superiority")),
        ({"verdict": "holds"}, ("unknown field 'verdict'", "statement")),
        ({"decide": len}, ("unknown field 'decide'",)),
        ({"statement": ""}, ("the field 'statement' is empty",)),
        ({"printed": None}, ("the field 'printed' is empty",)),
        ({"place": 3}, ("the field 'place' is 3",)),
        ({"tolerance": -1}, ("the tolerance is -1",)),
        ({"tolerance": True}, ("the tolerance is True",)),
        ({"core": "yes"}, ("`core` is True or False",)),
        ({"fact": 3}, ("`fact` is a text",)),
        ({"slip": "yes"}, ("`slip` is 'yes'",)),
    ],
)
def test_a_wrong_field_is_refused_with_the_claim_the_file_and_the_line(register, change, parts):
    with pytest.raises(
        InputError, match=r"^claim journal-lemma-0 \(tests/test_ledger.py:\d+\): "
    ) as exc_info:
        register(FIELDS | change)
    assert all(word in str(exc_info.value) for word in parts)
    assert "\n" not in str(exc_info.value)


def test_a_missing_field_a_second_claim_of_one_id_and_one_that_nothing_decides_are_refused(
    register,
):
    with pytest.raises(InputError, match="the field 'chapter' is missing"):
        register({k: v for k, v in FIELDS.items() if k != "chapter"})
    with pytest.raises(InputError, match="what decides it is 3, not a function"):
        register(FIELDS | {"id": "a"}, decide=3)
    registry._without_function.clear()
    register(FIELDS)
    source = registry.all_claims()[0].source
    with pytest.raises(InputError, match=f"there is another claim of this id, at {source}$"):
        register(FIELDS)
    registry.claim(**FIELDS | {"id": "b"})
    with pytest.raises(
        InputError, match=r"claim b \(tests/test_ledger.py:\d+\): no function decides it"
    ):
        registry.all_claims()


def test_a_verdict_follows_its_evidence(register):
    register(FIELDS, FIELDS | {"id": "b", "printed": 2})
    verdicts = ledger.claims().set_index("id")["verdict"]
    assert verdicts.to_dict() == {"journal-lemma-0": "holds", "b": "fails"}
    claim, evidence = ledger.decide_by_id("b")
    assert (claim.printed, evidence.verdict) == (2, "fails")


@pytest.mark.parametrize(
    ("evidence", "parts"),
    [
        (Evidence("agrees"), "the verdict 'agrees' is not one of a theory"),
        (Evidence("pending", note="later"), "the verdict 'pending' is not one of a theory"),
        (Evidence("undecided", note="wide"), "the verdict 'undecided' is not one of a theory"),
        (
            Evidence("holds", substitute="agrees"),
            "a substitute is given, but the verdict is 'holds'",
        ),
        (Evidence("true"), "the verdict 'true' is not one of"),
        (Evidence("fails"), "'fails' needs a note"),
        ("holds", "returned str"),
        (None, "returned NoneType"),
    ],
)
def test_missing_evidence_is_an_error_that_names_the_claim(register, evidence, parts):
    register(FIELDS, decide=lambda claim: evidence)
    with pytest.raises(ledger.Undecided, match=f"claim journal-lemma-0 .*{parts}"):
        ledger.claims()


def test_all_claims_without_evidence_are_named_at_once(register):
    def fail(claim):
        raise ZeroDivisionError("no\nclients")

    register(FIELDS, FIELDS | {"id": "b"}, decide=fail)
    with pytest.raises(ledger.Undecided) as exc_info:
        ledger.claims()
    message = str(exc_info.value)
    assert "claim journal-lemma-0 (" in message and "claim b (" in message
    assert "raised ZeroDivisionError: no" in message and "\n" not in message


def test_an_unknown_id_is_answered_with_near_ones(register):
    register(FIELDS, FIELDS | {"id": "preprint-fig-9"})
    with pytest.raises(InputError, match="no claim 'lemma': did you mean journal-lemma-0"):
        ledger.decide_by_id("lemma")
    with pytest.raises(InputError, match="did you mean preprint-fig-9"):
        ledger.decide_by_id("preprint-fgi-9")
    with pytest.raises(InputError, match="`fedstas claims` lists them"):
        ledger.decide_by_id("")


def test_unknown_filters_are_refused():
    with pytest.raises(InputError, match="unknown paper 'x'"):
        ledger.claims(paper="x")
    with pytest.raises(InputError, match="unknown kind 'x'"):
        ledger.claims(kind="x")


def test_values_are_formatted_for_reading():
    from fractions import Fraction

    values = (
        None,
        float("nan"),
        3,
        60_000,
        0.123456,
        12345.6,
        Fraction(1, 3),
        "x",
        True,
        np.float64(2),
    )
    texts = ["", "", "3", "60,000", "0.1235", "12,346", "1/3", "x", "yes", "2"]
    assert [ledger.format_value(v) for v in values] == texts
    assert ledger.format_interval(1.5, 1, 2) == "1.5 (1.0 to 2.0)"
    assert ledger.format_interval(-0.701, -1.458, 0.0578) == "-0.7 (-1.5 to 0.1)"
    assert ledger.format_interval(990.04, -228, 2208) == "990 (-228 to 2208)"
    assert ledger.format_interval(-0.03, -0.5, 0.5) == "0.0 (-0.5 to 0.5)"
    assert ledger.format_interval(1.5, np.nan, np.nan) == "1.5"


# The real ledger.


def test_there_are_sixty_claims_and_those_of_theory_are_decided(claims):
    assert list(claims.columns) == ledger.COLUMNS
    assert len(claims) >= 60
    assert claims["id"].is_unique
    assert set(claims["verdict"]) <= set(VERDICTS)
    assert set(claims.loc[claims["kind"] == "theory", "verdict"]) <= {"holds", "holds-if", "fails"}
    assert set(claims["paper"]) == set(registry.PAPERS)
    assert {"theory", "figure", "table", "number", "superiority"} == set(claims["kind"])
    reasons = claims[claims["verdict"].isin(registry.NEEDS_NOTE)]
    assert (reasons["note"].str.len() > 10).all()


def test_every_numbered_statement_of_the_journal_has_a_claim(claims):
    journal = " ".join(claims.loc[claims["paper"] == "journal", "place"])
    for place in (*(f"Lemma {i}" for i in range(1, 6)), *(f"Theorem {i}" for i in range(1, 4))):
        assert place in journal, place


def rows_without_data(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose verdict is `no-data`."""
    return claims[claims["verdict"] == "no-data"]


def test_only_claims_without_runs_on_their_data_have_no_data(claims):
    without = rows_without_data(claims)
    names = ("FEMNIST", "MIND", "Amazon-Toys", "Amazon-Beauty")
    for _, row in without.iterrows():
        start, _, rest = (
            row["note"]
            .removeprefix("Judged on a substitute. ")
            .partition(" cannot be had here; on ")
        )
        own = [name for name in names if name in row["statement"]]
        assert start == (*own, "MIND, Amazon-Toys and Amazon-Beauty")[0], row["id"]
        assert not re.search("newsgroups-words|by_class|natural|mind,|instead", rest), row["id"]
        others = [name for name in names[2:] if "Amazon" in str(own) and name not in own]
        twins = re.findall(r"The claim on (\S+) is judged by the same runs", rest)
        assert twins == others, row["id"]
    posts = without[without["statement"].str.contains("Amazon")]
    stems = posts["id"].str.replace("toys|beauty", "", regex=True)
    assert (posts.groupby(stems)["ours"].nunique() == 1).all() and (stems.value_counts() == 2).all()
    assert set(without["paper"]) == {"slides"}
    assert set(without["substitute"].dropna()) <= {"agrees", "differs", "undecided"}
    assert claims.loc[claims["verdict"] != "no-data", "substitute"].isna().all()


def test_claims_on_cifar100_are_judged_with_a_network_of_ours_and_say_what_it_learns(claims):
    names = ("fedsts", "fedstas", "dp", "gain", "dp-above")
    unnamed = claims[claims["id"].isin([f"preprint-fig-3-bottom-{name}" for name in names])]
    assert len(unnamed) == 5 and set(unnamed["verdict"]) <= {"agrees", "differs", "undecided"}
    network = "With the network that we tried these methods are above"
    assert unnamed["note"].str.contains(network).all()
    partitions = (figures.CIFAR100, figures.CIFAR100_DISJOINT)
    runs = pd.concat([place.runs(*figures.METHODS) for place in partitions])
    assert set(runs["partition"]) == {"dirichlet", "dirichlet_fixed_size"}
    best = runs[["client_accuracy", "test_accuracy"]].to_numpy().max()
    bounds = unnamed["note"].str.extract(r"above ([\d.]+) % in no round")[0].astype(float)
    assert (bounds >= 100 * best).all() and (bounds < 100 * best + 0.1).all()  # rounded up


def test_what_lies_in_the_data_folder_changes_no_row(claims, tmp_path, monkeypatch):
    """Rows without data are the same where files of every data set lie as where none does (`claims`).

    No other row can depend on them: `claims` is decided where asking for the data folder is an error.
    """
    for name in (*tasks.names(), "femnist", "mind", "amazon-toys", "amazon-beauty"):
        (tmp_path / f"{name}.npz").touch()
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    before = rows_without_data(claims)
    after = ledger.as_frame(ledger.decide_all(map(ledger.find_claim, before["id"])))
    assert len(before) > 10
    columns = ["id", "ours", "low", "high", "verdict", "substitute", "note"]
    assert (
        after[columns].map(ledger.format_value).to_numpy().tolist()
        == before[columns].map(ledger.format_value).to_numpy().tolist()
    )


def test_rows_of_one_fact_have_one_verdict_and_about_fifteen_facts_are_core(claims):
    same = {"agrees": "holds", "differs": "fails"}  # decided by runs and by calculation
    for fact, rows in claims.dropna(subset="fact").groupby("fact"):
        assert len(rows) > 1, f"only {list(rows['id'])} states {fact}"
        assert rows["verdict"].replace(same).nunique() == 1, f"{fact}: {dict(rows['verdict'])}"
    faster = claims[claims["fact"] == "fedstas-faster"]
    assert len(faster) == 3 and not claims["fact"].eq("dp-over-fedsts").any()
    core = claims[claims["core"]]
    assert 12 <= len(core) <= 18 and core["fact"].fillna(core["id"]).is_unique
    assert set(core["paper"]) == {"preprint", "journal", "clustered", "slides"}


def test_claims_that_one_function_decides_on_runs_are_one_fact_unless_they_have_no_data(claims):
    verdicts = claims.set_index("id")["verdict"]
    on_runs = {k: v for k, v in claims_by_function().items() if k.startswith("experiments")}
    assert on_runs
    for name, decided in on_runs.items():
        facts = {claim.fact or claim.id for claim in decided if verdicts[claim.id] != "no-data"}
        assert len(facts) <= 1, name


def test_chapter_4_counts_all_statements_that_are_decided_by_calculation(claims):
    """Claims of every kind are decided by calculation: theory, figures, numbers and sentences."""
    counted = claims["verdict"].isin(registry.THEORY)
    assert set(claims.loc[counted, "id"]) == set(
        claims.loc[claims["link"].str.startswith("04"), "id"]
    )
    assert counted.sum() > (claims["kind"] == "theory").sum()


def test_claims_of_one_fact_are_counted_once():
    claims = [
        Claim(**FIELDS | {"id": name, "fact": fact})
        for name, fact in (("a", "x"), ("b", None), ("c", "x"), ("d", None))
    ]
    rows = ledger.first_of_each_fact((claim, Evidence("holds")) for claim in claims)
    assert [claim.id for claim, _ in rows] == ["a", "b", "d"]


def test_a_number_of_the_saved_arrays_is_not_called_printed():
    saved = [row for row in ledger.all_claims() if "saved arrays" in row.statement]
    assert len(saved) == 4
    for row in saved:
        assert "no number" in row.printed or not any(c.isdigit() for c in row.printed), row.id


def test_every_claim_has_a_meaning_of_our_value():
    claims = {claim.id: claim for claim in ledger.all_claims()}
    assert all(len(claim.meaning.split()) > 1 for claim in claims.values())
    claim = claims["preprint-fig-3-top-order"]
    text = ledger.format_claim(claim, Evidence("differs", -0.06, -0.2, 0.07))
    assert (
        "ours       -0.06 (-0.20 to 0.07)\nthis is    points that FedSTaS is above FedSTS\n" in text
    )
    assert "this is" not in ledger.format_claim(claim, Evidence("no-data", note="none"))


def test_a_slip_of_the_pen_is_false_as_printed_and_no_core_claim(claims):
    slips = claims[claims["id"].isin(c.id for c in ledger.all_claims() if c.slip)]
    assert set(slips["verdict"]) == {"fails"} and not slips["core"].any() and len(slips) == 3


def test_links_name_existing_chapters(claims):
    from companion.pages import chapters

    assert set(claims["link"].str.partition("#")[0]) <= set(chapters.names())


def test_the_ledger_is_written_for_the_book_or_not_at_all(register, tmp_path, monkeypatch):
    """Run the module as `python -m` does, but in this process, which saves an import of torch."""
    out = tmp_path / "ledger.json"
    monkeypatch.setattr(sys, "argv", [ledger.__file__, str(out)])
    fields = FIELDS | {"kind": "superiority", "printed": "54.67"}
    register(fields, decide=sentences.own_bars_mnist)
    runpy.run_path(ledger.__file__, run_name="__main__")
    (row,) = json.loads(out.read_text(encoding="utf-8"))["claims"]
    assert row["verdict"] == "differs" and row["columns"] == ["number", "%"]
    out.unlink()
    bad = fields | {"id": "journal-lemma-9", "printed": "a number"}
    register(bad, decide=sentences.own_bars_mnist)
    with pytest.raises(SystemExit) as exc_info:
        runpy.run_path(ledger.__file__, run_name="__main__")
    message = exc_info.value.code  # a text: Python writes it on stderr and exits with 1
    assert message.startswith("The ledger was not written: ") and "\n" not in message
    assert "claim journal-lemma-9 (tests/test_ledger.py:" in message and "raised" in message
    assert not out.exists()


# The functions that decide claims on runs, on synthetic runs.


def make_runs(values: dict[str, list[float]], sweep="preprint", **more) -> pd.DataFrame:
    """Return a frame like that of `records.load`: one run per method and seed, with one value in all rounds."""
    setting = {
        "task": "mnist",
        "partition": "dirichlet_fixed_size",
        "concentration": 0.01,
        "steps": 3,
    }
    rows = []
    for method, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            row = setting | {
                "sweep": sweep,
                "run": f"{method}{seed}",
                "method": method,
                "seed": seed,
            }
            row |= {"client_accuracy": value, "test_accuracy": value, "train_loss": 1 - value}
            rows += [row | {"rounds": 99, "round": t} | more for t in (1, 20, 40, 60, 80, 99)]
    return pd.DataFrame(rows)


@pytest.fixture
def replace_runs(monkeypatch):
    """`replace_runs(frame)` makes every sweep hold these runs."""

    def replace(frame):
        monkeypatch.setattr(experiments, "load_sweep", lambda sweep: frame)

    return replace


LEVEL = Claim(**FIELDS | {"kind": "figure", "printed": "56.0 %"})  # an accuracy, not a difference


def test_a_printed_accuracy_is_judged_by_the_prediction_interval_of_one_more_run(replace_runs):
    """It agrees if the interval lies within one point (the smallest effect that matters) of the printed 56 %, differs
    if 56 % is outside the interval, and is undecided if 56 % is inside an interval that is wider."""
    for mean, deviation, verdict in (
        (0.56, 0.001, "agrees"),
        (0.56, 0.01, "undecided"),
        (0.66, 0.01, "differs"),
    ):
        accuracies = [mean + deviation * e for e in (-1, 0, 1, 0, 0)]
        replace_runs(make_runs({"fedstas": accuracies}))
        evidence = figures.mnist_fedstas(LEVEL)
        assert evidence.verdict == verdict
        assert (evidence.low < 56 < evidence.high) is (verdict != "differs")


def test_an_order_agrees_on_its_side_of_zero_only(replace_runs):
    other = [0.50, 0.60, 0.55, 0.52, 0.58]
    for shift, verdict in ((0.02, "agrees"), (-0.02, "differs"), (0, "differs")):
        better = [v + shift + e for v, e in zip(other, (0, 1e-3, -1e-3, 0, 0), strict=True)]
        replace_runs(make_runs({"fedstas": better, "fedsts": other}))
        evidence = figures.mnist_order(LEVEL)
        assert evidence.verdict == verdict
        assert evidence.ours == pytest.approx(100 * shift)
    replace_runs(make_runs({"fedstas": other[::-1], "fedsts": other}))
    assert (
        figures.mnist_order(LEVEL).verdict == "undecided"
    )  # there may be no difference, or one that matters


def test_a_gain_agrees_if_there_is_one_and_a_pair_may_show_it(replace_runs):
    claim = Claim(**FIELDS | {"kind": "figure", "printed": "20 %"})
    wide, narrow = [0.50, 0.60, 0.55, 0.52, 0.58], [0.55, 0.551, 0.549, 0.55, 0.55]
    for other, gains, verdict in (
        (narrow, [1.199, 1.20, 1.201, 1.20, 1.20], "agrees"),
        (narrow, [1.09, 1.10, 1.11, 1.10, 1.10], "differs"),
        # One more pair of separate runs may show 20 %; but the mean gain is too small to matter, or none is seen.
        (wide, [1.001, 0.999, 1.0, 1.001, 0.999], "differs"),
        (wide, [0.8, 1.6, 0.9, 1.1, 1.2], "undecided"),
    ):
        better = [v * g for v, g in zip(other, gains, strict=True)]
        replace_runs(make_runs({"fedstas": better, "fedsts": other}))
        evidence = figures.mnist_gain(claim)
        assert evidence.verdict == verdict
        assert (evidence.low < 20 < evidence.high) is (other is wide or verdict == "agrees")


def test_a_claim_has_a_verdict_as_coded_where_that_is_recorded(replace_runs):
    low = [0.55, 0.551, 0.549, 0.55, 0.55]
    high = [v * g for v, g in zip(low, (1.179, 1.18, 1.181, 1.18, 1.18), strict=True)]
    deciders = (figures.mnist_order, figures.by_round_40, sentences.keeps_most, figures.mnist_gain)
    written = {"fedsts": high, "fedstas": low, "fedstas-dp": low}
    coded = {"fedsts": low, "fedstas": high, "fedstas-dp": high}
    replace_runs(make_runs(written))
    assert [f(LEVEL).coded for f in deciders] == [""] * 4
    replace_runs(make_runs(written | {f"{m}-authors-dec": v for m, v in coded.items()}))
    gain = Claim(**FIELDS | {"kind": "figure", "printed": "18 %"})
    for evidence in (f(gain) for f in deciders):
        assert (evidence.verdict, evidence.coded) == ("differs", "agrees")
        assert "As coded: " in evidence.note
    scattered = [0.50, 0.60, 0.55, 0.52, 0.58]
    names = [f"{m}{suffix}" for m in written for suffix in ("", "-authors-dec")]
    replace_runs(make_runs(dict.fromkeys(names, scattered)))
    levels = (figures.mnist_fedstas(LEVEL), figures.begins_at(LEVEL))  # 56 %
    assert {evidence.coded for evidence in levels} == {"undecided"}


def test_runs_that_are_not_recorded_are_pending_and_name_their_sweep(replace_runs):
    replace_runs(None)
    evidence = figures.skewed_fedstas(LEVEL)
    assert evidence.verdict == "pending"
    assert "fedstas sweep mnist-0.001 --profile paper --folder results" in evidence.note
    replace_runs(make_runs({"fedstas": [0.5]}))
    assert figures.mnist_fedstas(LEVEL).verdict == "pending"


def test_a_claim_on_unavailable_data_has_no_data_until_the_runs_exist_whatever_file_there_is(
    replace_runs, monkeypatch, tmp_path
):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    replace_runs(None)
    assert cifar10.on_prox(LEVEL).verdict == "no-data"
    (tmp_path / "cifar10.npz").touch()
    assert cifar10.on_prox(LEVEL).verdict == "no-data"
    schemes = {"md": [0.3, 0.31, 0.32, 0.3, 0.3], "clustered-size": [0.4, 0.41, 0.42, 0.4, 0.4]}
    better = schemes | {"clustered-similarity": [0.5, 0.52, 0.54, 0.5, 0.5]}
    worse = schemes | {"clustered-similarity": [0.2, 0.2, 0.25, 0.2, 0.2]}
    setting = {"task": "cifar10", "steps": 100, "clients": 100, "clients_per_round": 10}
    setting |= {"measure": ""}
    for regular, other, verdict in ((better, worse, "agrees"), (worse, better, "differs")):
        frames = make_runs(regular, prox=0.1, **setting), make_runs(other, prox=1.0, **setting)
        replace_runs(pd.concat(frames))  # those of another mu decide nothing here
        assert cifar10.on_prox(LEVEL).verdict == verdict


def test_a_claim_on_cifar10_waits_for_all_five_seeds(monkeypatch):
    """With four it has no data, and the verdict on MNIST stands beside it."""
    setting = {"clients": 100, "clients_per_round": 10, "prox": 0.1, "measure": ""}
    schemes = {"md": [0.3] * 5, "clustered-size": [0.5, 0.52, 0.54, 0.5, 0.5]}
    schemes |= {"clustered-similarity": [0.5, 0.52, 0.54, 0.5, 0.5]}
    fewer = {name: values[:4] for name, values in schemes.items()}
    on_mnist = make_runs(
        {name: values[::-1] for name, values in schemes.items()}, **setting, steps=100
    )
    row = ledger.find_claim("clustered-fig-10")
    for values, verdict, substitute in ((fewer, "no-data", "agrees"), (schemes, "agrees", "")):
        frames = {"clustered-cifar10-short": make_runs(values, task="cifar10", steps=20, **setting)}
        frames |= {"clustered-mnist": on_mnist}
        monkeypatch.setattr(experiments, "load_sweep", frames.get)
        evidence = row.decide(row)
        assert (evidence.verdict, evidence.substitute) == (verdict, substitute)


def test_the_sweeps_that_rows_recommend_exist(claims, monkeypatch, tmp_path):
    from companion.runs import experiments as declared

    # The runs on CIFAR-10 are taken away, by which these rows are decided.
    rows = [row for row in ledger.all_claims() if "/experiments_cifar10.py" in row.source]
    sweeps = ("clustered-cifar10", "clustered-cifar10-short")
    load = experiments.load_sweep
    monkeypatch.setattr(
        experiments, "load_sweep", lambda name: None if name in sweeps else load(name)
    )
    evidence = {row: row.decide(row) for row in rows}
    missing = {row: item for row, item in evidence.items() if item.verdict == "no-data"}
    # These two rest on labels and on the authors' code, and on no run.
    without_runs = {"clustered-fig-5", "clustered-fig-6-to-10-concentration"}
    assert {row.id for row in rows} - {row.id for row in missing} == without_runs
    for item in missing.values():
        for sweep in sweeps:
            assert f"`fedstas sweep {sweep} --profile paper --folder results`" in item.note
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    (tmp_path / "cifar10.npz").touch()
    assert {row.decide(row).verdict for row in missing} == {"no-data"}
    notes_text = " ".join([*claims["note"], *(item.note for item in evidence.values())])
    assert set(re.findall(r"fedstas sweep (\S+)", notes_text)) <= set(declared.names())


def test_the_figures_are_of_the_captions_concentration_only_if_the_code_draws_and_lists_it(
    monkeypatch,
):
    row = ledger.find_claim("clustered-fig-6-to-10-concentration")
    assert (row.decide(row).verdict, row.decide(row).ours) == ("agrees", "4 of 4")
    code = cifar10.CONCENTRATIONS_IN_CODE
    for column, other in (("drawn by plots_appendix", 0.1), ("in experiments_all", "0.1, 10.0")):
        changed = code.assign(**{column: [other, *code[column][1:]]})
        monkeypatch.setattr(cifar10, "CONCENTRATIONS_IN_CODE", changed)
        assert (row.decide(row).verdict, row.decide(row).ours) == ("differs", "3 of 4")


def test_the_first_printed_number_is_read():
    assert [experiments.first_number(t) for t in (3, "56.00 %", "+1.0 points", "−0.3")] == [
        3,
        56,
        1,
        -0.3,
    ]


def test_a_verdict_says_whether_it_is_on_the_papers_data_on_the_same_kind_or_on_a_substitute():
    ids = ("clustered-fig-2", "slides-table-mind", "slides-table-toys")
    on_own, on_same_kind, on_substitute = ledger.substitutes_table(ids)["verdict"]
    assert on_own == "undecided, on cifar10, at a reduced length"
    assert on_same_kind == "undecided, on reuters-titles"
    assert on_substitute == "differs, on newsgroups-words"


def test_the_page_shows_core_claims_facts_and_verdicts_on_substitutes(monkeypatch):
    from docutils import nodes

    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import fedstas_ledger as page

    def claim(name, verdict, fact=None, core=False, **more):
        empty = {"paper": "preprint", "place": "Sec. 1", "kind": "number", "statement": "So."}
        empty |= {"printed": "1", "ours": "2", "note": "", "columns": [], "table": []}
        empty |= {"link": "05_experiments", "substitute": "", "slip": False}
        return empty | {"id": name, "verdict": verdict, "fact": fact, "core": core} | more

    claims = [
        claim("a", "undecided", "x", True),
        claim("b", "no-data", substitute="undecided"),
        claim("c", "undecided", "x"),
        claim("d", "agrees", core=True, meaning="points above"),
    ]
    document = {"papers": {"preprint": ""}, "verdicts": VERDICTS, "claims": claims}
    env = SimpleNamespace(
        docname="ledger", note_dependency=lambda path: None, note_reread=lambda: None
    )

    def run(directive, *arguments):
        """Run a directive of the page on the document of these claims."""
        instance = directive.__new__(directive)
        instance.arguments, instance.ledger = [*arguments], lambda: document
        instance.state = SimpleNamespace(
            document=SimpleNamespace(settings=SimpleNamespace(env=env))
        )
        return instance.run()

    (core,), (every,) = run(page.LedgerBar, "core"), run(page.LedgerBar)
    assert "Verdicts of 2 core claims: 1 agrees, 1 undecided" in core.astext()
    assert 'class="ledger-legend of-core"' in core.astext()
    every = every.astext()
    assert "Verdicts of all 4 rows, which state 3 facts: 1 agrees, 2 undecided, 1 no-data" in every
    assert '"verdict-chip verdict-undecided">2 undecided' in every
    key = re.search('<p class="ledger-key">(.+?)</p>', every)[1]
    assert re.findall("<em>(.+?)</em>: ", key) == ["agrees", "undecided", "no-data"]
    _, table = run(page.Ledger, "preprint")
    rows = table[0][-1].children
    assert [row["ids"] for row in rows] == [["a"], ["c"], ["b"], ["d"]]  # one fact stands together
    assert [row["classes"][1:] for row in rows] == [["is-core"], [], [], ["is-core"]]
    assert "one fact with: c" in rows[0].astext() and "one fact with" not in rows[3].astext()
    assert [row[2].astext() for row in rows] == ["2", "2", "2", "2\n\npoints above"]
    assert isinstance(table, nodes.table)
    head = [cell.astext() for cell in table[0].children[-2].children[0]]
    assert head == ["claim", "printed", "ours", "verdict", "on a substitute"]
    # Verdict, and that on a substitute.
    last = [[cell.astext() for cell in row][3:] for row in rows]
    assert last == [["undecided", ""], ["undecided", ""], ["no-data", "undecided"], ["agrees", ""]]
    for row_claim in claims:
        row_claim["substitute"] = ""
    _, table = run(page.Ledger, "preprint")
    assert {len(row) for row in table[0][-1].children} == {4}  # no column of nothing


def test_the_verdicts_on_runs_have_five_colours_and_holds_if_has_a_sixth():
    """A verdict on a theorem, `holds` or `fails`, may share the background of the like verdict on runs, `agrees` or
    `differs`; all others are distinct."""
    style = (ROOT / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    background = {
        verdict: re.search(rf"\.verdict-{verdict}(?=[ ,])[^{{}}]*{{ --ground: (#\w+)", style)[1]
        for verdict in VERDICTS
    }
    on_runs = {background[v] for v in ("agrees", "differs", "undecided", "no-data", "pending")}
    assert len(on_runs) == 5
    assert background["holds-if"] not in on_runs
    assert background["holds"] != background["fails"]
