"""Clustered sampling: Proposition 1 exactly, the reference cases, and the moments of the paper."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE as CASES
from scipy.cluster import hierarchy

from fedstas import clustered, methods
from fedstas.errors import InputError


@st.composite
def federations(draw):
    """Sizes (some zero, some far above n/m), a partition of the clients in listed groups, and m."""
    sizes = draw(st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any))
    order = draw(st.permutations(range(len(sizes))))
    cuts = sorted(draw(st.sets(st.integers(1, len(sizes)), max_size=len(sizes))) | {len(sizes)})
    groups = [list(order[a:b]) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    return sizes, groups, draw(st.integers(1, 14))


@given(federations())
def test_proposition_1_holds_exactly_for_every_input(federation):
    sizes, groups, m = federation
    for counts in (
        clustered.counts_by_size(sizes, m),
        clustered.counts_by_groups(sizes, groups, m),
    ):
        assert counts.shape == (m, len(sizes)) and counts.min() >= 0
        assert (counts.sum(1) == sum(sizes)).all()  # row sums 1
        assert (counts.sum(0) == m * np.array(sizes)).all()  # column sums m p_i
    for r in (clustered.by_size(sizes, m), clustered.by_groups(sizes, groups, m)):
        assert np.abs(r.sum(1) - 1).max() < 1e-12
        assert np.abs(r.sum(0) - m * np.array(sizes) / sum(sizes)).max() < 1e-12


@pytest.mark.parametrize("case", CASES["clustered_alg1"]["cases"], ids=lambda c: str(c["n"]))
def test_algorithm_1_agrees_with_the_reference_cases(case):
    n, m = case["n"], case["m"]
    assert clustered.counts_by_size(n, m).tolist() == case["r_prime"]
    expected = [[float(Fraction(x)) for x in row] for row in case["r"]]
    np.testing.assert_allclose(clustered.by_size(n, m), expected, atol=1e-12)


@pytest.mark.parametrize("case", CASES["clustered_alg2"]["cases"], ids=lambda c: str(c["groups"]))
def test_algorithm_2_agrees_with_the_reference_cases(case):
    counts = clustered.counts_by_groups(case["n"], case["groups"], case["m"])
    assert counts.tolist() == case["r_prime"]


@pytest.mark.parametrize("case", CASES["clustered_alg1"]["cases"], ids=lambda c: str(c["n"]))
def test_weights_have_the_moments_of_the_paper_by_enumeration_of_all_cohorts(case):
    n, m, total = case["n"], case["m"], sum(case["n"])
    counts = clustered.counts_by_size(n, m).tolist()
    r = [[Fraction(c, total) for c in row] for row in counts]
    mean, square, sampled = ([Fraction(0)] * len(n) for _ in range(3))
    occurring_counts = [set() for _ in n]
    for cohort in product(range(len(n)), repeat=m):
        chance = np.prod([r[k][i] for k, i in enumerate(cohort)])
        if not chance:
            continue
        for i in range(len(n)):
            count = cohort.count(i)
            occurring_counts[i].add(count)
            mean[i] += chance * Fraction(count, m)
            square[i] += chance * Fraction(count, m) ** 2
            sampled[i] += chance * (count > 0)
    assert mean == [Fraction(k, total) for k in n]  # unbiased
    variance = [b - a * a for a, b in zip(mean, square, strict=True)]
    assert variance == [Fraction(v) for v in case["var_clustered"]]
    assert sampled == [Fraction(v) for v in case["p_sampled_clustered"]]
    assert [[min(t), max(t)] for t in occurring_counts] == case["times_min_max"]
    md = [Fraction(v) for v in case["var_md"]]
    assert all(a <= b for a, b in zip(variance, md, strict=True))  # eq. 17


def test_a_client_larger_than_a_row_fills_rows_of_its_own_first():
    """Client i has the mass m n_i, here 14, 2, 2, 2, and a row holds n = 10."""
    counts = clustered.counts_by_groups([7, 1, 1, 1], [[0, 1], [2], [3]], 2)
    assert counts[0].tolist() == [10, 0, 0, 0]
    assert counts.sum(0).tolist() == [14, 2, 2, 2]


def test_a_group_larger_than_a_row_fills_one_row_and_starts_another():
    """Masses m n_i are 6, 6, 6, 2, 2, 2, and a row holds n = 12."""
    counts = clustered.counts_by_groups([3, 3, 3, 1, 1, 1], [[0, 1, 2], [3, 4, 5]], 2)
    assert counts.tolist() == [[6, 6, 0, 0, 0, 0], [0, 0, 6, 2, 2, 2]]


@given(federations(), st.sampled_from(clustered.MEASURES))
def test_similarity_groups_are_a_partition_and_none_is_heavier_than_a_row(federation, measure):
    sizes, _, m = federation
    updates = np.random.default_rng(len(sizes)).normal(size=(len(sizes), 4))
    groups = clustered.similarity_groups(updates, sizes, m, measure)
    assert sorted(k for group in groups for k in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) == 1 or m * sum(sizes[k] for k in group) <= sum(sizes)


@pytest.mark.parametrize("measure", clustered.MEASURES)
def test_clients_of_one_direction_share_a_group(measure):
    rng = np.random.default_rng(0)
    directions = 10 * np.eye(4)[np.arange(20) % 4]
    updates = directions + 0.01 * rng.normal(size=(20, 4))
    groups = clustered.similarity_groups(updates, np.full(20, 5), 4, measure)
    assert sorted(map(sorted, groups)) == [list(range(c, 20, 4)) for c in range(4)]


def test_linkages_make_different_groups():
    """Five points on a line: the nearest first, a chain under single linkage, two pairs under complete."""
    points = [[0.0], [1.0], [2.1], [3.3], [9.0]]
    sizes = [1, 1, 1, 1, 2]  # a row has room for three clients of size 1
    groups = {k: clustered.similarity_groups(points, sizes, 2, "L2", k) for k in clustered.LINKAGES}
    assert groups["single"] == [[3], [4], [0, 1, 2]]
    assert groups["complete"] == [[4], [0, 1], [2, 3]]
    assert clustered.similarity_groups(points, sizes, 2, "L2") == groups["ward"]


def test_every_linkage_is_known_to_scipy_and_identities_leave_the_default_out():
    assert set(clustered.LINKAGES) == set(hierarchy._LINKAGE_METHODS)
    default = methods.to_dict(methods.get("clustered-similarity"))
    assert default["clients"] == {"is": "Clustered", "groups": "similarity", "measure": "arccos"}
    other = methods.get("clustered-similarity", linkage="average")
    assert methods.to_dict(other)["clients"]["linkage"] == "average"
    assert methods.from_dict(methods.to_dict(other)) == other
    assert methods.from_dict(default) == methods.get("clustered-similarity", linkage="ward")


def test_the_angle_to_a_client_that_has_never_participated_is_zero():
    angles = clustered.dissimilarity([[0, 0], [1, 0], [0, 2]], "arccos")
    np.testing.assert_allclose(angles, [[0, 0, 0], [0, 0, np.pi / 2], [0, np.pi / 2, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clustered.by_size([1, 2], 0), "m is 0"),
        (lambda: clustered.by_size([], 2), "empty"),
        (lambda: clustered.by_size([0, 0], 2), "all zero"),
        (lambda: clustered.by_size([1, -2], 2), "sizes"),
        (
            lambda: clustered.by_groups([1, 2], [[0], [0, 1]], 2),
            "each client must be in exactly one",
        ),
        (lambda: clustered.by_groups([1, 2], [[0]], 2), "each client must be in exactly one"),
        (lambda: clustered.similarity_groups([[1.0], [np.nan]], [1, 2], 2), "finite"),
        (lambda: clustered.similarity_groups([[1.0]], [1, 2], 2), "give one for each"),
        (lambda: clustered.similarity_groups([[1.0], [2.0]], [1, 2], 2, "cosine"), "'cosine'"),
        (
            lambda: methods.get("clustered-similarity", linkage="wards"),
            "unknown linkage .wards. .did you mean ward..: use one of ward, single, complete, average",
        ),
        (
            lambda: clustered.similarity_groups([[1.0], [2.0]], [1, 2], 2, "L1", "Ward"),
            "unknown linkage 'Ward'",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(InputError, match=message) as exc_info:
        call()
    assert "\n" not in str(exc_info.value)
