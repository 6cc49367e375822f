"""When a loop gives up on its transactions."""

from typing import Any, cast

import pytest
from support.clock import Clock

from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError
from stream_apple.stream.loop.transaction import (
    HOPELESS_S,
    MAX_ABORTS,
    CommitSettings,
    LoopTopics,
    Transaction,
)


class Broker:
    """Counts how often the group was joined anew."""

    rejoined = 0

    def rejoin(self) -> None:
        """Join."""
        self.rejoined += 1

    def commit(self, _: object) -> None:
        """Commit."""


def failing(clock: Clock[float], broker: Broker) -> Transaction:
    """Of a loop."""
    topics = LoopTopics("examples", ("predictions",), "letters")
    return Transaction(cast("Any", broker), topics, CommitSettings(1, 1.0), cast("Any", None), clock)


@pytest.mark.parametrize("apart_s", [0.1, HOPELESS_S / 20, HOPELESS_S])
def test_many_in_a_row_for_some_time(apart_s: float) -> None:
    """Quick ones are repeated, as is the second one after a long outage; a commit counts from 0 again."""
    clock, broker = Clock(0.0), Broker()
    transaction = failing(clock, broker)
    for _ in range(MAX_ABORTS - 1):
        transaction.start_over(AbortableError("x"))
        clock.now += apart_s
    transaction.commit({})
    began, aborts = clock.now, 0

    def fail_on() -> None:
        nonlocal aborts
        while True:
            transaction.start_over(AbortableError("x"))
            aborts += 1
            clock.now += apart_s

    with pytest.raises(BrokerError, match=r"transactions in a row failed, for .* s; the last one: x"):
        fail_on()
    assert broker.rejoined == aborts + MAX_ABORTS - 1
    assert aborts + 1 >= MAX_ABORTS
    assert clock.now - began >= HOPELESS_S
    assert aborts + 1 == MAX_ABORTS or clock.now - began < HOPELESS_S + 2 * apart_s
