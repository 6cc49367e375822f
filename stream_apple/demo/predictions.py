"""A reader of the predictions topic, as a user would write one: it counts which examples have been answered."""

import time
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.errors import BrokerError

_BATCH = 2000
_WAIT_S = 0.05
_DRAIN_S = 10.0


class PredictionReader:
    """Reads every partition from its beginning; use as a context.

    repeated   predictions of examples that had been answered before
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.repeated = 0
        self._answered: set[tuple[object, object, object]] = set()
        self._parts = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-reader",  # never joined: partitions are assigned by hand
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 20,
                "log_level": 0,
            }
        )
        self._consumer.assign(self._parts)

    @property
    def answered(self) -> int:
        """Return how many different examples have a prediction."""
        return len(self._answered)

    def read(self) -> int:
        """Take in the messages that have come, waiting for a moment if there are none; returns how many."""
        messages = self._consumer.consume(_BATCH, _WAIT_S)
        for message in messages:
            error = message.error()
            if error is not None:
                raise BrokerError(f"reading {message.topic()}-{message.partition()}: {error.str()} ({error.name()})")
            prediction = decode_prediction(message.value() or b"")
            example = (prediction["topic"], prediction["partition"], prediction["offset"])
            self.repeated += example in self._answered
            self._answered.add(example)
        return len(messages)

    def read_to_end(self) -> None:
        """Take in all messages that are in the topic now; BrokerError if that takes too long."""
        deadline = time.monotonic() + _DRAIN_S
        while self._behind():
            self.read()
            if time.monotonic() > deadline:
                raise BrokerError(f"expected to reach the end of the predictions within {_DRAIN_S:g} s, found more")

    def _behind(self) -> bool:
        try:
            ends = [self._consumer.get_watermark_offsets(part, timeout=_DRAIN_S)[1] for part in self._parts]
        except KafkaException as error:
            raise BrokerError(f"asking for the end of the predictions: {error.args[0].str()}") from error
        return any(at.offset < end for at, end in zip(self._consumer.position(self._parts), ends, strict=True) if end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
