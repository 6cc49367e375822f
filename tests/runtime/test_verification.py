"""A verification finds every kind of fault, and finds none where there is none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import pytest
from runtime.records import DECODER, HOUR, SETTINGS, TOPIC, FakeRecord, stream

from stream_apple.core.rejects import Reason
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.runtime.deadletters import Reject, dead_letter_headers
from stream_apple.runtime.lineage import Gap, Lineage, Note, Pointer, lineage_of
from stream_apple.runtime.ports import Committed, LogRange, Record
from stream_apple.runtime.published import LISTED, Kind
from stream_apple.runtime.section import Section
from stream_apple.runtime.snapshot import encode, message_key
from stream_apple.runtime.step import PartitionModel
from stream_apple.runtime.stored import Subject
from stream_apple.runtime.verification import Report, Verification

MODEL_SETTINGS: dict[str, Any] = {"learner": {"bits": 10}}
SUBJECT = Subject("group", TOPIC, "predictions", "dead-letters", "models", MODEL_SETTINGS)
COUNT = 600
PARTITIONS = 3
DEAD_LETTER_PARTITIONS = 2
PARTITION = 2
PREDICTIONS = ("predictions", PARTITION)
LETTERS = ("dead-letters", PARTITION % DEAD_LETTER_PARTITIONS)
INPUT = (TOPIC, PARTITION)
MODELS = ("models", PARTITION)


class MemoryReader:
    """Delivers a few records at a time, and knows where it stands."""

    def __init__(self, records: Sequence[FakeRecord], offset: int, end: int) -> None:
        self._records = [record for record in records if record.at >= offset]
        self._end = max(end, offset)
        self.position = offset

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """At most seven."""
        assert timeout_s > 0
        portion, self._records = self._records[: min(limit, 7)], self._records[min(limit, 7) :]
        self.position = portion[-1].at + 1 if portion else self._end
        return portion

    def close(self) -> None:
        """Nothing is held."""


class MemoryLogs:
    """Logs that are lists of records, whose offsets may have gaps."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[FakeRecord]] = {}
        self.low: dict[tuple[str, int], int] = {}
        self.offsets: dict[int, Committed | None] = {}

    def partition_count(self, topic: str) -> int:
        """Of the dead letters there are fewer."""
        return DEAD_LETTER_PARTITIONS if topic == "dead-letters" else PARTITIONS

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """As stored."""
        return {number: self.offsets.get(number) for number in partitions}

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The end lies behind the marker of the last transaction."""
        records = self.logs.get((topic, partition), [])
        return LogRange(self.low.get((topic, partition), 0), records[-1].at + 2 if records else 0)

    def reader(self, topic: str, partition: int, offset: int) -> MemoryReader:
        """From `offset` on; it must not lie below what retention has left."""
        low, high = self.log_range(topic, partition)
        if offset < low:
            raise GapError(f"{topic}-{partition}: {offset} is below {low}")
        return MemoryReader(self.logs.get((topic, partition), []), offset, high)

    def append(
        self,
        place: tuple[str, int],
        key: bytes | None,
        value: bytes | None,
        time_ms: int = 0,
        headers: Sequence[tuple[str, Any]] | None = None,
    ) -> int:
        """Add a message behind the last one, now and then with a marker between; its offset."""
        log = self.logs.setdefault(place, [])
        at = log[-1].at + 1 + (len(log) % 50 == 49) if log else 0
        log.append(FakeRecord(place[1], at, value, time_ms, key, headers))
        return at

    def remove_before(self, place: tuple[str, int], offset: int) -> None:
        """As retention does."""
        self.logs[place] = [record for record in self.logs[place] if record.at >= offset]
        self.low[place] = offset


def new_model(partition: int, lineage: Lineage) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, partition, lineage, SETTINGS, DECODER)


def answer(logs: MemoryLogs, model: PartitionModel, records: Sequence[FakeRecord]) -> None:
    """Learn and publish as the worker does."""
    outcome = model.process(records)
    number, shared = model.partition, model.partition % DEAD_LETTER_PARTITIONS
    for index, value in zip(outcome.indices, outcome.predictions, strict=True):
        record = records[index]
        logs.append(("predictions", number), record.named, value, record.time_ms)
    for reject in outcome.rejects:
        record = records[reject.record]
        headers = dead_letter_headers(record, reject, TOPIC, model.lineage.model)
        logs.append(("dead-letters", shared), record.named, record.payload, record.timestamp()[1], headers)


def save(logs: MemoryLogs, model: PartitionModel) -> Pointer:
    """Write a snapshot as the worker does, among those of another group."""
    snapshot = encode(model)
    offsets = []
    for index, message in enumerate(snapshot.messages):
        logs.append(("models", model.partition), message_key("others", model.partition, index), b"not ours")
        key = message_key(SUBJECT.group, model.partition, index)
        offsets.append(logs.append(("models", model.partition), key, message))
    return Pointer(snapshot.at, offsets[0], offsets[-1], snapshot.digest)


def commit(logs: MemoryLogs, model: PartitionModel, pointer: Pointer | None) -> None:
    """Commit where the model stands."""
    note = Note(model.lineage, pointer)
    logs.offsets[model.partition] = Committed(model.next_offset, note.to_metadata())


def life(partition: int = PARTITION, logs: MemoryLogs | None = None) -> MemoryLogs:
    """What a worker leaves that has learned a partition, with a snapshot in the middle."""
    logs = logs or MemoryLogs()
    records = stream(COUNT, seed=5, partition=partition)
    logs.logs[TOPIC, partition] = records
    model = new_model(partition, lineage_of(MODEL_SETTINGS, TOPIC, partition, 0))
    answer(logs, model, records[: COUNT // 2])
    pointer = save(logs, model)
    answer(logs, model, records[COUNT // 2 :])
    commit(logs, model, pointer)
    return logs


def verify(logs: MemoryLogs, to: int | None = None) -> Report:
    """The report on the partition in question."""
    return Verification(logs, SUBJECT, new_model, 50, lambda *_: None).verify(PARTITION, to)


def changed(logs: MemoryLogs, place: tuple[str, int], index: int, **fields: Any) -> None:
    """Replace parts of a message."""
    logs.logs[place][index] = logs.logs[place][index]._replace(**fields)


def swapped(logs: MemoryLogs, place: tuple[str, int], index: int) -> None:
    """Exchange a message and the next one, offsets left as they are."""
    log = logs.logs[place]
    one, two = log[index], log[index + 1]
    log[index], log[index + 1] = two._replace(at=one.at), one._replace(at=two.at)


def repeated(logs: MemoryLogs, place: tuple[str, int], index: int, behind: int = 1) -> None:
    """Put a copy of a message some places behind it."""
    log = logs.logs[place]
    copies = [*log[: index + behind], log[index], *log[index + behind :]]
    logs.logs[place] = [record._replace(at=at) for at, record in enumerate(copies)]


def prediction_with(value: bytes | None, **fields: Any) -> bytes:
    """A prediction message with other fields."""
    return bytes(msgpack.packb({**msgpack.unpackb(value), **fields}))


def letter_of_good_record(logs: MemoryLogs) -> None:
    """A dead letter of a record that has a prediction too."""
    told = msgpack.unpackb(logs.logs[PREDICTIONS][100].payload)
    record = next(record for record in logs.logs[INPUT] if record.at == told["offset"])
    headers = dead_letter_headers(record, Reject(0, Reason.BAD_LABEL, "no"), TOPIC, told["model"])
    letters = logs.logs[LETTERS]
    place = next(
        i
        for i, letter in enumerate(letters)
        if int(dict(letter.extra or ())["__stream_apple.errors.offset"] or b"0") > record.at
    )
    letters.insert(place, FakeRecord(LETTERS[1], 0, record.payload, record.time_ms, record.named, headers))
    logs.logs[LETTERS] = [letter._replace(at=at) for at, letter in enumerate(letters)]


def prediction_of_bad_record(logs: MemoryLogs) -> None:
    """A prediction of a record that has a dead letter too."""
    predictions = logs.logs[PREDICTIONS]
    answered = [msgpack.unpackb(record.payload)["offset"] for record in predictions]
    bad = next(record.at for record in logs.logs[INPUT][50:] if record.at not in answered)
    place = next(i for i, offset in enumerate(answered) if offset > bad)
    predictions.insert(
        place, predictions[place]._replace(payload=prediction_with(predictions[place].payload, offset=bad))
    )
    logs.logs[PREDICTIONS] = [record._replace(at=at) for at, record in enumerate(predictions)]


def with_header(logs: MemoryLogs, name: str, value: bytes) -> None:
    """Another value in one of the headers that are ours."""
    letter = logs.logs[LETTERS][9]
    headers = [(n, value if n.endswith(name) else v) for n, v in letter.extra or ()]
    changed(logs, LETTERS, 9, extra=headers)


def forgotten_reject_window(logs: MemoryLogs) -> None:
    """Snapshot and committed digest agree, and both are of a state that the records don't lead to."""
    model = new_model(PARTITION, lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0))
    model.process(logs.logs[INPUT][: COUNT // 2])
    model.watch.recent = model.watch.recent[1:]
    committed = logs.offsets[PARTITION]
    assert committed is not None
    note = Note(model.lineage, save(logs, model))
    logs.offsets[PARTITION] = committed._replace(metadata=note.to_metadata())


def other_digest(logs: MemoryLogs) -> None:
    """The committed offset names a digest that the snapshot does not have."""
    committed = logs.offsets[PARTITION]
    assert committed is not None
    digest = encode(new_model(PARTITION, lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0))).digest
    note = Note(lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0), pointer_of(logs)._replace(digest=digest))
    logs.offsets[PARTITION] = committed._replace(metadata=note.to_metadata())


def pointer_of(logs: MemoryLogs) -> Pointer:
    """The newest snapshot's."""
    report = verify(logs)
    assert report.snapshot is not None
    return report.snapshot


def without(logs: MemoryLogs, place: tuple[str, int], index: int) -> None:
    """Take a message out, as if it had never been there."""
    del logs.logs[place][index]


def damaged_snapshot(logs: MemoryLogs) -> None:
    """One bit of the snapshot's last message has flipped."""
    value = bytearray(logs.logs[MODELS][-1].payload or b"")
    value[len(value) // 2] ^= 1
    changed(logs, MODELS, -1, payload=bytes(value))


Damage = Callable[[MemoryLogs], None]


class TestFaults:
    """Each is found, and nothing else is."""

    @pytest.mark.parametrize(
        ("damage", "kinds"),
        [
            pytest.param(lambda logs: without(logs, PREDICTIONS, 0), [Kind.MISSING], id="the first prediction missing"),
            pytest.param(lambda logs: without(logs, PREDICTIONS, 99), [Kind.MISSING], id="a prediction missing"),
            pytest.param(lambda logs: without(logs, PREDICTIONS, -1), [Kind.MISSING], id="the last prediction missing"),
            pytest.param(lambda logs: repeated(logs, PREDICTIONS, 99), [Kind.DUPLICATED], id="a prediction twice"),
            pytest.param(
                lambda logs: repeated(logs, PREDICTIONS, 99, 200), [Kind.DUPLICATED], id="a prediction again, later"
            ),
            pytest.param(
                lambda logs: repeated(logs, PREDICTIONS, 7, len(logs.logs[PREDICTIONS])),
                [Kind.DUPLICATED],
                id="a prediction again, at the end",
            ),
            pytest.param(
                lambda logs: swapped(logs, PREDICTIONS, 99), [Kind.OUT_OF_ORDER], id="two predictions swapped"
            ),
            pytest.param(
                lambda logs: changed(
                    logs, PREDICTIONS, 99, payload=prediction_with(logs.logs[PREDICTIONS][99].payload, prediction=0.25)
                ),
                [Kind.DIFFERENT],
                id="another score",
            ),
            pytest.param(
                lambda logs: changed(
                    logs, PREDICTIONS, 99, payload=prediction_with(logs.logs[PREDICTIONS][99].payload, epoch=1)
                ),
                [Kind.DIFFERENT],
                id="another epoch",
            ),
            pytest.param(
                lambda logs: changed(logs, PREDICTIONS, 99, payload=b"\xc1"), [Kind.MISSING], id="no prediction at all"
            ),
            pytest.param(lambda logs: changed(logs, PREDICTIONS, 99, named=b"x"), [Kind.DIFFERENT], id="wrong key"),
            pytest.param(lambda logs: changed(logs, PREDICTIONS, 99, named=None), [Kind.DIFFERENT], id="no key"),
            pytest.param(
                lambda logs: changed(logs, PREDICTIONS, 99, time_ms=HOUR), [Kind.DIFFERENT], id="wrong timestamp"
            ),
            pytest.param(
                lambda logs: changed(logs, PREDICTIONS, 99, extra=[("a", b"b")]), [Kind.DIFFERENT], id="a header"
            ),
            pytest.param(prediction_of_bad_record, [Kind.EXTRA], id="a prediction of a bad record"),
            pytest.param(lambda logs: without(logs, LETTERS, 9), [Kind.MISSING], id="a dead letter missing"),
            pytest.param(lambda logs: repeated(logs, LETTERS, 9), [Kind.DUPLICATED], id="a dead letter twice"),
            pytest.param(lambda logs: swapped(logs, LETTERS, 9), [Kind.OUT_OF_ORDER], id="two dead letters swapped"),
            pytest.param(letter_of_good_record, [Kind.EXTRA], id="a dead letter of a good record"),
            pytest.param(lambda logs: with_header(logs, "reason", b"bad_id"), [Kind.DIFFERENT], id="another reason"),
            pytest.param(lambda logs: with_header(logs, "message", b"?"), [Kind.DIFFERENT], id="another message"),
            pytest.param(
                lambda logs: with_header(logs, "model", b"?"), [Kind.MISSING], id="another model's dead letter"
            ),
            pytest.param(lambda logs: changed(logs, LETTERS, 9, payload=b"x"), [Kind.DIFFERENT], id="another value"),
            pytest.param(forgotten_reject_window, [Kind.SNAPSHOT], id="a snapshot of another state"),
            pytest.param(other_digest, [Kind.SNAPSHOT, Kind.SNAPSHOT], id="another digest"),
            pytest.param(damaged_snapshot, [Kind.SNAPSHOT], id="a damaged snapshot"),
            pytest.param(lambda logs: without(logs, MODELS, -1), [Kind.SNAPSHOT], id="half a snapshot"),
            pytest.param(lambda logs: logs.logs.pop(MODELS), [Kind.SNAPSHOT], id="no snapshot"),
        ],
    )
    def test_is_found(self, damage: Damage, kinds: list[Kind]) -> None:
        """What is damaged is reported once, by its kind, and what is whole is not."""
        logs = life()
        damage(logs)
        report = verify(logs)
        assert [fault.kind for fault in report.faults] == kinds, report.faults
        assert report.fault_count == len(kinds)

    def test_place_and_difference_are_named(self) -> None:
        """A fault says where the message is, which example it is about, and what differs."""
        logs = life()
        changed(logs, PREDICTIONS, 99, named=b"x")
        record = logs.logs[PREDICTIONS][99]
        (fault,) = verify(logs).faults
        example = msgpack.unpackb(record.payload)["offset"]
        assert (fault.topic, fault.partition, fault.offset, fault.example) == (*PREDICTIONS, record.at, example)
        assert fault.text == f"expected key {b'key-%d' % example!r}, found b'x'"

    def test_many_are_counted_and_the_first_are_told(self) -> None:
        """All predictions lost: as many faults as predictions, the first ten in order."""
        logs = life()
        count = len(logs.logs.pop(PREDICTIONS))
        report = verify(logs)
        assert report.fault_count == count == report.predictions.expected
        assert report.predictions.matched == 0
        examples = [fault.example for fault in report.faults]
        assert len(examples) == LISTED
        assert examples == sorted(examples)
        assert examples[0] == next(r.at for r in logs.logs[INPUT] if r.payload and r.time_ms > 0)


class TestNoFaults:
    """What is as it must be is not called a fault."""

    def test_a_clean_run(self) -> None:
        """Everything is matched, from the first record on, and the state at the snapshot is its own."""
        logs = life()
        report = verify(logs)
        assert report.faults == []
        assert (report.origin, report.start, report.stop) == ("start", 0, logs.logs[INPUT][-1].at + 1)
        assert report.records == COUNT == report.predictions.matched + report.dead_letters.matched
        assert report.predictions.expected == len(logs.logs[PREDICTIONS])
        assert report.dead_letters.expected == len(logs.logs[LETTERS]) > 10
        assert report.snapshot is not None
        assert report.relearned == report.snapshot.digest

    def test_other_models_and_partitions_are_passed_over(self) -> None:
        """Outputs of another group between ours, and dead letters of another partition, are only counted."""
        logs = life(PARTITION)
        logs = life(PARTITION - DEAD_LETTER_PARTITIONS, logs)
        for place in (PREDICTIONS, LETTERS):
            ours = logs.logs[place]
            mixed: list[FakeRecord] = []
            for record in ours:
                value = prediction_with(record.payload, model="f" * 16) if place == PREDICTIONS else record.payload
                headers = [(n, b"f" * 16 if n.endswith("errors.model") else v) for n, v in record.extra or ()]
                mixed += [record, record._replace(payload=value, extra=headers or None)]
            logs.logs[place] = [record._replace(at=at) for at, record in enumerate(mixed)]
        report = verify(logs)
        assert report.faults == []
        assert report.predictions.foreign == report.predictions.matched
        assert report.dead_letters.foreign > report.dead_letters.matched > 0

    def test_a_dead_letter_that_was_one_before(self) -> None:
        """A record with the headers of an earlier dead letter is matched by the headers that came last."""
        logs = MemoryLogs()
        old = [("__stream_apple.errors.offset", b"77"), ("__stream_apple.errors.model", b"0" * 16)]
        records = [FakeRecord(PARTITION, at, b"\xc1", 1000 + at, b"k", old) for at in range(20)]
        logs.logs[INPUT] = records
        model = new_model(PARTITION, lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0))
        answer(logs, model, records)
        commit(logs, model, None)
        report = verify(logs)
        assert report.faults == []
        assert report.dead_letters.matched == 20

    def test_what_comes_behind_the_end_is_not_judged(self) -> None:
        """Verified up to an offset, later answers are neither missing nor too much."""
        logs = life()
        middle = logs.logs[INPUT][200].at
        whole = verify(logs)
        report = verify(logs, middle)
        assert report.faults == []
        assert report.records == 200
        assert report.relearned is None  # the snapshot is further on
        assert whole.relearned is not None

    def test_outputs_that_retention_has_removed_are_gone(self) -> None:
        """A prediction that the output topic no longer has is no missing one; a hole behind them is."""
        logs = life()
        count = len(logs.logs[PREDICTIONS])
        logs.remove_before(PREDICTIONS, logs.logs[PREDICTIONS][100].at)
        report = verify(logs)
        assert report.faults == []
        assert report.predictions.gone == 100
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
        assert (report.origin, report.start) == ("snapshot", pointer.at)
        assert report.records == COUNT // 2
        assert report.relearned is None
        without(logs, PREDICTIONS, -5)
        assert [fault.kind for fault in verify(logs).faults] == [Kind.MISSING]

    def test_not_at_all_when_the_rest_is_gone_too(self) -> None:
        """Records behind the snapshot are missing: the error names the first one needed and the first one there."""
        logs = life()
        at = pointer_of(logs).at
        logs.remove_before(INPUT, at + 100)
        with pytest.raises(GapError, match=rf"from offset {at} on, .* found {at + 100} as the first"):
            verify(logs)

    def test_not_at_all_when_the_snapshot_is_damaged(self) -> None:
        """Without its start and without its snapshot there is no model."""
        logs = life()
        logs.remove_before(INPUT, pointer_of(logs).at)
        damaged_snapshot(logs)
        with pytest.raises(GapError, match="from offset 0 on"):
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
        assert (report.model, report.origin, report.records) == (None, None, 0)

    def test_an_end_behind_the_committed_offset(self) -> None:
        """What has no answers yet can't be verified."""
        logs = life()
        with pytest.raises(ConfigurationError, match="at most at the committed offset"):
            verify(logs, 10_000)

    def test_another_configuration(self) -> None:
        """A model of other settings is refused by the committed offset."""
        logs = life()
        other = Verification(logs, SUBJECT._replace(model_settings={}), new_model, 50, lambda *_: None)
        with pytest.raises(ConfigurationError, match="of this configuration"):
            other.verify(PARTITION)

    def test_a_snapshot_that_a_newer_one_displaces_meanwhile(self) -> None:
        """The pointer leads to nothing, and the committed offset has another one by then: that one is verified."""
        logs = life()
        fresh = logs.offsets[PARTITION]
        assert fresh is not None
        pointer = pointer_of(logs)
        stale = Note(lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0), pointer._replace(first=-9, last=-8, at=7))
        answers = iter([fresh._replace(metadata=stale.to_metadata())])
        present = logs.committed

        def committed(partitions: Sequence[int]) -> Mapping[int, Committed | None]:
            return {PARTITION: next(answers, present(partitions)[PARTITION])}

        logs.committed = committed  # type: ignore[method-assign]
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
        old = new_model(PARTITION, lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0))
        answer(logs, old, records[:200])
        pointer = save(logs, old)
        state = new_model(PARTITION, old.lineage)
        state.process(records[:200])
        answer(logs, old, records[200:260])
        gap = Gap(state.next_offset, records[240].at)
        logs.remove_before(INPUT, gap.stop)
        state.publish_from = old.next_offset
        state.jump(lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0, [gap]), gap)
        answer(logs, state, records[240:])
        commit(logs, state, pointer)
        return logs

    def test_is_left_out_and_reported(self, logs: MemoryLogs) -> None:
        """The model jumps; answers from before the jump are counted, not compared."""
        report = verify(logs)
        assert report.faults == []
        assert report.origin == "snapshot"
        assert report.records == COUNT - 240
        (gap,) = report.gaps
        assert gap.start == report.start
        assert report.predictions.earlier + report.dead_letters.earlier == 20
        matched = report.predictions.matched + report.dead_letters.matched
        assert matched == COUNT - 260

    def test_faults_behind_it_are_found(self, logs: MemoryLogs) -> None:
        """A lost and a changed prediction of the model behind the gap."""
        without(logs, PREDICTIONS, -5)
        changed(logs, PREDICTIONS, -9, named=b"x")
        assert [fault.kind for fault in verify(logs).faults] == [Kind.DIFFERENT, Kind.MISSING]

    def test_the_old_model_may_not_go_on(self, logs: MemoryLogs) -> None:
        """An answer under the old fingerprint among those of the new one comes from a zombie."""
        value = prediction_with(
            logs.logs[PREDICTIONS][-5].payload, model=lineage_of(MODEL_SETTINGS, TOPIC, PARTITION, 0).model
        )
        changed(logs, PREDICTIONS, -5, payload=value)
        assert [fault.kind for fault in verify(logs).faults] == [Kind.DIFFERENT]


def test_a_log_that_does_not_go_on_is_an_error() -> None:
    """A reader that stands still before the end ends the verification: half of a log proves nothing."""
    clock = iter(range(100))
    reader = MemoryReader([], 3, 5)
    section = Section(reader, "t-0", 9, 10, patience_s=10, now=lambda: float(next(clock)))
    with pytest.raises(BrokerError, match=r"expected t-0 to go on from offset 5 to 9, found nothing for 10 s"):
        section.take()
