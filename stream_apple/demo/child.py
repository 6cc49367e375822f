"""A command of `stream-apple`, such as `run`, in a process of its own, exactly as an operator starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self, TypeAlias

from stream_apple.config.sources import VARIABLE_PREFIX

ChildSettings: TypeAlias = dict[str, dict[str, str | int]]
"""Section -> key -> value, as in a configuration file."""

_LISTENING = ("started", "serving")  # the events with `http_port`
_STOP_S = 20.0
_LAST_LINES = 15


class ChildEndedError(Exception):
    """A process has ended too early, or with an error; `exit_code` is the process's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """A running command; use as a context, whose end stops it.

    command     such as `run`; its log names the port that it listens on
    directory   for its configuration file and its log
    settings    section -> key -> value
    """

    def __init__(self, command: str, directory: Path, settings: ChildSettings) -> None:
        self.command = command
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

    def port(self) -> int | None:
        """Return the port that the process listens on; None while it is starting."""
        for line in self._log.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and line.endswith("}"):
                event = json.loads(line)
                if event["event"] in _LISTENING:
                    return int(event["http_port"])
        return None

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ended(self, code: int) -> ChildEndedError:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        message = f"`stream-apple {self.command}` has ended ({how}):\n{self._last_words()}"
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
