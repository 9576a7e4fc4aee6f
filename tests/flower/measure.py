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
from gate import Gate  # noqa: E402

from fedstas import methods, partition, simulation, tasks  # noqa: E402

METHODS = {"digits": ["fedavg", "fedstas", "fedstas-unbiased-dp"], "mnist": ["fedavg", "fedstas"]}
NODES, ROUNDS, M = 5, 10, 3
SETTINGS = {"lr": 0.5, "batch": 32}


def kind(path: str) -> str:
    """What a request is for: the last part of its path."""
    return path.rsplit("/", 1)[-1]


def counted(counter) -> dict:
    found: dict = {}
    for path, count in counter.items():
        found[kind(path)] = found.get(kind(path), 0) + count
    return found


def main(names) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    rows, gate = [], Gate()
    with Federation(NODES, warm=True, gate=gate) as federation:
        time.sleep(15)
        gate.reset()
        time.sleep(12)
        idle = {"seconds": 12, "up": sum(gate.up.values()), "down": sum(gate.down.values())}
        for task_name in names:
            task = tasks.load(task_name)
            dealt = partition.make(
                "dirichlet", task.train_y, clients=NODES, seed=0, concentration=0.5
            )
            for name in METHODS[task_name]:
                method = methods.get(name, **SETTINGS)
                frame = simulation.run(
                    task,
                    dealt,
                    method,
                    rounds=ROUNDS,
                    clients_per_round=M,
                    seed=0,
                    eval_every=ROUNDS,
                    initial_model="sent",
                ).frame.iloc[-1]
                gate.reset()
                began = time.monotonic()
                lines = federation.run(method=name, task=task_name, rounds=ROUNDS)
                assert any("fedstas: finished" in x for x in lines), "\n".join(lines[-30:])
                rows.append(
                    {
                        "task": task_name,
                        "method": name,
                        "parameters": sum(p.numel() for p in task.model(0).parameters()),
                        "accounted": {"up": int(frame.bytes_up), "down": int(frame.bytes_down)},
                        "up": counted(gate.up),
                        "down": counted(gate.down),
                        "requests": counted(gate.requests),
                        "seconds": round(time.monotonic() - began, 1),
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
    out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["digits"])
