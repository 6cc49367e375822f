"""The end of the times that records may have."""

END_MS = 253_402_300_800_000
"""The year 10000: timestamps from here on are refused, as they are microseconds, nanoseconds, or no time at all."""
