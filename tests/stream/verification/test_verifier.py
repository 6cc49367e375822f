"""A verification finds no fault where there is none, and says what it can't prove."""

from collections.abc import Mapping, Sequence

import pytest
from stream.verification.published_logs import (
    COUNT,
    DEAD_LETTER_PARTITIONS,
    INPUT,
    LETTERS,
    PARTITION,
    PREDICTIONS,
    PROVENANCE,
    MemoryLogs,
    MemoryReader,
    answer,
    changed,
    commit,
    damaged_snapshot,
    life,
    new_model,
    pointer_of,
    prediction_with,
    save,
    verify,
    without,
)
from support.records import TOPIC, FakeRecord, stream

from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.log import log_scan
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.positions.lineage import Gap, OffsetMetadata
from stream_apple.stream.verification.partition_report import Covered
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.answers import Unproved
from stream_apple.stream.walk.faults import Kind
from stream_apple.stream.walk.sources import Sources


def unlearned(logs: MemoryLogs) -> Unproved:
    """Why nothing of the partition is proved; there is no fault in it."""
    report = verify(logs)
    assert report.faults == []
    assert report.covered.records == 0
    (unproved,) = report.unproved
    assert (unproved.start, unproved.stop) == (0, logs.logs[INPUT][-1].at + 1)
    return unproved


class TestNoFaults:
    """What is as it must be is not called a fault."""

    def test_a_clean_run(self) -> None:
        """Everything is matched, from the first record on, and the state at the snapshot is its own."""
        logs = life()
        report = verify(logs)
        assert report.faults == []
        assert report.covered == Covered("start", 0, logs.logs[INPUT][-1].at + 1, COUNT)
        assert report.covered.records == COUNT == report.predictions.matched + report.dead_letters.matched
        assert report.predictions.expected == len(logs.logs[PREDICTIONS])
        assert report.dead_letters.expected == len(logs.logs[LETTERS]) > 10
        assert report.snapshot is not None
        assert report.relearned == report.snapshot.digest
        assert (report.unproved, report.unproved_count) == ([], 0)

    def test_what_is_of_other_groups_is_counted(self) -> None:
        """Predictions for another topic's examples, and dead letters of any other model, among ours."""
        logs = life(PARTITION)
        logs = life(PARTITION - DEAD_LETTER_PARTITIONS, logs)
        counts = {place: len(logs.logs[place]) for place in (PREDICTIONS, LETTERS)}
        for place in (PREDICTIONS, LETTERS):
            ours = logs.logs[place]
            mixed: list[FakeRecord] = []
            for record in ours:
                value = prediction_with(record.payload, topic="others") if place == PREDICTIONS else record.payload
                headers = [(n, b"f" * 16 if n.endswith("errors.model") else v) for n, v in record.extra or ()]
                mixed += [record, record._replace(payload=value, extra=headers or None)]
            logs.logs[place] = [record._replace(at=at) for at, record in enumerate(mixed)]
        report = verify(logs)
        assert report.faults == []
        assert report.predictions.foreign == report.predictions.matched == counts[PREDICTIONS]
        assert report.dead_letters.foreign == report.dead_letters.matched
        assert 0 < report.dead_letters.matched < counts[LETTERS]

    def test_a_dead_letter_that_was_one_before(self) -> None:
        """A record with the headers of an earlier dead letter is matched by those that the worker has added."""
        logs = MemoryLogs()
        old = [("__stream_apple.errors.offset", b"77"), ("__stream_apple.errors.model", b"0" * 16)]
        records = [FakeRecord(PARTITION, at, b"\xc1", 1000 + at, b"k", old) for at in range(20)]
        logs.logs[INPUT] = records
        model = new_model(PARTITION, PROVENANCE.lineage(PARTITION, 0))
        answer(logs, model, records)
        commit(logs, model, None)
        for letter in logs.logs[LETTERS]:
            headers = list(letter.extra or ())
            assert [name for name, _ in headers[:2]] == ["__from_record.errors.offset", "__from_record.errors.model"]
        report = verify(logs)
        assert report.faults == []
        assert report.dead_letters.matched == 20

    def test_answers_whose_transaction_was_open(self) -> None:
        """A live worker commits answers that the outputs hold already: they are asked for again when they are read."""
        logs = life()
        before, after = logs.logs[INPUT][500].at, logs.offsets[PARTITION]
        assert after is not None
        logs.offsets[PARTITION] = after._replace(
            offset=before, metadata=OffsetMetadata(PROVENANCE.lineage(PARTITION, 0), pointer_of(logs)).to_text()
        )
        logs.decided = lambda partitions: dict.fromkeys(partitions, after)  # type: ignore[method-assign]
        report = verify(logs)
        assert (report.faults, report.covered.stop) == ([], before)

    def test_what_comes_behind_the_end_is_not_judged(self) -> None:
        """Verified up to an offset, later answers are neither missing nor too much."""
        logs = life()
        middle = logs.logs[INPUT][200].at
        whole = verify(logs)
        report = verify(logs, middle)
        assert report.faults == []
        assert report.covered.records == 200
        assert report.relearned is None  # the snapshot is further on
        assert whole.relearned is not None

    def test_outputs_that_retention_has_removed_are_gone(self) -> None:
        """A prediction that the output topic no longer has is no missing one; a hole behind them is."""
        logs = life()
        count = len(logs.logs[PREDICTIONS])
        logs.remove_before(PREDICTIONS, logs.logs[PREDICTIONS][100].at)
        report = verify(logs)
        assert report.faults == []
        assert report.predictions.gone == 100 == report.unproved_count
        assert "their predictions are gone" in report.unproved[0].why
        assert report.predictions.matched == count - 100
        without(logs, PREDICTIONS, 50)
        assert [fault.kind for fault in verify(logs).faults] == [Kind.MISSING]

    def test_the_broker_s_own_timestamps_prove_nothing(self) -> None:
        """In a topic with log append time, and for records without a time of their own, times are not compared."""
        logs = life()
        changed(logs, PREDICTIONS, 3, time_ms=5)
        assert verify(logs).fault_count == 1
        record = logs.logs[PREDICTIONS][3]

        class Stamped(FakeRecord):
            def timestamp(self) -> tuple[int, int]:
                return 2, self.time_ms

        logs.logs[PREDICTIONS][3] = Stamped(*record)
        assert verify(logs).faults == []


class TestOrigin:
    """What the model is learned again from."""

    def test_from_the_snapshot_when_the_start_is_gone(self) -> None:
        """Retention has removed the first records: what follows the snapshot is proved, and said so."""
        logs = life()
        pointer = pointer_of(logs)
        logs.remove_before(INPUT, pointer.at)
        report = verify(logs)
        assert report.faults == []
        assert (report.covered.origin, report.covered.start) == ("snapshot", pointer.at)
        assert report.covered.records == COUNT // 2
        assert report.relearned is None
        assert [(each.start, each.stop, each.answers) for each in report.unproved] == [(0, pointer.at, pointer.at)]
        without(logs, PREDICTIONS, -5)
        assert [fault.kind for fault in verify(logs).faults] == [Kind.MISSING]

    def test_not_at_all_when_the_rest_is_gone_too(self) -> None:
        """Records behind the snapshot are missing: the report names the first one needed and the first one there."""
        logs = life()
        at = pointer_of(logs).at
        logs.remove_before(INPUT, at + 100)
        assert f"from offset {at} on, " in unlearned(logs).why
        assert f"found {at + 100} as the first" in unlearned(logs).why
        logs.logs[PREDICTIONS].append(logs.logs[PREDICTIONS][-1]._replace(at=logs.logs[PREDICTIONS][-1].at + 1))
        assert [fault.kind for fault in verify(logs).faults] == [Kind.OUT_OF_ORDER]  # what needs no model is seen

    def test_not_at_all_when_the_snapshot_is_damaged(self) -> None:
        """Without its start and without its snapshot there is no model."""
        logs = life()
        logs.remove_before(INPUT, pointer_of(logs).at)
        damaged_snapshot(logs)
        report = verify(logs)
        assert [fault.kind for fault in report.faults] == [Kind.SNAPSHOT]
        assert "from offset 0 on" in report.unproved[0].why

    def test_retention_is_quicker(self) -> None:
        """Records go while they are read: of that partition nothing is proved, and that is all."""
        logs = life()
        reader = logs.reader

        def gone(topic: str, partition: int, offset: int) -> MemoryReader:
            if topic == TOPIC:
                raise GapError("gone meanwhile")
            return reader(topic, partition, offset)

        logs.reader = gone  # type: ignore[method-assign]
        assert unlearned(logs).why == "gone meanwhile"

    def test_the_end_of_the_log_is_gone(self) -> None:
        """That does no retention: the topic was made anew, or has lost records that were answered."""
        logs = life()
        logs.logs[INPUT] = logs.logs[INPUT][:100]
        with pytest.raises(GapError, match="to reach offset"):
            verify(logs)

    def test_an_end_before_the_snapshot_can_not_be_verified_without_the_start(self) -> None:
        """There is nothing to learn it from."""
        logs = life()
        at = pointer_of(logs).at
        logs.remove_before(INPUT, at)
        with pytest.raises(ConfigurationError, match=f"at or behind the newest snapshot at offset {at}"):
            verify(logs, at - 1)

    def test_nothing_committed(self) -> None:
        """A partition without a committed offset has no model."""
        logs = life()
        logs.offsets.clear()
        report = verify(logs)
        assert (report.model, report.covered.origin, report.covered.records) == (None, None, 0)

    def test_an_end_behind_the_committed_offset(self) -> None:
        """What has no answers yet can't be verified."""
        logs = life()
        with pytest.raises(ConfigurationError, match="at most at the committed offset"):
            verify(logs, 10_000)

    def test_another_configuration(self) -> None:
        """A model of other settings is refused by the committed offset."""
        logs = life()
        other = Verifier(Sources(logs, PROVENANCE._replace(settings={}), new_model, 50), lambda *_: None)
        with pytest.raises(ConfigurationError, match="of this configuration"):
            other.verify_each([PARTITION])

    def test_a_snapshot_that_a_newer_one_displaces_meanwhile(self) -> None:
        """The pointer leads to nothing, and the committed offset has another one by then: that one is verified."""
        logs = life()
        fresh = logs.offsets[PARTITION]
        assert fresh is not None
        pointer = pointer_of(logs)
        stale = OffsetMetadata(
            PROVENANCE.lineage(PARTITION, 0), pointer._replace(first=pointer.last + 9, last=pointer.last + 10, at=7)
        )
        answers = iter([fresh._replace(metadata=stale.to_text())])
        present = logs.committed_now

        def committed(partitions: Sequence[int]) -> Mapping[int, Committed | None]:
            return {PARTITION: next(answers, present(partitions)[PARTITION])}

        logs.committed_now = committed  # type: ignore[method-assign]
        report = verify(logs)
        assert report.faults == []
        assert report.snapshot == pointer


class TestGaps:
    """An accepted gap is left out, as the worker has left it out."""

    @pytest.fixture
    def logs(self) -> MemoryLogs:
        """A model that lost records behind its snapshot, some of them answered, and went on.

        The snapshot is of record 200, answers are committed up to 260, records up to 240 are gone.
        """
        logs = MemoryLogs()
        records = stream(COUNT, seed=5, partition=PARTITION)
        logs.logs[INPUT] = records
        old = new_model(PARTITION, PROVENANCE.lineage(PARTITION, 0))
        answer(logs, old, records[:200])
        pointer = save(logs, old)
        state = new_model(PARTITION, old.lineage)
        state.process(records[:200])
        answer(logs, old, records[200:260])
        gap = Gap(state.next_offset, records[240].at)
        logs.remove_before(INPUT, gap.stop)
        state.publish_from = old.next_offset
        state.jump(PROVENANCE.lineage(PARTITION, 0, [gap]), gap)
        answer(logs, state, records[240:])
        commit(logs, state, pointer)
        return logs

    def test_is_left_out_and_reported(self, logs: MemoryLogs) -> None:
        """The model jumps; answers from before the jump are counted, not compared."""
        report = verify(logs)
        assert report.faults == []
        assert report.covered.origin == "snapshot"
        assert report.covered.records == COUNT - 240
        (gap,) = report.gaps
        assert gap.start == report.covered.start
        assert report.predictions.earlier + report.dead_letters.earlier == 60  # 40 of them in the gap
        first, *others = report.unproved
        assert (first.start, first.stop, first.answers) == (0, gap.start, gap.start)
        assert sum(each.answers for each in others) == 60
        matched = report.predictions.matched + report.dead_letters.matched
        assert matched == COUNT - 260

    def test_faults_behind_it_are_found(self, logs: MemoryLogs) -> None:
        """A lost and a changed prediction of the model behind the gap."""
        without(logs, PREDICTIONS, -5)
        changed(logs, PREDICTIONS, -9, named=b"x")
        assert [fault.kind for fault in verify(logs).faults] == [Kind.DIFFERENT, Kind.MISSING]

    def test_the_old_model_may_not_go_on(self, logs: MemoryLogs) -> None:
        """An answer under the old fingerprint among those of the new one comes from a zombie."""
        value = prediction_with(logs.logs[PREDICTIONS][-5].payload, model=PROVENANCE.lineage(PARTITION, 0).model)
        changed(logs, PREDICTIONS, -5, payload=value)
        assert [fault.kind for fault in verify(logs).faults] == [Kind.DIFFERENT]


def test_large_records_are_learned_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, in their order, in portions of a bounded size: a fetch may hold as many as Kafka's client does."""
    monkeypatch.setattr(log_scan, "BATCH_BYTES", 200)
    logs, records = MemoryLogs(), stream(40, seed=1, bad_share=0.2)
    logs.logs["t", 0] = records
    portions = list(LogScan(logs, "t", 0, range(records[-1].at + 1), 30).batches())
    assert [record for each in portions for record in each] == records
    sizes = [[len(record.value() or b"") for record in each] for each in portions]
    assert all(sum(each) <= 200 or len(each) == 1 for each in sizes)
    assert len(portions) > 5


def test_a_log_that_does_not_go_on_is_an_error() -> None:
    """A reader that stands still before the end ends the verification: half of a log proves nothing."""
    clock = iter(range(100))
    logs = MemoryLogs()
    logs.append(("t", 0), None, b"")
    scan = LogScan(logs, "t", 0, range(1, 9), patience_s=10, now=lambda: float(next(clock)))
    with pytest.raises(BrokerError, match=r"expected t-0 to go on from offset 2 to 9, found nothing for 10 s"):
        scan.take()
