"""What every implementation of the broker port lets be read outside of the group."""

import pytest
from contract.harness import Client, Harness, read_on, seen, until

from stream_apple.errors import GapError


class TestReaders:
    """Partitions of any topic, read outside of the group."""

    def test_what_is_committed(self, harness: Harness, alone: Client) -> None:
        """From an offset on, in order, in small portions, without aborted records and not past an open transaction."""
        harness.append(harness.outputs, 1, b"0", b"1")
        for number, end in enumerate(["commit", "abort", "commit", "open"]):
            foreign = harness.foreign(harness.transactional_id("foreign"))
            foreign.append(harness.outputs, 1, b"%d" % (10 * number), b"%d" % (10 * number + 1))
            if end != "open":
                getattr(foreign, end)()
        harness.append(harness.outputs, 1, b"behind")
        reader, late = alone.broker.reader(harness.outputs, 1, 1), alone.broker.reader(harness.outputs, 1, 9)
        found = read_on(reader, 5)
        assert [record.value() for record in found] == [b"1", b"0", b"1", b"20", b"21"]
        assert [record.offset() for record in found] == [
            message.offset for message in harness.read(harness.outputs, 1)[1:]
        ]
        assert [record.value() for record in read_on(late, 1)] == [b"21"]
        assert [list(one.fetch(10, 0.1)) for one in (reader, late)] == [[], []]
        foreign.commit()
        assert [record.value() for record in read_on(reader, 3)] == [b"30", b"31", b"behind"]
        assert [seen(record) for record in read_on(late, 3)] == harness.read(harness.outputs, 1)[-3:]
        reader.close()
        late.close()

    def test_a_compacted_log(self, harness: Harness, alone: Client) -> None:
        """Only the newest message of a key is left, at its own offset; an aborted one displaces none."""
        for key in (b"a", b"b"):
            harness.append(harness.models, 0, b"1", b"2", b"3", key=key)
        foreign = harness.foreign(harness.transactional_id("foreign"))
        foreign.append(harness.models, 0, b"a")
        (last,) = harness.append(harness.models, 0, b"4", key=b"b")
        foreign.abort()
        harness.compact(harness.models, 0)
        reader = alone.broker.reader(harness.models, 0, 0)
        found = [(record.key(), record.value(), record.offset()) for record in read_on(reader, 2)[:2]]
        assert found == [(b"a", b"3", 2), (b"b", b"4", last)]
        assert alone.broker.log_range(harness.models, 0).low == 0
        reader.close()

    @pytest.mark.parametrize("offset", [1, 1000])
    def test_the_offset_is_not_in_the_log(self, harness: Harness, alone: Client, offset: int) -> None:
        """Whether records are gone or not written yet: none is ever skipped in silence."""
        harness.append(harness.outputs, 0, b"0", b"1", b"2")
        harness.delete_before(harness.outputs, 0, 2)
        reader = alone.broker.reader(harness.outputs, 0, offset)
        with pytest.raises(GapError, match=f"{harness.outputs}-0@{offset}: expected the next record to be in the log"):
            read_on(reader, 1)
        reader.close()

    def test_how_far_it_has_got(self, harness: Harness, alone: Client) -> None:
        """Behind markers and aborted records, which nothing delivers, and not past what is undecided."""
        harness.append(harness.outputs, 1, b"0", b"1")
        for number, end in enumerate(["commit", "abort"]):
            foreign = harness.foreign(harness.transactional_id("foreign"))
            foreign.append(harness.outputs, 1, b"%d" % number)
            getattr(foreign, end)()
        stable = alone.broker.log_range(harness.outputs, 1).high
        foreign = harness.foreign(harness.transactional_id("foreign"))
        foreign.append(harness.outputs, 1, b"open", b"open, too")
        reader = alone.broker.reader(harness.outputs, 1, 1)
        assert reader.position == 1
        found = read_on(reader, 2)

        def read_to_the_end() -> bool:
            found.extend(reader.fetch(2, 0.1))
            return reader.position == stable

        until(read_to_the_end)
        assert [record.value() for record in found] == [b"1", b"0"]
        assert reader.log_end == stable + 2
        foreign.abort()
        harness.append(harness.outputs, 1, b"last")
        read_on(reader, 1)
        last = alone.broker.log_range(harness.outputs, 1).high
        assert (reader.position, reader.log_end) == (last, last)
        reader.close()

    def test_the_end_of_an_empty_log(self, harness: Harness, alone: Client) -> None:
        """It is known as soon as there was an answer."""
        reader = alone.broker.reader(harness.models, 1, 0)
        until(lambda: not reader.fetch(2, 0.1) and reader.log_end == 0)
        reader.close()

    def test_reading_does_not_disturb_the_group(self, harness: Harness, alone: Client) -> None:
        """Positions and ownership are the group's own."""
        harness.append(harness.examples, 0, b"0", b"1", b"2")
        until(lambda: len(alone.records) >= 3, alone)
        alone.events.clear()
        reader = alone.broker.reader(harness.examples, 0, 0)
        assert [record.offset() for record in read_on(reader, 3)] == [0, 1, 2]
        reader.close()
        harness.append(harness.examples, 0, b"3")
        until(lambda: len(alone.records) >= 4, alone)
        assert (alone.offsets(0), alone.events) == ([0, 1, 2, 3], [])
