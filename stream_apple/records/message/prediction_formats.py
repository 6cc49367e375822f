"""The formats of predictions: msgpack, as `encode.py` writes it, and JSON and Avro, which are made of it.

    msgpack  a map
    JSON     an object with the same keys; an id of bytes is base64
    Avro     `schemas/prediction.avsc` in Confluent's framing; an id above the signed 64 bits is text

A reader that does not know which format a topic has can tell by the first byte.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgpack

from stream_apple.records.message.first_bytes import FRAME_BYTES, is_json, schema_of
from stream_apple.records.message.message_size import largest_prediction

FormatName: TypeAlias = Literal["msgpack", "json", "avro"]
Probabilities: TypeAlias = Literal["none", "one", "all"]

_LARGEST_LONG = (1 << 63) - 1
_LONGEST_NUMBER = 26  # of a float in JSON, with its comma
_FIXED_BYTES = 640  # of all but id and probabilities, and of the batch around it


class PredictionFormat(NamedTuple):
    """How predictions are written.

    probabilities  which ones are written: "none"; "one", that of label 1 or of the predicted class; or those of "all"
                   classes
    schema         returns the number of the Avro schema in the registry; BrokerError if that does not answer
    """

    probabilities: Probabilities = "none"
    name: FormatName = "msgpack"
    schema: Callable[[], int] | None = None

    def written(self, messages: list[bytes]) -> list[bytes]:
        """Return messages of msgpack in this format; BrokerError as of `schema`."""
        if self.name == "json":
            return [_in_json(msgpack.unpackb(message)) for message in messages]
        if self.name == "avro" and messages:
            if self.schema is None:
                raise AssertionError("expected a registry for predictions in Avro")
            frame = b"\0" + self.schema().to_bytes(FRAME_BYTES - 1, "big")
            return [frame + _in_avro(msgpack.unpackb(message)) for message in messages]
        return messages

    def largest_key_and_id(self, max_record_bytes: int, classes: int = 0) -> int:
        """Return the most bytes that a record's key and the id in its value may have together."""
        room = largest_prediction(max_record_bytes) - _FIXED_BYTES
        if self.probabilities == "all":
            room -= classes * _LONGEST_NUMBER
        # JSON may spell a character of one byte with six: \u0001.
        return room // 6 if self.name == "json" else room


MSGPACK = PredictionFormat()


def decode_prediction(message: bytes) -> dict[str, object]:
    """Return the map that a prediction is, in any format; ValueError, and no other error, if the message holds none.

    Anyone may have written it: its values may be of any type and size.
    """
    try:
        return _decoded(message)
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        EOFError,
        RecursionError,
        msgpack.UnpackException,
    ) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _decoded(message: bytes) -> dict[str, object]:
    """Return the map; TypeError if the message holds something else, and all errors of those who read the formats."""
    if schema_of(message) is not None:
        return _from_avro(message[FRAME_BYTES:])
    found = json.loads(message) if is_json(message) else msgpack.unpackb(message)
    if not isinstance(found, dict):
        raise TypeError(f"a value of type {type(found).__name__}")
    return found


def avro_schema() -> str:
    """Return the schema of predictions in Avro, as it is registered."""
    return files("stream_apple").joinpath("schemas", "prediction.avsc").read_text(encoding="utf-8")


def _in_json(told: dict[str, Any]) -> bytes:
    if isinstance(told.get("id"), bytes):
        told["id"] = b64encode(told["id"]).decode()
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def _in_avro(told: dict[str, Any]) -> bytes:
    import fastavro

    if isinstance(number := told.get("id"), int) and number > _LARGEST_LONG:
        told["id"] = str(number)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, _parsed_schema(), told)
    return stream.getvalue()


def _from_avro(payload: bytes) -> dict[str, object]:
    import fastavro

    stream = BytesIO(payload)
    found = cast("dict[str, object]", fastavro.schemaless_reader(stream, _parsed_schema(), None))
    if stream.tell() != len(payload):
        raise ValueError("expected a prediction in Avro, found more behind it")
    return {name: value for name, value in found.items() if value is not None or name in {"label", "loss"}}


@cache
def _parsed_schema() -> Any:  # noqa: ANN401  as fastavro parses JSON
    import fastavro

    return fastavro.parse_schema(json.loads(avro_schema()))
