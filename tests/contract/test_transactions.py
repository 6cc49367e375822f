"""What every implementation of the broker port does with transactions, and with those of predecessors."""

import pytest
from contract.harness import Client, Harness, Join, owning, read, until, values

from stream_apple.errors import BrokerError, FencedError
from stream_apple.stream.log.ports import Broker, Committed, LogRange


class TestTransactions:
    """What readers of the outputs see."""

    def test_messages_and_offsets_become_visible_together(self, harness: Harness, alone: Client) -> None:
        """Nothing before the commit, everything after it: keys, values, times, headers and offsets."""
        broker = alone.broker
        broker.begin()
        broker.send(harness.outputs, 1, b"k", b"v", 1_700_000_000_123, [("a", b"1"), ("b", "text"), ("a", None)])
        broker.send(harness.outputs, 1, None, None, 0)
        broker.flush()
        assert harness.read(harness.outputs, 1) == []
        assert broker.decided([0, 1]) == {0: None, 1: None}
        broker.commit({0: Committed(7, "note")})
        first, second = read(harness, harness.outputs, 2, partition=1)
        assert (first.key, first.value, first.timestamp) == (b"k", b"v", (1, 1_700_000_000_123))
        assert first.headers == (("a", b"1"), ("b", b"text"), ("a", None))
        assert (second.key, second.value, second.headers) == (None, None, ())
        assert second.timestamp[1] > 1_600_000_000_000
        assert broker.decided([0, 1]) == {0: Committed(7, "note"), 1: None}

    def test_messages_of_one_call(self, harness: Harness, alone: Client) -> None:
        """They lie in order behind what was sent before, each with its own key, value and time."""
        broker = alone.broker
        keys = [None if index % 3 == 0 else b"k%d" % index for index in range(300)]
        texts = [None if index % 7 == 0 else b"v%d" % index for index in range(300)]
        times = [1_700_000_000_000 + index for index in range(300)]
        broker.begin()
        broker.send(harness.outputs, 1, b"k", b"first", 1_700_000_000_000)
        broker.send_all(harness.outputs, 1, keys, texts, times)
        broker.send_all(harness.outputs, 1, [], [], [])
        broker.send_all(harness.outputs, 1, [None], [b"last"], [0])
        assert harness.read(harness.outputs, 1) == []
        broker.commit({0: Committed(1, "")})
        first, *messages, last = read(harness, harness.outputs, 302, partition=1)
        assert (first.value, last.value) == (b"first", b"last")
        assert last.timestamp[1] > 1_600_000_000_000
        found = [(message.key, message.value, message.timestamp, message.headers) for message in messages]
        assert found == [(key, text, (1, at), ()) for key, text, at in zip(keys, texts, times, strict=True)]

    def test_columns_of_different_lengths(self, harness: Harness, alone: Client) -> None:
        """Nothing is left out in silence."""
        alone.broker.begin()
        with pytest.raises(ValueError, match=r"found 2, 3, 3|is longer than"):
            alone.broker.send_all(harness.outputs, 0, [None] * 2, [b"v"] * 3, [1] * 3)
        alone.broker.abort()
        assert values(harness, harness.outputs)

    def test_an_aborted_transaction_is_never_seen(self, harness: Harness, alone: Client) -> None:
        """Neither what has reached the log before the abort, nor what was still on its way."""
        for flushed in (True, False):
            alone.broker.begin()
            alone.broker.send(harness.outputs, 0, None, b"aborted", 1)
            if flushed:
                alone.broker.flush()
            alone.broker.abort()
        alone.publish(harness.outputs, b"committed", offsets={0: Committed(1, "")})
        assert values(harness, harness.outputs, b"committed")

    def test_abort_without_anything_to_abort(self, harness: Harness, alone: Client) -> None:
        """Without a transaction, or without a message in it, it has no effect, and the next one is as good."""
        alone.broker.abort()
        alone.broker.begin()
        alone.broker.abort()
        alone.broker.abort()
        alone.publish(harness.outputs, b"committed", offsets={0: Committed(1, "")})
        assert values(harness, harness.outputs, b"committed")

    def test_order_within_a_partition(self, harness: Harness, alone: Client) -> None:
        """Messages lie in the order in which they were sent, transaction by transaction."""
        for number in range(3):
            texts = [b"%d-%d" % (number, index) for index in range(50)]
            alone.publish(harness.outputs, *texts, offsets={0: Committed(number + 1, "")})
        expected = [b"%d-%d" % (number, index) for number in range(3) for index in range(50)]
        assert values(harness, harness.outputs, *expected)

    def test_offsets_of_written_messages(self, harness: Harness, alone: Client) -> None:
        """After a flush every message's own offset has been told, markers of other transactions left out."""
        told: list[tuple[int, int]] = []
        for number in range(3):
            alone.broker.begin()
            for index in range(4):
                partition, place = index % 2, len(told) + index
                alone.broker.send(
                    harness.outputs,
                    partition,
                    None,
                    b"%d" % place,
                    1,
                    on_written=lambda offset, place=place: told.append((place, offset)),  # type: ignore[misc]
                )
            alone.broker.flush()
            assert len(told) == 4 * (number + 1)
            alone.broker.commit({0: Committed(number + 1, "")})
        found = {
            int(message.value or b""): message.offset
            for partition in (0, 1)
            for message in read(harness, harness.outputs, 6, partition)
        }
        assert dict(told) == found
        assert found[10] > found[8] > found[6] + 1

    def test_offsets_are_told_by_fetch_too(self, harness: Harness, alone: Client) -> None:
        """Nobody has to flush for it."""
        told: list[int] = []
        alone.broker.begin()
        alone.broker.send(harness.models, 0, b"k", b"nobody asks for the offset of this one", 1)
        alone.broker.send(harness.models, 0, b"k", b"v", 1, on_written=told.append)
        until(lambda: bool(told), alone)
        alone.broker.commit({0: Committed(1, "")})
        assert told == [read(harness, harness.models, 2)[1].offset]

    @pytest.mark.parametrize("ended", ["aborted", "committed"])
    def test_offsets_of_a_transaction_that_has_ended_are_never_told(
        self, harness: Harness, alone: Client, ended: str
    ) -> None:
        """Whoever waits for them would take them for a place of the next transaction."""
        told: list[int] = []
        alone.broker.begin()
        alone.broker.send(harness.models, 0, b"k", b"v", 1, on_written=told.append)
        if ended == "aborted":
            alone.broker.abort()
        else:
            alone.broker.commit({})
        after: list[int] = []
        alone.broker.begin()
        alone.broker.send(harness.models, 0, b"k", b"v", 1, on_written=after.append)
        alone.broker.flush()
        alone.broker.commit({0: Committed(1, "")})
        alone.turn()
        assert (len(told), len(after)) == (0, 1)

    def test_close_aborts_what_is_open(self, harness: Harness, alone: Client) -> None:
        """Readers are not held up by it, and see nothing of it."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"open", 1)
        alone.broker.flush()
        alone.close()
        assert values(harness, harness.outputs)


class TestSuccession:
    """Workers with the same identity."""

    def test_the_successor_aborts_what_was_left_open(self, harness: Harness, alone: Client, join: Join) -> None:
        """As soon as it has joined: its predecessor died without a word."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"of the dead", 1)
        alone.broker.flush()
        assert harness.read(harness.outputs, 0) == []
        assert alone.broker.log_range(harness.outputs, 0) == LogRange(0, 0)
        successor = join("a")
        until(lambda: successor.broker.log_range(harness.outputs, 0).high == 2)
        until(owning({0, 1}, successor), successor)
        successor.publish(harness.outputs, b"of the living", offsets={0: Committed(1, "")})
        assert values(harness, harness.outputs, b"of the living")

    def test_the_successor_decides_pending_offsets(self, harness: Harness, join: Join) -> None:
        """A predecessor that died between its offsets and its commit has committed nothing."""
        dead = harness.foreign(harness.transactional_id("a"))
        dead.append(harness.outputs, 0, b"half done")
        dead.offsets({0: 5})
        successor = join("a")
        assert successor.broker.decided([0]) == {0: None}
        until(owning({0, 1}, successor), successor)
        assert values(harness, harness.outputs)

    @pytest.mark.parametrize("flushed", [False, True])
    def test_a_fenced_producer_commits_nothing(
        self, harness: Harness, alone: Client, join: Join, *, flushed: bool
    ) -> None:
        """It is told to leave by the first call that asks the broker."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"zombie", 1)
        if flushed:
            alone.broker.flush()
        successor = join("a")
        with pytest.raises(FencedError):
            alone.broker.commit({0: Committed(3, "")})
        with pytest.raises(FencedError):
            alone.broker.abort()
        alone.close()
        until(owning({0, 1}, successor), successor)
        assert successor.broker.decided([0]) == {0: None}
        assert values(harness, harness.outputs)

    def test_one_that_only_fences_is_met_by_the_next_transaction(self, harness: Harness, alone: Client) -> None:
        """A successor that dies before it joins the group."""
        alone.publish(harness.outputs, b"once", offsets={0: Committed(1, "")})
        harness.foreign(harness.transactional_id("a")).abort()
        with pytest.raises(FencedError):
            alone.publish(harness.outputs, b"zombie", offsets={0: Committed(2, "")})
        assert values(harness, harness.outputs, b"once")

    def test_messages_of_a_fenced_producer(self, harness: Harness, alone: Client, join: Join) -> None:
        """They are refused; `flush` says so."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"v", 1)
        alone.broker.flush()
        join("a")
        with pytest.raises(BrokerError):
            self._send_and_flush(alone.broker, harness.outputs)
        assert values(harness, harness.outputs)

    def _send_and_flush(self, broker: Broker, topic: str) -> None:
        broker.send(topic, 0, None, b"zombie", 1)
        broker.flush()

    def test_a_static_member_is_succeeded_at_once(self, harness: Harness, alone: Client, join: Join) -> None:
        """The partitions are there without waiting for a session to end; the zombie is told to leave."""
        successor = join("a")
        until(owning({0, 1}, successor), successor)
        assert successor.events == [("assigned", (0, 1))]
        with pytest.raises(FencedError):
            until(lambda: False, alone)
        harness.append(harness.examples, 0, b"x")
        until(lambda: len(successor.records) == 1, successor)
