"""Looks at the topics of a running worker or joiner every few seconds, and at the members of its group every minute.

A client does not report most of what is found here. librdkafka repeats writes to partitions with too few replicas
without an error, an idle worker does not notice that a topic is deleted, and Kafka deletes models in silence.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from itertools import count, product
from typing import Self, get_args

import structlog

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.client_properties import Properties
from stream_apple.adapters.kafka.log_reader import UNKNOWN_S
from stream_apple.adapters.kafka.strangers import Strangers
from stream_apple.adapters.kafka.topic_faults import (
    FaultKind,
    NeededOfTopics,
    OpenTransactions,
    TopicFault,
    topic_faults,
)
from stream_apple.errors import BrokerError, ConfigurationError

LOOK_S = 4.0
"""Seconds between two looks, each of which asks the brokers six small questions."""
_ANSWER_S = 3.0
_LOOKS_AT_MEMBERS = 15  # looks between two at the members

_log = structlog.get_logger()


class TopicWatch:
    """Logs what becomes wrong with topics, and what is mended, on a thread; a context.

    strangers  of the group
    owned      returns the partitions of which open transactions matter
    show       takes, at each look, topic and kind of each fault -> for how many seconds it has been there, else 0
    """

    def __init__(
        self,
        properties: Properties,
        needed: NeededOfTopics,
        strangers: Strangers,
        owned: Callable[[], Collection[int]],
        show: Callable[[Mapping[tuple[str, str], float]], None],
        transactions: OpenTransactions | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        self.stop_worker: Callable[[], None] = lambda: None
        self._properties = properties
        self._needed = needed
        self._strangers = strangers
        self._owned = owned
        self._show = show
        self._transactions = transactions or OpenTransactions()
        self._look_s = look_s
        self._none = dict.fromkeys(product(needed.names, get_args(FaultKind)), 0.0)  # so that alerts have their series
        self._faults: tuple[TopicFault, ...] = ()
        self._since: dict[tuple[str, str], float] = {}
        self._gone: TopicFault | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not awaited: a request may take seconds.
        self._ended.set()

    @property
    def stopping_answers(self) -> list[str]:
        """Return the topics and errors because of which no answer can be published now; any thread may ask."""
        return sorted({f"topic {fault.topic} ({fault.kind})" for fault in self._faults if fault.stops_answers})

    def raise_if_gone(self) -> None:
        """Raise ConfigurationError if a topic does not exist any more."""
        if self._gone is not None:
            raise ConfigurationError(f"{self._gone}. It existed when this process started")

    def _run(self) -> None:
        cluster: Cluster | None = None
        for number in count():
            if self._ended.wait(self._look_s):
                return
            # Without an answer, what the latest look has found stays.
            try:
                cluster = cluster or Cluster(self._properties, _ANSWER_S, {self._needed.names[0]: 0})
                faults = [*topic_faults(cluster, self._needed)]
                faults += self._transactions.look(cluster, self._needed.read, self._owned())
                self._compare(tuple(faults))
                if number % _LOOKS_AT_MEMBERS == 0:
                    self._strangers.look(cluster)
                if not cluster.has_controller:  # as a broker says that has just come back
                    cluster = None
            except BrokerError:
                continue
            except Exception:  # noqa: BLE001  a fault here must not end the watch of a worker that runs for months
                _log.error("topic_watch_failed", exc_info=True)

    def _compare(self, faults: tuple[TopicFault, ...]) -> None:
        """Log what is new, and what was mended; stop the worker if a topic has been absent for UNKNOWN_S."""
        now = time.monotonic()
        for fault in faults:
            if fault not in self._faults:
                _log.warning("topic_fault", topic=fault.topic, fault=fault.kind, error=fault.text)
        since: dict[tuple[str, str], float] = {(fault.topic, fault.kind): now for fault in faults}
        for (topic, kind), begun in self._since.items():
            if (topic, kind) in since:
                since[topic, kind] = begun
            else:
                _log.info("topic_mended", topic=topic, fault=kind, seconds=round(now - begun, 1))
        self._faults, self._since = faults, since
        self._show(self._none | {key: now - begun for key, begun in since.items()})
        gone = [each for each in faults if each.kind == "UNKNOWN_TOPIC_OR_PART"]
        lasting = [each for each in gone if now - since[each.topic, each.kind] >= UNKNOWN_S]
        if lasting and self._gone is None:
            self._gone = lasting[0]
            self.stop_worker()
