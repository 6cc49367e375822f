"""Sets that others carry: what their labels and losses are, and how labels are turned over."""

from pathlib import Path

import numpy as np
import pytest

from study.carried_sets import carried_sets, flipped, held_out_sets, set_of_file, with_squared_loss

pytest.importorskip("river")
pytest.importorskip("sklearn")
# River leaves files of its sets open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ROWS = 60


def test_labels_are_those_of_the_loss() -> None:
    """Two labels are -1 and 1, classes are numbered from 0, and no name comes twice."""
    for sets in (list(carried_sets(ROWS)), list(held_out_sets(ROWS))):
        assert len({name for name, _ in sets}) == len(sets)
        for name, given in sets:
            labels = set(given.batch.labels.tolist())
            if given.loss == "logistic":
                assert labels <= {-1.0, 1.0}, name
            if given.loss == "softmax":
                assert labels <= set(map(float, range(given.classes))), name
            assert bool(given.flip) == name.endswith(", flipped")


def test_a_flip_turns_the_second_half_over() -> None:
    """The opposite label, or the next class."""
    sets = dict(carried_sets(ROWS))
    for name in ("sea", "iris"):
        before, after = sets[name].batch.labels, flipped(sets[name])
        middle = len(before) // 2
        assert after.flip == middle
        np.testing.assert_array_equal(after.batch.labels[:middle], before[:middle])
        expected = (before[middle:] + 1) % 3 if name == "iris" else -before[middle:]
        np.testing.assert_array_equal(after.batch.labels[middle:], expected)


def test_files_keep_the_order_of_time(tmp_path: Path) -> None:
    """All but those whose names say that their order is that of time are shuffled; more than two labels are real."""
    for name, labels in (("eeg-part", (5, 7)), ("other", (5, 7)), ("values", (1, 2, 3))):
        lines = (f"{labels[row % len(labels)]} {row + 1}:1\n" for row in range(40))
        (tmp_path / f"{name}.svm").write_text("".join(lines))
    in_time, shuffled, real = (set_of_file(tmp_path / f"{name}.svm", 30) for name in ("eeg-part", "other", "values"))
    assert in_time.batch.labels.tolist() == [-1.0, 1.0] * 15
    assert shuffled.batch.labels.tolist() != in_time.batch.labels.tolist()
    assert (in_time.loss, real.loss) == ("logistic", "squared")
    assert with_squared_loss(in_time).batch.labels.tolist() == [0.0, 1.0] * 15
    assert with_squared_loss(real) is real
