"""Logs the milestones of a worker's models: ends of epochs with their losses, drift, and that it has caught up."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from stream_apple.config.duration import MANY_EPOCHS, format_duration, longer_epoch
from stream_apple.stream.model.partition_model import BatchResult, EpochEnd
from stream_apple.stream.model.time_budget import Step
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import ANSWERING

EACH = 100
"""The first so many ends of epochs of a partition have a line each."""
EVERY_S = 10.0
"""Seconds between lines after those: losses are still seen to fall, and the log stays readable."""
FASTER = 10
"""Records count as history if they are learned at least so many times as fast as they came."""
LONG_BEHIND_S = 60.0
"""After so many seconds behind, it is logged that the worker has caught up again."""
LOOKS = 2
"""In so many looks in a row a worker must be level: after a rebalance the known end of the log may be old at first."""

_log = structlog.get_logger()


class EpochLog:
    """Logs the ends of epochs, and once for a partition that its epochs are too short.

    A year of history has thousands of ends in minutes: so a partition's first EACH are logged, then one every EVERY_S.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._pace: dict[int, _EpochPace] = {}

    def passed(self, partition: Partition, result: BatchResult) -> None:
        """Take in a batch of the partition that has been learned, in which epochs may have ended."""
        pace, now = self._pace.get(partition.number), self._now()
        if pace is None:
            pace = self._pace[partition.number] = _EpochPace(since=now)
        for end in result.ends:
            pace.untold += 1
            if pace.told < EACH or now - pace.told_at >= EVERY_S:
                _log_epoch_end(partition, end, pace.untold)
                pace.told, pace.told_at, pace.untold = pace.told + 1, now, 0
        restarts = int(partition.model.learner.describe().gauges.get("drift_restarts", 0))
        if pace.restarts is not None and restarts > pace.restarts:
            _log.warning(
                "drift_found",
                partition=partition.number,
                epoch=partition.model.clock.epoch,
                before=partition.model.next_offset,
                restarts=restarts,
                loss=_known(partition.model.learner.progress.report("recent").loss),
            )
        pace.restarts = restarts
        if not pace.judged:
            pace.add(result)
            if pace.ends >= MANY_EPOCHS:
                self._judge(partition, pace, now)

    def _judge(self, partition: Partition, pace: "_EpochPace", now: float) -> None:
        """Warn if growing takes most of the time while history is learned; with live records, growing costs little."""
        length = partition.model.clock.length_ms
        better = longer_epoch(length, pace.examples, pace.ends)
        faster = pace.ends * length > 1000 * FASTER * (now - pace.since)
        if better is None or not faster or pace.growing_s < pace.busy_s / 2:
            again = _EpochPace(now, pace.told, pace.told_at, pace.untold, restarts=pace.restarts)
            self._pace[partition.number] = again
            return
        pace.judged = True
        _log.warning(
            "epochs_too_short",
            partition=partition.number,
            setting="epochs.length",
            length=format_duration(length),
            better=format_duration(better),
            epochs=pace.ends,
            examples=pace.examples,
            growing_share=round(pace.growing_s / pace.busy_s, 3) if pace.busy_s else None,
        )


@dataclass(slots=True)
class _EpochPace:
    """Counts what was logged of a partition, and what its latest epochs have cost since `since`.

    told       how many lines were logged, the last at `told_at`; `untold` epochs have ended since
    growing_s  seconds of growing, out of the `busy_s` that the model took
    restarts   how many restarts after drift were seen
    """

    since: float
    told: int = 0
    told_at: float = 0.0
    untold: int = 0
    ends: int = 0
    examples: int = 0
    growing_s: float = 0.0
    busy_s: float = 0.0
    judged: bool = False
    restarts: int | None = None

    def add(self, result: BatchResult) -> None:
        """Count the ends of epochs and the examples of a batch, and the time that it took."""
        self.ends += len(result.ends)
        self.examples += result.learned + result.unlabelled + result.replayed
        self.growing_s += result.seconds.get(Step.GROW, 0.0)
        self.busy_s += sum(result.seconds.values())


def _log_epoch_end(partition: Partition, end: EpochEnd, epochs: int) -> None:
    """Log how the model grew at an epoch's end, and how the epoch went; `epochs` have ended since the last line."""
    _log.info(
        "epoch_ended",
        partition=partition.number,
        epoch=end.epoch,
        epochs=epochs,
        offset=end.offset,
        digest=end.digest or None,
        loss=_known(end.losses.loss),
        linear_loss=_known(end.losses.linear_loss),
        parents_added=end.growth.added,
        retired=end.growth.retired,
        parents_by_degree=end.growth.census.parents.tolist() or None,
    )


class CaughtUp:
    """Logs when a worker has answered all records in the log, except for those of a second.

    It logs this once after partitions were assigned, and again after it was behind for long, or has learned as much as
    before: so a stream that comes in bursts makes only a few lines. One thread calls `look`, once a second.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._offsets: dict[int, int] = {}
        self._told_of: frozenset[int] = frozenset()
        self._told_examples = 0
        self._behind_since: float | None = None
        self._level = 0

    def look(self, owned: Mapping[int, Partition], lag: Callable[[int], float | None]) -> None:
        """Look whether all partitions have caught up; `lag` returns the lag of one in records, None if not known."""
        before, self._offsets = self._offsets, {number: each.sent_offset for number, each in owned.items()}
        if not owned or not all(self._is_level(each, before, lag) for each in owned.values()):
            self._level = 0
            if self._behind_since is None:
                self._behind_since = self._now()
            return
        self._level += 1
        if self._level < LOOKS:
            return
        behind_since, self._behind_since = self._behind_since, None
        examples = sum(each.model.learner.examples for each in owned.values())
        new = frozenset(owned) != self._told_of
        if not new and behind_since is None:
            return
        long = behind_since is not None and self._now() - behind_since >= LONG_BEHIND_S
        if new or long or examples >= 2 * max(self._told_examples, 1):
            self._told_of, self._told_examples = frozenset(owned), examples
            _log.info(
                "caught_up",
                partitions=sorted(owned),
                examples=examples,
                loss=_mean(owned, linear=False),
                linear_loss=_mean(owned, linear=True),
            )

    def _is_level(self, partition: Partition, before: Mapping[int, int], lag: Callable[[int], float | None]) -> bool:
        number = partition.number
        behind = lag(number)
        if partition.state not in ANSWERING or behind is None:
            return False
        return behind <= max(self._offsets[number] - before.get(number, self._offsets[number]), 0)


def _mean(owned: Mapping[int, Partition], *, linear: bool) -> float | None:
    """Return the recent loss over all partitions, weighted by their examples; None before there are any."""
    total = weight = 0.0
    for partition in owned.values():
        learner = partition.model.learner
        report = learner.progress.report("recent")
        loss = report.linear_loss if linear else report.loss
        if not math.isnan(loss):
            total += loss * learner.examples
            weight += learner.examples
    return _known(total / weight) if weight else None


def _known(loss: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if math.isnan(loss) else round(loss, 6)
