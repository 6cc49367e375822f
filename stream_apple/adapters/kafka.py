"""The broker port on librdkafka: a static member of a classic consumer group, and a transactional producer.

Every call of the port may meet an error of Kafka: `patience` repeats what can be repeated, `verdicts` turns the rest
into AbortableError or an error to leave with. Callbacks of librdkafka run inside `consume`, on our thread; what they
raise is kept and raised again when `consume` has returned. The consumer belongs to that thread alone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.admittance import complaint, is_refusal
from stream_apple.adapters.clients import Identity, Properties, open_clients
from stream_apple.adapters.outage import OUTAGE_S, PROBE_S, Outage
from stream_apple.adapters.patience import SLICE_S, Patience
from stream_apple.adapters.positions import committed_offsets, log_range
from stream_apple.adapters.reader import PartitionReader
from stream_apple.adapters.transactions import Transactions
from stream_apple.adapters.verdicts import fetch_verdict, is_fatal
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.runtime.ports import Assignment, Committed, Header, LogRange, Reader, Record, Start

_DRAINED_AT_ONCE = 1000  # records that nobody waits for any more
_LEAVE_S = 3.0
_SLOW_S = 5.0  # a call that takes longer finds no broker, or one that might as well not be there

_log = structlog.get_logger()


class KafkaBroker:
    """One worker's connection; see `ports.Broker` for the contract of each method.

    outage_s  how long `fetch` waits for an answer of any broker
    """

    def __init__(
        self, properties: Properties, identity: Identity, examples: str, *, outage_s: float = OUTAGE_S
    ) -> None:
        self._properties = properties
        self._group = identity.group
        self._examples = examples
        self._patience = Patience()
        self._outage = Outage(str(properties["bootstrap.servers"]), self._probe, outage_s)
        self._consumer, producer = open_clients(properties, identity, self._on_error)
        self._transactions = Transactions(producer, self._patience)
        self._assignment: Assignment | None = None
        self._held: dict[int, int] = {}
        self._rejoining = False
        self._settled = False
        self._leaves = False
        self._raised: BaseException | None = None
        self._fatal: str | None = None

    def hurry(self) -> None:
        """From now on wait no longer for Kafka than a supervisor waits for us. For signal handlers."""
        self._patience.hurry()

    def leave(self) -> None:
        """Let `close` hand the partitions to others, not keep them for a successor. For signal handlers."""
        self._leaves = True

    @property
    def reachable(self) -> bool:
        """Whether a broker has answered lately, as far as we know; for other threads too."""
        return self._outage.reachable and self._patience.waiting_s < _SLOW_S

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; ConfigurationError if it does not exist."""
        # Asked by the consumer: a producer's question would create the topic on a careless cluster.
        answer = self._patience.insist(
            f"topic {topic}",
            lambda: self._consumer.list_topics(topic, timeout=SLICE_S),
            on_trouble=self._ask_why,
        )
        found = answer.topics[topic]
        if found.error is not None and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ConfigurationError(f"topic {topic}: expected permission to use it, found: {found.error.str()}")
        if found.error is not None:
            raise ConfigurationError(
                f"topic {topic}: expected an existing topic, found: {found.error.str()}; "
                f"`stream-apple topics` creates it"
            )
        return len(found.partitions)

    def _ask_why(self) -> None:
        """No broker has answered: ConfigurationError if they refuse this client, which waiting does not mend."""
        heard = complaint(self._properties)
        if heard is None:
            return
        if is_refusal(heard):
            raise ConfigurationError(
                f"kafka: expected {self._properties['bootstrap.servers']} and this worker to accept each other, "
                f"found: {heard.str()}; see security.protocol, sasl.* and ssl.* in [kafka]"
            )
        self._outage.suspect(heard.str())
        self._outage.check()

    def prepare(self) -> None:
        """Begin to fence predecessors, in the background: `join` then has less to wait for. Call it once, early."""
        self._transactions.prepare(self._examples)

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors first: what they left open must be decided before offsets are read."""
        self._assignment = assignment
        self._transactions.fence(self._examples)
        self._subscribe()

    def rejoin(self) -> None:
        """Give up every partition; a static member has them back within a fraction of a second."""
        self._rejoining = True
        self._consumer.unsubscribe()
        self._subscribe()

    def _subscribe(self) -> None:
        self._held = {}
        self._settled = False
        self._consumer.subscribe(
            [self._examples], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Records, and everything that librdkafka has to tell meanwhile."""
        # librdkafka drops from this list what was fetched before a rebalance that happens during the call.
        messages = self._consumer.consume(limit, timeout_s)
        self._transactions.serve()
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if self._fatal is not None:
            raise BrokerError(self._fatal)
        self._outage.check()
        records = [message for message in messages if message.error() is None]
        if len(records) < len(messages):
            for message in messages:
                self._judge(message)
        return cast("list[Record]", records)

    def _judge(self, message: Message) -> None:
        problem = fetch_verdict(message)
        if problem is not None:
            raise problem
        error = message.error()
        if error is not None:
            _log.warning("fetch_error", partition=message.partition(), error=error.str(), code=error.name())

    def release(self, partition: int) -> None:
        """What arrives from now on begins at the offset that the partition was assigned with."""
        start = self._held.pop(partition, None)
        if start is not None:
            place = TopicPartition(self._examples, partition, start)
            # librdkafka notices a resumed partition only when it wakes for another reason, up to a second later. A seek
            # wakes it; where that is refused, as without a leader, there is nothing to hasten.
            with suppress(KafkaException):
                self._consumer.seek(place)
            self._consumer.resume([place])

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Committed offsets; waits for transactions that are still deciding them."""
        return committed_offsets(self._consumer, self._patience, self._examples, partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The broker's answer."""
        return log_range(self._consumer, self._patience, topic, partition)

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """A client of its own: it connects while we go on."""
        return PartitionReader(self._properties, self._group, topic, partition, offset)

    def backlog(self, partition: int) -> int:
        """As of the latest fetch; the position steps over the markers of transactions, which are no records."""
        asked = TopicPartition(self._examples, partition)
        (found,) = self._consumer.position([asked])
        _, high = self._consumer.get_watermark_offsets(asked, cached=True)
        return max(high - found.offset, 0) if found.offset >= 0 and high >= 0 else -1

    def begin(self) -> None:
        """Local: the broker hears of it with the first message."""
        self._transactions.begin()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
        on_written: Callable[[int], None] | None = None,
    ) -> None:
        """Queue a message; waits while the queue is full."""
        self._transactions.send(topic, partition, key, value, timestamp_ms, headers, on_written)

    def flush(self) -> None:
        """Wait for the broker."""
        self._transactions.flush()

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Messages and offsets, or neither."""
        self._transactions.commit(self._examples, offsets, self._consumer)
        self._outage.reached()

    def abort(self) -> None:
        """Neither."""
        self._transactions.abort()

    def close(self) -> None:
        """The transaction first: others wait for the offsets that it has in doubt.

        The group goes on counting us as its member until the session ends, unless `leave` was called: a successor of
        the same identity has the partitions at once, and nobody else is disturbed.
        """
        self._assignment = None
        self._transactions.close()
        try:
            if self._leaves or not self._settled:
                self._unsubscribe()
            if self._leaves:
                self._await_leave()
            self._consumer.close()
        except KafkaException as error:
            _log.warning("close_error", doing="closing the consumer", error=error.args[0].str())

    def _unsubscribe(self) -> None:
        # An assignment that is answered while the consumer closes can block the process for ever, signals and liveness
        # with it (librdkafka 4884). None can be on its way to who has partitions: they would be revoked first. And
        # after `unsubscribe` none is made any more, and `consume` answers one that waits.
        with suppress(KafkaException):
            self._consumer.unsubscribe()
        while self._consumer.consume(_DRAINED_AT_ONCE, 0.0):
            pass

    def _await_leave(self) -> None:
        # The group is told once the partitions have been let go, which takes a moment; the id is dropped with that. A
        # consumer that closes before would not tell it, being a static member.
        deadline = time.monotonic() + _LEAVE_S
        while self._consumer.memberid() and self._fatal is None:
            if time.monotonic() >= deadline:
                _log.warning("close_error", doing="leaving the group", error=f"no success within {_LEAVE_S:g} s")
                break
            self._consumer.consume(_DRAINED_AT_ONCE, 0.01)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._rejoining = False
        starts: Mapping[int, Start] = {}
        try:
            if self._assignment is not None:
                starts = self._assignment.assigned([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by fetch
            self._raised = error
        # Whatever happened, and even if it is nothing: without `assign`, not even a rejoin would end this rebalance.
        consumer.assign([TopicPartition(self._examples, number, start.offset) for number, start in starts.items()])
        self._settled = bool(partitions)
        self._held = {number: start.offset for number, start in starts.items() if start.held}
        # Still inside `consume`: what was fetched before the pause is dropped there, and fetched again after it.
        consumer.pause([TopicPartition(self._examples, number) for number in self._held])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.revoked)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.lost)

    def _give_up(
        self,
        consumer: Consumer,
        partitions: list[TopicPartition],
        tell: Callable[[Sequence[int]], None] | None,
    ) -> None:
        try:
            if tell is not None and not self._rejoining:
                tell([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by fetch
            self._raised = error
        finally:
            self._held = {}
            self._settled = False
            consumer.unassign()

    def _on_error(self, error: KafkaError) -> None:
        if is_fatal(error):
            self._fatal = f"{error.str()} ({error.name()})"
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  librdkafka's own codes begin so
            self._outage.suspect(error.str())

    def _probe(self) -> bool:
        try:
            self._consumer.list_topics(self._examples, timeout=PROBE_S)
        except KafkaException:
            return False
        return True
