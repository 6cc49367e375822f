"""Keeps all metrics of a worker up to date.

Counters are updated once per batch, gauges once a second, and nothing once per record. `definitions.py` has the table
of the metrics. Their values are kept as plain facts, too, for the status page: the loop's thread writes them, other
threads read them.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from stream_apple.learners.port import Census
from stream_apple.monitoring.catching_up import CatchingUp, together
from stream_apple.monitoring.definitions import METRICS
from stream_apple.monitoring.member_metrics import MemberMetrics
from stream_apple.monitoring.partition_metrics import PartitionMetrics
from stream_apple.monitoring.series import Tally
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.model.time_budget import Phase, Step, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.positions.lineage import FORMAT

_REFRESH_S = 1.0
"""How often gauges are written: reading a model's sums costs more than learning a small batch."""
MOST_REFRESHED = 64
"""How many partitions' gauges are written at a time, each in half a millisecond. If there are more, each has its turn
later, so that the loop keeps its time for records."""


class Metrics(MemberMetrics):
    """Keeps all metrics of a worker in a registry; `now` returns monotonic seconds.

    worker  the labels of `worker_info`, none before the worker is described
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(METRICS, FORMAT)
        self._now = now
        self.worker: Mapping[str, str] = {}
        self._epoch_length_s = 0.0
        self._merging: Callable[[], dict[str, Any] | None] = lambda: None
        self._partitions: dict[int, PartitionMetrics] = {}
        self._booked = dict.fromkeys(Phase, 0.0)
        self._refresh_at = 0.0
        self._unrefreshed: deque[int] = deque()
        self._loop_seconds = Tally(self._all["loop_seconds_total"], Phase)
        self._model_seconds = Tally(self._all["model_seconds_total"], Step)

    def describe(
        self, about: Mapping[str, str], snapshot_interval_s: float, epoch_length_s: float, threads: int
    ) -> None:
        """Set the labels of `worker_info`, and gauges of settings that other metrics are compared with."""
        self.worker = about
        self._all["worker_info"].labels(**about).set(1)
        self._all["snapshot_interval_seconds"].set(snapshot_interval_s)
        self._all["epoch_length_seconds"].set(epoch_length_s)
        self._epoch_length_s = epoch_length_s
        self._all["threads"].set(threads)

    def watch_merging(self, facts: Callable[[], dict[str, Any]]) -> None:
        """Call `facts` for the facts on merging; any thread may do so."""
        self._merging = facts

    def facts(self) -> dict[str, Any]:
        """Return what the metrics say now, as the status page has it; any thread may ask.

        Of the partitions, those that are owned are there, by number (`PartitionMetrics.facts`), and the dead letters of
        all together. All numbers are floats, as Prometheus has them.
        """
        known = self._partitions.copy()  # the loop's thread may add to it
        partitions = [known[number] for number in sorted(known)]
        dead_letters: dict[str, float] = defaultdict(float)
        for partition in partitions:
            for reason, count in partition.dead_letters.items():
                dead_letters[reason] += count
        return {
            "epoch_length_s": self._epoch_length_s,
            "brokers_reachable": float(self._reachable()),
            "partitions": [partition.facts() for partition in partitions if partition.state is not None],
            "merging": self._merging(),
            "loop_seconds": dict(self._loop_seconds.counts),
            "model_seconds": dict(self._model_seconds.counts),
            "transactions": dict(self._transactions.counts),
            "rebalances": dict(self._rebalances.counts),
            "dead_letters": dict(dead_letters),
        }

    def catching_up(self) -> CatchingUp | None:
        """Return the backlog of all partitions that are behind; None if none is. Any thread may ask."""
        owned = [each for each in self._partitions.copy().values() if each.state is not None]
        return together(behind for each in owned if (behind := each.behind) is not None)

    def lag_records(self, partition: int) -> float | None:
        """Return the partition's lag in records, as last measured; None while it is not known. Any thread may ask."""
        found = self._partitions.get(partition)
        return None if found is None else found.lag_records

    def counted(self, partitions: int) -> None:
        """Set how many partitions the examples topic has."""
        self._all["topic_partitions"].set(partitions)

    def iterated(
        self,
        budget: TimeBudget[Phase],
        owned: Mapping[int, Partition],
        backlog: Callable[[int], int],
        left: Callable[[Partition], RecoveryLeft],
    ) -> None:
        """Note that an iteration is over; `backlog` and `left` are called when a partition's gauges are written."""
        self._all["loop_turns_total"].inc()
        now = self._now()
        if now < self._refresh_at:
            return
        self._refresh_at = now + _REFRESH_S
        for phase, seconds in budget.seconds.items():
            self._loop_seconds.add(phase, seconds - self._booked[phase])
            self._booked[phase] = seconds
        self._all["owned_partitions"].set(len(owned))
        if not self._unrefreshed:
            self._unrefreshed.extend(owned)
        for number in [self._unrefreshed.popleft() for _ in range(min(len(self._unrefreshed), MOST_REFRESHED))]:
            partition = owned.get(number)
            if partition is not None:
                self._partitions[number].refresh(partition, backlog(number), left(partition), now)

    def processed(self, partition: Partition, result: BatchResult) -> None:
        """Count a batch of the partition that has been learned and sent."""
        for step, seconds in result.seconds.items():
            self._model_seconds.add(step, seconds)
        self._partitions[partition.number].processed(result)

    def counted_monomials(self, partition: Partition, census: Census) -> None:
        """Show how many monomials and parents a model has that has come to this worker."""
        self._partitions[partition.number].show_census(census)

    def entered(self, partition: Partition, state: State) -> None:
        """Show the partition's new state; forget the partition if that is REVOKED or LOST."""
        number = partition.number
        if state in {State.REVOKED, State.LOST}:
            self._partitions[number].remove()
            return
        if number not in self._partitions:
            self._partitions[number] = PartitionMetrics(self._all, number)
        self._partitions[number].entered(state)

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """Note that a snapshot of `size` bytes is written, which took `seconds`."""
        self._all["snapshot_seconds"].observe(seconds)
        self._partitions[partition.number].saved(size)

    def restored(self, seconds: float) -> None:
        """Note that a snapshot has been restored, which took `seconds`."""
        self._all["restore_seconds"].observe(seconds)
