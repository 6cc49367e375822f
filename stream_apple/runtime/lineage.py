"""Whose model it is, what it descends from, and how the committed offset remembers that.

A model is a function of its settings and of the records of one partition from `start` on, without the gaps that an
operator has accepted. The fingerprint names that function: it stands in every prediction, and beside every
committed offset, so that a worker with other settings, or a group whose offsets something else has moved, is told
apart before a record is learned twice. Beside it stands where the newest snapshot of the model is.

`Provenance` is the one that knows: whoever makes, restores, verifies, inspects or checks a model asks it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.ports import Committed

FORMAT = 1
"""Changes with everything that makes the same settings and records give another model."""

MAX_GAPS = 64
"""So many fit beside a committed offset, where the broker accepts 4096 bytes."""

_NEW_MODEL = "use a new worker.group to begin a new model"


class Topics(NamedTuple):
    """Where records come from and go to."""

    examples: str
    predictions: str
    dead_letters: str
    models: str


class Gap(NamedTuple):
    """Offsets [start, stop) were gone from the log before they were learned, and an operator has accepted it."""

    start: int
    stop: int


class Lineage(NamedTuple):
    """The first offset ever learned, the gaps since, and the model's fingerprint."""

    start: int
    model: str
    gaps: tuple[Gap, ...] = ()


class SnapshotPointer(NamedTuple):
    """Where a snapshot is.

    at           the first offset of the examples that it has not learned
    first, last  its first and last message in the models topic
    digest       of the model's state, 32 hex digits
    """

    at: int
    first: int
    last: int
    digest: str


class OffsetMetadata(NamedTuple):
    """What stands beside a committed offset."""

    lineage: Lineage
    snapshot: SnapshotPointer | None

    def to_text(self) -> str:
        """The text that is committed with the offset."""
        start, model, gaps = self.lineage
        content: dict[str, Any] = {"v": FORMAT, "start": start, "model": model}
        if gaps:
            content["gaps"] = gaps
        if self.snapshot is not None:
            content["snapshot"] = self.snapshot
        return json.dumps(content, separators=(",", ":"))


class Provenance(NamedTuple):
    """Whose models: those of one consumer group, on these topics, made with these settings.

    settings  the sections of the configuration that a model depends on, in JSON types
    """

    group: str
    topics: Topics
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, config: Config) -> "Provenance":
        """Whose models a configuration is about."""
        return cls(config.worker.group, Topics(**config.topics.model_dump()), config.model_settings())

    def lineage(self, partition: int, start: int, gaps: Sequence[Gap] = ()) -> Lineage:
        """The lineage of the partition's model that begins at `start` and jumps over `gaps`."""
        model = fingerprint(self.settings, self.topics.examples, partition, start, gaps)
        return Lineage(start, model, tuple(gaps))

    def lineages(self, partition: int, newest: Lineage) -> list[Lineage]:
        """Every lineage that the model has had: the first knows of no gap, the last is `newest`."""
        return [self.lineage(partition, newest.start, newest.gaps[:n]) for n in range(len(newest.gaps) + 1)]

    def lineage_at(self, partition: int, newest: Lineage, offset: int) -> Lineage:
        """The lineage that the model had when it stood at `offset`, before it jumped over a gap that begins there."""
        passed = sum(gap.stop <= offset for gap in newest.gaps)
        return self.lineage(partition, newest.start, newest.gaps[:passed])

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
            content = json.loads(committed.metadata)
            version, start, model = content["v"], content["start"], content["model"]
            gaps = tuple(Gap(*gap) for gap in content.get("gaps", ()))
            snapshot = SnapshotPointer(*content["snapshot"]) if "snapshot" in content else None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ConfigurationError(
                f"expected a note of the model {where}, found {committed.metadata!r}: "
                f"something else commits in this group; {_NEW_MODEL}"
            ) from None
        if version != FORMAT or not isinstance(start, int):
            raise ConfigurationError(
                f"expected a note of format {FORMAT} {where}, found {committed.metadata!r}; "
                f"go back to the version that wrote it, or {_NEW_MODEL}"
            )
        ours = self.lineage(partition, start, gaps)
        if model != ours.model:
            raise ConfigurationError(
                f"expected model {ours.model} (of this configuration) {where}, found {model}; "
                f"restore the [learner], [epochs] and [limits] it was made with, or {_NEW_MODEL}"
            )
        return OffsetMetadata(ours, snapshot)


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
