"""What must not be among the outputs is found, wherever it is and whoever wrote it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest
from stream.verification.published_logs import (
    COUNT,
    INPUT,
    LETTERS,
    OTHER,
    PARTITION,
    PARTITIONS,
    PREDICTIONS,
    PROVENANCE,
    MemoryLogs,
    answer,
    changed,
    commit,
    life,
    new_model,
    pointer_of,
    prediction_with,
    repeated,
    verify,
    verify_all,
)
from support.records import stream

from stream_apple.stream.log.ports import Header
from stream_apple.stream.walk.faults import Kind

BEHIND = 2 * COUNT
"""An offset behind the end of the examples."""


def told(logs: MemoryLogs, **fields: Any) -> bytes:
    """A prediction that is there, with other fields."""
    return prediction_with(logs.logs[PREDICTIONS][99].payload, **fields)


def letter(logs: MemoryLogs, **fields: bytes | None) -> list[Header]:
    """The headers of a dead letter that is there, with others in their place, or without them if None."""
    headers = [(name, fields.get(name.rpartition(".")[2], value)) for name, value in logs.logs[LETTERS][9].extra or ()]
    return [(name, value) for name, value in headers if value is not None]


def also_predicted(logs: MemoryLogs, value: bytes | None, place: tuple[str, int] = PREDICTIONS) -> None:
    """One message more among the predictions."""
    logs.append(place, b"k", value, 5)


def also_refused(logs: MemoryLogs, headers: Sequence[Header] | None, place: tuple[str, int] = LETTERS) -> None:
    """One message more among the dead letters."""
    logs.append(place, b"k", b"v", 5, headers)


def published_but_not_committed(logs: MemoryLogs) -> None:
    """The committed offset lies before the last answers, as if it had been set back."""
    committed = logs.offsets[PARTITION]
    assert committed is not None
    last = msgpack.unpackb(logs.logs[PREDICTIONS][-1].payload)["offset"]
    logs.offsets[PARTITION] = committed._replace(offset=last)
    while int(dict(logs.logs[LETTERS][-1].extra or ())["__stream_apple.errors.offset"] or b"0") >= last:
        del logs.logs[LETTERS][-1]


Damage = Callable[[MemoryLogs], None]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, model=OTHER)),
            Kind.OTHER_MODEL,
            id="another model's prediction of an answered example",
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, offset=BEHIND)), Kind.EXTRA, id="an offset behind the end"
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, offset=BEHIND, model=OTHER)),
            Kind.EXTRA,
            id="an offset behind the end, of another model",
        ),
        pytest.param(
            lambda logs: also_refused(logs, letter(logs, offset=b"%d" % BEHIND)),
            Kind.EXTRA,
            id="a dead letter behind the end",
        ),
        pytest.param(published_but_not_committed, Kind.EXTRA, id="an answer from the committed offset on"),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs), ("predictions", 0)),
            Kind.MISPLACED,
            id="a copy in another partition, of which nothing is committed",
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, partition=1)),
            Kind.MISPLACED,
            id="a prediction of another partition",
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, partition=1, model=OTHER)),
            Kind.MISPLACED,
            id="another model's prediction of another partition",
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, partition=PARTITIONS)),
            Kind.MISPLACED,
            id="a prediction of a partition that there is not",
        ),
        pytest.param(
            lambda logs: also_refused(logs, letter(logs), ("dead-letters", 1)),
            Kind.MISPLACED,
            id="a copy of a dead letter in another partition",
        ),
        pytest.param(
            lambda logs: also_refused(logs, letter(logs, partition=b"4")),
            Kind.MISPLACED,
            id="a dead letter of a partition that there is not",
        ),
        pytest.param(lambda logs: also_predicted(logs, None), Kind.UNREADABLE, id="a tombstone"),
        pytest.param(lambda logs: also_predicted(logs, b""), Kind.UNREADABLE, id="an empty value"),
        pytest.param(lambda logs: also_predicted(logs, b"{}"), Kind.UNREADABLE, id="a value that is no msgpack"),
        pytest.param(lambda logs: also_predicted(logs, b"\x07"), Kind.UNREADABLE, id="a number"),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, model=[])), Kind.UNREADABLE, id="a model that is a list"
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, offset=99.0)),
            Kind.UNREADABLE,
            id="an offset that is a float",
        ),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, offset=True)),
            Kind.UNREADABLE,
            id="an offset that is a bool",
        ),
        pytest.param(lambda logs: also_predicted(logs, told(logs, offset=-1)), Kind.UNREADABLE, id="a negative offset"),
        pytest.param(
            lambda logs: also_predicted(logs, told(logs, topic=b"examples")), Kind.UNREADABLE, id="a topic in bytes"
        ),
        pytest.param(lambda logs: also_refused(logs, None), Kind.UNREADABLE, id="a dead letter without headers"),
        *(
            pytest.param(
                lambda logs, name=name: also_refused(logs, letter(logs, **{name: None})),
                Kind.UNREADABLE,
                id=f"a dead letter without its {name}",
            )
            for name in ("reason", "message", "topic", "partition", "offset", "model")
        ),
        pytest.param(
            lambda logs: also_refused(logs, letter(logs, offset=b" 1_0")),
            Kind.UNREADABLE,
            id="an offset with signs",
        ),
    ],
)
def test_what_readers_would_find_besides(damage: Damage, kind: Kind) -> None:
    """One message too much, wherever it is and whoever wrote it, is told once when all partitions are verified."""
    logs = life(PARTITION - 2, life())
    damage(logs)
    reports = verify_all(logs)
    assert [fault.kind for report in reports for fault in report.faults] == [kind], reports
    assert sum(report.fault_count for report in reports) == 1


def test_a_partition_that_has_no_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the dead letters' topic has more partitions than the examples', those are looked at, too."""
    logs = life()
    logs.logs["dead-letters", PARTITION] = logs.logs.pop(LETTERS)
    monkeypatch.setattr(logs, "partition_count", lambda topic: 2 * PARTITIONS if topic == LETTERS[0] else PARTITIONS)
    assert verify(logs).faults == []
    logs.append(("dead-letters", PARTITION + PARTITIONS), *logs.logs["dead-letters", PARTITION][0][4:5], b"v")
    assert [fault.kind for fault in verify(logs).faults] == [Kind.UNREADABLE]


@pytest.mark.parametrize("up_to", [None, 400])
def test_answers_that_are_not_compared_are_there_once(up_to: int | None) -> None:
    """Before the snapshot that the verification begins with, and behind its end, the order shows what is double."""
    logs = life()
    at = pointer_of(logs).at
    logs.remove_before(INPUT, at)
    assert verify(logs, up_to).faults == []
    repeated(logs, PREDICTIONS, 20, 5)
    assert [fault.kind for fault in verify(logs, up_to).faults] == [Kind.OUT_OF_ORDER]
    repeated(logs, PREDICTIONS, 470)
    last = Kind.DUPLICATED if up_to is None else Kind.OUT_OF_ORDER
    assert [fault.kind for fault in verify(logs, up_to).faults] == [Kind.OUT_OF_ORDER, last]


def test_an_answer_from_before_the_first() -> None:
    """A model that began at an offset has answered nothing before it."""
    logs = MemoryLogs()
    logs.logs[INPUT] = records = stream(COUNT, seed=5, partition=PARTITION)
    start = records[100].at
    model = new_model(PARTITION, PROVENANCE.lineage(PARTITION, start))
    answer(logs, model, records[100:])
    commit(logs, model, None)
    assert verify(logs).faults == []
    also_predicted(logs, told(logs, offset=start - 1))
    assert [fault.kind for fault in verify(logs).faults] == [Kind.EXTRA]
    changed(logs, PREDICTIONS, -1, payload=told(logs, offset=start - 1, model=OTHER))
    report = verify(logs)
    assert (report.faults, report.predictions.foreign) == ([], 1)
