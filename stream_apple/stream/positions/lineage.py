"""Whose model it is, what it descends from, and how the committed offset remembers that.

A model is a function of its settings and of the records of one partition from `start` on, without the gaps that an
operator has accepted and the records that one has named to be skipped. The fingerprint names that function: it stands
in every prediction, and beside every committed offset, so that a worker with other settings, or a group whose offsets
something else has moved, is told apart before a record is learned twice. Beside it stands where the newest snapshot of
the model is.

`Provenance` is the one that knows: whoever makes, restores, verifies, inspects or checks a model asks it.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import msgpack

from stream_apple.config import Config
from stream_apple.config.duration import FOREVER
from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed, Record
from stream_apple.stream.positions.merge_note import MergeNote, MergeSettings
from stream_apple.untrusted import (
    Epoch,
    MalformedError,
    Offset,
    StateHash,
    Stored,
    UnreadableFileError,
    Versioned,
    digest_of,
    from_json,
    in_short,
)

FORMAT = 1
"""Changes with everything that makes the same settings and records give another model."""

MAX_GAPS = 64
"""So many fit beside a committed offset, where the broker accepts 4096 bytes, together with the skips."""
MAX_SKIPS = 32

FILE_MAGIC = b"stream_apple model "
"""What a model file begins with."""

STARTED_FROM = "from_model"
"""Beside the sections of settings that a model depends on: the file that it started from, if there is one."""

NEW_MODEL = "use a new worker.group, with topics.predictions and topics.dead_letters of its own, to begin a new model"
"""The advice where a group can't go on; in the old group's topics, its answers would be second ones."""

_FINGERPRINT = re.compile("[0-9a-f]{16}")


class Topics(NamedTuple):
    """Where records come from and go to. `merges`: "" where models are not merged."""

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
    """Where a model that stands at `offset` reads on."""
    return next((gap.stop for gap in gaps if gap.start == offset), offset)


class Lineage(NamedTuple):
    """The first offset ever learned, what was left out since, and the model's fingerprint. `skips`: offsets."""

    start: int
    model: str
    gaps: tuple[Gap, ...] = ()
    skips: tuple[int, ...] = ()

    @property
    def left_out(self) -> int:
        """Return the offset behind all that was left out."""
        return max((*(gap.stop for gap in self.gaps), *(offset + 1 for offset in self.skips)), default=0)


class Skip(NamedTuple):
    """A record that is not learned, because an operator has named it, and the model's lineage from then on."""

    offset: int
    lineage: Lineage


class SnapshotPointer(NamedTuple):
    """Says where in the models topic a snapshot is, and what state it holds.

    at           the first offset of the examples that it has not learned
    first, last  its first and last message in the models topic
    digest       of the model's state, 32 hex digits
    """

    at: Offset
    first: Epoch
    last: Epoch
    digest: StateHash

    @property
    def refers(self) -> bool:
        """Whether it is one message, which names the merged model whose table it has: whole ones are several."""
        return self.first == self.last >= 0


class OffsetMetadata(NamedTuple):
    """What stands beside a committed offset. `merge`: None where models are not merged."""

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
    """Reads the text that `OffsetMetadata.to_text` has written."""

    start: Offset
    model: str
    gaps: tuple[Gap, ...] = ()
    skips: tuple[Offset, ...] = ()
    snapshot: SnapshotPointer | None = None
    merge: MergeNote | None = None


class OtherSettingsError(ConfigurationError):
    """What stands beside an offset is the note of a model of other settings: `noted`, as that model wrote it."""

    def __init__(self, message: str, noted: OffsetMetadata) -> None:
        super().__init__(message)
        self.noted = noted


class Provenance(NamedTuple):
    """Whose models: those of one consumer group, on these topics, made with these settings.

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
        """Whose models a configuration is about; ConfigurationError if the file they start from is no model file."""
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
        """The lineage of the partition's model that begins at `start`, jumps over `gaps` and leaves out `skips`."""
        model = fingerprint(self.settings, self.topics.examples, partition, start, gaps, skips)
        return Lineage(start, model, tuple(gaps), tuple(skips))

    def lineages(self, partition: int, newest: Lineage) -> list[Lineage]:
        """Every lineage that the model has had: the first leaves nothing out, the last is `newest`."""
        changes = sorted({*(gap.stop for gap in newest.gaps), *(offset + 1 for offset in newest.skips)})
        return [self.lineage_at(partition, newest, offset) for offset in (0, *changes)]

    def lineage_at(self, partition: int, newest: Lineage, offset: int) -> Lineage:
        """The lineage that the model had when it stood at `offset`, before it left out what begins there."""
        gaps = [gap for gap in newest.gaps if gap.stop <= offset]
        return self.lineage(partition, newest.start, gaps, [skipped for skipped in newest.skips if skipped < offset])

    def skips(self, partition: int, lineage: Lineage, offsets: Iterable[int]) -> list[Skip]:
        """What a model of this lineage has to leave out, of these offsets behind all that it has left out before."""
        found, skips = [], lineage.skips
        for offset in sorted(offsets):
            skips = (*skips, offset)
            found.append(Skip(offset, self.lineage(partition, lineage.start, lineage.gaps, skips)))
        return found

    def snapshot_key(self, partition: int, index: int | None = None) -> bytes:
        """The key of message `index` of a partition's snapshots, or what all of their keys begin with.

        Always the same, so that compaction keeps one snapshot: a new one displaces the last when it is committed,
        whole. Other groups may keep their models in the same topic.
        """
        return f"{self.group}/{partition}/{'' if index is None else index}".encode()

    def read_metadata(self, partition: int, committed: Committed) -> OffsetMetadata:
        """What stands beside a committed offset; ConfigurationError unless it is of a model of these settings."""
        where = (
            f"at the committed offset {committed.offset} of {self.topics.examples}-{partition} in group {self.group}"
        )
        try:
            version = from_json(Versioned, committed.metadata).v
            note = from_json(_StoredNote, committed.metadata) if version == FORMAT else None
        except MalformedError as error:
            raise ConfigurationError(
                f"expected a note of the model {where}, found {in_short(committed.metadata)!r} ({error}): "
                f"something else commits in this group; {NEW_MODEL}"
            ) from None
        if note is None:
            raise ConfigurationError(
                f"expected a note of format {FORMAT} {where}, found {in_short(committed.metadata)!r}; "
                f"go back to the version that wrote it, or {NEW_MODEL}"
            )
        model, merge = note.model, note.merge
        ours = self.lineage(partition, note.start, note.gaps, note.skips)
        if model != ours.model:
            raise OtherSettingsError(
                f"expected model {ours.model} (of this configuration) {where}, found {in_short(model)}; "
                f"restore the [learner], [epochs], [limits], [input] and worker.from_model it was made with, "
                f"or {NEW_MODEL}",
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
    """Say in words how models are merged."""
    return "not merged" if settings is None else f"merged every {settings[0]} epochs by {settings[1]}"


def started_from(digest: str) -> dict[str, str]:
    """What stands of a file under `STARTED_FROM`; `digest` as of `digest_of_file`."""
    return {"sha256": digest}


def digest_of_file(path: Path) -> str:
    """64 hex digits over the bytes of the model file that new models start from.

    ConfigurationError if there is none. Start-up asks, before numpy is loaded: only what it begins with is looked at.
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
    """16 hex digits that differ whenever settings, format, or origin of the records differ."""
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
    """Whether this is the fingerprint of some model."""
    return isinstance(text, str) and _FINGERPRINT.fullmatch(text) is not None


def noted_model(committed: Committed) -> str | None:
    """The fingerprint beside a committed offset, whichever group's; None if no worker has committed it."""
    try:
        model = json.loads(committed.metadata)["model"]
    except (ValueError, TypeError, KeyError):
        return None
    return model if is_fingerprint(model) else None


class Origin(NamedTuple):
    """Which model an output message is of, and the example that it answers."""

    model: str
    topic: str
    partition: int
    example: int


def origin_of_prediction(record: Record) -> Origin | None:
    """The origin of a prediction, from its value; None if it is none."""
    try:
        told = decode_prediction(record.value() or b"")
        model, topic, partition, offset = (told[name] for name in ("model", "topic", "partition", "offset"))
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException):
        return None
    if not (isinstance(partition, int) and isinstance(offset, int) and isinstance(topic, str)):
        return None
    if isinstance(partition, bool) or isinstance(offset, bool) or partition < 0 or offset < 0:
        return None
    return Origin(model, topic, partition, offset) if is_fingerprint(model) else None
