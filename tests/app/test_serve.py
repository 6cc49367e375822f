"""What `stream-apple serve` does before its replicas follow the log."""

import socket
from collections.abc import Iterator, Sequence
from typing import NoReturn

import pytest
import structlog

from stream_apple.adapters.kafka.connectivity import OutageLog
from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.app import serve
from stream_apple.config import load
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.http.listener import listen
from stream_apple.signals import Signals

OUTAGE = OutageLog({"bootstrap.servers": "127.0.0.1:1"})


class TestBrokersThatAreNotThereYet:
    """A replica waits for them as a worker does: it may have been started first."""

    @pytest.fixture
    def logs(self) -> Iterator[KafkaLogs]:
        """Logs of a cluster that nobody has asked anything."""
        made = KafkaLogs(load(None, {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}))
        yield made
        made.close()

    def test_one_answers_later(self, logs: KafkaLogs, monkeypatch: pytest.MonkeyPatch) -> None:
        """One event tells that none answers, and why, and another that one does."""
        refusals = [BrokerError("no answer"), BrokerError("none again")]

        def chosen(_: Sequence[int]) -> Sequence[int]:
            if refusals:
                raise refusals.pop(0)
            return range(3)

        monkeypatch.setattr(logs, "chosen", chosen)
        with structlog.testing.capture_logs() as events:
            assert serve.all_partitions(logs, OUTAGE) == range(3)
        assert [(each["event"], each.get("error")) for each in events] == [
            ("brokers_unreachable", "no answer"),
            ("brokers_reachable", None),
        ]

    def test_none_answers(self, logs: KafkaLogs, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a minute the replica ends with the latest reason."""
        tries = 0

        def chosen(_: Sequence[int]) -> Sequence[int]:
            nonlocal tries
            tries += 1
            raise BrokerError(f"no answer to {tries}")

        monkeypatch.setattr(logs, "chosen", chosen)
        monkeypatch.setattr(serve, "RetryPolicy", lambda: RetryPolicy(0.2))
        with pytest.raises(BrokerError) as raised:
            serve.all_partitions(logs, OUTAGE)
        assert tries > 1
        assert str(raised.value) == f"no answer to {tries}"


def test_until_there_are_answers_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks a replica that waits for a broker, or compiles, hears so at once and may ask another one."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    config = load(None, {"STREAM_APPLE_SERVE__PORT": str(port), "STREAM_APPLE_SERVE__HOST": "127.0.0.1"})

    def ask(*_: object) -> NoReturn:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        raise BrokerError("nobody there")

    monkeypatch.setattr(serve, "all_partitions", ask)
    with pytest.raises(BrokerError, match="nobody there"):
        serve.serve(config, Signals())
    with listen("127.0.0.1", port), pytest.raises(ConfigurationError, match=f"serve: expected to listen on .*{port}"):
        serve.serve(config, Signals())
