"""JSON lines, and the map that they share with msgpack."""

import math
import re
from functools import partial

import pytest

from stream_apple.files import ParseError
from stream_apple.files.field_mapping import example_of
from stream_apple.files.field_mapping import parse_json_line as parse_line
from stream_apple.records.message.example import Example
from stream_apple.records.spelling import LABELS


def test_an_object_has_the_keys_of_the_message() -> None:
    """label, weight, id and features; integers and booleans are numbers, unknown keys are read over."""
    line = '{"label": 1, "weight": 2.5, "id": 7, "features": {"a": 2, "b": true, "c": false}, "note": [1]}'
    assert parse_line(line) == Example(1.0, 2.5, 7, {"a": 2.0, "b": 1.0, "c": 0.0})


OTHERS = (
    "a number, true, false or a text as value of feature '{}' "
    "(a section `input` reads null, lists and deeper maps, too)"
)


@pytest.mark.parametrize("line", ['{"features": {}}', '{"features": {}, "label": null}'])
def test_absent_and_null_are_the_same(line: str) -> None:
    """No label: unlabelled; no weight: 1; no id: none."""
    assert parse_line(line) == Example(None, 1.0, None, {})


def test_features_may_have_namespaces() -> None:
    """A map of maps is namespace -> name -> value; one of them may be empty."""
    example = parse_line('{"label": 0, "features": {"user": {"age": 3}, "ad": {}, "": {"x": 1.5}}}')
    assert example == Example(0.0, 1.0, None, {"user": {"age": 3.0}, "ad": {}, "": {"x": 1.5}})


def test_text_is_a_category() -> None:
    """A feature of its own for each text, with value 1, as on the topic; with namespaces too."""
    line = '{"features": {"city": "Rome", "age": 3, "empty": ""}}'
    assert parse_line(line) == Example(None, 1.0, None, {"city=Rome": 1.0, "age": 3.0, "empty=": 1.0})
    spaced = '{"features": {"user": {"city": "Rome"}, "": {"a": "b"}}}'
    assert parse_line(spaced) == Example(None, 1.0, None, {"user": {"city=Rome": 1.0}, "": {"a=b": 1.0}})


def test_packed_features_stay_as_they_are() -> None:
    """Bytes of indices and values, as msgpack can hold them, are not looked into."""
    packed = {"indices": bytes(8), "values": bytes(4)}
    assert example_of({"features": packed}, None) == Example(None, 1.0, None, packed)


def test_a_feature_may_be_called_indices() -> None:
    """Only bytes make the packed form."""
    assert example_of({"features": {"indices": 1.0, "values": 2.0}}, None).features == {
        "indices": 1,
        "values": 2,
    }


def test_the_timestamp_field_gives_the_time() -> None:
    """The named key is read as a time; without a name it is an unknown key like others."""
    line = '{"features": {}, "at": "2024-02-29T12:30:00Z"}'
    assert parse_line(line, partial(example_of, timestamp_field="at")) == Example(
        None, 1.0, None, {}, 1_709_209_800_000
    )
    assert parse_line(line) == Example(None, 1.0, None, {}, None)


@pytest.mark.parametrize("line", ["", " ", "\t"])
def test_a_blank_line_holds_no_example(line: str) -> None:
    """A file may end with one."""
    assert parse_line(line) is None


LABEL = f"a finite number as label{LABELS}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "a JSON object, found Expecting property name enclosed in double quotes at column 2"),
        ('{"features": {}} x', "a JSON object, found Extra data at column 18"),
        ("[" * 100_000, "maps and lists nested at most 64 deep, found more"),
        ("[1]", "a map with label, weight, id and features, found [1]"),
        (
            '{"label": 1}',
            "a map under 'features' (or, where each field is a feature, --input 'features=*'), found none",
        ),
        ('{"features": [1]}', "a map under 'features', found [1]"),
        ('{"features": null}', "a map under 'features', found null"),
        ('{"features": {"a": NaN}}', "finite numbers, found NaN"),
        ('{"features": {"a": -Infinity}}', "finite numbers, found -Infinity"),
        ('{"features": {"a": 1e999}}', "a number below 2^60 in size as value of feature 'a', found inf"),
        (
            '{"features": {"a": ' + "9" * 400 + "}}",
            f"a number below 2^60 in size as value of feature 'a', found {'9' * 80}...",
        ),
        (
            '{"features": {"a": ' + "9" * 5000 + "}}",
            "finite numbers, found an integer of thousands of digits",
        ),
        (
            '{"features": {"": {"values": "AACAPw=="}}}',
            "numbers, or bytes as packed features, under 'values', found text: 'AACAPw=='",
        ),
        (
            '{"features": {"a": "b", "a=b": 2}}',
            'each feature once, found a text that makes the name of another in {"a": "b", "a=b": 2}',
        ),
        (
            '{"features": {"a": null}}',
            f"{OTHERS.format('a')}, found null",
        ),
        (
            '{"features": {"n": {"a": {}}}}',
            f"{OTHERS.format('n: a')}, found {{}}",
        ),
        (
            '{"features": {"n": {"a": [null, true, "b"]}}}',
            f'{OTHERS.format("n: a")}, found [null, true, "b"]',
        ),
        ('{"features": {"n": {}, "a": 1}}', "a map of values in namespace 'a', as in the others, found 1"),
        ('{"features": {"a": 1, "a": 1}}', "each key once in a map, found 'a' again"),
        ('{"features": {}, "label": 1, "label": 2}', "each key once in a map, found 'label' again"),
        ('{"features": {}, "label": true}', f"{LABEL}, found true"),
        ('{"features": {}, "label": "1"}', f'{LABEL}, found "1"'),
        ('{"features": {}, "weight": null}', "a finite number as weight, found null"),
        ('{"features": {}, "weight": -0.5}', "a weight of at least 0, found -0.5"),
        ('{"features": {}, "id": null}', "text, an integer or bytes as id, found none"),
        ('{"features": {}, "id": 1.5}', "text, an integer or bytes as id, found 1.5"),
        (
            '{"features": {}, "id": 18446744073709551616}',
            "an integer of 64 bits, which msgpack can hold, as id, found 18446744073709551616",
        ),
        ('{"features": {}, "id": false}', "text, an integer or bytes as id, found false"),
        ('{"features": {"\\ud800": 1}}', "text that UTF-8 can hold, found the lone surrogate '\\ud800'"),
    ],
)
def test_a_broken_object_says_what_was_expected_and_found(line: str, message: str) -> None:
    """Each fault names the piece that is wrong."""
    with pytest.raises(ParseError) as caught:
        parse_line(line)
    assert str(caught.value) == f"expected {message}"


def test_an_escaped_pair_of_surrogates_is_a_character() -> None:
    """Only a lone half is refused."""
    example = parse_line('{"features": {"\\ud83c\\udf4f": 1}}')
    assert example is not None
    assert example.features == {"\U0001f34f": 1.0}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"features": {}}, "the timestamp field 'at', found only 'features'"),
        ({"features": {}, "at": None}, "a time from 1970 to 9999"),
    ],
)
def test_a_missing_or_broken_timestamp_is_refused(record: dict[str, object], message: str) -> None:
    """An example without the time that was asked for would get a wrong one."""
    with pytest.raises(ParseError, match=message):
        example_of(record, "at")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"features": {b"a": 1.0}}, "text as a name, found b'a'"),
        ({"features": {b"n": {"a": 1.0}}}, "text as a name, found b'n'"),
        ({"features": {"a": math.nan}}, "a number below 2^60 in size as value of feature 'a', found nan"),
        (
            {"features": {"indices": b"", "other": b""}},
            "packed features: indices and values as bytes and nothing else",
        ),
        (
            {"features": {"indices": b"", "values": 1}},
            "packed features: indices and values as bytes and nothing else",
        ),
    ],
)
def test_what_only_msgpack_can_say_is_checked_too(record: dict[str, object], message: str) -> None:
    """Byte names, NaN as a float, and the packed form with something else in it."""
    with pytest.raises(ParseError, match=re.escape(message)):
        example_of(record, None)
