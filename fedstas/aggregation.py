"""Weights of a cohort and what the server does with the weighted update (FedSTaS, eq. 2.3 and 6).

Weights are applied to *updates* w_k - w_t. Where they sum to one this equals averaging models;
where they do not (unbiased designs) averaging models would scale the model itself.
Works on numpy arrays and on torch tensors alike.
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
    """n_k over the total of the cohort (McMahan et al., FederatedAveraging)."""
    sizes = rescale_exponent(as_float_array("client sizes", sizes, 0))[0]
    if not sizes.any():
        raise InputError("the clients of the cohort have no examples: their weights are 0/0")
    return sizes / sizes.sum()


def expansion_weights(omega, clients: int) -> np.ndarray:
    """N / m omega_k (FedSTaS, eq. 2.3): unbiased for uniform draws, on updates only."""
    omega = as_float_array("omega", omega, 0)
    return check_int("the number of clients", clients, 1, MAX_COUNT) / len(omega) * omega


def stratum_weights(sizes, allocation) -> np.ndarray:
    """N_h / (N m_h) for each stratum [H] (eq. 6): the weight of each of its m_h participants.

    `InputError` where a stratum has clients and no participant; 0 for one that has neither.
    """
    sizes, seats = (
        as_float_array("stratum sizes", sizes, 0),
        as_int_array("the allocation", allocation),
    )
    check_same_shape("sizes and allocation", sizes, seats)
    if (seats[sizes > 0] == 0).any() or not sizes.any():
        raise InputError("every stratum with clients needs a participant, and one must have some")
    return sizes / (sizes.sum() * np.maximum(seats, sizes == 0))


def hansen_hurwitz(omega, selection, draws) -> np.ndarray:
    """omega_k / (m_h p_k) for each draw: unbiased with replacement, whatever p > 0 is."""
    omega, p = (
        as_float_array("omega", omega, 0),
        as_float_array("selection probabilities", selection, 0),
    )
    draws = as_float_array("draws", draws, 0, ndim=None)
    check_same_shape("omega, selection and draws", omega, p, *([draws] if draws.ndim else []))
    if not (draws * p).all():
        raise InputError("each client drawn needs a selection probability and draws above 0")
    return omega / (draws * p)


def aggregate(params, models, weights):
    """The update sum_i weights_i (w_i - w_t), [P], from models [m, P] and w_t [P]."""
    return weights @ (models - params)


@dataclass
class Moments:
    """The moments m and v [P] of an adaptive server, None before its first step."""

    m: Any = None
    v: Any = None


@config
class Adaptive:
    """Server Adam, Yogi or Adagrad on the aggregated update (Reddi et al. 2021, Algorithm 2).

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
        """The next parameters [P]; the moments are updated in place."""
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
        """The next parameters [P]; it remembers nothing."""
        return params + self.rate * update


@dataclass
class UpdateMemory:
    """Each client's last update y [N, P], None before the first round."""

    updates: Any = per_client()


@config
class UpdateMemoryServer:
    """A server that keeps each client's last update y_k, zero before its first.

    `kind` "fedvarp" (Jhunjhunwala et al. 2022): sum_k omega_k y_k plus the cohort's weighted sum of u_k - y_k,
    unbiased wherever the weights are, and without variance where updates repeat. "mifa" (Gu et al. 2021, who
    let all take part in the first round): sum_k omega_k y_k once the cohort's are new, whatever the weights:
    biased towards the past. An empty cohort leaves what is remembered. Of a client that trained twice the
    last is kept.
    """

    State: ClassVar[type] = UpdateMemory
    remembers: ClassVar[bool] = True
    kind: str = choice_field("fedvarp", "mifa")
    rate: float = float_field(1.0, 0)

    def combine(self, clients, weights, updates, omega, state: UpdateMemory):
        """The aggregated update [P] of the cohort's `updates` [m, P]; the memory is updated in place."""
        if state.updates is None:
            state.updates = updates.new_zeros((len(omega), updates.shape[1]))
        last = state.updates
        update = omega @ last + weights @ (updates - last[clients])
        for k, own in zip(clients, updates, strict=True):  # in order: one that is there twice, too
            last[k] = own
        return omega @ last if self.kind == "mifa" else update

    def step(self, params, update, state=None):
        """The next parameters [P]."""
        return params + self.rate * update
