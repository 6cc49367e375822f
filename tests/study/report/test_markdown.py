"""Numbers as tables show them."""

import pytest

from study.report.markdown import NOTHING, emphasised, hundredths, spelled, table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING), (0.0, "0"), (0.15234, "0.1523"), (-0.15234, "-0.1523"), (1.0, "1.000"), (5.8654, "5.865"),
        (10.05, "10.05"), (123.44, "123.4"), (12345.6, "12,346"), (0.000012345, "1.234e-05"), (0.9999999, "1.000"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    """Four digits, no leading zero."""
    assert spelled(value) == text


def test_the_least_is_bold() -> None:
    """All of them, where several are."""
    assert emphasised([0.2, None, 0.1, 0.1]) == ["0.2000", NOTHING, "**0.1000**", "**0.1000**"]
    assert emphasised([None]) == [NOTHING]


def test_hundredths() -> None:
    """What is a rounding error of 0 is 0."""
    assert hundredths([-0.000001, 1.005e0, None]) == ["0.00", "1.00", NOTHING]


def test_a_table() -> None:
    """Header, line, rows, and a blank line."""
    assert table(["a", "b"], [["x", "1"]]) == ["| a | b |", "|---|---:|", "| x | 1 |", ""]
