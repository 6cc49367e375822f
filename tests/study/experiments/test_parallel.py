"""Table 1's protocol on a small set, and what is planted."""

from pathlib import Path

import numpy as np
import pytest

from study.data_sets import DataSet
from study.experiments import parallel
from study.experiments.experiment import Inquiry
from study.experiments.planted_pairs import FEATURES, plant_pairs


def test_tables_of_a_product_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apple ranks an exclusive or, linear does not; its examples are longer, and a bigram is a feature more."""
    # Tables are as large, and merges as many, as the few examples need.
    monkeypatch.setattr(parallel, "BITS", 12)
    monkeypatch.setattr(parallel, "PLANTED_EPOCHS", 3)
    rng = np.random.default_rng(3)
    first, second, other = rng.integers(0, 2, (3, 1200))
    lines = (f"{int(a != b)} {a + 1}:1 {b + 3}:1 {c + 5}:1" for a, b, c in zip(first, second, other, strict=True))
    path = tmp_path / "xor.svm"
    path.write_text("\n".join(lines) + "\n")
    told: list[tuple[str, float, float]] = []
    inquiry = Inquiry({"xor": DataSet("xor", path)}, tmp_path, 1, 1200, lambda *step: told.append(step))
    found = {finding.name: finding for finding in parallel.EXPERIMENT.run(inquiry)}
    assert set(found) == {"auc", "seconds", "features", "planted"}
    assert all(len(row) == len(finding.columns) for finding in found.values() for row in finding.rows)
    auc = dict(zip(found["auc"].columns, found["auc"].rows[0], strict=True))
    assert auc["lin+apple"] == 1.0
    assert auc["lin < lin+apple"] is True
    assert isinstance(auc["lin"], float)
    assert auc["lin"] < 0.7
    features = dict(zip(found["features"].columns, found["features"].rows[0], strict=True))
    assert (features["lin"], features["bigram"]) == (4.0, 6.0)
    assert isinstance(features["lin+apple"], float)
    assert features["lin+apple"] > 4.0
    assert [row[0] for row in found["planted"].rows] == list(parallel.PLANTED)
    assert told[-1] == ("planted", 5, 5)


def test_planted_pairs_are_the_same_by_seed() -> None:
    """Binary features, about 57 of them, frequent ones first; both labels about as often."""
    batch, again, other = plant_pairs(2000, 7), plant_pairs(2000, 7), plant_pairs(2000, 8)
    np.testing.assert_array_equal(batch.keys, again.keys)
    np.testing.assert_array_equal(batch.labels, again.labels)
    assert not np.array_equal(batch.labels, other.labels)
    assert 50 < len(batch.keys) / 2000 < 60
    assert len(np.unique(batch.keys)) > FEATURES // 2
    assert 0.2 < (batch.labels > 0).mean() < 0.8
