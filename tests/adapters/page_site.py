"""A server of the status page beside a worker that is made up, except for its model."""

import json
import urllib.error
import urllib.request
from email.message import Message
from typing import Any

from runtime.planted_pair import SETTINGS, finder, planted
from runtime.records import DECODER, FakeRecord

from stream_apple.adapters.http import Server, routes
from stream_apple.adapters.opening import listen
from stream_apple.adapters.page import page_routes
from stream_apple.adapters.status import Status
from stream_apple.config import Config
from stream_apple.core.rejects import Reason
from stream_apple.runtime.deadletters import Reject
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import TimeBudget
from stream_apple.runtime.recovering import Left
from stream_apple.runtime.recovery import Found
from stream_apple.runtime.step import Outcome, PartitionModel
from stream_apple.runtime.watching import Watch

HOSTILE = "<img src=x onerror=alert(1)>"
CONFIG = Config.model_validate(
    {"kafka": {"bootstrap.servers": "kafka:9092", "sasl.password": "hunter2"}, "worker": {"id": "worker-7"}}
)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Site:
    """A server of a worker with two partitions: 0 has found the pair, 1 is being restored."""

    def __init__(self, port: int = 0) -> None:
        self.clock = Clock()
        self.watch = Watch()
        health, metrics = Health(), Metrics()
        metrics.describe({"group": "g", "worker": "w", "topic": "t", "method": "apple", "loss": "squared"}, 300.0, 60.0)
        status = Status(self.watch, metrics.registry, health, CONFIG.redacted(), self.clock)
        paths = {**routes(health, metrics.registry), **page_routes(status)}
        self.server = Server(listen("127.0.0.1", port), paths)
        records = planted(800)
        self.model, names = finder(records)
        self.watch.names.add(names.known().items())
        self.owned = {0: self._partition(self.model, State.LIVE), 1: self._partition(self._empty(), State.RESTORING)}
        self.watch.follow(lambda: self.owned)
        letter = FakeRecord(0, 77, b"?", 5)
        outcome = Outcome([], [], [Reject(0, Reason.MALFORMED, f"found {HOSTILE}")], [], 800, 0, 0)
        for partition in self.owned.values():
            metrics.entered(partition, partition.state)
        metrics.turned(TimeBudget(), self.owned, lambda _: 12, lambda _: Left(5, 1.0))
        metrics.processed(self.owned[0], outcome)
        self.watch.processed(self.owned[0], [letter], outcome)
        self.watch.take_points()

    @staticmethod
    def _empty() -> PartitionModel:
        return PartitionModel("examples", 1, Lineage(0, "f" * 16), SETTINGS, DECODER)

    @staticmethod
    def _partition(model: PartitionModel, state: State) -> Partition:
        partition = Partition(Found(model, None, restore=False, jump=None))
        partition.enter(state)
        return partition

    def ask(self, path: str) -> tuple[int, Message, bytes]:
        """Status, headers and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=10) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def facts(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and the JSON body."""
        status, headers, body = self.ask(path)
        assert headers["Content-Type"] == "application/json"
        return status, json.loads(body)
