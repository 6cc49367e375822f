"""The clock of a partition's outcomes: up to which time its log is known to be complete.

It is a function of the log alone. A heartbeat is a joiner's statement of the time of day, and is believed: the clock
goes forward to it, and back to it if it was ahead by more than the tolerance. Between heartbeats, and in a log that is
older than the first joiner, outcomes move the clock by their own times: one within the tolerance is believed, others
only by a majority, as in `core/event_time.py`. Outcomes never set the clock back; the next heartbeat does that.
"""

from typing import NamedTuple

from stream_apple.core.timestamps import END_MS, VOTES_AHEAD


class OutcomeClock(NamedTuple):
    """Holds the state of the clock; times are milliseconds since 1970.

    now    the clock's time, -1 before it is known
    votes  how many outcomes that are far ahead, and agree with one another, support `rival`
    rival  a time that the clock may jump forward to; -1: there is none
    """

    now: int = -1
    votes: int = 0
    rival: int = -1

    def at_heartbeat(self, time_ms: int, tolerance_ms: int) -> "OutcomeClock":
        """Return the clock behind a heartbeat."""
        return OutcomeClock(time_ms if self.now > time_ms + tolerance_ms else max(self.now, time_ms))

    def at_outcome(self, time_ms: int, tolerance_ms: int) -> "OutcomeClock":
        """Return the clock behind an outcome of this time."""
        now, votes, rival = self
        if now >= 0 and time_ms <= now + tolerance_ms:
            if time_ms < now - tolerance_ms:
                return self  # it is late, so it does not show how far the log has come
            return OutcomeClock(max(now, time_ms), votes - 1 if votes else 0, rival)
        if not 0 < time_ms < END_MS:
            return self
        if votes and abs(time_ms - rival) <= tolerance_ms:
            votes, rival = votes + 1, max(rival, time_ms)
        elif votes:
            votes -= 1
        else:
            votes, rival = 1, time_ms
        return OutcomeClock(rival) if votes >= VOTES_AHEAD else OutcomeClock(now, votes, rival)
