"""The transactional producer when the client's queue is full or does not empty."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from stream_apple.adapters.patience import Patience
from stream_apple.adapters.transactions import Transactions
from stream_apple.errors import BrokerError


class Queue:
    """A client's queue of one message that is taken at every `takes`th poll; 0: never."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.polls = 0
        self.waiting: list[bytes] = []
        self.taken: list[bytes] = []

    def produce(self, _topic: str, value: bytes, *_: Any) -> None:
        """BufferError while a message is waiting."""
        if self.waiting:
            raise BufferError
        self.waiting.append(value)

    def poll(self, _seconds: float) -> None:
        """Time passes."""
        self.polls += 1
        if self.takes and self.polls % self.takes == 0:
            self.taken += self.waiting
            self.waiting = []

    def flush(self, seconds: float) -> int:
        """As poll; the number of messages that are left."""
        self.poll(seconds)
        return len(self.waiting)

    def close(self) -> None:
        """Nothing to do."""


Parts = tuple[Transactions, Patience]


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Queue:
    """The client."""
    return Queue(request.param)


@pytest.fixture
def parts(queue: Queue) -> Iterator[Parts]:
    """What writes into it."""
    patience = Patience()
    transactions = Transactions(cast("Any", queue), patience)
    yield transactions, patience
    transactions.close()


@pytest.mark.parametrize("queue", [3], indirect=True)
def test_a_full_queue_is_waited_for(parts: Parts, queue: Queue) -> None:
    """Nothing is lost, and the order is kept."""
    transactions, _ = parts
    values = [b"%d" % number for number in range(10)]
    for value in values:
        transactions.send("predictions", 0, None, value, 0, None, None)
    transactions.flush()
    assert queue.taken == values


@pytest.mark.parametrize("queue", [0], indirect=True)
def test_a_full_queue_ends_a_hurried_worker(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits no longer than it may for room, nor for the broker to take what is queued."""
    monkeypatch.setattr("stream_apple.adapters.patience.HURRY_S", 0.1)
    transactions, patience = parts
    transactions.send("predictions", 1, None, b"1", 0, None, None)
    patience.hurry()
    with pytest.raises(BrokerError, match="predictions-1: asked to stop while waiting for room in the queue"):
        transactions.send("predictions", 1, None, b"2", 0, None, None)
    with pytest.raises(BrokerError, match="flush: asked to stop while waiting for Kafka to take 1 messages"):
        transactions.flush()


@pytest.mark.parametrize("queue", [0], indirect=True)
def test_a_queue_that_does_not_empty_is_an_error(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the deadline, with its length and the place."""
    monkeypatch.setattr("stream_apple.adapters.transactions.DEADLINE_S", 0.1)
    transactions, _ = parts
    transactions.send("predictions", 1, None, b"1", 0, None, None)
    with pytest.raises(BrokerError, match=r"predictions-1: expected room in the queue within 0\.1 s, found none"):
        transactions.send("predictions", 1, None, b"2", 0, None, None)
    with pytest.raises(BrokerError, match=r"flush: no success within 0\.1 s: 1 messages are not taken"):
        transactions.flush()
