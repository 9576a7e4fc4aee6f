"""The papers' theory as code: exact moments by enumeration, in rationals, and the formulas as printed.

`designs` (moments of sampling designs), `allocations` (draws per stratum), `variances` (Theorem 1), `sizes` and
`reports` (the private total), `covariances` (sampling of examples), `clusters` (clustered sampling), `convergence`
(exact errors over rounds), `least_variance` (strata of least variance, among all partitions).

May import `fedstas` and no torch. `from fedstas import theory` has the functions that chapters and claims use, and
`theory.convergence` and `theory.least_variance`, which are imported when they are first asked for. All
take small federations: enumeration grows exponentially, and each function refuses what is too large.

To add a formula, write it in rationals beside those of its theorem, with a test against enumeration.
"""

import importlib

from fedstas.theory.allocations import (
    allocation_variance,
    integer_optimum,
    neyman_bounded,
    neyman_printed,
)
from fedstas.theory.clusters import (
    covariance_reduction,
    distinct_probabilities,
    distinct_uniform_probabilities,
    groups_as_rows,
    md_rows,
    normalise_rows,
    printed_algorithm_1,
    printed_algorithm_2,
    row_inclusion,
    satisfies_proposition_1,
    theorem_3_counts,
    variance_of_mean,
    weight_moments,
    weight_variances,
)
from fedstas.theory.covariances import bernoulli_covariance, paper_lemma4, srs_covariance
from fedstas.theory.designs import (
    DESIGNS,
    ESTIMATORS,
    design_moments,
    expansion_moments,
    expected_weights,
    inclusion_probabilities,
    moments,
    samples_with_replacement,
    stratified_moments,
    successive_inclusion,
    successive_samples,
)
from fedstas.theory.reports import (
    busiest_bounds,
    composed_ratio,
    ldp_ratio,
    mode_attack,
    report_distribution,
    report_ratio,
    truth_probability_bounds,
    worst_ratio,
)
from fedstas.theory.sizes import (
    EstimatedRate,
    SizeEstimator,
    estimated_rate,
    raw_rate_error,
    size_estimator_distribution,
    size_estimator_exact,
    size_estimator_moments,
)
from fedstas.theory.variances import (
    PerDraw,
    per_draw,
    simple_random_variance,
    stratified_random_variance,
    theorem_1,
)

__all__ = [
    "DESIGNS",
    "ESTIMATORS",
    "EstimatedRate",
    "PerDraw",
    "SizeEstimator",
    "allocation_variance",
    "bernoulli_covariance",
    "busiest_bounds",
    "composed_ratio",
    "covariance_reduction",
    "design_moments",
    "distinct_probabilities",
    "distinct_uniform_probabilities",
    "estimated_rate",
    "expansion_moments",
    "expected_weights",
    "groups_as_rows",
    "inclusion_probabilities",
    "integer_optimum",
    "ldp_ratio",
    "md_rows",
    "mode_attack",
    "moments",
    "neyman_bounded",
    "neyman_printed",
    "normalise_rows",
    "paper_lemma4",
    "per_draw",
    "printed_algorithm_1",
    "printed_algorithm_2",
    "raw_rate_error",
    "report_distribution",
    "report_ratio",
    "row_inclusion",
    "samples_with_replacement",
    "satisfies_proposition_1",
    "simple_random_variance",
    "size_estimator_distribution",
    "size_estimator_exact",
    "size_estimator_moments",
    "srs_covariance",
    "stratified_moments",
    "stratified_random_variance",
    "successive_inclusion",
    "successive_samples",
    "theorem_1",
    "theorem_3_counts",
    "truth_probability_bounds",
    "variance_of_mean",
    "weight_moments",
    "weight_variances",
    "worst_ratio",
]


def __getattr__(name: str):
    """Import `convergence` or `least_variance` when it is first asked for; the latter imports designs."""
    if name in ("convergence", "least_variance"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
