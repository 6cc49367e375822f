"""The event times of examples whose records hold them: read again from the examples topic, as a worker read them."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from stream_apple.adapters.kafka.admin import REQUEST_S
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.adapters.registry.schema_registry import registry_of
from stream_apple.config import Config
from stream_apple.records.mapper import RecordMapper, fields_of
from stream_apple.records.parsing import parsed_record
from stream_apple.records.spelling import ParseError
from stream_apple.stream.log.contents import content_of

if TYPE_CHECKING:
    from stream_apple.stream.log.ports import Place, Record

_MOST_READ = 10_000
"""So many records of a partition are read for the times of some of them."""


class ExampleTimes:
    """Finds the times in the records of the examples topic by `input.timestamp`; None: the records' own times count."""

    def __init__(self, config: Config) -> None:
        mapping = config.input.mapping()
        self._mapper = RecordMapper(mapping) if mapping is not None and mapping.timestamp else None
        self._config = config
        self._schemas = registry_of(config, REQUEST_S) if self._mapper is not None else None

    def of(self, examples: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], int]:
        """Return the times of these examples, by topic, partition, and offset, in milliseconds since 1970.

        Those that are gone, far from each other, or without a time are left out. BrokerError if Kafka does not answer.
        """
        wanted: defaultdict[Place, set[int]] = defaultdict(set)
        for topic, partition, offset in examples:
            if topic == self._config.topics.examples:
                wanted[topic, partition].add(offset)
        if self._mapper is None or not wanted:
            return {}
        found: dict[tuple[str, int, int], int] = {}
        with closing(CommittedReader(self._config.kafka, self._config.worker.group)) as reader:
            starts, ends = {}, {}
            for place, offsets in wanted.items():
                log = reader.committed_range(*place)
                end = min(max(offsets) + 1, log.high)
                start = max(min(offsets), log.low, end - _MOST_READ)
                if start < end:
                    starts[place], ends[place] = start, end
            if not starts:
                return {}
            reader.begin(starts)
            for records in reader.read_to(ends):
                for topic, record in records:
                    address = topic, record.partition(), record.offset()
                    time_ms = self._time(record) if address[2] in wanted[address[:2]] else None
                    if time_ms is not None:
                        found[address] = time_ms
        return found

    def _time(self, record: "Record") -> int | None:
        assert self._mapper is not None
        value = content_of(record, framed=self._schemas is not None) or b""
        try:
            return self._mapper.name_and_time(fields_of(parsed_record(value, self._schemas)))[1]
        except ParseError:
            return None
