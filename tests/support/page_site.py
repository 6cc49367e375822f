"""A server of the status page beside a worker that is made up, except for its model."""

from typing import Any

from support.clock import Clock
from support.local_http import Answer, fetch
from support.null_watchers import find_no_names
from support.planted_pair import SETTINGS, finder, planted
from support.records import DECODER, FakeRecord

from stream_apple.config import Config
from stream_apple.http.application import read_only, routes
from stream_apple.http.listener import listen
from stream_apple.http.pages import page_routes
from stream_apple.http.server import HttpServer
from stream_apple.http.status import Status
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.input_watch import InputWatch
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.observer import WorkerObserver
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.positions.lineage import Lineage

HOSTILE = "<img src=x onerror=alert(1)>"
CONFIG = Config.model_validate(
    {"kafka": {"bootstrap.servers": "kafka:9092", "sasl.password": "hunter2"}, "worker": {"id": "worker-7"}}
)


class Site:
    """A server of a worker with two partitions: 0 has found the pair, 1 is being restored."""

    def __init__(self, port: int = 0) -> None:
        self.clock = Clock(1000.0)
        self.input = InputWatch(None, None)
        self.watch = WorkerObserver(watch=self.input)
        self.health, self.metrics = Health(), Metrics(self.clock)
        self.backlog, self.left = 12, RecoveryLeft(5, 1.0)
        health, metrics = self.health, self.metrics
        health.watch_backlog(metrics.catching_up)
        metrics.watch_brokers(lambda: True)
        metrics.describe(
            {"group": "g", "worker": "w", "topic": "t", "method": "apple", "loss": "squared"}, 300.0, 60.0, 2
        )
        self.status = Status(self.watch, metrics, health, CONFIG.redacted(), find_no_names, self.clock)
        application = read_only([*routes(health, metrics.registry), *page_routes(self.status)])
        self.server = HttpServer(application, listen("127.0.0.1", port))
        records = planted(800)
        self.model, names = finder(records)
        self.watch.names.add(names.known().items())
        self.owned = {0: self._partition(self.model, State.LIVE), 1: self._partition(self._empty(), State.RESTORING)}
        self.watch.follow(lambda: self.owned, lambda _: 12.0)
        letter = FakeRecord(0, 77, b"?", 5)
        result = BatchResult([], [], [], [Reject(letter, Reason.MALFORMED, f"found {HOSTILE}")], [], 800, 0, 0, 800, {})
        for partition in self.owned.values():
            metrics.entered(partition, partition.state)
        self.refresh()
        metrics.processed(self.owned[0], result)
        self.watch.processed(self.owned[0], [letter], result)
        self.watch.take_points()

    def refresh(self) -> None:
        """Let the metrics see the model as it is now."""
        self.clock.now += 1.0  # what was shown before is out of date
        self.metrics._refresh_at = 0.0
        self.metrics.iterated(TimeBudget(Phase), self.owned, lambda _: self.backlog, lambda _: self.left)

    def be_ready(self) -> None:
        """From now on partition 0 is all that this worker has, and it is live."""
        self.metrics.entered(self.owned.pop(1), State.REVOKED)
        self.turn()

    def turn(self) -> None:
        """A turn of the loop is over."""
        self.health.compiled()
        self.health.iterated(self.owned.values())

    def work(self, seconds: int, per_second: int, more: int = 0) -> None:
        """Answer so many records in each of these seconds, while `more` come."""
        for _ in range(seconds):
            self.owned[0].sent_offset += per_second
            self.backlog = max(self.backlog + more - per_second, 0)
            self.refresh()
        self.turn()

    @staticmethod
    def _empty() -> PartitionModel:
        return PartitionModel("examples", 1, Lineage(0, "f" * 16), SETTINGS, DECODER)

    @staticmethod
    def _partition(model: PartitionModel, state: State) -> Partition:
        partition = Partition(model, RecoveryPlan(model.lineage, 0))
        partition.enter(state)
        return partition

    def show(self, model: PartitionModel) -> None:
        """As partition 0, from now on."""
        self.owned[0] = self._partition(model, State.LIVE)
        self.clock.now += 1000.0
        self.refresh()

    def ask(self, path: str) -> Answer:
        """What it answers."""
        return fetch(self.server.port, path)

    def facts(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and the JSON body."""
        answer = self.ask(path)
        return answer.status, answer.json()
