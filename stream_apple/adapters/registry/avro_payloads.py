"""Payloads in Avro, by fastavro: each is read by the schema that it was written with, so that schemas may change.

Whoever writes the records may be hostile, so three things are done that the library does not do:

    a schema that refers to itself   is read by fastavro's reader in Python, which can't overflow the stack of C
    a decimal                        has at most _MOST_DECIMAL_BYTES: the time to read one is quadratic in its size
    a list whose items are empty     is refused with its schema: a few bytes could hold any number of them
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
from fastavro import _read_py as reading_in_python
from fastavro.read import LOGICAL_READERS

from stream_apple.adapters.registry.schema_registry import Parse
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

_EXPECTED = "Avro of its schema"
_MOST_DECIMAL_BYTES = 64
_EXACT = Context(prec=3 * _MOST_DECIMAL_BYTES)
"""Python's own context rounds to 28 digits, which would make one category of many long identifiers."""
_DECIMAL = "short-decimal"
_HOLDER, _HELD = "stream_apple_holder", "held"
_Named = dict[str, Any]


def avro_parser(schema: str, references: Sequence[str]) -> Parse:
    """Return the parser of the payloads of `schema`; ValueError or fastavro's errors if that is no schema.

    references  the schemas whose names it uses, those that others build on first
    """
    named: _Named = {}
    for reference in references:
        fastavro.parse_schema(_with_short_decimals(json.loads(reference)), named_schemas=named)
    # The library forgets the references of a schema that is a union, or no more than a name; of a record it keeps them.
    # A record of one field is the same bytes as the field.
    held = {"name": _HELD, "type": _with_short_decimals(json.loads(schema))}
    parsed = fastavro.parse_schema({"type": "record", "name": _HOLDER, "fields": [held]}, named_schemas=named)
    read = fastavro.schemaless_reader
    if _refers_to_itself(parsed, named, ()):
        read = reading_in_python.schemaless_reader

    def parse(payload: bytes) -> object:
        stream = BytesIO(payload)
        try:
            found: Any = read(stream, parsed, None)
        except RecursionError:
            raise RefusedError(Reason.TOO_DEEP, _EXPECTED, "records nested too deeply") from None
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, ArithmeticError) as error:
            raise RefusedError(Reason.MALFORMED, _EXPECTED, f"other bytes ({type(error).__name__})") from None
        if stream.tell() != len(payload):
            raise RefusedError(Reason.MALFORMED, _EXPECTED, f"{len(payload) - stream.tell()} bytes behind it")
        return found[_HELD]

    return parse


def _with_short_decimals(schema: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(schema, list):
        return [_with_short_decimals(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: each if name == "default" else _with_short_decimals(each) for name, each in schema.items()}
    return found | {"logicalType": _DECIMAL} if found.get("logicalType") == "decimal" else found


def _read_decimal(data: bytes, writer_schema: Any = None, reader_schema: Any = None) -> Decimal:  # noqa: ANN401, ARG001
    if len(data) > _MOST_DECIMAL_BYTES:
        raise ValueError(f"expected a decimal of at most {_MOST_DECIMAL_BYTES} bytes, found {len(data)}")
    number = Decimal(int.from_bytes(data, "big", signed=True))
    return number.scaleb(-int(writer_schema.get("scale", 0)), _EXACT)


for _kind in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_DECIMAL}"] = _read_decimal


def _parts(schema: Any) -> Iterator[Any]:  # noqa: ANN401  as fastavro parses JSON
    """Yield the types that a type consists of."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, Mapping):
        yield from (field["type"] for field in schema.get("fields", ()))
        yield from (schema[name] for name in ("items", "values") if name in schema)


def _refers_to_itself(schema: Any, named: _Named, within: tuple[str, ...]) -> bool:  # noqa: ANN401  as above
    """Return whether a record may hold one of its own type; ValueError for lists whose items are empty."""
    if isinstance(schema, str):
        if schema not in named:
            return False
        schema = named[schema]
    if isinstance(schema, Mapping):
        if schema.get("type") == "array" and _is_empty(schema["items"], named):
            raise ValueError("expected lists whose items take at least a byte each, found a list of empty ones")
        name = schema.get("name")
        if name in within:
            return True
        within = (*within, name) if name else within
    # Every part is looked at, for lists of empty items.
    return sum(_refers_to_itself(part, named, within) for part in _parts(schema)) > 0


def _is_empty(schema: Any, named: _Named) -> bool:  # noqa: ANN401  as above
    """Return whether what has this type takes no byte."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _is_empty(named[schema], named))
    if not isinstance(schema, Mapping):
        return False  # a union has a number in front
    if schema["type"] == "fixed":
        return bool(schema["size"] == 0)
    if schema["type"] in {"record", "error"}:
        return all(_is_empty(field["type"], named) for field in schema["fields"])
    return bool(schema["type"] == "null")
