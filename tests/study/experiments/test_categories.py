"""Planted categories: what a stream has, and that pairs of values say what single values do not."""

from pathlib import Path

import numpy as np
import pytest

from study.experiments import categories
from study.experiments.experiment import Inquiry


@pytest.mark.parametrize("drifts", [False, True])
def test_a_stream_has_a_value_of_each_attribute(drifts: bool) -> None:  # noqa: FBT001  a parameter of the test
    """Frequent values first, labels of both kinds, and the same stream for the same seed."""
    batch = categories.plant_categories(5_000, 10, drifts=drifts, seed=3)
    again = categories.plant_categories(5_000, 10, drifts=drifts, seed=3)
    assert (np.diff(batch.indptr) == categories.ATTRIBUTES).all()
    assert len(np.unique(batch.keys)) == 10 * categories.ATTRIBUTES
    assert len(np.unique(batch.attributes)) == categories.ATTRIBUTES
    of_first = np.unique(batch.keys[:: categories.ATTRIBUTES], return_counts=True)[1]
    assert of_first.max() == pytest.approx(5_000 / (1 / np.arange(1, 11)).sum(), rel=0.1)
    assert 0.1 < (batch.labels > 0).mean() < 0.9
    np.testing.assert_array_equal(batch.labels, again.labels)
    np.testing.assert_array_equal(batch.keys, again.keys)


def test_drift_draws_all_weights_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent values of the attributes come with other labels after a stretch."""
    monkeypatch.setattr(categories, "STRETCH", 2_500)
    batch = categories.plant_categories(5_000, 3, drifts=True, seed=1)
    rows = batch.keys.reshape(5_000, -1)
    means = []
    for half in (slice(0, 2_500), slice(2_500, 5_000)):
        _, whole = np.unique(rows[half], axis=0, return_inverse=True)
        found = np.bincount(whole, batch.labels[half]) / np.bincount(whole)
        means.append(found[np.bincount(whole) > 5])
    assert len(means[0]) > 10
    assert abs(means[0].mean() - means[1].mean()) > 0.05


def test_tuples_find_what_pairs_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream has a row, each learner a column; on few values that keep their meaning tuples have few errors."""
    monkeypatch.setattr(categories, "VALUES", (5,))
    (finding,) = categories.EXPERIMENT.run(Inquiry({}, tmp_path, 1, 3_000))
    assert [row[0] for row in finding.rows] == ["5 values, stationary", "5 values, drifting"]
    assert finding.columns == ("stream", *categories.learners())
    errors = [cell for cell in finding.rows[0][1:] if isinstance(cell, float)]
    assert len(errors) == 3
    assert max(errors) < 0.3
