"""A prediction is made again from what is in the logs and explained; why there is none is told as what it is."""

import json
from contextlib import closing

import msgpack
import pytest
from simulation.small import small
from stream.verification.merged_logs import strict
from stream.verification.published_logs import (
    COUNT,
    INPUT,
    PARTITION,
    PREDICTIONS,
    PROVENANCE,
    MemoryLogs,
    answer,
    changed,
    commit,
    life,
    new_model,
    prediction_with,
    without,
)
from support.records import DECODER, stream

from stream_apple.app import explain as explaining
from stream_apple.app.explain import ExplainedPrediction, explain_prediction
from stream_apple.errors import ConfigurationError, GapError, StreamAppleError
from stream_apple.monitoring.explanation import total_of
from stream_apple.stream.positions.lineage import Gap
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.sources import Sources


def explained(logs: MemoryLogs, offset: int) -> ExplainedPrediction:
    """The explanation of an example in the partition in question."""
    sources = Sources(logs, PROVENANCE, new_model, 50)
    committed = logs.offsets[PARTITION]
    assert committed is not None
    return explain_prediction(sources, DECODER, committed, Moment(PARTITION, offset))


def predicted(logs: MemoryLogs) -> dict[int, dict[str, float]]:
    """Offset of the example -> what was published."""
    told = [msgpack.unpackb(record.payload or b"") for record in logs.logs[PREDICTIONS]]
    return {each["offset"]: each for each in told}


@pytest.mark.parametrize("scanned", [50_000, 7])
def test_every_kind_of_example(scanned: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and behind the snapshot, in any place of the predictions: the sum is what was published."""
    monkeypatch.setattr(explaining, "_SCANNED", scanned)
    logs = life()
    published, rejected = predicted(logs), 0
    for offset in sorted({record.at for record in logs.logs[INPUT]})[:: 41 if scanned == 7 else 23]:
        if offset not in published:
            with pytest.raises(ConfigurationError, match="found a record that could not be used, and went to dead-l"):
                explained(logs, offset)
            rejected += 1
            continue
        found = explained(logs, offset)
        assert found.equal
        assert found.published == found.prediction == published[offset]
        assert total_of(found.explanations[0].contributions) == published[offset]["prediction"]
        json.dumps(found.facts())
    assert rejected


def test_a_prediction_that_differs_or_is_gone_is_told() -> None:
    """What the model gives is explained all the same."""
    logs = life()
    (offset, told), *_ = predicted(logs).items()
    changed(logs, PREDICTIONS, 0, payload=prediction_with(logs.logs[PREDICTIONS][0].payload, prediction=0.25))
    found = explained(logs, offset)
    assert found.equal is False
    assert found.published == told | {"prediction": 0.25}
    assert found.prediction == told
    assert total_of(found.explanations[0].contributions) == told["prediction"]
    without(logs, PREDICTIONS, 0)
    assert explained(logs, offset).equal is None


def test_what_was_not_answered_is_told_as_what_it_is() -> None:
    """Not there yet, not answered yet, before the model's start, a marker, and gone from the log."""
    logs = life()
    last = logs.logs[INPUT][-1].at
    refused: list[tuple[int, type[StreamAppleError], str]] = [
        (last + 50, ConfigurationError, "there is no such record yet"),
        (10**17, ConfigurationError, "there is no such record yet"),
    ]
    absent = next(at for at in range(last) if at not in {record.at for record in logs.logs[INPUT]})
    refused.append((absent, ConfigurationError, "expected a record, found none"))
    for offset, kind, why in refused:
        with pytest.raises(kind, match=why):
            explained(logs, offset)
    logs.remove_before(INPUT, 100)
    with pytest.raises(GapError, match="found offset 100 as the first of the log: it is gone"):
        explained(logs, 7)
    first = next(offset for offset in predicted(logs) if offset > 120)
    with pytest.raises(GapError, match="and the newest snapshot is behind offset"):
        explained(logs, first)  # it is there, and what comes before it is not


def test_an_example_without_an_answer_yet_and_one_in_a_gap() -> None:
    """By what is committed; a model that has left out a gap is explained behind it."""
    logs = MemoryLogs()
    records = stream(COUNT, seed=5, partition=PARTITION)
    logs.logs[INPUT] = records
    start, gap = records[20].at, Gap(records[100].at, records[150].at)
    model = new_model(PARTITION, PROVENANCE.lineage(PARTITION, start))
    answer(logs, model, records[20:100])
    model.next_offset = gap.start
    model.jump(PROVENANCE.lineage(PARTITION, start, [gap]), gap)
    answer(logs, model, records[150:300])
    commit(logs, model, None)
    for offset, why in (
        (records[300].at, "the example has no answer yet"),
        (records[10].at, f"expected an offset from {start} on"),
        (records[120].at, "found it in a gap that was accepted"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            explained(logs, offset)
    for offset in (min(predicted(logs)), max(predicted(logs))):
        assert explained(logs, offset).equal


def test_a_skipped_record_is_told() -> None:
    """It is a dead letter, by an operator's will."""
    logs = MemoryLogs()
    records = stream(COUNT, seed=5, partition=PARTITION)
    logs.logs[INPUT] = records
    lineage = PROVENANCE.lineage(PARTITION, 0)
    model = new_model(PARTITION, lineage)
    model.skips.extend(PROVENANCE.skips(PARTITION, lineage, [records[40].at]))
    for part, _ in model.process_in_turn([*records[:80]]):
        assert part
    commit(logs, model, None)
    with pytest.raises(ConfigurationError, match="an operator has named to be skipped: it is in dead-letters"):
        explained(logs, records[40].at)
    assert explained(logs, records[79].at).equal is None  # of this one nothing was published


def test_where_models_are_merged() -> None:
    """Every prediction of three rounds, those right behind their ends among them: with what was merged on the way."""
    logs, explained_count = strict(), 0
    with small():
        for partition in range(3):
            for record in logs.logs["predictions", partition]:
                told = msgpack.unpackb(record.payload or b"")
                committed = logs.offsets[partition]
                assert committed is not None
                sources = Sources(logs, logs.setup.provenance, logs.new_model, 7)
                with closing(sources):
                    found = explain_prediction(sources, DECODER, committed, Moment(partition, told["offset"]))
                assert found.equal
                assert total_of(found.explanations[0].contributions) == told["prediction"]
                explained_count += 1
    assert explained_count > 60
