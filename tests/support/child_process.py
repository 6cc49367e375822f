"""Programs that tests start beside themselves, and that never outlive them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# The child asks the kernel to be killed with its parent; SIGKILL of pytest leaves nothing behind.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"


def start_child(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start the command in a process group of its own; what it says on either stream goes to the end of `log`.

    environment  variables besides those of this process
    The kernel ties the child to the thread that made it: start it in one that outlives it.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TIED, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
