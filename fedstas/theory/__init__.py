"""The papers' theory as code: exact moments by enumeration, in rationals, and the formulas as printed.

One module per part: `designs` (who is drawn), `sizes` (the private total), `covariances` (which
examples).
"""

from fedstas.theory.covariances import bernoulli_covariance, paper_lemma4, srs_covariance
from fedstas.theory.designs import (
    DESIGNS,
    design_moments,
    inclusion_probabilities,
    moments,
    successive,
    with_replacement,
)
from fedstas.theory.sizes import (
    SizeEstimator,
    ldp_ratio,
    size_estimator_distribution,
    size_estimator_moments,
)

__all__ = [
    "DESIGNS",
    "SizeEstimator",
    "bernoulli_covariance",
    "design_moments",
    "inclusion_probabilities",
    "ldp_ratio",
    "moments",
    "paper_lemma4",
    "size_estimator_distribution",
    "size_estimator_moments",
    "srs_covariance",
    "successive",
    "with_replacement",
]
