"""Become another command that ends when its parent ends, however that ends: `python -m ... PARENT_PID COMMAND...`.

A parent that is killed can't clean up; Linux is asked to send the signal. Elsewhere the command just runs.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # see prctl(2); survives exec


def run_tied() -> None:
    """Tie this process to its parent, and replace it by the command of its arguments."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have ended before the line above: then nobody will ever send the signal.
        if os.getppid() != int(parent):
            sys.exit(f"expected process {parent} to be the parent, found that it has ended")
    os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    run_tied()
