"""Records on their way through models: what the loop hands over, and what comes back to it.

Different partitions are worked on at once, each in its own order: one task at a time has its model to itself, and
results are taken by the loop's thread. So results don't depend on the number of threads, and nothing but a model and
the records of one batch is ever shared with another thread.

While a partition's batch is learned its further records are kept, and become its next batches. A batch has a bound in
bytes: so have the memory that it takes while it is learned, and the time that whoever must stop has to wait for it.

A model may stand still in the middle of a batch, for others. What follows is kept, as far as there is room, so that it
need not be fetched again when the model goes on.
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


_ASIDE = -1  # in the place of a partition's number


@dataclass(slots=True)
class _Inbox:
    """Holds records of a partition, and the bytes of their values."""

    partition: Partition
    records: list[Record]
    size: int


@dataclass(slots=True)
class _Held:
    """Holds what follows where a model stands still: `most` bytes at most.

    lost  the first offset that is not among them, though it came
    told  whether that has been said
    """

    inbox: _Inbox
    most: int
    lost: int | None = None
    told: bool = False


class _ModelTask(NamedTuple):
    """Holds a call that a thread makes; `then` is told its result, on the loop's thread. `records`: those it learns."""

    call: Callable[[], Any]
    then: Callable[[Any], None]
    records: Sequence[Record] = ()


class _Running(NamedTuple):
    """A task that a thread has begun with, or will soon; `since` by the clock."""

    future: Future[Any]
    task: _ModelTask
    since: float


class LearningScheduler:
    """Has threads work on the models of one loop, one task of a partition at a time.

    threads  make the calls
    publish  is told the result of each batch, in the partition's order
    most     records that may be on their way before there is no more room; or MOST_BYTES of them
    now      seconds of a clock
    """

    def __init__(
        self, threads: Threads, publish: Publish, most: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._threads = threads
        self._publish = publish
        self._most = most
        self._now = now
        self._inbox: dict[int, _Inbox] = {}
        self._held: dict[int, _Held] = {}
        self._published: _Inbox | None = None  # whose results are being told
        self._records = 0
        self._bytes = 0
        self._waiting: dict[int, deque[_ModelTask]] = {}
        self._running: dict[int, _Running] = {}

    @property
    def busy(self) -> bool:
        """Whether a thread works on a model, or will."""
        return bool(self._running)

    @property
    def longest_s(self) -> float:
        """For how long the task that was begun first, of those that are not done, has been waited for."""
        began = [running.since for running in self._running.values() if not running.future.done()]
        return self._now() - min(began) if began else 0.0

    @property
    def room(self) -> bool:
        """Whether more records may be added."""
        return self._records < self._most and self._bytes < MOST_BYTES

    def add(self, partition: Partition, records: list[Record]) -> None:
        """Have the next records of the partition learned, when its model does not stand still."""
        held = self._held.get(partition.number)
        if held is not None:
            self._keep(held, records)
            return
        size = bytes_of(records)
        self._records += len(records)
        self._bytes += size
        inbox = self._inbox.get(partition.number)
        if inbox is None:
            self._inbox[partition.number] = _Inbox(partition, records, size)
        else:
            inbox.records.extend(records)
            inbox.size += size
        self._start(partition.number)

    def forget(self, partition: Partition) -> None:
        """Records of the partition that no thread has begun with: they come again."""
        held, batch = self._held.pop(partition.number, None), self._inbox.pop(partition.number, None)
        if held is not None:
            self._bytes -= held.inbox.size
        if batch is not None:
            self._records -= len(batch.records)
            self._bytes -= batch.size

    def hold(self, partition: Partition, at: int, among: int) -> None:
        """The partition's model stands still before offset `at`: keep what follows, until it goes on.

        among  so many partitions have as much room each, of half of the memory; 0: keep nothing
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
        self._held[partition.number] = held = _Held(_Inbox(partition, [], 0), most)
        self._keep(held, behind)

    def _keep(self, held: _Held, records: Sequence[Record]) -> None:
        if held.lost is not None or not records:
            return
        kept, size = list(records), bytes_of(records)
        if held.inbox.size + size > held.most:
            kept, size = [], 0
            held.lost = records[0].offset()
        held.inbox.records += kept
        held.inbox.size += size
        self._bytes += size  # of their number, which bounds what others wait for, these are no part

    def take_losses(self) -> list[tuple[Partition, int]]:
        """Of models that stand still, and more has come than is kept: the first offset that has to come again, once."""
        found = []
        for held in self._held.values():
            if held.lost is not None and not held.told:
                held.told = True
                found.append((held.inbox.partition, held.lost))
        return found

    def go_on(self, partition: Partition) -> None:
        """The partition's model stands still no more: have what was kept learned."""
        held = self._held.pop(partition.number, None)
        if held is not None and held.inbox.records:
            self._records += len(held.inbox.records)
            self._inbox[partition.number] = held.inbox
            self._start(partition.number)

    def ask(self, partition: Partition, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Make a call that has the partition's model to itself, before further records are learned.

        `then` is told its result when those of all earlier batches have been published.
        """
        self._waiting.setdefault(partition.number, deque()).append(_ModelTask(call, then))
        self._start(partition.number)

    def run_aside(self, call: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Make a call that has no model to itself; `then` is told its result. One at a time."""
        self._waiting.setdefault(_ASIDE, deque()).append(_ModelTask(call, then))
        self._start(_ASIDE)

    def collect(self, wait_s: float | None = 0.0) -> None:
        """Take the results that there are; if there is none, wait for one, so long or (None) as long as it takes.

        Raises what a call has raised.
        """
        unfinished = self._unfinished
        if wait_s != 0.0 and unfinished and len(unfinished) == len(self._running):
            self._threads.wait(unfinished, wait_s)
        for number in [number for number, running in self._running.items() if running.future.done()]:
            done = self._running.pop(number)
            self._start(number)  # a thread works on while we publish
            done.task.then(done.future.result())

    def settle(self, leaving: Iterable[Partition] = ()) -> None:
        """Take results until nothing is on its way; of partitions that are left, what no thread has begun with is not.

        However many records were fetched, there is little to wait for then.
        """
        gone = list(leaving)
        for partition in gone:
            self.forget(partition)
        while self._running:
            self.collect(None)
        for partition in gone:  # what a model has left that came to a standstill meanwhile
            self.forget(partition)

    def drop(self) -> None:
        """Forget everything. When this returns, no thread works on a model any more."""
        self._inbox.clear()
        self._held.clear()
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
        """Begin with what the partition is waiting for, unless a thread has its model."""
        if number in self._running:
            return
        waiting = self._waiting.get(number)
        if waiting:
            task = waiting.popleft()
        elif number in self._inbox:
            task = self._batch(self._next(number))
        else:
            return
        self._running[number] = _Running(self._threads.submit(task.call), task, self._now())

    def _next(self, number: int) -> _Inbox:
        """Take what is learned next from what the partition's records have grown to."""
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
