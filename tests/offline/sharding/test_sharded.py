"""One stream on several learners: what one learner alone gives, what merging by hand gives, and who is waited for."""

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.errors import ConfigurationError, ModelError
from stream_apple.learners.apple.learner import Learner, as_apple
from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.learners.scores import Scores
from stream_apple.offline.evaluation import Run, evaluate
from stream_apple.offline.event_epochs import deal_by_time
from stream_apple.offline.schedule import Schedule
from stream_apple.offline.sharding.lockstep import Exchange, Lockstep, ShardStream
from stream_apple.offline.sharding.sharded import Sharding, evaluate_together

OPTIONS = bare(bits=12)
HOUR = 3_600_000
START = 1_700_000_000_000 // HOUR * HOUR


def made_up(count: int, seed: int = 3) -> Batch:
    """Rows of four of twelve binary features; the label is a sum, and a product of two."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(np.argsort(rng.random((count, 12)), axis=1)[:, :4], axis=1)
    weights = np.random.default_rng(1).normal(size=12)
    labels = weights[chosen].sum(axis=1) + 2.0 * ((chosen == 2).any(axis=1) & (chosen == 5).any(axis=1))
    keys = (chosen.ravel().astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return Batch(np.arange(count + 1) * 4, keys, np.ones(4 * count, np.float32), labels, np.ones(count))


BATCH = made_up(2400)


def facts(run: Run) -> dict[str, object]:
    """All but how long it took."""
    return run.facts() | {"seconds": None}


@pytest.mark.parametrize("exchange", [None, Exchange(), Exchange("union", 2)])
@pytest.mark.parametrize("schedule", [Schedule(), Schedule(doubling=100, keep_order=True), Schedule(test_fraction=0.0)])
def test_one_shard_is_one_learner(exchange: Exchange | None, schedule: Schedule) -> None:
    """To the bit, merged or not."""
    alone = evaluate(BATCH, OPTIONS, schedule)
    found = evaluate_together(BATCH, OPTIONS, schedule, Sharding(1, exchange)).run
    assert facts(found) == facts(alone)
    for column, expected in zip(found.scores, alone.scores, strict=True):
        np.testing.assert_array_equal(column, expected)
    assert alone.result.parents > 0


@pytest.mark.parametrize("options", [{"loss": "softmax", "classes": 3}, {"loss": "logistic", "mixture": False}])
def test_one_shard_of_other_losses(options: dict[str, object]) -> None:
    """Classes and two labels have all measures, too."""
    labels = np.digitize(BATCH.labels, np.quantile(BATCH.labels, [0.3, 0.7])).astype(np.float64)
    if options["loss"] == "logistic":
        labels = np.where(labels > 1.0, 1.0, -1.0)
    batch, made = BATCH._replace(labels=labels), bare(bits=12, **options)
    assert facts(evaluate_together(batch, made, Schedule(), Sharding(1, Exchange())).run) == facts(
        evaluate(batch, made, Schedule())
    )


def test_unmerged_shards_are_learners_of_their_own() -> None:
    """Each gives what it would alone on its rows, with epochs that end where those of one learner do."""
    schedule = Schedule(epochs=4, test_fraction=0.0, keep_order=True)
    run = evaluate_together(BATCH, OPTIONS, schedule, Sharding(3, None)).run
    for shard in range(3):
        rows = np.arange(shard, len(BATCH.labels), 3)
        alone = evaluate(BATCH.select(rows), OPTIONS, schedule)
        np.testing.assert_array_equal(run.scores.predictions[rows], alone.scores.predictions)


def by_hand(ends: list[int], every: int, parents: str) -> tuple[NDArray[np.float64], list[Learner]]:
    """Three learners on every third row, merged after so many of the first's rows: the loop, written out."""
    learners = [Learner(OPTIONS) for _ in range(3)]
    parts = [BATCH.select(np.arange(shard, len(BATCH.labels), 3)) for shard in range(3)]
    predictions = np.zeros((3, len(BATCH.labels) // 3))
    start = 0
    for number, stop in enumerate(ends):
        for learner, part, row in zip(learners, parts, predictions, strict=True):
            scores = Scores.empty(len(part.labels))
            learner.learn(part, start, stop, scores)
            row[start:stop] = scores.predictions[start:stop]
            if stop < len(part.labels):
                learner.end_epoch(nominate=True)
        if (number + 1) % every == 0 and stop < predictions.shape[1]:
            merged = merge(learners, parents=parents).model  # type: ignore[arg-type]  # one of two words
            for learner in learners:
                adopt(learner, merged)
        start = stop
    return predictions.T.ravel(), learners


@pytest.mark.parametrize(("every", "parents"), [(1, "votes"), (1, "union"), (2, "votes")])
def test_merged_by_hand(every: int, parents: str) -> None:
    """Every score and every model is that of the loop written out."""
    predictions, learners = by_hand([200, 400, 600, 800], every, parents)
    schedule = Schedule(epochs=4, test_fraction=0.0, keep_order=True)
    exchange = Exchange(parents, every)  # type: ignore[arg-type]  # one of two words
    together = evaluate_together(BATCH, OPTIONS, schedule, Sharding(3, exchange))
    np.testing.assert_array_equal(together.run.scores.predictions, predictions)
    digests = [shard.learner.digest() for shard in together.lockstep.shards]
    assert digests == [learner.digest() for learner in learners]
    assert len(together.lockstep.rosters) == {1: 3, 2: 1}[every]


def test_together_they_know_more() -> None:
    """Of many features, of which each shard sees too little: the loss is below theirs, and above one learner's."""
    rng = np.random.default_rng(5)
    chosen = rng.integers(0, 600, (8000, 10))
    labels = np.random.default_rng(1).normal(size=600)[chosen].sum(axis=1)
    keys = (chosen.ravel().astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    batch = Batch(np.arange(8001) * 10, keys, np.ones(80_000, np.float32), labels, np.ones(8000))
    schedule = Schedule(epochs=12, test_fraction=0.0)
    one, merged, apart = (
        evaluate_together(batch, bare(method="linear"), schedule, sharding).run.result.progressive_loss or 0.0
        for sharding in (Sharding(1, None), Sharding(4, Exchange()), Sharding(4, None))
    )
    assert one < merged < 0.96 * apart


def test_epochs_by_time_are_those_of_each_shards_clock() -> None:
    """Each shard's first row behind the hour ends its epoch; who is far ahead is left out of its shard alone."""
    hours = np.repeat(np.arange(4), 600)
    timestamps = START + hours * HOUR + np.tile(np.arange(600), 4) * (HOUR // 600)
    timestamps[1500] += 1000 * HOUR
    dealt = deal_by_time(timestamps, HOUR, 24 * HOUR, 3)
    assert dealt.far_ahead.tolist() == [1500]
    np.testing.assert_array_equal(dealt.shards, dealt.rows % 3)
    np.testing.assert_array_equal(dealt.epochs, START // HOUR + hours[dealt.rows])
    assert (dealt.most_epochs, dealt.late) == (4, 0)
    schedule = Schedule(test_fraction=0.2, keep_order=True)
    batch = BATCH.select(dealt.rows)
    together = evaluate_together(batch, OPTIONS, schedule, Sharding(3, Exchange()), dealt)
    # The test part begins within the fourth hour: three ends, in which all are.
    first = START // HOUR
    assert together.lockstep.rosters == [(first + number, (0, 1, 2)) for number in range(3)]


def streams(*epochs: list[int]) -> list[ShardStream]:
    """Of shards whose rows have these epochs."""
    parts, start = [], 0
    for of_one in epochs:
        parts.append(ShardStream(BATCH.select(np.arange(start, start + len(of_one))), np.array(of_one, np.int64)))
        start += len(of_one)
    return parts


@pytest.mark.parametrize(
    ("epochs", "every", "rosters"),
    [
        # The second ends in epoch 1: the others go on without it.
        (([0, 1, 2, 3], [0, 1], [0, 1, 2, 3]), 1, [(0, (0, 1, 2)), (1, (0, 2)), (2, (0, 2))]),
        # The second jumps from 0 to 3: it waits at the end of 0 with all, and is back at the end of 3.
        (([0, 1, 2, 3, 4], [0, 3, 4]), 1, [(0, (0, 1)), (1, (0,)), (2, (0,)), (3, (0, 1))]),
        # One begins later, one has no example, and one stays in its first epoch.
        (([0, 1, 2], [1, 2], [], [0, 0, 0]), 1, [(0, (0,)), (1, (0, 1))]),
        # Rounds of two epochs; a clock put back ends nothing.
        (([0, 1, 2, 3, 4], [0, 1, 0, 2, 4]), 2, [(0, (0, 1)), (1, (0, 1))]),
        (([5, 6], [5, 5, 6]), 1, [(5, (0, 1))]),
    ],
)
def test_who_is_in_a_merge(
    epochs: tuple[list[int], ...], every: int, rosters: list[tuple[int, tuple[int, ...]]]
) -> None:
    """All who stand at the end of the earliest round, once nobody can come to it any more."""
    lockstep = Lockstep(OPTIONS, streams(*epochs), Exchange(every=every))
    lockstep.learn()
    assert lockstep.rosters == rosters
    for shard, of_one in zip(lockstep.shards, epochs, strict=True):
        assert shard.held is None
        assert shard.learner.examples == len(of_one)
        assert not np.isnan(shard.scores.predictions).any()


def test_what_can_not_be_merged_is_refused() -> None:
    """Before anything is learned, by name; unmerged it is learned."""
    options = bare(bits=12, mergeable=False)
    with pytest.raises(ConfigurationError, match="mergeable = true, found false"):
        evaluate_together(BATCH, options, Schedule(), Sharding(2, Exchange()))
    assert evaluate_together(BATCH, options, Schedule(), Sharding(2, None)).run.result.progressive_loss is not None


def test_a_model_that_is_not_finite_is_named() -> None:
    """By its shard; rows are those of its stream."""
    lockstep = Lockstep(OPTIONS, streams([0, 0], [0, 0, 1]), Exchange())
    as_apple(lockstep.shards[1].learner).table.slots["weight"][-1] = np.inf
    with pytest.raises(ModelError, match=r"shard 1: .* at row 0") as caught:
        lockstep.learn()
    assert caught.value.row == 0
