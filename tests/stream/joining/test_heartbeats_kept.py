"""Heartbeats take no more memory for a longer wait, and what is joined remains a function of the logs."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.test_early import AT_ONCE
from stream.joining.test_partition_join import impression
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START, Harness, make_logs, rule_of
from support.oracles.offline_join import joined_in_sequence

from stream_apple.stream.joining import outcome_window
from stream_apple.stream.joining.own_messages import HeartbeatEntry, read_impressions
from stream_apple.stream.joining.partition_join import PartitionJoin
from stream_apple.stream.joining.rule import JoinRule

HOUR_MS = 3_600 * SECOND
SEEDS = st.integers(0, 1_000_000)
FEW = 12
"""Heartbeats of a window of 75 seconds, so that each second one of the logs is not kept."""


@pytest.fixture(scope="module")
def few() -> Iterator[None]:
    """Keep few heartbeats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcome_window, "MOST_HEARTBEATS", FEW)
        yield


def kept_after(rule: JoinRule, apart_ms: int, count: int) -> PartitionJoin:
    """Return a join whose first impression waits while heartbeats come."""
    join = PartitionJoin(rule, ORIGIN._replace(shown=START))
    join.offer_impressions(read_impressions([impression(0, 0)], 10_000), 1, 1)
    for start in range(0, count, 1000):
        beats = range(start, min(start + 1000, count))
        join.offer_outcomes([HeartbeatEntry(each, START + each * apart_ms, 1 + each // 9) for each in beats])
        join.advance(1000)
    assert join.position.outcomes == count
    return join


@pytest.mark.parametrize("on_outcome", [False, True])
def test_memory_does_not_grow_with_the_wait(*, on_outcome: bool) -> None:
    """Of an hour or of thirty days: so many are kept, and the clock is that of the last one."""
    most = outcome_window.MOST_HEARTBEATS
    for wait_ms, apart_ms in ((HOUR_MS, 30), (720 * HOUR_MS, 21_000)):
        rule = (AT_ONCE if on_outcome else rule_of(RULE))._replace(wait_ms=wait_ms)
        count = wait_ms // apart_ms
        assert count > 2 * most
        join = kept_after(rule, apart_ms, count)
        assert most // 2 < len(join.window) <= most
        assert len(join.window.heartbeats) <= most
        assert join.window.clock.now == START + (count - 1) * apart_ms
        if on_outcome:
            assert join._early is not None
            assert len(join._early._highs) <= most


def test_usual_waits_keep_all() -> None:
    """With one heartbeat a second, as joiners write them, nothing changes for waits of hours."""
    join = kept_after(rule_of(RULE)._replace(wait_ms=12 * HOUR_MS), SECOND, 10_000)
    assert len(join.window) == 10_000


@pytest.mark.usefixtures("few")
class TestFew:
    """Where most heartbeats are not kept."""

    @settings(max_examples=15)
    @given(SEEDS, st.sampled_from([0, 20, 200]), st.sampled_from([0.0, 0.1, 0.5]))
    def test_is_what_the_rule_says(self, seed: int, disorder: int, odd: float) -> None:
        """With restarts and without."""
        logs = make_logs(seed, 60, disorder_ms=disorder * SECOND, odd=odd)
        expected = joined_in_sequence(RULE, *logs, heartbeats=FEW)
        assert expected.examples
        assert Harness(rule_of(RULE), logs, seed).run() == expected
        assert Harness(rule_of(RULE), logs, seed).run(restarts=0.3) == expected

    @settings(max_examples=15)
    @given(SEEDS, st.sampled_from([2, 20, 200]), st.sampled_from([0.05, 0.5]), st.sampled_from([0.1, 0.5]))
    def test_on_outcome(self, seed: int, disorder: int, odd: float, restarts: float) -> None:
        """Each impression makes one example, or one dead letter."""
        logs = make_logs(seed, 120, disorder_ms=disorder * SECOND, odd=odd)
        harness = Harness(AT_ONCE, logs, seed)
        joined = harness.run(restarts)
        fates = Counter(int((each.key or b"").removeprefix(b"key-")) for each in joined.examples)
        fates.update(joined.refused_impressions)
        assert set(fates.values()) == {1}
        assert {each.at for each in logs.impressions if each.at < harness.join.position.impressions} <= fates.keys()
