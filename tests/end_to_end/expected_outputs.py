"""What readers must find in the end, whatever has happened to workers and broker: to the byte, and no more."""

from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest

from confluent_kafka import KafkaException, Message
from support.independent_checker import Names, check_independently
from support.records import dead_letter_headers
from support.topics import LogEnds, read_to_end

from stream_apple.app.model_factories import settings_of
from stream_apple.config import Config
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance

Line = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]] | None]
"""Key, value, timestamp and headers of an output message."""


class Outputs:
    """The outputs of a group's workers, of which the topic of dead letters has one partition."""

    def __init__(self, kafka: str, config: Config, partitions: int) -> None:
        self._kafka = kafka
        self._config = config
        self._partitions = partitions
        self._ends = LogEnds(kafka)
        self._written = dict.fromkeys(range(partitions), 0)

    def written(self, partition: int) -> int:
        """How many messages, markers included, this partition of the predictions topic holds."""
        # A partition without a leader, as while a broker starts, has not grown since it was last asked.
        with suppress(KafkaException):
            self._written[partition] = self._ends.of(self._config.topics.predictions, partition)
        return self._written[partition]

    def written_in_all(self) -> int:
        """The same, of all partitions."""
        return sum(map(self.written, range(self._partitions)))

    def complete(self) -> Callable[[], bool]:
        """Whether as many outputs as inputs can be read; the inputs are counted once, now."""
        total = sum(map(len, self._read(self._config.topics.examples).values()))

        def done() -> bool:
            return sum(map(len, self._read(self._config.topics.predictions).values())) + len(self._letters()) >= total

        return done

    def check(self, *, offsets: bool = True) -> None:
        """One prediction for each good record, in order, and one dead letter for each bad one.

        offsets  whether the group's offsets are there, without which the independent checker finds torn transactions
        """
        inputs = self._read(self._config.topics.examples)
        predictions, letters = _expected_lines(self._config, inputs)
        total = sum(map(len, predictions.values()))
        assert total + len(letters) == sum(map(len, inputs.values())) > 0

        found = self._read(self._config.topics.predictions)
        for number, messages in found.items():
            _check_lines(f"predictions of {number}", list(map(_line, messages)), predictions[number])
        found_letters = list(map(_line, self._letters()))
        _check_lines("dead letters", sorted(found_letters, key=repr), sorted(letters, key=repr))
        answered = [
            (message["partition"], message["offset"])
            for messages in found.values()
            for message in (decode_prediction(m.value() or b"") for m in messages)
        ]
        assert len(set(answered)) == len(answered) == total
        if offsets:
            topics = self._config.topics
            names = Names(topics.examples, topics.predictions, topics.dead_letters, self._config.worker.group)
            assert check_independently(self._kafka, names) == total + len(letters)

    def check_once(self) -> None:
        """Exactly one answer for each record, whichever model gave it."""
        topics = self._config.topics
        names = Names(topics.examples, topics.predictions, topics.dead_letters, self._config.worker.group)
        total = sum(map(len, self._read(topics.examples).values()))
        assert check_independently(self._kafka, names) == total > 0

    def _read(self, topic: str) -> dict[int, list[Message]]:
        return read_to_end(self._kafka, topic, self._partitions)

    def _letters(self) -> list[Message]:
        return read_to_end(self._kafka, self._config.topics.dead_letters)[0]


def _line(message: Message) -> Line:
    """The parts of a message that the worker decides."""
    headers = message.headers()
    return message.key(), message.value(), message.timestamp()[1], list(headers) if headers else None  # type: ignore[arg-type]


def _expected_lines(config: Config, inputs: dict[int, list[Message]]) -> tuple[dict[int, list[Line]], list[Line]]:
    """Predictions of each partition, and all dead letters, of a model that is never interrupted."""
    settings = settings_of(config)
    decoder = Decoder(settings.limits)
    name = config.topics.examples
    predictions: dict[int, list[Line]] = {}
    letters: list[Line] = []
    for number, records in inputs.items():
        lineage = Provenance.of(config).lineage(number, 0)
        result = PartitionModel(name, number, lineage, settings, decoder).process(records)  # type: ignore[arg-type]
        predictions[number] = [
            (record.key(), value, record.timestamp()[1], None)
            for record, value in zip(result.examples, result.predictions, strict=True)
        ]
        for reject in result.rejects:
            record = reject.record
            headers = dead_letter_headers(reject, name, lineage.model)
            letters.append((record.key(), record.value(), record.timestamp()[1], headers))  # type: ignore[arg-type]
    return predictions, letters


def _check_lines(what: str, found: list[Line], expected: list[Line]) -> None:
    """Equal; the message names the first line that differs, since thousands say nothing."""
    pairs = zip_longest(found, expected)
    first = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    assert first is None, (
        f"{what}: {len(found)} for {len(expected)}, {len(found) - len({repr(one) for one in found})} of them repeated; "
        f"the first that differs is line {first}: {found[first : first + 2]}, expected {expected[first : first + 2]}"
    )
