"""The metrics of merging, in the worker's registry and at /status; they exist only where models are merged.

The loop's thread writes them. Facts that other threads read are copied, or replaced as a whole.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_apple.monitoring.merging_view import facts_of
from stream_apple.monitoring.metric import BY_PARTITION, Metric, gauges, register
from stream_apple.monitoring.series import GaugeSeries, Tally
from stream_apple.stream.merging.open_rounds import ExclusionReason
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState
from stream_apple.stream.snapshots.merge_messages import MergeManifest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

MERGE_METRICS = (
    *gauges(
        BY_PARTITION,
        merge_round="Round whose end the partition has come to last.",
        merge_held="1 while the partition waits at the end of a round, else 0.",
        merge_skipped_rounds="Rounds in a row after whose end the partition has gone on alone.",
        merge_missed_rounds="Merges of this worker in a row that were without the partition, though it was not idle.",
    ),
    Metric("merge_hold_seconds", Histogram, "Time that a partition waited at the end of a round.", (), _SECONDS),
    Metric(
        "merges_total",
        Counter,
        "Rounds that ended in partitions of this worker, by how they went on: adopted (a merge with their own model in "
        "it), late (a merge of others), skipped (alone).",
        ("outcome",),
    ),
    Metric("merge_roster_partitions", Gauge, "Partitions in the last merge of this worker."),
    Metric(
        "merge_excluded_total",
        Counter,
        "Partitions that merges of this worker were without: late, idle, passed or displaced.",
        ("reason",),
    ),
    Metric("merge_seconds", Histogram, "Time from the closing of a round to the commit of its merge.", (), _SECONDS),
    Metric("merge_bytes_total", Counter, "Bytes of contributions read, and of merges written.", ("direction",)),
    Metric("merge_lost_parents_total", Counter, "Nominees without votes enough, and parents without a slot."),
)

OUTCOMES = ("adopted", "late", "skipped")
"""The ways in which a partition goes on behind a boundary."""


class _Stand(NamedTuple):
    """Says where a partition stands at its newest boundary.

    state  "held", one of OUTCOMES, or None if that is not known
    since  seconds of the clock at which it was held
    held   for how many seconds it was held, if this worker has seen that
    """

    round: int
    state: str | None
    skipped: int = 0
    since: float = 0.0
    held: float | None = None


class MergeMetrics:
    """Keeps these metrics, as the `BoundaryRecorder` of a worker; `now` returns monotonic seconds.

    registry  None: they are not shown
    """

    def __init__(self, registry: CollectorRegistry | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._all = register(MERGE_METRICS, registry)
        self._outcomes = Tally(self._all["merges_total"], OUTCOMES)
        self._reasons = Tally(self._all["merge_excluded_total"], ExclusionReason)
        self._bytes = Tally(self._all["merge_bytes_total"], ("read", "written"))
        self._series: dict[int, GaugeSeries] = {}
        self._stands: dict[int, _Stand] = {}
        self._missed: dict[int, int] = {}
        self._newest: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the metrics say about partitions and merges, in JSON types; any thread may ask."""
        now = self._now()
        return {
            "partitions": {
                str(number): {
                    "round": stand.round,
                    "state": stand.state,
                    "held_s": now - stand.since if stand.state == "held" else stand.held,
                    "skipped": stand.skipped,
                }
                for number, stand in sorted(self._stands.copy().items())
            },
            "newest": self._newest,
            "outcomes": dict(self._outcomes.counts),
        }

    def noted(self, partition: int, boundary: BoundaryNote | None) -> None:
        """Note the newest committed boundary of a partition that has just been assigned; None: there is none."""
        if boundary is None:
            return
        # The note does not say whether an adopted merge contained the partition's own contribution.
        skipped = boundary.state is BoundaryState.SKIPPED
        state = None if boundary.state is BoundaryState.CONTRIBUTED else str(boundary.state)
        self._show(partition, _Stand(boundary.round, state, int(skipped)))

    def held(self, partition: int, number: int) -> None:
        """Note that the partition waits at the end of this round."""
        before = self._stands.get(partition)
        skipped = 0 if before is None else before.skipped
        self._show(partition, _Stand(number, "held", skipped, self._now()))

    def went_on(self, partition: int, outcome: str, seconds: float) -> None:
        """Note that the partition goes on after a wait of `seconds`, by one of OUTCOMES."""
        stand = self._stands[partition]
        skipped = stand.skipped + 1 if outcome == "skipped" else 0
        self._show(partition, stand._replace(state=outcome, skipped=skipped, held=seconds))
        self._all["merge_hold_seconds"].observe(seconds)
        self._outcomes.add(outcome)

    def _show(self, partition: int, stand: _Stand) -> None:
        series = self._series.setdefault(partition, GaugeSeries(self._all, str(partition)))
        series.set("merge_round", stand.round)
        series.set("merge_held", stand.state == "held")
        series.set("merge_skipped_rounds", stand.skipped)
        self._stands[partition] = stand

    def saw(self, merge: MergeManifest) -> None:
        """Note that a partition of this worker has adopted this merge, whichever worker made it."""
        self._newest = facts_of(merge)

    def merged(self, merge: MergeManifest, seconds: float, read_bytes: int, written_bytes: int) -> None:
        """Note that this worker has made a merge, which took `seconds` from the round's closing to the commit."""
        self.saw(merge)
        self._all["merge_roster_partitions"].set(len(merge.roster))
        for reason in merge.left_out.values():
            self._reasons.add(reason)
        for number in (*merge.members, *merge.left_out):
            # An idle partition has nothing to add.
            missed = merge.left_out.get(number, ExclusionReason.IDLE) != ExclusionReason.IDLE
            self._missed[number] = self._missed.get(number, 0) + 1 if missed else 0
            self._all["merge_missed_rounds"].labels(str(number)).set(self._missed[number])
        self._all["merge_seconds"].observe(seconds)
        self._bytes.add("read", read_bytes)
        self._bytes.add("written", written_bytes)
        self._all["merge_lost_parents_total"].inc(merge.lost_parents)

    def dropped(self, partitions: Iterable[int]) -> None:
        """Remove what is shown of these partitions, which are given up or recovered anew; with 0, of the leader too."""
        gone = set(partitions)
        for partition in gone & self._series.keys():
            self._series.pop(partition).clear()
        self._stands = {number: stand for number, stand in self._stands.items() if number not in gone}
        if 0 in gone:
            for partition in self._missed:
                self._all["merge_missed_rounds"].remove(str(partition))
            self._missed = {}
