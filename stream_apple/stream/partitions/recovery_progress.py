"""How far recoveries have come: this module logs it, and metrics ask for it.

The seconds left are estimated from the pace since the recovery began; they are shown to people, and decide nothing.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import RECOVERING, RecoveryLeft

REPORT_S = 10.0
"""Seconds between two log lines of one partition; a recovery that is over sooner is not logged."""

_log = structlog.get_logger()


class _Begun(NamedTuple):
    at: float
    offset: int
    reported: float


class RecoveryProgress:
    """Follows the recoveries of one worker, and logs those that take long."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun: dict[int, _Begun] = {}

    def iterated(self, recovering: Mapping[int, Partition]) -> None:
        """Log those of the recovering partitions, given by number, that take long; called after each iteration."""
        if not recovering and not self._begun:
            return
        now = self._now()
        self._begun = {number: begun for number, begun in self._begun.items() if number in recovering}
        for number, partition in recovering.items():
            begun = self._begun.setdefault(number, _Begun(now, partition.plan.fetch_from, now))
            if now - begun.reported >= REPORT_S:
                self._begun[number] = begun._replace(reported=now)
                left = self.left(partition)
                _log.info(
                    "recovering",
                    partition=number,
                    state=partition.state.value,
                    records_left=left.records,
                    seconds_left=None if math.isnan(left.seconds) else round(left.seconds, 1),
                )

    def left(self, partition: Partition) -> RecoveryLeft:
        """Return what is left of the partition's recovery: no records and no seconds once it is live."""
        if partition.state not in RECOVERING:
            return RecoveryLeft(0, 0.0)
        stands = partition.sent_offset
        records = max(partition.model.publish_from - stands, 0)
        begun = self._begun.get(partition.number)
        if begun is None or stands <= begun.offset:
            return RecoveryLeft(records, math.nan)
        return RecoveryLeft(records, records * (self._now() - begun.at) / (stands - begun.offset))
