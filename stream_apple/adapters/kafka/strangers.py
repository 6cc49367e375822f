"""Warns of strangers: members of the workers' group that are no workers, and whose commits replace workers' notes.

Workers are static members. The id of any other member begins with its client id. A static member of another application
looks like a worker.

librdkafka aborts the process if a coordinator fails while an admin client asks it (its pull request 5397). The older
request `list_groups` looks up no coordinator: it asks each broker for its own groups.
"""

import warnings
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException

from stream_apple.adapters.kafka.admin import Cluster

_UUID = 37  # characters at the end of a member id, with the hyphen before them

_log = structlog.get_logger()


class Strangers:
    """Logs each stranger in a group once.

    worker  the instance id of this worker; if that is its client id, too, workers look like strangers: none is logged
    """

    def __init__(self, group: str, worker: str) -> None:
        self._group = group
        self._worker = worker
        self._logged = set[str]()
        warnings.filterwarnings("ignore", "list_groups", DeprecationWarning)

    def look(self, cluster: Cluster) -> None:
        """Ask for the members now; a broker that does not answer has none."""
        if cluster.properties.get("client.id") == self._worker:
            return
        groups = []
        with suppress(KafkaException):
            groups = cluster.client.list_groups(self._group, timeout=cluster.request_s)
        for member in (member for group in groups for member in group.members):
            name = str(member.id)
            if name[:-_UUID] == member.client_id and name not in self._logged:
                self._logged.add(name)
                _log.warning("stranger_in_group", client=member.client_id, host=member.client_host)
