"""What the instruments are made of: data computed beforehand, the figures that the page `Explorer` shows
without scripts, and cases by which their scripts are held against this package."""

from __future__ import annotations

import json
import math
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from companion.pages import draw_probabilities, plots
from companion.runs.atomic import write
from fedstas import allocation, compression, privacy, stratification, theory
from fedstas.errors import InputError
from fedstas.sim import engine, models, one_round
from fedstas.sim.rng import stream

EPSILONS = (0.5, 1, 2, 3, 4, 5, 6, 8)
CAPS = (3, 5, 10, 20, 50, 100, 200, 700)
REPORTS = 40  # of the attack; the composed epsilon is computed by the script
SIZES, SPREADS, SEATS = (40, 30, 20, 10), (1.0, 2.0, 4.0, 3.5), 10
SETTING = {"size": 600, "cap": 100, "epsilon": 3.0, "m": 10}
DELTA = 1e-5
ROUNDS = 99
MOST_LEVELS, MOST_STRATA = 16, 8
LEVELS, STRATA = 9, 4  # where the sliders begin
CLIENT, ENTRIES = 0, 510  # whose gradient is squeezed, and how many of it: those of the last layer
COIN = {"size": 40, "cap": 100, "epsilon": 3.0}
VALUES = (
    -1.0,
    -0.5,
    0.5,
    1.0,
    2.0,
    4.0,
)  # six clients' updates in one direction; norms are their lengths
NORMS = tuple(map(abs, VALUES))
ROUND = 2  # of them drawn in a round
PLATE = {"fc": "white", "ec": "none", "pad": 1.5}  # behind words on a map
FIGURES = ("squeeze", "strata", "allocation", "bias", "coin", "estimate", "privacy")
LARGEST = 500_000  # bytes of the page's data


def seats(sizes, spreads, m: int) -> dict:
    """Return the four allocations, and the variance of the stratified mean under each (None: infinite)."""
    allocations = {"proportional": allocation.proportional(sizes, m)}
    try:
        printed = allocation.neyman_real(sizes, spreads, m)
        allocations |= {"printed": printed, "rounded": allocation.largest_remainder(printed, m)}
    except InputError:  # all spreads are 0: eq. 3.5 is 0/0
        allocations |= {"printed": None, "rounded": None}
    allocations["optimal"] = allocation.neyman(sizes, spreads, m)
    rows = {}
    for name, draws in allocations.items():
        value = None
        if draws is not None:
            value = float(theory.allocation_variance(sizes, spreads, draws.tolist()))
        finite = value is not None and math.isfinite(value)
        rows[name] = {
            "seats": None if draws is None else draws.tolist(),
            "variance": value if finite else None,
        }
    return rows


def estimate(size: int, cap: int, epsilon: float, m: int) -> dict:
    """The size estimate of m clients of one size: alpha, mean, sd, P(not positive), rate, some of its law."""
    alpha = privacy.truth_probability(epsilon, cap)
    values, chances = theory.size_estimator_distribution([size] * m, cap, alpha)
    mean = float(values @ chances)
    places = np.linspace(0, len(values) - 1, 7).astype(int)
    return {
        "alpha": alpha,
        "mean": mean,
        "sd": math.sqrt(float((values - mean) ** 2 @ chances)),
        "not_positive": float(chances[values <= 0].sum()),
        "rate": theory.estimated_rate([size] * m, cap, alpha, size * m / 10).mean,
        "values": values[places].tolist(),
        "chances": chances[places].tolist(),
    }


def squeezed(levels: int) -> dict:
    """What so many levels keep of the gradient, their bits, and how many entries go to each."""
    squeezed_gradient = compression.squeeze(gradient(), levels)
    entries = gradient().astype(float)  # or the sums would be of single precision
    lost = np.square(entries - squeezed_gradient.restore()[0].astype(float)).sum()
    return {
        "kept": 1 - float(lost / np.square(entries).sum()),
        "bits": squeezed_gradient.bits,
        "counts": np.bincount(squeezed_gradient.codes[0], minlength=levels).tolist(),
    }


class _Told:
    """A generator that gives what it is told: the sizes made up, and what decides on the truth."""

    def __init__(self, flips):
        self.flips = np.array(flips)

    def integers(self, low, high, size):
        return self.flips[:, 1].astype(int)

    def random(self, size):
        return self.flips[:, 0]


def coin(size: int, cap: int, epsilon: float, flips) -> dict:
    """Reports of one client, whose `flips` are (what decides, size made up); the mean of their estimates and
    its standard deviation."""
    alpha, many = privacy.truth_probability(epsilon, cap), len(flips)
    how = {"size_cap": cap, "alpha": alpha}
    reports = privacy.report(np.full(many, size), rng=_Told(flips), **how)
    return {
        "alpha": alpha,
        "reports": reports.tolist(),
        "mean": privacy.estimate_total(reports, **how) / many,
        "sd": math.sqrt(privacy.estimate_variance(np.full(many, size), **how)) / many,
    }


def bias(values, norms, m: int) -> dict:
    """Exact mean and deviation of a round as written and corrected, in a stratum drawn by norms."""
    written, spread = theory.design_moments("plain-successive", values, norms, m)
    corrected, width = theory.design_moments("hansen-hurwitz", values, norms, m)
    return {
        "target": sum(values) / len(values),
        "written": float(written),
        "written_sd": math.sqrt(spread),
        "corrected": float(corrected),
        "corrected_sd": math.sqrt(width),
    }


@lru_cache
def _server():
    """The clients of the figure of seats, at their first model."""
    return one_round.view_at(
        draw_probabilities.example_state(0), draw_probabilities.corrected_design()
    )


@lru_cache
def gradient() -> np.ndarray:
    """The last layer's entries of one client's gradient, float32, as they are given to the script."""
    setup = draw_probabilities.example_state(0).setup
    module = setup.task.model(setup.seed)
    whole = list(engine.client_gradients(module, models.flatten(module), setup.data))[CLIENT]
    return whole.numpy()[-ENTRIES:].astype(float).round(6).astype(np.float32)


@lru_cache
def clients() -> dict:
    """The clients on a plane, their norms, and their strata for every number of them, as the paper makes these."""
    gradients = _server().gradients(LEVELS)
    features = stratification.restored_features(gradients)
    labels = [stratification.stratify(features, H, 0) for H in range(1, MOST_STRATA + 1)]
    centred = features - features.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    points = (u * s)[:, :2]
    points = points * np.sign(points[np.abs(points).argmax(0), [0, 1]])  # a sign for each axis
    return {
        "points": (points / np.abs(points).max()).round(4).tolist(),
        "norms": gradients.norms().round(6).tolist(),
        "labels": [each.tolist() for each in labels],
        "spreads": [
            stratification.within_stratum_std(features, each).round(6).tolist() for each in labels
        ],
        "H": STRATA,
        "m": draw_probabilities.PARTICIPANTS,
    }


def on_map(strata: int, m: int) -> dict:
    """Return the allocation of the strata, and each client's chance to be drawn, as written: distinct, by norms."""
    data = clients()
    labels, norms = np.array(data["labels"][strata - 1]), np.array(data["norms"])
    draws = allocation.neyman(np.bincount(labels), data["spreads"][strata - 1], m)
    chances = np.zeros(len(labels))
    for h, count in enumerate(draws.tolist()):
        chances[labels == h] = theory.successive_inclusion(norms[labels == h], count)
    return {"seats": draws.tolist(), "chances": chances.tolist()}


def cases() -> dict:
    """By instrument: inputs with this package's answers; the scripts must give the same."""
    strata = [
        (list(SIZES), list(SPREADS), SEATS),
        ([40, 30, 20, 10], [1.0, 2.0, 4.0, 0.2], 10),
        ([5, 5], [1.0, 1.0], 5),
        ([3, 50, 7], [9.0, 0.5, 2.0], 20),
        ([8, 8, 8], [0.0, 0.0, 0.0], 7),
        ([12, 1, 30, 4, 6, 9, 2, 40], [0.3, 4.0, 0.7, 1.1, 0.0, 2.2, 5.0, 0.1], 25),
        ([1, 1, 1], [1.0, 2.0, 3.0], 3),
        ([60, 60, 60, 60], [0.1, 5.0, 0.1, 5.0], 11),
    ]
    settings = [(600, 100, 3, 10), (60, 100, 1, 25), (5, 3, 2, 1), (300, 601, 6, 40), (1, 50, 8, 3)]
    budgets = [(3, 100, 10), (3, 100, 99), (0.5, 3, 40), (8, 700, 30), (1, 20, 1), (2, 3, 99)]
    flips = [[0.01, 7], [0.99, 99], [0.3, 1], [0.05, 50], [0.7, 23]]
    coins = [(40, 100, 3.0, flips), (300, 100, 1.0, flips[:2]), (1, 100, 8.0, flips)]
    given = {
        "squeeze": {"squeezed": (squeezed, [(2,), (3,), (LEVELS,), (MOST_LEVELS,)])},
        "strata": {
            "onMap": (
                on_map,
                [(1, 6), (STRATA, draw_probabilities.PARTICIPANTS), (MOST_STRATA, 20)],
            )
        },
        "allocation": {"seats": (seats, strata)},
        "bias": {
            "bias": (
                bias,
                [(VALUES, NORMS, m) for m in (1, 2, 5)] + [((3.0, 1.0, -2.0), (1.0, 4.0, 2.0), 2)],
            )
        },
        "coin": {"coin": (coin, coins)},
        "estimate": {"estimate": (estimate, settings)},
        "privacy": {
            "composed": (composed, [(*b, d) for b, d in product(budgets, (0.0, 1e-6, DELTA, 1e-3))])
        },
    }
    return {
        part: {
            name: [{"given": each, "answer": of(*each)} for each in inputs]
            for name, (of, inputs) in formulas.items()
        }
        for part, formulas in given.items()
    }


def composed(epsilon: float, cap: int, reports: int, delta: float) -> float:
    """The epsilon of that many fresh reports of one client."""
    alpha = privacy.truth_probability(epsilon, cap)
    return privacy.composed_epsilon(alpha, cap, reports, delta)


def attack(epsilon: float, cap: int, reports: int = REPORTS) -> list[float]:
    """P(the most frequent of j fresh reports is the true size), j = 0..reports."""
    alpha = privacy.truth_probability(epsilon, cap)
    # A fraction with a small denominator keeps the whole numbers small; the error is below 1e-6.
    return [float(p) for p in theory.mode_attack(cap, f"{round(alpha * 10**7)}/{10**7}", reports)]


def data() -> dict:
    """What the scripts are given, by instrument."""
    entries = gradient()
    levels = {
        n: compression.squeeze(entries, n).levels[0].astype(float).tolist()
        for n in range(2, MOST_LEVELS + 1)
    }
    parts = {
        "squeeze": {"entries": entries.astype(float).tolist(), "levels": levels, "start": LEVELS},
        "strata": clients(),
        "allocation": {"sizes": SIZES, "spreads": SPREADS, "m": SEATS},
        "bias": {"values": VALUES, "norms": NORMS, "m": ROUND},
        "coin": COIN,
        "estimate": SETTING,
        "privacy": {
            **SETTING,
            "delta": DELTA,
            "rounds": ROUNDS,
            "epsilons": EPSILONS,
            "caps": CAPS,
            "attack": [[[round(p, 4) for p in attack(e, cap)] for cap in CAPS] for e in EPSILONS],
        },
    }
    known = cases()
    return {name: {**part, "cases": known[name]} for name, part in parts.items()}


def draw(name: str):
    """The figure that stands for a part of the explorer where no script runs."""
    plots.set_style()
    return globals()[f"_{name}"]()


def _squeeze():
    entries = np.sort(gradient().astype(float))
    restored = compression.squeeze(entries.astype(np.float32), LEVELS).restore()[0]
    figure, ax = plt.subplots(figsize=(7, 3))
    ax.fill_between(
        np.arange(len(entries)), restored, color=plots.GREY, alpha=0.5, lw=0, step="mid"
    )
    ax.plot(entries, color=plots.BLACK, lw=1.5)
    ax.set(xlabel="entry of the gradient, by size", ylabel="value")
    return figure


def _strata():
    data, allocated = clients(), on_map(STRATA, draw_probabilities.PARTICIPANTS)
    points, labels = np.array(data["points"]), np.array(data["labels"][STRATA - 1])
    figure, ax = plt.subplots(figsize=(7, 3.4))
    for h in range(STRATA):
        middle = points[labels == h].mean(0)
        for point in points[labels == h]:
            ax.plot(*zip(point, middle, strict=True), color=plots.GREY, lw=0.8, zorder=1)
        label = f"{chr(65 + h)}: {allocated['seats'][h]} of {(labels == h).sum()}"
        ax.text(*middle, label, ha="center", va="center", fontsize="small", zorder=3, bbox=PLATE)
    ax.scatter(
        *points.T, s=260 * np.array(allocated["chances"]) + 4, fc="none", ec=plots.BLACK, zorder=2
    )
    ax.set(xticks=[], yticks=[])
    return figure


def _bias():
    exact, rng = bias(VALUES, NORMS, ROUND), stream(7, "bias")
    p, many = np.array(NORMS) / sum(NORMS), 300
    figure, ax = plt.subplots(figsize=(7, 3))
    distinct = [rng.choice(VALUES, ROUND, replace=False, p=p).mean() for _ in range(many)]
    scaled = np.array(VALUES) / (len(p) * p)
    again = [rng.choice(scaled, ROUND, p=p).mean() for _ in range(many)]
    rounds = np.arange(1, many + 1)
    ax.axhline(exact["target"], color=plots.BLACK, ls="--", lw=1)
    for each, colour, name in (
        (distinct, plots.WRITTEN, "as written"),
        (again, plots.CORRECTED, "corrected"),
    ):
        ax.plot(rounds, np.cumsum(each) / rounds, color=colour)
        ax.text(many * 1.01, np.mean(each), name, color=colour, va="center", fontsize="small")
    ax.text(many, exact["target"], "target", ha="right", va="bottom", fontsize="small")
    ax.set(xlabel="rounds", ylabel="average update so far", xlim=(0, many))
    return figure


def _coin():
    size, cap, epsilon = COIN.values()
    rng, many = stream(1, "coin"), 200
    flips = np.stack([rng.random(many), rng.integers(1, cap, many)], axis=1)
    running = [coin(size, cap, epsilon, flips[:j])["mean"] for j in range(1, many + 1)]
    figure, ax = plt.subplots(figsize=(7, 3))
    reports = np.arange(1, many + 1)
    wide = 1.96 * coin(size, cap, epsilon, flips[:1])["sd"] / np.sqrt(reports)
    ax.fill_between(reports, size - wide, size + wide, color=plots.GREY, alpha=0.3, lw=0)
    ax.plot(reports, running, color=plots.BLACK)
    ax.axhline(size, color=plots.BLACK, ls="--", lw=1)
    ax.set(xlabel="reports of the client", ylabel="estimated size", ylim=(size - 200, size + 200))
    return figure


def _allocation():
    allocations, width = seats(SIZES, SPREADS, SEATS), 0.26
    figure, ax = plt.subplots(figsize=(7, 3))
    for place, (name, colour) in enumerate(
        (("printed", plots.WRITTEN), ("rounded", plots.CODED), ("optimal", plots.CORRECTED))
    ):
        x = np.arange(len(SIZES)) + (place - 1) * width
        bars = ax.bar(x, allocations[name]["seats"], width, color=colour, label=name)
        ax.bar_label(bars, fmt="{:.3g}", fontsize="x-small")
    labels = [f"$N_h$ = {n}\n$S_h$ = {s:g}" for n, s in zip(SIZES, SPREADS, strict=True)]
    ax.set_xticks(range(len(SIZES)), labels)
    ax.set(ylabel=f"seats of m = {SEATS}")
    ax.grid(visible=False, axis="x")
    ax.legend(title=None)
    return figure


def _estimate():
    size, cap, epsilon, m = SETTING.values()
    alpha = privacy.truth_probability(epsilon, cap)
    values, chances = theory.size_estimator_distribution([size] * m, cap, alpha)
    figure, ax = plt.subplots(figsize=(7, 3))
    seen = chances > chances.max() / 1e4
    ax.fill_between(values[seen], chances[seen] / np.diff(values[:2]), color=plots.GREY, alpha=0.4)
    marks = (
        (0, plots.BLACK, "0"),
        (min(size, cap - 1) * m, plots.DRAW_COLOURS[3], "clipped total"),
    )
    for x, colour, text in (*marks, (size * m, plots.DRAW_COLOURS[4], "true total")):
        ax.axvline(x, color=colour, lw=1.5)
        ax.text(x, ax.get_ylim()[1], f" {text}", color=colour, va="top", fontsize="small")
    ax.set(xlabel="estimate of the total", ylabel="density", yticks=[])
    ax.set_ylim(bottom=0)
    return figure


def _privacy():
    epsilon, cap = SETTING["epsilon"], SETTING["cap"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3))
    rounds = np.arange(1, ROUNDS + 1)
    left.plot(rounds, rounds * epsilon, color=plots.DRAW_COLOURS[3], label="δ = 0")
    tight = [composed(epsilon, cap, int(j), DELTA) for j in rounds]
    left.plot(rounds, tight, color=plots.DRAW_COLOURS[4], label=f"δ = {DELTA:g}")
    left.set(xlabel="fresh reports of one client", ylabel="composed ε")
    left.legend()
    right.plot(100 * np.array(attack(epsilon, cap)), color=plots.BLACK)
    right.set(xlabel="fresh reports of one client", ylabel="size read off (%)", ylim=(0, 100))
    return figure


def make(folder: str | Path) -> None:
    """Write the data and the figures of the page, `explorer.json` last."""
    folder = Path(folder)
    for name in FIGURES:
        figure = draw(name)
        write(
            folder / f"explorer-{name}.png",
            lambda path, figure=figure: figure.savefig(
                path, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None}
            ),
        )
        plt.close(figure)
    text = json.dumps(data(), separators=(",", ":"), allow_nan=False)
    assert len(text) < LARGEST
    write(folder / "explorer.json", lambda path: path.write_text(text))


if __name__ == "__main__":
    make(sys.argv[1])
