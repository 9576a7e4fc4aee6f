"""Information squeeze: 1-D k-means of a gradient's entries (FedSTaS, Alg. 1, after FedSTS).

A gradient of d floats becomes d' levels and one code per entry. The paper restores Z_k from
both; the authors' code clusters the d' levels alone, and in arbitrary order.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from fedstas.arrays import as_float_array, rescale_exponent
from fedstas.errors import InputError, check_int

ROWS = 50  # gradients squeezed together, to share the cost of each call
EDGES = 128  # candidate cuts of the dynamic programme
SLAB = 16  # ends of cells that it takes at once: half of all pairs of cuts are never formed
BLOCK = 16  # entries of one step of the prefix sums
BEFORE = np.tri(BLOCK, BLOCK, -1)  # row i keeps what stands before place i of a block
SMALL = 8192  # entries up to which there are twice as many, and finer ones around the best cuts
REACH = 8  # of these on either side
RELAXED, RELAXATION = 5, 1.9  # Lloyd's first steps go this much further
LIMIT = 300  # steps of Lloyd's algorithm
FAR = 1024  # times the middle half of the entries: with their middle further off they are centred
HUGE = 2.0**120  # beyond this, sums of float32 could overflow
LARGEST = 1e300  # entry of a gradient: its norm is finite too


@dataclass(frozen=True)
class Squeezed:
    """`levels` [N, d'] ascending, `codes` [N, d] uint8: entry i of client k is levels[k, codes[k, i]]."""

    levels: np.ndarray
    codes: np.ndarray

    def restore(self) -> np.ndarray:
        """Z [N, d], every entry replaced by its level."""
        result = np.empty(self.codes.shape, self.levels.dtype)
        for row, v, c in zip(result, self.levels, self.codes, strict=True):
            v.take(c, out=row, mode="clip")  # there is nothing to clip: numpy then needs no room
        return result

    def norms(self) -> np.ndarray:
        """The norms of Z_k, float64 [N], from the counts of the codes."""
        norms = []
        for levels, c in zip(self.levels, self.codes, strict=True):
            v, e = rescale_exponent(levels.astype(np.float64))
            counts = np.array([np.count_nonzero(c == j) for j in range(len(v))])
            norms.append(np.ldexp(np.sqrt(counts @ v**2), e))
        return np.array(norms)

    @property
    def bits(self) -> int:
        """What one client sends: d' floats of 32 bits and d codes of ceil(log2 d') bits."""
        levels, d = self.levels.shape[1], self.codes.shape[1]
        return 32 * levels + d * int(np.ceil(np.log2(levels)))


def squeeze(gradients, levels: int) -> Squeezed:
    """Squeeze gradients [d] or [N, d] to `levels` (2..256) levels each.

    Deterministic, each gradient by itself, and a local optimum of the 1-D k-means objective: a dynamic
    programme over candidate cuts of the sorted entries, and Lloyd's algorithm from there. On gradients of
    39,760 entries it was within 0.2 % of the global optimum at 9 levels and fewer, 1 % at 16, 19 % at 32
    and 8 % at 64; at 256 it was up to 260 times it. Far from zero levels are as fine as the entries'
    floats. With fewer than d' distinct entries the levels repeat and codes use the first. `InputError`
    for entries that are not finite, or beyond 1e300.
    """
    given = hasattr(gradients, "dtype")
    rows = np.atleast_2d(gradients if given else as_float_array("gradients", gradients, ndim=None))
    levels = check_int("levels", levels, 2, 256)
    if rows.ndim != 2 or not rows.size:
        raise InputError("gradients must be [d] or [N, d] and not empty")
    if rows.dtype not in (np.float32, np.float64):
        rows = as_float_array("gradients", rows, ndim=2)
    count, d = rows.shape
    centres, far = np.empty((count, levels), dtype=rows.dtype), np.empty(count, dtype=bool)
    codes = np.empty(rows.shape, dtype=np.uint8)
    padded = np.zeros((min(ROWS, count), (d // BLOCK + 1) * BLOCK), dtype=rows.dtype)
    for these in np.array_split(np.arange(count), -(-count // ROWS)):
        x = padded[: len(these)]
        for k, room in zip(these, x[:, :d], strict=True):
            room[:] = rows[k]
            room.sort()
        ends = x[:, [0, d - 1]].astype(float)  # where sorting puts what is not finite
        if not (np.abs(ends) <= LARGEST).all():
            raise InputError(f"a gradient holds a number that is not finite, or beyond {LARGEST:g}")
        far[these] = away = _far(x, d)
        if not away.all():
            centres[these[~away]] = _centres(x[~away] if away.any() else x, d, levels)
        for k in np.flatnonzero(away):
            centres[these[k]] = _moved(x[k], d, levels)
    boundaries, above = _boundaries(centres, far), np.empty(d, dtype=bool)
    for row, cuts, code in zip(rows, boundaries, codes, strict=True):
        np.greater(row, cuts[0], out=code.view(bool))  # on a tie, the lower level
        for cut in cuts[1:]:
            np.greater(row, cut, out=above)
            code += above.view(np.uint8)
    return Squeezed(centres, codes)


def _boundaries(centres: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Midpoints of the levels [N, d'], in the precision of the entries: rounded down where these lie
    `far` [N] from zero and so on a grid, for one that is rounded up to an entry would move it."""
    wide = centres.astype(np.float64)
    middle = (wide[:, 1:] + wide[:, :-1]) / 2
    typed = middle.astype(centres.dtype)
    up = far[:, None] & (typed > middle)
    typed[up] = np.nextafter(typed[up], -np.inf, dtype=typed.dtype)
    return typed


def _far(x: np.ndarray, d: int) -> np.ndarray:
    """Which of R sorted gradients [R] lie far from zero beside their spread, or cannot be summed and
    squared as they are."""
    low, first, middle, third, high = x[:, [0, d // 4, d // 2, 3 * d // 4, d - 1]].T.astype(float)
    largest = np.maximum(-low, high)
    extreme = largest > HUGE
    if x.dtype == np.float64:
        extreme |= (largest > 0) & (largest < 1 / HUGE)
    return extreme | (np.abs(middle) > FAR * (third - first))


def _moved(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Levels [d'] of one sorted gradient, found around its median and in float64."""
    distinct = np.unique(x[:d])
    if len(distinct) <= levels:
        return np.pad(distinct, (0, levels - len(distinct)), mode="edge")
    y, e = rescale_exponent(x.astype(np.float64))
    middle = y[d // 2]
    y[:d] -= middle
    y, finer = rescale_exponent(y)
    few = len(distinct) <= 4 * EDGES  # all cuts between them are tried
    found = _few(y[None], d, levels) if few else _centres(y[None], d, levels)[0]
    found = np.ldexp(found, finer) + middle
    return np.clip(np.ldexp(found, e), x[0], x[d - 1])


def _centres(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Levels [R, d'], ascending, of R sorted gradients of d entries, padded to whole blocks by zeros."""
    places = _grid(d)
    values = x.take(np.minimum(places, d - 1), axis=1)
    many = (values[:, 1:] != values[:, :-1]).sum(axis=1) >= 4 * levels
    if not many.all():
        result = np.empty((len(x), levels), dtype=x.dtype)
        result[~many] = [_few(row[None], d, levels) for row in x[~many]]
        if many.any():
            result[many] = _centres(x[many], d, levels)
        return result
    prefix = Prefix(x)
    cuts = _programme(_candidates(places, values, levels), prefix, levels)
    step = d // REACH if d <= SMALL else 0
    while step > 1:
        step = -(-step // REACH)
        cuts = _refine(cuts, step, prefix)
    return _lloyd(cuts, prefix, x[:, :d])


def _few(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Levels [d'] of one gradient [1, ...] with few different entries: cuts stand between those alone."""
    starts = np.flatnonzero(np.diff(x[0, :d])) + 1
    if len(starts) < levels:
        distinct = x[0, np.concatenate([[0], starts])]
        return np.pad(distinct, (0, levels - len(distinct)), mode="edge")
    spread = np.linspace(0, len(starts) - 1, max(4 * EDGES, 2 * levels)).astype(np.intp)
    edges = np.concatenate([[0], np.unique(starts[spread]), [d]])[None]
    prefix = Prefix(x)
    return _lloyd(_programme(edges, prefix, levels), prefix, x[:, :d])[0]


class Prefix:
    """Sums of the first i entries of each row of x [R, B BLOCK]: per block, and within a block when asked."""

    def __init__(self, x: np.ndarray):
        rows, self.blocks = len(x), x.shape[1] // BLOCK
        self.x = x.reshape(-1, BLOCK)
        inside = x.reshape(rows, self.blocks, BLOCK) @ np.ones(BLOCK, x.dtype)
        self.sums = np.zeros((rows, self.blocks))
        np.cumsum(inside[:, :-1], axis=1, out=self.sums[:, 1:])
        self.before = BEFORE.astype(x.dtype)

    def __call__(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Sums [R, k] of the entries before `places` [R, k] of `rows` [R, 1]."""
        block = places // BLOCK + rows * self.blocks
        part = self.before.take(places % BLOCK, axis=0)
        within = np.einsum("rki,rki->rk", self.x.take(block, axis=0), part)
        return self.sums.take(block) + within


@lru_cache(maxsize=16)
def _grid(d: int) -> np.ndarray:
    """Places among d sorted entries, denser in the tails."""
    tail = np.geomspace(1, max(d / 2, 1), 60)
    places = np.round(np.concatenate([np.linspace(0, d, 4 * EDGES + 1), tail, d - tail]))
    return np.unique(np.clip(places, 0, d)).astype(np.intp)


def _candidates(places: np.ndarray, values: np.ndarray, levels: int) -> np.ndarray:
    """Candidate cuts [R, E + 1] among the places, where the sorted rows have these values [R, P].

    At equal steps of the cube root of the density, where an optimal quantiser puts its boundaries
    (Panter and Dite); all places, if they are few.
    """
    last, count = len(places) - 1, max(EDGES if places[-1] > SMALL else 2 * EDGES, 2 * levels)
    rows, order = np.arange(len(values))[:, None], np.arange(count + 1)
    if last <= count:
        return np.repeat(places[None], len(values), axis=0)
    gaps = np.diff(values.astype(np.float64))
    mass = np.cbrt(np.diff(places) * gaps * gaps).cumsum(axis=1)
    mass /= mass[:, -1:]
    steps = order[1:-1] / count + 2 * rows  # rows apart, so that one search serves all
    found = np.zeros((len(values), count + 1), dtype=np.intp)
    found[:, 1:-1] = (mass + 2 * rows).ravel().searchsorted(steps) - rows * last + 1
    found = np.maximum.accumulate(found - order, axis=1) + order  # all different
    found = np.minimum(found, last - count + order)
    found[:, -1] = last
    return places[found]


def _programme(edges: np.ndarray, prefix: Prefix, levels: int) -> np.ndarray:
    """The best d' + 1 cuts among candidates [R, E + 1]: the dynamic programme of 1-D k-means."""
    rows, e = np.arange(len(edges)), edges.shape[1] - 1
    sums = prefix(rows[:, None], edges)
    sums -= sums[:, -1:] / edges[:, -1:] * edges
    s, n = sums.T.copy(), edges.T.astype(np.float64, order="C")
    room = np.empty((2, e * len(edges) * SLAB))
    best = np.full((levels - 1, e + 1, len(edges)), -np.inf)  # [cells - 1, to, R]
    for start in range(1, e + 1, SLAB):
        to = slice(start, min(start + SLAB, e + 1))
        gain, total = _gains(s, n, to, room)
        best[0, to] = gain[0]
        for known, found in pairwise(best):
            np.add(gain, known[: len(gain), None], out=total).max(axis=0, out=found[to])
    cuts = np.zeros((len(edges), levels + 1), dtype=np.intp)
    cuts[:, -1], place = edges[:, -1], np.full(len(edges), e)
    for level in range(levels - 1, 0, -1):
        last = (s[place, rows] - s) ** 2 / np.maximum(n[place, rows] - n, 1)
        last[np.arange(e + 1)[:, None] >= place] = -np.inf
        place = (last + best[level - 1]).argmax(axis=0)
        cuts[:, level] = edges[rows, place]
    return cuts


def _gains(s: np.ndarray, n: np.ndarray, to: slice, room: np.ndarray) -> tuple:
    """What each cell lowers the objective by, [from, to, R], for the cells that end in a slab of `to`.

    s^2 / n for a cell of n entries with sum s, from the mean of the row; -inf if it ends before it begins.
    `s` and `n` [E + 1, R] are the sums and counts before each candidate; both results lie in `room`,
    and the second is scratch.
    """
    shape = (to.stop - 1, to.stop - to.start, s.shape[1])
    gain, size = room[:, : np.prod(shape)].reshape(2, *shape)
    np.subtract(s[to], s[: len(gain), None], out=gain)
    gain *= gain
    np.subtract(n[to], n[: len(gain), None], out=size)
    gain /= np.maximum(size, 1, out=size)
    begin, end = np.ogrid[to.start : to.stop - 1, to]
    gain[to.start :] += np.where(begin < end, 0, -np.inf)[:, :, None]
    return gain, size


def _refine(cuts: np.ndarray, step: int, prefix: Prefix) -> np.ndarray:
    """The best cuts among those up to REACH steps from the given ones, by the same programme."""
    rows, levels, d = np.arange(len(cuts)), cuts.shape[1] - 1, cuts[0, -1]
    near = np.clip(cuts[:, :, None] + step * np.arange(-REACH, REACH + 1), 1, d - 1)
    near[:, 0], near[:, -1] = 0, d
    sums = prefix(rows[:, None], near.reshape(len(cuts), -1)).reshape(near.shape)
    gain = (sums[:, 1:, :, None] - sums[:, :-1, None, :]) ** 2  # [R, cell, to, from]
    size = near[:, 1:, :, None] - near[:, :-1, None, :]
    gain = np.where(size > 0, gain / np.maximum(size, 1), -np.inf)
    best = [gain[:, 0, :, 0]]
    for cell in range(1, levels):
        best.append((gain[:, cell] + best[-1][:, None, :]).max(axis=2))
    place, after = np.zeros(len(cuts), dtype=np.intp), cuts.copy()
    for cell in range(levels - 1, 0, -1):
        place = (gain[rows, cell, place] + best[cell - 1]).argmax(axis=1)
        after[:, cell] = near[rows, cell, place]
    return after


def _lloyd(cuts: np.ndarray, prefix: Prefix, x: np.ndarray) -> np.ndarray:
    """Levels [R, d'] from cuts [R, d' + 1]: boundaries at midpoints, levels at means, until no cut moves.

    The first steps are over-relaxed. A cell without entries keeps its level.
    """
    result = np.zeros((len(x), cuts.shape[1] - 1))
    left, rows = list(x), np.arange(len(x))[:, None]
    sums, means, before = prefix(rows, cuts), result, None
    for step in range(LIMIT):
        inner = cuts[:, 1:-1]
        sums[:, 1:-1] = prefix(rows, inner)
        sizes = cuts[:, 1:] - cuts[:, :-1]
        totals = sums[:, 1:] - sums[:, :-1]
        means = np.divide(totals, sizes, out=means.copy(), where=sizes > 0)
        middle = (means[:, 1:] + means[:, :-1]) / 2
        if 0 < step < RELAXED:
            further = before + RELAXATION * (middle - before)
            middle = np.minimum(np.maximum(further, means[:, :-1]), means[:, 1:])
        before, typed = middle, middle.astype(x.dtype)
        after = np.array([a.searchsorted(b, "right") for a, b in zip(left, typed, strict=True)])
        if step >= RELAXED:
            moves = (after != inner).any(axis=1) & (step < LIMIT - 1)
            if not moves.all():
                result[rows[~moves, 0]] = means[~moves]
                if not moves.any():
                    break
                rows, cuts, sums, means, after = (
                    v[moves] for v in (rows, cuts, sums, means, after)
                )
                left = [a for a, m in zip(left, moves, strict=True) if m]
        cuts[:, 1:-1] = after
    return result
