"""From a file to the set that is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_apple.errors import InputFileError
from study.data_sets import DataSet
from study.preparation import load_arrays, prepare


def write(path: Path, labels: list[float]) -> DataSet:
    """A set with these labels and one feature."""
    path.write_text("".join(f"{label} 1:{row + 1}\n" for row, label in enumerate(labels)))
    return DataSet(path.stem, path)


def test_two_labels_are_a_class(tmp_path: Path) -> None:
    """The higher one is 1, the lower 0, or -1 for the logistic loss; facts are those of the file."""
    data_set = write(tmp_path / "two.svm", [3, 7] * 10)
    facts = prepare(data_set, 50_000, "squared", tmp_path / "sets")
    assert facts[2:7] == ("binary", 20, 20, 1, 1.0)
    assert load_arrays(facts.arrays).labels.tolist() == [0, 1] * 10
    other = prepare(data_set, 50_000, "logistic", tmp_path / "sets")
    assert load_arrays(other.arrays).labels.tolist() == [-1, 1] * 10
    assert facts.digest != other.digest


def test_other_labels_are_a_regression_that_is_scaled_if_asked(tmp_path: Path) -> None:
    """The least label of the file becomes the lower end, the greatest the upper."""
    data_set = write(tmp_path / "many.svm", [0, 5, 10] * 5)
    facts = prepare(data_set, 50_000, "squared", tmp_path)
    assert facts.problem == "regression"
    assert load_arrays(facts.arrays).labels.tolist() == [0, 5, 10] * 5
    scaled = prepare(data_set._replace(label_range=(-1.0, 1.0)), 50_000, "squared", tmp_path)
    assert load_arrays(scaled.arrays).labels.tolist() == [-1, 0, 1] * 5


def test_rows_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    """In the file's order, no row twice; the manifest's cap counts if it is lower."""
    data_set = write(tmp_path / "long.svm", [0, 1] * 500)
    facts = prepare(data_set, 100, "squared", tmp_path / "a")
    values = load_arrays(facts.arrays).values
    assert (facts.rows, facts.rows_of_file) == (100, 1000)
    assert (np.diff(values) > 0).all()
    again = prepare(data_set, 100, "squared", tmp_path / "b")
    assert load_arrays(again.arrays).values.tolist() == values.tolist()
    assert prepare(data_set._replace(rows=50), 100, "squared", tmp_path).rows == 50


def test_a_prepared_set_is_not_read_again(tmp_path: Path) -> None:
    """Unless its content changed."""
    data_set = write(tmp_path / "set.svm", [0, 1] * 10)
    first = prepare(data_set, 100, "squared", tmp_path)
    before = first.arrays.stat().st_mtime_ns
    assert prepare(data_set, 100, "squared", tmp_path) == first
    assert first.arrays.stat().st_mtime_ns == before
    write(tmp_path / "set.svm", [0, 1] * 11)
    assert prepare(data_set, 100, "squared", tmp_path).digest != first.digest


def test_further_columns_are_another_set(tmp_path: Path) -> None:
    """They go along with the rows that are drawn; who does not ask for them has the set as it was."""
    data_set = write(tmp_path / "set.svm", [0, 1] * 10)
    plain = prepare(data_set, 7, "squared", tmp_path)
    more = prepare(data_set, 7, "squared", tmp_path, frozenset({"attributes"}))
    assert plain.digest != more.digest
    batch = load_arrays(more.arrays)
    assert batch.attributes.tolist() == batch.keys.tolist()
    assert load_arrays(plain.arrays).attributes.size == 0


@pytest.mark.parametrize(
    ("labels", "problem", "loss", "said"),
    [
        ([0, 1, 2] * 5, "binary", "squared", "expected two labels for task 'binary', found 3"),
        ([0, 1, 2] * 5, None, "logistic", "expected two labels for the logistic loss"),
        ([0, 1], None, "squared", "at least 10 labelled examples, found 2"),
        ([1] * 20, "regression", "squared", "expected different labels among 20 rows"),
    ],
)
def test_what_cannot_be_learned_is_explained(
    tmp_path: Path, labels: list[float], problem: Any, loss: Any, said: str
) -> None:
    """With the file's name."""
    data_set = write(tmp_path / "wrong.svm", labels)._replace(problem=problem)
    with pytest.raises(InputFileError, match=f"wrong.svm: .*{said}"):
        prepare(data_set, 100, loss, tmp_path)
