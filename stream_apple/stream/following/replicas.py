"""The replicas of a group's models: one thread follows the group, other threads score in turns."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import structlog

from stream_apple.errors import BrokerError
from stream_apple.stream.following.replica import Replica, ReplicaRecorder, Source
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.sources import Sources

_POLL_S = 0.1
"""Seconds between two requests for the group's committed offsets, a fraction of `worker.commit_interval`."""
_PAUSE_S = 0.005
_RETRY_S = 1.0
_STOP_S = 2.0
"""How long the end of the context waits for the thread: a call of a frozen broker may take ten seconds."""
_EMPTY_S = 5.0
"""Seconds between two looks how many partitions there are, and which of those without an offset have no record."""

_log = structlog.get_logger()


class NoModelError(Exception):
    """There is no model of a partition, or its model has not learned what the group has committed."""


class Replicas:
    """Follows these partitions, and those that are added, while its context lasts.

    After it, a call that waits for a frozen broker may still go on, on a thread that keeps no process from ending.

    by_partition  number -> replica; replaced as a whole, as other threads read it

    max_lag_s  the longest lag behind the group's committed offset with which a model counts as ready
    """

    def __init__(
        self,
        sources: Sources,
        numbers: Sequence[int],
        source: Source,
        max_lag_s: float,
        recorder: ReplicaRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_partition: Mapping[int, Replica] = {}
        self.merged = sources.provenance.merging is not None
        self._sources = sources
        self._max_lag_s = max_lag_s
        self._source = source
        self._recorder = recorder
        self._now = now
        self._asked_at = float("-inf")
        self._reachable = True
        self._empty: frozenset[int] = frozenset()
        self._looked_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)
        self._follow(numbers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_S)

    def is_ready(self, number: int) -> bool:
        """Whether this partition has a model that has learned what the group has committed, as far as is known.

        A replica that is cut off from Kafka stays ready: its answers are right as of the offset that they name.
        """
        replica = self.by_partition[number]
        if self._source == "snapshots":  # its lag is that of the snapshots
            return replica.model is not None
        return replica.model is not None and replica.own_lag.waited_s <= self._max_lag_s

    @property
    def ready(self) -> bool:
        """Whether all models are ready, but for partitions without a record, of which no group can have a model."""
        ready = {number for number in self.by_partition if self.is_ready(number)}
        return bool(ready) and ready | self._empty >= self.by_partition.keys()

    @property
    def alive(self) -> bool:
        """Whether the thread that follows still runs."""
        return self._thread.is_alive()

    @contextmanager
    def turn(self, number: int) -> Iterator[tuple[PartitionModel, Moment]]:
        """Yield the partition's model, for this context alone, and its moment; NoModelError if there is none."""
        replica = self.by_partition[number]
        with replica.turns.asking():
            if replica.model is None:
                raise NoModelError(f"expected a model of partition {number}, found {replica.absence}")
            yield replica.model, Moment.of(replica.model)

    def _follow(self, numbers: Iterable[int]) -> None:
        added = [Replica(number, self._sources, self._source, self._recorder, self._now) for number in numbers]
        for replica in added:
            self._recorder.following(replica)
        self.by_partition = {**self.by_partition, **{replica.number: replica for replica in added}}

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self.step():
                    self._stopping.wait(_PAUSE_S)
        finally:
            for replica in self.by_partition.values():
                replica.close()

    def step(self) -> bool:
        """Ask for committed offsets, if due, and do a little work for each replica; return whether there was any."""
        if self._now() - self._asked_at >= _POLL_S:
            self._ask()
        busy = False
        for replica in self.by_partition.values():
            busy |= replica.step()
        return busy

    def _ask(self) -> None:
        self._asked_at = self._now()
        try:
            looks = self._asked_at - self._looked_at >= _EMPTY_S
            if looks:
                # Whoever asks by key asks for the partition that producers choose, among all that there are.
                self._follow(range(len(self.by_partition), self._sources.logs.count_now()))
            committed = self._sources.logs.committed_now(list(self.by_partition))
            if looks:
                self._looked_at = self._asked_at
                self._empty = frozenset(
                    number for number, found in committed.items() if found is None and self._is_empty(number)
                )
                for number in self._empty:
                    self.by_partition[number].tell_empty()
        except BrokerError as error:
            if self._reachable:
                _log.warning("replica_cut_off", error=str(error))
            self._reachable = False
            self._asked_at = self._now() + _RETRY_S
            return
        self._reachable = True
        for number, replica in self.by_partition.items():
            replica.tell(committed[number])

    def _is_empty(self, number: int) -> bool:
        found = self._sources.logs.log_range(self._sources.provenance.topics.examples, number)
        return found.low == found.high
