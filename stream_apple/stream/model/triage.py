"""What becomes of each fetched record: an example of some epoch, or a reject with its reason.

    values      -> Decoder      rows of a batch, and a reason for each record that is not one
    timestamps  -> EpochClock   the epoch that each row is learned in, or another reason
    both        -> RejectCounter   whether so many are rejected that the worker must stop

Every array of the result is about the examples alone, so who learns them need not know of the rejects.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.config.duration import format_duration
from stream_apple.core.batch import Limits
from stream_apple.core.event_time import NO_EPOCH, ClockPlan, EpochClock
from stream_apple.errors import TooManyRejectsError
from stream_apple.records.message.decode import Decoded, Decoder
from stream_apple.records.message.prediction_formats import MSGPACK, PredictionFormat
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain
from stream_apple.records.times import time_text
from stream_apple.stream.log.columns import keys_of, offsets_of, timestamps_of
from stream_apple.stream.log.contents import contents_of
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.reject_counter import RejectCounter
from stream_apple.stream.model.rounds import Rounds

_NO_TIMESTAMP = 0  # the type of a missing timestamp, as in confluent_kafka


class Triaged(NamedTuple):
    """Holds what became of a batch of records: m examples, in the order of their offsets, and the rejects.

    decoded     the examples, m rows
    records     the m records that they came from
    offsets     int64[m]
    timestamps  int64[m], of the records, milliseconds since 1970
    epochs      int64[m], the epoch that each is learned in; one has ended where the number rises
    published   how many of the m, which are the first ones, have committed outputs already
    rejects     of records whose outputs are not committed yet, in the order of their offsets
    replayed    records, examples or not, whose outputs are committed already
    behind      the offset of the first example behind a boundary, if there is one among the records; then all of this
                is about the records before it only
    """

    decoded: Decoded
    records: Sequence[Record]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    epochs: NDArray[np.int64]
    published: int
    rejects: list[Reject]
    replayed: int
    behind: int | None = None

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield start and stop of each run of examples that are learned in one epoch."""
        if len(self.epochs):
            yield from pairwise([0, *(np.flatnonzero(np.diff(self.epochs)) + 1).tolist(), len(self.epochs)])


class _Plan(NamedTuple):
    """Holds what is to become of records, up to a boundary, before any state changes.

    timestamps  int64[m], milliseconds since 1970, of the rows of `decoded`
    clock       what the clock makes of these
    behind      as in `Triaged`
    """

    records: Sequence[Record]
    decoded: Decoded
    timestamps: NDArray[np.int64]
    clock: ClockPlan
    behind: int | None = None


class Triage:
    """Sorts the records of one partition, in order; it moves the model's `clock`, and counts in `rejects`.

    It takes three steps: it decodes the records; it has the clock plan, without moving, up to a boundary, as the clock
    must not know of records behind that; and it carries the plan out.

    place   topic and partition, for messages
    limits  of records; the bounds of outputs follow from them
    rounds  at whose boundaries the model stops; None if it never does
    """

    def __init__(
        self,
        place: str,
        decoder: Decoder,
        limits: Limits,
        clock: EpochClock,
        rejects: RejectCounter,
        rounds: Rounds | None = None,
        predictions: PredictionFormat = MSGPACK,
    ) -> None:
        self._place = place
        self._decoder = decoder
        self._limits = limits
        self._clock = clock
        self._rejects = rejects
        self._rounds = rounds
        self._most_key_and_id = predictions.largest_key_and_id(limits.max_record_bytes, limits.classes)

    def sort(self, records: Sequence[Record], next_offset: int, publish_from: int) -> Triaged:
        """Sort the next records of the partition, from `next_offset` on.

        Records before `publish_from` are replayed: their rejects became dead letters before the recovery, so they are
        only counted. AssertionError if records are out of order. TooManyRejectsError if too many can't be used; it
        names the offset.
        """
        self._check_order(offsets_of(records), next_offset)
        return self._apply(self._plan(records, self._decoded(records)), publish_from)

    def _plan(self, records: Sequence[Record], decoded: Decoded) -> "_Plan":
        """Return what becomes of the records, up to a boundary; that changes nothing."""
        timestamps = _times(decoded, records)
        clock = self._clock.plan(timestamps)
        first = self._first_behind(clock)
        if first is None:
            return _Plan(records, decoded, timestamps, clock)
        row = int(decoded.rows[first])
        before = self._clock.plan(timestamps[:first])
        return _Plan(records[:row], decoded.before(row), timestamps[:first], before, records[row].offset())

    def _apply(self, plan: "_Plan", publish_from: int) -> Triaged:
        """Move the clock, count the rejects, and return the result, with the rejects that are not replayed."""
        records, decoded, timestamps, (epochs, _), behind = plan
        offsets = offsets_of(records)
        replayed = int(np.searchsorted(offsets, publish_from))
        refused = (reject for reject in self._untimely(plan) if reject.record.offset() >= publish_from)
        rejects = sorted(
            [*self._undecodable(decoded, records, replayed), *refused], key=lambda reject: reject.record.offset()
        )
        self._clock.move(plan.clock)
        timely = epochs != NO_EPOCH
        rejected = decoded.reasons != Reason.OK
        rejected[decoded.rows[~timely]] = True
        self._count(rejected, offsets, replayed, rejects)
        if not timely.all():
            decoded, epochs, timestamps = decoded.select(np.flatnonzero(timely)), epochs[timely], timestamps[timely]
        rows = decoded.rows
        if decoded.timestamps is not None:
            timestamps = timestamps_of(records)[rows]  # answers have the time of the record, whatever its values say
        examples = records if len(rows) == len(records) else [records[row] for row in rows.tolist()]
        published = int(np.searchsorted(rows, replayed))
        return Triaged(decoded, examples, offsets[rows], timestamps, epochs, published, rejects, replayed, behind)

    def is_behind(self, record: Record) -> bool:
        """Whether the record, if it comes next, is an example behind a boundary; that changes nothing."""
        if self._rounds is None:
            return False
        return self._plan([record], self._decoded([record])).behind is not None

    def _decoded(self, records: Sequence[Record]) -> Decoded:
        """Decode the records; refuse those whose predictions could be larger than the predictions topic takes."""
        return self._answerable(self._decoder.decode(contents_of(records, framed=self._decoder.framed)), records)

    def _first_behind(self, plan: ClockPlan) -> int | None:
        """Return the first row that is behind a boundary; None if none is."""
        if self._rounds is None:
            return None
        accepted = np.flatnonzero(plan.epochs != NO_EPOCH)
        first = self._rounds.first_behind(self._clock.epoch, plan.epochs[accepted])
        return int(accepted[first]) if first < len(accepted) else None

    def _check_order(self, offsets: NDArray[np.int64], next_offset: int) -> None:
        # A repeated record would be learned twice in silence; gaps are the markers of transactions.
        if len(offsets) and (offsets[0] < next_offset or (np.diff(offsets) <= 0).any()):
            raise AssertionError(
                f"expected records of {self._place} in order from offset {next_offset} on, "
                f"found {offsets[:10].tolist()}"
            )

    def _answerable(self, decoded: Decoded, records: Sequence[Record]) -> Decoded:
        """Leave out the rows whose predictions could be too large for their topic, before any state depends on them."""
        keys, most = keys_of(records), self._most_key_and_id
        if max(map(len, filter(None, keys)), default=0) + self._limits.max_record_bytes <= most:
            return decoded
        rows, ids = decoded.rows, decoded.ids
        sizes = np.fromiter((len(keys[row] or b"") for row in rows.tolist()), np.int64, len(rows))
        refused = sizes + ids[:, 1] - ids[:, 0] > most
        decoded.reasons[rows[refused]] = Reason.RECORD_TOO_LARGE
        return decoded.select(np.flatnonzero(~refused))

    def _undecodable(self, decoded: Decoded, records: Sequence[Record], first: int) -> Iterator[Reject]:
        """Yield the records that the decoder has refused, from index `first` on."""
        for number in (first + np.flatnonzero(decoded.reasons[first:])).tolist():
            record, reason, place = records[number], Reason(int(decoded.reasons[number])), int(decoded.places[number])
            fault = decoded.faults.get(number)
            yield Reject(record, reason, self._explain(record, reason, place) if fault is None else fault)

    def _explain(self, record: Record, reason: Reason, place: int) -> str:
        value = record.value()
        if reason is Reason.RECORD_TOO_LARGE and len(value or b"") <= self._limits.max_record_bytes:
            return (
                f"expected a key and an id of at most {self._most_key_and_id} bytes "
                f"together, found a key of {len(record.key() or b'')} and a value of {len(value or b'')}"
            )
        return explain(reason, place, value, self._limits)

    def _untimely(self, plan: "_Plan") -> Iterator[Reject]:
        """Yield a reject for each row whose timestamp the clock refuses; call it before the clock moves."""
        records, decoded, timestamps = plan.records, plan.decoded, plan.timestamps
        clock = self._clock.copy()
        told = 0
        for row in np.flatnonzero(plan.clock.epochs == NO_EPOCH).tolist():
            clock.advance(timestamps[told:row])  # the copy moves on, to the watermark that this row was compared with
            told, watermark_ms = row, clock.watermark_ms
            record, time_ms = records[int(decoded.rows[row])], int(timestamps[row])
            if time_ms > 0 and 0 <= watermark_ms < time_ms - clock.max_ahead_ms:
                message = (
                    f"expected a timestamp at most {format_duration(clock.max_ahead_ms)} (epochs.max_ahead) after "
                    f"{time_text(watermark_ms)}, the latest of the partition before it, found {time_text(time_ms)}"
                )
                yield Reject(record, Reason.FAR_FUTURE, message)
            elif time_ms > 0:
                message = f"expected a timestamp in milliseconds, before the year 10000, found {time_text(time_ms)}"
                yield Reject(record, Reason.FAR_FUTURE, message)
            else:
                found = "none" if record.timestamp()[0] == _NO_TIMESTAMP else f"{time_ms} ms"
                message = f"expected a timestamp after 1970 began, found {found}"
                yield Reject(record, Reason.BAD_TIMESTAMP, message)

    def _count(
        self, rejected: NDArray[np.bool_], offsets: NDArray[np.int64], judged_from: int, rejects: list[Reject]
    ) -> None:
        excess = self._rejects.observe(rejected, judged_from)
        if excess is not None:
            number, explanation = excess
            offset = int(offsets[number])
            so_far = [reject for reject in rejects if reject.record.offset() <= offset]
            because = f"; the last one: {so_far[-1].reason.code}: {so_far[-1].message}" if so_far else ""
            raise TooManyRejectsError(f"{self._place}@{offset}: {explanation}{because}")


def _times(decoded: Decoded, records: Sequence[Record]) -> NDArray[np.int64]:
    """Return the event time of each row: from its value, if a field of that is the time; else the record's own."""
    return timestamps_of(records)[decoded.rows] if decoded.timestamps is None else decoded.timestamps
