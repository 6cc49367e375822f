"""The experiment on tuples of attributes, from a file to its tables, on a small set."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stream_apple.errors import InputFileError
from study.data_sets import DataSet
from study.experiments import tuples
from study.experiments.experiment import Inquiry


def inquiry_of(path: Path, folder: Path, told: list[tuple[str, float, float]]) -> Inquiry:
    """One split of the set at `path`."""
    return Inquiry({"a_set": DataSet("a_set", path)}, folder, 1, 10_000, lambda *step: told.append(step))


def test_the_whole_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the label is whether two of five attributes are equal, pairs find it, also the best fifth of them."""
    pytest.importorskip("sklearn")
    monkeypatch.setattr(tuples, "SHARES", (0.2,))
    codes = np.random.default_rng(1).integers(1, 4, (3000, 5))
    lines = (f"{int(row[0] == row[1])} " + " ".join(f"{i + 1}:{row[i]}" for i in range(5)) for row in codes.tolist())
    path = tmp_path / "a_set.svm"
    path.write_text("\n".join(lines) + "\n")
    told: list[tuple[str, float, float]] = []
    found = {finding.name: finding for finding in tuples.EXPERIMENT.run(inquiry_of(path, tmp_path, told))}
    assert list(found) == ["a-set-by-share-2", "a-set-by-share-3", "a-set-all"]
    assert all(len(row) == len(finding.columns) for finding in found.values() for row in finding.rows)
    errors = {row[:3]: row[3] for row in found["a-set-all"].rows}
    assert len(errors) == len(tuples.planned_trials()) + 1
    for learner in (("all tuples", 2, 1.0), ("mi", 2, 0.2), ("cv", 2, 0.2), (tuples.FOREST, None, None)):
        assert errors[learner] == 0.0
    single = errors["single attributes", None, None]
    assert isinstance(single, float)
    assert single > 0.2
    shares = found["a-set-by-share-2"]
    assert [row[0] for row in shares.rows] == ["0.2", "1"]
    assert shares.rows[0][1] == errors["mi", 2, 0.2]
    assert shares.plot is not None
    assert [len(curve.x) for curve in shares.plot.curves] == [2] * 4 + [1] * 3
    assert told[-1] == ("a_set", told[-1][2], told[-1][2])
    assert all(a[1] <= b[1] for a, b in pairwise(told))


def test_a_set_of_words_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tuples would be too many."""
    monkeypatch.setattr(tuples, "MOST_FEATURES", 3)
    path = tmp_path / "a_set.svm"
    path.write_text("".join(f"{row % 2} {row % 4 + 1}:1\n" for row in range(20)))
    with pytest.raises(InputFileError, match="at most 3 features, found 4"):
        next(tuples.EXPERIMENT.run(inquiry_of(path, tmp_path, [])))
