"""One life of a worker in a simulation: the real loop, taken turn by turn, until it leaves or is killed."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self, cast

from runtime.records import DECODER, SETTINGS, TOPIC
from simulation.cluster import MemoryCluster
from simulation.faults import MADE_TO_FAIL, CrashError, Fault, FaultyBroker
from simulation.memory_broker import Member, MemoryBroker

from stream_apple.errors import StreamAppleError
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.loop import Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import ModelSettings, PartitionModel

GROUP = "group"
TOPICS = Topics(TOPIC, "predictions", "dead-letters", "models")


class End(StrEnum):
    """How a process ended."""

    CRASHED = "crashed"
    LEFT = "left"  # with an error
    STOPPED = "stopped"  # as it was asked to


class Setup(NamedTuple):
    """What a worker is configured with."""

    settings: ModelSettings = SETTINGS
    pace: Pace = Pace(fetch_records=7, commit_records=9, commit_interval_s=3600.0, snapshot_interval_s=3600.0)
    model: Mapping[str, Any] = {"learner": {"bits": 10}}
    accepted: frozenset[tuple[int, int]] = frozenset()


class Clock:
    """A clock that moves by `tick` seconds whenever somebody looks at it."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.seconds = 0.0

    def __call__(self) -> float:
        """Seconds since the start of the process."""
        self.seconds += self.tick
        return self.seconds


class Unmeasured:
    """In place of metrics, which cost more than all the rest of a small run: whatever is told, nothing is counted."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Process:
    """A worker with an identity; several may have the same. Without `measured` it has no samples.

    states  every state that a partition has been in
    models  the newest model made for each partition
    ended   None while it lives
    error   that it left with; `unprovoked` if neither a fault nor another member explains it
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        instance: str = "worker-0",
        faults: Sequence[Fault] = (),
        setup: Setup = Setup(),  # noqa: B008  a tuple of tuples
        *,
        tick: float = 0.0,
        measured: bool = True,
        delivery: Callable[[int], int] = lambda waiting: waiting,
    ) -> None:
        self.instance = instance
        self.models: dict[int, PartitionModel] = {}
        self.made = 0
        self.states: set[State] = set()
        self.ended: End | None = None
        self.error: StreamAppleError | None = None
        self.memory = MemoryBroker(cluster, Member(GROUP, instance, f"{GROUP}.{instance}"), TOPIC, delivery=delivery)
        self.broker = FaultyBroker(self.memory, faults)
        self.metrics = Metrics() if measured else cast("Metrics", Unmeasured())
        self.health = Health()
        self.unprovoked = False
        self._setup = setup
        self._started = False
        origin = Origin(TOPIC, GROUP, setup.model)
        self.loop = Loop(
            self.broker,
            TOPICS,
            setup.pace,
            Recovery(origin, self.new_model, setup.accepted),
            self.metrics,
            self.health,
            now=Clock(tick),
        )
        enter = self.loop._enter

        def entered(partition: Partition, state: State) -> None:
            self.states.add(state)
            enter(partition, state)

        self.loop._enter = entered  # type: ignore[method-assign]

    def new_model(self, partition: int, lineage: Lineage) -> PartitionModel:
        """As the composition root makes it."""
        self.made += 1
        self.models[partition] = PartitionModel(TOPIC, partition, lineage, self._setup.settings, DECODER)
        return self.models[partition]

    def run(self) -> Self:
        """The whole of a life at once; somebody must have arranged for `loop.stop`."""
        self.loop.run()
        return self

    def step(self) -> None:
        """Start, or take one turn. What ends `Loop.run` ends the process."""
        assert self.ended is None
        self._live(self.loop.turn if self._started else self.loop.start)
        self._started = True

    def stop(self) -> None:
        """Be asked to stop: the last commit, then leave."""
        assert self.ended is None
        self._live(self.loop.drain if self._started else lambda: None)
        if self.ended is None:
            self.ended = End.STOPPED
            self._close()

    def kill(self) -> None:
        """Nothing of it runs on, and nobody is told."""
        self.ended = End.CRASHED

    @property
    def live(self) -> dict[int, int]:
        """The next offset of each partition that it owns, and whose model it goes on learning."""
        return {
            number: partition.model.next_offset
            for number, partition in self.loop._owned.items()
            if partition.state is State.LIVE
        }

    def sample(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(f"stream_apple_{name}", labels)

    def _live(self, part: Callable[[], None]) -> None:
        try:
            part()
        except CrashError:
            self.ended = End.CRASHED
        except StreamAppleError as error:
            self.error = error
            self.unprovoked = self.memory.in_good_standing and MADE_TO_FAIL not in str(error)
            self.ended = End.LEFT
            self._close()

    def _close(self) -> None:
        try:
            self.broker.close()
        except CrashError:
            self.ended = End.CRASHED
