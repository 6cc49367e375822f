"""What every implementation of the broker port does with the group: its offsets and its members."""

import pytest
from contract.harness import Client, Harness, Join, no_answer, owning, until, values

from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import AbortableError, Committed


class TestOffsets:
    """What is committed in the group."""

    def test_metadata_comes_back_whole(self, alone: Client) -> None:
        """4096 bytes beside an offset, whatever the text."""
        text = "\u00e9" * 2000 + '{"v":1}' + "x" * 89
        alone.broker.begin()
        alone.broker.commit({0: Committed(5, text), 1: Committed(6, "")})
        assert len(text.encode()) == 4096
        assert alone.broker.decided([0, 1]) == {0: Committed(5, text), 1: Committed(6, "")}

    def test_too_much_metadata(self, harness: Harness, alone: Client) -> None:
        """Nothing of the transaction is ever seen."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"v", 1)
        with pytest.raises(ConfigurationError, match="OFFSET_METADATA_TOO_LARGE"):
            alone.broker.commit({0: Committed(5, "x" * 4097)})
        alone.close()
        assert values(harness, harness.outputs)

    def test_peeking(self, harness: Harness, alone: Client, join: Join) -> None:
        """It shows what is committed, of anybody's partitions, and does not wait for what is being decided."""
        assert alone.broker.committed_now([0, 1]) == {0: None, 1: None}
        alone.broker.begin()
        alone.broker.commit({0: Committed(5, "five"), 1: Committed(6, "six")})
        both = {0: Committed(5, "five"), 1: Committed(6, "six")}
        until(lambda: alone.broker.committed_now([0, 1]) == both, alone)
        alone.start = lambda _: 0
        other = join("b")
        other.start = lambda _: 0
        until(lambda: alone.owned == {0} and other.owned == {1}, alone, other)
        foreign = harness.foreign(harness.transactional_id("foreign"))
        foreign.offsets({0: 7})
        assert alone.broker.committed_now([0]) == other.broker.committed_now([0]) == {0: Committed(5, "five")}
        assert other.broker.committed_now([1, 0]) == {1: Committed(6, "six"), 0: Committed(5, "five")}
        foreign.commit()
        until(lambda: other.broker.committed_now([0]) == {0: Committed(7, "")}, alone, other)

    def test_a_stale_member(self, harness: Harness, join: Join) -> None:
        """Whoever was too slow is refused, told that its partitions are lost, and may come back."""
        slow, other = join("a", short_session=True), join("b")
        until(lambda: slow.owned == {0} and other.owned == {1}, slow, other)
        slow.broker.begin()
        slow.broker.send(harness.outputs, 0, None, b"too late", 1)
        harness.expire("a", other.turn)
        until(owning({0, 1}, other), other)
        with pytest.raises(AbortableError):
            slow.broker.commit({0: Committed(5, "")})
        slow.broker.abort()
        slow.events.clear()
        until(lambda: slow.owned == {0} and other.owned == {1}, slow, other)
        assert slow.events == [("lost", (0,)), ("assigned", (0,))]
        slow.publish(harness.outputs, b"in time", offsets={0: Committed(6, "")})
        assert values(harness, harness.outputs, b"in time")
        assert other.broker.decided([0]) == {0: Committed(6, "")}

    def test_offsets_of_a_partition_that_another_owns(self, join: Join) -> None:
        """They are accepted: that we own what we commit is ours to check."""
        one, other = join("a"), join("b")
        until(lambda: one.owned == {0} and other.owned == {1}, one, other)
        one.broker.begin()
        one.broker.commit({1: Committed(9, "foreign")})
        assert other.broker.decided([1]) == {1: Committed(9, "foreign")}


class TestGroup:
    """Several members."""

    def test_a_second_member(self, harness: Harness, alone: Client, join: Join) -> None:
        """All partitions are revoked, while their offsets can still be committed, and then shared out."""
        harness.append(harness.examples, 0, b"0", b"1")
        harness.append(harness.examples, 1, b"0", b"1")
        until(lambda: len(alone.records) >= 4, alone)
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"of the old generation", 1)
        alone.on_revoke = lambda: alone.broker.commit({0: Committed(1, ""), 1: Committed(1, "")})
        alone.events.clear()
        other = join("b")
        until(lambda: alone.owned == {0} and other.owned == {1}, alone, other)
        assert alone.events == [("revoked", (0, 1)), ("assigned", (0,))]
        assert other.events == [("assigned", (1,))]
        assert values(harness, harness.outputs, b"of the old generation")
        until(lambda: len(alone.records) >= 1 and len(other.records) >= 1, alone, other)
        assert (alone.values(0), other.values(1)) == ([b"1"], [b"1"])

    def test_an_error_of_a_revocation(self, alone: Client, join: Join) -> None:
        """It comes out of `fetch`, and the partitions are gone all the same."""
        other = join("b")
        alone.on_revoke = lambda: no_answer(0)
        with pytest.raises(AbortableError, match="where to begin"):
            until(lambda: False, alone, other)
        alone.owned = set()
        alone.on_revoke = lambda: None
        alone.broker.rejoin()
        until(lambda: alone.owned == {0} and other.owned == {1}, alone, other)
