"""A partition's model from Kafka: its newest snapshot, or the model as it was at any offset, learned again."""

from contextlib import closing, suppress

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config
from stream_apple.core.codec.feature_names import Names
from stream_apple.core.learner.preparation.preparation import ngrams_of
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.name_search import Wanted, find_names
from stream_apple.stream.following.as_of import Moment
from stream_apple.stream.following.rebuilding import rebuild
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer

_SHOWN = 1000  # how many monomials' names are looked for in the newest records


def read_from_kafka(config: Config, number: int, offset: int | None) -> tuple[PartitionModel, SnapshotPointer, Names]:
    """Return the model of a partition before `offset`, the pointer to its snapshot, and the names of its features.

    offset  None: the newest snapshot; else the model is learned again up to there, and the pointer names no snapshot

    Errors are those of `load_model`.
    """
    with closing(KafkaLogs(config)) as logs, closing(sources_of(config, logs)) as sources:
        committed = logs.committed_of(number)
        stored = sources.newest(number, committed)
        if offset is None:
            if stored.model is None or stored.metadata.snapshot is None:
                raise ConfigurationError(
                    f"expected a snapshot of group {config.worker.group} of partition {number}, found none: one is "
                    f"taken every worker.snapshot_interval, and when a worker stops; an offset has the model learned "
                    f"again"
                )
            model, pointer = stored.model, stored.metadata.snapshot
        else:
            model = rebuild(sources, stored, committed, Moment(number, offset))
            pointer = SnapshotPointer(model.next_offset, -1, -1, model.digest())
        names = Names(ngrams=ngrams_of(model.learner.options))
        view_model(model, names, _SHOWN)
        wanted = Wanted(number, committed.offset, names.missing)
        with suppress(GapError):  # retention may delete what is being read; a model without names is still of use
            find_names(logs, model.topic, wanted, settings_of(config).decoder(), names)
    return model, pointer, names
