"""Whether this process should be restarted, and whether it is doing its work: truths, no sockets.

Written by the loop's thread, read by the server's threads: each field is replaced whole, never changed in place.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from stream_apple.monitoring.catching_up import CatchingUp
from stream_apple.stream.partitions.partition import State

STUCK_AFTER_S = 180.0
"""Longer than the longest wait that the broker port may make (two deadlines of 60 s in one iteration)."""
LATE_AFTER_S = 10.0
"""A loop that has not turned for so long answers nobody; what it knew of its partitions then may be past."""


class OwnedPartition(Protocol):
    """What there is to know of a partition that a loop owns."""

    @property
    def number(self) -> int:
        """Return its number."""
        ...

    @property
    def state(self) -> State:
        """Return where it stands in its life."""
        ...


class Verdict(NamedTuple):
    """Holds an answer and the facts it rests on, ready for JSON."""

    good: bool
    facts: dict[str, Any]


class Health:
    """Answers what the probes ask. `now` is monotonic seconds.

    Until `watch_brokers` is called, brokers count as reachable, and until `watch_backlog` is, no partition is behind.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._compiled = False
        self._leaving = False
        self._reachable: Callable[[], bool] = lambda: True
        self._behind: Callable[[], CatchingUp | None] = lambda: None
        self._iterated_at: float | None = None
        self._learning_s = 0.0
        self._partitions: tuple[OwnedPartition, ...] | None = None

    def compiled(self) -> None:
        """The kernels are ready: from now on the loop must iterate."""
        self._compiled = True
        self._iterated_at = self._now()

    def watch_brokers(self, reachable: Callable[[], bool]) -> None:
        """Ask this whenever a probe asks: the loop may be waiting for the brokers just then."""
        self._reachable = reachable

    def watch_backlog(self, behind: Callable[[], CatchingUp | None]) -> None:
        """Ask this for the backlog that is being worked off, which is told and changes no verdict."""
        self._behind = behind

    def leave(self) -> None:
        """The loop ends. Signal handlers may call this, too."""
        self._leaving = True

    def iterated(self, partitions: Iterable[OwnedPartition] | None, learning_s: float = 0.0) -> None:
        """An iteration of the loop is over; `partitions` are those we own, None while the group has not said which.

        learning_s  for so long a thread has been busy with one batch, the longest of all
        """
        self._iterated_at = self._now()
        self._learning_s = learning_s
        # Their states are looked at when somebody asks for them, not in each iteration.
        self._partitions = None if partitions is None else tuple(partitions)

    def live(self) -> Verdict:
        """False if no iteration, or no batch that is being learned, has ended for STUCK_AFTER_S.

        Compiling counts as alive.
        """
        if self._iterated_at is None:
            return Verdict(good=True, facts={"status": "compiling"})
        age = self._now() - self._iterated_at
        good = age + self._learning_s <= STUCK_AFTER_S
        facts = {
            "status": "turning" if good else "stuck",
            "seconds_since_turn": round(age, 3),
            "seconds_in_a_batch": round(self._learning_s, 3),
            "stuck_after_seconds": STUCK_AFTER_S,
        }
        return Verdict(good, facts)

    def ready(self) -> Verdict:
        """True if compiled, told by the group what we own, live in all of it, and in touch with the brokers.

        Who was given nothing, there being fewer partitions than workers, is on standby, which is as good as ready: it
        can do no more, and an update that waited for it would never end. Who works off a backlog is ready, and says so.
        """
        owned, iterated_at = self._partitions, self._iterated_at
        states = None if owned is None else {each.number: each.state.shown for each in owned}
        behind = sorted(number for number, state in (states or {}).items() if state is not State.LIVE)
        late = iterated_at is not None and self._now() - iterated_at > LATE_AFTER_S
        waiting_for = [
            reason
            for missing, reason in (
                (not self._compiled, "kernels to compile"),
                (states is None, "the group to assign partitions"),
                (bool(behind), f"partitions {behind} to recover"),
                (not self._reachable(), "an answer of a broker"),
                (late, "the loop to turn"),
            )
            if missing
        ]
        if self._leaving:
            status = "stopping"
        elif waiting_for:
            status = "waiting"
        else:
            status = "ready" if states else "standby"
        backlog = self._behind()
        facts = {
            "status": status,
            "waiting_for": waiting_for,
            "catching_up": None if backlog is None else backlog.facts(),
            "partitions": {str(number): state.value for number, state in sorted((states or {}).items())},
        }
        return Verdict(status in {"ready", "standby"}, facts)
