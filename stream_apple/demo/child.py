"""A command of `stream-apple`, such as `run`, in a process of its own, exactly as an operator starts it."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeAlias

from stream_apple.config.sources import VARIABLE_PREFIX
from stream_apple.errors import BrokerError

ChildSettings: TypeAlias = dict[str, dict[str, str | int]]
"""Section -> key -> value, as in a configuration file."""

_LISTENING = ("started", "serving")  # the events with `http_port`
_STARTING_S = 0.1
_READY_S = 180.0
_ANSWER_S = 5.0
_STOP_S = 20.0
_LAST_LINES = 15

_IN_OTHER_WORDS = {
    "kernels to compile": "{who} compiles its kernels (half a minute on its first run, then never again)",
    "the group to assign partitions": "{who} joins its consumer group (3 s)",
}

# A proxy of the environment has no way to this machine's own ports.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ChildEndedError(Exception):
    """A process has ended too early, or with an error; `exit_code` is the process's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child(AbstractContextManager["Child"]):
    """A running command; use as a context, whose end stops it.

    command     such as `run`; its log names the port that it listens on
    directory   for its configuration file and its log
    settings    section -> key -> value

    address     of its HTTP server, once it listens
    """

    def __init__(self, command: str, directory: Path, settings: ChildSettings) -> None:
        self.address = ""
        self._command = command
        self._log = directory / f"{command}.log"
        file = directory / f"{command}.toml"
        file.write_text(_toml(settings), encoding="utf-8")
        python = [sys.executable, "-P", "-m"]
        run = [*python, "stream_apple", command, "--config", str(file), "--log-format", "json"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  the command is ours
                [*python, "stream_apple.demo.parent_death_signal", str(os.getpid()), *run],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Settings in the environment win over the file, and are meant for another cluster.
                env={name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIX)},
                # Ctrl-C in a terminal reaches the whole group; the process is to be stopped by us, once.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def check(self) -> None:
        """Raise ChildEndedError, with the last words of the process, if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise self._ended(code)

    def wait_until_listening(self) -> None:
        """Return when the process listens; ChildEndedError or BrokerError if it never does."""
        deadline = time.monotonic() + _READY_S
        while not self.address:
            for line in self._log.read_text(encoding="utf-8").splitlines():
                event = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
                if event.get("event") in _LISTENING:
                    self.address = f"http://127.0.0.1:{event['http_port']}"
                    return
            self._go_on(deadline, "listen")

    def wait_until_ready(self, tell: Callable[[str], None], who: str) -> None:
        """Return when the process is ready; ChildEndedError or BrokerError if it never is.

        tell  shows what is being waited for, of `who`
        """
        deadline = time.monotonic() + _READY_S
        reasons = [""]
        while reasons:
            with suppress(OSError):  # too busy to answer, or about to end
                reasons = self._waiting_for()
            if reasons:
                if reasons[0] in _IN_OTHER_WORDS:
                    tell(_IN_OTHER_WORDS[reasons[0]].format(who=who))
                self._go_on(deadline, f"be ready, and not to wait for {reasons[0] or 'an answer'}")

    def metrics(self) -> str:
        """Return the process's metrics in Prometheus's text format; OSError if it does not answer."""
        return self._get("/metrics").decode()

    def _waiting_for(self) -> list[str]:
        try:
            answer = self._get("/readyz")
        except urllib.error.HTTPError as error:
            answer = error.read()
        reasons: list[str] = json.loads(answer)["waiting_for"]
        return reasons

    def _get(self, path: str) -> bytes:
        with _opener.open(self.address + path, timeout=_ANSWER_S) as reply:
            body: bytes = reply.read()
            return body

    def _go_on(self, deadline: float, end: str) -> None:
        self.check()
        if time.monotonic() > deadline:
            raise BrokerError(f"expected `stream-apple {self._command}` to {end} within {_READY_S:g} s")
        time.sleep(_STARTING_S)

    def finish(self) -> None:
        """Stop the process; ChildEndedError if it did not end as it should."""
        self.stop()
        if self._process.returncode != 0:
            raise self._ended(self._process.returncode)

    def stop(self) -> None:
        """Tell the process to finish what it has begun; kill it if that takes too long."""
        try:
            self._process.terminate()
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ended(self, code: int) -> ChildEndedError:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        message = f"`stream-apple {self._command}` has ended ({how}):\n{self._last_words()}"
        return ChildEndedError(message, code if code > 0 else 1)

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        # Its last event has the error that a user can act on; what is no JSON was said before there were events.
        plain = [line for line in lines if not line.startswith("{")]
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        errors = [event["error"] for event in events if event["event"] == "failed"]
        return "\n".join((plain or errors or lines)[-_LAST_LINES:]) or "it said nothing"


def _toml(settings: ChildSettings) -> str:
    """Return the settings as TOML, in which text and numbers are written as in JSON."""
    sections = (
        f"[{section}]\n" + "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in entries.items())
        for section, entries in settings.items()
    )
    return "\n".join(sections)
