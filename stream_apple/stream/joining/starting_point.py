"""Where a partition's join begins, or goes on: by what is committed, and by what the two logs still hold."""

from collections.abc import Collection
from typing import NamedTuple

import structlog

from stream_apple.errors import GapError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.position import NOT_KNOWN, JoinPosition, read_position
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.log.ports import Committed, LogRange

_log = structlog.get_logger()


class JoinLogs(NamedTuple):
    """Holds the offsets that the two logs of a partition have now."""

    impressions: LogRange
    outcomes: LogRange


def starting_point(
    rule: JoinRule,
    number: int,
    committed: Committed | None,
    logs: JoinLogs,
    accepted_gaps: Collection[tuple[int, int]] = (),
) -> JoinPosition:
    """Return where to go on with partition `number`.

    ConfigurationError if something else has committed; GapError if impressions are gone, and nobody has accepted that.
    Outcomes that are gone end nothing: impressions that may need them are late.

    accepted_gaps  each as partition and first missing offset
    """
    place = f"{rule.impressions}-{number}"
    if committed is None:
        whole = logs.outcomes.low == 0
        return _without_outcomes(logs.impressions.low, logs.outcomes.low, 0 if whole else NOT_KNOWN)
    position, fingerprint = read_position(committed, rule.outcomes, place)
    if fingerprint != rule.fingerprint:
        _log.warning("join_changed", partition=number, offset=position.impressions)
    low, high = logs.impressions
    if position.impressions > high:
        raise GapError(
            f"expected {place} to reach the committed offset {position.impressions}, found its end at {high}: "
            f"the topic has been made anew, or has lost records; use a new join.group to begin again"
        )
    if position.impressions < low:
        if (number, position.impressions) not in accepted_gaps:
            raise GapError(
                f"expected impressions from offset {position.impressions} on in {place}, found the first at {low}: "
                f"retention has deleted {low - position.impressions} offsets that were not joined. To go on without "
                f'them, set worker.accept_gap = ["{number}@{position.impressions}"]'
            )
        _log.warning("gap_accepted", partition=number, start=position.impressions, stop=low)
        position = position._replace(impressions=low)
    if position.held_from < logs.outcomes.low:
        _log.warning("outcomes_gone", partition=number, start=position.held_from, stop=logs.outcomes.low)
        position = _without_outcomes(position.impressions, logs.outcomes.low, NOT_KNOWN)
    return position


def _without_outcomes(impressions: int, outcomes: int, complete_from: int) -> JoinPosition:
    return JoinPosition(impressions, outcomes, outcomes, OutcomeClock(), complete_from)
