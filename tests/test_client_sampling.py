"""The designs over clients, driven with a view of the server.

A scripted generator enumerates the cohorts of a design and their probabilities, with which the draws of a
real generator are compared. Statistical tests have fixed seeds and alarm with probability below 1e-6.
"""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from enumeration import ScriptedGenerator, enumerate_cohorts
from reference_cases import REFERENCE
from scipy.stats import binomtest, chisquare

from fedstas import allocation, theory
from fedstas.client_sampling import (
    MD,
    Pooled,
    Stratified,
    Uniform,
    successive_sample,
)
from fedstas.clustered import Clustered
from fedstas.corrected import SELECTIONS, StratifiedHansenHurwitz, StratifiedHorvitzThompson
from fedstas.errors import InputError
from fedstas.stratification import within_stratum_std

SIZES = np.array([3, 11, 1, 7, 20, 5])
VALUES = np.array([0.3, -2.0, 5.0, 1.25, -0.7, 4.0])  # one coordinate of the clients' updates
GROUPS = np.array([0, 1, 0, 1, 0, 1])


def gradients():
    """Return gradients in two clear strata, (0, 2, 4) and (1, 3, 5), with different norms within each."""
    base = np.array([[1.0, 0, 0, 0], [0, 0, 0, 9.0]])[GROUPS]
    return base * np.array([1.0, 1.0, 1.2, 1.1, 1.5, 0.9])[:, None]


def expectation(design, view, m, values=VALUES):
    """Return the expected aggregate of the clients' values over every cohort."""
    pairs = list(enumerate_cohorts(design, view, m))
    assert float(sum(chance for _, chance in pairs)) == pytest.approx(1, abs=1e-12)
    return sum(float(chance) * (c.weights @ values[c.clients]) for c, chance in pairs)


FULL = SIZES / SIZES.sum() @ VALUES  # the update if all clients take part


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("m", [2, 3, 4])
def test_hansen_hurwitz_is_unbiased_for_every_cohort_of_a_small_federation(
    view, selection, equal, m
):
    design = StratifiedHansenHurwitz(
        strata=2, restratify_every=1, selection=selection, equal_clients=equal
    )
    target = VALUES.mean() if equal else FULL
    assert expectation(design, view(SIZES, gradients()), m) == pytest.approx(target, abs=1e-12)


@pytest.mark.parametrize("zero", ["one", "all"])
def test_hansen_hurwitz_stays_unbiased_when_gradients_vanish(view, zero):
    vanishing = gradients() * (np.arange(6) != 2)[:, None] if zero == "one" else np.zeros((6, 4))
    design = StratifiedHansenHurwitz(strata=2, restratify_every=1)
    assert expectation(design, view(SIZES, vanishing), 3) == pytest.approx(FULL, abs=1e-12)


def test_md_is_unbiased_for_every_cohort_of_a_small_federation(view):
    assert expectation(MD(), view(SIZES, gradients()), 3) == pytest.approx(FULL, abs=1e-12)


def test_expansion_weights_are_unbiased_for_every_cohort_of_a_small_federation(view):
    design = Uniform("expansion")
    assert expectation(design, view(SIZES, gradients()), 3) == pytest.approx(FULL, abs=1e-12)


def test_the_plain_mean_is_unbiased_for_the_clients_and_not_for_their_examples(view):
    assert expectation(Uniform("plain"), view(SIZES, gradients()), 3) == pytest.approx(
        VALUES.mean(), abs=1e-12
    )
    assert abs(VALUES.mean() - FULL) > 0.05


def test_the_plain_mean_requests_no_size(view_without_sizes):
    cohort = Uniform("plain").draw(
        view_without_sizes(SIZES, gradients()), 3, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(cohort.weights, np.full(3, 1 / 3))


def test_shares_of_all_examples_as_weights_shrink_the_expected_update_by_m_over_N(view):
    """Eq. 3 of clustered sampling: absent clients keep w_t, and the expected update is m/N of the full one."""
    cohort = Uniform("share").draw(view(SIZES, gradients()), 3, np.random.default_rng(0))
    np.testing.assert_allclose(cohort.weights, SIZES[cohort.clients] / SIZES.sum())
    for m in range(1, 7):
        expected = m / 6 * (SIZES @ VALUES) / SIZES.sum()
        assert expectation(Uniform("share"), view(SIZES, gradients()), m) == pytest.approx(expected)


def test_cohort_weights_are_biased_for_unequal_sizes_and_not_for_equal_ones(view):
    biased = expectation(Uniform("cohort"), view(SIZES, gradients()), 2)
    assert abs(biased - FULL) > 0.05
    equal = expectation(Uniform("cohort"), view(np.full(6, 4), gradients()), 2)
    assert equal == pytest.approx(VALUES.mean(), abs=1e-12)


def test_the_papers_estimator_is_unbiased_for_the_plain_mean_with_uniform_draws(view):
    design = Stratified(strata=2, selection="uniform", replace=True)
    mean = expectation(design, view(SIZES, gradients()), 4)
    assert mean == pytest.approx(VALUES.mean(), abs=1e-12)
    assert abs(mean - FULL) > 0.05  # but not for sum omega_k w_k, which weighs by size


def test_the_papers_estimator_is_biased_by_the_covariance_of_selection_and_update(view):
    server = view(SIZES, gradients())
    mean = expectation(Stratified(strata=2, replace=True), server, 4)
    norms = np.linalg.norm(gradients(), axis=1)
    expected = sum(
        (3 / 6) * (norms[h == GROUPS] / norms[h == GROUPS].sum()) @ VALUES[h == GROUPS]
        for h in (0, 1)
    )
    assert mean == pytest.approx(expected, abs=1e-12)
    assert abs(mean - VALUES.mean()) > 0.05


def strata_of_the_case():
    """Return the reference case, and share, values, selection and draws of each of its strata."""
    case = REFERENCE["pps_two_strata"]
    sizes = [len(s) for s in case["strata"]]
    rows = [
        (Fraction(count, sum(sizes)), values, selection, draws)
        for count, values, selection, draws in zip(
            sizes, case["strata"], case["norms"], case["m_h"], strict=True
        )
    ]
    return case, rows


@pytest.mark.parametrize(
    ("design", "key"),
    [
        ("plain-wr", "paper_plain_wr"),
        ("hansen-hurwitz", "hh_wr"),
        ("horvitz-thompson", "ht_successive"),
    ],
)
def test_two_strata_have_the_moments_of_the_reference_case(design, key):
    case, rows = strata_of_the_case()
    parts = [(share, *theory.design_moments(design, w, p, m)) for share, w, p, m in rows]
    assert sum(share * mean for share, mean, _ in parts) == Fraction(case[key]["mean"])
    assert sum(share**2 * var for share, _, var in parts) == Fraction(case[key]["var"])


def chi_square(counts: Counter, probabilities: dict, draws: int) -> float:
    """Return the p-value of the counts; outcomes expected less than six times are merged."""
    assert set(counts) <= set(probabilities)
    assert float(sum(probabilities.values())) == pytest.approx(1, abs=1e-9)
    observed, expected, merged = [], [], [0, 0.0]
    for key, chance in sorted(probabilities.items(), key=lambda item: item[1]):
        merged = [merged[0] + counts[key], merged[1] + float(chance) * draws]
        if merged[1] > 6:
            observed.append(merged[0])
            expected.append(merged[1])
            merged = [0, 0.0]
    observed[-1] += merged[0]
    expected[-1] += merged[1]
    return chisquare(observed, expected, sum_check=False).pvalue


@pytest.mark.parametrize(("selection", "m"), [([1, 2, 3], 2), ([5, 1, 1, 3], 3)])
def test_successive_sampling_has_the_enumerated_probabilities(selection, m, false_alarm):
    probabilities = dict(theory.successive_samples(selection, m))
    rng = np.random.default_rng(11)
    counts = Counter(tuple(map(int, successive_sample(selection, m, rng))) for _ in range(20_000))
    assert chi_square(counts, probabilities, 20_000) > false_alarm


def test_successive_sampling_has_the_theoretical_inclusion_probabilities_and_not_m_p(false_alarm):
    rng = np.random.default_rng(12)
    counts = np.bincount(
        np.concatenate([successive_sample([1, 2, 3], 2, rng) for _ in range(20_000)])
    )
    pi = theory.inclusion_probabilities([1, 2, 3], 2)
    for count, inclusion in zip(counts.tolist(), pi, strict=True):
        assert binomtest(count, 20_000, float(inclusion)).pvalue > false_alarm / 3
    assert binomtest(int(counts[0]), 20_000, 1 / 3).pvalue < 1e-9


def test_successive_sampling_draws_zero_probabilities_last_and_equal_ones_at_random(false_alarm):
    rng = np.random.default_rng(13)
    assert all(set(successive_sample([0, 1, 0, 2], 2, rng)) == {1, 3} for _ in range(50))
    counts = Counter(int(successive_sample([0, 0, 0], 1, rng)[0]) for _ in range(6000))
    assert chi_square(counts, dict.fromkeys(range(3), 1 / 3), 6000) > false_alarm
    assert sorted(successive_sample([0, 0, 1], 3, rng)) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "design",
    [
        Uniform(),
        MD(),
        StratifiedHansenHurwitz(strata=2, restratify_every=1),
        Stratified(strata=2, replace=True),
    ],
    ids=lambda design: type(design).__name__,
)
def test_cohorts_have_the_enumerated_frequencies(view, design, false_alarm):
    server, draws = view(SIZES, gradients()), 8000
    chances = Counter()
    for cohort, chance in enumerate_cohorts(design, server, 2):
        chances[tuple(sorted(cohort.clients.tolist()))] += float(chance)
    rng = np.random.default_rng(14)
    counts = Counter(
        tuple(sorted(design.draw(server, 2, rng).clients.tolist())) for _ in range(draws)
    )
    assert chi_square(counts, chances, draws) > false_alarm


def test_weights_of_hansen_hurwitz_are_omega_over_m_h_p(view):
    server, probe = view(SIZES, gradients()), ScriptedGenerator()
    design = StratifiedHansenHurwitz(strata=2, restratify_every=1)
    cohort = design.draw(server, 4, probe)
    assert [size for _, size, _, _ in probe.calls] == np.bincount(cohort.strata).tolist()
    norms = np.linalg.norm(gradients(), axis=1)
    measure = SIZES * norms
    for k, weight, h in zip(cohort.clients, cohort.weights, cohort.strata, strict=True):
        p = measure[k] / measure[h == GROUPS].sum()
        m_h = (cohort.strata == h).sum()
        assert weight == pytest.approx(SIZES[k] / SIZES.sum() / (m_h * p), rel=1e-12)


def test_hansen_hurwitz_allocates_by_priorities_on_the_totals_of_its_measure(view):
    server = view(SIZES, gradients())
    cohort = StratifiedHansenHurwitz(strata=2, restratify_every=1).draw(
        server, 5, ScriptedGenerator()
    )
    totals = np.bincount(GROUPS, SIZES * np.linalg.norm(gradients(), axis=1))
    best = min(
        (sum(t * t / s for t, s in zip(totals, (a, 5 - a), strict=True)), (a, 5 - a))
        for a in range(1, 5)
    )
    assert tuple(np.bincount(cohort.strata)) == best[1]


def test_a_client_of_zero_gradient_is_drawn_with_the_probability_of_the_floor(view):
    vanishing = gradients() * (np.arange(6) != 2)[:, None]
    probe = ScriptedGenerator()
    StratifiedHansenHurwitz(strata=1, selection="norm", equal_clients=True, floor=0.05).draw(
        view(SIZES, vanishing), 1, probe
    )
    ((pool, _, _, p),) = probe.calls
    norms = np.linalg.norm(vanishing, axis=1)
    norms = np.maximum(norms, 0.05 * norms.mean())
    np.testing.assert_allclose(p, norms[pool] / norms.sum(), rtol=1e-12)
    assert p.min() > 0


@pytest.mark.parametrize("rule", ["neyman", "proportional"])
@pytest.mark.parametrize("selection", ["norm", "uniform"])
@pytest.mark.parametrize("m", [2, 3, 4, 6])
def test_stratified_cohorts_are_distinct_and_follow_the_allocation_with_weights_that_sum_to_one(
    view, rule, selection, m
):
    server = view(SIZES, gradients())
    design = Stratified(strata=2, allocation=rule, selection=selection)
    cohort = design.draw(server, m, np.random.default_rng(0))
    assert len(set(cohort.clients.tolist())) == m
    np.testing.assert_array_equal(GROUPS[cohort.clients], cohort.strata)
    N, N_h = 6, np.array([3, 3])
    # With equal spreads Neyman's allocation is the proportional one.
    S_h = within_stratum_std(gradients(), GROUPS) if rule == "neyman" else np.ones(2)
    m_h = allocation.neyman(N_h, S_h, m)
    np.testing.assert_array_equal(np.bincount(cohort.strata), m_h)
    np.testing.assert_allclose(cohort.weights, (N_h / (N * m_h))[cohort.strata], rtol=1e-14)
    assert cohort.weights.sum() == pytest.approx(1, abs=1e-14)


def test_spread_can_be_read_as_a_variance(view):
    rows = np.concatenate([np.arange(8)[:, None] * [1, 0], 100 + np.arange(8)[:, None] * [0, 2]])
    server, rng = view(np.full(16, 5), rows), np.random.default_rng(0)
    participants = {
        kind: np.bincount(
            Stratified(strata=2, levels=16, spread=kind).draw(server, 8, rng).strata
        ).tolist()
        for kind in ("deviation", "variance")
    }
    labels = np.repeat([0, 1], 8)
    spreads = within_stratum_std(rows, labels)
    assert participants["deviation"] == allocation.neyman([8, 8], spreads, 8).tolist()
    assert participants["variance"] == allocation.neyman([8, 8], spreads**2, 8).tolist()
    assert participants == {"deviation": [3, 5], "variance": [2, 6]}  # spreads 1 : 2


@pytest.mark.parametrize(
    "design", [Stratified(strata=5), StratifiedHansenHurwitz(strata=5, restratify_every=1)]
)
def test_there_are_at_most_m_strata_and_each_gives_a_participant(view, design):
    rows = np.random.default_rng(3).standard_normal((20, 30))
    for m in (1, 2, 4, 5, 9):
        server = view(np.arange(1, 21), rows)
        cohort = design.draw(server, m, np.random.default_rng(m))
        assert len(cohort.clients) == m == len(cohort.weights)
        assert set(cohort.strata) == set(range(min(5, m)))


@pytest.mark.parametrize(
    "design", [Stratified(strata=3), StratifiedHansenHurwitz(strata=3, restratify_every=1)]
)
def test_equal_gradients_make_one_stratum_and_still_a_full_cohort(view, design):
    cohort = design.draw(view(SIZES, np.ones((6, 4))), 3, np.random.default_rng(0))
    assert len(cohort.clients) == 3
    assert not cohort.strata.any()
    assert np.isfinite(cohort.weights).all()


@pytest.mark.parametrize(
    "design", [Stratified(strata=2), StratifiedHansenHurwitz(strata=2, restratify_every=1)]
)
def test_a_stratum_of_one_client_gives_that_client(view, design):
    rows = np.array([[100.0, 0], [0, 1.0], [0, 1.1], [0, 0.9]])
    cohort = design.draw(view([5, 5, 5, 5], rows), 2, np.random.default_rng(0))
    assert cohort.clients[0] == 0
    assert cohort.clients[1] in (1, 2, 3)


@pytest.mark.parametrize(
    "design",
    [
        Stratified(strata=2, restratify_every=3),
        StratifiedHansenHurwitz(strata=2, restratify_every=3),
    ],
)
def test_gradients_are_requested_once_in_restratify_every_rounds(view, design):
    server, requests = view(SIZES, gradients()), []
    for server.round in range(1, 8):
        design.draw(server, 3, np.random.default_rng(server.round))
        requests.append(server.requests)
    assert requests == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("selection", ["norm", "uniform"])
def test_with_equal_clients_no_true_size_is_requested(view_without_sizes, selection):
    design = StratifiedHansenHurwitz(strata=2, selection=selection, equal_clients=True)
    cohort = design.draw(view_without_sizes(SIZES, gradients()), 4, np.random.default_rng(0))
    assert len(cohort.clients) == 4


@pytest.mark.parametrize(
    "design", [StratifiedHansenHurwitz(strata=2, restratify_every=1), MD(), Uniform()]
)
def test_the_other_designs_request_sizes(view_without_sizes, design):
    with pytest.raises(AssertionError, match="true size"):
        design.draw(view_without_sizes(SIZES, gradients()), 4, np.random.default_rng(0))


def test_draws_with_replacement_may_be_more_than_clients(view):
    rng = np.random.default_rng(0)
    assert len(MD().draw(view(SIZES, gradients()), 9, rng).clients) == 9
    corrected = StratifiedHansenHurwitz(strata=2, restratify_every=1)
    assert len(corrected.draw(view(SIZES, gradients()), 9, rng).clients) == 9


@pytest.mark.parametrize("design", [Uniform(), Stratified(strata=2)])
@pytest.mark.parametrize("m", [0, 7, 2.5])
def test_more_distinct_participants_than_clients_are_refused(view, design, m):
    with pytest.raises(InputError, match=f"{m}.*at least 1 and at most 6"):
        design.draw(view(SIZES, gradients()), m, np.random.default_rng(0))


def test_pooled_is_one_client_of_weight_one(view):
    cohort = Pooled().draw(view(SIZES, gradients()), 3, np.random.default_rng(0))
    assert cohort.clients.tolist() == [0]
    assert cohort.weights.tolist() == [1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform("sizes"), "weights 'sizes'"),
        (lambda: Stratified(strata=0), "strata is 0"),
        (lambda: Stratified(levels=1), "levels is 1"),
        (lambda: Stratified(restratify_every=0), "restratify_every is 0"),
        (lambda: Stratified(allocation="equal"), "allocation 'equal'"),
        (lambda: Stratified(selection="size"), "selection 'size'"),
        (lambda: Stratified(spread="range"), "spread 'range'"),
        (lambda: StratifiedHansenHurwitz(selection="best"), "selection 'best'"),
        (lambda: StratifiedHansenHurwitz(floor=0), "floor is 0"),
        (lambda: StratifiedHansenHurwitz(floor=2), "floor is 2"),
    ],
)
def test_bad_settings_of_a_design_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


DESIGNS_WITH_SIZES = [
    Uniform(),
    MD(),
    StratifiedHansenHurwitz(strata=2, restratify_every=1),
    Clustered("size"),
]
ALL_DESIGNS = [
    *DESIGNS_WITH_SIZES,
    Stratified(strata=2),
    StratifiedHorvitzThompson(StratifiedHansenHurwitz(strata=2, restratify_every=1)),
]


DESIGNS_WITH_GRADIENTS = [ALL_DESIGNS[2], *ALL_DESIGNS[4:]]  # the three that stratify


@pytest.mark.parametrize("design", DESIGNS_WITH_SIZES, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("sizes", [[3, -1, 4], [0, 0, 0]])
def test_negative_and_all_zero_sizes_are_refused(view, design, sizes):
    with pytest.raises(InputError, match="sizes") as exc_info:
        design.draw(make_unit_view(view, sizes), 2, np.random.default_rng(0))
    assert "\n" not in str(exc_info.value)


@pytest.mark.parametrize("design", DESIGNS_WITH_SIZES, ids=lambda d: type(d).__name__)
def test_an_empty_federation_is_refused(view, design):
    with pytest.raises(InputError, match=r"empty|number of clients is 0|gradients"):
        design.draw(make_unit_view(view, []), 1, np.random.default_rng(0))


@pytest.mark.parametrize("design", ALL_DESIGNS, ids=lambda d: type(d).__name__)
def test_no_participants_are_refused(view, design):
    with pytest.raises(InputError, match="0"):
        design.draw(make_unit_view(view, [3, 1, 4]), 0, np.random.default_rng(0))


@pytest.mark.parametrize("design", DESIGNS_WITH_GRADIENTS, ids=lambda d: type(d).__name__)
def test_gradients_that_are_not_finite_are_refused(view, design):
    bad = make_unit_view(view, [3, 1, 4])
    bad._gradients[1, 0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        design.draw(bad, 2, np.random.default_rng(0))


def make_unit_view(view, sizes):
    """Return a view of unit gradients with these sizes."""
    return view(np.array(sizes, dtype=np.int64), np.eye(max(1, len(sizes)), 4)[: len(sizes)])
