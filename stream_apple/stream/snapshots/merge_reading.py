"""Reading one merged model out of the merges topic, a little in each iteration of the loop."""

from collections.abc import Callable

from stream_apple.core.learner.options import Options
from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Broker, Record
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_messages import MergeDecoder, MergeManifest, read_manifest

PATIENCE_S = 120.0
"""The longest time without a message. A dead worker's transaction keeps the end of the topic undecided for less."""
GONE_S = 10.0
"""The same if the log ends before the merged model does: then the topic was made anew."""
_MESSAGES = 8  # to fetch at once; half a megabyte each
_WAIT_S = 0.02


def merged_place(provenance: Provenance, pointer: MergedPointer) -> str:
    """Return a text that says which merged model that is, and where."""
    return (
        f"the merged model of round {pointer.round} of group {provenance.group} ({provenance.topics.merges}-0, "
        f"messages {pointer.first} to {pointer.last})"
    )


def read_merge(scan: LogScan, provenance: Provenance, pointer: MergedPointer, options: Options) -> MergeDecoder:
    """Return the decoder that has read a merged model whole; SnapshotError if a message is missing or damaged."""
    decoder = MergeDecoder(provenance.group, pointer.round, options)
    try:
        while decoder.left:
            decoder.take(scan.take(), pointer)
    except (SnapshotError, GapError) as error:
        raise type(error)(f"{merged_place(provenance, pointer)}: {error}") from error
    return decoder


class MergeReading:
    """Reads the messages of one merged model: all of them if there is a decoder, else only the manifest.

    pointer   where the messages are; without a decoder, where the manifest is
    manifest  without a decoder, the manifest; None before it has been read
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        pointer: MergedPointer,
        decoder: MergeDecoder | None,
        now: Callable[[], float],
    ) -> None:
        self.pointer = pointer
        self.decoder = decoder
        self.manifest: MergeManifest | None = None
        self.place = merged_place(provenance, pointer)
        self.log = broker.reader(provenance.topics.merges, 0, pointer.first)
        self._group = provenance.group
        self._now = now
        self._heard = now()

    def read_on(self, until: float) -> bool:
        """Read what there is, until that time at most; return whether all has come.

        GapError if the log no longer has it; SnapshotError if it is damaged, or does not come in time.
        """
        while self._read() and not self._done and self._now() < until:
            pass
        return self._done

    @property
    def _done(self) -> bool:
        return self.manifest is not None if self.decoder is None else not self.decoder.left

    def _read(self) -> int:
        left = 1 if self.decoder is None else self.decoder.left
        # The client would wait for more messages than are still to come.
        records = self.log.fetch(min(_MESSAGES, left), _WAIT_S)
        for record in records:
            if not self._done:
                self._take(record)
        if records:
            self._heard = self._now()
        else:
            self._give_up_in_time()
        return len(records)

    def _take(self, record: Record) -> None:
        try:
            if self.decoder is not None:
                self.decoder.take(record, self.pointer)
            else:
                self.manifest = self._manifest_in(record)
        except SnapshotError as error:
            raise SnapshotError(f"{self.place}: {error}") from error

    def _manifest_in(self, record: Record) -> MergeManifest:
        if record.offset() > self.pointer.last:
            raise SnapshotError("expected its last message, found one behind it")
        return read_manifest(self._group, self.pointer.round, record.value())

    def _give_up_in_time(self) -> None:
        silent_s, end = self._now() - self._heard, self.log.log_end
        if silent_s > GONE_S and 0 <= end <= self.pointer.last:
            raise SnapshotError(f"{self.place}: expected it, found the log to end at {end}")
        if silent_s > PATIENCE_S:
            raise SnapshotError(f"{self.place}: expected it, found no further message within {PATIENCE_S:g} s")
