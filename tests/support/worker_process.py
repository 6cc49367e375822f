"""A worker or a replica as a process of its own, and what it tells of itself."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from support.child_process import start_child
from support.waiting import wait_until

DEADLINE_S = 240.0  # a broker that dies in a commit costs up to transaction.timeout.ms (45 s), and it dies twice

_ELSEWHERE = """
from stream_apple.app import identity
from stream_apple.cli import main

identity.MACHINE = "another"
main()
"""

_Found = TypeVar("_Found")


class WorkerProcess:
    """One process of the worker, from its start to whatever ends it; a context, at whose end it is gone.

    name  its identity in the group; "" for the automatic one
    log   where to put its log, under a name that no other process has: several may be given the same
    settings   variables besides
    elsewhere  whether it is to do as if it were on another machine, where no lock of this one is seen
    command    `run`, `serve` for a replica, or `join` for a joiner
    """

    def __init__(
        self,
        config_file: Path,
        log: Path,
        name: str = "worker-0",
        on_stop: str = "stay",
        settings: Mapping[str, str] | None = None,
        *,
        elsewhere: bool = False,
        command: str = "run",
    ) -> None:
        self.name = name
        self.elsewhere = elsewhere
        self.asleep = False
        self._begun = {"run": "started", "join": "started", "serve": "serving"}[command]
        self._log = log.with_name(f"{log.stem}-{time.monotonic_ns()}.log")
        self._logged: list[dict[str, Any]] = []
        self._read = 0
        self.process = start_child(
            [
                sys.executable,
                *(["-c", _ELSEWHERE] if elsewhere else ["-m", "stream_apple"]),
                *(command, "--config", config_file, "--log-format", "json"),
            ],
            self._log,
            {"STREAM_APPLE_WORKER__ID": name, "STREAM_APPLE_WORKER__ON_STOP": on_stop, **(settings or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_until(
        self, done: Callable[[], _Found], what: str, pause_s: float = 0.02, seconds: float = DEADLINE_S
    ) -> _Found:
        """What `done` returns first that is true; its log is the message if the worker dies before, or time is up."""

        def done_while_running() -> _Found:
            assert self.running, f"the worker died before {what}:\n{self.tail()}"
            return done()

        return wait_until(done_while_running, lambda: f"{what}:\n{self.tail()}", seconds, pause_s)

    def wait_for_event(self, name: str, **facts: object) -> dict[str, Any]:
        """Wait until the worker has logged such an event with these facts; the first one."""
        wanted = {"event": name, **facts}
        found = self.wait_until(
            lambda: [event for event in self.history() if wanted.items() <= event.items()], f"it had logged {wanted}"
        )
        return found[0]

    @property
    def http_port(self) -> int:
        """The port of its probes and metrics, as soon as it has one."""
        return int(self.wait_for_event(self._begun)["http_port"])

    def tail(self, size: int = 4000) -> str:
        """The end of its log."""
        return self._log.read_text()[-size:]

    def history(self) -> list[dict[str, Any]]:
        """What it has logged so far: each event with its facts."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if line.startswith(b"{"):
                    self._logged.append(json.loads(line))
        return self._logged

    def events(self) -> list[str]:
        """Names of what it has logged so far."""
        return [event.get("event", "") for event in self.history()]

    @property
    def running(self) -> bool:
        """Whether it has not ended yet; a sleeping process runs too."""
        return self.process.poll() is None

    def sleep(self) -> None:
        """Stop the process where it stands, as a frozen machine does."""
        os.kill(self.process.pid, signal.SIGSTOP)
        self.asleep = True

    def wake(self) -> None:
        """Let a sleeping process go on as if nothing had happened."""
        os.kill(self.process.pid, signal.SIGCONT)
        self.asleep = False

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def end(self) -> tuple[int, str]:
        """Wait until it has ended by itself; its exit code and its last words."""
        code = self.process.wait(DEADLINE_S)
        failed = [event["error"] for event in self.history() if event.get("event") == "failed"]
        return code, failed[-1] if failed else ""

    def terminate(self) -> int:
        """As Kubernetes does; returns the exit code."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.running:
            self.kill()
