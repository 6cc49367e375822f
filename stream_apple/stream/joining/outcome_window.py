"""The outcomes of the latest period, by id, which a join keeps in memory."""

import heapq
from collections import deque

from stream_apple.config.duration import format_duration
from stream_apple.records.times import time_text
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.own_messages import HeartbeatEntry, OutcomeEntry
from stream_apple.stream.joining.time_index import TimedById
from stream_apple.stream.log.ports import Record

MOST_HEARTBEATS = 50_000
"""How many heartbeats of a whole window are kept, some 10 MB. Of more, those only move the clock that come sooner after
the last one that was kept than the window's share. With one a second, all are kept if the window is below 13 hours."""

_UNTIMED = -1
NOBODY, UNKNOWN = -1, -2
NO_OFFSET = 1 << 63
"""A number above every offset."""


class WindowEntry:
    """Keeps one outcome, or a heartbeat, which has no id, from when it is taken in until it is forgotten.

    since_ms  the clock's time when it reached this outcome's time; _UNTIMED while the outcome is ahead of the clock
    matched   the offset of the first impression that has it; NOBODY, or UNKNOWN if it was here before a restart
    """

    __slots__ = ("covers", "id", "label", "matched", "offset", "since_ms", "time_ms", "weight")

    def __init__(self, entry: OutcomeEntry | HeartbeatEntry) -> None:
        self.offset = entry.offset
        self.time_ms = entry.time_ms
        self.since_ms = _UNTIMED
        self.matched = NOBODY
        self.id: bytes | None
        if isinstance(entry, OutcomeEntry):
            self.id, self.label, self.weight, self.covers = entry.id, entry.label, entry.weight, 0
        else:
            self.id, self.label, self.weight, self.covers = None, 0.0, None, entry.covers


class OutcomeWindow:
    """Keeps outcomes in the order of the log; its state is a function of the entries that were taken in.

    clock        after the last entry that was taken in
    before       the clock before the first entry that is kept
    beat         the time of the last heartbeat that was kept; -1: none was
    beat_before  the same, before the first entry that is kept
    took_heartbeat  whether the entry that was taken in last is a heartbeat that is kept
    heartbeats   those that may cover further impressions, in their order
    outcomes     how many outcomes are kept, without heartbeats
    by_id        the outcomes of each id, in the order of their offsets
    pinned_from  entries from this offset on are not forgotten, however old they are; None: all may be
    """

    def __init__(self, clock: OutcomeClock, kept_ms: int, tolerance_ms: int, beat_ms: int = -1) -> None:
        self.clock = self.before = clock
        self.beat = self.beat_before = beat_ms
        self.took_heartbeat = False
        self._apart_ms = kept_ms // MOST_HEARTBEATS
        # The clocks before the kept entries that come after a heartbeat that is not kept, by their offsets.
        self._clocks: deque[tuple[int, OutcomeClock]] = deque()
        self._passed_over = False
        self.heartbeats: deque[WindowEntry] = deque()
        self.outcomes = 0
        self.pinned_from: int | None = None
        self._kept_ms = kept_ms
        self._tolerance_ms = tolerance_ms
        self._log: deque[WindowEntry] = deque()
        self.by_id = TimedById[WindowEntry]()
        # Of the outcomes ahead of the clock: their times and offsets, a heap; by offset, the outcome, its record, and
        # the clock's time when it was taken in.
        self._ahead: list[tuple[int, int]] = []
        self._ahead_at: dict[int, tuple[WindowEntry, Record, int]] = {}
        self._jumped_to = _UNTIMED
        self._refused: list[tuple[Record, str]] = []

    def __len__(self) -> int:
        return len(self._log)

    @property
    def first_offset(self) -> int | None:
        """Return the offset of the first entry that is kept; None if there is none."""
        return self._log[0].offset if self._log else None

    @property
    def latest(self) -> WindowEntry:
        """Return the entry that was taken in last."""
        return self._log[-1]

    def clock_behind(self, entry: OutcomeEntry | HeartbeatEntry) -> OutcomeClock:
        """Return what the clock will be after the next record of the log."""
        move = self.clock.at_outcome if isinstance(entry, OutcomeEntry) else self.clock.at_heartbeat
        return move(entry.time_ms, self._tolerance_ms)

    def take_in(self, entry: OutcomeEntry | HeartbeatEntry, clock: OutcomeClock, matched: int = NOBODY) -> int:
        """Take in the next record, after which the clock is `clock`; return how many unmatched outcomes are forgotten.

        matched  of an outcome; UNKNOWN: it was kept at the last commit, and so were all after it, so none is forgotten
        """
        back, jumped = clock.now < self.clock.now, clock.now > self.clock.now + self._tolerance_ms
        before, self.clock = self.clock, clock
        taken = WindowEntry(entry)
        taken.matched = matched
        self.took_heartbeat = taken.id is None and not self.beat <= taken.time_ms < self.beat + self._apart_ms
        if taken.id is None:
            if back:
                for each in self._log:
                    each.since_ms = min(each.since_ms, clock.now)
            # All that was in the log before a heartbeat happened before it, whatever its time says.
            for each, _, _ in self._ahead_at.values():
                each.since_ms = clock.now
            self._ahead.clear()
            self._ahead_at.clear()
            taken.since_ms = clock.now
        if taken.id is None and not self.took_heartbeat:
            self._passed_over = True
        else:
            if self._passed_over:
                self._clocks.append((taken.offset, before))
                self._passed_over = False
            self._log.append(taken)
        if self.took_heartbeat:
            self.beat = taken.time_ms
            self.heartbeats.append(taken)
        elif taken.id is not None:
            self.outcomes += 1
            self.by_id.add(taken.id, taken)
            if jumped:
                self._jumped_to = clock.now
            if isinstance(entry, OutcomeEntry) and entry.time_ms > clock.now:
                heapq.heappush(self._ahead, (entry.time_ms, entry.offset))
                self._ahead_at[entry.offset] = taken, entry.record, clock.now
            else:
                taken.since_ms = clock.now
            while self._ahead and self._ahead[0][0] <= clock.now:
                _, offset = heapq.heappop(self._ahead)
                if offset in self._ahead_at:
                    self._ahead_at.pop(offset)[0].since_ms = clock.now
        unmatched = 0 if matched == UNKNOWN else self._forget()
        if not self._log:
            self.before, self._passed_over = self.clock, False
        return unmatched

    def _forget(self) -> int:
        log, gone, unmatched = self._log, self.clock.now - self._kept_ms, 0
        pinned = NO_OFFSET if self.pinned_from is None else self.pinned_from
        while (
            log
            and log[0].offset < pinned
            and (log[0].since_ms < gone if log[0].since_ms >= 0 else self._is_false(log[0]))
        ):
            oldest = log.popleft()
            if oldest.id is None:
                self.before = self.before.at_heartbeat(oldest.time_ms, self._tolerance_ms)
                self.beat_before = oldest.time_ms
                if self.heartbeats and self.heartbeats[0] is oldest:
                    self.heartbeats.popleft()
            else:
                self.before = self.before.at_outcome(oldest.time_ms, self._tolerance_ms)
                self.outcomes -= 1
                self.by_id.remove(oldest.id, oldest.offset)
                if oldest.since_ms == _UNTIMED:
                    self._refuse(oldest)
                else:
                    unmatched += oldest.matched == NOBODY
            if log and self._clocks and self._clocks[0][0] == log[0].offset:
                self.before = self._clocks.popleft()[1]
        return unmatched

    def _is_false(self, oldest: WindowEntry) -> bool:
        """Whether the clock has moved on for so long without reaching the outcome's time that this can't be true.

        A clock that jumps does not show that, as outcomes that are ahead may be of the time that it jumps to.
        """
        return max(self._ahead_at[oldest.offset][2], self._jumped_to) < self.clock.now - self._kept_ms

    def _refuse(self, oldest: WindowEntry) -> None:
        fault = (
            f"expected a time that the clock of the outcomes reaches within {format_duration(self._kept_ms)} "
            f"(join.wait and three times join.tolerance), found {time_text(oldest.time_ms)} when the clock was at "
            f"{time_text(self.clock.now)}"
        )
        self._refused.append((self._ahead_at.pop(oldest.offset)[1], fault))

    def take_refused(self) -> list[tuple[Record, str]]:
        """Return the outcomes that turned out to have a false time since the last call, each with what is wrong."""
        found, self._refused = self._refused, []
        return found
