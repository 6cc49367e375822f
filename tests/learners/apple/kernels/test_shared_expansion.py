"""The hashing trick: which slots an example has, against features that were hashed and summed by hand."""

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest
from learners.apple.test_learner import batch_of, planted_rows

from stream_apple.core.batch import ALONE, BIN, TOO_LARGE, Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import BUCKET
from stream_apple.learners.scores import Scores

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
METHODS = ("linear", "quadratic")
LOSSES = ("squared", "logistic")


def hash_of(key: int, bits: int) -> int:
    """The high bits of the product, in Python's integers."""
    return (key * GOLDEN & MASK) >> (64 - bits)


def example(keys: list[int], values: list[float], **further: Any) -> Batch:
    """One example of label 1."""
    return Batch(
        np.array([0, len(keys)]), np.array(keys, np.uint64), np.array(values, np.float32), np.ones(1), np.ones(1),
        **further,
    )  # fmt: skip


def hashed(batch: Batch, bits: int, degree: int) -> Batch:
    """The same examples as vectors of 2^bits elements: V[h] is the sum of the values of all monomials of hash h."""
    keys: list[int] = []
    values: list[float] = []
    indptr = [0]
    for row in range(len(batch.labels)):
        span = slice(*batch.indptr[row : row + 2].tolist())
        base = list(zip(batch.keys[span].tolist(), batch.values[span], strict=True))
        monomials = list(base)
        if degree > 1:
            pairs = combinations_with_replacement(base, 2)
            monomials += [((a + b) & MASK, np.float32(x * y)) for (a, x), (b, y) in pairs]
        found: dict[int, np.float32] = {}
        for key, x in monomials:
            place = hash_of(key, bits)
            found[place] = np.float32(found.get(place, np.float32(0)) + x)
        left = {place: x for place, x in found.items() if x != 0}
        keys += [place + 1 for place in left]  # any identities will do, but 0
        values += map(float, left.values())
        indptr.append(len(keys))
    return batch._replace(
        indptr=np.array(indptr), keys=np.array(keys, np.uint64) * np.uint64(GOLDEN), values=np.array(values, np.float32)
    )


def learned(batch: Batch, options: Options, cuts: tuple[int, ...] = ()) -> tuple[Learner, Scores]:
    """All of it in one epoch, in these parts."""
    learner, scores = Learner(options), Scores.empty(len(batch.labels))
    bounds = [0, *cuts, len(batch.labels)]
    for start, stop in pairwise(bounds):
        learner.learn(batch, start, stop, scores)
    return learner, scores


def share(method: Any, loss: Any = "squared", **further: Any) -> Options:
    """Of a learner whose features share slots."""
    return Options(method=method, loss=loss, collisions="share", **further)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_without_collisions_it_is_exact_identity(method: Any, loss: Any) -> None:
    """With more slots than there are features, and no two of one hash, scores are those without hashing, to the bit."""
    batch, bits = batch_of(planted_rows(300, 5, binary=loss == "logistic")), 18
    keys = np.unique(batch.keys).tolist()
    monomials = [*keys, *((a + b) & MASK for a, b in combinations_with_replacement(keys, 2))]
    assert len({hash_of(key, bits) for key in monomials}) == len(monomials)
    exact, expected = learned(batch, Options(method=method, loss=loss, bits=bits))
    found, scores = learned(batch, share(method, loss, bits=bits))
    for name in Scores._fields:
        assert getattr(scores, name).tobytes() == getattr(expected, name).tobytes(), name
    assert found.occupied == exact.occupied == len(monomials) if method == "quadratic" else len(keys)
    assert found.predict(batch).tobytes() == exact.predict(batch).tobytes()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("method", "degree"), [("linear", 1), ("quadratic", 2)])
@pytest.mark.parametrize("bits", [8, 9, 11])
def test_collisions_are_summed_and_learned_once(method: Any, degree: int, loss: Any, bits: int) -> None:
    """As a linear learner does with vectors that were hashed by hand, in as many slots as it needs."""
    batch = batch_of(planted_rows(400, 6, binary=loss == "logistic", names=40))
    learner, scores = learned(batch, share(method, loss, bits=bits))
    by_hand = hashed(batch, bits, degree)
    _, expected = learned(by_hand, Options(method="linear", loss=loss, bits=16))
    assert np.allclose(scores.predictions, expected.predictions, rtol=1e-4, atol=1e-4)
    assert learner.occupied == len(np.unique(by_hand.keys)) <= learner.capacity
    assert (learner.evicted, learner.refused, learner.deferred) == (0, 0, 0)


def test_the_linear_predictor_alongside_has_sums_of_base_features_alone() -> None:
    """Beside quadratic it is about what method linear would be: only its scales are those of slots with products."""
    batch = batch_of(planted_rows(400, 6, binary=True, names=40))
    _, linear = learned(batch, share("linear", "logistic", bits=12))
    _, alongside = learned(batch, share("quadratic", "logistic", bits=12))
    assert np.abs(alongside.linear - linear.linear).mean() < 0.1
    assert np.abs(alongside.linear - alongside.apple).mean() > 0.5


def test_a_duplicate_is_one_feature_with_the_sum() -> None:
    """The same key twice is the key once, with both values; and if they cancel it is none."""
    options = share("linear", bits=8)
    twice, once = Learner(options), Learner(options)
    for _ in range(5):
        twice.learn(example([7, 7, 9 << 60], [2.0, 0.5, 1.0]), 0, 1, Scores.empty(1))
        once.learn(example([7, 9 << 60], [2.5, 1.0]), 0, 1, Scores.empty(1))
    assert twice.slots().tobytes() == once.slots().tobytes()
    before = twice.predict(example([9 << 60], [1.0]))
    assert twice.predict(example([7, 7, 9 << 60], [2.0, -2.0, 1.0])) == before
    cancelled = Learner(options)
    cancelled.learn(example([7, 7, 9 << 60], [2.0, -2.0, 1.0]), 0, 1, Scores.empty(1))
    slots = cancelled.slots()
    assert (slots["weight"] != 0).sum() == 2  # of the constant and of the other feature
    assert not slots["active"].any()


def test_each_value_of_the_hash_has_a_slot_of_its_own() -> None:
    """However many features there are, no bucket is full: 5,000 features fill 256 slots and no more."""
    rng = np.random.default_rng(1)
    keys = rng.integers(1, 1 << 64, 5000, np.uint64)
    batch = example(keys.tolist(), [1.0] * 5000)
    learner = Learner(share("linear", bits=8))
    learner.learn(batch, 0, 1, Scores.empty(1))
    slots = learner.slots()[:-1]
    assert learner.occupied == learner.capacity == 256
    assert len(np.unique(slots["key"])) == 256
    tags = learner.table.tags.view(np.uint8).reshape(-1, BUCKET)
    assert all(len(set(bucket)) == BUCKET for bucket in tags.tolist())
    counts = np.bincount([hash_of(key, 8) for key in keys.tolist()], minlength=256)
    assert sorted(slots["scale"].tolist()) == sorted(counts.tolist())


def test_roles() -> None:
    """What is ALONE is multiplied with nothing, a BIN not with itself."""
    roles = np.array([0, BIN, ALONE], np.uint8)
    learner = Learner(share("quadratic", bits=20))
    learner.learn(example([1, 1 << 20, 1 << 40], [1.0] * 3, roles=roles), 0, 1, Scores.empty(1))
    assert learner.census().monomials.tolist()[1:3] == [3, 2]


def test_the_feature_budget() -> None:
    """Expansion stops before the feature whose products no longer fit, and that is counted when it is learned."""
    for most, features, truncated in ((10, 10, 0), (9, 9, 1), (8, 7, 1), (6, 4, 1), (4, 4, 1), (3, 1, 1)):
        batch, exact = example([1 << shift for shift in (1, 20, 40)], [1.0] * 3), Options(method="quadratic", bits=20)
        for options in (share("quadratic", bits=20), exact):
            learner = Learner(replace(options, max_features_per_example=most))
            learner.predict(batch)
            learner.learn(batch, 0, 1, Scores.empty(1))
            assert (learner.features_per_example, learner.truncated) == (features, truncated), most


def test_values_at_their_bounds() -> None:
    """Products that overflow or underflow are left out, and so is a sum that is too large; the model stays finite."""
    large = float(np.nextafter(TOO_LARGE, np.float32(0)))
    learner = Learner(share("quadratic", bits=8))
    for values in ([large, large, 1e-30], [large, -large, 1e-42], [1.0, 2.0, large]):
        for keys in ([5, 5, 9 << 50], [5, 6 << 50, 9 << 50]):
            scores = Scores.empty(1)
            learner.learn(example(keys, values), 0, 1, scores)
            assert np.isfinite(scores.predictions).all()
    slots = learner.slots()
    assert np.isfinite(slots["weight"]).all()
    assert not slots["active"].any()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_depends_on_cuts(method: Any) -> None:
    """Digests and scores are the same in other batches, and by a model that was restored in mid-stream."""
    batch, options = batch_of(planted_rows(200, 7, names=30)), share(method, bits=9)
    whole, scores = learned(batch, options)
    cut, parts = learned(batch, options, (1, 17, 18, 140))
    assert cut.digest() == whole.digest()
    assert parts.predictions.tobytes() == scores.predictions.tobytes()
    first, _ = learned(batch.select(np.arange(77)), options)
    restored = Learner(options)
    pairs: Any = zip(restored.table, first.table, strict=True)
    for own, given in pairs:
        own[:] = given
    restored.restore(first.sums)
    restored.learn(batch, 77, 200, parts)
    assert restored.digest() == whole.digest()


def test_scoring_changes_nothing() -> None:
    """Not even a slot is taken by what is only scored, or has no label."""
    learner, _ = learned(batch_of(planted_rows(50, 8)), share("quadratic", bits=8))
    before = learner.digest()
    learner.predict(batch_of(planted_rows(50, 9, names=60)))
    assert learner.digest() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "apple"}, "expected evict with method apple, found 'share'"),
        ({"method": "cubic"}, "expected evict with method cubic, found 'share'"),
        ({"method": "linear", "collisions": "sum"}, "expected one of evict, share, found 'sum'"),
        (
            {"method": "linear", "loss": "logistic", "descent": "plain", "l2": 0.1},
            "expected evict with descent = plain, found 'share'",
        ),
    ],
)
def test_options(given: Any, message: str) -> None:
    """What contradicts each other is refused; off is no part of a model's name; memory counts a word a slot."""
    with pytest.raises(ValueError, match=f"collisions: {message}"):
        Options(**{"collisions": "share", **given})
    assert "collisions" not in Options().identity()
    assert share("linear").identity()["collisions"] == "share"
    assert share("linear", bits=20).model_bytes() == Options(method="linear", bits=20).model_bytes() + (4 << 20)
