"""Which schema a value names: by the number in front of it, or by the GUID in a header."""

from uuid import UUID

import pytest

from stream_apple.records.framing import HEADER, first_unknown, frame_of, with_frame

GUID = UUID("89791762-2336-7186-9674-299b90a802e2")
BY_GUID = b"\1" + GUID.bytes
"""As Confluent's serializers write it."""


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"\0\0\0\1\2payload", (258, 5)),
        (b"\0\0\0\0\7", (7, 5)),
        (BY_GUID + b"payload", (str(GUID), 17)),
        (b"\0\0\0\0", None),
        (b"\1" + bytes(15), None),
        (b"\x81\xa1x\1", None),
        (b'{"x": 1}', None),
        (b"", None),
        (None, None),
    ],
)
def test_the_schema_of_a_value(value: bytes | None, found: object) -> None:
    """And where the payload begins."""
    assert frame_of(value) == found


@pytest.mark.parametrize(
    ("headers", "frame"),
    [
        ([(HEADER, BY_GUID)], BY_GUID),
        ([("trace", b"7"), (HEADER, b"\0\0\0\0\7")], b"\0\0\0\0\7"),
        ([(HEADER, BY_GUID), (HEADER, b"\0\0\0\0\7")], BY_GUID),
        ([("__key_schema_id", BY_GUID)], b""),
        ([(HEADER, BY_GUID[:-1])], b""),
        ([(HEADER, b"\2" + GUID.bytes)], b""),
        ([(HEADER, b"")], b""),
        ([(HEADER, None)], b""),
        ([], b""),
    ],
)
def test_a_header_holds_the_frame(headers: list[tuple[str, str | bytes | None]], frame: bytes) -> None:
    """The first of its name counts, as for Confluent; one that is no frame is the business of its writer."""
    assert with_frame(b"payload", headers) == frame + b"payload"
    assert with_frame(None, headers) is None


class Asked:
    """A registry that knows the even numbers, and notes what it was asked."""

    def __init__(self) -> None:
        self.schemas: list[int | str] = []

    def known(self, schema: int | str) -> bool:
        """Whether it is even."""
        self.schemas.append(schema)
        return isinstance(schema, int) and schema % 2 == 0

    def fault(self, schema: int | str) -> str:
        """Nobody asks."""
        raise NotImplementedError

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """Nobody asks."""
        raise NotImplementedError


def test_all_schemas_are_asked_for_together() -> None:
    """Bytes that only look like frames would each be awaited for seconds, one after the other."""
    registry = Asked()
    numbers = [2, 2, 1, 4, 1, 3]
    values = [b"{}", *(b"\0" + number.to_bytes(4, "big") for number in numbers), BY_GUID]
    assert first_unknown(values, registry) == (3, 1)
    assert registry.schemas == [2, 1, 4, 3, str(GUID)]
    assert first_unknown(values[:3], registry) is None
