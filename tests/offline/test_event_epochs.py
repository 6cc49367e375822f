"""Epochs of examples with times: those of a partition that gets the same."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from support.records import HOUR, SETTINGS, START, good, new_model

from stream_apple.offline.event_epochs import deal_by_time


# Runs of equal times make it reachable that the clock is outvoted: a hundred in a row must agree, or a thousand.
@example([(90.0, 3), (5.0, 1100), (6.0, 3)])
@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 120)), min_size=1, max_size=8))
def test_epochs_are_those_of_a_partition(runs: list[tuple[float, int]]) -> None:
    """Which examples are learned, after how many of them an epoch ends, and how many are late."""
    hours = [hour for hour, count in runs for _ in range(count)]
    model = new_model(settings=SETTINGS)
    result = model.process([good(number, hours=each) for number, each in enumerate(hours)])
    timestamps = START + (np.array(hours) * HOUR).astype(np.int64)
    found = deal_by_time(timestamps, SETTINGS.epoch_length_ms, SETTINGS.max_ahead_ms)
    assert found.rows.tolist() == [record.offset() for record in result.examples]
    assert found.far_ahead.tolist() == [reject.record.offset() for reject in result.rejects]
    assert found.rows[list(found.ends)].tolist() == [end.offset for end in result.ends]
    assert found.late == model.clock.late
