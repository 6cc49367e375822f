"""Instances are read as records are, and scored without a bit of the model changing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.planted_pair import SETTINGS, finder, planted
from support.records import HOUR, START, TOPIC, FakeRecord

from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.stream.model.instances import BadInstancesError, InstanceReader, score
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel

ROWS = [{"price": 1.0, "country=de": 1.0}, {"price": -0.5}, {}]
LOGISTIC = SETTINGS._replace(
    options=replace(SETTINGS.options, loss="logistic"), limits=SETTINGS.limits._replace(binary=True)
)
BY_KEY = SETTINGS._replace(options=replace(SETTINGS.options, personalise="key"))


def values() -> list[bytes]:
    """The rows as messages."""
    return [json.dumps({"features": row}).encode() for row in ROWS]


@pytest.mark.parametrize("settings", [SETTINGS, LOGISTIC, BY_KEY], ids=["squared", "logistic", "by key"])
def test_the_score_is_what_a_worker_would_publish(settings: ModelSettings) -> None:
    """Of an example that comes next, by the same key, in the same epoch; before and after, the model is the same."""
    model = PartitionModel(TOPIC, 0, finder([])[0].lineage, settings, settings.decoder())
    binary = settings is LOGISTIC
    learned = [each._replace(named=b"u%d" % (each.at % 3)) for each in planted(400)]
    if binary:
        learned = [
            each._replace(payload=json.dumps({"label": at % 2, "features": ROWS[at % 2]}).encode())
            for at, each in enumerate(learned)
        ]
    model.process(learned)
    digest, keys = model.digest(), [b"u1", None, b"u2"]
    found = score(model, InstanceReader(settings).read(values(), keys))
    assert model.digest() == digest
    time_ms = START + 8 * HOUR - 1
    for at, (value, key, told) in enumerate(zip(values(), keys, found, strict=True)):
        (published,) = model.process([FakeRecord(0, 400 + at, value, time_ms, key)]).predictions
        answer = decode_prediction(published)
        assert told.prediction == answer["prediction"]
        if binary:
            assert told.probability is not None
            assert np.isclose(told.probability, 1 / (1 + np.exp(-told.prediction)))
        else:
            assert told.probability is None


def test_each_fault_is_told() -> None:
    """With its place among the instances, and the reason of a dead letter."""
    bad = [b"{", b'{"features": {"a": "b"}, "label": 1e99}', b"x" * (SETTINGS.limits.max_record_bytes + 1)]
    with pytest.raises(BadInstancesError, match="instance 1: expected") as refused:
        InstanceReader(SETTINGS).read([values()[0], *bad], [None] * 4)
    assert [(fault.instance, fault.reason) for fault in refused.value.faults] == [
        (1, "malformed"),
        (2, "bad_label"),
        (3, "record_too_large"),
    ]
