"""The composition root of `stream-apple explain`: makes a published prediction again, with its score as a sum.

The partition's model is learned again up to the example, which it then scores and learns as the worker did. So the
model that gave the prediction is explained, whatever it has learned since. The new prediction is compared with the
published one.
"""

from base64 import b64encode
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config
from stream_apple.core.batch import Batch
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.learners.systems import ngrams_of
from stream_apple.monitoring.explanation import Explanation, explain_scores
from stream_apple.monitoring.inspection import plain
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.contents import content_of
from stream_apple.stream.log.log_scan import LogScan, first_record
from stream_apple.stream.log.ports import Committed, Record
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.positions.lineage import OffsetMetadata, Origin, origin_of_prediction
from stream_apple.stream.snapshots.store import Logs, StoredModel
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import rebuild
from stream_apple.stream.walk.sources import Sources

_SCANNED = 50_000  # predictions that are read sooner than the broker would be asked once more where to begin


class ExplainedPrediction(NamedTuple):
    """Holds a prediction that was made again, and its explanation.

    model         fingerprint of the model
    prediction    the message made again, decoded
    explanations  its score as a sum; with classes, one sum for each class, in their order
    published     the message that the predictions topic has for the example, decoded; None if it has none
    equal         whether both messages are equal to the byte; None if the topic has none
    """

    topic: str
    partition: int
    offset: int
    model: str
    prediction: dict[str, Any]
    explanations: list[Explanation]
    published: dict[str, Any] | None
    equal: bool | None

    def facts(self) -> dict[str, Any]:
        """Return all of it in JSON types; an id of bytes is in base64."""
        facts: dict[str, Any] = plain(self)
        for message in (facts["prediction"], facts["published"] or {}):
            if isinstance(identity := message.get("id"), bytes):
                message["id"] = b64encode(identity).decode()
        return facts


def explain_from_kafka(config: Config, partition: int, offset: int) -> ExplainedPrediction:
    """Return the prediction for the example at an offset, and its score as a sum.

    ConfigurationError, which says why, if nothing was predicted there; GapError if records are gone that are needed to
    learn the model again; SnapshotError if a snapshot is damaged; BrokerError if Kafka does not answer.
    """
    with closing(KafkaLogs(config)) as logs, closing(sources_of(config, logs)) as sources:
        decoder = settings_of(config).decoder()
        return explain_prediction(sources, decoder, logs.committed_of(partition), Moment(partition, offset))


def explain_prediction(sources: Sources, decoder: Decoder, committed: Committed, moment: Moment) -> ExplainedPrediction:
    """Return what `explain_from_kafka` does, from any logs; `committed` is the group's, of the moment's partition."""
    topics, (partition, offset, _) = sources.provenance.topics, moment
    stored = sources.newest(partition, committed)
    record = _example(sources, stored.metadata, committed, moment)
    model = _model_before(sources, stored, committed, moment, record)
    names = Names(ngrams=ngrams_of(model.learner.options))
    found: list[Explanation] = []

    def look(batch: Batch, start: int, _stop: int) -> None:
        names.add(names_in(decoder.message(content_of(record, framed=decoder.framed)), names.ngrams))
        found.extend(explain_scores(model.learner, names, batch.select(np.array([start]))))

    model.publish_from = offset
    result = model.process([record], look)
    _check_answered(result, f"{topics.examples}-{partition}@{offset}", topics.dead_letters)
    value = result.predictions[0]
    prediction = decode_prediction(value)
    if not model.learner.options.classes:
        found = [each.of_score(float(str(prediction["prediction"]))) for each in found]
    answer = Origin(model.lineage.model, topics.examples, partition, offset)
    published = _published(sources.logs, topics.predictions, answer, sources.fetch_records)
    return ExplainedPrediction(
        topics.examples,
        partition,
        offset,
        model.lineage.model,
        prediction,
        found,
        None if published is None else decode_prediction(published),
        None if published is None else published == value,
    )


def _example(sources: Sources, metadata: OffsetMetadata, committed: Committed, moment: Moment) -> Record:
    """Return the record at the moment's offset; ConfigurationError or GapError says why it has no prediction."""
    topic, group, (partition, offset, _) = sources.provenance.topics.examples, sources.provenance.group, moment
    place, lineage = f"{topic}-{partition}@{offset}", metadata.lineage
    low, high = sources.logs.log_range(topic, partition)
    if offset >= committed.offset:
        why = (
            f"the log ends before offset {high}: there is no such record yet"
            if offset >= high
            else f"group {group} has answered what is before offset {committed.offset}: the example has no answer yet"
        )
        raise ConfigurationError(f"{place}: expected an example that was answered, found that {why}")
    if offset < lineage.start:
        raise ConfigurationError(
            f"{place}: expected an offset from {lineage.start} on, where the model of group {group} began"
        )
    if any(gap.start <= offset < gap.stop for gap in lineage.gaps):
        raise ConfigurationError(f"{place}: expected an example that was answered, found it in a gap that was accepted")
    if offset < low:
        raise GapError(f"{place}: expected the example, found offset {low} as the first of the log: it is gone")
    record = first_record(sources.logs, topic, partition, range(offset, offset + 1))
    if record is None or record.offset() != offset:
        raise ConfigurationError(
            f"{place}: expected a record, found none: the end of a transaction has this offset, or an aborted record"
        )
    return record


def _model_before(
    sources: Sources, stored: StoredModel, committed: Committed, moment: Moment, record: Record
) -> PartitionModel:
    """Return the model that scores this record next: if a round ends before it, with the merged model adopted."""
    model = rebuild(sources, stored, committed, moment)
    if moment.offset in stored.metadata.lineage.skips:
        raise ConfigurationError(
            f"{model.topic}-{moment.partition}@{moment.offset}: expected an example that was answered, found one that "
            f"an operator has named to be skipped: it is in {sources.provenance.topics.dead_letters}"
        )
    if model.stops_before(record):
        model = rebuild(sources, stored._replace(model=model), committed, moment._replace(boundary="passed"))
    return model


def _check_answered(result: BatchResult, place: str, dead_letters: str) -> None:
    """Raise ConfigurationError if a record was a reject."""
    if result.predictions:
        return
    reject = result.rejects[0]
    raise ConfigurationError(
        f"{place}: expected an example, found a record that could not be used, and went to {dead_letters}: "
        f"{reject.reason.code}: {reject.message}"
    )


def _published(logs: Logs, topic: str, answer: Origin, fetch_records: int) -> bytes | None:
    """Return the message of this origin in the predictions topic; None if there is none, or it is gone.

    Answers are in the order of their examples, so a binary search finds from where to read.
    """
    partition = answer.partition
    low, high = logs.log_range(topic, partition)
    start, stop = low, high
    while stop - start > _SCANNED:
        middle = (start + stop) // 2
        record = first_record(logs, topic, partition, range(middle, high))
        origin = None if record is None else origin_of_prediction(record)
        if origin is None or (origin.topic, origin.partition) != (answer.topic, partition):
            break  # a message of another writer says nothing about the order
        if origin.example <= answer.example:
            start = middle
        else:
            stop = middle
    with closing(LogScan(logs, topic, partition, range(start, high), fetch_records)) as scan:
        while (record := scan.take()) is not None:
            origin = origin_of_prediction(record)
            if origin == answer:
                return record.value()
            if start > low and origin is not None and origin[1:3] == answer[1:3] and origin.example > answer.example:
                break
    return None
