"""The sides of a comparison: where their answers to examples are read, and how.

Anyone may write to the topics, so every message is checked. Losses are in the predictions. Importance weights are not;
if they count, they are read from the examples, as a third side.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from stream_apple.comparing.pairing import Placed
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.contents import contents_of
from stream_apple.stream.log.ports import LogRange, Place, Record
from stream_apple.untrusted import real_number


class PlacesReader(Protocol):
    """Reads partitions of topics, as `CommittedReader` does."""

    def begin(self, starts: Mapping[Place, int]) -> None:
        """Read these places, and no others, from these offsets on."""

    def fetch(self, limit: int, timeout_s: float) -> list[tuple[str, Record]]:
        """Return at most `limit` records with their topics, after `timeout_s` seconds at the latest."""

    def passed(self, ends: Mapping[Place, int]) -> bool:
        """Return whether every record below these offsets has been delivered."""

    def pause(self, place: Place) -> None:
        """Deliver nothing of a place until `resume`."""

    def resume(self, place: Place) -> None:
        """Go on with a place that was paused, from where it was left."""


class SideAnswer(NamedTuple):
    """A side's answer to an example.

    loss     NaN without a label; for the third side it is the example's importance weight
    epoch    in which the example was learned
    time_ms  the example's event time, milliseconds since 1970
    label    the example's, as this side reads it; None without one, or for the third side
    """

    loss: float
    epoch: int = 0
    time_ms: int = 0
    label: float | None = None


class SideSource(NamedTuple):
    """Where one side is read.

    ranges   the offsets that each partition holds when the reading begins
    parsed   returns the answers in records of a partition
    """

    topic: str
    reader: PlacesReader
    ranges: Mapping[int, LogRange]
    parsed: Callable[[Sequence[Record]], Iterable[Placed[SideAnswer]]]

    def fetch(self, limit: int, timeout_s: float) -> dict[int, list[Record]]:
        """Return the records that come next, by partition."""
        found = defaultdict(list)
        for _, record in self.reader.fetch(limit, timeout_s):
            found[record.partition()].append(record)
        return found


def answers_in(records: Sequence[Record], examples: str) -> Iterator[Placed[SideAnswer]]:
    """Yield the answers in predictions for examples of this topic; other messages are left out."""
    for record in records:
        try:
            told = decode_prediction(record.value() or b"")
            topic, partition, offset, epoch = (told[name] for name in ("topic", "partition", "offset", "epoch"))
            loss, label = (None if each is None else real_number(each) for each in (told["loss"], told["label"]))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if (topic, partition) != (examples, record.partition()) or type(offset) is not int or type(epoch) is not int:
            continue
        if abs(epoch) >= 1 << 63 or (loss is None) != (label is None):
            continue
        yield Placed(offset, SideAnswer(math.nan if loss is None else loss, epoch, record.timestamp()[1], label))


def weights_in(records: Sequence[Record], decoder: Decoder) -> Iterator[Placed[SideAnswer]]:
    """Yield the importance weights of examples; records that can't be used are left out, as they have no answer."""
    decoded = decoder.decode(contents_of(records, framed=decoder.framed))
    for row, weight in zip(decoded.rows.tolist(), decoded.batch.weights.tolist(), strict=True):
        yield Placed(records[row].offset(), SideAnswer(weight))
