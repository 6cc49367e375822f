"""Warns of strangers: members of the workers' group that are no workers, and whose commits replace workers' notes.

Workers are static members. The id of any other member begins with its client id. A static member of another application
looks like a worker.

librdkafka aborts the process if a coordinator fails while an admin client asks it (its pull request 5397). The older
request `list_groups` looks up no coordinator: it asks each broker for its own groups.
"""

import threading
import warnings
from contextlib import suppress
from itertools import chain
from typing import Self

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.kafka.admin import SILENT
from stream_apple.adapters.kafka.client_properties import Properties

LOOK_EVERY_S = 60.0
_ANSWER_S = 5.0
_UUID = 37  # characters at the end of a member id, with the hyphen before them

_log = structlog.get_logger()


class StrangerWatch:
    """Looks at a group's members each minute while its context lasts, on a thread; logs each stranger once.

    worker  the instance id of this worker; if that is its client id, too, workers look like strangers: none is logged
    """

    def __init__(self, properties: Properties, group: str, worker: str, every_s: float = LOOK_EVERY_S) -> None:
        self._properties = properties
        self._group = group
        self._every_s = every_s
        self._stop = threading.Event()
        if properties.get("client.id") == worker:
            self._stop.set()
        self._thread = threading.Thread(target=self._run, name="strangers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()  # the thread may be in a request, which nobody waits for

    def _run(self) -> None:
        warnings.filterwarnings("ignore", "list_groups", DeprecationWarning)
        logged = set[str]()
        client: AdminClient | None = None
        while not self._stop.wait(self._every_s):
            with suppress(KafkaException):
                client = client or AdminClient({**self._properties}, logger=SILENT)
                for member in chain(*(group.members for group in client.list_groups(self._group, timeout=_ANSWER_S))):
                    name = str(member.id)
                    if name[:-_UUID] == member.client_id and name not in logged:
                        logged.add(name)
                        _log.warning("stranger_in_group", client=member.client_id, host=member.client_host)
