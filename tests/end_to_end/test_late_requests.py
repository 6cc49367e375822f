"""Requests that arrive after their retries, in the middle of a later transaction: no answer is lost or doubled.

The first transaction has the fault: the client's connection is cut, or stays silent, and the request is held, so that
the client sends it again on a new connection. The old one is delivered at each later moment. The adapter is driven as
the worker's loop drives it: after an AbortableError it rejoins and continues from what is committed, and after another
error a new process takes over. The last test has a real worker.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from end_to_end.expected_outputs import Outputs
from end_to_end.feeder import feeder
from support.independent_checker import Names, check_independently
from support.kafka.proxied import proxied_broker
from support.kafka.proxy import Harm, Proxy, Request
from support.topics import LogEnds, create_worker_topics, unique_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity
from stream_apple.config import load
from stream_apple.errors import StreamAppleError
from stream_apple.stream.log.ports import AbortableError, Committed, Start

COUNT = 5
IDLE_S = 6.0
SLOW_S = 1.5
PAUSE_S = 0.2  # so long that most messages have arrived before a transaction ends
SESSION_MS = 1_500
LATE = {
    "abort": "EndTxn abort",
    "commit": "EndTxn commit",
    "AddOffsetsToTxn": "AddOffsetsToTxn",
    "TxnOffsetCommit": "TxnOffsetCommit",
    "AddPartitionsToTxn": "AddPartitionsToTxn",
    "Produce": "Produce",
}
BEGIN = "begin"
MOMENTS = [BEGIN, "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn commit"]
IN_TRANSACTIONS = ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn commit", "EndTxn abort"]


class Case(NamedTuple):
    """What arrives late, and after which later answer (or begin) it does.

    partitions  how many of them are answered in each transaction
    harm        what happens to the client's connection meanwhile
    """

    late: str
    moment: str
    partitions: int = 1
    harm: Harm = Harm.HOLD

    def __str__(self) -> str:
        return (
            f"{self.late} after {self.moment}"
            + (f", {self.partitions} partitions" if self.partitions > 1 else "")
            + (f", {self.harm}" if self.harm is not Harm.HOLD else "")
        )


BRIEF = [
    *(Case("abort", moment) for moment in MOMENTS),
    Case("abort", "Produce", 4),
    Case("abort", "Produce", harm=Harm.SILENCE),
    Case("commit", BEGIN),
    Case("commit", "AddOffsetsToTxn"),
    Case("commit", "TxnOffsetCommit"),
    Case("commit", "AddOffsetsToTxn", 4),
    Case("AddOffsetsToTxn", BEGIN),
    Case("TxnOffsetCommit", "Produce"),
    Case("TxnOffsetCommit", "AddOffsetsToTxn"),
    Case("AddPartitionsToTxn", "Produce"),
    Case("Produce", "Produce"),
    Case("commit", BEGIN, harm=Harm.DROP_ANSWER),
]
ALL = [
    *(Case(late, moment) for late in LATE for moment in MOMENTS),
    *(Case(late, moment, 4) for late in LATE for moment in MOMENTS),
    *(Case(late, moment, harm=Harm.SILENCE) for late in LATE for moment in (BEGIN, "Produce", "TxnOffsetCommit")),
]
CASES = [pytest.param(case, id=str(case)) for case in BRIEF] + [
    pytest.param(case, id=str(case), marks=pytest.mark.long) for case in ALL if case not in BRIEF
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
    shared_proxy.restore()


class Worker:
    """Answers one example of each partition in a transaction, and starts over as a worker does.

    positions     the next example to answer of each partition
    started_over  the errors after which it did so
    """

    def __init__(self, proxy: Proxy, partitions: int = 1) -> None:
        self._proxy = proxy
        self._partitions = partitions
        create = unique_topics(proxy.bootstrap)
        examples = create("examples", partitions)
        self.names = Names(examples, create("predictions", partitions), None, f"group-of-{examples}")
        producer = Producer({"bootstrap.servers": proxy.bootstrap})
        for number in range(COUNT * partitions):
            producer.produce(examples, b"example", partition=number % partitions)
        assert producer.flush(DEADLINE_S) == 0
        self.positions: dict[int, int] = {}
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
        self.positions.clear()
        wait_until(lambda: len(self.positions) == self._partitions, "all partitions", meanwhile=self.idle)

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Continue from what is committed; nothing is delivered, as only offsets matter here."""
        for number, committed in self._broker.decided(partitions).items():
            self.positions[number] = 0 if committed is None else committed.offset
        return {number: Start(self.positions[number], paused=True) for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """Nothing is kept."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Nothing is kept."""

    @property
    def done(self) -> bool:
        """Whether all examples are answered."""
        return all(position == COUNT for position in self.positions.values())

    def idle(self) -> None:
        """Fetch, as a worker does that has nothing to answer."""
        self._broker.fetch(1, 0.05)

    def close(self) -> None:
        """End its clients."""
        self._broker.close()

    def answer(self, *, abort: bool = False, flush: bool = True, begun: Callable[[], object] = lambda: None) -> None:
        """Answer the next example of each partition in a transaction; start over if that fails.

        abort  whether to abort the transaction instead of committing it
        flush  whether the messages have arrived before it is ended, as most have in a worker
        begun  called after its begin
        """
        after = {number: position + 1 for number, position in self.positions.items()}
        try:
            self._broker.begin()
            begun()
            for number, position in self.positions.items():
                place = {"topic": self.names.examples, "partition": number, "offset": position}
                self._broker.send(self.names.predictions, number, None, json.dumps(place).encode(), 0)
            if flush:
                self._broker.flush()
            if abort:
                self._broker.abort()
            else:
                self._broker.commit({number: Committed(position, "") for number, position in after.items()})
                self.positions.update(after)
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


@pytest.mark.parametrize("case", CASES)
def test_every_example_has_one_answer(proxy: Proxy, case: Case) -> None:
    """Whatever arrives late, and when: each example has one answer, and the committed offset is their end."""
    worker = Worker(proxy, case.partitions)
    is_late = case.harm is not Harm.DROP_ANSWER
    try:
        worker.answer()
        rule = proxy.strike(LATE[case.late], case.harm)
        began = time.monotonic()
        worker.answer(abort=case.late == "abort")
        seconds = time.monotonic() - began
        assert len(rule.struck) == 1
        if is_late and case.moment == BEGIN:
            worker.answer(begun=rule.deliver)
        elif is_late:
            proxy.deliver_after(rule, case.moment)
        while not worker.done:
            worker.answer()
        print(f"{case}: the transaction with the fault took {seconds:.1f} s; started over {worker.started_over}")
        assert rule.answered.is_set(), f"the late {case.late} was never delivered"
        assert len(worker.started_over) < COUNT, worker.started_over
    finally:
        worker.close()
    assert check_independently(proxy.bootstrap, worker.names) == COUNT * case.partitions


def test_offsets_wait_for_messages(proxy: Proxy) -> None:
    """No offset is sent while a message is under way: a late commit could part them."""
    worker = Worker(proxy)
    try:
        worker.answer()
        before = proxy.seen["TxnOffsetCommit"]
        rule = proxy.strike("Produce", Harm.SILENCE, seconds=SLOW_S)
        seen: list[int] = []

        def note(request: Request) -> None:
            if request.name == "Produce":
                seen.append(proxy.seen["TxnOffsetCommit"])

        proxy.after_answer = note
        worker.answer(flush=False)
        assert rule.answered.is_set()
        assert seen == [before]
        assert worker.started_over == []
    finally:
        worker.close()


def test_an_idle_worker_sends_no_transaction(proxy: Proxy) -> None:
    """What is never sent can't be late."""
    worker = Worker(proxy)
    try:
        worker.answer()
        before = {name: proxy.seen[name] for name in IN_TRANSACTIONS}
        heartbeats = proxy.seen["Heartbeat"]
        end = time.monotonic() + IDLE_S
        while time.monotonic() < end:
            worker.idle()
        assert {name: proxy.seen[name] for name in IN_TRANSACTIONS} == before
        assert proxy.seen["Heartbeat"] > heartbeats
    finally:
        worker.close()


def test_a_snapshot_in_the_aborted_part(proxy: Proxy, tmp_path: Path) -> None:
    """A late abort meets a transaction with a snapshot; the worker that restarts afterwards finds its model."""
    topics = create_worker_topics(unique_topics(proxy.bootstrap))
    path = write_config(
        tmp_path / "stream_apple.toml",
        proxy.bootstrap,
        kafka={"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 5},
        topics=topics,
        worker={"commit_interval": "400ms", "snapshot_interval": "1s"},
        learner={"bits": 12},
        limits={"max_features": 16},
    )
    config = load(path, {})
    outputs = Outputs(proxy.bootstrap, config, 1)
    rule = proxy.strike("EndTxn abort", Harm.HOLD)

    has_snapshot = False

    def deliver(request: Request) -> None:
        nonlocal has_snapshot
        if request.name == "Produce" and topics["models"].encode() in request.frame:
            has_snapshot = True
        elif request.name == "AddOffsetsToTxn" and has_snapshot:
            proxy.before_delivery = lambda _: None
            rule.deliver()
        elif request.name.startswith("EndTxn"):
            has_snapshot = False

    with (
        feeder(proxy.bootstrap, topics["examples"], 1, PAUSE_S),
        WorkerProcess(path, tmp_path / "worker.log") as worker,
    ):
        worker.wait_for_event("snapshot_written")
        while not rule.struck:
            time.sleep(1.5 * PAUSE_S)  # it commits when it is live, and begins again with the next example
            worker.sleep()
            time.sleep(2 * SESSION_MS / 1000)
            lives = worker.events().count("live")
            # Its session has ended while it slept, so it aborts what it has begun.
            worker.wake()
            worker.wait_until(lambda lives=lives: worker.events().count("live") > lives, "live again")  # type: ignore[misc]
        proxy.before_delivery = deliver
        worker.wait_until(rule.answered.is_set, "the late abort")
        target = outputs.written_in_all() + 40
        worker.wait_until(lambda: outputs.written_in_all() >= target, "more answers")
        worker.kill()
    with WorkerProcess(path, tmp_path / "worker.log") as last:
        last.wait_for_event("live")
        ends = LogEnds(proxy.bootstrap)
        reader = Consumer({"bootstrap.servers": proxy.bootstrap, "group.id": config.worker.group})
        place = TopicPartition(topics["examples"], 0)
        last.wait_until(lambda: reader.committed([place])[0].offset == ends.of(topics["examples"]), "its last commit")
        reader.close()
        assert last.terminate() == 0
    outputs.check()
