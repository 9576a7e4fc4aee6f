"""Weights of those who answered, when some of a cohort did not.

The survey statistician's adjustment for unit nonresponse: within a stratum the respondents stand for
the silent.
"""

import numpy as np

from fedstas.client_sampling import Cohort
from fedstas.errors import InputError


def reweight(cohort: Cohort, answered) -> np.ndarray:
    """Weights float [m] of a cohort of which only `answered` bool [m] sent an update, 0 for the rest.

    Weights that sum to one over the cohort and have no strata (fedavg, md) are normalised over the
    respondents. All others are multiplied by m_h / r_h within their stratum (the cohort, if it has
    none), r_h of its m_h draws having been answered; the weight of a stratum without any
    answer goes to the others in proportion. If silence has nothing to do with the updates, the first
    step keeps an unbiased estimator unbiased for the strata that answered: r_h of the m_h
    draws are themselves a sample of the same design. `InputError` if nobody answered.
    """
    weights, answered = np.asarray(cohort.weights, dtype=float), np.asarray(answered, dtype=bool)
    if not answered.any():
        raise InputError("nobody of the cohort answered: there is nothing to weight")
    if answered.all():
        return weights
    total, sums_to_one = weights.sum(), bool(np.isclose(weights.sum(), 1.0, rtol=0, atol=1e-9))
    strata = np.zeros(len(weights), dtype=np.int64) if cohort.strata is None else cohort.strata
    if cohort.strata is None and sums_to_one:
        kept = weights * answered
        return kept * (total / kept.sum())
    draws, answers = np.bincount(strata), np.bincount(strata, answered)
    heard = answers > 0
    factor = np.divide(draws, answers, out=np.zeros(len(draws)), where=heard)
    adjusted = weights * answered * factor[strata]
    return adjusted * (total / weights[heard[strata]].sum())
