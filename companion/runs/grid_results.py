"""Read recorded runs of `clustered_grid` and `fedsampling_grid`: the best learning rates, and FedSampling's final metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from companion.runs import records, tables
from companion.runs.clustered_grid import CENTRE
from companion.runs.fedsampling_grid import FEDOPT, PLAIN, PRIVATE, TENTH
from companion.runs.tables import RecordedSweep

METRICS = ["test_accuracy", "macro_f1"]
COLUMNS = ["task", "partition", "sigma", "network", "arm", "epsilon", "size_cap", "seed", *METRICS]


def choose_clustered_rates(sweep: str, folder: str | Path = "results") -> pd.DataFrame:
    """Choose in each setting the rate that leaves MD sampling the least training loss, mean of the last ten rounds.

    Returns one row per setting: columns as `CENTRE`, lr and train_loss. A run that diverged is not chosen.
    """
    frame = records.load(Path(folder) / sweep)
    identities = records.identities(Path(folder) / sweep)
    for key in ("steps", "prox", "lr"):
        values = {run: identity["method"]["local"][key] for run, identity in identities.items()}
        frame[key] = frame["run"].map(values)
    complete = frame.groupby("run")["round"].transform("max") == frame["rounds"]
    last = tables.select_final_rounds(frame[complete])
    means = last.groupby([*CENTRE, "lr"])["train_loss"].mean().reset_index()
    return means.loc[means.groupby([*CENTRE])["train_loss"].idxmin()].reset_index(drop=True)


def choose_fedsampling_rates(
    folder: str | Path = "results", sweep: str = "fedsampling-topics-rates"
) -> pd.DataFrame:
    """Choose for each network and method the rate that leaves the least training loss after the last round.

    Returns columns network, method, rate (of FedAvg's steps, or of FedOpt's server) and train_loss. A run that
    diverged is not chosen.
    """
    trials = Path(folder) / sweep
    frame = records.load(trials)
    losses = frame[frame["round"] == frame["rounds"]].set_index("run")["train_loss"]
    rows = []
    for run, identity in records.identities(trials).items():
        if run in losses.index:
            method = identity["method"]
            server = method["name"] in FEDOPT
            rate = method["server"]["rate"] if server else method["local"]["lr"]
            rows.append((identity.get("network", ""), method["name"], rate, float(losses[run])))
    table = pd.DataFrame(rows, columns=["network", "method", "rate", "train_loss"])
    return table.loc[table.groupby(["network", "method"])["train_loss"].idxmin()].reset_index(
        drop=True
    )


def final_metrics(*sweeps: RecordedSweep, folder: str | Path = "results") -> pd.DataFrame:
    """Return one row per recorded run of FedSampling's sweeps.

    Columns: task, partition, sigma, network, arm, epsilon, size_cap, seed, and accuracy and macro F1 in percent,
    means of the last ten rounds, NaN for a run that diverged. An arm is a method, with what makes it private or a
    plain mean, and whether a tenth of the clients take part.
    """
    rows = []
    for sweep in sweeps:
        if not sweep.recorded:
            continue
        means = tables.select_final_rounds(sweep.frame).groupby("run")[METRICS].mean()
        values = (100 * means).to_dict("index")
        for record in records.read_runs(Path(folder) / sweep.sweep):
            if record.metadata.get("diverged"):
                metrics = dict.fromkeys(METRICS, np.nan)
            elif record.run in values:
                metrics = values[record.run]
            else:
                continue
            identity, method = record.identity, record.identity["method"]
            partition, data = identity["partition"], method["data"]
            arm = method["name"] + (PLAIN if method["clients"].get("weights") == "plain" else "")
            if arm == "fedsampling" and data["epsilon"]:
                arm = PRIVATE if method["clients"]["fraction"] == 1 else TENTH
            rows.append(
                {
                    "task": identity["task"],
                    "partition": partition["name"],
                    "sigma": partition.get("sigma", np.nan),
                    "network": identity.get("network", ""),
                    "arm": arm,
                    "epsilon": data.get("epsilon") or np.nan,
                    "size_cap": data.get("size_cap") or np.nan,
                    "seed": identity["seed"],
                    **metrics,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)
