"""A loop's transactions, one after the other: what is sent in one, when a commit is due, and what follows an abort.

Only this module begins, commits and aborts transactions at the broker. A loop, the worker's or the joiner's, decides
what is in one and when.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import AbortableError, Broker, Committed
from stream_apple.stream.loop.member_watchers import MemberRecorder
from stream_apple.stream.model.dead_letters import DeadLetterMessage

MAX_ABORTS = 10
"""After so many aborted transactions in a row, and HOPELESS_S, a restart of the process is better than another try."""

HOPELESS_S = 300.0
"""Replicas may be missing for minutes, and each try takes some ten seconds."""

MORE_LOOKS = 5
"""So often it is looked again whether topics have equal partitions, as they get more one topic after the other."""

_log = structlog.get_logger()


class CommitSettings(NamedTuple):
    """Says what makes a commit due, whichever comes first: so many outputs, or so many seconds since the first."""

    outputs: int
    interval_s: float


class LoopTopics(NamedTuple):
    """Names the topics of a loop.

    alike   topics whose partition p belongs with partition p of the input
    single  a topic that must have a single partition; "": there is none
    """

    input: str
    alike: Sequence[str]
    dead_letters: str
    single: str = ""


class Transaction:
    """Begins, fills and ends the broker's transactions, of which at most one is open.

    open             whether there is one
    topics_in_doubt  whether partitions may have been added since `check_topics`
    """

    def __init__(
        self,
        broker: Broker,
        topics: LoopTopics,
        settings: CommitSettings,
        metrics: MemberRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.open = False
        self.topics_in_doubt = True
        self._settings = settings
        self._broker = broker
        self._topics = topics
        self._dead_letter_partitions = 1
        self._metrics = metrics
        self._now = now
        self._since = 0.0
        self._outputs = 0
        self._failures = 0
        self._failing_since = 0.0
        self._looks_left = 0

    @property
    def due(self) -> bool:
        """Whether it has been open for long enough, or holds enough outputs, to be committed."""
        return self.open and (
            self._outputs >= self._settings.outputs or self._now() - self._since >= self._settings.interval_s
        )

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.open:
            self.open = True
            self._since = self._now()
            self._outputs = 0
            self._broker.begin()

    def check_topics(self) -> int:
        """Count the partitions of all topics, and return how many the input has.

        ConfigurationError if a topic of `alike` has another number of partitions, or `single` more than one; for the
        former AbortableError the first few times after they were equal. Don't call it from inside `Assignment`, see
        `Broker.partition_count`.
        """
        first, alike, dead_letters, single = self._topics
        counts = {topic: self._broker.partition_count(topic) for topic in filter(None, (first, *alike, single))}
        for topic in alike:
            if counts[topic] != counts[first]:
                fault = (
                    f"expected topic {topic} to have {counts[first]} partitions, as many as {first}, "
                    f"found {counts[topic]}: partition p of one belongs with partition p of the other"
                )
                if self._looks_left == 0:
                    raise ConfigurationError(fault)
                self._looks_left -= 1
                raise AbortableError(fault)
        if single and counts[single] != 1:
            raise ConfigurationError(
                f"expected topic {single} to have one partition, which orders all merges, found {counts[single]}"
            )
        self._dead_letter_partitions = self._broker.partition_count(dead_letters)
        self._looks_left = MORE_LOOKS
        self.topics_in_doubt = False
        return counts[first]

    def send(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        timestamps_ms: Sequence[int],
        letters: Sequence[DeadLetterMessage],
    ) -> None:
        """Send the outputs of a partition's records, in the open transaction; begin one if none is open.

        Each value becomes a message in the same partition of `topic`; the topic of dead letters may have fewer
        partitions, and then the number is taken modulo theirs.
        """
        if not (values or letters):
            return
        self.begin()
        if values:
            self._broker.send_all(topic, partition, keys, values, timestamps_ms)
        for letter in letters:
            self._broker.send(self._topics.dead_letters, partition % self._dead_letter_partitions, *letter)
        self._outputs += len(values) + len(letters)

    def commit(self, progress: Mapping[int, Committed]) -> None:
        """Make the open transaction durable, with the offset of each partition, and count failures from 0 again."""
        self._broker.commit(progress)
        self.open = False
        self._failures = 0

    def abort(self, reason: str) -> None:
        """Abort the transaction, if one is open: no reader ever sees anything of it."""
        if self.open:
            _log.warning("transaction_aborted", reason=reason)
            self._metrics.aborted()
            self.open = False
            self._broker.abort()

    def start_over(self, error: AbortableError) -> None:
        """Join the group anew after an abort, to learn what is committed.

        BrokerError after MAX_ABORTS in a row, in HOPELESS_S or more.
        """
        if self._failures == 0:
            self._failing_since = self._now()
        self._failures += 1
        failing_s = self._now() - self._failing_since
        if self._failures >= MAX_ABORTS and failing_s >= HOPELESS_S:
            raise BrokerError(
                f"{self._failures} transactions in a row failed, for {failing_s:.0f} s; the last one: {error}"
            ) from error
        self._broker.rejoin()
