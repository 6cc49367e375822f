"""The network between clients and the cluster: requests that are lost, repeated, or late.

A client sends a request again, on another connection, if it gets no answer. Meanwhile the first copy may be lost, may
have been obeyed, or may hang in the network. A copy that hangs can arrive at any later time, even if its client is dead
by then. The cluster then obeys or refuses it by what is true at that time.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar

from stream_apple.errors import StreamAppleError
from stream_apple.stream.log.ports import AbortableError

_T = TypeVar("_T")


class Request(StrEnum):
    """What a transactional producer asks of the cluster, by Kafka's names."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    PRODUCE = "Produce"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class Fate(StrEnum):
    """What happens to a request."""

    PROMPT = "prompt"  # sent once, answered
    LOST = "lost"  # the first copy is lost, the second is answered
    REPEATED = "repeated"  # the answer to the first copy is lost, the second is answered
    LATE = "late"  # the first copy hangs, the second is answered
    UNANSWERED = "unanswered"  # obeyed, but every answer is lost, until the client gives up
    STUCK = "stuck"  # the first copy hangs, all others are lost, until the client gives up


RESENT = frozenset(Fate) - {Fate.PROMPT}
"""Fates in which the client sends the request more than once."""
HANGING = (Fate.LATE, Fate.STUCK)
GIVEN_UP = (Fate.STUCK, Fate.UNANSWERED)


class Network:
    """Carries requests to the cluster, in the order in which clients send them, except for the copies that hang.

    fate     decides what happens to a request
    due      decides whether one of the copies that hang arrives now; it is called before each request and each fetch
    pick     decides which of N copies that hang arrives
    sent     all requests so far, without their repetitions
    struck   how many requests of each kind had each fate except the prompt one
    arrived  how many late copies of each kind arrived, and whether the cluster obeyed them
    """

    def __init__(self) -> None:
        self.fate: Callable[[Request], Fate] = lambda _: Fate.PROMPT
        self.due: Callable[[], bool] = lambda: False
        self.pick: Callable[[int], int] = lambda _: 0
        self.sent: list[Request] = []
        self.struck: Counter[tuple[Request, Fate]] = Counter()
        self.arrived: Counter[tuple[Request, bool]] = Counter()
        self._hanging: list[tuple[Request, Callable[[], object]]] = []

    def carry(self, request: Request, fate: Fate, effect: Callable[[], _T]) -> _T:
        """Return the cluster's answer to a request; AbortableError if the client gives up waiting for one."""
        self.pass_time()
        self.sent.append(request)
        if fate is Fate.PROMPT:
            return effect()
        self.struck[request, fate] += 1
        if fate in HANGING:
            self._hanging.append((request, effect))
        elif fate is not Fate.LOST:
            self._obey(effect)
        if fate in GIVEN_UP:
            raise AbortableError(f"{request}: no answer")
        return effect()

    def delay(self, delayed: Request, by: int, fates: Iterator[Fate]) -> None:
        """Give such requests these fates, in turn; the copies that hang arrive after `by` further requests."""
        due: deque[int] = deque()

        def fate(request: Request) -> Fate:
            drawn = next(fates) if request is delayed else Fate.PROMPT
            if drawn in HANGING:
                due.append(len(self.sent) + 1 + by)
            return drawn

        def is_due() -> bool:
            if due[0] > len(self.sent):
                return False
            due.popleft()
            return True

        self.fate, self.due = fate, is_due

    def pass_time(self) -> None:
        """Let the copies arrive that are due."""
        while self._hanging and self.due():
            self._arrive(self.pick(len(self._hanging)))

    def calm(self) -> None:
        """Disturb no request from now on; no copy that still hangs begins an epoch."""
        self.fate = lambda _: Fate.PROMPT
        for number, (request, _) in reversed(list(enumerate(self._hanging))):
            if request is Request.INIT:
                self._arrive(number)

    def settle(self) -> None:
        """Let all copies arrive that still hang."""
        while self._hanging:
            self._arrive(self.pick(len(self._hanging)))

    def _arrive(self, number: int) -> None:
        request, effect = self._hanging.pop(number)
        self.arrived[request, self._obey(effect)] += 1

    @staticmethod
    def _obey(effect: Callable[[], object]) -> bool:
        """Obey a request to which no client hears the answer; return False if it is refused."""
        try:
            effect()
        except (AbortableError, StreamAppleError):
            return False
        return True
