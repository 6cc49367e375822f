"""Labels that come later than the features: which are known when an example comes.

An example is scored when it comes, by the model as it is then, and learned when its label comes. What can be used are
these scores; progressive validation, which takes each label at once, says how good they could be.
"""

import numpy as np
from numpy.typing import NDArray


def known_after_examples(count: int, delay: int) -> NDArray[np.int64]:
    """Return how many labels are known when each of `count` examples comes, int64[count].

    delay  a label comes with the example so many places behind its own, just before that one is scored: 1 is no delay
    """
    return np.maximum(np.arange(count, dtype=np.int64) - max(delay, 1) + 1, 0)


def known_after_time(timestamps: NDArray[np.int64], delay_ms: int) -> NDArray[np.int64]:
    """Return how many labels are known when each example comes, int64[n].

    timestamps  int64[n], milliseconds; an example that is late comes when the highest before it did
    delay_ms    from an example to its label
    """
    clock = np.maximum.accumulate(timestamps)
    known = np.searchsorted(clock, clock - delay_ms, "right")
    return np.minimum(known, np.arange(len(clock))).astype(np.int64)


def stride_of(waiting: int, most: int) -> int:
    """Return of how many examples one is remembered until its label comes, a power of two.

    waiting  so many examples wait for their labels at a time
    most     so many are remembered, at least 1
    """
    stride = 1
    while waiting > stride * most:
        stride *= 2
    return stride
