"""What every implementation of the broker port does: one suite, for the broker in memory and for Kafka.

What is proved about the worker by simulation holds for Kafka as far as this suite reaches.
"""

from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from contract.harness import Client, Harness, Seen, owning, seen, until
from contract.memory_harness import MemoryHarness

from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.runtime.ports import AbortableError, Broker, Committed, LogRange, Reader, Record

Join = Callable[..., Client]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Each broker in turn, with empty topics."""
    if request.param == "memory":
        made: Harness = MemoryHarness()
    else:
        from contract.kafka_harness import KafkaHarness

        made = KafkaHarness(request.getfixturevalue("kafka"))
    yield made
    made.close()


@pytest.fixture
def join(harness: Harness) -> Iterator[Join]:
    """Make a client that has joined: `join("a", short_session=False)`. All are closed in the end."""
    opened: list[Client] = []

    def make(instance: str = "a", *, short_session: bool = False) -> Client:
        opened.append(Client(harness.broker(instance, short_session=short_session), harness.examples))
        return opened[-1].join()

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def alone(join: Join) -> Client:
    """The only member of the group, which owns both partitions."""
    client = join("a")
    until(owning({0, 1}, client), client)
    return client


def read(harness: Harness, topic: str, count: int, partition: int = 0) -> list[Seen]:
    """What readers of a topic see when they see `count` messages or more.

    The end of a transaction is durable when `commit` returns; readers learn of it a moment later.
    """
    found: list[Seen] = []

    def enough() -> bool:
        found[:] = harness.read(topic, partition)
        return len(found) >= count

    until(enough)
    return found


def values(harness: Harness, topic: str, *expected: bytes) -> bool:
    """Whether these are just what readers see in partition 0, and nothing more comes to light later."""
    harness.append(topic, 0, b"last")
    return [message.value for message in read(harness, topic, len(expected) + 1)] == [*expected, b"last"]


def read_all(reader: Reader, count: int) -> list[Record]:
    """`count` records of a reader, however many fetches of two it takes."""
    found: list[Record] = []

    def enough() -> bool:
        fetched = reader.fetch(2, 0.1)
        assert len(fetched) <= 2
        found.extend(fetched)
        return len(found) >= count

    until(enough)
    return found


def no_answer(_partition: int) -> NoReturn:
    """What an assignment can't bear."""
    raise AbortableError("can't find out where to begin")


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
        assert broker.committed([0, 1]) == {0: None, 1: None}
        broker.commit({0: Committed(7, "note")})
        first, second = read(harness, harness.outputs, 2, partition=1)
        assert (first.key, first.value, first.timestamp) == (b"k", b"v", (1, 1_700_000_000_123))
        assert first.headers == (("a", b"1"), ("b", b"text"), ("a", None))
        assert (second.key, second.value, second.headers) == (None, None, ())
        assert second.timestamp[1] > 1_600_000_000_000
        assert broker.committed([0, 1]) == {0: Committed(7, "note"), 1: None}

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
        alone.broker.send(harness.models, 0, b"k", b"v", 1, on_written=told.append)
        until(lambda: bool(told), alone)
        alone.broker.commit({0: Committed(1, "")})
        assert told == [read(harness, harness.models, 1)[0].offset]

    def test_offsets_of_an_aborted_transaction_are_never_told(self, harness: Harness, alone: Client) -> None:
        """Whoever waits for them would take them for a place where something can be read."""
        told: list[int] = []
        alone.broker.begin()
        alone.broker.send(harness.models, 0, b"k", b"v", 1, on_written=told.append)
        alone.broker.abort()
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
        assert successor.broker.committed([0]) == {0: None}
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
        with pytest.raises(BrokerError):
            alone.broker.commit({0: Committed(3, "")})
        with pytest.raises(BrokerError):
            alone.broker.abort()
        alone.close()
        until(owning({0, 1}, successor), successor)
        assert successor.broker.committed([0]) == {0: None}
        assert values(harness, harness.outputs)

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
        with pytest.raises(BrokerError):
            until(lambda: False, alone)
        harness.append(harness.examples, 0, b"x")
        until(lambda: len(successor.records) == 1, successor)


class TestOffsets:
    """What is committed in the group."""

    def test_metadata_comes_back_whole(self, alone: Client) -> None:
        """4096 bytes beside an offset, whatever the text."""
        text = "\u00e9" * 2000 + '{"v":1}' + "x" * 89
        alone.broker.begin()
        alone.broker.commit({0: Committed(5, text), 1: Committed(6, "")})
        assert len(text.encode()) == 4096
        assert alone.broker.committed([0, 1]) == {0: Committed(5, text), 1: Committed(6, "")}

    def test_too_much_metadata(self, harness: Harness, alone: Client) -> None:
        """Nothing of the transaction is ever seen."""
        alone.broker.begin()
        alone.broker.send(harness.outputs, 0, None, b"v", 1)
        with pytest.raises(ConfigurationError, match="OFFSET_METADATA_TOO_LARGE"):
            alone.broker.commit({0: Committed(5, "x" * 4097)})
        alone.close()
        assert values(harness, harness.outputs)

    def test_a_stale_member(self, harness: Harness, join: Join) -> None:
        """Whoever was too slow is refused, told that its partitions are lost, and may come back."""
        slow, other = join("a", short_session=True), join("b", short_session=True)
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
        assert other.broker.committed([0]) == {0: Committed(6, "")}

    def test_offsets_of_a_partition_that_another_owns(self, join: Join) -> None:
        """They are accepted: that we own what we commit is ours to check."""
        one, other = join("a"), join("b")
        until(lambda: one.owned == {0} and other.owned == {1}, one, other)
        one.broker.begin()
        one.broker.commit({1: Committed(9, "foreign")})
        assert other.broker.committed([1]) == {1: Committed(9, "foreign")}


class TestFetching:
    """What the owner of partitions is given."""

    def test_order_and_limit(self, harness: Harness, alone: Client) -> None:
        """Every record once, in offset order within its partition, at most as many at once as asked for."""
        texts = [b"%d" % number for number in range(30)]
        expected = {p: harness.append(harness.examples, p, *texts) for p in (0, 1)}
        records: list[Record] = []

        def enough() -> bool:
            fetched = alone.broker.fetch(7, 0.1)
            assert len(fetched) <= 7
            records.extend(fetched)
            return len(records) >= 60

        until(enough)
        for partition in (0, 1):
            mine = [record for record in records if record.partition() == partition]
            assert [record.offset() for record in mine] == expected[partition]
            assert [record.value() for record in mine] == texts
        alone.turn()
        assert alone.records == []

    def test_it_begins_where_the_assignment_says(self, harness: Harness, join: Join) -> None:
        """Whatever is committed."""
        offsets = [harness.append(harness.examples, p, b"0", b"1", b"2", b"3") for p in (0, 1)]
        client = join("a")
        client.start = lambda partition: offsets[partition][3 - partition]
        until(lambda: len(client.records) >= 3, client)
        assert (client.values(0), client.values(1)) == ([b"3"], [b"2", b"3"])

    def test_open_transactions_block_and_aborted_ones_are_skipped(self, harness: Harness, alone: Client) -> None:
        """Nothing behind the first record of an open transaction is read before that is decided."""
        foreign = harness.foreign("foreign")
        harness.append(harness.examples, 0, b"before")
        foreign.append(harness.examples, 0, b"open")
        harness.append(harness.examples, 0, b"behind")
        harness.append(harness.examples, 1, b"elsewhere")
        until(lambda: len(alone.records) >= 2, alone)
        alone.turn()
        assert (alone.values(0), alone.values(1)) == ([b"before"], [b"elsewhere"])
        assert alone.broker.log_range(harness.examples, 0) == LogRange(0, 1)
        foreign.commit()
        until(lambda: len(alone.values(0)) >= 3, alone)
        foreign = harness.foreign("foreign")
        foreign.append(harness.examples, 0, b"aborted", b"too")
        foreign.abort()
        (last,) = harness.append(harness.examples, 0, b"last")
        until(lambda: len(alone.values(0)) >= 4, alone)
        assert alone.values(0) == [b"before", b"open", b"behind", b"last"]
        assert alone.offsets(0) == [0, 1, 2, last]

    def test_a_held_partition_delivers_nothing(self, harness: Harness, join: Join) -> None:
        """Until it is released: then everything from its start on. The others don't wait for it."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        client = join("a")
        client.held = {0}
        client.start = lambda partition: 1 - partition
        until(owning({0, 1}, client), client)
        for count in (1, 2, 3):
            harness.append(harness.examples, 1, b"x")
            until(lambda count=count: len(client.values(1)) >= count, client)  # type: ignore[misc]
        assert client.values(0) == []
        client.broker.release(0)
        until(lambda: len(client.values(0)) >= 2, client)
        assert client.values(0) == [b"1", b"2"]

    def test_releasing_what_is_not_ours(self, harness: Harness, join: Join) -> None:
        """It has no effect: the partition may have been given up meanwhile, or be another's."""
        client, other = join("a"), join("b")
        client.held = {0}
        until(lambda: client.owned == {0} and other.owned == {1}, client, other)
        client.broker.release(1)
        harness.append(harness.examples, 0, b"0")
        harness.append(harness.examples, 1, b"1")
        until(lambda: len(other.records) >= 1, client, other)
        assert client.records == []
        client.broker.rejoin()
        client.broker.release(0)
        client.events.clear()
        until(lambda: client.owned == {0} and bool(client.events), client, other)
        client.turn()
        assert client.records == []
        client.broker.release(0)
        until(lambda: len(client.records) >= 1, client, other)

    def test_rejoining(self, harness: Harness, alone: Client) -> None:
        """Partitions are given up without a word and come back; nothing from before that is delivered."""
        harness.append(harness.examples, 0, b"0", b"1", b"2", b"3")
        until(lambda: len(alone.records) >= 4, alone)
        for start in (2, 1, 3):
            alone.start = lambda partition, start=start: start if partition == 0 else 0  # type: ignore[misc]
            alone.events.clear()
            alone.broker.rejoin()
            until(lambda start=start: len(alone.records) >= 4 - start and bool(alone.events), alone)  # type: ignore[misc]
            assert alone.events == [("assigned", (0, 1))]
            assert alone.offsets(0) == list(range(start, 4))

    def test_the_log_begins_behind_the_position(self, harness: Harness, join: Join) -> None:
        """Records that are gone are never skipped in silence."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        harness.delete_before(harness.examples, 0, 2)
        client = join("a")
        client.start = lambda _: 0
        with pytest.raises(GapError, match="expected the next record to be in the log"):
            until(lambda: False, client)

    def test_an_error_of_the_assignment(self, harness: Harness, join: Join) -> None:
        """It comes out of `fetch`; the partitions are given up, and can be had again by rejoining."""
        client = join("a")
        harness.append(harness.examples, 0, b"0")
        client.start = no_answer
        with pytest.raises(AbortableError, match="where to begin"):
            until(lambda: False, client)
        client.start = lambda _: 0
        client.broker.rejoin()
        until(lambda: len(client.records) >= 1, client)

    def test_backlog_and_log_range(self, harness: Harness, alone: Client, join: Join) -> None:
        """Backlog counts down to 0 across markers; the log's range is as retention and transactions make it."""
        other = join("b")
        until(lambda: alone.owned == {0} and other.owned == {1}, alone, other)
        assert alone.broker.backlog(1) == -1
        harness.append(harness.examples, 0, *[b"%d" % number for number in range(5)])
        foreign = harness.foreign("foreign")
        foreign.append(harness.examples, 0, b"5")
        foreign.commit()
        until(lambda: alone.broker.log_range(harness.examples, 0) == LogRange(0, 7))
        until(lambda: len(alone.records) >= 6 and alone.broker.backlog(0) == 0, alone, other)
        harness.delete_before(harness.examples, 0, 3)
        assert alone.broker.log_range(harness.examples, 0) == LogRange(3, 7)
        assert alone.broker.log_range(harness.models, 1) == LogRange(0, 0)

    def test_partition_count(self, harness: Harness, alone: Client) -> None:
        """Of a topic that is there, and of one that is not."""
        assert alone.broker.partition_count(harness.models) == 2
        with pytest.raises(ConfigurationError, match=harness.missing):
            alone.broker.partition_count(harness.missing)


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


class TestReaders:
    """Partitions of any topic, read outside of the group."""

    def test_what_is_committed(self, harness: Harness, alone: Client) -> None:
        """From an offset on, in order, in small portions, without aborted records and not past an open transaction."""
        harness.append(harness.outputs, 1, b"0", b"1")
        for number, end in enumerate(["commit", "abort", "commit", "open"]):
            foreign = harness.foreign("foreign")
            foreign.append(harness.outputs, 1, b"%d" % (10 * number), b"%d" % (10 * number + 1))
            if end != "open":
                getattr(foreign, end)()
        harness.append(harness.outputs, 1, b"behind")
        reader, late = alone.broker.reader(harness.outputs, 1, 1), alone.broker.reader(harness.outputs, 1, 9)
        found = read_all(reader, 5)
        assert [record.value() for record in found] == [b"1", b"0", b"1", b"20", b"21"]
        assert [record.offset() for record in found] == [
            message.offset for message in harness.read(harness.outputs, 1)[1:]
        ]
        assert [record.value() for record in read_all(late, 1)] == [b"21"]
        assert [list(one.fetch(10, 0.1)) for one in (reader, late)] == [[], []]
        foreign.commit()
        assert [record.value() for record in read_all(reader, 3)] == [b"30", b"31", b"behind"]
        assert [seen(record) for record in read_all(late, 3)] == harness.read(harness.outputs, 1)[-3:]
        reader.close()
        late.close()

    def test_a_compacted_log(self, harness: Harness, alone: Client) -> None:
        """Only the newest message of a key is left, at its own offset; an aborted one displaces none."""
        for key in (b"a", b"b"):
            harness.append(harness.models, 0, b"1", b"2", b"3", key=key)
        foreign = harness.foreign("foreign")
        foreign.append(harness.models, 0, b"a")
        (last,) = harness.append(harness.models, 0, b"4", key=b"b")
        foreign.abort()
        harness.compact(harness.models, 0)
        reader = alone.broker.reader(harness.models, 0, 0)
        found = [(record.key(), record.value(), record.offset()) for record in read_all(reader, 2)[:2]]
        assert found == [(b"a", b"3", 2), (b"b", b"4", last)]
        assert alone.broker.log_range(harness.models, 0).low == 0
        reader.close()

    def test_the_log_begins_behind_the_offset(self, harness: Harness, alone: Client) -> None:
        """Records that are gone are never skipped in silence."""
        harness.append(harness.outputs, 0, b"0", b"1", b"2")
        harness.delete_before(harness.outputs, 0, 2)
        reader = alone.broker.reader(harness.outputs, 0, 1)
        with pytest.raises(GapError, match="expected the next record to be in the log"):
            read_all(reader, 1)
        reader.close()

    def test_reading_does_not_disturb_the_group(self, harness: Harness, alone: Client) -> None:
        """Positions and ownership are the group's own."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        until(lambda: len(alone.records) >= 3, alone)
        alone.events.clear()
        reader = alone.broker.reader(harness.examples, 0, 0)
        assert [record.offset() for record in read_all(reader, 3)] == [0, 1, 2]
        reader.close()
        harness.append(harness.examples, 0, b"3")
        until(lambda: len(alone.records) >= 4, alone)
        assert (alone.offsets(0), alone.events) == ([0, 1, 2, 3], [])
