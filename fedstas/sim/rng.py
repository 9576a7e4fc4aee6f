"""The random streams of `fedstas.streams`, under an older name."""

from fedstas.streams import LARGEST_SEED, stream

__all__ = ["LARGEST_SEED", "stream"]
