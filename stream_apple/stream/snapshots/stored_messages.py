"""Reads the messages of one snapshot, or of one merged model, among those of a log: at once, or a little at a time.

The decoders (`codec.py`, `merge_messages.py`) say what a message must be.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from stream_apple.errors import BrokerError, SnapshotError, SnapshotMissingError
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Reader, Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder
from stream_apple.stream.snapshots.compressed_model import CompressedModel
from stream_apple.stream.snapshots.merge_messages import merge_key

PATIENCE_S = 120.0
"""The longest time without a message. A dead writer's transaction keeps a partition's end undecided for 45 s."""
GONE_S = 10.0
"""The same if the log ends before the messages do. A new leader may at first report too early an end."""
_MESSAGES = 8  # to fetch at once; a megabyte each at most
_WAIT_S = 0.02


class MessageDecoder(Protocol):
    """Takes the messages in, in their order."""

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""

    def add(self, value: bytes | None) -> None:
        """Take in the next message; SnapshotError if it is not the one that must come now."""


_Decoder = TypeVar("_Decoder", bound=MessageDecoder)


class StoredMessages(Generic[_Decoder]):
    """Picks the messages out of the log, and gives them to their decoder.

    decoder      has what was read when nothing is `left`
    place        says what is read, and where
    first, last  its first and last message
    prefix       what the keys of its messages begin with

    written_at_ms  time of day when its last message was written, 0 before that has come
    """

    def __init__(self, decoder: _Decoder, place: str, first: int, last: int, prefix: bytes) -> None:
        self.decoder = decoder
        self.place = place
        self.written_at_ms = 0
        self.last = last
        self._first = first
        self._prefix = prefix

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""
        return self.decoder.left

    def take(self, record: Record | None) -> None:
        """Take in the next record of the log, unless it is of others; None: the log has ended.

        SnapshotError if messages are missing, damaged, or of something else.
        """
        if record is None or record.offset() > self.last:
            raise self.incomplete("found none", SnapshotMissingError)
        if record.offset() < self._first or not (record.key() or b"").startswith(self._prefix):
            return
        with self._placed():
            self.decoder.add(record.value())
        if not self.left:
            self.written_at_ms = record.timestamp()[1]

    def read_from(self, scan: LogScan) -> _Decoder:
        """Read all of them; return the decoder. SnapshotError as of `take`; it raises what the scan does, too."""
        while self.left:
            self.take(scan.take())
        return self.decoder

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Inside this context, a SnapshotError gets the place."""
        try:
            yield
        except SnapshotError as error:
            raise type(error)(f"{self.place}: {error}") from error

    def incomplete(self, found: str, kind: type[SnapshotError] = SnapshotError) -> SnapshotError:
        """Return the error of messages that do not all come."""
        return kind(f"{self.place}: expected {self.left} more messages, {found}")


class MessageReading(Generic[_Decoder]):
    """Reads stored messages while a loop runs, a little in each of its iterations.

    log        from the first message on
    silence_s  the longest time without a message
    advice     what else to do where the log ends before them

    began  when it began, in seconds of the clock
    bytes  read so far
    """

    def __init__(
        self,
        log: Reader,
        messages: StoredMessages[_Decoder],
        now: Callable[[], float],
        silence_s: float = PATIENCE_S,
        advice: str = "",
    ) -> None:
        self.messages = messages
        self.log = log
        self.bytes = 0
        self.began = self._heard = now()
        self._now = now
        self._silence_s = silence_s
        self._advice = advice

    def read_on(self, until: float) -> bool:
        """Read what there is, until that time at most; return whether all has come.

        GapError if the log no longer has the next; SnapshotError as of `take`, and if nothing comes in time.
        """
        while self.messages.left and self._read() and self._now() < until:
            pass
        return not self.messages.left

    def _read(self) -> int:
        """Take in messages; return how many records came."""
        # The client would wait for more messages than are still to come.
        records = self.log.fetch(min(_MESSAGES, self.messages.left), _WAIT_S)
        for record in records:
            if self.messages.left:
                self.bytes += len(record.value() or b"")
                self.messages.take(record)
        if records:
            self._heard = self._now()
        else:
            self._give_up_in_time()
        return len(records)

    def _give_up_in_time(self) -> None:
        silent_s, end, messages = self._now() - self._heard, self.log.log_end, self.messages
        if self.log.position > messages.last:
            messages.take(None)  # all that is committed up to there has been delivered
        if silent_s > GONE_S and 0 <= end <= messages.last:
            raise messages.incomplete(f"found the end of the log at {end}: was the topic made anew?{self._advice}")
        if silent_s > self._silence_s:
            raise BrokerError(
                f"{messages.place}: expected more messages, found none within {self._silence_s:g} s: is a broker gone?"
            )


def snapshot_messages(
    provenance: Provenance, model: PartitionModel, pointer: SnapshotPointer, kept: CompressedModel | None = None
) -> StoredMessages[SnapshotDecoder]:
    """Return the messages of a snapshot, which a new model takes in; `kept` is that of `SnapshotDecoder`."""
    topics, number = provenance.topics, model.partition
    place = (
        f"the snapshot of {topics.examples}-{number} at offset {pointer.at} "
        f"({topics.models}-{number}, messages {pointer.first} to {pointer.last})"
    )
    decoder, prefix = SnapshotDecoder(model, pointer, kept), provenance.snapshot_key(number)
    return StoredMessages(decoder, place, pointer.first, pointer.last, prefix)


def merged_place(provenance: Provenance, pointer: MergedPointer) -> str:
    """Return a text that says which merged model that is, and where."""
    return (
        f"the merged model of round {pointer.round} of group {provenance.group} ({provenance.topics.merges}-0, "
        f"messages {pointer.first} to {pointer.last})"
    )


def merge_messages(provenance: Provenance, pointer: MergedPointer, decoder: _Decoder) -> StoredMessages[_Decoder]:
    """Return the messages of a merged model, which the decoder takes in."""
    place, prefix = merged_place(provenance, pointer), merge_key(provenance.group, pointer.round)
    return StoredMessages(decoder, place, pointer.first, pointer.last, prefix)
