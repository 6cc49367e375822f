"""From the bytes of a record to Python's own types, for the mapping: JSON, msgpack, and records framed by a schema.

A map of msgpack in which a key occurs twice is refused; of an object of JSON the last value counts. The product's own
messages are not read here, but by the kernels of `records/message`.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

import msgpack

from stream_apple.records.framing import Schemas, frame_of
from stream_apple.records.message.first_bytes import is_json, schema_of
from stream_apple.records.message.found import foreign
from stream_apple.records.message.json_text import MOST_NESTED, JsonError, is_nested, parsed
from stream_apple.records.message.reasons import Reason
from stream_apple.records.spelling import MOST_PARTS, ParseError, refuse_too_many_parts

_MAP_OR_OBJECT = "a msgpack map or a JSON object"
AS_DATETIME = 3
"""With timestamp=3 msgpack reads a timestamp as an aware datetime."""


class RefusedError(ParseError):
    """A record can't become an example; `reason` is the reason in its dead letter."""

    def __init__(self, reason: Reason, expected: str, found: object) -> None:
        super().__init__(expected, found)
        self.reason = reason


def check_size(value: bytes, max_bytes: int) -> None:
    """Raise RefusedError for a value of more than `max_bytes` bytes."""
    if len(value) > max_bytes:
        raise RefusedError(Reason.RECORD_TOO_LARGE, f"at most {max_bytes} bytes", len(value))


def unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a map from the pairs of a parsed object; RefusedError if a key occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        again = f"{repeated(key for key, _ in pairs)!r} again"
        raise RefusedError(Reason.DUPLICATE_KEY, "each key once in a map", again)
    return found


def repeated(names: Iterable[Any]) -> Any:  # noqa: ANN401  keys of msgpack have many types
    """Return the first name that occurs again, or None; in one pass, as there may be a million names."""
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


class Parts:
    """Makes the maps and lists of a message, and bounds their number: an empty list takes 60 times its one byte.

    holders  how many maps and lists there are
    count    how many parts: these, and all keys and values in them
    """

    def __init__(self) -> None:
        self.holders = self.count = 0

    def map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        """Return a map of the pairs, as `unique` does; ParseError if the message has too many parts."""
        self._add(len(pairs))
        return unique(pairs)

    def list(self, items: list[Any]) -> list[Any]:
        """Return the same items; ParseError if the message has too many parts."""
        self._add(len(items))
        return items

    def _add(self, parts: int) -> None:
        self.holders += 1
        self.count += parts + 1
        if self.count > MOST_PARTS:
            refuse_too_many_parts("values", self.count)


def check_nesting(found: object) -> None:
    """Raise RefusedError for maps and lists that are nested more than MOST_NESTED deep."""
    if is_nested(found):
        _refuse_deep()


def _refuse_deep() -> NoReturn:
    raise RefusedError(Reason.TOO_DEEP, f"maps and lists nested at most {MOST_NESTED} deep", "more")


def parsed_json(text: str | bytes) -> object:
    """Return what a text of JSON holds; RefusedError if it is not JSON, is too deep, or would need too much memory."""
    try:
        # A lone surrogate becomes bytes that are no UTF-8, which are refused.
        return parsed(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    except JsonError as error:
        raise RefusedError(error.reason, error.expected, error.found) from None


def parsed_record(value: bytes, schemas: Schemas | None = None) -> object:
    """Return what a record holds.

    A framed record is read by its schema; a record that begins with `{`, perhaps after white space, is JSON; all others
    are msgpack. RefusedError if it can't be read; ParseError if it has too many parts; BrokerError as of
    `Schemas.parsed`.
    """
    frame = None if schemas is None else frame_of(value)
    if schemas is not None and frame is not None:
        found = schemas.parsed(frame[0], value[frame[1] :])
        check_nesting(found)
        return found
    if (schema := schema_of(value)) is not None:
        framed = f"a record framed by schema {schema} of a registry (registry.url names it)"
        raise RefusedError(Reason.MALFORMED, _MAP_OR_OBJECT, framed)
    if is_json(value):
        return parsed_json(value)
    parts = Parts()
    try:
        found = msgpack.unpackb(
            value, object_pairs_hook=parts.map, list_hook=parts.list, timestamp=AS_DATETIME, strict_map_key=False
        )
    except ParseError:
        raise
    except msgpack.StackError:
        _refuse_deep()
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise RefusedError(Reason.MALFORMED, _MAP_OR_OBJECT, _instead(value, error)) from None
    # One sign of text, such as the digit 1, is an integer of msgpack.
    if isinstance(found, int) and (what := foreign(value)):
        raise RefusedError(Reason.WRONG_TYPE, _MAP_OR_OBJECT, what)
    if parts.holders > MOST_NESTED:
        check_nesting(found)
    return found


def _instead(value: bytes, error: Exception) -> str:
    """Say what the bytes are that msgpack's reader has refused so: most often text that is no object of JSON."""
    if not value:
        return "no bytes"
    if what := foreign(value):
        return what
    if isinstance(error, msgpack.ExtraData):
        return f"more behind one value: {len(error.extra)} bytes"
    return fault_of_msgpack(error)


def fault_of_msgpack(error: Exception) -> str:
    """Say what a reader of msgpack has found, by its error."""
    if isinstance(error, msgpack.FormatError):
        return "a byte that begins no value"
    if isinstance(error, msgpack.StackError):
        return "values nested too deeply"
    if isinstance(error, OverflowError):
        return "a time that is no date of Python's"
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    if "map key" in str(error):
        return "a key that is not text"
    return str(error) or type(error).__name__
