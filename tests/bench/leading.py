"""What it takes to lead a merge: `python tests/bench/leading.py [PARTITIONS [BITS ...]]` (16; 18 and 20).

A leader whose worker has no other partition reads the contributions of all others, and merges them. They are files
here, so that neither a broker nor the network is in what is measured. Each of PARTITIONS models has learned EXAMPLES
planted examples, adopted what they were merged into, and learned as many again; so there are nominees. For tables of
2^BITS slots, of processes that have merged small models before:

    memory   the most that was resident, above what was before the round was closed, in MB: contributions, the merged
             model, and what lies between
    seconds  from when the round is closed to when the merged model is made; its messages come after that

Medians of ROUNDS processes.
"""

import math
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))

import planted
from report import figure, header
from support.worker_config import write_config

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.config import load
from stream_apple.learners.apple.merging.merge import merge, warm_up_merging
from stream_apple.learners.scores import Scores
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.leader import Leader, LeaderState
from stream_apple.stream.merging.merge_log import MergeLog
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.partition_model import ModelFactory, ModelSettings
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance, SnapshotPointer, Topics
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergeNote, MergeSettings
from stream_apple.stream.snapshots.codec import encode_snapshot
from stream_apple.stream.snapshots.merge_messages import read_manifest

PARTITIONS, BITS, EXAMPLES, ROUNDS, THREADS = 16, (18, 20), 20_000, 5, 2
PROVENANCE = Provenance("group", Topics("e", "p", "d", "m", "r"), {}, MergeSettings(1, "votes", math.inf, 60.0))
ROUND = 7


class Contributed(NamedTuple):
    """What is noted of a partition, and how many messages its snapshot has."""

    committed: Committed
    messages: int


def models_of(directory: Path, bits: int) -> tuple[ModelSettings, ModelFactory]:
    """Settings and a factory of models that can be merged."""
    path = write_config(directory / "worker.toml", None, learner={"bits": bits}, merge={"mode": "average"})
    settings = settings_of(load(path, {}))
    return settings, model_factory(PROVENANCE.topics.examples, settings, settings.decoder())


def message_at(directory: Path, partition: int, offset: int) -> Path:
    """The file of one message of the models topic."""
    return directory / f"{partition}-{offset}"


def contribute(directory: Path, partitions: int, bits: int) -> float:
    """Write the contributions; return the megabytes of one."""
    _, make = models_of(directory, bits)
    models = [make(number, PROVENANCE.lineage(number, 0)) for number in range(partitions)]
    batch, size = planted.batch(2 * EXAMPLES * partitions), 0
    scores = Scores.empty(len(batch.labels))
    for half in range(2):
        if half:
            merged = merge([model.learner for model in models]).model
            for model in models:
                model.adopt(merged)
        for number, model in enumerate(models):
            start = (half * partitions + number) * EXAMPLES
            model.learner.learn(batch, start, start + EXAMPLES, scores)
            model.learner.end_epoch(nominate=True)
    assert PROVENANCE.merging is not None
    contributed = []
    for number, model in enumerate(models):
        snapshot = encode_snapshot(model)
        for index, message in enumerate(snapshot.messages):
            message_at(directory, number, index).write_bytes(message)
            size += len(message)
        pointer = SnapshotPointer(snapshot.at, 0, snapshot.message_count - 1, snapshot.digest)
        boundary = BoundaryNote(ROUND, snapshot.at, BoundaryState.CONTRIBUTED)
        note = MergeNote.of(PROVENANCE.merging)._replace(boundary=boundary)
        text = OffsetMetadata(PROVENANCE.lineage(number, 0), pointer, note).to_text()
        contributed.append(Contributed(Committed(snapshot.at, text), snapshot.message_count))
    (directory / "contributed").write_bytes(pickle.dumps(contributed))
    return size / partitions / 1e6


class StoredMessage(NamedTuple):
    """A message of the models topic, which is read when its value is asked for."""

    path: Path
    number: int
    at: int

    def offset(self) -> int:
        """Its number."""
        return self.at

    def key(self) -> bytes:
        """That of the snapshot's message."""
        return PROVENANCE.snapshot_key(self.number, self.at)

    def value(self) -> bytes:
        """The file's content."""
        return self.path.read_bytes()

    def timestamp(self) -> tuple[int, int]:
        """Any."""
        return 1, 1


class StoredLog:
    """Reads a partition of the models topic."""

    def __init__(self, directory: Path, partition: int, messages: int) -> None:
        self._directory = directory
        self._partition = partition
        self._messages = messages
        self._next = 0

    def fetch(self, limit: int, _timeout_s: float) -> Sequence[StoredMessage]:
        """The next messages."""
        start, self._next = self._next, min(self._next + limit, self._messages)
        return [
            StoredMessage(message_at(self._directory, self._partition, at), self._partition, at)
            for at in range(start, self._next)
        ]

    def close(self) -> None:
        """Nothing is open."""


class StoredTopics:
    """Tells a leader of the contributions in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._contributed: list[Contributed] = pickle.loads((directory / "contributed").read_bytes())  # our own file

    def partition_count(self, _topic: str) -> int:
        """As many as have contributed."""
        return len(self._contributed)

    def committed_now(self, _partitions: Any) -> Mapping[int, Committed]:
        """All."""
        return {number: each.committed for number, each in enumerate(self._contributed)}

    def send(self, _topic: str, _partition: int, _key: bytes, value: bytes, *_: object, **__: object) -> None:
        """The last message says what was merged."""
        self._last = value

    @property
    def digest(self) -> str:
        """Of the merged model."""
        return read_manifest(PROVENANCE.group, ROUND, self._last).digest

    def reader(self, _topic: str, partition: int, _offset: int) -> StoredLog:
        """Of that partition, from its first message on."""
        return StoredLog(self._directory, partition, self._contributed[partition].messages)


class Nobody:
    """Is told of merges."""

    def merged(self, _summary: Any) -> None:
        """No merge is committed here."""


def resident(what: str) -> float:
    """Megabytes of this process, by a name of `/proc/self/status`."""
    found = re.search(rf"^{what}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1e3


def lead(directory: Path, bits: int) -> None:
    """Merge the contributions; print megabytes, seconds, and the digest of the merged model."""
    settings, make = models_of(directory, bits)
    warm_up_merging(settings.options)
    broker: Any = StoredTopics(directory)
    recorder: Any = Nobody()
    context = MergingContext(broker, PROVENANCE, settings.options, make, recorder, threads=THREADS)
    leader = Leader(context, MergeLog(context), lambda call, then: then(call()), lambda: None, None)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the most that was resident
    began = time.perf_counter()
    while leader.state is not LeaderState.SENDING:
        leader.step()
    seconds = time.perf_counter() - began
    print(resident("VmHWM") - before, seconds, broker.digest)


def main() -> None:
    """In processes of their own, so that each begins without the memory of another."""
    if len(sys.argv) == 4 and sys.argv[1] == "lead":
        lead(Path(sys.argv[2]), int(sys.argv[3]))
        return
    partitions, *bits = [int(each) for each in sys.argv[1:]] or [PARTITIONS]
    print(header("numba", "numpy", "zstandard"))
    for each in bits or BITS:
        with TemporaryDirectory() as name:
            size = contribute(Path(name), partitions, each)
            runs = []
            for _ in range(ROUNDS):
                command = [sys.executable, __file__, "lead", name, str(each)]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                runs.append(said.splitlines()[-1].split())  # after lines of the log
        assert len({digest for _, _, digest in runs}) == 1
        case = f"{partitions} partitions, 2^{each} slots"
        memory = figure(f"{case}: memory", [float(run[0]) for run in runs], "MB")
        seconds = figure(f"{case}: seconds", [float(run[1]) for run in runs], "s")
        print(f"  {case}, contributions of {size:.1f} MB: {memory:,.0f} MB, {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
