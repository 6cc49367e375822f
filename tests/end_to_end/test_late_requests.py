"""Requests that arrive after their retries, in the middle of a later transaction: no answer is lost or doubled.

The first transaction has the fault: the client's connection is cut and the request is held, so that the client sends it
again on a new connection. The old one is delivered at each later moment. The adapter is driven as the worker's loop
drives it: after an AbortableError it rejoins and continues from what is committed, and after another error a new
process takes over.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.independent_checker import Names, check_independently
from support.kafka.proxied import proxied_broker
from support.kafka.proxy import Harm, Proxy
from support.topics import unique_topics
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity
from stream_apple.errors import StreamAppleError
from stream_apple.stream.log.ports import AbortableError, Committed, Start

COUNT = 5
LATE = {
    "abort": ("EndTxn abort", Harm.HOLD),
    "commit": ("EndTxn commit", Harm.HOLD),
    "AddOffsetsToTxn": ("AddOffsetsToTxn", Harm.HOLD),
    "TxnOffsetCommit": ("TxnOffsetCommit", Harm.HOLD),
    "AddPartitionsToTxn": ("AddPartitionsToTxn", Harm.HOLD),
    "Produce": ("Produce", Harm.HOLD),
    "lost answer": ("EndTxn commit", Harm.DROP_ANSWER),
}
BEGIN = "begin"
MOMENTS = [BEGIN, "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn commit"]
BRIEF = {("abort", moment) for moment in MOMENTS} | {
    ("commit", BEGIN),
    ("commit", "AddOffsetsToTxn"),
    ("commit", "TxnOffsetCommit"),
    ("AddOffsetsToTxn", BEGIN),
    ("TxnOffsetCommit", "Produce"),
    ("TxnOffsetCommit", "AddOffsetsToTxn"),
    ("AddPartitionsToTxn", "Produce"),
    ("Produce", "Produce"),
    ("lost answer", BEGIN),
}
CASES = [
    pytest.param(late, moment, id=f"{late} after {moment}", marks=[] if (late, moment) in BRIEF else pytest.mark.long)
    for late in LATE
    for moment in (MOMENTS if late != "lost answer" else [BEGIN])
]


@pytest.fixture(scope="module")
def shared_proxy(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The way to a broker that the tests here share."""
    with proxied_broker(tmp_path_factory.mktemp("late"), jars) as (_, proxy):
        yield proxy


@pytest.fixture
def proxy(shared_proxy: Proxy) -> Iterator[Proxy]:
    """The same, with no rule left over."""
    yield shared_proxy
    shared_proxy.after_answer = lambda _: None
    shared_proxy.restore()


class Worker:
    """Answers the examples of one partition, one in a transaction, and starts over as a worker does.

    position      the next example to answer
    started_over  the errors after which it did so
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        create = unique_topics(proxy.bootstrap)
        examples = create("examples")
        self.names = Names(examples, create("predictions"), None, f"group-of-{examples}")
        producer = Producer({"bootstrap.servers": proxy.bootstrap})
        for _ in range(COUNT):
            producer.produce(examples, b"example", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        self.position = -1
        self.started_over: list[str] = []
        self._open()

    def _open(self) -> None:
        identity = Identity(self.names.group, "one", f"{self.names.group}.one")
        properties: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self._proxy.bootstrap,
            "log_level": 0,
        }
        self._broker = KafkaBroker(properties, identity, self.names.examples)
        self._broker.join(self)
        self._await_assignment()

    def _await_assignment(self) -> None:
        self.position = -1
        wait_until(lambda: self.position >= 0, "the partition", meanwhile=lambda: self._broker.fetch(1, 0.05))

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Continue from what is committed; nothing is delivered, as only offsets matter here."""
        committed = self._broker.decided(partitions)[0]
        self.position = 0 if committed is None else committed.offset
        return {number: Start(self.position, paused=True) for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """Nothing is kept."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """End its clients."""
        self._broker.close()

    def answer(self, *, abort: bool = False, begun: Callable[[], object] = lambda: None) -> None:
        """Answer the next example in a transaction; start over if that fails.

        abort  whether to abort the transaction instead of committing it
        begun  called after its begin
        """
        place = {"topic": self.names.examples, "partition": 0, "offset": self.position}
        try:
            self._broker.begin()
            begun()
            self._broker.send(self.names.predictions, 0, None, json.dumps(place).encode(), 0)
            self._broker.flush()
            if abort:
                self._broker.abort()
            else:
                self._broker.commit({0: Committed(self.position + 1, "")})
                self.position += 1
        except AbortableError as error:
            self.started_over.append(str(error))
            try:
                self._broker.abort()
                self._broker.rejoin()
                self._await_assignment()
            except (AbortableError, StreamAppleError) as failure:
                self._replace(failure)
        except StreamAppleError as error:
            self._replace(error)

    def _replace(self, error: Exception) -> None:
        self.started_over.append(f"exit: {error}")
        self._broker.close()
        self._open()


@pytest.mark.parametrize(("late", "moment"), CASES)
def test_every_example_has_one_answer(proxy: Proxy, late: str, moment: str) -> None:
    """Whatever arrives late, and when: each example has one answer, and the committed offset is their end."""
    worker = Worker(proxy)
    try:
        worker.answer()
        name, harm = LATE[late]
        rule = proxy.strike(name, harm)
        worker.answer(abort=late == "abort")
        assert len(rule.struck) == 1
        if harm is Harm.HOLD and moment == BEGIN:
            worker.answer(begun=rule.deliver)
        elif harm is Harm.HOLD:
            proxy.deliver_after(rule, moment)
        while worker.position < COUNT:
            worker.answer()
        assert rule.answered.is_set(), f"the late {name} was never delivered"
        assert len(worker.started_over) < COUNT, worker.started_over
    finally:
        worker.close()
    print(f"{late} after {moment}: started over {worker.started_over}")
    assert check_independently(proxy.bootstrap, worker.names) == COUNT
