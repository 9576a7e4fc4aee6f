"""Aggregation weights when some participants of a cohort did not answer.

This is the weighting-class adjustment for unit nonresponse of survey statistics: within a stratum, the participants
who answered represent those who did not.
"""

import numpy as np

from fedstas.client_sampling import Cohort
from fedstas.errors import InputError


def reweight(cohort: Cohort, answered, expands: bool = False) -> np.ndarray:
    """Return the weights [m] of a cohort whose participants `answered` (bool [m]), 0 for those who did not.

    Weights that sum to one and have no strata (fedavg, md) are normalised over the participants who answered, unless
    the design `expands`. All others are multiplied by m_h / r_h, where r_h of the m_h draws of their stratum were
    answered (a cohort without strata is one stratum). The weight of a stratum without any answer is shared among the
    others in proportion.
    If answering does not depend on the updates, the answered draws of a stratum are a sample of the same design, so that
    an unbiased estimator stays unbiased for the strata with answers.

    Args:
        cohort: the participants with the weights that they have if all answer.
        answered: which of them answered.
        expands: the design's flag of this name (`ClientDesign`): the weights are omega_k / pi_k, or plain omega_k. They add
            up to one on average at most, so they are not normalised, even in a cohort in which they happen to add up to one.

    Raises:
        InputError: nobody answered, or the weights of those who answered add up to 0 where a sum is to be restored.
    """
    weights, answered = np.asarray(cohort.weights, dtype=float), np.asarray(answered, dtype=bool)
    if not answered.any():
        raise InputError("nobody of the cohort answered: there is nothing to weight")
    if answered.all():
        return weights
    total, sums_to_one = weights.sum(), bool(np.isclose(weights.sum(), 1.0, rtol=0, atol=1e-9))
    strata = np.zeros(len(weights), dtype=np.int64) if cohort.strata is None else cohort.strata
    if cohort.strata is None and sums_to_one and not expands:
        weights = weights * answered
        return weights * (total / _sum(weights))
    draws, answers = np.bincount(strata), np.bincount(strata, answered)
    has_answer = answers > 0
    factor = np.divide(draws, answers, out=np.zeros(len(draws)), where=has_answer)
    adjusted = weights * answered * factor[strata]
    if has_answer[strata].all():
        return adjusted
    return adjusted * (total / _sum(weights[has_answer[strata]]))


def _sum(weights: np.ndarray) -> float:
    """Return the sum of the weights that remain; `InputError` if it is 0 up to rounding, so that no factor restores the
    cohort's sum."""
    remaining = weights.sum()
    if abs(remaining) <= 1e-12 * np.abs(weights).sum():
        raise InputError(
            "the weights of those who answered add up to 0, so that they cannot stand for the silent ones: leave the "
            "model as it is in this round"
        )
    return remaining
