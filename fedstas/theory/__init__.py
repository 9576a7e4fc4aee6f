"""The papers' theory as code: exact moments by enumeration, in rationals, and the formulas as printed.

`designs` (moments of sampling designs), `allocations` (draws per stratum), `variances` (Theorem 1), `sizes` and
`reports` (the private total), `covariances` (sampling of examples), `clusters` (clustered sampling), `convergence`
(where a design leads), `least_variance` (strata of least variance, by all partitions).

May import `fedstas` and no torch. `from fedstas import theory` has the functions that chapters and claims use. All
take small federations: enumeration grows exponentially, and each function refuses what is too large.

To add a formula, write it in rationals beside those of its theorem, with a test against enumeration.
"""

from fedstas.theory.allocations import (
    allocation_variance,
    integer_optimum,
    neyman_bounded,
    neyman_printed,
)
from fedstas.theory.clusters import (
    distinct,
    distinct_uniform,
    groups_as_rows,
    md_rows,
    mean_variance,
    printed_algorithm_1,
    printed_algorithm_2,
    proof_of_theorem_3,
    proposition_1,
    removed_covariance,
    row_inclusion,
    rows_of,
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
    stratified_moments,
    successive,
    successive_inclusion,
    with_replacement,
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
from fedstas.theory.variances import PerDraw, per_draw, simple_random, stratified_random, theorem_1

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
    "design_moments",
    "distinct",
    "distinct_uniform",
    "estimated_rate",
    "expansion_moments",
    "expected_weights",
    "groups_as_rows",
    "inclusion_probabilities",
    "integer_optimum",
    "ldp_ratio",
    "md_rows",
    "mean_variance",
    "mode_attack",
    "moments",
    "neyman_bounded",
    "neyman_printed",
    "paper_lemma4",
    "per_draw",
    "printed_algorithm_1",
    "printed_algorithm_2",
    "proof_of_theorem_3",
    "proposition_1",
    "raw_rate_error",
    "removed_covariance",
    "report_distribution",
    "report_ratio",
    "row_inclusion",
    "rows_of",
    "simple_random",
    "size_estimator_distribution",
    "size_estimator_exact",
    "size_estimator_moments",
    "srs_covariance",
    "stratified_moments",
    "stratified_random",
    "successive",
    "successive_inclusion",
    "theorem_1",
    "truth_probability_bounds",
    "weight_moments",
    "weight_variances",
    "with_replacement",
    "worst_ratio",
]
