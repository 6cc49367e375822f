"""Schedules the records that the loop has fetched on learning threads, and gives the results back to the loop.

Different partitions are worked on at the same time, each in its own order: only one task at a time uses a model, and
the loop's thread takes the results. So results don't depend on the number of threads, and threads share only a model
and the records of one batch.

While a batch of a partition is learned, its further records are kept, and become its next batches. The bytes of a batch
are bounded, and with them the memory for learning it, and the wait for it in a revocation or a stop.

A model may stop in the middle of a batch, at the end of a round. The records after that are kept, as far as there is
room, so that they need not be fetched again when the model goes on.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from stream_apple.config.memory import BATCH_BYTES, MOST_BYTES
from stream_apple.stream.learning.threads import Threads
from stream_apple.stream.log.columns import bytes_of, portion
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import Partition

Publish = Callable[[Partition, list[Record], BatchResult], None]


_ASIDE = -1  # takes the place of a partition's number for calls that use no model


@dataclass(slots=True)
class _Inbox:
    """Holds records of a partition that wait for its model, and the bytes of their values.

    most  bytes that are kept while the model has stopped; None: it goes on
    lost  the first offset that came and was not kept meanwhile; None: all were
    told  whether `take_losses` has returned that
    """

    partition: Partition
    records: list[Record]
    size: int
    most: int | None = None
    lost: int | None = None
    told: bool = False


class _ModelTask(NamedTuple):
    """Holds a call that a thread makes, with the records that it learns; the loop's thread gives `then` the result."""

    call: Callable[[], Any]
    then: Callable[[Any], None]
    records: Sequence[Record] = ()


class _Running(NamedTuple):
    """A task that was given to the threads at `since`, in seconds of the clock."""

    future: Future[Any]
    task: _ModelTask
    since: float


class LearningScheduler:
    """Has threads work on the models of one loop, one task of a partition at a time.

    threads  make the calls
    publish  is called with the result of each batch, in the partition's order
    most     how many records may be waiting or learned before there is no more room; the other bound is MOST_BYTES
    now      returns seconds of a clock
    """

    def __init__(
        self, threads: Threads, publish: Publish, most: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._threads = threads
        self._publish = publish
        self._most = most
        self._now = now
        self._inbox: dict[int, _Inbox] = {}
        self._published: _Inbox | None = None  # the batch whose results `publish` is being called with
        self._records = 0
        self._bytes = 0
        self._waiting: dict[int, deque[_ModelTask]] = {}
        self._running: dict[int, _Running] = {}

    @property
    def busy(self) -> bool:
        """Whether a task is being worked on, or waits for a thread or for `collect`."""
        return bool(self._running)

    @property
    def longest_s(self) -> float:
        """Return the age in seconds of the oldest task that is not done; 0 if there is none."""
        began = [running.since for running in self._running.values() if not running.future.done()]
        return self._now() - min(began) if began else 0.0

    @property
    def room(self) -> bool:
        """Whether more records may be added."""
        return self._records < self._most and self._bytes < MOST_BYTES

    def unlearned(self, number: int) -> int:
        """Return how many records of the partition are here that it has not published: waiting, learned or kept."""
        running, inbox = self._running.get(number), self._inbox.get(number)
        waiting = 0 if inbox is None else len(inbox.records)
        # A batch that still runs after its model has stopped has nothing that is not kept.
        stopped = inbox is not None and inbox.most is not None
        return waiting if running is None or stopped else waiting + len(running.task.records)

    def add(self, partition: Partition, records: list[Record]) -> None:
        """Have the next records of the partition learned, or keep them if its model has stopped."""
        inbox = self._inbox.get(partition.number)
        if inbox is not None and inbox.most is not None:
            self._keep(inbox, inbox.most, records)
            return
        size = bytes_of(records)
        self._records += len(records)
        self._bytes += size
        if inbox is None:
            self._inbox[partition.number] = _Inbox(partition, records, size)
        else:
            inbox.records.extend(records)
            inbox.size += size
        self._start(partition.number)

    def forget(self, partition: Partition) -> None:
        """Forget the records of the partition that no thread has begun with; they are fetched again."""
        inbox = self._inbox.pop(partition.number, None)
        if inbox is not None:
            self._bytes -= inbox.size
            if inbox.most is None:
                self._records -= len(inbox.records)

    def hold(self, partition: Partition, at: int, among: int) -> None:
        """Keep the records after offset `at`, where the partition's model has stopped, until `go_on`.

        among  how many partitions share half of MOST_BYTES equally; 0: keep nothing
        """
        behind: list[Record] = []
        if self._published is not None and self._published.partition is partition:
            behind += [record for record in self._published.records if record.offset() >= at]
        running = self._running.get(partition.number)
        if running is not None:
            behind += running.task.records
        inbox = self._inbox.get(partition.number)
        if inbox is not None:
            behind += inbox.records
        self.forget(partition)
        most = MOST_BYTES // 2 // among if among else 0
        self._inbox[partition.number] = kept = _Inbox(partition, [], 0, most)
        self._keep(kept, most, behind)

    def _keep(self, inbox: _Inbox, most: int, records: Sequence[Record]) -> None:
        if inbox.lost is not None or not records:
            return
        size = bytes_of(records)
        if inbox.size + size > most:
            inbox.lost = records[0].offset()
            return
        inbox.records += records
        inbox.size += size
        self._bytes += size  # kept records don't count in `_records`, which bounds the wait for running batches

    def take_losses(self) -> list[tuple[Partition, int]]:
        """Return, once for each partition that has stopped, the first offset that was not kept, if one was not."""
        found = []
        for inbox in self._inbox.values():
            if inbox.lost is not None and not inbox.told:
                inbox.told = True
                found.append((inbox.partition, inbox.lost))
        return found

    def go_on(self, partition: Partition) -> None:
        """Have the kept records learned, as the partition's model goes on."""
        kept = self._inbox.pop(partition.number, None)
        if kept is not None and kept.records:
            self._records += len(kept.records)
            self._inbox[partition.number] = _Inbox(partition, kept.records, kept.size)
            self._start(partition.number)

    def ask(self, partition: Partition, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Have a thread make a call that alone uses the partition's model, before further records are learned.

        `then` is called with its result, after the results of all earlier batches have been published.
        """
        self._waiting.setdefault(partition.number, deque()).append(_ModelTask(call, then))
        self._start(partition.number)

    def run_aside(self, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Have a thread make a call that uses no partition's model, one at a time; call `then` with its result."""
        self._waiting.setdefault(_ASIDE, deque()).append(_ModelTask(call, then))
        self._start(_ASIDE)

    def collect(self, wait_s: float | None = 0.0) -> None:
        """Take the results that there are; if there is none, wait for one, at most `wait_s`; None: without a limit.

        It raises what a call has raised.
        """
        unfinished = self._unfinished
        if wait_s != 0.0 and unfinished and len(unfinished) == len(self._running):
            self._threads.wait(unfinished, wait_s)
        for number in [number for number, running in self._running.items() if running.future.done()]:
            done = self._running.pop(number)
            self._start(number)  # a thread works on while we publish
            done.task.then(done.future.result())

    def settle(self, leaving: Iterable[Partition] = ()) -> None:
        """Take results until no task is left, but forget records of leaving partitions that no thread has begun with.

        So there is little to wait for, however many records were fetched.
        """
        gone = list(leaving)
        for partition in gone:
            self.forget(partition)
        while self._running:
            self.collect(None)
        for partition in gone:  # a model that has stopped meanwhile has kept records
            self.forget(partition)

    def drop(self) -> None:
        """Forget everything; when this returns, no thread works on a model any more."""
        self._inbox.clear()
        self._waiting.clear()
        self._records = self._bytes = 0
        while unfinished := self._unfinished:
            self._threads.wait(unfinished, None)
        self._running.clear()

    def close(self) -> None:
        """Forget everything, and end the threads."""
        self.drop()
        self._threads.close()

    @property
    def _unfinished(self) -> list[Future[Any]]:
        return [running.future for running in self._running.values() if not running.future.done()]

    def _start(self, number: int) -> None:
        """Begin the partition's next task, if there is one, unless one is running."""
        if number in self._running:
            return
        waiting, inbox = self._waiting.get(number), self._inbox.get(number)
        if waiting:
            task = waiting.popleft()
        elif inbox is not None and inbox.most is None:
            task = self._batch(self._next(number))
        else:
            return
        self._running[number] = _Running(self._threads.submit(task.call), task, self._now())

    def _next(self, number: int) -> _Inbox:
        """Remove and return the partition's next batch, at most BATCH_BYTES of its records."""
        kept = self._inbox.pop(number)
        count = portion(kept.records, BATCH_BYTES) if kept.size > BATCH_BYTES else len(kept.records)
        if count == len(kept.records):
            return kept
        first, rest = kept.records[:count], kept.records[count:]
        size = bytes_of(first)
        self._inbox[number] = _Inbox(kept.partition, rest, kept.size - size)
        return _Inbox(kept.partition, first, size)

    def _batch(self, batch: _Inbox) -> _ModelTask:
        def publish(parts: list[tuple[list[Record], BatchResult]]) -> None:
            self._records -= len(batch.records)
            self._bytes -= batch.size
            self._published = batch
            for records, result in parts:
                self._publish(batch.partition, records, result)
            self._published = None

        return _ModelTask(lambda: list(batch.partition.model.process_in_turn(batch.records)), publish, batch.records)
