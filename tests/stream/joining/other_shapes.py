"""Logs in the shape of somebody else, made of those in the product's own, and what is joined of them, led back.

Each third record is JSON, msgpack, or framed by a schema. Times are in fields; those of the records themselves say
nothing. So a join of the one has to be a join of the other.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgpack
from stream.joining.two_logs import TwoLogs
from support.oracles.offline_join import Example, Joined, content_of
from support.records import FakeRecord

from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping

IMPRESSION = InputMapping(
    label="user.clicked", weight="importance", id="request.id", timestamp="shown", features="*", ignore=("page.*",)
)
OUTCOME = InputMapping(
    label="event",
    weight="boost",
    id="of",
    timestamp="at",
    label_map={f"event {number}": float(number) for number in range(5)},
)
FRAMED = 7
"""The number of the schema of framed records."""


class KnownSchemas:
    """A registry that tells the one schema that there is, once it has been asked so often; its payloads are msgpack."""

    def __init__(self, known_after: int = 0) -> None:
        self._left = known_after

    def known(self, schema: int | str) -> bool:
        """Whether it has been asked often enough."""
        assert schema == FRAMED
        self._left = max(self._left - 1, 0)
        return not self._left

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """What there is in the payload."""
        assert (schema, self._left) == (FRAMED, 0)
        return msgpack.unpackb(payload)

    def fault(self, schema: int | str) -> str:
        """Why it does not tell it."""
        return f"schema {schema} is not there yet"


def in_other_shapes(logs: TwoLogs) -> TwoLogs:
    """The same logs; heartbeats stay."""
    return TwoLogs(
        [_other(each, _impression) for each in logs.impressions], [_other_outcome(each) for each in logs.outcomes]
    )


def _other_outcome(record: FakeRecord) -> FakeRecord:
    return record if "heartbeat" in content_of(record.payload) else _other(record, _outcome)


def _other(record: FakeRecord, content: Any) -> FakeRecord:
    fields = content(content_of(record.payload), record.time_ms)
    match record.at % 3:
        case 0:
            payload = b" " + json.dumps(fields).encode()
        case 1:
            payload = msgpack.packb(fields)
        case _:
            payload = b"\0" + FRAMED.to_bytes(4, "big") + msgpack.packb(fields)
    return record._replace(payload=payload, time_ms=-1)


def _impression(message: dict[str, Any], time_ms: int) -> dict[str, Any]:
    fields = {"request": {"id": message["id"]}, **message["features"], "shown": time_ms, "page": {"made": [None, {}]}}
    if "label" in message:
        # Both ways to write a path.
        clicked = (
            {"user.clicked": message["label"]} if len(message["id"]) % 2 else {"user": {"clicked": message["label"]}}
        )
        fields |= clicked
    return fields


def _outcome(message: dict[str, Any], time_ms: int) -> dict[str, Any]:
    fields = {"of": message["id"], "event": f"event {message['label']}", "at": time_ms}
    return fields | ({"boost": message["weight"]} if "weight" in message else {})


def led_back(examples: Sequence[Example]) -> list[Example]:
    """Examples of impressions of the other shape, as a worker reads them."""
    mapper = RecordMapper(IMPRESSION)
    found = []
    for key, content, time_ms in examples:
        example = mapper.example(content).example
        assert example.timestamp_ms == time_ms
        (features,) = example.features.values()
        found.append(_plain(key, example.label, example.weight, example.id, features, time_ms))
    return found


def without_the_rest(joined: Joined) -> Joined:
    """What a worker reads of examples of the product's own shape."""
    examples = [
        _plain(key, message["label"], message.get("weight", 1), message["id"], message["features"], time_ms)
        for key, message, time_ms in joined.examples
    ]
    return joined._replace(examples=examples)


def _plain(key: Any, label: Any, weight: Any, name: Any, features: Any, time_ms: int) -> Example:
    return Example(key, {"label": label, "weight": weight, "id": name, "features": features}, time_ms)
