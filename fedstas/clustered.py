"""Clustered sampling (Fraboni et al., ICML 2021, arXiv:2105.05883): one draw from each of m distributions.

The distributions are the rows of r [m, N], with row sums 1 and column sums m p_i, p_i = n_i/n. Then weights 1/m are
unbiased (their Proposition 1, eq. 7-8), and no client's weight varies more than under MD sampling (eq. 17). Computations
are in whole numbers r' = n r: each row has the capacity n, and client i has the mass m n_i to distribute over the rows.

The printed pseudocode of both algorithms has errors (see `theory.printed_algorithm_1` and `_2`); the functions here
follow their Fig. 3 and 4.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedstas.arrays import as_float_array, as_int_array, rescale_exponent
from fedstas.client_sampling import Cohort, View, check_sizes
from fedstas.config import choice_field, config
from fedstas.errors import InputError, check_choice, check_int
from fedstas.state import Renewed, renewed
from fedstas.stratification import round_to_grid

MEASURES = ("arccos", "L2", "L1")
LINKAGES = ("ward", "single", "complete", "average", "weighted", "centroid", "median")
MAX_ROWS = 10**6  # distributions


def _fill(masses, capacities) -> np.ndarray:
    """Distribute masses [n] over rows of the given capacities [m], one after another; return each row's parts [m, n]."""
    # Laid end to end on a line, masses are intervals, and so are rows: a part is the length of their intersection.
    ends, stops = np.cumsum(masses), np.cumsum(capacities)[:, None]
    starts = np.maximum(ends - masses, stops - np.reshape(capacities, (-1, 1)))
    return np.maximum(np.minimum(ends, stops) - starts, 0)


def counts_by_size(sizes, m: int) -> np.ndarray:
    """Return r' int [m, N] of Algorithm 1: clients by descending size, ties by index, fill row after row."""
    sizes, m = check_sizes(sizes), check_int("m", m, 1, MAX_ROWS)
    order = np.argsort(-sizes, kind="stable")
    rows = np.zeros((m, len(sizes)), dtype=np.int64)
    rows[:, order] = _fill(m * sizes[order], np.full(m, sizes.sum()))
    return rows


def by_size(sizes, m: int) -> np.ndarray:
    """Return r [m, N] of Algorithm 1 (Fig. 3). A client with n_k > n/m can fill several rows."""
    return counts_by_size(sizes, m) / check_sizes(sizes).sum()


def counts_by_groups(sizes, groups, m: int) -> np.ndarray:
    """Return r' int [m, N] of Algorithm 2 after the clustering, for groups of any mass.

    A client, and then a group, whose mass exceeds a row's capacity first fills rows of its own. Then groups by
    decreasing mass (ties in their order) start a row each, while there are rows; the clients of the remaining groups,
    by decreasing mass of the group, fill the rows from the first on.
    """
    sizes, m = check_sizes(sizes), check_int("m", m, 1, MAX_ROWS)
    groups = [list(group) for group in groups]
    listed = as_int_array("the groups", [k for group in groups for k in group])
    if sorted(listed) != list(range(len(sizes))):
        raise InputError("each client must be in exactly one of the groups")
    total = int(sizes.sum())
    remaining = m * sizes  # the paper's u_i, mass that is not in a row yet
    rows, row = np.zeros((m, len(sizes)), dtype=np.int64), 0
    for members in [*([k] for k in listed), *groups]:
        while remaining[members].sum() > total:
            rows[row, members] = _fill(remaining[members], [total])
            remaining -= rows[row]
            row += 1
    ranked = sorted(groups, key=lambda group: -int(remaining[group].sum()))  # stable
    for i, group in enumerate(ranked[: m - row], row):
        rows[i, group] = remaining[group]
    rest = [k for group in ranked[m - row :] for k in group]
    rows[:, rest] += _fill(remaining[rest], total - rows.sum(1))
    return rows


def by_groups(sizes, groups, m: int) -> np.ndarray:
    """Return r [m, N] of Algorithm 2 after the clustering: see `counts_by_groups`."""
    return counts_by_groups(sizes, groups, m) / check_sizes(sizes).sum()


def dissimilarity(updates, measure: str) -> np.ndarray:
    """Return the distances [N, N] of representative gradients [N, d]; the angle with a zero vector is 0."""
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
    """Cluster representative gradients [N, d] hierarchically, into the largest subtrees of mass at most n.

    The mass of a group is m times its clients' sizes; a client of larger mass is a group by itself. `linkage` is any of
    scipy's, the paper's is "ward". Groups are in the order of the tree, clients ascending.

    The dissimilarities are taken as distances between clients, as the paper says. The authors' code passes the square
    matrix of them to scipy instead, which takes its rows for points: other groups, which the book's page on clustered sampling compares.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    sizes, m = check_sizes(sizes), check_int("m", m, 1, MAX_ROWS)
    distances = dissimilarity(updates, measure)
    check_choice("linkage", linkage, LINKAGES)
    clients, total = len(sizes), int(sizes.sum())
    if len(distances) != clients:
        raise InputError(
            f"there are {len(distances)} representative gradients and {clients} clients: give one for each"
        )
    if clients == 1:
        return [[0]]
    members: dict[int, list[int]] = {k: [k] for k in range(clients)}
    groups = set(members)  # nodes of the tree
    tree = hierarchy.linkage(squareform(distances, checks=False), linkage)
    for step, (a, b, *_) in enumerate(tree):
        a, b, node = int(a), int(b), clients + step
        members[node] = sorted(members[a] + members[b])
        if a in groups and b in groups and m * int(sizes[members[node]].sum()) <= total:
            groups -= {a, b}
            groups.add(node)
    return [members[node] for node in sorted(groups)]


@dataclass
class ClusteredState:
    """The distributions r [m, N], renewed in each round."""

    distributions: Renewed[np.ndarray] = renewed()


@config
class Clustered:
    """Draw one client from each of m distributions, weights 1/m (clustered sampling: Fraboni et al. 2021). Unbiased.

    `groups`: "size" (Algorithm 1), "similarity" (Algorithm 2: a hierarchical clustering of the clients' last updates,
    zero before their first) or "label" (the target of their Fig. 1: by majority label, which no real server knows).
    """

    needs = property(lambda self: ("labels",) if self.groups == "label" else ())
    State: ClassVar[type] = ClusteredState
    replaces: ClassVar[bool] = True
    groups: str = choice_field("similarity", "size", "label")
    measure: str = choice_field("arccos", *MEASURES)
    linkage: str = choice_field("ward", *LINKAGES, later=True)

    def distributions(self, view: View, m: int) -> np.ndarray:
        """Return r [m, N] of this round."""
        if self.groups == "size":
            return by_size(view.sizes, m)
        if self.groups == "label":
            labels = view.majority_labels
            groups = [np.flatnonzero(labels == c).tolist() for c in np.unique(labels)]
        else:
            updates = round_to_grid(view.last_updates())
            groups = similarity_groups(updates, view.sizes, m, self.measure, self.linkage)
        return by_groups(view.sizes, groups, m)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        distributions = view.state_of(self).distributions
        rows = distributions.get(view.round, 1, lambda: self.distributions(view, m))
        chosen = [rng.choice(view.clients, p=row) for row in rows]
        return Cohort(np.array(chosen), np.full(m, 1 / m))
