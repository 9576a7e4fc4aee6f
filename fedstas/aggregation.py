"""Aggregation weights of a cohort, and server optimisers (FedSTaS, eq. 2.3; preprint, eq. 6).

Weights are applied to *updates* w_k - w_t. If they sum to one this equals averaging models; if they do not (unbiased
designs), averaging models would scale the model itself. Works on numpy arrays and on torch tensors alike.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from fedstas.arrays import (
    MAX_COUNT,
    as_float_array,
    as_int_array,
    check_same_shape,
    rescale,
)
from fedstas.config import choice_field, config, float_field, int_field
from fedstas.errors import InputError, check_float, check_int
from fedstas.state import per_client
from fedstas.stratification import draw_kmeans_seed, restored_features, stratify


def cohort_weights(sizes) -> np.ndarray:
    """Return n_k over the cohort's total [m] (FedAvg: McMahan et al. 2017, arXiv:1602.05629)."""
    sizes = rescale(as_float_array("client sizes", sizes, 0))
    if not sizes.any():
        raise InputError("the clients of the cohort have no examples: one must have some")
    return sizes / sizes.sum()


def expansion_weights(omega, clients: int) -> np.ndarray:
    """Return N / m omega_k [m] (FedSTaS, eq. 2.3): unbiased for uniform draws of distinct clients, on updates only.

    Raises:
        InputError: there are more participants than clients, or a number is out of range.
    """
    omega = as_float_array("omega", omega, 0)
    clients = check_int("the number of clients", clients, 1, MAX_COUNT)
    if len(omega) > clients:
        raise InputError(
            f"omega has {len(omega)} participants of {clients} clients: give the omega_k of distinct clients, or the "
            "number of all clients"
        )
    return clients / len(omega) * omega


def stratum_weights(sizes, allocation) -> np.ndarray:
    """Return N_h / (N m_h) [H] (FedSTaS, preprint, eq. 6), the weight of each of the m_h participants of a stratum.

    It is 0 for a stratum without clients and participants. `InputError` if a stratum has clients and no participant.
    """
    sizes, draws = (
        as_float_array("stratum sizes", sizes, 0),
        as_int_array("the allocation", allocation),
    )
    check_same_shape("sizes and allocation", sizes, draws)
    if (draws[sizes > 0] == 0).any() or not sizes.any():
        raise InputError(
            "every stratum with clients needs a participant, and one stratum must have clients"
        )
    return sizes / (sizes.sum() * np.maximum(draws, sizes == 0))  # not 0/0 in an empty stratum


def hansen_hurwitz(omega, selection, draws) -> np.ndarray:
    """Return omega_k / (m_h p_k) for each draw: unbiased with replacement for every p > 0.

    Hansen and Hurwitz 1943, doi:10.1214/aoms/1177731356.
    """
    omega, p = (
        as_float_array("omega", omega, 0),
        as_float_array("selection probabilities", selection, 0),
    )
    draws = as_float_array("draws", draws, 0, ndim=None)
    check_same_shape("omega, selection and draws", omega, p, *([draws] if draws.ndim else []))
    if not (draws * p).all():
        raise InputError("selection probabilities and draws must be above 0 for each drawn client")
    return omega / (draws * p)


def aggregate(params, models, weights):
    """Return the update sum_i weights_i (w_i - w_t) [P], for models w_i [m, P] and w_t = params [P]."""
    return weights @ (models - params)


def average_models(average, params, beta: float, t: int):
    """Return the exponential average of the server's models w_1..w_t [P], which no client trains from.

    It is a_t / (1 - beta^t) for a_t = beta a_{t-1} + (1 - beta) w_t and a_0 = 0: its weights sum to 1, by the bias
    correction of Adam (Kingma and Ba 2015, arXiv:1412.6980, Section 3), so that it is w_1 after round 1.

    Args:
        average: the average after round t - 1 [P]; any value, also None, if t is 1.
        params: w_t [P].
        beta: in [0, 1); the average is w_t for 0.
        t: the round, at least 1.

    Raises:
        InputError: if `beta` or `t` is out of range, or the two models have different shapes.
    """
    check_float("beta", beta, 0, 1, open_low=False, open_high=True)
    check_int("t", t, 1)
    if t > 1:
        check_same_shape("average and params", average, params)
    new = (1 - beta) / (1 - beta**t)
    return params if t == 1 else (1 - new) * average + new * params


def mean_of_tail(average, params, first: int, t: int):
    """Return the mean of the server's models w_first..w_t [P] (Polyak and Juditsky 1992, doi:10.1137/0330046, of the
    last rounds); before round `first`, w_t.

    Args:
        average: the mean after round t - 1 [P]; any value, also None, up to round `first`.
        params: w_t [P].
        first: the first round that counts, at least 1.
        t: the round, at least 1.
    """
    return params if t <= first else average + (params - average) / (t - first + 1)


class ServerOptimizer(Protocol):
    """What a server does with the updates of a round: a frozen dataclass of its settings, with the method `step`.

    By default the cohort's updates u_i are aggregated to sum_i weights_i u_i. Optional attributes of the class declare
    that more is to be done (`client_sampling.has_flag` reads them), by further methods. In their arguments `clients` [m]
    are the numbers of the participants, `weights` [m] and `updates` [m, P] are theirs, `omega` [N] is each client's weight
    in the objective, and `lengths` [m] are the learning rate times the numbers of local steps (`LocalSGD.lengths`).

        State: a dataclass of what is remembered from round to round. It is made before the first round and given to
            the methods as `state`, which change it in place; without it `state` is None.
        remembers: updates of earlier rounds enter. `combine(clients, weights, updates, omega, state)` returns the
            aggregated update [P]; it is called for an empty cohort, too, where a server without memory does nothing.
        corrects, besides `remembers`: participants add a vector to each gradient. `corrections(clients, omega, state)`
            returns these vectors [m, P], or None before there are any; `combine` takes `lengths` as its last argument.
        clusters, besides `remembers`: `assign(view, rng)` returns the cluster of each client, int [N]. It is called once,
            before the first cohort, and the result is stored as `state.labels`.
        normalises: `normalise(weights, lengths)` returns the weights [m] with which updates are aggregated.
    """

    def step(self, params, update, state: Any) -> Any:
        """Return the next parameters [P], from w_t = params [P] and the aggregated update [P]."""


@dataclass
class Moments:
    """The moments m and v [P] of an adaptive server, None before its first step."""

    m: Any = None
    v: Any = None


@config
class Adaptive:
    """Server Adam, Yogi or Adagrad on the aggregated update (Reddi et al. 2021, arXiv:2003.00295, Algorithm 2).

    w_{t+1} = w_t + rate m_t / (sqrt(v_t) + tau), m_t = beta1 m_{t-1} + (1 - beta1) update, and
    v_t as `kind` has it, from v_0 = tau^2.
    """

    State: ClassVar[type] = Moments
    kind: str = choice_field("adam", "yogi", "adagrad")
    rate: float = float_field(0.01, 0)
    beta1: float = float_field(0.9, 0, 1, open_low=False, open_high=True)
    beta2: float = float_field(0.99, 0, 1, open_low=False, open_high=True)
    tau: float = float_field(1e-3, 0)

    def step(self, params, update, state: Moments):
        """Return the next parameters [P]; the moments are updated in place."""
        square = update * update
        v = 0.0 * square + self.tau**2 if state.v is None else state.v
        m = 0.0 * update if state.m is None else state.m
        m = self.beta1 * m + (1 - self.beta1) * update
        if self.kind == "adam":
            v = self.beta2 * v + (1 - self.beta2) * square
        elif self.kind == "yogi":
            sign = (v > square) * 1.0 - (v < square) * 1.0
            v = v - (1 - self.beta2) * square * sign
        else:
            v = v + square
        state.m, state.v = m, v
        return params + self.rate * m / (v**0.5 + self.tau)


@config
class Average:
    """w_{t+1} = w_t + rate times the aggregated update: FedAvg's server for rate 1."""

    rate: float = float_field(1.0, 0)

    def step(self, params, update, state=None):
        """Return the next parameters [P]; no state is needed."""
        return params + self.rate * update


@dataclass
class UpdateMemory:
    """Each client's last update y [N, P], None before the first round."""

    updates: Any = per_client()


@config
class UpdateMemoryServer:
    """A server with an update memory: each client's last update y_k, zero before its first.

    `kind` "fedvarp" (Jhunjhunwala et al. 2022, arXiv:2207.14130): the update is sum_k omega_k y_k plus the cohort's
    weighted sum of u_k - y_k, unbiased if the weights are, and without variance if updates repeat. "mifa" (Gu et
    al. 2021, arXiv:2106.04159, where all clients take part in the first round): sum_k omega_k y_k with the
    cohort's new updates, whatever the weights; biased towards the past. An empty cohort does not change the memory.
    Of a client that trained twice, the later update is stored.
    """

    State: ClassVar[type] = UpdateMemory
    remembers: ClassVar[bool] = True
    kind: str = choice_field("fedvarp", "mifa")
    rate: float = float_field(1.0, 0)

    def combine(self, clients, weights, updates, omega, state: UpdateMemory):
        """Return the aggregated update [P] of the cohort's `updates` [m, P]; the memory is updated in place.

        `omega` [N] is each client's weight in the objective: its share of the data, or 1/N.
        """
        if state.updates is None:
            state.updates = updates.new_zeros((len(omega), updates.shape[1]))
        last = state.updates
        update = omega @ last + weights @ (updates - last[clients])
        # In order, so that of a client that occurs twice the later update is stored.
        for k, new in zip(clients, updates, strict=True):
            last[k] = new
        # `last` is the new memory by now, `update` is from the old one. MIFA: the mean of the new memory. FedVARP: the mean
        # of the old memory, corrected by the cohort.
        return omega @ last if self.kind == "mifa" else update

    def step(self, params, update, state=None):
        """Return the next parameters [P]."""
        return params + self.rate * update


@dataclass
class ClusterMemory:
    """The cluster of each client, int tensor [N], and the last mean update of each cluster [H, P]; None before the
    first round."""

    labels: Any = per_client()
    updates: Any = None


@config
class ClusterMemoryServer:
    """A server with a memory of each cluster's last mean update y_h, zero before its first: ClusterFedVARP
    (Jhunjhunwala et al. 2022, arXiv:2207.14130), whose memory does not grow with the number of clients.

    The update is sum_k omega_k y_h(k) plus the cohort's weighted sum of u_k - y_h(k), unbiased if the weights are; y_h
    becomes the mean of the new updates of its participants, and stays where it has none. The paper takes the clusters as
    given. Of it the abstract was read, and an independent implementation of its pseudocode, which is this for omega_k =
    1/N and weights 1/m. Here the clusters are at most `strata` strata by k-means of gradients with `levels` levels at w_0
    (FedSTaS, Algorithm 2), for which all clients are asked once. Where each stratum of the same clusters has a weight of
    its own, y_h cancels.
    """

    State: ClassVar[type] = ClusterMemory
    remembers: ClassVar[bool] = True
    clusters: ClassVar[bool] = True
    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    rate: float = float_field(1.0, 0)

    def assign(self, view, rng):
        """Return the cluster of each client, int array [N], from the squeezed gradients that the view gives."""
        features = restored_features(view.gradients(self.levels))
        return stratify(features, min(self.strata, view.clients), draw_kmeans_seed(rng))

    def combine(self, clients, weights, updates, omega, state: ClusterMemory):
        """Return the aggregated update [P] of the cohort's `updates` [m, P]; the memory is updated in place."""
        labels, count = state.labels, int(state.labels.max()) + 1
        if state.updates is None:
            state.updates = updates.new_zeros((count, updates.shape[1]))
        last, own = state.updates, labels[clients]
        shares = updates.new_zeros(count).index_add_(0, labels, omega)
        update = shares @ last + weights @ (updates - last[own])
        for h in own.unique():
            last[h] = updates[own == h].mean(0)
        return update

    def step(self, params, update, state=None):
        """Return the next parameters [P]."""
        return params + self.rate * update


@dataclass
class ControlVariates:
    """Each client's control variate c_k [N, P], which the client itself keeps; None before the first round."""

    clients: Any = per_client()


@config
class Scaffold:
    """SCAFFOLD with option II (Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1).

    Each local step of client k adds c - c_k to its gradient, where c = sum_k omega_k c_k (the paper's mean for equal
    omega, whose server adds 1/N times the sum of the cohort's changes of c_k). After them c_k becomes the mean of the
    gradients of these steps, c_k - c - u_k / (lr steps). A participant downloads c beside w_t and sends the change of c_k
    beside its model: twice the traffic, both ways. With unbiased weights the mean update over cohorts is that of all
    clients, and for one local step, since sum_k omega_k (c - c_k) = 0, a gradient step on all data. Of the paper the
    abstract was read, and code of others; option I, where c_k is the gradient of all the client's data at w_t, is left out.
    """

    State: ClassVar[type] = ControlVariates
    remembers: ClassVar[bool] = True
    corrects: ClassVar[bool] = True
    rate: float = float_field(1.0, 0)

    def corrections(self, clients, omega, state: ControlVariates):
        """Return c - c_k [m, P] of these clients; None before the first round, where all are zero."""
        c = state.clients
        return None if c is None else omega @ c - c[clients]

    def combine(self, clients, weights, updates, omega, state: ControlVariates, lengths):
        """Return the aggregated update [P] of the cohort's `updates` [m, P]; control variates are updated in place.

        `lengths` [m] are learning rates times numbers of local steps; who made no step keeps its control variate.
        """
        if state.clients is None:
            state.clients = updates.new_zeros((len(omega), updates.shape[1]))
        c, trained = state.clients, lengths > 0
        new = c[clients] - omega @ c - updates / (lengths + ~trained)[:, None]
        for k, value in zip(clients[trained], new[trained], strict=True):
            c[k] = value
        return weights @ updates

    def step(self, params, update, state=None):
        """Return the next parameters [P]."""
        return params + self.rate * update


@config
class NormalisedAverage:
    """FedNova (Wang et al. 2020, arXiv:2007.07481): w_{t+1} = w_t + rate tau sum_i weights_i u_i / tau_i, where
    tau = sum_i weights_i tau_i and tau_i is the number of local steps of participant i.

    It is `Average` where all have as many steps. With momentum or FedProx, tau_i is what the paper calls ||a_i||_1 (see
    `LocalSGD.lengths`). The authors' code, all that was read of the paper, agrees but for FedProx, where its tau counts
    steps instead, so that the whole update is longer by one factor. For m draws with replacement, p_k = omega_k and
    weights 1/m, the mean update is (1 - 1/m) times that of all clients, tau sum_k omega_k u_k / tau_k, plus 1/m times
    FedAvg's sum_k omega_k u_k.
    """

    normalises: ClassVar[bool] = True
    rate: float = float_field(1.0, 0)

    def normalise(self, weights, lengths):
        """Return the weights [m] of updates, for learning rates times numbers of local steps [m]; without any step an
        update is zero, and has any weight."""
        return (weights @ lengths) * weights / (lengths + (lengths == 0))

    def step(self, params, update, state=None):
        """Return the next parameters [P]; no state is needed."""
        return params + self.rate * update


@dataclass
class Velocity:
    """The velocity v [P] of a server with momentum, None before its first step."""

    v: Any = None


@config
class ServerMomentum:
    """FedAvgM (Hsu et al. 2019, arXiv:1909.06335): v_t = beta v_{t-1} + update and w_{t+1} = w_t + rate v_t."""

    State: ClassVar[type] = Velocity
    rate: float = float_field(1.0, 0)
    beta: float = float_field(0.9, 0, 1, open_low=False, open_high=True)

    def step(self, params, update, state: Velocity):
        """Return the next parameters [P]; the velocity is updated in place."""
        state.v = update if state.v is None else self.beta * state.v + update
        return params + self.rate * state.v
