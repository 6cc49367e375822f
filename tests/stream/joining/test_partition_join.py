"""The join of one partition: against two offline joins, in random portions, with random restarts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.two_logs import RULE, SECOND, Harness, make_logs, rule_of
from support.oracles.offline_join import joined_by_times, joined_in_sequence

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

    @given(SEEDS)
    def test_restarts_change_nothing(self, seed: int) -> None:
        """Whoever goes on from a committed position gives what would have been given without a restart."""
        logs = make_logs(seed)
        joined = Harness(rule_of(RULE), logs, seed).run(restarts=0.3)
        assert joined.examples == joined_by_times(RULE, *logs)
        assert joined.refused_impressions == joined.refused_outcomes == []


class TestAnyLogs:
    """Records that are late, or whose times are far from true."""

    @settings(max_examples=30)
    @given(SEEDS, st.sampled_from([0, 20, 200]), st.sampled_from([0.0, 0.1, 0.5]), BEATS)
    def test_is_what_the_rule_says(self, seed: int, disorder: int, odd: float, beats: str) -> None:
        """With restarts and without: the rule, word for word."""
        logs = make_logs(seed, disorder_ms=disorder * SECOND, heartbeats=beats == "always", odd=odd)
        expected = joined_in_sequence(RULE, *logs)
        assert Harness(rule_of(RULE), logs, seed).run() == expected
        assert Harness(rule_of(RULE), logs, seed).run(restarts=0.3) == expected

    def test_both_kinds_of_logs_are_drawn(self) -> None:
        """The logs above have late records of both kinds, and most impressions are joined nevertheless."""
        found = [joined_in_sequence(RULE, *make_logs(seed, disorder_ms=20 * SECOND, odd=0.1)) for seed in range(5)]
        assert all(joined.refused_impressions and joined.refused_outcomes for joined in found)
        assert all(len(joined.examples) > 20 for joined in found)
