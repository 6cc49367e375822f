"""What a partition's model makes of wrong timestamps: nothing ends its epochs for good, and hardly a record is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import HOUR, START, FakeRecord, good, new_model, process_in_batches
from support.snapshots import empty, pointer

from stream_apple.core.event_time import LONE, VOTES_BEHIND
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.records.times import time_text
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot

FIRST = START // HOUR
YEARS = 260 * 365 * 24
"""In hours."""


def wrong_first(hours: int = 4) -> list[FakeRecord]:
    """A record of centuries ahead, and so many good ones that they outvote it, and some hours more, 50 in each."""
    return [good(0, hours=YEARS), *(good(at, hours=at / 50) for at in range(1, VOTES_BEHIND + 50 * hours))]


def epochs_of(predictions: list[bytes]) -> list[int]:
    """The epochs that predictions name, counted from START's."""
    return [int(str(decode_prediction(prediction)["epoch"])) - FIRST for prediction in predictions]


def test_a_wrong_first_timestamp_is_outvoted_and_epochs_end() -> None:
    """All are learned; the wrong epoch never ended, and each later boundary ends one."""
    (result,) = process_in_batches(model := new_model(), wrong_first())
    assert not result.rejects
    hour = VOTES_BEHIND // 50
    assert [(end.epoch - FIRST, end.offset) for end in result.ends] == [
        (hour + number, (hour + number + 1) * 50) for number in range(3)
    ]
    found = epochs_of(result.predictions)
    assert found[: VOTES_BEHIND + 1] == [YEARS] * VOTES_BEHIND + [hour]
    assert found[-1] == hour + 3 == model.clock.epoch - FIRST


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, VOTES_BEHIND + 200), max_size=6), st.integers(0, VOTES_BEHIND + 200))
def test_however_it_is_cut_and_recovered(cuts: list[int], saved: int) -> None:
    """In batches, and continued from a snapshot taken anywhere, the state is the same to the bit."""
    records = wrong_first()
    whole, cut = empty(), empty()
    process_in_batches(whole, records)
    process_in_batches(cut, records[:saved], cuts)
    snapshot = encode_snapshot(cut)
    restored = empty()
    decoder = SnapshotDecoder(restored, pointer(snapshot))
    for message in snapshot.messages:
        decoder.add(message)
    process_in_batches(restored, records[saved:], cuts)
    assert restored.digest() == whole.digest()


def test_a_long_pause_costs_three_records() -> None:
    """They are dead letters that say so; the next is learned, and the next boundary ends the epoch of before."""
    records = [good(0), *(good(at, hours=9000 + at / 80) for at in range(1, 200))]
    (result,) = process_in_batches(new_model(), records)
    assert [(reject.record.offset(), reject.reason) for reject in result.rejects] == [
        (at, Reason.FAR_FUTURE) for at in range(1, LONE + 1)
    ]
    assert [(end.epoch, end.offset) for end in result.ends] == [(FIRST, 160)]
    assert epochs_of(result.predictions) == [0] * (160 - LONE) + [9002] * 40


@pytest.mark.parametrize("first", [True, False])
def test_microseconds_leave_no_trace(*, first: bool) -> None:
    """A hundred and more of them, wherever they come: dead letters that say what a time is, and a model as without."""
    fine = [good(at, hours=at / 50) for at in range(500, 800)]
    wrong = [good(at)._replace(time_ms=START * 1000 + at) for at in (range(200) if first else range(900, 1100))]
    more = [good(at, hours=at / 50) for at in range(1100, 1200)]
    (result,) = process_in_batches(model := new_model(), [*wrong, *fine, *more] if first else [*fine, *wrong, *more])
    (expected,) = process_in_batches(without := new_model(), [*fine, *more])
    assert {reject.reason for reject in result.rejects} == {Reason.FAR_FUTURE}
    assert [reject.record for reject in result.rejects] == wrong
    assert ("before the year 10000" in result.rejects[0].message) == first
    assert result.predictions == expected.predictions
    assert (model.learner.digest(), model.clock.state.tolist()) == (
        without.learner.digest(),
        without.clock.state.tolist(),
    )


def test_a_refusal_names_the_clock_that_was_asked() -> None:
    """Also behind records of the same batch that have moved the clock, or put it back."""
    records = [*wrong_first(), good(5000, hours=2000), good(5001, hours=27), good(5002, hours=3000)]
    (result,) = process_in_batches(new_model(), records)
    expected = "expected a timestamp at most 1d (epochs.max_ahead) after"
    before = "the latest of the partition before it"
    highest = [records[-4].time_ms, START + 27 * HOUR]
    assert [(reject.record.offset(), reject.message) for reject in result.rejects] == [
        (offset, f"{expected} {time_text(clock)}, {before}, found {time_text(START + hours * HOUR)}")
        for (offset, hours), clock in zip([(5000, 2000), (5002, 3000)], highest, strict=True)
    ]
