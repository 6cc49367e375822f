"""A cluster that is gone: what is logged, how long it is waited for, and what the operator is told."""

import time
from pathlib import Path

import pytest
from adapters.connections import DEADLINE_S, FOREVER, Recorder, fetch_some, fetch_until, fill
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from kafka_broker import Broker, create_topics
from structlog.testing import capture_logs

from stream_apple.adapters.clients import Identity
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.adapters.outage import PROBE_EVERY_S, Outage
from stream_apple.errors import BrokerError


class Cluster:
    """A cluster that answers when told to, and a clock that its questions move."""

    def __init__(self) -> None:
        self.answers = False
        self.now = 100.0
        self.asked: list[float] = []

    def probe(self) -> bool:
        """Half a second if nobody answers."""
        self.asked.append(self.now)
        self.now += 0.0 if self.answers else 0.5
        return self.answers

    def watch(self, limit_s: float = 20.0) -> Outage:
        """What watches it."""
        return Outage("one:9092", self.probe, limit_s, lambda: self.now)


class TestOutage:
    """From complaints to two log lines and an end."""

    def test_nobody_is_asked_without_a_complaint(self) -> None:
        """An idle worker sends no questions."""
        cluster = Cluster()
        outage = cluster.watch()
        outage.check()
        outage.reached()
        assert cluster.asked == []

    def test_a_complaint_that_proves_wrong_is_silent(self) -> None:
        """Brokers close idle connections; the client then complains, and a question is answered."""
        cluster = Cluster()
        cluster.answers = True
        outage = cluster.watch()
        with capture_logs() as logs:
            outage.suspect("1/1 brokers are down")
            outage.check()
            outage.check()
        assert logs == []
        assert cluster.asked == [100.0]

    def test_an_outage_is_logged_once_and_its_end_once(self) -> None:
        """However often the client complains; questions are asked every PROBE_EVERY_S seconds."""
        cluster = Cluster()
        outage = cluster.watch()
        with capture_logs() as logs:
            for _ in range(100):
                outage.suspect("1/1 brokers are down")
                outage.check()
                cluster.now += 0.1
            cluster.answers = True
            for _ in range(100):
                outage.check()
                cluster.now += 0.1
        assert [log["event"] for log in logs] == ["brokers_unreachable", "brokers_reachable"]
        assert 10 <= logs[1]["seconds"] <= 17
        assert (logs[0]["address"], logs[0]["error"]) == ("one:9092", "1/1 brokers are down")
        gaps = [later - earlier for earlier, later in zip(cluster.asked, cluster.asked[1:], strict=False)]
        assert gaps
        assert all(PROBE_EVERY_S <= gap < PROBE_EVERY_S + 1 for gap in gaps)

    def test_the_limit_ends_the_wait(self) -> None:
        """The error says how long was waited, for whom, and the client's own reason; not before the limit."""
        cluster = Cluster()
        outage = cluster.watch()
        outage.suspect("connection refused")

        def wait() -> None:
            while cluster.now < 200:
                outage.check()
                cluster.now += 0.1

        with pytest.raises(BrokerError, match=r"answer from one:9092 within 20 s, found none for 2\d s: connection"):
            wait()
        assert 120 <= cluster.now < 125

    def test_an_answer_in_between_starts_the_count_anew(self) -> None:
        """Two outages of twelve seconds are not one of twenty-four."""
        cluster = Cluster()
        outage = cluster.watch()
        for _ in range(4):
            outage.suspect("down")
            for _ in range(120):
                outage.check()
                cluster.now += 0.1
            outage.reached()


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Broker:
    """A broker of one's own with a topic `examples` that holds ten records."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    create_topics(broker.bootstrap, NewTopic("examples", 1, 1, config=FOREVER))
    fill(broker.bootstrap, "examples", 10)
    return broker


def test_a_worker_outlives_a_broker_that_returns(broker: Broker) -> None:
    """With no transaction open: one line when it goes, one when it is back, and the records that come then."""
    worker = KafkaBroker({"bootstrap.servers": broker.bootstrap}, Identity("g", "i", "t"), "examples")
    try:
        with capture_logs() as logs:
            worker.join(Recorder({0: 0}))
            fetch_some(worker, 10)
            broker.stop()
            fetch_until(worker, lambda: len(logs) > 0, "the outage was noticed")
            for _ in range(50):
                worker.fetch(1000, 0.1)
            broker.start()
            fill(broker.bootstrap, "examples", 5)
            records = fetch_until(worker, lambda: len(logs) > 1, "the return was noticed")
            records += fetch_some(worker, 5 - len(records))
        assert [record.offset() for record in records] == list(range(10, 15))
        events = [(log["event"], log.get("address")) for log in logs if log["event"].startswith("brokers")]
        address = broker.bootstrap
        assert events == [("brokers_unreachable", address), ("brokers_reachable", address)]
    finally:
        worker.close()
        broker.kill()


def test_a_worker_leaves_when_its_broker_stays_away(broker: Broker) -> None:
    """After `outage_s` without an answer, `fetch` says for how long and which address."""
    worker = KafkaBroker({"bootstrap.servers": broker.bootstrap}, Identity("g", "i", "t"), "examples", outage_s=5)
    try:
        worker.join(Recorder({0: 0}))
        fetch_some(worker, 10)
        broker.kill()
        gone = time.monotonic()
        with pytest.raises(BrokerError, match=rf"answer from {broker.bootstrap} within 5 s, found none for \d+ s: "):
            fetch_until(worker, lambda: False, "the worker gave up")
        assert 5 <= time.monotonic() - gone < DEADLINE_S
    finally:
        worker.close()
        broker.kill()
