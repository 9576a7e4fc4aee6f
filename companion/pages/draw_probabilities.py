"""The probability that each draw of a round chooses each client, under four designs: the numbers and the figure.

Chapter 9 shows the figure; the interactive pages use the same federation. Its clients are scikit-learn's digits,
partitioned over thirty clients with one or two classes each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.pages import plots
from fedstas import allocation, methods
from fedstas.sim import one_round, partition, tasks
from fedstas.sim.rng import stream

CLIENTS, CONCENTRATION, PARTICIPANTS, ROUNDS, LR = 30, 0.05, 6, 5, 0.1
MD, KMEANS, CLUSTERED, LEAST_VARIANCE = (  # the panels' titles
    "MD: every draw may choose everyone",
    "k-means strata: some draws for each group",
    "clustered sampling: some clients in two draws",
    "least-variance strata: one draw for each group",
)


class Example(NamedTuple):
    """The example's clients, and the draws of each design.

    Attributes:
        designs: by design, the probability [m, N] that draw j chooses client k.
        omega: the clients' shares of the data [N].
        counts: the clients' examples of each class [N, C].
    """

    designs: dict[str, np.ndarray]
    omega: np.ndarray
    counts: np.ndarray


def probabilities_of_strata(labels, measure, draws) -> np.ndarray:
    """Return the probabilities [m, N] of draws with replacement from each stratum, in proportion to a measure.

    Args:
        labels: the stratum of each client [N].
        measure: what a client's probability is proportional to within its stratum [N].
        draws: how many draws each stratum has [H]; their sum is m.
    """
    strata = np.repeat(np.arange(len(draws)), draws)
    masses = measure * (np.asarray(labels) == strata[:, None])
    return masses / masses.sum(1, keepdims=True)


def probabilities_of_designs(state: one_round.State) -> dict[str, np.ndarray]:
    """Return the probabilities [m, N] of the four designs at a state of a federation.

    The k-means strata are drawn by the corrected method: with replacement, p_k in proportion to n_k |Z_k|, the draws
    allocated by priorities. As written a stratum's draws are distinct, so that the second depends on the first.
    """
    m, omega = state.setup.m, state.omega
    kmeans = corrected_design()
    view = one_round.view_at(state, kmeans)
    labels, measure, _ = kmeans.measure(view, m, stream(0, "one round", 0))
    totals = np.bincount(labels, measure)
    bounds = {"lower": np.ones(len(totals)), "upper": np.full(len(totals), m)}
    draws = allocation.by_priority(totals, m, **bounds)
    clustered = methods.get("clustered-similarity").clients
    least_variance = methods.get("fedstas-least-variance", features="gradients").clients
    strata, q, _ = least_variance.strata(one_round.view_at(state, least_variance), m)
    return {
        MD: np.tile(omega, (m, 1)),
        KMEANS: probabilities_of_strata(labels, measure, draws),
        CLUSTERED: clustered.distributions(one_round.view_at(state, clustered), m),
        LEAST_VARIANCE: probabilities_of_strata(strata, q, np.ones(strata.max() + 1, dtype=int)),
    }


def corrected_design():
    """Return FedSTaS's client design with the corrected estimator, and half as many strata as participants."""
    return methods.get("fedstas-unbiased", strata=PARTICIPANTS // 2).clients


@lru_cache
def example_state(rounds: int = ROUNDS) -> one_round.State:
    """Train the example's federation for some rounds of MD sampling and return its state."""
    task = tasks.load("digits", device="cpu")
    federation = partition.dirichlet(task.train_y, CLIENTS, CONCENTRATION, seed=0)
    local = methods.LocalSGD(lr=LR)
    return one_round.state_after(
        task, federation, rounds=rounds, local=local, clients_per_round=PARTICIPANTS, device="cpu"
    )


@lru_cache
def example() -> Example:
    """Return the example that the figure shows, its clients ordered by their largest class."""
    setup = example_state().setup
    labels = [y.numpy() for _, y in map(setup.data.of, range(len(setup.data.sizes)))]
    counts = np.stack([np.bincount(y, minlength=setup.task.classes) for y in labels])
    order = np.lexsort((-counts.max(1), counts.argmax(1)))
    designs = {name: p[:, order] for name, p in probabilities_of_designs(example_state()).items()}
    return Example(designs, example_state().omega[order], counts[order])


def draw_figure(clients: Example | None = None) -> Figure:
    """Draw a panel for each design: a column for each client, a row for each draw, and a disc whose area is the
    probability that this draw chooses this client."""
    clients = clients or example()
    count, largest_class = len(clients.omega), clients.counts.argmax(1)
    figure, grid = plt.subplots(2, 2, figsize=(plots.WIDE, 3.7), sharex=True)
    axes = grid.ravel()
    for ax, (title, p) in zip(axes, clients.designs.items(), strict=True):
        rows, columns = np.nonzero(p > 1e-9)
        ax.scatter(columns, rows, s=150 * p[rows, columns], color=plots.BLACK, lw=0, zorder=2)
        for k in np.flatnonzero(np.diff(largest_class)):  # where the next class begins
            ax.axvline(k + 0.5, color=plots.GREY, lw=0.5, alpha=0.5)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set(xlim=(-0.7, count - 0.3), ylim=(len(p) - 0.4, -0.6))
        ax.set_yticks(range(len(p)), [str(j + 1) for j in range(len(p))], fontsize="small")
        ax.grid(visible=False, axis="x")
    for ax in grid[:, 0]:
        ax.set_ylabel("draw", fontsize="small")
    ticks = [(np.flatnonzero(largest_class == c).mean(), str(c)) for c in np.unique(largest_class)]
    for ax in grid[1]:
        ax.set_xticks(*zip(*ticks, strict=True))
        ax.set_xlabel("clients, by the digit of which they hold most", fontsize="small")
    return figure
