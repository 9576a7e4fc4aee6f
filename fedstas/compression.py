"""Information squeeze: 1-D k-means of a gradient's entries (FedSTaS, Alg. 1, after FedSTS).

A gradient of d floats becomes d' levels and one code per entry. The paper restores Z_k from
both; the authors' code clusters the d' levels alone, and in arbitrary order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstas.errors import InputError, integer

EDGES = 160  # candidate boundaries of the first, exact stage


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

    Deterministic, and a local optimum of the 1-D k-means objective that is within a fraction of
    a percent of the global one: an exact dynamic programme over candidate boundaries, then
    Lloyd's algorithm on the sorted entries. With fewer than d' distinct entries the levels
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
    wide -= shift if (shift := wide.mean()) else 0.0  # prefix sums lose less around zero
    s1 = np.concatenate([[0.0], np.cumsum(wide)])
    s2 = np.concatenate([[0.0], np.cumsum(wide * wide)])
    cuts = _dynamic_programme(wide, s1, s2, levels)
    for _ in range(300):  # Lloyd: boundaries at midpoints, levels at means
        counts = np.diff(cuts)
        means = np.diff(s1[cuts]) / np.maximum(counts, 1)
        centres = np.where(counts > 0, means, wide[np.minimum(cuts[:-1], len(wide) - 1)])
        inner = np.searchsorted(wide, (centres[1:] + centres[:-1]) / 2, side="right")
        if np.array_equal(inner, cuts[1:-1]):
            break
        cuts = np.concatenate([[0], inner, [len(wide)]])
    return np.sort(centres + shift).astype(row.dtype)


def _dynamic_programme(x, s1, s2, levels: int) -> np.ndarray:
    """Cuts [levels + 1] into the sorted x: the best ones among EDGES candidates.

    The candidates lie at equal steps of the cube root of the density, where an optimal
    quantiser puts its boundaries (Panter and Dite), so that tails get theirs.
    """
    n = len(x)
    blocks = np.unique(np.linspace(0, n, min(n, 2 * EDGES) + 1).astype(np.intp))
    gaps = np.diff(np.append(x[blocks[:-1]], x[-1]))
    mass = np.concatenate([[0.0], np.cumsum(np.cbrt(np.diff(blocks) * gaps * gaps))])
    steps = np.interp(np.linspace(0, mass[-1], EDGES + 1), mass, blocks)
    tails = np.r_[1:9, n - 8 : n] if n > 64 else np.arange(1, n)
    edges = np.unique(np.concatenate([[0], steps.astype(np.intp), tails, [n]]))
    e1, e2 = s1[edges], s2[edges]
    with np.errstate(divide="ignore", invalid="ignore"):
        count = edges[None, :] - edges[:, None]
        cost = (e2[None, :] - e2[:, None]) - (e1[None, :] - e1[:, None]) ** 2 / count
    cost = np.where(count > 0, np.maximum(cost, 0.0), np.inf)
    best, choice = cost[0], []
    for _ in range(levels - 1):
        total = best[:, None] + cost
        choice.append(total.argmin(axis=0))
        best = total[choice[-1], np.arange(len(edges))]
    cuts = [len(edges) - 1]
    for back in reversed(choice):
        cuts.append(back[cuts[-1]])
    return edges[np.array([0, *cuts[::-1]])]
