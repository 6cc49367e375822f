"""From records of any shape to messages of the product's own, which `records/message` decodes."""

from collections.abc import Sequence

import numpy as np

from stream_apple.records.framing import Schemas
from stream_apple.records.mapper import Mapped, RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import ReadRecords
from stream_apple.records.message.example import encode_example
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError, check_size, parsed_record
from stream_apple.records.spelling import ParseError


class MappedReader:
    """Reads records by a mapping; several threads may use it at once.

    schemas  the schemas of a registry, for framed records; None: such records are refused
    """

    def __init__(self, mapping: InputMapping, schemas: Schemas | None = None) -> None:
        self._mapper = RecordMapper(mapping)
        self._schemas = schemas
        self.framed = schemas is not None
        self._names = mapping.names

    def read(self, values: Sequence[bytes | None], max_record_bytes: int) -> ReadRecords:
        """Return the values of `n` records as messages; BrokerError as of `Schemas.parsed`."""
        n = len(values)
        messages: list[bytes | None] = [None] * n
        reasons, faults = np.zeros(n, np.uint8), dict[int, str]()
        timestamps, left_out = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for number, value in enumerate(values):
            if value is None:
                continue
            try:
                mapped = self.mapped(value, max_record_bytes)
                messages[number] = encode_example(mapped.example)
                timestamps[number], left_out[number] = mapped.example.timestamp_ms or 0, mapped.left_out
            except ParseError as error:
                # A ParseError that is not a RefusedError says that the record has too many parts.
                reason = error.reason if isinstance(error, RefusedError) else Reason.TOO_MANY_FEATURES
                messages[number], reasons[number], faults[number] = b"", reason, str(error)
        timed = bool(self._mapper.mapping.timestamp)
        return ReadRecords(messages, reasons, faults, timestamps if timed else None, left_out, self._names)

    def mapped(self, value: bytes, max_record_bytes: int) -> Mapped:
        """Return the example in a record; RefusedError if there is none, other errors as of `parsed_record`."""
        check_size(value, max_record_bytes)
        return self._mapper.example(parsed_record(value, self._schemas))
