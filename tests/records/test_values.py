"""What one value is: missing, or the text of a category."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.records.values import category_text, is_absent


@pytest.mark.parametrize("value", [None, "", float("nan"), Decimal("NaN")])
def test_what_is_missing(value: object) -> None:
    """Null, NaN, and an empty text."""
    assert is_absent(value)


@pytest.mark.parametrize("value", ["NA", "null", 0, False, " ", [], {}])
def test_what_is_there(value: object) -> None:
    """A format with types has null for what is missing, so `NA` may be Namibia."""
    assert not is_absent(value)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((7.1, 7.10, Decimal("7.1"), Decimal("7.10"), float(np.float32(7.1))), "7.1"),
        ((7, 7.0, Decimal(7), Decimal("7.00"), Decimal("0.7E1")), "7"),
        ((0, 0.0, -0.0, Decimal(0)), "0"),
        ((0.1, float(np.float32(0.1)), Decimal("0.1")), "0.1"),
        ((1e-07, float(np.float32(1e-07)), Decimal("1E-7")), "1e-07"),
        ((10**15, 1e15, Decimal("1E+15")), "1000000000000000"),
        ((2**63 + 1,), "9223372036854775809"),
        ((0.30000000000000004,), "0.30000000000000004"),
        ((Decimal("0.10000000000000000000001"),), "0.10000000000000000000001"),
        ((True, np.float64(1) == 1 and True), "true"),
        ((False,), "false"),
        ((UUID(int=1), str(UUID(int=1))), "00000000-0000-0000-0000-000000000001"),
        ((date(2024, 5, 1),), "2024-05-01"),
        ((time(10, 30),), "10:30:00"),
        (
            (
                datetime(2024, 5, 1, 10, tzinfo=UTC),
                datetime(2024, 5, 1, 10),  # noqa: DTZ001  without an offset it is UTC
                datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))),
            ),
            "2024-05-01T10:00:00Z",
        ),
        (("NA",), "NA"),
        (("7.10",), "7.10"),
        ((b"x", "x"), "x"),
        ((b"\xff", [1], {}, None), None),
    ],
)
def test_equal_values_are_one_category(values: tuple[object, ...], text: str | None) -> None:
    """Whatever type a format gives them; a text stays as it is."""
    assert [category_text(value) for value in values] == [text] * len(values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_tells_it(value: float) -> None:
    """Different floats are different categories, except that a 32-bit float has its own short text."""
    text = category_text(value)
    assert text is not None
    assert float(text) == value or np.float32(text) == np.float32(value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_32_bit_float_is_its_own(value: float) -> None:
    """It is what NumPy prints for it, so that another 32-bit float has another text."""
    text = category_text(value)
    assert text is not None
    assert np.float32(text) == np.float32(value)
