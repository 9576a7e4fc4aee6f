"""Weights of a cohort and what the server does with the weighted update (FedSTaS, eq. 2.3 and 6).

Weights are applied to *updates* w_k - w_t. Where they sum to one this equals averaging models;
where they do not (unbiased designs) averaging models would scale the model itself.
Works on numpy arrays and on torch tensors alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def cohort_weights(sizes) -> np.ndarray:
    """n_k over the total of the cohort (McMahan et al., FederatedAveraging)."""
    sizes = np.asarray(sizes, dtype=float)
    return sizes / sizes.sum()


def expansion_weights(omega, clients: int) -> np.ndarray:
    """N / m omega_k (FedSTaS, eq. 2.3): unbiased for uniform draws, on updates only."""
    omega = np.asarray(omega, dtype=float)
    return clients / len(omega) * omega


def stratum_weights(sizes, allocation) -> np.ndarray:
    """N_h / (N m_h) for each stratum [H] (eq. 6): the weight of each of its m_h participants."""
    sizes, allocation = np.asarray(sizes, dtype=float), np.asarray(allocation)
    return sizes / (sizes.sum() * allocation)


def hansen_hurwitz(omega, selection, draws) -> np.ndarray:
    """omega_k / (m_h p_k) for each draw: unbiased with replacement, whatever p > 0 is."""
    return np.asarray(omega, dtype=float) / (np.asarray(draws) * np.asarray(selection, dtype=float))


def aggregate(params, models, weights):
    """The update sum_i weights_i (w_i - w_t), [P], from models [m, P] and w_t [P]."""
    return weights @ (models - params)


@dataclass(frozen=True)
class Average:
    """w_{t+1} = w_t + rate times the aggregated update: FedAvg's server for rate 1."""

    rate: float = 1.0

    def step(self, params, update, state: dict):
        """The next parameters [P]; `state` is kept from round to round."""
        return params + self.rate * update
