"""Options that others were built beside: together they do what each says."""

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.core.ngrams import ngram_key
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores

SIZE = 6000
EPOCH = 1000


def _numbers() -> Batch:
    """Four columns; the class is how many of two conditions on numbers hold, one of them no straight line."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(SIZE, 4)).astype(np.float32)
    labels = (values[:, 0] > 0.3).astype(np.float64) + (np.abs(values[:, 1]) > 1.0)
    keys = np.tile(np.array([11, 22, 33, 44], np.uint64) * np.uint64(0x9E3779B97F4A7C15), SIZE)
    return Batch(np.arange(0, 4 * SIZE + 1, 4), keys, values.reshape(-1), labels, np.ones(SIZE))


def _learned(options: Options, batch: Batch) -> Scores:
    learner, scores = Learner(options), Scores.empty(SIZE)
    for start in range(0, SIZE, EPOCH):
        learner.learn(batch, start, start + EPOCH, scores)
        learner.end_epoch()
    return scores


@pytest.mark.parametrize("mixture", [True, False])
def test_classes_of_numbers_as_splines(mixture: bool) -> None:  # noqa: FBT001
    """What values alone can't tell, their hats do, for classes as for numbers."""
    batch = _numbers()
    late = slice(SIZE // 2, None)
    plain = _learned(bare(loss="softmax", classes=3, mixture=mixture), batch)
    found = _learned(bare(loss="softmax", classes=3, mixture=mixture, discretise="spline"), batch)
    assert (plain.predictions != batch.labels)[late].mean() > 0.3
    assert (found.predictions != batch.labels)[late].mean() < 0.15
    assert found.losses[late].mean() < 0.4 * plain.losses[late].mean()


def test_ngrams_beside_numbers_as_splines() -> None:
    """That two features are neighbors is no number: it stays, with the value 1, and the numbers get splines."""
    batch = _numbers()
    batch = batch._replace(spaces=np.tile(np.array([5, 5, 7, 7], np.uint64), SIZE))
    learner = Learner(bare(ngrams={"*": 2}, discretise="spline"))
    learner.learn(batch, 0, SIZE, Scores.empty(SIZE))
    assert set(learner.preparation.splines.features.tolist()) == set(batch.keys[:4].tolist())
    prepared = learner.preparation.prepare(batch, 0, 9)
    pairs = [int(ngram_key(batch.keys[at], batch.keys[at + 1])) for at in (0, 2)]
    for row in range(9):
        features = slice(*prepared.indptr[row : row + 2].tolist())
        found = dict(zip(prepared.keys[features].tolist(), prepared.values[features].tolist(), strict=True))
        assert [found[pair] for pair in pairs] == [1.0, 1.0]
        assert 2 + 2 * 4 <= len(found) <= 2 + 3 * 4
