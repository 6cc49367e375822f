"""What is committed next to an offset, and no joiner can have written, is refused before anything is joined."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.joining.test_early import AT_ONCE
from stream.joining.test_starting_point import logs

from stream_apple.core.timestamps import END_MS
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.starting_point import starting_point
from stream_apple.stream.log.ports import Committed

POSITION = JoinPosition(50, 40, 30, OutcomeClock(5, 2, 9), 3, 60, AT_ONCE.early_fingerprint, 55, 7, 4)
NOTE: dict[str, Any] = json.loads(POSITION.to_committed(AT_ONCE, AT_ONCE.fingerprint).metadata)
NO_TIME = st.one_of(st.integers(max_value=-2), st.integers(min_value=END_MS), st.just(1 << 70))
NO_OFFSET = st.one_of(st.integers(max_value=-1), st.integers(min_value=1 << 63))
NO_NUMBER = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.floats(), st.lists(st.integers(), max_size=4))
NO_FINGERPRINT = st.one_of(st.integers(), st.none(), st.text(min_size=1, max_size=15), st.just("0" * 17))
FORGED = {
    "v": st.integers().filter(lambda each: each != 1),
    "topic": st.one_of(st.integers(), st.text(min_size=1).filter(lambda each: each != "outcomes")),
    "examples": st.one_of(st.integers(), st.text(min_size=1).filter(lambda each: each != "examples")),
    "rule": st.one_of(NO_FINGERPRINT, st.just("")),
    "outcomes": st.one_of(NO_OFFSET, NO_NUMBER, st.integers(0, 29)),
    "held_from": st.one_of(NO_OFFSET, NO_NUMBER, st.integers(min_value=41)),
    "clock": st.one_of(
        NO_NUMBER.filter(lambda each: not isinstance(each, list) or len(each) != 3),
        st.tuples(NO_TIME, st.just(0), st.just(-1)),
        st.tuples(st.just(5), st.one_of(st.integers(max_value=-1), st.integers(min_value=100)), st.just(9)),
        st.tuples(st.just(5), st.integers(0, 99), NO_TIME),
        st.tuples(st.just(5), st.integers(1, 99), st.just(-1)),
    ),
    "complete_from": st.one_of(NO_TIME, NO_NUMBER),
    "seen": st.one_of(NO_OFFSET, NO_NUMBER, st.just(0)),
    "early": st.one_of(NO_FINGERPRINT, st.just(""), st.just("0" * 16)),
    "doubted": st.one_of(NO_OFFSET, NO_NUMBER, st.integers(min_value=101)),
    "shown": st.one_of(NO_TIME, NO_NUMBER),
    "beat": st.one_of(NO_TIME, NO_NUMBER),
}


def start(note: dict[str, Any], offset: int = 50) -> JoinPosition:
    """Return where a joiner goes on with this note."""
    return starting_point(AT_ONCE, 0, Committed(offset, json.dumps(note)), logs()).position


def test_the_true_note_is_read() -> None:
    """It has each field that is forged below."""
    assert start(NOTE) == POSITION
    assert FORGED.keys() == NOTE.keys()


@pytest.mark.parametrize("field", FORGED)
@given(st.data())
def test_each_field(field: str, data: st.DataObject) -> None:
    """The error ends the joiner with 78; it says where, what was found, and what helps."""
    forged = data.draw(FORGED[field])
    with pytest.raises(ConfigurationError) as raised:
        start({**NOTE, field: forged})
    assert raised.value.exit_code == 78
    message = str(raised.value)
    assert "impressions-0@50: expected" in message
    assert "found" in message
    assert "join.group" in message or "join.wait" in message
    assert len(message) < 1_000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clock": [1 << 70, 0, -1]}, r"clock\.0 to be less than 9223372036854775808, found 1180591620717411303424"),
        ({"clock": [END_MS, 0, -1]}, "the time of the clock below 253402300800000 .*, found 253402300800000"),
        ({"shown": END_MS}, "shown below 253402300800000"),
        ({"held_from": 41}, "held_from at most outcomes, 40, found 41"),
        ({"doubted": 101}, "doubted at most 100, its end, found 101"),
        ({"seen": 0}, "seen and early, or neither, found 0 and"),
        ({"clock": [5, 3, -1]}, "fewer than 100 votes for a rival of the clock, or none without it, found 3"),
    ],
)
def test_what_it_says(changed: dict[str, Any], message: str) -> None:
    """The field, what was expected of it, and what was found."""
    with pytest.raises(ConfigurationError, match=message):
        start({**NOTE, **changed})


def test_what_a_log_that_was_made_again_has_lost() -> None:
    """That is no forgery: impressions that were there end the joiner, and outcomes make impressions late."""
    with pytest.raises(GapError):
        start(NOTE, 101)
    with pytest.raises(GapError):
        start({**NOTE, "seen": 101})
    assert start({**NOTE, "outcomes": 101}).outcomes == 0


@given(st.dictionaries(st.sampled_from([*NOTE]), st.one_of(NO_NUMBER, st.integers()), max_size=4))
def test_any_note_is_read_or_refused(changed: dict[str, Any]) -> None:
    """No other error comes of it."""
    try:
        found = start({**NOTE, **changed})
    except (ConfigurationError, GapError):
        return
    assert 0 <= found.window_from <= found.outcomes
    assert -1 <= found.clock.now < END_MS
