"""Bring your own design: the template of the project.

    python examples/design/my_design.py --audit        # is it unbiased, and for what?
    python examples/design/my_design.py                # five runs, recorded in runs/
    fedstas leaderboard runs                           # where it stands

Change `MyDesign`. A design has one method: `draw(view, m, rng)` returns a `Cohort`, the chosen clients and their
weights on updates. It may ask the view for `view.sizes` (the true sizes), `view.gradients(9)` (everybody's squeezed
gradient: expensive), `view.last_updates()` (what participants sent last), and pays in bytes and examples for what it asks.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from fedstas import leaderboard
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError

NAME = "my-design"  # how it is called on the leaderboard


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
        found = leaderboard.audit(design)
        print(found.to_string(index=False, float_format=lambda v: f"{v:.4f}"))
        print(f"largest distance: {found['errors'].max():.1f} standard errors")
        return
    entries = [leaderboard.entrant(NAME, design)]
    if given.baselines:
        entries += [leaderboard.baseline(name) for name in leaderboard.BASELINES]
    for method in entries:
        leaderboard.enter(method, range(given.seeds), given.folder, given.rounds, progress=True)
    print(leaderboard.markdown(leaderboard.table([given.folder])))


if __name__ == "__main__":
    main()
