"""Looks at a worker's first records for what is no fault and spoils the model: numbers in text, and tiny weights.

The loop hands over references; the observer's thread reads the records a second time, a thousand and no more.
"""

from collections.abc import Sequence

import structlog

from stream_apple.errors import BrokerError
from stream_apple.records.census import LOOKED_AT, FieldCensus, spelled_number_hint
from stream_apple.records.framing import Schemas
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping
from stream_apple.records.parsing import parsed_record
from stream_apple.records.spelling import ParseError
from stream_apple.records.weights import WeightScale
from stream_apple.stream.log.contents import content_of
from stream_apple.stream.log.ports import Record

_MOST_BYTES = 16 << 20
"""Records that are larger together are not waited for."""

_log = structlog.get_logger()


class InputWatch:
    """Logs once what the first LOOKED_AT records of a worker show, and keeps it for the page.

    mapping  by which the records are read; None: they are messages of the product's own
    schemas  the schemas of a registry, for framed records

    findings  a sentence for each thing that was found; replaced as a whole, as other threads read it
    """

    def __init__(self, mapping: InputMapping | None, schemas: Schemas | None) -> None:
        self.findings: tuple[str, ...] = ()
        own = mapping is None and schemas is None
        self._mapper = RecordMapper(mapping or OWN_MESSAGE, own_message=own)
        self._schemas = schemas
        self._census = FieldCensus(self._mapper)
        self._weights = WeightScale()
        self._waiting: list[bytes] = []
        self._left, self._bytes_left = LOOKED_AT, _MOST_BYTES

    def offer(self, records: Sequence[Record]) -> None:
        """Take in the next records; the loop calls it."""
        if self._left <= 0:
            return
        for record in records[: self._left]:
            value = content_of(record, framed=self._schemas is not None) or b""
            self._bytes_left -= len(value)
            self._waiting.append(value)
        self._left = self._left - len(records) if self._bytes_left > 0 else 0

    def take(self) -> None:
        """Look at the records that have come, and log what all of them show; another thread calls it."""
        if not self._waiting:
            return
        values, self._waiting = self._waiting, []
        for value in values:
            self._look_at(value)
        if self._left <= 0:
            self._conclude()

    def _look_at(self, value: bytes) -> None:
        try:
            record = parsed_record(value, self._schemas)
            if isinstance(record, dict):
                self._census.add(record)
                self._weights.add([self._mapper.example(record).example.weight])
        except (ParseError, BrokerError):
            return  # a dead letter says it

    def _conclude(self) -> None:
        fields = self._census.spelled_numbers()
        found = [f"{field}: {spelled_number_hint(field)}" for field in fields]
        if self._weights.hint:
            found.append(self._weights.hint)
        self.findings = tuple(found)
        if fields:
            _log.warning("text_spells_numbers", fields=fields, setting="input.numbers", records=self._census.records)
        if self._weights.hint:
            _log.warning("weights_far_from_one", mean=self._weights.mean, weights=self._weights.count)
