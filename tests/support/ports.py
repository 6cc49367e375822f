"""TCP ports for servers that must be told theirs before they start."""

import random
import socket
from contextlib import suppress

# Below those that Linux hands out by itself: until the server listens, only another call like this could take one.
_RANGE = range(10_000, 32_000)
_draw = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Different ports that nobody uses at this moment."""
    found: set[int] = set()
    while len(found) < count:
        port = _draw.choice(_RANGE)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)
