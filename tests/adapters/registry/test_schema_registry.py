"""A registry is asked once for what it knows, again and again if it does not answer, and never by whoever decodes."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from structlog.testing import capture_logs
from support.waiting import wait_until

from stream_apple.adapters.registry import schema_registry
from stream_apple.adapters.registry.registry_client import AnswerError, MissingError
from stream_apple.adapters.registry.schema_registry import PATIENCE_S, SchemaRegistry
from stream_apple.config import config_of
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

GUID = "89791762-2336-7186-9674-299b90a802e2"
DOUBLE = Schema('"double"', "AVRO")


class Client:
    """A registry's client, with what it is to answer: a schema, or an error."""

    def __init__(self) -> None:
        self.answers: dict[int | str, Any] = {}
        self.asked: list[int | str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def schema(self, schema: int | str) -> tuple[Schema, dict[str, str]]:
        """Answer, or raise."""
        self.asked.append(schema)
        assert self.may_answer.wait(10)
        found = self.answers.get(schema, MissingError("no such schema (HTTP status 404, error code 40403)"))
        if isinstance(found, Exception):
            raise found
        return found, {}


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
    monkeypatch.setattr(schema_registry, "RegistryClient", lambda _: client)
    yield SchemaRegistry({"url": "http://registry:8081"}, lambda: clock[0])
    client.may_answer.set()


def settle(registry: SchemaRegistry) -> None:
    """Wait until each question has its answer."""
    wait_until(lambda: registry._asking == 0, "the answers")


@pytest.mark.parametrize("schema", [5, GUID])
def test_who_asks_does_not_wait_and_each_schema_is_asked_for_once(
    registry: SchemaRegistry, client: Client, schema: int | str
) -> None:
    """However often somebody asks meanwhile."""
    client.answers[schema] = DOUBLE
    client.may_answer.clear()
    assert not registry.known(schema)
    assert not registry.known(schema)
    assert registry.fault(schema) == ""
    client.may_answer.set()
    wait_until(lambda: registry.known(schema), "the schema")
    assert registry.parsed(schema, bytes(8)) == 0.0
    assert client.asked == [schema]


@pytest.mark.parametrize("fault", [AnswerError("ConnectError: refused"), OSError("No space left on device")])
def test_a_registry_that_does_not_answer_is_asked_ever_more_slowly(
    registry: SchemaRegistry, client: Client, clock: list[float], fault: Exception
) -> None:
    """Half a second, a second, two: fifteen at most. One day the answer is there, and no record was refused."""
    client.answers[5] = fault
    waits: list[float] = []
    for number in range(1, 30):
        before = clock[0]
        while len(client.asked) < number:
            assert not registry.known(5)
            settle(registry)
            clock[0] += 0.25
        waits.append(clock[0] - before)
        assert str(fault) in registry.fault(5)
    assert waits[1:] == sorted(waits[1:])
    assert 14.0 < waits[-1] < 16.0
    client.answers[5] = Schema('{"type": "object"}', "JSON")
    clock[0] += 20
    wait_until(lambda: registry.known(5), "the schema")
    assert registry.parsed(5, b'{"a": 1}') == {"a": 1}


def test_a_schema_that_does_not_exist_is_waited_for_some_seconds(
    registry: SchemaRegistry, client: Client, clock: list[float]
) -> None:
    """A value may begin with a zero byte by chance. The number may be given to a schema later."""
    with capture_logs() as logs:
        while not registry.known(5):
            assert clock[0] <= PATIENCE_S + 1
            settle(registry)
            clock[0] += 0.25
    assert clock[0] >= PATIENCE_S
    assert [(each["event"], each["schema"]) for each in logs] == [("schema_refused", 5)]
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            registry.parsed(5, b"x")
        assert caught.value.reason is Reason.MALFORMED
        assert str(caught.value) == (
            "expected a schema that can be read (the registry answers: no such schema (HTTP status 404, error code "
            "40403)), found schema 5"
        )
    asked = len(client.asked)
    client.answers[5] = DOUBLE
    clock[0] += 20
    assert not registry.known(5)
    wait_until(lambda: registry.known(5), "the schema")
    assert registry.parsed(5, bytes(8)) == 0.0
    assert len(client.asked) == asked + 1


def test_it_is_refused_while_it_is_asked_for_again(
    registry: SchemaRegistry, client: Client, clock: list[float]
) -> None:
    """Whoever decodes has been let pass, and must not wait."""
    while not registry.known(5):
        settle(registry)
        clock[0] += 0.25
    client.may_answer.clear()
    clock[0] += 20
    assert not registry.known(5)
    with pytest.raises(RefusedError):
        registry.parsed(5, b"x")


def test_an_outage_in_between_does_not_end_the_wait(
    registry: SchemaRegistry, client: Client, clock: list[float]
) -> None:
    """Only an answer decides."""
    registry.known(5)
    settle(registry)
    client.answers[5] = AnswerError("ConnectError: refused")
    for _ in range(400):
        clock[0] += 0.25
        assert not registry.known(5)
        settle(registry)
    client.answers.clear()
    clock[0] += 20
    registry.known(5)
    settle(registry)
    assert registry.known(5)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (Schema("{", "AVRO"), "it is not JSON: "),
        (Schema('"Gone"', "AVRO"), "it is not a schema of Avro: Gone"),
        (Schema("message", "PROTOBUF"), "protoc: schema_of_the_topic.proto:"),
        (Schema('"\ud800"', "AVRO"), "it has a name with half of a surrogate pair"),
        (Schema("x", "XML"), "it is of no type that is read: AVRO, PROTOBUF, or JSON"),
    ],
)
def test_a_schema_that_can_not_be_read_is_refused(
    registry: SchemaRegistry, client: Client, schema: Schema, fault: str
) -> None:
    """At once, as a registry does not change a schema; each of its records says why."""
    client.answers[5] = schema
    with capture_logs() as logs:
        wait_until(lambda: registry.known(5), "the schema")
    with pytest.raises(RefusedError) as caught:
        registry.parsed(5, b"x")
    assert caught.value.reason is Reason.MALFORMED
    assert str(caught.value).startswith(f"expected a schema that can be read ({fault}")
    assert str(caught.value).endswith("), found schema 5")
    assert str(caught.value).encode()
    assert [(each["event"], each["schema"]) for each in logs] == [("schema_refused", 5)]
    assert client.asked == [5]


def test_no_registry_is_asked_for_a_number_that_none_gives(registry: SchemaRegistry, client: Client) -> None:
    """Numbers have 31 bits; half of all values that begin with a zero byte by chance name another one."""
    assert registry.known(1 << 31)
    with pytest.raises(RefusedError, match=r"\(the numbers of schemas end at 2,147,483,647\), found schema 2147483648"):
        registry.parsed(1 << 31, b"")
    assert client.asked == []


def test_few_schemas_are_asked_for_at_a_time(registry: SchemaRegistry, client: Client) -> None:
    """Bytes that only look like frames name any number of them."""
    client.may_answer.clear()
    assert not any(map(registry.known, range(100)))
    wait_until(lambda: len(client.asked) == schema_registry._MOST_ASKING, "the questions")
    assert threading.active_count() < 50
    client.may_answer.set()
    settle(registry)
    assert not registry.known(50)


def test_many_schemas_that_do_not_exist_are_refused_together(
    registry: SchemaRegistry, client: Client, clock: list[float]
) -> None:
    """A partition does not wait for each of them: they count from when they were first needed."""
    schemas = range(100)
    assert not any(map(registry.known, schemas))
    settle(registry)
    clock[0] += PATIENCE_S
    with capture_logs() as logs:
        for _ in range(1 + len(schemas) // schema_registry._MOST_ASKING):
            list(map(registry.known, schemas))
            settle(registry)
    assert all(map(registry.known, schemas))
    assert len(client.asked) <= 2 * len(schemas)
    assert [each["event"] for each in logs] == ["schema_refused"]


def test_schemas_that_do_not_exist_are_forgotten(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be any number of them."""
    monkeypatch.setattr(schema_registry, "_MOST_AWAITED", 10)
    for number in range(100):
        registry.known(number)
        settle(registry)
    assert len(registry._awaited) <= 10


@pytest.mark.parametrize(
    ("answer", "expected", "kind"),
    [
        (None, "expected a schema that can be read (the registry answers: no such schema", RefusedError),
        (
            AnswerError("refused"),
            "expected schema 9 from http://registry:8081 within 15 s, found: refused",
            BrokerError,
        ),
    ],
)
def test_a_command_waits_for_a_while(
    registry: SchemaRegistry,
    client: Client,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    expected: str,
    kind: type[Exception],
) -> None:
    """And says what it has waited for, where, and why in vain."""
    if answer is not None:
        client.answers[9] = answer

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        threading.Event().wait(0.0001)

    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(kind) as caught:
        registry.parsed(9, b"")
    assert expected in str(caught.value)
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
