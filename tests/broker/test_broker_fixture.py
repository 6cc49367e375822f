"""The broker that other tests build on does what they rely on."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.kafka.broker import Broker, resolve_jars
from support.ports import free_ports
from support.required import UnavailableError
from support.topics import TopicFactory, create_topics, read_all
from support.waiting import DEADLINE_S, wait_until


def _send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def _values(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[bytes | None]:
    return [message.value() for message in read_all(bootstrap, topic, partitions, isolation)]


def _cluster_id(bootstrap: str) -> str:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_S).cluster_id
    assert found
    return found


class TestSharedBroker:
    """The session's broker."""

    def test_keeps_what_it_is_sent(self, kafka: str, topic: TopicFactory) -> None:
        """Records come back as they were sent, in order."""
        name = topic()
        values = [bytes([index]) * 100 for index in range(50)]
        _send(kafka, name, values)
        assert _values(kafka, name) == values

    def test_topics_are_new_each_time(self, topic: TopicFactory) -> None:
        """Two topics from the same stem are different topics."""
        assert topic("examples") != topic("examples")

    def test_hides_aborted_records(self, kafka: str, topic: TopicFactory) -> None:
        """A read_committed reader sees the committed transaction and not the aborted one before it."""
        name = topic()
        producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"probe-{uuid.uuid4().hex}"})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        producer.produce(name, b"aborted")
        assert producer.flush(DEADLINE_S) == 0
        producer.abort_transaction(20)
        producer.begin_transaction()
        producer.produce(name, b"committed")
        producer.commit_transaction(DEADLINE_S)
        # Readers learn of a transaction's end a moment after its producer.
        assert wait_until(lambda: _values(kafka, name), "a committed record") == [b"committed"]
        assert _values(kafka, name, isolation="read_uncommitted") == [b"aborted", b"committed"]


class TestBroker:
    """A broker of one's own, to be broken."""

    def test_keeps_committed_records_and_address_through_kill_and_restart(
        self, kafka: str, jars: Path, tmp_path: Path
    ) -> None:
        """After SIGKILL and after an orderly restart, the same address serves the same records.

        And it is a cluster of its own: workers of both may have one group and one id on this machine.
        """
        broker = Broker(tmp_path / "broker", jars)
        broker.start()
        try:
            address = broker.bootstrap
            assert _cluster_id(address) != _cluster_id(kafka)
            create_topics(address, NewTopic("kept", 1, 1))
            _send(address, "kept", [b"1", b"2"])
            broker.kill()
            broker.start()
            assert broker.bootstrap == address
            assert _values(address, "kept") == [b"1", b"2"]
            _send(address, "kept", [b"3"])
            broker.stop()
            assert not broker.running
            broker.start()
            assert _values(address, "kept") == [b"1", b"2", b"3"]
            with pytest.raises(RuntimeError, match="already running"):
                broker.start()
        finally:
            broker.kill()
        assert not broker.running

    def test_dies_with_the_process_that_started_it(self, jars: Path, tmp_path: Path) -> None:
        """When the parent is killed with SIGKILL, no broker stays behind."""
        script = (
            "import sys; from pathlib import Path; from support.kafka.broker import Broker\n"
            "broker = Broker(Path(sys.argv[1]), Path(sys.argv[2])); broker.start()\n"
            "print(broker._process.pid, flush=True); sys.stdin.read()"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "broker"), str(jars)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        with parent:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            assert "java" in child.name()
            parent.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs([child], timeout=20)
        assert alive == []

    def test_says_why_it_does_not_start(self, jars: Path, tmp_path: Path) -> None:
        """A broker with an impossible setting fails at once, with the setting in the message."""
        broker = Broker(tmp_path / "broker", jars, {"num.io.threads": "0"})
        with pytest.raises(RuntimeError, match=r"num\.io\.threads"):
            broker.start()


class TestJars:
    """What happens when the machine lacks something."""

    def test_missing_java_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Without Java, the reason says so."""
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UnavailableError, match="Java 17"):
            resolve_jars(tmp_path / "cache")

    def test_failed_resolution_leaves_nothing_behind(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """When Maven fails, its words are in the reason, and the cache does not look complete."""
        tools = tmp_path / "bin"
        tools.mkdir()
        for name, body in {
            "java": "echo 'version \"21.0.1\"' >&2",
            "mvn": "echo no such host; exit 1",
        }.items():
            (tools / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tools))
        with pytest.raises(UnavailableError, match="no such host"):
            resolve_jars(tmp_path / "cache" / "kafka")
        assert list((tmp_path / "cache").iterdir()) == []

    def test_free_ports_differ(self) -> None:
        """Ports asked for together are different ones."""
        assert len(set(free_ports(20))) == 20


class TestMockCluster:
    """librdkafka's in-process cluster."""

    def test_carries_records(self, mock_cluster: str) -> None:
        """Records come back, from a topic that nobody made."""
        _send(mock_cluster, "anything", [b"a"])
        assert _values(mock_cluster, "anything", partitions=4) == [b"a"]
