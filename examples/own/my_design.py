"""A design of one's own: a frozen dataclass with `draw`, which says who takes part, with which weights."""

from dataclasses import dataclass

import numpy as np

from fedstas.client_sampling import Cohort


@dataclass(frozen=True)
class Rooted:
    """m draws with replacement, p_k by a power of the size, weights omega_k / (m p_k): unbiased for n_k / n."""

    power: float = 0.5

    def draw(self, view, m: int, rng: np.random.Generator) -> Cohort:
        omega = view.sizes / view.sizes.sum()
        p = omega**self.power
        p /= p.sum()
        chosen = rng.choice(view.clients, m, p=p)  # always this rng: a run can be made again
        return Cohort(chosen, omega[chosen] / (m * p[chosen]))
