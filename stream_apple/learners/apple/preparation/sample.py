"""The sample on which cuts are fitted again: random examples of those learned since the last fit.

Each example has a priority, which is a hash of its number. The examples of least priority are kept, as many as there is
room for. So all examples since the last fit are equally likely to be in the sample, and which of them are follows from
the examples alone, however they are cut into batches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import splitmix64_finalizer
from stream_apple.learners.apple.preparation.reservoir import Reservoir, empty_reservoir, reservoir_of

SAMPLE_ENTRIES = 1 << 14
"""The most features that a sample holds: a snapshot's manifest has to have room for it and for the intervals."""
OPEN = np.iinfo(np.uint64).max
_SALT = np.uint64(0x5851F42D4C957F2D)


class Sample(NamedTuple):
    """`r` sampled examples.

    reservoir   the examples, in the order of their priorities
    priorities  uint64[r]  ascending
    threshold   uint64[1]  only priorities below it are taken; OPEN if no example was left out
    """

    reservoir: Reservoir
    priorities: NDArray[np.uint64]
    threshold: NDArray[np.uint64]

    def full(self, most: int) -> bool:
        """Return whether the sample has `most` examples, or has left out an example for lack of room."""
        return len(self.priorities) >= most or bool(self.threshold[0] != OPEN)


def empty_sample() -> Sample:
    """Return a sample of no examples that takes any priority."""
    return Sample(empty_reservoir(), np.zeros(0, np.uint64), np.full(1, OPEN, np.uint64))


def take(sample: Sample, batch: Batch, seen: int, most: int) -> Sample:
    """Return the sample after the learned examples of the batch.

    seen  how many examples were learned before the batch
    most  how many examples a sample may have
    """
    learned = batch.learned(0, len(batch.labels))
    with np.errstate(over="ignore"):
        priorities = splitmix64_finalizer(np.arange(seen, seen + len(learned), dtype=np.uint64) + _SALT)
    sizes = np.diff(batch.indptr)[learned]
    wanted = (priorities < sample.threshold[0]) & (sizes <= SAMPLE_ENTRIES)
    if not wanted.any():
        return sample
    kept = sample.reservoir
    all_priorities = np.concatenate([sample.priorities, priorities[wanted]])
    order = np.argsort(all_priorities)
    total = np.concatenate([kept.sizes, sizes[wanted]])[order].cumsum()
    # A priority that was too high once is never taken later, so the sample is a function of all examples seen.
    count = int(np.count_nonzero(total[:most] <= SAMPLE_ENTRIES))
    threshold = all_priorities[order[count]] if count < len(order) else sample.threshold[0]
    new = np.sort(order[:count][order[:count] >= len(kept.sizes)])
    joined = kept.with_rows(batch, learned[wanted][new - len(kept.sizes)])
    places = np.concatenate([np.arange(len(kept.sizes)), new])  # of what is joined, in `all_priorities`
    return Sample(
        reservoir_of(joined.examples, np.argsort(all_priorities[places])[:count]),
        all_priorities[order[:count]],
        np.array([threshold], np.uint64),
    )
