"""Comparison of results with recorded ones: identical, close, different, not recorded."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from companion import compare, records
from fedstas import cli, methods, simulation
from fedstas.errors import InputError

SETTINGS = {"rounds": 4, "clients_per_round": 4, "eval_every": 1}


@pytest.fixture(scope="module")
def recorded(digits, federation, tmp_path_factory):
    """Return a folder of four recorded runs: two methods, two seeds."""
    folder = tmp_path_factory.mktemp("recorded")
    for name in ("md", "fedstas-unbiased"):
        for seed in (0, 1):
            method, settings = methods.get(name), SETTINGS | {"seed": seed}
            identity = records.identity(digits, federation, method, **settings)
            history = simulation.run(digits, federation, method, device="cpu", **settings)
            records.save(history, identity, "trial", folder, device="cpu")
    return folder


@pytest.fixture
def copied_runs(recorded, tmp_path):
    """Return a copy of the recorded runs, to be altered."""
    return shutil.copytree(recorded, tmp_path / "mine")


def alter(sidecar, cohorts_from=None, chain=True, **columns):
    """Change a run as another machine might: the values of `columns`, and the cohorts from a round on."""
    data, metadata = (
        sidecar.with_suffix(".parquet"),
        json.loads(sidecar.read_text(encoding="utf-8")),
    )
    del metadata["note_sha256"], metadata["rows_sha256"]  # older runs have no such checksums
    frame = pd.read_parquet(data)
    for key, value in columns.items():
        frame[key] = value(frame[key])
    frame.to_parquet(data, index=False)
    metadata["values_sha256"] = records.hash_values(frame)
    if cohorts_from is not None:
        metadata["cohorts_sha256"] = "0" * 64
        chain_text, equal = metadata["cohorts_chain"], records.CHAIN_DIGITS * (cohorts_from - 1)
        metadata["cohorts_chain"] = chain_text[:equal] + "x" * (len(chain_text) - equal)
    if not chain:
        metadata.pop("cohorts_chain")
    sidecar.write_text(json.dumps(metadata), encoding="utf-8")


def run_compare(*arguments) -> int:
    """Run `fedstas compare` and return its exit code."""
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["compare", *map(str, arguments)])
    return exit_info.value.code


def test_a_copy_of_the_recorded_runs_is_identical(recorded, copied_runs, capsys):
    comparison = compare.compare(copied_runs, recorded)
    assert comparison.agree
    assert comparison.runs["verdict"].tolist() == ["identical"] * 4
    assert not len(comparison.unmatched)
    assert run_compare(copied_runs, recorded) == 0
    out = capsys.readouterr().out
    assert out == "4 runs: 4 identical, 0 close, 0 differs, 0 not recorded (tolerance 0.5 points)\n"


def test_packed_results_are_compared_with_single_files(recorded, copied_runs):
    records.pack(copied_runs / "trial")
    for pair in (
        (copied_runs, recorded),
        (recorded, copied_runs),
        (copied_runs / "trial", copied_runs),
    ):
        assert compare.compare(*pair).runs["verdict"].tolist() == ["identical"] * 4


def test_json_files_that_describe_no_run_are_ignored(recorded, copied_runs):
    for folder in (copied_runs, copied_runs / "trial"):
        (folder / "package.json").write_text('{"name": "else"}', encoding="utf-8")
        (folder / "notes.json").write_text("no JSON at all", encoding="utf-8")
    assert (
        compare.compare(copied_runs, recorded).agree
        and compare.compare(recorded, copied_runs).agree
    )


def test_the_seconds_of_a_run_are_not_compared(recorded, copied_runs):
    for sidecar in copied_runs.rglob("*.json"):
        alter(sidecar, seconds=lambda s: s + 1)
    assert compare.compare(copied_runs, recorded).runs["verdict"].unique().tolist() == ["identical"]


def test_a_run_within_the_tolerance_is_close_and_the_first_different_round_is_reported(
    recorded, copied_runs, capsys
):
    sidecar = sorted(copied_runs.rglob("*.json"))[0]
    alter(sidecar, test_accuracy=lambda a: a + np.where(np.arange(len(a)) >= 2, 0.004, 0))
    comparison = compare.compare(copied_runs, recorded)
    assert comparison.agree
    row = comparison.runs[comparison.runs["verdict"] == "close"].iloc[0]
    assert (row["first"], row.what) == (3, "other test_accuracy")
    assert row.points == pytest.approx(0.4)
    assert run_compare(copied_runs, recorded) == 0
    assert (
        "other test_accuracy from round 3 on, accuracy at the end 0.40 points"
        in capsys.readouterr().out
    )
    assert run_compare(copied_runs, recorded, "--tolerance", 0.3) == 1
    out, err = capsys.readouterr()
    assert "  differs: fedstas-unbiased on digits dirichlet 0.1, seed 0 (" in out
    assert err.startswith("fedstas: 4 runs: 3 identical, 0 close, 1 differs")


@pytest.mark.parametrize("chain", [True, False])
def test_the_first_round_with_another_cohort_is_reported(recorded, copied_runs, chain):
    """By the chain of hashes, and in older records by the first evaluated round that differs."""
    sidecar = sorted(copied_runs.rglob("*.json"))[0]
    later = {"client_accuracy": lambda a: a + np.where(np.arange(len(a)) >= 3, 0.2, 0)}
    alter(sidecar, cohorts_from=2, chain=chain, **later)
    comparison = compare.compare(copied_runs, recorded)
    row = comparison.runs[comparison.runs["verdict"] == "differs"].iloc[0]
    assert (row["first"], row.what) == (
        2 if chain else 4,
        "other cohorts",
    )  # accuracy differs from 4 on
    assert not comparison.agree


def test_other_cohorts_with_the_same_accuracy_are_close(recorded, copied_runs):
    alter(sorted(copied_runs.rglob("*.json"))[0], cohorts_from=4)
    row = compare.compare(copied_runs, recorded).runs.query("verdict == 'close'").iloc[0]
    assert (row["first"], row.what, row.points) == (4, "other cohorts", 0.0)


def test_a_run_that_ended_early_differs_from_a_complete_one(recorded, copied_runs):
    sidecar = next(copied_runs.rglob("*.json"))
    table = sidecar.with_suffix(".parquet")
    (whole,) = compare._read(table).values()
    shorter = replace(whole, frame=whole.frame.iloc[:-1], diverged="after round 2: not finite")
    nothing = replace(whole, frame=whole.frame.iloc[:0], diverged="after round 1: not finite")
    assert compare._judge(whole, whole, 0.5)["verdict"] == "identical"
    for early in (shorter, nothing):
        assert compare._judge(whole, early, 100.0)["verdict"] == "differs"
        assert compare._judge(early, early, 0.0)["verdict"] == "identical"
    other_end = replace(shorter, diverged=None)
    assert compare._judge(whole, other_end, 100.0)["what"] == "one run ended earlier"
    with pytest.raises(InputError, match="no evaluated round in common"):
        compare._judge(replace(whole, frame=whole.frame.iloc[:0]), whole, 0.5)


def test_runs_of_one_folder_only_are_listed(recorded, copied_runs, capsys):
    for sidecar in sorted(copied_runs.rglob("*.json"))[1:]:
        sidecar.unlink()
    assert run_compare(copied_runs, recorded) == 0  # a part of the recorded runs agrees
    assert (
        "only in the second: digits dirichlet 0.1 md, 2 runs (seeds 0, 1)"
        in capsys.readouterr().out
    )
    assert run_compare(recorded, copied_runs) == 1
    out = capsys.readouterr().out
    assert "1 identical, 0 close, 0 differs, 3 not recorded" in out
    assert "  not recorded: md on digits dirichlet 0.1, seed 1 (" in out


def test_two_files_of_one_run_are_compared(recorded, tmp_path, capsys):
    recorded_file, other_seed, *_ = sorted(recorded.rglob("*.parquet"))
    new_file = tmp_path / "out.parquet"  # as `fedstas run --out` writes it
    shutil.copy(recorded_file, new_file)
    assert run_compare(new_file, recorded_file) == 0
    assert run_compare(recorded_file, new_file) == 0
    assert run_compare(recorded_file, recorded_file) == 0
    assert capsys.readouterr().out.count("1 identical") == 3
    assert run_compare(new_file, other_seed, "--tolerance", 0) == 1
    assert "1 differs" in capsys.readouterr().out
    assert run_compare(new_file, recorded) == 2
    assert "can only be compared with another one" in capsys.readouterr().err


def test_the_chain_of_cohort_hashes_has_one_entry_a_round_and_ends_in_the_hash_of_all(recorded):
    sidecars = list(recorded.rglob("*.json"))
    assert len(sidecars) == 4
    for sidecar in sidecars:
        metadata = json.loads(sidecar.read_text(encoding="utf-8"))
        assert len(metadata["cohorts_chain"]) == records.CHAIN_DIGITS * SETTINGS["rounds"]
        assert metadata["cohorts_chain"].endswith(
            metadata["cohorts_sha256"][: records.CHAIN_DIGITS]
        )


@pytest.mark.parametrize(
    ("make_path", "message"),
    [
        (lambda folder: folder / "nothing", "does not exist: name a folder"),
        (lambda folder: folder, "no recorded runs below"),
        (
            lambda folder: (
                (folder / "x.parquet").write_text("x", encoding="utf-8") and folder / "x.parquet"
            ),
            "not a parquet file",
        ),
        (
            lambda folder: (
                pd.DataFrame({"a": [1]}).to_parquet(folder / "y.parquet") or folder / "y.parquet"
            ),
            "its columns are others",
        ),
    ],
)
def test_a_path_that_cannot_be_compared_is_refused_in_one_sentence(
    recorded, tmp_path, capsys, make_path, message
):
    assert run_compare(make_path(tmp_path), recorded) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_sidecar_that_contradicts_its_file_is_refused(recorded, copied_runs):
    sidecar = sorted(copied_runs.rglob("*.json"))[0]
    frame = pd.read_parquet(sidecar.with_suffix(".parquet"))
    frame.assign(test_accuracy=0.9).to_parquet(sidecar.with_suffix(".parquet"), index=False)
    with pytest.raises(InputError, match=f"{sidecar.name} contradicts .*: delete both"):
        compare.compare(copied_runs, recorded)
    frame.iloc[:-1].to_parquet(sidecar.with_suffix(".parquet"), index=False)
    with pytest.raises(InputError, match="contradicts"):
        records.load(copied_runs)


@pytest.mark.parametrize("tolerance", [-1, 101, float("nan")])
def test_bad_tolerances_are_refused(recorded, tolerance):
    with pytest.raises(InputError, match="tolerance"):
        compare.compare(recorded, recorded, tolerance=tolerance)


def test_the_root_of_the_file_system_may_be_compared(monkeypatch):
    monkeypatch.setattr(records, "read_runs", lambda place: [])
    with pytest.raises(InputError, match="there are no recorded runs below /"):
        compare._read("/")


def test_the_report_lists_compared_runs_first_and_sums_up_more_than_four_unmatched_settings():
    settings = {
        "task": "digits",
        "partition": "iid",
        "concentration": np.nan,
        "seed": 0,
        "run": "r",
    }
    compared_run = settings | {
        "method": "md",
        "verdict": "differs",
        "first": 3.0,
        "what": "x",
        "points": 2.0,
    }
    unmatched_runs = [settings | {"method": f"m{k}", "seed": s} for k in range(5) for s in range(2)]
    for count, last_line in (
        (4, "digits iid m3, 2 runs (seeds 0, 1)"),
        (5, "10 runs of 5 methods and"),
    ):
        # up to four settings have a line each, more are counted in one
        unmatched = pd.DataFrame(unmatched_runs[: 2 * count])
        lines = (
            compare.Comparison(pd.DataFrame([compared_run]), unmatched, 0.5).report().splitlines()
        )
        assert lines[0].startswith("1 runs: 0 identical, 0 close, 1 differs")
        assert lines[1].startswith("  differs: md on digits iid, seed 0")
        assert lines[-1].startswith(f"  only in the second: {last_line}")
        assert len(lines) == 2 + (count if count < 5 else 1)
