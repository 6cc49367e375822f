"""Reading the merges topic while a worker runs: a little in each iteration of its loop.

The note with the committed offset of partition 0 says where the newest merged model is, and the manifest of that says
where those of earlier rounds are. A partition that waits for a round has it asked for until there is an answer.
"""

from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

import structlog

from stream_apple.errors import GapError
from stream_apple.learners.merging_port import Mergeable
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import ManifestDecoder, MergeDecoder, MergeManifest
from stream_apple.stream.snapshots.stored_messages import MessageDecoder, MessageReading, merge_messages

_ITERATION_S = 0.05  # for reading in an iteration of the loop: other partitions wait meanwhile

_log = structlog.get_logger()

_Decoder = TypeVar("_Decoder", bound=MessageDecoder)


class NoMerge(Enum):
    """Says why there is no merged model of a round."""

    UNKNOWN = auto()  # whether the round has been merged is being found out, or the model is being read
    ABSENT = auto()  # the round has not been merged
    GONE = auto()  # the round has been merged, but the topic no longer has the model


class MergedModel(NamedTuple):
    """Holds one merged model and its manifest; `pointer` says where it is."""

    pointer: MergedPointer
    manifest: MergeManifest
    model: Mergeable


class MergeLog:
    """Reads the merges of a group, and knows where all of them are.

    newest   where the newest merged model is, as far as this worker was told
    history  all merges up to a newest one; None until a first manifest has been read
    """

    def __init__(self, context: MergingContext) -> None:
        self._broker = context.broker
        self._provenance = context.provenance
        self._options = context.options
        self._now = context.now
        self.newest: MergedPointer | None = None
        self.history: MergeHistory | None = None
        self._known_to: MergedPointer | None = None
        self._manifest: MessageReading[ManifestDecoder] | None = None
        self._model: MessageReading[MergeDecoder] | None = None
        self._model_at: MergedPointer | None = None
        self._read: MergedModel | None = None
        self._gone: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether something is being read."""
        return self._model is not None or self._manifest is not None

    @property
    def knows_all(self) -> bool:
        """Whether `history` has all merges up to `newest`."""
        return self.history is not None and self._known_to == self.newest

    def follow(self, newest: MergedPointer | None) -> None:
        """Take `newest` for where the newest merged model is; None if nothing has been merged."""
        if newest is None and self.history is None:
            self.history = MergeHistory()
        if newest is not None and newest != self.newest:
            self.newest = newest
            self._manifest = self._close(self._manifest)

    def ask(self, number: int) -> MergedModel | NoMerge:
        """Return this round's merged model, or why there is none; ask again while that is UNKNOWN.

        A model that has been read stays in memory until that of another round is asked for.
        """
        if self._read is not None and self._read.manifest.round == number:
            return self._read
        if self.history is None:
            return NoMerge.UNKNOWN
        if number in self._gone or self.history.gone(number):
            return NoMerge.GONE
        pointer = self.history.find(number)
        if pointer is not None:
            if self._model is None:
                self._read = None
                decoder = MergeDecoder(self._provenance.group, number, self._options)
                self._model, self._model_at = self._reading(pointer, decoder), pointer
            return NoMerge.UNKNOWN
        # A round that an older history lacks may have been merged since.
        return NoMerge.ABSENT if self.knows_all else NoMerge.UNKNOWN

    def read_on(self) -> None:
        """Read for a moment; SnapshotError if a message is not one of the merged model."""
        until = self._now() + _ITERATION_S
        if not self.knows_all:
            self._read_manifest(until)
        if self._model is not None:
            self._read_model(self._model, until)

    def drop(self) -> None:
        """Forget everything, and close the readers."""
        self._manifest = self._close(self._manifest)
        self._model = self._close(self._model)
        self._read, self.history, self.newest, self._known_to = None, None, None, None
        self._gone.clear()

    def _read_manifest(self, until: float) -> None:
        if self.newest is None:
            return
        if self._manifest is None:
            decoder = ManifestDecoder(self._provenance.group, self.newest.round)
            self._manifest = self._reading(self.newest._replace(first=self.newest.last), decoder)
        try:
            if not self._manifest.read_on(until):
                return
            manifest = self._manifest.messages.decoder.manifest
            assert manifest is not None
            self.history = manifest.history.add(self.newest)
        except GapError as error:
            # Nothing has been merged for longer than the topic's retention, so no earlier model can be adopted.
            _log.warning("merges_gone", round=self.newest.round, topic=self._provenance.topics.merges, error=str(error))
            self.history = MergeHistory((), ((0, self.newest.round),))
        self._known_to = self.newest
        self._manifest = self._close(self._manifest)

    def _read_model(self, reading: MessageReading[MergeDecoder], until: float) -> None:
        pointer, decoder = self._model_at, reading.messages.decoder
        assert pointer is not None
        try:
            if not reading.read_on(until):
                return
            assert decoder.manifest is not None
            self._read = MergedModel(pointer, decoder.manifest, decoder.model)
        except GapError:
            # Its partitions go on alone, as those of a round that the history no longer has.
            self._gone.add(pointer.round)
        self._model = self._close(reading)

    def _reading(self, pointer: MergedPointer, decoder: _Decoder) -> MessageReading[_Decoder]:
        log = self._broker.reader(self._provenance.topics.merges, 0, pointer.first)
        return MessageReading(log, merge_messages(self._provenance, pointer, decoder), self._now)

    @staticmethod
    def _close(reading: MessageReading[Any] | None) -> None:
        if reading is not None:
            reading.log.close()
