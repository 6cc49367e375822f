"""A cluster that is gone: what is logged, how long it is waited for, and what the operator is told."""

import json
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from structlog.typing import EventDict
from support.assignment import Recorder
from support.clock import Clock
from support.kafka.broker import Broker
from support.kafka.connections import fetch_some, fetch_until, fill
from support.kafka.forgetful import ForgetfulBroker
from support.ports import free_ports
from support.topics import FOREVER, create_topics
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, Properties, open_clients, reader_properties
from stream_apple.adapters.kafka.connectivity import (
    ASK_AFTER_S,
    FORGOTTEN_S,
    PROBE_INTERVAL_S,
    Connectivity,
    connection_error,
    is_authentication_error,
    knows_brokers,
    latest_answer,
)
from stream_apple.errors import BrokerError


class Cluster:
    """A cluster that answers when told to, and a clock that its questions move."""

    def __init__(self) -> None:
        self.answers = False
        self.clock = Clock(100.0)
        self.asked: list[float] = []

    def probe(self) -> bool:
        """Half a second if nobody answers."""
        self.asked.append(self.clock())
        self.clock.now += 0.0 if self.answers else 0.5
        return self.answers

    def watch(self, limit_s: float = 20.0) -> Connectivity:
        """What watches it."""
        return Connectivity({"bootstrap.servers": "one:9092"}, self.probe, limit_s, self.clock)


class TestConnectivity:
    """From librdkafka's reports to two log lines and an end."""

    def test_nobody_is_asked_without_a_report(self) -> None:
        """An idle worker sends no questions."""
        cluster = Cluster()
        connectivity = cluster.watch()
        connectivity.check()
        connectivity.confirm()
        assert cluster.asked == []

    def test_nobody_is_asked_while_brokers_are_heard(self) -> None:
        """A quiet stream is none of silent brokers: whatever they send, heartbeats at least, is an answer."""
        cluster = Cluster()
        connectivity = cluster.watch()
        for _ in range(100):
            connectivity.check()
            cluster.clock.now += ASK_AFTER_S / 2
            connectivity.hear(cluster.clock.now)
        assert cluster.asked == []

    def test_silence_is_asked_about(self, log_events: list[EventDict]) -> None:
        """Nothing has been reported, as when a broker is frozen: it is found out, told, and waited for."""
        cluster = Cluster()
        connectivity = cluster.watch()
        connectivity.check()
        connectivity.hear(90.0)  # older than what is known
        cluster.clock.now += ASK_AFTER_S - 0.1
        connectivity.check()
        assert (connectivity.reachable, cluster.asked) == (True, [])
        cluster.clock.now += 0.1
        connectivity.check()
        assert (connectivity.reachable, cluster.asked) == (False, [100.0 + ASK_AFTER_S])
        (gone,) = log_events
        assert (gone["event"], gone["error"]) == ("brokers_unreachable", "nothing has come from any broker for 6 s")
        cluster.clock.now += PROBE_INTERVAL_S
        cluster.answers = True
        connectivity.check()
        assert connectivity.reachable

    def test_silence_that_proves_wrong(self, log_events: list[EventDict]) -> None:
        """A member that waits for others to join hears nothing for minutes, and is answered whenever it asks."""
        cluster = Cluster()
        cluster.answers = True
        connectivity = cluster.watch()
        for _ in range(600):
            connectivity.check()
            assert connectivity.reachable
            cluster.clock.now += 0.1
        assert log_events == []
        assert 8 <= len(cluster.asked) <= 10

    def test_a_report_that_proves_wrong_is_silent(self, log_events: list[EventDict]) -> None:
        """Brokers close idle connections, which the client reports as well; a question is then answered."""
        cluster = Cluster()
        cluster.answers = True
        connectivity = cluster.watch()
        connectivity.suspect("1/1 brokers are down")
        connectivity.check()
        connectivity.check()
        assert log_events == []
        assert cluster.asked == [100.0]

    def test_an_outage_is_logged_once_and_its_end_once(self, log_events: list[EventDict]) -> None:
        """However often the client reports it; questions are asked every PROBE_INTERVAL_S seconds."""
        cluster = Cluster()
        connectivity = cluster.watch()
        for _ in range(100):
            connectivity.suspect("1/1 brokers are down")
            connectivity.check()
            cluster.clock.now += 0.1
        cluster.answers = True
        for _ in range(100):
            connectivity.check()
            cluster.clock.now += 0.1
            if connectivity.reachable:
                connectivity.hear(cluster.clock.now)
        gone, back = log_events
        assert (gone["event"], back["event"]) == ("brokers_unreachable", "brokers_reachable")
        assert 10 <= back["seconds"] <= 17
        assert (gone["address"], gone["error"]) == ("one:9092", "1/1 brokers are down")
        gaps = [later - earlier for earlier, later in zip(cluster.asked, cluster.asked[1:], strict=False)]
        assert gaps
        assert all(PROBE_INTERVAL_S <= gap < PROBE_INTERVAL_S + 1 for gap in gaps)

    def test_the_limit_ends_the_wait(self) -> None:
        """The error says how long was waited, for whom, and the client's own reason; not before the limit."""
        cluster = Cluster()
        connectivity = cluster.watch()
        connectivity.suspect("connection refused")

        def wait() -> None:
            while cluster.clock.now < 200:
                connectivity.check()
                cluster.clock.now += 0.1

        with pytest.raises(BrokerError, match=r"answer from one:9092 within 20 s, found none for 2\d s: connection"):
            wait()
        assert 120 <= cluster.clock.now < 125

    def test_an_answer_in_between_starts_the_count_anew(self) -> None:
        """Two outages of twelve seconds are not one of twenty-four."""
        cluster = Cluster()
        connectivity = cluster.watch()
        for _ in range(4):
            connectivity.suspect("down")
            for _ in range(120):
                connectivity.check()
                cluster.clock.now += 0.1
            connectivity.confirm()

    def test_a_client_that_has_forgotten_its_brokers(self) -> None:
        """It is told at the end of a moment in which others might be named, and not if they are."""
        cluster = Cluster()
        cluster.answers = True
        connectivity = cluster.watch()
        nobody, somebody = statistics(), statistics("learned")
        for told in (nobody, somebody, nobody):
            connectivity.learn(told)
            cluster.clock.now += FORGOTTEN_S - 0.1
            connectivity.check()
        connectivity.learn(nobody)
        cluster.clock.now += 0.2
        with pytest.raises(BrokerError, match="to know a broker of one:9092, found that it has forgotten all"):
            connectivity.check()


def statistics(*sources: str) -> str:
    """What librdkafka tells of brokers from these sources, and of itself and a coordinator."""
    brokers = {
        f"broker-{number}": {"source": source, "rxidle": -1}
        for number, source in enumerate(("internal", "logical", *sources))
    }
    return json.dumps({"ts": 100_000_000, "brokers": brokers})


def test_who_has_an_address() -> None:
    """What was configured and what was learned has; the coordinator is another name for one of these."""
    assert not knows_brokers(json.loads(statistics()))
    assert knows_brokers(json.loads(statistics("configured")))
    assert knows_brokers(json.loads(statistics("learned")))


def test_when_a_broker_was_heard() -> None:
    """The latest of all; connections that have had no answer yet have no say."""
    brokers = {"one": {"rxidle": 2_500_000}, "two": {"rxidle": 1_500_000}, "new": {"rxidle": -1}}
    assert latest_answer({"ts": 100_000_000, "brokers": brokers}) == 98.5
    assert latest_answer({"ts": 100_000_000, "brokers": {"new": {"rxidle": -1}}}) is None


@pytest.mark.parametrize(
    ("code", "text", "refused"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", True),
        (KafkaError._SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed", True),
        (KafkaError._TRANSPORT, "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required", True),
        (KafkaError._TRANSPORT, "error:0A000412:SSL routines::ssl/tls alert bad certificate: alert number 42", True),
        (KafkaError._SSL, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", False),
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed: Connection refused", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", False),
    ],
)
def test_failed_authentication_is_told_from_an_outage(code: int, text: str, refused: bool) -> None:  # noqa: FBT001  a table's column
    """Who is refused must be mended by a person; a broker that is away, or going away, comes back."""
    assert is_authentication_error(KafkaError(code, text)) is refused


@pytest.fixture
def short_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is heard after a second than after three."""
    monkeypatch.setattr("stream_apple.adapters.kafka.connectivity._DIAGNOSIS_S", 1.0)


@pytest.mark.usefixtures("short_diagnosis")
def test_nobody_listens() -> None:
    """There is an error to report, and it is not one of authentication."""
    found = connection_error({"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    assert found is not None
    assert not is_authentication_error(found)


@pytest.mark.usefixtures("short_diagnosis")
def test_somebody_listens_and_is_silent() -> None:
    """As a broker whose process is stopped: nothing is found out, and that does not take for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = connection_error({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
    assert found is None or not is_authentication_error(found)


@pytest.fixture(scope="module")
def breakable(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that tests may stop and kill."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), jars)
    yield broker
    broker.kill()


@pytest.fixture
def examples(breakable: Broker) -> str:
    """A topic of the broker, which runs, that holds ten records."""
    if not breakable.running:
        breakable.start()
    name = f"examples-{uuid.uuid4().hex}"
    create_topics(breakable.bootstrap, NewTopic(name, 1, 1, config=FOREVER))
    fill(breakable.bootstrap, name, 10)
    return name


def test_a_worker_outlives_a_broker_that_returns(breakable: Broker, examples: str, log_events: list[EventDict]) -> None:
    """With no transaction open: one line when it goes, one when it is back, and the records that come then."""
    worker = KafkaBroker({"bootstrap.servers": breakable.bootstrap}, Identity(examples, "i", examples), examples)
    try:
        worker.join(Recorder({0: 0}))
        fetch_some(worker, 10)
        breakable.kill()  # one that stops in order may name no brokers at last, so that the client forgets its own
        fetch_until(worker, lambda _: len(log_events) > 0, "the outage was noticed")
        for _ in range(50):
            worker.fetch(1000, 0.1)
        breakable.start()
        fill(breakable.bootstrap, examples, 5)
        records = fetch_until(worker, lambda _: len(log_events) > 1, "the return was noticed")
        records += fetch_some(worker, 5 - len(records))
        assert [record.offset() for record in records] == list(range(10, 15))
        events = [(log["event"], log.get("address")) for log in log_events if log["event"].startswith("brokers")]
        address = breakable.bootstrap
        assert events == [("brokers_unreachable", address), ("brokers_reachable", address)]
    finally:
        worker.close()


def test_a_client_that_forgets_its_broker() -> None:
    """A worker's leaves, for it finds nobody any more; those that only read look for the broker themselves.

    The day on which the worker's does find it, librdkafka 5301 is mended.
    """
    with ForgetfulBroker("examples") as broker:
        properties: Properties = {"bootstrap.servers": broker.bootstrap, "topic.metadata.refresh.interval.ms": 300}
        connectivity = Connectivity(properties, lambda: True)
        identity = Identity("g", "i", "t")
        member, open_producer = open_clients(properties, identity, lambda _: None, connectivity.learn)
        producer = open_producer(lambda: None)
        reader = Consumer(reader_properties(properties, "g"))
        for client in (member, producer, reader):
            assert client.list_topics("examples", timeout=DEADLINE_S).brokers
        broker.names_itself = False

        def wait() -> None:
            end = time.monotonic() + DEADLINE_S
            while time.monotonic() < end:
                member.consume(1, 0.1)
                connectivity.check()

        with pytest.raises(BrokerError, match="has forgotten all"):
            wait()
        broker.names_itself = True
        for lost in (member, producer):
            with pytest.raises(KafkaException, match="_TRANSPORT"):
                lost.list_topics("examples", timeout=2.0)
        assert reader.list_topics("examples", timeout=DEADLINE_S).brokers
        reader.close()
        member.close()


def test_a_worker_leaves_when_its_broker_stays_away(breakable: Broker, examples: str) -> None:
    """After `outage_s` without an answer, `fetch` says for how long and which address."""
    identity = Identity(examples, "i", examples)
    worker = KafkaBroker({"bootstrap.servers": breakable.bootstrap}, identity, examples, outage_s=5)
    try:
        worker.join(Recorder({0: 0}))
        fetch_some(worker, 10)
        breakable.kill()
        gone = time.monotonic()
        with pytest.raises(BrokerError, match=rf"answer from {breakable.bootstrap} within 5 s, found none for \d+ s: "):
            fetch_until(worker, lambda _: False, "the worker gave up")
        assert 5 <= time.monotonic() - gone < DEADLINE_S
    finally:
        worker.close()


def test_a_frozen_broker(breakable: Broker, examples: str, log_events: list[EventDict]) -> None:
    """It reports nothing and refuses nothing: the worker says so within seconds, and when it is heard again.

    Before, the stream is quiet for longer than silence is borne, and nobody is asked: heartbeats are answers.
    """
    worker = KafkaBroker({"bootstrap.servers": breakable.bootstrap}, Identity(examples, "i", examples), examples)
    try:
        worker.join(Recorder({0: 0}))
        fetch_some(worker, 10)
        quiet_until = time.monotonic() + ASK_AFTER_S + 3
        fetch_until(worker, lambda _: time.monotonic() >= quiet_until, "a quiet while")
        assert worker.reachable
        assert log_events == []
        breakable.sleep()
        # How soon is what `test_silence_is_asked_about` says, by a clock that does not depend on the machine.
        fetch_until(worker, lambda _: not worker.reachable, "the silence was noticed")
        breakable.wake()
        fetch_until(worker, lambda _: worker.reachable, "the answer was noticed")
        assert [event["event"] for event in log_events] == ["brokers_unreachable", "brokers_reachable"]
    finally:
        breakable.wake()
        worker.close()
