"""Whether this process should be restarted, and whether it is doing its work: truths, no sockets.

Written by the loop's thread, read by the server's threads: each field is replaced whole, never changed in place.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from stream_apple.runtime.partition import Partition, State

STUCK_AFTER_S = 180.0
"""Longer than the longest wait that the broker port may make (two deadlines of 60 s in one iteration)."""


class Verdict(NamedTuple):
    """An answer and the facts it rests on, ready for JSON."""

    good: bool
    facts: dict[str, Any]


class Health:
    """What the probes ask. `now` is monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._compiled = False
        self._assigned = False
        self._iterated_at: float | None = None
        self._learning_s = 0.0
        self._states: Mapping[int, State] = {}

    def compiled(self) -> None:
        """The kernels are ready: from now on the loop must iterate."""
        self._compiled = True
        self._iterated_at = self._now()

    def assigned(self) -> None:
        """The group has told us what we own, which may be nothing."""
        self._assigned = True

    def iterated(self, partitions: Iterable[Partition], learning_s: float = 0.0) -> None:
        """An iteration of the loop is over; `partitions` are those we own.

        learning_s  for so long a thread has been busy with one batch, the longest of all
        """
        self._iterated_at = self._now()
        self._learning_s = learning_s
        self._states = {partition.number: partition.state for partition in partitions}

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
        """True if compiled, told by the group what we own, and live in all of it."""
        states = self._states
        behind = sorted(number for number, state in states.items() if state is not State.LIVE)
        waiting_for = [
            reason
            for missing, reason in (
                (not self._compiled, "kernels to compile"),
                (not self._assigned, "the group to assign partitions"),
                (bool(behind), f"partitions {behind} to recover"),
            )
            if missing
        ]
        facts = {
            "status": "waiting" if waiting_for else "ready",
            "waiting_for": waiting_for,
            "partitions": {str(number): state.value for number, state in sorted(states.items())},
        }
        return Verdict(not waiting_for, facts)
