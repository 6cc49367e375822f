"""Reads impressions, outcomes and heartbeats in the product's own format.

`mapped_messages.py` reads other formats.
"""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgpack

from stream_apple.core.timestamps import END_MS
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.json_text import parsed
from stream_apple.records.message.outer_map import Field, OuterMap, open_maps
from stream_apple.records.message.reasons import Reason
from stream_apple.records.outer_record import OuterRecord
from stream_apple.records.parsing import RefusedError
from stream_apple.stream.log.columns import offsets_of, timestamps_of, values_of
from stream_apple.stream.log.ports import Record
from stream_apple.untrusted import is_offset

_HEARTBEAT = "heartbeat"
_LONGEST_HEARTBEAT = 100
_GROUP, _IMPRESSIONS, _EXAMPLES = "group", "impressions", "examples"


class Impression(NamedTuple):
    """A record that waits for its outcome."""

    offset: int
    time_ms: int
    record: Record
    outer: OuterMap | OuterRecord


class OutcomeEntry(NamedTuple):
    """The outcome of an impression; `weight` is None if the record has none."""

    offset: int
    time_ms: int
    id: bytes
    label: float
    weight: float | None
    record: Record


class HeartbeatEntry(NamedTuple):
    """States that at `time_ms` exactly the impressions below offset `covers` were in their log."""

    offset: int
    time_ms: int
    covers: int


class HeartbeatOrigin(NamedTuple):
    """Says which group of joiners has written a heartbeat, what it joins into which topic, and what is covered."""

    group: str
    impressions: str
    examples: str
    covers: int


class Unusable(NamedTuple):
    """A record of either topic that can't be used; `place` is as `explain` has it, unless `fault` has the message.

    A heartbeat of joiners of other impressions has the reason OK.
    """

    offset: int
    record: Record
    reason: Reason
    place: int
    fault: str | None = None


Entry: TypeAlias = OutcomeEntry | HeartbeatEntry | Unusable


def heartbeat_value(covers: int) -> bytes:
    """Return the value of a heartbeat's record."""
    value: bytes = msgpack.packb({_HEARTBEAT: covers})
    return value


def heartbeat_key(group: str, impressions: str, examples: str) -> bytes:
    """Return the key of a heartbeat's record: which group joins the impressions of which topic into which one."""
    return json.dumps({_GROUP: group, _IMPRESSIONS: impressions, _EXAMPLES: examples}).encode()


def origin_of_heartbeat(record: Record) -> HeartbeatOrigin | None:
    """Return whose heartbeat a record is; None if it is none, or of a version that did not say it."""
    try:
        told = json.loads(record.key() or b"")
        names = told[_GROUP], told[_IMPRESSIONS], told[_EXAMPLES]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    covers = _covers_of(record.value())
    return (
        None if covers is None or not all(isinstance(name, str) for name in names) else HeartbeatOrigin(*names, covers)
    )


def refused_time(time_ms: int) -> RefusedError:
    """Return the refusal of a record whose time is none, or is not in milliseconds."""
    expected = f"a timestamp in milliseconds since 1970, above 0 and below {END_MS} (the year 10000)"
    return RefusedError(Reason.BAD_TIMESTAMP, expected, str(time_ms))


def read_impressions(records: Sequence[Record], max_bytes: int) -> list[Impression | Unusable]:
    """Return the impressions, or the faults, of these records, in their order."""
    opened = open_maps(values_of(records), max_bytes)
    found: list[Impression | Unusable] = []
    for number, (record, outer, time_ms, offset) in enumerate(
        zip(records, opened.maps, timestamps_of(records).tolist(), offsets_of(records).tolist(), strict=True)
    ):
        if outer is None:
            found.append(Unusable(offset, record, *opened.faults[number]))
        elif not 0 < time_ms < END_MS:
            found.append(Unusable(offset, record, Reason.BAD_TIMESTAMP, 0, str(refused_time(time_ms))))
        else:
            found.append(Impression(offset, time_ms, record, outer))
    return found


def read_outcomes(records: Sequence[Record], max_bytes: int) -> list[Entry]:
    """Return the outcomes and heartbeats, or the faults, of these records, in their order."""
    opened = open_maps(values_of(records), max_bytes)
    return [
        _outcome(record, outer, time_ms, *opened.faults.get(number, (Reason.OK, 0)))
        for number, (record, outer, time_ms) in enumerate(
            zip(records, opened.maps, timestamps_of(records).tolist(), strict=True)
        )
    ]


def _outcome(record: Record, outer: OuterMap | None, time_ms: int, reason: Reason, place: int) -> Entry:
    offset, timed = record.offset(), 0 < time_ms < END_MS
    if outer is None:
        covers = _covers_of(record.value()) if reason is Reason.NO_ID else None
        if covers is not None and timed:
            return HeartbeatEntry(offset, time_ms, covers)
        return Unusable(offset, record, reason, place)
    if not timed:
        return Unusable(offset, record, Reason.BAD_TIMESTAMP, 0, str(refused_time(time_ms)))
    if not outer.has_label or outer.label is None:
        return Unusable(offset, record, Reason.NO_LABEL, 0)
    label, reason = _number(outer, outer.label, Reason.BAD_LABEL)
    if reason is not Reason.OK:
        return Unusable(offset, record, reason, outer.label.value)
    if outer.weight is None or outer.is_missing(outer.weight):
        return OutcomeEntry(offset, time_ms, outer.id, label, None, record)
    weight, reason = _number(outer, outer.weight, Reason.BAD_WEIGHT)
    if reason is Reason.OK and weight < 0:
        reason = Reason.BAD_WEIGHT
    if reason is not Reason.OK:
        return Unusable(offset, record, reason, outer.weight.value)
    return OutcomeEntry(offset, time_ms, outer.id, label, weight, record)


def _number(outer: OuterMap, field: Field, unfit: Reason) -> tuple[float, Reason]:
    """Return the number of a field, and OK, WRONG_TYPE if it is no number, or `unfit` if it is not finite."""
    found = outer.number(field)
    if found is None:
        return 0.0, Reason.WRONG_TYPE
    return found, Reason.OK if math.isfinite(found) else unfit


def _covers_of(value: bytes | None) -> int | None:
    if value is None or len(value) > _LONGEST_HEARTBEAT:
        return None
    try:
        content = parsed(value) if is_json(value) else msgpack.unpackb(value)
    except (ValueError, msgpack.UnpackException):
        return None
    return covers_of(content)


def covers_of(content: object) -> int | None:
    """Return the offset that a heartbeat covers up to; None if this is not the content of a heartbeat."""
    covers = content.get(_HEARTBEAT) if isinstance(content, dict) and len(content) == 1 else None
    return covers if is_offset(covers) else None
