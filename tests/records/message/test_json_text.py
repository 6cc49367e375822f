"""JSON as msgspec reads it: against `json` as the oracle, and within bounds of memory and time."""

import gc
import json
import math
import time
import tracemalloc
from contextlib import suppress
from decimal import Decimal, localcontext
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.records.message.json_text import MOST_NESTED, JsonError, as_msgpack, parsed, with_members
from stream_apple.records.message.reasons import Reason

SIZE = 1_000_000
"""The default of `limits.max_record_bytes`."""

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


def refused(text: bytes) -> JsonError:
    """Why a text is refused."""
    with pytest.raises(JsonError) as caught:
        parsed(text)
    return caught.value


def bits_of(numbers: list[Any]) -> list[str]:
    """So that no difference is too small, and an integer is no float."""
    return [number.hex() if isinstance(number, float) else repr(number) for number in numbers]


def numbers_in(texts: list[str]) -> list[Any]:
    """The numbers that these texts spell, as both read them."""
    text = f"[{', '.join(texts)}]".encode()
    found: Any = parsed(text)
    assert bits_of(found) == bits_of(json.loads(text, parse_float=float))
    with_exponents = text[:-1] + b', "%s"]' % (b"e" * 9_000)  # these are read in another way
    assert bits_of(parsed(with_exponents)[:-1]) == bits_of(found)  # type: ignore[index]
    return list(found)


@given(_ANYTHING, st.booleans(), st.sampled_from([None, 1]))
def test_it_holds_what_python_reads(content: Any, ascii_only: bool, indent: int | None) -> None:  # noqa: FBT001  drawn
    """To the bit, whether characters are escaped or not."""
    text = json.dumps(content, ensure_ascii=ascii_only, indent=indent).encode()
    assert repr(parsed(text)) == repr(json.loads(text))


@given(st.text() | _ANYTHING.map(json.dumps), st.integers(0, 200), st.sampled_from(list('"\\{}[]:,0-+.eE tfn\x00\x7f')))
def test_it_takes_what_python_takes(text: str, at: int, sign: str) -> None:
    """Whatever the text, but for the constants that Python reads."""
    changed = text[:at] + sign + text[at + 1 :]

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        wanted = json.loads(changed, parse_constant=refuse)
        json.dumps(wanted, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        assert refused(changed.encode()).reason == Reason.MALFORMED
    else:
        assert repr(parsed(changed.encode())) == repr(wanted)


@given(st.binary(max_size=40) | st.binary(max_size=9).map(lambda raw: b'{"a": "' + raw + b'"}'))
def test_a_refusal_is_a_line_of_ascii(text: bytes) -> None:
    """It names what was expected and what was found, whatever the bytes, and nothing of the library's own words."""
    said = ""
    try:
        parsed(text)
    except JsonError as error:
        said = str(error)
    if said:
        assert said.isascii()
        assert said.isprintable()
        assert said.startswith("expected ")
        assert "byte" in said
        assert len(said) < 200


def test_hard_numbers_are_rounded_correctly() -> None:
    """Halfway cases, the ends of the range, and integers of more than 64 bits, which stay integers."""
    numbers_in(
        [
            *("0", "-0", "0.0", "-0.0", "0e0", "0e99999999999999999999", "1e22", "1e23", "-1e23", "1E+2"),
            *("9007199254740993", "9007199254740993.0", "9007199254740992.5", "9007199254740991.5"),
            *("9007199254740993.00000000000000000000000000000000000000000001", "1" + "0" * 300 + ".5e-300"),
            *("2.2250738585072011e-308", "2.2250738585072014e-308", "4.9406564584124654e-324"),
            *("2.4703282292062328e-324", "2.4703282292062327e-324", "5e-324", "1e-400", "1.7976931348623158e308"),
            *("0." + "0" * 400 + "1e401", "1" * 700 + "e-690", "0.1" + "0" * 900, "0.3" + "0" * 30 + "1"),
            *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809"),
            *("1" * 4300, "-" + "9" * 400, "3.1415926535897932384626433832795028841971693993751"),
            "1.00000000000000011102230246251565404236316680908203125",
            "1.00000000000000011102230246251565404236316680908203126",
        ]
    )


def _near_a_middle(number: float, following: str, cut: int) -> str:
    """The digits of the middle between a float and the next one, exact, or but for the last, and more digits."""
    with localcontext(prec=2000, Emin=-9999, Emax=9999):
        middle = (Decimal(number) + Decimal(math.nextafter(number, math.inf))) / 2
        _, digits, exponent = middle.as_tuple()
    assert isinstance(exponent, int)
    return f"{''.join(map(str, digits[: len(digits) - cut])) or 0}.{following}e{exponent + cut}"


@settings(max_examples=200)
@given(
    st.builds(
        _near_a_middle,
        st.floats(0, 1.79e308) | st.floats(0, 2.3e-308) | st.sampled_from([0.0, 5e-324, 1.0, 1e22]),
        st.sampled_from(["0", "1", "0" * 900 + "1", "0" * 900]),
        st.integers(0, 1),
    )
    | st.floats(allow_nan=False, allow_infinity=False).map("{:.40e}".format)
    | st.builds("{}{}e{}".format, st.sampled_from(["", "-"]), st.integers(0, 10**25), st.integers(-400, 280))
    | st.builds("{}.{}".format, st.integers(-(10**20), 10**20), st.integers(0, 10**25))
)
def test_numbers_are_rounded_as_python_rounds_them(text: str) -> None:
    """Whatever the digits, and in the very middle of two floats, the float is the nearest one."""
    numbers_in([text])


def test_numbers_that_no_float_holds_are_infinite() -> None:
    """As for others who read JSON; they are refused where they count."""
    assert numbers_in(["1e309", "-1e99999999999", "9" * 400 + ".0", "1"]) == [math.inf, -math.inf, math.inf, 1]


def test_integers_have_a_length() -> None:
    """It is Python's; the end of the number is shown."""
    for before in (b"", b"e" * 9_000, b"[1e999, 5]"):
        error = refused(b'{"10": "%s", "x": [%s2]}' % (before, b"1" * 4300))
        assert error.reason == Reason.MALFORMED
        assert error.expected == "integers of at most 4,300 digits"
        assert "1111112]}" in error.found


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**70, 10**400, -(10**400)])
def test_long_integers_are_floats_in_msgpack(number: int) -> None:
    """At any depth; shorter ones stay integers."""
    nearest = float(str(number))
    found = msgpack.unpackb(as_msgpack(json.dumps({"a": [number, 2**64 - 1, -(2**63)], "b": number}).encode()))
    assert repr(found) == repr({"a": [nearest, 2**64 - 1, -(2**63)], "b": nearest})


@pytest.mark.parametrize("pair", [("[", "]"), ('{"k":', "}"), ('[{"k":', "}]")])
@pytest.mark.parametrize("space", ["", " " * 600])
def test_nesting_has_one_bound(pair: tuple[str, str], space: str) -> None:
    """Whatever the interpreter's stack would bear."""
    begins, ends = pair
    fits = MOST_NESTED // len(begins.replace('"k":', ""))
    parsed((space + begins * fits + "1" + ends * fits).encode())
    for times in (fits + 1, 5_000):
        error = refused((space + begins * times + "1" + ends * times).encode())
        assert error.reason == Reason.TOO_DEEP
        assert str(error) == "expected maps and lists nested at most 64 deep, found more"


def filled(before: str, item: str, after: str = "") -> bytes:
    """A text of nearly SIZE bytes."""
    return (before + item * ((SIZE - len(before) - len(after)) // len(item)) + after).encode()


DENSE = {
    "lists": filled("[0", ",[0,0,0,0,0,0]  ", "]"),
    "lists of lists": filled("[0", ",[[[[0,0,0,0,0,0,0,0,0,0]]]]" + " " * 42, "]"),
    "maps": filled("[0", ',{"":0,"x":1}   ', "]"),
    "maps of maps": filled("[0", ',{"":{"":{"":{"":{"":{"":0}}}}}}' + " " * 63, "]"),
    "maps with names": filled("[0", ',{"ab":{"cd":0.5,"e":0.5,"f":0.5}}', "]"),
    "floats": filled("[0", ",.5".replace(".", "0."), "]"),
    "texts": filled("[0", ',"ab"', "]"),
    "small integers": filled("[0", ",1", "]"),
    "long integers": filled("[0", ",99999999999999999999", "]"),
    "names": b"{" + b",".join(b'"%x":0.5' % number for number in range(SIZE // 12)) + b"}",
    "escapes": filled('"', "\\ud83c\\udf4f", '"'),
    "digits": filled("[0", "," + "1" * 4000, "]"),
    "digits after the point": filled("[0", ",0." + "3" * 10_000 + "e-300", "]"),
    "exponents": filled("[0", ",1e308", "]"),
    "small exponents": filled("[0", ",9.5e-310", "]"),
    "as many exponents as are read by msgspec": filled("[0" + ",1e308" * 998, ",0.5", "]"),
    "middles": filled("[0", ",9007199254740993.0", "]"),
    "space": filled("[", " ", "]"),
}
BROKEN = {
    "too many lists": filled("[0", ",[]", "]"),
    "too many maps": filled("[0", ',{"":0}', "]"),
    "lists that do not end": filled("", "["),
    "maps that do not end": filled("", '{"":'),
    "strings and a fault": filled("[0", ',""', ",x]"),
    "backslashes": filled('["', "\\\\", ""),
    "halves": filled('["', "\\ud800", '"]'),
    "huge numbers": filled("[0", ",1e999", ",x]"),
    "a long integer at the end": filled("[0", ",1", "1" * 4300 + "]"),
}


def cost(text: bytes) -> tuple[float, int]:
    """Milliseconds, the least of a few, and the most bytes that Python has had at once."""

    def read() -> None:
        with suppress(JsonError):
            as_msgpack(text)

    gc.collect()
    gc.freeze()  # the objects of all other tests are not those of a worker
    spent = []
    for _ in range(3):
        start = time.process_time()
        read()
        spent.append(1000 * (time.process_time() - start))
    gc.unfreeze()
    tracemalloc.start()
    try:
        read()
        return min(spent), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", [*DENSE, *BROKEN])
def test_no_text_costs_much(name: str) -> None:
    """As large as a record may be: at most 50 MB, and 100 ms of a core that has nothing else to do."""
    text = DENSE[name] if name in DENSE else BROKEN[name]
    assert SIZE * 0.9 < len(text) <= SIZE
    milliseconds, size = cost(text)
    assert milliseconds < 300
    assert size < 50_000_000


@pytest.mark.parametrize("item", ['"ab":0.5', '"":{"ab":0}', "0.5", '"a"'])
def test_memory_is_bounded_where_records_may_be_larger(item: str) -> None:
    """By `limits.max_record_bytes`: what would take more is refused before it is made."""
    begins, ends = "{}" if ":" in item else "[]"
    text = (begins + ",".join([item] * 2_000_000) + ends).encode()
    error = refused(text)
    assert error.reason == Reason.TOO_MANY_FEATURES
    assert error.expected in {"values that take at most 50 MB of memory", "at most 65,536 signs { and ["}
    assert cost(text)[1] < 1_000_000


def test_large_texts_are_no_large_objects() -> None:
    """Of a text that is long, and has as many signs as prose, nothing is refused."""
    text = b'{"x": "%s"}' % (b"one word, and another; {see [1]: " * 30_000)
    assert isinstance(parsed(text), dict)


class TestMembers:
    """Members that are put into an object."""

    def test_other_values_keep_their_bytes(self) -> None:
        """Numbers that no float holds too, and spellings; members stay where they are, and new ones come last."""
        text = b' {"a": 1.10, "label" :null, "b":[1e400, "\\u00e9"], "weight": {} }\n'
        assert with_members(text, {"label": 1}) == b'{"a":1.10,"label":1,"b":[1e400, "\\u00e9"],"weight":{}}'
        assert with_members(b'{"a":1}', {"label": -1.0, "weight": 2}) == b'{"a":1,"label":-1.0,"weight":2}'
        assert with_members(b"{}", {"label": 1}) == b'{"label":1}'

    @given(st.dictionaries(st.text(max_size=3), _ANYTHING, max_size=5), st.dictionaries(st.text(max_size=3), _ANYTHING))
    def test_it_is_an_update(self, content: dict[str, Any], members: dict[str, Any]) -> None:
        """Of what comes twice only the last is left."""
        text = json.dumps(content).encode()
        small = {name: value for name, value in members.items() if isinstance(value, str | float | bool | None)}
        assert json.loads(with_members(text, small), object_pairs_hook=list) == json.loads(
            json.dumps(content | small), object_pairs_hook=list
        )
        assert with_members(b'{"a": 1, "a": 2}', {}) == b'{"a":2}'
