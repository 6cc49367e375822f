"""Decides whether this process should be restarted, and whether it is doing its work; the HTTP server asks.

The loop's thread writes, and the server's threads read: so each field is replaced as a whole, never changed in place.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stream_apple.monitoring.catching_up import CatchingUp
from stream_apple.stream.loop.member_watchers import OwnedPartition
from stream_apple.stream.partitions.state import State

STUCK_AFTER_S = 180.0
"""It is longer than the longest wait in the broker port (two deadlines of 60 s in one iteration)."""
SLOW_AFTER_S = 10.0
"""A loop that has not iterated for so long is not ready, as its partitions' states may have changed."""


class Verdict(NamedTuple):
    """Holds an answer and the facts behind it, in JSON types."""

    good: bool
    facts: dict[str, Any]


class Health:
    """Answers the probes; `now` returns monotonic seconds.

    Until `watch_brokers`, `watch_topics` and `watch_backlog` are called, brokers count as reachable, topics as
    available, and no partition as behind.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._compiled = False
        self._leaving = False
        self._reachable: Callable[[], bool] = lambda: True
        self._behind: Callable[[], CatchingUp | None] = lambda: None
        self._topics: Callable[[], Iterable[str]] = tuple
        self._iterated_at: float | None = None
        self._learning_s = 0.0
        self._partitions: tuple[OwnedPartition, ...] | None = None

    def compiled(self) -> None:
        """Note that the kernels are ready, so that the loop must iterate from now on."""
        self._compiled = True
        self._iterated_at = self._now()

    def watch_brokers(self, reachable: Callable[[], bool]) -> None:
        """Call `reachable` at each probe, as the loop may be waiting for the brokers at that time."""
        self._reachable = reachable

    def watch_topics(self, faulty: Callable[[], Iterable[str]]) -> None:
        """Call `faulty` at each probe for the topics because of which nothing can be published."""
        self._topics = faulty

    def watch_backlog(self, behind: Callable[[], CatchingUp | None]) -> None:
        """Call `behind` for the backlog that is being worked off, which is shown and changes no verdict."""
        self._behind = behind

    def leave(self) -> None:
        """Note that the loop ends. Signal handlers may call this, too."""
        self._leaving = True

    def iterated(self, partitions: Iterable[OwnedPartition] | None, learning_s: float = 0.0) -> None:
        """Note that an iteration is over, as `LoopHealth` says."""
        self._iterated_at = self._now()
        self._learning_s = learning_s
        # Their states are read at a probe, not in each iteration.
        self._partitions = None if partitions is None else tuple(partitions)

    def live(self) -> Verdict:
        """Return whether the process works: False if an iteration, or a batch, has lasted for STUCK_AFTER_S.

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
        """Return whether the process is ready: compiled, with partitions assigned and all live.

        Brokers must be reachable, and topics available.

        A worker without partitions, of which there are fewer than workers, is on standby and counts as ready, as a
        rolling update would otherwise wait for it for ever. A worker with a backlog is ready, and reports the backlog.
        """
        owned, iterated_at = self._partitions, self._iterated_at
        states = None if owned is None else {each.number: each.state.shown for each in owned}
        behind = sorted(number for number, state in (states or {}).items() if state is not State.LIVE)
        slow = iterated_at is not None and self._now() - iterated_at > SLOW_AFTER_S
        waiting_for = [
            reason
            for missing, reason in (
                (not self._compiled, "kernels to compile"),
                (states is None, "the group to assign partitions"),
                (bool(behind), f"partitions {behind} to recover"),
                (not self._reachable(), "an answer of a broker"),
                (slow, "the loop to turn"),
            )
            if missing
        ]
        waiting_for += self._topics()
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
