"""What the worker keeps for those who look at it: names of features, recent dead letters, a history of losses.

The loop hands over references, once a batch, and does no more: nothing is copied, decoded or locked on its thread. A
thread of the observer's own takes from there what it has time for, and the server's threads read the rest.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from stream_apple.core.codec.feature_names import Names, name_of_user, names_in
from stream_apple.monitoring.milestones import CaughtUp, EpochLog
from stream_apple.monitoring.partition_history import (
    ATTACHMENT,
    SAMPLE_POINT_S,
    History,
    HistoryPoint,
    KeptHistory,
    point_of,
    points_of,
)
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import INCOMPLETE, Partition

RECENT_REJECTS = 20
_STEP_S = 0.05  # between two looks at what the loop has left
_SHARE = 0.005  # of a core, for names
_KEEP_S = 10.0  # between two times that a history is handed to the model, to be kept with its snapshots
_LONGEST_MESSAGE = 500


class NullObserver:
    """Observes nothing, where neither metrics nor a page are wanted."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Ignore the batch."""


class DeadLetter(NamedTuple):
    """One record that could not be used; the message is cut after some hundred characters."""

    partition: int
    offset: int
    reason: str
    message: str
    timestamp_ms: int


def _unknown(_partition: int) -> float | None:
    return None


class WorkerObserver:
    """The observer of one worker, which remembers what it is told. `names` may be read by any thread.

    message  returns the message that a record is read as, see `Decoder.message`
    """

    def __init__(
        self,
        names: Names | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        message: Callable[[bytes | None], bytes | None] = lambda value: value,
    ) -> None:
        self.names = Names() if names is None else names
        self._message = message
        self._now_ms = now_ms
        self._owned: Callable[[], Mapping[int, Partition]] = dict
        self._lag: Callable[[int], float | None] = _unknown
        self._sample: tuple[bytes | None, bytes | None] | None = None  # value, and key if that is a user
        self._rejects: tuple[DeadLetter, ...] = ()
        self._histories: dict[int, History] = {}
        self._handed: dict[int, tuple[int, KeptHistory]] = {}  # when, and what, the model was handed last
        self._caught_up = CaughtUp()
        self._epochs = EpochLog()

    def follow(
        self, owned: Callable[[], Mapping[int, Partition]], lag: Callable[[int], float | None] | None = None
    ) -> None:
        """From now on, ask these which partitions are ours, and how many records behind one is, if that is known.

        A reference of our own would keep dropped models alive.
        """
        self._owned = owned
        self._lag = lag or _unknown

    @property
    def owned(self) -> dict[int, Partition]:
        """The partitions that are ours at this moment; not to be held for longer than it takes to look at them."""
        return dict(self._owned())

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Remember one of the records, and the last of those that could not be used; log ends of epochs.

        There is none where a model stops before the first, or leaves out an offset that has no record.
        """
        self._epochs.passed(partition, result)
        if not records:
            return
        record = records[len(records) >> 1]
        by_key = "users" in partition.model.learner.options.wanted_columns()
        self._sample = record.value(), record.key() if by_key else None
        if result.rejects:
            self._note(partition.number, result.rejects[-RECENT_REJECTS:])

    def dead_letters(self) -> list[DeadLetter]:
        """Return the most recent dead letters, the newest first."""
        return list(self._rejects)[::-1]

    def history(self, partition: int, since_ms: int) -> list[HistoryPoint]:
        """How the partition went, as far as this worker has seen it or its model has brought it along."""
        history = self._histories.get(partition)
        return [] if history is None else history.since(since_ms)

    def take_names(self) -> bool:
        """Learn the names in the last record handed over, if there is a new one."""
        sample, self._sample = self._sample, None
        if sample is None:
            return False
        value, key = sample
        self.names.add(names_in(self._message(value), self.names.ngrams))
        self.names.add(name_of_user(key))
        return True

    def take_points(self) -> None:
        """Note where every partition stands, and log it if all of them have caught up."""
        owned, now_ms = self.owned, self._now_ms()
        for number, partition in owned.items():
            if partition.state not in INCOMPLETE:
                history = self._histories.setdefault(number, History())
                self._take_over(history, partition, now_ms)
                history.add(point_of(now_ms, partition, self._lag(number)))
                self._hand_over(history, partition, now_ms)
        self._caught_up.look(owned, self._lag)

    def _take_over(self, history: History, partition: Partition, now_ms: int) -> None:
        """Continue the history that came with the model, from a snapshot, if it is not the one that we gave it."""
        kept = partition.model.attachments.get(ATTACHMENT)
        if kept is not None and kept is not self._handed.get(partition.number, (0, None))[1]:
            history.insert(points_of(kept), now_ms)

    def _hand_over(self, history: History, partition: Partition, now_ms: int) -> None:
        """Have the history kept with the model, now and then: its last snapshot is older anyway."""
        model, number = partition.model, partition.number
        handed_ms, array = self._handed.get(number, (0, None))
        if array is None or model.attachments.get(ATTACHMENT) is not array or abs(now_ms - handed_ms) >= 1000 * _KEEP_S:
            self._handed[number] = (now_ms, history.to_array())
            model.attachments = {**model.attachments, ATTACHMENT: self._handed[number][1]}

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
                due = now + SAMPLE_POINT_S
            rest = rest_after(self._clock() - before)


def rest_after(spent_s: float) -> float:
    """Return the seconds to rest after work that took `spent_s` of a core."""
    return max(_STEP_S, spent_s / _SHARE)
