"""The server: the strategy, a test set to measure with, one line a round."""

import json
import time
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from federation.settings import data_of, method_of
from fedstas import engine, models
from fedstas.flower import Designs

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and print the test accuracy after each round."""
    config = context.run_config
    torch.set_num_threads(1)
    task, _ = data_of(config)  # the server uses the test set alone
    module = task.model(config["seed"])
    strategy = Designs(
        method_of(config),
        clients_per_round=config["clients-per-round"],
        seed=config["seed"],
        nodes=config["nodes"],
        patience=config["patience"],
        quorum=config["quorum"],
        total=config["total"] or None,
        classes=config["classes"] or None,
        initial_model=config["initial-model"],
        state=config["state"] or None,
        run=json.dumps({k: config[k] for k in ("task", "partition", "concentration", "nodes")}),
    )
    began, rounds = time.monotonic(), config["rounds"]

    def accuracy(t: int, arrays: ArrayRecord) -> MetricRecord:
        params = torch.from_numpy(np.array(arrays.to_numpy_ndarrays()[0]))
        loss, predicted = engine.evaluate(module, params, task.test_x, task.test_y)
        share = float((predicted == task.test_y).float().mean())
        cohort = strategy.cohorts[-1].tolist() if strategy.cohorts else []
        seconds = time.monotonic() - began
        print(
            f"fedstas: round {t}/{rounds}, clients {cohort}, test accuracy {share:.1%}, "
            f"{seconds:.0f} s", flush=True,
        )  # fmt: skip
        return MetricRecord({"accuracy": share, "loss": loss})

    start = ArrayRecord([models.flatten(module).numpy()])
    result = strategy.start(grid, start, num_rounds=rounds, evaluate_fn=accuracy)
    if config["out"]:
        out = Path(config["out"])
        out.parent.mkdir(parents=True, exist_ok=True)
        params = result.arrays.to_numpy_ndarrays()[0]
        cohorts = np.array([",".join(map(str, c)) for c in strategy.cohorts])
        np.savez(out, params=params, cohorts=cohorts, events=np.array(strategy.view.events))
    final = result.evaluate_metrics_serverapp[rounds]["accuracy"]
    print(f"fedstas: finished, test accuracy {final:.1%}", flush=True)
