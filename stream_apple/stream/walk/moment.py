"""Names the state of a model at one moment, so that the model and its answers can be made again."""

import re
from typing import Any, NamedTuple, Self

from stream_apple.stream.model.partition_model import PartitionModel

_STAGES = ("", "held", "passed")
_TEXT = re.compile(r"(\d{1,9})@(\d{1,18})(?::(held|passed))?", re.ASCII)


class Moment(NamedTuple):
    """Names the state of a partition's model.

    offset    the first that it had not learned
    boundary  "held" if the model has ended its epoch at the end of a round, and waits to be merged; "passed" if it has
              gone on from there, and learned nothing since; else "". Only where models are merged, one offset may have
              all three states.
    """

    partition: int
    offset: int
    boundary: str = ""

    @classmethod
    def of(cls, model: PartitionModel) -> Self:
        """Return the moment at which a model stands."""
        rounds = model.rounds
        stage = "" if rounds is None else "held" if rounds.held is not None else "passed" if rounds.passed else ""
        return cls(model.partition, model.next_offset, stage)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the moment in a text that `str` has written; ValueError for another text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"expected partition@offset, such as 3@90210, or 3@90210:held, found {text!r}")
        return cls(int(found[1]), int(found[2]), found[3] or "")

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}" + (f":{self.boundary}" if self.boundary else "")

    def facts(self) -> dict[str, Any]:
        """Return the moment in JSON types."""
        where: dict[str, Any] = {"partition": self.partition, "offset": self.offset}
        return where | {"boundary": self.boundary} if self.boundary else where

    @property
    def order(self) -> tuple[int, int]:
        """Return a key by which earlier moments of a partition come first."""
        return self.offset, _STAGES.index(self.boundary)
