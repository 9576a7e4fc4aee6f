"""Every evidence function of theory gives each of its verdicts for some input (a *world*).

A world holds the function's arguments besides the claim: clients, constants, the formula or the design to test. For a
theorem that is true, a world with a false formula or an unsuitable design must be rejected.
"""

import inspect
import operator
from fractions import Fraction as Q
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from deciders import claims_by_function

from companion.claims import ledger
from companion.claims.evidence import clusters as schemes
from companion.claims.evidence import clusters_algorithms as algorithms
from companion.claims.evidence import clusters_bounds as bounds
from companion.claims.evidence import privacy as reports
from companion.claims.evidence import sizes as estimates
from companion.claims.evidence import slides_sampling as slides
from companion.claims.evidence import text_sentences as sentences
from companion.claims.evidence import variance
from companion.claims.registry import Evidence
from fedstas import theory
from fedstas.theory import covariances as cov
from fedstas.theory.clusters import REPAIRS_1, REPAIRS_2

MODULES = (
    "unbiasedness",
    "variance",
    "allocations",
    "sizes",
    "privacy",
    "covariances",
    "pooling",
    "convergence",
    "clusters",
    "clusters_bounds",
    "clusters_algorithms",
    "clusters_sentences",
    "slides_sampling",
    "text_sentences",
)
PRINTED = {}  # no argument: the defaults are those of the paper
HALF = Q(1, 2)


def make_case(sizes, rows):
    """Return a case of clustered sampling: sizes, rows, moments of its weights and of those of MD sampling."""
    md = theory.md_rows(sizes, len(rows))
    return (sizes, rows, theory.weight_moments(rows), theory.weight_moments(md))


def exchange_roles(result):
    """Return the cases with the moments of the scheme and of MD sampling exchanged."""
    return [(sizes, rows, md, w) for sizes, rows, w, md in result]


def md_rows(n, m):
    """Return the rows r' of MD sampling, the same for each of m draws: the sizes n of all clients."""
    return np.tile(n, (m, 1))


def slope_table(table, slope):
    """Return a table like that of `convergence.slopes`, with this exponent for the draws as written."""
    rows = {"as written": slope, "corrected": -1.0, "uniform": -1.0}
    return pd.DataFrame(
        [
            {"draws": k, "slope": v, "low": v - 0.1, "high": v + 0.1, "excess at T": 1e-3}
            for k, v in (rows | table).items()
        ]
    )


def moments_of_estimate_plus_one(sizes, cap, alpha, support):
    """Return the moments of the size estimate plus one."""
    result = theory.size_estimator_moments(sizes, cap, alpha, support)
    return result._replace(mean=result.mean + 1)


def design_with_gradients(groups):
    """Return a design that asks for gradients."""
    return SimpleNamespace(draw=lambda view, m, rng: view.gradients())


SKEWED = make_case([1, 1], [[Q(3, 4), Q(1, 4)], [HALF, HALF]])  # columns do not sum to m p
PAIR = make_case([1, 1], [[1, 0], [0, 1]])
ONE = make_case([2, 1, 1], schemes.ONE_CLIENT)
MD = make_case([1, 1], theory.md_rows([1, 1], 2))
ZERO = cov.Form(Q(0), Q(0))
ONLY = {"1..M−1": estimates.SUPPORTS["1..M−1"]}
AGREED = Evidence("holds", "≤", note="It is true.")
UNEQUAL = ([[1, 0], [0, 1]], theory.md_rows([1, 1], 2), (1, -1), Q(0), HALF)  # a pair of B's

# For each function: a world in which the claim is true, and one in which it is false.
WORLDS = {
    "unbiasedness.lemma_1": ({"cases": (((1, 2, 6), (1, 1, 1), 2), ((1, 2), (3, 3), 1))}, PRINTED),
    "unbiasedness.algorithm": ({"norms": ((1, 1, 1), (2, 2, 2, 2))}, PRINTED),
    "unbiasedness.selection_probability": (
        {"norms": (1, 1, 1)},
        {"inclusion": lambda norms, m: [Q(m, 3)] * 3},
    ),
    "unbiasedness.weights": ({"sizes": (3, 3, 3)}, {"aggregate": sum}),
    "unbiasedness.expansion": ({"designs": {"uniform": (1, 1, 1)}}, {"factor": Q(1)}),
    "unbiasedness.weights_sum_to_one": ({"sizes": (3, 3, 3)}, {"factor": Q(1)}),
    "unbiasedness.empty_stratum": ({"strata": ((4, 6), (9, 11))}, PRINTED),
    "unbiasedness.cohort_weights": ({"cases": (((1, 1, 8), 2),)}, {"cases": (((2, 2, 2), 2),)}),
    "variance.theorem_1_first": ({"selection": np.ones_like}, PRINTED),
    "variance.wrong_norm": (
        {"other": (1, 2, 3, 4)},
        {"updates": (1, 1, 2), "other": (1, 1, 2), "estimator": "plain"},
    ),
    "variance.theorem_1_third": (
        {"plain": {"proportional": variance.PLAIN["proportional"]}},
        {"plain": {"equal": variance.PLAIN["equal"]}},
    ),
    "variance.theorem_1": ({"parts": [AGREED] * 3}, PRINTED),
    "variance.combined": ({"cases": (((1, 2, 11, 12), (0, 0, 1, 1)),)}, PRINTED),
    "allocations.theorem_1_second": (
        {"readings": {"S a standard deviation": ((50, 30, 20), (2, 4, 6), (2, 4, 6))}},
        {"rule": lambda n, s, m: [m - 2, 1, 1][: len(n)] if len(n) == 3 else [m - 1, 1]},
    ),
    "allocations.neyman": (
        {"spreads": (2, 2, 2)},
        {"rule": lambda n, s, m: [Q(m, 3)] * 3},
    ),
    "allocations.whole_allocation": (
        {"cases": (((2, 2), (1, 1), 2), ((3, 3), (2, 2), 4))},
        PRINTED,
    ),
    "allocations.spread_of_draws": (
        {"strata": ((-1, 5, 6), (-1, 5, 6))},
        {"rule": lambda v, n, m: [m * x / sum(v) for x in map(float, v[::-1])]},
    ),
    "sizes.estimator": ({"cases": (ONLY, ((1, 3),))}, {"moments": moments_of_estimate_plus_one}),
    "sizes.slides_estimator": (
        {"cases": (ONLY, ((1, 4),))},
        {"moments": moments_of_estimate_plus_one},
    ),
    "sizes.lemma2": ({"sizes": (60, 60), "alpha": Q(9, 10)}, {"sizes": (600, 600)}),
    "sizes.asymptotic_unbiasedness": ({"sizes": (60, 60)}, {"sizes": (600, 600)}),
    "sizes.slides_lemma1": ({"below": operator.le}, PRINTED),
    "sizes.rate_is_a_probability": ({"cap": 4, "alpha": Q(9, 10), "n_star": 1}, PRINTED),
    "sizes.request_of_the_ratio": ({"request": 600}, PRINTED),
    "sizes.slides_fixed_ratio": ({"clients": Q(3, 2)}, {"rates": (Q(1, 4),)}),
    "privacy.lemma5": (
        {"supports": ONLY, "smallest": 1},
        {"formula": lambda e, cap: Q(e - 1, e + cap - 3)},
    ),
    "privacy.alpha_for_three": (PRINTED, {"alpha": Q("0.17")}),
    "privacy.total_is_private": (
        {"smallest": 1},
        {"formula": lambda e, cap: 2 * reports.eq_6_13(e, cap)},
    ),
    "privacy.slides_iff": ({"factors": (1, 2)}, PRINTED),
    "privacy.slides_ratio": ({"formula": lambda cap, a: ((cap - 2) * a + 1) / (1 - a)}, PRINTED),
    "privacy.slides_clip": ({"below_cap": 1}, PRINTED),
    "privacy.guarantee": ({"rounds": 1}, PRINTED),
    "privacy.sizes_remain_private": ({"rounds": 1}, PRINTED),
    "privacy.what_is_protected": ({"table": reports.channels_table()[:1]}, PRINTED),
    "covariances.lemma_3": (PRINTED, {"formula": lambda g, size: cov.srs_form(len(g), 1).at(g)}),
    "covariances.lemma_4": (
        {"form": lambda n, star, size: cov.Form(Q(star, n) * (1 - Q(star, n)) / size**2, Q(0))},
        PRINTED,
    ),
    "covariances.theorem_3": (
        {"form": lambda n, star, size: ZERO, "cases": (("eq. 6.11", (2, 4, 1, 2), (1, -1)),)},
        PRINTED,
    ),
    "covariances.more_stable_updates": ({"reading_form": lambda *setting: (1, ZERO)}, PRINTED),
    "pooling.larger_clients": ({"rate": lambda size: Q(5, size)}, PRINTED),
    "pooling.requested_total": (PRINTED, {"rate": lambda star, n: Q(star, 2 * n)}),
    "pooling.uniform_over_participants": (
        {"cases": (((4, 4), 4),)},
        {"text": lambda sizes, star: [Q(star, n * len(sizes)) for n in sizes]},
    ),
    "pooling.unbiased_data_sampling": (
        {"readings": ("fixed", "bernoulli-mean", "again")},
        {"readings": ("bernoulli", "pooled")},
    ),
    "pooling.mimics_centralised": (
        {"fedstas": ("bernoulli", "drawn")},
        {"fedstas": ("bernoulli", "equal")},
    ),
    "convergence.theorem_2": ({"centres": (0, 2, 0, 2), "constant": False}, PRINTED),
    "convergence.theorem_2_selection": ({"centres": (0, 1)}, PRINTED),
    "convergence.improved_rates": (
        {"table": slope_table({}, -1.5)},
        {"table": slope_table({}, -0.2)},
    ),
    "convergence.improvement": (
        {"slopes": (-1, 1, -1, 1)},
        {"scheme": lambda sizes, m: np.eye(len(sizes))[[0] * m]},
    ),
    "clusters.eq_3_biased": (PRINTED, {"cases": (([1, 1, 8], 3), ([2, 3], 2))}),
    "clusters.md_unbiased": (PRINTED, {"cases": exchange_roles([SKEWED])}),
    "clusters.md_times": (PRINTED, {"cases": exchange_roles([PAIR])}),
    "clusters.proposition_1": (PRINTED, {"cases": [SKEWED]}),
    "clusters.eq_12": (PRINTED, {"cases": [SKEWED]}),
    "clusters.eq_13_14": (PRINTED, {"formula": lambda p, m: p * (1 - p)}),
    "clusters.eq_15_16": (
        PRINTED,
        {"formula": lambda r: [v / 2 for v in theory.weight_variances(r)]},
    ),
    "clusters.eq_17": (PRINTED, {"cases": exchange_roles([PAIR])}),
    "clusters.eq_17_equality": ({"cases": [PAIR, MD]}, {"cases": [(*PAIR[:2], PAIR[3], PAIR[3])]}),
    "clusters.eq_18_20": (PRINTED, {"formula": lambda p, m: m * p}),
    "clusters.eq_21_22": (
        PRINTED,
        {"formula": lambda rows: [sum(c) for c in zip(*rows, strict=True)]},
    ),
    "clusters.eq_23": (PRINTED, {"cases": exchange_roles([PAIR])}),
    "clusters.eq_23_equality": ({"cases": [PAIR, MD]}, {"cases": [(*PAIR[:2], PAIR[3], PAIR[3])]}),
    "clusters.variance_difference_per_client": (PRINTED, {"cases": exchange_roles([PAIR])}),
    "clusters.absence_probability_per_client": (PRINTED, {"cases": exchange_roles([PAIR])}),
    "clusters.eq_56": ({"cases": [MD]}, PRINTED),
    "clusters.representativity": ({"cases": [PAIR, MD]}, {"cases": exchange_roles([PAIR])}),
    "clusters_bounds.lemma_5": (PRINTED, {"three": Q(1, 3)}),
    "clusters_bounds.eq_26_41": (
        PRINTED,
        {"formula": lambda rows, g: 2 * theory.variance_of_mean(rows, g)},
    ),
    "clusters_bounds.eq_42_43": (PRINTED, {"pairs": [(*UNEQUAL[:3], HALF, Q(0))]}),
    "clusters_bounds.a2_equality": (
        {"rows": bounds.EQUAL_GRADIENT_ROWS, "pairs": [UNEQUAL]},
        PRINTED,
    ),
    "clusters_bounds.better_guarantees": (
        {"pairs": [UNEQUAL]},
        {"pairs": [(*UNEQUAL[:3], HALF, Q(0))]},
    ),
    "clusters_bounds.theorem_1": ({"rows": bounds.EQUAL_GRADIENT_ROWS}, {"drift": 1e6}),
    "clusters_bounds.theorem_2": ({"rows": bounds.EQUAL_GRADIENT_ROWS}, {"drift": 1e6}),
    "clusters_algorithms.algorithm_1_printed": ({"repaired": REPAIRS_1}, PRINTED),
    "clusters_algorithms.theorem_3": ({"repaired": REPAIRS_1}, {"scheme": md_rows}),
    "clusters_algorithms.algorithm_1_cost": (
        {"inputs": [(n, m) for n, m in algorithms.algorithm_1_inputs() if m <= len(n)]},
        {"scheme": md_rows},
    ),
    "clusters_algorithms.theorem_3_proof": ({"scheme": theory.theorem_3_counts}, PRINTED),
    "clusters_algorithms.figure_3": (PRINTED, {"scheme": md_rows}),
    "clusters_algorithms.most_draws_per_client": (PRINTED, {"scheme": md_rows}),
    "clusters_algorithms.algorithm_2_printed": ({"repaired": REPAIRS_2}, PRINTED),
    "clusters_algorithms.theorem_4": (
        {"repaired": REPAIRS_2},
        {"scheme": lambda n, groups, m: md_rows(n, m)},
    ),
    "clusters_algorithms.figure_4": (PRINTED, {"scheme": lambda n, groups, m: md_rows(n, m)}),
    "clusters_algorithms.enough_groups": (PRINTED, {"inputs": [([1] * 4, [[0, 1, 2, 3]], 2)]}),
    "clusters_sentences.heavy_clients": (PRINTED, {"scheme": lambda n, groups, m: md_rows(n, m)}),
    "clusters_sentences.algorithm_2_cost": (
        PRINTED,
        {"scheme": lambda n, groups, m: md_rows(n, m)},
    ),
    "clusters_sentences.zero_updates": ({"measures": ("L1", "L2")}, {"other": (1, 0.1)}),
    "clusters_sentences.further_variance": (
        PRINTED,
        {"scheme": lambda n, groups, m: md_rows([1] * len(n), m)},
    ),
    "clusters_sentences.both_smaller": (
        {"inputs": [([1, 1], [[0], [1]], 2)]},
        {"schemes": lambda n, groups, m: [[theory.md_rows([1, *n[1:]], 1)[0]] * m]},
    ),
    "clusters_sentences.no_extra_messages": (PRINTED, {"design": design_with_gradients}),
    "clusters_sentences.distinct_clients": (PRINTED, {"printed": 64}),
    "clusters_sentences.repeated_clients": (PRINTED, {"printed": 36}),
    "clusters_sentences.six_to_eight": (PRINTED, {"draws": 40}),
    "clusters_sentences.ten_different": (PRINTED, {"m": 8}),
    "clusters_sentences.equal_variances": (PRINTED, {"m": 8}),
    "clusters_sentences.dirichlet_limits": (PRINTED, {"purity": lambda a: HALF}),
    "slides_sampling.uniform_pair": ({"participants": 3}, {"weight": slides.equally}),
    "slides_sampling.weighted_pair": ({"participants": 3}, {"weight": slides.by_size}),
    "slides_sampling.fedopt_mean": ({"sizes": (2, 2, 2)}, {"weight": Q(1, 3)}),
    "slides_sampling.uniform_examples": ({"estimates": (4, 2)}, {"norm": 1}),
    "slides_sampling.hard_to_be_uniform": (
        {"pairs": {"uniform": slides.equally, "weighted, with replacement": slides.by_size}},
        {"participants": 2, "pairs": {"uniform": slides.by_size}},
    ),
    "slides_sampling.fixed_ratio": ({"secure": False}, {"shards": ((0, 1), (2, 3))}),
    "text_sentences.fedprox_bias": ({"curvatures": (2, 2)}, {"prox": (100, 1)}),
    "text_sentences.equal_steps": ({"curvatures": (2, 2)}, {"steps": (5, 20)}),
    "text_sentences.jointly": ({"within": (1, 1)}, PRINTED),
    "text_sentences.local_bias": (
        {"weights": {"1/N": sentences.alike}},
        {"shards": ((1,), (1, 1, 1))},
    ),
    "text_sentences.only_two": ({"designs": {"nosy": design_with_gradients("size")}}, PRINTED),
    "text_sentences.compatible": ({"algorithms": ("size",)}, {"algorithms": ("similarity",)}),
    "text_sentences.ward_cost": (PRINTED, {"cluster": lambda d: ([0.0] * (len(d) - 1), 0)}),
    "text_sentences.while_waiting": (
        {"news": ((1, 0), (0, 1))},
        {"scheme": lambda n, groups, m: [[0] * len(n)] * m},
    ),
}


def find_function(name):
    """Return the evidence function of a name `module.function`."""
    module, _, short = name.partition(".")
    return getattr(import_module(f"companion.claims.evidence.{module}"), short)


SLOW = {  # more than a second
    "variance.theorem_1",
    "allocations.neyman",
    "allocations.whole_allocation",
    "privacy.sizes_remain_private",
    "covariances.lemma_4",
    "covariances.theorem_3",
    "convergence.improvement",
    "clusters_bounds.lemma_5",
    "clusters_bounds.eq_26_41",
    "clusters_bounds.eq_42_43",
    "clusters_algorithms.theorem_3",
    "clusters_sentences.further_variance",
    "clusters_sentences.both_smaller",
}


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in SLOW else ()) for x in WORLDS]
)
def test_a_claim_is_judged_by_its_world(name):
    true, false = WORLDS[name]
    for world, word in ((true, "holds"), (false, "fails")):
        result = find_function(name)(None, **world)
        assert result.verdict == word, (word, world)
        assert result.ours is not None and result.note


def test_no_claim_of_theory_is_missing_from_the_worlds():
    functions = {
        f"{module}.{name}"
        for module in MODULES
        for name, result in vars(import_module(f"companion.claims.evidence.{module}")).items()
        if inspect.isfunction(result)
        and not name.startswith("_")
        and result.__module__.endswith(f".{module}")
        and next(iter(inspect.signature(result).parameters), "") == "claim"
    }
    names_in_ledger = {name for name in claims_by_function() if not name.startswith("experiments")}
    assert {name.partition(".")[0] for name in names_in_ledger} == set(MODULES)
    assert names_in_ledger <= functions == set(WORLDS)


def test_statements_are_those_of_their_own_paper():
    """The preprint says nowhere that eq. 4 is a weighted average; Fraboni et al. compare Algorithm 2 with MD sampling."""
    rows = {claim.id: claim for claim in ledger.all_claims()}
    assert "weighted averag" in rows["journal-eq-2-3"].statement
    statements = [claim.statement for claim in rows.values() if claim.paper == "preprint"]
    assert statements
    assert [text for text in statements if "weighted averag" in text] == []
    further = rows["clustered-intro-algorithm-2-variance"]
    assert "as compared to MD sampling" in further.statement
    assert ledger.decide(further).verdict == "holds"
