"""What a model descends from, and how the committed offset remembers it.

A model is a function of its settings and of the records of one partition from `start` on. The fingerprint names
that function: it stands in every prediction, and beside every committed offset, so that a worker with other
settings, or a group whose offsets something else has moved, is told apart before a record is learned twice.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from stream_apple.errors import ConfigurationError
from stream_apple.runtime.ports import Committed

FORMAT = 1
"""Changes with everything that makes the same settings and records give another model."""


class Lineage(NamedTuple):
    """The first offset ever learned, and the model's fingerprint."""

    start: int
    model: str

    def to_metadata(self) -> str:
        """The text that is committed with the offset (the broker's limit is 4096 bytes)."""
        return json.dumps({"v": FORMAT, "start": self.start, "model": self.model}, separators=(",", ":"))


def fingerprint(settings: Mapping[str, Any], topic: str, partition: int, start: int) -> str:
    """16 hex digits that differ whenever settings, format, or origin of the records differ."""
    described = {
        "format": FORMAT,
        "settings": settings,
        "topic": topic,
        "partition": partition,
        "start": start,
    }
    canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def lineage_of(settings: Mapping[str, Any], topic: str, partition: int, start: int) -> Lineage:
    """The lineage of a model that begins at `start`."""
    return Lineage(start, fingerprint(settings, topic, partition, start))


def committed_lineage(
    committed: Committed, settings: Mapping[str, Any], topic: str, partition: int, group: str
) -> Lineage:
    """The lineage that a committed offset belongs to; ConfigurationError unless it is that of our settings."""
    where = f"at the committed offset {committed.offset} of {topic}-{partition} in group {group}"
    advice = "use a new worker.group to begin a new model"
    try:
        stored = json.loads(committed.metadata)
        version, start, model = stored["v"], stored["start"], stored["model"]
    except (ValueError, TypeError, KeyError):
        raise ConfigurationError(
            f"expected a note of the model {where}, found {committed.metadata!r}: "
            f"something else commits in this group; {advice}"
        ) from None
    if version != FORMAT or not isinstance(start, int):
        raise ConfigurationError(
            f"expected a note of format {FORMAT} {where}, found {committed.metadata!r}; "
            f"go back to the version that wrote it, or {advice}"
        )
    ours = lineage_of(settings, topic, partition, start)
    if model != ours.model:
        raise ConfigurationError(
            f"expected model {ours.model} (of this configuration) {where}, found {model}; "
            f"restore the [learner], [epochs] and [limits] it was made with, or {advice}"
        )
    return ours
