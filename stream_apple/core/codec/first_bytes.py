"""What the first bytes of a message tell of its format: JSON, a schema's, or msgpack."""

_SPACE = b" \t\n\r"
FRAME_BYTES = 5


def is_json(value: bytes) -> bool:
    """Return whether the record is meant to be JSON: no map of msgpack begins so."""
    return value.lstrip(_SPACE).startswith(b"{")


def schema_of(message: bytes | None) -> int | None:
    """Return the number of the schema in Confluent's framing; None if the message is not framed.

    Neither msgpack that is a map nor JSON begins with a zero.
    """
    if message is None or len(message) < FRAME_BYTES or message[0] != 0:
        return None
    return int.from_bytes(message[1:FRAME_BYTES], "big")


def framing(message: bytes) -> str | None:
    """Return the name of the framing of a message for a schema registry; None if it has none."""
    schema = schema_of(message)
    return None if schema is None else f"Confluent's framing: a zero byte, then the schema id {schema}"
