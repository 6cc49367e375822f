"""The format of a message by its first bytes: JSON, framed by a schema registry, or msgpack."""

_SPACE = b" \t\n\r"
FRAME_BYTES = 5


def is_json(value: bytes) -> bool:
    """Return whether the record is meant to be JSON: it begins with `{`, as no map of msgpack does."""
    return value.lstrip(_SPACE).startswith(b"{")


def schema_of(message: bytes | None) -> int | None:
    """Return the number of the schema in Confluent's framing; None if the message is not framed.

    A framed message begins with a zero byte; neither a map of msgpack nor JSON does.
    """
    if message is None or len(message) < FRAME_BYTES or message[0] != 0:
        return None
    return int.from_bytes(message[1:FRAME_BYTES], "big")


def framing(message: bytes) -> str | None:
    """Return the name of the framing of a message for a schema registry; None if it has none."""
    schema = schema_of(message)
    return None if schema is None else f"Confluent's framing: a zero byte, then the schema id {schema}"
