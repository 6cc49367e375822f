"""What the fields of a record become, kind by kind; what is refused, and what is left out."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

FLAT = InputMapping(features="*")


def features(record: dict[str, Any], mapping: InputMapping = FLAT) -> dict[str, dict[str, float]]:
    """Namespace -> name -> value."""
    found: Any = RecordMapper(mapping).example(record).example.features
    return {space: names for space, names in found.items() if names}


def refusal(record: object, mapping: InputMapping = FLAT) -> RefusedError:
    """Why the record is no example."""
    with pytest.raises(RefusedError) as caught:
        RecordMapper(mapping).example(record)
    return caught.value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, {"": {"x": 3.0}}),
        (0.25, {"": {"x": 0.25}}),
        (-(2**70), {}),
        (Decimal("1.5"), {"": {"x": 1.5}}),
        ("de", {"": {"x=de": 1.0}}),
        ("a=b", {"": {"x=a=b": 1.0}}),
        (True, {"": {"x=true": 1.0}}),
        (False, {"": {"x=false": 1.0}}),
        (UUID(int=1), {"": {"x=00000000-0000-0000-0000-000000000001": 1.0}}),
        (None, {}),
        ("", {}),
        (float("nan"), {}),
        (["a", "b", "a", None, ""], {"": {"x=a": 1.0, "x=b": 1.0}}),
        ([], {}),
        ([1, None, 0.5], {"x": {"0": 1.0, "2": 0.5}}),
        ({}, {}),
        ({"y": 1, "z": {"w": "v"}}, {"x": {"y": 1.0}, "x.z": {"w=v": 1.0}}),
    ],
)
def test_a_field_by_its_value(value: object, expected: dict[str, dict[str, float]]) -> None:
    """Numbers, categories, sets, lists and maps; what is nothing leaves no feature."""
    if isinstance(value, int) and abs(value) > 2**60:
        assert refusal({"x": value}).reason is Reason.OVERFLOW
    else:
        assert features({"x": value}) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([{"y": 1}], Reason.WRONG_TYPE),
        ([[1]], Reason.WRONG_TYPE),
        (["a", 1], Reason.WRONG_TYPE),
        (b"bytes", Reason.WRONG_TYPE),
        (datetime(2024, 1, 1, tzinfo=UTC), Reason.WRONG_TYPE),
        (float("inf"), Reason.BAD_VALUE),
        (10**400, Reason.BAD_VALUE),
        (2.0**60, Reason.OVERFLOW),
    ],
)
def test_what_can_not_be_read(value: object, reason: Reason) -> None:
    """It costs the record, and is named; or is left out and counted, and the other features are learned."""
    error = refusal({"x": value, "y": 1})
    assert error.reason is reason
    assert "'x'" in str(error)
    mapped = RecordMapper(FLAT._replace(unreadable="leave_out")).example({"x": value, "y": 1})
    assert mapped.example.features == {"": {"y": 1.0}}
    assert mapped.left_out == 1


def test_each_unreadable_number_of_a_list_counts() -> None:
    """The others of the list stay in their places."""
    mapped = RecordMapper(FLAT._replace(unreadable="leave_out")).example({"x": [1, 1e300, 2, float("inf")]})
    assert mapped.example.features == {"x": {"0": 1.0, "2": 2.0}}
    assert mapped.left_out == 2


def test_a_name_with_separators_is_a_path() -> None:
    """So a flat record and a nested one of the same content have the same features."""
    nested = features({"user": {"home": {"city": "rome"}, "age": 3}, "n": 1})
    assert nested == features({"user.home.city": "rome", "user.age": 3, "n": 1})
    other = FLAT._replace(separator="/")
    assert features({"user": {"age": 3}, "v1.2": 1}, other) == {"user": {"age": 3.0}, "": {"v1.2": 1.0}}


def test_a_feature_twice_is_refused() -> None:
    """Nobody can say which of the two counts."""
    assert refusal({"a": {"b": 1}, "a.b": 2}).reason is Reason.DUPLICATE_KEY


def test_lists_by_name_or_pattern() -> None:
    """Codes are categories, spelled numbers are numbers, times are their parts in the zone, and the rest is ignored."""
    mapping = FLAT._replace(
        ignore=("debug", "secret_*"),
        categories=("zip", "codes"),
        numbers=("price", "flags.*"),
        times=("at",),
        time_zone="Asia/Tokyo",
    )
    record = {
        "debug": {"anything": [[[]]]},
        "secret_1": object(),
        "secret_2": {"deep": 1},
        "debug.flat.deep": 2,
        "zip": 1234,
        "codes": [1, 2.5],
        "price": "3.50",
        "flags": {"a": True, "b": "0"},
        "at": "2024-03-31T20:00:00Z",
    }
    assert features(record, mapping) == {
        "": {"zip=1234": 1.0, "codes=1": 1.0, "codes=2.5": 1.0, "price": 3.5},
        "flags": {"a": 1.0, "b": 0.0},
        "at": {"hour=5": 1.0, "weekday=monday": 1.0, "month=4": 1.0},
    }
    assert refusal({"price": "3,50"}, mapping).reason is Reason.WRONG_TYPE
    assert refusal({"at": "yesterday"}, mapping).reason is Reason.BAD_VALUE
    assert "year 10000 in Asia/Tokyo" in str(refusal({"at": "9999-12-31T23:59:59Z"}, mapping))


def test_what_is_ignored_is_ignored_as_a_whole() -> None:
    """`a` stands for the map `a`, and for the columns `a.b` of a flat record."""
    mapping = FLAT._replace(ignore=("a", "b.*"))
    for record in ({"a": {"b": {"c": 1}}, "ab": 2}, {"a.b.c": 1, "ab": 2}, {"a.b": {"c": 1}, "ab": 2}):
        assert features(record, mapping) == {"": {"ab": 2.0}}
    assert features({"b": 1, "b.c": 2}, mapping) == {"": {"b": 1.0}}


def test_features_of_a_flat_record_lie_below_their_path() -> None:
    """A column next to the payload may give the label away."""
    mapping = InputMapping(label="y", features="p.q")
    expected = {"": {"a": 1.0}, "b": {"c": 2.0}}
    for record in (
        {"y": 1, "leak": 1, "p": {"leak": 1, "q": {"a": 1, "b": {"c": 2}}}},
        {"y": 1, "leak": 1, "p.leak": 1, "p.q.a": 1, "p.q.b.c": 2},
        {"y": 1, "leak": 1, "p": {"leak": 1, "q.a": 1, "q.b.c": 2}},
        {"y": 1, "leak": 1, "p.q": {"a": 1, "b.c": 2}},
        {"y": 1, "p.q": {"a": 1}, "p.q.b": {"c": 2}},
    ):
        assert features(record, mapping) == expected
    assert refusal({"p.q": {"a": 1}, "p.q.a": 2}, mapping).reason is Reason.DUPLICATE_KEY


def test_times_and_dates() -> None:
    """A time of day has an hour alone; a date is its midnight; both may be categories."""
    mapping = FLAT._replace(times=("at", "clock"), categories=("day", "slot"))
    record = {"at": date(2024, 5, 1), "clock": time(10, 30), "day": date(2024, 5, 1), "slot": time(10, 30)}
    expected = {
        "at": {"hour=0": 1.0, "weekday=wednesday": 1.0, "month=5": 1.0},
        "clock": {"hour=10": 1.0},
        "": {"day=2024-05-01": 1.0, "slot=10:30:00": 1.0},
    }
    assert features(record, mapping) == expected
    assert features({name: str(value) for name, value in record.items()}, mapping) == expected, "as CSV spells them"
    assert "input.times, timestamp, categories, or ignore" in str(refusal({"at": date(2024, 5, 1)}))


def test_the_time_of_a_record_may_be_a_feature_too() -> None:
    """A field with a role is no feature, unless `times` names the timestamp."""
    mapping = FLAT._replace(timestamp="at", times=("at",))
    assert set(features({"at": "2024-05-01T10:00:00Z"}, mapping)["at"]) == {"hour=10", "weekday=wednesday", "month=5"}
    assert features({"at": "2024-05-01T10:00:00Z", "x": 1}, FLAT._replace(timestamp="at")) == {"": {"x": 1.0}}


class TestRoles:
    """Label, weight, id, timestamp."""

    @pytest.mark.parametrize(
        ("value", "label"),
        [(1, 1.0), (0.5, 0.5), (True, 1.0), (False, 0.0), ("1", 1.0), ("true", 1.0), (None, None), ("", None)],
    )
    def test_labels(self, value: object, label: float | None) -> None:
        """Numbers, truths, and texts that spell either; null is none."""
        assert RecordMapper(FLAT).example({"label": value}).example.label == label

    @pytest.mark.parametrize("value", ["yes", "1,5", [1], {}, float("inf"), b"1"])
    def test_labels_that_are_none(self, value: object) -> None:
        """Which of two words is 1 is not guessed."""
        assert refusal({"label": value}).reason in {Reason.BAD_LABEL, Reason.WRONG_TYPE}

    @pytest.mark.parametrize(
        "record",
        [{"l": {"y": 1, "i": "k"}}, {"l.y": 1, "l.i": "k"}, {"l": {"i": "k"}, "l.y": 1}, {"l": {"y": 1}, "l.i": "k"}],
    )
    def test_paths_of_roles(self, record: dict[str, Any]) -> None:
        """A nested field and a flat one of the same path are the same field."""
        example = RecordMapper(FLAT._replace(label="l.y", id="l.i")).example({**record, "x": 1}).example
        assert (example.label, example.id, example.features) == (1.0, "k", {"": {"x": 1.0}})

    def test_ids(self) -> None:
        """A UUID is its text."""
        for value, expected in ((UUID(int=5), str(UUID(int=5))), ("", ""), (7, 7), (None, None), (b"x", b"x")):
            assert RecordMapper(FLAT).example({"id": value}).example.id == expected

    def test_a_map_of_labels(self) -> None:
        """Its keys are what the label's text is; all others are refused, numbers too."""
        mapping = FLAT._replace(label="outcome.state", label_map={"paid": 1.0, "due": 0.0, "true": 1.0, "7": 0.0})
        mapper = RecordMapper(mapping)
        for value, label in (("paid", 1.0), ("due", 0.0), (True, 1.0), (7, 0.0), (None, None)):
            example = mapper.example({"outcome": {"state": value, "late": 3}}).example
            assert (example.label, example.features) == (label, {"outcome": {"late": 3.0}})
        error = refusal({"outcome": {"state": "open"}}, mapping)
        assert error.reason is Reason.BAD_LABEL
        assert "'paid', 'due', 'true', '7'" in str(error)

    def test_roles_are_no_features(self) -> None:
        """Wherever they lie: nested, below `features`, or under a name with separators."""
        mapping = InputMapping("a.y", "a.w", "a.i", "t", features="a")
        record = {"t": 1_700_000_000, "a": {"y": 1, "w": 2, "i": "k", "x": 5}}
        example = RecordMapper(mapping).example(record).example
        assert example == (1.0, 2.0, "k", {"": {"x": 5.0}}, 1_700_000_000_000, None, None)
        flat = {"t": "1700000000", "a.y": 1, "a.w": "2", "a.i": "k", "a.x": 5}
        assert RecordMapper(mapping._replace(features="*")).example(flat).example.features == {"a": {"x": 5.0}}

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ({"weight": -1}, Reason.BAD_WEIGHT),
            ({"weight": True}, Reason.BAD_WEIGHT),
            ({"weight": "heavy"}, Reason.BAD_WEIGHT),
            ({"id": 1.5}, Reason.BAD_ID),
            ({"id": True}, Reason.BAD_ID),
            ({"id": 2**64}, Reason.BAD_ID),
            ([], Reason.WRONG_TYPE),
            ({1: 2}, Reason.WRONG_TYPE),
        ],
    )
    def test_what_is_refused(self, record: object, reason: Reason) -> None:
        """By the reasons that messages of the product's own have."""
        assert refusal(record).reason is reason

    def test_a_time_that_is_missing(self) -> None:
        """An epoch can't be told without it."""
        mapping = FLAT._replace(timestamp="at")
        assert refusal({"x": 1}, mapping).reason is Reason.BAD_TIMESTAMP
        assert refusal({"at": "soon"}, mapping).reason is Reason.BAD_TIMESTAMP


def test_features_that_are_not_there() -> None:
    """A record without the map that holds them is refused, and the message names it."""
    mapping = InputMapping(features="payload.data")
    assert refusal({"payload": {}}, mapping).reason is Reason.NO_FEATURES
    assert "'payload.data'" in str(refusal({"payload": 3}, mapping))
    assert features({"payload": {"data": {"x": 1}}}, mapping) == {"": {"x": 1.0}}


def test_depth_is_bounded() -> None:
    """As that of messages of the product's own."""
    record: dict[str, Any] = {"x": 1}
    for _ in range(15):
        record = {"m": record}
    assert features(record)
    assert refusal({"m": record}).reason is Reason.TOO_DEEP


def test_packed_features_pass() -> None:
    """Who only names a label may go on sending what is hashed already."""
    packed = {"indices": bytes(8), "values": bytes(4)}
    mapping = InputMapping(label="clicked")
    assert RecordMapper(mapping).example({"clicked": 1, "features": packed}).example.features == packed
    assert refusal({"features": {**packed, "x": 1}}, mapping).reason is Reason.WRONG_TYPE
