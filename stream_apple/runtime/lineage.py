"""What a model descends from, and how the committed offset remembers it.

A model is a function of its settings and of the records of one partition from `start` on, without the gaps that an
operator has accepted. The fingerprint names that function: it stands in every prediction, and beside every
committed offset, so that a worker with other settings, or a group whose offsets something else has moved, is told
apart before a record is learned twice. Beside it stands where the newest snapshot of the model is.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.errors import ConfigurationError
from stream_apple.runtime.ports import Committed

FORMAT = 1
"""Changes with everything that makes the same settings and records give another model."""


MAX_GAPS = 64
"""So many fit beside a committed offset, where the broker accepts 4096 bytes."""


class Gap(NamedTuple):
    """Offsets [start, stop) were gone from the log before they were learned, and an operator has accepted it."""

    start: int
    stop: int


class Lineage(NamedTuple):
    """The first offset ever learned, the gaps since, and the model's fingerprint."""

    start: int
    model: str
    gaps: tuple[Gap, ...] = ()


class Pointer(NamedTuple):
    """Where a snapshot is.

    at           the first offset of the examples that it has not learned
    first, last  its first and last message in the models topic
    digest       of the model's state, 32 hex digits
    """

    at: int
    first: int
    last: int
    digest: str


class Note(NamedTuple):
    """What stands beside a committed offset."""

    lineage: Lineage
    snapshot: Pointer | None

    def to_metadata(self) -> str:
        """The text that is committed with the offset."""
        start, model, gaps = self.lineage
        note: dict[str, Any] = {"v": FORMAT, "start": start, "model": model}
        if gaps:
            note["gaps"] = gaps
        if self.snapshot is not None:
            note["snapshot"] = self.snapshot
        return json.dumps(note, separators=(",", ":"))


def fingerprint(settings: Mapping[str, Any], topic: str, partition: int, start: int, gaps: Sequence[Gap] = ()) -> str:
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
    canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def lineage_of(
    settings: Mapping[str, Any], topic: str, partition: int, start: int, gaps: Sequence[Gap] = ()
) -> Lineage:
    """The lineage of a model that begins at `start` and jumps over `gaps`."""
    return Lineage(start, fingerprint(settings, topic, partition, start, gaps), tuple(gaps))


def committed_note(committed: Committed, settings: Mapping[str, Any], topic: str, partition: int, group: str) -> Note:
    """What stands beside a committed offset; ConfigurationError unless it is of a model of our settings."""
    where = f"at the committed offset {committed.offset} of {topic}-{partition} in group {group}"
    advice = "use a new worker.group to begin a new model"
    try:
        stored = json.loads(committed.metadata)
        version, start, model = stored["v"], stored["start"], stored["model"]
        gaps = tuple(Gap(*gap) for gap in stored.get("gaps", ()))
        snapshot = Pointer(*stored["snapshot"]) if "snapshot" in stored else None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigurationError(
            f"expected a note of the model {where}, found {committed.metadata!r}: "
            f"something else commits in this group; {advice}"
        ) from None
    if version != FORMAT or not isinstance(start, int):
        raise ConfigurationError(
            f"expected a note of format {FORMAT} {where}, found {committed.metadata!r}; "
            f"go back to the version that wrote it, or {advice}"
        )
    ours = lineage_of(settings, topic, partition, start, gaps)
    if model != ours.model:
        raise ConfigurationError(
            f"expected model {ours.model} (of this configuration) {where}, found {model}; "
            f"restore the [learner], [epochs] and [limits] it was made with, or {advice}"
        )
    return Note(ours, snapshot)
