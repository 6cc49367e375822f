"""A verification finds every kind of fault, and names it."""

from collections.abc import Callable

import msgpack
import pytest
from stream.verification.published_logs import (
    COUNT,
    INPUT,
    LETTERS,
    MODELS,
    OTHER,
    PARTITION,
    PREDICTIONS,
    PROVENANCE,
    MemoryLogs,
    changed,
    damaged_snapshot,
    life,
    new_model,
    pointer_of,
    prediction_with,
    repeated,
    save,
    verify,
    without,
)
from support.records import HOUR, TOPIC, FakeRecord, dead_letter_headers

from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.positions.lineage import OffsetMetadata
from stream_apple.stream.snapshots.codec import encode_snapshot
from stream_apple.stream.walk.faults import LISTED, Kind


def swapped(logs: MemoryLogs, place: tuple[str, int], index: int) -> None:
    """Exchange a message and the next one, offsets left as they are."""
    log = logs.logs[place]
    one, two = log[index], log[index + 1]
    log[index], log[index + 1] = two._replace(at=one.at), one._replace(at=two.at)


def letter_of_good_record(logs: MemoryLogs) -> None:
    """A dead letter of a record that has a prediction too."""
    told = msgpack.unpackb(logs.logs[PREDICTIONS][100].payload)
    record = next(record for record in logs.logs[INPUT] if record.at == told["offset"])
    headers = dead_letter_headers(Reject(record, Reason.BAD_LABEL, "no"), TOPIC, told["model"])
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
    model = new_model(PARTITION, PROVENANCE.lineage(PARTITION, 0))
    model.process(logs.logs[INPUT][: COUNT // 2])
    model.rejects.recent = model.rejects.recent[1:]
    committed = logs.offsets[PARTITION]
    assert committed is not None
    metadata = OffsetMetadata(model.lineage, save(logs, model))
    logs.offsets[PARTITION] = committed._replace(metadata=metadata.to_text())


def other_digest(logs: MemoryLogs) -> None:
    """The committed offset names a digest that the snapshot does not have."""
    committed = logs.offsets[PARTITION]
    assert committed is not None
    digest = encode_snapshot(new_model(PARTITION, PROVENANCE.lineage(PARTITION, 0))).digest
    metadata = OffsetMetadata(PROVENANCE.lineage(PARTITION, 0), pointer_of(logs)._replace(digest=digest))
    logs.offsets[PARTITION] = committed._replace(metadata=metadata.to_text())


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
                lambda logs: changed(logs, PREDICTIONS, 99, payload=b"\xc1"),
                [Kind.UNREADABLE, Kind.MISSING],
                id="no prediction at all",
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
            pytest.param(
                lambda logs: with_header(logs, "model", OTHER.encode()),
                [Kind.MISSING],
                id="another model's dead letter",
            ),
            pytest.param(
                lambda logs: with_header(logs, "model", b"?"),
                [Kind.UNREADABLE, Kind.MISSING],
                id="a dead letter of no model",
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

    def test_another_version_may_word_a_message_differently(self) -> None:
        """The reason and the origin of a dead letter are compared; the sentence for people is not."""
        logs = life()
        with_header(logs, "message", b"expected something else")
        assert verify(logs).faults == []

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
        examples = [-1 if fault.example is None else fault.example for fault in report.faults]
        assert len(examples) == LISTED
        assert examples == sorted(examples)
        assert examples[0] == next(r.at for r in logs.logs[INPUT] if r.payload and r.time_ms > 0)
