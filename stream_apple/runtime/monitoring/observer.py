"""What the worker keeps for those who look at it: names of features, recent dead letters, a history of losses.

The loop hands over references, once a batch, and does no more: nothing is copied, decoded or locked on its thread. A
thread of the observer's own takes from there what it has time for, and the server's threads read the rest.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from stream_apple.core.codec.feature_names import Names, names_in
from stream_apple.core.learner.learner import Learner
from stream_apple.runtime.dead_letters import Reject
from stream_apple.runtime.partition import INCOMPLETE, Partition
from stream_apple.runtime.partition_model import BatchResult
from stream_apple.runtime.ports import Record

RECENT_REJECTS = 20
HISTORY_POINTS = 600
"""Of each partition; when they are full every other one goes, and the next ones are twice as far apart."""
_STEP_S = 0.05  # between two looks at what the loop has left
_SHARE = 0.005  # of a core, for names
_SAMPLE_POINT_S = 1.0
_LONGEST_MESSAGE = 500


class Observer(Protocol):
    """What the loop tells; called on its thread, so it must cost next to nothing."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """A batch of the partition, which is not empty, has been learned and sent."""
        ...


class NullObserver:
    """An observer that remembers nothing."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Nothing is remembered."""


class DeadLetter(NamedTuple):
    """One record that could not be used; the message is cut after some hundred characters."""

    partition: int
    offset: int
    reason: str
    message: str
    timestamp_ms: int


class LossPoint(NamedTuple):
    """A partition's mean losses at one moment; NaN before the first example.

    at_ms     time of day
    recent, linear, constant         of recent examples
    whole, whole_linear, whole_constant   since the start
    """

    at_ms: int
    examples: int
    epoch: int
    recent: float
    linear: float
    constant: float
    whole: float
    whole_linear: float
    whole_constant: float
    apple: float
    whole_apple: float


class LossHistory:
    """Points in the order of time, evenly spread from the first to the last, at most `most`."""

    def __init__(self, most: int = HISTORY_POINTS, step_s: float = _SAMPLE_POINT_S) -> None:
        self._most = most
        self._step_ms = int(step_s * 1000)
        self._points: list[LossPoint] = []

    def add(self, point: LossPoint) -> None:
        """Keep the point, unless it is too close to the last one."""
        if self._points and point.at_ms - self._points[-1].at_ms < self._step_ms:
            return
        points = [*self._points, point]
        if len(points) > self._most:
            points = points[::2]
            self._step_ms *= 2
        self._points = points  # replaced whole: readers have the list as it was

    def since(self, at_ms: int) -> list[LossPoint]:
        """Points later than `at_ms`."""
        return [point for point in self._points if point.at_ms > at_ms]


class WorkerObserver:
    """The observer of one worker, which remembers what it is told. `names` may be read by any thread."""

    def __init__(
        self,
        names: Names | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.names = Names() if names is None else names
        self._now_ms = now_ms
        self._owned: Callable[[], Mapping[int, Partition]] = dict
        self._sample: bytes | None = None
        self._rejects: tuple[DeadLetter, ...] = ()
        self._histories: dict[int, LossHistory] = {}

    def follow(self, owned: Callable[[], Mapping[int, Partition]]) -> None:
        """From now on, ask this which partitions are ours: a reference of our own would keep dropped models alive."""
        self._owned = owned

    @property
    def owned(self) -> dict[int, Partition]:
        """The partitions that are ours at this moment; not to be held for longer than it takes to look at them."""
        return dict(self._owned())

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Remember one of the records, and the last of those that could not be used."""
        self._sample = records[len(records) >> 1].value()
        if result.rejects:
            self._note(partition.number, result.rejects[-RECENT_REJECTS:])

    def dead_letters(self) -> list[DeadLetter]:
        """The most recent ones, the newest first."""
        return list(self._rejects)[::-1]

    def history(self, partition: int, since_ms: int) -> list[LossPoint]:
        """How the partition's losses went, as far as this worker has seen it."""
        history = self._histories.get(partition)
        return [] if history is None else history.since(since_ms)

    def take_names(self) -> bool:
        """Learn the names in the last record handed over, if there is a new one."""
        sample, self._sample = self._sample, None
        if sample is None:
            return False
        self.names.add(names_in(sample))
        return True

    def take_points(self) -> None:
        """Note where the losses of every partition stand."""
        for number, partition in self.owned.items():
            if partition.state not in INCOMPLETE:
                model = partition.model
                point = _point(self._now_ms(), model.learner, model.clock.epoch)
                self._histories.setdefault(number, LossHistory()).add(point)

    def _note(self, number: int, rejects: Sequence[Reject]) -> None:
        found = []
        for reject in rejects:
            record, message = reject.record, reject.message[:_LONGEST_MESSAGE]
            found.append(DeadLetter(number, record.offset(), reject.reason.code, message, record.timestamp()[1]))
        self._rejects = (*self._rejects, *found)[-RECENT_REJECTS:]  # replaced whole, for readers in other threads


class ObserverThread:
    """The thread that takes in what an observer was handed; a context.

    It rests in proportion to what its work has cost, so that names take at most half a percent of a core.
    """

    def __init__(self, observer: WorkerObserver, clock: Callable[[], float] = time.thread_time) -> None:
        self._observer = observer
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = 0.0
        rest = _STEP_S
        while not self._stop.wait(rest):
            before = self._clock()
            self._observer.take_names()
            now = time.monotonic()
            if now >= due:
                self._observer.take_points()
                due = now + _SAMPLE_POINT_S
            rest = rest_after(self._clock() - before)


def rest_after(spent_s: float) -> float:
    """How long to rest after work that took `spent_s` of a core."""
    return max(_STEP_S, spent_s / _SHARE)


def _point(at_ms: int, learner: Learner, epoch: int) -> LossPoint:
    progress = learner.progress
    recent, whole = progress.report("recent"), progress.report("whole")
    return LossPoint(
        at_ms,
        learner.examples,
        epoch,
        recent.loss,
        recent.linear_loss,
        recent.best_constant_loss,
        whole.loss,
        whole.linear_loss,
        whole.best_constant_loss,
        recent.apple_loss,
        whole.apple_loss,
    )
