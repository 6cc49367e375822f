"""What a worker does first, before the imports that take longest: its predecessor's end needs time, but none of ours.

The port comes before Kafka, so that a second worker of the same identity on one machine ends before it fences the
first. Nothing here may import numpy or numba.
"""

import socket
from pathlib import Path
from typing import NamedTuple

from stream_apple.adapters.http.listener import listen
from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, Properties, check_properties, with_room
from stream_apple.config import Config
from stream_apple.config.memory import check_models_fit
from stream_apple.core.codec.message_size import largest_dead_letter
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.lineage import digest_of_file


class Opening(NamedTuple):
    """A socket that listens, and a connection that has begun to fence predecessors."""

    listener: socket.socket
    kafka: KafkaBroker


def open_up(config: Config) -> Opening:
    """Take the port, connect to Kafka and begin to fence.

    ConfigurationError if one model, the copy for its snapshot, a merged one and the one to start from don't fit into
    memory, if the clients can't work with their properties, if the file to start from is no model file, or if the port
    or a client refuses.
    """
    models = (3 if config.merging else 2) + bool(config.worker.from_model)
    check_models_fit(config.learner.options(config.limits.max_features_per_example), models)
    check_properties(_properties(config), config.worker.commit_interval, _largest(config))
    if config.worker.from_model:
        digest_of_file(Path(config.worker.from_model))
    listener = listen(config.http.host, config.http.port)
    try:
        kafka = connect(config)
    except ConfigurationError:
        listener.close()
        raise
    kafka.start_fencing()
    return Opening(listener, kafka)


def connect(config: Config) -> KafkaBroker:
    """The Kafka clients of this worker."""
    worker = config.worker
    identity = Identity(worker.group, worker.id, worker.transactional_id)
    return KafkaBroker(_properties(config), identity, config.topics.examples)


def _properties(config: Config) -> Properties:
    return with_room(config.kafka, _largest(config))


def _largest(config: Config) -> int:
    """Bytes of the largest message that is written; a snapshot's are smaller."""
    return largest_dead_letter(config.limits.max_record_bytes)
