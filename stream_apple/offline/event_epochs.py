"""Epochs as a worker's: spans of event time, cut by the same clock from the timestamps of the examples.

A worker makes dead letters of examples whose time is too far ahead; here they are left out, and counted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.event_time import NO_EPOCH, EpochClock


class EventEpochs(NamedTuple):
    """What a partition with these examples alone would make of `n` of them.

    rows       int64[k], the examples that are scored and learned, ascending
    far_ahead  int64[n - k], the others, ascending: their times lie too far ahead of those before them
    ends       after how many of the k an epoch ends, ascending; the last epoch has no end
    late       how many of the k are learned in a later epoch than their own, which had ended
    """

    rows: NDArray[np.int64]
    far_ahead: NDArray[np.int64]
    ends: tuple[int, ...]
    late: int


def cut_by_time(timestamps_ms: NDArray[np.int64], clock: EpochClock) -> EventEpochs:
    """The epochs of examples with these times, int64[n], each > 0, in the order of the files.

    clock  that of a partition; it is moved over them
    """
    epochs = clock.advance(timestamps_ms)
    timely = epochs != NO_EPOCH
    ends = tuple((np.flatnonzero(np.diff(epochs[timely]) > 0) + 1).tolist())
    return EventEpochs(np.flatnonzero(timely), np.flatnonzero(~timely), ends, clock.late)
