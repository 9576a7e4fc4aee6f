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
from dataclasses import dataclass

import numpy as np

from companion import leaderboard
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError
from fedstas.methods import Method
from fedstas.sim import audit

NAME = "my-design"  # its name on the leaderboard: another one for each variant
DRAWS, FEWEST_DRAWS = 2000, 250  # cohorts of an audit, and of one before training


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


def audit_design(method: Method, draws: int = DRAWS) -> str:
    """Audit a method as `fedstas audit` does: a line for each check, with its verdict."""
    findings = audit.audit(method, draws=draws)
    return "\n".join(f"{each.verdict:6} {each.check:20} {each.message}" for each in findings)


def main() -> None:
    """Audit the design, or train and record it, beside the baselines if these are asked for."""
    parser = argparse.ArgumentParser(description="Bring your own design.")
    parser.add_argument(
        "--audit", action="store_true", help="bias, weights, determinism, cost, extremes"
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of runs (5)")
    parser.add_argument("--rounds", type=int, default=leaderboard.ROUNDS, help="rounds of a run")
    parser.add_argument("--folder", default="runs", help="where runs are recorded (runs)")
    parser.add_argument("--baselines", action="store_true", help="record the baselines as well")
    options = parser.parse_args()
    entrant = leaderboard.make_entrant(NAME, MyDesign())
    if options.audit:
        print(audit_design(entrant))
        return
    findings = audit.audit(entrant, draws=FEWEST_DRAWS)
    if failures := [each.message for each in findings if each.verdict == "FAILS"]:
        raise InputError(f"{NAME} cannot be trained: {failures[0]}")
    baselines = leaderboard.BASELINES if options.baselines else ()
    for method in (entrant, *map(leaderboard.get_baseline, baselines)):
        seeds = range(options.seeds)
        leaderboard.record_runs(method, seeds, options.folder, options.rounds, progress=True)
    print(leaderboard.format_markdown(leaderboard.rank_methods([options.folder])))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"my_design.py: {error}", file=sys.stderr)
        sys.exit(2)
