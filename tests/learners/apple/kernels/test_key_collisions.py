"""Keys are sums, so somebody may choose names whose keys collide: nothing may break, whatever they gain by it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.scores import Scores

SIZE, EPOCH = 300, 60
A, B, D = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
SETS = {
    "a, b, a + b": [A, B, A + B, D],
    "a, a + a, a + a + a": [A, 2 * A, 3 * A, D],
    "a + b = 0": [A, -A, D],
    "a + a = 0": [1 << 63, A, B],
    "a + b + d = 0": [A, B, D, -A - B - D],
}


def stream(keys: list[int], seed: int, *, order: bool) -> Batch:
    """Examples with most of these keys; `order`: in any order, so that either may come first."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(SIZE):
        present = np.flatnonzero(rng.random(len(keys)) < 0.8)
        present = rng.permutation(present) if order else present
        values = np.round(rng.normal(size=len(present)), 2) + 0.001
        rows.append((present, values))
        labels.append(1.0 if values.prod() > 0 else -1.0)
    indptr = np.cumsum([0, *(len(present) for present, _ in rows)]).astype(np.int64)
    which = np.array([key % 2**64 for key in keys], np.uint64)
    present = np.concatenate([present for present, _ in rows])
    amounts = np.concatenate([values for _, values in rows]).astype(np.float32)
    return Batch(indptr, which[present], amounts, np.array(labels), np.ones(SIZE))


def learned(options: Options, batch: Batch, cuts: list[int]) -> tuple[Learner, bytes]:
    """In epochs of EPOCH examples, and in batches that are cut at these places, too."""
    learner, scores = Learner(options), Scores.empty(SIZE)
    ends = range(0, SIZE + 1, EPOCH)
    for start, stop in itertools.pairwise(sorted({*ends, *cuts})):
        predicted = learner.predict(batch.select(np.arange(start, start + 1)))
        learner.learn(batch, start, stop, scores)
        if start >= EPOCH:  # before, the label may widen the range that scores are clipped to
            assert predicted[0] == scores.predictions[start]
        if stop in ends:
            learner.end_epoch()
    return learner, scores.predictions.tobytes()


@pytest.mark.parametrize("names", SETS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("mixture", [True, False])
@settings(max_examples=6)
@given(cuts=st.lists(st.integers(0, SIZE), max_size=3), seed=st.integers(0, 50), order=st.booleans())
def test_keys_that_collide_do_no_harm(
    names: str, loss: LossName, mixture: bool, cuts: list[int], seed: int, order: bool,  # noqa: FBT001
) -> None:  # fmt: skip
    """All is finite, each key has one slot, and however the stream is cut the model is the same to the bit."""
    batch, options = stream(SETS[names], seed, order=order), Options(bits=8, loss=loss, mixture=mixture)
    learner, predictions = learned(options, batch, [])
    again, same = learned(options, batch, cuts)
    assert (predictions, learner.digest()) == (same, again.digest())
    assert np.isfinite(np.frombuffer(predictions)).all()
    assert learner.census().parents.sum() > 2
    table = learner.table
    assert not table.slots["active"].any()
    keys = table.slots["key"][:-1][table.tags.view(np.uint8) != 0]
    assert len(np.unique(keys)) == len(keys) == learner.occupied
    assert 0 not in keys, "that is the constant's, and says that a slot is free"
    for name in ("weight", "gradient", "scale", "average", "fast"):
        assert np.isfinite(table.slots[name]).all()
    for name in table.companions.dtype.names or ():
        assert np.isfinite(table.companions[name]).all()
    assert all(np.isfinite(values).all() for values in learner.sums.values() if values.dtype.kind == "f")
