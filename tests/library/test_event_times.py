"""Epochs of River's models that are spans of event time."""

import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import new_learner
from stream_apple.library.event_times import milliseconds_of, span_of
from stream_apple.library.parameters import options_of
from stream_apple.offline.event_epochs import deal_by_time
from stream_apple.records.times import milliseconds
from stream_apple.river import AppleClassifier

if TYPE_CHECKING:
    from stream_apple.core.batch import Batch

START, ROWS = datetime(2026, 11, 24, tzinfo=UTC), 400
CHOSEN: dict[str, Any] = {"bits": 9, "sort_names": False, "epoch_length": "1h"}


def _frame() -> tuple[pd.DataFrame, list[bool], list[datetime]]:
    """Numbers whose product says the label, a minute apart; one time is late, and one of another year."""
    draw = np.random.default_rng(4)
    frame = pd.DataFrame(draw.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    times = [START + timedelta(minutes=number) for number in range(ROWS)]
    times[200], times[300] = START, START + timedelta(days=400)
    return frame, (frame["a"] * frame["b"] > 0).tolist(), times


def _digest(model: AppleClassifier) -> str:
    return model._model.online.learner.digest()


def test_epochs_end_as_a_workers_do() -> None:
    """By the same clock: row by row, in frames of any size, and after a pickle, the model is the same to the bit."""
    frame, labels, times = _frame()
    one, many = AppleClassifier(**CHOSEN), AppleClassifier(**CHOSEN)
    for number, (x, y, time) in enumerate(zip(frame.to_dict("records"), labels, times, strict=True)):
        one.learn_one(x, y, time=time if number % 2 else time.timestamp())
        if number == 250:
            one = pickle.loads(pickle.dumps(one))
    for start, stop in ((0, 120), (120, 121), (121, 290), (290, 300), (300, 301), (301, 400)):
        many.learn_many(frame[start:stop], labels[start:stop], times=times[start:stop])
    assert _digest(one) == _digest(many)
    assert one._model.online.far_ahead == many._model.online.far_ahead == 1
    batch: Batch = many._batch(frame)
    dealt = deal_by_time(milliseconds_of(times), 3_600_000, 7 * 86_400_000)
    assert (dealt.far_ahead.tolist(), dealt.late, len(dealt.ends)) == ([300], 1, 6)
    learner = new_learner(options_of(many, loss="logistic"))
    rows = batch.select(dealt.rows)._replace(labels=np.where(np.array(labels)[dealt.rows], 1.0, -1.0))
    for start, stop in zip((0, *dealt.ends), (*dealt.ends, len(dealt.rows)), strict=True):
        learner.learn(rows, start, stop, Scores.empty(len(dealt.rows)))
        if stop in dealt.ends:
            learner.end_epoch()
    assert learner.digest() == _digest(many)


def test_times_are_needed_where_epochs_are_spans_of_time() -> None:
    """And refused where they are not; so is what is no time, and no span."""
    frame, labels, times = _frame()
    with pytest.raises(ValueError, match=r"time: expected one for each of 1 examples, .* found none"):
        AppleClassifier(**CHOSEN).learn_one({"a": 1.0}, True)  # noqa: FBT003
    with pytest.raises(ValueError, match=r"expected one for each of 400 examples, .* found 3"):
        AppleClassifier(**CHOSEN).learn_many(frame, labels, times=times[:3])
    with pytest.raises(ValueError, match="time: expected none"):
        AppleClassifier().learn_one({"a": 1.0}, True, time=times[0])  # noqa: FBT003
    never = (
        0,
        -1.0,
        -math.inf,
        4e-4,
        datetime(1969, 12, 31, tzinfo=UTC),
        np.datetime64("12000-01-01"),
        1e30,
        1.7e12,
        10**400,
    )
    for no_time in (True, "noon", math.nan, pd.NaT, np.datetime64("NaT", "s"), *never):
        with pytest.raises(ValueError, match="time: expected"):
            AppleClassifier(**CHOSEN).learn_one({"a": 1.0}, True, time=no_time)  # type: ignore[arg-type]  # noqa: FBT003
    for no_span in (5, "soon", "", timedelta(0), "0s"):
        with pytest.raises(ValueError, match="epoch_length: expected"):
            span_of(no_span)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epoch_examples, epoch_length: expected one of them"):
        AppleClassifier(epoch_examples=5, **CHOSEN).learn_one({"a": 1.0}, True, time=times[0])  # noqa: FBT003


def test_times_of_numpy_are_times() -> None:
    """Of any unit, as a column of a frame has them."""
    times = np.array(["2026-11-24T12:30", "1970-01-01T00:01"], "M8[m]")
    assert milliseconds_of(times).tolist() == milliseconds_of(pd.to_datetime(times)).tolist() == [1795523400000, 60000]


@given(microseconds=st.integers(1_000, 1_000_000_000_000_000), nanoseconds=st.integers(0, 999))
def test_times_are_rounded_as_those_of_records(microseconds: int, nanoseconds: int) -> None:
    """So an example just before an epoch's end is in the same epoch, whichever way it comes."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    exact = 1000 * microseconds + nanoseconds
    ways = [moment, np.datetime64(microseconds, "us"), np.datetime64(exact, "ns"), pd.Timestamp(exact)]
    assert milliseconds_of(ways).tolist() == [milliseconds(moment)] * len(ways)
    seconds = microseconds / 1e6
    assert milliseconds_of([seconds]).tolist() == [milliseconds(seconds)]
