"""The random streams of `fedstas.streams`, by the name that they had when they were the simulator's alone."""

from fedstas.streams import LARGEST_SEED, stream

__all__ = ["LARGEST_SEED", "stream"]
