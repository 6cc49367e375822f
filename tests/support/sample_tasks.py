"""Tasks for processes, which find them here by name."""

import os
import subprocess
import time
from pathlib import Path


def square(number: int) -> int:
    """A task."""
    return number * number


def fail(number: int) -> int:
    """A task with a fault."""
    raise ValueError(number)


def die(_: int) -> int:
    """A process that ends by itself."""
    os._exit(1)


def stay(note: Path) -> None:
    """Note the process, and the one that it starts, and never end."""
    child = subprocess.Popen(["sleep", "600"])
    note.write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def first_then_stay(note: Path | None) -> None:
    """Return at once without a note; else as above."""
    if note is not None:
        stay(note)
