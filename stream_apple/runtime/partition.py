"""The life of a partition in this worker, as a table."""

from enum import StrEnum

from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.ports import Committed
from stream_apple.runtime.step import PartitionModel


class State(StrEnum):
    """Where a partition stands."""

    ASSIGNED = "assigned"  # ours; its model is being found
    REPLAYING = "replaying"  # learning records whose outputs are committed already
    LIVE = "live"  # every further record is published and committed
    REVOKED = "revoked"  # given back in order; the model waits in case the partition returns
    LOST = "lost"  # taken away, or no longer to be trusted; the model is dropped


TRANSITIONS: dict[State, frozenset[State]] = {
    State.ASSIGNED: frozenset({State.REPLAYING, State.LIVE, State.REVOKED, State.LOST}),
    State.REPLAYING: frozenset({State.LIVE, State.REVOKED, State.LOST}),
    State.LIVE: frozenset({State.REVOKED, State.LOST}),
    State.REVOKED: frozenset(),
    State.LOST: frozenset(),
}
"""What may follow what. A partition that returns begins a new life, perhaps with its old model."""


class Partition:
    """One partition of the examples topic that this worker owns, or has just given back.

    committed  the next offset by what is committed, as far as this worker knows
    """

    def __init__(self, model: PartitionModel) -> None:
        self.model = model
        self.state = State.ASSIGNED
        self.committed = model.publish_from

    @property
    def number(self) -> int:
        """Its number in the topic."""
        return self.model.partition

    @property
    def lineage(self) -> Lineage:
        """What its model descends from."""
        return self.model.lineage

    def enter(self, state: State) -> None:
        """Begin `state`; an illegal step raises and changes nothing."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"partition {self.number} can't go from {self.state} to {state}")
        self.state = state

    def progress(self) -> Committed | None:
        """What the next transaction must commit, or None if nothing was published since the last."""
        if self.state is not State.LIVE or self.model.next_offset <= self.committed:
            return None
        return Committed(self.model.next_offset, self.lineage.to_metadata())
