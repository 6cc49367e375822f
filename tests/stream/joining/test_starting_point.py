"""Where a partition's join goes on, and what is refused."""

from collections.abc import Collection

import pytest
from stream.joining.two_logs import RULE, rule_of
from structlog.typing import EventDict

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.position import NOT_KNOWN, JoinPosition
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.starting_point import JoinLogs, starting_point
from stream_apple.stream.log.ports import Committed, LogRange

JOIN = rule_of(RULE)
POSITION = JoinPosition(50, 40, 30, OutcomeClock(5, 2, 9), 3)
COMMITTED = POSITION.to_committed(JOIN, JOIN.fingerprint)


def logs(impressions: tuple[int, int] = (0, 100), outcomes: tuple[int, int] = (0, 100)) -> JoinLogs:
    """What is in the logs."""
    return JoinLogs(LogRange(*impressions), LogRange(*outcomes))


def begun(
    rule: JoinRule, number: int, committed: Committed | None, there: JoinLogs, gaps: Collection[tuple[int, int]] = ()
) -> JoinPosition:
    """Where a joiner goes on, as it logs."""
    found = starting_point(rule, number, committed, there, gaps)
    found.log(number)
    return found.position


def test_a_first_time() -> None:
    """All that there is is joined; where the beginning of the outcomes is gone, it is not known since when."""
    assert begun(JOIN, 0, None, logs()) == JoinPosition(0, 0, 0, OutcomeClock(), 0)
    assert begun(JOIN, 0, None, logs((5, 9), (7, 8))) == JoinPosition(5, 7, 7, OutcomeClock(), NOT_KNOWN)


def test_what_was_committed_is_read_back(log_events: list[EventDict]) -> None:
    """Every part of it, and without a word."""
    assert begun(JOIN, 0, COMMITTED, logs((50, 50), (30, 40))) == POSITION
    assert log_events == []


def test_other_settings_are_told(log_events: list[EventDict]) -> None:
    """And hold from here on."""
    assert begun(JOIN._replace(wait_ms=9), 3, COMMITTED, logs()) == POSITION
    assert [(each["event"], each["partition"], each["offset"]) for each in log_events] == [("join_changed", 3, 50)]
    assert JOIN._replace(max_outcomes=3, examples="others").fingerprint == JOIN.fingerprint


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ("", "expected JSON, found nothing"),
        ('{"v":1,"start":0,"model":"0123456789abcdef"}', "expected topic, found nothing"),
        (COMMITTED.metadata.replace('"outcomes":40', '"outcomes":-1'), "outcomes"),
        (COMMITTED.metadata.replace('"topic":"outcomes"', '"topic":"clicks"'), "of outcomes outcomes, found .* clicks"),
        (COMMITTED.metadata.replace('"examples":"examples"', '"examples":"old"'), "of examples examples, found .* old"),
        (COMMITTED.metadata.replace('"v":1', '"v":2'), "expected v to be 1, found 2"),
    ],
)
def test_what_somebody_else_has_committed_is_refused(metadata: str, found: str) -> None:
    """A worker's note, another topic's, another version's, or none at all."""
    with pytest.raises(ConfigurationError, match=found):
        begun(JOIN, 0, Committed(50, metadata), logs())


def test_impressions_that_are_gone(log_events: list[EventDict]) -> None:
    """They end the joiner, with the name of the gap; once it is accepted, it goes on behind it."""
    with pytest.raises(GapError, match=r'accept_gap = \["2@50"\]'):
        begun(JOIN, 2, COMMITTED, logs((60, 100)))
    assert begun(JOIN, 2, COMMITTED, logs((60, 100)), {(2, 50)}) == POSITION._replace(impressions=60)
    assert [each["event"] for each in log_events] == ["gap_accepted"]
    with pytest.raises(GapError, match="made anew"):
        begun(JOIN, 2, COMMITTED, logs((0, 49)))


def test_outcomes_that_are_gone(log_events: list[EventDict]) -> None:
    """They end nothing: what is left is read, and it is not known since when it is whole."""
    found = begun(JOIN, 2, COMMITTED, logs(outcomes=(31, 100)))
    assert found == JoinPosition(50, 31, 31, OutcomeClock(), NOT_KNOWN)
    assert [each["event"] for each in log_events] == ["outcomes_gone"]


def test_outcomes_that_were_made_anew(log_events: list[EventDict]) -> None:
    """What was held is gone, too: a joiner would wait for ever for offsets that the log does not have yet."""
    found = begun(JOIN, 2, COMMITTED, logs(outcomes=(0, 39)))
    assert found == JoinPosition(50, 0, 0, OutcomeClock(), NOT_KNOWN)
    assert [(each["event"], each["start"], each["stop"]) for each in log_events] == [("outcomes_gone", 39, 40)]
