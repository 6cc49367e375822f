"""A file becomes a table of attributes: zeros that were left out, one-hot columns, categories, classes."""

from pathlib import Path

import numpy as np
import pytest

from stream_apple.errors import InputFileError
from stream_apple.study.tuples import attributes
from stream_apple.study.tuples.attributes import read_attributes
from stream_apple.study.tuples.discretisation import discretised


def written(path: Path, *lines: str) -> Path:
    """A file of these lines."""
    path.write_text("\n".join(lines) + "\n")
    return path


def test_what_is_left_out_is_zero_and_has_its_bin(tmp_path: Path) -> None:
    """What svmlight drops are zeros: values between the negative and the positive ones, not missing ones."""
    numbers = np.repeat(np.linspace(-2.0, 2.0, 41).round(2), 3)
    lines = [f"{int(abs(number) < 0.25)}" + (f" 1:{number}" if number else "") for number in numbers]
    table = read_attributes(written(tmp_path / "a.svm", *lines), 1000)
    assert table.values[:, 0].tolist() == numbers.tolist()
    rows = np.arange(len(numbers))
    codes = discretised(table, rows, "mdl").codes[:, 0]
    assert set(codes[numbers == 0.0]) == {1} == set(codes[np.abs(numbers) < 0.25])
    assert set(codes[numbers < -0.3]) == {0}
    assert set(codes[numbers > 0.3]) == {2}


def test_one_hot_columns_become_one(tmp_path: Path) -> None:
    """Columns of which no row has two, one after the other; a new group begins where a row has two."""
    lines = ["0 1:0.5 2:1 4:1", "1 1:0.25 3:1 5:1", "1 1:0.125 2:1 5:1", "0 1:2.5 6:1"]
    table = read_attributes(written(tmp_path / "a.svm", *lines), 1000)
    assert table.names == ("1", "2..3", "4..6")
    assert table.is_category.tolist() == [False, True, True]
    assert table.values.tolist() == [[0.5, 1, 1], [0.25, 2, 2], [0.125, 1, 2], [2.5, 0, 3]]


def test_categories_and_few_whole_numbers_are_categories(tmp_path: Path) -> None:
    """`name=value`, and columns like ranks of cards; other numbers stay numbers."""
    lines = ['{"label": 7, "features": {"colour=red": 1, "rank": 9, "size": 0.5}}',
             '{"label": 3, "features": {"colour=blue": 1, "rank": 4, "size": 0.75}}',
             '{"label": 3, "features": {"rank": 9}}', '{"features": {"rank": 1}}']  # fmt: skip
    table = read_attributes(written(tmp_path / "a.jsonl", *lines), 1000)
    assert table.names == ("colour", "rank", "size")
    assert table.is_category.tolist() == [True, True, False]
    assert table.values.tolist() == [[1, 1, 0.5], [2, 0, 0.75], [0, 1, 0]]
    assert (table.labels.tolist(), table.classes) == ([1, 0, 0], (3.0, 7.0))


def test_rows_are_drawn_in_order(tmp_path: Path) -> None:
    """By a fixed seed; classes are those of the rows that are drawn."""
    path = written(tmp_path / "a.svm", *(f"{number % 2} 1:{number}.5" for number in range(100)))
    drawn = read_attributes(path, 30).values[:, 0]
    assert len(drawn) == 30
    assert (np.diff(drawn) > 0).all()
    assert drawn.tolist() == read_attributes(path, 30).values[:, 0].tolist()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["1 1:1", "1 2:1"], "expected 2 to 64 different labels, found 1"),
        (["0.5 1:1", *(f"{number} 1:1" for number in range(70))], "expected 2 to 64 different labels, found 71"),
        (["1 1:1", "0 " + " ".join(f"{column}:2" for column in range(1, 514))], "expected at most 512 columns"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    """Regressions, and texts with a column for each word."""
    assert attributes.MOST_COLUMNS == 512
    with pytest.raises(InputFileError, match=said):
        read_attributes(written(tmp_path / "a.svm", *lines), 1000)
