"""The finalizer of splitmix64 (Steele, Lea, Flood 2014): a hash of a word of 64 bits, which is one-to-one."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import routine

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: what splitmix64 adds to its state for each word."""

_W = TypeVar("_W", np.uint64, NDArray[np.uint64])


def splitmix64_finalizer(words: _W) -> _W:
    """Return a hash of each word. Models depend on it: it must never change."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


finalize = routine(splitmix64_finalizer)
"""The same of one word, for kernels."""
