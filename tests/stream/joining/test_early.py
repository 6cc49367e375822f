"""Impressions that are sent as soon as they have an outcome: none is lost, none comes twice, whatever happens."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.test_partition_join import heartbeat, impression, labels_of, outcome
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START, Harness, make_logs, rule_of
from support.oracles.offline_join import Example, joined_at_once
from support.records import FakeRecord

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.joining.own_messages import read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import Joined, PartitionJoin
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.starting_point import JoinLogs, starting_point
from stream_apple.stream.log.ports import LogRange

DUE = rule_of(RULE._replace(several="first"))
AT_ONCE = DUE._replace(on_outcome=True, max_impressions=1_000)
SEEDS = st.integers(0, 1_000_000)


def in_order(examples: list[Example]) -> list[Example]:
    """By the offset of the impression, which its key tells."""
    return sorted(examples, key=lambda each: int((each.key or b"").removeprefix(b"key-")))


@settings(max_examples=12)
@given(
    SEEDS, st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([3, 40, 1_000]), st.sampled_from(["always", "in the end"])
)
def test_orderly_logs(seed: int, restarts: float, room: int, beats: str) -> None:
    """The same examples as if they had waited, in whichever portions logs are read, with restarts or without."""
    logs = make_logs(seed, 40, heartbeats=beats == "always")
    joined = Harness(AT_ONCE._replace(max_impressions=room), logs, seed).run(restarts)
    assert in_order(joined.examples) == joined_at_once(RULE, *logs)
    assert joined.refused_impressions == joined.refused_outcomes == []


def test_most_positives_come_early() -> None:
    """Sooner than impressions that came before theirs."""
    joined = Harness(AT_ONCE, make_logs(1), 1).run().examples
    places = {each.key: place for place, each in enumerate(in_order(joined))}
    earlier = [each for place, each in enumerate(joined) if place < places[each.key]]
    assert len(earlier) > 10


@settings(max_examples=15)
@given(SEEDS, st.sampled_from([2, 20, 200]), st.sampled_from([0.05, 0.5]), st.sampled_from([0.1, 0.5]))
def test_any_logs(seed: int, disorder: int, odd: float, restarts: float) -> None:
    """However late records are, and whatever their times: each impression makes one example, or one dead letter."""
    logs = make_logs(seed, 120, disorder_ms=disorder * SECOND, odd=odd)
    harness = Harness(AT_ONCE, logs, seed)
    joined = harness.run(restarts)
    fates = Counter(int((each.key or b"").removeprefix(b"key-")) for each in joined.examples)
    fates.update(joined.refused_impressions)
    done = [each.at for each in logs.impressions if each.at < harness.join.position.impressions]
    assert set(fates.values()) == {1}
    assert set(done) <= fates.keys() <= {each.at for each in logs.impressions}
    assert len(done) > 0.8 * len(logs.impressions)


class Logs:
    """Two logs that grow, and joins of them."""

    def __init__(self, *impressions: FakeRecord) -> None:
        self.impressions = list(impressions)
        self.outcomes: list[FakeRecord] = []

    def join(self, rule: object = AT_ONCE, position: JoinPosition = ORIGIN) -> "Live":
        """A joiner that goes on from here."""
        return Live(self, rule, position)


class Live:
    """One life of a joiner."""

    def __init__(self, logs: Logs, rule: object, position: JoinPosition) -> None:
        self._logs = logs
        self._rule = rule
        self.join = PartitionJoin(rule, position)  # type: ignore[arg-type]
        self._read = [position.impressions, position.window_from]

    def step(self) -> Joined:
        """All that can be decided."""
        shown = [each for each in self._logs.impressions if each.at >= self._read[0]]
        said = [each for each in self._logs.outcomes if each.at >= self._read[1]]
        end = self._logs.impressions[-1].at + 1
        self._read = [end, self._logs.outcomes[-1].at + 1 if self._logs.outcomes else 0]
        self.join.offer_impressions(read_impressions(shown, 10_000), end, end)
        self.join.offer_outcomes(read_outcomes(said, 10_000))
        return self.join.advance(1_000)

    def says(self, *records: FakeRecord) -> list[object]:
        """The labels of what is sent when these have come."""
        self._logs.outcomes += records
        return labels_of(self.step())

    def again(self, rule: object | None = None) -> "Live":
        """A successor."""
        return Live(self._logs, rule or self._rule, self.join.position)


class TestOneByOne:
    """What is sent when. The wait is a minute, the tolerance five seconds."""

    def test_a_positive_does_not_wait(self) -> None:
        """It is sent with its outcome; the others are sent when they are due, and it is passed over."""
        live = Logs(impression(0, 0), impression(1, 0, "b")).join()
        assert live.says(heartbeat(0, 1, 2)) == []
        assert live.says(outcome(1, 3, 4)) == [4]
        assert live.says(outcome(2, 4, 9), heartbeat(3, 65, 2)) == []
        assert live.says(heartbeat(4, 66, 2)) == [-1]

    def test_an_outcome_before_the_heartbeat(self) -> None:
        """What is clicked within a second is sent with the next heartbeat; the first outcome of the log counts."""
        live = Logs(impression(0, 0)).join()
        assert live.says(heartbeat(0, 0, 0), outcome(1, 0.6, 7), outcome(2, 0.5, 8)) == []
        assert live.says(heartbeat(3, 1, 1)) == [7]

    def test_an_outcome_outside_of_the_window(self) -> None:
        """It sends nothing."""
        live = Logs(impression(0, 0)).join()
        assert live.says(heartbeat(0, 0, 1), outcome(1, -5.001), outcome(2, 60.001)) == []
        assert live.says(heartbeat(3, 66, 1)) == [-1]

    @pytest.mark.parametrize("room", [0, 1])
    def test_without_room_positives_come_later(self, room: int) -> None:
        """The joiner reads no further ahead than it has room; what it has not read waits for its turn, at most."""
        join = PartitionJoin(AT_ONCE._replace(max_impressions=room), ORIGIN._replace(shown=START))
        assert join.wants_impressions(1)
        join.offer_impressions(read_impressions([impression(0, 0)], 10_000), 1, 9)
        assert not join.wants_impressions(1)
        join.offer_outcomes(read_outcomes([heartbeat(0, 0, 9), outcome(1, 1, 5, "b"), heartbeat(2, 66, 9)], 10_000))
        assert labels_of(join.advance(100)) == [-1]
        join.offer_impressions(read_impressions([impression(1, 2, "b")], 10_000), 9, 9)
        assert labels_of(join.advance(100)) == [5]

    def test_impressions_that_are_in_the_log_are_waited_for(self) -> None:
        """What a heartbeat covers is read before further outcomes are taken in, but not what no log holds."""
        join = PartitionJoin(AT_ONCE, ORIGIN._replace(shown=START))
        join.offer_impressions(read_impressions([impression(0, 0)], 10_000), 1, 2)
        join.offer_outcomes(read_outcomes([heartbeat(0, 1, 9_000), outcome(1, 2)], 10_000))
        assert labels_of(join.advance(100)) == []
        join.offer_impressions(read_impressions([impression(1, 0)], 10_000), 2, 2)
        assert labels_of(join.advance(100)) == [1, 1]


class TestRestarts:
    """What has been sent is known from the two logs again."""

    def test_what_was_sent_is_not_sent_again(self) -> None:
        """Nor is it forgotten to send what has not been."""
        live = Logs(impression(0, 0), impression(1, 0, "b"), impression(2, 0, "c")).join()
        assert live.says(heartbeat(0, 1, 3), outcome(1, 2, 5)) == [5]
        live = live.again()
        assert live.says() == []
        assert live.says(outcome(2, 3, 6, "b"), outcome(3, 3)) == [6]
        assert live.again().again().says(heartbeat(4, 66, 3)) == [-1]

    def test_a_wrong_clock_between(self) -> None:
        """A heartbeat of the future would have all outcomes forgotten, and with them what was sent."""
        live = Logs(impression(0, 0), impression(1, 0, "b")).join()
        assert live.says(heartbeat(0, 1, 2), outcome(1, 2, 5)) == [5]
        live._logs.outcomes += [heartbeat(2, 9_000, 0), heartbeat(3, 3, 0)]
        assert labels_of(live.step()) == []
        live = live.again()
        assert live.says(heartbeat(4, 66, 2)) == [-1]

    def test_impressions_that_nobody_had_read(self) -> None:
        """A heartbeat that covers what is not there yet, and its outcome, do not make it sent."""
        logs = Logs(impression(0, 0))
        live = logs.join()
        assert live.says(heartbeat(0, 1, 2), outcome(1, 2, 5, "b")) == []
        logs.impressions.append(impression(1, 1, "b"))
        live = live.again()
        assert live.says() == [5]
        assert live.again().says(heartbeat(2, 66, 2)) == [-1]

    def test_it_may_be_begun_and_ended(self) -> None:
        """A group that waited sends at once from then on; one that sent at once ends with what it has seen."""
        logs = Logs(impression(0, 0), impression(1, 0, "b"), impression(2, 0, "c"))
        live = logs.join(DUE)
        assert live.says(heartbeat(0, 1, 3), outcome(1, 2, 5)) == []
        live = live.again(AT_ONCE)
        assert live.says(outcome(2, 3, 6, "b")) == [5, 6]
        logs.impressions.append(impression(3, 4, "d"))
        live = live.again(DUE)
        assert live.join.position.seen == 3
        assert live.says(outcome(3, 5, 7, "c"), heartbeat(4, 5, 4), outcome(5, 6, 8, "d")) == [7]
        live = live.again()
        assert live.says(heartbeat(6, 66, 4)) == []
        assert live.join.position.seen == 0
        assert live.again().says(heartbeat(7, 70, 4)) == [8]


class TestStartingPoint:
    """What is asked before a joiner goes on."""

    LOGS = JoinLogs(LogRange(0, 10), LogRange(0, 10))

    def position(self, **more: object) -> JoinPosition:
        """Impressions 2 to 6 have been looked at."""
        found = PartitionJoin(AT_ONCE, ORIGIN).position._replace(impressions=2, outcomes=5, seen=7)
        return found._replace(early=AT_ONCE.early_fingerprint, **more)  # type: ignore[arg-type]

    def start(self, position: JoinPosition, rule: object = AT_ONCE, logs: JoinLogs = LOGS) -> JoinPosition:
        """Where to go on."""
        committed = position.to_committed(AT_ONCE, AT_ONCE.fingerprint)
        return starting_point(rule, 0, committed, logs).position  # type: ignore[arg-type]

    def test_it_comes_back(self) -> None:
        """All that is committed."""
        assert self.start(self.position(doubted=9)) == self.position(doubted=9)

    def test_other_settings_are_refused_until_it_is_over(self) -> None:
        """By another window it would not be known what was sent; when to send may be changed."""
        other = AT_ONCE._replace(wait_ms=1)
        with pytest.raises(ConfigurationError, match="impressions below offset 7 were sent as soon as"):
            self.start(self.position(), other)
        assert self.start(self.position(), DUE) == self.position()
        over = self.position()._replace(impressions=7)
        assert self.start(over, other) == over

    def test_outcomes_that_are_gone(self) -> None:
        """Nobody knows what was sent: that is late, and what comes behind it is not."""
        found = self.start(self.position(), logs=JoinLogs(LogRange(0, 10), LogRange(6, 10)))
        assert (found.doubted, found.seen, found.impressions) == (7, 0, 2)
        join = PartitionJoin(AT_ONCE, found._replace(impressions=6, complete_from=0))
        join.offer_impressions(read_impressions([impression(6, 0), impression(7, 0, "b")], 10_000), 8, 8)
        said = [heartbeat(6, 1, 8), outcome(7, 2), outcome(8, 2, 3, "b"), heartbeat(9, 66, 8)]
        join.offer_outcomes(read_outcomes(said, 10_000))
        step = join.advance(100)
        assert labels_of(step) == [3]
        assert [(each.record.offset(), each.reason) for each in step.refused] == [(6, Reason.LATE)]
        assert join.position.doubted == 0

    def test_a_log_that_has_lost_what_was_seen(self) -> None:
        """It is not the log any more."""
        with pytest.raises(GapError, match="to reach the committed offset 7, found its end at 6"):
            self.start(self.position(), logs=JoinLogs(LogRange(0, 6), LogRange(0, 10)))


def test_the_rule_knows_when_it_sends() -> None:
    """It is part of what makes a rule another one; how much room there is, is not."""
    assert AT_ONCE.fingerprint != DUE.fingerprint
    assert AT_ONCE.fingerprint == AT_ONCE._replace(max_impressions=5).fingerprint
    assert AT_ONCE.early_fingerprint == DUE.early_fingerprint
