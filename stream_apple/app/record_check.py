"""Looks at the newest records: what each of their fields becomes, and what the configuration names and none has.

A mistyped path of [input], or a mistyped namespace, is no fault by itself: a field may be absent from any record. But
then nothing is learned, or the setting has no effect, and nobody is told. So `check` says what the newest records lack.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster, Finding
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.registry.schema_registry import registry_of
from stream_apple.config import Config
from stream_apple.config.learner_settings import named_namespaces
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.learners.port import LearnerOptions
from stream_apple.nearest_names import missing
from stream_apple.records.census import FieldCensus, table_of
from stream_apple.records.framing import Schemas
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import ALL, OWN_MESSAGE
from stream_apple.records.parsing import parsed_record
from stream_apple.records.spelling import ParseError
from stream_apple.records.weights import WeightScale
from stream_apple.stream.log.contents import content_of
from stream_apple.stream.log.ports import Record

_RECORDS, _PARTITIONS = 500, 16
"""How many records are looked at, at most, and of how many partitions."""

_LACKING = {
    "label": "they are scored, and nothing is learned of them",
    "features": "each is a dead letter",
    "timestamp": "each is a dead letter",
    "weight": "each has the weight 1",
    "id": "no prediction has an id",
}
"""A setting of [input] that names a field -> what becomes of records without it."""


def check_records(config: Config) -> Iterator[Finding]:
    """Yield a table of the fields of the newest records, and a note for each thing that is named and that none has.

    A fault is a registry that does not tell the schema of one of them. It yields nothing for faults that other checks
    report, and where there are no records yet.
    """
    topic, labelled = config.topics.examples, True
    try:
        cluster = Cluster(config.kafka)
        found = _newest(config, cluster, topic)
        if not found and config.joining:
            topic, labelled = config.join.impressions, False
            found = _newest(config, cluster, topic)
    except (BrokerError, ConfigurationError, GapError):
        return
    mapping = config.input.mapping()
    try:
        schemas = registry_of(config, REQUEST_S)
        contents = [_content(record, schemas) for record in found]
    except (BrokerError, ConfigurationError) as error:
        setting, _, text = str(error).partition(": ")
        yield Finding("fault", setting, text)
        return
    mapper = RecordMapper(mapping or OWN_MESSAGE, own_message=mapping is None)
    census, weights = FieldCensus(mapper), WeightScale()
    for each in contents:
        if isinstance(each, dict):
            census.add(each)
            with suppress(ParseError):
                weights.add([mapper.example(each).example.weight])
    if census.records:
        roles = [role for role in _LACKING if labelled or role != "label"]
        for text in _lacking(census, roles, config.learner.options()):
            yield Finding("note", f"topic {topic}", text)
        if weights.hint:
            yield Finding("note", f"topic {topic}", weights.hint)
    if mapping is not None:
        yield from _refused(topic, found, contents, mapper)
    if census.records:
        lines = table_of(list(census.facts()))
        yield Finding("ok", f"topic {topic}", "\n    ".join([f"the fields of {census.records:,} records", *lines]))


def _newest(config: Config, cluster: Cluster, topic: str) -> Sequence[Record]:
    """Return the newest records of a topic, partition after partition; none if it does not exist or holds none."""
    places = [(topic, number) for number in range(min(cluster.topics.get(topic, 0), _PARTITIONS))]
    with closing(CommittedReader(config.kafka, config.worker.group, RetryPolicy(REQUEST_S))) as reader:
        ranges = {place: reader.committed_range(*place) for place in places}
        ends = {place: log.high for place, log in ranges.items() if log.low < log.high}
        if not ends:
            return []
        back = _RECORDS // len(ends)
        reader.begin({place: max(ranges[place].low, end - back) for place, end in ends.items()})
        return [record for found in reader.read_to(ends) for _, record in found]


def _content(record: Record, schemas: Schemas | None) -> object:
    """Return what the record holds, or the ParseError that says why it can't be read; BrokerError as of `schemas`."""
    try:
        return parsed_record(content_of(record, framed=schemas is not None) or b"", schemas)
    except ParseError as error:
        return error


def _lacking(census: FieldCensus, roles: Sequence[str], options: LearnerOptions) -> Iterator[str]:
    """Yield a text for each thing that is named, and that none of these records has."""
    mapping, where = census.mapper.mapping, f"none of the {census.records:,} newest records has"
    for role in roles:
        path = getattr(mapping, role)
        optional = role in {"weight", "id"} and path == getattr(OWN_MESSAGE, role)
        if path and path != ALL and path not in census.paths and not optional:
            yield f"input.{role}: {where} a field {path!r}, found {_others(path, census.paths)}: {_LACKING[role]}"
    for setting, pattern in mapping.idle_patterns(census.features):
        yield f"input.{setting}: {where} a feature {pattern!r}, found {_others(pattern, census.features)}"
    for setting, name in named_namespaces(options):
        if name not in census.spaces:
            yield f"learner.{setting}: {where} a namespace {name!r}, found {_others(name, census.spaces)}"


def _others(wanted: str, known: set[str]) -> str:
    return missing(wanted, sorted(known))


def _refused(
    topic: str, records: Sequence[Record], contents: Sequence[object], mapper: RecordMapper
) -> Iterator[Finding]:
    """Yield a note if records, which hold these contents, are no examples by [input]."""
    refused: list[tuple[Record, ParseError]] = []
    for record, content in zip(records, contents, strict=True):
        try:
            if isinstance(content, ParseError):
                raise content
            mapper.example(content)
        except ParseError as error:
            refused.append((record, error))
    for record, reason in refused[-1:]:
        place = f"{topic}-{record.partition()}@{record.offset()}"
        text = f"{len(refused):,} of the {len(records):,} newest records are dead letters by [input]; {place}: {reason}"
        yield Finding("note", f"topic {topic}", text)
