"""Labels that come later than the features: how many are known when each example comes.

An example is scored when it comes, by the model as it is then, and learned when its label comes. These are the scores
that a user gets; progressive validation, which takes each label at once, shows how good they could be.
"""

import numpy as np
from numpy.typing import NDArray


def known_after_examples(count: int, delay: int) -> NDArray[np.int64]:
    """Return how many labels are known when each of `count` examples comes, int64[count].

    delay  a label comes just before the example so many places after its own is scored; 1 is no delay
    """
    return np.maximum(np.arange(count, dtype=np.int64) - max(delay, 1) + 1, 0)


def known_after_time(timestamps: NDArray[np.int64], delay_ms: int) -> NDArray[np.int64]:
    """Return how many labels are known when each example comes, int64[n].

    timestamps  int64[n], milliseconds; a late example is taken to come at the highest timestamp before it
    delay_ms    from an example to its label
    """
    clock = np.maximum.accumulate(timestamps)
    known = np.searchsorted(clock, clock - delay_ms, "right")
    return np.minimum(known, np.arange(len(clock))).astype(np.int64)


def in_turn(
    known: NDArray[np.int64], start: int, stop: int, learned: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return what happens while rows [start, stop) come, in its order: int64[k] rows, and bool[k] whether each comes.

    known    as `known_after_examples` returns it
    learned  how many rows have been learned before

    A row that does not come is learned: its label has become known.
    """
    learning, coming = np.arange(learned, known[stop - 1]), np.arange(start, stop)
    before = np.searchsorted(known, learning, "right")
    order = np.argsort(np.concatenate([before, coming]), kind="stable")
    return np.concatenate([learning, coming])[order], order >= len(learning)


def stride_of(waiting: int, most: int) -> int:
    """Return the stride, a power of two: one example of so many is remembered until its label comes.

    waiting  how many examples wait for their labels at a time
    most     how many may be remembered, at least 1
    """
    stride = 1
    while waiting > stride * most:
        stride *= 2
    return stride
