"""Where a group and a log stand: questions that a member of the group and a mere reader ask alike."""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from stream_apple.adapters.patience import SLICE_S, Patience
from stream_apple.adapters.verdicts import verdict
from stream_apple.runtime.ports import Committed, LogRange


def committed_offsets(
    consumer: Consumer, patience: Patience, topic: str, partitions: Sequence[int]
) -> Mapping[int, Committed | None]:
    """What the consumer's group has committed; whether undecided transactions are waited for is the consumer's."""
    asked = [TopicPartition(topic, partition) for partition in partitions]
    found = patience.insist("committed", lambda: consumer.committed(asked, timeout=SLICE_S))
    for answer in found:
        if answer.error is not None:
            raise verdict(answer.error, f"committed offset of {answer.topic}-{answer.partition}")
    return {
        answer.partition: Committed(answer.offset, answer.metadata or "") if answer.offset >= 0 else None
        for answer in found
    }


def log_range(consumer: Consumer, patience: Patience, topic: str, partition: int) -> LogRange:
    """The broker's answer; whether the end is the last stable offset is the consumer's isolation level."""
    asked = TopicPartition(topic, partition)
    low, high = patience.insist(
        f"watermarks of {topic}-{partition}",
        lambda: consumer.get_watermark_offsets(asked, timeout=SLICE_S),
    )
    return LogRange(low, high)
