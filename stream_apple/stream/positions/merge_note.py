"""What is set about merging, and what stands of it beside a committed offset.

settings  whose rounds these are
boundary  the newest one that the partition has reached, and what has become of it
merged    beside partition 0 alone: where the newest merged model is
"""

from enum import StrEnum
from typing import Any, Literal, NamedTuple

from stream_apple.untrusted import Offset, RoundNumber


class MergeSettings(NamedTuple):
    """How the models of all partitions become one now and then; without it, each stays its own.

    every       epochs of a round, at whose end the models are merged
    parents     which nominees become parents: by "votes" of those who have them, or the "union" of all
    patience_s  so long the leader waits for contributions; infinite: for all of them
    max_hold_s  so long a partition waits for a merged model before it goes on alone; infinite: without end
    """

    every: int
    parents: Literal["votes", "union"]
    patience_s: float
    max_hold_s: float


class BoundaryState(StrEnum):
    """Names what has become of a partition's newest boundary."""

    CONTRIBUTED = "contributed"  # its snapshot is there for others, and it waits for what they make of it
    ADOPTED = "adopted"
    SKIPPED = "skipped"  # it has waited for too long, and goes on alone


class BoundaryNote(NamedTuple):
    """Records the newest end of a round that a partition has reached.

    at  the first offset that the model had not learned when it stopped: also that of its contribution. Once it has gone
        on, that of its newest snapshot instead, if all between was left out by an operator's word
    """

    round: RoundNumber
    at: Offset
    state: BoundaryState


class MergedPointer(NamedTuple):
    """Where the merged model of a round is: its first and last message in the merges topic, the last its manifest."""

    round: RoundNumber
    first: Offset
    last: Offset


class MergeNote(NamedTuple):
    """The part of a committed offset's note that is about merging; there is none where nothing is merged.

    settings  epochs of a round, and how parents are chosen
    boundary  None before the first
    merged    None before the first, and beside all partitions but 0
    """

    settings: tuple[int, str]
    boundary: BoundaryNote | None = None
    merged: MergedPointer | None = None

    @classmethod
    def of(cls, settings: MergeSettings) -> "MergeNote":
        """Return the note of a partition that has reached no boundary yet."""
        return cls((settings.every, settings.parents))

    def content(self) -> dict[str, Any]:
        """Return the note in JSON types, as it is committed."""
        parts = {"settings": self.settings, "boundary": self.boundary, "merged": self.merged}
        return {name: part for name, part in parts.items() if part is not None}
