"""Lists of each recent example's parents, kept from one growth to the next, are what a fresh look at all finds."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple import growth
from stream_apple.learners.apple.appraisal import Appraiser
from stream_apple.learners.apple.kernels import parent_lists
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.model import Model
from stream_apple.learners.apple.state.work import Work
from stream_apple.learners.scores import Scores

Places = NDArray[np.int64]


def batches(count: int, size: int, redrawn: int, *, scale: float = 1.0) -> Iterator[Batch]:
    """Yield examples of 2 to 9 of 40 features, of which four are numbers; now and then the label means other pairs."""
    rng, keys = np.random.default_rng(4), np.random.default_rng(5).integers(1, 1 << 63, 40, np.uint64)
    pairs = np.zeros((0, 2), np.int64)
    for number in range(count):
        if number % redrawn == 0:
            pairs = rng.integers(0, 12, (6, 2))
        sizes = rng.integers(2, 10, size)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        which = np.concatenate([rng.choice(40, each, replace=False, p=popularity()) for each in sizes])
        values = np.where(which < 4, rng.normal(0.0, scale, len(which)), 1.0).astype(np.float32)
        values[values == 0.0] = 1.0
        rows = [set(which[start:stop].tolist()) for start, stop in itertools.pairwise(indptr)]
        labels = np.array([float(sum(set(pair) <= row for pair in pairs.tolist())) for row in rows])
        yield Batch(indptr, keys[which], values, labels, np.ones(size), spaces=np.ones(len(which), np.uint64))


def popularity() -> NDArray[np.float64]:
    """Return how likely each feature is: the first ones most."""
    weights = 1.0 / (3.0 + np.arange(40))
    return np.asarray(weights / weights.sum())


class Growths:
    """What each growth of a learner has asked an appraiser, and what a fresh look says of it.

    spared   how many growths found that all candidates fit, from lists
    asked    and how many did not, though they had lists
    """

    def __init__(self, options: Options, stream: Iterator[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
        self.spared = self.asked = self.retired = 0
        all_fit = Appraiser.all_fit

        def watched(
            appraiser: Appraiser, model: Model, work: Work, parents: Places, candidates: Places, budget: int
        ) -> bool:
            fits, fresh = all_fit(appraiser, model, work, parents, candidates, budget), Appraiser()
            exact = fresh.appraise(model, work, parents, candidates)
            expected = exact.products + float((exact.presence * exact.nonzeros).sum())
            assert not fits or expected <= budget
            if appraiser._current:
                self.spared, self.asked = self.spared + fits, self.asked + (not fits)
                self.compare(model, appraiser._lists[0], fresh._lists[0])
                seen = appraiser._seen.filled[0]
                assert seen >= round(float(exact.presence.sum()) * exact.examples)
            return fits

        learner = Learner(options)
        with monkeypatch.context() as patch:
            patch.setattr(Appraiser, "all_fit", watched)
            for batch in stream:
                learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
                self.retired += learner.end_epoch().retired
        self.digest = learner.digest()

    def compare(self, model: Model, lists: parent_lists.ParentLists, fresh: parent_lists.ParentLists) -> None:
        """Hold the lists against those of an expansion."""
        for half in range(2):
            for place in range(half * 512, half * 512 + int(model.recent.counts[half])):
                own, other = (each.keys[each.first[place] : each.stop[place]].tolist() for each in (lists, fresh))
                assert sorted(own) == sorted(other)


def unaided(options: Options, stream: Iterator[Batch], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the digest of a learner that appraises at each growth."""
    learner = Learner(options)
    with monkeypatch.context() as patch:
        patch.setattr(Appraiser, "all_fit", lambda *_: False)
        for batch in stream:
            learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
            learner.end_epoch()
    return learner.digest()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (bare(bits=16, max_products=100_000, max_degree=4), "ample"),
        (bare(bits=14, max_products=150, max_degree=4), "tight"),
        (Options(bits=14, loss="logistic", max_products=60), "tight"),
        (Options(bits=14, mixture=True, drift="ignore", max_products=5_000), "ample"),
    ],
)
def test_lists_are_those_of_an_expansion(options: Options, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ample and tight budgets, splines, drift that makes growth begin anew; and the model is the same."""
    monkeypatch.setattr(growth, "BUDGET_PER_FEATURE", 1e9)
    found, tight = Growths(options, batches(45, 60, 15), monkeypatch), kind == "tight"
    assert found.spared > (0 if tight else 10)
    assert (found.retired > 0, found.asked > 0) == (tight, tight)
    assert found.digest == unaided(options, batches(45, 60, 15), monkeypatch)


def test_lists_without_room_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor sightings; the model is the same."""
    monkeypatch.setattr(growth, "BUDGET_PER_FEATURE", 1e9)
    options, digests = bare(bits=14, max_products=100_000, max_degree=4), set()
    for name, room in (("ROOM", 500), ("SIGHTINGS", 30), ("ROOM", parent_lists.ROOM)):
        with monkeypatch.context() as patch:
            patch.setattr(parent_lists, name, room)
            found = Growths(options, batches(20, 60, 20), monkeypatch)
        assert (found.spared > 10) == (room == parent_lists.ROOM)
        digests.add(found.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("scale", [1e-20, 1e12])
def test_of_values_that_products_may_not_have_nothing_is_known(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of them may be 0 or too large today, and none of it when values are clipped."""
    options = bare(bits=14, max_products=100_000, max_degree=4)
    found = Growths(options, batches(12, 60, 20, scale=scale), monkeypatch)
    assert found.spared == found.asked == 0


def test_a_model_that_was_restored_knows_nothing_and_goes_on_alike() -> None:
    """Nor one whose table or latest examples are others than it knows: another's parents, or equally many others."""
    options = bare(bits=12, max_products=100_000, max_degree=4)
    learner, *others = (Learner(options) for _ in range(3))
    for number, batch in enumerate(batches(12, 60, 20)):
        if number == 8:
            for other in others:
                other.table.slots.view(np.uint8)[:] = learner.table.slots.view(np.uint8)
                other.table.tags[:] = learner.table.tags
                other.table.admission_filter[:] = learner.table.admission_filter
                other.table.companions[:] = learner.table.companions
                other.restore({name: array.copy() for name, array in learner.sums.items()})
        elif number < 8:
            other = others[1]  # it has lists, of other examples
            mirrored = batch._replace(values=-batch.values, labels=1.0 - batch.labels)
            other.learn(mirrored, 0, len(batch.labels), Scores.empty(len(batch.labels)))
            other.end_epoch()
        for each in (learner, *others) if number >= 8 else (learner,):
            each.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
            each.end_epoch()
    assert len({each.digest() for each in (learner, *others)}) == 1
