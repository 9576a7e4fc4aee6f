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
    """Return the function `expected(name)`: the simulation's run of a method, with the example's defaults."""

    def run(name, rounds=ROUNDS):
        """Return the run of a method in the simulation."""
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


def assert_same_run(out: Path, expected) -> None:
    """Check that the file of a run has the cohorts and, within rounding, the parameters of the expected run."""
    with np.load(out) as result:
        cohorts = [[int(k) for k in c.split(",")] for c in result["cohorts"]]
        assert cohorts == [c.tolist() for c in expected.cohorts]
        np.testing.assert_allclose(result["params"], expected.params, rtol=1e-4, atol=2e-6)
        assert not result["events"].size, result["events"]


def run_at_once(federation, folder, names):
    """Make all runs at the same time on the same nodes; return the output of each.

    A server starts when the one before is up: Flower gives up a server that starts slowly on a busy machine.
    """
    lines, readers, processes = {name: [] for name in names}, [], []
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
    return {name: "".join(texts) for name, texts in lines.items()}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Start a deployment for the tests of this file."""
    start = time.monotonic()
    folder = tmp_path_factory.mktemp("deployment")
    with Federation(NODES, warm=True, folder=folder) as deployment:
        yield deployment
    print(f"the deployment was up for {time.monotonic() - start:.0f} s")


def test_the_deployment_makes_the_runs_of_the_simulation(federation, tmp_path, expected):
    outputs = run_at_once(federation, tmp_path, METHODS)
    for name in METHODS:
        assert "fedstas: finished" in outputs[name], outputs[name][-3000:]
        run = expected(name)
        assert_same_run(tmp_path / f"{name}.npz", run)
        accuracy = f"{run.frame['test_accuracy'].iloc[-1]:.1%}"
        assert f"fedstas: finished, test accuracy {accuracy}" in outputs[name]


def test_a_run_resumes_in_a_new_server_process(federation, tmp_path, expected):
    state, out = tmp_path / "state.npz", tmp_path / "out.npz"
    common = {"method": "fedstas-unbiased", "state": str(state), "out": str(out)}
    federation.run(rounds=2, **common)
    lines = federation.run(rounds=4, **common)
    assert any("continuing after round 2" in line for line in lines)
    assert_same_run(out, expected("fedstas-unbiased", 4))


def parse_roll_change(line: str) -> tuple[set[int], set[int]]:
    """Return the sets of clients that left and that came back, from a line about a change of the federation."""
    if "the federation changes" not in line:
        return set(), set()
    groups = dict(re.findall(r"(without|with) \[([\d, ]+)\]", line))
    gone, came_back = (
        {int(k) for k in groups.get(w, "").split(",") if k} for w in ("without", "with")
    )
    return gone, came_back


def test_a_node_is_killed_another_falls_silent_and_both_come_back(federation, tmp_path):
    """In round 2 one node is killed and one is stopped; both go on once the federation is without them.

    All five take part in each round. The run is stopped as soon as both are back, so no test may follow on
    this deployment.
    """
    state = tmp_path / "faults.npz"
    process = federation.submit(
        method="fedavg",
        clients_per_round=NODES,
        rounds=100_000,
        patience=60.0,
        quorum=0.1,
        state=str(state),
    )
    lines, run, gone, came_back, faulty_clients = [], None, set(), set(), {0, 1}
    silent_process = federation.processes["node-1"].pid
    for line in process.stdout:
        lines.append(line)
        run = run or re.search(r"Successfully started run (\d+)", line)
        if "fedstas: round 2/" in line:
            federation.kill_node("node-0")
            os.killpg(silent_process, signal.SIGSTOP)
        newly_gone, newly_back = parse_roll_change(line)
        if (
            not faulty_clients <= gone and faulty_clients <= gone | newly_gone
        ):  # now the second of them has left
            federation.start_node(0, "node-0-again")
            os.killpg(silent_process, signal.SIGCONT)
        gone, came_back = gone | newly_gone, came_back | newly_back
        cohort = re.search(r"fedstas: round \d+/.*clients \[([\d, ]+)\]", line)
        if faulty_clients <= came_back and cohort and len(cohort[1].split(",")) == NODES:
            break
    command = ["flwr", "stop", run[1], "loopback"]
    stop = subprocess.run(command, env=federation.environment, stdout=subprocess.DEVNULL)
    end(process)
    text = "".join(lines)
    assert faulty_clients <= gone & came_back, text[-3000:]
    assert stop.returncode == 0
    for k in faulty_clients:  # the server says that it was asked to train, and did not answer
        assert re.search(rf"client {k}: train: ", text)
    with np.load(state) as result:
        assert np.isfinite(result["params"]).all()


def list_processes(folder: Path) -> list[str]:
    """Return the ids of the processes of a deployment in this folder, which their environment names."""
    ids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if f"FLWR_HOME={folder / 'flwr'}".encode() in path.read_bytes():
                ids.append(path.parent.name)
    return ids


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_ctrl_c_ends_all_processes_of_the_deployment(tmp_path):
    # A process that a shell starts in the background ignores Ctrl-C, and so do its children.
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
            assert len(list_processes(tmp_path)) >= 3  # the SuperLink, two SuperNodes, and theirs
            process.send_signal(signal.SIGINT)
            break
    assert process.wait(600) == 130
    assert "stopped" in process.stdout.read()
    deadline = time.monotonic() + 600  # some processes look for their parent only now and then
    while list_processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not list_processes(tmp_path)
