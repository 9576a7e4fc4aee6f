"""Bring your own design: the template of the project.

    python examples/design/my_design.py --audit        # is it unbiased, and for what?
    python examples/design/my_design.py                # five runs, recorded in runs/
    fedstas leaderboard runs                           # where it stands

Change `MyDesign`. A design has one method: `draw(view, m, rng)` returns a `Cohort`, the chosen clients and their
weights on updates. It may ask the view for `view.sizes` (the true sizes), `view.gradients(9)` (everybody's squeezed
gradient: expensive), `view.last_updates()` (what participants sent last), and pays in bytes and examples for what it asks.
"""

import argparse
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from companion import leaderboard
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError

NAME = "my-design"  # how it is called on the leaderboard: another one for each variant
LIMIT = 4  # standard errors by which the mean weight of an unbiased design may be off
DRAWS = 2000  # cohorts of an audit


@dataclass(frozen=True)
class MyDesign:
    """m draws with replacement, p_k proportional to n_k ** power, each weighted by omega_k / (m p_k).

    Unbiased for omega_k = n_k / n, whatever the power; 1 is MD sampling, 0 draws uniformly.
    """

    power: float = 0.5

    def __post_init__(self):
        if not 0 <= self.power <= 2:
            raise InputError(f"power is {self.power}: it must be at least 0 and at most 2")

    def draw(self, view, m: int, rng: np.random.Generator) -> Cohort:
        sizes = np.asarray(view.sizes, dtype=float)
        omega = sizes / sizes.sum()
        p = sizes**self.power
        p /= p.sum()
        chosen = rng.choice(len(sizes), m, p=p)  # always this rng: a run can be made again
        return Cohort(chosen, omega[chosen] / (m * p[chosen]))


@dataclass(frozen=True)
class Watched:
    """A design whose cohorts are checked and kept."""

    design: Any
    seen: list[Cohort] = field(default_factory=list)

    def draw(self, view, m: int, rng: np.random.Generator) -> Cohort:
        found = self.design.draw(view, m, rng)
        if not isinstance(found, Cohort):
            kind = type(found).__name__
            raise InputError(f"draw must return Cohort(clients, weights): it returned a {kind}")
        self.seen.append(found)
        return found


def audit(design, draws: int = DRAWS) -> str:
    """The mean weight of each client against both targets, the worst five rows, and a verdict."""
    watched = Watched(design)
    clients = leaderboard.audit(watched, draws)["client"].to_numpy()
    federation = leaderboard.arena(0)[1]
    sizes = np.array([len(federation.shards[k]) for k in clients])
    weights = np.zeros((draws, len(clients)))
    for row, cohort in zip(weights, watched.seen, strict=True):
        np.add.at(row, cohort.clients, cohort.weights)  # a client that is chosen twice counts twice
    mean, error = weights.mean(0), weights.std(0) / np.sqrt(draws)
    targets = {"n_k/n": sizes / sizes.sum(), "1/N": np.full(len(sizes), 1 / len(sizes))}
    found = pd.DataFrame({"client": clients, "n_k": sizes, "mean weight": mean})
    for name, target in targets.items():
        off = np.abs(mean - target)
        away = np.divide(off, error, out=np.full(len(off), np.inf), where=error > 0)
        found[name], found[f"errors to {name}"] = target, np.where(off < 1e-12, 0.0, away)
    worst = {name: found[f"errors to {name}"].max() for name in targets}
    near = min(worst, key=worst.get)
    rows = found.sort_values(f"errors to {near}", ascending=False).head(5)
    empty = sorted(set(range(len(federation.shards))) - set(clients.tolist()))
    fits = [name for name, value in worst.items() if value <= LIMIT]
    verdict = f"consistent with {' and '.join(fits)}" if fits else "biased for n_k/n and for 1/N"
    gone = f"client{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}" if empty else "none"
    distances = ", ".join(f"{value:.1f} from {name}" for name, value in worst.items())
    return (
        f"The five clients that are furthest from {near}; `errors` are distances in standard errors:\n"
        + rows.to_string(index=False, float_format=lambda v: f"{v:.4f}")
        + f"\nLeft out of {len(federation.shards)} clients, since they hold no data and no design can draw"
        f" them: {gone}.\nLargest distances: {distances}."
        + f"\nVerdict: {verdict} (limit {LIMIT} standard errors, {draws} cohorts)."
    )


def main() -> None:
    """Audit the design, or train it beside the baselines."""
    parser = argparse.ArgumentParser(description="Bring your own design.")
    parser.add_argument("--audit", action="store_true", help="mean weights over many cohorts")
    parser.add_argument("--seeds", type=int, default=5, help="number of runs (5)")
    parser.add_argument("--rounds", type=int, default=leaderboard.ROUNDS, help="rounds of a run")
    parser.add_argument("--folder", default="runs", help="where runs are recorded (runs)")
    parser.add_argument("--baselines", action="store_true", help="record the baselines as well")
    given = parser.parse_args()
    design = MyDesign()
    if given.audit:
        print(audit(design))
        return
    leaderboard.audit(Watched(design), draws=1)  # what cannot be trained is refused at once
    entries = [leaderboard.entrant(NAME, design)]
    if given.baselines:
        entries += [leaderboard.baseline(name) for name in leaderboard.BASELINES]
    for method in entries:
        leaderboard.enter(method, range(given.seeds), given.folder, given.rounds, progress=True)
    print(leaderboard.markdown(leaderboard.table([given.folder])))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"my_design.py: {error}", file=sys.stderr)
        sys.exit(2)
