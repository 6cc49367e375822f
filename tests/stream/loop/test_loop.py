"""Exactly once, by cutting the loop short wherever it calls its broker; and what it does besides.

Here one worker lives its whole life in `Loop.run`; several at once are in `simulation/test_schedules.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import CrashError, Fault, Kind, Pick, When, at_any_call, struck
from simulation.process import GROUP, TOPICS, Process
from simulation.world import Outputs, outputs_of
from stream.one_worker import (
    MOST_FETCHES,
    NEVER,
    SETUP,
    WORKER,
    Worker,
    calls_of_a_run,
    cluster_of_all,
    cluster_with,
    input_log,
    offsets_of,
    visible,
)
from support.records import DECODER, SETTINGS, TOPIC, good

from stream_apple.errors import (
    BrokerError,
    ConfigurationError,
    ModelError,
    TooManyRejectsError,
)
from stream_apple.stream.log.ports import Committed, Record
from stream_apple.stream.loop.transaction import MAX_ABORTS
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import TRANSITIONS, State
from stream_apple.stream.positions.lineage import Lineage

pytestmark = pytest.mark.usefixtures("small_sizes")


class TestExactlyOnce:
    """Published outputs, after any accident, equal those of a run without one."""

    @at_any_call
    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
    def test_killed_at_any_call(self, expected: Outputs, when: When, pick: Pick) -> None:
        """A worker dies in call k, before its effect, or after that of the last; its successor completes the output.

        After the effect of another is before the next: what is dead makes no call in between.
        """
        calls = calls_of_a_run()
        for call in pick(calls, range(len(calls))) if when is When.BEFORE else [len(calls) - 1]:
            cluster = cluster_of_all()
            with pytest.raises(CrashError):
                Worker(cluster, [Fault(call, Kind.CRASH, when)]).run()
            Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"

    @at_any_call
    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
    def test_a_transaction_fails_at_any_call(self, expected: Outputs, when: When, pick: Pick) -> None:
        """An abortable error in call k leaves the same worker to do it again; so does one in doubt."""
        calls = calls_of_a_run()
        for call in pick(calls, struck(calls, Kind.ABORTABLE, when)):
            cluster = cluster_of_all()
            worker = Worker(cluster, [Fault(call, Kind.ABORTABLE, when)]).run()
            if call >= len(calls) - calls[::-1].index("fetch"):  # on its way out: a successor has to do the rest
                Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"
            assert worker.broker.closed

    @pytest.mark.parametrize("event", ["revoke", "lose"])
    def test_a_rebalance_at_any_fetch(self, expected: Outputs, event: str) -> None:
        """Partitions that go and come back leave no trace in the output."""
        for call in [number for number, name in enumerate(calls_of_a_run()) if name == "fetch"]:
            cluster = cluster_of_all()
            Worker(cluster, events={call: event}).run()
            assert outputs_of(cluster) == expected, f"call {call}"

    def test_killed_again_and_again(self, expected: Outputs) -> None:
        """Many lives, each cut after a few more calls than the last."""
        cluster = cluster_of_all()
        for calls in range(12, 200, 5):
            try:
                Worker(cluster, [Fault(calls, Kind.CRASH)]).run()
            except CrashError:
                continue
            break
        assert outputs_of(cluster) == expected

    @at_any_call
    def test_a_commit_that_fails_in_a_revocation(self, expected: Outputs, pick: Pick) -> None:
        """The models that learned uncommitted records do not survive it."""
        calls = calls_of_a_run()
        for call in pick(calls, range(6, len(calls))):
            cluster = cluster_of_all()
            Worker(cluster, [Fault(call + 1, Kind.ABORTABLE)], {call: "revoke"}).run()
            Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"


class TestLife:
    """What happens to partitions, and what does not."""

    def test_a_partition_that_comes_back_is_not_replayed(self) -> None:
        """Its model stands at the committed offset, so the same object goes on."""
        worker = Worker(cluster_of_all(), events={20: "revoke", 50: "revoke"}).run()
        assert worker.made == 2
        assert worker.sample("examples_total", partition="0", outcome="replayed") == 0
        assert worker.sample("rebalances_total", event="assigned") == 3

    def test_a_lost_partition_is_recovered(self) -> None:
        """Its model has learned what was never committed, so another is made."""
        worker = Worker(cluster_of_all(), events={50: "lose"}).run()
        assert worker.made == 4
        assert worker.sample("rebalances_total", event="lost") == 1

    def test_committed_offsets_name_the_model(self) -> None:
        """Every committed offset is one past the last record, with start and fingerprint beside it."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        offsets = offsets_of(cluster)
        assert offsets[0].offset == input_log()[0][-1].at + 1
        assert offsets[0].metadata.startswith('{"v":1,"start":0,"model":"')
        assert offsets[0].metadata != offsets[1].metadata

    def test_dead_letters_fold_into_fewer_partitions(self) -> None:
        """Partition p goes to p modulo the topic's count."""
        cluster = cluster_with(input_log(), dead_letter_partitions=1)
        Worker(cluster).run()
        places = {(topic, partition) for topic, partition, _ in visible(cluster)}
        assert places == {(TOPICS.dead_letters, 0), (TOPICS.predictions, 0), (TOPICS.predictions, 1)}

    def test_outputs_carry_key_and_time_of_their_record(self) -> None:
        """A dead letter is the record as it came; a prediction has its key and timestamp."""
        first, second = good(0), good(1)._replace(payload=b"\xc1", extra=[("h", b"1")])
        cluster = cluster_with({0: [first, second]})
        Worker(cluster).run()
        (_, _, prediction), (_, _, letter) = visible(cluster)
        assert (prediction.key, prediction.timestamp_ms) == (first.named, first.time_ms)
        assert (letter.key, letter.value, letter.timestamp_ms) == (second.named, second.payload, second.time_ms)
        assert letter.headers[0] == ("h", b"1")

    def test_records_of_a_partition_that_is_not_ours_are_left_alone(self) -> None:
        """Neither learned nor answered: that is its owner's to do."""
        cluster = cluster_of_all()
        worker = Worker(cluster)
        fetch = worker.broker.fetch

        def with_strays(limit: int, timeout_s: float) -> Sequence[Record]:
            return [good(3, partition=7), *fetch(limit, timeout_s)]

        worker.broker.fetch = with_strays  # type: ignore[method-assign]
        worker.run()
        assert {partition for _, partition, _ in visible(cluster)} == {0, 1}
        assert set(offsets_of(cluster)) == {0, 1}

    def test_states_follow_the_table(self) -> None:
        """Each step outside the table raises and changes nothing."""
        for state in State:
            for following in set(State) - TRANSITIONS[state]:
                model = PartitionModel("t", 0, Lineage(0, "m"), SETTINGS, DECODER)
                partition = Partition(model, RecoveryPlan(model.lineage, 0))
                partition.state = state
                with pytest.raises(AssertionError, match="can't go from"):
                    partition.enter(following)
                assert partition.state is state


class TestRefusals:
    """When going on makes no sense."""

    @pytest.mark.parametrize("topic", [TOPICS.predictions, TOPICS.models])
    def test_too_few_partitions(self, topic: str) -> None:
        """Partition p of predictions and models must exist for every p of the examples."""
        cluster = MemoryCluster(dict.fromkeys(TOPICS, 2) | {topic: 1})
        worker = Worker(cluster)
        with pytest.raises(ConfigurationError, match=rf"expected topic {topic} to have 2 partitions.*found 1"):
            worker.run()
        assert worker.broker.closed

    def test_another_configuration(self) -> None:
        """The committed offset names the model it belongs to; another one does not go on from it."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        with pytest.raises(ConfigurationError, match=r"expected model [0-9a-f]{16} .* examples-0 in group group"):
            Worker(cluster, setup=SETUP._replace(model={"learner": {"bits": 11}})).run()

    @pytest.mark.parametrize("metadata", ["", "null", '{"v":1}', "[1]", '{"v":9,"start":0,"model":"x"}'])
    def test_an_offset_that_somebody_else_committed(self, metadata: str) -> None:
        """Without our note beside it, there is no model that the offset belongs to."""
        cluster = cluster_of_all()
        offsets_of(cluster)[0] = Committed(3, metadata)
        with pytest.raises(ConfigurationError, match="committed offset 3 of examples-0"):
            Worker(cluster).run()

    def test_nothing_of_a_batch_with_a_fatal_record_is_published(self) -> None:
        """Neither predictions nor dead letters, and the offset stays."""
        settings = SETTINGS._replace(reject_limits=RejectLimits(3, 1.0))
        cluster = cluster_with({0: [good(0), good(1), *(good(i)._replace(payload=b"") for i in range(2, 9))]})
        worker = Worker(cluster, setup=SETUP._replace(settings=settings))
        with pytest.raises(TooManyRejectsError, match="examples-0@5"):
            worker.run()
        assert (visible(cluster), offsets_of(cluster)) == ([], {})
        assert worker.broker.closed

    def test_a_model_error_commits_nothing(self) -> None:
        """Not even the batches before it in the same transaction: they are processed again."""
        cluster = cluster_with({0: [good(i) for i in range(30)]})
        worker = Worker(cluster, setup=SETUP._replace(loop=NEVER))

        class Exploding(PartitionModel):
            def process(self, records: Sequence[Any], *lap: Any) -> Any:
                if self.next_offset > 10:
                    raise ModelError("examples-0@11: not finite")
                return super().process(records, *lap)

        def explode(number: int, lineage: Lineage) -> PartitionModel:
            return Exploding("examples", number, lineage, SETTINGS, DECODER)

        worker.new_model = explode  # type: ignore[method-assign,assignment]
        with pytest.raises(ModelError):
            worker.run()
        assert (visible(cluster), offsets_of(cluster)) == ([], {})

    def test_transactions_that_never_succeed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After ten in a row, and some time, the process leaves, so that its supervisor sees it."""
        monkeypatch.setattr("stream_apple.stream.loop.transaction.HOPELESS_S", 0.0)
        cluster = cluster_of_all()
        faults = [Fault(call, Kind.ABORTABLE) for call in range(2, 1000)]
        with pytest.raises(BrokerError, match=f"{MAX_ABORTS} transactions in a row failed, .* last one: made to fail"):
            Worker(cluster, faults).run()
        assert visible(cluster) == []


def step_until_ready(worker: Process) -> None:
    """Let it turn."""
    for _ in range(MOST_FETCHES):
        worker.step()
        if worker.health.ready().good:
            return
    raise AssertionError(f"never ready: {worker.health.ready()}")


class TestSignals:
    """What the process is told and what it tells."""

    def test_stop_commits_what_was_processed(self) -> None:
        """A stop between two commits loses nothing and leaves nothing open."""
        cluster = cluster_of_all()
        worker = Worker(cluster, setup=SETUP._replace(loop=NEVER)).run()
        # The outputs, and then the snapshot of each model.
        assert worker.broker.calls.count("commit") == 3
        assert len(visible(cluster)) == 52
        assert cluster.transactions.open_ids() == {}

    def test_readiness_follows_the_partitions(self) -> None:
        """Not ready before the group has spoken; ready when all partitions are live; not when they are lost."""
        cluster = cluster_of_all()
        worker = Process(cluster, WORKER)
        assert not worker.health.ready().good
        worker.health.compiled()
        worker.step()
        assert worker.health.ready().facts["waiting_for"] == ["the group to assign partitions"]
        step_until_ready(worker)
        assert worker.health.ready().facts["partitions"] == {"0": "live", "1": "live"}
        cluster.group(GROUP, TOPIC).expire(WORKER)
        worker.step()
        assert worker.health.ready().facts["waiting_for"] == ["the group to assign partitions"]
        step_until_ready(worker)

    def test_doubt_ends_readiness(self) -> None:
        """After an aborted transaction nothing is owned until the group says so again."""
        worker = Process(cluster_of_all(), WORKER)
        worker.health.compiled()
        step_until_ready(worker)
        worker.broker.order(Fault(len(worker.broker.calls), Kind.ABORTABLE))
        worker.step()
        assert worker.health.ready().facts == {
            "status": "waiting",
            "waiting_for": ["the group to assign partitions"],
            "catching_up": None,
            "partitions": {},
        }
        step_until_ready(worker)

    def test_a_start_is_never_ready_too_soon(self) -> None:
        """Not for a moment between the group's answer and the restored models."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        worker = Process(cluster, WORKER)
        worker.health.compiled()
        call = worker.broker.call
        seen: list[bool] = []

        def watched(name: str, effect: Callable[[], Any]) -> Any:
            if len(worker.live) < 2:
                seen.append(worker.health.ready().good)
            return call(name, effect)

        worker.broker.call = watched  # type: ignore[method-assign]
        step_until_ready(worker)
        assert State.RESTORING in worker.states
        assert len(seen) > 10
        assert not any(seen)

    def test_a_worker_that_stops_is_not_ready(self) -> None:
        """Whether it was asked to, or leaves with an error."""
        asked, failed = Worker(cluster_of_all()), Worker(cluster_of_all(), [Fault(60, Kind.BROKER)])
        for worker in (asked, failed):
            worker.health.compiled()
        asked.run()
        with pytest.raises(BrokerError):
            failed.run()
        for worker in (asked, failed):
            assert worker.health.ready().facts["status"] == "stopping"

    def test_the_loop_s_time_is_booked_whole(self) -> None:
        """Every phase of the table has a series, and learning took some of the time."""
        worker = Worker(cluster_of_all())
        worker.run()
        assert (worker.sample("loop_seconds_total", phase="learn") or 0) >= 0
        assert (worker.sample("commit_seconds_count") or 0) == (
            worker.sample("transactions_total", result="committed") or -1
        )
