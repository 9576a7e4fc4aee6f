"""How far one round of a design is from all clients taking part: the instrument behind `fedstas variance`.

At one model w_t every client trains; then a design draws thousands of cohorts, and each gives a weighted
sum of the updates that are already there. Against accuracy after many rounds this is far more sensitive,
and a hundred times cheaper.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pandas as pd
import torch

from fedstas.client_sampling import Cohort, draw_cohort
from fedstas.data_sampling import AllData
from fedstas.errors import InputError, check_float, check_int
from fedstas.methods import LocalSGD, Method, get
from fedstas.sim import engine, simulation
from fedstas.sim.rng import stream
from fedstas.sim.server import Server, ServerMemory
from fedstas.sim.tasks import find_device
from fedstas.state import copy_draw_fields, reset_draw_fields

TRAINED = 20  # cohorts of which the cost of training is the mean


@dataclass(frozen=True)
class State:
    """A model w_t = `params`, and what every client would answer: `gram` [N, N] holds the inner products
    of the N updates (means of their repetitions), `noise` [N] the variance of one of them about it,
    `omega` [N] = n_k / n. `start` is w_0, and `memory` what the server remembers of the rounds since."""

    setup: simulation.Setup
    round: int
    params: torch.Tensor
    start: torch.Tensor
    memory: ServerMemory
    gram: np.ndarray
    noise: np.ndarray
    answers: dict = field(default_factory=dict, repr=False)  # to what a design has asked here

    @property
    def omega(self) -> np.ndarray:
        return self.setup.data.sizes / self.setup.data.sizes.sum()

    @property
    def of_md(self) -> float:
        """The mean squared error of m draws with replacement, weights 1/m, each trained anew."""
        spread = self.omega @ self.gram.diagonal() - self.omega @ self.gram @ self.omega
        return float(spread + self.omega @ self.noise) / self.setup.m

    def with_m(self, clients_per_round: int) -> Self:
        """The same state, looked at with another number of participants."""
        m = check_int("the number of participants (clients per round)", clients_per_round, 1)
        return replace(self, setup=replace(self.setup, m=m))


class _Server(Server):
    """A server at one model, of which thousands of cohorts are drawn: what one design has asked of the
    clients is not computed again for another."""

    def __init__(self, state: State):
        setup = state.setup
        majority = setup.class_shares.argmax(1)
        super().__init__(setup.data, setup.task.model(setup.seed), setup.seed, majority)
        self._answers = state.answers

    def _known(self, key, make):
        """`make()`, or what it was when it was first asked for at this model."""
        if (self.round, key) not in self._answers:
            self._answers[self.round, key] = make()
        return self._answers[self.round, key]

    def _pass(self, what, make):
        return super()._pass(what, lambda gradients: self._known(what, lambda: make(gradients)))

    def _loss(self, k: int) -> float:
        return self._known(("loss", k), lambda: super(_Server, self)._loss(k))


@simulation.limited_threads(1)
def state_after(
    task, federation, *, rounds: int = 0, method: str | Method = "md", local: LocalSGD | None = None,
    clients_per_round: int = 10, seed: int = 0, repeats: int = 2, device: str = "auto",
) -> State:  # fmt: skip
    """The state after `rounds` rounds of a method (0: w_0), at which all clients train `repeats` times.

    Two or more repetitions tell the noise of an update, of SGD's batches, from the update.
    """
    rounds, repeats = check_int("rounds", rounds, 0), check_int("repeats", repeats, 2)
    made = method if isinstance(method, Method) else get(method)
    made = Method(made.name, made.clients, made.data, local or made.local, made.server)
    task = task.to(find_device(device))
    setup = simulation.prepare(task, federation, made, clients_per_round, seed)
    server, params = setup.start()
    start = params.clone()
    server.begin(0, params)
    server.last_updates()  # from now on they are kept, for the designs that look at them
    for t in range(1, rounds + 1):
        params, _ = simulation.train_round(setup, server, t, params)
        if not bool(torch.isfinite(params).all()):
            raise InputError(
                f"round {rounds + 1} of {made.name} is not reached: the model is not finite after round {t}, "
                f"try a smaller lr than {made.local.lr:g}"
            )
    updates = all_updates(setup, server.module, rounds + 1, params, repeats)
    mean = updates.mean(0)
    noise = np.square(updates - mean).sum((0, 2)) / (repeats - 1)
    gram = mean @ mean.T
    gram[np.diag_indices(len(gram))] -= noise / repeats  # of a mean of `repeats`, unbiased
    return State(setup, rounds + 1, params, start, server.memory, gram, noise)


def all_updates(setup, module, t: int, params, repeats: int) -> np.ndarray:
    """Updates float64 [repeats, N, P] of all clients from w_t, each with batches of its own."""
    data, local, clients = setup.data, setup.method.local, np.arange(len(setup.clients))
    ones, method = np.ones(len(clients)), replace(setup.method, data=AllData())
    found = []
    for again in range(repeats):
        places = len(clients) * again + clients
        everyone = method, data, Cohort(clients, ones), ones, setup.seed, t, places
        idx, weight, _ = simulation.draw_batches(*everyone)
        keys = simulation.draw_keys(module, local, idx, setup.seed, t, places)
        trained = engine.local_updates(
            module, params, data, idx, weight, lr=local.lr, prox=local.prox, keys=keys
        )
        found.append((trained - params).double().cpu().numpy())
    return np.stack(found)


def view_at(state: State, design) -> Server:
    """What a design can ask at a state. What it keeps longer than a round it has from w_0, and what only
    runs of its own would tell it from a state of its own method."""
    setup = state.setup
    server = _Server(state)
    if design == setup.method.clients:
        server.memory.designs = copy.deepcopy(state.memory.designs)
    elif state.round > 1:
        server.begin(1, state.start)
        design.draw(server, setup.m, stream(setup.seed, "one round, at w_0"))
    server.memory.last_updates = state.memory.last_updates
    server.memory.cost = dict.fromkeys(server.cost, 0)
    server.begin(state.round, state.params)
    return server


@simulation.limited_threads(1)
def errors(
    state: State, method: Method, draws: int = 1000, seed: int = 0, drop: float = 0.0
) -> dict:
    """One design's round against full participation, over `draws` cohorts.

    `error`: mean squared error of the aggregate relative to MD sampling, `se` its standard error;
    `bias`: the length of the mean error relative to MD's root mean squared error; `largest`: the mean of
    a cohort's largest weight, `effective` of (sum w)^2 / sum w^2; `megabytes` and `examples` of this round,
    its training and what the design asks. `drop`: each drawn client is silent with this probability;
    `remedied` is then the error if the weights of those who answer are divided by 1 - drop. Every update
    is one of the client's full data, whatever the method's data design.
    """
    drop = check_float("drop", drop, 0, 1, open_low=False, open_high=True)
    draws = check_int("draws", draws, 2)
    setup, sizes = state.setup, state.setup.data.sizes
    server, clients = view_at(state, method.clients), method.clients
    weights, squares = np.zeros((draws, len(sizes))), np.zeros((draws, len(sizes)))
    largest, effective, trained = np.zeros(draws), np.zeros(draws), []
    designs = server.memory.designs
    before = copy_draw_fields(designs)
    for i in range(draws):
        rng = stream(seed, "one round", i)
        reset_draw_fields(designs, before)
        cohort = draw_cohort(clients, server, setup.m, rng)
        if i < TRAINED or cohort.per_example:
            rates = method.data.rates(server, cohort)
        if i == 0:
            asked = dict(server.cost)
        if not len(cohort.clients):
            continue
        if i < TRAINED:
            trained.append(_training(server, state, method, cohort, rates))
        own = cohort.weights
        if cohort.per_example:
            pairs = zip(cohort.clients, rates, strict=True)
            counts = [len(method.data.sample(int(sizes[k]), float(q), rng)) for k, q in pairs]
            own = cohort.on_updates(np.array(counts))
        largest[i], effective[i] = own.max(), own.sum() ** 2 / np.square(own).sum()
        own = own * (rng.random(len(own)) >= drop)
        np.add.at(weights[i], cohort.clients, own)
        np.add.at(squares[i], cohort.clients, own**2)  # a client drawn twice trains twice

    def error(factor: float) -> np.ndarray:
        off = factor * weights - state.omega
        return (off @ state.gram * off).sum(1) + factor**2 * squares @ state.noise

    sent, examples = np.sum(trained, axis=0) / min(draws, TRAINED) if trained else (0, 0)
    found, mean = error(1.0), weights.mean(0) - state.omega
    spread = (weights - weights.mean(0)) @ state.gram * (weights - weights.mean(0))
    squared = mean @ state.gram @ mean - spread.sum(1).mean() / (draws - 1)
    result = {
        "error": found.mean() / state.of_md,
        "se": found.std(ddof=1) / np.sqrt(draws) / state.of_md,
        "bias": np.sqrt(max(0.0, squared) / state.of_md),
        "largest": largest.mean(),
        "effective": effective.mean(),
        "megabytes": (asked["bytes_down"] + asked["bytes_up"] + sent) / 1e6,
        "examples": asked["examples"] + examples,
    }
    if drop:
        result["remedied"] = error(1 / (1 - drop)).mean() / state.of_md
    return result


def stratified_error(state: State, labels, q) -> tuple[float, float]:
    """The exact error of one draw from each stratum, p_k = q_k / Q_h, relative to MD sampling, and the
    part of it that is noise of the clients."""
    omega, p = state.omega, q / np.bincount(labels, q)[labels]
    inside = (np.arange(labels.max() + 1)[:, None] == labels) * omega
    noise = omega**2 / p @ state.noise
    spread = omega**2 / p @ state.gram.diagonal() - ((inside @ state.gram) * inside).sum()
    return float((spread + noise) / state.of_md), float(noise / state.of_md)


def _training(server: Server, state: State, method: Method, cohort: Cohort, rates):
    """Bytes down and up, and examples, of the training of one cohort."""
    data, seed = state.setup.data, state.setup.seed
    _, weight, _ = simulation.draw_batches(method, data, cohort, rates, seed, state.round)
    new = np.count_nonzero(~server._has_model[np.unique(cohort.clients)])
    return state.params.nbytes * (new + len(cohort.clients)), int(np.count_nonzero(weight))


def table(state: State, designs: Mapping[str, Method], **how) -> pd.DataFrame:
    """`errors` of several designs at one state, one row each; `InputError` if there is none."""
    if not designs:
        raise InputError("name at least one design to be compared")
    return pd.DataFrame({name: errors(state, each, **how) for name, each in designs.items()}).T
