"""One partition's model, and what happens to a batch of its records: decode, clock, learn, encode.

    values     -> Decoder       a batch of good rows, and a reason for each record that is not one
    timestamps -> EpochClock    the epoch that each good row is learned in, or another reason
    rows       -> Learner       in runs of one epoch; a new epoch lets the model grow before its first row is scored
    scores     -> PredictionEncoder

The result is a function of the sequence of records alone, however it is cut into calls. Nothing here knows
Kafka: a record is anything with the methods of `ports.Record`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.decode import Decoded, Decoder, Limits
from stream_apple.core.encode import PredictionEncoder
from stream_apple.core.epochs import FAR_FUTURE, EpochClock
from stream_apple.core.growth import Growth
from stream_apple.core.learner import Learner, Options, Scores
from stream_apple.core.rejects import Reason, explain
from stream_apple.errors import ModelError, TooManyRejectsError
from stream_apple.runtime.deadletters import Reject, RejectLimits, RejectWatch
from stream_apple.runtime.lineage import Gap, Lineage
from stream_apple.runtime.phases import Lap, Phase
from stream_apple.runtime.ports import Record

_NO_TIMESTAMP = 0  # the type of a timestamp that is not there, as in confluent_kafka


class ModelSettings(NamedTuple):
    """All that the result depends on besides the records."""

    options: Options
    limits: Limits
    epoch_length_ms: int
    max_ahead_ms: int
    reject_limits: RejectLimits


class EpochEnd(NamedTuple):
    """An epoch that ended before the record at `offset` was scored. `digest`: of the learner, grown."""

    epoch: int
    offset: int
    growth: Growth
    digest: str


class Outcome(NamedTuple):
    """What is to be published of a batch, and how many records went which way.

    predictions  one message per good record from `publish_from` on
    indices      the record, by index in the batch, that each prediction belongs to
    rejects      in record order, from `publish_from` on
    ends         epochs that ended inside the batch
    """

    predictions: list[bytes]
    indices: list[int]
    rejects: list[Reject]
    ends: list[EpochEnd]
    learned: int
    unlabelled: int
    replayed: int


class PartitionModel:
    """The whole state of one input partition, and the only code that changes it.

    lineage       where the model begins; `next_offset` starts there
    publish_from  records before this offset are learned and give no output: their outputs are committed already
    ended_epoch   the last epoch that has ended, -1 before the first end
    epoch_digest  of the learner when it had ended and the model had grown, "" before the first end
    """

    def __init__(self, topic: str, partition: int, lineage: Lineage, settings: ModelSettings, decoder: Decoder) -> None:
        self.topic = topic
        self.partition = partition
        self.lineage = lineage
        self.next_offset = lineage.start
        self.publish_from = lineage.start
        self.clock = EpochClock(settings.epoch_length_ms, settings.max_ahead_ms)
        self.learner = Learner(settings.options)
        self.watch = RejectWatch(settings.reject_limits)
        self.ended_epoch = -1
        self.epoch_digest = ""
        self._limits = settings.limits
        self._decoder = decoder
        self._encoder = PredictionEncoder(topic, partition, lineage.model)

    @property
    def live(self) -> bool:
        """Whether every record whose outputs are committed has been learned."""
        return self.next_offset >= self.publish_from

    @property
    def sums(self) -> dict[str, NDArray[np.generic]]:
        """All state by name, besides the table and `epoch_digest`: the arrays themselves, or read-only copies."""
        return {
            **self.learner.sums,
            "clock": self.clock.state,
            "recent_rejects": self.watch.recent,
            "reject_run": np.array([self.watch.run], np.int64),
        }

    def restore(
        self, next_offset: int, ended_epoch: int, epoch_digest: str, sums: Mapping[str, NDArray[np.generic]]
    ) -> None:
        """Take over the state at `next_offset`, when the learner's table has been written.

        ValueError if `sums` are not those of such a model.
        """
        left = dict(sums)
        clock, recent, run = (left.pop(name, None) for name in ("clock", "recent_rejects", "reject_run"))
        if clock is None or recent is None or run is None or len(clock) != len(self.clock.state):
            raise ValueError(f"expected a clock and the recent rejects, found {', '.join(sorted(sums))}")
        self.learner.restore(left)
        self.clock.state[:] = clock
        self.watch.recent = recent.astype(np.bool_)
        self.watch.run = int(run[0])
        self.next_offset = next_offset
        self.ended_epoch, self.epoch_digest = ended_epoch, epoch_digest

    def jump(self, lineage: Lineage, gap: Gap) -> None:
        """Go on behind `gap`, which `lineage` names: its records are gone from the log."""
        self.lineage = lineage
        self.next_offset = gap.stop
        self.publish_from = max(self.publish_from, gap.stop)
        self._encoder = PredictionEncoder(self.topic, self.partition, lineage.model)

    def digest(self) -> str:
        """32 hex digits over every bit that later outputs depend on."""
        state = xxhash.xxh3_128(f"{self.next_offset} {self.lineage.model} {self.learner.digest()}".encode())
        for array in self.sums.values():
            state.update(array.view(np.uint8).data)
        return state.hexdigest()

    def process(self, records: Sequence[Record], lap: Lap = lambda _: None) -> Outcome:
        """Learn the next records of the partition, in order.

        ModelError, TooManyRejectsError name the offset; the model is then of no more use.
        """
        offsets = np.fromiter((record.offset() for record in records), np.int64, len(records))
        self._check_order(offsets)
        first = int(np.searchsorted(offsets, self.publish_from))
        decoded = self._decoder.decode([record.value() for record in records])
        timestamps = np.array([record.timestamp() for record in records], np.int64).reshape(-1, 2)
        previous = self.clock.epoch
        epochs, clock_rejects = self._epochs(decoded, timestamps)
        rejects = self._rejects(decoded, records, first) + [r for r in clock_rejects if r.record >= first]
        rejects.sort()
        self._count_rejects(decoded, clock_rejects, offsets, first, rejects)
        lap(Phase.DECODE)

        row_offsets = offsets[decoded.rows]
        first_row = int(np.searchsorted(decoded.rows, first))
        count = len(epochs)
        scores = Scores.empty(count)
        predictions: list[bytes] = []
        ends: list[EpochEnd] = []
        for start, stop in _runs(epochs):
            epoch = int(epochs[start])
            if previous not in (-1, epoch):
                growth = self.learner.end_epoch()
                self.ended_epoch, self.epoch_digest = previous, self.learner.digest()
                ends.append(EpochEnd(previous, int(row_offsets[start]), growth, self.epoch_digest))
                lap(Phase.GROW)
            previous = epoch
            self._learn(decoded, start, stop, scores, row_offsets)
            lap(Phase.LEARN)
            public = max(start, first_row)
            if public < stop:
                predictions += self._encoder.encode(
                    decoded, public, stop, scores.predictions, scores.losses, row_offsets, epoch
                )
                lap(Phase.ENCODE)
        self.next_offset = int(offsets[-1]) + 1 if len(offsets) else self.next_offset

        used = epochs[first_row:] != FAR_FUTURE
        labelled = int(np.count_nonzero(used & ~np.isnan(decoded.batch.labels[first_row:])))
        return Outcome(
            predictions,
            decoded.rows[first_row:][used].tolist(),
            rejects,
            ends,
            learned=labelled,
            unlabelled=len(predictions) - labelled,
            replayed=first,
        )

    def _check_order(self, offsets: NDArray[np.int64]) -> None:
        # A repeated record would be learned twice in silence; gaps are the markers of transactions.
        if len(offsets) and (offsets[0] < self.next_offset or (np.diff(offsets) <= 0).any()):
            raise AssertionError(
                f"expected records of {self.topic}-{self.partition} in order from offset {self.next_offset} on, "
                f"found {offsets[:10].tolist()}"
            )

    def _epochs(self, decoded: Decoded, timestamps: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Reject]]:
        """int64[m]: the epoch of each good row, FAR_FUTURE where its timestamp can't be used, and those rejects."""
        kinds, times = timestamps[decoded.rows].T
        # Kafka's clients can't send a timestamp of 0: they replace it by the time of day.
        present = (kinds != _NO_TIMESTAMP) & (times > 0)
        watermark = self.clock.watermark_ms
        epochs = np.full(len(times), FAR_FUTURE, np.int64)
        epochs[present] = self.clock.advance(np.ascontiguousarray(times[present]))
        refused = np.flatnonzero(epochs == FAR_FUTURE)
        if not len(refused):
            return epochs, []
        clock = np.maximum.accumulate(np.concatenate(([watermark], np.where(epochs == FAR_FUTURE, -1, times))))
        rejects = []
        for row in refused:
            index = int(decoded.rows[row])
            if present[row]:
                message = (
                    f"expected a timestamp at most {self.clock.max_ahead_ms} ms after {clock[row]} "
                    f"(the highest of the partition so far), found {times[row]}"
                )
                rejects.append(Reject(index, Reason.FAR_FUTURE, message))
            else:
                found = "none" if kinds[row] == _NO_TIMESTAMP else str(times[row])
                message = f"expected a timestamp above 0 ms since 1970, found {found}"
                rejects.append(Reject(index, Reason.BAD_TIMESTAMP, message))
        return epochs, rejects

    def _rejects(self, decoded: Decoded, records: Sequence[Record], first: int) -> list[Reject]:
        """What the decoder refused, from record `first` on."""
        found = first + np.flatnonzero(decoded.reasons[first:])
        rejects = []
        for index in found.tolist():
            reason = Reason(int(decoded.reasons[index]))
            place = int(decoded.places[index])
            rejects.append(Reject(index, reason, explain(reason, place, records[index].value(), self._limits)))
        return rejects

    def _count_rejects(
        self,
        decoded: Decoded,
        clock_rejects: list[Reject],
        offsets: NDArray[np.int64],
        first: int,
        rejects: list[Reject],
    ) -> None:
        rejected = decoded.reasons != Reason.OK
        rejected[[reject.record for reject in clock_rejects]] = True
        excess = self.watch.observe(rejected, first)
        if excess is not None:
            index, explanation = excess
            last = max((reject for reject in rejects if reject.record <= index), default=None)
            because = f"; the last one: {last.reason.code}: {last.message}" if last else ""
            raise TooManyRejectsError(f"{self.topic}-{self.partition}@{offsets[index]}: {explanation}{because}")

    def _learn(self, decoded: Decoded, start: int, stop: int, scores: Scores, row_offsets: NDArray[np.int64]) -> None:
        try:
            self.learner.learn(decoded.batch, start, stop, scores)
        except ModelError as error:
            place = f"{self.topic}-{self.partition}@{row_offsets[error.row]}"
            raise ModelError(f"{place}: {error}", error.row) from error


def _runs(epochs: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Start and stop of each run of rows that are learned in one epoch; refused rows are in none."""
    if not len(epochs):
        return
    bounds = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(epochs)]
    for start, stop in pairwise(bounds):
        if epochs[start] != FAR_FUTURE:
            yield start, stop
