"""Reads records of the two topics that have another format than the product's, by a mapping, as workers read examples.

Heartbeats have the joiner's own format, whatever the format of the outcomes around them.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from stream_apple.core.timestamps import END_MS
from stream_apple.records.framing import Schemas
from stream_apple.records.mapper import RecordMapper, fields_of
from stream_apple.records.message.outer_map import key_of_id
from stream_apple.records.message.reasons import Reason
from stream_apple.records.outer_record import OuterRecords
from stream_apple.records.parsing import RefusedError, check_size, parsed_record
from stream_apple.records.spelling import ParseError
from stream_apple.stream.joining.own_messages import (
    Entry,
    HeartbeatEntry,
    Impression,
    OutcomeEntry,
    Unusable,
    covers_of,
    origin_of_heartbeat,
    read_impressions,
    read_outcomes,
    refused_time,
)
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.starting_point import JoinLogs
from stream_apple.stream.log.contents import content_of
from stream_apple.stream.log.ports import Record

_Found = TypeVar("_Found")


class JoinInput:
    """Reads the records of both topics, each in its format.

    schemas  of a registry; BrokerError if it does not give a schema that it must know
    """

    def __init__(self, rule: JoinRule, schemas: Schemas | None = None) -> None:
        self.schemas = schemas
        self._max_bytes = rule.max_bytes
        self._impressions = rule.impressions
        shape = rule.impression_shape
        self._records = None if shape is None else OuterRecords(shape, schemas)
        self._outcomes = None if rule.outcome_shape is None else RecordMapper(rule.outcome_shape)

    def impressions(self, records: Sequence[Record]) -> Sequence[Impression | Unusable]:
        """Return the impressions, or the faults, of these records, in their order."""
        if self._records is None:
            return read_impressions(records, self._max_bytes)
        return [self._read(self._impression, record) for record in records]

    def outcomes(self, records: Sequence[Record], logs: JoinLogs | None = None) -> Sequence[Entry]:
        """Return the outcomes and heartbeats, or the faults, of these records, in their order.

        logs  as they were when the partition was assigned
        """
        if self._outcomes is None:
            found = read_outcomes(records, self._max_bytes)
        else:
            found = [self._read(self._outcome, record) for record in records]
        return [
            self._own_heartbeat(entry, record, logs) if isinstance(entry, HeartbeatEntry) else entry
            for entry, record in zip(found, records, strict=True)
        ]

    def _own_heartbeat(self, entry: HeartbeatEntry, record: Record, logs: JoinLogs | None) -> Entry:
        """Return the heartbeat, or, if it covers other impressions, an Unusable that is nobody's fault.

        One that covered more than there was later is of a topic of the same name, before that was made anew.
        """
        origin = origin_of_heartbeat(record)
        of_others = origin is not None and origin.impressions != self._impressions
        of_before = logs is not None and entry.offset < logs.outcomes.high and entry.covers > logs.impressions.high
        return Unusable(entry.offset, record, Reason.OK, 0) if of_others or of_before else entry

    def _impression(self, record: Record, value: bytes) -> Impression:
        assert self._records is not None
        outer, time_ms = self._records.opened(value, self._max_bytes)
        return Impression(record.offset(), _timed(record, time_ms), record, outer)

    def _outcome(self, record: Record, value: bytes) -> OutcomeEntry | HeartbeatEntry:
        assert self._outcomes is not None
        check_size(value, self._max_bytes)
        fields = fields_of(parsed_record(value, self.schemas))
        covers = covers_of(fields)
        if covers is not None:
            return HeartbeatEntry(record.offset(), _timed(record, None), covers)
        mapping, (label, weight, name, time_ms) = self._outcomes.mapping, self._outcomes.labelling(fields)
        if name is None:
            raise RefusedError(Reason.NO_ID, f"the id of an impression as {mapping.id!r}", "none")
        if label is None:
            raise RefusedError(Reason.NO_LABEL, f"a label as {mapping.label!r}", "none")
        return OutcomeEntry(record.offset(), _timed(record, time_ms), key_of_id(name), label, weight, record)

    def _read(self, read: Callable[[Record, bytes], _Found], record: Record) -> _Found | Unusable:
        value = content_of(record, framed=self.schemas is not None)
        if value is None:
            return Unusable(record.offset(), record, Reason.NULL_VALUE, 0)
        try:
            return read(record, value)
        except ParseError as error:
            # A ParseError that is no RefusedError says that a record has too many parts.
            reason = error.reason if isinstance(error, RefusedError) else Reason.TOO_MANY_FEATURES
            return Unusable(record.offset(), record, reason, 0, str(error))


def _timed(record: Record, time_ms: int | None) -> int:
    """Return the time of a record: `time_ms` of its field, else its own; RefusedError if that is not a valid time."""
    found = record.timestamp()[1] if time_ms is None else time_ms
    if not 0 < found < END_MS:
        raise refused_time(found)
    return found
