"""The example app, unchanged, in a deployment on loopback and in Flower's simulation: the same runs."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from fedstas import methods, partition, simulation

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
sys.path.insert(0, str(EXAMPLE))

from deploy import Federation, end  # noqa: E402

METHODS = ["fedavg", "md", "fedstas", "fedstas-unbiased-dp"]
NODES, ROUNDS = 5, 10


@pytest.fixture(scope="module")
def expected(digits):
    """The simulation's run of a method, with the defaults of the example."""

    def run(name, rounds=ROUNDS):
        federation = partition.make(
            "dirichlet", digits.train_y, clients=NODES, seed=0, concentration=0.5
        )
        return simulation.run(
            digits,
            federation,
            methods.get(name, lr=0.5, batch=32),
            rounds=rounds,
            clients_per_round=3,
            seed=0,
            eval_every=rounds,
        )

    return run


def same(out: Path, expected) -> None:
    with np.load(out) as found:
        cohorts = [[int(k) for k in c.split(",")] for c in found["cohorts"]]
        assert cohorts == [c.tolist() for c in expected.cohorts]
        np.testing.assert_allclose(found["params"], expected.params, rtol=1e-4, atol=2e-6)
        assert not found["events"].size, found["events"]


def together(federation, folder, names):
    """All runs at once, through one SuperLink and the same nodes; their lines. One server is up before the
    next is started: Flower gives up a server that takes too long to start on a busy machine."""
    lines, readers, processes = {n: [] for n in names}, [], []
    for name in names:
        process = federation.submit(method=name, out=str(folder / f"{name}.npz"))
        for line in process.stdout:
            lines[name].append(line)
            if "fedstas: round 0/" in line:
                break
        reader = threading.Thread(
            target=lambda p=process, n=name: lines[n].extend(p.stdout), daemon=True
        )
        reader.start()
        readers.append(reader)
        processes.append(process)
    for reader in readers:
        reader.join(timeout=1800)  # against a hang alone
    for process in processes:
        end(process)
    return {n: "".join(t) for n, t in lines.items()}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    began = time.monotonic()
    with Federation(NODES, warm=True, folder=tmp_path_factory.mktemp("deployment")) as started:
        yield started
    print(f"the deployment was up for {time.monotonic() - began:.0f} s")


def test_the_deployment_makes_the_runs_of_the_simulation(federation, tmp_path, expected):
    said = together(federation, tmp_path, METHODS)
    for name in METHODS:
        assert "fedstas: finished" in said[name], said[name][-3000:]
        run = expected(name)
        same(tmp_path / f"{name}.npz", run)
        accuracy = f"{run.frame['test_accuracy'].iloc[-1]:.1%}"
        assert f"fedstas: finished, test accuracy {accuracy}" in said[name]


def test_a_run_goes_on_in_a_new_server_process(federation, tmp_path, expected):
    state, out = tmp_path / "state.npz", tmp_path / "out.npz"
    common = {"method": "fedstas-unbiased", "state": str(state), "out": str(out)}
    federation.run(rounds=2, **common)
    lines = federation.run(rounds=4, **common)
    assert any("going on after round 2" in line for line in lines)
    same(out, expected("fedstas-unbiased", 4))


def changed(line: str) -> tuple[set[int], set[int]]:
    """Who left the roll and who came back, of a line that says that the federation changes."""
    if "the federation changes" not in line:
        return set(), set()
    told = dict(re.findall(r"(without|with) \[([\d, ]+)\]", line))
    left, came = ({int(k) for k in told.get(w, "").split(",") if k} for w in ("without", "with"))
    return left, came


def test_a_node_is_killed_another_falls_silent_and_both_come_back(federation, tmp_path):
    """Each step waits for the line that says that the one before has happened: all five are asked in each
    round, both nodes stay away until the federation is without them, and the run has no end of its
    own before they are back. The last one of this federation: it leaves a stopped run behind."""
    state = tmp_path / "faults.npz"
    process = federation.submit(
        method="fedavg",
        clients_per_round=NODES,
        rounds=100_000,
        patience=60.0,
        quorum=0.1,
        state=str(state),
    )
    lines, run, left, came, stopped = [], None, set(), set(), federation.processes["node-1"].pid
    for line in process.stdout:
        lines.append(line)
        run = run or re.search(r"Successfully started run (\d+)", line)
        if "fedstas: round 2/" in line:
            federation.kill_node("node-0")
            os.killpg(stopped, signal.SIGSTOP)
        gone, back = changed(line)
        if not {0, 1} <= left and {0, 1} <= left | gone:
            federation.start_node(0, "node-0-again")
            os.killpg(stopped, signal.SIGCONT)
        left, came = left | gone, came | back
        cohort = re.search(r"fedstas: round \d+/.*clients \[([\d, ]+)\]", line)
        if {0, 1} <= came and cohort and len(cohort[1].split(",")) == NODES:
            break
    stop = ["flwr", "stop", run[1], "loopback"]
    stop = subprocess.run(stop, env=federation.environment, stdout=subprocess.DEVNULL)
    end(process)
    text = "".join(lines)
    assert {0, 1} <= left & came, text[-3000:]
    assert stop.returncode == 0
    for k in (0, 1):  # asked while it was away
        assert re.search(rf"client {k}: train: ", text)
    with np.load(state) as found:
        assert np.isfinite(found["params"]).all()


def started(folder: Path) -> list[str]:
    """The processes that a deployment in this folder has started, and what they have: their environment
    names it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if f"FLWR_HOME={folder / 'flwr'}".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_everything_stops_on_ctrl_c(tmp_path):
    # What a shell starts in the background ignores Ctrl-C, and hands that on.
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "deploy.py"), "--nodes", "2", "--keep", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stdout:
        if "SuperNodes are connected" in line:
            assert len(started(tmp_path)) >= 3  # the SuperLink, two SuperNodes, and theirs
            process.send_signal(signal.SIGINT)
            break
    assert process.wait(600) == 130
    assert "stopped" in process.stdout.read()
    end = (
        time.monotonic() + 600
    )  # what is in a session of its own looks for its parent now and then
    while started(tmp_path) and time.monotonic() < end:
        time.sleep(0.5)
    assert not started(tmp_path)
