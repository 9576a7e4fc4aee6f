"""Sweeps: declared runs, executed in parallel, each once, and resumed after an interruption.

A recorded run is skipped, a run that another process executes is waited for, and a run that was killed
resumes from its last evaluated round. `backend="dask"` or `"ray"` executes the same sweep on a cluster,
through joblib; its workers must see the folder and the data under the same paths:

    dask scheduler                                             # on one computer
    dask worker tcp://HOST:8786 --nworkers 8 --nthreads 1      # on each
    fedstas sweep preprint --profile paper --backend dask --address tcp://HOST:8786

Modules that train or record are imported in functions, since `fedstas doctor` only estimates costs.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from tqdm import tqdm

from companion.runs.atomic import Unwritable, unwritable
from fedstas import methods, user_code
from fedstas.errors import Diverged, InputError, check_choice, check_float, check_int
from fedstas.sim import partition, tasks
from fedstas.update_messages import UpdateMessage

# Seconds on one core of a laptop in use: per example of a local step, per evaluation, per stratification,
# per round; and the number of training examples.
COSTS = {
    "digits": (2e-6, 0.004, 0.04, 0.01, 1438),
    "mnist": (6e-6, 0.13, 0.45, 0.01, 60_000),
    "fashion-mnist": (6e-6, 0.13, 0.45, 0.01, 60_000),
    "cifar10": (4.5e-4, 14.0, 25.0, 0.05, 50_000),
    "cifar100": (4.5e-4, 14.0, 25.0, 0.05, 50_000),
    "cifar100-coarse": (4.5e-4, 14.0, 25.0, 0.05, 50_000),
    "cifar100-coarse10": (4.5e-4, 7.0, 12.5, 0.05, 25_000),
    "cifar10-features": (1e-6, 0.1, 0.5, 0.01, 50_000),
    "cifar100-features": (1e-6, 0.1, 0.5, 0.01, 50_000),
    "cifar100-coarse-features": (1e-6, 0.1, 0.5, 0.01, 50_000),
    "emnist": (6e-6, 0.25, 0.85, 0.01, 112_800),
    "emnist-byclass": (6e-6, 1.5, 5.2, 0.01, 697_932),
    "topics": (1.6e-4, 0.2, 1.5, 0.02, 6000),
    "newsgroups": (1e-6, 0.01, 0.05, 0.01, 1_928),
    "newsgroups-tokens": (6e-4, 3.1, 5.5, 0.05, 11_314),
    "newsgroups-words": (3e-4, 1.0, 3.0, 0.05, 1_928),
    "reuters-titles": (1.6e-4, 0.2, 0.6, 0.02, 5_511),
    "reuters": (1e-6, 0.02, 0.1, 0.01, 5_511),
    "shakespeare": (4e-5, 1.0, 5.0, 0.05, 163_877),
}


_MINIMA = {"seed": 0, "clients": 1, "clients_per_round": 1, "rounds": 1, "eval_every": 1}


@dataclass(frozen=True)
class Run:
    """One run of a sweep; `overrides` are settings of the method.

    `initial_model` is as in `simulation.run`. All runs recorded before there was a choice are "sent", which is the
    default here, so that they keep their identities; a new sweep says "seed".
    """

    task: str
    partition: str
    concentration: float
    method: str
    seed: int
    overrides: dict = field(default_factory=dict, hash=False)
    clients: int = 100
    clients_per_round: int = 10
    rounds: int = 99
    eval_every: int = 1
    sigma: float = 1.0
    size: int | None = None
    network: str = ""  # the task's usual one
    sizes: str = ""  # of the clients, as in `partition.parse_sizes`
    eval_rounds: tuple[int, ...] = ()  # evaluated too, besides each `eval_every`-th
    average: float | str | None = None  # of the server's models: beta, or "tail"
    initial_model: str = "sent"
    drop: float = 0.0  # the probability of no answer, and its remedy
    remedy: str = "divide"
    message: UpdateMessage | None = None  # what participants send, as in `simulation.run`

    def __post_init__(self):
        # Numbers of NumPy become Python's, so that equal runs have equal identities.
        for key, low in _MINIMA.items():
            object.__setattr__(self, key, check_int(key, getattr(self, key), low))
        for key in ("concentration", "sigma"):
            object.__setattr__(self, key, check_float(key, getattr(self, key), 0, open_low=False))
        if self.size is not None:
            object.__setattr__(self, "size", check_int("size", self.size, 1))
        further = tuple(check_int("a round of eval_rounds", t, 1) for t in self.eval_rounds)
        object.__setattr__(self, "eval_rounds", further)

    def __str__(self):
        settings = "".join(f", {k} {v}" for k, v in self.overrides.items())
        sent = "" if self.message is None else f", {self.message}"
        return f"{self.method}{settings}{sent} on {self.partition}, seed {self.seed}"


def estimate(run: Run) -> float:
    """Estimate the seconds that a run takes on one core."""
    example, evaluation, stratification, round_, examples = COSTS.get(run.task, COSTS["digits"])
    settings = methods.parameters(run.method) | run.overrides
    stratifications = 0
    if "strata" in settings:
        interval = settings.get("restratify_every", run.rounds)
        stratifications = math.ceil(run.rounds / interval)
    m = {"fedsampling": run.clients, "centralised": 1}.get(run.method, run.clients_per_round)
    # The examples of a cohort of average clients; of `centralised`, whose one participant holds all data, all of them.
    available = settings.get("share", 1.0) * examples * (m if m > 1 else run.clients) / run.clients
    epochs = settings["epochs"]
    work = settings["steps"] * min(m * settings["batch"], available)
    per_round = example * (work if epochs is None else epochs * available) + round_
    # k-means of 100 clients, each with ten starts: as long as so many stratifications.
    if "authors" in run.method:
        stratifications = 60
    if run.method == "clustered-similarity":  # the hierarchical clustering, as measured
        per_round += 5 * round_
    models = 1 if run.average is None else 2  # that are evaluated: the last, and the average
    return (
        run.rounds * per_round
        + (run.rounds / run.eval_every + len(run.eval_rounds)) * models * evaluation
        + stratifications * stratification
    )


def find_identity(run: Run, device: str) -> dict:
    """Return the identity of a run, by which its record is found."""
    *_, identity = _prepare(run, device)
    return identity


def choose(todo: list[Run], name: str, **choices: list | None) -> list[Run]:
    """Select the runs of a sweep by fields of `Run`, as in `method=["md"], seed=[0, 1]`; None allows all values.

    Raises:
        InputError: the sweep `name` has no run with a value.
    """
    for key, values in choices.items():
        if values is None:
            continue
        values_of_sweep = list(dict.fromkeys(getattr(run, key) for run in todo))
        for value in values:
            if value not in values_of_sweep:
                allowed = ", ".join(map(str, values_of_sweep))
                raise InputError(f"sweep {name} has no {key} {value!r}: it has {allowed}")
        todo = [run for run in todo if getattr(run, key) in values]
    return todo


def parse_seeds(text: str) -> list[int]:
    """Parse `0-4`, `0,3` or `0-2,7`."""
    seeds = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or int(high or low) < int(low):
            raise InputError(f"{text!r} is no list of seeds: write 0-4, or 0,3")
        seeds += range(int(low), int(high or low) + 1)
    return list(dict.fromkeys(seeds))


def parse_numbers(text: str) -> list[float]:
    """Parse `0.001,10`."""
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise InputError(f"{text!r} is no list of numbers: write 0.001,10") from error


def duration(seconds: float) -> str:
    """Format a number of seconds for readers."""
    minute, hour = 60, 3600
    if seconds < 1.5 * minute:
        return f"{seconds:.0f} s"
    return f"{seconds / minute:.0f} min" if seconds < 1.5 * hour else f"{seconds / hour:.1f} h"


class Clock:
    """Estimates the remaining time of a sweep, corrected by how long its finished runs took."""

    def __init__(self, todo: list[Run]):
        self.left = dict(enumerate(todo))
        # Seconds of the finished runs of each method, and their estimates; of all methods under None.
        self.measured: dict[str | None, tuple[float, float]] = {}

    def done(self, number: int, outcome: str, seconds: float) -> None:
        """Remove a run from those left; if it was executed, its seconds correct the estimates of the others."""
        run = self.left.pop(number)
        if outcome == "done":
            for key in (run.method, None):
                measured, estimated = self.measured.get(key, (0.0, 0.0))
                self.measured[key] = (measured + seconds, estimated + estimate(run))

    def seconds(self) -> float:
        """Estimate the seconds that all runs left take on one core."""
        total = 0.0
        for run in self.left.values():
            known = self.measured.get(run.method) or self.measured.get(None) or (1.0, 1.0)
            measured, estimated = known
            total += estimate(run) * measured / estimated
        return total


BACKENDS = ("loky", "dask", "ray")
ELSEWHERE = "elsewhere"  # the outcome of a run that another process executes
POLL = 2.0  # seconds between two checks of runs that other processes execute
WATCH = 0.5  # seconds between two checks by a worker whether its parent is running
CONNECT = 10.0  # seconds to reach a scheduler


def load_task(name: str, device: str):
    """Load a task; the last one is cached, as long as a user's file has not changed."""
    return _loaded(name, device, user_code.sha256(name))


@lru_cache(maxsize=1)
def _loaded(name: str, device: str, sha: str):
    """Load a task; `sha`, of a user's file, makes a changed file another entry of the cache."""
    return tasks.load(name, device=device)


@lru_cache(maxsize=4)
def _federation(task: str, device: str, kind: str, settings: tuple, shas: tuple):
    """Partition a task's data; `shas`, of users' files, make a changed file another entry of the cache."""
    data = load_task(task, device)
    return partition.make(kind, data.train_y, users=data.users, kept=data.kept, **dict(settings))


def _prepare(run: Run, device: str):
    """Return a run's task, federation, method, keyword arguments of `simulation.run`, and identity."""
    from companion.runs import records

    settings = {"clients": run.clients, "seed": run.seed, "concentration": run.concentration}
    settings |= {"sigma": run.sigma, "size": run.size, "sizes": run.sizes}
    shas = user_code.sha256(run.task), user_code.sha256(run.partition)
    federation = _federation(run.task, device, run.partition, tuple(settings.items()), shas)
    method = methods.get(run.method, **run.overrides)
    options = {
        "rounds": run.rounds,
        "clients_per_round": run.clients_per_round,
        "seed": run.seed,
        "eval_every": run.eval_every,
        "eval_rounds": run.eval_rounds,
        "average": run.average,
        "initial_model": run.initial_model,
        "drop": run.drop,
        "remedy": run.remedy,
        "message": run.message,
    }
    task = replace(load_task(run.task, device), network=run.network)
    identity = records.identity(task, federation, method, **options)
    return task, federation, method, options, identity


def perform(run: Run, sweep: str, folder: str | Path, device: str = "auto") -> str:
    """Execute and record one run, from its checkpoint if there is one, unless it is recorded.

    Returns:
        `done`, `there` (recorded already), `elsewhere` (another process executes it), or what failed.

    Raises:
        Unwritable: nothing can be recorded.
    """
    from companion.runs import local_tests, records
    from fedstas.sim import simulation

    try:
        task, federation, method, options, identity = _prepare(run, device)
        data, _ = records.run_files(identity, sweep, folder)
        if records.is_recorded(identity, sweep, folder):
            return "there"
        with records.run_lock(data) as acquired:
            if records.is_recorded(identity, sweep, folder):
                return "there"
            if not acquired:
                return ELSEWHERE
            try:
                resume = records.read_checkpoint(identity, data, task.device)
            except InputError as error:
                tqdm.write(f"{run} starts over: {error}", file=sys.stderr)
                resume = None
            diverged = None
            try:
                history = simulation.run(
                    task,
                    federation,
                    method,
                    device=device,
                    resume=resume,
                    checkpoint=lambda h: records.write_checkpoint(h, identity, data, task.device),
                    **options,
                )
            except Diverged as error:  # recorded as a result: repeated, it would diverge again
                history, diverged = error.history, str(error)
            one_class = run.partition == "by_class"  # then a cohort determines the classes in it
            majority = federation.label_counts.argmax(1) if one_class else None
            results = {"device": task.device, "majority": majority, "diverged": diverged}
            if diverged is None:
                results["worst_decile"] = worst_decile(task, federation, history.params)
                if run.sizes:  # the paper with these sizes measures accuracy on clients' test sets
                    results["local_accuracy"] = local_tests.accuracy(
                        task, federation, history.params, run.seed
                    )
            records.save(history, identity, sweep, folder, **results)
            records.delete_checkpoint(data)
            if diverged:
                return f"{run}: {diverged}"
    except Unwritable:
        raise
    except InputError as error:
        return f"{run}: {error}"
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise unwritable(Path(folder), error) from error
        return f"{run}: {type(error).__name__}: {error}"
    return "done"


def worst_decile(task, federation, params) -> float:
    """Return the mean accuracy of a model [P] over the tenth of the clients for which it is lowest.

    The accuracy for a client is that on the test set, weighted by the client's class shares. At least one client counts.
    """
    import torch

    from fedstas.sim import engine, simulation

    module, flat = task.model(0), torch.from_numpy(params).to(task.device)
    _, predicted = engine.evaluate(module, flat, task.test_x, task.test_y)
    is_correct = (predicted == task.test_y).double().cpu()
    labels = torch.nn.functional.one_hot(task.test_y.cpu(), task.classes).double()
    recall = (is_correct @ labels / labels.sum(0)).numpy()
    counts = federation.label_counts[federation.with_data]
    shares = counts / counts.sum(1, keepdims=True)
    # Counts end at the highest class of the training examples; the task may have more.
    return simulation.worst_decile(shares @ recall[: counts.shape[1]])


def _end_with(parent: int) -> None:
    """End this worker process when its parent process ends, even if that is killed.

    A worker without its parent would overwrite files of the next sweep. Its run can be resumed, as after any kill.
    """

    def watch():
        """Wait until the parent has ended, then end this process."""
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _timed(number: int, run: Run, working_folder: Path, *arguments) -> tuple[int, str, float]:
    """Execute a run; return its number, its outcome and its seconds.

    Args:
        number: of the run.
        run: the run.
        working_folder: the folder to which a user's files are relative. A worker that loky reuses may be in that of
            an earlier sweep; on another computer the folder may not exist.
        arguments: the others of `perform`.
    """
    start = time.perf_counter()
    with contextlib.suppress(OSError):
        os.chdir(working_folder)
    outcome = perform(run, *arguments)
    return number, outcome, time.perf_counter() - start


@contextlib.contextmanager
def _workers(backend: str, address: str | None, jobs: int | None):
    """Set up a backend of joblib; yield the number of runs at a time, and the error that a killed worker raises."""
    if backend == "loky":
        with parallel_config(backend="loky", initializer=_end_with, initargs=(os.getpid(),)):
            yield jobs or 1, BrokenExecutor
        return
    if backend == "ray":
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError as error:
            raise InputError("the backend ray needs the package ray: pip install ray") from error
        ray.init(address=address, ignore_reinit_error=True)
        register_ray()
        with parallel_config(backend="ray"):
            yield jobs or int(ray.cluster_resources().get("CPU", 1)), ray.exceptions.RayError
        return
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise InputError(
            "the backend dask needs the package distributed: `pip install -e .[dask]` in the clone"
        ) from error
    if address is None:
        raise InputError(
            "the backend dask needs the --address of a scheduler, e.g. tcp://HOST:8786"
        )
    try:
        client = Client(address, timeout=CONNECT)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"there is no Dask scheduler at {address}: {error}") from error
    with client:
        threads = client.nthreads()
        if not threads:
            raise InputError(f"the Dask cluster at {address} has no workers: start some")
        if max(threads.values()) > 1:  # torch's generator and threads are one per process
            raise InputError("start the Dask workers with --nthreads 1, and more of them")
        with parallel_config(backend="dask"):
            yield jobs or len(threads), KilledWorker


def check(
    *,
    jobs: int | None = None,
    device: str = "auto",
    backend: str = "loky",
    address: str | None = None,
    **_,
) -> None:
    """Raise `InputError` for settings that `make` cannot use, whether or not a run is missing."""
    if jobs is not None:
        check_int("jobs", jobs, 1)
    tasks.find_device(device)
    check_choice("backend", backend, BACKENDS)
    if backend == "loky" and address is not None:
        raise InputError(f"address {address} is of use only with the backends dask and ray")


def _find_missing(todo: list[Run], name: str, folder: Path, device: str):
    """Return the runs that are not recorded, what failed of the others, and the file names of the recorded.

    Raises:
        InputError: a record is damaged, newer, or contradicts itself.
    """
    from companion.runs import records

    missing, failed, recorded = [], [], []
    for task in dict.fromkeys(run.task for run in todo):
        load_task(task, device)  # raises once for missing data, not once for each run
    for run in todo:
        try:
            identity = find_identity(run, device)
        except InputError as error:
            failed.append(f"{run}: {error}")
            continue
        record = records.find(identity, name, folder)
        if record is None:
            missing.append(run)
            continue
        recorded.append(records.file_stem(identity))
        if divergence := record.metadata.get("diverged"):
            failed.append(f"{run}: {divergence}")
    return missing, failed, recorded


def make(
    todo: list[Run],
    name: str,
    *,
    jobs: int | None = None,
    folder: str | Path = "results",
    device: str = "auto",
    backend: str = "loky",
    address: str | None = None,
    progress: bool = True,
    dry_run: bool = False,
) -> list[str]:
    """Execute and record the missing runs of a sweep.

    Args:
        todo: the runs of the sweep.
        name: of the sweep.
        jobs: runs at a time; by default 1, and on a cluster the number of its workers.
        folder: of the recorded runs.
        device: auto, cpu or cuda.
        backend: one of `BACKENDS`.
        address: of the cluster's scheduler.
        progress: whether to show a bar.
        dry_run: whether only to print the number of missing runs and their cost.

    Returns:
        A sentence for each run that failed: which, and why.
    """
    from companion.runs import records

    check(jobs=jobs, device=device, backend=backend, address=address)
    folder = Path(folder).absolute()  # workers may be in another folder
    start = time.perf_counter()
    missing, failed, recorded = _find_missing(todo, name, folder, device)
    clock, executed, present = Clock(missing), 0, len(todo) - len(missing) - len(failed)
    tqdm.write(
        f"sweep {name}: {len(todo)} runs, {present} there already, {len(missing)} to make, "
        f"about {duration(clock.seconds())} of one core, in {folder}"
    )
    if dry_run:
        return failed
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}") from error
    records.clean_stale(folder / name, recorded)
    bar = tqdm(
        total=len(missing),
        desc=f"sweep {name}",
        unit="run",
        disable=not progress,
        bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} runs, {elapsed}{postfix}",
    )
    with _workers(backend, address, jobs) as (workers, worker_error), bar:
        parallel_runs = effective_n_jobs(workers)
        while number_left := len(clock.left):
            waiting = 0
            runs_left = [*clock.left.items()]
            work = (delayed(_timed)(i, r, Path.cwd(), name, folder, device) for i, r in runs_left)
            try:
                for number, outcome, seconds in _parallel(workers)(work):
                    if outcome == ELSEWHERE:
                        waiting += 1
                        continue
                    clock.done(number, outcome, seconds)
                    executed += outcome == "done"
                    present += outcome == "there"
                    failed += [outcome] if outcome not in ("done", "there") else []
                    bar.update()
                    bar.set_postfix_str(f"about {duration(clock.seconds() / parallel_runs)} left")
            except worker_error:
                failed.append("a worker was killed, perhaps for want of memory: run this again")
                break
            if waiting:
                bar.set_postfix_str(f"{waiting} are made by another process")
                time.sleep(POLL if waiting == number_left else 0)
    tqdm.write(
        f"sweep {name}: {executed} made, {present} there already, {len(failed)} failed, "
        f"{time.perf_counter() - start:.0f} s" + "".join(f"\n  {text}" for text in failed)
    )
    return failed


def _parallel(workers: int) -> Parallel:
    """Return a `Parallel` that yields results as they come, or at the end where the backend cannot."""
    try:
        return Parallel(n_jobs=workers, return_as="generator_unordered")
    except ValueError:
        return Parallel(n_jobs=workers)
