"""What a participant sends of its update: fewer bits a number, a noisy update, or a term of a masked sum.

These technologies change what the server receives, and neither who is drawn nor how a client trains. Each is a
configuration that `sim.simulation.run` takes as `message`; without one, participants send their updates as they are.
"""

import math
from typing import ClassVar

import numpy as np

from fedstas import privacy
from fedstas.config import config, float_field, int_field
from fedstas.errors import InputError

FLOAT32_BYTES = 4


@config
class QuantisedUpdates:
    """Round each number of an update at random to one of `levels` steps and a sign: QSGD (Alistarh et al. 2017,
    arXiv:1610.02132), which is unbiased.

    An update is cut into buckets of `bucket` numbers. A number is sent as its sign and a whole number l in 0..levels,
    which stands for l / levels times the Euclidean norm of its bucket; the norms are sent as float32. Codes have a fixed
    length here (the paper's variable one is shorter).
    """

    sums_only: ClassVar[bool] = False
    levels: int = int_field(1, 1, 2**15)
    bucket: int = int_field(512)

    def transmit(self, update, rng: np.random.Generator) -> np.ndarray:
        """Return what the server decodes of an update [P], float64 [P]."""
        update = np.asarray(update, dtype=np.float64)
        buckets = math.ceil(len(update) / self.bucket)
        rows = np.zeros((buckets, self.bucket))
        rows.reshape(-1)[: len(update)] = update
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        norms = np.where(norms > 0, norms, 1.0)
        steps = np.abs(rows) / norms * self.levels
        codes = np.floor(steps + rng.random(rows.shape))  # up with the probability of the fraction
        decoded = np.sign(rows) * codes / self.levels * norms
        return decoded.reshape(-1)[: len(update)]

    def count_bytes(self, size: int) -> int:
        """Return the bytes of an update of `size` numbers."""
        bits = size * (1 + math.ceil(math.log2(self.levels + 1)))
        return math.ceil(bits / 8) + FLOAT32_BYTES * math.ceil(size / self.bucket)


@config
class NoisyUpdates:
    """Shorten an update to at most `clip` in L2 and add Gaussian noise of standard deviation `noise` times `clip` to each
    of its numbers, before it leaves the client.

    The unit is the client: the updates of any two are at most 2 clip apart, so that one message is (epsilon, delta)-locally
    differentially private (`epsilon`). Messages of several rounds compose. Shortening is biased, noise is not.
    """

    sums_only: ClassVar[bool] = False
    clip: float = float_field(1.0, 0)
    noise: float = float_field(1.0, 0)

    def transmit(self, update, rng: np.random.Generator) -> np.ndarray:
        """Return the noisy update, float64 [P], of an update [P]."""
        update = np.asarray(update, dtype=np.float64)
        length = np.linalg.norm(update)
        if length > self.clip:
            update = update * (self.clip / length)
        return update + self.noise * self.clip * rng.normal(size=update.shape)

    def count_bytes(self, size: int) -> int:
        """Return the bytes of an update of `size` numbers, as float32."""
        return FLOAT32_BYTES * size

    def epsilon(self, delta: float = 1e-5) -> float:
        """Return the epsilon of one message, for a delta."""
        return privacy.gaussian_epsilon(self.noise, delta, 2.0)


@config
class MaskedUpdates:
    """Send weighted updates under masks that cancel in their sum: secure aggregation (Bonawitz et al. 2017,
    doi:10.1145/3133956.3133982).

    A participant multiplies its update by its weight, rounds it to whole multiples of 2^-fraction_bits, and adds, modulo
    2^32, a uniform mask for each other participant; of each pair one adds the mask and the other subtracts it. The server
    sees uniform numbers, and their sum is exact. A number takes 32 bits, as in float32. Simulated are the masks, not the
    agreement on keys, and no participant may be silent.
    """

    sums_only: ClassVar[bool] = True
    fraction_bits: int = int_field(24, 1, 30)

    def encode(self, update, weight: float) -> np.ndarray:
        """Return a weighted update [P] as whole multiples of 2^-fraction_bits, uint32 [P], modulo 2^32.

        Raises:
            InputError: a number of it is not finite, or does not fit.
        """
        scaled = np.rint(
            np.ldexp(np.asarray(update, dtype=np.float64) * weight, self.fraction_bits)
        )
        if not np.isfinite(scaled).all():
            raise InputError(
                "a weighted update has a number that is not finite: use a smaller learning rate"
            )
        if not (np.abs(scaled) < 2**31).all():
            limit = 2 ** (31 - self.fraction_bits)
            raise InputError(
                f"a weighted update has a number that is not below {limit}, the largest with {self.fraction_bits} "
                "bits after the point: use fewer fraction_bits, or a smaller learning rate"
            )
        return scaled.astype(np.int64).astype(np.uint32)

    def check_sum(self, terms: np.ndarray) -> None:
        """Raise an `InputError` if the sum of terms, uint32 [m, P], does not fit 32 bits and would wrap around."""
        total = terms.view(np.int32).sum(0, dtype=np.int64)
        if (np.abs(total) >= 2**31).any():
            raise InputError(
                f"the sum of the weighted updates has a number that is not below {2 ** (31 - self.fraction_bits)}, the "
                f"largest with {self.fraction_bits} bits after the point: use fewer fraction_bits, or a smaller learning rate"
            )

    def decode(self, total: np.ndarray) -> np.ndarray:
        """Return the sum of weighted updates, float64 [P], of the sum of their messages, uint32 [P]."""
        return np.ldexp(total.view(np.int32).astype(np.float64), -self.fraction_bits)

    def count_bytes(self, size: int) -> int:
        """Return the bytes of an update of `size` numbers."""
        return FLOAT32_BYTES * size


UpdateMessage = QuantisedUpdates | NoisyUpdates | MaskedUpdates


def mask(terms: np.ndarray, pair_rng) -> np.ndarray:
    """Add masks to the participants' terms, so that each message is uniform and their sum is that of the terms.

    Args:
        terms: uint32 [m, P].
        pair_rng: returns the generator that a pair i < j of participants shares, `pair_rng(i, j)`.

    Returns:
        The messages, uint32 [m, P].

    Raises:
        InputError: there is one participant, whose term the sum would show.
    """
    m, size = terms.shape
    if m < 2:
        raise InputError(
            "a cohort has one participant, whose update the sum would show: secure aggregation needs two or more "
            "participants (clients per round)"
        )
    messages = terms.copy()
    for i in range(m):
        for j in range(i + 1, m):
            shared = pair_rng(i, j).integers(2**32, size=size, dtype=np.uint32)
            messages[i] += shared
            messages[j] -= shared
    return messages
