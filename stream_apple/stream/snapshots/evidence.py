"""Checks a group's committed offsets against what outlives them: snapshots, and answers that readers see.

An offset, the answers before it and the snapshot that it points to are committed together. So if one of them is missing
or does not fit, something other than a worker has changed it, or a cluster of one broker has died while it decided a
transaction:

    nothing committed, but a snapshot, or predictions of this very model   the offsets are lost: ConfigurationError
    predictions from the committed offset on                               the offset is too old: records whose answers
                                                                           readers see are learned without output
    no answer to the last records before the offset        their answers are lost: they are learned and answered again
    predictions of records that the log does not have                      the log is another one: GapError
    predictions from the committed offset on, never decided                the next commit may show them: BrokerError

Only the ends of the output logs are read, in the iterations of the loop in which snapshots are restored.
"""

import sys
import time
from collections.abc import Callable, Collection, Generator
from contextlib import closing, suppress
from typing import Protocol

import structlog

from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.log.log_scan import PATIENCE_S, LogScan
from stream_apple.stream.log.ports import Broker, Readers, ReaderSource, Record
from stream_apple.stream.model.dead_letters import origin_of_dead_letter
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.positions.lineage import Identify, Lineage, Provenance, origin_of_prediction
from stream_apple.stream.snapshots.stored_messages import GONE_S

TAIL = 1_000
"""How many offsets at the end of an output log are read. If no message there is of the model, ten times as many are
read, up to LONGEST_TAIL: others may write there, too, and aborted transactions take offsets."""
LONGEST_TAIL = 100_000
UNDECIDED_S = 5.0
"""A wait for a transaction that takes longer is told of."""
_FEW_LARGE = 8
"""Messages to fetch at once where each may have a megabyte."""

_log = structlog.get_logger()

Answered = Callable[[Record], int]
"""(message) -> the offset of the model's partition that the message answers; -1 if it answers none."""


class AnswerLogs(Readers, Protocol):
    """Reads output logs: a broker, or what commands read with."""

    @property
    def undecided(self) -> ReaderSource:
        """Return what opens readers that deliver the records of open and aborted transactions, too."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has."""


def is_untouched(broker: Broker, provenance: Provenance, number: int) -> bool:
    """Whether the partition's logs of predictions and models are both empty, so that they hold no evidence."""
    logs = (broker.log_range(topic, number) for topic in (provenance.topics.models, provenance.topics.predictions))
    return all(log.low == log.high for log in logs)


def examine(
    broker: Broker,
    provenance: Provenance,
    partition: Partition,
    now: Callable[[], float] = time.monotonic,
    accepted: Collection[tuple[int, int]] = (),
) -> Generator[None]:
    """Look at the evidence about a partition whose model is about to be found; yield now and then, to let others work.

    At the end, the model's `publish_from` is behind all records whose answers readers see. ConfigurationError, GapError
    as the module's docstring says; BrokerError if a log gives nothing more.

    accepted  (partition, first offset) of lost answers that the operator does without
    """
    plan, number, topics = partition.plan, partition.number, provenance.topics
    told = _answered_by(origin_of_prediction, provenance, number, plan.lineage)
    last = yield from _last_answer(broker, topics.predictions, number, told, plan.publish_from, now)
    if plan.first:
        if last >= plan.publish_from:
            raise ConfigurationError(
                f"expected no prediction of model {plan.lineage.model} in {topics.predictions}-{number}, where group "
                f"{provenance.group} has no offset of {topics.examples}-{number} yet, found one for offset {last}: the "
                f"group's offsets are lost, and `stream-apple repair` may rebuild them, or another group with these "
                f"settings writes there. To answer all records again, use a new worker.group, and another "
                f"topics.predictions and topics.dead_letters"
            )
        yield from find_no_snapshot(broker, provenance, number, now)
    elif last >= plan.publish_from:
        log = broker.log_range(topics.examples, number)
        if last >= log.high:
            raise GapError(
                f"expected {topics.examples}-{number} to hold offset {last}, whose prediction is in "
                f"{topics.predictions}-{number}, found its end at {log.high}: its newest records are lost, or the "
                f"topic was made anew. Use a new worker.group and another topics.predictions to begin a new model"
            )
        # Dead letters of the same transaction may answer records after the last predicted one.
        told = _answered_by(origin_of_dead_letter, provenance, number, plan.lineage)
        folded = number % broker.partition_count(topics.dead_letters)
        refused = yield from _last_answer(broker, topics.dead_letters, folded, told, plan.publish_from, now)
        partition.model.publish_from = max(last, min(refused, log.high - 1)) + 1
        _log.warning(
            "offset_behind_answers", partition=number, offset=plan.publish_from, answered=partition.model.publish_from
        )
    elif 0 <= last < plan.publish_from - 1 and plan.jump is None:
        # A false alarm would give answers twice, and a broker that was frozen may report an end that is too early.
        until, certain = now() + GONE_S, False
        while not certain:
            certain = now() >= until
            first, answered = yield from _first_unanswered(broker, provenance, partition, last, now)
            if first >= plan.publish_from or (number, first) in accepted:
                return
            last = yield from _last_answer(broker, topics.predictions, number, told, plan.publish_from, now)
        _log.warning("offset_after_answers", partition=number, offset=plan.publish_from, answered=answered)
        partition.answer_again(first)


def _first_unanswered(
    broker: Broker, provenance: Provenance, partition: Partition, last: int, now: Callable[[], float]
) -> Generator[None, None, tuple[int, int]]:
    """Return the first record before the committed offset of which, and after which, no answer exists.

    It is the committed offset if there is none, or if answers may have been deleted. With it comes the offset after the
    newest answer. Logs are deleted from their start: as prediction `last` is still there, so are all later ones.
    """
    plan, number, topic = partition.plan, partition.number, provenance.topics.examples
    committed = plan.publish_from
    refused, known = yield from _last_refused(broker, provenance, number, plan.lineage, committed, now)
    last = max(last, refused)
    if last >= committed - 1 or not known:
        return committed, last + 1
    start = max(last + 1, plan.lineage.left_out, broker.log_range(topic, number).low)
    # Markers and aborted records take offsets, too: only a record that readers see lacks an answer.
    with suppress(GapError), closing(LogScan(broker, topic, number, range(start, committed), now=now)) as scan:
        while not scan.done:
            for record in scan.read():
                return record.offset(), last + 1
            yield
    return committed, last + 1


def newest_answers(
    logs: AnswerLogs, provenance: Provenance, number: int, lineage: Lineage
) -> Generator[None, None, tuple[int, int, int]]:
    """Return the highest offsets that have answers at the ends of the logs; -1 each if there is none.

    They are those with a prediction of the model, with a dead letter of it, and with a prediction of any model.
    """
    topic, most, now = provenance.topics.predictions, sys.maxsize, time.monotonic
    told, any_model = (_answered_by(origin_of_prediction, provenance, number, each) for each in (lineage, None))
    predicted = yield from _last_answer(logs, topic, number, told, most, now)
    any_predicted = yield from _last_answer(logs, topic, number, any_model, most, now)
    refused, _ = yield from _last_refused(logs, provenance, number, lineage, most, now)
    return predicted, refused, any_predicted


def _last_refused(
    logs: AnswerLogs, provenance: Provenance, number: int, lineage: Lineage, committed: int, now: Callable[[], float]
) -> Generator[None, None, tuple[int, bool]]:
    """Return the highest offset with a dead letter, or -1, and whether later ones can't have been deleted.

    Dead letters may be in any partition that `number % count` named while the topic had fewer partitions. The search
    ends where the record before `committed` is found.
    """
    topic, found = provenance.topics.dead_letters, list[int]()
    told = _answered_by(origin_of_dead_letter, provenance, number, lineage)
    count = logs.partition_count(topic)
    for folded in dict.fromkeys(number % fewer for fewer in range(count, 0, -1)):
        found.append((yield from _last_answer(logs, topic, folded, told, committed, now)))
        if found[-1] >= committed - 1:
            break
    low, high = logs.log_range(topic, number % count)
    return max(found), found[0] >= 0 or (low == 0 and high <= LONGEST_TAIL)


def _last_answer(
    logs: AnswerLogs, topic: str, number: int, answered: Answered, committed: int, now: Callable[[], float]
) -> Generator[None, None, int]:
    """Return the highest offset that has an answer at the end of an output log; -1 if there is none."""
    last, length = -1, 0
    low, high = logs.log_range(topic, number)
    end = high
    if low == high:  # an open transaction may hide all of the log
        with closing(LogScan(logs.undecided, topic, number, range(high, high + 1), now=now)) as scan:
            while scan.log_end < 0 and not scan.done:
                scan.read()
                yield
            end = max(end, scan.log_end)
    while last < 0 and length < min(high - low, LONGEST_TAIL):
        length = max(10 * length, TAIL)
        start = max(low, high - length)
        with closing(LogScan(logs, topic, number, range(start, high), now=now)) as scan:
            try:
                last = yield from _highest(scan, answered)
            except GapError:
                # Retention has removed the start of the tail meanwhile: begin again with what is left.
                low, high = logs.log_range(topic, number)
                length = 0
            end = max(end, scan.log_end)
    if end > high:
        undecided = yield from _last_undecided(logs, topic, number, range(high, end), answered, committed, now)
        last = max(last, undecided)
    return last


def _last_undecided(
    logs: AnswerLogs,
    topic: str,
    number: int,
    undecided: range,
    answered: Answered,
    committed: int,
    now: Callable[[], float],
) -> Generator[None, None, int]:
    """Return the highest offset that has an answer among these messages, once it is decided which are committed.

    A lone broker that dies, or loses a disk, may never decide that, and what this worker commits there next would be
    committed with them. So it goes on if they answer records before `committed`, and otherwise raises BrokerError.
    """
    began, doing = now(), f"a decision on the transaction in {topic}-{number} from offset {undecided.start} on"
    with closing(LogScan(logs, topic, number, undecided, patience_s=2 * PATIENCE_S, now=now)) as scan:
        last = yield from _highest(scan, answered, lambda: now() < began + UNDECIDED_S)
        if not scan.done:
            _log.warning("answer_awaited", doing=doing, seconds=UNDECIDED_S)
            last = max(last, (yield from _highest(scan, answered, lambda: now() < began + PATIENCE_S)))
        if scan.done:
            return last
    with closing(LogScan(logs.undecided, topic, number, undecided, now=now)) as scan:
        last = yield from _highest(scan, answered)
    if last >= committed:
        raise BrokerError(
            f"expected a decision on the messages of {topic}-{number} from offset {undecided.start} on within "
            f"{PATIENCE_S:g} s, found a transaction that is still open, with an answer to offset {last}, while the "
            f"group's offset is {committed}: readers would see that answer, and another one. The brokers have lost "
            f"track of the transaction: end it with `kafka-transactions.sh abort`"
        )
    return last


def _highest(
    scan: LogScan, answered: Answered, in_time: Callable[[], bool] = lambda: True
) -> Generator[None, None, int]:
    """Return the highest offset that a message of the scan answers, -1 if none does; yield after each portion."""
    last = -1
    while not scan.done and in_time():
        last = max([last, *map(answered, scan.read())])
        yield
    return last


def find_no_snapshot(
    logs: Readers, provenance: Provenance, number: int, now: Callable[[], float] = time.monotonic
) -> Generator[None]:
    """Raise ConfigurationError if the models topic has a snapshot of the partition, which has no committed offset."""
    topic, key = provenance.topics.models, provenance.snapshot_key(number)
    low, high = logs.log_range(topic, number)
    if low == high:
        return
    with closing(LogScan(logs, topic, number, range(low, high), _FEW_LARGE, now=now)) as scan:
        while not scan.done:
            for record in scan.read():
                if record.value() is not None and (record.key() or b"").startswith(key):
                    raise _lost_offset(provenance, number, record)
            yield


def _lost_offset(provenance: Provenance, number: int, record: Record) -> ConfigurationError:
    """Return the error for a group that has no offset of a partition but a snapshot, of which `record` is a message."""
    topics, group = provenance.topics, provenance.group
    return ConfigurationError(
        f"expected an offset of {topics.examples}-{number} that group {group} has committed, for it has a snapshot in "
        f"{topics.models}-{number} at message {record.offset()}, found none: the offsets are lost (deleted, or the "
        f"group was idle for longer than offsets.retention.minutes), and `stream-apple repair` may rebuild them; or "
        f"topics.examples was another topic. The group would answer all records again. To do so, use a new "
        f"worker.group, and another topics.predictions and topics.dead_letters"
    )


def _answered_by(identify: Identify, provenance: Provenance, number: int, lineage: Lineage | None) -> Answered:
    """Return what reads the answers of a model with this lineage; None: those of any model."""
    place = (provenance.topics.examples, number)
    models = None if lineage is None else provenance.fingerprints(number, lineage)

    def answered(record: Record) -> int:
        origin = identify(record)
        if origin is None or (origin.topic, origin.partition) != place:
            return -1
        return origin.example if models is None or origin.model in models else -1

    return answered
