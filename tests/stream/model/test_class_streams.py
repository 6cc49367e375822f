"""A partition whose labels are one of three classes: answers, dead letters, snapshots, verification."""

import random
from itertools import pairwise
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.verification.published_logs import PARTITION, PROVENANCE, MemoryLogs, answer, commit, save
from support.records import HOUR, SETTINGS, START, TOPIC, FakeRecord

from stream_apple.app.model_factories import settings_of
from stream_apple.config import load
from stream_apple.config.memory import MemoryLimit, check_models_fit
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.learners.apple.options import Options
from stream_apple.monitoring.inspection import view_model
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_names import Names
from stream_apple.records.message.prediction_formats import PredictionFormat, decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.positions.lineage import Lineage, SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.faults import Kind
from stream_apple.stream.walk.sources import Sources

CLASSES, COUNT = 3, 500
LIMITS = SETTINGS.limits._replace(classes=CLASSES)
DECODER = Decoder(LIMITS)
LINEAGE = Lineage(0, "0123456789abcdef")


def new_model(partition: int = 0, lineage: Lineage = LINEAGE, **chosen: Any) -> PartitionModel:
    """A model that has learned nothing."""
    options = Options(loss="softmax", classes=CLASSES, bits=8, **chosen)
    settings = SETTINGS._replace(options=options, limits=LIMITS, predictions=PredictionFormat("all"))
    return PartitionModel(TOPIC, partition, lineage, settings, DECODER)


def class_records(count: int = COUNT, partition: int = 0) -> list[FakeRecord]:
    """Examples over six hours, in which two pairs of features make the class; some unlabelled, one in twenty bad."""
    draw, records = random.Random(7), []
    for at in range(count):
        names = draw.sample("abcdefgh", draw.randint(1, 5))
        label: float | None = 0 if {"a", "b"} <= set(names) else 1 if {"c", "d"} <= set(names) else 2
        label = draw.choice([3, -1, 0.5]) if draw.random() < 0.05 else None if draw.random() < 0.1 else label
        payload = encode_example(Example(label, draw.choice([1.0, 2.0]), at, dict.fromkeys(names, 1.0)))
        records.append(FakeRecord(partition, at, payload, START + at * 6 * HOUR // count, b"k%d" % at))
    return records


RECORDS = class_records()


def test_predictions_are_classes_with_probabilities() -> None:
    """The class is the prediction; its probability, and the loss of the label's, go with it."""
    result = new_model().process(RECORDS)
    assert len(result.predictions) + len(result.rejects) == COUNT
    assert result.rejects
    hits, sure = [], []
    for message in result.predictions:
        told = decode_prediction(message)
        assert told["prediction"] in {0.0, 1.0, 2.0}
        every: Any = told["probabilities"]
        assert len(every) == CLASSES
        assert sum(every) == pytest.approx(1.0)
        assert every[int(told["prediction"])] == max(every) == told["probability"]
        probability = told["probability"]
        assert isinstance(probability, float)
        assert 1 / CLASSES - 1e-9 <= probability <= 1
        if told["label"] is None:
            assert told["loss"] is None
            continue
        hits.append(told["prediction"] == told["label"])
        sure.append(probability)
        assert isinstance(told["loss"], float)
        if hits[-1]:
            assert told["loss"] == pytest.approx(-np.log(probability), abs=1e-12)
    assert np.mean(hits) > 0.7
    assert np.mean(sure) == pytest.approx(np.mean(hits), abs=0.15)


@pytest.mark.parametrize(
    ("label", "found"),
    [(3, "a number: 3"), (7, "a number: 7"), (1.5, "1.5"), (-1, "-1"), (float("inf"), "inf"), (1e300, "1e+300")],
)
def test_other_labels_are_dead_letters(label: float, found: str) -> None:
    """Each says which labels there may be; as JSON, too."""
    fields = {"label": label, "features": {"a": 1}}
    payloads = [msgpack.packb(fields)]
    if np.isfinite(label):
        payloads.append(repr(fields).replace("'", '"').encode())
    records = [FakeRecord(0, at, payload, START, None) for at, payload in enumerate(payloads)]
    (*rejects,) = new_model().process(records).rejects
    assert [each.reason for each in rejects] == [Reason.BAD_LABEL] * len(records)
    for each in rejects:
        assert "expected a label that is a whole number from 0 to 2, found" in each.message
        assert found in each.message


def test_every_class_is_taken_in_any_form() -> None:
    """Integers and floats, minus zero, JSON."""
    labels = [0, 1, 2, 0.0, 2.0, -0.0]
    payloads = [msgpack.packb({"label": label, "features": {}}) for label in labels]
    payloads += [b'{"label": 2, "features": {}}', b'{"label": 1e0, "features": {}}']
    batch = DECODER.decode(payloads).batch
    assert batch.labels.tolist() == [0, 1, 2, 0, 2, 0, 2, 1]
    assert not np.signbit(batch.labels).any()


@given(cuts=st.lists(st.integers(0, COUNT), max_size=4), mixture=st.sampled_from([True, False]))
@settings(max_examples=8, deadline=None)
def test_cuts_and_snapshots_change_nothing(cuts: list[int], mixture: bool) -> None:  # noqa: FBT001
    """Interrupted anywhere, and gone on from a snapshot, it gives what one run gives, to the bit."""
    whole, model = new_model(mixture=mixture), new_model(mixture=mixture)
    expected = whole.process(RECORDS).predictions
    found: list[bytes] = []
    for start, stop in pairwise([0, *sorted(cuts), COUNT]):
        found += model.process(RECORDS[start:stop]).predictions
        taken = encode_snapshot(model)
        restored = new_model(mixture=mixture)
        decoder = SnapshotDecoder(restored, SnapshotPointer(taken.at, 0, 0, taken.digest))
        for message in taken.messages:
            decoder.add(message)
        model = restored
    assert found == expected
    assert model.digest() == whole.digest()


def test_a_snapshot_of_other_classes_is_refused() -> None:
    """It is another model."""
    taken = encode_snapshot(new_model())
    options = Options(loss="softmax", classes=4, bits=8)
    other = PartitionModel(TOPIC, 0, LINEAGE, SETTINGS._replace(options=options, limits=LIMITS), DECODER)
    decoder = SnapshotDecoder(other, SnapshotPointer(taken.at, 0, 0, taken.digest))
    with pytest.raises(SnapshotError):
        list(map(decoder.add, taken.messages))


@pytest.mark.parametrize("field", ["prediction", "probability"])
def test_verification_sees_class_and_probability(field: str) -> None:
    """What was published is proved; another class, or another probability, is found."""
    logs = MemoryLogs()
    logs.logs[TOPIC, PARTITION] = records = class_records(partition=PARTITION)
    model = new_model(PARTITION, PROVENANCE.lineage(PARTITION, 0))
    answer(logs, model, records[: COUNT // 2])
    pointer = save(logs, model)
    answer(logs, model, records[COUNT // 2 :])
    commit(logs, model, pointer)

    def verified() -> Any:
        return Verifier(Sources(logs, PROVENANCE, new_model, 50), lambda *_: None).verify_each([PARTITION])[0]

    assert verified().fault_count == 0
    log = logs.logs["predictions", PARTITION]
    told = msgpack.unpackb(log[-1].payload)
    log[-1] = log[-1]._replace(payload=msgpack.packb({**told, field: told[field] + 1.0}))
    report = verified()
    assert [fault.kind for fault in report.faults] == [Kind.DIFFERENT]


def test_what_is_shown() -> None:
    """Share of right answers, loss beside the frequencies', shares of the mixture, and products by weight."""
    model = new_model()
    model.process(RECORDS)
    view = view_model(model, Names(100), 5)
    losses = view.losses["start"]
    assert losses.loss < losses.best_constant_loss
    assert losses.loss <= losses.linear_loss
    assert 0.7 < losses.label < 1
    assert losses.prediction == pytest.approx(losses.label, abs=0.15)
    assert view.quality["start"]["expanded"].loss == pytest.approx(losses.expanded_loss)
    assert sum(view.mixture.shares.values()) == pytest.approx(1)
    assert view.monomials.products[0].salience > 0
    assert view.options["classes"] == CLASSES


def test_a_worker_is_configured_so() -> None:
    """LossName and number of classes make the options and the limits of records; everything compiles on samples."""
    chosen = {"STREAM_APPLE_LEARNER__LOSS": "softmax", "STREAM_APPLE_LEARNER__CLASSES": "7"}
    made = settings_of(load(None, chosen))
    assert (made.options.classes, made.limits.classes, made.limits.binary) == (7, 7, False)
    warm_up(made, Decoder(made.limits))
    plain = settings_of(load(None, {}))
    assert plain.limits == plain.limits._replace(classes=0)
    assert plain.options.identity()["classes"] == 0
    with pytest.raises(ConfigurationError, match="expected an integer from 2 to 1000 with loss softmax, found 0"):
        load(None, {"STREAM_APPLE_LEARNER__LOSS": "softmax"})


def test_classes_that_do_not_fit_into_memory_are_refused() -> None:
    """Their weights are counted before a table is made."""
    limit = MemoryLimit(4 << 30, "this machine has")
    check_models_fit(Options(loss="softmax", classes=10), 2, limit)
    with pytest.raises(ConfigurationError):
        check_models_fit(Options(loss="softmax", classes=1000), 2, limit)
