"""The life of a partition in this worker, as a table.

    found      ASSIGNED -> RESTORING -> REPLAYING -> LIVE, each left out where there is nothing to do
    merged     LIVE -> STOPPED -> CONTRIBUTING -> WAITING -> ADOPTING -> ADOPTED -> PASSING -> LIVE
    given up   from anywhere to REVOKED or LOST

A partition that has waited for a merged model for too long passes the end of the round with the model that it has. A
partition that is assigned while it stands at the end of a round goes on there: the note with its committed offset is
enough for that.
"""

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Names where a partition stands in its life."""

    ASSIGNED = "assigned"  # this worker owns it; whether it has a model is being found out
    RESTORING = "restoring"  # its model is being read from a snapshot
    REPLAYING = "replaying"  # learning records whose outputs are committed already
    LIVE = "live"  # every further record is published and committed
    STOPPED = "stopped"  # at the end of a round; a snapshot, which is its contribution, is due
    CONTRIBUTING = "contributing"  # the snapshot is in the open transaction
    WAITING = "waiting"  # the snapshot is committed: others can merge it
    ADOPTING = "adopting"  # a thread makes the merged model its own
    ADOPTED = "adopted"  # a snapshot of the model that has adopted is due, before anything else is published
    PASSING = "passing"  # the note that it goes on behind the end of the round is in the open transaction
    REVOKED = "revoked"  # given back in order; the model waits in case the partition returns
    LOST = "lost"  # taken away, or no longer to be trusted; the model is dropped

    @property
    def shown(self) -> "State":
        """Return the state as logs and metrics have it: a partition that is merged is live."""
        return State.LIVE if self in ANSWERING else self


_GIVEN_UP = frozenset({State.REVOKED, State.LOST})

TRANSITIONS: dict[State, frozenset[State]] = {
    State.ASSIGNED: _GIVEN_UP | {State.RESTORING, State.REPLAYING, State.LIVE},
    State.RESTORING: _GIVEN_UP | {State.REPLAYING, State.LIVE},
    State.REPLAYING: _GIVEN_UP | {State.LIVE},
    State.LIVE: _GIVEN_UP | {State.STOPPED, State.WAITING},
    State.STOPPED: _GIVEN_UP | {State.CONTRIBUTING, State.PASSING},
    State.CONTRIBUTING: _GIVEN_UP | {State.WAITING},
    State.WAITING: _GIVEN_UP | {State.ADOPTING, State.PASSING},
    State.ADOPTING: _GIVEN_UP | {State.ADOPTED},
    State.ADOPTED: _GIVEN_UP | {State.PASSING},
    State.PASSING: _GIVEN_UP | {State.LIVE, State.STOPPED},
    State.REVOKED: frozenset(),
    State.LOST: frozenset(),
}
"""The states that may follow each. A partition that returns begins a new life, perhaps with its old model."""

INCOMPLETE = frozenset({State.ASSIGNED, State.RESTORING})
"""States in which there is no model to learn with yet."""

RECOVERING = frozenset({State.RESTORING, State.REPLAYING})
"""States in which a partition's records are not answered yet."""

ANSWERING = frozenset(
    {
        State.LIVE,
        State.STOPPED,
        State.CONTRIBUTING,
        State.WAITING,
        State.ADOPTING,
        State.ADOPTED,
        State.PASSING,
    }
)
"""States in which every further record is published and committed; at the end of a round, after a wait."""


class RecoveryLeft(NamedTuple):
    """Records to replay before the partition is live, and the seconds that takes, NaN if that is not known yet."""

    records: int
    seconds: float
