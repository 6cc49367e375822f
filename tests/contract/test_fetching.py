"""What every implementation of the broker port gives to the owner of partitions."""

import pytest
from contract.harness import Client, Harness, Join, no_answer, owning, until

from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import AbortableError, LogRange, Record


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
        foreign = harness.foreign(harness.transactional_id("foreign"))
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
        foreign = harness.foreign(harness.transactional_id("foreign"))
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
        client.paused = {0}
        client.start = lambda partition: 1 - partition
        until(owning({0, 1}, client), client)
        for count in (1, 2, 3):
            harness.append(harness.examples, 1, b"x")
            until(lambda count=count: len(client.values(1)) >= count, client)  # type: ignore[misc]
        assert client.values(0) == []
        client.broker.resume(0)
        until(lambda: len(client.values(0)) >= 2, client)
        assert client.values(0) == [b"1", b"2"]

    def test_holding_what_is_delivered(self, harness: Harness, alone: Client) -> None:
        """From then on nothing comes of it; when it is released, what comes is from where it was held, again and again.

        The others don't wait for it, and neither what was fetched ahead nor what arrives meanwhile is lost.
        """
        texts = [b"%d" % number for number in range(50)]
        offsets = harness.append(harness.examples, 0, *texts)
        alone.broker.fetch(7, 0.0)
        until(lambda: len(alone.values(0)) >= 1, alone)
        for start in (2, 0, 40):
            alone.broker.pause(0, offsets[start])
            alone.records = []
            for count in (1, 2, 3):
                harness.append(harness.examples, 1, b"x")
                until(lambda count=count: len(alone.values(1)) >= count, alone)  # type: ignore[misc]
            assert alone.values(0) == []
            texts.append(b"meanwhile")
            harness.append(harness.examples, 0, b"meanwhile")
            alone.turn()
            assert alone.values(0) == []
            # Whoever waits has records behind it; how many have come meanwhile, a broker need not know.
            assert len(texts) - 1 - start <= alone.broker.backlog(0) <= len(texts) - start
            alone.broker.resume(0)
            until(lambda start=start: len(alone.values(0)) >= len(texts) - start, alone)  # type: ignore[misc]
            alone.turn()
            assert alone.values(0) == texts[start:]

    def test_holding_what_is_held(self, harness: Harness, join: Join) -> None:
        """What counts is where it was held last; a rebalance forgets it."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        client = join("a")
        client.paused = {0}
        until(owning({0, 1}, client), client)
        client.broker.pause(0, 1)
        client.broker.pause(0, 2)
        client.broker.resume(0)
        until(lambda: len(client.values(0)) >= 1, client)
        assert client.values(0) == [b"2"]
        client.broker.pause(0, 1)
        client.paused = set()
        client.events.clear()
        client.broker.rejoin()
        until(lambda: bool(client.events) and len(client.values(0)) >= 3, client)
        assert client.values(0) == [b"0", b"1", b"2"]

    def test_holding_what_is_not_ours(self, harness: Harness, join: Join) -> None:
        """It has no effect, not even when the partition comes."""
        client, other = join("a"), join("b")
        client.broker.pause(0, 1)
        until(lambda: client.owned == {0} and other.owned == {1}, client, other)
        client.broker.pause(1, 1)
        harness.append(harness.examples, 0, b"0", b"1")
        harness.append(harness.examples, 1, b"0", b"1")
        until(lambda: len(client.records) >= 2 and len(other.records) >= 2, client, other)
        assert (client.values(0), other.values(1)) == ([b"0", b"1"], [b"0", b"1"])

    def test_releasing_what_is_not_ours(self, harness: Harness, join: Join) -> None:
        """It has no effect: the partition may not be ours yet, have been given up meanwhile, or be another's."""
        client, other = join("a"), join("b")
        client.broker.resume(0)
        client.paused = {0}
        until(lambda: client.owned == {0} and other.owned == {1}, client, other)
        client.broker.resume(1)
        harness.append(harness.examples, 0, b"0")
        harness.append(harness.examples, 1, b"1")
        until(lambda: len(other.records) >= 1, client, other)
        assert client.records == []
        client.broker.rejoin()
        client.broker.resume(0)
        client.events.clear()
        until(lambda: client.owned == {0} and bool(client.events), client, other)
        client.turn()
        assert client.records == []
        client.broker.resume(0)
        client.broker.resume(0)
        until(lambda: len(client.records) >= 1, client, other)
        assert client.offsets(0) == [0]

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

    @pytest.mark.parametrize("start", [0, 1000])
    def test_the_position_is_not_in_the_log(self, harness: Harness, join: Join, start: int) -> None:
        """Whether records are gone or not written yet: none is ever skipped in silence."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        harness.delete_before(harness.examples, 0, 2)
        client = join("a")
        client.start = lambda partition: start if partition == 0 else 0
        place = f"{harness.examples}-0@{start}"
        with pytest.raises(AbortableError, match=f"{place}: expected the next record to be in the log"):
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
        assert client.events == [("assigned", (0, 1))] * 2

    def test_backlog_and_log_range(self, harness: Harness, alone: Client, join: Join) -> None:
        """Backlog is 0 where nothing came, and counts down to 0 across markers; ranges are as retention makes them."""
        other = join("b")
        until(lambda: alone.owned == {0} and other.owned == {1}, alone, other)
        assert alone.broker.backlog(1) == -1
        until(lambda: alone.broker.backlog(0) == 0, alone, other)
        harness.append(harness.examples, 0, *[b"%d" % number for number in range(5)])
        foreign = harness.foreign(harness.transactional_id("foreign"))
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
        for _ in range(2):  # asking does not make it
            with pytest.raises(ConfigurationError, match=harness.missing):
                alone.broker.partition_count(harness.missing)
