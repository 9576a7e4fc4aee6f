"""Clustered sampling (Fraboni et al., ICML 2021): m distributions over clients, one draw from each.

A matrix r [m, N] with row sums 1 and column sums m p_i, p_i = n_i/n, is unbiased with weights
1/m, and no client's weight varies more than under MD sampling (their Proposition 1, eq. 7-8).
Counts are whole numbers: row k holds r'_{k,i} of its capacity n, and client i has m n_i to place.

The printed pseudocode of both slips (`theory.printed_algorithm_1` and `_2` say where). Here: as Fig. 3
and 4 draw them.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.arrays import as_float_array, as_int_array, rescale_exponent
from fedstas.client_sampling import Cohort, View
from fedstas.client_sampling import check_sizes as _sizes
from fedstas.config import choice_field, config
from fedstas.errors import InputError, check_choice, check_int
from fedstas.state import Renewed, renewed
from fedstas.stratification import rounded

MEASURES = ("arccos", "L2", "L1")
LINKAGES = ("ward", "single", "complete", "average", "weighted", "centroid", "median")
MOST = 10**6  # distributions


def _laid(amounts, room) -> np.ndarray:
    """Amounts [n] laid end to end over rows with this room [m], int [m, n]: where intervals overlap."""
    ends, stops = np.cumsum(amounts), np.cumsum(room)[:, None]
    shared = np.minimum(ends, stops) - np.maximum(ends - amounts, stops - np.reshape(room, (-1, 1)))
    return np.maximum(shared, 0)


def counts_by_size(sizes, m: int) -> np.ndarray:
    """r' int [m, N] of Algorithm 1: clients by descending size, ties by index, laid end to end."""
    sizes, m = _sizes(sizes), check_int("m", m, 1, MOST)
    order = np.argsort(-sizes, kind="stable")
    rows = np.zeros((m, len(sizes)), dtype=np.int64)
    rows[:, order] = _laid(m * sizes[order], np.full(m, sizes.sum()))
    return rows


def by_size(sizes, m: int) -> np.ndarray:
    """r [m, N] of Algorithm 1 (Fig. 3). A client with n_k > n/m fills rows on its way."""
    return counts_by_size(sizes, m) / _sizes(sizes).sum()


def counts_by_groups(sizes, groups, m: int) -> np.ndarray:
    """r' int [m, N] of Algorithm 2 after the clustering, for groups of any mass.

    While a client alone exceeds a row, and then while a group does, it first fills dedicated rows
    of its own. Then groups by decreasing mass, ties in the order given, start a row each while
    rows are left; the clients of the remaining groups, by decreasing mass too, fill the rows from
    the first on.
    """
    sizes, m = _sizes(sizes), check_int("m", m, 1, MOST)
    groups = [list(group) for group in groups]
    listed = as_int_array("the groups", [k for group in groups for k in group])
    if sorted(listed) != list(range(len(sizes))):
        raise InputError("the groups must hold every client exactly once")
    total = int(sizes.sum())
    left = m * sizes  # u_i, what is still to be placed
    rows, row = np.zeros((m, len(sizes)), dtype=np.int64), 0
    for members in [*([k] for k in listed), *groups]:
        while left[members].sum() > total:
            rows[row, members] = _laid(left[members], [total])
            left -= rows[row]
            row += 1
    ranked = sorted(groups, key=lambda group: -int(left[group].sum()))  # stable
    for own, group in enumerate(ranked[: m - row], row):
        rows[own, group] = left[group]
    rest = [k for group in ranked[m - row :] for k in group]
    rows[:, rest] += _laid(left[rest], total - rows.sum(1))
    return rows


def by_groups(sizes, groups, m: int) -> np.ndarray:
    """r [m, N] of Algorithm 2 after the clustering: see `counts_by_groups`."""
    return counts_by_groups(sizes, groups, m) / _sizes(sizes).sum()


def dissimilarity(updates, measure: str) -> np.ndarray:
    """Distances [N, N] of representative gradients [N, d]; the angle with a zero vector is 0."""
    from scipy.spatial.distance import pdist, squareform

    check_choice("measure", measure, MEASURES)
    updates, e = rescale_exponent(as_float_array("representative gradients", updates, ndim=2))
    if measure != "arccos":
        metric = {"L2": "euclidean", "L1": "cityblock"}[measure]
        return np.ldexp(squareform(pdist(updates, metric)), e)
    norms = np.linalg.norm(updates, axis=1)
    unit = updates / np.where(norms > 0, norms, 1.0)[:, None]
    angles = np.arccos(np.clip(unit @ unit.T, -1.0, 1.0))
    angles[(norms == 0)[:, None] | (norms == 0)[None, :]] = 0.0
    np.fill_diagonal(angles, 0.0)
    return angles


def similarity_groups(
    updates, sizes, m: int, measure: str = "arccos", linkage: str = "ward"
) -> list[list[int]]:
    """The tree of the representative gradients, cut into the largest subtrees of mass <= n.

    `linkage` is any of scipy's; the paper's is Ward's. The mass of a group is m times its clients' sizes; a
    client heavier than a row is a group of its own. Groups in the tree's order, clients ascending.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    sizes, m = _sizes(sizes), check_int("m", m, 1, MOST)
    distances = dissimilarity(updates, measure)
    check_choice("linkage", linkage, LINKAGES)
    clients, total = len(sizes), int(sizes.sum())
    if len(distances) != clients:
        raise InputError("there must be one representative gradient per client")
    if clients == 1:
        return [[0]]
    members: dict[int, list[int]] = {k: [k] for k in range(clients)}
    whole = set(members)
    tree = hierarchy.linkage(squareform(distances, checks=False), linkage)
    for step, (a, b, *_) in enumerate(tree):
        a, b, node = int(a), int(b), clients + step
        members[node] = sorted(members[a] + members[b])
        if a in whole and b in whole and m * int(sizes[members[node]].sum()) <= total:
            whole -= {a, b}
            whole.add(node)
    return [members[node] for node in sorted(whole)]


@dataclass
class ClusteredState:
    """The distributions r [m, N], renewed in each round."""

    distributions: Renewed[np.ndarray] = renewed()


@config
class Clustered:
    """One draw from each of m distributions, weights 1/m.

    `groups`: "size" (Algorithm 1), "similarity" (Algorithm 2: the tree of the clients' last
    updates, zero before their first) or "label" (the target of their Fig. 1: groups by majority
    label, which no server knows).
    """

    State: ClassVar[type] = ClusteredState
    replaces: ClassVar[bool] = True
    groups: str = choice_field("similarity", "size", "label")
    measure: str = choice_field("arccos", *MEASURES)
    linkage: str = choice_field("ward", *LINKAGES, later=True)

    def distributions(self, view: View, m: int) -> np.ndarray:
        """r [m, N] of this round."""
        if self.groups == "size":
            return by_size(view.sizes, m)
        if self.groups == "label":
            labels = view.majority_labels
            groups = [np.flatnonzero(labels == c).tolist() for c in np.unique(labels)]
        else:
            updates = rounded(view.last_updates())
            groups = similarity_groups(updates, view.sizes, m, self.measure, self.linkage)
        return by_groups(view.sizes, groups, m)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        distributions = view.state_of(self).distributions
        rows = distributions.get(view.round, 1, lambda: self.distributions(view, m))
        chosen = [rng.choice(view.clients, p=row) for row in rows]
        return Cohort(np.array(chosen), np.full(m, 1 / m))
