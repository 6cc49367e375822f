"""The join of one partition: a state machine that is driven only by two logs.

The two logs are merged into one sequence. The next impression and the next outcome alone decide which comes first:

    the time of an impression is that of its record, or that of the first heartbeat that covers it, if that is earlier:
    a record in the log can't have happened after the time of day
    an impression is due at its time + wait + tolerance
    the next outcome comes first if the clock after it is not past the time at which the next impression is due; a
    heartbeat comes before all impressions that it does not cover, as they came after it
    an outcome whose own time is before that of all impressions that are due comes first: either it is late, or the
    clock is ahead, and would draw on impressions that are not in the log yet

An impression must not wait for a time that is not true, as all after it would wait, too, and become late. So before a
record of the outcomes is taken in by which impressions after it may become late, an impression that is ahead of the
impressions so far is judged (`_judge`). It is refused if a heartbeat shows that its time is false, or if impressions
after it are against it.

When an impression's turn comes, it gets the outcomes of its id that are in memory, whose times are between its own time
less the tolerance and its own time plus the wait. An impression is late if its turn comes when the clock is past its
time + wait + 2 tolerances: some of its outcomes may have been forgotten, so its label is not known. An outcome is late
if no impression can need it any more.

Where impressions are sent as soon as they have an outcome (`early.py`), they are passed over when their turn comes.

So the output depends only on the records of the two logs, in their order, and on the rule: not on when records are
read, or in which portions, and not on restarts.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import isfinite
from typing import NamedTuple

from stream_apple.config.duration import format_duration
from stream_apple.core.timestamps import VOTES_AHEAD
from stream_apple.records.message.message_size import largest_prediction, message_bytes
from stream_apple.records.message.outer_map import LabelAndWeight
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError
from stream_apple.records.times import time_text
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.early import EarlyImpressions, Waiting
from stream_apple.stream.joining.outcome_window import NO_OFFSET, NOBODY, UNKNOWN, OutcomeWindow, WindowEntry
from stream_apple.stream.joining.own_messages import Entry, HeartbeatEntry, Impression, OutcomeEntry, Unusable
from stream_apple.stream.joining.position import NOT_KNOWN, JoinPosition
from stream_apple.stream.joining.rule import MOST_AHEAD_MS, JoinRule
from stream_apple.stream.log.ports import Record

MOST_OF_AN_ID = 1000
"""How many outcomes of its id an impression looks at, the first ones of the window. This bounds the time that it takes,
however often an id is sent."""
MOST_WITNESSES = 1000
"""How many impressions after one that is ahead of all before it are asked about its time."""
VOTES_AGAINST = 2
"""How many more of them must be against it than for it. One alone may be late itself; later ones are for any time."""
BEATS_WITHIN = 10_000
"""Among how many records of the outcomes the next heartbeat is looked for, to know which impressions are asked."""


class Refused(NamedTuple):
    """Holds a record of one of the two topics that becomes a dead letter, and the reason."""

    topic: str
    record: Record
    reason: Reason
    place: int = 0
    fault: str | None = None


class Joined:
    """Collects the results of a step: examples, by column, and dead letters, in the order of the sequence.

    keys, values, timestamps_ms  of the examples
    refused     the records that become dead letters
    labelled    impressions whose label is of an outcome
    own         impressions without an outcome that had a label of their own
    default     impressions without an outcome that got the default label
    dropped     impressions without a label, which make no example
    refused_impressions  impressions among `refused`
    matched     outcomes that were used by an impression for the first time
    repeated    further uses of outcomes, by impressions of the same id
    unmatched   outcomes that were forgotten without being used
    """

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes] = []
        self.timestamps_ms: list[int] = []
        self.refused: list[Refused] = []
        self.labelled = self.own = self.default = self.dropped = self.refused_impressions = 0
        self.matched = self.repeated = self.unmatched = 0

    def add(self, impression: Impression, value: bytes) -> None:
        """Add an example."""
        self.keys.append(impression.record.key())
        self.values.append(value)
        self.timestamps_ms.append(impression.time_ms)


class PartitionJoin:
    """Joins the records that it is offered, as far as their order can be decided.

    window     the outcomes in memory
    full       whether the join stands still: the memory for outcomes is full, and the next impression needs more
    undecided  whether it waits for further records, to judge the time of the next impression
    """

    def __init__(self, rule: JoinRule, position: JoinPosition) -> None:
        self._rule = rule
        self._largest = largest_prediction(rule.max_bytes)
        self._default = None if rule.default_label is None else LabelAndWeight(rule.default_label)
        self.window = OutcomeWindow(position.clock, rule.window_ms, rule.tolerance_ms, position.beat)
        self._impressions: deque[Impression | Unusable] = deque()
        self._outcomes: deque[Entry] = deque()
        self._next_impression = position.impressions
        self._next_outcome = position.window_from
        self._known_until = position.outcomes
        self._complete_from = position.complete_from
        self._doubted = position.doubted
        self.full = False
        self.undecided = False
        self._shown = position.shown
        # The heartbeats among `_outcomes`, each with the number of records that were offered before it.
        self._beats: deque[tuple[int, HeartbeatEntry]] = deque()
        self._offered_outcomes = 0
        # If the rule no longer sends impressions early, those that were seen still are: some of them have been sent.
        self._seen = position.seen if position.seen > position.impressions else 0
        self._early: EarlyImpressions | None = None
        if rule.on_outcome or self._seen:
            self._early = EarlyImpressions(None if rule.on_outcome else self._seen)
        self._early_fingerprint = rule.early_fingerprint
        self._offered: deque[Impression] = deque()
        self._read_to, self._looked_to = position.impressions, self._seen
        self._log_end = 0

    @property
    def restoring(self) -> bool:
        """Whether outcomes or impressions that were seen before a restart are still to be taken in again."""
        return self._next_outcome < self._known_until or self._read_to < self._seen

    def wants_impressions(self, most: int) -> bool:
        """Whether further impressions should be read, `most` at a time."""
        if self._read_to < self._seen:
            return True
        if self.restoring:
            return False
        if self.undecided and len(self._impressions) <= MOST_WITNESSES:
            return True
        return len(self._impressions) < max(most, self._rule.max_impressions if self._rule.on_outcome else 0)

    def wants_outcomes(self, most: int) -> bool:
        """Whether further outcomes should be read, `most` at a time."""
        return not self.full and len(self._outcomes) < (max(most, BEATS_WITHIN) if self.undecided else most)

    @property
    def due_ms(self) -> int | None:
        """Return the time at which the next impression is due, as far as is known; None if none is waiting."""
        first = self._impressions[0] if self._impressions else None
        if not isinstance(first, Impression):
            return None
        return self._time_of(first) + self._rule.wait_ms + self._rule.tolerance_ms

    @property
    def position(self) -> JoinPosition:
        """Return the position from which a successor can go on."""
        first = self.window.first_offset
        seen = self._looked_to if self._rule.on_outcome else self._seen
        in_doubt = seen > self._next_impression
        return JoinPosition(
            self._next_impression,
            max(self._next_outcome, self._known_until),
            self._next_outcome if first is None else first,
            self.window.before,
            self._complete_from,
            seen if in_doubt else 0,
            self._early_fingerprint if in_doubt else "",
            self._doubted if self._doubted > self._next_impression else 0,
            self._shown,
            self.window.beat_before,
        )

    def offer_impressions(self, some: Sequence[Impression | Unusable], read_to: int = 0, log_end: int = 0) -> None:
        """Take the next records of the log of impressions.

        read_to  all impressions below this offset have been offered
        log_end  of the impressions, as far as is known
        """
        self._impressions.extend(some)
        self._read_to, self._log_end = max(self._read_to, read_to, some[-1].offset + 1 if some else 0), log_end
        if self._early is not None:
            self._offered.extend(each for each in some if isinstance(each, Impression))

    def offer_outcomes(self, some: Sequence[Entry]) -> None:
        """Take the next records of the log of outcomes."""
        for number, each in enumerate(some, self._offered_outcomes):
            if isinstance(each, HeartbeatEntry):
                self._beats.append((number, each))
        self._offered_outcomes += len(some)
        self._outcomes.extend(some)

    def advance(self, most: int) -> Joined:
        """Take in at most `most` records of both logs, as far as their order can be decided; return the results."""
        made = Joined()
        if self.restoring:
            self._restore()
        if self.restoring:
            return made
        self._look_at(self._read_to, made)
        outcomes, left, self.full, self.undecided = self._outcomes, most, False, False
        while left and self._impressions:
            entry = outcomes[0] if outcomes else None
            clock = None if entry is None or isinstance(entry, Unusable) else self.window.clock_behind(entry)
            covers = entry.covers if isinstance(entry, HeartbeatEntry) else NO_OFFSET
            if isinstance(entry, OutcomeEntry) and clock is not None and entry.time_ms < self._due_before(clock.now):
                covers = 0
            left = self._join_due(0 if clock is None else clock.now, covers, left, made)
            first = self._impressions[0] if self._impressions else None
            if not left or entry is None or not isinstance(first, Impression):
                break
            if clock is not None and first.offset < covers and self._is_ahead(first, clock.now):
                fault = self._judge(first)
                if fault is None:
                    self.undecided = True
                    break
                if fault:
                    self._pass_over(first, fault, made)
                    left -= 1
                    continue
            if isinstance(entry, OutcomeEntry) and self.window.outcomes >= self._rule.max_outcomes:
                self.full = True
                break
            if self._lacks_impressions:
                break
            self._take_in(self._next_entry(), made, clock)
            left -= 1
        if self._early is not None and not self._rule.on_outcome and self._next_impression >= self._seen:
            self._early, self._seen, self.window.pinned_from = None, 0, None
            self._offered.clear()
        return made

    @property
    def _lacks_impressions(self) -> bool:
        """Whether the log has impressions that are not read yet, and that the next outcome may belong to."""
        early = self._early
        if early is None or not self._rule.on_outcome or len(self._impressions) >= self._rule.max_impressions:
            return False
        return self._read_to < min(early.covered_to, self._log_end)

    def _restore(self) -> None:
        """Take in again the records that were taken in before a restart, and send nothing."""
        if self._read_to < self._seen:
            return
        nothing = Joined()
        self._look_at(self._seen, nothing)
        while self._next_outcome < self._known_until and self._outcomes:
            self._take_in(self._next_entry(), nothing, None)

    def _next_entry(self) -> Entry:
        entry = self._outcomes.popleft()
        if self._beats and self._beats[0][1] is entry:
            self._beats.popleft()
        return entry

    def _is_ahead(self, impression: Impression, now: int) -> bool:
        """Whether the next impression is ahead of those before it, which would be due if the clock were `now`.

        Then those after it may become late while it waits.
        """
        shown, tolerance_ms = self._shown, self._rule.tolerance_ms
        return shown < self._due_before(now) and self._time_of(impression) > shown + tolerance_ms

    def _judge(self, impression: Impression) -> str | None:
        """Judge the time of the next impression, which is ahead of those before it.

        Return what is wrong with it; "" if nothing is; None if further records must be read to decide that. Like the
        clock of a model (`core/event_time.py`), it is a rival of the impressions before it, and those after it vote.
        Only impressions that the next heartbeat covers have a vote, so the decision does not depend on how far the log
        was read. If that heartbeat is far away, all have one that are in the log, so that no join waits for others.
        """
        tolerance_ms, time_ms = self._rule.tolerance_ms, self._time_of(impression)
        beat, below = None, NO_OFFSET
        if self._beats and self._beats[0][0] - self._offered_outcomes + len(self._outcomes) < BEATS_WITHIN:
            beat = self._beats[0][1]
            below = beat.covers
        elif len(self._outcomes) < BEATS_WITHIN:
            return None
        if below <= impression.offset:
            return ""  # it came after the heartbeat, and no impression is kept waiting
        held = self.window.heartbeats
        latest = min(held[0].time_ms if held else NO_OFFSET, NO_OFFSET if beat is None else beat.time_ms)
        if impression.time_ms > latest + tolerance_ms:
            return self._fault(impression, latest, "when it was in the log")
        votes = looked = 0
        for each in islice(self._impressions, 1, MOST_WITNESSES + 1):
            if each.offset >= below or votes >= VOTES_AHEAD or votes <= -VOTES_AGAINST:
                break
            looked += 1
            if not isinstance(each, Impression) or (beat is not None and each.time_ms > beat.time_ms + tolerance_ms):
                continue
            if each.time_ms >= time_ms - tolerance_ms:
                votes += 1
            elif each.time_ms >= self._shown - tolerance_ms:
                votes -= 1
        end = self._log_end if beat is None else below
        whole = looked == MOST_WITNESSES or 0 <= end <= self._read_to
        if not whole and -VOTES_AGAINST < votes < VOTES_AHEAD:
            return None
        if votes < 0:
            return self._fault(impression, self._shown, "as the impressions around it have")
        self._shown = time_ms
        return ""

    def _fault(self, impression: Impression, latest_ms: int, why: str) -> str:
        return (
            f"expected a time at most {format_duration(self._rule.tolerance_ms)} (join.tolerance) after "
            f"{time_text(latest_ms)}, {why}, found {time_text(impression.time_ms)}"
        )

    def _pass_over(self, impression: Impression, fault: str, made: Joined) -> None:
        """Refuse the next impression because of its time, unless it was sent early."""
        if self._early is None or not self._early.turn(impression):
            self._refuse_impression(impression.record, Reason.BAD_TIMESTAMP, made, fault=fault)
        self._next_impression = impression.offset + 1
        self._impressions.popleft()

    def _look_at(self, below: int, made: Joined) -> None:
        """Send the offered impressions below an offset that have an outcome already."""
        while self._early is not None and self._offered and self._offered[0].offset < below:
            waiting = self._early.add(self._offered.popleft())
            if waiting is not None:
                self._send_if_known(waiting, made)
        self._looked_to = max(self._looked_to, below)

    def _send_if_known(self, waiting: Waiting, made: Joined) -> None:
        """Send an impression that was just covered if it has an outcome."""
        assert self._early is not None
        (impression, time_ms), rule = waiting, self._rule
        from_ms, to_ms = time_ms - rule.tolerance_ms, time_ms + rule.wait_ms
        if self._may_lack_outcomes(impression, from_ms) or impression.time_ms > time_ms + MOST_AHEAD_MS:
            self._early.withdraw(waiting)  # it is refused when its turn comes
            return
        # All outcomes count, not only MOST_OF_AN_ID: which those are depends on when the impression is read.
        outcome = self.window.by_id.find(impression.outer.id, from_ms, to_ms)
        if outcome is not None:
            self._send_early(waiting, outcome, made)

    def _send_early(self, waiting: Waiting, outcome: WindowEntry, made: Joined) -> None:
        assert self._early is not None
        self._early.sent(waiting, outcome.offset)
        self._label(waiting.impression, (outcome,), made)

    def _join_due(self, now: int, covers: int, most: int, made: Joined) -> int:
        """Join at most `most` impressions, up to the first that is not due at `now`, or not below offset `covers`.

        Return `most` less the number of joined impressions.
        """
        impressions, heartbeats = self._impressions, self.window.heartbeats
        due_before = self._due_before(now)
        while most and impressions:
            first = impressions[0]
            if isinstance(first, Impression):
                while heartbeats and heartbeats[0].covers <= first.offset:
                    self._shown = max(self._shown, heartbeats.popleft().since_ms)
                time_ms = self._time_of(first)
                if time_ms >= due_before or first.offset >= covers:
                    break
                self._shown = max(self._shown, time_ms)
                if self._early is None or not self._early.turn(first):
                    self._join(first, time_ms, made)
            else:
                self._refuse_impression(first.record, first.reason, made, first.place, first.fault)
            self._next_impression = first.offset + 1
            impressions.popleft()
            most -= 1
        return most

    def _due_before(self, now: int) -> int:
        return now - self._rule.wait_ms - self._rule.tolerance_ms

    def _time_of(self, impression: Impression) -> int:
        for heartbeat in self.window.heartbeats:
            if heartbeat.covers > impression.offset:
                return min(impression.time_ms, heartbeat.time_ms)
        return impression.time_ms

    def _take_in(self, entry: Entry, made: Joined, clock: OutcomeClock | None) -> None:
        restoring = self.restoring
        self._next_outcome = entry.offset + 1
        if isinstance(entry, Unusable):
            if entry.reason is not Reason.OK:
                made.refused.append(Refused(self._rule.outcomes, *entry[1:]))
            return
        now = self.window.clock.now
        if self._complete_from and now < 0:
            known = self._complete_from
            self._complete_from = entry.time_ms if known == NOT_KNOWN else min(known, entry.time_ms)
        if isinstance(entry, OutcomeEntry) and entry.time_ms < now - self._rule.window_ms:
            made.refused.append(Refused(self._rule.outcomes, entry.record, Reason.LATE))
            return
        behind, early = self.window.clock_behind(entry) if clock is None else clock, self._early
        if early is not None:
            self.window.pinned_from = early.needed_from(self._next_impression)
        if behind.now < now and not restoring:
            self._shown = min(self._shown, behind.now)
        made.unmatched += self.window.take_in(entry, behind, UNKNOWN if restoring else NOBODY)
        for record, fault in self.window.take_refused():
            made.refused.append(Refused(self._rule.outcomes, record, Reason.BAD_TIMESTAMP, 0, fault))
        if early is None:
            return
        if isinstance(entry, HeartbeatEntry):
            for waiting in early.cover(entry) if self.window.took_heartbeat else ():
                self._send_if_known(waiting, made)
        else:
            outcome, rule = self.window.latest, self._rule
            from_ms, to_ms = outcome.time_ms - rule.wait_ms, outcome.time_ms + rule.tolerance_ms
            while (found := early.first_of(entry.id, from_ms, to_ms)) is not None:
                self._send_early(found, outcome, made)

    def _may_lack_outcomes(self, impression: Impression, from_ms: int) -> bool:
        """Whether outcomes of the impression, whose window begins at this time, may be gone from their log."""
        known_from = self._complete_from
        unseen = known_from == NOT_KNOWN or from_ms < known_from
        return impression.offset < self._doubted or (known_from != 0 and unseen)

    def _join(self, impression: Impression, time_ms: int, made: Joined) -> None:
        rule, outer = self._rule, impression.outer
        from_ms, to_ms = time_ms - rule.tolerance_ms, time_ms + rule.wait_ms
        if self._may_lack_outcomes(impression, from_ms) or self.window.clock.now > to_ms + 2 * rule.tolerance_ms:
            self._refuse_impression(impression.record, Reason.LATE, made)
            return
        if impression.time_ms > time_ms + MOST_AHEAD_MS:
            fault = (
                f"expected a time at most 6 days after {time_text(time_ms)}, when it was in the log, found "
                f"{time_text(impression.time_ms)}"
            )
            self._refuse_impression(impression.record, Reason.BAD_TIMESTAMP, made, fault=fault)
            return
        first = self.window.by_id.first(outer.id, MOST_OF_AN_ID)
        if first:
            found = [each for each in first if from_ms <= each.time_ms <= to_ms]
            if found:
                self._label(impression, found, made)
                return
        if outer.has_label:
            made.own += self._add(impression, None, made)
        elif self._default is not None:
            made.default += self._add(impression, self._default, made)
        else:
            made.dropped += 1

    def _label(self, impression: Impression, found: Sequence[WindowEntry], made: Joined) -> None:
        """Make an example of the impression with the label of these outcomes."""
        label, weight = self._chosen(found)
        if not isfinite(label):  # a sum may overflow
            self._refuse_impression(impression.record, Reason.BAD_LABEL, made)
            return
        if not self._add(impression, LabelAndWeight(label, weight), made):
            return
        for each in found:
            if each.matched < 0:
                made.matched += 1
                each.matched = impression.offset
            else:
                made.repeated += 1
        made.labelled += 1

    def _add(self, impression: Impression, numbers: LabelAndWeight | None, made: Joined) -> bool:
        """Add the impression as an example, with these numbers or as it is; return False if it is refused."""
        record, outer, most = impression.record, impression.outer, self._rule.max_bytes
        try:
            value = outer.as_it_is if numbers is None else outer.labelled(numbers)
        except RefusedError as error:
            self._refuse_impression(record, error.reason, made, fault=str(error))
            return False
        size = message_bytes(record.key(), value)
        if len(value) > most or size > self._largest:
            # A worker would refuse a value above `most`, and the topic a message above `_largest`.
            fault = (
                f"expected an example of at most {most} bytes, and {self._largest} with its key, "
                f"found {len(value)} bytes with its label, and {size} with its key"
            )
            self._refuse_impression(record, Reason.RECORD_TOO_LARGE, made, fault=fault)
            return False
        made.add(impression, value)
        return True

    def _refuse_impression(
        self, record: Record, reason: Reason, made: Joined, place: int = 0, fault: str | None = None
    ) -> None:
        made.refused_impressions += 1
        made.refused.append(Refused(self._rule.impressions, record, reason, place, fault))

    def _chosen(self, found: Sequence[WindowEntry]) -> tuple[float, float | None]:
        """Return label and weight of several outcomes by the rule; outcomes of equal times are in the order of offsets.

        If impressions are sent early, the first outcome of the log counts.
        """
        if self._rule.on_outcome:
            return found[0].label, found[0].weight
        match self._rule.several:
            case "first":
                chosen = min(found, key=lambda each: each.time_ms)
            case "last":
                chosen = max(found, key=lambda each: (each.time_ms, each.offset))
            case "max":
                chosen = max(found, key=lambda each: (each.label, -each.time_ms))
            case "sum":
                chosen = max(found, key=lambda each: (each.time_ms, each.offset))
                return float(sum(each.label for each in found)), chosen.weight
        return chosen.label, chosen.weight
