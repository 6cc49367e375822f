"""The metrics of a joiner. Counters are updated once a step, gauges once a second, and nothing once per record."""

import time
from collections.abc import Callable, Mapping

from prometheus_client import Counter, Gauge

from stream_apple.monitoring.member_metrics import MEMBER_METRICS, MemberMetrics
from stream_apple.monitoring.metric import BY_PARTITION, Metric, gauges
from stream_apple.monitoring.series import GaugeSeries, Tally, dead_letters_of
from stream_apple.stream.joining.joined_partition import JoinedPartition
from stream_apple.stream.joining.partition_join import Joined
from stream_apple.stream.joining.rule import FORMAT

JOIN_METRICS = (
    Metric("join_info", Gauge, "1, with what this joiner joins to examples.", ("group", "topic")),
    Metric(
        "join_impressions_total",
        Counter,
        "Impressions by what became of them: labelled (by an outcome), own_label, default, dropped or refused.",
        ("partition", "fate"),
    ),
    Metric(
        "join_outcomes_total",
        Counter,
        "Outcomes by what became of them: matched, repeated (by a further impression of the id), unmatched when they "
        "were forgotten, or refused.",
        ("partition", "fate"),
    ),
    *gauges(
        BY_PARTITION,
        join_held_outcomes="Outcomes in memory.",
        join_full="1 while join.max_outcomes lets the partition stand still, else 0.",
        join_lag_records="Impressions in the log that are not joined yet, those of the last join.wait included.",
        join_overdue_seconds="For how long the next impression has been due; 0 if it is not, or none is waiting.",
        join_clock_timestamp_seconds="How far the outcomes have come, by their times.",
    ),
)

_FATES_OF_IMPRESSIONS = ("labelled", "own_label", "default", "dropped", "refused")
_FATES_OF_OUTCOMES = ("matched", "repeated", "unmatched", "refused")
_REFRESH_S = 1.0


class JoinMetrics(MemberMetrics):
    """Keeps all metrics of a joiner; `now` is in monotonic seconds, `time_of_day` in seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.monotonic, time_of_day: Callable[[], float] = time.time) -> None:
        super().__init__((*MEMBER_METRICS, *JOIN_METRICS), FORMAT)
        self._now = now
        self._time_of_day = time_of_day
        self._refresh_at = 0.0
        self._shown: dict[int, GaugeSeries] = {}
        self._counts: dict[int, tuple[Tally, Tally, Tally]] = {}

    def describe(self, group: str, topic: str, partitions: int) -> None:
        """Set the joiner's group, its topic of examples, and how many partitions that has."""
        self._all["join_info"].labels(group, topic).set(1)
        self._all["topic_partitions"].set(partitions)

    def iterated(self, owned: Mapping[int, JoinedPartition]) -> None:
        """Note that an iteration of the loop is over."""
        self._all["loop_turns_total"].inc()
        if self._now() < self._refresh_at:
            return
        self._refresh_at = self._now() + _REFRESH_S
        self._all["owned_partitions"].set(len(owned))
        for number in self._shown.keys() - owned.keys():
            self._shown.pop(number).clear()
        now = self._time_of_day()
        for number, partition in owned.items():
            self._counts_of(number)
            join, due = partition.join, partition.join.due_ms
            series = self._shown.setdefault(number, GaugeSeries(self._all, str(number)))
            series.set("join_held_outcomes", join.window.outcomes)
            series.set("join_full", join.full)
            series.set("join_lag_records", partition.backlog)
            series.set("join_overdue_seconds", 0.0 if due is None else max(now - due / 1000, 0.0))
            series.set("schema_wait_seconds", partition.schema_wait_s)
            series.set("join_clock_timestamp_seconds", max(join.window.clock.now, 0) / 1000)

    def joined(self, partition: int, joined: Joined) -> None:
        """Count the results of a step of the partition, which have been sent."""
        impressions, outcomes, dead_letters = self._counts_of(partition)
        for tally, fate, count in (
            (impressions, "labelled", joined.labelled),
            (impressions, "own_label", joined.own),
            (impressions, "default", joined.default),
            (impressions, "dropped", joined.dropped),
            (impressions, "refused", joined.refused_impressions),
            (outcomes, "matched", joined.matched),
            (outcomes, "repeated", joined.repeated),
            (outcomes, "unmatched", joined.unmatched),
            (outcomes, "refused", len(joined.refused) - joined.refused_impressions),
        ):
            tally.add(fate, count)
        for each in joined.refused:
            dead_letters.add(each.reason.code)

    def _counts_of(self, partition: int) -> tuple[Tally, Tally, Tally]:
        """Return the counts of impressions, outcomes and dead letters of a partition, which may leave and come back."""
        if partition not in self._counts:
            label = str(partition)
            self._counts[partition] = (
                Tally(self._all["join_impressions_total"], _FATES_OF_IMPRESSIONS, label),
                Tally(self._all["join_outcomes_total"], _FATES_OF_OUTCOMES, label),
                dead_letters_of(self._all, label),
            )
        return self._counts[partition]
