"""A registry is asked once for what it knows, again and again for what it does not, and never by whoever decodes."""

import threading
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError
from support.waiting import wait_until

from stream_apple.adapters.registry import schema_registry
from stream_apple.adapters.registry.schema_registry import SchemaRegistry
from stream_apple.config import config_of
from stream_apple.errors import BrokerError, ConfigurationError


class Client:
    """A registry's client, with what it is to answer."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.asked: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def get_schema(self, schema: int) -> Schema:
        """Answer, or raise."""
        self.asked.append(schema)
        assert self.may_answer.wait(10)
        found = self.answers.get(schema, SchemaRegistryError(404, 40403, "no such schema"))
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]


@pytest.fixture
def clock() -> list[float]:
    """Seconds, to be set."""
    return [0.0]


@pytest.fixture
def client() -> Client:
    """It knows nothing."""
    return Client()


@pytest.fixture
def registry(client: Client, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    """Of that client, on that clock."""
    monkeypatch.setattr(schema_registry, "_client", lambda _: client)
    yield SchemaRegistry({"url": "http://registry:8081"}, lambda: clock[0])
    client.may_answer.set()


def test_who_asks_does_not_wait_and_each_schema_is_asked_for_once(registry: SchemaRegistry, client: Client) -> None:
    """However often somebody asks meanwhile."""
    client.answers[5] = Schema('"double"', "AVRO")
    client.may_answer.clear()
    assert not registry.known(5)
    assert not registry.known(5)
    client.may_answer.set()
    wait_until(lambda: registry.known(5), "the schema")
    assert registry.parsed(5, bytes(8)) == 0.0
    assert client.asked == [5]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "no such schema (HTTP status code 404, SR code 40403)"),
        (OSError("Connection refused"), "OSError: Connection refused"),
        (Schema("{", "AVRO"), "a schema that is no JSON"),
        (JSONDecodeError("Expecting value", "<html>", 0), "an answer that is no JSON"),
        (SchemaRegistryError(502, -1, "b'<html>'"), "HTTP status 502 with an answer that is no registry's"),
        (TypeError("pop expected at most 1 argument, got 2"), "an answer that is no registry's"),
        (Schema("", "XML"), "expected a schema of type AVRO, PROTOBUF or JSON, found XML"),
    ],
)
def test_a_fault_is_kept_and_the_question_asked_again_ever_more_slowly(
    registry: SchemaRegistry, client: Client, clock: list[float], answer: Any, told: str
) -> None:
    """Half a second, a second, two: fifteen at most. One day the answer is there."""
    if answer is not None:
        client.answers[5] = answer
    waits: list[float] = []
    for number in range(1, 9):
        before = clock[0]
        while len(client.asked) < number:
            registry.known(5)
            for thread in [each for each in threading.enumerate() if each.name == "schema"]:
                thread.join()
            clock[0] += 0.25
        waits.append(clock[0] - before)
        wait_until(lambda: told in registry.fault(5), "the fault")
    assert waits[1:] == sorted(waits[1:])
    assert 14.0 < waits[-1] < 16.0
    client.answers[5] = Schema('{"type": "object"}', "JSON")
    clock[0] += 20
    wait_until(lambda: registry.known(5), "the schema")
    assert registry.parsed(5, b'{"a": 1}') == {"a": 1}


def test_a_command_waits_for_a_while(
    registry: SchemaRegistry, client: Client, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says what it has waited for, where, and why in vain."""

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        threading.Event().wait(0.0001)

    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(BrokerError) as caught:
        registry.parsed(9, b"")
    assert "expected schema 9 from http://registry:8081 within 15 s, found: no such schema" in str(caught.value)
    assert len(client.asked) < 20


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"basic.auth.userinfo": "a:b"}, "registry: Unrecognized properties: basic.auth.userinfo"),
        ({"ssl.ca.location": "/no/such/file"}, "registry: "),
    ],
)
def test_properties_that_no_client_takes_are_refused(settings: dict[str, Any], told: str) -> None:
    """Before anything starts."""
    config = config_of({"registry": {"url": "http://registry:8081", **settings}}, "here")
    with pytest.raises(ConfigurationError) as caught:
        SchemaRegistry(config.registry)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ssl.ca.location": "x"}, "registry: url: expected the address of a registry, such as http://registry:8081"),
        ({"url": "registry:8081"}, "found 'registry:8081'"),
        ({"url": "http://registry:8081", "timeout": "soon"}, "timeout: expected a number, found 'soon'"),
        ({"url": "http://me:mine@registry:8081"}, "expected an address without user and password"),
        ({"url": ["http://registry:8081"]}, "registry.url (in here): expected text, a number, true or false"),
    ],
)
def test_settings_that_can_not_work_are_refused(settings: dict[str, Any], told: str) -> None:
    """By the configuration itself, where they stand."""
    with pytest.raises(ConfigurationError) as caught:
        config_of({"registry": settings}, "here")
    assert told in str(caught.value)
    assert "mine@" not in str(caught.value)


def test_a_registry_is_part_of_the_model_and_its_properties_are_not() -> None:
    """With one, records can be read that were dead letters."""
    there = [{"url": "http://a:1"}, {"url": "http://b:2", "basic.auth.user.info": "me:secret"}]
    first, second = (config_of({"registry": each}, "here") for each in there)
    assert first.model_settings() == second.model_settings() != config_of({}, "here").model_settings()
    assert second.redacted()["registry"]["basic.auth.user.info"] == "***"
