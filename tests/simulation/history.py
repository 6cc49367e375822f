"""Random histories of a group, each a function of its seed: what they are made of, whatever the group does.

At every step one of these happens: a process takes a turn, is started, killed, asked to stop, or made to fail at one
of its next calls; falls asleep and wakes up as a zombie; its session ends; a transaction times out; a second process
with the same identity appears; or what belongs to a kind of group, such as that records arrive. Between any two
requests of producers, late copies of earlier ones may arrive. Afterwards one clean process finishes, zombies wake up,
the last late requests arrive, and the result is checked.
"""

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from simulation.cluster import MemoryCluster
from simulation.faults import Fault, Kind, When
from simulation.member_process import Delivery, MemberProcess, at_once
from simulation.network import GIVEN_UP, RESENT, Fate, Request

Note = Callable[[str], None]

FATES = {Fate.LATE: 16, Fate.REPEATED: 6, Fate.LOST: 2, Fate.UNANSWERED: 1, Fate.STUCK: 1}
"""Fates of requests that are sent more than once, each with its weight: few transactions fail ten times in a row."""

_P = TypeVar("_P", bound=MemberProcess)
_H = TypeVar("_H", bound="History[Any]")


def silent(_: str) -> None:
    """Pass over a note."""


class History(ABC, Generic[_P]):
    """One history of the group `group`, which consumes `topic`. `note` is told every step.

    processes  all that were ever started but the last, in their order
    """

    STEPS: ClassVar[int]
    TURNS: ClassVar[Sequence[int]]
    """How many iterations a process makes at once: often enough several that it gets somewhere."""
    IDENTITIES: ClassVar[Sequence[str]]
    RESENT: ClassVar[Sequence[float]] = (0.0, 0.1, 0.3)
    """Shares of requests that are sent more than once, one of which is drawn for a history.

    Of `InitProducerId` it is a fifth, since a late one ends a process, and of `Produce`, since there are many.
    """

    def __init__(
        self, draw: random.Random, cluster: MemoryCluster, group: str, topic: str, note: Note = silent
    ) -> None:
        self._draw = draw
        self._note = note
        self._cluster = cluster
        self._group = cluster.group(group, topic)
        self._living: list[_P] = []
        self._asleep: list[_P] = []
        self._identities = self.IDENTITIES
        seed = draw.random()
        late = random.Random(seed)
        cluster.transactions.lags = lambda: late.random() < 0.3
        self.network = cluster.network
        self._disturb_network(random.Random(seed + 1))
        self.processes: list[_P] = []

    def _disturb_network(self, draw: random.Random) -> None:
        share, due = draw.choice(self.RESENT), draw.choice([0.02, 0.1, 0.3])

        def fate(request: Request) -> Fate:
            if draw.random() >= (share / 5 if request in (Request.INIT, Request.PRODUCE) else share):
                return Fate.PROMPT
            (drawn,) = draw.choices(list(FATES), list(FATES.values()))
            # Without an epoch a client does not give up.
            return Fate.LATE if request is Request.INIT and drawn in GIVEN_UP else drawn

        self.network.fate = fate
        self.network.due = lambda: draw.random() < due
        self.network.pick = draw.randrange

    @abstractmethod
    def _make(self, identity: str, delivery: Delivery, *, clean: bool) -> _P:
        """Make a process; a clean one is the last, which nothing disturbs."""

    @abstractmethod
    def _more_steps(self) -> Mapping[Callable[[], None], int]:
        """Return what happens besides to this kind of group, each with its weight."""

    @abstractmethod
    def _complete(self, last: _P) -> None:
        """Let the clean process do all that is left, and stop."""

    @abstractmethod
    def _check(self, last: _P) -> None:
        """Raise AssertionError if anything is not as in an uninterrupted run."""

    def run(self) -> Self:
        """Let all of it happen; AssertionError if anything is not as in an uninterrupted run."""
        steps = {
            self._turn: 60,
            self._start: 6,
            self._kill: 2,
            self._stop: 2,
            self._fail: 6,
            self._sleep: 3,
            self._wake: 4,
            self._expire: 2,
            self._time_out: 1,
            self._settle: 4,
            **self._more_steps(),
        }
        for step in self._draw.choices(list(steps), list(steps.values()), k=self.STEPS):
            step()
            self._bury()
        self._finish()
        return self

    def _turn(self) -> None:
        awake = [process for process in self._living if process not in self._asleep]
        if not awake:
            self._start()
            return
        process = self._draw.choice(awake)
        for _ in range(self._draw.choice(self.TURNS)):
            if process.ended is None:
                before = len(process.broker.calls)
                process.step()
                self._note(f"{self._name(process)} takes a turn: {' '.join(process.broker.calls[before:])}")

    def _start(self) -> None:
        identity = self._draw.choice(self._identities)
        if any(process.instance == identity for process in self._living) and self._draw.random() < 0.8:
            return
        eager, delivery = self._draw.choice([0.0, 0.5, 1.0]), random.Random(self._draw.random())
        process = self._make(
            identity, lambda waiting: sum(delivery.random() < eager for _ in range(waiting)), clean=False
        )
        self.processes.append(process)
        self._living.append(process)
        self._note(f"{self._name(process)} is started")

    def _kill(self) -> None:
        self._one("is killed", lambda process: process.kill())

    def _stop(self) -> None:
        self._one("is asked to stop", lambda process: None if process in self._asleep else process.stop())

    def _fail(self) -> None:
        kind = self._draw.choice([Kind.CRASH, Kind.ABORTABLE, Kind.ABORTABLE, Kind.BROKER])
        when = self._draw.choice(list(When))
        later = self._draw.randint(0, 15)

        def order(process: _P) -> None:
            process.broker.order(Fault(len(process.broker.calls) + later, kind, when))

        self._one(f"will meet a fault: {kind}, {when} the effect of the first fitting call after {later} more", order)

    def _sleep(self) -> None:
        self._one("falls asleep", self._asleep.append)

    def _wake(self) -> None:
        if self._asleep:
            self._note("all wake up")
            self._asleep.clear()

    def _expire(self) -> None:
        if self._group.members:
            instance = self._draw.choice(self._group.members)
            self._note(f"the session of {instance} ends")
            self._group.expire(instance)

    def _time_out(self) -> None:
        self._note(f"open transactions time out: {self._cluster.transactions.open_ids()}")
        self._cluster.time_out_transactions()

    def _settle(self) -> None:
        self._note("late markers arrive")
        self._cluster.transactions.settle()

    def _one(self, what: str, effect: Callable[[_P], object]) -> None:
        if self._living:
            process = self._draw.choice(self._living)
            self._note(f"{self._name(process)} {what}")
            effect(process)

    def _bury(self) -> None:
        for process in [process for process in self._living if process.ended is not None]:
            self._note(f"{self._name(process)} has {process.ended}: {process.error}")
            assert not process.unprovoked, f"{process.instance} left without a reason: {process.error!r}"
            self._living.remove(process)
            if process in self._asleep:
                self._asleep.remove(process)

    def _finish(self) -> None:
        for instance in self._group.members:
            self._group.expire(instance)
        self._cluster.time_out_transactions()
        self.network.calm()
        last = self._make(self._draw.choice(self.IDENTITIES), at_once, clean=True)
        self._note(f"one clean process finishes, {last.instance}")
        self._complete(last)
        # Zombies wake up when all is over, and change nothing.
        for process in self._living:
            for _ in range(3):
                if process.ended is None:
                    process.step()
        self.network.settle()
        self._check(last)

    def _name(self, process: _P) -> str:
        return f"{process.instance} (process {self.processes.index(process)})"


def run_all(kind: Callable[[int], _H], seeds: Iterable[int]) -> list[_H]:
    """Let every history of that kind happen, and return them."""
    return [_run(kind, seed) for seed in seeds]


def _run(kind: Callable[[int], _H], seed: int) -> _H:
    try:
        return kind(seed).run()
    except BaseException as error:
        name = getattr(kind, "__name__", "")
        error.add_note(f"to see its steps: PYTHONPATH=tests python -m simulation.replay {seed} {name}")
        raise


def check_disturbed(histories: Iterable[History[Any]]) -> None:
    """AssertionError unless requests had every fate, and a late copy of each request was refused."""
    struck, arrived = Counter[tuple[Request, Fate]](), Counter[tuple[Request, bool]]()
    for history in histories:
        struck += history.network.struck
        arrived += history.network.arrived
    assert {fate for _, fate in struck} == RESENT
    assert {request for request, obeyed in arrived if not obeyed} == set(Request) - {Request.INIT}
    assert arrived[Request.INIT, True]  # it belongs to no epoch that could have ended


def parts(first: int, count: int, size: int) -> list[range]:
    """Return seeds in portions, each for a test."""
    return [range(start, start + size) for start in range(first, first + count, size)]
