"""The error of one round of a design relative to full participation, which `fedstas variance` measures.

All clients train from one model w_t. Then a design draws thousands of cohorts; the aggregate of each is a weighted sum of
the clients' updates, so that no further training is needed. Designs that differ in this error can hardly be told apart
by accuracies, which take a hundred times as long.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd
import torch

from fedstas.client_sampling import Cohort, draw_cohort, has_flag
from fedstas.data_sampling import AllData
from fedstas.errors import InputError, check_float, check_int
from fedstas.methods import LocalSGD, Method, get
from fedstas.sim import simulation
from fedstas.sim.server import Server, ServerMemory
from fedstas.sim.tasks import find_device
from fedstas.state import copy_draw_fields, reset_draw_fields
from fedstas.streams import stream

TRAINED_COHORTS = 20  # the first cohorts of a design, over which the cost of training is averaged


@dataclass(frozen=True)
class State:
    """A model w_t and all clients' updates from it.

    Args:
        setup: the federation, method and settings of the run that led to the model.
        round: t.
        params, start: w_t and w_0 [P].
        memory: what the server remembers from the rounds before t.
        gram: inner products of the clients' mean updates, float [N, N].
        noise: the variance of one update of each client about its mean, float [N].
        answers: the clients' answers to designs at this model, so that each is computed once.
    """

    setup: simulation.Setup
    round: int
    params: torch.Tensor
    start: torch.Tensor
    memory: ServerMemory
    gram: np.ndarray
    noise: np.ndarray
    answers: dict = field(default_factory=dict, repr=False)

    @property
    def omega(self) -> np.ndarray:
        """The clients' shares n_k / n, float [N]."""
        return self.setup.data.sizes / self.setup.data.sizes.sum()

    @property
    def md_error(self) -> float:
        """The mean squared error of MD sampling: m draws with replacement, weights 1/m, each trained anew."""
        spread = self.omega @ self.gram.diagonal() - self.omega @ self.gram @ self.omega
        return float(spread + self.omega @ self.noise) / self.setup.m

    def with_m(self, clients_per_round: int) -> Self:
        """Return the same state for another number of participants, which designs have not remembered anything for."""
        m = check_int("the number of participants (clients per round)", clients_per_round, 1)
        if m == self.setup.m:
            return self
        memory = replace(self.memory, designs={})  # strata, for example, depend on m
        return replace(self, setup=replace(self.setup, m=m), memory=memory)


class _CachingServer(Server):
    """A server at one model that computes a client's answer once, for all designs and cohorts.

    Randomised reports on sizes are drawn anew for each cohort, unless they are memoised: `cohort` is its number.
    """

    cohort = 0

    def __init__(self, state: State):
        setup = state.setup
        majority = setup.class_shares.argmax(1)
        super().__init__(
            setup.data,
            setup.task.model(setup.seed),
            setup.seed,
            majority,
            classes=setup.task.classes,
            from_seed=setup.initial_model == "seed",
        )
        self._answers = state.answers

    def _cached(self, key, make):
        """Return `make()`, computed once for this key and model."""
        if (self.round, key) not in self._answers:
            self._answers[self.round, key] = make()
        return self._answers[self.round, key]

    def _ask_gradients(self, what, make):
        """Ask all clients about their gradients, or return the stored answer.

        As in `Server`, `what` names the question, and `make` turns the gradients into the answer and its bytes per client.
        """
        return super()._ask_gradients(
            what, lambda gradients: self._cached(what, lambda: make(gradients))
        )

    def reports(self, clients, **terms) -> np.ndarray:
        """Return randomised responses of these clients, drawn as in another round for each cohort."""
        now, self.round = self.round, self.round + self.cohort
        try:
            return super().reports(clients, **terms)
        finally:
            self.round = now

    def _loss(self, k: int) -> float:
        """Compute the mean loss of client k, or return the stored one."""
        return self._cached(("loss", k), lambda: super(_CachingServer, self)._loss(k))


@simulation.limited_threads(1)
def state_after(
    task,
    federation,
    *,
    rounds: int = 0,
    method: str | Method = "md",
    local: LocalSGD | None = None,
    clients_per_round: int = 10,
    seed: int = 0,
    repeats: int = 2,
    initial_model: str = "seed",
    device: str = "auto",
) -> State:
    """Train for `rounds` rounds with a method, then let all clients train `repeats` times from that model.

    From the repetitions, at least two, the mean of each client's update and its noise (by SGD's random batches) are
    estimated. `initial_model` is as in `simulation.run`.

    Raises:
        InputError: the model is not finite after a round, or the method pools all data.
    """
    rounds, repeats = check_int("rounds", rounds, 0), check_int("repeats", repeats, 2)
    method = method if isinstance(method, Method) else get(method)
    method = replace(method, local=local or method.local)
    _check_not_pooled(method)
    task = task.to(find_device(device))
    setup = simulation.prepare(
        task, federation, method, clients_per_round, seed, initial_model=initial_model
    )
    server, params = setup.start()
    start = params.clone()
    server.begin(0, params)
    server.last_updates()  # so that they are stored, for the designs that ask for them
    for t in range(1, rounds + 1):
        params, _ = simulation.train_round(setup, server, t, params)
        if not bool(torch.isfinite(params).all()):
            raise InputError(
                f"round {rounds + 1} of {method.name} is not reached: the model is not finite after round {t}, "
                f"try a smaller lr than {method.local.lr:g}"
            )
    updates = all_updates(setup, server.module, rounds + 1, params, repeats)
    mean = updates.mean(0)
    noise = np.square(updates - mean).sum((0, 2)) / (repeats - 1)
    gram = mean @ mean.T
    # So that squared norms of mean updates are unbiased.
    gram[np.diag_indices(len(gram))] -= noise / repeats
    return State(setup, rounds + 1, params, start, server.memory, gram, noise)


def all_updates(setup, module, t: int, params, repeats: int) -> np.ndarray:
    """Train all clients from w_t, with other random batches in each repetition: updates float64 [repeats, N, P]."""
    data, local, clients = setup.data, setup.method.local, np.arange(len(setup.clients))
    ones, method = np.ones(len(clients)), replace(setup.method, data=AllData())
    updates = []
    for repeat in range(repeats):
        # Random streams are keyed by place: batches are new.
        places = len(clients) * repeat + clients
        cohort = Cohort(clients, ones)
        idx, weight, _ = simulation.draw_batches(method, data, cohort, ones, setup.seed, t, places)
        trained = simulation.train_cohort(
            module, params, data, local, idx, weight, setup.seed, t, places
        )
        updates.append((trained - params).double().cpu().numpy())
    return np.stack(updates)


def view_at(state: State, design) -> _CachingServer:
    """Make the server at a state, for a design to ask.

    If the state is of a run with this design, the design remembers what it remembered there. Otherwise it remembers one
    draw at w_0.
    """
    setup = state.setup
    server = _CachingServer(state)
    if design == setup.method.clients:
        server.memory.designs = copy.deepcopy(state.memory.designs)
        server.memory.respondents = state.memory.respondents
    elif state.round > 1:
        server.begin(1, state.start)
        design.draw(server, setup.m, stream(setup.seed, "one round, at w_0"))
    server.memory.last_updates = state.memory.last_updates
    server.memory.cost = dict.fromkeys(server.cost, 0)
    server.begin(state.round, state.params)
    return server


def _check_not_pooled(method: Method) -> None:
    """Raise an `InputError` for a method that pools all data: it has no cohorts whose error could be computed."""
    if has_flag(method.clients, "pooled"):
        raise InputError(
            f"{method.name} pools all data, so a round of it has no cohort: leave it out"
        )


@simulation.limited_threads(1)
def errors(
    state: State, method: Method, draws: int = 1000, seed: int = 0, drop: float = 0.0
) -> dict:
    """Estimate the error of one round of a design relative to full participation, over `draws` cohorts.

    The error is that of the weighted sum of the cohort's updates: what a server adds from earlier rounds (FedVARP, MIFA,
    SCAFFOLD) or divides by (FedNova) is not in it. Every update is of the client's full data, whatever the method's data design. Each cohort is drawn from the same
    state of the design. `drop`: each draw is not answered with this probability, independently of the others (in
    `simulation.run` a client that is drawn twice answers for both draws or for neither).

    Returns:
        error, se: the mean squared error of the aggregate relative to MD sampling's, and its standard error.
        bias: the length of the mean error relative to MD's root mean squared error.
        largest: the largest weight of a cohort, on average.
        effective: the effective number of participants (sum w)^2 / sum w^2, on average.
        megabytes, examples: traffic and processed examples of this round, for the design's questions and for training.
        remedied: only with `drop`, the error if the weights of the clients that answer are divided by 1 - drop.
    """
    drop = check_float("drop", drop, 0, 1, open_low=False, open_high=True)
    draws = check_int("draws", draws, 2)
    _check_not_pooled(method)
    setup, sizes = state.setup, state.setup.data.sizes
    server, clients = view_at(state, method.clients), method.clients
    weights, squares = np.zeros((draws, len(sizes))), np.zeros((draws, len(sizes)))
    largest, effective, trained = np.zeros(draws), np.zeros(draws), []
    designs = server.memory.designs
    before = copy_draw_fields(designs)
    for i in range(draws):
        rng = stream(seed, "one round", i)
        reset_draw_fields(designs, before)
        server.cohort = i
        cohort = draw_cohort(clients, server, setup.m, rng)
        if len(cohort.clients) and (i < TRAINED_COHORTS or cohort.per_example):
            rates = method.data.rates(server, cohort)
        if i == 0:
            asking = dict(server.cost)
        if not len(cohort.clients):
            continue
        if i < TRAINED_COHORTS:
            places = i * len(sizes) + np.arange(len(cohort.clients))
            trained.append(_training_cost(server, state, method, cohort, rates, places))
        w = cohort.weights
        if cohort.per_example:
            pairs = zip(cohort.clients, rates, strict=True)
            counts = [len(method.data.sample(int(sizes[k]), float(q), rng)) for k, q in pairs]
            w = cohort.on_updates(np.array(counts))
        if w.any():
            largest[i], effective[i] = w.max(), w.sum() ** 2 / np.square(w).sum()
        w = w * (rng.random(len(w)) >= drop)
        np.add.at(weights[i], cohort.clients, w)
        np.add.at(squares[i], cohort.clients, w**2)  # a client drawn twice trains twice

    def squared_errors(factor: float) -> np.ndarray:
        """Compute the expected squared error of each cohort [draws] if its weights w are multiplied by `factor`.

        It is |sum_k (factor w_k - omega_k) u_k|^2 of the clients' mean updates u_k, plus the variance of the
        participants' updates about these means; the expectation is over the batches of local training.
        """
        off = factor * weights - state.omega
        return (off @ state.gram * off).sum(1) + factor**2 * squares @ state.noise

    sent, examples = np.sum(trained, axis=0) / min(draws, TRAINED_COHORTS) if trained else (0, 0)
    per_cohort, mean = squared_errors(1.0), weights.mean(0) - state.omega
    spread = (weights - weights.mean(0)) @ state.gram * (weights - weights.mean(0))
    squared = mean @ state.gram @ mean - spread.sum(1).mean() / (draws - 1)
    result = {
        "error": per_cohort.mean() / state.md_error,
        "se": per_cohort.std(ddof=1) / np.sqrt(draws) / state.md_error,
        "bias": np.sqrt(max(0.0, squared) / state.md_error),
        "largest": largest.mean(),
        "effective": effective.mean(),
        "megabytes": (asking["bytes_down"] + asking["bytes_up"] + sent) / 1e6,
        "examples": asking["examples"] + examples,
    }
    if drop:
        result["remedied"] = squared_errors(1 / (1 - drop)).mean() / state.md_error
    return result


def stratified_error(state: State, labels, q) -> tuple[float, float]:
    """Compute the error of one draw from each stratum, p_k = q_k / Q_h, relative to MD sampling's.

    Args:
        labels, q: each client's stratum and measure [N].

    Returns:
        The exact mean squared error, and the part of it that is the noise of the clients' updates.
    """
    omega, p = state.omega, q / np.bincount(labels, q)[labels]
    weights = (np.arange(labels.max() + 1)[:, None] == labels) * omega  # [strata, N]
    noise = omega**2 / p @ state.noise
    spread = omega**2 / p @ state.gram.diagonal() - ((weights @ state.gram) * weights).sum()
    return float((spread + noise) / state.md_error), float(noise / state.md_error)


def _training_cost(
    server: Server, state: State, method: Method, cohort: Cohort, rates, places: np.ndarray
) -> tuple[int, int]:
    """Return the bytes of both directions together, and the examples, of the training of one cohort.

    `places` [m] key the random streams of its samples and batches.
    """
    data, seed = state.setup.data, state.setup.seed
    _, weight, _ = simulation.draw_batches(method, data, cohort, rates, seed, state.round, places)
    new = np.count_nonzero(~server._has_model[np.unique(cohort.clients)])
    sent = server.model_bytes * new + state.params.nbytes * len(cohort.clients)
    return sent, int(np.count_nonzero(weight))


def table(state: State, designs: Mapping[str, Method], **settings) -> pd.DataFrame:
    """Compute the `errors` of several methods at one state, one row each; `InputError` if there is none."""
    if not designs:
        raise InputError("name at least one design to be compared")
    return pd.DataFrame(
        {name: errors(state, method, **settings) for name, method in designs.items()}
    ).T
