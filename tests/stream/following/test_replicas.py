"""Replicas are the group's models at each moment, whatever happens to workers; and can be made again from a moment."""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from simulation.cluster import MemoryCluster
from simulation.log import Message
from simulation.merging.histories import HastySchedule, StrictSchedule
from simulation.process import GROUP, Process, Setup
from simulation.schedule import Schedule
from simulation.small import small
from simulation.world import SETUP, complete, make_cluster, make_input, pointer_of
from stream.following.followed_cluster import Recorder, follow, note, settle, sources_of
from support.records import TOPIC, FakeRecord
from support.waiting import DEADLINE_S, wait_until

from stream_apple.errors import ConfigurationError, GapError, ModelError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.stream.following.replica import GONE_S, DigestCheck, Source
from stream_apple.stream.following.replicas import NoModelError, Replicas
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import rebuild

SEEDS = 2


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small():
        yield


def test_a_broker_that_is_frozen_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that waits for it goes on; those who hold the clients are told, as these may not be closed meanwhile."""
    monkeypatch.setattr("stream_apple.stream.following.replicas._STOP_S", 0.1)
    replicas, asked, frozen = follow(make_cluster(1), SETUP, Recorder()), threading.Event(), threading.Event()

    def committed(_numbers: Sequence[int]) -> dict[int, Committed | None]:
        asked.set()
        assert frozen.wait(DEADLINE_S)
        return {0: None}

    monkeypatch.setattr(replicas._sources.logs, "committed_now", committed)
    with replicas:
        assert asked.wait(DEADLINE_S)
    assert replicas.alive
    frozen.set()
    wait_until(lambda: not replicas.alive, "the end of the thread", DEADLINE_S)


def run(seed: int, kind: type[Schedule]) -> tuple[Recorder, int]:
    """One history, with replicas that follow; what they did, and how many moments could be made again."""
    draw, recorder = random.Random(seed), Recorder()
    schedule = kind(seed)
    cluster, setup = schedule._cluster, schedule._setup
    replicas = follow(cluster, setup, recorder)
    bury, check = schedule._bury, schedule._check

    def bury_and_follow() -> None:
        bury()
        for _ in range(draw.choice([0, 1, 5, 20])):
            replicas.step()
            note(replicas, recorder)

    def settle_and_check(last: Process) -> None:
        cluster.time_out_transactions()
        settle(replicas, recorder)
        check(last)  # which may take merges away that replicas need

    schedule._bury = bury_and_follow  # type: ignore[method-assign]
    schedule._check = settle_and_check  # type: ignore[method-assign]
    schedule.run()
    assert recorder.outcomes[DigestCheck.DIFFERENT] == 0
    for number in replicas.by_partition:
        model_at_snapshot(cluster, replicas, number, setup)
    return recorder, made_again(cluster, setup, recorder)


def model_at_snapshot(
    cluster: MemoryCluster, replicas: Replicas, number: int = 0, setup: Setup = SETUP
) -> PartitionModel:
    """The model of a partition, which stands where the group's newest snapshot does, and equals it."""
    pointer, model = pointer_of(cluster, number, setup), replicas.by_partition[number].model
    assert pointer is not None
    assert model is not None
    assert (model.next_offset, model.digest()) == (pointer.at, pointer.digest)
    return model


def made_again(cluster: MemoryCluster, setup: Setup, recorder: Recorder) -> int:
    """Learn each model again up to the moment at which it stood; how many could be, the others' records being gone."""
    sources, made = sources_of(cluster, setup), 0
    for moment, told in recorder.seen.items():
        committed = sources.logs.committed_now([moment.partition])[moment.partition]
        assert committed is not None
        with suppress(GapError):
            again = rebuild(sources, sources.newest(moment.partition, committed), committed, moment)
            assert (again.digest(), again.lineage.model, Moment.of(again)) == (*told, moment)
            made += 1
    return made


@pytest.mark.parametrize("kind", [Schedule, StrictSchedule, HastySchedule])
def test_random_histories(kind: type[Schedule]) -> None:
    """Replicas follow crashes, zombies, rebalances and merges: no digest differs, and each moment is made again."""
    found = [run(seed, kind) for seed in range(SEEDS)]
    outcomes = sum((recorder.outcomes for recorder, _ in found), Counter[DigestCheck]())
    assert outcomes[DigestCheck.EQUAL] > SEEDS
    assert outcomes[DigestCheck.EQUAL] > outcomes[DigestCheck.MISSED]
    assert sum(made for _, made in found) > 3 * SEEDS
    boundaries = {moment.boundary for recorder, _ in found for moment in recorder.seen}
    assert boundaries >= ({""} if kind is Schedule else {"", "held"})


@pytest.mark.long
@pytest.mark.parametrize("kind", [Schedule, StrictSchedule, HastySchedule])
@pytest.mark.parametrize("seed", range(SEEDS, 300))
def test_many_random_histories(seed: int, kind: type[Schedule]) -> None:
    """The same, often."""
    run(seed, kind)


def _one(records: int) -> tuple[MemoryCluster, list[FakeRecord]]:
    ((*found,),) = make_input(3, (records,))
    return make_cluster(1), found


def _loaded(cluster: MemoryCluster, records: list[FakeRecord], setup: Setup = SETUP) -> None:
    cluster.load(TOPIC, records)
    complete(cluster, Process(cluster, setup=setup))


def test_a_broker_that_knows_of_no_offset_is_believed_after_a_while() -> None:
    """One that is just coming back may say so: the model stays. A group that is gone for long has none any more."""
    cluster, records = _one(60)
    _loaded(cluster, records)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)  # whose clock goes on by a second at each look
    settle(replicas, recorder)
    (replica,) = replicas.by_partition.values()
    model, committed = replica.model, replicas._sources.logs.committed_now([0])[0]
    assert model is not None
    for _ in range(2):
        for _ in range(int(GONE_S / 4)):
            replica.tell(None)
        assert replica.model is model
        replica.tell(committed)
    for _ in range(int(GONE_S) + 1):
        replica.tell(None)
    assert replica.model is None
    settle(replicas, recorder)
    assert replica.model is not None


def test_partitions_that_are_added_are_followed() -> None:
    """Those who ask by key reach the model of the partition that producers choose; the others stay as they are."""
    cluster, records = _one(20)
    _loaded(cluster, records)
    replicas = follow(cluster, SETUP, Recorder())
    settle(replicas, Recorder())
    (first,) = replicas.by_partition.values()
    cluster.add_partitions(2)
    settle(replicas, Recorder())
    assert list(replicas.by_partition) == [0, 1]
    assert replicas.by_partition[0] is first
    assert replicas.ready
    cluster.group(GROUP, TOPIC).expire("worker-0")
    _loaded(cluster, [*make_input(3, (0, 20))[1]])
    assert not replicas.is_ready(1)
    settle(replicas, Recorder())
    assert replicas.is_ready(1)


def test_a_skipped_record_and_a_gap() -> None:
    """The replica leaves out the one on its way; behind the other it is restored, from the snapshot that is there."""
    cluster, records = _one(60)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    _loaded(cluster, records[:20])
    settle(replicas, recorder)
    skips = frozenset({(0, records[30].at)})
    _loaded(cluster, records[20:40], SETUP._replace(exceptions=Exceptions(skips=skips)))
    settle(replicas, recorder)
    assert recorder.outcomes[DigestCheck.EQUAL] == 1
    saved = records[39].at + 1
    cluster.load(TOPIC, records[40:])
    cluster.log(TOPIC, 0).delete_before(records[50].at)
    gaps = Exceptions(frozenset({(0, saved)}))
    complete(cluster, Process(cluster, setup=SETUP._replace(exceptions=gaps)))
    settle(replicas, recorder)
    assert model_at_snapshot(cluster, replicas).lineage.gaps == ((saved, records[50].at),)
    assert recorder.restores[0] == 2


def test_records_that_are_gone_before_they_were_learned() -> None:
    """A replica that was behind when retention came is restored from the newest snapshot."""
    cluster, records = _one(60)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    _loaded(cluster, records[:20])
    settle(replicas, recorder)
    _loaded(cluster, records[20:])
    cluster.log(TOPIC, 0).delete_before(records[50].at)
    settle(replicas, recorder)
    model_at_snapshot(cluster, replicas)
    assert recorder.restores[0] == 2


def test_a_replica_that_differs_gives_no_answer() -> None:
    """It is counted, and restored."""
    cluster, records = _one(60)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    replica = replicas.by_partition[0]
    _loaded(cluster, records[:20])
    settle(replicas, recorder)
    assert replica.model is not None
    as_apple(replica.model.learner).table.slots["weight"][-1] += 0.125  # a bit has flipped
    cluster.load(TOPIC, records[20:])
    complete(cluster, Process(cluster, setup=SETUP))
    while not recorder.outcomes[DigestCheck.DIFFERENT]:
        replicas.step()
    assert replica.model is None
    assert not replicas.ready
    with pytest.raises(NoModelError, match="expected a model of partition 0"), replicas.turn(0):
        pass
    settle(replicas, Recorder())
    model_at_snapshot(cluster, replicas)
    assert replicas.ready


def test_why_there_is_no_answer_yet() -> None:
    """A group that has committed nothing is told apart from a model that is on its way."""
    cluster, records = _one(20)
    sources: list[tuple[Source, str]] = [
        ("log", "still to be restored"),
        ("snapshots", "no snapshot of it has been restored"),
    ]
    for source, found in sources:
        replicas = follow(cluster, SETUP, Recorder(), source)
        replicas.by_partition[0].tell(None)
        with pytest.raises(NoModelError, match="found that no offset is known"), replicas.turn(0):
            pass
        replicas.by_partition[0].tell(Committed(records[5].at, ""))
        with pytest.raises(NoModelError, match=f"found that .*{found}"), replicas.turn(0):
            pass


def test_what_fails_in_the_middle_is_seen_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that has learned half of a portion is gone before anybody else has a turn."""
    cluster, records = _one(40)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    replica = replicas.by_partition[0]
    _loaded(cluster, records[:20])
    settle(replicas, recorder)
    _loaded(cluster, records[20:])
    seen = []

    def fail(*_: object) -> None:
        raise ModelError("expected a finite score", 0)

    monkeypatch.setattr(PartitionModel, "process", fail)
    turn = replica.turns.learning

    @contextmanager
    def watched(patience_s: float) -> Iterator[None]:
        try:
            with turn(patience_s):
                yield
        finally:
            seen.append(replica.model)

    monkeypatch.setattr(replica.turns, "learning", watched)
    for _ in range(5):
        replicas.step()
    assert seen[0] is None
    monkeypatch.undo()
    settle(replicas, Recorder())
    assert replicas.ready


def test_a_group_that_begins_anew() -> None:
    """Offsets that are gone, or were put back, are another model's: the replica drops its own."""
    cluster, records = _one(40)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    _loaded(cluster, records)
    settle(replicas, recorder)
    offsets = cluster.group(GROUP, TOPIC).offsets
    before = offsets.pop(0)
    for _ in range(int(GONE_S)):  # seconds at least
        replicas.step()
    assert replicas.by_partition[0].model is None
    offsets[0] = before
    settle(replicas, recorder)
    assert replicas.ready
    note = SETUP.provenance.read_metadata(0, before)._replace(snapshot=None)
    offsets[0] = Committed(records[5].at, note.to_text())
    settle(replicas, Recorder())
    model = replicas.by_partition[0].model
    assert model is not None
    assert model.next_offset == records[5].at


def test_snapshots_alone() -> None:
    """With follow = "snapshots" nothing is learned: each newer snapshot is taken over."""
    cluster, records = _one(60)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder, "snapshots")
    for portion in (records[:20], records[20:]):
        _loaded(cluster, portion)
        settle(replicas, recorder)
        model_at_snapshot(cluster, replicas)
        assert replicas.ready
    assert recorder.restores[0] == 2
    assert not recorder.outcomes


def test_nothing_is_committed_yet() -> None:
    """There is no model, and nobody is told that there is one."""
    cluster, records = _one(20)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    settle(replicas, recorder)
    assert not replicas.ready
    _loaded(cluster, records)
    settle(replicas, recorder)
    assert replicas.ready


def test_a_partition_without_records_holds_up_no_other() -> None:
    """Nobody can have a model of it: the replica is ready without, until it has a record; alone, it is not ready."""
    cluster = make_cluster(2)
    first, second = make_input(2, [20, 20])
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    settle(replicas, recorder)
    assert not replicas.ready
    cluster.load(TOPIC, first)
    complete(cluster, Process(cluster, setup=SETUP))
    settle(replicas, recorder)
    assert replicas.ready
    for lag in (replicas.by_partition[1].own_lag, replicas.by_partition[1].total_lag):
        assert lag.records == 0
        assert lag.seconds < 60  # the test's clock goes on by seconds whenever it is looked at
    with pytest.raises(NoModelError, match="no worker has answered"), replicas.turn(1):
        pass
    cluster.load(TOPIC, second)
    for _ in range(10):  # seconds at least
        replicas.step()
    assert not replicas.ready
    complete(cluster, Process(cluster, setup=SETUP))
    settle(replicas, recorder)
    assert replicas.ready


def test_the_end_of_a_transaction_is_no_lag() -> None:
    """A joiner's examples end with a marker, which the group's offset is before: a replica that comes then is fresh."""
    cluster = make_cluster(1)
    (records,) = make_input(1, [20])
    cluster.load(TOPIC, records)
    complete(cluster, Process(cluster, setup=SETUP))
    log = cluster.log(TOPIC, 0)
    log.append(Message(None, b"of nobody", 0), transaction=1)
    log.mark(1, committed=False)
    recorder = Recorder()
    replicas = follow(cluster, SETUP, recorder)
    settle(replicas, recorder)
    replica = replicas.by_partition[0]
    assert replica.model is not None
    assert replica.model.next_offset < log.end
    assert (replica.total_lag.records, replica.own_lag.records) == (0, 0)


class TestRebuilding:
    """Moments that there are, and others."""

    def test_moments_that_never_were(self) -> None:
        """Before the first record, behind what is committed, at a boundary where models are not merged."""
        cluster, records = _one(30)
        _loaded(cluster, records)
        sources = sources_of(cluster, SETUP)
        committed = sources.logs.committed_now([0])[0]
        assert committed is not None
        for moment in (Moment(0, committed.offset + 1), Moment(0, 5, "held")):
            with pytest.raises(ConfigurationError):
                rebuild(sources, sources.newest(0, committed), committed, moment)

    def test_records_that_are_gone(self) -> None:
        """Behind the snapshot a moment can be reached, before it no more."""
        cluster, records = _one(30)
        _loaded(cluster, records)
        cluster.log(TOPIC, 0).delete_before(records[10].at)
        sources = sources_of(cluster, SETUP)
        committed = sources.logs.committed_now([0])[0]
        assert committed is not None
        newest = sources.newest(0, committed)
        assert newest.metadata.snapshot is not None
        at = newest.metadata.snapshot.at
        assert rebuild(sources, newest, committed, Moment(0, at)).digest() == newest.metadata.snapshot.digest
        with pytest.raises(GapError, match="the newest snapshot is behind offset 20"):
            rebuild(sources, sources.newest(0, committed), committed, Moment(0, 20))
