"""Aggregation weights of a cohort, and server optimisers (FedSTaS, eq. 2.3 and 6).

Weights are applied to *updates* w_k - w_t. If they sum to one this equals averaging models; if they do not (unbiased
designs), averaging models would scale the model itself. Works on numpy arrays and on torch tensors alike.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedstas.arrays import (
    MAX_COUNT,
    as_float_array,
    as_int_array,
    check_same_shape,
    rescale_exponent,
)
from fedstas.config import choice_field, config, float_field
from fedstas.errors import InputError, check_int
from fedstas.state import per_client


def cohort_weights(sizes) -> np.ndarray:
    """Return n_k over the cohort's total [m] (FedAvg: McMahan et al. 2017, arXiv:1602.05629)."""
    sizes = rescale_exponent(as_float_array("client sizes", sizes, 0))[0]
    if not sizes.any():
        raise InputError("the clients of the cohort have no examples: one must have some")
    return sizes / sizes.sum()


def expansion_weights(omega, clients: int) -> np.ndarray:
    """Return N / m omega_k [m] (FedSTaS, eq. 2.3): unbiased for uniform draws, on updates only."""
    omega = as_float_array("omega", omega, 0)
    return check_int("the number of clients", clients, 1, MAX_COUNT) / len(omega) * omega


def stratum_weights(sizes, allocation) -> np.ndarray:
    """Return N_h / (N m_h) [H] (FedSTaS, eq. 6), the weight of each of the m_h participants of a stratum.

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
    return sizes / (sizes.sum() * np.maximum(draws, sizes == 0))


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
    """
    new = (1 - beta) / (1 - beta**t)
    return params if t == 1 else (1 - new) * average + new * params


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
        """Return the aggregated update [P] of the cohort's `updates` [m, P]; the memory is updated in place."""
        if state.updates is None:
            state.updates = updates.new_zeros((len(omega), updates.shape[1]))
        last = state.updates
        update = omega @ last + weights @ (updates - last[clients])
        for k, new in zip(
            clients, updates, strict=True
        ):  # in order, for a client that occurs twice
            last[k] = new
        return omega @ last if self.kind == "mifa" else update

    def step(self, params, update, state=None):
        """Return the next parameters [P]."""
        return params + self.rate * update
