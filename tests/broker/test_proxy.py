"""The proxy does the harm that its rules name, on a real broker and with a real client."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from support.kafka.proxied import proxied_broker
from support.kafka.proxy import ANY, Harm, Proxy
from support.topics import read_all, unique_topics
from support.waiting import DEADLINE_S


@pytest.fixture(scope="module")
def shared_proxy(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The proxy of a broker that the tests here share."""
    with proxied_broker(tmp_path_factory.mktemp("proxied"), jars) as (_, proxy):
        yield proxy


@pytest.fixture
def proxy(shared_proxy: Proxy) -> Iterator[Proxy]:
    """The same, with no rule left over."""
    yield shared_proxy
    shared_proxy.restore()


@pytest.fixture
def topic(proxy: Proxy) -> str:
    """A topic of one partition."""
    return unique_topics(proxy.bootstrap)()


def producer(proxy: Proxy, *, transactional: bool = False) -> Producer:
    """A client that is ready, so that a rule meets what comes next."""
    names = {"transactional.id": uuid.uuid4().hex} if transactional else {"enable.idempotence": True}
    made = Producer({"bootstrap.servers": proxy.bootstrap, "linger.ms": 0, "log_level": 0, **names})
    if transactional:
        made.init_transactions(DEADLINE_S)
    return made


def produce(client: Producer, topic: str, value: bytes) -> None:
    """Send, and wait for the answer."""
    client.produce(topic, value, partition=0)
    assert client.flush(DEADLINE_S) == 0


def values(proxy: Proxy, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """What a reader finds."""
    return [message.value() for message in read_all(proxy.bootstrap, topic, 1, isolation)]


def test_delay(proxy: Proxy, topic: str) -> None:
    """The request is late by the drawn time; the next one is not."""
    client = producer(proxy)
    produce(client, topic, b"first")
    rule = proxy.strike("Produce", Harm.DELAY, seconds=0.6, jitter=0.1)
    began = time.monotonic()
    produce(client, topic, b"late")
    late = time.monotonic()
    produce(client, topic, b"soon")
    assert late - began >= 0.5
    assert time.monotonic() - late < 0.5
    assert [request.name for request in rule.struck] == ["Produce"]
    assert values(proxy, topic) == [b"first", b"late", b"soon"]


def test_hold_and_deliver_a_late_abort(proxy: Proxy, topic: str) -> None:
    """The client's second try succeeds; the first one aborts the next transaction, whose messages are lost."""
    client = producer(proxy, transactional=True)
    rule = proxy.strike("EndTxn abort", Harm.HOLD)
    client.begin_transaction()
    produce(client, topic, b"aborted")
    client.abort_transaction(DEADLINE_S)
    assert len(rule.struck) == 1
    assert proxy.seen["EndTxn abort"] >= 2
    client.begin_transaction()
    produce(client, topic, b"aborted by the late request")
    rule.deliver()
    with pytest.raises(KafkaException):
        client.commit_transaction(DEADLINE_S)
    assert values(proxy, topic) == []
    assert values(proxy, topic, "read_uncommitted") == [b"aborted", b"aborted by the late request"]


def test_a_held_request_comes_by_itself(proxy: Proxy, topic: str) -> None:
    """Without `deliver` it comes after its seconds; the broker knows the message already."""
    client = producer(proxy)
    produce(client, topic, b"first")
    rule = proxy.strike("Produce", Harm.HOLD, seconds=0.5)
    produce(client, topic, b"second")
    assert not rule.answered.is_set()
    assert rule.answered.wait(DEADLINE_S)
    assert values(proxy, topic) == [b"first", b"second"]


def test_silence(proxy: Proxy, topic: str) -> None:
    """The client waits as long as the request is held, and is answered then."""
    client = producer(proxy)
    produce(client, topic, b"first")
    rule = proxy.strike("Produce", Harm.SILENCE)
    client.produce(topic, b"second", partition=0)
    assert client.flush(0.5) == 1
    rule.deliver()
    assert client.flush(DEADLINE_S) == 0
    assert proxy.seen["Produce"] >= 2
    assert values(proxy, topic) == [b"first", b"second"]


def test_drop_the_answer(proxy: Proxy, topic: str) -> None:
    """The broker has done it, and the client asks again."""
    client = producer(proxy, transactional=True)
    rule = proxy.strike("EndTxn commit", Harm.DROP_ANSWER)
    before = proxy.seen["EndTxn commit"]
    client.begin_transaction()
    produce(client, topic, b"whole")
    client.commit_transaction(DEADLINE_S)
    assert rule.answered.is_set()
    assert proxy.seen["EndTxn commit"] == before + 2
    assert values(proxy, topic) == [b"whole"]


def test_duplicate(proxy: Proxy, topic: str) -> None:
    """The broker gets it twice, and the client sees one answer; without idempotence the message is there twice."""
    client = Producer({"bootstrap.servers": proxy.bootstrap, "linger.ms": 0, "log_level": 0})
    produce(client, topic, b"first")
    proxy.strike("Produce", Harm.DUPLICATE)
    produce(client, topic, b"twice")
    produce(client, topic, b"last")
    assert values(proxy, topic) == [b"first", b"twice", b"twice", b"last"]


def test_cut(proxy: Proxy, topic: str) -> None:
    """The request is never delivered on its connection; the client comes back on another."""
    client = producer(proxy)
    produce(client, topic, b"first")
    rule = proxy.strike("Produce", Harm.CUT)
    produce(client, topic, b"second")
    assert len(rule.struck) == 1
    assert values(proxy, topic) == [b"first", b"second"]


def test_black_hole(proxy: Proxy, topic: str) -> None:
    """Nothing comes through until the path is restored, and then all of it."""
    client = producer(proxy)
    produce(client, topic, b"first")
    proxy.black_hole()
    client.produce(topic, b"second", partition=0)
    assert client.flush(0.5) == 1
    proxy.restore()
    assert client.flush(DEADLINE_S) == 0
    assert values(proxy, topic) == [b"first", b"second"]


def test_any_request_is_counted_by_its_name(proxy: Proxy, topic: str) -> None:
    """Rules may take each request; what is seen has names."""
    rule = proxy.strike(ANY, Harm.DELAY, times=float("inf"), seconds=0.01)
    client = producer(proxy, transactional=True)
    client.begin_transaction()
    produce(client, topic, b"one")
    client.commit_transaction(DEADLINE_S)
    names = {request.name for request in rule.struck}
    assert {"ApiVersions", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn commit"} <= names
    assert all(request.client_id for request in rule.struck)
