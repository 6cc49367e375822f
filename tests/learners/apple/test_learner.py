"""The learner against the oracle, and the properties that the stream relies on."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles.learner import Oracle

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Method, Options
from stream_apple.learners.scores import Scores

METHODS: tuple[Method, ...] = ("apple", "linear", "quadratic", "cubic")
LOSSES: tuple[LossName, ...] = ("squared", "logistic")
KINDS: tuple[tuple[Method, bool], ...] = (("apple", True), *((method, False) for method in METHODS))


class Row(NamedTuple):
    """One example in readable form."""

    features: dict[str, float]
    label: float | None
    weight: float


def key(name: str) -> int:
    """Any good 64-bit hash will do here."""
    return xxhash.xxh64_intdigest(name.encode())


def monomial_key(monomial: tuple[str, ...]) -> int:
    """The identity that the table gives a monomial."""
    return sum(key(name) for name in monomial) % 2**64


def batch_of(rows: list[Row]) -> Batch:
    """The arrays of these rows."""
    return Batch(
        np.cumsum([0, *(len(row.features) for row in rows)]).astype(np.int64),
        np.array([key(name) for row in rows for name in row.features], np.uint64),
        np.array([value for row in rows for value in row.features.values()], np.float32),
        np.array([np.nan if row.label is None else row.label for row in rows]),
        np.array([row.weight for row in rows], np.float64),
    )


def planted_rows(size: int, seed: int, *, binary: bool = False, names: int = 12) -> list[Row]:
    """Examples whose label needs pairs of features; some are unlabelled, some have a weight."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(names, names))
    rows = []
    for _ in range(size):
        present = np.flatnonzero(rng.random(names) < 0.4)
        values = np.ones(len(present)) if binary else np.round(rng.normal(size=len(present)) * 2, 3)
        target = float(values @ pairs[np.ix_(present, present)] @ values) if len(present) else 0.0
        label: float | None = float(np.sign(target) or 1.0)
        if rng.random() < 0.1:
            label = None
        weight = float(rng.choice([0.0, 0.5, 1.0, 3.0])) if rng.random() < 0.3 else 1.0
        rows.append(Row({f"n{i}": v for i, v in zip(present, map(float, values), strict=True) if v}, label, weight))
    return rows


def run(learner: Learner, batch: Batch, epochs: int) -> Scores:
    """Learn the batch in equally long epochs."""
    scores = Scores.empty(len(batch.labels))
    ends = np.linspace(0, len(batch.labels), epochs + 1).astype(int)
    for start, stop in itertools.pairwise(ends):
        learner.learn(batch, int(start), int(stop), scores)
        learner.end_epoch()
    return scores


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "real"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_learner_equals_the_oracle(method: Method, loss: LossName, binary: bool) -> None:  # noqa: FBT001
    """Scores and weights agree to float tolerance; parents and numbers of features exactly."""
    rows = planted_rows(600, seed=3, binary=binary)
    learner, oracle = Learner(Options(method=method, loss=loss, bits=14, mixture=False)), Oracle(method, loss)
    scores = Scores.empty(len(rows))
    batch = batch_of(rows)
    for start in range(0, 600, 100):
        learner.learn(batch, start, start + 100, scores)
        expected = [oracle.learn(*row) for row in rows[start : start + 100]]
        np.testing.assert_allclose(
            scores.predictions[start : start + 100], [e[0] for e in expected], rtol=2e-4, atol=2e-4
        )
        if method != "linear":
            np.testing.assert_allclose(
                scores.linear[start : start + 100], [e[1] for e in expected], rtol=2e-4, atol=2e-4
            )
        slots = learner.slots()
        weight = dict(zip(slots["key"].tolist(), slots["weight"].tolist(), strict=True))
        for monomial, value in oracle.apple.weight.items():
            assert weight[monomial_key(monomial)] == pytest.approx(float(value), rel=2e-3, abs=2e-4)
        growth = learner.end_epoch()
        oracle.end_epoch()
        if method == "apple":
            slots = learner.slots()
            assert set(slots["key"][slots["parent"] == 1].tolist()) == {monomial_key(m) for m in oracle.parents}
            assert growth.census.parents[1:].sum() == len(oracle.parents)
    assert learner.features_per_example * learner.examples == oracle.features
    assert learner.evicted == 0
    if method == "apple":
        assert max(map(len, oracle.parents)) >= 2, "the test must see products of products"


def test_losses_of_learn_are_those_of_its_predictions() -> None:
    """Squared and logistic loss are what their formulas say, NaN without a label."""
    rows = planted_rows(300, seed=5)
    for loss in LOSSES:
        learner = Learner(Options(loss=loss, bits=12))
        batch = batch_of(rows)
        scores = run(learner, batch, 3)
        expected = (
            np.log1p(np.exp(-scores.predictions * batch.labels))
            if loss == "logistic"
            else (scores.predictions - batch.labels) ** 2
        )
        np.testing.assert_allclose(scores.losses, expected, rtol=1e-12, atol=1e-300)
        weighted = ~np.isnan(batch.labels)
        mean = np.average(scores.losses[weighted], weights=batch.weights[weighted])
        assert learner.progress.report("whole").loss == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(("bits", "names"), [(8, 40), (14, 12)], ids=["full table", "roomy table"])
@pytest.mark.parametrize("mixture", [True, False])
@settings(max_examples=12)
@given(cuts=st.lists(st.integers(0, 400), max_size=8), seed=st.integers(0, 3))
def test_result_does_not_depend_on_batches(bits: int, names: int, mixture: bool, cuts: list[int], seed: int) -> None:  # noqa: FBT001
    """However the stream is cut into batches, scores and the model's digest are the same to the bit."""
    rows = planted_rows(400, seed, names=names)

    def learn(edges: list[int]) -> tuple[bytes, str]:
        learner = Learner(Options(bits=bits, mixture=mixture))
        out = []
        for part, (start, stop) in enumerate(itertools.pairwise(edges)):
            batch = batch_of(rows[start:stop])
            scores = Scores.empty(stop - start)
            learner.predict(batch)
            learner.learn(batch, 0, stop - start, scores)
            out.append(scores.predictions.tobytes())
            if stop in {200, 400} and edges[part] != stop:
                learner.end_epoch()
        assert learner.evicted == 0 if bits == 14 else learner.evicted > 0 or mixture
        assert (learner.deferred > 0) == (bits == 8 or mixture)
        return b"".join(out), learner.digest()

    assert learn([0, 200, 400]) == learn(sorted({0, 200, 400, *cuts}))


@pytest.mark.parametrize(("bits", "names"), [(8, 40), (14, 12)], ids=["full table", "roomy table"])
@pytest.mark.parametrize(("method", "mixture"), KINDS)
def test_predict_changes_nothing_and_agrees_with_learn(method: Method, mixture: bool, bits: int, names: int) -> None:  # noqa: FBT001
    """Predict leaves the digest alone, and gives the very score that learn then gives."""
    rows = planted_rows(500, seed=7, names=names)
    learner = Learner(Options(method=method, bits=bits, mixture=mixture))
    run(learner, batch_of(rows[:400]), 4)
    full = bits == 8 and method != "linear"
    assert learner.evicted > 0 if full and not mixture else learner.evicted == 0 or (full and mixture)
    assert learner.census().monomials.sum() > names, "there must be products"
    for row in rows[400:]:
        batch = batch_of([row])
        before = learner.digest()
        predicted = learner.predict(batch)
        assert learner.digest() == before
        scores = Scores.empty(1)
        learner.learn(batch, 0, 1, scores)
        assert predicted[0] == scores.predictions[0]


def test_unlabelled_and_weightless_rows_are_scored_and_not_learned() -> None:
    """Such rows get a score and leave model and totals as they were."""
    rows = planted_rows(300, seed=11)
    plain = [row for row in rows if row.label is not None and row.weight > 0]
    mixed, only = Learner(Options(bits=10)), Learner(Options(bits=10))
    mixed_scores = run(mixed, batch_of(rows), 1)
    run(only, batch_of(plain), 1)
    assert len(plain) < len(rows)
    assert not np.isnan(mixed_scores.predictions).any()
    assert mixed.slots().tobytes() == only.slots().tobytes()
    assert mixed.features_per_example == only.features_per_example


@pytest.mark.parametrize(("mixture", "names"), [(True, 700), (False, 40)])
def test_full_table_keeps_its_promises(mixture: bool, names: int) -> None:  # noqa: FBT001
    """With far more monomials than slots: parents stay, every key has one slot, counts add up."""
    rows = planted_rows(3000, seed=13, names=names)
    learner = Learner(Options(bits=8, mixture=mixture, mergeable=True))  # so that it grows when an epoch ends
    batch = batch_of(rows)
    scores = Scores.empty(len(rows))
    parents: set[int] = set()
    for start in range(0, 3000, 500):
        learner.learn(batch, start, start + 500, scores)
        slots = learner.slots()
        now = set(slots["key"][slots["parent"] == 1].tolist())
        assert parents <= now
        learner.end_epoch()
        slots = learner.slots()
        parents = set(slots["key"][slots["parent"] == 1].tolist())
        keys = slots["key"][slots["key"] != 0]
        assert len(np.unique(keys)) == len(keys) == learner.occupied
        assert not slots["active"].any()
    assert learner.occupied == learner.capacity == 256
    assert learner.evicted > 0
    assert learner.deferred > 0
    assert np.isfinite(scores.predictions).all()


def test_budget_bounds_an_example() -> None:
    """An example never has more features than the budget, and the cut is counted."""
    rows = [Row({f"n{i}": 1.0 for i in range(30)}, 1.0, 1.0)] * 3
    for method in ("quadratic", "cubic"):
        learner = Learner(Options(method=method, max_features_per_example=100))
        run(learner, batch_of(rows), 1)
        assert 31 <= learner.features_per_example <= 100
        assert learner.truncated == 3


def test_repeated_feature_counts_once_and_stays_within_the_budget() -> None:
    """A name that a message repeats thousands of times is one feature, and its products fit the scratch."""
    keys = np.full(4000, 12345, np.uint64)
    batch = Batch(np.array([0, 4000], np.int64), keys, np.full(4000, 2.0, np.float32), np.ones(1), np.ones(1))
    for method in METHODS:
        learner = Learner(Options(method=method, max_features_per_example=5000))
        scores = Scores.empty(1)
        for _ in range(3):
            learner.learn(batch, 0, 1, scores)
            learner.end_epoch()
        degree = {"linear": 1, "quadratic": 2, "cubic": 3, "apple": 3}[method]
        assert learner.features_per_example <= 1 + degree


def test_a_model_that_is_not_finite_names_the_row() -> None:
    """No example can make it so, but memory or a file may; rows before it were learned."""
    learner = Learner(Options(method="linear"))
    batch = batch_of([Row({"b": 1.0}, 1.0, 1.0), Row({"a": 1.0}, 1.0, 1.0)])
    learner.learn(batch, 0, 2, Scores.empty(2))
    learner.table.slots["weight"][learner.table.slots["key"] == key("a")] = np.inf
    with pytest.raises(ModelError, match="at row 1") as caught:
        learner.learn(batch, 0, 2, Scores.empty(2))
    assert (caught.value.row, learner.examples) == (1, 3)


def test_products_that_are_too_large_or_vanish_are_no_features() -> None:
    """Squares from 2^60 on are left out, as values of records are."""
    rows = [Row({"a": 1e17, "b": 1e-30}, 1.0, 1.0)] * 5
    learner = Learner(Options(method="quadratic"))
    scores = run(learner, batch_of(rows), 1)
    assert np.isfinite(scores.predictions).all()
    assert learner.features_per_example == 1 + 2 + 1, "a*b is the only product in range"


@pytest.mark.parametrize(
    ("name", "value"), [("shares", 0.0), ("shares", np.nan), ("norm", np.inf), ("curvature", np.nan)]
)
def test_numbers_that_no_model_has_are_not_restored(name: str, value: float) -> None:
    """A share of 0 has no logarithm, which a merge needs; what is not finite would spread from model to model."""
    learner = Learner(Options(bits=8))
    sums = {each: array.copy() for each, array in learner.state.sums.items()}
    learner.restore(sums)
    sums[name][-1] = value
    with pytest.raises(ValueError, match=f"{name}: expected"):
        learner.restore(sums)
