"""Sweeps: they skip what is there, finish what was cut off, and stand each other's company."""

import subprocess
import sys

import pandas as pd
import pytest

from fedstas import experiments, methods, records
from fedstas.errors import InputError

CODE = "from fedstas import experiments; experiments.sweep('preprint', folder={!r}, device='cpu', progress=False)"


def tidy(folder) -> pd.DataFrame:
    frame = records.load(folder).drop(columns="seconds")
    return frame.sort_values(["run", "round"], ignore_index=True)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The quick sweep, made once."""
    folder = tmp_path_factory.mktemp("swept")
    assert experiments.sweep("preprint", folder=folder, device="cpu", progress=False) == []
    return folder


def files(folder):
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


def test_a_sweep_records_every_run_once(swept):
    frame = records.load(swept)
    assert set(frame.method) == set(experiments.FIRST)
    assert frame.groupby("run").size().tolist() == [3] * len(experiments.runs("preprint", "quick"))
    assert len(files(swept)) == 2 * frame.run.nunique()
    assert not [p for p in files(swept) if "partial" in p.name]
    assert frame.settings.nunique() == len(experiments.FIRST)


def test_a_sweep_skips_what_is_there_and_makes_what_was_cut_off(swept, capsys):
    frame, times = tidy(swept), {p: p.stat().st_mtime_ns for p in swept.rglob("*.parquet")}
    lost = sorted(swept.rglob("*.json"))[3]
    lost.unlink()  # a run that was cut off between its two files
    assert experiments.sweep("preprint", folder=swept, device="cpu", progress=False) == []
    assert f"1 made, {len(times) - 1} there already, 0 failed" in capsys.readouterr().out
    changed = [p for p, t in times.items() if p.stat().st_mtime_ns != t]
    assert changed == [lost.with_suffix(".parquet")]
    pd.testing.assert_frame_equal(tidy(swept), frame, check_exact=True)


def test_two_processes_at_once_end_in_the_same_files(swept, tmp_path):
    command = [sys.executable, "-c", CODE.format(str(tmp_path))]
    pair = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in pair:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert files(tmp_path) == files(swept)
    pd.testing.assert_frame_equal(tidy(tmp_path), tidy(swept), check_exact=True)


def test_the_preprint_sweep_has_the_papers_setting():
    runs = experiments.runs("preprint", "paper")
    assert {(r.clients, r.clients_per_round, r.rounds, r.eval_every) for r in runs} == {
        (100, 10, 99, 1)
    }
    assert {(r.task, r.concentration) for r in runs} == {("mnist", 0.01)}
    assert {r.partition for r in runs} == {"dirichlet", "dirichlet_fixed_size"}
    assert {r.method for r in runs} == {
        "fedavg", "md", "fedsts", "fedstas", "fedstas-dp", "fedstas-unbiased"
    }  # fmt: skip
    assert {r.seed for r in runs} == set(range(10))
    assert len(runs) == 2 * 6 * 10
    local = methods.get("fedstas").local
    assert (local.steps, local.batch, local.lr) == (3, 128, 0.01)


def test_a_run_that_diverges_is_named_and_the_others_are_kept(tmp_path, monkeypatch):
    good, bad = experiments.runs("preprint", "quick")[:2]
    bad.overrides["lr"] = 1e30
    monkeypatch.setitem(experiments.SWEEPS, "preprint", lambda profile: [bad, good])
    failed = experiments.sweep("preprint", folder=tmp_path, device="cpu", progress=False)
    assert len(failed) == 1
    assert failed[0].startswith(f"{bad.method} on dirichlet, seed 0: ")
    assert "not finite" in failed[0]
    assert records.load(tmp_path).method.unique().tolist() == [good.method]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: experiments.sweep("nonsense"), "unknown sweep 'nonsense': use one of preprint"),
        (lambda: experiments.runs("preprint", "huge"), "unknown profile 'huge': use one of quick"),
        (lambda: experiments.sweep("preprint", jobs=0), "jobs is 0"),
    ],
)
def test_bad_sweeps_are_refused(call, named):
    with pytest.raises(InputError, match=named):
        call()
