"""A partition's model from Kafka: its newest snapshot, or the model as it was at any offset, learned again."""

from contextlib import closing, suppress

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.models import onlooker_factory, settings_of
from stream_apple.app.starting_model import starting_model
from stream_apple.config import Config
from stream_apple.core.codec.feature_names import Names
from stream_apple.core.learner.preparation.preparation import ngrams_of
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.name_search import Wanted, find_names
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.snapshots.store import SnapshotStore, StoredModel
from stream_apple.stream.verification.output_logs import scan_of
from stream_apple.stream.verification.replay import Outputs, Replay

_SHOWN = 1000  # monomials whose names are looked for among the newest records


def read_from_kafka(config: Config, number: int, offset: int | None) -> tuple[PartitionModel, SnapshotPointer, Names]:
    """Return the model of a partition before `offset`, where its state stands, and the names of its features.

    Errors as of `load_model`.
    """
    provenance = Provenance.of(config)
    new_model = onlooker_factory(config, starting_model(config, provenance))
    with closing(KafkaLogs(config)) as logs:
        committed = logs.committed(logs.chosen([number]))[number]
        if committed is None:
            raise ConfigurationError(
                f"expected an offset of {provenance.topics.examples}-{number} that group {provenance.group} has "
                f"committed, found none: no worker has published anything with this configuration"
            )
        stored = SnapshotStore(logs, provenance, new_model).newest(number, committed)
        if stored.fault is not None:
            raise stored.fault
        if offset is None:
            if stored.model is None or stored.metadata.snapshot is None:
                raise ConfigurationError(
                    f"expected a snapshot of group {provenance.group} of partition {number}, found none: one is taken "
                    f"every worker.snapshot_interval, and when a worker stops; an offset has the model learned again"
                )
            model, pointer = stored.model, stored.metadata.snapshot
        else:
            model = _learned_up_to(logs, config, provenance, committed, stored, number, offset)
            pointer = SnapshotPointer(model.next_offset, -1, -1, model.digest())
        names = Names(ngrams=ngrams_of(model.learner.options))
        view_model(model, names, _SHOWN)
        wanted = Wanted(number, committed.offset, names.missing)
        with suppress(GapError):  # retention may take away what is being read; names are a courtesy
            find_names(logs, model.topic, wanted, settings_of(config).decoder(), names)
    return model, pointer, names


def _learned_up_to(
    logs: KafkaLogs,
    config: Config,
    provenance: Provenance,
    committed: Committed,
    stored: StoredModel,
    number: int,
    offset: int,
) -> PartitionModel:
    """Return the model that has learned all records before `offset`: from its snapshot, or from the start."""
    topic, lineage = provenance.topics.examples, stored.metadata.lineage
    if config.merging:
        raise ConfigurationError(
            "offset: expected none where models are merged: what is adopted on the way is for `stream-apple verify`"
        )
    if not lineage.start <= offset <= committed.offset:
        raise ConfigurationError(
            f"offset: expected one from {lineage.start}, where the model of {topic}-{number} began, to the committed "
            f"{committed.offset}, found {offset}"
        )
    lineages = provenance.lineages(number, lineage)
    model = stored.model
    if model is None or model.next_offset > offset:
        low = logs.log_range(topic, number).low
        first = lineage.start
        for gap in lineage.gaps:
            first = gap.stop if gap.start == first else first
        if first < low:
            raise GapError(
                f"expected the records of {topic}-{number} from offset {first} on, to learn the model again, found "
                f"{low} as the first: the others are gone, and the newest snapshot is behind offset {offset}"
            )
        new_model = onlooker_factory(config, starting_model(config, provenance))
        model = new_model(number, lineages[0]).begin()
    replay, outputs = Replay(model, stored.metadata, lineages, offset), Outputs([], [])
    with closing(scan_of(logs, topic, number, range(model.next_offset, offset), config.worker.fetch_records)) as scan:
        for records in scan.batches():
            for _ in replay.learn(records, outputs):
                pass
            outputs.predictions.clear()
            outputs.dead_letters.clear()
    replay.finish()
    return replay.model
