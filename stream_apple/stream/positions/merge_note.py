"""The settings of merging, and the note about merging in the metadata of a committed offset."""

from enum import StrEnum
from typing import Any, Literal, NamedTuple

from stream_apple.untrusted import Offset, RoundNumber


class MergeSettings(NamedTuple):
    """Says how the models of all partitions become one at the ends of rounds.

    every       epochs of a round, at whose end the models are merged
    parents     which nominees become parents: by "votes" of those who have them, or the "union" of all
    patience_s  how long the leader waits for contributions; infinite: until all have come
    max_hold_s  how long a partition waits for a merged model before it goes on alone; infinite: without end
    """

    every: int
    parents: Literal["votes", "union"]
    patience_s: float
    max_hold_s: float


class BoundaryState(StrEnum):
    """Names what has become of a partition's newest boundary."""

    CONTRIBUTED = "contributed"  # its snapshot is committed, and it waits for the merged model
    ADOPTED = "adopted"  # it has gone on with the merged model
    SKIPPED = "skipped"  # it has waited for too long, and goes on alone


class BoundaryNote(NamedTuple):
    """Records the newest end of a round that a partition has reached.

    at  the first offset that the model had not learned when it stopped, which is also that of its contribution. Once it
        has gone on, it is the offset of its newest snapshot, if an operator had all records between left out.
    """

    round: RoundNumber
    at: Offset
    state: BoundaryState


class MergedPointer(NamedTuple):
    """Says where a round's merged model is: its first message in the merges topic, and its last, the manifest."""

    round: RoundNumber
    first: Offset
    last: Offset


class MergeNote(NamedTuple):
    """The part of a committed offset's note that is about merging; there is none where nothing is merged.

    settings  epochs of a round, and how parents are chosen
    boundary  the newest one that the partition has reached; None before the first
    merged    where the newest merged model is; None before the first, and for all partitions but 0
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
