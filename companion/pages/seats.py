"""Who may be drawn on which seat, by four designs on the same clients: the figure, and its numbers.

The clients are those of scikit-learn's digits, dealt to thirty with one or two classes each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from companion.pages import plots
from fedstas import allocation, methods
from fedstas.sim import one_round, partition, tasks
from fedstas.sim.rng import stream

CLIENTS, CONCENTRATION, SEATS, ROUNDS, LR = 30, 0.05, 6, 5, 0.1
MD, KMEANS, CLUSTERED, CUT = (
    "MD: everyone on every seat",
    "k-means strata: each group on its own seats",
    "clustered sampling: some clients on two seats",
    "strata of least variance: one group a seat",
)


class Seats(NamedTuple):
    """Probabilities [m, N] that seat j draws client k, by design; the clients' shares omega [N], and
    their examples of each class, counts [N, C]."""

    designs: dict[str, np.ndarray]
    omega: np.ndarray
    counts: np.ndarray


def of_strata(labels, measure, seats) -> np.ndarray:
    """Probabilities [m, N] of seats[h] draws with replacement from each stratum, in proportion to the measure."""
    rows = np.repeat(np.arange(len(seats)), seats)
    own = measure * (np.asarray(labels) == rows[:, None])
    return own / own.sum(1, keepdims=True)


def of_state(state: one_round.State) -> dict[str, np.ndarray]:
    """The four designs' probabilities at a state of a federation.

    k-means strata are the corrected ones: with replacement, p_k in proportion to n_k |Z_k|, seats by
    priorities. As written the draws are distinct, so that a stratum's second seat depends on the first.
    """
    m, omega = state.setup.m, state.omega
    asked = one_round.view_at(state, corrected()), m, stream(0, "one round", 0)
    labels, measure, _ = corrected().measure(*asked)
    totals = np.bincount(labels, measure)
    seats = allocation.by_priority(
        totals, m, lower=np.ones(len(totals)), upper=np.full(len(totals), m)
    )
    clustered = methods.get("clustered-similarity").clients
    cut = methods.get("fedstas-least-variance").clients
    least, q, _ = cut.strata(one_round.view_at(state, cut), m)
    return {
        MD: np.tile(omega, (m, 1)),
        KMEANS: of_strata(labels, measure, seats),
        CLUSTERED: clustered.distributions(one_round.view_at(state, clustered), m),
        CUT: of_strata(least, q, np.ones(least.max() + 1, dtype=int)),
    }


def corrected():
    """FedSTaS's design over clients with the estimator corrected, and half as many strata as seats."""
    return methods.get("fedstas-unbiased", strata=SEATS // 2).clients


@lru_cache
def state(rounds: int = ROUNDS) -> one_round.State:
    """The example's federation after so many rounds of MD."""
    task = tasks.load("digits", device="cpu")
    held = partition.dirichlet(task.train_y, CLIENTS, CONCENTRATION, seed=0)
    local = methods.LocalSGD(lr=LR)
    return one_round.state_after(
        task, held, rounds=rounds, local=local, clients_per_round=SEATS, device="cpu"
    )


@lru_cache
def worked() -> Seats:
    """The example that is drawn: its clients stand by their largest class."""
    setup = state().setup
    classes = [setup.data.of(k)[1].numpy() for k in range(len(setup.data.sizes))]
    shares = np.stack([np.bincount(y, minlength=setup.task.classes) for y in classes])
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    designs = {name: p[:, order] for name, p in of_state(state()).items()}
    return Seats(designs, state().omega[order], shares[order])


def draw(seats: Seats | None = None):
    """Four panels, one under the other: a column for each client, a row for each seat, and a disc whose
    area is the chance that this seat draws this client."""
    seats = seats or worked()
    count, main = len(seats.omega), seats.counts.argmax(1)
    figure, axes = plt.subplots(4, 1, figsize=(4.2, 6.6), sharex=True)
    for ax, (title, p) in zip(axes, seats.designs.items(), strict=True):
        rows, columns = np.nonzero(p > 1e-9)
        ax.scatter(columns, rows, s=150 * p[rows, columns], color=plots.BLACK, lw=0, zorder=2)
        for k in np.flatnonzero(np.diff(main)):  # where the next class begins
            ax.axvline(k + 0.5, color=plots.GREY, lw=0.5, alpha=0.5)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set(xlim=(-0.7, count - 0.3), ylim=(len(p) - 0.4, -0.6))
        ax.set_yticks(range(len(p)), [str(j + 1) for j in range(len(p))], fontsize="small")
        ax.set_ylabel("seat", fontsize="small")
        ax.grid(visible=False, axis="x")
    middle = [(np.flatnonzero(main == c).mean(), str(c)) for c in np.unique(main)]
    axes[-1].set_xticks(*zip(*middle, strict=True))
    axes[-1].set_xlabel("clients, by the digit that they hold most of")
    return figure
