"""An input that does not end while a test goes on: the sample of the records' helper, at a steady pace."""

from collections.abc import Iterator
from itertools import islice

from support.kafka.background_producer import BackgroundProducer, Message
from support.records import streaming

_MOST_RECORDS = 100_000  # of each partition; so many come only on a very slow machine
_PER_PAUSE = 4
_PAUSE_S = 0.01


def feeder(kafka: str, topic: str, partitions: int, pause_s: float = _PAUSE_S) -> BackgroundProducer:
    """Produces records of all partitions in turn, so that a worker is never without work; some after each pause."""
    return BackgroundProducer(kafka, topic, _batches(partitions), pause_s)


def _batches(partitions: int) -> Iterator[list[Message]]:
    streams = [streaming(_MOST_RECORDS, seed=11, partition=number) for number in range(partitions)]
    turns = zip(*streams, strict=True)
    while batch := list(islice(turns, _PER_PAUSE)):
        yield [
            Message(record.number, record.payload, record.time_ms or 1, record.named, list(record.extra or []))
            for turn in batch
            for record in turn
        ]
