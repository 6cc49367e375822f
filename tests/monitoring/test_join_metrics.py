"""What is counted of a joiner, and that what is said of a partition goes with it."""

from simulation.cluster import MemoryCluster
from simulation.joining.process import JOIN_RULE
from simulation.memory_broker import Member, MemoryBroker
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START
from support.clock import Clock
from support.records import FakeRecord

from stream_apple.monitoring.join_metrics import JoinMetrics
from stream_apple.stream.joining.joined_partition import JoinedPartition
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.starting_point import JoinLogs
from stream_apple.stream.log.ports import LogRange


class TestJoinMetrics:
    """A partition with three impressions, one of them broken, and an outcome."""

    def test_a_partition_is_told_and_forgotten(self) -> None:
        """What has become of records, what is waited for, and for how long; without the partition, nothing."""
        cluster = MemoryCluster({JOIN_RULE.impressions: 1, JOIN_RULE.outcomes: 1})
        shown = [b'{"id": "a", "features": {}}', b"\xc1", b'{"id": "b", "features": {}}']
        times = (START, START, START + 70 * SECOND)
        cluster.load(JOIN_RULE.impressions, [FakeRecord(0, at, shown[at], times[at]) for at in range(3)])
        said = [b'{"id": "a", "label": 1}', b'{"id": "a"}', b'{"heartbeat": 3}']
        times = (START, START, START + 70 * SECOND)
        cluster.load(JOIN_RULE.outcomes, [FakeRecord(0, at, said[at], times[at]) for at in range(3)])
        broker = MemoryBroker(cluster, Member("group", "joiner", "joiner"), JOIN_RULE.impressions)
        logs = JoinLogs(LogRange(0, 3), LogRange(0, 3))
        partition = JoinedPartition(broker, JOIN_RULE, JoinInput(JOIN_RULE), 0, ORIGIN, logs)
        monotonic, due_s = Clock(0.0), (START + 70 * SECOND + RULE.wait + RULE.tolerance) / SECOND
        metrics = JoinMetrics(monotonic, Clock(due_s + 7))

        def value(name: str, **labels: str) -> float | None:
            return metrics.registry.get_sample_value(f"stream_apple_{name}", {"partition": "0", **labels})

        metrics.describe("group", "examples", 1)
        metrics.iterated({0: partition})
        # Series that came into being with their first count would hide it from rate() and increase().
        assert value("join_impressions_total", fate="refused") == value("join_outcomes_total", fate="refused") == 0
        assert value("dead_letters_total", reason="late") == 0
        metrics.joined(0, partition.step(100))
        monotonic.now += 2
        metrics.iterated({0: partition})
        fates = {fate: value("join_impressions_total", fate=fate) for fate in ("labelled", "default", "refused")}
        assert fates == {"labelled": 1, "default": 0, "refused": 1}
        assert value("join_outcomes_total", fate="matched") == value("join_outcomes_total", fate="refused") == 1
        assert value("dead_letters_total", reason="malformed") == value("dead_letters_total", reason="no_label") == 1
        assert value("join_held_outcomes") == value("join_lag_records") == 1
        assert value("join_clock_timestamp_seconds") == (START + 70 * SECOND) / SECOND
        assert value("join_overdue_seconds") == 7
        monotonic.now += 2
        metrics.iterated({})
        assert value("join_overdue_seconds") is None
        assert value("join_outcomes_total", fate="matched") == 1
        about = {"group": "group", "topic": "examples"}
        assert metrics.registry.get_sample_value("stream_apple_join_info", about) == 1
        assert metrics.registry.get_sample_value("stream_apple_topic_partitions") == 1
