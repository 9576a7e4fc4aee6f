"""Exercises on a real federation (chapter 8)."""

from __future__ import annotations

import math

import numpy as np

from companion.teach.check import Example, Exercise, Function

EXERCISES: dict[str, Exercise] = {}


def bytes_up(clients, participants, parameters, levels):
    """Return the bytes that FedSTaS's clients send in a round with stratification: compressed gradients, and models.

    A compressed gradient has `levels` centres of 32 bits, and for each entry a code, the number of its centre. A model
    has 32 bits for each parameter.
    """
    bits = 32 * levels + parameters * math.ceil(math.log2(levels))
    return clients * math.ceil(bits / 8) + participants * 4 * parameters


def bytes_of_centres_only(clients, participants, parameters, levels):
    """Return the bytes if a compressed gradient were its centres alone, without the code of each entry (a mistake)."""
    return clients * 4 * levels + participants * 4 * parameters


def bits_up(clients, participants, parameters, levels):
    """Return the bits in place of the bytes (a mistake)."""
    bits = 32 * levels + parameters * math.ceil(math.log2(levels))
    return clients * bits + participants * 32 * parameters


def bytes_of_participants(clients, participants, parameters, levels):
    """Return the bytes if participants alone sent gradients (a mistake)."""
    return bytes_up(participants, participants, parameters, levels)


EXERCISES["bytes"] = Function(
    level=1,
    solution=bytes_up,
    inputs=((1, 1, 8, 2), (5, 3, 3760, 9), (100, 10, 39_760, 9), (100, 10, 39_760, 16)),
    mistakes={
        "You count the levels and leave out the codes, one for each parameter.": bytes_of_centres_only,
        "That is in bits: a byte has eight.": bits_up,
        "Strata need a gradient of every client, not of the participants alone.": (
            bytes_of_participants
        ),
    },
)


def reweight_respondents(weights, strata, answered):
    """Multiply the weights of a stratum's r_h >= 1 respondents by m_h / r_h, with m_h its draws; those of others are 0."""
    weights, strata = np.asarray(weights, dtype=float), np.asarray(strata)
    answered = np.asarray(answered, dtype=bool)
    draws = np.bincount(strata)
    answers = np.bincount(strata, answered)
    return (weights * answered * (draws / np.maximum(answers, 1))[strata]).tolist()


def keep_weights(weights, strata, answered):
    """Return the old weights of the respondents, 0 of the others (a mistake)."""
    return (np.asarray(weights, dtype=float) * np.asarray(answered)).tolist()


def normalise_weights(weights, strata, answered):
    """Return the respondents' weights, divided by their sum (a mistake)."""
    respondents = np.asarray(weights, dtype=float) * np.asarray(answered)
    return (respondents / respondents.sum()).tolist()


def reweight_over_cohort(weights, strata, answered):
    """Return the reweighting with the cohort as one stratum (a mistake)."""
    return reweight_respondents(weights, [0] * len(weights), answered)


EXERCISES["stand-for"] = Function(
    level=2,
    solution=reweight_respondents,
    inputs=(
        ([0.5, 0.5], [0, 0], [True, False]),
        ([0.4, 0.4, 0.1, 0.1], [0, 0, 1, 1], [True, True, True, False]),
        ([0.9, 0.2, 0.3, 0.1, 0.4], [0, 0, 0, 1, 1], [True, False, True, False, True]),
    ),
    mistakes={
        "The silent are left out, and nobody stands for them.": keep_weights,
        "You make the sum one; Hansen-Hurwitz weights sum to one only on average.": normalise_weights,
        "The respondents of one stratum do not know what the silent of another would have said.": (
            reweight_over_cohort
        ),
    },
)


def check_not_at_random(example) -> str:
    """Return what is wrong with two clients' values and probabilities to answer: the respondents' mean should be biased; "" if nothing is."""
    values, chances = (list(map(float, part)) for part in example)
    if len(values) != 2 or len(chances) != 2:
        return "two values and two chances are asked for."
    if not all(0.5 <= q <= 1 for q in chances):
        return f"the chances are {chances}: each must be at least 1/2 and at most 1."
    if sorted(values) != [0.0, 1.0]:
        return f"the values are {values}: one must be 0, the other 1."
    (a, b), (p, q) = values, chances
    answered = 1 - (1 - p) * (1 - q)
    mean = (p * q * (a + b) / 2 + p * (1 - q) * a + (1 - p) * q * b) / answered
    off = abs(mean - 0.5)
    return "" if off > 0.15 else f"the respondents' mean is {mean:.3f}, only {off:.3f} from 1/2."


EXERCISES["not-at-random"] = Example(
    level=3,
    solution=((0, 1), (0.5, 0.95)),
    fault=check_not_at_random,
    mistakes=(((0, 1), (0.7, 0.7)), ((0, 2), (0.5, 0.9)), ((0, 1), (0.1, 0.9))),
)
