"""Labels that are put into records of any shape: a worker reads the same example as before, with the label."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.records.mapper import Mapped, RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.json_text import MOST_NESTED
from stream_apple.records.message.outer_map import LabelAndWeight
from stream_apple.records.message.reasons import Reason
from stream_apple.records.outer_record import OuterRecord, OuterRecords, spelling_of
from stream_apple.records.parsing import RefusedError, parsed_record

MAPPING = InputMapping(
    label="user.clicked",
    id="request",
    features="*",
    categories=("code", "codes.*"),
    times=("day", "moment"),
    unreadable="leave_out",
)
MOST = 100_000
FRAME = b"\0\0\0\0\x07"

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(1 << 63), (1 << 64) - 1),
)
_NAMES = st.sampled_from(["a", "b", "code", "user", "user.clicked", "weight", "clicked", "x.y"])
_FIELDS = st.dictionaries(
    _NAMES, st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3), st.dictionaries(_NAMES, _SCALARS, max_size=3))
)


class Told:
    """A registry whose payloads are what the test says, in Python's own types."""

    def __init__(self, content: object) -> None:
        self._content = content

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """Whatever the payload is."""
        assert (schema, payload) == (7, b"payload")
        return self._content

    def known(self, schema: int | str) -> bool:
        """Always."""
        return schema == 7

    def fault(self, schema: int | str) -> str:
        """Never asked."""
        raise AssertionError(schema)


def opened(value: bytes, mapping: InputMapping = MAPPING, content: object = None) -> OuterRecord:
    """The record; `content` is that of a frame."""
    return OuterRecords(mapping, Told(content)).opened(value, MOST)[0]


def forms_of(fields: dict[str, Any]) -> list[tuple[bytes, object]]:
    """The same fields in every form."""
    return [(b" \n" + json.dumps(fields).encode(), None), (msgpack.packb(fields), None), (FRAME + b"payload", fields)]


def read(value: bytes | dict[str, Any], mapping: InputMapping = MAPPING) -> Mapped | str:
    """What a worker makes of it: an example, or the reason why it makes none."""
    try:
        return RecordMapper(mapping).example(parsed_record(value) if isinstance(value, bytes) else value)
    except RefusedError as error:
        return error.reason.code


@given(_FIELDS, st.sampled_from([None, 0.5]))
def test_all_else_stays(fields: dict[str, Any], weight: float | None) -> None:
    """In every form, and wherever the record has a label of its own, or a field of that name."""
    fields = {"request": "r1", **fields}
    for value, content in forms_of(fields):
        found = read(opened(value, content=content).labelled(LabelAndWeight(-3.0, weight)))
        # A label of its own that is none matters no more.
        wanted = read({name: each for name, each in fields.items() if name != "user.clicked"} | {"user.clicked": -3})
        if isinstance(wanted, Mapped) and isinstance(found, Mapped):
            own = wanted.example
            assert found.left_out == wanted.left_out
            assert found.example == own._replace(weight=own.weight if weight is None else weight)
        elif weight is None:
            assert found == wanted


def test_other_values_keep_their_bytes() -> None:
    """Numbers are not written anew: a worker reads the digits that were sent."""
    json_ = b'{"request":1,"x":1e300,"y":0.10000000000000000001,"user":{"clicked": null}%s}'
    for before, after in ((b"", b',"user.clicked":-1.0'), (b',"user.clicked":7', b',"user.clicked":-1.0')):
        assert opened(json_ % before).labelled(LabelAndWeight(-1.0)) == json_ % after
    packed = msgpack.packb({"request": 1, "x": 0.1}, use_single_float=True)
    wanted = b"\x83" + packed[1:] + msgpack.packb("user.clicked") + msgpack.packb(1)
    assert opened(packed).labelled(LabelAndWeight(1)) == wanted
    assert opened(packed).as_it_is == packed


@pytest.mark.parametrize("pairs", [1, 14, 15, 16, 17, 65_534, 65_535, 65_536])
def test_maps_of_any_size(pairs: int) -> None:
    """Where the header of a map of msgpack grows."""
    fields = {"request": 1} | {f"f{number}": 1 for number in range(pairs - 1)}
    found = OuterRecords(MAPPING).opened(msgpack.packb(fields), 10_000_000)[0].labelled(LabelAndWeight(1, 2))
    assert msgpack.unpackb(found) == fields | {"user.clicked": 1, "weight": 2}


@pytest.mark.parametrize("name", ["a", "code", "day", "moment"])
@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.10"),
        Decimal("1e999"),
        1 << 70,
        -(1 << 2000),
        UUID(int=5),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 5, tzinfo=UTC),
        datetime(2024, 2, 29, 5),  # noqa: DTZ001  a local time of Avro
        time(5, 7),
        b"bytes",
        ("a", "b"),
        [Decimal("1.10"), 2],
        [UUID(int=5), "a"],
        {"deep": {"deeper": [Decimal("0.5")]}},
    ],
)
def test_what_only_a_schema_has(name: str, value: object) -> None:
    """Types that neither JSON nor msgpack has give the same features as behind the frame; what is none stays none."""
    fields = {"request": UUID(int=9), "other": 1, name: value}
    found = opened(FRAME + b"payload", content=fields).labelled(LabelAndWeight(1))
    assert read(found) == read(fields | {"user.clicked": 1})
    assert not isinstance(read(found), str)


def test_categories_below_features() -> None:
    """Paths of categories are counted from the map of the features."""
    mapping = InputMapping(id="request", features="seen.now", categories=("code",))
    fields = {"request": 1, "code": Decimal("1.10"), "seen": {"now": {"code": Decimal("1.10"), "x": Decimal("1.10")}}}
    found = opened(FRAME + b"payload", mapping, fields).labelled(LabelAndWeight(1))
    assert read(found, mapping) == read(fields | {"label": 1}, mapping)


def test_a_frame_that_becomes_too_large() -> None:
    """Names take more bytes in msgpack than behind a frame: no worker would read what it becomes."""
    fields = {"request": 1, "x": "x" * MOST}
    with pytest.raises(RefusedError, match=f"at most {MOST} bytes") as caught:
        opened(FRAME + b"payload", content=fields)
    assert caught.value.reason is Reason.RECORD_TOO_LARGE


@pytest.mark.parametrize("inner", [1, {}, [], [1, [], {"x": 2}]])
@pytest.mark.parametrize("in_list", [False, True])
def test_fields_nested_too_deeply(inner: Any, *, in_list: bool) -> None:
    """One bound in every form, whatever the interpreter's stack would bear; and no stack overflows."""
    within = 0 if inner == 1 else 1 + any(isinstance(each, list) for each in inner)
    for depth, fits in ((MOST_NESTED, True), (MOST_NESTED + 1, False), (500, False)):
        deep: Any = inner
        for _ in range(depth - 1 - within):
            deep = [deep] if in_list else {"x": deep}
        for value, content in forms_of({"request": 1, "x": deep}):
            if fits:
                opened(value, content=content).labelled(LabelAndWeight(1))
                continue
            with pytest.raises(RefusedError, match="nested at most 64 deep") as caught:
                opened(value, content=content)
            assert caught.value.reason is Reason.TOO_DEEP


def test_labels_by_their_map() -> None:
    """A label is written as its texts are read; a number that none of them means is refused."""
    mapping = MAPPING._replace(label_map={"yes": 1.0, "y": 1.0, "no": -1.0})
    for value, content in forms_of({"request": 1, "x": 1}):
        found = read(opened(value, mapping, content).labelled(LabelAndWeight(1)), mapping)
        assert isinstance(found, Mapped)
        assert found.example.label == 1
    assert spelling_of(1, mapping) == "yes"
    with pytest.raises(RefusedError, match=r"input.label_map \(1, 1, -1\)") as caught:
        spelling_of(2, mapping)
    assert caught.value.reason is Reason.BAD_LABEL
