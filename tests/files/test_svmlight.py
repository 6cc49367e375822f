"""svmlight text: one line -> one example."""

import pytest

from stream_apple.files import ParseError
from stream_apple.files.svmlight import parse_line
from stream_apple.records.message.example import Example


def test_a_row_is_a_label_and_features_named_by_their_index() -> None:
    """Indices become names as they are written, values become floats."""
    assert parse_line("-1 3:0.5 12:-2e3 100000:1") == Example(-1.0, 1.0, None, {"3": 0.5, "12": -2000.0, "100000": 1.0})


@pytest.mark.parametrize("line", ["", "   ", "# a comment", "  # 1 1:1", "\t"])
def test_blank_and_comment_lines_hold_no_example(line: str) -> None:
    """Such lines are read over."""
    assert parse_line(line) is None


def test_a_row_may_have_no_features() -> None:
    """Real sets contain such rows; they are examples with an empty map."""
    assert parse_line("1") == Example(1.0, 1.0, None, {})


@pytest.mark.parametrize("line", ["+1 qid:7 1:2", "1 1:2 # qid 7: a|b _ \u00e9", "1.0 1:2#x", "1  1:2  ", "1\t1:2"])
def test_query_comments_signs_and_space_do_not_matter(line: str) -> None:
    """What carries no feature changes nothing."""
    assert parse_line(line) == Example(1.0, 1.0, None, {"1": 2.0})


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ("one 1:1", "a finite number as label", "'one'"),
        ("1_0 1:1", "a finite number as label", "'1_0'"),
        ("1,2 1:1", "a finite number as label", "'1,2'"),
        ("1 2", "index:value", "'2'"),
        ("1 1:1 a:1", "index:value", "'a:1'"),
        ("1 1:1 :1", "index:value", "':1'"),
        ("1 -1:1", "index:value", "'-1:1'"),
        ("1 \u0661:1", "index:value", "'\u0661:1'"),
        ("1 1:1 qid:3", "index:value", "'qid:3'"),
        ("1 1:", "a number below 2^60 in size as value of feature '1'", "''"),
        ("1 1:x", "a number below 2^60 in size as value of feature '1'", "'x'"),
        ("1 1:1 2:inf", "a number below 2^60 in size as value of feature '2'", "'inf'"),
        ("1 1:1 2:-3.5e38", "a number below 2^60 in size as value of feature '2'", "'-3.5e38'"),
        ("1 1:1_0", "a number below 2^60 in size as value of feature '1'", "'1_0'"),
        ("1 1:\u0661", "a number below 2^60 in size as value of feature '1'", "'\u0661'"),
        ("1 1:2:3", "a number below 2^60 in size as value of feature '1'", "'2:3'"),
        ("1 3:1 3:2", "each index once in a row", "3 again"),
    ],
)
def test_a_broken_row_says_what_was_expected_and_found(line: str, expected: str, found: str) -> None:
    """Nothing is guessed: each fault names the piece that is wrong."""
    with pytest.raises(ParseError) as caught:
        parse_line(line)
    assert str(caught.value) == f"expected {expected}, found {found}"


def test_nan_is_missing() -> None:
    """As a value, and as a label."""
    assert parse_line("1 1:2 3:nan 4:5") == Example(1.0, 1.0, None, {"1": 2.0, "4": 5.0})
    assert parse_line("nan 1:NaN") == Example(None, 1.0, None, {})
