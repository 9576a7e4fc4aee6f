"""The round loop (FedSTaS, Algorithm 3), for every method."""

import contextlib
import copy
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from fedstas import user_code
from fedstas.aggregation import aggregate, average_models, mean_of_tail
from fedstas.client_sampling import Cohort, check_cohort_size, has_flag
from fedstas.errors import (
    Diverged,
    InputError,
    check_choice,
    check_float,
    check_int,
    format_value,
)
from fedstas.methods import Method
from fedstas.sim import engine, initial_model, models
from fedstas.sim.partition import Federation
from fedstas.sim.server import Server, ServerMemory
from fedstas.sim.tasks import Task, find_device
from fedstas.streams import stream
from fedstas.update_messages import MaskedUpdates, UpdateMessage, mask

METRICS = ("train_loss", "test_accuracy", "client_accuracy", "macro_f1")
COUNTS = ("participants", "examples", "bytes_down", "bytes_up")
COLUMNS = {"round": "int64"} | dict.fromkeys(METRICS, "float64") | dict.fromkeys(COUNTS, "int64")
COLUMNS["seconds"] = "float64"
AVERAGE_COLUMNS = {f"{name}_average": "float64" for name in METRICS}  # of runs with `average`
# On the clients' own test examples, where the federation has such.
OWN_COLUMNS = dict.fromkeys(("own_test_accuracy", "own_test_worst_decile"), "float64")
LATER_COLUMNS = AVERAGE_COLUMNS | OWN_COLUMNS  # that not every run has
REMEDIES = ("divide", "renormalise", "none")  # for participants that do not answer


@dataclass
class RunState:
    """What a run is continued from, besides its model and cohorts: the `key` of its setup, the rounds and
    seconds so far, the rows of its frame, the server's memory, the average of its models, float32 [P], or None, and
    the `shards_digest` of its setup, None in a history that was written without one."""

    key: str
    round: int
    seconds: float
    rows: list[dict]
    server: ServerMemory
    average: np.ndarray | None = None
    shards_digest: str | None = None


@dataclass
class History:
    """The result of a run: `frame` (one row per evaluated round), the final `params` float32 [P], the `cohorts` (one int
    array of client numbers per round), the `state` from which the run can continue, and, if the federation has `tests`,
    `client_accuracies`, float [N]: of the last evaluated model on each client's own test examples, NaN where it has none.

    In the frame, `examples`, `bytes_down`, `bytes_up` and `seconds` are cumulative, `participants` counts the distinct
    clients of the round, and accuracies are fractions. With own test examples there are the columns `own_test_accuracy`,
    the mean of the clients' accuracies, and `own_test_worst_decile` (see `worst_decile`). A run with `average` has further columns, `test_accuracy_average`
    and so on: the same metrics of the average of the server's models.
    """

    frame: pd.DataFrame
    params: np.ndarray
    cohorts: list[np.ndarray]
    state: RunState = field(repr=False)
    client_accuracies: np.ndarray | None = None

    @property
    def average(self) -> np.ndarray | None:
        """The average of the server's models, float32 [P]; None if the run has no `average`."""
        return self.state.average


def draw_batches(method: Method, data: engine.Pool, cohort, rates, seed: int, t: int, places=None):
    """Draw the batches of a cohort: rows of the pool [m, steps, batch], their weights, and examples drawn, int [m].

    Each participant draws its sample, then the batches of its local steps from it, each without replacement. Who has
    fewer steps than others has weights of zero in the first ones. Streams are keyed by the place in the cohort, so that
    a client drawn twice has two samples. `places` [m] is given by a client that knows only its own places.
    """
    batch, m = method.local.batch, len(cohort.clients)
    samples, places = [], range(m) if places is None else places
    for place, k, rate in zip(places, cohort.clients, rates, strict=True):
        rng = stream(seed, "data", t, place)
        samples.append((rng, method.data.sample(int(data.sizes[k]), float(rate), rng)))
    width = max(1, min(batch, max(len(s) for _, s in samples)))
    own_steps = [method.local.count_steps(len(s)) for _, s in samples]
    steps = max(1, *own_steps)
    idx = np.zeros((m, steps, width), dtype=np.int64)
    weight = np.zeros((m, steps, width))
    for slot, (rng, sample) in enumerate(samples):
        size = min(batch, len(sample))
        first = data.offsets[cohort.clients[slot]]
        for step in range(steps - own_steps[slot], steps):
            rows = sample if size == len(sample) else rng.choice(sample, size, replace=False)
            idx[slot, step, :size] = first + rows
            weight[slot, step, :size] = 1 / size
    return idx, weight, np.array([len(s) for _, s in samples])


def draw_keys(module, local, idx: np.ndarray, seed: int, t: int, places=None):
    """Draw the dropout keys of the rows idx of `draw_batches`, int64 as idx, or None for a network without dropout.

    A key decides which units are dropped for one example in one step (`models.WithDropout.dropout`). A participant's keys
    do not depend on the other participants, nor on the backend.
    """
    if not isinstance(module, models.WithDropout):
        return None
    m, steps, width = idx.shape
    places = range(m) if places is None else places
    rngs = (stream(seed, "dropout", t, place) for place in places)
    # Keys of whole batches are drawn, and the first `width` used: the largest batch of the cohort does not matter.
    whole = np.stack([rng.integers(-(2**63), 2**63, (steps, local.batch)) for rng in rngs])
    keys = whole[..., :width]
    # With epochs, who has fewer steps than others makes the last of the cohort's. In reverse order its last step has its
    # first keys, so that the others' steps do not matter.
    return keys if local.epochs is None else keys[:, ::-1].copy()


def train_cohort(
    module,
    params,
    data: engine.Pool,
    local,
    idx,
    weight,
    seed,
    t: int,
    places=None,
    corrections=None,
) -> torch.Tensor:
    """Train a cohort in round t on the batches of `draw_batches`, and return its models [m, P].

    Args:
        places: as in `draw_batches`.
        corrections: [m, P], each added to all gradients of its participant; None for none.
    """
    keys = draw_keys(module, local, idx, seed, t, places)
    return engine.local_updates(
        module,
        params,
        data,
        idx,
        weight,
        lr=local.learning_rate(t),
        prox=local.prox,
        momentum=local.momentum,
        optimizer=local.optimizer,
        corrections=corrections,
        keys=keys,
    )


def worst_decile(accuracies) -> float:
    """Return the mean over the tenth of the clients with the lowest accuracies [N], at least one client."""
    accuracies = np.sort(accuracies)
    return float(accuracies[: max(1, len(accuracies) // 10)].mean())


def client_test_accuracies(is_correct: np.ndarray, tests) -> np.ndarray:
    """Return the share of each client's own test examples that a model predicts correctly, float [N], NaN for none.

    Args:
        is_correct: bool, of each test example of the task.
        tests: the indices of each client's own among them.
    """
    return np.array([is_correct[rows].mean() if len(rows) else np.nan for rows in tests])


def measure(
    task: Task,
    module,
    params,
    data: engine.Pool,
    class_shares: np.ndarray,
    average=None,
    tests=None,
) -> tuple[dict, np.ndarray | None]:
    """Measure a model, and with `average` a second one in the same passes.

    Args:
        task: whose test set is used.
        module: the network.
        params: the model [P].
        data: of all clients, on which the training loss is taken.
        class_shares: [N, classes], under which a client's accuracy is taken.
        average: a second model [P], or None.
        tests: the indices of each client's own test examples, or None.

    Returns:
        The metrics by column, `METRICS`, and where they apply `AVERAGE_COLUMNS` and `OWN_COLUMNS`; and each client's
        accuracy on its own test examples, float [N], or None.
    """
    models = params[None] if average is None else torch.stack([params, average])
    trained = engine.evaluate_models(module, models, data.x, data.y)
    tested = engine.evaluate_models(module, models, task.test_x, task.test_y)
    row: dict[str, float] = {}
    own = None
    if tests is not None:
        (_, of_model), *_ = tested  # the labels that the model itself predicts, and not the average
        own = client_test_accuracies((of_model == task.test_y).cpu().numpy(), tests)
        having = own[~np.isnan(own)]
        row |= dict(zip(OWN_COLUMNS, (float(having.mean()), worst_decile(having)), strict=True))
    for suffix, (train_loss, _), (_, predicted) in zip(
        ("", "_average"), trained, tested, strict=False
    ):
        pairs = (task.test_y * task.classes + predicted).cpu().numpy()
        confusion = np.bincount(pairs, minlength=task.classes**2).reshape(task.classes, -1)
        correct, actual, assigned = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        recall = correct / np.maximum(actual, 1)
        row |= {
            f"train_loss{suffix}": train_loss,
            f"test_accuracy{suffix}": correct.sum() / actual.sum(),
            f"client_accuracy{suffix}": float((class_shares @ recall).mean()),
            f"macro_f1{suffix}": float(np.mean(2 * correct / np.maximum(actual + assigned, 1))),
        }
    return row, own


@dataclass(frozen=True)
class Setup:
    """The fixed inputs of a run.

    `m`: participants per round. `clients`: the numbers in the federation of the N clients with data, int [N], whose
    examples are in `data`. `class_shares`: float [N, classes]. `average`: beta of the average of the server's models,
    or the first round of those whose mean it is, an int; None for no average. `initial_model`: see
    `fedstas.sim.initial_model`. `drop`, `remedy` and `message`: see `run`. `tests`: the indices of each client's own test examples.
    `shards_digest`: the SHA-256 of the clients' numbers and of the indices of their examples.
    """

    task: Task
    method: Method
    m: int
    seed: int
    clients: np.ndarray
    data: engine.Pool
    class_shares: np.ndarray
    average: float | int | None = None
    initial_model: str = "seed"
    drop: float = 0.0
    remedy: str = REMEDIES[0]
    tests: tuple[np.ndarray, ...] | None = None
    message: UpdateMessage | None = None
    shards_digest: str = ""

    @cached_property
    def key(self) -> str:
        """The hash of what a history must share to be continued, besides the shards, of which it has the sizes alone.

        The shards themselves have a hash of their own, `shards_digest`, which histories written without one need not
        share. `later` are options that were added later: they are hashed only where they are used, so that the keys of histories
        without them stay as they were.
        """
        what = (self.task.digest, self.method, self.m, self.seed, self.data.offsets.tobytes())
        files = user_code.source_digests(self.method.clients, self.method.data, self.method.server)
        later: tuple = () if self.average is None else ("average", self.average)
        later += ("drop", self.drop, self.remedy) if self.drop else ()
        if self.tests is not None:
            later += ("tests", *(rows.tobytes() for rows in self.tests))
        later += () if self.message is None else ("message", self.message)
        others = [
            *self.task.identity_extras.values(),
            *initial_model.identity(self.initial_model).values(),
        ]
        return hashlib.sha256(repr((*what, *files, *others, *later)).encode()).hexdigest()

    def start(self) -> tuple[Server, torch.Tensor]:
        """Make a server before its first round, and w_0 [P]."""
        module, majority = self.task.model(self.seed), self.class_shares.argmax(1)
        from_seed = self.initial_model == initial_model.SEED
        server = Server(
            self.data,
            module,
            self.seed,
            majority,
            classes=self.task.classes,
            from_seed=from_seed,
            sums_only=self.message is not None and self.message.sums_only,
        )
        return server, initial_model.load(self.initial_model, module)


def prepare(
    task: Task,
    federation: Federation,
    method: Method,
    m: int,
    seed: int,
    average: float | int | None = None,
    initial_model: str = "seed",
    drop: float = 0.0,
    remedy: str = REMEDIES[0],
    message: UpdateMessage | None = None,
) -> Setup:
    """Check the inputs of a run and prepare its setup, of which `average` is checked before; `InputError` if the
    federation cannot be trained so."""
    check_method(method)
    m = check_int("the number of participants (clients per round)", m, 1)
    seed = check_int("seed", seed, 0)
    drop, remedy = check_drop(drop, remedy)
    check_message(message, method, drop)
    clients = federation.with_data
    if not len(clients):
        raise InputError("the federation is empty: none of its clients has data")
    shards = [federation.shards[k] for k in clients]
    if max(s.max() for s in shards) >= len(task.train_y):
        raise InputError(
            f"the federation names examples that task {task.name} does not have: make it from this task"
        )
    check_cohort_size(method.clients, m, len(clients))
    tests = federation.tests
    if tests is not None:
        largest = max((rows.max() for rows in tests if len(rows)), default=-1)
        if largest >= len(task.test_y):
            raise InputError(
                f"the federation's own test examples must be of the {len(task.test_y)} of task {task.name}: {largest} is "
                "named"
            )
        tests = None if largest < 0 else tests
    # Of the task's labels: the federation may have been made from others, of which its `label_counts` are.
    labels = task.train_y.cpu().numpy()
    counts = np.stack([np.bincount(labels[s], minlength=task.classes) for s in shards])
    class_shares = counts / counts.sum(1, keepdims=True)
    digest = _hash_shards(clients, shards)
    if has_flag(method.clients, "pooled"):
        shards = [np.concatenate(shards)]
    data = engine.pool(task.train_x, task.train_y, shards)
    inputs = (task, method, m, seed, clients, data, class_shares, average, initial_model)
    return Setup(
        *inputs, drop=drop, remedy=remedy, tests=tests, message=message, shards_digest=digest
    )


def _hash_shards(clients: np.ndarray, shards: Sequence[np.ndarray]) -> str:
    """Return the SHA-256 of the clients' numbers [N], of their sizes, and of the indices of their examples."""
    sizes = np.array([len(shard) for shard in shards])
    arrays = (clients, sizes, np.concatenate(shards))
    content = b"".join(each.astype("<i8").tobytes() for each in arrays)
    return hashlib.sha256(content).hexdigest()


def check_average(average) -> float | str | None:
    """Return "tail", beta of the average of the server's models, in [0, 1), or None; `InputError` for any other value."""
    if average is None or average == "tail":
        return average
    try:
        return check_float("average", average, 0, 1, open_low=False, open_high=True)
    except InputError as error:
        raise InputError(f"{error}, or 'tail'") from None


def check_method(method) -> None:
    """Raise an `InputError` if a method is only its name, or anything else than a `Method`."""
    if not isinstance(method, Method):
        name = method if isinstance(method, str) else "md"
        raise InputError(f"the method is {format_value(method)}: give methods.get({name!r})")


def check_drop(drop, remedy) -> tuple[float, str]:
    """Return the probability in [0, 1) that a participant does not answer, and the remedy; `InputError` for others."""
    ends = {"open_low": False, "open_high": True}
    check_choice("remedy", remedy, REMEDIES)
    return check_float("drop", drop, 0, 1, **ends), remedy


def check_message(message, method: Method, drop: float) -> None:
    """Raise an `InputError` if `message` is neither None nor a configuration of `update_messages`, or if the method and
    `drop` do not go with it."""
    if not isinstance(message, UpdateMessage | None):
        raise InputError(
            f"message is {format_value(message)}: it must be None, or QuantisedUpdates(...), NoisyUpdates(...) or "
            "MaskedUpdates(...) of fedstas.update_messages"
        )
    if message is None or not message.sums_only:
        return
    if has_flag(method.server, "remembers"):
        raise InputError(
            f"the server {type(method.server).__name__} needs the updates of single clients, which secure aggregation "
            "hides: use another server or other messages"
        )
    if drop:
        raise InputError(
            f"drop is {drop}: the masks of silent participants would not cancel, so under MaskedUpdates it must be 0"
        )


def evaluated_rounds(rounds: int, eval_every: int = 1, eval_rounds=()) -> list[int]:
    """Return the rounds in which a run is evaluated: each `eval_every`-th, those of `eval_rounds`, and the last.

    Raises:
        InputError: `rounds` or `eval_every` is not at least 1, or a further round is not in 1..rounds.
    """
    rounds, every = check_int("rounds", rounds, 1), check_int("eval_every", eval_every, 1)
    if not np.iterable(eval_rounds):
        given = format_value(eval_rounds)
        raise InputError(f"eval_rounds is {given}: it must be a list of rounds, as [59, 60]")
    further = [check_int("a round of eval_rounds", t, 1, rounds) for t in eval_rounds]
    return sorted({*range(every, rounds + 1, every), *further, rounds})


class Progress:
    """A run in progress: its model, cohorts and measurements after round `round`."""

    def __init__(self, setup: Setup):
        self.setup, self.round, self.participants = setup, 0, 0
        self.server, self.params = setup.start()
        self.average: torch.Tensor | None = None  # of the models so far, if the setup asks for it
        self.client_accuracies: np.ndarray | None = None  # on own test examples, last evaluated
        self.rows: list[dict] = []
        self.cohorts: list[np.ndarray] = []
        self._began = time.perf_counter()
        self._advice = f"try a smaller lr than {setup.method.local.lr:g}"

    @property
    def seconds(self) -> float:
        """Seconds of training and measuring, including those before a resumption."""
        return time.perf_counter() - self._began  # `resume` sets it back by the seconds before

    def resume(self, history: History, rounds: int) -> None:
        """Continue from a history of fewer rounds; `InputError` if it is not of the same run."""
        state = history.state
        if not (isinstance(state, RunState) and isinstance(state.server, ServerMemory)):
            raise InputError("resume: the history is of another version of fedstas")
        # A history from before there was the hash of the shards has none to compare.
        of_these_shards = state.shards_digest in (None, self.setup.shards_digest)
        if state.key != self.setup.key or not of_these_shards:
            raise InputError(
                "resume: the history is of another task, federation, method, seed, average or initial model"
            )
        if state.round >= rounds:
            raise InputError(
                f"resume: the history has {state.round} rounds already: rounds is {rounds} and must be more"
            )
        self.server.restore(state.server)
        self.params = torch.from_numpy(history.params).to(self.params)
        if state.average is not None:
            self.average = torch.from_numpy(state.average).to(self.params)
        self.round, self._began = state.round, self._began - state.seconds
        self.rows, self.cohorts = list(state.rows), list(history.cohorts)

    def after(self, t: int, params: torch.Tensor, cohort: Cohort) -> None:
        """Record that round t has ended with this model; `Diverged` if it is not finite."""
        if not bool(torch.isfinite(params).all()):
            raise Diverged(f"the model is not finite after round {t}: {self._advice}")
        self.round, self.params = t, params
        if isinstance(average := self.setup.average, int):
            self.average = mean_of_tail(self.average, params, average, t)
        elif average is not None:
            self.average = average_models(self.average, params, average, t)
        self.participants = len(np.unique(cohort.clients))
        # The one client of a method that pools all data is not in the federation.
        pooled = has_flag(self.setup.method.clients, "pooled")
        self.cohorts.append(self.setup.clients[[] if pooled else cohort.clients])

    def measure(self) -> dict:
        """Measure the model, and the average if there is one, and add a row to the history; `Diverged` if a loss is
        not finite."""
        s = self.setup
        models = (self.params, s.data, s.class_shares, self.average)
        row, self.client_accuracies = measure(s.task, self.server.module, *models, s.tests)
        if not np.isfinite([row["train_loss"], row.get("train_loss_average", 0.0)]).all():
            raise Diverged(f"the training loss is not finite in round {self.round}: {self._advice}")
        row |= {"round": self.round, "participants": self.participants} | self.server.cost
        self.rows.append(row | {"seconds": self.seconds})
        return row

    def history(self, *, live: bool = False) -> History:
        """Return the history so far; a `live` one shares its state, which the next round changes."""
        averaged = self.setup.average is not None
        columns = COLUMNS | (AVERAGE_COLUMNS if averaged else {})
        columns |= {} if self.setup.tests is None else OWN_COLUMNS
        frame = pd.DataFrame(self.rows, columns=list(columns)).astype(columns)
        memory = self.server.memory if live else copy.deepcopy(self.server.memory)
        average = None if self.average is None else self.average.cpu().numpy()
        key, digest = self.setup.key, self.setup.shards_digest
        state = RunState(key, self.round, self.seconds, self.rows, memory, average, digest)
        params = self.params.cpu().numpy()
        return History(frame, params, self.cohorts, state, self.client_accuracies)


def answering(cohort: Cohort, answers: np.ndarray, drop: float, remedy: str) -> Cohort:
    """Return the cohort of those who answer, with their weights changed by the remedy (see `run`): divided by 1 - drop,
    renormalised to the sum of the whole cohort's weights, or left alone.

    Args:
        cohort: as drawn.
        answers: bool [m], whether each participant answers.
        drop: the probability of no answer.
        remedy: one of `REMEDIES`.

    Raises:
        InputError: the weights are to be renormalised, and those of the answers do not add up to more than 0.
    """
    weights = cohort.weights[answers]
    if remedy == "divide":
        weights = weights / (1 - drop)
    elif remedy == "renormalise" and len(weights):
        if not weights.sum() > 1e-12 * np.abs(weights).sum():
            raise InputError(
                "the weights of the answers do not add up to more than 0, so that they cannot be renormalised: "
                "choose the remedy divide"
            )
        weights = weights * (cohort.weights.sum() / weights.sum())
    strata = None if cohort.strata is None else cohort.strata[answers]
    return replace(cohort, clients=cohort.clients[answers], weights=weights, strata=strata)


def train_round(
    setup: Setup, server: Server, t: int, params: torch.Tensor
) -> tuple[torch.Tensor, Cohort]:
    """Do round t of Algorithm 3, from w_t = params [P]: return w_{t+1} and the cohort.

    `server` answers what the design asks and charges for it; `setup.method.server` is the server optimiser, which makes
    w_{t+1} of the updates.

    What is done besides the algorithm's steps depends on the flags that the method's server optimiser declares: see
    `aggregation.ServerOptimizer`.
    """
    method, data, seed, local = setup.method, setup.data, setup.seed, setup.method.local
    optimizer: Any = method.server  # which of its methods there are depends on its flags
    state = server.optimizer_state(optimizer)
    remembers, corrects = has_flag(optimizer, "remembers"), has_flag(optimizer, "corrects")
    server.begin(t, params)
    if has_flag(optimizer, "clusters") and state.labels is None:
        labels = optimizer.assign(server, stream(seed, "clusters"))
        state.labels = torch.from_numpy(labels).to(params.device)
    drawn = cohort = server.draw(method.clients, setup.m)  # lines 3-10
    rates = method.data.rates(server, drawn) if len(drawn.clients) else ()  # lines 11-14
    places = None  # in the drawn cohort, of those who answer; None where all do
    if setup.drop:  # the server sends rates and model before it knows who is silent
        server.send_model(drawn.clients)
        answers = stream(seed, "answers", t).random(server.clients)[drawn.clients] >= setup.drop
        cohort, places = (
            answering(drawn, answers, setup.drop, setup.remedy),
            np.flatnonzero(answers),
        )
        rates = np.asarray(rates)[answers]
    chosen = torch.as_tensor(cohort.clients, dtype=torch.long).to(params.device)
    omega = client_shares(method, server, params) if remembers else None
    trained = params.new_zeros((0, len(params)))
    weights = lengths = params.new_zeros(0)
    if len(cohort.clients):
        idx, example_weights, counts = draw_batches(method, data, cohort, rates, seed, t, places)
        server.send_model(cohort.clients)
        corrections = optimizer.corrections(chosen, omega, state) if corrects else None
        module = server.module
        trained = train_cohort(
            module, params, data, local, idx, example_weights, seed, t, places, corrections
        )
        message = setup.message
        size = (
            trained.nbytes if message is None else len(trained) * message.count_bytes(len(params))
        )
        server.charge(examples=int(np.count_nonzero(example_weights)), bytes_up=size)
        if message is not None and not message.sums_only:
            trained = params + transmit(message, trained - params, seed, t, places)
        server.receive(cohort.clients, trained - params)
        weights = torch.from_numpy(cohort.on_updates(counts)).to(params)
        # From [m, steps, batch]: each participant's number of local steps, which are those with an example.
        steps = example_weights.any(2).sum(1)
        # The learning rate times that number, for optimisers that normalise or correct.
        lengths = torch.from_numpy(local.lengths(steps, t)).to(params)
    else:
        server.receive(cohort.clients, trained)  # nobody's
        if not remembers:  # an empty cohort: no update, unless the server has stored earlier ones
            return params, drawn
    if corrects:  # control variates are as large as models
        down = len(np.unique(drawn.clients)) * params.nbytes
        server.charge(examples=0, bytes_up=trained.nbytes, bytes_down=down)
    if isinstance(setup.message, MaskedUpdates):
        if has_flag(optimizer, "normalises"):
            weights = optimizer.normalise(weights, lengths)
        update = secure_sum(setup.message, trained - params, weights, seed, t)
    else:
        update = _aggregate_round(
            optimizer, state, params, trained, chosen, weights, omega, lengths
        )
    return optimizer.step(params, update, state), drawn


def transmit(message, updates: torch.Tensor, seed: int, t: int, places=None) -> torch.Tensor:
    """Return what the server receives of the participants' updates [m, P] in round t, if each sends a `message`."""
    places = range(len(updates)) if places is None else places
    rows = zip(updates.cpu().numpy(), places, strict=True)
    received = [message.transmit(row, stream(seed, "message", t, place)) for row, place in rows]
    return torch.from_numpy(np.stack(received)).to(updates)


def secure_sum(
    message: MaskedUpdates, updates: torch.Tensor, weights: torch.Tensor, seed: int, t: int
) -> torch.Tensor:
    """Return the weighted sum [P] of updates [m, P] in round t, of which the server sees masked terms only."""
    rows = zip(updates.cpu().numpy(), weights.tolist(), strict=True)
    terms = np.stack([message.encode(update, weight) for update, weight in rows])
    message.check_sum(terms)
    messages = mask(terms, lambda i, j: stream(seed, "mask", t, i, j))
    return torch.from_numpy(message.decode(messages.sum(0, dtype=np.uint32))).to(updates)


def _aggregate_round(
    optimizer, state, params, trained, clients, weights, omega, lengths
) -> torch.Tensor:
    """Return the aggregated update [P] of a cohort's models `trained` [m, P], as the server optimiser's flags ask for;
    the other arguments are those of `aggregation.ServerOptimizer`."""
    if has_flag(optimizer, "remembers"):
        last = (lengths,) if has_flag(optimizer, "corrects") else ()
        return optimizer.combine(clients, weights, trained - params, omega, state, *last)
    if has_flag(optimizer, "normalises"):
        weights = optimizer.normalise(weights, lengths)
    return aggregate(params, trained, weights)


def client_shares(method: Method, server: Server, params) -> torch.Tensor:
    """Return omega [N] for a server that remembers clients, as `params`: 1/N where the design hides sizes."""
    design = method.clients
    hidden = has_flag(design, "equal_clients") or has_flag(design, "hides_sizes")
    sizes = np.ones(server.clients) if hidden else server.sizes
    return torch.from_numpy(sizes / sizes.sum()).to(params)


def run(
    task: Task,
    federation: Federation,
    method: Method,
    *,
    rounds: int,
    clients_per_round: int,
    seed: int,
    eval_every: int = 1,
    eval_rounds: Sequence[int] = (),
    average: float | str | None = None,
    initial_model: str = "seed",
    drop: float = 0.0,
    remedy: str = REMEDIES[0],
    message: UpdateMessage | None = None,
    device: str = "auto",
    resume: History | None = None,
    checkpoint: Callable[[History], None] | None = None,
    threads: int = 1,
    progress: bool = False,
) -> History:
    """Train a federation for `rounds` rounds, and measure the model every `eval_every` rounds, in the further rounds
    `eval_rounds`, and at the end.

    With `average`, an average of the server's models is measured too; clients train from the model itself, so that
    nothing else changes and nothing more is sent. It is beta in [0, 1) of the exponential average (see
    `aggregation.average_models`), or "tail" for the mean of the models of the second half, from round `rounds` // 2 + 1
    on (see `aggregation.mean_of_tail`; before them, the model itself): such a run is continued for as many rounds only.

    `seed` fixes w_0 and every draw: equal arguments give equal frames, seconds aside, bit for
    bit on one machine with one thread. `initial_model` says whence w_0 comes, and what a client downloads that needs
    it: "seed" (made from the seed, 8 bytes), "sent" (made from the seed and downloaded, the rule of all runs recorded
    before), or a file *.npy of float32 [P], which is downloaded.

    With `drop`, in [0, 1), each client is offline in each round with this probability, independently of everything
    else; equal seeds have the same clients offline, whatever the design. A participant that is offline downloads the model
    and sends nothing. `remedy` says what becomes of the weights of those who answer: "divide" by 1 - drop, which keeps an
    unbiased design unbiased; "renormalise", so that they add up to what the weights of the whole cohort do; "none". A round
    without an answer leaves the model as it is, unless the server remembers updates.

    `message` says what a participant sends of its update: `QuantisedUpdates`, `NoisyUpdates` or `MaskedUpdates` of
    `fedstas.update_messages`, or by default the update as it is. Designs that compare updates see what was sent; under
    masks they are refused.

    `resume` continues the history of a shorter run with the
    same arguments. `checkpoint` is called with the history after each evaluation but the last;
    it must not hold on to it, since the next rounds change it.

    Raises:
        InputError: an argument is not allowed.
        Diverged: the model or the loss is not finite; it has the history so far.
    """
    rounds = check_int("rounds", rounds, 1)
    evaluated = set(evaluated_rounds(rounds, eval_every, eval_rounds))
    average = check_average(average)
    task = task.to(find_device(device))
    with limited_threads(check_int("threads", threads, 1)):
        averaged: Any = rounds // 2 + 1 if average == "tail" else average
        setup = prepare(
            task,
            federation,
            method,
            clients_per_round,
            seed,
            averaged,
            initial_model,
            drop=drop,
            remedy=remedy,
            message=message,
        )
        so_far = Progress(setup)
        if resume is not None:
            so_far.resume(resume, rounds)
        method.local.learning_rate(rounds)  # a schedule that ends before is refused at once
        first = so_far.round
        remaining = range(first + 1, rounds + 1)
        bar = tqdm(
            remaining, method.name, rounds, unit="round", disable=not progress, initial=first
        )
        try:
            for t in bar:
                so_far.after(t, *train_round(setup, so_far.server, t, so_far.params))
                if t in evaluated:
                    row = so_far.measure()
                    bar.set_postfix({k: f"{row[k]:.3f}" for k in METRICS[:2]})
                    if checkpoint is not None and t < rounds:
                        checkpoint(so_far.history(live=True))
        except Diverged as error:
            raise Diverged(str(error), so_far.history()) from None
        return so_far.history()


@contextlib.contextmanager
def limited_threads(threads: int):
    """Limit torch and BLAS to so many threads within a `with` block."""
    import sklearn.cluster  # noqa: F401  (thread pools are limited only if their library is loaded)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
