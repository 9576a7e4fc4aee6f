"""Information squeeze: 1-D k-means of a gradient's entries (FedSTaS, Alg. 1, after FedSTS).

A gradient of d floats becomes d' levels and one code per entry. The paper restores Z_k from
both; the authors' code clusters the d' levels alone, and in arbitrary order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstas.errors import InputError, integer

EDGES = 128  # candidate cuts of the first stage, about
REACH = 8  # candidate cuts on either side in the refining stages


@dataclass(frozen=True)
class Squeezed:
    """`levels` [N, d'] ascending, `codes` [N, d] uint8: entry i of client k is levels[k, codes[k, i]]."""

    levels: np.ndarray
    codes: np.ndarray

    def restore(self) -> np.ndarray:
        """Z [N, d], every entry replaced by its level."""
        return np.stack([v[c] for v, c in zip(self.levels, self.codes, strict=True)])

    def norms(self) -> np.ndarray:
        """The norms of Z_k, float64 [N], from the counts of the codes."""
        return np.array(
            [
                np.sqrt(np.bincount(c, minlength=len(v)) @ v.astype(np.float64) ** 2)
                for v, c in zip(self.levels, self.codes, strict=True)
            ]
        )

    @property
    def bits(self) -> int:
        """What one client sends: d' floats of 32 bits and d codes of ceil(log2 d') bits."""
        levels, d = self.levels.shape[1], self.codes.shape[1]
        return 32 * levels + d * int(np.ceil(np.log2(levels)))


def squeeze(gradients, levels: int) -> Squeezed:
    """Squeeze gradients [d] or [N, d] to `levels` (2..256) levels each.

    Deterministic, and a local optimum of the 1-D k-means objective within a fraction of a percent
    of the global one: dynamic programmes over candidate cuts of the sorted entries, coarse and
    then finer around the best, and Lloyd's algorithm from there. With fewer than d' distinct entries the levels
    repeat and codes use the first. `InputError` for entries that are not finite.
    """
    rows = np.atleast_2d(np.asarray(gradients))
    levels = integer("levels", levels, 2, 256)
    if rows.ndim != 2 or not rows.size:
        raise InputError("gradients must be [d] or [N, d] and not empty")
    if rows.dtype.kind != "f":
        rows = rows.astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError("a gradient holds a number that is not finite")
    centres = np.stack([_centres(row, levels) for row in rows])
    return Squeezed(centres, np.stack([_codes(r, c) for r, c in zip(rows, centres, strict=True)]))


def _codes(row: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest level of each entry; on a tie, and among equal levels, the lowest."""
    codes = np.zeros(len(row), dtype=np.uint8)
    for boundary in _boundaries(centres):
        codes += row > boundary
    return codes


def _boundaries(centres: np.ndarray) -> np.ndarray:
    """Midpoints, in the precision of the entries, such that x <= boundary goes down."""
    wide = centres.astype(np.float64)
    return ((wide[1:] + wide[:-1]) / 2).astype(centres.dtype)


def _centres(row: np.ndarray, levels: int) -> np.ndarray:
    """Levels of one gradient, ascending."""
    x = np.sort(row)
    starts = np.flatnonzero(x[1:] != x[:-1]) + 1
    if len(starts) < levels:  # at most d' distinct entries: they are the levels
        distinct = x[np.concatenate([[0], starts])]
        return np.concatenate([distinct, np.full(levels - len(distinct), distinct[-1])])
    wide = x.astype(np.float64)
    shift = wide.mean()
    wide -= shift  # prefix sums lose less around zero
    s1 = np.concatenate([[0.0], np.cumsum(wide)])
    s2 = np.concatenate([[0.0], np.cumsum(wide * wide)])
    edges = _candidates(wide, levels)
    cost = _cost(edges[:, None], edges, s1, s2)
    cuts = edges[_programme([cost[:1], *[cost] * (levels - 1)], len(edges) - 1)]
    step = len(wide) // (8 * REACH)
    while step:  # finer and finer candidates around the cuts
        step //= 8
        near = cuts[:, None] + max(step, 1) * np.arange(-REACH, REACH + 1)
        near = np.clip(near, 1, len(wide) - 1)
        near[0], near[-1] = 0, len(wide)
        costs = _cost(near[:-1, :, None], near[1:, None, :], s1, s2)
        cuts = near[np.arange(levels + 1), _programme(costs, 0)]
    for _ in range(300):  # Lloyd: boundaries at midpoints, levels at means
        means = np.diff(s1[cuts]) / np.diff(cuts)
        inner = np.searchsorted(wide, (means[1:] + means[:-1]) / 2, side="right")
        after = np.concatenate([[0], inner, [len(wide)]])
        if np.array_equal(after, cuts) or (np.diff(after) == 0).any():
            break
        cuts = after
    return (means + shift).astype(row.dtype)


def _candidates(x: np.ndarray, levels: int) -> np.ndarray:
    """Candidate cuts into the sorted x: all of them if they are few.

    Otherwise those at equal steps of the cube root of the density, where an optimal quantiser
    puts its boundaries (Panter and Dite), some at equal counts, and the tails one by one.
    """
    n, count = len(x), max(EDGES, 2 * levels)
    if n <= 4 * count:
        return np.arange(n + 1)
    blocks = np.linspace(0, n, 2 * count + 1).astype(np.intp)
    gaps = np.diff(np.append(x[blocks[:-1]], x[-1]))
    mass = np.concatenate([[0.0], np.cumsum(np.cbrt(np.diff(blocks) * gaps * gaps))])
    steps = np.interp(np.linspace(0, mass[-1], count + 1), mass, blocks).astype(np.intp)
    tail = max(8, levels)
    tails = np.r_[0 : tail + 1, n - tail : n + 1]
    return np.unique(np.concatenate([blocks[::4], steps, tails]))


def _cost(left, right, s1: np.ndarray, s2: np.ndarray) -> np.ndarray:
    """The sum of squares within left..right, from prefix sums; infinite where that is empty."""
    count, total = right - left, s1[right] - s1[left]
    within = s2[right] - s2[left] - total * total / np.maximum(count, 1)
    return np.where(count > 0, within, np.inf)


def _programme(costs, last: int) -> np.ndarray:
    """The cheapest path through costs [A, B] from stage to stage that ends in place `last`.

    Returns the place at every stage. The dynamic programme of 1-D k-means: stage j is cut j.
    """
    best, choice = 0.0, []
    for cost in costs:
        total = np.reshape(best, (-1, 1)) + cost
        choice.append(total.argmin(axis=0))
        best = total[choice[-1], np.arange(total.shape[1])]
    places = [last]
    for back in reversed(choice):
        places.append(back[places[-1]])
    return np.array(places[::-1])
