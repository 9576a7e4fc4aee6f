"""Enumeration of the cohorts of a design that draws by `rng.choice`, with their exact probabilities."""

from fractions import Fraction
from itertools import permutations, product
from math import perm, prod

import numpy as np


class ScriptedGenerator:
    """A generator whose `choice` returns scripted outcomes, then the first elements; `calls` are its arguments.

    An outcome is a tuple of positions in the pool, one for each draw.
    """

    def __init__(self, outcomes=()):
        self.outcomes, self.calls = list(outcomes), []

    def integers(self, *_):
        return 0

    def choice(self, pool, size=None, replace=True, p=None):
        """Return the scripted outcome of a draw, or the first elements, and record the arguments."""
        pool = np.arange(pool) if np.ndim(pool) == 0 else np.asarray(pool)
        p = np.full(len(pool), 1 / len(pool)) if p is None else np.asarray(p)
        draws = 1 if size is None else int(size)
        self.calls.append((pool, draws, replace, p))
        first = [0] * draws if replace else list(range(draws))
        positions = list(self.outcomes.pop(0)) if self.outcomes else first
        return pool[positions[0]] if size is None else pool[positions]


def enumerate_cohorts(design, view, m):
    """Yield every cohort of a design, and its probability as a Fraction, the exact value of the design's floats."""
    probe = ScriptedGenerator()
    design.draw(view, m, probe)
    outcomes_by_call = []
    for pool, draws, replace, p in probe.calls:
        np.testing.assert_allclose(p.sum(), 1, rtol=0, atol=1e-12)
        exact = [Fraction(float(x)) for x in p]
        if replace:
            outcomes = [
                (positions, prod((exact[i] for i in positions), start=Fraction(1)))
                for positions in product(range(len(pool)), repeat=draws)
            ]
        else:  # uniform
            chance = Fraction(1, perm(len(pool), draws))
            outcomes = [(positions, chance) for positions in permutations(range(len(pool)), draws)]
        outcomes_by_call.append(outcomes)
    for combination in product(*outcomes_by_call):
        generator = ScriptedGenerator(positions for positions, _ in combination)
        probability = prod((chance for _, chance in combination), start=Fraction(1))
        yield design.draw(view, m, generator), probability
