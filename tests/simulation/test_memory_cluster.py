"""What the broker in memory does besides the contract: time-outs, late markers and requests, compaction, faults."""

from collections.abc import Sequence

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import CrashError, Fault, FaultyBroker, Kind, When
from simulation.group import PATIENCE
from simulation.log import Message, PartitionLog
from simulation.memory_broker import Member, MemoryBroker
from simulation.network import Fate, Request
from support.assignment import Recorder

from stream_apple.stream.log.ports import AbortableError, Committed

TRANSACTION, OTHER = 1, 2


@pytest.fixture
def cluster() -> MemoryCluster:
    """Two topics of two partitions."""
    return MemoryCluster({"examples": 2, "outputs": 2})


def connect(cluster: MemoryCluster, instance: str = "a", faults: Sequence[Fault] = ()) -> tuple[FaultyBroker, Recorder]:
    """A worker's connection that has joined, and what it owns."""
    broker = FaultyBroker(MemoryBroker(cluster, Member("g", instance, f"g.{instance}"), "examples"), faults)
    owner = Recorder()
    broker.join(owner)
    return broker, owner


def owning(cluster: MemoryCluster, faults: Sequence[Fault] = ()) -> FaultyBroker:
    """The only member, with both partitions."""
    broker, owner = connect(cluster, faults=faults)
    while owner.owned != [0, 1]:
        broker.fetch(1, 0.0)
    return broker


def texts(log: PartitionLog) -> list[bytes | None]:
    """The committed values."""
    return [record.payload for record in log.committed()]


class TestLog:
    """Of one partition."""

    def test_compaction_stops_at_an_open_transaction(self) -> None:
        """Neither its records nor what lies behind them displaces anything, or is displaced."""
        log = PartitionLog("t", 0)
        log.append(Message(b"k", b"1", 1))
        log.append(Message(b"k", b"2", 1))
        log.append(Message(b"k", b"open", 1), TRANSACTION)
        log.append(Message(b"k", b"behind", 1))
        log.compact()
        assert texts(log) == [b"2"]
        log.mark(TRANSACTION, committed=True)
        assert texts(log) == [b"2", b"open", b"behind"]
        log.compact()
        assert (texts(log), log.committed()[0].at) == ([b"behind"], 3)

    def test_an_aborted_record_displaces_nothing(self) -> None:
        """The newest committed one stays, and the aborted one goes."""
        log = PartitionLog("t", 0)
        log.append(Message(b"k", b"1", 1), TRANSACTION)
        log.mark(TRANSACTION, committed=True)
        log.append(Message(b"k", b"aborted", 1), OTHER)
        log.mark(OTHER, committed=False)
        log.compact()
        assert texts(log) == [b"1"]

    def test_the_position_passes_markers_and_aborted_records(self) -> None:
        """But never an open transaction, nor a record that did not fit in."""
        log = PartitionLog("t", 0)
        for number in range(3):
            log.append(Message(None, b"%d" % number, 1), TRANSACTION if number == 1 else None)
        log.mark(TRANSACTION, committed=False)
        log.append(Message(None, b"open", 1), OTHER)
        assert [log.read(0, limit)[1] for limit in (0, 1, 2, 3)] == [0, 1, 4, 4]
        assert log.end == 5


class TestTransactions:
    """Of one producer."""

    def test_a_time_out(self, cluster: MemoryCluster) -> None:
        """What was sent is aborted; the owner can begin again."""
        broker = owning(cluster)
        broker.begin()
        broker.send("outputs", 0, None, b"v", 1)
        assert cluster.log("outputs", 0).stable == 0
        cluster.time_out_transactions()
        assert cluster.log("outputs", 0).range() == (0, 2)
        with pytest.raises(AbortableError, match="open for longer"):
            broker.commit({0: Committed(1, "")})
        broker.abort()
        broker.begin()
        broker.send("outputs", 0, None, b"again", 1)
        broker.commit({0: Committed(1, "")})
        assert texts(cluster.log("outputs", 0)) == [b"again"]

    def test_late_markers(self, cluster: MemoryCluster) -> None:
        """A commit that has returned is durable; whoever asks for offsets, or begins anew, waits for its end."""
        cluster.transactions.lags = lambda: True
        broker = owning(cluster)
        for number in (1, 2):
            broker.begin()
            broker.send("outputs", 0, None, b"%d" % number, 1)
            broker.commit({0: Committed(number, "")})
            assert cluster.log("outputs", 0).stable == 2 * (number - 1)
        assert broker.decided([0]) == {0: Committed(2, "")}
        assert texts(cluster.log("outputs", 0)) == [b"1", b"2"]

    def test_pending_offsets_of_a_live_owner(self, cluster: MemoryCluster) -> None:
        """Whoever asks for them ends the wait: the transaction that has them in doubt is aborted."""
        broker = owning(cluster, [Fault(0, Kind.CRASH, When.WITHIN)])
        broker.begin()
        with pytest.raises(CrashError):
            broker.commit({0: Committed(1, "")})
        other, _ = connect(cluster, "b")
        assert other.decided([0]) == {0: None}
        assert cluster.transactions.open_ids() == {}


class TestLateRequests:
    """Copies of a producer's requests that arrive in a later transaction."""

    @staticmethod
    def _publish(broker: FaultyBroker, number: int) -> None:
        broker.begin()
        broker.send("outputs", 0, None, b"%d" % number, 1)
        broker.commit({0: Committed(number, "")})

    @pytest.mark.parametrize("kept", [False, True])
    def test_a_late_abort(self, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, *, kept: bool) -> None:
        """If the epoch were kept, it would abort the next answer, whose offset is committed without it."""
        monkeypatch.setattr(MemoryBroker, "keeps_epochs", kept)
        broker = owning(cluster)
        broker.begin()
        broker.send("outputs", 0, None, b"aborted", 1)
        cluster.network.fate = lambda _: Fate.LATE
        broker.abort()
        cluster.network.fate = lambda _: Fate.PROMPT
        broker.begin()
        broker.send("outputs", 0, None, b"1", 1)
        cluster.network.settle()
        broker.commit({0: Committed(1, "")})
        assert cluster.network.arrived == {(Request.END, kept): 1}
        assert broker.decided([0]) == {0: Committed(1, "")}
        assert texts(cluster.log("outputs", 0)) == ([] if kept else [b"1"])

    @pytest.mark.parametrize("request_", [each for each in Request if each is not Request.INIT])
    def test_each_late_request_is_refused(self, cluster: MemoryCluster, request_: Request) -> None:
        """Its epoch ends with its transaction, even if that was committed."""
        broker = owning(cluster)
        cluster.network.fate = lambda request: Fate.LATE if request is request_ else Fate.PROMPT
        self._publish(broker, 1)
        cluster.network.calm()
        broker.begin()
        broker.send("outputs", 0, None, b"2", 1)
        cluster.network.settle()
        broker.commit({0: Committed(2, "")})
        assert cluster.network.arrived == {(request_, False): 1}
        assert broker.decided([0]) == {0: Committed(2, "")}
        assert texts(cluster.log("outputs", 0)) == [b"1", b"2"]

    def test_requests_that_are_obeyed_twice(self, cluster: MemoryCluster) -> None:
        """No message is written twice, and the end of a transaction can be repeated."""
        cluster.network.fate = lambda _: Fate.REPEATED
        broker = owning(cluster)
        for number in (1, 2):
            self._publish(broker, number)
        broker.begin()
        broker.send("outputs", 0, None, b"aborted", 1)
        broker.abort()
        assert {request for request, _ in cluster.network.struck} == set(Request)
        assert broker.decided([0]) == {0: Committed(2, "")}
        assert texts(cluster.log("outputs", 0)) == [b"1", b"2"]

    @pytest.mark.parametrize(("fate", "committed"), [(Fate.STUCK, False), (Fate.UNANSWERED, True)])
    def test_a_commit_in_doubt(self, cluster: MemoryCluster, fate: Fate, *, committed: bool) -> None:
        """What is decided after it stays so, though its request may still arrive."""
        broker = owning(cluster)
        cluster.network.fate = lambda request: fate if request is Request.END else Fate.PROMPT
        with pytest.raises(AbortableError, match="EndTxn: no answer"):
            self._publish(broker, 1)
        broker.abort()
        assert cluster.network.sent.count(Request.END) == 1
        expected = {0: Committed(1, "") if committed else None}
        assert broker.decided([0]) == expected
        cluster.network.settle()
        assert broker.decided([0]) == expected
        assert texts(cluster.log("outputs", 0)) == [b"1"] * committed

    def test_a_request_that_is_sent_once_keeps_the_epoch(self, cluster: MemoryCluster) -> None:
        """A commit whose requests were all answered costs no new epoch."""
        broker = owning(cluster)
        for number in (1, 2):
            self._publish(broker, number)
        assert cluster.network.sent.count(Request.INIT) == 1


class TestGroup:
    """Several members."""

    def test_a_rebalance_ends_without_those_who_never_join(self, cluster: MemoryCluster) -> None:
        """After they have let the others ask in vain for long enough."""
        owning(cluster)
        other, owner = connect(cluster, "b")
        for _ in range(PATIENCE + 1):
            other.fetch(1, 0.0)
            assert owner.owned == []
        other.fetch(1, 0.0)
        other.fetch(1, 0.0)
        assert owner.owned == [0, 1]


class TestFaults:
    """Calls that are made to fail."""

    @pytest.mark.parametrize(("when", "seen"), [(When.BEFORE, []), (When.WITHIN, []), (When.AFTER, [b"v"])])
    def test_where_a_fault_strikes(self, cluster: MemoryCluster, when: When, seen: list[bytes]) -> None:
        """The commit has taken effect only if it was struck after it."""
        broker = owning(cluster, [Fault(0, Kind.ABORTABLE, when)] if when is When.WITHIN else [])
        broker.begin()
        broker.send("outputs", 0, None, b"v", 1)
        if when is not When.WITHIN:
            broker.order(Fault(len(broker.calls), Kind.ABORTABLE, when))
        with pytest.raises(AbortableError, match="made to fail"):
            broker.commit({0: Committed(1, "")})
        broker.abort()
        assert texts(cluster.log("outputs", 0)) == seen

    def test_a_killed_process_calls_nothing_any_more(self, cluster: MemoryCluster) -> None:
        """Not even close: an abort on the way out is what a killed process can't do."""
        broker = owning(cluster)
        broker.begin()
        broker.send("outputs", 0, None, b"v", 1)
        broker.order(Fault(0, Kind.CRASH))
        with pytest.raises(CrashError):
            broker.flush()
        broker.close()
        assert list(cluster.transactions.open_ids()) == ["g.a"]
        with pytest.raises(AssertionError, match="after the process was killed"):
            broker.abort()

    def test_commits_that_have_no_place_in_a_transaction(self, cluster: MemoryCluster) -> None:
        """Offsets that go back, or of partitions that the member does not own, are faults of the worker."""
        broker = owning(cluster)
        broker.begin()
        broker.commit({0: Committed(5, "")})
        broker.begin()
        with pytest.raises(AssertionError, match="goes back"):
            broker.commit({0: Committed(4, "")})
        with pytest.raises(AssertionError, match="does not own"):
            broker.commit({7: Committed(4, "")})
