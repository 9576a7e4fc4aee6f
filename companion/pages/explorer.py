"""The data of the interactive figures (instruments), their static figures, and test cases for their scripts.

A page shows the static figures where no script runs. The scripts compute the same functions as this package; the
test cases are inputs with this package's answers, which each page compares with its scripts' answers. The keys of
the data are read by `book/_ext/instruments/*.js`.
"""

from __future__ import annotations

import json
import math
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.pages import draw_probabilities, instruments, moving_pictures, plots
from companion.runs.atomic import write
from fedstas import allocation, compression, privacy, stratification, theory
from fedstas.errors import InputError
from fedstas.sim import engine, models, one_round
from fedstas.sim.rng import stream

EPSILONS = (0.5, 1, 2, 3, 4, 5, 6, 8)
CAPS = (3, 5, 10, 20, 50, 100, 200, 700)
REPORTS = 40  # of the attack; the composed epsilon is computed by the script
SIZES, SPREADS, PARTICIPANTS = (40, 30, 20, 10), (1.0, 2.0, 4.0, 3.5), 10
SETTING = {"size": 600, "cap": 100, "epsilon": 3.0, "m": 10}
DELTA = 1e-5
ROUNDS = 99
MAX_LEVELS, MAX_STRATA = 16, 8
LEVELS, STRATA = 9, 4  # where the sliders begin
SQUEEZED_CLIENT = 0  # whose gradient is squeezed
ENTRIES = 510  # of that gradient: those of the last layer
REPORTS_SETTING = {"size": 40, "cap": 100, "epsilon": 3.0}
VALUES = (-1.0, -0.5, 0.5, 1.0, 2.0, 4.0)  # six clients' updates in one direction
NORMS = tuple(map(abs, VALUES))
COHORT_SIZE = 2  # of these clients
MAX_BYTES = 500_000  # bytes of the page's data


def compare_allocations(sizes, spreads, m: int) -> dict:
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
        variance = math.inf
        if draws is not None:
            variance = float(theory.allocation_variance(sizes, spreads, draws.tolist()))
        rows[name] = {
            "draws": None if draws is None else draws.tolist(),
            "variance": variance if math.isfinite(variance) else None,
        }
    return rows


def summarise_size_estimate(size: int, cap: int, epsilon: float, m: int) -> dict:
    """Summarise the private estimate of the total size of m clients with `size` examples each.

    Returns:
        `alpha`, the chance of a true report; the `mean`, the standard deviation `sd` and the chance `not_positive` of the
        estimate; `rate`, the mean sampling rate if a tenth of the true total is requested; and seven points of the
        estimate's distribution, `values` with their `chances`.
    """
    alpha = privacy.truth_probability(epsilon, cap)
    values, chances = theory.size_estimator_distribution([size] * m, cap, alpha)
    mean = float(values @ chances)
    shown = np.linspace(0, len(values) - 1, 7).astype(int)
    return {
        "alpha": alpha,
        "mean": mean,
        "sd": math.sqrt(float((values - mean) ** 2 @ chances)),
        "not_positive": float(chances[values <= 0].sum()),
        "rate": theory.estimated_rate([size] * m, cap, alpha, size * m / 10).mean,
        "values": values[shown].tolist(),
        "chances": chances[shown].tolist(),
    }


def summarise_squeeze(levels: int) -> dict:
    """Summarise the gradient squeezed to some levels: the share of its square that is kept, bits, entries per level."""
    squeezed_gradient = compression.squeeze(client_gradient(), levels)
    entries = client_gradient().astype(float)  # or the sums would be of single precision
    (restored,) = squeezed_gradient.restore()
    lost = np.square(entries - restored.astype(float)).sum()
    return {
        "kept": 1 - float(lost / np.square(entries).sum()),
        "bits": squeezed_gradient.bits,
        "counts": np.bincount(squeezed_gradient.codes[0], minlength=levels).tolist(),
    }


class _FixedFlips:
    """A random generator with fixed draws: rows of a uniform that decides on the truth, and the random size."""

    def __init__(self, flips):
        self.flips = np.array(flips)

    def integers(self, low, high, size):
        """Return the sizes that are reported where the coin says so."""
        return self.flips[:, 1].astype(int)

    def random(self, size):
        """Return the numbers that decide whether the truth is reported."""
        return self.flips[:, 0]


def summarise_reports(size: int, cap: int, epsilon: float, flips) -> dict:
    """Summarise reports of one client: alpha, the reports, the mean of their estimates and its standard deviation.

    Args:
        size: the client's true size.
        cap: the size cap M.
        epsilon: of a report.
        flips: for each report, the uniform number that decides on the truth, and the random size.
    """
    alpha, count = privacy.truth_probability(epsilon, cap), len(flips)
    options = {"size_cap": cap, "alpha": alpha}
    reports = privacy.report(np.full(count, size), rng=_FixedFlips(flips), **options)
    return {
        "alpha": alpha,
        "reports": reports.tolist(),
        "mean": privacy.estimate_total(reports, **options) / count,
        "sd": math.sqrt(privacy.estimate_variance(np.full(count, size), **options)) / count,
    }


def summarise_round(values, norms, m: int) -> dict:
    """Return the exact mean and standard deviation of a round as written and corrected, in a stratum drawn by norms."""
    written, written_variance = theory.design_moments("plain-successive", values, norms, m)
    corrected, corrected_variance = theory.design_moments("hansen-hurwitz", values, norms, m)
    return {
        "target": sum(values) / len(values),
        "written": float(written),
        "written_sd": math.sqrt(written_variance),
        "corrected": float(corrected),
        "corrected_sd": math.sqrt(corrected_variance),
    }


@lru_cache
def _view_of_server():
    """Return the server's view of the example's clients at the first model."""
    return one_round.view_at(
        draw_probabilities.example_state(0), draw_probabilities.corrected_design()
    )


@lru_cache
def client_gradient() -> np.ndarray:
    """Return the last layer's entries of one client's gradient, float32, as the script has them."""
    setup = draw_probabilities.example_state(0).setup
    module = setup.task.model(setup.seed)
    gradients = list(engine.client_gradients(module, models.flatten(module), setup.data))
    return gradients[SQUEEZED_CLIENT].numpy()[-ENTRIES:].astype(float).round(6).astype(np.float32)


@lru_cache
def map_clients() -> dict:
    """Return the clients on a plane (two principal components), their norms, and their strata as written, for each
    number of strata."""
    gradients = _view_of_server().gradients(LEVELS)
    features = stratification.restored_features(gradients)
    labels = [stratification.stratify(features, H, 0) for H in range(1, MAX_STRATA + 1)]
    centred = features - features.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    points = (u * s)[:, :2]
    points = points * np.sign(points[np.abs(points).argmax(0), [0, 1]])  # a sign for each axis
    return {
        "points": (points / np.abs(points).max()).round(4).tolist(),
        "norms": gradients.norms().round(6).tolist(),
        "labels": [strata.tolist() for strata in labels],
        "spreads": [
            stratification.within_stratum_std(features, strata).round(6).tolist()
            for strata in labels
        ],
        "H": STRATA,
        "m": draw_probabilities.PARTICIPANTS,
    }


def allocate_on_map(strata: int, m: int) -> dict:
    """Return the allocation of the strata, and each client's inclusion probability as written (distinct, by norms)."""
    client_map = map_clients()
    labels, norms = np.array(client_map["labels"][strata - 1]), np.array(client_map["norms"])
    draws = allocation.neyman(np.bincount(labels), client_map["spreads"][strata - 1], m)
    chances = np.zeros(len(labels))
    for h, count in enumerate(draws.tolist()):
        chances[labels == h] = theory.successive_inclusion(norms[labels == h], count)
    return {"draws": draws.tolist(), "chances": chances.tolist()}


def make_test_cases() -> dict:
    """Return inputs with this package's answers, by instrument and function of its script."""
    strata = [
        (list(SIZES), list(SPREADS), PARTICIPANTS),
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
    functions = {  # by instrument, and by the name of the script's function: ours, and the inputs
        "squeeze": {"squeezed": (summarise_squeeze, [(2,), (3,), (LEVELS,), (MAX_LEVELS,)])},
        "strata": {
            "onMap": (
                allocate_on_map,
                [(1, 6), (STRATA, draw_probabilities.PARTICIPANTS), (MAX_STRATA, 20)],
            )
        },
        "allocation": {"allocate": (compare_allocations, strata)},
        "bias": {
            "bias": (
                summarise_round,
                [(VALUES, NORMS, m) for m in (1, 2, 5)] + [((3.0, 1.0, -2.0), (1.0, 4.0, 2.0), 2)],
            )
        },
        "coin": {"coin": (summarise_reports, coins)},
        "estimate": {"estimate": (summarise_size_estimate, settings)},
        "privacy": {
            "composed": (
                compose_epsilon,
                [(*b, d) for b, d in product(budgets, (0.0, 1e-6, DELTA, 1e-3))],
            )
        },
    }
    return {part: _answer(by_name) for part, by_name in functions.items()}


def _answer(by_name: dict) -> dict:
    """Return, by the name of the script's function, inputs with the answers of our function, from pairs of both."""
    return {
        name: [{"given": args, "answer": function(*args)} for args in inputs]
        for name, (function, inputs) in by_name.items()
    }


def make_moving_picture(name: str) -> dict:
    """Return the data of a moving picture, with test cases of its script."""
    cases = getattr(moving_pictures, f"{name}_test_cases")()
    return {**getattr(moving_pictures, f"{name}_data")(), "cases": _answer(cases)}


def compose_epsilon(epsilon: float, cap: int, reports: int, delta: float) -> float:
    """Return the composed epsilon of some fresh reports of one client."""
    alpha = privacy.truth_probability(epsilon, cap)
    return privacy.composed_epsilon(alpha, cap, reports, delta)


def attack_success(epsilon: float, cap: int, reports: int = REPORTS) -> list[float]:
    """Return P(the most frequent of j fresh reports is the true size) for j = 0..reports."""
    alpha = privacy.truth_probability(epsilon, cap)
    # A fraction with a small denominator keeps the whole numbers small; the error is below 1e-6.
    return [float(p) for p in theory.mode_attack(cap, f"{round(alpha * 10**7)}/{10**7}", reports)]


def make_data() -> dict:
    """Return the data of the scripts, by instrument."""
    entries = client_gradient()
    levels = {
        n: compression.squeeze(entries, n).levels[0].astype(float).tolist()
        for n in range(2, MAX_LEVELS + 1)
    }
    parts = {
        "squeeze": {"entries": entries.astype(float).tolist(), "levels": levels, "start": LEVELS},
        "strata": map_clients(),
        "allocation": {"sizes": SIZES, "spreads": SPREADS, "m": PARTICIPANTS},
        "bias": {"values": VALUES, "norms": NORMS, "m": COHORT_SIZE},
        "coin": REPORTS_SETTING,
        "estimate": SETTING,
        "privacy": {
            **SETTING,
            "delta": DELTA,
            "rounds": ROUNDS,
            "epsilons": EPSILONS,
            "caps": CAPS,
            "attack": [
                [[round(p, 4) for p in attack_success(e, cap)] for cap in CAPS] for e in EPSILONS
            ],
        },
    }
    test_cases = make_test_cases()
    pictures = {name: make_moving_picture(name) for name in instruments.MOVING_PICTURES}
    return pictures | {name: {**part, "cases": test_cases[name]} for name, part in parts.items()}


def draw_figure(name: str):
    """Draw the figure that a page shows in the place of an instrument where no script runs."""
    plots.set_style()
    if name in instruments.MOVING_PICTURES:
        return getattr(moving_pictures, f"draw_{name}")()
    return globals()[f"_draw_{name}"]()


def _draw_squeeze() -> Figure:
    """Draw a gradient by size, and its entries as compressed."""
    entries = np.sort(client_gradient().astype(float))
    (restored,) = compression.squeeze(entries.astype(np.float32), LEVELS).restore()
    figure, ax = plt.subplots(figsize=(7, 3))
    ax.fill_between(
        np.arange(len(entries)), restored, color=plots.GREY, alpha=0.5, lw=0, step="mid"
    )
    ax.plot(entries, color=plots.BLACK, lw=1.5)
    ax.set(xlabel="entry of the gradient, by size", ylabel="value")
    return figure


def _draw_strata() -> Figure:
    """Draw the clients on a map, tied to the middle of their stratum, with the size of the chance to be drawn."""
    client_map, allocated = map_clients(), allocate_on_map(STRATA, draw_probabilities.PARTICIPANTS)
    points, labels = np.array(client_map["points"]), np.array(client_map["labels"][STRATA - 1])
    figure, ax = plt.subplots(figsize=(7, 3.4))
    for h in range(STRATA):
        middle = points[labels == h].mean(0)
        for point in points[labels == h]:
            ax.plot(*zip(point, middle, strict=True), color=plots.GREY, lw=0.8, zorder=1)
        label = f"{chr(65 + h)}: {allocated['draws'][h]} of {(labels == h).sum()}"
        own, others = points[labels == h], points[labels != h]
        gaps = np.linalg.norm(own[:, None] - others, axis=2).min(1)
        alone = own[gaps.argmax()]  # of the stratum, the client farthest from all others
        away = 9 if alone[1] >= own[:, 1].mean() else -17  # from the middle of the stratum
        place = {"xytext": (0, away), "textcoords": "offset points", "ha": "center"}
        ax.annotate(label, alone, **place, fontsize="small", zorder=3)
        area = 300 * np.array(allocated["chances"])[labels == h] + 6
        colour, marker = moving_pictures.CLASS_COLOURS[h], moving_pictures.CLASS_MARKS[h]
        ax.scatter(*own.T, s=area, color=colour, marker=marker, lw=0, zorder=2)
    ax.margins(y=0.15)
    ax.set(xticks=[], yticks=[])
    return figure


def _draw_bias() -> Figure:
    """Draw the running mean of the estimates as written and as corrected."""
    exact, rng = summarise_round(VALUES, NORMS, COHORT_SIZE), stream(7, "bias")
    p, count = np.array(NORMS) / sum(NORMS), 300
    figure, ax = plt.subplots(figsize=(7, 3))
    distinct = [rng.choice(VALUES, COHORT_SIZE, replace=False, p=p).mean() for _ in range(count)]
    scaled = np.array(VALUES) / (len(p) * p)
    with_replacement = [rng.choice(scaled, COHORT_SIZE, p=p).mean() for _ in range(count)]
    rounds = np.arange(1, count + 1)
    ax.axhline(exact["target"], color=plots.BLACK, ls="--", lw=1)
    for averages, colour, name in (
        (distinct, plots.WRITTEN, "as written"),
        (with_replacement, plots.CORRECTED, "corrected"),
    ):
        ax.plot(rounds, np.cumsum(averages) / rounds, color=colour)
        ax.text(count * 1.01, np.mean(averages), name, color=colour, va="center", fontsize="small")
    ax.text(count, exact["target"], "target", ha="right", va="bottom", fontsize="small")
    ax.set(xlabel="rounds", ylabel="average update so far", xlim=(0, count))
    return figure


def _draw_coin() -> Figure:
    """Draw the running mean of one client's reports, with its 95 % interval."""
    size, cap, epsilon = REPORTS_SETTING.values()
    rng, count = stream(10, "coin"), 200
    # For each report, the number that decides on the truth, and the random size (`summarise_reports`).
    flips = np.stack([rng.random(count), rng.integers(1, cap, count)], axis=1)
    running = [
        summarise_reports(size, cap, epsilon, flips[:j])["mean"] for j in range(1, count + 1)
    ]
    figure, ax = plt.subplots(figsize=(7, 3))
    reports = np.arange(1, count + 1)
    sd_of_one = summarise_reports(size, cap, epsilon, flips[:1])["sd"]
    half_width = 1.96 * sd_of_one / np.sqrt(reports)  # of the normal's 95 % interval
    ax.fill_between(
        reports, size - half_width, size + half_width, color=plots.GREY, alpha=0.3, lw=0
    )
    ax.plot(reports, running, color=plots.BLACK)
    ax.axhline(size, color=plots.BLACK, ls="--", lw=1)
    ax.set(xlabel="reports of the client", ylabel="estimated size", ylim=(size - 200, size + 200))
    return figure


def _draw_allocation() -> Figure:
    """Draw the allocations by three rules as bars."""
    allocations, width = compare_allocations(SIZES, SPREADS, PARTICIPANTS), 0.26
    figure, ax = plt.subplots(figsize=(7, 3))
    for place, (name, colour) in enumerate(
        (("printed", plots.WRITTEN), ("rounded", plots.CODED), ("optimal", plots.CORRECTED))
    ):
        x = np.arange(len(SIZES)) + (place - 1) * width
        bars = ax.bar(x, allocations[name]["draws"], width, color=colour, label=name)
        ax.bar_label(bars, fmt="{:.3g}", fontsize="x-small")
    labels = [f"$N_h$ = {n}\n$S_h$ = {s:g}" for n, s in zip(SIZES, SPREADS, strict=True)]
    ax.set_xticks(range(len(SIZES)), labels)
    ax.set(ylabel=f"draws, of m = {PARTICIPANTS}")
    ax.grid(visible=False, axis="x")
    ax.legend(title=None)
    return figure


def _draw_estimate() -> Figure:
    """Draw the distribution of the estimated total."""
    size, cap, epsilon, m = SETTING.values()
    alpha = privacy.truth_probability(epsilon, cap)
    values, chances = theory.size_estimator_distribution([size] * m, cap, alpha)
    figure, ax = plt.subplots(figsize=(7, 3))
    shown = chances > chances.max() / 1e4
    ax.fill_between(
        values[shown], chances[shown] / np.diff(values[:2]), color=plots.GREY, alpha=0.4
    )
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


def _draw_privacy() -> Figure:
    """Draw the composed epsilon, and the chance to read a size off, over the number of reports."""
    epsilon, cap = SETTING["epsilon"], SETTING["cap"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3))
    rounds = np.arange(1, ROUNDS + 1)
    left.plot(rounds, rounds * epsilon, color=plots.DRAW_COLOURS[3], label="δ = 0")
    tight = [compose_epsilon(epsilon, cap, int(j), DELTA) for j in rounds]
    left.plot(rounds, tight, color=plots.DRAW_COLOURS[4], label=f"δ = {DELTA:g}")
    left.set(xlabel="fresh reports of one client", ylabel="composed ε")
    left.legend()
    right.plot(100 * np.array(attack_success(epsilon, cap)), color=plots.BLACK)
    right.set(xlabel="fresh reports of one client", ylabel="size read off (%)", ylim=(0, 100))
    return figure


def write_page_files(folder: str | Path) -> None:
    """Write the still pictures of the instruments that are computed, then their data, `explorer.json`."""
    folder = Path(folder)
    for name in instruments.COMPUTED:
        plots.write_still(draw_figure(name), folder / f"explorer-{name}.png")
    text = json.dumps(make_data(), separators=(",", ":"), allow_nan=False)
    assert len(text) < MAX_BYTES
    write(folder / "explorer.json", lambda path: path.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    write_page_files(sys.argv[1])
