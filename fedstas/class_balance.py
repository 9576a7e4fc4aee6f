"""Cohorts whose pooled classes are balanced: Fed-CBS (Zhang et al., ICML 2023, arXiv:2209.15245)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.aggregation import cohort_weights
from fedstas.arrays import as_float_array
from fedstas.client_sampling import Cohort, View, check_participants
from fedstas.config import config, float_field
from fedstas.errors import InputError, format_value
from fedstas.state import Renewed, per_client, renewed

LEAST_IMBALANCE = 2.0**-20  # below it, cohorts count as equally balanced


def class_imbalance(counts) -> np.ndarray:
    """Return the quadratic class-imbalance degree (QCID) of label counts [..., classes]: the sum over classes of the
    squared difference of the class's share from 1 / classes. It is 0 for equal counts, 1 - 1/classes for one class.

    Raises:
        InputError: a count is negative or not finite, or all of a client are zero.
    """
    counts = as_float_array("label counts", counts, 0, ndim=None)
    totals = counts.sum(axis=-1, keepdims=True)
    if not totals.all():
        raise InputError(
            f"label counts are {format_value(counts)}: each client must have a count above 0, so leave out who has no "
            "examples"
        )
    shares = counts / totals
    return np.square(shares - 1 / counts.shape[-1]).sum(axis=-1)


@dataclass
class ClassBalanceState:
    """The clients' label counts [N, classes], asked once, and how often each client has been drawn, int [N]."""

    counts: Renewed[np.ndarray] = renewed()
    draws: np.ndarray | None = per_client()


@config
class ClassBalance:
    """Draw m distinct clients one after another, so that their pooled classes are balanced; weights n_k over the
    cohort.

    The i-th client is drawn with probability proportional to QCID^-i, of the clients drawn so far and this one (see
    `class_imbalance`). The first one's QCID^-1 is increased by `exploration` (the paper's lambda) times
    sqrt(3 ln t / (2 T_k)) in round t, T_k one more than the times that the client has been drawn. Biased towards
    clients of many or rare classes. The server knows the clients' label counts, which the paper hides by homomorphic
    encryption: there it sees the products of all pairs of clients alone. The formulas were read in the paper's abstract
    and in two independent implementations, which differ in the first draw (one takes the largest value, the other
    samples), in the exponents and in a denominator: here clients are sampled, with exponents 1, 2, ..., m. Lambda 10
    and T_k from 1 on are theirs, and FedAvg's weights were chosen here.
    """

    needs: ClassVar[tuple[str, ...]] = ("labels",)
    State: ClassVar[type] = ClassBalanceState

    exploration: float = float_field(10.0, 0, open_low=False)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m, state = check_participants(m, view.clients), view.state_of(self)
        counts = state.counts.get(view.round, None, view.label_counts)
        times = np.zeros(view.clients, dtype=np.int64) if state.draws is None else state.draws
        chosen = np.zeros(0, dtype=np.int64)
        for i in range(1, m + 1):
            open_clients = np.setdiff1d(np.arange(view.clients), chosen)
            pooled = counts[chosen].sum(axis=0) + counts[open_clients]
            logs = -i * np.log(np.maximum(class_imbalance(pooled), LEAST_IMBALANCE))
            p = np.exp(logs - logs.max()) if i > 1 else np.exp(logs)
            if i == 1:  # the paper's bonus for clients that were seldom drawn, with its factor 3/2
                bonus = np.sqrt(1.5 * np.log(view.round) / (times[open_clients] + 1))
                p = p + self.exploration * bonus
            chosen = np.append(chosen, rng.choice(open_clients, p=p / p.sum()))
        state.draws = times + np.isin(np.arange(view.clients), chosen)
        return Cohort(chosen, cohort_weights(counts[chosen].sum(axis=1)))
