"""The position of a partition's join in its two logs, and its note in the metadata of the impressions' offset."""

import json
from typing import Literal, NamedTuple

from stream_apple.core.timestamps import END_MS, VOTES_AHEAD
from stream_apple.errors import ConfigurationError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.rule import FORMAT, JoinRule
from stream_apple.stream.log.ports import Committed
from stream_apple.untrusted import MalformedError, ModelHash, Offset, OffsetOrNone, Stored, from_json, in_short

NOT_KNOWN = -1
"""Takes the place of a time if outcomes are gone, and no time of an outcome after them is known yet."""


class JoinPosition(NamedTuple):
    """Holds all that a successor needs to find the same state again from the two logs.

    impressions    the next offset to join
    outcomes       the next offset to take in
    window_from    the offset of the first outcome that is still in the window; `outcomes` if none is
    clock          of the outcomes, before `window_from`
    complete_from  outcomes before this time may be gone from their log unseen; 0: none are; or NOT_KNOWN
    seen           impressions below this offset were sent early if they had an outcome; 0: none was
    early          the `JoinRule.early_fingerprint` by which they were sent
    shown          the clock of the impressions: the next one came after this time, or within the tolerance of it
    beat           the time of the last heartbeat before `window_from` that was kept; -1: none was
    doubted        it is not known which impressions below this offset were sent early, as outcomes are gone
    """

    impressions: int
    outcomes: int
    window_from: int
    clock: OutcomeClock
    complete_from: int = 0
    seen: int = 0
    early: str = ""
    doubted: int = 0
    shown: int = -1
    beat: int = -1

    def to_committed(self, rule: JoinRule, fingerprint: str) -> Committed:
        """Return the offset and metadata to commit; the fingerprint is the rule's."""
        content = {
            "v": FORMAT,
            "topic": rule.outcomes,
            "examples": rule.examples,
            "rule": fingerprint,
            "outcomes": self.outcomes,
            "held_from": self.window_from,
            "clock": self.clock,
            "complete_from": self.complete_from,
            "seen": self.seen,
            "early": self.early,
            "doubted": self.doubted,
            "shown": self.shown,
            "beat": self.beat,
        }
        return Committed(self.impressions, json.dumps(content, separators=(",", ":")))


class _StoredPosition(Stored):
    """Checks the text that `JoinPosition.to_committed` has written."""

    v: Literal[1]
    topic: str
    examples: str
    rule: ModelHash
    outcomes: Offset
    held_from: Offset
    clock: tuple[OffsetOrNone, Offset, OffsetOrNone]
    complete_from: OffsetOrNone
    seen: Offset
    early: ModelHash | Literal[""]
    doubted: Offset
    shown: OffsetOrNone
    beat: OffsetOrNone

    def contradiction(self) -> str | None:
        """Return what can't be true of all fields together, and what was found; None if it can."""
        now, votes, rival = self.clock
        times = {
            "the time of the clock": now,
            "its rival": rival,
            "complete_from": self.complete_from,
            "shown": self.shown,
            "beat": self.beat,
        }
        for name, time_ms in times.items():
            if time_ms >= END_MS:
                return f"{name} below {END_MS} (the year 10000), found {time_ms}"
        if votes >= VOTES_AHEAD or (votes and rival < 0):
            return f"fewer than {VOTES_AHEAD} votes for a rival of the clock, or none without it, found {votes}"
        if self.held_from > self.outcomes:
            return f"held_from at most outcomes, {self.outcomes}, found {self.held_from}"
        if bool(self.seen) != bool(self.early):
            return f"seen and early, or neither, found {self.seen} and {self.early or 'nothing'}"
        return None


def implausible(place: str, offset: int, text: str) -> ConfigurationError:
    """Return the error of a note that is well-formed, and which no join can have written; `text` says why."""
    return ConfigurationError(
        f"{place}@{offset}: expected what `stream-apple join` writes next to a committed offset, with {text}. Another "
        f"program has committed in this group; use a new join.group, which joins all that the topics hold"
    )


def read_position(committed: Committed, rule: JoinRule, place: str) -> tuple[JoinPosition, str]:
    """Return the position that was committed, and the fingerprint of the rule that led to it.

    ConfigurationError if a join of these topics has not written it, or can't have.
    """
    advice = "a group for joining alone (join.group), on the topics that it began with"
    try:
        found = from_json(_StoredPosition, committed.metadata)
    except MalformedError as error:
        raise ConfigurationError(
            f"{place}@{committed.offset}: expected what `stream-apple join` writes beside a committed offset, "
            f"found {in_short(committed.metadata)} ({error}); use {advice}"
        ) from None
    for what, here, noted in (
        ("of outcomes", rule.outcomes, found.topic),
        ("of examples", rule.examples, found.examples),
    ):
        if noted != here:
            raise ConfigurationError(
                f"{place}@{committed.offset}: expected a join with the topic {what} {here}, found one with {noted}; "
                f"use {advice}"
            )
    if (text := found.contradiction()) is not None:
        raise implausible(place, committed.offset, text)
    position = JoinPosition(
        committed.offset,
        found.outcomes,
        found.held_from,
        OutcomeClock(*found.clock),
        found.complete_from,
        found.seen,
        found.early,
        found.doubted,
        found.shown,
        found.beat,
    )
    return position, found.rule
