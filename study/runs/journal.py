"""The journal of finished runs, a line of JSON each, so that a study that was stopped need not repeat them."""

import fcntl
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from stream_apple.errors import ConfigurationError, InputFileError


class Journal(AbstractContextManager["Journal"]):
    """A file that is only appended to; ConfigurationError if another process has it open, InputFileError if damaged.

    An incomplete last line, left by a process that was killed, is dropped; its run is done again.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("a+b")
        try:
            self._lock()
            self.records = self._read()
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Append a finished run to the file and flush it."""
        line = json.dumps({"key": key, **record}, allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        self.records[key] = record

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"{self._path}: expected to be the only study that writes there, found another that runs"
            ) from None

    def _read(self) -> dict[str, dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        records = {}
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
                records[record.pop("key")] = record
            except (ValueError, KeyError, AttributeError, TypeError):
                raise InputFileError(
                    f"{self._path}:{number}: expected a finished run as JSON, found {line[:80]!r}"
                ) from None
        return records
