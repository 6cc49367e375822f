"""Standard streams as whoever started the process has left them: closed, or with an encoding that lacks characters.

The numbers of closed ones are taken before anything else gets them.

A system gives the lowest free number to whatever is opened next. Without this, a socket of Kafka's client or a model
file would become number 2, and what a C library writes to standard error would go into it.
"""

import io
import os
import sys

_STREAMS = ("stdin", "stdout", "stderr")
"""Their places here are their numbers."""


def stand_in_for_closed() -> None:
    """Open the null device in place of each of the three that is closed; to be called before anything is opened."""
    for number, name in enumerate(_STREAMS):
        if _is_closed(number):
            # The lowest free number is this one, as all below it are open by now.
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)  # noqa: FBT003  it has no name
            if getattr(sys, name) is None:
                stream = open(opened, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)


def spell_what_can_not_be_encoded() -> None:
    """Have characters that the encoding of an output lacks, such as those of bars in ASCII, written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False
