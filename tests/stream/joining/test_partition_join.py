"""The join of one partition: against two offline joins, in random portions, with random restarts."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START, Harness, make_logs, rule_of
from support.oracles.offline_join import Rule, content_of, joined_by_times, joined_in_sequence
from support.records import FakeRecord

from stream_apple.records.mapping import OWN_MESSAGE
from stream_apple.records.message.reasons import Reason
from stream_apple.records.times import time_text
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.own_messages import heartbeat_value, read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import MOST_OF_AN_ID, PartitionJoin
from stream_apple.stream.joining.partition_join import Joined as Step
from stream_apple.stream.joining.position import NOT_KNOWN, JoinPosition
from stream_apple.stream.joining.rule import Several

SEEDS = st.integers(0, 1_000_000)
BEATS = st.sampled_from(["always", "in the end"])
SEVERAL = st.sampled_from(["first", "last", "sum", "max"])


class TestOrderlyLogs:
    """Records that reach their log within the tolerance."""

    @given(SEEDS, SEVERAL, st.sampled_from([None, 0.0]), BEATS)
    def test_equals_a_join_by_times_alone(self, seed: int, several: Several, default: float | None, beats: str) -> None:
        """Each impression has the outcomes of its window, in whichever portions logs are read, without any loss."""
        rule = RULE._replace(several=several, default=default)
        logs = make_logs(seed, heartbeats=beats == "always")
        joined = Harness(rule_of(rule), logs, seed).run()
        assert joined.examples == joined_by_times(rule, *logs)
        assert joined.refused_impressions == joined.refused_outcomes == []

    @settings(max_examples=8)
    @given(SEEDS, BEATS)
    def test_restarts_change_nothing(self, seed: int, beats: str) -> None:
        """Whoever goes on from a committed position gives what would have been given without a restart."""
        # Without heartbeats it takes a hundred outcomes to set the clock.
        logs = make_logs(seed, 60 if beats == "always" else 200, heartbeats=beats == "always")
        joined = Harness(rule_of(RULE), logs, seed).run(restarts=0.3)
        assert joined.examples == joined_by_times(RULE, *logs)
        assert joined.refused_impressions == joined.refused_outcomes == []

    def test_outcomes_of_the_window_alone_are_held(self) -> None:
        """In a history without heartbeats, too, outcomes move the clock, and what no impression needs is forgotten."""
        logs = make_logs(1, 2000, heartbeats=False)
        harness = Harness(rule_of(RULE), logs, seed=1)
        advance, held = harness.join.advance, list[int]()

        def watched(most: int) -> Step:
            made = advance(most)
            held.append(harness.join.window.outcomes)
            return made

        harness.join.advance = watched  # type: ignore[method-assign]
        harness.run()
        outcomes = [content_of(each.payload) for each in logs.outcomes]
        # Of five minutes of traffic and the delay of outcomes, one minute and three tolerances, or a little more.
        assert max(held) < 0.4 * sum("id" in each for each in outcomes)


class TestAnyLogs:
    """Records that are late, or whose times are far from true."""

    @settings(max_examples=8)
    @given(SEEDS, st.sampled_from([0, 20, 200]), st.sampled_from([0.0, 0.1, 0.5]), BEATS)
    def test_is_what_the_rule_says(self, seed: int, disorder: int, odd: float, beats: str) -> None:
        """With restarts and without: the rule, word for word."""
        # Without heartbeats it takes a hundred outcomes to set the clock.
        count = 60 if beats == "always" else 300
        logs = make_logs(seed, count, disorder_ms=disorder * SECOND, heartbeats=beats == "always", odd=odd)
        expected = joined_in_sequence(RULE, *logs)
        assert Harness(rule_of(RULE), logs, seed).run() == expected
        assert Harness(rule_of(RULE), logs, seed).run(restarts=0.3) == expected

    def test_both_kinds_of_logs_are_drawn(self) -> None:
        """The logs above have late records of both kinds, and most impressions are joined nevertheless."""
        found = [joined_in_sequence(RULE, *make_logs(seed, disorder_ms=20 * SECOND, odd=0.1)) for seed in range(5)]
        assert all(joined.refused_impressions and joined.refused_outcomes for joined in found)
        assert all(len(joined.examples) > 20 for joined in found)


def impression(at: int, seconds: float, name: object = "a", **more: object) -> FakeRecord:
    """An impression so many seconds after START."""
    value = msgpack.packb({"id": name, "features": {}} | more)
    return FakeRecord(0, at, value, START + int(seconds * SECOND), b"key")


def outcome(at: int, seconds: float, label: object = 1, name: object = "a") -> FakeRecord:
    """An outcome."""
    return FakeRecord(0, at, msgpack.packb({"id": name, "label": label}), START + int(seconds * SECOND), b"key")


def heartbeat(at: int, seconds: float, covers: int = 1000) -> FakeRecord:
    """A heartbeat."""
    return FakeRecord(0, at, heartbeat_value(covers), START + int(seconds * SECOND))


def joined_at_once(
    impressions: list[FakeRecord], outcomes: list[FakeRecord], rule: Rule = RULE, position: JoinPosition = ORIGIN
) -> tuple[PartitionJoin, Step]:
    """What comes of two logs that are offered whole, and the join."""
    join = PartitionJoin(rule_of(rule), position)
    join.offer_impressions(read_impressions(impressions, 10_000), 1_000, 1_000)
    join.offer_outcomes(read_outcomes(outcomes, 10_000))
    return join, join.advance(10_000)


def labels_of(step: Step) -> list[object]:
    """The labels of the examples."""
    return [content_of(value)["label"] for value in step.values]


class TestOneByOne:
    """What the rule says, in small. The wait is a minute, the tolerance five seconds."""

    @pytest.mark.parametrize(("seconds", "label"), [(-5.001, -1), (-5, 1), (0, 1), (60, 1), (60.001, -1)])
    def test_the_window(self, seconds: float, label: float) -> None:
        """From the tolerance before the impression to the wait behind it, both included."""
        _, step = joined_at_once([impression(0, 0)], [heartbeat(0, -60, 0), outcome(1, seconds), heartbeat(2, 66)])
        assert labels_of(step) == [label]

    def test_when_it_is_due(self) -> None:
        """Past wait and tolerance, and not at it: what comes in that millisecond still counts."""
        logs = [heartbeat(0, 0, 0), heartbeat(1, 65), outcome(2, 60)]
        join, step = joined_at_once([impression(0, 0)], logs)
        assert labels_of(step) == []
        assert join.due_ms == START + 65 * SECOND
        join.offer_outcomes(read_outcomes([heartbeat(3, 65.001)], 10_000))
        assert labels_of(join.advance(10)) == [1]

    def test_a_time_of_the_future_delays_nothing_for_longer(self) -> None:
        """An impression dated ahead is of the time of the first heartbeat that has seen it."""
        ahead = [impression(0, 500_000), impression(1, 1, "b")]
        logs = [
            heartbeat(0, 0, covers=0),
            heartbeat(1, 2, covers=2),
            outcome(2, 3),
            outcome(3, 4, name="b"),
            heartbeat(4, 68),
        ]
        _, step = joined_at_once(ahead, logs)
        assert labels_of(step) == [1, 1]
        assert step.timestamps_ms == [START + 500_000 * SECOND, START + SECOND]

    @pytest.mark.parametrize("on_outcome", [False, True])
    def test_a_time_that_no_topic_takes_is_refused(self, *, on_outcome: bool) -> None:
        """Brokers refuse an example that is a week ahead, for ever, and with it all that is behind it."""
        at = [6 * 86_400 + 2, 6 * 86_400 + 2.001, 1]
        join = PartitionJoin(rule_of(RULE)._replace(several="first", on_outcome=on_outcome), ORIGIN)
        ahead = [impression(number, seconds, f"i{number}") for number, seconds in enumerate(at)]
        join.offer_impressions(read_impressions(ahead, 10_000), 3, 3)
        said = [outcome(2 + number, 3, name=f"i{number}") for number in range(3)]
        join.offer_outcomes(read_outcomes([heartbeat(0, 0, 0), heartbeat(1, 2, 3), *said, heartbeat(5, 68, 3)], 10_000))
        step = join.advance(10_000)
        assert labels_of(step) == [1, 1]
        assert [(each.record.offset(), each.reason, each.fault) for each in step.refused] == [
            (
                1,
                Reason.BAD_TIMESTAMP,
                (
                    f"expected a time at most 6 days after {time_text(START + 2000)}, when it was in the log, found "
                    f"{time_text(START + int(at[1] * SECOND))}"
                ),
            )
        ]

    def test_a_clock_that_was_ahead_is_put_back(self) -> None:
        """A joiner whose clock was wrong costs the labels of its time, and of no other."""
        logs = [heartbeat(0, 0, 0), heartbeat(1, 9_000, 1), heartbeat(2, 0.5, 1), outcome(3, 31), heartbeat(4, 96)]
        _, step = joined_at_once([impression(0, 0, "b"), impression(1, 30)], logs)
        assert labels_of(step) == [-1, 1]

    def test_a_clock_that_was_ahead_is_put_back_behind_outcomes(self) -> None:
        """Impressions of later are not drawn to the front of outcomes that show that the clock is wrong."""
        said = [outcome(2, 0.2, name="c"), heartbeat(3, 0.5, 1), outcome(4, 31), heartbeat(5, 96, 2)]
        _, step = joined_at_once(
            [impression(0, 0, "b"), impression(1, 30)], [heartbeat(0, 0, 0), heartbeat(1, 9_000, 1), *said]
        )
        assert labels_of(step) == [-1, 1]

    def test_outcomes_alone_move_the_clock_by_a_majority(self) -> None:
        """One that is years ahead does not, nor do 99; a hundred do."""
        wild = [outcome(number + 1, 9_000_000, name=number) for number in range(100)]
        join, step = joined_at_once([impression(0, 0)], [heartbeat(0, 0, 0), *wild[:99]])
        assert (labels_of(step), join.window.clock.now) == ([], START)
        join.offer_outcomes(read_outcomes(wild[99:], 10_000))
        assert labels_of(join.advance(10)) == [-1]

    def test_own_labels(self) -> None:
        """They count where no outcome does; nil is none."""
        shown = [impression(0, 0, "a", label=7), impression(1, 0, "b", label=7), impression(2, 0, "c", label=None)]
        _, step = joined_at_once(shown, [outcome(0, 1), heartbeat(1, 66)])
        assert labels_of(step) == [1, 7, -1]
        assert (step.labelled, step.own, step.default, step.matched) == (1, 1, 1, 1)
        _, step = joined_at_once(shown, [outcome(0, 1), heartbeat(1, 66)], RULE._replace(default=None))
        assert (labels_of(step), step.dropped) == ([1, 7], 1)

    def test_ids_that_come_again(self) -> None:
        """Both impressions have the outcome, and that is counted; so is an outcome that nobody has had."""
        logs = [heartbeat(0, 0, 0), outcome(1, 1), outcome(2, 1, name="nobody"), heartbeat(3, 67, 2), heartbeat(4, 90)]
        shown = [impression(0, 0), impression(1, 1), impression(2, 80, "z")]
        _, step = joined_at_once(shown, logs)
        assert (labels_of(step), step.matched, step.repeated, step.unmatched) == ([1, 1], 1, 1, 1)

    def test_a_sum_that_is_no_number_is_refused(self) -> None:
        """Two labels that are finite alone."""
        _, step = joined_at_once(
            [impression(0, 0)],
            [outcome(0, 1, 1e308), outcome(1, 1, 1e308), heartbeat(2, 66)],
            RULE._replace(several="sum"),
        )
        assert [(each.reason, each.record.offset()) for each in step.refused] == [(Reason.BAD_LABEL, 0)]
        assert step.refused_impressions == 1

    def test_what_no_worker_and_no_topic_would_take(self) -> None:
        """With its label, or its key, it is too large: it is a dead letter, and stops nothing."""
        rule = rule_of(RULE)
        shown = [
            impression(0, 0),
            impression(1, 0, "b", x="x" * 9_970),
            impression(2, 0, "c")._replace(named=b"k" * 1_048_588),
        ]
        # In digits the same numbers would take four times the bytes: they stay as they are.
        digits = b'{"id": "d", "label": null, "features": {}, "x": [%s]}' % b",".join([b"1e9"] * 1000)
        shown += [impression(3, 0)._replace(payload=digits), impression(4, 0, "e")]
        join = PartitionJoin(rule, ORIGIN)
        join.offer_impressions(read_impressions(shown, rule.max_bytes))
        join.offer_outcomes(read_outcomes([heartbeat(0, 0, 0), heartbeat(1, 66)], rule.max_bytes))
        step = join.advance(100)
        assert [content_of(value)["id"] for value in step.values] == ["a", "d", "e"]
        assert [(each.record.offset(), each.reason) for each in step.refused] == [
            (number, Reason.RECORD_TOO_LARGE) for number in (1, 2)
        ]
        assert (step.default, step.refused_impressions) == (3, 2)

    def test_a_label_that_no_map_has(self) -> None:
        """It can't be written as the worker reads labels: the impression is a dead letter, and says so."""
        shape = OWN_MESSAGE._replace(label_map={"yes": 1.0, "no": -1.0})
        rule = rule_of(RULE)._replace(impression_shape=shape)
        join, records = PartitionJoin(rule, ORIGIN), JoinInput(rule)
        join.offer_impressions(records.impressions([impression(0, 0), impression(1, 0, "b"), impression(2, 0, "c")]))
        logs = [heartbeat(0, 0, 0), outcome(1, 1, 5), outcome(2, 1, 1, "b"), heartbeat(3, 66)]
        join.offer_outcomes(records.outcomes(logs))
        step = join.advance(100)
        assert labels_of(step) == ["yes", "no"]
        ((_, _, reason, _, fault),) = step.refused
        assert (reason, step.labelled, step.matched) == (Reason.BAD_LABEL, 1, 1)
        assert "input.label_map (1, -1)" in str(fault)

    def test_an_id_with_very_many_outcomes(self) -> None:
        """The first thousand are looked at; all are forgotten in time."""
        many = [outcome(number, 1, number) for number in range(MOST_OF_AN_ID + 10)]
        join, step = joined_at_once([impression(0, 0), impression(1, 200)], [*many, heartbeat(2000, 66, 1)])
        assert labels_of(step) == [MOST_OF_AN_ID - 1]
        join.offer_outcomes(read_outcomes([heartbeat(2001, 150, 1), heartbeat(2002, 151, 1)], 10_000))
        step = join.advance(10)
        assert (join.window.outcomes, step.unmatched) == (0, 10)

    def test_what_is_late(self) -> None:
        """Both kinds, and each just in time."""
        logs = [
            heartbeat(0, 200),
            outcome(1, 124.999),
            outcome(2, 125, name="b"),
            heartbeat(3, 200.001),
            heartbeat(4, 400),
        ]
        shown = [impression(0, 129.999, "z"), impression(1, 130, "b")]
        _, step = joined_at_once([impression(9, 140, "y")], logs)
        assert [(each.topic, each.reason, each.record.offset()) for each in step.refused] == [
            ("outcomes", Reason.LATE, 1)
        ]
        position = JoinPosition(0, 1, 1, OutcomeClock(START + 200 * SECOND))
        _, step = joined_at_once(shown, logs[1:], position=position)
        assert [(each.topic, each.reason, each.record.offset()) for each in step.refused] == [
            ("outcomes", Reason.LATE, 1),
            ("impressions", Reason.LATE, 0),
        ]
        assert labels_of(step) == [1]

    def test_where_outcomes_are_gone(self) -> None:
        """Nobody knows the label of what may need them; by the first time that is there, the others are told."""
        position = ORIGIN._replace(complete_from=NOT_KNOWN)
        shown = [impression(0, 0), impression(1, 104.999), impression(2, 105)]
        logs = [outcome(7, 100), heartbeat(8, 101, 0), outcome(9, 106), heartbeat(10, 171)]
        join, step = joined_at_once(shown, logs, position=position)
        assert [each.record.offset() for each in step.refused] == [0, 1]
        assert labels_of(step) == [1]
        assert join.position.complete_from == START + 100 * SECOND
        _, step = joined_at_once(shown[:1], logs[3:], position=position)
        assert [each.reason for each in step.refused] == [Reason.LATE]

    def test_what_is_full_stands_still_and_forgets_nothing(self) -> None:
        """Until there is more room: then all is joined as if there had been."""
        shown = [impression(0, 0, "i5")]
        logs = [heartbeat(0, 0, 0), *(outcome(at, 1, name=f"i{at}") for at in range(1, 6)), heartbeat(6, 66)]
        small = PartitionJoin(rule_of(RULE, max_outcomes=4), ORIGIN)
        small.offer_impressions(read_impressions(shown, 10_000))
        small.offer_outcomes(read_outcomes(logs, 10_000))
        for _ in range(2):
            step = small.advance(100)
            assert (step.values, step.refused) == ([], [])
        assert (small.full, small.window.outcomes) == (True, 4)
        larger = PartitionJoin(rule_of(RULE, max_outcomes=5), small.position)
        larger.offer_impressions(read_impressions(shown, 10_000))
        larger.offer_outcomes(read_outcomes(logs, 10_000))
        assert labels_of(larger.advance(100)) == [1]
        assert not larger.full
