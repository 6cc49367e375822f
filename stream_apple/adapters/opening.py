"""What a worker does first, before the imports that take longest: its predecessor's end needs time, but none of ours.

The port comes before Kafka, so that a second worker of the same identity on one machine ends before it puts out the
first. Nothing here may import numpy or numba.
"""

import socket
from typing import NamedTuple

from stream_apple.adapters.clients import Identity
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError


class Opening(NamedTuple):
    """A socket that listens, and a connection that has begun to fence predecessors."""

    listener: socket.socket
    kafka: KafkaBroker


def open_up(config: Config) -> Opening:
    """Take the port, connect to Kafka and begin to fence; ConfigurationError if the port or the client refuses."""
    listener = listen(config.http.host, config.http.port)
    kafka = connect(config)
    kafka.prepare()
    return Opening(listener, kafka)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any, host `::` all of IPv6 and IPv4. ConfigurationError if it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=host == "::")
    except OSError as error:
        raise ConfigurationError(
            f"http: expected to listen on {host} port {port}, found: {error.strerror or error}"
        ) from error


def connect(config: Config) -> KafkaBroker:
    """The Kafka clients of this worker."""
    worker = config.worker
    identity = Identity(worker.group, worker.id, worker.transactional_id)
    return KafkaBroker(config.kafka, identity, config.topics.examples)
