"""Keeps what the status page shows of a worker: names of features, recent dead letters, a history of losses.

The loop only hands over references, once a batch: nothing is copied, decoded or locked on its thread. A thread of the
observer's own samples from them, in the little time that it has, and the server's threads read the results.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from stream_apple.monitoring.input_watch import InputWatch
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
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.log.contents import content_of
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import INCOMPLETE

RECENT_REJECTS = 20
_STEP_S = 0.05  # between two looks at the references from the loop
_SHARE = 0.005  # of a core, for names
_KEEP_S = 10.0  # between two times that a history is attached to the model, to be kept with its snapshots
_LONGEST_MESSAGE = 500


class DeadLetter(NamedTuple):
    """One record that could not be used; the message is cut after _LONGEST_MESSAGE characters."""

    partition: int
    offset: int
    reason: str
    message: str
    timestamp_ms: int


class WorkerObserver:
    """The observer of one worker; any thread may read `names`.

    decoder  reads the records; None: they are messages in the product's own format
    watch    looks at the first records; None: nobody does
    """

    def __init__(
        self,
        names: Names | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        decoder: Decoder | None = None,
        watch: InputWatch | None = None,
    ) -> None:
        self.names = Names() if names is None else names
        self._decoder = decoder
        self._watch = watch
        self._now_ms = now_ms
        self._owned: Callable[[], Mapping[int, Partition]] = dict
        self._lag: Callable[[int], float | None] = lambda _: None
        self._sample: Record | None = None
        self._rejects: tuple[DeadLetter, ...] = ()
        self._histories: dict[int, History] = {}
        self._handed: dict[int, tuple[int, KeptHistory]] = {}  # time and content of the last attached history
        self._caught_up = CaughtUp()
        self._epochs = EpochLog()

    def follow(
        self, owned: Callable[[], Mapping[int, Partition]], lag: Callable[[int], float | None] = lambda _: None
    ) -> None:
        """Call these, from now on, for the worker's partitions, and for the lag of one in records, if it is known.

        No reference to the partitions is kept, as it would keep dropped models alive.
        """
        self._owned = owned
        self._lag = lag

    @property
    def owned(self) -> dict[int, Partition]:
        """Return the partitions that the worker owns now; don't keep them longer than it takes to look at them."""
        return dict(self._owned())

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Remember one of the records, and the last ones that could not be used; log ends of epochs.

        `records` is empty if a model stops before the first, or leaves out an offset that has no record.
        """
        self._epochs.passed(partition, result)
        if not records:
            return
        self._sample = records[len(records) >> 1]
        if self._watch is not None:
            self._watch.offer(records)
        if result.rejects:
            self._note(partition.number, result.rejects[-RECENT_REJECTS:])

    @property
    def findings(self) -> Sequence[str]:
        """Return what the worker's first records show that is no fault, and spoils the model: a sentence for each."""
        return () if self._watch is None else self._watch.findings

    def dead_letters(self) -> list[DeadLetter]:
        """Return the most recent dead letters, the newest first."""
        return list(self._rejects)[::-1]

    def history(self, partition: int, since_ms: int) -> list[HistoryPoint]:
        """Return the partition's history since then, as far as this worker has seen it or the snapshot had it."""
        history = self._histories.get(partition)
        return [] if history is None else history.since(since_ms)

    def take_names(self) -> bool:
        """Look at the records from the loop: add the names in the last one, if there is a new one."""
        if self._watch is not None:
            self._watch.take()
        sample, self._sample = self._sample, None
        if sample is None:
            return False
        decoder = self._decoder
        message = sample.value()
        if decoder is not None:
            message = decoder.message(content_of(sample, framed=decoder.framed))
        self.names.add(names_in(message, self.names.ngrams))
        return True

    def take_points(self) -> None:
        """Add a point to every partition's history, and log it if all partitions have caught up."""
        owned, now_ms = self.owned, self._now_ms()
        for number, partition in owned.items():
            if partition.state not in INCOMPLETE:
                history = self._histories.setdefault(number, History())
                self._take_over(history, partition, now_ms)
                history.add(point_of(now_ms, partition, self._lag(number)))
                self._hand_over(history, partition, now_ms)
        self._caught_up.look(owned, self._lag)

    def _take_over(self, history: History, partition: Partition, now_ms: int) -> None:
        """Take in the history that came with the model's snapshot, if it is not the one attached here."""
        kept = partition.model.attachments.get(ATTACHMENT)
        if kept is not None and kept is not self._handed.get(partition.number, (0, None))[1]:
            history.insert(points_of(kept), now_ms)

    def _hand_over(self, history: History, partition: Partition, now_ms: int) -> None:
        """Attach the history to the model, every _KEEP_S at most, as snapshots are taken less often anyway."""
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
        self._rejects = (*self._rejects, *found)[-RECENT_REJECTS:]  # replaced as a whole, for readers in other threads


class ObserverThread:
    """The thread that processes what the loop has given to an observer; it runs while its context lasts.

    It rests in proportion to the cost of its work, so that names take at most half a percent of a core.
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
