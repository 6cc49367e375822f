"""Models as they are kept in Kafka: from what a group has committed to the newest snapshot, restored.

For those who only look: nothing is asked of the workers, who may go on, and may displace a snapshot while it is read.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol

from stream_apple.errors import GapError, SnapshotError
from stream_apple.runtime.lineage import Lineage, Note, Pointer, committed_note
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.relearning import lineages_of
from stream_apple.runtime.section import LogReader, Section
from stream_apple.runtime.snapshot import Decoder, message_key
from stream_apple.runtime.step import PartitionModel

LARGE = 50
"""Messages for a fetch where each may have a megabyte."""
_REREADS = 5  # of a snapshot that compaction takes away because a newer one is there

NewModel = Callable[[int, Lineage], PartitionModel]
"""(partition, lineage) -> a model that has learned nothing and accepts any share of rejects."""


class Logs(Protocol):
    """What is asked of the cluster."""

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; ConfigurationError if it does not exist."""
        ...

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The group's committed offsets in the examples topic."""
        ...

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Offsets in the log; `high` is its very end, what is not decided yet included."""
        ...

    def reader(self, topic: str, partition: int, offset: int) -> LogReader:
        """Read what is committed from `offset` on."""
        ...


class Subject(NamedTuple):
    """Whose models: those of one group, and where their outputs are."""

    group: str
    examples: str
    predictions: str
    dead_letters: str
    models: str
    model_settings: Mapping[str, Any]


class Stored(NamedTuple):
    """What is committed, and the model in its snapshot.

    model  None if there is no snapshot yet, or if it can't be restored: `fault` says why
    """

    note: Note
    model: PartitionModel | None
    fault: SnapshotError | GapError | None = None


class StoredModels:
    """The models of one group."""

    def __init__(self, logs: Logs, subject: Subject, new_model: NewModel) -> None:
        self._logs = logs
        self._subject = subject
        self._new_model = new_model

    def newest(self, number: int, committed: Committed) -> Stored:
        """The newest snapshot of a partition; ConfigurationError if it is of a model of other settings.

        GapError if newer ones displace each before it is read.
        """
        for _ in range(_REREADS):
            note = self._note(number, committed)
            if note.snapshot is None:
                return Stored(note, None)
            try:
                return Stored(note, self._restored(number, note.lineage, note.snapshot))
            except (SnapshotError, GapError) as error:
                # A worker may have written a newer one meanwhile, and compaction may have removed this one.
                latest = self._logs.committed([number])[number]
                if latest is None or self._note(number, latest).snapshot == note.snapshot:
                    return Stored(note, None, error)
                committed = latest
        raise GapError(
            f"expected a snapshot in {self._subject.models}-{number} that stays until it is read, found {_REREADS} "
            f"that newer ones displaced before: raise min.compaction.lag.ms of the topic"
        )

    def _note(self, number: int, committed: Committed) -> Note:
        subject = self._subject
        return committed_note(committed, subject.model_settings, subject.examples, number, subject.group)

    def _restored(self, number: int, lineage: Lineage, pointer: Pointer) -> PartitionModel:
        """The model in a snapshot; SnapshotError if it is not whole, or not what the pointer says."""
        subject = self._subject
        # It has the lineage that the model had then.
        passed = sum(gap.stop <= pointer.at for gap in lineage.gaps)
        then = lineages_of(subject.model_settings, subject.examples, number, lineage)[passed]
        place, prefix = f"{subject.models}-{number}", message_key(subject.group, number)
        end = self._logs.log_range(subject.models, number).high
        if pointer.last >= end:
            raise SnapshotError(f"expected its last message at {place}@{pointer.last}, found the log's end at {end}")
        model = self._new_model(number, then)
        decoder = Decoder(model, pointer)
        reader = self._logs.reader(subject.models, number, pointer.first)
        with closing(Section(reader, place, pointer.last + 1, LARGE)) as log:
            while decoder.left and (record := log.take()) is not None and record.offset() <= pointer.last:
                if (record.key() or b"").startswith(prefix):
                    decoder.add(record.value())
        if decoder.left:
            raise SnapshotError(f"expected {decoder.left} more messages up to {place}@{pointer.last}, found none")
        return model
