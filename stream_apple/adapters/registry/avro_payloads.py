"""Payloads in Avro, by fastavro: each is read by the schema that it was written with, so that schemas may change.

Whoever writes the records may be hostile. So `avro_bounds.py` counts what a payload holds before fastavro reads it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
from fastavro.read import LOGICAL_READERS

from stream_apple.adapters.registry.avro_bounds import EXPECTED, AvroBounds
from stream_apple.adapters.registry.payloads import Parse, SchemaError, decimal_of, fault_of
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

_EXACT_DECIMAL = "exact-decimal"
"""The logical type that `decimal` becomes: fastavro's own reader of decimals rounds them, and takes any size."""
_HOLDER, _HELD = "stream_apple_holder", "held"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_BYTES = 16


def avro_parser(schema: str, references: Sequence[str]) -> Parse:
    """Return the parser of the payloads of `schema`; SchemaError if that is no schema.

    references  the schemas whose names it uses, those that others build on first
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(_loaded(reference), named_schemas=named)
        # The library forgets the references of a schema that is a union, or no more than a name; of a record it keeps
        # them. A record of one field is the same bytes as the field.
        held = {"name": _HELD, "type": _loaded(schema)}
        parsed = fastavro.parse_schema({"type": "record", "name": _HOLDER, "fields": [held]}, named_schemas=named)
        bounds = AvroBounds(parsed, named)
    except json.JSONDecodeError as error:
        raise SchemaError(f"it is not JSON: {error}") from None
    except UnicodeEncodeError:
        raise SchemaError("it has a name with half of a surrogate pair") from None
    except RecursionError:
        raise SchemaError("its types are nested too deep") from None
    except (ValueError, TypeError, LookupError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise SchemaError(f"it is not a schema of Avro: {error}") from None

    def parse(payload: bytes) -> object:
        bounds.check(payload)
        stream = BytesIO(payload)
        try:
            found: Any = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:  # noqa: BLE001  whatever the library finds, this one record does not fit its schema
            raise RefusedError(Reason.MALFORMED, EXPECTED, fault_of(error)) from None
        if stream.tell() != len(payload):
            raise RefusedError(Reason.MALFORMED, EXPECTED, f"{len(payload) - stream.tell()} bytes after it")
        return found[_HELD]

    return parse


def _loaded(schema: str) -> Any:  # noqa: ANN401  JSON
    """Return a schema that is JSON; UnicodeEncodeError if a name in it can't be written as UTF-8."""
    found = json.loads(schema)
    json.dumps(found, ensure_ascii=False).encode()
    return _with_exact_decimals(found)


def _with_exact_decimals(schema: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(schema, list):
        return [_with_exact_decimals(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: each if name == "default" else _with_exact_decimals(each) for name, each in schema.items()}
    return found | {"logicalType": _EXACT_DECIMAL} if found.get("logicalType") == "decimal" else found


def _read_decimal(data: bytes, schema: Mapping[str, Any] | None, _: object = None) -> Decimal:
    assert schema is not None
    return decimal_of(data, int(schema.get("scale", 0)))


def _read_uuid(data: bytes, _schema: object = None, _: object = None) -> UUID | bytes:
    return UUID(bytes=data) if len(data) == _UUID_BYTES else data


def _read_nanoseconds(data: int, _schema: object = None, _: object = None) -> datetime:
    return _EPOCH + timedelta(microseconds=data // 1000)


def _read_local_nanoseconds(data: int, _schema: object = None, _: object = None) -> datetime:
    return _read_nanoseconds(data).replace(tzinfo=None)


# Logical types that fastavro leaves as integers and bytes.
LOGICAL_READERS.update(
    {
        f"bytes-{_EXACT_DECIMAL}": _read_decimal,
        f"fixed-{_EXACT_DECIMAL}": _read_decimal,
        "fixed-uuid": _read_uuid,
        "long-timestamp-nanos": _read_nanoseconds,
        "long-local-timestamp-nanos": _read_local_nanoseconds,
    }
)
