"""The moving pictures: their data, their still figures, and what this package computes for the same inputs.

`companion.pages.explorer` puts them beside the other interactive demos. The scripts in `book/_ext/instruments/` read
these data and compute in the page; a page and the tests compare their answers with those of the functions here.
"""

from __future__ import annotations

from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from companion.pages import plots
from fedstas import least_variance, stratification
from fedstas.sim import engine, models
from fedstas.sim.rng import stream
from fedstas.theory import least_variance as theory

# The federation that trains: twelve clients, four classes in the plane.
CLIENT_SIZES = (28, 24, 20, 20, 16, 16, 12, 12, 12, 8, 8, 8)
OWN_CLASSES = (0, 1, 2, 3) * 3  # of which a client holds most
CENTRES = ((0.9, 0.75), (-0.9, 0.75), (-0.9, -0.75), (0.9, -0.75))
SPREAD = 0.42  # standard deviation of the examples of a class
STEPS, LR, PARTICIPANTS, ROUNDS = 5, 2.0, 4, 60
CLASS_COLOURS = (plots.ORANGE, plots.SKY, "#7A5C1E", "#5D4A8C")
CLASS_MARKS = ("o", "s", "^", "D")
# The clients that a reader drags between groups: examples, and updates in the plane.
DRAGGED_SIZES = (30, 20, 10, 20, 30, 10, 20, 20, 40)
DRAGGED_UPDATES = (
    (0.95, 0.25),
    (0.8, -0.1),
    (0.7, 0.55),
    (-0.75, 0.6),
    (-0.5, 0.95),
    (-0.95, 0.2),
    (-0.35, -0.9),
    (0.1, -0.75),
    (0.2, 0.1),
)
DRAGGED_START = (0, 1, 2, 0, 1, 2, 0, 1, 2)
GROUPS = 3
# The clients that four designs draw from.
DRAWN_CLIENTS, DRAWS = 12, 4


def list_orders(q) -> list[list[int]]:
    """List the orders in which `max_cut_strata` places clients of masses q, so that a script can repeat the search."""
    return [k.tolist() for k in least_variance.search_orders(np.asarray(q), least_variance.STARTS)]


def omega_of_clients() -> np.ndarray:
    """Return the shares of the examples that the clients hold [N]."""
    return np.array(CLIENT_SIZES) / sum(CLIENT_SIZES)


@lru_cache
def train_data() -> dict:
    """Return the data of the federation that trains.

    An example is a number in [0, 1), a class, and its distance from the centre of its class. It has the class of its
    client if the number is below the heterogeneity, and else that class.
    """
    rng = stream(5, "moving picture")
    examples = [
        [
            [
                round(float(rng.random()), 3),
                int(rng.integers(len(CENTRES))),
                *(SPREAD * rng.normal(size=2)).round(3).tolist(),
            ]
            for _ in range(n)
        ]
        for n in CLIENT_SIZES
    ]
    return {
        "sizes": CLIENT_SIZES,
        "own": OWN_CLASSES,
        "centres": CENTRES,
        "examples": examples,
        "orders": list_orders(CLIENT_SIZES),
        "steps": STEPS,
        "lr": LR,
        "m": PARTICIPANTS,
        "rounds": ROUNDS,
    }


def client_examples(heterogeneity: float) -> tuple[np.ndarray, np.ndarray]:
    """Return all examples x [n, 2] and their classes y [n], client after client, at a heterogeneity of 0 to 1."""
    pairs = zip(train_data()["examples"], OWN_CLASSES, strict=True)
    rows = [
        (own if u < heterogeneity else other, dx, dy)
        for examples, own in pairs
        for u, other, dx, dy in examples
    ]
    y = np.array([row[0] for row in rows])
    return np.array(CENTRES)[y] + np.array([row[1:] for row in rows]), y


class PlaneFederation:
    """The clients at a heterogeneity, with the simulator's arithmetic in double precision."""

    def __init__(self, heterogeneity: float):
        self.x, self.y = client_examples(heterogeneity)
        ends = np.cumsum(CLIENT_SIZES)
        self.shards = [np.arange(e - n, e) for n, e in zip(CLIENT_SIZES, ends, strict=True)]
        tensors = torch.from_numpy(self.x), torch.from_numpy(self.y)
        self.pool = engine.pool(*tensors, self.shards)
        self.module = models.Linear(2, len(CENTRES)).double()
        self.start = torch.zeros_like(models.flatten(self.module))

    def updates(self, model: torch.Tensor) -> torch.Tensor:
        """Return what each client sends from a model, float64 [N, P]: STEPS steps on all its examples."""
        batch = max(CLIENT_SIZES)
        idx = np.zeros((len(self.shards), STEPS, batch), dtype=np.int64)
        weight = np.zeros(idx.shape)
        for k, rows in enumerate(self.shards):
            idx[k, :, : len(rows)], weight[k, :, : len(rows)] = rows, 1 / len(rows)
        return engine.local_updates(self.module, model, self.pool, idx, weight, lr=LR) - model

    def gradients(self) -> np.ndarray:
        """Return the gradient of each client at the first model [N, P]."""
        parts = engine.client_gradients(self.module, self.start, self.pool)
        return np.stack([np.asarray(part, dtype=float) for part in parts])

    def strata(self, m: int) -> np.ndarray:
        """Return the least-variance stratum of each client [N], from the gradients at the first model."""
        z = self.gradients()
        return least_variance.max_cut_strata(omega_of_clients(), z, np.square(z).sum(1), m)

    def loss(self, model: torch.Tensor) -> float:
        """Return the mean loss on the examples of all clients."""
        return engine.evaluate(self.module, model, self.pool.x, self.pool.y)[0]


def train_all(heterogeneity: float, m: int, rounds: int) -> dict:
    """Train with all clients for some rounds; return the strata, and at the end the loss and the variances of a round.

    `least` is the variance of one draw from each of m least-variance strata, `md` that of MD sampling.
    """
    federation, omega = PlaneFederation(heterogeneity), omega_of_clients()
    model = federation.start
    for _ in range(rounds):
        model = model + torch.from_numpy(omega) @ federation.updates(model)
    u, labels = federation.updates(model).numpy(), federation.strata(m)
    rows = theory.rows_of_strata(omega, labels)
    md = np.tile(omega / m, (m, 1)), np.tile(omega, (m, 1))
    return {
        "labels": labels.tolist(),
        "least": theory.variance_of(*rows, u @ u.T),
        "md": theory.variance_of(*md, u @ u.T),
        "loss": federation.loss(model),
    }


def train_test_cases() -> dict:
    """Return inputs of the script's function with this package's answers."""
    inputs = [(1.0, PARTICIPANTS, 0), (1.0, 3, 4), (0.6, 5, 2), (0.0, 2, 1)]
    return {"trained": (train_all, inputs)}


def draw_train() -> Figure:
    """Draw twelve rounds of the federation: the regions under both designs, and their losses."""
    federation, omega = PlaneFederation(1.0), omega_of_clients()
    labels, rng = federation.strata(PARTICIPANTS), stream(4, "moving picture, still")
    runs = {name: [federation.start] for name in ("md", "least", "all")}
    for _ in range(12):
        for name, path in runs.items():
            weights = np.zeros(len(omega))
            if name == "md":
                weights = rng.multinomial(PARTICIPANTS, omega) / PARTICIPANTS
            elif name == "all":
                weights = omega
            else:
                for h in range(PARTICIPANTS):
                    total = omega[labels == h].sum()
                    weights[rng.choice(len(omega), p=omega * (labels == h) / total)] = total
            path.append(path[-1] + torch.from_numpy(weights) @ federation.updates(path[-1]))
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.9))
    titles = {"md": "MD sampling", "least": "least-variance strata", "all": "all clients"}
    colours = {"md": plots.PINK, "least": plots.BLACK, "all": plots.GREY}
    grid = np.stack(np.meshgrid(*[np.linspace(-2.2, 2.2, 200)] * 2), -1)
    for ax, name in zip(axes, ("md", "least"), strict=False):
        weights = models.unflatten(federation.module, runs[name][-1])
        scores = grid @ weights["output.weight"].numpy().T + weights["output.bias"].numpy()
        options = {"levels": np.arange(-0.5, 4), "colors": CLASS_COLOURS, "alpha": 0.25}
        ax.contourf(*np.moveaxis(grid, -1, 0), scores.argmax(-1), **options)
        for c, (colour, marker) in enumerate(zip(CLASS_COLOURS, CLASS_MARKS, strict=True)):
            points = federation.x[federation.y == c].T
            ax.scatter(*points, s=9, color=colour, marker=marker, lw=0)
        ax.set(xticks=[], yticks=[], title=titles[name])
    for name in ("all", "md", "least"):
        losses = [federation.loss(model) for model in runs[name]]
        style = "-." if name == "all" else "-"
        axes[2].plot(losses, color=colours[name], ls=style, label=titles[name])
    axes[2].set(xlabel="rounds", title="loss, all clients' examples", ylim=(0, 1.5))
    axes[2].legend(fontsize="x-small")
    return figure


def drag_data() -> dict:
    """Return the clients that a reader drags between groups, and where they begin."""
    return {
        "sizes": DRAGGED_SIZES,
        "updates": DRAGGED_UPDATES,
        "start": DRAGGED_START,
        "m": GROUPS,
        "orders": list_orders(DRAGGED_SIZES),
    }


def compute_grouping(labels, m: int) -> dict:
    """Compute the variance of one draw from each group, by group; of MD sampling; and of the groups that the search finds."""
    omega = np.array(DRAGGED_SIZES) / sum(DRAGGED_SIZES)
    u = np.array(DRAGGED_UPDATES)
    gram = u @ u.T

    def variance(groups) -> float:
        """Return the variance of one draw from each group."""
        numbers = np.unique(groups, return_inverse=True)[1]  # without gaps
        return theory.variance_of(*theory.rows_of_strata(omega, numbers), gram)

    # Of one group alone: all other clients are in groups of their own, which add nothing.
    alone = [[-1 if h == j else k for k, h in enumerate(labels)] for j in range(m)]
    best_labels = least_variance.max_cut_strata(omega, u, np.square(u).sum(1), m)
    md = np.tile(omega / m, (m, 1)), np.tile(omega, (m, 1))
    return {
        "parts": [variance(groups) for groups in alone],
        "variance": variance(labels),
        "md": theory.variance_of(*md, gram),
        "searched": variance(best_labels),
    }


def drag_test_cases() -> dict:
    """Return inputs of the script's function with this package's answers."""
    inputs = [
        (DRAGGED_START, GROUPS),
        ((0,) * 9, 3),
        ((0, 0, 0, 1, 1, 1, 2, 2, 2), 3),
        ((0, 1) * 4 + (0,), 2),
    ]
    return {"grouping": (compute_grouping, inputs)}


def draw_drag() -> Figure:
    """Draw the clients with the pairs inside groups, first as they begin, then as the search groups them."""
    omega, u = np.array(DRAGGED_SIZES) / sum(DRAGGED_SIZES), np.array(DRAGGED_UPDATES)
    d = np.array(theory.pair_weights(omega, u), dtype=float)
    best_labels = least_variance.max_cut_strata(omega, u, np.square(u).sum(1), GROUPS)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.6))
    md = d.sum() / 2 / GROUPS
    for ax, labels, title in zip(
        axes,
        (np.array(DRAGGED_START), best_labels),
        ("some groups", "least-variance strata"),
        strict=True,
    ):
        inside = d * (labels[:, None] == labels)
        for k, j in zip(*np.nonzero(np.triu(inside, 1)), strict=True):
            ax.plot(
                *u[[k, j]].T, color=plots.GREY, alpha=0.6, lw=0.5 + 8 * d[k, j] / d.max(), zorder=1
            )
        for h in range(GROUPS):
            size, colour = 1600 * omega[labels == h], CLASS_COLOURS[h]
            ax.scatter(*u[labels == h].T, s=size, color=colour, marker=CLASS_MARKS[h], zorder=2)
        share = inside.sum() / 2 / md
        ax.set(
            xticks=[],
            yticks=[],
            title=f"{title}: {100 * share:.0f} % of MD's variance",
            xlim=(-1.25, 1.25),
            ylim=(-1.25, 1.25),
        )
    return figure


@lru_cache
def draws_data() -> dict:
    """Return twelve clients, and four designs of four draws each.

    The clients and their updates are drawn at random: `asked` are the updates that the server asked about before it
    formed strata, `later` the ones that they turn into. Of each design there are the contributions x and the chances p of its
    draws [m, N], as `theory.least_variance` has them, and the strata (None: each draw is from all clients). Corrected
    FedSTaS draws from k-means strata with p_k in proportion to n_k times the length of the update.
    """
    rng = stream(0, "moving picture, draws")
    sizes = np.sort((10 * np.exp(0.7 * rng.normal(size=DRAWN_CLIENTS))).round() + 2)[::-1]
    asked, later = (
        (0.6 * rng.normal(size=(DRAWN_CLIENTS, 2)).clip(-1.8, 1.8)).round(2) for _ in range(2)
    )
    omega, m = sizes / sizes.sum(), DRAWS
    kmeans = stratification.stratify(asked, m, 0)
    least = least_variance.max_cut_strata(omega, asked, np.square(asked).sum(1), m)
    everybody = np.tile(omega / m, (m, 1)), np.tile(omega, (m, 1))
    by_norm = theory.rows_of_strata(omega, kmeans, omega * np.linalg.norm(asked, axis=1))
    designs = (
        ("md", "MD sampling", everybody, None),
        ("kmeans", "k-means strata", theory.rows_of_strata(omega, kmeans), kmeans.tolist()),
        ("should", "corrected FedSTaS", by_norm, kmeans.tolist()),
        ("least", "least-variance strata", theory.rows_of_strata(omega, least), least.tolist()),
    )
    return {
        "omega": omega.tolist(),
        "asked": asked.tolist(),
        "later": later.tolist(),
        "designs": [
            {
                "kind": kind,
                "title": title,
                "x": np.asarray(x, dtype=float).tolist(),
                "p": np.asarray(p, dtype=float).tolist(),
                "groups": groups,
            }
            for kind, title, (x, p), groups in designs
        ],
    }


def updates_after(change: float) -> np.ndarray:
    """Return the updates of a round [N, 2], after a part of what the server asked about has changed: 0 nothing, 1 all."""
    asked, later = (np.array(draws_data()[key]) for key in ("asked", "later"))
    return np.sqrt(1 - change**2) * asked + change * later


def round_variance(x, p, change: float) -> float:
    """Return the variance of a round with contributions x and chances p of the draws [m, N], at a change of the updates."""
    u = updates_after(change)
    return theory.variance_of(x, p, u @ u.T)


def draws_test_cases() -> dict:
    """Return inputs of the script's function with this package's answers."""
    designs = draws_data()["designs"]
    inputs = [(d["x"], d["p"], change) for d in designs for change in (0.0, 0.6)]
    return {"roundVariance": (round_variance, inputs)}


def draw_draws() -> Figure:
    """Draw the estimates of 400 rounds of each design around the update of all clients, with the exact root mean square."""
    data, rng = draws_data(), stream(6, "moving picture, draws, still")
    omega, u = np.array(data["omega"]), updates_after(0)
    target = omega @ u
    figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.9))
    colours = {"md": plots.PINK, "kmeans": plots.GREY, "should": plots.CORRECTED}
    for ax, design in zip(axes, data["designs"], strict=True):
        x, p = np.array(design["x"]), np.array(design["p"])
        estimates = np.zeros((400, 2))
        for contributions, chances in zip(x, p, strict=True):
            chosen = rng.choice(len(omega), 400, p=chances / chances.sum())
            estimates += (contributions / np.where(chances > 0, chances, 1))[chosen, None] * u[
                chosen
            ]
        for k, point in enumerate(u):
            h = None if design["groups"] is None else design["groups"][k]
            look = (plots.GREY, "o") if h is None else (CLASS_COLOURS[h], CLASS_MARKS[h])
            ax.scatter(*point, s=1300 * omega[k], color=look[0], marker=look[1], alpha=0.45, lw=0)
        ax.scatter(*estimates.T, s=4, color=colours.get(design["kind"], plots.BLACK), lw=0)
        exact = np.sqrt(round_variance(x, p, 0))
        ax.add_patch(plt.Circle(target, exact, fill=False, ec=plots.BLACK, ls="--", zorder=3))
        ax.plot(*target, "+", ms=9, color=plots.BLACK, zorder=3)
        ax.set(xticks=[], yticks=[], aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25))
        ax.set_title(design["title"], fontsize="small")
        ax.set_xlabel(f"exactly {exact:.2f}")
    return figure
