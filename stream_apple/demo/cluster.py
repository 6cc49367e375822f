"""librdkafka's in-process Kafka cluster: one client of this process serves others over local sockets.

It has no disk and no compaction, it keeps 5 MiB of a partition, it forgets the offsets that transactions commit
(`loop/relay.py`), and the records that end them have no valid checksum: enough to look at the worker, not enough to
prove anything about exactly-once.
"""

from contextlib import AbstractContextManager

from confluent_kafka import Producer

ROOM_BYTES = 5 << 20
"""What the cluster keeps of a partition, compressed; older messages are dropped."""

_TIMEOUT_S = 10.0


class EmbeddedCluster(AbstractContextManager["EmbeddedCluster"]):
    """A cluster that lives until it is closed; use as a context.

    bootstrap   address for clients of any process on this machine
    """

    def __init__(self) -> None:
        self._host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._host.list_topics(timeout=_TIMEOUT_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has; asking creates it."""
        return len(self._host.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)

    def __exit__(self, *_: object) -> None:
        self._host.close()
