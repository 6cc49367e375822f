"""Instances are read as records are, and scored without a bit of the model changing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.bare_options import bare
from support.planted_pair import SETTINGS, finder, planted
from support.records import HOUR, START, TOPIC, FakeRecord

from stream_apple.learners.apple.options import Options
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.instances import BadInstancesError, InstanceReader, InstanceScorer, score
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel

ROWS = [{"price": 1.0, "country=de": 1.0}, {"price": -0.5}, {}]
LOGISTIC = SETTINGS._replace(
    options=replace(SETTINGS.options, loss="logistic"), limits=SETTINGS.limits._replace(binary=True)
)


def values() -> list[bytes]:
    """The rows as messages."""
    return [json.dumps({"features": row}).encode() for row in ROWS]


@pytest.mark.parametrize("settings", [SETTINGS, LOGISTIC], ids=["squared", "logistic"])
def test_the_score_is_what_a_worker_would_publish(settings: ModelSettings) -> None:
    """Of an example that comes next, in the same epoch; before and after, the model is the same."""
    model = PartitionModel(TOPIC, 0, finder([])[0].lineage, settings, settings.decoder())
    binary = settings is LOGISTIC
    learned = planted(400)
    if binary:
        learned = [
            each._replace(payload=json.dumps({"label": at % 2, "features": ROWS[at % 2]}).encode())
            for at, each in enumerate(learned)
        ]
    model.process(learned)
    digest = model.digest()
    reader, scorer = InstanceReader(settings), InstanceScorer(model)
    found = score(model, reader.read(values()))
    assert scorer.score(reader.read(values())) == found
    for value, told in zip(values(), found, strict=True):
        assert scorer.score(reader.read([value])) == [told]
    assert model.digest() == digest
    time_ms = START + 8 * HOUR - 1
    for at, (value, told) in enumerate(zip(values(), found, strict=True)):
        (published,) = model.process([FakeRecord(0, 400 + at, value, time_ms)]).predictions
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
        InstanceReader(SETTINGS).read([values()[0], *bad])
    assert [(fault.instance, fault.reason) for fault in refused.value.faults] == [
        (1, "malformed"),
        (2, "bad_label"),
        (3, "record_too_large"),
    ]


@pytest.mark.parametrize("options", [Options(bits=12), bare(bits=12)], ids=["default", "bare"])
def test_one_alone_is_scored_to_the_bit_while_the_model_learns(options: Options) -> None:
    """Between portions, over ends of epochs and growth, with more features than there was place for."""
    settings = SETTINGS._replace(options=options)
    model = PartitionModel(TOPIC, 0, finder([])[0].lineage, settings, settings.decoder())
    scorer = InstanceScorer(model)
    many = {f"f{number}": 0.5 for number in range(300)}
    rows = [*ROWS, many]
    reader = InstanceReader(
        settings._replace(limits=settings.limits._replace(max_features=400, max_record_bytes=9_000))
    )
    records = planted(3_000)
    for first in range(0, len(records), 250):
        model.process(records[first : first + 250])
        for row in rows:
            batch = reader.read([json.dumps({"features": row}).encode()])
            assert scorer.score(batch) == score(model, batch)
