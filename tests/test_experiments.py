"""Sweeps: they skip recorded runs, resume interrupted ones, and may run in several processes at once."""

import contextlib
import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion import atomic, experiments, records, sweeps, tables
from companion.runs import averaging, averaging_results, fedsampling_grid
from fedstas import cli, methods, partition, simulation
from fedstas.errors import Diverged, InputError

SWEEP_CODE = "from companion import experiments; experiments.sweep('preprint', folder={!r}, device='cpu', progress=False)"
RUNS = experiments.runs("preprint", "quick")
ROOT = Path(__file__).parents[1]
RUN_COUNTS = {  # numbers of declared runs by sweep and profile: results/ has these runs
    ("preprint", "paper"): 2 * 20 * 17,
    ("preprint", "laptop"): 2 * 2 * 6,
    ("one-digit", "paper"): 40,
    ("clustered-messages", "paper"): 5 * 9,
    ("imbalance", "paper"): 24,
    ("more-strata", "paper"): 2 * 2 * 5,
    ("authors-january", "paper"): 2,
}


def sweep(folder, name="preprint", **options):
    """Record a sweep on the CPU without a progress bar."""
    return experiments.sweep(name, folder=folder, device="cpu", progress=False, **options)


def load_sorted(folder) -> pd.DataFrame:
    """Return all recorded values but the seconds, sorted by run and round."""
    frame = records.load(folder).drop(columns="seconds")
    return frame.sort_values(["run", "round"], ignore_index=True)


@pytest.fixture(scope="module")
def quick_sweep(tmp_path_factory):
    """Record the quick sweep once for all tests; return its folder."""
    folder = tmp_path_factory.mktemp("quick_sweep")
    assert sweep(folder) == []
    return folder


def list_files(folder):
    """Return the names of all files below a folder."""
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


@pytest.mark.slow
def test_a_sweep_records_every_run_once(quick_sweep):
    frame = records.load(quick_sweep)
    assert set(frame.method) == set(experiments.MAIN_METHODS)
    assert frame.groupby("run").size().tolist() == [3] * len(RUNS)  # evaluated in three rounds
    assert len(list_files(quick_sweep)) == 2 * frame.run.nunique()  # a table and a sidecar
    assert not [p for p in list_files(quick_sweep) if p.name.startswith(".")]
    assert frame.settings.nunique() == len(experiments.MAIN_METHODS)


@pytest.mark.slow
def test_a_sweep_skips_recorded_runs_and_repeats_one_without_a_sidecar(quick_sweep, capsys):
    frame = load_sorted(quick_sweep)
    times = {p: p.stat().st_mtime_ns for p in quick_sweep.rglob("*.parquet")}
    sidecar = sorted(quick_sweep.rglob("*.json"))[3]
    sidecar.unlink()  # as if the process ended between the run's two files
    assert sweep(quick_sweep) == []
    assert f"1 made, {len(times) - 1} there already, 0 failed" in capsys.readouterr().out
    changed = [p for p, t in times.items() if p.stat().st_mtime_ns != t]
    assert changed == [sidecar.with_suffix(".parquet")]
    pd.testing.assert_frame_equal(load_sorted(quick_sweep), frame, check_exact=True)


@pytest.mark.slow
def test_two_processes_at_once_record_each_run_once(quick_sweep, tmp_path):
    command = [sys.executable, "-c", SWEEP_CODE.format(str(tmp_path))]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    count = 0
    for process in processes:
        out, errors = process.communicate(timeout=3600)
        assert process.returncode == 0, errors
        count += int(re.search(r"(\d+) made", out)[1])
    assert count == len(RUNS)
    assert list_files(tmp_path) == list_files(quick_sweep)
    pd.testing.assert_frame_equal(load_sorted(tmp_path), load_sorted(quick_sweep), check_exact=True)


@pytest.mark.slow
def test_a_sweep_that_is_killed_five_times_has_the_same_results_in_the_end(quick_sweep, tmp_path):
    """SIGKILL at a random moment after the process has written its first file; then one call that is not killed."""
    rng = random.Random(0)
    command = [sys.executable, "-c", SWEEP_CODE.format(str(tmp_path))]
    for _ in range(5):
        before = set(tmp_path.rglob("*"))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and set(tmp_path.rglob("*")) <= before:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with contextlib.suppress(InputError):  # perhaps no run is complete yet
            frame = load_sorted(tmp_path)
            expected = load_sorted(quick_sweep)
            expected = expected[expected.run.isin(frame.run)].reset_index(drop=True)
            pd.testing.assert_frame_equal(frame, expected, check_exact=True)
    assert sweep(tmp_path) == []
    assert list_files(tmp_path) == list_files(quick_sweep)
    pd.testing.assert_frame_equal(load_sorted(tmp_path), load_sorted(quick_sweep), check_exact=True)


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` catches it."""


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(experiments.MAIN_METHODS)))
def test_a_run_that_is_killed_loses_one_evaluation_interval_at_most(
    quick_sweep, tmp_path, monkeypatch, index
):
    run, original, rounds = RUNS[index], simulation.measure, []

    def measure(*arguments):
        rounds.append(1)
        if len(rounds) == 2:
            raise Killed
        return original(*arguments)

    monkeypatch.setattr(simulation, "measure", measure)
    with pytest.raises(Killed):
        sweeps.perform(run, "preprint", tmp_path, "cpu")
    (checkpoint,) = list_files(tmp_path)
    assert checkpoint.name.endswith(".checkpoint")
    assert sweeps.perform(run, "preprint", tmp_path, "cpu") == "done"
    assert len(rounds) == 2 + 2  # rounds 1 and 2, where it was killed; then rounds 2 and 3
    assert len(list_files(tmp_path)) == 2
    frame = load_sorted(tmp_path)
    expected = load_sorted(quick_sweep)
    expected = expected[expected.run.isin(frame.run)].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)


def test_a_damaged_checkpoint_is_reported_and_the_run_starts_over(tmp_path, capsys):
    run = RUNS[0]
    identity = sweeps.find_identity(run, "cpu")
    rows_file, _ = records.run_files(identity, "preprint", tmp_path)
    checkpoint = records.checkpoint_file(rows_file)
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"nonsense")
    assert sweeps.perform(run, "preprint", tmp_path, "cpu") == "done"
    assert f"{run} starts over: {checkpoint} is damaged" in capsys.readouterr().err
    assert len(list_files(tmp_path)) == 2


def test_a_run_that_another_process_trains_is_not_trained_twice(tmp_path, monkeypatch, capsys):
    run = RUNS[0]
    data, sidecar = records.run_files(sweeps.find_identity(run, "cpu"), "preprint", tmp_path)
    with records.run_lock(data):
        assert sweeps.perform(run, "preprint", tmp_path, "cpu") == "elsewhere"
    assert not sidecar.exists()
    outcomes = iter(["elsewhere", "elsewhere", "there"])
    monkeypatch.setattr(sweeps, "perform", lambda *_: next(outcomes))
    monkeypatch.setattr(sweeps, "POLL", 0.0)
    assert sweeps.make([run], "preprint", folder=tmp_path, device="cpu", progress=False) == []
    assert "0 made, 1 there already, 0 failed" in capsys.readouterr().out


def test_the_preprint_sweep_has_the_papers_setting():
    runs = experiments.runs("preprint", "paper")
    assert {(r.clients, r.clients_per_round, r.rounds, r.eval_every) for r in runs} == {
        (100, 10, 99, 1)
    }
    assert {(r.task, r.concentration) for r in runs} == {("mnist", 0.01)}
    assert {r.partition for r in runs} == {"dirichlet", "dirichlet_fixed_size"}
    assert {r.method for r in runs} == set(experiments.TABLE_METHODS)
    assert {r.seed for r in runs} == set(range(20))
    assert not any(r.overrides for r in runs)
    local = methods.get("fedstas").local
    assert (local.steps, local.batch, local.lr) == (3, 128, 0.01)


@pytest.mark.parametrize("name", experiments.names())
@pytest.mark.parametrize("profile", ["quick", "laptop", "paper"])
def test_every_declared_run_is_valid_and_declared_once(name, profile):
    runs = experiments.runs(name, profile)
    assert len(runs) == RUN_COUNTS.get((name, profile), len(runs))
    assert len({repr(run) for run in runs}) == len(runs)
    for run in runs:
        method = methods.get(run.method, **run.overrides)
        assert run.clients_per_round <= run.clients
        assert methods.from_dict(methods.to_dict(method)) == method
        assert sweeps.estimate(run) > 0
    if profile == "quick":
        task = "topics" if name.startswith("fedsampling-topics") else "digits"
        assert {r.task for r in runs} == {task}
        assert sum(map(sweeps.estimate, runs)) < 60


@pytest.mark.parametrize(
    "name",
    [
        "preprint",
        "mnist-iid",
        "fashion-mnist",
        "sensitivity",
        "more-strata",
        "authors-january",
        "privacy",
        *(n for n in fedsampling_grid.SWEEPS if n != "fedsampling-mnist-ablations"),
    ],
)
def test_the_runs_of_the_laptop_profile_are_in_the_paper_profile(name):
    paper = {repr(run) for run in experiments.runs(name, "paper")}
    assert {repr(run) for run in experiments.runs(name, "laptop")} <= paper


def test_the_baselines_of_batch_size_and_optimal_data_are_in_other_sweeps():
    """The usual batch, and FedSTaS without the allocation of examples, are not trained twice."""
    baselines = {
        repr(r)
        for s in ("sensitivity", "least-variance", "preprint")
        for r in experiments.runs(s, "paper")
    }
    batches = experiments.runs("batch-size", "paper")
    assert {(r.method, r.overrides["batch"]) for r in batches} == {
        (m, b) for m in ("md", "fedstas", "fedstas-least-variance") for b in (32, 512)
    }
    for run in batches:
        usual = {k: v for k, v in run.overrides.items() if k != "batch"}
        assert repr(replace(run, overrides=usual)) in baselines
    for run in experiments.runs("optimal-data", "paper"):
        assert repr(replace(run, method="fedstas", eval_every=1)) in baselines


def test_runs_with_more_strata_have_a_draw_for_each_and_a_pair_with_ten():
    pairs = {repr(run) for run in experiments.runs("sensitivity", "paper")}
    more = experiments.runs("more-strata", "paper")
    assert {(r.overrides["strata"], r.clients_per_round) for r in more} == {(20, 20), (40, 40)}
    for run in more:
        usual = {k: v for k, v in run.overrides.items() if k != "strata"}
        assert repr(replace(run, overrides=usual)) in pairs
    assert methods.parameters("fedstas")["strata"] == 10


SWEEP_OF_TRIALS = {"server-rates": "servers", "cifar100-equal-rates": "cifar100-equal"}


@pytest.mark.parametrize("trials", SWEEP_OF_TRIALS)
def test_a_sweep_has_the_variants_that_the_recorded_trials_choose(trials):
    candidates = {(r.method, tables.variant_of(r)) for r in experiments.runs(trials, "paper")}
    runs = experiments.runs(SWEEP_OF_TRIALS[trials], "paper")
    variants = {r.method: tables.variant_of(r) for r in runs}
    assert set(variants.items()) <= candidates and {m for m, _ in candidates} == set(variants)
    grid = tables.load_sweep(trials, ROOT / "results")
    if grid.note:
        pytest.skip(grid.note)
    assert tables.choose_by_loss(grid.frame) == variants


def test_the_variant_with_the_least_final_loss_is_chosen_and_no_run_that_ended_early():
    losses_of = {  # x: its loss falls late; y: is lower before the last rounds; z: ended before them; v: among them
        "a": {"x": (3, 1, 1), "y": (1, 2, 2), "z": (0,), "v": (0, 0)},
        "b": {"y": (1, 1, 1)},
    }
    rows = [
        (m, variant, f"{m}, {variant}", t, 99, loss)
        for m, variants in losses_of.items()
        for variant, losses in variants.items()
        for t, loss in zip((50, 95, 99), losses, strict=False)
    ]
    columns = ["method", "variant", "run", "round", "rounds", "train_loss"]
    frame = pd.DataFrame(rows, columns=columns)
    assert tables.choose_by_loss(frame) == {"a": "x", "b": "y"}
    assert tables.choose_by_loss(frame.iloc[:0]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in experiments.names() if n != "preprint"])
def test_three_runs_of_every_quick_sweep_can_be_recorded(name, tmp_path):
    runs = experiments.runs(name, "quick")
    selection = runs[:: max(1, len(runs) // 3)]
    assert sweeps.make(selection, name, folder=tmp_path, device="cpu", progress=False) == []
    assert len(list_files(tmp_path)) == 2 * len(selection)


def test_a_run_that_diverges_is_reported_and_the_others_are_recorded(tmp_path, monkeypatch, capsys):
    good, bad = experiments.runs("preprint", "quick")[:2]
    bad.overrides["lr"] = 1e30
    monkeypatch.setitem(experiments.SWEEPS, "preprint", lambda profile: [bad, good])
    failed = sweep(tmp_path)
    assert len(failed) == 1
    assert failed[0].startswith(f"{bad.method}, lr 1e+30 on dirichlet, seed 0: ")
    assert "not finite" in failed[0]
    assert records.load(tmp_path).method.unique().tolist() == [good.method]
    summary = rf"1 made, 0 there already, 1 failed, \d+ s\n  {re.escape(failed[0])}"
    assert re.search(summary, capsys.readouterr().out)
    assert len(list_files(tmp_path)) == 4  # both are recorded, and neither is trained again
    monkeypatch.setattr(sweeps, "perform", None)
    with pytest.raises(SystemExit) as exc_info:
        cli.main(["sweep", "preprint", "--folder", str(tmp_path), "--device", "cpu"])
    assert exc_info.value.code == 1
    assert "fedstas: 1 of 2 runs of sweep preprint failed: md, lr 1e+30" in capsys.readouterr().err


def test_a_run_that_diverges_late_keeps_its_evaluations(tmp_path, monkeypatch):
    run = sweeps.Run("digits", "dirichlet", 0.1, "md", 0, **experiments.SMALL)
    original = simulation.run

    def diverge(*args, checkpoint=None, rounds, **options):
        raise Diverged("not finite after round 3", original(*args, rounds=2, **options))

    monkeypatch.setattr(simulation, "run", diverge)
    failed = sweeps.make([run], "trial", folder=tmp_path, device="cpu", progress=False)
    assert failed == [f"{run}: not finite after round 3"]
    frame = records.load(tmp_path)
    assert frame["round"].tolist() == [1, 2]
    assert set(frame["rounds"]) == {3}
    assert tables.final_values(frame.assign(rounds=99), "test_accuracy").empty
    sidecar = records.sidecars(tmp_path)[0]
    metadata = json.loads(sidecar.read_text(encoding="utf-8"))
    sidecar.write_text(json.dumps(metadata | {"diverged": None}), encoding="utf-8")
    with pytest.raises(InputError, match="contradicts"):
        records.load(tmp_path)


def test_a_run_of_numpy_numbers_is_the_run_of_the_same_python_numbers(tmp_path):
    options = {"folder": tmp_path, "device": "cpu", "progress": False}
    small = {k: np.int64(v) for k, v in experiments.SMALL.items()} | {"sigma": 1, "size": 9.0}
    numpy_run = sweeps.Run("digits", "by_class", 1, "md", np.int64(0), {"lr": 1}, **small)
    python_run = sweeps.Run(
        "digits", "by_class", 1.0, "md", 0, {"lr": 1.0}, **experiments.SMALL, size=9
    )
    assert sweeps.make([numpy_run], "trial", **options) == []
    assert sweeps.make([python_run], "trial", **options) == []
    assert len(records.sidecars(tmp_path)) == 1 and numpy_run == python_run
    with pytest.raises(InputError, match="seed is '0'"):
        sweeps.Run("digits", "iid", 0.1, "md", "0")


def test_a_run_with_sizes_has_clients_of_these_sizes_and_one_without_has_equal_clients(digits):
    small = experiments.SMALL | {"clients": 6}
    setting = ("digits", "dirichlet_fixed_size", 0.1, "md", 0)
    run = sweeps.Run(*setting, **small, sizes="10x3,40x1,60x2")
    _, federation, *_, identity = sweeps._prepare(run, "cpu")
    assert federation.sizes.tolist() == identity["partition"]["sizes"] == [10, 10, 10, 40, 60, 60]
    *_, plain = sweeps._prepare(sweeps.Run(*setting, **small), "cpu")
    equal = partition.dirichlet_fixed_size(digits.train_y, [len(digits.train_y) // 6] * 6, 0.1, 0)
    assert plain["partition"] == equal.recipe and plain.keys() == identity.keys()
    run = sweeps.Run(*setting, **small, sizes="10x7")
    assert sweeps.perform(run, "trial", "/nonexistent") == f"{run}: " + (
        "sizes 10x7 are of 7 clients with 70 examples in all: they must be of 6 clients, with at "
        "most the 1438 examples of the data"
    )


def test_an_unexpected_error_is_a_failed_run(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no more")

    monkeypatch.setattr(simulation, "run", fail)
    failed = sweeps.make(RUNS[:2], "preprint", folder=tmp_path, device="cpu", progress=False)
    assert failed == [f"{run}: MemoryError: no more" for run in RUNS[:2]]


@pytest.mark.slow
def test_a_full_disk_is_reported_in_one_sentence_and_nothing_is_lost(
    quick_sweep, tmp_path, monkeypatch, capsys
):
    count, path_replace = [], records.Path.replace

    def replace(self, target):
        count.append(1)
        if len(count) > 6:  # checkpoints and files of a first run, and some of a second
            raise OSError(errno.ENOSPC, "No space left on device")
        return path_replace(self, target)

    monkeypatch.setattr(records.Path, "replace", replace)
    with pytest.raises(SystemExit) as exc_info:
        cli.main(["sweep", "preprint", "--folder", str(tmp_path), "--device", "cpu"])
    assert exc_info.value.code == 2
    err = [x for x in capsys.readouterr().err.replace("\r", "\n").split("\n") if "fedstas:" in x]
    assert len(err) == 1
    assert "could not be written: No space left on device" in err[0]
    monkeypatch.setattr(records.Path, "replace", path_replace)
    assert not [p for p in list_files(tmp_path) if "partial" in p.name]
    assert records.load(tmp_path).run.nunique() == 1
    assert sweep(tmp_path) == []
    pd.testing.assert_frame_equal(load_sorted(tmp_path), load_sorted(quick_sweep), check_exact=True)


def test_a_dry_run_prints_the_number_of_runs_and_records_none(tmp_path, capsys):
    assert sweep(tmp_path, dry_run=True) == []
    out = capsys.readouterr().out
    assert f"sweep preprint: {len(RUNS)} runs, 0 there already, {len(RUNS)} to make" in out
    assert "of one core" in out
    assert list_files(tmp_path) == []


def test_a_sweep_of_selected_methods_and_seeds(tmp_path):
    assert sweep(tmp_path, methods=["md", "fedavg"], seeds=[1]) == []
    frame = records.load(tmp_path)
    assert set(frame.method) == {"md", "fedavg"}
    assert set(frame.seed) == {1}


def test_the_estimated_time_is_scaled_by_the_measured_times():
    first, second, other = RUNS[0], RUNS[6], RUNS[1]
    assert (first.method, other.method) == (second.method, "md")
    clock = sweeps.Clock([first, second, other])
    assert clock.seconds() == pytest.approx(sum(map(sweeps.estimate, (first, second, other))))
    clock.done(0, "done", 3 * sweeps.estimate(first))
    assert clock.seconds() == pytest.approx(3 * (sweeps.estimate(second) + sweeps.estimate(other)))
    clock.done(1, "there", 0.0)
    clock.done(2, "done", 1.0)
    assert clock.seconds() == 0


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-4", [0, 1, 2, 3, 4]), ("0,3", [0, 3]), ("7", [7]), ("0-1, 1-2", [0, 1, 2])],
)
def test_lists_of_seeds_are_parsed(text, seeds):
    assert sweeps.parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1-", "0,,1", "1.5", "0-2-4"])
def test_bad_lists_of_seeds_are_refused(text):
    with pytest.raises(InputError, match="is no list of seeds: write 0-4, or 0,3"):
        sweeps.parse_seeds(text)


def test_a_sweep_records_only_the_concentrations_methods_and_seeds_that_are_chosen(
    tmp_path, monkeypatch
):
    chosen = []
    monkeypatch.setattr(sweeps, "make", lambda todo, *_, **__: chosen.extend(todo) or [])
    monkeypatch.setitem(experiments.SWEEPS, "fig-2", lambda profile: FIG_2)
    choice = "--concentrations 0.001,10 --methods md --seeds 1"
    with pytest.raises(SystemExit, match="0"):
        cli.main(["sweep", "fig-2", *choice.split(), "--folder", str(tmp_path)])
    assert chosen == [r for r in FIG_2 if r.method == "md" and r.seed == 1 and r.concentration != 1]


FIG_2 = [
    sweeps.Run("digits", "dirichlet", c, method, seed)
    for c in (0.001, 1.0, 10.0)
    for method in ("md", "fedavg")
    for seed in (0, 1)
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nonsense", "unknown sweep 'nonsense': use one of preprint"),
        ("preprint --profile huge", "unknown profile 'huge': use one of quick"),
        ("preprint --jobs 0", "jobs is 0"),
        (
            "preprint --methods md,fedfoo",
            "sweep preprint has no method 'fedfoo': it has fedavg, md",
        ),
        ("preprint --seeds 0,9", "sweep preprint has no seed 9: it has 0, 1"),
        ("preprint --seeds x", "'x' is no list of seeds"),
        ("preprint --concentrations 0.1,3", "sweep preprint has no concentration 3.0: it has 0.1"),
        ("preprint --concentrations ,3", "',3' is no list of numbers: write 0.001,10"),
        ("preprint --concentrations nan", "sweep preprint has no concentration nan"),
        ("preprint --backend fog", "unknown backend 'fog': use one of loky, dask, ray"),
        ("preprint --address tcp://a:1", "address tcp://a:1 is of use only with"),
    ],
)
def test_bad_arguments_of_a_sweep_are_refused(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as exc_info:
        cli.main(["sweep", *arguments.split(), "--folder", str(tmp_path), "--device", "cpu"])
    assert exc_info.value.code == 2
    lines = [x for x in capsys.readouterr().err.replace("\r", "\n").split("\n") if "fedstas:" in x]
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize("name", ["../esc", "a/b", "", ".", "..", ".x", "partitions"])
def test_the_name_of_a_sweep_must_be_the_name_of_a_folder(tmp_path, name):
    folder = tmp_path / "results"
    with pytest.raises(InputError, match=f"sweep {name!r} cannot be the name of a folder"):
        sweeps.make(RUNS[:1], name, folder=folder, device="cpu", progress=False)
    assert list_files(tmp_path) == []


def test_hidden_files_of_killed_processes_beside_recorded_runs_are_deleted(tmp_path):
    """Those of a run that another process holds stay, and so does the checkpoint of a run that is not recorded yet."""
    assert sweep(tmp_path, methods=["md"]) == []
    recorded = [tmp_path / path for path in list_files(tmp_path)]
    unlocked, locked = (sidecar.with_suffix(".parquet") for sidecar in records.sidecars(tmp_path))
    checkpoint = records.checkpoint_file(unlocked)
    stale = [
        checkpoint,
        atomic.hidden_file(unlocked.with_suffix(""), "lock"),
        # half written: the run's rows, its sidecar, and its checkpoint
        atomic.hidden_file(unlocked, "partial"),
        atomic.hidden_file(unlocked.with_suffix(".json"), "partial"),
        atomic.hidden_file(checkpoint, "partial"),
    ]
    in_use = [records.checkpoint_file(locked), atomic.hidden_file(locked, "partial")]
    unrecorded = make_checkpoint_of_unrecorded_run(unlocked.parent)
    for path in (*stale, *in_use):
        path.write_bytes(b"x")
    with records.run_lock(locked) as acquired:
        assert acquired
        to_stay = [
            *recorded,
            *in_use,
            atomic.hidden_file(locked.with_suffix(""), "lock"),
            unrecorded,
        ]
        assert sweep(tmp_path, methods=["md"], dry_run=True) == []  # it deletes nothing
        assert {tmp_path / path for path in list_files(tmp_path)} == {*to_stay, *stale}
        assert sweep(tmp_path, methods=["md"]) == []
        assert {tmp_path / path for path in list_files(tmp_path)} == {*to_stay}


def make_checkpoint_of_unrecorded_run(folder: Path) -> Path:
    """Write a file in the place of the checkpoint of a run that is in progress, and return its path."""
    path = records.checkpoint_file(folder / "digits-other-0-01234567.parquet")
    path.write_bytes(b"x")
    return path


def test_packing_deletes_the_hidden_files_of_packed_runs_and_no_others(tmp_path):
    assert sweep(tmp_path, methods=["md"], seeds=[0]) == []
    (sidecar,) = records.sidecars(tmp_path)
    data = sidecar.with_suffix(".parquet")
    for stale in (records.checkpoint_file(data), atomic.hidden_file(data, "partial")):
        stale.write_bytes(b"x")
    unrecorded = make_checkpoint_of_unrecorded_run(data.parent)
    records.pack(data.parent)
    assert {p.name for p in list_files(tmp_path)} == {records.ROWS, records.RUNS, unrecorded.name}


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX: Windows keeps a child's parent")
@pytest.mark.slow
def test_the_workers_of_a_killed_parent_end_too(tmp_path):
    """The output ends when the last worker does, as all inherit it; an idle worker would wait five minutes."""
    code = SWEEP_CODE.format(str(tmp_path)).replace("progress=False", "progress=False, jobs=2")
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=subprocess.STDOUT)
    try:
        while not records.sidecars(tmp_path):
            assert parent.poll() is None
            time.sleep(0.05)
    finally:
        parent.kill()
    parent.communicate(timeout=3600)
    assert sweep(tmp_path, jobs=2) == []
    assert [p for p in list_files(tmp_path) if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    "damage",
    ["newer", "contradicts", "none", "gone", "empty", "cut", "other", "unsealed", "edited"],
)
def test_a_damaged_record_stops_the_sweep(quick_sweep, tmp_path, damage):
    assert sweep(tmp_path, methods=["md"], seeds=[0]) == []
    (sidecar,) = tmp_path.rglob("*.json")
    text = sidecar.read_text(encoding="utf-8")
    edits = {
        "newer": text.replace('"format": 1', '"format": 2'),
        "contradicts": text.replace('"seed": 0', '"seed": 5'),
        "none": "{",
        "unsealed": re.sub(r' "(values|rows|note)_sha256": "\w+",?\n', "", text).replace(
            ",\n}", "\n}"
        ),
        "edited": text.replace('"threads": 1', '"threads": 2'),
    }
    edits |= dict.fromkeys(("gone", "empty", "cut", "other"), text)
    sidecar.write_text(edits[damage], encoding="utf-8")
    data = sidecar.with_suffix(".parquet")
    content = data.read_bytes()
    if damage == "gone":
        data.unlink()
    if damage in ("empty", "cut"):
        data.write_bytes(content[: len(content) // 2 if damage == "cut" else 0])
    if damage == "other":
        frame = pd.read_parquet(data)
        frame.assign(seconds=frame["seconds"] + 1).to_parquet(data, index=False)
    messages = {
        "newer": "newer version",
        "contradicts": "contradicts itself",
        "none": "not the sidecar",
        "other": f"contradicts {re.escape(data.name)}: delete both",
        "unsealed": f"has no checksum of {re.escape(data.name)}: delete both",
        "edited": "contradicts its checksum: delete it",
    }
    with pytest.raises(InputError, match=messages.get(damage, "is missing or damaged: delete")):
        sweep(tmp_path, methods=["md", "fedavg"], seeds=[0])
    assert sidecar.read_text(encoding="utf-8") == edits[damage]
    assert len(list(tmp_path.rglob("*.json"))) == 1


@pytest.fixture
def dask():
    """Return a function that starts a local cluster: `dask(workers, threads)` returns its address."""
    distributed = pytest.importorskip(
        "distributed", reason="needs Dask: `pip install -e .[dask]` in the clone runs this"
    )
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        yield (
            lambda workers, threads, **options: (
                stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers,
                        threads_per_worker=threads,
                        dashboard_address=None,
                        **options,
                    )
                ).scheduler_address
            )
        )


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_records_the_same_values(quick_sweep, tmp_path, dask):
    selection = ["md", "fedstas"]
    assert sweep(tmp_path, backend="dask", address=dask(2, 1), methods=selection) == []
    expected = load_sorted(quick_sweep)
    expected = expected[expected.method.isin(selection)].reset_index(drop=True)
    pd.testing.assert_frame_equal(load_sorted(tmp_path), expected, check_exact=True)


@pytest.mark.slow
def test_a_dask_cluster_that_cannot_be_used_is_refused(tmp_path, dask, monkeypatch):
    monkeypatch.setattr(sweeps, "CONNECT", 0.5)
    for address, message in (
        (None, "needs the --address of a scheduler"),
        ("tcp://127.0.0.1:1", "there is no Dask scheduler at tcp://127.0.0.1:1"),
        (dask(0, 1, processes=False), "has no workers"),
        (dask(1, 2, processes=False), "with --nthreads 1"),
    ):
        with pytest.raises(InputError, match=message):
            sweep(tmp_path, backend="dask", address=address)
    assert list_files(tmp_path) == []


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_the_error_of_a_backend_that_is_not_installed_names_its_package(
    tmp_path, monkeypatch, backend, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError, match=f"the backend {backend} needs the package {package}: .?pip install"
    ):
        sweep(tmp_path, backend=backend, address="tcp://127.0.0.1:1")


def test_the_rates_of_the_comparison_with_an_average_are_those_that_its_recorded_trials_chose():
    chosen = averaging_results.choose_rates()
    assert not chosen[["raw_at_end", "average_at_end"]].to_numpy().any()
    for row in chosen.itertuples():
        assert averaging.TUNED[row.setting][row.arm] == (row.raw, row.average)
    assert len(chosen) == sum(len(arms) for arms in averaging.TUNED.values())
