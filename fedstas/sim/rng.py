"""Random streams: each draw has a generator of its own, so that it does not depend on earlier draws."""

from hashlib import blake2b

import numpy as np

from fedstas.errors import check_int

LARGEST_SEED = 2**63 - 1  # that torch accepts


def stream(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """Return the generator of (seed, purpose, ids), e.g. `stream(0, "data", round, place in the cohort)`.

    Counter-based (Philox), keyed by a 128-bit hash: the same on every platform and backend.
    """
    seed = check_int("seed", seed, 0, LARGEST_SEED)
    name = "/".join([str(seed), purpose, *(str(int(i)) for i in ids)])
    key = int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))
