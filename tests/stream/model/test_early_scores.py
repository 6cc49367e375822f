"""Scores of examples whose labels come later are judged when the label comes, whatever crashes in between."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.records import DECODER, HOUR, SETTINGS, START, TOPIC, FakeRecord

from stream_apple.learners.apple.options import Options
from stream_apple.learners.label_units import LabelUnits
from stream_apple.monitoring.predictors import asked_of, mixture_of
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.early_scores import EarlyScores
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot

LINEAGE = Lineage(0, "0123456789abcdef")


def new_model(pending: int = 100, **chosen: Any) -> PartitionModel:
    """A model that has learned nothing."""
    options = Options(**{"bits": 8, "learning_rate": 0.5, "pending_labels": pending, **chosen})
    return PartitionModel(TOPIC, 0, LINEAGE, SETTINGS._replace(options=options), DECODER)


def record(at: int, identity: str | int | None, label: float | None, weight: float = 1.0) -> FakeRecord:
    """One every six minutes."""
    features = {"a": 1.0, "b": float(at % 3)}
    return FakeRecord(0, at, encode_example(Example(label, weight, identity, features)), START + at * HOUR // 10)


_stories = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c", 7]), st.sampled_from([None, -1.0, 0.0, 2.0])), max_size=40
)


@given(story=_stories, pending=st.integers(0, 3), mixture=st.sampled_from([True, False]))
@settings(max_examples=40)
def test_each_label_judges_the_last_score_that_was_published_for_its_id(
    story: list[tuple[Any, float | None]],
    pending: int,
    mixture: bool,  # noqa: FBT001
) -> None:
    """As a few lines of Python have it, which read the published predictions."""
    model = new_model(pending, mixture=mixture)
    records = [record(at, identity, label) for at, (identity, label) in enumerate(story)]
    published = [decode_prediction(each)["prediction"] for each in model.process(records).predictions]
    waiting: dict[Any, Any] = {}
    losses, forgotten = [], 0
    for (identity, label), score in zip(story, published, strict=True):
        if identity is None or not pending:
            continue
        known = waiting.pop(identity, None)
        if label is None:
            waiting[identity] = score
            if len(waiting) > pending:
                del waiting[next(iter(waiting))]
                forgotten += 1
        elif known is not None:
            losses.append((known - label) ** 2)
    view = asked_of(model.early)
    assert view.examples == {"judged": len(losses), "pending": len(waiting), "forgotten": forgotten}
    if losses:
        assert view.losses["start"]["published"] == pytest.approx(np.mean(losses), rel=1e-6)  # kept as float32


@example(cuts=set(), pending=100, at=26)  # just before the units of labels are final
@given(cuts=st.sets(st.integers(1, 119)), pending=st.sampled_from([2, 5, 100]), at=st.integers(1, 119))
@settings(max_examples=12)
def test_it_depends_on_the_records_alone_and_outlives_a_crash(cuts: set[int], pending: int, at: int) -> None:
    """However they are cut into batches, and wherever the model is restored from its snapshot."""
    draw = np.random.default_rng(3)
    records = []
    for number in range(120):
        identity = int(draw.integers(0, 30))
        records.append(record(number, identity, None if draw.random() < 0.6 else float(draw.integers(-1, 2))))
    whole, cut, stopped = new_model(pending), new_model(pending), new_model(pending)
    whole.process(records)
    edges = [0, *sorted(cuts), len(records)]
    for start, stop in pairwise(edges):
        cut.process(records[start:stop])
    stopped.process(records[:at])
    snapshot = encode_snapshot(stopped)
    restored = new_model(pending)
    decoder = SnapshotDecoder(restored, SnapshotPointer(snapshot.at, 0, len(snapshot.messages) - 1, snapshot.digest))
    for message in snapshot.messages:
        decoder.add(message)
    restored.process(records[at:])
    expected = asked_of(whole.early)
    assert expected.examples["judged"] > 0
    for model in (cut, restored):
        assert asked_of(model.early) == expected
        for name, array in (whole.early.state | whole.early.observed).items():
            assert (model.early.state | model.early.observed)[name].tobytes() == array.tobytes()
        assert model.digest() == whole.digest()


def test_what_was_published_is_what_the_mixture_learns_from() -> None:
    """With late labels it trusts by the early scores, and one that remembers none by those of the labelled record."""
    records = []
    for number in range(0, 400, 4):
        records += [record(number + k, number + k, None) for k in range(2)]
        records += [record(number + 2 + k, number + k, float(number % 3)) for k in range(2)]
    without, with_many = new_model(0), new_model(100)
    first, second = without.process(records), with_many.process(records)
    assert first.predictions != second.predictions
    assert not without.image().sums["late"].any()
    shares = mixture_of(with_many.learner.describe()).shares
    assert set(shares) == {"linear", "average", "stack", "constant", "slow_linear"}
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("delay", [30, 250])
def test_where_more_wait_than_are_remembered_a_fair_sample_is_judged(delay: int) -> None:
    """One of so many that their labels find them: of the newest 50 of 250 that wait no label would find any."""
    records = []
    for number in range(3_000):
        records.append(record(2 * number, number, None))
        if number >= delay:
            records.append(record(2 * number + 1, number - delay, float(number % 3)))
    model, cut = new_model(50), new_model(50)
    model.process(records)
    for start in range(0, len(records), 7):
        cut.process(records[start : start + 7])
    assert cut.digest() == model.digest()
    judged = asked_of(model.early).examples["judged"]
    assert 3_000 * 0.5 * min(1, 50 / delay) / 2 < judged <= 3_000 - delay
    assert asked_of(model.early).examples["pending"] <= 50


def test_where_no_label_is_late_the_setting_changes_nothing() -> None:
    """Models of such streams are equal to the bit, however many scores they may keep."""
    records = [record(number, number, float(number % 3)) for number in range(200)]
    without, with_many = new_model(0), new_model(100)
    assert without.process(records).predictions == with_many.process(records).predictions
    assert without.digest() == with_many.digest()
    assert without.learner.options.identity() != with_many.learner.options.identity()


def test_a_state_of_another_setting_is_refused() -> None:
    """More ids than are remembered, and scores of another shape."""
    model = new_model(100)
    model.process([record(number, number, None) for number in range(5)])
    fewer = EarlyScores(Options(pending_labels=3), LabelUnits(standardized=False))
    with pytest.raises(ValueError, match="expected at most 3 ids"):
        fewer.restore(dict(model.early.state))
    other = EarlyScores(Options(), LabelUnits(standardized=False))
    with pytest.raises(ValueError, match=r"expected .* of the sampling, found arrays of 0, 0, 0"):
        other.restore({})
    for counts in ({}, model.early.observed | {"early_whole": np.zeros(3)}):
        with pytest.raises(ValueError, match="expected"):
            other.restore_observed(counts)


def test_weights_count_and_constants_are_beside() -> None:
    """An example of weight 3 counts three times; the best constant is that of the judged labels alone."""
    model = new_model()
    model.process([record(0, "a", None), record(1, "b", None)])
    model.process([record(2, "a", 1.0, 3.0), record(3, "b", -1.0), record(4, "c", 5.0)])
    losses = asked_of(model.early).losses["start"]
    assert losses["published"] == 1.0  # both scores were 0
    assert losses["constant"] == pytest.approx(0.75 * 1 + 0.25 * 1 - 0.5**2)


def test_classes_are_not_remembered() -> None:
    """A class's score is many numbers: the documents say so."""
    early = EarlyScores(Options(loss="softmax", classes=3, pending_labels=10), LabelUnits(standardized=False))
    assert math.isnan(early.asked.report("whole").loss)
    assert asked_of(early).losses == {}
