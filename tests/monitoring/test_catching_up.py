"""Whether a worker is behind, and until when: told to people, and deciding nothing."""

import math

import pytest
from support.clock import Clock
from support.records import DECODER, SETTINGS, good

from stream_apple.monitoring.catching_up import CatchingUp, Pace, together
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.positions.lineage import Lineage

NOTHING = RecoveryLeft(0, 0.0)


class Stream:
    """A partition to which records come, looked at once a second."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.at, self.offset, self.backlog = 100.0, 0, 0

    def second(self, answered: int, come: int = 0) -> CatchingUp | None:
        """Another second has passed."""
        self.at += 1.0
        self.offset += answered
        self.backlog += come - answered
        self.pace.look(self.at, self.offset, self.backlog, NOTHING, recovering=False)
        return self.pace.behind

    def seconds(self, count: int, answered: int, come: int = 0) -> list[CatchingUp | None]:
        """So many seconds, each like the others."""
        return [self.second(answered, come) for _ in range(count)]


def test_a_backlog_has_an_end() -> None:
    """246,000 records at 5,000 a second; it is over when two seconds' work is left."""
    stream = Stream()
    stream.backlog = 246_000
    found = stream.seconds(60, 5_000)
    assert found[:3] == [None, None, None]
    behind = [each for each in found if each is not None]
    assert [each.records for each in behind[:2]] == [226_000, 221_000]
    for each in behind:
        assert each.seconds_left == pytest.approx(each.records / 5_000)
        assert each.records_per_second == pytest.approx(5_000)
        assert not each.endless
    assert behind[-1].records == 11_000
    assert found[-1] is None


@pytest.mark.parametrize("per_second", [1, 1_000])
def test_a_steady_stream_is_not_behind(per_second: int) -> None:
    """Whatever waits between two commits is no backlog."""
    stream = Stream()
    found = {stream.second(0 if number % 2 else 2 * per_second, per_second) for number in range(200)}
    assert found == {None}


def test_a_gust_is_no_backlog() -> None:
    """After a minute of silence thousands come at once, and are answered within two seconds."""
    stream = Stream()
    stream.seconds(70, 0)
    assert stream.second(0, 10_000) is None
    assert stream.second(9_000) is None
    assert stream.second(1_000) is None
    assert set(stream.seconds(70, 0)) == {None}


def test_without_an_end() -> None:
    """As much comes as is answered, or more: said so, and no time."""
    for come in (1_000, 1_500):
        stream = Stream()
        stream.backlog = 500_000
        last = stream.seconds(30, 1_000, come)[-1]
        assert last is not None
        assert last.endless
        assert math.isnan(last.seconds_left)
    assert stream.seconds(10, 20_000)[-1] is not None
    found = stream.pace.behind
    assert found is not None
    assert not found.endless
    assert found.seconds_left == pytest.approx(stream.backlog / 20_000)


def test_nothing_is_answered() -> None:
    """Records wait and nobody works: the pace says so."""
    stream = Stream()
    stream.seconds(5, 100, 100)
    stream.seconds(70, 0, 100)
    found = stream.pace.behind
    assert found is not None
    assert found.records_per_second == 0.0


def test_a_model_that_goes_back_begins_anew() -> None:
    """After a restore it stands at its snapshot: what was before says nothing of the pace."""
    stream = Stream()
    stream.seconds(30, 1_000, 1_000)
    stream.offset -= 20_000
    stream.backlog = 20_000
    assert stream.second(0) is None
    assert all(each is None or each.records_per_second == pytest.approx(5_000) for each in stream.seconds(4, 5_000))


def test_a_recovery_takes_as_long_as_it_says() -> None:
    """At once: a partition that recovers is behind by what it is. What waits behind the replay counts, too."""
    pace = Pace()
    pace.look(1.0, 10, -1, RecoveryLeft(500, math.nan), recovering=True)
    assert pace.behind is not None
    assert pace.behind.facts() == {"records": 500, "records_per_second": 0.0, "seconds_left": None, "endless": False}
    pace.look(2.0, 110, 900, RecoveryLeft(400, 4.0), recovering=True)
    assert pace.behind.facts() == {"records": 900, "records_per_second": 100.0, "seconds_left": 4.0, "endless": False}


def test_a_worker_is_as_late_as_its_slowest_partition() -> None:
    """And says nothing of the end as long as it is not known of one."""
    fast, slow = CatchingUp(10, 5.0, 2.0, endless=False), CatchingUp(100, 1.0, 100.0, endless=False)
    lost = CatchingUp(7, 0.0, math.nan, endless=True)
    assert together([]) is None
    assert together([fast, slow]) == CatchingUp(110, 6.0, 100.0, endless=False)
    found = together([fast, lost])
    assert found is not None
    assert math.isnan(found.seconds_left)
    assert found.endless


def test_the_probe_tells_it_and_stays_ready() -> None:
    """Who works off a backlog answers: to be sent away for that would make it longer."""
    clock = Clock(100.0)
    metrics, health = Metrics(clock), Health(clock)
    health.watch_backlog(metrics.catching_up)
    model = PartitionModel("examples", 0, Lineage(0, "f" * 16), SETTINGS, DECODER)
    model.process([good(0)])
    partition = Partition(model, RecoveryPlan(model.lineage, 0))
    partition.enter(State.LIVE)
    metrics.entered(partition, State.LIVE)
    health.compiled()
    backlog = 50_000

    def turn() -> None:
        metrics.iterated(TimeBudget(Phase), {0: partition}, lambda _: backlog, lambda _: NOTHING)
        health.iterated([partition])
        clock.now += 1.0

    turn()
    assert health.ready().facts["catching_up"] is None
    for _ in range(10):
        partition.sent_offset += 1_000
        backlog -= 1_000
        turn()
    verdict = health.ready()
    assert verdict.good
    assert verdict.facts["status"] == "ready"
    assert verdict.facts["catching_up"] == {
        "records": 40_000,
        "records_per_second": 1_000.0,
        "seconds_left": 40.0,
        "endless": False,
    }
    metrics.entered(partition, State.REVOKED)
    health.iterated([])
    assert health.ready().facts["catching_up"] is None
