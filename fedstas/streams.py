"""Random streams: every random draw has its own generator, so that it does not depend on earlier draws."""

from hashlib import blake2b

import numpy as np

from fedstas.errors import check_int

LARGEST_SEED = 2**63 - 1  # that torch accepts


def stream(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """Return the random generator of a purpose and its ids, e.g. `stream(0, "data", round, place in the cohort)`.

    It is counter-based (Philox) with a 128-bit hash of the arguments as key, the same on every platform.
    """
    seed = check_int("seed", seed, 0, LARGEST_SEED)
    name = "/".join([str(seed), purpose, *(str(int(i)) for i in ids)])
    key = int.from_bytes(blake2b(name.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))
