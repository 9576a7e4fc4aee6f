"""Clustered sampling exactly: the reference cases, the verdicts of chapter 4g, and the printed pseudocode."""

import importlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE as CASES

from companion.claims.evidence import clusters_algorithms, clusters_bounds
from companion.teach import check
from companion.teach.exercises.clusters import EXERCISES
from fedstas import clustered, theory
from fedstas.errors import InputError
from fedstas.theory.clusters import REPAIRS_1, REPAIRS_2

SIZE_CASES, GROUP_CASES = (CASES[f"clustered_alg{i}"]["cases"] for i in (1, 2))

# The expected verdict of every claim on clustered sampling, by the module and the function that decide it.
VERDICTS = {
    "clusters": {
        "eq_3_biased": "holds",
        "md_unbiased": "holds",
        "md_times": "holds",
        "proposition_1": "holds",
        "eq_12": "holds",
        "eq_13_14": "holds",
        "eq_15_16": "holds",
        "eq_17": "holds",
        "eq_17_equality": "holds-if",
        "eq_18_20": "holds",
        "eq_21_22": "holds",
        "eq_23": "holds",
        "eq_23_equality": "holds-if",
        "variance_difference_per_client": "holds",
        "absence_probability_per_client": "holds",
        "eq_56": "fails",
        "representativity": "holds-if",
    },
    "clusters_bounds": {
        "lemma_5": "holds",
        "eq_26_41": "holds",
        "eq_42_43": "holds",
        "a2_equality": "fails",
        "better_guarantees": "holds-if",
        "theorem_1": "holds-if",
        "theorem_2": "holds-if",
    },
    "clusters_algorithms": {
        "algorithm_1_printed": "fails",
        "theorem_3": "holds-if",
        "algorithm_1_cost": "holds-if",
        "theorem_3_proof": "fails",
        "figure_3": "holds",
        "most_draws_per_client": "holds",
        "algorithm_2_printed": "fails",
        "theorem_4": "holds-if",
        "figure_4": "holds",
        "enough_groups": "holds",
    },
    "clusters_sentences": {
        "heavy_clients": "holds",
        "algorithm_2_cost": "holds",
        "zero_updates": "holds-if",
        "further_variance": "holds",
        "both_smaller": "holds-if",
        "no_extra_messages": "holds",
        "distinct_clients": "holds",
        "repeated_clients": "holds",
        "six_to_eight": "holds",
        "ten_different": "holds",
        "equal_variances": "holds",
        "dirichlet_limits": "holds",
    },
    "slides_sampling": {
        "uniform_pair": "holds-if",
        "weighted_pair": "holds-if",
        "fedopt_mean": "holds-if",
        "uniform_examples": "holds-if",
        "hard_to_be_uniform": "holds-if",
        "fixed_ratio": "holds-if",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "verdict"),
    [(m, name, verdict) for m, names in VERDICTS.items() for name, verdict in names.items()],
)
def test_every_claim_has_the_expected_verdict(module, name, verdict):
    decide = getattr(importlib.import_module(f"companion.claims.evidence.{module}"), name)
    evidence = decide(None)
    assert evidence.verdict == verdict
    assert evidence.ours is not None and evidence.note
    if verdict == "fails":
        assert len(evidence.table)


@pytest.mark.parametrize("case", SIZE_CASES, ids=lambda c: str(c["n"]))
def test_weights_of_both_algorithms_agree_with_the_reference_cases(case):
    n, m = case["n"], case["m"]
    rows = theory.normalise_rows(case["r_prime"])
    assert rows == [[Fraction(x) for x in row] for row in case["r"]]
    for r, key in ((rows, "clustered"), (theory.md_rows(n, m), "md")):
        result = theory.weight_moments(r)
        assert result.mean == [Fraction(k, sum(n)) for k in n]
        assert result.covariance == [[Fraction(x) for x in row] for row in case[f"cov_{key}"]]
        variance = [Fraction(x) for x in case[f"var_{key}"]]
        assert theory.weight_variances(r) == variance
        assert [row[i] for i, row in enumerate(result.covariance)] == variance
        sampled = [Fraction(x) for x in case[f"p_sampled_{key}"]]
        assert theory.row_inclusion(r) == result.sampled == sampled
        if key == "clustered":
            assert [list(t) for t in result.times] == case["times_min_max"]
    assert theory.theorem_3_counts(n, m) == case["proof_variant_r_prime"]
    assert theory.printed_algorithm_1(n, m, REPAIRS_1) == case["r_prime"]


@pytest.mark.parametrize("case", CASES["md"], ids=lambda c: str(c["n"]))
def test_md_sampling_agrees_with_the_reference_cases(case):
    rows = theory.md_rows(case["n"], case["m"])
    assert theory.weight_variances(rows) == [Fraction(x) for x in case["var"]]
    assert theory.row_inclusion(rows) == [Fraction(x) for x in case["p_sampled"]]


@pytest.mark.parametrize("case", GROUP_CASES, ids=lambda c: str(c["groups"]))
def test_the_repaired_algorithm_2_agrees_with_the_reference_cases(case):
    result = theory.printed_algorithm_2(case["n"], case["groups"], case["m"], REPAIRS_2)
    assert result == case["r_prime"]


def test_the_probability_of_ten_distinct_clients_agrees_with_the_reference_cases():
    reference = CASES["distinct_10_of_100"]
    assert theory.distinct_uniform_probabilities(100, 10)[10] == Fraction(
        reference["p_all_distinct"]
    )


@st.composite
def count_matrices(draw):
    """Draw the counts of any unbiased scheme: an m by n matrix of whole numbers with equal row sums."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    capacity = draw(st.integers(1, 8))
    rows = []
    for _ in range(m):
        cuts = sorted(draw(st.lists(st.integers(0, capacity), min_size=n - 1, max_size=n - 1)))
        rows.append([b - a for a, b in zip([0, *cuts], [*cuts, capacity], strict=True)])
    return rows


@given(count_matrices())
def test_the_difference_to_md_is_a_sum_of_squares_for_every_matrix(counts):
    """MD sampling has the mean row as its probabilities p: the lemma does not need the clients' sizes."""
    rows, m, n = theory.normalise_rows(counts), len(counts), range(len(counts[0]))
    p = [sum(column) / m for column in zip(*rows, strict=True)]
    result, md = theory.weight_moments(rows), theory.weight_moments([p] * m)
    removed = theory.covariance_reduction(rows)
    assert result.mean == md.mean == p
    assert all(md.covariance[i][j] - result.covariance[i][j] == removed[i][j] for i in n for j in n)
    assert np.linalg.eigvalsh(np.array(removed, dtype=float)).min() > -1e-12
    assert theory.weight_variances(rows) == [result.covariance[i][i] for i in n]
    assert theory.row_inclusion(rows) == result.sampled
    assert all(a >= b for a, b in zip(result.sampled, md.sampled, strict=True))
    for i in n:
        constant = all(row[i] == p[i] for row in rows)
        assert (removed[i][i] == 0) == constant == (result.sampled[i] == md.sampled[i])


@given(count_matrices(), st.data())
def test_the_variance_of_the_mean_is_the_quadratic_form_of_the_weights(counts, data):
    rows = theory.normalise_rows(counts)
    z = data.draw(
        st.lists(st.tuples(*[st.integers(-3, 3)] * 2), min_size=len(rows[0]), max_size=len(rows[0]))
    )
    covariance = theory.weight_moments(rows).covariance
    quadratic_form = sum(
        covariance[i][j] * (a[0] * b[0] + a[1] * b[1])
        for i, a in enumerate(z)
        for j, b in enumerate(z)
    )
    assert theory.variance_of_mean(rows, z) == quadratic_form


@given(count_matrices())
def test_the_expected_number_of_distinct_clients_is_the_sum_of_the_inclusion_probabilities(counts):
    rows = theory.normalise_rows(counts)
    probabilities = theory.distinct_probabilities(rows)
    assert sum(probabilities) == 1
    assert sum(j * p for j, p in enumerate(probabilities)) == sum(theory.row_inclusion(rows))


def test_distinct_uniform_is_distinct_of_equal_rows():
    for categories, draws in ((1, 3), (4, 3), (3, 5)):
        rows = [[Fraction(1, categories)] * categories] * draws
        uniform = theory.distinct_uniform_probabilities(categories, draws)
        assert theory.distinct_probabilities(rows)[: len(uniform)] == uniform


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 11))
def test_both_allocations_of_theorem_3_satisfy_proposition_1_and_its_bound_on_rows(sizes, m):
    sizes = sorted(sizes, reverse=True)
    counts = clustered.counts_by_size(sizes, m).tolist()
    of_the_proof = theory.theorem_3_counts(sizes, m)
    assert theory.satisfies_proposition_1(counts, sizes, m)
    assert theory.satisfies_proposition_1(of_the_proof, sizes, m)
    assert theory.printed_algorithm_1(sizes, m, REPAIRS_1) == counts
    # A client is in at most floor(m p_k) + 2 rows.
    for k, column in zip(sizes, zip(*counts, strict=True), strict=True):
        assert sum(x > 0 for x in column) <= m * k // sum(sizes) + 2
    # Clients fill row after row, a staircase: n clients over m rows have at most n + m - 1 cells.
    assert sum(x > 0 for row in counts for x in row) <= len(sizes) + m - 1
    # In the proof's scheme client k fills floor(m p_k) rows alone.
    for i, k in enumerate(sizes):
        assert sum(row[i] == sum(sizes) for row in of_the_proof) >= m * k // sum(sizes)


def test_the_total_variance_of_weights_agrees_with_the_reference_for_three_schemes():
    sizes, m = [17, 15, 2, 1], 5
    schemes = (
        theory.md_rows(sizes, m),
        theory.normalise_rows(clustered.counts_by_size(sizes, m)),
        theory.normalise_rows(theory.theorem_3_counts(sizes, m)),
    )
    result = [sum(theory.weight_variances(rows)) for rows in schemes]
    # MD's is (1 - sum p_i^2)/m; for the two clustered schemes these are reference values.
    assert result == [Fraction(706, 6125), Fraction(52, 1225), Fraction(34, 1225)]


def test_the_printed_algorithms_satisfy_proposition_1_on_the_counted_inputs_only():
    assert clusters_algorithms.count_valid_algorithm_1() == (82, 1626)
    assert clusters_algorithms.count_valid_algorithm_1(("start", "line 11")) == (804, 1626)
    assert clusters_algorithms.count_valid_algorithm_1(REPAIRS_1) == (1626, 1626)
    assert clusters_algorithms.count_valid_algorithm_2() == (264, 409)
    assert clusters_algorithms.count_valid_algorithm_2(REPAIRS_2) == (409, 409)


def test_the_printed_algorithms_fail_on_the_known_smallest_inputs():
    assert theory.printed_algorithm_1([1], 1) == [[0]]
    assert theory.printed_algorithm_1([1, 1, 1], 1) == [[1, 2, 1]]
    result = theory.printed_algorithm_2([2, 1, 1, 1], [[0], [1], [2], [3]], 2)
    assert [sum(row) for row in result] == [5, 9]


def test_groups_of_unequal_size_as_rows_give_biased_weights():
    """Each of H groups is drawn equally often, whatever it holds: a client of a group of g equal ones has the mean 1/(H g)."""
    large_client = theory.groups_as_rows([7, 1, 1, 1], [[0], [1, 2, 3]])
    assert theory.weight_moments(large_client).mean == [Fraction(1, 2), *[Fraction(1, 6)] * 3]
    large_group = theory.groups_as_rows([1] * 6, [[0, 1, 2], [3, 4], [5]])
    mean = theory.weight_moments(large_group).mean
    assert [str(x) for x in mean] == ["1/9"] * 3 + ["1/6"] * 2 + ["1/3"]


def test_proportional_stratification_lies_between_md_and_split_rows():
    """Strata {1, 2} and {3, 4} of equal clients, two draws each: MD >= equal rows >= one client per row."""
    z, quarter, half = (3, 1, -1, 0), Fraction(1, 4), Fraction(1, 2)
    md = theory.variance_of_mean([[quarter] * 4] * 4, z)
    equal = theory.variance_of_mean([[half, half, 0, 0]] * 2 + [[0, 0, half, half]] * 2, z)
    split = theory.variance_of_mean(np.eye(4, dtype=int).tolist(), z)
    between = Fraction(1, 4) * sum(half * (c - Fraction(3, 4)) ** 2 for c in (2, -half))
    assert md - equal == between
    assert split == 0 < equal < md


def test_the_average_gradient_is_that_of_a_simulated_path():
    """20,000 paths of 40 rounds: the mean squared gradient is within six standard errors (false alarm 2e-9)."""
    steps, m, rounds, paths = 3, 2, 40, 20_000
    gamma = 1 - (1 - (m / (steps * rounds)) ** 0.5) ** steps
    rng, x, total = np.random.default_rng(4), np.zeros(paths), np.zeros(paths)
    for _ in range(rounds):
        draw = (rng.choice([-1, 1], paths) + rng.choice([-1, 1], paths)) / 2
        x = x - gamma * (x - draw)
        total += x**2
    average = total / rounds
    exact = clusters_bounds.average_squared_gradient(0.5, steps, m, rounds)
    assert abs(average.mean() - exact) < 6 * average.std() / paths**0.5


def test_the_gap_to_the_printed_rate_is_a_quarter_of_the_local_steps():
    table = clusters_bounds.rates(clusters_bounds.MIXED_ROWS)
    ratio = table["over the printed rate"] / table["N"]
    assert ratio.iloc[2:].to_numpy() == pytest.approx(0.25, rel=1e-3)
    assert table["over the corrected rate"].max() < 0.5


@pytest.mark.parametrize("name", EXERCISES)
def test_exercises_accept_the_solution_and_reject_each_mistake(name):
    exercise = EXERCISES[name]
    assert check.answer(f"clusters/{name}", exercise.solution)
    is_function = isinstance(exercise, check.Function)
    mistakes = exercise.mistakes.values() if is_function else exercise.mistakes
    assert len(mistakes) >= 2
    for mistake in mistakes:
        assert not check.answer(f"clusters/{name}", mistake)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.weight_moments([[1, 1]]), "sum to 1"),
        (lambda: theory.weight_moments([[1], [1, 0]]), "matrix"),
        (lambda: theory.weight_moments([[Fraction(1, 9)] * 9] * 9), "too many"),
        (lambda: theory.printed_algorithm_1([1], 1, ["line 12"]), "line 12"),
        (lambda: theory.printed_algorithm_2([1], [[0]], 1, ["line 13"]), "line 13"),
        (lambda: theory.printed_algorithm_2([2, 1], [[0, 1]], 2), "heavier than a row"),
        (lambda: theory.distinct_probabilities([[Fraction(1, 15)] * 15]), "columns"),
        (lambda: theory.distinct_uniform_probabilities(0, 1), "categories is 0"),
        (lambda: theory.md_rows([1], 0), "m is 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
