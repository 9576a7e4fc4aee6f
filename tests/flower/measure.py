"""Bytes on the wire of the deployment, against the simulation's accounting: examples/flower/bytes.json.

.venv-flower/bin/python tests/flower/measure.py [digits mnist]
"""

import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "flower"))

from deploy import Federation  # noqa: E402
from gate import CountingProxy  # noqa: E402

from fedstas import methods, partition, simulation, tasks  # noqa: E402

METHODS = {"digits": ["fedavg", "fedstas", "fedstas-unbiased-dp"], "mnist": ["fedavg", "fedstas"]}
NODES, ROUNDS, M = 5, 10, 3
SETTINGS = {"lr": 0.5, "batch": 32}


def request_kind(path: str) -> str:
    """Return the last part of a request's path, which names its purpose."""
    return path.rsplit("/", 1)[-1]


def count_by_kind(counter) -> dict:
    """Return the counts by kind of request."""
    counts: dict = {}
    for path, count in counter.items():
        counts[request_kind(path)] = counts.get(request_kind(path), 0) + count
    return counts


def main(names) -> None:
    """Measure the bytes of runs on these tasks and write examples/flower/bytes.json."""
    os.environ["OMP_NUM_THREADS"] = "1"
    rows, gate = [], CountingProxy()
    with Federation(NODES, warm=True, gate=gate) as federation:
        time.sleep(15)  # the nodes are connected; their first messages are not counted
        gate.reset()
        time.sleep(12)  # the bytes of nodes that only wait, over 12 seconds
        idle = {"seconds": 12, "up": sum(gate.up.values()), "down": sum(gate.down.values())}
        for task_name in names:
            task = tasks.load(task_name)
            clients = partition.make(
                "dirichlet", task.train_y, clients=NODES, seed=0, concentration=0.5
            )
            for name in METHODS[task_name]:
                method = methods.get(name, **SETTINGS)
                frame = simulation.run(
                    task,
                    clients,
                    method,
                    rounds=ROUNDS,
                    clients_per_round=M,
                    seed=0,
                    eval_every=ROUNDS,
                    initial_model="sent",
                ).frame.iloc[-1]
                gate.reset()
                start = time.monotonic()
                lines = federation.run(method=name, task=task_name, rounds=ROUNDS)
                assert any("fedstas: finished" in x for x in lines), "\n".join(lines[-30:])
                rows.append(
                    {
                        "task": task_name,
                        "method": name,
                        "parameters": sum(p.numel() for p in task.model(0).parameters()),
                        "accounted": {"up": int(frame.bytes_up), "down": int(frame.bytes_down)},
                        "up": count_by_kind(gate.up),
                        "down": count_by_kind(gate.down),
                        "requests": count_by_kind(gate.requests),
                        "seconds": round(time.monotonic() - start, 1),
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    out = ROOT / "examples" / "flower" / "bytes.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "what": "bytes between five SuperNodes and the SuperLink, on loopback, without TLS",
        "command": "tests/flower/measure.py " + " ".join(names),
        "nodes": NODES,
        "rounds": ROUNDS,
        "clients_per_round": M,
        "settings": SETTINGS,
        "flwr": version("flwr"),
        "machine": platform.machine(),
        "date": time.strftime("%Y-%m-%d"),
        "idle": idle,
        "runs": rows,
    }
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ["digits"])
