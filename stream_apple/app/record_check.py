"""Looks at the newest records for what the configuration names and none of them has.

A mistyped path of [input], or a mistyped namespace, is no fault by itself: a field may be absent from any record. But
then nothing is learned, or the setting has no effect, and nobody is told. So `check` says what the newest records lack.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster, Finding
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.registry.schema_registry import registry_of
from stream_apple.config import Config
from stream_apple.config.learner_settings import named_namespaces
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.learners.port import LearnerOptions
from stream_apple.nearest_names import missing
from stream_apple.records.framing import Schemas
from stream_apple.records.mapper import DEEPEST, RecordMapper
from stream_apple.records.mapping import ALL, OWN_MESSAGE, InputMapping
from stream_apple.records.parsing import parsed_record
from stream_apple.records.spelling import ParseError
from stream_apple.stream.log.ports import Record

_RECORDS, _PARTITIONS = 100, 16
"""How many records are looked at, at most, and of how many partitions."""
_MOST_PATHS = 10_000

_LACKING = {
    "label": "they are scored, and nothing is learned of them",
    "features": "each is a dead letter",
    "timestamp": "each is a dead letter",
    "weight": "each has the weight 1",
    "id": "no prediction has an id",
}
"""A setting of [input] that names a field -> what becomes of records without it."""


class _Shape(NamedTuple):
    """What parsed records have: the paths of all their fields, and those of fields that are namespaces."""

    paths: set[str]
    spaces: set[str]


def check_records(config: Config) -> Iterator[Finding]:
    """Yield a note for each thing that the configuration names and that none of the newest records has.

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
    parsed = [each for each in contents if isinstance(each, dict)]
    if parsed:
        roles = [role for role in _LACKING if labelled or role != "label"]
        for text in _lacking(parsed, mapping or OWN_MESSAGE, roles, config.learner.options()):
            yield Finding("note", f"topic {topic}", text)
    if mapping is not None:
        yield from _refused(topic, found, contents, RecordMapper(mapping))


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
        return parsed_record(record.value() or b"", schemas)
    except ParseError as error:
        return error


def _shape(records: Iterable[Mapping[Any, Any]], separator: str) -> _Shape:
    shape = _Shape(set(), set())

    def walk(fields: Mapping[Any, Any], prefix: str, depth: int) -> None:
        for name, value in fields.items():
            if len(shape.paths) >= _MOST_PATHS or not isinstance(name, str):
                continue
            path = prefix + name
            shape.paths.add(path)
            if isinstance(value, dict | list):
                shape.spaces.add(path)
            if isinstance(value, dict) and depth < DEEPEST:
                walk(value, path + separator, depth + 1)

    for fields in records:
        walk(fields, "", 1)
    return shape


def _lacking(
    records: Sequence[Mapping[Any, Any]], mapping: InputMapping, roles: Sequence[str], options: LearnerOptions
) -> Iterator[str]:
    """Yield a text for each thing that is named, and that none of these records has."""
    shape = _shape(records, mapping.separator)
    where = f"none of the {len(records):,} newest records has"
    for role in roles:
        path = getattr(mapping, role)
        optional = role in {"weight", "id"} and path == getattr(OWN_MESSAGE, role)
        if path and path != ALL and path not in shape.paths and not optional:
            yield f"input.{role}: {where} a field {path!r}, found {_others(path, shape.paths)}: {_LACKING[role]}"
    below = "" if mapping.features == ALL else mapping.features + mapping.separator
    features, spaces = (
        {path.removeprefix(below) for path in paths if path.startswith(below)} for paths in (shape.paths, shape.spaces)
    )
    for setting, pattern in mapping.idle_patterns(features):
        yield f"input.{setting}: {where} a feature {pattern!r}, found {_others(pattern, features)}"
    for setting, name in named_namespaces(options):
        if name not in spaces:
            yield f"learner.{setting}: {where} a namespace {name!r}, found {_others(name, spaces)}"


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
