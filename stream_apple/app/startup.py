"""The first steps of a worker, before its slowest imports, as fencing the predecessor takes time but no computation.

The port is taken before Kafka is asked. Then a thread checks everything that can be known to be wrong, and that no
process of this machine has the same identity: a worker must not fence another whose place it can't take. Nothing here
may import numpy or numba.
"""

import socket
from concurrent.futures import Future  # noqa: TC003  an import like the others
from pathlib import Path
from typing import NamedTuple

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, checked_properties
from stream_apple.adapters.kafka.executor import AbandonableExecutor
from stream_apple.adapters.kafka.preflight.before_fencing import check_before_fencing
from stream_apple.app import identity
from stream_apple.app.topic_owner import refuse_topics_of_others
from stream_apple.config import Config
from stream_apple.config.memory import check_models_fit
from stream_apple.errors import ConfigurationError
from stream_apple.http.listener import listen
from stream_apple.records.message.message_size import largest_dead_letter
from stream_apple.stream.log.ports import nothing_to_abort
from stream_apple.stream.positions.lineage import digest_of_file

_ANSWER_S = 3.0  # for each question: a silent broker must not delay the start for long
_IDLE_READERS = 9  # a leader reads eight contributions at once while partitions wait, and one merged model is read


class Opening(NamedTuple):
    """Holds a listening socket, the Kafka clients, which have fenced no one yet, and the permission to fence.

    permission  done when all checks are; the worker must end with its error, if it has one
    """

    listener: socket.socket
    kafka: KafkaBroker
    permission: "Future[None]"

    def start_fencing(self) -> None:
        """Fence predecessors in the background, once that is permitted."""
        self.kafka.start_fencing(self.permission.result)


def open_up(config: Config) -> Opening:
    """Take the port, connect to Kafka, and begin the checks in the background; `config` has a worker.id.

    ConfigurationError if one model, the copy for its snapshot, a merged one and the one to start from don't fit into
    memory, if the file to start from is no model file, if the port is taken, if the clients can't work with their
    properties, or if one refuses its configuration. Errors of the background checks are in `permission`.
    """
    models = (3 if config.merging else 2) + bool(config.worker.from_model)
    check_models_fit(config.learner.options(config.limits.max_features_per_example), models)
    if config.worker.from_model:
        digest_of_file(Path(config.worker.from_model))
    listener = listen(config.http.host, *config.http.ports)
    try:
        kafka = connect(config)
    except ConfigurationError:
        listener.close()
        raise
    executor = AbandonableExecutor("permission", kafka)
    permission = executor.submit(lambda: _look_around(config, kafka))
    executor.close()
    return Opening(listener, kafka, permission)


def _look_around(config: Config, kafka: KafkaBroker) -> None:
    """Return if this worker may fence others; else raise the error with which it must end."""
    # The first question also waits for the cluster, and raises the reason if it does not answer.
    with nothing_to_abort():
        counted = {topic: kafka.partition_count(topic) for topic in config.topics.names(merging=config.merging)}
    cluster = Cluster(config.kafka, _ANSWER_S, counted)
    check_before_fencing(cluster, config)
    refuse_topics_of_others(config, cluster)
    identity.hold(config, str(cluster.id))


def connect(config: Config) -> KafkaBroker:
    """Return the Kafka clients of this worker; ConfigurationError if they can't work with their properties."""
    worker = config.worker
    largest = largest_dead_letter(config.limits.max_record_bytes)  # messages of snapshots are smaller
    properties = checked_properties(config.kafka, worker.commit_interval, largest)
    who = Identity(worker.group, worker.id, worker.transactional_id)
    idle_readers = _IDLE_READERS if config.merging else 0
    return KafkaBroker(properties, who, config.topics.examples, idle_readers=idle_readers)
