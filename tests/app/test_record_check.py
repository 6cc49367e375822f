"""What `check` says of the newest records: what is named in the configuration, and no record has."""

import json
from typing import Any

import msgpack
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema
from support.topics import TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S

from stream_apple.adapters.registry import schema_registry
from stream_apple.adapters.registry.registry_client import AnswerError, MissingError
from stream_apple.app import record_check
from stream_apple.app.record_check import check_records
from stream_apple.config import Config

FLAT = {"clicked": 1, "city": "Rome", "user": {"zip": 3}, "words": ["a", "b"]}
OWN = {"label": 1, "features": {"user": {"age": 3}}}
THERE = "'city', 'clicked', 'user', 'user.zip', 'words'"
FOUND = "found only 'features', 'features.a', 'labl': they are scored, and nothing is learned of them"
Settings = dict[str, dict[str, Any]]


def write(kafka: str, topic: str, *values: bytes, partition: int = 0) -> None:
    """These records."""
    producer = Producer({"bootstrap.servers": kafka})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def notes(kafka: str, topics: dict[str, str], settings: Settings) -> list[str]:
    """What `check` says of the records."""
    config = Config.model_validate({"kafka": {"bootstrap.servers": kafka}, "topics": topics, **settings})
    found = list(check_records(config))
    assert {each.verdict for each in found} <= {"note", "ok"}
    tables = [each.text for each in found if each.verdict == "ok"]
    assert all(text.startswith("the fields of ") for text in tables)
    return [each.text for each in found if each.verdict == "note"]


@pytest.mark.parametrize(
    ("record", "settings", "expected"),
    [
        (OWN, {}, []),
        (
            {"labl": 1, "features": {"a": 1}},
            {},
            [f"input.label: none of the 2 newest records has a field 'label', {FOUND}"],
        ),
        (
            OWN,
            {"learner": {"ngrams": {"text": 2, "user": 2}}},
            [
                "learner.ngrams: none of the 2 newest records has a namespace 'text', found only 'user'",
            ],
        ),
        (
            FLAT,
            {
                "input": {
                    "features": "*",
                    "label": "clicked",
                    "ignore": ["user.*"],
                    "categories": ["user.zip", "city"],
                    "numbers": ["words"],
                }
            },
            [],
        ),
        (
            FLAT,
            {
                "input": {
                    "features": "*",
                    "label": "click",
                    "id": "user.name",
                    "ignore": ["debug.*"],
                    "times": ["when"],
                }
            },
            [
                f"input.{setting}: none of the 2 newest records has a {named}, found only {THERE}{end}"
                for setting, named, end in (
                    ("label", "field 'click'", ": they are scored, and nothing is learned of them"),
                    ("id", "field 'user.name'", ": no prediction has an id"),
                    ("ignore", "feature 'debug.*'", ""),
                    ("times", "feature 'when'", ""),
                )
            ],
        ),
    ],
)
def test_what_no_record_has(
    kafka: str, topic: TopicFactory, record: dict[str, Any], settings: Settings, expected: list[str]
) -> None:
    """Fields by their path, patterns, and namespaces; in either format, in any partition."""
    topics = create_worker_topics(topic, 2)
    assert notes(kafka, topics, settings) == []  # without records there is nothing to say
    write(kafka, topics["examples"], json.dumps(record).encode())
    packed: bytes = msgpack.packb(record)
    write(kafka, topics["examples"], packed, partition=1)
    assert notes(kafka, topics, settings) == expected


def test_records_that_the_mapping_refuses(kafka: str, topic: TopicFactory) -> None:
    """They are counted, and the newest of them is told."""
    topics = create_worker_topics(topic)
    good, bad = json.dumps(FLAT | {"at": 1_700_000_000}).encode(), json.dumps(FLAT | {"at": "soon"}).encode()
    write(kafka, topics["examples"], good, bad, b"{", bad, good)
    settings = {"input": {"features": "*", "label": "clicked", "timestamp": "at"}}
    (text,) = notes(kafka, topics, settings)
    said = f"3 of the 5 newest records are dead letters by [input]; {topics['examples']}-0@3: expected "
    assert text.startswith(said)
    assert text.endswith("as 'at', found soon")


def test_the_fields_are_shown(kafka: str, topic: TopicFactory) -> None:
    """With what each becomes, and what else it may be meant to be."""
    topics = create_worker_topics(topic)
    record = {"clicked": 1, "at": "2024-05-01 10:00:00 UTC", "visits": "281", "price": 3.5, "w": 0.001}
    write(kafka, topics["examples"], *[json.dumps(record).encode()] * 3)
    settings = {"input": {"features": "*", "label": "clicked", "weight": "w"}}
    config = Config.model_validate({"kafka": {"bootstrap.servers": kafka}, "topics": topics, **settings})
    *found, (_, _, table) = check_records(config)
    lines = [" ".join(line.split()) for line in table.splitlines()]
    hint = "looks like a time: input.times at makes hour, weekday, and month of it"
    assert lines == [
        "the fields of 3 records",
        "field becomes missing example",
        "clicked label 0% 1",
        f'at category 0% "2024-05-01 10:00:00 UTC" {hint}',
        'visits category 0% "281" every value is text that spells a number; input.numbers visits reads it as one',
        "price number 0% 3.5",
        "w weight 0% 0.001",
    ]
    assert [each.text.partition(",")[0] for each in found] == ["the mean of the first 3 weights is 0.001"]


class Registry:
    """A registry's client that knows one schema, and does not reach the registry for another."""

    def schema(self, schema: int | str) -> tuple[Schema, dict[str, str]]:
        """Return it, or refuse another number."""
        if schema == 8:
            raise MissingError("no such schema (HTTP status 404, error code 40403)")
        if schema != 7:
            raise AnswerError("ConnectError: refused")
        return Schema('{"type": "record", "name": "R", "fields": [{"name": "clickd", "type": "int"}]}', "AVRO"), {}


def test_records_with_a_schema(kafka: str, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at like others; nothing was said of a mistyped path, nor of a registry that is not there."""
    monkeypatch.setattr(schema_registry, "RegistryClient", lambda _: Registry())
    monkeypatch.setattr(record_check, "registry_of", lambda config, _: schema_registry.registry_of(config, 0.2))
    topics = create_worker_topics(topic)
    settings: Settings = {"input": {"label": "clicked", "features": "*"}, "registry": {"url": "http://registry:8081"}}
    write(kafka, topics["examples"], b"\0\0\0\0\x07\x02")
    (text,) = notes(kafka, topics, settings)
    assert text.startswith("input.label: none of the 1 newest records has a field 'clicked', found only 'clickd'")
    write(kafka, topics["examples"], b"\0\0\0\0\x08\x02")
    assert "1 of the 2 newest records are dead letters by [input]" in notes(kafka, topics, settings)[-1]
    write(kafka, topics["examples"], b"\0\0\0\0\x09\x02")
    config = Config.model_validate({"kafka": {"bootstrap.servers": kafka}, "topics": topics, **settings})
    (fault,) = check_records(config)
    assert (fault.verdict, fault.subject) == ("fault", "registry.url")
    assert fault.text.startswith(
        "expected schema 9 from http://registry:8081 within 0.2 s, found: ConnectError: refused"
    )


def test_impressions_before_there_are_examples(kafka: str, topic: TopicFactory) -> None:
    """A joiner puts the label in, so that none of them needs one."""
    topics = create_worker_topics(topic)
    impressions = topic("impressions")
    write(kafka, impressions, json.dumps(FLAT | {"id": "a"}).encode())
    settings: Settings = {
        "input": {"features": "*", "ignore": ["debug"]},
        "join": {"impressions": impressions, "outcomes": topic("outcomes")},
    }
    (text,) = notes(kafka, topics, settings)
    assert text.startswith("input.ignore: none of the 1 newest records has a feature 'debug'")
