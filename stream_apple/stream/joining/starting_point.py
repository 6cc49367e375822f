"""Finds where a partition's join begins or goes on, by what is committed and by what the two logs still hold."""

from collections.abc import Collection
from typing import NamedTuple

import structlog

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.position import NOT_KNOWN, JoinPosition, implausible, read_position
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.log.ports import Committed, LogRange

_log = structlog.get_logger()


class JoinLogs(NamedTuple):
    """Holds the offsets that the two logs of a partition have now."""

    impressions: LogRange
    outcomes: LogRange


class StartingPoint(NamedTuple):
    """Says where a partition goes on, and what is to be reported about that.

    changed        whether the rule is another one than at the last commit
    gap            (start, stop) of the offsets of impressions that are gone, which the operator has accepted
    outcomes_gone  (start, stop) of the offsets of outcomes that are gone
    """

    position: JoinPosition
    changed: bool = False
    gap: tuple[int, int] | None = None
    outcomes_gone: tuple[int, int] | None = None

    def log(self, number: int) -> None:
        """Log the warnings about partition `number`."""
        if self.changed:
            _log.warning("join_changed", partition=number, offset=self.position.impressions)
        if self.gap is not None:
            _log.warning("gap_accepted", partition=number, start=self.gap[0], stop=self.gap[1])
        if self.outcomes_gone is not None:
            start, stop = self.outcomes_gone
            _log.warning("outcomes_gone", partition=number, start=start, stop=stop)


def starting_point(
    rule: JoinRule,
    number: int,
    committed: Committed | None,
    logs: JoinLogs,
    accepted_gaps: Collection[tuple[int, int]] = (),
) -> StartingPoint:
    """Find where to go on with partition `number`.

    ConfigurationError if another program has committed; GapError if impressions are gone, and the operator has not
    accepted that. If outcomes are gone, the impressions that may need them become late.

    accepted_gaps  each as partition and first missing offset
    """
    place = f"{rule.impressions}-{number}"
    if committed is None:
        whole = logs.outcomes.low == 0
        return StartingPoint(_without_outcomes(logs.impressions.low, logs.outcomes.low, 0 if whole else NOT_KNOWN))
    position, fingerprint = read_position(committed, rule, place)
    gap = gone = None
    low, high = logs.impressions
    if position.impressions < position.seen and position.early != rule.early_fingerprint:
        raise ConfigurationError(
            f"{place}@{position.impressions}: expected join.wait, tolerance, outcome_..., [input], [registry] and "
            f"limits.max_record_bytes as they were when impressions below offset {position.seen} were sent as soon as "
            f"they had an outcome, found others. Set them back, and join.emit = when_due; change them when these are "
            f"joined, which takes one wait"
        )
    reached = max(position.impressions, position.seen)
    if reached > high:
        raise GapError(
            f"expected {place} to reach the committed offset {reached}, found its end at {high}: "
            f"the topic has been made anew, or has lost records; use a new join.group to begin again"
        )
    if position.doubted > high:
        raise implausible(place, position.impressions, f"doubted at most {high}, its end, found {position.doubted}")
    if position.impressions < low:
        if (number, position.impressions) not in accepted_gaps:
            raise GapError(
                f"expected impressions from offset {position.impressions} on in {place}, found the first at {low}: "
                f"retention has deleted {low - position.impressions} offsets that were not joined. To go on without "
                f'them, set worker.accept_gap = ["{number}@{position.impressions}"]'
            )
        gap = position.impressions, low
        position = position._replace(impressions=low)
    lost_its_end = position.outcomes > logs.outcomes.high
    if lost_its_end or position.window_from < logs.outcomes.low:
        # A topic that was made anew has lost its end. Nothing would ever come at the offsets that were held.
        gone = (logs.outcomes.high, position.outcomes) if lost_its_end else (position.window_from, logs.outcomes.low)
        doubted = max(position.seen, position.doubted)
        position = _without_outcomes(position.impressions, logs.outcomes.low, NOT_KNOWN)._replace(doubted=doubted)
    return StartingPoint(position, fingerprint != rule.fingerprint, gap, gone)


def _without_outcomes(impressions: int, outcomes: int, complete_from: int) -> JoinPosition:
    return JoinPosition(impressions, outcomes, outcomes, OutcomeClock(), complete_from)
