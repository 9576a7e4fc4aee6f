"""The round loop (FedSTaS, Algorithm 3), for every method."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from fedstas import aggregation
from fedstas.client_sampling import Pooled
from fedstas.errors import Diverged, InputError, integer
from fedstas.methods import Method
from fedstas.sim import engine, models
from fedstas.sim.partition import Federation
from fedstas.sim.rng import stream
from fedstas.sim.server import Server
from fedstas.sim.tasks import Task, find_device

COLUMNS = {
    "round": "int64",
    "train_loss": "float64",
    "test_accuracy": "float64",
    "client_accuracy": "float64",
    "macro_f1": "float64",
    "participants": "int64",
    "examples": "int64",
    "bytes_down": "int64",
    "bytes_up": "int64",
    "seconds": "float64",
}


@dataclass
class History:
    """What a run leaves: `frame` (one row per evaluated round), the final `params` float32 [P],
    and the `cohorts`, one int array of client numbers per round. `state` resumes it.

    In the frame, `examples`, `bytes_down`, `bytes_up` and `seconds` are cumulative,
    `participants` counts the distinct clients of that round, and accuracies are fractions.
    """

    frame: pd.DataFrame
    params: np.ndarray
    cohorts: list[np.ndarray]
    state: dict = field(repr=False)


def draw_batches(method: Method, data: engine.Pool, cohort, rates, seed: int, t: int, places=None):
    """Rows of the pool [m, steps, batch], their weights, and how many examples each of the cohort
    drew, int [m], in round t.

    Each participant draws its sample, then `steps` batches from it, each without replacement.
    Streams are keyed by the place in the cohort: a client drawn twice gets two samples. `places`
    are given by a client that knows only its own.
    """
    steps, batch, m = method.local.steps, method.local.batch, len(cohort.clients)
    samples, places = [], range(m) if places is None else places
    for place, k, rate in zip(places, cohort.clients, rates, strict=True):
        rng = stream(seed, "data", t, place)
        samples.append((rng, method.data.sample(int(data.sizes[k]), float(rate), rng)))
    width = max(1, min(batch, max(len(s) for _, s in samples)))
    idx = np.zeros((m, steps, width), dtype=np.int64)
    weight = np.zeros((m, steps, width))
    for slot, (rng, sample) in enumerate(samples):
        size = min(batch, len(sample))
        first = data.offsets[cohort.clients[slot]]
        for step in range(steps if size else 0):
            kept = sample if size == len(sample) else rng.choice(sample, size, replace=False)
            idx[slot, step, :size] = first + kept
            weight[slot, step, :size] = 1 / size
    return idx, weight, np.array([len(s) for _, s in samples])


def measure(task: Task, module, params, data: engine.Pool, class_shares: np.ndarray) -> dict:
    """The metrics of a model: the objective on all training data of the federation, accuracy on
    the global test set, under each client's class shares (mean over clients), and macro F1."""
    train_loss, _ = engine.evaluate(module, params, data.x, data.y)
    _, predicted = engine.evaluate(module, params, task.test_x, task.test_y)
    pairs = (task.test_y * task.classes + predicted).cpu().numpy()
    confusion = np.bincount(pairs, minlength=task.classes**2).reshape(task.classes, -1)
    right, true, said = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    recall = right / np.maximum(true, 1)
    return {
        "train_loss": train_loss,
        "test_accuracy": right.sum() / true.sum(),
        "client_accuracy": float((class_shares @ recall).mean()),
        "macro_f1": float(np.mean(2 * right / np.maximum(true + said, 1))),
    }


def run(
    task: Task,
    federation: Federation,
    method: Method,
    *,
    rounds: int,
    clients_per_round: int,
    seed: int,
    eval_every: int = 1,
    device: str = "auto",
    resume: History | None = None,
    checkpoint: Callable[[History], None] | None = None,
    threads: int = 1,
    progress: bool = False,
) -> History:
    """Train `rounds` rounds and measure every `eval_every` (and the last).

    `seed` fixes w_0 and every draw: equal arguments give equal frames, seconds aside, bit for
    bit on one machine with one thread. `resume` goes on from the history of a shorter run of
    the same arguments. `checkpoint` is called with the history after each evaluation but the
    last; it must not keep it, for the next rounds write into it. `InputError` for what is not
    allowed; `Diverged`, with the history so far, when the model or the loss stops being finite.
    """
    rounds = integer("rounds", rounds, 1)
    m = integer("the number of participants (clients per round)", clients_per_round, 1)
    eval_every, seed = integer("eval_every", eval_every, 1), integer("seed", seed, 0)
    threads = integer("threads", threads, 1)
    task = task.to(find_device(device))
    with_data = federation.with_data
    if not len(with_data):
        raise InputError("the federation is empty: no client has data")
    shards = [federation.shards[k] for k in with_data]
    if max(s.max() for s in shards) >= len(task.train_y):
        raise InputError(f"the federation was made from other data than task {task.name}")
    class_shares = np.zeros((len(with_data), task.classes))
    counts = federation.label_counts[with_data]
    class_shares[:, : counts.shape[1]] = counts / counts.sum(1, keepdims=True)
    if isinstance(method.clients, Pooled):
        shards = [np.concatenate(shards)]
    elif m > len(shards):
        raise InputError(
            f"{m} clients per round are more than the {len(shards)} clients that have data"
        )

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            data = engine.pool(task.train_x, task.train_y, shards)
            return _rounds(
                task, data, with_data, class_shares, method, rounds, m, seed, eval_every, resume,
                checkpoint, progress,
            )  # fmt: skip
    finally:
        torch.set_num_threads(before)


def _rounds(
    task, data, with_data, class_shares, method, rounds, m, seed, eval_every, resume, checkpoint,
    progress,
) -> History:  # fmt: skip
    module = task.model(seed)
    server = Server(data, module, seed, class_shares.argmax(1))
    params, state = models.flatten(module), {}
    key = hashlib.sha256(repr((task.digest, method, m, seed, data.offsets.tobytes())).encode())
    key = key.hexdigest()
    rows, cohorts, first, earlier = [], [], 1, 0.0
    if resume is not None:
        s = resume.state
        if s["key"] != key:
            raise InputError("resume: the history is of another task, federation, method or seed")
        if s["round"] >= rounds:
            raise InputError(f"resume: the history has {s['round']} rounds already, not {rounds}")
        params, state, server.memory = (
            torch.from_numpy(resume.params).to(params),
            {k: v.to(params.device) for k, v in copy.deepcopy(s["server"]).items()},
            copy.deepcopy(s["memory"]),
        )
        server.cost, server._knows_sizes = dict(s["cost"]), s["knows_sizes"]
        rows, cohorts, first, earlier = (
            list(s["rows"]),
            list(resume.cohorts),
            s["round"] + 1,
            s["seconds"],
        )
    began, pooled = time.perf_counter(), isinstance(method.clients, Pooled)

    def history(t: int, keep=copy.deepcopy) -> History:
        frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
        state_ = {"key": key, "round": t, "server": keep(state), "memory": keep(server.memory)}
        state_ |= {"cost": dict(server.cost), "knows_sizes": server._knows_sizes, "rows": rows}
        state_ |= {"seconds": earlier + time.perf_counter() - began}
        return History(frame, params.cpu().numpy(), cohorts, state_)

    bar = tqdm(
        range(first, rounds + 1), desc=method.name, unit="round", disable=not progress,
        initial=first - 1, total=rounds,
    )  # fmt: skip
    for t in bar:
        server.begin(t, params)
        try:
            cohort = method.clients.draw(server, m, stream(seed, "clients", t))
        except Diverged as error:
            raise Diverged(str(error), history(t - 1)) from None
        rates = method.data.rates(server, cohort)
        idx, weight, drawn = draw_batches(method, data, cohort, rates, seed, t)
        server.send_model(cohort.clients)
        trained = engine.local_updates(
            module, params, data, idx, weight, lr=method.local.lr, prox=method.local.prox
        )
        server.cost["examples"] += int(np.count_nonzero(weight))
        server.cost["bytes_up"] += trained.nbytes
        server.receive(cohort.clients, trained - params)
        share = cohort.weights * drawn if cohort.per_example else cohort.weights
        weights = torch.from_numpy(share).to(params)
        update = aggregation.aggregate(params, trained, weights)
        after = method.server.step(params, update, state)
        if not bool(torch.isfinite(after).all()):
            raise Diverged(
                f"the model is not finite after round {t}: try a smaller lr than "
                f"{method.local.lr:g}", history(t - 1),
            )  # fmt: skip
        params = after
        cohorts.append(np.arange(0) if pooled else with_data[cohort.clients])
        if t % eval_every == 0 or t == rounds:
            row = measure(task, module, params, data, class_shares)
            if not np.isfinite(row["train_loss"]):
                raise Diverged(
                    f"the training loss is not finite in round {t}: try a smaller lr than "
                    f"{method.local.lr:g}", history(t),
                )  # fmt: skip
            row |= {"round": t, "participants": len(np.unique(cohort.clients))} | server.cost
            rows.append(row | {"seconds": earlier + time.perf_counter() - began})
            bar.set_postfix(loss=f"{row['train_loss']:.3f}", accuracy=f"{row['test_accuracy']:.1%}")
            if checkpoint is not None and t < rounds:
                checkpoint(history(t, keep=lambda live: live))
    return history(rounds)
