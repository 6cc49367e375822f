"""What a worker logs of its models' way: ends of epochs with their losses, drift, and that it has caught up."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from stream_apple.config.duration import MANY_EPOCHS, format_duration, longer_epoch
from stream_apple.stream.model.partition_model import BatchResult, EpochEnd
from stream_apple.stream.model.time_budget import Step
from stream_apple.stream.partitions.partition import ANSWERING, Partition

EACH = 100
"""Ends of epochs of a partition that have a line each."""
EVERY_S = 10.0
"""Thereafter, from one line to the next: whoever looks on sees losses fall, and the log can be read."""
FASTER = 10
"""So many times as fast as they came, at least, records are learned that are history."""
LONG_BEHIND_S = 60.0
"""After so long behind, it is worth a line that the worker has caught up again."""
LOOKS = 2
"""In a row that a worker must be level: after a rebalance, what is known of the log's end may be old for a moment."""

_log = structlog.get_logger()


class EpochLog:
    """Logs what ends of epochs have made of models, and once of a partition that its epochs are too short.

    A year of history has thousands of ends in minutes: a partition's first EACH are told, then one every EVERY_S.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._pace: dict[int, _EpochPace] = {}

    def passed(self, partition: Partition, result: BatchResult) -> None:
        """A batch of the partition has been learned, in which epochs may have ended."""
        pace, now = self._pace.get(partition.number), self._now()
        if pace is None:
            pace = self._pace[partition.number] = _EpochPace(since=now)
        for end in result.ends:
            pace.untold += 1
            if pace.told < EACH or now - pace.told_at >= EVERY_S:
                _log_epoch_end(partition, end, pace.untold)
                pace.told, pace.told_at, pace.untold = pace.told + 1, now, 0
        restarts = partition.model.learner.restarts
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
        """Warn if growing dominates where records are learned far faster than they came; live, it costs little."""
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
    """Of a partition: what was told of it, and what its latest epochs have cost, `since` when.

    told       lines, the last of them at `told_at`; `untold` epochs have ended since
    growing_s  of the `busy_s` that its model took
    restarts   of the model after drift that are known
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
    """Log what an epoch's end has made of the model, and how well the epoch went; so many have ended since the last."""
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
    selected = end.growth.tuples
    if selected is not None and any(selected):
        _log.info(
            "tuples_selected",
            partition=partition.number,
            epoch=end.epoch,
            kept=selected.kept,
            left_out=selected.left_out,
        )


class CaughtUp:
    """Logs when a worker has answered all that had come, but for a second's worth of records.

    It says so once after partitions have come, and again when it was behind for long, or has learned as much as it had
    learned before: a stream that comes in gusts makes a handful of lines. `look` is for one thread, once a second.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._offsets: dict[int, int] = {}
        self._told_of: frozenset[int] = frozenset()
        self._told_examples = 0
        self._behind_since: float | None = None
        self._level = 0

    def look(self, owned: Mapping[int, Partition], lag: Callable[[int], float | None]) -> None:
        """See how the partitions stand; `lag` has the records behind each, None while that is not known."""
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
    """The recent loss over all partitions, by their examples; None before there are any."""
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
