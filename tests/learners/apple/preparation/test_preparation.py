"""Prepared examples do not depend on batches or restarts, and numbers become learnable."""

from typing import Any

import numpy as np
import pytest
from learners.apple.preparation.tables import as_learned, rows_of
from learners.apple.test_learner import Row, batch_of, key
from support.bare_options import bare
from support.restoring import restored

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.scores import Scores

KINDS: list[dict[str, Any]] = [
    {},
    {"loss": "logistic", "mixture": False, "discretise": "spline"},
    {"method": "quadratic", "bits": 12, "discretise": "spline"},
    {"method": "linear", "discretise": "spline", "ngrams": {"*": 2}},
    {"method": "linear"},
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())) or "default")
def test_however_the_stream_is_cut_and_taken_up(kind: dict[str, Any]) -> None:
    """Calls of one row, of ten and of all give the same bits; so does a model restored before and after splines."""
    rows = [row._replace(features={}) if number % 20 == 10 else row for number, row in enumerate(rows_of(300, 7))]
    batch, options = batch_of(rows), Options(**{"bits": 12, **kind})
    batch = batch._replace(spaces=np.zeros_like(batch.keys))
    found = []
    for step in (1, 10, 150):
        learner, scores = Learner(options), Scores.empty(300)
        for start in range(0, 300, step):
            learner.learn(batch, start, start + step, scores)
            if (start + step) % 150 == 0:
                learner.end_epoch()
            if step == 10 and start + step in {10, 30, 200}:
                learner = _resumed(learner)
        found.append((learner.digest(), scores.predictions.tobytes()))
        assert bool(len(learner.preparation.splines.features)) == (options.discretise == "spline")
    assert found[0] == found[1] == found[2]


def _resumed(learner: Learner) -> Learner:
    other = restored(learner)
    other.restore_observed(learner.observed)
    assert other.digest() == learner.digest()
    return other


@pytest.mark.parametrize("numeric", [False, True])
def test_a_part_of_a_batch_is_prepared_without_the_rest(*, numeric: bool) -> None:
    """With numbers and without: a few rows of many are prepared as they would be by themselves."""
    rows = rows_of(400, 15)
    if not numeric:
        rows = [row._replace(features=dict.fromkeys(row.features, 1.0)) for row in rows]
    batch, preparation = batch_of(rows), Preparation(Options())
    as_learned(preparation, batch, 0, 300)
    assert (len(preparation.splines.points) > 0) == numeric
    part, alone = as_learned(preparation, batch, 300, 310), preparation.prepare(batch, 300, 310)
    for name, column in part._asdict().items():
        np.testing.assert_array_equal(column, getattr(alone, name), name)


@pytest.mark.parametrize("method", ["apple", "quadratic"])
def test_no_hat_is_squared(method: Any) -> None:
    """In a mixture that grows, and looks at recent examples, too: there are squares of values, and none of hats."""
    learner = Learner(bare(method=method, discretise="spline", bits=14))
    batch = batch_of(rows_of(1600, 13))
    for start in range(0, 1600, 200):
        learner.learn(batch, start, start + 200, Scores.empty(1600))
        learner.end_epoch()
    slots = learner.slots()[:-1]
    made = learner.preparation.derived_names()
    hats = np.array([each for each, name in made.items() if "\u2248" in name.ending], np.uint64)
    values = np.array([each for each, name in made.items() if "\u2248" not in name.ending], np.uint64)
    assert np.isin(hats, slots["key"]).any()
    assert np.isin(values * np.uint64(2), slots["key"]).any()
    assert np.isin((hats[:, None] + hats).ravel(), slots["key"]).any()
    for own in (hats, np.array([key("flag")], np.uint64)):
        assert not np.isin(own * np.uint64(2), slots["key"]).any()
    triples = (hats * np.uint64(2))[:, None] + np.concatenate([hats, values])
    assert not np.isin(triples, slots["key"]).any()


def test_scoring_changes_nothing() -> None:
    """Neither before splines are fitted nor after; and rows without a label are no first examples."""
    batch = batch_of(rows_of(200, 8))
    learner = Learner(Options(bits=12))
    nothing = learner.digest()
    learner.score(batch)
    assert learner.digest() == nothing
    learner.learn(batch._replace(labels=np.full(200, np.nan)), 0, 200, Scores.empty(200))
    assert not any(len(array) for name, array in learner.preparation.arrays.items() if name != "fitted")
    learner.learn(batch, 0, 200, Scores.empty(200))
    before = learner.digest()
    assert np.isfinite(learner.score(batch).predictions).all()
    assert learner.digest() == before


@pytest.mark.parametrize("examples", [12, 200])
def test_damaged_states_are_refused(examples: int) -> None:
    """Missing arrays, other types, and lengths that contradict each other."""
    learner = Learner(Options(bits=12))
    learner.learn(batch_of(rows_of(200, 9)), 0, examples, Scores.empty(200))
    good = learner.sums
    parts = ("splines_points", "splines_features", "splines_ends", "splines_dense", "first_keys", "first_labels")
    for name in (f"prepared_{part}" for part in parts):
        without = {each: array for each, array in good.items() if each != name}
        longer = {**good, name: np.append(good[name], good[name].dtype.type(1))}
        other = {**good, name: good[name].astype(np.complex128)}
        for bad in (without, longer, other):
            with pytest.raises(ValueError, match="expected"):
                Learner(learner.options).restore(bad)


def test_a_band_becomes_learnable() -> None:
    """A label that changes along a number and back: values can't tell, splines can."""
    values = np.random.default_rng(11).normal(size=4000).astype(np.float32)
    batch = batch_of([Row({"x": float(value)}, 1.0 if abs(value) < 0.7 else -1.0, 1.0) for value in values])
    losses = {}
    for discretise in ("none", "spline"):
        learner, scores = Learner(Options(method="linear", discretise=discretise)), Scores.empty(4000)
        learner.learn(batch, 0, 4000, scores)
        losses[discretise] = float(scores.losses[2000:].mean())
    assert losses["none"] > 0.9
    assert losses["spline"] < 0.35
