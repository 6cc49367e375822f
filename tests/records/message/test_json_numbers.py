"""Numbers of JSON become the nearest float, to the last bit, however they are written."""

import math
import struct
from decimal import Decimal, localcontext

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.reasons import Reason

WIDE_DECODER = Decoder(Limits(1000, 1_000_000, math.inf, -math.inf, math.inf, binary=False))
A_FEATURE = b'"features": {"a": 1}'


def labels_of(numbers: list[str]) -> list[float]:
    """Each number as the decoder reads it, in one batch."""
    decoded = WIDE_DECODER.decode([b'{"label": %s, %s}' % (text.encode(), A_FEATURE) for text in numbers])
    assert decoded.rows.tolist() == list(range(len(numbers)))
    return [float(label) for label in decoded.batch.labels]


def bits_of(numbers: list[float]) -> list[int]:
    """So that no difference is too small."""
    return [int.from_bytes(struct.pack(">d", number)) for number in numbers]


_HARD = [
    *("0", "-0", "0.0", "-0.0", "0e0", "0e99999999999999999999", "1e22", "1e23", "-1e23"),
    *("123456789012345678901234567890", "1234567890123456789012345678901234567890e-20"),
    *("9007199254740993", "9007199254740993.0", "9007199254740992.5", "9007199254740991.5", "9007199254740995e0"),
    *("9007199254740993.00000000000000000000000000000000000000000001", "1" + "0" * 300, "1" + "0" * 300 + ".5e-300"),
    *("2.2250738585072011e-308", "2.2250738585072014e-308", "4.9406564584124654e-324", "2.4703282292062328e-324"),
    *("2.4703282292062327e-324", "5e-324", "1e-400", "1.7976931348623157e308", "1.7976931348623158e308"),
    *("0." + "0" * 400 + "1e401", "1" * 700 + "e-690", "0.1" + "0" * 900, "0.3" + "0" * 30 + "1", "8.5e-45", "7e-10"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809"),
    *("-18446744073709551615", "-1", "-32", "-33", "-128", "-129", "-32768", "-32769", "-2147483648", "-2147483649"),
    *("99999999999999999999", "184467440737095516150", "100000000000000016777215", "100000000000000016777216"),
    *("3.1415926535897932384626433832795028841971693993751", "1.00000000000000011102230246251565404236316680908203125"),
    "1.00000000000000011102230246251565404236316680908203124",
    "1.00000000000000011102230246251565404236316680908203126",
]  # fmt: skip


def test_hard_numbers_are_rounded_correctly() -> None:
    """Halfway cases, the ends of the range, more digits than a word holds, and more of these than there is room for."""
    expected = bits_of([float(text) or (-0.0 if "-0.0" in text else 0.0) for text in _HARD])
    assert bits_of(labels_of(_HARD)) == expected
    assert bits_of(labels_of(_HARD * 40)) == expected * 40


def _near_a_middle(number: float, following: str, shift: int, cut: int) -> str:
    """The digits of the middle between a float and the next one, exact, or but for the last; shifted; and more."""
    with localcontext(prec=2000, Emin=-9999, Emax=9999):
        above = math.nextafter(number, math.inf)
        middle = (Decimal(number) + Decimal(above)) / 2
        _, digits, exponent = middle.as_tuple()
        assert isinstance(exponent, int)
        text = "".join(map(str, digits[: len(digits) - cut]))
        exponent += cut
    place = min(shift, len(text) - 1)
    return f"{text[:-place] or 0}.{text[-place:]}{following}e{exponent + place}" if place else f"{text}e{exponent}"


@settings(max_examples=200)
@given(
    st.lists(
        st.builds(
            _near_a_middle,
            st.floats(0, 1.79e308) | st.floats(0, 2.3e-308) | st.sampled_from([0.0, 5e-324, 1.0, 1e22]),
            st.sampled_from(["", "0", "1", "0" * 900 + "1", "0" * 900]),
            st.integers(0, 800),
            st.integers(0, 1),
        )
        | st.builds("{}{:0400d}e-{}".format, st.integers(1, 9), st.integers(0, 10**400 - 1), st.integers(100, 760)),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_between_two_floats_are_rounded_as_python_rounds_them(numbers: list[str]) -> None:
    """In the very middle, a digit after 1,700 beside it, and among the smallest numbers that there are."""
    assert bits_of(labels_of(numbers)) == bits_of([float(text) for text in numbers])


def test_the_largest_number_and_the_next() -> None:
    """What lies in the middle between the largest float and 2**1024 is infinite, and no label."""
    middle = 2**1024 - 2**970
    for text in (f"{middle - 1}", f"{middle - 1}.{'9' * 900}", f"-{middle - 1}.5"):
        assert labels_of([text]) == [float(text)]
    for text in (f"{middle}", f"{middle}.0", f"-{middle}.{'0' * 900}1", f"{middle}e1", "1" + "0" * 309, "1e309"):
        assert WIDE_DECODER.decode([b'{"label": %s, %s}' % (text.encode(), A_FEATURE)]).reasons[0] == Reason.BAD_LABEL


@settings(max_examples=400)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False).map(repr)
        | st.floats(allow_nan=False, allow_infinity=False).map("{:.40e}".format)
        | st.builds("{}{}e{}".format, st.sampled_from(["", "-"]), st.integers(0, 10**25), st.integers(-400, 280))
        | st.builds("{}.{}".format, st.integers(-(10**20), 10**20), st.integers(0, 10**25)),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_are_rounded_as_python_rounds_them(numbers: list[str]) -> None:
    """Whatever the digits, the float is the nearest one."""
    assert bits_of(labels_of(numbers)) == bits_of([float(text) for text in numbers])
