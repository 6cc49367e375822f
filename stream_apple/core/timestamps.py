"""What the clocks of a stream, the worker's and the joiner's, believe of the timestamps of records."""

END_MS = 253_402_300_800_000
"""The year 10000: timestamps from here on are refused, as they are microseconds, nanoseconds, or no time at all."""

VOTES_AHEAD = 100
"""How many records that agree on a time far ahead of a clock put it there."""
