"""A second opinion on exactly once: examples, answers, and committed offsets, read with another client.

It shares no code with the product: it imports nothing of it, and reads committed data with `kafka-python`. An answer is
a prediction, or a dead letter. Each kind of fault that it reports is a member of `Fault`.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import msgpack
from kafka import KafkaConsumer, TopicPartition

_DEADLINE_S = 120.0
_SHOWN = 10
_ERRORS = "__stream_apple.errors."


class Fault(StrEnum):
    """What can be wrong."""

    LOST = "lost write"  # an example without an answer
    DUPLICATE = "duplicate answer"  # an example with two or more
    ABORTED_READ = "aborted read"  # an answer to a record that is not committed
    TORN = "torn transaction"  # answers after the committed offset, or a committed offset after the answers
    ORDER = "order"  # answers of a partition that are not in the order of its offsets


class Finding(NamedTuple):
    """One fault: where, and the offsets of examples that it is about, of which the first ones are kept."""

    fault: Fault
    partition: int
    offsets: list[int]
    total: int

    def __str__(self) -> str:
        more = "" if self.total <= len(self.offsets) else f" and {self.total - len(self.offsets)} more"
        return f"{self.fault} in partition {self.partition}: {self.offsets}{more}"


class Names(NamedTuple):
    """Topics and group; a topic that is None is not read."""

    examples: str
    predictions: str
    dead_letters: str | None
    group: str


class Answers(NamedTuple):
    """Offsets of a partition's examples in the order in which they are answered."""

    predictions: list[int]
    letters: list[int]

    @property
    def all(self) -> list[int]:
        """Both kinds."""
        return self.predictions + self.letters


def check_independently(bootstrap: str, names: Names, *, at_rest: bool = True) -> int:
    """Return how many examples have one answer each; AssertionError with all findings if any is wrong.

    at_rest  whether workers have answered everything: then an example after the committed offset is lost, too
    """
    count, findings = examine(bootstrap, names, at_rest=at_rest)
    assert not findings, "the independent checker found:\n" + "\n".join(map(str, findings))
    assert count > 0, f"the independent checker found no example in {names.examples}"
    return count


def examine(bootstrap: str, names: Names, *, at_rest: bool = True) -> tuple[int, list[Finding]]:
    """Return how many examples are committed, and all faults."""
    # What is answered while this reads must not look like a fault: examples are read last, offsets before answers.
    committed = _committed(bootstrap, names)
    answers = _answers(bootstrap, names, list(committed))
    examples = {
        number: [record.offset for record in records] for number, records in _read(bootstrap, names.examples).items()
    }
    findings = []
    for number, offsets in sorted(examples.items()):
        findings += judge(number, offsets, answers[number], committed[number], at_rest=at_rest)
    strangers = sorted(answers.keys() - examples.keys())
    findings += [_finding(Fault.ABORTED_READ, number, answers[number].all) for number in strangers]
    return sum(map(len, examples.values())), findings


def judge(
    partition: int, examples: list[int], answers: Answers, committed: int | None, *, at_rest: bool = True
) -> list[Finding]:
    """Return the faults of one partition.

    examples   offsets of its committed records, in order
    committed  the group's offset; None if there is none
    """
    place = committed or 0
    counts = Counter(answers.all)
    unanswered = [offset for offset in examples if not counts[offset]]
    after_last = max(counts, default=-1) + 1
    # A marker of a transaction has an offset, too, so a committed offset may be higher than that of the last answer.
    torn = [offset for offset in unanswered if after_last <= offset < place]
    torn += [offset for offset in counts if offset >= place] if at_rest else []
    found = {
        Fault.LOST: [offset for offset in unanswered if at_rest or offset < place],
        Fault.DUPLICATE: [offset for offset, count in counts.items() if count > 1],
        Fault.ABORTED_READ: list(counts.keys() - set(examples)),
        Fault.TORN: torn,
        Fault.ORDER: _disordered(answers.predictions) + _disordered(answers.letters),
    }
    return [_finding(fault, partition, offsets) for fault, offsets in found.items() if offsets]


def _finding(fault: Fault, partition: int, offsets: Iterable[int]) -> Finding:
    ordered = sorted(offsets)
    return Finding(fault, partition, ordered[:_SHOWN], len(ordered))


def _disordered(offsets: list[int]) -> list[int]:
    return [after for before, after in pairwise(offsets) if after < before]


def _answers(bootstrap: str, names: Names, partitions: list[int]) -> dict[int, Answers]:
    found: dict[int, Answers] = defaultdict(lambda: Answers([], []))
    found.update({number: Answers([], []) for number in partitions})
    for records in _read(bootstrap, names.predictions).values():
        for record in records:
            answer = _decoded(record.value)
            if answer["topic"] == names.examples:
                found[answer["partition"]].predictions.append(answer["offset"])
    if names.dead_letters is not None:
        for records in _read(bootstrap, names.dead_letters).values():
            for record in records:
                headers = dict(record.headers)
                if headers[_ERRORS + "topic"].decode() == names.examples:
                    number, offset = (int(headers[_ERRORS + name]) for name in ("partition", "offset"))
                    found[number].letters.append(offset)
    return found


def _decoded(value: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value) if value[:1] == b"{" else msgpack.unpackb(value)
    return found


def _client(bootstrap: str, group: str | None = None) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def _partitions(client: KafkaConsumer, topic: str) -> list[TopicPartition]:
    deadline = time.monotonic() + _DEADLINE_S
    while not (numbers := client.partitions_for_topic(topic)):
        assert time.monotonic() < deadline, f"topic {topic}: expected an existing topic, found none"
        time.sleep(0.1)
    return [TopicPartition(topic, number) for number in sorted(numbers)]


def _committed(bootstrap: str, names: Names) -> dict[int, int | None]:
    client = _client(bootstrap, names.group)
    try:
        return {place.partition: client.committed(place) for place in _partitions(client, names.examples)}
    finally:
        client.close()


def _read(bootstrap: str, topic: str) -> dict[int, list[Any]]:
    """All committed records of a topic at this moment, by partition, in order."""
    client = _client(bootstrap)
    try:
        places = _partitions(client, topic)
        client.assign(places)
        # With this isolation level the end is the last stable offset.
        ends = client.end_offsets(places)
        client.seek_to_beginning(*places)
        found: dict[int, list[Any]] = {place.partition: [] for place in places}
        deadline = time.monotonic() + _DEADLINE_S
        while any(client.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, f"the end of {topic} was not read within {_DEADLINE_S:g} s"
            for place, records in client.poll(timeout_ms=200, max_records=10_000).items():
                found[place.partition] += [record for record in records if record.offset < ends[place]]
        return found
    finally:
        client.close()
