"""What `stream-apple serve` does before its replicas follow the log."""

from collections.abc import Iterator, Sequence

import pytest
import structlog

from stream_apple.adapters.kafka.connectivity import OutageLog
from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.app import serve
from stream_apple.config import load
from stream_apple.errors import BrokerError

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
