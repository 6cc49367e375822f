"""Workers that are killed, stopped, frozen and replaced at random moments, and a broker that dies now and then.

What is done, and when in a life, is drawn from a seed; when that is in seconds depends on the machine.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from enum import StrEnum
from pathlib import Path

from end_to_end.broker_restart import restart_between_decisions
from support.kafka.broker import Broker
from support.worker_process import WorkerProcess

from stream_apple.errors import BrokerError, FencedError

SESSION_S = 6.0
EXPECTED = {0, BrokerError.exit_code, FencedError.exit_code, -9}
"""How a worker may end: asked to, without its broker, fenced, killed."""
_LONGEST_WAIT_S = 15.0  # for a moment that may not come at all, as when others own all partitions
_STEP_S = 0.02
_LOOK_S = 1.0  # between looks at what all workers have gone through: it means reading all their logs


class Fate(StrEnum):
    """What becomes of a worker."""

    KILLED = "killed"
    STOPPED = "stopped"
    FROZEN = "frozen"  # for longer than its session
    REPLACED = "replaced"  # while frozen, by one with its identity


class Moment(StrEnum):
    """When in a worker's life."""

    STARTING = "starting"
    RESTORING = "restoring"
    REPLAYING = "replaying"
    LIVE = "live"


_OTHERS = [Fate.STOPPED, Fate.FROZEN, Fate.REPLACED]
_MOST_KILLS = 15  # of one identity, for each of the others
_AT_WORK = {"restoring", "replaying", "live"}
_STATES = {"restoring", "replaying", "live", "revoked", "lost"}
_MOMENTS = {Moment.STARTING: 1, Moment.RESTORING: 2, Moment.REPLAYING: 2, Moment.LIVE: 5}


def live(worker: WorkerProcess) -> list[int]:
    """The partitions whose models a worker has, and whose records it answers."""
    states = {event["partition"]: event["event"] for event in worker.history() if event.get("event") in _STATES}
    return [partition for partition, state in states.items() if state == "live"]


class Supervisor:
    """Runs `names` until `kills` of them have been killed, each other fate has come, and `run`'s `covered` says so.

    The broker dies `deaths` times meanwhile: now it is killed, now it is stopped in order.

    What is done comes from the seed, what comes of it (who takes over from whom, and when) from the machine: so the
    chaos goes on until what it is for has happened, instead of hoping that a number of kills brings it about.

    workers  all processes there were
    done     how often each thing was done
    """

    def __init__(
        self, broker: Broker, config_file: Path, directory: Path, names: list[str], kills: int, deaths: int, seed: int
    ) -> None:
        self.workers: list[WorkerProcess] = []
        self.done: Counter[str] = Counter()
        self._broker = broker
        self._config_file = config_file
        self._directory = directory
        self._kills = kills
        self._seed = seed
        self._deck = [Fate.KILLED] * min(kills // len(names), _MOST_KILLS) + _OTHERS
        self._careers = [self._career(name) for name in names]
        self._deaths = iter([kills * number // (deaths + 1) for number in range(1, deaths + 1)])
        self._next_death = next(self._deaths)
        self._covered = False

    @property
    def _enough(self) -> bool:
        return self._covered and self._all_done

    @property
    def _all_done(self) -> bool:
        return self.done[Fate.KILLED] >= self._kills and all(self.done[fate] for fate in Fate)

    def run(self, covered: Callable[[list[WorkerProcess]], bool], deadline_s: float) -> None:
        """Let it all happen, at least until the workers' logs are `covered`, then end every worker."""
        deadline = time.monotonic() + deadline_s
        next_look = 0.0
        while self._careers:
            now = time.monotonic()
            assert now < deadline, f"not within {deadline_s:g} s: {self._kills} kills and {covered}, so far {self.done}"
            if self._all_done and not self._covered and now >= next_look:
                self._covered = covered(self.workers)
                next_look = now + _LOOK_S
            self._careers = [career for career in self._careers if next(career, self) is not self]
            if self.done[Fate.KILLED] >= self._next_death:
                self._restart_broker()
            time.sleep(_STEP_S)

    def close(self) -> None:
        """Leave no process behind."""
        for worker in self.workers:
            worker.close()

    def start(self, name: str, *, elsewhere: bool = False) -> WorkerProcess:
        """A new worker, on this machine or another."""
        log = self._directory / f"{name}.log"
        self.workers.append(WorkerProcess(self._config_file, log, name, elsewhere=elsewhere))
        return self.workers[-1]

    def ended(self, worker: WorkerProcess) -> None:
        """Take note of how a worker has ended."""
        code = worker.process.returncode
        # Asked to stop before it has joined, a worker has nothing to finish, and dies of the signal.
        expected = EXPECTED if _AT_WORK & set(worker.events()) else EXPECTED | {-signal.SIGTERM}
        assert code in expected, f"expected exit codes {expected}, found {code} of {worker.name}:\n{worker.tail()}"
        self.done[f"exit {code}"] += 1

    def _restart_broker(self) -> None:
        kill = self.done["broker killed"] <= self.done["broker stopped"]
        restart_between_decisions(self._broker, self.workers, kill=kill)
        self.done["broker killed" if kill else "broker stopped"] += 1
        self._next_death = next(self._deaths, 1 << 30)

    def _career(self, name: str) -> Iterator[None]:
        """The lives of one identity, one step at a time."""
        draw = random.Random(f"{self._seed} {name}")
        deck: list[Fate] = []
        worker: WorkerProcess | None = None
        while not self._enough:
            if not deck:
                deck = draw.sample(self._deck, len(self._deck))
            worker = worker or self.start(name)
            yield from self._wait_for(worker, draw)
            fate = deck.pop()
            if not worker.running:
                self.ended(worker)
                worker = None
            elif fate is Fate.FROZEN:
                yield from self._freeze(worker, draw)
            elif fate is Fate.REPLACED:
                worker = yield from self._replace(worker)
            else:
                yield from self._end(worker, fate)
                worker = None
                if draw.random() < 0.2:
                    # Longer than the session: others get its partitions.
                    yield from _pause(SESSION_S + draw.uniform(1, 2))
        if worker is not None and worker.running:
            yield from self._end(worker, Fate.STOPPED)

    def _wait_for(self, worker: WorkerProcess, draw: random.Random) -> Iterator[None]:
        """Let a life come to a moment that is drawn, or end by itself."""
        (moment,) = draw.choices(list(_MOMENTS), list(_MOMENTS.values()))
        if moment is Moment.STARTING:
            return (yield from _pause(draw.uniform(0, 2.5)))
        deadline = time.monotonic() + _LONGEST_WAIT_S
        before = len(worker.history())
        while worker.running and time.monotonic() < deadline:
            seen = {event.get("event") for event in worker.history()[before:]}
            if moment in seen:
                return (yield from _pause(draw.uniform(0, 1.2 if moment is Moment.LIVE else 0.05)))
            if Moment.LIVE in seen and moment is not Moment.LIVE and draw.random() < 0.02:
                return None  # there was nothing to restore or to replay
            yield
        return None

    def _end(self, worker: WorkerProcess, fate: Fate) -> Iterator[None]:
        if fate is Fate.KILLED:
            worker.kill()
        else:
            worker.process.terminate()
            deadline = time.monotonic() + 60
            while worker.running:
                assert time.monotonic() < deadline, f"{worker.name} does not stop:\n{worker.tail()}"
                yield
        self.done[fate] += 1
        self.ended(worker)

    def _freeze(self, worker: WorkerProcess, draw: random.Random) -> Iterator[None]:
        """Its session ends while it sleeps: others have its partitions when it wakes."""
        worker.sleep()
        held = set(live(worker))
        yield from _pause(SESSION_S + draw.uniform(1.5, 3))
        deadline = time.monotonic() + _LONGEST_WAIT_S

        def taken_over() -> bool:
            others = [other for other in self.workers if other.running and not other.asleep]
            return held <= {partition for other in others for partition in live(other)}

        while not taken_over() and time.monotonic() < deadline:
            yield
        worker.wake()
        self.done[Fate.FROZEN] += 1

    def _replace(self, worker: WorkerProcess) -> Generator[None, None, WorkerProcess]:
        """Its successor, elsewhere, is at work when it wakes: one must leave by itself, and do no harm before.

        That is the sleeper, unless it fell asleep before it had joined: then it is the one that came last.
        """
        worker.sleep()
        slept_at_work = bool(_AT_WORK & set(worker.events()))
        successor = self.start(worker.name, elsewhere=not worker.elsewhere)
        deadline = time.monotonic() + 120
        while successor.running and not _AT_WORK & set(successor.events()):
            assert time.monotonic() < deadline, f"{worker.name} gets no partition:\n{successor.tail()}"
            yield
        worker.wake()
        while worker.running and successor.running:
            assert time.monotonic() < deadline, f"two live as {worker.name}:\n{worker.tail()}\n{successor.tail()}"
            yield
        gone, left = (successor, worker) if worker.running else (worker, successor)
        self.ended(gone)
        if gone is worker and slept_at_work:
            self.done[Fate.REPLACED] += 1
        return left


def _pause(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
