"""The benchmarks compute the same on every side, and write what they promise. No timing is asserted."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import frameworks, large, loops, page, rounds, strata, timing, whole_rounds
from benchmarks.workloads import problem
from fedstas import engine

ROOT = Path(__file__).resolve().parents[1]
KEYS = {"name", "against", "ratio", "low", "high", "repeats", "threads", "machine"}


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """Random images: the tests need no data set."""
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_all_implementations_of_a_round_agree(name):
    p = problem(name, clients=3, size=9, m=2, batch=4)
    assert p.idx.shape == (2, 3, 4)
    for other in (loops.plain(p), loops.lean(p)):
        torch.testing.assert_close(p.ours(), other(), rtol=0, atol=1e-6)


def test_all_implementations_of_the_gradients_agree():
    p = problem("mnist", clients=4, size=[3, 8, 8, 5], m=1)
    result = torch.stack(list(engine.client_gradients(p.module, p.params, p.data)))
    for other in (loops.plain_gradients(p), loops.lean_gradients(p), loops.lean_gradients(p, 2)):
        torch.testing.assert_close(result, torch.stack(list(other)), rtol=0, atol=1e-6)


def test_a_benchmark_whose_implementations_differ_is_an_error():
    timing.check("the same", [1.0, 2.0], [1.0, 2.0], 0.0)
    for wrong in ([1.0, 2.1], [1.0, np.nan]):
        with pytest.raises(AssertionError, match="gradients: the results differ"):
            timing.check("gradients", wrong, [1.0, 2.0], 1e-6)


def test_a_ratio_has_the_documented_json_fields():
    p = problem("mnist", clients=2, size=6, m=2)
    results = rounds.one_round("round-mnist", p, 2) + rounds.all_gradients(p, 1)
    assert [r["against"] for r in results] == ["plain", "lean"] * 2
    for r in results:
        assert set(r) >= KEYS
        assert 0 < r["low"] <= r["high"]
        assert r["threads"] == 1
        json.dumps(r)


def test_a_ratio_is_of_medians_and_its_range_of_the_repeats():
    r = timing.entry("squeeze", "sort", [1.0, 2.0, 4.0], [8.0, 2.0, 6.0], "")
    assert (r["ratio"], r["low"], r["high"], r["repeats"]) == (3.0, 1.0, 8.0, 3)


@pytest.mark.slow
def test_a_round_of_fedstas_runs_in_our_and_in_the_authors_implementation():
    p = problem("mnist", clients=12, size=8)
    assert torch.isfinite(whole_rounds.Round(p)()).all()
    assert whole_rounds.AuthorsRound(p)() > 0


def test_a_missing_framework_is_named(monkeypatch, capsys):
    monkeypatch.setitem(frameworks.MODULES, "pfl", ("no_such_module",))
    assert frameworks.framework("pfl", "mnist", sys.executable, True) == []
    assert "round-mnist against pfl: skipped, no_such_module is not in" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused(tmp_path, monkeypatch, capsys):
    output = str(tmp_path / "x.json")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nonsense", "--json", output])
    with pytest.raises(SystemExit) as exc_info:
        runpy.run_module("benchmarks", run_name="__main__")
    assert exc_info.value.code == 2
    assert "unknown benchmark 'nonsense'" in capsys.readouterr().err


def test_the_page_states_machine_threads_date_and_whether_a_gpu_was_there():
    folder = ROOT / "benchmarks" / "results"
    assert list(folder.glob("*.json")), (
        "run python -m benchmarks --json benchmarks/results/NAME.json"
    )
    page_text = page.text(folder)
    for path, text in (
        (folder.parent / "README.md", page_text),
        (page.PARAGRAPH, page.paragraph(folder)),
    ):
        assert path.read_text(encoding="utf-8") == text, "run python -m benchmarks.page"
    for word in ("Machine", "thread"):
        assert word in page_text
    assert ("no GPU figure was taken" in page_text) != (folder.parent / "gpu.json").exists()


def test_a_profile_lists_shares_of_time_and_names_the_convolutions():
    shares = rounds.profile(problem("cifar10", clients=2, size=16, m=1, batch=16).ours)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["convolutions, backward"] > shares["the rest"] >= 0


def test_many_clients_stay_below_the_bound_on_memory(monkeypatch):
    for limit in (large.stratification.LARGE, 0):  # as one matrix, and a block of columns at a time
        monkeypatch.setattr(large.stratification, "LARGE", limit)
        result = large.large(12)
        assert result["N"] == 12 and result["d"] == 128_420
        assert 0 <= result["measured"] <= result["memory"]
        assert result["memory"] == large.bound(12, 128_420)


def test_strata_are_compared_with_k_means_at_the_same_clients():
    result = strata.compare(60, 6)
    assert 0 < result["share_ours"] < result["share_kmeans"]  # k-means does not balance masses
    assert result["memory"] > 60 * 60 * 8 and result["seconds"] > 0
    row = page.strata([result])[1].splitlines()[-1]
    assert f"| {result['share_ours']:.4f} | {result['share_kmeans']:.4f} |" in row
    q, a = strata.clients(60)
    assert strata.share_of_md(q, a, [0] * 60, 1) == pytest.approx(1)
    assert strata.share_of_md(q, a, range(60), 60) == pytest.approx(0, abs=1e-9)
