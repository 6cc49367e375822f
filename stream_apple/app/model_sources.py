"""Makes the parts that every reader of a group's models needs."""

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import onlooker_factory
from stream_apple.app.starting_model import starting_model
from stream_apple.config import Config
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.walk.sources import Sources


def sources_of(config: Config, logs: KafkaLogs) -> Sources:
    """Return the logs and snapshots of a configuration's group, with the factory of its models."""
    provenance = Provenance.of(config)
    new_model = onlooker_factory(config, starting_model(config, provenance))
    return Sources(logs, provenance, new_model, config.worker.fetch_records)
