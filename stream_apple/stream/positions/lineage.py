"""The identity of a model, and the note about it that is committed with each offset.

A model is a function of its settings and of the records of one partition from `start` on, without the gaps that an
operator has accepted and the records that an operator has named to be skipped. The fingerprint identifies that
function. It is in every prediction, and in the metadata of every committed offset, so that a worker with other
settings, or a group whose offsets something else has moved, is detected before a record is learned twice. The metadata
also says where the newest snapshot of the model is.

Everything that makes, restores, verifies, inspects or checks a model asks `Provenance` for its identity.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from stream_apple.config import Config
from stream_apple.config.duration import FOREVER
from stream_apple.errors import ConfigurationError
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.ports import Committed, Record
from stream_apple.stream.positions.merge_note import MergeNote, MergeSettings
from stream_apple.untrusted import (
    MalformedError,
    Offset,
    OffsetOrNone,
    StateHash,
    Stored,
    UnreadableFileError,
    Versioned,
    digest_of,
    from_json,
    in_short,
    is_offset,
)

FORMAT = 1
"""Must change whenever the same settings and records give another model."""

MAX_GAPS = 64
"""So many fit, with the skips, into the metadata of a committed offset, of which the broker accepts 4096 bytes."""
MAX_SKIPS = 32

FILE_MAGIC = b"stream_apple model "
"""A model file begins with this."""

STARTED_FROM = "from_model"
"""The key, beside the sections of settings that a model depends on, of the file that it started from, if any."""

NEW_MODEL = "use a new worker.group, with topics.predictions and topics.dead_letters of its own, to begin a new model"
"""The advice if a group can't go on. In the old topics, the new group's answers would be second ones."""

START_OVER = (
    "to start over, use a new worker.group, with topics.predictions and topics.dead_letters of its own, which learns "
    "the records in topics.examples again, or continues from the model file that worker.from_model names"
)
"""The advice if stored state has another format."""


def _elsewhere(setting: str, what: str) -> str:
    return (
        f"if {setting} was another topic, or is another one in a single worker, that one has the {what}: set it "
        f"everywhere; else, if a restart finds the same, {NEW_MODEL}"
    )


NO_SNAPSHOT = _elsewhere("topics.models", "snapshot")
"""The advice if a snapshot is not where the committed offset says, which names messages, and no topic.

A broker that was frozen, and has just come back, may answer for a log that others have gone on with.
"""

_FINGERPRINT = re.compile("[0-9a-f]{16}")


class Topics(NamedTuple):
    """The topics that records come from and go to; `merges` is "" where models are not merged."""

    examples: str
    predictions: str
    dead_letters: str
    models: str
    merges: str = ""


class Gap(NamedTuple):
    """Offsets [start, stop) were gone from the log before they were learned, and an operator has accepted it."""

    start: Offset
    stop: Offset


def behind_gap(offset: int, gaps: Sequence[Gap]) -> int:
    """Return the offset from which a model at `offset` reads on: that, or the end of a gap that begins there."""
    return next((gap.stop for gap in gaps if gap.start == offset), offset)


class Lineage(NamedTuple):
    """The first offset that was ever learned, the fingerprint, and the gaps and offsets that were left out since."""

    start: int
    model: str
    gaps: tuple[Gap, ...] = ()
    skips: tuple[int, ...] = ()

    @property
    def left_out(self) -> int:
        """Return the offset behind all records that were left out; 0 if none was."""
        return max((*(gap.stop for gap in self.gaps), *(offset + 1 for offset in self.skips)), default=0)


class Skip(NamedTuple):
    """A record that is not learned, because an operator has named it, and the model's lineage from then on."""

    offset: int
    lineage: Lineage


class SnapshotPointer(NamedTuple):
    """Says where in the models topic a snapshot is, and what state it holds.

    at           the first offset of the examples that it has not learned
    first, last  its first and last message in the models topic; -1 if it is in a file
    digest       of the model's state, 32 hex digits
    """

    at: Offset
    first: OffsetOrNone
    last: OffsetOrNone
    digest: StateHash


class OffsetMetadata(NamedTuple):
    """Holds the metadata of a committed offset; `merge` is None where models are not merged."""

    lineage: Lineage
    snapshot: SnapshotPointer | None
    merge: MergeNote | None = None

    def to_text(self) -> str:
        """Return the text that is committed with the offset."""
        start, model, gaps, skips = self.lineage
        content: dict[str, Any] = {"v": FORMAT, "start": start, "model": model}
        if gaps:
            content["gaps"] = gaps
        if skips:
            content["skips"] = skips
        if self.snapshot is not None:
            content["snapshot"] = self.snapshot
        if self.merge is not None:
            content["merge"] = self.merge.content()
        return json.dumps(content, separators=(",", ":"))


class _StoredNote(Stored):
    """Checks the text that `OffsetMetadata.to_text` has written."""

    start: Offset
    model: str
    gaps: tuple[Gap, ...] = ()
    skips: tuple[Offset, ...] = ()
    snapshot: SnapshotPointer | None = None
    merge: MergeNote | None = None


class ForeignNoteError(ConfigurationError):
    """An offset has no note of a worker: something else has committed it."""


class OtherSettingsError(ConfigurationError):
    """An offset's metadata is of a model with other settings; `noted` is what that model's worker wrote."""

    def __init__(self, message: str, noted: OffsetMetadata) -> None:
        super().__init__(message)
        self.noted = noted


class Provenance(NamedTuple):
    """Identifies the models of one consumer group, on these topics, made with these settings.

    settings  the sections of the configuration that a model depends on, in JSON types; and, if models start from one in
              a file, `from_model`
    merging   how the models of all partitions become one now and then; None if each stays its own
    """

    group: str
    topics: Topics
    settings: Mapping[str, Any]
    merging: MergeSettings | None = None

    @classmethod
    def of(cls, config: Config) -> "Provenance":
        """Return the provenance of a configuration's models; ConfigurationError if they start from no model file."""
        topics, merge = Topics(*config.topics.names(merging=config.merging)), None
        if config.merging:
            forever = config.merge.patience == FOREVER
            merge = MergeSettings(
                config.merge.every,
                config.merge.parents,
                math.inf if forever else config.merge.patience / 1000,
                math.inf if forever else config.merge.max_hold / 1000,
            )
        settings = config.model_settings()
        if config.worker.from_model:
            settings[STARTED_FROM] = started_from(digest_of_file(Path(config.worker.from_model)))
        return cls(config.worker.group, topics, settings, merge)

    def lineage(self, partition: int, start: int, gaps: Sequence[Gap] = (), skips: Sequence[int] = ()) -> Lineage:
        """Return the lineage of the partition's model that begins at `start` and leaves out `gaps` and `skips`."""
        model = fingerprint(self.settings, self.topics.examples, partition, start, gaps, skips)
        return Lineage(start, model, tuple(gaps), tuple(skips))

    def lineages(self, partition: int, newest: Lineage) -> list[Lineage]:
        """Return every lineage that the model has had: the first leaves nothing out, the last is `newest`."""
        changes = sorted({*(gap.stop for gap in newest.gaps), *(offset + 1 for offset in newest.skips)})
        return [self.lineage_at(partition, newest, offset) for offset in (0, *changes)]

    def fingerprints(self, partition: int, newest: Lineage) -> list[str]:
        """Return every fingerprint that the model has had, one after each gap or skipped record; the newest is last."""
        return [each.model for each in self.lineages(partition, newest)]

    def lineage_at(self, partition: int, newest: Lineage, offset: int) -> Lineage:
        """Return the lineage that the model had at `offset`, before it left out anything that begins there."""
        gaps = [gap for gap in newest.gaps if gap.stop <= offset]
        return self.lineage(partition, newest.start, gaps, [skipped for skipped in newest.skips if skipped < offset])

    def skips(self, partition: int, lineage: Lineage, offsets: Iterable[int]) -> list[Skip]:
        """Return the skips of a model of this lineage at these offsets, which are behind all that it has left out."""
        found, skips = [], lineage.skips
        for offset in sorted(offsets):
            skips = (*skips, offset)
            found.append(Skip(offset, self.lineage(partition, lineage.start, lineage.gaps, skips)))
        return found

    def snapshot_key(self, partition: int, index: int | None = None) -> bytes:
        """Return the key of message `index` of a partition's snapshots; for None, what all of their keys begin with.

        Every snapshot has the same keys, so that compaction keeps one: a new snapshot displaces the last one as a
        whole, once it is committed. The key names the group, as other groups may keep models in the same topic.
        """
        return f"{self.group}/{partition}/{'' if index is None else index}".encode()

    def read_metadata(self, partition: int, committed: Committed) -> OffsetMetadata:
        """Return the metadata of a committed offset; ConfigurationError unless it is of a model of these settings.

        OtherSettingsError, which is a ConfigurationError, has the metadata of a model of other settings.
        """
        where = (
            f"at the committed offset {committed.offset} of {self.topics.examples}-{partition} in group {self.group}"
        )
        try:
            version = from_json(Versioned, committed.metadata).v
            note = from_json(_StoredNote, committed.metadata) if version == FORMAT else None
        except MalformedError as error:
            raise ForeignNoteError(
                f"expected a note of the model {where}, found {in_short(committed.metadata)!r} ({error}): "
                f"something else commits in this group; stop it, and let `stream-apple repair` rebuild the note"
            ) from None
        if note is None:
            raise ConfigurationError(
                f"expected a note of format {FORMAT} {where}, found {in_short(committed.metadata)!r}; {START_OVER}"
            )
        model, merge = note.model, note.merge
        ours = self.lineage(partition, note.start, note.gaps, note.skips)
        if model != ours.model:
            raise OtherSettingsError(
                f"expected model {ours.model} (of this configuration) {where}, found {in_short(model)}; "
                f"`stream-apple inspect` names what differs; restore the [learner], [epochs], [limits], [input], "
                f"[registry], [output], [merge] and worker.from_model it was made with, or {NEW_MODEL}",
                OffsetMetadata(Lineage(note.start, model, note.gaps, note.skips), note.snapshot, merge),
            )
        expected = None if self.merging is None else MergeNote.of(self.merging).settings
        if (found := None if merge is None else merge.settings) != expected:
            raise ConfigurationError(
                f"expected a note of a model that is {_rule(expected)} {where}, found one that is {_rule(found)}; "
                f"restore the [merge] it was made with, or {NEW_MODEL}"
            )
        return OffsetMetadata(ours, note.snapshot, merge)


def _rule(settings: tuple[int, str] | None) -> str:
    """Return a text that says how models are merged."""
    return "not merged" if settings is None else f"merged every {settings[0]} epochs by {settings[1]}"


def started_from(digest: str) -> dict[str, str]:
    """Return the entry under `STARTED_FROM` for a file with this digest, see `digest_of_file`."""
    return {"sha256": digest}


def digest_of_file(path: Path) -> str:
    """Return 64 hex digits over the bytes of the model file that new models start from.

    ConfigurationError if it is no model file. Start-up calls this before numpy is loaded, so only the file's first
    bytes are checked.
    """
    try:
        digest = digest_of(path, FILE_MAGIC)
    except UnreadableFileError as error:
        raise ConfigurationError(f"worker.from_model: {error}") from error
    if digest is None:
        raise ConfigurationError(
            f"worker.from_model: expected a file that `inspect --save` has written, or `merge`, found another: {path}"
        )
    return digest


def fingerprint(
    settings: Mapping[str, Any],
    topic: str,
    partition: int,
    start: int,
    gaps: Sequence[Gap] = (),
    skips: Sequence[int] = (),
) -> str:
    """Return 16 hex digits that differ whenever settings, format, or origin of the records differ."""
    described: dict[str, Any] = {
        "format": FORMAT,
        "settings": settings,
        "topic": topic,
        "partition": partition,
        "start": start,
    }
    if gaps:
        described["gaps"] = gaps
    if skips:
        described["skips"] = skips
    canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def is_fingerprint(text: object) -> TypeGuard[str]:
    """Whether this has the form of a fingerprint."""
    return isinstance(text, str) and _FINGERPRINT.fullmatch(text) is not None


def noted_model(committed: Committed) -> str | None:
    """Return the fingerprint in the metadata of any group's committed offset; None if no worker has committed it."""
    try:
        model = json.loads(committed.metadata)["model"]
    except (ValueError, TypeError, KeyError):
        return None
    return model if is_fingerprint(model) else None


class Origin(NamedTuple):
    """Says which model an output message is of, and which example it answers."""

    model: str
    topic: str
    partition: int
    example: int


Identify = Callable[[Record], Origin | None]
"""(message of an output topic) -> its origin; None if readers can't use it."""


def origin_of_prediction(record: Record) -> Origin | None:
    """Return the origin in a prediction's value; None if the record is no prediction."""
    try:
        told = decode_prediction(record.value() or b"")
        model, topic, partition, offset = (told[name] for name in ("model", "topic", "partition", "offset"))
    except (ValueError, KeyError):
        return None
    if not (isinstance(topic, str) and is_offset(partition) and is_offset(offset) and is_fingerprint(model)):
        return None
    return Origin(model, topic, partition, offset)
