"""What a model has to publish when it learns again, what it could not learn, and the ends of rounds that it passed."""

from collections.abc import Sequence
from typing import NamedTuple

from stream_apple.stream.log.ports import Header, Record


class Answer(NamedTuple):
    """The message that the model with fingerprint `model` had to publish about the example at offset `example`."""

    model: str
    example: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[Header]


class Answers(NamedTuple):
    """The predictions that one model had to give, in the order of the examples, whose keys and times they have."""

    model: str
    examples: Sequence[Record]
    values: Sequence[bytes]


class Outputs(NamedTuple):
    """Holds the messages that had to be published, in the order of the examples."""

    predictions: list[Answers]
    dead_letters: list[Answer]


class Unproved(NamedTuple):
    """Examples whose answers could not be compared with those of a model that learns them again, and the reason.

    start, stop  their offsets; if only some answers are gone, the offsets of all examples that were learned
    examples     how many; None: all of these offsets, among which there may be markers of transactions
    """

    start: int
    stop: int
    why: str
    examples: int | None = None

    @property
    def answers(self) -> int:
        """Return how many answers these are at most."""
        return self.stop - self.start if self.examples is None else self.examples


class Boundaries(NamedTuple):
    """Counts the ends of rounds that a partition has passed, and how it did.

    adopted  with a merged model that contains its contribution
    late     with a merged model that does not
    skipped  without a merged model
    """

    adopted: int = 0
    late: int = 0
    skipped: int = 0
