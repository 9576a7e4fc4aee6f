"""Information squeeze: quantise a gradient's entries by 1-D k-means (FedSTaS, Alg. 1, after FedSTS).

A gradient of d floats becomes d' levels and one code per entry. The paper restores Z_k from both; the
authors' code clusters the d' levels alone, and in arbitrary order.

The optimum of 1-D k-means cuts the sorted entries into consecutive cells. `squeeze` sorts them, finds the best
cuts among some candidates by dynamic programming (Wang and Song 2011, R Journal 3(2)), and goes on with
Lloyd's algorithm. In shapes, R is the number of gradients that are squeezed together and E the number of candidates.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from fedstas.arrays import as_float_array, rescale_exponent
from fedstas.errors import InputError, check_int

ROWS_AT_ONCE = 50  # gradients squeezed together, to share the cost of each call
CANDIDATES = 128  # cuts among which the dynamic programme chooses
ENDS_AT_ONCE = 16  # ends of cells in one step of the dynamic programme, so that fewer pairs of cuts are computed
BLOCK = 16  # entries in one step of the prefix sums
PRECEDING = np.tri(BLOCK, BLOCK, -1)  # row i has ones for the entries before place i of a block
REFINED_SIZE = 8192  # up to this many entries there are 2 CANDIDATES candidates, and then finer ones around the best
REFINED_STEPS = 8  # finer candidates on either side of a cut
RELAXED_STEPS, RELAXATION = 5, 1.9  # Lloyd's first steps are longer by this factor
MAX_STEPS = 300  # of Lloyd's algorithm
# Entries are centred if their median exceeds this multiple of their interquartile range.
MAX_OFFSET = 1024
MAX_SUMMABLE = 2.0**120  # largest entry for which sums of float32 cannot overflow
MAX_ENTRY = 1e300  # largest entry of a gradient; its norm is then finite, too


@dataclass(frozen=True)
class Squeezed:
    """`levels` [N, d'] ascending, `codes` [N, d] uint8: entry i of client k is levels[k, codes[k, i]]."""

    levels: np.ndarray
    codes: np.ndarray

    def restore(self) -> np.ndarray:
        """Return Z [N, d], every entry replaced by its level."""
        result = np.empty(self.codes.shape, self.levels.dtype)
        for row, v, c in zip(result, self.levels, self.codes, strict=True):
            v.take(c, out=row, mode="clip")  # all codes are valid: numpy then needs no buffer
        return result

    def norms(self) -> np.ndarray:
        """Return the norms of Z_k, float64 [N], from the counts of the codes."""
        norms = []
        for levels, c in zip(self.levels, self.codes, strict=True):
            v, e = rescale_exponent(levels.astype(np.float64))
            counts = np.array([np.count_nonzero(c == j) for j in range(len(v))])
            norms.append(np.ldexp(np.sqrt(counts @ v**2), e))
        return np.array(norms)

    @property
    def bits(self) -> int:
        """The bits that one client sends: d' floats of 32 and d codes of ceil(log2 d')."""
        levels, d = self.levels.shape[1], self.codes.shape[1]
        return 32 * levels + d * int(np.ceil(np.log2(levels)))


def squeeze(gradients, levels: int) -> Squeezed:
    """Squeeze gradients [d] or [N, d] to `levels` (2..256) levels each.

    Deterministic, and each gradient by itself. The result is a local optimum of the 1-D k-means objective: on
    gradients of 39,760 entries within 0.2 % of the global optimum at 9 levels and fewer, 1 % at 16, 19 % at 32
    and 8 % at 64; at 256 its objective was up to 260 times as large. With fewer than d' distinct entries the
    levels repeat and codes use the first.

    Raises:
        InputError: for entries that are not finite, or beyond 1e300.
    """
    is_array = hasattr(gradients, "dtype")
    array = gradients if is_array else as_float_array("gradients", gradients, ndim=None)
    rows = np.atleast_2d(array)
    levels = check_int("levels", levels, 2, 256)
    if rows.ndim != 2 or not rows.size:
        raise InputError("gradients must be [d] or [N, d] and not empty")
    if rows.dtype not in (np.float32, np.float64):
        rows = as_float_array("gradients", rows, ndim=2)
    count, d = rows.shape
    centres, centred = np.empty((count, levels), dtype=rows.dtype), np.empty(count, dtype=bool)
    codes = np.empty(rows.shape, dtype=np.uint8)
    padded = np.zeros((min(ROWS_AT_ONCE, count), (d // BLOCK + 1) * BLOCK), dtype=rows.dtype)
    for group in np.array_split(np.arange(count), math.ceil(count / ROWS_AT_ONCE)):
        x = padded[: len(group)]
        for k, entries in zip(group, x[:, :d], strict=True):
            entries[:] = rows[k]
            entries.sort()
        ends = x[:, [0, d - 1]].astype(float)  # sorting puts what is not finite there
        if not (np.abs(ends) <= MAX_ENTRY).all():
            raise InputError(
                f"a gradient holds a number that is not finite, or beyond {MAX_ENTRY:g}"
            )
        centred[group] = special = _needs_centring(x, d)
        if not special.all():
            centres[group[~special]] = _fit_levels(x[~special] if special.any() else x, d, levels)
        for k in np.flatnonzero(special):
            centres[group[k]] = _centred_levels(x[k], d, levels)
    boundaries, above = _round_midpoints(centres, centred), np.empty(d, dtype=bool)
    for row, cuts, code in zip(rows, boundaries, codes, strict=True):
        np.greater(row, cuts[0], out=code.view(bool))  # on a tie, the lower level
        for cut in cuts[1:]:
            np.greater(row, cut, out=above)
            code += above.view(np.uint8)
    return Squeezed(centres, codes)


def _round_midpoints(centres: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """Return the midpoints [N, d' - 1] of neighbouring levels [N, d'], in the precision of the entries.

    Entries of a `centred` [N] gradient lie on a coarse grid of floats, where a midpoint that is rounded up to an
    entry would move that entry to the lower level: there they are rounded down.
    """
    wide = centres.astype(np.float64)
    midpoints = (wide[:, 1:] + wide[:, :-1]) / 2
    rounded = midpoints.astype(centres.dtype)
    up = centred[:, None] & (rounded > midpoints)
    rounded[up] = np.nextafter(rounded[up], -np.inf, dtype=rounded.dtype)
    return rounded


def _needs_centring(x: np.ndarray, d: int) -> np.ndarray:
    """Return which of R gradients [R] are far from zero relative to their interquartile range, or have entries whose
    squares or sums could leave the range of floats.

    Args:
        x: the gradients [R, at least d], each sorted in its first d entries.
        d: the number of entries of a gradient.
    """
    low, first, middle, third, high = x[:, [0, d // 4, d // 2, 3 * d // 4, d - 1]].T.astype(float)
    largest = np.maximum(-low, high)
    extreme = largest > MAX_SUMMABLE
    # Squares are computed in float64. Those of tiny float64 entries could underflow to 0; those of float32 entries, which
    # are at least 2^-149, cannot.
    if x.dtype == np.float64:
        extreme |= (largest > 0) & (largest < 1 / MAX_SUMMABLE)
    return extreme | (np.abs(middle) > MAX_OFFSET * (third - first))


def _centred_levels(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Fit levels [d'] to one sorted gradient in float64, after its median is subtracted and it is rescaled."""
    distinct = np.unique(x[:d])
    if len(distinct) <= levels:
        return np.pad(distinct, (0, levels - len(distinct)), mode="edge")
    y, e = rescale_exponent(x.astype(np.float64))
    middle = y[d // 2]
    y[:d] -= middle
    y, finer = rescale_exponent(y)
    if len(distinct) <= 4 * CANDIDATES:  # all cuts between them are candidates
        fitted = _fit_levels_of_few_values(y[None], d, levels)
    else:
        (fitted,) = _fit_levels(y[None], d, levels)
    fitted = np.ldexp(fitted, finer) + middle
    return np.clip(np.ldexp(fitted, e), x[0], x[d - 1])


def _fit_levels(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Fit levels [R, d'], ascending, to R sorted gradients of d entries, padded by zeros to whole blocks."""
    places = _candidate_grid(d)
    values = x.take(np.minimum(places, d - 1), axis=1)
    # Rows whose entries change less often along the places than four times a level have few distinct values.
    many = (values[:, 1:] != values[:, :-1]).sum(axis=1) >= 4 * levels
    if not many.all():
        result = np.empty((len(x), levels), dtype=x.dtype)
        result[~many] = [_fit_levels_of_few_values(row[None], d, levels) for row in x[~many]]
        if many.any():
            result[many] = _fit_levels(x[many], d, levels)
        return result
    prefix = PrefixSums(x)
    cuts = _optimise_cuts(_choose_candidates(places, values, levels), prefix, levels)
    step = d // REFINED_STEPS if d <= REFINED_SIZE else 0
    while step > 1:
        step = math.ceil(step / REFINED_STEPS)
        cuts = _refine_cuts(cuts, step, prefix)
    return _iterate_lloyd(cuts, prefix, x[:, :d])


def _fit_levels_of_few_values(x: np.ndarray, d: int, levels: int) -> np.ndarray:
    """Fit levels [d'] to one sorted gradient [1, ...] of few distinct entries: candidate cuts are between these."""
    starts = np.flatnonzero(np.diff(x[0, :d])) + 1
    if len(starts) < levels:
        distinct = x[0, np.concatenate([[0], starts])]
        return np.pad(distinct, (0, levels - len(distinct)), mode="edge")
    # If there are more than so many cuts between distinct entries, as many at equal steps of their ranks.
    spread = np.linspace(0, len(starts) - 1, max(4 * CANDIDATES, 2 * levels)).astype(np.intp)
    edges = np.concatenate([[0], np.unique(starts[spread]), [d]])[None]
    prefix = PrefixSums(x)
    (fitted,) = _iterate_lloyd(_optimise_cuts(edges, prefix, levels), prefix, x[:, :d])
    return fitted


class PrefixSums:
    """Sums of the first i entries of each row of x [R, B BLOCK]: those of whole blocks are stored, the rest of
    a block is summed when they are asked for."""

    def __init__(self, x: np.ndarray):
        rows, self.blocks = len(x), x.shape[1] // BLOCK
        self.x = x.reshape(-1, BLOCK)
        inside = x.reshape(rows, self.blocks, BLOCK) @ np.ones(BLOCK, x.dtype)
        self.sums = np.zeros((rows, self.blocks))
        np.cumsum(inside[:, :-1], axis=1, out=self.sums[:, 1:])
        self.before = PRECEDING.astype(x.dtype)

    def __call__(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the sums [R, k] of the entries before `places` [R, k] in `rows` [R, 1]."""
        block = places // BLOCK + rows * self.blocks  # its place among the blocks of all rows
        part = self.before.take(places % BLOCK, axis=0)
        within = np.einsum("rki,rki->rk", self.x.take(block, axis=0), part)
        return self.sums.take(block) + within


@lru_cache(maxsize=16)
def _candidate_grid(d: int) -> np.ndarray:
    """Return places among d sorted entries where a cut may be, denser in the tails."""
    tail = np.geomspace(1, max(d / 2, 1), 60)
    places = np.round(np.concatenate([np.linspace(0, d, 4 * CANDIDATES + 1), tail, d - tail]))
    return np.unique(np.clip(places, 0, d)).astype(np.intp)


def _choose_candidates(places: np.ndarray, values: np.ndarray, levels: int) -> np.ndarray:
    """Choose the candidate cuts [R, E + 1] of R sorted rows among given places.

    The candidates lie at equal steps of the integral of the cube root of the density of a row's entries, where an optimal
    quantiser has its boundaries (Panter and Dite 1951). Both ends are among them. If there are at most E + 1 places, all
    are candidates.

    Args:
        places: from 0 to d, ascending, [P]; place k is the cut before entry k of a row of d entries.
        values: each row's entries at the places, [R, P]; at place d, which no entry has, the largest one.
        levels: d' of the fit; E is at least twice as large.
    """
    cells = max(CANDIDATES if places[-1] > REFINED_SIZE else 2 * CANDIDATES, 2 * levels)  # E
    last = len(places) - 1
    if last <= cells:
        return np.repeat(places[None], len(values), axis=0)
    # Between two places the density is the number of entries over the gap of their values, and the integral of its cube
    # root is (entries / gap)^(1/3) gap = (entries gap^2)^(1/3). `integral` [R, P - 1] is from the first place.
    gaps = np.diff(values.astype(np.float64))
    integral = np.cbrt(np.diff(places) * gaps * gaps).cumsum(axis=1)
    integral /= integral[:, -1:]
    # Candidate i is the first place where the row's integral is at least i / E. One search serves all rows: 2 r is added
    # to row r, whose values are in 0..1, so that the rows laid end to end ascend, with a gap that rounding cannot close.
    # From the index found there, r * last is subtracted, the entries of earlier rows; 1 is added, since entry i of
    # `integral` belongs to place i + 1.
    rows, order = np.arange(len(values))[:, None], np.arange(cells + 1)
    steps = order[1:-1] / cells + 2 * rows
    chosen = np.zeros((len(values), cells + 1), dtype=np.intp)
    chosen[:, 1:-1] = (integral + 2 * rows).ravel().searchsorted(steps) - rows * last + 1
    # All must differ: each is at least one place after the one before, and leaves room for those after it.
    chosen = np.maximum.accumulate(chosen - order, axis=1) + order
    chosen = np.minimum(chosen, last - cells + order)
    chosen[:, -1] = last
    return places[chosen]


def _optimise_cuts(edges: np.ndarray, prefix: PrefixSums, levels: int) -> np.ndarray:
    """Choose the best d' + 1 cuts among candidate `edges` [R, E + 1], by the dynamic programme of 1-D k-means.

    best[l, e] is the largest gain of l + 1 cells that end at candidate e, `_cell_gains` added up; the optimal cuts are
    read off backwards.
    """
    rows, e = np.arange(len(edges)), edges.shape[1] - 1
    sums = prefix(rows[:, None], edges)
    sums -= sums[:, -1:] / edges[:, -1:] * edges  # of entries less their row's mean
    s, n = sums.T.copy(), edges.T.astype(np.float64, order="C")  # [E + 1, R]
    buffer = np.empty((2, e * len(edges) * ENDS_AT_ONCE))
    best = np.full((levels - 1, e + 1, len(edges)), -np.inf)  # [cells - 1, to, R]
    for start in range(1, e + 1, ENDS_AT_ONCE):
        to = slice(start, min(start + ENDS_AT_ONCE, e + 1))
        gain, total = _cell_gains(s, n, to, buffer)
        best[0, to] = gain[0]
        for fewer, more in pairwise(best):
            np.add(gain, fewer[: len(gain), None], out=total).max(axis=0, out=more[to])
    cuts = np.zeros((len(edges), levels + 1), dtype=np.intp)
    cuts[:, -1], place = edges[:, -1], np.full(len(edges), e)
    for level in range(levels - 1, 0, -1):
        # [E + 1, R]: the gain of a cell from each candidate to `place`, the end that is decided already.
        last_cell = (s[place, rows] - s) ** 2 / np.maximum(n[place, rows] - n, 1)
        last_cell[np.arange(e + 1)[:, None] >= place] = -np.inf
        place = (last_cell + best[level - 1]).argmax(axis=0)
        cuts[:, level] = edges[rows, place]
    return cuts


def _cell_gains(s: np.ndarray, n: np.ndarray, to: slice, buffer: np.ndarray) -> tuple:
    """Compute the gains of all possible cells that end in the slice `to`.

    The gain of a cell of n entries with sum s is s^2 / n. By so much the sum of its squared errors falls if its level is
    its own mean s / n instead of 0, the row's mean, which the caller has subtracted. It is -inf if the cell would not
    begin before its end.

    Args:
        s: sums of the entries before each candidate [E + 1, R].
        n: counts of these entries [E + 1, R].
        to: the candidates at which the cells end.
        buffer: memory for the two results.

    Returns:
        The gains [from, to, R]; and a scratch array of the same shape, which the caller may overwrite.
    """
    shape = (to.stop - 1, to.stop - to.start, s.shape[1])  # a cell begins before the last end
    gain, size = buffer[:, : np.prod(shape)].reshape(2, *shape)
    np.subtract(s[to], s[: len(gain), None], out=gain)
    gain *= gain
    np.subtract(n[to], n[: len(gain), None], out=size)
    gain /= np.maximum(size, 1, out=size)
    # Cells that begin before `to.start` end after they begin: only the others can be impossible.
    begin, end = np.ogrid[to.start : to.stop - 1, to]
    gain[to.start :] += np.where(begin < end, 0, -np.inf)[:, :, None]
    return gain, size


def _refine_cuts(cuts: np.ndarray, step: int, prefix: PrefixSums) -> np.ndarray:
    """Choose the best cuts [R, d' + 1] among those up to REFINED_STEPS steps from the given ones, by the dynamic
    programme of `_optimise_cuts`; `step` is a number of entries."""
    rows, levels, d = np.arange(len(cuts)), cuts.shape[1] - 1, cuts[0, -1]
    near = np.clip(cuts[:, :, None] + step * np.arange(-REFINED_STEPS, REFINED_STEPS + 1), 1, d - 1)
    near[:, 0], near[:, -1] = 0, d
    sums = prefix(rows[:, None], near.reshape(len(cuts), -1)).reshape(near.shape)
    gain = (sums[:, 1:, :, None] - sums[:, :-1, None, :]) ** 2  # [R, cell, to, from]
    size = near[:, 1:, :, None] - near[:, :-1, None, :]
    gain = np.where(size > 0, gain / np.maximum(size, 1), -np.inf)
    # best[l][r, j]: the largest gain of l + 1 cells of row r that end at the j-th place near cut l + 1.
    best = [gain[:, 0, :, 0]]
    for cell in range(1, levels):
        best.append((gain[:, cell] + best[-1][:, None, :]).max(axis=2))
    place, after = np.zeros(len(cuts), dtype=np.intp), cuts.copy()
    for cell in range(levels - 1, 0, -1):
        place = (gain[rows, cell, place] + best[cell - 1]).argmax(axis=1)
        after[:, cell] = near[rows, cell, place]
    return after


def _iterate_lloyd(cuts: np.ndarray, prefix: PrefixSums, x: np.ndarray) -> np.ndarray:
    """Run Lloyd's algorithm on sorted rows x [R, d] from cuts [R, d' + 1], and return the levels [R, d'].

    Levels are the means of cells, boundaries the midpoints of levels, until no cut moves. The first steps are
    over-relaxed. A cell without entries keeps its level.
    """
    result = np.zeros((len(x), cuts.shape[1] - 1))
    active, rows = list(x), np.arange(len(x))[:, None]
    sums, means, previous = prefix(rows, cuts), result, None
    for step in range(MAX_STEPS):
        inner = cuts[:, 1:-1]
        sums[:, 1:-1] = prefix(rows, inner)
        sizes = cuts[:, 1:] - cuts[:, :-1]
        totals = sums[:, 1:] - sums[:, :-1]
        means = np.divide(totals, sizes, out=means.copy(), where=sizes > 0)
        midpoints = (means[:, 1:] + means[:, :-1]) / 2
        if 0 < step < RELAXED_STEPS:
            relaxed = previous + RELAXATION * (midpoints - previous)
            midpoints = np.minimum(np.maximum(relaxed, means[:, :-1]), means[:, 1:])
        previous, boundaries = midpoints, midpoints.astype(x.dtype)
        after = np.array(
            [a.searchsorted(b, "right") for a, b in zip(active, boundaries, strict=True)]
        )
        if step >= RELAXED_STEPS:
            moves = (after != inner).any(axis=1) & (step < MAX_STEPS - 1)
            if not moves.all():
                result[rows[~moves, 0]] = means[~moves]
                if not moves.any():
                    break
                rows, cuts, sums, means, after = (
                    v[moves] for v in (rows, cuts, sums, means, after)
                )
                active = [a for a, m in zip(active, moves, strict=True) if m]
        cuts[:, 1:-1] = after
    return result
