"""Faults of topics and of timeouts that would end a worker, or a joiner, soon after its start."""

from stream_apple.adapters.kafka.admin import Cluster, timeout_faults
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics, topic_faults
from stream_apple.errors import BrokerError


def lasting_faults(cluster: Cluster, needed: NeededOfTopics) -> list[str]:
    """Return what is wrong with these topics until an administrator changes it; nothing if no broker answers."""
    try:
        return [str(fault) for fault in topic_faults(cluster, needed) if fault.lasting]
    except BrokerError:
        return []


def client_faults(cluster: Cluster) -> list[str]:
    """Return faults of timeouts that the brokers would refuse; they refuse the session's only after the fencing."""
    if not {"session.timeout.ms", "transaction.timeout.ms"} & cluster.properties.keys():
        return []  # brokers accept the default timeouts by their own defaults, so they need not all be asked
    try:
        return [f"kafka: {fault}" for fault in timeout_faults(cluster)]
    except BrokerError:
        return []
