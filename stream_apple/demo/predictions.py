"""Counts which examples have been answered, as any reader of the predictions topic would."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.records.message.prediction_formats import decode_prediction

_BATCH = 2000
_WAIT_S = 0.05


class PredictionReader(AbstractContextManager["PredictionReader"]):
    """Reads every partition from its beginning; use as a context.

    repeated   predictions of examples that had been answered before
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.repeated = 0
        self._answered: set[tuple[object, object, object]] = set()
        self._places = [(topic, number) for number in range(partitions)]
        # The cluster gives the records that end its transactions no valid checksum.
        self._reader = CommittedReader(
            {"bootstrap.servers": bootstrap, "check.crcs": False, "log_level": 0}, group="demo-reader"
        )
        self._reader.begin(dict.fromkeys(self._places, 0))

    @property
    def answered(self) -> int:
        """Return how many different examples have a prediction."""
        return len(self._answered)

    def read(self) -> int:
        """Take in the messages that have come, waiting for a moment if there are none; returns how many."""
        messages = self._reader.fetch(_BATCH, _WAIT_S)
        self._take(message.value() for _, message in messages)
        return len(messages)

    def read_to_end(self) -> None:
        """Take in all messages that are in the topic now; BrokerError if nothing comes for long."""
        for messages in self._reader.read_to({at: self._reader.committed_range(*at).high for at in self._places}):
            self._take(message.value() for _, message in messages)

    def _take(self, values: Iterable[bytes | None]) -> None:
        for value in values:
            prediction = decode_prediction(value or b"")
            example = (prediction["topic"], prediction["partition"], prediction["offset"])
            self.repeated += example in self._answered
            self._answered.add(example)

    def __exit__(self, *_: object) -> None:
        self._reader.close()
