"""Where the model of a newly assigned partition comes from, decided by what is committed and what is in the log.

    nothing committed             a new model, from the first record that the log has
    committed, model still here   go on from where it stands, unless it has learned what was never committed
    committed                     a new model that replays from its first record, silent up to the committed offset

A record that the model needs and the log no longer has is a gap: GapError, never a shortcut.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stream_apple.errors import GapError
from stream_apple.runtime.lineage import Lineage, committed_lineage, lineage_of
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.step import PartitionModel

NewModel = Callable[[int, Lineage], PartitionModel]
"""(partition, lineage) -> a model that has learned nothing."""


class Origin(NamedTuple):
    """Where records come from and what fingerprints are made of."""

    topic: str
    group: str
    model_settings: Mapping[str, Any]


class Recovery:
    """Finds or makes models."""

    def __init__(self, origin: Origin, new_model: NewModel) -> None:
        self._origin = origin
        self._new_model = new_model

    def model_for(
        self, partition: int, committed: Committed | None, log: LogRange, kept: PartitionModel | None
    ) -> PartitionModel:
        """The model of `partition`; its `publish_from` is the committed offset.

        ConfigurationError if the committed offset belongs to another model, GapError if records are gone.
        """
        topic, group, settings = self._origin
        if committed is None:
            return self._new_model(partition, lineage_of(settings, topic, partition, log.low))
        lineage = committed_lineage(committed, settings, topic, partition, group)
        if committed.offset > log.high:
            raise GapError(
                f"expected {topic}-{partition} to reach the committed offset {committed.offset} of group {group}, "
                f"found its end at {log.high}: was the topic made anew? Use a new worker.group to begin a new model"
            )
        usable = kept is not None and kept.lineage == lineage and kept.next_offset <= committed.offset
        model = kept if kept is not None and usable else self._new_model(partition, lineage)
        if model.next_offset < log.low:
            raise GapError(
                f"expected the records of {topic}-{partition} from offset {model.next_offset} on, which model "
                f"{lineage.model} of group {group} has yet to learn, found {log.low} as the first: the others are "
                f"gone. Lengthen the topic's retention, and use a new worker.group to begin a new model"
            )
        model.publish_from = committed.offset
        return model
