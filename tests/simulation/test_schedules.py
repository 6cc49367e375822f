"""The real loop on the broker in memory: whatever happens to workers, outputs and models come out the same.

"The same" is: what read_committed readers see of predictions and dead letters, partition by partition and byte by
byte, and every bit of every model's state, live and as restored from its last snapshot.
"""

from functools import cache
from itertools import chain, repeat

import pytest
from simulation.faults import Fault, Kind, When, situations, struck
from simulation.history import check_disturbed, parts, run_all
from simulation.member_process import End
from simulation.memory_broker import MemoryBroker
from simulation.network import GIVEN_UP, HANGING, Fate, Request
from simulation.process import GROUP, TOPICS, Process
from simulation.schedule import Schedule
from simulation.script import Script
from simulation.world import SETUP, check_outputs, check_states, complete, expected_of, make_cluster, make_input

from stream_apple.stream.partitions.state import State

SCHEDULES = 50
SHOWN = {state.shown for state in State}
LONG_SCHEDULES = 30_000
_PART = 150
DELAYS = (1, 2, 3, 5, 8, 13, 21)
"""Numbers of requests by which a late one is overtaken: from within its transaction to two or three later."""
LONG_DELAYS = range(1, 41)
FAULTS = (None, *(Fault(20 * (number + 1), Kind.ABORTABLE, when) for number, when in enumerate(When)))
IN_TRANSACTIONS = tuple(request for request in Request if request is not Request.INIT)


@cache
def script_calls(*, late: bool) -> tuple[tuple[str, ...], ...]:
    """The names of the calls that each process of the undisturbed script makes."""
    return tuple(tuple(process.broker.calls) for process in Script(late=late).run().processes)


def places_of(kind: Kind, when: When, *, late: bool) -> list[tuple[int, int]]:
    """(process, call) of every call of the script that such a fault can strike."""
    return [
        (process, number)
        for process, calls in enumerate(script_calls(late=late))
        for number in struck(calls, kind, when)
    ]


def situations_of(kind: Kind, when: When, *, late: bool) -> list[tuple[int, int]]:
    """One place of each situation of each process.

    A process that is killed after a call has taken effect leaves behind what it leaves if it is killed before its next
    call: dead, it makes none. After its last there is no other. One that goes on is struck before the calls of every
    second situation, and after those of the others.
    """
    found: list[tuple[int, int]] = []
    for process, calls in enumerate(script_calls(late=late)):
        places = struck(calls, kind, when)
        if kind is Kind.CRASH and when is When.AFTER:
            places = places[-1:]
        found += [(process, number) for number in situations(calls, places)]
    if kind is Kind.CRASH or when is When.WITHIN:
        return found
    return found[when is When.AFTER :: 2]


class TestEveryCall:
    """A fault at every single call of the port."""

    def test_the_script_has_everything(self) -> None:
        """Undisturbed, it makes every call of the port but those for failures, and more than one worker publishes."""
        script = Script().run()
        called = {name for process in script.processes for name in process.broker.calls}
        assert called == {
            *("partition_count", "join", "fetch", "resume", "decided", "log_range", "reader", "reader.fetch"),
            *("reader.close", "begin", "send", "flush", "commit", "close"),
        }
        first, second, third = (process.states for process in script.processes)
        assert first == {State.LIVE, State.REVOKED}
        assert second == {State.RESTORING, State.REPLAYING, State.LIVE, State.REVOKED}
        assert third == {State.RESTORING, State.LIVE}

    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("when", When)
    @pytest.mark.parametrize("kind", Kind)
    def test_a_fault_in_any_situation(self, kind: Kind, when: When, late: bool) -> None:  # noqa: FBT001
        """Before it takes effect, after, or half way: killed, thrown out of the transaction, or made to leave.

        With learning threads that have done their work when it is asked for, in every second situation, and, in every
        eighth, with such as have not. The test below leaves none out.
        """
        self._strike(kind, when, situations_of(kind, when, late=late)[:: 8 if late else 2], late=late)

    @pytest.mark.long
    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("when", When)
    @pytest.mark.parametrize("kind", Kind)
    def test_a_fault_at_any_call(self, kind: Kind, when: When, late: bool) -> None:  # noqa: FBT001
        """The same at each call, though it comes in a situation that has been before."""
        self._strike(kind, when, places_of(kind, when, late=late), late=late)

    @staticmethod
    def _strike(kind: Kind, when: When, places: list[tuple[int, int]], *, late: bool) -> None:
        assert places
        for process, call in places:
            try:
                Script(process, Fault(call, kind, when), late=late).run()
            except BaseException as error:
                error.add_note(f"with a fault in process {process}: {kind} {when} call {call}")
                raise


class TestLateRequests:
    """Each request of one kind is sent twice, and its first copy arrives later; two of them have no answer."""

    @pytest.mark.parametrize("late", IN_TRANSACTIONS)
    def test_a_late_copy_of_each_request(self, late: Request) -> None:
        """Whatever it could do to a later transaction, its epoch has ended by then."""
        for place, by in enumerate(DELAYS):
            self._delay(late, by, FAULTS[place % len(FAULTS)], *[Fate.LATE] * place, *GIVEN_UP)

    @pytest.mark.long
    @pytest.mark.parametrize("fault", FAULTS)
    @pytest.mark.parametrize("late", IN_TRANSACTIONS)
    def test_any_delay(self, late: Request, fault: Fault | None) -> None:
        """The same with each fault."""
        for by in LONG_DELAYS:
            self._delay(late, by, fault)
            self._delay(late, by, fault, *[Fate.LATE] * (by % 12), *GIVEN_UP)

    @pytest.mark.parametrize("by", [3, 5, 10])
    def test_if_epochs_were_kept(self, monkeypatch: pytest.MonkeyPatch, by: int) -> None:
        """Then a late commit would tear the next transaction apart, and the simulation finds that."""
        monkeypatch.setattr(MemoryBroker, "keeps_epochs", True)
        with pytest.raises(AssertionError, match="output"):
            self._delay(Request.END, by, None)

    @pytest.mark.long
    def test_histories_if_epochs_were_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Then some random histories would lose or repeat answers."""
        monkeypatch.setattr(MemoryBroker, "keeps_epochs", True)
        monkeypatch.setattr(Schedule, "RESENT", [0.5])
        found = []
        for seed in range(300):
            try:
                run_all(Schedule, [seed])
            except AssertionError as error:
                found.append(str(error))
        assert any("output" in text for text in found), found

    @staticmethod
    def _delay(late: Request, by: int, fault: Fault | None, *fates: Fate) -> None:
        """Give the script's first such requests these fates, and let the first copy of all others be late."""
        script = Script(0, fault)
        script.network.delay(late, by, chain(fates, repeat(Fate.LATE)))
        try:
            script.run()
        except BaseException as error:
            error.add_note(f"with {late} delayed by {by}, and {fault}")
            raise
        arrived = script.network.arrived
        struck = sum(script.network.struck[late, fate] for fate in HANGING)
        assert arrived[late, True] + arrived[late, False] == struck >= 5


class TestKeptModels:
    """Models that wait in case their partitions come back."""

    @pytest.mark.parametrize("steps", [4, 6, 8, 10])
    def test_overtaken(self, steps: int) -> None:
        """Meanwhile another worker has gone on, and what the kept models need next is no longer in the log."""
        counts = (26, 18)
        expected = expected_of(5, counts)
        cluster = make_cluster(len(counts))
        for records in make_input(5, counts):
            cluster.load(TOPICS.examples, records)
        group = cluster.group(GROUP, TOPICS.examples)
        first = Process(cluster, "worker-0", setup=SETUP, tick=0.03)
        for _ in range(steps):
            first.step()
        group.shake()
        first.step()
        kept = {number: model.next_offset for number, model in first.models.items()}
        assert first.live == {}
        group.expire("worker-0")
        second = Process(cluster, "worker-1", setup=SETUP)
        complete(cluster, second)
        for log in cluster.logs(TOPICS.examples):
            log.delete_before(log.end)
            assert kept[log.number] < log.low
        group.expire("worker-1")
        complete(cluster, first)
        assert State.LOST not in first.states
        check_states(first, expected)
        check_outputs(cluster, expected)


class TestRandomHistories:
    """Many workers, and all kinds of accidents at once."""

    def test_histories(self) -> None:
        """Crashes, restarts, zombies, rebalances, aborts, time-outs, late requests, compaction, retention.

        Requests have every fate. Processes end in every way, and partitions go through every state.
        """
        histories = run_all(Schedule, range(SCHEDULES))
        check_disturbed(histories)
        processes = [process for history in histories for process in history.processes]
        assert {process.ended for process in processes} == {None, *End}
        assert {state for process in processes for state in process.states} == SHOWN - {State.ASSIGNED}
        called = {name for process in processes for name in process.broker.calls}
        assert {"abort", "rejoin", "reader.fetch", "resume", "flush"} <= called

    @pytest.mark.long
    @pytest.mark.parametrize("seeds", parts(SCHEDULES, LONG_SCHEDULES, _PART), ids=str)
    def test_many_more(self, seeds: range) -> None:
        """The same, for as long as one likes."""
        run_all(Schedule, seeds)
