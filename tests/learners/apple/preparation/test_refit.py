"""Cuts that are made anew: when, of which examples, and what becomes of those that were there."""

import itertools
from typing import Any

import numpy as np
import pytest
from learners.apple.preparation.test_discretisation import resumed, rows_of
from learners.apple.test_learner import batch_of
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import splitmix64_finalizer
from stream_apple.learners.apple import forgetting
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.preparation.intervals import interval_keys
from stream_apple.learners.apple.preparation.sample import _SALT, SAMPLE_ENTRIES, Sample, empty_sample, take
from stream_apple.learners.scores import Scores

SIZE, EPOCH = 12_000, 1000
KEYS = np.array([11, 22, 33], np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def drifting(*, factor: float, classes: bool = False) -> Batch:
    """Three columns; the label is whether the first is within a band, unless the second is large. Half way the first
    becomes `factor` times as large.
    """
    values = np.random.default_rng(0).normal(size=(SIZE, 3)).astype(np.float32)
    band, large = np.abs(values[:, 0]) < 0.7, values[:, 1] > 0.5
    labels = band.astype(np.float64) + large if classes else np.where(band ^ large, 1.0, -1.0)
    values[SIZE // 2 :, 0] *= factor
    return Batch(np.arange(0, 3 * SIZE + 1, 3), np.tile(KEYS, SIZE), values.reshape(-1), labels, np.ones(SIZE))


def learned(batch: Batch, stop: int = SIZE, **chosen: Any) -> tuple[Learner, Scores]:
    """In epochs of a thousand."""
    learner, scores = Learner(bare(**{"bits": 14, "discretise": "quantile", **chosen})), Scores.empty(SIZE)
    for start in range(0, stop, EPOCH):
        learner.learn(batch, start, start + EPOCH, scores)
        learner.end_epoch()
    return learner, scores


KINDS: list[dict[str, Any]] = [
    {},
    {"discretise": "auto"},
    {"discretise": "spline"},
    {"discretise": "mdl"},
    {"method": "quadratic"},
    {"combine": "off", "discretise": "auto"},
    {"loss": "logistic"},
    {"loss": "softmax", "classes": 3},
    {"loss": "softmax", "classes": 3, "discretise": "mdl"},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_stream_whose_scale_changes_is_followed(kind: dict[str, Any]) -> None:
    """With cuts of the beginning the loss stays near that of knowing nothing; made anew, it recovers."""
    batch = drifting(factor=10, classes="classes" in kind)
    (_, frozen), (learner, refitted) = (learned(batch, refit_epochs=refit, **kind) for refit in (0, 1))
    half = slice(SIZE // 2 - 2 * EPOCH, SIZE // 2)
    late = slice(SIZE - 2 * EPOCH, None)
    before, stays, recovers = (float(each.losses[part].mean()) for each, part in (
        (frozen, half), (frozen, late), (refitted, late)
    ))  # fmt: skip
    assert before < 0.6 * stays
    assert recovers < 0.75 * stays
    assert learner.preparation.refits is not None
    assert learner.preparation.refits.times > 1


@pytest.mark.parametrize(
    "kind", [{}, {"discretise": "auto"}, {"discretise": "spline", "reservoir": 150}, {"method": "quadratic"}], ids=str
)
def test_what_stands_still_keeps_its_cuts(kind: dict[str, Any]) -> None:
    """Not a bit of any prediction depends on the refits of a stream that does not change."""
    batch = drifting(factor=1)
    (_, frozen), (learner, refitted) = (learned(batch, refit_epochs=refit, **kind) for refit in (0, 1))
    assert frozen.predictions.tobytes() == refitted.predictions.tobytes()
    assert learner.preparation.refits is not None
    assert learner.preparation.refits.times == SIZE // EPOCH + 1


@pytest.mark.parametrize("kind", [{"method": "quadratic"}, {"combine": "off"}, {}, {"method": "cubic", "bits": 18}])
def test_old_intervals_and_their_products_lose_their_slots(kind: dict[str, Any]) -> None:
    """All of them, as if they had never been; the intervals of the other columns keep theirs, with their weights."""
    batch = drifting(factor=10)
    learner, _ = learned(batch, SIZE // 2, refit_epochs=1, **kind)
    before = learner.preparation.intervals
    learner.learn(batch, SIZE // 2, SIZE // 2 + EPOCH, Scores.empty(SIZE))
    slots, occupied = learner.slots()[:-1], learner.occupied
    learner.end_epoch()
    after = learner.preparation.intervals
    assert after.features.tolist() == before.features.tolist()
    moved = before.features.tolist().index(int(KEYS[0]))
    old, new = ({
        int(key): interval_keys(int(key), each.cuts[start:stop])
        for key, start, stop in zip(each.features, [0, *each.ends[:-1]], each.ends, strict=True)
    } for each in (before, after))  # fmt: skip
    for number, key in enumerate(before.features.tolist()):
        assert (old[key].tolist() == new[key].tolist()) == (number != moved)
    gone = np.setdiff1d(old[int(KEYS[0])], new[int(KEYS[0])])
    assert len(gone) > 8
    left = learner.slots()[:-1]
    others = slots["key"][(slots["key"] != 0) & (slots["degree"] < 3)]
    stale = np.unique(np.concatenate([gone, (gone[:, None] + others).ravel()]))
    assert np.isin(stale, slots["key"]).sum() > len(gone)
    assert not np.isin(stale, left["key"]).any()
    stayed = np.isin(slots["key"], left["key"]) & (slots["key"] != 0)
    assert stayed.sum() > 20
    np.testing.assert_array_equal(slots["weight"][stayed], left["weight"][stayed])
    assert learner.occupied == np.count_nonzero(left["key"]) < occupied
    assert not left["active"].any()


def test_looking_for_products_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many, the rest waits to be evicted; the features themselves go."""
    counts = []
    for most in (forgetting.MOST_LOOKUPS, 0):
        monkeypatch.setattr(forgetting, "MOST_LOOKUPS", most)
        batch = drifting(factor=10)
        learner, _ = learned(batch, SIZE // 2, method="quadratic", refit_epochs=1)
        learner.learn(batch, SIZE // 2, SIZE // 2 + EPOCH, Scores.empty(SIZE))
        before = learner.occupied
        learner.end_epoch()
        counts.append(before - learner.occupied)
        assert not learner.slots()["active"].any()
    assert counts[0] > 100
    assert 8 < counts[1] < 20


RECOVERY: list[dict[str, Any]] = [
    {"discretise": "quantile"},
    {"discretise": "mdl", "loss": "logistic"},
    {"discretise": "auto"},
    {"discretise": "spline"},
    {"discretise": "auto", "combine": "off"},
    {"discretise": "quantile", "method": "quadratic"},
]


@pytest.mark.parametrize("kind", RECOVERY, ids=str)
def test_however_the_stream_is_cut_and_taken_up(kind: dict[str, Any]) -> None:
    """Calls of one row, of ten and of all give the same bits; so does a model restored at any time, samples and all."""
    rows = rows_of(300, 7)
    rows += [row._replace(features={n: 10 * v for n, v in row.features.items()}) for row in rows_of(300, 8)]
    batch, options = batch_of(rows), bare(**{"bits": 12, **kind}, reservoir=60, refit_epochs=2)
    found = []
    for step in (1, 10, 100):
        learner, scores = Learner(options), Scores.empty(600)
        for start in range(0, 600, step):
            learner.learn(batch, start, start + step, scores)
            if (start + step) % 100 == 0:
                learner.end_epoch()
            if step == 10 and start + step in {30, 90, 200, 250, 400, 530}:
                learner = resumed(learner)
        assert learner.preparation.refits is not None
        assert learner.preparation.refits.times >= 3
        found.append((learner.digest(), scores.predictions.tobytes()))
    assert found[0] == found[1] == found[2]


def slow_sample(batch: Batch, most: int) -> list[int]:
    """The rows that belong to the sample, by its definition."""
    numbers = itertools.count()
    learned_ones = [
        (int(splitmix64_finalizer(np.array([next(numbers)], np.uint64) + _SALT)[0]), row)
        for row in range(len(batch.labels))
        if not np.isnan(batch.labels[row]) and batch.weights[row] > 0
    ]
    sizes = np.diff(batch.indptr)
    kept: list[int] = []
    for _, row in sorted(pair for pair in learned_ones if sizes[pair[1]] <= SAMPLE_ENTRIES):
        if len(kept) == most or sum(sizes[each] for each in [*kept, row]) > SAMPLE_ENTRIES:
            break
        kept.append(row)
    return kept


@pytest.mark.parametrize(("longest", "most"), [(4, 30), (4, 2000), (2000, 100), (40_000, 100)])
def test_the_sample_is_that_of_least_priority(longest: int, most: int) -> None:
    """However many come at once, of whatever length; bounded in examples and in features."""
    rng, count = np.random.default_rng(longest), 400
    sizes = rng.integers(0, longest, count)
    indptr = np.concatenate([[0], sizes.cumsum()])
    total = int(indptr[-1])
    labels = np.where(rng.random(count) < 0.1, np.nan, np.arange(count))
    batch = Batch(
        indptr, np.arange(1, total + 1, dtype=np.uint64), rng.normal(size=total).astype(np.float32), labels,
        np.where(rng.random(count) < 0.9, 1.0, 0.0),
    )  # fmt: skip
    expected = slow_sample(batch, most)
    for step in (1, 7, count):
        sample, seen = empty_sample(), 0
        for start in range(0, count, step):
            part = batch.select(np.arange(start, min(start + step, count)))
            sample = take(sample, part, seen, most)
            seen += int(np.count_nonzero(~np.isnan(part.labels) & (part.weights > 0)))
            assert len(sample.reservoir.keys) <= SAMPLE_ENTRIES
        chosen = batch.select(np.array(expected, np.int64))
        assert sample.reservoir.labels.tolist() == chosen.labels.tolist()
        assert sample.reservoir.keys.tolist() == chosen.keys.tolist()
        assert sample.reservoir.sizes.tolist() == np.diff(chosen.indptr).tolist()
        assert sample.full(most) == (len(expected) < seen or most <= seen)


def test_all_examples_are_equally_likely() -> None:
    """Of the period, early ones and late ones."""
    count = 20_000
    nothing, labels = np.zeros(0, np.uint64), np.arange(count, dtype=np.float64)
    batch = Batch(np.zeros(count + 1, np.int64), nothing, np.zeros(0, np.float32), labels, np.ones(count))
    found: Sample = take(empty_sample(), batch, 0, 2000)
    shares = np.histogram(found.reservoir.labels, 10, (0, count))[0] / 2000
    assert np.abs(shares - 0.1).max() < 0.025


def test_a_refit_waits_for_a_sample() -> None:
    """An epoch of a few examples makes no cuts: they come at the end of the first one that leaves enough."""
    batch = batch_of(rows_of(700, 3))
    learner, scores = Learner(bare(discretise="quantile", reservoir=100, refit_epochs=1, bits=12)), Scores.empty(700)
    times, sampled = [], []
    for start, stop in itertools.pairwise([0, 200, 210, 220, 260, 500, 700]):
        learner.learn(batch, start, stop, scores)
        refits = learner.preparation.refits
        assert refits is not None
        sampled.append(refits.sampled)
        learner.end_epoch()
        refits = learner.preparation.refits
        assert refits is not None
        times.append((refits.times, refits.epochs))
    assert times == [(1, 1), (1, 2), (1, 3), (2, 0), (3, 0), (4, 0)]
    assert sampled == [67, 77, 85, 100, 100, 100]


def test_scoring_samples_nothing() -> None:
    """Neither examples that are only scored, nor those without a label."""
    batch = batch_of(rows_of(400, 4))
    learner = Learner(bare(discretise="quantile", reservoir=100, refit_epochs=1, bits=12))
    learner.learn(batch, 0, 400, Scores.empty(400))
    before = {name: array.tobytes() for name, array in learner.preparation.arrays.items()}
    learner.score(batch)
    learner.learn(batch._replace(labels=np.full(400, np.nan)), 0, 400, Scores.empty(400))
    assert {name: array.tobytes() for name, array in learner.preparation.arrays.items()} == before


def test_what_chance_has_cut_goes_again() -> None:
    """A column that tells nothing by itself is cut by mdl once in a while: the next refit takes it back."""
    batch = drifting(factor=1)
    found = [learned(batch, stop, discretise="mdl", refit_epochs=2)[0].preparation.intervals.features.tolist()
             for stop in (2000, 4000)]  # fmt: skip
    assert found == [sorted([int(KEYS[0]), int(KEYS[1])]), [int(KEYS[0])]]


def test_damaged_states_are_refused() -> None:
    """Priorities of other examples, and numbers that are missing."""
    learner = Learner(bare(discretise="quantile", reservoir=100, refit_epochs=1, bits=12))
    learner.learn(batch_of(rows_of(300, 9)), 0, 300, Scores.empty(300))
    good = learner.sums
    for name in ("prepared_sample_priorities", "prepared_sample_threshold", "prepared_refits"):
        for bad in (
            {each: array for each, array in good.items() if each != name},
            {**good, name: np.append(good[name], good[name].dtype.type(1))},
            {**good, name: good[name].view(np.uint8)},
        ):
            with pytest.raises(ValueError, match="expected"):
                Learner(learner.options).restore(bad)


def test_streams_that_are_cut_once_keep_their_state() -> None:
    """There is no sample, no counter and no name of the setting in them."""
    learner, _ = learned(drifting(factor=1), EPOCH)
    assert not {"prepared_sample_priorities", "prepared_refits"} & learner.sums.keys()
    assert "refit_epochs" not in learner.options.identity()
    assert bare(discretise="quantile", refit_epochs=3).identity()["refit_epochs"] == 3
    assert learner.preparation.refits is None


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        ({"refit_epochs": 1}, "expected 0 with discretise = none, found 1"),
        ({"refit_epochs": -1, "discretise": "auto"}, "expected an integer from 0 to 10000, found -1"),
    ],
)
def test_contradictions_are_refused(chosen: dict[str, Any], fault: str) -> None:
    """By the option's name."""
    with pytest.raises(ValueError, match="refit_epochs") as caught:
        bare(**chosen)
    assert str(caught.value) == f"refit_epochs: {fault}"


def test_memory_is_counted() -> None:
    """Of a sample, and of counts by class where cuts tell many classes apart."""
    plain, refitted = (bare(discretise="quantile", reservoir=1000, refit_epochs=refit) for refit in (0, 1))
    assert refitted.model_bytes() > plain.model_bytes()
    quantile, mdl = (bare(loss="softmax", classes=50, discretise=how) for how in ("quantile", "mdl"))
    assert mdl.model_bytes() - quantile.model_bytes() >= 500 * 50 * 8 * 4
