"""Exactly once, by cutting the loop short at every single call it makes of its broker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from runtime.fake_broker import Cluster, CrashError, FakeBroker, Fault, Message
from runtime.records import DECODER, SETTINGS, FakeRecord, good, stream

from stream_apple.core.encode import decode_prediction
from stream_apple.errors import BrokerError, ConfigurationError, GapError, ModelError, TooManyRejectsError
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.loop import MAX_ABORTS, Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import TRANSITIONS, Partition, State
from stream_apple.runtime.ports import AbortableError, Committed, Record
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import ModelSettings, PartitionModel

TOPICS = Topics("examples", "predictions", "dead-letters")
MODEL: Mapping[str, Any] = {"learner": {"bits": 10}}


class Worker:
    """One life of a worker on a cluster; `run` until everything is read, or it dies."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault] = (),
        events: Mapping[int, str] | None = None,
        *,
        settings: ModelSettings = SETTINGS,
        model: Mapping[str, Any] = MODEL,
        commit_records: int = 9,
    ) -> None:
        self.models: list[PartitionModel] = []

        def new_model(partition: int, lineage: Lineage) -> PartitionModel:
            self.models.append(PartitionModel("examples", partition, lineage, settings, DECODER))
            return self.models[-1]

        self.metrics, self.health = Metrics(), Health()
        self.broker = FakeBroker(cluster, self.stop, faults, events)
        self.loop = Loop(
            self.broker,
            TOPICS,
            Pace(fetch_records=7, commit_records=commit_records, commit_interval_s=3600.0),
            Recovery(Origin("examples", "group", model), new_model),
            self.metrics,
            self.health,
        )

    def stop(self) -> None:
        """Nothing more to read."""
        self.loop.stop()

    def run(self) -> "Worker":
        """Live."""
        self.loop.run()
        return self

    def sample(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(f"stream_apple_{name}", labels)


def input_log() -> dict[int, list[FakeRecord]]:
    """Two partitions, short enough to fail at each of their calls."""
    return {
        0: stream(32, seed=5, partition=0, bad_share=0.2),
        1: stream(20, seed=5, partition=1, bad_share=0.2),
    }


def by_partition(messages: list[Message]) -> dict[tuple[str, int], list[Message]]:
    """Order is defined within a partition of a topic only."""
    groups: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        groups.setdefault((message.topic, message.partition), []).append(message)
    return groups


def offset_of(message: Message) -> int:
    """The offset of the example that an output answers for."""
    if message.topic == "predictions":
        return int(str(decode_prediction(message.value or b"")["offset"]))
    return int(dict(message.headers)["__stream_apple.errors.offset"] or b"")


@pytest.fixture(scope="module")
def expected() -> dict[tuple[str, int], list[Message]]:
    """What a run that nothing disturbs publishes, checked to answer for every record."""
    cluster = Cluster(input_log())
    Worker(cluster).run()
    answered = [(message.partition, offset_of(message)) for message in cluster.visible]
    assert sorted(answered) == sorted((r.number, r.at) for records in cluster.log.values() for r in records)
    assert cluster.commits > 3
    return by_partition(cluster.visible)


def calls_of_a_run() -> int:
    """How many calls of the port an undisturbed run makes."""
    return Worker(Cluster(input_log())).run().broker.calls


class TestExactlyOnce:
    """Published outputs, after any accident, equal those of a run without one."""

    @pytest.mark.parametrize("after", [False, True])
    def test_killed_at_any_call(self, expected: dict[tuple[str, int], list[Message]], *, after: bool) -> None:
        """A worker dies in call k, before or after its effect; its successor completes the output."""
        for call in range(calls_of_a_run()):
            cluster = Cluster(input_log())
            with pytest.raises(CrashError):
                Worker(cluster, [Fault(call, CrashError(), after)]).run()
            Worker(cluster).run()
            assert by_partition(cluster.visible) == expected, f"call {call}"

    @pytest.mark.parametrize("after", [False, True])
    def test_a_transaction_fails_at_any_call(
        self, expected: dict[tuple[str, int], list[Message]], *, after: bool
    ) -> None:
        """An abortable error in call k leaves the same worker to do it again; so does one in doubt."""
        calls = calls_of_a_run()
        for call in range(calls):
            cluster = Cluster(input_log())
            worker = Worker(cluster, [Fault(call, AbortableError("doubt"), after)]).run()
            if call == calls - 1:  # the commit with which it leaves: a successor has to do the rest
                Worker(cluster).run()
            assert by_partition(cluster.visible) == expected, f"call {call}"
            assert worker.broker.closed

    @pytest.mark.parametrize("event", ["revoke", "lose"])
    def test_a_rebalance_at_any_fetch(self, expected: dict[tuple[str, int], list[Message]], event: str) -> None:
        """Partitions that go and come back leave no trace in the output."""
        for call in range(calls_of_a_run()):
            cluster = Cluster(input_log())
            Worker(cluster, events={call: event}).run()
            assert by_partition(cluster.visible) == expected, f"call {call}"

    def test_killed_again_and_again(self, expected: dict[tuple[str, int], list[Message]]) -> None:
        """Many lives, each cut after a few more calls than the last."""
        cluster = Cluster(input_log())
        for calls in range(12, 200, 5):
            try:
                Worker(cluster, [Fault(calls, CrashError())]).run()
            except CrashError:
                continue
            break
        assert by_partition(cluster.visible) == expected

    def test_a_commit_that_fails_in_a_revocation(self, expected: dict[tuple[str, int], list[Message]]) -> None:
        """The models that learned uncommitted records do not survive it."""
        for call in range(3, calls_of_a_run()):
            cluster = Cluster(input_log())
            faults = [Fault(call + 1, AbortableError("revoked too late"))]
            Worker(cluster, faults, events={call: "revoke"}).run()
            assert by_partition(cluster.visible) == expected, f"call {call}"


class TestLife:
    """What happens to partitions, and what does not."""

    def test_a_partition_that_comes_back_is_not_replayed(self) -> None:
        """Its model stands at the committed offset, so the same object goes on."""
        cluster = Cluster(input_log())
        worker = Worker(cluster, events={13: "revoke", 40: "revoke"}).run()
        assert len(worker.models) == 2
        assert worker.sample("examples_total", partition="0", outcome="replayed") == 0
        assert worker.sample("rebalances_total", event="assigned") == 3

    def test_a_restart_replays_from_the_first_record(self) -> None:
        """The new worker learns what is committed and publishes none of it again."""
        cluster = Cluster(input_log())
        Worker(cluster).run()
        done = list(cluster.visible)
        worker = Worker(cluster).run()
        assert cluster.visible == done
        assert worker.sample("examples_total", partition="0", outcome="replayed") == len(cluster.log[0])
        assert worker.sample("partition_state", partition="0", state="live") == 1

    def test_committed_offsets_name_the_model(self) -> None:
        """Every committed offset is one past the last record, with start and fingerprint beside it."""
        cluster = Cluster(input_log(), low=0)
        Worker(cluster).run()
        assert cluster.offsets[0].offset == cluster.log[0][-1].at + 1
        assert cluster.offsets[0].metadata.startswith('{"v":1,"start":0,"model":"')
        assert cluster.offsets[0].metadata != cluster.offsets[1].metadata

    def test_dead_letters_fold_into_fewer_partitions(self) -> None:
        """Partition p goes to p modulo the topic's count."""
        cluster = Cluster(input_log(), partitions={"dead-letters": 1})
        Worker(cluster).run()
        assert {m.partition for m in cluster.visible if m.topic == "dead-letters"} == {0}
        assert {m.partition for m in cluster.visible if m.topic == "predictions"} == {0, 1}

    def test_outputs_carry_key_and_time_of_their_record(self) -> None:
        """A dead letter is the record as it came; a prediction has its key and timestamp."""
        cluster = Cluster({0: [good(0), good(1)._replace(payload=b"\xc1", extra=[("h", b"1")])]})
        Worker(cluster).run()
        prediction, letter = cluster.visible
        first, second = cluster.log[0]
        assert (prediction.key, prediction.timestamp_ms) == (first.named, first.time_ms)
        assert (letter.key, letter.value, letter.timestamp_ms) == (
            second.named,
            second.payload,
            second.time_ms,
        )
        assert letter.headers[0] == ("h", b"1")

    def test_records_of_a_partition_that_is_not_ours_are_left_alone(self) -> None:
        """Neither learned nor answered: that is its owner's to do."""
        cluster = Cluster(input_log())
        worker = Worker(cluster)
        fetch = worker.broker.fetch

        def with_strays(limit: int, timeout_s: float) -> Sequence[Record]:
            return [good(3, partition=7), *fetch(limit, timeout_s)]

        worker.broker.fetch = with_strays  # type: ignore[method-assign]
        worker.run()
        assert {message.partition for message in cluster.visible} == {0, 1}
        assert set(cluster.offsets) == {0, 1}

    def test_states_follow_the_table(self) -> None:
        """Each step outside the table raises and changes nothing."""
        for state in State:
            for following in set(State) - TRANSITIONS[state]:
                partition = Partition(PartitionModel("t", 0, Lineage(0, "m"), SETTINGS, DECODER))
                partition.state = state
                with pytest.raises(AssertionError, match="can't go from"):
                    partition.enter(following)
                assert partition.state is state


class TestRefusals:
    """When going on makes no sense."""

    def test_too_few_prediction_partitions(self) -> None:
        """Partition p of the predictions must exist for every p of the examples."""
        with pytest.raises(ConfigurationError, match=r"expected topic predictions to have 2 partitions.*found 1"):
            Worker(Cluster(input_log(), partitions={"predictions": 1})).run()

    def test_another_configuration(self) -> None:
        """The committed offset names the model it belongs to; another one does not go on from it."""
        cluster = Cluster(input_log())
        Worker(cluster).run()
        with pytest.raises(ConfigurationError, match=r"expected model [0-9a-f]{16} .* examples-0 in group group"):
            Worker(cluster, model={"learner": {"bits": 11}}).run()

    @pytest.mark.parametrize("metadata", ["", "null", '{"v":1}', "[1]", '{"v":9,"start":0,"model":"x"}'])
    def test_an_offset_that_somebody_else_committed(self, metadata: str) -> None:
        """Without our note beside it, there is no model that the offset belongs to."""
        cluster = Cluster(input_log(), offsets={0: Committed(3, metadata)})
        with pytest.raises(ConfigurationError, match="committed offset 3 of examples-0"):
            Worker(cluster).run()

    def test_records_that_the_model_needs_are_gone(self) -> None:
        """Retention has removed the beginning of what must be replayed."""
        cluster = Cluster(input_log())
        Worker(cluster).run()
        cluster.low = 5
        with pytest.raises(GapError, match=r"from offset 0 on.*found 5 as the first"):
            Worker(cluster).run()

    def test_the_topic_is_shorter_than_what_was_committed(self) -> None:
        """A topic of the same name that was made anew is not the one the model knows."""
        cluster = Cluster(input_log())
        Worker(cluster).run()
        cluster.log[0] = cluster.log[0][:3]
        with pytest.raises(GapError, match="made anew"):
            Worker(cluster).run()

    def test_nothing_of_a_batch_with_a_fatal_record_is_published(self) -> None:
        """Neither predictions nor dead letters, and the offset stays."""
        settings = SETTINGS._replace(reject_limits=RejectLimits(3, 1.0))
        log = {0: [good(0), good(1), *(good(i)._replace(payload=b"") for i in range(2, 9))]}
        cluster = Cluster(log)
        worker = Worker(cluster, settings=settings)
        with pytest.raises(TooManyRejectsError, match="examples-0@5"):
            worker.run()
        assert (cluster.visible, cluster.offsets) == ([], {})
        assert worker.broker.closed

    def test_a_model_error_commits_nothing(self) -> None:
        """Not even the batches before it in the same transaction: they are processed again."""
        cluster = Cluster({0: [good(i) for i in range(30)]})
        worker = Worker(cluster, commit_records=1000)

        class Exploding(PartitionModel):
            def process(self, records: Sequence[Any], *lap: Any) -> Any:
                if self.next_offset > 10:
                    raise ModelError("examples-0@11: not finite")
                return super().process(records, *lap)

        worker.loop._recovery._new_model = lambda number, lineage: Exploding(
            "examples", number, lineage, SETTINGS, DECODER
        )
        with pytest.raises(ModelError):
            worker.run()
        assert (cluster.visible, cluster.offsets) == ([], {})

    def test_transactions_that_never_succeed(self) -> None:
        """After ten in a row the process leaves, so that its supervisor sees it."""
        cluster = Cluster(input_log())
        faults = [Fault(call, AbortableError(f"number {call}")) for call in range(2, 1000)]
        worker = Worker(cluster, faults)
        with pytest.raises(BrokerError, match=f"{MAX_ABORTS} transactions in a row failed; the last one: number"):
            worker.run()
        assert cluster.visible == []


class TestSignals:
    """What the process is told and what it tells."""

    def test_stop_commits_what_was_processed(self) -> None:
        """A stop between two commits loses nothing and leaves nothing open."""
        cluster = Cluster(input_log())
        worker = Worker(cluster, commit_records=10_000)
        worker.run()
        assert cluster.commits == 1
        assert len(cluster.visible) == 52

    def test_readiness_follows_the_partitions(self) -> None:
        """Not ready before the group has spoken; ready when all partitions are live."""
        worker = Worker(Cluster(input_log()))
        assert not worker.health.ready().good
        worker.health.compiled()
        assert worker.health.ready().facts["waiting_for"] == ["the group to assign partitions"]
        worker.run()
        assert worker.health.ready().facts["partitions"] == {"0": "live", "1": "live"}
        assert worker.health.ready().good

    def test_the_loop_s_time_is_booked_whole(self) -> None:
        """Every phase of the table has a series, and learning took some of the time."""
        worker = Worker(Cluster(input_log())).run()
        assert (worker.sample("loop_seconds_total", phase="learn") or 0) > 0
        assert (worker.sample("commit_seconds_count") or 0) == (
            worker.sample("transactions_total", result="committed") or -1
        )
