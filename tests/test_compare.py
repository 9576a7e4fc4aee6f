"""Results held against recorded ones: identical, close, different, not recorded."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from companion import compare, records
from fedstas import cli, methods, simulation
from fedstas.errors import InputError

HOW = {"rounds": 4, "clients_per_round": 4, "eval_every": 1}


@pytest.fixture(scope="module")
def recorded(digits, federation, tmp_path_factory):
    """Two methods, two seeds."""
    folder = tmp_path_factory.mktemp("recorded")
    for name in ("md", "fedstas-unbiased"):
        for seed in (0, 1):
            method, how = methods.get(name), HOW | {"seed": seed}
            who = records.identity(digits, federation, method, **how)
            history = simulation.run(digits, federation, method, device="cpu", **how)
            records.save(history, who, "trial", folder, device="cpu")
    return folder


@pytest.fixture
def mine(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "mine")


def alter(sidecar, cohorts_from=None, chain=True, **columns):
    """Another machine's result: values from `columns`, other cohorts from a round on."""
    data, metadata = sidecar.with_suffix(".parquet"), json.loads(sidecar.read_text())
    del metadata["note_sha256"], metadata["rows_sha256"]  # as the older ones are
    frame = pd.read_parquet(data)
    for key, value in columns.items():
        frame[key] = value(frame[key])
    frame.to_parquet(data, index=False)
    metadata["values_sha256"] = records.hash_values(frame)
    if cohorts_from is not None:
        metadata["cohorts_sha256"] = "0" * 64
        text, keep = metadata["cohorts_chain"], records.CHAIN_DIGITS * (cohorts_from - 1)
        metadata["cohorts_chain"] = text[:keep] + "x" * (len(text) - keep)
    if not chain:
        metadata.pop("cohorts_chain")
    sidecar.write_text(json.dumps(metadata))


def command(*arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", *map(str, arguments)])
    return caught.value.code


def test_the_same_results_are_identical(recorded, mine, capsys):
    comparison = compare.compare(mine, recorded)
    assert comparison.agree
    assert comparison.runs["verdict"].tolist() == ["identical"] * 4
    assert not len(comparison.unmatched)
    assert command(mine, recorded) == 0
    out = capsys.readouterr().out
    assert out == "4 runs: 4 identical, 0 close, 0 differs, 0 not recorded (tolerance 0.5 points)\n"


def test_packed_results_are_compared_with_single_files(recorded, mine):
    records.pack(mine / "trial")
    for pair in ((mine, recorded), (recorded, mine), (mine / "trial", mine)):
        assert compare.compare(*pair).runs["verdict"].tolist() == ["identical"] * 4


def test_other_peoples_json_does_not_stop_it(recorded, mine):
    for place in (mine, mine / "trial"):
        (place / "package.json").write_text('{"name": "else"}')
        (place / "notes.json").write_text("no JSON at all")
    assert compare.compare(mine, recorded).agree and compare.compare(recorded, mine).agree


def test_seconds_do_not_matter(recorded, mine):
    for sidecar in mine.rglob("*.json"):
        alter(sidecar, seconds=lambda s: s + 1)
    assert compare.compare(mine, recorded).runs["verdict"].unique().tolist() == ["identical"]


def test_close_is_within_the_tolerance_and_says_from_where_on(recorded, mine, capsys):
    sidecar = sorted(mine.rglob("*.json"))[0]
    alter(sidecar, test_accuracy=lambda a: a + np.where(np.arange(len(a)) >= 2, 0.004, 0))
    comparison = compare.compare(mine, recorded)
    assert comparison.agree
    row = comparison.runs[comparison.runs["verdict"] == "close"].iloc[0]
    assert (row["first"], row.what) == (3, "other test_accuracy")
    assert row.points == pytest.approx(0.4)
    assert command(mine, recorded) == 0
    assert (
        "other test_accuracy from round 3 on, accuracy at the end 0.40 points"
        in capsys.readouterr().out
    )
    assert command(mine, recorded, "--tolerance", 0.3) == 1
    out, err = capsys.readouterr()
    assert "  differs: fedstas-unbiased on digits dirichlet 0.1, seed 0 (" in out
    assert err.startswith("fedstas: 4 runs: 3 identical, 0 close, 1 differs")


@pytest.mark.parametrize("chain", [True, False])
def test_the_first_other_cohort_is_named(recorded, mine, chain):
    """By the chain of hashes, and in older records by the first evaluated round that differs."""
    sidecar = sorted(mine.rglob("*.json"))[0]
    later = {"client_accuracy": lambda a: a + np.where(np.arange(len(a)) >= 3, 0.2, 0)}
    alter(sidecar, cohorts_from=2, chain=chain, **later)
    comparison = compare.compare(mine, recorded)
    row = comparison.runs[comparison.runs["verdict"] == "differs"].iloc[0]
    assert (row["first"], row.what) == (2 if chain else 4, "other cohorts")
    assert not comparison.agree


def test_other_cohorts_with_the_same_accuracy_are_close(recorded, mine):
    alter(sorted(mine.rglob("*.json"))[0], cohorts_from=4)
    row = compare.compare(mine, recorded).runs.query("verdict == 'close'").iloc[0]
    assert (row["first"], row.what, row.points) == (4, "other cohorts", 0.0)


def test_what_only_one_side_has_is_listed(recorded, mine, capsys):
    for sidecar in sorted(mine.rglob("*.json"))[1:]:
        sidecar.unlink()
    assert command(mine, recorded) == 0  # a part of the recorded runs agrees
    assert (
        "only in the second: digits dirichlet 0.1 md, 2 runs (seeds 0, 1)"
        in capsys.readouterr().out
    )
    assert command(recorded, mine) == 1
    out = capsys.readouterr().out
    assert "1 identical, 0 close, 0 differs, 3 not recorded" in out
    assert "  not recorded: md on digits dirichlet 0.1, seed 1 (" in out


def test_two_files_are_one_run(recorded, tmp_path, capsys):
    one = sorted(recorded.rglob("*.parquet"))[0]
    out = tmp_path / "out.parquet"  # as `fedstas run --out` writes it
    shutil.copy(one, out)
    assert command(out, one) == 0
    assert command(one, out) == 0
    assert command(one, one) == 0
    assert command(out, sorted(recorded.rglob("*.parquet"))[1], "--tolerance", 0) in (0, 1)
    assert capsys.readouterr().out.count("1 identical") >= 3
    assert command(out, recorded) == 2
    assert "can only be compared with another one" in capsys.readouterr().err


def test_the_chain_is_the_hash_of_all_cohorts_so_far(recorded):
    for sidecar in recorded.rglob("*.json"):
        metadata = json.loads(sidecar.read_text())
        assert len(metadata["cohorts_chain"]) == records.CHAIN_DIGITS * HOW["rounds"]
        assert metadata["cohorts_chain"].endswith(
            metadata["cohorts_sha256"][: records.CHAIN_DIGITS]
        )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda p: p / "nothing", "does not exist: name a folder"),
        (lambda p: p, "no recorded runs below"),
        (lambda p: (p / "x.parquet").write_text("x") and p / "x.parquet", "not a parquet file"),
        (
            lambda p: pd.DataFrame({"a": [1]}).to_parquet(p / "y.parquet") or p / "y.parquet",
            "its columns are others",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(recorded, tmp_path, capsys, make, named):
    assert command(make(tmp_path), recorded) == 2
    err = capsys.readouterr().err
    assert named in err
    assert err.count("\n") == 1


def test_a_sidecar_that_contradicts_its_file_is_named(recorded, mine):
    sidecar = sorted(mine.rglob("*.json"))[0]
    frame = pd.read_parquet(sidecar.with_suffix(".parquet"))
    frame.assign(test_accuracy=0.9).to_parquet(sidecar.with_suffix(".parquet"), index=False)
    with pytest.raises(InputError, match=f"{sidecar.name} contradicts .*: delete both"):
        compare.compare(mine, recorded)
    frame.iloc[:-1].to_parquet(sidecar.with_suffix(".parquet"), index=False)
    with pytest.raises(InputError, match="contradicts"):
        records.load(mine)


@pytest.mark.parametrize("tolerance", [-1, 101, float("nan")])
def test_bad_tolerances_are_refused(recorded, tolerance):
    with pytest.raises(InputError, match="tolerance"):
        compare.compare(recorded, recorded, tolerance=tolerance)


def test_the_root_of_the_file_system_is_a_folder_like_any_other(monkeypatch):
    monkeypatch.setattr(records, "read_runs", lambda place: [])
    with pytest.raises(InputError, match="there are no recorded runs below /"):
        compare._read("/")


def test_ones_own_runs_come_first_and_much_besides_is_one_line():
    head = {"task": "digits", "partition": "iid", "concentration": np.nan, "seed": 0, "run": "r"}
    mine = head | {"method": "md", "verdict": "differs", "first": 3.0, "what": "x", "points": 2.0}
    others = [head | {"method": f"m{k}", "seed": s} for k in range(5) for s in range(2)]
    for count, last in ((4, "digits iid m3, 2 runs (seeds 0, 1)"), (5, "10 runs of 5 methods and")):
        unmatched = pd.DataFrame(others[: 2 * count])
        lines = compare.Comparison(pd.DataFrame([mine]), unmatched, 0.5).report().splitlines()
        assert lines[0].startswith("1 runs: 0 identical, 0 close, 1 differs")
        assert lines[1].startswith("  differs: md on digits iid, seed 0")
        assert lines[-1].startswith(f"  only in the second: {last}")
        assert len(lines) == 2 + (count if count < 5 else 1)
