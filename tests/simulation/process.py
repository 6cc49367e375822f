"""One life of a worker in a simulation: the real loop, taken iteration by iteration, until it leaves or is killed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from simulation.cluster import MemoryCluster
from simulation.faults import Fault
from simulation.member_process import Delivery, MemberProcess, Unmeasured, at_once
from simulation.memory_broker import Member
from stream.learning.late_threads import OwnThread
from support.clock import Clock
from support.null_watchers import NullObserver
from support.records import DECODER, SETTINGS, TOPIC

from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.stream.learning.threads import Threads
from stream_apple.stream.loop.loop import Loop, LoopSettings
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import NO_EXCEPTIONS, Exceptions
from stream_apple.stream.partitions.state import ANSWERING, State
from stream_apple.stream.positions.lineage import Lineage, Provenance, Topics
from stream_apple.stream.positions.merge_note import MergeSettings

GROUP = "group"
TOPICS = Topics(TOPIC, "predictions", "dead-letters", "models")
MERGES = "merges"


class Setup(NamedTuple):
    """What a worker is configured with."""

    settings: ModelSettings = SETTINGS
    loop: LoopSettings = LoopSettings(fetch_records=7, commits=CommitSettings(9, 3600.0), snapshot_interval_s=3600.0)
    model: Mapping[str, Any] = {"learner": {"bits": 10}}
    exceptions: Exceptions = NO_EXCEPTIONS
    merging: MergeSettings | None = None

    @property
    def provenance(self) -> Provenance:
        """Whose models it makes."""
        if self.merging is None:
            return Provenance(GROUP, TOPICS, self.model)
        return Provenance(GROUP, TOPICS._replace(merges=MERGES), self.model, self.merging)

    @property
    def model_settings(self) -> ModelSettings:
        """What its models are made of."""
        return self.settings if self.merging is None else self.settings._replace(merge_every=self.merging.every)


class Process(MemberProcess):
    """A worker with an identity; several may have the same. Without `measured` it has no samples.

    clock   which others may share; by default one of its own, which goes on by `tick` with each look

    states  every state that a partition has been in
    models  the newest model made for each partition
    made    how many models in all
    """

    loop: Loop

    def __init__(
        self,
        cluster: MemoryCluster,
        instance: str = "worker-0",
        faults: Sequence[Fault] = (),
        setup: Setup = Setup(),  # noqa: B008  a tuple of tuples
        *,
        tick: float = 0.0,
        measured: bool = True,
        delivery: Delivery = at_once,
        threads: Threads | None = None,
        clock: Clock[float] | None = None,
    ) -> None:
        super().__init__(cluster, Member(GROUP, instance, f"{GROUP}.{instance}"), TOPIC, faults, delivery)
        self.models: dict[int, PartitionModel] = {}
        self.made = 0
        self.states: set[State] = set()
        # Metrics by a clock that stands still between turns, or by the machine's: they decide nothing.
        shown_by = {} if clock is None else {"now": clock}
        self.metrics = Metrics(**shown_by) if measured else cast("Metrics", Unmeasured())
        self.health = Health()
        self._setup = setup
        clock = clock or Clock(0.0, tick)
        self.owned = OwnedPartitions(self.broker, setup.provenance, self._make, self.metrics, setup.exceptions, clock)
        threads = OwnThread() if threads is None else threads
        recorder: Any = Unmeasured()
        merging = MergingContext(self.broker, setup.provenance, setup.settings.options, self.bystander, recorder, clock)
        watchers = Watchers(self.metrics, self.health, NullObserver())
        self.loop = Loop(self.broker, self.owned, setup.loop, watchers, threads, merging, clock)
        enter = self.owned.enter

        def entered(partition: Partition, state: State) -> None:
            self.states.add(state)
            enter(partition, state)

        self.owned.enter = entered  # type: ignore[method-assign]

    def _make(self, partition: int, lineage: Lineage) -> PartitionModel:
        # Looked up at every call: tests put models of their own in the place of `new_model`.
        return self.new_model(partition, lineage)

    def new_model(self, partition: int, lineage: Lineage) -> PartitionModel:
        """As the composition root makes it."""
        self.made += 1
        self.models[partition] = self.bystander(partition, lineage)
        return self.models[partition]

    def bystander(self, partition: int, lineage: Lineage) -> PartitionModel:
        """A model that is only looked at."""
        return PartitionModel(TOPIC, partition, lineage, self._setup.model_settings, DECODER)

    def run(self) -> Self:
        """The whole of a life at once; somebody must have arranged for `loop.stop`."""
        self.loop.run()
        return self

    @property
    def live(self) -> dict[int, int]:
        """The next offset of each partition that it owns, and whose model it goes on learning."""
        return {
            number: partition.sent_offset
            for number, partition in self.owned.by_number.items()
            if partition.state in ANSWERING
        }

    def sample(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(f"stream_apple_{name}", labels)
