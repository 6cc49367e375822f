"""A record whose time is false harms no other: these are joined as if it were not there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.test_partition_join import heartbeat, impression, outcome
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START, Harness, TwoLogs, rule_of
from support.oracles.offline_join import Joined, joined_in_sequence

from stream_apple.stream.joining.own_messages import read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import Joined as Step
from stream_apple.stream.joining.partition_join import PartitionJoin

DAY = 86_400
JOIN = rule_of(RULE)
OUTAGES = st.sampled_from([0, 15, 90, 600])


def history(
    false: dict[int, float], *, outage: int, first_beat: float = 0, every_s: float = 1.0, count: int = 300
) -> TwoLogs:
    """Return impressions of five minutes, each with an outcome ten seconds later, and heartbeats of each second.

    false       by how many seconds the times of some impressions are ahead
    outage      for how many seconds after `first_beat` no joiner ran
    first_beat  when a joiner ran first
    """
    events: list[tuple[float, int, int, float]] = []
    for number in range(count):
        at = number * every_s
        events += [(at, 0, number, at + false.get(number, 0)), (at + 10, 1, number, at + 10)]
    last = int(count * every_s) + 200
    beats = [first_beat + second for second in range(int(last - first_beat))]
    events += [(at, 2, 0, at) for at in beats if not first_beat < at < first_beat + outage]
    logs = TwoLogs([], [])
    shown, said = logs
    for _, kind, number, time in sorted(events):
        if kind == 0:
            shown.append(impression(len(shown), time, f"i{number}")._replace(named=b"%d" % number))
        elif kind == 1:
            said.append(outcome(len(said), time, name=f"i{number}"))
        else:
            said.append(heartbeat(len(said), time, len(shown)))
    return logs


def joined(logs: TwoLogs, seed: int = 1, restarts: float = 0.0) -> Joined:
    """Return what the joiner makes of the logs, which is the same as what the rule says."""
    found = Harness(JOIN, logs, seed).run(restarts)
    assert found == joined_in_sequence(RULE, *logs)
    return found


def check_harm(logs: TwoLogs, false: set[int], seed: int = 1) -> Joined:
    """Check that all impressions but the false ones are joined with their outcomes."""
    found = joined(logs, seed)
    good = [each for each in found.examples if int(each.key or b"") not in false]
    assert [int(each.key or b"") for each in good] == [each.at for each in logs.impressions if each.at not in false]
    assert {each.content["label"] for each in good} == {1}
    assert set(found.refused_impressions) <= false
    assert found.refused_outcomes == []
    return found


class TestImpressions:
    """One is dated ahead."""

    @pytest.mark.parametrize("outage", [15, 90, 250])
    @pytest.mark.parametrize("ahead", [400 * DAY, DAY, 300])
    @pytest.mark.parametrize("place", [0, 5, 150])
    def test_while_no_joiner_runs(self, place: int, ahead: float, outage: int) -> None:
        """It is a dead letter, or joined, and no other impression is late."""
        found = check_harm(history({place: ahead}, outage=outage, first_beat=1), {place})
        if ahead == 400 * DAY:
            assert found.refused_impressions == [place]

    def test_while_a_joiner_runs(self) -> None:
        """Its time is known from the heartbeats; beyond six days no topic takes it."""
        assert check_harm(history({150: 400 * DAY}, outage=0), {150}).refused_impressions == [150]
        assert check_harm(history({150: DAY}, outage=0), {150}).refused_impressions == []

    @pytest.mark.parametrize("ahead", [400 * DAY, 600, 120, 40])
    @pytest.mark.parametrize("place", [0, 5, 150, 298])
    def test_before_the_first_joiner(self, place: int, ahead: float) -> None:
        """Without any heartbeat, those after it decide."""
        logs = history({place: ahead}, outage=0, first_beat=450)
        found = check_harm(logs, {place})
        if ahead == 400 * DAY:
            assert found.refused_impressions == [place]

    def test_of_the_same_outage(self) -> None:
        """A time within the outage is not known to be false by the heartbeat after it, but by those after it."""
        logs = history({100: 60}, outage=280, first_beat=1)
        assert check_harm(logs, {100}).refused_impressions == [100]

    def test_far_from_any_heartbeat(self) -> None:
        """Few impressions among very many outcomes of others: those that are in the log decide, and nothing waits."""
        shown = [impression(at, at * 200, f"i{at}")._replace(named=b"%d" % at) for at in range(20)]
        shown[7] = shown[7]._replace(time_ms=START + 2_000 * SECOND)
        said = [outcome(at, at / 3, name=f"i{at // 600 if at % 600 == 5 else -1}") for at in range(12_000)]
        found = check_harm(TwoLogs(shown, [*said, heartbeat(12_000, 4_100, 20)]), {7})
        assert found.refused_impressions == [7]

    def test_a_pause_is_none(self) -> None:
        """All are ahead of those before a pause, and agree; nothing is refused, whoever runs."""
        for first_beat, outage in ((0, 0), (1, 7000), (9000, 0)):
            early, late = history({}, outage=0, first_beat=10_000, count=50), 4000.0
            events = [(each.time_ms / SECOND - START / SECOND, each) for each in early.impressions]
            shown = [impression(at, seconds, f"i{at}") for at, (seconds, _) in enumerate(events)]
            shown += [impression(50 + at, late + seconds, f"i{50 + at}") for at, (seconds, _) in enumerate(events)]
            said_at = [(each.time_ms - START) / SECOND + 10 for each in shown]
            beats = [first_beat + second for second in range(9000)]
            beats = [at for at in beats if not first_beat < at < first_beat + outage and at % 10 == first_beat % 10]
            parts = sorted([(at, 0, number) for number, at in enumerate(said_at)] + [(at, 1, 0) for at in beats])
            said = [
                heartbeat(at, seconds, sum(each.time_ms <= START + seconds * SECOND for each in shown))
                if kind
                else outcome(at, seconds, name=f"i{number}")
                for at, (seconds, kind, number) in enumerate(parts)
            ]
            found = joined(TwoLogs(shown, said))
            assert len(found.examples) == 100
            assert found.refused_impressions == []
            assert {each.content["label"] for each in found.examples} == {1}

    @settings(max_examples=20)
    @given(
        st.integers(0, 1000),
        st.dictionaries(st.integers(0, 119), st.sampled_from([10.0, 80, 300, DAY, 400 * DAY]), max_size=20),
        OUTAGES,
        st.sampled_from([0, 20, 200]),
    )
    def test_a_function_of_the_logs(self, seed: int, false: dict[int, float], outage: int, first: int) -> None:
        """Whatever portions are read, and wherever a joiner goes on."""
        logs = history(false, outage=outage, first_beat=first, count=120)
        assert joined(logs, seed) == joined(logs, seed + 1, restarts=0.3)


class TestOutcomes:
    """One is dated ahead."""

    def logs(self, ahead: float, first_beat: float, place: int = 20) -> TwoLogs:
        """Return a history in which an outcome of an impression has another, which is dated ahead, after it."""
        logs = history({}, outage=0, first_beat=first_beat)
        said = [each for each in logs.outcomes if each.time_ms <= START + place * SECOND]
        more = outcome(len(said), place + ahead, 9, "another")
        rest = [each._replace(at=each.at + 1) for each in logs.outcomes[len(said) :]]
        return TwoLogs(logs.impressions, [*said, more, *rest])

    @pytest.mark.parametrize("ahead", [400 * DAY, DAY, 60.5])
    @pytest.mark.parametrize("place", [0, 20, 150])
    def test_before_the_first_joiner(self, place: int, ahead: float) -> None:
        """It is a dead letter, and keeps no other outcome from being forgotten."""
        logs = self.logs(ahead, 450, place)
        found = joined(logs)
        assert len(found.examples) == 300
        assert {each.content["label"] for each in found.examples} == {1}
        assert found.refused_impressions == []
        (false,) = (each.at for each in logs.outcomes if each.time_ms == START + int((place + ahead) * SECOND))
        assert found.refused_outcomes == ([false] if ahead > 100 else [])

    def test_a_crash_after_any_step(self) -> None:
        """It is a dead letter in the step from which on a successor would not find it any more."""
        logs = self.logs(400 * DAY, 450)
        (false,) = (each.at for each in logs.outcomes if each.time_ms > START + DAY * SECOND)
        join, refused = PartitionJoin(JOIN, ORIGIN), list[int]()
        join.offer_impressions(read_impressions(logs.impressions, 10_000), 300, 300)
        join.offer_outcomes(read_outcomes(logs.outcomes, 10_000))
        while join.position.impressions < 300:
            refused += [each.record.offset() for each in join.advance(1).refused]
            assert refused == ([false] if join.position.window_from > false else [])

    def test_what_it_keeps_in_memory(self) -> None:
        """It would keep all outcomes after it, until the partition is full."""
        harness = Harness(JOIN, self.logs(400 * DAY, 450), seed=1)
        advance, held = harness.join.advance, list[int]()

        def watched(most: int) -> Step:
            made = advance(most)
            held.append(harness.join.window.outcomes)
            return made

        harness.join.advance = watched  # type: ignore[method-assign]
        harness.run()
        # It takes a hundred outcomes to set the clock; then those of 75 seconds are kept.
        assert max(held) < 200

    def test_while_a_joiner_runs(self) -> None:
        """The heartbeats tell the time: it is kept for as long as others."""
        found = joined(self.logs(400 * DAY, 0))
        assert len(found.examples) == 300
        assert found.refused_outcomes == found.refused_impressions == []
