"""What is set about merging, as numbers."""

from typing import Literal, NamedTuple


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
