"""The join of one partition: against two offline joins, in random portions, with random restarts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.two_logs import RULE, SECOND, Harness, make_logs, rule_of
from support.oracles.offline_join import content_of, joined_by_times, joined_in_sequence

from stream_apple.stream.joining.partition_join import Joined as Step
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

    @settings(max_examples=15)
    @given(SEEDS, BEATS)
    def test_restarts_change_nothing(self, seed: int, beats: str) -> None:
        """Whoever goes on from a committed position gives what would have been given without a restart."""
        logs = make_logs(seed, 300, heartbeats=beats == "always")
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
            held.append(harness.join.held.outcomes)
            return made

        harness.join.advance = watched  # type: ignore[method-assign]
        harness.run()
        outcomes = [content_of(each.payload) for each in logs.outcomes]
        # Of five minutes of traffic and the delay of outcomes, one minute and three tolerances, or a little more.
        assert max(held) < 0.4 * sum("id" in each for each in outcomes)


class TestAnyLogs:
    """Records that are late, or whose times are far from true."""

    @settings(max_examples=15)
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
