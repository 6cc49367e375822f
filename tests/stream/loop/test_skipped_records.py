"""A record that an operator has named is left out: it ends no worker, and is remembered when it is named no more."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.cluster import MemoryCluster
from simulation.faults import CrashError, Fault, Kind, Pick, at_any_call
from simulation.process import TOPICS, Setup
from simulation.world import Output, Outputs, outputs_of, pointer_of
from stream.one_worker import SETUP, Worker, cluster_with, input_log, offset_of, offsets_of
from structlog.typing import EventDict
from support.records import DECODER, SETTINGS, new_model, process_in_batches, stream

from stream_apple.errors import ConfigurationError, ModelError
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import BatchResult, Look, PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.lineage import Lineage

RECORDS = input_log()[0]
NAMED = RECORDS[12]
PLACE = (0, NAMED.at)
NAMING = SETUP._replace(exceptions=Exceptions(skips=frozenset({PLACE})))
OFTEN = SETUP.loop._replace(commits=SETUP.loop.commits._replace(outputs=3))
HEADER = "__stream_apple.errors."


class Poisoned(PartitionModel):
    """A model that one record ends, whatever comes with it."""

    def process(self, records: Sequence[Record], look: Look | None = None) -> BatchResult:
        """As any other, but for that record."""
        if any(record.offset() == NAMED.at for record in records):
            raise ModelError(f"examples-0@{NAMED.at}: score is nan")
        return super().process(records, look)


def poison(worker: Worker) -> Worker:
    """Let the worker have such models."""

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        worker.models[partition] = Poisoned("examples", partition, lineage, SETTINGS, DECODER)
        return worker.models[partition]

    worker.new_model = new_model  # type: ignore[method-assign]
    return worker


def cluster() -> MemoryCluster:
    """One partition."""
    return cluster_with({0: RECORDS})


def told(letter: Output) -> dict[str, str]:
    """What a dead letter says, by the names of its headers."""
    return {
        name.removeprefix(HEADER): (text or b"").decode()  # type: ignore[union-attr]
        for name, text in letter.headers
        if name.startswith(HEADER)
    }


def skipped(outputs: Outputs) -> list[Output]:
    """The dead letters about records that were skipped."""
    return [letter for letter in outputs[TOPICS.dead_letters, 0] if told(letter)["reason"] == "skipped"]


def models_by_offset(outputs: Outputs) -> dict[int, Any]:
    """Offset -> the model that its prediction names."""
    found = [decode_prediction(output.value or b"") for output in outputs[TOPICS.predictions, 0]]
    return {int(str(each["offset"])): each["model"] for each in found}


class TestWorker:
    """Its lives, before and after."""

    def test_a_record_that_ends_every_worker_is_named_and_passed(self, log_events: list[EventDict]) -> None:
        """It becomes a dead letter, whole; all others are answered as if it had never been."""
        shared = cluster()
        for _ in range(2):
            with pytest.raises(ModelError):
                poison(Worker(shared)).run()
        worker = poison(Worker(shared, setup=NAMING)).run()
        outputs = outputs_of(shared)
        (letter,) = skipped(outputs)
        assert (letter.key, letter.value, letter.timestamp_ms) == (NAMED.named, NAMED.payload, NAMED.time_ms)
        facts = told(letter)
        assert (facts["offset"], facts["model"]) == (str(NAMED.at), worker.models[0].lineage.model)
        answered = sorted(
            offset_of(topic, each) for topic in (TOPICS.predictions, TOPICS.dead_letters) for each in outputs[topic, 0]
        )
        assert answered == [record.at for record in RECORDS]
        (event,) = [event for event in log_events if event["event"] == "record_skipped"]
        assert (event["partition"], event["offset"], event["dead_letters"]) == (0, NAMED.at, 1)
        assert worker.sample("dead_letters_total", partition="0", reason="skipped") == 1
        without = new_model()
        process_in_batches(without, [record for record in RECORDS if record != NAMED])
        assert worker.models[0].learner.digest() == without.learner.digest()

    def test_it_is_remembered(self) -> None:
        """When the setting is gone, nothing is learned or said again; what came before has the name of before."""
        shared = cluster()
        model = Worker(shared, setup=NAMING).run().models[0]
        before = outputs_of(shared)
        successor = Worker(shared).run()
        assert outputs_of(shared) == before
        assert successor.models[0].digest() == model.digest()
        assert successor.models[0].lineage == model.lineage == SETUP.provenance.lineage(0, 0, (), (NAMED.at,))
        first = SETUP.provenance.lineage(0, 0).model
        for offset, name in models_by_offset(before).items():
            assert name == (first if offset < NAMED.at else model.lineage.model)

    @at_any_call
    @pytest.mark.usefixtures("small_sizes")
    @pytest.mark.parametrize("setup", [NAMING, NAMING._replace(loop=OFTEN)])
    def test_a_crash_at_any_call_changes_nothing(self, setup: Setup, pick: Pick) -> None:
        """Whether it comes before, in or after the transaction with the dead letter; nobody need name it any more."""
        undisturbed = cluster()
        calls = Worker(undisturbed, setup=setup).run().broker.calls
        expected = outputs_of(undisturbed)
        for call in pick(calls, range(len(calls))):
            shared = cluster()
            with pytest.raises(CrashError):
                Worker(shared, [Fault(call, Kind.CRASH)], setup=setup).run()
            committed = offsets_of(shared).get(0)
            answered = committed is not None and committed.offset > NAMED.at
            if answered:
                pointer = pointer_of(shared, 0, SETUP)
                assert pointer is not None
                assert pointer.at > NAMED.at
            Worker(shared, setup=SETUP if answered else setup).run()
            assert outputs_of(shared) == expected, calls[call]

    @pytest.mark.usefixtures("small_sizes")
    @pytest.mark.parametrize("call", range(4, 60, 4))
    def test_a_transaction_that_fails_is_done_again(self, call: int) -> None:
        """The name is read anew when the models are found anew."""
        shared, undisturbed = cluster(), cluster()
        Worker(undisturbed, setup=NAMING).run()
        Worker(shared, [Fault(call, Kind.ABORTABLE)], {call + 7: "revoke"}, setup=NAMING).run()
        assert outputs_of(shared) == outputs_of(undisturbed)

    def test_one_that_was_answered_is_refused_at_the_start(self) -> None:
        """It was learned: to take it back is not possible, and to be silent would be a lie."""
        shared = cluster()
        Worker(shared).run()
        with pytest.raises(ConfigurationError, match=rf"worker.skip: expected .*no answer yet, found 0@{NAMED.at}"):
            Worker(shared, setup=NAMING).run()

    def test_an_offset_without_a_record(self, log_events: list[EventDict]) -> None:
        """Nothing is skipped, and the event says so; it is remembered all the same, and refused by nobody."""
        offsets = {record.at for record in RECORDS}
        missing = min(set(range(NAMED.at, RECORDS[-1].at)) - offsets)
        setup = SETUP._replace(exceptions=Exceptions(skips=frozenset({(0, missing), (0, 10_000), (5, 1)})))
        shared = cluster()
        Worker(shared, setup=setup).run()
        assert skipped(outputs_of(shared)) == []
        (event,) = [event for event in log_events if event["event"] == "record_skipped"]
        assert (event["offset"], event["dead_letters"]) == (missing, 0)
        Worker(shared, setup=setup).run()


class TestModel:
    """The model alone."""

    @staticmethod
    def lives(cuts: Sequence[int], publish_from: int = 0) -> tuple[PartitionModel, list[Any]]:
        """A model that skips two records, and all that it says, in batches cut at these places."""
        provenance = SETUP.provenance
        model = PartitionModel("examples", 0, provenance.lineage(0, 0), SETTINGS, DECODER)
        model.publish_from = publish_from
        model.skips.extend(
            provenance.skips(0, model.lineage, [LONG[50].offset(), LONG[51].offset(), LONG[-1].offset()])
        )
        said: list[Any] = []
        places = [0, *sorted(cuts), len(LONG)]
        for start, stop in pairwise(places):
            for records, result in model.process_in_turn(LONG[start:stop]):
                assert len(result.examples) + len(result.rejects) + result.replayed == len(records)
                said += zip([record.offset() for record in result.examples], result.predictions, strict=True)
                said += [(each.record.offset(), each.reason, model.lineage.model) for each in result.rejects]
        return model, sorted(said, key=repr)

    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 120), max_size=6))
    def test_the_result_does_not_depend_on_batch_boundaries(self, cuts: list[int]) -> None:
        """State, outputs and names are those of one batch."""
        whole, cut = self.lives([]), self.lives(cuts)
        assert cut[1] == whole[1]
        assert cut[0].digest() == whole[0].digest()

    @settings(max_examples=15)
    @given(st.integers(0, 140), st.lists(st.integers(0, 120), max_size=4))
    def test_a_replay_skips_them_in_silence(self, publish_from: int, cuts: list[int]) -> None:
        """As it learns everything else."""
        whole, again = self.lives([]), self.lives(cuts, publish_from)
        assert again[1] == [said for said in whole[1] if said[0] >= publish_from]
        assert again[0].digest() == whole[0].digest()

    def test_it_counts_as_no_reject(self) -> None:
        """Whoever names a record has seen it: that it can't be used must not end the worker."""
        model, said = self.lives([])
        assert [reason for _, reason, *_ in said if reason is Reason.SKIPPED] == [Reason.SKIPPED] * 3
        assert len(model.rejects.recent) == len(LONG) - 3


LONG: list[Record] = list(stream(120, seed=8))
