"""librdkafka's in-process cluster: no broker to install, and gone when it is told to be."""

from typing import Self

from confluent_kafka import Producer
from support.waiting import DEADLINE_S, wait_until


class MockCluster:
    """A cluster of one broker, in this process; a context, at whose end it is gone.

    bootstrap  its address
    """

    def __init__(self) -> None:
        self._host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self._host.list_topics(timeout=DEADLINE_S).brokers.values()
        self.bootstrap = f"{broker.host}:{broker.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answer no more; it may have been stopped before."""
        self._host.close()


def make_mock_topics(bootstrap: str, *names: str) -> None:
    """Make topics of four partitions on an in-process cluster, which makes one when a producer asks about it."""
    client = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def all_made() -> bool:
        return all(client.list_topics(name, timeout=DEADLINE_S).topics[name].error is None for name in names)

    wait_until(all_made, f"topics {names}", DEADLINE_S)
    client.close()
